//! Replay on a simulated machine: every message goes through the message layer, the NICs and the network, as in a live
//! run.
//!
//! A rank is a core with a clock. It starts operations that are ready in the order in which they became so, each when
//! the core is free; when there is none, it looks at the events of its NIC. So a message makes no progress while its
//! rank computes, as with an MPI library without a progress thread. A rank's clock may be ahead of the simulation (it
//! computes, posts, ...): what it then does is stamped with its clock and reaches the NIC at that time.
//!
//! What a trace says of CPUs other than number 0 is computed beside the core (the accelerator of a Chakra trace): one
//! operation at a time on each, in the order in which they became ready. The core learns of their ends when it is free.
//!
//! Ranks live in the region of the network in which their node is ([`Ranks`]); what all of them read is [`Shared`].

mod circles;
mod ending;
mod rank;

use crate::Times;
use crate::copied::{Inbox as CopiedInbox, Messages};
use crate::error::ReplayError;
use crate::graph::Collectives;
use crate::port::{Costs, EQ, Given, Payloads, RankLibrary, port};
use crate::report::{Application as Report, Outcome, Progress};
use crate::watch::Watch;
use circles::{Circles, MeetingsOfProcesses};
use narrows_collectives::{Action, Schedule};
use narrows_engine::{Digest, WordMap};
use narrows_fabric::ConfigError;
use narrows_fabric::parallel::{self, ProcessError};
use narrows_message::{
    Completes, Completion, CompletionKind, Endpoint, Gateway, MessageConfig, Port, Protocol, Queue, Receive, Relay, Sent, Status,
};
use narrows_nic::{Directory, Process};
use narrows_portals::{Command, Event as NicEvent, Notice, ProcessId, ReplyCode};
use narrows_sim::{Background, CopyNotice, Hardware, Processes, Requests, Setup, World};
use narrows_timeline::{Call, NONE, Timeline};
use narrows_trace::{CollectivePart, Communicators, Dependency, Event, Kind, Meetings, Operation, Order, Program};
use narrows_units::{Bytes, Excess, NodeId, Rail, SimTime};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations of a rank that wait at most, for programs in causal order. Our own choice: see docs/replay.md.
const CAUSAL_WINDOW: usize = 64;
/// Room of the receives of collectives: longer than any message. All members agree on the sizes.
const ROOM: Bytes = Bytes::MESSAGE_MAX;
/// Tags of collectives have this bit, and [`Communicators::collective_tag`] below it.
const COLLECTIVE_TAG: u64 = 1 << 59;
/// Completions of the messages of a collective carry this bit in their context.
const COLLECTIVE_CONTEXT: u64 = 1 << 63;
/// ... and this one those of receives in a round with an odd number, which may be posted before the round.
const ODD_ROUND: u64 = 1 << 62;
/// Where simulated time starts (faults with a time count from here); later by whole ones of these where opening the
/// NICs takes longer. What is simulated does not depend on it.
pub const EPOCH: SimTime = SimTime::from_us(1_000_000);
/// Windows of the regions between two looks at progress.
const LOOK_EVERY: u32 = 16;

/// A trace that takes part.
pub struct PlacedTrace {
    /// For reports.
    pub name: String,
    /// What its ranks do.
    pub program: Box<dyn Program + Send>,
    /// How collectives are done.
    pub collectives: Box<dyn Collectives + Send>,
    /// Computing time and delays of each rank, times this; one number for all or one per rank.
    pub scale: Vec<f64>,
    /// Where its ranks are.
    pub processes: Vec<ProcessId>,
    /// Costs of the software there; the same for all, or one each.
    pub costs: Vec<Costs>,
}

/// An operation that is not over, or is not first of those that are not.
struct Node {
    operation: Operation,
    waits: u32,
    /// The latest of what it waited for; once it has been taken up, when.
    after: SimTime,
    started: bool,
    done: bool,
    dependents: Vec<(u64, Event)>,
}

/// Lists of dependents of operations that are over, to be used again.
#[derive(Default)]
struct Spare(Vec<Vec<(u64, Event)>>);

