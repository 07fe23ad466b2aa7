//! What a run takes at each time, from a timeline of its calls.

use super::{Used, no_power, of_processor};
use narrows_machine::Machine;
use narrows_results::{Chart, Column, Curve, Quantity, Table};
use narrows_timeline::perfetto::Counter;
use narrows_timeline::{ACCELERATOR, COMPUTE, Recorded, Window};
use narrows_units::{Power, ProcessorId, SimTime};

/// Stretches of time that a curve has; its values are means over one.
const STRETCHES: u64 = 400;

/// Where a rank was, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    /// Where.
    pub processor: ProcessorId,
    /// From the start of simulated time until it ended.
    pub end: SimTime,
}

/// The mean power in each stretch of a run's time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OverTime {
    /// Where the first stretch begins.
    from: SimTime,
    /// How long a stretch is.
    stretch: SimTime,
    /// In watts.
    watts: Vec<f64>,
}

/// Energies by stretch, in microwatts times picoseconds.
struct Stretches {
    from: SimTime,
    stretch: SimTime,
    energies: Vec<i128>,
}

impl Stretches {
    /// So much more power from `begin` to `end`; less, if it is negative.
    fn add(&mut self, begin: SimTime, end: SimTime, power: i128) {
        let last = self.from + self.stretch * self.energies.len() as u64;
        let (begin, end) = (begin.max(self.from), end.min(last));
        let mut now = begin;
        while now < end {
            let place = (now - self.from).0 / self.stretch.0;
            let until = end.min(self.from + self.stretch * (place + 1));
            self.energies[place as usize] += power * i128::from((until - now).0);
            now = until;
        }
    }
}

impl OverTime {
    /// Of a run that ended at `finish`, as far as its timeline goes. `live`: what lies between two calls is computing;
    /// of a replay, what its operations say. `None` where no part of the machine takes power, or no time has passed.
    pub(crate) fn of(
        machine: &Machine,
        used: &Used,
        stays: &[Stay],
        (recorded, window, finish): (&Recorded, Window, SimTime),
        live: bool,
    ) -> Option<OverTime> {
        let to = recorded.ended.map_or(window.to, |ended| ended.min(window.to)).min(finish);
        let length = to.saturating_sub(window.from);
        if no_power(machine) || length == SimTime::ZERO {
            return None;
        }
        let stretch = SimTime(length.0.div_ceil(STRETCHES));
        let count = length.0.div_ceil(stretch.0) as usize;
        let mut all = Stretches { from: window.from, stretch, energies: vec![0; count] };
        all.add(window.from, finish, i128::from(used.standing(machine)));
        let power = |Power(power)| i128::from(power);
        let of_rank = |stay: &Stay| of_processor(machine.processor(stay.processor).1).map(power);
        for stay in stays {
            let [core, waiting, _] = of_rank(stay);
            all.add(SimTime::ZERO, stay.end, if live { core } else { waiting });
        }
        for call in &recorded.calls {
            let Some(stay) = stays.get(call.rank as usize) else { continue };
            let [core, waiting, accelerator] = of_rank(stay);
            let more = match call.name {
                ACCELERATOR => accelerator,
                COMPUTE => core - waiting,
                _ if live => waiting - core,
                _ => 0,
            };
            all.add(call.begin, call.end.min(stay.end), more);
        }
        // The last stretch may reach beyond the end of the run.
        let span = |place: usize| {
            let begin = window.from + stretch * place as u64;
            (begin + stretch).min(finish) - begin
        };
        let mean = |(place, &energy): (usize, &i128)| energy as f64 / span(place).0 as f64 / 1e6;
        Some(OverTime { from: window.from, stretch, watts: all.energies.iter().enumerate().map(mean).collect() })
    }

    /// Where each stretch begins, and its mean power in watts.
    pub(crate) fn points(&self) -> impl Iterator<Item = (SimTime, f64)> + '_ {
        self.watts.iter().enumerate().map(|(place, &watts)| (self.from + self.stretch * place as u64, watts))
    }

    /// As a timeline has it.
    pub(crate) fn counter(&self) -> Counter {
        Counter { name: "power", unit: "W", points: self.points().collect() }
    }

    /// A row per stretch.
    pub(crate) fn table(&self) -> Table {
        Table::new(vec![
            ("begin_s", Column::Number(self.points().map(|(begin, _)| Some(begin.as_s_f64())).collect())),
            ("power_w", Column::Number(self.watts.iter().map(|&watts| Some(watts)).collect())),
        ])
    }

    /// As an SVG.
    pub(crate) fn picture(&self) -> String {
        let half = self.stretch.as_s_f64() / 2.0;
        let points = self.points().map(|(begin, watts)| (begin.as_s_f64() + half, Some(watts)));
        Chart {
            title: String::from("Power"),
            x: String::from("time"),
            x_in: Quantity::Seconds,
            y: String::from("W"),
            curves: vec![Curve { name: String::from("all parts"), points: points.collect(), dashed: false }],
            ..Chart::default()
        }
        .svg()
    }
}
