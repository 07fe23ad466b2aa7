//! What a machine file says about the network, and what makes no sense in it.

use crate::faults::Fault;
use crate::telemetry::MOST_LINKS;
use narrows_topology::Deadlock;
use narrows_topology::{FailureError, LinkClass, Route, Routing, RoutingError, RoutingKind, RoutingOptions, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// Which network. All three take the same configuration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum NetworkKind {
    /// Packets, buffers, credits.
    #[default]
    Packet,
    /// Max-min fair sharing.
    Flow,
    /// Latency and gaps, no contention inside.
    LogGp,
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

/// When a switch begins to send a packet on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Forwarding {
    /// As soon as its header is there.
    #[default]
    CutThrough,
    /// When all of it is there.
    StoreAndForward,
}

/// What waits behind what in an input buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Queueing {
    /// Packets for different outputs do not wait for each other.
    #[default]
    VirtualOutput,
    /// First in, first out, per virtual channel.
    Fifo,
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

/// Priority flow control (IEEE 802.1Qbb).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseConfig {
    /// A lane that holds this much is paused. [`Derived::FromPath`]: the buffer less the headroom that nothing is lost
    /// with.
    pub xoff: Derived<Bytes>,
    /// A paused lane that holds no more than this may go on. [`Derived::FromPath`]: two packets below `xoff`.
    pub xon: Derived<Bytes>,
    /// What a pause frame is worth, in 512 bit times of the link.
    pub quanta: u32,
    /// A pause frame on the wire.
    pub frame: Bytes,
    /// From the arrival of a pause frame to its effect.
    pub response: SimTime,
    /// The NIC of the source sends a lost packet again after this time.
    pub resend_after: SimTime,
}

impl Default for PauseConfig {
    /// Fact sheet 4.1: the longest pause, a frame of 64 B and 20 B of preamble and gap. The time until a resend is our
    /// choice, about ten round trips.
    fn default() -> Self {
        PauseConfig {
            xoff: Derived::FromPath,
            xon: Derived::FromPath,
            quanta: 65535,
            frame: Bytes(84),
            response: SimTime::ZERO,
            resend_after: SimTime::from_us(50),
        }
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
    /// What a receiver takes.
    pub delivery: Delivery,
    /// How fast a flow sends.
    pub congestion: Congestion,
}

/// The congestion control of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// As fast as window and link let them.
    None,
    /// Each at this rate at most, headers included.
    Throttle(ByteRate),
    /// At the rate that the links of its way grant.
    Acc(Acc),
    /// Slower when the target sees marks of switches.
    Dcqcn(Dcqcn),
    /// With a window that keeps delays at a target.
    Swift(Swift),
    /// With a window that follows delays and the marks of switches.
    Nscc(Nscc),
    /// With a window that follows what switches write into packets.
    Hpcc(Hpcc),
    /// At the max-min fair rates that links find with its control packets.
    Sperc(Sperc),
}

impl Congestion {
    /// Its control packets have a virtual network of their own, which comes before all others.
    pub fn has_control_packets(&self) -> bool {
        matches!(self, Congestion::Acc(_) | Congestion::Dcqcn(_) | Congestion::Sperc(_))
    }
}

/// A part of one, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction(pub u32);

impl Fraction {
    /// That part of something.
    #[inline]
    pub fn of(self, value: u64) -> u64 {
        (u128::from(value) * u128::from(self.0) / 1_000_000) as u64
    }
}

/// DCQCN (Zhu et al., SIGCOMM 2015). Switches must mark: [`NetworkConfig::ecn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// N: a target tells of marks at most once in this time (section 3.1).
    pub interval: SimTime,
    /// A congestion notification packet on the wire.
    pub packet: Bytes,
    /// g: of alpha.
    pub gain: Fraction,
    /// K: alpha goes down after this time without a notification.
    pub alpha_timer: SimTime,
    /// T: the rate goes up after this time,
    pub increase_timer: SimTime,
    /// B: and after so many bytes.
    pub byte_counter: Bytes,
    /// R_AI: behind fast recovery the target rate goes up by this,
    pub additive_increase: ByteRate,
    /// and by this when both timer and counter are behind it.
    pub hyper_increase: ByteRate,
}

