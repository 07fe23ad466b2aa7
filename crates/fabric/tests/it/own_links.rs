//! Links with a rate and a latency of their own, from graph files: times by hand, the closed form, shares, and
//! headroom.

use crate::common::{KINDS, assert_near, gigabytes_per_s, message, round_numbers, times};
use narrows_fabric::{ConfigError, FlowControl, NetworkConfig, NetworkKind, PauseConfig, Transfer, Turns};
use narrows_port::Driver;
use narrows_topology::{Topology, graph_file};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;

fn graph(text: &str) -> Topology {
    graph_file::parse("test", text, None).unwrap()
}

/// Four switches in a row, a node at either end; the link in the middle is slow and long.
fn row() -> Topology {
    graph("hosts a 1\nlink a b\nlink b c bandwidth=4GB/s latency=1us\nlink c d\nhosts d 1\n")
}

fn run(config: &NetworkConfig, topology: &Topology, transfers: &[Transfer]) -> Vec<[SimTime; 3]> {
    let virtual_channels = topology.shape().virtual_channels(config.routing).unwrap();
    let mut driver = Driver::new(&NetworkConfig { virtual_channels, ..config.clone() }, topology.clone()).unwrap();
    transfers.iter().for_each(|&transfer| driver.start(transfer));
    driver.run();
    assert_eq!(driver.in_flight(), 0, "everything arrives");
    times(driver.notices(), transfers)
}

#[test]
fn latencies_add_up_and_the_slow_link_sets_the_rate() {
    // A header: 4 ns on the first link, 200 ns to a, 150 to b, 1000 to c, 150 to d, 200 to the node, four switches of
    // 100 ns; behind the slow link, where it takes 10 ns, it waits for the 6 ns that a faster one would run dry in.
    let header = SimTime::from_ns(4 + 200 + 150 + 1000 + 150 + 200 + 4 * 100 + 6);
    // A packet of 1000 + 40 bytes: 104 ns, on the slow link 260 ns.
    let packet = Transfer { source_dma: false, target_dma: false, ..message(0, 0, 1, 1000) };
    let tail = SimTime::from_ns(200 + 150 + 1000 + 150 + 200 + 4 * 100 + 260);
    for kind in KINDS {
        let config = NetworkConfig { buffer_per_channel: Bytes(64 * 1040), ..round_numbers(kind) };
        assert_eq!(run(&config, &row(), &[message(0, 0, 1, 0)])[0], [SimTime::ZERO, header, header], "{kind:?}: a header");
        assert_eq!(run(&config, &row(), &[packet])[0][2], tail, "{kind:?}: a packet");
        // 1000 of 1040 bytes are payload. Both ways at once: a cable has a rate for each direction.
        let long = [message(0, 0, 1, 16 << 20), message(1, 1, 0, 16 << 20)];
        for [_, _, tail] in run(&config, &row(), &long) {
            assert_near(&format!("{kind:?}: 16 MiB, GB/s"), gigabytes_per_s(16 << 20, tail), 4.0 / 1.04, 0.003);
        }
    }
}

/// A packet waits once where it enters a global link, and once in all where it changes between classes.
#[test]
fn turns_between_classes_of_links_take_time() {
    // Nodes 0 to 3 at a to d: a - b within a group, b = c global, c - d within a group, d = e global, node 4.
    let topology = graph("hosts a 1\nhosts b 1\nhosts c 1\nhosts d 1\nhosts e 1\nlink a b\nlink b c global\nlink c d\nlink d e global\n");
    let turns = Turns { entry: SimTime::from_ns(230), change: SimTime::from_ns(310) };
    let links = |count: u64| 4 + 200 + 200 + 150 * count + 100 * (count + 1);
    for kind in KINDS {
        let config = NetworkConfig { turns, ..round_numbers(kind) };
        for (source, target, expected) in [
            (0, 1, links(1)),
            (1, 2, links(1) + 230),
            (0, 2, links(2) + 230 + 310),
            (2, 0, links(2) + 230 + 310),
            (0, 3, links(3) + 230 + 310),
            (0, 4, links(4) + 2 * 230 + 310),
        ] {
            let [_, _, tail] = run(&config, &topology, &[message(0, source, target, 0)])[0];
            assert_eq!(tail, SimTime::from_ns(expected), "{kind:?}: {source} to {target}");
        }
        // A stream is late by that once, and as fast as without.
        let long = message(0, 0, 4, 1 << 20);
        let [without, with] = [Turns::default(), turns]
            .map(|turns| run(&NetworkConfig { turns, buffer_per_channel: Bytes(64 * 1040), ..config.clone() }, &topology, &[long])[0][2]);
        assert_eq!(with, without + SimTime::from_ns(2 * 230 + 310), "{kind:?}");
    }
}

