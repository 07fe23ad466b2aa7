//! Multicasts copied by the switches: alone as fast as one message, one packet on each link of the tree, nothing lost
//! or held for ever.

use crate::common::{KINDS, assert_near, message, round_numbers, times};
use narrows_fabric::{
    FlowConfig, FlowControl, Forwarding, NetworkConfig, NetworkKind, PauseConfig, Queueing, Transfer, TransferId, Tree, TreeError,
};
use narrows_port::Driver;
use narrows_topology::{
    Arrangement, Dragonfly, DragonflyPlus, DragonflyPlusParameters, FatTree, HyperX, RoutingKind, Topology, Torus, TorusParameters,
};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;
use std::sync::Arc;

fn topology(choice: u8) -> Topology {
    match choice {
        0 => FatTree::k_ary_n_tree(3, 3).unwrap().build(),
        1 => FatTree::pgft(&[4, 5], &[1, 2], &[1, 2]).unwrap().build(),
        2 => Dragonfly::new([2, 4, 2, 9], Arrangement::Consecutive, None).unwrap().build(),
        3 => {
            let (lengths, wrap) = (vec![5, 4], true);
            Torus::new(TorusParameters { lengths, wrap, board: 1, hosts_per_switch: 1, cables: 1, hosts: None }).unwrap().build()
        }
        4 => HyperX::new(&[3, 4], 2, 1, None).unwrap().build(),
        _ => {
            let arrangement = Arrangement::Palmtree;
            let (groups, leaves, spines, hosts_per_leaf, global_links, cables) = (5, 2, 2, 3, 2, 1);
            let hosts = None;
            let plus = DragonflyPlusParameters { groups, leaves, spines, hosts_per_leaf, global_links, cables, arrangement, hosts };
            DragonflyPlus::new(plus).unwrap().build()
        }
    }
}

/// The routing of the other packets: what detours there are.
fn routing(topology: &Topology, detours: bool) -> RoutingKind {
    let all = RoutingKind::of(topology.shape());
    if detours { *all.iter().find(|kind| matches!(kind, RoutingKind::Adaptive | RoutingKind::Valiant)).unwrap() } else { all[0] }
}

fn config(kind: NetworkKind, topology: &Topology, detours: bool) -> NetworkConfig {
    let routing = routing(topology, detours);
    let virtual_channels = topology.shape().virtual_channels(routing).unwrap();
    NetworkConfig { routing, virtual_channels, flow: FlowConfig { direct_up_to: Bytes(0) }, ..round_numbers(kind) }
}

fn copies(first: u32, source: u32, tree: &Tree, payload: u64, dma: (bool, bool)) -> Vec<Transfer> {
    let of = |(index, &target): (usize, &u32)| Transfer {
        source_dma: dma.0,
        target_dma: dma.1,
        ..message(first + index as u32, source, target, payload)
    };
    tree.targets().iter().enumerate().map(of).collect()
}

#[test]
fn alone_every_target_has_it_when_it_would_have_a_message_of_its_own() {
    for choice in 0..6 {
        for kind in KINDS {
            for (payload, dma) in [(0, (true, true)), (1, (false, true)), (1000, (true, false)), (100_300, (true, true))] {
                let topology = topology(choice);
                let source = 3;
                let targets: Vec<u32> = (0..topology.hosts()).filter(|&host| host != source && host % 5 != 1).collect();
                let mut driver = Driver::new(&config(kind, &topology, false), topology).unwrap();
                let tree = Arc::new(driver.tree(source, &targets).unwrap());
                let transfers = copies(0, source, &tree, payload, dma);
                driver.multicast(&tree, &transfers);
                driver.run();
                assert_eq!(driver.in_flight(), 0);
                for (transfer, found) in transfers.iter().zip(times(driver.notices(), &transfers)) {
                    let alone = driver.zero_load(transfer);
                    assert_eq!(found[1], alone.head, "{kind:?} {choice} {transfer:?}");
                    if kind == NetworkKind::Flow {
                        assert_near("flow", found[2].as_ns_f64(), alone.tail.as_ns_f64(), 0.01);
                    } else {
                        assert_eq!(found[2], alone.tail, "{kind:?} {choice} {transfer:?}");
                    }
                    assert!(alone.source_done <= found[0] && found[0] <= alone.tail);
                }
                let statistics = driver.statistics();
                let packets = payload.div_ceil(1000).max(1);
                assert_eq!(
                    (statistics.packets, statistics.packet_hops),
                    (packets, packets * tree.len()),
                    "one packet per link of the tree"
                );
            }
        }
    }
}

