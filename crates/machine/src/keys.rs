//! Every key of a machine file, once: its path, the field that it fills, its limits, its default
//! and its meaning. Reading, writing, diagnostics and the reference in `docs/machine-files.md` all
//! come from this table.

use crate::congestion::{Congestion, Controls};
use crate::host::HostPattern;
use crate::ip;
use crate::model::*;
use crate::quantity;
use crate::wiring::{self, Topology, TopologyKind};
use narrows_fabric::Fraction;
use narrows_nic::{NicConfig, PcieDetail, Transmit};
use narrows_portals::NiLimits;
use narrows_units::{ByteRate, Bytes, Power, SimTime};
use std::borrow::Cow;
use std::sync::OnceLock;

/// What the keys of a file fill, before it is checked as a whole. Starts with placeholders; a
/// machine leaves it only when every key that applies has been set.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub machine: Machine,
    pub base: String,
    /// Names of the groups, and of the networks.
    pub groups: Vec<String>,
    pub names_of_fabrics: Vec<String>,
    /// What each network says of itself.
    pub fabrics: Vec<(String, Draft)>,
    /// Of the machine's NIC, where it is of a kind that uses it.
    pub nic: NicConfig,
}

/// A place for a value, with the limits that a value has to keep.
pub(crate) enum Field<'a> {
    Text(&'a mut String),
    HostPattern(&'a mut HostPattern),
    Count(&'a mut u32, u32, u32),
    Counts(&'a mut Vec<u32>),
    /// From 0.
    Indices(&'a mut Vec<u32>),
    Texts(&'a mut Vec<String>),
    Speed(&'a mut Speed),
    /// Above 0, and at most so many millionths.
    Fraction(&'a mut Fraction, u32),
    Time(&'a mut SimTime, SimTime),
    Size(&'a mut Bytes, Bytes),
    Rate(&'a mut ByteRate),
    Power(&'a mut Power),
    Choice(&'a mut dyn Choice),
    /// The same for all, or one each.
    Choices(Vec<&'a mut dyn Choice>),
    /// From 0 to 0.1.
    Ber(&'a mut Ber),
    Flag(&'a mut bool),
    PathOrTime(&'a mut PathOr<SimTime>),
    PathOrRate(&'a mut PathOr<ByteRate>),
    SwitchOrTime(&'a mut SwitchOr<SimTime>),
    SwitchOrRate(&'a mut SwitchOr<ByteRate>),
}

/// One key.
pub(crate) struct Key<'a> {
    pub path: Cow<'static, str>,
    pub field: Field<'a>,
    pub doc: &'static str,
    /// As a file would give it, strings with their quotes.
    pub default: Option<Cow<'static, str>>,
    /// The key that gives the value where this one is not given.
    pub otherwise: Option<&'static str>,
    pub only: Only,
}

/// Which machines have a key.
#[derive(Clone, Debug)]
pub(crate) enum Only {
    All,
    /// Those with one of these values of `topology.kind`.
    Topology(Vec<TopologyKind>),
    /// ... of `nic.kind`.
    Nic(&'static [NicKind]),
    /// ... of `message.protocol`.
    Protocol(&'static [MessageProtocol]),
}

/// Keys of earlier versions, and what a file says today.
pub(crate) const FORMER: &[(&str, &str)] =
    &[("nic.max_war_ordered_size", "delete the line: writes after reads are never ordered, as on BXI")];

/// What decides which keys a machine has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    pub topology: TopologyKind,
    pub nic: NicKind,
    pub protocol: MessageProtocol,
}

impl Kinds {
    /// The value of a key that decides.
    pub(crate) fn value_of(self, selector: &str) -> &'static str {
        match selector {
            "nic.kind" => self.nic.name(),
            "message.protocol" => self.protocol.name(),
            _ => self.topology.name(),
        }
    }
}

impl Only {
    /// The key that decides, and its values that have the key.
    pub(crate) fn owners(&self) -> Option<(&'static str, Vec<&'static str>)> {
        match self {
            Only::All => None,
            Only::Topology(kinds) => Some(("topology.kind", kinds.iter().map(|kind| kind.name()).collect())),
            Only::Nic(kinds) => Some(("nic.kind", kinds.iter().map(|kind| kind.name()).collect())),
            Only::Protocol(protocols) => Some(("message.protocol", protocols.iter().map(|protocol| protocol.name()).collect())),
        }
    }
}

impl Key<'_> {
    pub(crate) fn default(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        self.default = Some(text.into());
        self
    }

    fn of_nics(mut self, kinds: &'static [NicKind]) -> Self {
        self.only = Only::Nic(kinds);
        self
    }

    fn of_protocols(mut self, protocols: &'static [MessageProtocol]) -> Self {
        self.only = Only::Protocol(protocols);
        self
    }

    /// Whether a machine of these kinds has the key.
    pub(crate) fn applies_to(&self, kinds: Kinds) -> bool {
        match &self.only {
            Only::All => true,
            Only::Topology(having) => having.contains(&kinds.topology),
            Only::Nic(having) => having.contains(&kinds.nic),
            Only::Protocol(having) => having.contains(&kinds.protocol),
        }
    }

    /// The section of this key.
    pub(crate) fn section(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within the section.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }
}

/// Longest time of a machine file, 1 s: keeps sums far below 2^64 ps, and values exact as decimals.
pub(crate) const TIME_MAX: SimTime = SimTime(1_000_000_000_000);
/// Largest size: 1 PiB.
pub(crate) const SIZE_MAX: Bytes = Bytes(1 << 50);
/// Lowest bandwidth, 1 MB/s: what the flow network's solver can tell from nothing.
pub(crate) const RATE_MIN: ByteRate = ByteRate(1_000_000);
/// Highest bandwidth: 100 TB/s, what the flow network's solver can hold.
pub(crate) const RATE_MAX: ByteRate = ByteRate(100_000_000_000_000);
/// Most power of a part: 1 MW.
pub(crate) const POWER_MAX: Power = Power(1_000_000_000_000);
/// Largest packet: 1 GiB, what the packet network can hold.
pub(crate) const PACKET_MAX: Bytes = Bytes(1 << 30);
/// Most nodes: keeps ordering keys of hosts and switches within the engine's 22 bits.
pub(crate) const NODES_MAX: u32 = 1 << 20;

pub(crate) fn key<'a>(path: &'static str, field: Field<'a>, doc: &'static str) -> Key<'a> {
    let only = match wiring::owners(path) {
        kinds if kinds.is_empty() => Only::All,
        kinds => Only::Topology(kinds),
    };
    Key { path: Cow::Borrowed(path), field, doc, default: None, otherwise: None, only }
}

pub(crate) fn time<'a>(path: &'static str, field: &'a mut SimTime, doc: &'static str) -> Key<'a> {
    key(path, Field::Time(field, SimTime::ZERO), doc)
}

pub(crate) fn fraction<'a>(path: &'static str, field: &'a mut Fraction, doc: &'static str) -> Key<'a> {
    key(path, Field::Fraction(field, 1_000_000), doc)
}

pub(crate) fn size<'a>(path: &'static str, field: &'a mut Bytes, least: u64, doc: &'static str) -> Key<'a> {
    key(path, Field::Size(field, Bytes(least)), doc)
}

pub(crate) fn rate<'a>(path: &'static str, field: &'a mut ByteRate, doc: &'static str) -> Key<'a> {
    key(path, Field::Rate(field), doc)
}

fn power<'a>(path: &'static str, field: &'a mut Power, doc: &'static str) -> Key<'a> {
    key(path, Field::Power(field), doc).default("\"0 W\"")
}

pub(crate) fn count<'a>(path: &'static str, field: &'a mut u32, least: u32, most: u32, doc: &'static str) -> Key<'a> {
    key(path, Field::Count(field, least, most), doc)
}

const MATCHED: &[MessageProtocol] = MessageProtocol::MATCHED;
const PSCOM: &[MessageProtocol] = &[MessageProtocol::Pscom];
/// Those whose rendezvous is a choice.
const CHOOSING: &[MessageProtocol] = &[MessageProtocol::Openmpi, MessageProtocol::Mpc];
/// Those that gateways pass.
const BRIDGED: &[MessageProtocol] = &[MessageProtocol::Openmpi, MessageProtocol::Pscom, MessageProtocol::Mpc];
const MPC: &[MessageProtocol] = &[MessageProtocol::Mpc];
/// Most rails.
const RAILS_MAX: u32 = narrows_message::Rails::MAX as u32;
const QUEUE_MAX: u32 = narrows_message::PscomConfig::QUEUE_MAX;
/// Limits of a NIC of which a file says nothing.
const NIC: NiLimits = NiLimits::BXI_V2;

fn quoted(value: Bytes) -> String {
    format!("\"{}\"", quantity::size(value))
}

/// The table. Defaults of `[nic]` are those of BXI v2 (portals4.md section 5; `machines/bxi-v2.toml`
/// has the source of each); the others are our own choices, explained in that file too.
#[rustfmt::skip]
pub(crate) fn table(draft: &mut Draft) -> Vec<Key<'_>> {
    let Draft { machine: m, base, groups, names_of_fabrics, fabrics, nic } = draft;
    let Topology { kind, k, n, children, parents, parallel, p, a, h, g, arrangement, lengths, board, boards, hosts_per_switch, cables, leaves, spines, path, text: _ } = &mut m.topology;
    const MATCHING: &[NicKind] = NicKind::MATCHING;
    const EXANET: &[NicKind] = &[NicKind::Exanet];
    const TCP: &[NicKind] = &[NicKind::Tcp];
    let mut keys = vec![
        key("machine.name", Field::Text(&mut m.name), "Short name, for reports: one line"),
        key("machine.description", Field::Text(&mut m.description), "One line on what it stands for").default("\"\""),
        key("machine.source", Field::Text(&mut m.source), "Where its constants come from").default("\"\""),
        key("machine.base", Field::Text(base), "A preset, or another machine file (its path from this one), that gives every key which this file does not").default("\"\""),
        key("machine.groups", Field::Texts(groups), "Parts of the machine with nodes of their own, `[group.NAME]` each, in the order of the nodes").default("[]"),
        key("machine.fabrics", Field::Texts(names_of_fabrics), "Networks that differ, `[fabric.NAME.network]`, `[fabric.NAME.nic]` and so on each; what they do not say is as in the sections without a name").default("[]"),
    ];
    let Node { count: nodes, cores, speed, fabrics: joined, gateway, memory, host_name, software, power: of_node } = &mut m.node;
    keys.extend(node_keys(nodes, cores, speed, joined, gateway, memory, host_name));
    keys.extend([
        count("node.rails", &mut m.rails, 1, RAILS_MAX, "Ports of a node on each network that it joins: as many equal planes of it, which share nothing").default("1"),
        key("node.pcie.latency", Field::Time(&mut nic.pcie_latency, SimTime(1)), "One way, host to NIC or NIC to host"),
        rate("node.pcie.bandwidth", &mut nic.pcie_rate, "Per direction, for commands, events and read requests"),
        rate("node.pcie.data_bandwidth", &mut m.nic.data_bandwidth, "Per direction, for payload (the bandwidth less the protocol's share)"),

        time("node.intra.latency", &mut m.intra.latency, "Between two ranks of one node: NIC out to NIC in"),
        rate("node.intra.bandwidth", &mut m.intra.bandwidth, "Between ranks of one node, shared by all of them"),

        key("nic.kind", Field::Choice(&mut m.nic.kind), "Which NIC this is: one that matches, as those of BXI do (the name says whose constants these are; the defaults are those of `bxi-v2`), a `mailbox`, which stores and forwards, below Portals in software, that of ExaNeSt, `exanet`, or `tcp`, TCP over Ethernet, below the same").default("\"bxi-v2\""),
        size("nic.command_size", &mut nic.command_size, 1, "One command").default("\"64 B\""),
        size("nic.event_size", &mut nic.event_size, 1, "One full event").default("\"96 B\""),
        size("nic.count_size", &mut nic.count_size, 1, "One update of a counting event").default("\"16 B\""),
        size("nic.ack_size", &mut nic.ack_size, 0, "An acknowledgement on the wire").default("\"32 B\"").of_nics(MATCHING),
        size("nic.inline_limit", &mut nic.inline_limit, 0, "Payload inside the command").default("\"8 B\"").of_nics(MATCHING),
        size("nic.pio_limit", &mut nic.pio_limit, 0, "Payload that the CPU writes behind the command, of volatile memory descriptors").default("\"408 B\"").of_nics(MATCHING),
        size("nic.match_bits_size", &mut nic.match_bits_size, 0, "Both limits are so much higher on interfaces without matching").default("\"8 B\"").of_nics(MATCHING),
        size("nic.buffered_limit", &mut nic.buffered_limit, 0, "Puts up to here are copied into the NIC: SEND at once").default("\"64 B\"").of_nics(MATCHING),
        time("nic.dma_latency", &mut nic.dma_latency, "DMA read: constant part before its first packet").default("\"200 ns\"").of_nics(MATCHING),
        size("nic.dma_first_packet", &mut m.nic.dma_first_packet, 1, "Packets over PCIe: a message goes on to the network when so much of it was read, and into memory when so much has come").default("\"512 B\"").of_nics(MATCHING),
        key("nic.transmit", Field::Choice(&mut nic.transmit), "Messages that a NIC reads out of memory: their packets take turns, one leaves behind the other, or one is read when the other has left (packets only take turns elsewhere than under `--network packet`)").default("\"in-order\"").of_nics(MATCHING),
        count("nic.packet_rate", &mut m.nic.packet_rate, 0, 1 << 31, "Packets per second that a NIC sends at most, acknowledgements among them; 0: as many as its link takes").default("0"),
        time("nic.put_occupancy", &mut nic.put_occupancy, "The initiator's NIC is busy per put").default("\"10 ns\"").of_nics(MATCHING),
        time("nic.get_occupancy", &mut nic.get_occupancy, "... per get request").default("\"10 ns\"").of_nics(MATCHING),
        time("nic.response_occupancy", &mut nic.response_occupancy, "... per response").default("\"10 ns\"").of_nics(MATCHING),
        time("nic.ack_occupancy", &mut nic.ack_occupancy, "... per acknowledgement").default("\"10 ns\"").of_nics(MATCHING),
        time("nic.match_base", &mut nic.match_base, "Matching a message: constant part").default("\"0 ns\""),
        time("nic.match_per_entry", &mut nic.match_per_entry, "Matching a message: per list entry visited").default("\"2 ns\""),
        count("nic.max_unexpected_headers", &mut nic.limits.max_unexpected_headers, 1, 1 << 24, "Unexpected headers per process").default(NIC.max_unexpected_headers.to_string()),
        count("nic.max_entries", &mut nic.limits.max_entries, 1, 1 << 24, "Matching entries per process").default(NIC.max_entries.to_string()),
        count("nic.max_outstanding", &mut nic.max_outstanding, 1, 1 << 24, "Messages of a NIC that may wait for their end-to-end acknowledgement").default("8192").of_nics(MATCHING),
        count("nic.max_in_flight_to_node", &mut nic.max_in_flight_to_node, 0, 1 << 24, "Of these, those to one node; 0: no limit").default("0").of_nics(MATCHING),
        count("nic.max_in_flight_to_process", &mut nic.max_in_flight_to_process, 0, 1 << 24, "Of these, those from one process to another; 0: no limit").default("0").of_nics(MATCHING),
        key("nic.retry_interval", Field::Time(&mut nic.retry_interval, SimTime(1)), "Pause before a refused message is sent again").default("\"2 us\""),
        time("nic.trigger_time", &mut nic.trigger_time, "A triggered operation: from its counting event to its start").default("\"20 ns\""),
        time("nic.atomic_occupancy", &mut nic.atomic_occupancy, "The atomic unit begins one operation in this time").default("\"10 ns\"").of_nics(MATCHING),
        key("nic.quick_ack", Field::Flag(&mut nic.quick_ack), "Acknowledgements load neither NIC nor network: fewer events, less exact").default("false").of_nics(MATCHING),
        count("nic.max_mds", &mut nic.limits.max_mds, 1, 1 << 20, "Memory descriptors of a network interface").default(NIC.max_mds.to_string()),
        count("nic.max_cts", &mut nic.limits.max_cts, 1, 1 << 15, "Counting events of a network interface").default(NIC.max_cts.to_string()),
        count("nic.max_eqs", &mut nic.limits.max_eqs, 1, 1 << 15, "Event queues of a network interface").default(NIC.max_eqs.to_string()),
        count("nic.max_iovecs", &mut nic.limits.max_iovecs, 0, 1 << 20, "Segments of a memory descriptor or list entry").default(NIC.max_iovecs.to_string()),
        count("nic.max_list_size", &mut nic.limits.max_list_size, 1, 1 << 24, "Entries of one list, as programs are told").default(NIC.max_list_size.to_string()),
        count("nic.max_triggered_ops", &mut nic.limits.max_triggered_ops, 0, 1 << 24, "Triggered operations of a network interface that may wait").default(NIC.max_triggered_ops.to_string()),
        size("nic.max_atomic_size", &mut nic.limits.max_atomic_size, 32, "Longest atomic").default(quoted(NIC.max_atomic_size)),
        size("nic.max_fetch_atomic_size", &mut nic.limits.max_fetch_atomic_size, 32, "Longest fetching atomic or swap").default(quoted(NIC.max_fetch_atomic_size)),
        size("nic.max_waw_ordered_size", &mut nic.limits.max_waw_ordered_size, 0, "Longest operations whose writes after writes are in order, and said to be so").default(quoted(NIC.max_waw_ordered_size)),
        key("nic.pcie.detail", Field::Choice(&mut nic.pcie_detail), "Commands and events share the bandwidth of PCIe, or only have its latency").default("\"full\"").of_nics(MATCHING),

        count("nic.exanet.interfaces", &mut m.nic.exanet.interfaces, 1, 1 << 16, "Of packetizer and mailbox: each process of a node takes one").default("64").of_nics(EXANET),
        count("nic.exanet.channels", &mut m.nic.exanet.channels, 1, 1 << 16, "Of a packetizer interface: messages of a process that may wait for their acknowledgement").default("4").of_nics(EXANET),
        size("nic.exanet.short_limit", &mut m.nic.exanet.short_limit, 0, "Longest payload that goes through packetizer and mailbox; longer ones by RDMA").default("\"32 B\"").of_nics(EXANET),
        size("nic.exanet.header", &mut m.nic.exanet.header, 0, "Bytes of such a message beside its payload").default("\"24 B\"").of_nics(EXANET),
        time("nic.exanet.packetizer", &mut m.nic.exanet.packetizer, "From the last store of a message to its cell on the way: the packetizer reads one after the other").of_nics(EXANET),
        time("nic.exanet.mailbox", &mut m.nic.exanet.mailbox, "The mailbox copies a message to memory, one after the other").of_nics(EXANET),
        size("nic.exanet.block", &mut m.nic.exanet.block, 4096, "A block of a transfer").default("\"16 KiB\"").of_nics(EXANET),
        time("nic.exanet.rdma_start", &mut m.nic.exanet.rdma_start, "The firmware, which serves one thing after the other, starts a transfer").of_nics(EXANET),
        time("nic.exanet.rdma_block", &mut m.nic.exanet.rdma_block, "... a further block, when the one before has been read").of_nics(EXANET),
        time("nic.exanet.rdma_done", &mut m.nic.exanet.rdma_done, "... is busy with the acknowledgement of a block, which the process sees at once").of_nics(EXANET),
        time("nic.exanet.reduce_start", &mut m.nic.exanet.reduce_start, "The allreduce accelerator's client module starts a block of at most 256 B").of_nics(EXANET),
        count("nic.exanet.rdma_channels", &mut m.nic.exanet.rdma_channels, 1, 1 << 20, "Transfers of a node at once; others wait").default("512").of_nics(EXANET),
        count("nic.exanet.mailbox_room", &mut m.nic.exanet.mailbox_room, 0, 1 << 20, "Messages in the mailbox of a process at most: what comes to a full one is refused (NACK) and sent again; 0: as many as come").default("0").of_nics(EXANET),
        time("nic.exanet.resend", &mut m.nic.exanet.resend, "From a refusal to the message's next try").default("\"1 us\"").of_nics(EXANET),
        time("nic.exanet.timeout", &mut m.nic.exanet.timeout, "The packetizer sends a message again if it has heard nothing for so long; 0: it has no timer").default("\"0 ns\"").of_nics(EXANET),
        count("nic.exanet.page_faults", &mut m.nic.exanet.page_faults, 0, 1_000_000, "Of a million blocks so many find no page at their target when they come first, and are sent again").default("0").of_nics(EXANET),
        time("nic.exanet.fault_time", &mut m.nic.exanet.fault_time, "Until the operating system has made the page of a block").default("\"10 us\"").of_nics(EXANET),
        key("nic.exanet.domains", Field::Indices(&mut m.nic.exanet.domains), "Protection domain of each rank, 0 to 65535, of several traces one after the other: a NIC refuses what comes from another domain; []: all in domain 0").default("[]").of_nics(EXANET),
        rate("nic.exanet.reduce_rate", &mut m.nic.exanet.reduce_rate, "The accelerator's server module takes vectors, one after the other").of_nics(EXANET),
        // Our own choice: half a round trip of some 12 us, as TCP has on Ethernet of 10 to 25 Gb/s.
        time("nic.tcp.message", &mut m.nic.tcp.message, "At each end the core that runs the operating system's stack takes so long for a message: the system call, the wake-up").default("\"4500 ns\"").of_nics(TCP),
        // What Linux hands to a NIC at a time (GSO_MAX_SIZE).
        size("nic.tcp.segment", &mut m.nic.tcp.segment, 1, "Messages are cut into segments, which the NIC cuts into packets").default("\"64 KiB\"").of_nics(TCP),
        // The split is our own choice; together some 42 Gb/s, what one core takes (Cai et al., "Understanding Host
        // Network Stack Overheads", SIGCOMM 2021; quoted from memory).
        time("nic.tcp.segment_time", &mut m.nic.tcp.segment_time, "... for a segment").default("\"1 us\"").of_nics(TCP),
        rate("nic.tcp.rate", &mut m.nic.tcp.rate, "... copies bytes at this rate").default("\"5.7 GB/s\"").of_nics(TCP),

        key("network.kind", Field::Choice(&mut m.network.kind), "The model, unless `--network` says otherwise").default("\"packet\""),
        size("network.mtu", &mut m.network.mtu, 1, "Most payload of one packet"),
        size("network.header", &mut m.network.header, 1, "Header bytes of a packet on the wire"),
        count("network.virtual_channels", &mut m.network.virtual_channels, 1, 16, "Virtual channels of each of the four virtual networks").default("1"),
        size("network.buffer", &mut m.network.buffer, 1, "Input buffer of each virtual channel of each port"),
        size("network.rail_minimum", &mut m.network.rail_minimum, 0, "Messages shorter than this do not take its rails, if there are others; the first rail takes all").default("\"0 B\"").of_protocols(MPC),
        count("network.read_window", &mut m.network.read_window, 1, 1 << 16, "Packets that a NIC reads from memory ahead of its link, per virtual network").default("4"),
        key("network.routing", Field::Choice(&mut m.network.routing), "The way through the network; `minimal` is each topology's own").default("\"minimal\""),
        size("network.ugal_threshold", &mut m.network.ugal_threshold, 0, "UGAL and PAR: bytes more that may wait on the minimal way, for each of its links").default("\"0 B\""),

        key("network.flow_control", Field::Choice(&mut m.network.flow_control), "What keeps buffers from running over: credits, or pause frames (IEEE 802.1Qbb), under which packets can be lost").default("\"credits\""),
        key("network.congestion", Field::Choices(m.network.congestion.iter_mut().map(|congestion| congestion as &mut dyn Choice).collect()), "How fast ports send on a flow, where they number packets (`network.reliability.delivery`): as window and link let them (with PAUSE or without), at a fixed rate at most, or as a congestion control says; with a list each virtual network has its own ([congestion.md](congestion.md))").default("\"none\""),
        key("network.faults", Field::Texts(&mut m.network.faults), "Links that lose, break, repeat or delay packets or are slow, switches that die, NICs that are reset (docs/faults.md), such as `\"link=leaf0:7 loss=1e-4 from=1ms to=2ms\"`; without `link` all of them. `--fault` says others in their place").default("[]"),

        size("network.pfc.xoff", &mut m.network.pfc.xoff, 0, "A virtual channel that holds this much is paused; `0 B`: `network.buffer` less the headroom that nothing is lost with").default("\"0 B\""),
        size("network.pfc.xon", &mut m.network.pfc.xon, 0, "It may go on at this much; `0 B`: two packets below `xoff`").default("\"0 B\""),
        count("network.pfc.quanta", &mut m.network.pfc.quanta, 1, 65535, "What a pause frame is worth, in 512 bit times of the link; repeated at half of it").default("65535"),
        key("network.pfc.frame", Field::Size(&mut m.network.pfc.frame, Bytes(1)), "A pause frame on the wire, with preamble and gap").default("\"84 B\""),
        time("network.pfc.response", &mut m.network.pfc.response, "From the arrival of a pause frame to its effect").default("\"0 ns\""),
        key("network.pfc.resend_after", Field::Time(&mut m.network.pfc.resend_after, SimTime(1)), "The NIC sends a lost packet again after this time").default("\"50 us\""),

        key("network.reliability.delivery", Field::Choice(&mut m.network.reliability.delivery), "Ports number their packets and send again what is lost: `ordered` takes the next packet only (go-back-N), `unordered` every one once (selective repeat); `none`: nothing may be lost").default("\"none\""),
        key("network.reliability.unordered", Field::Indices(&mut m.network.reliability.unordered), "Virtual networks, 0 to 3, whose flows are unordered beside ordered ones; the NICs of BXI send requests in 0 and responses in 1").default("[]"),
        count("network.reliability.window", &mut m.network.reliability.window, 1, 1 << 15, "Packets to one port that may wait for their acknowledgement").default("1024"),
        count("network.reliability.room", &mut m.network.reliability.room, 0, 1 << 22, "Packets without one that a NIC holds of all its flows in a virtual network; 0: no limit").default("0"),
        count("network.reliability.flows", &mut m.network.reliability.flows, 0, 1 << 22, "Flows in a virtual network that may wait for acknowledgements at a time, of a NIC: others wait until one has all of its own; 0: no limit").default("0"),
        key("network.reliability.timeout", Field::Time(&mut m.network.reliability.timeout, SimTime(1)), "Without an acknowledgement for this time, packets are sent again").default("\"100 us\""),
        count("network.reliability.retries", &mut m.network.reliability.retries, 0, 1 << 16, "So many times in a row; then the run ends").default("7"),
        key("network.reliability.ack", Field::Size(&mut m.network.reliability.ack, Bytes(1)), "An acknowledgement on the wire, with preamble and gap").default("\"84 B\""),
        count("network.reliability.fcs", &mut m.network.reliability.fcs, 0, 32, "Bits of the check sum of frames, which is made anew for each link; 0: there is none").default("32"),
        count("network.reliability.crc", &mut m.network.reliability.crc, 0, 32, "Bits of the check sum of the payload, from NIC to NIC").default("32"),
    ]);
    keys.extend(m.network.controls.keys());
    keys.extend([
        size("network.flow.direct_limit", &mut m.network.flow.direct_limit, 0, "Messages up to here, and up to one packet in any case, share no links").default("\"0 B\""),

        key("network.loggp.latency", Field::PathOrTime(&mut m.network.loggp.latency), "L: a time for all pairs, or the sum over the path").default("\"path\""),
        time("network.loggp.gap", &mut m.network.loggp.gap, "g: least time between two messages of a NIC"),
        key("network.loggp.bandwidth", Field::PathOrRate(&mut m.network.loggp.bandwidth), "1/G: a bandwidth for all pairs, or the narrowest stage of the path").default("\"path\""),

        key("link.phy", Field::Choice(&mut m.link.phy), "What carries the bits of all links. `100gbase-sr4`: rates are that of its MAC in place of `bandwidth`, latencies and packets are longer by what it takes, frames are lost by `ber` (docs/phy.md)").default("\"none\""),
        key("link.ber", Field::Ber(&mut m.link.ber), "With a phy: the probability that a bit on a lane turns over").default("0"),

        time("link.host.latency", &mut m.link.host.latency, "Link between NIC and switch"),
        rate("link.host.bandwidth", &mut m.link.host.bandwidth, "Link between NIC and switch, per direction"),
        time("link.switch.latency", &mut m.link.switch.latency, "Link between two switches"),
        rate("link.switch.bandwidth", &mut m.link.switch.bandwidth, "Link between two switches, per direction and cable"),
        key("link.global.latency", Field::SwitchOrTime(&mut m.link.global.latency), "Link between switches of different groups").default("\"switch\""),
        key("link.global.bandwidth", Field::SwitchOrRate(&mut m.link.global.bandwidth), "Link between switches of different groups, per direction and cable").default("\"switch\""),
        time("link.global.entry", &mut m.link.global.entry, "A packet that goes from another link to a global one waits so long at the switch, beside its latency").default("\"0 ns\""),
        time("link.global.change", &mut m.link.global.change, "The same, the first time, from a global link to another one between switches, or back").default("\"0 ns\""),

        time("switch.latency", &mut m.switch.latency, "Header in to header out, without contention"),
        count("switch.radix", &mut m.switch.radix, 2, 1 << 16, "Ports of a switch"),
        key("switch.forwarding", Field::Choice(&mut m.switch.forwarding), "A packet goes on when its header is there, or when all of it is").default("\"cut-through\""),
        key("switch.queueing", Field::Choice(&mut m.switch.queueing), "Input buffers: virtual output queues, or first in, first out per virtual channel").default("\"voq\""),
        count("switch.speedup", &mut m.switch.speedup, 0, 64, "With virtual output queues: how many times the rate of its link an input is read by all outputs together; 0: as fast as they ask").default("0"),
        key("switch.arbitration", Field::Choice(&mut m.switch.arbitration), "At an output (`\"output\"` is the default): virtual channels and inputs in turn, the packet that left its NIC first, or virtual networks by `weights`; or all outputs and inputs of a switch matched together, by `islip` (`\"islip:4\"`: in so many `iterations`) or `wavefront`, where an input sends one packet at a time").default("\"round-robin\""),
        count("switch.iterations", &mut m.switch.iterations, 1, 16, "Of `islip`").default("1"),
        key("switch.weights", Field::Counts(&mut m.switch.weights), "Of the virtual networks 0 to 3 (compute request and response, service request and response), with weighted arbitration; 1 for those not listed").default("[]"),
        key("switch.strict_priority", Field::Indices(&mut m.switch.strict_priority), "Virtual networks, 0 to 3, that come before all others").default("[]"),
        key("switch.marking", Field::Choice(&mut m.switch.marking), "Switches mark packets by what waits for their output: congestion controls that follow marks need it").default("\"none\""),
        size("switch.mark_min", &mut m.switch.mark_min, 0, "With `ecn`: nothing is marked with so many bytes in the queue").default("\"5 KB\""),
        size("switch.mark_max", &mut m.switch.mark_max, 0, "Everything above this").default("\"200 KB\""),
        fraction("switch.mark_probability", &mut m.switch.mark_probability, "At `mark_max`, from 0 at `mark_min`").default("0.01"),
        key("switch.telemetry", Field::Choice(&mut m.switch.telemetry), "Switches write into packets what they know of their links (in-band network telemetry): `hpcc` needs it").default("\"none\""),
        size("switch.telemetry_size", &mut m.switch.telemetry_size, 0, "With `int`: bytes more of packets and ACKs").default("\"42 B\""),

        key("topology.kind", Field::Choice(kind), "The wiring. `fat-tree`: the smallest one of full bisection for `node.count`"),
        count("topology.k", k, 1, 1 << 15, "Links down, and up, of a switch"),
        count("topology.n", n, 1, 8, "Levels of switches"),
        key("topology.children", Field::Counts(children), "m: children of a switch, per level from the hosts up"),
        key("topology.parents", Field::Counts(parents), "w: parents of each child, per level from the hosts up"),
        key("topology.parallel", Field::Counts(parallel), "p: cables between a child and each parent, per level"),
        count("topology.p", p, 1, 1 << 15, "Hosts per router"),
        count("topology.a", a, 1, 1 << 15, "Routers per group"),
        count("topology.h", h, 1, 1 << 15, "Global links per router (dragonfly-plus: per spine)"),
        count("topology.g", g, 1, 1 << 20, "Groups"),
        key("topology.arrangement", Field::Choice(arrangement), "The group that global port d of group i leads to: i + d + 1, i - d - 1, or d (d + 1 from i on)").default("\"consecutive\""),
        key("topology.lengths", Field::Counts(lengths), "Switches (exanest: boards) along each dimension"),
        count("topology.board", board, 1, 1 << 10, "Switches of a board, cabled to each other; the first one has its torus links").default("4"),
        key("topology.boards", Field::Choice(boards), "Boards along a dimension are a ring, or each is cabled to each").default("\"torus\""),
        count("topology.hosts_per_switch", hosts_per_switch, 1, 1 << 15, "Hosts of each switch (of each leaf)").default("1"),
        count("topology.cables", cables, 1, 1 << 10, "Parallel cables between two switches; not between groups").default("1"),
        count("topology.leaves", leaves, 1, 1 << 15, "Leaf switches (dragonfly-plus: of a group)"),
        count("topology.spines", spines, 1, 1 << 15, "Spine switches (dragonfly-plus: of a group)"),
        key("topology.path", Field::Text(path), "A graph file; a path that is not absolute starts where the program was started"),
        key("topology.failed_links", Field::Texts(&mut m.failed.links), "Cables between switches that are out of order: `\"3-17\"` or `\"leaf3-spine1\"`, with `#0` behind it for the first of several").default("[]"),
        key("topology.failed_switches", Field::Indices(&mut m.failed.switches), "Switches that are out of order; they may have no hosts").default("[]"),

    ]);
    keys.extend(software_keys(software));
    keys.extend([
        time("software.launcher_barrier", &mut m.system.launcher_barrier, "A barrier over the launcher (PMI, PMIx) of a program without MPI").default("\"100 us\""),
        time("software.socket_latency", &mut m.system.socket_latency, "From a write to a socket or pipe of the host until another rank can read it").default("\"20 us\""),

        key("message.protocol", Field::Choice(&mut m.message.protocol), "How messages move: as Open MPI and MPICH do over a NIC that matches, as ParaStation's pscom does, or as MPC does over several rails (docs/protocols.md)").default("\"openmpi\""),
        size("message.eager_limit", &mut m.message.eager_limit, 0, "Longest eager message").default("\"8 KiB\"").of_protocols(MATCHED),
        size("message.inject_limit", &mut m.message.inject_limit, 0, "Longest message that is copied when it is sent, so that its buffer is free at once; beyond `nic.pio_limit` the copy takes time").default("\"64 B\""),
        key("message.rendezvous", Field::Choice(&mut m.message.rendezvous), "Beyond the eager limit: the receiver gets, or the sender puts").default("\"get\"").of_protocols(CHOOSING),
        size("message.overflow_block", &mut m.message.overflow_block, 1, "One block for unexpected messages").default("\"1 MiB\"").of_protocols(MATCHED),
        count("message.overflow_blocks", &mut m.message.overflow_blocks, 1, 1 << 16, "Blocks for unexpected messages that are kept posted").default("8").of_protocols(MATCHED),
        size("message.max_portals_message", &mut m.message.max_portals_message, 1, "Longest put or get; longer messages are cut").default("\"64 MiB\""),
        size("message.gateway.fragment", &mut m.message.gateway.fragment, 1, "Between modules: the longest put over a gateway; longer messages are cut, and announced").default("\"64 KiB\"").of_protocols(BRIDGED),
        count("message.gateway.buffers", &mut m.message.gateway.buffers, 1, 4096, "Puts of a process that may be at a gateway").default("16").of_protocols(BRIDGED),
        key("message.gateway.choice", Field::Choice(&mut m.message.gateway.choice), "Which gateway of several: always the same one between two nodes, or that to which a process has fewest bytes under way").default("\"static\"").of_protocols(BRIDGED),
        time("message.gateway.cost", &mut m.message.gateway.cost, "CPU time of a gateway for each put").default("\"500 ns\"").of_protocols(BRIDGED),
        time("message.gateway.per_kib", &mut m.message.gateway.per_kib, "... and for each 1,024 bytes of it").default("\"0 ns\"").of_protocols(BRIDGED),
        time("message.gateway.detection", &mut m.message.gateway.detection, "From the death of a gateway (docs/faults.md) until all processes know").default("\"1 ms\"").of_protocols(BRIDGED),
        size("message.pscom.buffer", &mut m.message.pscom.buffer, 1, "A buffer of the eager queues (PSP_PORTALS_BUFFER_SIZE)").default("\"8192 B\"").of_protocols(PSCOM),
        count("message.pscom.receive_buffers", &mut m.message.pscom.receive_buffers, 1, QUEUE_MAX, "Buffers to receive into, for each connection (PSP_PORTALS_RECVQ_SIZE)").default("16").of_protocols(PSCOM),
        count("message.pscom.send_buffers", &mut m.message.pscom.send_buffers, 1, QUEUE_MAX, "Buffers to send from, for each connection, no more than to receive into (PSP_PORTALS_SENDQ_SIZE)").default("16").of_protocols(PSCOM),
        size("message.pscom.rendezvous", &mut m.message.pscom.rendezvous, 1, "Shortest message that is not eager (PSP_PORTALS_RENDEZVOUS)").default("\"40000 B\"").of_protocols(PSCOM),
        count("message.pscom.rendezvous_requests", &mut m.message.pscom.rendezvous_requests, 1, u32::MAX, "Long messages that a connection receives at a time (PSP_PORTALS_MAX_RNDV_REQS)").default("4096").of_protocols(PSCOM),
        size("message.pscom.fragment", &mut m.message.pscom.fragment, 1, "Longest put of a long message, up to `message.max_portals_message` (PSP_PORTALS_RNDV_FRAGMENT_SIZE)").default("\"1 TiB\"").of_protocols(PSCOM),
        size("message.mpc.minimum", &mut m.message.mpc.minimum, 0, "Shortest message that is cut for several rails").default("\"512 KiB\"").of_protocols(MPC),
        key("message.mpc.distribution", Field::Choice(&mut m.message.mpc.distribution), "How: into fragments, to the rails in turn from the first one; into equal parts, one for each; or into parts as long as the rails are fast").default("\"fragments\"").of_protocols(MPC),
        size("message.mpc.fragment", &mut m.message.mpc.fragment, 1, "A fragment, up to `message.max_portals_message`; the last one is shorter").default("\"64 MiB\"").of_protocols(MPC),
        key("message.mpc.rail", Field::Choice(&mut m.message.mpc.rail), "The rail of the data of a message that is not cut: the next one, or that which would be through with it first, by its rate and the bytes under way").default("\"round-robin\"").of_protocols(MPC),
        time("message.mpc.registration", &mut m.message.mpc.registration, "CPU time of making the buffer of a long message known to a NIC, at both ends, unless it still is").default("\"0 ns\"").of_protocols(MPC),
        time("message.mpc.registration_per_kib", &mut m.message.mpc.registration_per_kib, "... and for each 1,024 bytes of it").default("\"0 ns\"").of_protocols(MPC),
        size("message.mpc.registration_cache", &mut m.message.mpc.registration_cache, 0, "Bytes of a process below which buffers stay known, first in, first out; at most 1,024 buffers").default("\"4 GiB\"").of_protocols(MPC),

        key("collectives.table", Field::Text(&mut m.collectives.table), "Replay: which algorithms collectives use, as `openmpi` or `mpich` decide, or a file of rules (docs/replay.md)").default("\"openmpi\""),
        key("collectives.rules", Field::Texts(&mut m.collectives.rules), "Rules that come before those of the table, such as `\"bcast *: binary\"`").default("[]"),
    ]);
    keys.extend(ip::keys(&mut m.ip));
    keys.extend(power_keys(of_node));
    let NetworkPower { nic: of_nic, switch: of_switch, cable: of_cable } = &mut m.power;
    keys.extend([
        power("power.nic", of_nic, "A NIC of a node with ranks, one for each port"),
        power("power.switch", of_switch, "A switch, of all that there are"),
        power("power.cable", of_cable, "A cable with both of its ends, of all that there are"),
    ]);
    for Group { name, node } in &mut m.groups {
        let Node { count, cores, speed, fabrics, gateway, memory, host_name, software, power } = node;
        keys.extend(node_keys(count, cores, speed, fabrics, gateway, memory, host_name).map(|key| of_group(key, name)));
        keys.extend(software_keys(software).map(|key| of_group(key, name)));
        keys.extend(power_keys(power).map(|key| of_group(key, name)));
    }
    for (name, draft) in fabrics {
        keys.extend(table(draft).into_iter().filter(|key| is_of_network(&key.path)).map(|key| of_fabric(key, name)));
    }
    keys
}

/// Sections that each network has for itself: what is between the memory of two nodes.
const OF_NETWORK: [&str; 6] = ["node.pcie", "nic", "network", "link", "switch", "topology"];

/// Whether a key or a section is in one of them.
fn is_of_network(path: &str) -> bool {
    OF_NETWORK.iter().any(|section| path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// The same key of one network.
fn of_fabric<'a>(mut key: Key<'a>, fabric: &str) -> Key<'a> {
    let Cow::Borrowed(path) = key.path else { unreachable!("keys of networks are made of those of the machine") };
    key.path = Cow::Owned(format!("fabric.{fabric}.{path}"));
    (key.default, key.otherwise) = (None, Some(path));
    key
}

/// Of nodes that are alike.
#[rustfmt::skip]
fn node_keys<'a>(nodes: &'a mut u32, cores: &'a mut u32, speed: &'a mut Speed, fabrics: &'a mut Vec<String>, gateway: &'a mut Vec<String>, memory: &'a mut Bytes, host_name: &'a mut HostPattern) -> [Key<'a>; 7] {
    [
        count("node.count", nodes, 1, NODES_MAX, "Number of nodes; `--nodes` overrides it"),
        count("node.cores", cores, 1, 1 << 16, "Cores of a node: the most ranks that it takes"),
        key("node.speed", Field::Speed(speed), "How many times as fast a core computes as the one on which computing time was measured").default("1"),
        key("node.fabrics", Field::Texts(fabrics), "The networks that a node joins, of `machine.fabrics`; none: all of them").default("[]"),
        key("node.gateway", Field::Texts(gateway), "The networks between which a node passes messages on (docs/gateways.md); none: it is no gateway").default("[]"),
        size("node.memory", memory, 1, "Memory of a node"),
        key("node.host_name", Field::HostPattern(host_name), "Host names: `{}` is the node index, `{:03}` with three digits").default("\"node{:03}\""),
    ]
}

/// Costs of what runs on them.
#[rustfmt::skip]
fn software_keys(software: &mut Software) -> [Key<'_>; 7] {
    let Software { post, completion, poll, copy_bandwidth, reduce, reduce_per_kib, clock_read } = software;
    [
        time("software.post", post, "CPU time of an operation handed to the transport, from the MPI call on"),
        time("software.completion", completion, "CPU time of a completion, up to the MPI request"),
        time("software.poll", poll, "CPU time of a look at the completion queue that finds nothing"),
        rate("software.copy_bandwidth", copy_bandwidth, "Copies inside a process"),
        time("software.reduce", reduce, "Replay: CPU time of combining what came with what is there, in each step of a reduction (live programs do it themselves)").default("\"0 ns\""),
        time("software.reduce_per_kib", reduce_per_kib, "... and of each 1,024 bytes of it").default("\"0 ns\""),
        time("software.clock_read", clock_read, "CPU time of reading a clock (`MPI_Wtime`)"),
    ]
}

/// What they take.
#[rustfmt::skip]
fn power_keys(of_node: &mut NodePower) -> [Key<'_>; 4] {
    let NodePower { node, core, waiting, accelerator } = of_node;
    [
        power("power.node", node, "A node with ranks, whatever it does (docs/power.md)"),
        power("power.core", core, "More for a core while its rank computes"),
        power("power.waiting", waiting, "More for a core while its rank is in MPI, where libraries poll"),
        power("power.accelerator", accelerator, "More for an accelerator: while a rank of a replay computes beside its core"),
    ]
}

/// The same key of the nodes of one group.
fn of_group<'a>(mut key: Key<'a>, group: &str) -> Key<'a> {
    let Cow::Borrowed(path) = key.path else { unreachable!("keys of groups are made of those of nodes") };
    let name = path.strip_prefix("node.").unwrap_or(path);
    key.path = Cow::Owned(format!("group.{group}.{name}"));
    if path == "node.count" {
        key.doc = "Nodes of this group";
    } else {
        (key.default, key.otherwise) = (None, Some(path));
    }
    key
}

