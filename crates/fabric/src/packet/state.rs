//! The records of a region: small, in arrays, referred to by index.

use super::returns::Returns;
use crate::flights::NONE;
use narrows_topology::RouteState;

pub(crate) const NEVER: u64 = u64::MAX;

/// A packet in a NIC, in a switch or on a link between; one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// In a NIC: read by then. On its way to a switch: its tail could be at an output by then. In a queue: not before
    /// then.
    pub ready: u64,
    /// When its message was started.
    pub started: u64,
    /// When its NIC sent it.
    pub injected: u64,
    /// See the functions.
    pub meta: u64,
    /// Of its message, given by the sender.
    pub id: u32,
    pub source: u32,
    pub target: u32,
    /// Bytes on the wire; 0 marks a free slot.
    pub wire: u32,
    /// The link whose buffer it is in, [`NONE`] in the source NIC.
    pub input: u32,
    /// The next one of its queue.
    pub next: u32,
    pub route: RouteState,
}

const _: () = assert!(size_of::<Packet>() == 64);

const NETWORK: u32 = 41;
const LANE: u32 = 45;
const HOPS: u32 = 51;
const FIRST: u64 = 1 << 59;
const WRITE: u64 = 1 << 60;
const COPIED: u64 = 1 << 61;

impl Packet {
    /// Of a message with this payload; `first`: with its header, `write`: over the target's PCIe.
    pub(crate) fn meta(payload: u64, virtual_network: u8, first: bool, write: bool) -> u64 {
        payload | u64::from(virtual_network) << NETWORK | if first { FIRST } else { 0 } | if write { WRITE } else { 0 }
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
    pub(crate) fn hops(&self) -> u32 {
        (self.meta >> HOPS) as u32 & 255
    }

    #[inline]
    pub(crate) fn is_first(&self) -> bool {
        self.meta & FIRST != 0
    }

    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.meta & WRITE != 0
    }

    /// Switches copy it: see [`super::copies`].
    #[inline]
    pub(crate) fn is_copied(&self) -> bool {
        self.meta & COPIED != 0
    }

    /// Makes it a packet that switches copy.
    pub(crate) fn set_copied(&mut self) {
        self.meta |= COPIED;
    }

    /// It goes over another link, on this lane.
    #[inline]
    pub(crate) fn hop(&mut self, lane: u32) {
        let hops = (self.hops() + 1).min(255);
        self.meta = self.meta & !(63 << LANE | 255 << HOPS) | u64::from(lane) << LANE | u64::from(hops) << HOPS;
    }

    /// Back in its source NIC.
    pub(crate) fn rewind(&mut self) {
        self.meta &= !(63 << LANE | 255 << HOPS);
        self.input = NONE;
        self.route = RouteState::default();
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

/// What a NIC sends in one virtual network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Injector {
    /// Ring of messages with packets to read; the last one.
    pub reading: u32,
    /// Ring of messages that the NIC already has; the last one.
    pub direct: u32,
    /// Packets read or being read, in order.
    pub first_read: u32,
    pub last_read: u32,
    /// Free places for reads; below zero while packets that were lost wait to be sent again.
    pub window: i32,
    /// It is the turn of the messages that need no reading.
    pub direct_turn: bool,
}

/// The sending side of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sending {
    /// Payload that is not yet in packets.
    pub left: u64,
    pub started: u64,
    pub payload: u64,
    pub id: u32,
    pub target: u32,
    pub next_in_ring: u32,
    pub virtual_network: u8,
    pub write: bool,
    /// No packet was made yet.
    pub fresh: bool,
    /// See [`Packet::is_copied`].
    pub copied: bool,
}

/// The receiving side of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving {
    pub arrival: crate::Arrival,
    /// Packets that have not yet started on the last link.
    pub packets_left: u64,
    /// When the last byte of those that have is through.
    pub through: u64,
}

/// PCIe of a node, and its inner path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pcie {
    pub read_free: u64,
    pub write_free: u64,
    pub intra_free: u64,
}
