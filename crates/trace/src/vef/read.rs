//! From a VEF file to rank programs.
//!
//! A message becomes a send and a receive with a tag of its own; the receive waits for nothing, as VEF has no receive
//! calls. Records are taken up in an order in which each stands behind what it depends on: a record that refers to a
//! later one is held back until that one is there, and the parts of a collective until all of them are. That order is
//! what makes the program [`Order::Causal`], and what a record refers to is an earlier operation always.

use super::table::{Entry, Table};
use crate::Communicators;
use crate::error::{TraceError, expected, found};
use crate::lines::{self, Complain, Lines, Words, show};
use crate::meetings::{self, Contradiction};
use crate::operation::{Collective, CollectiveCall, Dependency, Kind, Operation, Order};
use crate::spool::{Spool, Stored};
use narrows_units::{Bytes, Excess, PS_PER_NS, SimTime};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::BufRead;
use std::path::Path;

/// Most tasks.
const MAX_TASKS: u64 = 1 << 24;
/// Collectives of a task on one communicator that are so few operations apart start in their order for sure. Less than
/// what an ideal machine remembers.
const ORDERED: u64 = 32;
/// How many collectives of its own a task may refer back over. Keeping all would need memory for records.
const REMEMBERED: usize = 64;
/// Tags of MPI are not negative 32-bit numbers.
const TAG_MASK: u64 = 0x7fff_ffff;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The first word: VEF and a version.
    pub version: String,
    /// Number of tasks.
    pub tasks: u32,
    /// Number of messages.
    pub messages: u64,
    /// Number of communicators.
    pub communicators: u64,
    /// Number of collective operations.
    pub collectives: u64,
    /// Number of parts in collective operations: collective lines.
    pub parts: u64,
    /// The last number of a VEF3 header. What it says is not public; times are read as nanoseconds all the same.
    pub clock: Option<u64>,
}

/// Reads a VEF file; `path` is for messages.
///
/// # Errors
/// Whatever `complain` makes of mistakes, a line that is no header, or a file that cannot be read.
pub fn read(path: &Path, input: impl BufRead, complain: &mut Complain<'_>) -> Result<(Header, Stored), TraceError> {
    let mut lines = Lines::new(path, input);
    if !lines.advance()? {
        return Err(lines.whole(expected("a VEF header, but the file is empty")));
    }
    let header = header(lines.line()).map_err(|error| lines.malformed(error))?;
    let mut reader = Reader {
        spool: Spool::new(header.tasks)?,
        communicators: Communicators::world(header.tasks),
        queues: Vec::new(),
        table: Table::default(),
        recent: vec![VecDeque::new(); header.tasks as usize],
        waiting: HashMap::new(),
        collectives: HashMap::new(),
        missing: BTreeSet::new(),
        last: HashMap::new(),
        placed: HashMap::new(),
        next_message: 0,
        next_collective: 0,
        parts: 0,
        mistakes: Vec::new(),
    };
    let mut wrong = 0u64;
    for number in 0..header.communicators {
        if !lines.advance()? {
            return Err(lines.whole(expected(format!("the line of communicator C{number}, but the file ends"))));
        }
        reader.communicator(number, &header, lines.line()).map_err(|error| lines.malformed(error))?;
    }
    while lines.advance()? {
        if let Err(error) = reader.record(lines.line(), lines.number()) {
            reader.mistakes.insert(0, (lines.number(), error));
        }
        for (line, error) in std::mem::take(&mut reader.mistakes) {
            wrong += 1;
            lines.tell_at(line, error, complain)?;
        }
    }
    // A record that was refused leaves others waiting: they would be noise.
    if wrong == 0 {
        for (line, error) in reader.leftovers(&header) {
            lines.tell_at(line, error, complain)?;
        }
    }
    let stored = reader.spool.finish(reader.communicators, Order::Causal)?;
    Ok((header, stored))
}

