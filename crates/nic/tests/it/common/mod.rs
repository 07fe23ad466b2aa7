//! A machine for tests: NICs, a network of fixed latency and rate, and memory that checks how the
//! NICs use it.

use std::collections::BTreeMap;

use narrows_engine::EventQueue;
use narrows_fabric::{Notice as Network, Transfer};
use narrows_nic::{
    AnyConfig, AnyHeader, AnyNic, ApenetxCard, ApenetxConfig, Combine, CommandError, Denied, Departure, Event as NicEvent, ExanetConfig,
    Fault, MailboxConfig, Memory, NicConfig, Nics, Out, PayloadId, Process, TcpConfig, Wire, Wired,
};
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, NodeId, PortId, Rail, SimTime};

pub const NO_EQ: EqId = EqId::NONE;
pub const NO_CT: CtId = CtId::NONE;
pub const EQ: EqId = EqId(0);
pub const CT: CtId = CtId(0);
pub const PT: u32 = 4;
/// Bytes of memory of each process.
pub const MEMORY: usize = 1 << 20;

pub enum Due {
    Nic(PortId, NicEvent),
    Shortcut(PortId, AnyHeader),
    Network(Network),
}

pub struct World {
    pub queue: EventQueue<Due>,
    pub latency: SimTime,
    pub rate: ByteRate,
    pub memory: Vec<Vec<u8>>,
    pub wire: Wire<AnyHeader>,
    /// Those that are reserved; without bytes: not captured, or a fault.
    pub payloads: BTreeMap<PayloadId, Option<Vec<u8>>>,
    next_payload: u32,
    pub seen: Vec<(SimTime, Process, Notice)>,
    pub transfers: Vec<(SimTime, Transfer)>,
    pub delivered: u64,
    /// Accesses that were refused for their protection domain.
    pub denied: Vec<Denied>,
    /// The network says SourceDone after TailArrived.
    pub late_source: bool,
    /// Addresses and lengths mean nothing: no memory is touched.
    pub wild: bool,
}

impl Wired<AnyNic> for World {
    fn wire(&mut self) -> &mut Wire<AnyHeader> {
        &mut self.wire
    }
}

impl Out<AnyNic> for World {
    fn schedule(&mut self, at: SimTime, port: PortId, event: NicEvent) {
        self.queue.schedule(at, port.0, Due::Nic(port, event));
    }
    fn depart(&mut self, port: PortId, departure: Departure<AnyHeader>) {
        let now = self.queue.now();
        let transfer = self.wire.depart(port, departure);
        self.transfers.push((now, transfer));
        let busy = self.rate.time_for(transfer.payload);
        let source = 1_000 + transfer.source;
        let read = if self.late_source { self.latency + busy * 2 + ns(50) } else { busy };
        self.queue.schedule(now + read, source, Due::Network(Network::SourceDone(transfer.id)));
        self.queue.schedule(now + self.latency, source, Due::Network(Network::HeadArrived(transfer.id)));
        self.queue.schedule(now + self.latency + busy, source, Due::Network(Network::TailArrived(transfer.id)));
    }
    fn shortcut(&mut self, at: SimTime, _: PortId, to: PortId, header: AnyHeader) {
        self.queue.schedule(at, 2_000 + to.0, Due::Shortcut(to, header));
    }
    fn notify(&mut self, _: PortId, process: Process, notice: Notice) {
        self.seen.push((self.queue.now(), process, notice));
    }
    fn denied(&mut self, denied: Denied) {
        self.denied.push(denied);
    }
}

