//! Any bytes in the command areas of four processes on two nodes: the channel or the NICs refuse them by name, or work
//! on them; they come to rest, leave no payload behind, and touch no memory that the process did not give them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use narrows_channel::record::decode_command;
use narrows_engine::EventQueue;
use narrows_fabric::Notice as Network;
use narrows_keys::Keys;
use narrows_nic::{
    AnyConfig, AnyHeader, AnyNic, ApenetxCard, ApenetxConfig, CarvnetConfig, Combine, Departure, Event, ExanetConfig, Fault, MailboxConfig, Memory, NicConfig, Nics, Out, PayloadId,
    Process, TcpConfig, Wire, Wired,
};
use narrows_portals::{Command, LocalBuffer, NiLimits, Notice, Place, ProcessId};
use narrows_units::{ByteRate, Bytes, NodeId, PortId, Rail, SimTime};
use std::collections::BTreeMap;

const PROCESSES: u32 = 4;
/// Events that the NICs may take to come to rest.
const MOST_EVENTS: u32 = 1_000_000;

enum Due {
    Nic(PortId, Event),
    Shortcut(PortId, AnyHeader),
    Network(Network),
}

#[derive(Default)]
struct World {
    queue: EventQueue<Due>,
    wire: Wire<AnyHeader>,
    /// Those that are reserved, and whether they were taken.
    payloads: BTreeMap<PayloadId, bool>,
    reserved: u32,
    /// What each process gave: may the NIC write there, address, length.
    given: [Vec<(bool, u64, u64)>; PROCESSES as usize],
}

impl World {
    fn give(&mut self, process: usize, command: &Command) {
        // Of a list of segments only the list is known here; what it names is the business of who reads it.
        let buffer = |write, local: &LocalBuffer, length| (write, if local.segments == 0 { local.address } else { local.offset }, length);
        match command {
            Command::MeAppend { me, .. } => self.given[process].push((true, if me.segments == 0 { me.start } else { 0 }, me.length)),
            Command::Get { local, length, .. } => self.given[process].push(buffer(true, local, *length)),
            Command::Put { local, length, .. } => self.given[process].push(buffer(false, local, *length)),
            Command::Atomic(atomic) => {
                self.given[process].push(buffer(false, &atomic.local, atomic.length));
                if let Some(fetched) = &atomic.fetched {
                    self.given[process].push(buffer(true, fetched, atomic.length));
                }
            }
            Command::Triggered { command, .. } => self.give(process, command),
            Command::Allreduce(allreduce) => {
                self.given[process].push((false, allreduce.source.address, u64::from(allreduce.length)));
                self.given[process].push((true, allreduce.target.address, u64::from(allreduce.length)));
            }
            _ => {}
        }
    }

    fn check(&self, write: bool, process: Process, place: Place, length: u64) {
        let address = if place.segments == 0 { place.address } else { place.offset };
        let end = u128::from(address) + u128::from(length);
        let inside = |&(writable, start, size): &(bool, u64, u64)| {
            (writable || !write) && address >= start && end <= u128::from(start) + u128::from(size)
        };
        assert!(self.given[process.0 as usize].iter().any(inside), "{length} bytes at {address:#x} were not given (write: {write})");
    }
}

impl Wired<AnyNic> for World {
    fn wire(&mut self) -> &mut Wire<AnyHeader> {
        &mut self.wire
    }
}

impl World {
    fn take(&mut self, payload: PayloadId) {
        let before = self.payloads.insert(payload, true);
        assert_eq!(before, Some(false), "{payload:?} was taken twice, or never reserved");
    }
}

impl Out<AnyNic> for World {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.queue.schedule(at, port.0, Due::Nic(port, event));
    }
    fn depart(&mut self, port: PortId, departure: Departure<AnyHeader>) {
        let at = self.queue.now() + SimTime::from_ns(400);
        let id = self.wire.depart(port, departure).id;
        for notice in [Network::SourceDone(id), Network::HeadArrived(id), Network::TailArrived(id)] {
            self.queue.schedule(at, 1000 + port.0, Due::Network(notice));
        }
    }
    fn shortcut(&mut self, at: SimTime, _: PortId, to: PortId, header: AnyHeader) {
        self.queue.schedule(at, 2000 + to.0, Due::Shortcut(to, header));
    }
    fn notify(&mut self, _: PortId, _: Process, _: Notice) {}
}

