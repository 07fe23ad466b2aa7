//! Where the effects of a region go: its events, what it tells its agent, what it sends to other regions.

use super::agent::Agent;
use crate::loggp::{Flying, LogGpNetwork};
use crate::packet::region::{Effects, Note, Region};
use crate::packet::state::{NEVER, Packet};
use crate::packet::train::Frontier;
use crate::port::{PortEffects, PortEvent};
use crate::seam::{PacketIn, PacketOut, Passage};
use crate::whole::Whole;
use crate::{Arrival, EventKind, Observer, PacketArrival, TransferId, Undelivered};
use narrows_engine::CalendarQueue;
use narrows_units::SimTime;

/// What regions send each other.
#[derive(Debug)]
pub(super) struct Mailbox<L> {
    /// By network.
    pub(super) planes: Vec<PlaneMail>,
    /// With the host.
    pub(super) letters: Vec<(u32, L)>,
}

/// What one network of a region gets.
#[derive(Debug, Default)]
pub(super) struct PlaneMail {
    pub(super) packets: Vec<Packet>,
    pub(super) notes: Vec<Note>,
    /// Messages of the LogGP network.
    pub(super) flying: Vec<Flying>,
}

impl PlaneMail {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.notes.is_empty() && self.flying.is_empty()
    }
}

impl<L> Mailbox<L> {
    /// For so many networks.
    pub(super) fn new(planes: usize) -> Self {
        Mailbox { planes: (0..planes).map(|_| PlaneMail::default()).collect(), letters: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty() && self.planes.iter().all(PlaneMail::is_empty)
    }
}

/// Where the numbers of one network begin among those of all. Of the first one, and so where there is one: 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base {
    /// The network itself.
    pub(super) plane: u32,
    /// Places of events: as many as there are links, which are more than hosts.
    pub(super) place: u32,
    pub(super) link: u32,
    pub(super) host: u32,
}

/// The same before it is posted, with the region and the network that it is for.
#[derive(Debug)]
pub(super) struct Outbox<L> {
    pub(super) packets: Vec<(u32, u32, Packet)>,
    pub(super) notes: Vec<(u32, u32, Note)>,
    pub(super) flying: Vec<(u32, u32, Flying)>,
    /// With region and host.
    pub(super) letters: Vec<(u32, u32, L)>,
}

#[derive(Debug)]
pub(crate) enum Notification {
    /// Source and number.
    SourceDone(u32, TransferId),
    Head(Arrival),
    Tail(Arrival),
    Delivered(Arrival, u64),
    Undelivered(Box<Undelivered>),
    Packet(Box<PacketIn>),
}

/// Where the effects of a region go.
#[derive(Debug)]
pub(crate) struct RegionEffects<A: Agent> {
    pub(crate) agent: A,
    /// The key of an event: its kind, its place, its payload.
    pub(super) queue: CalendarQueue<A::Event>,
    pub(super) outbox: Outbox<A::Letter>,
    pub(crate) notifications: Vec<Notification>,
    /// The earliest effect of what is in the outbox.
    pub(super) sent: u64,
    /// Of the network whose effects these are now.
    pub(super) base: Base,
    /// All events before this time and key have been.
    pub(super) passed: (u64, u64),
    /// Reused: see [`RegionEffects::fetch`].
    busy: Vec<u32>,
}

pub(crate) const PLACE_BITS: u32 = 28;

/// The key of an event: of those at one time the least comes first.
#[inline]
pub(super) fn key(kind: EventKind, place: u32, payload: u32) -> u64 {
    (kind as u64) << (32 + PLACE_BITS) | u64::from(place) << 32 | u64::from(payload)
}

/// Kind, place and payload of a key.
#[inline]
pub(super) fn parts(key: u64) -> (EventKind, u32, u32) {
    let kind = EventKind::of_bits(key >> (32 + PLACE_BITS));
    (kind, (key >> 32) as u32 & ((1 << PLACE_BITS) - 1), key as u32)
}

/// How many events ahead the caches are told what they need, by step. Our own choice, no distances were compared: each
/// step reads what the one before has brought, so there are events between them.
const AHEAD: [usize; 3] = [8, 5, 2];
/// The same where there are no packets: an event is more work, and leads further. Our own choice: with these distances
/// a message among 16,384 ranks took 13.3 us of CPU instead of 16.6 (docs/lab/performance.md).
const FAR_AHEAD: [usize; 4] = [20, 13, 8, 4];

