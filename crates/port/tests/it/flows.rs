//! Flows over links that lose and break packets: everything arrives once, and as fast as a closed form says.

use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{
    Acc, AccPolicy, Arrival, Checks, ConfigError, Congestion, Dcqcn, Dctcp, Delivery, Ecn, Fault, FlowControl, Fraction, Hpcc, LinkConfig,
    NetworkConfig, NetworkKind, Notice, Nscc, Observer, PauseConfig, Probability, Reliability, Statistics, Swift, Transfer, TransferId,
    Undelivered,
};
use narrows_port::{Driver, HostPorts};
use narrows_topology::{FatTree, RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RATE: ByteRate = ByteRate(10_000_000_000);
const MTU: u64 = 1000;
const HEADER: u64 = 24;
/// A full packet on a link.
const PACKET: SimTime = SimTime(102_400);
const LATENCY: SimTime = SimTime::from_ns(100);
const TIMEOUT: SimTime = SimTime::from_us(20);

fn tree() -> Topology {
    FatTree::k_ary_n_tree(4, 2).unwrap().build()
}

/// 10 GB/s on every link, a bus that is no bottleneck, and ports that see to it that nothing is lost.
fn config(delivery: Delivery, window: u32) -> NetworkConfig {
    let link = LinkConfig { rate: RATE, latency: LATENCY };
    NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        mtu: Bytes(MTU),
        header: Bytes(HEADER),
        pcie_rate: ByteRate(100_000_000_000),
        buffer_per_channel: Bytes(64 << 10),
        reliability: Some(Reliability {
            window,
            room: 0,
            timeout: TIMEOUT,
            retries: 20,
            ack: Bytes(HEADER),
            delivery,
            unordered: 0,
            flows: 0,
            checks: Checks::default(),
            congestion: Congestion::None,
        }),
        ..NetworkConfig::default()
    }
}

fn fault(link: Option<u32>, loss: f64, corrupt: f64) -> Fault {
    let probability = |value| Probability::new(value).unwrap();
    Fault { link, loss: probability(loss), corrupt: probability(corrupt), ..Fault::default() }
}

fn transfer(id: u32, source: u32, target: u32, payload: u64) -> Transfer {
    Transfer {
        id: TransferId(id),
        source,
        target,
        virtual_network: 0,
        payload: Bytes(payload),
        source_dma: true,
        target_dma: true,
        route: 0,
    }
}

fn tails(network: &Driver) -> Vec<SimTime> {
    network.notices().iter().filter(|(_, notice)| matches!(notice, Notice::TailArrived(_))).map(|&(at, _)| at).collect()
}

/// The time of one long message whose packets a host's link loses with probability `loss`.
fn long_message(delivery: Delivery, packets: u64, loss: f64) -> (SimTime, u64) {
    let config = NetworkConfig { faults: vec![fault(Some(0), loss, 0.0)], ..config(delivery, 4096) };
    let mut network = Driver::new(&config, tree()).unwrap();
    network.start(transfer(0, 0, 9, packets * MTU));
    network.run();
    (tails(&network)[0], network.statistics().lost_packets)
}

/// Go-back-N without negative acknowledgements: what is sent between a loss and its time-out is sent for nothing, so a
/// loss costs the time-out. With p = `loss` there are (1 - p) / p packets between two of them, and the goodput is
/// (1 - p) / (1 - p + p T / t), the formula of facts 6.3 with W = T / t.
#[test]
fn ordered_goodput_follows_its_closed_form() {
    let packets = 100_000;
    for loss in [3e-4, 1e-3, 3e-3] {
        let (time, _) = long_message(Delivery::Ordered, packets, loss);
        let per_packet = PACKET.as_ps() as f64;
        let goodput = packets as f64 * per_packet / time.as_ps() as f64;
        let expected = (1.0 - loss) / (1.0 - loss + loss * TIMEOUT.as_ps() as f64 / per_packet);
        // The number of losses is binomial; four standard deviations.
        let losses = packets as f64 * loss;
        let bound = 4.0 / losses.sqrt() * (1.0 - expected);
        assert!((goodput / expected - 1.0).abs() < bound, "loss {loss}: {goodput:.4}, expected {expected:.4} within {bound:.4}");
    }
}

