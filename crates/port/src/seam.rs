//! Packets that hosts see before messages are made of them: see [`narrows_fabric::seam`].

use crate::flow::Flow;
use crate::{HostPorts, NONE};
use narrows_engine::WordMap;
use narrows_fabric::Arrival;
use narrows_fabric::Carried;
use narrows_fabric::port::{Label, Landing, Packet, PacketKind, PortEffects, PortEvent, Release};
use narrows_fabric::seam::{Acknowledge, PacketIn, Verdict};
use narrows_fabric::timing::Costs;
use narrows_units::{Bytes, SimTime};
use std::collections::{BTreeMap, VecDeque};

/// Those of the ports of a region.
#[derive(Debug)]
pub(crate) struct Seam {
    /// By port, if its host sees packets.
    acknowledge: Vec<Option<Acknowledge>>,
    /// By port: packets that have come. The numbers of those that come at one time do not depend on the regions.
    come: Vec<u32>,
    /// By port and number.
    kept: WordMap<u64, Kept>,
    /// By port and flow: the packets of ordered flows that are not acknowledged before those ahead of them are.
    ordered: BTreeMap<(u32, Flow), VecDeque<Turn>>,
}

/// A packet that has come and neither gone on nor was consumed.
#[derive(Clone, Copy, Debug)]
struct Kept {
    landing: Landing,
    packet: Packet,
    /// When it was to be seen first.
    seen: SimTime,
    again: bool,
    /// [`NONE`] where there are no flows.
    flow: Flow,
    /// What came with it.
    carried: Carried,
}

/// A packet of an ordered flow.
#[derive(Clone, Copy, Debug)]
struct Turn {
    sequence: u16,
    /// It is through, then.
    through: Option<SimTime>,
}

/// The packet of a message within the node, which has no buffer.
const WITHIN: u32 = NONE;

fn key(port: u32, number: u32) -> u64 {
    u64::from(port) << 32 | u64::from(number)
}

impl Seam {
    pub(crate) fn new(ports: usize) -> Seam {
        Seam { acknowledge: vec![None; ports], come: vec![0; ports], kept: WordMap::default(), ordered: BTreeMap::new() }
    }

    pub(crate) fn show(&mut self, port: u32, acknowledge: Acknowledge) {
        self.acknowledge[port as usize] = Some(acknowledge);
    }

    pub(crate) fn shows(&self, port: u32) -> bool {
        self.acknowledge[port as usize].is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.kept.is_empty()
    }

    /// Numbers begin anew.
    pub(crate) fn rest(&mut self) {
        if self.is_idle() {
            self.come.fill(0);
        }
    }

    fn keep(&mut self, port: u32, kept: Kept) -> u32 {
        let come = &mut self.come[port as usize];
        *come = come.wrapping_add(1);
        self.kept.insert(key(port, *come), kept);
        *come
    }

    /// As its host sees it.
    pub(crate) fn packet(&self, port: u32, number: u32, costs: &Costs) -> Option<PacketIn> {
        let Kept { landing, packet, again, .. } = self.kept.get(&key(port, number))?;
        let Label { id, source, target, virtual_network, message, started, wire, index, .. } = packet.label();
        let arrival = Arrival { id, source, target, virtual_network, payload: message, started };
        let (mut offset, mut payload) = (Bytes(u64::from(index) * u64::from(costs.mtu)), Bytes(u64::from(wire - costs.header)));
        let last = landing.packet == WITHIN || offset.0 + u64::from(costs.mtu) >= message.0;
        if landing.packet == WITHIN {
            (offset, payload) = (Bytes(0), message);
        }
        Some(PacketIn { arrival, number, offset, payload, last, tail: landing.tail, again: *again })
    }

    /// A packet of an ordered flow is through: the last one that may be acknowledged by that, and when.
    fn turn(&mut self, port: u32, flow: Flow, sequence: u16, through: SimTime) -> Option<(u16, SimTime)> {
        let turns = self.ordered.get_mut(&(port, flow))?;
        turns.iter_mut().find(|turn| turn.sequence == sequence)?.through = Some(through);
        let mut last: Option<(u16, SimTime)> = None;
        while let Some(&Turn { sequence, through: Some(through) }) = turns.front() {
            last = Some((sequence, last.map_or(through, |(_, before)| before.max(through))));
            turns.pop_front();
        }
        if turns.is_empty() {
            self.ordered.remove(&(port, flow));
        }
        last
    }
}

