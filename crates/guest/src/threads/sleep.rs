//! Sleep in simulated time: of one thread while others run, and of all while the rank is parked.

use super::{CHANGES, LONGEST_NAP, Thread, all, any_at_files, current, many, nap, note_change, time_to, wall_ns};
use super::{block, is_on};
use crate::shared;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

/// So long of real time a thread that was woken is taken to be about to go on: its moment of a wait is 2 ms at most,
/// and a host may take a core away for some 30. After that it is what the kernel says: who waits with a time limit may
/// find the lock taken that goes with the wait. Our own choice.
pub(super) const WAKING_NS: u64 = 100_000_000;

/// How often places were released: those whose addresses are alike are counted together.
static RELEASED: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];

fn releases_of(place: usize) -> &'static AtomicU32 {
    &RELEASED[(place / size_of::<usize>()) % RELEASED.len()]
}

/// `place` is going to be released.
pub(super) fn released(place: usize) {
    releases_of(place).fetch_add(1, AcqRel);
}

/// The place where `thread` waits with a time limit has been released since, or may have been.
pub(super) fn is_released(thread: &Thread) -> bool {
    let place = thread.place.load(Relaxed);
    place != 0 && releases_of(place).load(Acquire) != thread.seen_released.load(Relaxed)
}

/// The calling thread sleeps until its clock is `end` ps: until all others that run have come as far, and the
/// simulation too if another thread has parked the rank.
pub(crate) fn sleep_until(thread: &'static Thread, end: u64) {
    if is_on() {
        block(None, Some(end), None);
        return thread.mark();
    }
    lie_down(thread, end);
    loop {
        let seen = CHANGES.load(Acquire);
        match sleeps_on(thread) {
            Some(while_) => nap(seen, while_),
            None => break,
        }
    }
    get_up(thread, 0);
}

/// As [`lie_down`], until another thread ends that. The caller asks every now and then whether its time is over, and
/// has a lock of the program's meanwhile if it is one `with_lock`.
pub(crate) fn doze(thread: &'static Thread, end: u64, place: usize, with_lock: bool) {
    thread.locks.store(with_lock, Relaxed);
    thread.place.store(place, Relaxed);
    thread.wanted_looks.store(0, Relaxed);
    let released = releases_of(place).load(Acquire);
    thread.seen_released.store(released, Relaxed);
    thread.last_released.store(released, Relaxed);
    thread.nearly_awake.store(false, Relaxed);
    lie_down(thread, end);
}

/// The first part of [`sleep_until`]: the thread begins to sleep.
fn lie_down(thread: &'static Thread, end: u64) {
    let mut all = all();
    all.sleepers.push((end, thread));
    all.stops(thread);
    drop(all);
    note_change();
}

/// The second part: `None` when its time is over; otherwise ask again after so long.
pub(crate) fn sleeps_on(thread: &'static Thread) -> Option<Duration> {
    let mut all = all();
    thread.end_looks.store(thread.end_looks.load(Relaxed) + 1, Relaxed);
    let &(end, _) = all.sleepers.iter().find(|(_, sleeper)| std::ptr::eq(*sleeper, thread))?;
    let key = |end, thread: &Thread| (end, thread.id.load(Relaxed));
    let first = all.sleepers.iter().all(|&(other, sleeper)| key(end, thread) <= key(other, sleeper));
    let least = all.least(Some(thread));
    let behind = least.filter(|least| *least < end);
    // Those that wait inside MPI find out who is next, unless one of them has its turn.
    let theirs = |flag: fn(&Thread) -> &AtomicBool| all.others(Some(thread)).any(|other| flag(other).load(Relaxed));
    let decided = !thread.has_turn.load(Relaxed) && theirs(|other| &other.inside) && !theirs(|other| &other.has_turn);
    let asked = thread.asked_to_give_way.load(Relaxed);
    if asked != 0 && (asked != all.parks || all.parked.is_none()) {
        thread.no_longer_asks();
    }
    match all.parked {
        None if first
            && behind.is_none()
            && !decided
            && all.at_files.is_empty()
            && !is_released(thread)
            && !all.waking_before(thread, end) =>
        {
            // Whoever waits for the lock that goes with its wait gets it in the next moment.
            if thread.locks.load(Relaxed) && !thread.nearly_awake.swap(true, Relaxed) {
                return Some(LONGEST_NAP);
            }
            all.sleepers.retain(|(_, sleeper)| !std::ptr::eq(*sleeper, thread));
            thread.clock.store(end.max(thread.clock()), Relaxed);
            all.starts(thread, end);
            return None;
        }
        // It does not know yet that this one must be woken first.
        Some(parked) if parked > end && thread.asked_to_give_way.load(Relaxed) == 0 => {
            thread.asked_to_give_way.store(all.parks, Relaxed);
            shared::ask_to_give_way(true);
        }
        _ => {}
    }
    thread.nearly_awake.store(false, Relaxed);
    // A release is told of before it happens, so it may be in vain that this one has looked since; not if nobody runs.
    if least.is_none() {
        thread.seen_released.store(thread.last_released.load(Relaxed), Relaxed);
        thread.last_released.store(releases_of(thread.place.load(Relaxed)).load(Acquire), Relaxed);
    }
    Some(behind.map_or(LONGEST_NAP, |least| time_to(end - least)))
}

