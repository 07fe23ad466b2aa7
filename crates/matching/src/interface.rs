//! The semantics of Portals 4, without time: what a message, an append or a search does to the
//! portal table of one process, and which events follow. References are to sections of "The
//! Portals 4.3 Network Programming Interface", SAND2022-8810.
//!
//! A message meets the table twice: [`Interface::arrive`] when its header is there (it is matched,
//! its place is taken, use-once entries leave the list) and [`Interface::complete`] when its data
//! are in place (events and counts). In between the entry and the portal table entry count it as
//! active.
//!
//! In `entries` appends, searches and unlinks; in `held` what table entries with RETRY refuse for now.

use std::collections::{BTreeMap, VecDeque};

use narrows_engine::{Slab, WordMap, prefetch, prefetch_all};
use narrows_portals::{
    AtomicOperation, Command, CtId, Datatype, EntryId, EqId, Event, EventKind, FailType, INTERFACES, Limits, List, MatchEntry, NO_TICKET,
    Notice, PT_PER_INTERFACE, Place, ProcessId, ReplyCode, UID_ANY, me, pt,
};
use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::declared::{Declared, interface_of};
use crate::error::CommandError;
use crate::list::{MatchList, Ordered};

mod entries;
mod held;

/// Where notices for the process go, in the order in which the NIC writes them, and triggered
/// operations whose time has come.
pub trait Sink {
    /// For the process.
    fn notice(&mut self, notice: Notice);
    /// The time of a triggered operation has come.
    fn fire(&mut self, command: Command);
}

/// What arrives at a portal table entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RequestKind {
    /// Brings data.
    Put,
    /// Fetches data.
    Get,
    /// Combines data.
    Atomic,
    /// Fetching atomics and swaps.
    FetchAtomic,
}

impl RequestKind {
    /// What an entry must allow.
    fn needs(self) -> u32 {
        match self {
            RequestKind::Put | RequestKind::Atomic => me::OP_PUT,
            RequestKind::Get => me::OP_GET,
            RequestKind::FetchAtomic => me::OP_PUT | me::OP_GET,
        }
    }

    /// The target's event; from the overflow list, when an entry takes the header.
    fn event(self, overflow: bool) -> EventKind {
        match (self, overflow) {
            (RequestKind::Put, false) => EventKind::Put,
            (RequestKind::Put, true) => EventKind::PutOverflow,
            (RequestKind::Get, false) => EventKind::Get,
            (RequestKind::Get, true) => EventKind::GetOverflow,
            (RequestKind::Atomic, false) => EventKind::Atomic,
            (RequestKind::Atomic, true) => EventKind::AtomicOverflow,
            (RequestKind::FetchAtomic, false) => EventKind::FetchAtomic,
            (RequestKind::FetchAtomic, true) => EventKind::FetchAtomicOverflow,
        }
    }
}

/// An operation as its header tells it to the target.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// What it does.
    pub kind: RequestKind,
    /// Who asks for it.
    pub initiator: ProcessId,
    /// The initiator's user.
    pub uid: u32,
    /// Portal table entry.
    pub pt: u32,
    /// For the list entry to match.
    pub match_bits: u64,
    /// In the memory of the list entry, if that does not manage it.
    pub offset: u64,
    /// Bytes asked for.
    pub rlength: u64,
    /// For the event of the target.
    pub hdr_data: u64,
    /// Of atomics: the operation, and on items of which type.
    pub atomic: Option<(AtomicOperation, Datatype)>,
}

/// Where a matched operation goes.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    entry: u32,
    header: u32,
    /// Of which list the entry is.
    pub list: List,
    /// As the event says it: of a list of segments the address of the list.
    pub start: u64,
    /// In memory.
    pub place: Place,
    /// Bytes that there is room for.
    pub mlength: u64,
    /// The offset that was used.
    pub offset: u64,
}

/// What becomes of an operation that arrives.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// It has found its place.
    Matched(Landing),
    /// It has none, and will have none.
    Refused(FailType),
    /// A table entry with [`pt::RETRY`] has nothing for it yet.
    Hold,
}

const NONE: u32 = u32::MAX;

/// The status registers (section 3.6.7): what never raises an event at the target.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Status {
    /// `PTL_SR_DROP_COUNT`.
    pub drop_count: u64,
    /// `PTL_SR_PERMISSION_VIOLATIONS`.
    pub permission_violations: u64,
    /// `PTL_SR_OPERATION_VIOLATIONS`.
    pub operation_violations: u64,
}

