//! What ports receive: packets over PCIe into memory, and messages of packets, which may come in any order.

use crate::HostPorts;
use narrows_engine::{Arena, WordMap};
use narrows_fabric::port::{Label, Landing, Packet, PacketKind, PortEffects, PortEvent};
use narrows_fabric::timing::Costs;
use narrows_fabric::{Arrival, PacketArrival, TransferId};
use narrows_units::SimTime;
use std::collections::BTreeSet;

/// The messages that have not arrived as a whole. Each has a number: its place here, below how many have begun to come
/// to its port before. Of two that are through at one instant the first one to come is told first, then, wherever they
/// are here.
#[derive(Debug)]
pub(crate) struct Receiver {
    messages: Arena<Message>,
    /// By port: messages that have begun to come over its link, and within the node; the last bits.
    begun: Vec<[u8; 2]>,
    /// Those of several packets, by source and the number that it gave.
    partial: WordMap<u64, u32>,
    /// Those of which the packet with the header was consumed before any other has gone on.
    headless: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    arrival: Arrival,
    /// Packets that have not arrived.
    packets_left: u64,
    /// When the last byte of those that have is through.
    through: SimTime,
}

#[inline]
fn key(label: &Label) -> u64 {
    // What switches copy has numbers of its own, one message for all its targets.
    let sender = if label.kind == PacketKind::Copied { 1 << 31 | label.target } else { label.source };
    number(sender, label.id)
}

fn number(sender: u32, id: TransferId) -> u64 {
    u64::from(sender) << 32 | u64::from(id.0)
}

/// Bits of a number that are the place: 16 million messages.
const PLACE_BITS: u32 = 24;

fn place(number: u32) -> u32 {
    number & ((1 << PLACE_BITS) - 1)
}

