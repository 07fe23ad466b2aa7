//! The types and numbers of `portals4.h`, for Rust. The header is the contract; `tests/it/header.rs`
//! compares the two.

use std::ffi::{c_int, c_long, c_uint, c_void};

/// Any handle: `void *` in the header, never followed.
pub type Handle = usize;
/// `PTL_INVALID_HANDLE`, `PTL_EQ_NONE` and `PTL_CT_NONE`.
pub const HANDLE_NONE: Handle = 0;

/// `PTL_SIZE_MAX`.
pub const SIZE_MAX: u64 = (1 << 48) - 1;
/// `PTL_PT_ANY`.
pub const PT_ANY: u32 = u32::MAX;
/// `PTL_RANK_ANY`.
pub const RANK_ANY: u32 = 0x7f_ffff;
/// `PTL_UID_ANY`.
pub const UID_ANY: u32 = u32::MAX;
/// `PTL_PID_ANY`.
pub const PID_ANY: u32 = 0;
/// `PTL_TIME_FOREVER`.
pub const TIME_FOREVER: c_long = -1;

/// `PTL_OK`.
pub const OK: c_int = 0;
/// `PTL_ARG_INVALID`.
pub const ARG_INVALID: c_int = 32;
/// `PTL_CT_NONE_REACHED`.
pub const CT_NONE_REACHED: c_int = 33;
/// `PTL_EQ_EMPTY`.
pub const EQ_EMPTY: c_int = 35;
/// `PTL_EQ_DROPPED`.
pub const EQ_DROPPED: c_int = 34;
/// `PTL_ABORTED`.
pub const ABORTED: c_int = 47;
/// `PTL_FAIL`.
pub const FAIL: c_int = 36;
/// `PTL_IGNORED`.
pub const IGNORED: c_int = 37;
/// `PTL_IN_USE`.
pub const IN_USE: c_int = 38;
/// `PTL_LIST_TOO_LONG`.
pub const LIST_TOO_LONG: c_int = 40;
/// `PTL_NO_INIT`.
pub const NO_INIT: c_int = 41;
/// `PTL_NO_SPACE`.
pub const NO_SPACE: c_int = 42;
/// `PTL_PID_IN_USE`.
pub const PID_IN_USE: c_int = 43;
/// `PTL_PT_FULL`.
pub const PT_FULL: c_int = 44;
/// `PTL_PT_EQ_NEEDED`.
pub const PT_EQ_NEEDED: c_int = 45;
/// `PTL_PT_IN_USE`.
pub const PT_IN_USE: c_int = 46;

/// `PTL_NI_MATCHING`.
pub const NI_MATCHING: c_uint = 1 << 0;
/// `PTL_NI_NO_MATCHING`.
pub const NI_NO_MATCHING: c_uint = 1 << 1;
/// `PTL_NI_LOGICAL`.
pub const NI_LOGICAL: c_uint = 1 << 2;
/// `PTL_NI_PHYSICAL`.
pub const NI_PHYSICAL: c_uint = 1 << 3;

/// `PTL_TARGET_BIND_INACCESSIBLE`.
pub const TARGET_BIND_INACCESSIBLE: c_uint = 1 << 0;
/// `PTL_COHERENT_ATOMICS`.
pub const COHERENT_ATOMICS: c_uint = 1 << 2;

/// `PTL_PRIORITY_LIST`.
pub const PRIORITY_LIST: c_uint = 0;
/// `PTL_OVERFLOW_LIST`.
pub const OVERFLOW_LIST: c_uint = 1;
/// `PTL_SEARCH_ONLY`.
pub const SEARCH_ONLY: c_uint = 0;
/// `PTL_SEARCH_DELETE`.
pub const SEARCH_DELETE: c_uint = 1;
/// `PTL_NO_ACK_REQ`.
pub const NO_ACK_REQ: c_uint = 0;
/// `PTL_ACK_REQ`.
pub const ACK_REQ: c_uint = 1;
/// `PTL_CT_ACK_REQ`.
pub const CT_ACK_REQ: c_uint = 2;
/// `PTL_OC_ACK_REQ`.
pub const OC_ACK_REQ: c_uint = 3;

/// `PTL_SR_DROP_COUNT`.
pub const SR_DROP_COUNT: c_uint = 0;
/// `PTL_SR_PERMISSION_VIOLATIONS`.
pub const SR_PERMISSION_VIOLATIONS: c_uint = 1;
/// `PTL_SR_OPERATION_VIOLATIONS`.
pub const SR_OPERATION_VIOLATIONS: c_uint = 2;

/// The physical half of `ptl_process_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Node.
    pub nid: u32,
    /// Process on the node.
    pub pid: u32,
}

/// `ptl_process_t`: which half counts depends on the network interface.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Process {
    /// On a physical network interface.
    pub phys: Physical,
    /// On a logical network interface.
    pub rank: u32,
}

impl Process {
    /// A process by node and number.
    pub fn physical(nid: u32, pid: u32) -> Process {
        Process { phys: Physical { nid, pid } }
    }

    /// A process by rank; the other bytes are zero.
    pub fn logical(rank: u32) -> Process {
        Process { phys: Physical { nid: rank, pid: 0 } }
    }
}

/// `ptl_ni_limits_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NiLimits {
    pub max_entries: c_int,
    pub max_unexpected_headers: c_int,
    pub max_mds: c_int,
    pub max_cts: c_int,
    pub max_eqs: c_int,
    pub max_pt_index: c_int,
    pub max_iovecs: c_int,
    pub max_list_size: c_int,
    pub max_triggered_ops: c_int,
    pub max_msg_size: u64,
    pub max_atomic_size: u64,
    pub max_fetch_atomic_size: u64,
    pub max_waw_ordered_size: u64,
    pub max_war_ordered_size: u64,
    pub max_volatile_size: u64,
    pub features: c_uint,
}

/// `ptl_md_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct MemoryDescriptor {
    pub start: *mut c_void,
    pub length: u64,
    pub options: c_uint,
    pub eq_handle: Handle,
    pub ct_handle: Handle,
}

/// `ptl_le_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ListEntry {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: Handle,
    pub uid: u32,
    pub options: c_uint,
}

/// `ptl_me_t`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct MatchListEntry {
    pub start: *mut c_void,
    pub length: u64,
    pub ct_handle: Handle,
    pub uid: u32,
    pub options: c_uint,
    pub match_id: Process,
    pub match_bits: u64,
    pub ignore_bits: u64,
    pub min_free: u64,
}

/// `ptl_iovec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Iovec {
    pub iov_base: *mut c_void,
    pub iov_len: u64,
}

/// `ptl_ct_event_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct CtEvent {
    pub success: u64,
    pub failure: u64,
}

/// `ptl_event_t`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct FullEvent {
    pub start: *mut c_void,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: Process,
    pub uid: u32,
    pub pt_index: u32,
    pub kind: c_uint,
    pub ptl_list: c_uint,
    pub ni_fail_type: u32,
    pub atomic_operation: c_uint,
    pub atomic_type: c_uint,
}

/// `struct narrows_settings` of the private header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PrivateSettings {
    pub eager_limit: u64,
    pub inject_limit: u64,
    pub overflow_block: u64,
    pub max_portals_message: u64,
    pub overflow_blocks: u32,
    pub rendezvous_put: u32,
    pub one_sided_messages: u32,
}
