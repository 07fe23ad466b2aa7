//! The ranks' memory as the simulator reaches it, and what is on its way into it.
//!
//! Payloads up to [`INLINE_PAYLOAD`] travel inside the records of the channel. The longer data of a get are copied
//! once: the rank that they belong to writes them into the other one's memory (`process_vm_writev`), as the first thing
//! when it is woken, so before it can change them. If they are needed earlier the simulator copies them itself. The
//! longer data of a put are copied out of one process and, when it is known where they go, into the other. What waits
//! for a rank's wake is done at once when anything else needs that memory.

use narrows_channel::layout::{INLINE_PAYLOAD, NOTICE_BYTES};
use narrows_channel::map::Region;
use narrows_channel::record::{Push, Writer, encode_notice, encode_push, encode_write};
use narrows_engine::Arena;
use narrows_nic::{Combine, Fault};
use narrows_portals::{AtomicOperation, Datatype, IOVEC_BYTES, Notice, Place, apply};
use narrows_units::SimTime;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;

/// Memory that could not be reached.
#[derive(Debug)]
pub struct MemoryError {
    /// Whose memory.
    pub rank: u32,
    /// Where.
    pub address: u64,
    /// How much.
    pub length: u64,
    /// Read or write.
    pub write: bool,
    /// What the system said.
    pub error: io::Error,
}

#[derive(Debug)]
enum Waiting {
    Notice(Notice),
    Write { address: u64, bytes: Box<[u8]> },
    Push { payload: u32, push: Push },
}

#[derive(Debug, Default)]
struct RankMemory {
    pid: i32,
    waiting: VecDeque<(SimTime, Waiting)>,
    writes: usize,
    /// It does nothing itself with what waits for it: see [`Memory::watch`].
    watched: bool,
    /// Blocks of its endpoints, which are here and not in its process.
    blocks: Vec<Vec<u8>>,
}

/// Addresses of such blocks: this bit, the number of the block, the place in it.
const OURS: u64 = 1 << 63;
const BLOCK_SHIFT: u32 = 40;

impl RankMemory {
    /// The bytes there, if they are in a block of its endpoints.
    fn own_at(&mut self, place: Place, length: u64) -> Option<&mut [u8]> {
        if place.segments == 0 && place.address & OURS != 0 { self.own(place.address, length) } else { None }
    }

    /// The bytes of a block of its endpoints.
    fn own(&mut self, address: u64, length: u64) -> Option<&mut [u8]> {
        let block = self.blocks.get_mut(((address & !OURS) >> BLOCK_SHIFT) as usize)?;
        let start = (address & ((1 << BLOCK_SHIFT) - 1)) as usize;
        block.get_mut(start..start.checked_add(length as usize)?)
    }
}

/// The first `length` bytes of `buffer`, which may be longer: it is never cleared.
#[derive(Debug, Default)]
struct Payload {
    buffer: Vec<u8>,
    length: usize,
    /// It is there, or needs no delivery.
    known: bool,
}

/// A payload that stays where it is until its rank wakes.
#[derive(Debug)]
struct Pending {
    payload: u32,
    from: u32,
    push: Push,
}

impl Pending {
    /// It reads what is to be written, or writes what is to be read or written.
    fn conflicts(&self, rank: u32, address: u64, length: u64, write: bool) -> bool {
        let overlaps = |start: u64| start < address.saturating_add(length) && address < start.saturating_add(self.push.length);
        (self.push.to == rank && overlaps(self.push.destination)) || (write && self.from == rank && overlaps(self.push.source))
    }
}

/// All ranks' memory, and the payloads of messages under way.
#[derive(Debug)]
pub struct Memory {
    ranks: Vec<RankMemory>,
    /// By number.
    payloads: Arena<Payload>,
    /// Buffers to use again: a fresh megabyte costs more in page faults than in copying.
    spare: Vec<Vec<u8>>,
    /// What ranks will push when they wake, in the order in which the NICs asked for it.
    pending: Vec<Pending>,
    /// Ranks that got something since the last [`Memory::take_touched`].
    touched: Vec<u32>,
    /// Watched ranks whose memory has changed since the last [`Memory::take_changed`].
    changed: Vec<u32>,
    /// The first failure.
    pub error: Option<MemoryError>,
}

