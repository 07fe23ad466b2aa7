//! Windows: epochs, and one-sided accesses to the same bytes in one of them.
//!
//! Accesses of one fence epoch, or of one exposure epoch (post to wait), are concurrent whoever makes them. Under locks
//! only those of one rank between two completions are known to be: what other ranks do may be ordered by messages.

use crate::order::{Clocks, Passive};
use crate::{Found, Kind, Site, call_name};
use narrows_facts::Access;
use std::collections::{BTreeMap, BTreeSet};

/// Accesses of an epoch to one target that are remembered. Our own choice.
const MOST: usize = 4096;

/// Index of MPI_NO_OP in `narrows_facts::OPERATIONS`.
const NO_OP: u32 = 15;

/// What touches memory of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    pub site: Site,
    pub access: Access,
    /// By the rank that has the memory, not through the window.
    pub local: bool,
}

impl Touch {
    /// Whether the outcome of both at the same bytes is undefined (MPI 4.1, section 12.7).
    fn clashes(&self, other: &Touch) -> bool {
        match (self.access, other.access) {
            _ if self.local && other.local => false,
            (Access::Get | Access::Accumulate(NO_OP, _), Access::Get) | (Access::Get, Access::Accumulate(NO_OP, _)) => false,
            // Those of one rank are done in order if they have one type, others if the operation is the same, too.
            (Access::Accumulate(_, a) | Access::Swap(a), Access::Accumulate(_, b) | Access::Swap(b))
                if self.site.rank == other.site.rank =>
            {
                a != b && a != 0 && b != 0
            }
            (Access::Accumulate(a, kind), Access::Accumulate(b, other)) => kind != other || a != b && a != NO_OP && b != NO_OP,
            (Access::Accumulate(_, kind), Access::Swap(other)) | (Access::Swap(kind), Access::Accumulate(_, other)) => kind != other,
            (Access::Swap(kind), Access::Swap(other)) => kind != other,
            _ => true,
        }
    }

    /// The same for accesses that begin at these bytes: elements of accumulates lie upon each other, or apart.
    pub fn clashes_at(&self, other: &Touch, start: u64, other_start: u64) -> bool {
        let element = |access| match access {
            Access::Accumulate(_, kind) | Access::Swap(kind) => u64::from(kind & 0xffff),
            Access::Get | Access::Put => 0,
        };
        let (size, same) = (element(self.access), element(self.access) == element(other.access));
        self.clashes(other) || same && size > 0 && !start.abs_diff(other_start).is_multiple_of(size)
    }

    fn name(&self) -> String {
        format!("{} of rank {}", call_name(self.site.call), self.site.rank)
    }
}

/// Accesses to one target that are concurrent.
#[derive(Default)]
struct Epoch {
    /// By first byte; the byte behind the last one, and who.
    touched: BTreeMap<(u64, Touch), u64>,
    longest: u64,
}

impl Epoch {
    /// Those that clash with a new one.
    fn touch(&mut self, start: u64, length: u64, touch: Touch) -> Vec<Touch> {
        let end = start.saturating_add(length);
        let from = start.saturating_sub(self.longest);
        let clashes = self
            .touched
            .range((from, FIRST)..)
            .take_while(|((begin, _), _)| *begin < end)
            .filter(|((begin, other), other_end)| **other_end > start && touch.clashes_at(other, start, *begin))
            .map(|((_, other), _)| *other)
            .collect();
        if self.touched.len() < MOST {
            let known = self.touched.entry((start, touch)).or_insert(end);
            *known = end.max(*known);
            self.longest = self.longest.max(length);
        }
        clashes
    }
}

const FIRST: Touch = Touch { site: Site { rank: 0, call: 0, place: 0 }, access: Access::Get, local: false };

/// First byte and length.
type Span = (u64, u64);
/// The same, and who.
type Piece = (u64, u64, Touch);