impl Memory for World {
    fn reserve(&mut self) -> PayloadId {
        let payload = PayloadId(self.next_payload);
        self.next_payload += 1;
        self.payloads.insert(payload, None);
        payload
    }
    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        let bytes = if self.wild { Vec::new() } else { self.read(process, place, length).ok_or(Fault)? };
        let before = self.payloads.get_mut(&payload).expect("a payload is reserved").replace(bytes);
        assert!(before.is_none(), "{payload:?} was taken twice");
        Ok(())
    }
    fn inline(&mut self, payload: PayloadId, bytes: Box<[u8]>) {
        let before = self.payloads.get_mut(&payload).expect("a payload is reserved").replace(bytes.into_vec());
        assert!(before.is_none(), "{payload:?} was taken twice");
    }
    fn has_bytes(&self, payload: PayloadId) -> bool {
        self.payloads[&payload].is_some()
    }
    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        let payload = self.payloads[&payload].as_ref().ok_or(Fault)?;
        if self.wild {
            return Ok(());
        }
        assert!(length > 0 && length as usize <= payload.len());
        let bytes = payload[..length as usize].to_vec();
        self.delivered += length;
        self.write(process, place, &bytes)
    }
    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, combine: &Combine) -> Result<(), Fault> {
        if self.wild {
            return Ok(());
        }
        let old = self.read(process, place, length).ok_or(Fault)?;
        let mut new = old.clone();
        let payload = self.payloads.get_mut(&payload).expect("an atomic has a payload").as_mut().ok_or(Fault)?;
        apply(combine.operation, combine.datatype, &mut new, payload, &combine.operand);
        if combine.fetch {
            *payload = old;
        }
        self.write(process, place, &new)
    }
    fn duplicate(&mut self, payload: PayloadId) -> PayloadId {
        let bytes = self.payloads[&payload].clone();
        let copy = self.reserve();
        self.payloads.insert(copy, bytes);
        copy
    }
    fn fold(&mut self, into: PayloadId, payload: PayloadId, operation: AtomicOperation, datatype: Datatype) {
        let bytes = self.payloads[&payload].clone().unwrap_or_default();
        let Some(Some(into)) = self.payloads.get_mut(&into) else { return };
        let length = into.len().min(bytes.len());
        apply(operation, datatype, &mut into[..length], &bytes[..length], &[0; 32]);
    }
    fn release(&mut self, payload: PayloadId) {
        assert!(self.payloads.remove(&payload).is_some(), "{payload:?} is not reserved");
    }
}

impl World {
    /// The transfers that are puts, gets and atomics, not what answers them.
    pub fn requests(&self) -> impl Iterator<Item = &(SimTime, Transfer)> {
        self.transfers.iter().filter(|(_, transfer)| transfer.virtual_network == 0)
    }

    /// The pieces of a place: a list of segments stands in memory as pairs of address and length.
    fn pieces(&self, process: Process, place: Place, length: u64) -> Vec<(usize, usize)> {
        if place.segments == 0 {
            return vec![(place.address as usize, length as usize)];
        }
        let word = |at: usize| u64::from_le_bytes(self.memory[process.0 as usize][at..at + 8].try_into().expect("eight bytes"));
        let (mut skip, mut left, mut pieces) = (place.offset, length, Vec::new());
        for segment in 0..place.segments as usize {
            let at = place.address as usize + 16 * segment;
            let (address, size) = (word(at), word(at + 8));
            let used = size.saturating_sub(skip).min(left);
            if used > 0 {
                pieces.push(((address + skip) as usize, used as usize));
            }
            skip = skip.saturating_sub(size);
            left -= used;
        }
        pieces
    }

    fn read(&self, process: Process, place: Place, length: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for (at, size) in self.pieces(process, place, length) {
            bytes.extend_from_slice(self.memory[process.0 as usize].get(at..at + size)?);
        }
        Some(bytes)
    }

    fn write(&mut self, process: Process, place: Place, mut bytes: &[u8]) -> Result<(), Fault> {
        for (at, size) in self.pieces(process, place, bytes.len() as u64) {
            let memory = self.memory[process.0 as usize].get_mut(at..at + size).ok_or(Fault)?;
            memory.copy_from_slice(&bytes[..size]);
            bytes = &bytes[size..];
        }
        Ok(())
    }
}

pub struct Sim {
    pub nics: Nics,
    pub world: World,
    pub places: Vec<ProcessId>,
    pub clock: SimTime,
    next_entry: u64,
    next_ticket: u32,
}

pub fn config() -> NicConfig {
    NicConfig::bxi_v2()
}

/// TCP, for a library above it with these costs.
pub fn tcp(config: NicConfig, segment: u64) -> AnyConfig {
    let tcp = TcpConfig {
        message: SimTime::from_us(2),
        segment: Bytes(segment),
        segment_time: SimTime::from_ns(300),
        rate: ByteRate(5_000_000_000),
    };
    AnyConfig::Tcp(config, tcp)
}

/// The same below a library that matches in software.
pub fn mailbox(config: NicConfig) -> AnyConfig {
    AnyConfig::Mailbox(config, MailboxConfig { rate: ByteRate(5_000_000_000), header_size: Bytes(100) })
}

/// Idem, of APEnetX.
pub fn apenetx(config: NicConfig, options: ApenetxConfig) -> AnyConfig {
    let card = ApenetxCard::new(options, &config);
    AnyConfig::Apenetx(config, card)
}

/// Idem, of ExaNeSt.
pub fn exanet(config: NicConfig, block: u64) -> AnyConfig {
    let exanet = ExanetConfig {
        short_limit: Bytes(32),
        header_size: Bytes(24),
        channels: 4,
        packetizer: ns(30),
        mailbox: ns(110),
        block: Bytes(block),
        rdma_start: ns(2_500),
        rdma_block: ns(700),
        rdma_done: ns(1_100),
        reduce_start: ns(2_000),
        reduce_rate: ByteRate(1_200_000_000),
        mailbox_room: 0,
        resend: ns(1_000),
        timeout: ns(0),
        rdma_channels: 512,
        page_faults: 0,
        domains: [].into(),
        fault_time: ns(10_000),
    };
    AnyConfig::Exanet(config, exanet)
}