impl Draft {
    /// Placeholders everywhere. `groups` and `fabrics`: their names.
    pub(crate) fn blank(groups: &[String], fabrics: &[String]) -> Draft {
        let link = Link { latency: SimTime::ZERO, bandwidth: ByteRate(1) };
        let (zero, none) = (SimTime::ZERO, Bytes(0));
        let nic = NicConfig {
            pcie_latency: zero,
            pcie_rate: ByteRate(1),
            command_size: none,
            event_size: none,
            count_size: none,
            ack_size: none,
            inline_limit: none,
            pio_limit: none,
            match_bits_size: none,
            buffered_limit: none,
            dma_latency: zero,
            transmit: Transmit::Interleaved,
            put_occupancy: zero,
            get_occupancy: zero,
            response_occupancy: zero,
            ack_occupancy: zero,
            match_base: zero,
            match_per_entry: zero,
            limits: NIC,
            trigger_time: zero,
            atomic_occupancy: zero,
            quick_ack: false,
            pcie_detail: PcieDetail::Full,
            retry_interval: zero,
            max_outstanding: 0,
            max_in_flight_to_node: 0,
            max_in_flight_to_process: 0,
        };
        let software = Software {
            post: zero,
            completion: zero,
            poll: zero,
            copy_bandwidth: ByteRate(1),
            reduce: zero,
            reduce_per_kib: zero,
            clock_read: zero,
        };
        let host_name = "{}".parse().expect("the shortest pattern is one");
        let power = NodePower::default();
        let node = Node {
            count: 0,
            cores: 0,
            speed: Speed::ONE,
            fabrics: Vec::new(),
            gateway: Vec::new(),
            memory: none,
            host_name,
            software,
            power,
        };
        let machine = Machine {
            name: String::new(),
            description: String::new(),
            source: String::new(),
            groups: groups.iter().map(|name| Group { name: name.clone(), node: node.clone() }).collect(),
            rails: 1,
            fabrics: Vec::new(),
            node,
            intra: link,
            nic: Nic {
                kind: NicKind::BxiV2,
                constants: NicConstants::Portals(nic.clone()),
                data_bandwidth: ByteRate(1),
                dma_first_packet: none,
                packet_rate: 0,
                exanet: Exanet {
                    interfaces: 0,
                    channels: 0,
                    short_limit: none,
                    header: none,
                    packetizer: zero,
                    mailbox: zero,
                    block: none,
                    rdma_start: zero,
                    rdma_block: zero,
                    rdma_done: zero,
                    reduce_start: zero,
                    reduce_rate: ByteRate(1),
                    mailbox_room: 0,
                    resend: zero,
                    timeout: zero,
                    rdma_channels: 0,
                    page_faults: 0,
                    fault_time: zero,
                    domains: Vec::new(),
                },
                tcp: Tcp { message: zero, segment: none, segment_time: zero, rate: ByteRate(1) },
            },
            network: Network {
                kind: NetworkKind::Packet,
                mtu: none,
                header: none,
                virtual_channels: 0,
                buffer: none,
                rail_minimum: none,
                read_window: 0,
                routing: RoutingKind::Minimal,
                ugal_threshold: none,
                flow_control: FlowControl::Credits,
                pfc: Pfc { xoff: none, xon: none, quanta: 0, frame: none, response: zero, resend_after: zero },
                reliability: Reliability {
                    delivery: Delivery::None,
                    unordered: Vec::new(),
                    window: 0,
                    room: 0,
                    flows: 0,
                    timeout: zero,
                    retries: 0,
                    ack: none,
                    fcs: 0,
                    crc: 0,
                },
                congestion: [Congestion::None; 4],
                controls: Controls::blank(),
                faults: Vec::new(),
                flow: Flow { direct_limit: none },
                loggp: LogGp { latency: PathOr::Path, gap: zero, bandwidth: PathOr::Path },
            },
            link: Links {
                phy: Phy::None,
                ber: Ber::new(0.0).expect("0 is one"),
                host: link,
                switch: link,
                global: GlobalLink { entry: zero, change: zero, latency: SwitchOr::Switch, bandwidth: SwitchOr::Switch },
            },
            switch: Switch {
                iterations: 0,
                latency: zero,
                radix: 0,
                forwarding: Forwarding::CutThrough,
                queueing: Queueing::VirtualOutput,
                speedup: 0,
                arbitration: Arbitration::RoundRobin,
                weights: Vec::new(),
                strict_priority: Vec::new(),
                telemetry: Telemetry::None,
                telemetry_size: none,
                marking: Marking::None,
                mark_min: none,
                mark_max: none,
                mark_probability: Fraction(1),
            },
            topology: Topology::new(TopologyKind::SingleSwitch),
            failed: Failed::default(),
            system: System { launcher_barrier: zero, socket_latency: zero },
            power: NetworkPower::default(),
            message: Message {
                protocol: MessageProtocol::Openmpi,
                pscom: Pscom {
                    buffer: none,
                    receive_buffers: 0,
                    send_buffers: 0,
                    rendezvous: none,
                    rendezvous_requests: 0,
                    fragment: none,
                },
                mpc: Mpc {
                    minimum: none,
                    distribution: Distribution::Fragments,
                    fragment: none,
                    rail: RailChoice::RoundRobin,
                    registration: zero,
                    registration_per_kib: zero,
                    registration_cache: none,
                },
                gateway: Gateways { fragment: none, buffers: 0, choice: GatewayChoice::Static, cost: zero, per_kib: zero, detection: zero },
                eager_limit: none,
                inject_limit: none,
                rendezvous: Rendezvous::Get,
                overflow_block: none,
                overflow_blocks: 0,
                max_portals_message: none,
            },
            collectives: Collectives::default(),
            ip: ip::Ip::blank(),
        };
        let fabrics = fabrics.iter().map(|name| (name.clone(), Draft::blank(&[], &[]))).collect();
        Draft { machine, base: String::new(), groups: Vec::new(), names_of_fabrics: Vec::new(), fabrics, nic }
    }

