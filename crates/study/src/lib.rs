//! Studies: what is asked for as plain data, and what comes out as tables, numbers and pictures. The command line is a
//! thin layer above.
//!
//! * [`Spec`] — [`TrafficSpec`] or [`ReplaySpec`]: what is simulated, with typed fields.
//! * [`RunSpec`] — a real program on a simulated machine, with a [`RunOutcome`] of its own: its processes are children
//!   of this one, so it asks more of its caller.
//! * [`Outcome`] — a summary and the tables of a study; nothing is printed or written unless it is asked for.
//! * [`Observer`] — who shows how far a study is, hears its warnings, and may end it.
//! * [`PhySpec`] — frames over a link to the bit, with a [`PhyOutcome`].
//! * [`SpinSpec`] — packets through the handlers of a NIC that computes, with a [`SpinOutcome`].
//! * [`IpSpec`] — pings and streams of IP over a machine's network, with an [`IpOutcome`].
//! * [`TimelineSpec`] — calls and messages of a run or a replay, for Perfetto.
//! * [`Energy`] — what a run or a replay takes, where the machine file says what its parts take.
//! * [`report`] — one page of a result, made of its summary, tables and pictures.
//! * [`explore`] — many runs of one program, each with another legal timing.
//! * [`wiring`] — pictures of a network.
//! * [`figure`] — published figures: their folders, what they ask of the simulator, and how the answers compare.
//!
//! ```
//! use narrows_study::{MachineSpec, Messages, Silent, Spec, TrafficSpec};
//! use narrows_traffic::Class;
//! use narrows_units::SimTime;
//!
//! let mut spec = TrafficSpec::new(MachineSpec::named("bxi-v2"), Messages::Classes(vec![Class::new("",
//! "shift:1".parse()?)])); spec.machine.overrides.nodes = Some(4);
//! (spec.loads, spec.warmup, spec.time) = (Some(vec![0.25]), Some(SimTime::from_us(5)), Some(SimTime::from_us(50)));
//! let outcome = Spec::Traffic(spec).run(&Silent)?;
//! let summary = outcome.summary();
//! assert_eq!(summary["points"][0]["saturated"], false);
//! assert_eq!(outcome.tables()[0].0, "points");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod background;
mod energy;
mod error;
pub mod explore;
mod fabric_tables;
pub mod figure;
mod handlers;
mod hardware;
pub mod ip;
pub mod live;
pub mod phy;
mod processors;
pub mod replay;
pub mod report;
mod scale;
pub mod spin;
pub mod timeline;
pub mod traffic;
mod ways;
pub mod wiring;

pub use energy::Energy;
pub use error::StudyError;
use error::all_the_same;
pub use ip::{IpOutcome, IpSpec};
pub use live::{RunOutcome, RunSpec};
pub use phy::{PhyOutcome, PhySpec};
pub use replay::{ReplayOutcome, ReplaySpec};
pub use scale::{ComputeScale, Scale};
pub use spin::{SpinOutcome, SpinSpec};
pub use timeline::TimelineSpec;
pub use traffic::{Messages, TrafficOutcome, TrafficSpec};
pub use ways::Ways;

use narrows_machine::{Machine, NetworkKind, Overrides};
use narrows_output::Meter;
use narrows_results::Table;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// Who watches a study.
pub trait Observer: Sync {
    /// A part of the work begins ("reading halo.vef"), counted by `meter`; `detail` says more about where it is. It is
    /// over when what comes back is dropped.
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any>;

    /// Something to check before the results are trusted.
    fn warning(&self, text: &str);

    /// Whether to go on; asked often.
    fn goes_on(&self) -> bool;
}

/// Watches nothing, and lets everything go on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn part(&self, _: String, _: &Arc<Meter>, _: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        Box::new(())
    }

    fn warning(&self, _: &str) {}

    fn goes_on(&self) -> bool {
        true
    }
}

/// A machine by name, and what is changed in it.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineSpec {
    /// A preset or a file.
    pub name: String,
    /// Changes of single values.
    pub overrides: Overrides,
    /// The network model; `None`: the machine's.
    pub network: Option<NetworkKind>,
}

impl MachineSpec {
    /// A machine as it is.
    pub fn named(name: impl Into<String>) -> MachineSpec {
        MachineSpec { name: name.into(), overrides: Overrides::default(), network: None }
    }

    /// The machine, resolved; the observer hears its warnings.
    ///
    /// # Errors
    /// There is no such machine, or it has mistakes.
    pub fn load(&self, observer: &dyn Observer) -> Result<Machine, StudyError> {
        let mut overrides = self.overrides.clone();
        overrides.set.extend(self.network.map(|network| format!("network.kind={}", network.name())));
        let machine = Machine::load(&self.name, &overrides)?;
        machine.warnings().iter().for_each(|warning| observer.warning(warning));
        Ok(machine)
    }
}

/// What is simulated.
#[derive(Clone, Debug)]
pub enum Spec {
    /// Synthetic traffic at one load or several.
    Traffic(TrafficSpec),
    /// Traces on a machine, or under LogGP.
    Replay(ReplaySpec),
}

/// What came out.
#[derive(Debug)]
pub enum Outcome {
    /// Of synthetic traffic.
    Traffic(Box<TrafficOutcome>),
    /// Of a replay.
    Replay(Box<ReplayOutcome>),
}

impl Spec {
    /// Runs it.
    ///
    /// # Errors
    /// Something that it names is not there or does not fit; nothing was simulated then.
    pub fn run(&self, observer: &dyn Observer) -> Result<Outcome, StudyError> {
        match self {
            Spec::Traffic(spec) => spec.run(observer).map(Box::new).map(Outcome::Traffic),
            Spec::Replay(spec) => spec.run(observer).map(Box::new).map(Outcome::Replay),
        }
    }
}

impl Outcome {
    /// All numbers, as `summary.json` has them.
    pub fn summary(&self) -> Value {
        match self {
            Outcome::Traffic(outcome) => outcome.summary(),
            Outcome::Replay(outcome) => outcome.summary(),
        }
    }

    /// The tables by name, the most important one first.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        match self {
            Outcome::Traffic(outcome) => outcome.tables(),
            Outcome::Replay(outcome) => outcome.tables(),
        }
    }

    /// Why it is not what was asked for: interrupted, at a standstill, nothing measured.
    pub fn failure(&self) -> Option<String> {
        match self {
            Outcome::Traffic(outcome) => outcome.failure(),
            Outcome::Replay(outcome) => outcome.replay.failure.clone(),
        }
    }
}

/// The machine with one of its networks alone, of the nodes that join it: that of `fabric`, or the first one.
///
/// # Errors
/// It has none of this name; the text says which it has.
pub fn network_of(machine: Machine, fabric: Option<&str>) -> Result<Machine, StudyError> {
    if let Some(network) = machine.network_called(fabric) {
        return Ok(network.clone());
    }
    let names: Vec<&str> = machine.fabrics.iter().map(|fabric| fabric.name.as_str()).collect();
    let has = if names.is_empty() { String::from("one without a name") } else { names.join(", ") };
    Err(StudyError::Contradiction(format!("--fabric {}: no such network; the machine has {has}", fabric.unwrap_or_default())))
}
