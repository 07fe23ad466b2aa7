//! Processors beside the host's: placement, computing, costs of the software, energy, and what is said of them.

use narrows_machine::Machine;
use narrows_study::replay::{ReplayOutcome, Source, Target};
use narrows_study::{MachineSpec, ReplaySpec, Silent, TimelineSpec};
use narrows_timeline::Window;
use narrows_units::SimTime;
use std::fmt::Write;
use std::path::Path;

const TURNS: u64 = 10;
const WORK: SimTime = SimTime::from_us(3);

/// Two ranks, there and back; rank 1 computes before it answers.
fn pingpong(folder: &Path) -> Source {
    let mut text = String::from("{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}\n");
    for _ in 0..TURNS {
        let _ = writeln!(text, "{{\"rank\":0,\"op\":\"send\",\"to\":1,\"bytes\":8,\"tag\":0}}");
        let _ = writeln!(text, "{{\"rank\":0,\"op\":\"recv\",\"from\":1,\"bytes\":8,\"tag\":0}}");
        let _ = writeln!(text, "{{\"rank\":1,\"op\":\"recv\",\"from\":0,\"bytes\":8,\"tag\":0}}");
        let _ = writeln!(text, "{{\"rank\":1,\"op\":\"compute\",\"ps\":{}}}", WORK.as_ps());
        let _ = writeln!(text, "{{\"rank\":1,\"op\":\"send\",\"to\":0,\"bytes\":8,\"tag\":0}}");
    }
    let path = folder.join("pingpong.jsonl");
    std::fs::write(&path, text).unwrap();
    Source::File(path)
}

/// On nodes with a DPU each.
fn replay(folder: &Path, mapping: &str, sources: Vec<Source>, set: &[&str]) -> ReplayOutcome {
    let set = ["node.count=2", "node.processors=[\"dpu\"]", "processor.dpu.cores=4"].iter().chain(set).map(|&key| key.to_owned()).collect();
    let mut machine = MachineSpec::named("bxi-v2");
    machine.overrides.set = set;
    let target = Target::Machine { machine, ppn: None, mapping: mapping.to_owned(), period: None, background: Vec::new() };
    let timeline = TimelineSpec { path: folder.join("timeline.pftrace"), window: Window::default() };
    let spec = ReplaySpec {
        sources,
        target,
        scales: Vec::new(),
        seed: 1,
        collectives: None,
        threads: 1,
        timeline: Some(timeline),
        processes: None,
    };
    let outcome = spec.run(&Silent).unwrap();
    assert_eq!(outcome.replay.failure, None);
    outcome
}

/// In each turn rank 1 takes one completion, computes, and posts one answer, all of it on its own processor.
#[test]
fn a_turn_with_a_slow_processor_is_longer_by_what_is_slow_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let software = Machine::load("bxi-v2", &Default::default()).unwrap().node.host.software;
    let finish = |mapping: &str, set: &[&str]| replay(folder, mapping, vec![pingpong(folder)], set).replay.finish;
    let alike = finish("linear", &[]);
    // From node 0 to the DPU of node 1: a processor that says nothing is as that of the host.
    let file = folder.join("places.txt");
    std::fs::write(&file, "node000\nnode001:dpu\n").unwrap();
    let apart = file.to_str().unwrap();
    assert_eq!(finish(apart, &[]), alike);
    let longer = |set: &str| (finish(apart, &[set]) - alike).as_ps() / TURNS;
    assert_eq!(longer("processor.dpu.speed=0.25"), 3 * WORK.as_ps(), "4 times the time");
    let later = |time: SimTime, ns: u64| format!("{} ps", (time + SimTime::from_ns(ns)).as_ps());
    assert_eq!(longer(&format!("processor.dpu.software.post={}", later(software.post, 100))), 100_000);
    assert_eq!(longer(&format!("processor.dpu.software.completion={}", later(software.completion, 30))), 30_000);
    assert_eq!(finish("linear", &["processor.dpu.speed=0.25"]), alike, "nobody is on it");
}

