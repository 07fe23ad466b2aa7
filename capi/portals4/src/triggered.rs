//! Triggered operations (section 3.16), and the triggered list operations that some libraries have beside them.
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says; memory
//! that a descriptor names may be read and written by the operation until it is complete.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_uint, c_void};

use narrows_portals::{Command, EntryId, NO_TICKET};

use crate::abi::{self, CtEvent, Handle, ListEntry, MatchListEntry, Process};
use crate::atomics::{Remote, atomic, fetching};
use crate::data::{acknowledgement, region, target};
use crate::library::{Library, Outcome};
use crate::lists::{appending, checked_interface, match_all};
use crate::nic::Nic;
use crate::{call, read_in, write_out};

/// Hands a command over that waits for a counting event of the same network interface.
fn trigger(nic: &mut dyn Nic, library: &mut Library, index: usize, ct_handle: Handle, threshold: u64, command: Command) -> Outcome<()> {
    let trigger = library.ct_of(ct_handle, index)?;
    library.reserve_triggered(nic, index)?;
    nic.submit(Command::Triggered { interface: index as u32, trigger, threshold, command: Box::new(command) });
    Ok(())
}

/// A put that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredPut(
    md_handle: Handle,
    local_offset: u64,
    length: u64,
    ack_req: c_uint,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let md = library.md(md_handle)?;
        let local = region(library, &md, local_offset, length, user_ptr, library.interface(md.interface)?.limits.max_msg_size)?;
        let ack = acknowledgement(&md, ack_req)?;
        let target = target(library, &md, target_id, pt_index, match_bits, remote_offset)?;
        let put = Command::Put { local, length, inline: None, ack, target, hdr_data };
        trigger(nic, library, md.interface, trig_ct_handle, threshold, put)
    })
}

/// A get that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredGet(
    md_handle: Handle,
    local_offset: u64,
    length: u64,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let md = library.md(md_handle)?;
        let local = region(library, &md, local_offset, length, user_ptr, library.interface(md.interface)?.limits.max_msg_size)?;
        let target = target(library, &md, target_id, pt_index, match_bits, remote_offset)?;
        trigger(nic, library, md.interface, trig_ct_handle, threshold, Command::Get { local, length, target })
    })
}

/// An atomic that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredAtomic(
    md_handle: Handle,
    local_offset: u64,
    length: u64,
    ack_req: c_uint,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: c_uint,
    datatype: c_uint,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (command, index) = atomic(nic, library, md_handle, local_offset, length, ack_req, remote, operation, datatype, false)?;
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

/// A fetching atomic that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredFetchAtomic(
    get_md_handle: Handle,
    local_get_offset: u64,
    put_md_handle: Handle,
    local_put_offset: u64,
    length: u64,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operation: c_uint,
    datatype: c_uint,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (get, put) = ((get_md_handle, local_get_offset), (put_md_handle, local_put_offset));
        let (command, index) = fetching(nic, library, get, put, length, remote, None, operation, datatype, false)?;
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

/// A swap that waits. Its operand is read now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredSwap(
    get_md_handle: Handle,
    local_get_offset: u64,
    put_md_handle: Handle,
    local_put_offset: u64,
    length: u64,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
    hdr_data: u64,
    operand: *const c_void,
    operation: c_uint,
    datatype: c_uint,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (get, put) = ((get_md_handle, local_get_offset), (put_md_handle, local_put_offset));
        let (command, index) = fetching(nic, library, get, put, length, remote, Some(operand), operation, datatype, false)?;
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

/// An increment of a counting event that waits for another one, or for itself.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTInc(ct_handle: Handle, increment: CtEvent, trig_ct_handle: Handle, threshold: u64) -> c_int {
    call(|nic, library| {
        if increment.success != 0 && increment.failure != 0 {
            return Err(abi::ARG_INVALID);
        }
        let (ct, index) = library.ct_and_interface(ct_handle)?;
        let command = Command::CtIncrement { ct, success: increment.success, failure: increment.failure };
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

/// A setting of a counting event that waits for another one, or for itself.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTSet(ct_handle: Handle, new_ct: CtEvent, trig_ct_handle: Handle, threshold: u64) -> c_int {
    call(|nic, library| {
        let (ct, index) = library.ct_and_interface(ct_handle)?;
        let command = Command::CtSet { ct, success: new_ct.success, failure: new_ct.failure };
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

fn append(
    nic: &mut dyn Nic,
    library: &mut Library,
    index: usize,
    table: u32,
    entry: &MatchListEntry,
    list: c_uint,
    user_ptr: *mut c_void,
    (ct_handle, threshold): (Handle, u64),
) -> Outcome<Handle> {
    library.ct_of(ct_handle, index)?;
    let (command, handle) = appending(nic, library, index, table, entry, list, user_ptr)?;
    trigger(nic, library, index, ct_handle, threshold, command)?;
    Ok(handle)
}

/// An append of a match list entry that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredMEAppend(
    ni_handle: Handle,
    pt_index: u32,
    me: *const MatchListEntry,
    ptl_list: c_uint,
    user_ptr: *mut c_void,
    me_handle: *mut Handle,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, true)?;
        // SAFETY: null or valid, as the header says.
        let me = unsafe { read_in(me)? };
        if me_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let handle = append(nic, library, index, pt_index, me, ptl_list, user_ptr, (trig_ct_handle, threshold))?;
        // SAFETY: not null.
        unsafe { write_out(me_handle, handle) }
    })
}

/// An append of a list entry that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlTriggeredLEAppend(
    ni_handle: Handle,
    pt_index: u32,
    le: *const ListEntry,
    ptl_list: c_uint,
    user_ptr: *mut c_void,
    le_handle: *mut Handle,
    trig_ct_handle: Handle,
    threshold: u64,
) -> c_int {
    call(|nic, library| {
        let index = checked_interface(library, ni_handle, false)?;
        // SAFETY: null or valid, as the header says.
        let le = match_all(unsafe { read_in(le)? });
        if le_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let handle = append(nic, library, index, pt_index, &le, ptl_list, user_ptr, (trig_ct_handle, threshold))?;
        // SAFETY: not null.
        unsafe { write_out(le_handle, handle) }
    })
}

fn unlink(handle: Handle, matching: bool, trig_ct_handle: Handle, threshold: u64) -> c_int {
    call(|nic, library| {
        let (number, index) = library.entry_number(handle, matching)?;
        let command = Command::MeUnlink { entry: EntryId(number), ticket: NO_TICKET };
        trigger(nic, library, index, trig_ct_handle, threshold, command)
    })
}

/// An unlink of a match list entry that waits. An entry that is in use then stays.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEUnlink(me_handle: Handle, trig_ct_handle: Handle, threshold: u64) -> c_int {
    unlink(me_handle, true, trig_ct_handle, threshold)
}

/// An unlink of a list entry that waits. An entry that is in use then stays.
#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredLEUnlink(le_handle: Handle, trig_ct_handle: Handle, threshold: u64) -> c_int {
    unlink(le_handle, false, trig_ct_handle, threshold)
}
