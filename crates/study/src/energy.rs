//! What a run takes in energy, where the machine file says what its parts take (`[power]`, docs/power.md).

use crate::hardware::Networks;
use narrows_machine::Machine;
use narrows_units::{NodeId, Power, SimTime};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a rank did with its core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Where it was.
    pub node: NodeId,
    /// Computing.
    pub computing: SimTime,
    /// In MPI.
    pub in_mpi: SimTime,
    /// Computing on an accelerator beside it.
    pub beside: SimTime,
}

/// The energy of a run, part by part, in joules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Energy {
    /// Nodes with ranks, whatever they did.
    pub nodes: f64,
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
    time: SimTime,
}

impl Energy {
    /// Of a run that took `time`; `None` where no part of the machine takes power.
    pub(crate) fn of(machine: &Machine, networks: &Networks<'_>, time: SimTime, ranks: &[Share]) -> Option<Energy> {
        let of_nodes = machine.parts().flat_map(|(_, node)| {
            let power = node.power;
            [power.node, power.core, power.waiting, power.accelerator]
        });
        let of_network = [machine.power.nic, machine.power.switch, machine.power.cable];
        if of_nodes.chain(of_network).all(|power| power == Power(0)) {
            return None;
        }
        // Integers to the end: the order of the ranks must not show.
        let joules = |energy: u128| energy as f64 / 1e18;
        let used: BTreeSet<NodeId> = ranks.iter().map(|share| share.node).collect();
        let counts = networks.counts(&used);
        Some(Energy {
            nodes: joules(used.iter().map(|&node| machine.node(node).power.node.over(time)).sum()),
            computing: joules(ranks.iter().map(|share| machine.node(share.node).power.core.over(share.computing)).sum()),
            waiting: joules(ranks.iter().map(|share| machine.node(share.node).power.waiting.over(share.in_mpi)).sum()),
            accelerators: joules(ranks.iter().map(|share| machine.node(share.node).power.accelerator.over(share.beside)).sum()),
            nics: joules(machine.power.nic.over(time) * u128::from(counts.ports)),
            switches: joules(machine.power.switch.over(time) * u128::from(counts.switches)),
            cables: joules(machine.power.cable.over(time) * u128::from(counts.cables)),
            time,
        })
    }

    fn parts(&self) -> [(&'static str, f64); 7] {
        [
            ("nodes", self.nodes),
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
