//! The packet network: switches, virtual channels, finite buffers with credits or pauses.
//!
//! **A lane** is one virtual channel of one virtual network on one link. Its credits are the free bytes of the input
//! buffer at the far end. A packet starts only with credits for all of it (virtual cut-through), holds its link for its
//! time on the wire, and its head is at the next switch after the latency of the link. There it is routed after the
//! switch latency (store-and-forward: when all of it is there) and queues, within the lane of its output, behind the
//! packets of the same input (virtual output queues: a buffer has no head of line; [`front`] has the other kind). An
//! idle output chooses among the lanes that have packets and credits ([`arbiter`]), and within a lane takes the inputs
//! in turn.
//!
//! **Credits** go back when the tail of the packet has left the buffer, and take the latency of the link. At the target
//! NIC that is when the packet is through the PCIe, so a slow PCIe holds up the network. Nothing is ever lost. In place
//! of credits there can be pause frames ([`pause`]), and then things can be lost.
//!
//! One event per link and packet when the output is idle, two when it is not: a credit's return is a time stamp in a
//! list that is read when credits are short, and an event only when somebody waits for it. The link to the target makes
//! no event at all for the packets in the middle of a message (one with pauses).
//!
//! **Multicast.** Switches copy packets along a tree ([`copies`]).
//!
//! **Regions.** The network is cut into regions ([`layout`]), which share nothing but what they send each other;
//! [`PacketNetwork`] is a single one, driven from outside together with other models, and [`crate::parallel`] runs many
//! side by side.

mod ahead;
mod arbiter;
mod copies;
mod crossbar;
mod front;
mod inject;
pub(crate) mod layout;
mod pause;
pub(crate) mod region;
mod returns;
pub(crate) mod state;

pub use region::AuditError;

use crate::config::{ConfigError, NetworkConfig};
use crate::flights::Flights;
use crate::timing::{Costs, ZeroLoad};
use crate::{Arrival, Event, EventKind, Observer, Out, PacketArrival, Statistics, Transfer, TransferId, Tree, TreeError};
use layout::Layout;
use narrows_engine::Arena;
use narrows_topology::{Topology, Vertex};
use narrows_units::SimTime;
use region::{Effects, Note, Region};
use state::Packet;
use std::sync::Arc;

/// The whole network as one region. Messages between a pair of nodes are noticed in the order of the starts (see
/// `crate::flights`).
pub struct PacketNetwork {
    region: Region,
    books: Books,
    observer: Option<Box<dyn Observer + Send>>,
}

/// What the network knows of transfers beside their packets.
#[derive(Debug)]
struct Books {
    /// The ordering key of the switch or host that feeds a link, by link.
    keys: Vec<u32>,
    flights: Flights,
    /// Messages that switches copy: the slot of each target's transfer.
    copied: Arena<Copied>,
}

impl std::fmt::Debug for PacketNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketNetwork").field("region", &self.region).field("books", &self.books).finish_non_exhaustive()
    }
}

/// A message that switches copy.
#[derive(Debug, Default)]
struct Copied {
    /// Targets, in rising order, and their slots.
    slots: Vec<(u32, u32)>,
    /// Notices to come: a tail of each, and one that the source is done.
    open: u32,
}

/// Messages that switches copy have numbers from here on.
const FIRST_COPIED: u32 = 1 << 31;

/// The effects of the only region, watched by `W`.
struct Whole<'a, O, W: ?Sized> {
    out: &'a mut O,
    books: &'a mut Books,
    watch: &'a mut W,
}

/// Watches nothing.
struct Nobody;

impl Observer for Nobody {}

/// Does something with the region and its effects, which are compiled once with an observer and once without.
macro_rules! with_effects {
    ($network:ident, $out:ident, |$region:ident, $whole:ident| $do:expr) => {{
        let PacketNetwork { region: $region, books, observer } = $network;
        match observer {
            None => {
                let mut $whole = Whole { out: $out, books, watch: &mut Nobody };
                $do
            }
            Some(watch) => {
                let mut $whole = Whole { out: $out, books, watch: &mut **watch };
                $do
            }
        }
    }};
}

impl<O, W: ?Sized> Whole<'_, O, W> {
    /// The slot of a message, or of its copy for `target`.
    #[inline]
    fn slot(&self, id: u32, target: u32) -> u32 {
        if id < FIRST_COPIED {
            return id;
        }
        let slots = &self.books.copied[id - FIRST_COPIED].slots;
        slots[slots.binary_search_by_key(&target, |&(host, _)| host).expect("copies arrive at targets of their tree")].1
    }

    /// One notice less to come.
    #[inline]
    fn settled(&mut self, id: u32) {
        if id < FIRST_COPIED {
            return;
        }
        let copied = &mut self.books.copied[id - FIRST_COPIED];
        copied.open -= 1;
        if copied.open == 0 {
            self.books.copied.remove(id - FIRST_COPIED);
        }
    }
}

impl<O: Out, W: Observer + ?Sized> Whole<'_, O, W> {
    fn source_done(&mut self, id: u32) {
        if id < FIRST_COPIED {
            return self.books.flights.source_done(id, self.out);
        }
        for place in 0..self.books.copied[id - FIRST_COPIED].slots.len() {
            let slot = self.books.copied[id - FIRST_COPIED].slots[place].1;
            self.books.flights.source_done(slot, self.out);
        }
        self.settled(id);
    }
}

