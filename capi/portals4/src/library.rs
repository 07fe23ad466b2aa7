//! The state of the library in one process: network interfaces, event queues, counters, memory
//! descriptors, and how arguments and events are translated.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_portals::{Command, CtId, EqId, Event, List, MatchEntry, ProcessId, me, pt};

use crate::abi::{self, FullEvent, Handle, NiLimits, Process};
use crate::handle::{Kind, Slots, pack, slot, unpack};
use crate::nic::{Limits, Nic};

/// A result, or the return code of the call.
pub type Outcome<T> = Result<T, c_int>;

/// Portal table entries of one network interface: BXI's `max_pt_index` is 255.
pub const PT_COUNT: u32 = 256;
/// Matching or not, physical or logical.
pub const INTERFACES: usize = 4;

/// Options that a portal table entry may have.
const PT_OPTIONS: u32 = pt::ONLY_USE_ONCE | pt::FLOWCTRL | pt::ONLY_TRUNCATE | pt::ALLOC_DISABLED | pt::RETRY;
/// Options of list entries that need matching (section 3.12.1); `1 << 5` is IOVEC, which no entry
/// can have yet.
const ME_ONLY: u32 = me::MANAGE_LOCAL | me::NO_TRUNCATE | me::MAY_ALIGN | me::LOCAL_INC_UH_RLENGTH;
const ENTRY_OPTIONS: u32 = ((1 << 16) - 1) & !me::IOVEC | ME_ONLY;

/// One network interface.
#[derive(Debug)]
pub struct Interface {
    references: u32,
    /// What `PtlNIInit` answered.
    pub limits: NiLimits,
    map: Option<Map>,
    tables: Vec<bool>,
}

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
    /// Bytes.
    pub length: u64,
    /// See [`narrows_portals::md`].
    pub options: u32,
    /// Full events.
    pub eq: EqId,
    /// Counting events.
    pub ct: CtId,
}

/// Everything the library knows.
#[derive(Debug)]
pub struct Library {
    initialised: u32,
    interfaces: [Option<Interface>; INTERFACES],
    /// Event queues, with their network interface.
    eqs: Slots<usize>,
    /// Counting events, with their network interface and the last value that the program was shown.
    cts: Slots<(usize, Option<u64>)>,
    mds: Slots<Descriptor>,
    next_entry: u64,
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

/// The most that a network interface offers: the numbers of BXI (MDs, CTs, EQs, portal
/// table, list size), except for what the machine file says. What the library does not have yet is zero.
fn offered(limits: Limits) -> NiLimits {
    NiLimits {
        max_entries: c_int::try_from(limits.max_entries).unwrap_or(c_int::MAX),
        max_unexpected_headers: c_int::try_from(limits.max_unexpected).unwrap_or(c_int::MAX),
        max_mds: 8_191,
        max_cts: 2_047,
        max_eqs: 2_046,
        max_pt_index: PT_COUNT as c_int - 1,
        max_iovecs: 0,
        max_list_size: 65_535,
        max_triggered_ops: 0,
        max_msg_size: limits.max_portals_message,
        max_atomic_size: 0,
        max_fetch_atomic_size: 0,
        max_waw_ordered_size: 0,
        max_war_ordered_size: 0,
        max_volatile_size: limits.inject_limit.max(limits.pio_limit),
        features: 0,
    }
}

/// The smaller of what is asked and what is offered (section 3.6.1: limits are negotiated down).
fn negotiate(offered: NiLimits, desired: Option<&NiLimits>) -> NiLimits {
    let Some(desired) = desired else { return offered };
    let count = |offered: c_int, desired: c_int| if desired < 0 { offered } else { offered.min(desired) };
    NiLimits {
        max_entries: count(offered.max_entries, desired.max_entries),
        max_unexpected_headers: count(offered.max_unexpected_headers, desired.max_unexpected_headers),
        max_mds: count(offered.max_mds, desired.max_mds),
        max_cts: count(offered.max_cts, desired.max_cts),
        max_eqs: count(offered.max_eqs, desired.max_eqs),
        // Ranks agree on indices beforehand, so the table never shrinks.
        max_pt_index: offered.max_pt_index,
        max_iovecs: count(offered.max_iovecs, desired.max_iovecs),
        max_list_size: count(offered.max_list_size, desired.max_list_size),
        max_triggered_ops: count(offered.max_triggered_ops, desired.max_triggered_ops),
        max_msg_size: offered.max_msg_size.min(desired.max_msg_size),
        max_atomic_size: offered.max_atomic_size.min(desired.max_atomic_size),
        max_fetch_atomic_size: offered.max_fetch_atomic_size.min(desired.max_fetch_atomic_size),
        max_waw_ordered_size: offered.max_waw_ordered_size.min(desired.max_waw_ordered_size),
        max_war_ordered_size: offered.max_war_ordered_size.min(desired.max_war_ordered_size),
        max_volatile_size: offered.max_volatile_size.min(desired.max_volatile_size),
        features: offered.features & desired.features,
    }
}

impl Library {
    const fn new() -> Library {
        Library {
            initialised: 0,
            interfaces: [const { None }; INTERFACES],
            eqs: Slots::new(),
            cts: Slots::new(),
            mds: Slots::new(),
            next_entry: 0,
        }
    }

