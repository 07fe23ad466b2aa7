//! The NICs against a slow, obvious reference written from the specification: random appends,
//! unlinks, searches, puts and gets of several processes, one after the other. All notices, the
//! memory, the status registers and what is held must agree.

mod common;

use common::*;
use narrows_nic::{NicConfig, Process, Status};
use narrows_portals::*;
use proptest::prelude::*;

const PROCESSES: u32 = 3;
/// Bytes of memory of a process that operations touch.
const TOUCHED: usize = 8192;
const HEADERS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Append {
        process: u32,
        list: List,
        me: MatchEntry,
    },
    /// Of the n-th append so far.
    Unlink {
        which: usize,
    },
    Search {
        process: u32,
        operation: SearchOperation,
        me: MatchEntry,
    },
    Put {
        from: u32,
        to: u32,
        bits: u64,
        offset: u64,
        length: u64,
        ack: AckRequest,
        options: u32,
    },
    Get {
        from: u32,
        of: u32,
        bits: u64,
        offset: u64,
        length: u64,
        options: u32,
    },
    Enable {
        process: u32,
    },
    Disable {
        process: u32,
    },
    Set {
        process: u32,
        success: u64,
    },
}

// ---- The reference ---------------------------------------------------------------------------

#[derive(Clone, Debug)]
struct Entry {
    id: usize,
    list: List,
    me: MatchEntry,
    used: u64,
    linked: bool,
    headers: usize,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    put: bool,
    from: u32,
    to: u32,
    bits: u64,
    offset: u64,
    length: u64,
    ack: AckRequest,
    options: u32,
    hdr_data: u64,
}

#[derive(Clone, Debug)]
struct Header {
    message: Message,
    entry: usize,
    start: u64,
    mlength: u64,
    offset: u64,
}

#[derive(Default)]
struct Side {
    entries: Vec<Entry>,
    headers: Vec<Header>,
    held: Vec<(Message, Vec<u8>)>,
    enabled: bool,
    count: (u64, u64),
    commands: u32,
    status: Status,
    notices: Vec<Notice>,
    memory: Vec<u8>,
}

struct Reference {
    pt_options: u32,
    places: Vec<ProcessId>,
    sides: Vec<Side>,
}

fn blank(kind: EventKind) -> Event {
    Event::blank(kind)
}

fn on(options: u32, option: u32) -> bool {
    options & option != 0
}

impl Reference {
    fn new(pt_options: u32, places: &[ProcessId]) -> Reference {
        let side = || Side { enabled: true, memory: vec![0; TOUCHED], ..Side::default() };
        Reference { pt_options, places: places.to_vec(), sides: places.iter().map(|_| side()).collect() }
    }

    fn event(&mut self, process: u32, event: Event) {
        self.sides[process as usize].notices.push(Notice::Event { eq: EQ, event });
    }

    fn count(&mut self, process: u32, ct: CtId, fail: FailType, amount: u64) {
        if ct == NO_CT {
            return;
        }
        let side = &mut self.sides[process as usize];
        if fail == FailType::Ok {
            side.count.0 += amount
        } else {
            side.count.1 += 1
        }
        side.notices.push(Notice::Count { ct, success: side.count.0, failure: side.count.1, commands: side.commands });
    }

    fn entry(&mut self, process: u32, id: usize) -> &mut Entry {
        self.sides[process as usize].entries.iter_mut().find(|entry| entry.id == id).expect("the entry exists while something points to it")
    }

    fn full(&self, entry: &Entry) -> bool {
        on(entry.me.options, me::MANAGE_LOCAL) && entry.me.min_free > 0 && entry.me.length.saturating_sub(entry.used) < entry.me.min_free
    }

    /// AUTO_UNLINK was posted before, or is now; AUTO_FREE when no header is left.
    fn retire(&mut self, process: u32, id: usize, unlinks: bool) {
        let entry = self.entry(process, id).clone();
        if entry.linked && !unlinks {
            return;
        }
        let silent = on(entry.me.options, me::EVENT_UNLINK_DISABLE);
        let event = |kind| Event { pt: PT, user_ptr: entry.me.user_ptr, list: entry.list, ..blank(kind) };
        if unlinks && !silent {
            self.event(process, event(EventKind::AutoUnlink));
        }
        self.entry(process, id).linked = false;
        if entry.headers == 0 {
            if entry.list == List::Overflow && !silent {
                self.event(process, event(EventKind::AutoFree));
            }
            self.sides[process as usize].entries.retain(|other| other.id != id);
        }
    }

