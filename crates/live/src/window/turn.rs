//! One window: events up to the first that a rank must know of, and one lookahead on.

use super::storage::Access;
use super::{Failure, LONGEST_QUIET, Run};
use narrows_channel::layout::mode;
use narrows_units::SimTime;
use std::sync::atomic::Ordering::Relaxed;

impl Run<'_> {
    /// How long nothing happens if the rank that is due, alone, gives no command: looks at the clock need not bring it
    /// back here.
    pub(super) fn quiet_until(&mut self, horizon: SimTime) -> SimTime {
        match self.due[..] {
            // What it stores into memory that others look at is no command.
            [rank] if self.apart.is_empty() && self.mode(rank) != mode::PORTALS && self.header(rank).shares.load(Relaxed) == 0 => {
                let deadline = self.deadlines.first().map_or(SimTime::MAX, |&(time, _)| SimTime(time));
                self.world.quiet_until(deadline.min(horizon + LONGEST_QUIET)).max(horizon)
            }
            _ => horizon,
        }
    }

    /// When something happens next, or a rank wants to go on.
    pub(super) fn next_time(&mut self) -> SimTime {
        let deadline = self.deadlines.first().map_or(SimTime::MAX, |&(time, _)| SimTime(time));
        self.world.next_time().unwrap_or(SimTime::MAX).min(deadline)
    }

    pub(super) fn make_due(&mut self, rank: u32) {
        // One that computes takes what has come when it parks.
        if !self.is_due[rank as usize] && !self.ranks[rank as usize].running {
            self.is_due[rank as usize] = true;
            self.due.push(rank);
            self.world.processes().runs(rank);
        }
    }

    /// Runs events to the first wake-up and one lookahead on, or to `limit`. Returns the end of the window:
    /// everything before it has happened.
    pub(super) fn run_window(&mut self, mut limit: SimTime) -> Result<SimTime, Failure> {
        let lookahead = self.world.lookahead();
        let (mut touched, mut changed) = (std::mem::take(&mut self.touched), std::mem::take(&mut self.changed));
        for rank in std::mem::take(&mut self.leftover) {
            if !self.ranks[rank as usize].sleeps_through() && !self.ranks[rank as usize].running {
                self.make_due(rank);
                limit = limit.min(self.now + lookahead);
            }
        }
        // When a rank heard of something last, be it asleep for that.
        let mut heard = self.now;
        loop {
            let deadline = self.deadlines.first().map_or(SimTime::MAX, |&(time, _)| SimTime(time));
            let event = self.world.next_led(limit.min(deadline)).unwrap_or(SimTime::MAX);
            if event.min(deadline) >= limit {
                break;
            }
            if deadline <= event {
                if let Some(&(time, rank)) = self.deadlines.first()
                    && !self.may_come_to(time, rank)
                {
                    // That has taken real time.
                    self.must_go_on()?;
                    continue;
                }
                if let Some((time, rank)) = self.deadlines.pop_first() {
                    let reach = match self.access_of(rank, time) {
                        Some(Access::Until(end)) => {
                            self.deadlines.insert((end, rank));
                            continue;
                        }
                        // The window of those that are due ends here.
                        Some(Access::Through) if !self.due.is_empty() => {
                            self.deadlines.insert((time, rank));
                            SimTime::ZERO
                        }
                        // It has the next one to itself.
                        Some(Access::Through) => {
                            self.make_due(rank);
                            SimTime::ZERO
                        }
                        None => {
                            self.make_due(rank);
                            lookahead
                        }
                    };
                    limit = limit.min(SimTime(time) + reach);
                }
                continue;
            }
            self.world.step();
            self.world.processes().take_touched(&mut touched);
            if !touched.is_empty() {
                heard = event;
            }
            for rank in touched.drain(..) {
                if !self.ranks[rank as usize].sleeps_through() && !self.ranks[rank as usize].running {
                    self.make_due(rank);
                    limit = limit.min(event + lookahead);
                }
            }
            self.world.processes().take_changed(&mut changed);
            for rank in changed.drain(..) {
                if self.has_found(rank, event) {
                    self.make_due(rank);
                    limit = limit.min(event + lookahead);
                }
            }
            self.look_at_sockets();
            self.leaves_out_refused();
            if self.world.processes().error.is_some()
                || self.world.error().is_some()
                || self.world.undelivered().is_some()
                || self.denied().is_some()
            {
                break;
            }
        }
        (self.touched, self.changed) = (touched, changed);
        self.now = self.now.max(if limit == SimTime::MAX { heard } else { limit.saturating_sub(lookahead) });
        self.world.reach(self.now + lookahead);
        Ok(limit)
    }
}
