//! Looks at the processes in the middle of a run, and what is said of a run that goes wrong.

use super::Run;
use crate::processes;
use crate::report::{Failure, Waiting};
use narrows_channel::layout::{COMMAND_BYTES, EPOCH_PS, LATEST_PS, MARK, mode, reason, state};
use narrows_mpicalls::CALLS;
use narrows_nic::Denied;
use narrows_output::{exit, warn};
use narrows_units::SimTime;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// A rank that runs this long without a call is named in a warning.
pub(super) const BUSY_WARNING: Duration = Duration::from_secs(20);

impl Run<'_> {
    /// Looks for signals, dead ranks, the launcher's end and the time limit. `Some(code)`: the
    /// launcher has ended and no rank was lost.
    pub(super) fn look_around(&mut self) -> Result<Option<i32>, Failure> {
        self.options.progress.set(self.elapsed(self.world.now()).as_ps(), 0);
        if let Some(signal) = processes::signal() {
            return Err(self.failure(i32::from(exit::SIGNAL) + signal, format!("interrupted by {}", processes::signal_name(signal))));
        }
        if let Some(limit) = self.options.timeout
            && self.started.elapsed() > limit
        {
            let mut message = format!("the time limit of {} s is over (--timeout)", limit.as_secs());
            for rank in 0..(self.ranks.len() as u32).min(8) {
                message += &format!("\n  {}: {}", self.name(rank), self.call(rank));
            }
            return Err(self.failure(exit::TIMEOUT.into(), message));
        }
        self.look_for_births();
        self.look_for_faults()?;
        if let Some(rank) = self.scribbler() {
            self.must_be_sane(rank)?;
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            // All that it has waited for is dead by now.
            self.launcher_end = Some(status);
            self.watch.look(Duration::ZERO);
            self.look_for_faults()?;
        }
        Ok(self.launcher_end.map(processes::shell_code))
    }

    /// As [`Run::look_around`], in the middle of a run: the launcher must not have ended.
    pub(super) fn must_go_on(&mut self) -> Result<(), Failure> {
        match self.look_around()? {
            None => Ok(()),
            Some(code) => {
                let message = format!("the launcher ended with code {code} while the ranks were running");
                Err(self.failure(if code == 0 { 1 } else { code }, message))
            }
        }
    }

    /// What a Portals program is refused by its NIC is left out: no call of one rank ends the run of all. An MPI
    /// program gives no commands itself: what is refused there is a fault of ours.
    pub(super) fn leaves_out_refused(&mut self) {
        let Some(rank) = self.world.error() else { return };
        if self.mode(rank) != mode::PORTALS {
            return;
        }
        if let Some((_, error)) = self.world.take_error()
            && !std::mem::replace(&mut self.ranks[rank as usize].refused, true)
        {
            warn!("the NIC refused a command of {}, which is left out: {error}", self.name(rank));
        }
    }

    /// An access of an MPI library that a NIC has refused: the library would wait for ever. A Portals program gets the
    /// event.
    pub(super) fn denied(&mut self) -> Option<Denied> {
        self.world.denied().filter(|denied| self.mode(denied.process.0) != mode::PORTALS)
    }

    pub(super) fn check_world(&mut self) -> Result<(), Failure> {
        self.leaves_out_refused();
        if let Some((rank, error)) = self.world.take_error() {
            return Err(self.failure(1, format!("the NIC refused a command of {}: {error}", self.name(rank))));
        }
        if let Some(undelivered) = self.world.undelivered() {
            return Err(self.failure(1, undelivered.to_string()));
        }
        if let Some(denied) = self.denied() {
            return Err(self.failure(1, denied.to_string()));
        }
        if let Some((rank, stray)) = self.world.processes().stray.take() {
            return Err(self.failure(1, format!("the message layer of {} got {stray}", self.name(rank))));
        }
        if let Some(cut) = self.world.processes().cut.take() {
            return Err(self.failure(1, cut));
        }
        let Some(error) = self.world.processes().error.take() else { return Ok(()) };
        // The memory of a rank that has just died cannot be read: say that it died.
        self.look_around()?;
        let verb = if error.write { "written" } else { "read" };
        let mut message =
            format!("{} bytes at {:#x} of {} cannot be {verb}: {}", error.length, error.address, self.name(error.rank), error.error);
        if error.error.raw_os_error() == Some(libc::EPERM) || error.error.raw_os_error() == Some(libc::ENOSYS) {
            message += "\n  process_vm_readv and process_vm_writev are forbidden here: in a container add --cap-add=SYS_PTRACE, \
                        else set /proc/sys/kernel/yama/ptrace_scope to 0 or 1";
        }
        Err(self.failure(1, message))
    }

    pub(super) fn failure(&self, exit_code: i32, message: String) -> Failure {
        Failure { message, exit_code }
    }

    /// A rank has written over the memory that it shares with the simulator.
    pub(super) fn scribbled(&self, who: &str, what: &str) -> Failure {
        let message = format!(
            "{who} has written over the memory that ranks share with the simulator ({what}): the program stores through a wild pointer; \
             run it without narrows under valgrind, or built with -fsanitize=address, to see where"
        );
        self.failure(1, message)
    }

    /// The first rank that has written over the mark in its region.
    pub(super) fn scribbler(&self) -> Option<u32> {
        (0..self.ranks.len() as u32).find(|&rank| self.header(rank).mark.load(Relaxed) != MARK)
    }

    /// What `rank`, which is parked, has left in its words can be there.
    pub(super) fn must_be_sane(&self, rank: u32) -> Result<(), Failure> {
        let header = self.header(rank);
        let (state, why) = (header.state.load(Acquire), header.reason.load(Relaxed));
        let (clock, commands) = (header.clock.load(Relaxed), header.commands.load(Relaxed));
        let mark = header.mark.load(Relaxed);
        let what = if mark != MARK {
            format!("a mark has become {mark:#x}")
        } else if state > state::APART {
            format!("its state is {state:#x}")
        } else if why > reason::STORAGE {
            format!("its reason to wait is {why:#x}")
        } else if clock > LATEST_PS {
            format!("its clock is {clock:#x}")
        } else if commands > COMMAND_BYTES as u64 {
            format!("its commands are {commands:#x} bytes")
        } else {
            return Ok(());
        };
        Err(self.scribbled(&self.name(rank), &what))
    }

    /// Ranks that run are counted in a word that all can write. `wrong_since`: when it was first seen that none runs
    /// and some are counted, of the time that the window takes.
    pub(super) fn must_be_counted(&self, elapsed: Duration, wrong_since: &mut Duration) -> Result<(), Failure> {
        let runs = |&rank: &u32| self.header(rank).state.load(Acquire) == state::RUNNING;
        let counted = self.mapping.header().running.load(Acquire);
        if counted == 0 || self.running.iter().any(runs) {
            *wrong_since = elapsed;
        }
        // One that gives its region back, or gets it, may be between two instructions for a while on a busy host.
        if elapsed - *wrong_since > BUSY_WARNING {
            return Err(self.scribbled("a rank", &format!("{counted:#x} ranks are said to run, and none does")));
        }
        Ok(())
    }

    pub(super) fn name(&self, rank: u32) -> String {
        match self.options.hosts.get(rank as usize) {
            Some(host) => format!("rank {rank} on {host}"),
            None => format!("rank {rank}"),
        }
    }

    /// The MPI call of `rank` in words: `MPI_Recv from 1 tag 7`.
    pub(super) fn call(&self, rank: u32) -> String {
        let header = self.header(rank);
        match header.call.load(Acquire).checked_sub(1) {
            Some(id) if (id as usize) < CALLS.len() => {
                narrows_mpicalls::describe(id as _, header.peer.load(Relaxed) as i64, header.tag.load(Relaxed) as i64)
            }
            _ => String::from("outside MPI calls"),
        }
    }

    pub(super) fn elapsed(&self, time: SimTime) -> SimTime {
        time.saturating_sub(SimTime(EPOCH_PS))
    }

    /// For whom a rank waits, if its calls are looked at.
    fn waits(&self, rank: u32) -> Option<Waiting> {
        let check = self.check.as_ref()?;
        let id = self.header(rank).call.load(Acquire).checked_sub(1);
        let waits = id.map(|id| check.waits(rank, id)).unwrap_or_default();
        let mut call = self.call(rank);
        if !waits.place.is_empty() {
            call += &format!(" at {}", waits.place);
        }
        Some(Waiting { rank, call, whom: waits.whom, any: waits.any })
    }

    pub(super) fn deadlock(&mut self) -> Failure {
        const SHOWN: usize = 32;
        const OF_EACH: usize = 3;
        let mut message = format!("deadlock: every rank waits and nothing is in flight{}\n", self.closed_all());
        let unmet = self.check.as_ref().map(narrows_check::Checker::unmet).unwrap_or_default();
        self.report.waits = (0..self.ranks.len() as u32).filter_map(|rank| self.waits(rank)).collect();
        // Of many those that still have something to do.
        let mut shown: Vec<u32> = (0..self.ranks.len() as u32).collect();
        shown.sort_by_key(|&rank| self.ranks[rank as usize].reason == reason::FINALIZE);
        shown.truncate(SHOWN);
        shown.sort_unstable();
        for rank in shown {
            let spins = if self.ranks[rank as usize].spin.is_stopped() { ", waits for its memory to change" } else { "" };
            let call = self.report.waits.get(rank as usize).map_or_else(|| self.call(rank), |waits| waits.call.clone());
            message += &format!("  {}: {call}{spins}\n", self.name(rank));
            let mut own = unmet.iter().filter(|(of, _)| *of == rank).map(|(_, text)| text);
            own.by_ref().take(OF_EACH).for_each(|text| message += &format!("    {text}\n"));
            let more = own.count();
            if more > 0 {
                message += &format!("    ... and {more} more\n");
            }
        }
        if self.ranks.len() > SHOWN {
            message += &format!("  ... and {} more ranks\n", self.ranks.len() - SHOWN);
        }
        let held = self.world.held();
        if held > 0 {
            message += &format!("  {held} messages are refused by their receivers for lack of room for unexpected messages\n");
        }
        message += &format!("  at simulated time {}", self.elapsed(self.world.now()));
        if self.check.is_none() {
            message += "\n  run it again with --check: it names the messages that are missing, and their lines";
        }
        Failure { message, exit_code: exit::NO.into() }
    }

    /// Some ranks have come to MPI_Init, and nobody else has for a while: who is missing.
    pub(super) fn warn_missing(&mut self) {
        const SHOWN: usize = 8;
        let call = self.begins();
        let missing: Vec<u32> = (0..self.ranks.len() as u32)
            .filter(|&rank| self.mode(rank) == mode::NONE && !self.ranks[rank as usize].gone && !self.ranks[rank as usize].warned)
            .collect();
        let mut names: Vec<String> = missing.iter().take(SHOWN).map(|&rank| self.name(rank)).collect();
        if missing.is_empty() {
            return;
        }
        if missing.len() > SHOWN {
            names.push(format!("{} more", missing.len() - SHOWN));
        }
        for rank in missing {
            self.ranks[rank as usize].warned = true;
        }
        warn!("the others have waited for {} s in {call} for {}", BUSY_WARNING.as_secs(), names.join(", "));
    }

    pub(super) fn warn_busy(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            if self.header(rank).state.load(Acquire) == state::RUNNING && !self.ranks[rank as usize].warned {
                self.ranks[rank as usize].warned = true;
                let closes = match self.header(rank).closes_all.load(Acquire) {
                    0 => "",
                    _ => "; its program has closed descriptors that it had not opened, its MPI library's too",
                };
                warn!(
                    "{} has been running for {} s without waiting in an MPI call; the others wait for it{closes}",
                    self.name(rank),
                    BUSY_WARNING.as_secs()
                );
            }
        }
    }
}