/// Selective repeat sends again what was lost and nothing else: the goodput is 1 - p as long as the window is longer
/// than a time-out.
#[test]
fn unordered_goodput_is_what_is_not_lost() {
    let packets = 100_000;
    for loss in [1e-3, 1e-2, 5e-2] {
        let (time, lost) = long_message(Delivery::Unordered, packets, loss);
        // To the last packet, which may have to be sent again; and the way, below a microsecond.
        let expected = PACKET.as_ps() * (packets + lost);
        let slack = (TIMEOUT * 4 + SimTime::from_us(1)).as_ps();
        assert!((expected..expected + slack).contains(&time.as_ps()), "loss {loss}: {time}, expected {}", SimTime(expected));
        let four_deviations = 4.0 * (packets as f64 * loss).sqrt();
        assert!((lost as f64 - packets as f64 * loss / (1.0 - loss)).abs() < four_deviations, "{lost} lost at {loss}");
    }
}

/// A later acknowledgement covers those that were lost before it. Without a lost packet nothing is sent again but what
/// the last acknowledgements were for, and the message takes the time that it takes without losses.
#[test]
fn a_lost_acknowledgement_sends_nothing_again() {
    let (packets, back) = (20_000, tree().ejection(0));
    let (alone, _) = long_message(Delivery::Unordered, packets, 0.0);
    for delivery in [Delivery::Ordered, Delivery::Unordered] {
        for loss in [1e-3, 1e-2, 0.1] {
            let config = NetworkConfig { faults: vec![fault(Some(back), loss, 0.0)], ..config(delivery, 4096) };
            let mut network = Driver::new(&config, tree()).unwrap();
            network.start(transfer(0, 0, 9, packets * MTU));
            network.run();
            let Statistics { lost_packets, retransmissions, .. } = network.statistics();
            assert_eq!(tails(&network), [alone], "{delivery:?}, loss {loss}");
            assert!(lost_packets as f64 > packets as f64 * loss / 2.0 && retransmissions < 10, "{lost_packets} {retransmissions}");
        }
    }
}

/// With losses on both ways the goodput is still 1 - p, and not (1 - p)^2: what is sent again beyond what was lost are
/// packets whose acknowledgement was lost while one before them was missing.
#[test]
fn unordered_goodput_does_not_count_lost_acknowledgements() {
    let packets = 100_000;
    for loss in [3e-3, 1e-2] {
        let faults = [0, tree().ejection(0)].map(|link| fault(Some(link), loss, 0.0));
        let mut network = Driver::new(&NetworkConfig { faults: faults.to_vec(), ..config(Delivery::Unordered, 4096) }, tree()).unwrap();
        network.start(transfer(0, 0, 9, packets * MTU));
        network.run();
        let again = network.statistics().retransmissions;
        let (lost, four_deviations) = (packets as f64 * loss / (1.0 - loss), 4.0 * (packets as f64 * loss).sqrt());
        // Twice as many without.
        assert!((again as f64) < lost * 1.2 + four_deviations, "loss {loss}: {again} sent again, {lost} lost");
        let (time, busy) = (tails(&network)[0], PACKET * (packets + again));
        assert!((busy - TIMEOUT..busy + TIMEOUT * 4).contains(&time), "loss {loss}: {time}, {busy}");
    }
}

/// A short window stops at a lost packet until it is sent again, a time-out T after it left, whatever the receiver
/// keeps of those behind it: with T / t packets in a time-out the goodput is (1 - p) / (1 - p + p T / t) for both kinds
/// of flows, with acknowledgements that are lost as often.
#[test]
fn a_short_window_costs_both_kinds_of_flows_the_time_out() {
    let (packets, loss, timeout) = (300_000, 1e-3, SimTime::from_us(50));
    let goodput = |delivery| {
        let faults = [0, tree().ejection(0)].map(|link| fault(Some(link), loss, 0.0));
        let mut config = NetworkConfig { faults: faults.to_vec(), ..config(delivery, 16) };
        config.reliability.as_mut().unwrap().timeout = timeout;
        let mut network = Driver::new(&config, tree()).unwrap();
        network.start(transfer(0, 0, 9, packets * MTU));
        network.run();
        (PACKET * packets).as_ps() as f64 / tails(&network)[0].as_ps() as f64
    };
    let (ordered, unordered) = (goodput(Delivery::Ordered), goodput(Delivery::Unordered));
    let expected = (1.0 - loss) / (1.0 - loss + loss * timeout.as_ps() as f64 / PACKET.as_ps() as f64);
    // The number of losses is binomial; four standard deviations.
    let bound = 4.0 / (packets as f64 * loss).sqrt() * (1.0 - expected);
    for goodput in [ordered, unordered] {
        assert!((goodput / expected - 1.0).abs() < bound, "{ordered:.4} and {unordered:.4}, expected {expected:.4} within {bound:.4}");
    }
}

