//! Flows: what one port sends to another in one virtual network arrives once, whatever the network loses (BXI v3: D1.4
//! section 2.2).
//!
//! The sender numbers the packets of a flow and keeps them until they are acknowledged: from the oldest that is not, at
//! most [`Reliability::window`] numbers, and of all flows of a port in a virtual network [`Reliability::room`] packets.
//! What a port takes it acknowledges when the payload is in memory, and again when it comes a second time. A packet
//! without acknowledgement for [`Reliability::timeout`] is sent again, out of the NIC's own memory; after
//! [`Reliability::retries`] times in a row without any, the flow is given up.
//!
//! * [`Delivery::Ordered`]: the receiver takes the packet that it expects and drops all others, since it has no buffer
//!   to put them in order. An acknowledgement has the number of the packet that is expected next; those of a flow that
//!   wait for the link are one. All that is kept is sent again (go-back-N).
//! * [`Delivery::Unordered`]: the receiver takes every packet once. Each has an acknowledgement of its own, which also
//!   says up to which number all have come, so that it covers those that were lost on their way (as those of IRN do:
//!   Mittal et al., SIGCOMM 2018, section 3.1). Only packets without one are sent again (selective repeat).
//!
//! The virtual network says which of the two a flow is ([`Reliability::delivery_in`]).

use crate::NONE;
use crate::congestion::{Acknowledged, Common, Control, ControlPackets, Port, PortControls};
use narrows_engine::{Arena, WordMap};
use narrows_fabric::port::{Label, Landing, PacketKind, PortEffects, PortEvent};
use narrows_fabric::{Carried, Delivery, NetworkConfig, Reliability, Statistics, Transfer, TransferId, Undelivered};
use narrows_units::{Bytes, SimTime};
use std::collections::VecDeque;

/// The flows of the ports of a region.
#[derive(Debug)]
pub(crate) struct Flows {
    config: Reliability,
    common: Common,
    /// Where links write into packets: what the one carries that comes, and what the one does that goes.
    heard: Carried,
    carried: Carried,
    ports: Vec<PortFlows>,
}

/// A place among the flows of a port.
pub(crate) type Flow = u32;

#[derive(Debug, Default)]
struct PortFlows {
    /// By peer and virtual network: places of the two below.
    to: WordMap<u64, Flow>,
    from: WordMap<u64, Flow>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// By virtual network.
    urgent: Vec<Urgent>,
    /// The same: packets that were made and have no acknowledgement,
    held: Vec<u32>,
    /// and the flows that they are of.
    busy: Vec<u32>,
    /// What the events under way are about, and of acknowledgements the links that they took. Of this port alone, so
    /// that their order is the same for any regions.
    coming: Arena<Coming>,
    /// What packets carry, until they or those that answer them go.
    carried: Arena<Carried>,
    /// Of the congestion control: they go before all others.
    packets: ControlPackets,
    controls: PortControls,
    /// When the port starts anew; empty once these times are known to the network.
    resets: Vec<SimTime>,
    /// A flow that was just given up.
    given_up: Option<Box<(Flow, Undelivered)>>,
}

/// An acknowledgement that is made, or is there.
#[derive(Clone, Copy, Debug)]
struct Coming {
    flow: Flow,
    number: u16,
    /// Unordered, of one that is there: all before this number are acknowledged, too.
    before: u16,
    /// Links that it took.
    hops: u8,
    /// A switch has marked a packet that it is for.
    marked: bool,
    /// What it carries: a place, or [`NONE`].
    carries: u32,
}

/// What goes before anything new.
#[derive(Clone, Debug, Default)]
struct Urgent {
    /// Receivers acknowledge, in an unordered flow this packet.
    acknowledge: VecDeque<Coming>,
    /// Then: senders send this packet again.
    again: VecDeque<(Flow, u16)>,
}

