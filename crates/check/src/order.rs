//! What comes before what: vector clocks (Fidge, Mattern) over messages, collectives and the synchronisations of
//! windows. They say which accesses under locks are concurrent, though different ranks make them.
//!
//! Where it is not certain that one event comes before another one, it is taken to be so: then nothing is found.
//! Clocks are only kept once there is a window, and for up to [`MOST_RANKS`].

use crate::windows::Touch;
use narrows_mpicalls::CALLS;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Clocks need the square of that in words. Our own choice.
const MOST_RANKS: usize = 256;
/// Accesses to one target that are remembered. Our own choice.
const MOST: usize = 4096;

type Clock = Vec<u32>;

/// Where ranks meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A collective of a communicator, the so many-th of a rank there.
    Collective(usize, u64),
    /// A fence of a window.
    Fence(usize, u64),
    /// MPI_Win_post (false) or MPI_Win_complete (true) of a rank.
    Epoch(usize, u32, bool),
    /// Atomic operations on the memory of a rank, and looks of that rank at it.
    Atomics(usize, u32),
}

/// Whom a rank waits for in a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meets {
    All,
    /// A rank of MPI_COMM_WORLD.
    One(u32),
    /// Nobody for sure.
    Nobody,
}

#[derive(Default)]
struct Rank {
    clock: Clock,
    /// How often it was at each kind of place.
    times: BTreeMap<(bool, usize), u64>,
    /// What it is in, or was in last: when it goes on, it has met the others.
    waits: Vec<(Place, Meets)>,
    /// Non-blocking collectives that may not be over.
    open: Vec<Place>,
    /// Blocking receives that it has begun.
    receives: Vec<u32>,
    /// Where it has atomic operations that may not be done.
    atomics: BTreeSet<Place>,
}

/// The clocks of all ranks.
#[derive(Default)]
pub struct Clocks {
    ranks: Vec<Rank>,
    on: bool,
    met: BTreeMap<Place, BTreeMap<u32, Clock>>,
    /// By rank and request: of sends that have not met their receives.
    sent: BTreeMap<(u32, u32), Clock>,
    /// By rank and request: of receives that have met their sends.
    arrived: BTreeMap<(u32, u32), Clock>,
}

fn join(clock: &mut Clock, other: &Clock) {
    clock.iter_mut().zip(other).for_each(|(own, &other)| *own = other.max(*own));
}

impl Clocks {
    pub fn new(ranks: u32) -> Clocks {
        Clocks { ranks: (0..ranks).map(|_| Rank::default()).collect(), ..Clocks::default() }
    }

    /// There is a window: from here on order counts.
    pub fn begin(&mut self) {
        let count = self.ranks.len();
        if self.on || count > MOST_RANKS {
            return;
        }
        self.on = true;
        for (own, rank) in self.ranks.iter_mut().enumerate() {
            rank.clock = vec![0; count];
            rank.clock[own] = 1;
        }
    }

    pub fn on(&self) -> bool {
        self.on
    }

    /// What the rank has done so far, for others.
    fn release(&mut self, rank: u32) -> Clock {
        let clock = &mut self.ranks[rank as usize].clock;
        clock[rank as usize] += 1;
        clock.clone()
    }

    /// A rank goes on: what it was in is over.
    pub fn goes_on(&mut self, rank: u32) {
        if !self.on {
            return;
        }
        // What an atomic operation finds may have come there after its call.
        for place in self.ranks[rank as usize].atomics.clone() {
            self.meet(rank, place, Meets::All);
        }
        for (place, meets) in std::mem::take(&mut self.ranks[rank as usize].waits) {
            self.meet(rank, place, meets);
        }
        for request in std::mem::take(&mut self.ranks[rank as usize].receives) {
            self.received(rank, request);
        }
    }

    fn meet(&mut self, rank: u32, place: Place, meets: Meets) {
        let Some(there) = self.met.get(&place) else { return };
        let own = &mut self.ranks[rank as usize].clock;
        match meets {
            Meets::All => there.values().for_each(|other| join(own, other)),
            Meets::One(other) => there.get(&other).into_iter().for_each(|other| join(own, other)),
            Meets::Nobody => {}
        }
    }

    /// A rank calls a collective of a communicator of so many ranks, with this root (a rank of MPI_COMM_WORLD).
    pub fn collective(&mut self, rank: u32, group: usize, call: u32, root: Option<u32>) {
        if !self.on {
            return;
        }
        let name = CALLS.get(call as usize).map_or("", |call| call.name);
        let place = Place::Collective(group, self.count(rank, false, group));
        let clock = self.release(rank);
        self.met.entry(place).or_default().insert(rank, clock);
        let own = &mut self.ranks[rank as usize];
        // MPI_I..., and persistent ones, are over later.
        let goes_on = name.starts_with("MPI_I") || name.contains("_init");
        if goes_on {
            own.open.push(place);
            return;
        }
        let from_root = ["MPI_Bcast", "MPI_Scatter"].iter().any(|begin| name.starts_with(begin));
        let to_root = ["MPI_Gather", "MPI_Reduce"].iter().any(|begin| name.starts_with(begin)) && !name.contains("scatter");
        let meets = match root {
            Some(root) if from_root => Meets::One(root),
            Some(root) if to_root && root != rank => Meets::Nobody,
            _ => Meets::All,
        };
        own.waits.push((place, meets));
    }