fn header(line: &[u8]) -> Result<Header, TraceError> {
    let mut words = Words::new(line);
    let version = words.word("VEF")?;
    if !version.starts_with(b"VEF") {
        return Err(found("a header that begins with VEF", show(version)));
    }
    let header = Header {
        version: String::from_utf8_lossy(version).into_owned(),
        tasks: words.number("the number of tasks", MAX_TASKS)? as u32,
        messages: words.number("the number of messages", u64::MAX)?,
        communicators: words.number("the number of communicators", u64::from(u32::MAX))?,
        collectives: words.number("the number of collectives", u64::MAX)?,
        parts: words.number("the number of parts in collectives", u64::MAX)?,
        clock: None,
    };
    let flag = words.word("TRUE")?;
    if flag != b"TRUE" {
        return Err(found("TRUE (all point-to-point dependencies are those of the send)", show(flag)));
    }
    let clock = words.next().map(|word| lines::number(word, "the clock", u64::MAX)).transpose()?;
    words.end()?;
    if header.tasks == 0 {
        return Err(found("at least one task", "0"));
    }
    if header.communicators == 0 && header.collectives > 0 {
        return Err(found("a communicator for the collectives", "0"));
    }
    Ok(Header { clock, ..header })
}

/// What a record waits for, in its own task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Need {
    Nothing,
    Sent(u64),
    Received(u64),
    Part(u64),
}

/// What has to be taken up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Message(u64),
    Collective(u64),
}

#[derive(Clone, Copy, Debug)]
struct Message {
    line: u64,
    id: u64,
    source: u32,
    destination: u32,
    bytes: Bytes,
    delay: SimTime,
    need: Need,
}

#[derive(Clone, Copy, Debug)]
struct CollectiveLine {
    line: u64,
    task: u32,
    position: u32,
    send: u64,
    receive: u64,
    delay: SimTime,
    need: Need,
}

#[derive(Debug)]
struct Gathering {
    communicator: u32,
    code: u8,
    /// Place among the collectives of its communicator.
    sequence: u64,
    parts: Vec<CollectiveLine>,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    Message(Message),
    Collective(u64),
}

struct Reader {
    spool: Spool,
    communicators: Communicators,
    /// Per communicator: collectives that are not taken up yet, in order, and how many there have been.
    queues: Vec<(VecDeque<u64>, u64)>,
    table: Table,
    /// Per task: its last collectives and their numbers in its program.
    recent: Vec<VecDeque<(u64, u64)>>,
    waiting: HashMap<Key, Vec<Held>>,
    collectives: HashMap<u64, Gathering>,
    /// Collectives below `next_collective` of which no line has come.
    missing: BTreeSet<u64>,
    /// Last place among the collectives of a communicator, per communicator and task.
    last: HashMap<(u32, u32), u64>,
    /// The same, its number in the program of the task.
    placed: HashMap<(u32, u32), u64>,
    next_message: u64,
    next_collective: u64,
    parts: u64,
    /// Found in records that were held back.
    mistakes: Vec<(u64, TraceError)>,
}

impl Reader {
    fn communicator(&mut self, number: u64, header: &Header, line: &[u8]) -> Result<(), TraceError> {
        let mut words = Words::new(line);
        let name = words.word("a communicator")?;
        if name.strip_prefix(b"C") != Some(number.to_string().as_bytes()) {
            return Err(found(format!("communicator C{number}"), show(name)));
        }
        let max = u64::from(header.tasks) - 1;
        let members = words.map(|word| lines::number(word, "a task", max).map(|task| task as u32)).collect::<Result<Vec<u32>, _>>()?;
        let count = members.len();
        if number > 0 {
            self.communicators.add(members).ok_or_else(|| expected(format!("C{number} to have members, each once")))?;
        } else {
            // In whatever order: collective lines name tasks, not positions.
            let mut check = Communicators::world(header.tasks);
            if count as u64 != u64::from(header.tasks) || check.add(members).is_none() {
                return Err(found(format!("C0 to have all {} tasks, each once", header.tasks), format_args!("{count} members")));
            }
        }
        self.queues.push((VecDeque::new(), 0));
        Ok(())
    }

    fn record(&mut self, line: &[u8], number: u64) -> Result<(), TraceError> {
        let mut words = Words::new(line);
        let Some(first) = words.next() else { return Ok(()) };
        match first.strip_prefix(b"G") {
            Some(id) => self.part(id, words, number),
            None => self.message(first, words, number),
        }
    }

