//! One message alone on the network: the closed form that all three networks keep to.
//!
//! A packet passes a row of stages: it is read over PCIe, sent over the host link, over links between switches, over the
//! target's host link, and written over PCIe. It is read whole before it is sent, and has arrived whole before it is written; between
//! links it is cut through: the head goes on after the switch latency, or as soon after it as a faster output will not run dry. With `n`
//! equal packets, stage `i` begins with packet `k` at `c_i + (k - 1) M_i`, where `c_i` is the way of the first packet and `M_i` the
//! longest service time up to the stage; the last packet, which may be shorter, is then followed by itself.

use crate::config::{LinkConfig, NetworkConfig};
use narrows_topology::{LinkClass, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// When the notices of a transfer come on an empty network, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLoad {
    /// [`SourceDone`](crate::Notice::SourceDone), when the source's PCIe is never held up.
    pub source_done: SimTime,
    /// [`HeadArrived`](crate::Notice::HeadArrived).
    pub head: SimTime,
    /// [`TailArrived`](crate::Notice::TailArrived).
    pub tail: SimTime,
}

/// Time at a rate, with the sizes that come again and again looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    rate: ByteRate,
    sizes: [(u32, u64); 2],
}

impl Timer {
    fn new(rate: ByteRate, sizes: [u64; 2]) -> Self {
        Timer { rate, sizes: sizes.map(|size| (size as u32, rate.time_for(Bytes(size)).as_ps())) }
    }

    /// Picoseconds for `bytes`.
    #[inline]
    pub(crate) fn time(&self, bytes: u32) -> u64 {
        if bytes == self.sizes[0].0 {
            self.sizes[0].1
        } else if bytes == self.sizes[1].0 {
            self.sizes[1].1
        } else {
            self.rate.time_for(Bytes(u64::from(bytes))).as_ps()
        }
    }
}

/// The costs of a network's parts.
#[derive(Clone, Debug)]
pub struct Costs {
    pub(crate) mtu: u32,
    pub(crate) header: u32,
    host_link: LinkConfig,
    switch_link: LinkConfig,
    pub(crate) switch_latency: u64,
    pub(crate) host_wire: Timer,
    pub(crate) switch_wire: Timer,
    pub(crate) pcie: Timer,
    pcie_rate: ByteRate,
    intra_node_latency: u64,
    intra_node_rate: ByteRate,
}

impl Costs {
    /// From a configuration that [`NetworkConfig::check`] has passed.
    pub(crate) fn new(config: &NetworkConfig) -> Self {
        let wire = [config.packet().0, config.header.0];
        Costs {
            mtu: config.mtu.0 as u32,
            header: config.header.0 as u32,
            host_link: config.host_link,
            switch_link: config.switch_link,
            switch_latency: config.switch_latency.as_ps(),
            host_wire: Timer::new(config.host_link.rate, wire),
            switch_wire: Timer::new(config.switch_link.rate, wire),
            pcie: Timer::new(config.pcie_rate, [config.mtu.0, 0]),
            pcie_rate: config.pcie_rate,
            intra_node_latency: config.intra_node.latency.as_ps(),
            intra_node_rate: config.intra_node.rate,
        }
    }

    /// Packets of a message; one, with the header alone, for an empty message.
    #[inline]
    pub(crate) fn packets(&self, payload: u64) -> u64 {
        payload.div_ceil(u64::from(self.mtu)).max(1)
    }

    pub(crate) fn link(&self, class: LinkClass) -> LinkConfig {
        match class {
            LinkClass::Host => self.host_link,
            LinkClass::Switch => self.switch_link,
        }
    }

    pub(crate) fn pcie_rate(&self) -> ByteRate {
        self.pcie_rate
    }

    /// Links and switches that a head passes, with `switch_links` links between switches.
    pub(crate) fn path_latency(&self, switch_links: u32) -> u64 {
        let links = u64::from(switch_links);
        2 * self.host_link.latency.as_ps() + links * self.switch_link.latency.as_ps() + (links + 1) * self.switch_latency
    }

    /// A header from a host to another on the same switch.
    pub fn least_latency(&self) -> SimTime {
        SimTime(self.path_latency(0) + self.host_wire.time(self.header))
    }

