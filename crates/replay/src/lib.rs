//! Replay: the rank programs of traces on a simulated machine.
//!
//! | module | what |
//! |---|---|
//! | [`loggp`] | the LogGOPS model by itself: no NIC, no network, millions of messages per second |
//! | [`expand`] | a program with its collectives spelt out in messages |
//! | [`graph`] | the operations of all ranks in memory, and who waits for whom |
//! | [`collectives`] | from the calls of a trace to schedules |
//! | [`machine`] | ranks with clocks, the message layer, NICs, a network |
//! | [`mapping`] | where ranks run |
//! | [`port`] | the Portals library of a replayed rank |
//! | [`report`] | what comes out: per application and for all |
//! | `copied` | broadcasts that switches copy |
//! | [`watch`] | what happens over time |
//! | `queue` | the event queue of `loggp` |
//! | `times` | flow completion times without keeping each |

#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod collectives;
mod copied;
mod error;
pub mod expand;
pub mod graph;
pub mod loggp;
pub mod machine;
pub mod mapping;
pub mod port;
mod queue;
pub mod report;
mod times;
pub mod watch;

pub use error::ReplayError;
pub use graph::Graph;
pub use report::{Application, Outcome};
pub use times::Times;
