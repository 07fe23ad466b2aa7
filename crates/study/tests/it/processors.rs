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
    replay_on(folder, mapping, sources, set, 1)
}

fn replay_on(folder: &Path, mapping: &str, sources: Vec<Source>, set: &[&str], threads: usize) -> ReplayOutcome {
    let set = ["node.count=2", "node.processors=[\"dpu\"]", "processor.dpu.cores=4"].iter().chain(set).map(|&key| key.to_owned()).collect();
    let mut machine = MachineSpec::named("bxi-v2");
    machine.overrides.set = set;
    let target = Target::Machine { machine, ppn: None, mapping: mapping.to_owned(), period: None, background: Vec::new() };
    let timeline = TimelineSpec { path: folder.join("timeline.pftrace"), window: Window::default() };
    let spec =
        ReplaySpec { sources, target, scales: Vec::new(), seed: 1, collectives: None, threads, timeline: Some(timeline), processes: None };
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

/// A processor with its own ports sends and gets over these and its own PCIe: as a node of a machine whose PCIe that
/// is. One in front of the host's ports makes the host's messages longer by its bus, at either end of the two ways over
/// PCIe that a message takes there.
#[test]
fn processors_with_ports_of_their_own_are_reached_over_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let finish = |places: &str, set: &[&str]| {
        let file = folder.join("places.txt");
        std::fs::write(&file, places).unwrap();
        replay(folder, file.to_str().unwrap(), vec![pingpong(folder)], set).replay.finish
    };
    let pcie = Machine::load("bxi-v2", &Default::default()).unwrap().nic.config.pcie_latency;
    let later = |key: &str, ns: u64| format!("{key}={} ps", (pcie + SimTime::from_ns(ns)).as_ps());
    let (own, hosts) = (later("processor.dpu.pcie.latency", 700), later("node.pcie.latency", 700));
    let bus = ["processor.dpu.bus=b", "bus.b.latency=900ns", "bus.b.bandwidth=50GB/s"];
    for network in ["packet", "flow", "loggp"] {
        let kind = format!("network.kind={network}");
        let run = |places: &str, mode: &str, set: &[&str]| {
            let mode = format!("processor.dpu.mode={mode}");
            finish(places, &[set, &[&kind, &mode]].concat())
        };
        let alike = run("0\n1\n", "shared", &[]);
        for places in ["0\n1\n", "0:dpu\n1:dpu\n", "0\n1:dpu\n", "0\n0:dpu\n"] {
            assert_eq!(run(places, "off-path", &[]), alike, "{network}: {places:?}, over the switch, and no bus is between them");
        }
        // Four times in a turn: two messages, each from its processor to a NIC and from a NIC to its processor.
        let far = run("0:dpu\n1:dpu\n", "off-path", &[&own]);
        assert_eq!(far, run("0\n1\n", "shared", &[&hosts]), "{network}: as between nodes with such a PCIe");
        assert_eq!((far - alike).as_ps() / TURNS, 4 * 700_000, "{network}");
        assert_eq!((run("0:dpu\n1\n", "off-path", &[&own]) - alike).as_ps() / TURNS, 2 * 700_000, "{network}: one end");
        assert_eq!(run("0\n1\n", "off-path", &[&own, bus[0], bus[1], bus[2]]), alike, "{network}: hosts have nothing to do with it");
        // Between the two of a node over the bus, which both ports have: the switch is not used.
        let within = run("0\n0:dpu\n", "shared", &bus);
        assert_eq!(run("0\n0:dpu\n", "off-path", &bus), within, "{network}");
        assert_eq!(run("0\n0:dpu\n", "off-path", &[&bus[..], &["link.host.latency=9us"]].concat()), within, "{network}");
        let longer = run("0\n0:dpu\n", "off-path", &[bus[0], "bus.b.latency=1us", bus[2]]);
        assert_eq!((longer - within).as_ps() / TURNS, 2 * 100_000, "{network}");
        // In front of the host.
        assert_eq!((run("0\n1\n", "on-path", &bus) - alike).as_ps() / TURNS, 4 * 900_000, "{network}");
        assert_eq!((run("0\n1:dpu\n", "on-path", &bus) - alike).as_ps() / TURNS, 2 * 900_000, "{network}");
        assert_eq!(run("0:dpu\n1:dpu\n", "on-path", &bus), alike, "{network}");
    }
}

/// Bytes go over the bus at its rate, and each port has its link for itself.
#[test]
fn a_port_of_its_own_is_a_link_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let bytes = 1_000_000;
    let mut text = String::from("{\"narrows_trace\":1,\"ranks\":4,\"order\":\"sequential\"}\n");
    for rank in 0..2 {
        let _ = writeln!(text, "{{\"rank\":{rank},\"op\":\"send\",\"to\":{},\"bytes\":{bytes},\"tag\":0}}", rank + 2);
        let _ = writeln!(text, "{{\"rank\":{},\"op\":\"recv\",\"from\":{rank},\"bytes\":{bytes},\"tag\":0}}", rank + 2);
    }
    let path = folder.join("two.jsonl");
    std::fs::write(&path, text).unwrap();
    let file = folder.join("places.txt");
    std::fs::write(&file, "0\n0:dpu\n1\n1:dpu\n").unwrap();
    let run = |mode: &str, threads: usize| {
        let mode = format!("processor.dpu.mode={mode}");
        let outcome = replay_on(folder, file.to_str().unwrap(), vec![Source::File(path.clone())], &[&mode], threads);
        (outcome.replay.finish, outcome.replay.digest)
    };
    let link = Machine::load("bxi-v2", &Default::default()).unwrap().link.host.bandwidth;
    let (shared, own) = (run("shared", 1).0, run("off-path", 1).0);
    let (more, one) = ((shared - own).as_s_f64(), bytes as f64 / link.0 as f64);
    assert!((1.0..1.05).contains(&(more / one)), "one message more on the link takes {one} s, and it took {more} s");
    assert_eq!(run("off-path", 1), run("off-path", 3), "threads do not show");
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
    // NICs of their own take power, and a timeline names them.
    let modes = ["shared", "off-path"].map(|mode| format!("processor.dpu.mode={mode}"));
    let nics = modes.each_ref().map(|mode| {
        let outcome = replay(folder, "linear", vec![pingpong(folder)], &["power.nic=1W", mode]);
        outcome.summary()["energy"]["nics_j"].as_f64().unwrap() / outcome.replay.finish.as_s_f64()
    });
    near(nics[0], 2.0);
    near(nics[1], 4.0);
    replay(folder, "linear:dpu", vec![pingpong(folder)], &[&modes[1]]);
    let trace = std::fs::read(folder.join("timeline.pftrace")).unwrap();
    let has = |text: &str| trace.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("node 3, node001-dpu") && has("rank 1 on dpu"));
    replay(folder, "processor", vec![pingpong(folder), pingpong(folder)], &power);
    let trace = std::fs::read(folder.join("timeline.pftrace")).unwrap();
    let has = |text: &str| trace.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("rank 2 on dpu") && has("rank 0") && !has("rank 0 on"));
}
