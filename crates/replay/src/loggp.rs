//! The LogGOPS model by itself, as LogGOPSim has it (Hoefler, Schneider, Lumsdaine: LogGOPSim - Simulating Large-Scale
//! Applications in the LogGOPS Model, HPDC 2010).
//!
//! * A send of `s` bytes at `t` keeps the CPU until `t + o + (s-1) O`, the NIC's sending side until `t + g + (s-1) G`;
//!   its first byte is at the receiver at `t + o + L`.
//! * There it waits for CPU and the NIC's receiving side, and keeps them from `t` until `t + o + max((s-1) O, (s-1) G)`
//!   and `t + g + (s-1) G`. It matches the first receive that fits, or waits to be matched.
//! * Up to `S` bytes a send is over when it has started; a longer one when it is matched (rendezvous), and no wait for
//!   the CPU of the sender ends before.
//! * Receives are posted when the CPU is free and take none of its time. Computing keeps the CPU.
//! * Operations that become ready at one time start in the order: sends, receives, computing; operations and messages
//!   that wait for the same resource get it in the order in which they came to be.
//!
//! LogGOPSim takes an operation whose CPU or NIC is busy out of its queue and puts it back, as often as need be: a
//! linear all-to-all of `p` ranks costs it p^2 queue operations per rank. Here one operation of each kind and resource
//! is in the queue for all that wait for it, which gives the same order.

use crate::error::{Problem, ReplayError};
use crate::graph::{AFTER_START, ANY, Graph, NONE, What};
use crate::queue::Queue;
use crate::report::{Application, Outcome, Progress};
use narrows_engine::Digest;
use narrows_units::parse::QuantityError;
use narrows_units::{Bytes, Excess, SimTime};
use std::str::FromStr;

/// The parameters, with the names and defaults of LogGOPSim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// L: latency of the first byte.
    pub latency: SimTime,
    /// o: CPU time of a send or receive.
    pub overhead: SimTime,
    /// g: between two messages of a NIC.
    pub gap: SimTime,
    /// G: per byte.
    pub gap_per_byte: SimTime,
    /// O: CPU time per byte.
    pub overhead_per_byte: SimTime,
    /// S: longest eager message.
    pub eager: Bytes,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            latency: SimTime::from_ns(2500),
            overhead: SimTime::from_ns(1500),
            gap: SimTime::from_ns(1000),
            gap_per_byte: SimTime::from_ns(6),
            overhead_per_byte: SimTime::ZERO,
            eager: Bytes(65535),
        }
    }
}

/// `L=2500ns,o=1500ns,g=1000ns,G=6ns/B,O=0ns/B,S=65535`, in any order; what is missing has its default.
/// Why parameters cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// One of them is not what it should be: as the user gives it, and why.
    #[error("{0}: {1}")]
    Wrong(String, &'static str),
    /// One of them has no time or size.
    #[error("{0}: {1}")]
    Value(String, QuantityError),
    /// Two values for one name.
    #[error("{0} is given twice")]
    Twice(String),
}

impl FromStr for Parameters {
    type Err = ParameterError;

    fn from_str(text: &str) -> Result<Parameters, ParameterError> {
        let mut parameters = Parameters::default();
        let mut names: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| ParameterError::Wrong(format!("\"{part}\""), "expected NAME=VALUE, as in L=2500ns"))?;
            let (name, value) = (name.trim(), value.trim());
            if names.contains(&name) {
                return Err(ParameterError::Twice(name.to_owned()));
            }
            names.push(name);
            let given = || format!("{name}={value}");
            let wrong = |error| ParameterError::Value(given(), error);
            let time = |value: &str| value.parse::<SimTime>().map_err(wrong);
            let per_byte = || match value.strip_suffix("/B") {
                Some(per_byte) => time(per_byte.trim()),
                None => Err(ParameterError::Wrong(given(), "expected a time per byte, as in 6ns/B")),
            };
            match name {
                "L" => parameters.latency = time(value)?,
                "o" => parameters.overhead = time(value)?,
                "g" => parameters.gap = time(value)?,
                "G" => parameters.gap_per_byte = per_byte()?,
                "O" => parameters.overhead_per_byte = per_byte()?,
                "S" => {
                    let bytes = value.parse().map(Bytes).or_else(|_| value.parse::<Bytes>());
                    parameters.eager = bytes.map_err(wrong)?;
                }
                _ => return Err(ParameterError::Wrong(name.to_owned(), "unknown; the parameters are L, o, g, G, O and S")),
            }
        }
        Ok(parameters)
    }
}

