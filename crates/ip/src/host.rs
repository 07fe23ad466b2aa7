//! A host: its programs and the ends of their flows, above its [`Device`]. A state machine: what happens and the time
//! in, effects out.

use crate::core::Wake;
use crate::device::{self, Carried, Device, Job};
use crate::flow::{Counts, Flow, FlowKind, Kind, Packet, Sender, Sink};
use narrows_engine::Digest;
use narrows_machine::Ip;
use narrows_units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all hosts know.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) ip: Ip,
    pub(crate) flows: Vec<Flow>,
    pub(crate) seed: u64,
}

/// Something that a host wants to be told at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Of the device.
    Device(device::Event),
    /// A flow may send.
    Send(u32),
    /// A stream may have waited too long.
    Resend(u32),
}

/// What a host asks for.
#[derive(Debug)]
pub(crate) enum Effect {
    At(SimTime, Event),
    /// A message of the device to a host; [`Host::sent`] when it has been read.
    Message(u32, Vec<Packet>),
}

impl From<device::Effect<Packet>> for Effect {
    fn from(effect: device::Effect<Packet>) -> Effect {
        match effect {
            device::Effect::At(at, event) => Effect::At(at, Event::Device(event)),
            device::Effect::Message(to, packets) => Effect::Message(to, packets),
        }
    }
}

impl Carried for Packet {
    type Note = (Kind, u32);

    fn note(&self) -> (Kind, u32) {
        (self.kind, self.flow)
    }

    fn payload(&self) -> u64 {
        self.payload
    }

    fn target(&self) -> u32 {
        self.to
    }

    fn flow(&self) -> u32 {
        self.flow
    }
}

/// CPU time of a host.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CpuTimes {
    /// Of programs.
    pub programs: SimTime,
    /// Of the kernel's cores.
    pub kernel: SimTime,
    /// Of the tunnel's process.
    pub tunnel: SimTime,
}

impl CpuTimes {
    /// What came after `before`.
    #[must_use]
    pub fn since(self, before: CpuTimes) -> CpuTimes {
        CpuTimes { programs: self.programs - before.programs, kernel: self.kernel - before.kernel, tunnel: self.tunnel - before.tunnel }
    }
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Host {
    number: u32,
    plan: Arc<Plan>,
    device: Device<Packet>,
    programs: BTreeMap<u32, usize>,
    senders: BTreeMap<u32, Sender>,
    sinks: BTreeMap<u32, Sink>,
    counts: BTreeMap<u32, Counts>,
    pub(crate) digest: Digest,
    /// When a program of it got something last.
    last: SimTime,
}

type Effects = Vec<Effect>;

impl Host {
    /// `inside`: at a port of the network; the others have a driver, whatever those have.
    pub(crate) fn new(number: u32, plan: &Arc<Plan>, inside: bool) -> Host {
        let ip = &plan.ip;
        let mut host = Host {
            number,
            plan: Arc::clone(plan),
            device: Device::new(*ip, inside),
            programs: BTreeMap::new(),
            senders: BTreeMap::new(),
            sinks: BTreeMap::new(),
            counts: BTreeMap::new(),
            digest: Digest::default(),
            last: SimTime::ZERO,
        };
        for (number, flow) in (0u32..).zip(&plan.flows) {
            if flow.from != host.number && flow.to != host.number {
                continue;
            }
            host.programs.insert(number, host.device.add_core());
            if flow.from == host.number {
                let random = narrows_engine::stream(plan.seed, "ip", u64::from(number));
                host.senders.insert(number, Sender::new(ip.window.0, random));
            } else {
                host.sinks.insert(number, Sink::default());
            }
        }
        host
    }

