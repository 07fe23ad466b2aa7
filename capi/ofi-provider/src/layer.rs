//! What C calls: `struct nw_layer` of `c/narrows_fi.h`, one function per place. Results are zero, a
//! count, or a negative error number; nothing unwinds into C.

use narrows_output::say;
use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::endpoint::Operation;
use crate::fi::{self, Errno};
use crate::port::{self, abi};
use crate::queues::{Address, AddressVector, Counter, Entry};
use crate::rma;
use crate::state::{self, state};

#[repr(C)]
pub struct Limits {
    inject_size: u64,
    max_msg_size: u64,
    addrlen: u64,
}

#[repr(C)]
pub struct EndpointAttr {
    caps: u64,
    inject_size: u64,
    domain: u32,
}

/// `struct fi_atomic_attr`.
#[repr(C)]
pub struct AtomicAttr {
    count: usize,
    size: usize,
}

/// Binding of endpoints: `enum nw_bind`.
const BIND_AV: u32 = 0;
const BIND_TX_CQ: u32 = 1;
const BIND_RX_CQ: u32 = 2;
const BIND_TX_CNTR: u32 = 3;
const BIND_RX_CNTR: u32 = 4;
const BIND_READ_CNTR: u32 = 5;
const BIND_WRITE_CNTR: u32 = 6;

/// The functions, in the order of `struct nw_layer`.
#[repr(C)]
pub struct Layer {
    limits: unsafe extern "C" fn(*mut Limits) -> c_int,
    domain_open: unsafe extern "C" fn(*mut u32) -> c_int,
    domain_close: extern "C" fn(u32) -> c_int,
    mr_open: extern "C" fn(u32, u64, *mut c_void, u64, u64) -> c_int,
    mr_close: extern "C" fn(u32, u64) -> c_int,
    atomic_limits: unsafe extern "C" fn(u32, u32, u32, *mut AtomicAttr) -> c_int,
    av_open: unsafe extern "C" fn(*mut u32) -> c_int,
    av_close: extern "C" fn(u32) -> c_int,
    av_insert: unsafe extern "C" fn(u32, *const c_void, *mut u64) -> c_int,
    av_remove: extern "C" fn(u32, u64) -> c_int,
    av_lookup: unsafe extern "C" fn(u32, u64, *mut c_void) -> c_int,
    av_text: unsafe extern "C" fn(*const c_void, *mut c_char, usize) -> usize,
    cq_open: unsafe extern "C" fn(*mut u32) -> c_int,
    cq_close: extern "C" fn(u32) -> c_int,
    cq_next: unsafe extern "C" fn(u32, u32, *mut Entry) -> c_int,
    cq_error: unsafe extern "C" fn(u32, *mut Entry) -> c_int,
    cntr_open: unsafe extern "C" fn(*mut u32) -> c_int,
    cntr_close: extern "C" fn(u32) -> c_int,
    cntr_read: extern "C" fn(u32, u32) -> u64,
    cntr_change: extern "C" fn(u32, u32, u32, u64) -> c_int,
    cntr_wait: extern "C" fn(u32, u64, c_int) -> c_int,
    ep_open: unsafe extern "C" fn(*const EndpointAttr, *mut u32) -> c_int,
    ep_close: extern "C" fn(u32) -> c_int,
    ep_bind: extern "C" fn(u32, u32, u32, u32) -> c_int,
    ep_enable: extern "C" fn(u32) -> c_int,
    ep_name: unsafe extern "C" fn(u32, *mut c_void) -> c_int,
    ep_min_multi_recv: extern "C" fn(u32, u64) -> c_int,
    ep_send: unsafe extern "C" fn(u32, *const Operation) -> c_int,
    ep_receive: unsafe extern "C" fn(u32, *const Operation) -> c_int,
    ep_one_sided: unsafe extern "C" fn(u32, *const rma::Operation) -> c_int,
    ep_cancel: extern "C" fn(u32, *mut c_void) -> c_int,
}

/// What `fi_prov_ini` hands to C.
pub static LAYER: Layer = Layer {
    limits,
    domain_open,
    domain_close,
    mr_open,
    mr_close,
    atomic_limits,
    av_open,
    av_close,
    av_insert,
    av_remove,
    av_lookup,
    av_text,
    cq_open,
    cq_close,
    cq_next,
    cq_error,
    cntr_open,
    cntr_close,
    cntr_read,
    cntr_change,
    cntr_wait,
    ep_open,
    ep_close,
    ep_bind,
    ep_enable,
    ep_name,
    ep_min_multi_recv,
    ep_send,
    ep_receive,
    ep_one_sided,
    ep_cancel,
};

/// Runs the body of a function: a panic becomes `FI_EOTHER`, reported once.
fn value<R>(body: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        static TOLD: Once = Once::new();
        TOLD.call_once(|| say!("a fault inside the libfabric provider; its calls return FI_EOTHER"));
        Err(fi::EOTHER)
    })
}

fn code(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    value(body).unwrap_or_else(|error| -error)
}

