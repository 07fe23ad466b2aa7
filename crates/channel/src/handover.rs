//! Who owns a rank's region, and how it changes hands: the protocol of the words `state` (one per rank), `running` and
//! `bell` (one per file) of [`crate::layout`].
//!
//! A rank owns its region while its state is RUNNING; otherwise the simulator does. `running` counts the ranks that
//! were let in and have not given their regions back; the one that takes it to zero rings the bell, and so does a rank
//! that wants in. The simulator looks at the words again after every ring, so no ring may be lost: it reads the bell
//! before it looks. A rank that computes for long is set apart, by the simulator or by itself: it runs and owns its
//! region, and is not counted.
//!
//! Nothing here touches a region; the orders of these operations are what makes it safe to. `tests/handover.rs` runs
//! all interleavings of two ranks and a simulator under loom, which is why the words are a trait.

use crate::futex;
use crate::layout::state;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU32, fence};
use std::time::Duration;

/// A word of shared memory that can be slept on.
pub trait Word {
    /// What it holds; what was written before that was stored can be read.
    fn get(&self) -> u32;
    /// Stores; who reads it can read what was written before.
    fn put(&self, value: u32);
    /// Adds, wrapping; what it held before.
    fn add(&self, value: u32) -> u32;
    /// Stores `value` behind whatever was stored last; what that was.
    fn replace(&self, value: u32) -> u32;
    /// Stores `value` if it holds `expected`; whether it did.
    fn swap_if(&self, expected: u32, value: u32) -> bool;
    /// Sleeps while it holds `expected`; may return for no reason. True when the timeout has passed.
    fn wait(&self, expected: u32, timeout: Option<Duration>) -> bool;
    /// Wakes who sleeps.
    fn wake(&self);
    /// What the calling thread has stored before is seen by whoever stores after a fence of its own, or the other way
    /// round.
    fn fence();
}

impl Word for AtomicU32 {
    fn get(&self) -> u32 {
        self.load(Acquire)
    }
    fn put(&self, value: u32) {
        self.store(value, Release);
    }
    fn add(&self, value: u32) -> u32 {
        self.fetch_add(value, AcqRel)
    }
    fn replace(&self, value: u32) -> u32 {
        self.swap(value, AcqRel)
    }
    fn swap_if(&self, expected: u32, value: u32) -> bool {
        self.compare_exchange(expected, value, AcqRel, Acquire).is_ok()
    }
    fn wait(&self, expected: u32, timeout: Option<Duration>) -> bool {
        futex::wait(self, expected, timeout)
    }
    fn wake(&self) {
        futex::wake(self);
    }
    fn fence() {
        fence(SeqCst);
    }
}

/// The bit of the bell that says that the simulator sleeps; the others count rings. One word for both: whoever rings
/// either sees the bit, or the simulator sees the ring when it wants to set it.
const ASLEEP: u32 = 1;
const RING: u32 = 2;

/// Rings: the simulator looks at all words again. A system call only if it sleeps.
pub fn ring(bell: &impl Word) {
    if bell.add(RING) & ASLEEP != 0 {
        bell.wake();
    }
}

/// The simulator sleeps until somebody rings, unless somebody did since it read `rung`. Returns at `timeout` too, or
/// for no reason.
pub fn await_ring(bell: &impl Word, rung: u32, timeout: Option<Duration>) {
    if bell.swap_if(rung, rung | ASLEEP) {
        bell.wait(rung | ASLEEP, timeout);
        bell.add(ASLEEP.wrapping_neg());
    }
}

/// A rank that runs gives its region back and is `to`: PARKED or OUTSIDE.
pub fn give<W: Word>(state: &W, running: &W, bell: &W, to: u32) {
    // The simulator may just be trying to take it, or has set it apart: then nobody counts it.
    if state.replace(to) == state::APART || running.add(u32::MAX) == 1 {
        ring(bell);
    }
}

/// A rank that runs is waited for no longer: it keeps its region, and rings when it gives it back. False: it has given
/// it back already.
pub fn set_apart<W: Word>(state: &W, running: &W) -> bool {
    let apart = state.swap_if(state::RUNNING, state::APART);
    if apart {
        running.add(u32::MAX);
    }
    apart
}

/// A rank that runs is going to compute for long, and sets itself apart. False: the simulator has done it, or wants the
/// region.
pub fn go_apart<W: Word>(state: &W, running: &W, bell: &W) -> bool {
    let apart = state.swap_if(state::RUNNING, state::APART);
    if apart && running.add(u32::MAX) == 1 {
        ring(bell);
    }
    apart
}

/// It is waited for again. False: it has given its region back.
pub fn rejoin<W: Word>(state: &W, running: &W) -> bool {
    // First: it must not count down what was not counted up.
    running.add(1);
    let joins = state.swap_if(state::APART, state::RUNNING);
    if !joins {
        running.add(u32::MAX);
    }
    joins
}

/// A rank that is outside asks for its region.
pub fn ask<W: Word>(state: &W, bell: &W) {
    state.put(state::WANTS_IN);
    ring(bell);
}

/// The simulator takes the region of a rank that runs, whose state is TAKEN then; false: one of its threads uses it, or
/// the rank gives it back itself.
pub fn take<W: Word>(state: &W, busy: &W, running: &W, bell: &W) -> bool {
    if !state.swap_if(state::RUNNING, state::TAKEN) {
        return false;
    }
    // Either this sees whoever comes to `enter`, or that one sees TAKEN.
    W::fence();
    if busy.get() != 0 || state.get() != state::TAKEN {
        // That one may have given the region back meanwhile.
        if state.swap_if(state::TAKEN, state::RUNNING) {
            state.wake();
        }
        return false;
    }
    if running.add(u32::MAX) == 1 {
        ring(bell);
    }
    true
}

/// A thread of a rank is going to use the region, until [`leave`]; one at a time. False: the simulator has taken it,
/// and the thread must wait for its turn.
pub fn enter<W: Word>(state: &W, busy: &W) -> bool {
    busy.put(1);
    W::fence();
    if state.get() != state::TAKEN {
        return true;
    }
    busy.put(0);
    false
}

/// It uses the region no longer.
pub fn leave(busy: &impl Word) {
    busy.put(0);
}

/// Why a rank that waits for its region should stop waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The region is the rank's.
    Mine,
    /// The run is over.
    Over,
    /// The timeout has passed: look whether the simulator lives, and wait on.
    Late,
}

/// A rank that is `while_state` (PARKED, WANTS_IN or TAKEN) waits for its region.
pub fn await_turn(state: &impl Word, while_state: u32, timeout: Option<Duration>) -> Turn {
    loop {
        match state.get() {
            state::RUNNING | state::APART => return Turn::Mine,
            now if now == while_state => {
                if state.wait(while_state, timeout) {
                    return Turn::Late;
                }
            }
            _ => return Turn::Over,
        }
    }
}

/// The simulator is going to hand over so many regions.
pub fn announce(running: &impl Word, regions: u32) {
    running.add(regions);
}

/// It hands one over. The rank is PARKED, WANTS_IN or TAKEN, and its region has been looked through.
pub fn hand(state: &impl Word) {
    state.put(state::RUNNING);
    state.wake();
}

/// The simulator waits until no rank runs, once: true when none does, false when `timeout` has passed, somebody has
/// rung, or for no reason.
pub fn await_given<W: Word>(running: &W, bell: &W, timeout: Option<Duration>) -> bool {
    let rung = bell.get();
    if running.get() == 0 {
        return true;
    }
    await_ring(bell, rung, timeout);
    running.get() == 0
}
