//! The simulation without processes: one event queue, the network, the NICs.

use crate::Memory;
use crate::multicast::{Multicasts, Next, Step, Told};
use narrows_engine::{Digest, EventQueue};
use narrows_fabric::{self as fabric, Network, Tree, TreeError};
use narrows_nic::{self as nic, Combine, Departure, Fault, Header, Nics, PayloadId, Portals, Process, Wire, Wired};
use narrows_portals::{Command, Notice, Place};
use narrows_units::SimTime;
use std::sync::Arc;

/// Ordering keys: the network uses those below, NICs and processes those above.
const NIC_SOURCES: u32 = 1 << 22;
const PROCESS_SOURCES: u32 = 1 << 23;

#[derive(Debug)]
enum Ev {
    Network(fabric::Event),
    /// Of the NIC of a node.
    Nic(u32, nic::Event),
    /// A header that takes no part of the network.
    Shortcut(u32, Box<Header>),
    Command(u32),
    Alarm(u32),
    Multicast(Step),
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events of the engine.
    pub events: u64,
    /// Puts and gets that processes started.
    pub messages: u64,
    /// Payload bytes that left the memory of nodes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Links crossed by packets.
    pub packet_hops: u64,
    /// Messages that were refused for lack of room and repeated.
    pub retries: u64,
}

/// A command on its way from the process to the NIC.
#[derive(Debug)]
struct Pending {
    process: Process,
    written: SimTime,
    command: Command,
}

/// Everything simulated.
pub struct World<M> {
    queue: EventQueue<Ev>,
    network: Network,
    nics: Nics,
    /// The ranks' memory.
    pub memory: M,
    commands: Vec<Option<Pending>>,
    free_commands: Vec<u32>,
    lookahead: SimTime,
    digest: Digest,
    recording: bool,
    before: Totals,
    /// The first refused command.
    pub error: Option<(u32, nic::CommandError)>,
    transfers: Vec<fabric::Transfer>,
    notices: Vec<fabric::Notice>,
    multicasts: Multicasts,
    wire: Wire<Header>,
}

struct NicOut<'a, M> {
    now: SimTime,
    queue: &'a mut EventQueue<Ev>,
    memory: &'a mut M,
    transfers: &'a mut Vec<fabric::Transfer>,
    digest: &'a mut Digest,
    recording: bool,
    wire: &'a mut Wire<Header>,
}

impl<M: Memory> Wired<Portals> for NicOut<'_, M> {
    fn wire(&mut self) -> &mut Wire<Header> {
        self.wire
    }
}

impl<M: Memory> nic::Out<Portals> for NicOut<'_, M> {
    fn schedule(&mut self, at: SimTime, node: u32, event: nic::Event) {
        self.queue.schedule(at, NIC_SOURCES + node, Ev::Nic(node, event));
    }

    fn depart(&mut self, node: u32, departure: Departure<Header>) {
        self.transfers.push(self.wire.depart(node, departure));
    }

    fn shortcut(&mut self, at: SimTime, to: u32, header: Header) {
        self.queue.schedule(at, NIC_SOURCES + to, Ev::Shortcut(to, Box::new(header)));
    }

    fn reserve(&mut self) -> PayloadId {
        PayloadId(self.memory.reserve())
    }

    fn notify(&mut self, process: Process, notice: Notice) {
        if self.recording {
            self.digest.event(self.now, u64::from(process.0));
            notice.words(|word| self.digest.word(word));
        }
        self.memory.notify(self.now, process.0, notice);
    }

    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.memory.capture(payload.0, process.0, place, length)
    }

    fn fetch(
        &mut self,
        payload: PayloadId,
        process: Process,
        place: Place,
        length: u64,
        initiator: Process,
        destination: Place,
    ) -> Result<(), Fault> {
        self.memory.fetch(payload.0, (process.0, place), length, (initiator.0, destination))
    }

    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>) {
        self.memory.hold(payload.0, bytes);
    }

    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.memory.deliver(self.now, payload.0, process.0, place, length)
    }

    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        self.memory.combine(payload.0, process.0, place, length, combine)
    }

    fn release(&mut self, payload: PayloadId) {
        self.memory.release(payload.0);
    }
}

struct NetworkOut<'a> {
    queue: &'a mut EventQueue<Ev>,
    notices: &'a mut Vec<fabric::Notice>,
}

