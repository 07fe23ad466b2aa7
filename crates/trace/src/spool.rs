//! Rank programs on disk: written operation by operation in any order of ranks, read back rank by rank.
//!
//! A trace file holds the operations of all ranks in an order of its own. Readers put them into a spool, a temporary
//! file (in `$TMPDIR`, without a name) of chunks, each with operations of one rank and the number of that rank's next
//! chunk. Writing and reading keep one chunk per rank in memory: 1 KiB. An operation takes 4 to 20 bytes.

use crate::limits::Limits;
use crate::operation::{Collective, CollectiveCall, Dependency, Event, Kind, Operation, Order, Program};
use crate::{Communicators, TraceError};
use narrows_units::{Bytes, SimTime};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A chunk with its header. Small enough for one per rank at 32,768 ranks (32 MiB), large enough that a system call per
/// chunk does not count (some 100 operations).
const CHUNK: usize = 1024;
/// Number of the next chunk (8 bytes), bytes of payload (2).
const HEADER: usize = 10;
/// "None" as a chunk number.
const NO_CHUNK: u64 = u64::MAX;

/// A program that is being written.
#[derive(Debug)]
pub struct Spool {
    file: File,
    chunks: u64,
    ranks: Vec<Tail>,
    limits: Limits,
}

#[derive(Debug)]
struct Tail {
    first: u64,
    /// Where `bytes` will go.
    chunk: u64,
    bytes: Vec<u8>,
}

impl Spool {
    /// An empty program for this many ranks.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub fn new(ranks: u32) -> Result<Spool, TraceError> {
        let file = tempfile::tempfile().map_err(TraceError::temporary)?;
        let tails = (0..ranks).map(|_| Tail { first: NO_CHUNK, chunk: NO_CHUNK, bytes: Vec::new() }).collect();
        Ok(Spool { file, chunks: 0, ranks: tails, limits: Limits::new(ranks) })
    }

    /// How many operations this rank has so far: the number of the next one.
    pub fn operations(&self, rank: u32) -> u64 {
        self.limits.operations(rank)
    }

    /// Appends an operation; its number.
    ///
    /// # Errors
    /// [`TraceError::Excess`], after which the operation is not in it; or the temporary file cannot be written.
    ///
    /// # Panics
    /// If there is no such rank, or a dependency is not an earlier operation.
    pub fn push(&mut self, rank: u32, operation: &Operation, after: &[Dependency]) -> Result<u64, TraceError> {
        let number = self.limits.operations(rank);
        self.limits.add(rank, operation)?;
        let tail = &mut self.ranks[rank as usize];
        encode(&mut tail.bytes, number, operation, after);
        while tail.bytes.len() > CHUNK - HEADER {
            if tail.chunk == NO_CHUNK {
                tail.chunk = self.chunks;
                tail.first = self.chunks;
                self.chunks += 1;
            }
            let next = self.chunks;
            self.chunks += 1;
            write_chunk(&self.file, tail.chunk, next, &tail.bytes[..CHUNK - HEADER])?;
            tail.chunk = next;
            tail.bytes.drain(..CHUNK - HEADER);
        }
        Ok(number)
    }

    /// The program, to be read.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub fn finish(self, communicators: Communicators, order: Order) -> Result<Stored, TraceError> {
        let Spool { file, mut chunks, mut ranks, limits } = self;
        for tail in &mut ranks {
            if tail.bytes.is_empty() {
                continue;
            }
            if tail.chunk == NO_CHUNK {
                tail.chunk = chunks;
                tail.first = chunks;
                chunks += 1;
            }
            write_chunk(&file, tail.chunk, NO_CHUNK, &tail.bytes)?;
            tail.bytes = Vec::new();
        }
        let mut stored = Stored { file, communicators, order, mpi: None, starts: Vec::new(), ranks: Vec::new() };
        let starts = ranks.iter().zip(0..).map(|(tail, rank)| Start { chunk: tail.first, operations: limits.operations(rank) });
        stored.starts = starts.collect();
        stored.rewind();
        Ok(stored)
    }
}

