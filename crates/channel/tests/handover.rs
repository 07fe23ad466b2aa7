//! All interleavings (up to a bound of preemptions) of two ranks and the simulator: a region never has two owners, no
//! wake-up is lost, and whatever one side wrote the other one finds.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use narrows_channel::handover::{
    Turn, Word, announce, ask, await_given, await_ring, await_turn, enter, give, go_apart, hand, leave, rejoin, set_apart, take,
};
use narrows_channel::layout::state;
use std::time::Duration;

/// A word with a futex: whether to sleep is decided under a lock that wakers take.
struct Futex {
    word: AtomicU32,
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn new(value: u32) -> Futex {
        Futex { word: AtomicU32::new(value), lock: Mutex::new(()), sleepers: Condvar::new() }
    }
}

impl Word for Futex {
    fn get(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }
    fn put(&self, value: u32) {
        self.word.store(value, Ordering::Release);
    }
    fn add(&self, value: u32) -> u32 {
        self.word.fetch_add(value, Ordering::AcqRel)
    }
    fn replace(&self, value: u32) -> u32 {
        self.word.swap(value, Ordering::AcqRel)
    }
    fn swap_if(&self, expected: u32, value: u32) -> bool {
        self.word.compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    fn wait(&self, expected: u32, _: Option<Duration>) -> bool {
        let guard = self.lock.lock().expect("nobody panics with it");
        if self.word.load(Ordering::Relaxed) == expected {
            drop(self.sleepers.wait(guard).expect("nobody panics with it"));
        }
        false
    }
    fn wake(&self) {
        let _guard = self.lock.lock().expect("nobody panics with it");
        self.sleepers.notify_all();
    }
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

struct Shared {
    running: Futex,
    bell: Futex,
    ranks: Vec<(Futex, UnsafeCell<u32>)>,
}

impl Shared {
    fn new(ranks: usize, first: u32) -> Arc<Shared> {
        let ranks = (0..ranks).map(|_| (Futex::new(first), UnsafeCell::new(0))).collect();
        Arc::new(Shared { running: Futex::new(0), bell: Futex::new(0), ranks })
    }

    /// What one side does with a region that is its own; loom reports a second owner.
    fn raise(&self, rank: usize, expected: u32) {
        self.ranks[rank].1.with_mut(|value| {
            // SAFETY: that nobody else has the pointer is what loom checks here.
            let value = unsafe { &mut *value };
            assert_eq!(*value, expected, "what the other side wrote is there");
            *value += 1;
        });
    }
}

/// A rank comes in, parks once and goes out: its region is given back twice.
fn rank(shared: &Shared, index: usize) {
    let (state, _) = &shared.ranks[index];
    ask(state, &shared.bell);
    assert_eq!(await_turn(state, state::WANTS_IN, None), Turn::Mine);
    shared.raise(index, 0);
    give(state, &shared.running, &shared.bell, state::PARKED);
    assert_eq!(await_turn(state, state::PARKED, None), Turn::Mine);
    shared.raise(index, 2);
    give(state, &shared.running, &shared.bell, state::OUTSIDE);
}

/// The simulator as in the prologue: lets in who wants in, looks through the regions when nobody runs, wakes who is
/// parked.
fn simulator(shared: &Shared) {
    let mut let_in_now = vec![false; shared.ranks.len()];
    let mut done = vec![0; shared.ranks.len()];
    while done.iter().any(|&times| times < 2) {
        let rung = shared.bell.get();
        for (index, (state, _)) in shared.ranks.iter().enumerate() {
            if !let_in_now[index] && state.get() == state::WANTS_IN {
                let_in_now[index] = true;
                announce(&shared.running, 1);
                hand(state);
            }
        }
        if shared.running.get() == 0 {
            let mut collected = false;
            for index in 0..shared.ranks.len() {
                if std::mem::take(&mut let_in_now[index]) {
                    collected = true;
                    shared.raise(index, if done[index] == 0 { 1 } else { 3 });
                    done[index] += 1;
                    if done[index] == 1 {
                        assert_eq!(shared.ranks[index].0.get(), state::PARKED);
                        let_in_now[index] = true;
                        announce(&shared.running, 1);
                        hand(&shared.ranks[index].0);
                    }
                }
            }
            if collected {
                continue;
            }
        }
        await_ring(&shared.bell, rung, None);
    }
}

fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

#[test]
fn ranks_come_in_and_go_out() {
    model(2, || {
        let shared = Shared::new(2, state::OUTSIDE);
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let shared = shared.clone();
                thread::spawn(move || rank(&shared, index))
            })
            .collect();
        simulator(&shared);
        for thread in threads {
            thread.join().expect("the rank's thread ends");
        }
    });
}

/// A window: all ranks are let in, and the simulator sleeps until all have given their regions back.
#[test]
fn a_window_ends_when_all_are_parked() {
    model(2, || {
        let shared = Shared::new(2, state::PARKED);
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (state, _) = &shared.ranks[index];
                    for time in 0..2 {
                        assert_eq!(await_turn(state, state::PARKED, None), Turn::Mine);
                        shared.raise(index, 2 * time);
                        give(state, &shared.running, &shared.bell, state::PARKED);
                    }
                })
            })
            .collect();
        for time in 0..2 {
            announce(&shared.running, 2);
            for (state, _) in &shared.ranks {
                hand(state);
            }
            while !await_given(&shared.running, &shared.bell, None) {}
            for index in 0..2 {
                assert_eq!(shared.ranks[index].0.get(), state::PARKED);
                shared.raise(index, 2 * time + 1);
            }
        }
        for thread in threads {
            thread.join().expect("the rank's thread ends");
        }
    });
}

