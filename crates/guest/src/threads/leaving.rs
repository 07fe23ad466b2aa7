//! Threads that have ended in simulated time, and may not have on the host: the kernel wakes who joins one when it is
//! gone, and until then that one seems to sleep. So the thread that leaves counts as running.

use super::All;
use super::host::{has_ended, is_runnable, wall_ns};

/// So long a thread is waited for on the host. Our own choice: it may run functions of the program, without a core; but
/// they may never end, and another thread may get its number.
const LONGEST_NS: u64 = 10_000_000_000;

/// A thread that has said that it ends.
pub(super) struct Leaving {
    pub(super) id: i32,
    /// When it did, ps.
    clock: u64,
    /// Time of the host up to which it is waited for, ns.
    until: u64,
}

impl Leaving {
    /// Who joins it is not woken yet. If it sleeps it may do so for good.
    fn still_runs(&self) -> bool {
        is_runnable(self.id) && wall_ns() < self.until
    }

    fn has_left(&self) -> bool {
        has_ended(self.id) || wall_ns() >= self.until
    }
}

impl All {
    /// The thread of that number ends at `clock` ps.
    pub(super) fn leaves(&mut self, id: i32, clock: u64) {
        self.forget_left();
        self.leaving.push(Leaving { id, clock, until: wall_ns() + LONGEST_NS });
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
            let leaving = Leaving { id, clock: 0, until };
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
}
