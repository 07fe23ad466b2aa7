//! How a message looks to Portals: portal table entries, match bits, header data, and the
//! `user_ptr` by which an event finds back to what it belongs to.

use crate::Queue;
use narrows_portals::{Event, FailType, ProcessId};

/// Bits of a tag; the four bits above them in the Portals match bits are the protocol's.
pub const TAG_BITS: u32 = 60;

/// Mask of the bits of a tag.
pub(crate) const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
/// Bits that a receive ignores whatever its tag: they say how the message travels, not which it is.
pub(crate) const PROTOCOL_MASK: u64 = !TAG_MASK;
/// The message is the announcement of a rendezvous (RTS): no data with it.
pub(crate) const ANNOUNCED: u64 = 1 << 63;
/// The low half of the header data is remote CQ data of the sender.
pub(crate) const CARRIES_DATA: u64 = 1 << 62;
/// Rendezvous by get: the sender waits for a word that the data have arrived.
pub(crate) const WANTS_WORD: u64 = 1 << 61;
/// No message ever carries this bit: a search for it finds nothing (see `multi.rs`).
pub(crate) const NOBODY: u64 = 1 << 60;

// The portal table indices are our own choice: the lowest four.
/// Tagged messages: eager ones and announcements.
pub(crate) const PT_TAGGED: u32 = 0;
/// Untagged messages: eager ones and announcements.
pub(crate) const PT_UNTAGGED: u32 = 1;
/// The data of rendezvous messages, matched by request number.
pub(crate) const PT_RENDEZVOUS: u32 = 2;
/// What two message layers say to each other: clear to send, and arrived.
pub(crate) const PT_CONTROL: u32 = 3;

/// Match bits on the control entry: the receiver is ready for the data (CTS). Header data: number
/// of the sender's request, then of the receiver's; remote offset: bytes wanted.
pub(crate) const CLEAR_TO_SEND: u64 = 0;
/// Match bits on the control entry: the receiver has fetched the data. Header data: number of the
/// sender's request in the high half; remote offset: bytes wanted.
pub(crate) const ARRIVED: u64 = 1;

/// Match bits on the control entry: a put over a gateway is there. Header data: its number among those to its target;
/// remote offset: that target.
pub(crate) const BRIDGED: u64 = 2;

/// The same of one that was dropped: its target had no room.
pub(crate) const BRIDGED_DROPPED: u64 = 3;

/// Match bits, header data and offset of such a word.
pub(crate) fn bridged(target: ProcessId, sequence: u32, fail: FailType) -> (u64, u64, u64) {
    let bits = if fail == FailType::Dropped { BRIDGED_DROPPED } else { BRIDGED };
    (bits, u64::from(sequence), u64::from(target.nid) << 32 | u64::from(target.pid))
}

/// The target of which it says so.
pub(crate) fn bridged_to(event: &Event) -> ProcessId {
    ProcessId { nid: (event.remote_offset >> 32) as u32, pid: event.remote_offset as u32 }
}

/// Bits of a request's number ([`crate::OPEN_LIMIT`]), and of pieces.
pub(crate) const REQUEST_BITS: u32 = 20;
pub(crate) const PIECE_BITS: u32 = 22;
const _: () = assert!(crate::OPEN_LIMIT <= 1 << REQUEST_BITS);
const REQUEST_MASK: u64 = (1 << REQUEST_BITS) - 1;
/// In match bits on the entry for data: which piece it is, where each has an entry of its own.
pub(crate) const PIECE_SHIFT: u32 = REQUEST_BITS;
/// The gets of one message say in their match bits how many they are, so that the sender knows the
/// last one whatever their order and however few bytes the receiver wants. The sender's entry
/// ignores these bits.
pub(crate) const PIECES_SHIFT: u32 = PIECE_SHIFT + PIECE_BITS;
pub(crate) const PIECES_MASK: u64 = !0 << PIECES_SHIFT;

/// How many gets there are of the message of this one.
pub(crate) fn pieces(match_bits: u64) -> u64 {
    match_bits >> PIECES_SHIFT
}

/// Header data of an announcement: the sender's request, the rail of the first piece, and its remote CQ data.
pub(crate) fn announced_by(request: u32, start: u8, data: Option<u32>) -> u64 {
    (u64::from(start) << REQUEST_BITS | u64::from(request)) << 32 | u64::from(data.unwrap_or(0))
}

