//! What a replay gives back.

use crate::Times;
use crate::watch::Seen;
use narrows_message::{Passed, Sent};
use narrows_nic::HandlerReport;
use narrows_sim::{BackgroundClass, RailTotals};
use narrows_units::SimTime;

/// One trace of a replay. Everything in it ends when the trace does.
#[derive(Clone, Debug, Default)]
pub struct Application {
    /// The trace's name.
    pub name: String,
    /// Its ranks.
    pub ranks: u32,
    /// When its last rank ended, or how far it came.
    pub finish: SimTime,
    /// Ranks that did not come to their end.
    pub unfinished: u32,
    /// Messages received.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From the start of a send to the end of its receive.
    pub fct: Times,
    /// Fingerprint of all its messages and their times.
    pub digest: u64,
}

/// A whole replay.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the order in which they were given.
    pub applications: Vec<Application>,
    /// Simulated time at the end.
    pub finish: SimTime,
    /// When each rank ended; ranks of the applications one after the other.
    pub rank_finish: Vec<SimTime>,
    /// How long each rank computed on its core, in the same order; not of the LogGP replay.
    pub rank_computing: Vec<SimTime>,
    /// ... and on other units of its node.
    pub rank_beside: Vec<SimTime>,
    /// Events of the simulation.
    pub events: u64,
    /// Times that all regions of the machine met to go on; none under LogGP.
    pub windows: u64,
    /// What the NICs and the network of the machine did; not of the LogGP replay, which has none.
    pub totals: Option<narrows_sim::Totals>,
    /// What handlers on the NICs did, where there are some.
    pub handlers: Option<HandlerReport>,
    /// By rail, what the NICs did; empty under LogGP.
    pub rails: Vec<RailTotals>,
    /// What background traffic has sent, by class.
    pub background: Vec<BackgroundClass>,
    /// What the message layer sent which way; nothing under LogGP, which has none.
    pub sent: Sent,
    /// What has passed each gateway; nothing if the ranks needed none.
    pub passed: Vec<Passed>,
    /// What happened over time, when somebody looked.
    pub seen: Option<Seen>,
    /// Fingerprint of everything.
    pub digest: u64,
    /// Not everything ran: who waits for what, or that it was interrupted.
    pub failure: Option<String>,
}

impl Outcome {
    /// Messages of all applications.
    pub fn messages(&self) -> u64 {
        self.applications.iter().map(|application| application.messages).sum()
    }

    /// Bytes of all applications.
    pub fn bytes(&self) -> u64 {
        self.applications.iter().map(|application| application.bytes).sum()
    }
}

/// How far a replay is; whoever gets it says whether to go on.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Simulated time.
    pub now: SimTime,
    /// Operations that have ended.
    pub done: u64,
    /// Operations known so far.
    pub known: u64,
}
