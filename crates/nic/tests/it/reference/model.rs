//! The reference: lists are vectors that are searched from the front, an operation is done from its beginning to its
//! end before anything else happens, and nothing takes time. References are to sections of "The Portals 4.3 Network
//! Programming Interface", SAND2022-8810.

use std::collections::VecDeque;

use narrows_nic::{CommandError, Status};
use narrows_portals::*;

use super::{COUNTERS, ENTRIES, EVENTS, HEADERS, LIST, TOUCHED, TRIGGERED};
use crate::common::{EQ, MEMORY, PT};

#[derive(Clone, Debug)]
struct Entry {
    id: EntryId,
    list: List,
    me: MatchEntry,
    used: u64,
    linked: bool,
    headers: usize,
}

impl Entry {
    fn has(&self, option: u32) -> bool {
        on(self.me.options, option)
    }

    fn full(&self) -> bool {
        self.has(me::MANAGE_LOCAL) && self.me.min_free > 0 && self.me.length.saturating_sub(self.used) < self.me.min_free
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Put,
    Get,
    Atomic,
    Fetch,
}

#[derive(Clone, Copy, Debug)]
struct Combine {
    operation: AtomicOperation,
    datatype: Datatype,
    operand: u64,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    kind: Kind,
    from: u32,
    target: RemoteTarget,
    length: u64,
    ack: AckRequest,
    /// Source of a put or atomic, destination of a get.
    local: LocalBuffer,
    /// Destination of a fetching atomic.
    fetched: LocalBuffer,
    combine: Option<Combine>,
    hdr_data: u64,
}

#[derive(Clone, Debug)]
struct Header {
    message: Message,
    entry: EntryId,
    start: u64,
    mlength: u64,
    offset: u64,
    fail: FailType,
}

#[derive(Clone, Copy, Default)]
struct Counter {
    success: u64,
    failure: u64,
    commands: u32,
}

/// A portal table entry.
struct Table {
    options: u32,
    enabled: bool,
    held: Vec<(Message, Vec<u8>)>,
}

struct Triggered {
    trigger: CtId,
    threshold: u64,
    command: Command,
}

#[derive(Default)]
pub struct Side {
    uid: u32,
    table: Option<Table>,
    entries: Vec<Entry>,
    headers: Vec<Header>,
    counters: [Option<Counter>; COUNTERS as usize],
    /// In the order of issue.
    waiting: Vec<Triggered>,
    /// Events that the process has not taken, once flow control depends on it.
    queued: Option<u32>,
    limits: Option<Limits>,
    pub status: Status,
    pub notices: Vec<Notice>,
    pub memory: Vec<u8>,
}

impl Side {
    pub fn held(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.held.len() as u64)
    }

    fn entry(&mut self, id: EntryId) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.id == id).expect("the entry exists while something points to it")
    }

    /// What the process may have: what it asked for, or the NIC has.
    fn limits(&self) -> Limits {
        let Limits { entries, unexpected_headers, list_size } =
            self.limits.unwrap_or(Limits { entries: u32::MAX, unexpected_headers: u32::MAX, list_size: u32::MAX });
        Limits {
            entries: entries.min(ENTRIES as u32),
            unexpected_headers: unexpected_headers.min(HEADERS as u32),
            list_size: list_size.min(LIST as u32),
        }
    }

    fn reached(&self, ct: CtId) -> u64 {
        self.counters[ct.0 as usize].map_or(0, |counter| counter.success.saturating_add(counter.failure))
    }

    /// Entries that exist, or whose append waits for a counting event.
    fn room_taken(&self) -> usize {
        self.entries.len() + self.waiting(List::Priority) + self.waiting(List::Overflow)
    }

    /// Entries that are in a list, or will be when a counting event releases their append.
    fn list_size(&self, list: List) -> usize {
        self.entries.iter().filter(|entry| entry.linked && entry.list == list).count() + self.waiting(list)
    }

    /// Appends that wait for a counting event.
    fn waiting(&self, list: List) -> usize {
        let waits = |triggered: &&Triggered| matches!(triggered.command, Command::MeAppend { list: of, .. } if of == list);
        self.waiting.iter().filter(waits).count()
    }

    /// The oldest header that an append or search finds (section 3.12.2).
    fn first_header(&self, me: &MatchEntry, used: u64, places: &[ProcessId]) -> Option<usize> {
        self.headers.iter().position(|header| finds(me, used, header, places))
    }
}

