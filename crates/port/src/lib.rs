//! What is between a host and the packet network: at each port the bus to the host's memory, what makes packets of
//! messages (`packetiser.rs`; whose turn it is, `turns.rs`), what makes messages of packets (`receive.rs`), and what
//! sees to it that none is lost (`flow.rs`). Hosts may see the packets (`seam.rs`).
//!
//! Networks without packets have no such ports: their messages share links, or take a latency, in one piece.
//!
//! [`Driver`] is a network with such ports and nothing above them, for tests and benches.

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod congestion;
mod driver;
mod flow;
mod packetiser;
mod receive;
mod seam;
mod turns;

pub use driver::Driver;

use narrows_fabric::port::{Landing, Next, Packet, PacketKind, PortEffects, PortEvent, Ports, Release, Rest};
use narrows_fabric::seam::{Acknowledge, Verdict};
use narrows_fabric::timing::Costs;
use narrows_fabric::{Arrival, Carried, NetworkConfig, Statistics, Transfer, within};
use narrows_units::SimTime;

use flow::Flows;
use packetiser::Packetiser;
use receive::Receiver;
use seam::Seam;

pub(crate) const NONE: u32 = u32::MAX;

/// The ports of the hosts of a region, and the buses behind them.
#[derive(Debug)]
pub struct HostPorts {
    costs: Costs,
    /// By port: its host.
    hosts: Vec<u32>,
    buses: Vec<Bus>,
    packetiser: Packetiser,
    receiver: Receiver,
    /// Where nothing may be lost.
    flows: Option<Box<Flows>>,
    /// Where hosts see packets.
    seam: Option<Box<Seam>>,
    statistics: Statistics,
    /// Of nodes with several processors.
    within: within::Buses,
}

/// PCIe of a node, a server per direction, and the node's inner path: each first come, first served.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bus {
    read_free: SimTime,
    write_free: SimTime,
    within_free: SimTime,
}

impl Ports for HostPorts {
    fn new(config: &NetworkConfig, costs: &Costs, hosts: &[u32]) -> HostPorts {
        HostPorts {
            costs: costs.clone(),
            hosts: hosts.to_vec(),
            buses: vec![Bus::default(); hosts.len()],
            packetiser: Packetiser::new(config, hosts.len()),
            receiver: Receiver::new(hosts.len()),
            flows: config.reliability.map(|reliability| Box::new(Flows::new(reliability, config, hosts))),
            seam: None,
            statistics: Statistics::default(),
            within: within::Buses::new(&config.node_routes, hosts.len()),
        }
    }

    fn start(&mut self, now: SimTime, port: u32, message: &Transfer, copied: bool, effects: &mut impl PortEffects) {
        self.statistics.transfers += 1;
        self.statistics.bytes += message.payload.0;
        self.send(now, port, message, copied, effects);
    }

    fn start_within<F: PortEffects>(&mut self, now: SimTime, [port, to]: [u32; 2], message: &Transfer, effects: &mut F) {
        self.statistics.transfers += 1;
        self.statistics.intra_node += 1;
        self.statistics.bytes += message.payload.0;
        let Transfer { id, source, target, virtual_network, payload, source_dma, .. } = *message;
        let passes = if message.route == 0 {
            let free = &mut self.buses[port as usize].within_free;
            let begin = now.max(*free);
            let copied = begin + SimTime(self.costs.intra_node_copy(payload.0));
            // No two begin at one time, so that their order is known.
            *free = copied.max(begin + SimTime(1));
            within::Passes { begin, copied, latency: self.costs.intra_node_latency() }
        } else {
            self.within.pass(now, port as usize, message.route, payload)
        };
        if source_dma && payload.0 > 0 && !F::EARLY {
            effects.source_done(passes.copied, source, id);
        }
        let arrival = Arrival { id, source, target, virtual_network, payload, started: now };
        if F::PACKETS && self.shows(to) {
            return self.keep_within(to, &arrival, passes.head(), passes.tail(), effects);
        }
        self.receiver.whole(to, &arrival, passes.head(), passes.tail(), effects);
    }

