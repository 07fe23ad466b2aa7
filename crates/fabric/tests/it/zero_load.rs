//! One message alone: times by hand, the same on all three networks.

use crate::common::{KINDS, assert_near, driver, gigabytes_per_s, message, round_numbers, run};
use narrows_fabric::{ConfigError, Derived, LogGpConfig, NetworkConfig, NetworkKind, Transfer, ZeroLoad};
use narrows_topology::FatTree;
use narrows_units::{ByteRate, Bytes, SimTime};

/// Three levels, two hosts per leaf: host 1 is one switch away from host 0, host 2 three switches, host 7 five.
fn three_levels() -> FatTree {
    FatTree::k_ary_n_tree(2, 3).unwrap()
}

#[test]
fn headers_take_the_latencies_of_their_path() {
    // Two host links of 200 ns, a switch of 100 ns, 4 ns for the 40 header bytes; each further level adds two links of
    // 150 ns and two switches of 100 ns.
    for (target, expected_ns) in [(1, 504), (2, 1004), (7, 1504)] {
        for kind in KINDS {
            let times = run(&round_numbers(kind), &three_levels(), &[message(0, 0, target, 0)]);
            let expected = SimTime::from_ns(expected_ns);
            assert_eq!(times[0], [SimTime::ZERO, expected, expected], "{kind:?}: header from 0 to {target}, expected {expected}");
        }
    }
}

#[test]
fn payload_adds_pcie_wire_and_pcie() {
    // 1000 B: 25 ns of PCIe, then 104 ns on the wire in place of 4, then 25 ns of PCIe for the second half. Each
    // further packet: 104 ns, the slowest stage. (payload, source done, head, tail) from host 0 to host 1.
    let table = [(1000, 50, 25 + 504, 25 + 604 + 25), (3000, 150, 25 + 504, 25 + 604 + 25 + 208), (100, 5, 5 + 504, 5 + 514 + 5)];
    for (payload, source, head, tail) in table {
        let expected = [source, head, tail].map(SimTime::from_ns);
        for kind in [NetworkKind::Packet, NetworkKind::LogGp] {
            let times = run(&round_numbers(kind), &three_levels(), &[message(0, 0, 1, payload)]);
            assert_eq!(times[0], expected, "{kind:?}: {payload} B by hand: {expected:?}");
        }
        // A flow reads at the pace of the narrowest stage, its rate is a whole number of bytes per second, and solving
        // takes 1 ps.
        let times = run(&round_numbers(NetworkKind::Flow), &three_levels(), &[message(0, 0, 1, payload)]);
        assert_eq!(times[0][1], expected[1]);
        assert_near("flow, tail in ns", times[0][2].as_ns_f64(), expected[2].as_ns_f64(), 1e-5);
    }
    // Without DMA there is no PCIe, and the source is done at once.
    let no_dma = Transfer { source_dma: false, target_dma: false, ..message(0, 0, 1, 1000) };
    for kind in KINDS {
        let times = run(&round_numbers(kind), &three_levels(), &[no_dma]);
        assert_eq!(times[0], [0, 504, 604].map(SimTime::from_ns), "{kind:?}: no DMA");
    }
}

#[test]
fn a_faster_link_waits_until_it_will_not_run_dry() {
    let mut config = round_numbers(NetworkKind::Packet);
    config.switch_link.rate = ByteRate(20_000_000_000);
    let no_dma = |payload| Transfer { source_dma: false, target_dma: false, ..message(0, 0, 2, payload) };
    // 104 ns in, 52 ns on the fast links: the head waits 52 ns at the first switch.
    let times = run(&config, &three_levels(), &[no_dma(1000)]);
    assert_eq!(times[0][1..], [1004 + 52, 1104 + 52].map(SimTime::from_ns));
    // Slow links between switches: the head waits at the last switch instead.
    config.switch_link.rate = ByteRate(5_000_000_000);
    let times = run(&config, &three_levels(), &[no_dma(1000)]);
    assert_eq!(times[0][1..], [1004 + 104, 1104 + 104].map(SimTime::from_ns));
}

