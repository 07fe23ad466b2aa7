//! Where threads meet at the end of a window.

use super::lock;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

/// A barrier that all threads use again and again. What the last one does in it costs the others no second meeting, and
/// who waits for a short time only does not sleep: a wake-up takes the kernel 5 to 50 us.
#[derive(Debug)]
pub(super) struct Meeting {
    threads: u32,
    /// Who has not come to this round yet.
    missing: AtomicU32,
    round: AtomicU32,
    /// How often a thread looks before it sleeps.
    looks: u32,
    /// How many threads sleep.
    asleep: Mutex<u32>,
    over: Condvar,
}

/// Some 30 us: as long as a wake-up takes, so waiting costs twice that at most. Our own choice.
const LOOKS: u32 = 1_000;

impl Meeting {
    /// Threads that do not have a core each do not keep it from others by waiting.
    pub(super) fn new(threads: usize) -> Meeting {
        // The system is asked by reading files.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
        Meeting {
            threads: threads as u32,
            missing: AtomicU32::new(threads as u32),
            round: AtomicU32::new(0),
            looks: if threads <= cores { LOOKS } else { 0 },
            asleep: Mutex::new(0),
            over: Condvar::new(),
        }
    }

    /// Returns when all have come, and the last one has done `last`.
    pub(super) fn meet(&self, last: impl FnOnce()) {
        let round = self.round.load(Ordering::Relaxed);
        // All that the others have done is before what the last one does, and that before they go on.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            last();
            self.missing.store(self.threads, Ordering::Relaxed);
            let asleep = lock(&self.asleep);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            if *asleep > 0 {
                self.over.notify_all();
            }
            return;
        }
        for _ in 0..self.looks {
            if self.round.load(Ordering::Acquire) != round {
                return;
            }
            spin_loop();
        }
        let mut asleep = lock(&self.asleep);
        *asleep += 1;
        while self.round.load(Ordering::Acquire) == round {
            asleep = self.over.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Every thread sees what all have done before each end of a round, whether it looks or sleeps.
    #[test]
    fn all_meet_each_round() {
        for looks in [0, 3, LOOKS] {
            for threads in 1..5 {
                let meeting = Meeting { looks, ..Meeting::new(threads) };
                let (sum, closed) = (AtomicU64::new(0), AtomicU64::new(0));
                let rounds = if cfg!(miri) { 3 } else { 500 };
                let work = || {
                    for round in 1..=rounds {
                        sum.fetch_add(1, Ordering::Relaxed);
                        meeting.meet(|| {
                            assert_eq!(sum.load(Ordering::Relaxed), round * threads as u64);
                            closed.store(round, Ordering::Relaxed);
                        });
                        assert_eq!(closed.load(Ordering::Relaxed), round);
                        meeting.meet(|| {});
                    }
                };
                std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
            }
        }
    }
}
