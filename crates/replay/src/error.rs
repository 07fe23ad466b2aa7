//! What can go wrong with a replay.

use crate::graph::NONE;
use narrows_collectives::ScheduleError;
use narrows_fabric::TreeError;
use narrows_fabric::parallel::ProcessError;
use narrows_machine::PlacementError;
use narrows_portals::FailType;
use narrows_trace::{Contradiction, TraceError};
use narrows_units::{Excess, SimTime};

/// Why a program cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Something is wrong with a rank, or with one of its operations.
    #[error("rank {rank}{}: {problem}", operation.map_or(String::new(), |operation| format!(", operation {operation}")))]
    Rank {
        /// Of the trace.
        rank: u32,
        /// Number among the operations of the rank, from 0.
        operation: Option<u64>,
        /// What.
        problem: Problem,
    },
    /// Two ranks say different things of one collective.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// Of one of several traces.
    #[error("{name}: {error}")]
    Of {
        /// The trace.
        name: String,
        /// Why.
        error: Box<ReplayError>,
    },
    /// Operations wait for others that never come: which ones, by lines.
    #[error("{0}")]
    Deadlock(String),
    /// The user does not want to wait any longer.
    #[error("interrupted at simulated time {0}")]
    Interrupted(SimTime),
    /// Ranks cannot be placed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// More ranks than have numbers.
    #[error("the traces have more than 2^32 ranks together")]
    Ranks,
    /// The share of a trace is too small.
    #[error(
        "trace {trace} has {ranks} ranks, but its share is {processors} processors of {} cores; use more --nodes, another --ppn, or --mapping linear",
        .cores.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
    )]
    Share {
        /// From 1.
        trace: usize,
        /// Of the trace.
        ranks: u32,
        /// That it may use.
        processors: usize,
        /// Of each kind of processor.
        cores: Vec<u32>,
    },
    /// The processes that share the replay cannot go on together.
    #[error(transparent)]
    Processes(#[from] ProcessError),
    /// The LogGP replay keeps all operations in memory.
    #[error("more than {} operations: too many for the LogGP replay, which keeps them in memory; use --network packet or flow", NONE / 2)]
    TooMany,
}

/// What is wrong with an operation.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// There is no such collective operation.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A collective on a communicator that is not there, or of which the rank is no member.
    #[error("a collective on communicator {0}, of which the rank is no member")]
    Member(u32),
    /// A collective has a partner that its communicator has not.
    #[error("its partner is number {position} of communicator {communicator}, which has no such member")]
    Position {
        /// As in the trace.
        communicator: u32,
        /// In the communicator.
        position: u32,
    },
    /// A message to or from a rank that is not there.
    #[error("the other rank is {peer}, but the trace has {ranks} ranks")]
    Peer {
        /// As in the trace.
        peer: u32,
        /// Of the trace.
        ranks: u32,
    },
    /// Switches cannot copy here.
    #[error(transparent)]
    Multicast(#[from] TreeError),
    /// Times or sizes beyond what a simulation holds.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// A message is longer than its receive.
    #[error("a message of {bytes} B{} for {receive}", source_rank.map(|rank| format!(" from rank {rank}")).unwrap_or_default())]
    Truncated {
        /// Of the message.
        bytes: u64,
        /// Who sent it, where the receive does not say it.
        source_rank: Option<u32>,
        /// The receive.
        receive: String,
    },
    /// A message did not arrive.
    #[error("the network gave its message up ({})", .0.name())]
    Transport(FailType),
}

impl Problem {
    /// Of an operation of a rank.
    pub(crate) fn of(self, rank: u32, operation: u64) -> ReplayError {
        ReplayError::Rank { rank, operation: Some(operation), problem: self }
    }
}
