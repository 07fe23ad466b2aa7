//! What endpoints share: address vectors, completion queues, counters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::c_void;

use narrows_portals::ProcessId;

use crate::emulated::Emulated;
use crate::fi::{self, Errno};
use crate::regions::MAX_DOMAINS;

/// Values by small index; the lowest free one is used again.
#[derive(Debug)]
pub struct Table<T>(Vec<Option<T>>);

impl<T> Table<T> {
    /// Empty.
    pub const fn new() -> Table<T> {
        Table(Vec::new())
    }

    /// Keeps a value.
    pub fn insert(&mut self, value: T) -> u32 {
        let index = self.0.iter().position(Option::is_none).unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[index] = Some(value);
        index as u32
    }

    /// The value at an index.
    pub fn get(&self, index: u32) -> Result<&T, Errno> {
        self.0.get(index as usize).and_then(Option::as_ref).ok_or(fi::EINVAL)
    }

    /// The value at an index.
    pub fn get_mut(&mut self, index: u32) -> Result<&mut T, Errno> {
        self.0.get_mut(index as usize).and_then(Option::as_mut).ok_or(fi::EINVAL)
    }

    /// Takes a value out.
    pub fn remove(&mut self, index: u32) -> Result<T, Errno> {
        self.0.get_mut(index as usize).and_then(Option::take).ok_or(fi::EINVAL)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// All values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

/// The name of an endpoint, 16 bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The process.
    pub process: ProcessId,
    /// Its first portal table entry.
    pub base: u32,
    /// Which of the process's domains has the memory regions.
    pub domain: u32,
}

/// Distinguishes our addresses from other bytes: `NRW1`.
const MAGIC: u32 = u32::from_le_bytes(*b"NRW1");

impl Address {
    /// Bytes of an address.
    pub const LENGTH: usize = 16;

    /// As bytes.
    pub fn to_bytes(self) -> [u8; Address::LENGTH] {
        let mut bytes = [0; Address::LENGTH];
        let tables = self.base | self.domain << 16;
        for (place, word) in bytes.chunks_exact_mut(4).zip([MAGIC, self.process.nid, self.process.pid, tables]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes, unless they are no address of ours.
    pub fn from_bytes(bytes: &[u8; Address::LENGTH]) -> Option<Address> {
        let word = |index: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[index * 4 + byte]));
        let (base, domain) = (word(3) & 0xffff, word(3) >> 16);
        let address = Address { process: ProcessId { nid: word(1), pid: word(2) }, base, domain };
        let known = word(0) == MAGIC && address.process.nid != 0 && address.process.pid != 0 && domain < MAX_DOMAINS;
        known.then_some(address)
    }

    /// For people.
    pub fn text(self) -> String {
        format!("narrows://{}/{}/{}", self.process.nid, self.process.pid, self.base)
    }
}

/// An address vector.
#[derive(Debug, Default)]
pub struct AddressVector {
    peers: Vec<Option<Address>>,
    holes: BTreeSet<usize>,
    /// By process and base, which are all that a message says of its sender.
    indices: BTreeMap<(ProcessId, u32), u64>,
}

impl AddressVector {
    /// Adds an address; the lowest free index is its `fi_addr_t`.
    pub fn insert(&mut self, address: Address) -> u64 {
        let index = self.holes.pop_first().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        self.peers[index] = Some(address);
        self.indices.entry((address.process, address.base)).or_insert(index as u64);
        index as u64
    }

    /// The address of an index.
    pub fn get(&self, index: u64) -> Option<Address> {
        self.peers.get(usize::try_from(index).ok()?).copied().flatten()
    }

    /// The index of an endpoint, or `FI_ADDR_NOTAVAIL`.
    pub fn index(&self, process: ProcessId, base: u32) -> u64 {
        self.indices.get(&(process, base)).copied().unwrap_or(fi::ADDR_NOTAVAIL)
    }

    /// Removes an index.
    pub fn remove(&mut self, index: u64) -> Result<(), Errno> {
        let address = self.get(index).ok_or(fi::EINVAL)?;
        self.peers[index as usize] = None;
        self.holes.insert(index as usize);
        let endpoint = (address.process, address.base);
        if self.indices.get(&endpoint) == Some(&index) {
            self.indices.remove(&endpoint);
            // The same address may be there a second time.
            if let Some(other) = self.peers.iter().position(|peer| *peer == Some(address)) {
                self.indices.insert(endpoint, other as u64);
            }
        }
        Ok(())
    }
}

/// A completion: `struct nw_entry` in C.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// As the program gave it.
    pub op_context: *mut c_void,
    /// What it is.
    pub flags: u64,
    /// Bytes.
    pub len: usize,
    /// Place in a multi-receive buffer.
    pub buf: *mut c_void,
    /// Remote CQ data.
    pub data: u64,
    /// Of the message.
    pub tag: u64,
    /// The sender's index in the address vector.
    pub source: u64,
    /// Bytes that did not fit.
    pub olen: usize,
    /// Zero, or what went wrong.
    pub err: Errno,
    /// As Portals names it.
    pub prov_errno: i32,
}

