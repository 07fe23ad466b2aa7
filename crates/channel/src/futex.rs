//! Sleeping on a word of shared memory.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, until a wake, a signal or `timeout`. May return for no
/// reason: callers look at the word again. True when the timeout has passed.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
    let time = timeout.map(|t| libc::timespec { tv_sec: t.as_secs() as libc::time_t, tv_nsec: t.subsec_nanos().into() });
    let pointer = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and `pointer` is null or points to `time`, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, pointer, std::ptr::null::<u32>(), 0) };
    result != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

/// Wakes every sleeper on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned 32-bit word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            i32::MAX,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            0,
        );
    }
}
