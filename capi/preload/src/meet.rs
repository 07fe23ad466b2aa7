//! Where threads of the program meet: the clock of the one that another one has waited for.
//!
//! Only waits count. Two threads that take a lock one after the other, without waiting, have nothing to do with each
//! other's clocks: which of them comes first is the host's affair, and the one that the host has let run further would
//! take the other one along.

use crate::{portals, state};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something that threads wait for.
#[derive(Default)]
struct Object {
    waiters: u32,
    /// For locks that cannot be tried.
    held: bool,
    /// Of the last one who let somebody go on.
    clock: u64,
}

/// By address.
static OBJECTS: Mutex<BTreeMap<usize, Object>> = Mutex::new(BTreeMap::new());
/// Threads that wait for any of them.
static WAITERS: AtomicU32 = AtomicU32::new(0);
/// The program has made a thread.
static THREADS: AtomicBool = AtomicBool::new(false);

fn objects() -> MutexGuard<'static, BTreeMap<usize, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program makes a thread.
pub fn note_thread() {
    THREADS.store(true, Relaxed);
}

/// Whether the caller is the program, and has more than one thread.
pub fn threads() -> bool {
    THREADS.load(Relaxed) && state::in_program() && !state::left()
}

fn enlist(places: &[usize]) {
    WAITERS.fetch_add(1, Relaxed);
    let mut objects = objects();
    for place in places {
        objects.entry(*place).or_default().waiters += 1;
    }
}

/// The latest clock that was left at one of the places.
fn discharge(places: &[usize]) -> u64 {
    let mut objects = objects();
    let mut clock = 0;
    for place in places {
        if let Some(object) = objects.get_mut(place) {
            clock = clock.max(object.clock);
            object.waiters -= 1;
            if object.waiters == 0 && !object.held {
                objects.remove(place);
            }
        }
    }
    WAITERS.fetch_sub(1, Relaxed);
    clock
}

/// Waits for another thread at these places.
pub fn wait<T>(places: &[usize], wait: impl FnOnce() -> T) -> T {
    enlist(places);
    portals::thread_waits();
    let result = wait();
    portals::thread_goes_on(discharge(places));
    result
}

/// As [`wait`], until the doze that has begun is over. `wait` waits a moment of real time and returns `None` then; a
/// result of its own otherwise. `None`: the time is over.
pub fn wait_until<T>(places: &[usize], mut wait: impl FnMut() -> Option<T>) -> Option<T> {
    enlist(places);
    let result = loop {
        match wait() {
            Some(result) => break Some(result),
            None if portals::dozed() => break None,
            None => {}
        }
    };
    portals::doze_ends(discharge(places));
    result
}

thread_local! {
    /// Time stamp counter when the calling thread last looked whether others are far behind.
    static LOOKED: Cell<u64> = const { Cell::new(0) };
}

/// Ticks of the time stamp counter between two such looks: some 10 us. Our own choice, well below what a thread may be
/// ahead.
const TICKS: u64 = 30_000;

/// The calling thread lets go on who waits at that place, or who comes there later.
pub fn release(place: usize) {
    if !threads() {
        return;
    }
    // SAFETY: every processor of this architecture has it.
    let now = unsafe { core::arch::x86_64::_rdtsc() };
    if now.wrapping_sub(LOOKED.get()) > TICKS {
        portals::thread_meets();
        LOOKED.set(now);
    }
    if WAITERS.load(Relaxed) != 0 && objects().contains_key(&place) {
        let clock = portals::thread_clock();
        if let Some(object) = objects().get_mut(&place) {
            object.clock = clock;
        }
    }
}

/// Takes a lock that cannot be tried: who comes when nobody has it, or waits for it, is the next owner.
pub fn take(place: usize, take: impl FnOnce()) {
    let mut known = objects();
    let object = known.entry(place).or_default();
    let waits = object.held || object.waiters > 0;
    object.held = true;
    drop(known);
    if !waits {
        return take();
    }
    wait(&[place], take);
    objects().entry(place).or_default().held = true;
}

/// Gives it back: to be called before the real one is free.
pub fn give(place: usize) {
    release(place);
    let mut objects = objects();
    if let Some(object) = objects.get_mut(&place) {
        object.held = false;
        if object.waiters == 0 {
            objects.remove(&place);
        }
    }
}

/// Rounds in which a number of threads meet.
#[derive(Default)]
pub struct Rounds {
    latest: [u64; ROUNDS as usize],
}

/// A thread may still look at the round before the one in which others are already, and the next one is made ready
/// then.
const ROUNDS: u64 = 4;

impl Rounds {
    /// A thread comes to a round, at that clock.
    pub fn come(&mut self, round: u64, clock: u64) {
        self.latest[((round + 1) % ROUNDS) as usize] = 0;
        let latest = &mut self.latest[(round % ROUNDS) as usize];
        *latest = clock.max(*latest);
    }

    /// The clock of the one that came last.
    pub fn latest(&self, round: u64) -> u64 {
        self.latest[(round % ROUNDS) as usize]
    }
}
