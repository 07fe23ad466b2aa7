//! What is between a host and the packet network: at each port the bus to the host's memory, what makes packets of
//! messages ([`packetiser`]), and what makes messages of packets ([`receive`]).
//!
//! Networks without packets have no such ports: their messages share links, or take a latency, in one piece.
//!
//! [`Driver`] is a network with such ports and nothing above them, for tests and benches.

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod driver;
mod packetiser;
mod receive;

pub use driver::Driver;

use narrows_fabric::port::{Landing, Next, Packet, PortEffects, PortEvent, Ports};
use narrows_fabric::timing::Costs;
use narrows_fabric::{Arrival, NetworkConfig, Statistics, Transfer};
use narrows_units::SimTime;

use packetiser::Packetiser;
use receive::Receiver;

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
    statistics: Statistics,
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
            receiver: Receiver::default(),
            statistics: Statistics::default(),
        }
    }

    fn start(&mut self, now: SimTime, port: u32, message: &Transfer, copied: bool, effects: &mut impl PortEffects) {
        self.statistics.transfers += 1;
        self.statistics.bytes += message.payload.0;
        self.send(now, port, message, copied, effects);
    }

    fn start_within<F: PortEffects>(&mut self, now: SimTime, port: u32, message: &Transfer, effects: &mut F) {
        self.statistics.transfers += 1;
        self.statistics.intra_node += 1;
        self.statistics.bytes += message.payload.0;
        let Transfer { id, source, target, virtual_network, payload, source_dma, .. } = *message;
        let free = &mut self.buses[port as usize].within_free;
        let begin = now.max(*free);
        let copied = begin + SimTime(self.costs.intra_node_copy(payload.0));
        // No two begin at one time, so that their order is known.
        *free = copied.max(begin + SimTime(1));
        if source_dma && payload.0 > 0 && !F::EARLY {
            effects.source_done(copied, source, id);
        }
        let latency = self.costs.intra_node_latency();
        let arrival = Arrival { id, source, target, virtual_network, payload, started: now };
        self.receiver.whole(&arrival, begin + latency, copied + latency, effects);
    }

    #[inline(always)]
    fn has_packets(&self, port: u32, virtual_network: u32) -> bool {
        self.packetiser.has_packets(port, virtual_network)
    }

    #[inline(always)]
    fn next(&self, now: SimTime, port: u32, virtual_network: u32) -> Next {
        self.packetiser.next(now, port, virtual_network, &self.costs)
    }

    #[inline(always)]
    fn take(&mut self, now: SimTime, port: u32, virtual_network: u32, effects: &mut impl PortEffects) -> Packet {
        self.take_next(now, port, virtual_network, effects)
    }

    fn resend(&mut self, now: SimTime, port: u32, packet: &Packet) {
        self.packetiser.put_back(now, port, packet.label());
    }

    #[inline]
    fn arrive(&mut self, port: u32, landing: &Landing, packet: &Packet, effects: &mut impl PortEffects) -> SimTime {
        let through = self.write(port, landing, packet);
        self.receiver.take(landing, packet, through, &self.costs, effects);
        through
    }

    #[inline]
    fn event(&mut self, _now: SimTime, event: PortEvent, payload: u32, effects: &mut impl PortEffects) -> Option<(u32, u32)> {
        self.receiver.event(event, payload, effects);
        None
    }

    fn rest(&mut self) {
        self.packetiser.rest();
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
}