    fn message(&mut self, id: &[u8], mut words: Words<'_>, line: u64) -> Result<(), TraceError> {
        let id = lines::number(id, "a message ID or G and a collective ID", u64::MAX - 1)?;
        let next = self.next_message;
        // One mistake, not one per line that follows.
        self.next_message = self.next_message.max(id + 1);
        if id != next {
            return Err(found(format!("message {next} (IDs count up from 0)"), id));
        }
        let max = self.recent.len() as u64 - 1;
        let source = words.number("the source task", max)? as u32;
        let destination = words.number("the destination task", max)? as u32;
        let bytes = Bytes(words.number("bytes", Bytes::MESSAGE_MAX.0)?);
        let (need, delay) = dependency(&mut words)?;
        if matches!(need, Need::Sent(other) | Need::Received(other) if other == id) {
            return Err(expected(format!("a dependency on another message than {id} itself")));
        }
        self.offer(Held::Message(Message { line, id, source, destination, bytes, delay, need }))
    }

    fn part(&mut self, id: &[u8], mut words: Words<'_>, line: u64) -> Result<(), TraceError> {
        let id = lines::number(id, "the ID of a collective behind G", u64::MAX - 1)?;
        let communicator = words.number("a communicator", (self.queues.len() as u64).saturating_sub(1))? as u32;
        let code = words.number("the operation", 7)? as u8;
        let task = words.number("a task", self.recent.len() as u64 - 1)? as u32;
        let send = words.number("bytes to send", Bytes::MESSAGE_MAX.0)?;
        let receive = words.number("bytes to receive", Bytes::MESSAGE_MAX.0)?;
        let (need, delay) = dependency(&mut words)?;
        if self.queues.is_empty() {
            return Err(expected("no collective in a trace without communicators"));
        }
        let Some(position) = self.communicators.position(communicator, task) else {
            return Err(found(format!("a task of C{communicator}"), task));
        };
        if need == Need::Part(id) {
            return Err(expected(format!("a dependency on another collective than G{id} itself")));
        }
        if id >= self.next_collective {
            if id - self.next_collective > 1 << 20 {
                return Err(found(format!("collective G{} or one soon after", self.next_collective), format_args!("G{id}")));
            }
            self.missing.extend(self.next_collective..id);
            self.next_collective = id + 1;
            self.begin(id, communicator, code);
        } else if self.missing.remove(&id) {
            self.begin(id, communicator, code);
        }
        let Some(gathering) = self.collectives.get_mut(&id) else {
            return Err(expected(format!("no more parts of G{id}: all its tasks have theirs")));
        };
        if (gathering.communicator, gathering.code) != (communicator, code) {
            let (other, before) = (gathering.communicator, gathering.code);
            let what = format!("operation {before} on C{other} as in the other lines of G{id}");
            return Err(found(what, format_args!("{code} on C{communicator}")));
        }
        let last = self.last.entry((communicator, task)).or_default();
        if gathering.sequence <= *last {
            let what = format!("each task once in G{id}, and the collectives of C{communicator} in the same order everywhere");
            return Err(expected(what));
        }
        *last = gathering.sequence;
        gathering.parts.push(CollectiveLine { line, task, position, send, receive, delay, need });
        self.parts += 1;
        self.offer(Held::Collective(id))
    }

    fn begin(&mut self, id: u64, communicator: u32, code: u8) {
        let (queue, count) = &mut self.queues[communicator as usize];
        queue.push_back(id);
        *count += 1;
        self.collectives.insert(id, Gathering { communicator, code, sequence: *count, parts: Vec::new() });
    }

    /// Takes up what can be taken up, and all that waited for it.
    fn offer(&mut self, held: Held) -> Result<(), TraceError> {
        let mut ready = VecDeque::from([held]);
        while let Some(held) = ready.pop_front() {
            let done = match held {
                Held::Message(message) => match self.emit_message(message) {
                    Ok(done) => done,
                    Err(error) => {
                        self.mistakes.push((message.line, error));
                        continue;
                    }
                },
                Held::Collective(id) => self.emit_collective(id)?,
            };
            if let Some(Done { key, next }) = done {
                ready.extend(self.waiting.remove(&key).unwrap_or_default());
                ready.extend(next.map(Held::Collective));
            }
        }
        Ok(())
    }

