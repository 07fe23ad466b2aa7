//! Where the packet network ends: at the ports of its hosts.
//!
//! What is at the ports of a region ([`Ports`]) makes packets of messages and messages of packets. An output asks its
//! port for the next packet of a virtual network and takes it when the link is free and there are credits; a packet
//! that comes is told to its port, which says when its buffer is free again.

pub use crate::packet::state::Packet;

use crate::Carried;
use crate::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use crate::timing::Costs;
use crate::{Arrival, EventKind, NetworkConfig, Observer, Statistics, Transfer, TransferId, Undelivered};
use narrows_units::{Bytes, SimTime};

/// The ports of the hosts of a region, which numbers them from zero.
pub trait Ports: Sized + Send + std::fmt::Debug {
    /// Those of these hosts.
    fn new(config: &NetworkConfig, costs: &Costs, hosts: &[u32]) -> Self;

    /// A message for another host, or with `copied` for all of a tree, of which `message.target` is then a place.
    fn start(&mut self, now: SimTime, port: u32, message: &Transfer, copied: bool, effects: &mut impl PortEffects);

    /// A message from the host to itself, or between two ports of a node, which does not use the network: from a port
    /// to one.
    fn start_within<F: PortEffects>(&mut self, now: SimTime, ports: [u32; 2], message: &Transfer, effects: &mut F);

    /// There is something to send in a virtual network, be it only later.
    fn has_packets(&self, port: u32, virtual_network: u32) -> bool;

    /// What would be sent next in a virtual network.
    fn next(&self, now: SimTime, port: u32, virtual_network: u32) -> Next;

    /// Sends the packet that [`Ports::next`] has promised; none if who sees it ([`crate::seam`]) holds or changes it:
    /// then what is next has changed.
    fn take(&mut self, now: SimTime, port: u32, virtual_network: u32, effects: &mut impl PortEffects) -> Option<Packet>;

    /// A packet of this port was lost for want of a buffer and is to be sent again.
    fn resend(&mut self, now: SimTime, port: u32, packet: &Packet);

    /// A packet arrives, or will: the rest of its way is known. Its buffer is free when the time is that of the result;
    /// `None`: that is not known before [`Ports::seen`] or [`Ports::judged`] says it.
    fn arrive<F: PortEffects>(&mut self, port: u32, landing: &Landing, packet: &Packet, effects: &mut F) -> Option<SimTime>;

    // ---- for hosts that see packets: see [`crate::seam`] ----

    /// The host of a port sees packets from now on.
    fn show(&mut self, port: u32, acknowledge: Acknowledge);

    /// It does.
    fn shows(&self, port: u32) -> bool;

    /// [`PortEvent::Packet`] is due.
    fn seen(&mut self, now: SimTime, port: u32, number: u32, effects: &mut impl PortEffects) -> Option<Release>;

    /// What becomes of [`PacketIn::number`].
    fn judged(&mut self, now: SimTime, port: u32, number: u32, verdict: Verdict, effects: &mut impl PortEffects) -> Option<Release>;

    /// Where links write into packets: what the one carries that arrives next.
    fn hear(&mut self, carried: &Carried);

    /// The same: what the one carries that was taken last.
    fn carried(&mut self) -> Carried;

    /// All or the header of a message is there, as was scheduled.
    fn message(&mut self, event: PortEvent, payload: u32, effects: &mut impl PortEffects);

    /// An event of a flow, as was scheduled. The result: the virtual network that may have something to send by it.
    fn flow(&mut self, now: SimTime, port: u32, event: PortEvent, payload: u32, effects: &mut impl PortEffects) -> Option<u32>;

    /// Nothing comes or goes, and nothing waits for an answer.
    fn is_idle(&self) -> bool;

    /// Forgets whose turn it is, and where `idle`, nothing is under way anywhere, all flows.
    fn rest(&mut self, idle: bool);

