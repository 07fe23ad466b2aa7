//! Where computing takes no time one thread of the rank runs at a time
//! (docs/decisions/0027-one-thread-at-a-time.md).
//!
//! From the second thread on the one that runs has the baton: it keeps it until it waits, sleeps, ends or calls MPI.
//! Who is next follows from clocks and numbers ([`narrows_baton`]), never from the host. Threads that wait for each
//! other do so on the list of [`All::baton`], and not in the kernel.

use super::host::{cpu_ns, is_runnable, wall_ns};
use super::{All, CHANGES, LONGEST_STRETCH_NS, NAP, Thread, all, compute_is_free, current};
use crate::chance::decides;
use crate::{attach, shared};
use narrows_baton::{Next, Place, ThreadId};
use narrows_channel::futex;
use narrows_channel::layout::{decided, state};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// One thread runs at a time, from now on.
static ON: AtomicBool = AtomicBool::new(false);
/// Waits in the kernel that libraries make by themselves come to us.
static ABLE: AtomicBool = AtomicBool::new(false);
/// Threads that wait at a place, or were woken there and have not run since: for those that let nobody go on.
static AT_PLACES: AtomicU32 = AtomicU32::new(0);
static WAKES: AtomicU32 = AtomicU32::new(0);
/// How often the baton was handed on, or could have been.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// How long a thread waits for the baton before it looks what the one that has it does. Our own choice.
const LOOK: Duration = Duration::from_millis(20);
/// So long a thread with the baton may sleep in the kernel, for reasons of its own, before another one goes on; and so
/// long it may compute, which is [`LONGEST_STRETCH_NS`].
const LONGEST_SLEEP_NS: u64 = 200_000_000;

/// The order in which threads that are in calls let time pass: see [`leads`].
pub(crate) mod order {
    /// It has the rank.
    pub const RANK: u8 = 0;
    /// It sleeps, and others are in MPI.
    pub const SLEEPER: u8 = 1;
    /// It is in MPI, and waits for its turn there.
    pub const CALLER: u8 = 2;
    /// It waits at descriptors.
    pub const FILES: u8 = 3;
}

/// Whether one thread of this rank runs at a time if it has several.
fn is_able() -> bool {
    are_seen() && compute_is_free()
}

/// Whether [`set_able`] was called.
pub(crate) fn are_seen() -> bool {
    ABLE.load(Relaxed)
}

/// Nothing that threads of the program wait for stays unseen.
pub(crate) fn set_able() {
    ABLE.store(true, Relaxed);
}

/// Whether one thread of this rank runs at a time.
pub(crate) fn is_on() -> bool {
    ON.load(Relaxed)
}

impl Thread {
    /// Its name in the list. Those that nobody has given a number have the kernel's.
    pub(super) fn baton_id(&self) -> ThreadId {
        match self.number() {
            number @ (0 | u32::MAX) => ThreadId(u64::from(number) << 32 | u64::from(self.id.load(Relaxed) as u32)),
            number => made_id(number),
        }
    }
}

fn made_id(number: u32) -> ThreadId {
    ThreadId(u64::from(number) << 32)
}

impl All {
    /// From now on one thread runs at a time: the calling one. Whoever else runs comes to the list when it calls next.
    pub(super) fn one_at_a_time(&mut self) {
        let Some(first) = current().filter(|_| is_able() && !is_on()) else { return };
        for thread in &self.threads {
            self.baton.spawn(thread.baton_id(), thread.clock());
            self.baton.block(thread.baton_id(), None, None);
            thread.without.store(!std::ptr::eq(*thread, first) && is_runnable(thread.id.load(Relaxed)), Relaxed);
        }
        self.baton.ready(first.baton_id(), first.clock());
        ON.store(true, Release);
        self.hands_on();
    }

    /// A thread of that number is about to begin, or is not.
    pub(super) fn will_begin(&mut self, number: u32, clock: u64, yes: bool) {
        self.one_at_a_time();
        if !is_on() {
        } else if yes {
            self.baton.spawn(made_id(number), clock);
            self.baton.block(made_id(number), None, None);
        } else {
            self.baton.exit(made_id(number));
        }
    }

    /// It is there: it runs when its maker does not, which may wait in the middle of making it.
    pub(super) fn will_run(&mut self, number: u32, clock: u64) {
        if is_on() {
            self.baton.ready(made_id(number), clock);
            self.hands_on();
        }
    }

    /// `thread` begins.
    pub(super) fn sits_down(&mut self, thread: &Thread) {
        thread.without.store(false, Relaxed);
        thread.seat.give_up();
        if is_on() {
            self.baton.spawn(thread.baton_id(), thread.clock());
            if self.baton.holder() == Some(thread.baton_id()) {
                thread.seat.give();
            }
            self.hands_on();
        }
    }

    /// It ends.
    pub(super) fn stands_up(&mut self, thread: &Thread) {
        if is_on() {
            thread.seat.give_up();
            self.baton.exit(thread.baton_id());
            self.hands_on();
        }
    }

