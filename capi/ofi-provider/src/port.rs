//! The Portals library beneath: the C functions of `libportals.so`.
//!
//! Each endpoint of the process has a block of portal table entries. The block's first index, the
//! *base*, is part of the endpoint's address; endpoints talk to those of the same base, which is what
//! ranks get that open their endpoints in the same order.

use narrows_output::say;
use std::ffi::{c_int, c_long, c_uint, c_void};
use std::mem::MaybeUninit;

use narrows_message::portal_table;
use narrows_portals::{AtomicOperation, Datatype, Event, EventKind, FailType, NID_ANY, PID_ANY, ProcessId, me};

use crate::fi::{self, Errno};

#[path = "../../portals4/src/abi.rs"]
#[allow(dead_code)]
pub mod abi;

use abi::{FullEvent, Handle, MatchListEntry, MemoryDescriptor, NiLimits, PrivateSettings, Process};

unsafe extern "C" {
    fn PtlInit() -> c_int;
    fn PtlNIInit(iface: u32, options: c_uint, pid: u32, desired: *const NiLimits, actual: *mut NiLimits, ni: *mut Handle) -> c_int;
    fn PtlNIStatus(ni: Handle, register: c_uint, value: *mut c_int) -> c_int;
    fn PtlGetPhysId(ni: Handle, id: *mut Process) -> c_int;
    fn PtlPTAlloc(ni: Handle, options: c_uint, eq: Handle, request: u32, index: *mut u32) -> c_int;
    fn PtlPTDisable(ni: Handle, index: u32) -> c_int;
    fn PtlPTFree(ni: Handle, index: u32) -> c_int;
    fn PtlEQAlloc(ni: Handle, count: u64, eq: *mut Handle) -> c_int;
    fn PtlEQFree(eq: Handle) -> c_int;
    fn PtlEQPoll(eqs: *const Handle, size: c_uint, timeout: c_long, event: *mut FullEvent, which: *mut c_uint) -> c_int;
    fn PtlMDBind(ni: Handle, md: *const MemoryDescriptor, handle: *mut Handle) -> c_int;
    fn PtlMDRelease(md: Handle) -> c_int;
    fn PtlMEAppend(ni: Handle, pt: u32, me: *const MatchListEntry, list: c_uint, user: *mut c_void, handle: *mut Handle) -> c_int;
    fn PtlMEUnlink(me: Handle) -> c_int;
    fn PtlPut(
        md: Handle,
        local_offset: u64,
        length: u64,
        ack: c_uint,
        target: Process,
        pt: u32,
        match_bits: u64,
        remote_offset: u64,
        user: *mut c_void,
        hdr_data: u64,
    ) -> c_int;
    fn PtlGet(
        md: Handle,
        local_offset: u64,
        length: u64,
        target: Process,
        pt: u32,
        match_bits: u64,
        remote_offset: u64,
        user: *mut c_void,
    ) -> c_int;
    fn PtlAtomic(
        md: Handle,
        local_offset: u64,
        length: u64,
        ack: c_uint,
        target: Process,
        pt: u32,
        match_bits: u64,
        remote_offset: u64,
        user: *mut c_void,
        hdr_data: u64,
        operation: c_uint,
        datatype: c_uint,
    ) -> c_int;
    fn PtlFetchAtomic(
        get_md: Handle,
        local_get_offset: u64,
        put_md: Handle,
        local_put_offset: u64,
        length: u64,
        target: Process,
        pt: u32,
        match_bits: u64,
        remote_offset: u64,
        user: *mut c_void,
        hdr_data: u64,
        operation: c_uint,
        datatype: c_uint,
    ) -> c_int;
    fn PtlSwap(
        get_md: Handle,
        local_get_offset: u64,
        put_md: Handle,
        local_put_offset: u64,
        length: u64,
        target: Process,
        pt: u32,
        match_bits: u64,
        remote_offset: u64,
        user: *mut c_void,
        hdr_data: u64,
        operand: *const c_void,
        operation: c_uint,
        datatype: c_uint,
    ) -> c_int;
    fn PtlCTAlloc(ni: Handle, ct: *mut Handle) -> c_int;
    fn PtlCTFree(ct: Handle) -> c_int;
    fn narrows_get_settings(settings: *mut PrivateSettings) -> c_int;
    fn narrows_endpoint_open();
    fn narrows_before_start(prepare: extern "C" fn());
    fn narrows_charge_copy(bytes: u64);
    fn narrows_charge_completion();
    fn narrows_expect_soon(yes: c_int);
    fn narrows_idle_poll() -> c_int;
    fn narrows_librarys_thread() -> c_int;
    fn narrows_after_look(found: c_int);
    fn narrows_own_queue_first() -> c_int;
    fn narrows_own_queue_empty() -> c_int;
    fn narrows_network_first();
    fn narrows_eq_check(eqs: *const Handle, size: c_uint, event: *mut FullEvent, which: *mut c_uint) -> c_int;
}