impl<O, W: Observer + ?Sized> Observer for Whole<'_, O, W> {
    #[inline]
    fn sent(&mut self, link: u32, lane: u32, wire: u32, at: SimTime, duration: SimTime) {
        self.watch.sent(link, lane, wire, at, duration);
    }
    #[inline]
    fn queued(&mut self, link: u32, lane: u32, source: u32, wire: u32, at: SimTime, joins: bool) {
        self.watch.queued(link, lane, source, wire, at, joins);
    }
    #[inline]
    fn stalled(&mut self, link: u32) {
        self.watch.stalled(link);
    }
    #[inline]
    fn paused(&mut self, link: u32, lane: u32, pauses: bool) {
        self.watch.paused(link, lane, pauses);
    }
    #[inline]
    fn lost(&mut self, link: u32, wire: u32) {
        self.watch.lost(link, wire);
    }
    #[inline]
    fn packet(&mut self, packet: &PacketArrival) {
        self.watch.packet(packet);
    }
}

impl<O: Out, W: Observer + ?Sized> Effects for Whole<'_, O, W> {
    const EARLY: bool = false;

    #[inline]
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.out.schedule(SimTime(at), self.books.keys[place as usize], Event::new(kind, payload));
    }

    fn fly(&mut self, region: u32, _: u64, _: &Packet) {
        unreachable!("there is no region {region}");
    }

    fn note(&mut self, region: u32, _: Note) {
        unreachable!("there is no region {region}");
    }

    fn head(&mut self, arrival: &Arrival) {
        let slot = self.slot(arrival.id.0, arrival.target);
        self.books.flights.handle(EventKind::Head, slot, self.out);
    }

    fn tail(&mut self, arrival: &Arrival) {
        let slot = self.slot(arrival.id.0, arrival.target);
        self.books.flights.handle(EventKind::Tail, slot, self.out);
        self.settled(arrival.id.0);
    }

    fn delivered(&mut self, arrival: &Arrival, _: u64) {
        unreachable!("{arrival:?} has a head and a tail");
    }
}

impl PacketNetwork {
    /// See [`crate::Network::new`].
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Self, ConfigError> {
        let routing = config.check(&topology)?;
        let hosts = topology.hosts();
        let key = |vertex| match vertex {
            Vertex::Host(host) => host,
            Vertex::Switch(switch) => hosts + switch,
        };
        let keys = topology.links().iter().map(|link| key(link.from)).collect();
        let flights = Flights::new(hosts, config.virtual_networks, config.mtu);
        let region = Region::new(0, config, Arc::new(Layout::whole(topology)), routing);
        let books = Books { keys, flights, copied: Arena::new() };
        Ok(PacketNetwork { region, books, observer: None })
    }

    /// See [`crate::Network::start`].
    pub fn start(&mut self, now: SimTime, transfer: Transfer, out: &mut impl Out) {
        // The region knows the message by its slot.
        let slot = self.books.flights.open(transfer, out);
        let transfer = Transfer { id: TransferId(slot), ..transfer };
        with_effects!(self, out, |region, whole| region.start(now.as_ps(), &transfer, &mut whole));
    }

    /// See [`crate::Network::multicast`].
    pub(crate) fn multicast(&mut self, now: SimTime, tree: &Arc<Tree>, transfers: &[Transfer], out: &mut impl Out) {
        let slots: Vec<(u32, u32)> = transfers.iter().map(|&transfer| (transfer.target, self.books.flights.open(transfer, out))).collect();
        let first = transfers[0];
        let read = first.source_dma && first.payload.0 > 0;
        let open = slots.len() as u32 + u32::from(read);
        let index = self.books.copied.insert(Copied { slots, open });
        let transfer = Transfer { id: TransferId(FIRST_COPIED + index), ..first };
        with_effects!(self, out, |region, whole| region.start_copied(now.as_ps(), index, tree, &transfer, &mut whole));
    }

    /// Whether switches can copy here.
    pub(crate) fn check_multicast(&self) -> Result<(), TreeError> {
        self.region.check_multicast()
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.region.topology()
    }

    /// See [`crate::Network::rest`].
    pub fn rest(&mut self) {
        self.region.rest();
    }

    /// See [`crate::Network::handle`].
    #[inline]
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        let (kind, payload) = event.parts();
        with_effects!(self, out, |region, whole| match kind {
            EventKind::SourceDone => whole.source_done(payload),
            _ => region.handle(now.as_ps(), kind, payload, &mut whole),
        });
    }

    /// See [`crate::Network::observe`].
    pub(crate) fn observe(&mut self, observer: Box<dyn Observer + Send>) {
        self.observer = Some(observer);
    }

    /// See [`crate::Network::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.region.statistics()
    }

    /// See [`crate::Network::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.books.flights.in_flight()
    }

    /// See [`crate::Network::zero_load`].
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.region.costs().zero_load(self.region.topology(), transfer)
    }

    pub(crate) fn costs(&self) -> &Costs {
        self.region.costs()
    }

    /// Packets in NICs and switches.
    pub fn live_packets(&self) -> usize {
        self.region.live_packets()
    }

    /// Counts every byte of every buffer: free, on its way back, or held by a packet. Slow.
    ///
    /// # Errors
    /// The first lane where they do not add up to its buffer.
    pub fn audit(&self) -> Result<(), AuditError> {
        let mut held = self.region.no_bytes_held();
        self.region.count_held(&mut held);
        self.region.audit(&held)
    }
}
