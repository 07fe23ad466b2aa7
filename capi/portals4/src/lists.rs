//! List entries and match list entries (sections 3.10 to 3.12).
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint, c_void};

use narrows_portals::{Command, EntryId, List, ReplyCode, SearchOperation};

use crate::abi::{self, Handle, ListEntry, MatchListEntry, Process};
use crate::handle::{HandleKind, pack};
use crate::library::{Library, Outcome, is_matching, library, table_index};
use crate::nic::Nic;
use crate::{call, call_blocking, read_in, write_out};

/// An entry of a network interface without matching, as one that matches everything.
pub(crate) fn match_all(le: &ListEntry) -> MatchListEntry {
    MatchListEntry {
        start: le.start,
        length: le.length,
        ct_handle: le.ct_handle,
        uid: le.uid,
        options: le.options,
        match_id: Process::physical(0, 0),
        match_bits: 0,
        ignore_bits: u64::MAX,
        min_free: 0,
    }
}

/// Which kind of entry a call is for.
pub(crate) fn checked_interface(library: &Library, handle: Handle, matching: bool) -> Outcome<usize> {
    let index = library.interface_index(handle)?;
    if is_matching(index) == matching { Ok(index) } else { Err(abi::ARG_INVALID) }
}

/// The command that appends an entry, and its handle.
pub(crate) fn appending(
    nic: &mut dyn Nic,
    library: &mut Library,
    index: usize,
    table: u32,
    entry: &MatchListEntry,
    list: c_uint,
    user_ptr: *mut c_void,
) -> Outcome<(Command, Handle)> {
    let list = match list {
        abi::PRIORITY_LIST => List::Priority,
        abi::OVERFLOW_LIST => List::Overflow,
        _ => return Err(abi::ARG_INVALID),
    };
    library.table(pack(HandleKind::Interface, index, 0), table)?;
    let me = library.entry(index, entry, user_ptr as u64)?;
    library.reserve_entry(nic, index, table, list)?;
    let number = library.new_entry();
    let command = Command::MeAppend { entry: EntryId(number), pt: table_index(index, table)?, list, me };
    Ok((command, pack(HandleKind::Entry, index, number)))
}

fn append(
    nic: &mut dyn Nic,
    library: &mut Library,
    index: usize,
    table: u32,
    entry: &MatchListEntry,
    list: c_uint,
    user_ptr: *mut c_void,
) -> Outcome<Handle> {
    let (command, handle) = appending(nic, library, index, table, entry, list, user_ptr)?;
    nic.submit(command);
    Ok(handle)
}

fn search(
    nic: &mut dyn Nic,
    library: &Library,
    index: usize,
    table: u32,
    entry: &MatchListEntry,
    operation: c_uint,
    user_ptr: *mut c_void,
) -> Outcome<()> {
    let operation = match operation {
        abi::SEARCH_ONLY => SearchOperation::Only,
        abi::SEARCH_DELETE => SearchOperation::Delete,
        _ => return Err(abi::ARG_INVALID),
    };
    library.table(pack(HandleKind::Interface, index, 0), table)?;
    let me = library.entry(index, entry, user_ptr as u64)?;
    nic.submit(Command::MeSearch { pt: table_index(index, table)?, operation, me });
    Ok(())
}

/// Unlinks and waits for the NIC's answer.
fn unlink(handle: Handle, matching: bool) -> c_int {
    call_blocking(|nic| {
        let (number, _) = library().entry_number(handle, matching)?;
        let ticket = nic.ticket();
        nic.submit(Command::MeUnlink { entry: EntryId(number), ticket });
        match nic.wait_reply(ticket).0 {
            ReplyCode::Ok => Ok(()),
            ReplyCode::InUse => Err(abi::IN_USE),
            // It was unlinked before, by the process or by the NIC.
            ReplyCode::Unknown => Err(abi::ARG_INVALID),
        }
    })
}

/// Appends a list entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLEAppend(
    ni_handle: Handle,
    pt_index: u32,
    le: *const ListEntry,
    ptl_list: c_uint,
    user_ptr: *mut c_void,
    le_handle: *mut Handle,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, false)?;
        // SAFETY: null or valid, as the header says.
        let le = match_all(unsafe { read_in(le)? });
        if le_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let handle = append(nic, library, index, pt_index, &le, ptl_list, user_ptr)?;
        // SAFETY: not null.
        unsafe { write_out(le_handle, handle) }
    })
}

/// Unlinks a list entry.
#[unsafe(no_mangle)]
pub extern "C" fn PtlLEUnlink(le_handle: Handle) -> c_int {
    unlink(le_handle, false)
}

/// Searches the unexpected headers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlLESearch(
    ni_handle: Handle,
    pt_index: u32,
    le: *const ListEntry,
    ptl_search_op: c_uint,
    user_ptr: *mut c_void,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, false)?;
        // SAFETY: null or valid, as the header says.
        let le = match_all(unsafe { read_in(le)? });
        search(nic, library, index, pt_index, &le, ptl_search_op, user_ptr)
    })
}

/// Appends a match list entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMEAppend(
    ni_handle: Handle,
    pt_index: u32,
    me: *const MatchListEntry,
    ptl_list: c_uint,
    user_ptr: *mut c_void,
    me_handle: *mut Handle,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, true)?;
        // SAFETY: null or valid, as the header says.
        let me = unsafe { read_in(me)? };
        if me_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let handle = append(nic, library, index, pt_index, me, ptl_list, user_ptr)?;
        // SAFETY: not null.
        unsafe { write_out(me_handle, handle) }
    })
}

/// Unlinks a match list entry.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMEUnlink(me_handle: Handle) -> c_int {
    unlink(me_handle, true)
}

/// Searches the unexpected headers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMESearch(
    ni_handle: Handle,
    pt_index: u32,
    me: *const MatchListEntry,
    ptl_search_op: c_uint,
    user_ptr: *mut c_void,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, true)?;
        // SAFETY: null or valid, as the header says.
        let me = unsafe { read_in(me)? };
        search(nic, library, index, pt_index, me, ptl_search_op, user_ptr)
    })
}
