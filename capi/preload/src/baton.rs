//! Where one thread of the rank runs at a time, threads of the program that wait for each other do so on the list of
//! libportals.so and not in the kernel (docs/decisions/0027-one-thread-at-a-time.md).
//!
//! No other thread of the program runs meanwhile: so a lock is tried, and if that fails the thread waits until somebody
//! has given it back.

use crate::symbols::real;
use crate::{meet, portals, state};
use libc::{EBUSY, ETIMEDOUT, c_int, pthread_t};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

mod next {
    use super::*;
    real! {
        fn usleep(wanted: libc::useconds_t) -> c_int;
    }
}

/// Without a limit, ps.
pub const FOR_EVER: u64 = u64::MAX;

/// Whether that is so in this run, once there are several threads. Their own waits are no other's affair then.
pub fn possible() -> bool {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    match KNOWN.load(Relaxed) {
        0 => {
            let yes = state::on() && portals::one_at_a_time();
            KNOWN.store(1 + u32::from(yes), Relaxed);
            yes
        }
        known => known == 2,
    }
}

/// Whether it is so now for the caller, which is the program. It has the baton then.
pub fn here() -> bool {
    meet::has_threads() && possible() && state::in_program() && !state::left() && portals::takes_turns()
}

/// Whether it is so for the caller, which is the MPI library in a call of the program: it may take locks of the
/// program's allocator. The calling thread has the baton then.
pub fn in_library() -> bool {
    let inside = || state::in_mpi() && !state::waits_outside() && !state::in_guard() && !state::thread(|thread| thread.runtime.get());
    meet::has_threads() && possible() && inside() && !state::left() && portals::takes_turns()
}

/// Objects that other processes may use too wait in the kernel: what the GNU C library keeps in them
/// (<bits/struct_mutex.h>, <bits/thread-shared-types.h>, <bits/struct_rwlock.h>, `struct new_sem` of its sources), on
/// x86-64.
pub enum Kind {
    Mutex,
    Condition,
    Lock,
    Semaphore,
}

impl Kind {
    fn shared(self, place: usize) -> bool {
        let (offset, bits) = match self {
            Kind::Mutex => (16, 128),
            Kind::Condition => (36, 1),
            Kind::Lock => (28, u32::MAX),
            Kind::Semaphore => (8, u32::MAX),
        };
        // SAFETY: the program's object, which is larger.
        unsafe { ((place + offset) as *const u32).read_volatile() & bits != 0 }
    }

    /// Whether the calling thread waits on the list for an object of this kind.
    pub fn here(self, place: usize) -> bool {
        here() && !self.shared(place)
    }

    /// The same for a lock that the MPI library may take, too.
    pub fn here_or_in_library(self, place: usize) -> bool {
        (here() || in_library()) && !self.shared(place)
    }
}

/// Takes the lock at `place`, until the thread's clock is `until`: `tries` says EBUSY while others have it, and `waits`
/// is for the time when the list is no more.
pub fn take(place: usize, until: u64, mut tries: impl FnMut() -> c_int, waits: impl FnOnce() -> c_int) -> c_int {
    portals::thread_stands_behind(place);
    loop {
        let seen = portals::thread_wakes_so_far();
        match tries() {
            EBUSY if !here() && !in_library() => return waits(),
            EBUSY if portals::thread_blocks(place, until, seen) => return ETIMEDOUT,
            EBUSY => {}
            code => return code,
        }
    }
}

/// So many of those that wait at `place` go on.
pub fn wakes(place: usize, most: usize) -> usize {
    if meet::has_threads() && possible() && !state::left() { portals::thread_wakes(place, most) } else { 0 }
}

/// Waits for `condition`, which goes with a lock that `gives` gives back and `takes` takes again.
pub fn wait_at(condition: usize, mutex: usize, until: u64, gives: impl FnOnce() -> c_int, takes: impl FnOnce() -> c_int) -> c_int {
    let seen = portals::thread_wakes_so_far();
    match gives() {
        0 => {}
        code => return code,
    }
    wakes(mutex, 1);
    // One of them is its own. Who waits at a condition may go on without a reason.
    let late = portals::thread_blocks(condition, until, seen.wrapping_add(1));
    match takes() {
        0 if late => ETIMEDOUT,
        code => code,
    }
}

/// Threads that the program has made, until they are joined, and which of them have ended.
static MADE: Mutex<BTreeSet<pthread_t>> = Mutex::new(BTreeSet::new());
static ENDED: Mutex<BTreeSet<pthread_t>> = Mutex::new(BTreeSet::new());

fn locked(threads: &Mutex<BTreeSet<pthread_t>>) -> MutexGuard<'_, BTreeSet<pthread_t>> {
    state::awake(threads)
}

/// Beside the addresses of objects.
fn end_of(thread: pthread_t) -> usize {
    thread as usize + 1
}

/// The calling thread has made another one.
pub fn note_made(thread: pthread_t) {
    if possible() {
        locked(&MADE).insert(thread);
        locked(&ENDED).remove(&thread);
    }
}

/// The calling thread ends.
pub fn note_end() {
    if possible() {
        // SAFETY: no arguments.
        let thread = unsafe { libc::pthread_self() };
        locked(&ENDED).insert(thread);
        wakes(end_of(thread), usize::MAX);
    }
}

/// Waits until `thread` has ended, as far as the program sees. False: not until then.
pub fn join(thread: pthread_t, until: u64) -> bool {
    let made = locked(&MADE).contains(&thread);
    while made && here() {
        let seen = portals::thread_wakes_so_far();
        if locked(&ENDED).contains(&thread) {
            break;
        }
        if until == 0 || portals::thread_blocks(end_of(thread), until, seen) {
            return false;
        }
    }
    true
}

/// It was joined.
pub fn note_joined(thread: pthread_t) {
    locked(&MADE).remove(&thread);
    locked(&ENDED).remove(&thread);
}

/// Who has come to a barrier.
struct Barrier {
    members: u64,
    arrived: u64,
}

static BARRIERS: Mutex<BTreeMap<usize, Barrier>> = Mutex::new(BTreeMap::new());

/// The program makes a barrier for so many.
pub fn note_barrier(barrier: usize, members: u64) {
    if possible() {
        state::awake(&BARRIERS).insert(barrier, Barrier { members, arrived: 0 });
    }
}

/// Waits at a barrier that [`note_barrier`] knows; else `None`. Whether the caller is the last.
pub fn meets(barrier: usize) -> Option<bool> {
    /// Between two looks when the list is no more: our own choice.
    const NAP_US: u32 = 1000;
    let mut barriers = state::awake(&BARRIERS);
    let known = barriers.get_mut(&barrier)?;
    let round = known.arrived / known.members;
    known.arrived += 1;
    let last = known.arrived % known.members == 0;
    drop(barriers);
    if last {
        wakes(barrier, usize::MAX);
    } else if here() {
        portals::thread_blocks(barrier, FOR_EVER, portals::thread_wakes_so_far());
    }
    let waits = || state::awake(&BARRIERS).get(&barrier).is_some_and(|known| known.arrived / known.members == round);
    while !last && !here() && waits() {
        // SAFETY: a plain number.
        unsafe { next::usleep(NAP_US) };
    }
    Some(last)
}