impl std::ops::Add for Status {
    type Output = Status;
    fn add(self, other: Status) -> Status {
        Status {
            drop_count: self.drop_count + other.drop_count,
            permission_violations: self.permission_violations + other.permission_violations,
            operation_violations: self.operation_violations + other.operation_violations,
        }
    }
}

#[derive(Debug)]
struct Entry {
    id: EntryId,
    me: MatchEntry,
    pt: u32,
    list: List,
    order: u64,
    linked: bool,
    /// AUTO_UNLINK was posted (or would have been).
    announced: bool,
    /// Who waits for the end of its operations: the process has unlinked it.
    unlinks: Option<u32>,
    local_offset: u64,
    /// Operations that matched and are not complete.
    active: u32,
    /// Unexpected headers that point into it and are not reported yet.
    headers: u32,
}

impl Entry {
    fn has(&self, option: u32) -> bool {
        self.me.options & option != 0
    }

    /// Offset that an operation uses.
    fn offset(&self, operation: &Operation) -> u64 {
        if self.has(me::MANAGE_LOCAL) { self.local_offset } else { operation.offset }
    }

    /// `NO_TRUNCATE`: what does not fit does not match (section 3.12.1).
    fn fits(&self, operation: &Operation) -> bool {
        !self.has(me::NO_TRUNCATE) || operation.rlength <= self.me.length.saturating_sub(self.offset(operation))
    }

    fn spent(&self) -> bool {
        self.has(me::USE_ONCE) || self.below_min_free()
    }

    fn below_min_free(&self) -> bool {
        self.has(me::MANAGE_LOCAL) && self.me.min_free > 0 && self.me.length.saturating_sub(self.local_offset) < self.me.min_free
    }
}

/// A message of the overflow list that the process has not asked for yet.
#[derive(Debug)]
struct Header {
    operation: Operation,
    landing: Landing,
    /// Its data are in memory, or could not be.
    complete: Option<FailType>,
    /// In the list of the table entry; else taken by an append or search and waiting for its data.
    order: Option<u64>,
    /// Who asked for it before its data were there.
    claims: Vec<Claim>,
}

/// What of a header decides whether an append or search finds it.
#[derive(Clone, Copy, Debug)]
struct HeaderKey {
    initiator: ProcessId,
    bits: u64,
    rlength: u64,
    offset: u64,
    slot: u32,
}

/// An append or search that found a header: what its event needs.
#[derive(Clone, Copy, Debug)]
struct Claim {
    what: Claimed,
    options: u32,
    ct: CtId,
    user_ptr: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claimed {
    /// `PtlMESearch` with `PTL_SEARCH_ONLY`: a SEARCH event.
    Look,
    /// An `*_OVERFLOW` event.
    Take,
    /// The same for a use-once append: AUTO_UNLINK follows.
    TakeAndUnlink,
}

#[derive(Debug)]
struct Table {
    options: u32,
    eq: EqId,
    enabled: bool,
    /// A PT_DISABLED event is due when nothing is active.
    announce: bool,
    active: u32,
    /// Who waits for the end of what is active ([`Command::PtDisable`]).
    ticket: Option<u32>,
    priority: MatchList,
    overflow: MatchList,
    /// Oldest first.
    unexpected: Ordered<HeaderKey>,
    /// Searches that wait for a header ([`me::SEARCH_WAITS`]), oldest first.
    searches: Vec<(MatchEntry, Claim)>,
    /// Refused messages ([`pt::RETRY`]) by initiator, in order of arrival: (arrival, message).
    held: BTreeMap<ProcessId, VecDeque<(u64, u32)>>,
    arrivals: u64,
    /// A repetition is scheduled.
    retry: bool,
}

impl Table {
    /// Ends the searches that waited for a header like this one: all that look, up to the first that takes it.
    fn answer_searches(&mut self, operation: &Operation) -> Vec<Claim> {
        let mut claims: Vec<Claim> = Vec::new();
        self.searches.retain(|(me, claim)| {
            let taken = claims.last().is_some_and(|claim| claim.what != Claimed::Look);
            let fits = me.options & me::NO_TRUNCATE == 0 || operation.rlength <= me.length.saturating_sub(operation.offset);
            let hit = !taken && fits && me.matches(operation.initiator, operation.match_bits);
            if hit {
                claims.push(*claim);
            }
            !hit
        });
        claims
    }
}

/// An event queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    id: EqId,
    capacity: u32,
    /// Events that the process has not taken, when flow control depends on it.
    used: Option<u32>,
}

