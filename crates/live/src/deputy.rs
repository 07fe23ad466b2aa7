//! A thread that wakes the ranks of another core.
//!
//! A wake of a process on another core costs an interrupt, 4 to 40 us on virtual machines; a store that a spinning
//! thread there sees costs 0.2 us, and its wakes are those of its own core. See [`crate::cores`].

use narrows_channel::layout::state;
use narrows_channel::{Mapping, handover};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the thread looks for work before it sleeps.
const SPINNING: Duration = Duration::from_micros(100);
/// How long simulator and deputy yield to the ranks on their cores before they do something else.
pub(crate) const YIELDING: Duration = Duration::from_micros(200);

/// What the simulator and the thread share.
#[derive(Debug, Default)]
pub struct Deputy {
    bell: AtomicU32,
    /// Ranks to wake.
    ranks: Mutex<Vec<u32>>,
    stopped: AtomicBool,
    thread: AtomicI32,
}

impl Deputy {
    fn ranks(&self) -> MutexGuard<'_, Vec<u32>> {
        self.ranks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands these ranks their regions, which are announced and written; `ranks` is empty then.
    pub fn hand(&self, ranks: &mut Vec<u32>) {
        self.ranks().append(ranks);
        handover::ring(&self.bell);
    }

    /// The thread, as the system numbers it; 0 before it has begun.
    pub fn thread(&self) -> i32 {
        self.thread.load(Relaxed)
    }

    /// The thread ends.
    pub fn stop(&self) {
        self.stopped.store(true, Release);
        handover::ring(&self.bell);
    }

    /// What the thread does until it is stopped.
    pub fn serve(&self, mapping: &Mapping) {
        // SAFETY: no arguments.
        self.thread.store(unsafe { libc::gettid() }, Relaxed);
        let mut ranks = Vec::new();
        while !self.stopped.load(Acquire) {
            let rung = self.bell.load(Acquire);
            std::mem::swap(&mut ranks, &mut self.ranks());
            if ranks.is_empty() {
                self.await_order(rung);
                continue;
            }
            let states = || ranks.iter().filter_map(|&rank| mapping.region(rank).ok()).map(|region| &region.header().state);
            states().for_each(handover::hand);
            let since = Instant::now();
            for word in states() {
                while word.load(Acquire) == state::RUNNING && since.elapsed() < YIELDING {
                    std::thread::yield_now();
                }
            }
            ranks.clear();
        }
    }

    fn await_order(&self, rung: u32) {
        let since = Instant::now();
        while since.elapsed() < SPINNING {
            for _ in 0..64 {
                if self.bell.load(Acquire) != rung {
                    return;
                }
                std::hint::spin_loop();
            }
        }
        handover::await_ring(&self.bell, rung, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_channel::Settings;

    #[test]
    fn every_order_is_served_also_after_a_sleep() {
        let (mapping, _file) = Mapping::create(8, Settings::default()).expect("there is memory");
        let deputy = Deputy::default();
        std::thread::scope(|scope| {
            scope.spawn(|| deputy.serve(&mapping));
            for turn in 0..200u32 {
                let mut order: Vec<u32> = (0..8).filter(|rank| (turn + rank) % 3 != 0).collect();
                let words: Vec<_> = order.iter().map(|&rank| &mapping.region(rank).expect("there are eight").header().state).collect();
                words.iter().for_each(|word| word.store(state::PARKED, Release));
                deputy.hand(&mut order);
                assert!(order.is_empty());
                for word in words {
                    while word.load(Acquire) != state::RUNNING {
                        std::thread::yield_now();
                    }
                    word.store(state::PARKED, Release);
                }
                if turn % 50 == 0 {
                    // Longer than the thread looks for work.
                    let since = Instant::now();
                    while since.elapsed() < 3 * SPINNING {
                        std::thread::yield_now();
                    }
                }
            }
            deputy.stop();
        });
    }
}