/// Thresholds of the machine file, or why there are none.
pub fn settings() -> Result<PrivateSettings, Errno> {
    let mut settings = PrivateSettings::default();
    // SAFETY: a valid place.
    match unsafe { narrows_get_settings(&mut settings) } {
        abi::OK => Ok(settings),
        // The process is not a rank of a run; libportals has said so.
        _ => Err(fi::ENODATA),
    }
}

/// The MPI library has an endpoint; `prepare` is to be called when simulated time is about to begin.
pub fn endpoint_open(prepare: extern "C" fn()) {
    // SAFETY: no preconditions.
    unsafe {
        narrows_endpoint_open();
        narrows_before_start(prepare);
    }
}

/// The time that a copy takes.
pub fn charge_copy(bytes: u64) {
    // SAFETY: no preconditions.
    unsafe { narrows_charge_copy(bytes) }
}

/// The time that handing out a completion takes.
pub fn charge_completion() {
    // SAFETY: no preconditions.
    unsafe { narrows_charge_completion() }
}

/// A search is on its way: empty polls wait for its result.
pub fn expect_soon(yes: bool) {
    // SAFETY: no preconditions.
    unsafe { narrows_expect_soon(c_int::from(yes)) }
}

/// The library has looked at its queues, and no lock of ours is held. `found`: something is handed to it.
pub fn after_look(found: bool) {
    // SAFETY: a plain number.
    unsafe { narrows_after_look(c_int::from(found)) }
}

/// An empty poll would have no effect and can be left out.
pub fn idle_poll() -> bool {
    // SAFETY: no preconditions.
    unsafe { narrows_idle_poll() != 0 }
}

/// The MPI library has started the calling thread for itself.
pub fn librarys_thread() -> bool {
    // SAFETY: no preconditions.
    unsafe { narrows_librarys_thread() != 0 }
}

/// The MPI library looks for a message of any source, and must look into its own queue of messages to itself first.
pub fn own_queue_first() -> bool {
    // SAFETY: no preconditions.
    unsafe { narrows_own_queue_first() != 0 }
}

/// It polls a completion queue in vain, which was only waited for because it shows that its own queue is empty.
pub fn own_queue_empty() -> bool {
    // SAFETY: no preconditions.
    unsafe { narrows_own_queue_empty() != 0 }
}

/// It has found a message of any source on the network.
pub fn network_first() {
    // SAFETY: no preconditions.
    unsafe { narrows_network_first() }
}

/// How long to look for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The program has nothing else to do: an empty poll, which may wait for the next event.
    Poll,
    /// The program has something to do: only what is there.
    Check,
    /// So many milliseconds of simulated time, or for ever when negative.
    Wait(c_long),
}

/// The next event of these queues, and of which it is.
pub fn next_event(queues: &[Handle], look: Look) -> Option<(Handle, FullEvent)> {
    if queues.is_empty() {
        return None;
    }
    let mut event = MaybeUninit::<FullEvent>::uninit();
    let mut which: c_uint = 0;
    let (eqs, size, place) = (queues.as_ptr(), queues.len() as c_uint, event.as_mut_ptr());
    // SAFETY: an array of `size` handles and valid places.
    let code = unsafe {
        match look {
            Look::Poll => PtlEQPoll(eqs, size, 0, place, &mut which),
            Look::Check => narrows_eq_check(eqs, size, place, &mut which),
            Look::Wait(ms) => PtlEQPoll(eqs, size, ms, place, &mut which),
        }
    };
    // SAFETY: PTL_OK says that the event was written.
    (code == abi::OK).then(|| (queues[which as usize], unsafe { event.assume_init() }))
}

/// The process's network interface, opened by its first endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    ni: Handle,
    /// This process.
    pub local: ProcessId,
    /// What the machine file grants.
    pub limits: NiLimits,
}

impl Interface {
    /// Opens it: matching, physical.
    pub fn open() -> Result<Interface, Errno> {
        let mut ni = 0;
        let mut id = Process::logical(0);
        let mut limits = MaybeUninit::uninit();
        // SAFETY: valid places; null limits ask for all there is.
        unsafe {
            check("PtlInit", PtlInit())?;
            let options = abi::NI_MATCHING | abi::NI_PHYSICAL;
            check("PtlNIInit", PtlNIInit(0, options, abi::PID_ANY, std::ptr::null(), limits.as_mut_ptr(), &mut ni))?;
            check("PtlGetPhysId", PtlGetPhysId(ni, &mut id))?;
            let local = ProcessId { nid: id.phys.nid, pid: id.phys.pid };
            // PTL_OK says that the limits were written.
            Ok(Interface { ni, local, limits: limits.assume_init() })
        }
    }
}