/// The network interface of one process.
#[derive(Debug)]
pub struct Interface {
    tables: Vec<Option<Table>>,
    entries: Slab<Entry>,
    headers: Slab<Header>,
    /// Slots of entries by identifier; [`NONE`]: its append is still on the way to the NIC.
    ids: WordMap<u64, u32>,
    eqs: Vec<Option<Queue>>,
    /// Its counting events.
    pub counters: Counters,
    /// What its commands may name.
    pub declared: Declared,
    status: [Status; INTERFACES as usize],
    /// Of each network interface: unexpected headers, and how many there may be.
    unexpected: [(u32, u32); INTERFACES as usize],
    /// Events for queues that do not exist (any more).
    lost_events: u64,
    unexpected_total: u64,
    /// Set when a message that was refused may find a place now.
    relieved: bool,
    held: u64,
}

/// Largest portal table index of a process, over all its network interfaces.
pub const MAX_PT_INDEX: u32 = PT_PER_INTERFACE * INTERFACES - 1;

impl Interface {
    /// Of a process that has allocated nothing, within these limits.
    pub fn new(limits: Limits) -> Interface {
        Interface {
            tables: Vec::new(),
            entries: Slab::default(),
            headers: Slab::default(),
            ids: WordMap::default(),
            eqs: Vec::new(),
            counters: Counters::default(),
            declared: Declared::new(limits),
            status: Default::default(),
            unexpected: [(0, limits.unexpected_headers); INTERFACES as usize],
            lost_events: 0,
            unexpected_total: 0,
            relieved: false,
            held: 0,
        }
    }

    /// The interface is near, and something is about to happen there: see [`narrows_engine::prefetch`], in steps from 0
    /// on.
    #[inline]
    pub fn prefetch(&self, step: u32) {
        self.entries.prefetch(step);
        if step == 0 {
            self.tables.first().into_iter().for_each(prefetch_all);
            self.eqs.first().into_iter().for_each(prefetch);
            self.declared.prefetch();
        } else if step == 1
            && let Some(Some(table)) = self.tables.first()
        {
            table.priority.prefetch();
            table.overflow.prefetch();
        }
    }

    /// Unexpected headers that a network interface may have from now on.
    pub fn limit_headers(&mut self, interface: u32, most: u32) {
        if let Some((_, place)) = self.unexpected.get_mut(interface as usize) {
            // There may be a place now for what is held.
            self.relieved |= most > *place;
            *place = most;
        }
    }

    /// The status registers of one network interface.
    pub fn status(&self, interface: u32) -> Status {
        self.status.get(interface as usize).copied().unwrap_or_default()
    }

    fn status_mut(&mut self, pt: u32) -> &mut Status {
        &mut self.status[interface_of(pt)]
    }

    /// Events for queues that did not exist any more.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// Messages so far that no entry of a priority list took.
    pub fn unexpected_total(&self) -> u64 {
        self.unexpected_total
    }

    /// Messages that wait for room now.
    pub fn held(&self) -> u64 {
        self.held
    }

    // ---- Declarations: when a command is written --------------------------------------------

