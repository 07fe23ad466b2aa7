//! Random sequences of calls, right and wrong, on the NIC inside the process, with commands and messages under way
//! meanwhile. Every call returns a code that the specification has for it (a refusal by the NIC would be `PTL_FAIL`),
//! the NIC refuses nothing later, no event reaches a queue that it was not meant for, and at the end all is given back.
//!
//! `PROPTEST_CASES=20000 cargo test --release -p narrows-portals4 --test sequences` is a longer hunt. Alone in its
//! process, since there is one library for all.
// Every one is a call of the C API with places that are there.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use narrows_portals::NiLimits as Offered;
use narrows_portals::ProcessId;
use narrows_units::SimTime;
use portals::abi::{self, CtEvent, FullEvent, Handle, Iovec, ListEntry, MatchListEntry, MemoryDescriptor, NiLimits, Process};
use portals::{atomics::*, data::*, events::*, interfaces::*, lists::*, loopback, triggered::*};
use proptest::prelude::*;

const MEMORY: usize = 1 << 14;
const NI_KINDS: [u32; 4] = [
    abi::NI_MATCHING | abi::NI_PHYSICAL,
    abi::NI_NO_MATCHING | abi::NI_PHYSICAL,
    abi::NI_MATCHING | abi::NI_LOGICAL,
    abi::NI_NO_MATCHING | abi::NI_LOGICAL,
];
/// Memory that the NIC may read and write, and lists of segments that name it.
static mut ARENA: [u8; MEMORY] = [0; MEMORY];
const SEGMENTS: usize = 4;

fn arena() -> *mut u8 {
    (&raw mut ARENA).cast()
}

fn segments() -> *mut c_void {
    static LIST: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let list = LIST.get_or_init(|| {
        // SAFETY: inside the arena.
        let segment = |at: usize| Iovec { iov_base: unsafe { arena().add(1000 * at) }.cast(), iov_len: 100 * at as u64 };
        Box::leak(Box::new(std::array::from_fn::<_, SEGMENTS, _>(segment))).as_mut_ptr() as usize
    });
    *list as *mut c_void
}

/// A call, and numbers of which it makes its arguments.
#[derive(Clone, Debug)]
struct Call {
    what: &'static str,
    numbers: [u32; 6],
}

/// How often each function is called, and its codes beside OK, NO_INIT and ARG_INVALID, which all have.
const FUNCTIONS: [(&str, u32, &[c_int]); 39] = [
    ("PtlInit", 1, &[]),
    ("PtlFini", 1, &[]),
    ("PtlNIInit", 3, &[abi::PID_IN_USE, abi::NO_SPACE]),
    ("PtlNIFini", 1, &[]),
    ("PtlNIStatus", 1, &[]),
    ("PtlNIHandle", 1, &[]),
    ("PtlSetMap", 3, &[abi::IGNORED, abi::NO_SPACE]),
    ("PtlGetMap", 1, &[abi::NO_SPACE]),
    ("PtlGetId", 1, &[]),
    ("PtlPTAlloc", 8, &[abi::PT_FULL, abi::PT_IN_USE, abi::PT_EQ_NEEDED]),
    ("PtlPTFree", 2, &[abi::PT_IN_USE]),
    ("PtlPTEnable", 2, &[]),
    ("PtlPTDisable", 1, &[]),
    ("PtlMDBind", 10, &[abi::NO_SPACE]),
    ("PtlMDRelease", 2, &[]),
    ("append", 24, &[abi::NO_SPACE, abi::LIST_TOO_LONG]),
    ("unlink", 8, &[abi::IN_USE]),
    ("search", 4, &[]),
    ("PtlEQAlloc", 6, &[abi::NO_SPACE]),
    ("PtlEQFree", 3, &[]),
    ("PtlEQGet", 12, &[abi::EQ_EMPTY, abi::EQ_DROPPED, abi::ABORTED]),
    ("PtlEQPoll", 4, &[abi::EQ_EMPTY, abi::EQ_DROPPED, abi::ABORTED]),
    ("PtlCTAlloc", 6, &[abi::NO_SPACE]),
    ("PtlCTFree", 3, &[]),
    ("PtlCTGet", 2, &[]),
    ("PtlCTPoll", 2, &[abi::CT_NONE_REACHED, abi::ABORTED]),
    ("PtlCTSet", 2, &[]),
    ("PtlCTInc", 6, &[]),
    ("PtlCTCancelTriggered", 1, &[]),
    ("PtlPut", 24, &[]),
    ("PtlGet", 10, &[]),
    ("PtlAtomic", 6, &[]),
    ("PtlFetchAtomic", 6, &[]),
    ("PtlSwap", 6, &[]),
    ("triggered data", 8, &[abi::NO_SPACE]),
    ("triggered atomic", 6, &[abi::NO_SPACE]),
    ("triggered count", 6, &[abi::NO_SPACE]),
    ("triggered append", 6, &[abi::NO_SPACE, abi::LIST_TOO_LONG]),
    ("triggered unlink", 4, &[abi::NO_SPACE]),
];

