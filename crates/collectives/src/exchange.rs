//! Operations between equals. All ranks have the same number of rounds; some of them may be empty for a rank.

use crate::{Action, Algorithm, Area, Blocks, Operation, Piece, Schedule};

/// Algorithms over bits of rank numbers need a power of two. The first `2 extra` ranks pair up: the even ones give what
/// they have to the odd ones, which take part for both; the others take part for themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// The greatest power of two that is not above the number of ranks ...
    power: u32,
    /// ... and what is left.
    pub(crate) extra: u32,
}

impl Fold {
    pub(crate) fn new(ranks: u32) -> Fold {
        let power = 1 << ranks.ilog2();
        Fold { power, extra: ranks - power }
    }

    pub(crate) fn power(self) -> u32 {
        self.power
    }

    /// Rounds of a bit each.
    pub(crate) fn bits(self) -> u32 {
        self.power.trailing_zeros()
    }

    /// 1 if there are pairs.
    pub(crate) fn pairs(self) -> u32 {
        self.extra.min(1)
    }

    /// The number of a rank among those that take part.
    pub(crate) fn number(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.extra { Some(rank - self.extra) } else { (rank % 2 == 1).then_some(rank / 2) }
    }

    pub(crate) fn rank(self, number: u32) -> u32 {
        if number < self.extra { 2 * number + 1 } else { number + self.extra }
    }

    /// The first of the blocks, one per rank, that number `number` is responsible for.
    fn first_block(self, number: u32) -> u32 {
        if number < self.extra { 2 * number } else { number + self.extra }
    }

    /// The blocks of the numbers in `low..low + width`.
    pub(crate) fn blocks(self, area: Area, low: u32, width: u32) -> Piece {
        let first = self.first_block(low);
        Piece::run(area, first, self.first_block(low + width) - first)
    }
}

pub(crate) fn log2_up(ranks: u32) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

impl Schedule {
    pub(crate) fn exchange_rounds(&self, rank: u32) -> u32 {
        use Algorithm::*;
        let (ranks, fold) = (self.ranks, self.fold);
        match (self.operation, self.algorithm) {
            (Operation::Broadcast, _) => self.pieces_rounds(rank),
            (Operation::Gather, _) => {
                if rank == self.root {
                    ranks
                } else {
                    3
                }
            }
            (Operation::Barrier, RecursiveDoubling) => self.barrier_doubling_rounds(rank),
            (Operation::Barrier, Linear) => 2,
            (Operation::Allreduce, Linear) | (_, ReduceThenRoot) => {
                self.rooted_rounds(Operation::Reduce, rank) + self.rooted_rounds(self.second(), rank)
            }
            (Operation::Allreduce, Ring) => 2 * (ranks - 1),
            (Operation::Allreduce | Operation::Reduce, Rabenseifner | RabenseifnerHalves) => self.rabenseifner_rounds(),
            (Operation::Allreduce, Hierarchical) => 2 * (self.group - 1) + 2 * (ranks / self.group - 1),
            (Operation::Allgather, RecursiveDoubling) => log2_up(ranks),
            (Operation::Scan, RecursiveDoubling) => log2_up(ranks),
            (Operation::ReduceScatterBlock, RecursiveDoubling) => self.reduce_scatter_doubling_rounds(),
            (_, Butterfly) => self.butterfly_rounds(),
            (_, NeighbourExchange) if ranks.is_multiple_of(2) => ranks / 2,
            (_, NeighbourExchange) => ranks - 1,
            (Operation::Scan, _) => 2,
            (_, RecursiveDoubling | RecursiveHalving | ExanetAccelerator) => fold.bits() + 2 * fold.pairs(),
            (Operation::Allgather | Operation::ReduceScatter | Operation::ReduceScatterBlock, Ring)
            | (_, Pairwise | PairwiseExclusiveOr) => ranks - 1,
            (Operation::Allgather, Bruck) | (_, Dissemination) => log2_up(ranks),
            (Operation::Alltoall, Bruck) => log2_up(ranks) + 1,
            (Operation::Alltoall, _) => ranks.div_ceil(self.batch),
            _ => 1,
        }
    }

