//! One-sided operations as messages, on machines with gateways, which pass nothing else.
//!
//! As libfabric's own providers do it over networks without RDMA: the target's part is done by this library in the
//! target's process, when its program looks for completions. Each piece of an operation is a request, an untagged
//! message with all that is to be written, and an answer, a tagged one with what is fetched; its remote CQ data are the
//! `ni_fail_type`. They have an endpoint of the message layer of their own, one in each process.
//!
//! All operations of such a run go so, those within a module too: atomics of a NIC and of a program are not atomic with
//! each other.

use narrows_message::{Completes, Completion, CompletionKind, MessageConfig, Queue, Receive, Send, Status};
use narrows_portals::{AtomicOperation, Datatype, FailType, ProcessId, apply};

use crate::endpoint::Slots;
use crate::fi;
use crate::messages::Messages;
use crate::port::{self, Port, abi, charge_completion, charge_copy};
use crate::queues::{Address, Table};
use crate::regions::Domain;
use crate::rma::{Piece, Work};

/// Longest piece, bytes. Our own choice: as much as MPICH sends at once in its active messages.
pub const PIECE: u64 = 16 << 10;

/// Requests that are received at a time. What finds no place waits as any unexpected message.
const ROOMS: usize = 8;

/// Bytes of the words before the data of a request.
const HEADER: usize = 5 * 8;
/// Bytes of an operand to compare with, behind the data.
const OPERAND: usize = 32;

/// Whose a piece is: the event queue of the endpoint's one-sided half, and the operation's index there.
pub type Owner = (abi::Handle, u64);

/// What an event led to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Pieces that have ended, and how.
    pub ended: Option<(Owner, u32)>,
    /// Memory of this process has changed.
    pub changed: bool,
}

/// What carries one-sided operations, from this process and to it.
#[derive(Debug)]
pub struct Emulated {
    port: Port,
    messages: Messages,
    rooms: Vec<Box<[u8]>>,
    /// Messages whose buffers are not free yet.
    sent: Slots<Vec<u8>>,
    /// Pieces without an answer. The index is its tag.
    asked: Slots<Owner>,
}

/// A request as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    kind: u8,
    operation: u8,
    datatype: u8,
    domain: u32,
    key: u64,
    offset: u64,
    length: u64,
    tag: u64,
}

/// A request that makes no sense.
const UNDELIVERABLE: u32 = FailType::Undeliverable as u32;

const GET: u8 = 0;
const PUT: u8 = 1;
const ATOMIC: u8 = 2;
const FETCH: u8 = 3;

