//! The state of the library in one process: network interfaces, event queues, counters, memory
//! descriptors, and how arguments and events are translated.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_portals::{
    Command, CtId, EqId, Event, List, MatchEntry, NO_TICKET, PT_PER_INTERFACE, ProcessId, Register, ReplyCode, UID_ANY, md, me, pt,
};

use crate::abi::{self, FullEvent, Handle, NiLimits, Process};
use crate::handle::{HandleKind, Slots, ct_id, eq_id, pack, unpack};
use crate::nic::{Limits, Nic};

/// A result, or the return code of the call.
pub type Outcome<T> = Result<T, c_int>;

/// Portal table entries of one network interface.
pub const PT_COUNT: u32 = PT_PER_INTERFACE;
/// Matching or not, physical or logical.
pub const INTERFACES: usize = 4;

/// Options that a portal table entry may have.
const PT_OPTIONS: u32 = pt::ONLY_USE_ONCE | pt::FLOWCTRL | pt::ONLY_TRUNCATE | pt::ALLOC_DISABLED;
/// Options of list entries that need matching (section 3.12.1).
const ME_ONLY: u32 = me::MANAGE_LOCAL | me::NO_TRUNCATE | me::MAY_ALIGN | me::LOCAL_INC_UH_RLENGTH;
const ENTRY_OPTIONS: u32 = ((1 << 16) - 1) & !(1 << 5) | me::IOVEC | me::CONTEXT | ME_ONLY;

/// One network interface.
#[derive(Debug)]
pub struct Interface {
    references: u32,
    /// What `PtlNIInit` answered.
    pub limits: NiLimits,
    /// It asked for less than the NIC has of what the NIC counts.
    limited: bool,
    map: Option<Map>,
    tables: Vec<bool>,
    /// List entries that there may be at most; the NIC knows better, and is asked when this reaches the limit.
    /// [`UNKNOWN`] at first in a network interface that is opened again: what the NIC had of it may not be gone yet.
    entries: u64,
    /// The same for triggered operations.
    triggered: u64,
    /// The same for the priority list and the overflow list of each portal table entry.
    lists: Vec<[u64; 2]>,
}

const UNKNOWN: u64 = u64::MAX;

/// Ranks of a logical network interface.
#[derive(Debug)]
struct Map {
    processes: Vec<ProcessId>,
    ranks: BTreeMap<ProcessId, u32>,
}

/// A memory descriptor, resolved.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Of which network interface.
    pub interface: usize,
    /// First byte.
    pub start: u64,
    /// Bytes, of all segments.
    pub length: u64,
    /// Segments; 0: one piece.
    pub segments: u32,
    /// See [`narrows_portals::md`].
    pub options: u32,
    /// Of full events, the number of the queue. It may be freed while it is named here (section 3.13.5 leaves that to
    /// the program): operations go on, and nobody hears of them.
    pub queue: Option<u64>,
    /// The same of counting events.
    pub counter: Option<u64>,
}

/// Everything the library knows.
#[derive(Debug)]
pub struct Library {
    initialised: u32,
    interfaces: [Option<Interface>; INTERFACES],
    /// Network interfaces that have been closed.
    closed: [bool; INTERFACES],
    /// Event queues, with their network interface.
    eqs: Slots<usize>,
    /// Counting events, with their network interface and the last value that the program was shown.
    cts: Slots<(usize, Option<u64>)>,
    mds: Slots<Descriptor>,
    next_entry: u64,
    /// `PtlAbort` was called.
    pub aborted: bool,
    /// The libfabric provider uses the library, and says itself when it has an endpoint.
    pub serves_provider: bool,
}

static LIBRARY: Mutex<Library> = Mutex::new(Library::new());

/// The process's library. Taken after the NIC, never before.
pub fn library() -> MutexGuard<'static, Library> {
    // A panic is reported at the C boundary; the state behind it stays usable.
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a network interface matches, and whether its ids are ranks.
pub fn is_matching(interface: usize) -> bool {
    interface & 1 == 0
}

fn is_logical(interface: usize) -> bool {
    interface & 2 != 0
}

