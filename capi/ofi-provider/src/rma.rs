//! One-sided operations of an endpoint: reads, writes and atomics as gets, puts and atomics of Portals.
//!
//! Each is complete when its last ACK (puts, atomics) or REPLY (gets, fetching atomics, swaps) is here: what it wrote
//! is in the target's memory then, so that one way of completing serves all that libfabric distinguishes. Counters
//! count injected operations at the same moment, because MPICH takes its counter for the end of the remote part too.
//!
//! A fenced operation, and all that follow to the same peer, wait here until those before it are complete.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_void};

use narrows_portals::{AtomicOperation, Datatype, FailType, ProcessId, md};

use crate::emulated;
use crate::endpoint::{Bound, Slots, entry};
use crate::fi::{self, Errno};
use crate::port::{Interface, Target, abi, charge_copy};
use crate::queues::{Address, End, Entry, Origin, Shared};
use crate::regions::table_index;

/// A place at the target: `struct fi_rma_iov`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RemoteRegion {
    address: u64,
    length: usize,
    key: u64,
}

/// One read, write or atomic: `struct nw_one_sided` in C.
#[repr(C)]
pub struct Operation {
    local: *const libc::iovec,
    compare: *const libc::iovec,
    result: *const libc::iovec,
    remote: *const RemoteRegion,
    local_count: usize,
    compare_count: usize,
    result_count: usize,
    remote_count: usize,
    pub(crate) peer: u64,
    context: *mut c_void,
    flags: u64,
    kind: u32,
    datatype: u32,
    operation: u32,
    quiet: u32,
}

/// `enum nw_kind`.
const READ: u32 = 0;
const WRITE: u32 = 1;
const ATOMIC: u32 = 2;
const FETCH: u32 = 3;
const COMPARE: u32 = 4;

/// Of `enum fi_op`: the operations up to `FI_BXOR` have the numbers of Portals; then `FI_ATOMIC_READ`,
/// `FI_ATOMIC_WRITE`, and the first and last that compare.
const LAST_ARITHMETIC: u32 = 9;
const ATOMIC_READ: u32 = 10;
const ATOMIC_WRITE: u32 = 11;
const COMPARE_SWAP: u32 = 12;
const MASKED_SWAP: u32 = 18;

/// What is asked of Portals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A read.
    Get,
    /// A write.
    Put,
    /// Combines.
    Atomic(AtomicOperation, Datatype),
    /// Combines and fetches.
    Fetch(AtomicOperation, Datatype),
    /// Fetches by an operation that changes nothing.
    Look(Datatype),
    /// Swaps, perhaps on a condition.
    Swap(AtomicOperation, Datatype),
}

impl Work {
    /// It brings something back.
    pub fn fetches(self) -> bool {
        matches!(self, Work::Get | Work::Fetch(..) | Work::Look(_) | Work::Swap(..))
    }

    /// It compares with an operand.
    pub fn compares(self) -> bool {
        matches!(self, Work::Swap(operation, _) if operation.has_operand())
    }
}

/// The types of libfabric (`enum fi_datatype`) in the words of Portals.
fn datatype_of(number: u32) -> Result<Datatype, Errno> {
    use Datatype::*;
    const TYPES: [Datatype; 14] = [
        Int8,
        Uint8,
        Int16,
        Uint16,
        Int32,
        Uint32,
        Int64,
        Uint64,
        Float,
        Double,
        FloatComplex,
        DoubleComplex,
        LongDouble,
        LongDoubleComplex,
    ];
    let known = |datatype: &Datatype| narrows_portals::HAS_LONG_DOUBLE || !matches!(datatype, LongDouble | LongDoubleComplex);
    TYPES.get(number as usize).copied().filter(known).ok_or(fi::EOPNOTSUPP)
}

