//! A NIC inside the process, without time and without a network: every command is done when it
//! returns, and only messages to the process itself arrive. For tests of libportals and of what
//! stands on it; the model of a NIC is `narrows-nic`.
//!
//! Matching, overflow lists, unexpected headers, searches, events and counters follow the sections
//! named in `portals4.h`; flow control and the two violation counters do not exist here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_portals::{
    AckRequest, Command, CtId, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget,
    ReplyCode, SearchOperation, md, me, pt,
};
use narrows_units::SimTime;

use crate::nic::{Limits, Nic};

/// The process of the NIC.
pub const SELF: ProcessId = ProcessId { nid: 1, pid: 1 };

/// Small thresholds, so that short tests cross all of them.
pub const DEFAULT_LIMITS: Limits = Limits {
    eager_limit: 4_096,
    inject_limit: 192,
    rendezvous_put: false,
    overflow_block: 65_536,
    overflow_blocks: 2,
    max_portals_message: 1 << 16,
    pio_limit: 256,
    max_entries: 16_319,
    max_unexpected: 16_319,
};

static INSTALLED: Mutex<Option<Loopback>> = Mutex::new(None);

/// Takes over from the simulator for the rest of the process. The second call changes nothing.
pub fn install(limits: Limits) {
    let mut place = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    place.get_or_insert_with(|| Loopback::new(limits));
}

/// The installed NIC, locked.
pub(crate) fn installed() -> Option<Guard> {
    let place = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    place.is_some().then_some(Guard(place))
}

/// What [`Loopback`] was charged: tests read it.
pub fn charged() -> Charged {
    installed().map(|guard| guard.charged).unwrap_or_default()
}

/// Time that would have passed, in units of its causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Bytes copied by the library.
    pub copied: u64,
    /// Completions handed out.
    pub completions: u64,
    /// Empty polls.
    pub empty_polls: u64,
    /// Endpoints that the provider said it has opened.
    pub endpoints: u64,
}

