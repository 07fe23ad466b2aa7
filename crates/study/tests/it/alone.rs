//! One message alone takes the same time on all three networks, on every preset.

use narrows_machine::Machine;
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, ReplaySpec, Silent};
use narrows_units::SimTime;
use std::path::Path;

/// Below and above the limits of eager messages, blocks and packets.
const SIZES: [u64; 9] = [0, 1, 64, 1000, 5000, 100_000, 300_000, 1 << 22, 1 << 24];

/// How long a message of `bytes` takes from the first node to node `to`.
fn alone(folder: &Path, machine: &str, network: &str, to: u32, bytes: u64) -> SimTime {
    let trace = folder.join("alone.jsonl");
    let lines = [
        r#"{"narrows_trace":1,"ranks":2,"order":"sequential"}"#.to_owned(),
        format!(r#"{{"rank":0,"op":"send","to":1,"bytes":{bytes},"tag":0}}"#),
        format!(r#"{{"rank":1,"op":"recv","from":0,"bytes":{bytes},"tag":0}}"#),
    ];
    std::fs::write(&trace, lines.join("\n")).unwrap();
    let places = folder.join("places.txt");
    std::fs::write(&places, format!("0\n{to}\n")).unwrap();
    let mut machine = MachineSpec::named(machine);
    machine.overrides.set = vec![format!("network.kind={network}")];
    let mapping = places.to_str().unwrap().to_owned();
    let target = Target::Machine { machine, ppn: Some(1), mapping, period: None, background: Vec::new() };
    let spec = ReplaySpec {
        sources: vec![Source::File(trace)],
        target,
        scales: Vec::new(),
        seed: 1,
        collectives: None,
        threads: 1,
        timeline: None,
        processes: None,
    };
    let outcome = spec.run(&Silent).unwrap();
    assert_eq!(outcome.replay.failure, None);
    outcome.replay.finish
}

#[test]
fn one_message_takes_the_same_time_on_all_networks_of_every_preset() {
    let folder = tempfile::tempdir().unwrap();
    let mut apart = Vec::new();
    for name in narrows_machine::PRESETS.iter().map(|preset| preset.name) {
        let nodes = Machine::load(name, &Default::default()).unwrap().node.count;
        // Large machines take seconds to build.
        let sizes = if nodes > 1000 { &[300_000][..] } else { &SIZES };
        for to in [1, nodes - 1] {
            for &bytes in sizes {
                let times = ["packet", "flow", "loggp"].map(|network| alone(folder.path(), name, network, to, bytes));
                let [packet, others @ ..] = times.map(SimTime::as_ns_f64);
                if others.iter().any(|other| (other / packet - 1.0).abs() > 0.01) {
                    apart.push(format!("{name}, {bytes} B to node {to}: {times:?}"));
                }
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