    fn count(&mut self, rank: u32, fence: bool, of: usize) -> u64 {
        let times = self.ranks[rank as usize].times.entry((fence, of)).or_default();
        *times += 1;
        *times
    }

    /// MPI_Win_fence.
    pub fn fence(&mut self, rank: u32, window: usize) {
        if self.on {
            let place = Place::Fence(window, self.count(rank, true, window));
            self.come(rank, place);
            self.ranks[rank as usize].waits.push((place, Meets::All));
        }
    }

    /// MPI_Win_post, MPI_Win_complete: others wait for it.
    pub fn come(&mut self, rank: u32, place: Place) {
        if self.on {
            let clock = self.release(rank);
            self.met.entry(place).or_default().insert(rank, clock);
        }
    }

    /// MPI_Win_start, MPI_Win_wait: what was done before `place` is.
    pub fn wait(&mut self, rank: u32, place: Place) {
        if self.on {
            self.meet(rank, place, Meets::All);
        }
    }

    /// An atomic operation of a rank, or a look at its own memory: with all others there.
    pub fn atomic(&mut self, rank: u32, window: usize, target: u32) {
        if self.on {
            let place = Place::Atomics(window, target);
            self.meet(rank, place, Meets::All);
            self.come(rank, place);
            self.ranks[rank as usize].atomics.insert(place);
        }
    }

    /// A flush or unlock begins, of one target or of all: when it is over the atomic operations there are done.
    pub fn completes(&mut self, rank: u32, window: usize, target: Option<u32>) {
        let own = &mut self.ranks[rank as usize];
        let done = |place: &Place| matches!(*place, Place::Atomics(of, at) if of == window && target.is_none_or(|target| target == at));
        let places: Vec<Place> = own.atomics.iter().copied().filter(done).collect();
        for place in places {
            own.atomics.remove(&place);
            own.waits.push((place, Meets::All));
        }
    }

    /// A send begins.
    pub fn sends(&mut self, rank: u32, request: u32) {
        if self.on {
            let clock = self.release(rank);
            self.sent.insert((rank, request), clock);
        }
    }

    /// A blocking receive begins.
    pub fn receives(&mut self, rank: u32, request: u32) {
        if self.on {
            self.ranks[rank as usize].receives.push(request);
        }
    }

    /// A send and a receive belong together.
    pub fn pair(&mut self, send: (u32, u32), receive: (u32, u32)) {
        if let Some(clock) = self.sent.remove(&send) {
            self.arrived.insert(receive, clock);
        }
    }

    /// A receive is over.
    fn received(&mut self, rank: u32, request: u32) {
        if let Some(clock) = self.arrived.remove(&(rank, request)) {
            join(&mut self.ranks[rank as usize].clock, &clock);
        }
    }

    /// A request is over: it may be a collective.
    pub fn ended(&mut self, rank: u32, request: u32) {
        if !self.on {
            return;
        }
        self.received(rank, request);
        for place in self.ranks[rank as usize].open.clone() {
            self.meet(rank, place, Meets::All);
        }
    }

    /// The rank's own time.
    fn now(&self, rank: u32) -> u32 {
        self.ranks[rank as usize].clock[rank as usize]
    }

    /// Whether what `other` did at its time `tick` comes before what `rank` does now.
    fn is_after(&self, rank: u32, other: u32, tick: u32) -> bool {
        self.ranks[rank as usize].clock[other as usize] > tick
    }
}

/// An access under a lock, or by the rank itself.
struct Past {
    start: u64,
    end: u64,
    touch: Touch,
    exclusive: bool,
    /// When it was complete, in the time of who has made it.
    done: Option<u32>,
}

/// Accesses to the memory of one rank.
#[derive(Default)]
pub struct Passive {
    past: VecDeque<Past>,
    /// What has been found: once is enough.
    known: BTreeSet<(Touch, Touch)>,
}