fn finds(me: &MatchEntry, used: u64, header: &Header, places: &[ProcessId]) -> bool {
    let offset = if on(me.options, me::MANAGE_LOCAL) { used } else { header.message.target.offset };
    me.matches(places[header.message.from as usize], header.message.target.match_bits)
        && (!on(me.options, me::NO_TRUNCATE) || header.message.length <= me.length.saturating_sub(offset))
}

pub struct Reference {
    places: Vec<ProcessId>,
    pub sides: Vec<Side>,
    /// Triggered operations whose time has come.
    fired: VecDeque<(u32, Command)>,
}

fn blank(kind: EventKind) -> Event {
    Event::blank(kind)
}

pub fn on(options: u32, option: u32) -> bool {
    options & option != 0
}

impl Reference {
    /// Every process has an event queue, [`COUNTERS`] counting events and the portal table entry [`PT`].
    pub fn new(pt_options: u32, places: &[ProcessId], uid: impl Fn(u32) -> u32) -> Reference {
        let side = |process| Side {
            uid: uid(process),
            table: Some(Table { options: pt_options, enabled: true, held: Vec::new() }),
            counters: [Some(Counter::default()); COUNTERS as usize],
            queued: on(pt_options, pt::FLOWCTRL).then_some(0),
            memory: vec![0; TOUCHED],
            ..Side::default()
        };
        let sides = (0..places.len() as u32).map(side).collect();
        Reference { places: places.to_vec(), sides, fired: VecDeque::new() }
    }

    fn side(&mut self, process: u32) -> &mut Side {
        &mut self.sides[process as usize]
    }

    // ---- Events and counts -------------------------------------------------------------------

    fn event(&mut self, process: u32, event: Event) {
        let side = self.side(process);
        side.queued = side.queued.map(|queued| queued + 1);
        side.notices.push(Notice::Event { eq: EQ, event });
    }

    fn reply(&mut self, process: u32, ticket: u32, code: ReplyCode, value: u64) {
        if ticket != NO_TICKET {
            self.side(process).notices.push(Notice::Reply { ticket, code, value });
        }
    }

    /// Section 3.14: a failure counts one, a success one or its bytes.
    fn count(&mut self, process: u32, ct: CtId, fail: FailType, amount: u64) {
        self.change(process, ct, false, |counter| match fail {
            FailType::Ok => counter.success = counter.success.wrapping_add(amount),
            _ => counter.failure = counter.failure.wrapping_add(1),
        });
    }

    /// Section 3.16: what waits is released in the order of thresholds, and of issue.
    fn change(&mut self, process: u32, ct: CtId, by_command: bool, change: impl FnOnce(&mut Counter)) {
        let side = &mut self.sides[process as usize];
        let Some(Some(counter)) = side.counters.get_mut(ct.0 as usize) else { return };
        change(counter);
        counter.commands += u32::from(by_command);
        let Counter { success, failure, commands } = *counter;
        side.notices.push(Notice::Count { ct, success, failure, commands });
        let reached = side.reached(ct);
        while let Some(first) = (0..side.waiting.len())
            .filter(|&n| side.waiting[n].trigger == ct && side.waiting[n].threshold <= reached)
            .min_by_key(|&n| (side.waiting[n].threshold, n))
        {
            self.fired.push_back((process, side.waiting.remove(first).command));
        }
    }

    // ---- Commands ----------------------------------------------------------------------------

    /// Whether the NIC takes a command, and if so all that follows from it.
    pub fn command(&mut self, process: u32, command: Command) -> Result<(), CommandError> {
        self.check(process, &command)?;
        self.execute(process, command, true);
        while let Some((process, command)) = self.fired.pop_front() {
            self.execute(process, command, false);
        }
        Ok(())
    }

