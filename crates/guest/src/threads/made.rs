//! Threads that have been made and have not begun.

use super::{All, Thread, all, current, now};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A thread that has not begun.
pub(super) struct Made {
    /// That of its maker, ps.
    pub(super) clock: u64,
    pub(super) number: u32,
    /// The number of its maker.
    pub(super) by: u32,
    /// The one that makes it still: it may wait in the middle of that, for a lock of the program's allocator.
    pub(super) maker: Option<&'static Thread>,
}

impl Made {
    /// Where it begins, ps.
    pub fn clock(&self) -> u64 {
        self.maker.map_or(self.clock, |maker| maker.clock().max(self.clock))
    }
}

/// The number of the thread that was made last.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The number of the one that this thread has made last.
    static MADE: Cell<u32> = const { Cell::new(0) };
}

impl All {
    /// Those that are about to begin. One that is being made does not: its maker comes first.
    pub(super) fn beginning(&self) -> impl Iterator<Item = &Made> {
        self.made.iter().filter(|made| made.maker.is_none())
    }
}

/// The calling thread makes another one: its clock, ps, is the new one's, which counts as running from now on. `false`:
/// it could not be made.
pub(crate) fn makes(yes: bool) -> u64 {
    let clock = now();
    let mut all = all();
    if yes {
        MADE.set(NUMBERS.fetch_add(1, Relaxed) + 1);
        all.will_begin(MADE.get(), clock, true);
        all.made.push(Made { clock, number: MADE.get(), by: current().map_or(0, Thread::number), maker: current() });
    } else {
        all.will_begin(MADE.get(), clock, false);
        all.made.retain(|made| made.number != MADE.get());
    }
    all.count();
    clock
}

/// How many have been made.
pub(crate) fn made_so_far() -> u32 {
    NUMBERS.load(Relaxed)
}

/// The one that the calling thread has made last is there.
pub(crate) fn exists() {
    let mut all = all();
    all.made.iter_mut().filter(|made| made.number == MADE.get()).for_each(|made| {
        made.clock = made.clock();
        made.maker = None;
    });
    all.will_run(MADE.get(), current().map_or(0, Thread::clock));
}

/// The number of the thread that the calling one has made last. The first of all has 0.
pub(crate) fn made() -> u32 {
    MADE.get()
}
