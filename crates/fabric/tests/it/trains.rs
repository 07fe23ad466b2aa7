//! Trains of packets beside packets one by one: the same times, whatever comes between.

use crate::common::{message, round_numbers};
use narrows_fabric::parallel::{Agent, Context, Fabric, along_groups};
use narrows_fabric::{Arrival, Forwarding, LinkConfig, NetworkConfig, NetworkKind, Observer, Statistics, Transfer, TransferId, Turns};
use narrows_topology::{Arrangement, Dragonfly, FatTree, RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;

/// In place of an engine that sends blocks: a message, as often as asked for, the next one some time after the one
/// before was read; each is acknowledged by an empty message when it is there.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    at: SimTime,
    transfer: Transfer,
    blocks: u32,
    gap: SimTime,
    acknowledged: bool,
}

/// Numbers of acknowledgements from here on.
const ACKNOWLEDGEMENT: u32 = 1 << 20;

#[derive(Clone, Default)]
struct Script {
    looks: bool,
    blocks: Vec<Blocks>,
    told: Vec<(SimTime, u32, u32)>,
}

impl Observer for Script {
    fn looks(&self) -> bool {
        self.looks
    }
}

/// Message and block.
fn parts(number: u32) -> (u32, u32) {
    (number % 256, number / 256)
}

impl Agent for Script {
    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, _: u32, number: u32, (): (), fabric: &mut Context<'_>) {
        let (index, _) = parts(number);
        fabric.start(Transfer { id: TransferId(number), ..self.blocks[index as usize].transfer });
    }
    fn source_done(&mut self, host: u32, id: TransferId, fabric: &mut Context<'_>) {
        self.told.push((fabric.now(), 0, id.0));
        let (index, block) = parts(id.0);
        let Blocks { blocks, gap, .. } = self.blocks[index as usize];
        if block + 1 < blocks {
            fabric.timer(fabric.now() + gap, host, id.0 + 256, ());
        }
    }
    fn head(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        self.told.push((fabric.now(), 1, arrival.id.0));
    }
    fn tail(&mut self, arrival: &Arrival, fabric: &mut Context<'_>) {
        self.told.push((fabric.now(), 2, arrival.id.0));
        let Arrival { id, source, target, .. } = *arrival;
        if id.0 < ACKNOWLEDGEMENT && self.blocks[parts(id.0).0 as usize].acknowledged {
            fabric.start(Transfer { source_dma: false, ..message(id.0 | ACKNOWLEDGEMENT, target, source, 0) });
        }
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    digest: u64,
    told: Vec<Vec<(SimTime, u32, u32)>>,
    counted: Vec<Statistics>,
}

/// To the end, with looks at what has been counted; and the number of events.
fn run(config: &NetworkConfig, topology: &Topology, regions: &[u32], blocks: &[Blocks], looks: bool) -> (Outcome, u64) {
    let script = |_: &[u32]| Script { looks, blocks: blocks.to_vec(), told: Vec::new() };
    let mut fabric = Fabric::with_regions(config, topology.clone(), regions.to_vec(), script).unwrap();
    for (index, blocks) in blocks.iter().enumerate() {
        fabric.timer(blocks.at, blocks.transfer.source, index as u32, ());
    }
    let mut counted = Vec::new();
    for turn in 0..20 {
        fabric.run_until(SimTime::from_ns(turn * 1777), 1);
        // Hops are counted where they begin; with one region all up to now.
        counted.extend((fabric.regions() == 1).then(|| fabric.statistics()));
        fabric.audit().unwrap();
    }
    fabric.run_until(SimTime::MAX, 1);
    fabric.audit().unwrap();
    assert_eq!(fabric.live_packets(), 0);
    counted.push(fabric.statistics());
    let told = fabric.agents().map(|agent| agent.told.clone()).collect();
    (Outcome { digest: fabric.digest(), told, counted }, fabric.events())
}

fn tree() -> Topology {
    FatTree::k_ary_n_tree(2, 3).unwrap().build()
}

fn alone(blocks: u32, payload: u64) -> Blocks {
    Blocks { at: SimTime::ZERO, transfer: message(0, 0, 7, payload), blocks, gap: SimTime::from_ns(900), acknowledged: true }
}

#[test]
fn a_message_alone_takes_few_events() {
    let (config, topology) = (round_numbers(NetworkKind::Packet), tree());
    let regions = vec![0; topology.switches() as usize];
    // 2 blocks of 300 packets over 6 links.
    let (train, events) = run(&config, &topology, &regions, &[alone(2, 300_000)], false);
    let (packets, more) = run(&config, &topology, &regions, &[alone(2, 300_000)], true);
    assert_eq!(train, packets);
    assert_eq!(train.counted.last().unwrap().packet_hops, 2 * (300 + 1) * 6, "all packets and two acknowledgements");
    println!("events: expected below 60, measured {events}; packet by packet above 3600, measured {more}");
    assert!(events < 60 && more > 3600);
}

