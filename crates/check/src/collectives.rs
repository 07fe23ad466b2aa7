//! The collectives of a communicator, one by one: all its ranks call the same ones in the same order, and what one
//! sends is what the other one expects.

use crate::{Found, Kind, Site, list};
use narrows_facts::{Collective, NOBODY, OPERATIONS, ROOT, Signature};
use narrows_mpicalls::{CALLS, NONE};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Up to so many members each pair is compared; beyond that each rank with the first one. Our own choice.
const ALL_PAIRS: usize = 64;

/// A call of one rank.
struct Arrived {
    rank: u32,
    /// Within its group.
    position: usize,
    /// Which of two groups it is in.
    first: bool,
    call: Collective,
}

/// A communicator.
pub struct Group {
    members: Vec<u32>,
    remote: Vec<u32>,
    /// Members that have told that they have it.
    holders: BTreeSet<u32>,
    /// How many collectives each of its ranks has called.
    called: BTreeMap<u32, u64>,
    /// Those that not all have called yet.
    open: VecDeque<Vec<Arrived>>,
    /// How many are over.
    over: u64,
    /// The first that does not fit: which, and why.
    mistake: Option<(u64, String)>,
}

impl Group {
    pub fn new(members: Vec<u32>, remote: Vec<u32>) -> Group {
        Group { members, remote, holders: BTreeSet::new(), called: BTreeMap::new(), open: VecDeque::new(), over: 0, mistake: None }
    }

    /// `rank` has told that it has this communicator.
    pub fn add_holder(&mut self, rank: u32) {
        self.holders.insert(rank);
    }

    /// The rank in MPI_COMM_WORLD that `rank` calls `peer`.
    pub fn peer(&self, rank: u32, peer: i64) -> Option<u32> {
        let others = if self.remote.is_empty() || self.remote.contains(&rank) { &self.members } else { &self.remote };
        others.get(usize::try_from(peer).ok()?).copied()
    }

    /// Whom a message from anybody may come from.
    pub fn others(&self, rank: u32) -> impl Iterator<Item = u32> {
        let others = if self.remote.is_empty() || self.remote.contains(&rank) { &self.members } else { &self.remote };
        others.iter().copied().filter(move |&other| other != rank)
    }

    /// How many ranks it has.
    pub fn size(&self) -> usize {
        self.members.len() + self.remote.len()
    }

    /// Who has not called the collective that `rank` has called last; if all have, who has called another one.
    pub fn missing(&self, rank: u32) -> Vec<u32> {
        let Some(index) = self.called.get(&rank).and_then(|called| called.checked_sub(1)) else { return Vec::new() };
        let others = || self.members.iter().chain(&self.remote).copied().filter(|&other| other != rank);
        let missing: Vec<u32> = others().filter(|other| self.called.get(other).copied().unwrap_or(0) <= index).collect();
        let slot = index.checked_sub(self.over).and_then(|slot| self.open.get(slot as usize)).filter(|_| missing.is_empty());
        let own = slot.and_then(|slot| slot.iter().find(|arrived| arrived.rank == rank));
        match slot.zip(own) {
            None => missing,
            Some((slot, own)) => slot
                .iter()
                .filter(|other| other.rank != rank && conflict(own, other, !self.remote.is_empty()).is_some())
                .map(|other| other.rank)
                .collect(),
        }
    }

    /// A rank calls a collective.
    pub fn calls(&mut self, rank: u32, call: Collective) {
        let first = self.members.contains(&rank);
        let side = if first { &self.members } else { &self.remote };
        let Some(position) = side.iter().position(|&member| member == rank) else { return };
        let called = self.called.entry(rank).or_default();
        let index = *called;
        *called += 1;
        // Behind one that does not fit nothing does.
        if index < self.over || self.mistake.as_ref().is_some_and(|(wrong, _)| index > *wrong) {
            return;
        }
        let slot = (index - self.over) as usize;
        while self.open.len() <= slot {
            self.open.push_back(Vec::new());
        }
        let arrived = Arrived { rank, position, first, call };
        if self.mistake.is_none() {
            let size = self.members.len() + self.remote.len();
            let others = if size <= ALL_PAIRS { usize::MAX } else { 1 };
            let why = self.open[slot].iter().take(others).find_map(|other| conflict(other, &arrived, !self.remote.is_empty()));
            self.mistake = why.map(|why| (index, why));
        }
        self.open[slot].push(arrived);
        while self.mistake.is_none() && self.open.front().is_some_and(|slot| slot.len() == self.members.len() + self.remote.len()) {
            self.open.pop_front();
            self.over += 1;
        }
    }

    /// Some rank has called another collective than the others.
    pub fn is_wrong(&self) -> bool {
        self.mistake.is_some()
    }

