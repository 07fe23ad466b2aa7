//! Waits in the kernel that libraries make by themselves, without a function of the C library: those of GNU's OpenMP.
//!
//! Syscall user dispatch (prctl(2), since Linux 5.11) sends a thread that calls the kernel from anywhere but the C
//! library a signal instead. Where threads wait for each other is then ours to see; all other calls are made for it.
//! Each thread of the program is put under it when it begins, and `exec` ends it.

use crate::baton::{self, FOR_EVER};
use crate::clock::PS_PER_NS;
use crate::symbols::real;
use crate::{arch, portals, state};
use libc::{c_int, c_long, c_ulong, c_void};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Of <linux/prctl.h>.
const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const PR_SYS_DISPATCH_OFF: c_ulong = 0;
const PR_SYS_DISPATCH_ON: c_ulong = 1;
const SYSCALL_DISPATCH_FILTER_ALLOW: u8 = 0;
const SYSCALL_DISPATCH_FILTER_BLOCK: u8 = 1;

thread_local! {
    /// The kernel looks here.
    static FILTER: Cell<u8> = const { Cell::new(SYSCALL_DISPATCH_FILTER_ALLOW) };
    static IS_UNDER: Cell<bool> = const { Cell::new(false) };
}

/// The code of the C library: the calls that it makes are our own, or its functions are wrapped.
fn c_library() -> Option<(usize, usize)> {
    static RANGE: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader gives a record of an object that is there; `found` is the pair below.
        unsafe {
            let (object, found) = (&*object, &mut *found.cast::<(usize, usize)>());
            let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
            for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0) {
                let start = object.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
                if (start..start + header.p_memsz as usize).contains(&found.0) {
                    found.1 = header.p_memsz as usize;
                    found.0 = start;
                    return 1;
                }
            }
            0
        }
    }
    *RANGE.get_or_init(|| {
        // The function itself, not its stub here.
        // SAFETY: a constant name.
        let mut found = (unsafe { libc::dlsym(libc::RTLD_NEXT, c"gettid".as_ptr()) } as usize, 0_usize);
        // SAFETY: `look` keeps the contract.
        let code = unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
        (code != 0 && found.1 != 0).then_some(found)
    })
}

fn set(mode: c_ulong, range: (usize, usize)) -> bool {
    let filter = if mode == PR_SYS_DISPATCH_OFF { std::ptr::null() } else { FILTER.with(Cell::as_ptr).cast_const() };
    // SAFETY: the byte lives as long as the thread.
    unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, range.0, range.1, filter) == 0 }
}

/// Whether this computer has it. The calling thread is under it afterwards no more than before.
fn works() -> bool {
    let Some(range) = c_library() else { return false };
    set(PR_SYS_DISPATCH_ON, range) && set(PR_SYS_DISPATCH_OFF, (0, 0))
}

/// Says so to libportals.so: one thread of the rank may run at a time. When this library is loaded.
pub fn prepare() {
    // SAFETY: a constant name.
    REAL.store(unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) } as usize, Relaxed);
    let Some(value) = std::env::var_os(ASKED).filter(|_| state::on()) else { return };
    match value.as_encoded_bytes() {
        b"1" if works() => portals::threads_are_seen(),
        b"1" => say(b"this kernel has no syscall user dispatch (Linux 5.11): threads run side by side"),
        b"" | b"0" => {}
        _ => say(b"NARROWS_ONE_THREAD is 1, or is not set (docs/reference/environment.md)"),
    }
}

/// The user asks for it.
const ASKED: &str = "NARROWS_ONE_THREAD";

/// A line of the first rank's.
fn say(text: &[u8]) {
    if portals::rank() == 0 {
        let line = [b"narrows: ", text, b"\n"].concat();
        // SAFETY: a valid buffer; what cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

/// The calling thread is one of several of the program.
pub fn begin() {
    static HANDLER: OnceLock<bool> = OnceLock::new();
    if IS_UNDER.get() || !baton::possible() {
        return;
    }
    let ready = *HANDLER.get_or_init(|| {
        // SAFETY: a record of zeros is one; the handler has the type that the flag asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = called as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_RESTART;
            libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) == 0
        }
    });
    if let Some(range) = c_library().filter(|_| ready) {
        IS_UNDER.set(set(PR_SYS_DISPATCH_ON, range));
        FILTER.set(SYSCALL_DISPATCH_FILTER_BLOCK);
    }
}

