//! What a run takes in energy, where the machine file says what its parts take (`[power]`, docs/power.md).

mod over_time;

pub(crate) use over_time::{OverTime, Stay};

use crate::hardware::{Counts, Networks};
use narrows_machine::{Machine, Processor, ProcessorPower};
use narrows_results::Column;
use narrows_topology::Topology;
use narrows_units::{NodeId, Power, ProcessorId, SimTime};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a rank did with its core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Where it was.
    pub processor: ProcessorId,
    /// Computing.
    pub computing: SimTime,
    /// In MPI.
    pub in_mpi: SimTime,
    /// Computing on an accelerator beside it.
    pub beside: SimTime,
}

/// The energy of a run, part by part, in joules.
#[derive(Clone, Debug, PartialEq)]
pub struct Energy {
    /// Nodes with ranks, whatever they did.
    pub nodes: f64,
    /// Their memory, whatever they did.
    pub memory: f64,
    /// Their processors beside the hosts', whatever they did.
    pub idle: f64,
    /// Their cores while they computed.
    pub computing: f64,
    /// ... while their ranks were in MPI.
    pub waiting: f64,
    /// Accelerators while they computed.
    pub accelerators: f64,
    /// Their NICs.
    pub nics: f64,
    /// All switches.
    pub switches: f64,
    /// All cables.
    pub cables: f64,
    /// Of machines with other processors than hosts': all that processors of a name took.
    pub by_processor: BTreeMap<String, f64>,
    /// By rank: its core and its accelerator; none for traffic.
    pub by_rank: Vec<f64>,
    /// Payload that the network carried, in bytes.
    pub bytes: u64,
    time: SimTime,
}

/// What was in use.
pub(crate) struct Used {
    nodes: BTreeSet<NodeId>,
    counts: Counts,
}

impl Used {
    /// The nodes of these ranks, and the networks that they use.
    pub(crate) fn by(ranks: &[ProcessorId], networks: &Networks<'_>) -> Used {
        let nodes = ranks.iter().map(|id| id.node).collect();
        let counts = networks.counts(&nodes);
        Used { nodes, counts }
    }

    /// All nodes of a machine, at one of its networks.
    pub(crate) fn all(machine: &Machine, topology: &Topology) -> Used {
        Used { nodes: (0..machine.node.count).map(NodeId).collect(), counts: Counts::of(topology) }
    }

    /// What they take, whatever they do.
    fn standing(&self, machine: &Machine) -> u64 {
        let of_node = |&node: &NodeId| {
            let node = machine.node(node);
            let idle = node.processors.iter().filter_map(|name| machine.auxiliary(name)).map(|auxiliary| auxiliary.idle.0);
            node.power.0 + node.memory.0 + idle.sum::<u64>()
        };
        let Counts { ports, switches, cables } = self.counts;
        let network = machine.power.nic.0 * ports + machine.power.switch.0 * switches + machine.power.cable.0 * cables;
        network + self.nodes.iter().map(of_node).sum::<u64>()
    }
}

/// Whether no part of a machine takes power.
fn no_power(machine: &Machine) -> bool {
    let of_hosts = machine.parts().flat_map(|(_, node)| [node.power, node.memory].into_iter().chain(of_processor(&node.host)));
    let beside = machine.auxiliaries.iter().flat_map(|auxiliary| [auxiliary.idle].into_iter().chain(of_processor(&auxiliary.processor)));
    let of_network = [machine.power.nic, machine.power.switch, machine.power.cable];
    of_hosts.chain(beside).chain(of_network).all(|power| power == Power(0))
}

/// What a processor takes for what its ranks do.
fn of_processor(processor: &Processor) -> [Power; 3] {
    let ProcessorPower { core, waiting, accelerator } = processor.power;
    [core, waiting, accelerator]
}

