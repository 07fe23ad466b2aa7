//! What ports send. Per port and virtual network, messages that come out of host memory take turns, packet by packet,
//! in reading over the node's PCIe, or go one behind the other ([`NetworkConfig::in_order`]); up to
//! [`NetworkConfig::read_window`] packets are read or being read, and one is sent when the first of it was
//! ([`NetworkConfig::pcie_packet`]). Messages that the NIC already has take turns among themselves, and the two kinds
//! alternate on the host link.

use crate::flow::{Flow, Flows, message_of};
use crate::turns::{Turns, between};
use crate::{HostPorts, NONE};
use narrows_engine::Arena;
use narrows_fabric::port::{Label, Next, Packet, PacketKind, PortEffects, Ports, Rest};
use narrows_fabric::seam::{PacketOut, Passage};
use narrows_fabric::timing::Costs;
use narrows_fabric::{NetworkConfig, Transfer, TransferId};
use narrows_units::{Bytes, SimTime};
use std::cell::Cell;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Packetiser {
    virtual_networks: u32,
    /// [`NetworkConfig::in_order`].
    in_order: bool,
    /// [`NetworkConfig::read_window`].
    most: i32,
    /// By port and virtual network.
    injectors: Vec<Injector>,
    messages: Arena<Message>,
    read: Arena<Read>,
    /// With flows, as the injectors: of the ring that is read, and of the other one.
    known: Vec<[Known; 2]>,
}

/// What is known of a ring of messages with flows.
#[derive(Clone, Debug, Default)]
struct Known {
    /// There were messages of several flows since it was empty: one that is shut does not speak for all.
    mixed: bool,
    /// The most messages that a look for an open flow has passed over.
    passed: Cell<usize>,
    /// Whose turn it is, where looks would be long.
    turns: Option<Box<Turns>>,
}

/// So many messages a look may pass over before their turns are noted. Our own choice: that costs more than a walk
/// through a short ring.
const LONG: usize = 64;

/// A ring of an injector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Reading,
    Direct,
}

/// What a port sends in one virtual network.
#[derive(Clone, Copy, Debug)]
struct Injector {
    /// Ring of messages with packets to read; the last one.
    reading: u32,
    /// Ring of messages that the NIC already has; the last one.
    direct: u32,
    /// Packets read or being read, in order.
    first_read: u32,
    last_read: u32,
    /// Free places for reads; below zero while packets that were lost wait to be sent again.
    window: i32,
    /// It is the turn of the messages that need no reading.
    direct_turn: bool,
}

/// A message of which not all is in packets.
#[derive(Clone, Copy, Debug)]
struct Message {
    left: u64,
    started: SimTime,
    payload: u64,
    id: TransferId,
    target: u32,
    next_in_ring: u32,
    /// Where turns are noted.
    previous_in_ring: u32,
    /// The same: its place among them.
    place: u64,
    virtual_network: u8,
    written: bool,
    /// Packets that were made.
    made: u32,
    copied: bool,
    /// [`NONE`] where there are no flows.
    flow: Flow,
}

/// A packet that is read from memory, from `ready` on as far as the link needs it.
#[derive(Clone, Copy, Debug)]
struct Read {
    label: Label,
    ready: SimTime,
    next: u32,
    /// Where it gets its number when it goes; [`NONE`] if it has one, or needs none.
    flow: Flow,
    /// Who sees it has let it go.
    passed: bool,
}

