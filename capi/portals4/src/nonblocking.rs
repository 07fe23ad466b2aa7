//! The `*NB` functions of BXI: as those without, but `PTL_TRY_AGAIN` instead of waiting for room in the NIC. There is
//! always room here, so they are the same functions by another name.
//!
//! Safety of all functions here: as of those without `NB`.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Handle, ListEntry, MatchListEntry, MemoryDescriptor, Process};
use crate::{atomics, data, lists};

macro_rules! same {
    ($($new:ident = $old:path: ($($name:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("As [`", stringify!($old), "`].")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $new($($name: $type),*) -> c_int {
            // SAFETY: what the caller promises.
            unsafe { $old($($name),*) }
        }
    )*};
}

same! {
    PtlMDBindNB = data::PtlMDBind: (ni: Handle, md: *const MemoryDescriptor, handle: *mut Handle);
    PtlLEAppendNB = lists::PtlLEAppend: (ni: Handle, pt: u32, le: *const ListEntry, list: c_uint, user_ptr: *mut c_void, handle: *mut Handle);
    PtlLESearchNB = lists::PtlLESearch: (ni: Handle, pt: u32, le: *const ListEntry, operation: c_uint, user_ptr: *mut c_void);
    PtlMEAppendNB = lists::PtlMEAppend: (
        ni: Handle, pt: u32, me: *const MatchListEntry, list: c_uint, user_ptr: *mut c_void, handle: *mut Handle
    );
    PtlMESearchNB = lists::PtlMESearch: (ni: Handle, pt: u32, me: *const MatchListEntry, operation: c_uint, user_ptr: *mut c_void);
    PtlPutNB = data::PtlPut: (
        md: Handle, local_offset: u64, length: u64, ack_req: c_uint, target: Process, pt: u32, match_bits: u64, remote_offset: u64,
        user_ptr: *mut c_void, hdr_data: u64
    );
    PtlGetNB = data::PtlGet: (
        md: Handle, local_offset: u64, length: u64, target: Process, pt: u32, match_bits: u64, remote_offset: u64, user_ptr: *mut c_void
    );
    PtlAtomicNB = atomics::PtlAtomic: (
        md: Handle, local_offset: u64, length: u64, ack_req: c_uint, target: Process, pt: u32, match_bits: u64, remote_offset: u64,
        user_ptr: *mut c_void, hdr_data: u64, operation: c_uint, datatype: c_uint
    );
    PtlFetchAtomicNB = atomics::PtlFetchAtomic: (
        get_md: Handle, get_offset: u64, put_md: Handle, put_offset: u64, length: u64, target: Process, pt: u32, match_bits: u64,
        remote_offset: u64, user_ptr: *mut c_void, hdr_data: u64, operation: c_uint, datatype: c_uint
    );
    PtlSwapNB = atomics::PtlSwap: (
        get_md: Handle, get_offset: u64, put_md: Handle, put_offset: u64, length: u64, target: Process, pt: u32, match_bits: u64,
        remote_offset: u64, user_ptr: *mut c_void, hdr_data: u64, operand: *const c_void, operation: c_uint, datatype: c_uint
    );
}
