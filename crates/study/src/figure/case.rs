//! What a figure asks of the simulator, and what it measures there.

use super::expression::Measure;
use crate::ip;
use crate::phy::{self, Phy, PhySpec};
use crate::replay::{Source, Target};
use crate::spin::{self, SpinSpec};
use crate::{IpSpec, MachineSpec, Messages, Observer, ReplayOutcome, ReplaySpec, StudyError, TrafficOutcome, TrafficSpec};
use narrows_machine::{NetworkKind, Overrides};
use narrows_replay::watch::Seen;
use narrows_topology::{Shape, Topology, Vertex};
use narrows_trace::generate::{self, Generated};
use narrows_trace::lines::strict;
use narrows_trace::{Program, ReadOptions, Totals};
use narrows_traffic::{Class, Point, QueueRow, Setup, Times, Work, loads, stage};
use narrows_units::{Bytes, SimTime};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// The machine of a case: `machine`, `nodes`, `set`, `network`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    machine: String,
    nodes: Option<u32>,
    #[serde(default)]
    set: Vec<String>,
    network: Option<String>,
}

/// `[topology.NAME]`: nodes, switches, cables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyCase {
    on: Machine,
}

/// `[traffic.NAME]`: synthetic traffic, as `narrows traffic` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficCase {
    on: Machine,
    /// Without one, all is in the list of classes.
    pattern: Option<String>,
    /// Others beside it, as `--class` has them.
    #[serde(default)]
    class: Vec<String>,
    load: Option<String>,
    size: Option<String>,
    injection: Option<String>,
    warmup: Option<String>,
    time: Option<String>,
    period: Option<String>,
    #[serde(default = "one")]
    seed: u64,
}

/// A trace: a file of the folder, or a pattern of `narrows generate` with its numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceSource {
    file: Option<String>,
    pattern: Option<String>,
    ranks: Option<u32>,
    steps: Option<u32>,
    bytes: Option<String>,
    cells: Option<Cells>,
    compute: Option<String>,
}

/// `cells = 64`, or `"128x256x128"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Cells {
    Cube(u32),
    Text(String),
}

impl Cells {
    fn read(&self) -> Result<generate::Cells, StudyError> {
        match self {
            Cells::Cube(side) => Ok(generate::Cells([*side; 3])),
            Cells::Text(text) => text.parse().map_err(|error| StudyError::Trace(error).of("cells")),
        }
    }
}

/// `[replay.NAME]`: a trace on a machine, as `narrows replay` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayCase {
    on: Machine,
    trace: TraceSource,
    #[serde(default = "linear")]
    mapping: String,
    ppn: Option<u32>,
    period: Option<String>,
    #[serde(default = "one")]
    seed: u64,
    collectives: Option<String>,
    /// Classes of synthetic traffic beside it.
    #[serde(default)]
    background: Vec<String>,
}

/// `[trace.NAME]`: what a trace itself has, without a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceCase {
    trace: TraceSource,
}

/// `[phy.NAME]`: frames over a link to the bit, as `narrows phy` has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhyCase {
    phy: String,
    #[serde(default)]
    ber: f64,
    frames: u64,
    #[serde(default = "full")]
    frame_bytes: usize,
    #[serde(default = "one")]
    seed: u64,
}

/// `[ip.NAME]`: pings and streams of IP, as `narrows traffic` has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IpCase {
    on: Machine,
    pattern: String,
    size: Option<String>,
    from: Option<String>,
    to: Option<String>,
    flows: Option<u32>,
    warmup: Option<String>,
    time: Option<String>,
    #[serde(default = "one")]
    seed: u64,
}

/// `[spin.NAME]`: packets through handlers, as `narrows spin` has them; a sweep over the lengths of packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpinCase {
    preset: String,
    hpus: Option<u32>,
    handler: Option<String>,
    cost: Option<String>,
    bytes: Vec<u64>,
}

fn full() -> usize {
    1518
}

fn one() -> u64 {
    1
}

fn linear() -> String {
    String::from("linear")
}

/// The sorts of cases, as `figure.toml` names their tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// `[topology.NAME]`
    Topology,
    /// `[traffic.NAME]`
    Traffic,
    /// `[replay.NAME]`
    Replay,
    /// `[trace.NAME]`
    Trace,
    /// `[phy.NAME]`
    Phy,
    /// `[ip.NAME]`
    Ip,
    /// `[spin.NAME]`
    Spin,
}