    fn check(&self, process: u32, command: &Command) -> Result<(), CommandError> {
        let side = &self.sides[process as usize];
        let table = |pt: u32| if pt == PT && side.table.is_some() { Ok(()) } else { Err(CommandError::PtUnknown(pt)) };
        let counter = |ct: CtId| match side.counters.get(ct.0 as usize) {
            Some(None) => Err(CommandError::CtUnknown(ct)),
            _ => Ok(()),
        };
        match command {
            Command::PtAlloc { pt, .. } if side.table.is_some() => Err(CommandError::PtInUse(*pt)),
            Command::PtFree { pt, .. } | Command::PtEnable { pt } | Command::PtDisable { pt, .. } => table(*pt),
            Command::CtAlloc { ct } if side.counters[ct.0 as usize].is_some() => Err(CommandError::CtInUse(*ct)),
            Command::CtFree { ct } | Command::CtSet { ct, .. } | Command::CtIncrement { ct, .. } | Command::CtCancel { ct } => counter(*ct),
            Command::Triggered { trigger, command, .. } => {
                counter(*trigger)?;
                if side.waiting.len() == TRIGGERED {
                    return Err(CommandError::NoTriggered(TRIGGERED as u32));
                }
                self.check(process, command)
            }
            Command::MeAppend { pt, me, list, .. } => {
                table(*pt)?;
                counter(me.ct)?;
                let Limits { entries, list_size, .. } = side.limits();
                if side.list_size(*list) >= list_size as usize {
                    Err(CommandError::ListTooLong(list_size))
                } else if side.room_taken() >= entries as usize {
                    Err(CommandError::NoSpace(entries))
                } else {
                    Ok(())
                }
            }
            Command::MeSearch { pt, me, .. } => table(*pt).and_then(|()| counter(me.ct)),
            Command::Put { local, .. } | Command::Get { local, .. } => counter(local.ct),
            Command::Atomic(atomic) => {
                counter(atomic.local.ct)?;
                atomic.fetched.map_or(Ok(()), |fetched| counter(fetched.ct))
            }
            _ => Ok(()),
        }
    }

    fn execute(&mut self, process: u32, command: Command, by_command: bool) {
        let from = process;
        let fetched = LocalBuffer::default();
        match command {
            Command::PtAlloc { options, .. } => {
                let enabled = !on(options, pt::ALLOC_DISABLED);
                let side = self.side(process);
                side.table = Some(Table { options, enabled, held: Vec::new() });
                if on(options, pt::FLOWCTRL) {
                    side.queued.get_or_insert(0);
                }
            }
            Command::PtFree { ticket, .. } => self.free(process, ticket),
            Command::PtEnable { .. } => {
                if let Some(table) = &mut self.side(process).table {
                    table.enabled = true;
                }
            }
            Command::PtDisable { ticket, .. } => {
                let Some(table) = &mut self.side(process).table else { return };
                table.enabled = false;
                let held = std::mem::take(&mut table.held);
                self.reply(process, ticket, ReplyCode::Ok, 0);
                self.refuse(held, FailType::PtDisabled);
            }
            Command::EqRelease { count, .. } => {
                let side = self.side(process);
                side.queued = side.queued.map(|queued| queued.saturating_sub(count));
            }
            Command::SetLimits { limits, .. } => self.side(process).limits = Some(limits),
            Command::CtAlloc { ct } => self.side(process).counters[ct.0 as usize] = Some(Counter::default()),
            Command::CtFree { ct } => {
                let side = self.side(process);
                side.counters[ct.0 as usize] = None;
                side.waiting.retain(|triggered| triggered.trigger != ct);
            }
            Command::CtCancel { ct } => self.side(process).waiting.retain(|triggered| triggered.trigger != ct),
            Command::CtSet { ct, success, failure } => {
                self.change(process, ct, by_command, |counter| (counter.success, counter.failure) = (success, failure));
            }
            Command::CtIncrement { ct, success, failure } => self.change(process, ct, by_command, |counter| {
                counter.success = counter.success.wrapping_add(success);
                counter.failure = counter.failure.wrapping_add(failure);
            }),
            Command::Triggered { trigger, threshold, command, .. } => {
                if self.side(process).reached(trigger) >= threshold {
                    self.fired.push_back((process, *command));
                } else {
                    self.side(process).waiting.push(Triggered { trigger, threshold, command: *command });
                }
            }
            Command::Query { register, ticket, .. } => {
                let side = self.side(process);
                let value = match register {
                    Register::DropCount => side.status.drop_count,
                    Register::PermissionViolations => side.status.permission_violations,
                    Register::OperationViolations => side.status.operation_violations,
                    Register::Entries => side.room_taken() as u64,
                    Register::PriorityEntries => side.list_size(List::Priority) as u64,
                    Register::OverflowEntries => side.list_size(List::Overflow) as u64,
                    Register::TriggeredOperations => side.waiting.len() as u64,
                };
                self.reply(process, ticket, ReplyCode::Ok, value);
            }
            Command::MeAppend { entry, list, me, .. } => self.append(process, entry, list, me),
            Command::MeUnlink { entry, ticket } => {
                let code = self.unlink(process, entry);
                self.reply(process, ticket, code, 0);
            }
            Command::MeSearch { operation, me, .. } => {
                self.search(process, operation, me);
                if on(me.options, me::EVENT_CT_OVERFLOW) {
                    self.change(process, me.ct, by_command, |_| ());
                }
            }
            Command::Put { local, length, inline, ack, target, hdr_data } => {
                self.send(Message { kind: Kind::Put, from, target, length, ack, local, fetched, combine: None, hdr_data }, inline);
            }
            Command::Get { local, length, target } => {
                let ack = AckRequest::None;
                self.send(Message { kind: Kind::Get, from, target, length, ack, local, fetched, combine: None, hdr_data: 0 }, None);
            }
            Command::Atomic(atomic) => {
                let Atomic { local, length, inline, ack, target, hdr_data, operation, datatype, .. } = *atomic;
                let operand = u64::from_le_bytes(atomic.operand[..8].try_into().expect("eight bytes"));
                let combine = Some(Combine { operation, datatype, operand });
                let kind = if atomic.fetched.is_some() { Kind::Fetch } else { Kind::Atomic };
                let fetched = atomic.fetched.unwrap_or_default();
                self.send(Message { kind, from, target, length, ack, local, fetched, combine, hdr_data }, inline);
            }
            _ => unreachable!("the programs have no such command"),
        }
    }

