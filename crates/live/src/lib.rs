//! Live runs: real processes on the simulated machine.
//!
//! * [`endpoints`] — the message layer of the ranks.
//! * [`memory`] — payloads between processes, and what waits for a rank's wake.
//! * [`window`] — the main loop: hand-overs, windows of lookahead, deadlock.
//! * [`cores`] — which of the host's cores they run on.
//! * [`deputy`] — who wakes the ranks of another core.
//! * [`spin`] — ranks that wait for their memory to change without calling anybody.
//! * [`processes`] — launching, cleaning up.
//! * [`watch`] — which processes have ended, how, and in which order.
//! * [`timing`] — other timings of the same run.
//! * [`report`] — what a run gives back.
//!
//! Event queue, network and NICs as one simulation are the crate `narrows-sim`.
//!
//! The way of one message through these files stands in ARCHITECTURE.md.

pub mod cores;
pub mod deputy;
pub mod endpoints;
pub mod functions;
pub mod memory;
mod net;
pub mod processes;
pub mod report;
pub mod spin;
pub mod timing;
pub mod watch;
pub mod window;

pub use functions::Function;
pub use narrows_check::{Choice, Finding};
pub use report::{Failure, RankTimes, Report, Waiting};
pub use timing::{Delay, Timing};
pub use window::{Launcher, Options, World, run, world};

/// Where simulated time starts, when all ranks have left MPI_Init: before it the machine is there already.
pub const EPOCH: narrows_units::SimTime = narrows_units::SimTime(narrows_channel::layout::EPOCH_PS);
