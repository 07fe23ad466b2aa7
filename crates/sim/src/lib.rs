//! The simulated machine without what drives it: one event queue, a network, the NICs, and the memory of processes behind a trait.
//! Live runs ([`Memory`] is that of real processes) and replay (payloads do not exist) are built on it.
//!
//! [`World::submit`] takes the commands of processes, [`World::step`] does one event; what the NICs tell a process comes out of
//! [`Memory::notify`]. [`World::multicast`] is a message that switches copy.

mod multicast;
mod world;

pub use multicast::Told;
pub use world::{Totals, World};

use narrows_nic::{Combine, Fault};
use narrows_portals::{Notice, Place};
use narrows_units::SimTime;

/// What the NICs do to the memory of processes. `payload` is a number from [`Memory::reserve`]: it names what came by [`Memory::hold`],
/// [`Memory::capture`] or [`Memory::fetch`] until [`Memory::release`]. A simulation without payloads (replay) has [`Memory::notify`] only.
pub trait Memory {
    /// The process `rank` sees `notice` from `now` on.
    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice);
    /// A number for a payload to come.
    fn reserve(&mut self) -> u32 {
        0
    }
    /// The payload is `bytes`.
    fn hold(&mut self, payload: u32, bytes: Box<[u8]>) {
        let _ = (payload, bytes);
    }
    /// The payload is what `rank` has at `place`.
    ///
    /// # Errors
    /// [`Fault`] for a place that may not be there and is not, and for a payload that could not be read. Elsewhere missing memory is an error of the run.
    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        let _ = (payload, rank, place, length);
        Ok(())
    }
    /// The payload is what one rank has at a place, and will go to that of another one, which may be
    /// overwritten from now on.
    ///
    /// # Errors
    /// As [`Memory::capture`].
    fn fetch(&mut self, payload: u32, from: (u32, Place), length: u64, to: (u32, Place)) -> Result<(), Fault> {
        let _ = (payload, from, length, to);
        Ok(())
    }
    /// Combines the payload with what `rank` has at `place`; a fetching one keeps the old value as its payload.
    ///
    /// # Errors
    /// As [`Memory::capture`].
    fn combine(&mut self, payload: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        let _ = (payload, rank, place, length, combine);
        Ok(())
    }
    /// Writes the first `length` payload bytes to `rank`.
    ///
    /// # Errors
    /// As [`Memory::capture`].
    fn deliver(&mut self, now: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        let _ = (now, payload, rank, place, length);
        Ok(())
    }
    /// The time that [`World::set_alarm`] was given has come.
    fn alarm(&mut self, now: SimTime, rank: u32) {
        let _ = (now, rank);
    }
    /// The payload is not needed any more.
    fn release(&mut self, payload: u32) {
        let _ = payload;
    }
}