impl Spare {
    /// Most that are kept. Our own choice: a region has some hundred ranks, of one or two operations each.
    const MOST: usize = 256;

    fn take(&mut self) -> Vec<(u64, Event)> {
        self.0.pop().unwrap_or_default()
    }

    fn put(&mut self, mut list: Vec<(u64, Event)>) {
        if list.capacity() > 0 && self.0.len() < Spare::MOST {
            list.clear();
            self.0.push(list);
        }
    }
}

/// What a NIC tells a rank.
enum Incoming {
    Event(NicEvent),
    /// To the unlinking with this ticket.
    Reply(u32, ReplyCode),
    /// Of a broadcast that switches copy.
    Copied(CopyNotice),
    /// A gateway is gone.
    Gone(usize),
}

/// A collective under way.
struct Running {
    number: u64,
    schedule: Schedule,
    communicator: u32,
    position: u32,
    round: u32,
    /// All of them; of blocks, where accelerators do it.
    rounds: u32,
    /// Messages of the round that are not complete, and the receives among them.
    open: u32,
    open_receives: u32,
    /// Receives of the next round that are posted and not complete; [`NOT_POSTED`] if they were not posted ahead.
    ahead: u32,
    /// Reductions of what the round brings, and their bytes.
    reductions: u32,
    reduced_bytes: u64,
    /// Bytes that came for several places in memory.
    spread_bytes: u64,
    /// Its number among those of the communicator.
    of_communicator: u64,
    /// Of its messages.
    tag: u64,
}

const NOT_POSTED: u32 = u32::MAX;
/// Tickets of blocks that accelerators reduce have this bit, and the operation's number below it. Those of
/// [`narrows_message::Numbers`] have it not.
const REDUCED: u32 = 1 << 31;

struct Rank {
    part: usize,
    /// In its trace.
    number: u32,
    process: ProcessId,
    costs: Costs,
    clock: SimTime,
    endpoint: Option<Endpoint>,
    given: Given,
    inbox: VecDeque<(SimTime, Incoming)>,
    copied: CopiedInbox,
    window: VecDeque<Node>,
    /// Number of the first of the window.
    first: u64,
    exhausted: bool,
    /// Of the window: not started.
    unstarted: usize,
    ready: VecDeque<u64>,
    /// Operations that become ready at a time.
    delayed: Vec<(SimTime, u64)>,
    /// From when on each of the CPUs from number 1 on is free.
    units: Vec<SimTime>,
    /// What happens to computing on them, in order of time; of one operation the start before the end.
    computing: BinaryHeap<Reverse<(SimTime, u64, Event)>>,
    /// Computing so far, on its core and beside it.
    computed: SimTime,
    computed_beside: SimTime,
    running: Vec<Running>,
    /// Messages that it has started.
    sent: u32,
    /// Of the messages that it has received, and when.
    digest: Digest,
    finish: Option<SimTime>,
}

/// What a trace says, for one at a time.
struct Source {
    program: Box<dyn Program + Send>,
    collectives: Box<dyn Collectives + Send>,
    meetings: Meetings,
    /// Of the processes that share the replay.
    meetings_of_processes: MeetingsOfProcesses,
}

/// A trace, as all of its ranks know it.
struct Application {
    name: String,
    ranks: u32,
    /// Its first one, among those of all traces.
    first_rank: u32,
    order: Order,
    communicators: Communicators,
    scale: Vec<f64>,
    /// When a long send is over.
    completes: Completes,
    source: Mutex<Source>,
}

impl Application {
    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scale(&self, rank: u32) -> f64 {
        match self.scale.as_slice() {
            [one] => *one,
            each => each[rank as usize],
        }
    }
}

/// What a region's ranks did for a trace.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    unfinished: u32,
    messages: u64,
    bytes: u64,
    fct: Times,
}

/// How far the ranks of a region are: read by whoever shows progress.
#[derive(Default)]
struct Count {
    known: AtomicU64,
    done: AtomicU64,
}

/// What the ranks of all regions share.
struct Shared {
    applications: Vec<Application>,
    message: Arc<MessageConfig>,
    /// An error has been found.
    failed: AtomicBool,
}

