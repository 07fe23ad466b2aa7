//! Codes and events as text: extensions that programs for BXI use.
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int, c_uint};

use crate::abi::{self, FullEvent};

/// Room that [`PtlEvToStr`] may use (`PTL_EV_STR_SIZE`).
pub const EVENT_TEXT: usize = 256;

const ERRORS: [&CStr; 17] = [
    c"PTL_ARG_INVALID",
    c"PTL_CT_NONE_REACHED",
    c"PTL_EQ_DROPPED",
    c"PTL_EQ_EMPTY",
    c"PTL_FAIL",
    c"PTL_IGNORED",
    c"PTL_IN_USE",
    c"PTL_INTERRUPTED",
    c"PTL_LIST_TOO_LONG",
    c"PTL_NO_INIT",
    c"PTL_NO_SPACE",
    c"PTL_PID_IN_USE",
    c"PTL_PT_FULL",
    c"PTL_PT_EQ_NEEDED",
    c"PTL_PT_IN_USE",
    c"PTL_ABORTED",
    c"PTL_TRY_AGAIN",
];
const EVENTS: [&CStr; 16] = [
    c"PTL_EVENT_GET",
    c"PTL_EVENT_GET_OVERFLOW",
    c"PTL_EVENT_PUT",
    c"PTL_EVENT_PUT_OVERFLOW",
    c"PTL_EVENT_ATOMIC",
    c"PTL_EVENT_ATOMIC_OVERFLOW",
    c"PTL_EVENT_FETCH_ATOMIC",
    c"PTL_EVENT_FETCH_ATOMIC_OVERFLOW",
    c"PTL_EVENT_REPLY",
    c"PTL_EVENT_SEND",
    c"PTL_EVENT_ACK",
    c"PTL_EVENT_PT_DISABLED",
    c"PTL_EVENT_AUTO_UNLINK",
    c"PTL_EVENT_AUTO_FREE",
    c"PTL_EVENT_SEARCH",
    c"PTL_EVENT_LINK",
];
const FAIL_TYPES: [&CStr; 8] = [
    c"PTL_NI_OK",
    c"PTL_NI_UNDELIVERABLE",
    c"PTL_NI_DROPPED",
    c"PTL_NI_PT_DISABLED",
    c"PTL_NI_PERM_VIOLATION",
    c"PTL_NI_OP_VIOLATION",
    c"PTL_NI_SEGV",
    c"PTL_NI_NO_MATCH",
];

fn name(code: c_int, kind: c_uint) -> &'static CStr {
    let pick = |names: &'static [&'static CStr], index: Option<c_int>| {
        index.and_then(|index| usize::try_from(index).ok()).and_then(|index| names.get(index)).copied().unwrap_or(c"unknown")
    };
    match kind {
        0 if code == abi::OK => c"PTL_OK",
        0 => pick(&ERRORS, code.checked_sub(abi::ARG_INVALID)),
        1 => pick(&EVENTS, Some(code)),
        2 => pick(&FAIL_TYPES, Some(code)),
        _ => c"unknown",
    }
}

/// The name of a return code (0), an event (1) or a failure (2).
#[unsafe(no_mangle)]
pub extern "C" fn PtlToStr(code: c_int, kind: c_uint) -> *const c_char {
    name(code, kind).as_ptr()
}

/// Writes an event as one line into `text`, which has room for `PTL_EV_STR_SIZE` bytes; the length of the line.
/// `_flags` has no meaning yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEvToStr(_flags: c_uint, event: *const FullEvent, text: *mut c_char) -> c_int {
    // SAFETY: null or valid, as the header says.
    let Some(event) = (unsafe { event.as_ref() }) else { return 0 };
    if text.is_null() {
        return 0;
    }
    let show = |name: &CStr| name.to_string_lossy().into_owned();
    // SAFETY: any bytes are a valid process.
    let abi::Physical { nid, pid } = unsafe { event.initiator.phys };
    let mut line = format!(
        "{} {} pt {} from {nid}:{pid} bits {:#x} rlength {} mlength {} offset {} list {}",
        show(name(event.kind as c_int, 1)),
        show(name(event.ni_fail_type as c_int, 2)),
        event.pt_index,
        event.match_bits,
        event.rlength,
        event.mlength,
        event.remote_offset,
        event.ptl_list
    );
    line.truncate(EVENT_TEXT - 1);
    // SAFETY: the line and its final zero are shorter than the room that the header promises.
    unsafe {
        std::ptr::copy_nonoverlapping(line.as_ptr().cast(), text, line.len());
        *text.add(line.len()) = 0;
    }
    line.len() as c_int
}