/// What the program has: handles, valid or not any more.
#[derive(Default)]
struct Program {
    inits: u32,
    interfaces: Handles,
    queues: Handles,
    counters: Handles,
    descriptors: Handles,
    entries: Handles,
    /// By network interface and index: the queue, or none.
    tables: BTreeMap<(Handle, u32), Handle>,
    /// The queue of each descriptor.
    queue_of: BTreeMap<Handle, Handle>,
}

fn is_logical(handle: Handle) -> bool {
    handle >> 49 & 1 == 1
}

/// Whether to call the function for match list entries; mostly what the network interface of `handle` has.
fn matching(handle: Handle, number: u32) -> bool {
    (handle >> 48 & 1 == 0) ^ (number % 64 / 4 == 9)
}

/// Handles of one kind: those that have not been freed, as far as the program knows, and the others.
#[derive(Default)]
struct Handles {
    live: Vec<Handle>,
    freed: Vec<Handle>,
}

impl Handles {
    /// Notes a new handle if there is one.
    fn add(&mut self, code: c_int, handle: Handle) -> c_int {
        if code == abi::OK {
            self.live.push(handle);
        }
        code
    }

    fn free(&mut self, code: c_int, handle: Handle) -> c_int {
        if code == abi::OK {
            self.live.retain(|live| *live != handle);
            self.freed.push(handle);
        }
        code
    }

    /// Mostly one of the last few; sometimes an old one, one that was freed, none, or one of another kind.
    fn pick(&self, others: &Handles, number: u32) -> Handle {
        let (kind, number) = (number % 32, number / 32);
        let (from, last) = match kind {
            0 | 1 => return abi::HANDLE_NONE,
            2 => (&others.live, 4),
            3 | 4 => (&self.freed, 8),
            5 => (&self.live, 64),
            _ => (&self.live, 3),
        };
        let last = from.len().min(last);
        if last == 0 { abi::HANDLE_NONE } else { from[from.len() - 1 - number as usize % last] }
    }
}

impl Program {
    fn interface(&self, number: u32) -> Handle {
        // Few network interfaces, so that things belong together.
        self.interfaces.pick(&self.queues, if number.is_multiple_of(9) { number } else { 31 })
    }

    fn queue(&self, number: u32) -> Handle {
        self.queues.pick(&self.counters, number)
    }

    fn counter(&self, number: u32) -> Handle {
        self.counters.pick(&self.queues, number)
    }

    fn descriptor(&self, number: u32) -> Handle {
        self.descriptors.pick(&self.entries, number)
    }

    fn entry(&self, number: u32) -> Handle {
        self.entries.pick(&self.descriptors, number)
    }

    /// What comes back in the events of an operation: the queue that they are for.
    fn tag(&self, queue: Option<&Handle>) -> *mut c_void {
        queue.copied().unwrap_or_default() as *mut c_void
    }

    fn check(&self, queue: Handle, event: &FullEvent) {
        let meant = event.user_ptr as Handle;
        assert!(meant == 0 || meant == queue, "an event of kind {} for {meant:#x} is in {queue:#x}", event.kind);
    }

