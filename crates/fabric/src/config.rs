//! What a machine file says about the network.

mod check;

use crate::faults::Fault;
use crate::{Congestion, Ecn};
pub use check::ConfigError;
pub(crate) use check::Routings;
use narrows_keys::{OrWord, Quantity, choice, keys};
use narrows_topology::{LinkClass, RoutingKind, Topology};
pub use narrows_units::Fraction;
use narrows_units::{ByteRate, Bytes, SimTime};
use std::collections::BTreeMap;

choice! {
    /// Which network. All three take the same configuration.
    #[derive(Hash, Default)]
    pub enum NetworkKind {
        /// Packets, buffers, credits.
        #[default]
        Packet = "packet",
        /// Max-min fair sharing.
        Flow = "flow",
        /// Latency and gaps, no contention inside.
        LogGp = "loggp",
    }
}

/// A kind of link, each direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// Bytes per second on the wire, headers included.
    pub rate: ByteRate,
    /// From the first bit in at one end to the first bit out at the other.
    pub latency: SimTime,
}

/// What a packet waits for at a switch between links of different classes, beside [`NetworkConfig::switch_latency`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turns {
    /// From a link of another class to a global one.
    pub entry: SimTime,
    /// From a global link to another link between switches, or the other way: the first time.
    pub change: SimTime,
}

/// The path between ranks of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntraNodeConfig {
    /// From the start to the header at the receiver.
    pub latency: SimTime,
    /// Of the copy; one server per node, first come, first served.
    pub rate: ByteRate,
}

/// The routes within nodes that have several processors. A bus is like [`IntraNodeConfig`], in one direction; the
/// memory of a processor is one too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeRoutes {
    /// Those of a node: each node has all of them.
    pub buses: Vec<IntraNodeConfig>,
    /// What a message passes, by [`crate::Transfer::route`], from 1 on; 0 is [`NetworkConfig::intra_node`].
    pub routes: Vec<Vec<u16>>,
}

/// How an output chooses among what waits for it. Virtual networks are the traffic classes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Arbitration {
    /// The virtual channels in turn, and within each the input ports in turn, a packet each.
    #[default]
    RoundRobin,
    /// The packet that left its NIC first.
    Age,
    /// Each virtual network in turn sends as many packets as its weight says. Those that the list does not reach have
    /// weight 1.
    WeightedPackets(Vec<u16>),
    /// As many full packets' worth of bytes (deficit round robin).
    WeightedBytes(Vec<u16>),
    /// All outputs and inputs of a switch together, by iSLIP in so many iterations, 1 to 16; an input sends one packet
    /// at a time, at [`NetworkConfig::speedup`] times its rate (0 as 1).
    Islip(u32),
    /// The same by wavefronts.
    Wavefront,
}

choice! {
    /// When a switch begins to send a packet on.
    #[derive(Hash, Default)]
    pub enum Forwarding {
        /// As soon as its header is there.
        #[default]
        CutThrough = "cut-through",
        /// When all of it is there.
        StoreAndForward = "store-and-forward",
    }
}

choice! {
    /// What waits behind what in an input buffer.
    #[derive(Hash, Default)]
    pub enum Queueing {
        /// Packets for different outputs do not wait for each other.
        #[default]
        VirtualOutput = "voq",
        /// First in, first out, per virtual channel.
        Fifo = "fifo",
    }
}

/// What keeps buffers from running over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowControl {
    /// The sender knows the free bytes.
    #[default]
    Credits,
    /// The receiver stops the sender.
    Pause(PauseConfig),
}

keys! {
    /// Priority flow control (IEEE 802.1Qbb).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct PauseConfig {
        /// A virtual channel that holds this much is paused; `0 B`: `network.buffer` less the headroom that nothing is
        /// lost with.
        pub xoff: Bytes = "0 B";
        /// A paused virtual channel goes on when it holds this much; `0 B`: two packets below `xoff`.
        pub xon: Bytes = "0 B";
        /// What a pause frame is worth, in 512 bit times of the link; repeated at half of it.
        pub quanta: u32 = 65535, in 1..=65535;
        /// A pause frame on the wire, with preamble and gap.
        pub frame: Bytes = "84 B", in Bytes(1)..;
        /// From the arrival of a pause frame to its effect.
        pub response: SimTime = "0 ns";
        /// The NIC sends a lost packet again after this time.
        pub resend_after: SimTime = "50 us", in SimTime(1)..;
    }
}

impl Default for PauseConfig {
    /// Fact sheet 4.1: the longest pause, a frame of 64 B and 20 B of preamble and gap. The time until a resend is our
    /// choice, about ten round trips.
    fn default() -> Self {
        narrows_keys::Keys::defaults()
    }
}