    /// `None` if it has to wait.
    fn emit_message(&mut self, message: Message) -> Result<Option<Done>, TraceError> {
        let Message { id, source, destination, bytes, .. } = message;
        let after = match self.resolve(source, message.need)? {
            Ok(after) => after,
            Err(key) => {
                self.waiting.entry(key).or_default().push(Held::Message(message));
                return Ok(None);
            }
        };
        let tag = (id & TAG_MASK) as u32;
        let send = Operation { delay: message.delay, ..Operation::new(Kind::Send { to: destination, bytes, tag }) };
        let receive = Operation::new(Kind::Receive { from: Some(source), bytes, tag: Some(tag) });
        let send = self.spool.push(source, &send, after.as_slice())?;
        let receive = self.spool.push(destination, &receive, &[])?;
        self.table.set(id, Entry { source, destination, send, receive })?;
        Ok(Some(Done { key: Key::Message(id), next: None }))
    }

    /// The operation to wait for, or what has to come first.
    fn resolve(&self, task: u32, need: Need) -> Result<Result<Option<Dependency>, Key>, TraceError> {
        let operation = match need {
            Need::Nothing => return Ok(Ok(None)),
            Need::Sent(id) | Need::Received(id) => {
                let Some(entry) = self.table.get(id)? else { return Ok(Err(Key::Message(id))) };
                match need {
                    Need::Sent(_) if entry.source == task => entry.send,
                    Need::Received(_) if entry.destination == task => entry.receive,
                    Need::Sent(_) => {
                        let what = format!("task {task} to depend on a message that it sends; task {} sends message {id}", entry.source);
                        return Err(expected(what));
                    }
                    _ => {
                        let receiver = entry.destination;
                        let what = format!("task {task} to depend on a message that it receives; task {receiver} receives message {id}");
                        return Err(expected(what));
                    }
                }
            }
            Need::Part(id) => {
                if id >= self.next_collective || self.missing.contains(&id) || self.collectives.contains_key(&id) {
                    return Ok(Err(Key::Collective(id)));
                }
                match self.recent[task as usize].iter().rev().find(|(other, _)| *other == id) {
                    Some((_, operation)) => *operation,
                    None => {
                        let what = format!("task {task} to depend on one of its last {REMEMBERED} collectives");
                        return Err(found(what, format_args!("G{id}")));
                    }
                }
            }
        };
        Ok(Ok(Some(Dependency::done(operation))))
    }

