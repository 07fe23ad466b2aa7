//! The message layer: tagged and untagged messages over Portals 4. Short messages are *eager*
//! (one put, kept in overflow blocks until somebody asks for them), long ones are announced and
//! then fetched by the receiver (*rendezvous by get*) or put when the receiver is ready
//! (*rendezvous by put*). Used by the libfabric provider and by trace replay; knows neither.
//!
//! The crate is a pure state machine: calls and Portals events in, Portals commands and
//! completions out.
//!
//! | file | what |
//! |---|---|
//! | `lib.rs` | the vocabulary: [`Send`], [`Receive`], [`Peek`], [`Completion`] |
//! | `endpoint.rs` | [`Endpoint`]: the messages of a process |
//! | `transport.rs` | [`Transport`]: what carries them |
//! | `config.rs` | [`MessageConfig`]: the protocol and its thresholds |
//! | `layer.rs` | `Layer`: what may stand between the core and the NIC; where layers are put together |
//! | `bridge/` | messages between modules, by gateways: a layer, and what runs on gateways |
//! | `pscom/` | ParaStation's protocol: a layer |
//! | `core.rs` | open requests, completions, peeks and claims |
//! | `rendezvous.rs` | long messages |
//! | `multi.rs`, `turns.rs` | receive buffers that take many messages, and the order in which these are complete |
//! | `rails.rs` | how long messages are spread over rails |
//! | `registration.rs` | buffers that NICs have to know |
//! | `sent.rs` | [`Sent`]: what went which way |
//! | `unlinking.rs` | receives that are taken back |
//! | `overflow.rs` | blocks for unexpected messages |
//! | `request.rs`, `pending.rs`, `slab.rs` | what is open |
//! | `heap.rs` | memory for what layers keep |
//! | `host.rs` | [`Host`]: the endpoints of a process that lives elsewhere |
//! | `port.rs` | [`Port`]: an endpoint at the Portals library of its process |
//! | `call.rs` | [`Call`]: what such a process asks for |
//! | `wire.rs` | match bits, header data, portal table entries |
//!
//! # What is promised
//!
//! * Messages from one process to another, of one [`Queue`], match in the order in which they were
//!   sent, eager ones and announcements alike: they take the same portal table entry, and Portals
//!   matches the messages of a pair in the order in which they were issued. Receives match in the order in which
//!   they were posted. Completions may come in another order, but for those of one source in multi-receives.
//! * A message that finds no receive waits at its destination; nothing is dropped. The portal
//!   table entries are [`narrows_portals::pt::RETRY`]: while an overflow block is being replaced, the NIC holds back.
//! * A [`Receive`] that is shorter than its message gets the front of it and
//!   [`Status::Truncated`]; the sender completes as usual.
//!
//! ```
//! use narrows_message::{Completes, CompletionKind, Endpoint, Queue, Receive, Send, Status};
//! # mod common { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/common/mod.rs")); }
//! # use common::{Fabric, default_config};
//! // A Portals fabric in memory with two processes, and an endpoint in each.
//! let mut fabric = Fabric::new(2);
//! let mut endpoints: Vec<Endpoint> = Vec::new();
//! for rank in 0..2 {
//!     let (eq, id) = (fabric.eq(), fabric.id(rank));
//!     endpoints.push(Endpoint::new(default_config(), eq, id, &mut fabric.process(rank)));
//! }
//!
//! let text = fabric.place(0, b"hello");
//! let send = Send { queue: Queue::Tagged, target: fabric.id(1), tag: 7, data: Some(3), buffer: text, length: 5,
//!     context: 100, inject: false, completes: Completes::BufferFree };
//! endpoints[0].send(&mut fabric.process(0), send).unwrap();
//!
//! let room = fabric.place(1, &[0; 16]);
//! let receive = Receive { queue: Queue::Tagged, source: None, tag: 7, ignore: 0, buffer: room, length: 16,
//!     context: 200, completion: true, multi: None, execution: 0 };
//! endpoints[1].receive(&mut fabric.process(1), receive).unwrap();
//!
//! fabric.run(&mut endpoints); // events to the endpoints until nothing moves
//! let received = endpoints[1].next_completion().unwrap();
//! assert_eq!((received.kind, received.status, received.context), (CompletionKind::Receive, Status::Ok, 200));
//! assert_eq!((received.source, received.data, received.length), (fabric.id(0), Some(3), 5));
//! assert_eq!(fabric.bytes(1, room, 5), b"hello");
//! assert_eq!(endpoints[0].next_completion().unwrap().context, 100);
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

