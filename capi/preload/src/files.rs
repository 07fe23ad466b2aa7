//! A file that the MPI library need not read.

use crate::state;
use crate::symbols::real;
use libc::{FILE, c_char};
use std::ffi::CStr;

mod next {
    use super::*;
    real! {
        fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
        fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    }
}

/// libfabric's verbs provider searches the names of all kernel symbols, twice, for drivers of GPU memory, even where another
/// provider has been chosen: 10,576 reads of /proc/kallsyms in each rank (libfabric 1.17). To say that the file may not be read
/// is an answer that it knows: 64 ranks of Open MPI 4.1 start with 6.9 s of processor time instead of 14.5 s.
unsafe fn is_not_needed(path: *const c_char) -> bool {
    // SAFETY: the caller passes a string.
    state::in_mpi() && !path.is_null() && unsafe { CStr::from_ptr(path) } == c"/proc/kallsyms"
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: forwarded as it came.
    unsafe { if is_not_needed(path) { refuse() } else { next::fopen(path, mode) } }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: forwarded as it came.
    unsafe { if is_not_needed(path) { refuse() } else { next::fopen64(path, mode) } }
}

fn refuse() -> *mut FILE {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = libc::EACCES };
    std::ptr::null_mut()
}
