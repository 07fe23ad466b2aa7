//! The flow network, which knows of no regions, under the event loop: it names a transfer by a slot, and tells of it by
//! that.

use crate::flow::FlowNetwork;
use crate::packet::region::Effects as _;
use crate::parallel::{Agent, RegionEffects};
use crate::port::PortEffects as _;
use crate::{Arrival, Event, EventKind, Notice, Out, Transfer, TransferId, Tree};
use narrows_engine::Arena;
use narrows_units::SimTime;
use std::sync::Arc;

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    arrival: Arrival,
    /// The agent is notifications when the source is done.
    tells: bool,
    /// Of the notices of source, head and tail: those to come.
    open: u8,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) network: FlowNetwork,
    slots: Arena<Slot>,
    notices: Vec<Notice>,
}

/// The effects of the network.
struct Effect<'a, A: Agent> {
    effects: &'a mut RegionEffects<A>,
    notices: &'a mut Vec<Notice>,
}

impl<A: Agent> Out for Effect<'_, A> {
    fn schedule(&mut self, at: SimTime, source: u32, event: Event) {
        let (kind, payload) = event.parts();
        self.effects.schedule(at.as_ps(), kind, source, payload);
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

impl Whole {
    pub(crate) fn new(network: FlowNetwork) -> Whole {
        Whole { network, slots: Arena::new(), notices: Vec::new() }
    }

    /// See [`FlowNetwork::rest`].
    pub(crate) fn rest(&mut self) {
        self.slots.forget_order();
        self.network.rest();
    }

    /// A transfer's event is near.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(slot) = self.slots.places().get(slot as usize) {
            narrows_engine::prefetch(slot);
        }
    }

    /// Where a transfer goes; 0 where there is none.
    #[inline]
    pub(crate) fn target(&self, slot: u32) -> u32 {
        self.slots.places().get(slot as usize).map_or(0, |slot| slot.arrival.target)
    }

    /// See [`crate::parallel::Fabric::flow_rates`].
    pub(crate) fn flow_rates(&self) -> Vec<(TransferId, u64)> {
        let named = self.network.rates().into_iter().map(|(slot, rate)| (self.slots[slot.0].arrival.id, rate));
        let mut rates: Vec<_> = named.collect();
        rates.sort_unstable();
        rates
    }

    /// `transfer` with a slot for its number.
    fn slot(&mut self, now: SimTime, transfer: Transfer, tells: bool) -> Transfer {
        let Transfer { id, source, target, virtual_network, payload, .. } = transfer;
        let arrival = Arrival { id, source, target, virtual_network, payload, started: now };
        let index = self.slots.insert(Slot { arrival, tells, open: 3 });
        Transfer { id: TransferId(index), ..transfer }
    }

    pub(crate) fn start<A: Agent>(&mut self, now: SimTime, transfer: Transfer, effects: &mut RegionEffects<A>) {
        let transfer = self.slot(now, transfer, transfer.source_dma && transfer.payload.0 > 0);
        self.network.start(now, transfer, &mut Effect { effects, notices: &mut self.notices });
        self.tell(effects);
    }

    pub(crate) fn multicast<A: Agent>(&mut self, now: SimTime, tree: &Arc<Tree>, transfer: Transfer, effects: &mut RegionEffects<A>) {
        let reads = transfer.source_dma && transfer.payload.0 > 0;
        let targets = tree.targets().iter().enumerate();
        let transfers: Vec<Transfer> =
            targets.map(|(place, &target)| self.slot(now, Transfer { target, ..transfer }, reads && place == 0)).collect();
        self.network.multicast(now, tree, &transfers, &mut Effect { effects, notices: &mut self.notices });
        self.tell(effects);
    }

    pub(crate) fn handle<A: Agent>(&mut self, now: SimTime, kind: EventKind, payload: u32, effects: &mut RegionEffects<A>) {
        self.network.handle(now, Event::new(kind, payload), &mut Effect { effects, notices: &mut self.notices });
        self.tell(effects);
    }

    fn tell<A: Agent>(&mut self, effects: &mut RegionEffects<A>) {
        for notice in self.notices.drain(..) {
            let (Notice::SourceDone(id) | Notice::HeadArrived(id) | Notice::TailArrived(id)) = notice;
            let slot = &mut self.slots[id.0];
            match notice {
                Notice::SourceDone(_) if slot.tells => effects.tell_source_done(&slot.arrival),
                Notice::SourceDone(_) => {}
                Notice::HeadArrived(_) => effects.head(&slot.arrival),
                Notice::TailArrived(_) => effects.tail(&slot.arrival),
            }
            slot.open -= 1;
            if slot.open == 0 {
                self.slots.remove(id.0);
            }
        }
    }
}
