//! Operations between equals. All ranks have the same number of rounds; some of them may be empty for a rank.

use crate::{Action, Algorithm, Area, Blocks, Operation, Piece, Schedule};

/// Algorithms over bits of rank numbers need a power of two. The first `2 extra` ranks pair up: the even ones give what
/// they have to the odd ones, which take part for both; the others take part for themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// The greatest power of two that is not above the number of ranks ...
    power: u32,
    /// ... and what is left.
    extra: u32,
}

impl Fold {
    pub(crate) fn new(ranks: u32) -> Fold {
        let power = 1 << ranks.ilog2();
        Fold { power, extra: ranks - power }
    }

    /// Rounds of a bit each.
    fn bits(self) -> u32 {
        self.power.trailing_zeros()
    }

    /// 1 if there are pairs.
    fn pairs(self) -> u32 {
        self.extra.min(1)
    }

    /// The number of a rank among those that take part.
    fn number(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.extra { Some(rank - self.extra) } else { (rank % 2 == 1).then_some(rank / 2) }
    }

    fn rank(self, number: u32) -> u32 {
        if number < self.extra { 2 * number + 1 } else { number + self.extra }
    }

    /// The first of the blocks, one per rank, that number `number` is responsible for.
    fn first_block(self, number: u32) -> u32 {
        if number < self.extra { 2 * number } else { number + self.extra }
    }

    /// The blocks of the numbers in `low..low + width`.
    fn blocks(self, area: Area, low: u32, width: u32) -> Piece {
        let first = self.first_block(low);
        Piece::run(area, first, self.first_block(low + width) - first)
    }
}

