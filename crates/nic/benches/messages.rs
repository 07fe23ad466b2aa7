//! How many messages per second of processor time the NIC model works on, with a network that does
//! nothing. The time of the event queue is in it.
//!
//! `cargo bench -p narrows-nic --bench messages`

#![allow(clippy::print_stdout)] // people read it

use std::hint::black_box;

use narrows_engine::{EventQueue, stream};
use narrows_fabric::Notice as Network;
use narrows_nic::{AnyHeader, AnyNic, Combine, Departure, Event, Fault, Memory, NicConfig, Nics, Out, PayloadId, Process, Wire, Wired};
use narrows_portals::*;
use narrows_units::{NodeId, PortId, Rail, SimTime};

enum Due {
    Nic(PortId, Event),
    Shortcut(PortId, AnyHeader),
    Network(Network),
}

/// A network of fixed latency, and no memory.
struct World {
    queue: EventQueue<Due>,
    wire: Wire<AnyHeader>,
    notices: u64,
}

impl Wired<AnyNic> for World {
    fn wire(&mut self) -> &mut Wire<AnyHeader> {
        &mut self.wire
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
            self.queue.schedule(at, 100 + port.0, Due::Network(notice));
        }
    }
    fn shortcut(&mut self, at: SimTime, _: PortId, to: PortId, header: AnyHeader) {
        self.queue.schedule(at, 200 + to.0, Due::Shortcut(to, header));
    }
    fn notify(&mut self, _: PortId, _: Process, notice: Notice) {
        black_box(&notice);
        self.notices += 1;
    }
}

impl Memory for World {
    fn reserve(&mut self) -> PayloadId {
        PayloadId(0)
    }
    fn capture(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn inline(&mut self, _: PayloadId, _: Box<[u8]>) {}
    fn deliver(&mut self, _: PayloadId, _: Process, _: Place, _: u64) -> Result<(), Fault> {
        Ok(())
    }
    fn combine(&mut self, _: PayloadId, _: Process, _: Place, _: u64, _: &Combine) -> Result<(), Fault> {
        Ok(())
    }
    fn release(&mut self, _: PayloadId) {}
}

fn run(nics: &mut Nics, world: &mut World) {
    while let Some((now, due)) = world.queue.pop() {
        match due {
            Due::Nic(port, event) => nics.handle(now, port, event, world),
            Due::Shortcut(port, header) => nics.arrive(now, port, &header, world),
            Due::Network(notice) => nics.network(now, notice, world),
        }
    }
}

const EQ: EqId = EqId(0);
const PT: u32 = 0;

/// Seconds that this process has run on a processor: others on the machine do not count.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says how long a process ran");
    let ns: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("its first word is a number of nanoseconds");
    ns / 1e9
}

fn machine() -> (Nics, World, RemoteTarget) {
    let places = [ProcessId::on(NodeId(0), 1), ProcessId::on(NodeId(1), 1)];
    let config = NicConfig { limits: NiLimits { max_entries: 1 << 20, max_list_size: 1 << 20, ..NiLimits::BXI_V2 }, ..NicConfig::bxi_v2() };
    let mut nics = Nics::new(config, 2, &places);
    let mut world = World { queue: EventQueue::new(), wire: Wire::default(), notices: 0 };
    for process in 0..2 {
        for command in [Command::EqAlloc { eq: EQ, count: 1 << 20 }, Command::PtAlloc { pt: PT, options: 0, eq: EQ }] {
            nics.command(SimTime::ZERO, Process(process), Rail::FIRST, command, &mut world).expect("nothing is allocated yet");
        }
    }
    run(&mut nics, &mut world);
    (nics, world, RemoteTarget { process: places[1], pt: PT, match_bits: 0, offset: 0 })
}

fn entry(entry: u64, bits: u64, options: u32) -> Command {
    let me = MatchEntry {
        length: 1 << 30,
        match_bits: bits,
        match_id: ProcessId::on(NodeId(0), 1),
        options: me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE | options,
        ..Default::default()
    };
    Command::MeAppend { entry: EntryId(entry), pt: PT, list: List::Priority, me }
}

fn put(target: RemoteTarget, bits: u64, length: u64) -> Command {
    let local = LocalBuffer { options: md::EVENT_SEND_DISABLE, ..LocalBuffer::default() };
    let target = RemoteTarget { match_bits: bits, ..target };
    Command::Put { local, length, inline: None, ack: AckRequest::None, target, hdr_data: 0 }
}

fn main() {
    for (what, length) in [("8 B puts into one entry", 8), ("1 MiB puts into one entry", 1 << 20)] {
        let (mut nics, mut world, target) = machine();
        nics.command(SimTime::ZERO, Process(1), Rail::FIRST, entry(1, 0, 0), &mut world).expect("a correct entry");
        let messages = 1_000_000u64;
        let begin = processor_time();
        for _ in 0..messages / 100 {
            for _ in 0..100 {
                let now = world.queue.now();
                nics.command(now, Process(0), Rail::FIRST, put(target, 0, length), &mut world).expect("a correct put");
            }
            run(&mut nics, &mut world);
        }
        let seconds = processor_time() - begin;
        println!("{what}: {:.2} M messages/s, {} events each", messages as f64 / seconds / 1e6, world.queue.processed() / messages);
    }
    for posted in [1u64, 32, 100, 1_000, 10_000, 100_000] {
        let (mut nics, mut world, target) = machine();
        let mut bits: Vec<u64> = (0..posted).collect();
        stream(1, "messages", 0).shuffle(&mut bits);
        for &bits in &bits {
            nics.command(SimTime::ZERO, Process(1), Rail::FIRST, entry(bits, bits, me::USE_ONCE), &mut world).expect("a correct entry");
        }
        run(&mut nics, &mut world);
        stream(2, "messages", 0).shuffle(&mut bits);
        let (messages, mut next) = (500_000u64, posted);
        let begin = processor_time();
        for round in 0..messages {
            let bits = bits[(round % posted) as usize];
            let now = world.queue.now();
            nics.command(now, Process(0), Rail::FIRST, put(target, bits, 0), &mut world).expect("a correct put");
            run(&mut nics, &mut world);
            nics.command(world.queue.now(), Process(1), Rail::FIRST, entry(next, bits, me::USE_ONCE), &mut world).expect("a correct entry");
            next += 1;
        }
        run(&mut nics, &mut world);
        let seconds = processor_time() - begin;
        assert_eq!(nics.statistics().drops, 0);
        println!("{posted} posted: {:.2} M puts matched, unlinked and appended again per second", messages as f64 / seconds / 1e6);
    }
}
