//! Threads that wait at descriptors (docs/decisions/0013-sockets.md).
//!
//! None of them holds the rank. Whoever parks it does so for them too; if nobody else does, the one whose clock is
//! least parks it. The simulator looks at the descriptors meanwhile, and a thread goes on when simulated time has come
//! to when one of its own was ready.

use super::sleep::WAKING_NS;
use super::{All, LONGEST_NAP, NAP, Thread, all, compute_is_free, get_up, least, many, note_change, wall_ns};
use super::{baton, is_on, leads, order};
use crate::attach;
use crate::rank::Places;
use narrows_channel::futex;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

/// Threads in [`All::at_files`].
static WAITING: AtomicU32 = AtomicU32::new(0);
/// The rank has written to a descriptor that others may read, or has waited at one.
static TALKS: AtomicBool = AtomicBool::new(false);
/// Simulated time is over.
static OVER: AtomicBool = AtomicBool::new(false);

/// A thread that waits at descriptors.
pub(super) struct Waiter {
    thread: &'static Thread,
    places: Places,
    /// Until when, ps.
    end: u64,
    /// The simulator has looked at them.
    looked: bool,
    /// It goes on: whether a descriptor is ready.
    ended: Option<bool>,
}

impl Waiter {
    /// When the first descriptor was ready, ps; `u64::MAX`: none is.
    fn ready(&self) -> u64 {
        let Some((_, header)) = attach::shared() else { return u64::MAX };
        let times = self.places.numbers().map(|place| header.files[place].ready.load(Acquire));
        times.filter(|&time| time != 0).min().unwrap_or(u64::MAX)
    }
}

impl All {
    fn waiting_at_files(&self) -> impl Iterator<Item = &Waiter> {
        self.at_files.iter().filter(|waiter| waiter.ended.is_none())
    }

    /// `thread` waits there.
    pub fn is_at_files(&self, thread: &Thread) -> bool {
        self.waiting_at_files().any(|waiter| std::ptr::eq(waiter.thread, thread))
    }

    /// When the first of them is to go on, ps.
    pub fn first_at_files(&self) -> Option<u64> {
        self.waiting_at_files().map(|waiter| waiter.end.min(waiter.ready())).min()
    }

    /// The simulator has looked at all of their descriptors.
    pub fn looked_at_files(&mut self) {
        self.at_files.iter_mut().for_each(|waiter| waiter.looked = true);
    }

    /// Simulated time has come to `clock` ps: who was to go on until then does.
    pub fn reached_at_files(&mut self, clock: u64) {
        for at in 0..self.at_files.len() {
            let waiter = &mut self.at_files[at];
            let ready = waiter.ready();
            let over = waiter.looked && waiter.end <= clock;
            if waiter.ended.is_some() || (ready > clock && !over) {
                continue;
            }
            waiter.ended = Some(ready <= clock);
            let (thread, time) = (waiter.thread, waiter.end.min(ready).max(waiter.thread.clock()));
            thread.set_clock(time);
            thread.waking.store(wall_ns() + WAKING_NS, Relaxed);
            self.starts(thread, time);
            if is_on() {
                self.baton.ready(thread.baton_id(), time);
            }
            ring(thread);
        }
    }

    /// Who parks the rank if nobody else does.
    fn leader_at_files(&self) -> Option<&'static Thread> {
        let threads = self.waiting_at_files().map(|waiter| waiter.thread);
        threads.min_by_key(|thread| (thread.clock(), thread.number(), thread.id.load(Relaxed)))
    }

    /// A thread stops: if nobody is left that may park the rank, one of those at descriptors looks whether it must.
    pub fn ring_at_files(&self) {
        let runs = || self.threads.iter().any(|thread| thread.runs.load(Relaxed));
        if !self.at_files.is_empty()
            && self.parked.is_none()
            && !runs()
            && let Some(thread) = self.leader_at_files()
        {
            ring(thread);
        }
    }

    /// Another thread parks the rank if that is to be done, or is about to.
    fn is_parked_by_others(&self, thread: &Thread) -> bool {
        let theirs = |flag: fn(&Thread) -> bool| self.others(Some(thread)).any(|other| flag(other));
        let inside = theirs(|other| other.inside.load(Relaxed)) && !theirs(|other| other.has_turn.load(Relaxed));
        self.parked.is_some() || inside || theirs(|other| other.runs.load(Relaxed) && other.in_call.load(Relaxed))
    }
}

fn ring(thread: &Thread) {
    thread.bell.fetch_add(1, Release);
    futex::wake(&thread.bell);
}

/// Some thread of the rank waits at descriptors.
pub(crate) fn any_at_files() -> bool {
    WAITING.load(Relaxed) != 0
}

/// `thread` waits there, as far as whoever holds the rank knows.
pub(crate) fn waits_at_files(thread: &Thread) -> bool {
    all().is_at_files(thread)
}

/// Threads of the rank may talk by descriptors.
pub(crate) fn talks() -> bool {
    TALKS.load(Relaxed) && many()
}

/// They may from now on.
pub(crate) fn talk() {
    TALKS.store(true, Relaxed);
}

