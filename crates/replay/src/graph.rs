//! The operations of all ranks in memory, for the LogGP replay: 48 bytes for an operation, 4 for each dependency.
//!
//! Collectives are spelled out into the messages of their schedules as they are read.

use crate::error::{Problem, ReplayError};
use narrows_collectives::{Action, Schedule, ScheduleError};
use narrows_trace::{CollectiveCall, CollectivePart, Communicators, Dependency, Event, Kind, Meetings, Program};
use narrows_units::{Bytes, SimTime};

/// No operation.
pub(crate) const NONE: u32 = u32::MAX;
/// A dependency that ends with the start of the operation before, not with its end.
pub(crate) const AFTER_START: u32 = 1 << 31;
/// Any source, any tag.
pub(crate) const ANY: u32 = u32::MAX;

/// What an operation does, in the order in which operations that become ready together are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum What {
    Send,
    Receive,
    Compute,
    /// Waits, then ends.
    Join,
    /// A send that is on its way.
    Message,
    /// A message that waits for the processor of its receiver.
    Arrived,
}

/// One operation. `start` and `order` mean something else at every stage; see `loggp.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Message bytes, or a duration in ps.
    pub amount: u64,
    pub start: u64,
    pub order: u64,
    /// The other rank; of a message on its way the sender.
    pub peer: u32,
    pub tag: u32,
    /// The next one in a queue.
    pub next: u32,
    /// Dependencies that have not ended.
    pub waits: u32,
    pub first_dependent: u32,
    pub what: What,
    pub cpu: u8,
    pub nic: u8,
    /// The message belongs to a collective: it only matches its like.
    pub collective: bool,
}

/// The operations of all ranks of all applications.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) ops: Vec<Op>,
    /// By operation, first those that wait for its start.
    pub(crate) dependents: Vec<u32>,
    /// Delays between the last dependency and the start, sorted by operation.
    pub(crate) delays: Vec<(u32, SimTime)>,
    /// First operation of each rank, and the number of all.
    pub(crate) first: Vec<u32>,
    pub(crate) cpus: u8,
    pub(crate) nics: u8,
    /// Name and first rank of each application.
    pub(crate) applications: Vec<(String, u32)>,
}

/// Decides how a collective is done.
pub trait Collectives {
    /// The schedule of a collective on a communicator of `ranks` ranks.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    fn schedule(&mut self, call: &CollectiveCall, communicators: &Communicators) -> Result<Schedule, ScheduleError>;

    /// A long send, of any kind, is over when its data are in the memory of the receiver.
    fn sends_until_delivered(&self) -> bool {
        false
    }

    /// Some may be copied by switches.
    fn copies(&self) -> bool {
        false
    }
}

/// For programs without collectives.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCollectives;

impl Collectives for NoCollectives {
    fn schedule(&mut self, _: &CollectiveCall, _: &Communicators) -> Result<Schedule, ScheduleError> {
        Err(ScheduleError::Ranks { ranks: 0 })
    }
}

