//! Functions of the MPI library in this process.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// `dlsym`.
pub type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// How the file names of MPI libraries begin.
pub const FILE_NAMES: &[&[u8]] = &[b"libmpi", b"libpmpi"];

/// The next definition of a function or variable behind the library that calls this, 0 if there is none.
///
/// Programs that load their MPI library with `dlopen` in a scope of its own (mpi4py) have nothing behind us in the
/// global scope: then it is the definition of a loaded library whose file name begins as one of `families` says, in
/// load order.
pub fn find(name: &CStr, families: &[&[u8]], lookup: Lookup) -> usize {
    // SAFETY: a valid string. RTLD_NEXT looks behind the library that this crate is part of, so it never returns one of
    // our own functions.
    let next = unsafe { lookup(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next as usize;
    }
    if families.is_empty() {
        return 0;
    }
    // Names first, dlopen later: the callback runs under the lock of the dynamic linker.
    let mut libraries = Libraries { families, found: Vec::new() };
    // SAFETY: the callback gets the pointer to `libraries` and does not outlive this call.
    unsafe { libc::dl_iterate_phdr(Some(note_library), ptr::from_mut(&mut libraries).cast()) };
    for library in &libraries.found {
        // SAFETY: valid strings; NOLOAD returns a handle of a library that is there already, or null.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                continue;
            }
            let found = lookup(handle, name.as_ptr());
            libc::dlclose(handle);
            if !found.is_null() {
                return found as usize;
            }
        }
    }
    0
}

/// Loaded libraries whose file names begin as one of `families` says.
struct Libraries<'a> {
    families: &'a [&'a [u8]],
    found: Vec<CString>,
}

unsafe extern "C" fn note_library(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
    // SAFETY: `find` passes its own record; the linker passes a valid record with a string or null.
    let (name, list) = unsafe { ((*info).dlpi_name, &mut *list.cast::<Libraries<'_>>()) };
    if !name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if list.families.iter().any(|family| file.starts_with(family)) {
            list.found.push(name.to_owned());
        }
    }
    0
}
