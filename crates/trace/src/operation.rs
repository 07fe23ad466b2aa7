//! The rank program.
//!
//! Every operation of a rank is non-blocking and names the earlier operations of the same rank that it waits for. That
//! covers both worlds: an MPI call that blocks is an operation whose successor waits for its end; `MPI_Wait` is no
//! operation at all, but dependencies of what follows it; the graphs of GOAL and the dependencies of VEF are taken as
//! they are.
//!
//! | MPI | operations |
//! |---|---|
//! | `MPI_Send` | a send; the next operation waits for its [`Event::Done`] |
//! | `MPI_Isend` | a send; the next operation waits for its [`Event::Started`] |
//! | `MPI_Waitall` | the next operation waits for [`Event::Done`] of all of them |
//! | `MPI_Sendrecv` | a receive and a send with the same dependencies |

use crate::{Communicators, TraceError};
use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// One operation of one rank. It starts [`Operation::delay`] after the last of its dependencies, or after the start of
/// the run if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it does.
    pub kind: Kind,
    /// Time between its dependencies and its start. Unlike [`Kind::Compute`] it does not occupy a CPU: two operations
    /// may wait at the same time (VEF). It stands for the program's own work, so that a scaling of computing time
    /// scales it too.
    pub delay: SimTime,
    /// The CPU (core) of the rank that works on it. 0 but for GOAL programs with several.
    pub cpu: u8,
    /// The NIC that it uses. 0 but for GOAL programs with several.
    pub nic: u8,
}

impl Operation {
    /// An operation without delay, on CPU and NIC 0.
    pub const fn new(kind: Kind) -> Operation {
        Operation { kind, delay: SimTime::ZERO, cpu: 0, nic: 0 }
    }
}

/// What an operation does. Ranks are those of the whole program (of MPI_COMM_WORLD), not of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Computing. Starts when its CPU is free; done after `duration`.
    Compute {
        /// How long.
        duration: SimTime,
    },
    /// Sends a message. Started: handed to the message layer. Done: the buffer may be used again (`MPI_Wait` would
    /// return).
    Send {
        /// Destination.
        to: u32,
        /// Payload.
        bytes: Bytes,
        /// Tag.
        tag: u32,
    },
    /// Receives a message: the first one that matches, in MPI's order. Started: posted. Done: received.
    Receive {
        /// Source; `None`: any.
        from: Option<u32>,
        /// Size of the buffer. Messages may be shorter; if they are longer the trace is wrong.
        bytes: Bytes,
        /// Tag; `None`: any.
        tag: Option<u32>,
    },
    /// A part in a collective operation. All members of a communicator start their collectives in the same order: the
    /// n-th one of each belong together. Done: this rank's part is over.
    Collective(CollectiveCall),
}

/// A part in a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveCall {
    /// Which one.
    pub operation: Collective,
    /// Index in the program's [`Communicators`].
    pub communicator: u32,
    /// Position of the root among the communicator's members; 0 for those without.
    pub root: u32,
    /// Bytes that this rank contributes; see [`Collective`].
    pub send: Bytes,
    /// Bytes that this rank gets; see [`Collective`].
    pub receive: Bytes,
    /// Bytes of one element of a reduction; 0 where the format does not say, and for collectives that reduce nothing.
    /// Libraries choose by the number of elements, and cut vectors between them.
    pub element: Bytes,
}

impl CollectiveCall {
    /// The size that all members of a communicator must agree on, for the collectives that have one.
    pub fn common_size(&self) -> Option<Bytes> {
        match self.operation {
            Collective::Barrier | Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv => None,
            Collective::Broadcast | Collective::Reduce => Some(self.send.max(self.receive)),
            Collective::Scatter | Collective::Allgatherv => Some(self.receive),
            Collective::Allreduce
            | Collective::Gather
            | Collective::Allgather
            | Collective::Alltoall
            | Collective::ReduceScatterBlock
            | Collective::ReduceScatter
            | Collective::Scan
            | Collective::Exscan => Some(self.send),
        }
    }
}

/// For messages: `bcast of 8 B with root 0`.
impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation.name())?;
        match self.common_size() {
            Some(Bytes(bytes)) => write!(f, " of {bytes} B")?,
            None if self.operation == Collective::Barrier => {}
            None => write!(f, " (sends {} B, gets {} B)", self.send.0, self.receive.0)?,
        }
        if self.operation.has_root() { write!(f, " with root {}", self.root) } else { Ok(()) }
    }
}

/// For messages: `a send of 8 B to rank 1, tag 0`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Compute { duration } => write!(f, "computing for {duration}"),
            Kind::Send { to, bytes: Bytes(bytes), tag } => write!(f, "a send of {bytes} B to rank {to}, tag {tag}"),
            Kind::Receive { from, bytes: Bytes(bytes), tag } => {
                write!(f, "a receive of up to {bytes} B from ")?;
                match from {
                    Some(from) => write!(f, "rank {from}, ")?,
                    None => f.write_str("any rank, ")?,
                }
                match tag {
                    Some(tag) => write!(f, "tag {tag}"),
                    None => f.write_str("any tag"),
                }
            }
            Kind::Collective(call) => write!(f, "{call} on communicator {}", call.communicator),
        }
    }
}

