//! Collective operations as schedules of point-to-point messages.
//!
//! A [`Schedule`] is one operation on one communicator. Each rank goes through *rounds*: all sends and receives of a
//! round start together, the round ends when all are complete, and then its local steps follow. [`Schedule::round`]
//! computes a round of a rank when it is asked for: a schedule of 32,768 ranks takes no memory per rank, but for trees
//! that follow the network ([`locality`]).
//!
//! Data are *blocks*: the message of a broadcast in segments, the vectors of a reduction in parts, one block per rank
//! in a gather. Each rank has three [`Area`]s of as many blocks. [`Schedule::bytes`] says how long a piece is.
//!
//! | module | what |
//! |---|---|
//! | `algorithm` | [`Operation`], [`Algorithm`], and which goes with which |
//! | `tree` | binary, binomial, chain, flat: who is whose child |
//! | `rooted` | over trees: broadcast, reduce, gather, scatter |
//! | `halving` | vectors in halves of halves: Rabenseifner's algorithm, reduce-scatters |
//! | `pieces` | a broadcast that scatters the message and gathers it everywhere |
//! | `exchange` | between equals: recursive doubling and halving, ring, Bruck, pairwise, dissemination |
//! | [`locality`] | trees that know where the ranks are (GLF, LLF, hardware) |
//! | [`rules`] | which algorithm for which size: the tables of Open MPI and MPICH |
//! | [`proof`] | runs a schedule on symbols and looks whether every rank ends with what MPI says |
//!
//! ```
//! use narrows_collectives::{Action, Algorithm, Operation, Schedule, proof};
//! use narrows_units::Bytes;
//! // 4 ranks, 1 MiB, rank 0 is the root.
//! let schedule = Schedule::new(Operation::Broadcast, Algorithm::Binomial, 4, 0, Bytes(1 << 20)).unwrap();
//! let mut actions = Vec::new();
//! schedule.round(3, 0, &mut actions);
//! assert!(matches!(actions[..], [Action::Receive { from: 2, .. }]));
//! assert_eq!(proof::run(&schedule).unwrap().messages, 3);
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod algorithm;
mod exchange;
mod halving;
pub mod locality;
mod pieces;
pub mod proof;
mod rooted;
pub mod rules;
mod tree;

pub use algorithm::{Algorithm, Operation, ScheduleError};
pub use tree::CustomTree;

use exchange::Fold;
use narrows_units::Bytes;
use std::sync::Arc;
use tree::Tree;

/// Where blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Area {
    /// What the rank brings. Operations without an output area of their own end here.
    Input,
    /// What the rank ends with.
    Output,
    /// Neither.
    Scratch,
}

/// Some blocks of an area, all indices modulo the number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// `count` blocks upwards from `first`.
    Run {
        /// First index.
        first: u32,
        /// How many.
        count: u32,
    },
    /// `count` blocks downwards from `first`.
    Down {
        /// First index.
        first: u32,
        /// How many.
        count: u32,
    },
    /// All whose index has this bit.
    Bit {
        /// Which bit.
        bit: u32,
    },
}

/// Some blocks of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which area.
    pub area: Area,
    /// Which blocks of it.
    pub blocks: Blocks,
}

impl Piece {
    fn run(area: Area, first: u32, count: u32) -> Piece {
        Piece { area, blocks: Blocks::Run { first, count } }
    }

    fn one(area: Area, index: u32) -> Piece {
        Piece::run(area, index, 1)
    }
}

/// One step of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends what the piece holds at the start of the round.
    Send {
        /// Rank in the communicator.
        to: u32,
        /// What.
        piece: Piece,
    },
    /// Receives.
    Receive {
        /// Rank in the communicator.
        from: u32,
        /// Where to.
        piece: Piece,
        /// The operation's function is applied to what is there and what comes; else what comes takes the place.
        combine: bool,
    },
    /// After the receives of the round: copies one piece to another one, or combines them.
    Local {
        /// From here ...
        from: Piece,
        /// ... to here.
        to: Piece,
        /// Applies the operation's function.
        combine: bool,
    },
}

