//! Messages that switches copy, from the command of one process to the events of the others.

use crate::inbound::number;
use crate::station::{Action, Name};
use crate::wrapper::{Around, Wrapper, WrapperId};
use narrows_engine::{Slab, WordMap};
use narrows_fabric::{Arrival, Transfer, TransferId, Tree};
use narrows_nic::{Kinds, Process};
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
pub type MulticastTree = (Arc<Tree>, Arc<[u32]>);

/// How far a message is on its way to the network.
#[derive(Clone, Copy, Debug)]
enum Step {
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
    way: MulticastTree,
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
    /// That processes wait for.
    steps: Slab<Step>,
    messages: Slab<Message>,
    copies: Slab<Copy>,
    /// Copies on the network: by message and target.
    flying: WordMap<(u64, u32), u32>,
    /// By message, while its source is read: who is told.
    reading: WordMap<u64, u32>,
}

impl Multicasts {
    /// A process sends; its request is for when the command is in the NIC.
    pub(crate) fn submit(&mut self, rank: u32, written: SimTime, way: &MulticastTree, bytes: u64, token: u32) -> Action {
        let message = Message { rank, written, way: (Arc::clone(&way.0), Arc::clone(&way.1)), bytes, token };
        let slot = self.messages.insert(message);
        self.action(Step::Written(slot))
    }

    fn action(&mut self, step: Step) -> Action {
        Action::Wrapper(WrapperId::Multicasts, self.steps.insert(step))
    }

    fn ask<L, N: Kinds>(&mut self, at: SimTime, rank: u32, step: Step, around: &mut Around<'_, '_, L, N>) {
        let action = self.action(step);
        around.above.ask(at, rank, action, around.fabric);
    }

    fn start<L, N: Kinds>(&mut self, message: &Message, around: &mut Around<'_, '_, L, N>) {
        let Message { rank, way: (ref tree, ref ranks), bytes, token, .. } = *message;
        let source = tree.source();
        let id = around.above.number(source);
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
            source_dma: bytes > around.nics.config().inline_limit.get(),
            target_dma: bytes > 0,
            route: 0,
        };
        around.above.under_way += tree.targets().len() as i64;
        around.fabric.multicast(tree, transfer);
        let news = self.copies.insert(Copy { rank, token, bytes: 0, sent: true });
        if transfer.source_dma && bytes > 0 {
            self.reading.insert(number(source, id), news);
        } else {
            self.ask(around.fabric.now(), rank, Step::Landed(news), around);
        }
    }
}

impl<L: 'static, N: Kinds> Wrapper<L, N> for Multicasts {
    fn id(&self) -> WrapperId {
        WrapperId::Multicasts
    }

    fn act(&mut self, step: u32, around: &mut Around<'_, '_, L, N>) -> Option<CopyNotice> {
        let now = around.fabric.now();
        match self.steps.remove(step)? {
            Step::Written(slot) => {
                let &Message { rank, written, .. } = self.messages.get(slot)?;
                let at = around.nics.nic_of(Process(rank)).multicast_command(written);
                self.ask(at.max(now), rank, Step::Known(slot), around);
            }
            Step::Known(slot) => {
                let &Message { rank, bytes, .. } = self.messages.get(slot)?;
                let at = around.nics.nic_of(Process(rank)).multicast_start(now, bytes);
                self.ask(at, rank, Step::Starts(slot), around);
            }
            Step::Starts(slot) => {
                let message = self.messages.remove(slot)?;
                self.start(&message, around);
            }
            Step::Landed(slot) => {
                let rank = self.copies.at(slot).rank;
                let at = around.nics.nic_of(Process(rank)).multicast_event(now);
                self.ask(at, rank, Step::Visible(slot), around);
            }
            Step::Visible(slot) => {
                let Copy { rank, token, sent, .. } = self.copies.remove(slot)?;
                return Some(CopyNotice { at: now, rank, token, sent });
            }
        }
        None
    }

    fn source_done(&mut self, (source, id): Name, around: &mut Around<'_, '_, L, N>) -> Option<Name> {
        let Some(news) = self.reading.remove(&number(source, id)) else { return Some((source, id)) };
        self.ask(around.fabric.now(), self.copies.at(news).rank, Step::Landed(news), around);
        None
    }

    fn tail(&mut self, arrival: Arrival, around: &mut Around<'_, '_, L, N>) -> Option<Arrival> {
        let Some(slot) = self.flying.remove(&(number(arrival.source, arrival.id.0), arrival.target)) else { return Some(arrival) };
        let Copy { rank, bytes, .. } = *self.copies.at(slot);
        around.nics.nic_of(Process(rank)).multicast_landed(bytes);
        around.above.under_way -= 1;
        self.ask(around.fabric.now(), rank, Step::Landed(slot), around);
        None
    }
}
