//! The networks under the sources: the packet network in regions, on several threads; the other two in one piece.

use crate::TrafficError;
use crate::setup::Setup;
use crate::source::{Plan, Sources, Stage};
use crate::telemetry::Telemetry;
use narrows_engine::{Arena, Digest, EventQueue};
use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{Arrival, Event, Network, NetworkKind, Notice, Observer, Out, PacketArrival, Statistics, Transfer, TransferId};
use narrows_units::SimTime;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sources and telemetry of a region.
#[derive(Debug)]
pub(crate) struct Post {
    pub(crate) sources: Sources,
    pub(crate) telemetry: Option<Telemetry>,
}

/// A network with sources at its hosts.
pub(crate) trait Engine {
    /// Handles everything before `until`.
    fn run_until(&mut self, until: SimTime);
    /// Events handled so far.
    fn events(&self) -> u64;
    /// What went over the network so far.
    fn statistics(&self) -> Statistics;
    /// Of when every message came where: the same for any number of threads.
    fn digest(&self) -> u64;
    /// Every region's.
    fn posts(&mut self, with: &mut dyn FnMut(&mut Post));
}

/// The network of a point with its sources.
pub(crate) fn assemble(setup: &Setup, plan: &Arc<Plan>) -> Result<Box<dyn Engine + Send>, TrafficError> {
    Ok(match (setup.network.kind, setup.period) {
        (NetworkKind::Packet, None) => Box::new(Regions::<false>::new(setup, plan)?),
        (NetworkKind::Packet, Some(_)) => Box::new(Regions::<true>::new(setup, plan)?),
        _ => Box::new(Whole::new(setup, plan)?),
    })
}

// ---- the packet network ----

/// An agent. `WATCHES`: queues and links are looked at; otherwise the network's code has no trace of it.
struct Watch<const WATCHES: bool>(Post);

impl<const WATCHES: bool> Observer for Watch<WATCHES> {
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
        }
    }
}

impl Stage for Context<'_> {
    fn now(&self) -> SimTime {
        Context::now(self)
    }

    #[inline]
    fn start(&mut self, transfer: Transfer) {
        Context::start(self, transfer);
    }

    #[inline]
    fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        Context::timer(self, at, host, tag, ());
    }
}

impl<const WATCHES: bool> Agent for Watch<WATCHES> {
    const EARLY: bool = true;

    type Event = ();
    type Letter = ();

    fn timer(&mut self, _host: u32, tag: u32, (): (), fabric: &mut Context<'_>) {
        self.0.sources.strike(tag, fabric);
    }

    fn delivered(&mut self, arrival: &Arrival, through: SimTime, fabric: &mut Context<'_>) {
        self.0.sources.delivered(arrival, through, fabric);
    }
}

struct Regions<const WATCHES: bool> {
    fabric: Fabric<Watch<WATCHES>>,
    threads: usize,
}

impl<const WATCHES: bool> Regions<WATCHES> {
    fn new(setup: &Setup, plan: &Arc<Plan>) -> Result<Self, TrafficError> {
        let lanes = u32::from(setup.network.virtual_networks) * u32::from(setup.network.virtual_channels);
        let mut timers = Vec::new();
        let topology = WATCHES.then(|| Arc::new(setup.topology.clone()));
        let mut fabric = Fabric::new(&setup.network, setup.topology.clone(), |hosts| {
            let sources = Sources::new(plan.clone(), hosts, &mut |at, host, tag| timers.push((at, host, tag)));
            Watch(Post { sources, telemetry: topology.as_ref().map(|topology| Telemetry::new(topology.clone(), lanes)) })
        })?;
        for (at, host, tag) in timers {
            fabric.timer(at, host, tag, ());
        }
        Ok(Regions { fabric, threads: setup.threads })
    }
}

impl<const WATCHES: bool> Engine for Regions<WATCHES> {
    fn run_until(&mut self, until: SimTime) {
        if until > SimTime::ZERO {
            self.fabric.run_until(SimTime(until.as_ps() - 1), self.threads);
        }
    }

    fn events(&self) -> u64 {
        self.fabric.events()
    }

    fn statistics(&self) -> Statistics {
        self.fabric.statistics()
    }

    fn digest(&self) -> u64 {
        self.fabric.digest()
    }

    fn posts(&mut self, with: &mut dyn FnMut(&mut Post)) {
        self.fabric.agents().for_each(|watch| with(&mut watch.0));
    }
}

// ---- the others ----

/// The observer of a network in one piece.
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

