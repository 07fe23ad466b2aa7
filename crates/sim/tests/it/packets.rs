//! A kind of NIC that sees packets, below Portals: it counts them, answers for the host, or holds their buffers.

#![allow(clippy::large_enum_variant, reason = "most messages have headers")]

use narrows_fabric::NetworkConfig;
use narrows_fabric::seam::{Acknowledge, PacketIn, Verdict};
use narrows_nic::{
    Below, CommandError, Departure, Directory, Engine, Event, Header, Heard, Nic, NicConfig, Out, Process, Refusal, Travels,
};
use narrows_portals::{AckRequest, Command, EntryId, EqId, EventKind, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{Bytes, NodeId, PortId, Rail, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notices for the library.
const LIBRARY: Process = Process(u32::MAX);
const EQ: EqId = EqId(0);
/// Puts with these match bits are for the NIC.
const FOR_THE_NIC: u64 = 7;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Count,
    /// Answers puts that are for it.
    Answer,
    /// Has one packet at a time, for so long.
    Hold(SimTime),
}

/// What the NICs have done, all together.
#[derive(Default, Debug)]
struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
    answers: AtomicU64,
}

#[derive(Clone, Debug)]
struct Config {
    act: Act,
    tally: Arc<Tally>,
}

/// Messages of the library, and what NICs say to each other.
#[derive(Clone, Copy, Debug)]
enum Says {
    Message { from: PortId, header: Header },
    Answer,
}

impl Travels for Says {
    fn message(&self) -> Option<&Header> {
        if let Says::Message { header, .. } = self { Some(header) } else { None }
    }
}

#[derive(Debug)]
enum Told {
    Read(u32),
    Done(u32),
    Arrived(Header),
}

#[derive(Debug)]
struct Handler {
    port: PortId,
    config: Config,
    /// Bytes of messages that it has consumed so far, by source and number.
    eaten: BTreeMap<(u32, u32), u64>,
    free: SimTime,
}

impl Nic for Handler {
    type Command = Departure<Header>;
    type Notice = Told;
    type Header = Says;
    const SEES: Option<Acknowledge> = Some(Acknowledge::Done);

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, _: SimTime, _: Process, message: Departure<Header>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let from = self.port;
        out.depart(from, message.map(|header| Says::Message { from, header }));
        Ok(())
    }

    fn handle(&mut self, _: SimTime, _: Event, _: &mut impl Out<Self>) {}

    fn source_done(&mut self, _: SimTime, token: u32, out: &mut impl Out<Self>) {
        out.notify(self.port, LIBRARY, Told::Read(token));
        out.notify(self.port, LIBRARY, Told::Done(token));
    }

    fn head(&mut self, _: SimTime, _: &Says, _: &mut impl Out<Self>) -> u32 {
        0
    }

    fn tail(&mut self, _: SimTime, _: u32, header: &Says, out: &mut impl Out<Self>) {
        match header {
            Says::Message { header, .. } => out.notify(self.port, LIBRARY, Told::Arrived(*header)),
            Says::Answer => _ = self.config.tally.answers.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }

    fn packet_in(&mut self, now: SimTime, packet: &PacketIn, header: &Says, out: &mut impl Out<Self>) -> Verdict {
        let PacketIn { arrival, payload, tail, again, .. } = *packet;
        if again {
            return Verdict::Pass;
        }
        self.config.tally.packets.fetch_add(1, Ordering::Relaxed);
        self.config.tally.bytes.fetch_add(payload.0, Ordering::Relaxed);
        match (self.config.act, header) {
            (Act::Hold(time), _) => {
                self.free = self.free.max(tail).max(now) + time;
                Verdict::DelayUntil(self.free)
            }
            (Act::Answer, Says::Message { from, header }) if is_for_the_nic(header) => {
                let eaten = self.eaten.entry((arrival.source, arrival.id.0)).or_default();
                *eaten += payload.0;
                if *eaten == arrival.payload.0 {
                    self.eaten.remove(&(arrival.source, arrival.id.0));
                    let payload = Bytes(16);
                    let answer = Departure {
                        to: *from,
                        virtual_network: 1,
                        payload,
                        source_dma: false,
                        target_dma: false,
                        token: 0,
                        header: Says::Answer,
                    };
                    out.depart(self.port, answer);
                }
                Verdict::Consume
            }
            _ => Verdict::Pass,
        }
    }
}

fn is_for_the_nic(header: &Header) -> bool {
    matches!(header.about(), narrows_nic::About::Request { match_bits: FOR_THE_NIC, .. })
}

impl Below for Handler {
    type Config = Config;

    fn at(config: &Config, _: &Directory, port: PortId) -> Self {
        Handler { port, config: config.clone(), eaten: BTreeMap::new(), free: SimTime::ZERO }
    }
    fn copied(_: &Config) -> Bytes {
        Bytes(0)
    }
    fn order(departure: Departure<Header>) -> Departure<Header> {
        departure
    }
    fn heard(told: Told) -> Heard {
        match told {
            Told::Read(token) => Heard::Read(token),
            Told::Done(token) => Heard::Done(token),
            Told::Arrived(header) => Heard::Arrived(header),
        }
    }
}

/// What a region's processes are told.
#[derive(Default)]
struct Ranks(Vec<(SimTime, u32, Notice)>);

impl Processes for Ranks {
    type Letter = ();

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.0.push((now, rank, notice));
    }
}

/// From, to, length, match bits.
type Put = (u32, u32, u64, u64);

struct Outcome {
    told: Vec<(SimTime, u32, Notice)>,
    digest: u64,
    tally: [u64; 3],
}