/// Request and rail of such header data.
pub(crate) fn announcer(hdr_data: u64) -> (u32, u8) {
    let high = hdr_data >> 32;
    ((high & REQUEST_MASK) as u32, (high >> REQUEST_BITS) as u8)
}

pub(crate) fn pt_of(queue: Queue) -> u32 {
    match queue {
        Queue::Tagged => PT_TAGGED,
        Queue::Untagged => PT_UNTAGGED,
    }
}

/// What a `user_ptr` of ours names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A request: slot and generation.
    Request(u32, u32),
    /// An overflow block.
    Block(u32),
    /// The entry for control messages.
    Control,
    /// A multi-receive: slot and generation.
    Multi(u32, u32),
    /// A search that tells a multi-receive that all older events have been seen.
    Fence(u32, u32),
}

const KIND_SHIFT: u32 = 60;
/// Generations count modulo this.
pub(crate) const GENERATION_BITS: u32 = 28;
pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

impl Owner {
    /// As 64 bits: kind, generation, index. Never zero, which is what operations carry that nobody
    /// waits for.
    pub(crate) fn user_ptr(self) -> u64 {
        let (kind, index, generation) = match self {
            Owner::Request(index, generation) => (1, index, generation),
            Owner::Block(index) => (2, index, 0),
            Owner::Control => (3, 0, 0),
            Owner::Fence(index, generation) => (4, index, generation),
            Owner::Multi(index, generation) => (5, index, generation),
        };
        kind << KIND_SHIFT | u64::from(generation & GENERATION_MASK) << 32 | u64::from(index)
    }

    /// The reverse; `None` for zero and for what is not ours.
    pub(crate) fn from_user_ptr(bits: u64) -> Option<Owner> {
        let index = bits as u32;
        let generation = (bits >> 32) as u32 & GENERATION_MASK;
        match bits >> KIND_SHIFT {
            1 => Some(Owner::Request(index, generation)),
            2 => Some(Owner::Block(index)),
            3 => Some(Owner::Control),
            4 => Some(Owner::Fence(index, generation)),
            5 => Some(Owner::Multi(index, generation)),
            _ => None,
        }
    }
}

/// Match bits and remote offset of the announcement of `length` bytes. The length of a tagged
/// message is the remote offset, which the truncating, locally unmanaged entries that it can match
/// leave alone. An untagged one may match a multi-receive, whose entry manages its offset: there
/// the length takes the place of the tag.
pub(crate) fn announcement(queue: Queue, tag: u64, length: u64) -> (u64, u64) {
    match queue {
        Queue::Tagged => (ANNOUNCED | tag & TAG_MASK, length),
        Queue::Untagged => (ANNOUNCED | length & TAG_MASK, 0),
    }
}

/// Length of the message that an event on an eager entry reports.
pub(crate) fn full_length(queue: Queue, event: &Event) -> u64 {
    match (event.match_bits & ANNOUNCED != 0, queue) {
        (false, _) => event.rlength,
        (true, Queue::Tagged) => event.remote_offset,
        (true, Queue::Untagged) => event.match_bits & TAG_MASK,
    }
}

/// Tag of the message that an event on an eager entry reports; zero for untagged ones.
pub(crate) fn tag(queue: Queue, event: &Event) -> u64 {
    match queue {
        Queue::Tagged => event.match_bits & TAG_MASK,
        Queue::Untagged => 0,
    }
}

/// Remote CQ data of the message that an event on an eager entry reports.
pub(crate) fn data(event: &Event) -> Option<u32> {
    (event.match_bits & CARRIES_DATA != 0).then_some(event.hdr_data as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_the_way_through_a_user_ptr() {
        for owner in [
            Owner::Request(7, 3),
            Owner::Request(u32::MAX, GENERATION_MASK),
            Owner::Block(0),
            Owner::Control,
            Owner::Fence(1, 2),
            Owner::Multi(4, 5),
        ] {
            assert_ne!(owner.user_ptr(), 0);
            assert_eq!(Owner::from_user_ptr(owner.user_ptr()), Some(owner));
        }
        assert_eq!(Owner::from_user_ptr(0), None);
    }

    #[test]
    fn the_protocol_bits_do_not_meet_the_tag() {
        let bits = [ANNOUNCED, CARRIES_DATA, WANTS_WORD, NOBODY];
        assert_eq!(bits.iter().fold(0, |all, bit| all | bit), PROTOCOL_MASK);
        assert_eq!(bits.iter().map(|bit| bit.count_ones()).sum::<u32>(), PROTOCOL_MASK.count_ones());
    }
}
