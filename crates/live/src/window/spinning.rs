//! Ranks that wait for their memory to change without a call, see [`crate::spin`]: in the windows they are ranks that
//! are parked until something is written into their memory.

use super::{LIFE_CHECK, Run};
use crate::spin::{self, Spinning};
use narrows_channel::layout::{Followed, reason, state};
use narrows_channel::{RankHeader, handover};
use narrows_units::SimTime;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
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
    /// Threads of it are stopped in their loops. If all others are asleep the simulator has its region, see
    /// [`reason::SPIN`]; else one of the others has it, and they only count as waiting.
    stopped: Option<Spinning>,
    /// When they found what they wait for.
    found: Option<SimTime>,
    /// Where it has spun before.
    loops: BTreeSet<u64>,
    /// The next look is when it has run so long in this window.
    next_look: Duration,
    /// CPU time of each thread at the last look that was in vain, ns.
    working_until: BTreeMap<i32, u64>,
}

impl Spin {
    /// The rank is going to run.
    pub fn begin(&mut self) {
        self.next_look = if self.is_known() { SOON } else { LIFE_CHECK };
        self.working_until.clear();
    }

    /// Threads of it are stopped.
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

    /// A look was in vain after the rank has run for `elapsed`: its threads do something else than wait.
    fn in_vain(&mut self, pid: u32, elapsed: Duration, quick: bool) {
        self.next_look = if quick { (2 * elapsed).min(LIFE_CHECK) } else { 2 * elapsed };
        let works = |id| Some((id, spin::thread_cpu_ns(pid, id)?));
        self.working_until.extend(spin::running_threads(pid).into_iter().filter_map(works));
    }
}

/// The place of a thread in the list of those that were followed, or a free one. One that has ended needs its place no
/// longer: it may have been cancelled, and told nobody.
fn place(header: &RankHeader, id: i32) -> Option<&Followed> {
    let place = |wanted: u32| header.followed.iter().find(|followed| followed.thread.load(Relaxed) == wanted);
    place(id as u32).or_else(|| place(0)).or_else(|| {
        let pid = header.pid.load(Relaxed);
        let ended =
            |followed: &&Followed| followed.stopped.load(Relaxed) == 0 && !spin::has_thread(pid, followed.thread.load(Relaxed) as i32);
        let followed = header.followed.iter().find(ended)?;
        followed.ns.store(0, Relaxed);
        if followed.until.swap(0, Relaxed) != 0 {
            header.let_go.fetch_sub(1, AcqRel);
        }
        Some(followed)
    })
}

/// A thread has been followed, which was no computing. The first one's mark is known; the others take it off themselves
/// when they look next, if computing costs anything.
fn note_followed(header: &RankHeader, pid: u32, id: i32, ns: u64) {
    if id == pid as i32 {
        header.cpu_mark_ns.fetch_add(ns, Relaxed);
        // It is stopped, and not in a call.
        let since = header.computes_since_ns.load(Relaxed);
        header.computes_since_ns.store(if since == 0 { 0 } else { since + ns }, Relaxed);
    } else if header.processor.compute_ppm != 0
        && let Some(followed) = place(header, id)
    {
        followed.ns.fetch_add(ns, Relaxed);
        followed.thread.store(id as u32, Release);
    }
}

/// Tells the rank which of its threads are stopped: others that run do not wait for these. False: they are too many.
fn note_stopped(header: &RankHeader, threads: &[i32], working_until: &BTreeMap<i32, u64>) -> bool {
    let all = threads.iter().all(|&id| {
        let Some(followed) = place(header, id) else { return false };
        // One that is stopped already, or has not looked since it was let go, has done nothing but wait since then.
        if followed.stopped.load(Relaxed) == 0 && followed.until.load(Relaxed) == 0 {
            followed.worked_ns.store(working_until.get(&id).copied().unwrap_or(0), Relaxed);
        }
        followed.thread.store(id as u32, Relaxed);
        followed.stopped.store(1, Release);
        true
    });
    header.stopped.store(threads.len() as u32, Release);
    if !all {
        note_let_go(header, 1);
    }
    all
}