/// The sending end of a flow.
#[derive(Debug)]
pub(crate) struct Sender {
    pub peer: u32,
    pub virtual_network: u8,
    /// Number of the next packet.
    next: u16,
    /// Packets made and not yet sent.
    reserved: u32,
    /// Bytes without an acknowledgement, those that are not sent yet among them.
    under_way: u64,
    /// Packets without an acknowledgement, in order.
    kept: VecDeque<Kept>,
    /// Time-outs in a row, and when the last one was.
    tries: u32,
    tried: SimTime,
    /// A time-out is scheduled.
    timer: bool,
    /// It was given up.
    dead: bool,
    pub control: Control,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    label: Label,
    /// Last; none while it waits to be sent again.
    sent: Option<SimTime>,
}

/// The receiving end of a flow.
#[derive(Debug)]
struct Receiver {
    peer: u32,
    virtual_network: u8,
    /// All before it were taken; unordered: they are in memory.
    expected: u16,
    /// Unordered: those from `expected` on.
    taken: VecDeque<Taken>,
    /// Ordered: the number for the next acknowledgement. Those before it are in memory.
    acknowledged: u16,
    /// Ordered: an acknowledgement waits for the link,
    due: bool,
    /// and tells of a mark.
    marked: bool,
    /// and brings this back, as in [`Coming`].
    carries: u32,
    /// Ordered: when all that was taken is in memory.
    in_memory: SimTime,
}

/// What a receiver has of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taken {
    No,
    OnItsWay,
    InMemory,
}

/// Of 10,000 sources, 3 MB.
const _: () = assert!(size_of::<Sender>() + size_of::<Receiver>() <= 300);

/// Keeps what a packet carries until it is answered: the place, or [`NONE`].
fn keep(places: &mut Arena<Carried>, carried: &Carried) -> u32 {
    if matches!(carried, Carried::Nothing) { NONE } else { places.insert(*carried) }
}

fn take(places: &mut Arena<Carried>, place: u32) -> Carried {
    places.remove(place);
    places[place]
}

/// The message of a packet, as it would be started again.
pub(crate) fn message_of(label: &Label) -> Transfer {
    let Label { id, source, target, virtual_network, message: payload, written, .. } = *label;
    Transfer { id, source, target, virtual_network, payload, source_dma: payload.0 > 0, target_dma: written, route: 0 }
}

/// So many numbers are before another one, as many after it.
const HALF: u16 = 1 << 15;

pub(crate) fn key(peer: u32, virtual_network: u8) -> u64 {
    u64::from(virtual_network) << 32 | u64::from(peer)
}

impl Sender {
    /// From the oldest packet without an acknowledgement to the last one.
    fn span(&self) -> u32 {
        let first = self.kept.front().map_or(self.next, |kept| kept.label.sequence);
        u32::from(self.next.wrapping_sub(first)) + self.reserved
    }

    /// The place of a packet that is kept.
    fn find(&self, sequence: u16) -> Option<usize> {
        let first = self.kept.front()?.label.sequence;
        let distance = sequence.wrapping_sub(first);
        self.kept.binary_search_by_key(&distance, |kept| kept.label.sequence.wrapping_sub(first)).ok()
    }

    /// How many of those that are kept have a number before this one.
    fn before(&self, number: u16) -> usize {
        let first = self.kept.front().map_or(number, |kept| kept.label.sequence);
        let distance = number.wrapping_sub(first);
        if distance >= HALF { 0 } else { self.kept.partition_point(|kept| kept.label.sequence.wrapping_sub(first) < distance) }
    }

    /// When the oldest of those that were sent has waited too long.
    fn deadline(&self, timeout: SimTime) -> Option<SimTime> {
        self.kept.iter().filter_map(|kept| kept.sent).min().map(|sent| sent + timeout)
    }
}

