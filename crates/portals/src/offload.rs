//! An allreduce that the NICs of a group of nodes do among themselves: what a process asks its NIC for, and who does
//! what. Not a part of Portals; ExaNeSt's allreduce accelerator ([`plan`] has its limits).
//!
//! Each node of a *board* has a client module, the first node of each board a server module too. Clients give their
//! vectors to the server of their board, which combines them; servers exchange what they have by recursive doubling,
//! and give the result to their clients.
//!
//! ```
//! use narrows_portals::offload::{Limit, plan};
//! // 8 ranks on two boards of 4, then 6 ranks.
//! let nodes: Vec<u32> = (0..8).collect();
//! let of_five = plan(&nodes, 4, 5).unwrap();
//! assert_eq!((of_five.clients, of_five.steps.len(), of_five.steps[0].peer), (vec![4, 5, 6, 7], 1, 0));
//! assert_eq!(plan(&nodes[..6], 4, 5), Err(Limit::Part { board: 1, ranks: 2, nodes: 4 }));
//! ```

use crate::{AtomicOperation, Datatype, Place};
use std::collections::BTreeMap;

/// Bytes that the engine takes at once ([TR488] 4.7); longer vectors are given to it in parts.
pub const BLOCK: u32 = 256;
/// Ranks of an allreduce at most ([TR488] 4.7).
pub const MAX_RANKS: usize = 1024;

/// A process gives a block to the client module of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allreduce {
    /// Tells groups of processes apart; all members give the same.
    pub group: u64,
    /// Counts the blocks of the group, from 0.
    pub sequence: u64,
    /// The block.
    pub source: Place,
    /// Where the result goes.
    pub target: Place,
    /// Its length.
    pub length: u32,
    /// Sum, smallest or largest.
    pub operation: AtomicOperation,
    /// Of `int`, `float` or `double`.
    pub datatype: Datatype,
    /// Who takes part.
    pub plan: Plan,
    /// Comes back in the reply.
    pub ticket: u32,
}

/// What the modules of a board do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The nodes of the board, the server's first.
    pub clients: Vec<u32>,
    /// What the server does with what it has of its clients, one after the other.
    pub steps: Vec<Step>,
}

/// Something between two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node of the other one.
    pub peer: u32,
    /// It gets what this one has.
    pub sends: bool,
    /// What this one does with what the other one has.
    pub takes: Takes,
}

/// What a server does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing comes.
    Nothing = 0,
    /// It is combined with what is there.
    Combined = 1,
    /// It is the result.
    Result = 2,
}

/// Why the accelerator does not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Two ranks on a node.
    Shared {
        /// Which.
        node: u32,
    },
    /// A board of which not all nodes take part.
    Part {
        /// Which.
        board: u32,
        /// Of its nodes.
        ranks: u32,
        /// All.
        nodes: u32,
    },
    /// More than [`MAX_RANKS`].
    Ranks {
        /// As many.
        ranks: u32,
    },
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::Shared { node } => write!(f, "node {node} has several ranks; the accelerator takes one per node"),
            Limit::Part { board, ranks, nodes } => {
                write!(f, "board {board} has ranks on {ranks} of its {nodes} nodes; the accelerator takes whole boards")
            }
            Limit::Ranks { ranks } => write!(f, "{ranks} ranks; the accelerator takes {MAX_RANKS} at most"),
        }
    }
}

/// The boards of `nodes`, by their numbers.
fn boards(nodes: &[u32], board: u32) -> Result<Vec<u32>, Limit> {
    if nodes.len() > MAX_RANKS {
        return Err(Limit::Ranks { ranks: nodes.len() as u32 });
    }
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Limit::Shared { node: pair[0] });
    }
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for node in sorted {
        *counts.entry(node / board).or_default() += 1;
    }
    match counts.iter().find(|(_, ranks)| **ranks != board) {
        Some((&number, &ranks)) => Err(Limit::Part { board: number, ranks, nodes: board }),
        None => Ok(counts.into_keys().collect()),
    }
}

/// Whether an allreduce among ranks on `nodes`, boards of `board` nodes each, is one for the accelerator.
///
/// # Errors
/// The [`Limit`] that it passes.
///
/// # Panics
/// When a board has no nodes.
pub fn check(nodes: &[u32], board: u32) -> Result<(), Limit> {
    boards(nodes, board).map(drop)
}

