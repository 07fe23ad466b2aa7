//! The gates of NICs in the LogGP network, and for small messages in the flow network: first come, first served, a gap
//! per message.

use crate::ZeroLoad;
use crate::flights::Flights;
use crate::{Event, EventKind, Out};
use narrows_units::SimTime;
use serde::{Deserialize, Serialize};

/// A gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    free: u64,
}

impl Gate {
    /// Free from the beginning.
    pub(crate) const IDLE: Gate = Gate { free: 0 };

    /// Takes it for `holds`; from when on.
    #[inline]
    pub(crate) fn pass(&mut self, now: u64, holds: u64) -> u64 {
        let begin = now.max(self.free);
        self.free = begin + holds;
        begin
    }
}

/// What a message costs at the gates.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Passage {
    /// How long it holds a gate.
    holds: u64,
    /// From the head at the target's gate to the tail.
    length: u64,
}

impl Passage {
    /// Of a message that takes `alone` on an empty network.
    #[inline]
    pub(crate) fn new(alone: &ZeroLoad, holds: u64) -> Passage {
        Passage { holds, length: (alone.tail - alone.head).as_ps() }
    }

    /// The head is at the target's gate: when it and the tail are through.
    #[inline]
    pub(crate) fn through(self, gate: &mut Gate, now: SimTime) -> (SimTime, SimTime) {
        let begin = gate.pass(now.as_ps(), self.holds);
        (SimTime(begin), SimTime(begin + self.length))
    }
}

/// The gates of all NICs, and the messages between them.
#[derive(Debug)]
pub(crate) struct Endpoints {
    sending: Vec<Gate>,
    receiving: Vec<Gate>,
    /// By transfer slot.
    passages: Vec<Passage>,
}

impl Endpoints {
    pub(crate) fn new(hosts: u32) -> Self {
        let gates = vec![Gate::IDLE; hosts as usize];
        Endpoints { sending: gates.clone(), receiving: gates, passages: Vec::new() }
    }

    /// Sends the message of `slot`, which takes `alone` on an empty network and holds each gate for `holds`.
    pub(crate) fn start(&mut self, now: SimTime, slot: u32, alone: ZeroLoad, holds: u64, flights: &Flights, out: &mut impl Out) {
        let transfer = flights.transfer(slot);
        let begin = self.sending[transfer.source as usize].pass(now.as_ps(), holds);
        if self.passages.len() <= slot as usize {
            self.passages.resize(slot as usize + 1, Passage::default());
        }
        self.passages[slot as usize] = Passage::new(&alone, holds);
        if transfer.source_dma && transfer.payload.0 > 0 {
            out.schedule(SimTime(begin) + alone.source_done, transfer.source, Event::new(EventKind::SourceDone, slot));
        }
        out.schedule(SimTime(begin) + alone.head, transfer.source, Event::new(EventKind::Arrive, slot));
    }

    /// The head of the message is at the target's gate.
    pub(crate) fn arrive(&mut self, now: SimTime, slot: u32, flights: &mut Flights, out: &mut impl Out) {
        let target = flights.transfer(slot).target;
        let (head, tail) = self.passages[slot as usize].through(&mut self.receiving[target as usize], now);
        if head > now {
            flights.schedule_arrival(head, tail, target, slot, out);
        } else if tail == head {
            flights.handle(EventKind::HeadAndTail, slot, out);
        } else {
            out.schedule(tail, target, Event::new(EventKind::Tail, slot));
            flights.handle(EventKind::Head, slot, out);
        }
    }
}