impl Receiver {
    /// Unordered: this packet is in memory.
    fn in_memory(&mut self, number: u16) {
        let distance = number.wrapping_sub(self.expected);
        // One that came again was before.
        if let Some(taken) = self.taken.get_mut(usize::from(distance)) {
            *taken = Taken::InMemory;
        }
        while self.taken.front() == Some(&Taken::InMemory) {
            self.taken.pop_front();
            self.expected = self.expected.wrapping_add(1);
        }
    }
}

impl Flows {
    /// Of the ports of these hosts.
    pub(crate) fn new(config: Reliability, network: &NetworkConfig, hosts: &[u32]) -> Flows {
        let common = Common::new(network);
        let port = |&host: &u32| PortFlows {
            urgent: vec![Urgent::default(); usize::from(network.all_virtual_networks())],
            held: vec![0; usize::from(network.all_virtual_networks())],
            busy: vec![0; usize::from(network.all_virtual_networks())],
            controls: PortControls::new(&common, network.seed, host),
            resets: network.faults.iter().filter(|fault| fault.resets == Some(host)).map(|fault| fault.to).collect(),
            ..PortFlows::default()
        };
        let ports = hosts.iter().map(port).collect();
        Flows { config, common, heard: Carried::Nothing, carried: Carried::Nothing, ports }
    }

    /// A message goes to `peer`: by this flow.
    pub(crate) fn to(&mut self, now: SimTime, port: u32, message: &Transfer, effects: &mut impl PortEffects) -> Flow {
        let Transfer { target: peer, virtual_network, .. } = *message;
        let flow = self.flow_to(port, peer, virtual_network);
        for at in std::mem::take(&mut self.ports[port as usize].resets) {
            if at > now && at < SimTime::MAX {
                let networks = 0..u32::from(self.common.network);
                networks.for_each(|network| effects.schedule_port(at, PortEvent::Reset, message.source, network));
            }
        }
        let (controls, mut port) = self.ports[port as usize].seen(now, message.source, &self.common, effects);
        controls.offered(flow, message, &mut port);
        flow
    }

    fn flow_to(&mut self, port: u32, peer: u32, virtual_network: u8) -> Flow {
        let PortFlows { to, senders, .. } = &mut self.ports[port as usize];
        *to.entry(key(peer, virtual_network)).or_insert_with(|| {
            senders.push(Sender {
                peer,
                virtual_network,
                next: 0,
                reserved: 0,
                under_way: 0,
                kept: VecDeque::new(),
                tries: 0,
                tried: SimTime::ZERO,
                timer: false,
                dead: false,
                control: Control::new(self.common.congestion(virtual_network), self.common.line),
            });
            senders.len() as u32 - 1
        })
    }

    /// Another packet of the flow may be made.
    #[inline]
    pub(crate) fn is_open(&self, now: SimTime, port: u32, flow: Flow) -> bool {
        let PortFlows { senders, held, busy, .. } = &self.ports[port as usize];
        let sender = &senders[flow as usize];
        let span = sender.span();
        let Reliability { window, room, flows, .. } = self.config;
        let network = usize::from(sender.virtual_network);
        let has_room = (room == 0 || held[network] < room) && (flows == 0 || span > 0 || busy[network] < flows);
        span < window && has_room && sender.control.allows(now, span, sender.under_way)
    }

    /// One is made.
    #[inline]
    pub(crate) fn reserve(&mut self, now: SimTime, port: u32, flow: Flow, label: &Label, effects: &mut impl PortEffects) {
        let PortFlows { senders, held, busy, .. } = &mut self.ports[port as usize];
        let sender = &mut senders[flow as usize];
        held[usize::from(sender.virtual_network)] += 1;
        busy[usize::from(sender.virtual_network)] += u32::from(sender.span() == 0);
        sender.reserved += 1;
        sender.under_way += u64::from(label.wire);
        if let Some(next) = sender.control.made(now, label.wire, self.common.congestion(sender.virtual_network)) {
            effects.schedule_port(next, PortEvent::Paced, label.source, flow);
        }
    }