/// A broadcast of 1 MB costs the injection of 1 MB, with the time of the last hop behind; the narrowest link of the
/// tree bounds it.
#[test]
fn the_narrowest_link_bounds_it() {
    for kind in [NetworkKind::Packet, NetworkKind::Flow] {
        let topology = topology(2);
        let mut config = config(kind, &topology, false);
        config.global_link.rate = ByteRate(2_500_000_000);
        let mut driver = Driver::new(&config, topology).unwrap();
        let targets: Vec<u32> = (1..72).collect();
        let tree = Arc::new(driver.tree(0, &targets).unwrap());
        let transfers = copies(0, 0, &tree, 1_000_000, (true, true));
        driver.multicast(&tree, &transfers);
        driver.run();
        let last = times(driver.notices(), &transfers).iter().map(|times| times[2]).max().unwrap();
        assert_near("1000 packets of 1040 B at 2.5 GB/s", last.as_ns_f64(), 416_000.0, 0.01);
    }
}

/// Ten broadcasts from one source follow each other without a gap.
#[test]
fn broadcasts_of_one_source_fill_its_link() {
    for kind in KINDS {
        let topology = topology(2);
        let mut driver = Driver::new(&config(kind, &topology, false), topology).unwrap();
        let targets: Vec<u32> = (1..72).collect();
        let tree = Arc::new(driver.tree(0, &targets).unwrap());
        let transfers: Vec<Transfer> = (0..10).flat_map(|turn| copies(turn * 71, 0, &tree, 100_000, (true, true))).collect();
        transfers.chunks(71).for_each(|copies| driver.multicast(&tree, copies));
        driver.run();
        let last = times(driver.notices(), &transfers).iter().map(|times| times[2]).max().unwrap();
        assert_near("1000 packets of 1040 B at 10 GB/s", last.as_ns_f64(), 104_000.0, 0.02);
    }
}

#[test]
fn pauses_are_refused() {
    let topology = topology(0);
    let pause = PauseConfig { xoff: Bytes(8000), ..PauseConfig::default() };
    let config = NetworkConfig { flow_control: FlowControl::Pause(pause), ..config(NetworkKind::Packet, &topology, false) };
    let mut driver = Driver::new(&config, topology).unwrap();
    assert_eq!(driver.tree(0, &[1, 2]).unwrap_err(), TreeError::Pause);
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Multicasts among other messages, in buffers down to a single packet, with detours and fronts: every copy arrives
    /// once and no byte of a buffer is lost.
    #[test]
    fn copies_and_credits_are_kept(
        list in prop::collection::vec((0u64..20_000, 0u32..20, any::<u64>(), 0u64..9_000, any::<bool>()), 1..25),
        choice in 0u8..6, detours: bool, fifo: bool, stored: bool, buffer in 1u64..4, pcie in 3u64..30, flow: bool,
    ) {
        let topology = topology(choice);
        let hosts = topology.hosts().min(60);
        let kind = if flow { NetworkKind::Flow } else { NetworkKind::Packet };
        let config = NetworkConfig {
            buffer_per_channel: Bytes(buffer * 1040),
            pcie_rate: ByteRate(pcie * 1_000_000_000),
            queueing: if fifo { Queueing::Fifo } else { Queueing::VirtualOutput },
            forwarding: if stored { Forwarding::StoreAndForward } else { Forwarding::CutThrough },
            ..config(kind, &topology, detours)
        };
        let mut driver = Driver::new(&config, topology).unwrap();
        let mut list = list;
        list.sort_by_key(|entry| entry.0);
        let (mut all, mut packets) = (Vec::new(), 0);
        for (at, source, mask, payload, one) in list {
            while driver.step_until(SimTime(at * 1000)) {
                driver.audit().unwrap();
            }
            let source = source % hosts;
            let mut targets: Vec<u32> = (0..hosts).filter(|&host| host != source && mask >> host & 1 == 1).collect();
            if one {
                targets.truncate(1);
            }
            let Some(&target) = targets.first() else { continue };
            let first = all.len() as u32;
            packets += payload.div_ceil(1000).max(1);
            if one {
                all.push(Transfer { id: TransferId(first), ..message(first, source, target, payload) });
                driver.start(all[first as usize]);
            } else {
                let tree = Arc::new(driver.tree(source, &targets).unwrap());
                all.extend(copies(first, source, &tree, payload, (true, true)));
                driver.multicast(&tree, &all[first as usize..]);
            }
        }
        while driver.step() {
            driver.audit().unwrap();
        }
        prop_assert_eq!(driver.in_flight(), 0);
        prop_assert_eq!(driver.statistics().packets, packets);
        prop_assert_eq!(driver.live_packets(), 0);
        for found in times(driver.notices(), &all) {
            prop_assert!(found.iter().all(|&time| time < SimTime::MAX));
        }
    }
}
