//! What runs on a gateway: it takes fragments out of the NIC of one network and gives them to that of another.

use super::Bridging;
use crate::wire;
use narrows_portals::bridge::{Envelope, Foreign, Forward, PT_FOREIGN};
use narrows_portals::{
    AckRequest, Command, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, md, me,
    pt,
};
use narrows_units::{Rail, SimTime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a gateway needs of whoever has it: the way to its NICs, and memory.
pub trait Relay {
    /// It writes a command to its NIC on a rail, at this time or when it comes.
    fn submit(&mut self, rail: Rail, written: SimTime, command: Command);
    /// Memory that stays until the end.
    fn allocate(&mut self, length: u64) -> u64;
}

/// What has passed a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Puts: short messages, announcements, fragments, and what protocols say to each other.
    pub messages: u64,
    /// Their payload.
    pub bytes: u64,
    /// How long its core was busy with them.
    pub busy: SimTime,
}

/// A buffer, and what is in it.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    rail: Rail,
    address: u64,
    holds: Option<Envelope>,
}

/// Puts of one process to another that match in order.
#[derive(Debug, Default)]
struct Flow {
    /// Sent on.
    passed: u32,
    /// That came before their turn.
    early: BTreeMap<u32, (usize, u64)>,
}

/// A state machine: notices of its NICs in, commands to them out. Its core does one thing after the other.
#[derive(Debug)]
pub struct Gateway {
    bridging: Arc<Bridging>,
    process: ProcessId,
    rails: Vec<Rail>,
    buffers: Vec<Buffer>,
    by_address: BTreeMap<u64, usize>,
    flows: BTreeMap<(ProcessId, u32, ProcessId), Flow>,
    entries: u64,
    clock: SimTime,
    dead: bool,
    passed: Passed,
}

const EQ: EqId = EqId(0);
/// Of its event queues: it takes events at once.
const EVENTS: u32 = 1 << 20;

impl Gateway {
    /// That of this number.
    pub fn new(bridging: &Arc<Bridging>, index: usize) -> Gateway {
        let place = &bridging.gateways[index];
        Gateway {
            bridging: Arc::clone(bridging),
            process: place.process,
            rails: place.rails.clone(),
            buffers: Vec::new(),
            by_address: BTreeMap::new(),
            flows: BTreeMap::new(),
            entries: 0,
            clock: SimTime::ZERO,
            dead: false,
            passed: Passed::default(),
        }
    }

    /// The process that it is.
    pub fn process(&self) -> ProcessId {
        self.process
    }

    /// What has passed since the start, or [`Gateway::renew`].
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Simulated time starts.
    pub fn renew(&mut self) {
        self.passed = Passed::default();
    }

    /// It does nothing any more.
    pub fn die(&mut self) {
        self.dead = true;
    }

    /// Opens its NICs, and posts buffers for so many processes on each of its rails.
    pub fn start(&mut self, processes: impl Fn(Rail) -> u32, relay: &mut impl Relay) {
        for rail in self.rails.clone() {
            relay.submit(rail, SimTime::ZERO, Command::EqAlloc { eq: EQ, count: EVENTS });
            relay.submit(rail, SimTime::ZERO, Command::PtAlloc { pt: PT_FOREIGN, options: pt::RETRY, eq: EQ });
            let count = u64::from(processes(rail)) * u64::from(self.bridging.buffers);
            let count = count.min(u64::from(Gateway::BUFFERS_MAX));
            let fragment = self.bridging.fragment;
            let memory = if count > 0 { relay.allocate(fragment * count) } else { 0 };
            for index in 0..count {
                let address = memory + index * fragment;
                self.by_address.insert(address, self.buffers.len());
                self.buffers.push(Buffer { rail, address, holds: None });
                self.post(self.buffers.len() - 1, SimTime::ZERO, relay);
            }
        }
    }

