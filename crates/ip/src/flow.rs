//! Flows: what goes from one host to another, and the two ends of it.

use narrows_engine::random::Stream as Random;
use narrows_results::Histogram;
use narrows_units::{ByteRate, Bytes, SimTime};

/// From a host to another one. Hosts are the nodes, then those behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Who begins.
    pub from: u32,
    /// The other one.
    pub to: u32,
    /// What.
    pub kind: FlowKind,
}

/// Kinds of flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowKind {
    /// Echo requests, which the kernel of the other host answers.
    Ping {
        /// Payload of each.
        bytes: Bytes,
        /// How many.
        count: u32,
        /// From one to the next on average: between half and one and a half of it, drawn from the seed.
        interval: SimTime,
    },
    /// A stream of bytes with acknowledgements and a window: all of it arrives, once and in order.
    Stream {
        /// Payload of a packet.
        bytes: Bytes,
        /// Of the stream; none: it has no end.
        limit: Option<Bytes>,
    },
    /// Packets without acknowledgements; what finds no room is lost.
    Datagrams {
        /// Payload of a packet.
        bytes: Bytes,
        /// Payload in a second at most; none: as fast as the host sends.
        rate: Option<ByteRate>,
        /// Of all packets; none: there is no end.
        limit: Option<Bytes>,
    },
}

impl FlowKind {
    /// Payload of a packet.
    pub fn bytes(self) -> Bytes {
        match self {
            FlowKind::Ping { bytes, .. } | FlowKind::Stream { bytes, .. } | FlowKind::Datagrams { bytes, .. } => bytes,
        }
    }

    /// It comes to an end by itself.
    pub fn ends(self) -> bool {
        match self {
            FlowKind::Ping { .. } => true,
            FlowKind::Stream { limit, .. } | FlowKind::Datagrams { limit, .. } => limit.is_some(),
        }
    }
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Acknowledgement,
    Echo,
    Reply,
}

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) flow: u32,
    /// The host that gets it.
    pub(crate) to: u32,
    pub(crate) kind: Kind,
    /// The first byte of a stream in it, the number of a datagram or echo; of an acknowledgement, the byte that is
    /// expected next.
    pub(crate) sequence: u64,
    /// Of an acknowledgement: what may be sent, up to this byte.
    pub(crate) edge: u64,
    pub(crate) payload: u64,
    /// The last of a stream.
    pub(crate) last: bool,
    /// Of an echo and its reply: when the program asked for it.
    pub(crate) asked: SimTime,
}

/// What was counted of a flow.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Packets that its beginner has sent; acknowledgements are not counted.
    pub sent: u64,
    /// Packets that came to a program; of a ping, answers.
    pub received: u64,
    /// Payload of these.
    pub bytes: u64,
    /// Packets of either direction that found a ring full.
    pub ring_drops: u64,
    /// ... a socket.
    pub socket_drops: u64,
    /// ... the gateway.
    pub gateway_drops: u64,
    /// Packets of a stream that were sent again.
    pub retransmissions: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.sent += other.sent;
        self.received += other.received;
        self.bytes += other.bytes;
        self.ring_drops += other.ring_drops;
        self.socket_drops += other.socket_drops;
        self.gateway_drops += other.gateway_drops;
        self.retransmissions += other.retransmissions;
    }
}

impl Counts {
    /// Packets that were lost, wherever.
    pub fn drops(&self) -> u64 {
        self.ring_drops + self.socket_drops + self.gateway_drops
    }

    /// What came after `before`.
    #[must_use]
    pub fn since(self, before: Counts) -> Counts {
        Counts {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            bytes: self.bytes - before.bytes,
            ring_drops: self.ring_drops - before.ring_drops,
            socket_drops: self.socket_drops - before.socket_drops,
            gateway_drops: self.gateway_drops - before.gateway_drops,
            retransmissions: self.retransmissions - before.retransmissions,
        }
    }
}

/// The end that begins.
#[derive(Debug)]
pub(crate) struct Sender {
    /// A packet is being sent, or waits for a ring.
    pub(crate) busy: bool,
    /// Of a stream: the next byte, those that were acknowledged, those that may be sent, those that were sent once.
    pub(crate) next: u64,
    pub(crate) acked: u64,
    pub(crate) edge: u64,
    pub(crate) highest: u64,
    /// Acknowledgements that say the same again, and the byte up to which they are about a loss that is known.
    pub(crate) repeated: u32,
    pub(crate) recover: u64,
    /// The timer runs; what was acknowledged when it was set.
    pub(crate) timer: bool,
    pub(crate) mark: u64,
    /// Of datagrams with a rate: none before.
    pub(crate) not_before: SimTime,
    pub(crate) random: Random,
    pub(crate) round_trips: Histogram,
}

impl Sender {
    pub(crate) fn new(window: u64, random: Random) -> Sender {
        Sender {
            busy: false,
            next: 0,
            acked: 0,
            edge: window,
            highest: 0,
            repeated: 0,
            recover: 0,
            timer: false,
            mark: 0,
            not_before: SimTime::ZERO,
            random,
            round_trips: Histogram::new(),
        }
    }

    /// Payload of the next packet of a stream, if it may go.
    pub(crate) fn next_of_stream(&self, bytes: u64, limit: Option<Bytes>) -> Option<u64> {
        let left = limit.map_or(u64::MAX, |limit| limit.0 - self.next.min(limit.0));
        let payload = bytes.min(left);
        // What a window cannot hold goes alone.
        let fits = self.next + payload <= self.edge || (self.next == self.acked && self.edge > self.acked);
        (payload > 0 && fits).then_some(payload)
    }

    /// From what was acknowledged on.
    pub(crate) fn go_back(&mut self) {
        (self.next, self.recover, self.repeated) = (self.acked, self.highest, 0);
    }

    /// An acknowledgement; whether a packet is missing, as far as one can tell: three of them say the same again.
    pub(crate) fn acknowledged(&mut self, sequence: u64, edge: u64) -> bool {
        self.edge = self.edge.max(edge);
        if sequence > self.acked {
            self.acked = sequence;
            self.next = self.next.max(sequence);
            self.repeated = 0;
            return false;
        }
        if sequence == self.acked && self.highest > self.acked && self.acked >= self.recover {
            self.repeated += 1;
        }
        self.repeated >= 3
    }
}

/// The other end.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    /// Of a stream: the byte that is expected next.
    pub(crate) expected: u64,
    /// Bytes that the program has read.
    pub(crate) read: u64,
    /// Bytes that wait for it.
    pub(crate) waiting: u64,
    /// Since the last acknowledgement.
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
}
