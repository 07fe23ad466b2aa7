//! The models take what machine files give them.

use narrows_fabric::{Arbitration, Derived, FlowControl, Forwarding, PauseConfig, Queueing};
use narrows_machine::{Machine, Overrides, PRESETS, RoutingKind};
use narrows_port::Driver;
use narrows_units::{ByteRate, Bytes, SimTime};

fn load(name: &str, set: &[&str]) -> Machine {
    let overrides = Overrides { nodes: None, set: set.iter().map(|set| (*set).to_owned()).collect() };
    Machine::load(name, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// InfiniBand QDR has a queue per output and lane at its inputs, as Mellanox's own model of its switch; and so has BXI
/// v3.
#[test]
fn switches_queue_as_their_sources_say() {
    let queueing = |name| load(name, &[]).network_config(0).queueing;
    assert_eq!([queueing("ib-qdr"), queueing("bxi-v3")], [Queueing::VirtualOutput; 2]);
}

/// RED-SEA D1.4 section 2.1: 400 Gb/s and 220 M packets per second, so 227 B on the wire are as fast as the NIC; 2.2:
/// ordered and unordered flows, both check sums.
#[test]
fn the_nic_of_bxi_v3_has_a_packet_rate_and_flows_of_two_kinds() {
    let config = load("bxi-v3", &[]).network_config(0);
    assert_eq!(config.packet_gap, "4545 ps".parse().unwrap());
    assert_eq!(config.host_link.rate.time_for(narrows_units::Bytes(227)), "4540 ps".parse().unwrap());
    assert_eq!((config.reliability, load("bxi-v2", &[]).network_config(0).packet_gap), (None, narrows_units::SimTime::ZERO));
    let reliability = load("bxi-v3-reliable", &[]).network_config(0).reliability.unwrap();
    use narrows_fabric::Delivery::{Ordered, Unordered};
    assert_eq!([0, 1, 2, 3].map(|network| reliability.delivery_in(network)), [Ordered, Unordered, Ordered, Unordered]);
    assert_eq!((reliability.checks, reliability.flows), (narrows_fabric::Checks { fcs: 32, crc: 32 }, 4096));
    let weak = load("bxi-v3-reliable", &["network.reliability.crc=0", "network.reliability.fcs=8", "nic.packet_rate=0"]).network_config(0);
    assert_eq!(weak.reliability.unwrap().checks, narrows_fabric::Checks { fcs: 8, crc: 0 });
    assert_eq!(weak.packet_gap, narrows_units::SimTime::ZERO);
}

#[test]
fn every_preset_makes_all_three_networks() {
    for preset in PRESETS {
        let machine = load(preset.name, &[]);
        let topology = machine.topology().unwrap();
        assert_eq!(topology.hosts(), machine.addresses().count());
        // The largest take seconds in a test build; their routings are those of the small ones.
        if topology.switches() > 1_000 {
            continue;
        }
        for kind in ["packet", "flow", "loggp"] {
            for &routing in RoutingKind::of(topology.shape()) {
                let channels = topology.shape().virtual_channels(routing).unwrap();
                let set = [format!("network.kind={kind}"), format!("routing={routing}"), format!("network.virtual_channels={channels}")];
                let machine = load(preset.name, &set.each_ref().map(String::as_str));
                // Making the packet network checks the graph of channel dependencies.
                if let Err(error) = Driver::new(&machine.network_config(1), topology.clone()) {
                    panic!("{} {kind} {routing}: {error}", preset.name);
                }
            }
        }
    }
}

#[test]
fn named_machines_have_the_counts_of_fact_sheet_2_1() {
    // (name, hosts, switches, radix, cables between switches)
    for (name, expected) in [
        ("8-ary-2-tree", (64, 16, 16, 64)),
        ("fattree-256", (256, 32, 32, 256)),
        ("fattree-16k", (16_384, 1_280, 64, 32_768)),
        ("dragonfly-342", (342, 114, 11, 19 * 15 + 171)),
        ("megafly-288", (288, 72, 16, 9 * 32 + 36 * 4)),
        ("dragonfly-114k", (114_582, 8_814, 51, 339 * 325 + 57_291)),
    ] {
        let counts = load(name, &[]).topology().unwrap().counts();
        assert_eq!((counts.hosts, counts.switches, counts.radix, counts.switch_cables), expected, "{name}");
    }
    let tree = Machine::load("bxi-v3", &Overrides { nodes: Some(1024), set: vec![] }).unwrap().topology().unwrap();
    assert_eq!((tree.hosts(), tree.switches(), tree.diameter()), (1024, 24, 4), "16 leaves of 64 nodes, 8 spines");
}

#[test]
fn each_value_arrives_where_it_belongs() {
    let machine = load(
        "bxi-v2",
        &[
            "link.host.latency=1ns",
            "link.switch.latency=2ns",
            "switch.latency=3ns",
            "node.intra.latency=4ns",
            "link.host.bandwidth=1GB/s",
            "link.switch.bandwidth=2GB/s",
            "node.pcie.data_bandwidth=3GB/s",
            "node.intra.bandwidth=4GB/s",
            "network.mtu=100B",
            "network.header=10B",
            "network.buffer=1000B",
            "network.virtual_channels=3",
            "network.read_window=5",
            "network.loggp.latency=6ns",
            "network.loggp.gap=7ns",
            "network.flow.direct_limit=8B",
            "node.pcie.latency=9ns",
            "node.pcie.bandwidth=9GB/s",
            "message.eager_limit=11B",
            "message.inject_limit=10B",
            "message.rendezvous=put",
        ],
    );
    let network = machine.network_config(42);
    let ns = SimTime::from_ns;
    let gb = |rate: u64| ByteRate(rate * 1_000_000_000);
    assert_eq!((network.host_link.latency, network.switch_link.latency, network.switch_latency), (ns(1), ns(2), ns(3)));
    assert_eq!((network.intra_node.latency, network.intra_node.rate), (ns(4), gb(4)));
    assert_eq!((network.host_link.rate, network.switch_link.rate, network.pcie_rate), (gb(1), gb(2), gb(3)));
    assert_eq!((network.mtu, network.header, network.buffer_per_channel), (Bytes(100), Bytes(10), Bytes(1000)));
    assert_eq!((network.virtual_channels, network.read_window, network.seed), (3, 5, 42));
    assert_eq!((network.loggp.latency, network.loggp.gap, network.loggp.rate), (Derived::Fixed(ns(6)), ns(7), Derived::FromPath));
    assert_eq!(network.flow.direct_up_to, Bytes(8));
    let nic = machine.nic_config().portals().clone();
    assert_eq!((nic.pcie_latency, nic.pcie_rate), (ns(9), gb(9)), "commands and events go at the full rate of PCIe");
    let message = machine.message_config(narrows_message::Rails::default());
    assert_eq!((message.eager_limit, message.inject_limit, message.rendezvous), (11, 10, narrows_message::Rendezvous::Put));
}

#[test]
fn the_preset_is_the_nic_that_the_model_documents() {
    assert_eq!(load("bxi-v2", &[]).nic_config(), narrows_nic::NicConfig::bxi_v2().into());
}

#[test]
fn switches_reach_the_network() {
    let set = [
        "switch.forwarding=store-and-forward",
        "switch.queueing=fifo",
        "switch.speedup=2",
        "switch.arbitration=weighted-bytes",
        "switch.weights=[1, 2]",
        "switch.strict_priority=[3]",
        "network.flow_control=pfc",
        "network.buffer=1MiB",
        "network.pfc.xoff=900KiB",
        "network.pfc.quanta=7",
        "network.pfc.response=8ns",
        "network.pfc.frame=9B",
        "network.pfc.resend_after=10us",
    ];
    let network = load("bxi-v2", &set).network_config(0);
    assert_eq!((network.forwarding, network.queueing, network.speedup), (Forwarding::StoreAndForward, Queueing::Fifo, 2));
    assert_eq!((network.arbitration, network.strict_priority), (Arbitration::WeightedBytes(vec![1, 2]), 8));
    let pause = PauseConfig {
        xoff: Bytes(900 << 10),
        xon: Bytes(0),
        quanta: 7,
        frame: Bytes(9),
        response: SimTime::from_ns(8),
        resend_after: SimTime::from_us(10),
    };
    assert_eq!(network.flow_control, FlowControl::Pause(pause));
    assert_eq!(load("bxi-v2", &set).warnings(), Vec::<String>::new());
    let warnings = load("bxi-v2", &["network.flow_control=pfc", "network.pfc.xoff=30KiB"]).warnings();
    assert!(warnings[0].starts_with("buffers lack ") && warnings.len() == 1, "{warnings:?}");
    let warnings = load("bxi-v2", &["link.host.bandwidth=50GB/s"]).warnings();
    assert!(warnings[0].starts_with("link.host.bandwidth = 50 GB/s is above node.pcie.data_bandwidth = 11.11 GB/s: "), "{warnings:?}");
    // One packet of 4,128 bytes takes 372 ns, and its credit is back 400 ns later.
    let warnings = load("bxi-v2", &["network.buffer=4128B"]).warnings();
    assert!(warnings[0].contains(" link.host (11.1 GB/s, 200 ns) carry 48 % of their rate"), "{warnings:?}");
    for preset in PRESETS {
        assert_eq!(load(preset.name, &[]).warnings(), Vec::<String>::new(), "{}", preset.name);
    }
    let default = load("bxi-v2", &[]).network_config(0);
    assert_eq!((default.arbitration, default.flow_control), (Arbitration::RoundRobin, FlowControl::Credits));
}

/// Latency and rate of a coded link are sums over the stages of docs/phy.md, and what it loses follows the formula.
#[test]
fn a_physical_layer_gives_links_their_latency_overhead_and_losses() {
    let plain = load("bxi-v3", &[]).network_config(0);
    let delivery = "network.reliability.delivery=unordered";
    let coded = load("bxi-v3", &["link.phy=100gbase-sr4", "link.ber=3e-4", delivery]).network_config(0);
    for (with, without) in [(coded.host_link, plain.host_link), (coded.global_link, plain.global_link)] {
        // 89.8 ns of docs/phy.md; 100 Gb/s less the markers, which are a block in 16384.
        assert!((with.latency - without.latency).as_ps().abs_diff(89_800) < 100, "{}", with.latency);
        assert!(with.rate.0.abs_diff(12_500_000_000 * 16_383 / 16_384) < 1_000, "{}", with.rate);
    }
    assert_eq!(coded.header.0 - plain.header.0, 24);
    let [fault] = coded.faults[..] else { panic!("one fault") };
    let longest = (coded.packet().0 - 20) as usize;
    for frame in [64, longest / 2, longest] {
        let expected = narrows_phy::loss::frame(3e-4, frame);
        let wire = (frame + 20) as f64;
        let loss = fault.loss.value() + fault.loss_per_byte.value() * wire;
        assert!((loss / expected - 1.0).abs() < 0.01, "{frame} B: {loss}, expected {expected}");
    }
    let said = |set: &[&str]| {
        let overrides = Overrides { nodes: None, set: set.iter().map(|set| (*set).to_owned()).collect() };
        Machine::load("bxi-v3", &overrides).unwrap_err().to_string()
    };
    assert!(said(&["link.ber=1e-4"]).contains("links have no physical layer"));
    assert!(said(&["link.phy=100gbase-sr4", "link.ber=1e-4"]).contains("ports do not send them again"));
    assert!(said(&["link.phy=100gbase-sr4", "link.ber=0.2", delivery]).contains("expected 0 to 0.1"));
}

#[test]
fn the_oldest_packet_goes_first_in_a_torus_unless_the_machine_says_otherwise() {
    let torus =
        ["node.count=64", "topology.kind=torus", "topology.lengths=[8,8]", "network.routing=dimension-order", "network.virtual_channels=2"];
    let arbitration = |set: &[&str]| load("bxi-v2", set).network_config(0).arbitration;
    assert_eq!(arbitration(&torus), Arbitration::Age);
    for given in ["round-robin", "output"] {
        assert_eq!(arbitration(&[&torus[..], &[&format!("switch.arbitration={given}")]].concat()), Arbitration::RoundRobin);
    }
    assert_eq!(arbitration(&[]), Arbitration::RoundRobin);
}

#[test]
fn arbitration_may_name_its_iterations() {
    let of = |set: &[&str]| load("bxi-v2", set).network_config(0).arbitration;
    assert_eq!(of(&["switch.arbitration=islip:3"]), of(&["switch.arbitration=islip", "switch.iterations=3"]));
    assert_eq!(of(&["arbitration=\"islip:3\""]), narrows_fabric::Arbitration::Islip(3));
    assert_eq!(of(&["switch.arbitration=output"]), of(&["switch.arbitration=round-robin"]));
    for (text, expected) in [("islip:99", "expected a whole number from 1 to 16"), ("islip:x", "expected one of")] {
        let set = vec![format!("switch.arbitration={text}")];
        let error = Machine::load("bxi-v2", &Overrides { nodes: None, set }).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