/// The kernel was called, in `context`.
unsafe extern "C" fn called(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is this thread's; the kernel gives the context of the caller.
    unsafe {
        let errno = *libc::__errno_location();
        let (number, arguments) = arch::system_call(context);
        match number {
            // These go on at the caller, with its stack: it makes them once more, alone.
            libc::SYS_clone | libc::SYS_clone3 | libc::SYS_vfork | libc::SYS_fork | libc::SYS_rt_sigreturn => {
                FILTER.set(SYSCALL_DISPATCH_FILTER_ALLOW);
                arch::call_again(context);
            }
            _ => {
                let result = futex(number, &arguments).unwrap_or_else(|| forward(number, &arguments));
                arch::system_call_returns(context, result);
            }
        }
        *libc::__errno_location() = errno;
    }
}

/// The C library's `syscall`.
static REAL: AtomicUsize = AtomicUsize::new(0);

type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// As the kernel answers: an error is negative.
unsafe fn forward(number: c_long, a: &[usize; 6]) -> c_long {
    // SAFETY: found before any thread came under this.
    unsafe {
        let real = std::mem::transmute::<usize, Syscall>(REAL.load(Relaxed));
        let result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        if result == -1 { -c_long::from(*libc::__errno_location()) } else { result }
    }
}

/// What a futex of the program's own answers, if one thread runs at a time: those that wait there are on the list.
unsafe fn futex(number: c_long, a: &[usize; 6]) -> Option<c_long> {
    if number != libc::SYS_futex || !baton::here() {
        return None;
    }
    let [word, operation, value, timeout, ..] = *a;
    let operation = operation as c_int;
    match operation & libc::FUTEX_CMD_MASK {
        command @ (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET) => {
            // SAFETY: what a futex waits at is a word, and its limit null or a record.
            unsafe {
                let seen = portals::thread_wakes_so_far();
                if (word as *const u32).read_volatile() != value as u32 {
                    return Some(-c_long::from(libc::EAGAIN));
                }
                let until = match (timeout as *const libc::timespec).as_ref() {
                    None => FOR_EVER,
                    Some(time) if command == libc::FUTEX_WAIT => {
                        let ns = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64);
                        portals::thread_clock().saturating_add(ns.saturating_mul(PS_PER_NS))
                    }
                    // Until a time of the host's clocks.
                    Some(_) => return None,
                };
                let late = portals::thread_blocks(word, until, seen);
                Some(if late { -c_long::from(libc::ETIMEDOUT) } else { 0 })
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let most = value as u32 as usize;
            let woken = baton::wakes(word, most);
            if woken >= most {
                return Some(woken as c_long);
            }
            // Threads of libraries, and those that have waited since before there was a list.
            let mut rest = *a;
            rest[2] = most - woken;
            // SAFETY: as it came.
            Some(unsafe { forward(number, &rest) }.max(0) + woken as c_long)
        }
        _ => None,
    }
}

/// `syscall` of the C library is code of its own, which the kernel does not ask us about. All but futexes are made as
/// there, without a frame.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall() {
    arch::syscall_but!(libc::SYS_futex, futex_by_symbol, REAL, failed)
}

unsafe extern "C" fn futex_by_symbol(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    let arguments = [a, b, c, d, e, f];
    // SAFETY: forwarded as it came.
    match unsafe { futex(number, &arguments) } {
        // SAFETY: the same; whoever comes here has found the address.
        None => unsafe { std::mem::transmute::<usize, Syscall>(REAL.load(Relaxed))(number, a, b, c, d, e, f) },
        Some(result) if result < 0 => failed(-result as c_int),
        Some(result) => result,
    }
}

/// As the C library says it.
extern "C" fn failed(error: c_int) -> c_long {
    // SAFETY: errno is this thread's.
    unsafe { *libc::__errno_location() = error };
    -1
}

mod next {
    use super::*;
    real! {
        fn pthread_sigmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int;
        fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int;
    }
}

/// A thread under this that does not take the signal is ended by the kernel.
unsafe fn without_ours(how: c_int, set: *const libc::sigset_t, real: impl FnOnce(*const libc::sigset_t) -> c_int) -> c_int {
    // SAFETY: null or a set.
    match unsafe { set.as_ref() } {
        Some(wanted) if how != libc::SIG_UNBLOCK && state::on() => {
            let mut wanted = *wanted;
            // SAFETY: a set, and a number of a signal.
            unsafe { libc::sigdelset(&raw mut wanted, libc::SIGSYS) };
            real(&raw const wanted)
        }
        _ => real(set),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe { without_ours(how, set, |set| next::pthread_sigmask(how, set, old)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: forwarded as it came.
    unsafe { without_ours(how, set, |set| next::sigprocmask(how, set, old)) }
}
