//! MPI calls as the program makes them: their times, the start and the end that all ranks have together, clocks and
//! sleeps.

use super::Rank;
use crate::{callers, chance, stretches, threads};
use narrows_channel::layout::{EPOCH_PS, LATEST_PS, mode, phase, reason};
use narrows_channel::record::{Ended, encode_ended, encode_fact};
use narrows_mpicalls::{ANY, Class};
use narrows_units::{ByteRate, Bytes};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The same in calls that create communicators: Open MPI was seen to need 30 passes between two messages there.
const AGREEING_PASSES: u32 = 64;
/// Searches of a blocking probe for a message of any rank that are answered at once. The message may be where no NIC
/// knows of it: MPICH keeps messages of a rank to itself in a queue in memory, takes one of them at a time, and looks
/// there between two searches. As many messages to itself a rank may have sent before it probes.
const SEARCHES_FOR_ANY: u32 = 1000;

impl Rank {
    /// What the thread has computed since the last look becomes simulated time. `call`: what ends it, see
    /// [`stretches`].
    pub(super) fn account_compute(&mut self, call: stretches::Call) {
        if !self.outside
            && let Some(thread) = threads::current()
        {
            self.advance(thread.work_until_ps(call));
        }
    }

    /// From now on work becomes simulated time at the next look.
    pub(super) fn mark_cpu(&self) {
        if let Some(thread) = threads::current() {
            thread.mark();
        }
    }

    pub(crate) fn enter(&mut self, id: u32, class: Class, peer: i64, tag: i64, place: u64) {
        self.stands = stretches::call(id, peer, tag, place);
        self.account_compute(self.stands);
        if !self.outside && threads::were_many() {
            // Threads call one after the other, and what they have computed side by side needs cores.
            self.advance(self.left_at.max(threads::floor()).saturating_sub(self.clock));
        }
        threads::activity();
        if let Some(thread) = threads::current() {
            thread.in_call.store(true, Relaxed);
        }
        let header = self.header();
        header.compute_ps.fetch_add(self.clock - self.left_at.min(self.clock), Relaxed);
        // The call in which a rank ended the job stays the last one that is told of: it goes on until the launcher
        // kills it.
        if header.abort_code.load(Relaxed) == 0 {
            header.call.store(id + 1, Relaxed);
            header.entered.store(self.clock, Relaxed);
            header.last_call.store(id + 1, Relaxed);
            header.peer.store(peer as u64, Relaxed);
            header.tag.store(tag as u64, Relaxed);
        }
        header.calls.store(header.calls.load(Relaxed) + 1, Relaxed);
        if class == Class::Blocking {
            header.blocking_calls.store(header.blocking_calls.load(Relaxed) + 1, Relaxed);
        }
        self.class = Some(class);
        self.no_idle_polls();
        self.empty_polls = 0;
        self.looked_in_vain = false;
        if class != Class::Polling {
            self.idle_since = self.clock;
        }
        self.entered_at = self.clock;
        self.waited_at_entry = header.wait_ps.load(Relaxed);
    }

    /// The call that was entered returns to this address.
    pub(crate) fn calls_from(&mut self, site: u64) {
        self.site = site;
    }

    /// The call that was entered is a blocking probe for a message of `peer`.
    pub(crate) fn probes(&mut self, peer: i64) {
        if callers::beside_others() {
            // It polls: a search that waits would keep the library's locks.
            self.class = Some(Class::Polling);
            self.idle_since = self.clock;
            return;
        }
        self.probes = Some(if peer == ANY { SEARCHES_FOR_ANY } else { 0 });
    }

    /// The call that was entered creates a communicator; `later`: it only starts to.
    pub(crate) fn agrees(&mut self, later: bool) {
        self.passes = AGREEING_PASSES;
        if later {
            self.usual_passes = AGREEING_PASSES;
        }
    }

    /// The call that was entered may send to the rank itself on a way of the MPI library's own, and its engine comes to
    /// the network first in each pass.
    pub(crate) fn may_talk_to_itself(&mut self, yes: bool) {
        self.talks_to_itself = yes;
        self.own_queue = None;
    }

    pub(crate) fn leave(&mut self) {
        self.probes = None;
        self.talks_to_itself = false;
        self.passes = self.usual_passes;
        let header = self.header();
        let waited = header.wait_ps.load(Relaxed) - self.waited_at_entry;
        let inside = (self.clock - self.entered_at.min(self.clock)).saturating_sub(waited);
        header.mpi_ps.fetch_add(inside, Relaxed);
        self.tell_call();
        if header.abort_code.load(Relaxed) == 0 {
            header.call.store(0, Relaxed);
        }
        self.class = None;
        self.no_idle_polls();
        self.left_at = self.clock;
        if let Some(thread) = threads::current() {
            thread.in_call.store(false, Relaxed);
        }
        if let Some(thread) = threads::current().filter(|_| !threads::compute_is_free()) {
            thread.begin_stretch(self.stands);
        }
        self.mark_cpu();
        if let Some(thread) = threads::current() {
            thread.computes((!self.outside).then_some(self.clock));
        }
    }

    /// Says when the call was, if somebody wants to know.
    fn tell_call(&mut self) {
        let header = self.header();
        let call = header.call.load(Relaxed);
        if self.settings.calls == 0 || self.outside || call == 0 || header.abort_code.load(Relaxed) != 0 {
            return;
        }
        let ended = Ended {
            call: call - 1,
            began: self.entered_at.min(self.clock),
            waited: header.wait_ps.load(Relaxed) - self.waited_at_entry,
            peer: header.peer.load(Relaxed),
            tag: header.tag.load(Relaxed),
            site: self.site,
        };
        self.append(|writer, clock| encode_ended(writer, clock, &ended));
    }