    /// Section 3.7.2.
    fn free(&mut self, process: u32, ticket: u32) {
        let side = self.side(process);
        let Some(table) = side.table.take() else { return };
        let all = ticket == NO_TICKET || on(table.options, pt::RETRY);
        if !all && side.entries.iter().any(|entry| entry.linked) {
            side.table = Some(table);
            self.reply(process, ticket, ReplyCode::InUse, 0);
            return;
        }
        side.entries.clear();
        side.headers.clear();
        self.reply(process, ticket, ReplyCode::Ok, 0);
        self.refuse(table.held, FailType::Dropped);
    }

    fn refuse(&mut self, held: Vec<(Message, Vec<u8>)>, fail: FailType) {
        for (message, _) in held {
            self.answer(message, Err(fail));
        }
    }

    // ---- Entries -----------------------------------------------------------------------------

    /// AUTO_UNLINK was posted before, or is now; AUTO_FREE when no header is left.
    fn retire(&mut self, process: u32, id: EntryId, unlinks: bool) {
        let entry = self.side(process).entry(id).clone();
        if entry.linked && !unlinks {
            return;
        }
        let silent = entry.has(me::EVENT_UNLINK_DISABLE);
        let event = |kind| Event { pt: PT, user_ptr: entry.me.user_ptr, list: entry.list, ..blank(kind) };
        if unlinks && !silent {
            self.event(process, event(EventKind::AutoUnlink));
        }
        self.side(process).entry(id).linked = false;
        if entry.headers == 0 {
            if entry.list == List::Overflow && !silent {
                self.event(process, event(EventKind::AutoFree));
            }
            self.side(process).entries.retain(|other| other.id != id);
        }
    }

    fn header_event(&mut self, process: u32, kind: EventKind, list: List, header: &Header, user_ptr: u64) {
        let message = header.message;
        self.event(
            process,
            Event {
                kind,
                fail: header.fail,
                list,
                pt: PT,
                initiator: self.places[message.from as usize],
                start: header.start,
                user_ptr,
                hdr_data: message.hdr_data,
                match_bits: message.target.match_bits,
                rlength: message.length,
                mlength: if header.fail == FailType::Ok { header.mlength } else { 0 },
                remote_offset: header.offset,
                atomic: message.combine.map(|combine| (combine.operation, combine.datatype)),
            },
        );
    }

