//! A file that the MPI library need not read, one that must not stay behind, and access that takes no simulated time.

use crate::state;
use crate::symbols::real;
use libc::{FILE, aiocb, c_char, c_int, mode_t};
use std::ffi::CStr;

mod next {
    use super::*;
    real! {
        fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
        fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
        fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn aio_read(control: *mut aiocb) -> c_int;
        fn aio_write(control: *mut aiocb) -> c_int;
    }
}

/// libfabric's verbs provider searches the names of all kernel symbols, twice, for drivers of GPU memory, even where
/// another provider has been chosen: 10,576 reads of /proc/kallsyms in each rank (libfabric 1.17). To say that the file
/// may not be read is an answer that it knows: 64 ranks of Open MPI 4.1 start with 6.9 s of processor time instead of
/// 14.5 s.
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

/// MPICH gives its shared memory a name (`/dev/shm/mpich_shm_*`), by which the ranks of a node find it, and takes it
/// away in MPI_Finalize: a rank that is killed before that leaves it behind. Here each rank is a node of its own, so
/// nobody looks for the name, and it gets none.
#[unsafe(no_mangle)]
unsafe extern "C" fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a string.
    let own = unsafe { state::in_mpi() && !name.is_null() && CStr::from_ptr(name).to_bytes().starts_with(b"/mpich_shm_") };
    if own && flags & libc::O_CREAT != 0 && each_rank_is_a_node() {
        // SAFETY: a constant string.
        let file = unsafe { libc::open(c"/dev/shm".as_ptr(), libc::O_TMPFILE | libc::O_RDWR | libc::O_EXCL | libc::O_CLOEXEC, mode) };
        if file >= 0 {
            return file;
        }
    }
    // SAFETY: forwarded as it came.
    unsafe { next::shm_open(name, flags, mode) }
}

/// What `narrows run` tells MPICH. Without it ranks look for each other's memory by its name.
fn each_rank_is_a_node() -> bool {
    // SAFETY: a constant name; nobody changes this variable.
    unsafe {
        let value = libc::getenv(c"MPIR_CVAR_NOLOCAL".as_ptr());
        !value.is_null() && CStr::from_ptr(value) == c"1"
    }
}

/// The MPI library's non-blocking file access is that of POSIX: threads of the C library do it, in real time, and
/// MPI_Wait polls for its end while nothing is under way in the simulated network. File access takes no simulated time,
/// so it has ended when the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn aio_read(control: *mut aiocb) -> c_int {
    // SAFETY: forwarded as it came; it has begun where it returns 0.
    unsafe { ended(next::aio_read(control), control) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_write(control: *mut aiocb) -> c_int {
    // SAFETY: as aio_read.
    unsafe { ended(next::aio_write(control), control) }
}

/// Waits for the end of what the MPI library has begun. A program's own access goes on beside it.
unsafe fn ended(code: c_int, control: *mut aiocb) -> c_int {
    if code == 0 && state::in_mpi() {
        let list = [control.cast_const()];
        // SAFETY: the access has begun, so the record stays valid until somebody asks for its result.
        unsafe {
            while libc::aio_error(control) == libc::EINPROGRESS {
                libc::aio_suspend(list.as_ptr(), 1, std::ptr::null());
            }
        }
    }
    code
}