fn write_chunk(file: &File, chunk: u64, next: u64, payload: &[u8]) -> Result<(), TraceError> {
    let mut bytes = [0; CHUNK];
    bytes[..8].copy_from_slice(&next.to_le_bytes());
    bytes[8..HEADER].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    bytes[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    file.write_all_at(&bytes, chunk * CHUNK as u64).map_err(TraceError::temporary)
}

/// A program in a temporary file.
#[derive(Debug)]
pub struct Stored {
    file: File,
    communicators: Communicators,
    order: Order,
    mpi: Option<String>,
    starts: Vec<Start>,
    ranks: Vec<Head>,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    chunk: u64,
    operations: u64,
}

#[derive(Debug)]
struct Head {
    /// To be read when `bytes` is used up.
    chunk: u64,
    /// Payload of the current chunk.
    bytes: Vec<u8>,
    position: usize,
    operation: u64,
}

impl Stored {
    /// The same program, recorded under this MPI library.
    #[must_use]
    pub fn under(mut self, mpi: Option<String>) -> Stored {
        self.mpi = mpi;
        self
    }

    /// All ranks start over.
    pub fn rewind(&mut self) {
        self.ranks = self.starts.iter().map(|start| Head { chunk: start.chunk, bytes: Vec::new(), position: 0, operation: 0 }).collect();
    }

    /// Operations of a rank.
    pub fn operations(&self, rank: u32) -> u64 {
        self.starts[rank as usize].operations
    }

    /// The operations of all ranks.
    pub fn total(&self) -> u64 {
        self.starts.iter().map(|start| start.operations).sum()
    }

    /// The largest number of operations of a rank.
    pub fn longest(&self) -> u64 {
        self.starts.iter().map(|start| start.operations).max().unwrap_or(0)
    }
}

impl Program for Stored {
    fn ranks(&self) -> u32 {
        self.starts.len() as u32
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        self.order
    }

    fn mpi(&self) -> Option<&str> {
        self.mpi.as_deref()
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        after.clear();
        let head = &mut self.ranks[rank as usize];
        if head.operation == self.starts[rank as usize].operations {
            head.bytes = Vec::new();
            return Ok(None);
        }
        let mut source = Source { head, file: &self.file };
        let operation = source.decode(after)?;
        head.operation += 1;
        Ok(Some(operation))
    }
}

// The first byte of an operation: what it does (bits 0 to 2) and what follows.
const COMPUTE: u8 = 0;
const SEND: u8 = 1;
const RECEIVE: u8 = 2;
const COLLECTIVE: u8 = 3;
const KIND: u8 = 0b111;
const HAS_DELAY: u8 = 1 << 3;
const HAS_UNITS: u8 = 1 << 4;
/// Dependencies (bits 5 and 6): none, the end or start of the operation before, or a list.
const AFTER: u8 = 0b11 << 5;
const AFTER_DONE: u8 = 1 << 5;
const AFTER_STARTED: u8 = 2 << 5;
const AFTER_LIST: u8 = 3 << 5;

fn encode(bytes: &mut Vec<u8>, number: u64, operation: &Operation, after: &[Dependency]) {
    let first = bytes.len();
    bytes.push(0);
    let mut code = match operation.kind {
        Kind::Compute { duration } => {
            put(bytes, duration.0);
            COMPUTE
        }
        Kind::Send { to, bytes: Bytes(size), tag } => {
            put(bytes, u64::from(to));
            put(bytes, size);
            put(bytes, u64::from(tag));
            SEND
        }
        Kind::Receive { from, bytes: Bytes(size), tag } => {
            put(bytes, from.map_or(0, |from| u64::from(from) + 1));
            put(bytes, size);
            put(bytes, tag.map_or(0, |tag| u64::from(tag) + 1));
            RECEIVE
        }
        Kind::Collective(call) => {
            bytes.push(call.operation as u8);
            put(bytes, u64::from(call.communicator));
            put(bytes, u64::from(call.root));
            put(bytes, call.send.0);
            put(bytes, call.receive.0);
            put(bytes, call.element.0);
            COLLECTIVE
        }
    };
    if operation.delay > SimTime::ZERO {
        code |= HAS_DELAY;
        put(bytes, operation.delay.0);
    }
    if operation.cpu != 0 || operation.nic != 0 {
        code |= HAS_UNITS;
        bytes.extend([operation.cpu, operation.nic]);
    }
    let back = |dependency: &Dependency| {
        assert!(dependency.operation < number, "operation {number} depends on {}", dependency.operation);
        number - dependency.operation
    };
    code |= match after {
        [] => 0,
        [one] if back(one) == 1 && one.event == Event::Done => AFTER_DONE,
        [one] if back(one) == 1 => AFTER_STARTED,
        _ => {
            put(bytes, after.len() as u64);
            for dependency in after {
                put(bytes, back(dependency) << 1 | u64::from(dependency.event == Event::Done));
            }
            AFTER_LIST
        }
    };
    bytes[first] = code;
}

/// LEB128.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Source<'a> {
    head: &'a mut Head,
    file: &'a File,
}