impl Sort {
    /// All of them.
    pub const ALL: [Sort; 7] = [Sort::Topology, Sort::Traffic, Sort::Replay, Sort::Trace, Sort::Phy, Sort::Ip, Sort::Spin];
}

/// A case, whatever its sort.
#[derive(Clone, Debug)]
pub enum Case {
    /// Of a network.
    Topology(TopologyCase),
    /// Of synthetic traffic.
    Traffic(TrafficCase),
    /// Of a replay.
    Replay(ReplayCase),
    /// Of a trace.
    Trace(TraceCase),
    /// Of a physical layer.
    Phy(PhyCase),
    /// Of IP over a network.
    Ip(IpCase),
    /// Of handlers.
    Spin(SpinCase),
}

/// A value that cannot be read: which key, and why.
fn read<T, E: Into<StudyError>>(key: &str, text: Option<&String>, parse: impl Fn(&str) -> Result<T, E>) -> Result<Option<T>, StudyError> {
    text.map(|text| parse(text).map_err(|error| error.into().of(key))).transpose()
}

fn time(key: &str, text: Option<&String>) -> Result<Option<SimTime>, StudyError> {
    read(key, text, str::parse)
}

impl Machine {
    fn spec(&self, folder: &Path) -> Result<MachineSpec, StudyError> {
        // A file of the folder, or a preset.
        let name = if self.machine.ends_with(".toml") { folder.join(&self.machine).display().to_string() } else { self.machine.clone() };
        let by_name = |text: &str| {
            let found = NetworkKind::ALL.iter().find(|kind| kind.name() == text).copied();
            found.ok_or_else(|| StudyError::expected(format!("\"{text}\""), format!("one of {}", NetworkKind::NAMES.join(", "))))
        };
        let network = read("network", self.network.as_ref(), by_name)?;
        Ok(MachineSpec { name, overrides: Overrides { nodes: self.nodes, set: self.set.clone() }, network })
    }
}

impl TraceSource {
    fn source(&self, folder: &Path) -> Result<Source, StudyError> {
        let numbers = [self.ranks.is_some(), self.steps.is_some(), self.bytes.is_some(), self.cells.is_some(), self.compute.is_some()];
        let only_pattern = numbers.contains(&true);
        match (&self.file, &self.pattern) {
            (Some(file), None) if !only_pattern => Ok(Source::File(folder.join(file))),
            (Some(_), None) => Err(StudyError::contradiction("trace: a file has its own ranks, steps, bytes, cells and compute")),
            (None, Some(name)) => {
                let pattern = generate::Pattern::by_name(name);
                let names = || format!("one of {}", generate::Pattern::ALL.map(generate::Pattern::name).join(", "));
                let pattern = pattern.ok_or_else(|| StudyError::expected(format!("pattern \"{name}\""), names()))?;
                let ranks = self.ranks.ok_or_else(|| StudyError::contradiction("trace: a pattern needs a number of ranks"))?;
                let bytes = read("bytes", self.bytes.as_ref(), str::parse::<Bytes>)?;
                let compute = time("compute", self.compute.as_ref())?;
                let steps = self.steps.unwrap_or(pattern.steps());
                let bytes = bytes.map(|bytes| bytes.0);
                let cells = self.cells.as_ref().map(Cells::read).transpose()?;
                Ok(Source::Pattern(pattern, generate::Parameters { ranks, steps, bytes, cells, compute }))
            }
            _ => Err(StudyError::expected("trace", "a file or a pattern")),
        }
    }
}

impl TrafficCase {
    fn spec(&self, folder: &Path) -> Result<TrafficSpec, StudyError> {
        let mut classes = Vec::new();
        if let Some(pattern) = &self.pattern {
            let mut class = Class::new("", pattern.parse()?);
            class.sizes = read("size", self.size.as_ref(), str::parse)?;
            if let Some(injection) = &self.injection {
                class.injection = injection.parse()?;
            }
            classes.push(class);
        } else if self.size.is_some() || self.injection.is_some() || self.class.is_empty() {
            return Err(StudyError::expected("size and injection are those of a pattern", "one, or nothing but classes"));
        }
        for named in &self.class {
            classes.push(Class::parse(named)?);
        }
        Ok(TrafficSpec {
            loads: read("load", self.load.as_ref(), loads)?,
            warmup: time("warmup", self.warmup.as_ref())?,
            time: time("time", self.time.as_ref())?,
            period: time("period", self.period.as_ref())?,
            seed: self.seed,
            ..TrafficSpec::new(self.on.spec(folder)?, Messages::Classes(classes))
        })
    }
}