/// Something else comes at every nanosecond of the train's way: also in the very instants at which its first or last
/// packet starts on a link, before and after it in the order of one instant.
#[test]
fn a_train_may_end_in_any_instant() {
    let topology = tree();
    let regions = vec![0; topology.switches() as usize];
    let config = NetworkConfig { routing: RoutingKind::DModK, ..round_numbers(NetworkKind::Packet) };
    // Of both messages the source; of the second one the size.
    for (source, beside, payload) in [(3, 0, 0), (3, 5, 0), (3, 5, 8_000), (3, 3, 0), (5, 3, 0), (5, 6, 9_000)] {
        for (source_dma, blocks) in [(true, 1), (false, 1), (true, 2)] {
            let transfer = Transfer { source_dma, ..message(0, source, 4, 8_000) };
            let long = Blocks { at: SimTime::from_ns(1_500), transfer, blocks, gap: SimTime::from_ns(500), acknowledged: true };
            for at in 0..4_500 {
                let other = Blocks { at: SimTime::from_ns(at), transfer: message(0, beside, 4, payload), blocks: 1, ..long };
                let (train, _) = run(&config, &topology, &regions, &[long, other], false);
                let (packets, _) = run(&config, &topology, &regions, &[long, other], true);
                assert_eq!(train, packets, "at {at} ns: {payload} bytes from host {beside}, beside {source}");
            }
        }
    }
}

/// Packets are computed 256 at a time: the last ones of a message may be the first of such a chunk, and a fast bus has
/// read them before the packets in front of them are on the link.
#[test]
fn packets_are_known_before_they_are_asked_for() {
    let topology = tree();
    let regions = vec![0; topology.switches() as usize];
    for packets in (255..=262).chain(511..=518) {
        for (window, pcie) in [(1, 10), (1, 100), (4, 10), (4, 40), (4, 10_000), (300, 10), (300, 1_000), (1_000, 40)] {
            let pcie_rate = ByteRate(pcie * 1_000_000_000);
            let config = NetworkConfig { read_window: window, pcie_rate, ..round_numbers(NetworkKind::Packet) };
            let list = [alone(2, packets * 1_000)];
            let (train, events) = run(&config, &topology, &regions, &list, false);
            let (single, more) = run(&config, &topology, &regions, &list, true);
            assert_eq!(train, single, "{packets} packets, {window} of them read ahead at {pcie} GB/s");
            assert!(events < more, "{events} events for a train, {more} for its packets");
        }
    }
}

prop_compose! {
    fn blocks()(
        at in 0u64..200, source in 0u32..8, target in 0u32..8, lane in 0u8..4, payload in prop_oneof![0u64..3000, 7000u64..40_000],
        dma in any::<(bool, bool)>(), blocks in 1u32..5, gap in 0u64..30, acknowledged: bool
    ) -> Blocks {
        let (source_dma, target_dma) = dma;
        let virtual_network = if lane > 1 { 0 } else { lane };
        // Whole and half serialisation times, so that much happens at one instant.
        Blocks {
            at: SimTime(at * 52_000), gap: SimTime(gap * 52_000), blocks, acknowledged,
            transfer: Transfer { virtual_network, source_dma, target_dma, ..message(0, source, target, payload) },
        }
    }
}

prop_compose! {
    fn config()(
        buffer in 1u64..9, pcie in prop_oneof![Just(10u64), Just(20), 4u64..30], host in prop_oneof![Just(10u64), 5u64..20],
        switch in prop_oneof![Just(10u64), 5u64..20], global in prop_oneof![Just(10u64), 5u64..20], window in 1u32..4, store: bool,
        latency in 0u64..300, in_order: bool, turns in (0u64..400, 0u64..400), even: bool,
    ) -> NetworkConfig {
        let rate = |rate| ByteRate(rate * 1_000_000_000);
        NetworkConfig {
            routing: RoutingKind::Minimal,
            host_link: LinkConfig { rate: rate(host), latency: SimTime::from_ns(latency) },
            switch_link: LinkConfig { rate: rate(switch), latency: SimTime::from_ns(150) },
            global_link: LinkConfig { rate: rate(global), latency: SimTime::from_ns(250) },
            pcie_rate: rate(pcie),
            buffer_per_channel: Bytes(buffer * 1040),
            read_window: window,
            virtual_channels: 2,
            in_order,
            turns: if even { Turns::default() } else { Turns { entry: SimTime::from_ns(turns.0), change: SimTime::from_ns(turns.1) } },
            forwarding: if store { Forwarding::StoreAndForward } else { Forwarding::CutThrough },
            ..round_numbers(NetworkKind::Packet)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A few messages: most are alone for a part of their way.
    #[test]
    fn a_train_is_its_packets(config in config(), list in prop::collection::vec(blocks(), 1..6), dragonfly: bool, cut: bool) {
        let topology = if dragonfly {
            Dragonfly::new([2, 2, 1, 2], Arrangement::Consecutive, None).unwrap().build()
        } else {
            tree()
        };
        let config = if dragonfly { config } else { NetworkConfig { routing: RoutingKind::DModK, ..config } };
        let regions = if cut { along_groups(&topology) } else { vec![0; topology.switches() as usize] };
        let (train, events) = run(&config, &topology, &regions, &list, false);
        let (packets, more) = run(&config, &topology, &regions, &list, true);
        prop_assert_eq!(train, packets);
        prop_assert!(events <= more + 20 * list.len() as u64 * 4);
    }
}
