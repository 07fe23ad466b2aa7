//! Shared links: incast, permutations, virtual networks, fairness. Closed forms in GB/s.

use crate::common::{assert_near, driver, gigabytes_per_s, message, round_numbers, run};
use narrows_fabric::{NetworkConfig, NetworkKind, Notice, Transfer, TransferId};
use narrows_topology::{FatTree, RoutingKind};
use narrows_units::{ByteRate, Bytes, SimTime};

const SHARED: [NetworkKind; 2] = [NetworkKind::Packet, NetworkKind::Flow];
/// Payload per second on a 10 GB/s link with 1000 + 40 byte packets.
const LINK: f64 = 10.0 / 1.04;

#[test]
fn an_incast_shares_to_one_nth() {
    let payload = 4 << 20;
    for kind in SHARED {
        for n in [2, 5, 15] {
            let tree = FatTree::one_switch(16).unwrap();
            let transfers: Vec<_> = (0..n).map(|index| message(index, index + 1, 0, payload)).collect();
            for (index, times) in run(&round_numbers(kind), &tree, &transfers).iter().enumerate() {
                let what = format!("{kind:?}: {n}-to-1, sender {index}, GB/s");
                assert_near(&what, gigabytes_per_s(payload, times[2]), LINK / f64::from(n), 0.03);
            }
        }
        // Through a tree: senders on other leaves than the target's. The last one is done when the link has carried
        // all.
        let tree = FatTree::k_ary_n_tree(4, 2).unwrap();
        let transfers: Vec<_> = (0..12).map(|index| message(index, index + 4, 0, payload)).collect();
        let last = run(&round_numbers(kind), &tree, &transfers).iter().map(|times| times[2]).max().unwrap();
        assert_near(&format!("{kind:?}: 12-to-1 through a tree, GB/s"), gigabytes_per_s(12 * payload, last), LINK, 0.03);
    }
}

/// Two messages of ten packets each to two nodes: by turns, or in order, where the first one has the time of ten
/// packets. What the NIC has without reading, here a header, passes either way.
#[test]
fn messages_take_turns_or_go_one_behind_the_other() {
    let tree = FatTree::k_ary_n_tree(4, 2).unwrap();
    let short = Transfer { source_dma: false, target_dma: false, ..message(2, 0, 3, 0) };
    let tails = |in_order| {
        let config = NetworkConfig { in_order, ..round_numbers(NetworkKind::Packet) };
        let times = run(&config, &tree, &[message(0, 0, 1, 10_000), message(1, 0, 2, 10_000), short]);
        [0, 1, 2].map(|number| times[number][2].as_ns_f64())
    };
    let (turns, order) = (tails(false), tails(true));
    // 25 ns of PCIe at each end, 604 ns for a packet, 104 ns for each further one. The header is away before the first
    // packet; the read window takes four packets of the first message before there is a second, and six take turns.
    assert_near("by turns, the first, ns", turns[0], 25.0 + 604.0 + 25.0 + 14.0 * 104.0, 1e-6);
    assert_near("by turns, the second, ns", turns[1], 25.0 + 604.0 + 25.0 + 19.0 * 104.0, 1e-6);
    assert_near("in order, the first, ns", order[0], 25.0 + 604.0 + 25.0 + 9.0 * 104.0, 1e-6);
    assert_near("in order, the second, ns", order[1], turns[1], 1e-6);
    assert_eq!(turns[2], order[2], "the header does not wait");
}

#[test]
fn a_slow_pcie_at_the_target_holds_up_the_senders() {
    let payload = 4 << 20;
    for kind in SHARED {
        let config = NetworkConfig { pcie_rate: ByteRate(3_000_000_000), ..round_numbers(kind) };
        let tree = FatTree::one_switch(4).unwrap();
        let transfers: Vec<_> = (0..3).map(|index| message(index, index + 1, 0, payload)).collect();
        for times in run(&config, &tree, &transfers) {
            assert_near(&format!("{kind:?}: 3-to-1 into PCIe of 3 GB/s, GB/s"), gigabytes_per_s(payload, times[2]), 1.0, 0.03);
        }
    }
}

