//! The resolved machine: plain structs, nothing optional. Units live in the types.

use crate::addresses::Addresses;
use crate::assemble::VIRTUAL_NETWORKS;
use crate::ip::Ip;
use crate::node::{Auxiliary, Bus, Group, HOST, Mode, Node, Processor};
use crate::placement::PlacementError;
use crate::spin::Spin;
use crate::wiring::Topology;
use narrows_fabric::{Control, Controls, FlowConfig, Fraction, LogGpConfig, PauseConfig};
pub use narrows_fabric::{Forwarding, NetworkKind, Queueing};
use narrows_keys::{Field, Key, Keys, Limits, Only, OrWord, Problem, Quantity, Value, choice, keys, number};
pub use narrows_message::{GatewayChoice, RailChoice, Rendezvous};
use narrows_nic::{ApenetxConfig, CarvnetConfig, NicConfig, TcpConfig};
pub use narrows_topology::{Arrangement, RoutingKind};
use narrows_units::{ByteRate, Bytes, NodeId, Power, ProcessorId, Rail, SimTime};

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
    /// Processors that nodes may have beside the host's.
    pub auxiliaries: Vec<Auxiliary>,
    /// Buses between processors.
    pub buses: Vec<Bus>,
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
    /// What MPI-IO finds files on.
    pub storage: Storage,
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

    /// The processors of a node with their names: the host's, then those of `node.processors` that are used
    /// ([`Mode`]).
    ///
    /// # Panics
    /// When one of them is none of the machine.
    pub fn processors<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = (&'a str, &'a Processor)> {
        let called = |name: &'a String| self.auxiliary(name).expect("a processor of this machine");
        let used = |auxiliary: &&'a Auxiliary| auxiliary.mode != Mode::Host;
        let beside = node.processors.iter().map(called).filter(used);
        std::iter::once((HOST, &node.host)).chain(beside.map(|auxiliary| (auxiliary.name.as_str(), &auxiliary.processor)))
    }

    /// The section of a processor beside the host's.
    pub fn auxiliary(&self, name: &str) -> Option<&Auxiliary> {
        self.auxiliaries.iter().find(|auxiliary| auxiliary.name == name)
    }

    /// A processor, and its name.
    ///
    /// # Panics
    /// When the machine does not have it.
    pub fn processor(&self, id: ProcessorId) -> (&str, &Processor) {
        self.processors(self.node(id.node)).nth(id.number.into()).expect("a processor of this node")
    }

    /// The host name of who is on a processor: those beside the host's have one of their own.
    ///
    /// # Panics
    /// When the machine does not have it.
    pub fn host_name_on(&self, id: ProcessorId) -> String {
        let host = self.host_name(id.node);
        if id.number == 0 { host } else { format!("{host}-{}", self.processor(id).0) }
    }

    /// Cores of all processors of a node.
    pub(crate) fn cores(&self, node: &Node) -> u64 {
        self.processors(node).map(|(_, processor)| u64::from(processor.cores)).sum()
    }

    /// The nodes that join a network.
    pub fn joined<'a>(&'a self, fabric: &'a str) -> impl Iterator<Item = NodeId> + 'a {
        let joins = move |node: &Node| node.fabrics.is_empty() || node.fabrics.iter().any(|name| name == fabric);
        self.parts().filter(move |(_, node)| joins(node)).flat_map(|(first, node)| (first.0..first.0 + node.count).map(NodeId))
    }

    /// The addresses on a network: those of the nodes that join it, and of their processors.
    pub(crate) fn joined_with(&self, fabric: &str, addresses: &Addresses) -> Vec<NodeId> {
        let mut joined: Vec<NodeId> = self.joined(fabric).collect();
        let own = addresses.own().filter(|(_, id)| joined.binary_search(&id.node).is_ok()).map(|(address, _)| address);
        let own: Vec<NodeId> = own.collect();
        joined.extend(own);
        joined
    }

    /// Its planes, in the order of the rails.
    pub fn planes(&self) -> Vec<Plane<'_>> {
        let addresses = self.addresses();
        let own = self.fabrics.is_empty().then(|| (self, NodeId::first(addresses.count()).collect()));
        let fabrics = self.fabrics.iter().map(|fabric| (&fabric.machine, self.joined_with(&fabric.name, &addresses)));
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
    pub fn common_rails(&self, nodes: &[NodeId]) -> Result<Vec<Rail>, PlacementError> {
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
        let of = |node: NodeId| (self.host_name(node), networks(node));
        Err(PlacementError::NoNetwork { one: of(first), other: of(other) })
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
    /// The addresses on it, in the order of its hosts: the nodes that join it, then processors that have their own.
    pub nodes: Vec<NodeId>,
    /// Its number among those of its network.
    pub copy: u32,
}

