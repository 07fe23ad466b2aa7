//! Why there is no extrapolation.

use narrows_trace::TraceError;

/// Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ExtrapolateError {
    /// A recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Not enough is known.
    #[error("{0} recording of the program: expected at least two, at different numbers of ranks (three or more to check the model)")]
    TooFew(usize),
    /// Two recordings say nothing of what changes.
    #[error("{first} and {second} both have {ranks} ranks: leave one of them out")]
    SameRanks {
        /// A recording.
        first: String,
        /// Another one.
        second: String,
        /// Of both.
        ranks: u32,
    },
    /// It is not extrapolated but interpolated, or turned around.
    #[error("--ranks {asked}: expected at least as many as the largest recording has, {largest}, or as many as one of them has")]
    Smaller {
        /// What the user wants.
        asked: u32,
        /// What was recorded.
        largest: u32,
    },
    /// More than is planned for.
    #[error("--ranks {0}: expected at most {MOST_RANKS}")]
    TooMany(u32),
    /// Not a program of calls.
    #[error("{0}: its operations are a graph; expected a recording as `narrows record -o NAME.jsonl` makes it (or `narrows generate`)")]
    NotSequential(String),
    /// Kept in memory while the model is made.
    #[error("{name}: more than {MOST_OPERATIONS} operations in all recordings; record fewer steps")]
    TooLong {
        /// The recording in which there are too many.
        name: String,
    },
    /// The recordings have nothing in common, or too little.
    #[error(
        "{messages:.1} % of the messages, {calls:.1} % of the calls and {bytes:.1} % of the bytes are not explained ({why}), more than \
         --unexplained {limit:.1}%: are they recordings of one program with one input? If so, it is not one of those that are extrapolated"
    )]
    Unexplained {
        /// Percent of all messages.
        messages: f64,
        /// Percent of all parts in collectives.
        calls: f64,
        /// Percent of all bytes.
        bytes: f64,
        /// What the user allows, in percent.
        limit: f64,
        /// The first thing that is not explained.
        why: String,
    },
    /// The larger grid has places that no recorded one has.
    #[error(
        "{ranks} ranks are {grid}, and no recording has a rank such as {rank} ({place}): add one with at least {least} ranks in each of \
         these directions"
    )]
    NoSuchPlace {
        /// Asked for.
        ranks: u32,
        /// Its sides.
        grid: String,
        /// The first one of them.
        rank: u32,
        /// In words.
        place: String,
        /// Ranks in a direction that show it.
        least: u32,
    },
    /// The model is wrong.
    #[error("{0}: the model does not fit this number of ranks; record at one more, or a larger, number of ranks")]
    DoesNotMeet(String),
}

/// Our own choice: a trace of as many ranks as the formats hold would take days to write.
pub const MOST_RANKS: u32 = 1 << 20;
/// Our own choice: 32 bytes each, so 1.6 GB.
pub const MOST_OPERATIONS: u64 = 50_000_000;
