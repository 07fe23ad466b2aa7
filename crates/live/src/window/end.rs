//! The end of a run: what the report says, and that no process is left.

use super::Run;
use crate::functions::Functions;
use crate::processes;
use crate::report::{RankTimes, Report};
use narrows_channel::futex;
use narrows_channel::layout::{EPOCH_PS, state};
use narrows_channel::record::{Request, decode_request};
use narrows_check::Checker;
use narrows_facts::Fact;
use narrows_units::SimTime;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

impl Run<'_> {
    pub(super) fn end(&mut self) {
        if let Some(mut cores) = self.cores.take() {
            cores.release();
        }
        let mut latest = 0;
        for rank in 0..self.ranks.len() as u32 {
            let (clock, _) = self.world.processes().clock(rank);
            let header = self.header(rank);
            header.clock.fetch_max(clock.as_ps(), Relaxed);
            let finished = header.clock.load(Relaxed).saturating_sub(EPOCH_PS);
            latest = latest.max(finished);
        }
        self.report.simulated = SimTime(latest);
        self.record();
        self.world.stop_recording();
    }

    /// Notes everything that the report needs of the models.
    fn record(&mut self) {
        self.report.ranks = (0..self.ranks.len() as u32)
            .map(|rank| {
                let header = self.header(rank);
                RankTimes {
                    node: header.node,
                    computing: SimTime(header.compute_ps.load(Relaxed)),
                    alike: SimTime(header.alike_ps.load(Relaxed)),
                    spread: SimTime(header.spread_ps.load(Relaxed)),
                    mpi: SimTime(header.mpi_ps.load(Relaxed)),
                    waiting: SimTime(header.wait_ps.load(Relaxed)),
                    finished: SimTime(header.clock.load(Relaxed).saturating_sub(EPOCH_PS)),
                    calls: header.calls.load(Relaxed),
                    blocking_calls: header.blocking_calls.load(Relaxed),
                }
            })
            .collect();
        if self.report.simulated == SimTime::ZERO && self.report.started {
            self.report.simulated = self.report.ranks.iter().map(|rank| rank.finished).max().unwrap_or_default();
        }
        self.report.digest = self.world.digest();
        let decided = |rank| (rank, self.header(rank).decided.load(Relaxed));
        self.report.decided = (0..self.ranks.len() as u32).map(decided).filter(|&(_, what)| what != 0).collect();
        self.report.totals = self.world.recorded();
        self.report.handlers = self.world.handlers().map(|report| report.since(SimTime(EPOCH_PS)));
        self.report.rails = self.world.recorded_by_rail();
        self.report.background = self.world.background();
        self.report.sent = self.world.processes().sent();
        self.report.passed = self.world.processes().passed();
    }

    /// Ends every process and closes the report.
    pub(super) fn finish(mut self) -> Report {
        if self.report.ranks.is_empty() {
            self.record();
            if self.report.started {
                self.tell_open_calls();
            }
        }
        self.ranks.iter_mut().for_each(|rank| rank.spin.release());
        if self.launcher_end.is_none() {
            for rank in 0..self.ranks.len() as u32 {
                self.header(rank).state.store(state::KILLED, Release);
                futex::wake(&self.header(rank).state);
            }
            for pid in self.ranks.iter().flat_map(|rank| [rank.process, rank.root]).flatten() {
                self.watch.kill(pid);
            }
            self.report.exit_code = processes::end_launcher(&mut self.child, Duration::from_millis(1500));
        }
        if !self.servers.is_empty() {
            // Their ends were ours.
            self.report.exit_code = 0;
        }
        processes::kill_descendants();
        self.take_last_facts();
        self.report.functions = self.functions.take().map(Functions::finish).unwrap_or_default();
        self.report.checked = self.check.take().map(Checker::finish).unwrap_or_default();
        self.report
    }

    /// What ranks have told since they handed over last: they may have died of it.
    fn take_last_facts(&mut self) {
        let Some(check) = &mut self.check else { return };
        for rank in 0..self.ranks.len() as u32 {
            let region = self.mapping.region(rank).expect("rank numbers come from the mapping");
            // SAFETY: no process of the program is left.
            let mut rest = unsafe { region.commands_from(self.ranks[rank as usize].taken) };
            while let Ok((time, request, length)) = decode_request(rest) {
                if let Request::Fact(words) = request
                    && let Some(fact) = Fact::decode(&words)
                {
                    check.take(rank, time.saturating_sub(EPOCH_PS), fact);
                }
                rest = &rest[length..];
            }
        }
    }
}
