//! The resolved machine: plain structs, nothing optional. Units live in the types.

use crate::assemble::VIRTUAL_NETWORKS;
use crate::congestion::{Congestion, Controls};
use crate::host::HostPattern;
use crate::ip::Ip;
use crate::wiring::Topology;

use narrows_fabric::Fraction;
use narrows_nic::{NicConfig, PcieDetail, Transmit};
pub use narrows_topology::{Arrangement, RoutingKind};
use narrows_units::{ByteRate, Bytes, NodeId, Power, Rail, SimTime};

/// A machine, complete: every quantity has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Short name, for reports.
    pub name: String,
    /// One line on what it stands for.
    pub description: String,
    /// Where its constants come from.
    pub source: String,
    /// All nodes together, and what a node is where its group does not say.
    pub node: Node,
    /// Parts of the machine that differ in their nodes, in the order of these; none: all are alike.
    pub groups: Vec<Group>,
    /// Ports of a node on each of its networks, one for each of as many planes of it.
    pub rails: u32,
    /// Networks that differ; none: there is the one of this machine's own keys.
    pub fabrics: Vec<Fabric>,
    /// The way between two ranks of one node, NIC to NIC.
    pub intra: Link,
    /// The NIC of every node.
    pub nic: Nic,
    /// What all links and switches have in common.
    pub network: Network,
    /// Links, by class.
    pub link: Links,
    /// The switches.
    pub switch: Switch,
    /// How they are wired.
    pub topology: Topology,
    /// What of it is out of order.
    pub failed: Failed,
    /// Costs of what is around the MPI software.
    pub system: System,
    /// What its network takes.
    pub power: NetworkPower,
    /// How the message layer moves messages.
    pub message: Message,
    /// How replayed collectives are done.
    pub collectives: Collectives,
    /// The Ethernet device of a node.
    pub ip: Ip,
}

impl Machine {
    /// Nodes that are alike: the first of them, and what they are. They come in the order of their indices.
    pub fn parts(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let whole = self.groups.is_empty().then_some(&self.node);
        let parts = whole.into_iter().chain(self.groups.iter().map(|group| &group.node));
        parts.scan(0, |next, node| {
            let first = NodeId(*next);
            *next += node.count;
            Some((first, node))
        })
    }

    /// What a node is.
    ///
    /// # Panics
    /// When the machine does not have it.
    pub fn node(&self, id: NodeId) -> &Node {
        let part = self.parts().take_while(|&(first, _)| first <= id).last();
        part.filter(|&(first, node)| id.0 - first.0 < node.count).expect("a node of this machine").1
    }

