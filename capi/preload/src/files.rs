//! Files of MPI-IO, whose access takes simulated time; one that the MPI library need not read, and one that must not
//! stay behind.

use crate::descriptors::keeping_errno;
use crate::symbols::real;
use crate::{net, portals, state};
use libc::{FILE, aiocb, c_char, c_int, c_void, dev_t, iovec, mode_t, off_t, size_t, ssize_t, stat};
use std::ffi::CStr;
use std::mem;

mod next {
    use super::*;
    real! {
        fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
        fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
        fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
        fn aio_read(control: *mut aiocb) -> c_int;
        fn aio_write(control: *mut aiocb) -> c_int;
        fn pread(file: c_int, bytes: *mut c_void, count: size_t, offset: off_t) -> ssize_t;
        fn pread64(file: c_int, bytes: *mut c_void, count: size_t, offset: off_t) -> ssize_t;
        fn preadv(file: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
        fn preadv64(file: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
        fn pwrite(file: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t;
        fn pwrite64(file: c_int, bytes: *const c_void, count: size_t, offset: off_t) -> ssize_t;
        fn pwritev(file: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
        fn pwritev64(file: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
        fn fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int;
        fn fcntl64(file: c_int, command: c_int, argument: *mut c_void) -> c_int;
        fn fsync(file: c_int) -> c_int;
        fn fdatasync(file: c_int) -> c_int;
    }
}

/// The MPI library is going to read or write so many bytes: of a file that all nodes see, that takes simulated time.
/// A program's own access takes none: which files an interpreter reads when it imports, say, is no property of the
/// program.
pub fn access(file: c_int, bytes: size_t) {
    takes_time(file, bytes);
}

/// False where no simulated time has passed.
fn takes_time(file: c_int, bytes: size_t) -> bool {
    state::in_mpi()
        && !state::in_guard()
        && portals::active()
        && keeping_errno(|| is_shared_file(file))
        && portals::accesses_file(bytes as u64)
}

/// Looks up what a child of `fork` or a handler of signals may need, while nothing is locked.
pub fn prepare() {
    // SAFETY: refused, as there is no such descriptor.
    unsafe {
        next::fcntl(-1, libc::F_GETFD, std::ptr::null_mut());
        next::fcntl64(-1, libc::F_GETFD, std::ptr::null_mut());
    }
}

/// The MPI library wants a lock of a file, as for shared pointers. Another rank may have it, and that one may wait for
/// the file in simulated time: nobody may wait for it inside the kernel. So each look takes an access, as it does where
/// a server keeps the locks, and simulated time says who comes first.
unsafe fn control(file: c_int, command: c_int, argument: *mut c_void, real: unsafe fn(c_int, c_int, *mut c_void) -> c_int) -> c_int {
    let look = match command {
        libc::F_SETLKW => libc::F_SETLK,
        libc::F_OFD_SETLKW => libc::F_OFD_SETLK,
        // SAFETY: forwarded as it came.
        _ => return unsafe { real(file, command, argument) },
    };
    while takes_time(file, 0) {
        // SAFETY: the caller's record.
        let code = unsafe { real(file, look, argument) };
        // SAFETY: errno of this thread.
        if code == 0 || !matches!(unsafe { *libc::__errno_location() }, libc::EAGAIN | libc::EACCES) {
            return code;
        }
    }
    // SAFETY: forwarded as it came.
    unsafe { real(file, command, argument) }
}

// The C library's have a third argument of any type, in the register of this one.
#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe { net::doubled(file, command, control(file, command, argument, next::fcntl)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe { net::doubled(file, command, control(file, command, argument, next::fcntl64)) }
}

/// Bytes of parts, of which there are `count`.
///
/// # Safety
/// They are there, unless the kernel is to refuse them.
pub unsafe fn length(parts: *const iovec, count: c_int) -> size_t {
    if count <= 0 || parts.is_null() {
        return 0;
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(parts, count as usize) }.iter().fold(0, |sum, part| sum.saturating_add(part.iov_len))
}

/// A regular file with a name, on no file system that the kernel makes up, and not in /dev/shm.
fn is_shared_file(file: c_int) -> bool {
    fn status(get: impl FnOnce(&mut stat) -> c_int) -> Option<stat> {
        // SAFETY: plain numbers, to be filled.
        let mut found = unsafe { mem::zeroed() };
        (get(&mut found) == 0).then_some(found)
    }
    // SAFETY: records to be filled, and constant names.
    let device = |name: &CStr| -> Option<dev_t> { status(|found| unsafe { libc::stat(name.as_ptr(), found) }).map(|found| found.st_dev) };
    // SAFETY: as above.
    status(|found| unsafe { libc::fstat(file, found) }).is_some_and(|found| {
        let others = [c"/dev/shm", c"/proc", c"/sys"];
        found.st_mode & libc::S_IFMT == libc::S_IFREG && found.st_nlink > 0 && others.iter().all(|name| device(name) != Some(found.st_dev))
    })
}

macro_rules! accesses {
    ($($name:ident($bytes:ident: $pointer:ty, $count:ty) = $length:expr;)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name(file: c_int, $bytes: $pointer, count: $count, offset: off_t) -> ssize_t {
            // SAFETY: forwarded as it came.
            unsafe {
                let length: unsafe fn($pointer, $count) -> size_t = $length;
                access(file, length($bytes, count));
                next::$name(file, $bytes, count, offset)
            }
        })*
    };
}

accesses! {
    pread(bytes: *mut c_void, size_t) = |_, count| count;
    pread64(bytes: *mut c_void, size_t) = |_, count| count;
    preadv(parts: *const iovec, c_int) = length;
    preadv64(parts: *const iovec, c_int) = length;
    pwrite(bytes: *const c_void, size_t) = |_, count| count;
    pwrite64(bytes: *const c_void, size_t) = |_, count| count;
    pwritev(parts: *const iovec, c_int) = length;
    pwritev64(parts: *const iovec, c_int) = length;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(file: c_int) -> c_int {
    access(file, 0);
    // SAFETY: forwarded as it came.
    unsafe { next::fsync(file) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    access(file, 0);
    // SAFETY: forwarded as it came.
    unsafe { next::fdatasync(file) }
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
/// MPI_Wait polls for its end while nothing is under way in the simulated network. So it takes its simulated time here,
/// as if it blocked, and has ended when the call returns.
#[unsafe(no_mangle)]
unsafe extern "C" fn aio_read(control: *mut aiocb) -> c_int {
    // SAFETY: forwarded as it came; it has begun where it returns 0.
    unsafe { ended(control, next::aio_read) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aio_write(control: *mut aiocb) -> c_int {
    // SAFETY: as aio_read.
    unsafe { ended(control, next::aio_write) }
}

/// Waits for the end of what the MPI library begins. A program's own access goes on beside it.
unsafe fn ended(control: *mut aiocb, begin: unsafe fn(*mut aiocb) -> c_int) -> c_int {
    let of_mpi = state::in_mpi();
    if of_mpi && !control.is_null() {
        // SAFETY: the caller's record.
        let (file, bytes) = unsafe { ((*control).aio_fildes, (*control).aio_nbytes) };
        access(file, bytes);
    }
    // SAFETY: forwarded as it came.
    let code = unsafe { begin(control) };
    if code == 0 && of_mpi {
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