#[test]
fn messages_of_one_node_share_its_link() {
    let payload = 4 << 20;
    for kind in SHARED {
        let tree = FatTree::one_switch(8).unwrap();
        let transfers: Vec<_> = (0..4).map(|index| message(index, 0, index + 1, payload)).collect();
        for times in run(&round_numbers(kind), &tree, &transfers) {
            assert_near(&format!("{kind:?}: one node to four, GB/s"), gigabytes_per_s(payload, times[2]), LINK / 4.0, 0.03);
        }
    }
}

#[test]
fn shifts_on_a_full_bisection_tree_run_at_full_rate() {
    let payload = 1 << 20;
    for kind in SHARED {
        for (tree, shifts) in [(FatTree::k_ary_n_tree(4, 2).unwrap(), 1..16), (FatTree::k_ary_n_tree(3, 3).unwrap(), 9..12)] {
            let hosts = tree.hosts();
            for shift in shifts {
                let transfers: Vec<_> = (0..hosts).map(|host| message(host, host, (host + shift) % hosts, payload)).collect();
                let config = round_numbers(kind);
                let slowest = run(&config, &tree, &transfers).iter().map(|times| times[2]).max().unwrap();
                let alone = driver(&config, &tree).zero_load(&message(0, 0, hosts - 1, payload)).tail;
                assert_near(&format!("{kind:?}: {tree}, shift {shift}: ns"), slowest.as_ns_f64(), alone.as_ns_f64(), 0.02);
            }
        }
    }
}

#[test]
fn d_mod_k_collides_where_adaptive_does_not() {
    // Hosts 0..4 of one leaf to hosts that have the same number modulo 4: one way up for all under D-mod-K, one each
    // when adaptive.
    let tree = FatTree::k_ary_n_tree(4, 2).unwrap();
    let payload = 2 << 20;
    let transfers: Vec<_> = (0..3).map(|index| message(index, index, 4 * (index + 1), payload)).collect();
    for kind in SHARED {
        for (routing, share) in [(RoutingKind::DModK, 1.0 / 3.0), (RoutingKind::Adaptive, 1.0)] {
            let config = NetworkConfig { routing, ..round_numbers(kind) };
            for times in run(&config, &tree, &transfers) {
                assert_near(&format!("{kind:?}, {routing:?}: GB/s"), gigabytes_per_s(payload, times[2]), LINK * share, 0.03);
            }
        }
    }
}

#[test]
fn adaptive_permutations_run_near_full_rate_on_packet_and_flow() {
    // Random permutations of 64 nodes on two levels: packets spread over all parents, so only host links limit.
    let tree = FatTree::k_ary_n_tree(8, 2).unwrap();
    let payload = 4 << 20;
    for seed in 0..3 {
        let mut targets: Vec<u32> = (0..64).collect();
        narrows_engine::stream(seed, "permutation", 0).shuffle(&mut targets);
        let pairs = (0..64).zip(targets).filter(|(source, target)| source != target);
        let transfers: Vec<_> = pairs.map(|(source, target)| message(source, source, target, payload)).collect();
        let mean = SHARED.map(|kind| {
            // With 16 packets of buffer the packet network is 2.6 % below, with 8 it is 6 %.
            let buffer_per_channel = Bytes(32 * 1040);
            let config = NetworkConfig { routing: RoutingKind::Adaptive, buffer_per_channel, ..round_numbers(kind) };
            let times = run(&config, &tree, &transfers);
            times.iter().map(|times| times[2].as_ns_f64()).sum::<f64>() / times.len() as f64
        });
        assert_near(&format!("permutation {seed}: mean time, packet against flow"), mean[0], mean[1], 0.03);
        let rate = payload as f64 / mean[1];
        assert_near(&format!("permutation {seed}: flow, GB/s"), rate, LINK, 0.02);
    }
}

