//! Who else is on this node: of what Open MPI asks its launcher, the one answer that is another one on the simulated
//! machine.

use crate::symbols::real;
use crate::{portals, state};
use libc::{c_char, c_int, c_void, size_t};
use std::ffi::CStr;
use std::fmt::Write as _;

/// The start of `pmix_value_t` (pmix_common.h of OpenPMIx 4.2.2, part of its stable ABI): a type, then a union as wide
/// as a pointer or more.
#[repr(C)]
struct Value {
    kind: u16,
    string: *mut c_char,
}

/// `PMIX_STRING`.
const STRING: u16 = 3;
/// `PMIX_LOCAL_PEERS`: the ranks of a node as "0,1,2".
const LOCAL_PEERS: &CStr = c"pmix.lpeers";

#[allow(non_snake_case)]
mod next {
    use super::*;
    real! {
        fn PMIx_Get(of: *const c_void, key: *const c_char, info: *const c_void, infos: size_t, value: *mut *mut Value) -> c_int;
    }
}

/// All ranks run on one host, and Open MPI asks its launcher some four questions about every other rank there before it
/// begins: a million processes' worth of them at 1,024 ranks. What it would use the answers for, shared memory, must
/// not be used anyway. So each rank is told that it is alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn PMIx_Get(of: *const c_void, key: *const c_char, info: *const c_void, infos: size_t, value: *mut *mut Value) -> c_int {
    // SAFETY: forwarded as it came. After success `*value` is a value of the caller's, its string in the caller's
    // memory.
    unsafe {
        // As in PMIx_Init: a thread of PMIx has the answer, also where several threads are inside MPI.
        let code = state::guarded(|| next::PMIx_Get(of, key, info, infos, value));
        if code == 0
            && state::in_mpi()
            && !key.is_null()
            && CStr::from_ptr(key) == LOCAL_PEERS
            && let Some(value) = value.as_ref().and_then(|value| value.as_ref())
            && value.kind == STRING
            && !value.string.is_null()
        {
            keep_only(value.string, portals::rank());
        }
        code
    }
}

/// Shortens a list of numbers to one of them, in place. A list without it stays as it is.
unsafe fn keep_only(list: *mut c_char, number: u32) {
    let mut name = String::new();
    let _ = write!(name, "{number}");
    // SAFETY: a string by the caller's promise. An element of the list is not longer than the list.
    unsafe {
        if CStr::from_ptr(list).to_bytes().split(|byte| *byte == b',').any(|element| element == name.as_bytes()) {
            std::ptr::copy_nonoverlapping(name.as_ptr().cast(), list, name.len());
            *list.add(name.len()) = 0;
        }
    }
}