impl Source<'_> {
    fn byte(&mut self) -> Result<u8, TraceError> {
        if self.head.position == self.head.bytes.len() {
            self.head.bytes.resize(CHUNK, 0);
            let place = self.head.chunk * CHUNK as u64;
            self.file.read_exact_at(&mut self.head.bytes, place).map_err(TraceError::temporary)?;
            let header = &self.head.bytes[..HEADER];
            self.head.chunk = u64::from_le_bytes(header[..8].try_into().expect("eight bytes"));
            let length = u16::from_le_bytes(header[8..].try_into().expect("two bytes"));
            self.head.bytes.truncate(HEADER + usize::from(length));
            self.head.position = HEADER;
        }
        let byte = self.head.bytes[self.head.position];
        self.head.position += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, TraceError> {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    fn decode(&mut self, after: &mut Vec<Dependency>) -> Result<Operation, TraceError> {
        let code = self.byte()?;
        let kind = match code & KIND {
            COMPUTE => Kind::Compute { duration: SimTime(self.number()?) },
            SEND => Kind::Send { to: self.number()? as u32, bytes: Bytes(self.number()?), tag: self.number()? as u32 },
            RECEIVE => {
                let from = self.number()?.checked_sub(1).map(|from| from as u32);
                let bytes = Bytes(self.number()?);
                Kind::Receive { from, bytes, tag: self.number()?.checked_sub(1).map(|tag| tag as u32) }
            }
            _ => Kind::Collective(CollectiveCall {
                operation: Collective::ALL[usize::from(self.byte()?)],
                communicator: self.number()? as u32,
                root: self.number()? as u32,
                send: Bytes(self.number()?),
                receive: Bytes(self.number()?),
                element: Bytes(self.number()?),
            }),
        };
        let delay = if code & HAS_DELAY != 0 { SimTime(self.number()?) } else { SimTime::ZERO };
        let (cpu, nic) = if code & HAS_UNITS != 0 { (self.byte()?, self.byte()?) } else { (0, 0) };
        let number = self.head.operation;
        match code & AFTER {
            AFTER_DONE => after.push(Dependency::done(number - 1)),
            AFTER_STARTED => after.push(Dependency::started(number - 1)),
            AFTER_LIST => {
                for _ in 0..self.number()? {
                    let value = self.number()?;
                    let event = if value & 1 != 0 { Event::Done } else { Event::Started };
                    after.push(Dependency { operation: number - (value >> 1), event });
                }
            }
            _ => {}
        }
        Ok(Operation { kind, delay, cpu, nic })
    }
}