/// The NIC has one portal table for the process; each network interface owns a part.
pub fn table_index(interface: usize, index: u32) -> Outcome<u32> {
    if index < PT_COUNT { Ok(interface as u32 * PT_COUNT + index) } else { Err(abi::ARG_INVALID) }
}

/// What the NIC can do beside the least (section 3.6.1). Its atomics work on the memory that the program sees.
const FEATURES: c_uint = abi::TARGET_BIND_INACCESSIBLE | abi::COHERENT_ATOMICS;

/// The most that a network interface offers, as the machine file says.
fn offered(limits: Limits) -> NiLimits {
    let count = |limit: u32| c_int::try_from(limit).unwrap_or(c_int::MAX);
    let most = limits.interface;
    NiLimits {
        max_entries: count(most.max_entries),
        max_unexpected_headers: count(most.max_unexpected_headers),
        max_mds: count(most.max_mds),
        max_cts: count(most.max_cts),
        max_eqs: count(most.max_eqs),
        max_pt_index: PT_COUNT as c_int - 1,
        max_iovecs: count(most.max_iovecs),
        max_list_size: count(most.max_list_size),
        max_triggered_ops: count(most.max_triggered_ops),
        max_msg_size: limits.max_portals_message.min(abi::SIZE_MAX),
        max_atomic_size: most.max_atomic_size.get(),
        max_fetch_atomic_size: most.max_fetch_atomic_size.get(),
        max_waw_ordered_size: most.max_waw_ordered_size.get(),
        // Writes after reads are not ordered.
        max_war_ordered_size: 0,
        max_volatile_size: limits.pio_limit,
        features: FEATURES,
    }
}

/// The smaller of what is asked and what is offered (section 3.6.1: limits are negotiated down). Nobody asks for
/// operations of zero bytes only, for a table of one entry or for no triggered operations: there 0 is no wish, as in a
/// structure of which a program has filled in what it cares about.
fn negotiate(offered: NiLimits, desired: Option<&NiLimits>) -> NiLimits {
    // Access to memory that is not there has its price, so it must be asked for.
    let Some(desired) = desired else { return NiLimits { features: abi::COHERENT_ATOMICS, ..offered } };
    let count = |offered: c_int, desired: c_int| if desired < 0 { offered } else { offered.min(desired) };
    let wished = |offered: c_int, desired: c_int| if desired == 0 { offered } else { count(offered, desired) };
    let size = |offered: u64, desired: u64| if desired == 0 { offered } else { offered.min(desired) };
    let max_atomic_size = size(offered.max_atomic_size, desired.max_atomic_size);
    NiLimits {
        max_entries: count(offered.max_entries, desired.max_entries),
        max_unexpected_headers: count(offered.max_unexpected_headers, desired.max_unexpected_headers),
        max_mds: count(offered.max_mds, desired.max_mds),
        max_cts: count(offered.max_cts, desired.max_cts),
        max_eqs: count(offered.max_eqs, desired.max_eqs),
        max_pt_index: wished(offered.max_pt_index, desired.max_pt_index),
        max_iovecs: count(offered.max_iovecs, desired.max_iovecs),
        max_list_size: count(offered.max_list_size, desired.max_list_size),
        max_triggered_ops: wished(offered.max_triggered_ops, desired.max_triggered_ops),
        max_msg_size: size(offered.max_msg_size, desired.max_msg_size),
        max_atomic_size,
        // Who says nothing of those that fetch means all atomics by the other limit.
        max_fetch_atomic_size: match desired.max_fetch_atomic_size {
            0 => offered.max_fetch_atomic_size.min(max_atomic_size),
            wish => offered.max_fetch_atomic_size.min(wish),
        },
        max_waw_ordered_size: size(offered.max_waw_ordered_size, desired.max_waw_ordered_size),
        max_war_ordered_size: size(offered.max_war_ordered_size, desired.max_war_ordered_size),
        max_volatile_size: size(offered.max_volatile_size, desired.max_volatile_size),
        features: offered.features & desired.features,
    }
}

