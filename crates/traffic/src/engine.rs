//! The network under the sources: in regions, on several threads, where it has packets; the other two in one piece.

use crate::TrafficError;
use crate::handlers::{self, RegionHandlers};
use crate::setup::Setup;
use crate::source::{Plan, Sources};
use crate::telemetry::Telemetry;
use narrows_fabric::parallel::{Agent, Context, Fabric, Plane, regions};
use narrows_fabric::seam::{Acknowledge, PacketIn, Verdict};
use narrows_fabric::{Arrival, NetworkKind, Observer, PacketArrival, Statistics, Undelivered};
use narrows_units::SimTime;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sources and telemetry of a region.
#[derive(Debug)]
pub(crate) struct RegionTraffic {
    pub(crate) sources: Sources,
    pub(crate) telemetry: Option<Telemetry>,
    /// The first flow that a port has given up.
    pub(crate) undelivered: Option<Undelivered>,
    pub(crate) handlers: Option<RegionHandlers>,
}

/// A network with sources at its hosts.
pub(crate) trait Engine {
    /// Handles everything before `until`. An error: see [`TrafficError::Processes`].
    fn run_until(&mut self, until: SimTime) -> Result<(), TrafficError>;
    /// Events handled so far.
    fn events(&self) -> u64;
    /// Windows of regions so far.
    fn windows(&self) -> u64;
    /// What went over the network so far.
    fn statistics(&self) -> Statistics;
    /// Of when every message came where: the same for any number of threads and processes, of which the first has it.
    fn digest(&self) -> Result<u64, TrafficError>;
    /// Every region's.
    fn posts(&mut self, with: &mut dyn FnMut(&mut RegionTraffic));
}

/// The network of a point with its sources.
pub(crate) fn assemble(setup: &Setup, plan: &Arc<Plan>) -> Result<Box<dyn Engine + Send>, TrafficError> {
    Ok(match (setup.period, &setup.handlers) {
        (None, None) => Box::new(Regions::<false, false>::new(setup, plan)?),
        (Some(_), None) => Box::new(Regions::<true, false>::new(setup, plan)?),
        (None, Some(_)) => Box::new(Regions::<false, true>::new(setup, plan)?),
        (Some(_), Some(_)) => Box::new(Regions::<true, true>::new(setup, plan)?),
    })
}

/// An agent. `WATCHES`: queues and links are looked at; `HANDLES`: hosts have handlers; otherwise the network's code
/// has no trace of it.
struct Watch<const WATCHES: bool, const HANDLES: bool>(RegionTraffic);

impl<const WATCHES: bool, const HANDLES: bool> Observer for Watch<WATCHES, HANDLES> {
    #[inline]
    fn sent(&mut self, link: u32, _lane: u32, _wire: u32, _at: SimTime, duration: SimTime) {
        if WATCHES && let Some(telemetry) = &mut self.0.telemetry {
            telemetry.sent(link, duration.as_ps());
        }
    }

    #[inline]
    fn queued(&mut self, link: u32, lane: u32, _source: u32, wire: u32, at: SimTime, joins: bool) {
        if WATCHES && let Some(telemetry) = &mut self.0.telemetry {
            telemetry.queued(link, lane, wire, at.as_ps(), joins);
        }
    }

    #[inline]
    fn stalled(&mut self, link: u32) {
        if WATCHES && let Some(telemetry) = &mut self.0.telemetry {
            telemetry.stalled(link);
        }
    }

    #[inline]
    fn paused(&mut self, link: u32, _lane: u32, pauses: bool) {
        if WATCHES
            && let Some(telemetry) = &mut self.0.telemetry
            && pauses
        {
            telemetry.paused(link);
        }
    }

    #[inline]
    fn lost(&mut self, link: u32, _wire: u32) {
        if WATCHES && let Some(telemetry) = &mut self.0.telemetry {
            telemetry.lost(link);
        }
    }

    #[inline]
    fn packet(&mut self, packet: &PacketArrival) {
        self.0.sources.packet(packet.arrival.id, packet.injected, packet.through, u64::from(packet.wire));
        if WATCHES && let Some(telemetry) = &mut self.0.telemetry {
            telemetry.arrived(packet);
            telemetry.flow(packet);
        }
    }
}