    fn header_event(&mut self, process: u32, kind: EventKind, header: &Header, user_ptr: u64) {
        let message = header.message;
        self.event(
            process,
            Event {
                kind,
                list: List::Overflow,
                pt: PT,
                initiator: self.places[message.from as usize],
                start: header.start,
                user_ptr,
                hdr_data: message.hdr_data,
                match_bits: message.bits,
                rlength: message.length,
                mlength: header.mlength,
                remote_offset: header.offset,
                ..blank(kind)
            },
        );
    }

    /// Takes header `index` for an append or search.
    fn consume(&mut self, process: u32, index: usize, me: &MatchEntry, auto_unlink: bool) -> u64 {
        let header = self.sides[process as usize].headers.remove(index);
        let kind = if header.message.put { EventKind::PutOverflow } else { EventKind::GetOverflow };
        if !on(me.options, me::EVENT_OVER_DISABLE | me::EVENT_SUCCESS_DISABLE) {
            self.header_event(process, kind, &header, me.user_ptr);
        }
        if on(me.options, me::EVENT_CT_OVERFLOW) {
            let amount = if on(me.options, me::EVENT_CT_BYTES) { header.mlength } else { 1 };
            self.count(process, me.ct, FailType::Ok, amount);
        }
        if auto_unlink && !on(me.options, me::EVENT_UNLINK_DISABLE) {
            self.event(process, Event { pt: PT, user_ptr: me.user_ptr, ..blank(EventKind::AutoUnlink) });
        }
        self.entry(process, header.entry).headers -= 1;
        self.retire(process, header.entry, false);
        header.message.length
    }

    fn first_header(&self, process: u32, me: &MatchEntry, used: u64) -> Option<usize> {
        self.sides[process as usize].headers.iter().position(|header| {
            let offset = if on(me.options, me::MANAGE_LOCAL) { used } else { header.message.offset };
            me.matches(self.places[header.message.from as usize], header.message.bits)
                && (!on(me.options, me::NO_TRUNCATE) || header.message.length <= me.length.saturating_sub(offset))
        })
    }

    fn append(&mut self, process: u32, id: usize, list: List, me: MatchEntry) {
        let mut entry = Entry { id, list, me, used: 0, linked: true, headers: 0 };
        while list == List::Priority
            && let Some(index) = self.first_header(process, &me, entry.used)
        {
            let once = on(me.options, me::USE_ONCE);
            let rlength = self.consume(process, index, &me, once);
            if once {
                return;
            }
            if on(me.options, me::LOCAL_INC_UH_RLENGTH) && on(me.options, me::MANAGE_LOCAL) {
                entry.used += rlength;
                if self.full(&entry) {
                    if !on(me.options, me::EVENT_UNLINK_DISABLE) {
                        self.event(process, Event { pt: PT, user_ptr: me.user_ptr, list, ..blank(EventKind::AutoUnlink) });
                    }
                    return;
                }
            }
        }
        self.sides[process as usize].entries.push(entry);
        if !on(me.options, me::EVENT_LINK_DISABLE) {
            self.event(process, Event { pt: PT, user_ptr: me.user_ptr, list, ..blank(EventKind::Link) });
        }
    }

    fn search(&mut self, process: u32, operation: SearchOperation, me: MatchEntry) {
        let mut hit = false;
        while let Some(index) = self.first_header(process, &me, 0) {
            hit = true;
            if operation == SearchOperation::Only {
                // All that match, or the first.
                let matching = |header: &&Header| {
                    let room = me.length.saturating_sub(if on(me.options, me::MANAGE_LOCAL) { 0 } else { header.message.offset });
                    me.matches(self.places[header.message.from as usize], header.message.bits)
                        && (!on(me.options, me::NO_TRUNCATE) || header.message.length <= room)
                };
                let once = on(me.options, me::USE_ONCE);
                let most = if once { 1 } else { usize::MAX };
                let found: Vec<Header> =
                    self.sides[process as usize].headers[index..].iter().filter(matching).take(most).cloned().collect();
                for header in found {
                    self.header_event(process, EventKind::Search, &header, me.user_ptr);
                    if on(me.options, me::EVENT_CT_OVERFLOW) {
                        let amount = if on(me.options, me::EVENT_CT_BYTES) { header.mlength } else { 1 };
                        self.count(process, me.ct, FailType::Ok, amount);
                    }
                }
                if once {
                    return;
                }
                break;
            }
            self.consume(process, index, &me, false);
            if on(me.options, me::USE_ONCE) {
                return;
            }
        }
        if !hit {
            let missed =
                Event { pt: PT, user_ptr: me.user_ptr, fail: FailType::NoMatch, match_bits: me.match_bits, ..blank(EventKind::Search) };
            self.event(process, missed);
        }
        if on(me.options, me::EVENT_CT_OVERFLOW) {
            self.count(process, me.ct, FailType::NoMatch, 1);
        }
    }