/// Swift (Kumar et al., SIGCOMM 2020), of delays from port to port alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swift {
    /// The time from sending a packet to its acknowledgement that is no sign of congestion,
    pub base_target: SimTime,
    /// more for each link of the way,
    pub per_hop: SimTime,
    /// and up to this for small windows.
    pub flow_range: SimTime,
    /// Packets in a round trip, by which the window grows.
    pub additive_increase: Fraction,
    /// How much of the excess of the delay the window loses,
    pub beta: Fraction,
    /// and most of it at once.
    pub most_decrease: Fraction,
}

/// NSCC (Ultra Ethernet Specification 1.0, section 3.6.13). Switches must mark: [`NetworkConfig::ecn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nscc {
    /// From a packet to its acknowledgement through an empty network, at most: windows and steps follow from it.
    pub round_trip: SimTime,
    /// More than that by so much is no sign of congestion.
    pub target: SimTime,
}

/// HPCC (Li et al., SIGCOMM 2019). Switches must write into packets: [`NetworkConfig::telemetry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hpcc {
    /// T: from a packet to its acknowledgement through an empty network, at most, the same for all flows.
    pub round_trip: SimTime,
    /// eta: the part of a link that is used.
    pub utilization: Fraction,
    /// maxStage: so many round trips with additive increases alone.
    pub max_stage: u32,
    /// N: so many flows on a link at most. Additive increases follow from it (section 3.3).
    pub flows: u32,
}

/// s-PERC (Jose et al., SIGMETRICS 2019): exact max-min fair rates, in as many rounds as there are steps of filling.
/// Its control packets must not be lost, and those of a flow go one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sperc {
    /// The part of a link's rate that is granted to nobody.
    pub margin: Fraction,
    /// Each flow sends a control packet once in this time, or in a round trip if that is longer. At least as long as
    /// that, so that links know of all flows.
    pub round: SimTime,
    /// A control packet on the wire.
    pub packet: Bytes,
}

/// What switches mark (explicit congestion notification).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ecn {
    /// Nothing with so many bytes in the queue of an output.
    pub min: Bytes,
    /// Everything above this.
    pub max: Bytes,
    /// At `max`; in between in proportion.
    pub probability: Fraction,
}

/// Accurate congestion control (RED-SEA D1.4 section 8.1): links grant their flows max-min fair rates, by flow rate
/// packets (FRPs) that go to the target and back once a period. What the document does not say is our reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acc {
    /// What sources and contention points do.
    pub policy: AccPolicy,
    /// The part of a link's rate that is granted to nobody.
    pub margin: Fraction,
    /// Between two pulses of the fabric's clock (rate re-evaluation period).
    pub period: SimTime,
    /// FRPs of a flow in a period, 1 or 2. One tells what the flow was granted and asks for its next rate. Of two the
    /// first one asks and the second one, half a period later, tells.
    pub packets_per_period: u32,
    /// A link's share goes down at once, and up by this part of the way in a period.
    pub rise: Fraction,
    /// An FRP on the wire.
    pub packet: Bytes,
    /// Clocks are early by up to this, each by its own.
    pub skew: SimTime,
}

impl Acc {
    /// How early one of the fabric's clocks is.
    pub fn clock_skew(&self, seed: u64, name: &str, index: u32) -> SimTime {
        SimTime(narrows_engine::stream(seed, name, u64::from(index)).below(self.skew.as_ps() + 1))
    }
}

/// The policies of ACC, in the order of D1.4: each has what those before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccPolicy {
    /// FRPs at the pulses alone.
    FrpOnly,
    /// A flow that begins or ends says so at once, and links make room for it within the period.
    FrpInit,
    /// A flow sends nothing before its first rate is there; it begins at full speed without.
    WaitForFeedback,
    /// A flow that was granted a link's share counts among its own, whichever link it was that granted it.
    MindTheGap,
    /// After a rise that looks like a mistake a source goes up by steps that double.
    WaitToRise,
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

/// LogGP (Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995), without `o`, which belongs to the NIC and the software.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogGpConfig {
    /// `L`: from the injection to the header at the target.
    pub latency: Derived<SimTime>,
    /// `g`: least time between two messages of a NIC, at the sender and at the receiver.
    pub gap: SimTime,
    /// `1 / G`: payload bytes per second of a message.
    pub rate: Derived<ByteRate>,
}

