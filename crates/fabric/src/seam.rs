//! Where hosts see packets: between the receiving side of a port and the message that it makes of them, and before a
//! packet that was made goes to the link.
//!
//! An [`Agent`](crate::parallel::Agent) says with `PACKETS` that some of its hosts see packets, and with `sees` which.
//! `packet_in` is asked when the header of a packet is there, in the order of simulated time, once, and again when a
//! [`Verdict::DelayUntil`] is over. Until the packet has gone on or was consumed it keeps its buffer, so a host that is
//! slow holds up the network. Sequence numbers, repeated packets, acknowledgements and rates stay in the port.
//!
//! Packets that switches copy are not seen. A message within a node is seen as one packet.

use crate::{Arrival, TransferId};
use narrows_units::{Bytes, SimTime};

/// When ports acknowledge packets that a host sees, where they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acknowledge {
    /// When all of the packet is there. The host must not lose it.
    Accepted,
    /// When it has gone on and is in memory, or was consumed. A host that is slow shuts the window of the sender, which
    /// sends again what takes longer than its time-out.
    Done,
}

/// A packet that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketIn {
    /// Its message.
    pub arrival: Arrival,
    /// Names it at its port.
    pub number: u32,
    /// Where its payload is in that of the message.
    pub offset: Bytes,
    /// Bytes of it.
    pub payload: Bytes,
    /// It has the end of its message.
    pub last: bool,
    /// When its last byte is, or will be, there: a host that needs all of it delays it until then.
    pub tail: SimTime,
    /// It was seen before, and delayed.
    pub again: bool,
}

impl PacketIn {
    /// It has the header of its message.
    pub fn is_first(&self) -> bool {
        self.offset == Bytes(0)
    }
}

/// What becomes of a packet that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on with a payload of this length, at most that of a full packet. What the message says of itself stays.
    Rewrite(Bytes),
    /// It goes no further. A message of which all packets are consumed is told to nobody; of another one the header is
    /// told with the first packet that goes on.
    Consume,
    /// It is seen again at this time, which is later than now, and keeps its buffer.
    DelayUntil(SimTime),
}

/// A packet that is about to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketOut {
    /// Of its message, given by the sender.
    pub id: TransferId,
    /// The sending host.
    pub source: u32,
    /// The host that it is for.
    pub target: u32,
    /// Virtual network.
    pub virtual_network: u8,
    /// Payload bytes of all of its message.
    pub message: Bytes,
    /// Where its payload is in that of the message.
    pub offset: Bytes,
    /// Bytes of it.
    pub payload: Bytes,
}

/// What becomes of a packet that is about to go. (What is not to be sent is not to be started.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It goes.
    Pass,
    /// It goes with a payload of this length, at most that of a full packet.
    Rewrite(Bytes),
    /// It is seen again at this time, which is later than now. What the port has read behind it waits, too; what needs
    /// no reading passes it.
    DelayUntil(SimTime),
}