    /// The nodes that join a network.
    pub fn joined<'a>(&'a self, fabric: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        let joins = move |node: &Node| node.fabrics.is_empty() || node.fabrics.iter().any(|name| name == fabric);
        self.parts().filter(move |(_, node)| joins(node)).flat_map(|(first, node)| (first.0..first.0 + node.count).map(NodeId))
    }

    /// Its planes, in the order of the rails.
    pub fn planes(&self) -> Vec<Plane<'_>> {
        let own = self.fabrics.is_empty().then(|| (self, NodeId::first(self.node.count).collect()));
        let fabrics = self.fabrics.iter().map(|fabric| (&fabric.machine, self.joined(&fabric.name).collect()));
        let networks = own.into_iter().chain(fabrics);
        let planes = networks.flat_map(|(machine, nodes): (&Machine, Vec<NodeId>)| {
            (0..self.rails).map(move |copy| Plane { rail: Rail::FIRST, machine, nodes: nodes.clone(), copy })
        });
        (0u8..).zip(planes).map(|(rail, plane)| Plane { rail: Rail(rail), ..plane }).collect()
    }

    /// The network of these nodes alone: of one name, or the first one.
    pub fn network_called(&self, name: Option<&str>) -> Option<&Machine> {
        match (name, self.fabrics.first()) {
            (None, None) => Some(self),
            (None, Some(first)) => Some(&first.machine),
            (Some(name), _) => self.fabrics.iter().find(|fabric| fabric.name == name).map(|fabric| &fabric.machine),
        }
    }

    /// The rails that all of these nodes have.
    ///
    /// # Errors
    /// There is none; the text says of two of them on which networks they are.
    pub fn common_rails(&self, nodes: &[NodeId]) -> Result<Vec<Rail>, String> {
        let planes = self.planes();
        let on = |plane: &&Plane<'_>| nodes.iter().all(|node| plane.nodes.binary_search(node).is_ok());
        let rails: Vec<Rail> = planes.iter().filter(on).map(|plane| plane.rail).collect();
        if !rails.is_empty() || nodes.is_empty() {
            return Ok(rails);
        }
        let networks = |node: NodeId| {
            let names: Vec<&str> = self
                .fabrics
                .iter()
                .filter(|fabric| self.joined(&fabric.name).any(|joined| joined == node))
                .map(|fabric| &*fabric.name)
                .collect();
            names.join(" and ")
        };
        let first = nodes[0];
        let other = nodes.iter().find(|&&node| networks(node) != networks(first)).copied().unwrap_or(first);
        Err(format!(
            "no network has all nodes with ranks: {} is on {}, {} on {}; ranks go where --placement or --ppn says, and \
             node.fabrics or group.NAME.fabrics say which networks a node joins; group.NAME.gateway makes nodes pass messages on",
            self.host_name(first),
            networks(first),
            self.host_name(other),
            networks(other)
        ))
    }

    /// The host name of a node.
    ///
    /// # Panics
    /// When the machine does not have it.
    pub fn host_name(&self, id: NodeId) -> String {
        self.node(id).host_name.name(id.0)
    }

    /// The node of this index or host name.
    pub fn node_called(&self, name: &str) -> Option<NodeId> {
        if let Ok(index) = name.parse() {
            return Some(NodeId(index)).filter(|id| id.0 < self.node.count);
        }
        self.parts().find_map(|(first, node)| {
            let index = node.host_name.index(name)?;
            (first.0..first.0 + node.count).contains(&index).then_some(NodeId(index))
        })
    }
}

/// `[fabric.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabric {
    /// Its name.
    pub name: String,
    /// The machine as it is with this network alone, of the nodes that join it: network, links, switches, wiring, and
    /// the NICs and buses of its ports.
    pub machine: Machine,
}

/// A plane of a network: all ports of one rail.
#[derive(Clone, Debug)]
pub struct Plane<'a> {
    /// Its number among all of the machine.
    pub rail: Rail,
    /// Of its network: see [`Fabric::machine`].
    pub machine: &'a Machine,
    /// The nodes that join it, in the order of its hosts.
    pub nodes: Vec<NodeId>,
    /// Its number among those of its network.
    pub copy: u32,
}

/// `[group.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// So many nodes, and what they are.
    pub node: Node,
}

/// `[node]`, `[software]` and the node's part of `[power]`: nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// How many there are.
    pub count: u32,
    /// Cores of one: the most ranks that it takes.
    pub cores: u32,
    /// Of a core.
    pub speed: Speed,
    /// Networks that they join; empty: all.
    pub fabrics: Vec<String>,
    /// Networks between which they are gateways; empty: they are none.
    pub gateway: Vec<String>,
    /// Memory of one.
    pub memory: Bytes,
    /// Host names by node index.
    pub host_name: HostPattern,
    /// Costs of the MPI software on a core.
    pub software: Software,
    /// What they take.
    pub power: NodePower,
}

/// `[power]`: a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePower {
    /// Whatever it does.
    pub node: Power,
    /// More for a core that computes.
    pub core: Power,
    /// More for a core whose rank is in MPI.
    pub waiting: Power,
    /// More for an accelerator that computes.
    pub accelerator: Power,
}

/// `[power]`: a network, whatever it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkPower {
    /// A NIC.
    pub nic: Power,
    /// A switch.
    pub switch: Power,
    /// A cable, with both of its ends.
    pub cable: Power,
}

