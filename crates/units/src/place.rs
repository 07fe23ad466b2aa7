//! Places of a machine, as types: one cannot be taken for another, nor for a number of anything else.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A node of a machine, by its index from 0.
///
/// ```
/// use narrows_units::NodeId;
/// assert_eq!(NodeId::first(3).map(NodeId::index).collect::<Vec<_>>(), [0, 1, 2]);
/// assert_eq!(NodeId(7).to_string(), "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// For what is kept by node.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The first so many nodes.
    pub fn first(count: u32) -> impl ExactSizeIterator<Item = NodeId> {
        (0..count).map(NodeId)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A processor of a node: of its host, or one beside it.
///
/// ```
/// use narrows_units::{NodeId, ProcessorId};
/// assert_eq!(ProcessorId::host(NodeId(7)), ProcessorId { node: NodeId(7), number: 0 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProcessorId {
    /// Its node.
    pub node: NodeId,
    /// Its number on the node: 0 is the host's.
    pub number: u8,
}

impl ProcessorId {
    /// That of the host.
    pub const fn host(node: NodeId) -> ProcessorId {
        ProcessorId { node, number: 0 }
    }
}

/// A port of a machine: a NIC of a node, and its place on a network. Ports are numbered from 0 through the networks of
/// the machine, within one in the order of the nodes; where each node has one, as the nodes are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PortId(pub u32);

impl PortId {
    /// For what is kept by port.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the ways between nodes that have several ports: a port talks to those of its rail alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Rail(pub u8);

impl Rail {
    /// That of machines whose nodes have one port.
    pub const FIRST: Rail = Rail(0);

    /// For what is kept by rail.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
