//! One thread of a process runs at a time, and the host has no say in which: it is the ready one whose clock is least,
//! and of several the one that was made first (docs/decisions/0027-one-thread-at-a-time.md).
//!
//! * [`Baton`] — who is ready, who waits for what and until when, and who has the baton. A state machine without
//!   threads, clocks and memory of its own: what threads do goes in, who is next comes out.
//! * [`Seat`] — where a real thread waits until it has the baton.
//!
//! ```
//! use narrows_baton::{Baton, Next, Place, ThreadId};
//! let mut baton = Baton::default();
//! let (first, second) = (ThreadId(0), ThreadId(1));
//! baton.spawn(first, 100);
//! baton.spawn(second, 70);
//! assert_eq!(baton.pass(), Next::Run(second));
//! // It waits for a lock, until 500 at the latest; the other one gives it back at 200.
//! baton.block(second, Some(Place(8)), Some(500));
//! assert_eq!(baton.pass(), Next::Run(first));
//! assert_eq!(baton.wake(Place(8), 1, 200), [second]);
//! baton.exit(first);
//! assert_eq!(baton.pass(), Next::Run(second));
//! assert_eq!(baton.clock(second), Some(200));
//! ```

mod machine;
#[cfg(test)]
mod programs;
mod seat;

pub use machine::{Baton, Next, Place, ThreadId};
pub use seat::Seat;