/// The flow network's own parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowConfig {
    /// Messages up to this size skip the solver: they take the latency of the path and their own time at its narrowest
    /// stage, and queue for the NICs at both ends behind each other alone. At least a packet (`mtu`) is taken.
    pub direct_up_to: Bytes,
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
    /// For [`NetworkKind::LogGp`].
    pub loggp: LogGpConfig,
    /// For [`NetworkKind::Flow`].
    pub flow: FlowConfig,
    /// Switches mark packets.
    pub ecn: Option<Ecn>,
    /// Virtual networks whose flows have the congestion control, a bit each; those of others have none.
    pub controlled: u16,
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
            loggp: LogGpConfig::default(),
            flow: FlowConfig::default(),
            ecn: None,
            controlled: u16::MAX,
            telemetry: false,
            reliability: None,
            faults: Vec::new(),
            seed: 0,
        }
    }
}

/// Largest packet on the wire: sizes of packets are kept in 32 bits.
const MAX_WIRE: u64 = 1 << 30;
/// Slowest: 1 MB/s. The largest message then takes 10^18 ps, which 64 bits hold.
const MIN_RATE: ByteRate = ByteRate(1_000_000);
/// Fastest: 100 TB/s. The flow solver keeps rates with 16 more bits in 64.
const MAX_RATE: ByteRate = ByteRate(100_000_000_000_000);

/// Why a [`NetworkConfig`] makes no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A rate of zero, or one beyond what times in picoseconds can tell.
    #[error("{what} is {rate}; expected {MIN_RATE} to {MAX_RATE}")]
    Rate {
        /// The field.
        what: &'static str,
        /// Its value.
        rate: ByteRate,
    },
    /// No payload fits a packet, or the packet is too large.
    #[error(
        "packets of {mtu} payload and {header} header; expected an mtu of at least 1 B, a header of at least 1 B, and together at most {}",
        Bytes(MAX_WIRE)
    )]
    Packet {
        /// Payload bytes.
        mtu: Bytes,
        /// Header bytes.
        header: Bytes,
    },
    /// A packet would never fit its buffer.
    #[error("buffer_per_channel is {buffer}; a packet of {packet} must fit")]
    Buffer {
        /// The buffer.
        buffer: Bytes,
        /// Wire bytes of a full packet.
        packet: Bytes,
    },
    /// Too few or too many virtual networks.
    #[error("{given} virtual networks; expected 1 to 16")]
    VirtualNetworks {
        /// What was given.
        given: u8,
    },
    /// Too few for the routing, or more than the model keeps.
    #[error("{given} virtual channels; the routing needs {needed}, and virtual networks times channels must be at most 64")]
    VirtualChannels {
        /// What was given.
        given: u8,
        /// What the routing needs.
        needed: u8,
    },
    /// No packet could ever be read.
    #[error("read_window is 0; expected at least 1, and 2 for reading and sending at the same time")]
    ReadWindow,
    /// A latency that no sum can hold.
    #[error("{what} is {latency}; expected at most 1 s")]
    Latency {
        /// The field.
        what: &'static str,
        /// Its value.
        latency: SimTime,
    },
    /// A class that would never send.
    #[error("weight {class} is 0; expected at least 1 for every virtual network")]
    Weight {
        /// Its place in the list.
        class: usize,
    },
    /// No match, or more than find anything.
    #[error("iSLIP in {given} iterations; expected 1 to 16")]
    Iterations {
        /// What was given.
        given: u32,
    },
    /// Thresholds in the wrong order, or beyond the buffer.
    #[error("pauses at xoff {xoff} and xon {xon} with a buffer of {buffer}; expected 1 B <= xon <= xoff <= buffer")]
    Pause {
        /// Stops.
        xoff: Bytes,
        /// Goes on.
        xon: Bytes,
        /// The buffer.
        buffer: Bytes,
    },
    /// The buffer has no room above the headroom, so there is no threshold.
    #[error(
        "a buffer of {buffer} does not hold the headroom of {headroom} and three packets; expected at least {least}, or an xoff that says what to risk"
    )]
    Headroom {
        /// The buffer.
        buffer: Bytes,
        /// What arrives after the pause.
        headroom: Bytes,
        /// Headroom and three packets.
        least: Bytes,
    },
    /// A pause of no length, a frame of no size, or no time before a resend.
    #[error("{what} is {given}; expected {expected}")]
    PauseValue {
        /// The field.
        what: &'static str,
        /// Its value.
        given: String,
        /// What would do.
        expected: &'static str,
    },
    /// Flows that could send nothing, or tell no packets apart.
    #[error("{what} is {given}; expected {expected}")]
    Reliability {
        /// The field.
        what: &'static str,
        /// Its value.
        given: String,
        /// What would do.
        expected: &'static str,
    },
    /// Messages would never arrive, and nobody would know.
    #[error("a fault loses or breaks packets, but ports do not send them again; expected reliability, or no such fault")]
    FaultWithoutReliability,
    /// Its sources would never hear of congestion.
    #[error("{control} needs marks, and switches give none; expected switches that mark, or another congestion control")]
    MarksMissing {
        /// The congestion control.
        control: &'static str,
    },
    /// The same.
    #[error("{control} needs telemetry, and switches write none; expected switches that write it, or another congestion control")]
    TelemetryMissing {
        /// The congestion control.
        control: &'static str,
    },
    /// Links would count flows that are gone.
    #[error("s-perc needs {what}; expected that, or another congestion control")]
    PercNeeds {
        /// What is missing.
        what: &'static str,
    },
    /// Only packets can be lost.
    #[error("a fault loses or breaks packets, and this network has none; expected the packet network, or no such fault")]
    FaultWithoutPackets,
    /// A link that is not there.
    #[error("a fault of link {link}, but there are {links} links")]
    FaultLink {
        /// Its number.
        link: u32,
        /// Links.
        links: u32,
    },
    /// A fault that packets are to go around cuts hosts off.
    #[error("a fault that packets go around: {0}")]
    Reroute(#[from] FailureError),
    /// Ways around a fault are those of a machine without failures.
    #[error(
        "packets go around a fault on a machine without failures only; expected no reroute, or no topology.failed_links and failed_switches"
    )]
    RerouteOfFailures,
    /// The routing does not fit the topology.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// Packets could wait for each other for ever.
    #[error("routing \"{routing}\" on {topology} is not free of deadlock: {deadlock}")]
    Deadlock {
        /// The routing.
        routing: RoutingKind,
        /// The topology.
        topology: String,
        /// Who would wait for whom.
        deadlock: Deadlock,
    },
}

