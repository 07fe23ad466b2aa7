//! Traces of MPI programs: what each rank does, independent of the machine that it runs on.
//!
//! * [`operation`]: the rank program, [`Operation`]s that depend on earlier ones of the same rank, and [`Program`],
//!   from which a replay takes them one by one.
//! * [`communicators`]: who takes part in a collective.
//!
//! ```
//! use narrows_trace::{Communicators, Dependency, Kind, Operation, Order, Program, Recorded};
//! use narrows_units::{Bytes, SimTime};
//!
//! // Rank 0 computes for 1 us and sends 8 bytes; rank 1 receives them.
//! let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
//! program.push(0, Operation::new(Kind::Compute { duration: SimTime::from_us(1) }), &[]);
//! program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(8), tag: 0 }), &[Dependency::done(0)]);
//! program.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(8), tag: Some(0) }), &[]);
//!
//! let mut after = Vec::new();
//! assert!(matches!(program.next(0, &mut after).unwrap().unwrap().kind, Kind::Compute { .. }));
//! let send = program.next(0, &mut after).unwrap().unwrap();
//! assert_eq!((send.kind, after), (Kind::Send { to: 1, bytes: Bytes(8), tag: 0 }, vec![Dependency::done(0)]));
//! ```

#![forbid(unsafe_code)]

pub mod analysis;
pub mod chakra;
mod communicators;
mod error;
mod file;
pub mod generate;
pub mod goal;
mod graph;
pub mod ideal;
pub mod json;
mod limits;
pub mod lines;
mod meetings;
pub mod operation;
mod recording;
mod sequence;
mod spool;
pub mod ti;
mod totals;
mod transform;
pub mod transformer;
pub mod vef;

pub use communicators::Communicators;
pub use error::{Location, Mistake, TraceError};
pub use file::{Format, ReadOptions, Trace, open, read, read_metered, write};
pub use limits::Limited;
pub use meetings::{CollectivePart, Contradiction, Meetings};
pub use operation::{Collective, CollectiveCall, Dependency, Event, Kind, Operation, Order, Program, Recorded};
pub use recording::{Recording, merge, recorded};
pub use sequence::{Sequence, Sink};
pub use spool::{Spool, Stored};
pub use totals::Totals;
pub use transform::{Anonymous, Metered, Scaled};