impl fabric::Out for NetworkOut<'_> {
    fn schedule(&mut self, at: SimTime, source: u32, event: fabric::Event) {
        debug_assert!(source < NIC_SOURCES);
        self.queue.schedule(at, source, Ev::Network(event));
    }

    fn notice(&mut self, notice: fabric::Notice) {
        self.notices.push(notice);
    }
}

impl<M: Memory> World<M> {
    /// A machine at rest. Commands have no effect before the NICs' lookahead has passed.
    pub fn new(network: Network, nics: Nics, memory: M) -> Self {
        let lookahead = nics.lookahead();
        World {
            queue: EventQueue::new(),
            network,
            nics,
            memory,
            commands: Vec::new(),
            free_commands: Vec::new(),
            lookahead,
            digest: Digest::default(),
            recording: false,
            before: Totals::default(),
            error: None,
            transfers: Vec::new(),
            notices: Vec::new(),
            multicasts: Multicasts::default(),
            wire: Wire::default(),
        }
    }

    /// The least time from a command to its first effect.
    pub fn lookahead(&self) -> SimTime {
        self.lookahead
    }

    /// The process `rank` wrote `command` at `written`.
    pub fn submit(&mut self, rank: u32, written: SimTime, command: Command) {
        // A rank that was outside, or was woken for no reason, may be behind: it acts now.
        let arrives = (written + self.lookahead).max(self.queue.now());
        let pending =
            Pending { process: Process(rank), written: SimTime(arrives.as_ps() - self.lookahead.as_ps().min(arrives.as_ps())), command };
        let slot = match self.free_commands.pop() {
            Some(slot) => {
                self.commands[slot as usize] = Some(pending);
                slot
            }
            None => {
                self.commands.push(Some(pending));
                (self.commands.len() - 1) as u32
            }
        };
        self.queue.schedule(arrives, PROCESS_SOURCES + rank, Ev::Command(slot));
    }

