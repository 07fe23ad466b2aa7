//! [`Endpoint`]: the messages of one process.

use crate::multi::Multi;
use crate::overflow::Overflow;
use crate::rendezvous::Transfer;
use crate::slab::Slab;
use crate::wire::{self, ANNOUNCED, Owner, TAG_MASK};
use crate::{
    Again, Completes, Completion, CompletionKind, MessageConfig, Peek, Pending, PendingRequest, Portals, Queue, Receive, Send, Status,
    Stray, UnknownClaim, Waiting,
};
use narrows_portals::{
    AckRequest, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, NID_ANY, PID_ANY, ProcessId, RemoteTarget,
    ReplyCode, SearchOperation, md, me,
};
use std::collections::VecDeque;

/// Requests that may be open in one process before calls say [`Again`]. Our own choice: far above
/// what MPI libraries keep open, and it bounds the memory to some 200 MB.
pub const OPEN_LIMIT: usize = 1 << 20;

/// The messages of one process: calls and Portals events in, Portals commands and completions out.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) config: MessageConfig,
    eq: EqId,
    local: ProcessId,
    pub(crate) requests: Slab<Request>,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) overflow: Overflow,
    claims: VecDeque<(u64, Queue, Message)>,
    /// Untagged messages that matched a multi-receive which had no room for them any more, and that no
    /// other receive has taken.
    pub(crate) parked: VecDeque<Message>,
    /// Some of them since the last look for another receive.
    pub(crate) parked_anew: bool,
    /// Entries that an operation still used when they should have gone.
    leftovers: Vec<EntryId>,
    /// Entries that the NIC was told to unlink and that it has not answered for.
    pub(crate) unlinking: Vec<(EntryId, Unlinking)>,
    searches: usize,
}

/// Why an entry is being unlinked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unlinking {
    /// The receive of this slot and generation is taken back, by the caller of this token.
    Cancel(u32, u32, u64),
    /// The multi-receive closes, see `multi.rs`.
    Multi(u32, u32),
    /// The receive gets a parked message.
    Home(u32, u32, Message),
    /// The overflow block is to be empty again.
    Block(u32),
    /// Its operations are all over.
    Leftover,
}

/// What is open, by slot.
#[derive(Debug)]
pub(crate) enum Request {
    Send(OpenSend),
    Receive(Posted),
    Transfer(Transfer),
    Peek(Peek),
    Multi(Box<Multi>),
}

/// A send that is not complete.
#[derive(Debug)]
pub(crate) struct OpenSend {
    pub(crate) send: Send,
    pub(crate) stage: Stage,
    pub(crate) fail: FailType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for that many SEND or ACK events.
    Sending { left: u64 },
    /// Rendezvous by get: so many gets have come of a number that they tell.
    Offered { entry: EntryId, come: u64 },
    /// Rendezvous by put: waits for the receiver's word.
    Announced,
}

/// A receive in the priority list.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) receive: Receive,
    pub(crate) entry: EntryId,
}

/// Where a message goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) queue: Queue,
    pub(crate) context: u64,
    pub(crate) buffer: u64,
    pub(crate) length: u64,
    pub(crate) completion: bool,
    /// Slot of the multi-receive that the buffer is part of.
    pub(crate) multi: Option<u32>,
    /// The message is thrown away: nobody hears of it.
    pub(crate) discard: bool,
}

/// A message that has matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) source: ProcessId,
    pub(crate) tag: u64,
    pub(crate) data: Option<u32>,
    pub(crate) full_length: u64,
    pub(crate) body: Body,
}

/// Where the data of a [`Message`] are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// In the buffer of the receive already.
    Landed { length: u64 },
    /// In an overflow block. `held`: see [`Overflow::hold`].
    Unexpected { address: u64, length: u64, held: Option<u32> },
    /// At the sender.
    Announced { request: u32, wants_word: bool },
}

