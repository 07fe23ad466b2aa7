//! The network cut into regions, on several threads: whatever the cut and the threads, everything happens alike.

use crate::common::{message, round_numbers};
use narrows_fabric::parallel::{Agent, Context, Fabric, Plane, Processes, along_groups, regions};
use narrows_fabric::{
    Arbitration, Arrival, Checks, Congestion, Delivery, Derived, FlowControl, Forwarding, LinkConfig, LogGpConfig, NetworkConfig,
    NetworkKind, Observer, PauseConfig, Queueing, Reliability, Statistics, Transfer, TransferId,
};
use narrows_topology::{FatTree, RoutingKind, Topology, graph_file};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;

/// Sends what it is told to, with a letter, and answers every message with an empty one.
#[derive(Default)]
struct Script {
    transfers: Vec<Transfer>,
    arrived: u64,
    bytes: u64,
    /// Sum of what letters said.
    letters: u64,
}

const ANSWER: u32 = 1 << 20;

impl Observer for Script {}

impl Agent for Script {
    type Event = ();
    type Letter = u64;
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, _: u32, tag: u32, (): (), fabric: &mut Context<'_, (), u64>) {
        let transfer = self.transfers[tag as usize];
        fabric.post(transfer.target, SimTime::MAX, u64::from(tag) + 1);
        fabric.start(transfer);
    }

    fn letter(&mut self, _: u32, letter: u64, _: &mut Context<'_, (), u64>) {
        self.letters += letter;
    }

    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_, (), u64>) {
        self.arrived += 1;
        self.bytes += arrival.payload.0;
        if arrival.id.0 < ANSWER {
            fabric.start(Transfer {
                id: TransferId(ANSWER + arrival.source * 1024 + arrival.id.0),
                source_dma: false,
                ..message(0, arrival.target, arrival.source, 0)
            });
        }
    }
}

/// A ring with a tail: every link has a speed of its own.
const GRAPH: &str = "hosts a 3\nhosts b 2\nhosts c 1\nhosts d 2\nlink a b bandwidth=3GB/s latency=80ns\nlink b c x2 bandwidth=25GB/s latency=400ns\n\
                     link c a bandwidth=7GB/s\nlink c d global latency=900ns\n";

fn topology(choice: u8) -> Topology {
    let tree = match choice {
        0 => FatTree::k_ary_n_tree(2, 3),
        1 => FatTree::pgft(&[2, 4], &[1, 1], &[1, 2]),
        2 => FatTree::k_ary_n_tree(4, 2),
        _ => return graph_file::parse("ring with a tail", GRAPH, None).unwrap(),
    };
    tree.unwrap().build()
}

prop_compose! {
    fn transfers(most: usize, longest: u64)(
        list in prop::collection::vec((0u64..20_000, 0u32..8, 0u32..8, 0u8..4, prop_oneof![Just(0), 1u64..64, 1..longest], any::<(bool, bool)>()), 1..most)
    ) -> Vec<(SimTime, Transfer)> {
        list.iter().enumerate().map(|(index, &(at, source, target, virtual_network, payload, (source_dma, target_dma)))| {
            // Whole and half serialisation times, so that much happens at one instant.
            (SimTime(at / 52 * 52_000), Transfer { virtual_network, source_dma, target_dma, ..message(index as u32, source, target, payload) })
        }).collect()
    }
}