    /// The bytes on the wire of what goes before anything new.
    #[inline]
    pub(crate) fn urgent(&self, port: u32, virtual_network: u32) -> Option<u32> {
        let flows = &self.ports[port as usize];
        if virtual_network == u32::from(self.common.network) {
            return flows.packets.next().map(|label| label.wire);
        }
        let Urgent { acknowledge, again } = &flows.urgent[virtual_network as usize];
        if !acknowledge.is_empty() {
            return Some(self.config.ack.0 as u32);
        }
        let &(flow, sequence) = again.front()?;
        let sender = &flows.senders[flow as usize];
        sender.find(sequence).map(|place| sender.kept[place].label.wire)
    }

    /// Sends it.
    pub(crate) fn take_urgent(
        &mut self,
        now: SimTime,
        port: u32,
        host: u32,
        virtual_network: u32,
        statistics: &mut Statistics,
    ) -> Option<Label> {
        let PortFlows { senders, receivers, urgent, carried, packets, .. } = &mut self.ports[port as usize];
        let Urgent { acknowledge, again } = &mut urgent[virtual_network as usize];
        if virtual_network == u32::from(self.common.network) {
            let (label, carries) = packets.take()?;
            if carries != NONE {
                self.carried = take(carried, carries);
            }
            statistics.control_packets += 1;
            return Some(label);
        }
        if let Some(Coming { flow, number: sequence, marked, carries, .. }) = acknowledge.pop_front() {
            statistics.acknowledgements += 1;
            let receiver = &mut receivers[flow as usize];
            receiver.due = false;
            let marked = std::mem::take(&mut receiver.marked) | marked;
            let carries = std::mem::replace(&mut receiver.carries, NONE).min(carries);
            if carries != NONE {
                self.carried = take(carried, carries);
            }
            return Some(Label {
                id: TransferId(u32::from(receiver.expected)),
                source: host,
                target: receiver.peer,
                virtual_network: receiver.virtual_network,
                message: Bytes(0),
                started: now,
                wire: self.config.ack.0 as u32,
                // Of no other use in one.
                first: marked,
                index: 0,
                written: false,
                kind: PacketKind::Acknowledgement,
                sequence: match self.config.delivery_in(receiver.virtual_network) {
                    Delivery::Ordered => receiver.acknowledged,
                    Delivery::Unordered => sequence,
                },
                marked: false,
            });
        }
        let (flow, sequence) = again.pop_front()?;
        statistics.retransmissions += 1;
        let sender = &mut senders[flow as usize];
        let place = sender.find(sequence)?;
        let kept = &mut sender.kept[place];
        kept.sent = Some(now);
        Some(kept.label)
    }

    /// The flow of the port that the last event has given up: its number, and what is to be told.
    pub(crate) fn given_up(&mut self, port: u32) -> Option<(Flow, Undelivered)> {
        self.ports[port as usize].given_up.take().map(|given_up| *given_up)
    }

    /// What the packet carries that came last.
    pub(crate) fn heard(&self) -> Carried {
        self.heard
    }

    /// The delivery in a virtual network is ordered.
    pub(crate) fn is_ordered(&self, virtual_network: u8) -> bool {
        self.config.delivery_in(virtual_network) == Delivery::Ordered
    }

    /// What the packet carries that arrives next.
    pub(crate) fn hear(&mut self, carried: &Carried) {
        self.heard = *carried;
    }

    /// What the packet carries that was taken last.
    pub(crate) fn carried(&mut self) -> Carried {
        std::mem::take(&mut self.carried)
    }