keys! {
    /// `[power]`: a network, whatever it does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NetworkPower {
        /// A NIC of a node with ranks, one for each port.
        pub nic: Power = "0 W";
        /// A switch, of all that there are.
        pub switch: Power = "0 W";
        /// A cable with both of its ends, of all that there are.
        pub cable: Power = "0 W";
    }
}

/// A latency and a bandwidth per direction: `[node.intra]`, `[link.host]`, `[link.switch]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Time of flight of a byte.
    pub latency: SimTime,
    /// Per direction.
    pub bandwidth: ByteRate,
}

impl Link {
    /// See [`Keys::blank`].
    pub(crate) fn blank() -> Link {
        Link { latency: Field::blank(), bandwidth: Field::blank() }
    }

    /// Its keys, and what each means.
    pub(crate) fn list<'a>(&'a mut self, section: &str, [latency, bandwidth]: [&str; 2], list: &mut Vec<Key<'a>>) {
        list.push(Key::new(section, "latency", &mut self.latency, latency));
        list.push(Key::new(section, "bandwidth", &mut self.bandwidth, bandwidth));
    }
}

/// `[nic]` and `[node.pcie]`: the NIC of every node, and the bus to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Which NIC this is.
    pub kind: NicKind,
    /// What all kinds have; of those that do not match, that of the library above them, and the bus.
    pub config: NicConfig,
    /// Parameters that only ExaNeSt's has.
    pub exanet: Exanet,
    /// ... that only TCP has.
    pub tcp: TcpConfig,
    /// ... that only APEnetX has.
    pub apenetx: ApenetxConfig,
    /// ... that only caRVnet has.
    pub carvnet: CarvnetConfig,
    /// Handlers on those that match.
    pub spin: Spin,
}

impl Keys for Nic {
    fn blank() -> Nic {
        Nic {
            kind: NicKind::BxiV2,
            config: Keys::blank(),
            exanet: Keys::blank(),
            tcp: Keys::blank(),
            apenetx: Keys::blank(),
            carvnet: Keys::blank(),
            spin: Keys::blank(),
        }
    }
    fn list<'a>(&'a mut self, section: &str, list: &mut Vec<Key<'a>>) {
        let doc = "NIC model. `bxi-v2`, `bxi-v3` and `ib-hca` match in hardware: one model, whose defaults are the constants of \
                   `bxi-v2`. `mailbox` (stores and forwards), `tcp` (TCP over Ethernet), `exanet` (ExaNeSt), `apenetx` \
                   (descriptors over PCIe) and `carvnet` (RDMA by an engine) run Portals in software \
                   ([my NIC](how-to/my-nic.md))";
        list.push(Key::new(section, "kind", &mut self.kind, doc).default("\"bxi-v2\""));
        self.config.list(section, list);
        self.exanet.list("nic.exanet", list);
        self.tcp.list("nic.tcp", list);
        self.apenetx.list("nic.apenetx", list);
        self.carvnet.list("nic.carvnet", list);
        self.spin.list("nic.spin", list);
    }
}

