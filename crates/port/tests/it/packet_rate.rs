//! A NIC sends so many packets per second at most: the knee between packet rate and bandwidth.

use narrows_fabric::{Checks, Congestion, Delivery, LinkConfig, NetworkConfig, NetworkKind, Notice, Reliability, Transfer, TransferId};
use narrows_port::Driver;
use narrows_topology::{FatTree, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// BXI v3 (RED-SEA D1.4 section 2.1): 400 Gb/s and 220 M packets per second, so a knee at 227 B on the wire.
const RATE: ByteRate = ByteRate(50_000_000_000);
const GAP: SimTime = SimTime(4545);
const KNEE: u64 = 227;
/// All that a packet has on the wire beside its payload.
const HEADER: u64 = 70;
/// Payload on both sides of the knee, 227 - 70 = 157 the last one below it.
const SIZES: [u64; 10] = [0, 1, 8, 64, 128, 156, 157, 158, 256, 2048];

fn tree() -> Topology {
    FatTree::k_ary_n_tree(4, 2).unwrap().build()
}

fn config(mtu: u64) -> NetworkConfig {
    let link = LinkConfig { rate: RATE, latency: SimTime::from_ns(100) };
    NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        mtu: Bytes(mtu),
        header: Bytes(HEADER),
        packet_gap: GAP,
        pcie_rate: ByteRate(500_000_000_000),
        buffer_per_channel: Bytes(64 << 10),
        ..NetworkConfig::default()
    }
}

fn transfer(id: u32, target: u32, virtual_network: u8, payload: u64) -> Transfer {
    Transfer {
        id: TransferId(id),
        source: 0,
        target,
        virtual_network,
        payload: Bytes(payload),
        source_dma: false,
        target_dma: false,
        route: 0,
    }
}

/// When the last of these is there.
fn end(config: &NetworkConfig, transfers: impl IntoIterator<Item = Transfer>) -> SimTime {
    let mut network = Driver::new(config, tree()).unwrap();
    transfers.into_iter().for_each(|transfer| network.start(transfer));
    network.run();
    network.audit().unwrap();
    let tails = network.notices().iter().filter(|(_, notice)| matches!(notice, Notice::TailArrived(_)));
    tails.map(|&(at, _)| at).max().unwrap()
}

/// From the start of a packet of so much payload to that of the next one.
fn interval(payload: u64) -> SimTime {
    RATE.time_for(Bytes(payload + HEADER)).max(GAP)
}

#[test]
fn the_knee_is_where_the_wire_takes_as_long_as_the_nic() {
    assert!(RATE.time_for(Bytes(KNEE)) < GAP && RATE.time_for(Bytes(KNEE + 1)) > GAP);
    assert_eq!((interval(KNEE - HEADER), interval(KNEE - HEADER + 1)), (GAP, RATE.time_for(Bytes(KNEE + 1))));
}

/// n messages of one packet end n - 1 intervals after a single one, to the picosecond, wherever they go and in
/// whichever virtual networks.
#[test]
fn messages_of_one_packet() {
    for payload in SIZES {
        let one = end(&config(2048), [transfer(0, 9, 0, payload)]);
        let to_one = end(&config(2048), (0..100).map(|id| transfer(id, 9, 0, payload)));
        assert_eq!(to_one, one + interval(payload) * 99, "{payload} B");
        let to_all = end(&config(2048), (0..100).map(|id| transfer(id, 4 + id % 12, (id % 4) as u8, payload)));
        assert_eq!(to_all, one + interval(payload) * 99, "{payload} B, in all virtual networks");
    }
}

/// The same of a long message that is cut into such packets, on all three networks.
#[test]
fn long_messages_of_small_packets() {
    for mtu in SIZES.into_iter().filter(|&mtu| mtu > 0) {
        for kind in [NetworkKind::Packet, NetworkKind::Flow, NetworkKind::LogGp] {
            let config = NetworkConfig { kind, ..config(mtu) };
            let config = NetworkConfig { flow: narrows_fabric::FlowConfig { direct_up_to: Bytes(0) }, ..config };
            let one = end(&config, [transfer(0, 9, 0, mtu)]);
            let long = end(&config, [transfer(0, 9, 0, 1000 * mtu)]);
            let expected = one + interval(mtu) * 999;
            let error = long.as_ps().abs_diff(expected.as_ps()) as f64 / expected.as_ps() as f64;
            // A flow has a rate in whole bytes per second.
            let most = if kind == NetworkKind::Flow { 1e-5 } else { 0.0 };
            assert!(error <= most, "{kind:?}, packets of {mtu} B: {long}, expected {expected}");
        }
    }
}

/// A small packet behind a large one waits for the wire, a large one behind a small one for the NIC.
#[test]
fn packets_of_several_sizes() {
    let one = end(&config(2048), [transfer(0, 9, 0, 8)]);
    let mixed = (0..50).map(|id| transfer(id, 9, 0, if id % 2 == 0 { 2048 } else { 8 }));
    assert_eq!(end(&config(2048), mixed), one + interval(2048) * 25 + interval(8) * 24);
}

/// Acknowledgements are packets, too: a NIC that gets as many packets as it sends has half of the rate for data.
#[test]
fn acknowledgements_count() {
    let reliability = Reliability {
        window: 1 << 15,
        room: 0,
        timeout: SimTime::from_us(1000),
        retries: 0,
        ack: Bytes(84),
        delivery: Delivery::Unordered,
        unordered: 0,
        flows: 0,
        checks: Checks::default(),
        congestion: Congestion::None,
    };
    let config = NetworkConfig { reliability: Some(reliability), ..config(2048) };
    let both = |id| [transfer(id, 9, 0, 8), Transfer { source: 9, target: 0, ..transfer(id, 0, 0, 8) }];
    let (one, many) = (end(&config, both(0)), end(&config, (0..1000).flat_map(both)));
    let packets = (many - one).as_ps() as f64 / GAP.as_ps() as f64;
    // Acknowledgements go first; those of the last packets go alone.
    assert!((1900.0..=1998.0).contains(&packets), "{packets} packets of 8 B in the time of 999 and as many acknowledgements");
}

/// Nothing of this is there without a limit.
#[test]
fn without_a_limit_the_wire_is_all() {
    let config = NetworkConfig { packet_gap: SimTime::ZERO, ..config(2048) };
    let one = end(&config, [transfer(0, 9, 0, 8)]);
    assert_eq!(end(&config, (0..100).map(|id| transfer(id, 9, 0, 8))), one + RATE.time_for(Bytes(78)) * 99);
    let slow = NetworkConfig { packet_gap: SimTime::from_us(1_000_001), ..config };
    assert_eq!(
        slow.check(&tree()).unwrap_err().to_string(),
        format!("packet_gap is {}; expected at most 1 s", SimTime::from_us(1_000_001))
    );
}
