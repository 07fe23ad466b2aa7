//! Multi-receives: one buffer for many untagged messages, in the order in which they match.
//!
//! The buffer is one persistent entry whose offset the NIC manages, so eager messages land in it
//! without any software. Two kinds of messages match it but cannot land in it: announcements, which
//! have no data yet, and messages that had come before the entry. Only software can place those, and
//! software does not know the offset that the NIC has reached. So the first such message *closes* the
//! buffer: the entry is unlinked, and a search that finds nothing (a *fence*) tells by its event that
//! all older events have been seen. Then the offset is known, the waiting messages get the next bytes,
//! in order, and the entry comes back for what is left of the buffer. While a buffer is closed, new
//! messages go to later receives or wait.
//!
//! Messages are looked at in the order in which they have matched, which the offsets and the order of the entries tell:
//! the data of a short one may come before those of a longer one ahead of it. What is told of them keeps that order for
//! each source, see `turns.rs`.
//!
//! The buffer is given back when fewer than `min_free` bytes are left and all data are in it: with
//! the completion of the last message, whose `released` is set. That needs no AUTO_UNLINK event: when
//! the bytes that have landed reach to the end without a hole and fewer than `min_free` are left, the
//! NIC must have unlinked the entry.
//!
//! A message that matched the buffer but finds fewer than `min_free` bytes left is *parked* and goes to
//! another untagged receive: the oldest one that waits, else the next one that is posted. So messages
//! up to `min_free` bytes are never truncated. The same happens to a message without bytes, and to
//! one that was unexpected, whose event comes after the buffer was given back: no full buffer knows
//! how many of those there are.

use crate::core::Core;
use crate::request::{Body, Message, Request, Room, Unlinking, cancelled, message_of, selector};
use crate::wire::{self, NOBODY, Owner};
use crate::{Completion, CompletionKind, Queue, Receive, Status, Transport};
use narrows_portals::{EntryId, Event, EventKind, FailType, List, MatchEntry, ReplyCode, SearchOperation, me};
use std::collections::VecDeque;

/// One buffer for many messages.
#[derive(Debug)]
pub(crate) struct Multi {
    pub(crate) receive: Receive,
    /// At least one: zero would mean "never unlinked" to Portals.
    min_free: u64,
    state: State,
    /// Offset at which the present entry begins.
    base: u64,
    /// Which of all entries of multi-receives that is, in the order of the list.
    appended: u64,
    /// Offset up to which all that has matched the present entry was looked at.
    seen: u64,
    /// Bytes that have landed in the present entry.
    landed: u64,
    /// Offset behind the last byte in use that we know of.
    end: u64,
    /// Messages that software must place.
    waiting: VecDeque<Message>,
    /// Messages in it that are not told of yet: their data are on their way, or it is not their turn.
    under_way: u32,
    /// A Cancelled completion is owed.
    cancel: bool,
    /// Who wants it back and waits for the NIC's answer.
    token: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The entry is in the list.
    Open(EntryId),
    /// It should leave the list, but a message is just landing in it: tried again at its event.
    Closing(EntryId),
    /// The NIC has unlinked it because it is full; events of what fills it are still to come.
    Filled,
    /// Unlinked by us; the fence is on its way.
    Fenced,
    /// No room.
    Exhausted,
}

/// A message that has matched an entry, and is looked at when those before it are here: the data of a short one may be
/// faster than those of a long one.
#[derive(Debug)]
pub(crate) struct Early {
    appended: u64,
    offset: u64,
    index: u32,
    message: Message,
    /// Address of its first byte.
    start: u64,
    status: Status,
}

/// All multi-receives.
#[derive(Debug, Default)]
pub(crate) struct Multis {
    /// Their slots.
    slots: Vec<u32>,
    early: Vec<Early>,
    /// Entries that were appended for them.
    appended: u64,
}

impl Multi {
    /// All that landed is known, and it is so much that the NIC has unlinked the entry.
    fn is_exhausted(&self) -> bool {
        self.base + self.landed == self.end && self.receive.length - self.end < self.min_free
    }
}

impl Core {
    fn multi_mut(&mut self, index: u32) -> &mut Multi {
        match self.requests.get_mut(index) {
            Some(Request::Multi(multi)) => multi,
            other => unreachable!("slot {index} holds a multi-receive, not {other:?}"),
        }
    }

