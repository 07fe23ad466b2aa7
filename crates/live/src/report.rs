//! What a run gives back.

use crate::functions::Function;
use narrows_check::Checked;
use narrows_message::{Passed, Sent};
use narrows_nic::HandlerReport;
use narrows_sim::{BackgroundClass, RailTotals, Totals};
use narrows_units::SimTime;

/// Where one rank's simulated time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankTimes {
    /// Node index.
    pub node: u32,
    /// Outside MPI.
    pub computing: SimTime,
    /// Of that, what had its like before, and so a median.
    pub alike: SimTime,
    /// How far that was from its medians, up or down, in sum.
    pub spread: SimTime,
    /// In MPI calls, working.
    pub mpi: SimTime,
    /// In MPI calls, waiting.
    pub waiting: SimTime,
    /// When it reached MPI_Finalize.
    pub finished: SimTime,
    /// MPI calls.
    pub calls: u64,
    /// Those that may block.
    pub blocking_calls: u64,
}

/// Why a run ended early. The text names rank, node and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One or more lines for the user.
    pub message: String,
    /// Exit code for `narrows`.
    pub exit_code: i32,
}

/// A rank in a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub rank: u32,
    /// Its call, and where that stands.
    pub call: String,
    /// For whom it waits.
    pub whom: Vec<u32>,
    /// One of them is enough.
    pub any: bool,
}

/// The result of a live run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The latest time at which a rank reached MPI_Finalize, from the return of MPI_Init.
    pub simulated: SimTime,
    /// Per rank.
    pub ranks: Vec<RankTimes>,
    /// What the models counted.
    pub totals: Totals,
    /// What handlers on the NICs did, where there are some.
    pub handlers: Option<HandlerReport>,
    /// By rail, what the NICs did.
    pub rails: Vec<RailTotals>,
    /// What the message layer sent which way.
    pub sent: Sent,
    /// What has passed each gateway.
    pub passed: Vec<Passed>,
    /// What background traffic has sent, by class.
    pub background: Vec<BackgroundClass>,
    /// Process switches: hand-overs to ranks and back.
    pub crossings: u64,
    /// Windows.
    pub windows: u64,
    /// How often a rank was set apart: the others went on while it computed.
    pub apart: u64,
    /// Fingerprint of the event history.
    pub digest: u64,
    /// What the host has decided, see [`narrows_channel::layout::decided`]: ranks, and bits.
    pub decided: Vec<(u32, u32)>,
    /// The ranks reached MPI_Init.
    pub started: bool,
    /// The launcher's exit code.
    pub exit_code: i32,
    /// Why it ended early.
    pub failure: Option<Failure>,
    /// Time by MPI function and call site, if it was asked for.
    pub functions: Vec<Function>,
    /// What does not fit in the MPI calls of the program, if that was looked at.
    pub checked: Checked,
    /// Who waits for whom in a deadlock, if calls were looked at.
    pub waits: Vec<Waiting>,
}
