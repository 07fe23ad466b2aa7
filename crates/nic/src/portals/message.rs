//! The two halves of a message, what travels between them, and the events that move them.

use narrows_portals::bridge::GATEWAY_PID;
use narrows_portals::{AckRequest, FailType, List, LocalBuffer, Place, ProcessId};
use narrows_units::{NodeId, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::kind::{Directory, Travels};
use crate::out::{Combine, Event, PayloadId};
use narrows_matching::{Landing, Operation, RequestKind};
use narrows_portals::Process;

/// What an [`Event`] means: kind in the top byte, then 24 bits, then 32 bits. Slots of requests are those of the
/// initiator's halves at the initiator, and of the target's halves at the target; of responses the other way round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// The first command in the queue is in the NIC.
    Command,
    /// The first write in the queue is in the host's memory.
    Write,
    /// The first data in the queue are in the host's memory.
    Data,
    /// The transmit pipeline takes a message.
    Transmit(u32, Role),
    /// The transmit pipeline is free.
    Sent(Role),
    /// A message starts on the network.
    Start(u32, Role),
    /// The data of a message are in memory.
    Landed(u32, Role),
    /// Initiators repeat what a portal table entry refused: process, entry.
    Retry(u32, u32),
    /// The first triggered operation in the queue is done.
    Fired,
    /// The machine that runs handlers goes on.
    Handlers,
}

/// The two ways of a message over the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Put, get or atomic.
    Request,
    /// ACK, data of a get, or what an atomic fetched.
    Response,
}

impl Role {
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Due {
    pub fn encode(self) -> Event {
        let (kind, middle, low) = match self {
            Due::Command => (0, 0, 0),
            Due::Write => (1, 0, 0),
            Due::Transmit(message, role) => (2, role as u32, message),
            Due::Start(message, role) => (3, role as u32, message),
            Due::Landed(message, role) => (4, role as u32, message),
            Due::Retry(process, pt) => (5, pt, process),
            Due::Fired => (6, 0, 0),
            Due::Data => (8, 0, 0),
            Due::Sent(role) => (7, role as u32, 0),
            Due::Handlers => (9, 0, 0),
        };
        Event((kind << 56) | (u64::from(middle) << 32) | u64::from(low))
    }

    pub fn decode(event: Event) -> Option<Due> {
        let low = event.0 as u32;
        let middle = (event.0 >> 32) as u32 & 0xff_ffff;
        let role = if middle == 0 { Role::Request } else { Role::Response };
        Some(match event.0 >> 56 {
            0 => Due::Command,
            1 => Due::Write,
            2 => Due::Transmit(low, role),
            3 => Due::Start(low, role),
            4 => Due::Landed(low, role),
            5 => Due::Retry(low, middle),
            6 => Due::Fired,
            8 => Due::Data,
            9 => Due::Handlers,
            7 => Due::Sent(role),
            _ => return None,
        })
    }
}

/// What travels from NIC to NIC. Nothing at one end of a message looks into the other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "most of what travels are requests")]
pub enum Header {
    /// A put, get or atomic.
    Request(Request),
    /// Its answer: an ACK, the data of a get, or what an atomic fetched.
    Response(Response),
    /// The end-to-end layer of the target has all of a request that has no answer, or none yet.
    Received(Received),
    /// A handler has sent it: nobody is told.
    Handled,
}

/// What travels, for who watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// A put, get or atomic.
    Request {
        /// Which of them.
        name: &'static str,
        /// Its number at the initiator's NIC, which may wrap.
        serial: u32,
        /// Who asks.
        initiator: ProcessId,
        /// Whose memory is meant.
        target: ProcessId,
        /// As its command says.
        match_bits: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// Its answer.
    Answer {
        /// `reply`, with data, or `ack`.
        name: &'static str,
        /// The request's number.
        serial: u32,
    },
    /// Of the end-to-end layer.
    Received,
}

/// From where to where something travels: its processes.
pub type Ends = (ProcessId, ProcessId);

impl Header {
    /// The processes between which it travels.
    pub(crate) fn ends(&self) -> Ends {
        match self {
            Header::Request(request) => (request.operation.initiator, request.target),
            Header::Response(Response { ends, .. }) | Header::Received(Received { ends, .. }) => *ends,
            Header::Handled => Ends::default(),
        }
    }

