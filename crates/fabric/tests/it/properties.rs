//! What holds for any traffic: everything arrives once, credits add up at every step, heads keep their order, rates are
//! max-min fair.

use crate::common::{driver, message, round_numbers, times};
use narrows_fabric::{FlowConfig, LinkConfig, NetworkConfig, NetworkKind, Notice, Transfer};
use narrows_port::Driver;
use narrows_topology::{FatTree, RouteState, Routing, RoutingKind, RoutingOptions};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn tree(choice: u8) -> FatTree {
    match choice {
        0 => FatTree::one_switch(8),
        1 => FatTree::k_ary_n_tree(2, 3),
        2 => FatTree::pgft(&[2, 4], &[1, 1], &[1, 2]),
        _ => FatTree::smallest_full_bisection(10, 4),
    }
    .unwrap()
}

prop_compose! {
    fn transfers(most: usize, longest: u64)(
        list in prop::collection::vec((0u64..20_000, 0u32..8, 0u32..8, 0u8..4, prop_oneof![Just(0), 1u64..64, 1..longest], any::<(bool, bool)>()), 1..most)
    ) -> Vec<(SimTime, Transfer)> {
        let mut list: Vec<_> = list.into_iter().collect();
        list.sort_by_key(|entry| entry.0);
        list.iter().enumerate().map(|(index, &(at, source, target, virtual_network, payload, (source_dma, target_dma)))| {
            (SimTime(at * 1000), Transfer { virtual_network, source_dma, target_dma, ..message(index as u32, source, target, payload) })
        }).collect()
    }
}

fn config(kind: NetworkKind, adaptive: bool, buffer_packets: u64, pcie_gigabytes: u64) -> NetworkConfig {
    NetworkConfig {
        routing: if adaptive { RoutingKind::Adaptive } else { RoutingKind::DModK },
        buffer_per_channel: Bytes(buffer_packets * 1040),
        pcie_rate: ByteRate(pcie_gigabytes * 1_000_000_000),
        // Nearly every message is a flow.
        flow: FlowConfig { direct_up_to: Bytes(0) },
        ..round_numbers(kind)
    }
}

/// Starts each transfer at its time and calls `each` after every event.
fn drive(driver: &mut Driver, transfers: &[(SimTime, Transfer)], mut each: impl FnMut(&mut Driver)) {
    let mut waiting = transfers.iter().peekable();
    loop {
        while let Some((_, transfer)) = waiting.next_if(|(at, _)| *at <= driver.now()) {
            driver.start(*transfer);
            each(driver);
        }
        if let Some((at, _)) = waiting.peek() {
            // Event by event, up to the next start.
            if !driver.step_until(*at) {
                continue;
            }
        } else if !driver.step() {
            return;
        }
        each(driver);
    }
}

