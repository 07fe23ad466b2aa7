//! The event loop: a network with something at its hosts that sends and receives, on several threads.
//!
//! The packet network is cut into regions: groups of a dragonfly, pods of a fat tree. Each has its own events, packets
//! and [`Agent`]. Nothing that happens in one reaches another before the latency of a link between them has passed, so
//! all regions can run through a window of that length by themselves (conservative windows: Chandy and Misra 1979;
//! bounded by the lookahead, Lubachevsky 1989) and hand over what they send each other at its end. A region's state
//! fits the nearest cache, which is why a single thread does it this way, too.
//!
//! What travels with a message beside its bytes is a [`Agent::Letter`]: it is with the agent of the target before
//! anything of the message is. The flow and the LogGP network have one region.
//!
//! **Order.** Events of a region are ordered by time, then by what they are and by the link or host where they happen:
//! never by who was first to schedule them. So everything that happens is the same however the network is cut and on
//! any number of threads. [`Fabric::digest`] puts together one digest per host, in the order of the hosts.
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
//!     type Event = ();
//!     type Letter = ();
//!     type Ports = narrows_port::HostPorts;
//!     fn timer(&mut self, host: u32, _order: u32, _event: (), fabric: &mut Context<'_>) {
//!         let target = (host + 1) % self.hosts;
//!         fabric.start(Transfer {
//!             id: TransferId(0), source: host, target, virtual_network: 0, payload: Bytes(10_000), source_dma: true,
//!             target_dma: true,
//!         });
//!     }
//!     fn tail(&mut self, arrival: &Arrival, _fabric: &mut Context<'_>) {
//!         self.received += arrival.payload.0;
//!     }
//! }
//!
//! let tree = FatTree::k_ary_n_tree(4, 2).unwrap().build();
//! let mut fabric = Fabric::new(&NetworkConfig::default(), tree, |_hosts| Ring { hosts: 16, received: 0 }).unwrap();
//! (0..16).for_each(|host| fabric.timer(SimTime::ZERO, host, 0, ()));
//! fabric.run_until(SimTime::from_us(100), 2);
//! assert_eq!(fabric.agents().map(|ring| ring.received).sum::<u64>(), 160_000);
//! ```

use crate::config::{ConfigError, FlowControl, NetworkConfig};
use crate::flow::FlowNetwork;
use crate::loggp::LogGpNetwork;
use crate::packet::AuditError;
use crate::packet::layout::Layout;
use crate::packet::region::{Effects, Note, Region};
use crate::packet::state::{NEVER, Packet};
use crate::port::{PortEffects, PortEvent, Ports};
use crate::timing::{Costs, Timer, ZeroLoad};
use crate::whole::{Network, Whole};
use crate::{Arrival, EventKind, Forwarding, NetworkKind, Observer, PacketArrival, Statistics, Transfer, TransferId, Tree, TreeError};
use narrows_engine::{CalendarQueue, Digest};
use narrows_topology::Topology;
use narrows_units::SimTime;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

/// What is at the hosts of a region: sources of messages, and whatever counts what arrives. Every function is called in
/// the order of simulated time; which of several at one time comes first does not depend on the regions.
pub trait Agent: Observer + Send + Sized {
    /// Of a message, this agent is told only [`Agent::delivered`], as soon as it is known, and neither
    /// [`Agent::source_done`] nor [`Agent::head`] nor [`Agent::tail`] at their times. Saves three events per message.
    /// On the packet network only.
    const EARLY: bool = false;
    /// [`Fabric::digest`] is asked for.
    const DIGEST: bool = true;
    /// What a timer carries.
    type Event: Copy + Default + Send + std::fmt::Debug;
    /// What goes to the agent of another host beside the network.
    type Letter: Send;
    /// What is between it and a network of packets.
    type Ports: Ports;

