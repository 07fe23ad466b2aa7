use crate::telemetry::{FlowRow, Telemetry};
use narrows_fabric::{Statistics, Undelivered};
use narrows_results::Histogram;
use narrows_spin::HandlerReport;
use narrows_units::SimTime;
use std::collections::BTreeMap;

/// A distribution in a few numbers, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean, exact.
    pub mean: f64,
    /// Median, to three digits.
    pub p50: f64,
    /// 99th percentile, to three digits.
    pub p99: f64,
    /// Largest, exact.
    pub max: f64,
}

/// Multiples of the time on an empty network, to three digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowDown {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

impl SlowDown {
    /// Of a histogram of thousandths; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<SlowDown> {
        let of = |percent| Some(histogram.percentile(percent)? as f64 / 1e3);
        Some(SlowDown { p50: of(50.0)?, p99: of(99.0)?, p999: of(99.9)? })
    }
}

impl Times {
    /// Of a histogram of picoseconds; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<Times> {
        let ns = |ps: u64| ps as f64 / 1e3;
        Some(Times {
            mean: histogram.mean()? / 1e3,
            p50: ns(histogram.percentile(50.0)?),
            p99: ns(histogram.percentile(99.0)?),
            max: ns(histogram.max()?),
        })
    }
}

/// What a class of traffic got at a point.
#[derive(Clone, Debug)]
pub struct ClassPoint {
    /// Its name.
    pub name: String,
    /// Its load, `None` in a closed loop and for flows.
    pub load: Option<f64>,
    /// Nodes that send in it.
    pub sources: usize,
    /// What its sources generated within the window, as a fraction of their injection bandwidth.
    pub offered: f64,
    /// What arrived within the window, as a fraction of its sources' injection bandwidth.
    pub accepted: f64,
    /// More was generated than arrived, and queues grew.
    pub saturated: bool,
    /// Of packets injected within the window, from their first bit on the host link to their last byte at the target;
    /// picoseconds.
    pub latency: Histogram,
    /// Of messages generated within the window, from their generation to their last byte at the target; picoseconds.
    pub fct: Histogram,
    /// Of these, the completion time as a multiple of that on an empty network, in thousandths; empty where all
    /// messages are of one size.
    pub slow_down: Histogram,
    /// Messages generated within the window that were not done at the end.
    pub unfinished: u64,
}

/// Accepted traffic over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series {
    /// Index of the period.
    pub period: u32,
    /// Index of the class.
    pub class: u32,
    /// Fraction of its sources' injection bandwidth generated.
    pub offered: f64,
    /// The same, arrived.
    pub accepted: f64,
    /// Mean latency of the packets that arrived, in nanoseconds.
    pub latency_ns: Option<f64>,
}

/// When a given flow was done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowTime {
    /// Its place in the list of flows.
    pub flow: u32,
    /// From its start to its last byte at the target; `None`: not done.
    pub fct: Option<SimTime>,
}

/// What was measured at one load.
#[derive(Debug)]
pub struct Point {
    /// The load of the classes that have none of their own; `None`: there are none.
    pub load: Option<f64>,
    /// What was generated within the window, as a fraction of the injection bandwidth of the nodes that send.
    pub offered: f64,
    /// What arrived within the window, likewise.
    pub accepted: f64,
    /// Some class is saturated: latencies grow as long as one looks, and say nothing.
    pub saturated: bool,
    /// The run was ended from outside.
    pub partial: bool,
    /// Throughput and latency were steady: when the measurement began, as far as was looked, and no backlog came in its
    /// first half alone.
    pub steady: bool,
    /// The measurement was shorter than some messages' way: how long it has to be at least. Whether the network is
    /// saturated is not known.
    pub too_short: Option<SimTime>,
    /// Time before the measurement.
    pub warmup: SimTime,
    /// Time of the measurement.
    pub measured: SimTime,
    /// Simulated time in all.
    pub simulated: SimTime,
    /// By class.
    pub classes: Vec<ClassPoint>,
    /// What went over the network in all.
    pub statistics: Statistics,
    /// The first flow between two ports that was given up: its messages will never arrive.
    pub undelivered: Option<Undelivered>,
    /// What handlers on the NICs did, where there are some.
    pub handlers: Option<HandlerReport>,
    /// Events of the network and of the sources.
    pub events: u64,
    /// Times that the regions of the network met to go on.
    pub windows: u64,
    /// Fingerprint of when every message came where.
    pub digest: u64,
    /// With a list of flows: each of them.
    pub flows: Vec<FlowTime>,
    /// With a period: accepted traffic over time.
    pub series: Vec<Series>,
    /// With a period: queues, links, hops.
    pub telemetry: Option<Box<Telemetry>>,
}

impl Point {
    /// Latencies of packets of all classes together.
    pub fn latency(&self) -> Histogram {
        merged(self.classes.iter().map(|class| &class.latency))
    }

    /// Completion times of messages of all classes together.
    pub fn fct(&self) -> Histogram {
        merged(self.classes.iter().map(|class| &class.fct))
    }

    /// Jain's index of what flows (all that goes from a node to another in a virtual network) got within the window:
    /// 1 when all got the same, 1 / n when one of n got everything. `None` without a period, or without flows.
    pub fn fairness(&self, period: SimTime) -> Option<f64> {
        let telemetry = self.telemetry.as_ref()?;
        let begins = |row: &FlowRow| period * u64::from(row.period);
        let mut flows: BTreeMap<(u32, u32, u8), f64> = BTreeMap::new();
        for row in telemetry.flow_rows.iter().filter(|&row| (self.warmup..self.warmup + self.measured).contains(&begins(row))) {
            *flows.entry((row.source, row.target, row.virtual_network)).or_default() += row.bytes as f64;
        }
        jain(flows.values().copied())
    }

    /// Whether anything at all was seen in the window.
    pub fn is_empty(&self) -> bool {
        self.accepted == 0.0 && self.classes.iter().all(|class| class.latency.count() + class.fct.count() == 0)
    }

    /// Messages generated within the window that were not done at the end.
    pub fn unfinished(&self) -> u64 {
        self.classes.iter().map(|class| class.unfinished).sum()
    }
}

/// Jain, Chiu and Hawe, DEC-TR-301, 1984: (sum of x)^2 / (n times sum of x^2).
fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = values.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

fn merged<'a>(parts: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_s_index_is_between_an_nth_and_1() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), Some(1.0));
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0].into_iter()), Some(0.25));
        assert_eq!(jain([1.0, 3.0].into_iter()), Some(0.8));
        assert_eq!((jain([].into_iter()), jain([0.0].into_iter())), (None, None));
    }
}
