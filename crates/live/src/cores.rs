//! Which of the host's cores ranks and simulator run on.
//!
//! A hand-over to a process on another core costs an interrupt, and the wake of that core if it sleeps: 4 to 40 us on
//! virtual machines, where one on the same core costs 1 us. So simulator and ranks stay together on one core while the
//! ranks of a window have little to do, and are let go to all cores while they have much. Between the two, the ranks
//! are dealt out among two, four or more cores, each with a thread that wakes those there ([`crate::deputy`]), when
//! trials say that this is faster.
//! Nothing of this can be seen in a result: what a rank does never depends on when or where the host runs it.
//!
//! Only the thread that a rank was started with is moved, for that one makes the MPI calls. Threads that it starts
//! while bound inherit that, and are let go with it.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Several ranks that run longer than this in one window, one after the other, would gain by a second core ...
const LONG: Duration = Duration::from_micros(100);
/// ... so they are let go when there are this many such windows ...
const MANY: u32 = 64;
/// ... among so many. A share, no average: on a busy host a few windows take milliseconds for no reason of theirs.
const WINDOWS: u32 = 256;
/// One such window is enough.
const VERY_LONG: Duration = Duration::from_millis(10);
/// Windows before ranks at large are bound again to see; twice as many each time that this was wrong, up to the second
/// number. Our own choice: docs/decisions/0002-who-runs-when.md has 1,024 beside it.
const AT_LARGE: (u32, u32) = (256, 1 << 17);
/// Another core is looked for after this time: the one that the system gives to the simulator when that is left alone
/// for so many windows.
const STAY: Duration = Duration::from_millis(500);
const LOOK: u32 = 16;
/// Stretches of windows between trials of another number of cores: at first, and at most when trials fail.
const TRIALS: (u32, u32) = (8, 512);
/// Twice as many cores must take at most this share of the time, for they cost more of the host's.
const WORTH_IT: f64 = 0.9;
/// Ranks are dealt out among at most so many. Our own choice: beyond, the simulator is what takes the time.
pub const MOST: usize = 16;

/// A set of cores.
#[derive(Clone, Copy)]
struct Set(libc::cpu_set_t);

impl Set {
    /// Of thread `id`, zero: this one.
    fn of(id: i32) -> Option<Set> {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: the place has the size that is given; an all-zero set is valid.
        unsafe { (libc::sched_getaffinity(id, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) == 0).then(|| Set(set.assume_init())) }
    }

    fn only(core: usize) -> Set {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
        // SAFETY: an all-zero set is valid, and CPU_SET checks its range.
        unsafe {
            libc::CPU_SET(core, &mut *set.as_mut_ptr());
            Set(set.assume_init())
        }
    }

    /// The core of this set that follows `core`; the first one follows the last.
    fn after(&self, core: usize) -> Option<usize> {
        // SAFETY: CPU_ISSET checks its range.
        let has = |core: &usize| unsafe { libc::CPU_ISSET(*core, &self.0) };
        (core + 1..libc::CPU_SETSIZE as usize).find(has).or_else(|| (0..core).find(has))
    }

    fn count(&self) -> i32 {
        // SAFETY: a valid set.
        unsafe { libc::CPU_COUNT(&self.0) }
    }

    /// A thread that is gone, or belongs to somebody else, stays where it is: that costs time, nothing more.
    fn give_to(&self, id: i32) {
        // SAFETY: a valid set of the size that is given.
        unsafe { libc::sched_setaffinity(id, size_of::<libc::cpu_set_t>(), &raw const self.0) };
    }
}

/// Where everybody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The simulator on that core, the ranks on it and the ones behind it, so many in all.
    Bound(usize, usize),
    /// The ranks on this core, the simulator wherever the system puts it: a look for a better one.
    Looking(usize),
    /// On all cores.
    AtLarge,
}

/// Simulator and ranks on one core, on several, or at large.
pub struct Cores {
    /// What this process may use; `None`: one core only, there is nothing to decide.
    all: Option<Set>,
    ranks: Vec<i32>,
    /// The threads that wake the ranks of the second core and those behind it.
    deputies: Vec<i32>,
    place: Place,
    since: Instant,
    /// The last look for another core.
    looked: Instant,
    /// In this place.
    windows: u32,
    long: u32,
    handed: u64,
    /// Windows until ranks at large are bound.
    patience: u32,
    ways: Ways,
}

