use crate::machine::SpinError;
use narrows_keys::{Keys, keys};
use narrows_units::{Bytes, SimTime};

keys! {
    /// The sizes, limits and rates of a machine. The defaults are PsPIN's at 1 GHz, from its hardware description
    /// (github.com/spcl/pspin) run cycle by cycle.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SpinConfig {
        /// Duration of a cycle.
        pub cycle: SimTime = "1 ns", in SimTime(1)..;
        /// Clusters.
        pub clusters: u32 = 4, in 1..=16;
        /// HPUs of a cluster.
        pub hpus: u32 = 8, in 1..=64;
        /// Message queues: messages in progress.
        pub queues: u32 = 256, in 1..=65536;
        /// Packets that wait in queues, beside the first one of each.
        pub cells: u32 = 128, in 1..=1048576;
        /// Tasks of a cluster that wait for an HPU.
        pub buffered: u32 = 12, in 1..=4096;
        /// Commands of an HPU that are not finished.
        pub commands: u32 = 4, in 1..=64;
        /// Commands in flight at each of the interfaces: host writes of a few bytes, sends, DMA with the host.
        pub in_flight: u32 = 7, in 1..=4096;
        /// Reads of the host's memory that are in flight.
        pub reads: u32 = 2, in 1..=4096;
        /// Packets in the L1 of a cluster: rings of the same size.
        pub l1_rings: u32 = 4, in 1..=64;
        /// Size of a ring in L1.
        pub l1_ring: Bytes = "16 KiB", in Bytes(64)..;
        /// Packets in L2.
        pub l2_packets: Bytes = "4 MiB", in Bytes(64)..;
        /// Memory of all contexts in L2.
        pub l2_handlers: Bytes = "4 MiB";
        /// Scratchpads of all contexts in the L1 of a cluster.
        pub scratchpads: Bytes = "896 KiB";
        /// Stack of an HPU.
        pub stack: Bytes = "8 KiB", in Bytes(64)..;
        /// Longest packet.
        pub packet: Bytes = "2 KiB", in Bytes(1)..;
        /// Cycles that 64 bytes take on their way in. PsPIN's "400G" is 1, its "200G" is 2.
        pub beat_in: u32 = 1, in 1..=1024;
        /// Cycles that 64 bytes take on their way out.
        pub beat_out: u32 = 1, in 1..=1024;
        /// Cycles that a handler may run.
        pub budget: u32 = 1000000, in 1..=4000000000;
        // D1.4, section 4, wants to compare the two.
        /// All handlers of a message run on one HPU, by its number; otherwise on the lowest idle one of a cluster.
        pub pinned: bool = false;
    }
}

/// Of each kind of memory: our own choice.
const MEMORY_MAX: Bytes = Bytes(1 << 30);
/// 1 kHz: our own choice.
const CYCLE_MAX: SimTime = SimTime(1_000_000_000);

impl SpinConfig {
    /// Names of the presets.
    pub const PRESETS: [&str; 2] = ["pspin-asic", "fpspin"];

    /// The preset of this name.
    pub fn preset(name: &str) -> Option<SpinConfig> {
        match name {
            "pspin-asic" => Some(SpinConfig::defaults()),
            // FPsPIN's sources (github.com/spcl/fpspin): two clusters, smaller memories, packets of a frame. D1.4,
            // section 4: 40 MHz. Corundum's 100 Gb/s are more than 64 bytes in a cycle.
            "fpspin" => Some(SpinConfig {
                cycle: SimTime::from_ns(25),
                clusters: 2,
                queues: 16,
                l2_packets: Bytes(512 << 10),
                l2_handlers: Bytes(1 << 20),
                scratchpads: Bytes(192 << 10),
                packet: Bytes(1536),
                ..SpinConfig::defaults()
            }),
            _ => None,
        }
    }

    /// Memories that a computer has room for, and times that do not overflow.
    pub(crate) fn check(&self) -> Result<(), SpinError> {
        let (clusters, rings) = (u64::from(self.clusters), u64::from(self.l1_rings));
        let memories = [
            ("packets in L2 (l2_packets)", self.l2_packets.0),
            ("handler memory in L2 (l2_handlers)", self.l2_handlers.0),
            ("packets in the L1 of all clusters (l1_ring)", self.l1_ring.0.saturating_mul(rings).saturating_mul(clusters)),
            ("scratchpads of all clusters", self.scratchpads.0.saturating_mul(clusters)),
            ("stacks of all HPUs (stack)", self.stack.0.saturating_mul(self.all_hpus().into())),
        ];
        let too_much = |what, size: String, most: String| Err(SpinError::TooMuch { what, size, most });
        if let Some(&(what, size)) = memories.iter().find(|(_, size)| *size > MEMORY_MAX.0) {
            return too_much(what, Bytes(size).to_string(), MEMORY_MAX.to_string());
        }
        if self.cycle > CYCLE_MAX {
            return too_much("a cycle", self.cycle.to_string(), CYCLE_MAX.to_string());
        }
        Ok(())
    }

    /// HPUs of all clusters.
    pub fn all_hpus(&self) -> u32 {
        self.clusters * self.hpus
    }
}
