//! The packet network: switches, virtual channels, finite buffers with credits or pauses.
//!
//! **A lane** is one virtual channel of one virtual network on one link. Its credits are the free bytes of the input buffer at
//! the far end. A packet starts only with credits for all of it (virtual cut-through), holds its link for its time on the wire, and its
//! head is at the next switch after the latency of the link. There it is routed after the switch latency (store-and-forward: when all of it is there) and queues, within the lane of
//! its output, behind the packets of the same input (virtual output queues: a buffer has no head of line; [`front`] has the other kind). An idle output
//! chooses among the lanes that have packets and credits ([`arbiter`]), and within a lane takes the inputs in turn.
//!
//! **Credits** go back when the tail of the packet has left the buffer, and take the latency of the link. At the target NIC
//! that is when the packet is through the PCIe, so a slow PCIe holds up the network. Nothing is ever lost. In place of credits
//! there can be pause frames ([`pause`]), and then things can be lost.
//!
//! One event per link and packet when the output is idle, two when it is not: a credit's return is a time stamp in a list that is read
//! when credits are short, and an event only when somebody waits for it. The link to the target makes no event at all for the
//! packets in the middle of a message (one with pauses).
//!
//! **Regions.** The network is cut into regions ([`layout`]), which share nothing but what they send each other; [`PacketNetwork`] is a single one, driven
//! from outside together with other models, and [`crate::parallel`] runs many side by side.

mod arbiter;
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
use crate::{Arrival, Event, EventKind, Observer, Out, Statistics, Transfer, TransferId};
use layout::Layout;
use narrows_topology::{Topology, Vertex};
use narrows_units::SimTime;
use region::{Effects, Note, Region};
use state::Packet;
use std::sync::Arc;

/// The whole network as one region. Heads of messages between a pair of nodes are noticed in the order of the starts.
#[derive(Debug)]
pub struct PacketNetwork {
    region: Region,
    /// The ordering key of the switch or host that feeds a link, by link.
    keys: Vec<u32>,
    flights: Flights,
}

/// The effects of the only region.
struct Whole<'a, O> {
    out: &'a mut O,
    keys: &'a [u32],
    flights: &'a mut Flights,
}

impl<O: Out> Observer for Whole<'_, O> {}

impl<O: Out> Effects for Whole<'_, O> {
    const EARLY: bool = false;

    #[inline]
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.out.schedule(SimTime(at), self.keys[place as usize], Event::new(kind, payload));
    }

    fn fly(&mut self, region: u32, _: u64, _: &Packet) {
        unreachable!("there is no region {region}");
    }

    fn note(&mut self, region: u32, _: Note) {
        unreachable!("there is no region {region}");
    }

    fn head(&mut self, arrival: &Arrival) {
        self.flights.handle(EventKind::Head, arrival.id.0, self.out);
    }

    fn tail(&mut self, arrival: &Arrival) {
        self.flights.handle(EventKind::Tail, arrival.id.0, self.out);
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
        let flights = Flights::new(hosts, config.virtual_networks);
        let region = Region::new(0, config, Arc::new(Layout::whole(topology)), routing);
        Ok(PacketNetwork { region, keys, flights })
    }

    /// See [`crate::Network::start`].
    pub fn start(&mut self, now: SimTime, transfer: Transfer, out: &mut impl Out) {
        // The region knows the message by its slot.
        let slot = self.flights.open(transfer, out);
        let transfer = Transfer { id: TransferId(slot), ..transfer };
        let PacketNetwork { region, keys, flights } = self;
        region.start(now.as_ps(), &transfer, &mut Whole { out, keys, flights });
    }

    /// See [`crate::Network::rest`].
    pub fn rest(&mut self) {
        self.region.rest();
    }

    /// See [`crate::Network::handle`].
    #[inline]
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        let (kind, payload) = event.parts();
        let PacketNetwork { region, keys, flights } = self;
        if kind == EventKind::SourceDone {
            return flights.source_done(payload, out);
        }
        region.handle(now.as_ps(), kind, payload, &mut Whole { out, keys, flights });
    }

    /// See [`crate::Network::statistics`].
    pub fn statistics(&self) -> Statistics {
        self.region.statistics()
    }

    /// See [`crate::Network::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.flights.in_flight()
    }

    /// See [`crate::Network::zero_load`].
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        self.region.costs().zero_load_of(self.region.topology(), transfer)
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