/// One rank while it is read.
#[derive(Default)]
struct Rank {
    number: u32,
    /// First operation of the graph.
    first: u32,
    /// Where an operation of the trace starts and where it ends.
    nodes: Vec<(u32, u32)>,
    edges: Vec<(u32, u32)>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph { first: vec![0], ..Graph::default() }
    }

    /// Ranks of all applications.
    pub fn ranks(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Operations of all ranks.
    pub fn operations(&self) -> u64 {
        self.ops.len() as u64
    }

    /// Reads a whole program. Computing times and delays are multiplied by `scale`.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn add(&mut self, name: &str, program: &mut dyn Program, scale: f64, collectives: &mut dyn Collectives) -> Result<(), ReplayError> {
        let base = self.ranks();
        self.applications.push((name.to_owned(), base));
        let communicators = program.communicators().clone();
        let (mut after, mut meetings) = (Vec::new(), Meetings::default());
        for rank in 0..program.ranks() {
            let mut reader = Rank { number: rank, first: self.ops.len() as u32, ..Rank::default() };
            while let Some(operation) = program.next(rank, &mut after)? {
                self.cpus = self.cpus.max(operation.cpu);
                self.nics = self.nics.max(operation.nic);
                let number = reader.nodes.len() as u64;
                let peer = |peer: u32| {
                    if peer < program.ranks() {
                        Ok(base + peer)
                    } else {
                        Err(Problem::Peer { peer, ranks: program.ranks() }.of(rank, number))
                    }
                };
                let scaled = |time: SimTime| time.scaled(scale).map_err(|excess| Problem::from(excess).of(rank, number));
                let mut op = Op {
                    amount: 0,
                    start: 0,
                    order: 0,
                    peer: 0,
                    tag: 0,
                    next: NONE,
                    waits: 0,
                    first_dependent: 0,
                    what: What::Join,
                    cpu: operation.cpu,
                    nic: operation.nic,
                    collective: false,
                };
                match operation.kind {
                    Kind::Compute { duration } => (op.what, op.amount) = (What::Compute, scaled(duration)?.as_ps()),
                    Kind::Send { to, bytes: Bytes(bytes), tag } => {
                        (op.what, op.amount, op.peer, op.tag) = (What::Send, bytes, peer(to)?, tag)
                    }
                    Kind::Receive { from, bytes: Bytes(bytes), tag } => {
                        let from = from.map_or(Ok(ANY), peer)?;
                        (op.what, op.amount, op.peer, op.tag) = (What::Receive, bytes, from, tag.unwrap_or(ANY));
                    }
                    Kind::Collective(call) => {
                        let size = communicators.size(call.communicator).unwrap_or(0);
                        let of_communicator = meetings.join(CollectivePart { rank, operation: number, call }, size)?;
                        op.tag = communicators.collective_tag(call.communicator, of_communicator);
                    }
                }
                let node = self.push(op)?;
                if operation.delay > SimTime::ZERO {
                    self.delays.push((node, scaled(operation.delay)?));
                }
                for dependency in &after {
                    reader.depend(dependency, node);
                }
                let end = match operation.kind {
                    Kind::Collective(call) => self.spell_out(&mut reader, base, node, &call, &communicators, collectives)?,
                    _ => node,
                };
                reader.nodes.push((node, end));
            }
            self.finish_rank(reader);
        }
        Ok(())
    }

    fn push(&mut self, op: Op) -> Result<u32, ReplayError> {
        let node = self.ops.len() as u32;
        if node >= AFTER_START {
            return Err(ReplayError::TooMany);
        }
        self.ops.push(op);
        Ok(node)
    }

    /// The messages of a collective behind `start`; the operation that ends it.
    fn spell_out(
        &mut self,
        reader: &mut Rank,
        base: u32,
        start: u32,
        call: &CollectiveCall,
        communicators: &Communicators,
        collectives: &mut dyn Collectives,
    ) -> Result<u32, ReplayError> {
        let (rank, operation) = (reader.number, reader.nodes.len() as u64);
        let no_member = || Problem::Member(call.communicator).of(rank, operation);
        let position = communicators.position(call.communicator, rank).ok_or_else(no_member)?;
        let schedule = collectives.schedule(call, communicators).map_err(|error| Problem::from(error).of(rank, operation))?;
        let template = Op { collective: true, ..self.ops[start as usize] };
        let (mut before, mut actions) = (start, Vec::new());
        for round in 0..schedule.rounds(position) {
            let (schedule, round) = schedule.part(position, round);
            schedule.round(position, round, &mut actions);
            let first = self.ops.len() as u32;
            for action in &actions {
                let (what, other, piece) = match *action {
                    Action::Send { to, piece } => (What::Send, to, piece),
                    Action::Receive { from, piece, .. } => (What::Receive, from, piece),
                    Action::Local { .. } => continue,
                };
                let peer = base + communicators.member(call.communicator, other).ok_or_else(no_member)?;
                let node = self.push(Op { what, peer, amount: schedule.bytes(piece).0, ..template })?;
                reader.edges.push((before, node));
            }
            let end = self.ops.len() as u32;
            if end > first {
                let join = self.push(Op { what: What::Join, ..template })?;
                reader.edges.extend((first..end).map(|node| (node, join)));
                before = join;
            }
        }
        Ok(before)
    }

    /// Sorts the dependencies of a rank that is complete.
    fn finish_rank(&mut self, reader: Rank) {
        let first = reader.first as usize;
        let mut counts = vec![0u32; self.ops.len() - first + 1];
        for &(from, to) in &reader.edges {
            counts[from as usize - first] += 1;
            self.ops[(to & !AFTER_START) as usize].waits += 1;
        }
        let mut next = self.dependents.len() as u32;
        for (op, count) in self.ops[first..].iter_mut().zip(&mut counts) {
            op.first_dependent = next;
            next += std::mem::replace(count, next);
        }
        self.dependents.resize(next as usize, 0);
        for (from, to) in reader.edges {
            let place = &mut counts[from as usize - first];
            self.dependents[*place as usize] = to;
            *place += 1;
        }
        self.first.push(self.ops.len() as u32);
    }

    /// The operations that wait for `op`.
    #[inline]
    pub(crate) fn dependents_of(&self, op: u32) -> std::ops::Range<usize> {
        let end = self.ops.get(op as usize + 1).map_or(self.dependents.len(), |next| next.first_dependent as usize);
        self.ops[op as usize].first_dependent as usize..end
    }

    /// The rank of an operation.
    pub(crate) fn rank_of(&self, op: u32) -> u32 {
        self.first.partition_point(|&first| first <= op) as u32 - 1
    }
}

impl Rank {
    fn depend(&mut self, dependency: &Dependency, node: u32) {
        // `Program` promises earlier operations.
        let (start, end) = self.nodes[dependency.operation as usize];
        self.edges.push(match dependency.event {
            Event::Started => (start, node | AFTER_START),
            Event::Done => (end, node),
        });
    }
}