#[test]
fn virtual_networks_share_a_link_and_do_not_block_each_other() {
    // A long message on network 0 to a target whose PCIe is slow fills its buffers; headers on network 1 pass it at
    // once.
    let tree = FatTree::one_switch(4).unwrap();
    let config = NetworkConfig { pcie_rate: ByteRate(1_000_000_000), ..round_numbers(NetworkKind::Packet) };
    let mut driver = driver(&config, &tree);
    driver.start(Transfer { source_dma: false, ..message(0, 0, 1, 1 << 20) });
    driver.run_until(SimTime::from_us(300));
    driver.start(Transfer { virtual_network: 1, ..message(1, 0, 1, 0) });
    driver.start(Transfer { virtual_network: 0, ..message(2, 0, 1, 0) });
    driver.run();
    let arrival = |id| driver.notices().iter().find(|(_, notice)| *notice == Notice::HeadArrived(TransferId(id))).unwrap().0;
    let (other, same) = (arrival(1) - SimTime::from_us(300), arrival(2) - SimTime::from_us(300));
    assert!(other < SimTime::from_ns(504 + 2 * 104), "own network: at most a packet on each link ahead, got {other}");
    // 16 packets of 1000 B in the buffer at the NIC, at 1 B/ns, are ahead on the same network; as many at the switch.
    assert!(same > SimTime::from_us(16), "same network: behind two full buffers, got {same}");
}

#[test]
fn short_messages_take_turns_with_long_ones() {
    // Eight packets from each of two messages of one node: the second, started just after, is not behind all of the
    // first.
    let tree = FatTree::one_switch(4).unwrap();
    let times = run(&round_numbers(NetworkKind::Packet), &tree, &[message(0, 0, 1, 1_000_000), message(1, 0, 2, 8_000)]);
    // The window of 4 reads ahead belongs to the first message; then packets alternate: 4 + 2 x 8 packets of 104 ns.
    let bound = SimTime::from_ns(50 + 604 + 50 + (4 + 16) * 104);
    assert!(times[1][2] <= bound, "turn by turn the short message is through by {bound}, got {}", times[1][2]);
    assert!(times[0][2] > SimTime::from_us(100));
}

#[test]
fn a_transfer_without_dma_does_not_wait_for_reads_of_others() {
    let tree = FatTree::one_switch(4).unwrap();
    let inline = Transfer { source_dma: false, target_dma: false, ..message(1, 0, 2, 64) };
    let times = run(&round_numbers(NetworkKind::Packet), &tree, &[message(0, 0, 1, 1_000_000), inline]);
    // First on the link while the long message is still being read: 504 ns and 64 B of 0.1 ns.
    assert_eq!(times[1], [0.0, 504.0, 510.4].map(|ns| SimTime((ns * 1000.0) as u64)));
}

#[test]
fn messages_with_and_without_dma_share_the_link_of_their_node() {
    let payload = 4 << 20;
    let tree = FatTree::one_switch(4).unwrap();
    let no_dma = Transfer { source_dma: false, ..message(1, 0, 2, payload) };
    for kind in SHARED {
        for times in run(&round_numbers(kind), &tree, &[message(0, 0, 1, payload), no_dma]) {
            assert_near(&format!("{kind:?}: half of the link, GB/s"), gigabytes_per_s(payload, times[2]), LINK / 2.0, 0.03);
        }
    }
}

fn rates(config: &NetworkConfig, tree: &FatTree, transfers: &[Transfer]) -> Vec<f64> {
    let mut driver = driver(config, tree);
    transfers.iter().for_each(|&transfer| driver.start(transfer));
    driver.run_until(SimTime::from_ns(1));
    driver.flow_rates().iter().map(|&(_, rate)| rate as f64 / 1e9).collect()
}