    /// How many run without the baton: they may call.
    pub(super) fn run_without(&self) -> usize {
        self.threads.iter().filter(|thread| thread.without.load(Relaxed) && is_runnable(thread.id.load(Relaxed))).count()
    }

    /// It waits for something that is not on the list.
    pub(super) fn goes_away(&mut self, thread: &Thread) {
        if is_on() {
            thread.seat.give_up();
            self.baton.block(thread.baton_id(), None, None);
            self.hands_on();
        }
    }

    /// The baton goes to who is next, if nobody has it.
    fn hands_on(&mut self) {
        loop {
            match self.baton.pass() {
                Next::Run(id) | Next::Lead(id, _) => {
                    TURNS.fetch_add(1, Relaxed);
                    // One that has not begun finds it when it does.
                    let next = self.threads.iter().find(|thread| thread.baton_id() == id);
                    return next.into_iter().for_each(|thread| thread.seat.give());
                }
                Next::Park(until) => self.baton.tick(until),
                Next::Taken | Next::Nobody => return,
            }
        }
    }

    /// Simulated time has come to `clock`: whose wait is over then goes on.
    pub(super) fn baton_reached(&mut self, clock: u64) {
        if is_on() {
            self.baton.tick(clock);
            self.hands_on();
        }
    }
}

/// The calling thread changes what it does, and goes on when it has the baton.
fn changes(thread: &'static Thread, change: impl FnOnce(&mut narrows_baton::Baton, ThreadId)) {
    let id = thread.baton_id();
    let mut all = all();
    if !is_on() {
        return;
    }
    change(&mut all.baton, id);
    TURNS.fetch_add(1, Relaxed);
    if all.baton.holder() != Some(id) {
        thread.seat.give_up();
    }
    thread.runs.store(false, Relaxed);
    all.hands_on();
    drop(all);
    takes(thread, id);
}

/// The calling thread has begun, and waits for its turn.
pub(crate) fn begins(thread: &'static Thread) {
    takes(thread, thread.baton_id());
}

/// Waits until `thread`, the calling one, has the baton.
fn takes(thread: &'static Thread, id: ThreadId) {
    while !thread.seat.wait(Some(LOOK)) {
        looks_at_holder(id);
    }
    let mut all = all();
    thread.without.store(false, Relaxed);
    let clock = all.baton.clock(id).unwrap_or(0).max(thread.clock());
    all.baton.ready(id, clock);
    thread.set_clock(clock);
    thread.runs.store(true, Relaxed);
    drop(all);
    thread.turn();
}

/// Whether one thread runs at a time, and the calling one is of them. It has the baton then, also if it was taken away.
pub(crate) fn take_turns() -> bool {
    let Some(thread) = current().filter(|_| is_on()) else { return false };
    if !thread.seat.has() {
        // One that has run without it may come while another one has parked the rank.
        let asks = all().parked.is_some();
        if asks {
            shared::ask_to_give_way(true);
        }
        changes(thread, |baton, id| baton.ready(id, thread.clock()));
        if asks {
            shared::ask_to_give_way(false);
        }
    }
    true
}

/// The calling thread has come to `clock`: those that are behind run first.
pub(crate) fn yields(clock: u64) {
    if let Some(thread) = current() {
        changes(thread, |baton, id| {
            baton.yields(id, clock);
        });
    }
}

/// The calling thread lets time pass for all when nobody runs any more: returns then, or when another one has said that
/// it [`goes`] on.
pub(crate) fn leads(thread: &'static Thread, order: u8) {
    changes(thread, |baton, id| baton.call(id, order));
}

/// The calling thread has the rank, and is going to park it: all that are ready run first.
pub(crate) fn lead() {
    if let Some(thread) = current().filter(|_| is_on()) {
        leads(thread, order::RANK);
    }
}

/// `thread`, which is in a call, goes on at `clock` ps.
pub(crate) fn goes(thread: &Thread, clock: u64) {
    let mut all = all();
    if is_on() {
        all.baton.ready(thread.baton_id(), clock);
        all.hands_on();
    }
}

/// How often [`wake`] was called so far.
pub(crate) fn wakes() -> u32 {
    WAKES.load(SeqCst)
}

/// The calling thread waits at `place` until it is woken, or its clock is `until` ps: whether time has ended that. It
/// does not wait if somebody was woken since there were `seen` [`wakes`]: threads of libraries, and those that have
/// ended, run beside it.
pub(crate) fn block(place: Option<usize>, until: Option<u64>, seen: Option<u32>) -> bool {
    let Some(thread) = current() else { return false };
    AT_PLACES.fetch_add(1, SeqCst);
    changes(thread, |baton, id| {
        if seen.is_none_or(|seen| seen == wakes()) {
            baton.block(id, place.map(Place), until);
        }
    });
    AT_PLACES.fetch_sub(1, Relaxed);
    all().baton.is_late(thread.baton_id())
}

