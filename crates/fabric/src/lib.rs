//! The networks: packet, flow and LogGP, in one event loop.
//!
//! A [`Transfer`] is one message from NIC to NIC. An [`Agent`](parallel::Agent) at the hosts starts it. It is told when
//! the source memory has been read, when the header is in the target NIC, and when the last byte is through.
//!
//! * [`config`] — rates, latencies, buffers: all that a machine file says about the network.
//! * [`packet`] — packets, virtual channels, finite buffers with credits, arbitration, cut-through.
//! * [`flow`] — messages share links max-min fairly.
//! * [`loggp`] — latency, gap and gap per byte; no contention between the end points.
//! * [`multicast`] — trees along which switches copy a message.
//! * [`parallel`] — the event loop: the networks with agents at their hosts; packets in regions, on several threads.
//! * [`timing`] — the closed form of one message alone, which all three keep to.
//! * [`port`] — where the packet network ends: what it asks of the ports of its hosts, which are in `narrows_port`.
//!
//! The way of a transfer: the source's PCIe (when [`Transfer::source_dma`]), the host link, switches and the links
//! between them, the host link of the target, the target's PCIe (when [`Transfer::target_dma`]). PCIe is a bandwidth
//! here, one server per node and direction; the constant latencies of PCIe and of the NIC belong to the NIC model.
//! Between ranks of one node (`source == target`) a transfer takes the node's own path and neither NIC link nor PCIe.
//!
//! ```
//! use narrows_fabric::{NetworkConfig, Notice, Transfer, TransferId};
//! use narrows_port::Driver;
//! use narrows_topology::FatTree;
//! use narrows_units::Bytes;
//!
//! let config = NetworkConfig::default();
//! let mut network = Driver::new(&config, FatTree::k_ary_n_tree(4, 2).unwrap().build()).unwrap();
//! let put = Transfer {
//!     id: TransferId(0), source: 0, target: 15, virtual_network: 0, payload: Bytes(1 << 20), source_dma: true,
//!     target_dma: true,
//!     route: 0,
//! };
//! network.start(put);
//! network.run();
//! let (time, last) = network.notices()[2];
//! assert_eq!(last, Notice::TailArrived(TransferId(0)));
//! assert_eq!(time, network.zero_load(&put).tail, "alone on the network, the closed form holds");
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod config;
mod congestion;
pub mod control;
mod endpoints;
pub mod faults;
mod flights;
pub mod flow;
pub mod loggp;
pub mod multicast;
pub mod packet;
pub mod parallel;
pub mod port;
pub mod seam;
pub mod timing;
mod whole;
pub mod within;

pub use config::{
    Arbitration, Checks, ConfigError, Delivery, Derived, FlowConfig, FlowControl, Forwarding, Fraction, IntraNodeConfig, LinkConfig,
    LogGpConfig, NetworkConfig, NetworkKind, NodeRoutes, PauseConfig, Queueing, Reliability, Turns,
};
pub use congestion::*;
pub use faults::{Fault, Probability};
pub use flights::MAX_PAYLOAD;
pub use multicast::{Tree, TreeError};
pub use timing::ZeroLoad;

use narrows_units::{Bytes, SimTime};
use serde::{Deserialize, Serialize};

/// One message on the network, from NIC memory interface to NIC memory interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Chosen by the caller; unique among transfers in flight (a slot index). Free again after its
    /// [`Notice::TailArrived`] and [`Notice::SourceDone`].
    pub id: TransferId,
    /// Node index of the sender.
    pub source: u32,
    /// Node index of the receiver; may equal `source` (intra-node path).
    pub target: u32,
    /// Virtual network (0..4): compute request, compute response, service request, service response.
    pub virtual_network: u8,
    /// Payload bytes (0 for headers only).
    pub payload: Bytes,
    /// The payload is read from host memory over PCIe (DMA); otherwise the NIC already has it.
    pub source_dma: bool,
    /// The payload is written to host memory over PCIe at the target.
    pub target_dma: bool,
    /// Within a node: see [`NodeRoutes::routes`]. Not 0: between two ports of a node, over the buses between them.
    pub route: u16,
}

impl Transfer {
    /// It stays in its node, and takes neither NIC link nor PCIe.
    #[inline]
    pub(crate) fn stays_within(&self) -> bool {
        self.source == self.target || self.route != 0
    }
}

/// See [`Transfer::id`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransferId(pub u32);