/// The part of the board of `node` in an allreduce among ranks on `nodes`. With a number of boards that is no power of
/// two, each second of the first few gives what it has to its neighbour and waits for the result, as in MPICH.
///
/// # Errors
/// The [`Limit`] that it passes.
///
/// # Panics
/// When a board has no nodes.
pub fn plan(nodes: &[u32], board: u32, node: u32) -> Result<Plan, Limit> {
    let boards = boards(nodes, board)?;
    let own = node / board;
    let clients = (own * board..(own + 1) * board).collect();
    let Ok(index) = boards.binary_search(&own) else { return Err(Limit::Part { board: own, ranks: 0, nodes: board }) };
    let server = |index: usize| boards[index] * board;
    let power = 1usize << boards.len().ilog2();
    let rest = boards.len() - power;
    let mut steps = Vec::new();
    if index < 2 * rest && index.is_multiple_of(2) {
        steps.push(Step { peer: server(index + 1), sends: true, takes: Takes::Nothing });
        steps.push(Step { peer: server(index + 1), sends: false, takes: Takes::Result });
        return Ok(Plan { clients, steps });
    }
    if index < 2 * rest {
        steps.push(Step { peer: server(index - 1), sends: false, takes: Takes::Combined });
    }
    let place = if index < 2 * rest { index / 2 } else { index - rest };
    let mut distance = 1;
    while distance < power {
        let other = place ^ distance;
        let other = if other < rest { 2 * other + 1 } else { other + rest };
        steps.push(Step { peer: server(other), sends: true, takes: Takes::Combined });
        distance *= 2;
    }
    if index < 2 * rest {
        steps.push(Step { peer: server(index - 1), sends: true, takes: Takes::Nothing });
    }
    Ok(Plan { clients, steps })
}

/// What the engine's arithmetic has ([TR488] 4.7).
pub fn offers(operation: AtomicOperation, datatype: Datatype) -> bool {
    matches!(operation, AtomicOperation::Sum | AtomicOperation::Min | AtomicOperation::Max)
        && matches!(datatype, Datatype::Int32 | Datatype::Float | Datatype::Double)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers that follow their plans, one message at a time: all of them end with the sum of all.
    #[test]
    fn all_boards_end_with_everything() {
        for count in 1..=40u32 {
            // Boards with gaps between them.
            let nodes: Vec<u32> = (0..count).flat_map(|board| (0..4).map(move |node| 12 * board + node)).collect();
            let servers: Vec<u32> = (0..count).map(|board| 12 * board).collect();
            let plans: Vec<Plan> = servers.iter().map(|&server| plan(&nodes, 4, server + 1).unwrap()).collect();
            let mut values: Vec<u64> = (0..count).map(|board| 1 << board).collect();
            let mut places = vec![0; count as usize];
            let mut sent = vec![false; count as usize];
            let mut under_way: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            let mut moved = true;
            while std::mem::take(&mut moved) {
                for index in 0..count as usize {
                    let Some(step) = plans[index].steps.get(places[index]) else { continue };
                    if step.sends && !std::mem::replace(&mut sent[index], true) {
                        assert_eq!(under_way.insert((servers[index], step.peer), values[index]), None);
                        moved = true;
                    }
                    match step.takes {
                        Takes::Nothing => {}
                        takes => {
                            let Some(come) = under_way.remove(&(step.peer, servers[index])) else { continue };
                            values[index] = if takes == Takes::Result { come } else { values[index] + come };
                        }
                    }
                    (places[index], sent[index], moved) = (places[index] + 1, false, true);
                }
            }
            assert!(values.iter().all(|value| *value == (1 << count) - 1), "{count} boards: {values:x?}");
            assert!(under_way.is_empty() && (0..count as usize).all(|index| places[index] == plans[index].steps.len()));
        }
    }

    #[test]
    fn exchanges_are_the_logarithm_of_the_boards() {
        let steps = |ranks: u32| plan(&(0..ranks).collect::<Vec<_>>(), 4, 0).unwrap().steps.len();
        assert_eq!([4, 8, 16, 32, 64, 128].map(steps), [0, 1, 2, 3, 4, 5], "log2 of the ranks, less 2");
    }

    #[test]
    fn limits_are_named() {
        assert_eq!(check(&[0, 1, 2, 2], 4), Err(Limit::Shared { node: 2 }));
        assert_eq!(check(&[0, 1, 2, 3, 8, 9, 10], 4), Err(Limit::Part { board: 2, ranks: 3, nodes: 4 }));
        assert_eq!(check(&(0..1028).collect::<Vec<_>>(), 4), Err(Limit::Ranks { ranks: 1028 }));
        assert_eq!(check(&(0..1024).collect::<Vec<_>>(), 4), Ok(()));
        assert_eq!(plan(&[0, 1, 2, 3], 4, 7), Err(Limit::Part { board: 1, ranks: 0, nodes: 4 }));
        assert_eq!(
            Limit::Part { board: 2, ranks: 3, nodes: 4 }.to_string(),
            "board 2 has ranks on 3 of its 4 nodes; the accelerator takes whole boards"
        );
    }
}