    /// `PtlInit`.
    pub fn initialise(&mut self) {
        self.initialised += 1;
    }

    /// `PtlFini`.
    pub fn finalise(&mut self, nic: &mut dyn Nic) {
        self.initialised = self.initialised.saturating_sub(1);
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
        let limits = nic.limits();
        let interface = self.interfaces[index].get_or_insert_with(|| Interface {
            references: 0,
            limits: negotiate(offered(limits), desired),
            map: None,
            tables: vec![false; PT_COUNT as usize],
        });
        interface.references += 1;
        Ok((pack(Kind::Interface, index, 0), interface.limits))
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
        for (table, _) in interface.tables.iter().enumerate().filter(|(_, used)| **used) {
            nic.submit(Command::PtFree { pt: index as u32 * PT_COUNT + table as u32 });
        }
        for number in self.eqs.numbers(|of| *of == index) {
            self.eqs.remove(number);
            nic.submit(Command::EqFree { eq: EqId(slot(number)) });
        }
        for number in self.cts.numbers(|(of, _)| *of == index) {
            self.cts.remove(number);
            nic.submit(Command::CtFree { ct: CtId(slot(number)) });
        }
        for number in self.mds.numbers(|md| md.interface == index) {
            self.mds.remove(number);
        }
    }

    /// The index of an open network interface.
    pub fn interface_index(&self, handle: Handle) -> Outcome<usize> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((Kind::Interface, index, 0)) if self.interfaces.get(index).is_some_and(Option::is_some) => Ok(index),
            _ => Err(abi::ARG_INVALID),
        }
    }

    /// An open network interface.
    pub fn interface(&self, index: usize) -> Outcome<&Interface> {
        self.interfaces[index].as_ref().ok_or(abi::ARG_INVALID)
    }

    /// `PtlNIHandle`.
    pub fn interface_of(&self, handle: Handle) -> Outcome<Handle> {
        let (kind, index, number) = unpack(handle).ok_or(abi::ARG_INVALID)?;
        let known = match kind {
            Kind::Interface => number == 0,
            Kind::Eq => self.eqs.get(number) == Some(&index),
            Kind::Ct => self.cts.get(number).is_some_and(|(of, _)| *of == index),
            Kind::Md => self.mds.get(number).is_some_and(|md| md.interface == index),
            Kind::Entry => number < self.next_entry,
        };
        let handle = pack(Kind::Interface, index, 0);
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
            atomic_operation: 0,
            atomic_type: 0,
        }
    }

    /// `PtlPTAlloc`.
    pub fn table_alloc(&mut self, nic: &mut dyn Nic, handle: Handle, options: c_uint, eq: Handle, wish: u32) -> Outcome<u32> {
        let index = self.interface_index(handle)?;
        let eq = self.eq_or_none(eq)?;
        if options & !PT_OPTIONS != 0 {
            return Err(abi::ARG_INVALID);
        }
        if options & pt::FLOWCTRL != 0 && eq == EqId::NONE {
            return Err(abi::PT_EQ_NEEDED);
        }
        let tables = &mut self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?.tables;
        let table = match wish {
            abi::PT_ANY => tables.iter().position(|used| !used).ok_or(abi::PT_FULL)? as u32,
            wish if wish >= PT_COUNT => return Err(abi::ARG_INVALID),
            wish if tables[wish as usize] => return Err(abi::PT_IN_USE),
            wish => wish,
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
        self.interfaces[index].as_mut().ok_or(abi::ARG_INVALID)?.tables[table as usize] = false;
        nic.submit(Command::PtFree { pt });
        Ok(())
    }

    /// `PtlEQAlloc`.
    pub fn eq_alloc(&mut self, nic: &mut dyn Nic, handle: Handle, count: u64) -> Outcome<Handle> {
        let index = self.interface_index(handle)?;
        if self.eqs.count() >= self.interface(index)?.limits.max_eqs as usize {
            return Err(abi::NO_SPACE);
        }
        let number = self.eqs.insert(index);
        nic.submit(Command::EqAlloc { eq: EqId(slot(number)), count: u32::try_from(count).unwrap_or(u32::MAX) });
        Ok(pack(Kind::Eq, index, number))
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
            Some((Kind::Eq, index, number)) if self.eqs.get(number) == Some(&index) => Ok(EqId(slot(number))),
            _ => Err(abi::ARG_INVALID),
        }
    }

    fn eq_or_none(&self, handle: Handle) -> Outcome<EqId> {
        if handle == abi::HANDLE_NONE { Ok(EqId::NONE) } else { self.eq(handle) }
    }

    /// `PtlCTAlloc`.
    pub fn ct_alloc(&mut self, nic: &mut dyn Nic, handle: Handle) -> Outcome<Handle> {
        let index = self.interface_index(handle)?;
        if self.cts.count() >= self.interface(index)?.limits.max_cts as usize {
            return Err(abi::NO_SPACE);
        }
        let number = self.cts.insert((index, None));
        nic.submit(Command::CtAlloc { ct: CtId(slot(number)) });
        Ok(pack(Kind::Ct, index, number))
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
            Some((Kind::Ct, index, number)) if self.cts.get(number).is_some_and(|(of, _)| *of == index) => Ok(CtId(slot(number))),
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

    fn ct_or_none(&self, handle: Handle) -> Outcome<CtId> {
        if handle == abi::HANDLE_NONE { Ok(CtId::NONE) } else { self.ct(handle) }
    }

    /// `PtlMDBind`.
    pub fn md_bind(&mut self, handle: Handle, md: &abi::MemoryDescriptor) -> Outcome<Handle> {
        use narrows_portals::md;
        const OPTIONS: u32 = ((md::UNRELIABLE << 1) - 1) & !md::IOVEC;
        let interface = self.interface_index(handle)?;
        if md.options & !OPTIONS != 0 {
            return Err(abi::ARG_INVALID);
        }
        if self.mds.count() >= self.interface(interface)?.limits.max_mds as usize {
            return Err(abi::NO_SPACE);
        }
        let (eq, ct) = (self.eq_or_none(md.eq_handle)?, self.ct_or_none(md.ct_handle)?);
        let counts = md::EVENT_CT_SEND | md::EVENT_CT_REPLY | md::EVENT_CT_ACK;
        if md.options & counts != 0 && ct == CtId::NONE {
            return Err(abi::ARG_INVALID);
        }
        let number = self.mds.insert(Descriptor { interface, start: md.start as u64, length: md.length, options: md.options, eq, ct });
        Ok(pack(Kind::Md, interface, number))
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
            Some((Kind::Md, index, number)) => self.mds.get(number).filter(|md| md.interface == index).copied().ok_or(abi::ARG_INVALID),
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
        // Every process of a run belongs to the same user; an entry for another one cannot be told to
        // the NIC, so it is refused rather than opened to all.
        if entry.uid != abi::UID_ANY && entry.uid != own_uid() {
            return Err(abi::ARG_INVALID);
        }
        let ct = self.ct_or_none(entry.ct_handle)?;
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
        Ok(MatchEntry {
            start: entry.start as u64,
            length: entry.length,
            ct,
            options: entry.options,
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

    /// The number in the handle of an entry.
    pub fn entry_number(&self, handle: Handle) -> Outcome<u64> {
        if self.initialised == 0 {
            return Err(abi::NO_INIT);
        }
        match unpack(handle) {
            Some((Kind::Entry, _, number)) if number < self.next_entry => Ok(number),
            _ => Err(abi::ARG_INVALID),
        }
    }
}

/// The user, who is the same for every process of a run.
pub fn own_uid() -> u32 {
    // A system call for every event would show in a profile.
    static UID: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    // SAFETY: getuid has no preconditions and always succeeds.
    *UID.get_or_init(|| unsafe { libc::getuid() })
}