/// The calling thread begins to wait at `places`, until its clock is `end` ps. It holds the rank, and must give it back
/// before [`wait_at_files`].
pub(crate) fn begins_at_files(thread: &'static Thread, places: Places, end: u64) {
    WAITING.fetch_add(1, AcqRel);
    let mut all = all();
    all.at_files.push(Waiter { thread, places, end, looked: false, ended: None });
    all.stops(thread);
    drop(all);
    note_change();
}

/// What a thread is to do that waits at descriptors.
pub(crate) enum Step {
    /// To go on: whether one is ready; `None`: simulated time is over.
    End(Option<bool>),
    /// To park the rank, until so many ps at the latest, and to ask again.
    Park(u64),
}

/// Returns when the calling thread is to do something. `nap`: how long it sleeps while others run, which grows.
pub(crate) fn wait_at_files(thread: &'static Thread, nap: &mut Duration) -> Step {
    if is_on() {
        return wait_in_turn(thread);
    }
    let mut slept = false;
    loop {
        let seen = thread.bell.load(Acquire);
        let least = least();
        let all = all();
        let ended = all.at_files.iter().find(|waiter| std::ptr::eq(waiter.thread, thread)).and_then(|waiter| waiter.ended);
        let leads = all.leader_at_files().is_some_and(|leader| std::ptr::eq(leader, thread));
        let theirs = !leads || all.is_parked_by_others(thread);
        drop(all);
        if ended.is_some() || OVER.load(Acquire) {
            return Step::End(ended);
        }
        if !theirs && (least == u64::MAX || (slept && least > thread.clock() && !compute_is_free())) {
            return Step::Park(least);
        }
        futex::wait(&thread.bell, seen, Some(if theirs { LONGEST_NAP } else { *nap }));
        *nap = (*nap * 2).min(LONGEST_NAP);
        slept = true;
    }
}

/// The same where one thread runs at a time: nobody is ready when it parks the rank.
fn wait_in_turn(thread: &'static Thread) -> Step {
    let ended = || all().at_files.iter().find(|waiter| std::ptr::eq(waiter.thread, thread)).and_then(|waiter| waiter.ended);
    // It may have parked the rank itself.
    if ended().is_none() {
        leads(thread, order::FILES);
    }
    match ended() {
        None if !OVER.load(Acquire) => Step::Park(u64::MAX),
        ended => Step::End(ended),
    }
}

/// [`All::parks`] when a thread went on last that had waited at descriptors.
static CAME: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether one has gone on since the rank was parked.
pub(crate) fn came_from_files() -> bool {
    CAME.load(Relaxed) == all().parks
}

/// The first of such naps.
pub(crate) const FIRST_NAP: Duration = NAP;

/// The calling thread, which holds the rank, waits there no longer.
pub(crate) fn ends_at_files(thread: &'static Thread) -> Option<Places> {
    let mut all = all();
    let at = all.at_files.iter().position(|waiter| std::ptr::eq(waiter.thread, thread))?;
    let waiter = all.at_files.swap_remove(at);
    WAITING.fetch_sub(1, AcqRel);
    CAME.store(all.parks, Relaxed);
    drop(all);
    get_up(thread, 0);
    Some(waiter.places)
}

/// Simulated time is over for the rank: waits at descriptors are real from now on.
pub(crate) fn time_is_over() {
    OVER.store(true, Release);
    let mut all = all();
    baton::time_is_over(&mut all);
    all.at_files.iter().for_each(|waiter| ring(waiter.thread));
}

#[cfg(test)]
mod tests {
    use super::super::tests::ALONE;
    use super::super::{begin, end, parks, reached, settled, unparked};
    use super::*;
    use std::sync::{Barrier, PoisonError};

    fn waits(thread: &'static Thread, end: u64) {
        begins_at_files(thread, Places::default(), end);
    }

    #[test]
    fn a_wait_is_over_when_the_simulator_has_looked_and_time_has_come_as_far() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = begin(100, false, 0);
        waits(thread, 300);
        reached(300);
        assert!(waits_at_files(thread), "nobody has looked");
        assert_eq!(parks(u64::MAX), 300, "the rank is woken then");
        assert_eq!(unparked(), 300);
        reached(299);
        assert!(waits_at_files(thread));
        reached(400);
        assert!(matches!(wait_at_files(thread, &mut FIRST_NAP.clone()), Step::End(Some(false))));
        assert!(ends_at_files(thread).is_some());
        assert_eq!(end(), 300);
    }

    /// The other thread waits for as long as it runs, and parks the rank when it does not.
    #[test]
    fn who_waits_parks_the_rank_if_nobody_else_does() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let both = &Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let thread = begin(100, false, 0);
                waits(thread, u64::MAX);
                both.wait();
                // It sleeps in real time meanwhile.
                assert!(matches!(wait_at_files(thread, &mut FIRST_NAP.clone()), Step::Park(u64::MAX)));
                assert!(ends_at_files(thread).is_some());
                end();
            });
            scope.spawn(move || {
                let thread = begin(200, false, 1);
                both.wait();
                assert_eq!(settled(200), Some(u64::MAX), "the other one waits");
                waits(thread, u64::MAX);
                // The first one, whose clock is less, parks the rank, and is the last one then.
                while all().waiting_at_files().count() != 1 {
                    std::thread::yield_now();
                }
                assert!(ends_at_files(thread).is_some());
                end();
            });
        });
    }
}