    /// What follows the reduction of [`Algorithm::ReduceThenRoot`].
    fn second(&self) -> Operation {
        let scatters = matches!(self.operation, Operation::ReduceScatter | Operation::ReduceScatterBlock);
        if scatters { Operation::Scatter } else { Operation::Broadcast }
    }

    pub(crate) fn exchange_round(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        use Algorithm::*;
        match (self.operation, self.algorithm) {
            (Operation::Broadcast, _) => self.pieces_round(rank, round, actions),
            (Operation::Gather, _) => self.gather_asked_for(rank, round, actions),
            (Operation::Barrier, RecursiveDoubling) => self.barrier_doubling(rank, round, actions),
            (Operation::Barrier, Linear) => self.barrier_linear(rank, round, actions),
            (Operation::Allreduce, Linear) | (_, ReduceThenRoot) => match round.checked_sub(self.rooted_rounds(Operation::Reduce, rank)) {
                None => self.rooted_round(Operation::Reduce, rank, round, actions),
                Some(round) => self.rooted_round(self.second(), rank, round, actions),
            },
            (Operation::Allreduce, Ring) => match round.checked_sub(self.ranks - 1) {
                None => self.ring(rank, rank, round, true, actions),
                Some(step) => self.ring(rank, rank + 1, step, false, actions),
            },
            (Operation::Allreduce | Operation::Reduce, Rabenseifner | RabenseifnerHalves) => self.rabenseifner(rank, round, actions),
            (Operation::Allreduce, Hierarchical) => self.hierarchical(rank, round, actions),
            (Operation::Allreduce, RecursiveDoubling | ExanetAccelerator) => self.doubling(rank, round, actions),
            (Operation::Allgather, Linear) => self.everybody(rank, actions),
            (Operation::Allgather, NeighbourExchange) if self.ranks.is_multiple_of(2) => self.neighbour_exchange(rank, round, actions),
            (Operation::Allgather, Ring | NeighbourExchange) => self.ring(rank, rank, round, false, actions),
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
            (Operation::Alltoall, PairwiseExclusiveOr) if self.ranks.is_power_of_two() && self.ranks > 1 => {
                self.keeps_own(rank, round, actions);
                let partner = rank ^ (round + 1);
                swap(partner, Piece::one(Area::Input, partner), Piece::one(Area::Output, partner), false, actions);
            }
            (Operation::Alltoall, Pairwise | PairwiseExclusiveOr) => {
                self.keeps_own(rank, round, actions);
                if self.ranks == 1 {
                    return;
                }
                let (to, from) = (self.up(rank, round + 1), self.down(rank, round + 1));
                actions.push(Action::Receive { from, piece: Piece::one(Area::Output, from), combine: false });
                actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
            }
            (Operation::Alltoall, _) => self.alltoall(rank, round, actions),
            (_, RecursiveHalving) => self.halving(rank, round, actions),
            // After the last step the block that came last is the rank's own.
            (Operation::ReduceScatter | Operation::ReduceScatterBlock, Ring) => self.ring(rank, self.down(rank, 1), round, true, actions),
            (_, Butterfly) => self.butterfly(rank, round, actions),
            (Operation::ReduceScatterBlock, RecursiveDoubling) => self.reduce_scatter_doubling(rank, round, actions),
            (Operation::ReduceScatter | Operation::ReduceScatterBlock, _) => {
                let to = self.up(rank, round + 1);
                actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
                let from = self.down(rank, round + 1);
                actions.push(Action::Receive { from, piece: Piece::one(Area::Input, rank), combine: true });
            }
            (Operation::Scan, RecursiveDoubling) => self.scan_doubling(rank, round, actions),
            _ => self.scan_linear(rank, round, actions),
        }
    }

    pub(crate) fn up(&self, rank: u32, by: u32) -> u32 {
        (rank + by) % self.ranks
    }

