//! What a rank finds when it looks, and what looking in vain costs: see the rules in [`super`].

use super::{Counter, LONGEST_NAP_PER_RANK, OUTSIDE_NAP, Rank};
use crate::{callers, own_queue, threads, turns};
use narrows_channel::futex;
use narrows_channel::layout::{COMMAND_PAYLOAD, reason};
use narrows_mpicalls::Class;
use narrows_portals::{Command, CtId, EqId, Event};
use narrows_units::SimTime;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The most that one empty poll outside a blocking call costs, ps. Our own choice: see [`super`].
const LONGEST_POLL_PS: u64 = 1_000_000;
/// So many calls in a row may take no time before each counts as a poll. Our own choice: more than programs make
/// without sending, receiving or computing anything, unless they wait.
const MOST_CALLS_WITHOUT_TIME: u32 = 1000;
/// Empty polls that may return at once, see [`idle_poll`]. Written with the rank locked.
static IDLE: AtomicU32 = AtomicU32::new(0);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// What was waited for is there.
    Done(T),
    /// The time is over, or all waiting was ended ([`crate::interrupt`]).
    Over,
    /// Another thread of the process wants the rank: give it up, wait for the next [`crate::Turn`], and wait again.
    Wanted,
}

/// An empty poll: true when it returns at once without effect. Asking counts as that poll. Lock-free, for libraries
/// that poll through several layers.
pub fn idle_poll() -> bool {
    IDLE.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Rank {
    /// The next empty poll comes to [`Rank::eq_get`].
    pub(super) fn no_idle_polls(&self) {
        IDLE.store(0, Relaxed);
    }

    fn waits(&self) -> bool {
        self.expect_soon || matches!(self.class, Some(Class::Blocking))
    }

    fn pop(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        for (index, eq) in eqs.iter().enumerate() {
            let Some(queue) = self.queues.get_mut(&eq.0) else { continue };
            let Some((time, event)) = queue.events.pop_front() else { continue };
            if queue.watched {
                queue.taken += 1;
                // Not for every event: a quarter of the queue may be told late.
                if queue.taken as usize >= queue.capacity.div_ceil(4) {
                    let count = std::mem::take(&mut queue.taken);
                    self.submit(Command::EqRelease { eq: *eq, count });
                }
            }
            self.comes_after(time);
            return Some((index, event));
        }
        None
    }

    /// The thread has found what happened at `time`, which another thread's clock has reached.
    fn comes_after(&mut self, time: u64) {
        if !self.outside {
            self.wait_until(time);
        }
    }

    /// The next event of the first of `eqs` that has one, or `None` when nothing is there *now*.
    /// An empty poll parks the rank or costs it time, see the module's documentation.
    pub fn eq_get(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        self.take_visible();
        if let Some(found) = self.pop(eqs) {
            self.activity();
            callers::news();
            return Some(found);
        }
        self.empty_poll();
        self.take_visible();
        let found = self.pop(eqs);
        if found.is_some() {
            self.activity();
        }
        found
    }

    /// What an empty poll costs. On return time may have passed and notices may be visible.
    fn empty_poll(&mut self) {
        if self.outside {
            self.outside_poll();
            return;
        }
        // Only `at_door` and `reduce_goes_on` wait there.
        if self.door.is_some() || self.offload.reducing.is_some() {
            return;
        }
        self.empty_polls += 1;
        self.looked_in_vain = true;
        if self.waits() {
            if !self.expect_soon {
                let beside = callers::beside_others();
                if !beside && idle_poll() {
                    return;
                }
                // An MPI library looks at all of its queues before it looks whether its request is complete.
                let passes = self.passes.max(self.queues.len() as u32 + 1);
                if beside && self.empty_polls <= passes {
                    return;
                }
                if self.empty_polls <= passes {
                    // The others need not come here.
                    IDLE.store(passes - self.empty_polls, Relaxed);
                    self.empty_polls = passes;
                    return;
                }
                if self.talks_to_itself {
                    let content = own_queue::content();
                    if std::mem::replace(&mut self.own_queue, content) != content {
                        self.empty_polls = 0;
                        return;
                    }
                }
            }
            if !self.expect_soon && callers::beside_others() {
                callers::looked_in_vain(None, false);
                return;
            }
            match self.notices.front() {
                Some(&(time, _)) if time <= self.news() => self.wait_until(time),
                next => self.park_with_others(next.map_or(u64::MAX, |&(time, _)| time), reason::POLL),
            }
            self.activity();
        } else {
            let cost = self.in_a_long_wait(self.processor.poll_ps);
            self.advance(cost);
            self.header().wait_ps.fetch_add(cost, Relaxed);
            if callers::beside_others() {
                callers::looked_in_vain(Some(self.clock), self.clock >= self.horizon().min(self.news()));
                return;
            }
            threads::pace(self.clock);
            if self.clock >= self.horizon().min(self.news()) {
                self.park_with_others(self.clock, reason::POLL);
            }
        }
    }

    /// Threads inside MPI wait, and the rank has come to `now`: simulated time passes for them, up to `until`. How far
    /// it has, and whether there is something to be looked at.
    /// Unless one of them is `attentive`, the network is looked at at the end only.
    pub(crate) fn passes(&mut self, now: u64, until: u64, attentive: bool) -> (u64, bool) {
        self.clock = if attentive { now } else { until };
        self.take_visible();
        match self.notices.front() {
            Some(&(time, _)) if time <= self.news().min(until) => {
                self.wait_until(time);
                return (self.clock, true);
            }
            _ if attentive && until < self.horizon().min(self.news()) => return (until, false),
            next => {
                let next = next.map_or(u64::MAX, |&(time, _)| time);
                self.park_with_others(next.min(until), reason::POLL);
            }
        }
        let seen = self.notices.len();
        self.take_visible();
        (self.clock, self.notices.len() != seen)
    }

    /// `usual` ps, or what a rank that has waited for long may take instead.
    pub(super) fn in_a_long_wait(&self, usual: u64) -> u64 {
        let waited = self.clock.saturating_sub(self.idle_since);
        usual.max((waited / 16).min(LONGEST_POLL_PS))
    }

    /// The end of MPI_Win_sync, by which programs wait for memory to change. That is a poll, also for an MPI library
    /// that does not look at its queues there (MPICH): others must get on.
    pub(crate) fn looks_at_memory(&mut self) {
        if !self.outside && self.empty_polls == 0 {
            self.empty_poll();
        }
    }

    /// The end of a call. One that has taken no time may be a poll: others must get on, for whom a loop of such calls
    /// may wait. It is one if the call blocks and has looked at the network in vain: it has found what it wanted in the
    /// memory of this process. So it is if many calls in a row have taken no time; if the program computes between
    /// them, others get on now and then. True when something has come meanwhile, at which the MPI library does not look
    /// in such calls: it should, and then this is asked again. (MPI's rule of progress. MPICH and Open MPI, which do
    /// one-sided operations over messages where there are gateways, serve nobody in an MPI_Rget of a rank's own memory
    /// and the MPI_Wait behind it.)
    pub(crate) fn may_have_polled(&mut self) -> bool {
        if self.outside || self.expect_soon || callers::beside_others() || std::mem::take(&mut self.has_looked) {
            return false;
        }
        let took_time = self.clock != self.entered_at;
        let follows_at_once = self.entered_at == self.left_at;
        self.calls_without_time = if took_time || !follows_at_once { 0 } else { self.calls_without_time.saturating_add(1) };
        self.calls_aside = if took_time { 0 } else { self.calls_aside.saturating_add(1) };
        let found_here = self.class == Some(Class::Blocking) && self.looked_in_vain && !took_time;
        let waits = self.calls_without_time > MOST_CALLS_WITHOUT_TIME;
        let ahead = self.calls_aside > MOST_CALLS_WITHOUT_TIME;
        if found_here || waits {
            self.class = Some(Class::Polling);
            self.empty_poll();
        } else if ahead {
            self.calls_aside = 0;
            if self.clock >= self.horizon() {
                self.park_with_others(self.clock, reason::POLL);
            }
        }
        if waits || ahead {
            self.take_visible();
            if self.queues.values().any(|queue| !queue.events.is_empty()) {
                self.class = Some(Class::Polling);
                self.has_looked = true;
            }
        }
        self.has_looked
    }

    /// A call that polls has looked somewhere else than at the network. False: it is one that blocks.
    pub(crate) fn polls_elsewhere(&mut self) -> bool {
        let polls = !self.outside && self.class == Some(Class::Polling);
        if polls {
            self.empty_poll();
        }
        polls
    }

    /// A call that blocks loops, and looks at nothing but memory of this process. When it looks again, ps.
    pub(crate) fn spins_elsewhere(&mut self) -> Option<u64> {
        if self.outside {
            return None;
        }
        let cost = self.in_a_long_wait(self.processor.poll_ps);
        self.advance(cost);
        self.header().wait_ps.fetch_add(cost, Relaxed);
        Some(self.clock)
    }

    fn outside_poll(&mut self) {
        let header = self.header();
        if header.mail.load(Acquire) == 0 && self.deferred.is_empty() {
            futex::wait(&header.mail, 0, Some(self.nap));
            self.nap = (self.nap * 2).min(LONGEST_NAP_PER_RANK * self.ranks()).max(OUTSIDE_NAP);
            return;
        }
        self.nap = OUTSIDE_NAP;
        self.come_in();
        self.go_out();
    }

    /// Another thread has ended all waiting ([`crate::interrupt`]).
    fn interrupted(&self) -> bool {
        self.header().interrupted.load(Acquire) != 0
    }

    /// Another thread wants the rank.
    pub(super) fn wanted(&self) -> bool {
        self.header().wanted.load(Acquire) != 0
    }

    /// From now on waiting works again.
    pub fn resume(&mut self) {
        self.header().interrupted.store(0, Release);
    }

    /// Waits for an event of `eqs` as a blocking call does, until the rank's clock is `until`.
    pub fn eq_wait(&mut self, eqs: &[EqId], until: Option<SimTime>) -> Waited<(usize, Event)> {
        self.wait_for(until, true, |rank| rank.pop(eqs).map(Waited::Done).or(rank.interrupted().then_some(Waited::Over)))
    }

    /// Events of this queue were lost since the last call, for want of room.
    pub fn eq_dropped(&mut self, eq: EqId) -> bool {
        self.queues.get_mut(&eq.0).is_some_and(|queue| std::mem::take(&mut queue.dropped))
    }

    /// The value of a counting event: (successes, failures). Changes that the program itself has asked for are in it,
    /// which may mean to wait for the NIC.
    pub fn count(&mut self, ct: CtId) -> (u64, u64) {
        self.take_visible();
        if !self.counter(ct).settled() {
            self.wait_for(None, false, |rank| rank.counter(ct).settled().then_some(Waited::Done(())));
        }
        let counter = self.counter(ct);
        self.comes_after(counter.time);
        (counter.success, counter.failure)
    }

    fn counter(&self, ct: CtId) -> Counter {
        self.counts.get(&ct.0).copied().unwrap_or_default()
    }

    /// As [`Rank::count`] in a loop of the program's own: if the value has not reached `test`,
    /// the call counts as an empty poll.
    pub fn count_poll(&mut self, ct: CtId, test: u64) -> (u64, u64) {
        let (success, failure) = self.count(ct);
        if success.saturating_add(failure) < test {
            self.empty_poll();
        }
        self.count(ct)
    }

    /// Waits until one of the counting events has successes and failures of at least its test, and says which, or until
    /// the rank's clock is `until`.
    pub fn count_wait(&mut self, tests: &[(CtId, u64)], until: Option<SimTime>) -> Waited<usize> {
        self.wait_for(until, true, |rank| {
            let reached = tests.iter().position(|&(ct, test)| {
                let counter = rank.counter(ct);
                counter.settled() && counter.reached() >= test
            });
            if let Some(index) = reached {
                rank.comes_after(rank.counter(tests[index].0).time);
            }
            reached.map(Waited::Done).or(rank.interrupted().then_some(Waited::Over))
        })
    }

    /// What waits with a time limit compares this one.
    pub fn now(&self) -> SimTime {
        SimTime(self.clock)
    }

    /// Waits for what `ready` finds. With `gives_way` also for another thread that wants the rank, see
    /// [`crate::turns`].
    fn wait_for<T>(&mut self, until: Option<SimTime>, gives_way: bool, mut ready: impl FnMut(&mut Rank) -> Option<Waited<T>>) -> Waited<T> {
        let end = until.map_or(u64::MAX, SimTime::as_ps);
        loop {
            self.take_visible();
            if let Some(found) = ready(self) {
                self.activity();
                return found;
            }
            if self.outside {
                self.outside_poll();
                if until.is_some() {
                    return Waited::Over;
                }
                continue;
            }
            match self.notices.front() {
                Some(&(time, _)) if time <= end.min(self.news()) => self.wait_until(time),
                _ if self.clock >= end => return Waited::Over,
                _ if gives_way && (self.wanted() || turns::others_must_look()) => return Waited::Wanted,
                _ => {
                    let least = if gives_way { threads::least() } else { u64::MAX };
                    if least <= self.clock {
                        // What they do may still come before this: it takes no simulated time to wait for that.
                        threads::rest();
                        continue;
                    }
                    let first = if gives_way { end.min(turns::earliest_end()) } else { end };
                    let next = self.notices.front().map_or(u64::MAX, |&(time, _)| time);
                    let why = if gives_way { reason::POLL } else { reason::REPLY };
                    self.park_with_others(first.min(least).min(next), why);
                    if first < end && self.clock >= first {
                        turns::changed();
                    }
                }
            }
        }
    }

    /// The result of a search is on its way: until `false` is said, empty polls wait for it, in
    /// any MPI call.
    pub fn expect_soon(&mut self, yes: bool) {
        self.no_idle_polls();
        self.expect_soon = yes;
    }

    /// The cost of copying `bytes` inside the process.
    pub fn charge_copy(&mut self, bytes: u64) {
        if !self.outside {
            self.advance((u128::from(bytes) * u128::from(self.processor.copy_ps_per_kib) / 1024) as u64);
        }
    }

    /// The cost of handing a completion to the MPI library.
    pub fn charge_completion(&mut self) {
        if !self.outside {
            self.advance(self.processor.completion_ps);
        }
    }

    /// Puts up to this size give their bytes to [`Rank::submit`] when they must be taken at once.
    pub fn inline_payload(&self) -> usize {
        COMMAND_PAYLOAD
    }
}
