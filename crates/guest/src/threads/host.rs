//! What the kernel says of the threads of this process.

use narrows_heap::copy;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// What a thread of this process does, as proc(5) has it; `None`: there is none.
fn state(id: i32) -> Option<u8> {
    // The state stands behind the name, which is in parentheses.
    let mut stat = [0; 128];
    // Name and state are in the first bytes.
    let length = File::open(format!("/proc/self/task/{id}/stat")).and_then(|mut file| file.read(&mut stat)).unwrap_or(0);
    let stat = &stat[..length];
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

/// Whether a thread of this process runs or would if it had a core; not if it sleeps in a way that nobody has told of.
pub(super) fn is_runnable(id: i32) -> bool {
    // A page fault, or the simulator that has stopped it for a look, is no reason of its own.
    matches!(state(id), Some(b'R' | b'D' | b't' | b'T'))
}

/// It has ended: who joins it was woken.
pub(super) fn has_ended(id: i32) -> bool {
    matches!(state(id), None | Some(b'Z' | b'X'))
}

/// The address of the futex at which a thread of this process sleeps, and whether it waits for a lock there as the GNU
/// C library does (its conditions, semaphores and barriers wait with FUTEX_WAIT_BITSET); 0 and `false`: it sleeps in
/// another call of the kernel. `None`: the kernel does not say.
pub(super) fn sleeps_at(id: i32) -> Option<(usize, bool)> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{id}/syscall")).ok()?;
    // Its number and arguments: proc(5).
    let mut words = text.split_ascii_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    if number != libc::SYS_futex {
        return Some((0, false));
    }
    let mut argument = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (place, operation) = (argument()?, argument()?);
    Some((place, operation & libc::FUTEX_CMD_MASK as usize == libc::FUTEX_WAIT as usize))
}

/// Which thread of this process has the lock at whose futex another one sleeps; 0: that is not known.
pub(super) fn owner_of(futex: usize) -> i32 {
    /// Of `__data.__owner`: <bits/struct_mutex.h> of the GNU C library. Its other locks are words of their own.
    const OWNER: usize = 8;
    let there = libc::iovec { iov_base: (futex + OWNER) as *mut libc::c_void, iov_len: size_of::<i32>() };
    let mut word = [0; size_of::<i32>()];
    // SAFETY: no arguments.
    let read = copy::read(unsafe { libc::getpid() }, &[there], &mut word);
    let owner = i32::from_ne_bytes(word);
    let is_thread = || std::path::Path::new(&format!("/proc/self/task/{owner}")).exists();
    if read.is_ok_and(|read| read == word.len()) && owner > 0 && is_thread() { owner } else { 0 }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::mpsc;

    struct Lock(UnsafeCell<libc::pthread_mutex_t>);

    // SAFETY: it is there to be used by several threads.
    unsafe impl Sync for Lock {}

    fn own() -> i32 {
        // SAFETY: no arguments.
        unsafe { libc::gettid() }
    }

    #[test]
    fn who_waits_for_a_lock_is_seen_there_and_whose_it_is() {
        let lock = Lock(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let (say, said) = mpsc::channel();
        let lock = &lock;
        // SAFETY: a mutex that lives as long as its threads; who takes it gives it back.
        let take = || unsafe { libc::pthread_mutex_lock(lock.0.get()) };
        // SAFETY: the same.
        let give = || unsafe { libc::pthread_mutex_unlock(lock.0.get()) };
        take();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                say.send(own()).unwrap();
                take();
                give();
            });
            let id = said.recv().unwrap();
            let place = lock.0.get() as usize;
            // Where the kernel says nothing there is nothing to be seen.
            while is_runnable(id) || sleeps_at(id).is_some_and(|seen| seen != (place, true)) {
                std::thread::yield_now();
            }
            assert_eq!(owner_of(place), own());
            give();
        });
        assert_eq!(owner_of(lock.0.get() as usize), 0);
        assert_eq!(owner_of(8), 0, "nothing is there");
    }
}
