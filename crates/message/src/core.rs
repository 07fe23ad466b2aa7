//! [`Core`]: what all protocols share: open requests, completions, peeks and claims, in the order of matching.

use crate::multi::Multis;
use crate::overflow::Overflow;
use crate::rails::Spread;
use crate::registration::Registered;
use crate::request::{
    Body, Message, OpenSend, Posted, Request, Room, Stage, Unlinking, completion_events, data_flag, message_of, room_of, selector,
};
use crate::slab::Slab;
use crate::turns::Turns;
use crate::wire::{self, ANNOUNCED, Owner, TAG_MASK};
use crate::{
    Again, Capabilities, Completes, Completion, CompletionKind, MessageConfig, Peek, Protocol, Queue, Receive, Rendezvous, Send, Sent,
    Status, Stray, Transport, UnknownClaim,
};
use narrows_portals::{
    EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, SearchOperation, md, me,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that may be open in one process before calls say [`Again`]. Our own choice: far above
/// what MPI libraries keep open, and it bounds the memory to some 200 MB.
pub const OPEN_LIMIT: usize = 1 << 20;

/// What is open in one process, and what has ended.
#[derive(Debug)]
pub(crate) struct Core {
    /// Shared by processes that are alike.
    pub(crate) config: Arc<MessageConfig>,
    /// What says that an eager message has arrived says so of the receiver's memory, not of a buffer before it.
    eager_tells: bool,
    eq: EqId,
    local: ProcessId,
    pub(crate) requests: Slab<Request>,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) overflow: Overflow,
    pub(crate) claims: VecDeque<(u64, Queue, Message)>,
    /// Untagged messages that matched a multi-receive which had no room for them any more, and that no
    /// other receive has taken.
    pub(crate) parked: VecDeque<Message>,
    /// Some of them since the last look for another receive.
    pub(crate) parked_anew: bool,
    pub(crate) turns: Turns,
    pub(crate) multis: Multis,
    /// Entries that an operation still used when they should have gone.
    pub(crate) leftovers: Vec<EntryId>,
    /// Entries that the NIC was told to unlink and that it has not answered for.
    pub(crate) unlinking: Vec<(EntryId, Unlinking)>,
    searches: usize,
    /// Of messages over several rails.
    pub(crate) rails: Spread,
    pub(crate) registered: Registered,
    /// Since the start, or the last [`Core::renew`].
    pub(crate) sent: Sent,
}

impl Core {
    /// For messages of these queues.
    ///
    /// # Panics
    ///
    /// When [`MessageConfig::check`] fails.
    pub fn new(mut config: Arc<MessageConfig>, eq: EqId, local: ProcessId, transport: &mut impl Transport, queues: &[Queue]) -> Core {
        if let Err(error) = config.check() {
            panic!("message layer: {error}");
        }
        let Capabilities { matches_alone, gets, longest } = transport.capabilities();
        if longest < config.max_portals_message || !gets {
            let config = Arc::make_mut(&mut config);
            config.max_portals_message = config.max_portals_message.min(longest);
            config.rendezvous = if gets { config.rendezvous } else { Rendezvous::Put };
        }
        let rail = config.rails.first();
        let mut overflow = Overflow::new(&config);
        let quiet = me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
        for &queue in if matches_alone { queues } else { &[] } {
            let announcements = MatchEntry {
                options: quiet | me::EVENT_COMM_DISABLE,
                match_bits: ANNOUNCED,
                ignore_bits: !ANNOUNCED,
                ..MatchEntry::default()
            };
            transport.me_append(rail, wire::pt_of(queue), List::Overflow, announcements);
            for _ in 0..config.overflow_blocks {
                overflow.post(transport, queue);
            }
        }
        let control = MatchEntry { options: quiet, ignore_bits: u64::MAX, user_ptr: Owner::Control.user_ptr(), ..MatchEntry::default() };
        transport.me_append(rail, wire::PT_CONTROL, List::Priority, control);
        Core {
            rails: Spread::default(),
            registered: Registered::default(),
            sent: Sent::default(),
            config,
            eager_tells: matches_alone,
            eq,
            local,
            requests: Slab::new(OPEN_LIMIT),
            completions: VecDeque::new(),
            overflow,
            claims: VecDeque::new(),
            parked: VecDeque::new(),
            parked_anew: false,
            turns: Turns::default(),
            multis: Multis::default(),
            leftovers: Vec::new(),
            unlinking: Vec::new(),
            searches: 0,
        }
    }