prop_compose! {
    fn config()(
        adaptive: bool, buffer_packets in 1u64..6, pcie in 2u64..30, switch_rate in prop_oneof![Just(10u64), 5u64..30],
        arbitration in 0u8..6, strict in prop_oneof![Just(0u16), 0u16..16], store: bool, fifo: bool, speedup in 0u32..3, pause in 0u8..3, host_latency in 1u64..400,
        latencies in prop_oneof![Just((150, 100)), (1u64..150, 0u64..100)]
    ) -> NetworkConfig {
        let packet = 1040;
        NetworkConfig {
            host_link: LinkConfig { rate: ByteRate(10_000_000_000), latency: SimTime::from_ns(host_latency) },
            routing: if adaptive { RoutingKind::Adaptive } else { RoutingKind::DModK },
            switch_link: LinkConfig { rate: ByteRate(switch_rate * 1_000_000_000), latency: SimTime::from_ns(latencies.0) },
            switch_latency: SimTime::from_ns(latencies.1),
            pcie_rate: ByteRate(pcie * 1_000_000_000),
            buffer_per_channel: Bytes(match pause { 0 => buffer_packets * packet, _ => 12 * packet }),
            arbitration: match arbitration {
                0 => Arbitration::RoundRobin,
                1 => Arbitration::Age,
                2 => Arbitration::WeightedPackets(vec![3, 1, 2]),
                3 => Arbitration::WeightedBytes(vec![1, 4, 2, 3]),
                4 => Arbitration::Islip(2),
                _ => Arbitration::Wavefront,
            },
            strict_priority: strict,
            forwarding: if store { Forwarding::StoreAndForward } else { Forwarding::CutThrough },
            queueing: if fifo { Queueing::Fifo } else { Queueing::VirtualOutput },
            speedup,
            flow_control: match pause {
                0 => FlowControl::Credits,
                // Far from enough headroom: packets are lost and sent again.
                1 => FlowControl::Pause(PauseConfig { xoff: Bytes(11 * packet), resend_after: SimTime::from_us(3), ..PauseConfig::default() }),
                _ => FlowControl::Pause(PauseConfig {
                    xoff: Bytes(3 * packet), xon: Bytes(packet), quanta: 20, resend_after: SimTime::from_us(2), ..PauseConfig::default()
                }),
            },
            ..round_numbers(NetworkKind::Packet)
        }
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    digest: u64,
    statistics: Statistics,
    arrived: u64,
    bytes: u64,
    letters: u64,
    live: usize,
}

/// Runs the transfers to the end; checks all buffers at every step of `check`.
fn run(
    config: &NetworkConfig,
    topology: &Topology,
    regions: Vec<u32>,
    list: &[(SimTime, Transfer)],
    threads: usize,
    check: Option<SimTime>,
) -> Outcome {
    run_plane(Plane { config, topology: topology.clone(), region_of: regions, hosts: None }, list, threads, check)
}

fn run_plane(plane: Plane<'_>, list: &[(SimTime, Transfer)], threads: usize, check: Option<SimTime>) -> Outcome {
    let all: Vec<Transfer> = list.iter().map(|entry| entry.1).collect();
    let make = |regions: &[Vec<u32>]| regions.iter().map(|_| Script { transfers: all.clone(), ..Script::default() }).collect();
    let regions = plane.region_of.iter().chain(&plane.hosts).max().unwrap() + 1;
    let mut fabric = Fabric::of_planes(vec![plane], make).unwrap();
    assert_eq!(fabric.regions(), regions);
    for (index, (at, transfer)) in list.iter().enumerate() {
        fabric.timer(*at, transfer.source, index as u32, ());
    }
    if let Some(step) = check {
        for turn in 0..100 {
            fabric.run_until(SimTime(turn * step.as_ps()), threads);
            fabric.audit().unwrap();
        }
    }
    fabric.run_until(SimTime::from_us(1_000_000), threads);
    fabric.audit().unwrap();
    let digest = fabric.digest();
    outcome(&mut fabric, digest)
}

/// The same with hosts that are led event by event, and stopped after every `step`, when everything before has been,
/// and nothing else.
fn run_led(plane: Plane<'_>, list: &[(SimTime, Transfer)], threads: usize, step: SimTime) -> Outcome {
    let all: Vec<Transfer> = list.iter().map(|entry| entry.1).collect();
    let make = |regions: &[Vec<u32>]| regions.iter().map(|_| Script { transfers: all.clone(), ..Script::default() }).collect();
    let mut fabric = Fabric::of_planes(vec![plane], make).unwrap();
    fabric.lead(threads, SimTime::MAX);
    for (index, (at, transfer)) in list.iter().enumerate() {
        fabric.timer(*at, transfer.source, index as u32, ());
    }
    let ends = (0..100).map(|turn| SimTime(turn * step.as_ps())).chain([SimTime::MAX]);
    for end in ends {
        while let Some(next) = fabric.next_led(end) {
            assert!(next < end && fabric.next_time() == Some(next));
            fabric.step();
            assert_eq!(fabric.now(), next);
        }
        assert!(fabric.next_time().is_none_or(|next| next >= end));
        fabric.audit().unwrap();
    }
    let digest = fabric.digest();
    outcome(&mut fabric, digest)
}

fn outcome(fabric: &mut Fabric<Script>, digest: u64) -> Outcome {
    Outcome {
        digest,
        statistics: fabric.statistics(),
        live: fabric.live_packets(),
        arrived: fabric.agents().map(|agent| agent.arrived).sum(),
        bytes: fabric.agents().map(|agent| agent.bytes).sum(),
        letters: fabric.agents().map(|agent| agent.letters).sum(),
    }
}

/// Runs the transfers to the end in several processes; what came of it in all of them together.
fn run_apart(
    config: &NetworkConfig,
    topology: &Topology,
    regions: &[u32],
    list: &[(SimTime, Transfer)],
    processes: u32,
    threads: usize,
    step: SimTime,
) -> Outcome {
    let all: Vec<Transfer> = list.iter().map(|entry| entry.1).collect();
    let one = |processes: &Processes| {
        let mut here = Vec::new();
        let make = |regions: &[Vec<u32>]| {
            here = regions.concat();
            regions.iter().map(|_| Script { transfers: all.clone(), ..Script::default() }).collect()
        };
        let plane = Plane { config, topology: topology.clone(), region_of: regions.to_vec(), hosts: None };
        let mut fabric = Fabric::spread(vec![plane], processes, make).unwrap();
        for (index, (at, transfer)) in list.iter().enumerate().filter(|(_, (_, transfer))| here.contains(&transfer.source)) {
            fabric.timer(*at, transfer.source, index as u32, ());
        }
        (0..20).for_each(|turn| fabric.run_until(SimTime(turn * step.as_ps()), threads));
        fabric.run_until(SimTime::from_us(1_000_000), threads);
        assert_eq!(fabric.error(), None);
        let digest = fabric.digest_of_all().unwrap();
        outcome(&mut fabric, digest)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = Processes::of_threads(processes).into_iter().map(|process| scope.spawn(move || one(&process))).collect();
        let all = all.into_iter().map(|thread| thread.join().unwrap());
        all.reduce(|sum, more| Outcome {
            // That of the first one.
            digest: sum.digest,
            statistics: sum.statistics + more.statistics,
            arrived: sum.arrived + more.arrived,
            bytes: sum.bytes + more.bytes,
            letters: sum.letters + more.letters,
            live: sum.live + more.live,
        })
        .unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any cut, any number of threads, any models of switches and links: the same digest, and everything arrives.
    #[test]
    fn the_cut_and_the_threads_make_no_difference(
        mut config in config(), list in transfers(60, 30_000), choice in 0u8..4,
        cut in prop::collection::vec(0u32..4, 12), threads in 1usize..5, step in 1u64..700_000
    ) {
        let topology = topology(choice);
        if choice == 3 {
            config.routing = RoutingKind::Table;
            config.virtual_channels = topology.shape().virtual_channels(RoutingKind::Table).unwrap();
        }
        let switches = topology.switches();
        let whole = run(&config, &topology, vec![0; switches as usize], &list, 1, Some(SimTime(step)));
        prop_assert_eq!(whole.arrived, 2 * list.len() as u64);
        prop_assert_eq!(whole.bytes, list.iter().map(|entry| entry.1.payload.0).sum::<u64>());
        prop_assert_eq!(whole.live, 0);
        for regions in [numbered(&cut, switches), (0..switches).collect()] {
            let apart = run(&config, &topology, regions, &list, threads, Some(SimTime(step)));
            prop_assert_eq!(apart.digest, whole.digest);
            prop_assert_eq!(apart.statistics, whole.statistics);
        }
        // Hosts in a region of their own, which may have switches, too.
        for region_of in [numbered(&cut, switches), (1..=switches).collect()] {
            let plane = Plane { config: &config, topology: topology.clone(), region_of, hosts: Some(0) };
            prop_assert_eq!(&run_plane(plane, &list, threads, Some(SimTime(step))), &whole);
        }
        let region_of = (1..=switches).collect();
        let plane = Plane { config: &config, topology: topology.clone(), region_of, hosts: Some(0) };
        prop_assert_eq!(&run_led(plane, &list, threads, SimTime(step)), &whole);
    }
}

/// Regions without a gap in their numbers, of a list that goes round.
fn numbered(cut: &[u32], switches: u32) -> Vec<u32> {
    let mut regions: Vec<u32> = (0..switches as usize).map(|switch| cut[switch % cut.len()]).collect();
    let mut used: Vec<u32> = regions.clone();
    used.sort_unstable();
    used.dedup();
    regions.iter_mut().for_each(|region| *region = used.binary_search(region).unwrap() as u32);
    regions
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// Any regions in any number of processes with any number of threads each: as if they were in one.
    #[test]
    fn processes_make_no_difference(
        mut config in config(), list in transfers(60, 30_000), choice in 0u8..4, cut in prop::collection::vec(0u32..6, 12),
        processes in 1u32..5, threads in 1usize..3, step in 1u64..700_000
    ) {
        let topology = topology(choice);
        if choice == 3 {
            config.routing = RoutingKind::Table;
            config.virtual_channels = topology.shape().virtual_channels(RoutingKind::Table).unwrap();
        }
        let regions = numbered(&cut, topology.switches());
        let processes = processes.min(regions.iter().max().unwrap() + 1);
        let whole = run(&config, &topology, regions.clone(), &list, 1, Some(SimTime(step)));
        prop_assert_eq!(whole.letters, (1..=list.len() as u64).sum::<u64>());
        prop_assert_eq!(run_apart(&config, &topology, &regions, &list, processes, threads, SimTime(step)), whole);
    }
}

prop_compose! {
    fn loggp()(latency in prop_oneof![Just(None), (1u64..2_000).prop_map(Some)], gap in 1u64..200, rate in prop_oneof![Just(None), (1u64..30).prop_map(Some)])
        -> NetworkConfig
    {
        let loggp = LogGpConfig {
            latency: latency.map_or_else(|| Derived::FromPath, |ns| Derived::Fixed(SimTime::from_ns(ns))),
            gap: SimTime::from_ns(gap),
            rate: rate.map_or_else(|| Derived::FromPath, |rate| Derived::Fixed(ByteRate(rate * 1_000_000_000))),
        };
        NetworkConfig { loggp, ..round_numbers(NetworkKind::LogGp) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The same on the LogGP network, whose windows are as long as a way from one region to another; but which of two
    /// ends at one instant is told first may be another one where all is in one region.
    #[test]
    fn the_loggp_network_falls_apart_too(
        mut config in loggp(), mut list in transfers(60, 30_000), choice in 0u8..4, cut in prop::collection::vec(0u32..6, 12),
        processes in 1u32..5, threads in 1usize..5, step in 1u64..700_000
    ) {
        let topology = topology(choice);
        if choice == 3 {
            config.routing = RoutingKind::Table;
            config.virtual_channels = topology.shape().virtual_channels(RoutingKind::Table).unwrap();
        }
        // Nor is there an order of a message within the node and another one that are read at one instant.
        list.iter_mut().for_each(|(_, transfer)| transfer.source_dma &= transfer.source != transfer.target);
        let switches = topology.switches();
        let whole = run(&config, &topology, vec![0; switches as usize], &list, 1, Some(SimTime(step)));
        prop_assert_eq!(whole.arrived, 2 * list.len() as u64);
        prop_assert_eq!(whole.letters, (1..=list.len() as u64).sum::<u64>());
        let all_apart = run(&config, &topology, (0..switches).collect(), &list, 1, None);
        prop_assert_eq!(all_apart.statistics, whole.statistics);
        for regions in [numbered(&cut, switches), regions(&config, &topology)] {
            let count = regions.iter().max().unwrap() + 1;
            if count > 1 {
                prop_assert_eq!(&run(&config, &topology, regions.clone(), &list, threads, Some(SimTime(step))), &all_apart);
                let apart = run_apart(&config, &topology, &regions, &list, processes.min(count), threads, SimTime(step));
                prop_assert_eq!(&apart, &all_apart);
            }
        }
    }
}

/// 16 hosts on 4 leaves: a region for each leaf, and a window for each way of a message.
#[test]
fn leaves_are_regions_of_the_loggp_network() {
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let config = round_numbers(NetworkKind::LogGp);
    let mut fabric = Fabric::new(&config, topology, |_| Script { transfers: vec![message(0, 0, 15, 0)], ..Script::default() }).unwrap();
    assert_eq!(fabric.regions(), 4);
    fabric.timer(SimTime::ZERO, 0, 0, ());
    fabric.run_until(SimTime::from_us(1_000), 1);
    // The message, its arrival with the answer, and the arrival of that.
    assert_eq!((fabric.windows(), fabric.events()), (3, 3));
}

/// Switches store long packets, and then the first short one comes, which is over a link long before a long one is:
/// windows are no longer than its way. An acknowledgement is still shorter than a header.
#[test]
fn the_first_short_packet_comes_in_time_where_packets_are_stored() {
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let stored = |rate: u64| {
        let link = LinkConfig { rate: ByteRate(rate), latency: SimTime::from_ns(10) };
        NetworkConfig {
            host_link: link,
            switch_link: link,
            mtu: Bytes(8000),
            buffer_per_channel: Bytes(16 * 8040),
            forwarding: Forwarding::StoreAndForward,
            ..round_numbers(NetworkKind::Packet)
        }
    };
    let reliability = Reliability {
        window: 64,
        room: 0,
        timeout: SimTime::from_us(10_000),
        retries: 7,
        ack: Bytes(8),
        delivery: Delivery::Ordered,
        unordered: 0,
        flows: 0,
        checks: Checks::default(),
        congestion: Congestion::None,
    };
    let plain = stored(10_000_000_000);
    let acknowledged = NetworkConfig { reliability: Some(reliability), ..stored(100_000_000) };
    // From two leaves to the others, through all spines; the short one to nodes that get long ones, too.
    let long = |index: u32, payload: u64| (SimTime::from_ns(u64::from(index) * 37), message(index, index, 8 + index * 3 % 8, payload));
    for turn in 0..150 {
        let longs = |payload: u64| (0..8).map(move |index| long(index, payload));
        let short = (SimTime::from_ns(1_000 + 53 * u64::from(turn)), message(8, 8 + turn % 8, 8 + (turn + 4) % 8, 0));
        let lists =
            [(&plain, longs(60_000).chain([short]).collect::<Vec<_>>()), (&acknowledged, longs(9_000 + 7 * u64::from(turn)).collect())];
        for (config, list) in lists {
            let whole = run(config, &topology, vec![0; topology.switches() as usize], &list, 1, None);
            assert_eq!((whole.arrived, whole.live), (2 * list.len() as u64, 0));
            for (threads, step) in [(1, None), (2, None), (4, Some(SimTime::from_us(1)))] {
                let apart = run(config, &topology, (0..topology.switches()).collect(), &list, threads, step);
                assert_eq!(apart, whole, "turn {turn}, {threads} threads, {step:?}");
            }
        }
    }
}

/// There must be something to do for each of them.
#[test]
fn more_processes_than_regions_are_refused() {
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let error = |kind: NetworkKind, processes: u32| {
        let config = round_numbers(kind);
        let plane = Plane { config: &config, region_of: along_groups(&topology), topology: topology.clone(), hosts: None };
        let processes = &Processes::of_threads(processes)[0];
        let make = |regions: &[Vec<u32>]| regions.iter().map(|_| Script::default()).collect();
        Fabric::spread(vec![plane], processes, make).err().map(|error| error.to_string())
    };
    assert_eq!(error(NetworkKind::Packet, 2), None);
    let text = error(NetworkKind::Flow, 2).unwrap();
    assert!(text.starts_with("2 processes, but this network falls into 1 part that can run apart: start at most 1;"), "{text}");
    assert!(error(NetworkKind::Packet, 40).unwrap().starts_with("40 processes"));
}

/// Windows of the switches that are worth several threads.
#[test]
fn switches_have_threads_of_their_own() {
    let config = round_numbers(NetworkKind::Packet);
    let topology = FatTree::k_ary_n_tree(16, 2).unwrap().build();
    let transfer = |round: u32, host: u32| message(round * 256 + host, host, (host + 17 + 16 * round) % 256, 20_000);
    let list: Vec<_> = (0..3).flat_map(|round| (0..256).map(move |host| (SimTime::ZERO, transfer(round, host)))).collect();
    let whole = run(&config, &topology, vec![0; topology.switches() as usize], &list, 1, None);
    for threads in [1, 2, 5] {
        let region_of = (1..=topology.switches()).collect();
        let plane = Plane { config: &config, topology: topology.clone(), region_of, hosts: Some(0) };
        assert_eq!(run_led(plane, &list, threads, SimTime::from_us(1)), whole, "{threads} threads");
    }
}

/// Two messages that are through at one instant at one port, as the first one waits for PCIe, are told in the order in
/// which they came, not by their places in the memory of a region: there they have those that others have left, in the
/// opposite order.
#[test]
fn messages_that_are_through_at_one_instant_keep_their_order() {
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let config = NetworkConfig { pcie_rate: ByteRate(8_000_000_000), ..round_numbers(NetworkKind::Packet) };
    let start = SimTime::from_us(10);
    let mut list = vec![
        (SimTime::from_ns(480), message(0, 13, 12, 1000)),
        (SimTime::ZERO, message(1, 8, 14, 1000)),
        (start, Transfer { source_dma: false, ..message(2, 4, 0, 1000) }),
    ];
    // One of these is through with the other.
    for payload in 1..=1000 {
        list.truncate(3);
        list.push((start + SimTime::from_ns(50), Transfer { source_dma: false, target_dma: false, ..message(3, 8, 0, payload) }));
        let whole = run(&config, &topology, vec![0; topology.switches() as usize], &list, 1, None);
        let apart = run(&config, &topology, (0..topology.switches()).collect(), &list, 1, None);
        assert_eq!(apart, whole, "{payload} bytes");
    }
}

/// Links without latency leave no time to work apart: one region, and the same outcome.
#[test]
fn without_latency_there_is_one_region() {
    let none = LinkConfig { latency: SimTime::ZERO, ..round_numbers(NetworkKind::Packet).switch_link };
    let config = NetworkConfig { switch_link: none, switch_latency: SimTime::ZERO, ..round_numbers(NetworkKind::Packet) };
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let fabric = Fabric::new(&config, topology, |_| Script::default()).unwrap();
    assert_eq!(fabric.regions(), 1, "packets pass a switch in no time");
}

/// What tells two runs apart shows in the digest.
#[test]
fn the_digest_sees_a_picosecond() {
    let topology = topology(2);
    let digest = |at: u64| {
        let list = [(SimTime(at), message(0, 0, 15, 100)), (SimTime(0), message(1, 3, 5, 100))];
        run(&round_numbers(NetworkKind::Packet), &topology, vec![0; 8], &list, 1, None).digest
    };
    assert_eq!(digest(5), digest(5));
    assert_ne!(digest(5), digest(6));
}