/// What a rank tells another one beside the network.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Word {
    /// A message has been started: its sender and number, and when.
    Started {
        /// Among all.
        from: u32,
        /// Among those of its sender.
        number: u32,
        /// When.
        start: SimTime,
    },
    /// Ranks of another process take part in a collective: the number of their trace, when, and what one of them says.
    Joined(u32, SimTime, CollectivePart),
}

/// A message, among those of all ranks: its sender, and its number there.
fn flight(from: u32, number: u32) -> u64 {
    u64::from(from) << 32 | u64::from(number)
}

/// What the ranks of a region share.
struct State {
    shared: Arc<Shared>,
    directory: Option<Arc<Directory>>,
    /// Where ranks are, if there are several processes.
    circles: Option<Arc<Circles>>,
    tallies: Vec<Tally>,
    count: Arc<Count>,
    /// Messages under way to ranks here: by sender and number.
    flights: WordMap<u64, SimTime>,
    payloads: Payloads,
    copied: Messages,
    watch: Option<Watch>,
    timeline: Option<Timeline>,
    /// The start of simulated time.
    epoch: SimTime,
    known: u64,
    done: u64,
    after: Vec<Dependency>,
    spare: Spare,
    actions: Vec<Action>,
}

/// What a rank works with.
struct Region<'a> {
    world: &'a mut dyn Requests<Word>,
    state: &'a mut State,
}

impl Region<'_> {
    fn directory(&self) -> &Directory {
        self.state.directory.as_ref().expect("ranks are placed before they run")
    }

    fn process(&self, rank: u32) -> ProcessId {
        self.directory().place(Process(rank)).expect("a rank of this replay")
    }

    fn sender(&self, process: ProcessId) -> u32 {
        self.directory().process_at(process).expect("a rank of this replay").0
    }
}

/// The ranks of a region.
pub struct Ranks {
    ranks: Vec<Rank>,
    /// Their numbers among all, rising.
    numbers: Vec<u32>,
    state: State,
    /// Ranks that were told something; nothing is told before simulated time starts.
    touched: Vec<u32>,
    /// Gateways here, by their numbers among all processes, and what their NICs have told them.
    gateways: BTreeMap<u32, Gateway>,
    told: VecDeque<(SimTime, u32, Notice)>,
    /// Modules that cannot reach each other any more, in words.
    cut: Option<String>,
    runs: bool,
    error: Option<(SimTime, u32, ReplayError)>,
}

impl Ranks {
    /// The place of a rank here.
    #[inline]
    fn place(&self, rank: u32) -> usize {
        let first = self.numbers.first().copied().unwrap_or(0);
        if self.numbers.len() as u32 - 1 == self.numbers[self.numbers.len() - 1] - first {
            return (rank - first) as usize;
        }
        self.numbers.binary_search(&rank).expect("a rank of this region")
    }

    fn touch(&mut self, rank: u32, what: impl FnOnce(&mut Rank)) {
        if self.runs {
            let place = self.place(rank);
            what(&mut self.ranks[place]);
            self.touched.push(rank);
        }
    }
}

/// A gateway's way to its NICs.
struct Passage<'a> {
    world: &'a mut dyn Requests<Word>,
    process: u32,
    /// Memory that has been given away; nothing is behind its addresses.
    memory: u64,
}

impl Relay for Passage<'_> {
    fn submit(&mut self, rail: Rail, written: SimTime, command: Command) {
        self.world.submit(self.process, rail, written, command);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.memory += length;
        self.memory - length
    }
}

impl Processes for Ranks {
    type Letter = Word;

    fn in_order(&self) -> bool {
        // The firmware of ExaNeSt's NICs writes commands of its own, whatever the rank's clock.
        !matches!(self.state.shared.message.protocol, Protocol::Exanet)
    }

    /// Who sent to the rank may try again for ever.
    fn refused(&mut self) {
        self.state.shared.failed.store(true, Ordering::Relaxed);
    }

