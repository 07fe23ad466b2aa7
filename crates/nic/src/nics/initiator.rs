//! The initiator's side: from a command to a transfer, and what comes back.

use narrows_fabric::{Transfer, TransferId};
use narrows_portals::{AckRequest, Event as FullEvent, EventKind, FailType, List, LocalBuffer, ProcessId, md};
use narrows_units::{Bytes, SimTime};

use super::{COMPUTE_REQUEST, COMPUTE_RESPONSE, Nics, Port};
use crate::message::{AtomicPart, Due, Message, Phase, Role, Source};
use crate::out::{MessageId, Out, Process};
use crate::portal::{Kind, Landing, Operation};

/// What a command asks to be sent.
pub(super) struct Request {
    pub operation: Operation,
    pub to: ProcessId,
    pub local: LocalBuffer,
    pub inline: Option<Box<[u8]>>,
    pub ack: AckRequest,
    pub atomic: Option<AtomicPart>,
    /// Nothing came with the command: the NIC reads all of the payload.
    pub triggered: bool,
}

impl Nics {
    pub(super) fn request(&mut self, now: SimTime, request: Request, out: &mut impl Out) {
        let Request { operation, to, local, inline, ack, atomic, triggered } = request;
        let (kind, process, length) = (operation.kind, operation.from, operation.rlength);
        let node = self.processes[process as usize].nid - 1;
        let statistics = &mut self.nodes[node as usize].statistics;
        statistics.messages += 1;
        match kind {
            Kind::Put => statistics.puts += 1,
            Kind::Get => statistics.gets += 1,
            Kind::Atomic | Kind::FetchAtomic => statistics.atomics += 1,
        }
        match kind {
            Kind::Get => statistics.get_bytes += length,
            _ => statistics.put_bytes += length,
        }
        let Some(target) = self.process_at(to) else {
            return self.stillborn(now, &operation, &local, ack, atomic.as_ref(), FailType::Undeliverable, out);
        };
        let brings = kind != Kind::Get && length > 0;
        let pushed = inline.is_some() && length <= self.config.pio_limit.get();
        let dma = brings && !pushed && (triggered || length > self.config.inline_limit.get());
        let source = match dma {
            false => Source::Done,
            true if length <= self.config.buffered_limit.get() => Source::AtStart,
            true => Source::AtSourceDone,
        };
        let message = self.allocate(Message {
            phase: Phase::Request,
            operation,
            ack,
            target,
            local,
            dma,
            source,
            payload: brings && (inline.is_some() || !dma),
            head: false,
            tail: false,
            unread: 0,
            ready: SimTime::ZERO,
            result: Err(FailType::Dropped),
            started: SimTime::ZERO,
            transit: SimTime::ZERO,
            fault: false,
        });
        if let Some(bytes) = inline.filter(|_| brings) {
            out.inline(MessageId(message), bytes);
        } else if brings && !dma && out.capture(MessageId(message), Process(process), local.place(), length).is_err() {
            self.messages[message as usize].payload = false;
            self.finish(message, out);
            return self.stillborn(now, &operation, &local, ack, atomic.as_ref(), FailType::Segv, out);
        }
        if let Some(part) = atomic {
            self.atomics.insert(message, part);
        }
        if kind != Kind::Get && !dma {
            self.sent(now, process, &local, length, FailType::Ok, out);
        }
        self.launch(now, node, message, out);
    }

    /// An operation that never leaves the NIC.
    #[allow(clippy::too_many_arguments)]
    fn stillborn(
        &mut self,
        now: SimTime,
        operation: &Operation,
        local: &LocalBuffer,
        ack: AckRequest,
        atomic: Option<&AtomicPart>,
        fail: FailType,
        out: &mut impl Out,
    ) {
        let sent = if fail == FailType::Segv { fail } else { FailType::Undeliverable };
        if operation.kind != Kind::Get {
            self.sent(now, operation.from, local, operation.rlength, sent, out);
        }
        match operation.kind {
            Kind::Put | Kind::Atomic => self.acknowledged(now, operation.from, local, ack, operation, Err(fail), out),
            Kind::Get => self.replied(now, operation.from, local, operation, Err(fail), out),
            Kind::FetchAtomic => {
                let fetched = atomic.and_then(|part| part.fetched).unwrap_or(*local);
                self.replied(now, operation.from, &fetched, operation, Err(fail), out);
            }
        }
    }

