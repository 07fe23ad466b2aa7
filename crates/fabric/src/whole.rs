//! A network that knows of no regions, under the event loop: it names a transfer by a slot, and tells of it by that.

use crate::packet::region::Effects;
use crate::parallel::{Agent, Desk, Told};
use crate::{Arrival, Event, EventKind, Network, Notice, Out, Transfer, TransferId, Tree};
use narrows_engine::Arena;
use narrows_units::SimTime;
use std::sync::Arc;

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    arrival: Arrival,
    /// The agent is told when the source is done.
    tells: bool,
    /// Of the notices of source and tail: those to come.
    open: u8,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) network: Network,
    slots: Arena<Slot>,
    notices: Vec<Notice>,
}

/// The effects of the network.
struct Effect<'a, A: Agent> {
    desk: &'a mut Desk<A>,
    notices: &'a mut Vec<Notice>,
}

impl<A: Agent> Out for Effect<'_, A> {
    fn schedule(&mut self, at: SimTime, source: u32, event: Event) {
        let (kind, payload) = event.parts();
        self.desk.schedule(at.as_ps(), kind, source, payload);
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

impl Whole {
    pub(crate) fn new(network: Network) -> Whole {
        Whole { network, slots: Arena::new(), notices: Vec::new() }
    }

    /// `transfer` with a slot for its number.
    fn slot(&mut self, now: SimTime, transfer: Transfer, tells: bool) -> Transfer {
        let Transfer { id, source, target, virtual_network, payload, .. } = transfer;
        let arrival = Arrival { id, source, target, virtual_network, payload, started: now };
        let index = self.slots.insert(Slot { arrival, tells, open: 2 });
        Transfer { id: TransferId(index), ..transfer }
    }

    pub(crate) fn start<A: Agent>(&mut self, now: SimTime, transfer: Transfer, desk: &mut Desk<A>) {
        let transfer = self.slot(now, transfer, transfer.source_dma && transfer.payload.0 > 0);
        self.network.start(now, transfer, &mut Effect { desk, notices: &mut self.notices });
        self.tell(desk);
    }

    pub(crate) fn multicast<A: Agent>(&mut self, now: SimTime, tree: &Arc<Tree>, transfer: Transfer, desk: &mut Desk<A>) {
        let reads = transfer.source_dma && transfer.payload.0 > 0;
        let targets = tree.targets().iter().enumerate();
        let transfers: Vec<Transfer> =
            targets.map(|(place, &target)| self.slot(now, Transfer { target, ..transfer }, reads && place == 0)).collect();
        self.network.multicast(now, tree, &transfers, &mut Effect { desk, notices: &mut self.notices });
        self.tell(desk);
    }

    pub(crate) fn handle<A: Agent>(&mut self, now: SimTime, kind: EventKind, payload: u32, desk: &mut Desk<A>) {
        self.network.handle(now, Event::new(kind, payload), &mut Effect { desk, notices: &mut self.notices });
        self.tell(desk);
    }

    fn tell<A: Agent>(&mut self, desk: &mut Desk<A>) {
        for notice in self.notices.drain(..) {
            let (Notice::SourceDone(id) | Notice::HeadArrived(id) | Notice::TailArrived(id)) = notice;
            let slot = &mut self.slots[id.0];
            match notice {
                Notice::SourceDone(_) if slot.tells => desk.told.push(Told::SourceDone(slot.arrival.source, slot.arrival.id)),
                Notice::SourceDone(_) => {}
                Notice::HeadArrived(_) => desk.told.push(Told::Head(slot.arrival)),
                Notice::TailArrived(_) => desk.told.push(Told::Tail(slot.arrival)),
            }
            slot.open -= u8::from(!matches!(notice, Notice::HeadArrived(_)));
            if slot.open == 0 {
                self.slots.remove(id.0);
            }
        }
    }
}