    /// An append or search has found a header.
    fn report(&mut self, process: u32, kind: EventKind, header: &Header, me: &MatchEntry) {
        let quiet = if header.fail == FailType::Ok { me::EVENT_OVER_DISABLE | me::EVENT_SUCCESS_DISABLE } else { me::EVENT_OVER_DISABLE };
        if kind == EventKind::Search || !on(me.options, quiet) {
            self.header_event(process, kind, List::Overflow, header, me.user_ptr);
        }
        if on(me.options, me::EVENT_CT_OVERFLOW) {
            let amount = if on(me.options, me::EVENT_CT_BYTES) { header.mlength } else { 1 };
            self.count(process, me.ct, header.fail, amount);
        }
    }

    /// Takes header `index` for an append or search; its message's length.
    fn consume(&mut self, process: u32, index: usize, me: &MatchEntry, auto_unlink: bool) -> u64 {
        let header = self.side(process).headers.remove(index);
        let kind = match header.message.kind {
            Kind::Put => EventKind::PutOverflow,
            Kind::Get => EventKind::GetOverflow,
            Kind::Atomic => EventKind::AtomicOverflow,
            Kind::Fetch => EventKind::FetchAtomicOverflow,
        };
        self.report(process, kind, &header, me);
        self.side(process).entry(header.entry).headers -= 1;
        self.retire(process, header.entry, false);
        if auto_unlink && !on(me.options, me::EVENT_UNLINK_DISABLE) {
            self.event(process, Event { pt: PT, user_ptr: me.user_ptr, ..blank(EventKind::AutoUnlink) });
        }
        header.message.length
    }

    fn append(&mut self, process: u32, id: EntryId, list: List, me: MatchEntry) {
        if self.side(process).table.is_none() {
            return; // a triggered one, and the table entry was freed
        }
        let mut entry = Entry { id, list, me, used: 0, linked: true, headers: 0 };
        while list == List::Priority
            && let Some(index) = self.sides[process as usize].first_header(&me, entry.used, &self.places)
        {
            let once = on(me.options, me::USE_ONCE);
            let rlength = self.consume(process, index, &me, once);
            if once {
                return;
            }
            if on(me.options, me::LOCAL_INC_UH_RLENGTH) && on(me.options, me::MANAGE_LOCAL) {
                entry.used += rlength;
                if entry.full() {
                    if !on(me.options, me::EVENT_UNLINK_DISABLE) {
                        self.event(process, Event { pt: PT, user_ptr: me.user_ptr, list, ..blank(EventKind::AutoUnlink) });
                    }
                    return;
                }
            }
        }
        self.side(process).entries.push(entry);
        if !on(me.options, me::EVENT_LINK_DISABLE) {
            self.event(process, Event { pt: PT, user_ptr: me.user_ptr, list, ..blank(EventKind::Link) });
        }
    }

    /// Section 3.12.4.
    fn search(&mut self, process: u32, operation: SearchOperation, me: MatchEntry) {
        let once = on(me.options, me::USE_ONCE);
        let mut hit = false;
        if operation == SearchOperation::Only {
            let all = self.sides[process as usize].headers.iter().filter(|header| finds(&me, 0, header, &self.places));
            let found: Vec<Header> = all.take(if once { 1 } else { usize::MAX }).cloned().collect();
            for header in &found {
                hit = true;
                self.report(process, EventKind::Search, header, &me);
            }
        } else {
            while !(once && hit)
                && let Some(index) = self.sides[process as usize].first_header(&me, 0, &self.places)
            {
                hit = true;
                self.consume(process, index, &me, false);
            }
        }
        if once && hit {
            return;
        }
        if !hit {
            let (user_ptr, match_bits) = (me.user_ptr, me.match_bits);
            self.event(process, Event { pt: PT, user_ptr, fail: FailType::NoMatch, match_bits, ..blank(EventKind::Search) });
        }
        if on(me.options, me::EVENT_CT_OVERFLOW) {
            self.count(process, me.ct, FailType::NoMatch, 1);
        }
    }