fn log2_up(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

impl Schedule {
    pub(crate) fn exchange_rounds(&self, rank: u32) -> u32 {
        use Algorithm::*;
        let (ranks, fold) = (self.ranks, self.fold);
        match (self.operation, self.algorithm) {
            (Operation::Broadcast, _) => self.rooted_rounds(Operation::Scatter, rank) + ranks - 1,
            (_, ReduceThenRoot) => self.rooted_rounds(Operation::Reduce, rank) + self.rooted_rounds(self.second(), rank),
            (Operation::Allreduce, Ring) => 2 * (ranks - 1),
            (Operation::Allreduce, Rabenseifner) => 2 * fold.bits() + 2 * fold.pairs(),
            (Operation::Allreduce, Hierarchical) => 2 * (self.group - 1) + 2 * (ranks / self.group - 1),
            (Operation::Allgather, RecursiveDoubling) => log2_up(ranks),
            (Operation::Scan, RecursiveDoubling) => log2_up(ranks),
            (Operation::Scan, _) => 2,
            (_, RecursiveDoubling | RecursiveHalving | ExanetAccelerator) => fold.bits() + 2 * fold.pairs(),
            (Operation::Allgather | Operation::ReduceScatter, Ring) | (_, Pairwise) => ranks - 1,
            (Operation::Allgather, Bruck) | (_, Dissemination) => log2_up(ranks),
            (Operation::Alltoall, Bruck) => log2_up(ranks) + 1,
            (Operation::Alltoall, _) => (ranks - 1).div_ceil(self.batch),
            _ => 1,
        }
    }

    /// What follows the reduction of [`Algorithm::ReduceThenRoot`].
    fn second(&self) -> Operation {
        if self.operation == Operation::ReduceScatter { Operation::Scatter } else { Operation::Broadcast }
    }

    pub(crate) fn exchange_round(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        use Algorithm::*;
        match (self.operation, self.algorithm) {
            (Operation::Broadcast, _) => match round.checked_sub(self.rooted_rounds(Operation::Scatter, rank)) {
                None => self.rooted_round(Operation::Scatter, rank, round, actions),
                Some(step) => self.ring(rank, rank, step, false, actions),
            },
            (_, ReduceThenRoot) => match round.checked_sub(self.rooted_rounds(Operation::Reduce, rank)) {
                None => self.rooted_round(Operation::Reduce, rank, round, actions),
                Some(round) => self.rooted_round(self.second(), rank, round, actions),
            },
            (Operation::Allreduce, Ring) => match round.checked_sub(self.ranks - 1) {
                None => self.ring(rank, rank, round, true, actions),
                Some(step) => self.ring(rank, rank + 1, step, false, actions),
            },
            (Operation::Allreduce, Rabenseifner) => self.rabenseifner(rank, round, actions),
            (Operation::Allreduce, Hierarchical) => self.hierarchical(rank, round, actions),
            (Operation::Allreduce | Operation::Barrier, RecursiveDoubling | ExanetAccelerator) => self.doubling(rank, round, actions),
            (Operation::Allgather, Linear) => self.everybody(rank, actions),
            (Operation::Allgather, Ring) => self.ring(rank, rank, round, false, actions),
            (Operation::Allgather, RecursiveDoubling) => {
                let (partner, mine) = (rank ^ 1 << round, rank >> round << round);
                let theirs = partner >> round << round;
                let blocks = |first| Piece::run(Area::Input, first, 1 << round);
                swap(partner, blocks(mine), blocks(theirs), false, actions);
            }
            (Operation::Allgather, _) => {
                let (hop, count) = (1 << round, (self.ranks - (1 << round)).min(1 << round));
                let to = self.down(rank, hop);
                actions.push(Action::Send { to, piece: Piece::run(Area::Input, rank, count) });
                let from = self.up(rank, hop);
                actions.push(Action::Receive { from, piece: Piece::run(Area::Input, from, count), combine: false });
            }
            (Operation::Barrier, _) => {
                actions.push(Action::Send { to: self.up(rank, 1 << round), piece: self.all(Area::Input) });
                actions.push(Action::Receive { from: self.down(rank, 1 << round), piece: self.all(Area::Input), combine: true });
            }
            (Operation::Alltoall, Bruck) => self.bruck_alltoall(rank, round, actions),
            (Operation::Alltoall, Pairwise) => self.alltoall(rank, round, 1, actions),
            (Operation::Alltoall, _) => self.alltoall(rank, round, self.batch, actions),
            (Operation::ReduceScatter, RecursiveHalving) => self.halving(rank, round, actions),
            // After the last step the block that came last is the rank's own.
            (Operation::ReduceScatter, Ring) => self.ring(rank, self.down(rank, 1), round, true, actions),
            (Operation::ReduceScatter, _) => {
                let to = self.up(rank, round + 1);
                actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
                let from = self.down(rank, round + 1);
                actions.push(Action::Receive { from, piece: Piece::one(Area::Input, rank), combine: true });
            }
            (Operation::Scan, RecursiveDoubling) => self.scan_doubling(rank, round, actions),
            _ => self.scan_linear(rank, round, actions),
        }
    }

    fn up(&self, rank: u32, by: u32) -> u32 {
        (rank + by) % self.ranks
    }

    fn down(&self, rank: u32, by: u32) -> u32 {
        (rank + self.ranks - by % self.ranks) % self.ranks
    }

    /// A step of a ring: to the next rank the block which came in the step before, at first `first`.
    fn ring(&self, rank: u32, first: u32, step: u32, combine: bool, actions: &mut Vec<Action>) {
        let block = |by| Piece::one(Area::Input, self.down(first, by));
        actions.push(Action::Send { to: self.up(rank, 1), piece: block(step) });
        actions.push(Action::Receive { from: self.down(rank, 1), piece: block(step + 1), combine });
    }

    /// Reduce-scatter by a ring inside of the group, each rank a slice of as many blocks as there are groups; an
    /// allreduce of the slice by a ring among the ranks with the same place in their groups; allgather inside of the
    /// group.
    fn hierarchical(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (size, groups) = (self.group, self.ranks / self.group);
        let (group, place) = (rank / size, rank % size);
        let before = |value: u32, by: u32, of: u32| (value + of - by % of) % of;
        // After the first part a rank has the slice behind the one of its place.
        let own = (place + 1) % size;
        let outer = 2 * (groups - 1);
        let (next, last, send, receive, combine) = if round + 1 < size || round >= size - 1 + outer {
            let is_first = round + 1 < size;
            let (first, step) = if is_first { (place, round) } else { (own, round - (size - 1) - outer) };
            let slice = |by| Piece::run(Area::Input, before(first, by, size) * groups, groups);
            let neighbour = |place: u32| group * size + place;
            (neighbour((place + 1) % size), neighbour(before(place, 1, size)), slice(step), slice(step + 1), is_first)
        } else {
            let round = round - (size - 1);
            let is_first = round + 1 < groups;
            let (first, step) = if is_first { (group, round) } else { (group + 1, round - (groups - 1)) };
            let block = |by| Piece::one(Area::Input, own * groups + before(first % groups, by, groups));
            let like = |group: u32| group * size + place;
            (like((group + 1) % groups), like(before(group, 1, groups)), block(step), block(step + 1), is_first)
        };
        actions.push(Action::Send { to: next, piece: send });
        actions.push(Action::Receive { from: last, piece: receive, combine });
    }

    /// The first round of a [`Fold`] with pairs; false when this is another round.
    fn fold_in(&self, rank: u32, round: u32, actions: &mut Vec<Action>) -> bool {
        let fold = self.fold;
        if round >= fold.pairs() {
            return false;
        }
        if rank < 2 * fold.extra {
            let piece = self.all(Area::Input);
            actions.push(match rank % 2 {
                0 => Action::Send { to: rank + 1, piece },
                _ => Action::Receive { from: rank - 1, piece, combine: true },
            });
        }
        true
    }

    /// The last round of a [`Fold`] with pairs: the even rank gets `piece`, given its own number.
    fn fold_out(&self, rank: u32, piece: impl Fn(u32) -> Piece, actions: &mut Vec<Action>) {
        if rank < 2 * self.fold.extra {
            actions.push(match rank % 2 {
                0 => Action::Receive { from: rank + 1, piece: piece(rank), combine: false },
                _ => Action::Send { to: rank - 1, piece: piece(rank - 1) },
            });
        }
    }

    fn doubling(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let fold = self.fold;
        if self.fold_in(rank, round, actions) {
            return;
        }
        let (step, whole) = (round - fold.pairs(), self.all(Area::Input));
        if step == fold.bits() {
            self.fold_out(rank, |_| whole, actions);
        } else if let Some(number) = fold.number(rank) {
            swap(fold.rank(number ^ 1 << step), whole, whole, true, actions);
        }
    }

    /// Halves of what is left go to the partner, the farthest first, until each has its own blocks.
    fn halving(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let fold = self.fold;
        if self.fold_in(rank, round, actions) {
            return;
        }
        let step = round - fold.pairs();
        if step == fold.bits() {
            self.fold_out(rank, |rank| Piece::one(Area::Input, rank), actions);
        } else if let Some(number) = fold.number(rank) {
            let half = fold.power >> (step + 1);
            let blocks = |number: u32| fold.blocks(Area::Input, number & !(half - 1), half);
            let partner = number ^ half;
            swap(fold.rank(partner), blocks(partner), blocks(number), true, actions);
        }
    }

    /// The nearest partner first, with which half of the vector is exchanged, then half of that; and back.
    fn rabenseifner(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let fold = self.fold;
        if self.fold_in(rank, round, actions) {
            return;
        }
        let (step, bits) = (round - fold.pairs(), fold.bits());
        if step == 2 * bits {
            self.fold_out(rank, |_| self.all(Area::Input), actions);
        } else if let Some(number) = fold.number(rank) {
            let (bit, gather) = if step < bits { (step, false) } else { (2 * bits - 1 - step, true) };
            // What a number is responsible for after the steps of bits 0 to `bit`.
            let blocks = |number: u32| {
                let low = (0..=bit).filter(|bit| number >> bit & 1 == 1).map(|bit| fold.power >> (bit + 1)).sum();
                fold.blocks(Area::Input, low, fold.power >> (bit + 1))
            };
            let partner = number ^ 1 << bit;
            if gather {
                swap(fold.rank(partner), blocks(number), blocks(partner), false, actions);
            } else {
                swap(fold.rank(partner), blocks(partner), blocks(number), true, actions);
            }
        }
    }

    fn everybody(&self, rank: u32, actions: &mut Vec<Action>) {
        for hop in 1..self.ranks {
            let from = self.down(rank, hop);
            actions.push(Action::Receive { from, piece: Piece::one(Area::Input, from), combine: false });
            actions.push(Action::Send { to: self.up(rank, hop), piece: Piece::one(Area::Input, rank) });
        }
    }

    /// `batch` exchanges with the ranks that follow.
    fn alltoall(&self, rank: u32, round: u32, batch: u32, actions: &mut Vec<Action>) {
        if round == 0 {
            let own = |area| Piece::one(area, rank);
            actions.push(Action::Local { from: own(Area::Input), to: own(Area::Output), combine: false });
        }
        let first = 1 + round * batch.min(self.ranks);
        for hop in first..first.saturating_add(batch).min(self.ranks) {
            let (to, from) = (self.up(rank, hop), self.down(rank, hop));
            actions.push(Action::Receive { from, piece: Piece::one(Area::Output, from), combine: false });
            actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
        }
    }

    /// Scratch block i is what still has to go i ranks further on.
    fn bruck_alltoall(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let scratch = self.all(Area::Scratch);
        match round.checked_sub(1) {
            None => {
                let turned = Piece::run(Area::Input, rank, self.ranks);
                actions.push(Action::Local { from: turned, to: scratch, combine: false });
            }
            Some(bit) => {
                let piece = Piece { area: Area::Scratch, blocks: Blocks::Bit { bit } };
                actions.push(Action::Receive { from: self.down(rank, 1 << bit), piece, combine: false });
                actions.push(Action::Send { to: self.up(rank, 1 << bit), piece });
            }
        }
        if round == log2_up(self.ranks) {
            let turned = Piece { area: Area::Output, blocks: Blocks::Down { first: rank, count: self.ranks } };
            actions.push(Action::Local { from: scratch, to: turned, combine: false });
        }
    }

    /// The input area holds the sum over the ranks that were reached, the output area over those of them that are not
    /// above.
    fn scan_doubling(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (input, output, scratch) = (self.all(Area::Input), self.all(Area::Output), self.all(Area::Scratch));
        let partner = rank ^ 1 << round;
        if partner < self.ranks {
            swap(partner, input, scratch, false, actions);
        }
        if round == 0 {
            actions.push(Action::Local { from: input, to: output, combine: false });
        }
        if partner < self.ranks {
            if partner < rank {
                actions.push(Action::Local { from: scratch, to: output, combine: true });
            }
            actions.push(Action::Local { from: scratch, to: input, combine: true });
        }
    }

    fn scan_linear(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (input, output, scratch) = (self.all(Area::Input), self.all(Area::Output), self.all(Area::Scratch));
        if round == 1 {
            if rank + 1 < self.ranks {
                actions.push(Action::Send { to: rank + 1, piece: output });
            }
            return;
        }
        if rank > 0 {
            actions.push(Action::Receive { from: rank - 1, piece: scratch, combine: false });
        }
        actions.push(Action::Local { from: input, to: output, combine: false });
        if rank > 0 {
            actions.push(Action::Local { from: scratch, to: output, combine: true });
        }
    }
}

fn swap(partner: u32, send: Piece, receive: Piece, combine: bool, actions: &mut Vec<Action>) {
    actions.push(Action::Receive { from: partner, piece: receive, combine });
    actions.push(Action::Send { to: partner, piece: send });
}
