//! Puts that pass a gateway, because their initiator and their target have no network in common. Not a part of Portals.
//!
//! The header of such a put travels as it is: both NICs of the way see who has sent it and whose memory is meant. What
//! they have beside it is an [`Envelope`]. The initiator's NIC gives the put to the NIC of a gateway, which finds that
//! its target is elsewhere, and puts it into the next buffer that the gateway has posted in [`PT_FOREIGN`]. The gateway
//! is told ([`Foreign`]) and gives it to its NIC on the other network ([`Forward`]), which answers for it.

use crate::{LocalBuffer, ProcessId};

/// A gateway's buffers are in this portal table entry, on its priority list; their entries raise no events.
pub const PT_FOREIGN: u32 = 0;

/// The pid of a gateway on its node: none of a rank.
pub const GATEWAY_PID: u32 = 1 << 20;

/// A put on its way over a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// Who has sent it.
    pub initiator: ProcessId,
    /// Whose memory is meant.
    pub target: ProcessId,
    /// Portal table entry there.
    pub pt: u32,
    /// ... at the initiator, where the gateway says that it is there.
    pub done_pt: u32,
    /// For the list entry to match.
    pub match_bits: u64,
    /// For the event of the target.
    pub hdr_data: u64,
    /// In the memory of the list entry.
    pub offset: u64,
    /// Counts the puts of this initiator (by `done_pt`: its endpoints) to this target. Its NIC takes each once, however
    /// often and by which gateway it comes.
    pub sequence: u32,
    /// Counts those of them that match in order, by this gateway, from 1; 0: it may pass others.
    pub order: u32,
}

/// A put that has arrived at a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// What it is.
    pub envelope: Envelope,
    /// Bytes.
    pub length: u64,
    /// The buffer in which they are.
    pub start: u64,
}

/// A process asks its NIC to send a put for another one, or to another network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The bytes, and who is told when they have been accepted (ACK).
    pub local: LocalBuffer,
    /// How many.
    pub length: u64,
    /// What it is.
    pub envelope: Envelope,
    /// The gateway that it is given to; without one it goes to its target.
    pub via: Option<ProcessId>,
}