    /// A packet that was made goes; `label` gets its number.
    pub(crate) fn sent(&mut self, now: SimTime, port: u32, flow: Flow, label: &mut Label, effects: &mut impl PortEffects) {
        let PortFlows { senders, held, busy, .. } = &mut self.ports[port as usize];
        let sender = &mut senders[flow as usize];
        sender.reserved -= 1;
        label.sequence = sender.next;
        sender.next = sender.next.wrapping_add(1);
        if sender.dead {
            held[usize::from(sender.virtual_network)] -= 1;
            busy[usize::from(sender.virtual_network)] -= u32::from(sender.span() == 0);
            return;
        }
        sender.kept.push_back(Kept { label: *label, sent: Some(now) });
        if !std::mem::replace(&mut sender.timer, true) {
            effects.schedule_port(now + self.config.timeout, PortEvent::TimedOut, label.source, flow);
        }
    }

    /// A packet that was made and not sent has another length.
    pub(crate) fn resized(&mut self, port: u32, flow: Flow, before: u32, wire: u32) {
        let sender = &mut self.ports[port as usize].senders[flow as usize];
        sender.under_way = (sender.under_way + u64::from(wire)).saturating_sub(u64::from(before));
    }

    /// A packet of a message comes. The flow if it is to be taken; [`Flows::taken`] goes with it.
    pub(crate) fn arrive(
        &mut self,
        port: u32,
        landing: &Landing,
        label: &Label,
        hops: u32,
        statistics: &mut Statistics,
        effects: &mut impl PortEffects,
    ) -> Option<Flow> {
        let flows = &mut self.ports[port as usize];
        if label.marked && label.kind == PacketKind::Data {
            let (controls, mut port) = flows.seen(landing.tail, label.target, &self.common, effects);
            controls.marked(label, &mut port);
        }
        let PortFlows { to, from, receivers, coming, packets, carried, urgent, .. } = flows;
        let peer = key(label.source, label.virtual_network);
        match label.kind {
            PacketKind::Corrupt | PacketKind::Copied => return None,
            PacketKind::Acknowledgement => {
                let flow = *to.get(&peer)?;
                let carries = keep(carried, &self.heard);
                let (number, before) = (label.sequence, label.id.0 as u16);
                let slot = coming.insert(Coming { flow, number, before, hops: hops as u8, marked: label.first, carries });
                effects.schedule_port(landing.tail, PortEvent::Acknowledged, label.target, slot);
                return None;
            }
            PacketKind::Control => {
                let slot = packets.arrive(label, keep(carried, &self.heard));
                effects.schedule_port(landing.tail, PortEvent::Control, label.target, slot);
                return None;
            }
            PacketKind::Data => {}
        }
        let flow = *from.entry(peer).or_insert_with(|| {
            receivers.push(Receiver {
                peer: label.source,
                virtual_network: label.virtual_network,
                expected: 0,
                taken: VecDeque::new(),
                acknowledged: 0,
                due: false,
                marked: false,
                carries: NONE,
                in_memory: SimTime::ZERO,
            });
            receivers.len() as u32 - 1
        });
        let receiver = &mut receivers[flow as usize];
        let delivery = self.config.delivery_in(label.virtual_network);
        let distance = label.sequence.wrapping_sub(receiver.expected);
        let had = distance >= HALF || receiver.taken.get(usize::from(distance)).is_some_and(|&taken| taken != Taken::No);
        if had {
            statistics.duplicates += 1;
            let number = if delivery == Delivery::Ordered { receiver.acknowledged } else { label.sequence };
            // The acknowledgement of before may be waiting for the link. A second one would keep others waiting, which
            // are then sent again, too: where time-outs are shorter than that wait, none would ever come.
            // That of one which is not in memory yet comes in any case.
            let comes = receiver.taken.get(usize::from(distance)) == Some(&Taken::OnItsWay);
            let waits = |acknowledge: &VecDeque<Coming>| acknowledge.iter().any(|of| of.flow == flow && of.number == number);
            if delivery == Delivery::Unordered && (comes || waits(&urgent[usize::from(label.virtual_network)].acknowledge)) {
                return None;
            }
            let slot = coming.insert(Coming { flow, number, before: 0, hops: 0, marked: label.marked, carries: NONE });
            effects.schedule_port(landing.tail, PortEvent::Acknowledge, label.target, slot);
            return None;
        }
        match delivery {
            Delivery::Ordered if distance > 0 => return None,
            Delivery::Ordered => receiver.expected = receiver.expected.wrapping_add(1),
            Delivery::Unordered => {
                let place = usize::from(distance);
                if receiver.taken.len() <= place {
                    receiver.taken.resize(place + 1, Taken::No);
                }
                receiver.taken[place] = Taken::OnItsWay;
            }
        }
        Some(flow)
    }