/// What has put an entry into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An event of the NIC: handing it out takes the time of a completion.
    Event,
    /// The call that started the operation, whose time that is part of: a message that was copied.
    Call,
}

// SAFETY: the pointers are the program's, carried from one of its calls to another and never followed.
unsafe impl Send for Entry {}

/// How often others are read in vain before a queue with entries counts as one that the program does not look at. Open
/// MPI looks at some queues in every eighth pass only, and at that of its byte transfer layer not at all while no
/// one-sided operation is under way.
const PASSED_OVER: u32 = 1000;

/// A completion queue.
#[derive(Debug, Default)]
pub struct CompletionQueue {
    entries: VecDeque<(Entry, Origin)>,
    /// How often others were read in vain since this one was read, or got an entry.
    passed_over: u32,
}

impl CompletionQueue {
    /// It has nothing to be read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// It has something that the program may be about to read.
    fn awaits_reader(&self) -> bool {
        !self.entries.is_empty() && self.passed_over < PASSED_OVER
    }
}

/// How an operation that a counter counts has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Success,
    /// It failed.
    Failure,
    /// It was refused, or its endpoint is closed: it does not count.
    Uncounted,
}

/// A counter.
///
/// Successes of one-sided operations are counted in the order in which the operations were posted. libfabric asks for
/// no order, but Intel MPI takes it that the first n of its operations are complete when the counter is n: while it
/// waits for a slow get, it reads long accumulates of others with the same counter (`tests/mpi/rma_random.c`).
#[derive(Debug, Default)]
pub struct Counter {
    /// Successes.
    pub value: u64,
    /// Failures.
    pub errors: u64,
    /// Both, when the program looked last.
    pub seen: (u64, u64),
    /// One-sided operations from the first that has not ended on, and how they have.
    ends: VecDeque<Option<End>>,
    /// Those that are no longer in the list.
    before: u64,
}

impl Counter {
    /// Whether the program has not seen the present value.
    pub fn news(&self) -> bool {
        self.seen != (self.value, self.errors)
    }

    /// A one-sided operation is posted: its number.
    fn begin(&mut self) -> u64 {
        self.ends.push_back(None);
        self.before + self.ends.len() as u64 - 1
    }

    /// A one-sided operation has ended. A failure is counted at once. True: a count has changed.
    fn end(&mut self, number: u64, end: End) -> bool {
        let seen = (self.value, self.errors);
        self.errors += u64::from(end == End::Failure);
        if let Some(place) = number.checked_sub(self.before).and_then(|at| self.ends.get_mut(at as usize)) {
            *place = Some(end);
        }
        while let Some(&Some(first)) = self.ends.front() {
            self.ends.pop_front();
            self.before += 1;
            self.value += u64::from(first == End::Success);
        }
        seen != (self.value, self.errors)
    }
}

/// What endpoints share.
#[derive(Debug)]
pub struct Shared {
    /// Address vectors.
    pub avs: Table<AddressVector>,
    /// Completion queues.
    pub cqs: Table<CompletionQueue>,
    /// Counters.
    pub counters: Table<Counter>,
    /// Rises with every entry and every count: whether an event was of interest to the program.
    pub news: u64,
    /// Contexts of receives that are being cancelled, until their entries are read.
    pub cancelling: Vec<usize>,
    /// Where one-sided operations go as messages: what carries them.
    pub emulated: Option<Emulated>,
}

impl Shared {
    /// Nothing.
    pub const fn new() -> Shared {
        Shared { avs: Table::new(), cqs: Table::new(), counters: Table::new(), news: 0, cancelling: Vec::new(), emulated: None }
    }

    /// Adds an entry to a queue, if there is one.
    pub fn push(&mut self, cq: Option<u32>, entry: Entry, origin: Origin) {
        if let Some(Ok(queue)) = cq.map(|cq| self.cqs.get_mut(cq)) {
            queue.entries.push_back((entry, origin));
            queue.passed_over = 0;
            self.news += 1;
        }
    }

    /// Counts, if there is a counter.
    pub fn count(&mut self, counter: Option<u32>, success: bool) {
        if let Some(Ok(counter)) = counter.map(|counter| self.counters.get_mut(counter)) {
            *(if success { &mut counter.value } else { &mut counter.errors }) += 1;
            self.news += 1;
        }
    }

