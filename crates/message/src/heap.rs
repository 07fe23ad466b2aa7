//! Memory for messages that nobody has asked for, and for data whose buffer was free before a send buffer was.

use crate::Transport;
use std::collections::BTreeMap;

/// Blocks whose lengths are powers of two. None is given back to the transport.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// Blocks that are in use: their sizes.
    used: BTreeMap<u64, u32>,
    /// By size.
    free: BTreeMap<u32, Vec<u64>>,
}

impl Heap {
    /// A block of at least `length` bytes.
    pub(crate) fn allocate(&mut self, length: u64, transport: &mut dyn Transport) -> u64 {
        let size = length.max(1).next_power_of_two().ilog2();
        let address = self.free.get_mut(&size).and_then(Vec::pop).unwrap_or_else(|| transport.allocate(1 << size));
        self.used.insert(address, size);
        address
    }

    /// It is no more needed; of what is not ours nothing follows.
    pub(crate) fn free(&mut self, address: u64) {
        if let Some(size) = self.used.remove(&address) {
            self.free.entry(size).or_default().push(address);
        }
    }
}