/// How long the blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    /// All the same.
    Uniform(u64),
    /// `each` elements of `unit` bytes; the first `remainder` blocks have one more.
    Split { each: u64, remainder: u32, unit: u64 },
    /// `segment` bytes, as far as there are any: the last ones have fewer, or none.
    Segments { segment: u64, total: u64 },
    /// Elements of `unit` bytes in two parts, the first with half of them rounded down, each part in two parts again,
    /// and so on.
    Halves { elements: u64, unit: u64 },
}

/// How a rank serves its children in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Children {
    /// All at once.
    #[default]
    Together,
    /// One after the other: blocking sends or receives.
    OneByOne,
    /// Reductions: one after the other, the receive of the next one posted before the one before is waited for.
    OneAhead,
}

/// One collective operation on a communicator. See the crate's page.
#[derive(Clone, Debug)]
pub struct Schedule {
    operation: Operation,
    algorithm: Algorithm,
    ranks: u32,
    root: u32,
    /// Number of blocks of each area.
    blocks: u32,
    lengths: Lengths,
    children: Children,
    /// Gather: blocks that belong to different ranks lie in different places.
    apart: bool,
    /// All-to-all: so many exchanges at once.
    batch: u32,
    /// [`Algorithm::Hierarchical`]: ranks of a group; divides their number.
    group: u32,
    tree: Tree,
    fold: Fold,
    /// [`Algorithm::ExanetAccelerator`]: the node of each rank, and nodes of a board, for the NICs that do it.
    offloaded: Option<(Arc<[u32]>, u32)>,
    /// What comes behind it.
    next: Option<Arc<Schedule>>,
}

impl Schedule {
    /// `operation` by `algorithm` among `ranks` ranks. `bytes` is
    ///
    /// * of a broadcast, reduce, allreduce, scan: the length of the vector;
    /// * of a gather, scatter, allgather, all-to-all, reduce-scatter-block: the length of one rank's block;
    /// * of a reduce-scatter: the length of the whole vector, cut into equal parts;
    /// * of a barrier: nothing.
    ///
    /// # Errors
    /// When the algorithm does not do this operation, or not on so many ranks; when the root is not there; when the
    /// blocks of all ranks are more than [`Bytes::MESSAGE_MAX`].
    pub fn new(operation: Operation, algorithm: Algorithm, ranks: u32, root: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
        algorithm.check(operation, ranks)?;
        if root >= ranks {
            return Err(ScheduleError::Root { root, ranks });
        }
        if operation.has_blocks() {
            bytes.checked_mul(u64::from(ranks)).map_err(|excess| ScheduleError::Size { ranks, bytes: bytes.0, excess })?;
        }
        let Bytes(bytes) = bytes;
        let fold = Fold::new(ranks);
        let (blocks, lengths) = match (operation, algorithm) {
            (Operation::Barrier, _) => (1, Lengths::Uniform(0)),
            _ if operation.has_blocks() => (ranks, Lengths::Uniform(bytes)),
            (Operation::ReduceScatter, _) | (_, Algorithm::Ring | Algorithm::Hierarchical) => (ranks, split(bytes, ranks, 1)),
            (_, Algorithm::Rabenseifner) => (fold.power(), split(bytes, fold.power(), 1)),
            (_, Algorithm::RabenseifnerHalves) => (fold.power(), Lengths::Halves { elements: bytes, unit: 1 }),
            (_, Algorithm::ScatterAllgather | Algorithm::ScatterDoubling) => {
                (ranks, Lengths::Segments { segment: bytes.div_ceil(u64::from(ranks)), total: bytes })
            }
            _ => (1, Lengths::Uniform(bytes)),
        };
        let tree = Tree::of(algorithm, operation);
        Ok(Schedule {
            operation,
            algorithm,
            ranks,
            root,
            blocks,
            lengths,
            children: Children::Together,
            apart: false,
            batch: u32::MAX,
            group: 1,
            tree,
            fold,
            offloaded: None,
            next: None,
        })
    }

    /// The vector variants, as far as a trace tells them: the blocks of all ranks are `total` bytes together.
    ///
    /// # Panics
    /// When the operation has no block per rank.
    #[must_use]
    pub fn total(mut self, Bytes(total): Bytes) -> Schedule {
        assert_eq!(self.blocks, self.ranks, "{:?} by {:?} has no block per rank", self.operation, self.algorithm);
        self.lengths = split(total, self.ranks, 1);
        self
    }