    fn prefetch(&self, step: u32, rank: u32) {
        if self.runs
            && self.gateways.is_empty()
            && let Some(rank) = self.ranks.get(self.place(rank))
        {
            rank.prefetch(step);
        }
    }

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        if self.gateways.contains_key(&rank) {
            return self.told.push_back((now, rank, notice));
        }
        self.touch(rank, |of| of.notice(now, notice));
    }

    fn hold(&mut self, _: u32, payload: Box<[u8]>) {
        self.state.payloads.give_back(payload);
    }

    fn told(&mut self, told: CopyNotice) {
        self.touch(told.rank, |of| of.inbox.push_back((told.at, Incoming::Copied(told))));
    }

    fn alarm(&mut self, now: SimTime, rank: u32) {
        if let Some(gateway) = self.gateways.get_mut(&rank) {
            return gateway.die();
        }
        let shared = Arc::clone(&self.state.shared);
        let since = now.saturating_sub(self.state.epoch);
        let Some(bridging) = shared.message.rails.bridging().filter(|bridging| !bridging.deaths.is_empty()) else {
            return self.touch(rank, |_| {});
        };
        let gone = bridging.deaths.iter().filter(|&&(_, at)| at + bridging.detection == since);
        self.touch(rank, |of| of.inbox.extend(gone.map(|&(gateway, _)| (now, Incoming::Gone(gateway)))));
        self.cut = self.cut.take().or_else(|| bridging.cut_at(since));
        if self.cut.is_some() {
            shared.failed.store(true, Ordering::Relaxed);
        }
    }

    fn takes(&self, _: u32, word: &Word) -> bool {
        match word {
            Word::Started { .. } => true,
            Word::Joined(part, _, said) => {
                let application = self.state.shared.applications.get(*part as usize);
                application.is_some_and(|application| application.communicators.position(said.call.communicator, said.rank).is_some())
            }
        }
    }

    fn letter(&mut self, rank: u32, word: Word) {
        match word {
            Word::Started { from, number, start } => {
                self.state.flights.insert(flight(from, number), start);
            }
            Word::Joined(part, at, said) => {
                let (part, circles) = (part as usize, self.state.circles.as_ref().expect("there are several processes"));
                if let Err(error) = circles.hear(&self.state.shared.applications[part], said) {
                    self.state.shared.failed.store(true, Ordering::Relaxed);
                    self.error.get_or_insert((at, rank, error.into()));
                }
            }
        }
    }

    #[inline]
    fn proceed(&mut self, world: &mut dyn Requests<Word>) {
        if !self.touched.is_empty() || !self.told.is_empty() {
            self.advance_touched(world);
        }
    }
}

impl Ranks {
    /// Gateways and ranks that were told something do what comes of it.
    fn advance_touched(&mut self, world: &mut dyn Requests<Word>) {
        while let Some((now, process, notice)) = self.told.pop_front() {
            if let Some(gateway) = self.gateways.get_mut(&process) {
                gateway.notify(now, &notice, &mut Passage { world: &mut *world, process, memory: 0 });
            }
        }
        if self.touched.is_empty() || self.error.is_some() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for rank in touched.drain(..) {
            let place = self.place(rank);
            let now = world.now();
            let mut region = Region { world: &mut *world, state: &mut self.state };
            if let Err(error) = self.ranks[place].advance(rank, &mut region) {
                self.state.shared.failed.store(true, Ordering::Relaxed);
                self.error = Some((now, rank, error));
                break;
            }
        }
        self.touched = touched;
        self.state.count.known.store(self.state.known, Ordering::Relaxed);
        self.state.count.done.store(self.state.done, Ordering::Relaxed);
    }
}

/// With background traffic, whose events never end: how often it is looked whether anything else is left.
const LOOK_FOR_END: SimTime = SimTime::from_us(20);

/// A replay on a machine, ready to run.
pub struct Replay {
    world: World<Ranks>,
    /// Those that share it, this one among them.
    processes: Option<parallel::Processes>,
    shared: Arc<Shared>,
    counts: Vec<Arc<Count>>,
    ranks: u32,
    threads: usize,
}

/// How a machine is cut.
enum Cut<'a> {
    /// Not at all.
    Whole,
    /// Into regions.
    Regions,
    /// Into regions, and this process has some of them.
    Spread(&'a parallel::Processes),
}