keys! {
    /// `[nic.exanet]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Exanet {
        /// Of packetizer and mailbox: each process of a node takes one.
        pub interfaces: u32 = 64, in 1..=1 << 16, of EXANET;
        /// Of a packetizer interface: messages of a process that may wait for their acknowledgement.
        pub channels: u32 = 4, in 1..=1 << 16, of EXANET;
        /// Longest payload that goes through packetizer and mailbox; longer ones by RDMA.
        pub short_limit: Bytes = "32 B", of EXANET;
        /// Bytes of a short message in addition to its payload.
        pub header: Bytes = "24 B", of EXANET;
        /// From the last store of a message to its cell on the way: the packetizer reads one after the other.
        pub packetizer: SimTime, of EXANET;
        /// The mailbox copies a message to memory, one after the other.
        pub mailbox: SimTime, of EXANET;
        /// A block of a transfer.
        pub block: Bytes = "16 KiB", in Bytes(4096).., of EXANET;
        /// The firmware, which serves one thing after the other, starts a transfer.
        pub rdma_start: SimTime, of EXANET;
        /// The firmware starts a further block of a transfer, when the one before has been read.
        pub rdma_block: SimTime, of EXANET;
        /// The firmware is busy with the acknowledgement of a block, which the process sees at once.
        pub rdma_done: SimTime, of EXANET;
        /// The allreduce accelerator's client module starts a block of at most 256 B.
        pub reduce_start: SimTime, of EXANET;
        /// Transfers of a node at once; others wait.
        pub rdma_channels: u32 = 512, in 1..=1 << 20, of EXANET;
        /// Messages in the mailbox of a process at most: what comes to a full one is refused (NACK) and sent again; 0:
        /// as many as come.
        pub mailbox_room: u32 = 0, in 0..=1 << 20, of EXANET;
        /// From a refusal to the message's next try.
        pub resend: SimTime = "1 us", of EXANET;
        /// The packetizer sends a message again if no acknowledgement arrives for this time; 0: it has no timer.
        pub timeout: SimTime = "0 ns", of EXANET;
        /// Number of blocks in a million that find no page at their target when they first arrive, and are sent again.
        pub page_faults: u32 = 0, in 0..=1_000_000, of EXANET;
        /// Until the operating system has made the page of a block.
        pub fault_time: SimTime = "10 us", of EXANET;
        /// Protection domain of each rank, 0 to 65535, of several traces one after the other: a NIC refuses what comes
        /// from another domain; []: all in domain 0.
        pub domains: Vec<u32> = [], in 0..=1 << 22, of EXANET;
        /// The accelerator's server module takes vectors, one after the other.
        pub reduce_rate: ByteRate, of EXANET;
    }
}

impl Nic {
    /// What of it concerns Portals, in the NIC or in software.
    pub fn portals(&self) -> &NicConfig {
        &self.config
    }

    /// What of it concerns Portals, to be changed.
    pub fn portals_mut(&mut self) -> &mut NicConfig {
        &mut self.config
    }
}

keys! {
    /// `[network]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Network {
        /// The model, unless `--network` says otherwise.
        pub kind: NetworkKind = "packet";
        /// Most payload of one packet.
        pub mtu: Bytes, in Bytes(1)..;
        /// Header bytes of a packet on the wire.
        pub header: Bytes, in Bytes(1)..;
        /// Virtual channels of each of the four virtual networks.
        pub virtual_channels: u32 = 1, in 1..=16;
        /// Input buffer of each virtual channel of each port.
        pub buffer: Bytes, in Bytes(1)..;
        /// Messages shorter than this do not take the rails of this network, if there are others; the first rail takes
        /// all.
        pub rail_minimum: Bytes = "0 B", of MPC;
        /// Packets that a NIC reads from memory ahead of its link, per virtual network.
        pub read_window: u32 = 4, in 1..=1 << 16;
        /// The way through the network; `minimal` is each topology's own.
        pub routing: RoutingKind = "minimal";
        /// UGAL and PAR: bytes more that may wait on the minimal way, for each of its links.
        pub ugal_threshold: Bytes = "0 B";
        /// What keeps buffers from running over: credits, or pause frames (IEEE 802.1Qbb), under which packets can be
        /// lost.
        pub flow_control: FlowControl = "credits";
        /// Congestion control of flows ([congestion.md](congestion.md)). All but `none` and `pfc` need
        /// `network.reliability.delivery`. A list sets one for each virtual network.
        pub congestion: [Control; VIRTUAL_NETWORKS as usize] = "none";
        /// Links that lose, break, repeat or delay packets or are slow, switches that die, NICs that are reset
        /// (docs/faults.md), such as `"link=leaf0:7 loss=1e-4 from=1ms to=2ms"`; without `link` all of them. `--fault`
        /// replaces them.
        pub faults: Vec<String> = [];
        /// Parameters that only priority flow control has.
        pub pfc: PauseConfig => "pfc";
        /// What ports do about packets that are lost.
        pub reliability: Reliability => "reliability";
        /// Parameters of congestion controls.
        pub controls: Controls => "";
        /// Parameters that only the flow network has.
        pub flow: FlowConfig => "flow";
        /// Parameters that only the LogGP network has.
        pub loggp: LogGpConfig => "loggp";
    }
}

