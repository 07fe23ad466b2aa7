//! The gates of the NICs in the LogGP network, and for small messages in the flow network: first come, first served, a
//! gap per message.

use crate::ZeroLoad;
use crate::flights::Flights;
use crate::{Event, EventKind, Out};
use narrows_units::SimTime;

/// What a message costs at the gates.
#[derive(Clone, Copy, Debug, Default)]
struct Passage {
    /// How long it holds a gate.
    holds: u64,
    /// From the head at the target's gate to the tail.
    length: u64,
}

/// The gates of all NICs.
#[derive(Debug)]
pub(crate) struct Endpoints {
    send_free: Vec<u64>,
    receive_free: Vec<u64>,
    /// By transfer slot.
    passages: Vec<Passage>,
}

impl Endpoints {
    pub(crate) fn new(hosts: u32) -> Self {
        Endpoints { send_free: vec![0; hosts as usize], receive_free: vec![0; hosts as usize], passages: Vec::new() }
    }

    /// Sends the message of `slot`, which takes `alone` on an empty network and holds each gate for `holds`.
    pub(crate) fn start(&mut self, now: SimTime, slot: u32, alone: ZeroLoad, holds: u64, flights: &Flights, out: &mut impl Out) {
        let begin = self.pass(now, flights.transfer(slot).source, holds);
        self.travel(begin, slot, alone, holds, flights, out);
    }

    /// Takes the sender's gate for `holds`; from when on.
    pub(crate) fn pass(&mut self, now: SimTime, source: u32, holds: u64) -> u64 {
        let free = &mut self.send_free[source as usize];
        let begin = now.as_ps().max(*free);
        *free = begin + holds;
        begin
    }

    /// The message of `slot` goes through the sender's gate at `begin`.
    pub(crate) fn travel(&mut self, begin: u64, slot: u32, alone: ZeroLoad, holds: u64, flights: &Flights, out: &mut impl Out) {
        let transfer = flights.transfer(slot);
        if self.passages.len() <= slot as usize {
            self.passages.resize(slot as usize + 1, Passage::default());
        }
        self.passages[slot as usize] = Passage { holds, length: (alone.tail - alone.head).as_ps() };
        if transfer.source_dma && transfer.payload.0 > 0 {
            out.schedule(SimTime(begin) + alone.source_done, transfer.source, Event::new(EventKind::SourceDone, slot));
        }
        out.schedule(SimTime(begin) + alone.head, transfer.source, Event::new(EventKind::Arrive, slot));
    }

    /// The head of the message is at the target's gate.
    pub(crate) fn arrive(&mut self, now: SimTime, slot: u32, flights: &mut Flights, out: &mut impl Out) {
        let target = flights.transfer(slot).target;
        let Passage { holds, length } = self.passages[slot as usize];
        let free = &mut self.receive_free[target as usize];
        let begin = now.as_ps().max(*free);
        *free = begin + holds;
        if begin > now.as_ps() {
            flights.schedule_arrival(SimTime(begin), SimTime(begin + length), target, slot, out);
        } else if length == 0 {
            flights.handle(EventKind::HeadAndTail, slot, out);
        } else {
            out.schedule(SimTime(begin + length), target, Event::new(EventKind::Tail, slot));
            flights.handle(EventKind::Head, slot, out);
        }
    }
}