impl<const WATCHES: bool, const HANDLES: bool> Agent for Watch<WATCHES, HANDLES> {
    const EARLY: bool = !HANDLES;
    const PACKETS: bool = HANDLES;

    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, host: u32, tag: u32, (): (), fabric: &mut Context<'_>) {
        let RegionTraffic { sources, handlers, .. } = &mut self.0;
        if HANDLES
            && tag == handlers::TIMER
            && let Some(handlers) = handlers
        {
            return handlers.strike(host, sources, fabric);
        }
        sources.strike(tag, fabric);
    }

    fn sees(&self, _: u32) -> Option<Acknowledge> {
        HANDLES.then_some(Acknowledge::Done)
    }

    fn packet_in(&mut self, packet: &PacketIn, fabric: &mut Context<'_>) -> Verdict {
        let RegionTraffic { sources, handlers, .. } = &mut self.0;
        handlers.as_mut().map_or(Verdict::Pass, |handlers| handlers.packet(packet, sources, fabric))
    }

    fn undelivered(&mut self, undelivered: &Undelivered, _: &mut Context<'_>) {
        self.0.undelivered.get_or_insert_with(|| undelivered.clone());
    }

    fn delivered(&mut self, arrival: &Arrival, through: SimTime, fabric: &mut Context<'_>) {
        self.0.sources.delivered(arrival, through, fabric);
    }

    /// Of a network without packets, where the message counts as one; or of hosts with handlers.
    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        if HANDLES {
            let RegionTraffic { sources, handlers, .. } = &mut self.0;
            if !handlers.as_mut().is_some_and(|handlers| handlers.holds(arrival)) {
                sources.delivered(arrival, fabric.now(), fabric);
            }
            return;
        }
        self.0.sources.whole(arrival, fabric.now());
        self.0.sources.delivered(arrival, fabric.now(), fabric);
    }
}

/// Looks at a network without packets.
struct Eye(Arc<Mutex<Telemetry>>);

fn lock(telemetry: &Mutex<Telemetry>) -> MutexGuard<'_, Telemetry> {
    telemetry.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Eye {
    fn sent(&mut self, link: u32, _lane: u32, _wire: u32, _at: SimTime, duration: SimTime) {
        lock(&self.0).sent(link, duration.as_ps());
    }

    fn flows(&mut self, link: u32, share: u64, at: SimTime) {
        lock(&self.0).flows(link, share, at.as_ps());
    }
}

struct Regions<const WATCHES: bool, const HANDLES: bool> {
    fabric: Fabric<Watch<WATCHES, HANDLES>>,
    threads: usize,
    /// What an [`Eye`] has seen. It is in the post while somebody looks at it.
    seen: Option<Arc<Mutex<Telemetry>>>,
}

impl<const WATCHES: bool, const HANDLES: bool> Regions<WATCHES, HANDLES> {
    fn new(setup: &Setup, plan: &Arc<Plan>) -> Result<Self, TrafficError> {
        let packets = setup.network.kind == NetworkKind::Packet;
        let lanes = if packets { u32::from(setup.network.all_virtual_networks()) * u32::from(setup.network.virtual_channels) } else { 1 };
        let mut timers = Vec::new();
        let topology = WATCHES.then(|| Arc::new(setup.topology.clone()));
        let nothing = || topology.as_ref().map(|topology| Telemetry::new(topology.clone(), lanes));
        let mut watch = |hosts: &Vec<u32>| {
            let sources = Sources::new(plan.clone(), hosts, &mut |at, host, tag| timers.push((at, host, tag)));
            let handlers = setup.handlers.as_ref().map(|handlers| RegionHandlers::new(handlers, setup.network.pcie_rate));
            Watch(RegionTraffic { sources, telemetry: nothing(), undelivered: None, handlers })
        };
        let plane = Plane {
            config: &setup.network,
            region_of: regions(&setup.network, &setup.topology),
            topology: setup.topology.clone(),
            hosts: None,
        };
        let agents = |regions: &[Vec<u32>]| regions.iter().map(&mut watch).collect();
        let mut fabric = match &setup.processes {
            Some(processes) => Fabric::spread(vec![plane], processes, agents),
            None => Fabric::of_planes(vec![plane], agents),
        }?;
        for (at, host, tag) in timers {
            fabric.timer(at, host, tag, ());
        }
        let mut seen = None;
        if !packets && let Some(telemetry) = nothing() {
            let telemetry = Arc::new(Mutex::new(telemetry));
            if fabric.observe(Box::new(Eye(Arc::clone(&telemetry)))) {
                seen = Some(telemetry);
            } else {
                fabric.agents().for_each(|watch| watch.0.telemetry = None);
            }
        }
        Ok(Regions { fabric, threads: setup.threads, seen })
    }

    fn exchange_telemetry(&mut self) {
        if let Some(seen) = &self.seen
            && let Some(telemetry) = &mut self.fabric.agent(0).0.telemetry
        {
            std::mem::swap(&mut *lock(seen), telemetry);
        }
    }
}

impl<const WATCHES: bool, const HANDLES: bool> Engine for Regions<WATCHES, HANDLES> {
    fn run_until(&mut self, until: SimTime) -> Result<(), TrafficError> {
        if until > SimTime::ZERO {
            self.fabric.run_until(SimTime(until.as_ps() - 1), self.threads);
        }
        self.fabric.error().map_or(Ok(()), |error| Err(error.into()))
    }

    fn events(&self) -> u64 {
        self.fabric.events()
    }

    fn windows(&self) -> u64 {
        self.fabric.windows()
    }

    fn statistics(&self) -> Statistics {
        self.fabric.statistics()
    }

    fn digest(&self) -> Result<u64, TrafficError> {
        Ok(self.fabric.digest_of_all()?)
    }

    fn posts(&mut self, with: &mut dyn FnMut(&mut RegionTraffic)) {
        self.exchange_telemetry();
        self.fabric.agents().for_each(|watch| with(&mut watch.0));
        self.exchange_telemetry();
    }
}
