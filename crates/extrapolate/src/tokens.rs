//! Recordings on a grid: communicators become sets of directions, and operations become tokens.

use crate::grid::Grid;
use crate::recording::{Item, Recording, Verb, Vocabulary};
use narrows_trace::Communicators;
use std::collections::BTreeMap;

/// A family of communicators: those of all ranks, of the rows of a grid, of its planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    /// Directions in which members differ, a bit each; all: the world.
    pub directions: u8,
    /// How many others came before with the same members.
    pub copy: u32,
}

/// Everybody, as the program itself has it.
pub const WORLD: Family = Family { directions: ALL_DIRECTIONS, copy: 0 };
const ALL_DIRECTIONS: u8 = 0b111;

/// The members of the communicator of a rank.
pub fn members(grid: Grid, directions: u8, rank: u32) -> Vec<u32> {
    if directions == ALL_DIRECTIONS {
        return (0..grid.ranks()).collect();
    }
    let here = grid.place(rank).at;
    let range = |d: usize| if directions >> d & 1 == 1 { 0..grid.sides[d] } else { here[d]..here[d] + 1 };
    let mut members = Vec::new();
    for z in range(2) {
        for y in range(1) {
            members.extend(range(0).map(|x| grid.rank([x, y, z])));
        }
    }
    members
}

/// The families of a program, in the order in which its communicators were numbered; of each communicator its family.
fn families(communicators: &Communicators, grid: Grid) -> Vec<Option<Family>> {
    let mut copies: BTreeMap<Vec<u32>, u32> = BTreeMap::from([(members(grid, ALL_DIRECTIONS, 0), 1)]);
    let mut found = vec![Some(WORLD)];
    for number in 1..communicators.count() {
        let ranks: Vec<u32> = communicators.members(number).collect();
        let copy = copies.entry(ranks.clone()).or_default();
        let (first, here) = (grid.place(ranks[0]).at, *copy);
        *copy += 1;
        let directions = if ranks.len() == grid.ranks() as usize {
            ALL_DIRECTIONS
        } else {
            (0..3).filter(|&d| ranks.iter().any(|&rank| grid.place(rank).at[d] != first[d])).fold(0, |bits, d| bits | 1 << d)
        };
        let is_such = members(grid, directions, ranks[0]) == ranks;
        found.push(is_such.then_some(Family { directions, copy: here }));
    }
    found
}

/// All families of a program.
#[derive(Clone, Debug, Default)]
pub struct Families {
    /// In the order of communicators; without the world.
    all: Vec<Family>,
    /// Whether some family's communicators stand among those of another one: they are numbered rank by rank.
    is_mixed: bool,
}

impl Families {
    fn note(&mut self, of_recording: &[Option<Family>]) {
        let known: Vec<Family> = of_recording.iter().flatten().copied().filter(|family| *family != WORLD).collect();
        let mut seen: Vec<Family> = Vec::new();
        for family in known {
            if !self.all.contains(&family) {
                self.all.push(family);
            }
            match seen.iter().position(|other| *other == family) {
                Some(place) => self.is_mixed |= place + 1 != seen.len(),
                None => seen.push(family),
            }
        }
    }
}

/// An operation without partner and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    /// What is done.
    pub word: u32,
    /// Kinds of waits.
    waits: u32,
    /// Of a collective.
    pub family: Option<Family>,
    /// Whether this rank is the root of the collective.
    pub is_root: bool,
}

/// Tokens of all recordings.
#[derive(Debug, Default)]
pub struct Tokens {
    numbers: BTreeMap<Token, u32>,
    /// By number.
    pub all: Vec<Token>,
    /// By recording and rank, the tokens of the list.
    pub lists: Vec<Vec<Vec<u32>>>,
    /// Those of the communicators.
    pub families: Families,
    /// Parts in collectives on communicators that are none of a grid.
    pub strange: u64,
}

impl Tokens {
    /// Of recordings on these grids.
    pub fn of(recordings: &[&Recording], grids: &[Grid], vocabulary: &Vocabulary) -> Tokens {
        let mut tokens = Tokens::default();
        for (recording, grid) in recordings.iter().zip(grids) {
            let families = families(&recording.communicators, *grid);
            tokens.families.note(&families);
            let mut lists = Vec::with_capacity(recording.lists.len());
            for (list, rank) in recording.lists.iter().zip(0..) {
                let numbers = list.iter().map(|item| tokens.number(recording, rank, item, &families, vocabulary)).collect();
                lists.push(numbers);
            }
            tokens.lists.push(lists);
        }
        tokens
    }

    fn number(&mut self, recording: &Recording, rank: u32, item: &Item, families: &[Option<Family>], vocabulary: &Vocabulary) -> u32 {
        let (mut family, mut is_root) = (None, false);
        if let Verb::Collective(operation, root, _) = vocabulary.words[item.word as usize].verb {
            family = families[item.communicator as usize];
            self.strange += u64::from(family.is_none());
            is_root = operation.has_root() && recording.communicators.member(item.communicator, root) == Some(rank);
        }
        let token = Token { word: item.word, waits: vocabulary.wait_shapes[item.waits as usize], family, is_root };
        *self.numbers.entry(token).or_insert_with(|| {
            self.all.push(token);
            self.all.len() as u32 - 1
        })
    }
}

/// The communicators of a larger program, numbered as those of the recordings: family by family, or, as a merged
/// recording numbers them, by the first rank that has one. Then the number of each family's communicator by its first
/// member.
pub fn communicators(grid: Grid, families: &Families) -> (Communicators, BTreeMap<(Family, u32), u32>) {
    let mut all = Communicators::world(grid.ranks());
    let mut numbers = BTreeMap::new();
    let mut add = |rank: u32, family: Family| {
        let first = first_member(grid, family.directions, rank);
        if numbers.contains_key(&(family, first)) {
            return;
        }
        let members = members(grid, family.directions, rank);
        if let Some(number) = (members.len() > 1).then(|| all.add(members)).flatten() {
            numbers.insert((family, first), number);
        }
    };
    if families.is_mixed {
        (0..grid.ranks()).for_each(|rank| families.all.iter().for_each(|family| add(rank, *family)));
    } else {
        families.all.iter().for_each(|family| (0..grid.ranks()).for_each(|rank| add(rank, *family)));
    }
    (all, numbers)
}

/// Which of a family's communicators a rank is in: its first member.
pub fn first_member(grid: Grid, directions: u8, rank: u32) -> u32 {
    let here = grid.place(rank).at;
    grid.rank(std::array::from_fn(|d| if directions >> d & 1 == 1 { 0 } else { here[d] }))
}
