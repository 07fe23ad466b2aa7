//! The initiator's side: from a command to a transfer, and what comes back.

use narrows_portals::{AckRequest, Event as FullEvent, EventKind, FailType, List, LocalBuffer, ProcessId, md};
use narrows_units::{Bytes, PortId, SimTime};

use super::message::{Accepted, AtomicPart, Beside, Bridged, Due, Handle, Header, Outgoing, Received, Request, Response, Role, Source};
use super::{COMPUTE_REQUEST, COMPUTE_RESPONSE, Engine, Port, Portals, Starting, interface, role_of, token};
use crate::config::{NicConfig, Transmit};
use crate::error::Denied;
use crate::out::{Departure, Out};
use narrows_matching::{Operation, RequestKind};

/// What a command asks to be sent.
pub(super) struct Order {
    pub operation: Operation,
    pub to: ProcessId,
    pub local: LocalBuffer,
    pub inline: Option<Box<[u8]>>,
    pub ack: AckRequest,
    pub atomic: Option<AtomicPart>,
    /// Of a put that passes a gateway: its target, if `to` is the gateway, and what its header has more.
    pub bridged: Option<(ProcessId, Bridged)>,
    /// Nothing came with the command: the NIC reads all of the payload.
    pub triggered: bool,
}

impl Portals {
    pub(super) fn request(&mut self, now: SimTime, process: u32, order: Order, out: &mut impl Out<Portals>) {
        let Order { operation, to, local, inline, ack, atomic, bridged, triggered } = order;
        let (kind, length) = (operation.kind, operation.rlength);
        let statistics = &mut self.engine.statistics;
        statistics.messages += 1;
        match kind {
            RequestKind::Put => statistics.puts += 1,
            RequestKind::Get => statistics.gets += 1,
            RequestKind::Atomic | RequestKind::FetchAtomic => statistics.atomics += 1,
        }
        match kind {
            RequestKind::Get => statistics.get_bytes += length,
            _ => statistics.put_bytes += length,
        }
        if self.common.directory.process_at(to).is_none() || self.common.directory.port_at(to, self.rail).is_none() {
            return self.stillborn(now, process, &operation, &local, ack, atomic.as_ref(), FailType::Undeliverable, out);
        }
        let config = &self.common.config;
        let brings = kind != RequestKind::Get && length > 0;
        let (inside, with_pio) = config.carried(operation.pt);
        let pushed = inline.is_some() && length <= with_pio;
        let dma = brings && !pushed && (triggered || length > inside);
        let source = match dma {
            false => Source::Done,
            true if length <= config.buffered_limit.get() => Source::AtStart,
            true => Source::AtSourceDone,
        };
        let payload = brings.then(|| out.reserve());
        let mut taken = false;
        if let Some(payload) = payload {
            if let Some(bytes) = inline {
                out.inline(payload, bytes);
                taken = true;
            } else if !dma && out.capture(payload, self.locals[process as usize].process, local.place(), length).is_err() {
                out.release(payload);
                return self.stillborn(now, process, &operation, &local, ack, atomic.as_ref(), FailType::Segv, out);
            }
        }
        self.serial = self.serial.wrapping_add(1);
        let message = self.outgoing.insert(Outgoing {
            serial: self.serial,
            operation,
            process,
            target: to,
            ack,
            local,
            dma,
            source,
            payload,
            taken,
            unread: false,
            outstanding: false,
            open: true,
            fault: false,
            answer: None,
        });
        if let Some(part) = atomic {
            self.atomics.insert(message, part);
        }
        if let Some(part) = bridged {
            self.bridge.outgoing.insert(message, part);
        }
        if kind != RequestKind::Get && !dma {
            self.sent(now, process, &local, length, FailType::Ok, out);
        }
        self.launch(now, message, out);
    }

