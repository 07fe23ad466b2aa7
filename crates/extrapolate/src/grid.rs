//! Grids of ranks: how many ranks in each direction, and where in it a rank stands.

use std::fmt;

/// How the number of ranks becomes a grid. The first direction is the one in which neighbours have neighbouring ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All ranks in a row.
    Line,
    /// As even as can be in `directions`, the shortest side first: `MPI_Dims_create` with `MPI_Cart_create`.
    Ascending {
        /// 2 or 3.
        directions: usize,
    },
    /// The same with the longest side first.
    Descending {
        /// 2 or 3.
        directions: usize,
    },
    /// One side is the same at all numbers of ranks (threads of a node, tensor-parallel ranks); the rest is a row.
    Inner {
        /// Its length, in the first direction.
        side: u32,
    },
    /// The same with the fixed side in the last direction.
    Outer {
        /// Its length.
        side: u32,
    },
}

impl Rule {
    /// Those to be tried, the simplest first. Sides that stay divide `common`.
    pub fn all(common: u32) -> Vec<Rule> {
        let mut rules = vec![
            Rule::Line,
            Rule::Ascending { directions: 2 },
            Rule::Descending { directions: 2 },
            Rule::Ascending { directions: 3 },
            Rule::Descending { directions: 3 },
        ];
        // Our own choice: nodes and boards have at most 16 ranks beside each other in what was recorded small.
        for side in (2..=common.min(16)).filter(|side| common.is_multiple_of(*side)) {
            rules.extend([Rule::Inner { side }, Rule::Outer { side }]);
        }
        rules
    }

    /// The grid of so many ranks.
    pub fn sides(self, ranks: u32) -> [u32; 3] {
        let mut sides = match self {
            Rule::Line => [ranks, 1, 1],
            Rule::Ascending { directions } | Rule::Descending { directions } => even(ranks, directions),
            Rule::Inner { side } => [side, ranks / side, 1],
            Rule::Outer { side } => [ranks / side, side, 1],
        };
        if let Rule::Ascending { directions } = self {
            sides[..directions].reverse();
        }
        sides
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Line => f.write_str("a row"),
            Rule::Ascending { directions } => write!(f, "a grid in {directions} directions, shortest side first"),
            Rule::Descending { directions } => write!(f, "a grid in {directions} directions, longest side first"),
            Rule::Inner { side } => write!(f, "groups of {side} neighbouring ranks"),
            Rule::Outer { side } => write!(f, "{side} groups of neighbouring ranks"),
        }
    }
}

/// Factors as near to each other as possible, the largest first.
fn even(ranks: u32, directions: usize) -> [u32; 3] {
    let divisors = |of: u32| (1..=of.isqrt()).filter(move |d| of.is_multiple_of(*d));
    let pair = |of: u32| {
        let small = divisors(of).next_back().unwrap_or(1);
        (of / small, small)
    };
    if directions == 2 {
        let (x, y) = pair(ranks);
        return [x, y, 1];
    }
    let mut best = [ranks, 1, 1];
    for z in divisors(ranks) {
        let (x, y) = pair(ranks / z);
        if y >= z && (x, y) < (best[0], best[1]) {
            best = [x, y, z];
        }
    }
    best
}

/// A grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Ranks in each direction.
    pub sides: [u32; 3],
}

impl Grid {
    /// How many there are.
    pub fn ranks(self) -> u32 {
        self.sides.iter().product()
    }

    /// Where a rank stands.
    pub fn place(self, rank: u32) -> GridRank {
        let [x, y, _] = self.sides;
        GridRank { rank, at: [rank % x, rank / x % y, rank / x / y], grid: self }
    }

    /// The rank that stands there.
    pub fn rank(self, at: [u32; 3]) -> u32 {
        let [x, y, _] = self.sides;
        at[0] + x * (at[1] + y * at[2])
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.sides;
        write!(f, "{x}x{y}x{z}")
    }
}

/// A rank in its grid.
#[derive(Clone, Copy, Debug)]
pub struct GridRank {
    /// Which.
    pub rank: u32,
    /// From 0 in each direction.
    pub at: [u32; 3],
    /// Where.
    pub grid: Grid,
}

/// Which ranks do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// How far from the end of a side a rank feels it: 1 tells corners, edges, faces and the inside.
    pub reach: u32,
    /// Whether even and odd ranks differ.
    pub parity: bool,
}

impl Scheme {
    /// Those to be tried, the simplest first.
    pub const ALL: [Scheme; 3] =
        [Scheme { reach: 1, parity: false }, Scheme { reach: 1, parity: true }, Scheme { reach: 2, parity: false }];

    /// A number for the ranks that do the same.
    pub fn class(self, place: &GridRank) -> u32 {
        let mut class = if self.parity { place.rank % 2 } else { 0 };
        for (at, side) in place.at.into_iter().zip(place.grid.sides) {
            // A side of one rank has both ends at once.
            let (before, behind) = (at.min(self.reach), (side - 1 - at).min(self.reach));
            class = class << 4 | before << 2 | behind;
        }
        class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_those_of_dims_create() {
        let sides = |rule: Rule, ranks| rule.sides(ranks);
        assert_eq!(sides(Rule::Descending { directions: 3 }, 16), [4, 2, 2]);
        assert_eq!(sides(Rule::Ascending { directions: 3 }, 96), [4, 4, 6]);
        assert_eq!(sides(Rule::Ascending { directions: 2 }, 32), [4, 8, 1]);
        assert_eq!(sides(Rule::Descending { directions: 2 }, 7), [7, 1, 1]);
        assert_eq!(sides(Rule::Descending { directions: 3 }, 32_768), [32, 32, 32]);
    }

    #[test]
    fn a_grid_has_27_kinds_of_places() {
        let grid = Grid { sides: [4, 3, 5] };
        let classes: std::collections::BTreeSet<u32> = (0..60).map(|rank| Scheme::ALL[0].class(&grid.place(rank))).collect();
        assert_eq!(classes.len(), 27);
        assert!((0..60).all(|rank| grid.rank(grid.place(rank).at) == rank));
    }
}
