//! Replay on a simulated machine: every message goes through the message layer, the NICs and the network, as in a live run.
//!
//! A rank is a core with a clock. It starts operations that are ready in the order in which they became so, each when the core is free;
//! when there is none, it looks at the events of its NIC. So a message makes no progress while its rank computes, as with an MPI library
//! without a progress thread. A rank's clock may be ahead of the simulation (it computes, posts, ...): what it then does is stamped with
//! its clock and reaches the NIC at that time.

use crate::copied::{Inbox as CopiedInbox, Messages};
use crate::graph::{Collectives, GraphError};
use crate::port::{Costs, EQ, Library, Mailbox, Port};
use crate::report::{Application, Outcome, Progress};
use crate::watch::Watch;
use narrows_collectives::{Action, Schedule};
use narrows_engine::Digest;
use narrows_message::{Completes, Completion, CompletionKind, Endpoint, MessageConfig, Queue, Receive, Send, Status, portal_table};
use narrows_portals::{Command, Event as NicEvent, Notice, ProcessId};
use narrows_sim::{Told, World};
use narrows_trace::{Communicators, Dependency, Event, Kind, Meetings, Operation, Order, Program};
use narrows_units::{Bytes, Excess, SimTime};
use std::collections::VecDeque;

/// Operations of a rank that wait at most, for programs in causal order. Our own choice: see docs/replay.md.
const CAUSAL_WINDOW: usize = 64;
/// Room of the receives of collectives: longer than any message. All members agree on the sizes.
const ROOM: u64 = Bytes::MESSAGE_MAX.0;
/// Tags of collectives have this bit; the communicator stands in the bits below.
const COLLECTIVE_TAG: u64 = 1 << 59;
/// Completions of the messages of a collective carry this bit in their context.
const COLLECTIVE_CONTEXT: u64 = 1 << 63;
/// Events of the engine between two looks at progress.
const LOOK_EVERY: u64 = 1 << 16;

/// A trace that takes part.
pub struct Part {
    /// For reports.
    pub name: String,
    /// What its ranks do.
    pub program: Box<dyn Program>,
    /// How collectives are done.
    pub collectives: Box<dyn Collectives>,
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
    /// Of a broadcast that switches copy.
    Copied(Told),
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
    running: Vec<Running>,
    finish: Option<SimTime>,
}

struct PartState {
    part: Part,
    communicators: Communicators,
    meetings: Meetings,
    first_rank: u32,
    unfinished: u32,
    report: Application,
    digest: Digest,
}

/// A message under way, for its completion time.
#[derive(Clone, Copy, Default)]
struct Flight {
    start: SimTime,
    from: u32,
}

/// Messages under way, by the number that travels with them.
#[derive(Default)]
struct Flights {
    all: Vec<Flight>,
    free: Vec<u32>,
}

impl Flights {
    fn start(&mut self, flight: Flight) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.all[slot as usize] = flight;
                slot
            }
            None => {
                self.all.push(flight);
                self.all.len() as u32 - 1
            }
        }
    }

    fn end(&mut self, slot: u32) -> Flight {
        self.free.push(slot);
        self.all[slot as usize]
    }
}

/// What all ranks share.
struct Shared {
    world: World<Mailbox>,
    parts: Vec<PartState>,
    message: MessageConfig,
    costs: Costs,
    flights: Flights,
    copied: Messages,
    watch: Option<Watch>,
    /// The start of simulated time.
    epoch: SimTime,
    started: u64,
    done: u64,
    after: Vec<Dependency>,
    actions: Vec<Action>,
}

/// A replay on a machine, ready to run.
pub struct Replay {
    shared: Shared,
    ranks: Vec<Rank>,
}