/// Packets of 4,000 B, PCIe in packets of 500 B: what is stored and forwarded is 500 B, at both ends.
#[test]
fn pcie_is_cut_through() {
    let mut config = round_numbers(NetworkKind::Packet);
    config.mtu = Bytes(4000);
    config.buffer_per_channel = Bytes(16 * 4040);
    // (payload, PCIe at the source, PCIe at the target) in ns beside 500 ns of latency and the wire.
    for (payload, read, write) in [(100, 5, 5), (499, 25, 25), (500, 25, 25), (501, 25, 25), (3000, 25, 25), (4000, 25, 25), (8000, 25, 25)]
    {
        let wire = SimTime((payload + 40 * u64::div_ceil(payload, 4000)) * 100);
        let times = run(&config, &three_levels(), &[message(0, 0, 1, payload)])[0];
        let near = |what, found: SimTime, expected: SimTime| assert_near(what, found.as_ns_f64(), expected.as_ns_f64(), 1e-3);
        near("head, ns", times[1], SimTime::from_ns(504 + read));
        near("tail, ns", times[2], SimTime::from_ns(500 + read + write) + wire);
    }
    // A link faster than PCIe waits at the source until it will not run dry, and at the target the write is not done
    // before its own time: 4,000 B are on the wire for 40.4 ns and on PCIe for 200 ns.
    config.host_link.rate = ByteRate(100_000_000_000);
    let times = run(&config, &three_levels(), &[message(0, 0, 1, 4000)])[0].map(|at| at.as_ns_f64());
    assert_near("source done, ns", times[0], 200.0, 1e-6);
    assert_near("head, ns", times[1], 200.0 - 40.4 + 500.4, 1e-6);
    assert_near("tail, ns", times[2], 200.0 - 40.4 + 500.0 + 5.4 + 200.0, 1e-6);
}

#[test]
fn the_closed_form_is_what_the_packet_network_does() {
    for (host, switch, pcie, chunk) in
        [(10, 10, 20, 500), (10, 20, 20, 1), (20, 10, 20, 512), (10, 10, 7, 500), (25, 50, 16, 128), (25, 50, 16, 5000), (20, 10, 30, 300)]
    {
        let mut config = round_numbers(NetworkKind::Packet);
        config.pcie_packet = Bytes(chunk);
        config.host_link.rate = ByteRate(host * 1_000_000_000);
        config.switch_link.rate = ByteRate(switch * 1_000_000_000);
        config.pcie_rate = ByteRate(pcie * 1_000_000_000);
        config.buffer_per_channel = Bytes(config.buffer_for_full_rate(&three_levels().build()).0 + 4 * 1040);
        for target in [0, 1, 2, 7] {
            for payload in [0, 1, 999, 1000, 1001, 2000, 5500, 64_000, 1_000_001] {
                for (source_dma, target_dma) in [(false, false), (true, false), (false, true), (true, true)] {
                    let transfer = Transfer { source_dma, target_dma, ..message(0, 0, target, payload) };
                    let ZeroLoad { source_done, head, tail } = driver(&config, &three_levels()).zero_load(&transfer);
                    let times = run(&config, &three_levels(), &[transfer])[0];
                    let context = format!("links {host}/{switch} GB/s, PCIe {pcie} GB/s in {chunk} B, {transfer:?}");
                    assert_eq!(times, [source_done, head, tail], "{context}");
                }
            }
        }
    }
}

#[test]
fn long_messages_run_at_the_narrowest_stage() {
    let payload = 16 << 20;
    // (host link, switch link, PCIe, expected) in GB/s; links carry 1040 bytes for every 1000.
    let wire = 1000.0 / 1040.0;
    let table = [(10, 10, 20, 10.0 * wire), (10, 10, 5, 5.0), (10, 4, 20, 4.0 * wire), (40, 40, 15, 15.0)];
    for (host, switch, pcie, expected) in table {
        for kind in KINDS {
            let mut config = round_numbers(kind);
            config.host_link.rate = ByteRate(host * 1_000_000_000);
            config.switch_link.rate = ByteRate(switch * 1_000_000_000);
            config.pcie_rate = ByteRate(pcie * 1_000_000_000);
            config.buffer_per_channel = Bytes(64 * 1040);
            let times = run(&config, &three_levels(), &[message(0, 0, 7, payload)]);
            let what = format!("{kind:?}, links {host} and {switch} GB/s, PCIe {pcie} GB/s: 16 MiB in GB/s");
            assert_near(&what, gigabytes_per_s(payload, times[0][2]), expected, 0.003);
        }
    }
}

#[test]
fn buffers_below_the_round_trip_of_a_credit_limit_the_rate() {
    // Between switches a packet's credit is back after 104 + 150 + 100 + 150 = 504 ns; one buffer of one packet gives
    // 1000 B per 504 ns and link of the path (host links: 604 ns).
    let mut config = round_numbers(NetworkKind::Packet);
    config.buffer_per_channel = Bytes(1040);
    let payload = 4 << 20;
    let times = run(&config, &three_levels(), &[message(0, 0, 7, payload)]);
    assert_near("one packet per buffer: GB/s", gigabytes_per_s(payload, times[0][2]), 1000.0 / 604.0, 0.01);
    config.buffer_per_channel = config.buffer_for_full_rate(&three_levels().build());
    assert_eq!(config.buffer_per_channel, Bytes(6 * 1040), "604 ns are 5.8 packets");
    let times = run(&config, &three_levels(), &[message(0, 0, 7, payload)]);
    assert_near("buffers as advised: GB/s", gigabytes_per_s(payload, times[0][2]), 10.0 / 1.04, 0.01);
}

