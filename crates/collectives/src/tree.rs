//! Who is whose child. Numbers here count from the root: 0 is the root, `v` is rank (root + v) modulo the number of
//! ranks.

use crate::{Algorithm, Operation};
use std::sync::Arc;

/// A tree over the ranks of a communicator.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Flat,
    Chain,
    Binary,
    BinaryLevels,
    Binomial,
    BinomialDoubling,
    /// The base.
    Knomial(u32),
    Custom(Arc<CustomTree>),
}

impl Tree {
    /// The tree of an algorithm; what has none gets the binomial one, which its rooted parts use.
    pub(crate) fn of(algorithm: Algorithm, operation: Operation) -> Tree {
        match algorithm {
            Algorithm::Linear if operation != Operation::Barrier => Tree::Flat,
            Algorithm::Chain => Tree::Chain,
            Algorithm::Binary => Tree::Binary,
            Algorithm::BinaryLevels => Tree::BinaryLevels,
            Algorithm::BinomialDoubling => Tree::BinomialDoubling,
            Algorithm::Knomial => Tree::Knomial(4),
            _ => Tree::Binomial,
        }
    }

    /// The number of the parent of `v`, which is not 0.
    fn parent(&self, v: u32) -> u32 {
        match self {
            Tree::Flat => 0,
            Tree::Chain => v - 1,
            Tree::Binary => (v - 1) / 2,
            // The level above has half as many ranks, the last of which is v less once or twice that.
            Tree::BinaryLevels => {
                let above = level(v) / 2;
                if v - above < 2 * above - 1 { v - above } else { v - 2 * above }
            }
            Tree::Binomial | Tree::Custom(_) => v & (v - 1),
            Tree::BinomialDoubling => v ^ 1 << v.ilog2(),
            Tree::Knomial(base) => {
                let unit = lowest(v, *base);
                v / (base * unit) * (base * unit)
            }
        }
    }

    /// How many children `v` has.
    fn children(&self, v: u32, ranks: u32) -> u32 {
        match self {
            Tree::Flat => {
                if v == 0 {
                    ranks - 1
                } else {
                    0
                }
            }
            Tree::Chain => u32::from(v + 1 < ranks),
            Tree::Binary => (0..2).filter(|&child| u64::from(v) * 2 + 1 + child < u64::from(ranks)).count() as u32,
            Tree::BinaryLevels => (1..=2).filter(|child| u64::from(v) + child * u64::from(level(v)) < u64::from(ranks)).count() as u32,
            Tree::BinomialDoubling => (first_above(v)..32).take_while(|bit| u64::from(v) + (1 << bit) < u64::from(ranks)).count() as u32,
            Tree::Knomial(base) => knomial_children(v, *base, ranks).count() as u32,
            Tree::Binomial | Tree::Custom(_) => binomial_children(v, ranks),
        }
    }

    /// The `index`-th child of `v`, in the order in which it is served: in the binomial tree the one with the most
    /// ranks behind it first.
    fn child(&self, v: u32, index: u32, ranks: u32) -> u32 {
        match self {
            Tree::Flat | Tree::Chain => v + 1 + index,
            Tree::Binary => 2 * v + 1 + index,
            Tree::BinaryLevels => v + (1 + index) * level(v),
            Tree::BinomialDoubling => v + (1 << (first_above(v) + index)),
            Tree::Knomial(base) => knomial_children(v, *base, ranks).nth(index as usize).expect("a child below their number"),
            Tree::Binomial | Tree::Custom(_) => v + (1 << (binomial_children(v, ranks) - 1 - index)),
        }
    }
}

/// Ranks in the level of `v` in a binary tree, where it is full.
fn level(v: u32) -> u32 {
    1 << (v + 1).ilog2()
}

/// The number of the lowest bit above all that `v` has.
fn first_above(v: u32) -> u32 {
    v.checked_ilog2().map_or(0, |bit| bit + 1)
}

/// The power of `base` of the lowest digit of `v` that is not 0.
fn lowest(v: u32, base: u32) -> u32 {
    let mut unit = 1;
    while (v / unit).is_multiple_of(base) {
        unit *= base;
    }
    unit
}

/// Of `v` in the k-nomial tree: the farthest digit first, and of a digit the lowest value.
fn knomial_children(v: u32, base: u32, ranks: u32) -> impl Iterator<Item = u32> {
    let end = if v == 0 { ranks } else { lowest(v, base) };
    let mut unit = 1;
    while unit <= (end - 1) / base {
        unit *= base;
    }
    let units = std::iter::successors((end > 1).then_some(unit), move |&unit| (unit > 1).then_some(unit / base));
    let children = units.flat_map(move |unit| (1..base).map(move |digit| u64::from(v) + u64::from(digit) * u64::from(unit)));
    children.filter(move |&child| child < u64::from(ranks)).map(|child| child as u32)
}

/// Children v + 2^k for 2^k below the lowest bit of v, as far as there are ranks.
fn binomial_children(v: u32, ranks: u32) -> u32 {
    let below = if v == 0 { 32 } else { v.trailing_zeros() };
    // 2^k < ranks - v
    let room = 32 - (ranks - v - 1).leading_zeros();
    below.min(room)
}