    /// An operation that never leaves the NIC.
    #[allow(clippy::too_many_arguments)]
    fn stillborn(
        &mut self,
        now: SimTime,
        process: u32,
        operation: &Operation,
        local: &LocalBuffer,
        ack: AckRequest,
        atomic: Option<&AtomicPart>,
        fail: FailType,
        out: &mut impl Out<Portals>,
    ) {
        let sent = if fail == FailType::Segv { fail } else { FailType::Undeliverable };
        if operation.kind != RequestKind::Get {
            self.sent(now, process, local, operation.rlength, sent, out);
        }
        match operation.kind {
            RequestKind::Put | RequestKind::Atomic => self.acknowledged(now, process, local, ack, operation, Err(fail), out),
            RequestKind::Get => self.replied(now, process, local, operation, Err(fail), out),
            RequestKind::FetchAtomic => {
                let fetched = atomic.and_then(|part| part.fetched).unwrap_or(*local);
                self.replied(now, process, &fetched, operation, Err(fail), out);
            }
        }
    }

    /// Forgets the initiator's half if nothing will come for it any more.
    fn close(&mut self, message: u32) {
        let this = self.outgoing.at(message);
        if !this.open && !this.unread {
            self.outgoing.remove(message);
            if !self.atomics.is_empty() {
                self.atomics.remove(&message);
            }
            if !self.bridge.outgoing.is_empty() {
                self.bridge.outgoing.remove(&message);
            }
        }
    }

    /// End-to-end window, then the transmit pipeline.
    fn launch(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        self.outgoing.at_mut(message).outstanding = true;
        if self.takes_place(message) {
            self.transmit(now, message, Role::Request, out);
        } else {
            self.engine.waiting.push_back(message);
        }
    }

    /// Takes a place in the end-to-end window, if there is one for this request. Those of one process to another are
    /// alike, so that none passes another.
    fn takes_place(&mut self, message: u32) -> bool {
        let NicConfig { max_outstanding, max_in_flight_to_node, max_in_flight_to_process, .. } = self.common.config;
        let Outgoing { process, target, .. } = *self.outgoing.at(message);
        let Engine { outstanding, to_node, to_process, .. } = &mut self.engine;
        if *outstanding >= max_outstanding.max(1)
            || max_in_flight_to_node > 0 && to_node.get(&target.nid).is_some_and(|&count| count >= max_in_flight_to_node)
            || max_in_flight_to_process > 0 && to_process.get(&(target, process)).is_some_and(|&count| count >= max_in_flight_to_process)
        {
            return false;
        }
        *outstanding += 1;
        if max_in_flight_to_node > 0 {
            *to_node.entry(target.nid).or_default() += 1;
        }
        if max_in_flight_to_process > 0 {
            *to_process.entry((target, process)).or_default() += 1;
        }
        true
    }

    /// Gives it back, to those that wait.
    fn frees_place(&mut self, now: SimTime, process: u32, target: ProcessId, out: &mut impl Out<Portals>) {
        let Engine { outstanding, to_node, to_process, .. } = &mut self.engine;
        *outstanding -= 1;
        if let Some(count) = to_node.get_mut(&target.nid) {
            *count -= 1;
        }
        if let Some(count) = to_process.get_mut(&(target, process)) {
            *count -= 1;
        }
        let mut place = 0;
        while let Some(&next) = self.engine.waiting.get(place)
            && self.engine.outstanding < self.common.config.max_outstanding.max(1)
        {
            if self.takes_place(next) {
                self.engine.waiting.remove(place);
                self.transmit(now, next, Role::Request, out);
            } else {
                place += 1;
            }
        }
    }

    /// The slot of the initiator's half that an answer names; its place in the end-to-end window is free for the next
    /// one.
    fn settle_window(&mut self, now: SimTime, handle: Handle, out: &mut impl Out<Portals>) -> Option<u32> {
        let this = self.outgoing.get_mut(handle.slot).filter(|this| this.serial == handle.serial)?;
        let (process, target) = (this.process, this.target);
        if std::mem::take(&mut this.outstanding) {
            self.frees_place(now, process, target, out);
        }
        Some(handle.slot)
    }

    /// The target's end-to-end layer has all of a request.
    pub(super) fn received(&mut self, now: SimTime, received: &Received, out: &mut impl Out<Portals>) {
        if let Some(slot) = self.settle_window(now, received.handle, out)
            && received.last
        {
            self.outgoing.at_mut(slot).open = false;
            self.close(slot);
        }
    }

