//! A broadcast that scatters the message over a binomial tree and gathers it everywhere, as MPICH and Open MPI do
//! (MPII_Scatter_for_bcast, MPIR_Bcast_intra_scatter_*_allgather, ompi_coll_base_bcast_intra_scatter_allgather*).
//!
//! Numbers count from the root, and number `v` keeps block `v`. Blocks are as long as rounding up makes them, so that
//! the last ones may be shorter or empty: what is empty is not scattered.

use crate::tree::{Tree, TreePosition, binomial_span};
use crate::{Action, Algorithm, Area, Piece, Schedule};
use narrows_units::Bytes;

impl Schedule {
    /// The piece of `count` blocks from `first` on, as far as there are blocks.
    fn blocks_from(&self, first: u32, count: u32) -> Piece {
        Piece::run(Area::Input, first, count.min(self.ranks - first))
    }

    fn number_of(&self, rank: u32) -> u32 {
        (rank + self.ranks - self.root) % self.ranks
    }

    fn rank_of(&self, number: u32) -> u32 {
        (number + self.root) % self.ranks
    }

    /// Rounds of the scatter: a receive, and a blocking send to each child.
    fn scatter_rounds(&self, rank: u32) -> u32 {
        let place = TreePosition::new(&Tree::Binomial, rank, self.root, self.ranks);
        u32::from(!place.is_root()) + place.children()
    }

    pub(crate) fn pieces_rounds(&self, rank: u32) -> u32 {
        let gather = match self.algorithm {
            Algorithm::ScatterDoubling => doubling_rounds(self.ranks),
            _ => self.ranks - 1,
        };
        self.scatter_rounds(rank) + gather
    }

    pub(crate) fn pieces_round(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let number = self.number_of(rank);
        if let Some(step) = round.checked_sub(self.scatter_rounds(rank)) {
            if self.algorithm == Algorithm::ScatterDoubling {
                return self.doubling_of_pieces(number, step, actions);
            }
            let block = |by: u32| Piece::one(Area::Input, (number + self.ranks - by) % self.ranks);
            actions.push(Action::Receive { from: self.rank_of(number + self.ranks - 1), piece: block(step + 1), combine: false });
            actions.push(Action::Send { to: self.rank_of(number + 1), piece: block(step) });
            return;
        }
        let place = TreePosition::new(&Tree::Binomial, rank, self.root, self.ranks);
        let subtree = |number| self.blocks_from(number, binomial_span(number, self.ranks));
        let child = if place.is_root() { Some(round) } else { round.checked_sub(1) }.map(|child| place.child(child));
        let piece = subtree(child.map_or(number, |child| self.number_of(child)));
        if self.bytes(piece) > Bytes(0) {
            actions.push(match child {
                Some(to) => Action::Send { to, piece },
                None => Action::Receive { from: place.parent(), piece, combine: false },
            });
        }
    }

    fn doubling_of_pieces(&self, number: u32, step: u32, actions: &mut Vec<Action>) {
        let (bit, turn) = doubling_step(step, self.ranks);
        let reach = 1 << bit;
        let own = number >> bit << bit;
        let theirs = own ^ reach;
        match turn.checked_sub(1) {
            None if number ^ reach < self.ranks => {
                let to = self.rank_of(number ^ reach);
                actions.push(Action::Receive { from: to, piece: self.blocks_from(theirs, reach), combine: false });
                actions.push(Action::Send { to, piece: self.blocks_from(own, reach) });
            }
            None => {}
            Some(turn) => {
                if let Some((partner, sends)) = handed_on(number, bit, turn, self.ranks) {
                    let piece = self.blocks_from(theirs, reach);
                    let partner = self.rank_of(partner);
                    actions.push(match sends {
                        true => Action::Send { to: partner, piece },
                        false => Action::Receive { from: partner, piece, combine: false },
                    });
                }
            }
        }
    }
}

/// Rounds of recursive doubling among any number of ranks: of each bit an exchange, and as many more as it has bits
/// below it, in which those that had no partner get what the others got.
pub(crate) fn doubling_rounds(ranks: u32) -> u32 {
    let bits = ranks.next_power_of_two().trailing_zeros();
    if ranks.is_power_of_two() { bits } else { bits * (bits + 1) / 2 }
}

/// The bit of a round, and its number among those of the bit. With a power of two of ranks all are exchanges.
pub(crate) fn doubling_step(step: u32, ranks: u32) -> (u32, u32) {
    if ranks.is_power_of_two() {
        return (step, 0);
    }
    let mut bit = 0;
    let mut left = step;
    while left > bit {
        left -= bit + 1;
        bit += 1;
    }
    (bit, left)
}

/// Who hands on to whom what came from the other half of the `bit`, by halves of halves (`turn` counts from 0): the
/// partner, and whether it is the receiver. Only ranks of a half whose other half has fewer.
pub(crate) fn handed_on(number: u32, bit: u32, turn: u32, ranks: u32) -> Option<(u32, bool)> {
    let reach = 1 << bit;
    let own = number >> bit << bit;
    let theirs = own ^ reach;
    if theirs + reach <= ranks {
        return None;
    }
    let have = ranks.checked_sub(own + reach)?;
    let half = reach >> (turn + 1);
    let partner = number ^ half;
    let limit = number / (2 * half) * (2 * half) + have;
    let (low, high) = (number.min(partner), number.max(partner));
    (low < limit && high >= limit && high < ranks).then_some((partner, number == low))
}