    /// See [`crate::Endpoint::local`].
    pub fn local(&self) -> ProcessId {
        self.local
    }

    /// See [`crate::Endpoint::renew`].
    pub fn renew(&mut self, transport: &mut impl Transport) {
        for (index, entry) in self.overflow.idle() {
            self.start_unlinking(transport, entry, Unlinking::Block(index));
        }
        self.requests.forget_order();
        self.rails.forget_order();
        self.registered.forget_order();
        self.sent = Sent::default();
    }

    /// See [`crate::Endpoint::close`].
    pub fn close(&mut self, transport: &mut impl Transport) {
        for (_, entry) in self.overflow.idle() {
            transport.me_unlink(entry);
        }
    }

    /// See [`crate::Endpoint::send`].
    #[inline]
    pub fn send(&mut self, transport: &mut impl Transport, mut send: Send) -> Result<(), Again> {
        assert!(!send.inject || send.length <= self.config.inject_limit, "injected messages must not exceed the inject limit");
        if self.requests.is_full() {
            return Err(Again);
        }
        // What is copied anyway need not wait for its SEND event.
        send.inject |= send.completes == Completes::BufferFree && send.length <= self.config.inject_limit;
        let eager = self.eager_tells || send.inject || send.completes != Completes::Delivered;
        if send.length <= self.eager_limit(send.target) && eager {
            self.send_eager(transport, send);
        } else {
            self.announce(transport, send);
        }
        Ok(())
    }

    /// Longest eager message to a process.
    #[inline]
    fn eager_limit(&self, target: ProcessId) -> u64 {
        let limit = self.config.eager_limit;
        self.config.rails.across(self.local, target).map_or(limit, |fragment| limit.min(fragment))
    }

    #[inline]
    fn send_eager(&mut self, transport: &mut impl Transport, send: Send) {
        self.sent.eager.one(send.length);
        let (options, ack) = completion_events(send.completes, send.inject);
        let waits = matches!((send.completes, send.inject), (Completes::Delivered, _) | (Completes::BufferFree, false));
        let user_ptr = if waits {
            let (index, generation) =
                self.requests.insert(Request::Send(OpenSend { send, stage: Stage::Sending { left: 1 }, fail: FailType::Ok, start: None }));
            Owner::Request(index, generation).user_ptr()
        } else {
            0
        };
        let local = self.local_buffer(send.buffer, options, user_ptr);
        let tag = if send.queue == Queue::Tagged { send.tag & TAG_MASK } else { 0 };
        let target = RemoteTarget { process: send.target, pt: wire::pt_of(send.queue), match_bits: tag | data_flag(send.data), offset: 0 };
        transport.put(self.config.rails.first(), local, send.length, send.inject, ack, target, u64::from(send.data.unwrap_or(0)));
        if send.inject && send.completes == Completes::BufferFree {
            self.complete_send(send, FailType::Ok, true);
        }
    }

    /// See [`crate::Endpoint::receive`].
    #[inline]
    pub fn receive(&mut self, transport: &mut impl Transport, receive: Receive) -> Result<(), Again> {
        if self.requests.is_full() {
            return Err(Again);
        }
        if let Some(min_free) = receive.multi {
            assert!(receive.queue == Queue::Untagged, "multi-receives are for untagged messages");
            self.open_multi(transport, receive, min_free);
            if self.parked_anew {
                self.rehome(transport);
            }
            return Ok(());
        }
        if receive.queue == Queue::Untagged
            && let Some(place) = self.find_parked(receive.source)
            && let Some(message) = self.parked.remove(place)
        {
            self.deliver(transport, room_of(&receive), message, None);
            return Ok(());
        }
        let (index, generation) = self.requests.insert(Request::Receive(Posted { receive, entry: EntryId(0) }));
        let me = MatchEntry {
            start: receive.buffer,
            length: receive.length,
            options: me::OP_PUT
                | me::USE_ONCE
                | me::EVENT_LINK_DISABLE
                | me::EVENT_UNLINK_DISABLE
                | u32::from(receive.execution) << me::CONTEXT_SHIFT,
            user_ptr: Owner::Request(index, generation).user_ptr(),
            ..selector(receive.queue, receive.source, receive.tag, receive.ignore)
        };
        let posted = transport.me_append(self.config.rails.first(), wire::pt_of(receive.queue), List::Priority, me);
        if let Some(Request::Receive(Posted { entry, .. })) = self.requests.get_mut(index) {
            *entry = posted;
        }
        Ok(())
    }

