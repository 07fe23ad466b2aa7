//! Start and end, network interfaces, identities, portal table entries (sections 3.5 to 3.9).
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint};

use narrows_portals::{Command, ProcessId, Register};

use crate::abi::{self, Handle, NiLimits, Process};
use crate::library::own_uid;
use crate::{call, slice_in, write_out};

/// Attaches to the simulator; may be called more than once.
#[unsafe(no_mangle)]
pub extern "C" fn PtlInit() -> c_int {
    call(|nic, library| {
        if !library.serves_provider {
            nic.program_starts();
        }
        library.initialise(nic);
        Ok(())
    })
}

/// The last call gives everything back.
#[unsafe(no_mangle)]
pub extern "C" fn PtlFini() {
    call(|nic, library| {
        library.finalise(nic);
        Ok(())
    });
}

/// Opens a network interface; the same kind gives the same one again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIInit(
    iface: u32,
    options: c_uint,
    pid: u32,
    desired: *const NiLimits,
    actual: *mut NiLimits,
    ni_handle: *mut Handle,
) -> c_int {
    call(|nic, library| {
        if iface != 0 || ni_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        // SAFETY: null or valid, as the header says.
        let desired = unsafe { desired.as_ref() };
        let (handle, limits) = library.open(nic, options, pid, desired)?;
        if !actual.is_null() {
            // SAFETY: not null.
            unsafe { write_out(actual, limits)? };
        }
        // SAFETY: checked above.
        unsafe { write_out(ni_handle, handle) }
    })
}

/// Gives one reference back.
#[unsafe(no_mangle)]
pub extern "C" fn PtlNIFini(ni_handle: Handle) -> c_int {
    call(|nic, library| library.release(nic, ni_handle))
}

/// Ends everything that waits, now and later: it returns `PTL_ABORTED` (4.3). Any thread may call it while others wait.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAbort() {
    // Not the NIC's lock: a thread that waits holds it.
    crate::library::library().aborted = true;
    narrows_guest::interrupt();
}

/// A status register (section 3.6.7).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIStatus(ni_handle: Handle, status_register: c_uint, status: *mut c_int) -> c_int {
    call(|nic, library| {
        let register = match status_register {
            abi::SR_DROP_COUNT => Register::DropCount,
            abi::SR_PERMISSION_VIOLATIONS => Register::PermissionViolations,
            abi::SR_OPERATION_VIOLATIONS => Register::OperationViolations,
            _ => return Err(abi::ARG_INVALID),
        };
        if status.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let value = library.status(nic, ni_handle, register)?;
        // SAFETY: not null.
        unsafe { write_out(status, c_int::try_from(value).unwrap_or(c_int::MAX)) }
    })
}

/// The number of the simulated NIC, and its capabilities, of which none is defined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetHwid(ni_handle: Handle, hwid: *mut u64, capabilities: *mut u64) -> c_int {
    call(|nic, library| {
        library.interface_index(ni_handle)?;
        // SAFETY: null or valid, as the header says.
        unsafe {
            write_out(hwid, u64::from(nic.id().nid))?;
            write_out(capabilities, 0)
        }
    })
}

/// The network interface of any handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlNIHandle(handle: Handle, ni_handle: *mut Handle) -> c_int {
    // SAFETY: null or valid, as the header says.
    call(|_, library| unsafe { write_out(ni_handle, library.interface_of(handle)?) })
}

/// Says which process has which rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlSetMap(ni_handle: Handle, map_size: u64, mapping: *const Process) -> c_int {
    call(|nic, library| {
        // SAFETY: `map_size` values, as the header says.
        let mapping = unsafe { slice_in(mapping, map_size as usize)? };
        let physical = |process: &Process| {
            // SAFETY: any bytes are a valid process.
            let abi::Physical { nid, pid } = unsafe { process.phys };
            ProcessId { nid, pid }
        };
        library.set_map(ni_handle, mapping.iter().map(physical).collect(), nic.id())
    })
}

/// Copies as much of the map as fits, and says how long it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetMap(ni_handle: Handle, map_size: u64, mapping: *mut Process, actual_map_size: *mut u64) -> c_int {
    call(|_, library| {
        let map = library.map(ni_handle)?;
        if !actual_map_size.is_null() {
            // SAFETY: not null.
            unsafe { write_out(actual_map_size, map.len() as u64)? };
        }
        if map_size > 0 && mapping.is_null() {
            return Err(abi::ARG_INVALID);
        }
        for (rank, process) in map.iter().take(map_size as usize).enumerate() {
            // SAFETY: the array has `map_size` places.
            unsafe { mapping.add(rank).write(Process::physical(process.nid, process.pid)) };
        }
        Ok(())
    })
}

/// The user of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetUid(ni_handle: Handle, uid: *mut u32) -> c_int {
    call(|_, library| {
        library.interface_index(ni_handle)?;
        // SAFETY: null or valid, as the header says.
        unsafe { write_out(uid, own_uid()) }
    })
}

/// This process, as the network interface names processes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetId(ni_handle: Handle, id: *mut Process) -> c_int {
    // SAFETY: null or valid, as the header says.
    call(|nic, library| unsafe { write_out(id, library.own_id(ni_handle, nic.id())?) })
}

/// This process by node and number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlGetPhysId(ni_handle: Handle, id: *mut Process) -> c_int {
    call(|nic, library| {
        library.interface_index(ni_handle)?;
        let ProcessId { nid, pid } = nic.id();
        // SAFETY: null or valid, as the header says.
        unsafe { write_out(id, Process::physical(nid, pid)) }
    })
}

/// Allocates a portal table entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlPTAlloc(ni_handle: Handle, options: c_uint, eq_handle: Handle, pt_index_req: u32, pt_index: *mut u32) -> c_int {
    call(|nic, library| {
        if pt_index.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let index = library.table_alloc(nic, ni_handle, options, eq_handle, pt_index_req)?;
        // SAFETY: not null.
        unsafe { write_out(pt_index, index) }
    })
}

/// Frees a portal table entry.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTFree(ni_handle: Handle, pt_index: u32) -> c_int {
    call(|nic, library| library.table_free(nic, ni_handle, pt_index))
}

/// Accepts messages again.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTEnable(ni_handle: Handle, pt_index: u32) -> c_int {
    call(|nic, library| {
        nic.submit(Command::PtEnable { pt: library.table(ni_handle, pt_index)? });
        Ok(())
    })
}

/// Refuses messages from now on; returns when none is in progress any more.
#[unsafe(no_mangle)]
pub extern "C" fn PtlPTDisable(ni_handle: Handle, pt_index: u32) -> c_int {
    call(|nic, library| {
        let pt = library.table(ni_handle, pt_index)?;
        let ticket = nic.ticket();
        nic.submit(Command::PtDisable { pt, ticket });
        nic.wait_reply(ticket);
        Ok(())
    })
}

/// Whether two handles name the same thing.
#[unsafe(no_mangle)]
pub extern "C" fn PtlHandleIsEqual(handle1: Handle, handle2: Handle) -> c_int {
    // The one function whose result is not a return code (section 3.17).
    c_int::from(handle1 == handle2)
}

/// The operations up to `PtlEndBundle` may be started together: a hint that changes nothing here.
#[unsafe(no_mangle)]
pub extern "C" fn PtlStartBundle(ni_handle: Handle) -> c_int {
    call(|_, library| library.interface_index(ni_handle).map(drop))
}

/// See [`PtlStartBundle`].
#[unsafe(no_mangle)]
pub extern "C" fn PtlEndBundle(ni_handle: Handle) -> c_int {
    call(|_, library| library.interface_index(ni_handle).map(drop))
}
