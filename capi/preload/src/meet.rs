//! Where threads of the program meet: the clock of the one that another one has waited for.
//!
//! Only waits count. Two threads that take a lock one after the other, without waiting, have nothing to do with each
//! other's clocks: which of them comes first is the host's affair, and the one that the host has let run further would
//! take the other one along.

use crate::arch;
use crate::places::Objects;
use crate::{baton, caller, dispatch, line, openmp, portals, state};
use std::cell::Cell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard};

static OBJECTS: Mutex<Objects> = Mutex::new(Objects::NONE);

/// Threads that wait for any of them.
static WAITERS: AtomicU32 = AtomicU32::new(0);
/// How many wait at the places of each [`part`], so that a library's own locks are not looked for among the others.
static WAITERS_BY_PART: [AtomicU32; PARTS] = [const { AtomicU32::new(0) }; PARTS];
/// Our own choice: many more than threads that programs have.
const PARTS: usize = 16384;
/// The program has made a thread.
static THREADS: AtomicBool = AtomicBool::new(false);

fn objects() -> MutexGuard<'static, Objects> {
    state::awake(&OBJECTS)
}

/// The program makes a thread.
pub fn note_thread() {
    caller::prepare();
    THREADS.store(true, Relaxed);
    dispatch::begin();
}

/// Whether the program has made one.
pub fn has_threads() -> bool {
    THREADS.load(Relaxed)
}

/// Whether the caller is the program, and has more than one thread, which run side by side.
pub fn threads() -> bool {
    has_threads() && !baton::possible() && state::in_program() && !state::left() && !openmp::in_runtime()
}

/// The number of waiters of a place and of some others. Objects are words apart at least.
fn part(place: usize) -> &'static AtomicU32 {
    &WAITERS_BY_PART[(place / size_of::<usize>()) % PARTS]
}

fn enlist(places: &[usize]) {
    WAITERS.fetch_add(1, Relaxed);
    let mut objects = objects();
    for &place in places {
        part(place).fetch_add(1, AcqRel);
        objects.change(place, |object| object.waiters += 1);
    }
}

/// The latest clock that was left at one of the places.
fn discharge(places: &[usize]) -> u64 {
    let mut clock = 0;
    for &place in places {
        let left = objects().change(place, |object| {
            object.waiters = object.waiters.saturating_sub(1);
            object.clock
        });
        clock = clock.max(left.unwrap_or(0));
        part(place).fetch_sub(1, AcqRel);
    }
    WAITERS.fetch_sub(1, Relaxed);
    clock
}

/// Waits for another thread at these places.
pub fn wait<T>(places: &[usize], wait: impl FnOnce() -> T) -> T {
    enlist(places);
    portals::thread_waits();
    goes_on(places, wait)
}

/// The same, where nothing but [`release`] of one of the places ends the wait.
pub fn wait_for_release<T>(places: &[usize], wait: impl FnOnce() -> T) -> T {
    enlist(places);
    portals::thread_waits_for_release();
    goes_on(places, wait)
}

fn goes_on<T>(places: &[usize], wait: impl FnOnce() -> T) -> T {
    let result = wait();
    portals::thread_goes_on(discharge(places));
    result
}

/// How a wait with a time limit has ended.
pub enum Ended {
    /// As the last moment of it.
    Itself,
    /// At a condition: it was signalled while no such moment went on.
    Signalled,
    /// Simulated time does not say when it is over: it has not begun.
    Not,
}

/// As [`wait`], for `picoseconds` at most. `wait` waits a moment of real time: true when another thread has ended that.
pub fn wait_until(places: &[usize], picoseconds: u64, mut wait: impl FnMut() -> bool) -> Ended {
    // First, so that no release is missed.
    enlist(places);
    if !portals::doze(picoseconds, places) {
        discharge(places);
        return Ended::Not;
    }
    let signals = || match places {
        [condition, _lock] => objects().get(*condition).map_or(0, |object| object.releases),
        _ => 0,
    };
    let ended = loop {
        let before = signals();
        if wait() {
            break Ended::Itself;
        }
        // A condition does not remember a signal for which nobody waits just then.
        if signals() != before {
            break Ended::Signalled;
        }
        if portals::dozed() {
            break Ended::Itself;
        }
    };
    portals::doze_ends(discharge(places));
    ended
}

