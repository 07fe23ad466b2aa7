//! One message alone on the network: the closed form that all three networks keep to.
//!
//! A packet passes a row of stages: it is read over PCIe, sent over the host link, over links between switches, over
//! the target's host link, and written over PCIe. Everywhere it is cut through: the head goes on when the first packet
//! of PCIe was read ([`NetworkConfig::pcie_packet`]), after the switch latency, and when enough for the first packet of
//! PCIe has come; or as soon after it as a faster output will not run dry (or, with store-and-forward in switches, when
//! its tail has come). With `n`
//! equal packets, stage `i` begins with packet `k` at `c_i + (k - 1) M_i`, where `c_i` is the way of the first packet
//! and `M_i` the longest service time up to the stage; the last packet, which may be shorter, is then followed by
//! itself.

use crate::Transfer;
use crate::config::{Forwarding, LinkConfig, NetworkConfig, Turns};
use narrows_topology::{LinkClass, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// When the notices of a transfer come on an empty network, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZeroLoad {
    /// [`SourceDone`](crate::Notice::SourceDone).
    pub source_done: SimTime,
    /// [`HeadArrived`](crate::Notice::HeadArrived).
    pub head: SimTime,
    /// [`TailArrived`](crate::Notice::TailArrived).
    pub tail: SimTime,
}

/// Time at a rate, with the sizes that come again and again looked up.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
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
    pub fn time(&self, bytes: u32) -> u64 {
        if bytes == self.sizes[0].0 {
            self.sizes[0].1
        } else if bytes == self.sizes[1].0 {
            self.sizes[1].1
        } else {
            self.rate.time_for(Bytes(u64::from(bytes))).as_ps()
        }
    }
}

/// A link of a way: its latency, and the times of a full packet and of the last one on it.
#[derive(Clone, Copy)]
struct Stage {
    latency: u64,
    full: u64,
    rest: u64,
}

/// A message alone between two nodes.
#[derive(Clone, Copy)]
pub(crate) struct Alone {
    pub times: ZeroLoad,
    /// The time that the narrowest stage spends on it, in picoseconds.
    pub narrowest: u64,
    /// Links between switches on its way.
    pub links: u32,
}

/// What holds up the reading of the last packet: it begins when the packet [`NetworkConfig::read_window`] before it
/// goes. That one waits for its turn on the link, and for the credit of a packet that has left the first buffer, which
/// may wait in turn for one that has left the second.
struct HeldUp {
    /// The packet whose turn on the next link counts, from 1; 0: none.
    place: u64,
    /// Packets of a buffer.
    buffer: u64,
    /// From that packet's turn to the one that reading waits for.
    back: u64,
    /// When the latter goes.
    sent: u64,
}

impl HeldUp {
    /// The turns on the link that the walk has come to.
    #[inline]
    fn look(&mut self, walk: &Walk) {
        if self.place > 0 {
            self.sent = self.sent.max(walk.first + (self.place - 1) * walk.longest + self.back);
        }
    }

    /// The next link, `back` from a packet's turn there to its credit at the link before.
    #[inline]
    fn pass(&mut self, walk: &Walk, back: u64) {
        self.place = self.place.saturating_sub(self.buffer);
        self.back += back;
        self.look(walk);
    }
}

/// A message on its way through the stages.
struct Walk {
    /// Full packets behind the first one.
    turns: u64,
    only: bool,
    /// The way of the first packet so far, and the longest service.
    first: u64,
    longest: u64,
    /// When the stage began with the last packet; stage by stage.
    last: u64,
}

impl Walk {
    /// The next stage: `step` from the beginning of the one before for a full packet, `step_of_last` for the last one.
    #[inline]
    fn pass(&mut self, service: u64, step: u64, step_of_last: u64) {
        self.first += step;
        self.longest = self.longest.max(service);
        // When packet n - 1 (packet 1 when there is but one) begins.
        let begins = self.first + self.turns * self.longest;
        self.last = if self.only { begins } else { (self.last + step_of_last).max(begins + service) };
    }
}

