//! The LogGP network: latency per path, a gap per message and per byte at both ends, nothing in between.
//!
//! A message waits for its sender's NIC, holds it for `max(g, payload G)`, needs `L` to the target, waits for the
//! target's NIC and holds that as long; NICs serve in the order of arrival. `L` and `G` come from the path (then a
//! message alone takes exactly as long as on the packet network) or are fixed. A multicast takes its sender's NIC once,
//! for the longest of its targets.

use crate::config::{ConfigError, Derived, LogGpConfig, NetworkConfig};
use crate::endpoints::Endpoints;
use crate::flights::Flights;
use crate::timing::{self, Costs, ZeroLoad};
use crate::{Event, EventKind, Out, Statistics, Transfer, Tree};
use narrows_topology::Topology;
use narrows_units::{Bytes, SimTime};

/// See the module's page.
#[derive(Debug)]
pub struct LogGpNetwork {
    costs: Costs,
    config: LogGpConfig,
    topology: Topology,
    flights: Flights,
    endpoints: Endpoints,
    known: Known,
}

/// What a message costs alone, how long it holds a NIC, and the links between switches on its way.
type Alone = (ZeroLoad, u64, u32);

/// What messages alike have cost: machines send few sizes over few lengths of ways.
#[derive(Debug)]
struct Known(Box<[Option<(u64, Alone)>; Known::PLACES]>);

impl Known {
    const PLACES: usize = 256;

    fn place(&mut self, class: u64) -> &mut Option<(u64, Alone)> {
        let place = class.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        &mut self.0[place as usize]
    }
}

impl LogGpNetwork {
    /// The network that `config` describes, on `topology`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology) -> Result<Self, ConfigError> {
        config.check(&topology)?;
        let hosts = topology.hosts();
        Ok(LogGpNetwork {
            costs: Costs::new(config, &topology),
            config: config.loggp,
            topology,
            flights: Flights::new(hosts, config.virtual_networks),
            endpoints: Endpoints::new(hosts),
            known: Known(Box::new([None; Known::PLACES])),
        })
    }

    /// The same as of messages like it before.
    fn known(&mut self, transfer: &Transfer) -> Alone {
        let Some(class) = self.costs.class_of(&self.topology, transfer) else { return self.alone(transfer) };
        match *self.known.place(class) {
            Some((of, alone)) if of == class => alone,
            _ => {
                let alone = self.alone(transfer);
                *self.known.place(class) = Some((class, alone));
                alone
            }
        }
    }

    /// What the message costs on an empty network.
    fn alone(&self, transfer: &Transfer) -> Alone {
        let Transfer { payload: Bytes(payload), source_dma, .. } = *transfer;
        let timing::Alone { times: path, narrowest, links } = self.costs.alone(&self.topology, transfer);
        let body = match self.config.rate {
            Derived::FromPath => narrowest,
            Derived::Fixed(rate) => rate.time_for(Bytes(payload)).as_ps(),
        };
        let head = match self.config.latency {
            Derived::FromPath => path.head,
            Derived::Fixed(latency) => latency,
        };
        // From the path, the time between head and tail is what the packet network has. A fixed G leaves payload times
        // G.
        let tail = match self.config.rate {
            Derived::FromPath => head + (path.tail - path.head),
            Derived::Fixed(_) => head + SimTime(body),
        };
        let source_done = match self.config.rate {
            Derived::FromPath => path.source_done,
            Derived::Fixed(_) => SimTime(if source_dma { body } else { 0 }),
        };
        (ZeroLoad { source_done, head, tail }, body.max(self.config.gap.as_ps()), links)
    }

    /// Sends a transfer at `now`, which must be the time of `out`.
    pub fn start(&mut self, now: SimTime, transfer: Transfer, out: &mut impl Out) {
        if transfer.source == transfer.target {
            return self.flights.start_intra_node(now, transfer, &self.costs, out);
        }
        let slot = self.flights.open(transfer, out);
        let (alone, holds, links) = self.known(&transfer);
        let packets = self.costs.packets(transfer.payload.0);
        self.flights.statistics.packets += packets;
        self.flights.statistics.packet_hops += packets * (u64::from(links) + 2);
        self.endpoints.start(now, slot, alone, holds, &self.flights, out);
    }

    /// Sends one message to all targets of a tree: `transfers` differ in their targets and numbers.
    pub(crate) fn multicast(&mut self, now: SimTime, tree: &Tree, transfers: &[Transfer], out: &mut impl Out) {
        let source = tree.source();
        let packets = self.costs.packets(transfers[0].payload.0);
        self.flights.statistics.packets += packets;
        self.flights.statistics.packet_hops += packets * tree.len();
        let costs: Vec<Alone> = transfers.iter().map(|transfer| self.alone(transfer)).collect();
        let longest = costs.iter().map(|(_, holds, _)| *holds).max().unwrap_or_default();
        let begin = self.endpoints.pass(now, source, longest);
        for (&transfer, &(alone, holds, _)) in transfers.iter().zip(&costs) {
            let slot = self.flights.open(transfer, out);
            self.endpoints.travel(begin, slot, alone, holds, &self.flights, out);
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Takes an event that it scheduled, at the time for which it did.
    #[inline]
    pub fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out) {
        match event.parts() {
            (EventKind::Arrive, slot) => self.endpoints.arrive(now, slot, &mut self.flights, out),
            (kind, slot) => assert!(self.flights.handle(kind, slot, out), "not an event of the LogGP network: {event:?}"),
        }
    }

    /// What went over the network so far.
    pub fn statistics(&self) -> Statistics {
        self.flights.statistics
    }

    /// When the notices of `transfer` come if it starts at time zero on an empty network.
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        if transfer.source == transfer.target {
            return self.costs.zero_load(&self.topology, transfer);
        }
        self.alone(transfer).0
    }
}
