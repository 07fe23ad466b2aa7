//! `libportals.so`: the Portals 4 API (`include/portals4.h`) inside a rank of a run. Calls are
//! checked, translated and handed to the simulated NIC; events come back with their own times.
//!
//! | file | what |
//! |---|---|
//! | `include/portals4.h` | the API for programs |
//! | `include/narrows_private.h` | what the libfabric provider and the preload library need beside it |
//! | [`abi`] | the same types and numbers for Rust |
//! | [`handle`] | what is in a handle |
//! | [`library`] | network interfaces, queues, descriptors; translation of arguments and events |
//! | [`interfaces`], [`lists`], [`events`], [`data`], [`atomics`], [`triggered`] | the functions, by chapter of the specification |
//! | [`nonblocking`] | the `*NB` functions of BXI |
//! | [`text`] | names of codes and events |
//! | [`private`] | the functions of the private header |
//! | [`nic`] | where commands go |
//! | `loopback` | a NIC inside the process, for tests (feature `loopback`) |
//!
//! Every function takes the process's NIC, then the [`library`], and gives both back before it
//! returns; nothing unwinds into the caller.
//!
//! ```
//! # #[cfg(feature = "loopback")] {
//! use portals::{abi, events, interfaces};
//! portals::loopback::install(portals::loopback::DEFAULT_LIMITS);
//! let (mut ni, mut eq) = (0, 0);
//! unsafe {
//!     assert_eq!(interfaces::PtlInit(), abi::OK);
//!     let options = abi::NI_MATCHING | abi::NI_PHYSICAL;
//!     assert_eq!(interfaces::PtlNIInit(0, options, abi::PID_ANY, std::ptr::null(), std::ptr::null_mut(), &mut ni), abi::OK);
//!     assert_eq!(events::PtlEQAlloc(ni, 64, &mut eq), abi::OK);
//!     let mut event = std::mem::MaybeUninit::uninit();
//!     assert_eq!(events::PtlEQGet(eq, event.as_mut_ptr()), abi::EQ_EMPTY);
//! }
//! # }
//! ```

pub mod abi;
pub mod atomics;
pub mod data;
pub mod events;
pub mod handle;
pub mod hooks;
pub mod interfaces;
pub mod library;
pub mod lists;
#[cfg(feature = "loopback")]
pub mod loopback;
pub mod nic;
pub mod nonblocking;
pub mod private;
pub mod text;
pub mod triggered;

use narrows_output::say;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use library::{Library, Outcome};
use nic::{Nic, with_nic};

#[global_allocator]
static HEAP: narrows_heap::Heap = narrows_heap::Heap;

/// Runs the body of a C function: a panic becomes `PTL_FAIL`, reported once.
fn boundary(body: impl FnOnce() -> Outcome<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => abi::OK,
        Ok(Err(code)) => code,
        Err(_) => {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| say!("a fault inside libportals; calls return PTL_FAIL"));
            abi::FAIL
        }
    }
}

/// A C function that needs the NIC and the library together, and does not block.
fn call(body: impl FnOnce(&mut dyn Nic, &mut Library) -> Outcome<()>) -> c_int {
    boundary(|| with_nic(|nic| body(nic, &mut library::library())).unwrap_or(Err(abi::FAIL)))
}

/// A C function that may block: it takes the library by itself, for short.
fn call_blocking(body: impl FnOnce(&mut dyn Nic) -> Outcome<()>) -> c_int {
    boundary(|| with_nic(body).unwrap_or(Err(abi::FAIL)))
}

/// Writes through a pointer argument.
///
/// # Safety
///
/// `place` is null or may be written.
unsafe fn write_out<T>(place: *mut T, value: T) -> Outcome<()> {
    if place.is_null() {
        return Err(abi::ARG_INVALID);
    }
    // SAFETY: not null, and the caller of the C function gave a place for a T.
    unsafe { place.write(value) };
    Ok(())
}

/// Reads a structure through a pointer argument.
///
/// # Safety
///
/// `place` is null or points to a valid T.
unsafe fn read_in<'a, T>(place: *const T) -> Outcome<&'a T> {
    // SAFETY: null becomes None; else the caller of the C function gave a valid T.
    unsafe { place.as_ref() }.ok_or(abi::ARG_INVALID)
}

/// A C array as a slice.
///
/// # Safety
///
/// `place` points to `count` values, or `count` is zero.
unsafe fn slice_in<'a, T>(place: *const T, count: usize) -> Outcome<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if place.is_null() => Err(abi::ARG_INVALID),
        // SAFETY: not null, and the caller of the C function gave `count` values.
        _ => Ok(unsafe { std::slice::from_raw_parts(place, count) }),
    }
}
