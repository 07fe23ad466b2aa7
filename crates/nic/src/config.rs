use narrows_portals::{NiLimits, has_match_bits};
use narrows_units::{ByteRate, Bytes, SimTime};

/// Timings and sizes of a NIC, resolved: nothing here is optional.
///
/// # The way of a put, stage by stage
///
/// What a put of 8 bytes costs between two idle nodes, from the instant at which the initiator
/// writes the command to the instant at which the target sees the PUT event. Values are those of
/// [`NicConfig::bxi_v2`]; the network between (two links of 200 ns in S4BXI's `vix` platform) is
/// the fabric's.
///
/// | stage | formula | BXI v2 |
/// |---|---|---|
/// | command over PCIe, payload inside | `pcie_latency + command_size / pcie_rate` | 300 + 4.1 ns |
/// | header through the network | fabric | 2 x 200 ns |
/// | the longer of the payload's arrival behind the header and over PCIe, and matching with `n` entries visited | fabric, `match_base + n * match_per_entry` | 1.4 ns, 0 + 2 ns |
/// | full event over PCIe, behind the payload | `pcie_latency + event_size / pcie_rate` | 300 + 6.1 ns |
///
/// That is S4BXI's sum of about 1.0 us (304 command + 2 x 200 links + 306 event). Other ways differ in these stages:
///
/// * A payload up to `pio_limit` of a volatile memory descriptor, which the library writes behind its command, adds
///   `(length - inline_limit) / pcie_rate` to the first stage.
/// * A longer one is read by DMA before the network starts:
///   `pcie_latency + 64 B / pcie_rate` for the read request, then `dma_latency`. The time of the first PCIe packet
///   itself (512 B, when the network starts) and of all others is charged by the fabric (its PCIe read server).
/// * A counting event replaces `event_size` by `count_size`.
/// * An acknowledgement starts when the payload has gone to PCIe: network, then an event over PCIe.
/// * An atomic: instead of the payload write, the atomic unit's read of the old value
///   (`pcie_latency + 64 B / pcie_rate + dma_latency`) and write of the new one (`dma_latency`). One that
///   fetches answers with the old value: network (response), payload write and event at the initiator.
/// * A triggered operation starts `trigger_time` after the change of its counting event; its payload, however
///   short, is read by DMA.
/// * A get: command, network (request), matching, DMA read at the target (as above), network
///   (response), payload write (`dma_latency` from its last byte on) and event at the initiator.
///
/// The occupancies are no latencies: an idle NIC adds nothing. They are the time for which the
/// NIC's transmit pipeline (one for requests, one for responses) takes no other message, and so
/// its message rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// One way over PCIe, host to NIC or NIC to host.
    pub pcie_latency: SimTime,
    /// PCIe bandwidth per direction for commands, events and read requests.
    pub pcie_rate: ByteRate,
    /// One command.
    pub command_size: Bytes,
    /// One full event.
    pub event_size: Bytes,
    /// One counting-event update, and the answer to a command with a ticket.
    pub count_size: Bytes,
    /// Wire size of an ACK.
    pub ack_size: Bytes,
    /// Payload carried inside the command itself.
    pub inline_limit: Bytes,
    /// Payload written by the CPU behind the command, when the library took it
    /// (`Command::Put::inline`): of volatile memory descriptors.
    pub pio_limit: Bytes,
    /// Both limits are so much higher where a command has no match bits: on interfaces without matching.
    pub match_bits_size: Bytes,
    /// Puts up to here are copied into the NIC: SEND comes as soon as the NIC has the payload,
    /// not when the last byte has left for the network.
    pub buffered_limit: Bytes,
    /// Constant part of a DMA transaction: before the first packet of a read, and before the event of what is no put.
    pub dma_latency: SimTime,
    /// How messages that are read out of memory follow each other.
    pub transmit: Transmit,
    /// Transmit pipeline occupancy of a put.
    pub put_occupancy: SimTime,
    /// Transmit pipeline occupancy of a get request.
    pub get_occupancy: SimTime,
    /// Transmit pipeline occupancy of the response to a get.
    pub response_occupancy: SimTime,
    /// Transmit pipeline occupancy of an ACK.
    pub ack_occupancy: SimTime,
    /// Matching: per arriving message and per append or search.
    pub match_base: SimTime,
    /// Matching: per list element visited.
    pub match_per_entry: SimTime,
    /// What a network interface of a process may have.
    pub limits: NiLimits,
    /// A triggered operation: from the change of its counting event to its start; the NIC starts one after the other.
    pub trigger_time: SimTime,
    /// The atomic unit takes an operation in this interval.
    pub atomic_occupancy: SimTime,
    /// Acknowledgements are at the initiator at once, and load neither pipeline nor network: fewer events, but no
    /// contention of acknowledgements, and no part of the machine that runs ahead of another.
    pub quick_ack: bool,
    /// How exactly PCIe is modelled for commands and events.
    pub pcie_detail: PcieDetail,
    /// Pause between an append and the repetition of what was refused before
    /// ([`narrows_portals::pt::RETRY`]).
    pub retry_interval: SimTime,
    /// End-to-end layer: requests that a NIC may have under way; more wait in the NIC.
    pub max_outstanding: u32,
    /// Of these, to one node; 0: no limit.
    pub max_in_flight_to_node: u32,
    /// Of these, from one process to another; 0: no limit.
    pub max_in_flight_to_process: u32,
}