#[test]
fn textbook_max_min() {
    // Headers so small that they do not show.
    let config =
        NetworkConfig { header: Bytes(1), mtu: Bytes(1 << 20), buffer_per_channel: Bytes(1 << 24), ..round_numbers(NetworkKind::Flow) };
    let config = NetworkConfig { pcie_rate: ByteRate(100_000_000_000), ..config };
    let tree = FatTree::one_switch(8).unwrap();
    let long = |id, source, target| message(id, source, target, 64 << 20);
    let check = |what: &str, transfers: &[Transfer], expected: &[f64]| {
        let measured = rates(&config, &tree, transfers);
        for (index, (measured, expected)) in measured.iter().zip(expected).enumerate() {
            assert_near(&format!("{what}, flow {index}, GB/s"), *measured, *expected, 1e-4);
        }
        assert_eq!(measured.len(), expected.len());
    };
    check("alone", &[long(0, 0, 1)], &[10.0]);
    check("two into one", &[long(0, 0, 2), long(1, 1, 2)], &[5.0, 5.0]);
    // Three into host 3; the second flow of host 0 takes what the incast leaves on its link: 10 - 10/3.
    check(
        "incast and victim",
        &[long(0, 0, 3), long(1, 1, 3), long(2, 2, 3), long(3, 0, 4)],
        &[10.0 / 3.0, 10.0 / 3.0, 10.0 / 3.0, 20.0 / 3.0],
    );
    // Bertsekas and Gallager's chain: sources of 3, 2 and 1 flows. Host 0 sends three (10/3 each); one of them meets
    // two others at host 4 (2 x 10/3 left for them: still 10/3), and so on down the chain.
    check(
        "chain",
        &[long(0, 0, 3), long(1, 0, 4), long(2, 0, 5), long(3, 1, 5), long(4, 1, 6), long(5, 2, 6)],
        &[10.0 / 3.0, 10.0 / 3.0, 10.0 / 3.0, 5.0, 5.0, 5.0],
    );
}

#[test]
fn rates_follow_starts_and_ends() {
    // Two of 10 MB into one host: half each. The second starts when 5 MB of the first are through, so: alone 0.52 ms,
    // together for 2 x 0.52 ms (5 MB of the first, 5 of the second), then 5 MB of the second alone in 0.52 ms.
    let tree = FatTree::one_switch(4).unwrap();
    for kind in SHARED {
        let mut driver = driver(&round_numbers(kind), &tree);
        driver.start(message(0, 0, 2, 10_000_000));
        driver.run_until(SimTime::from_us(520));
        driver.start(message(1, 1, 2, 10_000_000));
        driver.run();
        let end = |id| driver.notices().iter().find(|(_, notice)| *notice == Notice::TailArrived(TransferId(id))).unwrap().0;
        assert_near(&format!("{kind:?}: first, us"), end(0).as_ns_f64() / 1e3, 3.0 * 520.0, 0.01);
        assert_near(&format!("{kind:?}: second, us"), end(1).as_ns_f64() / 1e3, 4.0 * 520.0, 0.01);
    }
}

/// Whose turn it is depends on what was sent before; after a rest it does not.
#[test]
fn after_a_rest_earlier_traffic_makes_no_difference() {
    let later = |before: &[Transfer], rest: bool| {
        let mut driver =
            driver(&NetworkConfig { virtual_networks: 2, ..round_numbers(NetworkKind::Packet) }, &FatTree::one_switch(4).unwrap());
        for (index, transfer) in before.iter().enumerate() {
            driver.start(Transfer { id: TransferId(100 + index as u32), ..*transfer });
        }
        driver.run();
        if rest {
            driver.rest();
        }
        let start = driver.now();
        // While the wire is busy with virtual network 1, two messages of virtual network 0 become ready: one read from
        // memory, one not.
        driver.start(Transfer { virtual_network: 1, source_dma: false, ..message(0, 0, 3, 9000) });
        driver.start(message(1, 0, 3, 1000));
        driver.start(Transfer { source_dma: false, ..message(2, 0, 3, 1000) });
        driver.run();
        let later = driver.notices().iter().filter(|(_, notice)| matches!(notice, Notice::TailArrived(id) if id.0 < 100));
        later.map(|(time, notice)| (time.as_ps() - start.as_ps(), *notice)).collect::<Vec<_>>()
    };
    let before = [message(0, 0, 3, 1000)];
    assert_ne!(later(&before, false), later(&[], false), "the test sees the difference");
    assert_eq!(later(&before, true), later(&[], true));
}