/// [`crate::Turns`].
#[derive(Clone, Debug)]
struct Turning {
    entry: u64,
    change: u64,
    /// By [`narrows_topology::Link::speed`].
    classes: Vec<LinkClass>,
}

/// The costs of a network's parts.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Payload of a packet at most.
    pub mtu: u32,
    /// What it has on the wire beside its payload.
    pub header: u32,
    /// By [`narrows_topology::Link::speed`].
    links: Vec<LinkConfig>,
    wires: Vec<Timer>,
    /// All links between switches are alike.
    alike: bool,
    pub(crate) switch_latency: u64,
    /// [`NetworkConfig::packet_gap`].
    pub(crate) packet_gap: u64,
    /// Times over PCIe.
    pub pcie: Timer,
    pcie_rate: ByteRate,
    /// [`NetworkConfig::pcie_packet`], its time over PCIe, and behind a header on the wire of a host.
    chunk: u32,
    chunk_over_pcie: u64,
    chunk_on_wire: u64,
    /// [`NetworkConfig::read_window`], and full packets in the buffer of a virtual channel.
    window: u64,
    buffer: u64,
    intra_node_latency: u64,
    intra_node_rate: ByteRate,
    store_and_forward: bool,
    turning: Option<Turning>,
}

impl Costs {
    /// From a configuration that [`NetworkConfig::check`] has passed.
    pub fn new(config: &NetworkConfig, topology: &Topology) -> Self {
        let wire = [config.packet().0, config.header.0];
        let links = config.links(topology);
        let chunk = config.pcie_packet.min(config.mtu);
        let turns = config.turns;
        let classes = || topology.speeds().iter().map(|speed| speed.class).collect();
        let turning = || Turning { entry: turns.entry.as_ps(), change: turns.change.as_ps(), classes: classes() };
        let turning = (turns != Turns::default()).then(turning);
        Costs {
            chunk: chunk.0 as u32,
            chunk_over_pcie: config.pcie_rate.time_for(chunk).as_ps(),
            window: u64::from(config.read_window),
            buffer: (config.buffer_per_channel.0 / config.packet().0).max(1),
            chunk_on_wire: config.host_link.rate.time_for(Bytes(chunk.0 + config.header.0)).as_ps(),
            mtu: config.mtu.0 as u32,
            header: config.header.0 as u32,
            wires: links.iter().map(|link| Timer::new(link.rate, wire)).collect(),
            alike: turning.is_none() && links[1..].iter().all(|&link| link == config.switch_link),
            turning,
            links,
            switch_latency: config.switch_latency.as_ps(),
            packet_gap: config.packet_gap.as_ps(),
            pcie: Timer::new(config.pcie_rate, [config.mtu.0, 0]),
            pcie_rate: config.pcie_rate,
            intra_node_latency: config.intra_node.latency.as_ps(),
            intra_node_rate: config.intra_node.rate,
            store_and_forward: config.forwarding == Forwarding::StoreAndForward,
        }
    }

    /// Packets of a message; one, with the header alone, for an empty message.
    #[inline]
    pub fn packets(&self, payload: u64) -> u64 {
        payload.div_ceil(u64::from(self.mtu)).max(1)
    }

    /// A packet may have to wait at a switch for more than the output: links have different rates, or turns take time.
    pub(crate) fn uneven(&self) -> bool {
        self.turning.is_some() || self.links.iter().any(|link| link.rate != self.links[0].rate)
    }

