//! Options of commands that write a timeline.

use clap::Args;
use narrows_study::TimelineSpec;
use narrows_timeline::{LIMIT, Window};
use narrows_units::SimTime;
use std::path::PathBuf;

/// What happens when.
#[derive(Clone, Debug, Default, Args)]
pub struct TimelineArgs {
    /// Writes calls, messages and what NICs do as a trace for https://ui.perfetto.dev (docs/timeline.md)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    timeline: Option<PathBuf>,
    /// Leaves out of it what ends before this simulated time, such as 2ms
    #[arg(long, value_name = "TIME", help_heading = "Results", requires = "timeline")]
    timeline_from: Option<SimTime>,
    /// Leaves out of it what begins at this simulated time or later
    #[arg(long, value_name = "TIME", help_heading = "Results", requires = "timeline")]
    timeline_to: Option<SimTime>,
    /// Slices of it at most: one for a call, two for a message. It ends where they are used up
    /// [default: 1000000]
    #[arg(long, value_name = "N", help_heading = "Results", requires = "timeline")]
    timeline_limit: Option<u64>,
}

impl TimelineArgs {
    /// What they ask for.
    pub fn spec(&self) -> Option<TimelineSpec> {
        let (from, to) = (self.timeline_from.unwrap_or(SimTime::ZERO), self.timeline_to.unwrap_or(SimTime::MAX));
        let window = Window { from, to, limit: self.timeline_limit.unwrap_or(LIMIT) };
        self.timeline.clone().map(|path| TimelineSpec { path, window })
    }
}
