//! Ranks that wait for their memory to change without a call, see [`crate::spin`]: in the windows they are ranks that
//! are parked until something is written into their memory.

use super::{LIFE_CHECK, Run};
use crate::spin::{self, Spinning};
use narrows_channel::layout::{reason, state};
use narrows_channel::{RankHeader, handover};
use narrows_units::SimTime;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// How long a rank runs before it is looked at that has spun before: whether it is in the same loop again. Our own
/// choice: one look at a loop costs some 0.1 ms, the search for one may take 100 ms.
pub(super) const SOON: Duration = Duration::from_micros(200);

/// Instructions that a rank is followed for, per ms that it has run. Our own choice: 2 % of that time, on a busy host
/// 15 %.
const STEPS_PER_MS: u32 = 3;
/// All looks in vain in one window take at most this, or this share of the time that the ranks have run; then the
/// others' turn comes later.
const MOST: (Duration, u32) = (Duration::from_millis(1), 32);

/// What is known of a rank that may spin.
#[derive(Debug, Default)]
pub(super) struct Spin {
    /// It is stopped in its loop, or about to be let go.
    stopped: Option<Spinning>,
    /// Where it has spun before.
    loops: BTreeSet<u64>,
    /// The next look is when it has run so long in this window.
    next_look: Duration,
    /// CPU time at the last look that was in vain, ns.
    working_until: u64,
}

impl Spin {
    /// The rank is going to run.
    pub fn begin(&mut self) {
        self.next_look = if self.is_known() { SOON } else { LIFE_CHECK };
        self.working_until = 0;
    }

    /// It is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// It should be looked at often.
    pub fn is_known(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Lets the process go on, if it was stopped. It may have been killed.
    pub fn release(&mut self) {
        self.stopped = None;
    }
}

/// A thread has been followed, which was no computing. The first one's mark is known; the others take it off themselves
/// when they look next.
fn note_followed(header: &RankHeader, pid: u32, id: i32, ns: u64) {
    if id == pid as i32 {
        header.cpu_mark_ns.fetch_add(ns, Relaxed);
        return;
    }
    let place = |wanted: u32| header.followed.iter().find(|followed| followed.thread.load(Relaxed) == wanted);
    if let Some(followed) = place(id as u32).or_else(|| place(0)) {
        followed.ns.fetch_add(ns, Relaxed);
        followed.thread.store(id as u32, Release);
    }
}

impl Run<'_> {
    /// Looks whether ranks that have run for `elapsed` only wait for their memory to change. They are stopped then, and
    /// count as parked. `spent`: the time that looks in vain have taken in this window.
    pub(super) fn look_for_spinning(&mut self, elapsed: Duration, spent: &mut Duration) {
        for at in 0..self.running.len() {
            if *spent > MOST.0.max(elapsed / MOST.1) {
                break;
            }
            let rank = self.running[at];
            let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
            let known = &mut self.ranks[rank as usize];
            let (Some(pid), state::RUNNING) = (known.process, header.state.load(Acquire)) else { continue };
            if elapsed < known.spin.next_look {
                continue;
            }
            let quick = elapsed < LIFE_CHECK;
            // A search must cost little beside the work that it interrupts.
            let steps = if quick { spin::STEPS } else { (elapsed.as_millis() as u32 * STEPS_PER_MS).min(spin::STEPS) };
            let begin = Instant::now();
            let found = Spinning::find(pid, quick.then_some(&known.spin.loops), steps, |id, ns| note_followed(header, pid, id, ns));
            // Only now it cannot park any more.
            let Some(spinning) = found.filter(|_| header.state.load(Acquire) == state::RUNNING) else {
                *spent += begin.elapsed();
                known.spin.next_look = if quick { (2 * elapsed).min(LIFE_CHECK) } else { 2 * elapsed };
                known.spin.working_until = spin::cpu_ns(pid).unwrap_or(0);
                continue;
            };
            // It began to wait after the last look that was in vain.
            let worked = known.spin.working_until.saturating_sub(header.cpu_mark_ns.load(Relaxed));
            let ps = u128::from(worked) * 1000 * u128::from(self.mapping.header().settings.compute_ppm) / 1_000_000;
            header.clock.fetch_add(ps as u64, Relaxed);
            header.deadline.store(u64::MAX, Relaxed);
            header.reason.store(reason::SPIN, Relaxed);
            known.spin.loops.extend(spinning.loops());
            known.spin.stopped = Some(spinning);
            self.world.processes().watch(rank);
            // A rank that spins keeps the simulator from its core, for the 3 ms of a time slice.
            if let Some(cores) = &mut self.cores {
                cores.let_go();
            }
            handover::give(&header.state, &self.mapping.header().running, &self.mapping.header().bell, state::PARKED);
        }
    }

    /// Whether `rank` has found at `now` what it was spinning for. It is to be woken then.
    pub(super) fn has_found(&mut self, rank: u32, now: SimTime) -> bool {
        let known = &mut self.ranks[rank as usize];
        let (Some(spinning), reason::SPIN) = (&mut known.spin.stopped, known.reason) else { return false };
        if spinning.still() {
            return false;
        }
        known.reason = reason::POLL;
        self.header(rank).clock.fetch_max(now.as_ps(), Relaxed);
        true
    }

    /// Spinning ranks that have found something at `now`, whoever has changed their memory.
    pub(super) fn any_found(&mut self, now: SimTime) -> Vec<u32> {
        (0..self.ranks.len() as u32).filter(|&rank| self.has_found(rank, now)).collect()
    }

    /// Ranks that share memory with those that have just run may have found something there. It was written before
    /// their clocks.
    pub(super) fn look_at_shared_memory(&mut self) {
        let sharing = |run: &Self, rank: u32| run.header(rank).shares.load(Relaxed) != 0;
        for rank in 0..self.ranks.len() as u32 {
            if !self.ranks[rank as usize].spin.is_stopped() || !sharing(self, rank) {
                continue;
            }
            let node = self.header(rank).node;
            let others = self.running.iter().filter(|&&other| other != rank && self.header(other).node == node && sharing(self, other));
            if let Some(latest) = others.map(|&other| self.header(other).clock.load(Relaxed)).max()
                && self.has_found(rank, SimTime(latest))
            {
                self.leftover.push(rank);
            }
        }
    }

    /// The process of `rank`, which is going to get its region, if it is stopped: it goes on when that is dropped.
    pub(super) fn let_go(&mut self, rank: u32) -> Option<Spinning> {
        let spinning = self.ranks[rank as usize].spin.stopped.take()?;
        self.world.processes().unwatch(rank);
        self.header(rank).resumed.store(1, Release);
        Some(spinning)
    }

    /// A rank spins, and has threads that are asleep.
    pub(super) fn sleepers(&self) -> bool {
        self.ranks.iter().any(|rank| match (&rank.spin.stopped, rank.process) {
            (Some(spinning), Some(pid)) => spinning.others(pid) > 0,
            _ => false,
        })
    }
}