/// What an atomic is in Portals, and the most bytes of it.
fn atomic_work(kind: u32, datatype: u32, operation: u32, limits: &abi::NiLimits) -> Result<(Work, u64), Errno> {
    let datatype = datatype_of(datatype)?;
    let arithmetic = |operation| AtomicOperation::from_number(operation).filter(|known| known.accepts(datatype)).ok_or(fi::EOPNOTSUPP);
    let (plain, fetching) = (limits.max_atomic_size, limits.max_fetch_atomic_size);
    match (kind, operation) {
        (ATOMIC, ..=LAST_ARITHMETIC) => Ok((Work::Atomic(arithmetic(operation)?, datatype), plain)),
        (ATOMIC, ATOMIC_WRITE) => Ok((Work::Put, plain)),
        (FETCH, ..=LAST_ARITHMETIC) => Ok((Work::Fetch(arithmetic(operation)?, datatype), fetching)),
        (FETCH, ATOMIC_READ) => {
            // Any bits serve: "or" with nothing does not change them.
            let bits = match datatype.size() {
                1 => Datatype::Uint8,
                2 => Datatype::Uint16,
                4 => Datatype::Uint32,
                _ => Datatype::Uint64,
            };
            Ok((Work::Look(bits), fetching.min(NOTHING.len() as u64)))
        }
        (FETCH, ATOMIC_WRITE) => Ok((Work::Swap(AtomicOperation::Swap, datatype), fetching)),
        // Portals has no ATOMIC_READ and ATOMIC_WRITE, but SWAP, before them.
        (COMPARE, COMPARE_SWAP..=MASKED_SWAP) => Ok((Work::Swap(arithmetic(operation - 1)?, datatype), fetching)),
        _ => Err(fi::EOPNOTSUPP),
    }
}

/// Items, and bytes of one, of an atomic.
pub fn atomic_limits(kind: u32, datatype: u32, operation: u32, limits: &abi::NiLimits) -> Result<(usize, usize), Errno> {
    let (_, most) = atomic_work(kind, datatype, operation, limits)?;
    let size = datatype_of(datatype)?.size();
    match most / size {
        0 => Err(fi::EOPNOTSUPP),
        count => Ok((count as usize, size as usize)),
    }
}

/// The operand of an operation that changes nothing.
static NOTHING: [u8; 64] = [0; 64];

/// One Portals operation: addresses here, and a place in a region there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Piece {
    /// What is written or combined; where a read goes.
    pub local: u64,
    /// What is compared with.
    pub compare: u64,
    /// Where an atomic that fetches puts it.
    pub result: u64,
    /// Offset in the region.
    pub remote: u64,
    /// The region.
    pub key: u64,
    /// Bytes.
    pub length: u64,
}

/// A region of a list: address, length in units, key.
trait Extent: Copy {
    fn parts(self) -> (u64, usize, u64);
}

impl Extent for libc::iovec {
    fn parts(self) -> (u64, usize, u64) {
        (self.iov_base as u64, self.iov_len, 0)
    }
}

impl Extent for RemoteRegion {
    fn parts(self) -> (u64, usize, u64) {
        (self.address, self.length, self.key)
    }
}

/// A walk through a list of regions.
struct Walk<'a, T> {
    regions: &'a [T],
    unit: u64,
    done: u64,
}

impl<'a, T: Extent> Walk<'a, T> {
    /// # Safety
    ///
    /// `regions` points to `count` of them.
    unsafe fn new(regions: *const T, count: usize, unit: u64) -> Walk<'a, T> {
        // SAFETY: by the caller's promise.
        let regions = if regions.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(regions, count) } };
        Walk { regions, unit, done: 0 }
    }

    fn bytes(region: T, unit: u64) -> u64 {
        (region.parts().1 as u64).saturating_mul(unit)
    }

    fn total(&self) -> u64 {
        self.regions.iter().fold(0, |sum: u64, region| sum.saturating_add(Self::bytes(*region, self.unit)))
    }

    /// Bytes up to the end of the present region.
    fn room(&mut self) -> u64 {
        while let Some((first, rest)) = self.regions.split_first() {
            let left = Self::bytes(*first, self.unit) - self.done;
            // The last one stays, for operations without bytes.
            if left > 0 || rest.is_empty() {
                return left;
            }
            (self.regions, self.done) = (rest, 0);
        }
        0
    }

    /// Address and key of the next bytes.
    fn take(&mut self, length: u64) -> (u64, u64) {
        let Some(first) = self.regions.first() else { return (0, 0) };
        let (address, _, key) = first.parts();
        let place = address.wrapping_add(self.done);
        self.done += length;
        (place, key)
    }
}