    /// What a packet waits for between two links, by their speeds; and whether it has changed between links between
    /// switches before.
    #[inline]
    pub(crate) fn turn(&self, from: u16, to: u16, changed: bool) -> (u64, bool) {
        let Some(Turning { entry, change, classes }) = &self.turning else { return (0, changed) };
        match (classes[usize::from(from)], classes[usize::from(to)]) {
            (LinkClass::Switch, LinkClass::Global) => (entry + if changed { 0 } else { *change }, true),
            (LinkClass::Host, LinkClass::Global) => (*entry, changed),
            (LinkClass::Global, LinkClass::Switch) => (if changed { 0 } else { *change }, true),
            _ => (0, changed),
        }
    }

    /// Of links with this [`narrows_topology::Link::speed`].
    #[inline]
    pub(crate) fn link(&self, speed: u16) -> LinkConfig {
        self.links[usize::from(speed)]
    }

    /// Times on their wires.
    #[inline]
    pub(crate) fn wire(&self, speed: u16) -> &Timer {
        &self.wires[usize::from(speed)]
    }

    /// Bytes per second that full packets of a NIC take on its link.
    pub(crate) fn injection_rate(&self) -> u64 {
        let rate = self.link(LinkClass::Host.speed()).rate.0;
        let packet = u128::from(self.mtu + self.header) * 1_000_000_000_000;
        match packet.checked_div(u128::from(self.packet_gap)) {
            Some(packets) => rate.min(u64::try_from(packets).unwrap_or(u64::MAX).max(1)),
            None => rate,
        }
    }

    /// Times on the wire of a host.
    #[inline]
    pub fn host_wire(&self) -> &Timer {
        self.wire(LinkClass::Host.speed())
    }

    pub(crate) fn pcie_rate(&self) -> ByteRate {
        self.pcie_rate
    }

    /// From the beginning of reading `payload` bytes of a packet to its beginning on the host link, which must not run
    /// dry.
    #[inline(always)]
    pub fn read_ahead(&self, payload: u32) -> u64 {
        let all = self.pcie.time(payload);
        if payload <= self.chunk {
            return all;
        }
        self.chunk_over_pcie.max(all.saturating_sub(self.host_wire().time(payload + self.header)))
    }

    /// From the head of a packet with `payload` bytes at its target to the beginning of writing it: the last of it must
    /// have come when it is written.
    #[inline]
    pub fn write_behind(&self, payload: u32) -> u64 {
        let wire = self.host_wire().time(payload + self.header);
        if payload <= self.chunk {
            return wire;
        }
        self.chunk_on_wire.max((wire + self.chunk_over_pcie).saturating_sub(self.pcie.time(payload)))
    }

    /// A header from a host to another on the same switch.
    pub fn least_latency(&self) -> SimTime {
        let header = self.host_wire().time(self.header);
        let latency = 2 * self.link(LinkClass::Host.speed()).latency.as_ps() + self.switch_latency;
        SimTime(latency + header + if self.store_and_forward { header } else { 0 })
    }

    /// A header from a rank to another of the same node.
    pub fn intra_node_latency(&self) -> SimTime {
        SimTime(self.intra_node_latency)
    }

    /// The copy between ranks of one node.
    pub fn intra_node_copy(&self, payload: u64) -> u64 {
        self.intra_node_rate.time_for(Bytes(payload)).as_ps()
    }

    /// All that [`Costs::alone`] looks at, in a word, where that is the number of links alone.
    pub(crate) fn class_of(&self, topology: &Topology, transfer: &Transfer) -> Option<u64> {
        let Transfer { source, target, payload: Bytes(payload), source_dma, target_dma, .. } = *transfer;
        let links = if self.alike { topology.switch_links_between(source, target) } else { return None };
        let word = payload << 16 | u64::from(links) << 2 | u64::from(source_dma) << 1 | u64::from(target_dma);
        (payload < 1 << 48 && links < 1 << 14).then_some(word)
    }

