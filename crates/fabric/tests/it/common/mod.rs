//! A network with round numbers, and shorthands.

#![allow(clippy::print_stdout)]

use narrows_fabric::{IntraNodeConfig, LinkConfig, NetworkConfig, NetworkKind, Notice, Transfer, TransferId};
use narrows_port::Driver;
use narrows_topology::FatTree;
use narrows_units::{ByteRate, Bytes, SimTime};

pub const KINDS: [NetworkKind; 3] = [NetworkKind::Packet, NetworkKind::Flow, NetworkKind::LogGp];

/// Host links 10 GB/s and 200 ns, switch links 10 GB/s and 150 ns, switches 100 ns, PCIe 20 GB/s, packets of 1000 + 40
/// bytes: a full packet takes 104 ns on a link and 50 ns on PCIe, a header 4 ns. Half of a packet is one of PCIe.
pub fn round_numbers(kind: NetworkKind) -> NetworkConfig {
    NetworkConfig {
        kind,
        host_link: LinkConfig { rate: ByteRate(10_000_000_000), latency: SimTime::from_ns(200) },
        switch_link: LinkConfig { rate: ByteRate(10_000_000_000), latency: SimTime::from_ns(150) },
        global_link: LinkConfig { rate: ByteRate(10_000_000_000), latency: SimTime::from_ns(150) },
        switch_latency: SimTime::from_ns(100),
        pcie_rate: ByteRate(20_000_000_000),
        pcie_packet: Bytes(500),
        mtu: Bytes(1000),
        header: Bytes(40),
        buffer_per_channel: Bytes(16 * 1040),
        intra_node: IntraNodeConfig { latency: SimTime::from_ns(300), rate: ByteRate(5_000_000_000) },
        ..NetworkConfig::default()
    }
}

pub fn message(id: u32, source: u32, target: u32, payload: u64) -> Transfer {
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

pub fn driver(config: &NetworkConfig, tree: &FatTree) -> Driver {
    Driver::new(config, tree.clone().build()).unwrap()
}

/// Starts all at time zero, runs to the end, and gives the times of (source done, head, tail) by transfer.
pub fn run(config: &NetworkConfig, tree: &FatTree, transfers: &[Transfer]) -> Vec<[SimTime; 3]> {
    let mut driver = driver(config, tree);
    for &transfer in transfers {
        driver.start(transfer);
    }
    driver.run();
    assert_eq!(driver.in_flight(), 0, "everything arrives");
    times(driver.notices(), transfers)
}

pub fn times(notices: &[(SimTime, Notice)], transfers: &[Transfer]) -> Vec<[SimTime; 3]> {
    let mut times = vec![[SimTime::MAX; 3]; transfers.len()];
    for &(at, notice) in notices {
        let (kind, id) = match notice {
            Notice::SourceDone(id) => (0, id),
            Notice::HeadArrived(id) => (1, id),
            Notice::TailArrived(id) => (2, id),
        };
        let index = transfers.iter().position(|transfer| transfer.id == id).unwrap();
        assert_eq!(times[index][kind], SimTime::MAX, "{notice:?} came twice");
        times[index][kind] = at;
    }
    times
}

/// Payload bytes per nanosecond of a message that took `time`, which is GB/s.
pub fn gigabytes_per_s(payload: u64, time: SimTime) -> f64 {
    payload as f64 / time.as_ns_f64()
}

#[track_caller]
pub fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let difference = measured / expected - 1.0;
    println!("{what}: expected {expected:.6}, measured {measured:.6} ({:+.3} %)", difference * 100.0);
    assert!(
        difference.abs() <= tolerance,
        "{what}: expected {expected}, measured {measured}, {:.3} % apart; at most {:.3} %",
        difference * 100.0,
        tolerance * 100.0
    );
}