impl Memory {
    /// For `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Memory {
            ranks: (0..ranks).map(|_| RankMemory::default()).collect(),
            payloads: Arena::new(),
            spare: Vec::new(),
            pending: Vec::new(),
            touched: Vec::new(),
            changed: Vec::new(),
            error: None,
        }
    }

    /// The process of `rank`.
    /// So many more, which have no process.
    pub(crate) fn grow(&mut self, more: usize) {
        self.ranks.resize_with(self.ranks.len() + more, RankMemory::default);
    }

    /// The process of a rank; 0 while there is none.
    pub(crate) fn pid(&self, rank: u32) -> i32 {
        self.ranks[rank as usize].pid
    }

    /// See [`Memory::pid`].
    pub fn set_pid(&mut self, rank: u32, pid: u32) {
        self.ranks[rank as usize].pid = pid as i32;
    }

    /// A block of memory for an endpoint of `rank`; it stays until the end.
    pub fn allocate(&mut self, rank: u32, length: u64) -> u64 {
        let blocks = &mut self.ranks[rank as usize].blocks;
        // Pages come when they are touched.
        blocks.push(vec![0; length as usize]);
        OURS | (blocks.len() as u64 - 1) << BLOCK_SHIFT
    }

    /// Copies into a block of an endpoint of `rank`: `bytes`, or what is in its own memory.
    pub fn copy_in(&mut self, rank: u32, bytes: Option<&[u8]>, from: u64, to: u64, length: u64) {
        if bytes.is_none() {
            self.flush_writes(rank);
            self.settle(rank, from, length, false);
        }
        let memory = &mut self.ranks[rank as usize];
        let pid = memory.pid;
        let Some(block) = memory.own(to, length) else { return };
        if let Some(bytes) = bytes {
            block.copy_from_slice(bytes);
        } else if let Err(error) = transfer(pid, block.as_mut_ptr(), from, length, false) {
            self.fail(MemoryError { rank, address: from, length, write: false, error });
        }
    }

    /// Copies from a block of an endpoint of `rank` to its own memory, or to another block.
    pub fn copy_out(&mut self, rank: u32, now: SimTime, from: u64, to: u64, length: u64) {
        let Some(bytes) = self.ranks[rank as usize].own(from, length) else { return };
        let mut bytes: Box<[u8]> = Box::from(&*bytes);
        if to & OURS != 0 {
            if let Some(block) = self.ranks[rank as usize].own(to, length) {
                block.copy_from_slice(&bytes);
            }
            return;
        }
        self.note_change(rank);
        if length <= INLINE_PAYLOAD as u64 && !self.ranks[rank as usize].watched {
            self.settle(rank, to, length, true);
            self.wait(now, rank, Waiting::Write { address: to, bytes });
            self.ranks[rank as usize].writes += 1;
            return;
        }
        self.flush_writes(rank);
        self.write(rank, to, bytes.as_mut_ptr(), length);
    }

    /// From when on it sees the first of what waits for it.
    pub fn first_mail(&self, rank: u32) -> Option<SimTime> {
        self.ranks[rank as usize].waiting.front().map(|&(time, _)| time)
    }

    /// For tests: the notices that wait, and the time of the last.
    #[cfg(test)]
    pub fn take_mail(&mut self, rank: u32) -> (SimTime, Vec<Notice>) {
        let waiting = std::mem::take(&mut self.ranks[rank as usize].waiting);
        let last = waiting.back().map_or(SimTime::ZERO, |&(time, _)| time);
        let notices = waiting.into_iter().filter_map(|(_, what)| if let Waiting::Notice(notice) = what { Some(notice) } else { None });
        (last, notices.collect())
    }

    fn slot(&mut self, payload: u32) -> &mut Payload {
        &mut self.payloads[payload]
    }

    fn wait(&mut self, now: SimTime, rank: u32, what: Waiting) {
        self.ranks[rank as usize].waiting.push_back((now, what));
    }

    fn fail(&mut self, error: MemoryError) {
        self.error.get_or_insert(error);
    }

    /// Ranks that were notified since the last call, in order, maybe more than once.
    pub fn take_touched(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.touched);
    }

    /// From now on what comes for `rank` is written into its memory at once, and [`Memory::take_changed`] tells of it.
    /// The rank is stopped.
    pub fn watch(&mut self, rank: u32) {
        self.flush_writes(rank);
        self.ranks[rank as usize].watched = true;
    }

    /// The rank is going to run again.
    pub fn unwatch(&mut self, rank: u32) {
        // It is not in our code, where it would push before it changes anything.
        self.push_all(|pending| pending.from == rank);
        self.ranks[rank as usize].watched = false;
    }

    /// Watched ranks whose memory was written to since the last call, maybe more than once.
    pub fn take_changed(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.changed);
    }

    fn note_change(&mut self, rank: u32) {
        if self.ranks[rank as usize].watched {
            self.changed.push(rank);
        }
    }

    /// Something waits for `rank`.
    pub fn has_mail(&self, rank: u32) -> bool {
        !self.ranks[rank as usize].waiting.is_empty()
    }

    /// Does the writes that wait for `rank`, now.
    fn flush_writes(&mut self, rank: u32) {
        let memory = &mut self.ranks[rank as usize];
        if memory.writes == 0 {
            return;
        }
        memory.writes = 0;
        let waiting = std::mem::take(&mut memory.waiting);
        let (writes, others) = waiting.into_iter().partition(|(_, what)| matches!(what, Waiting::Write { .. }));
        memory.waiting = others;
        let writes: VecDeque<_> = writes;
        for (_, what) in writes {
            if let Waiting::Write { address, mut bytes } = what {
                self.write(rank, address, bytes.as_mut_ptr(), bytes.len() as u64);
            }
        }
    }

    /// Writes to `rank` now.
    fn write(&mut self, rank: u32, address: u64, local: *mut u8, length: u64) {
        self.settle(rank, address, length, true);
        if let Err(error) = transfer(self.ranks[rank as usize].pid, local, address, length, true) {
            self.fail(MemoryError { rank, address, length, write: true, error });
        }
    }

    /// Copies between `bytes` and `place` of `rank`.
    fn access(&mut self, rank: u32, bytes: &mut [u8], place: Place, write: bool) -> Result<(), Fault> {
        match place.segments {
            0 => self.settle(rank, place.address, bytes.len() as u64, write),
            // Nobody has read yet where the segments are.
            _ => self.settle(rank, 0, u64::MAX, write),
        }
        let pid = self.ranks[rank as usize].pid;
        let done = match place.segments {
            0 => transfer(pid, bytes.as_mut_ptr(), place.address, bytes.len() as u64, write),
            _ => scatter(pid, bytes, place, write),
        };
        match done {
            Ok(()) => Ok(()),
            Err(_) if place.may_fault => Err(Fault),
            Err(error) => {
                self.fail(MemoryError { rank, address: place.address, length: bytes.len() as u64, write, error });
                Ok(())
            }
        }
    }

    /// Does the pushes that must come before these bytes of `rank` are read or written.
    fn settle(&mut self, rank: u32, address: u64, length: u64, write: bool) {
        self.push_all(|pending| pending.conflicts(rank, address, length, write));
    }

    fn push_all(&mut self, which: impl Fn(&Pending) -> bool) {
        while let Some(at) = self.pending.iter().position(&which) {
            self.push_now(at);
        }
    }

    /// Copies a payload that its rank would have pushed, in pieces that stay in the cache.
    fn push_now(&mut self, at: usize) {
        const PIECE: u64 = 128 * 1024;
        let Pending { payload, from, push } = self.pending.remove(at);
        let Push { to, source, destination, length, .. } = push;
        self.ranks[from as usize].waiting.retain(|(_, what)| !matches!(what, Waiting::Push { payload: other, .. } if *other == payload));
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < PIECE as usize {
            buffer.resize(PIECE as usize, 0);
        }
        let (reader, writer) = (self.ranks[from as usize].pid, self.ranks[to as usize].pid);
        let mut done = 0;
        while done < length {
            let piece = PIECE.min(length - done);
            if let Err(error) = transfer(reader, buffer.as_mut_ptr(), source + done, piece, false) {
                self.fail(MemoryError { rank: from, address: source, length, write: false, error });
                break;
            }
            if let Err(error) = transfer(writer, buffer.as_mut_ptr(), destination + done, piece, true) {
                self.fail(MemoryError { rank: to, address: destination, length, write: true, error });
                break;
            }
            done += piece;
        }
        self.spare.push(buffer);
    }

    /// Does the push of `payload`, if it still waits.
    fn push_of(&mut self, payload: u32) {
        if let Some(at) = self.pending.iter().position(|push| push.payload == payload) {
            self.push_now(at);
        }
    }

    /// A rank could not push.
    pub fn push_failed(&mut self, rank: u32, address: u64, length: u64, error: i32) {
        self.fail(MemoryError { rank, address, length, write: true, error: io::Error::from_raw_os_error(error) });
    }

    /// Fills the notice area of a parked rank. What does not fit stays for the next time, but for pushes: those are
    /// done.
    pub fn hand_over(&mut self, rank: u32, region: &Region<'_>) {
        let Memory { ranks, pending, .. } = self;
        let memory = &mut ranks[rank as usize];
        // SAFETY: the rank is parked or outside, so the simulator owns its region.
        let area = unsafe { region.notice_area() };
        debug_assert!(area.len() == NOTICE_BYTES);
        let mut writer = Writer::new(area, 0);
        while let Some((time, what)) = memory.waiting.front() {
            let written = match what {
                Waiting::Notice(notice) => encode_notice(&mut writer, time.as_ps(), notice),
                Waiting::Write { address, bytes } => encode_write(&mut writer, time.as_ps(), *address, bytes),
                Waiting::Push { push, .. } => encode_push(&mut writer, time.as_ps(), push),
            };
            if written.is_err() {
                break;
            }
            match memory.waiting.pop_front() {
                Some((_, Waiting::Write { .. })) => memory.writes -= 1,
                Some((_, Waiting::Push { payload, .. })) => pending.retain(|push| push.payload != payload),
                _ => {}
            }
        }
        region.header().notices.store(writer.used() as u64, Ordering::Relaxed);
        // What the rank is not told to push it could change.
        self.push_all(|pending| pending.from == rank);
    }
}

