//! Processors with ports of their own, and their addresses in the network.
//!
//! A node's address is its number. A processor with its own ports has one behind those of all nodes, in the order of
//! the nodes, and of a node in the order of its list; the topology has a place for each, behind the nodes' own.

use crate::model::Machine;
use crate::node::{HOST, Mode, Node};
use narrows_units::{NodeId, ProcessorId, SimTime};
use std::collections::BTreeMap;

/// Where the processors of a machine are reached. See [`Machine::addresses`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    nodes: u32,
    /// Processors that have their own, in their order.
    own: Vec<ProcessorId>,
    of: BTreeMap<ProcessorId, NodeId>,
}

impl Addresses {
    /// The address of a processor: its own, or its node's.
    pub fn of(&self, id: ProcessorId) -> NodeId {
        self.of.get(&id).copied().unwrap_or(id.node)
    }

    /// How many there are, those of nodes among them.
    pub fn count(&self) -> u32 {
        self.nodes + self.own.len() as u32
    }

    /// Processors with their own, in the order of these, which begin at `node.count`.
    pub fn own(&self) -> impl Iterator<Item = (NodeId, ProcessorId)> {
        (self.nodes..).map(NodeId).zip(self.own.iter().copied())
    }

    /// The node that is reached there.
    pub fn node(&self, address: NodeId) -> NodeId {
        let own = address.0.checked_sub(self.nodes).and_then(|place| self.own.get(place as usize));
        own.map_or(address, |id| id.node)
    }
}

impl Machine {
    /// Where its processors are reached.
    pub fn addresses(&self) -> Addresses {
        let nodes = self.node.count;
        if !self.has_own_ports() {
            return Addresses { nodes, ..Addresses::default() };
        }
        let of_node = |(first, node): (NodeId, &Node)| {
            let numbers: Vec<u8> = self.own_ports(node).collect();
            let ids = move |node| numbers.clone().into_iter().map(move |number| ProcessorId { node: NodeId(node), number });
            (first.0..first.0 + node.count).flat_map(ids)
        };
        let own: Vec<ProcessorId> = self.parts().flat_map(of_node).collect();
        let of = own.iter().copied().zip((nodes..).map(NodeId)).collect();
        Addresses { nodes, own, of }
    }

    /// Some processor may have its own ports.
    pub(crate) fn has_own_ports(&self) -> bool {
        self.auxiliaries.iter().any(|auxiliary| auxiliary.mode.has_ports())
    }

    /// Numbers of the processors of a node that have their own ports.
    fn own_ports<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = u8> + 'a {
        let has = |name: &str| name != HOST && self.auxiliary(name).is_some_and(|auxiliary| auxiliary.mode.has_ports());
        (0u8..).zip(self.processors(node)).filter(move |(_, (name, _))| has(name)).map(|(number, _)| number)
    }

    /// Addresses that nodes have beside their own: so many more places of the topology are taken.
    pub(crate) fn addresses_beside(&self) -> u64 {
        let of_node = |(_, node): (NodeId, &Node)| u64::from(node.count) * self.own_ports(node).count() as u64;
        if self.has_own_ports() { self.parts().map(of_node).sum() } else { 0 }
    }

    /// What the host's NIC has on its way to the host's memory: the buses to a processor that stands in front of it
    /// ([`Mode::OnPath`]), one way.
    pub fn in_front(&self, node: &Node) -> SimTime {
        let stands = |name: &&String| self.auxiliary(name).is_some_and(|auxiliary| auxiliary.mode == Mode::OnPath);
        let buses = |name: &String| self.way_to(name).map(|bus| self.buses[bus].link.latency).collect::<Vec<_>>();
        node.processors.iter().filter(stands).flat_map(buses).fold(SimTime::ZERO, |sum, latency| sum + latency)
    }

    /// The machine as the NIC of a processor's own ports has it, of the network of this one.
    pub fn behind(&self, pcie: SimTime) -> Machine {
        let mut machine = self.clone();
        machine.nic.config.pcie_latency = pcie;
        machine
    }
}