impl Sim {
    /// `nodes` nodes with `ppn` processes each, process numbers by node.
    pub fn new(config: impl Into<AnyConfig>, nodes: u32, ppn: u32) -> Sim {
        let places: Vec<ProcessId> = (0..nodes * ppn).map(|p| ProcessId::on(NodeId(p / ppn), p % ppn + 1)).collect();
        Sim {
            nics: Nics::new(config, nodes, &places),
            world: World {
                queue: EventQueue::new(),
                latency: SimTime::from_ns(400),
                rate: ByteRate(10_000_000_000),
                memory: vec![vec![0; MEMORY]; places.len()],
                wire: Wire::default(),
                payloads: BTreeMap::new(),
                next_payload: 0,
                seen: Vec::new(),
                transfers: Vec::new(),
                delivered: 0,
                denied: Vec::new(),
                late_source: false,
                wild: false,
            },
            places,
            clock: SimTime::ZERO,
            next_entry: 1,
            next_ticket: 1,
        }
    }

    /// The same, with [`EQ`], [`CT`] and [`PT`] made in every process.
    pub fn ready(config: impl Into<AnyConfig>, nodes: u32, ppn: u32, pt_options: u32) -> Sim {
        let mut sim = Sim::new(config, nodes, ppn);
        for process in 0..nodes * ppn {
            sim.command(process, Command::EqAlloc { eq: EQ, count: 1024 });
            sim.command(process, Command::CtAlloc { ct: CT });
            sim.command(process, Command::PtAlloc { pt: PT, options: pt_options, eq: EQ });
        }
        sim.run();
        sim
    }

    pub fn try_command(&mut self, process: u32, command: Command) -> Result<(), CommandError> {
        self.clock = self.clock.max(self.world.queue.now());
        self.nics.command(self.clock, Process(process), Rail::FIRST, command, &mut self.world)
    }

    pub fn command(&mut self, process: u32, command: Command) {
        self.try_command(process, command).expect("the tests give correct commands");
    }

    pub fn step(&mut self) -> bool {
        let Some((now, due)) = self.world.queue.pop() else { return false };
        match due {
            Due::Nic(port, event) => self.nics.handle(now, port, event, &mut self.world),
            Due::Shortcut(port, header) => self.nics.arrive(now, port, &header, &mut self.world),
            Due::Network(notice) => self.nics.network(now, notice, &mut self.world),
        }
        true
    }

    /// Until nothing happens any more.
    pub fn run(&mut self) {
        while self.step() {}
        self.clock = self.clock.max(self.world.queue.now());
    }

    pub fn run_until(&mut self, at: SimTime) {
        while self.world.queue.next_time().is_some_and(|next| next <= at) {
            self.step();
        }
        self.clock = self.clock.max(at);
    }

    pub fn append_to(&mut self, process: u32, list: List, me: MatchEntry) -> EntryId {
        let entry = EntryId(self.next_entry);
        self.next_entry += 1;
        self.command(process, Command::MeAppend { entry, pt: PT, list, me });
        entry
    }

    pub fn append(&mut self, process: u32, me: MatchEntry) -> EntryId {
        self.append_to(process, List::Priority, me)
    }

    pub fn overflow(&mut self, process: u32, me: MatchEntry) -> EntryId {
        self.append_to(process, List::Overflow, me)
    }

    pub fn search(&mut self, process: u32, operation: SearchOperation, me: MatchEntry) {
        self.command(process, Command::MeSearch { pt: PT, operation, me });
    }

    /// Unlinks and runs; the answer.
    pub fn unlink(&mut self, process: u32, entry: EntryId) -> ReplyCode {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.command(process, Command::MeUnlink { entry, ticket });
        self.run();
        let found = self.world.seen.iter().find_map(|(_, _, notice)| match notice {
            Notice::Reply { ticket: of, code, .. } if *of == ticket => Some(*code),
            _ => None,
        });
        found.expect("an unlink is always answered")
    }

    pub fn target(&self, process: u32, bits: u64) -> RemoteTarget {
        RemoteTarget { process: self.places[process as usize], pt: PT, match_bits: bits, offset: 0 }
    }

    pub fn put(&mut self, from: u32, to: u32, bits: u64, length: u64, ack: AckRequest) {
        self.put_from(from, to, bits, local(0), length, ack, 0);
    }

