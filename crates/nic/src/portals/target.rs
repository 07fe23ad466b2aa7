//! The target's side: matching, memory, acknowledgements, and what is refused and comes again.

use std::cmp::Reverse;

use narrows_portals::FailType;
use narrows_units::{Bytes, SimTime};

use super::message::{Due, Header, Incoming, Phase, Request, Response, Role};
use super::{COMPUTE_RESPONSE, Port, Portals, Written, interface, token, word};
use crate::out::{Departure, Fault, Out};
use narrows_matching::{Arrival, RequestKind};

impl Portals {
    /// The header of a request is here.
    pub(super) fn head_of_request(&mut self, now: SimTime, request: &Request, out: &mut impl Out<Portals>) -> u32 {
        if let Some(bridged) = request.bridged() {
            return self.head_of_bridged(now, request, bridged, out);
        }
        self.take_request(now, request, out)
    }

    /// A half for it, which is matched.
    pub(super) fn take_request(&mut self, now: SimTime, request: &Request, out: &mut impl Out<Portals>) -> u32 {
        let message = self.new_incoming(request);
        self.matching(now, message, false, out);
        message
    }

    pub(super) fn new_incoming(&mut self, request: &Request) -> u32 {
        let process = self.locals.binary_search_by_key(&request.target.pid, |local| local.place.pid);
        self.incoming.insert(Incoming {
            request: *request,
            phase: Phase::Matched,
            process: process.expect("the initiator found the target in the directory") as u32,
            tail: false,
            acknowledged: false,
            unread: false,
            response: None,
            ready: SimTime::ZERO,
            result: Err(FailType::Dropped),
            fault: false,
        })
    }

    /// Matching of a request, `again` after a refusal.
    fn matching(&mut self, now: SimTime, message: u32, again: bool, out: &mut impl Out<Portals>) {
        let this = self.incoming.at_mut(message);
        let operation = &this.request.operation;
        let (interface, mut port) = interface!(self, now, this.process, out);
        let (arrival, visited) = match again {
            false => interface.arrive(operation, &mut port),
            true => interface.match_lists(operation, &mut port),
        };
        let ready = port.engine.stages.matched(now, visited, &port.common.config);
        if matches!(arrival, Arrival::Refused(_)) {
            port.engine.statistics.drops += 1;
        }
        if matches!(arrival, Arrival::Hold) && !again {
            interface.hold(operation.pt, operation.initiator, message);
        }
        this.ready = ready;
        this.phase = Phase::Matched;
        match arrival {
            Arrival::Matched(landing) => this.result = Ok(landing),
            Arrival::Refused(fail) => this.result = Err(fail),
            Arrival::Hold => this.phase = Phase::Held,
        }
    }

    /// All of a request is here.
    pub(super) fn tail_of_request(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.incoming.at_mut(message);
        this.tail = true;
        let (held, answers) = (this.phase == Phase::Held, this.answers());
        if held || !answers {
            self.send_received(now, message, !answers, out);
        }
        if !held {
            self.land(now, message, out);
        }
    }