    /// What does not fit. `has_ended`: whether a rank calls nothing any more.
    pub fn finding(&self, is_world: bool, has_ended: impl Fn(u32) -> bool) -> Option<Found> {
        let (index, slot, why) = match &self.mistake {
            Some((index, why)) => (*index, self.open.get((index - self.over) as usize)?, why.clone()),
            None => (self.over, self.open.front()?, self.never_called(has_ended)?),
        };
        let mut ways: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for arrived in slot {
            ways.entry(describe(&arrived.call)).or_default().push(arrived.rank);
        }
        let ways: Vec<String> = ways
            .into_iter()
            .map(|(what, mut ranks)| {
                ranks.sort_unstable();
                format!("{what} on {}", list(&ranks))
            })
            .collect();
        let detail = format!("collectives do not fit, the {} on {}: {why} ({})", ordinal(index + 1), self.name(is_world), ways.join("; "));
        let sites = slot.iter().map(|arrived| Site { rank: arrived.rank, call: arrived.call.call, place: arrived.call.place });
        Some(Found { kind: Kind::Collective, detail, sites: sites.collect(), communicator: None })
    }

    /// Who never calls the first collective that not all have called.
    fn never_called(&self, has_ended: impl Fn(u32) -> bool) -> Option<String> {
        if self.holders.len() != self.size() {
            return None;
        }
        let slot = self.open.front()?;
        let absent = |rank: &u32| has_ended(*rank) && slot.iter().all(|arrived| arrived.rank != *rank);
        let mut never: Vec<u32> = self.members.iter().chain(&self.remote).copied().filter(absent).collect();
        never.sort_unstable();
        let verb = if never.len() == 1 { "calls" } else { "call" };
        (!never.is_empty()).then(|| format!("{} never {verb} it", list(&never)))
    }

    /// What it is called, MPI_COMM_WORLD or by its members.
    pub fn name(&self, is_world: bool) -> String {
        if is_world {
            return "MPI_COMM_WORLD".to_owned();
        }
        let mut all: Vec<u32> = self.members.iter().chain(&self.remote).copied().collect();
        all.sort_unstable();
        format!("a communicator of {}", list(&all))
    }
}

fn ordinal(number: u64) -> String {
    let end = match (number % 10, number % 100) {
        (1, last) if last != 11 => "st",
        (2, last) if last != 12 => "nd",
        (3, last) if last != 13 => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn name(call: &Collective) -> &'static str {
    CALLS.get(call.call as usize).map_or("?", |call| call.name)
}

/// Large counts make no other collective.
fn plain(call: &Collective) -> &'static str {
    let name = name(call);
    name.strip_suffix("_c").unwrap_or(name)
}

fn operation(call: &Collective) -> &'static str {
    OPERATIONS.get(call.operation as usize).copied().unwrap_or("?")
}

fn describe(call: &Collective) -> String {
    let mut text = name(call).to_owned();
    match call.root {
        NONE => {}
        ROOT => text += " root MPI_ROOT",
        NOBODY => text += " root MPI_PROC_NULL",
        root => text += &format!(" root {root}"),
    }
    if call.operation != 0 {
        text += &format!(" with {}", operation(call));
    }
    if let Some(same) = call.same {
        text += &format!(" of {same}");
    }
    text
}

/// Whether the roots of two calls on a communicator of two groups fit: the root's group says who it is by MPI_ROOT and
/// MPI_PROC_NULL, the other one by its rank (MPI 4.1, section 6.2.3).
fn roots_fit(a: &Arrived, b: &Arrived) -> bool {
    let (names, says) = if a.call.root >= 0 { (a, b) } else { (b, a) };
    match (names.call.root >= 0, a.first == b.first) {
        (true, true) => names.call.root == says.call.root,
        (true, false) => says.call.root == if names.call.root == says.position as i64 { ROOT } else { NOBODY },
        // Nobody is served if both groups say MPI_PROC_NULL.
        (false, true) => a.call.root == NOBODY || b.call.root == NOBODY,
        (false, false) => a.call.root == NOBODY && b.call.root == NOBODY,
    }
}

/// Why these two cannot be one collective; `inter`: of a communicator of two groups.
fn conflict(a: &Arrived, b: &Arrived, inter: bool) -> Option<String> {
    if plain(&a.call) != plain(&b.call) {
        return Some("ranks call different ones".to_owned());
    }
    let rooted = a.call.root != NONE || b.call.root != NONE;
    if if inter && rooted { !roots_fit(a, b) } else { a.call.root != b.call.root } {
        return Some("their roots differ".to_owned());
    }
    if a.call.operation != b.call.operation {
        return Some("their reduce operations differ".to_owned());
    }
    if let (Some(one), Some(other)) = (a.call.same, b.call.same)
        && differ(&one, &other)
    {
        return Some("their counts or types differ".to_owned());
    }
    let one_way = |from: &Arrived, to: &Arrived| {
        // A root takes from all, or gives to all; other ranks have nothing with each other.
        let (sent, expected) = (from.call.send.of(to.position)?, to.call.receive.of(from.position)?);
        differ(&sent, &expected).then(|| format!("rank {} sends {sent} and rank {} expects {expected}", from.rank, to.rank))
    };
    if inter && a.first == b.first {
        return None;
    }
    one_way(a, b).or_else(|| one_way(b, a))
}

fn differ(a: &Signature, b: &Signature) -> bool {
    a.bytes != b.bytes || !a.fits(b)
}
