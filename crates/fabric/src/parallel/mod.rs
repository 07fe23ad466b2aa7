//! The event loop: a network with something at its hosts that sends and receives, on several threads.
//!
//! The packet network is cut into regions: groups of a dragonfly, pods of a fat tree. Each has its own events, packets
//! and [`Agent`]. Nothing that happens in one reaches another before the latency of a link between them has passed, so
//! all regions can run through a window of that length by themselves (conservative windows: Chandy and Misra 1979;
//! bounded by the lookahead, Lubachevsky 1989) and hand over what they send each other at its end. A region's state
//! fits the nearest cache, which is why a single thread does it this way, too. Regions may be spread over processes
//! ([`Fabric::spread`]), which exchange at the end of each window what the regions of one have sent to those of
//! another.
//!
//! What travels with a message beside its bytes is a [`Agent::Letter`]: it is with the agent of the target before
//! anything of the message is. On the LogGP network nothing happens between two hosts, so that the windows are as long
//! as the latency of a whole way, and the regions small ([`regions`]). The flow network has one region.
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
//!             route: 0,
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

mod agent;
mod effects;
mod led;
mod meeting;
mod part;
mod processes;
mod windows;

pub use crate::packet::layout::{along_groups, regions};
pub(crate) use effects::PLACE_BITS;

pub use agent::{Agent, Context};
pub(crate) use effects::RegionEffects;
pub use processes::{Exchange, ExchangeError, ProcessError, Processes};

use crate::config::{ConfigError, NetworkConfig};
use crate::flow::FlowNetwork;
use crate::loggp::LogGpNetwork;
use crate::packet::AuditError;
use crate::packet::layout::Layout;
use crate::packet::region::Region;
use crate::packet::state::NEVER;
use crate::timing::ZeroLoad;
use crate::whole::Whole;
use crate::{EventKind, NetworkKind, Observer, Statistics, Transfer, TransferId};
use effects::{Base, Mailbox};
use narrows_engine::Digest;
use narrows_topology::Topology;
use narrows_units::SimTime;
use part::{Homes, LogicalProcess, Model, Planes, Seen};
use processes::Spread;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windows::{Lookahead, News, Outcome, Windows};

/// See the module's page.
#[derive(Debug)]
pub struct Fabric<A: Agent> {
    /// Of the regions of this process, which follow each other.
    parts: Vec<Mutex<LogicalProcess<A>>>,
    /// The first of them.
    first: u32,
    /// Where there are other processes.
    spread: Option<Spread<A::Letter>>,
    error: Option<ProcessError>,
    /// What has been sent to each region since it last looked; by region of all.
    boxes: Vec<Mutex<Mailbox<A::Letter>>>,
    /// By network.
    layouts: Vec<Arc<Layout>>,
    homes: Homes,
    lookahead: Lookahead,
    /// The smallest packet so far.
    least: u32,
    windows: u64,
    now: u64,
    /// Where the first region is led.
    led: led::Led<A>,
}

/// A network of a machine.
#[derive(Debug)]
pub struct Plane<'a> {
    /// What it does.
    pub config: &'a NetworkConfig,
    /// Its graph.
    pub topology: Topology,
    /// The region of every switch. The numbers of all networks together are those from 0 without a gap.
    pub region_of: Vec<u32>,
    /// The region of all hosts; `None`: they are in those of their switches.
    pub hosts: Option<u32>,
}

/// Where the numbers of each network begin.
fn bases(layouts: &[Arc<Layout>]) -> Vec<Base> {
    let mut next = Base::default();
    let mut base = |layout: &Arc<Layout>| {
        let this = next;
        let (links, hosts) = (layout.topology.links().len() as u32, layout.topology.hosts());
        next = Base { plane: this.plane + 1, place: this.place + links.max(hosts), link: this.link + links, host: this.host + hosts };
        this
    };
    layouts.iter().map(&mut base).collect()
}

/// A region by itself: see [`Fabric::each`].
pub struct Alone<'a, A: Agent> {
    part: &'a mut LogicalProcess<A>,
    now: u64,
}

impl<A: Agent> Alone<'_, A> {
    /// Does something with the agent, at the time of the region's last event, or that which all have reached.
    #[inline]
    pub fn act<R>(&mut self, what: impl FnOnce(&mut A, &mut Context<'_, A::Event, A::Letter>) -> R) -> R {
        self.part.now = self.part.now.max(self.now);
        let result = self.part.tell(what);
        self.part.settle();
        result
    }

    /// Everything in the region, as far as it does not concern others, and the time of the last event.
    pub fn drain(&mut self) -> SimTime {
        self.part.settle();
        self.part.run(NEVER, u64::MAX);
        SimTime(self.part.now)
    }

    /// The agent.
    pub fn agent(&mut self) -> &mut A {
        &mut self.part.effects.agent
    }
}

