//! How long messages are spread over rails. Both ends cut a message alike: by its length, and by the rail that its
//! sender has chosen.

use crate::config::{Distribution, MpcConfig, RailChoice, Rails, Taking};
use crate::core::Core;
use crate::wire;
use crate::{Protocol, Send};
use narrows_portals::{EntryId, ProcessId};
use narrows_units::Rail;
use std::collections::BTreeMap;

/// The pieces of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    length: u64,
    /// Bytes of a piece, or by rate of a round: a piece for each rail; the last one has what is left.
    size: u64,
    by_rate: bool,
    /// Each piece has a rail and an entry of its own; else all take that of `start`, and one entry.
    spread: bool,
    start: u8,
    taking: Taking,
}

impl Cut {
    pub(crate) fn pieces(&self, rails: &Rails) -> u64 {
        self.pieces_of(self.length, rails)
    }

    /// Those that the first `wanted` bytes are in.
    pub(crate) fn pieces_of(&self, wanted: u64, rails: &Rails) -> u64 {
        if !self.by_rate {
            return wanted.div_ceil(self.size).max(1);
        }
        let (rounds, rest) = (wanted / self.size, wanted % self.size);
        let all = self.taking.count();
        let begun = (0..all).take_while(|&part| rails.share(self.taking, part as usize, self.size) < rest).count();
        (rounds * all + begun as u64).max(1)
    }

    /// How many rails carry it.
    pub(crate) fn rails(&self) -> u64 {
        if self.spread { self.taking.count() } else { 1 }
    }

    /// Each piece has an entry of its own.
    pub(crate) fn entry_each(&self) -> bool {
        self.spread
    }

    /// Where a piece begins, and its bytes, of the first `wanted` ones.
    pub(crate) fn piece(&self, piece: u64, wanted: u64, rails: &Rails) -> (u64, u64) {
        if !self.by_rate {
            let offset = piece * self.size;
            return (offset, (wanted - offset).min(self.size));
        }
        let all = self.taking.count();
        let (round, part) = (piece / all * self.size, (piece % all) as usize);
        let offset = round + rails.share(self.taking, part, self.size);
        (offset, wanted.min(round + rails.share(self.taking, part + 1, self.size)) - offset)
    }

    /// The rail of a piece.
    pub(crate) fn rail(&self, piece: u64, rails: &Rails) -> Rail {
        if !self.spread {
            return rails.all()[usize::from(self.start) % rails.all().len()];
        }
        let mut places = self.taking.places();
        places.nth((piece % self.taking.count()) as usize).map_or_else(|| rails.first(), |place| rails.all()[place])
    }

    /// The number of a piece in match bits, and what it has to add to its offset there.
    pub(crate) fn address(&self, piece: u64) -> (u64, u64) {
        if self.spread { (piece << wire::PIECE_SHIFT, 0) } else { (0, piece * self.size) }
    }
}

/// What a process knows of its rails.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// The next one.
    turn: u8,
    /// By rail, bytes of messages that are not cut, until they have been sent.
    loads: [u64; Rails::MAX],
    /// By request: the entries of its pieces.
    entries: BTreeMap<u32, Vec<EntryId>>,
}

impl Spread {
    /// See [`crate::Endpoint::renew`].
    pub(crate) fn forget_order(&mut self) {
        self.turn = 0;
    }

    fn choose(&mut self, choice: RailChoice, rails: &Rails, length: u64) -> u8 {
        let places = rails.taking(length).places();
        let chosen = match choice {
            RailChoice::RoundRobin => {
                let turn = usize::from(self.turn);
                let chosen = places.clone().find(|&place| place >= turn).or_else(|| places.clone().next());
                self.turn = chosen.map_or(0, |place| place as u8 + 1);
                chosen
            }
            RailChoice::LeastLoaded => {
                // Quotients, compared without dividing; of equal ones the first.
                let loads = places.map(|place| (place, u128::from(self.loads[place] + length), u128::from(rails.rates()[place])));
                loads.reduce(|best, other| if other.1 * best.2 < best.1 * other.2 { other } else { best }).map(|(place, ..)| place)
            }
        };
        chosen.map_or(0, |place| place as u8)
    }

    /// A send for which [`Core::choose_rail`] was asked is over.
    pub(crate) fn ends(&mut self, cut: &Cut) {
        if !cut.spread {
            self.loads[usize::from(cut.start)] -= cut.length;
        }
    }

    pub(crate) fn keep_entries(&mut self, index: u32, entries: Vec<EntryId>) {
        self.entries.insert(index, entries);
    }

    /// The entries of a request but for the first `used` ones.
    pub(crate) fn take_entries(&mut self, index: u32, used: u64) -> Vec<EntryId> {
        let mut entries = self.entries.remove(&index).unwrap_or_default();
        entries.split_off(entries.len().min(used as usize))
    }
}