    /// Vectors are cut between elements of so many bytes; 0: anywhere.
    #[must_use]
    pub fn elements(mut self, Bytes(unit): Bytes) -> Schedule {
        let total = self.before(self.blocks);
        if unit > 0 && total.is_multiple_of(unit) {
            match &mut self.lengths {
                Lengths::Split { .. } => self.lengths = split(total, self.blocks, unit),
                Lengths::Halves { .. } => self.lengths = Lengths::Halves { elements: total / unit, unit },
                Lengths::Uniform(_) | Lengths::Segments { .. } => {}
            }
        }
        self
    }

    /// Broadcasts and reductions over trees: in segments of so many bytes, 0 for one piece. Others stay as they are.
    #[must_use]
    pub fn segmented(mut self, Bytes(segment): Bytes) -> Schedule {
        if let (1, Lengths::Uniform(total)) = (self.blocks, self.lengths)
            && segment > 0
            && total > segment
            && self.algorithm.is_tree()
            && matches!(self.operation, Operation::Broadcast | Operation::Reduce)
        {
            // A message of more segments than a u32 has would take days.
            self.blocks = u32::try_from(total.div_ceil(segment)).unwrap_or(u32::MAX);
            self.lengths = Lengths::Segments { segment: total.div_ceil(u64::from(self.blocks)).max(segment), total };
        }
        self
    }

    /// Trees: how a rank serves its children. The next one is received ahead where a vector goes in one piece.
    #[must_use]
    pub fn children(mut self, children: Children) -> Schedule {
        self.children = children;
        self
    }

    /// Gather over a tree: a rank's own block stays where it is, and the root receives where blocks belong, as MPICH's
    /// for long blocks (MPIR_Gather_intra_binomial, MPIR_CVAR_GATHER_VSMALL_MSG_SIZE).
    #[must_use]
    pub fn apart(mut self, apart: bool) -> Schedule {
        self.apart = apart && self.operation == Operation::Gather;
        self
    }

    /// Whether what is sent has to be copied together first.
    pub fn sends_apart(&self, piece: Piece) -> bool {
        self.apart && matches!(piece.blocks, Blocks::Run { count, .. } if count > 1)
    }

    /// Whether what comes to `rank` has to be copied to more than one place: blocks of the last ranks and of the first
    /// ones, at the root.
    pub fn receives_apart(&self, rank: u32, piece: Piece) -> bool {
        self.apart && rank == self.root && matches!(piece.blocks, Blocks::Run { first, count } if first + count > self.blocks)
    }

    /// [`Algorithm::Knomial`]: the base, at least 2.
    #[must_use]
    pub fn base(mut self, base: u32) -> Schedule {
        if let Tree::Knomial(of_tree) = &mut self.tree {
            *of_tree = base.max(2);
        }
        self
    }

    /// Each rank goes on with its part of `next`, a schedule of as many ranks.
    #[must_use]
    pub fn then(mut self, next: Schedule) -> Schedule {
        self.next = Some(Arc::new(next));
        self
    }

    /// A linear all-to-all: a rank starts so many exchanges at once (0: all), and the next ones when these are
    /// complete.
    #[must_use]
    pub fn batched(mut self, batch: u32) -> Schedule {
        self.batch = if batch == 0 { u32::MAX } else { batch };
        self
    }

    /// [`Algorithm::Hierarchical`]: each so many ranks that follow each other are a group. Where that does not divide
    /// the number of ranks, all of them are one ring.
    #[must_use]
    pub fn grouped(mut self, ranks: u32) -> Schedule {
        self.group = if ranks > 0 && self.ranks.is_multiple_of(ranks) { ranks } else { 1 };
        self
    }

    /// The tree of a broadcast by [`Algorithm::Glf`], [`Algorithm::Llf`] or [`Algorithm::Hardware`].
    ///
    /// # Errors
    /// When the tree has another number of ranks or another root.
    pub fn over(mut self, tree: Arc<CustomTree>) -> Result<Schedule, ScheduleError> {
        if tree.ranks() != self.ranks || tree.root() != self.root {
            return Err(ScheduleError::Tree { ranks: tree.ranks(), root: tree.root() });
        }
        self.tree = Tree::Custom(tree);
        Ok(self)
    }

