//! Runs a schedule of all ranks on symbols instead of numbers, and compares what every rank ends with to what MPI says.
//!
//! A symbol stands for one block of data and knows whose contributions are in it. Combining two that share a
//! contribution, or that are of different blocks, is an error, so each contribution counts exactly once (but in a
//! barrier, where only the knowledge counts). Sends wait for their receiver (the strictest case that MPI allows), so a
//! schedule that passes cannot deadlock, whatever the limit of eager messages. Messages of a pair match in order;
//! pieces of both sides must have the same number of blocks.

use crate::{Action, Area, Blocks, Operation, Piece, Schedule};
use std::collections::{BTreeMap, VecDeque};

/// What a run moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
    /// Most rounds of a rank.
    pub rounds: u32,
}

/// What is wrong with a schedule, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProofError(String);

fn wrong<T>(what: String) -> Result<T, ProofError> {
    Err(ProofError(what))
}

/// A block: which one, and whose contributions are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Symbol {
    block: u32,
    from: Vec<u64>,
}

impl Symbol {
    fn of(block: u32, rank: u32, ranks: u32) -> Symbol {
        let mut from = vec![0; ranks.div_ceil(64) as usize];
        from[rank as usize / 64] |= 1 << (rank % 64);
        Symbol { block, from }
    }

    fn of_all(block: u32, members: impl Iterator<Item = u32>, ranks: u32) -> Symbol {
        let mut symbol = Symbol { block, from: vec![0; ranks.div_ceil(64) as usize] };
        members.for_each(|rank| symbol.from[rank as usize / 64] |= 1 << (rank % 64));
        symbol
    }
}

type Cells = Vec<Option<Symbol>>;

struct RankState {
    areas: [Cells; 3],
    round: u32,
    actions: Vec<Action>,
    /// Of the actions of this round: still open.
    open: usize,
    arrived: Vec<(Piece, bool, Cells)>,
}

/// A message on its way: number of blocks by their content.
type Channels = BTreeMap<(u32, u32), VecDeque<Cells>>;

/// Runs it.
///
/// # Errors
/// What is wrong: a deadlock, data sent that are not there, a contribution counted twice, a wrong result, a message
/// that nobody receives.
pub fn run(schedule: &Schedule) -> Result<Moved, ProofError> {
    let ranks = schedule.ranks();
    let mut moved = Moved { rounds: (0..ranks).map(|rank| schedule.rounds(rank)).max().unwrap_or(0), ..Moved::default() };
    let mut states: Vec<RankState> = (0..ranks).map(|rank| start(schedule, rank)).collect();
    let mut channels = Channels::new();
    let mut posted: BTreeMap<(u32, u32), VecDeque<(Piece, bool)>> = BTreeMap::new();
    let mut ready: VecDeque<u32> = (0..ranks).collect();
    while let Some(rank) = ready.pop_front() {
        if states[rank as usize].round == schedule.rounds(rank) {
            continue;
        }
        let mut actions = std::mem::take(&mut states[rank as usize].actions);
        schedule.round(rank, states[rank as usize].round, &mut actions);
        let mut touched = Vec::new();
        for action in &actions {
            match *action {
                Action::Send { to, piece } => {
                    check_peer(rank, to, ranks)?;
                    let content = read(&states[rank as usize], piece, schedule)?;
                    if let Some(hole) = content.iter().position(Option::is_none) {
                        return wrong(format!("rank {rank} sends block {hole} of {piece:?} to {to}, but has no data there"));
                    }
                    moved.messages += 1;
                    moved.bytes += schedule.bytes(piece).0;
                    channels.entry((rank, to)).or_default().push_back(content);
                    states[rank as usize].open += 1;
                    touched.push((rank, to));
                }
                Action::Receive { from, piece, combine } => {
                    check_peer(rank, from, ranks)?;
                    posted.entry((from, rank)).or_default().push_back((piece, combine));
                    states[rank as usize].open += 1;
                    touched.push((from, rank));
                }
                Action::Local { .. } => {}
            }
        }
        states[rank as usize].actions = actions;
        let mut complete = Vec::new();
        if states[rank as usize].open == 0 {
            complete.push(rank);
        }
        for pair @ (from, to) in touched {
            let (Some(sent), Some(rooms)) = (channels.get_mut(&pair), posted.get_mut(&pair)) else { continue };
            while !sent.is_empty() && !rooms.is_empty() {
                let (Some(content), Some((piece, combine))) = (sent.pop_front(), rooms.pop_front()) else { break };
                states[to as usize].arrived.push((piece, combine, content));
                for end in [from, to] {
                    states[end as usize].open -= 1;
                    if states[end as usize].open == 0 {
                        complete.push(end);
                    }
                }
            }
        }
        for rank in complete {
            finish_round(schedule, rank, &mut states[rank as usize])?;
            ready.push_back(rank);
        }
    }
    for (rank, state) in states.iter().enumerate() {
        if state.round < schedule.rounds(rank as u32) {
            return wrong(format!("deadlock: rank {rank} waits in round {} for {:?}", state.round, state.actions));
        }
    }
    if let Some((pair, _)) = channels.iter().find(|(_, sent)| !sent.is_empty()) {
        return wrong(format!("nobody receives a message of {pair:?}"));
    }
    for (rank, state) in states.iter().enumerate() {
        compare(schedule, rank as u32, state)?;
    }
    Ok(moved)
}

fn check_peer(rank: u32, peer: u32, ranks: u32) -> Result<(), ProofError> {
    if peer < ranks && peer != rank { Ok(()) } else { wrong(format!("rank {rank} talks to rank {peer} of {ranks}")) }
}

