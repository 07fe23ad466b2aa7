//! The target's side: matching, memory, acknowledgements, and what is refused and comes again.

use std::cmp::Reverse;

use narrows_portals::{AckRequest, FailType, Place};
use narrows_units::SimTime;

use super::{Nics, Port};
use crate::message::{Due, Phase, Role};
use crate::out::{Fault, MessageId, Out, Process};
use crate::portal::{Arrival, Kind};

impl Nics {
    /// The header of a request is in the target's NIC, or `again` after a refusal: matching.
    pub(super) fn matching(&mut self, now: SimTime, message: u32, again: bool, out: &mut impl Out) {
        let this = &self.messages[message as usize];
        let (target, operation) = (this.target, this.operation);
        let (interface, mut port) = interface!(self, now, target, out);
        let (arrival, visited) = match again {
            false => interface.arrive(&operation, &mut port),
            true => interface.match_lists(&operation, &mut port),
        };
        let ready = port.node.stages.matched(now, visited, &self.config);
        if matches!(arrival, Arrival::Refused(_)) {
            port.node.statistics.drops += 1;
        }
        let this = &mut self.messages[message as usize];
        this.ready = ready;
        this.phase = Phase::Request;
        match arrival {
            Arrival::Matched(landing) => this.result = Ok(landing),
            Arrival::Refused(fail) => this.result = Err(fail),
            Arrival::Hold => {
                this.phase = Phase::Held;
                if !again {
                    interface.hold(operation.pt, operation.from, message);
                }
            }
        }
    }

    /// All of a request is in the target's NIC, and matched.
    pub(super) fn land(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = &self.messages[message as usize];
        let mut at = now.max(this.ready);
        if this.mlength() > 0 {
            match this.operation.kind {
                Kind::Put => at += self.config.dma_latency,
                Kind::Get => {}
                Kind::Atomic | Kind::FetchAtomic => {
                    let node = self.processes[this.target as usize].nid - 1;
                    let stages = &mut self.nodes[node as usize].stages;
                    at = stages.atomic(at, &self.config, &self.durations);
                }
            }
        }
        // Posted writes over PCIe stay in order: an event does not pass data that were written before it.
        if this.operation.kind == Kind::Put {
            let last = &mut self.landed[this.target as usize];
            at = at.max(*last);
            *last = at;
        }
        // Section 3.15: an atomic takes longer than a put that comes behind it.
        let (kind, length) = (this.operation.kind, this.operation.rlength);
        if kind != Kind::Get && length > 0 && length <= self.config.limits.max_waw_ordered_size.get() {
            let last = self.written.entry((this.operation.from, this.target)).or_default();
            at = at.max(*last);
            *last = at;
        }
        self.landed_at(now, at, message, Role::Request, out);
    }

    pub(super) fn landed_at(&mut self, now: SimTime, at: SimTime, message: u32, role: Role, out: &mut impl Out) {
        if at > now {
            let this = &self.messages[message as usize];
            let process = if role == Role::Request { this.target } else { this.operation.from };
            let node = self.processes[process as usize].nid - 1;
            out.schedule(at, node, Due::Landed(message, role).encode());
        } else {
            self.landed(now, message, role, out);
        }
    }

    /// The data of a request or of an answer are in memory.
    pub(super) fn landed(&mut self, now: SimTime, message: u32, role: Role, out: &mut impl Out) {
        if role == Role::Response {
            return self.answered(now, message, out);
        }
        let this = self.messages[message as usize];
        match this.operation.kind {
            Kind::Get => self.respond(now, message, out),
            Kind::FetchAtomic => {
                self.settle_data(now, message, out);
                self.respond(now, message, out);
            }
            Kind::Put | Kind::Atomic => {
                let wanted = this.ack != AckRequest::None;
                let allowed = match this.result {
                    Ok(landing) => self.interfaces[this.target as usize].acknowledges(&landing),
                    Err(_) => true,
                };
                self.settle_data(now, message, out);
                match wanted && allowed {
                    true => self.send_ack(now, message, out),
                    false => self.finish(message, out),
                }
            }
        }
    }

