//! Places of a machine, as types: one cannot be taken for another, nor for a number of anything else.

use std::fmt;

/// A node of a machine, by its index from 0.
///
/// ```
/// use narrows_units::NodeId;
/// assert_eq!(NodeId::first(3).map(NodeId::index).collect::<Vec<_>>(), [0, 1, 2]);
/// assert_eq!(NodeId(7).to_string(), "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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
