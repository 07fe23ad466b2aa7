//! Handlers above Portals: what they take, what bounds them, and that who has none pays nothing.

use narrows_fabric::NetworkConfig;
use narrows_nic::{AnyConfig, HandlerReport, HandlersConfig, NicConfig, Rule, SpinConfig};
use narrows_portals::runs::{self, Run};
use narrows_portals::{
    AckRequest, Command, ContextPart, EntryId, EqId, EventKind, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me,
};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{Bytes, NodeId, Rail, SimTime};
use std::sync::Arc;

const EQ: EqId = EqId(0);
const NODES: u32 = 16;

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
    report: Option<HandlerReport>,
}

impl Outcome {
    /// When targets were told of puts.
    fn puts(&self) -> Vec<SimTime> {
        let of = |(at, _, notice): &(SimTime, u32, Notice)| match notice {
            Notice::Event { event, .. } if event.kind == EventKind::Put => Some(*at),
            _ => None,
        };
        self.told.iter().filter_map(of).collect()
    }
}

fn asic() -> SpinConfig {
    SpinConfig::preset("pspin-asic").unwrap()
}

fn handlers(machine: SpinConfig, rules: &[&str]) -> AnyConfig {
    let rules = rules.iter().map(|text| Rule::parse(text, |path| std::fs::read(path)).unwrap()).collect();
    AnyConfig::Handlers(NicConfig::bxi_v2(), Arc::new(HandlersConfig { machine, rules }))
}

fn plain() -> AnyConfig {
    AnyConfig::Portals(NicConfig::bxi_v2())
}

/// An entry of a list that takes all puts.
fn takes_all() -> MatchEntry {
    MatchEntry { length: 1 << 30, options: me::OP_PUT, ignore_bits: u64::MAX, ..MatchEntry::default() }
}

/// On a fat tree, in one region or in several.
fn run(nic: &AnyConfig, puts: &[Put], packets: u64, cut: bool, threads: usize) -> Outcome {
    let append = Command::MeAppend { entry: EntryId(0), pt: 0, list: List::Priority, me: takes_all() };
    run_with(nic, &[append], puts, packets, (cut, threads))
}

/// The same with entries and contexts of each process.
fn run_with(nic: &AnyConfig, commands: &[Command], puts: &[Put], packets: u64, (cut, threads): (bool, usize)) -> Outcome {
    let config = NetworkConfig {
        buffer_per_channel: Bytes(packets * 2200),
        pcie_rate: NicConfig::bxi_v2().data_bandwidth,
        ..NetworkConfig::default()
    };
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let places: Vec<ProcessId> = (0..NODES).map(|node| ProcessId::on(NodeId(node), 1)).collect();
    let setup = Setup { hardware: Hardware::new(&config, topology, nic.clone()), places: &places };
    let mut world = match cut {
        false => World::whole(setup, |_| Ranks::default()).unwrap(),
        true => World::regions(setup, |_| Ranks::default()).unwrap(),
    };
    world.start_recording(SimTime::ZERO);
    for rank in 0..NODES {
        let opened = [Command::EqAlloc { eq: EQ, count: 1 << 10 }, Command::PtAlloc { pt: 0, options: 0, eq: EQ }];
        for command in opened.iter().chain(commands) {
            world.submit(rank, Rail::FIRST, SimTime::ZERO, command.clone());
        }
    }
    for (number, &(from, to, length, match_bits)) in (0..).zip(puts) {
        let target = RemoteTarget { process: places[to as usize], pt: 0, match_bits, offset: 0 };
        let local = LocalBuffer { eq: EQ, ..LocalBuffer::default() };
        let at = SimTime::from_us(20) + SimTime::from_ns(number);
        world.submit(from, Rail::FIRST, at, Command::Put { local, length, inline: None, ack: AckRequest::None, target, hdr_data: 0 });
    }
    assert!(world.run_while(SimTime::from_us(1_000_000), threads, &mut |_| true));
    assert_eq!((world.error(), world.next_time()), (None, None), "all has come to its end");
    let (digest, report) = (world.digest(), world.handlers());
    let mut told: Vec<_> = world.all().flat_map(|ranks| std::mem::take(&mut ranks.0)).collect();
    told.sort_by_key(|&(at, rank, _)| (at, rank));
    Outcome { told, digest, report }
}

/// Near and far, within a node, of one packet and of many.
fn mixed() -> Vec<Put> {
    (0..60u32).map(|put| (put % NODES, (put * 7 + put / 16) % NODES, u64::from(put * put * 37 % 30_000), u64::from(put % 9))).collect()
}

/// The entry of a list for puts of these match bits, with a context.
fn entry(bits: u64, context: u32, list: List) -> Command {
    let me = MatchEntry { options: me::OP_PUT | context << me::CONTEXT_SHIFT, match_bits: bits, ignore_bits: 0, ..takes_all() };
    Command::MeAppend { entry: EntryId(bits), pt: 0, list, me }
}