/// How many cores: what a hand-over took, all in all, on so many of them when that was last measured.
#[derive(Clone, Debug)]
struct Ways {
    /// The numbers of cores to choose from, each with the time, ns: 1, 2, 4 ...
    costs: Vec<(usize, f64)>,
    /// The present one's place.
    now: usize,
    /// It is a trial of [`WINDOWS`] windows, beside that one.
    beside: Option<usize>,
    /// The next trial is of more cores, if there are.
    more: bool,
    /// Stretches of [`WINDOWS`] windows until the next trial, and how many it will be after that.
    left: u32,
    patience: u32,
}

impl Ways {
    fn new(cores: usize) -> Ways {
        let numbers = std::iter::successors(Some(1), |number| Some(2 * number)).take_while(|&number| number < cores);
        let costs = numbers.chain([cores.max(1)]).map(|number| (number, f64::INFINITY)).collect();
        Ways { costs, now: 0, beside: None, more: true, left: 1, patience: TRIALS.0 }
    }

    fn cores(&self) -> usize {
        self.costs[self.now].0
    }

    /// One core again; a trial is near.
    fn restart(&mut self) {
        (self.now, self.beside, self.more, self.left) = (0, None, true, 1);
    }

    /// A stretch is over, which took `cost` per hand-over. The way of the next one is in `now`.
    fn measured(&mut self, cost: f64) {
        self.costs[self.now].1 = cost;
        if let Some(beside) = self.beside.take() {
            let (fewer, more) = (self.now.min(beside), self.now.max(beside));
            let best = if self.costs[more].1 < WORTH_IT * self.costs[fewer].1 { more } else { fewer };
            if best == self.now {
                self.patience = TRIALS.0;
            } else {
                self.patience = (2 * self.patience).min(TRIALS.1);
                self.more = !self.more;
            }
            (self.now, self.left) = (best, self.patience);
        } else {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.more = if self.now == 0 { true } else { self.more && self.now + 1 < self.costs.len() };
                let other = if self.more { self.now + 1 } else { self.now.saturating_sub(1) };
                if other < self.costs.len() {
                    self.beside = Some(std::mem::replace(&mut self.now, other));
                }
            }
        }
    }

    /// A trial that costs this much need not go on.
    fn hopeless(&self, time: Duration, handed: u64) -> bool {
        self.beside.is_some_and(|beside| time.as_nanos() as f64 > 1e7 + 4.0 * handed as f64 * self.costs[beside].1)
    }
}

impl Cores {
    /// For these processes, on one core. `deputies`: the threads of [`crate::deputy`].
    pub fn new(ranks: impl Iterator<Item = u32>, deputies: Vec<i32>) -> Cores {
        let all = Set::of(0).filter(|set| set.count() > 1);
        let ranks: Vec<i32> = ranks.map(|pid| pid as i32).collect();
        let since = Instant::now();
        let (windows, long, handed) = (0, 0, 0);
        let ways = Ways::new(all.map_or(1, |all| all.count() as usize).min(deputies.len() + 1).min(ranks.len()));
        let (place, patience) = (Place::AtLarge, AT_LARGE.0);
        let mut cores = Cores { all, ranks, deputies, place, since, looked: since, windows, long, handed, patience, ways };
        cores.bind();
        cores
    }

    /// Simulator and ranks are where they were told to be.
    pub fn bound(&self) -> bool {
        matches!(self.place, Place::Bound(..))
    }

    /// On how many cores the ranks are bound; 0: at large.
    pub fn number(&self) -> usize {
        match self.place {
            Place::Bound(_, number) => number,
            Place::Looking(_) => 1,
            Place::AtLarge => 0,
        }
    }

    /// Of so many, the one that `rank` is on; 0 is the simulator's, the others are those of the deputies.
    pub fn of(rank: u32, number: usize) -> usize {
        rank as usize % number.max(1)
    }

