//! Threads of one process that wait at the same time, for different things.
//!
//! The rank is parked by one thread, which holds it meanwhile. It gives way when another thread wants to do something
//! with the rank, and when something has come that may be for another one that waits: those stand in a queue, and the
//! rank parks again when all in it have looked in vain.

use crate::shared::ask_to_give_way;
use crate::threads;
use narrows_units::SimTime;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Who waits: the numbers from `serving` to `next`. The first one looks.
struct Queue {
    serving: u64,
    next: u64,
    /// Up to when they wait, those that have a limit, ps.
    ends: Vec<u64>,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { serving: 0, next: 0, ends: Vec::new() });
static SERVED: Condvar = Condvar::new();
/// How many have looked in vain since something came.
static FRUITLESS: AtomicU64 = AtomicU64::new(0);
/// Threads that want the rank while another one holds it, and do not wait in the queue.
static CALLERS: AtomicU32 = AtomicU32::new(0);

/// How often a thread yields to those that want the rank before it tries to take it. Our own choice: a yield is 1 us
/// where nobody else runs.
const MOST_YIELDS: u32 = 100;

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something has come.
pub(crate) fn changed() {
    FRUITLESS.store(0, Relaxed);
}

/// The first in the queue has looked in vain: whether another one must look before the rank may park.
pub(crate) fn others_must_look() -> bool {
    let queue = queue();
    FRUITLESS.fetch_add(1, Relaxed) + 1 < queue.next - queue.serving
}

/// When the first of all that wait must look again, whatever comes; `u64::MAX`: none.
pub(crate) fn earliest_end() -> u64 {
    queue().ends.iter().copied().min().unwrap_or(u64::MAX)
}

/// While it lives, whoever holds the rank is asked to give it up.
pub(crate) struct Caller;

impl Caller {
    pub fn new() -> Caller {
        CALLERS.fetch_add(1, SeqCst);
        ask_to_give_way(true);
        Caller
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        ask_to_give_way(false);
        CALLERS.fetch_sub(1, SeqCst);
    }
}

/// Some thread wants the rank while another one holds it.
pub(crate) fn some_call() -> bool {
    CALLERS.load(SeqCst) != 0
}

/// Threads that want the rank are about to take it: lets them.
pub(crate) fn let_callers_in() {
    if CALLERS.load(SeqCst) == 0 {
        return;
    }
    if threads::is_on() {
        return threads::lead();
    }
    // One that sleeps may take its time: who polls comes here again.
    threads::uncounted(|| {
        for _ in 0..MOST_YIELDS {
            std::thread::yield_now();
            if CALLERS.load(SeqCst) == 0 {
                break;
            }
        }
    });
}

/// A thread's place among those that wait. It may hold the rank while it is the first.
pub struct Turn {
    number: u64,
    end: Option<u64>,
}

impl Turn {
    /// Joins the queue; returns when it is this thread's turn.
    pub fn begin() -> Turn {
        let mut queue = queue();
        let number = queue.next;
        queue.next += 1;
        if queue.serving != number {
            ask_to_give_way(true);
            drop(Turn::served(queue, number));
            ask_to_give_way(false);
        }
        Turn { number, end: None }
    }

    fn served(queue: MutexGuard<'static, Queue>, number: u64) -> MutexGuard<'static, Queue> {
        if threads::take_turns() {
            return Turn::served_in_turn(queue, number);
        }
        threads::runs(false);
        let queue = SERVED.wait_while(queue, |queue| queue.serving != number).unwrap_or_else(PoisonError::into_inner);
        threads::runs(true);
        queue
    }

    /// The same where one thread runs at a time.
    fn served_in_turn(mut queue: MutexGuard<'static, Queue>, number: u64) -> MutexGuard<'static, Queue> {
        while queue.serving != number {
            drop(queue);
            threads::block(Some(&raw const SERVED as usize), None, None);
            queue = self::queue();
        }
        queue
    }

    /// Somebody else may be served now.
    fn next_is_served() {
        SERVED.notify_all();
        threads::wake(&raw const SERVED as usize, usize::MAX);
    }

    /// Gives way, without holding the rank, and returns when it is this thread's turn again.
    pub fn again(&mut self) {
        // They are about to take the rank: the lock is not a fair one.
        threads::lead();
        while CALLERS.load(SeqCst) != 0 && !threads::is_on() {
            std::thread::yield_now();
        }
        let mut queue = queue();
        queue.serving += 1;
        self.number = queue.next;
        queue.next += 1;
        Turn::next_is_served();
        drop(Turn::served(queue, self.number));
    }

    /// It waits no longer than until the rank's clock is `end`. Said once.
    pub fn ends(&mut self, end: SimTime) {
        if self.end.is_none() {
            self.end = Some(end.as_ps());
            queue().ends.push(end.as_ps());
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = queue();
        queue.serving += 1;
        if let Some(at) = queue.ends.iter().position(|end| Some(*end) == self.end) {
            queue.ends.swap_remove(at);
        }
        Turn::next_is_served();
    }
}