/// How many times as fast a core computes as the one on which computing time was measured. In millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(pub u64);

impl Speed {
    /// As fast.
    pub const ONE: Speed = Speed(1_000_000);

    /// As a number.
    pub fn factor(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A latency and a bandwidth per direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Time of flight of a byte.
    pub latency: SimTime,
    /// Per direction.
    pub bandwidth: ByteRate,
}

/// `[nic]` and `[node.pcie]`: the NIC of every node, and the bus to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Which NIC this is.
    pub kind: NicKind,
    /// The configuration of its kind.
    pub constants: NicConstants,
    /// The bus takes payload at this rate, per direction: its bandwidth less the protocol's share.
    pub data_bandwidth: ByteRate,
    /// Packets over PCIe; nothing without DMA.
    pub dma_first_packet: Bytes,
    /// Packets per second that it sends at most; 0: as many as its link takes.
    pub packet_rate: u32,
    /// Parameters that only ExaNeSt's has.
    pub exanet: Exanet,
    /// ... that only TCP has.
    pub tcp: Tcp,
}

/// `[nic.tcp]`: what the operating system's stack costs at each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// A message.
    pub message: SimTime,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// A segment.
    pub segment_time: SimTime,
    /// Bytes are copied at this rate.
    pub rate: ByteRate,
}

/// `[nic.exanet]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exanet {
    /// Of packetizer and mailbox each: one per process.
    pub interfaces: u32,
    /// Of a packetizer interface.
    pub channels: u32,
    /// Longest payload that goes through them.
    pub short_limit: Bytes,
    /// Bytes of such a message beside its payload.
    pub header: Bytes,
    /// From the last store to the cell on its way.
    pub packetizer: SimTime,
    /// The copy from mailbox to memory.
    pub mailbox: SimTime,
    /// A block of a transfer.
    pub block: Bytes,
    /// The firmware starts a transfer.
    pub rdma_start: SimTime,
    /// ... a further block.
    pub rdma_block: SimTime,
    /// ... takes the acknowledgement of a block.
    pub rdma_done: SimTime,
    /// The allreduce accelerator's client starts a block.
    pub reduce_start: SimTime,
    /// Its server's engine takes vectors.
    pub reduce_rate: ByteRate,
    /// Messages in the mailbox of a process at most; 0: any number.
    pub mailbox_room: u32,
    /// From a refusal to the next try.
    pub resend: SimTime,
    /// Of the packetizer; zero: none.
    pub timeout: SimTime,
    /// Transfers at once.
    pub rdma_channels: u32,
    /// Of a million blocks so many find no page.
    pub page_faults: u32,
    /// Until it is there.
    pub fault_time: SimTime,
    /// Protection domain of each rank; none: all are in domain 0.
    pub domains: Vec<u32>,
}

/// The configuration that a kind of NIC has, and the latency and the bandwidth of the bus with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NicConstants {
    /// Of those that match.
    Portals(NicConfig),
    /// Of a mailbox: those of the library above it. Its own follow from them and from the bus.
    Mailbox(NicConfig),
    /// Idem, of ExaNeSt's.
    Exanet(NicConfig),
    /// Idem, of TCP.
    Tcp(NicConfig),
}

impl Nic {
    /// What of it concerns Portals, in the NIC or in software.
    pub fn portals(&self) -> &NicConfig {
        match &self.constants {
            NicConstants::Portals(config) | NicConstants::Mailbox(config) | NicConstants::Exanet(config) | NicConstants::Tcp(config) => {
                config
            }
        }
    }

    /// What of it concerns Portals, to be changed.
    pub fn portals_mut(&mut self) -> &mut NicConfig {
        match &mut self.constants {
            NicConstants::Portals(config) | NicConstants::Mailbox(config) | NicConstants::Exanet(config) | NicConstants::Tcp(config) => {
                config
            }
        }
    }
}

