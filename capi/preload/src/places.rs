//! What is known of places where threads of the program wait for each other: who has left what clock there, who stands
//! in line, and rounds of barriers. All of a fixed size: who allocates may need a lock of the MPI library's (its hooks
//! for memory), whose owner may be about to come here.

/// Something that threads wait for.
#[derive(Clone, Copy)]
pub struct Object {
    /// Its address.
    place: usize,
    pub waiters: u32,
    /// For locks that cannot be tried.
    pub held: bool,
    /// Of the last one who let somebody go on.
    pub clock: u64,
    /// How often somebody was let go on.
    pub releases: u32,
}

/// All that is waited for or held now.
pub struct Objects {
    all: [Object; MOST],
    count: usize,
}

/// As many as there are threads that wait, and critical sections that are held. What is more is not known: there the
/// clocks do not meet.
pub const MOST: usize = 1024;

impl Objects {
    pub const NONE: Objects = Objects { all: [Object { place: 0, waiters: 0, held: false, clock: 0, releases: 0 }; MOST], count: 0 };

    /// What is known of the object at `place`.
    pub fn get(&mut self, place: usize) -> Option<&mut Object> {
        self.all[..self.count].iter_mut().find(|object| object.place == place)
    }

    /// Does something with the object at `place`; it is forgotten when nobody waits for it and nobody has it.
    pub fn change<T>(&mut self, place: usize, change: impl FnOnce(&mut Object) -> T) -> Option<T> {
        let known = self.all[..self.count].iter().position(|object| object.place == place);
        let index = known.unwrap_or(self.count);
        let object = self.all.get_mut(index)?;
        if known.is_none() {
            *object = Object { place, waiters: 0, held: false, clock: 0, releases: 0 };
            self.count += 1;
        }
        let result = change(object);
        if object.waiters == 0 && !object.held {
            self.count -= 1;
            self.all[index] = self.all[self.count];
        }
        Some(result)
    }
}

/// Rounds in which a number of threads meet.
#[derive(Default)]
pub struct Rounds {
    latest: [u64; ROUNDS as usize],
}

/// A thread may still look at the round before the one in which others are already, and the next one is made ready
/// then.
const ROUNDS: u64 = 4;

impl Rounds {
    /// A thread comes to a round, at that clock.
    pub fn come(&mut self, round: u64, clock: u64) {
        self.latest[((round + 1) % ROUNDS) as usize] = 0;
        let latest = &mut self.latest[(round % ROUNDS) as usize];
        *latest = clock.max(*latest);
    }

    /// The clock of the one that came last.
    pub fn latest(&self, round: u64) -> u64 {
        self.latest[(round % ROUNDS) as usize]
    }
}

/// One that waits.
#[derive(Clone, Copy)]
struct Standing {
    place: usize,
    /// Its clock, ps, and how many have come before it.
    since: (u64, u64),
}

/// All that wait for locks.
pub struct Line {
    all: [Standing; MOST],
    count: usize,
    came: u64,
}

impl Line {
    pub const EMPTY: Line = Line { all: [Standing { place: 0, since: (0, 0) }; MOST], count: 0, came: 0 };

    /// Who gets the lock at `place` next.
    pub fn first(&self, place: usize) -> Option<(u64, u64)> {
        self.all[..self.count].iter().filter(|standing| standing.place == place).map(|standing| standing.since).min()
    }

    /// The next one, with that clock. `None`: there is no room, and it takes the lock as the C library gives it.
    pub fn join(&mut self, place: usize, clock: u64) -> Option<(u64, u64)> {
        let since = (clock, self.came);
        *self.all.get_mut(self.count)? = Standing { place, since };
        self.came += 1;
        self.count += 1;
        Some(since)
    }

    pub fn leave(&mut self, since: (u64, u64)) {
        if let Some(at) = self.all[..self.count].iter().position(|standing| standing.since == since) {
            self.count -= 1;
            self.all[at] = self.all[self.count];
        }
    }
}
