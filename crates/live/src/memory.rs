//! The ranks' memory as the simulator reaches it, and what is on its way into it.
//!
//! Payloads up to [`INLINE_PAYLOAD`] travel inside the records of the channel; larger ones are
//! copied once out of and once into a process (`process_vm_readv`, `process_vm_writev`). A small
//! write that waits for its rank's wake is done at once when anything else needs that memory.

use narrows_channel::layout::{INLINE_PAYLOAD, NOTICE_BYTES};
use narrows_channel::map::Region;
use narrows_channel::record::{Writer, encode_notice, encode_write};
use narrows_nic::{Combine, Fault};
use narrows_portals::{IOVEC_BYTES, Notice, Place, apply};
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
}

#[derive(Debug, Default)]
struct RankMemory {
    pid: i32,
    waiting: VecDeque<(SimTime, Waiting)>,
    writes: usize,
}

/// The first `length` bytes of `buffer`, which may be longer: it is never cleared.
#[derive(Debug, Default)]
struct Payload {
    buffer: Vec<u8>,
    length: usize,
}

/// All ranks' memory, and the payloads of messages under way.
#[derive(Debug)]
pub struct Memory {
    ranks: Vec<RankMemory>,
    /// By message slot.
    payloads: Vec<Payload>,
    /// Buffers to use again: a fresh megabyte costs more in page faults than in copying.
    spare: Vec<Vec<u8>>,
    /// Ranks that got something since the last [`Memory::take_touched`].
    touched: Vec<u32>,
    /// The first failure.
    pub error: Option<MemoryError>,
}

impl Memory {
    /// For `ranks` ranks.
    pub fn new(ranks: usize) -> Self {
        Memory {
            ranks: (0..ranks).map(|_| RankMemory::default()).collect(),
            payloads: Vec::new(),
            spare: Vec::new(),
            touched: Vec::new(),
            error: None,
        }
    }

    /// The process of `rank`.
    pub fn set_pid(&mut self, rank: u32, pid: u32) {
        self.ranks[rank as usize].pid = pid as i32;
    }

    fn slot(&mut self, message: u32) -> &mut Payload {
        let index = message as usize;
        if index >= self.payloads.len() {
            self.payloads.resize_with(index + 1, Payload::default);
        }
        &mut self.payloads[index]
    }

    /// The payload of `message` is `bytes`.
    pub fn hold(&mut self, message: u32, bytes: Box<[u8]>) {
        *self.slot(message) = Payload { length: bytes.len(), buffer: bytes.into_vec() };
    }

    /// The payload of `message` is what `rank` has at `place`.
    ///
    /// # Errors
    /// [`Fault`] for a place that may not be there and is not. Elsewhere missing memory is an error of the run.
    pub fn capture(&mut self, message: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        self.flush_writes(rank);
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < length as usize {
            buffer.resize(length as usize, 0);
        }
        self.access(rank, &mut buffer[..length as usize], place, false)?;
        *self.slot(message) = Payload { length: length as usize, buffer };
        Ok(())
    }

    /// Copies between `bytes` and `place` of `rank`.
    fn access(&mut self, rank: u32, bytes: &mut [u8], place: Place, write: bool) -> Result<(), Fault> {
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

    /// Combines the payload of `message` with what `rank` has at `place`; a fetching one keeps the old value as its payload.
    ///
    /// # Errors
    /// As [`Memory::capture`].
    pub fn combine(&mut self, message: u32, rank: u32, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.flush_writes(rank);
        let mut old = vec![0; length as usize];
        self.access(rank, &mut old, place, false)?;
        let mut new = old.clone();
        let Payload { buffer, length: known } = self.slot(message);
        apply(combine.operation, combine.datatype, &mut new, &buffer[..*known], &combine.operand);
        if combine.fetch {
            *self.slot(message) = Payload { length: old.len(), buffer: old };
        }
        self.access(rank, &mut new, place, true)
    }

    /// The payload of `message` is what one rank has at an address, and will go to that of another one, which may be
    /// overwritten from now on. Long payloads go there at once, in pieces that stay in the cache: one pass over memory
    /// instead of two (1 MiB ping-pong: see docs/performance.md).
    ///
    /// # Errors
    /// As [`Memory::capture`].
    pub fn fetch(&mut self, message: u32, (from, source): (u32, Place), length: u64, (to, destination): (u32, Place)) -> Result<(), Fault> {
        const PIECE: u64 = 128 * 1024;
        let simple = |place: Place| place.segments == 0 && !place.may_fault;
        if length <= INLINE_PAYLOAD as u64 || !simple(source) || !simple(destination) {
            return self.capture(message, from, source, length);
        }
        let (source, destination) = (source.address, destination.address);
        self.flush_writes(from);
        self.flush_writes(to);
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
        // Nothing is left to deliver.
        *self.slot(message) = Payload::default();
        Ok(())
    }

    /// Writes the first `length` payload bytes of `message` to `rank`.
    ///
    /// # Errors
    /// As [`Memory::capture`].
    pub fn deliver(&mut self, now: SimTime, message: u32, rank: u32, place: Place, length: u64) -> Result<(), Fault> {
        let length = (length as usize).min(self.slot(message).length);
        if length == 0 {
            return Ok(());
        }
        // A rank does short writes itself when it wakes. It would die of one into memory that is not there.
        if length <= INLINE_PAYLOAD && place.segments == 0 && !place.may_fault {
            let bytes = Box::from(&self.slot(message).buffer[..length]);
            self.wait(now, rank, Waiting::Write { address: place.address, bytes });
            self.ranks[rank as usize].writes += 1;
            return Ok(());
        }
        self.flush_writes(rank);
        let mut buffer = std::mem::take(&mut self.slot(message).buffer);
        let written = self.access(rank, &mut buffer[..length], place, true);
        self.slot(message).buffer = buffer;
        written
    }

    /// The payload of `message` is not needed any more.
    pub fn release(&mut self, message: u32) {
        let buffer = std::mem::take(self.slot(message)).buffer;
        if buffer.len() > INLINE_PAYLOAD && self.spare.len() < 256 {
            self.spare.push(buffer);
        }
    }

    /// `rank` sees `notice` from `now` on.
    pub fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.wait(now, rank, Waiting::Notice(notice));
        self.touched.push(rank);
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
        let mut failure = None;
        memory.waiting.retain_mut(|(_, what)| match what {
            Waiting::Notice(_) => true,
            Waiting::Write { address, bytes } => {
                if let Err(error) = transfer(memory.pid, bytes.as_mut_ptr(), *address, bytes.len() as u64, true) {
                    failure = Some(MemoryError { rank, address: *address, length: bytes.len() as u64, write: true, error });
                }
                false
            }
        });
        if let Some(failure) = failure {
            self.fail(failure);
        }
    }