/// `[link]`
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

impl Keys for Links {
    fn blank() -> Links {
        Links { phy: Phy::None, ber: Field::blank(), host: Link::blank(), switch: Link::blank(), global: Keys::blank() }
    }
    fn list<'a>(&'a mut self, section: &str, list: &mut Vec<Key<'a>>) {
        let doc = "What carries the bits of all links. `100gbase-sr4`: rates are that of its MAC in place of `bandwidth`, latencies \
                   and packets are longer by what it takes, frames are lost by `ber` (docs/phy.md)";
        list.push(Key::new(section, "phy", &mut self.phy, doc).default("\"none\""));
        list.push(Key::new(section, "ber", &mut self.ber, "With a phy: the probability that a bit on a lane turns over").default("0"));
        let words = ["Link between NIC and switch", "Link between NIC and switch, per direction"];
        self.host.list("link.host", words, list);
        self.switch.list("link.switch", ["Link between two switches", "Link between two switches, per direction and cable"], list);
        self.global.list("link.global", list);
    }
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

impl Field for Ber {
    fn blank() -> Ber {
        Ber(0)
    }
    fn expected(&self, _: Limits) -> String {
        "expected a number, such as 1e-5".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "number, 0 to 0.1".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let number = number(value, &self.expected(limits))?;
        *self = Ber::new(number).ok_or_else(|| Problem::new(format!("{number} is out of range"), "expected 0 to 0.1"))?;
        Ok(())
    }
    fn get(&self) -> Value {
        if self.rate() == 0.0 { Value::count(0) } else { Value::Decimal(self.rate().to_string()) }
    }
}

keys! {
    /// `[link.global]`
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GlobalLink {
        /// Link between switches of different groups.
        pub latency: SwitchOr<SimTime> = "switch";
        /// Link between switches of different groups, per direction and cable.
        pub bandwidth: SwitchOr<ByteRate> = "switch";
        /// A packet that goes from another link to a global one waits this long at the switch, in addition to its
        /// latency.
        pub entry: SimTime = "0 ns";
        /// A packet waits this long in addition at its first change from a global link to a link between switches of
        /// one group, or back.
        pub change: SimTime = "0 ns";
    }
}

/// A parameter of global links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchOr<T> {
    /// As `[link.switch]` has it.
    Switch,
    /// Its own.
    Own(T),
}

impl<T: Quantity> OrWord for SwitchOr<T> {
    type Quantity = T;
    const WORD: &'static str = "switch";
    fn of(quantity: Option<T>) -> Self {
        quantity.map_or(SwitchOr::Switch, SwitchOr::Own)
    }
    fn quantity(&self) -> Option<T> {
        if let SwitchOr::Own(value) = self { Some(*value) } else { None }
    }
}

impl<T: Quantity> SwitchOr<T> {
    /// Its value, where those between switches have this.
    pub(crate) fn or(self, switch: T) -> T {
        self.quantity().unwrap_or(switch)
    }
}