    /// A packet that was taken will be in memory at `through`.
    pub(crate) fn taken(&mut self, port: u32, flow: Flow, label: &Label, through: SimTime, effects: &mut impl PortEffects) {
        let PortFlows { receivers, coming, carried, .. } = &mut self.ports[port as usize];
        let (mut at, mut number) = (through, label.sequence);
        if self.config.delivery_in(label.virtual_network) == Delivery::Ordered {
            let receiver = &mut receivers[flow as usize];
            receiver.in_memory = receiver.in_memory.max(through);
            (at, number) = (receiver.in_memory, number.wrapping_add(1));
        }
        let carries = keep(carried, &self.heard);
        let slot = coming.insert(Coming { flow, number, before: 0, hops: 0, marked: label.marked, carries });
        effects.schedule_port(at, PortEvent::Acknowledge, label.target, slot);
    }

    /// Timers that will find nothing to send again.
    pub(crate) fn idle_timers(&self) -> usize {
        let senders = self.ports.iter().flat_map(|port| &port.senders);
        senders.filter(|sender| sender.timer && sender.kept.is_empty()).count()
    }

    /// No packet is kept or made, and no acknowledgement or control packet is under way.
    pub(crate) fn are_idle(&self) -> bool {
        self.ports.iter().all(PortFlows::is_idle)
    }

    /// Begins anew, on all ports at once: which flow of a port is first at one instant does not depend on what was
    /// before.
    pub(crate) fn forget(&mut self) {
        self.ports.iter_mut().for_each(PortFlows::forget);
    }

    /// An event of a port's flows: the virtual network that may have something to send by it.
    pub(crate) fn event(
        &mut self,
        now: SimTime,
        port: u32,
        host: u32,
        event: PortEvent,
        payload: u32,
        effects: &mut impl PortEffects,
    ) -> Option<u32> {
        let flows = &mut self.ports[port as usize];
        match event {
            PortEvent::Acknowledge => {
                let coming = flows.take_coming(payload);
                flows.acknowledge(&coming, &self.config)
            }
            PortEvent::Acknowledged => {
                let coming = flows.take_coming(payload);
                flows.acknowledged(now, host, &coming, &self.config, &self.common, effects)
            }
            PortEvent::TimedOut => flows.timed_out(now, host, payload, &self.config, &self.common, effects),
            PortEvent::Paced => flows.senders.get(payload as usize).map(|sender| u32::from(sender.virtual_network)),
            PortEvent::Control => {
                let (label, carries) = flows.packets.arrived(payload);
                let (controls, mut port) = flows.seen(now, host, &self.common, effects);
                // It begins its way here.
                if label.source == host {
                    port.send(&label, carries);
                    return Some(u32::from(self.common.network));
                }
                controls.heard(&label, carries, &mut port)
            }
            PortEvent::Pulse => {
                let (controls, mut port) = flows.seen(now, host, &self.common, effects);
                controls.struck(payload, &mut port);
                Some(u32::from(self.common.network))
            }
            PortEvent::Reset => Some(flows.reset(payload)),
            PortEvent::Head | PortEvent::Tail | PortEvent::HeadAndTail | PortEvent::Packet => None,
        }
    }
}