impl Replay {
    /// `world` has a process for every rank of the parts, one part after the other, as their `processes` say.
    ///
    /// # Panics
    /// When a part has not one process, and one scale or the same for all, per rank.
    pub fn new(world: World<Mailbox>, parts: Vec<Part>, message: MessageConfig, costs: Costs) -> Replay {
        let mut ranks = Vec::new();
        let mut states = Vec::new();
        for (index, part) in parts.into_iter().enumerate() {
            let count = part.program.ranks() as usize;
            assert_eq!(part.processes.len(), count, "{}: every rank has its place", part.name);
            assert!([1, count].contains(&part.scale.len()), "{}: every rank has its speed", part.name);
            let report = Application { name: part.name.clone(), ranks: part.program.ranks(), ..Application::default() };
            let first_rank = ranks.len() as u32;
            ranks.extend(part.processes.iter().enumerate().map(|(number, &process)| Rank::new(index, number as u32, process)));
            states.push(PartState {
                communicators: part.program.communicators().clone(),
                meetings: Meetings::default(),
                first_rank,
                unfinished: part.program.ranks(),
                report,
                digest: Digest::default(),
                part,
            });
        }
        let shared = Shared {
            world,
            parts: states,
            message,
            costs,
            flights: Flights::default(),
            copied: Messages::default(),
            watch: None,
            epoch: SimTime::ZERO,
            started: 0,
            done: 0,
            after: Vec::new(),
            actions: Vec::new(),
        };
        Replay { shared, ranks }
    }

    /// Looks at the replay over time; the outcome has it.
    #[must_use]
    pub fn watched(mut self, watch: Watch) -> Replay {
        self.shared.watch = Some(watch);
        self
    }

    /// Runs to the end, or until `progress` says no.
    ///
    /// # Errors
    /// A trace cannot be read, or says something impossible. A deadlock is no error: see [`Outcome::failure`].
    pub fn run(mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, GraphError> {
        self.set_up();
        for rank in 0..self.ranks.len() {
            self.ranks[rank].clock = self.shared.epoch;
            self.advance(rank as u32)?;
        }
        let mut unfinished: u32 = self.shared.parts.iter().map(|part| part.unfinished).sum();
        let mut steps = 0;
        let (mut notices, mut alarms, mut told, mut touched) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut failure = None;
        while unfinished > 0 {
            let Some(next) = self.shared.world.next_time() else {
                failure = Some(self.stuck());
                break;
            };
            if next > SimTime::END {
                failure = Some(format!("the next event lies beyond 200 days, where simulated time ends{}", self.waiting()));
                break;
            }
            if let Some(watch) = &mut self.shared.watch {
                watch.reach(next);
            }
            self.shared.world.step();
            steps += 1;
            if steps % LOOK_EVERY == 0 {
                let now = SimTime(self.shared.world.now().as_ps() - self.shared.epoch.as_ps());
                if !progress(Progress { now, done: self.shared.done, known: self.shared.started }) {
                    failure = Some(format!("interrupted at simulated time {now}"));
                    break;
                }
            }
            std::mem::swap(&mut notices, &mut self.shared.world.memory.notices);
            std::mem::swap(&mut alarms, &mut self.shared.world.memory.alarms);
            for (time, rank, notice) in notices.drain(..) {
                self.ranks[rank as usize].notice(time, notice);
                touched.push(rank);
            }
            self.shared.world.take_told(&mut told);
            for told in told.drain(..) {
                self.ranks[told.rank as usize].inbox.push_back((told.at, News::Copied(told)));
                touched.push(told.rank);
            }
            touched.append(&mut alarms);
            for rank in touched.drain(..) {
                self.advance(rank)?;
            }
            if let Some((rank, error)) = self.shared.world.error.take() {
                failure = Some(format!("rank {rank}: the NIC refused a command: {error}"));
                break;
            }
            unfinished = self.shared.parts.iter().map(|part| part.unfinished).sum();
        }
        Ok(self.finish(failure))
    }

    /// Lets a rank do what it can do now.
    fn advance(&mut self, rank: u32) -> Result<(), GraphError> {
        let of = &mut self.ranks[rank as usize];
        of.advance(rank, &mut self.shared).map_err(|error| match self.shared.parts.as_slice() {
            [_] => error,
            parts => GraphError::Of { name: parts[of.part].report.name.clone(), error: Box::new(error) },
        })
    }

    /// Opens the NICs of all ranks, before simulated time starts.
    fn set_up(&mut self) {
        let shared = &mut self.shared;
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let mut port = Port {
                world: &mut shared.world,
                rank: index as u32,
                clock: &mut rank.clock,
                library: &mut rank.library,
                costs: &shared.costs,
            };
            port.submit(Command::EqAlloc { eq: EQ, count: 1 << 20 });
            for (pt, options) in portal_table() {
                port.submit(Command::PtAlloc { pt, options, eq: EQ });
            }
            rank.endpoint = Some(Endpoint::tagged(shared.message.clone(), EQ, rank.process, &mut port));
            // One after the other: the commands of all together would take more memory than the ranks.
            shared.world.drain();
            shared.world.trim(index as u32);
            shared.world.memory.notices.clear();
        }
        shared.epoch = shared.world.now();
        if let Some(watch) = &mut shared.watch {
            watch.begin(shared.epoch);
        }
        shared.world.start_recording();
    }

