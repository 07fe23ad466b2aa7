//! The operations of MPI and the algorithms for each.

use narrows_units::Excess;
use std::fmt;
use std::str::FromStr;

/// A collective operation. The vector variants and the non-blocking ones have the same schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// MPI_Bcast.
    Broadcast,
    /// MPI_Reduce.
    Reduce,
    /// MPI_Allreduce.
    Allreduce,
    /// MPI_Gather(v).
    Gather,
    /// MPI_Scatter(v).
    Scatter,
    /// MPI_Allgather(v).
    Allgather,
    /// MPI_Barrier.
    Barrier,
    /// MPI_Alltoall(v).
    Alltoall,
    /// MPI_Reduce_scatter.
    ReduceScatter,
    /// MPI_Reduce_scatter_block.
    ReduceScatterBlock,
    /// MPI_Scan.
    Scan,
}

/// A way to do it. References: Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in
/// MPICH, IJHPCA 2005; Bruck et al.: Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
/// Systems, IEEE TPDS 1997; Pjesivac-Grbovic et al.: Performance Analysis of MPI Collective Operations, Cluster
/// Computing 2007.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// The root talks to everybody; of equals, everybody to everybody at once.
    Linear,
    /// Each rank has one child: a pipeline, if in segments.
    Chain,
    /// A heap: rank i has the children 2i+1 and 2i+2.
    Binary,
    /// Two children each, level by level: those of rank i in a level of n ranks are i + n and i + 2n.
    BinaryLevels,
    /// Rank i has the children i + 2^k for all 2^k below its lowest set bit.
    Binomial,
    /// Rank i has the children i + 2^k for all 2^k above its highest set bit.
    BinomialDoubling,
    /// The digits of a rank to the base k in place of its bits.
    Knomial,
    /// Gather: the root asks one rank after the other for its block.
    LinearSync,
    /// Broadcast: binomial scatter, then a ring.
    ScatterAllgather,
    /// Broadcast: binomial scatter, then recursive doubling.
    ScatterDoubling,
    /// Broadcast: to one rank of every other group of a dragonfly, then inside the groups (group first).
    Glf,
    /// Broadcast: to the routers of the own group, then over all global links at once (router first).
    Llf,
    /// Broadcast: one message to all nodes that the switches copy, then to the other ranks of each node.
    Hardware,
    /// Exchanges with the rank whose number differs in one bit, the lowest first.
    RecursiveDoubling,
    /// Reduce-scatter: exchanges with the rank whose number differs in one bit, the highest first, of half the rest
    /// each.
    RecursiveHalving,
    /// Neighbour to neighbour.
    Ring,
    /// Allgather: pairs of neighbours, to the one and the other side in turn.
    NeighbourExchange,
    /// Recursive halving, then recursive doubling or a gather. Of ranks beyond a power of two one half folds in all
    /// that it has.
    Rabenseifner,
    /// The same; pairs of ranks beyond a power of two fold in a half of the vector each.
    RabenseifnerHalves,
    /// Reduce-scatter: exchanges with the rank whose number differs in one bit, the lowest first, of half the rest
    /// each.
    Butterfly,
    /// In round k with the rank 2^k away, all blocks that have to go there together.
    Bruck,
    /// In round k to the rank k further on, from the rank k before.
    Pairwise,
    /// In round k with the rank whose number differs in the bits of k, where there is a power of two of ranks.
    PairwiseExclusiveOr,
    /// Barrier: in round k to the rank 2^k further on.
    Dissemination,
    /// A binomial reduce to rank 0, then a binomial broadcast or scatter.
    ReduceThenRoot,
    /// Allreduce: rings inside of groups of neighbours, and rings among the ranks with the same place in each group,
    /// each for its part of the vector.
    Hierarchical,
    /// Allreduce: by the NICs ([`Schedule::offloaded`](crate::Schedule::offloaded)); in messages it is recursive
    /// doubling.
    ExanetAccelerator,
}

