//! Packets that switches copy, along a [`Tree`].
//!
//! A switch makes a copy for each branch, and each goes when its own output is free and has credits (asynchronous
//! replication). The packet keeps its place in the input buffer until the last copy has left. As a buffer holds whole
//! packets, and the channels of a tree are those of minimal routing, a copy never waits for a buffer that waits for it:
//! what is free of deadlock without copies is so with them.

use super::region::{Effects, Region};
use super::state::*;
use crate::flights::NONE;
use crate::multicast::{self, Tree, TreeError};
use crate::port::Ports;
use crate::{Transfer, TransferId};
use narrows_engine::Arena;
use std::sync::Arc;

/// A packet of which copies wait in a switch.
#[derive(Clone, Copy, Debug)]
struct Original {
    /// The buffer that it is in.
    input: u32,
    lane: u32,
    wire: u32,
    /// Copies that have not left; 0 in a free slot.
    left: u32,
    /// When the tails of those that have are gone.
    tail: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// By message.
    trees: Vec<Arc<Tree>>,
    originals: Arena<Original>,
}

impl Copies {
    /// Input, lane and bytes of the packets whose copies wait.
    pub(super) fn held(&self) -> impl Iterator<Item = (u32, u32, u32)> + '_ {
        self.originals.places().iter().filter(|original| original.left > 0).map(|original| (original.input, original.lane, original.wire))
    }
}

/// The [`RouteState::phase`](narrows_topology::RouteState::phase) of a copy that waits for its output; its `word` is
/// the place of the original.
const WAITS: u8 = 1;

/// A copy has no bytes of its own in the buffer.
pub(super) fn shares_buffer(packet: &Packet) -> bool {
    packet.is_copied() && packet.route.phase == WAITS
}

impl<P: Ports> Region<P> {
    /// Sends message `index` of those that are copied. `transfer` has the number by which its arrivals are told.
    pub(crate) fn start_copied(&mut self, now: u64, index: u32, tree: &Arc<Tree>, transfer: &Transfer, fx: &mut impl Effects) {
        let trees = &mut self.copies.trees;
        match trees.get_mut(index as usize) {
            Some(place) => *place = Arc::clone(tree),
            None => trees.push(Arc::clone(tree)),
        }
        self.statistics.transfers += tree.targets().len() as u64;
        self.statistics.bytes += transfer.payload.0 * tree.targets().len() as u64;
        // On its way the target of a packet is its place in the tree.
        self.send(now, &Transfer { target: 0, id: TransferId(transfer.id.0), ..*transfer }, true, fx);
    }

    /// Whether switches can copy here.
    pub(crate) fn check_multicast(&self) -> Result<(), TreeError> {
        if self.pauses.is_some() {
            return Err(TreeError::Pause);
        }
        if self.faults.is_some() {
            return Err(TreeError::Faults);
        }
        multicast::check(&self.layout.topology, self.channels as u8)
    }

    /// A packet is at a switch where it is copied.
    #[inline(never)]
    pub(super) fn branch(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        let packet = self.packets[index];
        let message = packet.id as usize & (u32::MAX >> 1) as usize;
        let tree = Arc::clone(&self.copies.trees[message]);
        let branches = tree.branches(packet.target);
        let original = Original { input: packet.input, lane: packet.lane(), wire: packet.wire, left: branches.len() as u32, tail: 0 };
        let original = self.copies.originals.insert(original);
        for (place, branch) in branches.iter().enumerate() {
            let mut copy = packet;
            copy.target = branch.next;
            copy.next = NONE;
            copy.route.word = original;
            copy.route.phase = WAITS;
            copy.route.channel = branch.channel;
            let copy = if place == 0 {
                self.packets[index] = copy;
                index
            } else {
                self.packets.insert(copy)
            };
            let lane = packet.virtual_network() * self.channels + u32::from(branch.channel);
            self.ask(self.layout.output[branch.link as usize], lane, copy, now, fx);
        }
    }

    /// A copy starts on its link.
    #[inline(never)]
    pub(super) fn copy_leaves(&mut self, index: u32, tail: u64, now: u64, fx: &mut impl Effects) {
        let packet = &mut self.packets[index];
        packet.route.phase = 0;
        let place = packet.route.word;
        let original = &mut self.copies.originals[place];
        original.left -= 1;
        original.tail = original.tail.max(tail);
        if original.left == 0 {
            let Original { input, lane, wire, tail, .. } = *original;
            self.copies.originals.remove(place);
            self.leaves_input(input, lane, tail, wire, now, fx);
        }
    }
}