/// A context of a datatype, in two parts.
fn context(number: u8, rules: u64, runs: &[Run]) -> [Command; 2] {
    let words = runs::words(runs, 1 << 20);
    let part = |layout: &[u64], more| Command::SetContext(Box::new(ContextPart { number, rules, layout: layout.into(), more }));
    [part(&words[..3], true), part(&words[3..], false)]
}

/// Rules that ask for a receive see what finds an entry with their context in the priority list.
#[test]
fn entries_name_their_handlers() {
    let small = SpinConfig { l2_handlers: Bytes(4096), ..asic() };
    let nic = handlers(small, &["unpack", "cost=9,0,0,pass comm=halo", "cost=9,0,0,pass entry"]);
    let vector = Run { place: 0, bytes: 64, count: 1 << 12, stride: 256 };
    let wide: Vec<Run> = (0..200).map(|at| Run { place: at * 200, bytes: 4 + 4 * (at as u64 % 5), count: 1, stride: 0 }).collect();
    let mut commands = vec![entry(1, 1, List::Priority), entry(2, 2, List::Priority), entry(3, 3, List::Priority)];
    commands.extend([entry(4, 0, List::Priority), entry(5, 1, List::Overflow), entry(6, 4, List::Priority)]);
    // Context 3 is that of a program which says no more: rule 3. Context 4 has a table that does not fit.
    commands.extend(context(1, 0b01, &[vector]).into_iter().chain(context(2, 0b10, &[vector])).chain(context(4, 0b01, &wide)));
    // What is told again of a context changes nothing.
    commands.extend(context(1, 0b10, &[vector]));
    let puts: Vec<Put> = (0..24u32).map(|put| (put % 4, 9, 3000, 1 + u64::from(put % 6))).collect();
    let outcome = run_with(&nic, &commands, &puts, 16, (false, 1));
    let report = outcome.report.as_ref().unwrap();
    assert_eq!(report.messages, [4, 4, 4], "four messages for each of the entries 1 to 3");
    assert_eq!((report.totals.unexpected, report.totals.unfit), (4, 4), "entry 5 is in the overflow list, the table of 6 is too long");
    assert_eq!(report.totals.written, 4 * 3000, "only unpack writes");
    assert_eq!(outcome.puts().len(), 24, "all have come");
    assert!(run_with(&nic, &commands, &puts, 16, (true, 2)).told == outcome.told, "threads change nothing");
}

/// Nanoseconds from the write of a put's command to its event.
fn latency(nic: &AnyConfig, bytes: u64) -> f64 {
    let at = run(nic, &[(0, 9, bytes, 7)], 16, false, 1).puts()[0];
    (at - SimTime::from_us(20)).as_ns_f64()
}

#[test]
fn rules_that_fit_nothing_change_nothing() {
    let puts = mixed();
    let (before, with) =
        (run(&plain(), &puts, 16, false, 1), run(&handlers(asic(), &["reduce tag=77", "empty size=1MiB.."]), &puts, 16, false, 1));
    assert_eq!(with.told, before.told);
    assert_eq!(with.digest, before.digest);
    assert_eq!(with.report.unwrap().messages, [0, 0]);
    assert_eq!(before.report, None);
}

/// The stages of facts 7.4 (docs/spin.md): a packet of s bytes takes 4 + s/64 cycles from its arrival to its request,
/// of which the s/64 are over with its last byte, and 17 + s/64 and the handler's own from there to its feedback. A
/// copy to the host takes 2 to its interface, 14, the bus, and 3 back.
#[test]
fn the_latency_of_a_put_is_that_of_the_nic_and_the_stages() {
    // (With less than 64 bytes the host waits for the match, not for the payload.)
    for bytes in [64, 500, 2048] {
        let beats = u64::div_ceil(bytes, 64) as f64;
        let before = latency(&plain(), bytes);
        // Payload waits for the handler, and then crosses the bus as a whole.
        let bus = NicConfig::bxi_v2().data_bandwidth.time_for(Bytes(bytes)).as_ns_f64();
        let plain_bus = NicConfig::bxi_v2().data_bandwidth.time_for(Bytes(bytes.min(512))).as_ns_f64();
        for (rule, stages) in [
            ("cost=9,0,0,pass", 4.0 + 17.0 + beats + 9.0 + bus - plain_bus),
            ("cost=109,0,0,pass", 4.0 + 17.0 + beats + 109.0 + bus - plain_bus),
            ("cost=20,0,0,copy-to-host", 4.0 + 17.0 + beats + 20.0 + 2.0 + 14.0 + bus.max(beats) + 2.0 - plain_bus),
            ("empty", 4.0 + 17.0 + beats + 9.0 - plain_bus),
        ] {
            let more = latency(&handlers(asic(), &[rule]), bytes) - before;
            println!("{bytes} B, {rule}: {more:.2} ns more, by the stages {stages:.2}");
            // Cycles are whole: one on the way in, one for the bus of a command.
            assert!((-1.0..=2.0).contains(&(more - stages)), "{bytes} B, {rule}: {more} ns more, expected {stages}");
        }
    }
}