    /// A timer strikes.
    fn timer(&mut self, host: u32, order: u32, event: Self::Event, fabric: &mut Context<'_, Self::Event, Self::Letter>);
    /// A letter for a host of the region; see [`Context::post`].
    fn letter(&mut self, _host: u32, _letter: Self::Letter, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// The last payload byte of a transfer has left the memory of `host`; only for those with [`Transfer::source_dma`]
    /// and a payload.
    fn source_done(&mut self, _host: u32, _id: TransferId, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// The header of a message is in the target's NIC. Messages between two hosts may overtake each other.
    fn head(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// The last byte of a message is through.
    fn tail(&mut self, _arrival: &Arrival, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
    /// With [`Agent::EARLY`]: the last byte of a message will be through at `through`, not before now.
    fn delivered(&mut self, _arrival: &Arrival, _through: SimTime, _fabric: &mut Context<'_, Self::Event, Self::Letter>) {}
}

/// What an [`Agent`] asks for, until it is done.
#[derive(Debug)]
struct Wishes<E, L> {
    /// Any at all.
    any: bool,
    starts: Vec<Transfer>,
    copied: Vec<(Arc<Tree>, Transfer)>,
    /// Time, host, order and what.
    timers: Vec<(u64, u32, u32, E)>,
    /// For a host; the earliest effect.
    letters: Vec<(u32, u64, L)>,
}

impl<E, L> Wishes<E, L> {
    const NONE: Wishes<E, L> = Wishes { any: false, starts: Vec::new(), copied: Vec::new(), timers: Vec::new(), letters: Vec::new() };
}

/// What an [`Agent`] can do.
pub struct Context<'a, E = (), L = ()> {
    now: u64,
    network: &'a dyn Seen,
    wishes: &'a mut Wishes<E, L>,
}

impl<E, L> Context<'_, E, L> {
    /// The time.
    #[inline]
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// Starts a transfer now. Its source must be a host of the region; its number unique among those of that source in
    /// flight.
    #[inline]
    pub fn start(&mut self, transfer: Transfer) {
        self.wishes.any = true;
        self.wishes.starts.push(transfer);
    }

    /// Sends one message to all targets of a tree, copied by the switches; `transfer` has the first target, its number
    /// is below 2^31. It arrives at every target, under this number. Where there are several regions there is no
    /// [`Context::tree`].
    pub fn multicast(&mut self, tree: &Arc<Tree>, transfer: Transfer) {
        self.wishes.any = true;
        self.wishes.copied.push((Arc::clone(tree), transfer));
    }

    /// The tree from `source` to `targets`, which are in rising order, without the source.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError> {
        self.network.tree(source, targets)
    }

    /// Sets a timer of a host of the region. At one time timers strike by host, then `order`: no two of one host have
    /// both in common.
    #[inline]
    pub fn timer(&mut self, at: SimTime, host: u32, order: u32, event: E) {
        self.wishes.any = true;
        self.wishes.timers.push((at.as_ps().max(self.now), host, order, event));
    }

    /// Gives the agent of `host` a letter: at once if it is this one, else before the next window, which is before
    /// anything that is started now can arrive. `effect`: nothing comes of it before that time, which is at least that
    /// of the way there; [`SimTime::MAX`] where nothing does.
    #[inline]
    pub fn post(&mut self, host: u32, effect: SimTime, letter: L) {
        self.wishes.any = true;
        self.wishes.letters.push((host, effect.as_ps(), letter));
    }

    /// The time that `link`, which must start in the region, needs for what waits for it and what it is sending.
    pub fn load(&self, link: u32) -> SimTime {
        self.network.load(link, self.now)
    }

    /// The links that start in the region.
    pub fn links(&self) -> &[u32] {
        self.network.links()
    }
}

/// What regions send each other.
#[derive(Debug)]
struct Mailbox<L> {
    packets: Vec<Packet>,
    notes: Vec<Note>,
    /// With the host.
    letters: Vec<(u32, L)>,
}

impl<L> Default for Mailbox<L> {
    fn default() -> Self {
        Mailbox { packets: Vec::new(), notes: Vec::new(), letters: Vec::new() }
    }
}

/// The same before it is posted, with the region that it is for.
#[derive(Debug)]
struct Outbox<L> {
    packets: Vec<(u32, Packet)>,
    notes: Vec<(u32, Note)>,
    /// With region and host.
    letters: Vec<(u32, u32, L)>,
}

#[derive(Debug)]
pub(crate) enum Told {
    /// Source and number.
    SourceDone(u32, TransferId),
    Head(Arrival),
    Tail(Arrival),
    Delivered(Arrival, u64),
}

/// Where the effects of a region go.
#[derive(Debug)]
pub(crate) struct Desk<A: Agent> {
    pub(crate) agent: A,
    /// The key of an event: its kind, its place, its payload.
    queue: CalendarQueue<A::Event>,
    outbox: Outbox<A::Letter>,
    pub(crate) told: Vec<Told>,
    /// The earliest effect of what is in the outbox.
    sent: u64,
}

const PLACE_BITS: u32 = 28;

/// Kind, place and payload of a key.
#[inline]
fn parts(key: u64) -> (EventKind, u32, u32) {
    let kind = EventKind::of_bits(key >> (32 + PLACE_BITS));
    (kind, (key >> 32) as u32 & ((1 << PLACE_BITS) - 1), key as u32)
}

/// How many events ahead the caches are told of what they need, by step.
const AHEAD: [usize; 3] = [8, 5, 2];

impl<A: Agent> Desk<A> {
    #[inline]
    fn prefetch<const STEP: u32>(&self, region: &Region<A::Ports>) {
        if let Some(key) = self.queue.ahead(AHEAD[STEP as usize]) {
            let (kind, place, payload) = parts(key);
            region.prefetch::<STEP>(kind, place, payload);
        }
    }

    #[inline]
    fn insert(&mut self, at: u64, kind: EventKind, place: u32, payload: u32, event: A::Event) {
        self.queue.insert(at, (kind as u64) << (32 + PLACE_BITS) | u64::from(place) << 32 | u64::from(payload), event);
    }
}

impl<A: Agent> Observer for Desk<A> {
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

impl<A: Agent> PortEffects for Desk<A> {
    const EARLY: bool = A::EARLY;

    #[inline]
    fn schedule_port(&mut self, at: SimTime, event: PortEvent, place: u32, payload: u32) {
        self.schedule(at.as_ps(), event.kind(), place, payload);
    }

    fn source_done(&mut self, at: SimTime, source: u32, id: TransferId) {
        self.schedule(at.as_ps(), EventKind::SourceDone, source, id.0);
    }

    fn head(&mut self, arrival: &Arrival) {
        self.told.push(Told::Head(*arrival));
    }

    fn tail(&mut self, arrival: &Arrival) {
        self.told.push(Told::Tail(*arrival));
    }

    fn delivered(&mut self, arrival: &Arrival, through: SimTime) {
        self.told.push(Told::Delivered(*arrival, through.as_ps()));
    }
}

impl<A: Agent> Effects for Desk<A> {
    #[inline]
    fn schedule(&mut self, at: u64, kind: EventKind, place: u32, payload: u32) {
        self.insert(at, kind, place, payload, A::Event::default());
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
}

/// What carries the messages of a region.
#[derive(Debug)]
enum Model<P> {
    Packet(Box<Region<P>>),
    /// Knows of no regions.
    Whole(Box<Whole>),
}

/// What an agent sees of it.
trait Seen {
    fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError>;
    fn load(&self, link: u32, now: u64) -> SimTime;
    fn links(&self) -> &[u32];
}

impl<P: Ports> Seen for Model<P> {
    fn tree(&self, source: u32, targets: &[u32]) -> Result<Tree, TreeError> {
        match self {
            Model::Packet(region) if !region.is_whole() => Err(TreeError::Regions),
            Model::Packet(region) => {
                region.check_multicast()?;
                Ok(Tree::new(region.topology(), source, targets))
            }
            Model::Whole(whole) => Ok(Tree::new(whole.network.topology(), source, targets)),
        }
    }

    fn load(&self, link: u32, now: u64) -> SimTime {
        match self {
            Model::Packet(region) => region.load(link, now),
            Model::Whole(_) => SimTime::ZERO,
        }
    }

    fn links(&self) -> &[u32] {
        match self {
            Model::Packet(region) => region.links(),
            Model::Whole(_) => &[],
        }
    }
}

impl<P: Ports> Model<P> {
    fn statistics(&self) -> Statistics {
        match self {
            Model::Packet(region) => region.statistics(),
            Model::Whole(whole) => whole.network.statistics(),
        }
    }
}

/// A message that switches copy, on the packet network.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    id: u32,
    /// Tails to come, and one if its source is read.
    open: u32,
}

/// In the region, numbers from here on are those of messages that switches copy.
const FIRST_COPIED: u32 = 1 << 31;

/// A region with all that belongs to it.
#[derive(Debug)]
struct Part<A: Agent> {
    model: Model<A::Ports>,
    layout: Arc<Layout>,
    number: u32,
    desk: Desk<A>,
    mail: Mailbox<A::Letter>,
    wishes: Wishes<A::Event, A::Letter>,
    copied: Vec<Copied>,
    free_copied: Vec<u32>,
    /// By host of the region.
    digests: Vec<Digest>,
    events: u64,
    now: u64,
}

impl<A: Agent> Part<A> {
    /// Everything before `end`, but not more than `most` events.
    fn run(&mut self, end: u64, most: u64) {
        let last = self.events.saturating_add(most);
        while let Some((at, _)) = self.desk.queue.peek()
            && at < end
            && self.events < last
        {
            self.step();
        }
    }

    /// The next event.
    #[inline(always)]
    fn step(&mut self) {
        let Some((at, key, event)) = self.desk.queue.pop() else { return };
        self.now = at;
        self.events += 1;
        if let Model::Packet(region) = &self.model {
            self.desk.prefetch::<0>(region);
            self.desk.prefetch::<1>(region);
            self.desk.prefetch::<2>(region);
        }
        let (kind, place, payload) = parts(key);
        match (kind, &mut self.model) {
            (EventKind::Timer, _) => self.tell(|agent, context| agent.timer(place, payload, event, context)),
            (EventKind::SourceDone, Model::Packet(_)) => self.desk.told.push(Told::SourceDone(place, TransferId(payload))),
            (_, Model::Packet(region)) => region.handle(at, kind, payload, &mut self.desk),
            (_, Model::Whole(whole)) => whole.handle(SimTime(at), kind, payload, &mut self.desk),
        }
        self.settle();
    }

    #[inline]
    fn tell<R>(&mut self, what: impl FnOnce(&mut A, &mut Context<'_, A::Event, A::Letter>) -> R) -> R {
        let Part { model, desk, wishes, now, .. } = self;
        what(&mut desk.agent, &mut Context { now: *now, network: &*model, wishes })
    }

    /// Tells the agent and does what it says until both are quiet.
    #[inline(always)]
    fn settle(&mut self) {
        if self.wishes.any || !self.desk.told.is_empty() {
            self.settle_all();
        }
    }

    fn settle_all(&mut self) {
        while self.wishes.any || !self.desk.told.is_empty() {
            self.settle_once();
        }
    }

    fn settle_once(&mut self) {
        let mut told = std::mem::take(&mut self.desk.told);
        for mut told in told.drain(..) {
            if !self.copied.is_empty() {
                self.name_copied(&mut told);
            }
            if A::DIGEST {
                self.digest(&told);
            }
            self.tell(|agent, context| match &told {
                Told::SourceDone(host, id) => agent.source_done(*host, *id, context),
                Told::Head(arrival) => agent.head(arrival, context),
                Told::Tail(arrival) => agent.tail(arrival, context),
                Told::Delivered(arrival, through) => agent.delivered(arrival, SimTime(*through), context),
            });
        }
        if self.desk.told.is_empty() {
            self.desk.told = told;
        }
        self.wishes.any = false;
        for (at, host, order, event) in self.wishes.timers.drain(..) {
            self.desk.insert(at, EventKind::Timer, host, order, event);
        }
        if !self.wishes.letters.is_empty() {
            self.send_letters();
        }
        for transfer in self.wishes.starts.drain(..) {
            match &mut self.model {
                Model::Packet(region) => region.start(self.now, &transfer, &mut self.desk),
                Model::Whole(whole) => whole.start(SimTime(self.now), transfer, &mut self.desk),
            }
        }
        if !self.wishes.copied.is_empty() {
            self.start_copied();
        }
    }

    fn digest(&mut self, told: &Told) {
        let (at, kind, host, id, source) = match told {
            Told::SourceDone(host, id) => (self.now, 0, *host, *id, *host),
            Told::Head(arrival) => (self.now, 1, arrival.target, arrival.id, arrival.source),
            Told::Tail(arrival) => (self.now, 2, arrival.target, arrival.id, arrival.source),
            Told::Delivered(arrival, through) => (*through, 2, arrival.target, arrival.id, arrival.source),
        };
        let digest = &mut self.digests[self.layout.hosts[host as usize].1 as usize];
        digest.event(SimTime(at), kind << 32 | u64::from(id.0));
        if kind > 0 {
            digest.word(u64::from(source));
        }
    }

    /// Letters within the region arrive now, before what is started now.
    fn send_letters(&mut self) {
        let mut letters = std::mem::take(&mut self.wishes.letters);
        for (host, effect, letter) in letters.drain(..) {
            let region = self.layout.hosts[host as usize].0;
            if region == self.number {
                self.tell(|agent, context| agent.letter(host, letter, context));
            } else {
                self.desk.sent = self.desk.sent.min(effect);
                self.desk.outbox.letters.push((region, host, letter));
            }
        }
        if self.wishes.letters.is_empty() {
            self.wishes.letters = letters;
        }
    }

    fn start_copied(&mut self) {
        for (tree, transfer) in std::mem::take(&mut self.wishes.copied) {
            match &mut self.model {
                Model::Whole(whole) => whole.multicast(SimTime(self.now), &tree, transfer, &mut self.desk),
                Model::Packet(region) => {
                    let open = tree.targets().len() as u32 + u32::from(transfer.source_dma && transfer.payload.0 > 0);
                    let copied = Copied { id: transfer.id.0, open };
                    let index = self.free_copied.pop().unwrap_or_else(|| {
                        self.copied.push(copied);
                        self.copied.len() as u32 - 1
                    });
                    self.copied[index as usize] = copied;
                    let transfer = Transfer { id: TransferId(FIRST_COPIED + index), ..transfer };
                    region.start_copied(self.now, index, &tree, &transfer, &mut self.desk);
                }
            }
        }
    }

    /// Gives a message that switches copy the number that the agent knows.
    fn name_copied(&mut self, told: &mut Told) {
        let (id, ends) = match told {
            Told::SourceDone(_, id) => (id, true),
            Told::Head(arrival) => (&mut arrival.id, false),
            Told::Tail(arrival) | Told::Delivered(arrival, _) => (&mut arrival.id, true),
        };
        let Some(index) = id.0.checked_sub(FIRST_COPIED) else { return };
        let copied = &mut self.copied[index as usize];
        *id = TransferId(copied.id);
        copied.open -= u32::from(ends);
        if copied.open == 0 {
            self.free_copied.push(index);
        }
    }

    /// Takes in what other regions sent.
    fn open(&mut self) {
        if let Model::Packet(region) = &mut self.model {
            for packet in self.mail.packets.drain(..) {
                region.land(packet, &mut self.desk);
            }
            for note in self.mail.notes.drain(..) {
                region.hear(note, self.now, &mut self.desk);
            }
        }
        if !self.mail.letters.is_empty() {
            let mut letters = std::mem::take(&mut self.mail.letters);
            for (host, letter) in letters.drain(..) {
                self.tell(|agent, context| agent.letter(host, letter, context));
            }
            self.mail.letters = letters;
            self.settle();
        }
    }
}

pub use crate::packet::layout::regions as along_groups;

/// See the module's page.
#[derive(Debug)]
pub struct Fabric<A: Agent> {
    parts: Vec<Mutex<Part<A>>>,
    /// What has been sent to each region since it last looked.
    boxes: Vec<Mutex<Mailbox<A::Letter>>>,
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
    /// The network of `config` on `topology`: that of packets cut along its groups, the others whole. `agent` makes
    /// that of a region for a list of its hosts.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology, agent: impl FnMut(&[u32]) -> A) -> Result<Self, ConfigError> {
        let regions = along_groups(&topology);
        Fabric::with_regions(config, topology, regions, agent)
    }

    /// As [`Fabric::new`], with the region of every switch, numbered without a gap. With links without latency between
    /// regions, and on the networks that are not of packets, there is one region.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn with_regions(
        config: &NetworkConfig,
        topology: Topology,
        region_of: Vec<u32>,
        mut agent: impl FnMut(&[u32]) -> A,
    ) -> Result<Self, ConfigError> {
        Fabric::with_agents(config, topology, region_of, |regions| regions.iter().map(|hosts| agent(hosts)).collect())
    }

    /// As [`Fabric::with_regions`], with all agents at once: `agents` gets the hosts of every region.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// When there is not one agent for each.
    pub fn with_agents(
        config: &NetworkConfig,
        topology: Topology,
        region_of: Vec<u32>,
        agents: impl FnOnce(&[Vec<u32>]) -> Vec<A>,
    ) -> Result<Self, ConfigError> {
        let routing = config.check(&topology)?;
        let mut layout = Layout::new(topology, region_of);
        let mut lookahead = Lookahead::new(config, &layout);
        if lookahead.with(config.header.0 as u32) == 0 || config.kind != NetworkKind::Packet {
            layout = Layout::whole(layout.topology);
            lookahead = Lookahead::new(config, &layout);
        }
        let layout = Arc::new(layout);
        let regions = layout.regions;
        let mut hosts = vec![Vec::new(); regions as usize];
        for (host, home) in layout.hosts.iter().enumerate() {
            hosts[home.0 as usize].push(host as u32);
        }
        let agents = agents(&hosts);
        assert_eq!(agents.len(), hosts.len(), "an agent for each region");
        let parts: Result<Vec<_>, ConfigError> = (0..regions)
            .zip(agents)
            .map(|(number, agent)| {
                let desk = Desk {
                    agent,
                    queue: CalendarQueue::new(),
                    outbox: Outbox { packets: Vec::new(), notes: Vec::new(), letters: Vec::new() },
                    told: Vec::new(),
                    sent: NEVER,
                };
                let model = match config.kind {
                    NetworkKind::Packet => Model::Packet(Box::new(Region::new(number, config, Arc::clone(&layout), routing.clone()))),
                    NetworkKind::Flow => {
                        Model::Whole(Box::new(Whole::new(Network::Flow(Box::new(FlowNetwork::new(config, layout.topology.clone())?)))))
                    }
                    NetworkKind::LogGp => {
                        Model::Whole(Box::new(Whole::new(Network::LogGp(Box::new(LogGpNetwork::new(config, layout.topology.clone())?)))))
                    }
                };
                Ok(Mutex::new(Part {
                    model,
                    layout: Arc::clone(&layout),
                    number,
                    desk,
                    mail: Mailbox::default(),
                    wishes: Wishes::NONE,
                    copied: Vec::new(),
                    free_copied: Vec::new(),
                    digests: vec![Digest::default(); hosts[number as usize].len()],
                    events: 0,
                    now: 0,
                }))
            })
            .collect();
        let parts = parts?;
        let boxes = (0..regions).map(|_| Mutex::default()).collect();
        Ok(Fabric { parts, boxes, layout, lookahead, least: config.packet().0 as u32, now: 0 })
    }

    /// Runs until `time`, everything at it included, on up to `threads` threads.
    pub fn run_until(&mut self, time: SimTime, threads: usize) {
        self.run_while(time, threads, &mut |_| true);
    }

    /// As [`Fabric::run_until`], for as long as `go_on`, asked now and then with the time that has been reached, says
    /// so: at moments that do not depend on the threads. False if it did not.
    pub fn run_while(&mut self, time: SimTime, threads: usize, go_on: &mut (dyn FnMut(SimTime) -> bool + Send)) -> bool {
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
            stopped: AtomicBool::new(false),
            go_on: Mutex::new(go_on),
        };
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let windows = &windows;
                scope.spawn(move || windows.run(thread));
            }
            windows.run(0);
        });
        let stopped = windows.stopped.into_inner();
        self.least = windows.smaller.into_inner();
        if !stopped {
            self.now = self.now.max(time.as_ps());
        }
        !stopped
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<SimTime> {
        if let [part] = self.parts.as_mut_slice() {
            let part = inner(part);
            part.settle();
            return part.desk.queue.peek().map(|(at, _)| SimTime(at));
        }
        self.open();
        self.parts.iter_mut().filter_map(|part| inner(part).desk.queue.peek()).map(|(at, _)| SimTime(at)).min()
    }