keys! {
    /// `[network.reliability]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Reliability {
        /// Ports number their packets and send again what is lost: `ordered` takes the next packet only (go-back-N),
        /// `unordered` every one once (selective repeat); `none`: nothing may be lost.
        pub delivery: Delivery = "none";
        /// Virtual networks, 0 to 3, whose flows are unordered, next to ordered ones; the NICs of BXI send requests in
        /// 0 and responses in 1.
        pub unordered: Vec<u32> = [], in 0..=1 << 22;
        /// Packets to one port that may wait for their acknowledgement.
        pub window: u32 = 1024, in 1..=1 << 15;
        /// Maximum number of packets without an acknowledgement that a NIC holds, of all its flows in a virtual
        /// network; 0: no limit.
        pub room: u32 = 0, in 0..=1 << 22;
        /// Maximum number of flows of a NIC with unacknowledged packets, per virtual network; other flows wait; 0: no
        /// limit.
        pub flows: u32 = 0, in 0..=1 << 22;
        /// Without an acknowledgement for this time, packets are sent again.
        pub timeout: SimTime = "100 us", in SimTime(1)..;
        /// Packets are sent again this many times in a row; then the run ends.
        pub retries: u32 = 7, in 0..=1 << 16;
        /// An acknowledgement on the wire, with preamble and gap.
        pub ack: Bytes = "84 B", in Bytes(1)..;
        /// Bits of the check sum of frames, which is made anew for each link; 0: there is none.
        pub fcs: u32 = 32, in 0..=32;
        /// Bits of the check sum of the payload, from NIC to NIC.
        pub crc: u32 = 32, in 0..=32;
    }
}

keys! {
    /// `[switch]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Switch {
        /// Header in to header out, without contention.
        pub latency: SimTime;
        /// Ports of a switch.
        pub radix: u32, in 2..=1 << 16;
        /// A packet goes on when its header is there, or when all of it is.
        pub forwarding: Forwarding = "cut-through";
        /// Input buffers: virtual output queues, or first in, first out per virtual channel.
        pub queueing: Queueing = "voq";
        /// With virtual output queues: maximum total rate at which outputs read an input buffer, as a multiple of the
        /// rate of its link; 0: no limit.
        pub speedup: u32 = 0, in 0..=64;
        /// At an output (`"output"`; the default but in a torus, which has `"age"`): virtual channels and inputs in
        /// turn, the packet that left its NIC first, or virtual networks by `weights`; or all outputs and inputs of a
        /// switch matched together, by `islip` (`"islip:4"`: in so many `iterations`) or `wavefront`, where an input
        /// sends one packet at a time.
        pub arbitration: Arbitration = "round-robin";
        /// Iterations of `islip`.
        pub iterations: u32 = 1, in 1..=16;
        /// Of the virtual networks 0 to 3 (compute request and response, service request and response), with weighted
        /// arbitration; 1 for those not listed.
        pub weights: Vec<u32> = [], in 1..=1 << 16;
        /// Virtual networks, 0 to 3, that come before all others.
        pub strict_priority: Vec<u32> = [], in 0..=1 << 22;
        /// Switches mark packets by what waits for their output: congestion controls that follow marks need it.
        pub marking: Marking = "none";
        /// With `ecn`: no packet is marked while at most this many bytes are in the queue.
        pub mark_min: Bytes = "5 KB";
        /// With `ecn`: every packet is marked while more than this many bytes are in the queue.
        pub mark_max: Bytes = "200 KB";
        /// With `ecn`: probability of a mark at `mark_max`, which rises from 0 at `mark_min`.
        pub mark_probability: Fraction = 0.01, in ..=1_000_000;
        /// Switches write into packets what they know of their links (in-band network telemetry): `hpcc` needs it.
        pub telemetry: Telemetry = "none";
        /// With `int`: bytes more of packets and ACKs.
        pub telemetry_size: Bytes = "42 B";
    }
}

keys! {
    /// What is out of order.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Failed {
        /// Cables between switches that are out of order: `"3-17"` or `"leaf3-spine1"`, with `#0` behind it for the
        /// first of several.
        pub links: Vec<String> = [], at "failed_links";
        /// Switches that are out of order; they may have no hosts.
        pub switches: Vec<u32> = [], in 0..=1 << 22, at "failed_switches";
    }
}

keys! {
    /// `[software]`: what does not depend on the node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct System {
        /// A barrier over the launcher (PMI, PMIx) of a program without MPI.
        pub launcher_barrier: SimTime = "100 us";
        /// From a write to a socket or pipe of the host until another rank can read it.
        pub socket_latency: SimTime = "20 us";
    }
}