    #[allow(clippy::too_many_arguments)]
    pub fn put_from(&mut self, from: u32, to: u32, bits: u64, local: LocalBuffer, length: u64, ack: AckRequest, hdr_data: u64) {
        let target = self.target(to, bits);
        self.command(from, Command::Put { local, length, inline: None, ack, target, hdr_data });
    }

    pub fn get(&mut self, from: u32, of: u32, bits: u64, local: LocalBuffer, length: u64) {
        let target = self.target(of, bits);
        self.command(from, Command::Get { local, length, target });
    }

    /// What `process` has seen since the last call.
    pub fn take(&mut self, process: u32) -> Vec<Notice> {
        let mut taken = Vec::new();
        self.world.seen.retain(|(_, of, notice)| {
            let mine = of.0 == process;
            if mine {
                taken.push(*notice);
            }
            !mine
        });
        taken
    }

    /// The full events of them.
    pub fn events(&mut self, process: u32) -> Vec<Event> {
        self.take(process)
            .into_iter()
            .filter_map(|notice| match notice {
                Notice::Event { event, .. } => Some(event),
                _ => None,
            })
            .collect()
    }

    /// Runs, then the kinds of the full events.
    pub fn kinds(&mut self, process: u32) -> Vec<EventKind> {
        self.run();
        self.events(process).iter().map(|event| event.kind).collect()
    }

    /// Runs, then the last value of [`CT`].
    pub fn count(&mut self, process: u32) -> (u64, u64) {
        self.run();
        let last = self.take(process).into_iter().rev().find_map(|notice| match notice {
            Notice::Count { ct: CT, success, failure, .. } => Some((success, failure)),
            _ => None,
        });
        last.unwrap_or((0, 0))
    }

    /// Fills memory with a pattern that no two places share (modulo 251).
    pub fn fill(&mut self, process: u32, at: u64, length: u64, seed: u64) {
        for i in 0..length {
            self.world.memory[process as usize][(at + i) as usize] = pattern(seed, i);
        }
    }

    pub fn check(&self, process: u32, at: u64, length: u64, seed: u64) {
        for i in 0..length {
            assert_eq!(self.world.memory[process as usize][(at + i) as usize], pattern(seed, i), "byte {i} of {length}");
        }
    }

    /// Nothing may be left when nothing is under way.
    pub fn check_idle(&mut self) {
        self.run();
        assert_eq!(self.nics.in_flight(), 0);
        let payloads = &self.world.payloads;
        assert!(payloads.len() as u64 <= self.nics.held(), "payloads left: {:?}", payloads.keys());
    }
}

fn pattern(seed: u64, i: u64) -> u8 {
    ((seed * 37 + i) % 251) as u8
}

/// An MD buffer that asks for all events.
pub fn local(address: u64) -> LocalBuffer {
    LocalBuffer { address, eq: EQ, user_ptr: 0xabc, ..LocalBuffer::default() }
}

/// An entry for puts and gets without LINK events.
pub fn entry(bits: u64, start: u64, length: u64) -> MatchEntry {
    MatchEntry { start, length, match_bits: bits, options: me::OP_PUT | me::OP_GET | me::EVENT_LINK_DISABLE, ..Default::default() }
}

/// The same with more options.
pub fn entry_with(bits: u64, start: u64, length: u64, options: u32) -> MatchEntry {
    let mut me = entry(bits, start, length);
    me.options |= options;
    me
}

pub fn ns(ns: u64) -> SimTime {
    SimTime::from_ns(ns)
}

/// One way over PCIe, with so many bytes.
pub fn pcie(bytes: u64) -> SimTime {
    config().pcie_latency + config().pcie_rate.time_for(Bytes(bytes))
}

/// When a process was told of events of this kind.
pub fn seen(sim: &Sim, process: u32, kind: EventKind) -> Vec<SimTime> {
    let of = |(at, of, notice): &(SimTime, Process, Notice)| match notice {
        Notice::Event { event, .. } if of.0 == process && event.kind == kind => Some(*at),
        _ => None,
    };
    sim.world.seen.iter().filter_map(of).collect()
}

/// What processes 0 and 1 are told of puts, one of which matches nothing, and a get, and what is in memory then.
pub fn puts_and_a_get(mut sim: Sim) -> (Vec<String>, Vec<Vec<u8>>) {
    for (bits, length) in [(0, 8), (0, 70_000), (0, 0), (9, 300)] {
        sim.world.memory[0][..length as usize].fill(length as u8);
        sim.put(0, 1, bits, length, AckRequest::Full);
        sim.run();
    }
    sim.get(0, 1, 0, local(1 << 19), 10_000);
    sim.run();
    let events = [0, 1].map(|process| format!("{:?}", sim.events(process))).into();
    (events, sim.world.memory)
}

pub fn time_for(rate: ByteRate, bytes: u64) -> SimTime {
    rate.time_for(Bytes(bytes))
}
