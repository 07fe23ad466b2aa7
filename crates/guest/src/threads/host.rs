//! What the kernel says of the threads of this process.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// Whether a thread of this process runs or would if it had a core; not if it sleeps in a way that nobody has told of.
pub(super) fn is_runnable(id: i32) -> bool {
    // The state stands behind the name, which is in parentheses: proc(5).
    let mut stat = [0; 128];
    // Name and state are in the first bytes.
    let length = File::open(format!("/proc/self/task/{id}/stat")).and_then(|mut file| file.read(&mut stat)).unwrap_or(0);
    let stat = &stat[..length];
    let end = stat.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    // A page fault, or the simulator that has stopped it for a look, is no reason of its own.
    matches!(stat.get(end + 2), Some(b'R' | b'D' | b't' | b'T'))
}

/// CPU time on a clock, ns, from the kernel itself: the library function is the simulated one.
pub(super) fn cpu_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    let code = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    (code == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Time of the host, ns.
pub(super) fn wall_ns() -> u64 {
    type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;
    static REAL: OnceLock<Option<ClockGettime>> = OnceLock::new();
    // The function of this name is the simulated one; the one behind this library is not, and needs no system call.
    let real = REAL.get_or_init(|| {
        // SAFETY: a constant string; the type is that of the manual page.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr());
            (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, ClockGettime>(found))
        }
    });
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    match real {
        // SAFETY: `time` is valid for writing.
        Some(real) => unsafe {
            real(libc::CLOCK_MONOTONIC, &raw mut time);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        },
        None => cpu_ns(libc::CLOCK_MONOTONIC).unwrap_or(0),
    }
}