/// A window of one packet: the next one starts when the acknowledgement of the one before is there.
#[test]
fn the_window_bounds_what_is_under_way() {
    let mut alone = Driver::new(&NetworkConfig { reliability: None, ..config(Delivery::Ordered, 1) }, tree()).unwrap();
    let (there, back) = (alone.zero_load(&transfer(0, 0, 9, MTU)).tail, alone.zero_load(&transfer(0, 9, 0, 0)).tail);
    alone.start(transfer(0, 0, 9, 10 * MTU));
    alone.run();
    for (delivery, window) in [(Delivery::Ordered, 1), (Delivery::Unordered, 1)] {
        let mut network = Driver::new(&config(delivery, window), tree()).unwrap();
        network.start(transfer(0, 0, 9, 10 * MTU));
        network.run();
        let expected = there * 10 + back * 9;
        assert_eq!(tails(&network), [expected], "nine round trips, and the way of the last packet");
        assert_eq!(network.statistics().acknowledgements, 10);
    }
    // A window of more than the round trip is no limit.
    let mut network = Driver::new(&config(Delivery::Ordered, 64), tree()).unwrap();
    network.start(transfer(0, 0, 9, 10 * MTU));
    network.run();
    assert_eq!(tails(&network), tails(&alone));
}

/// With room for one packet of all flows: as above, wherever they go.
#[test]
fn the_room_bounds_what_all_flows_hold() {
    let alone = Driver::new(&NetworkConfig { reliability: None, ..config(Delivery::Ordered, 1) }, tree()).unwrap();
    let (there, back) = (alone.zero_load(&transfer(0, 0, 9, MTU)).tail, alone.zero_load(&transfer(0, 9, 0, 0)).tail);
    for delivery in [Delivery::Ordered, Delivery::Unordered] {
        let mut config = config(delivery, 64);
        config.reliability.as_mut().unwrap().room = 1;
        let mut network = Driver::new(&config, tree()).unwrap();
        (0..10).for_each(|at| network.start(transfer(at, 0, 4 + at, MTU)));
        network.run();
        assert_eq!(tails(&network).last(), Some(&(there * 10 + back * 9)));
    }
}

/// With one flow at a time: as above, but a flow may have more than one packet under way.
#[test]
fn some_flows_wait_until_others_have_all_of_theirs() {
    let alone = Driver::new(&NetworkConfig { reliability: None, ..config(Delivery::Ordered, 1) }, tree()).unwrap();
    let (there, back) = (alone.zero_load(&transfer(0, 0, 9, 3 * MTU)).tail, alone.zero_load(&transfer(0, 9, 0, 0)).tail);
    for delivery in [Delivery::Ordered, Delivery::Unordered] {
        let run = |flows| {
            let mut config = config(delivery, 64);
            config.reliability.as_mut().unwrap().flows = flows;
            let mut network = Driver::new(&config, tree()).unwrap();
            (0..10).for_each(|at| network.start(transfer(at, 0, 4 + at, 3 * MTU)));
            network.run();
            *tails(&network).last().unwrap()
        };
        assert_eq!(run(1), there * 10 + back * 9, "ten flows of three packets, one after the other");
        // Two flows: as two pairs of three packets each, five times; ten flows: no limit.
        assert!(run(2) < there * 6 + back * 5 && run(10) == run(0), "{} {}", run(2), run(10));
    }
}

