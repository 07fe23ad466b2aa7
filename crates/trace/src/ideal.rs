//! Runs a program on an ideal machine: messages and collectives take no time, computing takes what the trace says.
//!
//! That gives an order of all operations in which each comes behind what it waits for, and shows whether they fit
//! together: who waits for whom for good. VEF files are written in that order, and the static analysis draws its times.

use crate::TraceError;
use crate::meetings::{CollectivePart, Contradiction};
use crate::operation::{CollectiveCall, Dependency, Event, Kind, Operation, Order, Program};
use narrows_units::{Bytes, Excess, SimTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// What an event goes back to: the last communication before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The start of the run.
    Run,
    /// This rank sent a message.
    Sent(u64),
    /// This rank's part in a collective.
    Collective(u64),
    /// This rank received a message.
    Received(u64),
}

/// An operation that starts.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// When.
    pub time: SimTime,
    /// Whose.
    pub rank: u32,
    /// What.
    pub operation: &'a Operation,
    /// Number of the message or of the collective, in order of their starts, from 0; 0 for others.
    pub number: u64,
    /// The last communication before it among what it waited for.
    pub origin: Origin,
    /// Time since then.
    pub since: SimTime,
}

/// Is told what happens, in order of time.
pub trait Observer {
    /// An operation starts.
    ///
    /// # Errors
    /// End the run.
    fn start(&mut self, start: &Start<'_>) -> Result<(), TraceError>;

    /// `rank` has its last operation behind it.
    fn finish(&mut self, rank: u32, time: SimTime) {
        let _ = (rank, time);
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Observer for Nobody {
    fn start(&mut self, _: &Start<'_>) -> Result<(), TraceError> {
        Ok(())
    }
}

/// How a run went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When each rank was done.
    pub finish: Vec<SimTime>,
    /// Messages sent.
    pub messages: u64,
    /// Collectives begun.
    pub collectives: u64,
    /// What does not fit together, one line each.
    pub problems: Vec<String>,
}

/// Operations of all ranks together that are remembered for dependencies on them.
const REMEMBERED: u64 = 1 << 20;
/// ... and of one rank at least and at most.
const REMEMBERED_RANK: (u64, u64) = (64, 1 << 14);
/// Lines about problems of a kind; after these they are counted.
const MAX_PROBLEMS: usize = 1000;

/// Runs it.
///
/// # Errors
/// The program cannot be read, the observer says so, or an operation refers back too far.
pub fn run(program: &mut dyn Program, observer: &mut dyn Observer) -> Result<Outcome, TraceError> {
    let ranks = program.ranks();
    let remembered = (REMEMBERED / u64::from(ranks.max(1))).clamp(REMEMBERED_RANK.0, REMEMBERED_RANK.1);
    let mut run = Run {
        order: program.order(),
        remembered: if program.order() == Order::Graph { u64::MAX } else { remembered },
        program,
        observer,
        ranks: (0..ranks).map(|_| Rank::default()).collect(),
        queue: BinaryHeap::new(),
        collectives: HashMap::new(),
        outcome: Outcome { finish: vec![SimTime::ZERO; ranks as usize], ..Outcome::default() },
        after: Vec::new(),
    };
    for rank in 0..ranks {
        run.read(rank)?;
    }
    while let Some(Reverse((time, rank, number, step))) = run.queue.pop() {
        match step {
            Step::End => run.done(rank, number, time)?,
            Step::Start => run.start(rank, number, time)?,
        }
    }
    run.leftovers();
    Ok(run.outcome)
}

/// An event in the life of an operation.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    time: SimTime,
    origin: Origin,
    since: SimTime,
}

impl Anchor {
    const RUN: Anchor = Anchor { time: SimTime::ZERO, origin: Origin::Run, since: SimTime::ZERO };

    fn later(self, delay: SimTime) -> Result<Anchor, Excess> {
        Ok(Anchor { time: self.time.checked_add(delay)?, origin: self.origin, since: self.since + delay })
    }

