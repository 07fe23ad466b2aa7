//! Looks at the processes in the middle of a run, and what is said of a run that goes wrong.

use super::Run;
use crate::processes::{self, End, Watched};
use crate::report::Failure;
use narrows_channel::layout::{EPOCH_PS, state};
use narrows_mpicalls::CALLS;
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
        let mut dead = Vec::new();
        for rank in 0..self.ranks.len() as u32 {
            if self.ranks[rank as usize].watched.is_none() {
                let pid = self.header(rank).pid.load(Acquire);
                if pid == 0 {
                    continue;
                }
                self.ranks[rank as usize].watched = Some(Watched::new(pid));
                self.world.memory.set_pid(rank, pid);
            }
            let ended = self.ranks[rank as usize].watched.as_ref().and_then(Watched::ended);
            // A rank that has finalized may go, but a code other than zero makes its launcher kill the others.
            if let Some(end) = ended
                && (self.header(rank).finalized.load(Acquire) == 0 || self.header(rank).exit_status.load(Acquire) > 1)
            {
                dead.push((self.innocence(rank, end), rank, end));
            }
        }
        // Launchers kill the other ranks at once: name the one that began.
        if let Some(&(_, rank, end)) = dead.iter().min_by_key(|&&(innocence, rank, _)| (innocence, rank)) {
            return Err(self.death(rank, end));
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            return Ok(Some(processes::shell_code(status)));
        }
        Ok(None)
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

    /// How unlikely it is that this death was the first: a rank that aborted or crashed is guilty, one that a
    /// launcher could have killed less so, one that was asleep when it was killed least.
    pub(super) fn innocence(&self, rank: u32, end: End) -> u32 {
        let header = self.header(rank);
        let killed = matches!(end, End::Signal(libc::SIGTERM | libc::SIGKILL));
        let asleep = header.state.load(Acquire) == state::PARKED;
        let left = header.finalized.load(Acquire) != 0;
        if left || header.abort_code.load(Acquire) != 0 { 0 } else { 1 + u32::from(killed) + 2 * u32::from(asleep) }
    }

    pub(super) fn death(&self, rank: u32, end: End) -> Failure {
        let header = self.header(rank);
        let said = header.exit_status.load(Acquire);
        let aborted = header.abort_code.load(Acquire);
        let program = self.mapping.header().settings.portals_program != 0;
        let (before, after) = if program { ("", "") } else { (" before MPI_Finalize", " after MPI_Finalize") };
        let (how, code) = match end {
            _ if aborted != 0 => {
                let code = aborted.wrapping_sub(1) as i32;
                (format!("{} with code {code}", if program { "had the launcher end the job" } else { "called MPI_Abort" }), code & 0xff)
            }
            _ if header.finalized.load(Acquire) != 0 => {
                let code = said.saturating_sub(1) as i32;
                (format!("exited with code {code}{after}"), code)
            }
            End::Signal(signal) => (format!("was killed by {}", processes::signal_name(signal)), i32::from(exit::SIGNAL) + signal),
            End::Code(code) => (format!("exited with code {code}{before}"), code),
            End::Unknown if said != 0 => (format!("exited with code {}{before}", said - 1), said as i32 - 1),
            End::Unknown => ("died".to_owned(), 1),
        };
        let call = match header.call.load(Acquire) {
            0 => match header.last_call.load(Acquire).checked_sub(1).and_then(|id| CALLS.get(id as usize)) {
                Some(call) => format!(", outside MPI after {}", call.name),
                None if program => String::new(),
                None => String::from(", before any MPI call"),
            },
            _ => format!(", in {}", self.call(rank)),
        };
        let when = header.clock.load(Relaxed);
        let mut message = format!("{} {how}{call}, at simulated time {}", self.name(rank), self.elapsed(SimTime(when)));
        let opened = (0..self.ranks.len() as u32).any(|rank| self.header(rank).endpoint.load(Acquire) != 0);
        if call.contains("MPI_Init") && !opened && end != End::Signal(libc::SIGBUS) {
            message += "; no rank has opened the libfabric provider `narrows`: the messages of the MPI library above say why, \
                        FI_LOG_LEVEL=warn makes libfabric say more";
        }
        if end == End::Signal(libc::SIGBUS)
            && let Some((left, whole)) = processes::shared_memory_full()
        {
            message += &format!(
                "; /dev/shm is full ({} KiB of {} KiB are left), and MPI libraries put memory there: delete what was left there, or make it \
                 larger (mount -o remount,size=4G /dev/shm; docker run --shm-size=4g)",
                left / 1024,
                whole / 1024
            );
        }
        // Zero is what shmem_global_exit(0) and its like ask for.
        let wanted = program && aborted != 0;
        Failure { message, exit_code: if code == 0 && !wanted { 1 } else { code } }
    }

    pub(super) fn check_world(&mut self) -> Result<(), Failure> {
        if let Some((rank, error)) = self.world.error.take() {
            return Err(self.failure(1, format!("the NIC refused a command of {}: {error}", self.name(rank))));
        }
        let Some(error) = self.world.memory.error.take() else { return Ok(()) };
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

    pub(super) fn deadlock(&self) -> Failure {
        const SHOWN: usize = 32;
        let mut message = String::from("deadlock: every rank waits and nothing is in flight\n");
        for rank in 0..(self.ranks.len() as u32).min(SHOWN as u32) {
            let spins = if self.ranks[rank as usize].spin.is_stopped() { ", waits for its memory to change" } else { "" };
            message += &format!("  {}: {}{spins}\n", self.name(rank), self.call(rank));
        }
        if self.ranks.len() > SHOWN {
            message += &format!("  ... and {} more ranks\n", self.ranks.len() - SHOWN);
        }
        let held = self.world.nics().held();
        if held > 0 {
            message += &format!("  {held} messages are refused by their receivers for lack of room for unexpected messages\n");
        }
        message += &format!("  at simulated time {}", self.elapsed(self.world.now()));
        Failure { message, exit_code: exit::NO.into() }
    }

    pub(super) fn warn_busy(&mut self) {
        for rank in 0..self.ranks.len() as u32 {
            if self.header(rank).state.load(Acquire) == state::RUNNING && !self.ranks[rank as usize].warned {
                self.ranks[rank as usize].warned = true;
                warn!(
                    "{} has been running for {} s without waiting in an MPI call; the others wait for it",
                    self.name(rank),
                    BUSY_WARNING.as_secs()
                );
            }
        }
    }
}
