//! The transfers in flight: slots, and the path within a node.

use crate::timing::Costs;
use crate::within::{Buses, Passes};
use crate::{Event, EventKind, NodeRoutes, Notice, Out, Statistics, Transfer};
use narrows_engine::Slab;
use narrows_units::SimTime;

pub(crate) const NONE: u32 = u32::MAX;

/// Largest transfer: 1 TiB. Its time fits 64 bits of picoseconds at the lowest rate that a configuration may have.
pub const MAX_PAYLOAD: u64 = 1 << 40;

/// A transfer in flight. Its slot is free again when no event names it any more: its head and all of it are at its
/// target, in whichever order, and its source is done.
#[derive(Clone, Debug)]
struct Flight {
    transfer: Transfer,
    head: bool,
    arrived: bool,
    source_done: bool,
}

/// All transfers in flight.
#[derive(Debug)]
pub(crate) struct Flights {
    slots: Slab<Flight>,
    hosts: u32,
    /// Per node: when the path within it is free.
    intra_node_free: Vec<u64>,
    buses: Buses,
    virtual_networks: u8,
    pub(crate) statistics: Statistics,
}

impl Flights {
    pub(crate) fn new(hosts: u32, virtual_networks: u8, routes: &NodeRoutes) -> Self {
        Flights {
            slots: Slab::default(),
            hosts,
            intra_node_free: vec![0; hosts as usize],
            buses: Buses::new(routes, hosts as usize),
            virtual_networks,
            statistics: Statistics::default(),
        }
    }

    #[inline]
    pub(crate) fn transfer(&self, slot: u32) -> &Transfer {
        &self.slots.at(slot).transfer
    }

    /// See [`Slab::forget_order`].
    pub(crate) fn rest(&mut self) {
        self.slots.forget_order();
    }

    /// Takes a slot. Without a source to read, the source is done at once.
    pub(crate) fn open(&mut self, transfer: Transfer, out: &mut impl Out) -> u32 {
        let hosts = self.hosts;
        assert!(transfer.source < hosts && transfer.target < hosts, "{transfer:?}: the network has {hosts} nodes");
        assert!(transfer.virtual_network < self.virtual_networks, "{transfer:?}: {} virtual networks", self.virtual_networks);
        assert!(transfer.payload.0 <= MAX_PAYLOAD, "{transfer:?}: a message has at most {MAX_PAYLOAD} bytes");
        self.statistics.transfers += 1;
        self.statistics.bytes += transfer.payload.0;
        let source_done = !transfer.source_dma || transfer.payload.0 == 0;
        let slot = self.slots.insert(Flight { transfer, head: false, arrived: false, source_done });
        if source_done {
            out.notice(Notice::SourceDone(transfer.id));
        }
        slot
    }

    /// A transfer between ranks of one node: everything about it.
    pub(crate) fn start_intra_node(&mut self, now: SimTime, transfer: Transfer, costs: &Costs, out: &mut impl Out) {
        let slot = self.open(transfer, out);
        self.statistics.intra_node += 1;
        let node = transfer.source;
        let passes = if transfer.route == 0 {
            let begin = SimTime(self.intra_node_free[node as usize].max(now.as_ps()));
            let copied = begin + SimTime(costs.intra_node_copy(transfer.payload.0));
            self.intra_node_free[node as usize] = copied.as_ps();
            Passes { begin, copied, latency: costs.intra_node_latency() }
        } else {
            self.buses.pass(now, node as usize, transfer.route, transfer.payload)
        };
        if !self.slots.at(slot).source_done {
            out.schedule(passes.copied, node, Event::new(EventKind::SourceDone, slot));
        }
        self.schedule_arrival(passes.head(), passes.tail(), node, slot, out);
    }

    /// Schedules head and tail; one event when they come together.
    #[inline]
    pub(crate) fn schedule_arrival(&self, head: SimTime, tail: SimTime, source: u32, slot: u32, out: &mut impl Out) {
        if head == tail {
            out.schedule(head, source, Event::new(EventKind::HeadAndTail, slot));
        } else {
            out.schedule(head, source, Event::new(EventKind::Head, slot));
            out.schedule(tail, source, Event::new(EventKind::Tail, slot));
        }
    }

    /// The events of every network; false when `kind` is none of them.
    #[inline]
    pub(crate) fn handle(&mut self, kind: EventKind, slot: u32, out: &mut impl Out) -> bool {
        match kind {
            EventKind::SourceDone => self.source_done(slot, out),
            EventKind::Head => self.head(slot, out),
            EventKind::Tail => self.tail(slot, out),
            EventKind::HeadAndTail => {
                self.head(slot, out);
                self.tail(slot, out);
            }
            _ => return false,
        }
        true
    }

    pub(crate) fn is_source_done(&self, slot: u32) -> bool {
        self.slots.at(slot).source_done
    }

    pub(crate) fn source_done(&mut self, slot: u32, out: &mut impl Out) {
        let flight = self.slots.at_mut(slot);
        flight.source_done = true;
        out.notice(Notice::SourceDone(flight.transfer.id));
        self.close_if_over(slot);
    }

    fn head(&mut self, slot: u32, out: &mut impl Out) {
        let flight = self.slots.at_mut(slot);
        flight.head = true;
        out.notice(Notice::HeadArrived(flight.transfer.id));
        self.close_if_over(slot);
    }

    fn tail(&mut self, slot: u32, out: &mut impl Out) {
        let flight = self.slots.at_mut(slot);
        flight.arrived = true;
        out.notice(Notice::TailArrived(flight.transfer.id));
        self.close_if_over(slot);
    }

    #[inline]
    fn close_if_over(&mut self, slot: u32) {
        let flight = self.slots.at(slot);
        if flight.head && flight.arrived && flight.source_done {
            self.slots.remove(slot);
        }
    }
}
