//! Messages that switches copy, from the command of one process to the events of the others.

use narrows_fabric::{Notice, Transfer, TransferId, Tree};
use narrows_nic::{Nics, Process};
use narrows_units::{Bytes, SimTime};
use std::sync::Arc;

/// What a process is told of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// When it sees it.
    pub at: SimTime,
    /// The process.
    pub rank: u32,
    /// As given to [`World::multicast`](crate::World::multicast).
    pub token: u32,
    /// It is the sender, whose buffer is free; else the message is in the memory of `rank`.
    pub sent: bool,
}

/// Numbers of transfers from here on are those of copies; the NICs' are below.
const FIRST_COPY: u32 = 1 << 31;

/// How far a message is on its way to the network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// On its way over PCIe.
    Written(u32),
    /// In the NIC.
    Known(u32),
    /// Through the NIC's pipeline.
    Starts(u32),
    /// A copy is in memory.
    Landed(u32),
    /// An event is visible.
    Visible(u32),
}

#[derive(Debug)]
struct Message {
    rank: u32,
    written: SimTime,
    tree: Arc<Tree>,
    ranks: Arc<[u32]>,
    bytes: u64,
    token: u32,
}

/// A copy on the network or behind it, or the news for the sender.
#[derive(Clone, Copy, Debug)]
struct Copy {
    rank: u32,
    token: u32,
    bytes: u64,
    sent: bool,
    /// The sender is told when this one says that the source is done.
    first_of: Option<u32>,
}

/// All multicasts under way.
#[derive(Debug, Default)]
pub(crate) struct Multicasts {
    messages: Vec<Option<Message>>,
    free_messages: Vec<u32>,
    copies: Vec<Copy>,
    free_copies: Vec<u32>,
    /// For whoever drives the world.
    pub(crate) told: Vec<Told>,
}

/// What is to be done next, and when; keys are processes.
pub(crate) enum Next {
    At(SimTime, u32, Step),
    Start(Arc<Tree>, Vec<Transfer>),
    Nothing,
}

impl Multicasts {
    pub(crate) fn submit(&mut self, rank: u32, written: SimTime, tree: &Arc<Tree>, ranks: &Arc<[u32]>, bytes: u64, token: u32) -> Step {
        let message = Some(Message { rank, written, tree: Arc::clone(tree), ranks: Arc::clone(ranks), bytes, token });
        let slot = self.free_messages.pop().unwrap_or_else(|| {
            self.messages.push(None);
            self.messages.len() as u32 - 1
        });
        self.messages[slot as usize] = message;
        Step::Written(slot)
    }

    fn copy(&mut self, copy: Copy) -> u32 {
        match self.free_copies.pop() {
            Some(slot) => {
                self.copies[slot as usize] = copy;
                slot
            }
            None => {
                self.copies.push(copy);
                self.copies.len() as u32 - 1
            }
        }
    }

    pub(crate) fn step(&mut self, now: SimTime, step: Step, nics: &mut Nics) -> Next {
        match step {
            Step::Written(slot) => {
                let Some(message) = &self.messages[slot as usize] else { return Next::Nothing };
                let at = nics.nic_of(Process(message.rank)).multicast_command(message.written);
                Next::At(at.max(now), message.rank, Step::Known(slot))
            }
            Step::Known(slot) => {
                let Some(message) = &self.messages[slot as usize] else { return Next::Nothing };
                let at = nics.nic_of(Process(message.rank)).multicast_start(now, message.bytes);
                Next::At(at, message.rank, Step::Starts(slot))
            }
            Step::Starts(slot) => {
                let Some(message) = self.messages[slot as usize].take() else { return Next::Nothing };
                self.free_messages.push(slot);
                self.start(&message, nics)
            }
            Step::Landed(slot) => {
                let rank = self.copies[slot as usize].rank;
                Next::At(nics.nic_of(Process(rank)).multicast_event(now), rank, Step::Visible(slot))
            }
            Step::Visible(slot) => {
                let Copy { rank, token, sent, .. } = self.copies[slot as usize];
                self.free_copies.push(slot);
                self.told.push(Told { at: now, rank, token, sent });
                Next::Nothing
            }
        }
    }

    fn start(&mut self, message: &Message, nics: &Nics) -> Next {
        let Message { rank, ref tree, ref ranks, bytes, token, .. } = *message;
        let mut transfers = Vec::with_capacity(ranks.len());
        for (index, (&to, &target)) in ranks.iter().zip(tree.targets()).enumerate() {
            let first_of = (index == 0).then_some(rank);
            let copy = self.copy(Copy { rank: to, token, bytes, sent: false, first_of });
            transfers.push(Transfer {
                id: TransferId(FIRST_COPY + copy),
                source: tree.source(),
                target,
                virtual_network: 0,
                payload: Bytes(bytes),
                source_dma: bytes > nics.config().inline_limit.get(),
                target_dma: bytes > 0,
            });
        }
        Next::Start(Arc::clone(tree), transfers)
    }

    /// Whether the network's notice is about a copy, and what to do then.
    pub(crate) fn notice(&mut self, now: SimTime, notice: Notice, nics: &mut Nics) -> Option<Next> {
        let (Notice::SourceDone(id) | Notice::HeadArrived(id) | Notice::TailArrived(id)) = notice;
        let slot = id.0.checked_sub(FIRST_COPY)?;
        let copy = &mut self.copies[slot as usize];
        let Copy { rank, token, bytes, first_of, .. } = *copy;
        Some(match notice {
            Notice::HeadArrived(_) => Next::Nothing,
            Notice::SourceDone(_) => match first_of {
                Some(rank) => {
                    let news = self.copy(Copy { rank, token, bytes: 0, sent: true, first_of: None });
                    Next::At(now, rank, Step::Landed(news))
                }
                None => Next::Nothing,
            },
            Notice::TailArrived(_) => Next::At(nics.nic_of(Process(rank)).multicast_landed(now, bytes), rank, Step::Landed(slot)),
        })
    }
}
