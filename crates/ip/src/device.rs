//! The Ethernet device of a node with the cores that serve it. A state machine: what happens and the time in, effects
//! out. What packets mean, whoever owns the device knows.
//!
//! A packet that is sent takes the core of its program ([`Job::Send`]), then a place in the transmit ring, until the
//! NIC has read it. One that comes takes a place in the receive ring of a core of the kernel ([`Job::Receive`]), then
//! the core of its program ([`Job::Read`]). With a tunnel the rings end at its process, which has a core of its own
//! ([`Job::Out`], [`Job::In`]) and gives the NIC several packets in one message.
//!
//! The owner takes each job off its core ([`Device::finish`]), does what follows from it, and lets the core go on
//! ([`Device::start`]).

use crate::core::{Core, Wake};
use crate::host::CpuTimes;
use narrows_machine::{Ip, Receiver};
use narrows_units::{Bytes, SimTime};
use std::collections::VecDeque;

/// A packet, as far as a device knows it.
pub trait Carried {
    /// What is left of it when it is in the hands of the NIC.
    type Note;
    /// Bytes that are copied.
    fn payload(&self) -> u64;
    /// Who gets it.
    fn target(&self) -> u32;
    /// What it belongs to: the kernel's core.
    fn flow(&self) -> u32;
    /// See [`Carried::Note`].
    fn note(&self) -> Self::Note;
    /// CPU time of its sending that has passed before it was known.
    fn begun(&self) -> SimTime {
        SimTime::ZERO
    }
}

/// Something that a device wants to be told at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A core begins: [`Device::start`].
    Begin(usize),
    /// It is done with the first of its jobs: [`Device::finish`], then [`Device::start`].
    Done(usize),
}

/// What a device asks for.
#[derive(Debug)]
pub enum Effect<P> {
    /// To be told.
    At(SimTime, Event),
    /// A message to a host; [`Device::sent`] when the NIC has read it.
    Message(u32, Vec<P>),
}

/// What a core does.
#[derive(Debug)]
pub enum Job<P> {
    /// A program sends it.
    Send(P),
    /// The kernel does, of its own accord.
    Answer(P),
    /// The kernel takes it.
    Receive(P),
    /// The program reads it.
    Read(P),
    /// The tunnel takes it from the NIC.
    In(P),
    /// The tunnel gives these to the NIC.
    Out(Vec<P>),
}

/// See the module's page.
#[derive(Debug)]
pub struct Device<P> {
    ip: Ip,
    tunnel: bool,
    /// How it is looked after.
    wake: Wake,
    polls: bool,
    /// Those of the kernel, that of the tunnel, then those of programs.
    cores: Vec<Core<Job<P>>>,
    /// From when on its lock is free.
    unlocked: SimTime,
    /// Places of the transmit ring that are taken.
    taken: u32,
    /// With a tunnel: packets in it.
    ring: VecDeque<P>,
    /// Packets that found it full.
    waiting: VecDeque<P>,
    /// Buffers of the tunnel that are in use.
    buffers: u32,
    /// Whose turn it is: of what the kernel gives the tunnel.
    outwards: bool,
}

impl<P: Carried> Device<P> {
    /// `inside`: at a port of the network; the others have a driver, whatever those have.
    #[must_use]
    pub fn new(ip: Ip, inside: bool) -> Device<P> {
        let tunnel = inside && ip.tunnel.enabled;
        let interrupt = if tunnel { ip.interrupt + ip.wakeup } else { ip.interrupt };
        let (wake, polls) = match ip.receiver {
            Receiver::Polling if inside => (Wake::Polling(ip.poll), true),
            Receiver::Sleep if inside => (Wake::Sleep(ip.sleep_min, ip.sleep_max), false),
            _ => (Wake::Woken(interrupt), false),
        };
        Device {
            ip,
            tunnel,
            wake,
            polls,
            cores: (0..=ip.cores).map(|_| Core::default()).collect(),
            unlocked: SimTime::ZERO,
            taken: 0,
            ring: VecDeque::new(),
            waiting: VecDeque::new(),
            buffers: 0,
            outwards: true,
        }
    }

