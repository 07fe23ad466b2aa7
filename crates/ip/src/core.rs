//! A core: one thing after the other, and what it takes to begin when there was nothing to do.

use narrows_units::SimTime;
use std::collections::VecDeque;

/// How a core that has nothing to do learns of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It is woken, which takes CPU time.
    Woken(SimTime),
    /// It looks again after this time.
    Polling(SimTime),
    /// It looks, and sleeps from look to look, twice as long each time, from the first to the second time.
    Sleep(SimTime, SimTime),
}

impl Wake {
    /// When a core begins with what comes at `now`, if it has had nothing to do since `since`.
    pub(crate) fn at(self, since: SimTime, now: SimTime) -> SimTime {
        match self {
            Wake::Woken(time) | Wake::Polling(time) => now + time,
            Wake::Sleep(least, most) => {
                let (mut look, mut sleep) = (since + least, least);
                while look < now {
                    sleep = (sleep * 2).min(most);
                    if sleep == most {
                        let rest = (now - look).as_ps().div_ceil(most.as_ps().max(1)).max(1);
                        look += SimTime(most.as_ps().max(1)) * rest;
                    } else {
                        look += sleep;
                    }
                }
                look
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waking,
    Busy,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Core<J> {
    pub(crate) queue: VecDeque<J>,
    state: State,
    since: SimTime,
    /// CPU time so far.
    pub(crate) used: SimTime,
}

impl<J> Default for Core<J> {
    fn default() -> Self {
        Core { queue: VecDeque::new(), state: State::Idle, since: SimTime::ZERO, used: SimTime::ZERO }
    }
}

impl<J> Core<J> {
    /// There is something to do: when it begins, if it was not known already.
    pub(crate) fn wake(&mut self, now: SimTime, wake: Wake) -> Option<SimTime> {
        if self.state != State::Idle {
            return None;
        }
        self.state = State::Waking;
        if let Wake::Woken(time) = wake {
            self.used += time;
        }
        Some(wake.at(self.since, now))
    }

    /// It works until `end`.
    pub(crate) fn work(&mut self, now: SimTime, end: SimTime) {
        self.state = State::Busy;
        self.used += end - now;
    }

    /// There is nothing to do.
    pub(crate) fn rest(&mut self, now: SimTime) {
        (self.state, self.since) = (State::Idle, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_double_up_to_the_longest() {
        let us = SimTime::from_us;
        let sleep = Wake::Sleep(us(10), us(40));
        // Looks at 10, 30, 70, 110, 150 ...
        for (now, look) in [(0, 10), (10, 10), (11, 30), (30, 30), (31, 70), (71, 110), (110, 110), (111, 150), (1000, 1030)] {
            assert_eq!(sleep.at(us(0), us(now)), us(look), "what comes at {now} us");
        }
        assert_eq!(sleep.at(us(100), us(111)), us(130));
    }
}
