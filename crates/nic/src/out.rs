//! What goes out of the state machines.

use narrows_portals::{AtomicOperation, Datatype, Place, Process};
use narrows_units::{Bytes, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::error::Denied;
use crate::kind::Nic;

/// A payload on its way, by the number that [`Memory::reserve`] gave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PayloadId(pub u32);

/// Memory that may not be there was not there ([`Place::may_fault`]), or the payload is one that could not be read.
/// Nothing was read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// What an atomic does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

/// What a NIC gives the network.
#[derive(Clone, Copy, Debug)]
pub struct Departure<H> {
    /// The receiver, of the same rail; may be the sender itself.
    pub to: PortId,
    /// Virtual network.
    pub virtual_network: u8,
    /// Payload bytes on the wire.
    pub payload: Bytes,
    /// The payload is read from host memory over PCIe; the network says when it has all (`source_done`, with `token`).
    pub source_dma: bool,
    /// The payload is written to host memory over PCIe at the target.
    pub target_dma: bool,
    /// The sender's name for it.
    pub token: u32,
    /// What travels with it.
    pub header: H,
}

impl<H> Departure<H> {
    /// The same with another header.
    pub fn map<T>(self, header: impl FnOnce(H) -> T) -> Departure<T> {
        let Departure { to, virtual_network, payload, source_dma, target_dma, token, header: before } = self;
        Departure { to, virtual_network, payload, source_dma, target_dma, token, header: header(before) }
    }
}

/// The memory of processes, as a NIC uses it. Accesses fail only where [`Place::may_fault`] says so; where memory is
/// missing otherwise, the caller's world is broken, and it must see to that itself.
pub trait Memory {
    /// A number for a payload. Each is given back by [`Memory::release`], once, wherever its message ends.
    fn reserve(&mut self) -> PayloadId;
    /// Read `length` bytes at `place` of `process` now: they are the payload.
    ///
    /// # Errors
    /// [`Fault`]; delivering this payload is one, too.
    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault>;
    /// The target of a get gives its data: read `length` bytes at `place` of `process` now, as by [`Memory::capture`].
    /// They will be delivered to `destination` of `initiator`, whose buffer belongs to the get until then, so that an
    /// implementation may as well write them there at once and do nothing at [`Memory::deliver`].
    ///
    /// # Errors
    /// [`Fault`] of the target's memory.
    fn fetch(
        &mut self,
        payload: PayloadId,
        process: Process,
        place: Place,
        length: u64,
        initiator: Process,
        destination: Place,
    ) -> Result<(), Fault> {
        let _ = (initiator, destination);
        self.capture(payload, process, place, length)
    }
    /// The library already took the payload.
    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>);
    /// There are bytes of the payload, which a process may look at as soon as they are delivered. Not in a world
    /// without memory, nor of a payload that could not be read.
    fn has_bytes(&self, payload: PayloadId) -> bool {
        let _ = payload;
        false
    }
    /// All bytes of a payload, if there are some.
    fn bytes(&self, payload: PayloadId) -> Option<Vec<u8>> {
        let _ = payload;
        None
    }
    /// Write the first `length` payload bytes to `place` of `process` now.
    ///
    /// # Errors
    /// [`Fault`].
    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault>;
    /// Combine the first `length` payload bytes, whole items, with those at `place` of `process` now
    /// ([`narrows_portals::apply`]).
    ///
    /// # Errors
    /// [`Fault`].
    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault>;
    /// A payload with the same bytes.
    fn duplicate(&mut self, payload: PayloadId) -> PayloadId {
        let _ = payload;
        self.reserve()
    }
    /// Combine the bytes of a payload with those of `into`, whole items.
    fn fold(&mut self, into: PayloadId, payload: PayloadId, operation: AtomicOperation, datatype: Datatype) {
        let _ = (into, payload, operation, datatype);
    }
    /// The payload is no longer needed.
    fn release(&mut self, payload: PayloadId);
}

/// Where a NIC's effects go.
pub trait Out<K: Nic>: Memory {
    /// Schedule an event of the NIC at `port`.
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event);
    /// The NIC at `port` starts a transfer on the network now. Headers of one (source, target, virtual network) arrive
    /// in this order, each after all of the message before it if that is taken whole
    /// ([`crate::AnyHeader::is_taken_whole`]).
    fn depart(&mut self, port: PortId, departure: Departure<K::Header>);
    /// All of a message of nothing but `header` from port `from` will be in the NIC at port `to` at `at`, without any
    /// load on the network.
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: K::Header);
    /// The NIC at `port` has written it to the memory of `process`: visible there now.
    fn notify(&mut self, port: PortId, process: Process, notice: K::Notice);
    /// A NIC has refused an access of this one: nothing was written there, and the process hears of it.
    fn denied(&mut self, denied: Denied) {
        let _ = denied;
    }
}

/// What is between a NIC and its surroundings, and leaves the memory to them.
pub(crate) trait Between {
    /// The surroundings.
    type Outer: Memory;
    /// Idem.
    fn outer(&self) -> &Self::Outer;
    /// Idem.
    fn outer_mut(&mut self) -> &mut Self::Outer;
}

impl<B: Between> Memory for B {
    fn reserve(&mut self) -> PayloadId {
        self.outer_mut().reserve()
    }
    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.outer_mut().capture(payload, process, place, length)
    }
    fn fetch(
        &mut self,
        payload: PayloadId,
        process: Process,
        place: Place,
        length: u64,
        initiator: Process,
        destination: Place,
    ) -> Result<(), Fault> {
        self.outer_mut().fetch(payload, process, place, length, initiator, destination)
    }
    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>) {
        self.outer_mut().inline(payload, bytes);
    }
    fn has_bytes(&self, payload: PayloadId) -> bool {
        self.outer().has_bytes(payload)
    }
    fn bytes(&self, payload: PayloadId) -> Option<Vec<u8>> {
        self.outer().bytes(payload)
    }
    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.outer_mut().deliver(payload, process, place, length)
    }
    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.outer_mut().combine(payload, process, place, length, combine)
    }
    fn duplicate(&mut self, payload: PayloadId) -> PayloadId {
        self.outer_mut().duplicate(payload)
    }
    fn fold(&mut self, into: PayloadId, payload: PayloadId, operation: AtomicOperation, datatype: Datatype) {
        self.outer_mut().fold(into, payload, operation, datatype);
    }
    fn release(&mut self, payload: PayloadId) {
        self.outer_mut().release(payload);
    }
}

/// An event of a NIC's own; opaque to others, small and Copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event(pub u64);
