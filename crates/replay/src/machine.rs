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

use crate::Times;
use crate::copied::{Inbox as CopiedInbox, Messages};
use crate::graph::{Collectives, GraphError};
use crate::port::{Costs, EQ, Library, Port};
use crate::report::{Application as Report, Outcome, Progress};
use crate::watch::Watch;
use narrows_collectives::{Action, Schedule};
use narrows_engine::{Digest, WordMap};
use narrows_fabric::{ConfigError, NetworkConfig};
use narrows_message::{Completes, Completion, CompletionKind, Endpoint, MessageConfig, Queue, Receive, Status, portal_table};
use narrows_nic::{AnyConfig, Directory, Process};
use narrows_portals::{Command, Event as NicEvent, Notice, ProcessId, ReplyCode};
use narrows_sim::{CopyNotice, Processes, Requests, Setup, World};
use narrows_topology::Topology;
use narrows_trace::{Communicators, Dependency, Event, Kind, Meetings, Operation, Order, Program};
use narrows_units::{Bytes, Excess, NodeId, SimTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations of a rank that wait at most, for programs in causal order. Our own choice: see docs/replay.md.
const CAUSAL_WINDOW: usize = 64;
/// Room of the receives of collectives: longer than any message. All members agree on the sizes.
const ROOM: u64 = Bytes::MESSAGE_MAX.0;
/// Tags of collectives have this bit; the communicator stands in the bits below.
const COLLECTIVE_TAG: u64 = 1 << 59;
/// Completions of the messages of a collective carry this bit in their context.
const COLLECTIVE_CONTEXT: u64 = 1 << 63;
/// Where simulated time starts; later by whole ones of these where opening the NICs takes longer. What is simulated
/// does not depend on it.
const EPOCH: SimTime = SimTime::from_us(1_000_000);
/// Windows of the regions between two looks at progress.
const LOOK_EVERY: u32 = 16;

/// A trace that takes part.
pub struct Part {
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
}

/// An operation that is not over, or is not first of those that are not.
struct Node {
    operation: Operation,
    waits: u32,
    /// The latest of what it waited for.
    after: SimTime,
    started: bool,
    done: bool,
    dependents: Vec<(u64, Event)>,
}

/// What a NIC tells a rank.
enum News {
    Event(NicEvent),
    /// To the unlinking with this ticket.
    Reply(u32, ReplyCode),
    /// Of a broadcast that switches copy.
    Copied(CopyNotice),
}

/// A collective under way.
struct Running {
    number: u64,
    schedule: Schedule,
    communicator: u32,
    position: u32,
    round: u32,
    /// Messages of the round that are not complete, and the receives among them.
    open: u32,
    open_receives: u32,
    /// Receives of the next round that are posted and not complete; [`NOT_POSTED`] if they were not posted ahead.
    ahead: u32,
}

const NOT_POSTED: u32 = u32::MAX;

struct Rank {
    part: usize,
    /// In its trace.
    number: u32,
    process: ProcessId,
    clock: SimTime,
    endpoint: Option<Endpoint>,
    library: Library,
    inbox: VecDeque<(SimTime, News)>,
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
#[derive(Default)]
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
    message: MessageConfig,
    costs: Costs,
    /// An error has been found.
    failed: AtomicBool,
}

/// A message has been started: its sender and number, and when.
#[derive(Clone, Copy)]
pub struct Started {
    from: u32,
    number: u32,
    start: SimTime,
}

/// What the ranks of a region share.
struct State {
    shared: Arc<Shared>,
    directory: Option<Arc<Directory>>,
    tallies: Vec<Tally>,
    count: Arc<Count>,
    /// Messages under way to ranks here: by sender and number.
    flights: WordMap<(u32, u32), SimTime>,
    copied: Messages,
    watch: Option<Watch>,
    /// The start of simulated time.
    epoch: SimTime,
    known: u64,
    done: u64,
    after: Vec<Dependency>,
    actions: Vec<Action>,
}

/// What a rank works with.
struct Desk<'a> {
    world: &'a mut dyn Requests<Started>,
    state: &'a mut State,
}

impl Desk<'_> {
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
    runs: bool,
    error: Option<(SimTime, u32, GraphError)>,
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

