//! Puts that pass a gateway ([`narrows_portals::bridge`]).

use std::collections::{BTreeMap, BTreeSet};

use narrows_engine::WordMap;
use narrows_portals::bridge::{Envelope, Foreign, Forward, GATEWAY_PID, PT_FOREIGN};
use narrows_portals::{AckRequest, FailType, Notice, ProcessId};
use narrows_units::SimTime;

use super::initiator::Order;
use super::message::{Bridged, Incoming, Phase, Request};
use super::{Port, Portals, interface};
use crate::out::Out;
use narrows_matching::{Operation, RequestKind, Sink};

/// What a NIC knows of such puts.
#[derive(Debug, Default)]
pub(super) struct Half {
    /// Of outgoing messages: the target, and what the header has more.
    pub outgoing: WordMap<u32, (ProcessId, Bridged)>,
    /// Of incoming ones that are for somebody else: who is meant, and where.
    foreign: BTreeMap<u32, (ProcessId, u32, u64)>,
    /// By initiator, its table entry and target: what has been taken.
    taken: BTreeMap<Pair, Taken>,
    /// Those of them that are not in memory yet, and their copies that are here.
    landing: BTreeMap<(Pair, u32), Vec<u32>>,
}

/// An initiator, its table entry, and a target: puts of one of them are numbered.
type Pair = (ProcessId, u32, ProcessId);

fn pair_of(request: &Request, bridged: Bridged) -> Pair {
    (request.operation.initiator, bridged.done_pt, request.target)
}

/// Numbers from 0 on: all below `next`, and some beyond.
#[derive(Debug, Default)]
struct Taken {
    next: u32,
    beyond: BTreeSet<u32>,
}

impl Taken {
    /// Whether it is among them.
    fn has(&self, number: u32) -> bool {
        number < self.next || self.beyond.contains(&number)
    }

    /// Whether it is new.
    fn take(&mut self, number: u32) -> bool {
        if number < self.next || !self.beyond.insert(number) {
            return false;
        }
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        true
    }
}

impl Portals {
    /// Sends a put for another process, or over a gateway.
    pub(super) fn forward(&mut self, now: SimTime, process: u32, forward: &Forward, out: &mut impl Out<Portals>) {
        let Forward { local, length, envelope, via } = forward;
        let Envelope { initiator, target, pt, done_pt, match_bits, hdr_data, offset, sequence, order } = *envelope;
        let user = self.locals[process as usize].user;
        let (from, _) = self.common.directory.of_port(self.port);
        let operation =
            Operation { kind: RequestKind::Put, initiator, uid: user, pt, match_bits, offset, rlength: *length, hdr_data, atomic: None };
        // A gateway answers with a message, when it has done with it.
        let ack = if via.is_some() { AckRequest::None } else { AckRequest::Full };
        let bridged = Some((target, Bridged { from, done_pt, sequence, order }));
        let to = via.unwrap_or(target);
        self.request(now, process, Order { operation, to, local: *local, inline: None, ack, atomic: None, bridged, triggered: false }, out);
    }

    /// The header of such a put is here: at its target, or at a gateway.
    pub(super) fn head_of_bridged(&mut self, now: SimTime, request: &Request, bridged: Bridged, out: &mut impl Out<Portals>) -> u32 {
        let (node, _) = self.common.directory.of_port(self.port);
        let Request { operation, target, .. } = *request;
        if target.node() == Some(node) {
            let key = pair_of(request, bridged);
            if self.bridge.taken.get(&key).is_some_and(|taken| taken.has(bridged.sequence)) {
                // What has been here is dropped, and acknowledged.
                let message = self.new_incoming(request);
                self.incoming.at_mut(message).result = Err(FailType::Ok);
                return message;
            }
            let message = self.take_request(now, request, out);
            // What finds no room may come again by another gateway.
            let Incoming { phase, result, .. } = *self.incoming.at(message);
            if phase == Phase::Held || result.is_ok() {
                self.bridge.taken.entry(key).or_default().take(bridged.sequence);
                self.bridge.landing.insert((key, bridged.sequence), Vec::new());
            }
            return message;
        }
        let gateway = ProcessId::on(node, GATEWAY_PID);
        let here = Request { operation: Operation { pt: PT_FOREIGN, offset: 0, ..operation }, target: gateway, ..*request };
        let message = self.take_request(now, &here, out);
        self.bridge.foreign.insert(message, (target, operation.pt, operation.offset));
        message
    }

    /// A copy of a put that is not in memory yet waits for it: who hears of the one may believe the other.
    pub(super) fn waits_for_first(&mut self, message: u32) -> bool {
        let Incoming { request, result: Err(FailType::Ok), .. } = self.incoming.at(message) else { return false };
        let Some(bridged) = request.bridged() else { return false };
        let Some(copies) = self.bridge.landing.get_mut(&(pair_of(request, bridged), bridged.sequence)) else { return false };
        copies.push(message);
        true
    }

    /// All of one is in memory: of its target, or in a buffer of the gateway of this node.
    pub(super) fn bridged_is_here(&mut self, now: SimTime, message: u32, bridged: Bridged, out: &mut impl Out<Portals>) {
        let request = self.incoming.at(message).request;
        for copy in self.bridge.landing.remove(&(pair_of(&request, bridged), bridged.sequence)).into_iter().flatten() {
            self.landed(now, copy, out);
        }
        self.tell_foreign(now, message, out);
    }

    /// All of one is in a buffer of the gateway of this node, if it is for somebody else.
    fn tell_foreign(&mut self, now: SimTime, message: u32, out: &mut impl Out<Portals>) {
        let Some((target, pt, offset)) = self.bridge.foreign.remove(&message) else { return };
        let this = *self.incoming.at(message);
        let (Ok(landing), Some(Bridged { done_pt, sequence, order, .. })) = (this.result, this.request.bridged()) else { return };
        let Operation { initiator, match_bits, hdr_data, .. } = this.request.operation;
        let envelope = Envelope { initiator, target, pt, done_pt, match_bits, hdr_data, offset, sequence, order };
        let (_, mut port) = interface!(self, now, this.process, out);
        port.notice(Notice::Foreign(Foreign { envelope, length: landing.mlength, start: landing.place.address }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once() {
        let mut taken = Taken::default();
        let new: Vec<bool> = [0, 2, 2, 1, 0, 1, 3, 2].map(|number| taken.take(number)).to_vec();
        assert_eq!(new, [true, true, false, true, false, false, true, false]);
        assert_eq!((taken.next, taken.beyond.len()), (4, 0));
    }
}