impl narrows_sim::Processes for Memory {
    type Letter = ();

    fn reserve(&mut self) -> u32 {
        self.payloads.insert(Payload::default())
    }

    fn hold(&mut self, payload: u32, bytes: Box<[u8]>) {
        *self.slot(payload) = Payload { length: bytes.len(), buffer: bytes.into_vec(), known: true };
    }

    fn capture(&mut self, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        self.flush_writes(rank);
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < length as usize {
            buffer.resize(length as usize, 0);
        }
        match self.ranks[rank as usize].own_at(place, length) {
            Some(block) => buffer[..length as usize].copy_from_slice(block),
            None => self.access(rank, &mut buffer[..length as usize], place, false)?,
        }
        *self.slot(payload) = Payload { length: length as usize, buffer, known: true };
        Ok(())
    }

    fn combine(&mut self, payload: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        if !self.slot(payload).known {
            return Err(Fault);
        }
        self.flush_writes(rank);
        let mut old = vec![0; length as usize];
        self.access(rank, &mut old, place, false)?;
        let mut new = old.clone();
        let Payload { buffer, length: size, .. } = self.slot(payload);
        apply(combine.operation, combine.datatype, &mut new, &buffer[..*size], &combine.operand);
        if combine.fetch {
            *self.slot(payload) = Payload { length: old.len(), buffer: old, known: true };
        }
        self.note_change(rank);
        self.access(rank, &mut new, place, true)
    }