/// What happens to a transfer. Each of the three comes exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The last payload byte has left the source's memory. At the start already, from within its start, when
    /// there is nothing to read (no DMA at the source, or no payload).
    SourceDone(TransferId),
    /// The header has reached the target NIC. Those of a pair may overtake each other.
    HeadArrived(TransferId),
    /// The last payload byte has been accepted by the target's PCIe (or its NIC, for no DMA). Always after HeadArrived,
    /// in the order of notices; both may have the same time.
    TailArrived(TransferId),
}

/// A message at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// [`Transfer::id`]
    pub id: TransferId,
    /// Node index of the sender.
    pub source: u32,
    /// Node index of the receiver.
    pub target: u32,
    /// See [`Transfer::virtual_network`].
    pub virtual_network: u8,
    /// Payload bytes.
    pub payload: Bytes,
    /// When it was started.
    pub started: SimTime,
}

/// A packet at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArrival {
    /// Its message.
    pub arrival: Arrival,
    /// When it began to leave its NIC.
    pub injected: SimTime,
    /// When its last byte is, or will be, through.
    pub through: SimTime,
    /// Links that it took, host links included.
    pub hops: u32,
    /// Bytes on the wire.
    pub wire: u32,
}

/// The port of `source` has given a flow up: it sent the same packets again and again, and none was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error(
    "at {at} node {from} has given up sending to node {target} in virtual network {virtual_network}: packets were sent {tries} times more, and none was acknowledged{}; longer network.reliability.timeout or more network.reliability.retries outlast a longer fault",
    link.as_ref().map_or(String::new(), |link| format!(" (link {link} on the way has a fault)"))
)]
pub struct Undelivered {
    /// When.
    pub at: SimTime,
    /// Node index of the sender.
    pub from: u32,
    /// Node index of the receiver.
    pub target: u32,
    /// Virtual network.
    pub virtual_network: u8,
    /// Times that it sent them again.
    pub tries: u32,
    /// The link that may be to blame, by the name that faults have for it.
    pub link: Option<Box<str>>,
    /// Messages of which not all was acknowledged, as they would be started again: what is to be read is read again.
    pub messages: Vec<Transfer>,
}

/// Looks at a network at work. What is not overridden costs nothing on the packet network; the flow network tells of
/// [`Observer::sent`] (messages, with their time on the link if they share it with nobody) and [`Observer::flows`]
/// alone. Links are numbered as in the topology; a lane is `virtual network x virtual channels + channel`.
pub trait Observer {
    /// It wants to be told. Where nobody does, long messages alone on their way take fewer events.
    #[inline]
    fn looks(&self) -> bool {
        true
    }
    /// A packet begins to leave on a link.
    #[inline]
    fn sent(&mut self, _link: u32, _lane: u32, _wire: u32, _at: SimTime, _duration: SimTime) {}
    /// A packet of a switch, sent by a host, joins what waits for a link, or leaves it.
    #[inline]
    fn queued(&mut self, _link: u32, _lane: u32, _source: u32, _wire: u32, _at: SimTime, _joins: bool) {}
    /// An idle link has something to send, and no credits or a pause. Told once until it sends.
    #[inline]
    fn stalled(&mut self, _link: u32) {}
    /// The receiver of a link pauses a lane, or lets it go on.
    #[inline]
    fn paused(&mut self, _link: u32, _lane: u32, _pauses: bool) {}
    /// A packet was lost at the end of a link.
    #[inline]
    fn lost(&mut self, _link: u32, _wire: u32) {}
    /// Flow network: from `at` on, flows take this share of the rate of a link, in units of 2^-32.
    #[inline]
    fn flows(&mut self, _link: u32, _share: u64, _at: SimTime) {}
    /// A packet is on its last link; told when it starts there, or when its head arrives.
    #[inline]
    fn packet(&mut self, _packet: &PacketArrival) {}
}

/// Where a network's effects go.
pub trait Out {
    /// Schedule `event` for the network itself. `source`: the ordering key, below 2^22 (a host, a switch, or their
    /// number). Keys of other models must be apart from these, since an event is ordered by time, key and the key's own
    /// sequence.
    fn schedule(&mut self, at: SimTime, source: u32, event: Event);
    /// Something happened now.
    fn notice(&mut self, notice: Notice);
}

/// An event of the network's own; opaque to others, small and Copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub u64);