#[test]
fn flows_share_every_link_by_its_own_rate() {
    // Nodes 0 to 2 of a to node 3 to 5 of d, b and c between: two share the link of 3 GB/s, the third has its own of 8
    // GB/s.
    let text = "hosts a 3\nhosts d 3\nlink a b bandwidth=3GB/s\nlink b d\nlink a c bandwidth=8GB/s\nlink c d\nhosts b 1\nhosts c 1\n";
    let topology = graph(text);
    // Nodes 6 and 7 are those of b and c.
    let payload = 8 << 20;
    let transfers = [message(0, 0, 6, payload), message(1, 1, 6, payload), message(2, 2, 7, payload)];
    for kind in [NetworkKind::Packet, NetworkKind::Flow] {
        let found = run(&round_numbers(kind), &topology, &transfers);
        for (index, rate) in [(0, 1.5), (1, 1.5), (2, 8.0)] {
            let what = format!("{kind:?}: message {index}, GB/s");
            assert_near(&what, gigabytes_per_s(payload, found[index][2]), rate / 1.04, 0.005);
        }
    }
}

#[test]
fn headroom_and_buffers_are_those_of_the_worst_link() {
    let plain = graph("hosts a 1\nlink a b\nhosts b 1\n");
    let long = graph("hosts a 1\nlink a b latency=10us\nhosts b 1\n");
    let pause = PauseConfig::default();
    let config = NetworkConfig { flow_control: FlowControl::Pause(pause), ..round_numbers(NetworkKind::Packet) };
    // 10 us there and 10 us back at 10 B/ns, instead of the 200 ns of the host links.
    let [near, far] = [&plain, &long].map(|topology| config.headroom(&pause, topology).0);
    assert_eq!(far - near, 2 * (10_000 - 200) * 10);
    let error = config.check(&long).unwrap_err();
    assert!(matches!(error, ConfigError::Headroom { headroom, .. } if headroom == Bytes(far)), "{error}");
    let buffer = config.buffer_for_full_rate(&long);
    assert_eq!(buffer, Bytes((104u64 + 20_000 + 100).div_ceil(104) * 1040));
    // That much keeps the long link busy; a quarter of it does not.
    for (buffer, rate) in [(buffer.0, 10.0 / 1.04), (buffer.0 / 4, 2.5 / 1.04)] {
        let config = NetworkConfig { buffer_per_channel: Bytes(buffer), ..round_numbers(NetworkKind::Packet) };
        let tail = run(&config, &long, &[message(0, 0, 1, 64 << 20)])[0][2];
        assert_near(&format!("buffers of {buffer} B, GB/s"), gigabytes_per_s(64 << 20, tail), rate, 0.02);
    }
}

#[test]
fn rates_that_no_network_can_have_are_refused() {
    use narrows_topology::{GraphBuilder, LinkClass, LinkSpeed, Shape, Table, Vertex};
    let with = |rate, latency| {
        let mut graph = GraphBuilder::new(2, 2);
        graph.cable(Vertex::Host(0), Vertex::Switch(0));
        graph.cable(Vertex::Host(1), Vertex::Switch(1));
        graph.switch_cable(0, 1, LinkSpeed { class: LinkClass::Switch, rate, latency });
        let topology = graph.build("two".into(), Shape::Table(Table::default())).unwrap();
        round_numbers(NetworkKind::Packet).check(&topology).map(|_| ()).unwrap_err()
    };
    assert!(matches!(with(Some(ByteRate(0)), None), ConfigError::Rate { what: "rate of a single link", .. }));
    assert!(matches!(with(None, Some(SimTime::MAX)), ConfigError::Latency { what: "latency of a single link", .. }));
}

proptest! {
    /// A message alone over a row of any links: what the packet network does is the closed form.
    #[test]
    fn the_closed_form_holds_over_any_links(
        links in prop::collection::vec((1u64..40, 0u64..3000), 1..7), host in 1u64..40, pcie in 2u64..40,
        payload in prop_oneof![0u64..5000, 0u64..100_000], dma: (bool, bool), store: bool
    ) {
        let mut text = String::from("hosts s0 1\n");
        for (index, (rate, latency)) in links.iter().enumerate() {
            text += &format!("link s{index} s{} bandwidth={rate}GB/s latency={latency}ns\n", index + 1);
        }
        text += &format!("hosts s{} 1\n", links.len());
        let topology = graph(&text);
        let mut config = round_numbers(NetworkKind::Packet);
        config.host_link.rate = ByteRate(host * 1_000_000_000);
        config.pcie_rate = ByteRate(pcie * 1_000_000_000);
        if store {
            config.forwarding = narrows_fabric::Forwarding::StoreAndForward;
        }
        config.buffer_per_channel = Bytes(1 << 20);
        let transfer = Transfer { source_dma: dma.0, target_dma: dma.1, ..message(0, 0, 1, payload) };
        let alone = Driver::new(&config, topology.clone()).unwrap().zero_load(&transfer);
        let found = run(&config, &topology, &[transfer])[0];
        prop_assert_eq!([found[1], found[2]], [alone.head, alone.tail], "{}", text);
        for kind in [NetworkKind::Flow, NetworkKind::LogGp] {
            let found = run(&NetworkConfig { kind, ..config.clone() }, &topology, &[transfer])[0][2].as_ns_f64();
            prop_assert!((found / alone.tail.as_ns_f64() - 1.0).abs() < 1e-3, "{:?}: {} ns, {}", kind, found, alone.tail);
        }
    }
}
