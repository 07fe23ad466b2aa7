//! Nothing is due any more: the end, a deadlock, or something that the simulation does not know of.

use super::looks::BUSY_WARNING;
use super::{LIFE_CHECK, Run};
use crate::processes;
use crate::report::Failure;
use narrows_channel::handover;
use narrows_channel::layout::{mode, reason};
use narrows_output::{say, warn};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often in a row all ranks are woken for nothing before that is a deadlock. An MPI library may need many passes of
/// its progress engine from one message to the next: Open MPI was seen to need 30, which are six rounds.
const SPURIOUS_ROUNDS: u32 = 64;
/// How long a deadlock is doubted where ranks have threads that may call, and neither compute nor wait for the
/// simulation: what they do in the meantime takes real time. Our own choice; programs were seen to sleep a second.
const THREAD_PATIENCE: Duration = Duration::from_secs(5);

impl Run<'_> {
    /// No rank has anything to wait for. All done: `false`. Else every rank that waits is woken
    /// once for nothing, in case its MPI library finds work of its own; [`SPURIOUS_ROUNDS`] in a row without a
    /// new command or MPI call are a deadlock.
    pub(super) fn nothing_due(&mut self) -> Result<bool, Failure> {
        if self.ranks.iter().all(|rank| rank.reason == reason::FINALIZE) {
            return Ok(false);
        }
        let found = self.any_found(self.now);
        if !found.is_empty() {
            found.into_iter().for_each(|rank| self.make_due(rank));
            return Ok(true);
        }
        let before = std::mem::replace(&mut self.commands_seen, 0);
        let calls = (0..self.ranks.len() as u32).map(|rank| self.header(rank).calls.load(Relaxed)).sum();
        let calls_before = std::mem::replace(&mut self.calls_seen, calls);
        self.spurious_rounds = if before == 0 && calls_before == calls { self.spurious_rounds + 1 } else { 1 };
        if self.spurious_rounds > SPURIOUS_ROUNDS && self.are_servers() {
            return Ok(false);
        }
        if self.spurious_rounds > SPURIOUS_ROUNDS && self.any_at_files() {
            self.await_files()?;
            return Ok(true);
        }
        if self.spurious_rounds > SPURIOUS_ROUNDS && !self.await_interrupt()? {
            return Err(self.deadlock());
        }
        for rank in 0..self.ranks.len() as u32 {
            if !self.ranks[rank as usize].sleeps_through() {
                self.make_due(rank);
            }
        }
        Ok(true)
    }

    /// Ranks with simulated sockets that wait there, if all others have ended: nobody is left who could call them.
    fn servers(&mut self) -> Vec<u32> {
        let over = |rank: &super::RankState| rank.gone || rank.reason == reason::FINALIZE;
        let Some(net) = &self.world.processes().net else { return Vec::new() };
        let serves = |rank| net.latest(rank).is_some();
        let all = (0u32..).zip(&self.ranks);
        let (over, left): (Vec<_>, Vec<_>) = all.partition(|(_, rank)| over(rank));
        let wait = left.iter().all(|&(rank, _)| self.files.waits(rank) && serves(rank));
        if over.is_empty() || !wait { Vec::new() } else { left.into_iter().map(|(rank, _)| rank).collect() }
    }

    /// Only servers are left: they are ended.
    fn are_servers(&mut self) -> bool {
        let left = self.servers();
        if left.is_empty() {
            return false;
        }
        let names: Vec<String> = left.iter().map(|&rank| self.name(rank)).collect();
        say!("all others have ended, and nobody calls any more: {} ended too", names.join(", "));
        left.iter().for_each(|&rank| self.ranks[rank as usize].gone = true);
        self.servers = left;
        true
    }

    /// The same for servers that look again and again: whether they have done so, and nothing else, for
    /// [`SPURIOUS_ROUNDS`] windows.
    pub(super) fn only_servers_look(&mut self) -> bool {
        let idle = self.world.processes().net.is_some() && self.world.next_time().is_none() && !self.servers().is_empty();
        self.idle_rounds = if idle { self.idle_rounds + 1 } else { 0 };
        self.idle_rounds > SPURIOUS_ROUNDS && self.are_servers()
    }

    /// All but the servers have ended.
    pub(super) fn only_servers_are_left(&self) -> bool {
        let ended = |rank: &super::RankState| rank.process.is_none_or(|pid| self.watch.end(pid).is_some());
        let is_server = |rank: u32| self.servers.contains(&rank);
        !self.servers.is_empty() && (0u32..).zip(&self.ranks).all(|(number, rank)| is_server(number) || ended(rank))
    }

    /// Ranks in which a thread has ended all waiting, or wants to do something while another one waits, go on at once;
    /// whether there are new ones.
    pub(super) fn heed_interrupts(&mut self) -> bool {
        let interrupts = self.mapping.header().interrupts.load(Acquire);
        if interrupts == self.interrupts {
            return false;
        }
        self.interrupts = interrupts;
        let interrupted = |&rank: &u32| {
            let header = self.header(rank);
            header.interrupted.load(Acquire) != 0 || header.wanted.load(Acquire) != 0
        };
        let ranks: Vec<u32> = (0..self.ranks.len() as u32).filter(interrupted).collect();
        self.leftover.extend(ranks);
        self.look_who_comes_back();
        true
    }

    /// Nothing happens any more, unless a thread that the simulation does not wait for makes it: whether one has. One
    /// that computes may do so in the end.
    fn await_interrupt(&mut self) -> Result<bool, Failure> {
        let threads = |run: &Self, rank: u32| match run.mode(rank) {
            mode::PORTALS => run.ranks[rank as usize].process.is_some_and(|pid| processes::threads(pid) > 1),
            _ => run.header(rank).running.load(Relaxed) != 0,
        };
        let all = 0..self.ranks.len() as u32;
        let (begun, mut since) = (Instant::now(), Instant::now());
        while since.elapsed() < THREAD_PATIENCE && (self.sleepers() || all.clone().any(|rank| threads(self, rank))) {
            let computing = all.clone().find(|&rank| self.ranks[rank as usize].process.is_some_and(processes::computes));
            if let Some(rank) = computing {
                since = Instant::now();
                if begun.elapsed() > BUSY_WARNING && !std::mem::replace(&mut self.ranks[rank as usize].warned, true) {
                    warn!(
                        "every rank waits in an MPI call, and a thread of {} has computed for {} s: if it never calls, this is a deadlock",
                        self.name(rank),
                        BUSY_WARNING.as_secs()
                    );
                }
            }
            let bell = &self.mapping.header().bell;
            let rung = bell.load(Acquire);
            let found = self.any_found(self.now);
            self.leftover.extend(&found);
            if self.heed_interrupts() || !found.is_empty() {
                self.spurious_rounds = 0;
                return Ok(true);
            }
            handover::await_ring(bell, rung, Some(LIFE_CHECK));
            self.must_go_on()?;
        }
        Ok(false)
    }
}