/// A queue of operations, linked by their `next`.
#[derive(Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
}

const EMPTY: Line = Line { first: NONE, last: NONE };

/// Who waits for the CPU, or for CPU and NIC: computing, sends, messages that have arrived. Oldest first; the first of
/// them is in the event queue.
const COMPUTING: usize = 0;
const SENDING: usize = 1;
const RECEIVING: usize = 2;

/// A CPU and a NIC of a rank: the state of a rank that has one of each is this, one line of the cache. With several, a
/// rank has as many of these as the larger number, or their product if operations use them in all combinations.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Unit {
    /// When the CPU is free.
    cpu: u64,
    /// When the NIC may send, and receive.
    nic: [u64; 2],
    lines: [Line; 3],
    /// Receives and messages that wait for each other, by rank: in its first unit.
    posted: Line,
    unexpected: Line,
}

#[derive(Clone, Copy)]
struct Due {
    op: u32,
    rank: u32,
}

/// The simulation of a [`Graph`].
struct Simulation<'a> {
    graph: &'a mut Graph,
    parameters: Parameters,
    queue: Queue<Due>,
    order: u64,
    now: u64,
    nics: usize,
    /// So many of each rank.
    units_per_rank: usize,
    units: Vec<Unit>,
    /// Rank, kind, operation.
    ready: Vec<(u32, What, u32)>,
    done: u64,
    /// Operations of each rank that have not ended.
    left: Vec<u32>,
    events: u64,
    applications: Vec<(Application, Digest)>,
}

/// Runs it to the end, or until `progress`, which is asked every million events, says no. The graph is used up.
pub fn run(graph: &mut Graph, parameters: Parameters, progress: &mut dyn FnMut(Progress) -> bool) -> Outcome {
    let ranks = graph.ranks() as usize;
    let (cpus, nics) = (usize::from(graph.cpus) + 1, usize::from(graph.nics) + 1);
    let mut starts: Vec<u32> = graph.applications.iter().map(|(_, first)| *first).collect();
    starts.push(ranks as u32);
    let applications = graph.applications.iter().zip(starts.windows(2));
    let applications =
        applications.map(|((name, _), span)| Application { name: name.clone(), ranks: span[1] - span[0], ..Application::default() });
    let mut simulation = Simulation {
        parameters,
        queue: Queue::new(),
        order: 0,
        now: 0,
        nics,
        units_per_rank: cpus * nics,
        units: vec![Unit { cpu: 0, nic: [0; 2], lines: [EMPTY; 3], posted: EMPTY, unexpected: EMPTY }; ranks * cpus * nics],
        ready: Vec::new(),
        done: 0,
        left: graph.first.windows(2).map(|span| span[1] - span[0]).collect(),
        events: 0,
        applications: applications.map(|application| (application, Digest::default())).collect(),
        graph,
    };
    let failure = simulation.run(&starts, progress).err().map(|error| error.to_string());
    simulation.finish(&starts, failure)
}

fn of_rank(rank: u32, problem: impl Into<Problem>) -> Box<ReplayError> {
    Box::new(ReplayError::Rank { rank, operation: None, problem: problem.into() })
}

