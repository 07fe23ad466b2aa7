//! What goes out of the state machine.

use narrows_fabric::Transfer;
use narrows_portals::{AtomicOperation, Datatype, Notice, Place};
use narrows_units::SimTime;

/// A message inside the NICs: a slot, reused when the message has come to its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MessageId(pub u32);

/// A process: index over all processes of the machine (its global rank).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Process(pub u32);

/// Memory that may not be there was not there ([`Place::may_fault`]). Nothing was read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// What an atomic does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Combine {
    /// The operation.
    pub operation: AtomicOperation,
    /// On items of this type.
    pub datatype: Datatype,
    /// For operations that have one.
    pub operand: [u8; 32],
    /// The old value becomes the payload of the message.
    pub fetch: bool,
}

/// Where the NICs' effects go. Accesses to memory fail only where [`Place::may_fault`] says so; where memory
/// is missing otherwise, the caller's world is broken, and it must see to that itself.
pub trait Out {
    /// Schedule an event of the NICs' own. `source` is the ordering key (node index).
    fn schedule(&mut self, at: SimTime, source: u32, event: Event);
    /// Start a transfer on the network now. The network says each of its three notices once,
    /// `HeadArrived` in start order for one (source, target, virtual network).
    fn transfer(&mut self, transfer: Transfer);
    /// Visible in the memory of `process` now.
    fn notify(&mut self, process: Process, notice: Notice);
    /// Read `length` bytes at `place` of `process` now: they are the payload of `message`.
    ///
    /// # Errors
    /// [`Fault`].
    fn capture(&mut self, message: MessageId, process: Process, place: Place, length: u64) -> Result<(), Fault>;
    /// The target of a get gives its data: read `length` bytes at `place` of `process` now, as by [`Out::capture`]. They
    /// will be delivered to `destination` of `initiator`, whose buffer belongs to the get until then, so that an
    /// implementation may as well write them there at once and do nothing at [`Out::deliver`].
    ///
    /// # Errors
    /// [`Fault`] of the target's memory.
    fn fetch(
        &mut self,
        message: MessageId,
        process: Process,
        place: Place,
        length: u64,
        initiator: Process,
        destination: Place,
    ) -> Result<(), Fault> {
        let _ = (initiator, destination);
        self.capture(message, process, place, length)
    }
    /// The library already took the payload of `message`.
    fn inline(&mut self, message: MessageId, payload: Box<[u8]>);
    /// Write the first `length` payload bytes of `message` to `place` of `process` now.
    ///
    /// # Errors
    /// [`Fault`].
    fn deliver(&mut self, message: MessageId, process: Process, place: Place, length: u64) -> Result<(), Fault>;
    /// Combine the first `length` payload bytes of `message`, whole items, with those at `place` of `process` now
    /// ([`narrows_portals::apply`]).
    ///
    /// # Errors
    /// [`Fault`].
    fn combine(&mut self, message: MessageId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault>;
    /// The payload of `message` is no longer needed. Called once for each message that had one
    /// ([`Out::capture`] or [`Out::inline`]).
    fn release(&mut self, message: MessageId);
}

/// An event of the NICs' own; opaque to others, small and Copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event(pub u64);