impl Receiver {
    pub(crate) fn new(ports: usize) -> Receiver {
        Receiver { messages: Arena::new(), begun: vec![[0; 2]; ports], partial: WordMap::default(), headless: BTreeSet::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// What is told first of two at one instant does not depend on what has come before.
    pub(crate) fn rest(&mut self) {
        self.messages.forget_order();
        if self.is_idle() {
            self.begun.fill([0; 2]);
        }
    }

    /// `within`: the node.
    #[inline]
    fn insert(&mut self, port: u32, within: bool, message: Message) -> u32 {
        let begun = &mut self.begun[port as usize][usize::from(within)];
        *begun = begun.wrapping_add(1);
        let at = self.messages.insert(message);
        assert!(at < 1 << PLACE_BITS, "16 million messages are on their way to ports");
        u32::from(*begun) << PLACE_BITS | at
    }

    /// A packet that will be through at `through`.
    #[inline]
    pub(crate) fn take<F: PortEffects>(
        &mut self,
        port: u32,
        landing: &Landing,
        packet: &Packet,
        through: SimTime,
        costs: &Costs,
        effects: &mut F,
    ) {
        let label = packet.label();
        let packets = costs.packets(label.message.0);
        let (slot, only) = self.message(port, &label, packets);
        let message = &mut self.messages[place(slot)];
        message.packets_left -= 1;
        message.through = message.through.max(through);
        effects.packet(&PacketArrival {
            arrival: message.arrival,
            injected: packet.injected(),
            through,
            hops: packet.hops(),
            wire: label.wire,
        });
        let (all, through) = (message.packets_left == 0, message.through);
        if all && !only {
            self.partial.remove(&key(&label));
        }
        if F::EARLY {
            if all {
                effects.delivered(&self.messages[place(slot)].arrival, through);
                self.messages.remove(place(slot));
            }
            return;
        }
        let header_in = landing.head + SimTime(costs.host_wire().time(costs.header));
        let first = label.first || F::PACKETS && self.headless.remove(&slot);
        let arrival = message.arrival;
        if first && all && header_in == through {
            return effects.schedule_port(through, PortEvent::HeadAndTail, landing.link, slot);
        }
        if first && effects.hears_head(&arrival) {
            effects.schedule_port(header_in, PortEvent::Head, landing.link, slot);
        }
        if all {
            effects.schedule_port(through, PortEvent::Tail, landing.link, slot);
        }
    }

    /// A packet goes no further. The end of a message is told if any of it has gone on.
    pub(crate) fn consume(&mut self, now: SimTime, port: u32, link: u32, label: &Label, costs: &Costs, effects: &mut impl PortEffects) {
        let (slot, only) = self.message(port, label, costs.packets(label.message.0));
        let message = &mut self.messages[place(slot)];
        message.packets_left -= 1;
        let (all, through) = (message.packets_left == 0, message.through);
        let goes_on = through > SimTime::ZERO;
        if all && !only {
            self.partial.remove(&key(label));
        }
        if all && !goes_on {
            self.messages.remove(place(slot));
            self.headless.remove(&slot);
            return;
        }
        match (label.first, goes_on) {
            (true, true) => effects.schedule_port(now, PortEvent::Head, link, slot),
            (true, false) => _ = self.headless.insert(slot),
            _ => {}
        }
        if all {
            effects.schedule_port(through.max(now), PortEvent::Tail, link, slot);
        }
    }

    /// The message of a packet that arrives; whether it is the only packet.
    #[inline]
    fn message(&mut self, port: u32, label: &Label, packets: u64) -> (u32, bool) {
        let Label { id, source, target, virtual_network, message: payload, started, .. } = *label;
        let arrival = Arrival { id, source, target, virtual_network, payload, started };
        let new = Message { arrival, packets_left: packets, through: SimTime::ZERO };
        if packets == 1 {
            return (self.insert(port, false, new), true);
        }
        if let Some(&slot) = self.partial.get(&key(label)) {
            return (slot, false);
        }
        let slot = self.insert(port, false, new);
        self.partial.insert(key(label), slot);
        (slot, false)
    }

    /// A message of several packets that are not taken one by one.
    pub(crate) fn open(&mut self, port: u32, arrival: &Arrival, packets: u64) -> u32 {
        self.insert(port, false, Message { arrival: *arrival, packets_left: packets, through: SimTime::ZERO })
    }

    /// All of it has come.
    pub(crate) fn complete(&mut self, slot: u32, through: SimTime) {
        let message = &mut self.messages[place(slot)];
        (message.packets_left, message.through) = (0, through);
    }

    /// The others are taken one by one.
    pub(crate) fn left(&mut self, slot: u32, packets: u64, through: SimTime) {
        let message = &mut self.messages[place(slot)];
        (message.packets_left, message.through) = (packets, through);
        self.partial.insert(number(message.arrival.source, message.arrival.id), slot);
    }

    /// A message that did not take the network.
    pub(crate) fn whole<F: PortEffects>(&mut self, port: u32, arrival: &Arrival, head: SimTime, tail: SimTime, effects: &mut F) {
        if F::EARLY {
            return effects.delivered(arrival, tail);
        }
        let slot = self.insert(port, true, Message { arrival: *arrival, packets_left: 0, through: tail });
        if head == tail {
            return effects.schedule_port(head, PortEvent::HeadAndTail, arrival.source, slot);
        }
        effects.schedule_port(head, PortEvent::Head, arrival.source, slot);
        effects.schedule_port(tail, PortEvent::Tail, arrival.source, slot);
    }

    #[inline]
    pub(crate) fn event(&mut self, event: PortEvent, slot: u32, effects: &mut impl PortEffects) {
        let arrival = self.messages[place(slot)].arrival;
        if event != PortEvent::Tail {
            effects.head(&arrival);
        }
        if event != PortEvent::Head {
            self.messages.remove(place(slot));
            effects.tail(&arrival);
        }
    }
}

impl HostPorts {
    /// Writes a packet over PCIe, where it goes to memory, not before `from`; when that is through.
    #[inline]
    pub(crate) fn write(&mut self, port: u32, landing: &Landing, written: bool, wire: u32, from: SimTime) -> SimTime {
        if !written {
            return landing.tail.max(from);
        }
        let payload = wire - self.costs.header;
        let free = &mut self.buses[port as usize].write_free;
        let begin = (landing.head + SimTime(self.costs.write_behind(payload))).max(*free).max(from);
        *free = begin + SimTime(self.costs.pcie.time(payload));
        *free
    }
}
