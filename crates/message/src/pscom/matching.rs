//! Matching in software: the receives that wait for messages, and the messages that wait for receives, of one queue.

use narrows_engine::Slab;
use narrows_matching::MatchList;
use narrows_portals::{EntryId, Event, EventKind, FailType, MatchEntry, ProcessId, ReplyCode, SearchOperation, me};
use std::collections::{BTreeMap, VecDeque};

/// A receive.
#[derive(Clone, Copy, Debug)]
struct Posted {
    entry: EntryId,
    me: MatchEntry,
    order: u64,
    /// How far a buffer for many messages is used.
    offset: u64,
    /// Messages that are coming into it.
    landing: u32,
    /// No more of them.
    unlinked: bool,
}

/// A message as its receive is told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) source: ProcessId,
    pub(super) bits: u64,
    pub(super) hdr_data: u64,
    /// Bytes that come with it: none of an announced one.
    pub(super) length: u64,
    /// Bytes of an announced one.
    pub(super) remote_offset: u64,
}

impl Message {
    fn event(&self, kind: EventKind, user_ptr: u64, start: u64, mlength: u64) -> Event {
        Event {
            initiator: self.source,
            match_bits: self.bits,
            hdr_data: self.hdr_data,
            rlength: self.length,
            remote_offset: self.remote_offset,
            user_ptr,
            start,
            mlength,
            ..Event::blank(kind)
        }
    }
}

/// A message that nobody had asked for when it came.
#[derive(Clone, Copy, Debug)]
struct Unexpected {
    message: Message,
    address: u64,
    complete: bool,
    /// Whoever gets it, when it is complete.
    taken: Option<u64>,
}

/// Where the bytes of a message go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landing {
    /// To a receive: its slot, the address, and the room there.
    Receive { slot: u32, start: u64, room: u64 },
    /// To memory of ours: its number among the unexpected.
    Unexpected { number: u64, address: u64 },
}

/// One queue.
#[derive(Debug, Default)]
pub(super) struct Matching {
    list: MatchList,
    posted: Slab<Posted>,
    slots: BTreeMap<EntryId, u32>,
    unexpected: VecDeque<(u64, Unexpected)>,
    next_number: u64,
    /// Searches that wait for a message.
    searches: Vec<(SearchOperation, MatchEntry)>,
}

impl Matching {
    /// A receive: takes messages that wait, and waits for others.
    pub(super) fn post(&mut self, entry: EntryId, me: MatchEntry, events: &mut VecDeque<Event>) {
        while let Some(place) = self.find_unexpected(&me) {
            self.take(place, me.user_ptr, events);
            if me.options & me::USE_ONCE != 0 {
                return;
            }
        }
        let slot = self.posted.insert(Posted { entry, me, order: 0, offset: 0, landing: 0, unlinked: false });
        self.posted.at_mut(slot).order = self.list.push(slot, &me);
        self.slots.insert(entry, slot);
    }

    /// A receive is taken back: whether it was still there, and free.
    pub(super) fn unlink(&mut self, entry: EntryId) -> ReplyCode {
        let Some(&slot) = self.slots.get(&entry) else { return ReplyCode::Unknown };
        match self.posted.at(slot) {
            Posted { unlinked: true, .. } => ReplyCode::Unknown,
            Posted { landing: 1.., .. } => ReplyCode::InUse,
            Posted { .. } => {
                self.retire(slot);
                self.remove(slot);
                ReplyCode::Ok
            }
        }
    }

    /// Nothing matches it any more.
    fn retire(&mut self, slot: u32) {
        let posted = self.posted.at_mut(slot);
        if !std::mem::replace(&mut posted.unlinked, true) {
            self.list.remove(posted.order);
        }
    }

    fn remove(&mut self, slot: u32) {
        if let Some(posted) = self.posted.remove(slot) {
            self.slots.remove(&posted.entry);
        }
    }

    fn find_unexpected(&self, me: &MatchEntry) -> Option<usize> {
        self.unexpected.iter().position(|(_, waits)| waits.taken.is_none() && me.matches(waits.message.source, waits.message.bits))
    }

    /// The message is that one's who is told under `user_ptr`.
    fn take(&mut self, place: usize, user_ptr: u64, events: &mut VecDeque<Event>) {
        let (_, waits) = &mut self.unexpected[place];
        if !waits.complete {
            waits.taken = Some(user_ptr);
            return;
        }
        events.push_back(waits.message.event(EventKind::PutOverflow, user_ptr, waits.address, waits.message.length));
        self.unexpected.remove(place);
    }

    /// Looks for a message; `waits`: also for one that is still to come.
    pub(super) fn search(&mut self, operation: SearchOperation, me: MatchEntry, waits: bool, events: &mut VecDeque<Event>) {
        match (self.find_unexpected(&me), operation) {
            (Some(place), SearchOperation::Delete) => self.take(place, me.user_ptr, events),
            (Some(place), SearchOperation::Only) => {
                let (_, found) = &self.unexpected[place];
                events.push_back(found.message.event(EventKind::Search, me.user_ptr, found.address, found.message.length));
            }
            (None, _) if waits => self.searches.push((operation, me)),
            (None, _) => {
                let nothing = Event { fail: FailType::NoMatch, user_ptr: me.user_ptr, ..Event::blank(EventKind::Search) };
                events.push_back(nothing);
            }
        }
    }

    /// A message begins. `room`: memory for one that nobody has asked for.
    pub(super) fn begin(&mut self, message: Message, room: impl FnOnce(u64) -> u64, events: &mut VecDeque<Event>) -> Landing {
        if let (Some(slot), _) = self.list.find(message.source, message.bits, |_| true) {
            let posted = self.posted.at_mut(slot);
            let me = posted.me;
            let start = me.start + posted.offset;
            let room = message.length.min(me.length - posted.offset);
            posted.landing += 1;
            let managed = me.options & me::MANAGE_LOCAL != 0;
            if managed {
                posted.offset += room;
            }
            if me.options & me::USE_ONCE != 0 || (managed && me.min_free > 0 && me.length - posted.offset < me.min_free) {
                self.retire(slot);
            }
            return Landing::Receive { slot, start, room };
        }
        let address = if message.length > 0 { room(message.length) } else { 0 };
        let mut waits = Unexpected { message, address, complete: false, taken: None };
        let mut index = 0;
        while let Some(&(operation, me)) = self.searches.get(index) {
            if waits.taken.is_some() || !me.matches(message.source, message.bits) {
                index += 1;
                continue;
            }
            self.searches.remove(index);
            match operation {
                SearchOperation::Only => events.push_back(message.event(EventKind::Search, me.user_ptr, address, message.length)),
                SearchOperation::Delete => waits.taken = Some(me.user_ptr),
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        self.unexpected.push_back((number, waits));
        Landing::Unexpected { number, address }
    }

    /// All of a message is here.
    pub(super) fn end(&mut self, message: &Message, landing: Landing, events: &mut VecDeque<Event>) {
        match landing {
            Landing::Receive { slot, start, room } => {
                let posted = self.posted.at_mut(slot);
                posted.landing -= 1;
                events.push_back(message.event(EventKind::Put, posted.me.user_ptr, start, room));
                if posted.unlinked && posted.landing == 0 {
                    self.remove(slot);
                }
            }
            Landing::Unexpected { number, .. } => {
                let Ok(place) = self.unexpected.binary_search_by_key(&number, |&(number, _)| number) else { return };
                self.unexpected[place].1.complete = true;
                if let Some(user_ptr) = self.unexpected[place].1.taken {
                    self.take(place, user_ptr, events);
                }
            }
        }
    }
}