    /// Long payloads are pushed, if both places are simple.
    fn fetch(&mut self, payload: u32, (from, source): (u32, Place), length: u64, (to, destination): (u32, Place)) -> Result<(), Fault> {
        let simple = |place: Place| place.segments == 0 && !place.may_fault && place.address & OURS == 0;
        if length <= INLINE_PAYLOAD as u64 || !simple(source) || !simple(destination) {
            return self.capture(payload, from, source, length);
        }
        let (source, destination) = (source.address, destination.address);
        self.flush_writes(from);
        self.settle(from, source, length, false);
        self.flush_writes(to);
        // A rank keeps the order of what it pushes into the memory of another one.
        let ordered = |pending: &Pending| pending.from == from && pending.push.to == to && from != to;
        self.push_all(|pending| pending.conflicts(to, destination, length, true) && !ordered(pending));
        let push = Push { to, pid: self.ranks[to as usize].pid as u32, source, destination, length };
        self.pending.push(Pending { payload, from, push });
        self.wait(SimTime::ZERO, from, Waiting::Push { payload, push });
        // Nothing is left to deliver.
        *self.slot(payload) = Payload { known: true, ..Payload::default() };
        Ok(())
    }

    fn has_bytes(&self, payload: u32) -> bool {
        self.payloads[payload].known
    }