    #[inline(always)]
    fn has_packets(&self, port: u32, virtual_network: u32) -> bool {
        self.packetiser.has_packets(port, virtual_network) || self.flows.is_some() && self.has_urgent(port, virtual_network)
    }

    #[inline(always)]
    fn next(&self, now: SimTime, port: u32, virtual_network: u32) -> Next {
        if self.flows.is_some() {
            return self.next_in_flow(now, port, virtual_network);
        }
        self.packetiser.next::<false>(now, port, virtual_network, &self.costs, None)
    }

    #[inline(always)]
    fn take(&mut self, now: SimTime, port: u32, virtual_network: u32, effects: &mut impl PortEffects) -> Option<Packet> {
        if self.flows.is_some() {
            return self.take_in_flow(now, port, virtual_network, effects);
        }
        self.take_next::<false, _>(now, port, virtual_network, effects)
    }

    fn resend(&mut self, now: SimTime, port: u32, packet: &Packet) {
        self.packetiser.put_back(now, port, packet);
    }

    #[inline]
    fn arrive<F: PortEffects>(&mut self, port: u32, landing: &Landing, packet: &Packet, effects: &mut F) -> Option<SimTime> {
        // What switches copy is in no flow.
        if self.flows.is_some() && packet.kind() != PacketKind::Copied {
            return self.arrive_in_flow(port, landing, packet, effects);
        }
        if F::PACKETS && self.shows(port) && packet.kind() != PacketKind::Copied {
            return self.keep(port, landing, packet, NONE, effects);
        }
        let through = self.write(port, landing, packet.label().written, packet.label().wire, SimTime::ZERO);
        self.receiver.take(port, landing, packet, through, &self.costs, effects);
        Some(through)
    }

    fn show(&mut self, port: u32, acknowledge: Acknowledge) {
        let ports = self.hosts.len();
        self.seam.get_or_insert_with(|| Box::new(Seam::new(ports))).show(port, acknowledge);
    }

    fn shows(&self, port: u32) -> bool {
        self.seam.as_ref().is_some_and(|seam| seam.shows(port))
    }

    fn seen(&mut self, _: SimTime, port: u32, number: u32, effects: &mut impl PortEffects) -> Option<Release> {
        effects.packet_in(&self.seam.as_ref()?.packet(port, number, &self.costs)?);
        None
    }

    fn judged(&mut self, now: SimTime, port: u32, number: u32, verdict: Verdict, effects: &mut impl PortEffects) -> Option<Release> {
        self.judge(now, port, number, verdict, effects)
    }

    fn hear(&mut self, carried: &Carried) {
        if let Some(flows) = &mut self.flows {
            flows.hear(carried);
        }
    }

    fn carried(&mut self) -> Carried {
        self.flows.as_mut().map_or(Carried::Nothing, |flows| flows.carried())
    }

    #[inline]
    fn message(&mut self, event: PortEvent, payload: u32, effects: &mut impl PortEffects) {
        self.receiver.event(event, payload, effects);
    }

    fn flow(&mut self, now: SimTime, port: u32, event: PortEvent, payload: u32, effects: &mut impl PortEffects) -> Option<u32> {
        let host = self.hosts[port as usize];
        let virtual_network = self.flows.as_mut()?.event(now, port, host, event, payload, effects)?;
        if event == PortEvent::TimedOut
            && let Some((flow, mut undelivered)) = self.flows.as_mut()?.given_up(port)
        {
            self.packetiser.abandon(port, host, virtual_network, flow, &mut undelivered.messages);
            effects.undelivered(undelivered);
        }
        if event != PortEvent::Acknowledge {
            // The flow may be open again.
            let at = self.packetiser.place(port, virtual_network);
            self.read::<true, _>(now, port, at, effects);
        }
        Some(virtual_network)
    }

