use crate::class::{Class, MAX_CLASSES};
use crate::pattern::Targets;
use crate::source::{Generator, Numbers, Plan};
use crate::{Flow, Injection, Sizes, TrafficError};
use narrows_fabric::parallel::Processes;
use narrows_fabric::{NetworkConfig, NetworkKind};
use narrows_spin::HandlersConfig;
use narrows_topology::Topology;
use narrows_units::{Bytes, SimTime};
use std::sync::Arc;

/// What is sent.
#[derive(Clone, Debug)]
pub enum Work {
    /// Random messages.
    Classes(Vec<Class>),
    /// Given ones, in the order of their starts.
    Flows(Vec<Flow>),
}

/// All that a point needs but its load.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network.
    pub network: NetworkConfig,
    /// Its wiring.
    pub topology: Topology,
    /// Its traffic.
    pub work: Work,
    /// Time before the measurement; `None`: until throughput and latency are steady.
    pub warmup: Option<SimTime>,
    /// Time of the measurement. `None`: 100 us, and for flows until the last is done.
    pub time: Option<SimTime>,
    /// How often queues and links are looked at; `None`: never.
    pub period: Option<SimTime>,
    /// Threads that work on the point.
    pub threads: usize,
    /// Of every random choice.
    pub seed: u64,
    /// Those that share a point, if there are others: each runs the same points, in the same order, one at a time.
    pub processes: Option<Processes>,
    /// What runs on the NICs, if something does; on a network of packets.
    pub handlers: Option<Arc<HandlersConfig>>,
}

/// Longest measurement: 100 s.
const MAX_TIME: SimTime = SimTime(100_000_000_000_000);

impl Setup {
    /// With 100 us of measurement after a detected warm-up, without telemetry.
    pub fn new(network: NetworkConfig, topology: Topology, work: Work) -> Setup {
        Setup { network, topology, work, warmup: None, time: None, period: None, threads: 1, seed: 1, processes: None, handlers: None }
    }

    /// Time of the measurement of random messages.
    pub fn measured(&self) -> SimTime {
        self.time.unwrap_or(SimTime::from_us(100))
    }

    /// Whether a point needs a load from outside.
    pub fn needs_load(&self) -> bool {
        match &self.work {
            Work::Classes(classes) => {
                classes.iter().any(|class| class.load.is_none() && !matches!(class.injection, Injection::Closed { .. }))
            }
            Work::Flows(_) => false,
        }
    }

    /// Whether there can be a point at this load.
    ///
    /// # Errors
    /// See [`TrafficError`].
    pub fn check(&self, load: Option<f64>) -> Result<(), TrafficError> {
        self.plan(load).map(|_| ())
    }

    /// The sources of a point.
    pub(crate) fn plan(&self, load: Option<f64>) -> Result<Plan, TrafficError> {
        for time in [self.time, self.period].into_iter().flatten() {
            if time == SimTime::ZERO || time > MAX_TIME {
                return Err(TrafficError::Time { time, limit: MAX_TIME });
            }
        }
        if self.warmup.is_some_and(|warmup| warmup > MAX_TIME) {
            return Err(TrafficError::Time { time: self.warmup.unwrap_or_default(), limit: MAX_TIME });
        }
        if self.handlers.is_some() && self.network.kind != NetworkKind::Packet {
            let why = "handlers see packets, and this network has none: use --network packet, or leave out nic.spin.rules";
            return Err(TrafficError::Contradiction(String::from(why)));
        }
        let (generators, flows) = match &self.work {
            Work::Flows(_) if load.is_some() => {
                let why = "a list of flows has its own starts and sizes: leave out --load";
                return Err(TrafficError::Contradiction(String::from(why)));
            }
            Work::Flows(flows) => (Vec::new(), flows.clone()),
            Work::Classes(classes) => (self.generators(classes, load)?, Vec::new()),
        };
        Ok(Plan { generators, flows, mtu: self.network.mtu.0, header: self.network.header.0, seed: self.seed, numbers: Numbers::ALONE })
    }

