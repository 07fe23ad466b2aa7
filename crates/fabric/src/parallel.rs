//! The packet network on several threads, with something at its hosts that sends and receives.
//!
//! The network is cut into regions: groups of a dragonfly, pods of a fat tree. Each has its own events, packets and [`Agent`]. Nothing that
//! happens in one reaches another before the latency of a link between them has passed, so all regions can run through a window of that
//! length by themselves (conservative windows: Chandy and Misra 1979; bounded by the lookahead, Lubachevsky 1989) and hand over what they
//! send each other at its end. A region's state fits the nearest cache, which is why a single thread does it this way, too.
//!
//! **Order.** Events of a region are ordered by time, then by what they are and by the link or host where they happen: never by who was
//! first to schedule them. So everything that happens is the same however the network is cut and on any number of threads.
//! [`Fabric::digest`] puts together one digest per host, in the order of the hosts.
//!
//! ```
//! use narrows_fabric::parallel::{Agent, Context, Fabric};
//! use narrows_fabric::{Arrival, NetworkConfig, Observer, Transfer, TransferId};
//! use narrows_topology::FatTree;
//! use narrows_units::{Bytes, SimTime};
//!
//! /// Each host sends one message to the next when its timer strikes, and counts what it gets.
//! struct Ring { hosts: u32, received: u64 }
//! impl Observer for Ring {}
//! impl Agent for Ring {
//!     fn timer(&mut self, host: u32, _tag: u32, fabric: &mut Context<'_>) {
//!         let target = (host + 1) % self.hosts;
//!         fabric.start(Transfer {
//!             id: TransferId(0), source: host, target, virtual_network: 0, payload: Bytes(10_000), source_dma: true, target_dma: true,
//!         });
//!     }
//!     fn tail(&mut self, arrival: &Arrival, _fabric: &mut Context<'_>) {
//!         self.received += arrival.payload.0;
//!     }
//! }
//!
//! let tree = FatTree::k_ary_n_tree(4, 2).unwrap().build();
//! let mut fabric = Fabric::new(&NetworkConfig::default(), tree, |_hosts| Ring { hosts: 16, received: 0 }).unwrap();
//! (0..16).for_each(|host| fabric.timer(SimTime::ZERO, host, 0));
//! fabric.run_until(SimTime::from_us(100), 2);
//! assert_eq!(fabric.agents().map(|ring| ring.received).sum::<u64>(), 160_000);
//! ```

use crate::config::{ConfigError, FlowControl, NetworkConfig};
use crate::packet::AuditError;
use crate::packet::layout::Layout;
use crate::packet::region::{Effects, Note, Region};
use crate::packet::state::{NEVER, Packet};
use crate::timing::{Costs, Timer};
use crate::{Arrival, EventKind, Forwarding, Observer, PacketArrival, Statistics, Transfer, TransferId};
use narrows_engine::{CalendarQueue, Digest};
use narrows_topology::Topology;
use narrows_units::SimTime;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

/// What is at the hosts of a region: sources of messages, and whatever counts what arrives. Every function is called in the order of
/// simulated time; which of several at one time comes first does not depend on the regions.
pub trait Agent: Observer + Send {
    /// Of a message, this agent is told only [`Agent::delivered`], as soon as it is known, and neither [`Agent::source_done`] nor
    /// [`Agent::head`] nor [`Agent::tail`] at their times. Saves three events per message.
    const EARLY: bool = false;