impl Memory for World {
    fn reserve(&mut self) -> PayloadId {
        self.reserved += 1;
        self.payloads.insert(PayloadId(self.reserved), false);
        PayloadId(self.reserved)
    }
    fn capture(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        self.check(false, process, place, length);
        self.take(payload);
        Ok(())
    }
    fn inline(&mut self, payload: PayloadId, _: Box<[u8]>) {
        self.take(payload);
    }
    fn has_bytes(&self, payload: PayloadId) -> bool {
        self.payloads.get(&payload) == Some(&true)
    }
    fn deliver(&mut self, payload: PayloadId, process: Process, place: Place, length: u64) -> Result<(), Fault> {
        assert_eq!(self.payloads.get(&payload), Some(&true), "{payload:?} was not taken");
        self.check(true, process, place, length);
        Ok(())
    }
    fn combine(&mut self, payload: PayloadId, process: Process, place: Place, length: u64, _: &Combine) -> Result<(), Fault> {
        self.deliver(payload, process, place, length)
    }
    fn duplicate(&mut self, payload: PayloadId) -> PayloadId {
        assert_eq!(self.payloads.get(&payload), Some(&true), "{payload:?} was not taken");
        let copy = self.reserve();
        self.take(copy);
        copy
    }
    fn release(&mut self, payload: PayloadId) {
        assert!(self.payloads.remove(&payload).is_some(), "{payload:?} is not reserved");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let places: Vec<ProcessId> = (0..PROCESSES).map(|p| ProcessId::on(NodeId(p / 2), p % 2 + 1)).collect();
    let config = NicConfig {
        limits: NiLimits { max_unexpected_headers: 3, max_entries: 20, max_triggered_ops: 5, ..NiLimits::BXI_V2 },
        max_outstanding: 3,
        ..NicConfig::bxi_v2()
    };
    // The first bits say which kind of NIC.
    let first = bytes.first().copied().unwrap_or(0);
    let mailbox = MailboxConfig { rate: ByteRate(5_000_000_000), header_size: Bytes(64) };
    let ns = SimTime::from_ns;
    let exanet = ExanetConfig {
        short_limit: Bytes(32),
        header_size: Bytes(24),
        channels: 4,
        packetizer: ns(30),
        mailbox: ns(110),
        block: Bytes(1 << 38),
        rdma_start: ns(2_500),
        rdma_block: ns(700),
        rdma_done: ns(1_100),
        reduce_start: ns(2_000),
        reduce_rate: ByteRate(1_200_000_000),
        mailbox_room: u32::from(first >> 4 & 3),
        resend: ns(1_000),
        timeout: ns(u64::from(first >> 2 & 1) * 5_000),
        rdma_channels: 1 + u32::from(first & 3),
        page_faults: u32::from(first >> 3 & 1) * 300_000,
        domains: [].into(),
        fault_time: ns(10_000),
    };
    let rate = ByteRate(5_000_000_000);
    let tcp = TcpConfig { message: ns(2_000), segment: Bytes(1 << 38), segment_time: ns(300), rate };
    let contexts = 1 + u32::from(first & 3);
    let carvnet = CarvnetConfig {
        channels: contexts,
        source_contexts: contexts,
        target_contexts: contexts,
        block: Bytes(1 << 38),
        ..Keys::defaults()
    };
    let config = match first >> 5 {
        0 | 1 => config.into(),
        2 => AnyConfig::Tcp(config, tcp),
        3 => AnyConfig::Mailbox(config, mailbox),
        4 => {
            let card = ApenetxCard::new(ApenetxConfig { inline_limit: Bytes(32), ..Keys::defaults() }, &config);
            AnyConfig::Apenetx(config, card)
        }
        5 => AnyConfig::Carvnet(config, carvnet),
        _ => AnyConfig::Exanet(config, exanet),
    };
    let mut nics = Nics::new(config, 2, &places);
    let mut world = World::default();
    let mut rest = bytes;
    // A byte says whose record comes next; the record's time says when.
    while let Some((&process, record)) = rest.split_first() {
        let Ok((time, command, length)) = decode_command(record) else { break };
        rest = &record[length..];
        let process = u32::from(process) % PROCESSES;
        world.give(process as usize, &command);
        let until = world.queue.now() + SimTime(time % 3_000_000);
        run(&mut nics, &mut world, Some(until));
        let _ = nics.command(world.queue.now(), Process(process), Rail::FIRST, command, &mut world);
    }
    run(&mut nics, &mut world, None);
    assert_eq!(nics.in_flight(), 0);
    assert!(world.payloads.len() as u64 <= nics.held() + nics.waiting_vectors(), "payloads are left behind");
});

fn run(nics: &mut Nics, world: &mut World, until: Option<SimTime>) {
    for _ in 0..MOST_EVENTS {
        if let Some(until) = until
            && world.queue.next_time().is_none_or(|next| next > until)
        {
            return;
        }
        let Some((now, due)) = world.queue.pop() else { return };
        match due {
            Due::Nic(port, event) => nics.handle(now, port, event, world),
            Due::Shortcut(port, header) => nics.arrive(now, port, &header, world),
            Due::Network(notice) => nics.network(now, notice, world),
        }
    }
    panic!("the NICs never come to rest");
}
