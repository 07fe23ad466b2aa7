//! Waiting in real time until other threads have come as far.

use super::{All, CHANGES, LONGEST_NAP, NAP, Thread, all, compute_is_free, compute_ppm, current, least, many, nap, paused};
use super::{is_on, lead, yields};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

/// How far a thread that lets others go on may be ahead of one that runs. Our own choice: less means more naps.
const LEAD_PS: u64 = 50_000_000;

/// Waits in real time while another thread runs whose clock may be less than `clock` ps.
pub(crate) fn pace(clock: u64) {
    if is_on() {
        return yields(clock);
    }
    wait_for_others(clock, All::least);
}

/// Waits in real time while `least` of the others is less than `clock` ps.
fn wait_for_others(clock: u64, least: impl Fn(&All, Option<&Thread>) -> Option<u64>) {
    let paces = |yes| current().into_iter().for_each(|thread| thread.paces.store(yes, SeqCst));
    while many() {
        let seen = CHANGES.load(Acquire);
        // Nobody has the list of threads while it sleeps.
        let least = least(&all(), current());
        let Some(least) = least.filter(|&least| least < clock) else { break };
        paces(true);
        paused(|| nap(seen, time_to(clock - least)));
    }
    paces(false);
}

/// Nothing that other threads do can come before so many ps, if that is later than `clock`; `None`: ask again. Where
/// computing takes no time, one that runs does so in no time.
pub(crate) fn settled(clock: u64) -> Option<u64> {
    let least = least();
    let all_pace = || {
        let all = all();
        all.beginning().next().is_none()
            && all.others(current()).filter(|thread| thread.runs.load(Relaxed)).all(|thread| thread.paces.load(SeqCst))
    };
    (least > clock && (least == u64::MAX || !compute_is_free() || all_pace())).then_some(least)
}

/// How long a thread computes at least until its clock has moved by `ps`.
pub(super) fn time_to(ps: u64) -> Duration {
    match compute_ppm() {
        0 => NAP,
        ppm => Duration::from_nanos((u128::from(ps) * 1000 / u128::from(ppm)) as u64).clamp(NAP, LONGEST_NAP),
    }
}

/// The calling thread is going to let others go on: none of those that run may be far behind, or it would find what
/// comes too early. Nor the one that polls MPI, and has parked the rank for that: where the host has few cores, threads
/// that do nothing but take locks would keep them from those whom that one waits for.
pub(crate) fn meets() {
    if is_on() {
        return;
    }
    let parked = |all: &All| all.parked.filter(|&until| until != u64::MAX);
    let clock = || current().map_or(0, Thread::clock);
    uncounted(|| wait_for_others(clock().saturating_sub(LEAD_PS), |all, but| all.least(but).into_iter().chain(parked(all)).min()));
}

/// Waits in real time, which is no computing of the calling thread, though it may take CPU time.
pub(crate) fn uncounted<R>(wait: impl FnOnce() -> R) -> R {
    let thread = current();
    thread.into_iter().for_each(Thread::account);
    let waited = wait();
    thread.into_iter().for_each(Thread::mark);
    waited
}

/// How often the threads' states have changed.
pub(crate) fn changes() -> u32 {
    CHANGES.load(Acquire)
}

/// A little while, or until the threads' states change.
pub(crate) fn rest() {
    rest_from(changes());
}

/// The same, since `seen`.
pub(crate) fn rest_from(seen: u32) {
    if is_on() {
        return lead();
    }
    // It does not compute, however long this goes on.
    current().into_iter().for_each(Thread::turn);
    paused(|| nap(seen, NAP));
}
