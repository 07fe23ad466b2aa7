//! The networks on dragonflies, tori and the rest: the closed form over links of different rates, and no deadlock under
//! pressure.

use crate::common::{message, round_numbers, times};
use narrows_fabric::{NetworkConfig, NetworkKind, Transfer};
use narrows_port::Driver;
use narrows_topology::{
    Arrangement, Dragonfly, DragonflyPlus, DragonflyPlusParameters, FailedLink, HyperX, RoutingKind, Topology, Torus, TorusParameters,
};
use narrows_units::{ByteRate, Bytes, SimTime};

fn dragonfly() -> Topology {
    Dragonfly::new([2, 4, 2, 9], Arrangement::Consecutive, None).unwrap().build()
}

fn torus(lengths: &[u32], board: u32) -> Topology {
    let lengths = lengths.to_vec();
    let parameters = TorusParameters { lengths, wrap: true, board, hosts_per_switch: 1, cables: 1, hosts: None };
    Torus::new(parameters).unwrap().build()
}

fn topologies() -> Vec<Topology> {
    let plus = DragonflyPlusParameters {
        groups: 5,
        leaves: 2,
        spines: 2,
        hosts_per_leaf: 3,
        global_links: 2,
        cables: 1,
        arrangement: Arrangement::Palmtree,
        hosts: None,
    };
    let failed = [FailedLink { between: [0, 1], cable: None }, FailedLink { between: [0, 7], cable: None }];
    vec![
        dragonfly(),
        dragonfly().with_failures(&failed, &[]).unwrap(),
        DragonflyPlus::new(plus).unwrap().build(),
        torus(&[5, 4], 1),
        torus(&[4, 2], 4),
        HyperX::new(&[3, 4], 2, 1, None).unwrap().build(),
    ]
}

fn with_channels(config: NetworkConfig, topology: &Topology, routing: RoutingKind) -> NetworkConfig {
    let virtual_channels = topology.shape().virtual_channels(routing).unwrap();
    NetworkConfig { routing, virtual_channels, ..config }
}

#[test]
fn the_closed_form_holds_over_links_of_different_rates() {
    for topology in topologies() {
        for (host, switch, global) in [(10, 10, 10), (10, 20, 5), (20, 5, 10), (5, 10, 40)] {
            let mut config = with_channels(round_numbers(NetworkKind::Packet), &topology, RoutingKind::Minimal);
            config.host_link.rate = ByteRate(host * 1_000_000_000);
            config.switch_link.rate = ByteRate(switch * 1_000_000_000);
            config.global_link.rate = ByteRate(global * 1_000_000_000);
            config.global_link.latency = SimTime::from_ns(500);
            config.buffer_per_channel = Bytes(config.buffer_for_full_rate(&topology).0 + 4 * 1040);
            let last = topology.hosts() - 1;
            for (source, target) in [(0, 1), (0, last), (3, last / 2), (last, 5)] {
                for payload in [0, 1000, 5500, 64_000] {
                    let transfer = message(0, source, target, payload);
                    let mut driver = Driver::new(&config, topology.clone()).unwrap();
                    let alone = driver.zero_load(&transfer);
                    driver.start(transfer);
                    driver.run();
                    let found = times(driver.notices(), &[transfer])[0];
                    let context = format!("{}, links {host}/{switch}/{global} GB/s, {transfer:?}", topology.name());
                    assert_eq!(found[1..], [alone.head, alone.tail], "{context}");
                }
            }
        }
    }
}