    fn unlink(&mut self, process: u32, id: EntryId) -> ReplyCode {
        let entries = &mut self.side(process).entries;
        match entries.iter().position(|entry| entry.id == id) {
            None => ReplyCode::Unknown,
            Some(index) if entries[index].headers > 0 => ReplyCode::InUse,
            Some(index) => {
                entries.remove(index);
                ReplyCode::Ok
            }
        }
    }

    // ---- Messages ----------------------------------------------------------------------------

    fn send(&mut self, message: Message, inline: Option<Box<[u8]>>) {
        let from = message.from;
        let to = self.places.iter().position(|place| *place == message.target.process).map(|to| to as u32);
        if message.kind != Kind::Get {
            self.sent(&message, if to.is_some() { FailType::Ok } else { FailType::Undeliverable });
        }
        let Some(to) = to else { return self.answer(message, Err(FailType::Undeliverable)) };
        let data = match inline {
            Some(bytes) => bytes.into_vec(),
            None if message.kind == Kind::Get => Vec::new(),
            None => self.side(from).memory[message.local.address as usize..][..message.length as usize].to_vec(),
        };
        let table = self.side(to).table.as_ref();
        let behind = table.is_some_and(|table| table.enabled && table.held.iter().any(|(held, _)| held.from == from));
        if (behind && message.target.pt == PT || !self.arrive(to, message, &data))
            && let Some(table) = &mut self.side(to).table
        {
            table.held.push((message, data));
        }
    }

    fn sent(&mut self, message: &Message, fail: FailType) {
        let local = message.local;
        let quiet = fail == FailType::Ok && on(local.options, md::EVENT_SUCCESS_DISABLE);
        if !quiet && !on(local.options, md::EVENT_SEND_DISABLE) {
            let mlength = if fail == FailType::Ok { message.length } else { 0 };
            let event = Event { fail, user_ptr: local.user_ptr, rlength: message.length, mlength, ..blank(EventKind::Send) };
            self.event(message.from, event);
        }
        if on(local.options, md::EVENT_CT_SEND) {
            let amount = if on(local.options, md::EVENT_CT_BYTES) { message.length } else { 1 };
            self.count(message.from, local.ct, fail, amount);
        }
    }

    /// False: it must be held.
    fn arrive(&mut self, to: u32, message: Message, data: &[u8]) -> bool {
        let (from, uid) = (self.places[message.from as usize], self.sides[message.from as usize].uid);
        let side = self.side(to);
        let table = if message.target.pt == PT { side.table.as_mut() } else { None };
        let Some(table) = table else {
            side.status.drop_count += 1;
            self.answer(message, Err(FailType::Dropped));
            return true;
        };
        if !table.enabled {
            self.answer(message, Err(FailType::PtDisabled));
            return true;
        }
        let options = table.options;
        // A message raises two events, and PT_DISABLED needs a place.
        let crowded = on(options, pt::FLOWCTRL) && side.queued.is_some_and(|queued| queued + 2 >= EVENTS);
        let fits = |entry: &Entry| {
            let offset = if entry.has(me::MANAGE_LOCAL) { entry.used } else { message.target.offset };
            !entry.has(me::NO_TRUNCATE) || message.length <= entry.me.length.saturating_sub(offset)
        };
        let matches = |entry: &Entry| entry.linked && entry.me.matches(from, message.target.match_bits) && fits(entry);
        let first = |list: List| side.entries.iter().position(|entry| entry.list == list && matches(entry));
        let found = if crowded { None } else { first(List::Priority).or_else(|| first(List::Overflow)) };
        let needed = match message.kind {
            Kind::Put | Kind::Atomic => me::OP_PUT,
            Kind::Get => me::OP_GET,
            Kind::Fetch => me::OP_PUT | me::OP_GET,
        };
        if let Some(index) = found {
            let entry = &side.entries[index];
            if entry.me.uid != UID_ANY && entry.me.uid != uid {
                side.status.permission_violations += 1;
                self.answer(message, Err(FailType::PermViolation));
                return true;
            }
            if entry.me.options & needed != needed {
                side.status.operation_violations += 1;
                self.answer(message, Err(FailType::OpViolation));
                return true;
            }
        }
        let most = side.limits().unexpected_headers;
        let leaves = |entry: &Entry| entry.list == List::Overflow && !entry.has(me::UNEXPECTED_HDR_DISABLE);
        let found = match found {
            Some(index) if leaves(&side.entries[index]) && side.headers.len() >= most as usize => Err(Some(index)),
            Some(index) => Ok(index),
            None => Err(None),
        };
        let index = match found {
            Ok(index) => index,
            Err(_) if on(options, pt::RETRY) => return false,
            Err(index) if on(options, pt::FLOWCTRL) => {
                let silent = index.is_some_and(|index| side.entries[index].has(me::EVENT_FLOWCTRL_DISABLE));
                if let Some(table) = &mut side.table {
                    table.enabled = false;
                }
                if !silent {
                    self.event(to, Event { pt: PT, fail: FailType::PtDisabled, ..blank(EventKind::PtDisabled) });
                }
                self.answer(message, Err(FailType::PtDisabled));
                return true;
            }
            Err(_) => {
                side.status.drop_count += 1;
                self.answer(message, Err(FailType::Dropped));
                return true;
            }
        };
        self.land(to, message, data, index);
        true
    }

