//! What a run takes in energy, where the machine file says what its parts take (`[power]`, docs/power.md).

use crate::hardware::Networks;
use narrows_machine::{Machine, Processor, ProcessorPower};
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
    time: SimTime,
}

/// What a processor takes for what its ranks do.
fn of_processor(processor: &Processor) -> [Power; 3] {
    let ProcessorPower { core, waiting, accelerator } = processor.power;
    [core, waiting, accelerator]
}

impl Energy {
    /// Of a run that took `time`; `None` where no part of the machine takes power.
    pub(crate) fn of(machine: &Machine, networks: &Networks<'_>, time: SimTime, ranks: &[Share]) -> Option<Energy> {
        let of_hosts = machine.parts().flat_map(|(_, node)| [node.power].into_iter().chain(of_processor(&node.host)));
        let beside =
            machine.auxiliaries.iter().flat_map(|auxiliary| [auxiliary.idle].into_iter().chain(of_processor(&auxiliary.processor)));
        let of_network = [machine.power.nic, machine.power.switch, machine.power.cable];
        if of_hosts.chain(beside).chain(of_network).all(|power| power == Power(0)) {
            return None;
        }
        // Integers to the end: the order of the ranks must not show.
        let joules = |energy: u128| energy as f64 / 1e18;
        let used: BTreeSet<NodeId> = ranks.iter().map(|share| share.processor.node).collect();
        let counts = networks.counts(&used);
        let mut of_names: BTreeMap<String, u128> = BTreeMap::new();
        let mut idle = 0;
        for name in used.iter().flat_map(|&node| &machine.node(node).processors) {
            let energy = machine.auxiliary(name).map_or(0, |auxiliary| auxiliary.idle.over(time));
            idle += energy;
            *of_names.entry(name.clone()).or_default() += energy;
        }
        let [mut computing, mut waiting, mut accelerators] = [0; 3];
        for share in ranks {
            let (name, processor) = machine.processor(share.processor);
            let [core, polling, accelerator] = of_processor(processor);
            let energies = [core.over(share.computing), polling.over(share.in_mpi), accelerator.over(share.beside)];
            let all = [&mut computing, &mut waiting, &mut accelerators];
            all.into_iter().zip(energies).for_each(|(sum, energy)| *sum += energy);
            *of_names.entry(name.to_owned()).or_default() += energies.iter().sum::<u128>();
        }
        if machine.auxiliaries.is_empty() {
            of_names.clear();
        }
        Some(Energy {
            nodes: joules(used.iter().map(|&node| machine.node(node).power.over(time)).sum()),
            idle: joules(idle),
            computing: joules(computing),
            waiting: joules(waiting),
            accelerators: joules(accelerators),
            nics: joules(machine.power.nic.over(time) * u128::from(counts.ports)),
            switches: joules(machine.power.switch.over(time) * u128::from(counts.switches)),
            cables: joules(machine.power.cable.over(time) * u128::from(counts.cables)),
            by_processor: of_names.into_iter().map(|(name, energy)| (name, joules(energy))).collect(),
            time,
        })
    }

    fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("nodes", self.nodes),
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

    /// As `summary.json` has it.
    pub(crate) fn summary(&self) -> Value {
        let mut summary = json!({ "total_j": self.total(), "mean_power_w": self.mean_power() });
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
        format!("energy {:.6} J ({}){mean}", self.total(), parts.collect::<Vec<_>>().join(", "))
    }
}