    /// The only region's next event: for those who look at what happened after each.
    ///
    /// # Panics
    /// When there are several regions.
    pub fn step(&mut self) {
        let [part] = self.parts.as_mut_slice() else { panic!("events of several regions have no order") };
        let part = inner(part);
        part.step();
        self.now = part.now;
    }

    /// Everything in one region, as far as it does not concern others, and the time of the last event.
    pub fn drain(&mut self, region: u32) -> SimTime {
        let part = inner(&mut self.parts[region as usize]);
        part.settle();
        part.run(NEVER, u64::MAX);
        SimTime(part.now)
    }

    /// Does something with the agent of a region, at the time of its last event, or that which has been reached.
    #[inline]
    pub fn act<R>(&mut self, region: u32, what: impl FnOnce(&mut A, &mut Context<'_, A::Event, A::Letter>) -> R) -> R {
        let part = inner(&mut self.parts[region as usize]);
        part.now = part.now.max(self.now);
        let result = part.tell(what);
        part.settle();
        result
    }

    /// Shows `observer` a network that is not of packets at work, which only agents see; false, and nothing, where
    /// there are no links.
    pub fn observe(&mut self, observer: Box<dyn Observer + Send>) -> bool {
        match &mut inner(&mut self.parts[0]).model {
            Model::Packet(_) => false,
            Model::Whole(whole) => whole.network.observe(observer),
        }
    }

    /// The region of a host.
    pub fn region_of(&self, host: u32) -> u32 {
        self.layout.hosts[host as usize].0
    }

    /// Forgets whose turn it is at outputs and injectors, which is all that earlier traffic leaves behind. Meant for a
    /// network without anything in flight.
    pub fn rest(&mut self) {
        for part in &mut self.parts {
            // The state of the others is that of the transfers under way.
            if let Model::Packet(region) = &mut inner(part).model {
                region.rest();
            }
        }
    }

    /// Brings everything that is under way between regions, and all that was asked for, into their queues.
    fn open(&mut self) {
        for (part, mail) in self.parts.iter_mut().zip(&mut self.boxes) {
            let part = inner(part);
            part.mail.packets.append(&mut inner(mail).packets);
            part.mail.notes.append(&mut inner(mail).notes);
            part.mail.letters.append(&mut inner(mail).letters);
            part.open();
            part.settle();
        }
    }

    /// Sets a timer of a host, not before the time that [`Fabric::run_until`] has reached.
    pub fn timer(&mut self, at: SimTime, host: u32, order: u32, event: A::Event) {
        let at = at.as_ps().max(self.now);
        let region = self.layout.hosts[host as usize].0;
        let wishes = &mut inner(&mut self.parts[region as usize]).wishes;
        wishes.any = true;
        wishes.timers.push((at, host, order, event));
    }

    /// The time that [`Fabric::run_until`] has reached.
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// The agent of a region.
    #[inline]
    pub fn agent(&mut self, region: u32) -> &mut A {
        &mut inner(&mut self.parts[region as usize]).desk.agent
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
        self.parts.iter().fold(Statistics::default(), |sum, part| sum + lock(part).model.statistics())
    }

    /// When `transfer` is read from memory, at its target with its header, and there with all of it, if it starts at
    /// time zero on an empty network.
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        match &lock(&self.parts[0]).model {
            Model::Packet(region) => region.costs().zero_load(region.topology(), transfer),
            Model::Whole(whole) => whole.network.zero_load(transfer),
        }
    }