pub(crate) struct Guard(MutexGuard<'static, Option<Loopback>>);

impl std::ops::Deref for Guard {
    type Target = Loopback;
    fn deref(&self) -> &Loopback {
        self.0.as_ref().expect("a guard is only made of an installed NIC")
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut Loopback {
        self.0.as_mut().expect("a guard is only made of an installed NIC")
    }
}

/// An entry in a list.
#[derive(Clone, Copy, Debug)]
struct Linked {
    id: EntryId,
    me: MatchEntry,
    /// Place of the next message, with `MANAGE_LOCAL`.
    local_offset: u64,
}

/// A message that is in the overflow list.
#[derive(Clone, Copy, Debug)]
struct Header {
    put: bool,
    bits: u64,
    hdr_data: u64,
    rlength: u64,
    mlength: u64,
    start: u64,
    remote_offset: u64,
    entry: EntryId,
}

/// A put or get on its way.
#[derive(Clone, Debug)]
struct Message {
    put: bool,
    local: LocalBuffer,
    data: Option<Box<[u8]>>,
    length: u64,
    ack: AckRequest,
    target: RemoteTarget,
    hdr_data: u64,
}

#[derive(Debug)]
struct Table {
    options: u32,
    eq: EqId,
    enabled: bool,
    priority: Vec<Linked>,
    overflow: Vec<Linked>,
    headers: VecDeque<Header>,
    /// Refused messages of a `RETRY` entry.
    waiting: VecDeque<Message>,
    /// Overflow entries that the NIC unlinked, whose memory headers still use.
    retired: Vec<(EntryId, MatchEntry)>,
}

/// The NIC.
#[derive(Debug)]
pub(crate) struct Loopback {
    limits: Limits,
    tables: BTreeMap<u32, Table>,
    queues: BTreeMap<u32, VecDeque<Event>>,
    counts: BTreeMap<u32, (u64, u64)>,
    replies: BTreeMap<u32, ReplyCode>,
    next_ticket: u32,
    charged: Charged,
}

fn read(address: u64, length: u64) -> Box<[u8]> {
    let mut bytes = vec![0; length as usize].into_boxed_slice();
    // SAFETY: addresses come from descriptors and entries of this very process, whose owner promised
    // that the memory may be read until the operation is complete.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

fn write(address: u64, bytes: &[u8]) {
    // SAFETY: as for `read`, for writing.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
}

fn fits(linked: &Linked, bits: u64, length: u64) -> bool {
    linked.me.matches(SELF, bits) && (linked.me.options & me::NO_TRUNCATE == 0 || length <= linked.me.length - linked.local_offset)
}

impl Loopback {
    fn new(limits: Limits) -> Loopback {
        Loopback {
            limits,
            tables: BTreeMap::new(),
            queues: BTreeMap::new(),
            counts: BTreeMap::new(),
            replies: BTreeMap::new(),
            next_ticket: 0,
            charged: Charged::default(),
        }
    }

    fn post(&mut self, eq: EqId, event: Event) {
        if let Some(queue) = self.queues.get_mut(&eq.0) {
            queue.push_back(event);
        }
    }

    fn add(&mut self, ct: CtId, success: u64, failure: u64) {
        if let Some(count) = self.counts.get_mut(&ct.0) {
            *count = (count.0 + success, count.1 + failure);
        }
    }

    /// Counts one event of an MD or entry.
    fn count(&mut self, ct: CtId, in_bytes: bool, fail: FailType, mlength: u64) {
        match fail {
            FailType::Ok => self.add(ct, if in_bytes { mlength } else { 1 }, 0),
            _ => self.add(ct, 0, 1),
        }
    }

    /// An event at the initiator: SEND, ACK or REPLY.
    fn at_initiator(&mut self, local: &LocalBuffer, event: Event, counts: u32, full: bool) {
        if local.options & counts != 0 {
            self.count(local.ct, local.options & md::EVENT_CT_BYTES != 0, event.fail, event.mlength);
        }
        let silent = event.fail == FailType::Ok && local.options & md::EVENT_SUCCESS_DISABLE != 0;
        if full && !silent {
            self.post(local.eq, event);
        }
    }

    /// Delivers, or keeps for a retry.
    fn deliver(&mut self, message: Message) {
        let number = message.target.pt;
        let to_self = message.target.process == SELF;
        let Some(table) = self.tables.get_mut(&number).filter(|_| to_self) else {
            return self.fail(&message, if to_self { FailType::Dropped } else { FailType::Undeliverable });
        };
        if !table.enabled {
            return self.fail(&message, FailType::PtDisabled);
        }
        // Nobody overtakes a message that waits.
        if !table.waiting.is_empty() {
            return table.waiting.push_back(message);
        }
        self.attempt(number, message);
    }

    /// One attempt to match; false when the message waits for an entry.
    fn attempt(&mut self, number: u32, message: Message) -> bool {
        let Some(table) = self.tables.get(&number) else { return true };
        let bits = message.target.match_bits;
        let place = |list: &[Linked]| list.iter().position(|linked| fits(linked, bits, message.length));
        if let Some(index) = place(&table.priority) {
            self.arrive(number, List::Priority, index, message);
        } else if let Some(index) = place(&table.overflow) {
            self.arrive(number, List::Overflow, index, message);
        } else if table.options & pt::RETRY != 0 {
            if let Some(table) = self.tables.get_mut(&number) {
                table.waiting.push_front(message);
            }
            return false;
        } else {
            self.fail(&message, FailType::Dropped);
        }
        true
    }

    /// Messages that waited, as far as they go now.
    fn retry(&mut self, number: u32) {
        while let Some(message) = self.tables.get_mut(&number).and_then(|table| table.waiting.pop_front()) {
            if !self.attempt(number, message) {
                break;
            }
        }
    }

    fn fail(&mut self, message: &Message, fail: FailType) {
        let event = initiator_event(message, EventKind::Send, FailType::Ok, List::Priority, message.length, 0);
        if message.put {
            self.sent(message, event);
            self.acknowledge(message, Event { kind: EventKind::Ack, fail, mlength: 0, ..event });
        } else {
            self.at_initiator(&message.local, Event { kind: EventKind::Reply, fail, mlength: 0, ..event }, md::EVENT_CT_REPLY, true);
        }
    }

    fn sent(&mut self, message: &Message, event: Event) {
        self.at_initiator(&message.local, event, md::EVENT_CT_SEND, message.local.options & md::EVENT_SEND_DISABLE == 0);
    }

    fn acknowledge(&mut self, message: &Message, event: Event) {
        match message.ack {
            AckRequest::None => {}
            AckRequest::Full => self.at_initiator(&message.local, event, md::EVENT_CT_ACK, true),
            AckRequest::Counting | AckRequest::OperationCompleted => {
                self.at_initiator(&message.local, event, md::EVENT_CT_ACK, false);
            }
        }
    }

    fn arrive(&mut self, number: u32, list: List, index: usize, message: Message) {
        let Some(table) = self.tables.get_mut(&number) else { return };
        let entries = if list == List::Priority { &mut table.priority } else { &mut table.overflow };
        let linked = &mut entries[index];
        let me = linked.me;
        let managed = me.options & me::MANAGE_LOCAL != 0;
        let offset = if managed { linked.local_offset } else { message.target.offset.min(me.length) };
        let wanted = if message.put { me::OP_PUT } else { me::OP_GET };
        let allowed = me.options & wanted != 0;
        let mlength = if allowed { message.length.min(me.length - offset) } else { 0 };
        if managed {
            linked.local_offset += mlength;
        }
        let remaining = me.length - linked.local_offset;
        let id = linked.id;
        if !allowed {
            return self.fail(&message, FailType::OpViolation);
        }
        let exhausted = managed && me.min_free != 0 && remaining < me.min_free;
        let unlink = me.options & me::USE_ONCE != 0 || exhausted;
        if unlink {
            entries.remove(index);
        }
        let start = me.start.wrapping_add(offset);
        let eq = table.eq;
        if list == List::Overflow && me.options & me::UNEXPECTED_HDR_DISABLE == 0 {
            table.headers.push_back(Header {
                put: message.put,
                bits: message.target.match_bits,
                hdr_data: message.hdr_data,
                rlength: message.length,
                mlength,
                start,
                remote_offset: if managed { offset } else { message.target.offset },
                entry: id,
            });
            if unlink {
                table.retired.push((id, me));
            }
        }
        if message.put {
            match &message.data {
                Some(bytes) => write(start, &bytes[..mlength as usize]),
                None => write(start, &read(message.local.address, mlength)),
            }
        } else {
            write(message.local.address, &read(start, mlength));
        }
        let target_event = Event {
            kind: if message.put { EventKind::Put } else { EventKind::Get },
            fail: FailType::Ok,
            list,
            pt: number,
            initiator: SELF,
            start,
            user_ptr: me.user_ptr,
            hdr_data: if message.put { message.hdr_data } else { 0 },
            match_bits: message.target.match_bits,
            rlength: message.length,
            mlength,
            remote_offset: if managed { offset } else { message.target.offset },
        };
        if me.options & me::EVENT_CT_COMM != 0 {
            self.count(me.ct, me.options & me::EVENT_CT_BYTES != 0, FailType::Ok, mlength);
        }
        if me.options & (me::EVENT_COMM_DISABLE | me::EVENT_SUCCESS_DISABLE) == 0 {
            self.post(eq, target_event);
        }
        if unlink && me.options & me::EVENT_UNLINK_DISABLE == 0 {
            self.post(eq, Event { kind: EventKind::AutoUnlink, ..target_event });
        }
        let event = initiator_event(&message, EventKind::Send, FailType::Ok, list, message.length, target_event.remote_offset);
        if message.put {
            self.sent(&message, event);
            self.acknowledge(&message, Event { kind: EventKind::Ack, mlength, ..event });
        } else {
            self.at_initiator(&message.local, Event { kind: EventKind::Reply, mlength, ..event }, md::EVENT_CT_REPLY, true);
        }
    }

    /// The overflow event of a header for an entry.
    fn overflow_event(header: &Header, me: &MatchEntry, number: u32, kind: EventKind) -> Event {
        Event {
            kind,
            fail: FailType::Ok,
            list: List::Overflow,
            pt: number,
            initiator: SELF,
            start: header.start,
            user_ptr: me.user_ptr,
            hdr_data: header.hdr_data,
            match_bits: header.bits,
            rlength: header.rlength,
            mlength: header.mlength,
            remote_offset: header.remote_offset,
        }
    }

    /// Takes the oldest header that fits.
    fn take_header(&mut self, number: u32, me: &MatchEntry) -> Option<Header> {
        let table = self.tables.get_mut(&number)?;
        let fits = |header: &Header| me.matches(SELF, header.bits) && (me.options & me::NO_TRUNCATE == 0 || header.rlength <= me.length);
        let index = table.headers.iter().position(fits)?;
        table.headers.remove(index)
    }

    /// Reports a consumed header, and AUTO_FREE when it was the last of its block.
    fn consume(&mut self, number: u32, header: Header, me: &MatchEntry) {
        let kind = if header.put { EventKind::PutOverflow } else { EventKind::GetOverflow };
        let event = Loopback::overflow_event(&header, me, number, kind);
        if me.options & me::EVENT_CT_OVERFLOW != 0 {
            self.count(me.ct, me.options & me::EVENT_CT_BYTES != 0, FailType::Ok, header.mlength);
        }
        let Some(table) = self.tables.get_mut(&number) else { return };
        let eq = table.eq;
        let in_use = table.headers.iter().any(|other| other.entry == header.entry);
        let freed = table.retired.iter().position(|(id, _)| *id == header.entry && !in_use).map(|index| table.retired.remove(index));
        if me.options & (me::EVENT_OVER_DISABLE | me::EVENT_SUCCESS_DISABLE) == 0 {
            self.post(eq, event);
        }
        if let Some((_, block)) = freed.filter(|(_, block)| block.options & me::EVENT_UNLINK_DISABLE == 0) {
            self.post(eq, Event { kind: EventKind::AutoFree, user_ptr: block.user_ptr, start: block.start, ..event });
        }
    }

    fn append(&mut self, entry: EntryId, number: u32, list: List, me: MatchEntry) {
        let Some(eq) = self.tables.get(&number).map(|table| table.eq) else { return };
        if list == List::Priority {
            while let Some(header) = self.take_header(number, &me) {
                self.consume(number, header, &me);
                if me.options & me::USE_ONCE != 0 {
                    if me.options & me::EVENT_UNLINK_DISABLE == 0 {
                        self.post(eq, entry_event(EventKind::AutoUnlink, number, list, &me));
                    }
                    return;
                }
            }
        }
        if let Some(table) = self.tables.get_mut(&number) {
            let entries = if list == List::Priority { &mut table.priority } else { &mut table.overflow };
            entries.push(Linked { id: entry, me, local_offset: 0 });
        }
        if me.options & me::EVENT_LINK_DISABLE == 0 {
            self.post(eq, entry_event(EventKind::Link, number, list, &me));
        }
        self.retry(number);
    }

    fn unlink(&mut self, entry: EntryId) -> ReplyCode {
        for table in self.tables.values_mut() {
            if let Some(index) = table.priority.iter().position(|linked| linked.id == entry) {
                table.priority.remove(index);
                return ReplyCode::Ok;
            }
            if let Some(index) = table.overflow.iter().position(|linked| linked.id == entry) {
                if table.headers.iter().any(|header| header.entry == entry) {
                    return ReplyCode::InUse;
                }
                table.overflow.remove(index);
                return ReplyCode::Ok;
            }
        }
        ReplyCode::Unknown
    }

    fn search(&mut self, number: u32, operation: SearchOperation, me: MatchEntry) {
        let Some(table) = self.tables.get(&number) else { return };
        let eq = table.eq;
        let nothing = Event { fail: FailType::NoMatch, ..entry_event(EventKind::Search, number, List::Overflow, &me) };
        match operation {
            SearchOperation::Only => {
                let found = table.headers.iter().find(|header| me.matches(SELF, header.bits));
                let event = found.map_or(nothing, |header| Loopback::overflow_event(header, &me, number, EventKind::Search));
                self.post(eq, event);
            }
            SearchOperation::Delete => {
                let mut any = false;
                while let Some(header) = self.take_header(number, &me) {
                    any = true;
                    self.consume(number, header, &me);
                    if me.options & me::USE_ONCE != 0 {
                        break;
                    }
                }
                if !any {
                    self.post(eq, nothing);
                }
            }
        }
    }
}

fn initiator_event(message: &Message, kind: EventKind, fail: FailType, list: List, mlength: u64, remote_offset: u64) -> Event {
    Event {
        kind,
        fail,
        list,
        pt: message.target.pt,
        initiator: SELF,
        start: 0,
        user_ptr: message.local.user_ptr,
        hdr_data: 0,
        match_bits: 0,
        rlength: message.length,
        mlength,
        remote_offset,
    }
}

fn entry_event(kind: EventKind, number: u32, list: List, me: &MatchEntry) -> Event {
    Event {
        kind,
        fail: FailType::Ok,
        list,
        pt: number,
        initiator: SELF,
        start: me.start,
        user_ptr: me.user_ptr,
        hdr_data: 0,
        match_bits: me.match_bits,
        rlength: 0,
        mlength: 0,
        remote_offset: 0,
    }
}

impl Nic for Loopback {
    fn id(&self) -> ProcessId {
        SELF
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn endpoint_open(&mut self) {
        self.charged.endpoints += 1;
    }

    fn submit(&mut self, command: Command) {
        match command {
            Command::PtAlloc { pt: number, options, eq } => {
                let table = Table {
                    options,
                    eq,
                    enabled: options & pt::ALLOC_DISABLED == 0,
                    priority: Vec::new(),
                    overflow: Vec::new(),
                    headers: VecDeque::new(),
                    waiting: VecDeque::new(),
                    retired: Vec::new(),
                };
                self.tables.insert(number, table);
            }
            Command::PtFree { pt } => drop(self.tables.remove(&pt)),
            Command::PtEnable { pt } => {
                if let Some(table) = self.tables.get_mut(&pt) {
                    table.enabled = true;
                }
            }
            Command::PtDisable { pt } => {
                if let Some(table) = self.tables.get_mut(&pt) {
                    table.enabled = false;
                }
            }
            Command::EqAlloc { eq, .. } => drop(self.queues.insert(eq.0, VecDeque::new())),
            Command::EqFree { eq } => drop(self.queues.remove(&eq.0)),
            Command::CtAlloc { ct } => drop(self.counts.insert(ct.0, (0, 0))),
            Command::CtFree { ct } => drop(self.counts.remove(&ct.0)),
            Command::CtSet { ct, success, failure } => {
                if let Some(count) = self.counts.get_mut(&ct.0) {
                    *count = (success, failure);
                }
            }
            Command::CtIncrement { ct, success, failure } => self.add(ct, success, failure),
            Command::MeAppend { entry, pt, list, me } => self.append(entry, pt, list, me),
            Command::MeUnlink { entry, ticket } => {
                let code = self.unlink(entry);
                self.replies.insert(ticket, code);
            }
            Command::MeSearch { pt, operation, me } => self.search(pt, operation, me),
            Command::Put { local, length, inline, ack, target, hdr_data } => {
                self.deliver(Message { put: true, local, data: inline, length, ack, target, hdr_data });
            }
            Command::Get { local, length, target } => {
                self.deliver(Message { put: false, local, data: None, length, ack: AckRequest::None, target, hdr_data: 0 });
            }
        }
    }

    fn ticket(&mut self) -> u32 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn wait_reply(&mut self, ticket: u32) -> ReplyCode {
        self.replies.remove(&ticket).unwrap_or(ReplyCode::Unknown)
    }

    fn eq_get(&mut self, eqs: &[EqId]) -> Option<(usize, Event)> {
        let found = self.eq_wait(eqs, None);
        self.charged.empty_polls += u64::from(found.is_none());
        found
    }

    fn eq_wait(&mut self, eqs: &[EqId], _: Option<SimTime>) -> Option<(usize, Event)> {
        eqs.iter().enumerate().find_map(|(index, eq)| Some((index, self.queues.get_mut(&eq.0)?.pop_front()?)))
    }

    fn count(&mut self, ct: CtId) -> (u64, u64) {
        self.counts.get(&ct.0).copied().unwrap_or_default()
    }

    fn count_poll(&mut self, ct: CtId, test: u64) -> (u64, u64) {
        let (success, failure) = Nic::count(self, ct);
        self.charged.empty_polls += u64::from(success + failure < test);
        (success, failure)
    }

    fn count_wait(&mut self, tests: &[(CtId, u64)], _: Option<SimTime>) -> Option<usize> {
        tests.iter().position(|(ct, test)| self.counts.get(&ct.0).is_some_and(|(success, failure)| success + failure >= *test))
    }

    fn expect_soon(&mut self, _: bool) {}

    fn charge_copy(&mut self, bytes: u64) {
        self.charged.copied += bytes;
    }

    fn charge_completion(&mut self) {
        self.charged.completions += 1;
    }
}
