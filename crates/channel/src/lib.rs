//! The shared memory between the ranks and the simulator: its layout and its protocol.
//!
//! One file, mapped by the simulator and by every rank:
//!
//! ```text
//! Header | RankHeader 0 | commands 0 | notices 0 | RankHeader 1 | ...
//! ```
//!
//! A region is only ever touched by its owner. [`RankHeader::state`] says who that is: the rank
//! while it is [`state::RUNNING`], else the simulator. A rank appends commands while it runs and
//! reads the notices that were put there before it was woken; the simulator does the reverse
//! while the rank is parked. So neither side needs more synchronisation than the hand-over of
//! the state word, which is also the futex that a parked rank sleeps on.
//!
//! * [`layout`] — the `repr(C)` structures.
//! * [`record`] — commands and notices as words; decoding checks everything, for a broken or
//!   hostile rank may have written anything.
//! * [`handover`] — how a region changes hands.
//! * [`futex`] — sleep and wake.
//! * [`map`] — mapping the file.
//! * [`stretches`] — what computing took before.
//! * [`counter`] — counters of the processor.

pub mod counter;
pub mod futex;
pub mod handover;
pub mod layout;
pub mod map;
pub mod record;
pub mod stretches;

pub use layout::{Header, Processor, RankHeader, Settings, phase, reason, state};
pub use map::{Mapping, MappingError};
