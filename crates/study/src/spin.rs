//! Handlers on a NIC that computes: throughput, cycles and latency for lengths of packets.

use crate::{Observer, StudyError};
use narrows_output::Meter;
use narrows_results::{Column, Table};
use narrows_spin::{Cost, Failure, Handlers, Load, Outcome, Program, SpinConfig, SpinError};
use narrows_units::{ByteRate, Bytes};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Packets of several lengths through one machine.
#[derive(Clone, Debug)]
pub struct SpinSpec {
    /// The machine's preset.
    pub preset: String,
    /// HPUs; none: those of the preset. More than those of a cluster must fill clusters.
    pub hpus: Option<u32>,
    /// All packets of a message on one HPU.
    pub pinned: bool,
    /// What they are called.
    pub name: String,
    /// The handlers.
    pub handlers: Handlers,
    /// Lengths of packets.
    pub bytes: Vec<Bytes>,
    /// What arrives; none: as much as the way in takes.
    pub rate: Option<ByteRate>,
}

/// What came of one length.
#[derive(Clone, Debug)]
struct Point {
    bytes: Bytes,
    gbps: f64,
    cycles: f64,
    latency_ns: f64,
    loaded_ns: f64,
    passed: u64,
    failures: u64,
    failure: Option<Failure>,
}

/// What came of all.
#[derive(Clone, Debug)]
pub struct SpinOutcome {
    spec: SpinSpec,
    config: SpinConfig,
    points: Vec<Point>,
}

/// Handlers by the name of a fitted function, or from an ELF file.
///
/// # Errors
/// There is no such name, or the file holds no handlers.
pub fn handlers(name: &str) -> Result<Handlers, StudyError> {
    if let Some((_, cost)) = Cost::FITTED.iter().find(|(known, _)| *known == name) {
        return Ok(Handlers::Cost(*cost));
    }
    let path = Path::new(name);
    if path.extension().is_none() && !path.exists() {
        let known = Cost::FITTED.map(|(known, _)| known).join(", ");
        return Err(StudyError::expected(format!("handler \"{name}\""), format!("an ELF file, or one of {known}")));
    }
    let file = std::fs::read(path).map_err(|error| StudyError::Read { path: path.to_owned(), error })?;
    Program::from_elf(&file).map(Handlers::Program).map_err(|error| StudyError::contradiction(error.to_string()).of(name))
}

/// A function from its text: `CYCLES,PER_BYTE,PER_WORD,ACTION`, and maybe the bytes of a header.
///
/// # Errors
/// It is another text.
pub fn cost(text: &str) -> Result<Handlers, StudyError> {
    let wrong = || StudyError::expected(format!("cost \"{text}\""), Cost::expected());
    Cost::parse(text).map(Handlers::Cost).ok_or_else(wrong)
}

impl SpinSpec {
    /// Sends packets of each length: one alone, and as many as come in.
    ///
    /// # Errors
    /// No such preset, or packets or HPUs that it cannot have.
    pub fn run(&self, observer: &dyn Observer) -> Result<SpinOutcome, StudyError> {
        let known = || StudyError::expected(format!("preset \"{}\"", self.preset), SpinConfig::PRESETS.join(" or "));
        let mut config = SpinConfig::preset(&self.preset).ok_or_else(known)?;
        match self.hpus {
            None => {}
            Some(few) if (1..=config.hpus).contains(&few) => (config.clusters, config.hpus) = (1, few),
            Some(many) if many % config.hpus == 0 && (1..=16).contains(&(many / config.hpus)) => config.clusters = many / config.hpus,
            Some(other) => {
                let expected = format!("1 to {}, or a multiple of that, up to {}", config.hpus, 16 * config.hpus);
                return Err(StudyError::expected(format!("{other} HPUs"), expected));
            }
        }
        config.pinned = self.pinned;
        let meter = Arc::new(Meter::new(self.bytes.len() as u64));
        let part = observer.part(String::from("packets through handlers"), &meter, Box::new(String::new));
        let mut points = Vec::new();
        for &bytes in &self.bytes {
            let load = Load { rate: self.rate, ..Load::new(bytes) };
            let run = |load: Load| {
                load.run(&config, &self.handlers, || observer.goes_on()).map_err(|error| match error {
                    SpinError::Interrupted => StudyError::Interrupted,
                    error => StudyError::contradiction(error.to_string()),
                })
            };
            // The first packet brings the program; the second one is alone and warm: a byte in a second leaves time for
            // the budget of any handler.
            let alone = run(Load { packets: 2, messages: 1, rate: Some(ByteRate(1)), ..load.clone() })?;
            let all = run(load)?;
            let Outcome { passed, failures, failure, .. } = all;
            let latency_ns = alone.packets.last().map_or(0.0, |(arrived, freed)| freed.saturating_sub(*arrived).as_ns_f64());
            let (gbps, cycles, loaded_ns) = (all.throughput() / 1e9, all.mean_cycles(), all.latency_ns());
            points.push(Point { bytes, gbps, cycles, latency_ns, loaded_ns, passed, failures, failure });
            meter.add(1);
        }
        drop(part);
        Ok(SpinOutcome { spec: self.clone(), config, points })
    }
}