// What tests share names this crate as they do.
#[cfg(test)]
extern crate self as narrows_message;

mod bridge;
mod call;
mod config;
mod core;
mod endpoint;
mod heap;
mod host;
mod layer;
mod multi;
mod overflow;
mod pending;
mod port;
mod pscom;
mod rails;
mod registration;
mod rendezvous;
mod request;
mod sent;
mod slab;
mod transport;
mod turns;
mod unlinking;
mod wire;

pub use bridge::{Bridging, Gateway, GatewayChoice, GatewayPlace, Module, Passed, Relay};
pub use call::{CALL_WORDS, Call, CallError};
pub use config::{ConfigError, Distribution, MessageConfig, MpcConfig, Protocol, PscomConfig, RailChoice, RailConfig, Rails, Rendezvous};
pub use core::OPEN_LIMIT;
pub use endpoint::Endpoint;
pub use host::{Host, Notification};
pub use port::{Library, Numbers, Port};
pub use registration::Registration;
pub use sent::{Count, Sent};
pub use transport::{Capabilities, Transport, portal_table};
pub use wire::TAG_BITS;

use narrows_portals::{Event, FailType, ProcessId};

/// Messages and receives of different queues never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Messages with a tag of [`TAG_BITS`] bits.
    Tagged,
    /// Messages that match by their source only.
    Untagged,
}

/// When a send completes. A rendezvous also waits for its receiver, whichever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completes {
    /// Without a completion.
    Never,
    /// When the buffer may be used again.
    BufferFree,
    /// When the data are in the memory of the target (libfabric's FI_DELIVERY_COMPLETE).
    Delivered,
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// Which queue.
    pub queue: Queue,
    /// To whom.
    pub target: ProcessId,
    /// The low [`TAG_BITS`] count; without meaning for untagged messages.
    pub tag: u64,
    /// Remote CQ data: appears in the completion of the receiver.
    pub data: Option<u32>,
    /// Address of the data.
    pub buffer: u64,
    /// Bytes.
    pub length: u64,
    /// Comes back in the completion.
    pub context: u64,
    /// The buffer is free when the call returns; at most `inject_limit` bytes. So it is for all that complete with
    /// [`Completes::BufferFree`] and are not longer.
    pub inject: bool,
    /// When to report.
    pub completes: Completes,
}

/// Room for a message, or for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Which queue.
    pub queue: Queue,
    /// From whom; `None` from anybody.
    pub source: Option<ProcessId>,
    /// Must equal the message's ...
    pub tag: u64,
    /// ... but for these bits. Untagged receives ignore all.
    pub ignore: u64,
    /// Address of the room.
    pub buffer: u64,
    /// Bytes.
    pub length: u64,
    /// Comes back in the completion.
    pub context: u64,
    /// Report success; anything else is always reported.
    pub completion: bool,
    /// A buffer for many untagged messages, given back when fewer than so many bytes are left.
    /// Always reports.
    pub multi: Option<u64>,
    /// The execution context of its list entry, for handlers on the NIC; 0: none.
    pub execution: u8,
}

/// A look at the messages that nobody has received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Which queue.
    pub queue: Queue,
    /// From whom; `None` from anybody.
    pub source: Option<ProcessId>,
    /// As in [`Receive`].
    pub tag: u64,
    /// As in [`Receive`].
    pub ignore: u64,
    /// Comes back in the completion, and names the claim.
    pub context: u64,
    /// Takes the message off: only [`Endpoint::receive_claimed`] of this context gets it.
    pub claim: bool,
}

