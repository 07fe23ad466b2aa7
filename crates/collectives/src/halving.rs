//! Vectors in halves of halves: Rabenseifner's algorithm and reduce-scatters, as Open MPI (`ompi_coll_base_*`) and
//! MPICH (`MPIR_*_intra_*`) do them.

use crate::exchange::{Fold, swap};
use crate::pieces::{doubling_rounds, doubling_step, handed_on};
use crate::{Action, Algorithm, Area, Operation, Piece, Schedule};

/// Who takes part for a pair of ranks beyond a power of two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    /// The odd one, which gets all of the other's vector.
    Odd,
    /// The even one, likewise: MPICH's reduce, so that root 0 takes part.
    Even,
    /// The even one; each of the two combines a half first.
    Halves,
}

impl Schedule {
    fn pairs(&self) -> Pairs {
        match (self.operation, self.algorithm) {
            (_, Algorithm::RabenseifnerHalves) => Pairs::Halves,
            (Operation::Reduce, _) => Pairs::Even,
            _ => Pairs::Odd,
        }
    }

    /// The number of a rank among those that take part.
    fn taking_part(&self, rank: u32) -> Option<u32> {
        let Fold { extra, .. } = self.fold;
        let own = u32::from(self.pairs() == Pairs::Odd);
        if rank >= 2 * extra { Some(rank - extra) } else { (rank % 2 == own).then_some(rank / 2) }
    }

    fn rank_taking_part(&self, number: u32) -> u32 {
        let Fold { extra, .. } = self.fold;
        if number < extra { 2 * number + u32::from(self.pairs() == Pairs::Odd) } else { number + extra }
    }

    /// Rounds of the pairs before all others.
    fn rounds_of_pairs(&self) -> u32 {
        self.fold.pairs() * if self.pairs() == Pairs::Halves { 2 } else { 1 }
    }

    /// The root is the one of a pair that takes no part: it is number 0 from the gather on.
    fn root_stands_in(&self) -> bool {
        self.operation == Operation::Reduce && self.taking_part(self.root).is_none()
    }

    pub(crate) fn rabenseifner_rounds(&self) -> u32 {
        let last = if self.operation == Operation::Reduce { u32::from(self.root_stands_in()) } else { self.fold.pairs() };
        self.rounds_of_pairs() + 2 * self.fold.bits() + last
    }

    /// The nearest partner first, with which half of the vector is exchanged, then half of that; and back, or to the
    /// root.
    pub(crate) fn rabenseifner(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (whole, bits) = (self.all(Area::Input), self.fold.bits());
        let Some(step) = round.checked_sub(self.rounds_of_pairs()) else {
            return self.pair(rank, round, actions);
        };
        if let Some(bit) = Some(step).filter(|step| *step < bits) {
            if let Some(number) = self.taking_part(rank) {
                let partner = number ^ 1 << bit;
                let (theirs, own) = (self.window(partner, bit), self.window(number, bit));
                swap(self.rank_taking_part(partner), theirs, own, true, actions);
            }
            return;
        }
        let step = step - bits;
        if self.operation == Operation::Reduce {
            return self.gather_windows(rank, step, actions);
        }
        if step < bits {
            let bit = bits - 1 - step;
            if let Some(number) = self.taking_part(rank) {
                let partner = number ^ 1 << bit;
                swap(self.rank_taking_part(partner), self.window(number, bit), self.window(partner, bit), false, actions);
            }
        } else if rank < 2 * self.fold.extra {
            actions.push(match self.taking_part(rank) {
                Some(_) => Action::Send { to: rank ^ 1, piece: whole },
                None => Action::Receive { from: rank ^ 1, piece: whole, combine: false },
            });
        }
    }

    /// What a number is responsible for after the exchanges of bits 0 to `bit`.
    fn window(&self, number: u32, bit: u32) -> Piece {
        let (first, count) = self.window_of(number, bit);
        Piece::run(Area::Input, first, count)
    }

    /// Its first part of the power of two of parts, and how many it has.
    fn window_of(&self, number: u32, bit: u32) -> (u32, u32) {
        let power = self.fold.power();
        let first = (0..=bit).filter(|bit| number >> bit & 1 == 1).map(|bit| power >> (bit + 1)).sum();
        (first, power >> (bit + 1))
    }