    /// Brings what a start in the first virtual network needs into the cache.
    fn prefetch(&self, port: u32);

    /// Timers of flows that have nothing to send again: [`PortEvent::TimedOut`] has no effect then.
    fn idle_timers(&self) -> usize;

    /// Packets that are made and not sent.
    fn packets(&self) -> usize;

    /// What they have counted: transfers, bytes, packets.
    fn statistics(&self) -> Statistics;

    // ---- for those who do without packets, as trains ----

    /// A message for another host is started, of which packets are not asked for.
    fn count(&mut self, message: &Transfer);

    /// Packets that a port reads at once.
    fn window(&self) -> u32;

    /// When the bus of a port is free to read and to write.
    fn bus(&mut self, port: u32) -> (&mut SimTime, &mut SimTime);

    /// A message of several packets begins to arrive at a port; the number of its events.
    fn open(&mut self, port: u32, arrival: &Arrival, packets: u64) -> u32;

    /// All of it has come, and is through at that time.
    fn complete(&mut self, message: u32, through: SimTime);

    /// So many of its packets are still to come, one by one; the others are through at that time.
    fn left(&mut self, message: u32, packets: u64, through: SimTime);

    /// The rest of a message is to be sent packet by packet, by a port that has nothing else.
    fn resume(&mut self, port: u32, rest: &Rest);
}

/// The rest of a message.
#[derive(Clone, Debug)]
pub struct Rest {
    /// All of it.
    pub message: Transfer,
    /// When it was started.
    pub started: SimTime,
    /// Packets of it that were sent.
    pub taken: u64,
    /// Packets of it, or of others like it, were sent.
    pub any: bool,
    /// Packets that were made and not sent: when each may go.
    pub reads: Vec<SimTime>,
    /// Packets to be counted as made.
    pub packets: u64,
}

/// The next packet of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// May go now; bytes on the wire.
    Packet(u32),
    /// There is none before this time.
    At(SimTime),
}

/// The buffer of a packet of which [`Ports::arrive`] did not know when it is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Release {
    /// [`Landing::packet`].
    pub packet: u32,
    /// When it is free, not before now.
    pub at: SimTime,
}

/// When and where a packet arrives.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    /// The host's link.
    pub link: u32,
    /// Names the packet until its buffer is free.
    pub packet: u32,
    /// When its first byte is in.
    pub head: SimTime,
    /// When its last byte is.
    pub tail: SimTime,
}

/// What a port writes into a packet.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// Of its message, given by the sender.
    pub id: TransferId,
    /// The sending host.
    pub source: u32,
    /// The host that it is for; a place in a tree, if it is `copied`.
    pub target: u32,
    /// Virtual network.
    pub virtual_network: u8,
    /// Payload bytes of all of its message.
    pub message: Bytes,
    /// When its message was started.
    pub started: SimTime,
    /// Its own bytes on the wire.
    pub wire: u32,
    /// It has the header of the message.
    pub first: bool,
    /// Packets of the message before it. Of one that has come, on machines whose hosts see packets alone.
    pub index: u32,
    /// Its payload goes over the target's PCIe.
    pub written: bool,
    /// What kind of packet.
    pub kind: PacketKind,
    /// Its number in its flow; of an acknowledgement, that of the packet that is expected next.
    pub sequence: u16,
    /// A switch has marked it ([`crate::Ecn`]); of no use in a packet that is sent.
    pub marked: bool,
}

/// The kinds of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PacketKind {
    /// Of a message.
    Data = 0,
    /// Of a message that switches copy.
    Copied = 1,
    /// From the receiving port of a flow to the sending one.
    Acknowledgement = 2,
    /// Whatever it was, a link has broken it.
    Corrupt = 4,
    /// Of the congestion control: see [`crate::control`]. In a packet, an acknowledgement that is
    /// [`Label::written`]: of the number only the lowest three bits are kept.
    Control = 8 + PacketKind::Acknowledgement as u8,
}

