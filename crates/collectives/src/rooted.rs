//! Operations with a root, over trees.
//!
//! Broadcast and reduce go in segments: while a rank passes one on, it receives the next. The tree of a gather or
//! scatter is flat or binomial; the blocks of a subtree travel together.

use crate::tree::TreePosition;
use crate::{Action, Area, Lengths, Operation, Piece, Schedule};

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
        let turns = if self.serial { children } else { children.min(1) };
        match operation {
            Operation::Broadcast if children == 0 => self.segments(),
            Operation::Broadcast => not_root + self.segments() * turns,
            Operation::Reduce if children == 0 => self.segments(),
            Operation::Reduce => self.segments() + not_root,
            Operation::Scatter => not_root + turns,
            _ => children.min(1) + not_root,
        }
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
        let turns = if self.serial { children } else { 1 };
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
        let served = if self.serial { turn..turn + 1 } else { 0..children };
        actions.extend(served.map(|child| Action::Send { to: place.child(child), piece: self.segment(index) }));
    }

    /// All children's parts of one segment, while the segment before goes to the parent.
    fn reduce_round(&self, place: &TreePosition<'_>, round: u32, actions: &mut Vec<Action>) {
        let children = place.children();
        if children > 0 && round < self.segments() {
            // The last child in the order of a broadcast has the fewest ranks behind it and is the first to be ready.
            let from = |child| Action::Receive { from: place.child(child), piece: self.segment(round), combine: true };
            actions.extend((0..children).rev().map(from));
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
                let served = if self.serial { turn..turn + 1 } else { 0..place.children() };
                actions.extend(served.map(|child| place.child(child)).map(|to| Action::Send { to, piece: subtree(to) }));
            }
        }
    }

    fn gather_round(&self, place: &TreePosition<'_>, rank: u32, round: u32, actions: &mut Vec<Action>) {
        let subtree = |rank| {
            let (first, count) = place.span(rank);
            Piece::run(Area::Input, first, count)
        };
        if round == 0 && place.children() > 0 {
            let children = (0..place.children()).rev().map(|child| place.child(child));
            actions.extend(children.map(|from| Action::Receive { from, piece: subtree(from), combine: false }));
        } else {
            actions.push(Action::Send { to: place.parent(), piece: subtree(rank) });
        }
    }
}