/// The kinds of [`Event`], each with the index of what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    /// Host, and the number of a packet there: it is to be seen. Before what it may become at the same time.
    Packet,
    /// Transfer slot: the last payload byte has been read.
    SourceDone,
    /// Transfer slot: the header is in the target NIC.
    Head,
    /// Transfer slot: the last byte is through.
    Tail,
    /// Transfer slot: header and last byte at the same time.
    HeadAndTail,
    /// Transfer slot: at the target's gate of the LogGP network. Packet: its head is in the target NIC.
    Arrive,
    /// Packet: its head is at a switch and wants an output.
    Ready,
    /// Input and lane: the next packet comes to the front of its queue.
    Front,
    /// Input and lane: a buffer may have drained.
    Release,
    /// Input and lane: a pause has to be repeated.
    Refresh,
    /// Output, lane and whether: a pause frame.
    Pause,
    /// Packet: lost, to be sent again.
    Resend,
    /// Link: look for something to send. Transfer slot and its generation: the flow may have run out.
    Wake,
    /// Find the new rates of flows.
    Solve,
    /// Host and tag: of an agent.
    Timer,
    /// Host, and what of its flows.
    Flow,
}

impl EventKind {
    /// Sixteen, so that four bits need no check.
    const ALL: [EventKind; 16] = [
        EventKind::Packet,
        EventKind::SourceDone,
        EventKind::Head,
        EventKind::Tail,
        EventKind::HeadAndTail,
        EventKind::Arrive,
        EventKind::Ready,
        EventKind::Front,
        EventKind::Release,
        EventKind::Refresh,
        EventKind::Pause,
        EventKind::Resend,
        EventKind::Wake,
        EventKind::Solve,
        EventKind::Timer,
        EventKind::Flow,
    ];

    #[inline]
    fn of_bits(bits: u64) -> EventKind {
        EventKind::ALL[(bits & 15) as usize]
    }
}

impl Event {
    #[inline]
    pub(crate) fn new(kind: EventKind, index: u32) -> Event {
        Event((kind as u64) << 32 | u64::from(index))
    }

    #[inline]
    pub(crate) fn parts(self) -> (EventKind, u32) {
        (EventKind::of_bits(self.0 >> 32), self.0 as u32)
    }
}

/// What went over the network so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Transfers started, those within a node among them.
    pub transfers: u64,
    /// Transfers started between ranks of one node.
    pub intra_node: u64,
    /// Their payload bytes, all of them.
    pub bytes: u64,
    /// Packets that left a NIC; the flow and LogGP networks count what the packet network would send.
    pub packets: u64,
    /// Links crossed by packets, host links included.
    pub packet_hops: u64,
    /// Packet network: times that an idle output had something to send and no credits, or was paused.
    pub credit_stalls: u64,
    /// Packet network: pause frames that stop.
    pub pauses: u64,
    /// Packet network: packets lost for lack of headroom, or by a fault of a link.
    pub lost_packets: u64,
    /// Packet network: packets that a fault of a link broke, as some check sum says.
    pub corrupt_packets: u64,
    /// Packet network: of these, those of which only the CRC of the payload says so, since the FCS is right.
    pub crc_errors: u64,
    /// Packet network: times that a packet was broken and no check sum says so.
    pub missed_errors: u64,
    /// Packet network: packets that ports sent again, because no acknowledgement had come.
    pub retransmissions: u64,
    /// Packet network: packets that ports had before.
    pub duplicates: u64,
    /// Packet network: acknowledgements that ports sent.
    pub acknowledgements: u64,
    /// Packet network: control packets that ports sent for the congestion control.
    pub control_packets: u64,
    /// Flow network: times that rates were solved.
    pub solves: u64,
    /// Flow network: flows whose rate was solved, over all solves.
    pub solved_flows: u64,
}

impl std::ops::Add for Statistics {
    type Output = Statistics;

    fn add(self, other: Statistics) -> Statistics {
        Statistics {
            transfers: self.transfers + other.transfers,
            intra_node: self.intra_node + other.intra_node,
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
            packet_hops: self.packet_hops + other.packet_hops,
            credit_stalls: self.credit_stalls + other.credit_stalls,
            pauses: self.pauses + other.pauses,
            lost_packets: self.lost_packets + other.lost_packets,
            corrupt_packets: self.corrupt_packets + other.corrupt_packets,
            crc_errors: self.crc_errors + other.crc_errors,
            missed_errors: self.missed_errors + other.missed_errors,
            retransmissions: self.retransmissions + other.retransmissions,
            duplicates: self.duplicates + other.duplicates,
            acknowledgements: self.acknowledgements + other.acknowledgements,
            control_packets: self.control_packets + other.control_packets,
            solves: self.solves + other.solves,
            solved_flows: self.solved_flows + other.solved_flows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_keep_their_parts() {
        for kind in EventKind::ALL {
            assert_eq!(Event::new(kind, 0xdead_beef).parts(), (kind, 0xdead_beef));
        }
    }
}
