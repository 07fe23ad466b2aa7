use narrows_keys::{Keys, Only, choice, keys};
use narrows_portals::{NiLimits, has_match_bits};
use narrows_units::{ByteRate, Bytes, SimTime};

keys! {
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
    /// That is S4BXI's sum of about 1.0 us (304 command + 2 x 200 links + 306 event). Other ways differ in these
    /// stages:
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
        /// One way, host to NIC or NIC to host.
        pub pcie_latency: SimTime, in SimTime(1).., at "node.pcie.latency";
        /// Per direction, for commands, events and read requests.
        pub pcie_rate: ByteRate, at "node.pcie.bandwidth";
        /// Per direction, for payload (the bandwidth less the protocol's share).
        pub data_bandwidth: ByteRate, at "node.pcie.data_bandwidth";
        /// One command.
        pub command_size: Bytes = "64 B", in Bytes(1)..;
        /// One full event.
        pub event_size: Bytes = "96 B", in Bytes(1)..;
        /// One update of a counting event.
        pub count_size: Bytes = "16 B", in Bytes(1)..;
        /// An acknowledgement on the wire.
        pub ack_size: Bytes = "32 B", of MATCHING;
        /// Payload inside the command.
        pub inline_limit: Bytes = "8 B", of MATCHING;
        /// Payload that the CPU writes behind the command, of volatile memory descriptors.
        pub pio_limit: Bytes = "408 B", of MATCHING;
        /// On interfaces without matching, `inline_limit` and `pio_limit` are higher by this size.
        pub match_bits_size: Bytes = "8 B", of MATCHING;
        /// Puts up to here are copied into the NIC: SEND at once.
        pub buffered_limit: Bytes = "64 B", of MATCHING;
        /// DMA read: constant part before its first packet.
        pub dma_latency: SimTime = "200 ns", of MATCHING;
        /// The NIC starts to send a message after it has read this many bytes of it over PCIe, and starts to write it
        /// to memory after it has received this many.
        pub dma_first_packet: Bytes = "512 B", in Bytes(1).., of MATCHING;
        /// Concurrent sends of a NIC that are read from memory: `interleaved` alternates their packets, `in-order`
        /// sends one message after the other, `one-by-one` reads a message after the one before has been read. On other
        /// networks than `packet`, `in-order` alternates packets, too.
        pub transmit: Transmit = "in-order", of MATCHING;
        /// Packets per second that a NIC sends at most, acknowledgements among them; 0: as many as its link takes.
        pub packet_rate: u32 = 0, in 0..=1 << 31;
        /// A NIC is busy for this time with each put that it sends.
        pub put_occupancy: SimTime = "10 ns", of MATCHING;
        /// A NIC is busy for this time with each get request that it sends.
        pub get_occupancy: SimTime = "10 ns", of MATCHING;
        /// A NIC is busy for this time with each response that it sends.
        pub response_occupancy: SimTime = "10 ns", of MATCHING;
        /// A NIC is busy for this time with each acknowledgement that it sends.
        pub ack_occupancy: SimTime = "10 ns", of MATCHING;
        /// Matching a message: constant part.
        pub match_base: SimTime = "0 ns";
        /// Matching a message: per list entry visited.
        pub match_per_entry: SimTime = "2 ns";
        /// Messages of a NIC that may wait for their end-to-end acknowledgement.
        pub max_outstanding: u32 = 8192, in 1..=1 << 24, of MATCHING;
        /// Messages of a NIC to one node that may wait for their end-to-end acknowledgement; 0: no limit.
        pub max_in_flight_to_node: u32 = 0, in 0..=1 << 24, of MATCHING;
        /// Messages of a process to another one that may wait for their end-to-end acknowledgement; 0: no limit.
        pub max_in_flight_to_process: u32 = 0, in 0..=1 << 24, of MATCHING;
        /// Pause before a refused message is sent again.
        pub retry_interval: SimTime = "2 us", in SimTime(1)..;
        /// A triggered operation: from its counting event to its start.
        pub trigger_time: SimTime = "20 ns";
        /// The atomic unit begins one operation in this time.
        pub atomic_occupancy: SimTime = "10 ns", of MATCHING;
        /// Acknowledgements load neither NIC nor network: fewer events, less exact.
        pub quick_ack: bool = false, of MATCHING;
        /// What a network interface of a process may have.
        pub limits: NiLimits => "limits";
        /// Commands and events share the bandwidth of PCIe, or only have its latency.
        pub pcie_detail: PcieDetail = "full", at "nic.pcie.detail", of MATCHING;
    }
}

/// NICs that match.
const MATCHING: Only = Only::with("nic.kind", &["bxi-v2", "bxi-v3", "ib-hca"]);

/// A read request of the DMA engine (portals4.md section 5: "64-byte read request").
pub(crate) const READ_REQUEST: Bytes = Bytes(64);

choice! {
    /// Messages that a NIC reads out of memory.
    #[derive(Default)]
    pub enum Transmit {
        /// Their packets take turns: the pipeline takes the next message after the occupancy, and reads ahead.
        Interleaved = "interleaved",
        /// The same, but one leaves behind the other. The network's sources keep the order.
        #[default]
        InOrder = "in-order",
        /// The pipeline takes the next message when all of the payload was read, as S4BXI's NIC does.
        OneByOne = "one-by-one",
    }
}

choice! {
    /// Whether commands and events share the bandwidth of PCIe.
    #[derive(Default)]
    pub enum PcieDetail {
        /// They do.
        #[default]
        Full = "full",
        /// They only have its latency.
        Latency = "latency",
    }
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
            data_bandwidth: ByteRate(11_110_000_000),
            ..Keys::defaults()
        }
    }
}
