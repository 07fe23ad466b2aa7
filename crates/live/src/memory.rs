//! The ranks' memory as the simulator reaches it, and what is on its way into it.
//!
//! Payloads up to [`INLINE_PAYLOAD`] travel inside the records of the channel; larger ones are
//! copied once out of and once into a process (`process_vm_readv`, `process_vm_writev`). A small
//! write that waits for its rank's wake is done at once when anything else needs that memory.

use narrows_channel::layout::{INLINE_PAYLOAD, NOTICE_BYTES};
use narrows_channel::map::Region;
use narrows_channel::record::{Writer, encode_notice, encode_write};
use narrows_portals::Notice;
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

impl narrows_sim::Memory for Memory {
    /// The payload of `message` is `bytes`.
    fn hold(&mut self, message: u32, bytes: Box<[u8]>) {
        *self.slot(message) = Payload { length: bytes.len(), buffer: bytes.into_vec() };
    }

    /// The payload of `message` is what `rank` has at `address`.
    fn capture(&mut self, message: u32, rank: u32, address: u64, length: u64) {
        self.flush_writes(rank);
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < length as usize {
            buffer.resize(length as usize, 0);
        }
        let pid = self.ranks[rank as usize].pid;
        if let Err(error) = transfer(pid, buffer.as_mut_ptr(), address, length, false) {
            self.fail(MemoryError { rank, address, length, write: false, error });
        }
        *self.slot(message) = Payload { length: length as usize, buffer };
    }

    /// The payload of `message` is what one rank has at an address, and will go to that of another one, which may be
    /// overwritten from now on. Long payloads go there at once, in pieces that stay in the cache: one pass over memory
    /// instead of two (1 MiB ping-pong: see docs/performance.md).
    fn fetch(&mut self, message: u32, (from, source): (u32, u64), length: u64, (to, destination): (u32, u64)) {
        const PIECE: u64 = 128 * 1024;
        if length <= INLINE_PAYLOAD as u64 {
            return self.capture(message, from, source, length);
        }
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
    }

    /// Writes the first `length` payload bytes of `message` to `rank`.
    fn deliver(&mut self, now: SimTime, message: u32, rank: u32, address: u64, length: u64) {
        let length = (length as usize).min(self.slot(message).length);
        if length == 0 {
            return;
        }
        if length <= INLINE_PAYLOAD {
            let bytes = Box::from(&self.slot(message).buffer[..length]);
            self.wait(now, rank, Waiting::Write { address, bytes });
            self.ranks[rank as usize].writes += 1;
        } else {
            self.flush_writes(rank);
            let pid = self.ranks[rank as usize].pid;
            let pointer = self.slot(message).buffer.as_mut_ptr();
            if let Err(error) = transfer(pid, pointer, address, length as u64, true) {
                self.fail(MemoryError { rank, address, length: length as u64, write: true, error });
            }
        }
    }

    /// The payload of `message` is not needed any more.
    fn release(&mut self, message: u32) {
        let buffer = std::mem::take(self.slot(message)).buffer;
        if buffer.len() > INLINE_PAYLOAD && self.spare.len() < 256 {
            self.spare.push(buffer);
        }
    }

    /// `rank` sees `notice` from `now` on.
    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.wait(now, rank, Waiting::Notice(notice));
        self.touched.push(rank);
    }
}

/// Copies `length` bytes between `local` and `address` of process `pid`.
fn transfer(pid: i32, local: *mut u8, address: u64, length: u64, write: bool) -> io::Result<()> {
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
    use narrows_sim::Memory as _;

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
        memory.deliver(SimTime(1), 0, 0, address, 16);
        memory.capture(1, 0, address, 16);
        assert_eq!(memory.payloads[1].buffer[..16], [7; 16]);
        assert!(!memory.has_mail(0), "the write was done, nothing waits");
    }

    #[test]
    fn large_payloads_are_copied_at_once_and_bad_addresses_are_reported() {
        let mut memory = own_memory();
        let mut target = vec![0u8; 2 * INLINE_PAYLOAD];
        memory.hold(0, vec![9; 2 * INLINE_PAYLOAD].into());
        memory.deliver(SimTime(1), 0, 0, target.as_mut_ptr() as u64, target.len() as u64);
        assert!(std::hint::black_box(&target).iter().all(|&byte| byte == 9));
        assert!(memory.error.is_none());
        memory.capture(1, 0, 8, 100);
        let error = memory.error.expect("address 8 is not mapped");
        assert_eq!((error.rank, error.address, error.write), (0, 8, false));
    }
}