    /// The flows that it begins may send.
    pub(crate) fn begin(&mut self, now: SimTime, effects: &mut Effects) {
        self.device.begin(now);
        effects.extend(self.senders.keys().map(|&flow| Effect::At(now, Event::Send(flow))));
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn last(&self) -> SimTime {
        self.last
    }

    pub(crate) fn counts(&self) -> &BTreeMap<u32, Counts> {
        &self.counts
    }

    pub(crate) fn round_trips(&self) -> impl Iterator<Item = (u32, &narrows_results::Histogram)> {
        self.senders.iter().map(|(&flow, sender)| (flow, &sender.round_trips))
    }

    /// At `now`, since [`Host::begin`] at `begin`.
    pub(crate) fn cpu(&self, begin: SimTime, now: SimTime) -> CpuTimes {
        self.device.cpu(begin, now)
    }

    fn count(&mut self, flow: u32) -> &mut Counts {
        self.counts.entry(flow).or_default()
    }

    pub(crate) fn handle(&mut self, now: SimTime, event: Event, effects: &mut Effects) {
        match event {
            Event::Device(device::Event::Begin(core)) => self.device.start(now, core, effects),
            Event::Device(device::Event::Done(core)) => {
                if let Some(job) = self.device.finish(core) {
                    self.done(now, core, job, effects);
                }
                self.device.start(now, core, effects);
            }
            Event::Send(flow) => self.ask(now, flow, effects),
            Event::Resend(flow) => self.timeout(now, flow, effects),
        }
    }

    /// The device has received packets.
    pub(crate) fn arrive(&mut self, now: SimTime, packets: Vec<Packet>, effects: &mut Effects) {
        for packet in packets {
            if let Some(lost) = self.device.arrive(now, packet, effects) {
                self.count(lost.flow).ring_drops += 1;
            }
        }
    }

    /// The device has read a message of so many packets.
    pub(crate) fn sent(&mut self, now: SimTime, packets: u32, effects: &mut Effects) {
        self.device.sent(packets);
        self.refill(now, effects);
    }

    fn done(&mut self, now: SimTime, core: usize, job: Job<Packet>, effects: &mut Effects) {
        match job {
            Job::Send(packet) | Job::Answer(packet) => {
                self.device.transmit(packet);
                self.refill(now, effects);
            }
            Job::Receive(packet) => self.received(now, core, packet, effects),
            Job::Read(packet) => self.read(now, packet, effects),
            Job::In(packet) => {
                if let Some(lost) = self.device.pass(now, packet, effects) {
                    self.count(lost.flow).ring_drops += 1;
                }
            }
            Job::Out(packets) => {
                self.device.carried(packets, effects);
                self.refill(now, effects);
            }
        }
    }

    /// The ring takes what waits for it.
    fn refill(&mut self, now: SimTime, effects: &mut Effects) {
        while let Some((kind, flow)) = self.device.refill(effects) {
            if kind == Kind::Data
                && let Some(sender) = self.senders.get_mut(&flow)
            {
                sender.busy = false;
                self.ask(now, flow, effects);
            }
        }
        self.device.refilled(now, effects);
    }

    /// A flow sends its next packet, if it may.
    fn ask(&mut self, now: SimTime, flow: u32, effects: &mut Effects) {
        let Ip { resend, .. } = self.plan.ip;
        let Some(sender) = self.senders.get_mut(&flow).filter(|sender| !sender.busy) else { return };
        let to = self.plan.flows[flow as usize].to;
        let mut packet = Packet { flow, to, kind: Kind::Data, sequence: sender.next, edge: 0, payload: 0, last: false, asked: now };
        let mut again = false;
        match self.plan.flows[flow as usize].kind {
            FlowKind::Ping { bytes, count, interval } => {
                if sender.next == u64::from(count) {
                    return;
                }
                (packet.kind, packet.payload) = (Kind::Echo, bytes.0);
                sender.next += 1;
                let pause = SimTime(interval.as_ps() / 2 + sender.random.below(interval.as_ps().max(1)));
                effects.push(Effect::At(now + pause, Event::Send(flow)));
            }
            FlowKind::Stream { bytes, limit } => {
                let Some(payload) = sender.next_of_stream(bytes.0, limit) else { return };
                packet.payload = payload;
                sender.next += payload;
                packet.last = limit.is_some_and(|limit| sender.next == limit.0);
                again = sender.next <= sender.highest;
                sender.highest = sender.highest.max(sender.next);
                sender.busy = true;
                if !sender.timer {
                    (sender.timer, sender.mark) = (true, sender.acked);
                    effects.push(Effect::At(now + resend, Event::Resend(flow)));
                }
            }
            FlowKind::Datagrams { bytes, rate, limit } => {
                if limit.is_some_and(|limit| (sender.next + 1) * bytes.0 > limit.0) {
                    return;
                }
                if now < sender.not_before {
                    return effects.push(Effect::At(sender.not_before, Event::Send(flow)));
                }
                packet.payload = bytes.0;
                sender.next += 1;
                sender.busy = true;
                if let Some(rate) = rate {
                    sender.not_before = sender.not_before.max(now) + rate.time_for(bytes);
                }
            }
        }
        let counts = self.count(flow);
        counts.sent += 1;
        counts.retransmissions += u64::from(again);
        self.device.put(now, self.programs[&flow], Job::Send(packet), Wake::Woken(SimTime::ZERO), effects);
    }

    fn timeout(&mut self, now: SimTime, flow: u32, effects: &mut Effects) {
        let resend = self.plan.ip.resend;
        let Some(sender) = self.senders.get_mut(&flow) else { return };
        if sender.acked == sender.highest {
            sender.timer = false;
            return;
        }
        let mut wait = resend;
        if sender.acked == sender.mark {
            sender.go_back();
            // Streams that go back in step could take each other's place in a ring for ever.
            wait += SimTime(sender.random.below(resend.as_ps().max(1)));
        }
        sender.mark = sender.acked;
        effects.push(Effect::At(now + wait, Event::Resend(flow)));
        self.ask(now, flow, effects);
    }

    /// The kernel has a packet.
    fn received(&mut self, now: SimTime, core: usize, packet: Packet, effects: &mut Effects) {
        let program = self.programs[&packet.flow];
        let wakeup = Wake::Woken(self.plan.ip.wakeup);
        match packet.kind {
            Kind::Echo => {
                self.digest.event(now, packet.sequence);
                let answer = Packet { kind: Kind::Reply, to: self.plan.flows[packet.flow as usize].from, ..packet };
                self.device.put(now, core, Job::Answer(answer), Wake::Woken(SimTime::ZERO), effects);
            }
            Kind::Reply => self.device.put(now, program, Job::Read(packet), wakeup, effects),
            Kind::Data => {
                if self.take(now, &packet, effects) {
                    self.device.put(now, program, Job::Read(packet), wakeup, effects);
                }
            }
            Kind::Acknowledgement => {
                let Some(sender) = self.senders.get_mut(&packet.flow) else { return };
                if sender.acknowledged(packet.sequence, packet.edge) {
                    sender.go_back();
                }
                self.ask(now, packet.flow, effects);
            }
        }
    }

    /// A socket gets a packet with data; whether it takes it.
    fn take(&mut self, now: SimTime, packet: &Packet, effects: &mut Effects) -> bool {
        let window = self.plan.ip.window.0;
        let stream = matches!(self.plan.flows[packet.flow as usize].kind, FlowKind::Stream { .. });
        let Some(sink) = self.sinks.get_mut(&packet.flow) else { return false };
        if stream && packet.sequence != sink.expected {
            // It is missing one, or has this one: the sender must know at once.
            self.acknowledge(now, packet.flow, effects);
            return false;
        }
        // A packet that is longer than a socket has it alone.
        if !stream && sink.waiting > 0 && sink.waiting + packet.payload > window {
            self.count(packet.flow).socket_drops += 1;
            return false;
        }
        sink.expected += packet.payload;
        sink.waiting += packet.payload;
        true
    }

    /// The program has a packet.
    fn read(&mut self, now: SimTime, packet: Packet, effects: &mut Effects) {
        let Ip { acknowledge_every, window, .. } = self.plan.ip;
        self.digest.event(now, u64::from(packet.flow) << 32 ^ packet.sequence);
        self.last = now;
        let counts = self.count(packet.flow);
        counts.received += 1;
        counts.bytes += packet.payload;
        if packet.kind == Kind::Reply {
            if let Some(sender) = self.senders.get_mut(&packet.flow) {
                sender.round_trips.record((now - packet.asked).as_ps());
            }
            return;
        }
        let stream = matches!(self.plan.flows[packet.flow as usize].kind, FlowKind::Stream { .. });
        let Some(sink) = self.sinks.get_mut(&packet.flow) else { return };
        assert!(!stream || packet.sequence == sink.read, "a stream is read in order");
        sink.read += packet.payload;
        sink.waiting -= packet.payload;
        sink.packets += 1;
        sink.bytes += packet.payload;
        if stream && (sink.packets >= acknowledge_every || sink.bytes * 2 >= window.0 || packet.last) {
            self.acknowledge(now, packet.flow, effects);
        }
    }

    fn acknowledge(&mut self, now: SimTime, flow: u32, effects: &mut Effects) {
        let Some(sink) = self.sinks.get_mut(&flow) else { return };
        (sink.packets, sink.bytes) = (0, 0);
        let edge = sink.read + self.plan.ip.window.0;
        let (kind, to, core) = (Kind::Acknowledgement, self.plan.flows[flow as usize].from, self.device.kernel_core(flow));
        let packet = Packet { flow, to, kind, sequence: sink.expected, edge, payload: 0, last: false, asked: now };
        self.device.put(now, core, Job::Answer(packet), Wake::Woken(SimTime::ZERO), effects);
    }
}
