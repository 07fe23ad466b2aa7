//! Ranks that end too early: which one was the first, what is said of it, and what is left to the launcher.

use super::{LIFE_CHECK, Run};
use crate::processes;
use crate::report::Failure;
use crate::watch::End;
use narrows_channel::handover;
use narrows_channel::layout::{mode, phase, reason, state};
use narrows_mpicalls::CALLS;
use narrows_units::SimTime;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How long a launcher that ends the job may take from one death of a rank to the next, or to its own. Open MPI 5 takes
/// 0.3 s on an idle host.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(10);
/// How long it is doubted that a launcher of which that is not known does not care.
const DOUBT: Duration = Duration::from_secs(1);
/// A program that is content with the level of threads that it was given makes more MPI calls than these. Our own
/// choice.
const CALLS_TO_COMPLAIN: u64 = 16;

/// What went wrong with a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It has ended the job: MPI_Abort, a fatal error of the MPI library, the launcher was asked to.
    Aborted(i32),
    /// Its process is another program now (execve(2)).
    Replaced,
    /// Its process ended.
    Died(End),
    /// The process that the launcher had started for it ended.
    Wrapper(End),
    /// The same before it had called MPI_Init, where others wait for it.
    Missing(End),
}

/// A code that the process has said, if the system does not say how it ended, or a launcher has killed it in its last
/// instant: it was on its way out then.
fn known(end: End, said: u32) -> End {
    match (end, said.checked_sub(1)) {
        (End::Unknown | End::Signal(libc::SIGTERM | libc::SIGKILL), Some(code)) => End::Code(code as i32),
        _ => end,
    }
}