    /// A timer strikes.
    fn timer(&mut self, host: u32, tag: u32, fabric: &mut Context<'_>);
    /// The last payload byte of a transfer has left the memory of `host`; only for those with [`Transfer::source_dma`] and a payload.
    fn source_done(&mut self, _host: u32, _id: TransferId, _fabric: &mut Context<'_>) {}
    /// The header of a message is in the target's NIC. Messages between two hosts may overtake each other.
    fn head(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_>) {}
    /// The last byte of a message is through.
    fn tail(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_>) {}
    /// With [`Agent::EARLY`]: the last byte of a message will be through at `through`, not before now.
    fn delivered(&mut self, _arrival: &Arrival, _through: SimTime, _fabric: &mut Context<'_>) {}
}

/// What an [`Agent`] can do.
pub struct Context<'a> {
    now: u64,
    region: &'a Region,
    starts: &'a mut Vec<Transfer>,
    timers: &'a mut Vec<(u64, u32, u32)>,
}

impl Context<'_> {
    /// The time.
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// Starts a transfer now. Its source must be a host of the region; its number unique among those of that source in flight.
    pub fn start(&mut self, transfer: Transfer) {
        self.starts.push(transfer);
    }

    /// Sets a timer of a host of the region. At one time timers strike by host, then tag.
    pub fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        self.timers.push((at.as_ps().max(self.now), host, tag));
    }

    /// The time that `link`, which must start in the region, needs for what waits for it and what it is sending.
    pub fn load(&self, link: u32) -> SimTime {
        self.region.load(link, self.now)
    }

    /// The links that start in the region.
    pub fn links(&self) -> &[u32] {
        self.region.links()
    }
}

/// What regions send each other.
#[derive(Debug, Default)]
struct Mailbox {
    packets: Vec<Packet>,
    notes: Vec<Note>,
}

/// The same before it is posted, with the region that it is for.
#[derive(Debug, Default)]
struct Outbox {
    packets: Vec<(u32, Packet)>,
    notes: Vec<(u32, Note)>,
}

#[derive(Debug)]
enum Told {
    Head(Arrival),
    Tail(Arrival),
    Delivered(Arrival, u64),
}

/// Where the effects of a region go.
#[derive(Debug)]
struct Desk<A> {
    agent: A,
    /// The key of an event: its kind, its place, its payload.
    queue: CalendarQueue<()>,
    outbox: Outbox,
    told: Vec<Told>,
    /// The earliest effect of what is in the outbox.
    sent: u64,
}

const PLACE_BITS: u32 = 28;

/// Kind, place and payload of a key.
#[inline]
fn parts(key: u64) -> (EventKind, u32, u32) {
    let kind = EventKind::ALL[(key >> (32 + PLACE_BITS)) as usize];
    (kind, (key >> 32) as u32 & ((1 << PLACE_BITS) - 1), key as u32)
}

/// How many events ahead the caches are told of what they need, by step.
const AHEAD: [usize; 3] = [8, 5, 2];

impl<A> Desk<A> {
    #[inline]
    fn insert(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.queue.insert(at, (kind as u64) << (32 + PLACE_BITS) | u64::from(place) << 32 | u64::from(payload), ());
    }
}

impl<A: Observer> Observer for Desk<A> {
    #[inline]
    fn sent(&mut self, link: u32, lane: u32, wire: u32, at: SimTime, duration: SimTime) {
        self.agent.sent(link, lane, wire, at, duration);
    }
    #[inline]
    fn queued(&mut self, link: u32, lane: u32, source: u32, wire: u32, at: SimTime, joins: bool) {
        self.agent.queued(link, lane, source, wire, at, joins);
    }
    #[inline]
    fn stalled(&mut self, link: u32) {
        self.agent.stalled(link);
    }
    #[inline]
    fn paused(&mut self, link: u32, lane: u32, pauses: bool) {
        self.agent.paused(link, lane, pauses);
    }
    #[inline]
    fn lost(&mut self, link: u32, wire: u32) {
        self.agent.lost(link, wire);
    }
    #[inline]
    fn packet(&mut self, packet: &PacketArrival) {
        self.agent.packet(packet);
    }
}

impl<A: Agent> Effects for Desk<A> {
    const EARLY: bool = A::EARLY;