/// A window, of all its ranks.
pub struct Shared {
    /// By rank: how many fences it has called.
    fences: BTreeMap<u32, u64>,
    members: usize,
    /// By target and number of the fence before.
    fenced: BTreeMap<(u64, u32), Epoch>,
    /// By target and origin, between completions.
    locked: BTreeMap<(u32, u32), Epoch>,
    /// By target, origin, and which of the epochs that the origin has started for the target.
    started: BTreeMap<(u32, u32, u64), Vec<Piece>>,
    /// By rank: what it does to its own memory in an exposure epoch that goes on.
    own: BTreeMap<u32, Vec<Piece>>,
    /// By rank: first byte, size, unit of displacements.
    exposed: BTreeMap<u32, (u64, u64, u64)>,
    /// By target: accesses under locks, and those of the target itself.
    passive: BTreeMap<u32, Passive>,
    /// By target that has not told that yet: what is done to it.
    early: BTreeMap<u32, Vec<Early>>,
}

/// An access whose bytes are not known yet.
struct Early {
    within: Within,
    /// Fences that the origin had called.
    fences: u64,
    displacement: u64,
    pieces: Vec<Span>,
    touch: Touch,
}

impl Shared {
    pub fn new(members: usize) -> Shared {
        let (fenced, locked, started) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (exposed, early, own, passive) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Shared { fences: BTreeMap::new(), members, fenced, locked, started, own, exposed, passive, early }
    }

    /// A rank has made the window. Others may have done something to it before it could tell.
    pub fn expose(&mut self, rank: u32, base: u64, size: u64, unit: u64, found: &mut dyn FnMut(Found)) {
        self.exposed.insert(rank, (base, size, unit));
        self.fences.insert(rank, 0);
        for access in self.early.remove(&rank).unwrap_or_default() {
            self.accessed(rank, access, found);
        }
    }

    /// Bytes of a window of `rank` that lie there: as displacements in bytes.
    fn within(&self, rank: u32, start: u64, length: u64) -> Option<(u64, u64)> {
        let &(base, size, _) = self.exposed.get(&rank)?;
        let (first, end) = (start.max(base), start.saturating_add(length).min(base.saturating_add(size)));
        (base != 0 && first < end).then(|| (first - base, end - first))
    }

    pub fn fence(&mut self, rank: u32) {
        *self.fences.entry(rank).or_default() += 1;
        let over = if self.fences.len() < self.members { 0 } else { self.fences.values().min().copied().unwrap_or(0) };
        while let Some(first) = self.fenced.first_entry().filter(|first| first.key().0 < over) {
            first.remove();
        }
    }

    fn fences(&self, rank: u32) -> u64 {
        self.fences.get(&rank).copied().unwrap_or(0)
    }
}

/// Which epoch an access is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    Fence,
    Lock,
    /// The so many-th that the origin has started for the target.
    Start(u64),
}

impl Shared {
    /// An operation on `target`.
    pub fn access(
        &mut self,
        within: Within,
        target: u32,
        displacement: u64,
        pieces: &[(u64, u64)],
        touch: Touch,
        found: &mut dyn FnMut(Found),
    ) {
        let fences = self.fences(touch.site.rank);
        let access = Early { within, fences, displacement, pieces: pieces.to_vec(), touch };
        if self.exposed.contains_key(&target) {
            return self.accessed(target, access, found);
        }
        let early = self.early.entry(target).or_default();
        if early.len() < MOST {
            early.push(access);
        }
    }

    fn accessed(&mut self, target: u32, access: Early, found: &mut dyn FnMut(Found)) {
        let Early { within, fences, displacement, pieces, touch } = access;
        let origin = touch.site.rank;
        let base = self.base(target, displacement);
        for (start, length) in pieces {
            let start = base.wrapping_add(start);
            let epoch = match within {
                Within::Fence => self.fenced.entry((fences, target)).or_default(),
                Within::Lock => self.locked.entry((target, origin)).or_default(),
                Within::Start(number) => {
                    let list = self.started.entry((target, origin, number)).or_default();
                    if list.len() < MOST {
                        list.push((start, length, touch));
                    }
                    continue;
                }
            };
            epoch.touch(start, length, touch).into_iter().for_each(|other| found(clash(&other, &touch, target)));
        }
    }