    fn land(&mut self, to: u32, message: Message, data: &[u8], index: usize) {
        let side = self.side(to);
        let entry = &mut side.entries[index];
        let (options, list) = (entry.me.options, entry.list);
        let offset = if on(options, me::MANAGE_LOCAL) { entry.used } else { message.target.offset };
        let mut mlength = message.length.min(entry.me.length.saturating_sub(offset));
        if let Some(combine) = message.combine {
            mlength -= mlength % combine.datatype.size();
        }
        let start = entry.me.start + offset.min(entry.me.length);
        if on(options, me::MANAGE_LOCAL) {
            entry.used += mlength;
        }
        let (id, ct, user_ptr) = (entry.id, entry.me.ct, entry.me.user_ptr);
        let fail = if start >= MEMORY as u64 && mlength > 0 { FailType::Segv } else { FailType::Ok };
        let header = Header { message, entry: id, start, mlength, offset, fail };
        if list == List::Overflow && !on(options, me::UNEXPECTED_HDR_DISABLE) {
            entry.headers += 1;
            side.headers.push(header.clone());
        }
        let mut old = Vec::new();
        if fail == FailType::Ok && mlength > 0 {
            let there = &mut side.memory[start as usize..][..mlength as usize];
            old = there.to_vec();
            match message.combine {
                Some(combine) => combine.apply(there, data),
                None if message.kind == Kind::Put => there.copy_from_slice(&data[..mlength as usize]),
                None => {}
            }
        }
        let quiet = if fail == FailType::Ok { me::EVENT_COMM_DISABLE | me::EVENT_SUCCESS_DISABLE } else { me::EVENT_COMM_DISABLE };
        if !on(options, quiet) {
            let kind = match message.kind {
                Kind::Put => EventKind::Put,
                Kind::Get => EventKind::Get,
                Kind::Atomic => EventKind::Atomic,
                Kind::Fetch => EventKind::FetchAtomic,
            };
            self.header_event(to, kind, list, &header, user_ptr);
        }
        if on(options, me::EVENT_CT_COMM) {
            self.count(to, ct, fail, if on(options, me::EVENT_CT_BYTES) { mlength } else { 1 });
        }
        let entry = self.side(to).entry(id);
        if entry.has(me::USE_ONCE) || entry.full() {
            self.retire(to, id, true);
        }
        let destination = match message.kind {
            Kind::Get => Some(message.local.address),
            Kind::Fetch => Some(message.fetched.address),
            Kind::Put | Kind::Atomic => None,
        };
        if let Some(address) = destination {
            self.side(message.from).memory[address as usize..][..old.len()].copy_from_slice(&old);
        }
        if destination.is_some() || !on(options, me::ACK_DISABLE) {
            self.answer(message, if fail == FailType::Ok { Ok((list, mlength, offset)) } else { Err(fail) });
        }
    }