/// So many of those that wait at `place` go on, behind the calling thread: how many did.
pub(crate) fn wake(place: usize, most: usize) -> usize {
    if !is_on() {
        return 0;
    }
    WAKES.fetch_add(1, SeqCst);
    if AT_PLACES.load(SeqCst) == 0 {
        return 0;
    }
    let mut all = all();
    let woken = all.baton.wake(Place(place), most, current().map_or(0, Thread::clock)).len();
    all.hands_on();
    woken
}

/// One that was woken at `place` runs before the calling thread does something there.
pub(crate) fn stand_behind(place: usize) {
    if AT_PLACES.load(Relaxed) != 0
        && let Some(thread) = current()
    {
        let next = all().baton.is_next_at(Place(place));
        if next {
            yields(thread.clock());
        }
    }
}

/// The calling thread lets others get on for a moment of real time, which wait for what is not on the list.
pub(crate) fn nap_with_baton() {
    futex::wait(&CHANGES, CHANGES.load(Acquire), Some(NAP));
}

/// All threads run from now on, as the host likes: simulated time is over.
pub(super) fn time_is_over(all: &mut All) {
    if ON.swap(false, Relaxed) {
        all.threads.iter().for_each(|thread| thread.seat.give());
    }
}

/// Who has the baton was seen with it in that turn, with so much CPU time, at that time of the host.
static SEEN: Mutex<(u64, u64, u64)> = Mutex::new((0, 0, 0));

/// The thread `waits` for the baton. Who has it may wait for its memory to change, or in a way that nobody has told us
/// of. What cannot be proved is said.
fn looks_at_holder(waits: ThreadId) {
    let mut seen = match SEEN.try_lock() {
        Ok(seen) => seen,
        Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    let mut all = all();
    let Some(holder) = all.baton.holder().filter(|_| all.baton.would_go_on(waits)) else { return };
    let Some(thread) = all.threads.iter().copied().find(|thread| thread.baton_id() == holder) else { return };
    let runs = |state| matches!(state, state::RUNNING | state::APART | state::TAKEN);
    let parked = attach::shared().is_some_and(|(_, header)| !runs(header.state.load(Acquire)));
    let id = thread.id.load(Relaxed);
    let (turn, now) = (TURNS.load(Relaxed), wall_ns());
    let Some(cpu) = cpu_ns((!id << 3) | 6).filter(|_| !parked) else {
        seen.0 = 0;
        return;
    };
    let stopped = thread.is_stopped();
    if seen.0 != turn {
        *seen = (turn, cpu, now);
        if !stopped {
            return;
        }
    }
    let works = cpu.saturating_sub(seen.1) > LONGEST_STRETCH_NS;
    if is_runnable(id) && !works {
        // It has not slept since.
        seen.2 = now;
    }
    let sleeps = now.saturating_sub(seen.2) > LONGEST_SLEEP_NS;
    if stopped || works || sleeps {
        if works {
            decides(decided::WORK);
        } else if sleeps && !stopped {
            decides(decided::SLEEP);
        }
        thread.seat.give_up();
        thread.without.store(!stopped, Relaxed);
        all.baton.take_away();
        all.hands_on();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ALONE;
    use super::super::{begin, end, exists, made, makes};
    use super::*;
    use std::sync::PoisonError;

    /// Two threads, the second one made by the first; each notes the clocks that it comes to.
    #[test]
    fn the_least_clock_runs_whatever_the_host_does() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..50 {
            set_able();
            let clocks = Mutex::new(Vec::new());
            let comes_to = |steps: [u64; 3]| {
                for clock in steps {
                    yields(clock);
                    clocks.lock().unwrap().push(clock);
                }
                end();
            };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begin(100, false, 0);
                    let (clock, number) = (makes(true), made());
                    scope.spawn(move || {
                        begin(clock, false, number);
                        comes_to([110, 150, 300]);
                    });
                    exists();
                    assert!(is_on() && take_turns());
                    comes_to([120, 130, 200]);
                });
            });
            assert_eq!(clocks.into_inner().unwrap(), [110, 120, 130, 150, 200, 300]);
            ABLE.store(false, Relaxed);
            time_is_over(&mut all());
        }
    }

    #[test]
    fn who_is_woken_goes_on_at_the_clock_of_the_other_one() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        set_able();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let thread = begin(100, false, 0);
                let (clock, number) = (makes(true), made());
                scope.spawn(move || {
                    begin(clock, false, number);
                    yields(400);
                    assert_eq!(wake(8, 1), 1);
                    assert_eq!(wake(8, 1), 0, "nobody is left");
                    end();
                });
                exists();
                assert!(block(Some(8), Some(250), Some(wakes())), "nothing comes until 250");
                assert_eq!(thread.clock(), 250);
                assert!(!block(Some(8), None, Some(wakes())));
                assert_eq!(thread.clock(), 400);
                let seen = wakes();
                assert_eq!(wake(16, 1), 0);
                assert!(!block(Some(8), None, Some(seen)), "it does not wait: somebody was woken since");
                end();
            });
        });
        ABLE.store(false, Relaxed);
        time_is_over(&mut all());
    }
}
