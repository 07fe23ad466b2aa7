//! Messages that switches copy, from the command of one process to the events of the others.

use crate::inbound::number;
use narrows_engine::{Slab, WordMap};
use narrows_fabric::{Transfer, TransferId, Tree};
use narrows_nic::{Kinds, Nics, Process};
use narrows_units::{Bytes, SimTime};
use std::sync::Arc;

/// What a process is told of a multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNotice {
    /// When it sees it.
    pub at: SimTime,
    /// The process.
    pub rank: u32,
    /// As given to [`Requests::multicast`](crate::Requests::multicast).
    pub token: u32,
    /// It is the sender, whose buffer is free; else the message is in the memory of `rank`.
    pub sent: bool,
}

/// The way of messages from one process that switches copy: the tree, and the processes in its order.
pub type Way = (Arc<Tree>, Arc<[u32]>);

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
    way: Way,
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
}

/// All multicasts under way.
#[derive(Debug, Default)]
pub(crate) struct Multicasts {
    messages: Slab<Message>,
    copies: Slab<Copy>,
    /// Copies on the network: by message and target.
    flying: WordMap<(u64, u32), u32>,
    /// By message, while its source is read: who is told.
    reading: WordMap<u64, u32>,
}

/// What is to be done next, and when; keys are processes.
pub(crate) enum Next {
    At(SimTime, u32, Step),
    /// With the news for the sender, when there is nothing to read.
    Start(Arc<Tree>, Transfer, Option<(u32, Step)>),
    Tell(CopyNotice),
    Nothing,
}

impl Multicasts {
    pub(crate) fn submit(&mut self, rank: u32, written: SimTime, way: &Way, bytes: u64, token: u32) -> Step {
        Step::Written(self.messages.insert(Message { rank, written, way: (Arc::clone(&way.0), Arc::clone(&way.1)), bytes, token }))
    }

    /// `new_number` numbers a message of a node.
    pub(crate) fn step<N: Kinds>(&mut self, now: SimTime, step: Step, nics: &mut Nics<N>, new_number: impl FnOnce(u32) -> u32) -> Next {
        match step {
            Step::Written(slot) => {
                let Some(message) = self.messages.get(slot) else { return Next::Nothing };
                let at = nics.nic_of(Process(message.rank)).multicast_command(message.written);
                Next::At(at.max(now), message.rank, Step::Known(slot))
            }
            Step::Known(slot) => {
                let Some(message) = self.messages.get(slot) else { return Next::Nothing };
                let at = nics.nic_of(Process(message.rank)).multicast_start(now, message.bytes);
                Next::At(at, message.rank, Step::Starts(slot))
            }
            Step::Starts(slot) => match self.messages.remove(slot) {
                Some(message) => self.start(&message, nics, new_number),
                None => Next::Nothing,
            },
            Step::Landed(slot) => {
                let rank = self.copies.at(slot).rank;
                Next::At(nics.nic_of(Process(rank)).multicast_event(now), rank, Step::Visible(slot))
            }
            Step::Visible(slot) => match self.copies.remove(slot) {
                Some(Copy { rank, token, sent, .. }) => Next::Tell(CopyNotice { at: now, rank, token, sent }),
                None => Next::Nothing,
            },
        }
    }

    fn start<N: Kinds>(&mut self, message: &Message, nics: &Nics<N>, new_number: impl FnOnce(u32) -> u32) -> Next {
        let Message { rank, way: (ref tree, ref ranks), bytes, token, .. } = *message;
        let source = tree.source();
        let id = new_number(source);
        for (&to, &target) in ranks.iter().zip(tree.targets()) {
            let copy = self.copies.insert(Copy { rank: to, token, bytes, sent: false });
            self.flying.insert((number(source, id), target), copy);
        }
        let transfer = Transfer {
            id: TransferId(id),
            source,
            target: tree.targets()[0],
            virtual_network: 0,
            payload: Bytes(bytes),
            source_dma: bytes > nics.config().inline_limit.get(),
            target_dma: bytes > 0,
        };
        let news = self.copies.insert(Copy { rank, token, bytes: 0, sent: true });
        let reads = transfer.source_dma && bytes > 0;
        if reads {
            self.reading.insert(number(source, id), news);
        }
        Next::Start(Arc::clone(tree), transfer, (!reads).then_some((rank, Step::Landed(news))))
    }

    /// The source of a message has been read; nothing if it is none that switches copy.
    pub(crate) fn source_done(&mut self, now: SimTime, source: u32, id: u32) -> Next {
        match self.reading.remove(&number(source, id)) {
            Some(news) => Next::At(now, self.copies.at(news).rank, Step::Landed(news)),
            None => Next::Nothing,
        }
    }

    /// A copy has arrived; nothing if it is none.
    pub(crate) fn tail<N: Kinds>(&mut self, now: SimTime, source: u32, id: u32, target: u32, nics: &mut Nics<N>) -> Next {
        match self.flying.remove(&(number(source, id), target)) {
            Some(slot) => {
                let Copy { rank, bytes, .. } = *self.copies.at(slot);
                nics.nic_of(Process(rank)).multicast_landed(bytes);
                Next::At(now, rank, Step::Landed(slot))
            }
            None => Next::Nothing,
        }
    }
}