thread_local! {
    /// Time stamp counter when the calling thread last looked whether others are far behind.
    static LOOKED: Cell<u64> = const { Cell::new(0) };
    /// Locks that it has given back, or found taken, since it last said so.
    static LOCKS: Cell<u32> = const { Cell::new(0) };
    /// The one around which it spins until another thread has changed what it protects; 0: none.
    static SPINS_AT: Cell<usize> = const { Cell::new(0) };
}

/// So many are said at once. Our own choice: they take some 5 us, which is more than to say so.
const MANY_LOCKS: u32 = 256;

/// The calling thread has given the lock at that place back, or found it taken and does not wait. It may do so in a
/// loop, until another thread has changed what the lock protects.
pub fn may_spin(place: usize) {
    let turns = baton::here();
    if !turns && !threads() {
        return;
    }
    let locks = LOCKS.get() + 1;
    LOCKS.set(locks % MANY_LOCKS);
    if locks < MANY_LOCKS {
        return;
    }
    if turns {
        portals::thread_takes_locks();
        return;
    }
    let before = SPINS_AT.get();
    let now = if portals::thread_takes_locks() { place } else { 0 };
    if now != before {
        SPINS_AT.set(now);
        if now != 0 {
            enlist(&[now]);
        }
        if before != 0 {
            discharge(&[before]);
        }
    }
}

/// The calling thread ends.
pub fn thread_ends() {
    let place = SPINS_AT.replace(0);
    if place != 0 {
        discharge(&[place]);
    }
}

/// The calling thread lets go on who waits at that place, or who comes there later.
pub fn release(place: usize) {
    // Whoever does it, a library too.
    if part(place).load(Acquire) != 0 {
        portals::thread_releases(place);
    }
    if !threads() {
        return;
    }
    if arch::ticks().wrapping_sub(LOOKED.get()) > arch::TICKS {
        portals::thread_meets();
        // From the end of the look on: it may take longer than the ticks, and no work would be seen between two looks.
        LOOKED.set(arch::ticks());
    }
    if ORDER.load(Relaxed) {
        portals::lock_is_given(place);
    }
    if WAITERS.load(Relaxed) == 0 {
        return;
    }
    let left = objects().get(place).map(|object| object.clock);
    let Some(left) = left else { return };
    if SPINS_AT.get() == place {
        // It may just have found what it waits for, and that was done before the lock was given back last.
        portals::thread_goes_on(left);
    }
    let clock = portals::thread_clock();
    if let Some(object) = objects().get(place) {
        object.clock = clock;
        object.releases = object.releases.wrapping_add(1);
    }
}

/// It is of interest who takes a lock first.
static ORDER: AtomicBool = AtomicBool::new(true);

/// The calling thread has taken the lock at that place, or `waits` for it: this computer may have decided that. `from`:
/// the address of the code that does so.
pub fn takes(place: usize, waits: bool, from: usize) {
    if ORDER.load(Relaxed) && !caller::is_library(from) && !portals::lock_is_taken(place, waits) {
        ORDER.store(false, Relaxed);
    }
}

/// Takes a lock that cannot be tried: who comes when nobody has it, or waits for it, is the next owner.
pub fn take(place: usize, take: impl FnOnce()) {
    let waits = objects().change(place, |object| std::mem::replace(&mut object.held, true) || object.waiters > 0);
    takes(place, waits == Some(true), 0);
    if waits != Some(true) {
        take();
        // One that came later may have been faster, and has given it back since.
        let clock = objects().change(place, |object| {
            object.held = true;
            object.clock
        });
        if let Some(clock @ 1..) = clock {
            portals::thread_goes_on(clock);
        }
        return;
    }
    wait(&[place], || {
        line::stand(place, take);
        // Before it waits no longer: somebody else would find that the place is free.
        objects().change(place, |object| object.held = true);
    });
}

/// Gives it back: to be called before the real one is free.
pub fn give(place: usize) {
    release(place);
    let clock = portals::thread_clock();
    objects().change(place, |object| {
        // Also for those that have come to wait since.
        (object.held, object.clock) = (false, clock);
    });
}
