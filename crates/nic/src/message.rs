//! A message on its way, and the events that move it.

use narrows_portals::{AckRequest, FailType, LocalBuffer};
use narrows_units::SimTime;

use crate::out::{Combine, Event, Process};
use crate::portal::{Landing, Operation};

/// What an [`Event`] means: kind in the top byte, then 24 bits, then 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Due {
    /// The first command in the queue of a node is in the NIC.
    Command(u32),
    /// The first write in the queue of a node is in the host's memory.
    Write(u32),
    /// The transmit pipeline takes a message.
    Transmit(u32, Role),
    /// A message starts on the network.
    Start(u32, Role),
    /// The data of a message are in memory.
    Landed(u32, Role),
    /// Initiators repeat what a portal table entry refused: process, entry.
    Retry(u32, u32),
    /// The first triggered operation in the queue of a node is done.
    Fired(u32),
    /// An acknowledgement that did not go over the network is there.
    QuickAck(u32),
}

/// The two ways of a message over the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
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
            Due::Command(node) => (0, 0, node),
            Due::Write(node) => (1, 0, node),
            Due::Transmit(message, role) => (2, role as u32, message),
            Due::Start(message, role) => (3, role as u32, message),
            Due::Landed(message, role) => (4, role as u32, message),
            Due::Retry(process, pt) => (5, pt, process),
            Due::Fired(node) => (6, 0, node),
            Due::QuickAck(message) => (7, 0, message),
        };
        Event((kind << 56) | (u64::from(middle) << 32) | u64::from(low))
    }

    pub fn decode(event: Event) -> Option<Due> {
        let low = event.0 as u32;
        let middle = (event.0 >> 32) as u32 & 0xff_ffff;
        let role = if middle == 0 { Role::Request } else { Role::Response };
        Some(match event.0 >> 56 {
            0 => Due::Command(low),
            1 => Due::Write(low),
            2 => Due::Transmit(low, role),
            3 => Due::Start(low, role),
            4 => Due::Landed(low, role),
            5 => Due::Retry(low, middle),
            6 => Due::Fired(low),
            7 => Due::QuickAck(low),
            _ => return None,
        })
    }
}

/// How far a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// On the way to the target, or landing there.
    Request,
    /// Refused by a portal table entry with RETRY.
    Held,
    /// On the way back.
    Response,
    /// Over, but for the `SourceDone` of a transfer: its identifier is not free yet.
    Over,
}

/// Where the payload of the transfer under way stands, when it is read by DMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Nothing to read, or read.
    Done,
    /// Read when the transfer starts (buffered puts).
    AtStart,
    /// Read when the network says `SourceDone`.
    AtSourceDone,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub phase: Phase,
    pub operation: Operation,
    pub ack: AckRequest,
    pub target: u32,
    pub local: LocalBuffer,
    /// The payload of a put or atomic comes over PCIe.
    pub dma: bool,
    pub source: Source,
    /// The caller of [`Out`] holds a payload for it.
    pub payload: bool,
    pub head: bool,
    pub tail: bool,
    /// Transfers that the network has not said `SourceDone` of.
    pub unread: u8,
    /// When the result of matching is known.
    pub ready: SimTime,
    pub result: Result<Landing, FailType>,
    /// When the request started on the network.
    pub started: SimTime,
    /// How long its header was on the network.
    pub transit: SimTime,
    /// Memory of the initiator or of the target was not there.
    pub fault: bool,
}

impl Message {
    pub fn mlength(&self) -> u64 {
        self.result.map_or(0, |landing| landing.mlength)
    }

    /// What the initiator is told.
    pub fn outcome(&self) -> Result<Landing, FailType> {
        if self.fault && self.result.is_ok() { Err(FailType::Segv) } else { self.result }
    }
}

/// What a message that is an atomic has beside the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicPart {
    pub combine: Combine,
    /// Where the old value goes.
    pub fetched: Option<LocalBuffer>,
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