keys! {
    /// `[storage]`: the file system of live runs, one server for all nodes. An access inside of an MPI call waits until
    /// the accesses before it are through, and takes its bytes at `bandwidth`; `latency` comes on top.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Storage {
        /// Of each read, write or flush, and of each look at a lock: no look is free.
        pub latency: SimTime = "100 us", in SimTime::from_ns(1)..;
        /// Bandwidth of the storage, which all nodes share.
        pub bandwidth: ByteRate = "10 GB/s";
    }
}

keys! {
    /// `[collectives]`: algorithms of collectives in replays. Live programs bring those of their MPI library, but for
    /// allreduces that rules give to `exanet-accelerator`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Collectives {
        /// Replay: which algorithms collectives use, as `openmpi`, `mpich` or `mpich3` decide, or a file of rules
        /// (docs/replay.md).
        pub table: String = "openmpi";
        /// Rules that come before those of the table, such as `"bcast *: binary"`.
        pub rules: Vec<String> = [];
    }
}

keys! {
    /// `[message.pscom]`: what ParaStation's pscom4portals reads from its environment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Pscom {
        /// A buffer of the eager queues (PSP_PORTALS_BUFFER_SIZE).
        pub buffer: Bytes = "8192 B", in Bytes(1).., of PSCOM;
        /// Buffers to receive into, for each connection (PSP_PORTALS_RECVQ_SIZE).
        pub receive_buffers: u32 = 16, in 1..=QUEUE_MAX, of PSCOM;
        /// Buffers to send from, for each connection, no more than to receive into (PSP_PORTALS_SENDQ_SIZE).
        pub send_buffers: u32 = 16, in 1..=QUEUE_MAX, of PSCOM;
        /// Shortest message that is not eager (PSP_PORTALS_RENDEZVOUS).
        pub rendezvous: Bytes = "40000 B", in Bytes(1).., of PSCOM;
        /// Long messages that a connection receives at a time (PSP_PORTALS_MAX_RNDV_REQS).
        pub rendezvous_requests: u32 = 4096, in 1..=u32::MAX, of PSCOM;
        /// Longest put of a long message, up to `message.max_portals_message` (PSP_PORTALS_RNDV_FRAGMENT_SIZE).
        pub fragment: Bytes = "1 TiB", in Bytes(1).., of PSCOM;
    }
}

keys! {
    /// `[message.mpc]`: long messages over several rails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mpc {
        /// Shortest message that is cut for several rails.
        pub minimum: Bytes = "512 KiB", of MPC;
        /// How such a message is cut: into fragments, to the rails in turn from the first one; into equal parts, one
        /// for each rail; or into parts in proportion to the rates of the rails.
        pub distribution: Distribution = "fragments", of MPC;
        /// A fragment, up to `message.max_portals_message`; the last one is shorter.
        pub fragment: Bytes = "64 MiB", in Bytes(1).., of MPC;
        /// The rail of the data of a message that is not cut: the next one, or that which would be through with it
        /// first, by its rate and the bytes under way.
        pub rail: RailChoice = "round-robin", of MPC;
        /// CPU time of making the buffer of a long message known to a NIC, at both ends, unless it still is.
        pub registration: SimTime = "0 ns", of MPC;
        /// CPU time of making each 1,024 bytes of such a buffer known to a NIC, in addition to `registration`.
        pub registration_per_kib: SimTime = "0 ns", of MPC;
        /// Bytes of a process below which buffers stay known, first in, first out; at most 1,024 buffers.
        pub registration_cache: Bytes = "4 GiB", of MPC;
    }
}

keys! {
    /// `[message.gateway]`: messages between modules.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gateways {
        /// Between modules: the longest put over a gateway; longer messages are cut, and announced.
        pub fragment: Bytes = "64 KiB", in Bytes(1).., of BRIDGED;
        /// Puts of a process that may be at a gateway.
        pub buffers: u32 = 16, in 1..=4096, of BRIDGED;
        /// Which gateway of several: always the same one between two nodes, or that to which a process has fewest bytes
        /// under way.
        pub choice: GatewayChoice = "static", of BRIDGED;
        /// CPU time of a gateway for each put.
        pub cost: SimTime = "500 ns", of BRIDGED;
        /// CPU time of a gateway for each 1,024 bytes of a put.
        pub per_kib: SimTime = "0 ns", of BRIDGED;
        /// From the death of a gateway (docs/faults.md) until all processes know.
        pub detection: SimTime = "1 ms", of BRIDGED;
    }
}