/// Ordered and unordered flows side by side: each is as it would be if all were so.
#[test]
fn the_virtual_network_says_what_is_ordered() {
    let run = |reliability: Delivery, unordered: u16, network: u8| {
        let mut config = NetworkConfig { faults: vec![fault(Some(0), 1e-2, 1e-3)], ..config(reliability, 4096) };
        config.reliability.as_mut().unwrap().unordered = unordered;
        let mut driver = Driver::new(&config, tree()).unwrap();
        driver.start(Transfer { virtual_network: network, ..transfer(0, 0, 9, 20_000 * MTU) });
        driver.run();
        (tails(&driver)[0], driver.statistics().retransmissions)
    };
    let (ordered, unordered) = (run(Delivery::Ordered, 0, 0), run(Delivery::Unordered, 0, 1));
    assert_eq!(run(Delivery::Ordered, 0b1010, 0), ordered);
    assert_eq!(run(Delivery::Ordered, 0b1010, 1), unordered);
    assert!(ordered.0 > unordered.0 * 2 && ordered.1 > unordered.1 * 50, "go-back-N costs more: {ordered:?} {unordered:?}");
    // Both at once, between the same nodes, at half of the link each. What the ordered one waits for does not hold up
    // the other one, which ends as if it were alone with half of the losses of the link.
    let mut config = NetworkConfig { faults: vec![fault(Some(0), 1e-2, 0.0)], ..config(Delivery::Ordered, 4096) };
    config.reliability.as_mut().unwrap().unordered = 0b10;
    let mut driver = Driver::new(&config, tree()).unwrap();
    (0..2).for_each(|id| driver.start(Transfer { virtual_network: id as u8, ..transfer(id, 0, 9, 20_000 * MTU) }));
    driver.run();
    let end = |id: u32| driver.notices().iter().find(|(_, notice)| *notice == Notice::TailArrived(TransferId(id))).unwrap().0;
    let alone = PACKET.as_ps() * 20_000;
    let bounds = alone..alone * 2 + (TIMEOUT * 4).as_ps() + alone / 20;
    assert!(bounds.contains(&end(1).as_ps()) && end(0) > end(1), "{} {}", end(0), end(1));
}

/// What happens on a link both check sums see, what happens to the payload in a switch only its own; what neither sees
/// arrives as if nothing were wrong.
#[test]
fn each_check_sum_sees_what_it_covers() {
    let packets = 20_000u64;
    let run = |corrupt: f64, silent: f64, fcs, crc| {
        let silent = Probability::new(silent).unwrap();
        let mut config =
            NetworkConfig { faults: vec![Fault { silent, ..fault(Some(0), 0.0, corrupt) }], ..config(Delivery::Unordered, 4096) };
        config.reliability.as_mut().unwrap().checks = Checks { fcs, crc };
        let mut network = Driver::new(&config, tree()).unwrap();
        network.start(transfer(0, 0, 9, packets * MTU));
        network.run();
        assert_eq!(tails(&network).len(), 1);
        let found = network.statistics();
        assert_eq!(found.retransmissions, found.corrupt_packets, "what is found is sent again");
        let sent = packets as f64 + found.retransmissions as f64;
        [found.corrupt_packets - found.crc_errors, found.crc_errors, found.missed_errors].map(|count| count as f64 / sent)
    };
    let in_payload = MTU as f64 / (MTU + HEADER) as f64;
    // (broken on the link, broken in the switch, bits of both), found by FCS, by the CRC alone, by nobody.
    let table = [
        (0.1, 0.0, 32, 32, [0.1, 0.0, 0.0]),
        (0.0, 0.1, 32, 32, [0.0, 0.1, 0.0]),
        (0.0, 0.1, 32, 0, [0.0, 0.0, 0.1]),
        (0.1, 0.0, 0, 32, [0.0, 0.1 * in_payload, 0.1 * (1.0 - in_payload)]),
        (0.1, 0.0, 0, 0, [0.0, 0.0, 0.1]),
        (0.2, 0.0, 2, 0, [0.15, 0.0, 0.05]),
        (0.2, 0.0, 2, 1, [0.15, 0.025 * in_payload, 0.05 - 0.025 * in_payload]),
        (0.0, 0.2, 0, 3, [0.0, 0.175, 0.025]),
    ];
    for (corrupt, silent, fcs, crc, expected) in table {
        let found = run(corrupt, silent, fcs, crc);
        for (found, expected) in found.into_iter().zip(expected) {
            let deviation = (expected * (1.0 - expected) / packets as f64).sqrt();
            assert!((found - expected).abs() <= 4.0 * deviation, "{corrupt} {silent} {fcs} {crc}: {found}, expected {expected}");
        }
    }
}

