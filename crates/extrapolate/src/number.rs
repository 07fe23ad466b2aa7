//! Whole numbers of a program's structure (rounds of loops, operations that are waited for) as functions of a place.

use crate::grid::GridRank;

/// What a number may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    Side(usize),
    Ranks,
    LogRanks,
    LogSide(usize),
    Rank,
    At(usize),
}

impl Feature {
    const ALL: [Feature; 12] = [
        Feature::Side(0),
        Feature::Side(1),
        Feature::Side(2),
        Feature::Ranks,
        Feature::LogRanks,
        Feature::LogSide(0),
        Feature::LogSide(1),
        Feature::LogSide(2),
        Feature::Rank,
        Feature::At(0),
        Feature::At(1),
        Feature::At(2),
    ];

    fn of(self, place: &GridRank) -> i64 {
        let sides = place.grid.sides;
        i64::from(match self {
            Feature::Side(d) => sides[d],
            Feature::Ranks => place.grid.ranks(),
            Feature::LogRanks => place.grid.ranks().ilog2(),
            Feature::LogSide(d) => sides[d].ilog2(),
            Feature::Rank => place.rank,
            Feature::At(d) => place.at[d],
        })
    }
}

/// `rise / run` of a feature, and a constant: exact in all that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    constant: i64,
    slope: Option<(Feature, i64, i64)>,
}

impl Number {
    /// The same everywhere.
    pub const fn constant(constant: i64) -> Number {
        Number { constant, slope: None }
    }

    /// At a place.
    pub fn of(&self, place: &GridRank) -> i64 {
        self.constant + self.slope.map_or(0, |(feature, rise, run)| feature.of(place) * rise / run)
    }

    /// The function that has all these values, if there is one of our kind. One that three values of a feature speak
    /// for comes before one of two.
    pub fn fit(samples: &[(GridRank, i64)]) -> Option<Number> {
        let (first, value) = samples.first()?;
        if samples.iter().all(|(_, other)| other == value) {
            return Some(Number::constant(*value));
        }
        let mut best: Option<(usize, Number)> = None;
        for feature in Feature::ALL {
            let base = feature.of(first);
            let Some((far, other)) = samples.iter().max_by_key(|(place, _)| (feature.of(place) - base).abs()) else { continue };
            let (run, rise) = (feature.of(far) - base, other - value);
            if run == 0 || base * rise % run != 0 {
                continue;
            }
            let number = Number { constant: value - base * rise / run, slope: Some((feature, rise, run)) };
            if samples.iter().all(|(place, value)| (feature.of(place) * rise) % run == 0 && number.of(place) == *value) {
                let mut seen: Vec<i64> = samples.iter().map(|(place, _)| feature.of(place)).collect();
                seen.sort_unstable();
                seen.dedup();
                let witnesses = seen.len().min(3);
                if best.is_none_or(|(most, _)| witnesses > most) {
                    best = Some((witnesses, number));
                }
            }
        }
        best.map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    #[test]
    fn a_number_is_what_fits_everywhere() {
        let at = |side: u32| Grid { sides: [side, side, side] }.place(0);
        let fit = |of: fn(i64) -> i64| Number::fit(&[2, 3, 4, 6].map(|side| (at(side), of(i64::from(side)))));
        assert_eq!(fit(|n| n - 1).unwrap().of(&at(16)), 15);
        assert_eq!(fit(|n| 2 * n.pow(3) + 1).unwrap().of(&at(5)), 251);
        assert_eq!(fit(|_| 10), Some(Number::constant(10)));
        assert_eq!(fit(|n| (n & 3).pow(3)), None);
    }
}