    /// A header from a rank to another of the same node.
    pub fn intra_node_latency(&self) -> SimTime {
        SimTime(self.intra_node_latency)
    }

    /// The copy between ranks of one node.
    pub(crate) fn intra_node_copy(&self, payload: u64) -> u64 {
        self.intra_node_rate.time_for(Bytes(payload)).as_ps()
    }

    /// The time that the narrowest stage spends on a message.
    pub(crate) fn narrowest(&self, switch_links: u32, payload: u64, source_dma: bool, target_dma: bool) -> u64 {
        let wire = Bytes(payload + self.packets(payload) * u64::from(self.header));
        let mut longest = self.host_link.rate.time_for(wire);
        if switch_links > 0 {
            longest = longest.max(self.switch_link.rate.time_for(wire));
        }
        if source_dma || target_dma {
            longest = longest.max(self.pcie_rate.time_for(Bytes(payload)));
        }
        longest.as_ps()
    }

    /// The message alone between two nodes.
    pub(crate) fn zero_load(&self, switch_links: u32, payload: u64, source_dma: bool, target_dma: bool) -> ZeroLoad {
        // Service times of the stages, and the times from the beginning of one stage to that of the next, for a packet.
        let stages = |bytes: u32| {
            let host = self.host_wire.time(bytes + self.header);
            let trunk = if switch_links > 0 { self.switch_wire.time(bytes + self.header) } else { host };
            let read = if source_dma { self.pcie.time(bytes) } else { 0 };
            let write = if target_dma { self.pcie.time(bytes) } else { 0 };
            let hop = self.switch_link.latency.as_ps() + self.switch_latency;
            let first = self.host_link.latency.as_ps() + self.switch_latency + host.saturating_sub(trunk);
            let across = u64::from(switch_links) * hop + trunk.saturating_sub(host);
            let last = self.host_link.latency.as_ps() + host;
            ([read, host, trunk, host, write], [0, read, first, across, last])
        };
        let packets = self.packets(payload);
        let full = payload.min(u64::from(self.mtu)) as u32;
        let (service, step) = stages(full);
        let mut begins = [0; 5];
        let mut longest = 0;
        for stage in 0..5 {
            // Packet n - 1 (packet 1 when there is but one).
            let way: u64 = step[..=stage].iter().sum();
            longest = longest.max(service[stage]);
            begins[stage] = way + packets.saturating_sub(2) * longest;
        }
        let head = step[..4].iter().sum::<u64>() + self.host_link.latency.as_ps() + self.host_wire.time(self.header);
        let mut last = (begins, service);
        if packets > 1 {
            let rest = (payload - (packets - 1) * u64::from(self.mtu)) as u32;
            let (service_of_rest, step) = stages(rest);
            let mut before = 0;
            for stage in 0..5 {
                before = (before + step[stage]).max(begins[stage] + service[stage]);
                last.0[stage] = before;
            }
            last.1 = service_of_rest;
        }
        ZeroLoad {
            source_done: SimTime(if source_dma { last.0[0] + last.1[0] } else { 0 }),
            head: SimTime(head),
            tail: SimTime(last.0[4] + last.1[4]),
        }
    }

    /// The message alone between ranks of one node.
    pub(crate) fn zero_load_intra_node(&self, payload: u64, source_dma: bool) -> ZeroLoad {
        let copy = self.intra_node_copy(payload);
        ZeroLoad {
            source_done: SimTime(if source_dma { copy } else { 0 }),
            head: SimTime(self.intra_node_latency),
            tail: SimTime(self.intra_node_latency + copy),
        }
    }

    /// Either.
    pub(crate) fn zero_load_of(&self, topology: &Topology, transfer: &crate::Transfer) -> ZeroLoad {
        if transfer.source == transfer.target {
            return self.zero_load_intra_node(transfer.payload.0, transfer.source_dma);
        }
        let switch_links = topology.switch_links_between(transfer.source, transfer.target);
        self.zero_load(switch_links, transfer.payload.0, transfer.source_dma, transfer.target_dma)
    }
}