/// `[network]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Which model, unless `--network` says otherwise.
    pub kind: NetworkKind,
    /// Most payload of one packet.
    pub mtu: Bytes,
    /// Header bytes of one packet on the wire.
    pub header: Bytes,
    /// Virtual channels of each virtual network.
    pub virtual_channels: u32,
    /// Input buffer of each virtual channel.
    pub buffer: Bytes,
    /// Messages shorter than this do not take its rails, if there are others.
    pub rail_minimum: Bytes,
    /// Packets that a NIC reads from memory ahead of its link, per virtual network.
    pub read_window: u32,
    /// How packets choose among several ways.
    pub routing: RoutingKind,
    /// UGAL: more bytes on the minimal way, per link of it, before a packet takes another.
    pub ugal_threshold: Bytes,
    /// What keeps buffers from running over.
    pub flow_control: FlowControl,
    /// Parameters that only priority flow control has.
    pub pfc: Pfc,
    /// What ports do about packets that are lost.
    pub reliability: Reliability,
    /// How fast flows send, by virtual network.
    pub congestion: [Congestion; VIRTUAL_NETWORKS as usize],
    /// Parameters of congestion controls.
    pub controls: Controls,
    /// Links that lose packets or break them: see [`crate::fault`].
    pub faults: Vec<String>,
    /// Parameters that only the flow network has.
    pub flow: Flow,
    /// Parameters that only the LogGP network has.
    pub loggp: LogGp,
}

/// `[network.loggp]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGp {
    /// L.
    pub latency: PathOr<SimTime>,
    /// g: least time between two messages of one NIC.
    pub gap: SimTime,
    /// 1/G: bandwidth of one NIC.
    pub bandwidth: PathOr<ByteRate>,
}

/// Where a parameter of LogGP comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathOr<T> {
    /// From the links, switches and PCIe on the way: what the other networks have when it is empty.
    Path,
    /// The same for every pair of nodes.
    Fixed(T),
}

/// `[network.flow]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Messages up to here, and up to one packet in any case, share no links: latency and their own time only.
    pub direct_limit: Bytes,
}

/// `[link.host]`, `[link.switch]`, `[link.global]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// What carries the bits of all of them.
    pub phy: Phy,
    /// The probability that a bit on a lane turns over.
    pub ber: Ber,
    /// NIC to switch.
    pub host: Link,
    /// Switch to switch, one cable; where there are groups, within one.
    pub switch: Link,
    /// Between switches of different groups.
    pub global: GlobalLink,
}

/// A bit error rate, by the bits of its number, so that it can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ber(u64);

impl Ber {
    /// None outside 0 to 0.1.
    pub fn new(rate: f64) -> Option<Ber> {
        // Zero has two forms.
        (0.0..=0.1).contains(&rate).then(|| Ber((rate + 0.0).to_bits()))
    }

    /// From 0 to 0.1.
    pub fn rate(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// `[link.global]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalLink {
    /// A packet waits so long at a switch from which it enters a global link, coming from another one.
    pub entry: SimTime,
    /// The same where it changes between global and other links between switches, the first time.
    pub change: SimTime,
    /// Time of flight of a byte.
    pub latency: SwitchOr<SimTime>,
    /// Per direction.
    pub bandwidth: SwitchOr<ByteRate>,
}

/// A parameter of global links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchOr<T> {
    /// As `[link.switch]` has it.
    Switch,
    /// Its own.
    Own(T),
}

/// `[network.pfc]`: with [`FlowControl::Pfc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// A virtual channel that holds this much is paused; 0: the buffer less the headroom.
    pub xoff: Bytes,
    /// It may go on at this much; 0: two packets below `xoff`.
    pub xon: Bytes,
    /// What a pause frame is worth, in 512 bit times.
    pub quanta: u32,
    /// A pause frame on the wire.
    pub frame: Bytes,
    /// From the arrival of a pause frame to its effect.
    pub response: SimTime,
    /// Lost packets are sent again after this time.
    pub resend_after: SimTime,
}