/// Each flow has its own rate: n packets end n - 1 times their time at that rate after a single one would.
#[test]
fn a_throttled_flow_keeps_its_rate() {
    const SLOW: ByteRate = ByteRate(2_000_000_000);
    let wire = SLOW.time_for(Bytes(MTU + HEADER));
    for (delivery, source_dma) in [(Delivery::Ordered, true), (Delivery::Unordered, true), (Delivery::Ordered, false)] {
        let mut config = config(delivery, 64);
        config.reliability.as_mut().unwrap().congestion = Congestion::Throttle(SLOW);
        let run = |transfers: &[(u32, u64)]| {
            let mut network = Driver::new(&config, tree()).unwrap();
            for (id, &(target, packets)) in (0..).zip(transfers) {
                network.start(Transfer { source_dma, ..transfer(id, 0, target, packets * MTU) });
            }
            network.run();
            tails(&network)
        };
        let [one] = run(&[(9, 1)])[..] else { panic!("one message") };
        assert_eq!(run(&[(9, 50)]), [one + wire * 49]);
        // Four flows share the link, and none of them waits for another: each packet is a fifth of the time between
        // two.
        let ends = run(&[(9, 50), (13, 50), (5, 50), (4, 50)]);
        assert!(ends.iter().all(|&end| end < one + wire * 49 + PACKET * 5), "{ends:?}");
        // Two messages of one flow do.
        assert_eq!(run(&[(9, 25), (9, 25)]).last(), Some(&(one + wire * 49)));
    }
}

#[test]
fn a_flow_that_gets_no_answer_is_given_up() {
    let mut config = config(Delivery::Ordered, 8);
    config.faults = vec![fault(Some(3), 1.0, 0.0)];
    config.reliability.as_mut().unwrap().retries = 4;
    let mut network = Driver::new(&config, tree()).unwrap();
    network.start(Transfer { source_dma: false, ..transfer(0, 3, 5, 100) });
    network.start(transfer(1, 4, 5, 100));
    network.run();
    let expected = Undelivered {
        at: TIMEOUT * 5,
        from: 3,
        target: 5,
        virtual_network: 0,
        tries: 4,
        link: Some("node3".into()),
        messages: vec![transfer(0, 3, 5, 100)],
    };
    assert_eq!(network.undelivered(), std::slice::from_ref(&expected));
    assert_eq!((network.statistics().lost_packets, tails(&network).len(), network.in_flight()), (5, 1, 1));
    let said = "at 100 us node 3 has given up sending to node 5 in virtual network 0: packets were sent 4 times more, and none was acknowledged (link node3 on the way has a fault); \
        longer network.reliability.timeout or more network.reliability.retries outlast a longer fault";
    assert_eq!(expected.to_string(), said);
}

#[test]
fn a_link_that_comes_back_in_time_is_survived() {
    let config =
        NetworkConfig { faults: vec![Fault { to: SimTime::from_us(50), ..fault(Some(3), 1.0, 0.0) }], ..config(Delivery::Unordered, 8) };
    let mut network = Driver::new(&config, tree()).unwrap();
    let message = Transfer { source_dma: false, ..transfer(0, 3, 5, 100) };
    network.start(message);
    network.run();
    // Sent at 0, 20, 40 and 60 us.
    assert_eq!(tails(&network), [SimTime::from_us(60) + network.zero_load(&message).tail]);
    assert_eq!((network.statistics().lost_packets, network.statistics().retransmissions), (3, 3));
}

/// What a NIC has not had acknowledged when it is back it sends at once, and not after a time-out.
#[test]
fn a_nic_that_is_reset_sends_again_when_it_is_back() {
    for delivery in [Delivery::Ordered, Delivery::Unordered] {
        let back = SimTime::from_us(7);
        let dead = |link| Fault { to: back, ..fault(Some(link), 1.0, 0.0) };
        let topology = tree();
        let faults = vec![Fault { resets: Some(3), ..dead(3) }, dead(topology.ejection(3))];
        let mut network = Driver::new(&NetworkConfig { faults, ..config(delivery, 8) }, topology).unwrap();
        let message = Transfer { source_dma: false, ..transfer(0, 3, 5, 3 * MTU) };
        let zero_load = network.zero_load(&message).tail;
        network.start(message);
        network.run();
        assert_eq!(tails(&network), [back + zero_load]);
        assert_eq!(network.statistics().lost_packets, 3);
    }
}