impl Simulation<'_> {
    fn run(&mut self, starts: &[u32], progress: &mut dyn FnMut(Progress) -> bool) -> Result<(), Box<ReplayError>> {
        for rank in 0..self.graph.ranks() {
            let ops = self.graph.first[rank as usize]..self.graph.first[rank as usize + 1];
            let roots: Vec<u32> = ops.filter(|&op| self.graph.ops[op as usize].waits == 0).collect();
            for op in roots {
                self.make_ready(rank, op);
            }
            self.start_ready();
        }
        let known = self.graph.operations();
        while let Some(entry) = self.queue.pop() {
            if entry.at > SimTime::END.as_ps() {
                return Err(of_rank(entry.event.rank, Excess::Time));
            }
            self.now = entry.at;
            self.events += 1;
            self.look_ahead();
            if self.events.is_multiple_of(1 << 20) && !progress(Progress { now: SimTime(self.now), done: self.done, known }) {
                return Err(Box::new(ReplayError::Interrupted(SimTime(self.now))));
            }
            let Due { op, rank } = entry.event;
            match self.graph.ops[op as usize].what {
                What::Compute => self.compute(rank, op, entry.order),
                What::Send => self.send(rank, op, entry.order),
                What::Receive => self.receive(rank, op, starts)?,
                What::Message | What::Arrived => self.message(rank, op, entry.order, starts)?,
                What::Join => self.join(rank, op),
            }
            if !self.ready.is_empty() {
                self.start_ready();
            }
        }
        // What a rank does last has no event at its end.
        let late = self.units.iter().position(|unit| unit.cpu > SimTime::END.as_ps());
        match late {
            Some(unit) => Err(of_rank((unit / self.units_per_rank) as u32, Excess::Time)),
            None if self.done < known => Err(Box::new(ReplayError::Deadlock(self.stuck()))),
            None => Ok(()),
        }
    }

    /// Asks for the memory of events that come soon. With 65,536 ranks nearly every access is to another rank's memory:
    /// see the numbers in docs/lab/performance.md.
    #[inline]
    fn look_ahead(&self) {
        if let Some(&Due { op, rank }) = self.queue.peek(24) {
            prefetch(&self.graph.ops, op as usize);
            prefetch(&self.graph.ops, op as usize + 2);
            prefetch(&self.units, self.first_unit(rank));
        }
        if let Some(&Due { op, rank }) = self.queue.peek(12) {
            prefetch(&self.graph.dependents, self.graph.ops[op as usize].first_dependent as usize);
            let posted = self.units[self.first_unit(rank)].posted.first as usize;
            prefetch(&self.graph.ops, posted);
            prefetch(&self.graph.ops, posted.wrapping_add(2));
        }
        if let Some(&Due { rank, .. }) = self.queue.peek(6)
            && let Some(posted) = self.graph.ops.get(self.units[self.first_unit(rank)].posted.first as usize)
        {
            prefetch(&self.graph.dependents, posted.first_dependent as usize);
        }
    }

    #[inline]
    fn first_unit(&self, rank: u32) -> usize {
        rank as usize * self.units_per_rank
    }

    /// The units that have the CPU, the NIC and the lines of an operation.
    #[inline]
    fn places(&self, rank: u32, op: u32) -> (usize, usize, usize) {
        let op = &self.graph.ops[op as usize];
        let first = self.first_unit(rank);
        let (cpu, nic) = (usize::from(op.cpu), usize::from(op.nic));
        (first + cpu, first + nic, first + cpu * self.nics + nic)
    }

    #[inline]
    fn push(&mut self, at: u64, order: u64, rank: u32, op: u32) {
        self.queue.push(SimTime(at), order, Due { op, rank });
    }

    /// A dependency of `op` has ended.
    #[inline]
    fn release(&mut self, rank: u32, op: u32) {
        let waits = &mut self.graph.ops[op as usize].waits;
        *waits -= 1;
        if *waits == 0 {
            self.make_ready(rank, op);
        }
    }

    fn make_ready(&mut self, rank: u32, op: u32) {
        if !self.graph.delays.is_empty()
            && let Ok(place) = self.graph.delays.binary_search_by_key(&op, |(op, _)| *op)
        {
            self.delay(rank, op, place);
        } else if self.graph.ops[op as usize].what == What::Join {
            self.join(rank, op);
        } else {
            self.ready.push((rank, self.graph.ops[op as usize].what, op));
        }
    }

    /// Makes it wait behind an operation that computes on no CPU: the join becomes one.
    #[cold]
    fn delay(&mut self, rank: u32, op: u32, place: usize) {
        let (cpu, ..) = self.places(rank, op);
        let at = self.units[cpu].cpu.max(self.now).saturating_add(self.graph.delays[place].1.as_ps());
        self.graph.delays[place].1 = SimTime::ZERO;
        let order = self.take_order();
        let entry = &mut self.graph.ops[op as usize];
        // What it is comes back when the delay is over: see `join`.
        entry.start = entry.what as u64;
        entry.what = What::Join;
        entry.waits = 1;
        self.push(at, order, rank, op);
    }

    /// Its dependencies have ended, and its delay, if it had one.
    fn join(&mut self, rank: u32, op: u32) {
        let entry = &mut self.graph.ops[op as usize];
        let was = [What::Send, What::Receive, What::Compute, What::Join][entry.start as usize & 3];
        if entry.waits == 1 && was != What::Join {
            (entry.what, entry.waits, entry.start) = (was, 0, 0);
            self.ready.push((rank, was, op));
            return;
        }
        entry.waits = 0;
        self.end(rank, op, true);
    }

    #[inline]
    fn take_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// Gives what has become ready in this event its place.
    fn start_ready(&mut self) {
        if self.ready.len() > 1 {
            self.ready.sort_by_key(|&(rank, what, _)| (rank, what));
        }
        let mut ready = std::mem::take(&mut self.ready);
        for &(rank, what, op) in &ready {
            let order = self.take_order();
            let (cpu, nic, line) = self.places(rank, op);
            let free = self.units[cpu].cpu;
            match what {
                What::Compute => self.stand_in_line(COMPUTING, rank, op, order, line, free),
                What::Send => self.stand_in_line(SENDING, rank, op, order, line, free.max(self.units[nic].nic[0])),
                _ => self.push(free.max(self.now), order, rank, op),
            }
        }
        ready.clear();
        self.ready = ready;
    }

    /// Behind those that wait already, or as the first of them.
    #[inline]
    fn stand_in_line(&mut self, kind: usize, rank: u32, op: u32, order: u64, line: usize, free: u64) {
        self.graph.ops[op as usize].order = order;
        if self.append(line, |unit| &mut unit.lines[kind], op) {
            self.push(free.max(self.now), order, rank, op);
        }
    }

    /// Puts `op` at the end of a line; true when it is the first.
    #[inline]
    fn append(&mut self, unit: usize, line: impl Fn(&mut Unit) -> &mut Line, op: u32) -> bool {
        let line = line(&mut self.units[unit]);
        let last = std::mem::replace(&mut line.last, op);
        if line.first == NONE {
            line.first = op;
            return true;
        }
        self.graph.ops[last as usize].next = op;
        false
    }

    /// The first in line has its resource until `free`: the next one's turn comes then.
    #[inline]
    fn next_in_line(&mut self, kind: usize, rank: u32, op: u32, line: usize, free: u64) {
        let next = std::mem::replace(&mut self.graph.ops[op as usize].next, NONE);
        self.units[line].lines[kind].first = next;
        if next != NONE {
            let order = self.graph.ops[next as usize].order;
            self.push(free.max(self.now), order, rank, next);
        }
    }

    /// Takes the first operation that fits `op` out of a line of receives or messages.
    #[inline]
    fn take_match(&mut self, unit: usize, line: impl Fn(&mut Unit) -> &mut Line, op: u32) -> Option<u32> {
        let wanted = &self.graph.ops[op as usize];
        let (mut before, mut place) = (NONE, line(&mut self.units[unit]).first);
        while place != NONE {
            let mine = &self.graph.ops[place as usize];
            if mine.collective == wanted.collective
                && (mine.peer == wanted.peer || mine.peer == ANY || wanted.peer == ANY)
                && (mine.tag == wanted.tag || mine.tag == ANY || wanted.tag == ANY)
            {
                let next = std::mem::replace(&mut self.graph.ops[place as usize].next, NONE);
                let line = line(&mut self.units[unit]);
                if line.last == place {
                    line.last = before;
                }
                if before == NONE {
                    line.first = next;
                } else {
                    self.graph.ops[before as usize].next = next;
                }
                return Some(place);
            }
            (before, place) = (place, mine.next);
        }
        None
    }

    /// Those that wait for the start (`end` false) or the end of `op` do not any more.
    #[inline]
    fn passed(&mut self, rank: u32, op: u32, end: bool) {
        for index in self.graph.dependents_of(op) {
            let dependent = self.graph.dependents[index];
            if (dependent & AFTER_START == 0) == end {
                self.release(rank, dependent & !AFTER_START);
            }
        }
    }

    #[inline]
    fn end(&mut self, rank: u32, op: u32, started: bool) {
        self.done += 1;
        self.left[rank as usize] -= 1;
        if started {
            self.passed(rank, op, false);
        }
        self.passed(rank, op, true);
    }

    fn compute(&mut self, rank: u32, op: u32, order: u64) {
        let (cpu, _, line) = self.places(rank, op);
        let free = self.units[cpu].cpu;
        if free > self.now {
            return self.push(free, order, rank, op);
        }
        let until = self.now.saturating_add(self.graph.ops[op as usize].amount);
        self.units[cpu].cpu = until;
        self.next_in_line(COMPUTING, rank, op, line, until);
        self.end(rank, op, true);
    }

    fn send(&mut self, rank: u32, op: u32, order: u64) {
        let (cpu, nic, line) = self.places(rank, op);
        let free = self.units[cpu].cpu.max(self.units[nic].nic[0]);
        if free > self.now {
            return self.push(free, order, rank, op);
        }
        let Parameters { latency, overhead, gap, gap_per_byte, overhead_per_byte, eager } = self.parameters;
        let bytes = self.graph.ops[op as usize].amount;
        let started = self.now.saturating_add(overhead.as_ps());
        let cpu_until = after(started, bytes, overhead_per_byte);
        let nic_until = after(self.now.saturating_add(gap.as_ps()), bytes, gap_per_byte);
        self.units[cpu].cpu = cpu_until;
        self.units[nic].nic[0] = nic_until;
        self.next_in_line(SENDING, rank, op, line, cpu_until.max(nic_until));
        self.passed(rank, op, false);
        let order = self.take_order();
        let entry = &mut self.graph.ops[op as usize];
        let target = std::mem::replace(&mut entry.peer, rank);
        (entry.what, entry.start, entry.order) = (What::Message, self.now, order);
        self.push(started.saturating_add(latency.as_ps()), order, target, op);
        if bytes <= eager.get() {
            self.end(rank, op, false);
        }
    }

    fn receive(&mut self, rank: u32, op: u32, starts: &[u32]) -> Result<(), Box<ReplayError>> {
        self.passed(rank, op, false);
        let unit = self.first_unit(rank);
        match self.take_match(unit, |unit| &mut unit.unexpected, op) {
            Some(message) => {
                self.matched(message);
                self.arrived(rank, message, op, starts)?;
                self.end(rank, op, false);
            }
            None => {
                self.append(unit, |unit| &mut unit.posted, op);
            }
        }
        Ok(())
    }

    fn message(&mut self, rank: u32, op: u32, order: u64, starts: &[u32]) -> Result<(), Box<ReplayError>> {
        let (cpu, nic, line) = self.places(rank, op);
        let first_time = self.graph.ops[op as usize].what == What::Message;
        let free = self.units[cpu].cpu.max(self.units[nic].nic[1]);
        if first_time && (free > self.now || self.units[line].lines[RECEIVING].first != NONE) {
            self.graph.ops[op as usize].what = What::Arrived;
            self.stand_in_line(RECEIVING, rank, op, order, line, free);
            return Ok(());
        }
        if free > self.now {
            self.push(free, order, rank, op);
            return Ok(());
        }
        let Parameters { overhead, gap, gap_per_byte, overhead_per_byte, .. } = self.parameters;
        let bytes = self.graph.ops[op as usize].amount;
        let cpu_until = after(self.now.saturating_add(overhead.as_ps()), bytes, overhead_per_byte.max(gap_per_byte));
        let nic_until = after(self.now.saturating_add(gap.as_ps()), bytes, gap_per_byte);
        self.units[cpu].cpu = cpu_until;
        self.units[nic].nic[1] = nic_until;
        if !first_time {
            self.next_in_line(RECEIVING, rank, op, line, cpu_until.max(nic_until));
        }
        let unit = self.first_unit(rank);
        match self.take_match(unit, |unit| &mut unit.posted, op) {
            Some(receive) => {
                self.matched(op);
                self.arrived(rank, op, receive, starts)?;
                self.end(rank, receive, false);
            }
            None => {
                self.append(unit, |unit| &mut unit.unexpected, op);
            }
        }
        Ok(())
    }

    /// A message and its receive have met: the end of a rendezvous for the sender, which waited until now.
    fn matched(&mut self, message: u32) {
        let entry = self.graph.ops[message as usize];
        if entry.amount > self.parameters.eager.get() {
            let (cpu, nic, _) = self.places(entry.peer, message);
            let now = self.now;
            self.units[cpu].cpu = self.units[cpu].cpu.max(now);
            self.units[nic].nic[0] = self.units[nic].nic[0].max(now);
            self.end(entry.peer, message, false);
        }
    }

    /// A message is received, `rank` is busy with it until its CPU is free.
    fn arrived(&mut self, rank: u32, message: u32, receive: u32, starts: &[u32]) -> Result<(), Box<ReplayError>> {
        let (cpu, ..) = self.places(rank, message);
        let entry = &self.graph.ops[message as usize];
        let room = self.graph.ops[receive as usize].amount;
        // What a member of a vector collective gets is not in the trace.
        if entry.amount > room && !entry.collective {
            let receive = format!("a receive of {room} B");
            return Err(of_rank(rank, Problem::Truncated { bytes: entry.amount, source_rank: Some(entry.peer), receive }));
        }
        let index = if starts.len() == 2 { 0 } else { starts.partition_point(|&first| first <= rank) - 1 };
        let until = self.units[cpu].cpu.max(self.now);
        let (application, digest) = &mut self.applications[index];
        application.messages += 1;
        application.bytes = application.bytes.checked_add(entry.amount).ok_or_else(|| of_rank(rank, Excess::Bytes))?;
        application.fct.add(SimTime(until - entry.start));
        let what = u64::from(rank) << 32 | u64::from(entry.peer);
        digest.event(SimTime(until), what);
        Ok(())
    }

    fn finish(self, starts: &[u32], failure: Option<String>) -> Outcome {
        let rank_finish: Vec<SimTime> =
            self.units.chunks(self.units_per_rank).map(|units| SimTime(units.iter().map(|unit| unit.cpu).max().unwrap_or(0))).collect();
        let mut digest = Digest::default();
        self.applications.iter().for_each(|(_, part)| digest.word(part.value()));
        let applications = self.applications.into_iter().zip(starts.windows(2)).map(|((mut application, digest), span)| {
            let ranks = &rank_finish[span[0] as usize..span[1] as usize];
            application.finish = ranks.iter().copied().max().unwrap_or_default();
            let left = &self.left[span[0] as usize..span[1] as usize];
            application.unfinished = left.iter().filter(|left| **left > 0).count() as u32;
            application.digest = digest.value();
            application
        });
        Outcome {
            applications: applications.collect(),
            finish: rank_finish.iter().copied().max().unwrap_or_default(),
            rank_finish,
            rank_computing: Vec::new(),
            rank_beside: Vec::new(),
            events: self.events,
            windows: 0,
            totals: None,
            handlers: None,
            rails: Vec::new(),
            background: Vec::new(),
            sent: Default::default(),
            passed: Vec::new(),
            digest: digest.value(),
            seen: None,
            failure,
        }
    }

    /// Nothing can happen any more, and not everything has.
    fn stuck(&self) -> String {
        const SHOWN: usize = 10;
        let mut lines = Vec::new();
        let mut count = 0;
        for (rank, unit) in self.units.iter().step_by(self.units_per_rank).enumerate() {
            let name = |number: u32| if number == ANY { String::from("any") } else { number.to_string() };
            for (line, what) in [(unit.posted, "waits for a message from"), (unit.unexpected, "has not received a message from")] {
                let mut op = line.first;
                while op != NONE {
                    let wanted = &self.graph.ops[op as usize];
                    count += 1;
                    if lines.len() < SHOWN {
                        lines.push(format!("  rank {rank} {what} rank {}, tag {}", name(wanted.peer), name(wanted.tag)));
                    }
                    op = wanted.next;
                }
            }
        }
        let waiting = self.graph.operations() - self.done;
        if lines.is_empty() {
            let first = (0..self.graph.ops.len() as u32).find(|&op| self.graph.ops[op as usize].waits > 0);
            lines
                .extend(first.map(|op| format!("  an operation of rank {} waits for another one that never ends", self.graph.rank_of(op))));
        }
        if count > lines.len() {
            lines.push(format!("  ... and {} more", count - lines.len()));
        }
        format!("deadlock: nothing can happen any more, {waiting} operations have not ended\n{}", lines.join("\n"))
    }
}