    /// The one that holds up longer; at the same time, a message received before a message sent.
    fn max(self, other: Anchor) -> Anchor {
        if (other.time, other.origin) >= (self.time, self.origin) { other } else { self }
    }
}

#[derive(Debug)]
struct Slot {
    operation: Operation,
    /// Dependencies that are not there yet.
    missing: u32,
    /// The latest dependency so far, then the start.
    start: Anchor,
    started: bool,
    done: Option<Anchor>,
    /// Operations that wait for the start, and for the end.
    waiting: Vec<(Event, u64)>,
    /// Of a send or receive, once known.
    message: u64,
}

/// Receives of one (source, tag): place in the order of all, number of the operation.
type Posted = VecDeque<(u64, u64)>;
/// Messages of one (source, tag), each with its place in the order of all.
type Unexpected = VecDeque<(u64, Message)>;

#[derive(Clone, Copy, Debug)]
struct Message {
    number: u64,
    bytes: Bytes,
    time: SimTime,
}

#[derive(Debug, Default)]
struct Rank {
    /// Number of the first remembered operation.
    base: u64,
    slots: VecDeque<Slot>,
    open: u64,
    at_end: bool,
    /// When each CPU is free.
    cpus: Vec<SimTime>,
    /// Receives: by source and tag, `None` for any.
    posted: HashMap<(Option<u32>, Option<u32>), Posted>,
    wildcards: u64,
    /// Messages without receive, by source and tag.
    unexpected: HashMap<(u32, u32), Unexpected>,
    places: u64,
    /// Collectives begun, per communicator.
    calls: HashMap<u32, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End,
    Start,
}

#[derive(Debug)]
struct Meeting {
    number: u64,
    first: CollectivePart,
    parts: Vec<(u32, u64)>,
}

struct Run<'a> {
    order: Order,
    remembered: u64,
    program: &'a mut dyn Program,
    observer: &'a mut dyn Observer,
    ranks: Vec<Rank>,
    queue: BinaryHeap<Reverse<(SimTime, u32, u64, Step)>>,
    /// By communicator and place among its collectives.
    collectives: HashMap<(u32, u64), Meeting>,
    outcome: Outcome,
    after: Vec<Dependency>,
}