    fn finish(self, failure: Option<String>) -> Outcome {
        let Replay { shared, ranks } = self;
        let epoch = shared.epoch;
        let since = |time: SimTime| time.saturating_sub(epoch);
        let rank_finish: Vec<SimTime> = ranks.iter().map(|rank| since(rank.finish.unwrap_or(rank.clock))).collect();
        let mut digest = Digest::default();
        let applications = shared.parts.into_iter().map(|mut state| {
            let first = state.first_rank as usize;
            let ends = &rank_finish[first..first + state.report.ranks as usize];
            state.report.finish = ends.iter().copied().max().unwrap_or_default();
            state.report.unfinished = state.unfinished;
            state.report.digest = state.digest.value();
            digest.word(state.report.digest);
            state.report
        });
        let applications: Vec<Application> = applications.collect();
        digest.word(shared.world.digest());
        let totals = shared.world.recorded();
        let finish = rank_finish.iter().copied().max().unwrap_or_default();
        Outcome {
            finish,
            seen: shared.watch.map(|watch| watch.finish(finish)),
            applications,
            rank_finish,
            events: totals.events,
            totals: Some(totals),
            digest: digest.value(),
            failure,
        }
    }

    /// Nothing can happen any more.
    fn stuck(&self) -> String {
        let count = self.ranks.iter().filter(|rank| rank.finish.is_none()).count();
        format!("deadlock: nothing can happen any more, {count} ranks have not ended{}", self.waiting())
    }

    /// What ranks wait for, a line each.
    fn waiting(&self) -> String {
        const SHOWN: usize = 10;
        let waiting: Vec<&Rank> = self.ranks.iter().filter(|rank| rank.finish.is_none()).collect();
        let mut text = String::new();
        for rank in waiting.iter().take(SHOWN) {
            let part = &self.shared.parts[rank.part];
            let open = rank.window.iter().enumerate().find(|(_, node)| node.started && !node.done);
            let what = match open {
                Some((index, node)) => format!("operation {} does not end: {}", rank.first + index as u64, node.operation.kind),
                None => String::from("its operations wait for others that do not start"),
            };
            text += &format!("\n  {} rank {}: {what}", part.report.name, rank.number);
        }
        if waiting.len() > SHOWN {
            text += &format!("\n  ... and {} more", waiting.len() - SHOWN);
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
            running: Vec::new(),
            finish: None,
        }
    }

    fn notice(&mut self, time: SimTime, notice: Notice) {
        match notice {
            Notice::Event { event, .. } => self.inbox.push_back((time, News::Event(event))),
            Notice::Reply { ticket, code, .. } => self.library.reply(ticket, code),
            Notice::Count { .. } => {}
        }
    }

    fn port<'a>(clock: &'a mut SimTime, library: &'a mut Library, index: u32, world: &'a mut World<Mailbox>, costs: &'a Costs) -> Port<'a> {
        Port { world, rank: index, clock, library, costs }
    }