    /// Of the flow network: number of every flow under way, and bytes per second since the last solve; sorted.
    pub fn flow_rates(&self) -> Vec<(TransferId, u64)> {
        match &lock(&self.parts[0]).model {
            Model::Packet(_) => Vec::new(),
            Model::Whole(whole) => whole.flow_rates(),
        }
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
        let packets = |part: &Mutex<Part<A>>| match &lock(part).model {
            Model::Packet(region) => region.live_packets(),
            Model::Whole(_) => 0,
        };
        mail + self.parts.iter().map(packets).sum::<usize>()
    }

    /// Counts every byte of every buffer: free, on its way back, or held by a packet. Slow. The networks without
    /// packets have no buffers.
    ///
    /// # Errors
    /// The first lane where they do not add up to its buffer.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        self.open();
        let mut regions: Vec<&mut Region<A::Ports>> = Vec::new();
        for part in &mut self.parts {
            if let Model::Packet(region) = &mut inner(part).model {
                regions.push(region);
            }
        }
        let Some(first) = regions.first() else { return Ok(()) };
        let mut held = first.no_bytes_held();
        regions.iter_mut().for_each(|region| region.count_held(&mut held));
        regions.iter_mut().try_for_each(|region| region.audit(&held))
    }
}

/// How long regions can do without each other: the latency of a link between them, and a bit.
#[derive(Clone, Debug)]
struct Lookahead {
    /// By speed of the links between regions: their latency, until the head of a packet asks for an output, and times
    /// on the wire.
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

