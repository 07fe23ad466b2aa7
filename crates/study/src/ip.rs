//! IP over a machine's network: pings and streams.

use crate::fabric_tables::{integers, numbers};
use crate::hardware::Networks;
use crate::{MachineSpec, Observer, StudyError};
pub use narrows_ip::Pattern;
use narrows_ip::{CpuTimes, Flow, IpError, Report, Setup};
use narrows_machine::Machine;
use narrows_output::{Meter, exit};
use narrows_results::{Histogram, Table, TableError, peak_memory};
use narrows_traffic::class::NodeList;
use narrows_units::{Bytes, SimTime};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Streams and datagrams are measured for so long, unless it is said ...
const TIME: SimTime = SimTime::from_us(20_000);
/// ... after so long.
const WARMUP: SimTime = SimTime::from_us(2_000);

/// Flows of IP.
#[derive(Clone, Debug)]
pub struct IpSpec {
    /// On which machine.
    pub machine: MachineSpec,
    /// On which of its networks; none: the first one.
    pub fabric: Option<String>,
    /// What each flow is.
    pub pattern: Pattern,
    /// Payload of a packet; none: that of the pattern, or a full packet.
    pub size: Option<Bytes>,
    /// Who begins; none: node 0.
    pub from: Vec<u32>,
    /// With whom, pair by pair; one of either is for all. None: the last host.
    pub to: Vec<u32>,
    /// Flows of each pair.
    pub flows: u32,
    /// Simulated time before the measurement.
    pub warmup: Option<SimTime>,
    /// Simulated time of the measurement; none: 20 ms, and of pings until the last is done.
    pub time: Option<SimTime>,
    /// Of every random choice.
    pub seed: u64,
    /// Of the simulator.
    pub threads: usize,
}

/// What came out.
#[derive(Debug)]
pub struct IpOutcome {
    /// Resolved.
    pub machine: Machine,
    /// What was asked for.
    pub spec: IpSpec,
    /// Name of the topology.
    pub topology: String,
    /// Wall time.
    pub wall: Duration,
    /// What was measured.
    pub report: Report,
}

impl IpSpec {
    /// On one thread with seed 1, from node 0 to the last host.
    pub fn new(machine: MachineSpec, pattern: Pattern) -> IpSpec {
        IpSpec {
            machine,
            fabric: None,
            pattern,
            size: None,
            from: Vec::new(),
            to: Vec::new(),
            flows: 1,
            warmup: None,
            time: None,
            seed: 1,
            threads: 1,
        }
    }

    /// The flows between hosts, of which there are so many.
    fn pairs(&self, hosts: u32) -> Result<Vec<(u32, u32)>, StudyError> {
        let or = |list: &[u32], host: u32| if list.is_empty() { vec![host] } else { list.to_vec() };
        let (from, to) = (or(&self.from, 0), or(&self.to, hosts - 1));
        let count = from.len().max(to.len());
        if from.len() != count && from.len() != 1 || to.len() != count && to.len() != 1 {
            let why = format!("--from has {} hosts and --to {}: expected as many, or one of either", from.len(), to.len());
            return Err(StudyError::Contradiction(why));
        }
        let all = |list: Vec<u32>| list.into_iter().cycle().take(count);
        let pairs = all(from).zip(all(to));
        Ok(pairs.flat_map(|pair| std::iter::repeat_n(pair, self.flows as usize)).collect())
    }

