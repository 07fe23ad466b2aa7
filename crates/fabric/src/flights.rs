//! The transfers in flight: slots, the order between a pair, and the path within a node.
//!
//! The end-to-end layer numbers the packets of a pair of nodes in a virtual network, and takes them in that order: a
//! message is noticed after the head of the one that was started before it, and after all of it if that is one packet.
//! (Behind the first packet of a longer one a NIC may send packets of other messages.)

use crate::timing::Costs;
use crate::{Event, EventKind, Notice, Out, Statistics, Transfer};
use narrows_engine::Arena;
use narrows_units::{Bytes, SimTime};

pub(crate) const NONE: u32 = u32::MAX;

/// Largest transfer: 1 TiB. Its time fits 64 bits of picoseconds at the lowest rate that a configuration may have.
pub const MAX_PAYLOAD: u64 = 1 << 40;

/// A transfer in flight. Its slot is free again when its tail has been noticed and its source is done.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) transfer: Transfer,
    /// The next transfer of the same source, target and virtual network, which must not be noticed before the first
    /// packet of this one.
    successor: u32,
    /// The one before it has not been noticed.
    waits: bool,
    head_arrived: bool,
    head_noticed: bool,
    tail_arrived: bool,
    tail_noticed: bool,
    source_done: bool,
}

/// All transfers in flight.
#[derive(Debug)]
pub(crate) struct Flights {
    slots: Arena<Flight>,
    /// Per source: the newest transfer in flight to each (target, virtual network), while its first packet is not
    /// noticed. Sorted: the pairs in use at one time are few.
    newest: Vec<Vec<(u64, u32)>>,
    /// Per node: when the path within it is free.
    intra_node_free: Vec<u64>,
    virtual_networks: u8,
    /// Payload of a packet at most.
    mtu: u64,
    pub(crate) statistics: Statistics,
}

fn pair(transfer: &Transfer) -> u64 {
    u64::from(transfer.target) << 8 | u64::from(transfer.virtual_network)
}

impl Flights {
    pub(crate) fn new(hosts: u32, virtual_networks: u8, mtu: Bytes) -> Self {
        Flights {
            slots: Arena::new(),
            newest: vec![Vec::new(); hosts as usize],
            intra_node_free: vec![0; hosts as usize],
            virtual_networks,
            mtu: mtu.0,
            statistics: Statistics::default(),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn transfer(&self, slot: u32) -> &Transfer {
        &self.slots[slot].transfer
    }

    /// Takes a slot. Without a source to read, the source is done at once.
    pub(crate) fn open(&mut self, transfer: Transfer, out: &mut impl Out) -> u32 {
        let hosts = self.newest.len();
        assert!((transfer.source as usize) < hosts && (transfer.target as usize) < hosts, "{transfer:?}: the network has {hosts} nodes");
        assert!(transfer.virtual_network < self.virtual_networks, "{transfer:?}: {} virtual networks", self.virtual_networks);
        assert!(transfer.payload.0 <= MAX_PAYLOAD, "{transfer:?}: a message has at most {MAX_PAYLOAD} bytes");
        self.statistics.transfers += 1;
        self.statistics.bytes += transfer.payload.0;
        let source_done = !transfer.source_dma || transfer.payload.0 == 0;
        let slot = self.slots.insert(Flight {
            transfer,
            successor: NONE,
            waits: false,
            head_arrived: false,
            head_noticed: false,
            tail_arrived: false,
            tail_noticed: false,
            source_done,
        });
        let newest = &mut self.newest[transfer.source as usize];
        let key = pair(&transfer);
        match newest.binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => {
                let before = std::mem::replace(&mut newest[at].1, slot);
                self.slots[before].successor = slot;
                self.slots[slot].waits = true;
            }
            Err(at) => newest.insert(at, (key, slot)),
        }
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
        let start = self.intra_node_free[node as usize].max(now.as_ps());
        let copied = start + costs.intra_node_copy(transfer.payload.0);
        self.intra_node_free[node as usize] = copied;
        let latency = costs.intra_node_latency().as_ps();
        if !self.slots[slot].source_done {
            out.schedule(SimTime(copied), node, Event::new(EventKind::SourceDone, slot));
        }
        self.schedule_arrival(SimTime(start + latency), SimTime(copied + latency), node, slot, out);
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
                self.slots[slot].tail_arrived = true;
                self.head(slot, out);
            }
            _ => return false,
        }
        true
    }

    pub(crate) fn source_done(&mut self, slot: u32, out: &mut impl Out) {
        let flight = &mut self.slots[slot];
        flight.source_done = true;
        out.notice(Notice::SourceDone(flight.transfer.id));
        self.close_if_over(slot);
    }

    fn head(&mut self, slot: u32, out: &mut impl Out) {
        self.slots[slot].head_arrived = true;
        if !self.slots[slot].waits {
            self.notice(slot, out);
        }
    }

    /// It is the turn of `slot`, whose head has arrived, and then of those behind it.
    fn notice(&mut self, mut slot: u32, out: &mut impl Out) {
        loop {
            let flight = &mut self.slots[slot];
            flight.head_noticed = true;
            let Flight { transfer, successor, tail_arrived, .. } = *flight;
            out.notice(Notice::HeadArrived(transfer.id));
            if tail_arrived {
                flight.tail_noticed = true;
                out.notice(Notice::TailArrived(transfer.id));
            }
            self.close_if_over(slot);
            if !tail_arrived && self.is_one_packet(&transfer) {
                return;
            }
            match self.release(successor, &transfer) {
                Some(next) => slot = next,
                None => return,
            }
        }
    }

    /// What is behind `transfer` may be noticed: `successor`, if its head has arrived.
    fn release(&mut self, successor: u32, transfer: &Transfer) -> Option<u32> {
        if successor == NONE {
            let newest = &mut self.newest[transfer.source as usize];
            let at = newest.binary_search_by_key(&pair(transfer), |entry| entry.0);
            newest.remove(at.expect("a pair is listed until its newest transfer lets others pass"));
            return None;
        }
        let next = &mut self.slots[successor];
        next.waits = false;
        next.head_arrived.then_some(successor)
    }

    fn tail(&mut self, slot: u32, out: &mut impl Out) {
        let flight = &mut self.slots[slot];
        flight.tail_arrived = true;
        if !flight.head_noticed {
            return;
        }
        flight.tail_noticed = true;
        let Flight { transfer, successor, .. } = *flight;
        out.notice(Notice::TailArrived(transfer.id));
        self.close_if_over(slot);
        if self.is_one_packet(&transfer)
            && let Some(next) = self.release(successor, &transfer)
        {
            self.notice(next, out);
        }
    }

    fn is_one_packet(&self, transfer: &Transfer) -> bool {
        transfer.payload.0 <= self.mtu
    }

    #[inline]
    fn close_if_over(&mut self, slot: u32) {
        let flight = &self.slots[slot];
        if flight.tail_noticed && flight.source_done {
            self.slots.remove(slot);
        }
    }
}