    /// A message of a rank, or the rank itself, reads or writes its own memory: in a fence epoch, or in an exposure
    /// epoch that goes on (`exposed`).
    pub fn local(&mut self, start: u64, length: u64, touch: Touch, exposed: bool, found: &mut dyn FnMut(Found)) {
        let rank = touch.site.rank;
        let Some((start, length)) = self.within(rank, start, length) else { return };
        if exposed {
            let own = self.own.entry(rank).or_default();
            if own.len() < MOST {
                own.push((start, length, touch));
            }
            return;
        }
        let epoch = self.fenced.entry((self.fences(rank), rank)).or_default();
        epoch.touch(start, length, touch).into_iter().for_each(|other| found(clash(&other, &touch, rank)));
    }

    /// An operation under a lock: those of other ranks that may come at the same time.
    pub fn passive(
        &mut self,
        clocks: &Clocks,
        target: u32,
        (displacement, pieces): (u64, &[Span]),
        touch: Touch,
        exclusive: bool,
        found: &mut dyn FnMut(Found),
    ) {
        if !self.exposed.contains_key(&target) {
            return;
        }
        let base = self.base(target, displacement);
        for &(start, length) in pieces {
            let clashes = self.passive.entry(target).or_default().access(clocks, base.wrapping_add(start), length, touch, exclusive);
            clashes.into_iter().for_each(|other| found(clash(&other, &touch, target)));
        }
    }

    /// The rank itself reads or writes its memory, which others may use under locks.
    pub fn passive_local(&mut self, clocks: &Clocks, start: u64, length: u64, touch: Touch, exclusive: bool, found: &mut dyn FnMut(Found)) {
        let rank = touch.site.rank;
        if let Some((start, length)) = self.within(rank, start, length) {
            let clashes = self.passive.entry(rank).or_default().access(clocks, start, length, touch, exclusive);
            clashes.into_iter().for_each(|other| found(clash(&other, &touch, rank)));
        }
    }

    /// What `origin` has done under locks is complete, at one target or at all.
    pub fn passive_complete(&mut self, clocks: &Clocks, origin: u32, target: Option<u32>) {
        let all = self.passive.iter_mut().filter(|(rank, _)| target.is_none_or(|target| target == **rank));
        all.for_each(|(_, passive)| passive.complete(clocks, origin));
    }

    /// An operation of `touch` on the bytes of `pieces` is complete: a read that has what it wanted.
    pub fn complete_read(&mut self, target: u32, displacement: u64, pieces: &[(u64, u64)], touch: Touch) {
        self.forget_early(|access| access.touch == touch && access.displacement == displacement, target);
        let base = self.base(target, displacement);
        let Some(epoch) = self.locked.get_mut(&(target, touch.site.rank)) else { return };
        for (start, _) in pieces {
            epoch.touched.remove(&(base.wrapping_add(*start), touch));
        }
    }

    /// The first byte of a displacement.
    fn base(&self, target: u32, displacement: u64) -> u64 {
        displacement.wrapping_mul(self.exposed.get(&target).map_or(1, |exposed| exposed.2))
    }

    fn forget_early(&mut self, is: impl Fn(&Early) -> bool, target: u32) {
        if let Some(early) = self.early.get_mut(&target) {
            early.retain(|access| !is(access));
        }
    }

    /// What `origin` has done to `target` is complete.
    pub fn complete(&mut self, origin: u32, target: u32) {
        self.forget_early(|access| access.within == Within::Lock && access.touch.site.rank == origin, target);
        self.locked.remove(&(target, origin));
    }

    /// What `origin` has done is complete everywhere.
    pub fn complete_all(&mut self, origin: u32) {
        let targets: Vec<u32> = self.early.keys().copied().collect();
        for target in targets {
            self.forget_early(|access| access.within == Within::Lock && access.touch.site.rank == origin, target);
        }
        self.locked.retain(|key, _| key.1 != origin);
    }