/// Ports that number what they send, acknowledge what they get, and send again what was lost. See `narrows_port`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reliability {
    /// Packets of a flow without an acknowledgement at most, 1 to 2^15.
    pub window: u32,
    /// Packets that a port holds of all its flows in a virtual network at most, until they are acknowledged; 0: as many
    /// as there are.
    pub room: u32,
    /// Without an acknowledgement for this time, all of them are sent again.
    pub timeout: SimTime,
    /// So many times in a row; then the flow is given up.
    pub retries: u32,
    /// An acknowledgement on the wire.
    pub ack: Bytes,
    /// What a receiver takes, but for these:
    pub delivery: Delivery,
    /// virtual networks, a bit each, whose flows are unordered in any case.
    pub unordered: u16,
    /// Flows of a port in a virtual network that may wait for acknowledgements at a time; 0: as many as there are.
    pub flows: u32,
    /// How a receiver finds out that a packet is broken.
    pub checks: Checks,
    /// How fast a flow sends.
    pub congestion: Congestion,
}

impl Reliability {
    /// Of the flows in a virtual network.
    #[inline]
    pub fn delivery_in(&self, virtual_network: u8) -> Delivery {
        if self.unordered >> virtual_network & 1 == 1 { Delivery::Unordered } else { self.delivery }
    }
}

/// The check sums of a packet, in bits. One of n bits misses an error in what it covers with a probability of 2^-n; one
/// of none is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Of the frame (FCS), made anew by whoever sends it on a link: what happens on a link.
    pub fcs: u32,
    /// Of the payload (CRC), made by the sending NIC: what happens to the payload anywhere.
    pub crc: u32,
}

impl Default for Checks {
    /// Both.
    fn default() -> Checks {
        Checks { fcs: 32, crc: 32 }
    }
}

/// What the receiving port of a flow takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The packet that comes next, and no other: go-back-N.
    Ordered,
    /// Every packet once: selective repeat.
    Unordered,
}

/// A parameter of LogGP: fixed, or from the links, switches and PCIe of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Derived<T> {
    /// What the other networks have on an empty path.
    #[default]
    FromPath,
    /// The same for every path.
    Fixed(T),
}

impl<T: Quantity> OrWord for Derived<T> {
    type Quantity = T;
    const WORD: &'static str = "path";
    fn of(quantity: Option<T>) -> Self {
        quantity.map_or(Derived::FromPath, Derived::Fixed)
    }
    fn quantity(&self) -> Option<T> {
        if let Derived::Fixed(value) = self { Some(*value) } else { None }
    }
}

keys! {
    /// LogGP (Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995), without `o`, which belongs to the NIC and the
    /// software.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct LogGpConfig {
        /// L: a time for all pairs, or the sum over the path.
        pub latency: Derived<SimTime> = "path";
        /// g: least time between two messages of a NIC.
        pub gap: SimTime;
        /// 1/G: a bandwidth for all pairs, or the narrowest stage of the path.
        pub rate: Derived<ByteRate> = "path", at "bandwidth";
    }
}

keys! {
    /// The flow network's own parameter.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FlowConfig {
        /// Messages up to here, and up to one packet in any case, share no links.
        pub direct_up_to: Bytes = "0 B", at "direct_limit";
    }
}

impl Default for FlowConfig {
    /// 8 KiB, our choice: where the packet network, with packets of 2 KiB on one switch, begins to cost more than
    /// solving.
    fn default() -> Self {
        FlowConfig { direct_up_to: Bytes(8192) }
    }
}