    /// Says what a check wants to know of the program's calls.
    pub(crate) fn tell_fact(&mut self, words: &[u64]) {
        if !self.outside {
            self.append(|writer, clock| encode_fact(writer, clock, words));
        }
    }

    /// The end of MPI_Init: all ranks start together at simulated time zero.
    pub(crate) fn start_together(&mut self) {
        if !self.outside {
            return;
        }
        self.come_in();
        self.park(u64::MAX, reason::INIT);
        threads::start();
        self.clock = EPOCH_PS;
        self.header().clock.store(self.clock, Relaxed);
        self.left_at = self.clock;
        self.entered_at = self.clock;
        self.header().entered.store(self.clock, Relaxed);
        // What came before is ordered by the host, and no part of the run.
        self.header().wait_ps.store(0, Relaxed);
        self.waited_at_entry = 0;
        // As if it had computed.
        self.advance(self.processor.late_ps);
        self.activity();
    }

    /// The start of MPI_Finalize, or the end of a program without MPI: waits until all ranks have come as far; the rest
    /// is not simulated. True when something has come meanwhile that the MPI library should look at before the rank
    /// waits on: others may need an answer to what they have sent to a receive that nobody waits for any more.
    pub(crate) fn at_door(&mut self) -> bool {
        if self.outside {
            return false;
        }
        // What the library has to do without being told, first.
        let Some(busy_until) = self.door else {
            self.door = Some(self.clock);
            return true;
        };
        self.clock = busy_until;
        if self.region.file().phase.load(Acquire) == phase::RUN {
            self.park(u64::MAX, reason::FINALIZE);
        }
        if self.region.file().phase.load(Acquire) == phase::RUN {
            // A look costs nothing unless something is to be done.
            self.clock = self.notices.front().map_or(self.clock, |&(time, _)| time.max(self.clock));
            return true;
        }
        self.door = None;
        self.tell_call();
        self.go_out();
        false
    }

    /// PtlInit is called. If that comes before any MPI_Init this is a Portals program: all ranks start together at
    /// simulated time zero.
    pub fn program_starts(&mut self) {
        if self.first_is(mode::PORTALS) {
            self.endpoint_open();
            self.start_together();
            self.mark_cpu();
            crate::hooks::program_started();
        }
    }

    /// What comes first, MPI_Init or PtlInit, makes this process a rank, and says which time is simulated. True if this
    /// is the first.
    pub(crate) fn first_is(&mut self, mode: u32) -> bool {
        self.header().mode.compare_exchange(mode::NONE, mode, AcqRel, Acquire).is_ok()
    }

    /// It runs in simulated time from PtlInit to its end.
    pub(crate) fn is_portals_program(&self) -> bool {
        self.header().mode.load(Relaxed) == mode::PORTALS
    }

    /// PtlInit has been called so often without PtlFini.
    pub fn initialised(&mut self, times: u32) {
        self.header().initialised.store(times, Relaxed);
    }

    /// A Portals program calls the library: what it has computed since the last call takes time.
    pub fn library_entered(&mut self) {
        if self.is_portals_program() {
            chance::calls(true);
            self.account_compute(stretches::look(0));
        }
    }

    /// It goes back to the program.
    pub fn library_left(&mut self) {
        if self.is_portals_program() {
            self.mark_cpu();
        }
    }

    /// A barrier of all ranks over their launcher begins. They meet here first, in simulated time, so that nobody waits
    /// outside while another one needs the simulation to go on.
    pub(crate) fn barrier(&mut self) {
        if self.outside {
            return;
        }
        self.library_entered();
        let before = self.clock;
        self.park(u64::MAX, reason::BARRIER);
        self.clock = self.header().clock.load(Relaxed).max(before) + self.settings.launcher_barrier_ps;
        self.header().clock.store(self.clock, Relaxed);
        self.header().wait_ps.fetch_add(self.clock - before, Relaxed);
        self.activity();
        self.library_left();
    }

    /// Other ranks of the node look into memory of this one.
    pub(crate) fn shares_memory(&mut self, shares: bool) {
        self.header().shares.store(shares.into(), Relaxed);
    }

    pub(crate) fn finalized(&mut self) {
        self.header().finalized.store(1, Release);
    }

    /// The program sleeps for `ps` of simulated time.
    pub(crate) fn pause(&mut self, ps: u64) {
        if !self.outside {
            self.account_compute(stretches::SLEEP);
            self.advance(ps);
            self.let_others_get_on(0);
            self.mark_cpu();
        }
    }

    /// The MPI library reads or writes so many bytes of a file, or flushes it: the rank waits until the file system is
    /// through with them. False where that takes no simulated time.
    pub(crate) fn accesses_file(&mut self, bytes: u64) -> bool {
        if self.outside || self.class.is_none() {
            return false;
        }
        let before = self.clock;
        let end = if threads::many() {
            // Others of its threads go on meanwhile, and the rank cannot wait for all: as if it had the files alone.
            let (latency, rate) = (self.settings.storage_latency_ps, ByteRate(self.settings.storage_rate));
            before.saturating_add(latency).saturating_add(rate.time_for(Bytes(bytes)).as_ps())
        } else {
            self.header().accessed.store(bytes.saturating_add(1), Relaxed);
            self.park(before, reason::STORAGE);
            std::mem::replace(&mut self.clock, before)
        };
        self.wait_until(end.min(LATEST_PS));
        self.activity();
        true
    }

    /// The program may be in a loop that waits for its memory to change; it may look so many ps late.
    pub(crate) fn let_others_get_on(&mut self, late: u64) {
        if !self.outside && self.clock >= self.horizon().saturating_add(late) {
            self.park_with_others(self.clock, reason::PAUSE);
        }
    }
}