    /// An exposure epoch is over; for each origin, which of its epochs for this target belongs to it.
    pub fn exposure(&mut self, target: u32, epochs: &[(u32, u64)], found: &mut dyn FnMut(Found)) {
        let mut epoch = Epoch::default();
        let own = self.own.remove(&target).unwrap_or_default();
        let others = epochs.iter().flat_map(|&(origin, number)| self.started.remove(&(target, origin, number)).unwrap_or_default());
        for (start, length, touch) in own.into_iter().chain(others) {
            epoch.touch(start, length, touch).into_iter().for_each(|other| found(clash(&other, &touch, target)));
        }
    }
}

fn clash(one: &Touch, other: &Touch, target: u32) -> Found {
    let (one, other) = if one <= other { (one, other) } else { (other, one) };
    let detail =
        format!("{} and {} use the same bytes of rank {target}'s window in one epoch: the outcome is undefined", one.name(), other.name());
    Found { kind: Kind::Conflict, detail, sites: vec![one.site, other.site], communicator: None }
}

/// What a rank has open on a window.
#[derive(Default)]
pub struct Own {
    /// The operation that was called last.
    pub last: Option<Site>,
    /// The window of all its ranks, if it is known which it is.
    pub shared: Option<usize>,
    pub fence: bool,
    /// Something was done since the last fence that only a fence completes.
    pub unfenced: Option<Site>,
    /// The first lock in a fence epoch, if nothing else has been done in it.
    pub nested: Option<Site>,
    pub locked: BTreeSet<i64>,
    /// Those of them whose lock is exclusive.
    pub exclusive: BTreeSet<i64>,
    pub locked_all: bool,
    /// The targets of MPI_Win_start.
    pub started: Option<Vec<u32>>,
    /// How often each target was in one.
    pub starts: BTreeMap<u32, u64>,
    /// The origins of MPI_Win_post, and which of their epochs for this rank it is.
    pub posted: Option<Vec<(u32, u64)>>,
    pub posts: BTreeMap<u32, u64>,
}