    fn emit_collective(&mut self, id: u64) -> Result<Option<Done>, TraceError> {
        let Some(gathering) = self.collectives.get(&id) else { return Ok(None) };
        let communicator = gathering.communicator;
        let size = self.communicators.size(communicator).unwrap_or(0);
        if (gathering.parts.len() as u64) < u64::from(size) || self.queues[communicator as usize].0.front() != Some(&id) {
            return Ok(None);
        }
        let mut after = Vec::with_capacity(gathering.parts.len());
        for part in &gathering.parts {
            match self.resolve(part.task, part.need) {
                Ok(Ok(dependency)) => after.push(dependency),
                Ok(Err(key)) => {
                    self.waiting.entry(key).or_default().push(Held::Collective(id));
                    return Ok(None);
                }
                Err(error) => {
                    self.mistakes.push((part.line, error));
                    after.push(None);
                }
            }
        }
        self.queues[communicator as usize].0.pop_front();
        let Some(gathering) = self.collectives.remove(&id) else { return Ok(None) };
        let call = call(id, &gathering, size).unwrap_or_else(|error| {
            self.mistakes.push((gathering.parts[0].line, error));
            CollectiveCall { operation: Collective::Barrier, communicator, root: 0, send: Bytes(0), receive: Bytes(0), element: Bytes(0) }
        });
        let mut first = None;
        for (part, after) in gathering.parts.iter().zip(after) {
            let (send, receive) = volumes(call.operation, part, call.root, size, gathering.code).unwrap_or_else(|excess| {
                self.mistakes.push((part.line, excess.into()));
                (Bytes(0), Bytes(0))
            });
            let call = CollectiveCall { send, receive, ..call };
            let said = meetings::CollectivePart { rank: part.task, operation: self.spool.operations(part.task), call };
            if let Some(contradiction) = Contradiction::between(*first.get_or_insert(said), said) {
                self.mistakes.push((part.line, TraceError::from(Box::new(contradiction)).within(format!("G{id}"))));
            }
            let operation = Operation { delay: part.delay, ..Operation::new(Kind::Collective(call)) };
            let before = self.placed.get(&(communicator, part.task)).copied();
            let own = self.spool.operations(part.task);
            // One dependency does not say that it comes behind the one before: it may start with a message that comes
            // early.
            let behind = before.filter(|before| own - before <= ORDERED).map(Dependency::started);
            let after = match (after, behind) {
                (Some(after), Some(behind)) if after.operation != behind.operation => vec![after, behind],
                (None, Some(behind)) => vec![behind],
                _ => after.into_iter().collect(),
            };
            let number = match self.spool.push(part.task, &operation, &after) {
                Ok(number) => number,
                Err(error) => {
                    self.mistakes.push((part.line, error));
                    continue;
                }
            };
            self.placed.insert((communicator, part.task), number);
            let recent = &mut self.recent[part.task as usize];
            if recent.len() == REMEMBERED {
                recent.pop_front();
            }
            recent.push_back((id, number));
        }
        // The next one of this communicator may have been complete before.
        let next = self.queues[communicator as usize].0.front().copied();
        Ok(Some(Done { key: Key::Collective(id), next }))
    }

    /// What does not add up at the end, by lines.
    fn leftovers(&self, header: &Header) -> Vec<(u64, TraceError)> {
        let mut mistakes = Vec::new();
        // Sorted below.
        #[allow(clippy::iter_over_hash_type)]
        for gathering in self.collectives.values() {
            let size = self.communicators.size(gathering.communicator).unwrap_or(0);
            let (count, first) = (gathering.parts.len(), gathering.parts[0].line);
            if (count as u64) < u64::from(size) {
                mistakes.push((first, found(format!("a line of each of the {size} tasks of C{}", gathering.communicator), count)));
            }
        }
        for (key, held) in self.waiting.iter().flat_map(|(key, held)| held.iter().map(move |held| (key, held))) {
            let name = match key {
                Key::Message(id) => format!("message {id}"),
                Key::Collective(id) => format!("collective G{id}"),
            };
            let line = match held {
                Held::Message(message) => message.line,
                Held::Collective(id) => self.collectives.get(id).map_or(1, |gathering| gathering.parts[0].line),
            };
            let there = match key {
                Key::Message(id) => *id < self.next_message,
                Key::Collective(id) => self.collectives.contains_key(id),
            };
            mistakes.push(match there {
                false => (line, expected(format!("a dependency on a record of this file; {name} is not in it"))),
                true => (line, expected(format!("dependencies without a circle; {name} never gets its turn"))),
            });
        }
        let counts = [
            ("messages", header.messages, self.next_message),
            ("collectives", header.collectives, self.next_collective - self.missing.len() as u64),
            ("parts in collectives", header.parts, self.parts),
        ];
        for (what, promised, counted) in counts {
            if promised != counted {
                mistakes.push((1, found(format!("{promised} {what} as the header says"), counted)));
            }
        }
        mistakes.sort_by_cached_key(|(line, error)| (*line, error.to_string()));
        mistakes
    }
}

/// A record that has been taken up.
struct Done {
    key: Key,
    /// A collective that may go on now.
    next: Option<u64>,
}