    /// Does what can be done now. `index` is the rank among all.
    fn advance(&mut self, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        let now = shared.world.now();
        if !self.delayed.is_empty() {
            // The order in which they became ready.
            self.delayed.sort_unstable();
            let due = self.delayed.partition_point(|(time, _)| *time <= now);
            self.ready.extend(self.delayed.drain(..due).map(|(_, number)| number));
        }
        loop {
            self.refill(shared)?;
            if let Some(number) = self.ready.pop_front() {
                self.start(index, number, shared)?;
            } else if let Some((time, news)) = self.inbox.pop_front() {
                self.clock = self.clock.max(time);
                let event = match news {
                    News::Event(event) => event,
                    News::Copied(told) => {
                        self.told(index, told, shared)?;
                        continue;
                    }
                };
                if let Some(endpoint) = &mut self.endpoint {
                    endpoint.event(&mut Self::port(&mut self.clock, &mut self.library, index, &mut shared.world, &shared.costs), event);
                }
                self.complete(index, shared)?;
            } else {
                break;
            }
        }
        if self.finish.is_none() && self.exhausted && self.window.is_empty() {
            self.finish = Some(self.clock);
            shared.parts[self.part].unfinished -= 1;
        }
        Ok(())
    }

    /// Takes operations from the program, as many as it has to look ahead.
    fn refill(&mut self, shared: &mut Shared) -> Result<(), GraphError> {
        let state = &mut shared.parts[self.part];
        let limit = match state.part.program.order() {
            Order::Sequential => 1,
            Order::Causal => CAUSAL_WINDOW,
            Order::Graph => usize::MAX,
        };
        while !self.exhausted && self.unstarted < limit {
            let Some(operation) = state.part.program.next(self.number, &mut shared.after)? else {
                self.exhausted = true;
                break;
            };
            let number = self.first + self.window.len() as u64;
            // Without dependencies: from the start. What is over has been seen by now.
            let after = if shared.after.is_empty() { shared.epoch } else { self.clock };
            let mut node = Node { operation, waits: 0, after, started: false, done: false, dependents: Vec::new() };
            for dependency in &shared.after {
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
            shared.started += 1;
            if free {
                self.enqueue(number, shared_scale(state, self.number), &mut shared.world, state.first_rank + self.number)?;
            }
        }
        Ok(())
    }

    fn node(&mut self, number: u64) -> &mut Node {
        &mut self.window[(number - self.first) as usize]
    }

    /// Nothing holds it back but its delay.
    fn enqueue(&mut self, number: u64, scale: f64, world: &mut World<Mailbox>, index: u32) -> Result<(), GraphError> {
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
    fn passed(&mut self, number: u64, event: Event, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        let clock = self.clock;
        let mut dependents = std::mem::take(&mut self.node(number).dependents);
        for &(dependent, _) in dependents.iter().filter(|(_, wanted)| *wanted == event) {
            let node = self.node(dependent);
            node.waits -= 1;
            node.after = node.after.max(clock);
            if node.waits == 0 {
                let scale = shared_scale(&shared.parts[self.part], self.number);
                self.enqueue(dependent, scale, &mut shared.world, index)?;
            }
        }
        dependents.retain(|(_, wanted)| *wanted != event);
        self.node(number).dependents = dependents;
        Ok(())
    }

    fn started(&mut self, number: u64, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        self.node(number).started = true;
        self.unstarted -= 1;
        self.passed(number, Event::Started, index, shared)
    }

    fn done(&mut self, number: u64, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        self.node(number).done = true;
        shared.done += 1;
        self.passed(number, Event::Done, index, shared)?;
        while self.window.front().is_some_and(|node| node.done) {
            self.window.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    fn start(&mut self, index: u32, number: u64, shared: &mut Shared) -> Result<(), GraphError> {
        let node = self.node(number);
        let (kind, after) = (node.operation.kind, node.after);
        self.clock = self.clock.max(after);
        let base = shared.parts[self.part].first_rank;
        let ranks = shared.parts[self.part].report.ranks;
        let number_in_trace = self.number;
        let check = |peer: u32| {
            if peer < ranks { Ok(base + peer) } else { Err(GraphError::Peer { rank: number_in_trace, operation: number, peer, ranks }) }
        };
        match kind {
            Kind::Compute { duration } => {
                self.started(number, index, shared)?;
                let duration = duration.scaled(shared_scale(&shared.parts[self.part], self.number));
                self.clock = duration.and_then(|duration| self.clock.checked_add(duration)).map_err(self.beyond(number))?;
                self.done(number, index, shared)?;
            }
            Kind::Send { to, bytes, tag } => {
                let injected = self.send(index, check(to)?, u64::from(tag), bytes, number, shared);
                self.started(number, index, shared)?;
                if injected {
                    self.done(number, index, shared)?;
                }
            }
            Kind::Receive { from, bytes, tag } => {
                let from = from.map(check).transpose()?;
                let (tag, ignore) = tag.map_or((0, u64::from(u32::MAX)), |tag| (u64::from(tag), 0));
                self.receive(index, from, tag, ignore, (bytes, number), shared);
                self.started(number, index, shared)?;
            }
            Kind::Collective(call) => {
                let state = &mut shared.parts[self.part];
                let no_member = || GraphError::Member { rank: number_in_trace, operation: number, communicator: call.communicator };
                let position = state.communicators.position(call.communicator, self.number).ok_or_else(no_member)?;
                let size = state.communicators.size(call.communicator).unwrap_or(0);
                state.meetings.join(narrows_trace::Part { rank: number_in_trace, operation: number, call }, size)?;
                let schedule = state.part.collectives.schedule(&call, &state.communicators);
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
                self.started(number, index, shared)?;
                self.rounds(index, self.running.len() - 1, shared)?;
            }
        }
        self.complete(index, shared)
    }

    /// Starts rounds of a collective until one has messages, or it is over.
    fn rounds(&mut self, index: u32, place: usize, shared: &mut Shared) -> Result<(), GraphError> {
        let mut actions = std::mem::take(&mut shared.actions);
        loop {
            let running = &mut self.running[place];
            if running.round == running.schedule.rounds(running.position) {
                let number = self.running.swap_remove(place).number;
                self.done(number, index, shared)?;
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
                open += self.copied_round(index, place, &mut actions, shared)?;
            }
            // Receives first, as MPI libraries do: a message that finds its receive is not copied.
            let receives = if posted == NOT_POSTED { self.post_receives(index, communicator, context, &actions, shared)? } else { posted };
            for action in &actions {
                if let Action::Send { to, piece } = *action {
                    let to = self.member(communicator, to, context, shared)?;
                    let bytes = self.running[place].schedule.bytes(piece);
                    open += u32::from(!self.send(index, to, tag, bytes, context, shared));
                }
            }
            let running = &mut self.running[place];
            (running.open, running.open_receives) = (open + receives, receives);
            if running.schedule.posts_ahead(running.round) {
                running.schedule.round(running.position, running.round, &mut actions);
                let ahead = self.post_receives(index, communicator, context, &actions, shared)?;
                self.running[place].ahead = ahead;
            }
            if self.running[place].open > 0 {
                break;
            }
        }
        shared.actions = actions;
        Ok(())
    }

    /// Posts the receives of a round; how many.
    fn post_receives(
        &mut self,
        index: u32,
        communicator: u32,
        context: u64,
        actions: &[Action],
        shared: &mut Shared,
    ) -> Result<u32, GraphError> {
        let mut count = 0;
        for action in actions {
            if let Action::Receive { from, .. } = *action {
                let from = self.member(communicator, from, context, shared)?;
                self.receive(index, Some(from), COLLECTIVE_TAG | u64::from(communicator), 0, (ROOM, context), shared);
                count += 1;
            }
        }
        Ok(count)
    }

    /// The rank, among all, at a position of a communicator; `context` is the collective's.
    fn member(&self, communicator: u32, position: u32, context: u64, shared: &Shared) -> Result<u32, GraphError> {
        let state = &shared.parts[self.part];
        let member = state.communicators.member(communicator, position);
        let operation = context & !COLLECTIVE_CONTEXT;
        let rank = member.ok_or(GraphError::Position { rank: self.number, operation, communicator, position })?;
        Ok(state.first_rank + rank)
    }

    /// Takes the messages that switches copy out of a round and sees to them; how many of them are open.
    fn copied_round(&mut self, index: u32, place: usize, actions: &mut Vec<Action>, shared: &mut Shared) -> Result<u32, GraphError> {
        let Running { number, ref schedule, communicator, position, .. } = self.running[place];
        let (root, context) = (schedule.root(), COLLECTIVE_CONTEXT | number);
        let root_rank = self.member(communicator, root, context, shared)?;
        let mut open = 0;
        if position == root {
            let copied = |action: &Action| matches!(*action, Action::Send { to, .. } if schedule.copied().binary_search(&to).is_ok());
            let Some(&Action::Send { piece, .. }) = actions.iter().find(|action| copied(action)) else { return Ok(0) };
            actions.retain(|action| !copied(action));
            let bytes = schedule.bytes(piece);
            let way = match shared.copied.ways.get(&(self.part, communicator, root)) {
                Some(way) => way.clone(),
                None => {
                    let targets = schedule.copied().iter().map(|&member| self.member(communicator, member, context, shared));
                    let targets: Vec<u32> = targets.collect::<Result<_, _>>()?;
                    let way = shared.world.tree(index, &targets);
                    let way = way.map_err(|error| GraphError::Multicast { rank: self.number, operation: number, error })?;
                    shared.copied.ways.insert((self.part, communicator, root), way.clone());
                    way
                }
            };
            let key = self.copied.next(communicator, root_rank);
            let token = shared.copied.start(key, bytes, self.clock, context, way.1.len() as u32);
            self.clock += shared.costs.post;
            shared.world.multicast(index, self.clock, (&way.0, &way.1), bytes, token);
            // A short message is copied as it is posted, and then over.
            if bytes <= shared.message.inject_limit && bytes > shared.costs.pio_limit {
                self.clock += shared.costs.copy.time_for(Bytes(bytes));
            }
            open += u32::from(bytes > shared.message.inject_limit);
        } else if schedule.copied().binary_search(&position).is_ok() {
            let before = actions.len();
            actions.retain(|action| !matches!(action, Action::Receive { .. }));
            for _ in actions.len()..before {
                let key = self.copied.next(communicator, root_rank);
                match self.copied.ask(key, context, self.clock) {
                    Some(token) => self.received_copy(index, (token, number), true, shared)?,
                    None => open += 1,
                }
            }
        }
        Ok(open)
    }

    /// News of a broadcast that switches copy.
    fn told(&mut self, index: u32, told: Told, shared: &mut Shared) -> Result<(), GraphError> {
        let message = shared.copied.get(told.token);
        let context = if told.sent {
            shared.copied.settle(told.token);
            if message.bytes <= shared.message.inject_limit {
                return Ok(());
            }
            self.clock += shared.costs.completion;
            message.context
        } else {
            let Some((context, early)) = self.copied.arrive(message.key, told.token, told.at) else { return Ok(()) };
            self.received_copy(index, (told.token, context & !COLLECTIVE_CONTEXT), early, shared)?;
            context
        };
        self.part_done(context & !COLLECTIVE_CONTEXT, false, index, shared)
    }

    /// A rank takes a message; one that came before it was asked for is copied.
    fn received_copy(&mut self, index: u32, (token, number): (u32, u64), early: bool, shared: &mut Shared) -> Result<(), GraphError> {
        let message = shared.copied.get(token);
        self.clock += shared.costs.completion;
        if early {
            self.clock += shared.costs.copy.time_for(Bytes(message.bytes));
        }
        shared.copied.settle(token);
        self.count(index, message.bytes, Flight { start: message.start, from: message.key.1 }, number, shared)
    }

    /// A message has been received, by an operation.
    fn count(&mut self, index: u32, bytes: u64, flight: Flight, number: u64, shared: &mut Shared) -> Result<(), GraphError> {
        let state = &mut shared.parts[self.part];
        state.report.messages += 1;
        state.report.bytes = state.report.bytes.checked_add(bytes).ok_or_else(|| self.beyond(number)(Excess::Bytes))?;
        let fct = self.clock.saturating_sub(flight.start);
        state.report.fct.add(fct);
        let since = SimTime(self.clock.as_ps() - shared.epoch.as_ps());
        if let Some(watch) = &mut shared.watch {
            watch.received(self.part, bytes, since, fct);
        }
        state.digest.event(since, u64::from(index) << 32 | u64::from(flight.from));
        Ok(())
    }

    /// A message of a collective is complete: of the current round, or a receive of the next one when all of this one are.
    fn part_done(&mut self, number: u64, receive: bool, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        if let Some(place) = self.running.iter().position(|running| running.number == number) {
            let running = &mut self.running[place];
            if receive && running.ahead != NOT_POSTED && running.open_receives == 0 {
                running.ahead -= 1;
                return Ok(());
            }
            running.open_receives -= u32::from(receive && running.open_receives > 0);
            running.open -= 1;
            if self.running[place].open == 0 {
                return self.rounds(index, place, shared);
            }
        }
        Ok(())
    }

    /// True when the send is over: short messages are copied as they are posted.
    fn send(&mut self, index: u32, to: u32, tag: u64, length: u64, context: u64, shared: &mut Shared) -> bool {
        let inject = length <= shared.message.inject_limit;
        let flight = shared.flights.start(Flight { start: self.clock, from: index });
        let send = Send {
            queue: Queue::Tagged,
            target: process_of(shared, to),
            tag,
            data: Some(flight),
            buffer: 0,
            length,
            context,
            inject,
            completes: if inject { Completes::Never } else { Completes::BufferFree },
        };
        let mut port = Self::port(&mut self.clock, &mut self.library, index, &mut shared.world, &shared.costs);
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.send(&mut port, send).expect("a rank with a million open requests is far beyond what MPI programs have");
        }
        inject
    }

    fn receive(&mut self, index: u32, from: Option<u32>, tag: u64, ignore: u64, (length, context): (u64, u64), shared: &mut Shared) {
        let receive = Receive {
            queue: Queue::Tagged,
            source: from.map(|from| process_of(shared, from)),
            tag,
            ignore,
            buffer: 0,
            length,
            context,
            completion: true,
            multi: None,
        };
        let mut port = Self::port(&mut self.clock, &mut self.library, index, &mut shared.world, &shared.costs);
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
    fn complete(&mut self, index: u32, shared: &mut Shared) -> Result<(), GraphError> {
        while let Some(completion) = self.endpoint.as_mut().and_then(Endpoint::next_completion) {
            self.clock += shared.costs.completion;
            if completion.status != Status::Ok {
                return Err(self.refused(&completion));
            }
            if completion.kind == CompletionKind::Receive
                && let Some(slot) = completion.data
            {
                let flight = shared.flights.end(slot);
                self.count(index, completion.full_length, flight, completion.context & !COLLECTIVE_CONTEXT, shared)?;
            }
            if completion.context & COLLECTIVE_CONTEXT == 0 {
                self.done(completion.context, index, shared)?;
            } else {
                let receive = completion.kind == CompletionKind::Receive;
                self.part_done(completion.context & !COLLECTIVE_CONTEXT, receive, index, shared)?;
            }
        }
        Ok(())
    }
}

fn process_of(shared: &Shared, rank: u32) -> ProcessId {
    let part = shared.parts.partition_point(|part| part.first_rank <= rank) - 1;
    let state = &shared.parts[part];
    state.part.processes[(rank - state.first_rank) as usize]
}

fn shared_scale(state: &PartState, rank: u32) -> f64 {
    match state.part.scale.as_slice() {
        [one] => *one,
        each => each[rank as usize],
    }
}