/// A rank that sleeps when the run is ended wakes up and is told.
#[test]
fn the_end_of_the_run_reaches_a_rank_that_sleeps() {
    model(3, || {
        let shared = Shared::new(1, state::PARKED);
        let of_rank = shared.clone();
        let thread = thread::spawn(move || await_turn(&of_rank.ranks[0].0, state::PARKED, None));
        shared.ranks[0].0.put(state::KILLED);
        shared.ranks[0].0.wake();
        assert_eq!(thread.join().expect("the rank's thread ends"), Turn::Over);
    });
}

/// The simulator takes the region of a rank that runs while a thread of it, which was asleep, comes to use it and gives
/// it back: only one of them has it, and nobody waits for ever.
fn taken_and_used(goes_out: bool) {
    model(5, move || {
        let shared = Shared::new(1, state::RUNNING);
        announce(&shared.running, 1);
        let busy = Arc::new(Futex::new(0));
        let thread = {
            let (shared, busy) = (shared.clone(), busy.clone());
            thread::spawn(move || {
                let (state, value) = &shared.ranks[0];
                while !enter(state, &*busy) {
                    assert_eq!(await_turn(state, state::TAKEN, None), Turn::Mine);
                }
                // SAFETY: that nobody else has the pointer is what loom checks here.
                let add = |number| value.with_mut(|value| unsafe { *value += number });
                add(1);
                if goes_out {
                    give(state, &shared.running, &shared.bell, state::OUTSIDE);
                } else {
                    give(state, &shared.running, &shared.bell, state::PARKED);
                    assert_eq!(await_turn(state, state::PARKED, None), Turn::Mine);
                    add(1);
                }
                leave(&*busy);
            })
        };
        let (state, value) = &shared.ranks[0];
        // SAFETY: as above.
        let add = |number| value.with_mut(|value| unsafe { *value += number });
        let taken = take(state, &*busy, &shared.running, &shared.bell);
        if taken {
            assert!(await_given(&shared.running, &shared.bell, None));
            add(10);
            announce(&shared.running, 1);
            hand(state);
        }
        while !await_given(&shared.running, &shared.bell, None) {}
        add(10);
        if !goes_out {
            announce(&shared.running, 1);
            hand(state);
        }
        thread.join().expect("the rank's thread ends");
        assert_eq!(shared.running.get(), u32::from(!goes_out));
        // SAFETY: as above.
        let sum = value.with(|value| unsafe { *value });
        assert_eq!(sum, 10 * (1 + u32::from(taken)) + 1 + u32::from(!goes_out));
    });
}

#[test]
fn a_region_is_taken_only_while_nobody_uses_it() {
    taken_and_used(false);
}

#[test]
fn a_region_that_is_given_back_is_not_taken() {
    taken_and_used(true);
}

/// How a rank comes to be set apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// The simulator does it.
    Simulator,
    /// And waits for it again.
    AndBack,
    /// The rank does it.
    Itself,
    /// Both want to.
    Both,
}

/// The simulator does not wait for a rank that computes, or does so again, while that one gives its region back: it
/// learns of that, and nobody is counted twice.
fn set_apart_by(who: Apart) {
    model(2, move || {
        let shared = Shared::new(2, state::PARKED);
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (state, _) = &shared.ranks[index];
                    assert_eq!(await_turn(state, state::PARKED, None), Turn::Mine);
                    shared.raise(index, 0);
                    if index == 0 && matches!(who, Apart::Itself | Apart::Both) {
                        go_apart(state, &shared.running, &shared.bell);
                    }
                    give(state, &shared.running, &shared.bell, state::PARKED);
                })
            })
            .collect();
        announce(&shared.running, 2);
        shared.ranks.iter().for_each(|(state, _)| hand(state));
        let first = &shared.ranks[0].0;
        let apart = who != Apart::Itself && set_apart(first, &shared.running);
        if apart && who == Apart::AndBack {
            rejoin(first, &shared.running);
        }
        while !await_given(&shared.running, &shared.bell, None) {}
        assert_ne!(first.get(), state::RUNNING, "it is apart, or has parked");
        loop {
            let rung = shared.bell.get();
            if first.get() == state::PARKED {
                break;
            }
            assert!(who != Apart::AndBack && (apart || who != Apart::Simulator), "nobody waits for it");
            await_ring(&shared.bell, rung, None);
        }
        assert_eq!(shared.running.get(), 0);
        (0..2).for_each(|index| shared.raise(index, 1));
        for thread in threads {
            thread.join().expect("the rank's thread ends");
        }
    });
}

#[test]
fn a_rank_that_is_set_apart_rings_when_it_parks() {
    set_apart_by(Apart::Simulator);
}

#[test]
fn a_rank_that_was_set_apart_is_waited_for_again() {
    set_apart_by(Apart::AndBack);
}

#[test]
fn a_rank_sets_itself_apart() {
    set_apart_by(Apart::Itself);
}

#[test]
fn a_rank_and_the_simulator_set_it_apart_at_once() {
    set_apart_by(Apart::Both);
}
