//! A machine as what simulations are made of.

use crate::StudyError;
use narrows_fabric::NetworkConfig;
use narrows_machine::{Addresses, Machine, NetworkKind, Plane};
use narrows_nic::{AnyConfig, Processors};
use narrows_sim::{Hardware, NetworkSetup, PortSetup};
use narrows_topology::Topology;
use narrows_units::{NodeId, ProcessorId, Rail, SimTime};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of all planes together.
pub(crate) struct Counts {
    /// Ports of the nodes that were asked about.
    pub ports: u64,
    /// Switches.
    pub switches: u64,
    /// Cables.
    pub cables: u64,
}

impl Counts {
    /// Of one network with all of its hosts.
    pub(crate) fn of(topology: &Topology) -> Counts {
        let (ports, switches) = (u64::from(topology.hosts()), u64::from(topology.switches()));
        // A link for each direction.
        Counts { ports, switches, cables: topology.links().len() as u64 / 2 }
    }
}

/// The networks of a machine, plane by plane.
pub(crate) struct Networks<'a> {
    planes: Vec<Plane<'a>>,
    configs: Vec<NetworkConfig>,
    topologies: Vec<Topology>,
    addresses: Addresses,
    /// By address, where the host's NIC is not as the network has it: from PCIe to its processor.
    pcie: BTreeMap<NodeId, Pcie>,
}

/// What is between a NIC and the processor whose port it is, other than on the other nodes.
#[derive(Clone, Copy)]
enum Pcie {
    /// So long.
    Is(SimTime),
    /// So much longer.
    Longer(SimTime),
}

impl<'a> Networks<'a> {
    /// `seed`: of whatever they draw.
    ///
    /// # Errors
    /// A wiring that cannot be, or handlers on a network without packets.
    pub(crate) fn of(machine: &'a Machine, seed: u64) -> Result<Networks<'a>, StudyError> {
        let planes = machine.planes();
        if planes.iter().any(|plane| plane.machine.handlers().is_some() && plane.machine.network.kind != NetworkKind::Packet) {
            let why = "handlers see packets, and this network has none: use --network packet, or leave out nic.spin.rules";
            return Err(StudyError::Contradiction(String::from(why)));
        }
        // Planes of one network draw for themselves.
        let configs = planes
            .iter()
            .map(|plane| plane.machine.network_config_on(Some(plane.rail), seed.wrapping_add(u64::from(plane.copy))))
            .collect();
        let mut topologies: Vec<Topology> = Vec::new();
        for plane in &planes {
            let topology = match topologies.last() {
                Some(last) if plane.copy > 0 => last.clone(),
                _ => plane.machine.topology()?,
            };
            topologies.push(topology);
        }
        let addresses = machine.addresses();
        Ok(Networks { planes, configs, topologies, pcie: pcie(machine, &addresses), addresses })
    }

    /// With faults so much later: where simulated time does not start at 0. What is before it takes a course of its
    /// own in every run, and what is lost then would decide what is lost later.
    pub(crate) fn with_faults_later(mut self, by: SimTime) -> Self {
        for fault in self.configs.iter_mut().flat_map(|config| &mut config.faults) {
            fault.from += by;
            fault.to += by;
        }
        self
    }

    /// Of the first one: its graph, and its plane.
    pub(crate) fn first(&self) -> (&Topology, &Plane<'a>) {
        (&self.topologies[0], &self.planes[0])
    }

    /// What it does.
    pub(crate) fn first_config(&self) -> &NetworkConfig {
        &self.configs[0]
    }

    /// Of a rail: see [`narrows_machine::Fabric::machine`].
    pub(crate) fn machine_on(&self, rail: Rail) -> &'a Machine {
        self.planes[rail.index()].machine
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.planes.len()
    }

    /// How many parts they have.
    pub(crate) fn counts(&self, nodes: &BTreeSet<NodeId>) -> Counts {
        let used = |&&address: &&NodeId| nodes.contains(&self.addresses.node(address));
        let joins = |plane: &Plane<'_>| plane.nodes.iter().filter(used).count() as u64;
        let all = || self.topologies.iter().map(Counts::of);
        Counts {
            ports: self.planes.iter().map(joins).sum(),
            switches: all().map(|counts| counts.switches).sum(),
            cables: all().map(|counts| counts.cables).sum(),
        }
    }

    /// The same, with the processes at these places.
    pub(crate) fn hardware_for(&self, machine: &Machine, placed: &[ProcessorId]) -> Hardware<'_> {
        let mut hardware = self.hardware();
        if placed.iter().any(|id| id.number > 0) {
            let of = placed.iter().map(|&id| machine.processor_kind(id)).collect();
            let kinds = machine.auxiliaries.len() as u16 + 1;
            hardware.processors = Processors { of, routes: machine.node_routes().1, kinds, ..hardware.processors };
        }
        hardware
    }

    /// All that is below the processes.
    pub(crate) fn hardware(&self) -> Hardware<'_> {
        let networks =
            self.configs.iter().zip(&self.topologies).map(|(config, topology)| NetworkSetup { config, topology: topology.clone() });
        // A kind for each network; that of its planes is the same.
        let mut nics: Vec<AnyConfig> = self.planes.iter().filter(|plane| plane.copy == 0).map(|plane| plane.machine.nic_config()).collect();
        let mut kind = 0;
        let mut ports = Vec::new();
        for (index, plane) in self.planes.iter().enumerate() {
            kind += usize::from(index > 0 && plane.copy == 0);
            let mut others: BTreeMap<SimTime, usize> = BTreeMap::new();
            for &node in &plane.nodes {
                let base = plane.machine.nic.config.pcie_latency;
                let latency = self.pcie.get(&node).map_or(base, |pcie| match *pcie {
                    Pcie::Is(latency) => latency,
                    Pcie::Longer(by) => base + by,
                });
                let mut other = |latency| {
                    nics.push(plane.machine.behind(latency).nic_config());
                    nics.len() - 1
                };
                let nic = if latency == base { kind } else { *others.entry(latency).or_insert_with_key(|&latency| other(latency)) };
                ports.push(PortSetup { node, rail: plane.rail, nic });
            }
        }
        let nodes = self.addresses.count();
        let owners = (0..nodes).map(|address| self.addresses.node(NodeId(address)).0);
        let owners = if self.addresses.own().next().is_some() { owners.collect() } else { Vec::new() };
        let processors = Processors { owners, ..Processors::default() };
        Hardware { nodes, networks: networks.collect(), ports, nics, processors }
    }
}

/// What differs by address: processors with their own ports, and hosts behind one that stands in front of them.
fn pcie(machine: &Machine, addresses: &Addresses) -> BTreeMap<NodeId, Pcie> {
    let mut pcie = BTreeMap::new();
    for (address, id) in addresses.own() {
        let auxiliary = machine.auxiliary(machine.processor(id).0);
        pcie.extend(auxiliary.map(|auxiliary| (address, Pcie::Is(auxiliary.pcie))));
        let in_front = machine.in_front(machine.node(id.node));
        if in_front > SimTime::ZERO {
            pcie.insert(id.node, Pcie::Longer(in_front));
        }
    }
    pcie
}