impl Own {
    /// Why a synchronisation call does not fit what is open; what it opens and closes. `target`: rank of the window.
    pub fn synchronises(&mut self, name: &str, target: i64, assertion: u32) -> Option<&'static str> {
        let passive = self.locked_all || !self.locked.is_empty();
        match name {
            "MPI_Win_fence" => {
                let wrong = (passive || self.started.is_some() || self.posted.is_some())
                    .then_some("MPI_Win_fence within an epoch of MPI_Win_lock, MPI_Win_start or MPI_Win_post");
                (self.fence, self.unfenced) = (assertion & 2 == 0, None);
                wrong
            }
            "MPI_Win_lock" | "MPI_Win_lock_all" => {
                let again = if name == "MPI_Win_lock" { self.locked.contains(&target) || self.locked_all } else { passive };
                let wrong = if again {
                    Some("a lock within another one of the same target")
                } else if self.unfenced.is_some() {
                    Some("a lock before a fence has completed what was done")
                } else {
                    (self.started.is_some() || self.posted.is_some()).then_some("a lock within an epoch of MPI_Win_start or MPI_Win_post")
                };
                match name {
                    "MPI_Win_lock" => {
                        self.locked.insert(target);
                        if assertion & 4 != 0 {
                            self.exclusive.insert(target);
                        }
                    }
                    _ => self.locked_all = true,
                }
                wrong
            }
            "MPI_Win_unlock" => {
                self.exclusive.remove(&target);
                (!self.locked.remove(&target)).then_some("MPI_Win_unlock of a target that is not locked")
            }
            "MPI_Win_unlock_all" => (!std::mem::take(&mut self.locked_all)).then_some("MPI_Win_unlock_all of a window that is not locked"),
            "MPI_Win_flush" | "MPI_Win_flush_local" => {
                (!self.locked_all && !self.locked.contains(&target)).then_some("a flush of a target that is not locked")
            }
            "MPI_Win_flush_all" | "MPI_Win_flush_local_all" => (!passive).then_some("a flush of a window that is not locked"),
            "MPI_Win_complete" => self.started.take().is_none().then_some("MPI_Win_complete without MPI_Win_start"),
            "MPI_Win_wait" | "MPI_Win_test" => self.posted.is_none().then_some("MPI_Win_wait without MPI_Win_post"),
            "MPI_Win_start" => {
                let wrong = (self.started.is_some() || passive).then_some("MPI_Win_start within another epoch");
                wrong.or(self.unfenced.map(|_| "MPI_Win_start before a fence has completed what was done"))
            }
            "MPI_Win_post" => {
                let wrong = (self.posted.is_some() || passive).then_some("MPI_Win_post within another epoch");
                wrong.or(self.unfenced.map(|_| "MPI_Win_post before a fence has completed what was done"))
            }
            _ => None,
        }
    }

    /// The lock that lies between two fences of which neither says that there is no epoch between them.
    pub fn nests(&mut self, name: &str, assertion: u32, site: Site) -> Option<Site> {
        match name {
            "MPI_Win_lock" | "MPI_Win_lock_all" if self.fence && self.unfenced.is_none() => {
                self.nested.get_or_insert(site);
                None
            }
            "MPI_Win_fence" => self.nested.take().filter(|_| assertion & 1 == 0),
            _ => None,
        }
    }

    /// In which epoch an operation on `target` (and its rank in MPI_COMM_WORLD) is.
    pub fn within(&mut self, target: i64, world: Option<u32>, site: Site) -> Option<Within> {
        if self.locked_all || self.locked.contains(&target) {
            return Some(Within::Lock);
        }
        if let Some(started) = &self.started {
            let world = world.filter(|world| started.contains(world))?;
            return Some(Within::Start(self.starts.get(&world).copied().unwrap_or(0)));
        }
        if self.fence {
            self.unfenced.get_or_insert(site);
            return Some(Within::Fence);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(rank: u32, access: Access) -> Touch {
        Touch { site: Site { rank, call: narrows_mpicalls::by_name("MPI_Put").unwrap(), place: 0 }, access, local: false }
    }

    fn clashes(within: Within, accesses: &[(u32, Access, u64)]) -> usize {
        let mut shared = Shared::new(3);
        (0..3).for_each(|rank| shared.expose(rank, 4096, 64, 8, &mut |_| unreachable!()));
        let mut count = 0;
        for &(rank, access, displacement) in accesses {
            shared.access(within, 0, displacement, &[(0, 8)], touch(rank, access), &mut |_| count += 1);
        }
        shared.exposure(0, &[(1, 1), (2, 1)], &mut |_| count += 1);
        count
    }

    #[test]
    fn only_what_meets_in_one_epoch_clashes() {
        let (sum, max) = (Access::Accumulate(4, 1), Access::Accumulate(2, 1));
        for within in [Within::Fence, Within::Start(1)] {
            assert_eq!(clashes(within, &[(1, Access::Put, 0), (2, Access::Put, 0)]), 1);
            assert_eq!(clashes(within, &[(1, Access::Put, 0), (2, Access::Put, 1)]), 0);
            assert_eq!(clashes(within, &[(1, Access::Put, 0), (2, Access::Get, 0)]), 1);
            assert_eq!(clashes(within, &[(1, Access::Get, 0), (2, Access::Get, 0)]), 0);
            assert_eq!(clashes(within, &[(1, sum, 0), (2, sum, 0)]), 0);
            assert_eq!(clashes(within, &[(1, sum, 0), (2, max, 0)]), 1);
            assert_eq!(clashes(within, &[(1, sum, 0), (1, max, 0)]), 0, "those of one rank are in order");
            // Ints at bytes 0 and 2.
            let int = Access::Accumulate(4, narrows_facts::kind::of(narrows_facts::kind::INTEGER, 4));
            let mut epoch = Epoch::default();
            assert!(epoch.touch(0, 16, touch(1, int)).is_empty());
            assert_eq!((epoch.touch(4, 8, touch(2, int)).len(), epoch.touch(18, 4, touch(2, int)).len()), (0, 0));
            assert_eq!(epoch.touch(2, 4, touch(0, int)).len(), 2);
            let real = Access::Accumulate(4, 2);
            assert_eq!(clashes(within, &[(1, sum, 0), (1, real, 0)]), 1, "of another type they are not");
            assert_eq!(clashes(within, &[(1, sum, 0), (2, Access::Accumulate(NO_OP, 1), 0)]), 0);
            assert_eq!(clashes(within, &[(1, sum, 0), (2, Access::Get, 0)]), 1);
        }
        // Other ranks may be ordered by messages.
        assert_eq!(clashes(Within::Lock, &[(1, Access::Put, 0), (2, Access::Put, 0)]), 0);
        assert_eq!(clashes(Within::Lock, &[(1, Access::Put, 0), (1, Access::Put, 0)]), 1);
    }

    /// The unit of a target's displacements is known when it has told.
    #[test]
    fn what_comes_before_the_target_has_told_waits() {
        let clashes = |displacements: [u64; 2], flushed: bool| {
            let (mut shared, mut count) = (Shared::new(2), 0);
            shared.access(Within::Lock, 0, displacements[0], &[(0, 4)], touch(1, Access::Put), &mut |_| count += 1);
            if flushed {
                shared.complete(1, 0);
            }
            shared.expose(0, 4096, 64, 4, &mut |_| count += 1);
            shared.access(Within::Lock, 0, displacements[1], &[(0, 4)], touch(1, Access::Get), &mut |_| count += 1);
            count
        };
        assert_eq!((clashes([2, 1], false), clashes([2, 2], false), clashes([2, 2], true)), (0, 1, 0));
    }

    #[test]
    fn a_fence_and_a_flush_begin_anew() {
        let mut shared = Shared::new(2);
        (0..2).for_each(|rank| shared.expose(rank, 4096, 64, 1, &mut |_| unreachable!()));
        let mut count = 0;
        let put = touch(1, Access::Put);
        shared.access(Within::Fence, 0, 0, &[(0, 8)], put, &mut |_| count += 1);
        (0..2).for_each(|rank| shared.fence(rank));
        assert!(shared.fenced.is_empty());
        shared.access(Within::Fence, 0, 0, &[(0, 8)], put, &mut |_| count += 1);
        shared.access(Within::Lock, 0, 0, &[(0, 8)], put, &mut |_| count += 1);
        shared.complete(1, 0);
        shared.access(Within::Lock, 0, 0, &[(0, 8)], put, &mut |_| count += 1);
        assert_eq!(count, 0);
        // The rank's own message into the same bytes.
        let store = Touch { local: true, ..touch(0, Access::Put) };
        shared.local(4096 + 4, 100, store, false, &mut |_| count += 1);
        shared.local(8192, 100, store, false, &mut |_| count += 1);
        assert_eq!(count, 1);
    }

    /// A store of the target between MPI_Win_post and MPI_Win_wait.
    #[test]
    fn what_a_target_does_while_it_is_exposed_clashes() {
        let clashes = |offset: u64| {
            let (mut shared, mut count) = (Shared::new(2), 0);
            (0..2).for_each(|rank| shared.expose(rank, 4096, 64, 1, &mut |_| unreachable!()));
            shared.access(Within::Start(1), 0, 0, &[(0, 8)], touch(1, Access::Put), &mut |_| count += 1);
            shared.local(4096 + offset, 4, Touch { local: true, ..touch(0, Access::Get) }, true, &mut |_| count += 1);
            shared.exposure(0, &[(1, 1)], &mut |_| count += 1);
            shared.exposure(0, &[(1, 1)], &mut |_| count += 1);
            count
        };
        assert_eq!((clashes(4), clashes(8)), (1, 0));
    }
}
