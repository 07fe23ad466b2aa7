//! How much a NIC keeps for a network interface: one structure for machine files, the NIC and the library.

use narrows_units::Bytes;

use crate::Limits;

/// What a NIC offers to each network interface of a process (`ptl_ni_limits_t`, section 3.6.1). The default is
/// [`NiLimits::BXI_V2`].
///
/// A part of the shared file, so its layout is that of C.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiLimits {
    /// List entries.
    pub max_entries: u32,
    /// Unexpected headers.
    pub max_unexpected_headers: u32,
    /// Memory descriptors.
    pub max_mds: u32,
    /// Counting events.
    pub max_cts: u32,
    /// Event queues.
    pub max_eqs: u32,
    /// Segments of a memory descriptor or list entry.
    pub max_iovecs: u32,
    /// Entries of one list.
    pub max_list_size: u32,
    /// Triggered operations that wait.
    pub max_triggered_ops: u32,
    /// Longest atomic.
    pub max_atomic_size: Bytes,
    /// Longest fetching atomic or swap.
    pub max_fetch_atomic_size: Bytes,
    /// Puts and atomics up to here that one process sends to another change memory in the order in which they were
    /// issued.
    pub max_waw_ordered_size: Bytes,
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