    /// The way of messages from `rank` that switches copy for `ranks`, all on nodes of their own: the tree, and the ranks in its order.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn tree(&self, rank: u32, ranks: &[u32]) -> Result<(Arc<Tree>, Arc<[u32]>), TreeError> {
        let node = |rank: u32| self.nics.node_of(Process(rank));
        let mut ranks = ranks.to_vec();
        ranks.sort_unstable_by_key(|&rank| node(rank));
        let targets: Vec<u32> = ranks.iter().map(|&rank| node(rank)).collect();
        Ok((Arc::new(self.network.tree(node(rank), &targets)?), ranks.into()))
    }

    /// The process `rank` wrote a command at `written` to send `bytes` to all `ranks` of a [`World::tree`]. What becomes of it comes out of [`World::take_told`],
    /// with `token`. Data go to buffers that the NICs know; nothing is matched.
    pub fn multicast(&mut self, rank: u32, written: SimTime, (tree, ranks): (&Arc<Tree>, &Arc<[u32]>), bytes: u64, token: u32) {
        let arrives = (written + self.lookahead).max(self.queue.now());
        let step = self.multicasts.submit(rank, written, tree, ranks, bytes, token);
        self.queue.schedule(arrives, PROCESS_SOURCES + rank, Ev::Multicast(step));
    }

    /// Moves what processes were told of multicasts to the end of `told`.
    pub fn take_told(&mut self, told: &mut Vec<Told>) {
        told.append(&mut self.multicasts.told);
    }

    /// Does what comes next of a multicast.
    fn go_on(&mut self, now: SimTime, next: Next) {
        match next {
            Next::At(at, rank, step) => self.queue.schedule(at, PROCESS_SOURCES + rank, Ev::Multicast(step)),
            Next::Start(tree, transfers) => {
                let mut out = NetworkOut { queue: &mut self.queue, notices: &mut self.notices };
                self.network.multicast(now, &tree, &transfers, &mut out);
            }
            Next::Nothing => {}
        }
    }

    fn step_multicast(&mut self, now: SimTime, step: Step) {
        let before = self.multicasts.told.len();
        let next = self.multicasts.step(now, step, &mut self.nics);
        if self.recording {
            for told in &self.multicasts.told[before..] {
                self.digest.event(now, u64::from(told.rank) << 32 | u64::from(told.token) << 1 | u64::from(told.sent));
            }
        }
        self.go_on(now, next);
    }

    /// Tells [`Memory::alarm`] at `at`, or now if that has passed.
    pub fn set_alarm(&mut self, rank: u32, at: SimTime) {
        self.queue.schedule(at.max(self.queue.now()), PROCESS_SOURCES + rank, Ev::Alarm(rank));
    }

    /// The time of the next event.
    pub fn next_time(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    /// The time of the last event.
    pub fn now(&self) -> SimTime {
        self.queue.now()
    }

    /// Does the next event.
    pub fn step(&mut self) {
        let Some((now, event)) = self.queue.pop() else { return };
        let mut nic_out = NicOut {
            now,
            queue: &mut self.queue,
            memory: &mut self.memory,
            transfers: &mut self.transfers,
            digest: &mut self.digest,
            recording: self.recording,
            wire: &mut self.wire,
        };
        match event {
            Ev::Network(event) => {
                let mut out = NetworkOut { queue: &mut self.queue, notices: &mut self.notices };
                self.network.handle(now, event, &mut out);
            }
            Ev::Shortcut(node, header) => self.nics.arrive(now, node, &header, &mut nic_out),
            Ev::Nic(node, event) => {
                self.nics.handle(now, node, event, &mut nic_out);
                if let Some(refusal) = self.nics.take_refusals().into_iter().next() {
                    self.error.get_or_insert((refusal.process.0, refusal.error));
                }
            }
            Ev::Alarm(rank) => nic_out.memory.alarm(now, rank),
            Ev::Multicast(step) => self.step_multicast(now, step),
            Ev::Command(slot) => {
                self.free_commands.push(slot);
                if let Some(pending) = self.commands[slot as usize].take()
                    && let Err(error) = self.nics.command(pending.written, pending.process, pending.command, &mut nic_out)
                {
                    self.error.get_or_insert((pending.process.0, error));
                }
            }
        }
        self.settle(now);
    }

    /// Carries transfers to the network and its notices to the NICs until both are quiet.
    fn settle(&mut self, now: SimTime) {
        while !self.transfers.is_empty() || !self.notices.is_empty() {
            let mut out = NetworkOut { queue: &mut self.queue, notices: &mut self.notices };
            for transfer in self.transfers.drain(..) {
                self.network.start(now, transfer, &mut out);
            }
            let mut notices = std::mem::take(&mut self.notices);
            for notice in notices.drain(..) {
                if let Some(next) = self.multicasts.notice(now, notice, &mut self.nics) {
                    self.go_on(now, next);
                    continue;
                }
                let mut out = NicOut {
                    now,
                    queue: &mut self.queue,
                    memory: &mut self.memory,
                    transfers: &mut self.transfers,
                    digest: &mut self.digest,
                    recording: self.recording,
                    wire: &mut self.wire,
                };
                self.nics.network(now, notice, &mut out);
            }
            if self.notices.is_empty() {
                self.notices = notices;
            }
        }
    }

    /// Runs until nothing is left.
    pub fn drain(&mut self) {
        while self.queue.next_time().is_some() {
            self.step();
        }
    }

    /// Gives back the room that the commands of a rank took in its NIC.
    pub fn trim(&mut self, rank: u32) {
        self.nics.trim(Process(rank));
    }

    /// From now on events count and enter the digest.
    pub fn start_recording(&mut self) {
        self.network.rest();
        self.recording = true;
        self.before = self.totals();
    }

    /// They do not any more.
    pub fn stop_recording(&mut self) {
        self.recording = false;
    }

    fn totals(&self) -> Totals {
        let nics = self.nics.statistics();
        let network = self.network.statistics();
        Totals {
            events: self.queue.processed(),
            messages: nics.messages,
            bytes: nics.bytes_sent,
            packets: network.packets,
            packet_hops: network.packet_hops,
            retries: nics.retries,
        }
    }

    /// What happened since [`World::start_recording`].
    pub fn recorded(&self) -> Totals {
        let (now, before) = (self.totals(), self.before);
        Totals {
            events: now.events - before.events,
            messages: now.messages - before.messages,
            bytes: now.bytes - before.bytes,
            packets: now.packets - before.packets,
            packet_hops: now.packet_hops - before.packet_hops,
            retries: now.retries - before.retries,
        }
    }

    /// Fingerprint of the run.
    pub fn digest(&self) -> u64 {
        self.digest.value()
    }

    /// The NICs.
    pub fn nics(&self) -> &Nics {
        &self.nics
    }
}