/// Where a one-sided operation goes.
#[derive(Clone, Copy)]
pub struct Target {
    /// The process.
    pub process: Process,
    /// Its portal table entry.
    pub table: u32,
    /// Match bits.
    pub key: u64,
    /// In the region.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Comes back in the event.
    pub user: u64,
}

fn pointer(number: u64) -> *mut c_void {
    number as usize as *mut c_void
}

/// Portals for one-sided operations. Results are its own codes where the caller distinguishes them.
impl Interface {
    /// Waits until the NIC has done what it was given so far.
    pub fn settle(&self) -> Result<(), Errno> {
        let mut drops = 0;
        // SAFETY: a valid place.
        check("PtlNIStatus", unsafe { PtlNIStatus(self.ni, abi::SR_DROP_COUNT, &mut drops) })
    }

    /// An event queue that never overflows.
    pub fn event_queue(&self) -> Result<Handle, Errno> {
        let mut queue = 0;
        // SAFETY: a valid place.
        check("PtlEQAlloc", unsafe { PtlEQAlloc(self.ni, EVENTS, &mut queue) }).map(|()| queue)
    }

    /// Gives it back.
    pub fn free_event_queue(&self, queue: Handle) {
        // SAFETY: any value may be given.
        unsafe { PtlEQFree(queue) };
    }

    /// A counting event.
    pub fn counting_event(&self) -> Result<Handle, Errno> {
        let mut counting = 0;
        // SAFETY: a valid place.
        check("PtlCTAlloc", unsafe { PtlCTAlloc(self.ni, &mut counting) }).map(|()| counting)
    }

    /// Gives it back.
    pub fn free_counting_event(&self, counting: Handle) {
        // SAFETY: any value may be given.
        unsafe { PtlCTFree(counting) };
    }

    /// The portal table entry of this very number.
    pub fn table_entry(&self, index: u32, options: u32, queue: Handle) -> Result<(), Errno> {
        let mut got = 0;
        // SAFETY: a valid place.
        check("PtlPTAlloc", unsafe { PtlPTAlloc(self.ni, options, queue, index, &mut got) })
    }

    /// Gives it back. Messages that still come find no entry.
    pub fn free_table_entry(&self, index: u32) {
        // SAFETY: what is already gone answers with an error that changes nothing.
        unsafe { PtlPTFree(self.ni, index) };
    }

    /// The descriptor of the whole address space with these options.
    pub fn whole_memory(&self, options: u32, eq_handle: Handle) -> Result<Handle, Errno> {
        let md = MemoryDescriptor { start: std::ptr::null_mut(), length: abi::SIZE_MAX, options, eq_handle, ct_handle: abi::HANDLE_NONE };
        let mut handle = 0;
        // SAFETY: valid places.
        check("PtlMDBind", unsafe { PtlMDBind(self.ni, &md, &mut handle) }).map(|()| handle)
    }

    /// Releases a descriptor.
    pub fn release(&self, md: Handle) {
        // SAFETY: any value may be given.
        unsafe { PtlMDRelease(md) };
    }

    /// Appends a region that anybody who knows its key may use.
    pub fn append(&self, table: u32, key: u64, start: u64, length: u64, options: u32, counting: Handle) -> Result<Handle, Errno> {
        let ct_handle = if options & me::EVENT_CT_COMM != 0 { counting } else { abi::HANDLE_NONE };
        let entry = MatchListEntry {
            start: pointer(start),
            length,
            ct_handle,
            uid: abi::UID_ANY,
            options,
            match_id: Process::physical(NID_ANY, PID_ANY),
            match_bits: key,
            ignore_bits: 0,
            min_free: 0,
        };
        let mut handle = 0;
        // SAFETY: valid places; the program gives the memory until the region is closed.
        let code = unsafe { PtlMEAppend(self.ni, table, &entry, abi::PRIORITY_LIST, std::ptr::null_mut(), &mut handle) };
        check("PtlMEAppend", code).map(|()| handle)
    }

    /// Unlinks a region; false: an operation still uses it.
    pub fn unlink(&self, entry: Handle) -> bool {
        // SAFETY: any value may be asked for.
        unsafe { PtlMEUnlink(entry) != abi::IN_USE }
    }

    /// Fetches to `local`; a REPLY event follows.
    pub fn get(&self, md: Handle, local: u64, to: Target) -> c_int {
        // SAFETY: the program keeps its buffers valid until completion; so for all operations below.
        unsafe { PtlGet(md, local, to.length, to.process, to.table, to.key, to.offset, pointer(to.user)) }
    }