    /// See [`crate::Endpoint::peek`].
    pub fn peek(&mut self, transport: &mut impl Transport, peek: Peek) -> Result<(), Again> {
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
        transport.me_search(wire::pt_of(peek.queue), operation, me);
        Ok(())
    }

    /// See [`crate::Endpoint::receive_claimed`].
    pub fn receive_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64, receive: Receive) -> Result<(), UnknownClaim> {
        let (_, message) = self.take_claim(context_of_claim)?;
        self.deliver(transport, room_of(&receive), message, None);
        Ok(())
    }

    /// See [`crate::Endpoint::discard_claimed`].
    pub fn discard_claimed(&mut self, transport: &mut impl Transport, context_of_claim: u64) -> Result<(), UnknownClaim> {
        let (queue, message) = self.take_claim(context_of_claim)?;
        let nowhere = Room { queue, context: 0, buffer: 0, length: 0, completion: false, multi: None, discard: true };
        self.deliver(transport, nowhere, message, None);
        Ok(())
    }

    fn take_claim(&mut self, context: u64) -> Result<(Queue, Message), UnknownClaim> {
        let place = self.claims.iter().position(|claim| claim.0 == context).ok_or(UnknownClaim)?;
        let (_, queue, message) = self.claims.remove(place).ok_or(UnknownClaim)?;
        Ok((queue, message))
    }

    /// See [`crate::Endpoint::is_for_firmware`].
    pub fn is_for_firmware(&self, event: &Event) -> bool {
        matches!(self.config.protocol, Protocol::Exanet)
            && event.match_bits == wire::CLEAR_TO_SEND
            && matches!(Owner::from_user_ptr(event.user_ptr), Some(Owner::Control))
    }

    /// See [`crate::Endpoint::only_completes`].
    pub fn only_completes(&self, event: &Event) -> bool {
        if self.is_for_firmware(event) {
            return true;
        }
        if !self.leftovers.is_empty() || self.parked_anew {
            return false;
        }
        match Owner::from_user_ptr(event.user_ptr) {
            None => true,
            Some(Owner::Request(index, generation)) => match self.requests.tenant(index, generation) {
                Some(Request::Receive(_)) => event.match_bits & ANNOUNCED == 0 && event.kind != EventKind::PutOverflow,
                Some(Request::Send(open)) => match open.stage {
                    Stage::Sending { .. } => true,
                    Stage::Offered { .. } => self.cut(open.send.target, open.send.length, 0).pieces(&self.config.rails) == 1,
                    Stage::Announced => false,
                },
                Some(Request::Transfer(transfer)) => transfer.only_completes(),
                Some(Request::Peek(_)) => true,
                Some(Request::Multi(_)) | None => false,
            },
            Some(Owner::Control | Owner::Block(_) | Owner::Multi(..) | Owner::Fence(..)) => false,
        }
    }

    /// See [`crate::Endpoint::event`].
    #[inline]
    pub fn event(&mut self, transport: &mut impl Transport, event: Event) -> Result<(), Stray> {
        if !self.leftovers.is_empty() {
            for entry in std::mem::take(&mut self.leftovers) {
                self.unlink(transport, entry);
            }
        }
        match Owner::from_user_ptr(event.user_ptr) {
            // The failure of something that nobody waits for.
            None => {}
            Some(Owner::Control) => self.control(transport, &event)?,
            Some(Owner::Block(index)) => match event.kind {
                EventKind::AutoUnlink => self.overflow.unlinked(transport, index),
                EventKind::AutoFree => self.overflow.freed(index),
                _ => {}
            },
            Some(Owner::Multi(index, generation)) => self.multi_event(transport, index, generation, &event),
            // A multi-receive stays open while its fence is under way.
            Some(Owner::Fence(index, _)) => self.fence_passed(transport, index),
            Some(Owner::Request(index, generation)) => match self.requests.tenant_mut(index, generation).ok_or(Stray(event))? {
                Request::Send(_) => self.send_event(transport, index, &event),
                Request::Receive(posted) => {
                    let receive = posted.receive;
                    self.receive_event(transport, index, &receive, &event);
                }
                Request::Transfer(_) => self.transfer_event(transport, index, &event),
                Request::Peek(peek) => {
                    let peek = *peek;
                    self.requests.remove(index);
                    self.peek_event(&peek, &event);
                }
                Request::Multi(_) => return Err(Stray(event)),
            },
        }
        if self.parked_anew {
            self.rehome(transport);
        }
        Ok(())
    }

    #[inline]
    fn send_event(&mut self, transport: &mut impl Transport, index: u32, event: &Event) {
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
                *come == wire::pieces(event.match_bits)
            }
            Stage::Announced => false,
        };
        if done {
            self.finish_send(transport, index);
        }
    }

    #[inline]
    pub(crate) fn finish_send(&mut self, transport: &mut impl Transport, index: u32) {
        let Some(Request::Send(open)) = self.requests.remove(index) else { return };
        if let Some(start) = open.start {
            self.data_sent(transport, index, &open, start);
        }
        self.complete_send(open.send, open.fail, false);
    }

    #[inline]
    fn complete_send(&mut self, send: Send, fail: FailType, at_once: bool) {
        if send.completes == Completes::Never && fail == FailType::Ok {
            return;
        }
        let status = if fail == FailType::Ok { Status::Ok } else { Status::Failed(fail) };
        self.completions.push_back(Completion::of_send(&send, status, at_once));
    }

    #[inline]
    fn receive_event(&mut self, transport: &mut impl Transport, index: u32, receive: &Receive, event: &Event) {
        let room = room_of(receive);
        let message = message_of(receive.queue, event);
        if event.fail != FailType::Ok {
            self.requests.remove(index);
            self.complete_receive(&room, &message, event.mlength, Status::Failed(event.fail));
            return;
        }
        self.deliver(transport, room, message, Some(index));
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
    #[inline]
    pub(crate) fn deliver(&mut self, transport: &mut impl Transport, room: Room, message: Message, slot: Option<u32>) {
        let length = match message.body {
            Body::Announced { request, start, wants_word } => {
                self.start_transfer(transport, room, message, (request, start), wants_word, slot);
                return;
            }
            Body::Landed { length } => length,
            Body::Unexpected { address, length, held } => {
                let length = length.min(room.length);
                if length > 0 {
                    transport.copy(address, room.buffer, length);
                }
                self.overflow.release(held);
                transport.forget(address);
                length
            }
        };
        if let Some(index) = slot {
            self.requests.remove(index);
        }
        self.complete_receive(&room, &message, length, Status::Ok);
    }

    /// Reports a receive; `Ok` becomes `Truncated` where it has to.
    #[inline]
    pub(crate) fn complete_receive(&mut self, room: &Room, message: &Message, length: u64, status: Status) {
        let status = if status == Status::Ok && message.full_length > length { Status::Truncated } else { status };
        if room.discard || (status == Status::Ok && !room.completion) {
            self.leave_turn(*message);
            return;
        }
        let completion = Completion {
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
        };
        self.complete_in_turn(message, completion, room.multi.filter(|_| message.is_counted()));
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

    /// See [`crate::Endpoint::searches_pending`].
    pub fn searches_pending(&self) -> usize {
        self.searches
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Protocol;
    use narrows_portals::{AckRequest, ReplyCode};
    use narrows_units::Rail;

    /// A Portals library that does nothing.
    struct Nothing;

    impl Transport for Nothing {
        fn me_append(&mut self, _: Rail, _: u32, _: List, _: MatchEntry) -> EntryId {
            EntryId(0)
        }
        fn me_unlink(&mut self, _: EntryId) -> Option<ReplyCode> {
            Some(ReplyCode::Ok)
        }
        fn me_search(&mut self, _: u32, _: SearchOperation, _: MatchEntry) {}
        fn put(&mut self, _: Rail, _: LocalBuffer, _: u64, _: bool, _: AckRequest, _: RemoteTarget, _: u64) {}
        fn get(&mut self, _: Rail, _: LocalBuffer, _: u64, _: RemoteTarget) {}
        fn drop_unmatched(&mut self, _: u32) {}
        fn copy(&mut self, _: u64, _: u64, _: u64) {}
        fn fill(&mut self, _: u64, _: u64, _: u64) {}
        fn allocate(&mut self, _: u64) -> u64 {
            4096
        }
    }

    #[test]
    fn too_many_open_requests_are_refused_until_one_ends() {
        let config = MessageConfig {
            protocol: Protocol::Openmpi,
            rails: Default::default(),
            eager_limit: 64,
            inject_limit: 64,
            rendezvous: Rendezvous::Get,
            overflow_block: 64,
            overflow_blocks: 1,
            max_portals_message: 64,
        };
        let me = ProcessId::on(narrows_portals::NodeId(0), 1);
        let mut endpoint = Core::new(Arc::new(config), EqId(0), me, &mut Nothing, &[Queue::Tagged]);
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
            execution: 0,
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