impl Outcome {
    /// When ranks were told of such an event, in the order of time.
    fn times(&self, kind: EventKind) -> Vec<(SimTime, u32)> {
        let of = |&(at, rank, ref notice): &(SimTime, u32, Notice)| match notice {
            Notice::Event { event, .. } if event.kind == kind => Some((at, rank)),
            _ => None,
        };
        self.told.iter().filter_map(of).collect()
    }
}

const NODES: u32 = 16;

/// On a fat tree of sixteen nodes with buffers for so many packets.
fn run(act: Act, puts: &[Put], packets: u64, cut: bool, threads: usize) -> Outcome {
    let tally = Arc::new(Tally::default());
    let config = NetworkConfig { buffer_per_channel: Bytes(packets * 2200), ..NetworkConfig::default() };
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let places: Vec<ProcessId> = (0..NODES).map(|node| ProcessId::on(NodeId(node), 1)).collect();
    let nic = (NicConfig::bxi_v2(), Config { act, tally: Arc::clone(&tally) });
    let setup = Setup { hardware: Hardware::of(&config, topology, nic), places: &places };
    let mut world: World<Ranks, Engine<Handler>> = World::of_kind(setup, cut, |_| Ranks::default()).unwrap();
    assert_eq!(world.cut() > 1, cut);
    world.start_recording(SimTime::ZERO);
    let entry = MatchEntry { length: 1 << 30, options: me::OP_PUT, ignore_bits: u64::MAX, ..MatchEntry::default() };
    for rank in 0..NODES {
        for command in [
            Command::EqAlloc { eq: EQ, count: 1 << 10 },
            Command::PtAlloc { pt: 0, options: 0, eq: EQ },
            Command::MeAppend { entry: EntryId(0), pt: 0, list: List::Priority, me: entry },
        ] {
            world.submit(rank, Rail::FIRST, SimTime::ZERO, command);
        }
    }
    for (number, &(from, to, length, match_bits)) in (0..).zip(puts) {
        let target = RemoteTarget { process: places[to as usize], pt: 0, match_bits, offset: 0 };
        let local = LocalBuffer { eq: EQ, ..LocalBuffer::default() };
        let at = SimTime::from_us(20) + SimTime::from_ns(number);
        world.submit(from, Rail::FIRST, at, Command::Put { local, length, inline: None, ack: AckRequest::None, target, hdr_data: 0 });
    }
    assert!(world.run_while(SimTime::from_us(100_000), threads, &mut |_| true));
    assert_eq!((world.error(), world.next_time()), (None, None));
    let digest = world.digest();
    let mut told: Vec<_> = world.all().flat_map(|ranks| std::mem::take(&mut ranks.0)).collect();
    told.sort_by_key(|&(at, rank, _)| (at, rank));
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Outcome { told, digest, tally: [count(&tally.packets), count(&tally.bytes), count(&tally.answers)] }
}

/// The same in one region and in several, on one thread and on two.
fn anywhere(act: Act, puts: &[Put], packets: u64) -> Outcome {
    let whole = run(act, puts, packets, false, 1);
    for threads in [1, 2] {
        let parts = run(act, puts, packets, true, threads);
        assert_eq!((parts.digest, parts.tally), (whole.digest, whole.tally));
        assert_eq!(parts.told, whole.told);
    }
    whole
}

/// Near and far, within a node, of one packet and of many.
fn puts() -> Vec<Put> {
    (0..60u32).map(|put| (put % NODES, (put * 7 + put / 16) % NODES, u64::from(put * put * 37 % 30_000), u64::from(put % 9))).collect()
}

#[test]
fn packets_are_counted_and_passed() {
    let puts = puts();
    let Outcome { told, tally, .. } = anywhere(Act::Count, &puts, 16);
    let bytes: u64 = puts.iter().map(|put| put.2).sum();
    let mtu = NetworkConfig::default().mtu.0;
    let packets: u64 = puts.iter().map(|&(from, to, length, _)| if from == to { 1 } else { length.div_ceil(mtu).max(1) }).sum();
    assert_eq!(tally[1], bytes);
    assert!(tally[0] >= packets, "{} packets, the library's own among them, of {packets}", tally[0]);
    let puts_told = told.iter().filter(|(_, _, notice)| matches!(notice, Notice::Event { event, .. } if event.kind == EventKind::Put));
    assert_eq!(puts_told.count(), puts.len());
}

#[test]
fn a_nic_consumes_a_message_and_answers_for_its_host() {
    let puts = puts();
    let outcome = anywhere(Act::Answer, &puts, 16);
    let for_the_nic = puts.iter().filter(|put| put.3 == FOR_THE_NIC).count();
    assert_eq!(outcome.tally[2], for_the_nic as u64);
    // The hosts hear of all others, whose order is kept.
    assert_eq!(outcome.times(EventKind::Put).len(), puts.len() - for_the_nic);
    assert_eq!(outcome.times(EventKind::Send).len(), puts.len());
}

/// A source cannot read on while the target holds the buffers of all links between them.
#[test]
fn held_buffers_hold_the_source() {
    let time = SimTime::from_us(2);
    let put = [(0, 9, 1 << 18, 0)];
    let packets = (1u64 << 18).div_ceil(NetworkConfig::default().mtu.0);
    let end = |act| anywhere(act, &put, 2).times(EventKind::Send)[0].0;
    let (passed, held) = (end(Act::Count), end(Act::Hold(time)));
    // All but what fits into buffers has been through the target's NIC.
    let through = packets - 40;
    assert!(held > passed + time * through - (passed - SimTime::from_us(20)), "{held}, without holding {passed}");
}