impl Run<'_> {
    /// See [`mode`].
    pub(super) fn mode(&self, rank: u32) -> u32 {
        self.header(rank).mode.load(Acquire)
    }

    /// Ranks that are gone for good, and why that is a fault.
    pub(super) fn look_for_faults(&mut self) -> Result<(), Failure> {
        let ends = self.watch.ends();
        let ranks = 0..self.ranks.len() as u32;
        let started = self.mapping.header().phase.load(Relaxed) != phase::PROLOGUE;
        let said = |rank: u32| self.header(rank).abort_code.load(Acquire) != 0 || self.header(rank).replaced.load(Acquire) != 0;
        if started && ends == self.ends_seen && self.launcher_end.is_none() && !ranks.clone().any(said) {
            return Ok(());
        }
        self.ends_seen = ends;
        self.look_for_absent();
        match ranks.filter(|&rank| !self.is_left_to_launcher(rank)).filter_map(|rank| self.fault(rank)).next() {
            Some(fault) => Err(self.first_fault(fault)),
            None => Ok(()),
        }
    }

    /// However it ends after MPI_Finalize, the others leave MPI_Finalize meanwhile, unless the launcher ends them.
    fn is_left_to_launcher(&self, rank: u32) -> bool {
        let over = self.mapping.header().phase.load(Relaxed) == phase::EPILOGUE;
        over && self.launcher_end.is_none() && self.header(rank).finalized.load(Acquire) != 0
    }

    /// A program for Portals that has left before PtlInit and is content is not waited for.
    fn look_for_absent(&mut self) {
        let ranks = 0..self.ranks.len() as u32;
        if !ranks.clone().any(|rank| self.mode(rank) == mode::PORTALS) {
            return;
        }
        for rank in ranks {
            if !self.ranks[rank as usize].gone && self.mode(rank) == mode::NONE && self.root_end(rank) == Some(End::Code(0)) {
                let known = &mut self.ranks[rank as usize];
                known.gone = true;
                known.reason = reason::FINALIZE;
            }
        }
    }

    /// How the process ended that the launcher had started for `rank`.
    fn root_end(&self, rank: u32) -> Option<End> {
        let state = &self.ranks[rank as usize];
        let said = if state.root == state.process { &self.header(rank).exit_status } else { &self.header(rank).root_status };
        Some(known(self.watch.end(state.root?)?, said.load(Acquire)))
    }

    fn fault(&self, rank: u32) -> Option<Fault> {
        let (header, state) = (self.header(rank), &self.ranks[rank as usize]);
        // Before all that the process says of itself: it may say so, and end, at this moment.
        let root_end = self.root_end(rank);
        let end = state.process.and_then(|pid| self.watch.end(pid)).map(|end| known(end, header.exit_status.load(Acquire)));
        let aborted = header.abort_code.load(Acquire);
        if aborted != 0 {
            return Some(Fault::Aborted(aborted.wrapping_sub(1) as i32));
        }
        let finalized = header.finalized.load(Acquire) != 0;
        if header.replaced.load(Acquire) != 0 && !finalized {
            return Some(Fault::Replaced);
        }
        // What nobody knows is a fault if the launcher says so.
        let launcher_failed = self.launcher_end.is_some_and(|end| !end.success());
        if self.mode(rank) == mode::NONE {
            let others = (0..self.ranks.len() as u32).any(|other| self.mode(other) != mode::NONE);
            // Asked after that: another rank may just have called PtlInit, and this one is absent from now on.
            let portals = (0..self.ranks.len() as u32).any(|other| self.mode(other) == mode::PORTALS);
            return match root_end? {
                _ if state.gone => None,
                End::Code(0) if !others || portals => None,
                // The others may be about to say the same.
                End::Code(_) | End::Unknown if !others && !launcher_failed => None,
                end => Some(Fault::Missing(end)),
            };
        }
        let wrapped = state.root != state.process;
        match (end, root_end) {
            (Some(End::Code(0)), _) if !finalized => Some(Fault::Died(End::Code(0))),
            (Some(End::Unknown), _) if !finalized || launcher_failed => Some(Fault::Died(End::Unknown)),
            (Some(end @ (End::Signal(_) | End::Code(1..) | End::Code(..0))), _) => Some(Fault::Died(end)),
            (_, Some(end)) if wrapped && !matches!(end, End::Code(0) | End::Unknown) => Some(Fault::Wrapper(end)),
            _ => None,
        }
    }

    /// Whether the launcher is going to end the job because of `fault`, and how long that may take.
    fn patience(&self, rank: u32, fault: Fault) -> Duration {
        let launcher = self.options.launcher;
        let notices = match fault {
            Fault::Aborted(_) => true,
            Fault::Replaced => false,
            // Without MPI it depends on what the program has told its launcher.
            Fault::Died(End::Code(_)) if self.mode(rank) == mode::PORTALS && launcher.notices_deaths => return DOUBT,
            // Open MPI 4 does if others have been in MPI_Init then.
            Fault::Missing(End::Code(0)) if launcher.notices_early_failures => return DOUBT,
            Fault::Missing(End::Code(_) | End::Unknown) => launcher.notices_early_failures,
            Fault::Missing(_) => launcher.notices_early_deaths,
            Fault::Died(_) | Fault::Wrapper(_) => launcher.notices_deaths,
        };
        if notices { LAUNCHER_PATIENCE } else { Duration::ZERO }
    }

    /// A rank has ended too early: lets the launcher end the job in its own way if it is about to, and then says which
    /// was the first. Nothing is simulated any more.
    fn first_fault(&mut self, seen: Fault) -> Failure {
        self.ranks.iter_mut().for_each(|rank| rank.spin.release());
        let rank = (0..self.ranks.len() as u32).find(|&rank| self.fault(rank) == Some(seen)).unwrap_or(0);
        let mut patience = self.patience(rank, seen);
        let (mut ends, mut since) = (self.watch.ends(), Instant::now());
        while self.launcher_end.is_none() && since.elapsed() < patience && processes::signal().is_none() {
            let bell = &self.mapping.header().bell;
            let rung = bell.load(Acquire);
            self.look_for_births();
            if let Ok(Some(status)) = self.child.try_wait() {
                self.launcher_end = Some(status);
            } else if self.watch.ends() != ends {
                (ends, since, patience) = (self.watch.ends(), Instant::now(), LAUNCHER_PATIENCE);
            } else {
                handover::await_ring(bell, rung, Some(LIFE_CHECK));
            }
        }
        self.watch.look(Duration::ZERO);
        let faults = (0..self.ranks.len() as u32).filter_map(|rank| Some((rank, self.fault(rank)?)));
        let (rank, fault) = faults.min_by_key(|&(rank, fault)| self.place(rank, fault)).unwrap_or((rank, seen));
        let own = self.exit_code(rank, fault);
        // One that dies of a signal while it ends the job says none: Open MPI's and hydra do of SIGPIPE now and then.
        let exit_code = self.launcher_end.and_then(|end| end.code()).filter(|&code| code != 0).unwrap_or(own);
        // Whoever dies first of it.
        let scribbled = self.must_be_sane(self.scribbler().unwrap_or(rank)).err();
        let message = scribbled.map_or_else(|| self.describe(rank, fault), |scribbled| scribbled.message);
        Failure { message, exit_code }
    }

    /// The first fault has the least.
    fn place(&self, rank: u32, fault: Fault) -> (u32, u64) {
        let state = &self.ranks[rank as usize];
        let order = |pid: Option<u32>| pid.map_or(u64::MAX, |pid| self.watch.order(pid));
        let order = match fault {
            Fault::Wrapper(_) | Fault::Missing(_) => order(state.root),
            Fault::Aborted(_) | Fault::Died(_) | Fault::Replaced => order(state.process),
        };
        if self.watch.knows_order() {
            return (0, order);
        }
        // A rank that aborted or crashed is guilty, one that a launcher could have killed less so, one that was asleep
        // when it was killed least.
        let innocence = match fault {
            Fault::Aborted(_) | Fault::Replaced => 0,
            Fault::Died(End::Signal(libc::SIGTERM | libc::SIGKILL)) => {
                2 + 2 * u32::from(self.header(rank).state.load(Acquire) == state::PARKED)
            }
            _ => 1,
        };
        (innocence, order)
    }

    /// The exit code if the launcher has none to give.
    fn exit_code(&self, rank: u32, fault: Fault) -> i32 {
        match fault {
            // Zero is what shmem_global_exit(0) and its like ask for.
            Fault::Aborted(0) if self.mode(rank) == mode::PORTALS => 0,
            Fault::Aborted(code) => Some(code & 0xff).filter(|&code| code != 0).unwrap_or(1),
            Fault::Died(end) | Fault::Wrapper(end) | Fault::Missing(end) => match end {
                End::Code(0) | End::Unknown => 1,
                End::Code(code) => code,
                End::Signal(signal) => 128 + signal,
            },
            Fault::Replaced => 1,
        }
    }

    fn is_of_portals(&self) -> bool {
        (0..self.ranks.len() as u32).any(|rank| self.mode(rank) == mode::PORTALS)
    }

    /// The call by which a rank's program enters the simulation.
    pub(super) fn begins(&self) -> &'static str {
        if self.is_of_portals() { "PtlInit" } else { "MPI_Init" }
    }

    fn describe(&self, rank: u32, fault: Fault) -> String {
        let header = self.header(rank);
        let program = self.is_of_portals();
        let (begin, finish) = (self.begins(), if program { "PtlFini" } else { "MPI_Finalize" });
        let name = |id: u32| id.checked_sub(1).and_then(|id| CALLS.get(id as usize)).map(|call| call.name);
        let place = match (program, header.finalized.load(Acquire) != 0) {
            (true, _) => "",
            (false, true) => " after MPI_Finalize",
            (false, false) => " before MPI_Finalize",
        };
        let ended = |end: End| match end {
            End::Code(code) => format!("exited with code {code}"),
            End::Signal(signal) => format!("was killed by {}", processes::signal_name(signal)),
            End::Unknown => String::from("died"),
        };
        let how = match fault {
            Fault::Aborted(code) if program => format!("had the launcher end the job with code {code}"),
            Fault::Aborted(code) if name(header.call.load(Acquire)) == Some("MPI_Abort") => format!("called MPI_Abort with code {code}"),
            // An error code of MPICH in full says nothing to anybody.
            Fault::Aborted(code) => format!("had its MPI library end the job with code {}, because of an error that is fatal", code & 0xff),
            Fault::Replaced => format!("became another program (exec) before {finish}"),
            Fault::Missing(end) => return self.describe_missing(rank, &ended(end), begin),
            Fault::Wrapper(end) => format!("has a process above it that {}", ended(end)),
            Fault::Died(End::Signal(signal)) => {
                let after = if place.starts_with(" after") { place } else { "" };
                format!("was killed by {}{after}", processes::signal_name(signal))
            }
            Fault::Died(end) => format!("{}{place}", ended(end)),
        };
        if place.starts_with(" after") {
            return format!("{} {how}", self.name(rank));
        }
        let call = match header.call.load(Acquire) {
            0 => match name(header.last_call.load(Acquire)) {
                Some(call) => format!(", outside MPI after {call}"),
                None if program => String::new(),
                None => String::from(", before any MPI call"),
            },
            _ => format!(", in {}", self.call(rank)),
        };
        let when = header.clock.load(Relaxed);
        let mut message = format!("{} {how}{call}, at simulated time {}", self.name(rank), self.elapsed(SimTime(when)));
        let bus_error = fault == Fault::Died(End::Signal(libc::SIGBUS));
        let opened = (0..self.ranks.len() as u32).any(|rank| self.header(rank).endpoint.load(Acquire) != 0);
        if call.contains("MPI_Init") && !opened && !bus_error {
            message += "; no rank has opened the libfabric provider `narrows`: the messages of the MPI library above say why, \
                        FI_LOG_LEVEL=warn makes libfabric say more";
        }
        let killed = matches!(fault, Fault::Died(End::Signal(libc::SIGKILL | libc::SIGTERM) | End::Unknown));
        if killed {
            message += &self.closed_all();
        }
        let by_itself = matches!(fault, Fault::Aborted(_) | Fault::Died(End::Code(_)));
        if by_itself && header.threads_refused.load(Relaxed) != 0 && header.calls.load(Relaxed) <= CALLS_TO_COMPLAIN {
            message += "; it had asked for MPI_THREAD_MULTIPLE, which it was not given (see docs/limits.md): that is the likely cause";
        }
        if bus_error && let Some((left, whole)) = processes::shared_memory_full() {
            message += &format!(
                "; /dev/shm is full ({} KiB of {} KiB are left), and MPI libraries put memory there: delete what was left there, or make it \
                 larger (mount -o remount,size=4G /dev/shm; docker run --shm-size=4g)",
                left / 1024,
                whole / 1024
            );
        }
        message
    }

    /// What is to be said of a rank that has closed its launcher's descriptors: the launcher then kills all ranks.
    pub(super) fn closed_all(&self) -> String {
        let closed = (0..self.ranks.len() as u32).find(|&rank| self.header(rank).closes_all.load(Acquire) != 0);
        closed.map_or(String::new(), |rank| {
            format!(
                "; before, the program of {} has closed descriptors that it had not opened, its MPI library's too, which a launcher takes \
                 for the end of a rank: close no others than its own",
                self.name(rank)
            )
        })
    }

    /// Ranks that will never come to where others wait for them, of which `rank` was the first.
    fn describe_missing(&self, rank: u32, ended: &str, begin: &str) -> String {
        let ranks = 0..self.ranks.len() as u32;
        let missing: Vec<u32> = ranks
            .clone()
            .filter(|&other| other != rank && self.mode(other) == mode::NONE && matches!(self.root_end(other), Some(End::Code(_))))
            .collect();
        let waits = if ranks.clone().any(|rank| self.mode(rank) != mode::NONE) { ", where others wait for it" } else { "" };
        let mut message = format!("{} {ended} before {begin}{waits}", self.name(rank));
        const SHOWN: usize = 8;
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().take(SHOWN).map(u32::to_string).collect();
            let more = if missing.len() > SHOWN { format!(" and {} more", missing.len() - SHOWN) } else { String::new() };
            message += &format!("; missing there too: rank {}{more}", names.join(", "));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several ranks exit at once: the launcher kills some of them that are about to.
    #[test]
    fn who_has_said_its_code_has_exited() {
        for end in [End::Unknown, End::Signal(libc::SIGKILL), End::Signal(libc::SIGTERM)] {
            assert_eq!(known(end, 3), End::Code(2));
            assert_eq!(known(end, 1), End::Code(0));
            assert_eq!(known(end, 0), end);
        }
        assert_eq!(known(End::Signal(libc::SIGSEGV), 1), End::Signal(libc::SIGSEGV));
        assert_eq!(known(End::Code(5), 1), End::Code(5));
    }
}