/// n packets end n - 1 times their time on the slowest link after a single one; a longer latency counts once.
#[test]
fn a_slow_link_has_its_rate_and_latency() {
    let run = |faults: Vec<Fault>, packets| {
        let mut network = Driver::new(&NetworkConfig { faults, reliability: None, ..config(Delivery::Ordered, 8) }, tree()).unwrap();
        network.start(transfer(0, 0, 9, packets * MTU));
        network.run();
        network.audit().unwrap();
        tails(&network)[0]
    };
    let ejection = tree().ejection(9);
    for link in [0, ejection] {
        let slow = Fault { rate: Fraction(250_000), ..fault(Some(link), 0.0, 0.0) };
        assert_eq!(run(vec![slow], 50) - run(vec![slow], 1), PACKET * 4 * 49, "link {link}");
        let far = Fault { latency: Fraction(5_000_000), ..fault(Some(link), 0.0, 0.0) };
        assert_eq!(run(vec![far], 50), run(vec![], 50) + LATENCY * 4, "link {link}");
    }
}

/// A root of the tree dies: what is on its way there is lost and sent again on another one, and nothing is lost from
/// when the others know.
#[test]
fn packets_go_around_a_switch_that_died() {
    let topology = tree();
    let (died, known) = (SimTime::from_us(10), SimTime::from_us(5));
    // The root that packets from 0 to 9 pass.
    let alone = NetworkConfig { reliability: None, ..config(Delivery::Ordered, 8) };
    let mut routing = alone.check(&topology).unwrap();
    let path = routing.path(&topology, 0, 9, Default::default(), |_| 0);
    let narrows_topology::Vertex::Switch(root) = topology.links()[path[1] as usize].to else { panic!("a way up") };
    let faults: Vec<Fault> = topology
        .outputs(root)
        .flat_map(|link| [link, topology.links()[link as usize].reverse])
        .map(|link| Fault { from: died, reroute: Some(known), ..fault(Some(link), 1.0, 0.0) })
        .collect();
    let mut network = Driver::new(&NetworkConfig { faults, ..config(Delivery::Unordered, 4096) }, tree()).unwrap();
    let packets = 400;
    network.start(transfer(0, 0, 9, packets * MTU));
    network.run_until(died + known + SimTime::from_us(2));
    let lost = network.statistics().lost_packets;
    // As many as the link has sent meanwhile.
    assert!((40..=60).contains(&lost), "{lost}");
    network.run();
    assert_eq!(network.statistics().lost_packets, lost, "none since");
    let end = tails(&network)[0];
    let busy = PACKET * (packets + lost);
    assert!((busy..busy + TIMEOUT + SimTime::from_us(3)).contains(&end), "{end}, {busy}");
    // Without a way around them flows are given up, and the link is named.
    let gone = [path[1], topology.links()[path[1] as usize].reverse].map(|link| fault(Some(link), 1.0, 0.0));
    let mut network = Driver::new(&NetworkConfig { faults: gone.to_vec(), ..config(Delivery::Unordered, 8) }, tree()).unwrap();
    network.start(transfer(0, 0, 9, 100));
    network.run();
    let said = network.undelivered()[0].to_string();
    assert!(said.contains(&format!("(link {} on the way has a fault)", topology.cable_name(path[1]))), "{said}");
}