    fn idle_timers(&self) -> usize {
        self.flows.as_ref().map_or(0, |flows| flows.idle_timers())
    }

    fn is_idle(&self) -> bool {
        let sees_none = self.seam.as_ref().is_none_or(|seam| seam.is_idle());
        sees_none && self.packetiser.is_idle() && self.receiver.is_idle() && self.flows.as_ref().is_none_or(|flows| flows.are_idle())
    }

    fn rest(&mut self, idle: bool) {
        self.packetiser.rest();
        self.receiver.rest();
        if let Some(seam) = &mut self.seam {
            seam.rest();
        }
        if let Some(flows) = &mut self.flows
            && idle
        {
            flows.forget();
        }
    }

    #[inline]
    fn prefetch(&self, port: u32) {
        self.packetiser.prefetch(port);
    }

    fn packets(&self) -> usize {
        self.packetiser.packets()
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn count(&mut self, message: &Transfer) {
        self.statistics.transfers += 1;
        self.statistics.bytes += message.payload.0;
    }

    fn window(&self) -> u32 {
        self.packetiser.window()
    }

    fn bus(&mut self, port: u32) -> (&mut SimTime, &mut SimTime) {
        let Bus { read_free, write_free, .. } = &mut self.buses[port as usize];
        (read_free, write_free)
    }

    fn open(&mut self, port: u32, arrival: &Arrival, packets: u64) -> u32 {
        self.receiver.open(port, arrival, packets)
    }

    fn complete(&mut self, message: u32, through: SimTime) {
        self.receiver.complete(message, through);
    }

    fn left(&mut self, message: u32, packets: u64, through: SimTime) {
        self.receiver.left(message, packets, through);
    }

    fn resume(&mut self, port: u32, rest: &Rest) {
        self.statistics.packets += rest.packets;
        self.packetiser.resume(port, self.hosts[port as usize], rest, &self.costs);
    }
}

impl HostPorts {
    #[inline(never)]
    fn next_in_flow(&self, now: SimTime, port: u32, virtual_network: u32) -> Next {
        let flows = self.flows.as_deref();
        match flows.and_then(|flows| flows.urgent(port, virtual_network)) {
            Some(wire) => Next::Packet(wire),
            None => self.packetiser.next::<true>(now, port, virtual_network, &self.costs, flows),
        }
    }

    #[inline(never)]
    fn take_in_flow(&mut self, now: SimTime, port: u32, virtual_network: u32, effects: &mut impl PortEffects) -> Option<Packet> {
        let HostPorts { hosts, statistics, flows, .. } = self;
        let urgent = flows.as_mut().and_then(|flows| flows.take_urgent(now, port, hosts[port as usize], virtual_network, statistics));
        match urgent {
            Some(label) => Some(Packet::new(&label)),
            None => self.take_next::<true, _>(now, port, virtual_network, effects),
        }
    }

    #[inline(never)]
    fn has_urgent(&self, port: u32, virtual_network: u32) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.urgent(port, virtual_network).is_some())
    }

    #[inline(never)]
    fn arrive_in_flow<F: PortEffects>(&mut self, port: u32, landing: &Landing, packet: &Packet, effects: &mut F) -> Option<SimTime> {
        let HostPorts { flows: Some(flows), statistics, .. } = self else { return Some(landing.tail) };
        let label = packet.label();
        let Some(flow) = flows.arrive(port, landing, &label, packet.hops(), statistics, effects) else { return Some(landing.tail) };
        if F::PACKETS && self.shows(port) {
            return self.keep(port, landing, packet, flow, effects);
        }
        let through = self.write(port, landing, label.written, label.wire, SimTime::ZERO);
        self.receiver.take(port, landing, packet, through, &self.costs, effects);
        if let Some(flows) = &mut self.flows {
            flows.taken(port, flow, &label, through, effects);
        }
        Some(through)
    }
}