impl Algorithm {
    /// All.
    pub const ALL: [Algorithm; 27] = [
        Algorithm::Linear,
        Algorithm::Chain,
        Algorithm::Binary,
        Algorithm::BinaryLevels,
        Algorithm::Binomial,
        Algorithm::BinomialDoubling,
        Algorithm::Knomial,
        Algorithm::LinearSync,
        Algorithm::ScatterAllgather,
        Algorithm::ScatterDoubling,
        Algorithm::Glf,
        Algorithm::Llf,
        Algorithm::Hardware,
        Algorithm::RecursiveDoubling,
        Algorithm::RecursiveHalving,
        Algorithm::Ring,
        Algorithm::NeighbourExchange,
        Algorithm::Rabenseifner,
        Algorithm::RabenseifnerHalves,
        Algorithm::Butterfly,
        Algorithm::Bruck,
        Algorithm::Pairwise,
        Algorithm::PairwiseExclusiveOr,
        Algorithm::Dissemination,
        Algorithm::ReduceThenRoot,
        Algorithm::Hierarchical,
        Algorithm::ExanetAccelerator,
    ];

    /// Its name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Linear => "linear",
            Algorithm::Chain => "chain",
            Algorithm::Binary => "binary",
            Algorithm::BinaryLevels => "binary-levels",
            Algorithm::Binomial => "binomial",
            Algorithm::BinomialDoubling => "binomial-doubling",
            Algorithm::Knomial => "k-nomial",
            Algorithm::LinearSync => "linear-sync",
            Algorithm::ScatterAllgather => "scatter-allgather",
            Algorithm::ScatterDoubling => "scatter-doubling",
            Algorithm::Glf => "glf",
            Algorithm::Llf => "llf",
            Algorithm::Hardware => "hardware",
            Algorithm::RecursiveDoubling => "recursive-doubling",
            Algorithm::RecursiveHalving => "recursive-halving",
            Algorithm::Ring => "ring",
            Algorithm::NeighbourExchange => "neighbour-exchange",
            Algorithm::Rabenseifner => "rabenseifner",
            Algorithm::RabenseifnerHalves => "rabenseifner-halves",
            Algorithm::Butterfly => "butterfly",
            Algorithm::Bruck => "bruck",
            Algorithm::Pairwise => "pairwise",
            Algorithm::PairwiseExclusiveOr => "pairwise-exclusive-or",
            Algorithm::Dissemination => "dissemination",
            Algorithm::ReduceThenRoot => "reduce-then-root",
            Algorithm::Hierarchical => "hierarchical",
            Algorithm::ExanetAccelerator => "exanet-accelerator",
        }
    }

    /// Every rank has a parent and children.
    pub(crate) fn is_tree(self) -> bool {
        use Algorithm::{Binary, BinaryLevels, Binomial, BinomialDoubling, Chain, Glf, Hardware, Knomial, Linear, Llf};
        matches!(self, Linear | Chain | Binary | BinaryLevels | Binomial | BinomialDoubling | Knomial | Glf | Llf | Hardware)
    }

    /// Of this operation done over a tree alone.
    pub(crate) fn is_rooted(self, operation: Operation) -> bool {
        use Operation::{Broadcast, Gather, Reduce, Scatter};
        self.is_tree() && matches!(operation, Broadcast | Reduce | Gather | Scatter)
    }

    /// Whether it does `operation`.
    pub fn does(self, operation: Operation) -> bool {
        use Algorithm::*;
        match operation {
            Operation::Broadcast => self.is_tree() || matches!(self, ScatterAllgather | ScatterDoubling),
            Operation::Reduce => {
                let is_tree = self.is_tree() && !matches!(self, Glf | Llf | Hardware);
                is_tree || matches!(self, Rabenseifner | RabenseifnerHalves)
            }
            Operation::Allreduce => {
                matches!(
                    self,
                    RecursiveDoubling
                        | Ring
                        | Rabenseifner
                        | RabenseifnerHalves
                        | Linear
                        | ReduceThenRoot
                        | Hierarchical
                        | ExanetAccelerator
                )
            }
            Operation::Gather => matches!(self, Linear | LinearSync | Binomial),
            Operation::Scatter => matches!(self, Linear | Binomial),
            Operation::Allgather => matches!(self, Linear | Ring | NeighbourExchange | Bruck | RecursiveDoubling),
            Operation::Barrier => matches!(self, Dissemination | RecursiveDoubling | Linear | ReduceThenRoot),
            Operation::Alltoall => matches!(self, Linear | Pairwise | PairwiseExclusiveOr | Bruck),
            Operation::ReduceScatter => matches!(self, RecursiveHalving | Pairwise | Ring | Butterfly | ReduceThenRoot),
            Operation::ReduceScatterBlock => {
                matches!(self, RecursiveDoubling | RecursiveHalving | Pairwise | Ring | Butterfly | ReduceThenRoot)
            }
            Operation::Scan => matches!(self, Linear | RecursiveDoubling),
        }
    }

    pub(crate) fn check(self, operation: Operation, ranks: u32) -> Result<(), ScheduleError> {
        if !self.does(operation) {
            return Err(ScheduleError::Algorithm { operation, algorithm: self });
        }
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(ScheduleError::Ranks { ranks });
        }
        if operation == Operation::Allgather && self == Algorithm::RecursiveDoubling && !ranks.is_power_of_two() {
            return Err(ScheduleError::PowerOfTwo { ranks });
        }
        Ok(())
    }
}