/// Collective operations, with what `send` and `receive` mean: the bytes in this rank's send and receive buffer, its
/// own part included. n is the size of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Collective {
    /// 0, 0.
    Barrier,
    /// Root X, 0; others 0, X.
    Broadcast,
    /// Root X, X; others X, 0.
    Reduce,
    /// X, X.
    Allreduce,
    /// Root X, n X; others X, 0.
    Gather,
    /// Root: what it has, the sum of all; others: what they have, 0.
    Gatherv,
    /// Root n X, X; others 0, X.
    Scatter,
    /// Root: the sum of all, what it keeps; others 0, what they get.
    Scatterv,
    /// X, n X.
    Allgather,
    /// What this rank has, the sum of all.
    Allgatherv,
    /// n X, n X.
    Alltoall,
    /// The sum of what it sends, the sum of what it gets. Who sends how much to whom is not known.
    Alltoallv,
    /// n X, X.
    ReduceScatterBlock,
    /// The sum of all, what this rank keeps.
    ReduceScatter,
    /// X, X.
    Scan,
    /// X, X.
    Exscan,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 16] = [
        Collective::Barrier,
        Collective::Broadcast,
        Collective::Reduce,
        Collective::Allreduce,
        Collective::Gather,
        Collective::Gatherv,
        Collective::Scatter,
        Collective::Scatterv,
        Collective::Allgather,
        Collective::Allgatherv,
        Collective::Alltoall,
        Collective::Alltoallv,
        Collective::ReduceScatterBlock,
        Collective::ReduceScatter,
        Collective::Scan,
        Collective::Exscan,
    ];

    /// MPI's name in lower case, without `MPI_`.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Broadcast => "bcast",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
            Collective::Gather => "gather",
            Collective::Gatherv => "gatherv",
            Collective::Scatter => "scatter",
            Collective::Scatterv => "scatterv",
            Collective::Allgather => "allgather",
            Collective::Allgatherv => "allgatherv",
            Collective::Alltoall => "alltoall",
            Collective::Alltoallv => "alltoallv",
            Collective::ReduceScatterBlock => "reduce_scatter_block",
            Collective::ReduceScatter => "reduce_scatter",
            Collective::Scan => "scan",
            Collective::Exscan => "exscan",
        }
    }

    /// The reverse of [`Collective::name`].
    pub fn by_name(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Whether vectors are combined.
    pub const fn reduces(self) -> bool {
        use Collective::*;
        matches!(self, Reduce | Allreduce | ReduceScatterBlock | ReduceScatter | Scan | Exscan)
    }

    /// Whether one member is special.
    pub const fn has_root(self) -> bool {
        use Collective::*;
        matches!(self, Broadcast | Reduce | Gather | Gatherv | Scatter | Scatterv)
    }
}

/// What has to happen to an earlier operation of the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// It has begun: GOAL's `irequires`, the return of a non-blocking call.
    Started,
    /// It is over: GOAL's `requires`, the return of a blocking call or of its wait.
    Done,
}

/// One operation that has to come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Its number among the operations of the same rank, from 0, in the order of [`Program::next`]; smaller than the
    /// number of the operation that depends on it.
    pub operation: u64,
    /// What has to happen to it.
    pub event: Event,
}

impl Dependency {
    /// The end of an operation.
    pub const fn done(operation: u64) -> Dependency {
        Dependency { operation, event: Event::Done }
    }

    /// The start of an operation.
    pub const fn started(operation: u64) -> Dependency {
        Dependency { operation, event: Event::Started }
    }
}

/// How far ahead of the operations that run a replay has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Each operation waits at least for the start of the one before it: no later one can start before a waiting one.
    Sequential,
    /// The operations of all ranks stand in one order in which each comes after all that it waits for, in other ranks
    /// too (VEF). A replay that keeps a bounded number of operations of each rank waiting never stands still, but may
    /// start an operation too late if it stands further behind than that.
    Causal,
    /// Nothing is known: all operations of a rank have to be taken before time moves on (GOAL).
    Graph,
}

/// The programs of all ranks of one application, taken operation by operation.
///
/// Implementations need memory for ranks, not for operations: a replay may take from the ranks in any order.
pub trait Program {
    /// Number of ranks.
    fn ranks(&self) -> u32;

    /// The communicators of its collectives.
    fn communicators(&self) -> &Communicators;

    /// What a replay may rely on.
    fn order(&self) -> Order;

    /// Which MPI library the program was recorded under, in that library's own words.
    fn mpi(&self) -> Option<&str> {
        None
    }

    /// The next operation of `rank`, or `None` after its last one. `after` is cleared and filled with its dependencies.
    ///
    /// # Errors
    /// The source cannot be read.
    ///
    /// # Panics
    /// If `rank` is not below [`Program::ranks`].
    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError>;
}

impl<P: Program + ?Sized> Program for Box<P> {
    fn ranks(&self) -> u32 {
        (**self).ranks()
    }
    fn communicators(&self) -> &Communicators {
        (**self).communicators()
    }
    fn order(&self) -> Order {
        (**self).order()
    }
    fn mpi(&self) -> Option<&str> {
        (**self).mpi()
    }
    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        (**self).next(rank, after)
    }
}

/// A program in memory, for tests and small ones.
#[derive(Clone, Debug)]
pub struct Recorded {
    communicators: Communicators,
    order: Order,
    ranks: Vec<VecDeque<(Operation, Vec<Dependency>)>>,
}

impl Recorded {
    /// An empty program.
    pub fn new(ranks: u32, communicators: Communicators, order: Order) -> Recorded {
        Recorded { communicators, order, ranks: vec![VecDeque::new(); ranks as usize] }
    }

    /// Appends an operation.
    ///
    /// # Panics
    /// If `rank` is not below the number of ranks.
    pub fn push(&mut self, rank: u32, operation: Operation, after: &[Dependency]) {
        self.ranks[rank as usize].push_back((operation, after.to_vec()));
    }
}

impl Program for Recorded {
    fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        self.order
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        after.clear();
        Ok(self.ranks[rank as usize].pop_front().map(|(operation, dependencies)| {
            *after = dependencies;
            operation
        }))
    }
}