/// Between the processors of a node a message takes the buses between them: each turn is longer by what two messages
/// take more.
#[test]
fn messages_between_processors_take_the_buses_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let finish = |places: &str, set: &[&str]| {
        let file = folder.join("places.txt");
        std::fs::write(&file, places).unwrap();
        replay(folder, file.to_str().unwrap(), vec![pingpong(folder)], set).replay.finish
    };
    let intra = Machine::load("bxi-v2", &Default::default()).unwrap().intra;
    let latency = |bus: &str, ns: u64| format!("bus.{bus}.latency={} ps", (intra.latency + SimTime::from_ns(ns)).as_ps());
    let bandwidth = |bus: &str| format!("bus.{bus}.bandwidth={} B/s", intra.bandwidth.0);
    let one = |ns| ["processor.dpu.bus=b".to_owned(), latency("b", ns), bandwidth("b")];
    let two = |ns, on: &str| [&one(ns)[..], &[format!("bus.b.on={on}"), latency("c", 0), bandwidth("c")]].concat();
    let across = "0\n0:dpu\n";
    for network in ["packet", "flow", "loggp"] {
        let kind = format!("network.kind={network}");
        let run = |places: &str, set: &[String]| {
            let set: Vec<&str> = set.iter().chain([&kind]).map(String::as_str).collect();
            finish(places, &set)
        };
        assert_eq!(run(across, &one(0)), run(across, &[]), "{network}: a bus as `node.intra`");
        // Nothing is hidden behind the way of a message that is not hidden behind this one.
        let far = run(across, &one(1000));
        let longer = |set: &[String]| (run(across, set) - far).as_ps() / TURNS;
        assert_eq!(longer(&one(1100)), 2 * 100_000, "{network}");
        assert_eq!(longer(&two(1100, "c")), 2 * (100_000 + intra.latency.as_ps()), "{network}: a bus on a bus");
        assert_eq!(longer(&two(1100, "host")), 2 * 100_000, "{network}: nothing goes over the other bus");
        // Ranks of one processor have its memory between them.
        let slow = |us| [&one(100)[..], &[format!("processor.dpu.intra.latency={us}us")]].concat();
        let longer = |places: &str| (run(places, &slow(9)) - run(places, &slow(8))).as_ps() / TURNS;
        assert_eq!((longer("0\n0\n"), longer("0:dpu\n0:dpu\n")), (0, 2 * 1_000_000), "{network}");
    }
}

#[test]
fn outcomes_name_processors() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let power = ["power.node=5W", "power.core=2W", "processor.dpu.power.core=1W", "processor.dpu.power.idle=3W"];
    let outcome = replay(folder, "processor", vec![pingpong(folder), pingpong(folder)], &power);
    let summary = outcome.summary();
    assert_eq!(summary["applications"][0]["processors"], serde_json::json!({ "host": 2 }));
    assert_eq!(summary["applications"][1]["processors"], serde_json::json!({ "dpu": 2 }));
    assert!(outcome.text().contains("pingpong: 2 ranks (2 dpu), finished"), "{}", outcome.text());
    // Each application computes ten times 3 us; two nodes and their two DPUs are there until the end.
    let (time, computing) = (outcome.replay.finish.as_s_f64(), 10.0 * WORK.as_s_f64());
    let energy = |name: &str| summary["energy"][name].as_f64().unwrap();
    let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    near(energy("nodes_j"), 2.0 * 5.0 * time);
    near(energy("idle_j"), 2.0 * 3.0 * time);
    near(energy("computing_j"), (2.0 + 1.0) * computing);
    let by_processor = |name: &str| summary["energy"]["by_processor_j"][name].as_f64().unwrap();
    near(by_processor("host"), 2.0 * computing);
    near(by_processor("dpu"), 6.0 * time + computing);
    let trace = std::fs::read(folder.join("timeline.pftrace")).unwrap();
    let has = |text: &str| trace.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("rank 2 on dpu") && has("rank 0") && !has("rank 0 on"));
}