impl Replay {
    /// The parts' ranks, one part after the other, where their `processes` say.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// When a part has not one process per rank, and one scale and costs per rank or the same for all.
    pub fn new(hardware: Hardware<'_>, parts: Vec<PlacedTrace>, message: MessageConfig) -> Result<Replay, ConfigError> {
        let copies = parts.iter().any(|part| part.collectives.copies());
        Replay::assemble(hardware, parts, message, if copies { Cut::Whole } else { Cut::Regions })
    }

    /// The share that this one of several processes has in a replay. All of them do the same; only the first one gets
    /// all of the [`Outcome`], the others know [`Outcome::failure`] alone.
    ///
    /// # Errors
    /// See [`ConfigError`]; a machine must fall into as many regions.
    ///
    /// # Panics
    /// As [`Replay::new`], and when switches copy broadcasts.
    pub fn spread(
        hardware: Hardware<'_>,
        parts: Vec<PlacedTrace>,
        message: MessageConfig,
        processes: &parallel::Processes,
    ) -> Result<Replay, ConfigError> {
        assert!(!parts.iter().any(|part| part.collectives.copies()), "broadcasts that switches copy need a machine in one region");
        Replay::assemble(hardware, parts, message, Cut::Spread(processes))
    }

    /// The same in one part, with a timeline that is told of operations and messages.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// As [`Replay::new`].
    pub fn recorded(
        hardware: Hardware<'_>,
        parts: Vec<PlacedTrace>,
        message: MessageConfig,
        timeline: &Timeline,
    ) -> Result<Replay, ConfigError> {
        Ok(Replay::assemble(hardware, parts, message, Cut::Whole)?.told_to(timeline))
    }

    /// Tells a timeline of operations and messages.
    ///
    /// # Panics
    /// When there are several regions.
    #[must_use]
    pub fn told_to(mut self, timeline: &Timeline) -> Replay {
        self.world.record_into(timeline.clone());
        self.world.processes().state.timeline = Some(timeline.clone());
        self
    }

    /// The same, looked at over time, in steps of `period`; the outcome has it.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// As [`Replay::new`], and when the period is zero.
    pub fn watched(
        hardware: Hardware<'_>,
        parts: Vec<PlacedTrace>,
        message: MessageConfig,
        period: SimTime,
    ) -> Result<Replay, ConfigError> {
        let first = &hardware.networks[0];
        let topology = Arc::new(first.topology.clone());
        let lanes = u32::from(first.config.all_virtual_networks()) * u32::from(first.config.virtual_channels);
        let node = |process: &ProcessId| process.node().expect("a rank is on a node");
        let nodes: Vec<Vec<NodeId>> = parts.iter().map(|part| part.processes.iter().map(node).collect()).collect();
        let mut replay = Replay::assemble(hardware, parts, message, Cut::Whole)?;
        let watch = Watch::new(&mut replay.world, topology, lanes, &nodes, period);
        replay.world.processes().state.watch = Some(watch);
        Ok(replay)
    }