    /// All of a request is here, and matched.
    fn land(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.incoming.at(message);
        let (kind, process) = (this.request.operation.kind, this.process);
        let config = &self.common.config;
        // The event of a put waits for nothing more: posted writes over PCIe do not pass each other, so the host sees
        // it behind the data (docs/decisions/0011-nic-timing.md).
        let mut at = now.max(this.ready);
        if this.mlength() > 0 && matches!(kind, RequestKind::Atomic | RequestKind::FetchAtomic) {
            at = self.engine.stages.atomic(at, config, &self.common.durations);
        }
        // Section 3.15: an atomic takes longer than a put that comes behind it.
        let length = this.request.operation.rlength;
        if kind != RequestKind::Get && length > 0 && length <= config.limits.max_waw_ordered_size.get() {
            let last = self.locals[process as usize].written.entry(word(this.request.operation.initiator)).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.landed_at(now, at, message, Role::Request, out);
    }

    pub(super) fn landed_at(&mut self, now: SimTime, at: SimTime, message: u32, role: Role, out: &mut impl Out<Portals>) {
        if at > now {
            return out.schedule(at, self.port, Due::Landed(message, role).encode());
        }
        match role {
            Role::Request => self.landed(now, message, out),
            Role::Response => self.answered(now, message, out),
        }
    }

    /// The data of a request are in memory.
    pub(super) fn landed(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        match self.incoming.at(message).request.operation.kind {
            RequestKind::Get => self.respond(now, message, out),
            RequestKind::FetchAtomic => {
                self.settle_data(now, message, out);
                self.respond(now, message, out);
            }
            RequestKind::Put | RequestKind::Atomic => {
                if self.waits_for_first(message) {
                    return;
                }
                let this = self.incoming.at(message);
                let wanted = this.request.ack;
                let allowed = match this.result {
                    Ok(landing) => self.interfaces[this.process as usize].acknowledges(&landing),
                    Err(_) => true,
                };
                self.settle_data(now, message, out);
                if wanted && allowed {
                    return self.send_ack(now, message, out);
                }
                if wanted {
                    self.send_received(now, message, true, out);
                }
                self.finish(message, out);
            }
        }
    }

    /// Forgets the target's half.
    fn finish(&mut self, message: u32, out: &mut impl Out<Portals>) {
        if let Some(payload) = self.incoming.remove(message).and_then(|this| this.request.payload) {
            out.release(payload);
        }
    }

    /// Writes or combines the data of a put or atomic, and completes the operation at the target.
    fn settle_data(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.incoming.at_mut(message);
        let Ok(landing) = this.result else { return };
        if let Some(payload) = this.request.payload
            && landing.mlength > 0
        {
            self.engine.statistics.bytes_received += landing.mlength;
            let process = self.locals[this.process as usize].process;
            if this.request.combine.is_none() && !landing.place.may_fault && out.has_bytes(payload) {
                // Who looks at its memory sees the data when they have crossed PCIe, before the event.
                this.request.payload = None;
                self.engine.data.push_back(Written { payload, process, place: landing.place, length: landing.mlength });
                out.schedule(now + self.common.config.pcie_latency, self.port, Due::Data.encode());
                return self.complete(now, message, out);
            }
            // What has landed before must not overwrite this.
            for earlier in self.engine.data.drain(..) {
                self.engine.hurried += 1;
                earlier.deliver(out);
            }
            let written: Result<(), Fault> = match &this.request.combine {
                None => out.deliver(payload, process, landing.place, landing.mlength),
                Some(combine) => out.combine(payload, process, landing.place, landing.mlength, combine),
            };
            this.fault |= written.is_err();
        }
        self.complete(now, message, out);
    }

    /// Events and counts at the target.
    fn complete(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.incoming.at(message);
        let Ok(landing) = &this.result else { return };
        let fail = if this.fault { FailType::Segv } else { FailType::Ok };
        let (process, bridged) = (this.process, this.request.bridged());
        let (interface, mut port) = interface!(self, now, process, out);
        interface.complete(&this.request.operation, landing, fail, &mut port);
        if let Some(bridged) = bridged {
            self.bridged_is_here(now, message, bridged, out);
        }
        self.schedule_retries(now, process, out);
    }

    /// The answer of a get or fetching atomic is ready to go.
    fn respond(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        self.incoming.at_mut(message).phase = Phase::Response;
        self.transmit(now, message, Role::Response, out);
    }

    fn send_ack(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        self.engine.statistics.acks += 1;
        if !self.common.config.quick_ack {
            return self.respond(now, message, out);
        }
        let this = self.incoming.at(message);
        let response = Response { handle: this.request.handle, ends: this.request.answer_ends(), result: this.outcome(), payload: None };
        self.send_small(now, self.asker(&this.request), Header::Response(response), out);
        self.finish(message, out);
    }

    /// An answer starts on the network.
    pub(super) fn start_response(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = self.incoming.at(message);
        let (kind, handle, result) = (this.request.operation.kind, this.request.handle, this.outcome());
        let ends = this.request.answer_ends();
        if matches!(kind, RequestKind::Put | RequestKind::Atomic) {
            let header = Header::Response(Response { handle, ends, result, payload: None });
            self.send_small(now, self.asker(&this.request), header, out);
            return self.finish(message, out);
        }
        let initiator = this.request.operation.initiator;
        let length = result.map_or(0, |accepted| accepted.mlength);
        // What an atomic fetched is in the NIC already.
        let read = kind == RequestKind::Get && length > 0;
        let payload = match kind {
            RequestKind::Get => read.then(|| out.reserve()),
            _ => this.request.payload,
        };
        if length > 0 {
            self.engine.statistics.bytes_sent += length;
        }
        let half = self.incoming.at_mut(message);
        (half.unread, half.request.payload) = (read, None);
        half.response = payload;
        let departure = Departure {
            to: self.common.directory.port_at(initiator, self.rail).expect("it came from there"),
            virtual_network: COMPUTE_RESPONSE,
            payload: Bytes(length),
            source_dma: read,
            target_dma: length > 0,
            token: token(message, Role::Response),
            header: Header::Response(Response { handle, ends, result, payload }),
        };
        out.depart(self.port, departure);
        if !read {
            if kind == RequestKind::Get {
                self.complete(now, message, out);
            }
            self.finish(message, out);
        }
    }

    /// The network has read all of what a get asked for.
    pub(super) fn response_read(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let this = *self.incoming.at(message);
        if !this.unread {
            return;
        }
        if let (Ok(landing), Some(payload)) = (this.result, this.response) {
            let process = self.locals[this.process as usize].process;
            let initiator = self.common.directory.process_at(this.request.operation.initiator).expect("it came from there");
            let read = out.fetch(payload, process, landing.place, landing.mlength, initiator, this.request.destination());
            self.incoming.at_mut(message).fault |= read.is_err();
        }
        self.complete(now, message, out);
        self.finish(message, out);
    }

    /// What `process` holds is repeated a while after there is a place for it.
    pub(super) fn schedule_retries(&mut self, now: SimTime, process: u32, out: &mut impl Out<Portals>) {
        let at = now + self.common.config.retry_interval;
        self.interfaces[process as usize].take_relieved(|pt| out.schedule(at, self.port, Due::Retry(process, pt).encode()));
    }

    /// All initiators repeat what table entry `pt` of `process` refused, in order of arrival; an
    /// initiator that is refused again repeats nothing more.
    pub(super) fn retry(&mut self, now: SimTime, process: u32, pt: u32, out: &mut impl Out<Portals>) {
        let mut firsts = std::mem::take(&mut self.firsts);
        self.interfaces[process as usize].begin_retry(pt, &mut firsts);
        while let Some(Reverse((_, from))) = firsts.pop() {
            let Some(message) = self.interfaces[process as usize].first_held(pt, from) else { continue };
            self.matching(now, message, true, out);
            let this = *self.incoming.at(message);
            if this.phase == Phase::Held {
                continue;
            }
            if let Some(next) = self.interfaces[process as usize].take_held(pt, from) {
                firsts.push(Reverse((next, from)));
            }
            self.engine.statistics.retries += u64::from(this.result.is_ok());
            if this.tail {
                self.land(now, message, out);
            }
        }
        self.firsts = firsts;
    }

    /// Messages that were held are refused for good.
    pub(super) fn refuse(&mut self, now: SimTime, messages: &mut Vec<u32>, fail: FailType, out: &mut impl Out<Portals>) {
        for message in messages.drain(..) {
            let this = self.incoming.at_mut(message);
            this.phase = Phase::Matched;
            this.result = Err(fail);
            let tail = this.tail;
            self.engine.statistics.drops += 1;
            if tail {
                self.land(now, message, out);
            }
        }
    }
}