    fn bytes(&self, payload: u32) -> Option<Vec<u8>> {
        let Payload { buffer, length, known } = &self.payloads[payload];
        known.then(|| buffer[..*length].to_vec())
    }

    fn deliver(&mut self, now: SimTime, payload: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        if !self.slot(payload).known {
            return Err(Fault);
        }
        self.note_change(rank);
        self.push_of(payload);
        let length = (length as usize).min(self.slot(payload).length);
        if length == 0 {
            return Ok(());
        }
        if place.address & OURS != 0 {
            let Memory { ranks, payloads, .. } = self;
            let block = ranks[rank as usize].own(place.address, length as u64).ok_or(Fault)?;
            block.copy_from_slice(&payloads[payload].buffer[..length]);
            return Ok(());
        }
        // A rank does short writes itself when it wakes. It would die of one into memory that is not there.
        if length <= INLINE_PAYLOAD && place.segments == 0 && !place.may_fault && !self.ranks[rank as usize].watched {
            self.settle(rank, place.address, length as u64, true);
            let bytes = Box::from(&self.slot(payload).buffer[..length]);
            self.wait(now, rank, Waiting::Write { address: place.address, bytes });
            self.ranks[rank as usize].writes += 1;
            return Ok(());
        }
        self.flush_writes(rank);
        let mut buffer = std::mem::take(&mut self.slot(payload).buffer);
        let written = self.access(rank, &mut buffer[..length], place, true);
        self.slot(payload).buffer = buffer;
        written
    }

    fn duplicate(&mut self, payload: u32) -> u32 {
        let Payload { buffer, length, known } = self.slot(payload);
        let copy = Payload { buffer: buffer[..*length].to_vec(), length: *length, known: *known };
        self.payloads.insert(copy)
    }

    fn fold(&mut self, into: u32, payload: u32, operation: AtomicOperation, datatype: Datatype) {
        let Payload { buffer, length, known } = self.slot(payload);
        let (bytes, known) = (buffer[..*length].to_vec(), *known);
        let into = self.slot(into);
        let length = into.length.min(bytes.len());
        into.known &= known;
        apply(operation, datatype, &mut into.buffer[..length], &bytes[..length], &[0; 32]);
    }