    pub(crate) fn open_multi(&mut self, transport: &mut impl Transport, receive: Receive, min_free: u64) {
        if receive.length == 0 {
            self.completions.push_back(Completion { status: Status::Ok, ..cancelled(&receive, true) });
            return;
        }
        let mut waiting = VecDeque::new();
        if !self.parked.is_empty() {
            let wanted = |message: &Message| receive.source.is_none_or(|source| source == message.source);
            let (mine, others): (VecDeque<Message>, VecDeque<Message>) = self.parked.drain(..).partition(wanted);
            (waiting, self.parked) = (mine, others);
        }
        let multi = Multi {
            receive,
            min_free: min_free.clamp(1, receive.length),
            state: State::Fenced,
            base: 0,
            appended: 0,
            seen: 0,
            landed: 0,
            end: 0,
            waiting,
            under_way: 0,
            cancel: false,
            token: None,
        };
        let (index, _) = self.requests.insert(Request::Multi(Box::new(multi)));
        self.multis.slots.push(index);
        self.fence_passed(transport, index);
    }

    pub(crate) fn multi_event(&mut self, transport: &mut impl Transport, index: u32, generation: u32, event: &Event) {
        let mut message = message_of(Queue::Untagged, event);
        let Some(Request::Multi(multi)) = self.requests.tenant_mut(index, generation) else {
            // The buffer has been given back: all bytes that landed in it were known.
            debug_assert!(!matches!(message.body, Body::Landed { length: 1.. }), "{event:?}");
            self.hold(&mut message);
            self.turns.take(&mut message);
            self.park(message);
            return;
        };
        if event.kind == EventKind::PutOverflow {
            self.take_in(transport, index, message);
            return;
        }
        let length = event.mlength;
        multi.landed += length;
        multi.end = multi.end.max(event.start + length - multi.receive.buffer);
        multi.under_way += 1;
        let status = if event.fail == FailType::Ok { Status::Ok } else { Status::Failed(event.fail) };
        let (appended, offset) = (multi.appended, event.start - multi.receive.buffer);
        self.multis.early.push(Early { appended, offset, index, message, start: event.start, status });
        self.look_at_early(transport);
        if self.requests.tenant(index, generation).is_some() {
            self.go_on(transport, index);
        }
        // What others have waited for has come.
        self.look_at_early(transport);
    }

    /// Looks at the messages whose turn it is: all that had matched before them, as far as that can be known, is here.
    fn look_at_early(&mut self, transport: &mut impl Transport) {
        loop {
            let early = &self.multis.early;
            let next = (0..early.len()).filter(|&at| self.is_next(&early[at])).min_by_key(|&at| (early[at].appended, early[at].offset));
            let Some(at) = next else { return };
            let Early { index, message, start, status, appended, offset } = self.multis.early.remove(at);
            let multi = self.multi_mut(index);
            multi.under_way -= 1;
            if multi.appended == appended {
                multi.seen = multi.seen.max(offset);
            }
            match message.body {
                Body::Landed { length } => {
                    if multi.appended == appended {
                        multi.seen += length;
                    }
                    self.has_landed(index, message, start, status);
                }
                Body::Announced { .. } | Body::Unexpected { .. } => {
                    self.take_in(transport, index, message);
                }
            }
        }
    }

    /// Nothing that has matched before it is still landing: in the same entry, or in one before that in the list, which
    /// must be full.
    fn is_next(&self, early: &Early) -> bool {
        if early.status != Status::Ok {
            return true;
        }
        self.multis.slots.iter().all(|&index| {
            let Some(Request::Multi(multi)) = self.requests.tenant(index, self.requests.generation(index)) else { return true };
            if index == early.index && multi.appended == early.appended {
                return early.offset <= multi.seen;
            }
            let lands = matches!(multi.state, State::Open(_) | State::Closing(_) | State::Filled);
            let wants = multi.receive.source.is_none_or(|source| source == early.message.source);
            !(lands && wants && multi.appended < early.appended)
        })
    }

    fn has_landed(&mut self, index: u32, mut message: Message, start: u64, status: Status) {
        let Body::Landed { length } = message.body else { return };
        if self.turns.are_waiting(message.source) {
            self.turns.take(&mut message);
            self.multi_mut(index).under_way += 1;
        }
        let context = self.multi_mut(index).receive.context;
        let room = Room { queue: Queue::Untagged, context, buffer: start, length, completion: true, multi: Some(index), discard: false };
        self.complete_receive(&room, &message, length, status);
        self.settle(index);
    }

