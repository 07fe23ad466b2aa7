//! A host: its programs, its kernel, its device. A state machine: what happens and the time in, effects out.
//!
//! A packet that is sent takes the core of its program ([`Job::Send`]), then a place in the transmit ring, until the
//! NIC has read it. One that comes takes a place in the receive ring of a core of the kernel ([`Job::Receive`]), then
//! the core of its program ([`Job::Read`]). With a tunnel the rings end at its process, which has a core of its own
//! ([`Job::Out`], [`Job::In`]) and gives the NIC several packets in one message.

use crate::core::{Core, Wake};
use crate::flow::{Counts, Flow, FlowKind, Kind, Packet, Sender, Sink};
use narrows_engine::Digest;
use narrows_machine::{Ip, Receiver};
use narrows_units::{Bytes, SimTime};
use std::collections::{BTreeMap, VecDeque};
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
    /// A core begins.
    Begin(usize),
    /// It is done with the first of its jobs.
    Done(usize),
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

#[derive(Debug)]
enum Job {
    Send(Packet),
    /// Of an answer by the kernel.
    Answer(Packet),
    Receive(Packet),
    Read(Packet),
    In(Packet),
    Out(Vec<Packet>),
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
    tunnel: bool,
    /// How the device is looked after.
    device: Wake,
    polls: bool,
    /// Those of the kernel, that of the tunnel, then one for each flow.
    cores: Vec<Core<Job>>,
    programs: BTreeMap<u32, usize>,
    senders: BTreeMap<u32, Sender>,
    sinks: BTreeMap<u32, Sink>,
    counts: BTreeMap<u32, Counts>,
    /// From when on the device's lock is free.
    unlocked: SimTime,
    /// Places of the transmit ring that are taken.
    taken: u32,
    /// With a tunnel: packets in it.
    ring: VecDeque<Packet>,
    /// Packets that found it full.
    waiting: VecDeque<Packet>,
    /// Buffers of the tunnel that are in use.
    buffers: u32,
    /// Whose turn it is: of what the kernel gives the tunnel.
    outwards: bool,
    pub(crate) digest: Digest,
    /// When a program of it got something last.
    last: SimTime,
}

type Effects = Vec<Effect>;