    /// The machine, when every key that it has has been filled.
    pub(crate) fn finish(self) -> Machine {
        let Draft { mut machine, nic, fabrics, .. } = self;
        machine.nic.constants = match machine.nic.kind {
            NicKind::BxiV2 | NicKind::BxiV3 | NicKind::IbHca => NicConstants::Portals(nic),
            NicKind::Mailbox => NicConstants::Mailbox(nic),
            NicKind::Exanet => NicConstants::Exanet(nic),
            NicKind::Tcp => NicConstants::Tcp(nic),
        };
        let common = Machine { groups: Vec::new(), rails: 1, ..machine.clone() };
        let of_fabric = |(name, draft): (String, Draft)| {
            let Machine { nic, network, link, switch, topology, failed, .. } = draft.finish();
            Fabric { machine: Machine { nic, network, link, switch, topology, failed, ..common.clone() }, name }
        };
        machine.fabrics = fabrics.into_iter().map(of_fabric).collect();
        machine
    }

    /// The keys of a resolved machine.
    pub(crate) fn of(machine: &Machine) -> Draft {
        let groups = machine.groups.iter().map(|group| group.name.clone()).collect();
        let fabrics: Vec<(String, Draft)> =
            machine.fabrics.iter().map(|fabric| (fabric.name.clone(), Draft::of(&fabric.machine))).collect();
        let names_of_fabrics = fabrics.iter().map(|(name, _)| name.clone()).collect();
        Draft { machine: machine.clone(), base: String::new(), groups, names_of_fabrics, fabrics, nic: machine.nic.portals().clone() }
    }
}