    fn unlink(&mut self, process: u32, id: usize) -> ReplyCode {
        let entries = &mut self.sides[process as usize].entries;
        match entries.iter().position(|entry| entry.id == id) {
            None => ReplyCode::Unknown,
            Some(index) if entries[index].headers > 0 => ReplyCode::InUse,
            Some(index) => {
                entries.remove(index);
                ReplyCode::Ok
            }
        }
    }

    fn send(&mut self, message: Message) {
        let data = self.sides[message.from as usize].memory[..message.length as usize].to_vec();
        if message.put && !on(message.options, md::EVENT_SEND_DISABLE | md::EVENT_SUCCESS_DISABLE) {
            let send = Event { user_ptr: 0xabc, rlength: message.length, mlength: message.length, ..blank(EventKind::Send) };
            self.event(message.from, send);
        }
        if message.put && on(message.options, md::EVENT_CT_SEND) {
            let amount = if on(message.options, md::EVENT_CT_BYTES) { message.length } else { 1 };
            self.count(message.from, CT, FailType::Ok, amount);
        }
        let held = self.sides[message.to as usize].held.iter().any(|(held, _)| held.from == message.from);
        let behind = self.sides[message.to as usize].enabled && held;
        if behind || !self.arrive(message, &data) {
            self.sides[message.to as usize].held.push((message, data));
        }
    }