/// A thread that panicked has said why; its panic goes on when the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inner<T>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl<A: Agent> Fabric<A> {
    /// The network of `config` on `topology`, cut by [`regions`]. `agent` makes that of a region for a list of its
    /// hosts.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(config: &NetworkConfig, topology: Topology, agent: impl FnMut(&[u32]) -> A) -> Result<Self, ConfigError> {
        let regions = regions(config, &topology);
        Fabric::with_regions(config, topology, regions, agent)
    }

    /// As [`Fabric::new`], with the region of every switch, numbered without a gap. With links without latency between
    /// regions, and on the flow network, there is one region.
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
        Fabric::of_planes(vec![Plane { config, topology, region_of, hosts: None }], agents)
    }

    /// A machine of several networks, which share nothing but agents: hosts are numbered through all of them, in their
    /// order, and so are links. No message goes from one to another. With links without latency between regions, and
    /// where one of the networks is of flows, there is one region.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// When there is no network, or not one agent for each region.
    pub fn of_planes(planes: Vec<Plane<'_>>, agents: impl FnOnce(&[Vec<u32>]) -> Vec<A>) -> Result<Self, ConfigError> {
        Fabric::assemble(planes, |_| Ok(None), agents)
    }

    /// As [`Fabric::of_planes`], with this process's share of the regions: `agents` gets their hosts. From now on every
    /// process does the same with its fabric, in the same order. What is asked of it is about these regions, but for
    /// the time, and for [`Fabric::digest_of_all`].
    ///
    /// # Errors
    /// See [`ConfigError`]; there must be a region for each process.
    ///
    /// # Panics
    /// See [`Fabric::of_planes`].
    pub fn spread(planes: Vec<Plane<'_>>, processes: &Processes, agents: impl FnOnce(&[Vec<u32>]) -> Vec<A>) -> Result<Self, ConfigError>
    where
        A::Letter: Serialize + DeserializeOwned,
    {
        let spread = |regions: u32| match processes.count() {
            count if count > regions => Err(ConfigError::Processes { processes: count, regions }),
            _ => Ok(Some(Spread::new(processes.clone(), regions))),
        };
        Fabric::assemble(planes, spread, agents)
    }

    fn assemble(
        planes: Vec<Plane<'_>>,
        spread: impl FnOnce(u32) -> Result<Option<Spread<A::Letter>>, ConfigError>,
        agents: impl FnOnce(&[Vec<u32>]) -> Vec<A>,
    ) -> Result<Self, ConfigError> {
        let routings = planes.iter().map(|plane| plane.config.routings(&plane.topology)).collect::<Result<Vec<_>, _>>()?;
        let configs: Vec<&NetworkConfig> = planes.iter().map(|plane| plane.config).collect();
        let regions = planes.iter().flat_map(|plane| plane.region_of.iter().chain(&plane.hosts)).max().map_or(1, |last| last + 1);
        let mut layouts: Vec<Layout> =
            planes.into_iter().map(|Plane { topology, region_of, hosts, .. }| Layout::new(topology, region_of, hosts, regions)).collect();
        let ahead = |layouts: &[Layout]| Lookahead::new(configs.iter().copied().zip(layouts));
        let mut lookahead = ahead(&layouts);
        let least = configs.iter().map(|config| config.least_packet().0 as u32).min().expect("a machine has a network");
        if lookahead.with(least) == 0 || configs.iter().any(|config| config.kind == NetworkKind::Flow) {
            layouts = layouts.into_iter().map(|layout| Layout::whole(layout.topology)).collect();
            lookahead = ahead(&layouts);
        }
        let layouts: Vec<Arc<Layout>> = layouts.into_iter().map(Arc::new).collect();
        let regions = layouts[0].regions;
        let spread = spread(regions)?;
        let own = spread.as_ref().map_or(0..regions, |spread| spread.of(spread.processes.process()));
        // The numbers of hosts in a region, too, go through the networks.
        let mut hosts = vec![Vec::new(); regions as usize];
        let mut homes = Vec::new();
        for home in layouts.iter().flat_map(|layout| &layout.hosts) {
            let of_region: &mut Vec<u32> = &mut hosts[home.0 as usize];
            let host = homes.len() as u32;
            homes.push((home.0, of_region.len() as u32));
            of_region.push(host);
        }
        let homes: Homes = homes.into();
        let hosts = &hosts[own.start as usize..own.end as usize];
        let agents = agents(hosts);
        assert_eq!(agents.len(), hosts.len(), "an agent for each region");
        let model = |number: u32, plane: usize| -> Result<Model<A::Ports>, ConfigError> {
            let (config, layout) = (configs[plane], &layouts[plane]);
            Ok(match config.kind {
                NetworkKind::Packet => Model::Packet(Box::new(Region::new(number, config, Arc::clone(layout), &routings[plane]))),
                NetworkKind::Flow => Model::Whole(Box::new(Whole::new(FlowNetwork::new(config, layout.topology.clone())?))),
                NetworkKind::LogGp => Model::LogGp(Box::new(LogGpNetwork::new(number, config, Arc::clone(layout)))),
            })
        };
        let bases = bases(&layouts);
        let parts: Result<Vec<_>, ConfigError> = own
            .clone()
            .zip(agents)
            .zip(hosts)
            .map(|((number, agent), hosts)| {
                let others = bases.iter().enumerate().skip(1).map(|(plane, &base)| Ok((base, model(number, plane)?)));
                let planes = Planes { others: others.collect::<Result<_, ConfigError>>()?, first: model(number, 0)? };
                Ok(Mutex::new(LogicalProcess::new(number, &homes, planes, agent, hosts.len())))
            })
            .collect();
        let parts = parts?;
        let boxes = (0..regions).map(|_| Mutex::new(Mailbox::new(layouts.len()))).collect();
        let least = configs.iter().map(|config| config.packet().0 as u32).min().unwrap_or(0);
        Ok(Fabric {
            parts,
            first: own.start,
            spread,
            error: None,
            boxes,
            layouts,
            homes,
            lookahead,
            least,
            windows: 0,
            now: 0,
            led: led::Led::new(),
        })
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
        let next = self.parts.iter_mut().filter_map(|part| inner(part).effects.queue.peek()).map(|(at, _)| at).min().unwrap_or(NEVER);
        let mut news = News { next, least: self.least, stops: false };
        if let Some(spread) = &self.spread {
            match spread.meet(news, &self.boxes, &self.parts) {
                Ok(all) => news = all,
                Err(error) => {
                    self.error = Some(error);
                    return false;
                }
            }
        }
        let windows = Windows::new(self, news, end, threads, go_on);
        std::thread::scope(|scope| {
            for thread in 1..threads {
                let windows = &windows;
                scope.spawn(move || windows.run(thread));
            }
            windows.run(0);
        });
        let Outcome { stopped, least, windows, error } = windows.outcome();
        self.least = least;
        self.windows += windows;
        self.error = error;
        if !stopped {
            self.now = self.now.max(time.as_ps());
            self.parts.iter_mut().for_each(|part| inner(part).effects.pass(end));
        }
        !stopped
    }

    /// Why the processes cannot go on together, if [`Fabric::run_until`] has come to that.
    pub fn error(&mut self) -> Option<ProcessError> {
        self.error.take()
    }

    /// A region of this process.
    fn part(&mut self, region: u32) -> &mut LogicalProcess<A> {
        inner(&mut self.parts[(region - self.first) as usize])
    }

    /// The time of the next event.
    pub fn next_time(&mut self) -> Option<SimTime> {
        if let [part] = self.parts.as_mut_slice() {
            let part = inner(part);
            part.settle();
            return part.effects.queue.peek().map(|(at, _)| SimTime(at));
        }
        self.open();
        self.parts.iter_mut().filter_map(|part| inner(part).effects.queue.peek()).map(|(at, _)| SimTime(at)).min()
    }

    /// That of all processes, with what is under way between them.
    ///
    /// # Errors
    /// The processes cannot go on together.
    pub fn next_time_of_all(&mut self) -> Result<Option<SimTime>, ProcessError> {
        let Some(spread) = &self.spread else { return Ok(self.next_time()) };
        let processes = spread.processes.clone();
        self.open();
        let next = self.next_time();
        Ok(processes.gather(&next)?.into_iter().flatten().min())
    }

    /// The first region's next event: for those who look at what happened after each. If there are several regions,
    /// that of [`Fabric::next_led`].
    pub fn step(&mut self) {
        let part = inner(&mut self.parts[0]);
        part.step();
        self.now = part.now;
    }

    /// Does something with the agent of a region, at the time of its last event, or that which has been reached.
    #[inline]
    pub fn act<R>(&mut self, region: u32, what: impl FnOnce(&mut A, &mut Context<'_, A::Event, A::Letter>) -> R) -> R {
        let now = self.now;
        Alone { part: self.part(region), now }.act(what)
    }

    /// Does something with every region by itself, on up to `threads` threads; what came of it, by region.
    pub fn each<R: Send>(&mut self, threads: usize, what: impl Fn(u32, &mut Alone<'_, A>) -> R + Sync) -> Vec<R> {
        let share = self.parts.len().div_ceil(threads.max(1));
        let (now, what, own) = (self.now, &what, self.first as usize);
        let of_share = move |first: usize, parts: &mut [Mutex<LogicalProcess<A>>]| {
            let alone = parts.iter_mut().map(|part| Alone { part: inner(part), now });
            ((own + first) as u32..).zip(alone).map(|(region, mut alone)| what(region, &mut alone)).collect::<Vec<R>>()
        };
        let (mine, others) = self.parts.split_at_mut(share);
        std::thread::scope(|scope| {
            let others = others.chunks_mut(share).enumerate();
            let others: Vec<_> = others.map(|(index, parts)| scope.spawn(move || of_share((index + 1) * share, parts))).collect();
            let mut results = of_share(0, mine);
            others.into_iter().for_each(|other| results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))));
            results
        })
    }

    /// Gives the memory back, on up to `threads` threads: that of many hosts takes its time.
    pub fn dismantle(mut self, threads: usize) {
        let share = self.parts.len().div_ceil(threads.max(1));
        std::thread::scope(|scope| {
            while self.parts.len() > share {
                let parts = self.parts.split_off(self.parts.len() - share);
                scope.spawn(move || drop(parts));
            }
            self.parts.clear();
        });
    }

    /// Shows `observer` a network that is not of packets at work, which only agents see; false, and nothing, where
    /// there are no links.
    pub fn observe(&mut self, observer: Box<dyn Observer + Send>) -> bool {
        match &mut inner(&mut self.parts[0]).planes.first {
            Model::Packet(_) | Model::LogGp(_) => false,
            Model::Whole(whole) => {
                whole.network.observe(observer);
                true
            }
        }
    }

    /// The region of a host.
    pub fn region_of(&self, host: u32) -> u32 {
        self.homes[host as usize].0
    }

    /// Forgets what earlier traffic leaves behind: whose turn it is at outputs and injectors, flows, and the places
    /// that say which of two events at one instant is first. Meant for a network without anything in flight.
    pub fn rest(&mut self) {
        let ports = |model: &Model<A::Ports>| !matches!(model, Model::Packet(region) if !region.is_idle());
        // Both ends of a flow forget it, or none.
        let idle = self.spread.is_none() && self.live_packets() == 0;
        let idle = idle && self.parts.iter_mut().all(|part| inner(part).planes.all().all(ports));
        self.parts.iter_mut().for_each(|part| inner(part).rest(idle));
    }

    /// Brings everything that is under way between regions, and all that was asked for, into their queues.
    fn open(&mut self) {
        for part in &mut self.parts {
            windows::post(inner(part), &self.boxes);
        }
        for part in &mut self.parts {
            let part = inner(part);
            let mail = inner(&mut self.boxes[part.number as usize]);
            for (plane, other) in part.mail.planes.iter_mut().zip(&mut mail.planes) {
                plane.packets.append(&mut other.packets);
                plane.notes.append(&mut other.notes);
                plane.flying.append(&mut other.flying);
            }
            part.mail.letters.append(&mut mail.letters);
            part.open();
            part.settle();
        }
    }

    /// Sets a timer of a host, not before the time that [`Fabric::run_until`] has reached.
    pub fn timer(&mut self, at: SimTime, host: u32, order: u32, event: A::Event) {
        let at = at.as_ps().max(self.now);
        let region = self.homes[host as usize].0;
        self.part(region).effects.insert(at, EventKind::Timer, host, order, event);
    }

    /// The time that [`Fabric::run_until`] has reached.
    pub fn now(&self) -> SimTime {
        SimTime(self.now)
    }

    /// The agent of a region.
    #[inline]
    pub fn agent(&mut self, region: u32) -> &mut A {
        &mut self.part(region).effects.agent
    }

    /// The agents, by region.
    pub fn agents(&mut self) -> impl Iterator<Item = &mut A> {
        self.parts.iter_mut().map(|part| &mut inner(part).effects.agent)
    }

    /// The graph of the first network.
    pub fn topology(&self) -> &Topology {
        &self.layouts[0].topology
    }

    /// What went over the network so far.
    pub fn statistics(&self) -> Statistics {
        let of_part = |sum, part: &Mutex<LogicalProcess<A>>| {
            let part = lock(part);
            part.planes.all_with_bases().fold(sum, |sum, (base, model)| sum + model.statistics(part.effects.frontier_of(base)))
        };
        self.parts.iter().fold(Statistics::default(), of_part)
    }

    /// When `transfer` is read from memory, at its target with its header, and there with all of it, if it starts at
    /// time zero on an empty network.
    pub fn zero_load(&self, transfer: &Transfer) -> ZeroLoad {
        lock(&self.parts[0]).planes.zero_load(transfer)
    }

    /// Of the first network, if that is one of flows: number of every flow under way, and bytes per second since the
    /// last solve; sorted.
    pub fn flow_rates(&self) -> Vec<(TransferId, u64)> {
        match &lock(&self.parts[0]).planes.first {
            Model::Packet(_) | Model::LogGp(_) => Vec::new(),
            Model::Whole(whole) => whole.flow_rates(),
        }
    }

    /// Events handled so far; depends on the regions.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(|part| lock(part).events).sum()
    }

    /// Windows so far: times that all regions met to go on.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Regions of this process.
    pub fn regions(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Their numbers.
    pub fn own_regions(&self) -> Range<u32> {
        self.first..self.first + self.regions()
    }

    /// The process of a host's region, 0 if there are no others.
    pub fn process_of(&self, host: u32) -> u32 {
        self.spread.as_ref().map_or(0, |spread| spread.process_of(self.region_of(host)))
    }

    /// The region of a host is of this process.
    pub fn has(&self, host: u32) -> bool {
        self.own_regions().contains(&self.region_of(host))
    }

    /// The other processes, if there are any, and this one.
    pub fn processes(&self) -> Option<&Processes> {
        self.spread.as_ref().map(|spread| &spread.processes)
    }

    /// Of all that agents were notifications, and when: host by host.
    pub fn digest(&self) -> u64 {
        self.digest_by_host(&self.digests())
    }

    /// That of the hosts of all processes; only the first process has it, for the others it is 0.
    ///
    /// # Errors
    /// The processes cannot go on together.
    pub fn digest_of_all(&self) -> Result<u64, ProcessError> {
        let Some(spread) = &self.spread else { return Ok(self.digest()) };
        let all = spread.processes.gather_at_first(&self.digests())?;
        // By region: those of the processes follow each other.
        Ok(if all.is_empty() { 0 } else { self.digest_by_host(&all.concat()) })
    }

    /// Of every region here, by its hosts.
    fn digests(&self) -> Vec<Vec<u64>> {
        self.parts.iter().map(|part| lock(part).digests.iter().map(|digest| digest.value()).collect()).collect()
    }

    /// Regions are counted from the first one here.
    fn digest_by_host(&self, by_region: &[Vec<u64>]) -> u64 {
        let mut digest = Digest::default();
        for &(region, host) in self.homes.iter() {
            let of_host = region.checked_sub(self.first).and_then(|region| by_region.get(region as usize)?.get(host as usize));
            of_host.into_iter().for_each(|&of_host| digest.word(of_host));
        }
        digest.value()
    }

    /// Packets in NICs, switches and on links.
    pub fn live_packets(&self) -> usize {
        let mail = |mail: &Mutex<Mailbox<A::Letter>>| lock(mail).planes.iter().map(|plane| plane.packets.len()).sum::<usize>();
        let packets = |model: &Model<A::Ports>| match model {
            Model::Packet(region) => region.live_packets(),
            Model::LogGp(_) | Model::Whole(_) => 0,
        };
        let of_part = |part: &Mutex<LogicalProcess<A>>| lock(part).planes.all().map(packets).sum::<usize>();
        self.boxes.iter().map(mail).sum::<usize>() + self.parts.iter().map(of_part).sum::<usize>()
    }

    /// Counts every byte of every buffer: free, on its way back, or held by a packet. Slow. The networks without
    /// packets have no buffers.
    ///
    /// # Errors
    /// The first lane where they do not add up to its buffer.
    pub fn audit(&mut self) -> Result<(), AuditError> {
        self.open();
        let mut planes: Vec<Vec<&mut Region<A::Ports>>> = self.layouts.iter().map(|_| Vec::new()).collect();
        for part in &mut self.parts {
            for (regions, (_, model)) in planes.iter_mut().zip(inner(part).planes.all_mut()) {
                if let Model::Packet(region) = model {
                    regions.push(region);
                }
            }
        }
        for mut regions in planes {
            let Some(first) = regions.first() else { continue };
            let mut held = first.no_bytes_held();
            regions.iter_mut().for_each(|region| region.count_held(&mut held));
            regions.iter_mut().try_for_each(|region| region.audit(&held))?;
        }
        Ok(())
    }
}