    /// Only software can place it: the buffer is closed for that.
    fn take_in(&mut self, transport: &mut impl Transport, index: u32, mut message: Message) {
        self.hold(&mut message);
        self.turns.take(&mut message);
        let multi = self.multi_mut(index);
        multi.waiting.push_back(message);
        if let State::Open(entry) = multi.state {
            multi.state = State::Closing(entry);
        }
        self.go_on(transport, index);
    }

    /// Something has come for the buffer.
    fn go_on(&mut self, transport: &mut impl Transport, index: u32) {
        let multi = self.multi_mut(index);
        match multi.state {
            State::Open(_) | State::Closing(_) | State::Filled if multi.is_exhausted() => {
                multi.state = State::Exhausted;
                self.place_waiting(transport, index);
                self.settle(index);
            }
            State::Closing(entry) => self.close_multi(transport, index, entry),
            State::Exhausted => {
                self.place_waiting(transport, index);
                self.settle(index);
            }
            State::Open(_) | State::Filled | State::Fenced => {}
        }
    }

    /// Unlinks the entry.
    fn close_multi(&mut self, transport: &mut impl Transport, index: u32, entry: EntryId) {
        let generation = self.requests.generation(index);
        self.multi_mut(index).state = State::Closing(entry);
        if !self.is_unlinking(entry) {
            self.start_unlinking(transport, entry, Unlinking::Multi(index, generation));
        }
    }

    /// The NIC has answered for the entry of a multi-receive that closes: sends the fence after it.
    /// Whether that takes the buffer back, if that was asked, and by which token.
    pub(crate) fn multi_unlinked(
        &mut self,
        transport: &mut impl Transport,
        index: u32,
        generation: u32,
        entry: EntryId,
        code: ReplyCode,
    ) -> Option<(u64, bool)> {
        let Some(Request::Multi(multi)) = self.requests.tenant_mut(index, generation) else { return None };
        let token = std::mem::take(&mut multi.token);
        if multi.state == State::Closing(entry) {
            multi.state = match code {
                ReplyCode::Ok => State::Fenced,
                // Tried again at the next event of the buffer.
                ReplyCode::InUse => State::Closing(entry),
                ReplyCode::Unknown => State::Filled,
            };
        }
        let state = multi.state;
        multi.cancel |= token.is_some() && !matches!(state, State::Filled | State::Exhausted);
        let done = multi.cancel;
        if state == State::Fenced {
            let fence = MatchEntry {
                options: me::OP_PUT | me::USE_ONCE,
                match_bits: NOBODY,
                ignore_bits: !NOBODY,
                user_ptr: Owner::Fence(index, generation).user_ptr(),
                ..MatchEntry::default()
            };
            transport.me_search(wire::PT_UNTAGGED, SearchOperation::Only, fence);
        }
        self.look_at_early(transport);
        Some((token?, done))
    }

    /// All that landed in the unlinked entry is known: places what waits, and opens the rest.
    pub(crate) fn fence_passed(&mut self, transport: &mut impl Transport, index: u32) {
        let multi = self.multi_mut(index);
        debug_assert_eq!(multi.base + multi.landed, multi.end, "no hole in what has landed");
        self.place_waiting(transport, index);
        let generation = self.requests.generation(index);
        let multi = self.multi_mut(index);
        if multi.cancel || multi.receive.length - multi.end < multi.min_free {
            multi.state = State::Exhausted;
            self.settle(index);
            return;
        }
        multi.base = multi.end;
        (multi.landed, multi.seen) = (0, multi.base);
        let me = MatchEntry {
            start: multi.receive.buffer + multi.base,
            length: multi.receive.length - multi.base,
            options: me::OP_PUT | me::MANAGE_LOCAL | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
            min_free: multi.min_free,
            user_ptr: Owner::Multi(index, generation).user_ptr(),
            ..selector(Queue::Untagged, multi.receive.source, 0, 0)
        };
        let entry = transport.me_append(self.config.rails.first(), wire::PT_UNTAGGED, List::Priority, me);
        self.multis.appended += 1;
        let appended = self.multis.appended;
        let multi = self.multi_mut(index);
        (multi.state, multi.appended) = (State::Open(entry), appended);
        self.look_at_early(transport);
    }

    /// Gives the waiting messages the next bytes of the buffer, or parks them.
    fn place_waiting(&mut self, transport: &mut impl Transport, index: u32) {
        // It is not given back meanwhile.
        self.multi_mut(index).under_way += 1;
        loop {
            let multi = self.multi_mut(index);
            let Some(message) = multi.waiting.pop_front() else {
                multi.under_way -= 1;
                return;
            };
            let left = multi.receive.length - multi.end;
            if message.full_length > left && left < multi.min_free {
                self.park(message);
                continue;
            }
            let room = Room {
                queue: Queue::Untagged,
                context: multi.receive.context,
                buffer: multi.receive.buffer + multi.end,
                length: left,
                completion: true,
                multi: Some(index),
                discard: false,
            };
            multi.end += message.full_length.min(left);
            if message.is_counted() {
                multi.under_way += 1;
            }
            self.deliver(transport, room, message, None);
        }
    }