impl ReplayCase {
    fn spec(&self, folder: &Path) -> Result<ReplaySpec, StudyError> {
        // A file of the folder, or the name of a mapping.
        let nodes = folder.join(&self.mapping);
        Ok(ReplaySpec {
            sources: vec![self.trace.source(folder)?],
            target: Target::Machine {
                machine: self.on.spec(folder)?,
                ppn: self.ppn,
                mapping: if nodes.is_file() { nodes.display().to_string() } else { self.mapping.clone() },
                period: time("period", self.period.as_ref())?,
                background: self.background.iter().map(|class| Class::parse(class)).collect::<Result<_, _>>()?,
            },
            scales: Vec::new(),
            timeline: None,
            processes: None,
            threads: 1,
            seed: self.seed,
            collectives: self.collectives.clone(),
        })
    }
}

impl PhyCase {
    fn spec(&self) -> Result<PhySpec, StudyError> {
        let phy = Phy::by_name(&self.phy)?;
        Ok(PhySpec { phy, ber: self.ber, frames: self.frames, frame_bytes: self.frame_bytes, seed: self.seed })
    }
}

impl SpinCase {
    fn spec(&self) -> Result<SpinSpec, StudyError> {
        let handlers = match (&self.handler, &self.cost) {
            (Some(name), None) => spin::handlers(name)?,
            (None, Some(text)) => spin::cost(text)?,
            _ => return Err(StudyError::expected("spin", "a handler or a cost")),
        };
        let name = self.handler.iter().chain(&self.cost).next().cloned().unwrap_or_default();
        let bytes = self.bytes.iter().copied().map(Bytes).collect();
        Ok(SpinSpec { preset: self.preset.clone(), hpus: self.hpus, pinned: false, name, handlers, bytes, rate: None })
    }
}

impl IpCase {
    fn spec(&self, folder: &Path) -> Result<IpSpec, StudyError> {
        let IpCase { on, pattern, size, from, to, flows, warmup, time, seed } = self.clone();
        let words = ip::Wording { pattern, size, from, to, flows, warmup, time };
        let spec = IpSpec::worded(on.spec(folder)?, &words)?;
        Ok(IpSpec { seed, ..spec })
    }
}

/// Named numbers of a case.
pub type Named = BTreeMap<String, Measure>;

impl Case {
    /// The case with these keys.
    ///
    /// # Errors
    /// Which one cannot be read, and why.
    pub fn read(sort: Sort, keys: &toml::Table, folder: &Path) -> Result<Case, StudyError> {
        fn of<T: DeserializeOwned>(keys: &toml::Table, case: fn(T) -> Case) -> Result<Case, StudyError> {
            let read = keys.clone().try_into().map(case);
            read.map_err(|error: toml::de::Error| StudyError::Contradiction(error.message().lines().collect::<Vec<_>>().join("; ")))
        }
        let case = match sort {
            Sort::Topology => of(keys, Case::Topology),
            Sort::Traffic => of(keys, Case::Traffic),
            Sort::Replay => of(keys, Case::Replay),
            Sort::Trace => of(keys, Case::Trace),
            Sort::Phy => of(keys, Case::Phy),
            Sort::Ip => of(keys, Case::Ip),
            Sort::Spin => of(keys, Case::Spin),
        }?;
        case.check(folder)?;
        Ok(case)
    }

