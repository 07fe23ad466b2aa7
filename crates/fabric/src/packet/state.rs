//! The records of a region: small, in arrays, referred to by index.

use super::returns::Returns;
use crate::TransferId;
use crate::flights::NONE;
use crate::port::{Label, PacketKind};
use narrows_topology::RouteState;
use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};

pub(crate) const NEVER: u64 = u64::MAX;

/// A packet in a switch or on a link; one cache line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[repr(align(64))]
pub struct Packet {
    /// On its way to a switch: its tail could be at an output by then. In a queue: not before then.
    pub(crate) ready: u64,
    /// When its message was started, and a mark: see [`MARK`].
    pub(crate) started: u64,
    /// When its port sent it, and [`CHANGED`].
    pub(crate) injected: u64,
    /// See the functions.
    pub(crate) meta: u64,
    /// Of its message, given by the sender.
    pub(crate) id: u32,
    pub(crate) source: u32,
    pub(crate) target: u32,
    /// Bytes on the wire; 0 marks a free slot.
    pub(crate) wire: u32,
    /// The link whose buffer it is in, [`NONE`] when it leaves its port.
    pub(crate) input: u32,
    /// The next one of its queue; outside of queues, [`Label::index`].
    pub(crate) next: u32,
    pub(crate) route: RouteState,
}

const _: () = assert!(size_of::<Packet>() == 64);

/// In `started`: a switch has marked the packet. Times stay below 2^63 ps, 106 days.
const MARK: u64 = 1 << 63;
/// See [`Packet::has_changed`]: in a bit that no time reaches.
pub(crate) const CHANGED: u64 = 1 << 63;

const NETWORK: u32 = 41;
const LANE: u32 = 45;
const HOPS: u32 = 51;
const FIRST: u32 = 59;
const WRITE: u32 = 60;
/// A bit for each [`PacketKind`] but data, and control packets, which are acknowledgements that are written.
const KIND: u32 = 61;
const COPIED: u64 = (PacketKind::Copied as u64) << KIND;
const ACKNOWLEDGEMENT: u64 = (PacketKind::Acknowledgement as u64) << KIND;
const CORRUPT: u64 = (PacketKind::Corrupt as u64) << KIND;

impl Packet {
    /// A packet that leaves its port.
    #[inline(always)]
    pub fn new(label: &Label) -> Packet {
        let network = u64::from(label.virtual_network) << NETWORK;
        let flags = u64::from(label.first) << FIRST | u64::from(label.written) << WRITE | (label.kind as u64) << KIND;
        Packet {
            ready: 0,
            started: label.started.as_ps(),
            injected: 0,
            meta: label.message.0 | network | flags,
            id: label.id.0,
            source: label.source,
            target: label.target,
            wire: label.wire,
            input: NONE,
            next: label.index,
            route: RouteState { carried: label.sequence, ..RouteState::default() },
        }
    }

    /// What its port wrote.
    #[inline(always)]
    pub fn label(&self) -> Label {
        Label {
            id: TransferId(self.id),
            source: self.source,
            target: self.target,
            virtual_network: self.virtual_network() as u8,
            message: Bytes(self.payload()),
            started: SimTime(self.started & !MARK),
            wire: self.wire,
            first: self.meta >> FIRST & 1 != 0,
            index: self.next,
            written: self.is_written(),
            kind: self.kind(),
            sequence: self.route.carried,
            marked: self.started & MARK != 0,
        }
    }

    /// What kind of packet.
    #[inline(always)]
    pub fn kind(&self) -> PacketKind {
        if self.meta & (COPIED | ACKNOWLEDGEMENT | CORRUPT) == 0 {
            PacketKind::Data
        } else if self.meta & CORRUPT != 0 {
            PacketKind::Corrupt
        } else if self.meta & ACKNOWLEDGEMENT != 0 {
            if self.is_written() { PacketKind::Control } else { PacketKind::Acknowledgement }
        } else {
            PacketKind::Copied
        }
    }