    /// Of a request, whose messages stay in order: initiator, target (nid and pid), portal table entry.
    pub(crate) fn stream(&self) -> Option<(u32, u32, u32, u32)> {
        match self {
            Header::Request(Request { operation, target, .. }) => Some((operation.initiator.pid, target.nid, target.pid, operation.pt)),
            Header::Response(_) | Header::Received(_) | Header::Handled => None,
        }
    }

    /// The NIC at `port` can get it: processes that it names are there, and so are the ports that get its answers.
    pub(crate) fn is_for(&self, port: PortId, directory: &Directory) -> bool {
        let Header::Request(Request { operation, target, beside, .. }) = self else { return true };
        let (node, rail) = directory.of_port(port);
        let is_there = |process| directory.process_at(process).is_some();
        is_there(operation.initiator)
            && is_there(*target)
            && match beside {
                Beside::Destination(_) => target.node() == Some(node) && directory.port_at(operation.initiator, rail).is_some(),
                Beside::Bridged(Bridged { from, .. }) => {
                    let is_near = target.node() == Some(node) || is_there(ProcessId::on(node, GATEWAY_PID));
                    is_near && from.0 < directory.nodes() && directory.port(*from, rail).is_some()
                }
            }
    }

    /// What travels.
    pub fn about(&self) -> About {
        match self {
            Header::Request(Request { operation, target, handle, .. }) => About::Request {
                name: match operation.kind {
                    RequestKind::Put => "put",
                    RequestKind::Get => "get",
                    RequestKind::Atomic | RequestKind::FetchAtomic => "atomic",
                },
                serial: handle.serial,
                initiator: operation.initiator,
                target: *target,
                match_bits: operation.match_bits,
                length: operation.rlength,
            },
            Header::Response(Response { handle, payload, .. }) => {
                About::Answer { name: if payload.is_some() { "reply" } else { "ack" }, serial: handle.serial }
            }
            Header::Received(_) | Header::Handled => About::Received,
        }
    }
}

impl Travels for Header {
    fn message(&self) -> Option<&Header> {
        if matches!(self, Header::Handled) { None } else { Some(self) }
    }
    /// The NIC knows of it when its header is there.
    fn is_taken_whole(&self) -> bool {
        false
    }
}

/// Names the initiator's half of a message in what comes back: its slot, which is used again, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Handle {
    pub slot: u32,
    pub serial: u32,
}

/// See [`Header::Request`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    pub(super) operation: Operation,
    pub(super) target: ProcessId,
    /// The initiator's half: comes back in answers.
    pub(super) handle: Handle,
    /// An ACK is wanted.
    pub(super) ack: bool,
    pub(super) combine: Option<Combine>,
    pub(super) payload: Option<PayloadId>,
    pub(super) beside: Beside,
}

/// What only some requests have: one field, so that headers are no longer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Beside {
    /// Where the data of a get go: a hint for [`crate::Memory::fetch`].
    Destination(Place),
    /// The put passes a gateway.
    Bridged(Bridged),
}

impl Request {
    /// Of what answers it.
    pub(super) fn answer_ends(&self) -> Ends {
        (self.target, self.operation.initiator)
    }

    /// It passes a gateway.
    pub(super) fn bridged(&self) -> Option<Bridged> {
        if let Beside::Bridged(bridged) = self.beside { Some(bridged) } else { None }
    }

    /// See [`Beside::Destination`].
    pub(super) fn destination(&self) -> Place {
        if let Beside::Destination(place) = self.beside { place } else { Place::default() }
    }
}

/// What the request of a put that passes a gateway has beside the rest.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Bridged {
    /// Whose NIC has sent it, and gets its answers.
    pub from: NodeId,
    pub done_pt: u32,
    pub sequence: u32,
    pub order: u32,
}

/// See [`Header::Response`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Response {
    pub(super) handle: Handle,
    /// From the target of the request to who has asked.
    pub(super) ends: Ends,
    pub(super) result: Result<Accepted, FailType>,
    pub(super) payload: Option<PayloadId>,
}

/// See [`Header::Received`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Received {
    pub(super) handle: Handle,
    /// From the target of the request to who has asked.
    pub(super) ends: Ends,
    /// Nothing more will come.
    pub(super) last: bool,
}

/// What an answer says of a request that found its place.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Accepted {
    pub list: List,
    pub mlength: u64,
    /// The offset that was used.
    pub offset: u64,
}

impl From<Landing> for Accepted {
    fn from(landing: Landing) -> Accepted {
        Accepted { list: landing.list, mlength: landing.mlength, offset: landing.offset }
    }
}

/// When the payload of a transfer is read from memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Nothing to read, or read.
    Done,
    /// When the transfer starts (buffered puts).
    AtStart,
    /// When the network says that it has all.
    AtSourceDone,
}

