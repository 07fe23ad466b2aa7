//! Sources beside something else that uses the network: the same classes, patterns and injection as alone, without
//! points, loads of a sweep and warm-up. Whoever has the network tells them timers and arrivals.

use crate::class::Class;
use crate::meter::ClassMeter;
use crate::source::{Numbers, Outlet, Plan, Sources};
use crate::{Injection, Setup, TrafficError, Work};
use narrows_fabric::{Arrival, NetworkConfig, TransferId};
use narrows_topology::Topology;
use narrows_units::SimTime;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Classes of traffic for the hosts of a network.
#[derive(Clone, Debug)]
pub struct Background(Arc<Plan>);

/// The sources at some of the hosts.
#[derive(Debug)]
pub struct BackgroundSources {
    sources: Sources,
    /// By class: messages that were given up.
    given_up: Vec<u64>,
}

/// What a class has sent, up to some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackgroundClass {
    /// Its name.
    pub name: String,
    /// Messages that were generated,
    pub messages: u64,
    /// those that have arrived,
    pub done: u64,
    /// and those that their source has given up, because the network did not bring them.
    pub given_up: u64,
    /// Bytes that were generated, headers included.
    pub wire: u64,
    /// Mean time of those that have arrived, from generation to the last byte.
    pub mean: SimTime,
    /// 99th percentile of the same times.
    pub p99: SimTime,
}

impl Background {
    /// Messages have numbers from here on, below twice as much.
    pub const FIRST: u32 = 1 << 30;
    /// Most classes.
    pub const MAX_CLASSES: usize = 7;

    /// These classes, each with a load, on a network.
    ///
    /// # Errors
    /// See [`TrafficError`].
    pub fn new(network: &NetworkConfig, topology: &Topology, classes: Vec<Class>, seed: u64) -> Result<Background, TrafficError> {
        if classes.len() > Background::MAX_CLASSES {
            let why = format!("{} classes of background traffic; at most {}", classes.len(), Background::MAX_CLASSES);
            return Err(TrafficError::Contradiction(why));
        }
        if let Some(class) = classes.iter().find(|class| matches!(class.injection, Injection::Closed { .. })) {
            let why = format!("background {}: expected a load and an open loop (bernoulli, poisson, on-off)", class.name);
            return Err(TrafficError::Contradiction(why));
        }
        if let Some(class) = classes.iter().find(|class| class.load.is_none()) {
            return Err(TrafficError::Contradiction(format!("background {} needs a load, such as load=0.5", class.name)));
        }
        let setup = Setup { seed, ..Setup::new(network.clone(), topology.clone(), Work::Classes(classes)) };
        Ok(Background(Arc::new(Plan { numbers: Numbers::BESIDE, ..setup.plan(None)? })))
    }

    /// Those of `hosts`, which are sorted. Times of classes count from `begin`; `timer` gets time, host and tag of what
    /// [`BackgroundSources::strike`] is to be told.
    pub fn begin(&self, hosts: &[u32], begin: SimTime, timer: &mut impl FnMut(SimTime, u32, u32)) -> BackgroundSources {
        let mut sources = Sources::beginning(Arc::clone(&self.0), hosts, begin, timer);
        sources.meter.open(0, u64::MAX);
        BackgroundSources { given_up: vec![0; self.0.generators.len()], sources }
    }

    /// What sources have sent that have counted this, by class.
    pub fn classes(&self, BackgroundTally(all): &BackgroundTally) -> Vec<BackgroundClass> {
        let nothing = OfClass::default();
        let of_class = |(class, generator): (usize, &crate::source::Generator)| {
            let OfClass { meter, given_up } = all.get(class).unwrap_or(&nothing);
            BackgroundClass {
                name: generator.name.clone(),
                messages: meter.totals.generated,
                done: meter.totals.done,
                given_up: *given_up,
                wire: meter.totals.offered,
                mean: SimTime(meter.fct.mean().unwrap_or(0.0) as u64),
                p99: SimTime(meter.fct.percentile(99.0).unwrap_or(0)),
            }
        };
        self.0.generators.iter().enumerate().map(of_class).collect()
    }
}

/// What sources have counted, by class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct BackgroundTally(Vec<OfClass>);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OfClass {
    meter: ClassMeter,
    given_up: u64,
}

impl BackgroundTally {
    /// With what others have counted.
    #[must_use]
    pub fn with(mut self, BackgroundTally(others): BackgroundTally) -> BackgroundTally {
        self.0.resize_with(self.0.len().max(others.len()), OfClass::default);
        for (sum, other) in self.0.iter_mut().zip(&others) {
            sum.meter.merge(&other.meter);
            sum.given_up += other.given_up;
        }
        self
    }
}

impl BackgroundSources {
    /// What they have counted so far.
    pub fn tally(&self) -> BackgroundTally {
        let classes = self.sources.meter.classes.iter().zip(&self.given_up);
        BackgroundTally(classes.map(|(meter, &given_up)| OfClass { meter: meter.clone(), given_up }).collect())
    }

    /// Whether a message is theirs.
    #[inline]
    pub fn owns(TransferId(id): TransferId) -> bool {
        id & (Background::FIRST | 1 << 31) == Background::FIRST
    }

    /// A timer strikes.
    pub fn strike(&mut self, tag: u32, outlet: &mut impl Outlet) {
        self.sources.strike(tag, outlet);
    }

    /// A message is at its target, which is here.
    pub fn delivered(&mut self, arrival: &Arrival, outlet: &mut impl Outlet) {
        let now = outlet.now();
        self.sources.delivered(arrival, now, outlet);
    }

    /// A message of a source that is here was given up.
    pub fn give_up(&mut self, id: TransferId) {
        self.given_up[Numbers::BESIDE.class(id)] += 1;
    }
}