    pub(super) fn transmit(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out<Portals>) {
        if self.common.config.transmit == Transmit::OneByOne {
            self.engine.queued[role.index()].push_back(message);
            return self.send_next(now, role, out);
        }
        let at = self.engine.stages.transmit[role.index()].begin(now, self.occupancy(message, role));
        // A pipeline that is busy for no time may have one at this very time whose event comes after this one.
        let before = &mut self.engine.transmitting[role.index()];
        if at > now || *before > 0 {
            *before += 1;
            out.schedule(at, self.port, Due::Transmit(message, role).encode());
        } else {
            self.read(now, message, role, out);
        }
    }

    /// A pipeline that sends one by one takes the next message, unless it has one.
    fn send_next(&mut self, now: SimTime, role: Role, out: &mut impl Out<Portals>) {
        if self.engine.sending[role.index()] {
            return;
        }
        let Some(message) = self.engine.queued[role.index()].pop_front() else { return };
        self.engine.sending[role.index()] = true;
        if !self.reads(message, role) {
            out.schedule(now + self.occupancy(message, role), self.port, Due::Sent(role).encode());
        }
        self.read(now, message, role, out);
    }

    /// It is through with a message.
    pub(super) fn sent_one(&mut self, now: SimTime, role: Role, out: &mut impl Out<Portals>) {
        self.engine.sending[role.index()] = false;
        self.send_next(now, role, out);
    }

    fn occupancy(&self, message: u32, role: Role) -> SimTime {
        let config = &self.common.config;
        match role {
            Role::Request => match self.outgoing.at(message).operation.kind {
                RequestKind::Get => config.get_occupancy,
                _ => config.put_occupancy,
            },
            Role::Response => match self.incoming.at(message).request.operation.kind {
                RequestKind::Put | RequestKind::Atomic => config.ack_occupancy,
                RequestKind::Get | RequestKind::FetchAtomic => config.response_occupancy,
            },
        }
    }

    /// The payload is read by DMA.
    fn reads(&self, message: u32, role: Role) -> bool {
        match role {
            Role::Request => self.outgoing.at(message).dma,
            Role::Response => {
                let this = self.incoming.at(message);
                this.request.operation.kind == RequestKind::Get && this.mlength() > 0
            }
        }
    }

    /// The pipeline has the message: DMA read, when there is something to read.
    pub(super) fn read(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out<Portals>) {
        let mut at = now;
        if self.reads(message, role) {
            at = self.engine.stages.read(now, &self.common.config, &self.common.durations);
        }
        let mut waits = at > now;
        if role == Role::Request {
            let this = self.outgoing.at(message);
            let starting = &mut self.locals[this.process as usize].starting;
            // One whose start is due at this very time has not started: that event may come after this one.
            for before in starting.iter().filter(|before| before.target == this.target) {
                (at, waits) = (at.max(before.at), true);
            }
            if waits {
                starting.push(Starting { target: this.target, at, message });
            }
        }
        if waits {
            out.schedule(at, self.port, Due::Start(message, role).encode());
        } else {
            self.start(now, message, role, out);
        }
    }

    /// The time has come that [`Portals::read`] gave a message.
    pub(super) fn start_due(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out<Portals>) {
        if role == Role::Request {
            let process = self.outgoing.at(message).process;
            self.locals[process as usize].starting.retain(|starting| starting.message != message);
        }
        self.start(now, message, role, out);
    }

    /// The message starts on the network.
    fn start(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out<Portals>) {
        match role {
            Role::Request => self.start_request(now, message, out),
            Role::Response => self.start_response(now, message, out),
        }
    }

    fn start_request(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        if self.outgoing.at(message).source == Source::AtStart {
            self.capture(now, message, out);
        } else if self.handling.is_some() {
            // Handlers see the first packet before the last one has been read.
            self.request_taken(message, out);
        }
        let combine = if self.atomics.is_empty() { None } else { self.atomics.get(&message).map(|part| part.combine) };
        let bridged = if self.bridge.outgoing.is_empty() { None } else { self.bridge.outgoing.get(&message).copied() };
        let this = self.outgoing.at_mut(message);
        let Outgoing { serial, operation, target, dma, payload, .. } = *this;
        let data = if operation.kind == RequestKind::Get { 0 } else { operation.rlength };
        this.unread = dma;
        self.engine.statistics.bytes_sent += data;
        // A swap's operand travels beside its data.
        let operand = combine.filter(|combine| combine.operation.has_operand()).map_or(0, |combine| combine.datatype.size());
        let header = Header::Request(Request {
            operation,
            target: bridged.map_or(target, |(target, _)| target),
            handle: Handle { slot: message, serial },
            ack: matches!(operation.kind, RequestKind::Put | RequestKind::Atomic) && this.ack != AckRequest::None,
            combine,
            payload,
            beside: bridged.map_or_else(|| Beside::Destination(this.local.place()), |(_, part)| Beside::Bridged(part)),
        });
        let departure = Departure {
            to: self.common.directory.port_at(target, self.rail).expect("the target was found when the request was made"),
            virtual_network: COMPUTE_REQUEST,
            payload: Bytes(data + operand),
            source_dma: dma,
            target_dma: data > 0,
            token: token(message, Role::Request),
            header,
        };
        out.depart(self.port, departure);
    }

