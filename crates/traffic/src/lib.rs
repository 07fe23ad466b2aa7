//! Synthetic traffic: patterns and loads on the networks of `narrows-fabric`, and what is measured there.
//!
//! * [`pattern`] — who sends to whom; [`size`] — how long messages are; [`injection`] — when they start; [`class`] —
//!   all of that for a class of traffic; [`flows`] — messages that a file lists.
//! * [`Setup`] — a network, its traffic, how long to look; [`Simulation`] — one point of a load sweep; [`Point`] — its
//!   result.
//! * [`Background`] — sources beside something else that uses the network, such as ranks.
//! * [`loads`] — the list of loads of a sweep from text.
//!
//! Messages enter at the NIC's packetiser: no command, no PCIe, no matching (docs/decisions/0006-synthetic-traffic.md).
//! Loads and accepted traffic are fractions of the bandwidth of the host link, headers included, so that 1 is what a
//! NIC can send.
//!
//! ```
//! use narrows_fabric::NetworkConfig;
//! use narrows_topology::FatTree;
//! use narrows_traffic::{Class, Setup, Simulation, Work};
//! use narrows_units::SimTime;
//!
//! let class = Class::new("background", "uniform".parse().unwrap());
//! let setup = Setup {
//!     time: Some(SimTime::from_us(50)),
//!     ..Setup::new(NetworkConfig::default(), FatTree::k_ary_n_tree(4, 2).unwrap().build(), Work::Classes(vec![class]))
//! };
//! let point = Simulation::new(&setup, Some(0.3)).unwrap().run(&mut |_, _| true).unwrap();
//! assert!(!point.saturated && (point.accepted - 0.3).abs() < 0.03);
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod background;
pub mod class;
mod engine;
mod error;
pub mod flows;
mod handlers;
pub mod injection;
mod loads;
mod meter;
pub mod pattern;
mod point;
mod setup;
mod simulation;
pub mod size;
mod source;
mod telemetry;

pub use background::{Background, BackgroundClass, BackgroundSources, BackgroundTally};
pub use class::Class;
pub use error::TrafficError;
pub use flows::Flow;
pub use injection::Injection;
pub use loads::loads;
pub use pattern::Pattern;
pub use point::{ClassPoint, FlowTime, Point, Series, SlowDown, Times};
pub use setup::{Setup, Work};
pub use simulation::Simulation;
pub use size::Sizes;
pub use source::Outlet;
pub use telemetry::{FlowRow, LinkRow, QueueRow, Telemetry, stage};