    fn release(&mut self, payload: u32) {
        self.push_of(payload);
        let buffer = std::mem::take(self.slot(payload)).buffer;
        self.payloads.remove(payload);
        if buffer.len() > INLINE_PAYLOAD && self.spare.len() < 256 {
            self.spare.push(buffer);
        }
    }

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.wait(now, rank, Waiting::Notice(notice));
        self.touched.push(rank);
    }
}

/// Copies between `bytes` and a list of segments (`ptl_iovec_t`: address, length) of process `pid`.
fn scatter(pid: i32, bytes: &mut [u8], place: Place, write: bool) -> io::Result<()> {
    // Segments are read in groups: a list may claim any length.
    const GROUP: u64 = 256;
    let (mut skip, mut done) = (place.offset, 0);
    let mut first = 0;
    while done < bytes.len() {
        let count = GROUP.min(u64::from(place.segments) - first);
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut list = [0_u8; (GROUP * IOVEC_BYTES) as usize];
        transfer(pid, list.as_mut_ptr(), place.address + first * IOVEC_BYTES, count * IOVEC_BYTES, false)?;
        for segment in list[..(count * IOVEC_BYTES) as usize].chunks_exact(IOVEC_BYTES as usize) {
            let word = |at: usize| u64::from_le_bytes(segment[at..at + 8].try_into().expect("eight of sixteen bytes"));
            let (address, size) = (word(0), word(8));
            let used = size.saturating_sub(skip).min((bytes.len() - done) as u64);
            if used > 0 {
                transfer(pid, bytes[done..].as_mut_ptr(), address.wrapping_add(skip), used, write)?;
                done += used as usize;
            }
            skip = skip.saturating_sub(size);
        }
        first += count;
    }
    Ok(())
}