impl Energy {
    /// Of a run that took `time` and moved so many bytes of payload; `None` where no part of the machine takes power.
    pub(crate) fn of(machine: &Machine, used: &Used, time: SimTime, ranks: &[Share], bytes: u64) -> Option<Energy> {
        if no_power(machine) {
            return None;
        }
        // Integers to the end: the order of the ranks must not show.
        let joules = |energy: u128| energy as f64 / 1e18;
        let Used { nodes, counts } = used;
        let mut of_names: BTreeMap<String, u128> = BTreeMap::new();
        let mut idle = 0;
        for name in nodes.iter().flat_map(|&node| &machine.node(node).processors) {
            let energy = machine.auxiliary(name).map_or(0, |auxiliary| auxiliary.idle.over(time));
            idle += energy;
            *of_names.entry(name.clone()).or_default() += energy;
        }
        let [mut computing, mut waiting, mut accelerators] = [0; 3];
        let mut by_rank = Vec::with_capacity(ranks.len());
        for share in ranks {
            let (name, processor) = machine.processor(share.processor);
            let [core, polling, accelerator] = of_processor(processor);
            let energies = [core.over(share.computing), polling.over(share.in_mpi), accelerator.over(share.beside)];
            let all = [&mut computing, &mut waiting, &mut accelerators];
            all.into_iter().zip(energies).for_each(|(sum, energy)| *sum += energy);
            let sum = energies.iter().sum::<u128>();
            *of_names.entry(name.to_owned()).or_default() += sum;
            by_rank.push(joules(sum));
        }
        if machine.auxiliaries.is_empty() {
            of_names.clear();
        }
        Some(Energy {
            nodes: joules(nodes.iter().map(|&node| machine.node(node).power.over(time)).sum()),
            memory: joules(nodes.iter().map(|&node| machine.node(node).memory.over(time)).sum()),
            idle: joules(idle),
            computing: joules(computing),
            waiting: joules(waiting),
            accelerators: joules(accelerators),
            nics: joules(machine.power.nic.over(time) * u128::from(counts.ports)),
            switches: joules(machine.power.switch.over(time) * u128::from(counts.switches)),
            cables: joules(machine.power.cable.over(time) * u128::from(counts.cables)),
            by_processor: of_names.into_iter().map(|(name, energy)| (name, joules(energy))).collect(),
            by_rank,
            bytes,
            time,
        })
    }

    fn parts(&self) -> [(&'static str, f64); 9] {
        [
            ("nodes", self.nodes),
            ("memory", self.memory),
            ("idle", self.idle),
            ("computing", self.computing),
            ("waiting", self.waiting),
            ("accelerators", self.accelerators),
            ("nics", self.nics),
            ("switches", self.switches),
            ("cables", self.cables),
        ]
    }

    /// All parts together.
    pub fn total(&self) -> f64 {
        self.parts().iter().map(|(_, joules)| joules).sum()
    }

    /// On average, in watts; none for a run that took no time.
    pub fn mean_power(&self) -> Option<f64> {
        (self.time > SimTime::ZERO).then(|| self.total() / self.time.as_s_f64())
    }

    /// Of everything, for each byte of payload, in joules; none where nothing was sent.
    pub fn per_byte(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.total() / self.bytes as f64)
    }

    /// Of everything, for each rank, in joules; none for traffic.
    pub fn per_rank(&self) -> Option<f64> {
        (!self.by_rank.is_empty()).then(|| self.total() / self.by_rank.len() as f64)
    }

    /// A column of a table of ranks.
    pub(crate) fn column(&self) -> (&'static str, Column) {
        ("energy_j", Column::Number(self.by_rank.iter().copied().map(Some).collect()))
    }

    /// As `summary.json` has it.
    pub(crate) fn summary(&self) -> Value {
        let mut summary = json!({
            "total_j": self.total(),
            "mean_power_w": self.mean_power(),
            "per_rank_j": self.per_rank(),
            "per_byte_j": self.per_byte(),
        });
        if let Some(summary) = summary.as_object_mut() {
            if !self.by_processor.is_empty() {
                summary.insert(String::from("by_processor_j"), json!(self.by_processor));
            }
            summary.extend(self.parts().map(|(name, joules)| (format!("{name}_j"), json!(joules))));
        }
        summary
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        let parts = self.parts().into_iter().filter(|(_, joules)| *joules > 0.0).map(|(name, joules)| format!("{name} {joules:.6}"));
        let mean = self.mean_power().map_or(String::new(), |power| format!("; {power:.3} W on average"));
        let each = [(self.per_rank(), "rank"), (self.per_byte(), "byte")];
        let each: String = each.iter().filter_map(|(energy, of)| Some(format!("; {} a {of}", joules((*energy)?)))).collect();
        format!("energy {:.6} J ({}){mean}{each}", self.total(), parts.collect::<Vec<_>>().join(", "))
    }
}

/// Three digits, with a prefix: `12.3 nJ`.
fn joules(energy: f64) -> String {
    let prefixes = [(1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p")];
    let (size, prefix) = prefixes.into_iter().find(|(size, _)| energy >= *size).unwrap_or((1e-12, "p"));
    let value = energy / size;
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {prefix}J")
}