impl Passive {
    /// A new access; those that clash with it.
    pub fn access(&mut self, clocks: &Clocks, start: u64, length: u64, touch: Touch, exclusive: bool) -> Vec<Touch> {
        if !clocks.on() {
            return Vec::new();
        }
        let (rank, end) = (touch.site.rank, start.saturating_add(length));
        let mut clashes = Vec::new();
        for past in &self.past {
            let other = past.touch.site.rank;
            let apart = other == rank || past.end <= start || end <= past.start || (past.exclusive && exclusive);
            let before = past.done.is_some_and(|tick| clocks.is_after(rank, other, tick));
            if !apart && !before && touch.clashes_at(&past.touch, start, past.start) && self.known.insert((past.touch, touch)) {
                clashes.push(past.touch);
            }
        }
        let done = touch.local.then(|| clocks.now(rank));
        let same = |past: &&mut Past| (past.start, past.end, past.touch, past.exclusive) == (start, end, touch, exclusive);
        match self.past.iter_mut().find(same) {
            Some(past) => past.done = done,
            None => {
                if self.past.len() >= MOST {
                    self.past.pop_front();
                }
                self.past.push_back(Past { start, end, touch, exclusive, done });
            }
        }
        clashes
    }

    /// What `origin` has done is complete.
    pub fn complete(&mut self, clocks: &Clocks, origin: u32) {
        if clocks.on() {
            let open = self.past.iter_mut().filter(|past| past.touch.site.rank == origin && past.done.is_none());
            open.for_each(|past| past.done = Some(clocks.now(origin)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Site;
    use narrows_facts::Access;

    fn put(rank: u32) -> Touch {
        Touch { site: Site { rank, call: 0, place: 0 }, access: Access::Put, local: false }
    }

    /// Rank 1 writes, does `between`, and then rank 2 writes the same bytes of rank 0: what is found.
    fn clashes(completes: bool, exclusive: bool, between: impl FnOnce(&mut Clocks)) -> usize {
        let (mut clocks, mut memory) = (Clocks::new(3), Passive::default());
        clocks.begin();
        assert!(memory.access(&clocks, 0, 8, put(1), exclusive).is_empty());
        if completes {
            memory.complete(&clocks, 1);
        }
        between(&mut clocks);
        clocks.goes_on(2);
        memory.access(&clocks, 4, 8, put(2), exclusive).len()
    }

    fn collective(name: &str, root: Option<u32>, order: [u32; 3]) -> impl FnOnce(&mut Clocks) {
        let call = narrows_mpicalls::by_name(name).expect("a call of MPI");
        move |clocks| order.iter().for_each(|&rank| clocks.collective(rank, 0, call, root))
    }

    #[test]
    fn accesses_of_two_ranks_are_concurrent_if_nothing_orders_them() {
        assert_eq!(clashes(true, false, |_| {}), 1);
        assert_eq!(clashes(true, true, |_| {}), 0, "exclusive locks keep them apart");
        for order in [[0, 1, 2], [2, 1, 0]] {
            assert_eq!(clashes(true, false, collective("MPI_Barrier", None, order)), 0);
            assert_eq!(clashes(false, false, collective("MPI_Barrier", None, order)), 1, "it was not completed");
            assert_eq!(clashes(true, false, collective("MPI_Bcast", Some(1), order)), 0);
            assert_eq!(clashes(true, false, collective("MPI_Bcast", Some(0), order)), 1, "a broadcast waits for its root alone");
            assert_eq!(clashes(true, false, collective("MPI_Reduce", Some(0), order)), 1);
            assert_eq!(clashes(true, false, collective("MPI_Reduce", Some(2), order)), 0);
        }
    }

    #[test]
    fn messages_order_those_before_the_send_and_behind_the_receive() {
        let message = |clocks: &mut Clocks| {
            clocks.receives(2, 7);
            clocks.sends(1, 3);
            clocks.pair((1, 3), (2, 7));
        };
        assert_eq!(clashes(true, false, message), 0);
        let by_request = |clocks: &mut Clocks| {
            clocks.sends(1, 3);
            clocks.pair((1, 3), (2, 7));
            clocks.ended(2, 7);
        };
        assert_eq!(clashes(true, false, by_request), 0);
        let back = |clocks: &mut Clocks| {
            clocks.receives(1, 7);
            clocks.sends(2, 3);
            clocks.pair((2, 3), (1, 7));
        };
        assert_eq!(clashes(true, false, back), 1);
    }

    #[test]
    fn atomic_operations_order_what_they_meet() {
        let flag = |clocks: &mut Clocks| {
            clocks.atomic(1, 0, 0);
            clocks.atomic(2, 0, 0);
        };
        assert_eq!(clashes(true, false, flag), 0);
        assert_eq!(clashes(true, false, |clocks| clocks.atomic(2, 0, 0)), 1);
        let done_before = |clocks: &mut Clocks| {
            clocks.atomic(2, 0, 0);
            clocks.completes(2, 0, Some(0));
            clocks.goes_on(2);
            clocks.atomic(1, 0, 0);
        };
        assert_eq!(clashes(true, false, done_before), 1);
        let called_before = |clocks: &mut Clocks| {
            clocks.atomic(2, 0, 0);
            clocks.atomic(1, 0, 0);
            clocks.completes(2, 0, Some(0));
        };
        assert_eq!(clashes(true, false, called_before), 0, "it is done after the other one");
    }
}