impl Run<'_> {
    fn slot(&mut self, rank: u32, number: u64) -> &mut Slot {
        let rank = &mut self.ranks[rank as usize];
        &mut rank.slots[(number - rank.base) as usize]
    }

    fn problem(&mut self, text: String) {
        if self.outcome.problems.len() < MAX_PROBLEMS {
            self.outcome.problems.push(text);
        } else if self.outcome.problems.len() == MAX_PROBLEMS {
            self.outcome.problems.push(String::from("and more"));
        }
    }

    /// Takes operations of a rank as far as the order asks for.
    fn read(&mut self, index: u32) -> Result<(), TraceError> {
        loop {
            let rank = &mut self.ranks[index as usize];
            let wanted = match self.order {
                Order::Sequential => rank.slots.back().is_none_or(|slot| slot.started),
                Order::Causal | Order::Graph => rank.open < self.remembered,
            };
            if rank.at_end || !wanted {
                return Ok(());
            }
            let mut after = std::mem::take(&mut self.after);
            let Some(operation) = self.program.next(index, &mut after)? else {
                rank.at_end = true;
                self.after = after;
                self.finish_check(index);
                return Ok(());
            };
            while rank.slots.len() as u64 >= self.remembered && rank.slots.front().is_some_and(|slot| slot.done.is_some()) {
                rank.slots.pop_front();
                rank.base += 1;
            }
            let number = rank.base + rank.slots.len() as u64;
            let mut slot = Slot { operation, missing: 0, start: Anchor::RUN, started: false, done: None, waiting: Vec::new(), message: 0 };
            // Forgotten operations are over; one that is remembered holds up longer.
            if !after.is_empty() && after.iter().all(|dependency| dependency.operation < rank.base) {
                return Err(TraceError::Unsuitable(format!(
                    "operation {number} of rank {index} depends on operation {}, more than {} operations before: not supported",
                    after[0].operation, self.remembered
                )));
            }
            for dependency in &after {
                let Some(place) = dependency.operation.checked_sub(rank.base) else { continue };
                let earlier = &mut rank.slots[place as usize];
                let there = match dependency.event {
                    Event::Started => earlier.started.then(|| earlier.after_start()),
                    Event::Done => earlier.done,
                };
                match there {
                    Some(anchor) => slot.start = slot.start.max(anchor),
                    None => {
                        earlier.waiting.push((dependency.event, number));
                        slot.missing += 1;
                    }
                }
            }
            let ready = slot.missing == 0;
            if ready {
                slot.start = slot.start.later(slot.operation.delay).map_err(|excess| beyond(index, number, excess))?;
                self.queue.push(Reverse((slot.start.time, index, number, Step::Start)));
            }
            rank.slots.push_back(slot);
            rank.open += 1;
            self.after = after;
        }
    }

    fn start(&mut self, index: u32, number: u64, time: SimTime) -> Result<(), TraceError> {
        let rank = &mut self.ranks[index as usize];
        let slot = &mut rank.slots[(number - rank.base) as usize];
        let operation = slot.operation;
        if let Kind::Compute { duration } = operation.kind {
            let cpu = usize::from(operation.cpu);
            if rank.cpus.len() <= cpu {
                rank.cpus.resize(cpu + 1, SimTime::ZERO);
            }
            if rank.cpus[cpu] > time {
                slot.start = slot.start.later(rank.cpus[cpu].saturating_sub(time)).map_err(|excess| beyond(index, number, excess))?;
                self.queue.push(Reverse((rank.cpus[cpu], index, number, Step::Start)));
                return Ok(());
            }
            rank.cpus[cpu] = time.checked_add(duration).map_err(|excess| beyond(index, number, excess))?;
        }
        slot.started = true;
        let Anchor { origin, since, .. } = slot.start;
        let count = match operation.kind {
            Kind::Send { .. } => {
                slot.message = self.outcome.messages;
                self.outcome.messages += 1;
                slot.message
            }
            Kind::Collective(call) => self.join(index, number, call),
            _ => 0,
        };
        self.observer.start(&Start { time, rank: index, operation: &operation, number: count, origin, since })?;
        self.release(index, number, Event::Started)?;
        match operation.kind {
            Kind::Compute { duration } => self.queue.push(Reverse((time + duration, index, number, Step::End))),
            Kind::Send { to, bytes, tag } => {
                self.end(index, number, Anchor { time, origin: Origin::Sent(count), since: SimTime::ZERO })?;
                if to as usize >= self.ranks.len() {
                    self.problem(format!("rank {index}, operation {number}: sends to rank {to}, which is not there"));
                } else {
                    self.arrive(index, to, tag, Message { number: count, bytes, time })?;
                }
            }
            Kind::Receive { from, tag, .. } => self.post(index, number, from, tag, time)?,
            Kind::Collective(call) => self.meet(index, call, time)?,
        }
        self.read(index)
    }

    /// The end of computing.
    fn done(&mut self, rank: u32, number: u64, time: SimTime) -> Result<(), TraceError> {
        let slot = self.slot(rank, number);
        let since = slot.start.since + time.saturating_sub(slot.start.time);
        let anchor = Anchor { time, origin: slot.start.origin, since };
        self.end(rank, number, anchor)
    }

    fn end(&mut self, rank: u32, number: u64, anchor: Anchor) -> Result<(), TraceError> {
        self.slot(rank, number).done = Some(anchor);
        self.ranks[rank as usize].open -= 1;
        self.release(rank, number, Event::Done)?;
        let finish = &mut self.outcome.finish[rank as usize];
        *finish = (*finish).max(anchor.time);
        self.finish_check(rank);
        if self.order == Order::Causal { self.read(rank) } else { Ok(()) }
    }

    fn finish_check(&mut self, rank: u32) {
        let state = &self.ranks[rank as usize];
        if state.at_end && state.open == 0 {
            self.observer.finish(rank, self.outcome.finish[rank as usize]);
        }
    }

    /// Tells those that waited for it.
    fn release(&mut self, rank: u32, number: u64, event: Event) -> Result<(), TraceError> {
        let slot = self.slot(rank, number);
        let anchor = match event {
            Event::Started => slot.after_start(),
            Event::Done => slot.done.unwrap_or(slot.start),
        };
        let waiting = std::mem::take(&mut slot.waiting);
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(wanted, _)| *wanted == event);
        self.slot(rank, number).waiting = later;
        for (_, next) in now {
            let slot = self.slot(rank, next);
            slot.start = slot.start.max(anchor);
            slot.missing -= 1;
            if slot.missing == 0 {
                slot.start = slot.start.later(slot.operation.delay).map_err(|excess| beyond(rank, next, excess))?;
                let time = slot.start.time;
                self.queue.push(Reverse((time, rank, next, Step::Start)));
            }
        }
        Ok(())
    }

    fn arrive(&mut self, from: u32, to: u32, tag: u32, message: Message) -> Result<(), TraceError> {
        let rank = &mut self.ranks[to as usize];
        let wild = [(None, Some(tag)), (Some(from), None), (None, None)];
        let keys = std::iter::once((Some(from), Some(tag))).chain(wild.into_iter().take(if rank.wildcards > 0 { 3 } else { 0 }));
        let first = |key: &(Option<u32>, Option<u32>)| rank.posted.get(key).and_then(VecDeque::front).map(|(place, _)| *place);
        let Some((_, key)) = keys.filter_map(|key| first(&key).map(|place| (place, key))).min() else {
            let place = rank.places;
            rank.places += 1;
            rank.unexpected.entry((from, tag)).or_default().push_back((place, message));
            return Ok(());
        };
        let Some((_, number)) = take_first(&mut rank.posted, key) else { return Ok(()) };
        if key.0.is_none() || key.1.is_none() {
            rank.wildcards -= 1;
        }
        self.receive(to, number, message, message.time)
    }

    fn post(&mut self, index: u32, number: u64, from: Option<u32>, tag: Option<u32>, time: SimTime) -> Result<(), TraceError> {
        let rank = &mut self.ranks[index as usize];
        let key = match (from, tag) {
            (Some(from), Some(tag)) => rank.unexpected.contains_key(&(from, tag)).then_some((from, tag)),
            _ => {
                let matching = rank
                    .unexpected
                    .iter()
                    .filter(|((source, other), _)| from.is_none_or(|from| from == *source) && tag.is_none_or(|tag| tag == *other));
                // The place is unique, so the order of the map does not matter.
                matching.filter_map(|(key, line)| line.front().map(|(place, _)| (*place, *key))).min().map(|(_, key)| key)
            }
        };
        if let Some((_, message)) = key.and_then(|key| take_first(&mut rank.unexpected, key)) {
            return self.receive(index, number, message, time);
        }
        if from.is_none() || tag.is_none() {
            rank.wildcards += 1;
        }
        let place = rank.places;
        rank.places += 1;
        rank.posted.entry((from, tag)).or_default().push_back((place, number));
        Ok(())
    }

    fn receive(&mut self, rank: u32, number: u64, message: Message, time: SimTime) -> Result<(), TraceError> {
        let slot = self.slot(rank, number);
        slot.message = message.number;
        if let Kind::Receive { bytes: room, .. } = slot.operation.kind
            && room < message.bytes
        {
            self.problem(format!("rank {rank}, operation {number}: a message of {} B for a buffer of {} B", message.bytes.0, room.0));
        }
        // What follows needs the message, also when it came before its receive: the time until that one counts as
        // computing.
        let since = time.saturating_sub(message.time);
        self.end(rank, number, Anchor { time, origin: Origin::Received(message.number), since })
    }

    /// Number of the collective.
    fn join(&mut self, index: u32, number: u64, call: CollectiveCall) -> u64 {
        let place = self.ranks[index as usize].calls.entry(call.communicator).or_default();
        *place += 1;
        let key = (call.communicator, *place);
        let next = self.outcome.collectives;
        let part = CollectivePart { rank: index, operation: number, call };
        let meeting = self.collectives.entry(key).or_insert_with(|| Meeting { number: next, first: part, parts: Vec::new() });
        self.outcome.collectives = next.max(meeting.number + 1);
        meeting.parts.push((index, number));
        let (count, first) = (meeting.number, meeting.first);
        if let Some(contradiction) = Contradiction::between(first, part) {
            self.problem(contradiction.to_string());
        }
        count
    }

    fn meet(&mut self, index: u32, call: CollectiveCall, time: SimTime) -> Result<(), TraceError> {
        let key = (call.communicator, self.ranks[index as usize].calls[&call.communicator]);
        let Some(size) = self.program.communicators().size(call.communicator) else {
            self.problem(format!("rank {index}: a collective on communicator {}, which is not there", call.communicator));
            return Ok(());
        };
        if self.program.communicators().position(call.communicator, index).is_none() {
            self.problem(format!("rank {index}: a collective on communicator {}, of which it is no member", call.communicator));
        }
        if self.collectives.get(&key).is_none_or(|meeting| (meeting.parts.len() as u64) < u64::from(size)) {
            return Ok(());
        }
        let Some(meeting) = self.collectives.remove(&key) else { return Ok(()) };
        let anchor = Anchor { time, origin: Origin::Collective(meeting.number), since: SimTime::ZERO };
        for (rank, number) in meeting.parts {
            self.end(rank, number, anchor)?;
        }
        Ok(())
    }

    /// What never ended.
    fn leftovers(&mut self) {
        let mut found = Vec::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            for (number, slot) in rank.slots.iter().enumerate().filter(|(_, slot)| slot.started && slot.done.is_none()) {
                let what = match slot.operation.kind {
                    Kind::Receive { from, tag, .. } => {
                        let from = from.map_or(String::from("any rank"), |from| format!("rank {from}"));
                        let tag = tag.map_or(String::from("any tag"), |tag| format!("tag {tag}"));
                        format!("waits for a message from {from}, {tag}, that is never sent")
                    }
                    Kind::Collective(call) => format!(
                        "waits in a collective ({}) on communicator {} that not all members join",
                        call.operation.name(),
                        call.communicator
                    ),
                    _ => continue,
                };
                found.push(format!("rank {index}, operation {}: {what}", rank.base + number as u64));
            }
            let mut unread: Vec<_> = rank.unexpected.iter().map(|((from, tag), line)| (*from, *tag, line.len())).collect();
            unread.sort_unstable();
            for (from, tag, count) in unread {
                found.push(format!("rank {index}: never receives {count} message(s) from rank {from} tag {tag}"));
            }
        }
        for text in found {
            self.problem(text);
        }
    }
}

fn beyond(rank: u32, operation: u64, excess: Excess) -> TraceError {
    TraceError::Excess { rank, operation, excess }
}

impl Slot {
    /// What those that wait for its start go back to.
    fn after_start(&self) -> Anchor {
        match self.operation.kind {
            Kind::Send { .. } => Anchor { time: self.start.time, origin: Origin::Sent(self.message), since: SimTime::ZERO },
            _ => self.start,
        }
    }
}

/// Takes the first of a line, and the line away when it is empty.
fn take_first<K: std::hash::Hash + Eq, V>(lines: &mut HashMap<K, VecDeque<V>>, key: K) -> Option<V> {
    let line = lines.get_mut(&key)?;
    let first = line.pop_front();
    if line.is_empty() {
        lines.remove(&key);
    }
    first
}