impl Packetiser {
    pub(crate) fn new(config: &NetworkConfig, ports: usize) -> Packetiser {
        let injector = Injector {
            reading: NONE,
            direct: NONE,
            first_read: NONE,
            last_read: NONE,
            window: config.read_window as i32,
            direct_turn: false,
        };
        let virtual_networks = u32::from(config.all_virtual_networks());
        let injectors = vec![injector; ports * virtual_networks as usize];
        Packetiser {
            virtual_networks,
            in_order: config.in_order,
            most: config.read_window as i32,
            known: if config.reliability.is_some() { vec![Default::default(); injectors.len()] } else { Vec::new() },
            injectors,
            messages: Arena::new(),
            read: Arena::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn place(&self, port: u32, virtual_network: u32) -> usize {
        (port * self.virtual_networks + virtual_network) as usize
    }

    #[inline(always)]
    pub(crate) fn has_packets(&self, port: u32, virtual_network: u32) -> bool {
        let injector = &self.injectors[self.place(port, virtual_network)];
        injector.first_read != NONE || injector.direct != NONE
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.read.is_empty()
    }

    pub(crate) fn rest(&mut self) {
        self.injectors.iter_mut().for_each(|injector| injector.direct_turn = false);
    }

    #[inline]
    pub(crate) fn prefetch(&self, port: u32) {
        narrows_engine::prefetch(&self.injectors[self.place(port, 0)]);
    }

    /// Packets that are read or being read.
    pub(crate) fn packets(&self) -> usize {
        self.read.len()
    }

    /// The ring of the messages that need no reading, if one of them may go.
    #[inline(always)]
    fn direct<const FLOWS: bool>(&self, now: SimTime, at: usize, port: u32, flows: Option<&Flows>) -> u32 {
        match flows {
            Some(flows) if FLOWS => self.open_in(at, Ring::Direct, |flow| flows.is_open(now, port, flow)),
            _ => self.injectors[at].direct,
        }
    }

    #[inline(always)]
    pub(crate) fn next<const FLOWS: bool>(
        &self,
        now: SimTime,
        port: u32,
        virtual_network: u32,
        costs: &Costs,
        flows: Option<&Flows>,
    ) -> Next {
        let at = self.place(port, virtual_network);
        let injector = &self.injectors[at];
        let direct = self.direct::<FLOWS>(now, at, port, flows);
        let mut ready = SimTime::MAX;
        if injector.first_read != NONE && (direct == NONE || !injector.direct_turn) {
            let read = &self.read[injector.first_read];
            if read.ready <= now {
                return Next::Packet(read.label.wire);
            }
            ready = read.ready;
        }
        if direct == NONE {
            return Next::At(ready);
        }
        let slot = self.messages[direct].next_in_ring;
        let payload = self.messages[slot].left.min(u64::from(costs.mtu));
        Next::Packet(payload as u32 + costs.header)
    }

    fn ring(&self, at: usize, ring: Ring) -> u32 {
        let Injector { reading, direct, .. } = self.injectors[at];
        if ring == Ring::Reading { reading } else { direct }
    }

    /// A ring, named by the member before the first one whose flow is open; [`NONE`] when none is. Where turns are
    /// noted it looks at two flows for each that has messages there, and at no more messages than that.
    fn open_in(&self, at: usize, ring: Ring, is_open: impl Fn(Flow) -> bool) -> u32 {
        let named = self.ring(at, ring);
        if named == NONE {
            return NONE;
        }
        let known = &self.known[at][ring as usize];
        let most = match &known.turns {
            Some(turns) => turns.flows(),
            None if known.mixed => usize::MAX,
            None => 1,
        };
        let (mut last, mut passed) = (named, 0);
        while passed < most {
            let next = self.messages[last].next_in_ring;
            let flow = self.messages[next].flow;
            if flow == NONE || is_open(flow) {
                break;
            }
            passed += 1;
            last = next;
            if last == named {
                last = NONE;
                break;
            }
        }
        match &known.turns {
            Some(turns) if passed == most && last != NONE => {
                let first = self.messages[named].next_in_ring;
                turns.first(self.messages[first].place, is_open).map_or(NONE, |found| self.messages[found].previous_in_ring)
            }
            None => {
                known.passed.set(known.passed.get().max(passed));
                if passed == most { NONE } else { last }
            }
            _ => last,
        }
    }

    /// Appends a message to a ring, which is named by its last member.
    fn join(&mut self, ring: u32, slot: u32) -> u32 {
        let first = if ring == NONE { slot } else { std::mem::replace(&mut self.messages[ring].next_in_ring, slot) };
        self.messages[slot].next_in_ring = first;
        slot
    }

    /// Appends a message to a ring of an injector.
    #[inline]
    fn append(&mut self, at: usize, ring: Ring, slot: u32) {
        let last = self.ring(at, ring);
        let named = self.join(last, slot);
        if last != NONE
            && let Some(known) = self.known.get_mut(at)
        {
            let known = &mut known[ring as usize];
            known.mixed |= self.messages[last].flow != self.messages[slot].flow;
            if known.turns.is_some() {
                self.give_turn(at, ring, last, slot);
            }
        }
        self.set_ring(at, ring, named);
    }

    fn set_ring(&mut self, at: usize, ring: Ring, named: u32) {
        let Injector { reading, direct, .. } = &mut self.injectors[at];
        *(if ring == Ring::Reading { reading } else { direct }) = named;
    }

    /// A message has joined a ring behind `last`.
    fn give_turn(&mut self, at: usize, ring: Ring, last: u32, slot: u32) {
        let Message { next_in_ring: first, flow, .. } = self.messages[slot];
        let Some(place) = between(self.messages[last].place, self.messages[first].place) else { return self.note_turns(at, ring, slot) };
        self.messages[first].previous_in_ring = slot;
        (self.messages[slot].previous_in_ring, self.messages[slot].place) = (last, place);
        if let Some(turns) = &mut self.known[at][ring as usize].turns {
            turns.insert(flow, place, slot);
        }
    }

    /// Gives all messages of a ring their places, as far from each other as can be; `last` is one of them.
    fn note_turns(&mut self, at: usize, ring: Ring, last: u32) {
        let mut turns = Turns::default();
        let (mut slot, mut members) = (last, Vec::new());
        loop {
            let next = self.messages[slot].next_in_ring;
            self.messages[next].previous_in_ring = slot;
            members.push(next);
            slot = next;
            if slot == last {
                break;
            }
        }
        let apart = u64::MAX / members.len() as u64;
        for (place, slot) in (0..).map(|number| number * apart).zip(members) {
            self.messages[slot].place = place;
            turns.insert(self.messages[slot].flow, place, slot);
        }
        self.known[at][ring as usize].turns = Some(Box::new(turns));
    }

    /// A message is going to send: if looks for one have become long, turns are noted from now on.
    fn shorten_looks(&mut self, at: usize, ring: Ring, last: u32) {
        if self.known.get(at).is_some_and(|known| known[ring as usize].passed.get() >= LONG && known[ring as usize].turns.is_none()) {
            self.note_turns(at, ring, last);
        }
    }

    /// A message has left a ring, which has others if `others`.
    fn leave_turn(&mut self, at: usize, ring: Ring, slot: u32, others: bool) {
        let Some(known) = self.known.get_mut(at) else { return };
        let known = &mut known[ring as usize];
        if !others {
            *known = Known::default();
        } else if let Some(turns) = &mut known.turns {
            let Message { next_in_ring, previous_in_ring, flow, place, .. } = self.messages[slot];
            turns.remove(flow, place);
            self.messages[next_in_ring].previous_in_ring = previous_in_ring;
        }
    }

    /// The next packet of the message behind this one in a ring, and whether it is its last; the message goes to the
    /// end of the ring, or stays if it `keeps_turn`, and leaves it with its last packet.
    #[inline(always)]
    fn cut(&mut self, at: usize, ring: Ring, last: u32, source: u32, keeps_turn: bool, costs: &Costs) -> (Label, Flow, bool) {
        self.shorten_looks(at, ring, last);
        let slot = self.messages[last].next_in_ring;
        let message = &mut self.messages[slot];
        let payload = message.left.min(u64::from(costs.mtu));
        message.left -= payload;
        let index = message.made;
        message.made = index.wrapping_add(1);
        let label = Label {
            id: message.id,
            source,
            target: message.target,
            virtual_network: message.virtual_network,
            message: Bytes(message.payload),
            started: message.started,
            wire: payload as u32 + costs.header,
            first: index == 0,
            index,
            written: message.written,
            kind: if message.copied { PacketKind::Copied } else { PacketKind::Data },
            sequence: 0,
            marked: false,
        };
        let (flow, is_last, after) = (message.flow, message.left == 0, message.next_in_ring);
        if is_last {
            self.leave_turn(at, ring, slot, last != slot);
            self.messages[last].next_in_ring = after;
            self.messages.remove(slot);
        }
        let named = match is_last {
            true if last == slot => NONE,
            false if !keeps_turn => slot,
            _ => last,
        };
        self.set_ring(at, ring, named);
        (label, flow, is_last)
    }

    #[inline]
    fn append_read(&mut self, at: usize, label: Label, flow: Flow, ready: SimTime, passed: bool) {
        let slot = self.read.insert(Read { label, ready, next: NONE, flow, passed });
        let injector = &mut self.injectors[at];
        injector.window -= 1;
        let last = std::mem::replace(&mut injector.last_read, slot);
        if injector.first_read == NONE {
            injector.first_read = slot;
        } else {
            self.read[last].next = slot;
        }
    }

    /// A flow was given up: its messages leave. `messages`: those of packets that were sent; in the end all that are
    /// not through, once each, in the order of their numbers.
    pub(crate) fn abandon(&mut self, port: u32, source: u32, virtual_network: u32, flow: Flow, messages: &mut Vec<Transfer>) {
        let at = self.place(port, virtual_network);
        let first_read = self.injectors[at].first_read;
        // What has been read goes on, and nobody will take it.
        let mut slot = first_read;
        while slot != NONE {
            let Read { label, next, flow: of, .. } = &self.read[slot];
            if *of == flow {
                messages.push(message_of(label));
            }
            slot = *next;
        }
        self.leave(at, Ring::Reading, source, flow, messages);
        self.leave(at, Ring::Direct, source, flow, messages);
        messages.sort_unstable_by_key(|message| message.id);
        messages.dedup_by_key(|message| message.id);
    }

    /// The messages of a flow leave a ring, and are told.
    fn leave(&mut self, at: usize, ring: Ring, source: u32, flow: Flow, messages: &mut Vec<Transfer>) {
        let mut slots = Vec::new();
        let last = self.ring(at, ring);
        let mut slot = last;
        while slot != NONE {
            slot = self.messages[slot].next_in_ring;
            slots.push(slot);
            if slot == last {
                break;
            }
        }
        self.known[at][ring as usize] = Known::default();
        self.set_ring(at, ring, NONE);
        for slot in slots {
            let Message { id, target, virtual_network, payload, written, flow: of, .. } = self.messages[slot];
            if of == flow {
                let payload = Bytes(payload);
                messages.push(Transfer {
                    id,
                    source,
                    target,
                    virtual_network,
                    payload,
                    source_dma: payload.0 > 0,
                    target_dma: written,
                    route: 0,
                });
                self.messages.remove(slot);
            } else {
                self.append(at, ring, slot);
            }
        }
    }

    /// Packets that are read or being read at once.
    pub(crate) fn window(&self) -> u32 {
        self.most as u32
    }

    /// The rest of a message is to be sent packet by packet; the port has nothing else in its virtual network.
    pub(crate) fn resume(&mut self, port: u32, source: u32, rest: &Rest, costs: &Costs) {
        let Transfer { id, target, virtual_network, payload: Bytes(payload), source_dma, target_dma, .. } = rest.message;
        let at = self.place(port, u32::from(virtual_network));
        let made = rest.taken + rest.reads.len() as u64;
        let message = Message {
            left: payload.saturating_sub(rest.taken * u64::from(costs.mtu)),
            started: rest.started,
            payload,
            id,
            target,
            next_in_ring: NONE,
            previous_in_ring: NONE,
            place: 0,
            virtual_network,
            written: target_dma,
            made: rest.taken as u32,
            copied: false,
            flow: NONE,
        };
        if rest.any {
            self.injectors[at].direct_turn = source_dma;
        }
        if message.left == 0 {
            return;
        }
        let slot = self.messages.insert(message);
        let ring = if source_dma { Ring::Reading } else { Ring::Direct };
        self.append(at, ring, slot);
        for &ready in &rest.reads {
            let (label, flow, _) = self.cut(at, ring, slot, source, true, costs);
            self.append_read(at, label, flow, ready, false);
        }
        debug_assert_eq!(self.ring(at, ring) == NONE, made == costs.packets(payload));
    }

    /// A packet is sent again: the NIC has it.
    pub(crate) fn put_back(&mut self, now: SimTime, port: u32, packet: &Packet) {
        let label = packet.label();
        let at = self.place(port, u32::from(label.virtual_network));
        self.append_read(at, label, NONE, now, true);
    }
}

// With FLOWS what flows need; without it the way of those who have none, which is the hot one.
impl HostPorts {
    /// Takes a message for another host.
    pub(crate) fn send(&mut self, now: SimTime, port: u32, message: &Transfer, copied: bool, effects: &mut impl PortEffects) {
        let Transfer { id, target, virtual_network, payload: Bytes(payload), source_dma, target_dma, .. } = *message;
        let flow = match &mut self.flows {
            Some(flows) if !copied => flows.to(now, port, message, effects),
            _ => NONE,
        };
        let message = Message {
            left: payload,
            started: now,
            payload,
            id,
            target,
            next_in_ring: NONE,
            previous_in_ring: NONE,
            place: 0,
            virtual_network,
            written: target_dma && payload > 0,
            made: 0,
            copied,
            flow,
        };
        let packetiser = &mut self.packetiser;
        let slot = packetiser.messages.insert(message);
        let at = packetiser.place(port, u32::from(virtual_network));
        if source_dma && payload > 0 {
            packetiser.append(at, Ring::Reading, slot);
            if self.flows.is_some() {
                return self.read::<true, _>(now, port, at, effects);
            }
            self.read::<false, _>(now, port, at, effects);
        } else {
            packetiser.append(at, Ring::Direct, slot);
        }
    }

    /// Reads packets over PCIe while the window has room.
    pub(crate) fn read<const FLOWS: bool, F: PortEffects>(&mut self, now: SimTime, port: u32, at: usize, effects: &mut F) {
        let HostPorts { packetiser, costs, buses, hosts, statistics, flows, .. } = self;
        while packetiser.injectors[at].window > 0 && packetiser.injectors[at].reading != NONE {
            let mut named = packetiser.injectors[at].reading;
            if let Some(flows) = flows
                && FLOWS
            {
                named = packetiser.open_in(at, Ring::Reading, |flow| flows.is_open(now, port, flow));
                if named == NONE {
                    return;
                }
            }
            let (label, flow, last) = packetiser.cut(at, Ring::Reading, named, hosts[port as usize], packetiser.in_order, costs);
            statistics.packets += 1;
            if let Some(flows) = flows
                && FLOWS
                && flow != NONE
            {
                flows.reserve(now, port, flow, &label, effects);
            }
            let free = &mut buses[port as usize].read_free;
            let (begin, payload) = (now.max(*free), label.wire - costs.header);
            *free = begin + SimTime(costs.pcie.time(payload));
            if last && !F::EARLY {
                effects.source_done(*free, label.source, label.id);
            }
            packetiser.append_read(at, label, flow, begin + SimTime(costs.read_ahead(payload)), false);
        }
    }

    /// Sends the packet that [`Packetiser::next`] has promised, if who sees it lets it go as it is.
    #[inline(always)]
    pub(crate) fn take_next<const FLOWS: bool, F: PortEffects>(
        &mut self,
        now: SimTime,
        port: u32,
        virtual_network: u32,
        effects: &mut F,
    ) -> Option<Packet> {
        let HostPorts { packetiser, costs, hosts, statistics, flows, .. } = self;
        let at = packetiser.place(port, virtual_network);
        let direct = packetiser.direct::<FLOWS>(now, at, port, flows.as_deref());
        let injector = &mut packetiser.injectors[at];
        if injector.first_read != NONE && (direct == NONE || !injector.direct_turn) && packetiser.read[injector.first_read].ready <= now {
            let slot = injector.first_read;
            if F::PACKETS && self.seam.is_some() && self.holds_read(now, port, slot, effects) {
                return None;
            }
            let HostPorts { packetiser, flows, .. } = self;
            let injector = &mut packetiser.injectors[at];
            let Read { mut label, next, flow, .. } = packetiser.read[slot];
            injector.first_read = next;
            injector.window += 1;
            injector.direct_turn = true;
            packetiser.read.remove(slot);
            if let Some(flows) = flows
                && FLOWS
                && flow != NONE
            {
                flows.sent(now, port, flow, &mut label, effects);
            }
            self.read::<FLOWS, _>(now, port, at, effects);
            return Some(Packet::new(&label));
        }
        injector.direct_turn = false;
        let (mut label, flow, _) = packetiser.cut(at, Ring::Direct, direct, hosts[port as usize], false, costs);
        statistics.packets += 1;
        if let Some(flows) = flows
            && FLOWS
            && flow != NONE
        {
            flows.reserve(now, port, flow, &label, effects);
        }
        if F::PACKETS && self.seam.is_some() && self.holds_direct(now, port, &label, flow, effects) {
            return None;
        }
        if let Some(flows) = &mut self.flows
            && FLOWS
            && flow != NONE
        {
            flows.sent(now, port, flow, &mut label, effects);
        }
        Some(Packet::new(&label))
    }

    /// Who sees packets holds the one that was read first, or changes it: then it is not to go now.
    #[cold]
    fn holds_read(&mut self, now: SimTime, port: u32, slot: u32, effects: &mut impl PortEffects) -> bool {
        let Read { label, flow, passed, .. } = self.packetiser.read[slot];
        if passed || !self.shows(port) {
            return false;
        }
        let Some((wire, ready)) = self.passage(now, &label, flow, port, effects) else { return false };
        let read = &mut self.packetiser.read[slot];
        (read.label.wire, read.ready, read.passed) = (wire, ready, ready == now);
        true
    }

    /// The same of one that needed no reading; it waits behind those that were read.
    #[cold]
    fn holds_direct(&mut self, now: SimTime, port: u32, label: &Label, flow: Flow, effects: &mut impl PortEffects) -> bool {
        if label.kind == PacketKind::Copied || !self.shows(port) {
            return false;
        }
        let Some((wire, ready)) = self.passage(now, label, flow, port, effects) else { return false };
        let at = self.packetiser.place(port, u32::from(label.virtual_network));
        self.packetiser.append_read(at, Label { wire, ..*label }, flow, ready, ready == now);
        true
    }

    /// What is said of a packet that is about to go: its bytes on the wire, and when it may; none if it goes as it is.
    fn passage(&mut self, now: SimTime, label: &Label, flow: Flow, port: u32, effects: &mut impl PortEffects) -> Option<(u32, SimTime)> {
        let (header, mtu) = (self.costs.header, self.costs.mtu);
        let Label { id, source, target, virtual_network, message, wire, index, .. } = *label;
        let (offset, payload) = (Bytes(u64::from(index) * u64::from(mtu)), Bytes(u64::from(wire - header)));
        match effects.packet_out(now, &PacketOut { id, source, target, virtual_network, message, offset, payload }) {
            Passage::Pass => None,
            Passage::DelayUntil(time) => Some((wire, time.max(now + SimTime(1)))),
            Passage::Rewrite(length) => {
                let new = header + length.0.min(u64::from(mtu)) as u32;
                if let Some(flows) = &mut self.flows
                    && flow != NONE
                {
                    flows.resized(port, flow, wire, new);
                }
                Some((new, now))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test stops where its input is wrong")]

    use super::*;
    use narrows_fabric::{Checks, Congestion, Delivery, Reliability};
    use narrows_topology::FatTree;
    use proptest::prelude::*;

    const RING: Ring = Ring::Reading;

    fn costs() -> Costs {
        Costs::new(&NetworkConfig::default(), &FatTree::k_ary_n_tree(2, 1).unwrap().build())
    }

    fn packetiser() -> Packetiser {
        let reliability = Reliability {
            window: 64,
            room: 0,
            timeout: SimTime::from_us(100),
            retries: 1,
            ack: Bytes(16),
            delivery: Delivery::Unordered,
            unordered: 0,
            flows: 0,
            checks: Checks::default(),
            congestion: Congestion::None,
        };
        Packetiser::new(&NetworkConfig { reliability: Some(reliability), ..NetworkConfig::default() }, 1)
    }

    impl Packetiser {
        fn offer(&mut self, id: u32, flow: Flow, payload: u64) {
            let message = Message {
                left: payload,
                started: SimTime::ZERO,
                payload,
                id: TransferId(id),
                target: 0,
                next_in_ring: NONE,
                previous_in_ring: NONE,
                place: 0,
                virtual_network: 0,
                written: true,
                made: 0,
                copied: false,
                flow,
            };
            let slot = self.messages.insert(message);
            self.append(0, RING, slot);
        }

        /// The ring from its next message on.
        fn members(&self) -> Vec<(TransferId, Flow)> {
            let (mut last, mut members) = (self.ring(0, RING), Vec::new());
            while last != NONE {
                let next = self.messages[last].next_in_ring;
                members.push((self.messages[next].id, self.messages[next].flow));
                last = if next == self.ring(0, RING) { NONE } else { next };
            }
            members
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Offer { flow: Flow, packets: u64 },
        Send { open: u8 },
        Abandon { flow: Flow },
        NoteTurns,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let flow = || prop_oneof![9 => 0..6u32, 1 => Just(NONE)];
        let step = prop_oneof![
            10 => (flow(), 1..4u64).prop_map(|(flow, packets)| Step::Offer { flow, packets }),
            10 => any::<u8>().prop_map(|open| Step::Send { open }),
            1 => (0..6u32).prop_map(|flow| Step::Abandon { flow }),
            1 => Just(Step::NoteTurns),
        ];
        proptest::collection::vec(step, 1..400)
    }

    proptest! {
        /// What may send next is what a walk through all messages finds; where turns are noted, by at most two looks at
        /// each flow.
        #[test]
        fn turns_are_those_of_a_walk(steps in steps(), keeps_turn: bool) {
            let costs = costs();
            let mut packetiser = packetiser();
            let mut expected: Vec<(TransferId, Flow, u64)> = Vec::new();
            for (id, step) in (0..).zip(steps) {
                match step {
                    Step::Offer { flow, packets } => {
                        packetiser.offer(id, flow, packets * u64::from(costs.mtu));
                        expected.push((TransferId(id), flow, packets));
                    }
                    Step::Send { open } => {
                        let looks = Cell::new(0);
                        let is_open = |flow: Flow| open >> flow & 1 == 1;
                        let last = packetiser.open_in(0, RING, |flow| {
                            looks.set(looks.get() + 1);
                            is_open(flow)
                        });
                        // Seven in the walk, messages without a flow being one; six in the search.
                        let noted = packetiser.known[0][RING as usize].turns.is_some();
                        let most = if noted { 13 } else { expected.len() };
                        prop_assert!(looks.get() <= most);
                        let place = expected.iter().position(|&(_, flow, _)| flow == NONE || is_open(flow));
                        prop_assert_eq!(last == NONE, place.is_none());
                        if let Some(place) = place {
                            let (label, ..) = packetiser.cut(0, RING, last, 0, keeps_turn, &costs);
                            prop_assert_eq!(label.id, expected[place].0);
                            expected.rotate_left(place);
                            expected[0].2 -= 1;
                            if expected[0].2 == 0 {
                                expected.remove(0);
                            } else if !keeps_turn {
                                expected.rotate_left(1);
                            }
                        }
                    }
                    Step::Abandon { flow } => {
                        let mut left = Vec::new();
                        packetiser.leave(0, RING, 0, flow, &mut left);
                        let before = expected.len();
                        expected.retain(|&(_, of, _)| of != flow);
                        prop_assert_eq!(left.len(), before - expected.len());
                    }
                    Step::NoteTurns => {
                        if packetiser.ring(0, RING) != NONE {
                            packetiser.note_turns(0, RING, packetiser.ring(0, RING));
                        }
                    }
                }
                let members: Vec<_> = expected.iter().map(|&(id, flow, _)| (id, flow)).collect();
                prop_assert_eq!(packetiser.members(), members);
            }
        }
    }

    /// Of a thousand messages of flows that are shut one of an open flow is found by a few looks, once a look was long.
    #[test]
    fn shut_flows_are_passed_over_at_once() {
        let mut packetiser = packetiser();
        let costs = costs();
        (0..1000).for_each(|id| packetiser.offer(id, id % 3, 1));
        let looks = Cell::new(0);
        let find = |packetiser: &Packetiser, open: Flow| {
            looks.set(0);
            packetiser.open_in(0, RING, |flow| {
                looks.set(looks.get() + 1);
                flow == open
            })
        };
        let next = |packetiser: &Packetiser, last: u32| packetiser.messages[packetiser.messages[last].next_in_ring].id;
        assert_eq!((find(&packetiser, 3), looks.get()), (NONE, 1000));
        let last = find(&packetiser, 0);
        packetiser.cut(0, RING, last, 0, false, &costs);
        assert_eq!((find(&packetiser, 3), looks.get()), (NONE, 6));
        packetiser.offer(1000, 3, 1);
        packetiser.offer(1001, 0, 1);
        let last = find(&packetiser, 3);
        assert_eq!((next(&packetiser, last), looks.get()), (TransferId(1000), 8));
    }

    /// Where all messages have one flow it speaks for all, and no turns are noted.
    #[test]
    fn one_flow_is_looked_at_once() {
        let mut packetiser = packetiser();
        (0..1000).for_each(|id| packetiser.offer(id, 7, 1));
        let looks = Cell::new(0);
        let last = packetiser.open_in(0, RING, |_| {
            looks.set(looks.get() + 1);
            false
        });
        assert_eq!((last, looks.get()), (NONE, 1));
        assert!(packetiser.known[0][RING as usize].turns.is_none());
    }

    /// Thousands of messages that join at one place of the circle get one each.
    #[test]
    fn there_is_room_at_any_place() {
        let mut packetiser = packetiser();
        let costs = costs();
        packetiser.offer(0, 0, 1 << 40);
        packetiser.offer(1, 1, 1 << 40);
        packetiser.note_turns(0, RING, packetiser.ring(0, RING));
        for id in 2..5000 {
            packetiser.offer(id, 2, 1);
            if id % 7 == 0 {
                let last = packetiser.open_in(0, RING, |flow| flow == 2);
                packetiser.cut(0, RING, last, 0, false, &costs);
                let last = packetiser.open_in(0, RING, |flow| flow == id % 2);
                packetiser.cut(0, RING, last, 0, false, &costs);
            }
            let mut places: Vec<u64> = Vec::new();
            let mut slot = packetiser.messages[packetiser.ring(0, RING)].next_in_ring;
            let from = packetiser.messages[slot].place;
            let count = packetiser.members().len();
            while places.len() < count {
                places.push(packetiser.messages[slot].place.wrapping_sub(from));
                slot = packetiser.messages[slot].next_in_ring;
            }
            assert!(places.is_sorted_by(|a, b| a < b), "after {id}: {places:?}");
        }
    }
}