    /// The core of another program.
    pub fn add_core(&mut self) -> usize {
        self.cores.push(Core::default());
        self.cores.len() - 1
    }

    /// Time begins.
    pub fn begin(&mut self, now: SimTime) {
        self.cores.iter_mut().for_each(|core| core.rest(now));
    }

    /// At `now`, since [`Device::begin`] at `begin`.
    pub fn cpu(&self, begin: SimTime, now: SimTime) -> CpuTimes {
        let sum = |cores: &[Core<Job<P>>]| cores.iter().fold(SimTime::ZERO, |sum, core| sum + core.used);
        let kernel = self.tunnel_core();
        let polled = |polls: bool, used: SimTime, cores: u64| if polls { (now - begin) * cores } else { used };
        CpuTimes {
            programs: sum(&self.cores[kernel + 1..]),
            kernel: polled(self.polls && !self.tunnel, sum(&self.cores[..kernel]), kernel as u64),
            tunnel: polled(self.polls && self.tunnel, self.cores[kernel].used, 1),
        }
    }

    fn tunnel_core(&self) -> usize {
        self.ip.cores as usize
    }

    /// The one that a flow has.
    pub fn kernel_core(&self, flow: u32) -> usize {
        (flow % self.ip.cores) as usize
    }

    /// Bytes of packets in a message of the device.
    pub fn bytes(ip: &Ip, packets: &[P]) -> Bytes {
        Bytes(packets.iter().map(|packet| packet.payload() + ip.header.0 + ip.frame.0).sum())
    }

    /// Packets under way to the NIC: a program that sends waits for room when they fill the ring.
    pub fn queued(&self) -> usize {
        self.taken as usize + self.waiting.len()
    }

    /// The device has received a packet. Some: it was dropped.
    pub fn arrive<E: From<Effect<P>>>(&mut self, now: SimTime, packet: P, effects: &mut Vec<E>) -> Option<P> {
        if !self.tunnel {
            return self.receive(now, packet, self.wake, effects);
        }
        if self.cores[self.tunnel_core()].queue.len() >= self.ip.receive_ring as usize {
            return Some(packet);
        }
        self.put(now, self.tunnel_core(), Job::In(packet), self.wake, effects);
        None
    }

    /// The tunnel gives the kernel a packet: nobody is woken, for the kernel goes on in its system call. Some: it was
    /// dropped.
    pub fn pass<E: From<Effect<P>>>(&mut self, now: SimTime, packet: P, effects: &mut Vec<E>) -> Option<P> {
        self.receive(now, packet, Wake::Woken(SimTime::ZERO), effects)
    }

    /// A core of the kernel gets a packet.
    fn receive<E: From<Effect<P>>>(&mut self, now: SimTime, packet: P, wake: Wake, effects: &mut Vec<E>) -> Option<P> {
        let core = self.kernel_core(packet.flow());
        let (queue, ring) = (&self.cores[core].queue, self.ip.receive_ring as usize);
        let received = |job: &&Job<P>| matches!(job, Job::Receive(_));
        if queue.len() >= ring && queue.iter().filter(received).count() >= ring {
            return Some(packet);
        }
        self.put(now, core, Job::Receive(packet), wake, effects);
        None
    }

    /// The device has read a message of so many packets. [`Device::refill`] is next.
    pub fn sent(&mut self, packets: u32) {
        if self.tunnel {
            self.buffers -= 1;
        } else {
            self.taken -= packets;
        }
    }

    /// Another job for a core.
    pub fn put<E: From<Effect<P>>>(&mut self, now: SimTime, core: usize, job: Job<P>, wake: Wake, effects: &mut Vec<E>) {
        self.cores[core].queue.push_back(job);
        self.wake(now, core, wake, effects);
    }

    fn wake<E: From<Effect<P>>>(&mut self, now: SimTime, core: usize, wake: Wake, effects: &mut Vec<E>) {
        if let Some(at) = self.cores[core].wake(now, wake) {
            effects.push(Effect::At(at, Event::Begin(core)).into());
        }
    }