    fn run(&mut self, Call { what, numbers: [a, b, c, d, e, f] }: &Call) -> c_int {
        let (a, b, c, d, e, f) = (*a, *b, *c, *d, *e, *f);
        let name = *what;
        // SAFETY (of all calls below): pointers are to places of ours, or to the arena, which is there for ever.
        let at = |number: u32| unsafe { arena().add(number as usize % (MEMORY / 2)) }.cast::<c_void>();
        // Mostly the process itself: rank 1 of the maps that are set here.
        let target = |of: Handle| match e % 12 {
            0 => Process::physical(e, f),
            1 => Process::logical(e % 3),
            _ if is_logical(of) => Process::logical(1),
            _ => Process::physical(loopback::SELF.nid, loopback::SELF.pid),
        };
        let length = u64::from([0, 8, 16, 300, 400, 600, d % 1000, d % 70_000][d as usize % 8]);
        let offset = u64::from(if c.is_multiple_of(5) { c % 2000 } else { 0 });
        let (pt, bits, remote) = (b % 3 + if b.is_multiple_of(31) { 255 } else { 0 }, u64::from(a % 2), u64::from(f % 40));
        let threshold = u64::from(f % 5);
        let ack = [0, 0, 0, 0, 1, 2, 3, f % 5][f as usize / 8 % 8];
        let me = |program: &Program, ni: Handle| {
            let options = [0x3, 0x7, 0x1007, 0x3003, 0x10003, 0x113, 0x20003, 1 << 20 | 3, 0x8003, 0x3043, 0x3, e][d as usize % 12];
            let iovec = options & (1 << 20) != 0;
            MatchListEntry {
                start: if iovec { segments() } else { at(a) },
                length: if iovec { u64::from(c) % (SEGMENTS as u64 + 1) } else { u64::from(c) % 3000 },
                ct_handle: program.counter(f),
                uid: if e.is_multiple_of(9) { e } else { abi::UID_ANY },
                options,
                match_id: if e.is_multiple_of(4) {
                    target(ni)
                } else if is_logical(ni) {
                    Process::logical(abi::RANK_ANY)
                } else {
                    Process::physical(0, 0)
                },
                match_bits: bits,
                ignore_bits: u64::from(f / 8 % 2),
                min_free: u64::from(e % 500),
            }
        };
        let le = |me: &MatchListEntry| ListEntry {
            start: me.start,
            length: me.length,
            ct_handle: me.ct_handle,
            uid: me.uid,
            options: me.options,
        };
        let mut out: Handle = 0;
        let mut number = 0u32;
        unsafe {
            match name {
                "PtlInit" => {
                    let code = PtlInit();
                    self.inits += u32::from(code == abi::OK);
                    code
                }
                "PtlFini" => {
                    // Rarely the last one: there is more to be found in between.
                    if self.inits > 1 || a.is_multiple_of(8) {
                        PtlFini();
                        self.inits = self.inits.saturating_sub(1);
                    }
                    abi::OK
                }
                "PtlNIInit" => {
                    let few = NiLimits {
                        max_entries: (b % 20) as c_int,
                        max_unexpected_headers: (b % 4) as c_int,
                        max_mds: (c % 20) as c_int,
                        max_cts: (c % 9) as c_int,
                        max_eqs: (d % 9) as c_int,
                        max_pt_index: (d % 300) as c_int,
                        max_iovecs: (d % 5) as c_int,
                        max_list_size: (b % 7) as c_int,
                        max_triggered_ops: (e % 4) as c_int,
                        max_msg_size: u64::from(e % 5000),
                        max_atomic_size: u64::from(f % 100),
                        max_fetch_atomic_size: u64::from(f % 70),
                        max_waw_ordered_size: u64::from(f),
                        max_war_ordered_size: u64::from(f),
                        max_volatile_size: u64::from(e),
                        features: f,
                    };
                    let kind = if a.is_multiple_of(20) { a } else { NI_KINDS[[0, 0, 0, 0, 1, 2, 2, 3][a as usize % 8]] };
                    let desired = if b.is_multiple_of(6) { &raw const few } else { null() };
                    let mut actual = MaybeUninit::<NiLimits>::uninit();
                    let pid = if c.is_multiple_of(30) { c } else { abi::PID_ANY };
                    let code = PtlNIInit(u32::from(f.is_multiple_of(50)), kind, pid, desired, actual.as_mut_ptr(), &mut out);
                    if code == abi::OK {
                        let given = actual.assume_init();
                        assert!(given.max_msg_size > 0 && given.max_atomic_size > 0 && given.max_triggered_ops > 0);
                    }
                    self.interfaces.add(code, out)
                }
                "PtlNIFini" => {
                    if a.is_multiple_of(2) {
                        PtlNIFini(self.interface(b))
                    } else {
                        abi::OK
                    }
                }
                "PtlNIStatus" => {
                    let mut status = 0;
                    PtlNIStatus(self.interface(a), b % 4, &mut status)
                }
                "PtlNIHandle" => PtlNIHandle([self.queue(a), self.counter(a), self.entry(a), self.descriptor(a)][b as usize % 4], &mut out),
                "PtlSetMap" => {
                    let own = Process::physical(loopback::SELF.nid, loopback::SELF.pid);
                    let map = [Process::physical(a % 3, b % 3), own, Process::physical(7, 7)];
                    PtlSetMap(self.interface(c), u64::from(d % 4), map.as_ptr())
                }
                "PtlGetMap" => {
                    let (mut map, mut size) = ([Process::logical(0); 2], 0);
                    PtlGetMap(self.interface(a), 2, map.as_mut_ptr(), &mut size)
                }
                "PtlGetId" => {
                    let mut id = Process::logical(0);
                    PtlGetId(self.interface(a), &mut id)
                }
                "PtlPTAlloc" => {
                    let (ni, eq) = (self.interface(a), self.queue(b));
                    let options = if d.is_multiple_of(20) { d } else { [0, 0, 0, 2, 8][d as usize % 5] };
                    let code = PtlPTAlloc(ni, options, eq, if c.is_multiple_of(9) { abi::PT_ANY } else { c % 3 }, &mut number);
                    if code == abi::OK {
                        self.tables.insert((ni, number), eq);
                    }
                    code
                }
                "PtlPTFree" => {
                    let code = PtlPTFree(self.interface(a), pt);
                    if code == abi::OK {
                        self.tables.remove(&(self.interface(a), pt));
                    }
                    code
                }
                "PtlPTEnable" => PtlPTEnable(self.interface(a), pt),
                "PtlPTDisable" => PtlPTDisable(self.interface(a), pt),
                "PtlMDBind" => {
                    let queue = self.queue(b);
                    let options = if d.is_multiple_of(24) { d } else { [0, 4, 0x38, 0x78, 0x108, 1 << 20, 2, 0x80][d as usize % 8] };
                    let iovec = options & (1 << 20) != 0;
                    let (start, length) = match (iovec, e % 16) {
                        (true, _) => (segments(), u64::from(e) % (SEGMENTS as u64 + 1)),
                        (false, 0) => (null_mut(), abi::SIZE_MAX),
                        // Passes the end of the address space.
                        (false, 1) => ((u64::MAX - u64::from(f)) as *mut c_void, u64::from(f) + 1 + u64::from(e)),
                        _ => (at(e), u64::from(e) % 5000 + 700),
                    };
                    // Nothing is there at the beginning of the address space: only operations of no bytes go there.
                    let length = if start.is_null() { 0 } else { length };
                    let md = MemoryDescriptor { start, length, options, eq_handle: queue, ct_handle: self.counter(c) };
                    let code = PtlMDBind(self.interface(a), &md, &mut out);
                    if code == abi::OK {
                        self.queue_of.insert(out, queue);
                    }
                    self.descriptors.add(code, out)
                }
                "PtlMDRelease" => {
                    let md = self.descriptor(a);
                    self.descriptors.free(PtlMDRelease(md), md)
                }
                "append" => {
                    let ni = self.interface(a / 4);
                    let me = me(self, ni);
                    let tag = self.tag(self.tables.get(&(ni, pt)));
                    let list = e / 16 % if e.is_multiple_of(60) { 3 } else { 2 };
                    let code = match matching(ni, a) {
                        true => PtlMEAppend(ni, pt, &me, list, tag, &mut out),
                        false => PtlLEAppend(ni, pt, &le(&me), list, tag, &mut out),
                    };
                    self.entries.add(code, out)
                }
                "unlink" => {
                    let entry = self.entry(b);
                    let code = if matching(entry, a) { PtlMEUnlink(entry) } else { PtlLEUnlink(entry) };
                    self.entries.free(code, entry)
                }
                "search" => {
                    let ni = self.interface(a / 4);
                    let me = me(self, ni);
                    let tag = self.tag(self.tables.get(&(ni, pt)));
                    if matching(ni, a) { PtlMESearch(ni, pt, &me, e % 3, tag) } else { PtlLESearch(ni, pt, &le(&me), e % 3, tag) }
                }
                "PtlEQAlloc" => {
                    let code = PtlEQAlloc(self.interface(a), u64::from(b % 40), &mut out);
                    self.queues.add(code, out)
                }
                "PtlEQFree" => {
                    let eq = self.queue(a);
                    self.queues.free(PtlEQFree(eq), eq)
                }
                "PtlEQGet" | "PtlEQPoll" => {
                    let queues = [self.queue(a), self.queue(b)];
                    let mut event = MaybeUninit::<FullEvent>::uninit();
                    let code = if name == "PtlEQGet" {
                        PtlEQGet(queues[0], event.as_mut_ptr())
                    } else {
                        PtlEQPoll(queues.as_ptr(), c % 3, (d % 2).into(), event.as_mut_ptr(), &mut number)
                    };
                    if code == abi::OK || code == abi::EQ_DROPPED {
                        self.check(queues[number as usize], &event.assume_init());
                    }
                    code
                }
                "PtlCTAlloc" => {
                    let code = PtlCTAlloc(self.interface(a), &mut out);
                    self.counters.add(code, out)
                }
                "PtlCTFree" => {
                    let ct = self.counter(a);
                    self.counters.free(PtlCTFree(ct), ct)
                }
                "PtlCTGet" => {
                    let mut value = CtEvent::default();
                    PtlCTGet(self.counter(a), &mut value)
                }
                "PtlCTPoll" => {
                    let mut value = CtEvent::default();
                    let (counters, tests) = ([self.counter(a), self.counter(b)], [u64::from(c % 5), 3]);
                    PtlCTPoll(counters.as_ptr(), tests.as_ptr(), d % 3, (e % 2).into(), &mut value, &mut number)
                }
                "PtlCTSet" => PtlCTSet(self.counter(a), CtEvent { success: u64::from(b % 6), failure: u64::from(c % 2) }),
                "PtlCTInc" => PtlCTInc(self.counter(a), CtEvent { success: u64::from(b % 3), failure: u64::from(c % 2) }),
                "PtlCTCancelTriggered" => PtlCTCancelTriggered(self.counter(a)),
                "PtlPut" | "PtlGet" => {
                    let md = self.descriptor(a);
                    let tag = self.tag(self.queue_of.get(&md));
                    if name == "PtlGet" {
                        PtlGet(md, offset, length, target(md), pt, bits, remote, tag)
                    } else {
                        PtlPut(md, offset, length, ack, target(md), pt, bits, remote, tag, 1)
                    }
                }
                "triggered data" => {
                    let (md, ct) = (self.descriptor(a), self.counter(d));
                    let tag = self.tag(self.queue_of.get(&md));
                    if c.is_multiple_of(2) {
                        PtlTriggeredGet(md, offset, length, target(md), pt, bits, remote, tag, ct, threshold)
                    } else {
                        PtlTriggeredPut(md, offset, length, ack, target(md), pt, bits, remote, tag, 1, ct, threshold)
                    }
                }
                "PtlAtomic" | "PtlFetchAtomic" | "PtlSwap" | "triggered atomic" => {
                    let (md, other) = (self.descriptor(a), self.descriptor(b));
                    // Full events of both descriptors have the same user pointer: those of two queues cannot be told
                    // apart.
                    let (of_md, of_other) = (self.tag(self.queue_of.get(&md)), self.tag(self.queue_of.get(&other)));
                    let tag = if name == "PtlAtomic" || of_md == of_other { of_md } else { null_mut() };
                    let (operation, datatype) = (c % 19, d % 15);
                    let length =
                        if d.is_multiple_of(3) { length } else { [1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 16, 16, 32, 1][datatype as usize] };
                    let operand = [7u64; 4];
                    let operand = operand.as_ptr().cast();
                    let ct = self.counter(e);
                    match (name, f % 3) {
                        ("PtlAtomic", _) => PtlAtomic(md, offset, length, ack, target(md), pt, bits, remote, tag, 1, operation, datatype),
                        ("PtlFetchAtomic", _) => {
                            PtlFetchAtomic(md, 0, other, 0, length, target(md), pt, bits, remote, tag, 1, operation, datatype)
                        }
                        ("PtlSwap", _) => {
                            PtlSwap(md, 0, other, 0, length, target(md), pt, bits, remote, tag, 1, operand, operation, datatype)
                        }
                        (_, 0) => {
                            let tag = of_md;
                            PtlTriggeredAtomic(
                                md,
                                offset,
                                length,
                                ack,
                                target(md),
                                pt,
                                bits,
                                remote,
                                tag,
                                1,
                                operation,
                                datatype,
                                ct,
                                threshold,
                            )
                        }
                        (_, 1) => PtlTriggeredFetchAtomic(
                            md,
                            0,
                            other,
                            0,
                            length,
                            target(md),
                            pt,
                            bits,
                            remote,
                            tag,
                            1,
                            operation,
                            datatype,
                            ct,
                            threshold,
                        ),
                        _ => PtlTriggeredSwap(
                            md,
                            0,
                            other,
                            0,
                            length,
                            target(md),
                            pt,
                            bits,
                            remote,
                            tag,
                            1,
                            operand,
                            operation,
                            datatype,
                            ct,
                            threshold,
                        ),
                    }
                }
                "triggered count" => {
                    let value = CtEvent { success: u64::from(c % 3), failure: u64::from(d % 2) };
                    if e.is_multiple_of(2) {
                        PtlTriggeredCTInc(self.counter(a), value, self.counter(b), threshold)
                    } else {
                        PtlTriggeredCTSet(self.counter(a), value, self.counter(b), threshold)
                    }
                }
                "triggered append" => {
                    // Its table entry may be another one by then.
                    let (ni, tag) = (self.interface(a / 4), null_mut());
                    let me = me(self, ni);
                    let ct = self.counter(c);
                    let code = match matching(ni, a) {
                        true => PtlTriggeredMEAppend(ni, pt, &me, e / 16 % 2, tag, &mut out, ct, threshold),
                        false => PtlTriggeredLEAppend(ni, pt, &le(&me), e / 16 % 2, tag, &mut out, ct, threshold),
                    };
                    self.entries.add(code, out)
                }
                "triggered unlink" => {
                    let (entry, ct) = (self.entry(a), self.counter(b));
                    if matching(entry, c) { PtlTriggeredMEUnlink(entry, ct, threshold) } else { PtlTriggeredLEUnlink(entry, ct, threshold) }
                }
                other => unreachable!("{other}"),
            }
        }
    }
}