/// Starts to bring an element into the cache, if there is one.
#[inline]
fn prefetch<T>(all: &[T], index: usize) {
    all.get(index).into_iter().for_each(narrows_engine::prefetch);
}

/// `from` and what the bytes behind the first take; a message without bytes takes one byte less than a message of one.
#[inline]
fn after(from: u64, bytes: u64, per_byte: SimTime) -> u64 {
    match bytes {
        0 => from.saturating_sub(per_byte.as_ps()),
        _ => from.saturating_add((bytes - 1).saturating_mul(per_byte.as_ps())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_parameters_and_says_what_is_wrong() {
        assert_eq!("L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535".parse(), Ok(Parameters::default()));
        assert_eq!("L=2500ns".parse(), Ok(Parameters::default()));
        let parameters: Parameters = "G=0.04ns/B, S=8KiB, O = 1ps/B".parse().unwrap();
        assert_eq!((parameters.gap_per_byte, parameters.eager, parameters.overhead_per_byte), (SimTime(40), Bytes(8192), SimTime(1)));
        for (text, part) in [
            ("L", "NAME=VALUE"),
            ("l=1ns", "L, o, g, G, O and S"),
            ("L=1", "L=1"),
            ("G=6ns", "6ns/B"),
            ("S=x", "S=x"),
            ("", "NAME=VALUE"),
            ("L=1ns,,g=1ns", "NAME=VALUE"),
            ("L=1ns,", "NAME=VALUE"),
            ("L=1ns,o=1ns,L=1ns", "L is given twice"),
        ] {
            assert!(text.parse::<Parameters>().unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