/// An event of a port's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortEvent {
    /// The header of a message is there.
    Head,
    /// All of a message is there.
    Tail,
    /// Both at one time.
    HeadAndTail,
    /// A port acknowledges what it has.
    Acknowledge,
    /// An acknowledgement is there.
    Acknowledged,
    /// A flow may have waited too long for one.
    TimedOut,
    /// The rate of a flow lets it send again.
    Paced,
    /// A control packet is there.
    Control,
    /// The clock of the congestion control strikes.
    Pulse,
    /// The port starts anew: see [`crate::Fault::resets`].
    Reset,
    /// A packet is to be seen.
    Packet,
}

/// The events of flows are of one kind for the network, and tell themselves apart by these bits.
const FLOW_EVENT: u32 = 29;

/// By these bits.
const FLOW_EVENTS: [PortEvent; 8] = [
    PortEvent::Acknowledge,
    PortEvent::Acknowledged,
    PortEvent::TimedOut,
    PortEvent::Paced,
    PortEvent::Control,
    PortEvent::Pulse,
    PortEvent::Reset,
    // There are no others.
    PortEvent::Reset,
];

impl PortEvent {
    /// With what it is about, below 2^29.
    pub(crate) fn encode(self, payload: u32) -> (EventKind, u32) {
        match self {
            PortEvent::Head => (EventKind::Head, payload),
            PortEvent::Tail => (EventKind::Tail, payload),
            PortEvent::HeadAndTail => (EventKind::HeadAndTail, payload),
            PortEvent::Acknowledge => (EventKind::Flow, payload),
            PortEvent::Acknowledged => (EventKind::Flow, 1 << FLOW_EVENT | payload),
            PortEvent::TimedOut => (EventKind::Flow, 2 << FLOW_EVENT | payload),
            PortEvent::Paced => (EventKind::Flow, 3 << FLOW_EVENT | payload),
            PortEvent::Control => (EventKind::Flow, 4 << FLOW_EVENT | payload),
            PortEvent::Pulse => (EventKind::Flow, 5 << FLOW_EVENT | payload),
            PortEvent::Reset => (EventKind::Flow, 6 << FLOW_EVENT | payload),
            PortEvent::Packet => (EventKind::Packet, payload),
        }
    }

    /// The event of a flow.
    pub(crate) fn of_flow(payload: u32) -> (PortEvent, u32) {
        (FLOW_EVENTS[(payload >> FLOW_EVENT) as usize], payload & ((1 << FLOW_EVENT) - 1))
    }
}

/// Where the effects of ports go.
pub trait PortEffects: Observer {
    /// Of a message, only [`PortEffects::delivered`] is told, instead of the other three.
    const EARLY: bool;
    /// Some hosts see packets.
    const PACKETS: bool;
    /// An event for the ports themselves. At one time, `event` and then `place` (a link of the topology, or a host for
    /// the events of flows) say the order, and for those `payload`, which must not depend on other ports.
    fn schedule_port(&mut self, at: SimTime, event: PortEvent, place: u32, payload: u32);
    /// The last payload byte of a message will have been read at `at`.
    fn source_done(&mut self, at: SimTime, source: u32, id: TransferId);
    /// Whether somebody wants to know when the header of a message is here.
    fn hears_head(&self, arrival: &Arrival) -> bool;
    /// The header of a message is here.
    fn head(&mut self, arrival: &Arrival);
    /// The last byte of a message is through.
    fn tail(&mut self, arrival: &Arrival);
    /// The last byte of a message will be through at `through`.
    fn delivered(&mut self, arrival: &Arrival, through: SimTime);
    /// A flow was given up.
    fn undelivered(&mut self, undelivered: Undelivered);
    /// A host sees a packet that has come; [`Ports::judged`] says what becomes of it.
    fn packet_in(&mut self, packet: &PacketIn);
    /// A host sees a packet that is about to go.
    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage;
}