/// Most ranks of a schedule: sums of two indices stay below 2^32.
const MAX_RANKS: u32 = 1 << 30;

impl Operation {
    /// All.
    pub const ALL: [Operation; 11] = [
        Operation::Broadcast,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Barrier,
        Operation::Alltoall,
        Operation::ReduceScatter,
        Operation::ReduceScatterBlock,
        Operation::Scan,
    ];

    /// Whether one rank is special.
    pub fn has_root(self) -> bool {
        matches!(self, Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter)
    }

    /// Whether each rank has a block of the same length, which is what sizes of the operation are.
    pub fn has_blocks(self) -> bool {
        use Operation::{Allgather, Alltoall, Gather, ReduceScatterBlock, Scatter};
        matches!(self, Gather | Scatter | Allgather | Alltoall | ReduceScatterBlock)
    }

    /// Its name in machine files.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Broadcast => "bcast",
            Operation::Reduce => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Allgather => "allgather",
            Operation::Barrier => "barrier",
            Operation::Alltoall => "alltoall",
            Operation::ReduceScatter => "reduce-scatter",
            Operation::ReduceScatterBlock => "reduce-scatter-block",
            Operation::Scan => "scan",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Operation {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Operation, ScheduleError> {
        let found = Operation::ALL.into_iter().find(|operation| operation.name() == text);
        found.ok_or_else(|| ScheduleError::Name { what: "operation", name: text.to_owned(), known: names(&Operation::ALL) })
    }
}

impl FromStr for Algorithm {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Algorithm, ScheduleError> {
        let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        found.ok_or_else(|| ScheduleError::Name { what: "algorithm", name: text.to_owned(), known: names(&Algorithm::ALL) })
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn algorithms_for(operation: Operation) -> String {
    names(&Algorithm::ALL.into_iter().filter(|algorithm| algorithm.does(operation)).collect::<Vec<_>>())
}

/// Why there is no such schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The algorithm is for something else.
    #[error("{algorithm} does no {operation}; what does: {}", algorithms_for(*.operation))]
    Algorithm {
        /// What was asked for.
        operation: Operation,
        /// How.
        algorithm: Algorithm,
    },
    /// Too few or too many.
    #[error("a communicator of {ranks} ranks is not possible: 1 to {MAX_RANKS}")]
    Ranks {
        /// As asked for.
        ranks: u32,
    },
    /// The algorithm needs it.
    #[error("allgather by recursive-doubling needs a power of two of ranks, not {ranks}; use ring or bruck")]
    PowerOfTwo {
        /// As asked for.
        ranks: u32,
    },
    /// The root is not in the communicator.
    #[error("the root is rank {root}, but there are {ranks} ranks")]
    Root {
        /// As asked for.
        root: u32,
        /// Of the communicator.
        ranks: u32,
    },
    /// More than a simulation holds.
    #[error("{ranks} ranks with {bytes} B each: {excess}")]
    Size {
        /// Of the communicator.
        ranks: u32,
        /// Of each rank.
        bytes: u64,
        /// Of what.
        excess: Excess,
    },
    /// The tree belongs to another broadcast.
    #[error("the tree is of {ranks} ranks with rank {root} at its root")]
    Tree {
        /// Of the tree.
        ranks: u32,
        /// Of the tree.
        root: u32,
    },
    /// No such name.
    #[error("unknown {what} {name:?}; known: {known}")]
    Name {
        /// Operation or algorithm.
        what: &'static str,
        /// As given.
        name: String,
        /// All.
        known: String,
    },
}