    /// False: it must be held.
    fn arrive(&mut self, message: Message, data: &[u8]) -> bool {
        let from = self.places[message.from as usize];
        let side = &mut self.sides[message.to as usize];
        if !side.enabled {
            self.answer(message, Err(FailType::PtDisabled));
            return true;
        }
        let fits = |entry: &Entry| {
            let offset = if on(entry.me.options, me::MANAGE_LOCAL) { entry.used } else { message.offset };
            !on(entry.me.options, me::NO_TRUNCATE) || message.length <= entry.me.length.saturating_sub(offset)
        };
        let found = [List::Priority, List::Overflow]
            .iter()
            .find_map(|&list| side.entries.iter().position(|e| e.linked && e.list == list && e.me.matches(from, message.bits) && fits(e)));
        let allowed = if message.put { me::OP_PUT } else { me::OP_GET };
        if let Some(index) = found
            && !on(side.entries[index].me.options, allowed)
        {
            side.status.operation_violations += 1;
            self.answer(message, Err(FailType::OpViolation));
            return true;
        }
        let leaves = |entry: &Entry| entry.list == List::Overflow && !on(entry.me.options, me::UNEXPECTED_HDR_DISABLE);
        let found = match found {
            Some(index) if leaves(&side.entries[index]) && side.headers.len() >= HEADERS => Err(Some(index)),
            Some(index) => Ok(index),
            None => Err(None),
        };
        let index = match found {
            Ok(index) => index,
            Err(_) if on(self.pt_options, pt::RETRY) => return false,
            Err(index) if on(self.pt_options, pt::FLOWCTRL) => {
                side.enabled = false;
                let silent = index.is_some_and(|index| on(side.entries[index].me.options, me::EVENT_FLOWCTRL_DISABLE));
                if !silent {
                    self.event(message.to, Event { pt: PT, fail: FailType::PtDisabled, ..blank(EventKind::PtDisabled) });
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
        self.land(message, data, index);
        true
    }

    fn land(&mut self, message: Message, data: &[u8], index: usize) {
        let side = &mut self.sides[message.to as usize];
        let entry = &mut side.entries[index];
        let options = entry.me.options;
        let offset = if on(options, me::MANAGE_LOCAL) { entry.used } else { message.offset };
        let mlength = message.length.min(entry.me.length.saturating_sub(offset));
        let start = entry.me.start + offset.min(entry.me.length);
        if on(options, me::MANAGE_LOCAL) {
            entry.used += mlength;
        }
        let (id, list, ct, user_ptr) = (entry.id, entry.list, entry.me.ct, entry.me.user_ptr);
        let header = Header { message, entry: id, start, mlength, offset };
        if list == List::Overflow && !on(options, me::UNEXPECTED_HDR_DISABLE) {
            entry.headers += 1;
            side.headers.push(header.clone());
        }
        let (at, length) = (start as usize, mlength as usize);
        let fetched = side.memory[at..at + length].to_vec();
        if message.put {
            side.memory[at..at + length].copy_from_slice(&data[..length]);
        }
        if !on(options, me::EVENT_COMM_DISABLE | me::EVENT_SUCCESS_DISABLE) {
            let kind = if message.put { EventKind::Put } else { EventKind::Get };
            self.header_event(message.to, kind, &header, user_ptr);
            if let Some(Notice::Event { event, .. }) = self.sides[message.to as usize].notices.last_mut() {
                event.list = list;
            }
        }
        if on(options, me::EVENT_CT_COMM) {
            self.count(message.to, ct, FailType::Ok, if on(options, me::EVENT_CT_BYTES) { mlength } else { 1 });
        }
        let entry = self.entry(message.to, id).clone();
        if on(options, me::USE_ONCE) || self.full(&entry) {
            self.retire(message.to, id, true);
        }
        if !message.put {
            self.sides[message.from as usize].memory[..length].copy_from_slice(&fetched);
        }
        if !(message.put && on(options, me::ACK_DISABLE)) {
            self.answer(message, Ok((list, mlength, offset)));
        }
    }

    /// ACK or REPLY.
    fn answer(&mut self, message: Message, result: Result<(List, u64, u64), FailType>) {
        if message.put && message.ack == AckRequest::None {
            return;
        }
        let (kind, counted) = if message.put { (EventKind::Ack, md::EVENT_CT_ACK) } else { (EventKind::Reply, md::EVENT_CT_REPLY) };
        let fail = result.err().unwrap_or(FailType::Ok);
        let (list, mlength, offset) = result.unwrap_or((List::Priority, 0, message.offset));
        let quiet = fail == FailType::Ok && on(message.options, md::EVENT_SUCCESS_DISABLE);
        if !quiet && (!message.put || message.ack == AckRequest::Full) {
            let event = Event { fail, list, mlength, remote_offset: offset, rlength: message.length, user_ptr: 0xabc, ..blank(kind) };
            self.event(message.from, event);
        }
        if on(message.options, counted) {
            self.count(message.from, CT, fail, if on(message.options, md::EVENT_CT_BYTES) { mlength } else { 1 });
        }
    }

    /// True when a get and something else were repeated at once: what the get reads depends on
    /// time then, for data are not ordered between operations (BXI: `max_war_ordered_size` is 0).
    fn retry(&mut self, process: u32) -> bool {
        let (mut gets, mut landed) = (0, 0);
        let held = std::mem::take(&mut self.sides[process as usize].held);
        let mut blocked = Vec::new();
        for (message, data) in held {
            if blocked.contains(&message.from) || !self.arrive(message, &data) {
                blocked.push(message.from);
                self.sides[process as usize].held.push((message, data));
            } else {
                landed += 1;
                gets += usize::from(!message.put);
            }
        }
        gets > 0 && landed > 1
    }

    fn refuse_held(&mut self, process: u32) {
        for (message, _) in std::mem::take(&mut self.sides[process as usize].held) {
            self.answer(message, Err(FailType::PtDisabled));
        }
    }
}

// ---- Random programs -------------------------------------------------------------------------

fn matching_entry() -> impl Strategy<Value = MatchEntry> {
    let options = prop::collection::vec(
        prop::sample::select(vec![
            me::USE_ONCE,
            me::USE_ONCE,
            me::ACK_DISABLE,
            me::UNEXPECTED_HDR_DISABLE,
            me::EVENT_COMM_DISABLE,
            me::EVENT_FLOWCTRL_DISABLE,
            me::EVENT_SUCCESS_DISABLE,
            me::EVENT_OVER_DISABLE,
            me::EVENT_LINK_DISABLE,
            me::EVENT_UNLINK_DISABLE,
            me::EVENT_CT_COMM,
            me::EVENT_CT_OVERFLOW,
            me::EVENT_CT_BYTES,
            me::MANAGE_LOCAL,
            me::MANAGE_LOCAL,
            me::NO_TRUNCATE,
            me::LOCAL_INC_UH_RLENGTH,
        ]),
        0..4,
    );
    (
        0u64..8,
        prop::sample::select(vec![0u64, 16, 64, 200, 1000]),
        options,
        prop::sample::select(vec![me::OP_PUT, me::OP_GET, me::OP_PUT | me::OP_GET, me::OP_PUT | me::OP_GET, me::OP_PUT | me::OP_GET]),
        (0u32..3, 0u32..3),
        (0u64..4, prop::sample::select(vec![0u64, 0, 1, 3, u64::MAX])),
        prop::sample::select(vec![0u64, 0, 10, 100]),
        any::<bool>(),
    )
        .prop_map(|(place, length, options, operations, (nid, pid), (match_bits, ignore_bits), min_free, counts)| MatchEntry {
            start: 2048 + place * 512,
            length,
            segments: 0,
            uid: UID_ANY,
            ct: if counts { CT } else { NO_CT },
            options: options.iter().fold(operations, |all, option| all | option),
            match_id: ProcessId { nid, pid },
            match_bits,
            ignore_bits,
            min_free,
            user_ptr: 0,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0..PROCESSES;
    let length = || prop::sample::select(vec![0u64, 1, 8, 30, 100, 500]);
    let offset = || prop::sample::select(vec![0u64, 0, 0, 10, 5000]);
    let list = || prop::sample::select(vec![List::Priority, List::Overflow]);
    let operation = prop::sample::select(vec![SearchOperation::Only, SearchOperation::Delete]);
    let ack = prop::sample::select(vec![AckRequest::None, AckRequest::Full, AckRequest::Counting, AckRequest::OperationCompleted]);
    let md_options = || prop::bits::u32::masked(0b111_1110);
    prop_oneof![
        6 => (process(), list(), matching_entry()).prop_map(|(process, list, me)| Step::Append { process, list, me }),
        2 => any::<usize>().prop_map(|which| Step::Unlink { which }),
        2 => (process(), operation, matching_entry()).prop_map(|(process, operation, me)| Step::Search { process, operation, me }),
        8 => (process(), process(), 0u64..4, offset(), length(), ack, md_options())
            .prop_map(|(from, to, bits, offset, length, ack, options)| Step::Put { from, to, bits, offset, length, ack, options }),
        4 => (process(), process(), 0u64..4, offset(), length(), md_options())
            .prop_map(|(from, of, bits, offset, length, options)| Step::Get { from, of, bits, offset, length, options }),
        2 => process().prop_map(|process| Step::Enable { process }),
        1 => process().prop_map(|process| Step::Disable { process }),
        1 => (process(), 0u64..9).prop_map(|(process, success)| Step::Set { process, success }),
    ]
}

/// An order of notices that does not depend on when they came.
fn sorted(mut notices: Vec<Notice>) -> Vec<String> {
    // Intermediate values of a count depend on the order in which operations end.
    let last = notices.iter().rev().find(|notice| matches!(notice, Notice::Count { .. })).copied();
    let counts = notices.len();
    notices.retain(|notice| !matches!(notice, Notice::Count { .. }));
    let mut text: Vec<String> = notices.iter().map(|notice| format!("{notice:?}")).collect();
    text.sort_unstable();
    text.push(format!("{} counts, last {last:?}", counts - notices.len()));
    text
}

fn check(pt_options: u32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let config = NicConfig { max_unexpected_headers: HEADERS as u32, ..config() };
    // Two processes on node 1, one on node 2: nids and pids of entries are drawn from 0..3.
    let mut sim = Sim::ready(config, 2, 2, pt_options);
    let mut reference = Reference::new(pt_options, &sim.places);
    let mut appended: Vec<(u32, EntryId)> = Vec::new();
    for process in 0..PROCESSES {
        sim.take(process);
    }
    for (number, step) in steps.into_iter().enumerate() {
        let said = format!("step {number}: {step:?}");
        // Each step sends other bytes.
        for process in 0..PROCESSES {
            sim.fill(process, 0, 500, number as u64);
            let bytes = &sim.world.memory[process as usize][..500];
            reference.sides[process as usize].memory[..500].copy_from_slice(bytes);
        }
        let mut retry = None;
        match step {
            Step::Append { process, list, mut me } => {
                me.user_ptr = number as u64;
                let id = sim.append_to(process, list, me);
                reference.append(process, appended.len(), list, me);
                appended.push((process, id));
                retry = Some(process);
            }
            Step::Unlink { which } if !appended.is_empty() => {
                let which = which % appended.len();
                let (process, id) = appended[which];
                let code = sim.unlink(process, id);
                prop_assert_eq!(code, reference.unlink(process, which), "{}", said);
                sim.world.seen.retain(|(_, _, notice)| !matches!(notice, Notice::Reply { .. }));
            }
            Step::Unlink { .. } => {}
            Step::Search { process, operation, mut me } => {
                me.user_ptr = number as u64;
                sim.search(process, operation, me);
                reference.search(process, operation, me);
                if on(me.options, me::EVENT_CT_OVERFLOW) && me.ct != NO_CT {
                    reference.sides[process as usize].commands += 1;
                    reference.count(process, me.ct, FailType::Ok, 0);
                }
                retry = Some(process);
            }
            Step::Put { from, to, bits, offset, length, ack, options } => {
                let target = RemoteTarget { offset, ..sim.target(to, bits) };
                let local = LocalBuffer { options, ct: CT, ..local(0) };
                sim.command(from, Command::Put { local, length, inline: None, ack, target, hdr_data: number as u64 });
                let hdr_data = number as u64;
                reference.send(Message { put: true, from, to, bits, offset, length, ack, options, hdr_data });
            }
            Step::Get { from, of, bits, offset, length, options } => {
                let target = RemoteTarget { offset, ..sim.target(of, bits) };
                sim.command(from, Command::Get { local: LocalBuffer { options, ct: CT, ..local(0) }, length, target });
                let ack = AckRequest::None;
                reference.send(Message { put: false, from, to: of, bits, offset, length, ack, options, hdr_data: 0 });
            }
            Step::Enable { process } => {
                sim.command(process, Command::PtEnable { pt: PT });
                reference.sides[process as usize].enabled = true;
                retry = Some(process);
            }
            Step::Disable { process } => {
                sim.command(process, Command::PtDisable { pt: PT, ticket: NO_TICKET });
                reference.sides[process as usize].enabled = false;
                reference.refuse_held(process);
            }
            Step::Set { process, success } => {
                sim.command(process, Command::CtSet { ct: CT, success, failure: 0 });
                let side = &mut reference.sides[process as usize];
                side.count = (success, 0);
                side.commands += 1;
                side.notices.push(Notice::Count { ct: CT, success, failure: 0, commands: side.commands });
            }
        }
        sim.run();
        if retry.is_some_and(|process| reference.retry(process)) {
            for process in 0..PROCESSES as usize {
                reference.sides[process].memory.copy_from_slice(&sim.world.memory[process][..TOUCHED]);
            }
        }
        for process in 0..PROCESSES {
            let (seen, expected) = (sim.take(process), std::mem::take(&mut reference.sides[process as usize].notices));
            if on(pt_options, pt::RETRY) {
                prop_assert_eq!(sorted(seen), sorted(expected), "process {} after {}", process, said); // several end at once
            } else {
                prop_assert_eq!(seen, expected, "process {} after {}", process, said);
            }
            let side = &reference.sides[process as usize];
            prop_assert!(sim.world.memory[process as usize][..TOUCHED] == side.memory[..], "memory of {} after {}", process, said);
            prop_assert_eq!(sim.nics.status(Process(process)), side.status, "status of {} after {}", process, said);
            prop_assert_eq!(sim.nics.held_by(Process(process)), side.held.len() as u64, "held by {} after {}", process, said);
        }
        prop_assert_eq!(sim.nics.in_flight(), 0, "after {}", said);
    }
    Ok(())
}

proptest! {
    #[test]
    fn plain_table_entries_do_what_the_specification_says(steps in prop::collection::vec(step(), 1..60)) {
        check(0, steps)?;
    }

    #[test]
    fn flow_controlled_table_entries_do_what_the_specification_says(steps in prop::collection::vec(step(), 1..60)) {
        check(pt::FLOWCTRL, steps)?;
    }

    #[test]
    fn retrying_table_entries_lose_nothing_and_keep_order(steps in prop::collection::vec(step(), 1..60)) {
        check(pt::RETRY, steps)?;
    }
}
