//! One point: warm-up, measurement, drain.

use crate::engine::{Engine, assemble};
use crate::meter::{ClassMeter, Totals};
use crate::point::{ClassPoint, FlowTime, Point, Series};
use crate::setup::Setup;
use crate::source::Plan;
use crate::telemetry::Telemetry;
use crate::{TrafficError, Work};
use narrows_fabric::{NetworkConfig, Statistics, Undelivered};
use narrows_spin::HandlerReport;
use narrows_units::{Bytes, SimTime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Warm-up ends when throughput and mean latency of two stretches differ by less than this: BookSim 2's two thresholds
/// (`warmup_thres` and `acc_warmup_thres`, 0.05).
const STEADY: f64 = 0.05;
/// A stretch is this part of the measurement ...
const STRETCHES: u64 = 5;
/// ... and after so many of them the measurement begins, steady or not.
const MAX_STRETCHES: u32 = 15;
/// A class is saturated when more than this part of what it generated within the window did not arrive within it, that
/// is no chance (see [`Simulation::backlog`]), and it was so in the second half of the window too; or when more than
/// this part of its messages was not done after as much time again.
const SHORTFALL: f64 = 0.03;
/// Standard deviations that are no chance.
const NO_CHANCE: f64 = 4.0;
/// A backlog that grows all the time has grown by half in the second half of a window, and by at least this part. One
/// that has come with the first messages has not.
const LATE_GROWTH: f64 = 0.4;
/// A window shorter than so many of the fastest messages is too short: half of it would be a few messages' way ...
const FASTEST_MESSAGES: u64 = 8;
/// ... and where messages had less than so many to be done, nobody can say that they never are.
const FASTEST_TO_THE_END: u64 = 4;
/// About as many events between two looks at the caller's wish to go on: half a second. In large networks a slice must
/// be longer than the windows in which regions work by themselves.
const SLICE: u64 = 1_500_000;

/// A network with its traffic, before its first event.
pub struct Simulation<'a> {
    setup: &'a Setup,
    load: Option<f64>,
    plan: Arc<Plan>,
    engine: Box<dyn Engine + Send>,
    now: SimTime,
    /// Simulated time between two looks at the caller's wish.
    slice: SimTime,
    told_events: u64,
    series: Vec<Series>,
    /// Totals of the classes at the last sample.
    sampled: Vec<Totals>,
    next_sample: SimTime,
    last_sample: SimTime,
    samples: u32,
}

/// Wire bytes that a class generated and that did not arrive, over some time.
#[derive(Default)]
struct Backlog {
    growth: f64,
    falls_short: bool,
}

/// What is known of a point beside its numbers; see [`Point`].
struct State {
    steady: bool,
    partial: bool,
    too_short: Option<SimTime>,
}

/// The least window that would do, where this one is shorter. Nothing is known before the first message is done: the
/// fastest of the run, as most often in a network that was still empty.
fn too_short(meter: &ClassMeter, window: SimTime) -> Option<SimTime> {
    let least = SimTime(meter.fastest.time()?) * FASTEST_MESSAGES;
    (window < least).then_some(least)
}

/// Told now and then how far a point is: simulated time, and the events since the last time. False ends it.
type Control<'c> = &'c mut dyn FnMut(SimTime, u64) -> bool;