    /// Fills the notice area of a parked rank. What does not fit stays for the next time.
    pub fn hand_over(&mut self, rank: u32, region: &Region<'_>) {
        let memory = &mut self.ranks[rank as usize];
        // SAFETY: the rank is parked or outside, so the simulator owns its region.
        let area = unsafe { region.notice_area() };
        debug_assert!(area.len() == NOTICE_BYTES);
        let mut writer = Writer::new(area, 0);
        while let Some((time, what)) = memory.waiting.front() {
            let written = match what {
                Waiting::Notice(notice) => encode_notice(&mut writer, time.as_ps(), notice),
                Waiting::Write { address, bytes } => encode_write(&mut writer, time.as_ps(), *address, bytes),
            };
            if written.is_err() {
                break;
            }
            if matches!(what, Waiting::Write { .. }) {
                memory.writes -= 1;
            }
            memory.waiting.pop_front();
        }
        region.header().notices.store(writer.used() as u64, Ordering::Relaxed);
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
fn transfer(pid: i32, local: *mut u8, address: u64, length: u64, write: bool) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        let mine = libc::iovec { iov_base: local.wrapping_add(done as usize).cast(), iov_len: (length - done) as usize };
        let theirs = libc::iovec { iov_base: address.wrapping_add(done) as *mut libc::c_void, iov_len: (length - done) as usize };
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

    fn own_memory() -> Memory {
        let mut memory = Memory::new(1);
        memory.set_pid(0, std::process::id());
        memory
    }

    #[test]
    fn a_read_sees_small_writes_that_still_wait() {
        let mut memory = own_memory();
        let mut target = [0u8; 16];
        let address = target.as_mut_ptr() as u64;
        memory.hold(0, Box::from([7u8; 16]));
        memory.deliver(SimTime(1), 0, 0, Place::at(address), 16).unwrap();
        memory.capture(1, 0, Place::at(address), 16).unwrap();
        assert_eq!(memory.payloads[1].buffer[..16], [7; 16]);
        assert!(!memory.has_mail(0), "the write was done, nothing waits");
    }

    #[test]
    fn large_payloads_are_copied_at_once_and_bad_addresses_are_reported() {
        let mut memory = own_memory();
        let mut target = vec![0u8; 2 * INLINE_PAYLOAD];
        memory.hold(0, vec![9; 2 * INLINE_PAYLOAD].into());
        memory.deliver(SimTime(1), 0, 0, Place::at(target.as_mut_ptr() as u64), target.len() as u64).unwrap();
        assert!(std::hint::black_box(&target).iter().all(|&byte| byte == 9));
        assert!(memory.error.is_none());
        assert_eq!(memory.capture(1, 0, Place { may_fault: true, ..Place::at(8) }, 100), Err(Fault));
        assert!(memory.error.is_none(), "a fault that was to be expected concerns its message only");
        memory.capture(1, 0, Place::at(8), 100).unwrap();
        let error = memory.error.expect("address 8 is not mapped");
        assert_eq!((error.rank, error.address, error.write), (0, 8, false));
    }
}