    /// A round of the pairs.
    fn pair(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        if rank >= 2 * self.fold.extra {
            return;
        }
        let (partner, whole, takes_part) = (rank ^ 1, self.all(Area::Input), self.taking_part(rank).is_some());
        if self.pairs() != Pairs::Halves {
            actions.push(match takes_part {
                true => Action::Receive { from: partner, piece: whole, combine: true },
                false => Action::Send { to: partner, piece: whole },
            });
            return;
        }
        let half = self.fold.power() / 2;
        let (low, high) = (Piece::run(Area::Input, 0, half), Piece::run(Area::Input, half, half));
        match (round, takes_part) {
            (0, true) => swap(partner, high, low, true, actions),
            (0, false) => swap(partner, low, high, true, actions),
            (_, true) => actions.push(Action::Receive { from: partner, piece: high, combine: false }),
            (_, false) => actions.push(Action::Send { to: partner, piece: high }),
        }
    }

    /// The windows to the root, over the tree of the exchanges, the last one first.
    fn gather_windows(&self, rank: u32, step: u32, actions: &mut Vec<Action>) {
        let (bits, stands_in) = (self.fold.bits(), self.root_stands_in());
        let Some(step) = step.checked_sub(u32::from(stands_in)) else {
            // Rank 0 hands its window to the root, which is number 0 from here on.
            let piece = self.window(0, bits - 1);
            match rank {
                0 => actions.push(Action::Send { to: self.root, piece }),
                rank if rank == self.root => actions.push(Action::Receive { from: 0, piece, combine: false }),
                _ => {}
            }
            return;
        };
        let number = match rank {
            rank if stands_in && rank == self.root => Some(0),
            0 if stands_in => None,
            rank => self.taking_part(rank),
        };
        let root = if stands_in { 0 } else { self.taking_part(self.root).unwrap_or(0) };
        let bit = bits - 1 - step;
        // Those whose higher bits are the root's have not sent yet.
        let Some(number) = number.filter(|number| number >> bit >> 1 == root >> bit >> 1) else { return };
        let partner = number ^ 1 << bit;
        let other = if stands_in && partner == 0 { self.root } else { self.rank_taking_part(partner) };
        actions.push(if number >> bit == root >> bit {
            Action::Receive { from: other, piece: self.window(partner, bit), combine: false }
        } else {
            Action::Send { to: other, piece: self.window(number, bit) }
        });
    }

    /// Halves of what is left go to the partner, the farthest first, until each has its own blocks.
    pub(crate) fn halving(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let fold = self.fold;
        let Some(step) = round.checked_sub(fold.pairs()) else {
            return self.pair(rank, round, actions);
        };
        if step == fold.bits() {
            self.fold_out(rank, |rank| Piece::one(Area::Input, rank), actions);
        } else if let Some(number) = fold.number(rank) {
            let half = fold.power() >> (step + 1);
            let blocks = |number: u32| fold.blocks(Area::Input, number & !(half - 1), half);
            let partner = number ^ half;
            swap(fold.rank(partner), blocks(partner), blocks(number), true, actions);
        }
    }

    /// Blocks of equal length of a power of two of ranks are turned round beforehand, so that each rank ends with its
    /// own.
    fn turns_blocks(&self) -> bool {
        self.operation == Operation::ReduceScatterBlock && self.ranks.is_power_of_two()
    }

    pub(crate) fn butterfly_rounds(&self) -> u32 {
        if self.turns_blocks() { self.fold.bits() + 1 } else { self.fold.pairs() + self.fold.bits() + 2 }
    }