    #[inline]
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.insert(at, kind, place, payload);
    }

    #[inline]
    fn fly(&mut self, region: u32, at: u64, packet: &Packet) {
        self.sent = self.sent.min(at);
        self.outbox.packets.push((region, *packet));
    }

    #[inline]
    fn note(&mut self, region: u32, note: Note) {
        self.sent = self.sent.min(note.at());
        self.outbox.notes.push((region, note));
    }

    fn head(&mut self, arrival: &Arrival) {
        self.told.push(Told::Head(*arrival));
    }

    fn tail(&mut self, arrival: &Arrival) {
        self.told.push(Told::Tail(*arrival));
    }

    fn delivered(&mut self, arrival: &Arrival, through: u64) {
        self.told.push(Told::Delivered(*arrival, through));
    }
}

/// A region with all that belongs to it.
#[derive(Debug)]
struct Part<A> {
    region: Region,
    desk: Desk<A>,
    mail: Mailbox,
    starts: Vec<Transfer>,
    timers: Vec<(u64, u32, u32)>,
    /// By host of the region.
    digests: Vec<Digest>,
    events: u64,
    now: u64,
}

impl<A: Agent> Part<A> {
    /// Everything before `end`.
    fn run(&mut self, end: u64) {
        while let Some((at, _)) = self.desk.queue.peek()
            && at < end
        {
            let Some((at, key, ())) = self.desk.queue.pop() else { return };
            self.now = at;
            self.events += 1;
            self.prefetch::<0>();
            self.prefetch::<1>();
            self.prefetch::<2>();
            let (kind, place, payload) = parts(key);
            match kind {
                EventKind::Timer => self.tell(|agent, context| agent.timer(place, payload, context)),
                EventKind::SourceDone => {
                    self.digests[self.region.host(place) as usize].event(SimTime(at), u64::from(payload));
                    self.tell(|agent, context| agent.source_done(place, TransferId(payload), context));
                }
                _ => self.region.handle(at, kind, payload, &mut self.desk),
            }
            self.settle();
        }
    }

    #[inline]
    fn prefetch<const STEP: u32>(&self) {
        if let Some(key) = self.desk.queue.ahead(AHEAD[STEP as usize]) {
            let (kind, place, payload) = parts(key);
            self.region.prefetch::<STEP>(kind, place, payload);
        }
    }

