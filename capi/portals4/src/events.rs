//! Event queues and counting events (sections 3.13 and 3.14). What waits, waits in simulated time.
//!
//! Safety of all functions here: pointer arguments are null or valid, as `portals4.h` says.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use narrows_output::say;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::Once;

use narrows_guest::{Turn, Waited};
use narrows_portals::{Command, CtId, EqId, Event};
use narrows_units::SimTime;

use crate::abi::{self, CtEvent, FullEvent, Handle};
use crate::library::{Outcome, library};
use crate::nic::{Nic, with_nic};
use crate::{boundary, call, slice_in, write_out};

/// Queues that one poll can name without allocating: our own choice, more than programs use.
const FEW: usize = 8;

/// How long a call may wait.
pub(crate) enum Patience {
    /// An empty poll, by the rules of the run (it may park the rank).
    Poll,
    /// Only look.
    Look,
    /// So long.
    Until(SimTime),
    /// For ever.
    Forever,
}

impl Patience {
    fn from_ms(timeout: c_long) -> Patience {
        match u64::try_from(timeout) {
            Ok(0) => Patience::Poll,
            Ok(ms) => Patience::Until(SimTime::from_us(ms.saturating_mul(1_000))),
            // PTL_TIME_FOREVER, or any other negative number.
            Err(_) => Patience::Forever,
        }
    }
}

/// A C function that may wait. Threads of the process that wait for other things take turns with it: `body` is called
/// again whenever it had to give way, with the same time up to which it waits.
fn call_waiting(patience: &Patience, mut body: impl FnMut(&mut dyn Nic, Option<SimTime>) -> Outcome<Waited<()>>) -> c_int {
    boundary(|| {
        // Who only looks is not in anybody's way for long.
        let mut turn = matches!(patience, Patience::Until(_) | Patience::Forever).then(Turn::begin);
        let mut until = None;
        loop {
            let waited = with_nic(|nic| {
                let until = *until.get_or_insert_with(|| match patience {
                    Patience::Poll | Patience::Look => Some(nic.now()),
                    Patience::Until(time) => Some(SimTime(nic.now().as_ps().saturating_add(time.as_ps()))),
                    Patience::Forever => None,
                });
                if let (Some(turn), Some(until)) = (&mut turn, until) {
                    turn.ends(until);
                }
                body(nic, until)
            });
            match waited.unwrap_or(Err(abi::FAIL))? {
                Waited::Wanted => turn.get_or_insert_with(Turn::begin).again(),
                Waited::Done(()) | Waited::Over => return Ok(()),
            }
        }
    })
}

/// Looks at some queues. `which` is null or says from which queue the event is.
pub(crate) fn next_event(handles: &[Handle], patience: Patience, event: *mut FullEvent, which: *mut c_uint) -> c_int {
    call_waiting(&patience, |nic, until| {
        if event.is_null() || handles.is_empty() {
            return Err(abi::ARG_INVALID);
        }
        let mut few = [EqId::NONE; FEW];
        let mut many = Vec::new();
        let eqs: &mut [EqId] = if handles.len() <= FEW {
            &mut few[..handles.len()]
        } else {
            many.resize(handles.len(), EqId::NONE);
            &mut many
        };
        {
            let library = library();
            library.may_wait()?;
            for (eq, handle) in eqs.iter_mut().zip(handles) {
                *eq = library.eq(*handle)?;
            }
        }
        let found: Waited<(usize, Event)> = match patience {
            Patience::Poll => nic.eq_get(eqs).map_or(Waited::Over, Waited::Done),
            _ => nic.eq_wait(eqs, until),
        };
        let (index, found) = match found {
            Waited::Done(found) => found,
            Waited::Over => return Err(if library().aborted { abi::ABORTED } else { abi::EQ_EMPTY }),
            Waited::Wanted => return Ok(Waited::Wanted),
        };
        let dropped = nic.eq_dropped(eqs[index]);
        let full = library().event_out(handles[index], &found);
        if !which.is_null() {
            // SAFETY: not null.
            unsafe { write_out(which, index as c_uint)? };
        }
        // SAFETY: not null.
        unsafe { write_out(event, full)? };
        if dropped { Err(abi::EQ_DROPPED) } else { Ok(Waited::Done(())) }
    })
}

/// Allocates an event queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQAlloc(ni_handle: Handle, count: u64, eq_handle: *mut Handle) -> c_int {
    call(|nic, library| {
        if eq_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        // SAFETY: not null.
        unsafe { write_out(eq_handle, library.eq_alloc(nic, ni_handle, count)?) }
    })
}

/// As [`PtlEQAlloc`]. `callback` is for interrupts, which a simulated NIC does not raise: the queue is to be polled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQAllocAsync(
    ni_handle: Handle,
    count: u64,
    eq_handle: *mut Handle,
    callback: Option<extern "C" fn(*mut c_void, Handle)>,
    _argument: *mut c_void,
    _hint: c_int,
) -> c_int {
    if callback.is_some() {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| say!("PtlEQAllocAsync: callbacks are not called; events wait in their queue"));
    }
    // SAFETY: the caller's promise is that of PtlEQAlloc.
    unsafe { PtlEQAlloc(ni_handle, count, eq_handle) }
}

/// Frees an event queue.
#[unsafe(no_mangle)]
pub extern "C" fn PtlEQFree(eq_handle: Handle) -> c_int {
    call(|nic, library| library.eq_free(nic, eq_handle))
}

