//! Operations with a root, over trees.
//!
//! Broadcast and reduce go in segments: while a rank passes one on, it receives the next. The tree of a gather or
//! scatter is flat or binomial; the blocks of a subtree travel together.
//!
//! How a rank serves its children ([`Children`]) is Open MPI's `ompi_coll_base_*` and MPICH's `MPIR_*_intra_*`: a
//! blocking send or receive is a round of its own.

use crate::tree::{Tree, TreePosition};
use crate::{Action, Area, Children, Lengths, Operation, Piece, Schedule};

impl Schedule {
    fn place(&self, rank: u32) -> TreePosition<'_> {
        TreePosition::new(&self.tree, rank, self.root, self.ranks)
    }

    /// Segments that travel one after the other.
    fn segments(&self) -> u32 {
        if matches!(self.lengths, Lengths::Segments { .. }) { self.blocks } else { 1 }
    }

    fn segment(&self, index: u32) -> Piece {
        if matches!(self.lengths, Lengths::Segments { .. }) { Piece::one(Area::Input, index) } else { self.all(Area::Input) }
    }

    /// Rounds of `operation` over this schedule's tree.
    pub(crate) fn rooted_rounds(&self, operation: Operation, rank: u32) -> u32 {
        let place = self.place(rank);
        let (children, not_root) = (place.children(), u32::from(!place.is_root()));
        let turns = if self.children == Children::Together { children.min(1) } else { children };
        match operation {
            Operation::Broadcast if children == 0 => self.segments(),
            Operation::Broadcast => not_root + self.segments() * turns,
            Operation::Reduce if self.in_turn(&place) > 0 => turns + not_root,
            Operation::Reduce if children == 0 => self.segments(),
            Operation::Reduce => self.segments() + not_root,
            _ => turns + not_root,
        }
    }

    /// How many receives of a reduction `rank` waits for one after the other.
    pub(crate) fn receives_in_turn(&self, rank: u32) -> u32 {
        self.in_turn(&self.place(rank))
    }

    /// The same, of the rank at a place of the tree.
    fn in_turn(&self, place: &TreePosition<'_>) -> u32 {
        let in_turn = self.children != Children::Together && self.segments() == 1;
        if in_turn && self.algorithm.is_rooted(Operation::Reduce) { place.children() } else { 0 }
    }

    /// The child from which the receive number `turn` is. In trees where the last child of a broadcast has the fewest
    /// ranks behind it, that one is the first to be ready. Open MPI's linear reduction begins with the last rank too.
    fn source(&self, place: &TreePosition<'_>, operation: Operation, turn: u32) -> u32 {
        let forward = match &self.tree {
            Tree::Flat => operation == Operation::Gather,
            Tree::BinaryLevels | Tree::BinomialDoubling => true,
            Tree::Chain | Tree::Binary | Tree::Binomial | Tree::Knomial(_) | Tree::Custom(_) => false,
        };
        place.child(if forward { turn } else { place.children() - 1 - turn })
    }

    /// The children that have their turn, of a rank that serves `turn`.
    fn served(&self, place: &TreePosition<'_>, turn: u32) -> std::ops::Range<u32> {
        if self.children == Children::Together { 0..place.children() } else { turn..turn + 1 }
    }

    pub(crate) fn rooted_round(&self, operation: Operation, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let place = self.place(rank);
        match operation {
            Operation::Broadcast => self.broadcast_round(&place, round, actions),
            Operation::Reduce => self.reduce_round(&place, round, actions),
            Operation::Scatter => self.scatter_round(&place, rank, round, actions),
            _ => self.gather_round(&place, rank, round, actions),
        }
    }

    /// The root: one segment to all children, or to one, per round. Others: the first segment, then what they have to
    /// their children while the next one comes.
    fn broadcast_round(&self, place: &TreePosition<'_>, round: u32, actions: &mut Vec<Action>) {
        let receive = |index| Action::Receive { from: place.parent(), piece: self.segment(index), combine: false };
        let children = place.children();
        if children == 0 {
            actions.push(receive(round));
            return;
        }
        let turns = if self.children == Children::Together { 1 } else { children };
        let step = match (place.is_root(), round) {
            (true, _) => round,
            (false, 0) => {
                actions.push(receive(0));
                return;
            }
            (false, _) => round - 1,
        };
        let (index, turn) = (step / turns, step % turns);
        if !place.is_root() && turn == 0 && index + 1 < self.segments() {
            actions.push(receive(index + 1));
        }
        actions.extend(self.served(place, turn).map(|child| Action::Send { to: place.child(child), piece: self.segment(index) }));
    }

    /// All children's parts of one segment, while the segment before goes to the parent.
    fn reduce_round(&self, place: &TreePosition<'_>, round: u32, actions: &mut Vec<Action>) {
        let children = place.children();
        let from = |turn, segment| Action::Receive {
            from: self.source(place, Operation::Reduce, turn),
            piece: self.segment(segment),
            combine: true,
        };
        let in_turn = self.in_turn(place);
        if in_turn > 0 {
            actions.push(if round < in_turn { from(round, 0) } else { Action::Send { to: place.parent(), piece: self.segment(0) } });
            return;
        }
        if children > 0 && round < self.segments() {
            actions.extend((0..children).map(|turn| from(turn, round)));
        }
        if !place.is_root() {
            let done = if children > 0 { round.checked_sub(1) } else { Some(round) };
            actions.extend(done.map(|index| Action::Send { to: place.parent(), piece: self.segment(index) }));
        }
    }

    fn scatter_round(&self, place: &TreePosition<'_>, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let subtree = |rank| {
            let (first, count) = place.span(rank);
            Piece::run(Area::Input, first, count)
        };
        let step = if place.is_root() { Some(round) } else { round.checked_sub(1) };
        match step {
            None => actions.push(Action::Receive { from: place.parent(), piece: subtree(rank), combine: false }),
            Some(turn) => {
                actions.extend(self.served(place, turn).map(|child| place.child(child)).map(|to| Action::Send { to, piece: subtree(to) }));
            }
        }
    }

    fn gather_round(&self, place: &TreePosition<'_>, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let subtree = |rank| {
            let (first, count) = place.span(rank);
            Piece::run(Area::Input, first, count)
        };
        let turns = if self.children == Children::Together { place.children().min(1) } else { place.children() };
        if round < turns {
            let children = self.served(place, round).map(|turn| self.source(place, Operation::Gather, turn));
            actions.extend(children.map(|from| Action::Receive { from, piece: subtree(from), combine: false }));
        } else {
            actions.push(Action::Send { to: place.parent(), piece: subtree(rank) });
        }
    }
}