    fn assemble(hardware: Hardware<'_>, parts: Vec<PlacedTrace>, message: MessageConfig, cut: Cut<'_>) -> Result<Replay, ConfigError> {
        let (mut applications, mut places, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            let ranks = part.program.ranks();
            assert_eq!(part.processes.len(), ranks as usize, "{}: every rank has its place", part.name);
            assert!([1, ranks as usize].contains(&part.scale.len()), "{}: every rank has its speed", part.name);
            assert!([1, ranks as usize].contains(&part.costs.len()), "{}: every rank has its costs", part.name);
            let first_rank = all.len() as u32;
            let costs = part.costs.iter().cycle();
            let of_part = part.processes.iter().zip(costs).enumerate();
            all.extend(of_part.map(|(number, (&process, &costs))| (index, number as u32, process, costs)));
            places.extend(part.processes);
            applications.push(Application {
                name: part.name,
                ranks,
                first_rank,
                order: part.program.order(),
                communicators: part.program.communicators().clone(),
                scale: part.scale,
                completes: if part.collectives.sends_until_delivered() { Completes::Delivered } else { Completes::BufferFree },
                source: Mutex::new(Source {
                    program: part.program,
                    collectives: part.collectives,
                    meetings: Meetings::default(),
                    meetings_of_processes: MeetingsOfProcesses::default(),
                }),
            });
        }
        let rank_count = places.len() as u32;
        places.extend(message.rails.gateways());
        let shared = Arc::new(Shared { applications, message: Arc::new(message), failed: AtomicBool::new(false) });
        let mut counts = Vec::new();
        let of_region = |numbers: &[u32]| {
            let count = Arc::new(Count::default());
            counts.push(Arc::clone(&count));
            let mut tallies: Vec<Tally> = shared.applications.iter().map(|_| Tally::default()).collect();
            let (numbers, beside) = numbers.split_at(numbers.partition_point(|&number| number < rank_count));
            let gateway = |&number: &u32| Some((number, Gateway::new(shared.message.rails.bridging()?, (number - rank_count) as usize)));
            let gateways = beside.iter().filter_map(gateway).collect();
            let ranks = numbers.iter().map(|&rank| {
                let (part, number, process, costs) = all[rank as usize];
                tallies[part].unfinished += 1;
                Rank::new(part, number, process, costs)
            });
            Ranks {
                ranks: ranks.collect(),
                numbers: numbers.to_vec(),
                state: State {
                    shared: Arc::clone(&shared),
                    directory: None,
                    circles: None,
                    tallies,
                    count,
                    flights: WordMap::default(),
                    payloads: Payloads::default(),
                    copied: Messages::default(),
                    watch: None,
                    timeline: None,
                    epoch: SimTime::ZERO,
                    known: 0,
                    done: 0,
                    after: Vec::new(),
                    spare: Spare::default(),
                    actions: Vec::new(),
                },
                touched: Vec::new(),
                gateways,
                told: VecDeque::new(),
                cut: None,
                runs: false,
                error: None,
            }
        };
        let setup = Setup { hardware, places: &places };
        let (mut world, processes) = match cut {
            Cut::Whole => (World::whole(setup, of_region)?, None),
            Cut::Regions => (World::regions(setup, of_region)?, None),
            Cut::Spread(processes) => (World::spread(setup, processes, of_region)?, Some(processes.clone())),
        };
        let directory = Arc::clone(world.directory());
        let of_rank = |rank| world.process_of(rank);
        let circles =
            processes.as_ref().map(|processes| Arc::new(Circles::new(processes.process(), (0..rank_count).map(of_rank).collect())));
        for ranks in world.all() {
            ranks.state.directory = Some(Arc::clone(&directory));
            ranks.state.circles.clone_from(&circles);
        }
        Ok(Replay { world, processes, shared, counts, ranks: rank_count, threads: 1 })
    }

    /// With synthetic traffic beside it, as long as it runs.
    #[must_use]
    pub fn beside(mut self, background: Background) -> Replay {
        self.world.set_background(background);
        self
    }

    /// On up to so many threads. The outcome does not depend on their number.
    #[must_use]
    pub fn on_threads(mut self, threads: usize) -> Replay {
        self.threads = threads;
        self
    }

    /// Parts of the network that run by themselves: as many threads are of use.
    pub fn regions(&self) -> u32 {
        self.world.cut()
    }