    /// One that was under way is told of: its completion is the newest.
    pub(crate) fn multi_told(&mut self, index: u32) {
        self.multi_mut(index).under_way -= 1;
        self.settle(index);
    }

    /// Gives an exhausted buffer back if nothing is on its way to it. Called when one of its messages is among the
    /// completions.
    fn settle(&mut self, index: u32) {
        let multi = self.multi_mut(index);
        if multi.state != State::Exhausted || multi.under_way > 0 {
            return;
        }
        let (receive, cancel) = (multi.receive, multi.cancel);
        if cancel {
            self.completions.push_back(cancelled(&receive, true));
        } else {
            let is_its = |completion: &&mut Completion| (completion.kind, completion.context) == (CompletionKind::Receive, receive.context);
            let last = self.completions.iter_mut().rev().find(is_its);
            last.expect("a message has just exhausted the buffer").released = true;
        }
        self.requests.remove(index);
        self.multis.slots.retain(|&other| other != index);
    }

    /// See the head of this file.
    fn park(&mut self, message: Message) {
        self.parked.push_back(message);
        self.parked_anew = true;
    }

    /// Gives freshly parked messages to untagged receives that wait.
    pub(crate) fn rehome(&mut self, transport: &mut impl Transport) {
        self.parked_anew = false;
        for _ in 0..self.parked.len() {
            if let Some(message) = self.parked.pop_front()
                && !self.find_home(transport, message)
            {
                // Those behind it keep their buffers, and it needs another one.
                let message = self.leave_turn(message);
                self.parked.push_back(message);
            }
        }
    }

    fn find_home(&mut self, transport: &mut impl Transport, message: Message) -> bool {
        let accepts = |receive: &Receive| receive.queue == Queue::Untagged && receive.source.is_none_or(|source| source == message.source);
        let mut homes: Vec<(u64, u32)> = self
            .requests
            .iter()
            .filter(|(_, _, request)| match request {
                Request::Receive(posted) => accepts(&posted.receive),
                Request::Multi(multi) => accepts(&multi.receive) && multi.state != State::Exhausted && !multi.cancel,
                _ => false,
            })
            .map(|(index, age, _)| (age, index))
            .collect();
        homes.sort_unstable();
        for (_, index) in homes {
            match self.requests.get_mut(index) {
                Some(Request::Receive(posted)) => {
                    let entry = posted.entry;
                    // Another message, or its owner, is about to have it.
                    if !self.is_unlinking(entry) {
                        let generation = self.requests.generation(index);
                        self.start_unlinking(transport, entry, Unlinking::Home(index, generation, message));
                        return true;
                    }
                }
                Some(Request::Multi(multi)) => {
                    multi.waiting.push_back(message);
                    if let State::Open(entry) = multi.state {
                        self.close_multi(transport, index, entry);
                    }
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// A parked message that a receive could not take stays the first.
    pub(crate) fn park_first(&mut self, message: Message) {
        self.parked.push_front(message);
        self.parked_anew = true;
    }

    /// See [`Core::cancel`].
    pub(crate) fn cancel_multi(&mut self, transport: &mut impl Transport, index: u32, token: u64) -> Option<bool> {
        let generation = self.requests.generation(index);
        let multi = self.multi_mut(index);
        let (state, late) = (multi.state, multi.cancel || multi.token.is_some());
        match state {
            _ if late => Some(false),
            State::Filled | State::Exhausted => Some(false),
            State::Closing(entry) if self.is_unlinking(entry) => {
                self.multi_mut(index).token = Some(token);
                None
            }
            State::Closing(_) | State::Fenced => {
                self.multi_mut(index).cancel = true;
                Some(true)
            }
            State::Open(entry) => {
                let multi = self.multi_mut(index);
                (multi.state, multi.token) = (State::Closing(entry), Some(token));
                match transport.me_unlink(entry) {
                    Some(code) => self.multi_unlinked(transport, index, generation, entry, code).map(|(_, done)| done),
                    None => {
                        self.unlinking.push((entry, Unlinking::Multi(index, generation)));
                        None
                    }
                }
            }
        }
    }
}