    /// The nearest partner first; then each rank has the block of the one whose bits are in reverse order, and sends it
    /// there.
    pub(crate) fn butterfly(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (fold, turned) = (self.fold, self.turns_blocks());
        let bits = fold.bits();
        let reversed = |number: u32| if bits == 0 { 0 } else { number.reverse_bits() >> (32 - bits) };
        let Some(step) = round.checked_sub(if turned { 1 } else { fold.pairs() }) else {
            if !turned {
                return self.pair(rank, round, actions);
            }
            return actions.extend((0..self.ranks).map(|block| Action::Local {
                from: Piece::one(Area::Input, block),
                to: Piece::one(Area::Scratch, reversed(block)),
                combine: false,
            }));
        };
        let area = if turned { Area::Scratch } else { Area::Input };
        let number = fold.number(rank);
        if step < bits {
            if let Some(number) = number {
                let window = |number| {
                    let (first, count) = self.window_of(number, step);
                    fold.blocks(area, first, count)
                };
                let partner = number ^ 1 << step;
                swap(fold.rank(partner), window(partner), window(number), true, actions);
            }
            if turned && step + 1 == bits {
                let from = Piece::one(Area::Scratch, reversed(rank));
                actions.push(Action::Local { from, to: Piece::one(Area::Input, rank), combine: false });
            }
            return;
        }
        let Some(number) = number else {
            // The rank that has the blocks of this pair.
            if step == bits {
                let from = fold.rank(reversed(rank / 2));
                actions.push(Action::Receive { from, piece: Piece::one(Area::Input, rank), combine: false });
            }
            return;
        };
        let owner = reversed(number);
        let to = fold.rank(owner);
        if step == bits && owner < fold.extra {
            actions.push(Action::Send { to: to - 1, piece: Piece::one(Area::Input, to - 1) });
        } else if step == bits + 1 && owner != number {
            actions.push(Action::Receive { from: to, piece: Piece::one(Area::Input, rank), combine: false });
            actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
        }
    }

    pub(crate) fn reduce_scatter_doubling_rounds(&self) -> u32 {
        doubling_rounds(self.ranks)
    }

    /// All blocks but those of the own subtree go to the partner in the other one; ranks without a partner get from
    /// others what these got.
    pub(crate) fn reduce_scatter_doubling(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (bit, turn) = doubling_step(round, self.ranks);
        let reach = 1 << bit;
        let own = rank >> bit << bit;
        let but = |area, subtree: u32| match self.ranks.checked_sub(subtree + reach) {
            Some(_) => Piece::run(area, (subtree + reach) % self.ranks, self.ranks - reach),
            None => Piece::run(area, 0, subtree),
        };
        let theirs = own ^ reach;
        let received = but(Area::Scratch, theirs.min(self.ranks));
        if turn == 0 {
            if rank ^ reach < self.ranks {
                swap(rank ^ reach, but(Area::Input, own), received, false, actions);
            }
        } else if let Some((partner, sends)) = handed_on(rank, bit, turn - 1, self.ranks) {
            actions.push(match sends {
                true => Action::Send { to: partner, piece: received },
                false => Action::Receive { from: partner, piece: received, combine: false },
            });
        }
        let is_last = self.ranks.is_power_of_two() || turn == bit;
        if is_last && theirs < self.ranks {
            actions.push(Action::Local { from: received, to: but(Area::Input, theirs), combine: true });
        }
    }

    /// Pairs of one half of neighbours and of the other half in turn; from the second exchange on two blocks at once.
    pub(crate) fn neighbour_exchange(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let pair = |pair: u32| Piece::run(Area::Input, 2 * (pair % (self.ranks / 2)), 2);
        let (own, pairs) = (rank / 2, self.ranks / 2);
        if round == 0 {
            return swap(rank ^ 1, Piece::one(Area::Input, rank), Piece::one(Area::Input, rank ^ 1), false, actions);
        }
        // Even ranks look down in odd rounds and up in even ones; the blocks there are those of pairs farther and
        // farther away.
        let looks_down = rank.is_multiple_of(2) == (round % 2 == 1);
        let partner = if looks_down { self.down(rank, 1) } else { self.up(rank, 1) };
        // Of the two sides of the partner's and the own pair, the pairs that came last.
        let far = |round: u32, down: bool| match down {
            true => own + pairs - round.div_ceil(2) % pairs,
            false => own + round.div_ceil(2),
        };
        let receive = far(round, looks_down);
        let send = if round == 1 { own } else { far(round - 1, !looks_down) };
        swap(partner, pair(send), pair(receive), false, actions);
    }
}