impl PortFlows {
    /// The port as its congestion controls see it.
    fn seen<'a, E>(&'a mut self, now: SimTime, host: u32, common: &'a Common, effects: &'a mut E) -> (&'a mut PortControls, Port<'a, E>) {
        let PortFlows { to, senders, packets, carried, controls, .. } = self;
        (controls, Port { now, host, common, to, senders, packets, carried, effects })
    }

    fn is_idle(&self) -> bool {
        let rests = |sender: &Sender| sender.kept.is_empty() && sender.reserved == 0 && !sender.timer;
        let waits = |urgent: &Urgent| !(urgent.acknowledge.is_empty() && urgent.again.is_empty());
        let nothing_comes = self.coming.is_empty() && self.packets.is_idle() && self.carried.is_empty();
        nothing_comes && self.controls.are_idle() && self.senders.iter().all(rests) && !self.urgent.iter().any(waits)
    }

    fn forget(&mut self) {
        self.to.clear();
        self.from.clear();
        self.senders.clear();
        self.receivers.clear();
        self.coming.forget_order();
        self.packets.forget_order();
        self.carried.forget_order();
        self.controls.forget();
    }

    fn take_coming(&mut self, slot: u32) -> Coming {
        let coming = self.coming[slot];
        self.coming.remove(slot);
        coming
    }

    fn acknowledge(&mut self, coming: &Coming, config: &Reliability) -> Option<u32> {
        let Coming { flow, number, marked, mut carries, .. } = *coming;
        let receiver = &mut self.receivers[flow as usize];
        let delivery = config.delivery_in(receiver.virtual_network);
        if delivery == Delivery::Ordered {
            // That of the last packet counts.
            if carries != NONE {
                let before = std::mem::replace(&mut receiver.carries, std::mem::replace(&mut carries, NONE));
                if before != NONE {
                    self.carried.remove(before);
                }
            }
            if number.wrapping_sub(receiver.acknowledged) < HALF {
                receiver.acknowledged = number;
            }
            receiver.marked |= marked;
            if std::mem::replace(&mut receiver.due, true) {
                return None;
            }
        } else {
            receiver.in_memory(number);
        }
        let virtual_network = u32::from(receiver.virtual_network);
        self.urgent[virtual_network as usize].acknowledge.push_back(Coming {
            flow,
            number,
            before: 0,
            hops: 0,
            marked: marked && delivery == Delivery::Unordered,
            carries,
        });
        Some(virtual_network)
    }

    fn acknowledged(
        &mut self,
        now: SimTime,
        host: u32,
        coming: &Coming,
        config: &Reliability,
        common: &Common,
        effects: &mut impl PortEffects,
    ) -> Option<u32> {
        let Coming { flow, number, before, hops, marked, carries } = *coming;
        if carries != NONE {
            self.carried.remove(carries);
        }
        // The record stays until the place is given again.
        let telemetry = match (carries != NONE).then(|| &self.carried[carries]) {
            Some(Carried::Telemetry(telemetry)) => Some(telemetry),
            _ => None,
        };
        let sender = &mut self.senders[flow as usize];
        let virtual_network = u32::from(sender.virtual_network);
        let delivery = config.delivery_in(sender.virtual_network);
        // Those that it is for: the first ones, and perhaps one behind them.
        let (first, own) = match delivery {
            Delivery::Ordered => (sender.before(number), None),
            Delivery::Unordered => {
                let first = sender.before(before);
                (first, sender.find(number).filter(|&place| place >= first))
            }
        };
        let last_sent = sender.kept[own.or(first.checked_sub(1))?].sent;
        let own = own.and_then(|place| sender.kept.remove(place));
        let packets = (first + usize::from(own.is_some())) as u32;
        let acknowledged_now = sender.kept.range(..first).chain(&own);
        let (mut bytes, mut waits) = (0, 0);
        for kept in acknowledged_now {
            bytes += kept.label.wire;
            waits += usize::from(kept.sent.is_none());
        }
        sender.kept.drain(..first);
        sender.under_way = sender.under_way.saturating_sub(u64::from(bytes));
        let (under_way, next) = (sender.under_way, sender.next);
        let acknowledged = if delivery == Delivery::Ordered { number } else { number.wrapping_add(1) };
        // The time of one that waits to be sent again says nothing.
        if let Some(sent) = last_sent {
            let what = Acknowledged { sent, packets, bytes, hops: u32::from(hops), marked, under_way, telemetry, acknowledged, next };
            let next = sender.control.acknowledged(now, &what, sender.virtual_network, common);
            if let Some(next) = next.filter(|&next| next > now) {
                effects.schedule_port(next, PortEvent::Paced, host, flow);
            }
        }
        self.held[virtual_network as usize] -= packets;
        self.busy[virtual_network as usize] -= u32::from(sender.span() == 0);
        sender.tries = 0;
        if waits > 0 {
            let again = &mut self.urgent[virtual_network as usize].again;
            again.retain(|&(of, number)| of != flow || sender.find(number).is_some());
        }
        Some(virtual_network)
    }

    /// The port starts anew: in a virtual network it sends again all that was not acknowledged. The numbers of its
    /// flows are those from before, kept in the node's memory.
    fn reset(&mut self, virtual_network: u32) -> u32 {
        let PortFlows { senders, urgent, .. } = self;
        let again = &mut urgent[virtual_network as usize].again;
        again.clear();
        for (flow, sender) in (0..).zip(senders).filter(|(_, sender)| u32::from(sender.virtual_network) == virtual_network) {
            sender.tries = 0;
            for kept in &mut sender.kept {
                kept.sent = None;
                again.push_back((flow, kept.label.sequence));
            }
        }
        virtual_network
    }

    fn timed_out(
        &mut self,
        now: SimTime,
        host: u32,
        flow: Flow,
        config: &Reliability,
        common: &Common,
        effects: &mut impl PortEffects,
    ) -> Option<u32> {
        let sender = &mut self.senders[flow as usize];
        sender.timer = false;
        if sender.kept.is_empty() {
            return None;
        }
        sender.timer = true;
        let deadline = sender.deadline(config.timeout).unwrap_or(now + config.timeout);
        if deadline > now {
            effects.schedule_port(deadline, PortEvent::TimedOut, host, flow);
            return None;
        }
        let virtual_network = u32::from(sender.virtual_network);
        // Packets that are due one after the other are one time-out.
        let counts = sender.tries == 0 || sender.tried + config.timeout <= now;
        if counts && sender.tries == config.retries {
            (sender.dead, sender.timer) = (true, false);
            self.held[virtual_network as usize] -= sender.kept.len() as u32;
            let messages = sender.kept.drain(..).map(|kept| message_of(&kept.label)).collect();
            self.busy[virtual_network as usize] -= u32::from(sender.span() == 0);
            sender.under_way = 0;
            self.urgent[virtual_network as usize].again.retain(|&(of, _)| of != flow);
            self.controls.given_up(&mut sender.control, flow);
            let Sender { peer: target, virtual_network, tries, .. } = *sender;
            let undelivered = Undelivered { at: now, from: host, target, virtual_network, tries, link: None, messages };
            self.given_up = Some(Box::new((flow, undelivered)));
            return Some(u32::from(virtual_network));
        }
        if counts {
            (sender.tries, sender.tried) = (sender.tries + 1, now);
            sender.control.timed_out(now, sender.under_way, sender.virtual_network, common);
        }
        let all = config.delivery_in(sender.virtual_network) == Delivery::Ordered;
        for kept in &mut sender.kept {
            if kept.sent.is_some_and(|sent| all || sent + config.timeout <= now) {
                kept.sent = None;
                self.urgent[virtual_network as usize].again.push_back((flow, kept.label.sequence));
            }
        }
        let deadline = sender.deadline(config.timeout).unwrap_or(now + config.timeout);
        effects.schedule_port(deadline, PortEvent::TimedOut, host, flow);
        Some(virtual_network)
    }
}