    /// The message alone between two nodes.
    pub(crate) fn alone(&self, topology: &Topology, transfer: &Transfer) -> Alone {
        let Transfer { source, target, payload: Bytes(payload), source_dma, target_dma, .. } = *transfer;
        let packets = self.packets(payload);
        let full = payload.min(u64::from(self.mtu)) as u32;
        let rest = (payload - (packets - 1) * u64::from(self.mtu)) as u32;
        let stage = |speed: u16| {
            let wire = self.wire(speed);
            Stage { latency: self.link(speed).latency.as_ps(), full: wire.time(full + self.header), rest: wire.time(rest + self.header) }
        };
        let pcie = |used: bool| if used { (self.pcie.time(full), self.pcie.time(rest)) } else { (0, 0) };
        let (read, write) = (pcie(source_dma), pcie(target_dma));
        let ahead = |payload: u32| if source_dma { self.read_ahead(payload) } else { 0 };
        let host = stage(LinkClass::Host.speed());
        let mut slowest = self.link(LinkClass::Host.speed()).rate;

        let (only, turns) = (packets == 1, packets.saturating_sub(2));
        let mut walk = Walk { turns, only, first: 0, longest: read.0, last: if only { 0 } else { turns * read.0 + read.0 } };
        let read_alone = walk.last + read.1;
        walk.pass(host.full.max(self.packet_gap), ahead(full), ahead(rest));
        let mut held = HeldUp { place: packets.saturating_sub(self.window), buffer: self.buffer, back: 0, sent: 0 };
        held.look(&walk);
        // A head goes on at once, when the next link is faster only so late that it does not run dry, or when its tail
        // is there.
        let wait = |before: u64, after: u64| if self.store_and_forward { before } else { before.saturating_sub(after) };
        let (mut before, mut speed_before, mut changed) = (host, LinkClass::Host.speed(), false);
        let mut go_on = |speed: u16, after: Stage| {
            let head = before.latency + self.switch_latency;
            let turn;
            (turn, changed) = self.turn(speed_before, speed, changed);
            let step = |before: u64, after: u64| head + wait(before, after).max(turn);
            walk.pass(after.full, step(before.full, after.full), step(before.rest, after.rest));
            held.pass(&walk, before.latency + after.full);
            (before, speed_before) = (after, speed);
        };
        let mut links = 0;
        if self.alike {
            links = topology.switch_links_between(source, target);
            if links > 0 {
                let between = stage(LinkClass::Switch.speed());
                slowest = slowest.min(self.link(LinkClass::Switch.speed()).rate);
                (0..links).for_each(|_| go_on(LinkClass::Switch.speed(), between));
            }
        } else {
            let mut last = (LinkClass::Host.speed(), host);
            topology.links_between(source, target, |speed| {
                if speed != last.0 {
                    last = (speed, stage(speed));
                    slowest = slowest.min(self.link(speed).rate);
                }
                links += 1;
                go_on(last.0, last.1);
            });
        }
        go_on(LinkClass::Host.speed(), host);
        let head = walk.first + host.latency + self.host_wire().time(self.header);
        let behind = |payload: u32, wire: u64| if target_dma && payload > 0 { self.write_behind(payload) } else { wire };
        walk.pass(write.0, host.latency + behind(full, host.full), host.latency + behind(rest, host.rest));
        let source_done = if source_dma { read_alone.max(held.sent + read.1) } else { 0 };
        let times = ZeroLoad { source_done: SimTime(source_done), head: SimTime(head), tail: SimTime(walk.last + write.1) };

        let mut narrowest = slowest.time_for(Bytes(payload + packets * u64::from(self.header)));
        if source_dma || target_dma {
            narrowest = narrowest.max(self.pcie_rate.time_for(Bytes(payload)));
        }
        let narrowest = narrowest.as_ps().max(packets.saturating_mul(self.packet_gap));
        Alone { times, narrowest, links }
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
    pub(crate) fn zero_load(&self, topology: &Topology, transfer: &Transfer) -> ZeroLoad {
        if transfer.source == transfer.target {
            return self.zero_load_intra_node(transfer.payload.0, transfer.source_dma);
        }
        self.alone(topology, transfer).times
    }
}