/// Cuts an operation of at most `whole` bytes at the ends of all its regions, and into parts of at most `most` bytes.
fn cut(operation: &Operation, work: Work, unit: u64, (whole, most): (u64, u64), pieces: &mut Vec<Piece>) -> Result<u64, Errno> {
    // SAFETY: C passes the program's arrays with their lengths.
    let (mut local, mut compare, mut result, mut remote) = unsafe {
        (
            Walk::new(operation.local, operation.local_count, unit),
            Walk::new(operation.compare, operation.compare_count, unit),
            Walk::new(operation.result, operation.result_count, unit),
            Walk::new(operation.remote, operation.remote_count, unit),
        )
    };
    let operands = !matches!(work, Work::Look(_));
    let fetches = matches!(work, Work::Fetch(..) | Work::Look(_) | Work::Swap(..));
    let compares = work.compares();
    let total = remote.total();
    let agrees = |used: bool, bytes: u64| !used || bytes == total;
    if remote.regions.is_empty()
        || !(agrees(operands, local.total()) && agrees(fetches, result.total()) && agrees(compares, compare.total()))
    {
        return Err(fi::EINVAL);
    }
    if total > whole {
        return Err(fi::EMSGSIZE);
    }
    let mut left = total;
    loop {
        let mut length = remote.room().min(most).min(left);
        for (used, walk) in [(operands, &mut local), (fetches, &mut result), (compares, &mut compare)] {
            if used {
                length = length.min(walk.room());
            }
        }
        let (remote, key) = remote.take(length);
        let place = |used: bool, walk: &mut Walk<'_, libc::iovec>| if used { walk.take(length).0 } else { 0 };
        let local = place(operands, &mut local);
        let (result, compare) = (place(fetches, &mut result), place(compares, &mut compare));
        pieces.push(Piece { local, compare, result, remote, key, length });
        left -= length;
        if left == 0 {
            return Ok(total);
        }
    }
}

/// What is remembered of an operation until it is complete.
#[derive(Debug)]
struct Open {
    peer: ProcessId,
    context: usize,
    /// Of its completion.
    flags: u64,
    length: u64,
    /// Success gives an entry; failure always does.
    report: bool,
    /// Its counter, and its number there.
    counted: Option<(u32, u64)>,
    remaining: usize,
    fail: u32,
}

/// An operation behind a fence.
#[derive(Debug)]
struct Deferred {
    to: Address,
    index: u64,
    fence: bool,
    work: Work,
    pieces: Vec<Piece>,
    /// The data of an injected one.
    memory: Vec<u8>,
}

/// The one-sided half of an endpoint.
#[derive(Debug)]
pub struct OneSided {
    interface: Interface,
    /// Its event queue.
    pub queue: abi::Handle,
    /// Descriptors of the whole address space.
    put: abi::Handle,
    inject: abi::Handle,
    get: abi::Handle,
    open: Slots<Open>,
    /// Operations under way, by peer.
    unfinished: BTreeMap<ProcessId, usize>,
    deferred: VecDeque<Deferred>,
    pieces: Vec<Piece>,
    inject_size: u64,
}

impl OneSided {
    /// Opens it.
    pub fn open(interface: Interface, inject_size: u64) -> Result<OneSided, Errno> {
        let queue = interface.event_queue()?;
        let mut bound = Vec::with_capacity(3);
        for options in [md::EVENT_SEND_DISABLE, md::EVENT_SEND_DISABLE | md::VOLATILE, 0] {
            match interface.whole_memory(options, queue) {
                Ok(handle) => bound.push(handle),
                Err(error) => {
                    bound.into_iter().for_each(|handle| interface.release(handle));
                    interface.free_event_queue(queue);
                    return Err(error);
                }
            }
        }
        let [put, inject, get] = bound[..] else { return Err(fi::EOTHER) };
        Ok(OneSided {
            interface,
            queue,
            put,
            inject,
            get,
            open: Slots::default(),
            unfinished: BTreeMap::new(),
            deferred: VecDeque::new(),
            pieces: Vec::new(),
            inject_size,
        })
    }