impl Request {
    fn to_bytes(self) -> Vec<u8> {
        let head = u64::from(self.kind) | u64::from(self.operation) << 8 | u64::from(self.datatype) << 16 | u64::from(self.domain) << 32;
        let words = [head, self.key, self.offset, self.length, self.tag];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Request> {
        let mut words = [0; HEADER / 8];
        for (word, bytes) in words.iter_mut().zip(bytes.get(..HEADER)?.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [head, key, offset, length, tag] = words;
        let byte = |at: u32| (head >> at) as u8;
        Some(Request { kind: byte(0), operation: byte(8), datatype: byte(16), domain: (head >> 32) as u32, key, offset, length, tag })
    }

    /// What the region must allow.
    fn access(self) -> u64 {
        match self.kind {
            GET => fi::REMOTE_READ,
            FETCH => fi::REMOTE_READ | fi::REMOTE_WRITE,
            _ => fi::REMOTE_WRITE,
        }
    }

    /// Does it, with the data that came with it: what is fetched, or a `ni_fail_type`.
    fn perform(self, data: &[u8], domains: &Table<Domain>) -> Result<Vec<u8>, u32> {
        let domain = domains.get(self.domain).map_err(|_| FailType::Dropped as u32)?;
        let address = domain.reach(self.key, self.offset, self.length, self.access())?;
        let length = self.length as usize;
        if length == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the program has registered this memory for peers to use, and owns it until it ends that. Nothing else
        // refers to it during this call.
        let memory = unsafe { std::slice::from_raw_parts_mut(address as usize as *mut u8, length) };
        let fetched = if matches!(self.kind, GET | FETCH) { memory.to_vec() } else { Vec::new() };
        charge_copy(self.length);
        if self.kind == GET {
            return Ok(fetched);
        }
        let (source, compare) = data.split_at_checked(length).ok_or(UNDELIVERABLE)?;
        if self.kind == PUT {
            memory.copy_from_slice(source);
            return Ok(fetched);
        }
        let operation = AtomicOperation::from_number(self.operation.into()).ok_or(UNDELIVERABLE)?;
        let datatype = Datatype::from_number(self.datatype.into()).ok_or(UNDELIVERABLE)?;
        let mut operand = [0; OPERAND];
        operand.get_mut(..compare.len()).ok_or(UNDELIVERABLE)?.copy_from_slice(compare);
        apply(operation, datatype, memory, source, &operand);
        Ok(fetched)
    }
}

impl Emulated {
    /// Starts, on this block of portal table entries.
    pub fn open(config: &MessageConfig, port: Port) -> Emulated {
        let messages = Messages::open(config, port.queue, port.base);
        let room = || vec![0; HEADER + PIECE as usize + OPERAND].into_boxed_slice();
        let rooms = std::iter::repeat_with(room).take(ROOMS).collect();
        let mut emulated = Emulated { port, messages, rooms, sent: Slots::default(), asked: Slots::default() };
        (0..ROOMS).for_each(|room| emulated.offer(room));
        emulated
    }

    /// Its event queue.
    pub fn event_queue(&self) -> abi::Handle {
        self.port.queue
    }

    /// See [`Messages::renew`].
    pub fn renew(&self) {
        self.messages.renew();
    }

    /// Gives everything back.
    pub fn close(mut self) {
        for room in 0..ROOMS {
            self.messages.cancel(Queue::Untagged, room as u64);
        }
        self.messages.close();
        self.port.close();
        // Messages may still be on their way from or to such memory: it stays.
        std::mem::forget((self.rooms, self.sent));
    }

    /// Receives a request into a room.
    fn offer(&mut self, room: usize) {
        let place = &self.rooms[room];
        self.messages.receive(Receive {
            queue: Queue::Untagged,
            source: None,
            tag: 0,
            ignore: 0,
            buffer: place.as_ptr() as u64,
            length: place.len() as u64,
            context: room as u64,
            completion: true,
            multi: None,
            execution: 0,
        });
    }

    fn send(&mut self, queue: Queue, target: ProcessId, tag: u64, data: Option<u32>, bytes: Vec<u8>) {
        let (buffer, length) = (bytes.as_ptr() as u64, bytes.len() as u64);
        let context = self.sent.insert(bytes);
        let completes = Completes::BufferFree;
        self.messages.send(Send { queue, target, tag, data, buffer, length, context, inject: false, completes });
    }

    /// Asks the domain of a peer for a piece.
    pub fn ask(&mut self, owner: Owner, to: Address, work: Work, piece: &Piece) {
        let Piece { local, compare, result, remote: offset, key, length } = *piece;
        let (kind, operation, datatype) = match work {
            Work::Get => (GET, 0, 0),
            Work::Put => (PUT, 0, 0),
            Work::Atomic(operation, datatype) => (ATOMIC, operation as u8, datatype as u8),
            Work::Fetch(operation, datatype) | Work::Swap(operation, datatype) => (FETCH, operation as u8, datatype as u8),
            Work::Look(datatype) => (FETCH, AtomicOperation::BitOr as u8, datatype as u8),
        };
        let tag = self.asked.insert(owner);
        let buffer = if work == Work::Get { local } else { result };
        self.messages.receive(Receive {
            queue: Queue::Tagged,
            source: Some(to.process),
            tag,
            ignore: 0,
            buffer,
            length: if work.fetches() { length } else { 0 },
            context: tag,
            completion: true,
            multi: None,
            execution: 0,
        });
        let mut bytes = Request { kind, operation, datatype, domain: to.domain, key, offset, length, tag }.to_bytes();
        match work {
            Work::Get => {}
            Work::Look(_) => bytes.resize(bytes.len() + length as usize, 0),
            _ => append(&mut bytes, local, length),
        }
        if work.compares() {
            // Those have one item.
            append(&mut bytes, compare, length);
        }
        charge_copy(if work == Work::Get { 0 } else { length });
        self.send(Queue::Untagged, to.process, 0, None, bytes);
        // Short messages are over at once.
        while let Some(completion) = self.messages.next_completion() {
            self.sent.remove(completion.context);
        }
    }

    /// An event of its queue.
    pub fn event(&mut self, domains: &Table<Domain>, event: &abi::FullEvent) -> Outcome {
        let mut outcome = Outcome::default();
        self.messages.event(&port::completion(event));
        while let Some(completion) = self.messages.next_completion() {
            match (completion.kind, completion.queue) {
                (CompletionKind::Send, _) => drop(self.sent.remove(completion.context)),
                (CompletionKind::Receive, Queue::Tagged) => {
                    let fail = if completion.status == Status::Ok { completion.data } else { None };
                    outcome.ended = self.asked.remove(completion.context).map(|owner| (owner, fail.unwrap_or(UNDELIVERABLE)));
                }
                (CompletionKind::Receive, Queue::Untagged) if completion.status != Status::Cancelled => {
                    outcome.changed |= self.serve(domains, &completion);
                    self.offer(completion.context as usize);
                }
                _ => {}
            }
        }
        outcome
    }

    /// Does what a peer asks for, and answers. True: memory has changed.
    fn serve(&mut self, domains: &Table<Domain>, completion: &Completion) -> bool {
        charge_completion();
        let bytes = &self.rooms[completion.context as usize][..completion.length as usize];
        let Some(request) = Request::from_bytes(bytes).filter(|_| completion.status == Status::Ok) else { return false };
        let performed = request.perform(&bytes[HEADER..], domains);
        let changed = performed.is_ok() && request.kind != GET;
        let (fail, fetched) = performed.map_or_else(|fail| (fail, Vec::new()), |fetched| (0, fetched));
        self.send(Queue::Tagged, completion.source, request.tag, Some(fail), fetched);
        changed
    }
}

/// Copies memory of the program.
fn append(bytes: &mut Vec<u8>, address: u64, length: u64) {
    if length > 0 {
        // SAFETY: the program gave these bytes to be sent.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(address as usize as *const u8, length as usize) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_the_way() {
        let request =
            Request { kind: FETCH, operation: 17, datatype: 13, domain: 31, key: u64::MAX, offset: 1 << 63, length: PIECE, tag: 9 };
        let bytes = request.to_bytes();
        assert_eq!((bytes.len(), Request::from_bytes(&bytes)), (HEADER, Some(request)));
        assert_eq!(Request::from_bytes(&bytes[1..]), None);
    }
}