    /// `ranks` ranks ran for `time` between their wake and the last one's hand-over.
    pub fn ran(&mut self, ranks: usize, time: Duration) {
        if self.all.is_none() {
            return;
        }
        self.windows += 1;
        self.handed += ranks as u64;
        match self.place {
            Place::AtLarge if self.windows >= self.patience => self.bind(),
            Place::AtLarge => {}
            Place::Looking(_) if self.windows >= LOOK => self.bind(),
            Place::Looking(_) => {}
            Place::Bound(core, _) => {
                self.long += u32::from(ranks > 1 && time > LONG);
                if self.long >= MANY || (ranks > 1 && time > VERY_LONG) {
                    self.patience = (2 * self.patience).min(AT_LARGE.1);
                    self.release();
                } else if self.windows >= WINDOWS {
                    self.patience = AT_LARGE.0;
                    self.next_stretch(core, self.since.elapsed());
                } else if self.ways.hopeless(self.since.elapsed(), self.handed) {
                    self.next_stretch(core, Duration::MAX);
                }
            }
        }
    }

    /// A stretch of windows on these cores is over, or a trial is given up.
    fn next_stretch(&mut self, core: usize, time: Duration) {
        let was = self.ways.cores();
        self.ways.measured(time.as_nanos() as f64 / self.handed.max(1) as f64);
        if self.ways.cores() != was {
            self.bind();
        } else if let Some(all) = self.all.filter(|_| was == 1 && self.looked.elapsed() > STAY) {
            all.give_to(0);
            self.begin(Place::Looking(core));
            self.looked = Instant::now();
        } else {
            self.begin(self.place);
        }
    }

    fn begin(&mut self, place: Place) {
        self.place = place;
        self.since = Instant::now();
        (self.windows, self.long, self.handed) = (0, 0, 0);
    }

    /// Everybody to the core that the simulator is on, or a share of the ranks to each of the next ones.
    fn bind(&mut self) {
        // SAFETY: no arguments.
        let here = usize::try_from(unsafe { libc::sched_getcpu() });
        let (Some(all), Ok(here)) = (self.all, here) else { return };
        let number = self.ways.cores();
        if self.place != Place::Looking(here) || number > 1 {
            let sets: Vec<Set> = std::iter::successors(Some(here), |&core| all.after(core)).take(number).map(Set::only).collect();
            for (rank, &pid) in self.ranks.iter().enumerate() {
                sets[Cores::of(rank as u32, number)].give_to(pid);
            }
            for (set, &deputy) in sets.iter().skip(1).zip(&self.deputies).filter(|&(_, &deputy)| deputy != 0) {
                set.give_to(deputy);
            }
        }
        Set::only(here).give_to(0);
        self.begin(Place::Bound(here, number));
    }

    /// Everybody to all cores, for good: there are ranks that run while the simulator must, too.
    pub fn let_go(&mut self) {
        self.release();
        self.patience = u32::MAX;
    }

