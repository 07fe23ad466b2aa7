//! Whom a rank talks to, as a function of its place.

use crate::grid::GridRank;

/// A function from a place, and the number of the round of the innermost loop, to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Partner {
    /// So far in each direction, around the ends: neighbours of stencils, rows and columns of grids.
    Offset {
        /// In the first round.
        start: [i32; 3],
        /// More in each further one.
        step: [i32; 3],
    },
    /// The rank with other bits: butterflies (`doubles`: 1, 2, 4 ...) and lists of pairs.
    Exclusive {
        /// In the first round.
        start: u32,
        /// How it goes on.
        growth: Growth,
    },
    /// A rank by its number: a master, lists of all.
    Fixed {
        /// In the first round.
        start: i64,
        /// More in each further one.
        step: i64,
    },
    /// The same, counted from the last rank.
    FromLast {
        /// In the first round.
        start: i64,
        /// More in each further one.
        step: i64,
    },
    /// So many ranks further, around the end, twice as many in each round: dissemination.
    Doubling {
        /// In the first round.
        start: i64,
    },
    /// Two directions exchanged: transposes of square grids.
    Transposed {
        /// One of them.
        one: usize,
        /// The other one.
        other: usize,
    },
    /// The mirror image in some directions.
    Mirrored {
        /// A bit each.
        directions: u8,
    },
}

/// From one round to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Growth {
    /// It stays.
    None,
    /// By so much.
    By(i64),
    /// Twice as much.
    Doubles,
}

impl Partner {
    /// The rank; `None` if there is no such rank.
    pub fn of(&self, place: &GridRank, round: u32) -> Option<u32> {
        let ranks = i64::from(place.grid.ranks());
        let round = i64::from(round);
        let rank = match *self {
            Partner::Offset { start, step } => {
                let at = std::array::from_fn(|d| {
                    let further = i64::from(start[d]) + i64::from(step[d]) * round;
                    (i64::from(place.at[d]) + further).rem_euclid(i64::from(place.grid.sides[d])) as u32
                });
                i64::from(place.grid.rank(at))
            }
            Partner::Exclusive { start, growth } => {
                let other = match growth {
                    Growth::None => i64::from(start),
                    Growth::By(step) => i64::from(start) + step * round,
                    Growth::Doubles => i64::from(start).checked_shl(u32::try_from(round).ok()?).filter(|_| round < 32)?,
                };
                i64::from(place.rank) ^ other
            }
            Partner::Fixed { start, step } => start + step * round,
            Partner::FromLast { start, step } => ranks - 1 - start - step * round,
            Partner::Doubling { start } => {
                let further = start.checked_shl(u32::try_from(round).ok()?).filter(|_| round < 32)?;
                (i64::from(place.rank) + further).rem_euclid(ranks)
            }
            Partner::Transposed { one, other } => {
                let mut at = place.at;
                at.swap(one, other);
                let fits = at.iter().zip(place.grid.sides).all(|(at, side)| *at < side);
                i64::from(place.grid.rank(fits.then_some(at)?))
            }
            Partner::Mirrored { directions } => {
                let mirrored = |d: usize| if directions >> d & 1 == 1 { place.grid.sides[d] - 1 - place.at[d] } else { place.at[d] };
                i64::from(place.grid.rank(std::array::from_fn(mirrored)))
            }
        };
        u32::try_from(rank).ok().filter(|rank| i64::from(*rank) < ranks)
    }

    /// All functions that say this of the first two rounds, the likeliest first.
    pub fn candidates(place: &GridRank, first: u32, second: Option<u32>) -> Vec<Partner> {
        let mut found = offsets(place, first, second);
        let (from, to) = (i64::from(place.rank), i64::from(first));
        let next = second.map(i64::from);
        let fixed = Partner::Fixed { start: to, step: next.map_or(0, |next| next - to) };
        let last = i64::from(place.grid.ranks()) - 1;
        let from_last = Partner::FromLast { start: last - to, step: next.map_or(0, |next| to - next) };
        let start = place.rank ^ first;
        let growth = match second.map(|second| place.rank ^ second) {
            None => vec![Growth::None],
            Some(other) => vec![Growth::Doubles, Growth::By(i64::from(other) - i64::from(start))],
        };
        found.extend(growth.into_iter().map(|growth| Partner::Exclusive { start, growth }));
        found.extend([fixed, from_last]);
        // The shortest way first: in small programs longer ones lead to the same ranks.
        let mut ways = [to - from, to - from - last - 1, to - from + last + 1];
        ways.sort_by_key(|way| way.abs());
        found.extend(ways.map(|start| Partner::Doubling { start }));
        found.extend([(0, 1), (0, 2), (1, 2)].map(|(one, other)| Partner::Transposed { one, other }));
        found.extend((1..8).map(|directions| Partner::Mirrored { directions }));
        found.retain(|partner| partner.of(place, 0) == Some(first) && second.is_none_or(|second| partner.of(place, 1) == Some(second)));
        found
    }
}

/// Offsets, those without a way around an end first.
fn offsets(place: &GridRank, first: u32, second: Option<u32>) -> Vec<Partner> {
    let to = place.grid.place(first);
    // Between half of the side back and half of it forth; both where they are the same.
    let both_ways = |from: u32, to: u32, side: u32| {
        let forth = (i64::from(to) - i64::from(from)).rem_euclid(i64::from(side)) as i32;
        let back = forth - side as i32;
        let straight = to as i32 - from as i32;
        match (forth.cmp(&-back), forth) {
            (_, 0) => vec![0],
            (std::cmp::Ordering::Less, _) => vec![forth],
            (std::cmp::Ordering::Greater, _) => vec![back],
            (std::cmp::Ordering::Equal, _) if straight == forth => vec![forth, back],
            (std::cmp::Ordering::Equal, _) => vec![back, forth],
        }
    };
    let ways = |from: &[u32; 3], to: &[u32; 3]| -> Vec<[i32; 3]> {
        let mut all = vec![[0; 3]];
        for d in 0..3 {
            let here = both_ways(from[d], to[d], place.grid.sides[d]);
            let with = |way: &i32| {
                let way = *way;
                all.iter().map(move |vector| std::array::from_fn(|e| if e == d { way } else { vector[e] }))
            };
            all = here.iter().flat_map(with).collect();
        }
        all
    };
    let steps = second.map_or(vec![[0; 3]], |second| ways(&to.at, &place.grid.place(second).at));
    let starts = ways(&place.at, &to.at);
    steps.iter().flat_map(|&step| starts.iter().map(move |&start| Partner::Offset { start, step })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    #[test]
    fn neighbours_of_a_torus_are_offsets() {
        let small = Grid { sides: [2, 4, 1] };
        let large = Grid { sides: [5, 6, 1] };
        // Down in the first direction, from the left end: in the small grid it is up, too.
        let mut found = Partner::candidates(&small.place(0), 1, None);
        let place = large.place(10);
        found.retain(|partner| partner.of(&place, 0) == Some(14));
        assert_eq!(found[0], Partner::Offset { start: [-1, 0, 0], step: [0; 3] });
    }

    #[test]
    fn butterflies_double() {
        let place = Grid { sides: [16, 1, 1] }.place(5);
        let found = Partner::candidates(&place, 5 ^ 1, Some(5 ^ 2));
        let doubles = found.iter().find(|partner| partner.of(&place, 2) == Some(5 ^ 4) && partner.of(&place, 3) == Some(5 ^ 8));
        assert_eq!(doubles, Some(&Partner::Exclusive { start: 1, growth: Growth::Doubles }));
    }
}