/// `[network.reliability]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// What the receiving port of a flow takes; nothing of all this without.
    pub delivery: Delivery,
    /// Virtual networks whose flows are unordered where others are ordered.
    pub unordered: Vec<u32>,
    /// Packets of a flow without an acknowledgement at most.
    pub window: u32,
    /// Of all flows in a virtual network.
    pub room: u32,
    /// Flows in a virtual network.
    pub flows: u32,
    /// Without one for this time they are sent again.
    pub timeout: SimTime,
    /// So many times in a row.
    pub retries: u32,
    /// An acknowledgement on the wire.
    pub ack: Bytes,
    /// Bits of the check sum of frames,
    pub fcs: u32,
    /// and of that of payload.
    pub crc: u32,
}

/// `[switch]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Header in to header out, without contention.
    pub latency: SimTime,
    /// Ports.
    pub radix: u32,
    /// When a packet goes on.
    pub forwarding: Forwarding,
    /// What waits behind what in an input buffer.
    pub queueing: Queueing,
    /// How many times the rate of its link an input is read; 0 without a limit.
    pub speedup: u32,
    /// What goes first at an output.
    pub arbitration: Arbitration,
    /// Of iSLIP.
    pub iterations: u32,
    /// Of the virtual networks, with weighted arbitration; 1 for those that the list does not reach.
    pub weights: Vec<u32>,
    /// Virtual networks that come before all others.
    pub strict_priority: Vec<u32>,
    /// What it tells of what waits.
    pub marking: Marking,
    /// Nothing is marked with so much in the queue,
    pub mark_min: Bytes,
    /// everything above this.
    pub mark_max: Bytes,
    /// At `mark_max`.
    pub mark_probability: Fraction,
    /// What it writes into packets,
    pub telemetry: Telemetry,
    /// which are so much longer.
    pub telemetry_size: Bytes,
}

/// What is out of order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failed {
    /// Cables between two switches: `"3-17"`, all of them, or `"3-17#0"`, the first.
    pub links: Vec<String>,
    /// Switches.
    pub switches: Vec<u32>,
}

/// `[software]`: what the MPI library and its transport cost a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Software {
    /// One operation handed to the transport (send, receive, put ...).
    pub post: SimTime,
    /// One completion taken from it, up to the MPI request.
    pub completion: SimTime,
    /// One look at the completion queue that finds nothing.
    pub poll: SimTime,
    /// Copies inside one process (unexpected messages, bounce buffers).
    pub copy_bandwidth: ByteRate,
    /// Replay: a step of a reduction, beside its messages.
    pub reduce: SimTime,
    /// ... and of each 1,024 bytes of it.
    pub reduce_per_kib: SimTime,
    /// Reading a clock.
    pub clock_read: SimTime,
}

/// `[software]`: what does not depend on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct System {
    /// A barrier over the launcher of a program without MPI.
    pub launcher_barrier: SimTime,
    /// From a write to a real socket or pipe until another rank can read what was written.
    pub socket_latency: SimTime,
}

/// `[collectives]`: algorithms of collectives in replays. Live programs bring those of their MPI library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collectives {
    /// `openmpi`, `mpich`, or a file of rules; see `narrows_collectives::rules`.
    pub table: String,
    /// Rules that come before those of the table.
    pub rules: Vec<String>,
}

/// `[message.pscom]`: what ParaStation's pscom4portals reads from its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pscom {
    /// One eager buffer.
    pub buffer: Bytes,
    /// Buffers to receive into, for each connection.
    pub receive_buffers: u32,
    /// Buffers to send from, for each connection.
    pub send_buffers: u32,
    /// Shortest message that is not eager.
    pub rendezvous: Bytes,
    /// Long messages that a connection receives at a time.
    pub rendezvous_requests: u32,
    /// Longest put of a long message; longer ones than `message.max_portals_message` are cut in any case.
    pub fragment: Bytes,
}