impl<'a> Simulation<'a> {
    /// Assembles network and sources for a point. `load`: of the classes that have none of their own.
    ///
    /// # Errors
    /// See [`TrafficError`].
    pub fn new(setup: &'a Setup, load: Option<f64>) -> Result<Simulation<'a>, TrafficError> {
        let plan = Arc::new(setup.plan(load)?);
        let engine = assemble(setup, &plan)?;
        Ok(Simulation {
            load,
            engine,
            now: SimTime::ZERO,
            slice: SimTime::from_us(1),
            told_events: 0,
            series: Vec::new(),
            sampled: vec![Totals::default(); plan.classes()],
            next_sample: setup.period.unwrap_or(SimTime::MAX),
            last_sample: SimTime::ZERO,
            samples: 0,
            plan,
            setup,
        })
    }

    /// Runs the point. `control` is told the simulated time and the events since it was told last, about ten times a
    /// second; when it says false the point ends with what it has, marked as partial.
    ///
    /// With [`Setup::processes`] the events are those of all, any of them can end the point, and only the first one
    /// gets all of its result.
    ///
    /// # Errors
    /// Only where there are other processes: they cannot go on together.
    pub fn run(mut self, control: Control<'_>) -> Result<Point, TrafficError> {
        match self.setup.work {
            Work::Flows(_) => self.run_flows(control),
            Work::Classes(_) => self.run_classes(control),
        }
    }

    /// What all processes have, put together: `mine` is that of this one.
    fn together<T: Serialize + DeserializeOwned>(&self, mine: T, add: impl Fn(&mut T, T)) -> Result<T, TrafficError> {
        let Some(processes) = &self.setup.processes else { return Ok(mine) };
        let mut all = processes.gather(&mine)?.into_iter();
        let mut sum = all.next().unwrap_or(mine);
        all.for_each(|more| add(&mut sum, more));
        Ok(sum)
    }

    fn run_flows(&mut self, control: Control<'_>) -> Result<Point, TrafficError> {
        self.open_window(SimTime::ZERO, SimTime::MAX);
        let limit = self.setup.time.unwrap_or(SimTime::MAX);
        let flows = self.plan.flows.len() as u64;
        let mut go_on = true;
        while go_on && self.now < limit && self.totals()?.iter().map(|class| class.done).sum::<u64>() < flows {
            go_on = self.run_slice(limit, control)?;
        }
        // All done: the time is that of the last one, wherever the last look was.
        let (mut done, mut last) = (0, SimTime::ZERO);
        self.engine.posts(&mut |post| {
            done += post.sources.flow_times.len() as u64;
            let ends = post.sources.flow_times.iter().map(|(&flow, &fct)| self.plan.flows[flow as usize].start + SimTime(fct));
            last = last.max(ends.max().unwrap_or_default());
        });
        let (done, last) = self.together((done, last), |sum, more| *sum = (sum.0 + more.0, sum.1.max(more.1)))?;
        if done == flows && flows > 0 {
            self.now = last;
        }
        self.finish(SimTime::ZERO, self.now, &[false], State { steady: true, partial: !go_on, too_short: None })
    }

    fn run_classes(&mut self, control: Control<'_>) -> Result<Point, TrafficError> {
        let measured = self.setup.measured();
        let mut steady = true;
        let mut go_on = true;
        let begin = match self.setup.warmup {
            Some(warmup) => warmup,
            None => {
                (go_on, steady) = self.warm_up(SimTime((measured.as_ps() / STRETCHES).max(1)), control)?;
                // Arrivals are told when a packet starts on its last link: the window must be known by then.
                let NetworkConfig { host_link, .. } = &self.setup.network;
                self.now + (host_link.latency + host_link.rate.time_for(self.setup.network.packet())) * 2
            }
        };
        let end = begin + measured;
        self.open_window(begin, end);
        go_on = go_on && self.run_until(begin, control)?;
        let begin = begin.min(self.now);
        let before = self.totals()?;
        go_on = go_on && self.run_until(begin + measured / 2, control)?;
        let half = self.totals()?;
        go_on = go_on && self.run_until(end, control)?;
        let window = self.now.saturating_sub(begin);
        if !go_on {
            self.open_window(begin, self.now);
        }
        let meters = self.meters()?;
        let mut saturated = vec![false; meters.len()];
        for (class, meter) in meters.iter().enumerate().filter(|(_, meter)| too_short(meter, window).is_none()) {
            let [whole, late] = [&before[class], &half[class]].map(|before| self.backlog(class, before, meter));
            saturated[class] = whole.falls_short && (late.falls_short || late.growth >= LATE_GROWTH * whole.growth);
            steady &= saturated[class] || !whole.falls_short;
        }
        // Messages of the window are followed to their end, unless there is none.
        let limit = end + measured;
        let step = SimTime((measured.as_ps() / 50).max(1));
        while go_on && !saturated.contains(&true) && self.now < limit && self.unfinished()? > 0 {
            go_on = self.run_until((self.now + step).min(limit), control)?;
        }
        let meters = self.meters()?;
        if self.now == limit {
            // They had as much time again: where they wait behind a backlog, it is one that does not go away.
            for (class, _) in self.plan.generators.iter().enumerate().filter(|(_, generator)| generator.load.is_some()) {
                let open = meters[class].open() as f64 > SHORTFALL * meters[class].messages as f64;
                saturated[class] |=
                    open && meters[class].fastest.time().is_none_or(|fastest| measured >= SimTime(fastest) * FASTEST_TO_THE_END);
            }
        }
        let rated = meters.iter().zip(&self.plan.generators).filter(|(_, generator)| generator.load.is_some());
        let known = rated.zip(&saturated).filter(|(_, saturated)| !**saturated);
        let too_short = known.filter_map(|((meter, _), _)| too_short(meter, window)).max();
        let state = State { steady: steady && too_short.is_none(), partial: !go_on, too_short };
        self.finish(begin, window, &saturated, state)
    }

    /// Runs stretches until two in a row are alike; whether to go on, and whether they were.
    fn warm_up(&mut self, stretch: SimTime, control: Control<'_>) -> Result<(bool, bool), TrafficError> {
        let all = |classes: Vec<Totals>| {
            let mut sum = Totals::default();
            classes.iter().for_each(|class| sum.add(class));
            sum
        };
        let mut before: Option<Totals> = None;
        for _ in 0..MAX_STRETCHES {
            let begin = all(self.totals()?);
            if !self.run_until(self.now + stretch, control)? {
                return Ok((false, false));
            }
            let now = all(self.totals()?).since(&begin);
            if let Some(before) = before
                && now.packets > 0
                && before.packets > 0
            {
                let alike = |one: f64, other: f64| (one - other).abs() <= STEADY * other;
                let mean = |totals: &Totals| totals.latency as f64 / totals.packets as f64;
                if alike(now.accepted as f64, before.accepted as f64) && alike(mean(&now), mean(&before)) {
                    return Ok((true, true));
                }
            }
            before = Some(now);
        }
        Ok((true, false))
    }

    /// How the backlog of a class grew since `before`, and whether by more than [`SHORTFALL`] of what was generated and
    /// by more than the messages on their way at its two ends can differ by chance (each counted as an independent one
    /// of the class).
    fn backlog(&self, class: usize, before: &Totals, meter: &ClassMeter) -> Backlog {
        if self.plan.generators.get(class).is_none_or(|generator| generator.load.is_none()) {
            return Backlog::default();
        }
        let since = meter.totals.since(before);
        let growth = since.offered as f64 - since.accepted as f64;
        let on_their_way = (before.generated - before.done) + (meter.totals.generated - meter.totals.done);
        let mean_square = meter.squares as f64 / meter.messages.max(1) as f64;
        let chance = NO_CHANCE * (on_their_way as f64 * mean_square).sqrt();
        Backlog { growth, falls_short: growth > SHORTFALL * since.offered as f64 && growth > chance }
    }

    /// Measures from `begin` up to `end`.
    fn open_window(&mut self, begin: SimTime, end: SimTime) {
        self.engine.posts(&mut |post| post.sources.meter.open(begin.as_ps(), end.as_ps()));
    }

    /// Counts since the start, by class.
    fn totals(&mut self) -> Result<Vec<Totals>, TrafficError> {
        let mut sums = vec![Totals::default(); self.plan.classes()];
        self.engine.posts(&mut |post| {
            sums.iter_mut().zip(&post.sources.meter.classes).for_each(|(sum, class)| sum.add(&class.totals));
        });
        self.together(sums, |sums, more| sums.iter_mut().zip(&more).for_each(|(sum, more)| sum.add(more)))
    }

    /// Messages generated within the window that are not done.
    fn unfinished(&mut self) -> Result<u64, TrafficError> {
        let (mut messages, mut done) = (0, 0);
        self.engine.posts(&mut |post| {
            messages += post.sources.meter.classes.iter().map(|class| class.messages).sum::<u64>();
            done += post.sources.meter.classes.iter().map(|class| class.fct.count()).sum::<u64>();
        });
        let (messages, done) = self.together((messages, done), |sum, more| *sum = (sum.0 + more.0, sum.1 + more.1))?;
        Ok(messages - done)
    }

    /// The meters of all regions together, by class.
    fn meters(&mut self) -> Result<Vec<ClassMeter>, TrafficError> {
        let mut sums = vec![ClassMeter::default(); self.plan.classes()];
        self.engine.posts(&mut |post| {
            sums.iter_mut().zip(&post.sources.meter.classes).for_each(|(sum, class)| sum.merge(class));
        });
        self.together(sums, |sums, more| sums.iter_mut().zip(&more).for_each(|(sum, more)| sum.merge(more)))
    }

    /// Handles everything before `until`; false when the caller wants no more.
    fn run_until(&mut self, until: SimTime, control: Control<'_>) -> Result<bool, TrafficError> {
        while self.now < until {
            if !self.run_slice(until, control)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A part of the way to `until`, as long as a tenth of a second of work or so; false when the caller wants no more.
    fn run_slice(&mut self, until: SimTime, control: Control<'_>) -> Result<bool, TrafficError> {
        let to = (self.now + self.slice).min(until).min(self.next_sample);
        let whole = to == self.now + self.slice;
        self.engine.run_until(to)?;
        self.now = to;
        let events = self.engine.events() - self.told_events;
        self.told_events += events;
        let events = self.together(events, |sum, more| *sum += more)?;
        if events < SLICE / 2 && whole {
            self.slice = self.slice * 2;
        } else if events > SLICE * 2 {
            self.slice = SimTime((self.slice.as_ps() / 2).max(1));
        }
        if to == self.next_sample {
            self.sample()?;
        }
        self.together(control(to, events), |all, more| *all &= more)
    }

    /// Ends a period.
    fn sample(&mut self) -> Result<(), TrafficError> {
        let at = self.next_sample;
        self.engine.posts(&mut |post| {
            if let Some(telemetry) = &mut post.telemetry {
                telemetry.sample(at.as_ps());
            }
        });
        let length = at.saturating_sub(self.last_sample);
        for (class, totals) in self.totals()?.into_iter().enumerate() {
            let period = totals.since(&self.sampled[class]);
            let capacity = self.capacity(self.plan.senders(class).len(), length);
            self.series.push(Series {
                period: self.samples,
                class: class as u32,
                offered: period.offered as f64 / capacity,
                accepted: period.accepted as f64 / capacity,
                latency_ns: (period.packets > 0).then(|| period.latency as f64 / period.packets as f64 / 1e3),
            });
            self.sampled[class] = totals;
        }
        self.samples += 1;
        self.last_sample = at;
        self.next_sample = at + self.setup.period.unwrap_or(SimTime::MAX);
        Ok(())
    }

    /// Wire bytes that so many nodes can inject in a time; above 0.
    fn capacity(&self, sources: usize, time: SimTime) -> f64 {
        // The time of a megabyte, rounded up to a picosecond, as the networks have it.
        let per_byte = self.setup.network.host_link.rate.time_for(Bytes(1_000_000)).as_ps() as f64 / 1e6;
        (sources as f64 * time.as_ps() as f64 / per_byte).max(f64::MIN_POSITIVE)
    }

    fn finish(&mut self, begin: SimTime, window: SimTime, saturated: &[bool], state: State) -> Result<Point, TrafficError> {
        let State { steady, partial, too_short } = state;
        let end = begin + window;
        let meters = self.meters()?;
        let mut senders = BTreeSet::new();
        let mut classes = Vec::new();
        for (index, (meter, &saturated)) in meters.iter().zip(saturated).enumerate() {
            let nodes = self.plan.senders(index);
            let generator = self.plan.generators.get(index);
            // A class may send during a part of the window only.
            let active = generator.map_or(window, |class| class.end.min(end).saturating_sub(class.start.max(begin)));
            let capacity = self.capacity(nodes.len(), active.max(SimTime(1)));
            classes.push(ClassPoint {
                name: generator.map_or_else(|| String::from("flows"), |generator| generator.name.clone()),
                load: generator.and_then(|generator| generator.load),
                sources: nodes.len(),
                offered: meter.offered as f64 / capacity,
                accepted: meter.accepted as f64 / capacity,
                saturated,
                latency: meter.latency.clone(),
                fct: meter.fct.clone(),
                slow_down: meter.slow_down.clone(),
                unfinished: meter.open(),
            });
            senders.extend(nodes);
        }
        let capacity = self.capacity(senders.len(), window);
        let sum = |part: fn(&ClassMeter) -> u64| meters.iter().map(part).sum::<u64>() as f64 / capacity;
        let End { statistics, events, undelivered, flow_times, telemetry, handlers } = self.end()?;
        let mut flows: Vec<FlowTime> = (0..self.plan.flows.len() as u32).map(|flow| FlowTime { flow, fct: None }).collect();
        for (flow, fct) in flow_times {
            flows[flow as usize].fct = Some(SimTime(fct));
        }
        Ok(Point {
            load: self.load,
            offered: sum(|class| class.offered),
            accepted: sum(|class| class.accepted),
            saturated: saturated.contains(&true),
            partial,
            steady,
            too_short,
            warmup: begin,
            measured: window,
            simulated: self.now,
            classes,
            statistics,
            undelivered: undelivered.into_iter().min_by_key(|flow| (flow.at, flow.from, flow.target)),
            handlers,
            events,
            windows: self.engine.windows(),
            digest: self.engine.digest()?,
            flows,
            series: std::mem::take(&mut self.series),
            telemetry,
        })
    }

    /// What was counted and seen in all regions; of all processes, for the first one.
    fn end(&mut self) -> Result<End, TrafficError> {
        let mut end = End { statistics: self.engine.statistics(), events: self.engine.events(), ..End::default() };
        self.engine.posts(&mut |post| {
            end.undelivered.extend(post.undelivered.clone());
            end.flow_times.extend(post.sources.flow_times.iter().map(|(&flow, &time)| (flow, time)));
            if let Some(handlers) = &post.handlers {
                end.handlers.get_or_insert_default().add(&handlers.report());
            }
            match (&mut end.telemetry, post.telemetry.take()) {
                (Some(all), Some(mut more)) => all.merge(more.take()),
                (None, Some(first)) => end.telemetry = Some(Box::new(first)),
                _ => {}
            }
        });
        if let Some(processes) = &self.setup.processes {
            let seen = end.telemetry.as_mut().map(|telemetry| telemetry.take());
            let all = processes.gather_at_first(&(end.statistics, end.events, (end.undelivered, end.flow_times, end.handlers), seen))?;
            end = End { telemetry: end.telemetry, ..End::default() };
            for (statistics, events, (undelivered, flow_times, handlers), seen) in all {
                end.statistics = end.statistics + statistics;
                end.events += events;
                end.undelivered.extend(undelivered);
                end.flow_times.extend(flow_times);
                if let Some(handlers) = handlers {
                    end.handlers.get_or_insert_default().add(&handlers);
                }
                end.telemetry.iter_mut().zip(seen).for_each(|(telemetry, seen)| telemetry.merge(seen));
            }
        }
        end.telemetry.iter_mut().for_each(|telemetry| telemetry.settle());
        Ok(end)
    }
}

/// What is left when a point is over.
#[derive(Default)]
struct End {
    statistics: Statistics,
    events: u64,
    undelivered: Vec<Undelivered>,
    /// By number.
    flow_times: Vec<(u32, u64)>,
    telemetry: Option<Box<Telemetry>>,
    handlers: Option<HandlerReport>,
}