    /// Gives everything back. Operations under way end without anybody to tell; those behind a fence never start.
    pub fn close(self, shared: &mut Shared) {
        for open in self.open.iter() {
            shared.end(open.counted, End::Uncounted);
        }
        for handle in [self.put, self.inject, self.get] {
            self.interface.release(handle);
        }
        self.interface.free_event_queue(self.queue);
    }

    /// Operations to this peer are under way.
    pub fn busy(&self, peer: ProcessId) -> bool {
        self.unfinished.contains_key(&peer)
    }

    /// Starts an operation.
    pub fn post(&mut self, bound: &Bound, shared: &mut Shared, peer: Address, operation: &Operation) -> Result<(), Errno> {
        let limits = &self.interface.limits;
        let (work, unit, most, whole) = match operation.kind {
            READ => (Work::Get, 1, limits.max_msg_size, abi::SIZE_MAX),
            WRITE => (Work::Put, 1, limits.max_msg_size, abi::SIZE_MAX),
            kind => {
                let (work, most) = atomic_work(kind, operation.datatype, operation.operation, limits)?;
                let size = datatype_of(operation.datatype)?.size();
                // Swaps on a condition work on one item.
                (work, size, if work.compares() { size } else { most }, most)
            }
        };
        let most = if shared.emulated.is_some() { most.min(emulated::PIECE) } else { most };
        let inject = operation.flags & fi::INJECT != 0;
        let whole = if inject { whole.min(self.inject_size) } else { whole };
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let total = cut(operation, work, unit, (whole, most), &mut pieces)?;
        let (direction, counter) = if work.fetches() { (fi::READ, bound.read_counter) } else { (fi::WRITE, bound.write_counter) };
        let family = if operation.kind <= WRITE { fi::RMA } else { fi::ATOMIC };
        let selective = bound.tx_cq.is_some_and(|(_, selective)| selective);
        let counted = shared.begin(counter);
        let index = self.open.insert(Open {
            peer: peer.process,
            context: operation.context as usize,
            flags: family | direction,
            length: total,
            report: operation.quiet == 0 && (!selective || operation.flags & fi::COMPLETION != 0),
            counted,
            remaining: pieces.len(),
            fail: 0,
        });
        let fence = operation.flags & fi::FENCE != 0;
        let waits = fence && self.busy(peer.process) || self.deferred.iter().any(|other| other.to.process == peer.process);
        if waits {
            let mut deferred = Deferred { to: peer, index, fence, work, pieces, memory: Vec::new() };
            if inject {
                keep(&mut deferred, total);
            }
            self.deferred.push_back(deferred);
            return Ok(());
        }
        let started = self.start(shared, index, peer, work, &pieces, inject);
        self.pieces = pieces;
        started.inspect_err(|_| shared.end(counted, End::Uncounted))
    }