/// What stands for the name of a group in the paths of its keys.
pub(crate) const NAME: &str = "NAME";

/// The keys that there may be, of one group.
pub(crate) fn generic() -> Draft {
    Draft::blank(&[NAME.to_owned()], &[])
}

fn names() -> &'static [(String, String)] {
    static NAMES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    NAMES.get_or_init(|| table(&mut generic()).iter().map(|key| (key.section().to_owned(), key.path.to_string())).collect())
}

/// All keys, in the order of the table.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    names().iter().map(|(_, path)| path.as_str())
}

/// `group.slow.cores` as `group.NAME.cores`, `fabric.ib.network.mtu` as `network.mtu`.
fn of_any_name(path: &str) -> Cow<'_, str> {
    if let Some(rest) = in_fabric(path) {
        return Cow::Borrowed(if is_of_network(rest) { rest } else { "no such section" });
    }
    match path.strip_prefix("group.") {
        None => Cow::Borrowed(path),
        Some(rest) => match rest.split_once('.') {
            None => Cow::Owned(format!("group.{NAME}")),
            Some((_, rest)) => Cow::Owned(format!("group.{NAME}.{rest}")),
        },
    }
}

/// What is within the section of a network.
fn in_fabric(path: &str) -> Option<&str> {
    path.strip_prefix("fabric.")?.split_once('.').map(|(_, rest)| rest)
}