/// A program with an open network interface that closes what it has left open.
fn run(calls: &[Call]) {
    let mut program = Program::default();
    for what in ["PtlInit", "PtlNIInit", "PtlEQAlloc", "PtlCTAlloc", "PtlPTAlloc", "PtlMDBind"] {
        program.run(&Call { what, numbers: [5, 37, 4, 1, 2022, 1] });
    }
    for call in calls {
        let (name, _, codes) = *FUNCTIONS.iter().find(|(name, ..)| *name == call.what).expect("calls are made of this table");
        let code = program.run(call);
        let known = [abi::OK, abi::NO_INIT, abi::ARG_INVALID].contains(&code) || codes.contains(&code);
        assert!(known, "{name} returned {code} for {:?}", call.numbers);
        assert!((code == abi::NO_INIT) <= (program.inits == 0), "{name} returned PTL_NO_INIT after PtlInit");
    }
    for _ in 0..program.inits {
        PtlFini();
    }
    assert_eq!(loopback::rest(), 0, "messages that are never complete");
    // All is there again: as many entries as the NIC has.
    let mut handle = 0;
    let ni = {
        let mut ni = 0;
        unsafe {
            assert_eq!(PtlInit(), abi::OK);
            assert_eq!(PtlNIInit(0, NI_KINDS[0], abi::PID_ANY, null(), null_mut(), &mut ni), abi::OK);
        }
        ni
    };
    let mut pt = 0;
    let me = MatchListEntry {
        start: null_mut(),
        length: 0,
        ct_handle: 0,
        uid: abi::UID_ANY,
        options: 1,
        match_id: Process::physical(0, 0),
        match_bits: 0,
        ignore_bits: 0,
        min_free: 0,
    };
    unsafe {
        assert_eq!(PtlPTAlloc(ni, 0, 0, 0, &mut pt), abi::OK);
        for _ in 0..ENTRIES {
            assert_eq!(PtlMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::OK);
        }
        assert_eq!(PtlMEAppend(ni, pt, &me, abi::PRIORITY_LIST, null_mut(), &mut handle), abi::NO_SPACE);
    }
    PtlFini();
}

const ENTRIES: u32 = 24;

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let names = FUNCTIONS.iter().flat_map(|(name, weight, _)| std::iter::repeat_n(*name, *weight as usize)).collect::<Vec<_>>();
    let call = (prop::sample::select(names), any::<[u32; 6]>()).prop_map(|(what, numbers)| Call { what, numbers });
    prop::collection::vec(call, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_calls_is_refused_later(calls in calls()) {
        assert_eq!(loopback::SELF, ProcessId { nid: 1, pid: 1 });
        let interface = Offered { max_entries: ENTRIES, max_triggered_ops: 6, max_eqs: 8, max_cts: 8, ..Offered::BXI_V2 };
        loopback::install(loopback::Limits { interface, ..loopback::DEFAULT_LIMITS });
        loopback::pace(SimTime::from_ns(50), SimTime::from_ns(700));
        run(&calls);
    }
}