#[test]
fn one_message_takes_the_same_time_on_all_networks() {
    for config in [NetworkConfig::default(), round_numbers(NetworkKind::Packet)] {
        for target in [1, 2, 7] {
            for payload in [0, 8, 1000, 4096, 65_536, 1 << 20, 16 << 20] {
                let tail = KINDS.map(|kind| {
                    run(&NetworkConfig { kind, ..config.clone() }, &three_levels(), &[message(0, 0, target, payload)])[0][2].as_ns_f64()
                });
                assert_near(&format!("flow against packet, {payload} B to {target}, ns"), tail[1], tail[0], 1e-4);
                assert_near(&format!("loggp against packet, {payload} B to {target}, ns"), tail[2], tail[0], 1e-4);
            }
        }
    }
}

#[test]
fn ranks_of_one_node_use_neither_nic_nor_pcie() {
    // 300 ns, 5 GB/s: 10 kB take 2 us; the second message waits for the first copy.
    for kind in KINDS {
        let times = run(&round_numbers(kind), &three_levels(), &[message(0, 3, 3, 10_000), message(1, 3, 3, 10_000), message(2, 2, 3, 0)]);
        assert_eq!(times[0], [2000, 300, 2300].map(SimTime::from_ns), "{kind:?}");
        assert_eq!(times[1], [4000, 2300, 4300].map(SimTime::from_ns), "{kind:?}: second in line");
        assert_eq!(times[2][2], SimTime::from_ns(504), "{kind:?}: the NIC path is free");
    }
}

#[test]
fn fixed_loggp_parameters_are_taken_as_they_are() {
    let mut config = round_numbers(NetworkKind::LogGp);
    config.loggp = LogGpConfig {
        latency: Derived::Fixed(SimTime::from_ns(1300)),
        gap: SimTime::from_ns(250),
        rate: Derived::Fixed(ByteRate(2_000_000_000)),
    };
    // 1000 B at 2 GB/s are 500 ns. Three headers from one NIC leave 250 ns apart; so do arrivals.
    let long = run(&config, &three_levels(), &[message(0, 0, 7, 1000)]);
    assert_eq!(long[0], [500, 1300, 1800].map(SimTime::from_ns));
    let headers = run(&config, &three_levels(), &[message(0, 0, 7, 0), message(1, 0, 6, 0), message(2, 0, 5, 0)]);
    assert_eq!([headers[0][1], headers[1][1], headers[2][1]], [1300, 1550, 1800].map(SimTime::from_ns));
    let fan_in = run(&config, &three_levels(), &[message(0, 1, 0, 0), message(1, 2, 0, 0), message(2, 3, 0, 0)]);
    assert_eq!([fan_in[0][2], fan_in[1][2], fan_in[2][2]], [1300, 1550, 1800].map(SimTime::from_ns));
}

#[test]
fn refuses_configurations_that_make_no_network() {
    let refused = |change: fn(&mut NetworkConfig)| {
        let mut config = round_numbers(NetworkKind::Packet);
        change(&mut config);
        narrows_port::Driver::new(&config, three_levels().build()).map(|_| ()).unwrap_err()
    };
    assert!(matches!(refused(|c| c.pcie_rate = ByteRate(0)), ConfigError::Rate { what: "pcie_rate", .. }));
    assert!(matches!(refused(|c| c.host_link.rate = ByteRate(u64::MAX)), ConfigError::Rate { what: "host_link rate", .. }));
    assert!(matches!(refused(|c| c.mtu = Bytes(0)), ConfigError::Packet { .. }));
    assert!(matches!(refused(|c| c.mtu = Bytes(u64::MAX)), ConfigError::Packet { .. }));
    assert!(matches!(refused(|c| c.buffer_per_channel = Bytes(1039)), ConfigError::Buffer { packet: Bytes(1040), .. }));
    assert!(matches!(refused(|c| c.virtual_networks = 0), ConfigError::VirtualNetworks { given: 0 }));
    assert!(matches!(refused(|c| c.virtual_channels = 0), ConfigError::VirtualChannels { given: 0, needed: 1 }));
    assert!(matches!(refused(|c| c.virtual_channels = 17), ConfigError::VirtualChannels { .. }));
    assert!(matches!(refused(|c| c.read_window = 0), ConfigError::ReadWindow));
    assert!(matches!(refused(|c| c.switch_latency = SimTime::MAX), ConfigError::Latency { .. }));
    let text = refused(|c| c.buffer_per_channel = Bytes(1)).to_string();
    assert_eq!(text, "buffer_per_channel is 1 B; a packet of 1040 B must fit");
}