/// Copies `length` bytes between `local` and `address` of process `pid`.
pub(crate) fn transfer(pid: i32, local: *mut u8, address: u64, length: u64, write: bool) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let mine = libc::iovec { iov_base: local.wrapping_add(done as usize).cast(), iov_len: (length - done) as usize };
        let theirs = libc::iovec { iov_base: (address + done) as *mut libc::c_void, iov_len: (length - done) as usize };
        // SAFETY: `mine` lies inside the caller's buffer of `length` bytes; the other process's
        // addresses are checked by the kernel.
        let copied = unsafe {
            if write { libc::process_vm_writev(pid, &mine, 1, &theirs, 1, 0) } else { libc::process_vm_readv(pid, &mine, 1, &theirs, 1, 0) }
        };
        match copied {
            1.. => done += copied as u64,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_sim::Processes as _;

    fn own_memory() -> Memory {
        let mut memory = Memory::new(1);
        memory.set_pid(0, std::process::id());
        (0..4).for_each(|number| assert_eq!(memory.reserve(), number));
        memory
    }

    #[test]
    fn a_read_sees_small_writes_that_still_wait() {
        let mut memory = own_memory();
        let mut target = [0u8; 16];
        let address = target.as_mut_ptr() as u64;
        memory.hold(0, Box::from([7u8; 16]));
        memory.deliver(SimTime(1), 0, 0, Place::at(address), 16).expect("it is there");
        memory.capture(1, 0, Place::at(address), 16).expect("it is there");
        assert_eq!(memory.payloads[1].buffer[..16], [7; 16]);
        assert!(!memory.has_mail(0), "the write was done, nothing waits");
    }

    #[test]
    fn large_payloads_are_copied_at_once_and_bad_addresses_are_reported() {
        let mut memory = own_memory();
        let mut target = vec![0u8; 2 * INLINE_PAYLOAD];
        memory.hold(0, vec![9; 2 * INLINE_PAYLOAD].into());
        memory.deliver(SimTime(1), 0, 0, Place::at(target.as_mut_ptr() as u64), target.len() as u64).expect("it is there");
        assert!(std::hint::black_box(&target).iter().all(|&byte| byte == 9));
        assert!(memory.error.is_none());
        memory.capture(1, 0, Place::at(8), 100).expect("it is there");
        let error = memory.error.expect("address 8 is not mapped");
        assert_eq!((error.rank, error.address, error.write), (0, 8, false));
    }

    /// Two ranks, both this process.
    #[test]
    fn a_payload_that_could_not_be_read_is_a_fault_where_it_arrives() {
        let mut memory = own_memory();
        let mut target = [0u8; 16];
        let address = target.as_mut_ptr() as u64;
        let nowhere = Place { may_fault: true, ..Place::at(8) };
        assert_eq!(memory.capture(0, 0, nowhere, 16), Err(Fault));
        assert_eq!(memory.deliver(SimTime(1), 0, 0, Place::at(address), 16), Err(Fault));
        memory.release(0);
        assert_eq!(memory.reserve(), 0, "its number is free again, and nothing of it is left");
        assert_eq!(memory.deliver(SimTime(2), 0, 0, Place::at(address), 16), Err(Fault));
        assert_eq!(std::hint::black_box(&target), &[0; 16]);
    }

    fn twins() -> Memory {
        let mut memory = Memory::new(2);
        memory.set_pid(0, std::process::id());
        memory.set_pid(1, std::process::id());
        (0..4).for_each(|number| assert_eq!(memory.reserve(), number));
        memory
    }

    const LONG: usize = 300_000;

    #[test]
    fn a_payload_that_no_rank_has_pushed_is_there_when_it_is_delivered() {
        let mut memory = twins();
        let (source, mut target) = (vec![5u8; LONG], vec![0u8; LONG]);
        memory
            .fetch(0, (0, Place::at(source.as_ptr() as u64)), LONG as u64, (1, Place::at(target.as_mut_ptr() as u64)))
            .expect("both are there");
        assert_eq!(std::hint::black_box(&target)[0], 0, "nothing moves before it must");
        assert!(memory.has_mail(0), "rank 0 would push");
        memory.deliver(SimTime(1), 0, 1, Place::at(target.as_mut_ptr() as u64), LONG as u64).expect("it is there");
        assert!(std::hint::black_box(&target) == &source);
        assert!(!memory.has_mail(0));
        memory.release(0);
    }

    #[test]
    fn what_writes_the_source_or_reads_the_target_of_a_push_comes_after_it() {
        for small in [false, true] {
            let mut memory = twins();
            let (mut source, mut target) = (vec![5u8; LONG], vec![0u8; LONG]);
            let (from, to) = (source.as_mut_ptr() as u64, target.as_mut_ptr() as u64);
            memory.fetch(0, (0, Place::at(from)), LONG as u64, (1, Place::at(to))).expect("both are there");
            let bytes = if small { INLINE_PAYLOAD } else { LONG };
            memory.hold(1, vec![6; bytes].into());
            memory.deliver(SimTime(2), 1, 0, Place::at(from + (LONG - bytes) as u64), bytes as u64).expect("it is there");
            memory.capture(2, 1, Place::at(to), LONG as u64).expect("it is there");
            assert!(memory.payloads[2].buffer[..LONG] == vec![5; LONG], "small: {small}");
            memory.deliver(SimTime(3), 0, 1, Place::at(to), LONG as u64).expect("it is there");
            memory.capture(3, 0, Place::at(from), LONG as u64).expect("it is there");
            assert_eq!(memory.payloads[3].buffer[LONG - 1], 6);
            assert!(std::hint::black_box(&target)[LONG - 1] == 5, "it is pushed once");
        }
    }

    #[test]
    fn a_push_sees_small_writes_that_still_wait() {
        let mut memory = twins();
        let (mut source, mut target) = (vec![5u8; LONG], vec![0u8; LONG]);
        let (from, to) = (source.as_mut_ptr() as u64, target.as_mut_ptr() as u64);
        memory.hold(1, vec![6; 16].into());
        memory.deliver(SimTime(1), 1, 0, Place::at(from), 16).expect("it is there");
        memory.fetch(0, (0, Place::at(from)), LONG as u64, (1, Place::at(to))).expect("both are there");
        memory.deliver(SimTime(2), 0, 1, Place::at(to), LONG as u64).expect("it is there");
        assert_eq!(std::hint::black_box(&target)[..17], [6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5]);
    }

    #[test]
    fn what_one_rank_pushes_to_the_same_place_keeps_its_order_and_waits_for_the_rank() {
        let (first, second, mut target) = (vec![5u8; LONG], vec![6u8; LONG], vec![0u8; LONG]);
        let mut memory = twins();
        let to = Place::at(target.as_mut_ptr() as u64);
        memory.fetch(0, (0, Place::at(first.as_ptr() as u64)), LONG as u64, (1, to)).expect("both are there");
        memory.fetch(1, (0, Place::at(second.as_ptr() as u64)), LONG as u64, (1, to)).expect("both are there");
        let pushed = memory.ranks[0].waiting.iter().filter_map(|(_, what)| match what {
            Waiting::Push { push, .. } => Some(push.source),
            _ => None,
        });
        assert_eq!(pushed.collect::<Vec<_>>(), [first.as_ptr() as u64, second.as_ptr() as u64]);
        // Nobody has pushed: whatever comes last stays.
        memory.deliver(SimTime(2), 1, 1, to, LONG as u64).expect("it is there");
        assert_eq!(std::hint::black_box(&target)[LONG - 1], 6);
        memory.deliver(SimTime(3), 0, 1, to, LONG as u64).expect("it is there");
        assert_eq!(std::hint::black_box(&target)[LONG - 1], 5);
        // After one of another rank, which goes first.
        memory.fetch(2, (1, Place::at(first.as_ptr() as u64)), LONG as u64, (1, to)).expect("both are there");
        std::hint::black_box(&mut target).fill(0);
        memory.fetch(3, (0, Place::at(second.as_ptr() as u64)), LONG as u64, (1, to)).expect("both are there");
        assert!(memory.pending.len() == 1 && std::hint::black_box(&target)[LONG - 1] == 5);
    }

    #[test]
    fn a_rank_that_wakes_pushes_or_has_nothing_to_push() {
        let id = narrows_portals::ProcessId::on(narrows_portals::NodeId(0), 1);
        let (mapping, _file) = narrows_channel::Mapping::create(1, Default::default()).expect("memory for the channel");
        mapping.place(0, id, "node", Default::default()).expect("rank 0");
        let region = mapping.region(0).expect("rank 0");
        let (source, target) = (vec![5u8; LONG], vec![0u8; LONG]);
        for crowded in [false, true] {
            let mut memory = twins();
            if crowded {
                for _ in 0..NOTICE_BYTES / 16 {
                    memory.notify(SimTime(1), 0, Notice::Count { ct: narrows_portals::CtId(1), success: 1, failure: 0, commands: 0 });
                }
            }
            memory
                .fetch(0, (0, Place::at(source.as_ptr() as u64)), LONG as u64, (1, Place::at(target.as_ptr() as u64)))
                .expect("both are there");
            memory.hand_over(0, &region);
            assert!(memory.pending.is_empty());
            // Nobody has read the record here.
            assert_eq!(std::hint::black_box(&target)[LONG - 1], if crowded { 5 } else { 0 });
        }
    }

    #[test]
    fn several_may_fetch_the_same_bytes() {
        let mut memory = twins();
        let (source, mut one, mut two) = (vec![5u8; LONG], vec![0u8; LONG], vec![0u8; LONG]);
        memory
            .fetch(0, (0, Place::at(source.as_ptr() as u64)), LONG as u64, (1, Place::at(one.as_mut_ptr() as u64)))
            .expect("both are there");
        memory
            .fetch(1, (0, Place::at(source.as_ptr() as u64)), LONG as u64, (1, Place::at(two.as_mut_ptr() as u64)))
            .expect("both are there");
        assert_eq!(memory.pending.len(), 2);
        memory.release(0);
        memory.release(1);
        assert!(std::hint::black_box(&one) == &source && std::hint::black_box(&two) == &source);
    }
}