/// Those that are stopped are going to be let go, at `until` ps.
fn note_let_go(header: &RankHeader, until: u64) {
    for followed in header.followed.iter().filter(|followed| followed.stopped.load(Relaxed) != 0) {
        let looked = followed.until.swap(until.max(1), Relaxed) == 0;
        followed.stopped.store(0, Release);
        header.let_go.fetch_add(u32::from(looked), AcqRel);
    }
    header.stopped.store(0, Release);
}

impl Run<'_> {
    /// Looks whether threads of ranks that have run for `elapsed` only wait for their memory to change. They are
    /// stopped then; a rank of which no other thread does anything counts as parked. `spent`: the time that looks in
    /// vain have taken in this window.
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
            if known.spin.stopped.as_mut().is_some_and(|stopped| !stopped.still()) {
                // Another thread of the rank has written what they wait for.
                known.spin.next_look = elapsed + SOON;
                drop(self.let_go(rank, 0));
                continue;
            }
            // A search must cost little beside the work that it interrupts.
            let steps = if quick { spin::STEPS } else { (elapsed.as_millis() as u32 * STEPS_PER_MS).min(spin::STEPS) };
            let begin = Instant::now();
            let found = Spinning::find(pid, quick.then_some(&known.spin.loops), steps, |id, ns| note_followed(header, pid, id, ns));
            let stopped = match (known.spin.stopped.take(), found) {
                (Some(mut stopped), Some(found)) => {
                    stopped.join(found);
                    Ok(stopped)
                }
                (None, Some(found)) => Ok(found),
                (Some(stopped), None) if spin::running_threads(pid).is_empty() => Ok(stopped),
                (stopped, None) => Err(stopped),
            };
            let noted = |stopped: Spinning| {
                let threads: Vec<i32> = stopped.threads().collect();
                if note_stopped(header, &threads, &known.spin.working_until) { Ok(stopped) } else { Err(None) }
            };
            let stopped = match stopped.and_then(noted) {
                Ok(stopped) => stopped,
                Err(before) => {
                    *spent += begin.elapsed();
                    known.spin.stopped = before;
                    known.spin.in_vain(pid, elapsed, quick);
                    continue;
                }
            };
            known.spin.loops.extend(stopped.loops());
            known.spin.stopped = Some(stopped);
            self.world.processes().watch(rank);
            let file = self.mapping.header();
            // It began to wait after the last look that was in vain.
            let first = known.spin.working_until.get(&(pid as i32)).copied().unwrap_or(0);
            let worked = first.saturating_sub(header.cpu_mark_ns.load(Relaxed));
            // From here on the region is the simulator's, but nobody looks at it before this window is over.
            if !handover::take(&header.state, &header.busy, &file.running, &file.bell) {
                // Another thread has the region: it goes on without these.
                known.spin.next_look = elapsed + SOON;
                continue;
            }
            let ps = u128::from(worked) * 1000 * u128::from(header.processor.compute_ppm) / 1_000_000;
            header.clock.fetch_add(ps as u64, Relaxed);
            header.deadline.store(u64::MAX, Relaxed);
            header.reason.store(reason::SPIN, Relaxed);
            // A rank that spins keeps the simulator from its core, for the 3 ms of a time slice.
            if let Some(cores) = &mut self.cores {
                cores.let_go();
            }
        }
    }

    /// Whether threads of `rank` have found at `now` what they were spinning for. They go on when it has its region, so
    /// it is to be woken.
    pub(super) fn has_found(&mut self, rank: u32, now: SimTime) -> bool {
        let known = &mut self.ranks[rank as usize];
        let Some(spinning) = &mut known.spin.stopped else { return false };
        if spinning.still() {
            return false;
        }
        if known.reason == reason::SPIN {
            known.reason = reason::POLL;
            self.header(rank).clock.fetch_max(now.as_ps(), Relaxed);
        }
        self.ranks[rank as usize].spin.found.get_or_insert(now);
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

    /// `rank` is going to get its region. Its threads that are stopped, if they have something to do: they go on when
    /// that is dropped.
    pub(super) fn let_go_if_found(&mut self, rank: u32) -> Option<Spinning> {
        let header = self.mapping.region(rank).expect("rank numbers come from the mapping").header();
        if header.state.load(Acquire) == state::TAKEN {
            header.resumed.store(1, Release);
            header.wants_at.store(0, Relaxed);
        }
        let spin = &mut self.ranks[rank as usize].spin;
        let found = spin.found.take();
        let still = found.is_none() && spin.stopped.as_mut().is_none_or(Spinning::still);
        let until = found.unwrap_or(self.now).as_ps();
        if still { None } else { self.let_go(rank, until) }
    }

    /// The threads of `rank` that are stopped: they go on when that is dropped, at `until` ps.
    fn let_go(&mut self, rank: u32, until: u64) -> Option<Spinning> {
        let stopped = self.ranks[rank as usize].spin.stopped.take()?;
        self.world.processes().unwatch(rank);
        note_let_go(self.header(rank), until);
        Some(stopped)
    }

    /// Ranks whose region was taken get it back in time for those of their threads that want it.
    pub(super) fn look_who_comes_back(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            let header = self.header(rank);
            let wants_at = header.wants_at.load(Acquire);
            if wants_at != 0 && header.state.load(Acquire) == state::TAKEN && !self.ranks[rank as usize].running {
                let known = &mut self.ranks[rank as usize];
                self.deadlines.remove(&(known.deadline, rank));
                known.deadline = wants_at.max(self.now.as_ps());
                self.deadlines.insert((known.deadline, rank));
            }
        }
    }

    /// A rank spins, and has threads that are asleep.
    pub(super) fn sleepers(&self) -> bool {
        self.ranks.iter().any(|rank| match (&rank.spin.stopped, rank.process) {
            (Some(spinning), Some(pid)) => spinning.others(pid) > 0,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_channel::{Mapping, Settings};

    #[test]
    fn a_thread_that_waits_again_has_worked_until_its_first_wait() {
        let (mapping, _file) = Mapping::create(1, Settings::default()).unwrap();
        let region = mapping.region(0).unwrap();
        let header = region.header();
        let seen = || {
            let thread = header.followed.iter().find(|followed| followed.thread.load(Relaxed) == 5).unwrap();
            (thread.worked_ns.load(Relaxed), thread.until.load(Relaxed), header.stopped.load(Relaxed), header.let_go.load(Relaxed))
        };
        assert!(note_stopped(header, &[5], &BTreeMap::from([(5, 100)])));
        assert_eq!(seen(), (100, 0, 1, 0));
        // Another thread is found to wait in a later window.
        assert!(note_stopped(header, &[5, 6], &BTreeMap::from([(6, 50)])));
        assert_eq!(seen(), (100, 0, 2, 0));
        note_let_go(header, 7000);
        assert_eq!(seen(), (100, 7000, 0, 2));
        // It waits again before it has called anybody.
        assert!(note_stopped(header, &[5], &BTreeMap::from([(5, 300)])));
        note_let_go(header, 9000);
        assert_eq!(seen(), (100, 9000, 0, 2));
    }

    #[test]
    fn threads_that_have_ended_leave_their_places() {
        let (mapping, _file) = Mapping::create(1, Settings::default()).unwrap();
        let region = mapping.region(0).unwrap();
        let header = region.header();
        header.pid.store(std::process::id(), Relaxed);
        let is_there = std::process::id() as i32;
        assert!(note_stopped(header, &[is_there], &BTreeMap::new()));
        for _ in 0..2 * header.followed.len() {
            // SAFETY: no arguments.
            let ended = std::thread::spawn(|| unsafe { libc::gettid() }).join().unwrap();
            assert!(note_stopped(header, &[is_there, ended], &BTreeMap::new()), "there is no place left");
            note_let_go(header, 7000);
        }
        let known = |id: i32| header.followed.iter().any(|followed| followed.thread.load(Relaxed) == id as u32);
        assert!(known(is_there));
        let waiting = header.followed.iter().filter(|followed| followed.until.load(Relaxed) != 0).count();
        assert_eq!(header.let_go.load(Relaxed) as usize, waiting);
    }

    #[test]
    fn more_threads_than_places_are_let_go() {
        let (mapping, _file) = Mapping::create(1, Settings::default()).unwrap();
        let region = mapping.region(0).unwrap();
        let many: Vec<i32> = (1..=region.header().followed.len() as i32 + 1).collect();
        assert!(!note_stopped(region.header(), &many, &BTreeMap::new()));
        assert_eq!(region.header().stopped.load(Relaxed), 0);
    }
}
