//! A tree that comes as a graph carries what the generated tree carries.

use narrows_study::{MachineSpec, Messages, Silent, TrafficSpec};
use narrows_traffic::Class;
use narrows_units::SimTime;
use std::fmt::Write;

const LEAVES: u32 = 4;
const SPINES: u32 = 2;
const HOSTS: u32 = 24;
const CABLES: u32 = 6;

/// What of this load arrives, and the 99th percentile of the latency of packets, ns.
fn uniform(load: f64, set: &[String]) -> (f64, u64) {
    let mut machine = MachineSpec::named("ib-ndr");
    machine.overrides.nodes = Some(LEAVES * HOSTS);
    machine.overrides.set = set.to_vec();
    machine.overrides.set.extend(["link.host.bandwidth=100 Gbit/s".to_owned(), "link.switch.bandwidth=100 Gbit/s".to_owned()]);
    let classes = vec![Class::new("", "uniform".parse().unwrap())];
    let spec = TrafficSpec {
        loads: Some(vec![load]),
        warmup: Some(SimTime::from_us(50)),
        time: Some(SimTime::from_us(100)),
        ..TrafficSpec::new(machine, Messages::Classes(classes))
    };
    let outcome = spec.run(&Silent).unwrap();
    let point = &outcome.points[0];
    (point.accepted, point.latency().percentile(99.0).unwrap())
}

/// Leaves and spines with parallel cables; one of them has the rate `slow`.
fn graph(folder: &std::path::Path, slow: &str) -> Vec<String> {
    let mut text = String::new();
    for host in 0..LEAVES * HOSTS {
        let _ = writeln!(text, "host n{host} leaf{}", host / HOSTS);
    }
    for (leaf, spine) in (0..LEAVES).flat_map(|leaf| (0..SPINES).map(move |spine| (leaf, spine))) {
        let others = if (leaf, spine) == (1, 1) { CABLES - 1 } else { CABLES };
        if others < CABLES {
            let _ = writeln!(text, "link leaf{leaf} spine{spine} bandwidth={slow}");
        }
        let _ = writeln!(text, "link leaf{leaf} spine{spine} x{others} bandwidth=100Gbit/s");
    }
    let path = folder.join("tree.graph");
    std::fs::write(&path, text).unwrap();
    vec!["network.routing=table".to_owned(), "topology.kind=file".to_owned(), format!("topology.path={}", path.display())]
}

#[test]
fn a_tree_as_a_graph_saturates_as_the_generated_one() {
    let folder = tempfile::tempdir().unwrap();
    let tree = ["kind=spine-leaf".to_owned(), format!("leaves={LEAVES}"), format!("spines={SPINES}"), format!("hosts_per_switch={HOSTS}")];
    let tree: Vec<String> = tree.into_iter().chain([format!("cables={CABLES}")]).map(|key| format!("topology.{key}")).collect();
    let whole = graph(folder.path(), "100Gbit/s");
    // 72 of 95 packets leave their leaf, over 12 cables for 24 hosts: 0.66 fits, less what unequal cables lose.
    let (of_tree, of_graph) = (uniform(0.9, &tree).0, uniform(0.9, &whole).0);
    assert!((of_graph / of_tree - 1.0).abs() < 0.05, "the tree takes {of_tree}, the graph {of_graph}");
    assert!(of_graph > 0.55, "{of_graph}");
    let adaptive: Vec<String> = ["network.routing=adaptive".to_owned()].into_iter().chain(whole.iter().skip(1).cloned()).collect();
    assert!(uniform(0.9, &adaptive).0 > of_graph);
    // One cable of 48 with a sixth of the rate: three of a hundred packets take it.
    let (sound, degraded) = (uniform(0.1, &whole), uniform(0.1, &graph(folder.path(), "16Gbit/s")));
    assert!((sound.0 / degraded.0 - 1.0).abs() < 0.01, "{sound:?} {degraded:?}");
    assert!(degraded.1 > sound.1 * 3 / 2, "{sound:?} {degraded:?}");
}