    #[inline]
    fn tell(&mut self, what: impl FnOnce(&mut A, &mut Context<'_>)) {
        let Part { region, desk, starts, timers, now, .. } = self;
        what(&mut desk.agent, &mut Context { now: *now, region, starts, timers });
    }

    /// Tells the agent and does what it says until both are quiet.
    #[inline]
    fn settle(&mut self) {
        while !(self.desk.told.is_empty() && self.starts.is_empty() && self.timers.is_empty()) {
            self.settle_once();
        }
    }

    fn settle_once(&mut self) {
        let mut told = std::mem::take(&mut self.desk.told);
        for told in told.drain(..) {
            let (at, kind, arrival) = match &told {
                Told::Head(arrival) => (self.now, 1, arrival),
                Told::Tail(arrival) => (self.now, 2, arrival),
                Told::Delivered(arrival, through) => (*through, 2, arrival),
            };
            let digest = &mut self.digests[self.region.host(arrival.target) as usize];
            digest.event(SimTime(at), kind << 32 | u64::from(arrival.id.0));
            digest.word(u64::from(arrival.source));
            self.tell(|agent, context| match &told {
                Told::Head(arrival) => agent.head(arrival, context),
                Told::Tail(arrival) => agent.tail(arrival, context),
                Told::Delivered(arrival, through) => agent.delivered(arrival, SimTime(*through), context),
            });
        }
        if self.desk.told.is_empty() {
            self.desk.told = told;
        }
        for (at, host, tag) in self.timers.drain(..) {
            self.desk.insert(at, EventKind::Timer, host, tag);
        }
        for transfer in self.starts.drain(..) {
            self.region.start(self.now, &transfer, &mut self.desk);
        }
    }

    /// Takes in what other regions sent.
    fn open(&mut self) {
        for packet in self.mail.packets.drain(..) {
            self.region.land(packet, &mut self.desk);
        }
        for note in self.mail.notes.drain(..) {
            self.region.hear(note, self.now, &mut self.desk);
        }
    }
}

/// See the module's page.
#[derive(Debug)]
pub struct Fabric<A> {
    parts: Vec<Mutex<Part<A>>>,
    /// What has been sent to each region since it last looked.
    boxes: Vec<Mutex<Mailbox>>,
    layout: Arc<Layout>,
    lookahead: Lookahead,
    /// The smallest packet so far.
    least: u32,
    now: u64,
}

/// A thread that panicked has said why; its panic goes on when the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inner<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Agent> Fabric<A> {
    /// The packet network of `config` on `topology`, cut along its groups. `agent` makes that of a region for a list of its hosts.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology, agent: impl FnMut(&[u32]) -> A) -> Result<Self, ConfigError> {
        let regions = crate::packet::layout::regions(&topology);
        Fabric::with_regions(config, topology, regions, agent)
    }

    /// As [`Fabric::new`], with the region of every switch, numbered without a gap. With links without latency between regions there is one
    /// region.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn with_regions(
        config: &NetworkConfig,
        topology: Topology,
        region_of: Vec<u32>,
        mut agent: impl FnMut(&[u32]) -> A,
    ) -> Result<Self, ConfigError> {
        let routing = config.check(&topology)?;
        let mut layout = Layout::new(topology, region_of);
        let mut lookahead = Lookahead::new(config, &layout);
        if lookahead.with(config.header.0 as u32) == 0 {
            layout = Layout::whole(layout.topology);
            lookahead = Lookahead::new(config, &layout);
        }
        let layout = Arc::new(layout);
        let regions = layout.regions;
        let mut hosts = vec![Vec::new(); regions as usize];
        for (host, home) in layout.hosts.iter().enumerate() {
            hosts[home.0 as usize].push(host as u32);
        }
        let parts = (0..regions)
            .map(|number| {
                let desk = Desk {
                    agent: agent(&hosts[number as usize]),
                    queue: CalendarQueue::new(),
                    outbox: Outbox::default(),
                    told: Vec::new(),
                    sent: NEVER,
                };
                Mutex::new(Part {
                    region: Region::new(number, config, Arc::clone(&layout), routing.clone()),
                    desk,
                    mail: Mailbox::default(),
                    starts: Vec::new(),
                    timers: Vec::new(),
                    digests: vec![Digest::default(); hosts[number as usize].len()],
                    events: 0,
                    now: 0,
                })
            })
            .collect();
        let boxes = (0..regions).map(|_| Mutex::default()).collect();
        Ok(Fabric { parts, boxes, layout, lookahead, least: config.packet().0 as u32, now: 0 })
    }

    /// Runs until `time`, everything at it included, on up to `threads` threads.
    pub fn run_until(&mut self, time: SimTime, threads: usize) {
        let end = time.as_ps().saturating_add(1);
        let threads = threads.clamp(1, self.parts.len());
        self.open();
        let begin = self.parts.iter_mut().filter_map(|part| inner(part).desk.queue.peek()).map(|(at, _)| at).min().unwrap_or(NEVER);
        let windows = Windows {
            parts: &self.parts,
            boxes: &self.boxes,
            lookahead: &self.lookahead,
            least: AtomicU32::new(self.least),
            smaller: AtomicU32::new(self.least),
            end,
            begin: AtomicU64::new(begin),
            next: AtomicU64::new(NEVER),
            shares: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            barrier: Barrier::new(threads),
            failed: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let windows = &windows;
                scope.spawn(move || windows.run(thread));
            }
            windows.run(0);
        });
        self.least = windows.smaller.into_inner();
        self.now = self.now.max(time.as_ps());
    }

    /// Brings everything that is under way between regions, and all that was asked for, into their queues.
    fn open(&mut self) {
        for (part, mail) in self.parts.iter_mut().zip(&mut self.boxes) {
            let part = inner(part);
            part.mail.packets.append(&mut inner(mail).packets);
            part.mail.notes.append(&mut inner(mail).notes);
            part.open();
            part.settle();
        }
    }

    /// Sets a timer of a host, not before the time that [`Fabric::run_until`] has reached.
    pub fn timer(&mut self, at: SimTime, host: u32, tag: u32) {
        let at = at.as_ps().max(self.now);
        let region = self.layout.hosts[host as usize].0;
        inner(&mut self.parts[region as usize]).timers.push((at, host, tag));
    }

    /// The time that [`Fabric::run_until`] has reached.
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// The agents, by region.
    pub fn agents(&mut self) -> impl Iterator<Item = &mut A> {
        self.parts.iter_mut().map(|part| &mut inner(part).desk.agent)
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.layout.topology
    }

    /// What went over the network so far.
    pub fn statistics(&self) -> Statistics {
        self.parts.iter().fold(Statistics::default(), |sum, part| sum + lock(part).region.statistics())
    }

    /// Events handled so far; depends on the regions.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(|part| lock(part).events).sum()
    }

    /// Regions.
    pub fn regions(&self) -> u32 {
        self.layout.regions
    }

    /// Of all that agents were told, and when: host by host.
    pub fn digest(&self) -> u64 {
        let parts: Vec<_> = self.parts.iter().map(lock).collect();
        let mut digest = Digest::default();
        for &(region, host) in &self.layout.hosts {
            digest.word(parts[region as usize].digests[host as usize].value());
        }
        digest.value()
    }

    /// Packets in NICs, switches and on links.
    pub fn live_packets(&self) -> usize {
        let mail = self.boxes.iter().map(|mail| lock(mail).packets.len()).sum::<usize>();
        mail + self.parts.iter().map(|part| lock(part).region.live_packets()).sum::<usize>()
    }

    /// Counts every byte of every buffer: free, on its way back, or held by a packet. Slow.
    ///
    /// # Errors
    /// The first lane where they do not add up to its buffer.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        let mut held = inner(&mut self.parts[0]).region.no_bytes_held();
        self.open();
        self.parts.iter_mut().for_each(|part| inner(part).region.count_held(&mut held));
        self.parts.iter_mut().try_for_each(|part| inner(part).region.audit(&held))
    }
}