    /// `least`: no packet that has come over such a link so far was smaller. The head of a packet asks for an output
    /// after the link and the switch's pipeline; credits are back after the time of the packet on the link that it goes
    /// on with, and the link. A smaller one that is injected meanwhile has to come over such a link before there are
    /// credits to give back for it.
    fn with(&self, least: u32) -> u64 {
        let link = |&(latency, pipeline, timer): &(u64, u64, Timer)| {
            let whole = if self.whole { timer.time(least) } else { 0 };
            latency + self.fastest.time(least).min(pipeline + whole)
        };
        self.links.iter().map(link).min().unwrap_or(NEVER).min(self.most)
    }
}

/// A run of windows, shared by its threads.
struct Windows<'a, A: Agent> {
    parts: &'a [Mutex<Part<A>>],
    boxes: &'a [Mutex<Mailbox<A::Letter>>],
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
    /// `go_on` has said no.
    stopped: AtomicBool,
    go_on: Mutex<&'a mut (dyn FnMut(SimTime) -> bool + Send)>,
}

/// Where there is one region, and so no end of a window: events between two questions whether to go on.
const EVENTS_AT_ONCE: u64 = 1 << 16;

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
                let stops = !lock(&self.go_on)(SimTime(begin));
                self.stopped.fetch_or(stops, Ordering::Relaxed);
                self.begin.store(self.next.swap(NEVER, Ordering::Relaxed), Ordering::Relaxed);
                self.least.store(self.smaller.load(Ordering::Relaxed), Ordering::Relaxed);
                self.shares.iter().for_each(|share| share.store(0, Ordering::Relaxed));
            }
            self.barrier.wait();
            if let Err(panic) = done {
                resume_unwind(panic);
            }
            if self.failed.load(Ordering::Relaxed) || self.stopped.load(Ordering::Relaxed) {
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
        part.run(until, if self.parts.len() == 1 { EVENTS_AT_ONCE } else { u64::MAX });
        let next = part.desk.queue.peek().map_or(NEVER, |(at, _)| at).min(part.desk.sent);
        self.next.fetch_min(next, Ordering::Relaxed);
        if let Model::Packet(region) = &part.model {
            self.smaller.fetch_min(region.least_wire(), Ordering::Relaxed);
        }
        part.desk.sent = NEVER;
        for (region, packet) in part.desk.outbox.packets.drain(..) {
            lock(&self.boxes[region as usize]).packets.push(packet);
        }
        for (region, note) in part.desk.outbox.notes.drain(..) {
            lock(&self.boxes[region as usize]).notes.push(note);
        }
        for (region, host, letter) in part.desk.outbox.letters.drain(..) {
            lock(&self.boxes[region as usize]).letters.push((host, letter));
        }
    }
}