    fn allocate(&mut self, message: Message) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.messages[slot as usize] = message;
            slot
        } else {
            self.messages.push(message);
            (self.messages.len() - 1) as u32
        }
    }

    pub(super) fn finish(&mut self, message: u32, out: &mut impl Out) {
        self.release(message, out);
        if !self.atomics.is_empty() {
            self.atomics.remove(&message);
        }
        let this = &mut self.messages[message as usize];
        if this.unread > 0 {
            this.phase = Phase::Over;
        } else {
            this.phase = Phase::Free;
            self.free.push(message);
        }
    }

    pub(super) fn release(&mut self, message: u32, out: &mut impl Out) {
        if std::mem::take(&mut self.messages[message as usize].payload) {
            out.release(MessageId(message));
        }
    }

    /// End-to-end window, then the transmit pipeline.
    fn launch(&mut self, now: SimTime, node: u32, message: u32, out: &mut impl Out) {
        let place = &mut self.nodes[node as usize];
        if place.outstanding < self.config.max_outstanding.max(1) {
            place.outstanding += 1;
            self.transmit(now, message, Role::Request, out);
        } else {
            place.waiting.push_back(message);
        }
    }

    /// One request of `node` has reached its target.
    pub(super) fn arrived(&mut self, now: SimTime, node: u32, out: &mut impl Out) {
        let place = &mut self.nodes[node as usize];
        match place.waiting.pop_front() {
            Some(next) => self.transmit(now, next, Role::Request, out),
            None => place.outstanding -= 1,
        }
    }

    /// The process at whose NIC a transfer starts.
    fn sender(&self, message: u32, role: Role) -> u32 {
        let message = &self.messages[message as usize];
        if role == Role::Request { message.operation.from } else { message.target }
    }

    pub(super) fn transmit(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let kind = self.messages[message as usize].operation.kind;
        let occupancy = match (role, kind) {
            (Role::Request, Kind::Get) => self.config.get_occupancy,
            (Role::Request, _) => self.config.put_occupancy,
            (Role::Response, Kind::Put | Kind::Atomic) => self.config.ack_occupancy,
            (Role::Response, Kind::Get | Kind::FetchAtomic) => self.config.response_occupancy,
        };
        let node = self.processes[self.sender(message, role) as usize].nid - 1;
        let at = self.nodes[node as usize].stages.transmit[role.index()].begin(now, occupancy);
        if at > now {
            out.schedule(at, node, Due::Transmit(message, role).encode());
        } else {
            self.read(now, message, role, out);
        }
    }

    /// The pipeline has the message: DMA read, when there is something to read.
    pub(super) fn read(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let process = self.sender(message, role) as usize;
        let node = self.processes[process].nid - 1;
        let this = &self.messages[message as usize];
        let target = this.target;
        let dma = match role {
            Role::Request => this.dma,
            Role::Response => this.operation.kind == Kind::Get && this.mlength() > 0,
        };
        let mut at = now;
        if dma {
            at = self.nodes[node as usize].stages.read(now, &self.config, &self.durations);
        }
        if role == Role::Request {
            let starting = &mut self.starting[process];
            starting.retain(|&(_, start)| start > now);
            at = starting.iter().filter(|&&(of, _)| of == target).fold(at, |at, &(_, start)| at.max(start));
            if at > now {
                starting.push((target, at));
            }
        }
        if at > now {
            out.schedule(at, node, Due::Start(message, role).encode());
        } else {
            self.start(now, message, role, out);
        }
    }

    /// The message starts on the network.
    pub(super) fn start(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let kind = this.operation.kind;
        let from = self.processes[this.operation.from as usize].nid - 1;
        let to = self.processes[this.target as usize].nid - 1;
        let transfer = match role {
            Role::Request => {
                let payload = if kind == Kind::Get { 0 } else { this.operation.rlength };
                self.nodes[from as usize].statistics.bytes_sent += payload;
                self.messages[message as usize].started = now;
                Transfer {
                    id: TransferId(2 * message),
                    source: from,
                    target: to,
                    virtual_network: COMPUTE_REQUEST,
                    payload: Bytes(payload + self.operand_bytes(message)),
                    source_dma: this.dma,
                    target_dma: payload > 0,
                }
            }
            Role::Response => {
                let (data, payload) = match kind {
                    Kind::Put | Kind::Atomic => (false, self.config.ack_size.get()),
                    Kind::Get | Kind::FetchAtomic => (this.mlength() > 0, this.mlength()),
                };
                if data {
                    self.nodes[to as usize].statistics.bytes_sent += payload;
                }
                // What an atomic fetched is in the NIC already.
                let source_dma = data && kind == Kind::Get;
                if source_dma {
                    self.messages[message as usize].source = Source::AtSourceDone;
                }
                Transfer {
                    id: TransferId(2 * message + 1),
                    source: to,
                    target: from,
                    virtual_network: COMPUTE_RESPONSE,
                    payload: Bytes(payload),
                    source_dma,
                    target_dma: data,
                }
            }
        };
        if role == Role::Request && this.source == Source::AtStart {
            self.source_done(now, message, role, out);
        }
        self.messages[message as usize].unread += 1;
        out.transfer(transfer);
        if role == Role::Response && kind == Kind::Get && !transfer.source_dma {
            self.got(now, message, out);
        }
    }

    /// A swap's operand travels beside its data.
    fn operand_bytes(&self, message: u32) -> u64 {
        if self.atomics.is_empty() {
            return 0;
        }
        let combine = self.atomics.get(&message).map(|part| part.combine);
        combine.filter(|combine| combine.operation.has_operand()).map_or(0, |combine| combine.datatype.size())
    }

    /// The payload has left the memory that it comes from.
    pub(super) fn source_done(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        let this = &mut self.messages[message as usize];
        if this.source == Source::Done {
            return;
        }
        this.source = Source::Done;
        let this = *this;
        let from = this.operation.from;
        match role {
            Role::Request => {
                let mut fail = FailType::Ok;
                if !this.payload {
                    match out.capture(MessageId(message), Process(from), this.local.place(), this.operation.rlength) {
                        Ok(()) => self.messages[message as usize].payload = true,
                        Err(_) => {
                            self.messages[message as usize].fault = true;
                            fail = FailType::Segv;
                        }
                    }
                }
                self.sent(now, from, &this.local, this.operation.rlength, fail, out);
            }
            Role::Response => {
                if let Ok(landing) = this.result {
                    let destination = this.local.place();
                    match out.fetch(MessageId(message), Process(this.target), landing.place, landing.mlength, Process(from), destination) {
                        Ok(()) => self.messages[message as usize].payload = true,
                        Err(_) => self.messages[message as usize].fault = true,
                    }
                }
                self.got(now, message, out);
            }
        }
    }

    /// SEND.
    fn sent(&mut self, now: SimTime, process: u32, local: &LocalBuffer, length: u64, fail: FailType, out: &mut impl Out) {
        let (interface, mut port) = interface!(self, now, process, out);
        let silent = local.options & md::EVENT_SEND_DISABLE != 0;
        if !silent && !quiet(local, fail) {
            let mlength = if fail == FailType::Ok { length } else { 0 };
            let event = FullEvent { fail, user_ptr: local.user_ptr, rlength: length, mlength, ..FullEvent::blank(EventKind::Send) };
            interface.post(local.eq, event, &mut port);
        }
        if local.options & md::EVENT_CT_SEND != 0 {
            interface.counters.count(local.ct, fail, bytes(local, length), &mut port);
        }
    }

    /// ACK.
    #[allow(clippy::too_many_arguments)]
    fn acknowledged(
        &mut self,
        now: SimTime,
        process: u32,
        local: &LocalBuffer,
        ack: AckRequest,
        operation: &Operation,
        result: Result<Landing, FailType>,
        out: &mut impl Out,
    ) {
        if ack == AckRequest::None {
            return;
        }
        let (interface, mut port) = interface!(self, now, process, out);
        let fail = result.err().unwrap_or(FailType::Ok);
        if ack == AckRequest::Full && !quiet(local, fail) {
            interface.post(local.eq, initiator_event(EventKind::Ack, local, operation, result), &mut port);
        }
        if local.options & md::EVENT_CT_ACK != 0 {
            interface.counters.count(local.ct, fail, bytes(local, result.map_or(0, |landing| landing.mlength)), &mut port);
        }
    }

    /// REPLY.
    fn replied(
        &mut self,
        now: SimTime,
        process: u32,
        local: &LocalBuffer,
        operation: &Operation,
        result: Result<Landing, FailType>,
        out: &mut impl Out,
    ) {
        let (interface, mut port) = interface!(self, now, process, out);
        let fail = result.err().unwrap_or(FailType::Ok);
        if !quiet(local, fail) {
            interface.post(local.eq, initiator_event(EventKind::Reply, local, operation, result), &mut port);
        }
        if local.options & md::EVENT_CT_REPLY != 0 {
            interface.counters.count(local.ct, fail, bytes(local, result.map_or(0, |landing| landing.mlength)), &mut port);
        }
    }

    /// Where the answer of a get or fetching atomic goes.
    fn destination(&self, message: u32) -> LocalBuffer {
        let this = &self.messages[message as usize];
        match this.operation.kind {
            Kind::FetchAtomic => self.atomics.get(&message).and_then(|part| part.fetched).unwrap_or(this.local),
            _ => this.local,
        }
    }

    /// All of a response is in the initiator's NIC.
    pub(super) fn tail_of_response(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        match this.operation.kind {
            Kind::Get | Kind::FetchAtomic => {
                let write = if this.mlength() > 0 { self.config.dma_latency } else { SimTime::ZERO };
                self.landed_at(now, now + write, message, Role::Response, out);
            }
            Kind::Put | Kind::Atomic => self.acknowledge(now, message, out),
        }
    }

    /// An acknowledgement is in the initiator's NIC.
    pub(super) fn acknowledge(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        self.acknowledged(now, this.operation.from, &this.local, this.ack, &this.operation, this.outcome(), out);
        self.finish(message, out);
    }

    /// The answer of a get or fetching atomic is in memory.
    pub(super) fn answered(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let destination = self.destination(message);
        let mut result = this.outcome();
        if let Ok(landing) = result
            && landing.mlength > 0
            && self.deliver(message, this.operation.from, destination.place(), landing.mlength, out).is_err()
        {
            result = Err(FailType::Segv);
        }
        self.replied(now, this.operation.from, &destination, &this.operation, result, out);
        self.finish(message, out);
    }
}

/// `EVENT_SUCCESS_DISABLE` of an MD: only failures raise events.
fn quiet(local: &LocalBuffer, fail: FailType) -> bool {
    fail == FailType::Ok && local.options & md::EVENT_SUCCESS_DISABLE != 0
}

/// `EVENT_CT_BYTES` of an MD: what a success counts. SEND counts what was sent, ACK and REPLY what
/// the target accepted.
fn bytes(local: &LocalBuffer, length: u64) -> Option<u64> {
    (local.options & md::EVENT_CT_BYTES != 0).then_some(length)
}

fn initiator_event(kind: EventKind, local: &LocalBuffer, operation: &Operation, result: Result<Landing, FailType>) -> FullEvent {
    let (fail, list, mlength, remote_offset) = match result {
        Ok(landing) => (FailType::Ok, landing.list, landing.mlength, landing.offset),
        Err(fail) => (fail, List::Priority, 0, operation.offset),
    };
    FullEvent { fail, list, mlength, remote_offset, rlength: operation.rlength, user_ptr: local.user_ptr, ..FullEvent::blank(kind) }
}
