//! What ports send. Per port and virtual network, messages that come out of host memory take turns, packet by packet,
//! in reading over the node's PCIe, or go one behind the other ([`NetworkConfig::in_order`]); up to
//! [`NetworkConfig::read_window`] packets are read or being read, and one is sent when the first of it was
//! ([`NetworkConfig::pcie_packet`]). Messages that the NIC already has take turns among themselves, and the two kinds
//! alternate on the host link.

use crate::flow::{Flow, Flows, message_of};
use crate::{HostPorts, NONE};
use narrows_engine::Arena;
use narrows_fabric::port::{Kind, Label, Next, Packet, PortEffects, Rest};
use narrows_fabric::timing::Costs;
use narrows_fabric::{NetworkConfig, Transfer, TransferId};
use narrows_units::{Bytes, SimTime};

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
    virtual_network: u8,
    written: bool,
    /// No packet was made yet.
    fresh: bool,
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
        Packetiser {
            virtual_networks,
            in_order: config.in_order,
            most: config.read_window as i32,
            injectors: vec![injector; ports * virtual_networks as usize],
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
    fn direct<const FLOWS: bool>(&self, now: SimTime, injector: &Injector, port: u32, flows: Option<&Flows>) -> u32 {
        match flows {
            Some(flows) if FLOWS => self.open_in(now, injector.direct, port, flows),
            _ => injector.direct,
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
        let injector = &self.injectors[self.place(port, virtual_network)];
        let direct = self.direct::<FLOWS>(now, injector, port, flows);
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

    /// A ring, named by the member before the first one whose flow is open; [`NONE`] when none is.
    fn open_in(&self, now: SimTime, ring: u32, port: u32, flows: &Flows) -> u32 {
        let mut last = ring;
        while last != NONE {
            let Message { flow, .. } = self.messages[self.messages[last].next_in_ring];
            if flow == NONE || flows.is_open(now, port, flow) {
                return last;
            }
            last = self.messages[last].next_in_ring;
            if last == ring {
                break;
            }
        }
        NONE
    }

    /// Appends a message to a ring, which is named by its last member.
    fn join(&mut self, ring: u32, slot: u32) -> u32 {
        let first = if ring == NONE { slot } else { std::mem::replace(&mut self.messages[ring].next_in_ring, slot) };
        self.messages[slot].next_in_ring = first;
        slot
    }

    /// The next packet of the first message of a ring, and whether it is its last; the message goes to the end of the
    /// ring, or stays if it `keeps_turn`, and leaves it with its last packet.
    #[inline(always)]
    fn cut(&mut self, ring: &mut u32, source: u32, keeps_turn: bool, costs: &Costs) -> (Label, Flow, bool) {
        let last = *ring;
        let slot = self.messages[last].next_in_ring;
        let message = &mut self.messages[slot];
        let payload = message.left.min(u64::from(costs.mtu));
        message.left -= payload;
        let label = Label {
            id: message.id,
            source,
            target: message.target,
            virtual_network: message.virtual_network,
            message: Bytes(message.payload),
            started: message.started,
            wire: payload as u32 + costs.header,
            first: std::mem::replace(&mut message.fresh, false),
            written: message.written,
            kind: if message.copied { Kind::Copied } else { Kind::Data },
            sequence: 0,
            marked: false,
        };
        let (flow, is_last) = (message.flow, message.left == 0);
        if is_last {
            let after = message.next_in_ring;
            if last == slot {
                *ring = NONE;
            } else {
                self.messages[last].next_in_ring = after;
            }
            self.messages.remove(slot);
        } else if !keeps_turn {
            *ring = slot;
        }
        (label, flow, is_last)
    }

    #[inline]
    fn append_read(&mut self, at: usize, label: Label, flow: Flow, ready: SimTime) {
        let slot = self.read.insert(Read { label, ready, next: NONE, flow });
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
        let Injector { reading, direct, first_read, .. } = self.injectors[at];
        // What has been read goes on, and nobody will take it.
        let mut slot = first_read;
        while slot != NONE {
            let Read { label, next, flow: of, .. } = &self.read[slot];
            if *of == flow {
                messages.push(message_of(label));
            }
            slot = *next;
        }
        self.injectors[at].reading = self.without(reading, source, flow, messages);
        self.injectors[at].direct = self.without(direct, source, flow, messages);
        messages.sort_unstable_by_key(|message| message.id);
        messages.dedup_by_key(|message| message.id);
    }

    /// A ring without the messages of a flow, which are told.
    fn without(&mut self, ring: u32, source: u32, flow: Flow, messages: &mut Vec<Transfer>) -> u32 {
        let mut slots = Vec::new();
        let mut slot = ring;
        while slot != NONE {
            slot = self.messages[slot].next_in_ring;
            slots.push(slot);
            if slot == ring {
                break;
            }
        }
        let mut left = NONE;
        for slot in slots {
            let Message { id, target, virtual_network, payload, written, flow: of, .. } = self.messages[slot];
            if of == flow {
                let payload = Bytes(payload);
                messages.push(Transfer { id, source, target, virtual_network, payload, source_dma: payload.0 > 0, target_dma: written });
                self.messages.remove(slot);
            } else {
                left = self.join(left, slot);
            }
        }
        left
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
            virtual_network,
            written: target_dma,
            fresh: rest.taken == 0,
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
        let mut ring = self.join(NONE, slot);
        for &ready in &rest.reads {
            let (label, flow, _) = self.cut(&mut ring, source, true, costs);
            self.append_read(at, label, flow, ready);
        }
        debug_assert_eq!(ring == NONE, made == costs.packets(payload));
        let injector = &mut self.injectors[at];
        if source_dma {
            injector.reading = ring;
        } else {
            injector.direct = ring;
        }
    }

    /// A packet is sent again: the NIC has it.
    pub(crate) fn put_back(&mut self, now: SimTime, port: u32, packet: &Packet) {
        let label = packet.label();
        let at = self.place(port, u32::from(label.virtual_network));
        self.append_read(at, label, NONE, now);
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
            virtual_network,
            written: target_dma && payload > 0,
            fresh: true,
            copied,
            flow,
        };
        let packetiser = &mut self.packetiser;
        let slot = packetiser.messages.insert(message);
        let at = packetiser.place(port, u32::from(virtual_network));
        if source_dma && payload > 0 {
            packetiser.injectors[at].reading = packetiser.join(packetiser.injectors[at].reading, slot);
            if self.flows.is_some() {
                return self.read::<true, _>(now, port, at, effects);
            }
            self.read::<false, _>(now, port, at, effects);
        } else {
            packetiser.injectors[at].direct = packetiser.join(packetiser.injectors[at].direct, slot);
        }
    }

    /// Reads packets over PCIe while the window has room.
    pub(crate) fn read<const FLOWS: bool, F: PortEffects>(&mut self, now: SimTime, port: u32, at: usize, effects: &mut F) {
        let HostPorts { packetiser, costs, buses, hosts, statistics, flows, .. } = self;
        while packetiser.injectors[at].window > 0 && packetiser.injectors[at].reading != NONE {
            let mut ring = packetiser.injectors[at].reading;
            if let Some(flows) = flows
                && FLOWS
            {
                ring = packetiser.open_in(now, ring, port, flows);
                if ring == NONE {
                    return;
                }
            }
            let (label, flow, last) = packetiser.cut(&mut ring, hosts[port as usize], packetiser.in_order, costs);
            packetiser.injectors[at].reading = ring;
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
            packetiser.append_read(at, label, flow, begin + SimTime(costs.read_ahead(payload)));
        }
    }

    /// Sends the packet that [`Packetiser::next`] has promised.
    #[inline(always)]
    pub(crate) fn take_next<const FLOWS: bool>(
        &mut self,
        now: SimTime,
        port: u32,
        virtual_network: u32,
        effects: &mut impl PortEffects,
    ) -> Packet {
        let HostPorts { packetiser, costs, hosts, statistics, flows, .. } = self;
        let at = packetiser.place(port, virtual_network);
        let mut ring = packetiser.direct::<FLOWS>(now, &packetiser.injectors[at], port, flows.as_deref());
        let injector = &mut packetiser.injectors[at];
        if injector.first_read != NONE && (ring == NONE || !injector.direct_turn) && packetiser.read[injector.first_read].ready <= now {
            let slot = injector.first_read;
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
            return Packet::new(&label);
        }
        injector.direct_turn = false;
        let (mut label, flow, _) = packetiser.cut(&mut ring, hosts[port as usize], false, costs);
        packetiser.injectors[at].direct = ring;
        statistics.packets += 1;
        if let Some(flows) = flows
            && FLOWS
            && flow != NONE
        {
            flows.reserve(now, port, flow, &label, effects);
            flows.sent(now, port, flow, &mut label, effects);
        }
        Packet::new(&label)
    }
}