    /// Runs to the end, or until `progress` says no.
    ///
    /// # Errors
    /// A trace cannot be read, or says something impossible. A deadlock is no error: see [`Outcome::failure`].
    pub fn run(mut self, progress: &mut (dyn FnMut(Progress) -> bool + Send)) -> Result<Outcome, ReplayError> {
        let epoch = self.set_up()?;
        let mut interrupted = None;
        let mut beyond = false;
        loop {
            let watch = self.world.all().next().and_then(|ranks| ranks.state.watch.as_ref());
            let period = watch.map(Watch::next);
            let (shared, counts, mut looks) = (&self.shared, &self.counts, 0);
            let every = if counts.len() > 1 { LOOK_EVERY } else { 1 };
            let mut go_on = |now: SimTime| {
                looks += 1;
                if looks % every == 0 {
                    let sum = |of: fn(&Count) -> &AtomicU64| counts.iter().map(|count| of(count).load(Ordering::Relaxed)).sum();
                    let now = now.saturating_sub(epoch);
                    if !progress(Progress { now, done: sum(|count| &count.done), known: sum(|count| &count.known) }) {
                        interrupted = Some(now);
                    }
                }
                interrupted.is_none() && !shared.failed.load(Ordering::Relaxed)
            };
            let mut until = period.unwrap_or(SimTime::END).min(SimTime::END);
            if self.world.has_background() {
                until = until.min(self.world.now() + LOOK_FOR_END);
            }
            let goes_on = self.world.run_while(until, self.threads, &mut go_on);
            if let Some(error) = self.world.process_error() {
                return Err(error.into());
            }
            if !goes_on {
                break;
            }
            match self.world.next_time_of_all()? {
                None => break,
                Some(next) if next > SimTime::END => {
                    beyond = true;
                    break;
                }
                Some(next) => {
                    if let Some(watch) = self.world.all().next().and_then(|ranks| ranks.state.watch.as_mut()) {
                        watch.reach(next);
                    }
                }
            }
        }
        let failure = self.failure(epoch, interrupted, beyond)?;
        for ranks in self.world.all() {
            for (rank, &number) in ranks.ranks.iter_mut().zip(&ranks.numbers) {
                rank.tell_open(number, &ranks.state);
            }
        }
        self.finish(epoch, failure)
    }

    /// Opens the NICs of all ranks, before simulated time starts, and has all of them begin at its start.
    fn set_up(&mut self) -> Result<SimTime, ProcessError> {
        let homes: Vec<Rail> = {
            let (rails, directory) = (&self.shared.message.rails, self.world.directory());
            (0..self.ranks).filter_map(|rank| Some(rails.first_of(directory.place(Process(rank))?))).collect()
        };
        let opened = self.world.prepare(self.threads, |ranks, rank, requests| {
            if let Some(gateway) = ranks.gateways.get_mut(&rank) {
                let on = |rail| homes.iter().filter(|&&home| home == rail).count() as u32;
                return gateway.start(on, &mut Passage { world: requests, process: rank, memory: 0 });
            }
            let place = ranks.place(rank);
            let (of, State { shared, payloads, .. }) = (&mut ranks.ranks[place], &mut ranks.state);
            let rails = shared.message.rails.of_process(of.process);
            let mut port = port(requests, (rank, &mut of.clock, &mut of.given), payloads, of.costs, rails.first());
            port.open(&rails);
            of.endpoint = Some(Endpoint::tagged(shared.message.clone(), EQ, of.process, &mut port));
        });
        let opened = match &self.processes {
            Some(processes) => processes.gather(&opened)?.into_iter().fold(opened, SimTime::max),
            None => opened,
        };
        let epoch = SimTime(opened.as_ps().max(1).div_ceil(EPOCH.as_ps()) * EPOCH.as_ps());
        self.world.start_recording(epoch);
        for ranks in self.world.all() {
            ranks.state.epoch = epoch;
            ranks.runs = true;
            ranks.gateways.values_mut().for_each(Gateway::renew);
            ranks.ranks.iter_mut().for_each(|rank| rank.clock = epoch);
            if let Some(watch) = &mut ranks.state.watch {
                watch.begin(epoch);
            }
        }
        let here: Vec<u32> = (0..self.ranks).filter(|&rank| self.world.has(rank)).collect();
        for &rank in &here {
            self.world.request(rank, |_, requests| requests.set_alarm(rank, epoch));
        }
        let shared = Arc::clone(&self.shared);
        for &(gateway, at) in shared.message.rails.bridging().into_iter().flat_map(|bridging| &bridging.deaths) {
            let known = shared.message.rails.bridging().map_or(at, |bridging| at + bridging.detection);
            let gateway = self.ranks + gateway as u32;
            if self.world.has(gateway) {
                self.world.request(gateway, |_, requests| requests.set_alarm(gateway, epoch + at));
            }
            for &rank in &here {
                self.world.request(rank, |_, requests| requests.set_alarm(rank, epoch + known));
            }
        }
        Ok(epoch)
    }
}
