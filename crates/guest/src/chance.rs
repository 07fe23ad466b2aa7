//! What this computer decides about the threads of a rank, and not simulated time: which of them takes a lock first,
//! how often one looks at the clock in vain. The run says it at its end, for its digest may not repeat.
//!
//! Only where computing takes no time (`--compute none`): elsewhere its times are this computer's anyway. And only if
//! several threads call MPI: in a rank with one caller, what the others do has no effect on messages.

use crate::threads::{self, Thread};
use crate::{attach, callers};
use narrows_channel::layout::decided;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// It has been decided, see [`decided`].
pub(crate) fn decides(what: u32) {
    // Where one thread runs at a time all but these follow from clocks.
    let what = if threads::is_on() { what & !(decided::LOCK | decided::LOOKS | decided::CLOCK | decided::LATE) } else { what };
    let Some((_, rank)) = attach::shared().filter(|_| counts()) else { return };
    if rank.decided.load(Relaxed) & what != what {
        rank.decided.fetch_or(what, Relaxed);
    }
}

/// Where a file gives computing times: threads compute for which it has none, as they do not call MPI.
pub(crate) fn others_compute() {
    if let Some((_, rank)) = attach::shared()
        && rank.decided.load(Relaxed) & decided::BESIDE == 0
    {
        rank.decided.fetch_or(decided::BESIDE, Relaxed);
    }
}

/// A thread of a parked rank calls before the time until which the rank is parked. What has come at a descriptor may
/// have let it go on; and of one that has computed for long that is said.
pub(crate) fn comes_late() {
    let computed = || attach::shared().is_some_and(|(_, rank)| rank.decided.load(Relaxed) & decided::WORK != 0);
    if !threads::came_from_files() && !computed() {
        decides(decided::LATE);
    }
}

/// Simulated time passes, and computing takes none.
fn counts() -> bool {
    crate::hooks::active() && threads::compute_is_free()
}

/// Threads of the rank that have called MPI, or Portals.
static CALLERS: AtomicU32 = AtomicU32::new(0);

/// The calling thread calls MPI, or Portals.
pub(crate) fn calls(portals: bool) {
    let Some(thread) = threads::current().filter(|thread| !thread.has_called.load(Relaxed) && crate::hooks::active()) else { return };
    thread.has_called.store(true, Relaxed);
    if CALLERS.fetch_add(1, Relaxed) > 0 {
        decides(decided::CALLERS | if portals { decided::PORTALS } else { 0 });
    }
}

/// A lock that was taken: where it is, and what was so when it was given back. Written by those that have it; two locks
/// may share a slot, which then forgets one of them.
struct Slot {
    place: AtomicUsize,
    /// Who has had it, see [`Thread::number`], and the clock of that one, ps.
    owner: AtomicU32,
    clock: AtomicU64,
    /// [`threads::meetings`] and [`threads::made_so_far`].
    meetings: AtomicU32,
    made: AtomicU32,
}

impl Slot {
    const fn free() -> Slot {
        Slot {
            place: AtomicUsize::new(0),
            owner: AtomicU32::new(0),
            clock: AtomicU64::new(0),
            meetings: AtomicU32::new(0),
            made: AtomicU32::new(0),
        }
    }
}

/// Our own choice: more than a program's threads fight for.
const SLOTS: usize = 1024;
static LOCKS: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];

fn slot(place: usize) -> &'static Slot {
    &LOCKS[(place / size_of::<usize>()) % SLOTS]
}

/// Several threads call, or may. Programs with one caller take locks as fast as ever.
fn is_of_interest() -> bool {
    callers::may_call() || CALLERS.load(Relaxed) > 1
}

/// The calling thread has taken a lock of the program, or `waits` for it. False: it is of no interest who takes the
/// next one.
pub fn lock_is_taken(place: usize, waits: bool) -> bool {
    let Some((_, rank)) = attach::shared().filter(|_| crate::hooks::active()) else { return true };
    if !threads::compute_is_free() || rank.decided.load(Relaxed) & decided::LOCK != 0 {
        return false;
    }
    let Some(thread) = threads::current().filter(|_| is_of_interest()) else { return true };
    if waits || slot(place).takes(place, thread, thread.clock()) {
        decides(decided::LOCK);
    }
    true
}

/// The calling thread gives it back.
pub fn lock_is_given(place: usize) {
    let (slot, Some(thread)) = (slot(place), threads::current().filter(|_| is_of_interest())) else { return };
    if slot.place.load(Relaxed) == place && slot.owner.load(Relaxed) == thread.number() {
        slot.left(thread.clock());
    }
}

impl Slot {
    /// `thread` takes the lock at `place`, its clock at `now`, ps. Whether another one has had it that need not have
    /// come first in simulated time.
    fn takes(&self, place: usize, thread: &Thread, now: u64) -> bool {
        let (owner, clock) = (self.owner.load(Relaxed), self.clock.load(Relaxed));
        let others = self.place.load(Relaxed) == place && owner != thread.number();
        // One that has waited since, or was made by the other one since, comes behind it at the same clock too.
        let waited = thread.met.load(Relaxed) > self.meetings.load(Relaxed);
        let is_younger = owner == thread.maker.load(Relaxed) && thread.number() > self.made.load(Relaxed);
        self.place.store(place, Relaxed);
        self.owner.store(thread.number(), Relaxed);
        self.left(now);
        others && (now < clock || now == clock && !waited && !is_younger)
    }

    fn left(&self, now: u64) {
        self.clock.store(now, Relaxed);
        self.meetings.store(threads::meetings(), Relaxed);
        self.made.store(threads::made_so_far(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_a_lock_out_of_order_is_seen() {
        let slot = Slot::free();
        let [first, second] = [10, 20].map(|number| Thread::of(number, 0));
        assert!(!slot.takes(8, first, 100), "nobody had it");
        assert!(!slot.takes(8, first, 90), "nobody else had it");
        assert!(!slot.takes(8, second, 101), "in the order of their clocks");
        assert!(slot.takes(8, first, 99), "before one that has had it");
        assert!(slot.takes(8, second, 99), "at the same time");
        first.met.store(u32::MAX, Relaxed);
        assert!(!slot.takes(8, first, 99), "at the same time, after a wait");
        assert!(!slot.takes(8, Thread::of(threads::made_so_far() + 30, 10), 99), "made by the one that has had it");
        assert!(slot.takes(8, Thread::of(threads::made_so_far() + 31, 11), 99), "made by another one");
        assert!(!slot.takes(16, second, 0), "another lock");
    }
}
