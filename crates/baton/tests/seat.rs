//! All interleavings (up to a bound of preemptions) of three threads that hand the baton on: it never has two owners,
//! and nobody sleeps for ever who is next.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use narrows_baton::{Baton, Next, Place, Seat, ThreadId};
use narrows_channel::handover::Word;
use std::time::Duration;

/// A word with a futex: whether to sleep is decided under a lock that wakers take.
struct Futex {
    word: AtomicU32,
    lock: Mutex<()>,
    sleepers: Condvar,
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

struct Process {
    baton: Mutex<Baton>,
    seats: Vec<Seat<Futex>>,
    /// What only the owner touches; loom reports a second one.
    count: UnsafeCell<u32>,
}

impl Process {
    fn new(threads: u64) -> Arc<Process> {
        let mut baton = Baton::default();
        (0..threads).for_each(|number| assert!(baton.spawn(ThreadId(number), 0)));
        let seat = |_| Seat::new(Futex { word: AtomicU32::new(0), lock: Mutex::new(()), sleepers: Condvar::new() });
        let process = Process { baton: Mutex::new(baton), seats: (0..threads).map(seat).collect(), count: UnsafeCell::new(0) };
        process.passes(|_| ());
        Arc::new(process)
    }

    /// What the guest does: a change, and then the baton goes to who is next.
    fn passes(&self, change: impl FnOnce(&mut Baton)) {
        let mut baton = self.baton.lock().expect("nobody panics with it");
        change(&mut baton);
        if let Next::Run(ThreadId(next)) = baton.pass() {
            self.seats[next as usize].give();
        }
    }

    fn owns(&self) {
        self.count.with_mut(|count| {
            // SAFETY: that nobody else has the pointer is what loom checks here.
            unsafe { *count += 1 }
        });
    }

    fn takes(&self, number: u64) {
        assert!(self.seats[number as usize].wait(None));
        self.owns();
    }

    fn gives_up(&self, number: u64, change: impl FnOnce(&mut Baton)) {
        self.seats[number as usize].give_up();
        self.passes(change);
    }
}

#[test]
fn three_take_turns() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let process = Process::new(3);
        let others: Vec<_> = [1, 2]
            .map(|number| {
                let process = Arc::clone(&process);
                thread::spawn(move || {
                    process.takes(number);
                    process.gives_up(number, |baton| baton.exit(ThreadId(number)));
                })
            })
            .into();
        process.takes(0);
        // Behind both of them.
        process.gives_up(0, |baton| assert!(baton.yields(ThreadId(0), 10)));
        process.takes(0);
        process.count.with(|count| {
            // SAFETY: as above.
            assert_eq!(unsafe { *count }, 4);
        });
        others.into_iter().for_each(|other| other.join().expect("it does not panic"));
    });
}

#[test]
fn who_waits_is_woken_by_the_other_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let process = Process::new(2);
        let other = {
            let process = Arc::clone(&process);
            thread::spawn(move || {
                process.takes(1);
                process.gives_up(1, |baton| {
                    assert_eq!(baton.wake(Place(8), 1, 5), [ThreadId(0)]);
                    baton.exit(ThreadId(1));
                });
            })
        };
        process.takes(0);
        process.gives_up(0, |baton| baton.block(ThreadId(0), Some(Place(8)), None));
        process.takes(0);
        other.join().expect("it does not panic");
    });
}