/// A network in one piece, with one queue for it and the timers. A message counts as one packet.
struct Whole {
    network: Network,
    post: Post,
    /// With a period, where there are links: what the observer has seen.
    seen: Option<Arc<Mutex<Telemetry>>>,
    world: World,
    events: u64,
    plan: Arc<Plan>,
}

struct World {
    now: SimTime,
    queue: EventQueue<Happening>,
    notices: Vec<Notice>,
    starts: Vec<Transfer>,
    /// Messages under way, by the number that the network knows them by.
    messages: Arena<Arrival>,
    digest: Digest,
}

enum Happening {
    Network(Event),
    Timer(u32),
}

/// Keys of hosts' timers in the order of events: apart from those of the network, which are below this.
const TIMERS: u32 = 1 << 22;

impl Out for World {
    fn schedule(&mut self, at: SimTime, source: u32, event: Event) {
        self.queue.schedule(at, source, Happening::Network(event));
    }

    fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }
}

impl Stage for World {
    fn now(&self) -> SimTime {
        self.now
    }

    fn start(&mut self, transfer: Transfer) {
        self.starts.push(transfer);
    }

    fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        self.queue.schedule(at, TIMERS + host, Happening::Timer(tag));
    }
}

impl Whole {
    fn new(setup: &Setup, plan: &Arc<Plan>) -> Result<Whole, TrafficError> {
        let mut network = Network::new(&setup.network, setup.topology.clone())?;
        let mut world = World {
            now: SimTime::ZERO,
            queue: EventQueue::new(),
            notices: Vec::new(),
            starts: Vec::new(),
            messages: Arena::new(),
            digest: Digest::default(),
        };
        let hosts: Vec<u32> = (0..setup.topology.hosts()).collect();
        let sources = Sources::new(plan.clone(), &hosts, &mut |at, host, tag| world.timer(at, host, tag));
        let nothing = || Telemetry::new(Arc::new(setup.topology.clone()), 1);
        let seen = setup.period.map(|_| Arc::new(Mutex::new(nothing())));
        let seen = seen.filter(|seen| network.observe(Box::new(Eye(Arc::clone(seen)))));
        let telemetry = seen.is_some().then(nothing);
        Ok(Whole { network, post: Post { sources, telemetry }, seen, world, events: 0, plan: plan.clone() })
    }

    /// What was seen is in the post while somebody looks at it, and with the observer otherwise.
    fn exchange_telemetry(&mut self) {
        if let (Some(seen), Some(telemetry)) = (&self.seen, &mut self.post.telemetry) {
            std::mem::swap(&mut *lock(seen), telemetry);
        }
    }

    /// Starts what sources want to start, and tells them what has arrived.
    fn settle(&mut self) {
        let Whole { network, post, world, plan, .. } = self;
        while !(world.starts.is_empty() && world.notices.is_empty()) {
            for transfer in std::mem::take(&mut world.starts) {
                let Transfer { id, source, target, virtual_network, payload, .. } = transfer;
                let message = Arrival { id, source, target, virtual_network, payload, started: world.now };
                let slot = world.messages.insert(message);
                network.start(world.now, Transfer { id: TransferId(slot), ..transfer }, world);
            }
            for notice in std::mem::take(&mut world.notices) {
                let (kind, slot) = match notice {
                    Notice::SourceDone(_) => continue,
                    Notice::HeadArrived(slot) => (1, slot),
                    Notice::TailArrived(slot) => (2, slot),
                };
                let arrival = world.messages[slot.0];
                world.digest.event(world.now, kind << 32 | u64::from(arrival.id.0));
                world.digest.word(u64::from(arrival.source) << 32 | u64::from(arrival.target));
                if kind == 2 {
                    world.messages.remove(slot.0);
                    post.sources.packet(arrival.id, arrival.started, world.now, plan.wire(arrival.payload.0));
                    post.sources.delivered(&arrival, world.now, world);
                }
            }
        }
    }
}

impl Engine for Whole {
    fn run_until(&mut self, until: SimTime) {
        while self.world.queue.next_time().is_some_and(|next| next < until) {
            let Some((now, happening)) = self.world.queue.pop() else { return };
            self.world.now = now;
            self.events += 1;
            match happening {
                Happening::Network(event) => self.network.handle(now, event, &mut self.world),
                Happening::Timer(tag) => self.post.sources.strike(tag, &mut self.world),
            }
            self.settle();
        }
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn statistics(&self) -> Statistics {
        self.network.statistics()
    }

    fn digest(&self) -> u64 {
        self.world.digest.value()
    }

    fn posts(&mut self, with: &mut dyn FnMut(&mut Post)) {
        self.exchange_telemetry();
        with(&mut self.post);
        self.exchange_telemetry();
    }
}