    /// The ranks to which the root sends one message for all, copied on its way: [`Algorithm::Hardware`] over
    /// [`locality::hardware`]. Rounds have a send to each of them.
    pub fn copied(&self) -> &[u32] {
        match (&self.tree, self.algorithm) {
            (Tree::Custom(tree), Algorithm::Hardware) => tree.copied(),
            _ => &[],
        }
    }

    /// [`Algorithm::ExanetAccelerator`] by the NICs of these nodes, of each rank its own, on boards of as many.
    #[must_use]
    pub fn offload(mut self, nodes: Arc<[u32]>, board: u32) -> Schedule {
        self.offloaded = Some((nodes, board)).filter(|_| self.algorithm == Algorithm::ExanetAccelerator);
        self
    }

    /// The nodes whose NICs do it, without any message of the ranks: of each rank its own, and nodes of a board.
    pub fn offloaded(&self) -> Option<&(Arc<[u32]>, u32)> {
        self.offloaded.as_ref()
    }

    /// Whether the receives that `rank` has in `round` are posted before the ones of the round before are waited for:
    /// the reducing part of Open MPI's rings, and its reductions over trees (coll/base,
    /// ompi_coll_base_allreduce_intra_ring, ompi_coll_base_reduce_generic).
    pub fn posts_ahead(&self, rank: u32, round: u32) -> bool {
        match (self.operation, self.algorithm) {
            _ if round == 0 => false,
            (Operation::Allreduce | Operation::ReduceScatter, Algorithm::Ring) => round + 1 < self.ranks,
            (Operation::Reduce, _) => self.children == Children::OneAhead && self.receives_in_turn(rank) > round,
            _ => false,
        }
    }

    /// What it does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// How.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Ranks of the communicator.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The root; 0 for operations without one.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// Blocks in each area.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Bytes of a piece.
    pub fn bytes(&self, piece: Piece) -> Bytes {
        Bytes(match piece.blocks {
            Blocks::Run { first, count } => self.run_bytes(first, count),
            Blocks::Down { first, count } => self.run_bytes((first + self.blocks - (count - 1) % self.blocks) % self.blocks, count),
            Blocks::Bit { bit } => match self.lengths {
                Lengths::Uniform(block) => u64::from(with_bit(self.blocks, bit)) * block,
                Lengths::Split { each, remainder, unit } => {
                    (u64::from(with_bit(self.blocks, bit)) * each + u64::from(with_bit(remainder, bit))) * unit
                }
                Lengths::Segments { .. } | Lengths::Halves { .. } => {
                    (0..self.blocks).filter(|index| index >> bit & 1 == 1).map(|index| self.run_bytes(index, 1)).sum()
                }
            },
        })
    }

    fn block_is_empty(&self, block: u32) -> bool {
        self.run_bytes(block, 1) == 0
    }

    fn all(&self, area: Area) -> Piece {
        Piece::run(area, 0, self.blocks)
    }

    fn run_bytes(&self, first: u32, count: u32) -> u64 {
        let end = first + count;
        if end <= self.blocks {
            self.before(end) - self.before(first)
        } else {
            self.before(self.blocks) - self.before(first) + self.before(end - self.blocks)
        }
    }

    /// Bytes of the blocks before `index`.
    fn before(&self, index: u32) -> u64 {
        let blocks = u64::from(index);
        match self.lengths {
            Lengths::Uniform(block) => blocks * block,
            Lengths::Split { each, remainder, unit } => (blocks * each + u64::from(index.min(remainder))) * unit,
            Lengths::Segments { segment, total } => (blocks * segment).min(total),
            Lengths::Halves { elements, unit } if index == self.blocks => elements * unit,
            Lengths::Halves { elements, unit } => {
                let (mut before, mut left, mut half) = (0, elements, self.blocks / 2);
                while half > 0 {
                    let first = left / 2;
                    (before, left) = if index & half != 0 { (before + first, left - first) } else { (before, first) };
                    half /= 2;
                }
                before * unit
            }
        }
    }

    /// How many rounds `rank` goes through.
    pub fn rounds(&self, rank: u32) -> u32 {
        self.own_rounds(rank) + self.next.as_ref().map_or(0, |next| next.rounds(rank))
    }