impl SpinOutcome {
    /// All numbers.
    pub fn summary(&self) -> Value {
        let points = self.points.iter().map(|point| {
            json!({
                "bytes": point.bytes.0,
                "gbps": point.gbps,
                "cycles": point.cycles,
                "latency_ns": point.latency_ns,
                "latency_loaded_ns": point.loaded_ns,
                "passed": point.passed,
                "failures": point.failures,
                "failure": point.failure.map(|failure| failure.to_string()),
            })
        });
        json!({
            "preset": self.spec.preset,
            "handler": self.spec.name,
            "clusters": self.config.clusters,
            "hpus": self.config.all_hpus(),
            "pinned": self.config.pinned,
            "cycle_ns": self.config.cycle.as_ns_f64(),
            "rate_gbps": self.spec.rate.map(|rate| rate.as_f64() * 8.0 / 1e9),
            "points": points.collect::<Vec<_>>(),
        })
    }

    /// A row for each length.
    pub fn table(&self) -> Table {
        let number = |value: &dyn Fn(&Point) -> f64| Column::Number(self.points.iter().map(|point| Some(value(point))).collect());
        Table::new(vec![
            ("bytes", number(&|point| point.bytes.0 as f64)),
            ("gbps", number(&|point| point.gbps)),
            ("cycles", number(&|point| point.cycles)),
            ("latency_ns", number(&|point| point.latency_ns)),
            ("latency_loaded_ns", number(&|point| point.loaded_ns)),
            ("passed", number(&|point| point.passed as f64)),
            ("failures", number(&|point| point.failures as f64)),
        ])
    }

    /// Its measures at each length: throughput in Gbit/s, cycles of a handler, latency of a packet that is alone in ns.
    pub fn measures(&self) -> [(&'static str, Vec<(f64, f64)>); 3] {
        let of = |value: fn(&Point) -> f64| self.points.iter().map(|point| (point.bytes.0 as f64, value(point))).collect();
        [("gbps", of(|point| point.gbps)), ("cycles", of(|point| point.cycles)), ("latency_ns", of(|point| point.latency_ns))]
    }

    /// To read.
    pub fn text(&self) -> String {
        let SpinConfig { clusters, hpus, cycle, .. } = &self.config;
        let mut text = format!("{} on {}: {clusters} x {hpus} HPUs, a cycle of {cycle}\n", self.spec.name, self.spec.preset);
        let _ = writeln!(text, "  {:>8} {:>9} {:>10} {:>12} {:>12}", "bytes", "Gbit/s", "cycles", "alone ns", "loaded ns");
        for point in &self.points {
            let Point { bytes, gbps, cycles, latency_ns, loaded_ns, .. } = point;
            let _ = writeln!(text, "  {:>8} {gbps:>9.1} {cycles:>10.1} {latency_ns:>12.1} {loaded_ns:>12.1}", bytes.0);
        }
        for point in self.points.iter().filter(|point| point.failures > 0) {
            if let Some(failure) = point.failure {
                let _ = writeln!(text, "  {} bytes: {} handlers went wrong; the first: {failure}", point.bytes.0, point.failures);
            }
        }
        text
    }
}