impl Processes for Ranks {
    type Letter = Started;

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.touch(rank, |of| of.notice(now, notice));
    }

    fn told(&mut self, told: CopyNotice) {
        self.touch(told.rank, |of| of.inbox.push_back((told.at, News::Copied(told))));
    }

    fn alarm(&mut self, _: SimTime, rank: u32) {
        self.touch(rank, |_| {});
    }

    fn letter(&mut self, _: u32, letter: Started) {
        self.state.flights.insert((letter.from, letter.number), letter.start);
    }

    fn proceed(&mut self, world: &mut dyn Requests<Started>) {
        if self.touched.is_empty() || self.error.is_some() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for rank in touched.drain(..) {
            let place = self.place(rank);
            let now = world.now();
            let mut desk = Desk { world: &mut *world, state: &mut self.state };
            if let Err(error) = self.ranks[place].advance(rank, &mut desk) {
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

/// The hardware that a replay runs on.
#[derive(Debug)]
pub struct Hardware<'a> {
    /// The network.
    pub network: &'a NetworkConfig,
    /// Its graph.
    pub topology: Topology,
    /// The NICs.
    pub nic: AnyConfig,
}

/// A replay on a machine, ready to run.
pub struct Replay {
    world: World<Ranks>,
    shared: Arc<Shared>,
    counts: Vec<Arc<Count>>,
    ranks: u32,
    threads: usize,
}

impl Replay {
    /// The parts' ranks, one part after the other, where their `processes` say.
    ///
    /// # Errors
    /// See [`ConfigError`].
    ///
    /// # Panics
    /// When a part has not one process, and one scale or the same for all, per rank.
    pub fn new(hardware: Hardware<'_>, parts: Vec<Part>, message: MessageConfig, costs: Costs) -> Result<Replay, ConfigError> {
        let whole = parts.iter().any(|part| part.collectives.copies());
        Replay::assemble(hardware, parts, message, costs, whole)
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
        parts: Vec<Part>,
        message: MessageConfig,
        costs: Costs,
        period: SimTime,
    ) -> Result<Replay, ConfigError> {
        let topology = Arc::new(hardware.topology.clone());
        let lanes = u32::from(hardware.network.virtual_networks) * u32::from(hardware.network.virtual_channels);
        let node = |process: &ProcessId| process.node().expect("a rank is on a node");
        let nodes: Vec<Vec<NodeId>> = parts.iter().map(|part| part.processes.iter().map(node).collect()).collect();
        let mut replay = Replay::assemble(hardware, parts, message, costs, true)?;
        let watch = Watch::new(&mut replay.world, topology, lanes, &nodes, period);
        replay.world.processes().state.watch = Some(watch);
        Ok(replay)
    }

    fn assemble(
        hardware: Hardware<'_>,
        parts: Vec<Part>,
        message: MessageConfig,
        costs: Costs,
        whole: bool,
    ) -> Result<Replay, ConfigError> {
        let (mut applications, mut places, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (index, part) in parts.into_iter().enumerate() {
            let ranks = part.program.ranks();
            assert_eq!(part.processes.len(), ranks as usize, "{}: every rank has its place", part.name);
            assert!([1, ranks as usize].contains(&part.scale.len()), "{}: every rank has its speed", part.name);
            let first_rank = all.len() as u32;
            all.extend(part.processes.iter().enumerate().map(|(number, &process)| (index, number as u32, process)));
            places.extend(part.processes);
            applications.push(Application {
                name: part.name,
                ranks,
                first_rank,
                order: part.program.order(),
                communicators: part.program.communicators().clone(),
                scale: part.scale,
                source: Mutex::new(Source { program: part.program, collectives: part.collectives, meetings: Meetings::default() }),
            });
        }
        let shared = Arc::new(Shared { applications, message, costs, failed: AtomicBool::new(false) });
        let mut counts = Vec::new();
        let of_region = |numbers: &[u32]| {
            let count = Arc::new(Count::default());
            counts.push(Arc::clone(&count));
            let mut tallies: Vec<Tally> = shared.applications.iter().map(|_| Tally::default()).collect();
            let ranks = numbers.iter().map(|&rank| {
                let (part, number, process) = all[rank as usize];
                tallies[part].unfinished += 1;
                Rank::new(part, number, process)
            });
            Ranks {
                ranks: ranks.collect(),
                numbers: numbers.to_vec(),
                state: State {
                    shared: Arc::clone(&shared),
                    directory: None,
                    tallies,
                    count,
                    flights: WordMap::default(),
                    copied: Messages::default(),
                    watch: None,
                    epoch: SimTime::ZERO,
                    known: 0,
                    done: 0,
                    after: Vec::new(),
                    actions: Vec::new(),
                },
                touched: Vec::new(),
                runs: false,
                error: None,
            }
        };
        let Hardware { network, topology, nic } = hardware;
        let setup = Setup { network, topology, nic, places: &places };
        let mut world = if whole { World::whole(setup, of_region)? } else { World::regions(setup, of_region)? };
        let directory = Arc::clone(world.directory());
        world.all().for_each(|ranks| ranks.state.directory = Some(Arc::clone(&directory)));
        Ok(Replay { world, shared, counts, ranks: places.len() as u32, threads: 1 })
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
    pub fn run(mut self, progress: &mut (dyn FnMut(Progress) -> bool + Send)) -> Result<Outcome, GraphError> {
        let epoch = self.set_up();
        let mut failure = None;
        let mut interrupted = None;
        loop {
            let period = self.world.processes().state.watch.as_ref().map(Watch::next);
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
            let goes_on = self.world.run_while(period.unwrap_or(SimTime::END).min(SimTime::END), self.threads, &mut go_on);
            if let Some(now) = interrupted {
                failure = Some(format!("interrupted at simulated time {now}"));
            }
            if !goes_on {
                break;
            }
            match self.world.next_time() {
                None => break,
                Some(next) if next > SimTime::END => {
                    failure = Some(format!("the next event lies beyond 200 days, where simulated time ends{}", self.waiting()));
                    break;
                }
                Some(next) => {
                    if let Some(watch) = &mut self.world.processes().state.watch {
                        watch.reach(next);
                    }
                }
            }
        }
        if let Some((_, rank, error)) = self.world.all().filter_map(|ranks| ranks.error.take()).min_by_key(|&(at, rank, _)| (at, rank)) {
            return Err(match self.shared.applications.as_slice() {
                [_] => error,
                applications => {
                    let of = applications.partition_point(|application| application.first_rank <= rank) - 1;
                    GraphError::Of { name: applications[of].name.clone(), error: Box::new(error) }
                }
            });
        }
        if let Some((rank, error)) = self.world.take_error() {
            failure = Some(format!("rank {rank}: the NIC refused a command: {error}"));
        }
        if let Some(undelivered) = self.world.undelivered() {
            failure = Some(undelivered.to_string());
        }
        if failure.is_none() && self.world.all().any(|ranks| ranks.state.tallies.iter().any(|tally| tally.unfinished > 0)) {
            failure = Some(self.stuck());
        }
        Ok(self.finish(epoch, failure))
    }

    /// Opens the NICs of all ranks, before simulated time starts, and has all of them begin at its start.
    fn set_up(&mut self) -> SimTime {
        let mut opened = SimTime::ZERO;
        for rank in 0..self.ranks {
            self.world.request(rank, |ranks, requests| {
                let place = ranks.place(rank);
                let (of, shared) = (&mut ranks.ranks[place], &ranks.state.shared);
                let mut port = Port { world: requests, rank, clock: &mut of.clock, library: &mut of.library, costs: &shared.costs };
                port.submit(Command::EqAlloc { eq: EQ, count: 1 << 20 });
                for (pt, options) in portal_table() {
                    port.submit(Command::PtAlloc { pt, options, eq: EQ });
                }
                of.endpoint = Some(Endpoint::tagged(shared.message.clone(), EQ, of.process, &mut port));
            });
            // One after the other: the commands of all together would take more memory than the ranks.
            opened = opened.max(self.world.drain(rank));
            self.world.trim(rank);
        }
        let epoch = SimTime(opened.as_ps().max(1).div_ceil(EPOCH.as_ps()) * EPOCH.as_ps());
        self.world.start_recording(epoch);
        for ranks in self.world.all() {
            ranks.state.epoch = epoch;
            ranks.runs = true;
            ranks.ranks.iter_mut().for_each(|rank| rank.clock = epoch);
            if let Some(watch) = &mut ranks.state.watch {
                watch.begin(epoch);
            }
        }
        for rank in 0..self.ranks {
            self.world.request(rank, |_, requests| requests.set_alarm(rank, epoch));
        }
        epoch
    }

    fn finish(mut self, epoch: SimTime, failure: Option<String>) -> Outcome {
        let since = |time: SimTime| time.saturating_sub(epoch);
        let mut rank_finish = vec![SimTime::ZERO; self.ranks as usize];
        let mut digests = vec![Digest::default(); self.ranks as usize];
        let report = |application: &Application| Report { name: application.name.clone(), ranks: application.ranks, ..Report::default() };
        let mut applications: Vec<Report> = self.shared.applications.iter().map(report).collect();
        for ranks in self.world.all() {
            for (rank, &number) in ranks.ranks.iter().zip(&ranks.numbers) {
                rank_finish[number as usize] = since(rank.finish.unwrap_or(rank.clock));
                digests[number as usize] = rank.digest;
            }
            for (application, tally) in applications.iter_mut().zip(&ranks.state.tallies) {
                application.unfinished += tally.unfinished;
                application.messages += tally.messages;
                application.bytes = application.bytes.saturating_add(tally.bytes);
                application.fct.merge(&tally.fct);
            }
        }
        let mut digest = Digest::default();
        for (report, application) in applications.iter_mut().zip(&self.shared.applications) {
            let ranks = application.first_rank as usize..(application.first_rank + application.ranks) as usize;
            report.finish = rank_finish[ranks.clone()].iter().copied().max().unwrap_or_default();
            let mut of_ranks = Digest::default();
            digests[ranks].iter().for_each(|digest| of_ranks.word(digest.value()));
            report.digest = of_ranks.value();
            digest.word(report.digest);
        }
        digest.word(self.world.digest());
        let totals = self.world.recorded();
        let finish = rank_finish.iter().copied().max().unwrap_or_default();
        Outcome {
            finish,
            seen: self.world.processes().state.watch.take().map(|watch| watch.finish(finish)),
            applications,
            rank_finish,
            events: totals.events,
            totals: Some(totals),
            digest: digest.value(),
            failure,
        }
    }

    /// Nothing can happen any more.
    fn stuck(&mut self) -> String {
        let count: usize = self.world.all().map(|ranks| ranks.ranks.iter().filter(|rank| rank.finish.is_none()).count()).sum();
        format!("deadlock: nothing can happen any more, {count} ranks have not ended{}", self.waiting())
    }

    /// What ranks wait for, a line each.
    fn waiting(&mut self) -> String {
        const SHOWN: usize = 10;
        let mut lines = Vec::new();
        for ranks in self.world.all() {
            for (rank, &number) in ranks.ranks.iter().zip(&ranks.numbers).filter(|(rank, _)| rank.finish.is_none()) {
                let open = rank.window.iter().enumerate().find(|(_, node)| node.started && !node.done);
                let what = match open {
                    Some((index, node)) => format!("operation {} does not end: {}", rank.first + index as u64, node.operation.kind),
                    None => String::from("its operations wait for others that do not start"),
                };
                let name = &ranks.state.shared.applications[rank.part].name;
                lines.push((number, format!("\n  {name} rank {}: {what}", rank.number)));
            }
        }
        lines.sort_unstable();
        let mut text: String = lines.iter().take(SHOWN).map(|(_, line)| line.as_str()).collect();
        if lines.len() > SHOWN {
            text += &format!("\n  ... and {} more", lines.len() - SHOWN);
        }
        text
    }
}

impl Rank {
    fn new(part: usize, number: u32, process: ProcessId) -> Rank {
        Rank {
            part,
            number,
            process,
            clock: SimTime::ZERO,
            endpoint: None,
            library: Library::default(),
            inbox: VecDeque::new(),
            copied: CopiedInbox::default(),
            window: VecDeque::new(),
            first: 0,
            exhausted: false,
            unstarted: 0,
            ready: VecDeque::new(),
            delayed: Vec::new(),
            units: Vec::new(),
            computing: BinaryHeap::new(),
            running: Vec::new(),
            sent: 0,
            digest: Digest::default(),
            finish: None,
        }
    }

    fn notice(&mut self, time: SimTime, notice: Notice) {
        match notice {
            Notice::Event { event, .. } => self.inbox.push_back((time, News::Event(event))),
            Notice::Reply { ticket, code, .. } => self.inbox.push_back((time, News::Reply(ticket, code))),
            Notice::Count { .. } => {}
        }
    }

    fn port<'a>(clock: &'a mut SimTime, library: &'a mut Library, rank: u32, desk: &'a mut Desk<'_>) -> Port<'a> {
        Port { world: &mut *desk.world, rank, clock, library, costs: &desk.state.shared.costs }
    }

    /// Does what can be done now. `index` is the rank among all.
    fn advance(&mut self, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let now = desk.world.now();
        if !self.delayed.is_empty() {
            // The order in which they became ready.
            self.delayed.sort_unstable();
            let due = self.delayed.partition_point(|(time, _)| *time <= now);
            self.ready.extend(self.delayed.drain(..due).map(|(_, number)| number));
        }
        loop {
            self.refill(desk)?;
            if let Some(number) = self.ready.pop_front() {
                self.start(index, number, desk)?;
            } else if let Some(&Reverse((time, number, event))) = self.computing.peek()
                && time <= now
            {
                self.computing.pop();
                self.clock = self.clock.max(time);
                match event {
                    Event::Started => self.started(number, index, desk)?,
                    Event::Done => self.done(number, index, desk)?,
                }
            } else if let Some((time, news)) = self.inbox.pop_front() {
                self.clock = self.clock.max(time);
                let event = match news {
                    News::Event(event) => event,
                    News::Reply(ticket, code) => {
                        if let (Some(endpoint), Some(entry)) = (&mut self.endpoint, self.library.unlinked(ticket)) {
                            endpoint.unlinked(&mut Self::port(&mut self.clock, &mut self.library, index, desk), entry, code);
                        }
                        continue;
                    }
                    News::Copied(told) => {
                        self.told(index, told, desk)?;
                        continue;
                    }
                };
                if let Some(endpoint) = &mut self.endpoint {
                    let port = &mut Self::port(&mut self.clock, &mut self.library, index, desk);
                    endpoint.event(port, event).expect("replayed ranks only send what their message layers do");
                }
                self.complete(index, desk)?;
            } else {
                break;
            }
        }
        if self.finish.is_none() && self.exhausted && self.window.is_empty() {
            self.finish = Some(self.clock);
            desk.state.tallies[self.part].unfinished -= 1;
        }
        Ok(())
    }

    /// Takes operations from the program, as many as it has to look ahead.
    fn refill(&mut self, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let State { shared, after: dependencies, known, epoch, .. } = &mut *desk.state;
        let application = &shared.applications[self.part];
        let limit = match application.order {
            Order::Sequential => 1,
            Order::Causal => CAUSAL_WINDOW,
            Order::Graph => usize::MAX,
        };
        while !self.exhausted && self.unstarted < limit {
            let Some(operation) = application.source().program.next(self.number, dependencies)? else {
                self.exhausted = true;
                break;
            };
            let number = self.first + self.window.len() as u64;
            // Without dependencies: from the start. What is over has been seen by now.
            let after = if dependencies.is_empty() { *epoch } else { self.clock };
            let mut node = Node { operation, waits: 0, after, started: false, done: false, dependents: Vec::new() };
            for dependency in &*dependencies {
                // Operations before the window are over.
                let Some(place) = dependency.operation.checked_sub(self.first) else { continue };
                let Some(other) = self.window.get_mut(place as usize) else { continue };
                if !(if dependency.event == Event::Done { other.done } else { other.started }) {
                    other.dependents.push((number, dependency.event));
                    node.waits += 1;
                }
            }
            let free = node.waits == 0;
            self.window.push_back(node);
            self.unstarted += 1;
            *known += 1;
            if free {
                self.enqueue(number, application.scale(self.number), &mut *desk.world, application.first_rank + self.number)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, number: u64) -> &mut Node {
        &mut self.window[(number - self.first) as usize]
    }

    /// Nothing holds it back but its delay.
    fn enqueue(&mut self, number: u64, scale: f64, world: &mut dyn Requests<Started>, index: u32) -> Result<(), GraphError> {
        let beyond = self.beyond(number);
        let node = self.node(number);
        let delay = node.operation.delay.scaled(scale).map_err(&beyond)?;
        let at = node.after.checked_add(delay).map_err(&beyond)?;
        if delay > SimTime::ZERO && at > world.now() {
            node.after = at;
            self.delayed.push((at, number));
            world.set_alarm(index, at);
        } else {
            self.ready.push_back(number);
        }
        Ok(())
    }

    /// The error of an operation whose times or sizes are too large.
    fn beyond(&self, operation: u64) -> impl Fn(Excess) -> GraphError + use<> {
        let rank = self.number;
        move |excess| GraphError::Excess { rank, operation, excess }
    }

    /// What waited for `event` of `number` does not any more.
    fn passed(&mut self, number: u64, event: Event, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let clock = self.clock;
        let mut dependents = std::mem::take(&mut self.node(number).dependents);
        for &(dependent, _) in dependents.iter().filter(|(_, wanted)| *wanted == event) {
            let node = self.node(dependent);
            node.waits -= 1;
            node.after = node.after.max(clock);
            if node.waits == 0 {
                let scale = desk.state.shared.applications[self.part].scale(self.number);
                self.enqueue(dependent, scale, &mut *desk.world, index)?;
            }
        }
        dependents.retain(|(_, wanted)| *wanted != event);
        self.node(number).dependents = dependents;
        Ok(())
    }

    fn started(&mut self, number: u64, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        self.node(number).started = true;
        self.unstarted -= 1;
        self.passed(number, Event::Started, index, desk)
    }

    fn done(&mut self, number: u64, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        self.node(number).done = true;
        desk.state.done += 1;
        self.passed(number, Event::Done, index, desk)?;
        while self.window.front().is_some_and(|node| node.done) {
            self.window.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    fn start(&mut self, index: u32, number: u64, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let node = self.node(number);
        let (kind, cpu, after) = (node.operation.kind, node.operation.cpu, node.after);
        self.clock = self.clock.max(after);
        let &Application { first_rank: base, ranks, .. } = &desk.state.shared.applications[self.part];
        let number_in_trace = self.number;
        let check = |peer: u32| {
            if peer < ranks { Ok(base + peer) } else { Err(GraphError::Peer { rank: number_in_trace, operation: number, peer, ranks }) }
        };
        match kind {
            Kind::Compute { duration } if cpu > 0 => {
                let scale = desk.state.shared.applications[self.part].scale(self.number);
                let beyond = self.beyond(number);
                let unit = usize::from(cpu) - 1;
                if self.units.len() <= unit {
                    self.units.resize(unit + 1, SimTime::ZERO);
                }
                let begin = self.units[unit].max(self.clock);
                let end = duration.scaled(scale).and_then(|duration| begin.checked_add(duration)).map_err(&beyond)?;
                self.units[unit] = end;
                self.computing.extend([Reverse((begin, number, Event::Started)), Reverse((end, number, Event::Done))]);
                // Where the clock is ahead of the simulation both may be over for it, but not for others.
                for at in [begin, end] {
                    if at > desk.world.now() {
                        desk.world.set_alarm(index, at);
                    }
                }
            }
            Kind::Compute { duration } => {
                self.started(number, index, desk)?;
                let duration = duration.scaled(desk.state.shared.applications[self.part].scale(self.number));
                self.clock = duration.and_then(|duration| self.clock.checked_add(duration)).map_err(self.beyond(number))?;
                self.done(number, index, desk)?;
            }
            Kind::Send { to, bytes, tag } => {
                let injected = self.send(index, check(to)?, u64::from(tag), bytes, number, desk);
                self.started(number, index, desk)?;
                if injected {
                    self.done(number, index, desk)?;
                }
            }
            Kind::Receive { from, bytes, tag } => {
                let from = from.map(check).transpose()?;
                let (tag, ignore) = tag.map_or((0, u64::from(u32::MAX)), |tag| (u64::from(tag), 0));
                self.receive(index, from, tag, ignore, (bytes, number), desk);
                self.started(number, index, desk)?;
            }
            Kind::Collective(call) => {
                let application = &desk.state.shared.applications[self.part];
                let communicators = &application.communicators;
                let no_member = || GraphError::Member { rank: number_in_trace, operation: number, communicator: call.communicator };
                let position = communicators.position(call.communicator, self.number).ok_or_else(no_member)?;
                let size = communicators.size(call.communicator).unwrap_or(0);
                let mut source = application.source();
                source.meetings.join(narrows_trace::Part { rank: number_in_trace, operation: number, call }, size)?;
                let schedule = source.collectives.schedule(&call, communicators);
                drop(source);
                let schedule = schedule.map_err(|error| GraphError::Schedule { rank: self.number, operation: number, error })?;
                self.running.push(Running {
                    number,
                    schedule,
                    communicator: call.communicator,
                    position,
                    round: 0,
                    open: 0,
                    open_receives: 0,
                    ahead: NOT_POSTED,
                });
                self.started(number, index, desk)?;
                self.rounds(index, self.running.len() - 1, desk)?;
            }
        }
        self.complete(index, desk)
    }

    /// Starts rounds of a collective until one has messages, or it is over.
    fn rounds(&mut self, index: u32, place: usize, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let mut actions = std::mem::take(&mut desk.state.actions);
        loop {
            let running = &mut self.running[place];
            if running.round == running.schedule.rounds(running.position) {
                let number = self.running.swap_remove(place).number;
                self.done(number, index, desk)?;
                break;
            }
            running.schedule.round(running.position, running.round, &mut actions);
            running.round += 1;
            let (communicator, context) = (running.communicator, COLLECTIVE_CONTEXT | running.number);
            let tag = COLLECTIVE_TAG | u64::from(communicator);
            let is_copied = !running.schedule.copied().is_empty();
            let posted = std::mem::replace(&mut running.ahead, NOT_POSTED);
            let mut open = 0;
            if is_copied {
                open += self.copied_round(index, place, &mut actions, desk)?;
            }
            // Receives first, as MPI libraries do: a message that finds its receive is not copied.
            let receives = if posted == NOT_POSTED { self.post_receives(index, communicator, context, &actions, desk)? } else { posted };
            for action in &actions {
                if let Action::Send { to, piece } = *action {
                    let to = self.member(communicator, to, context, desk)?;
                    let bytes = self.running[place].schedule.bytes(piece);
                    open += u32::from(!self.send(index, to, tag, bytes, context, desk));
                }
            }
            let running = &mut self.running[place];
            (running.open, running.open_receives) = (open + receives, receives);
            if running.schedule.posts_ahead(running.round) {
                running.schedule.round(running.position, running.round, &mut actions);
                let ahead = self.post_receives(index, communicator, context, &actions, desk)?;
                self.running[place].ahead = ahead;
            }
            if self.running[place].open > 0 {
                break;
            }
        }
        desk.state.actions = actions;
        Ok(())
    }

    /// Posts the receives of a round; how many.
    fn post_receives(
        &mut self,
        index: u32,
        communicator: u32,
        context: u64,
        actions: &[Action],
        desk: &mut Desk<'_>,
    ) -> Result<u32, GraphError> {
        let mut count = 0;
        for action in actions {
            if let Action::Receive { from, .. } = *action {
                let from = self.member(communicator, from, context, desk)?;
                self.receive(index, Some(from), COLLECTIVE_TAG | u64::from(communicator), 0, (ROOM, context), desk);
                count += 1;
            }
        }
        Ok(count)
    }

    /// The rank, among all, at a position of a communicator; `context` is the collective's.
    fn member(&self, communicator: u32, position: u32, context: u64, desk: &Desk<'_>) -> Result<u32, GraphError> {
        let application = &desk.state.shared.applications[self.part];
        let member = application.communicators.member(communicator, position);
        let operation = context & !COLLECTIVE_CONTEXT;
        let rank = member.ok_or(GraphError::Position { rank: self.number, operation, communicator, position })?;
        Ok(application.first_rank + rank)
    }

    /// Takes the messages that switches copy out of a round and sees to them; how many of them are open.
    fn copied_round(&mut self, index: u32, place: usize, actions: &mut Vec<Action>, desk: &mut Desk<'_>) -> Result<u32, GraphError> {
        let Running { number, ref schedule, communicator, position, .. } = self.running[place];
        let (root, context) = (schedule.root(), COLLECTIVE_CONTEXT | number);
        let root_rank = self.member(communicator, root, context, desk)?;
        let mut open = 0;
        if position == root {
            let copied = |action: &Action| matches!(*action, Action::Send { to, .. } if schedule.copied().binary_search(&to).is_ok());
            let Some(&Action::Send { piece, .. }) = actions.iter().find(|action| copied(action)) else { return Ok(0) };
            actions.retain(|action| !copied(action));
            let bytes = schedule.bytes(piece);
            let way = match desk.state.copied.ways.get(&(self.part, communicator, root)) {
                Some(way) => way.clone(),
                None => {
                    let targets = schedule.copied().iter().map(|&member| self.member(communicator, member, context, desk));
                    let targets: Vec<u32> = targets.collect::<Result<_, _>>()?;
                    let way = desk.world.tree(index, &targets);
                    let way = way.map_err(|error| GraphError::Multicast { rank: self.number, operation: number, error })?;
                    desk.state.copied.ways.insert((self.part, communicator, root), way.clone());
                    way
                }
            };
            let key = self.copied.next(communicator, root_rank);
            let token = desk.state.copied.start(key, bytes, self.clock, context, way.1.len() as u32);
            self.clock += desk.state.shared.costs.post;
            desk.world.multicast(index, self.clock, &way, bytes, token);
            // A short message is copied as it is posted, and then over.
            if bytes <= desk.state.shared.message.inject_limit && bytes > desk.state.shared.costs.pio_limit {
                self.clock += desk.state.shared.costs.copy.time_for(Bytes(bytes));
            }
            open += u32::from(bytes > desk.state.shared.message.inject_limit);
        } else if schedule.copied().binary_search(&position).is_ok() {
            let before = actions.len();
            actions.retain(|action| !matches!(action, Action::Receive { .. }));
            for _ in actions.len()..before {
                let key = self.copied.next(communicator, root_rank);
                match self.copied.ask(key, context, self.clock) {
                    Some(token) => self.received_copy((token, number), true, desk)?,
                    None => open += 1,
                }
            }
        }
        Ok(open)
    }

    /// News of a broadcast that switches copy.
    fn told(&mut self, index: u32, told: CopyNotice, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let message = desk.state.copied.get(told.token);
        let context = if told.sent {
            desk.state.copied.settle(told.token);
            if message.bytes <= desk.state.shared.message.inject_limit {
                return Ok(());
            }
            self.clock += desk.state.shared.costs.completion;
            message.context
        } else {
            let Some((context, early)) = self.copied.arrive(message.key, told.token, told.at) else { return Ok(()) };
            self.received_copy((told.token, context & !COLLECTIVE_CONTEXT), early, desk)?;
            context
        };
        self.part_done(context & !COLLECTIVE_CONTEXT, false, index, desk)
    }

    /// A rank takes a message; one that came before it was asked for is copied.
    fn received_copy(&mut self, (token, number): (u32, u64), early: bool, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let message = desk.state.copied.get(token);
        self.clock += desk.state.shared.costs.completion;
        if early {
            self.clock += desk.state.shared.costs.copy.time_for(Bytes(message.bytes));
        }
        desk.state.copied.settle(token);
        self.count(message.bytes, (message.key.1, message.start), number, desk)
    }

    /// A message that `from` started at `start` has been received, by an operation.
    fn count(&mut self, bytes: u64, (from, start): (u32, SimTime), number: u64, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        let tally = &mut desk.state.tallies[self.part];
        tally.messages += 1;
        tally.bytes = tally.bytes.checked_add(bytes).ok_or_else(|| self.beyond(number)(Excess::Bytes))?;
        let fct = self.clock.saturating_sub(start);
        tally.fct.add(fct);
        let since = SimTime(self.clock.as_ps() - desk.state.epoch.as_ps());
        if let Some(watch) = &mut desk.state.watch {
            watch.received(self.part, bytes, since, fct);
        }
        self.digest.event(since, u64::from(from));
        Ok(())
    }

    /// A message of a collective is complete: of the current round, or a receive of the next one when all of this one
    /// are.
    fn part_done(&mut self, number: u64, receive: bool, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        if let Some(place) = self.running.iter().position(|running| running.number == number) {
            let running = &mut self.running[place];
            if receive && running.ahead != NOT_POSTED && running.open_receives == 0 {
                running.ahead -= 1;
                return Ok(());
            }
            running.open_receives -= u32::from(receive && running.open_receives > 0);
            running.open -= 1;
            if self.running[place].open == 0 {
                return self.rounds(index, place, desk);
            }
        }
        Ok(())
    }

    /// True when the send is over: short messages are copied as they are posted.
    fn send(&mut self, index: u32, to: u32, tag: u64, length: u64, context: u64, desk: &mut Desk<'_>) -> bool {
        let inject = length <= desk.state.shared.message.inject_limit;
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        desk.world.post(to, Started { from: index, number, start: self.clock });
        let send = narrows_message::Send {
            queue: Queue::Tagged,
            target: desk.process(to),
            tag,
            data: Some(number),
            buffer: 0,
            length,
            context,
            inject,
            completes: if inject { Completes::Never } else { Completes::BufferFree },
        };
        let mut port = Self::port(&mut self.clock, &mut self.library, index, desk);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.send(&mut port, send).expect("a rank with a million open requests is far beyond what MPI programs have");
        }
        inject
    }

    fn receive(&mut self, index: u32, from: Option<u32>, tag: u64, ignore: u64, (length, context): (u64, u64), desk: &mut Desk<'_>) {
        let receive = Receive {
            queue: Queue::Tagged,
            source: from.map(|from| desk.process(from)),
            tag,
            ignore,
            buffer: 0,
            length,
            context,
            completion: true,
            multi: None,
        };
        let mut port = Self::port(&mut self.clock, &mut self.library, index, desk);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.receive(&mut port, receive).expect("a rank with a million open requests is far beyond what MPI programs have");
        }
    }

    /// The error of an operation whose message did not end well.
    fn refused(&mut self, completion: &Completion) -> GraphError {
        let (rank, operation) = (self.number, completion.context & !COLLECTIVE_CONTEXT);
        let kind = self.node(operation).operation.kind;
        match completion.status {
            Status::Failed(fail) => GraphError::Transport { rank, operation, fail },
            // Nothing here peeks or cancels.
            _ => GraphError::Truncated { rank, operation, bytes: completion.full_length, receive: kind },
        }
    }

    /// Hands completions to the program.
    fn complete(&mut self, index: u32, desk: &mut Desk<'_>) -> Result<(), GraphError> {
        while let Some(completion) = self.endpoint.as_mut().and_then(Endpoint::next_completion) {
            self.clock += desk.state.shared.costs.completion;
            if completion.status != Status::Ok {
                return Err(self.refused(&completion));
            }
            if completion.kind == CompletionKind::Receive
                && let Some(number) = completion.data
            {
                let from = desk.sender(completion.source);
                let start = desk.state.flights.remove(&(from, number)).expect("a message that is here has been started");
                self.count(completion.full_length, (from, start), completion.context & !COLLECTIVE_CONTEXT, desk)?;
            }
            if completion.context & COLLECTIVE_CONTEXT == 0 {
                self.done(completion.context, index, desk)?;
            } else {
                let receive = completion.kind == CompletionKind::Receive;
                self.part_done(completion.context & !COLLECTIVE_CONTEXT, receive, index, desk)?;
            }
        }
        Ok(())
    }
}