/// A read request of the DMA engine (portals4.md section 5: "64-byte read request").
pub(crate) const READ_REQUEST: Bytes = Bytes(64);

/// Messages that a NIC reads out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transmit {
    /// Their packets take turns: the pipeline takes the next message after the occupancy, and reads ahead.
    Interleaved,
    /// The same, but one leaves behind the other. The network's sources keep the order.
    #[default]
    InOrder,
    /// The pipeline takes the next message when all of the payload was read, as S4BXI's NIC does.
    OneByOne,
}

impl Transmit {
    /// All of them.
    pub const ALL: [Transmit; 3] = [Transmit::Interleaved, Transmit::InOrder, Transmit::OneByOne];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 3] = ["interleaved", "in-order", "one-by-one"];
}

/// Whether commands and events share the bandwidth of PCIe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PcieDetail {
    /// They do.
    #[default]
    Full,
    /// They only have its latency.
    Latency,
}

impl PcieDetail {
    /// Both.
    pub const ALL: [PcieDetail; 2] = [PcieDetail::Full, PcieDetail::Latency];
    /// Their names, in the same order.
    pub const NAMES: [&'static str; 2] = ["full", "latency"];
}

impl NicConfig {
    /// Payload that the command of an operation on portal table entry `pt` carries, and with PIO behind it.
    pub(crate) fn carried(&self, pt: u32) -> (u64, u64) {
        let more = if has_match_bits(pt) { 0 } else { self.match_bits_size.get() };
        (self.inline_limit.get() + more, self.pio_limit.get() + more)
    }

    /// The least time from writing a command to its first effect of any kind.
    pub fn lookahead(&self) -> SimTime {
        self.pcie_latency + crate::pipeline::Durations::new(self).command
    }

    /// BXI v2 as S4BXI models it (facts.md 4.3; portals4.md section 5, platform `vix`), but for the occupancies: more
    /// than 100 M messages/s of its data sheet.
    ///
    /// Some values have no public source and are our own choice: matching takes 2 ns per
    /// visited entry (one entry per cycle at 500 MHz) and nothing else, a counting event moves
    /// 16 bytes (`ptl_ct_event_t`), a refused message is repeated after 2 us (a round trip), a triggered operation
    /// takes 20 ns (ten cycles).
    pub fn bxi_v2() -> NicConfig {
        NicConfig {
            pcie_latency: SimTime::from_ns(300),
            pcie_rate: ByteRate(15_750_000_000),
            command_size: Bytes(64),
            event_size: Bytes(96),
            count_size: Bytes(16),
            ack_size: Bytes(32),
            inline_limit: Bytes(8),
            pio_limit: Bytes(408),
            match_bits_size: Bytes(8),
            buffered_limit: Bytes(64),
            dma_latency: SimTime::from_ns(200),
            transmit: Transmit::InOrder,
            put_occupancy: SimTime::from_ns(10),
            get_occupancy: SimTime::from_ns(10),
            response_occupancy: SimTime::from_ns(10),
            ack_occupancy: SimTime::from_ns(10),
            match_base: SimTime::ZERO,
            match_per_entry: SimTime::from_ns(2),
            limits: NiLimits::BXI_V2,
            trigger_time: SimTime::from_ns(20),
            atomic_occupancy: SimTime::from_ns(10),
            quick_ack: false,
            pcie_detail: PcieDetail::Full,
            retry_interval: SimTime::from_us(2),
            max_outstanding: 8_192,
            max_in_flight_to_node: 0,
            max_in_flight_to_process: 0,
        }
    }
}