/// Opens something and tells C its index.
///
/// # Safety
///
/// `place` may be written.
unsafe fn opened(place: *mut u32, body: impl FnOnce() -> Result<u32, Errno>) -> c_int {
    code(|| {
        let index = body()?;
        // SAFETY: C passes a place of its own.
        unsafe { place.write(index) };
        Ok(0)
    })
}

unsafe extern "C" fn limits(place: *mut Limits) -> c_int {
    code(|| {
        let config = state().config()?;
        // Long messages are cut as needed: the longest is what an address can reach.
        let limits = Limits { inject_size: config.inject_limit, max_msg_size: abi::SIZE_MAX, addrlen: Address::LENGTH as u64 };
        // SAFETY: C passes a place of its own.
        unsafe { place.write(limits) };
        Ok(0)
    })
}

unsafe extern "C" fn domain_open(place: *mut u32) -> c_int {
    // SAFETY: C passes a place of its own.
    unsafe { opened(place, || state().open_domain()) }
}

extern "C" fn domain_close(domain: u32) -> c_int {
    code(|| {
        state().domains.remove(domain)?.close(domain);
        Ok(0)
    })
}

extern "C" fn mr_open(domain: u32, key: u64, start: *mut c_void, length: u64, access: u64) -> c_int {
    code(|| {
        let mut state = state();
        let interface = state.interface()?;
        state.domains.get_mut(domain)?.register(domain, interface, key, start as u64, length, access)?;
        Ok(0)
    })
}

extern "C" fn mr_close(domain: u32, key: u64) -> c_int {
    code(|| state().domains.get_mut(domain)?.deregister(key).map(|()| 0))
}

unsafe extern "C" fn atomic_limits(kind: u32, datatype: u32, operation: u32, place: *mut AtomicAttr) -> c_int {
    code(|| {
        let (count, size) = rma::atomic_limits(kind, datatype, operation, &state().interface()?.limits)?;
        // SAFETY: C passes the program's place, or null when it asks for no more than this.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = AtomicAttr { count, size };
        }
        Ok(0)
    })
}

unsafe extern "C" fn av_open(place: *mut u32) -> c_int {
    // SAFETY: C passes a place of its own.
    unsafe { opened(place, || Ok(state().shared.avs.insert(AddressVector::default()))) }
}

extern "C" fn av_close(av: u32) -> c_int {
    code(|| state().shared.avs.remove(av).map(|_| 0))
}

/// Reads an address that the program passed.
///
/// # Safety
///
/// `address` points to as many bytes as an address has.
unsafe fn address_at(address: *const c_void) -> Option<Address> {
    // SAFETY: every address that libfabric passes has the length that getname reported.
    let bytes = unsafe { address.cast::<[u8; Address::LENGTH]>().read_unaligned() };
    Address::from_bytes(&bytes)
}

unsafe extern "C" fn av_insert(av: u32, address: *const c_void, index: *mut u64) -> c_int {
    code(|| {
        let mut state = state();
        let av = state.shared.avs.get_mut(av)?;
        // SAFETY: as for address_at.
        let Some(address) = (unsafe { address_at(address) }) else { return Ok(0) };
        // SAFETY: C passes a place of its own.
        unsafe { index.write(av.insert(address)) };
        Ok(1)
    })
}

extern "C" fn av_remove(av: u32, index: u64) -> c_int {
    code(|| state().shared.avs.get_mut(av)?.remove(index).map(|()| 0))
}

unsafe extern "C" fn av_lookup(av: u32, index: u64, place: *mut c_void) -> c_int {
    code(|| {
        let address = state().shared.avs.get(av)?.get(index).ok_or(fi::EINVAL)?;
        // SAFETY: C passes room for an address.
        unsafe { place.cast::<[u8; Address::LENGTH]>().write_unaligned(address.to_bytes()) };
        Ok(0)
    })
}

unsafe extern "C" fn av_text(address: *const c_void, place: *mut c_char, room: usize) -> usize {
    value(|| {
        // SAFETY: as for address_at.
        let address = unsafe { address_at(address) };
        let mut text = address.map_or_else(|| "not an address of narrows".into(), Address::text).into_bytes();
        text.push(0);
        if let Some(last) = room.min(text.len()).checked_sub(1) {
            // SAFETY: `last + 1` is at most `room`, and `text` is at least as long.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), place, last);
                place.add(last).write(0);
            }
        }
        Ok(text.len())
    })
    .unwrap_or(0)
}

unsafe extern "C" fn cq_open(place: *mut u32) -> c_int {
    // SAFETY: C passes a place of its own.
    unsafe { opened(place, || Ok(state().shared.cqs.insert(Default::default()))) }
}

extern "C" fn cq_close(cq: u32) -> c_int {
    code(|| {
        let mut state = state();
        state.shared.cqs.remove(cq)?;
        Ok(0)
    })
}

/// Hands an entry to C.
///
/// # Safety
///
/// `place` may be written.
unsafe fn hand_out(place: *mut Entry, entry: Option<Entry>) -> c_int {
    match entry {
        // SAFETY: C passes a place of its own.
        Some(entry) => unsafe {
            place.write(entry);
            1
        },
        None => 0,
    }
}