    /// Writes or combines the data of a put or atomic, and completes the operation at the target.
    fn settle_data(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let Ok(landing) = this.result else { return };
        let mut written = if this.fault { Err(Fault) } else { Ok(()) };
        if written.is_ok() && landing.mlength > 0 {
            written = match self.atomics.get(&message).filter(|_| this.operation.atomic.is_some()) {
                None => self.deliver(message, this.target, landing.place, landing.mlength, out),
                Some(part) => {
                    let combine = part.combine;
                    let node = self.processes[this.target as usize].nid - 1;
                    self.nodes[node as usize].statistics.bytes_received += landing.mlength;
                    out.combine(MessageId(message), Process(this.target), landing.place, landing.mlength, &combine)
                }
            };
        }
        if written.is_err() {
            self.messages[message as usize].fault = true;
        }
        self.complete(now, message, out);
    }

    /// Events and counts at the target.
    fn complete(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = self.messages[message as usize];
        let Ok(landing) = this.result else { return };
        let fail = if this.fault { FailType::Segv } else { FailType::Ok };
        let (interface, mut port) = interface!(self, now, this.target, out);
        interface.complete(&this.operation, &landing, fail, &mut port);
        self.schedule_retries(now, this.target, out);
    }

    /// The answer of a get or fetching atomic starts.
    fn respond(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        self.messages[message as usize].phase = Phase::Response;
        self.transmit(now, message, Role::Response, out);
    }

    fn send_ack(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        self.release(message, out);
        let this = &mut self.messages[message as usize];
        this.phase = Phase::Response;
        let node = self.processes[this.target as usize].nid - 1;
        self.nodes[node as usize].statistics.acks += 1;
        if self.config.quick_ack {
            // As long as the request's header needed, and no load on anything.
            let home = self.processes[this.operation.from as usize].nid - 1;
            out.schedule(now + this.transit, home, Due::QuickAck(message).encode());
        } else {
            self.transmit(now, message, Role::Response, out);
        }
    }

    pub(super) fn deliver(&mut self, message: u32, process: u32, place: Place, length: u64, out: &mut impl Out) -> Result<(), Fault> {
        let node = self.processes[process as usize].nid - 1;
        self.nodes[node as usize].statistics.bytes_received += length;
        out.deliver(MessageId(message), Process(process), place, length)
    }

    /// The target has given its data to a get.
    pub(super) fn got(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        self.complete(now, message, out);
    }

    /// What `process` holds is repeated a while after there is a place for it.
    pub(super) fn schedule_retries(&mut self, now: SimTime, process: u32, out: &mut impl Out) {
        let node = self.processes[process as usize].nid - 1;
        let at = now + self.config.retry_interval;
        self.interfaces[process as usize].take_relieved(|pt| out.schedule(at, node, Due::Retry(process, pt).encode()));
    }

    /// All initiators repeat what table entry `pt` of `process` refused, in order of arrival; an
    /// initiator that is refused again repeats nothing more.
    pub(super) fn retry(&mut self, now: SimTime, process: u32, pt: u32, out: &mut impl Out) {
        let mut firsts = std::mem::take(&mut self.firsts);
        self.interfaces[process as usize].begin_retry(pt, &mut firsts);
        let node = self.processes[process as usize].nid - 1;
        while let Some(Reverse((_, from))) = firsts.pop() {
            let Some(message) = self.interfaces[process as usize].first_held(pt, from) else { continue };
            self.matching(now, message, true, out);
            if self.messages[message as usize].phase == Phase::Held {
                continue;
            }
            if let Some(next) = self.interfaces[process as usize].take_held(pt, from) {
                firsts.push(Reverse((next, from)));
            }
            let this = &self.messages[message as usize];
            self.nodes[node as usize].statistics.retries += u64::from(this.result.is_ok());
            if this.tail {
                self.land(now, message, out);
            }
        }
        self.firsts = firsts;
    }

    /// Messages that were held are refused for good.
    pub(super) fn refuse(&mut self, now: SimTime, messages: &mut Vec<u32>, fail: FailType, out: &mut impl Out) {
        for message in messages.drain(..) {
            let this = &mut self.messages[message as usize];
            this.phase = Phase::Request;
            this.result = Err(fail);
            let (tail, target) = (this.tail, this.target);
            let node = self.processes[target as usize].nid - 1;
            self.nodes[node as usize].statistics.drops += 1;
            if tail {
                self.land(now, message, out);
            }
        }
    }

    /// The header of a request arrives.
    pub(super) fn head(&mut self, now: SimTime, message: u32, out: &mut impl Out) {
        let this = &mut self.messages[message as usize];
        if !std::mem::replace(&mut this.head, true) {
            this.transit = now - this.started;
            self.matching(now, message, false, out);
        }
    }
}
