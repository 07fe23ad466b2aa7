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

/// Several ranks that run longer than this in one window, one after the other, would gain by a second core ...
const LONG: Duration = Duration::from_micros(100);
/// ... so they are let go when there are this many such windows ...
const MANY: u32 = 64;
/// ... among so many. A share, no average: on a busy host a few windows take milliseconds for no reason of theirs.
const WINDOWS: u32 = 256;
/// One such window is enough.
const VERY_LONG: Duration = Duration::from_millis(10);
/// Windows before ranks at large are bound again to see; twice as many each time that this was wrong, up to the second number.
const AT_LARGE: (u32, u32) = (1024, 1 << 17);
/// Another core is looked for after this time: the one that the system gives to the simulator when that is left alone for so many windows.
const STAY: Duration = Duration::from_millis(500);
const LOOK: u32 = 16;

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
    /// In this place.
    windows: u32,
    long: u32,
    /// Windows until ranks at large are bound.
    patience: u32,
}

impl Cores {
    /// For these processes, on one core.
    pub fn new(ranks: impl Iterator<Item = u32>) -> Cores {
        let all = Set::of(0).filter(|set| set.count() > 1);
        let ranks = ranks.map(|pid| pid as i32).collect();
        let mut cores = Cores { all, ranks, place: Place::AtLarge, since: Instant::now(), windows: 0, long: 0, patience: AT_LARGE.0 };
        cores.bind();
        cores
    }

    /// `ranks` ranks ran for `time` between their wake and the last one's hand-over.
    pub fn ran(&mut self, ranks: usize, time: Duration) {
        if self.all.is_none() {
            return;
        }
        self.windows += 1;
        match self.place {
            Place::AtLarge if self.windows >= self.patience => self.bind(),
            Place::AtLarge => {}
            Place::Looking(_) if self.windows >= LOOK => self.bind(),
            Place::Looking(_) => {}
            Place::Together(core) => {
                self.long += u32::from(ranks > 1 && time > LONG);
                if self.long >= MANY || (ranks > 1 && time > VERY_LONG) {
                    self.patience = (2 * self.patience).min(AT_LARGE.1);
                    self.release();
                } else if self.windows >= WINDOWS {
                    (self.windows, self.long, self.patience) = (0, 0, AT_LARGE.0);
                    if let Some(all) = self.all.filter(|_| self.since.elapsed() > STAY) {
                        all.give_to(0);
                        self.place = Place::Looking(core);
                    }
                }
            }
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
        (self.windows, self.long) = (0, 0);
    }

    /// Everybody to all cores.
    pub fn release(&mut self) {
        let Some(all) = self.all.filter(|_| self.place != Place::AtLarge) else { return };
        self.place = Place::AtLarge;
        (self.windows, self.long) = (0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn ranks_are_bound_let_go_when_they_have_much_to_do_and_bound_again() {
        let mut rank = Command::new("sleep").arg("100").spawn().expect("there is a sleep");
        let pid = rank.id();
        let mut cores = Cores::new([pid].into_iter());
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
        cores.release();
        rank.kill().expect("it lives");
        rank.wait().expect("it was not waited for");
    }
}