/// Each notice once per transfer; tails after heads, not before the closed form of a message alone.
fn check_notices(driver: &Driver, transfers: &[(SimTime, Transfer)]) {
    let mut seen = vec![[None; 3]; transfers.len()];
    for &(at, notice) in driver.notices() {
        let (kind, id) = match notice {
            Notice::SourceDone(id) => (0, id),
            Notice::HeadArrived(id) => (1, id),
            Notice::TailArrived(id) => (2, id),
        };
        let seen = &mut seen[id.0 as usize];
        assert_eq!(seen[kind], None, "{notice:?} came twice");
        seen[kind] = Some(at);
        assert!(kind != 2 || seen[1].is_some(), "tail of {} before its head", id.0);
    }
    for (seen, (start, transfer)) in seen.iter().zip(transfers) {
        let alone = driver.zero_load(transfer);
        let [Some(source), Some(head), Some(tail)] = *seen else { panic!("{transfer:?} is incomplete: {seen:?}") };
        // A flow is one fluid; the closed form rounds each packet up to a picosecond.
        let rounding = SimTime(transfer.payload.0.div_ceil(1000));
        assert!(
            source + rounding >= *start + alone.source_done && head >= *start + alone.head && tail >= *start + alone.tail,
            "{transfer:?} is faster than alone: {seen:?} from {start}, alone {alone:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn packets_and_credits_are_kept(
        list in transfers(60, 20_000), choice in 0u8..4, adaptive: bool, buffer in 1u64..6, pcie in 1u64..30,
    ) {
        let config = config(NetworkKind::Packet, adaptive, buffer, pcie);
        let mut driver = driver(&config, &tree(choice));
        drive(&mut driver, &list, |driver| {
            // Free + returning + held = size, and free cannot be negative: no buffer is ever over its size.
            driver.audit().unwrap();
        });
        prop_assert_eq!((driver.live_packets(), driver.in_flight()), (0, 0));
        let expected: u64 = list.iter().filter(|(_, t)| t.source != t.target).map(|(_, t)| t.payload.0.div_ceil(1000).max(1)).sum();
        prop_assert_eq!(driver.statistics().packets, expected);
        check_notices(&driver, &list);
    }

    #[test]
    fn the_other_networks_keep_order_too(list in transfers(60, 20_000), choice in 0u8..4, flow: bool, adaptive: bool, pcie in 1u64..30) {
        let kind = if flow { NetworkKind::Flow } else { NetworkKind::LogGp };
        let mut config = config(kind, adaptive, 4, pcie);
        config.loggp.gap = SimTime::from_ns(100);
        let mut driver = driver(&config, &tree(choice));
        drive(&mut driver, &list, |_| ());
        prop_assert_eq!(driver.in_flight(), 0);
        check_notices(&driver, &list);
    }

    #[test]
    fn the_same_traffic_gives_the_same_digest(list in transfers(40, 20_000), choice in 0u8..4, adaptive: bool) {
        for kind in crate::common::KINDS {
            let run = || {
                let mut driver = driver(&config(kind, adaptive, 3, 8), &tree(choice));
                drive(&mut driver, &list, |_| ());
                (driver.digest(), driver.events(), driver.statistics())
            };
            prop_assert_eq!(run(), run());
        }
    }

    /// After every solve, by the definition: nothing is overfull, and each flow has a full resource on which no flow is
    /// faster.
    #[test]
    fn flows_are_max_min_fair(list in transfers(60, 400_000), choice in 0u8..4, pcie in 5u64..30) {
        let config = config(NetworkKind::Flow, false, 4, pcie);
        let topology = tree(choice).build();
        let mut routing = Routing::new(RoutingKind::DModK, &topology, RoutingOptions::default()).unwrap();
        let mut driver = driver(&config, &tree(choice));
        let mut checked = 0;
        let mut solves = 0;
        drive(&mut driver, &list, |driver| {
            if driver.statistics().solves == solves {
                return;
            }
            solves = driver.statistics().solves;
            let hosts = topology.hosts();
            let mut used: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
            let mut flows = Vec::new();
            for (id, rate) in driver.flow_rates() {
                let transfer = list[id.0 as usize].1;
                let weight = 1.0 + transfer.payload.0.div_ceil(1000) as f64 * 40.0 / transfer.payload.0 as f64;
                let mut resources: Vec<_> = routing
                    .path(&topology, transfer.source, transfer.target, RouteState::default(), |_| 0)
                    .iter().map(|link| (2 * hosts + link, weight, 10e9)).collect();
                resources.extend(transfer.source_dma.then_some((transfer.source, 1.0, pcie as f64 * 1e9)));
                resources.extend(transfer.target_dma.then_some((hosts + transfer.target, 1.0, pcie as f64 * 1e9)));
                for (resource, weight, _) in &resources {
                    let entry = used.entry(*resource).or_default();
                    *entry = (entry.0 + rate as f64 * weight, entry.1.max(rate as f64));
                }
                flows.push((id, rate as f64, resources));
            }
            for (id, rate, resources) in flows {
                let within = resources.iter().all(|(resource, _, capacity)| used[resource].0 <= capacity * (1.0 + 1e-9));
                assert!(within, "a resource of {id:?} is overfull");
                let bottleneck = resources.iter().any(|(resource, _, capacity)| {
                    used[resource].0 >= capacity * (1.0 - 2e-5) && used[resource].1 <= rate * (1.0 + 2e-5)
                });
                assert!(bottleneck, "{id:?} at {rate} has no bottleneck");
                checked += 1;
            }
        });
        // At least the long ones were there to be checked.
        let long = list.iter().filter(|(_, t)| t.source != t.target && t.payload.0 > 1000).count();
        prop_assert!(checked >= long);
    }
}

/// A flow over four slow links at once drains before its head would be there if it took one of them. Nothing of it is
/// there before a packet can be, and who has its number is told of head and tail once, in this order, whoever has had
/// the number before.
#[test]
fn a_spread_flow_is_not_through_before_its_first_packet() {
    let tree = FatTree::pgft(&[8, 2], &[1, 4], &[1, 1]).unwrap();
    for latency in [1_000, 150, 10] {
        let config = NetworkConfig {
            switch_link: LinkConfig { rate: ByteRate(1_000_000_000), latency: SimTime::from_ns(latency) },
            ..config(NetworkKind::Flow, true, 16, 20)
        };
        let mut driver = driver(&config, &tree);
        let list: Vec<(SimTime, Transfer)> = (0..64)
            .map(|index| {
                let payload = 1_001 + u64::from(index) * 211 % 3_000;
                (SimTime::from_ns(u64::from(index) * 1_700), message(index, index % 16, (index + 8) % 16, payload))
            })
            .collect();
        drive(&mut driver, &list, |_| {});
        assert_eq!(driver.in_flight(), 0);
        let transfers: Vec<Transfer> = list.iter().map(|entry| entry.1).collect();
        for ((start, transfer), [_, head, tail]) in list.iter().zip(times(driver.notices(), &transfers)) {
            let packet = driver.zero_load(&Transfer { payload: Bytes(1_000), ..*transfer });
            assert_eq!(head, *start + packet.head, "{latency} ns: {transfer:?}");
            assert!(tail >= *start + packet.tail && packet.tail > packet.head, "{latency} ns: {transfer:?}, head {head}, tail {tail}");
        }
    }
}