keys! {
    /// `[message]`: protocol thresholds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Message {
        /// How messages move: as Open MPI and MPICH do over a NIC that matches, as ParaStation's pscom does, or as MPC
        /// does over several rails (docs/protocols.md).
        pub protocol: MessageProtocol = "openmpi";
        /// Longest eager message.
        pub eager_limit: Bytes = "8 KiB", of MATCHED;
        /// Longest message that is copied when it is sent, so that its buffer is free at once; beyond `nic.pio_limit`
        /// the copy takes time.
        pub inject_limit: Bytes = "64 B";
        /// Beyond the eager limit: the receiver gets, or the sender puts.
        pub rendezvous: Rendezvous = "get", of CHOOSING;
        /// One block for unexpected messages.
        pub overflow_block: Bytes = "1 MiB", in Bytes(1).., of MATCHED;
        /// Blocks for unexpected messages that are kept posted.
        pub overflow_blocks: u32 = 8, in 1..=1 << 16, of MATCHED;
        /// Longest put or get; longer messages are cut.
        pub max_portals_message: Bytes = "64 MiB", in Bytes(1)..;
        /// Between modules.
        pub gateway: Gateways => "gateway";
        /// Thresholds of `pscom`.
        pub pscom: Pscom => "pscom";
        /// Thresholds of `mpc`.
        pub mpc: Mpc => "mpc";
    }
}

choice! {
    /// Kinds of NIC.
    pub enum NicKind {
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
        /// APEnetX: descriptors over PCIe ([`narrows_nic::Apenetx`]).
        Apenetx = "apenetx",
        /// caRVnet: RDMA by an engine in hardware ([`narrows_nic::Carvnet`]).
        Carvnet = "carvnet",
    }
}

const EXANET: Only = Only::with("nic.kind", &["exanet"]);

choice! {
    /// What keeps buffers from running over.
    pub enum FlowControl {
        /// The sender knows the free bytes.
        Credits = "credits",
        /// The receiver pauses the sender (IEEE 802.1Qbb).
        Pfc = "pfc",
    }
}
choice! {
    /// What the receiving port of a flow takes.
    pub enum Delivery {
        /// There are no flows: what is lost stays lost.
        None = "none",
        /// The packet that comes next: go-back-N.
        Ordered = "ordered",
        /// Every packet once: selective repeat.
        Unordered = "unordered",
    }
}
choice! {
    /// What goes first at an output.
    pub enum Arbitration {
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
    pub enum Phy {
        /// Links are a rate and a latency.
        None = "none",
        /// Ethernet over four lanes, with RS-FEC (`narrows_phy`).
        Sr4 = "100gbase-sr4",
    }
}
choice! {
    /// What switches tell of what waits.
    pub enum Marking {
        /// Nothing.
        None = "none",
        /// A mark in packets (explicit congestion notification).
        Ecn = "ecn",
    }
}
choice! {
    /// What switches write into packets.
    pub enum Telemetry {
        /// Nothing.
        None = "none",
        /// What they know of their links (in-band network telemetry).
        Int = "int",
    }
}
choice! {
    /// How messages move.
    pub enum MessageProtocol {
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
    pub enum Distribution {
        /// Into fragments of one size, to the rails in turn.
        Fragments = "fragments",
        /// Into equal parts, one for each rail.
        Even = "even",
        /// Into parts as long as the rails are fast, one for each.
        Rates = "rates",
    }
}
/// Those that have what `openmpi` has.
const MATCHED: Only = Only::with("message.protocol", &["openmpi", "mpc", "exanet"]);
/// Those whose rendezvous is a choice.
const CHOOSING: Only = Only::with("message.protocol", &["openmpi", "mpc"]);
/// Those that gateways pass.
const BRIDGED: Only = Only::with("message.protocol", &["openmpi", "pscom", "mpc"]);
const MPC: Only = Only::with("message.protocol", &["mpc"]);
const PSCOM: Only = Only::with("message.protocol", &["pscom"]);
const QUEUE_MAX: u32 = narrows_message::PscomConfig::QUEUE_MAX;