impl HostPorts {
    /// A packet waits for what its host says. When its buffer is free is not known.
    #[cold]
    pub(crate) fn keep(
        &mut self,
        port: u32,
        landing: &Landing,
        packet: &Packet,
        flow: Flow,
        effects: &mut impl PortEffects,
    ) -> Option<SimTime> {
        let HostPorts { seam: Some(seam), flows, costs, hosts, .. } = self else { return None };
        let (label, mut carried) = (packet.label(), Carried::Nothing);
        if let Some(flows) = flows
            && flow != NONE
        {
            carried = flows.heard();
            if seam.acknowledge[port as usize] == Some(Acknowledge::Accepted) {
                flows.taken(port, flow, &label, landing.tail, effects);
            } else if flows.is_ordered(label.virtual_network) {
                seam.ordered.entry((port, flow)).or_default().push_back(Turn { sequence: label.sequence, through: None });
            }
        }
        let seen = landing.head + SimTime(costs.host_wire().time(costs.header));
        let number = seam.keep(port, Kept { landing: *landing, packet: *packet, seen, again: false, flow, carried });
        effects.schedule_port(seen, PortEvent::Packet, hosts[port as usize], number);
        None
    }

    /// So does a message within the node, as one packet.
    #[cold]
    pub(crate) fn keep_within(&mut self, port: u32, arrival: &Arrival, head: SimTime, tail: SimTime, effects: &mut impl PortEffects) {
        let HostPorts { seam: Some(seam), hosts, costs, .. } = self else { return };
        let Arrival { id, source, target, virtual_network, payload: message, started } = *arrival;
        let label = Label {
            id,
            source,
            target,
            virtual_network,
            message,
            started,
            wire: costs.header,
            first: true,
            index: 0,
            written: false,
            kind: PacketKind::Data,
            sequence: 0,
            marked: false,
        };
        let landing = Landing { link: source, packet: WITHIN, head, tail };
        let packet = Packet::new(&label);
        let number = seam.keep(port, Kept { landing, packet, seen: head, again: false, flow: NONE, carried: Carried::Nothing });
        effects.schedule_port(head, PortEvent::Packet, hosts[port as usize], number);
    }

    /// The host has said what becomes of a packet.
    #[cold]
    pub(crate) fn judge(
        &mut self,
        now: SimTime,
        port: u32,
        number: u32,
        verdict: Verdict,
        effects: &mut impl PortEffects,
    ) -> Option<Release> {
        let HostPorts { seam: Some(seam), hosts, costs, .. } = self else { return None };
        if let Verdict::DelayUntil(time) = verdict {
            seam.kept.get_mut(&key(port, number))?.again = true;
            effects.schedule_port(time.max(now + SimTime(1)), PortEvent::Packet, hosts[port as usize], number);
            return None;
        }
        let Kept { mut landing, packet, seen, flow, carried, .. } = seam.kept.remove(&key(port, number))?;
        let label = packet.label();
        // One that was not delayed goes on as if nobody had seen it.
        let from = if now > seen { now } else { SimTime::ZERO };
        let header = costs.header;
        let wire = match verdict {
            Verdict::Rewrite(length) => header + length.0.min(u64::from(costs.mtu)) as u32,
            _ => label.wire,
        };
        let through = if verdict == Verdict::Consume {
            if landing.packet != WITHIN {
                self.receiver.consume(now, port, landing.link, &label, &self.costs, effects);
            }
            landing.tail.max(now)
        } else if landing.packet == WITHIN {
            let Label { id, source, target, virtual_network, message: payload, started, .. } = label;
            let arrival = Arrival { id, source, target, virtual_network, payload, started };
            self.receiver.whole(port, &arrival, landing.head.max(now), landing.tail.max(now), effects);
            landing.tail.max(now)
        } else {
            let through = self.write(port, &landing, label.written && wire > header, wire, from);
            // Its header is told when it goes on.
            landing.head += now.saturating_sub(seen);
            self.receiver.take(port, &landing, &packet, through, &self.costs, effects);
            through
        };
        if flow != NONE {
            self.acknowledge(port, flow, &label, through, &carried, effects);
        }
        (landing.packet != WITHIN).then_some(Release { packet: landing.packet, at: through })
    }

    /// A packet of a flow is through.
    fn acknowledge(&mut self, port: u32, flow: Flow, label: &Label, through: SimTime, carried: &Carried, effects: &mut impl PortEffects) {
        let HostPorts { seam: Some(seam), flows: Some(flows), .. } = self else { return };
        if seam.acknowledge[port as usize] == Some(Acknowledge::Accepted) {
            return;
        }
        let turn = match flows.is_ordered(label.virtual_network) {
            true => seam.turn(port, flow, label.sequence, through),
            false => Some((label.sequence, through)),
        };
        if let Some((sequence, through)) = turn {
            flows.hear(carried);
            flows.taken(port, flow, &Label { sequence, ..*label }, through, effects);
        }
    }
}