/// The section of all networks, or that of one, or `node` in it, which has no keys itself.
fn is_around_fabric(path: &str) -> bool {
    path == "fabric" || path.strip_prefix("fabric.").is_some_and(|rest| !rest.contains('.')) || in_fabric(path) == Some("node")
}

pub(crate) fn is_key(path: &str) -> bool {
    let path = of_any_name(path);
    paths().any(|known| known == path)
}

pub(crate) fn is_section(path: &str) -> bool {
    if is_around_fabric(path) {
        return true;
    }
    let path = of_any_name(path);
    let inside = |section: &str| section.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    names().iter().any(|(section, _)| inside(section))
}

/// The keys and sections directly inside `section` (`""`: the file).
pub(crate) fn names_in(section: &str) -> Vec<&'static str> {
    let mut result: Vec<&'static str> = Vec::new();
    match section {
        "fabric" => return vec![NAME],
        _ if in_fabric(section) == Some("node") => return vec!["pcie"],
        _ if is_around_fabric(section) => return vec!["node", "nic", "network", "link", "switch", "topology"],
        _ => {}
    }
    let section = of_any_name(section);
    for path in paths() {
        let rest = if section.is_empty() { Some(path) } else { path.strip_prefix(&*section).and_then(|rest| rest.strip_prefix('.')) };
        if let Some(name) = rest.and_then(|rest| rest.split('.').next())
            && !result.contains(&name)
        {
            result.push(name);
        }
    }
    if section.is_empty() {
        result.push("fabric");
    }
    result
}

/// "keys of nic.kind = "mailbox": command_size, event_size ..."
pub(crate) fn help_on_kind(selector: &str, kinds: Kinds) -> String {
    let (section, kind) = (selector.split('.').next().unwrap_or(selector), kinds.value_of(selector));
    let mut draft = Draft::blank(&[], &[]);
    let keys = table(&mut draft);
    let has = |key: &&Key<'_>| key.path.split('.').next() == Some(section) && key.path != selector && key.applies_to(kinds);
    let names: Vec<&str> = keys.iter().filter(has).filter_map(|key| key.path.split_once('.')).map(|(_, name)| name).collect();
    format!("keys of {selector} = \"{kind}\": {}", names.join(", "))
}

/// "keys of [node.pcie]: latency, bandwidth ..."
pub(crate) fn help(section: &str) -> String {
    let names = names_in(section).join(", ");
    if section.is_empty() { format!("sections of a machine file: {names}") } else { format!("keys of [{section}]: {names}") }
}