    pub(crate) fn down(&self, rank: u32, by: u32) -> u32 {
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
    pub(crate) fn fold_out(&self, rank: u32, piece: impl Fn(u32) -> Piece, actions: &mut Vec<Action>) {
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

    fn everybody(&self, rank: u32, actions: &mut Vec<Action>) {
        for hop in 1..self.ranks {
            let from = self.down(rank, hop);
            actions.push(Action::Receive { from, piece: Piece::one(Area::Input, from), combine: false });
            actions.push(Action::Send { to: self.up(rank, hop), piece: Piece::one(Area::Input, rank) });
        }
    }

    /// What a rank gives to itself.
    fn keeps_own(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        if round == 0 {
            let own = |area| Piece::one(area, rank);
            actions.push(Action::Local { from: own(Area::Input), to: own(Area::Output), combine: false });
        }
    }

    /// Receives from the ranks that follow and sends to those before, a batch of hops (0 among them) at a time.
    fn alltoall(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        self.keeps_own(rank, round, actions);
        let first = round * self.batch.min(self.ranks);
        let hops = first.max(1)..first.saturating_add(self.batch).min(self.ranks);
        for hop in hops.clone() {
            let from = self.up(rank, hop);
            actions.push(Action::Receive { from, piece: Piece::one(Area::Output, from), combine: false });
        }
        for hop in hops {
            let to = self.down(rank, hop);
            actions.push(Action::Send { to, piece: Piece::one(Area::Input, to) });
        }
    }

    /// Open MPI's gather of long blocks (coll/base, ompi_coll_base_gather_intra_linear_sync): each rank waits for an
    /// empty message of the root, sends its block, and an empty message behind it, which the root takes at the end.
    fn gather_asked_for(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let nothing = Piece::run(Area::Input, 0, 0);
        let block = |rank| Piece::one(Area::Input, rank);
        let root = self.root;
        let others = (0..self.ranks).filter(|other| *other != root);
        if rank == root && round + 1 == self.ranks {
            actions.extend(others.map(|from| Action::Receive { from, piece: nothing, combine: false }));
        } else if rank == root {
            let other = round + u32::from(round >= root);
            actions.push(Action::Receive { from: other, piece: block(other), combine: false });
            actions.push(Action::Send { to: other, piece: nothing });
        } else {
            actions.push(match round {
                0 => Action::Receive { from: root, piece: nothing, combine: false },
                1 => Action::Send { to: root, piece: block(rank) },
                _ => Action::Send { to: root, piece: nothing },
            });
        }
    }

    /// All tell rank 0, which tells all.
    fn barrier_linear(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let piece = self.all(Area::Input);
        let others = if rank == 0 { 1..self.ranks } else { 0..1 };
        if (rank == 0) == (round == 0) {
            actions.extend(others.map(|from| Action::Receive { from, piece, combine: true }));
        } else {
            actions.extend(others.map(|to| Action::Send { to, piece }));
        }
    }

    /// Open MPI's barrier (coll/base, ompi_coll_base_barrier_intra_recursivedoubling): ranks beyond the power of two
    /// tell the one as far below. The message that ends it for them is a synchronous one, which they acknowledge.
    fn barrier_doubling(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let (power, extra, piece) = (self.fold.power(), self.fold.extra, self.all(Area::Input));
        let send = |to| Action::Send { to, piece };
        let receive = |from| Action::Receive { from, piece, combine: true };
        if let Some(below) = rank.checked_sub(power) {
            return match round {
                0 => actions.extend([receive(below), send(below)]),
                _ => actions.push(send(below)),
            };
        }
        let has_one_above = rank < extra;
        match round.checked_sub(u32::from(has_one_above)) {
            None => actions.push(receive(rank + power)),
            Some(step) if step < self.fold.bits() => swap(rank ^ 1 << step, piece, piece, true, actions),
            Some(_) => actions.extend([receive(rank + power), send(rank + power)]),
        }
    }

    fn barrier_doubling_rounds(&self, rank: u32) -> u32 {
        match rank {
            rank if rank >= self.fold.power() => 2,
            rank => self.fold.bits() + if rank < self.fold.extra { 2 } else { 0 },
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

pub(crate) fn swap(partner: u32, send: Piece, receive: Piece, combine: bool, actions: &mut Vec<Action>) {
    actions.push(Action::Receive { from: partner, piece: receive, combine });
    actions.push(Action::Send { to: partner, piece: send });
}