    /// The end-to-end layer has all of a request that has no answer, or none yet.
    pub(super) fn send_received(&mut self, now: SimTime, message: u32, last: bool, out: &mut impl Out<Portals>) {
        let this = self.incoming.at_mut(message);
        if std::mem::replace(&mut this.acknowledged, true) && !last {
            return;
        }
        let header = Header::Received(Received { handle: this.request.handle, ends: this.request.answer_ends(), last });
        let to = self.asker(&self.incoming.at(message).request);
        self.send_small(now, to, header, out);
    }

    /// The port that gets the answers to a request.
    pub(super) fn asker(&self, request: &Request) -> PortId {
        let port = match request.bridged() {
            None => self.common.directory.port_at(request.operation.initiator, self.rail),
            Some(bridged) => self.common.directory.port(bridged.from, self.rail),
        };
        port.expect("it came from there")
    }

    /// Sends what is nothing but a header.
    pub(super) fn send_small(&mut self, now: SimTime, to: PortId, header: Header, out: &mut impl Out<Portals>) {
        if self.common.config.quick_ack {
            // It takes no time, and is no load on anything.
            return out.shortcut(now, self.port, to, header);
        }
        let departure = Departure {
            to,
            virtual_network: COMPUTE_RESPONSE,
            payload: self.common.config.ack_size,
            source_dma: false,
            target_dma: false,
            token: u32::MAX,
            header,
        };
        out.depart(self.port, departure);
    }

    /// The network has read all of a request's payload.
    pub(super) fn request_read(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        self.outgoing.at_mut(message).unread = false;
        self.capture(now, message, out);
        self.close(message);
    }

    /// The same, but its memory is not free before all of it has been acknowledged: SEND comes with
    /// [`Portals::request_read`].
    pub(super) fn request_taken(&mut self, message: u32, out: &mut impl Out<Portals>) {
        let this = self.outgoing.at_mut(message);
        let Outgoing { process, local, operation, payload, taken, source, .. } = *this;
        if source == Source::Done || std::mem::replace(&mut this.taken, true) || taken {
            return;
        }
        if let Some(payload) = payload
            && out.capture(payload, self.locals[process as usize].process, local.place(), operation.rlength).is_err()
        {
            self.outgoing.at_mut(message).fault = true;
        }
    }

    /// The payload of a request has left the memory that it comes from.
    fn capture(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.outgoing.at_mut(message);
        if std::mem::replace(&mut this.source, Source::Done) == Source::Done {
            return;
        }
        let Outgoing { process, local, operation, payload, taken, fault, .. } = *this;
        let mut fail = if fault { FailType::Segv } else { FailType::Ok };
        if let Some(payload) = payload.filter(|_| !taken)
            && out.capture(payload, self.locals[process as usize].process, local.place(), operation.rlength).is_err()
        {
            self.outgoing.at_mut(message).fault = true;
            fail = FailType::Segv;
        }
        self.sent(now, process, &local, operation.rlength, fail, out);
    }

