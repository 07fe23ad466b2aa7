//! More threads than cores: how long their work takes at least (docs/decisions/0007-threads.md).

/// Stretches that are over and may still matter: more are not kept. Our own choice: with fewer the bound of
/// [`Phase::floor`] is lower.
const MOST_STRETCHES: usize = 64;

/// A time in which several threads run side by side, by their clocks.
///
/// The host may run them one after the other: a thread that has ended before the next one began, with a clock beyond
/// where that one's begins, ran beside it.
pub(super) struct Phase {
    /// The clock when it began, ps, and the work of all threads until then, ps.
    start: u64,
    work: u64,
    /// The most threads that have run in it at a time.
    threads: u64,
    /// From when to when threads have run that run no longer, ps.
    over: Vec<(u64, u64)>,
}

impl Phase {
    pub const NONE: Phase = Phase { start: 0, work: 0, threads: 0, over: Vec::new() };

    /// So that nothing is allocated when there are several threads.
    pub fn reserve(&mut self) {
        self.over.reserve(MOST_STRETCHES);
    }

    /// A thread runs from now on, at `clock` ps; with it `running` threads run, the last of them at `least` ps. All
    /// threads together have computed `work` ps so far.
    pub fn starts(&mut self, clock: u64, least: u64, running: u64, work: u64) {
        self.over.retain(|&(_, to)| to > least);
        let beside = self.over.iter().filter(|&&(from, to)| from <= clock && clock < to).count() as u64;
        let together = running + beside;
        // While one that runs has not come to where others have stopped, it may have run beside them.
        let ends = self.over.is_empty() && running <= 2;
        if ends || self.threads < 2 {
            (self.start, self.work, self.threads) = (clock, work, 0);
        }
        self.threads = self.threads.max(together);
    }

    /// A thread runs no longer that has run from `from` to `to` ps.
    pub fn stops(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if self.over.len() == MOST_STRETCHES
            && let Some(first) = (0..self.over.len()).min_by_key(|&at| self.over[at].1)
        {
            self.over.swap_remove(first);
        }
        self.over.push((from, to));
    }

    /// No thread that waited for others comes before this, ps, when all have computed `work` ps: so much work on so few
    /// `cores` takes so long.
    pub fn floor(&self, work: u64, cores: u64) -> u64 {
        if self.threads <= cores { 0 } else { self.start + (work - self.work) / cores }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight threads of 4 ps each on two cores, made by one that then waits for all.
    #[test]
    fn the_order_in_which_the_host_runs_them_does_not_matter() {
        for at_once in [1, 2, 8] {
            let mut phase = Phase::NONE;
            let mut work = 0;
            for _ in 0..8 / at_once {
                for started in 0..at_once {
                    phase.starts(0, 0, 2 + started, work);
                }
                for _ in 0..at_once {
                    work += 4;
                    phase.stops(0, 4);
                }
            }
            assert_eq!(phase.floor(work, 2), 16, "{at_once} at a time");
        }
    }

    /// One of three threads begins late, and the maker goes on before.
    #[test]
    fn one_that_runs_still_has_run_beside_those_that_have_stopped() {
        let mut phase = Phase::NONE;
        (1..5).for_each(|running| phase.starts(0, 0, running, 0));
        (0..2).for_each(|_| phase.stops(0, 4));
        phase.stops(0, 0);
        phase.starts(4, 0, 2, 8);
        assert_eq!(phase.floor(12, 2), 6);
    }

    /// The maker goes to wait before the first one has begun.
    #[test]
    fn a_thread_counts_that_ran_before_on_the_hosts_clock() {
        let mut phase = Phase::NONE;
        phase.stops(0, 2);
        (0..3).for_each(|at| phase.starts(at, 0, 1 + at, 0));
        assert_eq!(phase.floor(30, 2), 15);
        assert_eq!(phase.floor(30, 3), 0);
    }

    #[test]
    fn threads_that_run_one_after_the_other_share_nothing() {
        let mut phase = Phase::NONE;
        for turn in 0..8 {
            phase.starts(4 * turn, 4 * turn, 2, 4 * turn);
            phase.stops(4 * turn, 4 * turn + 4);
            assert_eq!(phase.floor(4 * turn + 4, 2), 0);
        }
    }

    #[test]
    fn what_was_before_counts_no_longer() {
        let mut phase = Phase::NONE;
        for at in [100, 1000] {
            let work = at;
            (2..6).for_each(|running| phase.starts(at, at, running, work));
            assert_eq!(phase.floor(work + 60, 3), at + 20);
            (0..4).for_each(|_| phase.stops(at, at + 15));
        }
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut phase = Phase::NONE;
        phase.reserve();
        let room = phase.over.capacity();
        for at in 0..1000 {
            phase.starts(at, 0, 2, 0);
            phase.stops(at, at + 10);
        }
        assert_eq!((phase.over.len(), phase.over.capacity()), (MOST_STRETCHES, room));
    }
}