/// When the first of those that sleep is to wake, ps.
pub(crate) fn first_end() -> Option<u64> {
    let all = all();
    all.sleepers.iter().map(|&(end, _)| end).chain(all.baton.first_end()).min()
}

/// The last part: it sleeps no longer, because its time is over, or because of another thread whose clock was `clock`
/// ps.
pub(crate) fn get_up(thread: &'static Thread, clock: u64) {
    let mut all = all();
    all.sleepers.retain(|(_, sleeper)| !std::ptr::eq(*sleeper, thread));
    thread.no_longer_asks();
    thread.waking.store(0, Relaxed);
    thread.locks.store(false, Relaxed);
    thread.place.store(0, Relaxed);
    // At once: in between it would be one that neither sleeps nor runs.
    all.goes_on(thread, clock);
    drop(all);
    thread.turn();
    thread.mark();
    note_change();
}

/// The rank is going to be parked until `deadline`, ps: until when, with the threads that sleep and those at
/// descriptors.
pub(crate) fn parks(deadline: u64) -> u64 {
    if !many() && !any_at_files() {
        return deadline;
    }
    let mut all = all();
    let deadline =
        all.sleepers.iter().map(|&(end, _)| end).chain(all.first_at_files()).chain(all.baton.first_end()).fold(deadline, u64::min);
    all.parked = Some(deadline);
    all.parks += 1;
    if let Some(thread) = current() {
        all.stops(thread);
    }
    all.tells_who_runs();
    drop(all);
    note_change();
    deadline
}

/// It is no longer parked; whoever has done that goes on, unless it waits at descriptors. When the first of those that
/// do is to go on, ps.
pub(crate) fn unparked() -> u64 {
    if !many() && !any_at_files() {
        return u64::MAX;
    }
    let mut all = all();
    all.parked = None;
    all.looked_at_files();
    // Not one that has computed for long, however often it is parked in a call.
    current().into_iter().for_each(Thread::turn);
    if let Some(thread) = current().filter(|thread| !all.is_at_files(thread)) {
        let clock = thread.clock();
        all.starts(thread, clock);
    }
    let first = all.first_at_files().unwrap_or(u64::MAX);
    drop(all);
    note_change();
    first
}

/// While it was parked its clock has come to `clock` ps: threads that sleep until then wake.
pub(crate) fn reached(clock: u64) {
    if !many() && !any_at_files() {
        return;
    }
    let mut guard = all();
    let (woken, others): (Vec<_>, Vec<_>) = guard.sleepers.drain(..).partition(|&(end, _)| end <= clock);
    guard.sleepers = others;
    for &(end, thread) in &woken {
        thread.clock.store(end.max(thread.clock()), Relaxed);
        // One that waits with a time limit sees it when a moment of real time is over, and is asleep until then.
        thread.waking.store(wall_ns() + WAKING_NS, Relaxed);
        guard.starts(thread, end);
    }
    guard.reached_at_files(clock);
    guard.baton_reached(clock);
    if !woken.is_empty() {
        // Before anybody else can look at them: until the kernel has been told, they look like threads that sleep for
        // reasons of their own.
        note_change();
    }
    drop(guard);
}
