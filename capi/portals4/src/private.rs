//! The functions of `narrows_private.h`, for the libfabric provider and the preload library.
//!
//! Safety of all functions here: pointer arguments are null or valid, as the header says.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{c_int, c_uint};

use narrows_guest::hooks::context_of_receive;
use narrows_guest::own_queue;
use narrows_message::{CALL_WORDS, Call, Queue};
use narrows_portals::ReplyCode;

use crate::abi::{FullEvent, Handle, PrivateSettings};
use crate::events::{Patience, next_event};
use crate::library::library;
use crate::{call_blocking, slice_in, write_out};

/// Thresholds of the machine file. Attaches to the simulator if that has not happened yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_get_settings(settings: *mut PrivateSettings) -> c_int {
    call_blocking(|nic| {
        library().serves_provider = true;
        let limits = nic.limits();
        let values = PrivateSettings {
            eager_limit: limits.eager_limit,
            inject_limit: limits.inject_limit,
            overflow_block: limits.overflow_block,
            max_portals_message: limits.max_portals_message,
            overflow_blocks: limits.overflow_blocks,
            rendezvous_put: u32::from(limits.rendezvous_put),
            one_sided_messages: u32::from(limits.one_sided_messages),
        };
        // SAFETY: null or valid.
        unsafe { write_out(settings, values) }
    })
}

/// The MPI library has an endpoint: its messages go through the simulated network.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_endpoint_open() {
    call_blocking(|nic| {
        nic.endpoint_open();
        Ok(())
    });
}

/// `prepare` is called at the end of MPI_Init, before simulated time begins. Only the first caller is heard.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_before_start(prepare: extern "C" fn()) {
    narrows_guest::hooks::before_start(prepare);
}

/// The time that copying so many bytes takes.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_charge_copy(bytes: u64) {
    call_blocking(|nic| {
        nic.charge_copy(bytes);
        Ok(())
    });
}

/// The time that handing out one completion takes.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_charge_completion() {
    call_blocking(|nic| {
        nic.charge_completion();
        Ok(())
    });
}

/// An answer is on its way, so that an empty poll waits for it; or no more.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_expect_soon(yes: c_int) {
    call_blocking(|nic| {
        nic.expect_soon(yes != 0);
        Ok(())
    });
}

/// The MPI library looks for a message of any source. 1: it must look into its queue of messages to itself first.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_own_queue_first() -> c_int {
    own_queue::comes_first().into()
}

/// It polls a completion queue in vain. 1 if that was only waited for because it shows that the other queue is empty.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_own_queue_empty() -> c_int {
    own_queue::is_empty().into()
}

/// It has found a message of any source on the network.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_network_first() {
    own_queue::network_is_first();
}

/// As `PtlEQPoll` without a timeout, but an empty queue neither parks the rank nor costs a poll.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_eq_check(eq_handles: *const Handle, size: c_uint, event: *mut FullEvent, which: *mut c_uint) -> c_int {
    // SAFETY: `size` handles.
    match unsafe { slice_in(eq_handles, size as usize) } {
        Ok(handles) => next_event(handles, Patience::Look, event, which),
        Err(code) => code,
    }
}

/// 1: an empty poll would return at once without effect, so the caller may leave it out.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_idle_poll() -> c_int {
    c_int::from(narrows_guest::idle_poll())
}

/// 1: the MPI library has started the calling thread for itself.
#[unsafe(no_mangle)]
pub extern "C" fn narrows_librarys_thread() -> c_int {
    narrows_guest::is_librarys_thread().into()
}

/// Calls the endpoint of the message layer that has this event queue, whose events are its completions. `words`: a
/// [`Call`]; `payload`: the data, or null if their buffer is not free at once. A cancelling waits for its result: 1
/// when the receive was taken back, 0 when not. Negative: a return code of Portals.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_message_call(eq_handle: Handle, words: *const u64, payload: *const u8, length: usize) -> c_int {
    let mut done = 0;
    let code = call_blocking(|nic| {
        // SAFETY: null, or as many words as a call has.
        let words = unsafe { slice_in(words, CALL_WORDS)? };
        let mut call = Call::from_words(words.first_chunk().ok_or(crate::abi::ARG_INVALID)?).map_err(|_| crate::abi::ARG_INVALID)?;
        // SAFETY: null, or `length` bytes.
        let payload = (!payload.is_null()).then(|| unsafe { slice_in(payload, length) }).transpose()?.map(Box::from);
        let eq = library().eq(eq_handle)?;
        match &mut call {
            Call::Cancel { ticket, .. } => *ticket = nic.ticket(),
            Call::Receive(receive) if receive.queue == Queue::Tagged => receive.execution = context_of_receive(receive.length),
            _ => {}
        }
        nic.call(eq, call, payload);
        if let Call::Cancel { ticket, .. } = call {
            done = c_int::from(nic.wait_reply(ticket).0 == ReplyCode::Ok);
        }
        Ok(())
    });
    if code == crate::abi::OK { done } else { -code }
}
