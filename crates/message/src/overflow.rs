//! Room for eager messages that nobody has asked for yet: blocks of memory in the overflow lists.
//!
//! A block is in the list until less than one eager message fits (AUTO_UNLINK: another one takes
//! its place), and comes back when no unexpected header points into it any more (AUTO_FREE) and
//! none of the messages that were claimed, or wait for a multi-receive with room, lies in it.
//! The number of blocks grows with the unexpected messages; none is ever given back.

use crate::wire::{ANNOUNCED, Owner, pt_of};
use crate::{MessageConfig, Queue, Transport};
use narrows_portals::{EntryId, List, MatchEntry, me};
use narrows_units::Rail;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Block {
    address: u64,
    queue: Queue,
    /// Messages in it that we still need although Portals has forgotten them.
    held: u32,
    /// AUTO_FREE has been seen.
    freed: bool,
    /// The entry, while the block is in the list.
    entry: Option<EntryId>,
}

/// All overflow blocks of an endpoint.
#[derive(Debug)]
pub(crate) struct Overflow {
    blocks: Vec<Block>,
    spare: Vec<u32>,
    by_address: BTreeMap<u64, u32>,
    block_length: u64,
    eager_limit: u64,
    rail: Rail,
}

impl Overflow {
    pub(crate) fn new(config: &MessageConfig) -> Self {
        Overflow {
            blocks: Vec::new(),
            spare: Vec::new(),
            by_address: BTreeMap::new(),
            block_length: config.overflow_block,
            eager_limit: config.eager_limit,
            rail: config.rails.first(),
        }
    }

    /// Puts one more block into the overflow list of `queue`.
    pub(crate) fn post(&mut self, transport: &mut impl Transport, queue: Queue) {
        let index = match self.spare.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.blocks.len()).expect("fewer blocks than fit into memory");
                let address = transport.allocate(self.block_length);
                self.by_address.insert(address, index);
                self.blocks.push(Block { address, queue, held: 0, freed: false, entry: None });
                index
            }
        };
        let block = &mut self.blocks[index as usize];
        block.queue = queue;
        block.freed = false;
        let me = MatchEntry {
            start: block.address,
            length: self.block_length,
            options: me::OP_PUT | me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE | me::EVENT_LINK_DISABLE,
            match_bits: 0,
            ignore_bits: !ANNOUNCED,
            min_free: self.eager_limit,
            user_ptr: Owner::Block(index).user_ptr(),
            ..MatchEntry::default()
        };
        block.entry = Some(transport.me_append(self.rail, pt_of(queue), List::Overflow, me));
    }

    /// The block has left the list: posts another one.
    pub(crate) fn unlinked(&mut self, transport: &mut impl Transport, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.entry = None;
        let queue = block.queue;
        self.post(transport, queue);
    }

    /// Blocks in the list that no message of ours lies in, with their entries. When the entry of one is unlinked, so
    /// that no other message lies in it either, [`Overflow::emptied`] puts an empty one there: how far the blocks are
    /// used depends on which of the messages so far were unexpected.
    pub(crate) fn idle(&self) -> Vec<(u32, EntryId)> {
        let idle = |(index, block): (usize, &Block)| Some((index as u32, block.entry.filter(|_| block.held == 0)?));
        self.blocks.iter().enumerate().filter_map(idle).collect()
    }

    /// See [`Overflow::idle`].
    pub(crate) fn emptied(&mut self, transport: &mut impl Transport, index: u32) {
        let block = &mut self.blocks[index as usize];
        block.entry = None;
        let queue = block.queue;
        self.spare.push(index);
        self.post(transport, queue);
    }

    /// No unexpected header points into the block any more.
    pub(crate) fn freed(&mut self, index: u32) {
        let block = &mut self.blocks[index as usize];
        debug_assert!(!block.freed, "AUTO_FREE comes once");
        block.freed = true;
        if block.held == 0 {
            self.spare.push(index);
        }
    }

    /// Keeps the block around the message until [`Overflow::release`] of what this returns. An
    /// empty message keeps nothing.
    pub(crate) fn hold(&mut self, address: u64, length: u64) -> Option<u32> {
        if length == 0 || self.blocks.is_empty() {
            return None;
        }
        let (start, &index) = self.by_address.range(..=address).next_back().expect("unexpected messages lie in overflow blocks");
        debug_assert!(address + length <= start + self.block_length);
        self.blocks[index as usize].held += 1;
        Some(index)
    }

    /// One held message less.
    pub(crate) fn release(&mut self, held: Option<u32>) {
        let Some(index) = held else { return };
        let block = &mut self.blocks[index as usize];
        block.held -= 1;
        if block.held == 0 && block.freed {
            self.spare.push(index);
        }
    }

    /// Blocks that exist.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }
}