/// What of the limits the NIC counts.
fn counted(limits: &NiLimits) -> narrows_portals::Limits {
    let count = |limit: c_int| limit.unsigned_abs();
    narrows_portals::Limits {
        entries: count(limits.max_entries),
        unexpected_headers: count(limits.max_unexpected_headers),
        list_size: count(limits.max_list_size),
    }
}

impl Library {
    const fn new() -> Library {
        Library {
            initialised: 0,
            interfaces: [const { None }; INTERFACES],
            closed: [false; INTERFACES],
            eqs: Slots::new(),
            cts: Slots::new(),
            mds: Slots::new(),
            next_entry: 0,
            aborted: false,
            serves_provider: false,
        }
    }

    /// `PtlInit`.
    pub fn initialise(&mut self, nic: &mut dyn Nic) {
        if self.initialised == 0 {
            self.aborted = false;
            nic.resume();
        }
        self.initialised += 1;
        nic.initialised(self.initialised);
    }

    /// `PtlInit` has been called.
    pub fn ready(&self) -> Outcome<()> {
        if self.initialised == 0 { Err(abi::NO_INIT) } else { Ok(()) }
    }

    /// `PtlFini`.
    pub fn finalise(&mut self, nic: &mut dyn Nic) {
        self.initialised = self.initialised.saturating_sub(1);
        nic.initialised(self.initialised);
        if self.initialised == 0 {
            for index in 0..INTERFACES {
                self.close(nic, index);
            }
        }
    }

