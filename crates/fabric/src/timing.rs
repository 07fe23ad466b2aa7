//! One message alone on the network: the closed form that all three networks keep to.
//!
//! A packet passes a row of stages: it is read over PCIe, sent over the host link, over links between switches, over the
//! target's host link, and written over PCIe. It is read whole before it is sent, and has arrived whole before it is written; between
//! links it is cut through: the head goes on after the switch latency, or as soon after it as a faster output will not run dry (or, with
//! store-and-forward, when its tail has come). With `n`
//! equal packets, stage `i` begins with packet `k` at `c_i + (k - 1) M_i`, where `c_i` is the way of the first packet and `M_i` the
//! longest service time up to the stage; the last packet, which may be shorter, is then followed by itself.

use crate::config::{Forwarding, LinkConfig, NetworkConfig};
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
    /// 512 bit times.
    quantum: u64,
}

impl Timer {
    fn new(rate: ByteRate, sizes: [u64; 2]) -> Self {
        let sizes = sizes.map(|size| (size as u32, rate.time_for(Bytes(size)).as_ps()));
        Timer { rate, sizes, quantum: rate.time_for(Bytes(64)).as_ps() }
    }

    /// Picoseconds for so many quanta of a pause frame.
    pub(crate) fn quanta(&self, quanta: u32) -> u64 {
        u64::from(quanta) * self.quantum
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

/// The links between switches on a way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// How many.
    pub links: u32,
    /// Bit `i`: link `i` is of [`LinkClass::Global`]; none when that makes no difference.
    globals: u64,
}

impl Way {
    fn is_global(self, index: u32) -> bool {
        self.globals >> index.min(63) & 1 != 0
    }
}

/// Service times of the stages for a packet.
#[derive(Clone, Copy)]
struct Services {
    read: u64,
    host: u64,
    switch: u64,
    global: u64,
    write: u64,
}

impl Services {
    fn new(costs: &Costs, payload: u32, source_dma: bool, target_dma: bool) -> Services {
        let wire = payload + costs.header;
        let pcie = costs.pcie.time(payload);
        Services {
            read: if source_dma { pcie } else { 0 },
            host: costs.host_wire.time(wire),
            switch: costs.switch_wire.time(wire),
            global: costs.global_wire.time(wire),
            write: if target_dma { pcie } else { 0 },
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
    global_link: LinkConfig,
    pub(crate) switch_latency: u64,
    host_wire: Timer,
    switch_wire: Timer,
    global_wire: Timer,
    pub(crate) pcie: Timer,
    pcie_rate: ByteRate,
    intra_node_latency: u64,
    intra_node_rate: ByteRate,
    store_and_forward: bool,
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
            global_link: config.global_link,
            switch_latency: config.switch_latency.as_ps(),
            host_wire: Timer::new(config.host_link.rate, wire),
            switch_wire: Timer::new(config.switch_link.rate, wire),
            global_wire: Timer::new(config.global_link.rate, wire),
            pcie: Timer::new(config.pcie_rate, [config.mtu.0, 0]),
            pcie_rate: config.pcie_rate,
            intra_node_latency: config.intra_node.latency.as_ps(),
            intra_node_rate: config.intra_node.rate,
            store_and_forward: config.forwarding == Forwarding::StoreAndForward,
        }
    }

    /// Packets of a message; one, with the header alone, for an empty message.
    #[inline]
    pub(crate) fn packets(&self, payload: u64) -> u64 {
        payload.div_ceil(u64::from(self.mtu)).max(1)
    }

    /// Links have different rates.
    pub(crate) fn mixed_rates(&self) -> bool {
        self.host_link.rate != self.switch_link.rate || self.host_link.rate != self.global_link.rate
    }

    pub(crate) fn link(&self, class: LinkClass) -> LinkConfig {
        match class {
            LinkClass::Host => self.host_link,
            LinkClass::Switch => self.switch_link,
            LinkClass::Global => self.global_link,
        }
    }

    /// Times on the wire of a class of links.
    #[inline]
    pub(crate) fn wire(&self, class: LinkClass) -> &Timer {
        match class {
            LinkClass::Host => &self.host_wire,
            LinkClass::Switch => &self.switch_wire,
            LinkClass::Global => &self.global_wire,
        }
    }