impl Endpoint {
    /// An endpoint of the process `local`, which has the event queue `eq` and the entries of
    /// [`portal_table`](crate::portal_table). Posts the overflow blocks.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn new(config: MessageConfig, eq: EqId, local: ProcessId, portals: &mut impl Portals) -> Endpoint {
        Endpoint::with_queues(config, eq, local, portals, &[Queue::Tagged, Queue::Untagged])
    }

    /// The same for a process that sends and receives tagged messages only: without room for untagged ones, which
    /// halves its memory.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn tagged(config: MessageConfig, eq: EqId, local: ProcessId, portals: &mut impl Portals) -> Endpoint {
        Endpoint::with_queues(config, eq, local, portals, &[Queue::Tagged])
    }

    fn with_queues(config: MessageConfig, eq: EqId, local: ProcessId, portals: &mut impl Portals, queues: &[Queue]) -> Endpoint {
        if let Err(error) = config.check() {
            panic!("message layer: {error}");
        }
        let mut overflow = Overflow::new(&config);
        let quiet = me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
        for &queue in queues {
            let announcements = MatchEntry {
                options: quiet | me::EVENT_COMM_DISABLE,
                match_bits: ANNOUNCED,
                ignore_bits: !ANNOUNCED,
                ..MatchEntry::default()
            };
            portals.me_append(wire::pt_of(queue), List::Overflow, announcements);
            for _ in 0..config.overflow_blocks {
                overflow.post(portals, queue);
            }
        }
        let control = MatchEntry { options: quiet, ignore_bits: u64::MAX, user_ptr: Owner::Control.user_ptr(), ..MatchEntry::default() };
        portals.me_append(wire::PT_CONTROL, List::Priority, control);
        Endpoint {
            config,
            eq,
            local,
            requests: Slab::new(OPEN_LIMIT),
            completions: VecDeque::new(),
            overflow,
            claims: VecDeque::new(),
            parked: VecDeque::new(),
            parked_anew: false,
            leftovers: Vec::new(),
            unlinking: Vec::new(),
            searches: 0,
        }
    }

    /// The process whose messages these are.
    pub fn local(&self) -> ProcessId {
        self.local
    }

    /// Forgets what does not matter for any later message but depends on the order of the earlier ones: how full the
    /// overflow blocks are, and which request numbers are free. Called where simulated time begins, because what
    /// happens before that is ordered by the host.
    pub fn renew(&mut self, portals: &mut impl Portals) {
        for (index, entry) in self.overflow.idle() {
            self.start_unlinking(portals, entry, Unlinking::Block(index));
        }
        self.requests.forget_order();
    }

    /// Takes the overflow blocks out of their lists: what still comes is not kept.
    pub fn close(&mut self, portals: &mut impl Portals) {
        for (_, entry) in self.overflow.idle() {
            portals.me_unlink(entry);
        }
    }

    /// Tells the NIC to unlink `entry`, and goes on when it has answered.
    pub(crate) fn start_unlinking(&mut self, portals: &mut impl Portals, entry: EntryId, why: Unlinking) {
        match portals.me_unlink(entry) {
            Some(code) => {
                self.go_on_unlinked(portals, entry, why, code);
            }
            None => self.unlinking.push((entry, why)),
        }
    }

    /// The entry is being unlinked already.
    pub(crate) fn is_unlinking(&self, entry: EntryId) -> bool {
        self.unlinking.iter().any(|(other, _)| *other == entry)
    }

    /// The answer to an unlinking that [`Portals::me_unlink`] had no answer to yet.
    pub fn unlinked(&mut self, portals: &mut impl Portals, entry: EntryId, code: ReplyCode) {
        if let Some(at) = self.unlinking.iter().position(|(other, _)| *other == entry) {
            let (_, why) = self.unlinking.remove(at);
            if let Some((token, done)) = self.go_on_unlinked(portals, entry, why, code) {
                self.answer_cancel(token, done);
            }
            if self.parked_anew {
                self.rehome(portals);
            }
        }
    }

    /// What was being unlinked for goes on; whether a receive was taken back, if that was asked, and by which token.
    fn go_on_unlinked(&mut self, portals: &mut impl Portals, entry: EntryId, why: Unlinking, code: ReplyCode) -> Option<(u64, bool)> {
        match why {
            Unlinking::Cancel(index, generation, token) => {
                let receive = match self.requests.tenant_mut(index, generation) {
                    Some(Request::Receive(posted)) if code == ReplyCode::Ok => Some(posted.receive),
                    _ => None,
                };
                if let Some(receive) = receive {
                    self.requests.remove(index);
                    self.completions.push_back(cancelled(&receive, false));
                }
                return Some((token, receive.is_some()));
            }
            Unlinking::Multi(index, generation) => return self.multi_unlinked(portals, index, generation, entry, code),
            Unlinking::Home(index, generation, message) => match self.requests.tenant_mut(index, generation) {
                Some(Request::Receive(posted)) if code == ReplyCode::Ok => {
                    let room = room_of(&posted.receive);
                    self.deliver(portals, room, message, Some(index));
                }
                // A message was faster: another receive may take this one.
                _ => self.park_first(message),
            },
            Unlinking::Block(index) => {
                if code == ReplyCode::Ok {
                    self.overflow.emptied(portals, index);
                }
            }
            Unlinking::Leftover => {
                if code == ReplyCode::InUse {
                    self.leftovers.push(entry);
                }
            }
        }
        None
    }

    /// Says how [`Endpoint::cancel`] has ended.
    fn answer_cancel(&mut self, token: u64, done: bool) {
        self.completions.push_back(Completion {
            kind: CompletionKind::Cancel,
            queue: Queue::Tagged,
            context: token,
            buffer: 0,
            length: 0,
            full_length: 0,
            tag: 0,
            source: ProcessId::default(),
            data: None,
            status: if done { Status::Cancelled } else { Status::NoMessage },
            released: false,
            at_once: false,
        });
    }

    /// Starts to send.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    ///
    /// # Panics
    ///
    /// When more than `inject_limit` bytes are to be injected.
    pub fn send(&mut self, portals: &mut impl Portals, mut send: Send) -> Result<(), Again> {
        assert!(!send.inject || send.length <= self.config.inject_limit, "injected messages must not exceed the inject limit");
        if self.requests.is_full() {
            return Err(Again);
        }
        // What is copied anyway need not wait for its SEND event.
        send.inject |= send.completes == Completes::BufferFree && send.length <= self.config.inject_limit;
        if send.length <= self.config.eager_limit {
            self.send_eager(portals, send);
        } else {
            self.announce(portals, send);
        }
        Ok(())
    }

    fn send_eager(&mut self, portals: &mut impl Portals, send: Send) {
        let (options, ack) = completion_events(send.completes, send.inject);
        let waits = matches!((send.completes, send.inject), (Completes::Delivered, _) | (Completes::BufferFree, false));
        let user_ptr = if waits {
            let (index, generation) =
                self.requests.insert(Request::Send(OpenSend { send, stage: Stage::Sending { left: 1 }, fail: FailType::Ok }));
            Owner::Request(index, generation).user_ptr()
        } else {
            0
        };
        let local = self.local_buffer(send.buffer, options, user_ptr);
        let tag = if send.queue == Queue::Tagged { send.tag & TAG_MASK } else { 0 };
        let target = RemoteTarget { process: send.target, pt: wire::pt_of(send.queue), match_bits: tag | data_flag(send.data), offset: 0 };
        portals.put(local, send.length, send.inject, ack, target, u64::from(send.data.unwrap_or(0)));
        if send.inject && send.completes == Completes::BufferFree {
            self.complete_send(send, FailType::Ok, true);
        }
    }

    /// Makes room for a message, or with `multi` for many.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    ///
    /// # Panics
    ///
    /// When a tagged receive has `multi`.
    pub fn receive(&mut self, portals: &mut impl Portals, receive: Receive) -> Result<(), Again> {
        if self.requests.is_full() {
            return Err(Again);
        }
        if let Some(min_free) = receive.multi {
            assert!(receive.queue == Queue::Untagged, "multi-receives are for untagged messages");
            self.open_multi(portals, receive, min_free);
            if self.parked_anew {
                self.rehome(portals);
            }
            return Ok(());
        }
        if receive.queue == Queue::Untagged
            && let Some(place) = self.find_parked(receive.source)
            && let Some(message) = self.parked.remove(place)
        {
            self.deliver(portals, room_of(&receive), message, None);
            return Ok(());
        }
        let (index, generation) = self.requests.insert(Request::Receive(Posted { receive, entry: EntryId(0) }));
        let me = MatchEntry {
            start: receive.buffer,
            length: receive.length,
            options: me::OP_PUT | me::USE_ONCE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
            user_ptr: Owner::Request(index, generation).user_ptr(),
            ..selector(receive.queue, receive.source, receive.tag, receive.ignore)
        };
        let posted = portals.me_append(wire::pt_of(receive.queue), List::Priority, me);
        if let Some(Request::Receive(Posted { entry, .. })) = self.requests.get_mut(index) {
            *entry = posted;
        }
        Ok(())
    }

    /// Looks for a message that nobody has received yet; a completion follows.
    ///
    /// # Errors
    ///
    /// [`Again`] when too many requests are open; nothing has been done then.
    pub fn peek(&mut self, portals: &mut impl Portals, peek: Peek) -> Result<(), Again> {
        if self.requests.is_full() {
            return Err(Again);
        }
        if peek.queue == Queue::Untagged
            && let Some(place) = self.find_parked(peek.source)
        {
            let message = self.parked[place];
            if peek.claim {
                self.parked.remove(place);
                self.claims.push_back((peek.context, peek.queue, message));
            }
            self.complete_peek(&peek, Some(&message), Status::Ok);
            return Ok(());
        }
        let (index, generation) = self.requests.insert(Request::Peek(peek));
        let me = MatchEntry {
            options: me::OP_PUT | me::USE_ONCE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
            user_ptr: Owner::Request(index, generation).user_ptr(),
            ..selector(peek.queue, peek.source, peek.tag, peek.ignore)
        };
        let operation = if peek.claim { SearchOperation::Delete } else { SearchOperation::Only };
        self.searches += 1;
        portals.me_search(wire::pt_of(peek.queue), operation, me);
        Ok(())
    }

    /// Receives the message that a peek of this context has claimed. What `receive` says about
    /// source, tag and `multi` does not count.
    ///
    /// # Errors
    ///
    /// [`UnknownClaim`] when there is none: the peek has not completed, found nothing, or its message
    /// was already received.
    pub fn receive_claimed(&mut self, portals: &mut impl Portals, context_of_claim: u64, receive: Receive) -> Result<(), UnknownClaim> {
        let (_, message) = self.take_claim(context_of_claim)?;
        self.deliver(portals, room_of(&receive), message, None);
        Ok(())
    }

    /// Throws the message away that a peek of this context has claimed. Its sender completes; here
    /// no completion follows.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::receive_claimed`].
    pub fn discard_claimed(&mut self, portals: &mut impl Portals, context_of_claim: u64) -> Result<(), UnknownClaim> {
        let (queue, message) = self.take_claim(context_of_claim)?;
        let nowhere = Room { queue, context: 0, buffer: 0, length: 0, completion: false, multi: None, discard: true };
        self.deliver(portals, nowhere, message, None);
        Ok(())
    }

    fn take_claim(&mut self, context: u64) -> Result<(Queue, Message), UnknownClaim> {
        let place = self.claims.iter().position(|claim| claim.0 == context).ok_or(UnknownClaim)?;
        let (_, queue, message) = self.claims.remove(place).ok_or(UnknownClaim)?;
        Ok((queue, message))
    }

    /// Takes back the oldest receive of this context that has no message yet, which completes as
    /// [`Status::Cancelled`] then: `Some(true)`. `Some(false)`: there is none, or a message was faster. `None`: the NIC
    /// must be asked; a completion of the kind [`CompletionKind::Cancel`] with `token` as its context will say it.
    pub fn cancel(&mut self, portals: &mut impl Portals, queue: Queue, context: u64, token: u64) -> Option<bool> {
        let oldest = self
            .requests
            .iter()
            .filter(|(_, _, request)| match request {
                Request::Receive(posted) => posted.receive.queue == queue && posted.receive.context == context,
                Request::Multi(multi) => queue == Queue::Untagged && multi.receive.context == context,
                _ => false,
            })
            .min_by_key(|(_, age, _)| *age)
            .map(|(index, ..)| index);
        let Some(index) = oldest else { return Some(false) };
        let generation = self.requests.generation(index);
        let Some(Request::Receive(posted)) = self.requests.get_mut(index) else { return self.cancel_multi(portals, index, token) };
        let entry = posted.entry;
        if self.is_unlinking(entry) {
            return Some(false);
        }
        let why = Unlinking::Cancel(index, generation, token);
        match portals.me_unlink(entry) {
            Some(code) => self.go_on_unlinked(portals, entry, why, code).map(|(_, done)| done),
            None => {
                self.unlinking.push((entry, why));
                None
            }
        }
    }

    /// The event only completes something: [`Endpoint::event`] needs no command and no copy for it, so it does not
    /// matter when the process looks at it.
    pub fn only_completes(&self, event: &Event) -> bool {
        if !self.leftovers.is_empty() || self.parked_anew {
            return false;
        }
        match Owner::from_user_ptr(event.user_ptr) {
            None => true,
            Some(Owner::Request(index, generation)) => match self.requests.tenant(index, generation) {
                Some(Request::Receive(_)) => event.match_bits & ANNOUNCED == 0 && event.kind != EventKind::PutOverflow,
                Some(Request::Send(open)) => match open.stage {
                    Stage::Sending { .. } => true,
                    Stage::Offered { .. } => open.send.length <= self.config.max_portals_message,
                    Stage::Announced => false,
                },
                Some(Request::Transfer(transfer)) => transfer.only_completes(),
                Some(Request::Peek(_)) => true,
                Some(Request::Multi(_)) | None => false,
            },
            Some(Owner::Control | Owner::Block(_) | Owner::Multi(..) | Owner::Fence(..)) => false,
        }
    }

    /// One event of the event queue, in the order in which it came.
    ///
    /// # Errors
    ///
    /// [`Stray`] when the event cannot be: it names a request that is not open. The process that sent it, or the
    /// Portals library, is broken.
    pub fn event(&mut self, portals: &mut impl Portals, event: Event) -> Result<(), Stray> {
        if !self.leftovers.is_empty() {
            for entry in std::mem::take(&mut self.leftovers) {
                self.unlink(portals, entry);
            }
        }
        match Owner::from_user_ptr(event.user_ptr) {
            // The failure of something that nobody waits for.
            None => {}
            Some(Owner::Control) => self.control(portals, &event)?,
            Some(Owner::Block(index)) => match event.kind {
                EventKind::AutoUnlink => self.overflow.unlinked(portals, index),
                EventKind::AutoFree => self.overflow.freed(index),
                _ => {}
            },
            Some(Owner::Multi(index, generation)) => self.multi_event(portals, index, generation, &event),
            // A multi-receive stays open while its fence is under way.
            Some(Owner::Fence(index, _)) => self.fence_passed(portals, index),
            Some(Owner::Request(index, generation)) => match self.requests.tenant_mut(index, generation).ok_or(Stray(event))? {
                Request::Send(_) => self.send_event(portals, index, &event),
                Request::Receive(posted) => {
                    let receive = posted.receive;
                    self.receive_event(portals, index, &receive, &event);
                }
                Request::Transfer(_) => self.transfer_event(portals, index, &event),
                Request::Peek(peek) => {
                    let peek = *peek;
                    self.requests.remove(index);
                    self.peek_event(&peek, &event);
                }
                Request::Multi(_) => return Err(Stray(event)),
            },
        }
        if self.parked_anew {
            self.rehome(portals);
        }
        Ok(())
    }

    fn send_event(&mut self, portals: &mut impl Portals, index: u32, event: &Event) {
        let Some(Request::Send(open)) = self.requests.get_mut(index) else { return };
        if event.fail != FailType::Ok {
            open.fail = event.fail;
        }
        let done = match &mut open.stage {
            Stage::Sending { left } => {
                *left -= 1;
                *left == 0
            }
            Stage::Offered { come, .. } => {
                *come += 1;
                *come == event.match_bits >> wire::PIECES_SHIFT
            }
            Stage::Announced => false,
        };
        if done {
            self.finish_send(portals, index);
        }
    }

    pub(crate) fn finish_send(&mut self, portals: &mut impl Portals, index: u32) {
        let Some(Request::Send(open)) = self.requests.remove(index) else { return };
        if let Stage::Offered { entry, .. } = open.stage
            && open.send.length > self.config.max_portals_message
        {
            self.unlink(portals, entry);
        }
        self.complete_send(open.send, open.fail, false);
    }

    fn complete_send(&mut self, send: Send, fail: FailType, at_once: bool) {
        if send.completes == Completes::Never && fail == FailType::Ok {
            return;
        }
        let status = if fail == FailType::Ok { Status::Ok } else { Status::Failed(fail) };
        self.completions.push_back(Completion::of_send(&send, status, at_once));
    }

    fn receive_event(&mut self, portals: &mut impl Portals, index: u32, receive: &Receive, event: &Event) {
        let room = room_of(receive);
        let message = message_of(receive.queue, event);
        if event.fail != FailType::Ok {
            self.requests.remove(index);
            self.complete_receive(&room, &message, event.mlength, Status::Failed(event.fail));
            return;
        }
        self.deliver(portals, room, message, Some(index));
    }

    fn peek_event(&mut self, peek: &Peek, event: &Event) {
        self.searches -= 1;
        if event.fail != FailType::Ok {
            let status = if event.fail == FailType::NoMatch { Status::NoMessage } else { Status::Failed(event.fail) };
            self.complete_peek(peek, None, status);
            return;
        }
        let mut message = message_of(peek.queue, event);
        if let (true, Body::Landed { length }) = (event.kind == EventKind::Search, message.body) {
            message.body = Body::Unexpected { address: event.start, length, held: None };
        }
        if peek.claim {
            self.hold(&mut message);
            self.claims.push_back((peek.context, peek.queue, message));
        }
        self.complete_peek(peek, Some(&message), Status::Ok);
    }

    fn complete_peek(&mut self, peek: &Peek, message: Option<&Message>, status: Status) {
        self.completions.push_back(Completion {
            kind: CompletionKind::Peek,
            queue: peek.queue,
            context: peek.context,
            buffer: 0,
            length: message.map_or(0, |message| message.full_length),
            full_length: message.map_or(0, |message| message.full_length),
            tag: message.map_or(0, |message| message.tag),
            source: message.map_or_else(ProcessId::default, |message| message.source),
            data: message.and_then(|message| message.data),
            status,
            released: false,
            at_once: false,
        });
    }

    /// Keeps the overflow block of a message that is not copied out at once.
    pub(crate) fn hold(&mut self, message: &mut Message) {
        if let Body::Unexpected { address, length, held } = &mut message.body {
            *held = self.overflow.hold(*address, *length);
        }
    }

    /// Brings `message` to `room`. `slot`: the receive that ends here, whose slot a transfer takes
    /// over.
    pub(crate) fn deliver(&mut self, portals: &mut impl Portals, room: Room, message: Message, slot: Option<u32>) {
        let length = match message.body {
            Body::Announced { request, wants_word } => {
                self.start_transfer(portals, room, message, request, wants_word, slot);
                return;
            }
            Body::Landed { length } => length,
            Body::Unexpected { address, length, held } => {
                let length = length.min(room.length);
                if length > 0 {
                    portals.copy(address, room.buffer, length);
                }
                self.overflow.release(held);
                length
            }
        };
        if let Some(index) = slot {
            self.requests.remove(index);
        }
        self.complete_receive(&room, &message, length, Status::Ok);
    }

    /// Reports a receive; `Ok` becomes `Truncated` where it has to.
    pub(crate) fn complete_receive(&mut self, room: &Room, message: &Message, length: u64, status: Status) {
        let status = if status == Status::Ok && message.full_length > length { Status::Truncated } else { status };
        if room.discard || (status == Status::Ok && !room.completion) {
            return;
        }
        self.completions.push_back(Completion {
            kind: CompletionKind::Receive,
            queue: room.queue,
            context: room.context,
            buffer: room.buffer,
            length,
            full_length: message.full_length,
            tag: message.tag,
            source: message.source,
            data: message.data,
            status,
            released: false,
            at_once: false,
        });
    }

    /// Unlinks an entry whose operations are all over; if the NIC still thinks otherwise, later.
    pub(crate) fn unlink(&mut self, portals: &mut impl Portals, entry: EntryId) {
        self.start_unlinking(portals, entry, Unlinking::Leftover);
    }

    /// First parked message from `source`.
    fn find_parked(&self, source: Option<ProcessId>) -> Option<usize> {
        self.parked.iter().position(|message| source.is_none_or(|source| source == message.source))
    }

    pub(crate) fn local_buffer(&self, address: u64, options: u32, user_ptr: u64) -> LocalBuffer {
        LocalBuffer { address, options, eq: self.eq, user_ptr, ..LocalBuffer::default() }
    }

    /// No data, and no event but of a failure.
    pub(crate) fn silent_buffer(&self) -> LocalBuffer {
        self.local_buffer(0, md::EVENT_SEND_DISABLE, 0)
    }

    /// The oldest completion that has not been taken.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Peeks that wait for the answer of the NIC.
    pub fn searches_pending(&self) -> usize {
        self.searches
    }

    /// Overflow blocks that exist, in both queues, in use or spare.
    pub fn overflow_blocks(&self) -> usize {
        self.overflow.len()
    }

    /// What is open: for a report of who waits for whom. Not for the hot path.
    pub fn pending(&self) -> Pending {
        let mut pending = Pending { claims: self.claims.len(), ..Pending::default() };
        let mut aged: Vec<(u64, PendingRequest)> = Vec::with_capacity(self.requests.len());
        for (_, age, request) in self.requests.iter() {
            let of_receive = |waiting, receive: &Receive| PendingRequest {
                waiting,
                queue: receive.queue,
                peer: receive.source,
                tag: receive.tag,
                ignore: receive.ignore,
                length: receive.length,
                context: receive.context,
            };
            let entry = match request {
                Request::Send(open) => {
                    pending.sends += 1;
                    let waiting = if matches!(open.stage, Stage::Sending { .. }) { Waiting::Sent } else { Waiting::Receiver };
                    PendingRequest {
                        waiting,
                        queue: open.send.queue,
                        peer: Some(open.send.target),
                        tag: open.send.tag,
                        ignore: 0,
                        length: open.send.length,
                        context: open.send.context,
                    }
                }
                Request::Receive(posted) => {
                    pending.receives += 1;
                    of_receive(Waiting::Message, &posted.receive)
                }
                Request::Multi(multi) => {
                    pending.receives += 1;
                    of_receive(Waiting::Messages, &multi.receive)
                }
                Request::Transfer(transfer) => PendingRequest {
                    waiting: Waiting::Data,
                    queue: transfer.room.queue,
                    peer: Some(transfer.message.source),
                    tag: transfer.message.tag,
                    ignore: 0,
                    length: transfer.wanted,
                    context: transfer.room.context,
                },
                Request::Peek(peek) => PendingRequest {
                    waiting: Waiting::Search,
                    queue: peek.queue,
                    peer: peek.source,
                    tag: peek.tag,
                    ignore: peek.ignore,
                    length: 0,
                    context: peek.context,
                },
            };
            aged.push((age, entry));
        }
        aged.sort_unstable_by_key(|(age, _)| *age);
        pending.requests = aged.into_iter().map(|(_, request)| request).collect();
        pending
    }
}