    /// Runs the flows.
    ///
    /// # Errors
    /// Mistakes in what was asked for; and a message that a network does not deliver.
    pub fn run(&self, observer: &dyn Observer) -> Result<IpOutcome, StudyError> {
        let start = Instant::now();
        let whole = self.machine.load(observer)?;
        let ip = whole.ip;
        let machine = crate::network_of(whole, self.fabric.as_deref())?;
        let networks = Networks::of(&machine, self.seed)?.with_faults_later(narrows_ip::EPOCH);
        let topology = networks.first().0.name().to_owned();
        let kind = self.pattern.kind(self.size, Bytes(ip.mtu.0 - ip.header.0));
        let pairs = self.pairs(machine.node.count + ip.gateway.hosts)?;
        let (warmup, time) = match kind.ends() {
            true if self.time.is_none() && self.warmup.is_some() => {
                return Err(StudyError::Contradiction(String::from(
                    "--warmup: pings without --time are measured from the first to the last",
                )));
            }
            true => (self.warmup.unwrap_or_default(), self.time),
            false => (self.warmup.unwrap_or(WARMUP), Some(self.time.unwrap_or(TIME))),
        };
        let setup = Setup {
            hardware: networks.hardware(),
            ip,
            flows: pairs.into_iter().map(|(from, to)| Flow { from, to, kind }).collect(),
            seed: self.seed,
            warmup,
            time,
            threads: self.threads,
            whole: false,
        };
        let nominal = match (time, self.pattern) {
            (Some(time), _) => warmup + time,
            (None, Pattern::Ping { count, interval, .. }) => SimTime(interval.as_ps().saturating_mul(u64::from(count))),
            (None, _) => TIME,
        }
        .as_ps();
        let meter = Arc::new(Meter::new(nominal));
        let shown = observer.part(String::from("simulating"), &meter, Box::new(String::new));
        let mut told = 0;
        let report = narrows_ip::run(setup, &mut |now| {
            let now = now.as_ps().min(nominal).max(told);
            meter.add(now - told);
            told = now;
            observer.goes_on()
        });
        drop(shown);
        let report = report.map_err(|error| match error {
            IpError::Network(error) => StudyError::Network(error),
            other => StudyError::Contradiction(other.to_string()),
        })?;
        Ok(IpOutcome { topology, machine, spec: self.clone(), wall: start.elapsed(), report })
    }
}

/// Flows as users write them; what is left out has its default.
#[derive(Clone, Debug, Default)]
pub struct Wording {
    /// `ping` or `iperf`, with their numbers.
    pub pattern: String,
    /// Payload of a packet.
    pub size: Option<String>,
    /// Hosts that send, as a list.
    pub from: Option<String>,
    /// Hosts that receive, as a list.
    pub to: Option<String>,
    /// Flows of each pair.
    pub flows: Option<u32>,
    /// Before the measurement.
    pub warmup: Option<String>,
    /// Of the measurement.
    pub time: Option<String>,
}

impl IpSpec {
    /// What the words ask for, on one thread with seed 1.
    ///
    /// # Errors
    /// A word that means nothing; it is called as the command line calls it.
    pub fn worded(machine: MachineSpec, words: &Wording) -> Result<IpSpec, StudyError> {
        fn read<T: std::str::FromStr<Err: std::fmt::Display>>(option: &str, text: &Option<String>) -> Result<Option<T>, StudyError> {
            let wrong = |error: T::Err| StudyError::Contradiction(format!("--{option}: {error}"));
            text.as_ref().map(|text| text.parse().map_err(wrong)).transpose()
        }
        let hosts =
            |option: &str, text: &Option<String>| Ok::<_, StudyError>(read::<NodeList>(option, text)?.map_or_else(Vec::new, |list| list.0));
        let pattern = words.pattern.parse::<Pattern>().map_err(|error| StudyError::Contradiction(error.to_string()))?;
        if words.flows == Some(0) {
            return Err(StudyError::Contradiction(String::from("--flows 0: expected 1 and more")));
        }
        Ok(IpSpec {
            size: read("size", &words.size)?,
            from: hosts("from", &words.from)?,
            to: hosts("to", &words.to)?,
            flows: words.flows.unwrap_or(1),
            warmup: read("warmup", &words.warmup)?,
            time: read("time", &words.time)?,
            ..IpSpec::new(machine, pattern)
        })
    }
}

fn us(picoseconds: f64) -> f64 {
    picoseconds / 1e6
}

/// Mean, median, 99 % and largest, in microseconds.
fn round_trips(histogram: &Histogram) -> Option<[f64; 5]> {
    let at = |percent| histogram.percentile(percent).map(|time| us(time as f64));
    Some([us(histogram.mean()?), at(50.0)?, at(90.0)?, at(99.0)?, us(histogram.max()? as f64)])
}

impl IpOutcome {
    fn is_ping(&self) -> bool {
        matches!(self.spec.pattern, Pattern::Ping { .. })
    }

    fn seconds(&self) -> f64 {
        self.report.measured.as_s_f64().max(1e-12)
    }

