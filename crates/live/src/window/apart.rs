//! Ranks that compute for long while the others go on.
//!
//! A rank that is let run may do nothing but compute for milliseconds. It says how long at least, or its CPU time says
//! so: none of its commands is stamped before that. So the simulator need not wait for it: it is *set apart*, the
//! others' commands are taken, and windows go on up to that time and a lookahead. When it parks it is one of those that
//! ran in the window before. Results are the same: what a rank writes has its place in the order of events by its
//! clock, and not by when the host came to it.
//!
//! A rank that has computed for long before, from the same call on, sets itself apart when it begins to. Others are
//! set apart when they have run for [`AFTER`].

use super::{LIFE_CHECK, Run};
use crate::cores::Cores;
use crate::deputy::YIELDING;
use crate::report::Failure;
use crate::spin;
use narrows_channel::handover;
use narrows_channel::layout::{mode, state};
use narrows_units::SimTime;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Ranks are set apart that have run for so long in a window. Our own choice: a few hand-overs.
pub(super) const AFTER: Duration = Duration::from_micros(100);
/// And say that they compute at least as long, ps: less is not worth it.
const WORTH_PS: u64 = 50_000_000;
/// What a rank's CPU time may be ahead of what it counts itself, ns: for up to a millisecond it counts short stretches
/// by the clock of the wall, which NTP slows by 500 ppm at most (adjtimex(2)). Twice that.
const SLACK_NS: u64 = 1_000;
/// So many windows after one that was long another one may be.
pub(super) const LATELY: u32 = 256;
/// A rank that is expected to compute for so long sets itself apart: when ranks are bound to several cores, ps ...
const ITSELF_PS: u64 = 5_000_000;
/// ... and on all cores, where its end wakes the simulator on another one. Our own choice: a few hand-overs, both.
const ITSELF_AT_LARGE_PS: u64 = 50_000_000;
/// Looks at how far such ranks have come when the others cannot go on without them.
const LOOK: Duration = Duration::from_micros(50);

impl Run<'_> {
    /// No rank in the region apart gives a command before this; `SimTime::MAX`: there are none.
    pub(super) fn apart_until(&self) -> SimTime {
        self.apart.iter().map(|&rank| self.computes_until(rank)).min().unwrap_or(SimTime::MAX)
    }

    /// The same of one. In a call its clock is that of the last time when it began to compute, or parked.
    fn computes_until(&self, rank: u32) -> SimTime {
        let header = self.header(rank);
        let (until, since) = (header.computes_until.load(Acquire), header.computes_since_ns.load(Acquire));
        let clock = header.clock.load(Acquire);
        if until != 0 {
            return SimTime(until.max(clock));
        }
        let cpu = self.ranks[rank as usize].process.filter(|_| since != 0).and_then(|pid| spin::thread_cpu_ns(pid, pid as i32));
        // Whatever it has done meanwhile: what it was then it still was when its CPU time was read.
        if header.computes_since_ns.load(Acquire) != since {
            return SimTime(clock);
        }
        let used = cpu.unwrap_or(0).saturating_sub(since).saturating_sub(SLACK_NS);
        let ps = u128::from(used) * u128::from(header.processor.compute_ppm) / 1000;
        SimTime(clock.saturating_add(ps as u64))
    }

    /// If all ranks that still run compute, they are set apart. Whether none is left to wait for.
    pub(super) fn set_apart(&mut self) -> bool {
        if !self.report.started {
            return false;
        }
        let runs = |run: &Self, rank: u32| run.header(rank).state.load(Acquire) == state::RUNNING;
        let now = self.world.now().as_ps();
        let alone = |run: &Self, rank: u32| {
            let header = run.header(rank);
            let known = &run.ranks[rank as usize].spin;
            let computes = header.computes_since_ns.load(Acquire) != 0 || header.computes_until.load(Acquire) != 0;
            let plain =
                computes && run.mode(rank) == mode::MPI && header.shares.load(Relaxed) == 0 && !known.is_known() && !known.is_stopped();
            plain && run.computes_until(rank).as_ps() > now + WORTH_PS
        };
        let computing: Vec<u32> = self.running.iter().copied().filter(|&rank| runs(self, rank)).collect();
        // One that is alone keeps nobody waiting.
        if computing.is_empty()
            || computing.len() + self.apart.len() == self.ranks.len()
            || !computing.iter().all(|&rank| alone(self, rank))
        {
            return false;
        }
        for rank in computing {
            if handover::set_apart(&self.header(rank).state, &self.mapping.header().running) {
                self.running.retain(|&other| other != rank);
                // Others may do something before that, now.
                self.header(rank).quiet_until.store(0, Relaxed);
                self.is_apart(rank);
            }
        }
        if let Some(cores) = &mut self.cores {
            cores.release();
        }
        // One that is not running may be on its way in, handed over by the deputy, or on its way out.
        self.mapping.header().running.load(Acquire) == 0
    }

    fn is_apart(&mut self, rank: u32) {
        self.apart.push(rank);
        self.report.apart += 1;
        let known = &self.ranks[rank as usize];
        self.deadlines.remove(&(known.deadline, rank));
    }

    /// From which time on a rank that is going to be let run sets itself apart when it computes, ps. On one core nobody
    /// would run meanwhile.
    pub(super) fn apart_from(&self, rank: u32) -> u64 {
        let known = &self.ranks[rank as usize].spin;
        match &self.cores {
            Some(cores) if self.mode(rank) == mode::MPI && !known.is_known() && !known.is_stopped() => match cores {
                cores if !cores.bound() => ITSELF_AT_LARGE_PS,
                cores if cores.number() > 1 => ITSELF_PS,
                _ => u64::MAX,
            },
            _ => u64::MAX,
        }
    }

    /// Nobody runs but those apart. Those that have set themselves apart are no longer among those that ran, and those
    /// that have parked since are.
    pub(super) fn look_who_has_parked(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        running.retain(|&rank| {
            let parked = self.header(rank).state.load(Acquire) != state::APART;
            if !parked {
                self.is_apart(rank);
            }
            parked
        });
        self.running = running;
        let mut apart = std::mem::take(&mut self.apart);
        apart.retain(|&rank| {
            let runs = self.header(rank).state.load(Acquire) == state::APART;
            if !runs {
                self.running.push(rank);
            }
            runs
        });
        self.apart = apart;
    }

    /// The others have nothing to do before `next`, which is later than those apart have come: waits until one of them
    /// parks or is there. After a while all are waited for as ever, for one may wait for its memory, or be dead.
    pub(super) fn await_apart(&mut self, next: SimTime) -> Result<(), Failure> {
        let begin = Instant::now();
        let parked = |run: &Self| run.apart.iter().any(|&rank| run.header(rank).state.load(Acquire) != state::APART);
        while begin.elapsed() < LIFE_CHECK && next != SimTime::MAX {
            let rung = self.mapping.header().bell.load(Acquire);
            if parked(self) || self.apart_until() + self.world.lookahead() > next {
                return Ok(());
            }
            if self.cores.as_ref().is_some_and(Cores::bound) && begin.elapsed() < YIELDING {
                // Those on the same core run meanwhile.
                std::thread::yield_now();
                continue;
            }
            handover::await_ring(&self.mapping.header().bell, rung, Some(LOOK));
        }
        for rank in std::mem::take(&mut self.apart) {
            handover::rejoin(&self.header(rank).state, &self.mapping.header().running);
            self.running.push(rank);
        }
        self.await_parked(false)
    }
}