    /// When its port sent it.
    #[inline]
    pub fn injected(&self) -> SimTime {
        SimTime(self.injected & !CHANGED)
    }

    /// Of the whole message, at most 2^40.
    #[inline]
    pub(crate) fn payload(&self) -> u64 {
        self.meta & ((1 << NETWORK) - 1)
    }

    #[inline]
    pub(crate) fn virtual_network(&self) -> u32 {
        (self.meta >> NETWORK) as u32 & 15
    }

    /// The lane of `input` whose buffer it is in.
    #[inline]
    pub(crate) fn lane(&self) -> u32 {
        (self.meta >> LANE) as u32 & 63
    }

    /// Links that it has been on.
    #[inline]
    pub fn hops(&self) -> u32 {
        (self.meta >> HOPS) as u32 & 255
    }

    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.meta >> WRITE & 1 != 0
    }

    /// Switches copy it: see [`super::copies`].
    #[inline]
    pub(crate) fn is_copied(&self) -> bool {
        self.meta & COPIED != 0
    }

    /// A switch marks it.
    pub(crate) fn mark(&mut self) {
        self.started |= MARK;
    }

    /// It has changed between classes of links between switches: see [`crate::Turns`].
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        self.injected & CHANGED != 0
    }

    #[inline]
    pub(crate) fn change(&mut self, changed: bool) {
        if changed {
            self.injected |= CHANGED;
        }
    }

    /// A link breaks it.
    pub(crate) fn corrupt(&mut self) {
        self.meta |= CORRUPT;
    }

    /// It goes over another link, on this lane.
    #[inline]
    pub(crate) fn hop(&mut self, lane: u32) {
        let hops = (self.hops() + 1).min(255);
        self.meta = self.meta & !(63 << LANE | 255 << HOPS) | u64::from(lane) << LANE | u64::from(hops) << HOPS;
    }
}

/// A link and the output that feeds it; one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Output {
    /// The time of the wake-up that counts; others are out of date.
    pub wake: u64,
    /// Lanes with packets.
    pub occupied: u64,
    pub latency: u64,
    /// Its number in the topology.
    pub link: u32,
    /// The region where it ends, and its number among the inputs there.
    pub region: u32,
    pub input: u32,
    /// The NIC that feeds it, by its number in the region; [`NONE`] for a switch.
    pub host: u32,
    pub to_host: bool,
    /// See [`narrows_topology::Link::speed`].
    pub speed: u16,
    /// The lane whose turn it is.
    pub turn: u8,
    /// The virtual network whose turn it is, where weights count.
    pub class_turn: u8,
    /// Control packets that the NIC has sent in a row.
    pub control_sent: u8,
    /// It was idle, had something to send and could not, and has not sent since.
    pub stalled: bool,
}

/// How busy a link is. Apart from [`Output`], because adaptive routing looks at that of many outputs: four to a cache
/// line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// When the packet on the wire has left.
    pub free: u64,
    /// Time on the wire of the packets that wait.
    pub backlog: u64,
}

/// A virtual channel of a link, at its sender; one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    pub credits: u64,
    /// Credits on their way back.
    pub back: Returns,
    /// Last of the ring of queues with packets; its next is the first in turn.
    pub ring: u32,
    /// Somebody waits for credits.
    pub starved: bool,
}

const _: () = assert!(size_of::<Lane>() == 64);

/// The packets from one input for one lane of an output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub first: u32,
    pub last: u32,
    pub next_in_ring: u32,
    pub input: u32,
}

/// A link that ends in the region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub latency: u64,
    /// Its number in the topology.
    pub link: u32,
    /// The region that feeds it, and its number among the outputs there.
    pub region: u32,
    pub output: u32,
    /// The switch where it ends; of no use at a host.
    pub switch: u32,
    /// The link in the other direction, an output of this region.
    pub reverse: u32,
    /// See [`narrows_topology::Link::speed`].
    pub speed: u16,
}