    /// A core is done with its first job.
    pub fn finish(&mut self, core: usize) -> Option<Job<P>> {
        self.cores[core].queue.pop_front()
    }

    /// A core begins with its next job.
    pub fn start<E: From<Effect<P>>>(&mut self, now: SimTime, core: usize, effects: &mut Vec<E>) {
        if self.tunnel && core == self.tunnel_core() {
            self.fill_buffer();
        }
        let Some(job) = self.cores[core].queue.front() else {
            self.cores[core].rest(now);
            return;
        };
        let Ip { send, receive, send_copies, receive_copies, copy_bandwidth, lock, tunnel, .. } = self.ip;
        let copied = |payload: u64, copies: u32| copy_bandwidth.time_for(Bytes(payload * u64::from(copies)));
        let (locked, time) = match job {
            Job::Send(packet) => (true, (send + copied(packet.payload(), send_copies)).saturating_sub(packet.begun())),
            Job::Answer(_) => (true, send),
            Job::Receive(_) => (true, receive),
            Job::Read(packet) => (false, copied(packet.payload(), receive_copies)),
            Job::In(packet) => (false, tunnel.packet + copied(packet.payload(), tunnel.copies)),
            Job::Out(packets) => {
                let payload = packets.iter().map(Carried::payload).sum();
                (false, tunnel.packet * packets.len() as u64 + copied(payload, tunnel.copies))
            }
        };
        let mut begin = now;
        if locked && lock > SimTime::ZERO {
            begin = now.max(self.unlocked) + lock;
            self.unlocked = begin;
        }
        self.cores[core].work(now, begin + time);
        effects.push(Effect::At(begin + time, Event::Done(core)).into());
    }

    /// The tunnel takes what waits for one host, if it has a buffer and it is the turn of that.
    fn fill_buffer(&mut self) {
        let Ip { tunnel, header, frame, .. } = self.ip;
        let core = self.tunnel_core();
        let may = self.buffers < tunnel.buffers && !self.ring.is_empty();
        if !may || !(self.outwards || self.cores[core].queue.is_empty()) {
            self.outwards = true;
            return;
        }
        let (mut packets, mut bytes): (Vec<P>, u64) = (Vec::new(), 0);
        while let Some(packet) = self.ring.pop_front() {
            bytes += packet.payload() + header.0 + frame.0;
            if packets.first().is_some_and(|first| first.target() != packet.target() || bytes > tunnel.batch.0) {
                self.ring.push_front(packet);
                break;
            }
            packets.push(packet);
        }
        self.buffers += 1;
        self.outwards = false;
        self.cores[core].queue.push_front(Job::Out(packets));
    }

    /// A packet wants into the transmit ring. [`Device::refill`] is next.
    pub fn transmit(&mut self, packet: P) {
        self.waiting.push_back(packet);
    }

    /// The tunnel has filled a buffer. [`Device::refill`] is next.
    pub fn carried<E: From<Effect<P>>>(&mut self, packets: Vec<P>, effects: &mut Vec<E>) {
        self.taken -= packets.len() as u32;
        effects.push(Effect::Message(packets[0].target(), packets).into());
    }

    /// The ring takes the next packet that waits for it; ask again, until it takes none: then [`Device::refilled`].
    pub fn refill<E: From<Effect<P>>>(&mut self, effects: &mut Vec<E>) -> Option<P::Note> {
        if self.taken >= self.ip.transmit_ring {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        self.taken += 1;
        let note = packet.note();
        if self.tunnel {
            self.ring.push_back(packet);
        } else {
            effects.push(Effect::Message(packet.target(), vec![packet]).into());
        }
        Some(note)
    }

    /// There may be something for the tunnel to take from the kernel.
    pub fn refilled<E: From<Effect<P>>>(&mut self, now: SimTime, effects: &mut Vec<E>) {
        if self.tunnel && !self.ring.is_empty() && self.buffers < self.ip.tunnel.buffers {
            let wake = match self.wake {
                Wake::Woken(_) => Wake::Woken(self.ip.wakeup),
                looks => looks,
            };
            self.wake(now, self.tunnel_core(), wake, effects);
        }
    }
}