#[test]
fn faults_that_make_no_sense_are_refused() {
    let check = |config: NetworkConfig| config.check(&tree()).err();
    let faults = vec![fault(None, 1e-3, 0.0)];
    let base = config(Delivery::Ordered, 64);
    assert_eq!(check(NetworkConfig { faults: faults.clone(), ..base.clone() }), None);
    let without = NetworkConfig { faults: faults.clone(), reliability: None, ..base.clone() };
    assert_eq!(check(without), Some(ConfigError::FaultWithoutReliability));
    let flow = NetworkConfig { faults, kind: NetworkKind::Flow, ..base.clone() };
    assert_eq!(check(flow), Some(ConfigError::FaultWithoutPackets));
    let links = tree().links().len() as u32;
    let far = NetworkConfig { faults: vec![fault(Some(links), 0.1, 0.0)], ..base.clone() };
    assert_eq!(check(far), Some(ConfigError::FaultLink { link: links, links }));
    let reliability = base.reliability.unwrap();
    for wrong in [
        Reliability { window: 0, ..reliability },
        Reliability { window: 32769, ..reliability },
        Reliability { timeout: SimTime::ZERO, ..reliability },
        Reliability { ack: Bytes(0), ..reliability },
        Reliability { ack: Bytes(5000), ..reliability },
        Reliability { checks: Checks { fcs: 33, crc: 32 }, ..reliability },
        Reliability { checks: Checks { fcs: 0, crc: 64 }, ..reliability },
    ] {
        let refused = check(NetworkConfig { reliability: Some(wrong), ..base.clone() });
        assert!(matches!(refused, Some(ConfigError::Reliability { .. })), "{wrong:?}: {refused:?}");
    }
}

/// What arrived, and when, on any number of regions.
struct Script {
    arrived: Vec<(u32, u32)>,
    transfers: Vec<Transfer>,
}

impl Observer for Script {}

impl Agent for Script {
    type Event = ();
    type Letter = ();
    type Ports = HostPorts;

    fn timer(&mut self, _: u32, order: u32, (): (), fabric: &mut Context<'_>) {
        fabric.start(self.transfers[order as usize]);
    }

    fn tail(&mut self, arrival: &Arrival, _: &mut Context<'_>) {
        self.arrived.push((arrival.source, arrival.id.0));
    }
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    prop_oneof![Just(Delivery::Ordered), Just(Delivery::Unordered)]
}

