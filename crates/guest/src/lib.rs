//! What lives inside a rank's process: its clock, its side of the channel, and the rules that
//! turn polling into waiting.
//!
//! * [`session`] — attaches on first use and takes the process-wide lock; gives the [`Rank`].
//! * [`Rank::submit`] — a command for the NIC, stamped with the rank's clock.
//! * [`Rank::eq_get`] — the next event; an empty poll inside a blocking MPI call *is* the
//!   blocking call: the rank parks until something happens to it.
//! * [`Turn`] — threads of one process that wait at the same time.
//! * [`callers`] — several threads inside MPI.
//! * [`cards`] — what ranks put into the key-value space of their launcher.
//! * [`life`] — the beginning and the end of a process, in an order that the simulator can see.
//! * [`own_queue`] — what an MPI library sends to itself on a way of its own.
//! * [`hooks`] — enter and leave of MPI calls, clock and identity, for the preload library.
//!
//! Nothing here prints to standard output, unwinds into the program or needs a thread.

mod attach;
pub mod callers;
pub mod cards;
pub mod chance;
pub mod hooks;
pub mod life;
mod output;
pub mod own_queue;
mod rank;
mod shared;
mod stretches;
mod threads;
mod turns;

pub use attach::{AttachError, Session, attached, interrupt, session};
pub use narrows_channel::Settings;
pub use rank::{File, Rank, Waited, idle_poll};
pub use threads::{is_librarys_thread, librarys_thread_begins};
pub use turns::Turn;