/// Dep, time, IDdep, and the end of the line.
fn dependency(words: &mut Words<'_>) -> Result<(Need, SimTime), TraceError> {
    // The bit above the kind marks a message as IDdep in newer traces; for kinds 1 and 2 it says nothing new.
    let kind = words.number("Dep, 0 to 3 (plus 4)", 7)? & 3;
    let delay = words.time("a time in ns", PS_PER_NS)?;
    let other = words.word("IDdep")?;
    words.end()?;
    let need = match kind {
        0 if other == b"-1" => Need::Nothing,
        0 => return Err(found("IDdep -1 for Dep 0", show(other))),
        1 => Need::Sent(lines::number(other, "the ID of a message", u64::MAX - 1)?),
        2 => Need::Received(lines::number(other, "the ID of a message", u64::MAX - 1)?),
        _ => {
            let id = other.strip_prefix(b"G").ok_or_else(|| found("G and the ID of a collective", show(other)))?;
            Need::Part(lines::number(id, "the ID of a collective behind G", u64::MAX - 1)?)
        }
    };
    Ok((need, delay))
}

/// Which collective the lines of one ID are. VEF names no root: it is the one whose sizes differ (with size 0: the
/// first).
fn call(id: u64, gathering: &Gathering, size: u32) -> Result<CollectiveCall, TraceError> {
    let parts = &gathering.parts;
    let n = u64::from(size);
    let single = |is_root: &dyn Fn(&CollectiveLine) -> bool| {
        let mut roots = parts.iter().filter(|part| is_root(part));
        match (roots.next(), roots.next()) {
            (root, None) => Ok(root.map_or(0, |part| part.position)),
            (_, Some(_)) => Err(found(format!("sizes that leave one root for G{id}"), "several")),
        }
    };
    let all = |same: &dyn Fn(&CollectiveLine) -> bool| parts.iter().all(same);
    let first = parts[0];
    let (operation, root) = match gathering.code {
        0 => (Collective::Broadcast, single(&|part| part.send > 0)?),
        1 => (Collective::Reduce, single(&|part| part.receive > 0)?),
        2 => (Collective::Allreduce, 0),
        3 => {
            let root = single(&|part| part.receive > 0)?;
            let even = all(&|part| part.send == first.send && (part.position != root || Some(part.receive) == n.checked_mul(first.send)));
            (if even { Collective::Gather } else { Collective::Gatherv }, root)
        }
        4 => {
            let root = single(&|part| part.send > 0)?;
            let each = parts.iter().find(|part| part.position == root).map_or(0, |part| part.send) / n;
            let even = all(&|part| {
                if part.position == root {
                    part.send == n * each && (part.receive == each || part.receive == 0)
                } else {
                    part.receive == each
                }
            });
            (if even { Collective::Scatter } else { Collective::Scatterv }, root)
        }
        5 => {
            let even = all(&|part| part.send == first.send && Some(part.receive) == n.checked_mul(first.send));
            (if even { Collective::Allgather } else { Collective::Allgatherv }, 0)
        }
        6 => (Collective::Barrier, 0),
        _ => {
            if let Some(part) = parts.iter().find(|part| part.receive > 1) {
                return Err(found("0 (the same for all) or 1 (a total) behind the bytes of an all-to-all", part.receive));
            }
            let even = all(&|part| part.send == first.send && part.receive == 0);
            (if even { Collective::Alltoall } else { Collective::Alltoallv }, 0)
        }
    };
    Ok(CollectiveCall { operation, communicator: gathering.communicator, root, send: Bytes(0), receive: Bytes(0), element: Bytes(0) })
}

/// Bytes in the send and receive buffers ([`Collective`]) from those of a line.
fn volumes(operation: Collective, part: &CollectiveLine, root: u32, size: u32, code: u8) -> Result<(Bytes, Bytes), Excess> {
    let n = u64::from(size);
    let (send, receive) = (Bytes(part.send), Bytes(part.receive));
    let all = || send.checked_mul(n);
    Ok(match operation {
        Collective::Barrier => (Bytes(0), Bytes(0)),
        Collective::Reduce if part.position == root => (receive, receive),
        Collective::Scatter if part.position == root => (send, Bytes(part.send / n)),
        Collective::Alltoall => (all()?, all()?),
        // The total, or the same to each beside others that send something else. What comes in is not written.
        Collective::Alltoallv if code == 7 => (if part.receive == 0 { all()? } else { send }, Bytes(0)),
        _ => (send, receive),
    })
}