    /// Gives all pieces to Portals. An error says that the first one was refused, and then nothing is under way.
    fn start(&mut self, shared: &mut Shared, index: u64, to: Address, work: Work, pieces: &[Piece], inject: bool) -> Result<(), Errno> {
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(emulated) = &mut shared.emulated {
                emulated.ask((self.queue, index), to, work, piece);
                continue;
            }
            let code = self.launch(index, to.process, table_index(to.domain), work, piece, inject);
            if code == abi::OK {
                continue;
            }
            if at == 0 {
                self.open.remove(index);
                return Err(if code == abi::NO_SPACE { fi::EAGAIN } else { fi::EINVAL });
            }
            if let Some(open) = self.open.get_mut(index) {
                open.remaining = at;
                open.fail = FailType::Undeliverable as u32;
            }
            break;
        }
        *self.unfinished.entry(to.process).or_default() += 1;
        Ok(())
    }

    fn launch(&mut self, index: u64, peer: ProcessId, table: u32, work: Work, piece: &Piece, inject: bool) -> c_int {
        let Piece { local, compare, result, remote: offset, key, length } = *piece;
        // As an injected message: what is too long to be written to the NIC is copied.
        if inject && length > self.interface.limits.max_volatile_size {
            charge_copy(length);
        }
        let target = Target { process: abi::Process::physical(peer.nid, peer.pid), table, key, offset, length, user: index };
        let (interface, put, get) = (&self.interface, if inject { self.inject } else { self.put }, self.get);
        match work {
            Work::Get => interface.get(get, local, target),
            Work::Put => interface.put(put, local, target),
            Work::Atomic(operation, datatype) => interface.atomic(put, local, target, operation, datatype),
            Work::Fetch(operation, datatype) => interface.fetch_atomic((get, result), (put, local), target, operation, datatype),
            Work::Look(datatype) => {
                let nothing = NOTHING.as_ptr() as u64;
                interface.fetch_atomic((get, result), (put, nothing), target, AtomicOperation::BitOr, datatype)
            }
            Work::Swap(operation, datatype) => interface.swap((get, result), (put, local), target, compare, operation, datatype),
        }
    }

    /// An event of the queue.
    pub fn event(&mut self, bound: &Bound, shared: &mut Shared, event: &abi::FullEvent) {
        self.done(bound, shared, event.user_ptr as u64, event.ni_fail_type);
    }

    /// A piece of an operation has ended.
    pub fn done(&mut self, bound: &Bound, shared: &mut Shared, index: u64, fail: u32) {
        let Some(open) = self.open.get_mut(index) else { return };
        if open.fail == 0 {
            open.fail = fail;
        }
        open.remaining -= 1;
        if open.remaining > 0 {
            return;
        }
        let Some(open) = self.open.remove(index) else { return };
        shared.end(open.counted, if open.fail == 0 { End::Success } else { End::Failure });
        if open.report || open.fail != 0 {
            let cq = bound.tx_cq.map(|(cq, _)| cq);
            let done = Entry { len: open.length as usize, ..entry(open.context, open.flags) };
            let err = error_of(open.fail);
            shared.push(cq, Entry { err, prov_errno: open.fail as i32, ..done }, Origin::Event);
        }
        if let Some(count) = self.unfinished.get_mut(&open.peer) {
            *count -= 1;
            if *count == 0 {
                self.unfinished.remove(&open.peer);
            }
        }
        self.release_fenced(bound, shared, open.peer);
    }

    /// Starts what may start now.
    fn release_fenced(&mut self, bound: &Bound, shared: &mut Shared, peer: ProcessId) {
        while let Some(at) = self.deferred.iter().position(|deferred| deferred.to.process == peer) {
            if self.deferred[at].fence && self.busy(peer) {
                return;
            }
            let Some(Deferred { to, index, work, pieces, memory, .. }) = self.deferred.remove(at) else { return };
            let (context, flags, counted) = self.open.get(index).map_or((0, 0, None), |open| (open.context, open.flags, open.counted));
            if let Err(err) = self.start(shared, index, to, work, &pieces, !memory.is_empty()) {
                shared.end(counted, End::Failure);
                shared.push(bound.tx_cq.map(|(cq, _)| cq), Entry { err, ..entry(context, flags) }, Origin::Event);
            }
        }
    }
}

/// libfabric's error of a `ni_fail_type`.
fn error_of(fail: u32) -> Errno {
    match fail {
        0 => 0,
        // No region has this key, or it does not reach so far.
        2 => fi::EKEYREJECTED,
        4 | 5 => fi::EACCES,
        6 => fi::EFAULT,
        _ => fi::EIO,
    }
}

/// Copies the data of an operation that has to wait, so that its buffer is free.
fn keep(deferred: &mut Deferred, total: u64) {
    let mut memory = Vec::with_capacity(total as usize);
    for piece in &deferred.pieces {
        // SAFETY: the program gave these bytes to be sent.
        memory.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.local as *const u8, piece.length as usize) });
    }
    charge_copy(total);
    let mut place = memory.as_ptr() as u64;
    for piece in &mut deferred.pieces {
        piece.local = place;
        place += piece.length;
    }
    deferred.memory = memory;
}