/// `[message.mpc]`: long messages over several rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mpc {
    /// Shortest message that is cut.
    pub minimum: Bytes,
    /// How.
    pub distribution: Distribution,
    /// One piece of it.
    pub fragment: Bytes,
    /// Which rail others take.
    pub rail: RailChoice,
    /// A core, for a buffer that a NIC has to know.
    pub registration: SimTime,
    /// ... and for 1,024 bytes of it.
    pub registration_per_kib: SimTime,
    /// Bytes that NICs go on to know.
    pub registration_cache: Bytes,
}

/// `[message.gateway]`: messages between modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateways {
    /// Longest put over a gateway.
    pub fragment: Bytes,
    /// Of them, of a process at a gateway.
    pub buffers: u32,
    /// Which gateway.
    pub choice: GatewayChoice,
    /// A gateway's core, for each.
    pub cost: SimTime,
    /// ... and for 1,024 bytes of it.
    pub per_kib: SimTime,
    /// From the death of a gateway until all know.
    pub detection: SimTime,
}

/// `[message]`: protocol thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// How messages move.
    pub protocol: MessageProtocol,
    /// Thresholds of `pscom`.
    pub pscom: Pscom,
    /// Thresholds of `mpc`.
    pub mpc: Mpc,
    /// Between modules.
    pub gateway: Gateways,
    /// Longest eager message.
    pub eager_limit: Bytes,
    /// Longest message whose buffer is free when the call returns.
    pub inject_limit: Bytes,
    /// Beyond `eager_limit`.
    pub rendezvous: Rendezvous,
    /// One overflow block.
    pub overflow_block: Bytes,
    /// Overflow blocks kept posted.
    pub overflow_blocks: u32,
    /// Longest put or get.
    pub max_portals_message: Bytes,
}

/// A value that is one of a few names.
pub(crate) trait Choice {
    fn names(&self) -> &'static [&'static str];
    fn index(&self) -> usize;
    fn choose(&mut self, index: usize);
}

macro_rules! choice {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$variant_doc])* $variant),+ }

        impl $type {
            /// All of them.
            pub const ALL: &'static [$type] = &[$($type::$variant),+];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// As machine files spell it.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }
        }

        impl Choice for $type {
            fn names(&self) -> &'static [&'static str] {
                $type::NAMES
            }
            fn index(&self) -> usize {
                *self as usize
            }
            fn choose(&mut self, index: usize) {
                *self = $type::ALL[index];
            }
        }
    };
}

/// A choice whose names another crate has.
macro_rules! choice_of {
    ($type:ident) => {
        impl Choice for $type {
            fn names(&self) -> &'static [&'static str] {
                &$type::NAMES
            }
            fn index(&self) -> usize {
                *self as usize
            }
            fn choose(&mut self, index: usize) {
                *self = $type::ALL[index];
            }
        }
    };
}

choice_of!(RoutingKind);
choice_of!(Arrangement);
choice_of!(Transmit);
choice_of!(PcieDetail);

choice! {
    /// Kinds of NIC.
    NicKind {
        /// Bull eXascale Interconnect, second generation.
        BxiV2 = "bxi-v2",
        /// Bull eXascale Interconnect, third generation.
        BxiV3 = "bxi-v3",
        /// An InfiniBand host channel adapter, with the commands and events of Portals.
        IbHca = "ib-hca",
        /// Stores and forwards messages, and leaves matching to software ([`narrows_nic::Mailbox`]).
        Mailbox = "mailbox",
        /// ExaNeSt's: packetizer and mailbox, RDMA with firmware ([`narrows_nic::Exanet`]).
        Exanet = "exanet",
        /// TCP over Ethernet: the operating system's stack at both ends ([`narrows_nic::Tcp`]).
        Tcp = "tcp",
    }
}