/// MD options and acknowledgement that give exactly the event which `completes` asks for.
pub(crate) fn completion_events(completes: Completes, inject: bool) -> (u32, AckRequest) {
    match completes {
        Completes::Never => (md::EVENT_SEND_DISABLE, AckRequest::None),
        Completes::BufferFree if inject => (md::EVENT_SEND_DISABLE, AckRequest::None),
        Completes::BufferFree => (0, AckRequest::None),
        Completes::Delivered => (md::EVENT_SEND_DISABLE, AckRequest::Full),
    }
}

pub(crate) fn data_flag(data: Option<u32>) -> u64 {
    if data.is_some() { wire::CARRIES_DATA } else { 0 }
}

pub(crate) fn room_of(receive: &Receive) -> Room {
    Room {
        queue: receive.queue,
        context: receive.context,
        buffer: receive.buffer,
        length: receive.length,
        completion: receive.completion,
        multi: None,
        discard: false,
    }
}

/// The part of a match entry that says which messages fit.
pub(crate) fn selector(queue: Queue, source: Option<ProcessId>, tag: u64, ignore: u64) -> MatchEntry {
    let (match_bits, ignore_bits) = match queue {
        Queue::Tagged => (tag & TAG_MASK, ignore | wire::PROTOCOL_MASK),
        Queue::Untagged => (0, u64::MAX),
    };
    MatchEntry { match_id: source.unwrap_or(ProcessId { nid: NID_ANY, pid: PID_ANY }), match_bits, ignore_bits, ..MatchEntry::default() }
}

