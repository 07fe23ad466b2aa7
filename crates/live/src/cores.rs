//! Which of the host's cores ranks and simulator run on.
//!
//! A hand-over to a process on another core costs an interrupt, and the wake of that core if it sleeps: 4 to 40 us on
//! virtual machines, where one on the same core costs 1 us. So simulator and ranks stay together on one core while the
//! ranks of a window have little to do, and are let go to all cores while they have much. Nothing of this can be
//! seen in a result: what a rank does never depends on when or where the host runs it.
//!
//! Only the thread that a rank was started with is moved, for that one makes the MPI calls. Threads that it starts
//! while bound inherit that, and are let go with it.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Windows between decisions, and those that a look for another core takes.
const WINDOWS: u32 = 256;
const LOOK: u32 = 16;
/// Bound ranks are let go when they run longer than this in a window that has several of them, on average over all windows ...
const MUCH: Duration = Duration::from_micros(120);
/// ... or at once, in a single such window.
const VERY_MUCH: Duration = Duration::from_millis(10);
/// Ranks at large are bound when they run less than this. Half of [`MUCH`] would be the same work on two cores.
const LITTLE: Duration = Duration::from_micros(40);
/// A core is chosen anew after this time: the one that the system gives to the simulator when it is left alone.
const STAY: Duration = Duration::from_millis(500);

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
    /// Simulator and ranks on this core.
    Together(usize),
    /// The ranks on this core, the simulator wherever the system puts it: a look for a better one.
    Looking(usize),
    /// On all cores.
    AtLarge,
}

/// Simulator and ranks together on one core, or at large.
pub struct Cores {
    /// What this process may use; `None`: one core only, there is nothing to decide.
    all: Option<Set>,
    ranks: Vec<i32>,
    place: Place,
    since: Instant,
    windows: u32,
    busy: Duration,
}

impl Cores {
    /// For these processes, on one core.
    pub fn new(ranks: impl Iterator<Item = u32>) -> Cores {
        let all = Set::of(0).filter(|set| set.count() > 1);
        let ranks = ranks.map(|pid| pid as i32).collect();
        let mut cores = Cores { all, ranks, place: Place::AtLarge, since: Instant::now(), windows: 0, busy: Duration::ZERO };
        cores.bind();
        cores
    }

    /// `ranks` ranks ran for `time` between their wake and the last one's hand-over.
    pub fn ran(&mut self, ranks: usize, time: Duration) {
        if self.all.is_none() {
            return;
        }
        self.windows += 1;
        if ranks > 1 {
            self.busy += time;
            if time > VERY_MUCH {
                self.release();
            }
        }
        let enough = if matches!(self.place, Place::Looking(_)) { LOOK } else { WINDOWS };
        if self.windows < enough {
            return;
        }
        let average = self.busy / self.windows;
        (self.windows, self.busy) = (0, Duration::ZERO);
        match self.place {
            Place::Together(_) if average > MUCH => self.release(),
            Place::Together(core) if self.since.elapsed() > STAY => {
                if let Some(all) = self.all {
                    all.give_to(0);
                    self.place = Place::Looking(core);
                }
            }
            Place::Looking(_) => self.bind(),
            Place::AtLarge if average < LITTLE => self.bind(),
            _ => {}
        }
    }

    /// Everybody to the core that the simulator is on.
    fn bind(&mut self) {
        // SAFETY: no arguments.
        let here = usize::try_from(unsafe { libc::sched_getcpu() });
        let (Some(_), Ok(here)) = (self.all, here) else { return };
        let one = Set::only(here);
        if self.place != Place::Looking(here) {
            for &pid in &self.ranks {
                one.give_to(pid);
            }
        }
        one.give_to(0);
        self.place = Place::Together(here);
        self.since = Instant::now();
    }

    /// Everybody to all cores.
    pub fn release(&mut self) {
        let Some(all) = self.all.filter(|_| self.place != Place::AtLarge) else { return };
        self.place = Place::AtLarge;
        all.give_to(0);
        for &pid in &self.ranks {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for id in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
                // Nobody else binds a rank: launchers are told not to, and a program's own wishes concern the simulated node.
                if Set::of(id).is_some_and(|set| set.count() == 1) {
                    all.give_to(id);
                }
            }
        }
    }
}