/// What a completion is the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// [`Endpoint::send`].
    Send,
    /// [`Endpoint::receive`] or [`Endpoint::receive_claimed`].
    Receive,
    /// [`Endpoint::peek`].
    Peek,
    /// [`Endpoint::cancel`]: [`Status::Cancelled`] when the receive was taken back, whose own completion came before;
    /// [`Status::NoMessage`] when there is none, or a message was faster.
    Cancel,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Well.
    Ok,
    /// The message was longer than the room: the front of it is there.
    Truncated,
    /// A peek found none.
    NoMessage,
    /// [`Endpoint::cancel`] took the receive back.
    Cancelled,
    /// Portals could not.
    Failed(FailType),
}

/// The end of a send, a receive or a peek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of what.
    pub kind: CompletionKind,
    /// Of which queue.
    pub queue: Queue,
    /// As given.
    pub context: u64,
    /// Address of the data; for a multi-receive the place inside its buffer.
    pub buffer: u64,
    /// Bytes sent, received, or available (peek).
    pub length: u64,
    /// Bytes of the whole message.
    pub full_length: u64,
    /// Of the message; zero for untagged ones.
    pub tag: u64,
    /// The sender; in the completion of a send, the target. When there is no message (none found,
    /// cancelled): the default.
    pub source: ProcessId,
    /// Remote CQ data.
    pub data: Option<u32>,
    /// How it ended.
    pub status: Status,
    /// A multi-receive has given its buffer back: no completion for it will follow.
    pub released: bool,
    /// Of a send that was over with the call that started it: no event told of it.
    pub at_once: bool,
}

impl Completion {
    /// Of a send.
    pub fn of_send(send: &Send, status: Status, at_once: bool) -> Completion {
        Completion {
            kind: CompletionKind::Send,
            queue: send.queue,
            context: send.context,
            buffer: send.buffer,
            length: send.length,
            full_length: send.length,
            tag: if send.queue == Queue::Tagged { send.tag & wire::TAG_MASK } else { 0 },
            source: send.target,
            data: send.data,
            status,
            released: false,
            at_once,
        }
    }
}

/// Too many open requests: process events, then try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many open requests; process events and try again")]
pub struct Again;

/// An event that belongs to nothing that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event that belongs to no open message: {0:?}")]
pub struct Stray(pub Event);

/// There is no claimed message of this context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no claimed message of this context")]
pub struct UnknownClaim;

/// What an open request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// A receive for a message.
    Message,
    /// A receive with a message that has been announced, for its data.
    Data,
    /// A multi-receive for messages.
    Messages,
    /// A send for the NIC or the target's acknowledgement.
    Sent,
    /// A long send for its receiver.
    Receiver,
    /// A peek for the answer of the NIC.
    Search,
}

/// An open request, for a report of who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    /// For what.
    pub waiting: Waiting,
    /// In which queue.
    pub queue: Queue,
    /// For whom; `None` for anybody.
    pub peer: Option<ProcessId>,
    /// Of the message or the receive.
    pub tag: u64,
    /// Of the receive or peek.
    pub ignore: u64,
    /// Bytes of the message or room.
    pub length: u64,
    /// As given.
    pub context: u64,
}

/// All open requests, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Receives without a message.
    pub receives: usize,
    /// Sends that are not complete.
    pub sends: usize,
    /// Messages that were claimed and not yet received.
    pub claims: usize,
    /// The requests.
    pub requests: Vec<PendingRequest>,
}

impl Pending {
    /// The requests: what each waits for, whom, and the tag.
    pub fn iter(&self) -> impl Iterator<Item = (Waiting, Option<ProcessId>, u64)> + '_ {
        self.requests.iter().map(|request| (request.waiting, request.peer, request.tag))
    }
}