/// The next event, or `PTL_EQ_EMPTY`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQGet(eq_handle: Handle, event: *mut FullEvent) -> c_int {
    next_event(&[eq_handle], Patience::Poll, event, std::ptr::null_mut())
}

/// Waits for the next event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQWait(eq_handle: Handle, event: *mut FullEvent) -> c_int {
    next_event(&[eq_handle], Patience::Forever, event, std::ptr::null_mut())
}

/// Waits for the next event of several queues.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlEQPoll(
    eq_handles: *const Handle,
    size: c_uint,
    timeout: c_long,
    event: *mut FullEvent,
    which: *mut c_uint,
) -> c_int {
    // SAFETY: `size` handles, as the header says.
    match unsafe { slice_in(eq_handles, size as usize) } {
        Ok(_) if which.is_null() => abi::ARG_INVALID,
        Ok(handles) => next_event(handles, Patience::from_ms(timeout), event, which),
        Err(code) => code,
    }
}

/// Allocates a counting event, at zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTAlloc(ni_handle: Handle, ct_handle: *mut Handle) -> c_int {
    call(|nic, library| {
        if ct_handle.is_null() {
            return Err(abi::ARG_INVALID);
        }
        // SAFETY: not null.
        unsafe { write_out(ct_handle, library.ct_alloc(nic, ni_handle)?) }
    })
}

/// Frees a counting event.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTFree(ct_handle: Handle) -> c_int {
    call(|nic, library| library.ct_free(nic, ct_handle))
}

/// Forgets the triggered operations that wait for a counting event.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTCancelTriggered(ct_handle: Handle) -> c_int {
    call(|nic, library| {
        nic.submit(Command::CtCancel { ct: library.ct(ct_handle)? });
        Ok(())
    })
}

fn value(nic: &mut dyn Nic, ct: CtId) -> CtEvent {
    let (success, failure) = nic.count(ct);
    CtEvent { success, failure }
}

/// The value of a counting event. Asking again for a value that has not changed is an empty poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTGet(ct_handle: Handle, event: *mut CtEvent) -> c_int {
    call(|nic, library| {
        let (success, failure) = library.ct_value(nic, ct_handle)?;
        // SAFETY: null or valid, as the header says.
        unsafe { write_out(event, CtEvent { success, failure }) }
    })
}

fn wait_counts(nic: &mut dyn Nic, tests: &[(CtId, u64)], until: Option<SimTime>) -> Outcome<Waited<(usize, CtEvent)>> {
    match nic.count_wait(tests, until) {
        Waited::Done(index) => Ok(Waited::Done((index, value(nic, tests[index].0)))),
        Waited::Over => Err(if library().aborted { abi::ABORTED } else { abi::CT_NONE_REACHED }),
        Waited::Wanted => Ok(Waited::Wanted),
    }
}

/// Waits until successes and failures together reach `test`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTWait(ct_handle: Handle, test: u64, event: *mut CtEvent) -> c_int {
    call_waiting(&Patience::Forever, |nic, until| {
        let ct = {
            let library = library();
            library.may_wait()?;
            library.ct(ct_handle)?
        };
        if event.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let Waited::Done((_, value)) = wait_counts(nic, &[(ct, test)], until)? else { return Ok(Waited::Wanted) };
        // SAFETY: not null.
        unsafe { write_out(event, value) }.map(Waited::Done)
    })
}

/// Waits until one of several counting events reaches its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PtlCTPoll(
    ct_handles: *const Handle,
    tests: *const u64,
    size: c_uint,
    timeout: c_long,
    event: *mut CtEvent,
    which: *mut c_uint,
) -> c_int {
    let patience = match Patience::from_ms(timeout) {
        Patience::Poll => Patience::Look,
        patience => patience,
    };
    call_waiting(&patience, |nic, until| {
        // SAFETY: `size` values each, as the header says.
        let (handles, tests) = unsafe { (slice_in(ct_handles, size as usize)?, slice_in(tests, size as usize)?) };
        if handles.is_empty() || event.is_null() || which.is_null() {
            return Err(abi::ARG_INVALID);
        }
        let pairs: Outcome<Vec<(CtId, u64)>> = {
            let library = library();
            library.may_wait()?;
            handles.iter().zip(tests).map(|(handle, test)| Ok((library.ct(*handle)?, *test))).collect()
        };
        let Waited::Done((index, value)) = wait_counts(nic, &pairs?, until)? else { return Ok(Waited::Wanted) };
        // SAFETY: neither is null.
        unsafe {
            write_out(which, index as c_uint)?;
            write_out(event, value).map(Waited::Done)
        }
    })
}

/// Sets a counting event.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTSet(ct_handle: Handle, new_ct: CtEvent) -> c_int {
    call(|nic, library| {
        nic.submit(Command::CtSet { ct: library.ct(ct_handle)?, success: new_ct.success, failure: new_ct.failure });
        Ok(())
    })
}

/// Adds to one field of a counting event.
#[unsafe(no_mangle)]
pub extern "C" fn PtlCTInc(ct_handle: Handle, increment: CtEvent) -> c_int {
    call(|nic, library| {
        let ct = library.ct(ct_handle)?;
        if increment.success != 0 && increment.failure != 0 {
            return Err(abi::ARG_INVALID);
        }
        nic.submit(Command::CtIncrement { ct, success: increment.success, failure: increment.failure });
        Ok(())
    })
}