impl NicKind {
    /// Those that match ([`narrows_nic::Portals`]).
    pub(crate) const MATCHING: &'static [NicKind] = &[NicKind::BxiV2, NicKind::BxiV3, NicKind::IbHca];
}
choice! {
    /// The three networks (design: one machine file, three fidelities).
    NetworkKind {
        /// Packets, virtual channels, credits.
        Packet = "packet",
        /// Messages share links max-min fairly.
        Flow = "flow",
        /// Latency and gaps, no contention.
        LogGp = "loggp",
    }
}
choice! {
    /// What keeps buffers from running over.
    FlowControl {
        /// The sender knows the free bytes.
        Credits = "credits",
        /// The receiver pauses the sender (IEEE 802.1Qbb).
        Pfc = "pfc",
    }
}
choice! {
    /// What the receiving port of a flow takes.
    Delivery {
        /// There are no flows: what is lost stays lost.
        None = "none",
        /// The packet that comes next: go-back-N.
        Ordered = "ordered",
        /// Every packet once: selective repeat.
        Unordered = "unordered",
    }
}
choice! {
    /// When a switch sends a packet on.
    Forwarding {
        /// When its header is there.
        CutThrough = "cut-through",
        /// When all of it is there.
        StoreAndForward = "store-and-forward",
    }
}
choice! {
    /// What waits behind what in an input buffer.
    Queueing {
        /// Nothing waits for what goes to another output.
        VirtualOutput = "voq",
        /// First in, first out, per virtual channel.
        Fifo = "fifo",
    }
}
choice! {
    /// What goes first at an output.
    Arbitration {
        /// Virtual channels, then inputs, in turn.
        RoundRobin = "round-robin",
        /// What left its NIC first.
        Age = "age",
        /// Virtual networks in turn, packets by weight.
        WeightedPackets = "weighted-packets",
        /// Virtual networks in turn, bytes by weight.
        WeightedBytes = "weighted-bytes",
        /// Inputs and outputs matched by iSLIP.
        Islip = "islip",
        /// The same by wavefronts.
        Wavefront = "wavefront",
    }
}
choice! {
    /// What carries the bits of links.
    Phy {
        /// Links are a rate and a latency.
        None = "none",
        /// Ethernet over four lanes, with RS-FEC (`narrows_phy`).
        Sr4 = "100gbase-sr4",
    }
}
choice! {
    /// What switches tell of what waits.
    Marking {
        /// Nothing.
        None = "none",
        /// A mark in packets (explicit congestion notification).
        Ecn = "ecn",
    }
}
choice! {
    /// What switches write into packets.
    Telemetry {
        /// Nothing.
        None = "none",
        /// What they know of their links (in-band network telemetry).
        Int = "int",
    }
}
choice! {
    /// How messages move.
    MessageProtocol {
        /// As Open MPI and MPICH do: matched by the NIC, overflow blocks.
        Openmpi = "openmpi",
        /// As ParaStation's pscom4portals does: eager queues for each connection, copies on both sides.
        Pscom = "pscom",
        /// As MPC does: as `openmpi`, with the data of long messages over several rails.
        Mpc = "mpc",
        /// As ExaNet-MPI does: as `openmpi` with `rendezvous = "put"`, but the sender's firmware answers.
        Exanet = "exanet",
    }
}
choice! {
    /// How a message is cut for several rails.
    Distribution {
        /// Into fragments of one size, to the rails in turn.
        Fragments = "fragments",
        /// Into equal parts, one for each rail.
        Even = "even",
        /// Into parts as long as the rails are fast, one for each.
        Rates = "rates",
    }
}
choice! {
    /// Which rail a message takes that is not cut.
    RailChoice {
        /// The next one.
        RoundRobin = "round-robin",
        /// That which would be through with it first.
        LeastLoaded = "least-loaded",
    }
}
choice! {
    /// Which gateway a message takes.
    GatewayChoice {
        /// The two nodes say it.
        Static = "static",
        /// That with the fewest bytes of the process under way.
        LeastLoaded = "least-loaded",
    }
}
impl MessageProtocol {
    /// Those that have what `openmpi` has.
    pub(crate) const MATCHED: &'static [MessageProtocol] = &[MessageProtocol::Openmpi, MessageProtocol::Mpc, MessageProtocol::Exanet];
}
choice! {
    /// How long messages travel.
    Rendezvous {
        /// The receiver fetches.
        Get = "get",
        /// The receiver answers, then the sender puts.
        Put = "put",
    }
}