/// A network without packets, of which events are near: what caches may be told.
pub(super) trait Ahead {
    /// Of the event itself.
    fn prefetch(&self, kind: EventKind, payload: u32);
    /// The host that it leads to; 0 where there is none.
    fn target(&self, kind: EventKind, place: u32, payload: u32) -> u32;
}

impl Ahead for Whole {
    #[inline]
    fn prefetch(&self, _: EventKind, slot: u32) {
        Whole::prefetch(self, slot);
    }
    #[inline]
    fn target(&self, _: EventKind, _: u32, slot: u32) -> u32 {
        Whole::target(self, slot)
    }
}

impl Ahead for LogGpNetwork {
    #[inline]
    fn prefetch(&self, kind: EventKind, payload: u32) {
        LogGpNetwork::prefetch(self, kind, payload);
    }
    #[inline]
    fn target(&self, kind: EventKind, place: u32, payload: u32) -> u32 {
        LogGpNetwork::target(self, kind, place, payload)
    }
}

impl<A: Agent> RegionEffects<A> {
    pub(super) fn new(agent: A) -> Self {
        let outbox = Outbox { packets: Vec::new(), notes: Vec::new(), flying: Vec::new(), letters: Vec::new() };
        RegionEffects {
            agent,
            queue: CalendarQueue::new(),
            outbox,
            notifications: Vec::new(),
            sent: NEVER,
            base: Base::default(),
            passed: (0, 0),
            busy: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn prefetch<const STEP: u32>(&self, region: &Region<A::Ports>) {
        if let Some((key, event)) = self.queue.ahead(AHEAD[STEP as usize]) {
            let (kind, place, payload) = parts(key);
            region.prefetch::<STEP>(kind, place, payload);
            if kind == EventKind::Timer {
                self.agent.prefetch(STEP, place, Some(event));
            }
        }
    }

    /// The same where there are no packets.
    #[inline]
    pub(super) fn prefetch_far(&self, network: &impl Ahead) {
        for (step, &distance) in (0..).zip(&FAR_AHEAD) {
            let Some((key, event)) = self.queue.ahead(distance) else { continue };
            match (parts(key), step) {
                ((EventKind::Timer, host, _), _) => self.agent.prefetch(step, host, Some(event)),
                ((kind, _, payload), 0) => network.prefetch(kind, payload),
                ((kind, place, payload), _) => self.agent.prefetch(step - 1, network.target(kind, place, payload), None),
            }
        }
    }

    /// A window of the LogGP network begins: caches are told of all hosts where something happens before `end`. In a
    /// window they are through with a message and what it leads to; until the next one others have taken their place.
    pub(super) fn fetch(&mut self, network: &LogGpNetwork, end: u64) {
        let host = |(key, _)| match parts(key) {
            (EventKind::Timer, host, _) => host,
            (kind, place, payload) => network.target(kind, place, payload),
        };
        self.busy.extend(self.queue.near(end).map(host));
        self.busy.sort_unstable();
        self.busy.dedup();
        for step in 0..A::STEPS {
            self.busy.iter().for_each(|&host| self.agent.fetch(step, host));
        }
        self.busy.clear();
    }

    /// A message of the LogGP network goes to another region.
    #[inline]
    pub(crate) fn depart(&mut self, region: u32, flying: Flying) {
        self.sent = self.sent.min(flying.at);
        self.outbox.flying.push((region, self.base.plane, flying));
    }

    /// The message's source has been read, now.
    pub(crate) fn tell_source_done(&mut self, arrival: &Arrival) {
        self.notifications.push(Notification::SourceDone(arrival.source + self.base.host, arrival.id));
    }

    /// `arrival` with hosts numbered among those of all networks.
    #[inline]
    fn named(&self, arrival: &Arrival) -> Arrival {
        let Base { host, .. } = self.base;
        Arrival { source: arrival.source + host, target: arrival.target + host, ..*arrival }
    }

    /// All events before `end` have been, of those that there are.
    pub(super) fn pass(&mut self, end: u64) {
        if end != NEVER {
            self.passed = self.passed.max((end, 0));
        }
    }

    /// What has happened in the network that begins there.
    pub(super) fn frontier_of(&self, base: Base) -> Frontier {
        let (at, key) = self.passed;
        Frontier { at, event: key >> 32, base: base.place }
    }

    #[inline]
    pub(super) fn insert(&mut self, at: u64, kind: EventKind, place: u32, payload: u32, event: A::Event) {
        self.queue.insert(at, key(kind, place, payload), event);
    }
}

impl<A: Agent> Observer for RegionEffects<A> {
    #[inline]
    fn looks(&self) -> bool {
        self.agent.looks()
    }
    #[inline]
    fn sent(&mut self, link: u32, lane: u32, wire: u32, at: SimTime, duration: SimTime) {
        self.agent.sent(self.base.link + link, lane, wire, at, duration);
    }
    #[inline]
    fn queued(&mut self, link: u32, lane: u32, source: u32, wire: u32, at: SimTime, joins: bool) {
        self.agent.queued(self.base.link + link, lane, self.base.host + source, wire, at, joins);
    }
    #[inline]
    fn stalled(&mut self, link: u32) {
        self.agent.stalled(self.base.link + link);
    }
    #[inline]
    fn paused(&mut self, link: u32, lane: u32, pauses: bool) {
        self.agent.paused(self.base.link + link, lane, pauses);
    }
    #[inline]
    fn lost(&mut self, link: u32, wire: u32) {
        self.agent.lost(self.base.link + link, wire);
    }
    #[inline]
    fn packet(&mut self, packet: &PacketArrival) {
        self.agent.packet(&PacketArrival { arrival: self.named(&packet.arrival), ..*packet });
    }
}

impl<A: Agent> PortEffects for RegionEffects<A> {
    const EARLY: bool = A::EARLY;
    const PACKETS: bool = A::PACKETS;

    #[inline]
    fn schedule_port(&mut self, at: SimTime, event: PortEvent, place: u32, payload: u32) {
        let (kind, payload) = event.encode(payload);
        self.schedule(at.as_ps(), kind, place, payload);
    }

    fn source_done(&mut self, at: SimTime, source: u32, id: TransferId) {
        self.schedule(at.as_ps(), EventKind::SourceDone, source, id.0);
    }

    #[inline]
    fn hears_head(&self, arrival: &Arrival) -> bool {
        self.agent.hears_head(&self.named(arrival))
    }

    fn head(&mut self, arrival: &Arrival) {
        self.notifications.push(Notification::Head(self.named(arrival)));
    }

    fn tail(&mut self, arrival: &Arrival) {
        self.notifications.push(Notification::Tail(self.named(arrival)));
    }

    fn delivered(&mut self, arrival: &Arrival, through: SimTime) {
        self.notifications.push(Notification::Delivered(self.named(arrival), through.as_ps()));
    }

    fn undelivered(&mut self, mut undelivered: Undelivered) {
        let Base { host, .. } = self.base;
        undelivered.from += host;
        undelivered.target += host;
        for message in &mut undelivered.messages {
            message.source += host;
            message.target += host;
        }
        self.notifications.push(Notification::Undelivered(Box::new(undelivered)));
    }

    fn packet_in(&mut self, packet: &PacketIn) {
        let packet = PacketIn { arrival: self.named(&packet.arrival), ..*packet };
        self.notifications.push(Notification::Packet(Box::new(packet)));
    }

    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        let Base { host, .. } = self.base;
        let packet = PacketOut { source: packet.source + host, target: packet.target + host, ..*packet };
        self.agent.packet_out(now, &packet)
    }
}

impl<A: Agent> Effects for RegionEffects<A> {
    #[inline]
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.insert(at, kind, self.base.place + place, payload, A::Event::default());
    }

    #[inline]
    fn fly(&mut self, region: u32, at: u64, packet: &Packet) {
        self.sent = self.sent.min(at);
        self.outbox.packets.push((region, self.base.plane, *packet));
    }

    fn frontier(&self) -> Frontier {
        self.frontier_of(self.base)
    }

    #[inline]
    fn note(&mut self, region: u32, note: Note) {
        self.sent = self.sent.min(note.at());
        self.outbox.notes.push((region, self.base.plane, note));
    }
}