#[test]
fn no_routing_locks_up_with_the_smallest_buffers() {
    for topology in topologies() {
        for &routing in RoutingKind::of(topology.shape()) {
            // Room for one packet on each channel: whoever waits, waits for everything ahead.
            let buffer_per_channel = Bytes(1040);
            let config = NetworkConfig { buffer_per_channel, ..with_channels(round_numbers(NetworkKind::Packet), &topology, routing) };
            let mut driver = Driver::new(&config, topology.clone()).unwrap();
            let mut word = 1u64;
            let hosts = topology.hosts();
            let transfers: Vec<Transfer> = (0..hosts * 12)
                .map(|id| {
                    word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let source = id % hosts;
                    let target = (source + 1 + (word >> 33) as u32 % (hosts - 1)) % hosts;
                    message(id, source, target, 6000)
                })
                .collect();
            transfers.iter().for_each(|&transfer| driver.start(transfer));
            driver.run();
            assert_eq!(driver.in_flight(), 0, "{} {routing}: everything arrives", topology.name());
        }
    }
}

/// The transpose, (x, y) to (y, x): with dimension order all packets of row y turn at (y, y), and the link into it
/// carries 7 of 8 nodes' messages (Glass and Ni, "The turn model for adaptive routing", ISCA 1992). Spread over the
/// minimal ways they take less long, and never longer ways.
#[test]
fn adaptive_minimal_ways_spread_a_transpose() {
    let mesh = TorusParameters { lengths: vec![8, 8], wrap: false, board: 1, hosts_per_switch: 1, cables: 1, hosts: None };
    let topology = Torus::new(mesh).unwrap().build();
    let pairs: Vec<(u32, u32)> = (0..64).map(|host| (host, host % 8 * 8 + host / 8)).filter(|(host, target)| host != target).collect();
    let done = |routing| {
        let config = with_channels(round_numbers(NetworkKind::Packet), &topology, routing);
        let mut driver = Driver::new(&config, topology.clone()).unwrap();
        pairs.iter().for_each(|&(host, target)| driver.start(message(host, host, target, 200_000)));
        driver.run();
        let hops: u32 = pairs.iter().map(|&(host, target)| 200 * (2 + topology.switch_links_between(host, target))).sum();
        assert_eq!(driver.statistics().packet_hops, u64::from(hops), "{routing}: minimal ways");
        driver.now().as_ps() as f64 / 1e6
    };
    let (ordered, adaptive) = (done(RoutingKind::DimensionOrder), done(RoutingKind::Adaptive));
    println!("us: dimension order {ordered}, adaptive {adaptive}");
    // 7 x 200 packets of 104 ns on one link, and a little to fill and drain.
    assert!((ordered / 145.6 - 1.0).abs() < 0.05, "expected 145.6 us, found {ordered}");
    assert!(adaptive < 0.75 * ordered, "adaptive {adaptive} us, dimension order {ordered} us");
}

#[test]
fn detours_carry_what_minimal_ways_cannot() {
    // Every node of a group to its fellow in the next: one global link for eight nodes.
    let topology = dragonfly();
    let done = |routing| {
        let config = with_channels(round_numbers(NetworkKind::Packet), &topology, routing);
        let mut driver = Driver::new(&config, topology.clone()).unwrap();
        for host in 0..72 {
            driver.start(message(host, host, (host + 8) % 72, 200_000));
        }
        driver.run();
        driver.now().as_ps() as f64 / 1e6
    };
    let [minimal, valiant, ugal_local, ugal_global, progressive] =
        [RoutingKind::Minimal, RoutingKind::Valiant, RoutingKind::UgalLocal, RoutingKind::UgalGlobal, RoutingKind::Progressive].map(done);
    println!("us: minimal {minimal}, valiant {valiant}, UGAL-L {ugal_local}, UGAL-G {ugal_global}, PAR {progressive}");
    // 8 x 200 packets of 104 ns on one link, and a little to fill and drain.
    assert!((minimal / 166.4 - 1.0).abs() < 0.03, "expected 166.4 us, found {minimal}");
    for (name, time) in [("valiant", valiant), ("ugal-l", ugal_local), ("ugal-g", ugal_global), ("par", progressive)] {
        assert!(time < 0.55 * minimal, "{name}: {time} us, minimal {minimal} us");
    }
    assert!(ugal_global < 1.05 * valiant && ugal_global < 1.05 * ugal_local);
}
