use crate::telemetry::Telemetry;
use narrows_fabric::{Statistics, Undelivered};
use narrows_results::Histogram;
use narrows_units::SimTime;

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
    /// Throughput and latency were steady when the measurement began, as far as was looked.
    pub steady: bool,
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
    /// Events of the network and of the sources.
    pub events: u64,
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

    /// Whether anything at all was seen in the window.
    pub fn is_empty(&self) -> bool {
        self.accepted == 0.0 && self.classes.iter().all(|class| class.latency.count() + class.fct.count() == 0)
    }

    /// Messages generated within the window that were not done at the end.
    pub fn unfinished(&self) -> u64 {
        self.classes.iter().map(|class| class.unfinished).sum()
    }
}

fn merged<'a>(parts: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    parts.for_each(|part| all.merge(part));
    all
}