fn congestions() -> impl Strategy<Value = Congestion> {
    let us = SimTime::from_us;
    let acc = (0..5usize, 1u32..=2, 1u64..30).prop_map(move |(policy, packets_per_period, period)| {
        use AccPolicy::*;
        Congestion::Acc(Acc {
            policy: [FrpOnly, FrpInit, WaitForFeedback, MindTheGap, WaitToRise][policy],
            margin: Fraction(50_000),
            period: us(period),
            packets_per_period,
            rise: Fraction(500_000),
            packet: Bytes(32),
            skew: SimTime::from_ns(period * 200),
        })
    });
    let dcqcn = Dcqcn {
        interval: us(5),
        packet: Bytes(84),
        gain: Fraction(100_000),
        alpha_timer: us(5),
        increase_timer: us(5),
        byte_counter: Bytes(20_000),
        additive_increase: Fraction(5_000),
        hyper_increase: Fraction(50_000),
    };
    let swift = (1u64..20).prop_map(move |target| {
        Congestion::Swift(Swift {
            base_target: us(target),
            per_hop: SimTime::from_ns(100),
            flow_range: us(10),
            additive_increase: Fraction(1_000_000),
            beta: Fraction(800_000),
            most_decrease: Fraction(500_000),
        })
    });
    let throttle = Congestion::Throttle(ByteRate(1_000_000_000));
    let nscc = (1u64..20).prop_map(move |target| Congestion::Nscc(Nscc { round_trip: us(2), target: us(target) }));
    let hpcc = (1u64..20, 1u32..8, 0u32..6).prop_map(move |(round_trip, flows, max_stage)| {
        Congestion::Hpcc(Hpcc { round_trip: us(round_trip), utilization: Fraction(950_000), max_stage, flows })
    });
    let dctcp = Congestion::Dctcp(Dctcp { gain: Fraction(62_500) });
    prop_oneof![Just(Congestion::None), Just(throttle), acc, Just(Congestion::Dcqcn(dcqcn)), Just(dctcp), swift, nscc, hpcc]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Random messages over links that lose and break packets, with few buffers and many ways: each arrives once, no
    /// credit is lost, and everything is the same however the network is cut and on two threads.
    #[test]
    fn every_message_arrives_once(
        messages in proptest::collection::vec((0u32..16, 0u32..16, 0u64..20_000, 0u64..40_000, any::<bool>(), 0u8..4), 1..60),
        (loss, corrupt, window, seed) in (0.0..0.2f64, 0.0..0.1f64, 1u32..40, any::<u64>()),
        (duplicate, reorder, rate, latency, dead) in (0.0..0.2f64, 0.0..0.2f64, 100_000u32..=1_000_000, 1u32..4, any::<bool>()),
        delivery in deliveries(),
        // Some virtual networks of the four, some flows, check sums that miss something, and a packet rate.
        (unordered, some_flows, fcs, crc, silent, gap) in (0u16..16, 0u32..3, 0u32..=32, 0u32..=32, 0.0..0.1f64, 0u64..300),
        (adaptive, pauses, in_order) in any::<(bool, bool, bool)>(),
        (congestion, another) in (congestions(), congestions()),
    ) {
        let probability = |value| Probability::new(value).unwrap();
        let (duplicate, reorder, late) = (probability(duplicate), probability(reorder), SimTime::from_us(2));
        let ill = Fault { duplicate, reorder, late, silent: probability(silent), ..fault(None, loss, corrupt) };
        let slow = Fault { rate: Fraction(rate), latency: Fraction(latency * 1_000_000), ..fault(Some(9), 0.0, 0.0) };
        let mut faults = vec![ill, Fault { to: SimTime::from_us(90), ..slow }];
        if dead {
            // The last root dies and comes back, and so does the NIC of host 2.
            let topology = tree();
            let span = Fault { from: SimTime::from_us(8), to: SimTime::from_us(70), ..fault(None, 1.0, 0.0) };
            for link in topology.outputs(topology.switches() - 1).flat_map(|link| [link, topology.links()[link as usize].reverse]) {
                faults.push(Fault { link: Some(link), reroute: Some(SimTime::from_us(6)), ..span });
            }
            faults.extend([Fault { link: Some(2), resets: Some(2), ..span }, Fault { link: Some(topology.ejection(2)), ..span }]);
        }
        let mut config = NetworkConfig { faults, seed, in_order, ..config(delivery, window) };
        let reliability = config.reliability.as_mut().unwrap();
        reliability.retries = 1000;
        reliability.room = if in_order { window } else { 0 };
        reliability.congestion = congestion;
        reliability.unordered = unordered;
        reliability.flows = some_flows;
        reliability.checks = Checks { fcs, crc };
        config.packet_gap = SimTime::from_ns(gap);
        // Two classes have another one.
        if std::mem::discriminant(&another) != std::mem::discriminant(&congestion) {
            config.congestion_of = BTreeMap::from([(1, another), (2, another)]);
        }
        config.telemetry = true;
        config.ecn = Some(Ecn { min: Bytes(2_000), max: Bytes(20_000), probability: Fraction(100_000) });
        // Packets that overtake each other would be sent again and again.
        if adaptive && (delivery == Delivery::Unordered || unordered == 15) {
            config.routing = RoutingKind::Adaptive;
        }
        if pauses {
            config.flow_control = FlowControl::Pause(PauseConfig::default());
        }
        let transfers: Vec<Transfer> = messages
            .iter()
            .enumerate()
            .map(|(id, &(source, target, payload, _, source_dma, virtual_network))| Transfer {
                source_dma,
                virtual_network,
                ..transfer(id as u32, source, target, payload)
            })
            .collect();
        let run = |regions: Vec<u32>, threads: usize| {
            let script = |_: &[u32]| Script { arrived: Vec::new(), transfers: transfers.clone() };
            let mut fabric = Fabric::with_regions(&config, tree(), regions, script).unwrap();
            for (order, (transfer, message)) in transfers.iter().zip(&messages).enumerate() {
                fabric.timer(SimTime::from_ns(message.3), transfer.source, order as u32, ());
            }
            fabric.run_until(SimTime::from_us(1_000_000), threads);
            fabric.audit().unwrap();
            prop_assert_eq!(fabric.live_packets(), 0);
            let arrived: Vec<_> = fabric.agents().flat_map(|script| std::mem::take(&mut script.arrived)).collect();
            let once: BTreeSet<_> = arrived.iter().copied().collect();
            prop_assert_eq!((once.len(), arrived.len()), (transfers.len(), transfers.len()));
            Ok((fabric.digest(), fabric.statistics()))
        };
        let switches = tree().switches();
        let whole = run(vec![0; switches as usize], 1)?;
        prop_assert_eq!(&run((0..switches).map(|switch| switch % 3).collect(), 2)?, &whole);
        prop_assert_eq!(&run((0..switches).collect(), 1)?, &whole);
    }
}
