//! Atomic operations (sections 3.15.4 to 3.15.7).
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says; memory
//! that a descriptor names may be read and written by the operation until it is complete.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint, c_void};

use narrows_portals::{AckRequest, Atomic, AtomicOperation, Command, Datatype};

use crate::abi::{self, Handle, Process};
use crate::call;
use crate::data::{acknowledgement, region, taken, target};
use crate::library::{Library, Outcome};
use crate::nic::Nic;

/// Where an atomic goes, as all of the functions say it.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub target_id: Process,
    pub pt_index: u32,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub user_ptr: *mut c_void,
    pub hdr_data: u64,
}

/// What it does.
fn checked(operation: c_uint, datatype: c_uint, length: u64, most: u64) -> Outcome<(AtomicOperation, Datatype)> {
    let operation = AtomicOperation::from_number(operation).ok_or(abi::ARG_INVALID)?;
    let datatype = Datatype::from_number(datatype).ok_or(abi::ARG_INVALID)?;
    let one = !operation.has_operand() || length == datatype.size();
    if operation.accepts(datatype) && length.is_multiple_of(datatype.size()) && length <= most && one {
        Ok((operation, datatype))
    } else {
        Err(abi::ARG_INVALID)
    }
}

/// `PtlAtomic` and its triggered sister; `now`: the data may travel with the command.
#[allow(clippy::too_many_arguments)]
pub(crate) fn atomic(
    nic: &mut dyn Nic,
    library: &mut Library,
    md_handle: Handle,
    local_offset: u64,
    length: u64,
    ack_req: c_uint,
    remote: Remote,
    operation: c_uint,
    datatype: c_uint,
    now: bool,
) -> Outcome<(Command, usize)> {
    let md = library.md(md_handle)?;
    let limits = library.interface(md.interface)?.limits;
    let (operation, datatype) = checked(operation, datatype, length, limits.max_atomic_size)?;
    if operation.swaps() {
        return Err(abi::ARG_INVALID);
    }
    let local = region(library, &md, local_offset, length, remote.user_ptr, limits.max_atomic_size)?;
    let ack = acknowledgement(&md, ack_req)?;
    let target = target(library, &md, remote.target_id, remote.pt_index, remote.match_bits, remote.remote_offset)?;
    let inline = if now { taken(nic, &md, &local, length, limits.max_volatile_size) } else { None };
    let hdr_data = remote.hdr_data;
    let atomic = Atomic { local, fetched: None, length, inline, ack, target, hdr_data, operation, datatype, operand: [0; 32] };
    Ok((Command::Atomic(Box::new(atomic)), md.interface))
}

/// `PtlFetchAtomic`, `PtlSwap` and their triggered sisters.
#[allow(clippy::too_many_arguments)]
pub(crate) fn fetching(
    nic: &mut dyn Nic,
    library: &mut Library,
    (get_md_handle, local_get_offset): (Handle, u64),
    (put_md_handle, local_put_offset): (Handle, u64),
    length: u64,
    remote: Remote,
    operand: Option<*const c_void>,
    operation: c_uint,
    datatype: c_uint,
    now: bool,
) -> Outcome<(Command, usize)> {
    let (get_md, put_md) = (library.md(get_md_handle)?, library.md(put_md_handle)?);
    if get_md.interface != put_md.interface {
        return Err(abi::ARG_INVALID);
    }
    let limits = library.interface(put_md.interface)?.limits;
    let most = limits.max_fetch_atomic_size;
    let (operation, datatype) = checked(operation, datatype, length, most)?;
    if operation.swaps() != operand.is_some() {
        return Err(abi::ARG_INVALID);
    }
    let mut bytes = [0; 32];
    if operation.has_operand() {
        let operand = operand.filter(|operand| !operand.is_null()).ok_or(abi::ARG_INVALID)?;
        let size = datatype.size() as usize;
        // SAFETY: the program gives an operand of the type, at most 32 bytes.
        bytes[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(operand.cast::<u8>(), size) });
    }
    let local = region(library, &put_md, local_put_offset, length, remote.user_ptr, most)?;
    let fetched = Some(region(library, &get_md, local_get_offset, length, remote.user_ptr, most)?);
    let target = target(library, &put_md, remote.target_id, remote.pt_index, remote.match_bits, remote.remote_offset)?;
    let inline = if now { taken(nic, &put_md, &local, length, limits.max_volatile_size) } else { None };
    let (hdr_data, ack) = (remote.hdr_data, AckRequest::None);
    let atomic = Atomic { local, fetched, length, inline, ack, target, hdr_data, operation, datatype, operand: bytes };
    Ok((Command::Atomic(Box::new(atomic)), put_md.interface))
}

/// Combines with the target's memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlAtomic(
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
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (command, _) = atomic(nic, library, md_handle, local_offset, length, ack_req, remote, operation, datatype, true)?;
        nic.submit(command);
        Ok(())
    })
}

/// Combines with the target's memory and fetches what was there before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlFetchAtomic(
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
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (get, put) = ((get_md_handle, local_get_offset), (put_md_handle, local_put_offset));
        let (command, _) = fetching(nic, library, get, put, length, remote, None, operation, datatype, true)?;
        nic.submit(command);
        Ok(())
    })
}

/// Swaps, perhaps on a condition, and fetches what was there before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlSwap(
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
) -> c_int {
    call(|nic, library| {
        let remote = Remote { target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data };
        let (get, put) = ((get_md_handle, local_get_offset), (put_md_handle, local_put_offset));
        let (command, _) = fetching(nic, library, get, put, length, remote, Some(operand), operation, datatype, true)?;
        nic.submit(command);
        Ok(())
    })
}

/// The NIC's atomics work on the memory that the program sees (`PTL_COHERENT_ATOMICS`): nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> c_int {
    call(|_, library| library.ready())
}

/// As [`PtlAtomicSync`], for one network interface.
#[unsafe(no_mangle)]
pub extern "C" fn PtlNIAtomicSync(ni_handle: Handle) -> c_int {
    call(|_, library| library.interface_index(ni_handle).map(drop))
}