    fn check(&self, folder: &Path) -> Result<(), StudyError> {
        match self {
            Case::Topology(case) => case.on.spec(folder).map(drop),
            Case::Traffic(case) => case.spec(folder).map(drop),
            Case::Replay(case) => case.spec(folder).map(drop),
            Case::Trace(case) => case.trace.source(folder).map(drop),
            Case::Phy(case) => case.spec().map(drop),
            Case::Ip(case) => case.spec(folder).map(drop),
            Case::Spin(case) => case.spec().map(drop),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// It cannot be run, was interrupted, or did not come to its end.
    pub fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Named, StudyError> {
        let wrong = StudyError::Contradiction;
        match self {
            Case::Topology(case) => {
                let machine = case.on.spec(folder)?.load(observer)?;
                let counts = machine.topology()?.counts();
                let numbers = [
                    ("nodes", counts.hosts),
                    ("switches", counts.switches),
                    ("host_cables", counts.host_cables),
                    ("switch_cables", counts.switch_cables),
                    ("radix", counts.radix),
                ];
                Ok(numbers.into_iter().map(|(name, count)| (name.to_owned(), Measure::Number(f64::from(count)))).collect())
            }
            Case::Traffic(case) => {
                let outcome = case.spec(folder)?.run(observer)?;
                outcome.failure().map_or_else(|| Ok(traffic(&outcome)), |failure| Err(wrong(failure)))
            }
            Case::Replay(case) => {
                let outcome = case.spec(folder)?.run(observer)?;
                match &outcome.replay.failure {
                    Some(failure) => Err(wrong(failure.clone())),
                    None => Ok(replay(&outcome)),
                }
            }
            Case::Trace(case) => trace(&case.trace.source(folder)?),
            Case::Ip(case) => {
                let outcome = case.spec(folder)?.run(observer)?;
                match outcome.failure() {
                    Some(failure) => Err(wrong(failure)),
                    None => Ok(outcome.measures().into_iter().map(|(name, value)| (name.to_owned(), Measure::Number(value))).collect()),
                }
            }
            Case::Spin(case) => {
                let measures = case.spec()?.run(observer)?.measures();
                Ok(measures.into_iter().map(|(name, values)| (name.to_owned(), Measure::Sweep(values))).collect())
            }
            Case::Phy(case) => {
                let measures = phy::measures(&case.spec()?.run(observer)?);
                Ok(measures.into_iter().map(|(name, value)| (name.to_owned(), Measure::Number(value))).collect())
            }
        }
    }
}

/// At each load; times where the network is not saturated.
fn traffic(outcome: &TrafficOutcome) -> Named {
    let mut found: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for point in &outcome.points {
        let mut add = |name: &str, value: f64| found.entry(name.to_owned()).or_default().push((point.load.unwrap_or(0.0), value));
        add("accepted", point.accepted);
        add("saturated", f64::from(u8::from(point.saturated)));
        for (name, histogram) in [("latency", point.latency()), ("fct", point.fct())] {
            if let Some(Times { mean, p50, p99, max }) = Times::of(&histogram).filter(|_| !point.saturated) {
                for (part, value) in [("mean", mean), ("p50", p50), ("p99", p99), ("max", max)] {
                    add(&format!("{name}_{part}_ns"), value);
                }
            }
        }
        for class in point.classes.iter().filter(|class| !class.name.is_empty()) {
            add(&format!("{}_accepted", class.name), class.accepted);
            for (name, histogram) in [("latency", &class.latency), ("fct", &class.fct)] {
                if let Some(Times { mean, p50, p99, max }) = Times::of(histogram).filter(|_| !class.saturated) {
                    for (part, value) in [("mean", mean), ("p50", p50), ("p99", p99), ("max", max)] {
                        add(&format!("{}_{name}_{part}_ns", class.name), value);
                    }
                }
            }
        }
        for (name, value) in settled(&outcome.setup, point) {
            add(&name, value);
        }
        if let Some(telemetry) = &point.telemetry {
            let periods = telemetry.queue_rows.iter().map(|row| row.period + 1).max().unwrap_or(1);
            for (name, value) in queues(&outcome.setup.topology, &telemetry.queue_rows, periods) {
                add(&name, value);
            }
        }
    }
    found.into_iter().map(|(name, values)| (name, Measure::Sweep(values))).collect()
}

/// Of each class that is looked at over time: how long it took to come within a tenth of what it gets in the last
/// quarter of the run, for good, since the last class began or ended; and what that is.
fn settled(setup: &Setup, point: &Point) -> Vec<(String, f64)> {
    let (Some(period), Work::Classes(classes)) = (setup.period, &setup.work) else { return Vec::new() };
    let last = point.series.iter().map(|row| row.period + 1).max().unwrap_or(0);
    let end = period * u64::from(last);
    let changes = classes.iter().flat_map(|class| [class.start, class.end]).filter(|&at| at < end);
    let change = changes.max().unwrap_or_default();
    let of_class = |(number, class): (u32, &Class)| {
        let rates: Vec<(u32, f64)> = point.series.iter().filter(|row| row.class == number).map(|row| (row.period, row.accepted)).collect();
        let quarter: Vec<f64> = rates.iter().filter(|(at, _)| *at >= last - last / 4).map(|(_, rate)| *rate).collect();
        let rate = quarter.iter().sum::<f64>() / quarter.len().max(1) as f64;
        let off = rates.iter().rev().find(|(_, of_period)| (of_period - rate).abs() > 0.1 * rate);
        let since = off.map_or(SimTime::ZERO, |(at, _)| (period * u64::from(at + 1)).saturating_sub(change));
        [(format!("{}_rate", class.name), rate), (format!("{}_settled_us", class.name), since.as_s_f64() * 1e6)]
    };
    (0..).zip(classes).filter(|(_, class)| !class.name.is_empty()).flat_map(of_class).collect()
}

/// Of output queues: the most packets in one, and the packets in all on average over time, of all switches and of each
/// stage.
fn queues(topology: &Topology, rows: &[QueueRow], periods: u32) -> BTreeMap<String, f64> {
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows {
        let link = topology.links()[row.link as usize];
        let mut names = vec![String::from("queue"), format!("queue_{}", stage(topology, &link).replace(' ', "_"))];
        // Stage n of a tree is its n-th level from below, whichever way its packets go.
        if let (Vertex::Switch(switch), Shape::FatTree(tree)) = (link.from, topology.shape()) {
            let level = (1..=tree.levels()).rev().find(|&level| tree.first_switch(level) <= switch).unwrap_or(1);
            names.push(format!("queue_stage_{level}"));
        }
        for name in names {
            let most = found.entry(format!("{name}_max")).or_default();
            *most = most.max(f64::from(row.max_packets));
            *found.entry(format!("{name}_mean")).or_default() += f64::from(row.mean_packets) / f64::from(periods);
        }
    }
    found
}

fn replay(outcome: &ReplayOutcome) -> Named {
    let replay = &outcome.replay;
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    let mut add = |name: &str, value: f64| found.insert(name.to_owned(), value);
    let us = |time: SimTime| time.as_s_f64() * 1e6;
    add("ranks", replay.rank_finish.len() as f64);
    add("messages", replay.messages() as f64);
    add("bytes", replay.bytes() as f64);
    add("events", replay.events as f64);
    add("finish_us", replay.finish.as_s_f64() * 1e6);
    add("rank_0_us", replay.rank_finish.first().map_or(0.0, |finish| finish.as_s_f64() * 1e6));
    add("mean_us", replay.rank_finish.iter().map(|time| us(*time)).sum::<f64>() / replay.rank_finish.len().max(1) as f64);
    add("computing_us", replay.rank_computing.iter().map(|time| us(*time)).sum::<f64>() / replay.rank_computing.len().max(1) as f64);
    if let [application] = replay.applications.as_slice() {
        add("fct_mean_us", us(application.fct.mean()));
        add("fct_p50_us", us(application.fct.quantile(0.5)));
        add("fct_p90_us", us(application.fct.quantile(0.9)));
        add("fct_p99_us", us(application.fct.quantile(0.99)));
        add("fct_max_us", us(application.fct.max()));
    }
    if let (Some(Seen { telemetry: Some(telemetry), applications, .. }), Some(topology)) = (&replay.seen, outcome.topology()) {
        let periods = applications.iter().map(Vec::len).max().unwrap_or(1).max(1) as u32;
        found.extend(queues(topology, &telemetry.queue_rows, periods));
    }
    if let Some(energy) = &outcome.energy {
        found.insert(String::from("energy_j"), energy.total());
    }
    found.into_iter().map(|(name, value)| (name, Measure::Number(value))).collect()
}

/// Counts the operations of a trace.
fn trace(source: &Source) -> Result<Named, StudyError> {
    let mut program: Box<dyn Program> = match source {
        Source::File(path) => Box::new(narrows_trace::read(path, ReadOptions::default(), &mut strict)?.program),
        Source::Pattern(pattern, parameters) => Box::new(Generated::new(*pattern, *parameters)?),
        Source::Extrapolated(recordings) => Box::new(recordings.extrapolate(&crate::Silent)?.model.program()),
    };
    let Totals { messages, bytes, calls, .. } = Totals::of(&mut *program)?;
    let numbers = [
        ("ranks", f64::from(program.ranks())),
        ("messages", messages as f64),
        ("bytes", bytes as f64),
        ("parts_of_collectives", calls as f64),
    ];
    Ok(numbers.into_iter().map(|(name, count)| (name.to_owned(), Measure::Number(count))).collect())
}