    /// Everybody to all cores.
    pub fn release(&mut self) {
        let Some(all) = self.all.filter(|_| self.place != Place::AtLarge) else { return };
        self.begin(Place::AtLarge);
        self.ways.restart();
        all.give_to(0);
        for &pid in &self.ranks {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for id in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
                // Nobody else binds a rank: launchers are told not to, and a program's own wishes concern the simulated
                // node.
                if Set::of(id).is_some_and(|set| set.count() == 1) {
                    all.give_to(id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn two_cores_are_taken_when_they_are_faster_and_tried_less_often_when_not() {
        let mut ways = Ways::new(2);
        // The second core saves a quarter: it is found after one stretch, and confirmed by each trial of one core.
        let mut on_two = 0;
        for _ in 0..100 {
            on_two += u32::from(ways.cores() == 2);
            ways.measured(if ways.cores() == 2 { 1500.0 } else { 2000.0 });
        }
        assert!(on_two > 80, "{on_two} of 100");
        // It costs as much from now on.
        let noticed = (0..1000).find(|_| {
            ways.measured(2000.0);
            ways.cores() == 1 && ways.beside.is_none()
        });
        assert!(noticed.is_some_and(|after| after < 2 * on_two));
        let trials = (0..1000).filter(|_| {
            let two = ways.cores() == 2;
            ways.measured(2000.0);
            two
        });
        assert!((2..12).contains(&trials.count()));
        // Given up early, then stretches that are short again.
        while ways.beside.is_none() {
            ways.measured(2000.0);
        }
        assert!(!ways.hopeless(Duration::from_micros(2000), 1000) && ways.hopeless(Duration::from_millis(30), 1000));
        ways.measured(f64::INFINITY);
        assert!(ways.cores() == 1 && ways.beside.is_none());
    }

    /// Costs of a hand-over by number of cores.
    fn settles(cores: usize, cost: impl Fn(usize) -> f64) -> usize {
        let mut ways = Ways::new(cores);
        for _ in 0..2000 {
            ways.measured(cost(ways.cores()));
        }
        let mut turns = vec![0; cores + 1];
        for _ in 0..1000 {
            turns[ways.cores()] += 1;
            ways.measured(cost(ways.cores()));
        }
        let most = (1..=cores).max_by_key(|&number| turns[number]).expect("there are some");
        assert!(turns[most] > 800, "trials take a few stretches only: {turns:?}");
        most
    }

    #[test]
    fn as_many_cores_are_taken_as_pay() {
        assert_eq!(Ways::new(12).costs.iter().map(|way| way.0).collect::<Vec<_>>(), [1, 2, 4, 8, 12]);
        assert_eq!(Ways::new(1).costs.len(), 1);
        // Work that is divided, and a simulator that is not.
        let divided = |serial: f64| move |number: usize| 1000.0 * (serial + (1.0 - serial) / number as f64);
        assert_eq!(settles(16, divided(0.0)), 16);
        assert_eq!(settles(12, divided(0.0)), 12);
        // 1, 0.7, 0.55, 0.475, 0.4375: the last is not worth it.
        assert_eq!(settles(16, divided(0.4)), 8);
        assert_eq!(settles(16, divided(0.9)), 1);
        // Others are slower.
        assert_eq!(settles(16, |number| 1000.0 * number as f64), 1);
        assert_eq!(settles(1, |_| 1000.0), 1);
    }

    #[test]
    fn every_other_rank_goes_to_the_second_core() {
        let mut children: Vec<_> = (0..4).map(|_| Command::new("sleep").arg("100").spawn().expect("there is a sleep")).collect();
        let pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
        let mut cores = Cores::new(pids.iter().copied(), vec![0]);
        if cores.all.is_some() {
            cores.ways.measured(2000.0);
            cores.bind();
            // SAFETY: CPU_ISSET checks its range.
            let core = |id: u32| (0..1024).find(|&core| unsafe { libc::CPU_ISSET(core, &Set::of(id as i32).expect("it lives").0) });
            assert!(cores.number() == 2 && core(0) == core(pids[0]) && core(pids[0]) == core(pids[2]));
            assert!(core(pids[1]) == core(pids[3]) && core(pids[1]) != core(pids[0]));
        }
        cores.release();
        assert_eq!(cores.number(), 0);
        for child in &mut children {
            child.kill().expect("it lives");
            child.wait().expect("it was not waited for");
        }
    }

    #[test]
    fn ranks_are_bound_let_go_when_they_have_much_to_do_and_bound_again() {
        let mut rank = Command::new("sleep").arg("100").spawn().expect("there is a sleep");
        let pid = rank.id();
        let mut cores = Cores::new([pid].into_iter(), Vec::new());
        let bound = |id: u32| Set::of(id as i32).expect("it lives").count() == 1;
        let short = Duration::from_micros(20);
        if cores.all.is_some() {
            assert!(bound(pid) && bound(0), "from the start");
            for _ in 0..WINDOWS - 1 {
                cores.ran(1, 5 * VERY_LONG);
            }
            assert!(bound(pid), "one rank alone gains nothing by a second core");
            for _ in 0..WINDOWS {
                cores.ran(16, short);
            }
            assert!(bound(pid));
            let much = (0..2 * MANY).position(|_| {
                cores.ran(16, 2 * LONG);
                !bound(pid)
            });
            assert!(much.is_some() && !bound(0));
            for _ in 0..2 * AT_LARGE.0 {
                assert!(!bound(pid));
                cores.ran(16, short);
            }
            assert!(bound(pid) && bound(0), "a trial");
            cores.ran(16, 2 * VERY_LONG);
            assert!(!bound(pid), "at once");
        }
        cores.bind();
        cores.let_go();
        if cores.all.is_some() {
            for _ in 0..2 * AT_LARGE.0 {
                cores.ran(16, short);
                assert!(!bound(pid) && !bound(0));
            }
        }
        rank.kill().expect("it lives");
        rank.wait().expect("it was not waited for");
    }
}