    fn gbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.seconds() / 1e9
    }

    /// Cores that a host keeps busy.
    fn cores(&self, cpu: CpuTimes) -> [f64; 3] {
        [cpu.programs, cpu.kernel, cpu.tunnel].map(|time| time.as_s_f64() / self.seconds())
    }

    fn cores_of(&self, host: u32) -> f64 {
        let found = self.report.hosts.iter().find(|report| report.host == host);
        found.map_or(0.0, |report| self.cores(report.cpu).iter().sum())
    }

    fn all_round_trips(&self) -> Histogram {
        let mut all = Histogram::new();
        self.report.flows.iter().for_each(|flow| all.merge(&flow.round_trips));
        all
    }

    fn sum(&self, of: fn(&narrows_ip::Counts) -> u64) -> u64 {
        self.report.flows.iter().map(|flow| of(&flow.counts)).sum()
    }

    /// What figures compare.
    pub fn measures(&self) -> Vec<(&'static str, f64)> {
        let first = &self.report.flows[0].flow;
        let mut measures = vec![
            ("throughput_gbps", self.gbps(self.sum(|counts| counts.bytes))),
            ("packets", self.sum(|counts| counts.received) as f64),
            ("drops", self.sum(narrows_ip::Counts::drops) as f64),
            ("retransmissions", self.sum(|counts| counts.retransmissions) as f64),
            ("cpu_from", self.cores_of(first.from)),
            ("cpu_to", self.cores_of(first.to)),
        ];
        if let Some([mean, p50, _, p99, max]) = round_trips(&self.all_round_trips()) {
            measures.extend([("rtt_mean_us", mean), ("rtt_p50_us", p50), ("rtt_p99_us", p99), ("rtt_max_us", max)]);
        }
        measures
    }

    /// All numbers, as `summary.json` has them.
    pub fn summary(&self) -> Value {
        let times = |histogram: &Histogram| match round_trips(histogram) {
            Some([mean, p50, p90, p99, max]) => json!({ "mean": mean, "p50": p50, "p90": p90, "p99": p99, "max": max }),
            None => Value::Null,
        };
        let flow = |report: &narrows_ip::FlowReport| {
            let counts = report.counts;
            json!({
                "from": report.flow.from,
                "to": report.flow.to,
                "packet_bytes": report.flow.kind.bytes().0,
                "throughput_gbps": self.gbps(counts.bytes),
                "rtt_us": times(&report.round_trips),
                "sent": counts.sent,
                "received": counts.received,
                "bytes": counts.bytes,
                "drops": { "ring": counts.ring_drops, "socket": counts.socket_drops, "gateway": counts.gateway_drops },
                "retransmissions": counts.retransmissions,
            })
        };
        let host = |report: &narrows_ip::HostReport| {
            let [programs, kernel, tunnel] = self.cores(report.cpu);
            json!({ "host": report.host, "cpu": programs + kernel + tunnel, "programs": programs, "kernel": kernel, "tunnel": tunnel })
        };
        json!({
            "narrows": env!("CARGO_PKG_VERSION"),
            "schema": narrows_results::SCHEMA,
            "pattern": self.spec.pattern.to_string(),
            "nodes": self.machine.node.count,
            "topology": self.topology,
            "network": self.machine.network.kind.name(),
            "seed": self.spec.seed,
            "threads": self.spec.threads,
            "measured_s": self.report.measured.as_s_f64(),
            "simulated_s": self.report.simulated.as_s_f64(),
            "wall_s": self.wall.as_secs_f64(),
            "throughput_gbps": self.gbps(self.sum(|counts| counts.bytes)),
            "rtt_us": times(&self.all_round_trips()),
            "packets": self.sum(|counts| counts.received),
            "drops": self.sum(narrows_ip::Counts::drops),
            "retransmissions": self.sum(|counts| counts.retransmissions),
            "flows": self.report.flows.iter().map(flow).collect::<Vec<_>>(),
            "hosts": self.report.hosts.iter().map(host).collect::<Vec<_>>(),
            "nic_messages": self.report.messages,
            "network_packets": self.report.packets,
            "events": self.report.events,
            "peak_rss_bytes": peak_memory(),
            "digest": format!("{:016x}", self.report.digest),
            "exit_code": self.exit_code(),
            "failure": self.failure(),
            "partial": self.report.partial,
            "machine": self.machine.to_json(),
        })
    }

    /// The lines after a run.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let (machine, kind) = (&self.machine, self.machine.network.kind.name());
        let _ =
            writeln!(text, "{} on {} nodes of {} ({}, {kind} network)", self.spec.pattern, machine.node.count, machine.name, self.topology);
        let what = if self.is_ping() { "rtt us: mean     p50     p90     p99     max" } else { "Gbit/s" };
        let _ = writeln!(text, "  from    to  packets  dropped  again  cores: from    to   {what}");
        for report in &self.report.flows {
            let (flow, counts) = (&report.flow, report.counts);
            let times = match round_trips(&report.round_trips) {
                Some([mean, p50, p90, p99, max]) => format!("{mean:>12.2} {p50:>7.2} {p90:>7.2} {p99:>7.2} {max:>7.2}"),
                None if self.is_ping() => format!("{:>12}", "-"),
                None => format!("{:>6.3}", self.gbps(counts.bytes)),
            };
            let _ = writeln!(
                text,
                "  {:>4}  {:>4}  {:>7}  {:>7}  {:>5}  {:>11.3} {:>5.3}   {times}",
                flow.from,
                flow.to,
                counts.received,
                counts.drops(),
                counts.retransmissions,
                self.cores_of(flow.from),
                self.cores_of(flow.to),
            );
        }
        if self.report.flows.len() > 1 && !self.is_ping() {
            let _ = writeln!(text, "  together {:.3} Gbit/s", self.gbps(self.sum(|counts| counts.bytes)));
        }
        let _ = writeln!(
            text,
            "{} of simulated time measured; {} events, wall time {:.2} s; digest {:016x}{}",
            self.report.measured,
            self.report.events,
            self.wall.as_secs_f64(),
            self.report.digest,
            if self.report.partial { "; ended by a signal, partial" } else { "" },
        );
        text
    }

    /// A row per flow.
    pub fn table(&self) -> Table {
        let flows = &self.report.flows;
        let integer = |of: &dyn Fn(&narrows_ip::FlowReport) -> u64| integers(flows.iter().map(of));
        let number = |of: &dyn Fn(&narrows_ip::FlowReport) -> Option<f64>| numbers(flows.iter().map(of));
        let time = |part: usize| number(&move |flow: &narrows_ip::FlowReport| Some(round_trips(&flow.round_trips)?[part]));
        Table::new(vec![
            ("from", integer(&|report| u64::from(report.flow.from))),
            ("to", integer(&|report| u64::from(report.flow.to))),
            ("throughput_gbps", number(&|report| Some(self.gbps(report.counts.bytes)))),
            ("rtt_mean_us", time(0)),
            ("rtt_p50_us", time(1)),
            ("rtt_p90_us", time(2)),
            ("rtt_p99_us", time(3)),
            ("rtt_max_us", time(4)),
            ("sent", integer(&|report| report.counts.sent)),
            ("received", integer(&|report| report.counts.received)),
            ("bytes", integer(&|report| report.counts.bytes)),
            ("ring_drops", integer(&|report| report.counts.ring_drops)),
            ("socket_drops", integer(&|report| report.counts.socket_drops)),
            ("gateway_drops", integer(&|report| report.counts.gateway_drops)),
            ("retransmissions", integer(&|report| report.counts.retransmissions)),
            ("cpu_from", number(&|report| Some(self.cores_of(report.flow.from)))),
            ("cpu_to", number(&|report| Some(self.cores_of(report.flow.to)))),
        ])
    }

    /// Writes everything into a folder.
    ///
    /// # Errors
    /// The folder takes no more.
    pub fn save(&self, out: &Path) -> Result<(), TableError> {
        narrows_output::write(&out.join("machine.toml"), self.machine.to_used_toml())?;
        self.table().write(&out.join("ip.parquet"))?;
        // Last: where it is, the rest is too.
        Ok(narrows_output::write(&out.join("summary.json"), format!("{:#}\n", self.summary()))?)
    }

    /// Why it is not what was asked for.
    pub fn failure(&self) -> Option<String> {
        if self.report.partial {
            return Some(String::from("ended by a signal"));
        }
        let empty = self.report.flows.iter().find(|flow| flow.counts.received == 0)?;
        let (from, to) = (empty.flow.from, empty.flow.to);
        Some(format!("nothing was measured from {from} to {to}: no packet came to its program within {}", self.report.measured))
    }

    /// The code that a command ends with.
    pub fn exit_code(&self) -> u8 {
        match self.failure() {
            Some(_) if self.report.partial => exit::INTERRUPTED,
            Some(_) => exit::NO,
            None => exit::DONE,
        }
    }
}
