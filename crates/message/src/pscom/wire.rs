//! What the pieces of the eager queues say. A piece is a put whose match bits and header data carry what the plugin
//! writes in front of the data.

use crate::Queue;
use crate::wire::{ANNOUNCED, TAG_MASK, WANTS_WORD};
use narrows_portals::Event;

/// The message is untagged. (Nobody waits for a word here: rendezvous is by put.)
const UNTAGGED: u64 = WANTS_WORD;
/// No message begins with this piece.
const INSIDE: u64 = crate::wire::NOBODY;
const MORE: u64 = 0;
const CLEAR_TO_SEND: u64 = 1;
const FINISHED: u64 = 2;
const KIND_BITS: u64 = 4;
/// Bits of the number of a request, as [`crate::OPEN_LIMIT`] has it, and of the length of an eager message.
pub(super) const NUMBER_BITS: u32 = 20;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
/// Bits of the sequence number of a piece.
const SEQUENCE_BITS: u32 = 12;
const DATA_BITS: u32 = 32;
/// Pieces are told apart by so many sequence numbers.
pub(super) const SEQUENCES: u64 = 1 << SEQUENCE_BITS;

/// What a piece says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A message begins. `bits`: those of the message layer; `number`: of an announced message the sender's request, of
    /// others the length; `length`: of an announced one.
    First { queue: Queue, bits: u64, data: u32, number: u32, length: u64 },
    /// It goes on.
    More,
    /// The receiver's buffer is exposed.
    ClearToSend { sender: u32, receiver: u32, wanted: u64 },
    /// All of it is there.
    Finished { receiver: u32 },
}

impl Head {
    /// Match bits, header data and remote offset of the put with this sequence number.
    pub(super) fn words(&self, sequence: u64) -> (u64, u64, u64) {
        let sequence = sequence % SEQUENCES;
        match *self {
            Head::First { queue, bits, data, number, length } => {
                let queue = if queue == Queue::Untagged { UNTAGGED } else { 0 };
                let header = sequence << (DATA_BITS + NUMBER_BITS) | u64::from(number) << DATA_BITS | u64::from(data);
                (bits | queue, header, length)
            }
            Head::More => (INSIDE | MORE, sequence << (DATA_BITS + NUMBER_BITS), 0),
            Head::ClearToSend { sender, receiver, wanted } => {
                let bits =
                    INSIDE | CLEAR_TO_SEND | u64::from(sender) << KIND_BITS | u64::from(receiver) << (KIND_BITS as u32 + NUMBER_BITS);
                (bits, sequence << (DATA_BITS + NUMBER_BITS), wanted)
            }
            Head::Finished { receiver } => (INSIDE | FINISHED | u64::from(receiver) << KIND_BITS, sequence << (DATA_BITS + NUMBER_BITS), 0),
        }
    }

    /// The reverse.
    pub(super) fn of(event: &Event) -> Option<Head> {
        let bits = event.match_bits;
        if bits & INSIDE == 0 {
            let queue = if bits & UNTAGGED != 0 { Queue::Untagged } else { Queue::Tagged };
            let number = (event.hdr_data >> DATA_BITS & NUMBER_MASK) as u32;
            return Some(Head::First { queue, bits: bits & !UNTAGGED, data: event.hdr_data as u32, number, length: event.remote_offset });
        }
        let (one, two) = ((bits >> KIND_BITS & NUMBER_MASK) as u32, (bits >> (KIND_BITS as u32 + NUMBER_BITS) & NUMBER_MASK) as u32);
        match bits & TAG_MASK & ((1 << KIND_BITS) - 1) {
            MORE => Some(Head::More),
            CLEAR_TO_SEND => Some(Head::ClearToSend { sender: one, receiver: two, wanted: event.remote_offset }),
            FINISHED => Some(Head::Finished { receiver: one }),
            _ => None,
        }
    }
}

/// The sequence number in the header data of a piece.
pub(super) fn sequence(hdr_data: u64) -> u64 {
    hdr_data >> (DATA_BITS + NUMBER_BITS)
}

/// The message is announced: its data come later.
pub(super) fn is_announced(bits: u64) -> bool {
    bits & ANNOUNCED != 0
}

/// Match bits on the control entry.
pub(super) const CONNECT: u64 = 0;
/// The answer.
pub(super) const ACCEPT: u64 = 1;

/// Whom an event of the NIC is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A buffer of the receive queue of this connection.
    Receive(u32, u32),
    /// One of its send queue.
    Send(u32, u32),
    /// Messages about connections.
    Control,
    /// Exposed memory of the receiver's request.
    Exposed(u32),
    /// The fragments of a message.
    Fragments(u32),
}

const OWNER_SHIFT: u32 = 60;
const CONNECTION_SHIFT: u32 = 32;

impl Owner {
    /// As 64 bits; the kinds differ from those of [`crate::wire::Owner`].
    pub(super) fn user_ptr(self) -> u64 {
        let (kind, high, low) = match self {
            Owner::Receive(connection, buffer) => (8, connection, buffer),
            Owner::Send(connection, buffer) => (9, connection, buffer),
            Owner::Control => (10, 0, 0),
            Owner::Exposed(request) => (11, 0, request),
            Owner::Fragments(number) => (12, 0, number),
        };
        kind << OWNER_SHIFT | u64::from(high) << CONNECTION_SHIFT | u64::from(low)
    }

    /// The reverse.
    pub(super) fn of(user_ptr: u64) -> Option<Owner> {
        let high = (user_ptr >> CONNECTION_SHIFT) as u32 & ((1 << (OWNER_SHIFT - CONNECTION_SHIFT)) - 1);
        let low = user_ptr as u32;
        match user_ptr >> OWNER_SHIFT {
            8 => Some(Owner::Receive(high, low)),
            9 => Some(Owner::Send(high, low)),
            10 => Some(Owner::Control),
            11 => Some(Owner::Exposed(low)),
            12 => Some(Owner::Fragments(low)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_portals::EventKind;

    #[test]
    fn pieces_survive_the_way_through_the_header() {
        let largest = NUMBER_MASK as u32;
        for head in [
            Head::First { queue: Queue::Tagged, bits: ANNOUNCED | TAG_MASK, data: u32::MAX, number: largest, length: u64::MAX >> 1 },
            Head::First { queue: Queue::Untagged, bits: 0, data: 7, number: 0, length: 0 },
            Head::More,
            Head::ClearToSend { sender: largest, receiver: 3, wanted: 1 << 40 },
            Head::ClearToSend { sender: 0, receiver: largest, wanted: 0 },
            Head::Finished { receiver: largest },
        ] {
            let (match_bits, hdr_data, remote_offset) = head.words(SEQUENCES + 5);
            let event = Event { match_bits, hdr_data, remote_offset, ..Event::blank(EventKind::Put) };
            assert_eq!((Head::of(&event), sequence(hdr_data)), (Some(head), 5));
        }
    }

    #[test]
    fn owners_are_not_those_of_the_message_layer() {
        for owner in
            [Owner::Receive(1, 2), Owner::Send((1 << 28) - 1, 3), Owner::Control, Owner::Exposed(u32::MAX), Owner::Fragments(u32::MAX)]
        {
            assert_eq!(Owner::of(owner.user_ptr()), Some(owner));
            assert_eq!(crate::wire::Owner::from_user_ptr(owner.user_ptr()), None);
        }
    }
}