/// How long regions can do without each other: the latency of a link between them, and a bit.
#[derive(Clone, Debug)]
struct Lookahead {
    /// By speed of the links between regions: their latency, until the head of a packet asks for an output, and times on the wire.
    links: Vec<(u64, u64, Timer)>,
    /// Times on the fastest link of all.
    fastest: Timer,
    /// Stores and forwards.
    whole: bool,
    /// Beyond this nothing goes.
    most: u64,
}

impl Lookahead {
    fn new(config: &NetworkConfig, layout: &Layout) -> Lookahead {
        let costs = Costs::new(config, &layout.topology);
        let mut most = NEVER;
        let between = layout.topology.links().iter().filter(|link| layout.home(link.from) != layout.home(link.to));
        let speeds: BTreeSet<u16> = between.map(|link| link.speed).collect();
        // Over any of them a packet may leave the switch that it has come to.
        let all: BTreeSet<u16> = layout.topology.links().iter().map(|link| link.speed).collect();
        let fastest = all.iter().map(|&speed| *costs.wire(speed)).min_by_key(|timer| timer.time(1 << 20)).unwrap_or(*costs.wire(0));
        let links = speeds.iter().map(|&speed| (costs.link(speed).latency.as_ps(), costs.switch_latency, *costs.wire(speed))).collect();
        if let FlowControl::Pause(pause) = &config.flow_control
            && !speeds.is_empty()
        {
            most = pause.resend_after.as_ps();
            for &speed in &speeds {
                most = most.min(costs.link(speed).latency.as_ps() + costs.wire(speed).time(pause.frame.0 as u32));
            }
        }
        Lookahead { links, fastest, whole: config.forwarding == Forwarding::StoreAndForward, most }
    }

