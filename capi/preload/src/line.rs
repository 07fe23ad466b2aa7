//! Threads that wait for the same lock get it in the order of their clocks.
//!
//! The C library gives a lock that is free to whoever comes first in real time. That is the one that has just given it
//! back and takes it again, time after time, if the other one needs longer to wake up: a thread that polls MPI around a
//! lock would keep the one that computes from its calls for as long as the host likes.

use crate::places::Line;
use crate::{portals, state};
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard};

static LINE: Mutex<Line> = Mutex::new(Line::EMPTY);
/// How many stand there, for those that take a lock which nobody waits for.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Raised when one of them has its lock.
static TURNS: AtomicU32 = AtomicU32::new(0);

fn line() -> MutexGuard<'static, Line> {
    state::awake(&LINE)
}

/// Whether somebody waits for the lock at `place` since before the calling thread's clock.
pub fn is_there(place: usize) -> bool {
    if COUNT.load(Relaxed) == 0 {
        return false;
    }
    let clock = portals::thread_clock();
    line().first(place).is_some_and(|(since, _)| since <= clock)
}

/// The calling thread waits for the lock at `place`, and calls `take` when its turn comes, which waits until the lock
/// is free.
pub fn stand<T>(place: usize, take: impl FnOnce() -> T) -> T {
    let clock = portals::thread_clock();
    let Some(since) = line().join(place, clock) else { return take() };
    COUNT.fetch_add(1, Relaxed);
    loop {
        let turn = TURNS.load(Acquire);
        if line().first(place) == Some(since) {
            break;
        }
        // SAFETY: a word that lives as long as the process.
        unsafe { libc::syscall(libc::SYS_futex, &raw const TURNS, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, turn, 0usize) };
    }
    let result = take();
    line().leave(since);
    if COUNT.fetch_sub(1, Relaxed) > 1 {
        TURNS.fetch_add(1, Release);
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_futex, &raw const TURNS, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
    }
    result
}
