//! How much a NIC keeps for a network interface: one structure for machine files, the NIC and the library.

use narrows_keys::keys;
use narrows_units::Bytes;

use crate::Limits;

keys! {
    /// What a NIC offers to each network interface of a process (`ptl_ni_limits_t`, section 3.6.1). The default is
    /// [`NiLimits::BXI_V2`].
    ///
    /// A part of the shared file, so its layout is that of C.
    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NiLimits {
        /// Matching entries per process.
        pub max_entries: u32 = 16319, in 1..=1 << 24;
        /// Unexpected headers per process.
        pub max_unexpected_headers: u32 = 16319, in 1..=1 << 24;
        /// Memory descriptors of a network interface.
        pub max_mds: u32 = 8191, in 1..=1 << 20;
        /// Counting events of a network interface.
        pub max_cts: u32 = 2047, in 1..=1 << 15;
        /// Event queues of a network interface.
        pub max_eqs: u32 = 2046, in 1..=1 << 15;
        /// Segments of a memory descriptor or list entry.
        pub max_iovecs: u32 = 16319, in 0..=1 << 20;
        /// Entries of one list, as programs are told.
        pub max_list_size: u32 = 65535, in 1..=1 << 24;
        /// Triggered operations of a network interface that may wait.
        pub max_triggered_ops: u32 = 16378, in 0..=1 << 24;
        /// Longest atomic.
        pub max_atomic_size: Bytes = "1 KiB", in Bytes(32)..;
        /// Longest fetching atomic or swap.
        pub max_fetch_atomic_size: Bytes = "64 B", in Bytes(32)..;
        /// Longest operations whose writes after writes are in order, and said to be so.
        pub max_waw_ordered_size: Bytes = "0 B";
    }
}

impl NiLimits {
    /// BXI v2 as S4BXI has it (`machines/bxi-v2.toml` names the source of each). It has no segments; programs that need
    /// them run here.
    pub const BXI_V2: NiLimits = NiLimits {
        max_entries: 16_319,
        max_unexpected_headers: 16_319,
        max_mds: 8_191,
        max_cts: 2_047,
        max_eqs: 2_046,
        max_iovecs: 16_319,
        max_list_size: 65_535,
        max_triggered_ops: 16_378,
        max_atomic_size: Bytes(1024),
        max_fetch_atomic_size: Bytes(64),
        max_waw_ordered_size: Bytes(0),
    };

    /// What of them a network interface that asks for less may lower on the NIC.
    pub const fn counted(&self) -> Limits {
        Limits { entries: self.max_entries, unexpected_headers: self.max_unexpected_headers, list_size: self.max_list_size }
    }
}

impl Default for NiLimits {
    fn default() -> NiLimits {
        NiLimits::BXI_V2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_keys::Keys;

    #[test]
    fn the_keys_have_the_defaults_of_bxi_v2() {
        assert_eq!(NiLimits::defaults(), NiLimits::BXI_V2);
    }
}
