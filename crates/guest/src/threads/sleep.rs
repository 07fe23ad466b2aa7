//! Sleep in simulated time: of one thread while others run, and of all while the rank is parked.

use super::{CHANGES, LONGEST_NAP, Thread, all, current, goes_on, many, nap, note_change, time_to};
use crate::shared;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// The calling thread sleeps until its clock is `end` ps: until all others that run have come as far, and the
/// simulation too if another thread has parked the rank.
pub(crate) fn sleep_until(thread: &'static Thread, end: u64) {
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

/// The first part of [`sleep_until`]: the thread begins to sleep.
pub(crate) fn lie_down(thread: &'static Thread, end: u64) {
    let mut all = all();
    all.sleepers.push((end, thread));
    all.stops(thread);
    drop(all);
    note_change();
}

/// The second part: `None` when its time is over; otherwise ask again after so long.
pub(crate) fn sleeps_on(thread: &'static Thread) -> Option<Duration> {
    let mut all = all();
    let &(end, _) = all.sleepers.iter().find(|(_, sleeper)| std::ptr::eq(*sleeper, thread))?;
    let key = |end, thread: &Thread| (end, thread.id.load(Relaxed));
    let first = all.sleepers.iter().all(|&(other, sleeper)| key(end, thread) <= key(other, sleeper));
    let behind = all.least(Some(thread)).filter(|least| *least < end);
    let asked = thread.asked_to_give_way.load(Relaxed);
    if asked != 0 && (asked != all.parks || all.parked.is_none()) {
        thread.no_longer_asks();
    }
    match all.parked {
        None if first && behind.is_none() => {
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
    Some(behind.map_or(LONGEST_NAP, |least| time_to(end - least)))
}

/// The last part: it sleeps no longer, because its time is over, or because of another thread whose clock was `clock`
/// ps.
pub(crate) fn get_up(thread: &'static Thread, clock: u64) {
    let mut all = all();
    all.sleepers.retain(|(_, sleeper)| !std::ptr::eq(*sleeper, thread));
    thread.no_longer_asks();
    drop(all);
    goes_on(clock);
    note_change();
}

/// The rank is going to be parked until `deadline`, ps: until when, with the threads that sleep.
pub(crate) fn parks(deadline: u64) -> u64 {
    if !many() {
        return deadline;
    }
    let mut all = all();
    let deadline = all.sleepers.iter().map(|&(end, _)| end).fold(deadline, u64::min);
    all.parked = Some(deadline);
    all.parks += 1;
    if let Some(thread) = current() {
        all.stops(thread);
    }
    drop(all);
    note_change();
    deadline
}

/// It is no longer parked.
pub(crate) fn unparked() {
    if !many() {
        return;
    }
    let mut all = all();
    all.parked = None;
    if let Some(thread) = current() {
        let clock = thread.clock();
        all.starts(thread, clock);
    }
    drop(all);
    note_change();
}

/// While it was parked its clock has come to `clock` ps: threads that sleep until then wake.
pub(crate) fn reached(clock: u64) {
    if !many() {
        return;
    }
    let mut guard = all();
    let (woken, others): (Vec<_>, Vec<_>) = guard.sleepers.drain(..).partition(|&(end, _)| end <= clock);
    guard.sleepers = others;
    for &(end, thread) in &woken {
        thread.clock.store(end.max(thread.clock()), Relaxed);
        guard.starts(thread, end);
    }
    if !woken.is_empty() {
        // Before anybody else can look at them: until the kernel has been told, they look like threads that sleep for
        // reasons of their own.
        note_change();
    }
    drop(guard);
}
