//! The simulated machine without what drives it: the NICs at the ports of a network, in the event loop of
//! [`narrows_fabric::parallel`], and processes behind a trait. Live runs (the memory is that of real processes) and
//! replay (payloads do not exist) are built on it.
//!
//! The way of a message: [`Requests::submit`] takes the command of a process to the NIC of its node (`station`); what
//! the NIC sends goes to the network, and its header to the region of the target (`inbound`); there the NIC gets both,
//! and what it tells a process comes out of [`Processes::notify`]. [`Requests::multicast`] is a message that switches
//! copy.
//!
//! What else happens there stands around the station (`wrapper`): `background` traffic, `failover` to other rails,
//! `multicast`, and `watched`, which tells a timeline.
//!
//! Several regions run on several threads ([`World::run_while`]); one can be led event by event ([`World::step`]).

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod background;
mod failover;
mod inbound;
mod multicast;
mod station;
mod watched;
mod world;
mod wrapper;

pub use multicast::{CopyNotice, MulticastTree};
pub use narrows_traffic::{Background, BackgroundClass};
pub use station::Requests;
pub use world::{Hardware, NetworkSetup, PortSetup, RailTotals, Setup, Totals, World};

use narrows_nic::{Combine, Fault};
use narrows_portals::{AtomicOperation, Datatype, Notice, Place};
use narrows_units::SimTime;

/// The processes of a region's nodes: what the NICs do to their memory, and what they do about it.
///
/// `payload` is a number from [`Processes::reserve`]: it names what came by [`Processes::hold`],
/// [`Processes::capture`] or [`Processes::fetch`] until [`Processes::release`]. Where payloads do not exist (replay)
/// these need not be there; where they do, there is one region.
pub trait Processes: Send {
    /// What they send to those of other nodes beside the network: it is there before anything that they start now.
    type Letter: Send + 'static;
    /// Every process writes its commands in the order in which it submits them.
    fn in_order(&self) -> bool {
        false
    }
    /// `rank` is about to be told something, or to act: see [`narrows_engine::prefetch`].
    fn prefetch(&self, step: u32, rank: u32) {
        let _ = (step, rank);
    }
    /// What happened has been told: they may act.
    fn proceed(&mut self, requests: &mut dyn Requests<Self::Letter>) {
        let _ = requests;
    }
    /// Whether a letter from another process of the simulation is one that `rank` can get.
    fn takes(&self, rank: u32, letter: &Self::Letter) -> bool {
        let _ = (rank, letter);
        true
    }
    /// A letter for `rank`.
    fn letter(&mut self, rank: u32, letter: Self::Letter) {
        let _ = (rank, letter);
    }
    /// A NIC has refused a command of one of them, the first in this region: what it asked for is never done.
    fn refused(&mut self) {}
    /// News of a message that switches copy.
    fn told(&mut self, told: CopyNotice) {
        let _ = told;
    }
    /// The process `rank` sees `notice` from `now` on. Numbers that it has given itself tell its NICs apart, if it has
    /// several.
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
    /// [`Fault`] for a place that may not be there and is not, and for a payload that could not be read. Elsewhere
    /// missing memory is an error of the run.
    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        let _ = (payload, rank, place, length);
        Ok(())
    }
    /// The payload is what one rank has at a place, and will go to that of another one, which may be
    /// overwritten from now on.
    ///
    /// # Errors
    /// As [`Processes::capture`].
    fn fetch(&mut self, payload: u32, from: (u32, Place), length: u64, to: (u32, Place)) -> Result<(), Fault> {
        let _ = (payload, from, length, to);
        Ok(())
    }
    /// Combines the payload with what `rank` has at `place`; a fetching one keeps the old value as its payload.
    ///
    /// # Errors
    /// As [`Processes::capture`].
    fn combine(&mut self, payload: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        let _ = (payload, rank, place, length, combine);
        Ok(())
    }
    /// There are bytes of the payload: it exists, and could be read.
    fn has_bytes(&self, payload: u32) -> bool {
        let _ = payload;
        false
    }
    /// All bytes of the payload, if there are some.
    fn bytes(&self, payload: u32) -> Option<Vec<u8>> {
        let _ = payload;
        None
    }
    /// Writes the first `length` payload bytes to `rank`.
    ///
    /// # Errors
    /// As [`Processes::capture`].
    fn deliver(&mut self, now: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        let _ = (now, payload, rank, place, length);
        Ok(())
    }
    /// The time that [`Requests::set_alarm`] was given has come.
    fn alarm(&mut self, now: SimTime, rank: u32) {
        let _ = (now, rank);
    }
    /// A payload with the same bytes.
    fn duplicate(&mut self, payload: u32) -> u32 {
        let _ = payload;
        self.reserve()
    }
    /// Combines the bytes of a payload with those of `into`.
    fn fold(&mut self, into: u32, payload: u32, operation: AtomicOperation, datatype: Datatype) {
        let _ = (into, payload, operation, datatype);
    }
    /// The payload is not needed any more.
    fn release(&mut self, payload: u32) {
        let _ = payload;
    }
}