    /// A one-sided operation is posted, which this counter counts: by what it is known there.
    pub fn begin(&mut self, counter: Option<u32>) -> Option<(u32, u64)> {
        let index = counter?;
        Some((index, self.counters.get_mut(index).ok()?.begin()))
    }

    /// Such an operation has ended.
    pub fn end(&mut self, counted: Option<(u32, u64)>, end: End) {
        if let Some((index, number)) = counted {
            self.news += u64::from(self.counters.get_mut(index).is_ok_and(|counter| counter.end(number, end)));
        }
    }

    /// The program takes a receive back: its library may poll until it is told how that ended, if it has not been told
    /// already.
    pub fn cancel(&mut self, context: usize, open: bool) {
        let unread = || self.cqs.iter().flat_map(|queue| &queue.entries).any(|(entry, _)| entry.op_context as usize == context);
        if open || unread() {
            self.cancelling.push(context);
        }
    }

    /// Some queue has entries that the program may be about to read. Asked when it has read one in vain.
    pub fn unread(&mut self) -> bool {
        self.cqs.iter_mut().fold(false, |any, queue| {
            let awaits = queue.awaits_reader();
            queue.passed_over += u32::from(awaits);
            any || awaits
        })
    }

    /// The next entry of a queue that is an error, or that is none.
    pub fn pop(&mut self, cq: u32, error: bool) -> Result<Option<(Entry, Origin)>, Errno> {
        let queue = self.cqs.get_mut(cq)?;
        queue.passed_over = 0;
        match queue.entries.front() {
            Some((entry, _)) if (entry.err != 0) == error => {
                self.cancelling.retain(|context| *context != entry.op_context as usize);
                Ok(queue.entries.pop_front())
            }
            Some(_) if !error => Err(fi::EAVAIL),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(nid: u32, base: u32) -> Address {
        Address { process: ProcessId { nid, pid: 1 }, base, domain: 3 }
    }

    #[test]
    fn a_queue_that_nobody_reads_keeps_nobody_awake() {
        let mut shared = Shared::new();
        let queue = shared.cqs.insert(CompletionQueue::default());
        // SAFETY: numbers and null pointers.
        let entry: Entry = unsafe { std::mem::zeroed() };
        assert!(!shared.unread());
        shared.push(Some(queue), entry, Origin::Event);
        assert!((0..PASSED_OVER).all(|_| shared.unread()));
        assert!(!shared.unread());
        shared.push(Some(queue), entry, Origin::Event);
        assert!(shared.unread(), "something new");
        assert!((1..PASSED_OVER).all(|_| shared.unread()) && !shared.unread());
        assert!(shared.pop(queue, false).unwrap().is_some());
        assert!(shared.unread(), "it is being read");
        assert!(shared.pop(queue, false).unwrap().is_some());
        assert!(!shared.unread());
    }

    #[test]
    fn addresses_survive_the_wire_and_other_bytes_are_refused() {
        let one = address(70_000, 8);
        assert_eq!(Address::from_bytes(&one.to_bytes()), Some(one));
        assert_eq!(Address::from_bytes(&[0; 16]), None);
        let mut strange = one.to_bytes();
        strange[3] ^= 1;
        assert_eq!(Address::from_bytes(&strange), None);
    }

    #[test]
    fn indices_are_dense_and_holes_are_filled() {
        let mut av = AddressVector::default();
        for nid in 1..=4 {
            assert_eq!(av.insert(address(nid, 0)), u64::from(nid) - 1);
        }
        assert_eq!(av.insert(address(2, 0)), 4, "the same process again");
        assert_eq!(av.index(address(2, 0).process, 0), 1, "its first index");
        assert_eq!(av.index(address(2, 4).process, 4), fi::ADDR_NOTAVAIL, "another endpoint of it");
        av.remove(1).unwrap();
        assert_eq!(av.get(1), None);
        assert_eq!(av.index(address(2, 0).process, 0), 4);
        assert_eq!(av.remove(1), Err(fi::EINVAL));
        assert_eq!(av.insert(address(9, 0)), 1);
    }

    #[test]
    fn successes_are_counted_in_the_order_of_posting_and_failures_at_once() {
        let mut counter = Counter::default();
        let numbers: Vec<u64> = (0..5).map(|_| counter.begin()).collect();
        assert!(!counter.end(numbers[1], End::Success) && !counter.end(numbers[3], End::Uncounted));
        assert!(counter.end(numbers[2], End::Failure));
        assert_eq!((counter.value, counter.errors), (0, 1));
        assert!(counter.end(numbers[0], End::Success));
        assert_eq!((counter.value, counter.errors), (2, 1));
        let later = counter.begin();
        assert!(!counter.end(later, End::Success) && counter.end(numbers[4], End::Success));
        assert_eq!((counter.value, counter.errors, counter.ends.len()), (4, 1, 0));
    }
}