fn start(schedule: &Schedule, rank: u32) -> RankState {
    let (ranks, blocks) = (schedule.ranks(), schedule.blocks());
    let own = |block| Symbol::of(block, rank, ranks);
    let input: Cells = match schedule.operation() {
        Operation::Broadcast | Operation::Scatter => {
            // Blocks without any bytes need not travel.
            let is_empty = |block| schedule.operation() == Operation::Broadcast && schedule.blocks() > 1 && schedule.block_is_empty(block);
            let of = |block| Symbol::of(block, schedule.root(), ranks);
            (0..blocks).map(|block| (rank == schedule.root() || is_empty(block)).then(|| of(block))).collect()
        }
        Operation::Gather | Operation::Allgather => (0..blocks).map(|block| (rank == block).then(|| own(block))).collect(),
        _ => (0..blocks).map(|block| Some(own(block))).collect(),
    };
    let empty: Cells = vec![None; blocks as usize];
    RankState { areas: [input, empty.clone(), empty], round: 0, actions: Vec::new(), open: 0, arrived: Vec::new() }
}

fn indices(piece: Piece, blocks: u32) -> Vec<usize> {
    match piece.blocks {
        Blocks::Run { first, count } => (0..count).map(|index| ((first + index) % blocks) as usize).collect(),
        Blocks::Down { first, count } => (0..count).map(|index| ((first + blocks - index) % blocks) as usize).collect(),
        Blocks::Bit { bit } => (0..blocks).filter(|index| index >> bit & 1 == 1).map(|index| index as usize).collect(),
    }
}

fn read(state: &RankState, piece: Piece, schedule: &Schedule) -> Result<Cells, ProofError> {
    if let Blocks::Run { first, count } | Blocks::Down { first, count } = piece.blocks
        && (first >= schedule.blocks() || count > schedule.blocks())
    {
        return wrong(format!("{piece:?} of {} blocks", schedule.blocks()));
    }
    let area = &state.areas[piece.area as usize];
    Ok(indices(piece, schedule.blocks()).into_iter().map(|index| area[index].clone()).collect())
}

fn write(schedule: &Schedule, rank: u32, state: &mut RankState, piece: Piece, content: Cells, combine: bool) -> Result<(), ProofError> {
    let places = indices(piece, schedule.blocks());
    if places.len() != content.len() {
        return wrong(format!("rank {rank} has room for {} blocks and gets {}", places.len(), content.len()));
    }
    for (place, symbol) in places.into_iter().zip(content) {
        let cell = &mut state.areas[piece.area as usize][place];
        match (cell.as_mut(), symbol) {
            (Some(there), Some(symbol)) if combine => {
                if there.block != symbol.block {
                    return wrong(format!("rank {rank} combines blocks {} and {}", there.block, symbol.block));
                }
                for (mine, theirs) in there.from.iter_mut().zip(&symbol.from) {
                    if *mine & theirs != 0 && schedule.operation() != Operation::Barrier {
                        return wrong(format!("rank {rank} counts a contribution to block {} twice", symbol.block));
                    }
                    *mine |= theirs;
                }
            }
            (_, symbol) => *cell = symbol,
        }
    }
    Ok(())
}

fn finish_round(schedule: &Schedule, rank: u32, state: &mut RankState) -> Result<(), ProofError> {
    for (piece, combine, content) in std::mem::take(&mut state.arrived) {
        write(schedule, rank, state, piece, content, combine)?;
    }
    for action in std::mem::take(&mut state.actions) {
        if let Action::Local { from, to, combine } = action {
            let content = read(state, from, schedule)?;
            write(schedule, rank, state, to, content, combine)?;
        }
    }
    state.round += 1;
    Ok(())
}

/// What MPI says that `rank` ends with.
fn compare(schedule: &Schedule, rank: u32, state: &RankState) -> Result<(), ProofError> {
    let (ranks, root, blocks) = (schedule.ranks(), schedule.root(), schedule.blocks());
    let of = |block, from| Some(Symbol::of(block, from, ranks));
    let of_all = |block| Some(Symbol::of_all(block, 0..ranks, ranks));
    let (area, wanted): (Area, Vec<(u32, Option<Symbol>)>) = match schedule.operation() {
        Operation::Broadcast => (Area::Input, (0..blocks).map(|block| (block, of(block, root))).collect()),
        Operation::Reduce if rank != root => return Ok(()),
        Operation::Reduce | Operation::Allreduce | Operation::Barrier => {
            (Area::Input, (0..blocks).map(|block| (block, of_all(block))).collect())
        }
        Operation::Gather if rank != root => return Ok(()),
        Operation::Gather | Operation::Allgather => (Area::Input, (0..blocks).map(|block| (block, of(block, block))).collect()),
        Operation::Scatter => (Area::Input, vec![(rank, of(rank, root))]),
        Operation::Alltoall => (Area::Output, (0..blocks).map(|block| (block, of(rank, block))).collect()),
        Operation::ReduceScatter | Operation::ReduceScatterBlock => (Area::Input, vec![(rank, of_all(rank))]),
        Operation::Scan => (Area::Output, (0..blocks).map(|block| (block, Some(Symbol::of_all(block, 0..rank + 1, ranks)))).collect()),
    };
    for (block, wanted) in wanted {
        let found = &state.areas[area as usize][block as usize];
        if *found != wanted {
            return wrong(format!("rank {rank} ends with {found:?} in block {block}, expected {wanted:?}"));
        }
    }
    Ok(())
}