impl Host {
    /// `inside`: at a port of the network; the others have a driver, whatever those have.
    pub(crate) fn new(number: u32, plan: &Arc<Plan>, inside: bool) -> Host {
        let ip = &plan.ip;
        let tunnel = inside && ip.tunnel.enabled;
        let interrupt = if tunnel { ip.interrupt + ip.wakeup } else { ip.interrupt };
        let (device, polls) = match ip.receiver {
            Receiver::Polling if inside => (Wake::Polling(ip.poll), true),
            Receiver::Sleep if inside => (Wake::Sleep(ip.sleep_min, ip.sleep_max), false),
            _ => (Wake::Woken(interrupt), false),
        };
        let mut host = Host {
            number,
            plan: Arc::clone(plan),
            tunnel,
            device,
            polls,
            cores: (0..=ip.cores).map(|_| Core::default()).collect(),
            programs: BTreeMap::new(),
            senders: BTreeMap::new(),
            sinks: BTreeMap::new(),
            counts: BTreeMap::new(),
            unlocked: SimTime::ZERO,
            taken: 0,
            ring: VecDeque::new(),
            waiting: VecDeque::new(),
            buffers: 0,
            outwards: true,
            digest: Digest::default(),
            last: SimTime::ZERO,
        };
        for (number, flow) in (0u32..).zip(&plan.flows) {
            if flow.from != host.number && flow.to != host.number {
                continue;
            }
            host.programs.insert(number, host.cores.len());
            host.cores.push(Core::default());
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
        self.cores.iter_mut().for_each(|core| core.rest(now));
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
        let sum = |cores: &[Core<Job>]| cores.iter().fold(SimTime::ZERO, |sum, core| sum + core.used);
        let kernel = self.tunnel_core();
        let polled = |polls: bool, used: SimTime, cores: u64| if polls { (now - begin) * cores } else { used };
        CpuTimes {
            programs: sum(&self.cores[kernel + 1..]),
            kernel: polled(self.polls && !self.tunnel, sum(&self.cores[..kernel]), kernel as u64),
            tunnel: polled(self.polls && self.tunnel, self.cores[kernel].used, 1),
        }
    }

    fn tunnel_core(&self) -> usize {
        self.plan.ip.cores as usize
    }

    fn kernel_core(&self, flow: u32) -> usize {
        (flow % self.plan.ip.cores) as usize
    }

    fn count(&mut self, flow: u32) -> &mut Counts {
        self.counts.entry(flow).or_default()
    }

    /// Bytes of packets in a message of the device.
    pub(crate) fn bytes(ip: &Ip, packets: &[Packet]) -> Bytes {
        Bytes(packets.iter().map(|packet| packet.payload + ip.header.0 + ip.frame.0).sum())
    }

    fn target(&self, packet: &Packet) -> u32 {
        let flow = &self.plan.flows[packet.flow as usize];
        if packet.forward() { flow.to } else { flow.from }
    }

    pub(crate) fn handle(&mut self, now: SimTime, event: Event, effects: &mut Effects) {
        match event {
            Event::Begin(core) => self.start(now, core, effects),
            Event::Done(core) => {
                if let Some(job) = self.cores[core].queue.pop_front() {
                    self.done(now, core, job, effects);
                }
                self.start(now, core, effects);
            }
            Event::Send(flow) => self.ask(now, flow, effects),
            Event::Resend(flow) => self.timeout(now, flow, effects),
        }
    }

    /// The device has received packets.
    pub(crate) fn arrive(&mut self, now: SimTime, packets: Vec<Packet>, effects: &mut Effects) {
        for packet in packets {
            if !self.tunnel {
                self.receive(now, packet, self.device, effects);
            } else if self.cores[self.tunnel_core()].queue.len() < self.plan.ip.receive_ring as usize {
                self.put(now, self.tunnel_core(), Job::In(packet), self.device, effects);
            } else {
                self.count(packet.flow).ring_drops += 1;
            }
        }
    }

    /// The device has read a message of so many packets.
    pub(crate) fn sent(&mut self, now: SimTime, packets: u32, effects: &mut Effects) {
        if self.tunnel {
            self.buffers -= 1;
            self.tell_tunnel(now, effects);
        } else {
            self.taken -= packets;
            self.refill(now, effects);
        }
    }

    /// A core of the kernel gets a packet.
    fn receive(&mut self, now: SimTime, packet: Packet, wake: Wake, effects: &mut Effects) {
        let core = self.kernel_core(packet.flow);
        let (queue, ring) = (&self.cores[core].queue, self.plan.ip.receive_ring as usize);
        let received = |job: &&Job| matches!(job, Job::Receive(_));
        if queue.len() < ring || queue.iter().filter(received).count() < ring {
            self.put(now, core, Job::Receive(packet), wake, effects);
        } else {
            self.count(packet.flow).ring_drops += 1;
        }
    }

    fn put(&mut self, now: SimTime, core: usize, job: Job, wake: Wake, effects: &mut Effects) {
        self.cores[core].queue.push_back(job);
        self.wake(now, core, wake, effects);
    }

    fn wake(&mut self, now: SimTime, core: usize, wake: Wake, effects: &mut Effects) {
        if let Some(at) = self.cores[core].wake(now, wake) {
            effects.push(Effect::At(at, Event::Begin(core)));
        }
    }

    /// There may be something for the tunnel to take from the kernel.
    fn tell_tunnel(&mut self, now: SimTime, effects: &mut Effects) {
        if !self.ring.is_empty() && self.buffers < self.plan.ip.tunnel.buffers {
            let wake = match self.device {
                Wake::Woken(_) => Wake::Woken(self.plan.ip.wakeup),
                looks => looks,
            };
            self.wake(now, self.tunnel_core(), wake, effects);
        }
    }

    /// A core begins with its next job.
    fn start(&mut self, now: SimTime, core: usize, effects: &mut Effects) {
        if self.tunnel && core == self.tunnel_core() {
            self.fill_buffer();
        }
        let Some(job) = self.cores[core].queue.front() else {
            self.cores[core].rest(now);
            return;
        };
        let Ip { send, receive, send_copies, receive_copies, copy_bandwidth, lock, tunnel, .. } = self.plan.ip;
        let copied = |payload: u64, copies: u32| copy_bandwidth.time_for(Bytes(payload * u64::from(copies)));
        let (locked, time) = match job {
            Job::Send(packet) => (true, send + copied(packet.payload, send_copies)),
            Job::Answer(_) => (true, send),
            Job::Receive(_) => (true, receive),
            Job::Read(packet) => (false, copied(packet.payload, receive_copies)),
            Job::In(packet) => (false, tunnel.packet + copied(packet.payload, tunnel.copies)),
            Job::Out(packets) => {
                let payload = packets.iter().map(|packet| packet.payload).sum();
                (false, tunnel.packet * packets.len() as u64 + copied(payload, tunnel.copies))
            }
        };
        let mut begin = now;
        if locked && lock > SimTime::ZERO {
            begin = now.max(self.unlocked) + lock;
            self.unlocked = begin;
        }
        self.cores[core].work(now, begin + time);
        effects.push(Effect::At(begin + time, Event::Done(core)));
    }

    /// The tunnel takes what waits for one host, if it has a buffer and it is the turn of that.
    fn fill_buffer(&mut self) {
        let Ip { tunnel, header, frame, .. } = self.plan.ip;
        let core = self.tunnel_core();
        let may = self.buffers < tunnel.buffers && !self.ring.is_empty();
        if !may || !(self.outwards || self.cores[core].queue.is_empty()) {
            self.outwards = true;
            return;
        }
        let (mut packets, mut bytes) = (Vec::new(), 0);
        while let Some(&packet) = self.ring.front() {
            bytes += packet.payload + header.0 + frame.0;
            if packets.first().is_some_and(|first| self.target(first) != self.target(&packet) || bytes > tunnel.batch.0) {
                break;
            }
            packets.push(packet);
            self.ring.pop_front();
        }
        self.buffers += 1;
        self.outwards = false;
        self.cores[core].queue.push_front(Job::Out(packets));
    }

    fn done(&mut self, now: SimTime, core: usize, job: Job, effects: &mut Effects) {
        match job {
            Job::Send(packet) | Job::Answer(packet) => self.transmit(now, packet, effects),
            Job::Receive(packet) => self.received(now, core, packet, effects),
            Job::Read(packet) => self.read(now, packet, effects),
            // The kernel goes on in the system call of the tunnel: nobody is woken.
            Job::In(packet) => self.receive(now, packet, Wake::Woken(SimTime::ZERO), effects),
            Job::Out(packets) => {
                self.taken -= packets.len() as u32;
                effects.push(Effect::Message(self.target(&packets[0]), packets));
                self.refill(now, effects);
            }
        }
    }

    /// A packet wants into the transmit ring.
    fn transmit(&mut self, now: SimTime, packet: Packet, effects: &mut Effects) {
        self.waiting.push_back(packet);
        self.refill(now, effects);
    }

    /// The ring takes what waits for it.
    fn refill(&mut self, now: SimTime, effects: &mut Effects) {
        while self.taken < self.plan.ip.transmit_ring
            && let Some(packet) = self.waiting.pop_front()
        {
            self.taken += 1;
            if self.tunnel {
                self.ring.push_back(packet);
            } else {
                effects.push(Effect::Message(self.target(&packet), vec![packet]));
            }
            if packet.kind == Kind::Data
                && let Some(sender) = self.senders.get_mut(&packet.flow)
            {
                sender.busy = false;
                self.ask(now, packet.flow, effects);
            }
        }
        if self.tunnel {
            self.tell_tunnel(now, effects);
        }
    }

    /// A flow sends its next packet, if it may.
    fn ask(&mut self, now: SimTime, flow: u32, effects: &mut Effects) {
        let Ip { resend, .. } = self.plan.ip;
        let Some(sender) = self.senders.get_mut(&flow).filter(|sender| !sender.busy) else { return };
        let mut packet = Packet { flow, kind: Kind::Data, sequence: sender.next, edge: 0, payload: 0, last: false, asked: now };
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
        self.put(now, self.programs[&flow], Job::Send(packet), Wake::Woken(SimTime::ZERO), effects);
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
                let answer = Packet { kind: Kind::Reply, ..packet };
                self.put(now, core, Job::Answer(answer), Wake::Woken(SimTime::ZERO), effects);
            }
            Kind::Reply => self.put(now, program, Job::Read(packet), wakeup, effects),
            Kind::Data => {
                if self.take(now, &packet, effects) {
                    self.put(now, program, Job::Read(packet), wakeup, effects);
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
        let packet = Packet { flow, kind: Kind::Acknowledgement, sequence: sink.expected, edge, payload: 0, last: false, asked: now };
        self.put(now, self.kernel_core(flow), Job::Answer(packet), Wake::Woken(SimTime::ZERO), effects);
    }
}