/// The initiator's half of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    /// Of all of this NIC, which may wrap.
    pub serial: u32,
    pub operation: Operation,
    /// The initiator, by its number on this node.
    pub process: u32,
    pub target: ProcessId,
    pub ack: AckRequest,
    pub local: LocalBuffer,
    /// The payload of a put or atomic comes over PCIe.
    pub dma: bool,
    pub source: Source,
    pub payload: Option<PayloadId>,
    /// The library already took the payload.
    pub taken: bool,
    /// The network reads the payload and has not said that it has all.
    pub unread: bool,
    /// It takes a place in the end-to-end window.
    pub outstanding: bool,
    /// The last answer is not here.
    pub open: bool,
    /// Its own memory was not there.
    pub fault: bool,
    /// What the answer said, while its data go to memory.
    pub answer: Option<Response>,
}

impl Outgoing {
    /// The messages that it waits for are those of others only: its target refuses it for now.
    pub fn is_held(&self) -> bool {
        !self.outstanding && !self.unread && self.answer.is_none()
    }
}

/// What an atomic has beside the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicPart {
    pub combine: Combine,
    /// Where the old value goes.
    pub fetched: Option<LocalBuffer>,
}

/// How far the target's half is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Matched or refused for good.
    Matched,
    /// Refused by a portal table entry with RETRY.
    Held,
    /// The answer is on its way.
    Response,
}

/// The target's half of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub request: Request,
    pub phase: Phase,
    /// The target, by its number on this node.
    pub process: u32,
    /// All of it is in the NIC.
    pub tail: bool,
    /// The initiator knows that ([`Received`]).
    pub acknowledged: bool,
    /// The answer's data are read from memory, and the network has not said that it has all.
    pub unread: bool,
    /// They are this payload.
    pub response: Option<PayloadId>,
    /// When the result of matching is known.
    pub ready: SimTime,
    pub result: Result<Landing, FailType>,
    /// Memory of the target was not there, or that of the initiator ([`crate::Fault`] of its payload).
    pub fault: bool,
}

impl Incoming {
    /// The initiator gets an ACK or data.
    pub fn answers(&self) -> bool {
        self.request.ack || matches!(self.request.operation.kind, RequestKind::Get | RequestKind::FetchAtomic)
    }

    pub fn mlength(&self) -> u64 {
        self.result.map_or(0, |landing| landing.mlength)
    }

    /// What the initiator is told.
    pub fn outcome(&self) -> Result<Accepted, FailType> {
        if self.fault && self.result.is_ok() { Err(FailType::Segv) } else { self.result.map(Accepted::from) }
    }
}

/// A message that its target refuses for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldMessage {
    /// The initiator.
    pub from: Process,
    /// The target.
    pub to: Process,
    /// It brings data (put or atomic); else it is a get.
    pub put: bool,
    /// Portal table entry.
    pub pt: u32,
    /// What no entry of it matches, or what has no room.
    pub match_bits: u64,
    /// Bytes.
    pub length: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request names places that there are, and is for the node of its port.
    #[test]
    fn requests_for_others_are_not_taken() {
        let [zero, one, two] = [0, 1, 2].map(|node| ProcessId::on(NodeId(node), 1));
        let directory = Directory::new(3, &[zero, one]);
        let kind = RequestKind::Put;
        let request = |initiator: ProcessId, target: ProcessId, beside: Beside| {
            let operation = Operation { kind, initiator, uid: 0, pt: 0, match_bits: 0, offset: 0, rlength: 8, hdr_data: 0, atomic: None };
            let handle = Handle { slot: 0, serial: 0 };
            Header::Request(Request { operation, target, handle, ack: true, combine: None, payload: None, beside })
        };
        let bridged = |from: u32| Beside::Bridged(Bridged { from: NodeId(from), done_pt: 0, sequence: 0, order: 0 });
        let direct = Beside::Destination(Place::default());
        for (initiator, target, beside, taken) in [
            (zero, one, direct, true),
            (one, zero, direct, false),
            (two, one, direct, false),
            (zero, two, direct, false),
            (ProcessId::default(), one, direct, false),
            (zero, one, bridged(2), true),
            (zero, one, bridged(3), false),
            // No gateway lives here.
            (one, zero, bridged(2), false),
        ] {
            let header = request(initiator, target, beside);
            assert_eq!(header.is_for(PortId(1), &directory), taken, "{header:?}");
        }
    }
}