/// The network of a machine.
///
/// [`NetworkConfig::default`] is a BXI-v2-like one (fact sheet 4.3) for tests and examples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkConfig {
    /// Which of the three.
    pub kind: NetworkKind,
    /// Links between hosts and switches.
    pub host_link: LinkConfig,
    /// Links between switches; where there are groups, within one.
    pub switch_link: LinkConfig,
    /// Links between switches of different groups.
    pub global_link: LinkConfig,
    /// From the head of a packet at the input of a switch to the head at an idle output.
    pub switch_latency: SimTime,
    /// Where packets change between classes of links.
    pub turns: Turns,
    /// Of a node's PCIe towards the NIC and towards memory, each.
    pub pcie_rate: ByteRate,
    /// A packet goes on to the link when so much of it was read over PCIe, and into memory when so much of it has come.
    pub pcie_packet: Bytes,
    /// Largest payload of a packet.
    pub mtu: Bytes,
    /// Bytes of a packet on the wire beside its payload.
    pub header: Bytes,
    /// Virtual networks, 1 to 16. Portals on BXI has 4.
    pub virtual_networks: u8,
    /// Virtual channels of each virtual network; the routing says how many it needs.
    pub virtual_channels: u8,
    /// Input buffer of each virtual channel at every switch port and NIC, in wire bytes.
    pub buffer_per_channel: Bytes,
    /// At least from the start of a packet on the link of its NIC to the start of the next one, whatever they are: the
    /// packet rate of NICs. Zero: the link is all that bounds it.
    pub packet_gap: SimTime,
    /// Packets of a virtual network that a NIC has read, or is reading, ahead of the host link. With 1 reading and
    /// sending take turns.
    pub read_window: u32,
    /// Of the messages that a NIC reads out of memory, one leaves behind the other; else they take turns, packet by
    /// packet.
    pub in_order: bool,
    /// The way through the topology.
    pub routing: RoutingKind,
    /// UGAL: how many more bytes may wait on the minimal way, for each of its links, before a packet goes another way.
    pub ugal_threshold: Bytes,
    /// The choice at an output.
    pub arbitration: Arbitration,
    /// Virtual networks that come before all others, a bit each.
    pub strict_priority: u16,
    /// When a switch sends on.
    pub forwarding: Forwarding,
    /// The order within an input buffer.
    pub queueing: Queueing,
    /// How many times the rate of its link an input with virtual output queues is read by all outputs together; 0: as
    /// fast as they ask. FIFO inputs feed one output at a time.
    pub speedup: u32,
    /// Credits or pauses.
    pub flow_control: FlowControl,
    /// Between ranks of one node.
    pub intra_node: IntraNodeConfig,
    /// Between ranks on several processors of one node.
    pub node_routes: NodeRoutes,
    /// For [`NetworkKind::LogGp`].
    pub loggp: LogGpConfig,
    /// For [`NetworkKind::Flow`].
    pub flow: FlowConfig,
    /// Switches mark packets.
    pub ecn: Option<Ecn>,
    /// By virtual network: congestion controls other than [`Reliability::congestion`].
    pub congestion_of: BTreeMap<u8, Congestion>,
    /// Switches write into packets what they know of their links (in-band telemetry); `header` and the ACKs have room.
    pub telemetry: bool,
    /// Ports see to it that nothing is lost.
    pub reliability: Option<Reliability>,
    /// Links that lose packets or break them.
    pub faults: Vec<Fault>,
    /// For routing and faults that draw.
    pub seed: u64,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        // Fact sheet 4.3: 11.1 GB/s effective, 200 ns node to switch, PCIe Gen3 x16 at 15.75 GB/s, four virtual
        // networks.
        let link = LinkConfig { rate: ByteRate(11_100_000_000), latency: SimTime::from_ns(200) };
        NetworkConfig {
            kind: NetworkKind::Packet,
            host_link: link,
            switch_link: link,
            global_link: link,
            // Our choice: public sources fold the switch into the links.
            switch_latency: SimTime::from_ns(100),
            turns: Turns::default(),
            pcie_rate: ByteRate(15_750_000_000),
            pcie_packet: Bytes(512),
            // Our choices, not published: a packet of 2 KiB, a header of 32 B.
            mtu: Bytes(2048),
            header: Bytes(32),
            virtual_networks: 4,
            virtual_channels: 1,
            // Our choice: above the round trip of a credit, see NetworkConfig::buffer_for_full_rate.
            buffer_per_channel: Bytes(16 * 1024),
            packet_gap: SimTime::ZERO,
            read_window: 4,
            in_order: false,
            routing: RoutingKind::Minimal,
            ugal_threshold: Bytes(0),
            arbitration: Arbitration::RoundRobin,
            strict_priority: 0,
            forwarding: Forwarding::CutThrough,
            queueing: Queueing::VirtualOutput,
            speedup: 0,
            flow_control: FlowControl::Credits,
            // Our choice: a copy through shared memory on a current server.
            intra_node: IntraNodeConfig { latency: SimTime::from_ns(300), rate: ByteRate(10_000_000_000) },
            node_routes: NodeRoutes::default(),
            loggp: LogGpConfig::default(),
            flow: FlowConfig::default(),
            ecn: None,
            congestion_of: BTreeMap::new(),
            telemetry: false,
            reliability: None,
            faults: Vec::new(),
            seed: 0,
        }
    }
}

impl NetworkConfig {
    /// Virtual networks, that of control packets among them: the last one, where there is one.
    pub fn all_virtual_networks(&self) -> u8 {
        self.virtual_networks.saturating_add(u8::from(self.has_control_packets()))
    }

    /// See [`Congestion::has_control_packets`].
    pub fn has_control_packets(&self) -> bool {
        self.kind == NetworkKind::Packet && self.congestions().any(|congestion| congestion.has_control_packets())
    }

    /// The congestion control of the flows of a virtual network.
    pub fn congestion(&self, virtual_network: u8) -> Congestion {
        let Some(Reliability { congestion, .. }) = self.reliability else { return Congestion::None };
        self.congestion_of.get(&virtual_network).copied().unwrap_or(congestion)
    }

