//! Memory descriptors and data movement (sections 3.11 and 3.15).
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says; memory
//! that a descriptor names may be read by puts and written by gets until they are complete.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint, c_void};

use narrows_portals::{AckRequest, Command, LocalBuffer, RemoteTarget, md};

use crate::abi::{self, Handle, MemoryDescriptor, Process};
use crate::library::{Descriptor, Library, Outcome, is_matching, table_index};
use crate::nic::Nic;
use crate::{call, read_in, write_out};

/// Binds a memory descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlMDBind(ni_handle: Handle, md: *const MemoryDescriptor, md_handle: *mut Handle) -> c_int {
    call(|_, library| {
        // SAFETY: null or valid, as the header says.
        let md = unsafe { read_in(md)? };
        if md_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        // SAFETY: not null.
        unsafe { write_out(md_handle, library.md_bind(ni_handle, md)?) }
    })
}

/// Releases a memory descriptor. Operations on their way keep what they need.
#[unsafe(no_mangle)]
pub extern "C" fn PtlMDRelease(md_handle: Handle) -> c_int {
    call(|_, library| library.md_release(md_handle))
}

/// The region of an operation.
pub(crate) fn region(
    library: &Library,
    md: &Descriptor,
    offset: u64,
    length: u64,
    user_ptr: *mut c_void,
    most: u64,
) -> Outcome<LocalBuffer> {
    let inside = offset.checked_add(length).is_some_and(|end| end <= md.length);
    if !inside || length > most {
        return Err(abi::ARG_INVALID);
    }
    let (address, offset) = if md.segments == 0 { (md.start.wrapping_add(offset), 0) } else { (md.start, offset) };
    let (eq, ct) = library.listeners(md);
    Ok(LocalBuffer { address, offset, segments: md.segments, options: md.options, eq, ct, user_ptr: user_ptr as u64 })
}

pub(crate) fn target(library: &Library, md: &Descriptor, process: Process, pt_index: u32, bits: u64, offset: u64) -> Outcome<RemoteTarget> {
    Ok(RemoteTarget {
        process: library.process_in(md.interface, process)?,
        pt: table_index(md.interface, pt_index)?,
        match_bits: if is_matching(md.interface) { bits } else { 0 },
        offset,
    })
}

pub(crate) fn acknowledgement(md: &Descriptor, ack_req: c_uint) -> Outcome<AckRequest> {
    match ack_req {
        abi::NO_ACK_REQ => Ok(AckRequest::None),
        abi::ACK_REQ if md.queue.is_some() => Ok(AckRequest::Full),
        abi::CT_ACK_REQ if md.counter.is_some() => Ok(AckRequest::Counting),
        abi::OC_ACK_REQ if md.counter.is_some() => Ok(AckRequest::OperationCompleted),
        _ => Err(abi::ARG_INVALID),
    }
}

/// The data, when they travel with the command: those of volatile operations, whose buffer is free at once, also beyond
/// the limit that is promised, up to what the message layer asks for. A volatile operation that is longer is legal,
/// only not volatile. All others are left to the NIC, which reads what is longer than a command has room for by DMA.
pub(crate) fn taken(nic: &dyn Nic, md: &Descriptor, local: &LocalBuffer, length: u64, max_volatile: u64) -> Option<Box<[u8]>> {
    let volatile = md.options & md::VOLATILE != 0 && length <= max_volatile.max(nic.limits().inject_limit);
    (volatile && length > 0 && md.segments == 0).then(|| {
        // SAFETY: the region is inside the descriptor, whose memory the program may read.
        unsafe { std::slice::from_raw_parts(local.address as *const u8, length as usize) }.into()
    })
}

/// Sends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlPut(
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
) -> c_int {
    call(|nic, library| {
        let md = library.md(md_handle)?;
        let limits = library.interface(md.interface)?.limits;
        let local = region(library, &md, local_offset, length, user_ptr, limits.max_msg_size)?;
        let ack = acknowledgement(&md, ack_req)?;
        let target = target(library, &md, target_id, pt_index, match_bits, remote_offset)?;
        let inline = taken(nic, &md, &local, length, limits.max_volatile_size);
        nic.submit(Command::Put { local, length, inline, ack, target, hdr_data });
        Ok(())
    })
}

/// Fetches.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGet(
    md_handle: Handle,
    local_offset: u64,
    length: u64,
    target_id: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: *mut c_void,
) -> c_int {
    call(|nic, library| {
        let md = library.md(md_handle)?;
        let limits = library.interface(md.interface)?.limits;
        let local = region(library, &md, local_offset, length, user_ptr, limits.max_msg_size)?;
        let target = target(library, &md, target_id, pt_index, match_bits, remote_offset)?;
        nic.submit(Command::Get { local, length, target });
        Ok(())
    })
}