/// The ways through a network.
#[derive(Clone, Debug)]
pub(crate) struct Routings {
    pub routing: Routing,
    /// Those of packets that leave their ports from a time on, in the order of these times.
    pub reroutes: Vec<(SimTime, Routing)>,
}

impl NetworkConfig {
    /// Virtual networks, that of control packets among them: the last one, where there is one.
    pub fn all_virtual_networks(&self) -> u8 {
        self.virtual_networks.saturating_add(u8::from(self.has_control_packets()))
    }

    /// See [`Congestion::has_control_packets`].
    pub fn has_control_packets(&self) -> bool {
        self.kind == NetworkKind::Packet && self.reliability.is_some_and(|reliability| reliability.congestion.has_control_packets())
    }

    /// The congestion control of flows.
    pub fn congestion(&self) -> Congestion {
        self.reliability.map_or(Congestion::None, |reliability| reliability.congestion)
    }

    /// Wire bytes of a full packet.
    pub fn packet(&self) -> Bytes {
        Bytes(self.mtu.0.saturating_add(self.header.0))
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
            Derived::Fixed(xoff) => xoff,
            Derived::FromPath => Bytes(self.buffer_per_channel.0.saturating_sub(self.headroom(pause, topology).0)),
        };
        let xon = match pause.xon {
            Derived::Fixed(xon) => xon,
            Derived::FromPath => Bytes(xoff.0.saturating_sub(2 * self.packet().0).max(1)),
        };
        (xoff, xon)
    }

    /// Bytes of headroom that are missing above `xoff`, without which packets can be lost; none with credits.
    pub fn missing_headroom(&self, topology: &Topology) -> Option<Bytes> {
        let FlowControl::Pause(pause) = &self.flow_control else { return None };
        let wanted = self.pause_thresholds(pause, topology).0.0.saturating_add(self.headroom(pause, topology).0);
        let missing = wanted.saturating_sub(self.buffer_per_channel.0);
        (missing > 0).then_some(Bytes(missing))
    }

    /// Checks thresholds, buffers and frames of [`FlowControl::Pause`].
    ///
    /// # Errors
    /// [`ConfigError::PauseValue`], [`ConfigError::Headroom`], [`ConfigError::Pause`].
    pub fn check_flow_control(&self, topology: &Topology) -> Result<(), ConfigError> {
        let FlowControl::Pause(pause) = &self.flow_control else { return Ok(()) };
        let value = |what, given, expected| Err(ConfigError::PauseValue { what, given, expected });
        if !(1..=65535).contains(&pause.quanta) {
            return value("quanta", pause.quanta.to_string(), "1 to 65535");
        }
        if pause.frame.0 == 0 || pause.frame > Bytes(9216) {
            return value("pause frame", pause.frame.to_string(), "1 B to 9 KiB");
        }
        if pause.resend_after == SimTime::ZERO || pause.resend_after > SimTime::from_us(1_000_000) {
            return value("resend_after", pause.resend_after.to_string(), "1 ps to 1 s");
        }
        if pause.response > SimTime::from_us(1_000_000) {
            return value("pause response", pause.response.to_string(), "at most 1 s");
        }
        let (buffer, headroom) = (self.buffer_per_channel, self.headroom(pause, topology));
        let least = Bytes(headroom.0.saturating_add(3 * self.packet().0));
        if pause.xoff == Derived::FromPath && buffer < least {
            return Err(ConfigError::Headroom { buffer, headroom, least });
        }
        let (xoff, xon) = self.pause_thresholds(pause, topology);
        if xon.0 == 0 || xon > xoff || xoff > buffer {
            return Err(ConfigError::Pause { xoff, xon, buffer });
        }
        Ok(())
    }

    /// Checks [`NetworkConfig::faults`] and [`NetworkConfig::reliability`].
    ///
    /// # Errors
    /// [`ConfigError::Reliability`], [`ConfigError::FaultLink`], [`ConfigError::FaultWithoutReliability`],
    /// [`ConfigError::FaultWithoutPackets`].
    pub fn check_faults(&self, topology: &Topology) -> Result<(), ConfigError> {
        if let Some(Reliability { window, timeout, ack, .. }) = self.reliability {
            let value = |what, given, expected| Err(ConfigError::Reliability { what, given, expected });
            if !(1..=1 << 15).contains(&window) {
                return value("reliability window", window.to_string(), "1 to 32768 packets");
            }
            if timeout == SimTime::ZERO || timeout > SimTime::from_us(1_000_000) {
                return value("reliability timeout", timeout.to_string(), "1 ps to 1 s");
            }
            if ack.0 == 0 || ack > self.packet() {
                return value("reliability ack", ack.to_string(), "1 B to a full packet");
            }
        }
        self.check_congestion(topology)?;
        if self.faults.is_empty() {
            return Ok(());
        }
        if self.kind != NetworkKind::Packet {
            return Err(ConfigError::FaultWithoutPackets);
        }
        if self.reliability.is_none() && self.faults.iter().any(Fault::harms) {
            return Err(ConfigError::FaultWithoutReliability);
        }
        if self.faults.iter().any(|fault| fault.reroute.is_some()) && topology.failed_links() > 0 {
            return Err(ConfigError::RerouteOfFailures);
        }
        let links = topology.links().len() as u32;
        match self.faults.iter().filter_map(|fault| fault.link).find(|&link| link >= links) {
            Some(link) => Err(ConfigError::FaultLink { link, links }),
            None => Ok(()),
        }
    }

    /// Checks the numbers of a congestion control.
    ///
    /// # Errors
    /// [`ConfigError::Reliability`].
    fn check_congestion(&self, topology: &Topology) -> Result<(), ConfigError> {
        let value = |what, given, expected| Err(ConfigError::Reliability { what, given, expected });
        if self.has_control_packets() && self.virtual_networks == 16 {
            return value("virtual networks", "16".to_owned(), "at most 15: control packets have one of their own");
        }
        if let Some(Ecn { min, max, .. }) = self.ecn
            && min > max
        {
            return value("ecn min", min.to_string(), "at most ecn max");
        }
        if let Congestion::Dcqcn(Dcqcn { packet, alpha_timer, increase_timer, byte_counter, .. }) = self.congestion() {
            if self.ecn.is_none() {
                return Err(ConfigError::MarksMissing { control: "dcqcn" });
            }
            if packet.0 == 0 || packet > self.packet() {
                return value("dcqcn packet", packet.to_string(), "1 B to a full packet");
            }
            for (what, time) in [("dcqcn alpha_timer", alpha_timer), ("dcqcn increase_timer", increase_timer)] {
                if time < SimTime::from_ns(100) || time > SimTime::from_us(1_000_000) {
                    return value(what, time.to_string(), "100 ns to 1 s");
                }
            }
            if byte_counter < self.packet() {
                return value("dcqcn byte_counter", byte_counter.to_string(), "at least a full packet");
            }
        }
        if let Congestion::Nscc(Nscc { round_trip, target }) = self.congestion() {
            if self.ecn.is_none() {
                return Err(ConfigError::MarksMissing { control: "nscc" });
            }
            for (what, time) in [("nscc round_trip", round_trip), ("nscc target", target)] {
                if time < SimTime::from_ns(10) || time > SimTime::from_us(1_000_000) {
                    return value(what, time.to_string(), "10 ns to 1 s");
                }
            }
        }
        if let Congestion::Hpcc(Hpcc { round_trip, utilization, max_stage, flows }) = self.congestion() {
            if !self.telemetry {
                return Err(ConfigError::TelemetryMissing { control: "hpcc" });
            }
            if round_trip < SimTime::from_ns(10) || round_trip > SimTime::from_us(1_000_000) {
                return value("hpcc round_trip", round_trip.to_string(), "10 ns to 1 s");
            }
            if utilization.0 == 0 || utilization.0 >= 1_000_000 {
                return value("hpcc utilization", (f64::from(utilization.0) / 1e6).to_string(), "above 0 and below 1");
            }
            if max_stage > 255 {
                return value("hpcc max_stage", max_stage.to_string(), "at most 255");
            }
            if flows == 0 {
                return value("hpcc flows", flows.to_string(), "at least 1");
            }
        }
        if let Congestion::Sperc(Sperc { margin, round, packet }) = self.congestion() {
            if margin.0 == 0 || margin.0 >= 1_000_000 {
                return value("sperc margin", (f64::from(margin.0) / 1e6).to_string(), "above 0 and below 1");
            }
            if round < SimTime::from_ns(100) || round > SimTime::from_us(1_000_000) {
                return value("sperc round", round.to_string(), "100 ns to 1 s");
            }
            if packet.0 == 0 || packet > self.packet() {
                return value("sperc packet", packet.to_string(), "1 B to a full packet");
            }
            let needs = |what| Err(ConfigError::PercNeeds { what });
            if self.faults.iter().any(Fault::harms) || self.missing_headroom(topology).is_some() {
                return needs("control packets that are never lost");
            }
            use RoutingKind::{DModK, DimensionOrder, Minimal, SModK, Table};
            if ![Minimal, DModK, SModK, DimensionOrder, Table].contains(&self.routing) {
                return needs("packets of a flow that all go the same way");
            }
            if topology.diameter() > MOST_LINKS {
                return needs("ways of at most 8 links");
            }
        }
        if let Congestion::Acc(Acc { margin, period, packets_per_period, rise, packet, skew, .. }) = self.congestion() {
            if margin.0 == 0 || margin.0 >= 1_000_000 {
                return value("acc margin", (f64::from(margin.0) / 1e6).to_string(), "above 0 and below 1");
            }
            if period < SimTime::from_ns(100) || period > SimTime::from_us(1_000_000) {
                return value("acc period", period.to_string(), "100 ns to 1 s");
            }
            if !(1..=2).contains(&packets_per_period) {
                return value("acc packets_per_period", packets_per_period.to_string(), "1 or 2");
            }
            if rise.0 == 0 || rise.0 > 1_000_000 {
                return value("acc rise", (f64::from(rise.0) / 1e6).to_string(), "above 0 and at most 1");
            }
            if packet.0 == 0 || packet > self.packet() {
                return value("acc packet", packet.to_string(), "1 B to a full packet");
            }
            if skew * 4 > period {
                return value("acc skew", skew.to_string(), "at most a quarter of the period");
            }
        }
        Ok(())
    }

    /// As [`NetworkConfig::check`], with the ways around faults.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub(crate) fn routings(&self, topology: &Topology) -> Result<Routings, ConfigError> {
        let routing = self.check(topology)?;
        // When a way around a link begins, and ends.
        let spans: Vec<(u32, SimTime, SimTime)> = self
            .faults
            .iter()
            .filter_map(|fault| {
                let after = fault.reroute?;
                Some((fault.link?, fault.from + after, fault.to + after))
            })
            .collect();
        let mut times: Vec<SimTime> = spans.iter().flat_map(|&(_, from, to)| [from, to]).filter(|&at| at < SimTime::MAX).collect();
        times.sort_unstable();
        times.dedup();
        let mut reroutes = Vec::new();
        for at in times {
            let failed: Vec<u32> = spans.iter().filter(|&&(_, from, to)| from <= at && at < to).map(|&(link, ..)| link).collect();
            let around = topology.clone().without_links(&failed)?;
            let routing = Routing::new(self.routing, &around, self.routing_options())?;
            let needed = routing.virtual_channels();
            if self.virtual_channels < needed {
                return Err(ConfigError::VirtualChannels { given: self.virtual_channels, needed });
            }
            reroutes.push((at, routing));
        }
        Ok(Routings { routing, reroutes })
    }

    fn routing_options(&self) -> RoutingOptions {
        // Loads are times; a threshold that no load reaches may be any long time.
        let threshold = self.switch_link.rate.time_for(Bytes(self.ugal_threshold.0.min(MAX_WIRE))).as_ps();
        RoutingOptions { seed: self.seed, threshold }
    }

    /// Checks every field against the others and the topology; gives the routing, which was checked with them.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(&self, topology: &Topology) -> Result<Routing, ConfigError> {
        let mut rates = vec![
            ("host_link rate", self.host_link.rate),
            ("switch_link rate", self.switch_link.rate),
            ("global_link rate", self.global_link.rate),
            ("pcie_rate", self.pcie_rate),
            ("intra_node rate", self.intra_node.rate),
        ];
        if let Derived::Fixed(rate) = self.loggp.rate {
            rates.push(("loggp rate", rate));
        }
        let own = &self.links(topology)[LinkClass::ALL.len()..];
        rates.extend(own.iter().map(|link| ("rate of a single link", link.rate)));
        for (what, rate) in rates {
            if rate < MIN_RATE || rate > MAX_RATE {
                return Err(ConfigError::Rate { what, rate });
            }
        }
        let mut latencies = vec![
            ("host_link latency", self.host_link.latency),
            ("switch_link latency", self.switch_link.latency),
            ("global_link latency", self.global_link.latency),
            ("switch_latency", self.switch_latency),
            ("turns entry", self.turns.entry),
            ("turns change", self.turns.change),
            ("intra_node latency", self.intra_node.latency),
            ("loggp gap", self.loggp.gap),
        ];
        if let Derived::Fixed(latency) = self.loggp.latency {
            latencies.push(("loggp latency", latency));
        }
        latencies.extend(own.iter().map(|link| ("latency of a single link", link.latency)));
        for (what, latency) in latencies {
            if latency > SimTime::from_us(1_000_000) {
                return Err(ConfigError::Latency { what, latency });
            }
        }
        if self.mtu.0 == 0 || self.header.0 == 0 || self.packet().0 > MAX_WIRE {
            return Err(ConfigError::Packet { mtu: self.mtu, header: self.header });
        }
        if self.buffer_per_channel < self.packet() {
            return Err(ConfigError::Buffer { buffer: self.buffer_per_channel, packet: self.packet() });
        }
        if !(1..=16).contains(&self.virtual_networks) {
            return Err(ConfigError::VirtualNetworks { given: self.virtual_networks });
        }
        if let Arbitration::WeightedPackets(weights) | Arbitration::WeightedBytes(weights) = &self.arbitration
            && let Some(class) = weights.iter().position(|&weight| weight == 0)
        {
            return Err(ConfigError::Weight { class });
        }
        if let Arbitration::Islip(given) = self.arbitration
            && !(1..=16).contains(&given)
        {
            return Err(ConfigError::Iterations { given });
        }
        self.check_flow_control(topology)?;
        self.check_faults(topology)?;
        let routing = Routing::new(self.routing, topology, self.routing_options())?;
        let needed = routing.virtual_channels();
        if self.virtual_channels < needed || u32::from(self.all_virtual_networks()) * u32::from(self.virtual_channels) > 64 {
            return Err(ConfigError::VirtualChannels { given: self.virtual_channels, needed });
        }
        if self.read_window == 0 {
            return Err(ConfigError::ReadWindow);
        }
        // The other networks have no channels to wait for.
        if self.kind == NetworkKind::Packet && topology.switches() <= routing.checked_switches() {
            routing.check_deadlock(topology).map_err(|deadlock| ConfigError::Deadlock {
                routing: self.routing,
                topology: topology.name().to_owned(),
                deadlock,
            })?;
        }
        Ok(routing)
    }
}