    /// SEND.
    fn sent(&mut self, now: SimTime, process: u32, local: &LocalBuffer, length: u64, fail: FailType, out: &mut impl Out<Portals>) {
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
        result: Result<Accepted, FailType>,
        out: &mut impl Out<Portals>,
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
            interface.counters.count(local.ct, fail, bytes(local, result.map_or(0, |accepted| accepted.mlength)), &mut port);
        }
    }

    /// REPLY.
    fn replied(
        &mut self,
        now: SimTime,
        process: u32,
        local: &LocalBuffer,
        operation: &Operation,
        result: Result<Accepted, FailType>,
        out: &mut impl Out<Portals>,
    ) {
        let (interface, mut port) = interface!(self, now, process, out);
        let fail = result.err().unwrap_or(FailType::Ok);
        if !quiet(local, fail) {
            interface.post(local.eq, initiator_event(EventKind::Reply, local, operation, result), &mut port);
        }
        if local.options & md::EVENT_CT_REPLY != 0 {
            interface.counters.count(local.ct, fail, bytes(local, result.map_or(0, |accepted| accepted.mlength)), &mut port);
        }
    }

    /// All of an answer is in the NIC.
    pub(super) fn tail_of_response(&mut self, now: SimTime, response: &Response, out: &mut impl Out<Portals>) {
        let Some(slot) = self.settle_window(now, response.handle, out) else { return };
        match self.outgoing.at(slot).operation.kind {
            RequestKind::Get | RequestKind::FetchAtomic => {
                let mlength = response.result.map_or(0, |accepted| accepted.mlength);
                let at = if mlength > 0 { now + self.common.config.dma_latency } else { now };
                self.outgoing.at_mut(slot).answer = Some(*response);
                self.landed_at(now, at, slot, Role::Response, out);
            }
            RequestKind::Put | RequestKind::Atomic => {
                let Outgoing { process, local, ack, operation, fault, .. } = *self.outgoing.at(slot);
                let result = if fault && response.result.is_ok() { Err(FailType::Segv) } else { response.result };
                self.acknowledged(now, process, &local, ack, &operation, result, out);
                self.outgoing.at_mut(slot).open = false;
                self.close(slot);
            }
        }
    }

    /// The NIC of the target has refused a request, whose process is in the first of these protection domains and whose
    /// target is in the second: nothing was written there, and its answer says so here.
    pub(crate) fn denied(&mut self, now: SimTime, token: u32, domains: (u16, u16), out: &mut impl Out<Portals>) -> Option<Denied> {
        let (slot, Role::Request) = role_of(token) else { return None };
        let Outgoing { serial, operation, process, target, payload, .. } = *self.outgoing.get(slot)?;
        if let Some(payload) = payload {
            out.release(payload);
        }
        let ends = (target, operation.initiator);
        let response = Response { handle: Handle { slot, serial }, ends, result: Err(FailType::PermViolation), payload: None };
        self.tail_of_response(now, &response, out);
        let (domain, target_domain) = domains;
        let process = self.locals[process as usize].process;
        Some(Denied { at: now, process, domain, target, target_domain, entry: operation.pt, offset: operation.offset })
    }

    /// The answer of a get or fetching atomic is in memory.
    pub(super) fn answered(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = *self.outgoing.at(message);
        let Some(Response { result, payload, .. }) = this.answer else { return };
        let destination = match this.operation.kind {
            RequestKind::FetchAtomic => self.atomics.get(&message).and_then(|part| part.fetched).unwrap_or(this.local),
            _ => this.local,
        };
        let mut result = if this.fault && result.is_ok() { Err(FailType::Segv) } else { result };
        if let Ok(accepted) = result
            && let Some(payload) = payload
            && accepted.mlength > 0
        {
            self.engine.statistics.bytes_received += accepted.mlength;
            let process = self.locals[this.process as usize].process;
            if out.deliver(payload, process, destination.place(), accepted.mlength).is_err() {
                result = Err(FailType::Segv);
            }
        }
        if let Some(payload) = payload {
            out.release(payload);
        }
        self.replied(now, this.process, &destination, &this.operation, result, out);
        let this = self.outgoing.at_mut(message);
        (this.open, this.answer) = (false, None);
        self.close(message);
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

fn initiator_event(kind: EventKind, local: &LocalBuffer, operation: &Operation, result: Result<Accepted, FailType>) -> FullEvent {
    let (fail, list, mlength, remote_offset) = match result {
        Ok(accepted) => (FailType::Ok, accepted.list, accepted.mlength, accepted.offset),
        Err(fail) => (fail, List::Priority, 0, operation.offset),
    };
    FullEvent { fail, list, mlength, remote_offset, rlength: operation.rlength, user_ptr: local.user_ptr, ..FullEvent::blank(kind) }
}