    /// Buffers for one network at most; what finds none waits in the NIC. Our own choice: lists have room for more.
    pub const BUFFERS_MAX: u32 = 4096;

    fn post(&mut self, buffer: usize, at: SimTime, relay: &mut impl Relay) {
        let Buffer { rail, address, .. } = self.buffers[buffer];
        self.entries += 1;
        let entry = EntryId(self.entries);
        let me = MatchEntry {
            start: address,
            length: self.bridging.fragment,
            options: me::OP_PUT | me::USE_ONCE | me::EVENT_COMM_DISABLE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
            ignore_bits: u64::MAX,
            ..MatchEntry::default()
        };
        relay.submit(rail, at, Command::MeAppend { entry, pt: PT_FOREIGN, list: List::Priority, me });
    }

    /// A NIC tells it something.
    pub fn notify(&mut self, now: SimTime, notice: &Notice, relay: &mut impl Relay) {
        match notice {
            _ if self.dead => {}
            Notice::Foreign(foreign) => self.arrived(now, foreign, relay),
            Notice::Event { event: Event { kind: EventKind::Ack, user_ptr, fail, .. }, .. } => {
                self.answered(now, *user_ptr as usize, *fail, relay)
            }
            _ => {}
        }
    }

    /// A put is in a buffer.
    fn arrived(&mut self, now: SimTime, foreign: &Foreign, relay: &mut impl Relay) {
        let Foreign { envelope, length, start } = *foreign;
        let Some(&buffer) = self.by_address.get(&start) else { return };
        self.buffers[buffer].holds = Some(envelope);
        let Envelope { initiator, done_pt, target, order, .. } = envelope;
        if order == 0 {
            return self.send_on(now, buffer, length, relay);
        }
        let key = (initiator, done_pt, target);
        let mut next = Some((order, (buffer, length)));
        while let Some((order, (buffer, length))) = next {
            let flow = self.flows.entry(key).or_default();
            if order != flow.passed + 1 {
                flow.early.insert(order, (buffer, length));
                return;
            }
            flow.passed = order;
            next = flow.early.remove_entry(&(order + 1));
            self.send_on(now, buffer, length, relay);
        }
    }

    fn send_on(&mut self, now: SimTime, buffer: usize, length: u64, relay: &mut impl Relay) {
        let Buffer { address, holds, .. } = self.buffers[buffer];
        let Some((envelope, rail)) = holds.and_then(|envelope| Some((envelope, self.bridging.home(envelope.target)?))) else { return };
        let work = self.bridging.work(length);
        self.clock = self.clock.max(now) + work;
        self.passed.messages += 1;
        self.passed.bytes += length;
        self.passed.busy += work;
        let local = LocalBuffer { address, options: md::EVENT_SEND_DISABLE, eq: EQ, user_ptr: buffer as u64, ..LocalBuffer::default() };
        let forward = Forward { local, length, envelope, via: None };
        relay.submit(rail, self.clock, Command::Forward(Box::new(forward)));
    }

    /// A put is at its target, or was dropped there: its buffer is free, and whoever has sent it is told.
    fn answered(&mut self, now: SimTime, buffer: usize, fail: FailType, relay: &mut impl Relay) {
        let Some(Buffer { rail, holds: Some(envelope), .. }) = self.buffers.get(buffer).copied() else { return };
        self.buffers[buffer].holds = None;
        let at = self.clock.max(now);
        self.post(buffer, at, relay);
        let Envelope { initiator, target, done_pt, sequence, .. } = envelope;
        let (match_bits, hdr_data, offset) = wire::bridged(target, sequence, fail);
        let target = RemoteTarget { process: initiator, pt: done_pt, match_bits, offset };
        let local = LocalBuffer { options: md::EVENT_SEND_DISABLE, eq: EQ, user_ptr: u64::MAX, ..LocalBuffer::default() };
        relay.submit(rail, at, Command::Put { local, length: 0, inline: None, ack: AckRequest::None, target, hdr_data });
    }
}