    /// Triggered operations that were cancelled: the entries of appends among them will never be.
    pub fn forget(&mut self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            if let Command::MeAppend { entry, pt, list, .. } = command
                && self.ids.get(&entry.0) == Some(&NONE)
            {
                self.declared.left_list(pt, list);
                self.forget_entry(entry, pt);
            }
        }
    }

    /// Takes the identifier of an entry whose append is on the way.
    pub fn declare_entry(&mut self, entry: EntryId, pt: u32, list: List) -> Result<(), CommandError> {
        let std::collections::hash_map::Entry::Vacant(place) = self.ids.entry(entry.0) else {
            return Err(CommandError::EntryInUse(entry));
        };
        self.declared.declare_entry(pt, list)?;
        place.insert(NONE);
        Ok(())
    }

    /// An entry is no more.
    fn forget_entry(&mut self, entry: EntryId, pt: u32) {
        self.ids.remove(&entry.0);
        self.declared.undeclare_entry(pt);
    }

    /// A header is no more.
    fn remove_header(&mut self, slot: u32) -> Option<Header> {
        let header = self.headers.remove(slot)?;
        self.unexpected[interface_of(header.operation.pt)].0 -= 1;
        Some(header)
    }

    // ---- Allocation: when a command arrives --------------------------------------------------

    /// Makes a portal table entry.
    ///
    /// # Errors
    /// It is there already, or beyond the table, or asks for flow control without an event queue.
    pub fn pt_alloc(&mut self, index: u32, options: u32, eq: EqId) -> Result<(), CommandError> {
        if options & pt::FLOWCTRL != 0
            && let Some(queue) = self.queue_mut(eq)
        {
            queue.used.get_or_insert(0);
        }
        let index = index as usize;
        if index >= self.tables.len() {
            self.tables.resize_with(index + 1, || None);
        }
        let place = &mut self.tables[index];
        if place.is_some() {
            return Err(CommandError::PtInUse(index as u32));
        }
        *place = Some(Table {
            options,
            eq,
            enabled: options & pt::ALLOC_DISABLED == 0,
            announce: false,
            active: 0,
            ticket: None,
            priority: MatchList::default(),
            overflow: MatchList::default(),
            unexpected: Ordered::default(),
            searches: Vec::new(),
            held: BTreeMap::new(),
            arrivals: 0,
            retry: false,
        });
        Ok(())
    }

    /// Frees a table entry; `PTL_PT_IN_USE` while messages are under way, or entries are linked that it does not
    /// take with it (`all`). The messages that it holds come out in `refused`.
    pub fn pt_free(&mut self, index: u32, all: bool, refused: &mut Vec<u32>) -> Result<(), CommandError> {
        let Some(table) = self.table(index) else { return Err(CommandError::PtUnknown(index)) };
        let all = all || table.options & pt::RETRY != 0;
        let empty = table.priority.is_empty() && table.overflow.is_empty();
        if table.active > 0 || !(all || empty) {
            self.declared.redeclare_pt(index);
            return Err(CommandError::PtInUse(index));
        }
        self.refuse_held(index, refused);
        let Some(table) = self.tables[index as usize].take() else { return Ok(()) };
        for slot in table.priority.slots().chain(table.overflow.slots()) {
            if let Some(entry) = self.entries.get_mut(slot) {
                entry.linked = false;
                self.declared.left_list(entry.pt, entry.list);
                if entry.headers == 0
                    && let Some(entry) = self.entries.remove(slot)
                {
                    self.forget_entry(entry.id, entry.pt);
                }
            }
        }
        // Headers of which nobody can ask any more.
        for (_, key) in table.unexpected.iter() {
            if let Some(header) = self.remove_header(key.slot) {
                self.forget_header(header.landing.entry);
            }
        }
        Ok(())
    }

    /// One header less points to `entry`, without events.
    fn forget_header(&mut self, entry: u32) {
        if let Some(held) = self.entries.get_mut(entry) {
            held.headers -= 1;
            if held.headers == 0
                && held.active == 0
                && !held.linked
                && let Some(entry) = self.entries.remove(entry)
            {
                self.forget_entry(entry.id, entry.pt);
            }
        }
    }

    /// Messages are taken again.
    pub fn pt_enable(&mut self, index: u32) {
        if let Some(table) = self.table_mut(index) {
            table.enabled = true;
            self.relieved = true;
        }
    }

    /// Disables without an event; what is held comes out in `refused`. Answers when nothing is active.
    pub fn pt_disable(&mut self, index: u32, ticket: u32, refused: &mut Vec<u32>, sink: &mut impl Sink) {
        match self.table_mut(index) {
            Some(table) => {
                table.enabled = false;
                if let Some(before) = table.ticket.replace(ticket) {
                    reply(before, ReplyCode::Ok, sink);
                }
                self.refuse_held(index, refused);
                self.settle_disabled(index, sink);
            }
            None => reply(ticket, ReplyCode::Unknown, sink),
        }
    }

    /// Makes an event queue of so many events.
    pub fn eq_alloc(&mut self, eq: EqId, capacity: u32) {
        let slot = eq.slot();
        if slot >= self.eqs.len() {
            self.eqs.resize(slot + 1, None);
        }
        self.eqs[slot] = Some(Queue { id: eq, capacity, used: None });
    }

    fn queue(&self, eq: EqId) -> Option<&Queue> {
        self.eqs.get(eq.slot())?.as_ref().filter(|queue| queue.id == eq)
    }

    fn queue_mut(&mut self, eq: EqId) -> Option<&mut Queue> {
        self.eqs.get_mut(eq.slot())?.as_mut().filter(|queue| queue.id == eq)
    }

    /// The process has taken events.
    pub fn eq_release(&mut self, eq: EqId, count: u32) {
        if let Some(Queue { used: Some(used), .. }) = self.queue_mut(eq) {
            *used = used.saturating_sub(count);
        }
    }

    /// An event queue is no more: what still comes for it is lost.
    pub fn eq_free(&mut self, eq: EqId) {
        if self.queue(eq).is_some() {
            self.eqs[eq.slot()] = None;
        }
    }

    // ---- Events and counts -------------------------------------------------------------------

    /// Posts a full event. Without a queue it is nobody's; for a freed queue it is lost.
    pub fn post(&mut self, eq: EqId, event: Event, sink: &mut impl Sink) {
        if eq == EqId::NONE {
            return;
        }
        match self.queue_mut(eq) {
            Some(queue) => {
                if let Some(used) = &mut queue.used {
                    *used += 1;
                }
                sink.notice(Notice::Event { eq, event });
            }
            None => self.lost_events += 1,
        }
    }

    // ---- Messages ----------------------------------------------------------------------------

    fn table(&self, index: u32) -> Option<&Table> {
        self.tables.get(index as usize)?.as_ref()
    }

    fn table_mut(&mut self, index: u32) -> Option<&mut Table> {
        self.tables.get_mut(index as usize)?.as_mut()
    }

    /// The header of an operation is here. Also says how many list elements were visited.
    pub fn arrive(&mut self, operation: &Operation, sink: &mut impl Sink) -> (Arrival, u64) {
        let Some(table) = self.table(operation.pt) else {
            self.status_mut(operation.pt).drop_count += 1;
            return (Arrival::Refused(FailType::Dropped), 0);
        };
        if !table.enabled {
            return (Arrival::Refused(FailType::PtDisabled), 0);
        }
        if table.options & pt::FLOWCTRL != 0 && self.crowded(table) {
            return (self.exhausted(operation, None, sink), 0);
        }
        if table.held.contains_key(&operation.initiator) {
            return (Arrival::Hold, 0); // behind what the same initiator sent before
        }
        self.match_lists(operation, sink)
    }

    /// Whether the event queue of a table entry has no room for another message beside those that are active: one
    /// raises two events at most before the process acts (PUT and AUTO_UNLINK), and PT_DISABLED needs a place.
    fn crowded(&self, table: &Table) -> bool {
        match self.queue(table.eq) {
            Some(Queue { capacity, used: Some(used), .. }) => {
                u64::from(*used) + 2 * u64::from(table.active) + 2 >= u64::from((*capacity).max(4))
            }
            _ => false,
        }
    }

    /// The execution context of the entry that an operation would find in a priority list now. None: it finds none.
    pub fn context_of(&mut self, operation: &Operation) -> Option<u8> {
        let table = self.tables.get_mut(operation.pt as usize).and_then(Option::as_mut)?;
        if !table.enabled || table.held.contains_key(&operation.initiator) {
            return None;
        }
        let entries = &self.entries;
        let fits = |slot| entries.get(slot).is_some_and(|entry: &Entry| entry.fits(operation));
        let (found, _) = table.priority.find(operation.initiator, operation.match_bits, fits);
        let entry = self.entries.get(found?)?;
        Some(((entry.me.options & me::CONTEXT) >> me::CONTEXT_SHIFT) as u8)
    }

    /// Matching, for what arrives and for what is repeated.
    pub fn match_lists(&mut self, operation: &Operation, sink: &mut impl Sink) -> (Arrival, u64) {
        let Some(Some(table)) = self.tables.get_mut(operation.pt as usize) else { return (Arrival::Refused(FailType::Dropped), 0) };
        let entries = &self.entries;
        let fits = |slot| entries.get(slot).is_some_and(|entry: &Entry| entry.fits(operation));
        let (mut found, mut visited) = table.priority.find(operation.initiator, operation.match_bits, fits);
        let mut list = List::Priority;
        if found.is_none() {
            let (overflow, more) = table.overflow.find(operation.initiator, operation.match_bits, fits);
            (found, visited, list) = (overflow, visited + more, List::Overflow);
        }
        let Some(slot) = found else { return (self.exhausted(operation, None, sink), visited) };
        let Some(entry) = self.entries.get(slot) else { return (Arrival::Refused(FailType::Dropped), visited) };

        // Section 3.12.2: checked on the entry that matched; the entry stays.
        let needs = operation.kind.needs();
        if entry.me.uid != UID_ANY && entry.me.uid != operation.uid {
            self.status_mut(operation.pt).permission_violations += 1;
            return (Arrival::Refused(FailType::PermViolation), visited);
        }
        if entry.me.options & needs != needs {
            self.status_mut(operation.pt).operation_violations += 1;
            return (Arrival::Refused(FailType::OpViolation), visited);
        }
        let leaves_header = list == List::Overflow && !entry.has(me::UNEXPECTED_HDR_DISABLE);
        let (headers, most) = self.unexpected[interface_of(operation.pt)];
        if leaves_header && headers >= most {
            return (self.exhausted(operation, Some(slot), sink), visited);
        }
        (Arrival::Matched(self.land(operation, slot, list, leaves_header)), visited)
    }

    fn land(&mut self, operation: &Operation, slot: u32, list: List, leaves_header: bool) -> Landing {
        let entry = self.entries.get_mut(slot).expect("the match list holds live entries only");
        let offset = entry.offset(operation);
        let mut mlength = operation.rlength.min(entry.me.length.saturating_sub(offset));
        if let Some((_, datatype)) = operation.atomic {
            mlength -= mlength % datatype.size(); // half an item cannot be combined
        }
        let may_fault = entry.has(me::MAY_FAULT);
        let whole = Place { address: entry.me.start, offset: 0, segments: entry.me.segments, may_fault };
        let place = whole.plus(offset.min(entry.me.length));
        let mut landing = Landing { entry: slot, header: NONE, list, start: place.address, place, mlength, offset };
        entry.active += 1;
        if entry.has(me::MANAGE_LOCAL) {
            entry.local_offset += mlength;
        }
        if leaves_header {
            entry.headers += 1;
        }
        let unlink = entry.spent().then_some(entry.order);
        if unlink.is_some() {
            entry.linked = false;
        }
        let table = self.tables[operation.pt as usize].as_mut().expect("the match list that held the entry belongs to this table entry");
        table.active += 1;
        if let Some(order) = unlink {
            let list = if list == List::Priority { &mut table.priority } else { &mut table.overflow };
            list.remove(order);
            self.declared.left_list(operation.pt, landing.list);
        }
        if leaves_header {
            self.unexpected_total += 1;
            self.unexpected[interface_of(operation.pt)].0 += 1;
            let claims = table.answer_searches(operation);
            let taken = claims.iter().any(|claim| claim.what != Claimed::Look);
            landing.header = self.headers.insert(Header { operation: *operation, landing, complete: None, order: None, claims });
            if !taken {
                let order = table.unexpected.push(HeaderKey {
                    initiator: operation.initiator,
                    bits: operation.match_bits,
                    rlength: operation.rlength,
                    offset: operation.offset,
                    slot: landing.header,
                });
                if let Some(header) = self.headers.get_mut(landing.header) {
                    header.order = Some(order);
                }
            }
        }
        landing
    }

    /// Nothing fits, or there is no room for the header that entry `slot` would leave.
    fn exhausted(&mut self, operation: &Operation, slot: Option<u32>, sink: &mut impl Sink) -> Arrival {
        let silent = slot.and_then(|slot| self.entries.get(slot)).is_some_and(|entry| entry.has(me::EVENT_FLOWCTRL_DISABLE));
        let Some(table) = self.table_mut(operation.pt) else { return Arrival::Refused(FailType::Dropped) };
        if table.options & pt::RETRY != 0 {
            return Arrival::Hold;
        }
        if table.options & pt::FLOWCTRL != 0 {
            table.enabled = false;
            table.announce = !silent;
            self.settle_disabled(operation.pt, sink);
            return Arrival::Refused(FailType::PtDisabled);
        }
        self.status_mut(operation.pt).drop_count += 1;
        Arrival::Refused(FailType::Dropped)
    }

    /// PT_DISABLED, or the answer to the process that disabled, comes when the messages that were in
    /// progress are finished.
    fn settle_disabled(&mut self, index: u32, sink: &mut impl Sink) {
        let Some(table) = self.table_mut(index) else { return };
        if table.active > 0 {
            return;
        }
        if let Some(ticket) = table.ticket.take() {
            reply(ticket, ReplyCode::Ok, sink);
        }
        if !std::mem::take(&mut table.announce) {
            return;
        }
        let eq = table.eq;
        let event = Event { pt: index, fail: FailType::PtDisabled, ..Event::blank(EventKind::PtDisabled) };
        self.post(eq, event, sink);
    }

    /// The data of an operation are in place, or its memory was not there: events and counts.
    pub fn complete(&mut self, operation: &Operation, landing: &Landing, fail: FailType, sink: &mut impl Sink) {
        let Some(entry) = self.entries.get_mut(landing.entry) else { return };
        entry.active -= 1;
        let (options, ct, user_ptr) = (entry.me.options, entry.me.ct, entry.me.user_ptr);
        let eq = self.table(operation.pt).map_or(EqId::NONE, |table| table.eq);
        let silent = if fail == FailType::Ok { me::EVENT_COMM_DISABLE | me::EVENT_SUCCESS_DISABLE } else { me::EVENT_COMM_DISABLE };
        if options & silent == 0 {
            self.post(eq, target_event(operation.kind.event(false), operation, landing, fail, user_ptr), sink);
        }
        if options & me::EVENT_CT_COMM != 0 {
            self.counters.count(ct, fail, (options & me::EVENT_CT_BYTES != 0).then_some(landing.mlength), sink);
        }
        if let Some(header) = self.headers.get_mut(landing.header) {
            header.complete = Some(fail);
            let claims = std::mem::take(&mut header.claims);
            for claim in claims {
                self.report(landing.header, &claim, sink);
            }
        }
        self.settle(landing.entry, sink);
        if let Some(table) = self.table_mut(operation.pt) {
            table.active -= 1;
            self.settle_disabled(operation.pt, sink);
        }
    }

    /// Whether the entry of a landing that is not complete lets ACKs be sent (`ACK_DISABLE`).
    pub fn acknowledges(&self, landing: &Landing) -> bool {
        self.entries.get(landing.entry).is_none_or(|entry| !entry.has(me::ACK_DISABLE))
    }

    /// AUTO_UNLINK when the last operation on an unlinked entry is complete, AUTO_FREE when no
    /// header points to it any more.
    fn settle(&mut self, slot: u32, sink: &mut impl Sink) {
        let Some(entry) = self.entries.get_mut(slot) else { return };
        if entry.linked || entry.active > 0 {
            return;
        }
        if let Some(ticket) = entry.unlinks {
            let (id, pt) = (entry.id, entry.pt);
            self.entries.remove(slot);
            self.forget_entry(id, pt);
            return reply(ticket, ReplyCode::Ok, sink);
        }
        let silent = entry.has(me::EVENT_UNLINK_DISABLE);
        let (user_ptr, pt, list) = (entry.me.user_ptr, entry.pt, entry.list);
        let announced = std::mem::replace(&mut entry.announced, true);
        let free = entry.headers == 0;
        let eq = self.table(pt).map_or(EqId::NONE, |table| table.eq);
        if !announced && !silent {
            self.post(eq, Event { pt, user_ptr, list, ..Event::blank(EventKind::AutoUnlink) }, sink);
        }
        if !free {
            return;
        }
        if list == List::Overflow && !silent {
            self.post(eq, Event { pt, user_ptr, list, ..Event::blank(EventKind::AutoFree) }, sink);
        }
        if let Some(entry) = self.entries.remove(slot) {
            self.forget_entry(entry.id, pt);
        }
    }
}

/// The answer to a command, when it asked for one.
pub fn reply(ticket: u32, code: ReplyCode, sink: &mut impl Sink) {
    if ticket != NO_TICKET {
        sink.notice(Notice::Reply { ticket, code, value: 0 });
    }
}

fn target_event(kind: EventKind, operation: &Operation, landing: &Landing, fail: FailType, user_ptr: u64) -> Event {
    Event {
        kind,
        fail,
        list: landing.list,
        pt: operation.pt,
        initiator: operation.initiator,
        start: landing.start,
        user_ptr,
        hdr_data: operation.hdr_data,
        match_bits: operation.match_bits,
        rlength: operation.rlength,
        mlength: if fail == FailType::Ok { landing.mlength } else { 0 },
        remote_offset: landing.offset,
        atomic: operation.atomic,
    }
}