    /// `least`: no packet that has come over such a link so far was smaller. The head of a packet asks for an output after the link and the
    /// switch's pipeline; credits are back after the time of the packet on the link that it goes on with, and the link. A smaller one that is injected meanwhile has to come
    /// over such a link before there are credits to give back for it.
    fn with(&self, least: u32) -> u64 {
        let link = |&(latency, pipeline, timer): &(u64, u64, Timer)| {
            let whole = if self.whole { timer.time(least) } else { 0 };
            latency + self.fastest.time(least).min(pipeline + whole)
        };
        self.links.iter().map(link).min().unwrap_or(NEVER).min(self.most)
    }
}

/// A run of windows, shared by its threads.
struct Windows<'a, A> {
    parts: &'a [Mutex<Part<A>>],
    boxes: &'a [Mutex<Mailbox>],
    lookahead: &'a Lookahead,
    /// The smallest packet before this window.
    least: AtomicU32,
    /// With those of this window.
    smaller: AtomicU32,
    end: u64,
    /// Of the window: the first event anywhere.
    begin: AtomicU64,
    /// Of the next one.
    next: AtomicU64,
    /// By thread: how many parts of its share have been begun.
    shares: Vec<AtomicUsize>,
    barrier: Barrier,
    /// A thread has panicked.
    failed: AtomicBool,
}

impl<A: Agent> Windows<'_, A> {
    fn run(&self, thread: usize) {
        loop {
            let begin = self.begin.load(Ordering::Relaxed);
            let least = self.least.load(Ordering::Relaxed);
            if begin >= self.end {
                return;
            }
            let until = begin.saturating_add(self.lookahead.with(least)).min(self.end);
            // The others would wait for a thread that panics.
            let done = catch_unwind(AssertUnwindSafe(|| self.window(thread, until)));
            self.failed.fetch_or(done.is_err(), Ordering::Relaxed);
            if self.barrier.wait().is_leader() {
                self.begin.store(self.next.swap(NEVER, Ordering::Relaxed), Ordering::Relaxed);
                self.least.store(self.smaller.load(Ordering::Relaxed), Ordering::Relaxed);
                self.shares.iter().for_each(|share| share.store(0, Ordering::Relaxed));
            }
            self.barrier.wait();
            if let Err(panic) = done {
                resume_unwind(panic);
            }
            if self.failed.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn window(&self, thread: usize, until: u64) {
        let threads = self.shares.len();
        // Its own share first, which its cache may know, then what others have not begun.
        for turn in 0..threads {
            let owner = (thread + turn) % threads;
            let share = owner * self.parts.len() / threads..(owner + 1) * self.parts.len() / threads;
            loop {
                let part = share.start + self.shares[owner].fetch_add(1, Ordering::Relaxed);
                if part >= share.end {
                    break;
                }
                self.run_part(part, until);
            }
        }
    }

    fn run_part(&self, number: usize, until: u64) {
        let mut part = lock(&self.parts[number]);
        let part = &mut *part;
        // What is sent in this window may be among it: it is for later ones, and does no harm.
        std::mem::swap(&mut part.mail, &mut lock(&self.boxes[number]));
        part.open();
        part.run(until);
        let next = part.desk.queue.peek().map_or(NEVER, |(at, _)| at).min(part.desk.sent);
        self.next.fetch_min(next, Ordering::Relaxed);
        self.smaller.fetch_min(part.region.least_wire(), Ordering::Relaxed);
        part.desk.sent = NEVER;
        for (region, packet) in part.desk.outbox.packets.drain(..) {
            lock(&self.boxes[region as usize]).packets.push(packet);
        }
        for (region, note) in part.desk.outbox.notes.drain(..) {
            lock(&self.boxes[region as usize]).notes.push(note);
        }
    }
}
