//! The event queue, its total order, the digest of a run, and seeded random streams.
//!
//! * [`EventQueue`] — events ordered by (time, who scheduled it, that one's sequence number).
//! * [`CalendarQueue`] — the queue below it, for those who give every event a key of their own.
//! * [`Digest`] — a 64-bit fingerprint of the event history.
//! * [`Arena`], [`Slab`], [`Tenants`] — things at places that are reused.
//! * [`WordMap`] — tables whose keys are numbers.
//! * [`prefetch`] — for those who know what an event will need; [`take_first`] — for queues that are mostly empty.
//! * [`stream`] — named random streams from one seed.
//!
//! ```
//! use narrows_engine::EventQueue;
//! use narrows_units::SimTime;
//! let mut queue = EventQueue::new();
//! queue.schedule(SimTime::from_ns(2), 7, "late");
//! queue.schedule(SimTime::from_ns(1), 9, "early");
//! assert_eq!(queue.pop().map(|(_, event)| event), Some("early"));
//! ```

#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod calendar;
mod digest;
mod prefetch;
mod queue;
pub mod random;
mod slab;
mod words;

pub use calendar::CalendarQueue;
pub use digest::Digest;
pub use prefetch::{prefetch, prefetch_all, take_first};
pub use queue::EventQueue;
pub use random::stream;
pub use slab::{Arena, Slab, Tenants};
pub use words::{WordHasher, WordMap};
