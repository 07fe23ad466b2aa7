//! Threads that have ended in simulated time, and may not have on the host: the kernel wakes who joins one when it is
//! gone, and until then that one seems to sleep. So the thread that leaves counts as running.

use super::All;
use super::host::{has_ended, is_runnable, wall_ns};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So long a thread is waited for on the host. Our own choice: it may run functions of the program, without a core; but
/// they may never end, and another thread may get its number.
const LONGEST_NS: u64 = 10_000_000_000;
/// And so long if it sleeps: for a moment, at a lock that another thread has; or for good. Our own choice.
const LONGEST_SLEEP_NS: u64 = 1_000_000_000;

/// A thread that has said that it ends.
pub(super) struct Leaving {
    pub(super) id: i32,
    /// When it did, ps.
    clock: u64,
    /// Time of the host up to which it is waited for, ns.
    until: u64,
    /// Time of the host since which it was seen asleep at each look, ns; 0: it was not.
    asleep: AtomicU64,
}

impl Leaving {
    fn new(id: i32, clock: u64, until: u64) -> Leaving {
        Leaving { id, clock, until, asleep: AtomicU64::new(0) }
    }

    /// Who joins it is not woken yet.
    fn still_runs(&self) -> bool {
        let now = wall_ns();
        if is_runnable(self.id) {
            self.asleep.store(0, Relaxed);
            return now < self.until;
        }
        let since = match self.asleep.compare_exchange(0, now, Relaxed, Relaxed) {
            Ok(_) => now,
            Err(since) => since,
        };
        !has_ended(self.id) && now < self.until.min(since + LONGEST_SLEEP_NS)
    }

    fn has_left(&self) -> bool {
        has_ended(self.id) || wall_ns() >= self.until
    }
}

impl All {
    /// The thread of that number ends at `clock` ps.
    pub(super) fn leaves(&mut self, id: i32, clock: u64) {
        self.forget_left();
        self.leaving.push(Leaving::new(id, clock, wall_ns() + LONGEST_NS));
    }

    /// The least clock of those that have not ended on the host, ps.
    pub(super) fn least_leaving(&self) -> Option<u64> {
        self.leaving.iter().filter(|leaving| leaving.still_runs()).map(|leaving| leaving.clock).min()
    }

    /// Forgets those that have.
    pub(super) fn forget_left(&mut self) {
        self.leaving.retain(|leaving| !leaving.has_left());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        // SAFETY: no arguments.
        unsafe { libc::gettid() }
    }

    #[test]
    fn who_takes_too_long_is_waited_for_no_longer() {
        let seen = |id, until| {
            let leaving = Leaving::new(id, 0, until);
            (leaving.still_runs(), leaving.has_left())
        };
        assert_eq!(seen(own(), u64::MAX), (true, false));
        assert_eq!(seen(own(), 0), (false, true));
        let ended = std::thread::spawn(own).join().unwrap();
        while !has_ended(ended) {
            std::thread::yield_now();
        }
        assert_eq!(seen(ended, u64::MAX), (false, true));
    }

    #[test]
    fn who_sleeps_for_a_moment_is_waited_for() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            ends.recv()
        });
        let leaving = Leaving::new(told.recv().unwrap(), 0, u64::MAX);
        while is_runnable(leaving.id) {
            std::thread::yield_now();
        }
        assert!(leaving.still_runs(), "it has just been seen");
        leaving.asleep.store(wall_ns() - LONGEST_SLEEP_NS, Relaxed);
        assert!(!leaving.still_runs(), "it was seen for a second");
        drop(end);
        sleeper.join().unwrap().unwrap_err();
    }
}