/// Gbit/s of the middle of 600 puts that follow each other.
fn throughput(nic: &AnyConfig, bytes: u64) -> f64 {
    let puts: Vec<Put> = (0..600).map(|_| (0, 9, bytes, 7)).collect();
    let at = run(nic, &puts, 64, false, 1).puts();
    assert_eq!(at.len(), 600, "all have come");
    300.0 * bytes as f64 * 8.0 / (at[450] - at[150]).as_ns_f64()
}

#[test]
fn throughput_is_bound_by_hpus_or_by_the_line() {
    for (clusters, hpus) in [(1, 2), (1, 4), (4, 8)] {
        let nic = handlers(SpinConfig { clusters, hpus, ..asic() }, &["reduce"]);
        for bytes in [64, 512, 2048] {
            let line = throughput(&plain(), bytes);
            // 17 cycles, 8 for each word behind 28 bytes, and two until an HPU has its next task.
            let cycles = 19 + 8 * ((bytes - 28) / 4);
            let bound = line.min(f64::from(clusters * hpus) * bytes as f64 * 8.0 / cycles as f64);
            let found = throughput(&nic, bytes);
            println!("{clusters} x {hpus} HPUs, {bytes} B: {found:.1} Gbit/s, at most {bound:.1}");
            assert!((0.96..=1.01).contains(&(found / bound)), "{clusters} x {hpus}, {bytes} B: {found} Gbit/s of {bound}");
        }
    }
}

/// A machine without room holds the port's buffers, and with them the network.
#[test]
fn what_finds_no_room_waits_and_nothing_is_lost() {
    let puts: Vec<Put> = (0..100).map(|put| (put % 8, 9, 1000 + 40 * u64::from(put), 7)).collect();
    let machine = SpinConfig { clusters: 1, hpus: 1, l2_packets: Bytes(8192), l1_ring: Bytes(2048), ..asic() };
    let nic = handlers(machine, &["cost=3000,0,0,pass"]);
    let whole = run(&nic, &puts, 2, false, 1);
    let report = whole.report.clone().unwrap();
    assert_eq!((whole.puts().len(), report.messages.clone()), (100, vec![100]));
    let packets: u64 = puts.iter().map(|put| put.2.div_ceil(NetworkConfig::default().mtu.0)).sum();
    assert_eq!((report.totals.packets, report.totals.passed, report.totals.handlers), (packets, packets, packets));
    assert_eq!(report.totals.bytes, puts.iter().map(|put| put.2).sum::<u64>());
    assert!(report.totals.waited > 50 && report.totals.waiting > SimTime::from_us(100), "{report:?}");
    // One HPU has all of them, one after the other.
    let end = *whole.puts().last().unwrap() - SimTime::from_us(20);
    assert!(end > SimTime::from_us(3) * packets, "{end}");
    for threads in [1, 2] {
        let parts = run(&nic, &puts, 2, true, threads);
        assert_eq!((parts.digest, parts.report.as_ref()), (whole.digest, whole.report.as_ref()));
    }
}

/// All that goes through a machine comes to its end, whatever its size, in one region and in several.
#[test]
fn messages_of_all_kinds_keep_their_order() {
    let puts = mixed();
    let small = SpinConfig { packet: Bytes(200), queues: 3, cells: 2, clusters: 2, hpus: 2, ..asic() };
    for (machine, rule) in
        [(asic(), "cost=40,0,1,pass"), (small.clone(), "cost=400,0.5,0,copy-to-host"), (small, "ping_pong"), (asic(), "reduce")]
    {
        let nic = handlers(machine, &[rule]);
        let whole = run(&nic, &puts, 4, false, 1);
        assert_eq!(whole.puts().len(), puts.len(), "{rule}");
        let report = whole.report.clone().unwrap();
        // With three queues some find none.
        assert_eq!(report.messages[0] + report.totals.bypassed, puts.iter().filter(|put| put.2 > 0).count() as u64);
        assert_eq!((report.totals.sent, report.totals.failures), (report.came_back, 0));
        assert_eq!(rule == "ping_pong", report.came_back > 0);
        for threads in [1, 2] {
            let parts = run(&nic, &puts, 4, true, threads);
            assert_eq!((parts.digest, &parts.told), (whole.digest, &whole.told), "{rule}, {threads} threads");
        }
    }
}