    /// The minimal way between two hosts.
    pub(crate) fn way(&self, topology: &Topology, source: u32, target: u32) -> Way {
        if self.global_link == self.switch_link {
            return Way { links: topology.switch_links_between(source, target), globals: 0 };
        }
        let mut way = Way { links: 0, globals: 0 };
        topology.links_between(source, target, |class| {
            // Beyond 64 links, in no machine that was built, the last kind goes on.
            way.globals |= u64::from(class == LinkClass::Global) << way.links.min(63);
            way.links += 1;
        });
        way
    }

    pub(crate) fn pcie_rate(&self) -> ByteRate {
        self.pcie_rate
    }

    /// A header from a host to another on the same switch.
    pub fn least_latency(&self) -> SimTime {
        let header = self.host_wire.time(self.header);
        let latency = 2 * self.host_link.latency.as_ps() + self.switch_latency;
        SimTime(latency + header + if self.store_and_forward { header } else { 0 })
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
    pub(crate) fn narrowest(&self, way: Way, payload: u64, source_dma: bool, target_dma: bool) -> u64 {
        let wire = Bytes(payload + self.packets(payload) * u64::from(self.header));
        let mut longest = self.host_link.rate.time_for(wire);
        if way.links > way.globals.count_ones() {
            longest = longest.max(self.switch_link.rate.time_for(wire));
        }
        if way.globals != 0 {
            longest = longest.max(self.global_link.rate.time_for(wire));
        }
        if source_dma || target_dma {
            longest = longest.max(self.pcie_rate.time_for(Bytes(payload)));
        }
        longest.as_ps()
    }

    /// The message alone between two nodes.
    pub(crate) fn zero_load(&self, way: Way, payload: u64, source_dma: bool, target_dma: bool) -> ZeroLoad {
        let packets = self.packets(payload);
        let full = Services::new(self, payload.min(u64::from(self.mtu)) as u32, source_dma, target_dma);
        let rest = match packets {
            1 => full,
            _ => Services::new(self, (payload - (packets - 1) * u64::from(self.mtu)) as u32, source_dma, target_dma),
        };
        let host_latency = self.host_link.latency.as_ps();
        let turns = packets.saturating_sub(2);
        // The way of the first packet so far, the longest service so far, and when the stage before began with the last packet. Stage by stage,
        // begins is when packet n - 1 (packet 1 when there is but one) begins.
        let (mut first, mut longest) = (0, full.read);
        let mut begins = turns * longest;
        let mut last = if packets == 1 { 0 } else { begins + full.read };
        let source_done = if source_dma { last + rest.read } else { 0 };
        let mut pass = |service: u64, step: u64, step_of_last: u64| {
            first += step;
            longest = longest.max(service);
            begins = first + turns * longest;
            last = if packets == 1 { begins } else { (last + step_of_last).max(begins + service) };
        };
        pass(full.host, full.read, rest.read);
        // A head goes on at once, when the next link is faster only so late that it does not run dry, or when its tail is there.
        let wait = |before: u64, after: u64| if self.store_and_forward { before } else { before.saturating_sub(after) };
        let mut before = (host_latency, full.host, rest.host);
        for index in 0..way.links {
            let (latency, service, of_last) = if way.is_global(index) {
                (self.global_link.latency.as_ps(), full.global, rest.global)
            } else {
                (self.switch_link.latency.as_ps(), full.switch, rest.switch)
            };
            let head = before.0 + self.switch_latency;
            pass(service, head + wait(before.1, service), head + wait(before.2, of_last));
            before = (latency, service, of_last);
        }
        let head = before.0 + self.switch_latency;
        pass(full.host, head + wait(before.1, full.host), head + wait(before.2, rest.host));
        pass(full.write, host_latency + full.host, host_latency + rest.host);
        let head = first - full.host + self.host_wire.time(self.header);
        ZeroLoad { source_done: SimTime(source_done), head: SimTime(head), tail: SimTime(last + rest.write) }
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
        let way = self.way(topology, transfer.source, transfer.target);
        self.zero_load(way, transfer.payload.0, transfer.source_dma, transfer.target_dma)
    }
}