pub(crate) fn cancelled(receive: &Receive, released: bool) -> Completion {
    Completion {
        kind: CompletionKind::Receive,
        queue: receive.queue,
        context: receive.context,
        buffer: receive.buffer,
        length: 0,
        full_length: 0,
        tag: if receive.queue == Queue::Tagged { receive.tag & TAG_MASK } else { 0 },
        source: ProcessId::default(),
        data: None,
        status: Status::Cancelled,
        released,
        at_once: false,
    }
}

/// The message that an event on an eager entry reports.
pub(crate) fn message_of(queue: Queue, event: &Event) -> Message {
    let body = if event.match_bits & ANNOUNCED != 0 {
        Body::Announced { request: (event.hdr_data >> 32) as u32, wants_word: event.match_bits & wire::WANTS_WORD != 0 }
    } else if event.kind == EventKind::PutOverflow {
        Body::Unexpected { address: event.start, length: event.mlength, held: None }
    } else {
        Body::Landed { length: event.mlength }
    };
    Message {
        source: event.initiator,
        tag: wire::tag(queue, event),
        data: wire::data(event),
        full_length: wire::full_length(queue, event),
        body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rendezvous;

    /// A Portals library that does nothing.
    struct Nothing;

    impl Portals for Nothing {
        fn me_append(&mut self, _: u32, _: List, _: MatchEntry) -> EntryId {
            EntryId(0)
        }
        fn me_unlink(&mut self, _: EntryId) -> Option<ReplyCode> {
            Some(ReplyCode::Ok)
        }
        fn me_search(&mut self, _: u32, _: SearchOperation, _: MatchEntry) {}
        fn put(&mut self, _: LocalBuffer, _: u64, _: bool, _: AckRequest, _: RemoteTarget, _: u64) {}
        fn get(&mut self, _: LocalBuffer, _: u64, _: RemoteTarget) {}
        fn copy(&mut self, _: u64, _: u64, _: u64) {}
        fn allocate(&mut self, _: u64) -> u64 {
            4096
        }
    }

    #[test]
    fn too_many_open_requests_are_refused_until_one_ends() {
        let config = MessageConfig {
            eager_limit: 64,
            inject_limit: 64,
            rendezvous: Rendezvous::Get,
            overflow_block: 64,
            overflow_blocks: 1,
            max_portals_message: 64,
        };
        let me = ProcessId::on(narrows_portals::NodeId(0), 1);
        let mut endpoint = Endpoint::new(config, EqId(0), me, &mut Nothing);
        endpoint.requests = Slab::new(2);
        let receive = Receive {
            queue: Queue::Tagged,
            source: None,
            tag: 1,
            ignore: 0,
            buffer: 0,
            length: 8,
            context: 1,
            completion: true,
            multi: None,
        };
        let peek = Peek { queue: Queue::Tagged, source: None, tag: 1, ignore: 0, context: 2, claim: false };
        let send = Send {
            queue: Queue::Tagged,
            target: me,
            tag: 1,
            data: None,
            buffer: 0,
            length: 8,
            context: 3,
            inject: false,
            completes: Completes::BufferFree,
        };
        assert_eq!(endpoint.receive(&mut Nothing, receive), Ok(()));
        assert_eq!(endpoint.peek(&mut Nothing, peek), Ok(()));
        assert_eq!(endpoint.receive(&mut Nothing, receive), Err(Again));
        assert_eq!(endpoint.peek(&mut Nothing, peek), Err(Again));
        assert_eq!(endpoint.send(&mut Nothing, send), Err(Again));
        assert_eq!(endpoint.cancel(&mut Nothing, Queue::Tagged, 1, 0), Some(true));
        assert_eq!(endpoint.send(&mut Nothing, send), Ok(()));
    }
}