    /// The schedule that has this round of `rank`, and its number there: what comes behind another one counts from 0
    /// again, and has its own blocks.
    pub fn part(&self, rank: u32, round: u32) -> (&Schedule, u32) {
        match &self.next {
            Some(next) => match round.checked_sub(self.own_rounds(rank)) {
                Some(later) => next.part(rank, later),
                None => (self, round),
            },
            None => (self, round),
        }
    }

    /// Without those of what comes behind.
    fn own_rounds(&self, rank: u32) -> u32 {
        if self.ranks == 1 {
            // What a rank gives to itself takes no message; the local steps of an all-to-all are still a round.
            return u32::from(matches!(self.operation, Operation::Alltoall | Operation::Scan));
        }
        if self.algorithm.is_rooted(self.operation) { self.rooted_rounds(self.operation, rank) } else { self.exchange_rounds(rank) }
    }

    /// Writes what `rank` does in `round`, one of its own [`Schedule::rounds`], to `actions`, which is cleared first.
    /// What comes behind ([`Schedule::then`]) has to be asked itself: see [`Schedule::part`].
    pub fn round(&self, rank: u32, round: u32, actions: &mut Vec<Action>) {
        actions.clear();
        debug_assert!(round < self.own_rounds(rank), "round {round} of rank {rank}: {self:?}");
        if self.algorithm.is_rooted(self.operation) {
            self.rooted_round(self.operation, rank, round, actions);
        } else {
            self.exchange_round(rank, round, actions);
        }
        if self.leaves_out_empty() {
            actions.retain(|action| match *action {
                Action::Send { piece, .. } | Action::Receive { piece, .. } => self.bytes(piece) > Bytes(0),
                Action::Local { .. } => true,
            });
        }
    }

    /// Parts without any elements are not sent: in the reduce-scatter by halving of both libraries, and in
    /// MPI_Scatterv.
    fn leaves_out_empty(&self) -> bool {
        match self.algorithm {
            Algorithm::RecursiveHalving => true,
            Algorithm::Linear => self.operation == Operation::Scatter && matches!(self.lengths, Lengths::Split { .. }),
            _ => false,
        }
    }
}

/// Blocks of elements of `unit` bytes, which differ by one of them.
fn split(bytes: u64, blocks: u32, unit: u64) -> Lengths {
    let (elements, blocks) = (bytes / unit, u64::from(blocks));
    Lengths::Split { each: elements / blocks, remainder: (elements % blocks) as u32, unit }
}

/// How many numbers below `end` have this bit.
fn with_bit(end: u32, bit: u32) -> u32 {
    let (end, half) = (u64::from(end), 1u64 << bit);
    let (full, rest) = (end / (2 * half), end % (2 * half));
    (full * half + rest.saturating_sub(half)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_numbers_with_a_bit() {
        for end in 0..70 {
            for bit in 0..8 {
                assert_eq!(with_bit(end, bit), (0..end).filter(|index| index >> bit & 1 == 1).count() as u32, "{end} {bit}");
            }
        }
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let schedule = Schedule::new(Operation::Allreduce, Algorithm::Ring, 7, 0, Bytes(100)).unwrap();
        let one = |index| schedule.bytes(Piece::one(Area::Input, index)).0;
        assert_eq!((0..7).map(one).collect::<Vec<_>>(), [15, 15, 14, 14, 14, 14, 14]);
        assert_eq!(schedule.bytes(Piece::run(Area::Input, 5, 4)).0, 14 + 14 + 15 + 15);
        let down = |first, count| schedule.bytes(Piece { area: Area::Input, blocks: Blocks::Down { first, count } }).0;
        assert_eq!(down(1, 3), 15 + 15 + 14);
        assert_eq!(down(6, 7), 100);
        let segments = Schedule::new(Operation::Broadcast, Algorithm::Chain, 3, 0, Bytes(2500)).unwrap().segmented(Bytes(1000));
        assert_eq!(
            (segments.blocks(), segments.bytes(Piece::one(Area::Input, 2)), segments.bytes(Piece::run(Area::Input, 0, 3))),
            (3, Bytes(500), Bytes(2500))
        );
    }
}