impl Core {
    /// The pieces of a message of `length` bytes from or to `peer`.
    pub(crate) fn cut(&self, peer: ProcessId, length: u64, start: u8) -> Cut {
        // Their numbers have to fit into match bits.
        let least = (length >> (wire::PIECE_BITS - 1)).max(1);
        let longest = self.config.max_portals_message;
        let longest = self.config.rails.across(self.local(), peer).map_or(longest, |fragment| longest.min(fragment));
        let largest = longest.max(least);
        let whole = Cut { length, size: largest, by_rate: false, spread: false, start, taking: Taking::FIRST };
        let Protocol::Mpc(MpcConfig { minimum, distribution, .. }) = self.config.protocol else { return whole };
        let taking = self.config.rails.taking(length);
        let rails = taking.count();
        let beyond = self.config.rails.across(self.local(), peer).is_some();
        if rails == 1 || length < minimum || peer.nid == self.local().nid || beyond {
            return whole;
        }
        let size = match distribution {
            Distribution::Fragments(size) => size.min(largest).max(least),
            // In turns, if they would be too long.
            Distribution::Even => length.div_ceil(rails * length.div_ceil(rails * largest).max(1)).max(1),
            Distribution::Rates => {
                let rounds = length.div_ceil(self.config.rails.shared(taking, largest)).min((1 << (wire::PIECE_BITS - 1)) / rails);
                length.div_ceil(rounds.max(1)).max(1)
            }
        };
        let by_rate = distribution == Distribution::Rates;
        if length <= size && !by_rate { whole } else { Cut { size, by_rate, spread: true, start: 0, taking, ..whole } }
    }

    /// Which of the rails a message takes, or its first piece; [`Spread::ends`] follows.
    pub(crate) fn choose_rail(&mut self, send: &Send) -> u8 {
        let rails = self.config.rails.all().len();
        let beyond = self.config.rails.across(self.local(), send.target).is_some();
        let whole = !self.cut(send.target, send.length, 0).spread;
        let start = match self.config.protocol {
            Protocol::Mpc(mpc) if whole && rails > 1 && send.target.nid != self.local().nid && !beyond => {
                self.rails.choose(mpc.choice, &self.config.rails, send.length)
            }
            _ => 0,
        };
        if whole {
            self.rails.loads[usize::from(start)] += send.length;
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RailConfig;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// One behind the other, none longer than it may be, all together what is wanted; and of one round no rail has
        /// more than a byte beside its share.
        #[test]
        fn parts_by_rate_are_the_whole(
            rates in prop::collection::vec(1..100_000_000_000_000u64, 1..=Rails::MAX),
            longest in 1..1u64 << 40,
            part in 0..Rails::MAX as u64,
            (rounds, share) in (1..50u64, 0.0..1.0f64),
            front in 0.0..=1.0f64,
        ) {
            let configs = (0u8..).map(Rail).zip(&rates).map(|(rail, &rate)| RailConfig { rail, rate, minimum: u64::from(rail.0) });
            let rails = Rails::of(configs);
            let taking = rails.taking(part);
            let rates: Vec<u64> = taking.places().map(|place| rates[place]).collect();
            prop_assert_eq!(rates.len() as u64, taking.count());
            let size = ((rails.shared(taking, longest) as f64 * share) as u64).clamp(1, 1 << 50);
            let cut = Cut { length: rounds * size, size, by_rate: true, spread: true, start: 0, taking };
            let wanted = ((cut.length as f64 * front) as u64).max(1);
            let mut next = 0;
            for piece in 0..cut.pieces_of(wanted, &rails) {
                let (offset, length) = cut.piece(piece, wanted, &rails);
                prop_assert_eq!(offset, next);
                prop_assert!(length <= longest);
                next = offset + length;
            }
            prop_assert_eq!(next, wanted);
            prop_assert!(cut.pieces_of(wanted, &rails) <= cut.pieces(&rails));
            let sum: u128 = rates.iter().map(|&rate| u128::from(rate)).sum();
            for (piece, &rate) in (0..).zip(&rates) {
                let exact = u128::from(size) * u128::from(rate) / sum;
                let (_, length) = cut.piece(piece, cut.length, &rails);
                prop_assert!(u128::from(length).abs_diff(exact) <= 1);
                prop_assert_eq!(cut.rail(piece, &rails), Rail(piece as u8));
            }
        }
    }

    #[test]
    fn short_messages_leave_rails_out_that_are_for_longer_ones() {
        let rails = Rails::of([(0, 99), (1, 10), (2, 0)].map(|(rail, minimum)| RailConfig { rail: Rail(rail), rate: 1, minimum }));
        let mut spread = Spread::default();
        let mut choose = |length| spread.choose(RailChoice::RoundRobin, &rails, length);
        assert_eq!([9, 9, 9, 10, 10, 10, 9].map(&mut choose), [0, 2, 0, 1, 2, 0, 2]);
    }

    #[test]
    fn the_least_loaded_rail_is_the_one_that_is_through_first() {
        let rails = Rails::of([(0, 4), (1, 1)].map(|(rail, rate)| RailConfig { rail: Rail(rail), rate, minimum: 0 }));
        let mut spread = Spread::default();
        let mut choose = |length| {
            let rail = spread.choose(RailChoice::LeastLoaded, &rails, length);
            spread.loads[usize::from(rail)] += length;
            rail
        };
        // The slow one takes a fifth, the first of equals comes first.
        assert_eq!((0..10).map(|_| choose(100)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    }
}