/// Ranks in the subtree of `v` in the binomial tree: v and those that follow.
pub(crate) fn binomial_span(v: u32, ranks: u32) -> u32 {
    if v == 0 { ranks } else { (v & v.wrapping_neg()).min(ranks - v) }
}

/// A rank in a tree: all ranks as they are in the communicator.
pub(crate) struct TreePosition<'a> {
    tree: &'a Tree,
    rank: u32,
    root: u32,
    ranks: u32,
    children: u32,
}

impl<'a> TreePosition<'a> {
    pub(crate) fn new(tree: &'a Tree, rank: u32, root: u32, ranks: u32) -> Self {
        let mut place = TreePosition { tree, rank, root, ranks, children: 0 };
        place.children = match tree {
            Tree::Custom(tree) => tree.children(rank).len() as u32,
            tree => tree.children(place.number(), ranks),
        };
        place
    }

    /// Both below the number of ranks: no division is needed.
    fn number(&self) -> u32 {
        if self.rank >= self.root { self.rank - self.root } else { self.rank + self.ranks - self.root }
    }

    fn rank_of(&self, number: u32) -> u32 {
        let beyond = self.ranks - self.root;
        if number >= beyond { number - beyond } else { number + self.root }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.rank == self.root
    }

    pub(crate) fn parent(&self) -> u32 {
        match self.tree {
            Tree::Custom(tree) => tree.parent[self.rank as usize],
            tree => self.rank_of(tree.parent(self.number())),
        }
    }

    pub(crate) fn children(&self) -> u32 {
        self.children
    }

    pub(crate) fn child(&self, index: u32) -> u32 {
        match self.tree {
            Tree::Custom(tree) => tree.children(self.rank)[index as usize],
            // In the order of ranks, whoever the root is.
            Tree::Flat => index + u32::from(index >= self.root),
            tree => self.rank_of(tree.child(self.number(), index, self.ranks)),
        }
    }

    /// The blocks, one per rank, of the subtree of `rank`: first and how many. Flat and binomial trees only.
    pub(crate) fn span(&self, rank: u32) -> (u32, u32) {
        let number = (rank + self.ranks - self.root) % self.ranks;
        let count = match self.tree {
            Tree::Flat => {
                if number == 0 {
                    self.ranks
                } else {
                    1
                }
            }
            _ => binomial_span(number, self.ranks),
        };
        (rank, count)
    }
}

/// A tree that is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomTree {
    root: u32,
    parent: Vec<u32>,
    first_child: Vec<u32>,
    children: Vec<u32>,
    /// So many of the root's first children get one message that is copied on its way.
    copied: u32,
}

impl CustomTree {
    /// Collects edges, parent first, in the order in which each parent serves its children.
    ///
    /// # Panics
    /// When this is no tree over all ranks: a bug of whoever built it.
    pub fn new(ranks: u32, root: u32, edges: &[(u32, u32)]) -> CustomTree {
        assert_eq!(edges.len() as u32, ranks - 1, "a tree of {ranks} ranks has one edge less");
        let mut parent = vec![u32::MAX; ranks as usize];
        let mut first_child = vec![0u32; ranks as usize + 1];
        for &(from, to) in edges {
            assert!(to != root && parent[to as usize] == u32::MAX, "rank {to} would have two parents");
            parent[to as usize] = from;
            first_child[from as usize + 1] += 1;
        }
        for rank in 0..ranks as usize {
            first_child[rank + 1] += first_child[rank];
        }
        let mut next = first_child.clone();
        let mut children = vec![0; edges.len()];
        for &(from, to) in edges {
            children[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        CustomTree { root, parent, first_child, children, copied: 0 }
    }

    /// The first `copied` children of the root get one message that is copied on its way. Their numbers must rise.
    #[must_use]
    pub(crate) fn with_copied(mut self, copied: u32) -> CustomTree {
        self.copied = copied;
        self
    }

    /// The children of the root that get one message, in rising order.
    pub fn copied(&self) -> &[u32] {
        &self.children(self.root)[..self.copied as usize]
    }

    /// How many ranks.
    pub fn ranks(&self) -> u32 {
        self.parent.len() as u32
    }

    /// The root.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// The children of `rank`, in order.
    pub fn children(&self, rank: u32) -> &[u32] {
        &self.children[self.first_child[rank as usize] as usize..self.first_child[rank as usize + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_and_parents_agree_and_everybody_has_one() {
        for tree in [
            Tree::Flat,
            Tree::Chain,
            Tree::Binary,
            Tree::BinaryLevels,
            Tree::Binomial,
            Tree::BinomialDoubling,
            Tree::Knomial(2),
            Tree::Knomial(4),
        ] {
            for ranks in 1..70 {
                let mut parents = vec![0; ranks as usize];
                for v in 0..ranks {
                    for index in 0..tree.children(v, ranks) {
                        let child = tree.child(v, index, ranks);
                        assert_eq!(tree.parent(child), v, "{tree:?} of {ranks}");
                        parents[child as usize] += 1;
                    }
                }
                assert_eq!(parents[0], 0);
                assert!(parents[1..].iter().all(|&count| count == 1), "{tree:?} of {ranks}");
            }
        }
    }
}