    fn generators(&self, classes: &[Class], load: Option<f64>) -> Result<Vec<Generator>, TrafficError> {
        if classes.len() > MAX_CLASSES {
            return Err(TrafficError::Contradiction(format!("{} classes of traffic; at most {MAX_CLASSES}", classes.len())));
        }
        let names = || classes.iter().map(|class| class.name.as_str());
        if let Some((_, name)) = names().enumerate().find(|&(index, name)| names().take(index).any(|other| other == name)) {
            return Err(TrafficError::Contradiction(format!("two classes of traffic have the name \"{name}\": results go by it")));
        }
        if load.is_some() && !self.needs_load() {
            let why = "every class has its own load or is a closed loop: leave out --load";
            return Err(TrafficError::Contradiction(String::from(why)));
        }
        let mut generators = Vec::new();
        for (index, class) in classes.iter().enumerate() {
            let generator = self.generator(class, index, load).map_err(|error| match classes.len() {
                1 => error,
                _ => TrafficError::Class { class: class.name.clone(), why: error.to_string() },
            })?;
            generators.push(generator);
        }
        self.check_sums(&generators)?;
        Ok(generators)
    }

    fn generator(&self, class: &Class, index: usize, load: Option<f64>) -> Result<Generator, TrafficError> {
        let hosts = self.topology.hosts();
        let known = |list: &[u32], what: &str| match list.iter().find(|node| **node >= hosts) {
            Some(node) => {
                Err(TrafficError::Contradiction(format!("{what}: there is no node {node}; the machine has the nodes 0 to {}", hosts - 1)))
            }
            None => Ok(()),
        };
        let nodes: Arc<[u32]> = match &class.nodes {
            Some(list) => list.0.clone().into(),
            None => (0..hosts).collect(),
        };
        known(&nodes, "nodes")?;
        // The second class that draws a permutation draws another one.
        let seed = self.seed.wrapping_add(index as u64);
        let (targets, mut senders) = Targets::new(&class.pattern, nodes.clone(), &self.topology, seed)?;
        if let Some(sources) = &class.sources {
            known(&sources.0, "sources")?;
            senders.retain(|&position| sources.0.binary_search(&nodes[position as usize]).is_ok());
            if senders.is_empty() {
                return Err(TrafficError::Contradiction(format!("none of the sources sends in pattern {}", class.pattern)));
            }
        }
        if u32::from(class.priority) >= u32::from(self.network.virtual_networks) {
            let why = format!("priority {}; the network has {} virtual networks", class.priority, self.network.virtual_networks);
            return Err(TrafficError::Contradiction(why));
        }
        let sizes = class.sizes.clone().unwrap_or(Sizes::Fixed(self.network.mtu));
        let load = match class.injection {
            Injection::Closed { .. } => None,
            _ => {
                let load = class.load.or(load);
                let load = load.ok_or_else(|| TrafficError::Contradiction(format!("class {} needs a load: --load", class.name)))?;
                class.injection.check(load)?;
                Some(load)
            }
        };
        let wire = sizes.mean() + sizes.mean_packets(self.network.mtu.0) * self.network.header.0 as f64;
        // Picoseconds per byte, exact to 53 bits; the time of a megabyte, so as not to lose digits.
        let slot = wire * self.network.host_link.rate.time_for(Bytes(1_000_000)).as_ps() as f64 / 1e6;
        Ok(Generator {
            name: class.name.clone(),
            targets,
            senders,
            sizes,
            injection: class.injection,
            load,
            slot,
            start: class.start,
            end: class.end,
            virtual_network: class.priority,
        })
    }

    /// No node may be asked for more than its link, at any time.
    fn check_sums(&self, generators: &[Generator]) -> Result<(), TrafficError> {
        for at in generators.iter().map(|generator| generator.start) {
            let mut sums = vec![0.0; self.topology.hosts() as usize];
            let active = || generators.iter().filter(|generator| generator.start <= at && at < generator.end);
            for generator in active() {
                for &position in &generator.senders {
                    sums[generator.targets.node(position) as usize] += generator.load.unwrap_or(0.0);
                }
            }
            if let Some((node, &load)) = sums.iter().enumerate().find(|(_, sum)| **sum > 1.0 + 1e-9) {
                let there =
                    |generator: &&Generator| generator.senders.iter().any(|&position| generator.targets.node(position) as usize == node);
                let classes = active().filter(there).map(|generator| generator.name.as_str()).collect::<Vec<_>>().join(" and ");
                return Err(TrafficError::Overload { node: node as u32, load, classes });
            }
        }
        Ok(())
    }
}