    /// Those of all virtual networks.
    pub fn congestions(&self) -> impl Iterator<Item = Congestion> {
        (0..self.virtual_networks).map(|virtual_network| self.congestion(virtual_network))
    }

    /// Wire bytes of a full packet.
    pub fn packet(&self) -> Bytes {
        Bytes(self.mtu.0.saturating_add(self.header.0))
    }

    /// Wire bytes of the smallest packet that there can be: a header, an acknowledgement or a control packet.
    pub(crate) fn least_packet(&self) -> Bytes {
        let control = self.congestions().filter_map(|congestion| congestion.control_packet());
        control.chain(self.reliability.map(|reliability| reliability.ack)).fold(self.header, Bytes::min)
    }

    /// The links of a topology, by [`narrows_topology::Link::speed`].
    pub fn links(&self, topology: &Topology) -> Vec<LinkConfig> {
        let own = topology.speeds().iter().map(|speed| {
            let class = match speed.class {
                LinkClass::Host => self.host_link,
                LinkClass::Switch => self.switch_link,
                LinkClass::Global => self.global_link,
            };
            LinkConfig { rate: speed.rate.unwrap_or(class.rate), latency: speed.latency.unwrap_or(class.latency) }
        });
        own.collect()
    }

    /// The least `buffer_per_channel` with which one stream of full packets keeps a link busy: what is sent until the
    /// credit of a packet is back (its own time, the latency there and back, the switch), rounded up to whole packets.
    pub fn buffer_for_full_rate(&self, topology: &Topology) -> Bytes {
        let packet = self.packet();
        let least = |link: LinkConfig| {
            let turn = link.rate.time_for(packet) + link.latency * 2 + self.switch_latency;
            let packets = turn.as_ps().div_ceil(link.rate.time_for(packet).as_ps().max(1));
            Bytes(packets.saturating_mul(packet.0))
        };
        self.links(topology).into_iter().map(least).max().unwrap_or(packet)
    }

    /// What still arrives at a buffer after it has asked for a pause, at most: what is on the link while the frame is
    /// on its way, what enters the switch's pipeline, a packet in front of the frame, the frame, the sender's response,
    /// and the packet that it has begun (fact sheet 4.1).
    pub fn headroom(&self, pause: &PauseConfig, topology: &Topology) -> Bytes {
        let of = |link: LinkConfig| {
            let frame = link.rate.time_for(pause.frame) + link.rate.time_for(self.packet());
            let time = link.latency * 2 + self.switch_latency + frame + pause.response;
            // Rounded up to bytes, and the packet that was begun.
            let bytes = (u128::from(time.as_ps()) * u128::from(link.rate.0)).div_ceil(1_000_000_000_000);
            Bytes(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(self.packet().0))
        };
        self.links(topology).into_iter().map(of).max().unwrap_or_default()
    }

    /// `xoff` and `xon`.
    pub fn pause_thresholds(&self, pause: &PauseConfig, topology: &Topology) -> (Bytes, Bytes) {
        let xoff = match pause.xoff {
            Bytes(1..) => pause.xoff,
            Bytes(0) => Bytes(self.buffer_per_channel.0.saturating_sub(self.headroom(pause, topology).0)),
        };
        let xon = match pause.xon {
            Bytes(1..) => pause.xon,
            Bytes(0) => Bytes(xoff.0.saturating_sub(2 * self.packet().0).max(1)),
        };
        (xoff, xon)
    }

    /// The share of its rate that credits let a link carry, 1 at most, where packets take one virtual channel. The
    /// buffer at its end holds some packets; the credit of each is back after the packet, twice the latency and that of
    /// the switch. `None`: it has no credits.
    pub fn credit_share(&self, link: &LinkConfig) -> Option<f64> {
        let packet = self.mtu.0.saturating_add(self.header.0);
        if self.kind != NetworkKind::Packet || self.flow_control != FlowControl::Credits {
            return None;
        }
        let time = |time: SimTime| time.as_ps() as f64;
        let packets = (self.buffer_per_channel.0 / packet.max(1)).max(1) as f64;
        let packet = packet as f64 * 1e12 / link.rate.0.max(1) as f64;
        Some((packets * packet / (packet + 2.0 * time(link.latency) + time(self.switch_latency))).min(1.0))
    }

    /// Bytes of headroom that are missing above `xoff`, without which packets can be lost; none with credits.
    pub fn missing_headroom(&self, topology: &Topology) -> Option<Bytes> {
        let FlowControl::Pause(pause) = &self.flow_control else { return None };
        let wanted = self.pause_thresholds(pause, topology).0.0.saturating_add(self.headroom(pause, topology).0);
        let missing = wanted.saturating_sub(self.buffer_per_channel.0);
        (missing > 0).then_some(Bytes(missing))
    }
}