    /// `PtlNIInit`: the one network interface of this kind, and its limits.
    pub fn open(&mut self, nic: &mut dyn Nic, options: c_uint, pid: u32, desired: Option<&NiLimits>) -> Outcome<(Handle, NiLimits)> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        let matching = match options & (abi::NI_MATCHING | abi::NI_NO_MATCHING) {
            abi::NI_MATCHING => 0,
            abi::NI_NO_MATCHING => 1,
            _ => return Err(abi::ARG_INVALID),
        };
        let logical = match options & (abi::NI_PHYSICAL | abi::NI_LOGICAL) {
            abi::NI_PHYSICAL => 0,
            abi::NI_LOGICAL => 2,
            _ => return Err(abi::ARG_INVALID),
        };
        if options & !(abi::NI_MATCHING | abi::NI_NO_MATCHING | abi::NI_PHYSICAL | abi::NI_LOGICAL) != 0 {
            return Err(abi::ARG_INVALID);
        }
        // The simulated machine gave this process its number.
        if pid != abi::PID_ANY && pid != nic.id().pid {
            return Err(abi::PID_IN_USE);
        }
        let index = matching + logical;
        // An MPI library may have transports of its own over Portals (Open MPI's mtl/portals4).
        if !self.serves_provider {
            nic.endpoint_open();
        }
        let offered = offered(nic.limits());
        let so_far = if self.closed[index] { UNKNOWN } else { 0 };
        let interface = self.interfaces[index].get_or_insert_with(|| {
            let limits = negotiate(offered, desired);
            let limited = counted(&limits) != counted(&offered);
            if limited {
                nic.submit(Command::SetLimits { interface: index as u32, limits: counted(&limits) });
            }
            Interface {
                references: 0,
                limits,
                limited,
                map: None,
                tables: vec![false; limits.max_pt_index as usize + 1],
                entries: so_far,
                triggered: so_far,
                lists: vec![[so_far; 2]; PT_COUNT as usize],
            }
        });
        interface.references += 1;
        Ok((pack(HandleKind::Interface, index, 0), interface.limits))
    }

    /// `PtlNIFini`: the last reference gives everything back.
    pub fn release(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<()> {
        let index = self.interface_index(handle)?;
        let references = self.interfaces[index].as_mut().map_or(0, |interface| {
            interface.references -= 1;
            interface.references
        });
        if references == 0 {
            self.close(nic, index);
        }
        Ok(())
    }

    fn close(&mut self, nic: &mut dyn Nic, index: usize) {
        let Some(interface) = self.interfaces[index].take() else { return };
        self.closed[index] = true;
        for (table, _) in interface.tables.iter().enumerate().filter(|(_, used)| **used) {
            let pt = index as u32 * PT_COUNT + table as u32;
            // What is under way ends first.
            let ticket = nic.ticket();
            nic.submit(Command::PtDisable { pt, ticket });
            nic.wait_reply(ticket);
            nic.submit(Command::PtFree { pt, ticket: NO_TICKET });
        }
        if interface.limited {
            nic.submit(Command::SetLimits { interface: index as u32, limits: counted(&offered(nic.limits())) });
        }
        for number in self.eqs.numbers(|of| *of == index) {
            self.eqs.remove(number);
            nic.submit(Command::EqFree { eq: eq_id(number) });
        }
        for number in self.cts.numbers(|(of, _)| *of == index) {
            self.cts.remove(number);
            nic.submit(Command::CtFree { ct: ct_id(number) });
        }
        for number in self.mds.numbers(|md| md.interface == index) {
            self.mds.remove(number);
        }
    }

    /// Functions that wait ask this before all else: after `PtlAbort` their arguments no longer matter.
    pub fn may_wait(&self) -> Outcome<()> {
        if self.aborted { Err(abi::ABORTED) } else { Ok(()) }
    }

    /// The index of an open network interface.
    pub fn interface_index(&self, handle: Handle) -> Outcome<usize> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((HandleKind::Interface, index, 0)) if self.interfaces.get(index).is_some_and(Option::is_some) => Ok(index),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// An open network interface.
    pub fn interface(&self, index: usize) -> Outcome<&Interface> {
        self.interfaces[index].as_ref().ok_or(abi::ARG_INVALID)
    }

    /// `PtlNIHandle`.
    pub fn interface_of(&self, handle: Handle) -> Outcome<Handle> {
        self.ready()?;
        let (kind, index, number) = unpack(handle).ok_or(abi::ARG_INVALID)?;
        let known = match kind {
            HandleKind::Interface => number == 0,
            HandleKind::Eq => self.eqs.get(number) == Some(&index),
            HandleKind::Ct => self.cts.get(number).is_some_and(|(of, _)| *of == index),
            HandleKind::Md => self.mds.get(number).is_some_and(|md| md.interface == index),
            HandleKind::Entry => number < self.next_entry,
        };
        let handle = pack(HandleKind::Interface, index, 0);
        self.interface_index(handle)?;
        if known { Ok(handle) } else { Err(abi::ARG_INVALID) }
    }

    /// `PtlSetMap`.
    pub fn set_map(&mut self, handle: Handle, processes: Vec<ProcessId>, own: ProcessId) -> Outcome<()> {
        let index = self.interface_index(handle)?;
        if !is_logical(index) || !processes.contains(&own) {
            return Err(abi::ARG_INVALID);
        }
        let interface = self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?;
        if interface.map.is_some() {
            return Err(abi::IGNORED);
        }
        let ranks = processes.iter().enumerate().rev().map(|(rank, process)| (*process, rank as u32)).collect();
        interface.map = Some(Map { processes, ranks });
        Ok(())
    }

    /// `PtlGetMap`.
    pub fn map(&self, handle: Handle) -> Outcome<&[ProcessId]> {
        let index = self.interface_index(handle)?;
        if !is_logical(index) {
            return Err(abi::ARG_INVALID);
        }
        Ok(&self.interface(index)?.map.as_ref().ok_or(abi::NO_SPACE)?.processes)
    }

    /// `PtlGetId`.
    pub fn own_id(&self, handle: Handle, own: ProcessId) -> Outcome<Process> {
        let index = self.interface_index(handle)?;
        if is_logical(index) && self.interface(index)?.map.is_none() {
            return Err(abi::ARG_INVALID);
        }
        Ok(self.process_out(index, own))
    }

    /// An argument, as the NIC knows it.
    pub fn process_in(&self, index: usize, process: Process) -> Outcome<ProcessId> {
        if !is_logical(index) {
            // SAFETY: both halves of the union are plain numbers; any bytes are valid.
            let abi::Physical { nid, pid } = unsafe { process.phys };
            return Ok(ProcessId { nid, pid });
        }
        // SAFETY: as above.
        let rank = unsafe { process.rank };
        let map = self.interface(index)?.map.as_ref().ok_or(abi::ARG_INVALID)?;
        map.processes.get(rank as usize).copied().ok_or(abi::ARG_INVALID)
    }

    fn process_out(&self, index: usize, process: ProcessId) -> Process {
        if !is_logical(index) {
            return Process::physical(process.nid, process.pid);
        }
        let map = self.interfaces[index].as_ref().and_then(|interface| interface.map.as_ref());
        Process::logical(map.and_then(|map| map.ranks.get(&process)).copied().unwrap_or(abi::RANK_ANY))
    }

    /// A full event as the header has it. `queue` is the handle that it came from.
    pub fn event_out(&self, queue: Handle, event: &Event) -> FullEvent {
        let index = unpack(queue).map_or(0, |(_, index, _)| index);
        FullEvent {
            start: event.start as usize as *mut _,
            user_ptr: event.user_ptr as usize as *mut _,
            hdr_data: event.hdr_data,
            match_bits: event.match_bits,
            rlength: event.rlength,
            mlength: event.mlength,
            remote_offset: event.remote_offset,
            initiator: self.process_out(index, event.initiator),
            uid: own_uid(),
            pt_index: event.pt % PT_COUNT,
            kind: event.kind as c_uint,
            ptl_list: match event.list {
                List::Priority => abi::PRIORITY_LIST,
                List::Overflow => abi::OVERFLOW_LIST,
            },
            ni_fail_type: event.fail as u32,
            atomic_operation: event.atomic.map_or(0, |(operation, _)| operation as c_uint),
            atomic_type: event.atomic.map_or(0, |(_, datatype)| datatype as c_uint),
        }
    }

    /// `PtlPTAlloc`.
    pub fn table_alloc(&mut self, nic: &mut dyn Nic, handle: Handle, options: c_uint, eq: Handle, wish: u32) -> Outcome<u32> {
        let index = self.interface_index(handle)?;
        let eq = self.queue_of(eq, index)?.map_or(EqId::NONE, eq_id);
        let known = if self.serves_provider { PT_OPTIONS | pt::RETRY } else { PT_OPTIONS };
        if options & !known != 0 {
            return Err(abi::ARG_INVALID);
        }
        if options & pt::FLOWCTRL != 0 && eq == EqId::NONE {
            return Err(abi::PT_EQ_NEEDED);
        }
        let tables = &mut self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?.tables;
        let table = match wish {
            abi::PT_ANY => tables.iter().position(|used| !used).ok_or(abi::PT_FULL)? as u32,
            wish => match tables.get(wish as usize) {
                None => return Err(abi::ARG_INVALID),
                Some(true) => return Err(abi::PT_IN_USE),
                Some(false) => wish,
            },
        };
        tables[table as usize] = true;
        nic.submit(Command::PtAlloc { pt: table_index(index, table)?, options, eq });
        Ok(table)
    }

    /// `PtlPTFree`, `PtlPTEnable` and `PtlPTDisable`: the index on the NIC of an allocated entry.
    pub fn table(&self, handle: Handle, table: u32) -> Outcome<u32> {
        let index = self.interface_index(handle)?;
        match self.interface(index)?.tables.get(table as usize) {
            Some(true) => table_index(index, table),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// `PtlPTFree`.
    pub fn table_free(&mut self, nic: &mut dyn Nic, handle: Handle, table: u32) -> Outcome<()> {
        let pt = self.table(handle, table)?;
        let index = self.interface_index(handle)?;
        let ticket = nic.ticket();
        nic.submit(Command::PtFree { pt, ticket });
        if nic.wait_reply(ticket).0 != ReplyCode::Ok {
            return Err(abi::PT_IN_USE);
        }
        self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?.tables[table as usize] = false;
        Ok(())
    }

    /// `PtlNIStatus`: a register of the NIC.
    pub fn status(&self, nic: &mut dyn Nic, handle: Handle, register: Register) -> Outcome<u64> {
        let interface = self.interface_index(handle)? as u32;
        Ok(query(nic, register, interface))
    }

    /// Takes a place for a list entry in this list, if the NIC has one.
    pub fn reserve_entry(&mut self, nic: &mut dyn Nic, index: usize, table: u32, list: List) -> Outcome<()> {
        let pt = table_index(index, table)?;
        let interface = self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?;
        let (entries, list_size) = (interface.limits.max_entries as u64, interface.limits.max_list_size as u64);
        // A list that may have all entries need not be counted.
        let mut length = interface.lists.get_mut(table as usize).filter(|_| list_size < entries).map(|lists| &mut lists[list as usize]);
        if let Some(length) = length.as_deref_mut() {
            let register = if list == List::Priority { Register::PriorityEntries } else { Register::OverflowEntries };
            reserve(nic, length, list_size, register, pt).map_err(|_| abi::LIST_TOO_LONG)?;
        }
        let reserved = reserve(nic, &mut interface.entries, entries, Register::Entries, index as u32);
        if let (Err(_), Some(length)) = (reserved, length) {
            *length -= 1;
        }
        reserved
    }

    /// Takes a place for a triggered operation, if the NIC has one.
    pub fn reserve_triggered(&mut self, nic: &mut dyn Nic, index: usize) -> Outcome<()> {
        let interface = self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?;
        let most = interface.limits.max_triggered_ops as u64;
        reserve(nic, &mut interface.triggered, most, Register::TriggeredOperations, index as u32)
    }

    /// `PtlEQAlloc`.
    pub fn eq_alloc(&mut self, nic: &mut dyn Nic, handle: Handle, count: u64) -> Outcome<Handle> {
        let index = self.interface_index(handle)?;
        if self.eqs.full(self.interface(index)?.limits.max_eqs, |of| *of == index) {
            return Err(abi::NO_SPACE);
        }
        let number = self.eqs.insert(index);
        nic.submit(Command::EqAlloc { eq: eq_id(number), count: u32::try_from(count).unwrap_or(u32::MAX) });
        Ok(pack(HandleKind::Eq, index, number))
    }

    /// `PtlEQFree`.
    pub fn eq_free(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<()> {
        let eq = self.eq(handle)?;
        if let Some((_, _, number)) = unpack(handle) {
            self.eqs.remove(number);
        }
        nic.submit(Command::EqFree { eq });
        Ok(())
    }

    /// An event queue.
    pub fn eq(&self, handle: Handle) -> Outcome<EqId> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((HandleKind::Eq, index, number)) if self.eqs.get(number) == Some(&index) => Ok(eq_id(number)),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// The number of an event queue of this network interface, or none.
    fn queue_of(&self, handle: Handle, index: usize) -> Outcome<Option<u64>> {
        if handle == abi::HANDLE_NONE {
            return Ok(None);
        }
        self.eq(handle)?;
        match unpack(handle) {
            Some((_, of, number)) if of == index => Ok(Some(number)),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// `PtlCTAlloc`.
    pub fn ct_alloc(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<Handle> {
        let index = self.interface_index(handle)?;
        if self.cts.full(self.interface(index)?.limits.max_cts, |(of, _)| *of == index) {
            return Err(abi::NO_SPACE);
        }
        let number = self.cts.insert((index, None));
        nic.submit(Command::CtAlloc { ct: ct_id(number) });
        Ok(pack(HandleKind::Ct, index, number))
    }

    /// `PtlCTFree`.
    pub fn ct_free(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<()> {
        let ct = self.ct(handle)?;
        if let Some((_, _, number)) = unpack(handle) {
            self.cts.remove(number);
        }
        nic.submit(Command::CtFree { ct });
        Ok(())
    }

    /// A counting event.
    pub fn ct(&self, handle: Handle) -> Outcome<CtId> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((HandleKind::Ct, index, number)) if self.cts.get(number).is_some_and(|(of, _)| *of == index) => Ok(ct_id(number)),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// `PtlCTGet`. A program that asks again for a value that it knows is polling.
    pub fn ct_value(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<(u64, u64)> {
        let ct = self.ct(handle)?;
        let (_, _, number) = unpack(handle).ok_or(abi::ARG_INVALID)?;
        let (_, shown) = self.cts.get_mut(number).ok_or(abi::ARG_INVALID)?;
        let (success, failure) = match *shown {
            Some(last) => nic.count_poll(ct, last.saturating_add(1)),
            None => nic.count(ct),
        };
        *shown = Some(success.saturating_add(failure));
        Ok((success, failure))
    }

    /// A counting event, and its network interface.
    pub fn ct_and_interface(&self, handle: Handle) -> Outcome<(CtId, usize)> {
        let ct = self.ct(handle)?;
        let (_, index, _) = unpack(handle).ok_or(abi::ARG_INVALID)?;
        Ok((ct, index))
    }

    /// A counting event of this network interface.
    pub fn ct_of(&self, handle: Handle, index: usize) -> Outcome<CtId> {
        let (ct, of) = self.ct_and_interface(handle)?;
        if of == index { Ok(ct) } else { Err(abi::ARG_INVALID) }
    }

    /// The number of a counting event of this network interface, or none.
    fn counter_of(&self, handle: Handle, index: usize) -> Outcome<Option<u64>> {
        if handle == abi::HANDLE_NONE {
            return Ok(None);
        }
        self.ct_of(handle, index)?;
        Ok(unpack(handle).map(|(_, _, number)| number))
    }

    /// `PtlMDBind`.
    pub fn md_bind(&mut self, handle: Handle, md: &abi::MemoryDescriptor) -> Outcome<Handle> {
        const OPTIONS: u32 = ((md::UNRELIABLE << 1) - 2) | md::IOVEC;
        let interface = self.interface_index(handle)?;
        if md.options & !OPTIONS != 0 {
            return Err(abi::ARG_INVALID);
        }
        if self.mds.full(self.interface(interface)?.limits.max_mds, |md| md.interface == interface) {
            return Err(abi::NO_SPACE);
        }
        let (queue, counter) = (self.queue_of(md.eq_handle, interface)?, self.counter_of(md.ct_handle, interface)?);
        let counts = md::EVENT_CT_SEND | md::EVENT_CT_REPLY | md::EVENT_CT_ACK;
        if md.options & counts != 0 && counter.is_none() {
            return Err(abi::ARG_INVALID);
        }
        let start = md.start as u64;
        let (length, segments) = self.extent(interface, start, md.length, md.options & md::IOVEC != 0)?;
        let options = md.options | if self.may_fault(interface) { md::MAY_FAULT } else { 0 };
        let number = self.mds.insert(Descriptor { interface, start, length, segments, options, queue, counter });
        Ok(pack(HandleKind::Md, interface, number))
    }

    /// Who hears of the operations of a memory descriptor: those of its event queue and counting event that have not
    /// been freed.
    pub fn listeners(&self, md: &Descriptor) -> (EqId, CtId) {
        let eq = md.queue.filter(|number| self.eqs.get(*number).is_some()).map_or(EqId::NONE, eq_id);
        let ct = md.counter.filter(|number| self.cts.get(*number).is_some()).map_or(CtId::NONE, ct_id);
        (eq, ct)
    }

    /// Bytes and segments of a region: with segments (`PTL_IOVEC`) its length is their number.
    fn extent(&self, index: usize, start: u64, length: u64, segmented: bool) -> Outcome<(u64, u32)> {
        if !segmented {
            // It does not pass the end of the address space.
            return start.checked_add(length).map(|_| (length, 0)).ok_or(abi::ARG_INVALID);
        }
        let most = self.interface(index)?.limits.max_iovecs as u64;
        if length == 0 || length > most || start == 0 {
            return Err(abi::ARG_INVALID);
        }
        // SAFETY: the program says that `length` segments stand there.
        let segments = unsafe { std::slice::from_raw_parts(start as *const abi::Iovec, length as usize) };
        let sum = segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.iov_len));
        Ok((sum, length as u32))
    }

    fn may_fault(&self, index: usize) -> bool {
        self.interfaces[index].as_ref().is_some_and(|interface| interface.limits.features & abi::TARGET_BIND_INACCESSIBLE != 0)
    }

    /// `PtlMDRelease`.
    pub fn md_release(&mut self, handle: Handle) -> Outcome<()> {
        self.md(handle)?;
        if let Some((_, _, number)) = unpack(handle) {
            self.mds.remove(number);
        }
        Ok(())
    }

    /// A memory descriptor.
    pub fn md(&self, handle: Handle) -> Outcome<Descriptor> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((HandleKind::Md, index, number)) => {
                self.mds.get(number).filter(|md| md.interface == index).copied().ok_or(abi::ARG_INVALID)
            }
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// A match list entry of a matching network interface, or a list entry of one without matching.
    pub fn entry(&self, index: usize, entry: &abi::MatchListEntry, user_ptr: u64) -> Outcome<MatchEntry> {
        let forbidden = if is_matching(index) { !ENTRY_OPTIONS } else { !ENTRY_OPTIONS | ME_ONLY };
        let local_only = me::MAY_ALIGN | me::LOCAL_INC_UH_RLENGTH;
        if entry.options & forbidden != 0 || entry.options & local_only != 0 && entry.options & me::MANAGE_LOCAL == 0 {
            return Err(abi::ARG_INVALID);
        }
        let ct = self.counter_of(entry.ct_handle, index)?.map_or(CtId::NONE, ct_id);
        if entry.options & (me::EVENT_CT_COMM | me::EVENT_CT_OVERFLOW) != 0 && ct == CtId::NONE {
            return Err(abi::ARG_INVALID);
        }
        let match_id = if !is_matching(index) {
            ProcessId::default()
        } else if is_logical(index) {
            // SAFETY: any bytes are a valid rank.
            let rank = unsafe { entry.match_id.rank };
            if rank == abi::RANK_ANY { ProcessId::default() } else { self.process_in(index, entry.match_id)? }
        } else {
            self.process_in(index, entry.match_id)?
        };
        let (match_bits, ignore_bits, min_free) =
            if is_matching(index) { (entry.match_bits, entry.ignore_bits, entry.min_free) } else { (0, u64::MAX, 0) };
        let start = entry.start as u64;
        let (length, segments) = self.extent(index, start, entry.length, entry.options & me::IOVEC != 0)?;
        let may_fault = self.may_fault(index) && entry.options & me::IS_ACCESSIBLE == 0;
        Ok(MatchEntry {
            start,
            length,
            segments,
            ct,
            uid: if entry.uid == abi::UID_ANY { UID_ANY } else { entry.uid },
            options: entry.options | if may_fault { me::MAY_FAULT } else { 0 },
            match_id,
            match_bits,
            ignore_bits,
            min_free,
            user_ptr,
        })
    }

    /// A number for a new entry.
    pub fn new_entry(&mut self) -> u64 {
        self.next_entry += 1;
        self.next_entry - 1
    }

    /// The number in the handle of an entry, and its network interface. Whether there still is such an entry only the
    /// NIC knows.
    pub fn entry_number(&self, handle: Handle, matching: bool) -> Outcome<(u64, usize)> {
        match unpack(handle) {
            Some((HandleKind::Entry, index, number)) if number < self.next_entry && is_matching(index) == matching => {
                self.interface_index(pack(HandleKind::Interface, index, 0))?;
                Ok((number, index))
            }
            _ => self.ready().and(Err(abi::ARG_INVALID)),
        }
    }
}

fn query(nic: &mut dyn Nic, register: Register, of: u32) -> u64 {
    let ticket = nic.ticket();
    nic.submit(Command::Query { register, of, ticket });
    nic.wait_reply(ticket).1
}

/// One more of what the NIC counts in `register`. `bound` only grows here, until the NIC says how many there really
/// are.
fn reserve(nic: &mut dyn Nic, bound: &mut u64, most: u64, register: Register, of: u32) -> Outcome<()> {
    if *bound >= most {
        *bound = query(nic, register, of);
    }
    if *bound >= most {
        return Err(abi::NO_SPACE);
    }
    *bound += 1;
    Ok(())
}

/// The user, who is the same for every process of a run.
pub fn own_uid() -> u32 {
    // A system call for every event would show in a profile.
    static UID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    // SAFETY: getuid has no preconditions and always succeeds.
    *UID.get_or_init(|| unsafe { libc::getuid() })
}