    /// Writes from `local`; an ACK event follows.
    pub fn put(&self, md: Handle, local: u64, to: Target) -> c_int {
        // SAFETY: as above.
        unsafe { PtlPut(md, local, to.length, abi::ACK_REQ, to.process, to.table, to.key, to.offset, pointer(to.user), 0) }
    }

    /// Combines; an ACK event follows.
    pub fn atomic(&self, md: Handle, local: u64, to: Target, operation: AtomicOperation, datatype: Datatype) -> c_int {
        let (user, operation, datatype) = (pointer(to.user), operation as c_uint, datatype as c_uint);
        // SAFETY: as above.
        unsafe { PtlAtomic(md, local, to.length, abi::ACK_REQ, to.process, to.table, to.key, to.offset, user, 0, operation, datatype) }
    }

    /// Combines and fetches; a REPLY event follows.
    pub fn fetch_atomic(
        &self,
        (get_md, result): (Handle, u64),
        (put_md, local): (Handle, u64),
        to: Target,
        operation: AtomicOperation,
        datatype: Datatype,
    ) -> c_int {
        let Target { process, table, key, offset, length, user } = to;
        let (operation, datatype) = (operation as c_uint, datatype as c_uint);
        // SAFETY: as above.
        unsafe { PtlFetchAtomic(get_md, result, put_md, local, length, process, table, key, offset, pointer(user), 0, operation, datatype) }
    }

    /// Swaps and fetches, perhaps on a condition on what stands at `operand`; a REPLY event follows.
    pub fn swap(
        &self,
        (get_md, result): (Handle, u64),
        (put_md, local): (Handle, u64),
        to: Target,
        operand: u64,
        operation: AtomicOperation,
        datatype: Datatype,
    ) -> c_int {
        let Target { process, table, key, offset, length, user } = to;
        let (operand, operation, datatype) = (pointer(operand), operation as c_uint, datatype as c_uint);
        // SAFETY: as above.
        unsafe {
            PtlSwap(get_md, result, put_md, local, length, process, table, key, offset, pointer(user), 0, operand, operation, datatype)
        }
    }
}

fn check(call: &str, code: c_int) -> Result<(), Errno> {
    match code {
        abi::OK => Ok(()),
        abi::NO_SPACE | abi::PT_FULL | abi::PT_IN_USE => Err(fi::ENOSPC),
        _ => {
            say!("{call} fails with {code}");
            Err(fi::EOTHER)
        }
    }
}

/// Events that the queue of an endpoint must hold. It is memory of the host, so the number is our own
/// choice: none is ever lost.
const EVENTS: u64 = u32::MAX as u64;

/// Portal table entries of one endpoint.
pub fn block_size() -> u32 {
    portal_table().len() as u32
}

/// An endpoint's part of Portals.
#[derive(Debug)]
pub struct Port {
    /// The process's.
    pub interface: Interface,
    /// Its event queue.
    pub queue: Handle,
    /// First portal table entry.
    pub base: u32,
}

impl Port {
    /// Allocates queue and portal table entries.
    pub fn open(interface: Interface, base: u32) -> Result<Port, Errno> {
        let mut queue = 0;
        // SAFETY: a valid place.
        check("PtlEQAlloc", unsafe { PtlEQAlloc(interface.ni, EVENTS, &mut queue) })?;
        let mut port = Port { interface, queue, base };
        for (index, options) in portal_table() {
            let mut got = 0;
            // SAFETY: a valid place.
            let code = unsafe { PtlPTAlloc(interface.ni, options, queue, base + index, &mut got) };
            if let Err(error) = check("PtlPTAlloc", code) {
                port.close();
                return Err(error);
            }
        }
        Ok(port)
    }

    /// Gives everything back. Messages that still come find no entry.
    pub fn close(&mut self) {
        // SAFETY: handles and indices of this port; what is already gone answers with an error that
        // changes nothing.
        unsafe {
            for (index, _) in portal_table() {
                PtlPTDisable(self.interface.ni, self.base + index);
            }
            for (index, _) in portal_table() {
                PtlPTFree(self.interface.ni, self.base + index);
            }
            PtlEQFree(self.queue);
        }
    }
}

/// An event of the queue of messages, which is a completion ([`narrows_message::Completion::from_event`]).
pub fn completion(event: &FullEvent) -> Event {
    // SAFETY: any bytes are a valid process.
    let initiator = unsafe { event.initiator.phys };
    Event {
        fail: FailType::from_number(event.ni_fail_type).unwrap_or(FailType::Undeliverable),
        initiator: ProcessId { nid: initiator.nid, pid: initiator.pid },
        start: event.start as u64,
        user_ptr: event.user_ptr as u64,
        hdr_data: event.hdr_data,
        match_bits: event.match_bits,
        rlength: event.rlength,
        mlength: event.mlength,
        ..Event::blank(EventKind::Send)
    }
}