    /// ACK or REPLY.
    fn answer(&mut self, message: Message, result: Result<(List, u64, u64), FailType>) {
        let (kind, counted, local) = match message.kind {
            Kind::Put | Kind::Atomic => (EventKind::Ack, md::EVENT_CT_ACK, message.local),
            Kind::Get => (EventKind::Reply, md::EVENT_CT_REPLY, message.local),
            Kind::Fetch => (EventKind::Reply, md::EVENT_CT_REPLY, message.fetched),
        };
        if kind == EventKind::Ack && message.ack == AckRequest::None {
            return;
        }
        let fail = result.err().unwrap_or(FailType::Ok);
        let (list, mlength, remote_offset) = result.unwrap_or((List::Priority, 0, message.target.offset));
        let quiet = fail == FailType::Ok && on(local.options, md::EVENT_SUCCESS_DISABLE);
        if !quiet && (kind == EventKind::Reply || message.ack == AckRequest::Full) {
            let event = Event { fail, list, mlength, remote_offset, rlength: message.length, user_ptr: local.user_ptr, ..blank(kind) };
            self.event(message.from, event);
        }
        if on(local.options, counted) {
            self.count(message.from, local.ct, fail, if on(local.options, md::EVENT_CT_BYTES) { mlength } else { 1 });
        }
    }

    /// What `process` holds comes again. True when several messages did and not all of them are puts: what the others
    /// read depends on time then, for data are not ordered between operations (BXI: `max_war_ordered_size` is 0).
    pub fn retry(&mut self, process: u32) -> bool {
        let (mut others, mut landed) = (0, 0);
        let Some(table) = &mut self.side(process).table else { return false };
        let held = std::mem::take(&mut table.held);
        let (mut blocked, mut again) = (Vec::new(), Vec::new());
        for (message, data) in held {
            if blocked.contains(&message.from) || !self.arrive(process, message, &data) {
                blocked.push(message.from);
                again.push((message, data));
            } else {
                landed += 1;
                others += usize::from(message.kind != Kind::Put);
            }
        }
        if let Some(table) = &mut self.side(process).table {
            table.held = again;
        }
        others > 0 && landed > 1
    }
}

impl Combine {
    /// Section 3.15.4, on integers: other types have tests of their own in `narrows_portals`.
    fn apply(self, target: &mut [u8], data: &[u8]) {
        let size = self.datatype.size() as usize;
        for (target, data) in target.chunks_mut(size).zip(data.chunks(size)) {
            let number = |bytes: &[u8]| {
                let mut own = [0; 8];
                own[..size].copy_from_slice(bytes);
                u64::from_le_bytes(own)
            };
            let new = self.item(number(target), number(data));
            target.copy_from_slice(&new.to_le_bytes()[..size]);
        }
    }

    /// As a number that has an order.
    fn value(self, bits: u64) -> i128 {
        let width = 8 * self.datatype.size();
        let bits = if width == 64 { bits } else { bits & ((1 << width) - 1) };
        let signed = matches!(self.datatype, Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64);
        if signed && bits >> (width - 1) == 1 { i128::from(bits) - (1 << width) } else { i128::from(bits) }
    }

    fn item(self, old: u64, new: u64) -> u64 {
        use AtomicOperation::*;
        let (before, given, operand) = (self.value(old), self.value(new), self.value(self.operand));
        let when = |condition: bool| if condition { new } else { old };
        match self.operation {
            Min => when(given < before),
            Max => when(given > before),
            Sum => old.wrapping_add(new),
            Product => old.wrapping_mul(new),
            LogicalOr => u64::from(old != 0 || new != 0),
            LogicalAnd => u64::from(old != 0 && new != 0),
            BitOr => old | new,
            BitAnd => old & new,
            LogicalXor => u64::from((old != 0) != (new != 0)),
            BitXor => old ^ new,
            Swap => new,
            CompareSwap => when(operand == before),
            CompareSwapNotEqual => when(operand != before),
            CompareSwapLessOrEqual => when(operand <= before),
            CompareSwapLess => when(operand < before),
            CompareSwapGreaterOrEqual => when(operand >= before),
            CompareSwapGreater => when(operand > before),
            MaskedSwap => (new & self.operand) | (old & !self.operand),
        }
    }
}