unsafe extern "C" fn cq_next(cq: u32, poll: u32, place: *mut Entry) -> c_int {
    // SAFETY: as for hand_out.
    code(|| Ok(unsafe { hand_out(place, state::next_entry(cq, poll != 0)?) }))
}

unsafe extern "C" fn cq_error(cq: u32, place: *mut Entry) -> c_int {
    // SAFETY: as for hand_out.
    code(|| Ok(unsafe { hand_out(place, state().shared.pop(cq, true)?.map(|(entry, _)| entry)) }))
}

unsafe extern "C" fn cntr_open(place: *mut u32) -> c_int {
    // SAFETY: C passes a place of its own.
    unsafe { opened(place, || Ok(state().shared.counters.insert(Counter::default()))) }
}

extern "C" fn cntr_close(counter: u32) -> c_int {
    code(|| state().shared.counters.remove(counter).map(|_| 0))
}

extern "C" fn cntr_read(counter: u32, errors: u32) -> u64 {
    value(|| state::read_counter(counter, errors != 0)).unwrap_or(0)
}

extern "C" fn cntr_change(counter: u32, errors: u32, set: u32, change: u64) -> c_int {
    code(|| {
        let mut state = state();
        let counter = state.shared.counters.get_mut(counter)?;
        let place = if errors != 0 { &mut counter.errors } else { &mut counter.value };
        *place = if set != 0 { change } else { place.wrapping_add(change) };
        Ok(0)
    })
}

extern "C" fn cntr_wait(counter: u32, threshold: u64, timeout_ms: c_int) -> c_int {
    code(|| state::wait_counter(counter, threshold, timeout_ms).map(|()| 0))
}

unsafe extern "C" fn ep_open(attr: *const EndpointAttr, place: *mut u32) -> c_int {
    // SAFETY: C passes a structure and a place of its own.
    unsafe { opened(place, || state().open_endpoint((*attr).caps, (*attr).inject_size, (*attr).domain)) }
}

extern "C" fn ep_close(ep: u32) -> c_int {
    code(|| state().close_endpoint(ep).map(|()| 0))
}

extern "C" fn ep_bind(ep: u32, what: u32, object: u32, selective: u32) -> c_int {
    code(|| {
        let mut state = state();
        let bound = &mut state.endpoints.get_mut(ep)?.bound;
        match what {
            BIND_AV => bound.av = Some(object),
            BIND_TX_CQ => bound.tx_cq = Some((object, selective != 0)),
            BIND_RX_CQ => bound.rx_cq = Some((object, selective != 0)),
            BIND_TX_CNTR => bound.tx_counter = Some(object),
            BIND_RX_CNTR => bound.rx_counter = Some(object),
            BIND_READ_CNTR => bound.read_counter = Some(object),
            BIND_WRITE_CNTR => bound.write_counter = Some(object),
            _ => return Err(fi::EINVAL),
        }
        Ok(0)
    })
}

extern "C" fn ep_enable(ep: u32) -> c_int {
    code(|| {
        state().enable_endpoint(ep)?;
        port::endpoint_open(before_start);
        Ok(0)
    })
}

/// The end of MPI_Init: see [`state::renew`].
extern "C" fn before_start() {
    code(|| {
        state::renew();
        Ok(0)
    });
}

unsafe extern "C" fn ep_name(ep: u32, place: *mut c_void) -> c_int {
    code(|| {
        let name = state().endpoints.get(ep)?.address.to_bytes();
        // SAFETY: C has checked the room.
        unsafe { place.cast::<[u8; Address::LENGTH]>().write_unaligned(name) };
        Ok(0)
    })
}

extern "C" fn ep_min_multi_recv(ep: u32, bytes: u64) -> c_int {
    code(|| {
        state().endpoints.get_mut(ep)?.min_multi_recv = bytes;
        Ok(0)
    })
}

unsafe extern "C" fn ep_send(ep: u32, operation: *const Operation) -> c_int {
    // SAFETY: C passes a structure of its own.
    code(|| state().with_endpoint(ep, |endpoint, shared| endpoint.send(shared, unsafe { &*operation })).map(|()| 0))
}

unsafe extern "C" fn ep_receive(ep: u32, operation: *const Operation) -> c_int {
    // SAFETY: C passes a structure of its own.
    code(|| state().with_endpoint(ep, |endpoint, shared| endpoint.receive(shared, unsafe { &*operation })).map(|()| 0))
}

unsafe extern "C" fn ep_one_sided(ep: u32, operation: *const rma::Operation) -> c_int {
    // SAFETY: C passes a structure of its own.
    code(|| state().with_endpoint(ep, |endpoint, shared| endpoint.post_one_sided(shared, unsafe { &*operation })).map(|()| 0))
}

extern "C" fn ep_cancel(ep: u32, context: *mut c_void) -> c_int {
    code(|| state().with_endpoint(ep, |endpoint, shared| endpoint.cancel(shared, context as usize)).map(|()| 0))
}
