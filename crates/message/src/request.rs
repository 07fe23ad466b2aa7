//! What is open, and the messages that it is about.

use crate::multi::Multi;
use crate::rendezvous::Transfer;
use crate::wire::{self, ANNOUNCED, TAG_MASK};
use crate::{Completes, Completion, CompletionKind, Peek, Queue, Receive, Send, Status};
use narrows_portals::{AckRequest, EntryId, Event, EventKind, FailType, MatchEntry, NID_ANY, PID_ANY, ProcessId, md};

/// Why an entry is being unlinked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unlinking {
    /// The receive of this slot and generation is taken back, by the caller of this token.
    Cancel(u32, u32, u64),
    /// The multi-receive closes, see `multi.rs`.
    Multi(u32, u32),
    /// The receive gets a parked message.
    Home(u32, u32, Message),
    /// The overflow block is to be empty again.
    Block(u32),
    /// Its operations are all over.
    Leftover,
}

/// What is open, by slot.
#[derive(Debug)]
pub(crate) enum Request {
    Send(OpenSend),
    Receive(Posted),
    Transfer(Transfer),
    Peek(Peek),
    Multi(Box<Multi>),
}

/// A send that is not complete.
#[derive(Debug)]
pub(crate) struct OpenSend {
    pub(crate) send: Send,
    pub(crate) stage: Stage,
    pub(crate) fail: FailType,
    /// Which of the rails the first piece of its data takes; nothing of messages that are one put.
    pub(crate) start: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for that many SEND or ACK events.
    Sending { left: u64 },
    /// Rendezvous by get: so many gets have come of a number that they tell.
    Offered { entry: EntryId, come: u64 },
    /// Rendezvous by put: waits for the receiver's word.
    Announced,
}

/// A receive in the priority list.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) receive: Receive,
    pub(crate) entry: EntryId,
}

/// Where a message goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) queue: Queue,
    pub(crate) context: u64,
    pub(crate) buffer: u64,
    pub(crate) length: u64,
    pub(crate) completion: bool,
    /// Slot of the multi-receive that the buffer is part of.
    pub(crate) multi: Option<u32>,
    /// The message is thrown away: nobody hears of it.
    pub(crate) discard: bool,
}

/// A message that has matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) source: ProcessId,
    pub(crate) tag: u64,
    pub(crate) data: Option<u32>,
    pub(crate) full_length: u64,
    pub(crate) body: Body,
    /// See [`crate::turns`]; 0: it waits for nobody, and nobody for it.
    pub(crate) turn: u64,
}

impl Message {
    /// A multi-receive counts it until it is told of.
    pub(crate) fn is_counted(&self) -> bool {
        self.turn != 0 || !matches!(self.body, Body::Landed { .. })
    }
}

/// Where the data of a [`Message`] are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// In the buffer of the receive already.
    Landed { length: u64 },
    /// In an overflow block. `held`: see [`Overflow::hold`].
    Unexpected { address: u64, length: u64, held: Option<u32> },
    /// At the sender.
    Announced { request: u32, start: u8, wants_word: bool },
}

/// MD options and acknowledgement that give exactly the event which `completes` asks for.
#[inline]
pub(crate) fn completion_events(completes: Completes, inject: bool) -> (u32, AckRequest) {
    match completes {
        Completes::Never => (md::EVENT_SEND_DISABLE, AckRequest::None),
        Completes::BufferFree if inject => (md::EVENT_SEND_DISABLE, AckRequest::None),
        Completes::BufferFree => (0, AckRequest::None),
        Completes::Delivered => (md::EVENT_SEND_DISABLE, AckRequest::Full),
    }
}

#[inline]
pub(crate) fn data_flag(data: Option<u32>) -> u64 {
    if data.is_some() { wire::CARRIES_DATA } else { 0 }
}

#[inline]
pub(crate) fn room_of(receive: &Receive) -> Room {
    Room {
        queue: receive.queue,
        context: receive.context,
        buffer: receive.buffer,
        length: receive.length,
        completion: receive.completion,
        multi: None,
        discard: false,
    }
}

/// The part of a match entry that says which messages fit.
#[inline]
pub(crate) fn selector(queue: Queue, source: Option<ProcessId>, tag: u64, ignore: u64) -> MatchEntry {
    let (match_bits, ignore_bits) = match queue {
        Queue::Tagged => (tag & TAG_MASK, ignore | wire::PROTOCOL_MASK),
        Queue::Untagged => (0, u64::MAX),
    };
    MatchEntry { match_id: source.unwrap_or(ProcessId { nid: NID_ANY, pid: PID_ANY }), match_bits, ignore_bits, ..MatchEntry::default() }
}

pub(crate) fn cancelled(receive: &Receive, released: bool) -> Completion {
    Completion {
        kind: CompletionKind::Receive,
        queue: receive.queue,
        context: receive.context,
        buffer: receive.buffer,
        length: 0,
        full_length: 0,
        tag: if receive.queue == Queue::Tagged { receive.tag & TAG_MASK } else { 0 },
        source: ProcessId::default(),
        data: None,
        status: Status::Cancelled,
        released,
        at_once: false,
    }
}

/// The message that an event on an eager entry reports.
#[inline]
pub(crate) fn message_of(queue: Queue, event: &Event) -> Message {
    let body = if event.match_bits & ANNOUNCED != 0 {
        let (request, start) = wire::announcer(event.hdr_data);
        Body::Announced { request, start, wants_word: event.match_bits & wire::WANTS_WORD != 0 }
    } else if event.kind == EventKind::PutOverflow {
        Body::Unexpected { address: event.start, length: event.mlength, held: None }
    } else {
        Body::Landed { length: event.mlength }
    };
    Message {
        source: event.initiator,
        tag: wire::tag(queue, event),
        data: wire::data(event),
        full_length: wire::full_length(queue, event),
        body,
        turn: 0,
    }
}
