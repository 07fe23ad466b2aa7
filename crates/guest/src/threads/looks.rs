//! Threads that do nothing but look around: at the clock, at locks, at memory between calls that do nothing.

use super::work::SAMPLING;
use super::{ACTIVITY, NAPS, Thread, compute_is_free, is_on};
use crate::stretches;
use std::sync::atomic::Ordering::Relaxed;

/// After so many looks at the clock and nothing else a program may be waiting for something that others do.
const LOOKS_IN_VAIN: u32 = 8;
/// So often a thread says that it has taken 256 locks and done nothing else, before it is taken to wait although nobody
/// is known to wait for it. Our own choice: a million locks are some 30 ms.
const MOST_LOCK_LOOPS: u64 = 4096;
/// How far a thread that does nothing but look may be ahead of those inside MPI. Our own choice: some ten looks.
const LONGEST_LEAD_PS: u64 = 10_000_000;

impl Thread {
    /// Looks at the clock since something happened, this one included; and since when, ps.
    fn count_look(&self) -> (u32, u64) {
        let activity = ACTIVITY.load(Relaxed);
        if self.activity.swap(activity, Relaxed) != activity {
            self.looks.store(0, Relaxed);
            self.idle_since.store(self.clock(), Relaxed);
        }
        let looks = self.looks.load(Relaxed).saturating_add(1);
        self.looks.store(looks, Relaxed);
        (looks, self.idle_since.load(Relaxed))
    }

    /// It does nothing but look, `now` at the latest, ps, beside others that may wait inside MPI: whether it is to wait
    /// until they have come as far. Where computing takes time, not at each look: that of a loop costs less than a
    /// wait.
    pub fn looks_at(&self, now: u64) -> bool {
        let yes = compute_is_free() || now >= self.waited_at.load(Relaxed).saturating_add(LONGEST_LEAD_PS);
        if yes {
            self.waited_at.store(now, Relaxed);
        }
        yes
    }

    /// The same for one that says that it takes locks, and may be computing.
    pub fn takes_locks_at(&self, now: u64) -> bool {
        if !self.still_takes_locks(now) {
            return false;
        }
        let since = self.locks_since.load(Relaxed);
        let lead = (now.saturating_sub(since) / 16).max(LONGEST_LEAD_PS);
        let yes = now >= self.waited_at.load(Relaxed).max(since).saturating_add(lead);
        if yes {
            self.waited_at.store(now, Relaxed);
        }
        yes
    }

    /// It takes the rank, or looks at the clock.
    pub fn does_something(&self) {
        self.doings.store(self.doings.load(Relaxed) + 1, Relaxed);
    }

    /// It says that it has taken many locks and given them back. If it has done nothing else for a while it may be
    /// waiting for another thread: since when, ps.
    ///
    /// After some such loops, if another one waits in real time until this one has come as far. Otherwise, much later:
    /// that one may be waiting for its memory, which takes no simulated time either.
    pub fn only_takes_locks(&self) -> Option<u64> {
        if !self.still_takes_locks(self.clock()) {
            return None;
        }
        let loops = self.lock_loops.load(Relaxed) + 1;
        self.lock_loops.store(loops, Relaxed);
        // Whether one waits just now says little: on a busy host it waits for a core half of the time.
        let somebody_waits = NAPS.load(Relaxed) != self.lock_naps.load(Relaxed);
        (somebody_waits || is_on() || loops >= MOST_LOCK_LOOPS).then(|| self.locks_since.load(Relaxed))
    }

    /// Whether it has done nothing but take locks since it last said that it does; otherwise it begins to, at `now`,
    /// ps.
    fn still_takes_locks(&self, now: u64) -> bool {
        let still = self.lock_doings.load(Relaxed) == self.doings.load(Relaxed);
        if !still {
            self.locks_since.store(now, Relaxed);
            self.lock_loops.store(0, Relaxed);
            self.lock_naps.store(NAPS.load(Relaxed), Relaxed);
            self.takes_locks();
        }
        still
    }

    /// What it has done until now was part of that.
    pub fn takes_locks(&self) {
        self.lock_doings.store(self.doings.load(Relaxed), Relaxed);
    }
}

/// A look at the clock by the calling thread from `place`: it costs `cost` ps, and its own time is nobody's computing.
/// `long` says how much a look may cost instead after a while of nothing else, ps. Returns the clock, and since when
/// the thread has done nothing but look, if that is for some time.
pub(crate) fn look(thread: &'static Thread, place: u64, cost: u64, long: impl Fn(u64) -> u64) -> (u64, Option<u64>) {
    thread.account_until(stretches::look(place));
    thread.does_something();
    if SAMPLING.load(Relaxed) {
        // Simulated time stands still: a rank that was ahead of the others meanwhile would be behind them afterwards.
        return (thread.clock(), None);
    }
    let (looks, since) = thread.count_look();
    let idle = (looks > LOOKS_IN_VAIN).then_some(since);
    let clock = thread.clock() + idle.map_or(cost, |since| cost.max(long(thread.clock() - since.min(thread.clock()))));
    thread.clock.store(clock, Relaxed);
    (clock, idle)
}
