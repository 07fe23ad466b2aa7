//! Nodes that differ: processors and costs of their software, in a replay.

use narrows_machine::{Machine, NetworkKind};
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, ReplaySpec, Silent};
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

/// A machine with a fast and a slow node; `slow`: how the second one differs.
fn finish(folder: &Path, slow: &str, network: NetworkKind) -> SimTime {
    let path = folder.join("two.toml");
    let text = format!(
        "[machine]\nname = \"two\"\nbase = \"bxi-v2\"\ngroups = [\"fast\", \"slow\"]\n[group.fast]\ncount = 1\n[group.slow]\ncount = 1\n{slow}"
    );
    std::fs::write(&path, text).unwrap();
    let machine = MachineSpec { network: Some(network), ..MachineSpec::named(path.to_str().unwrap()) };
    let target = Target::Machine { machine, ppn: None, mapping: String::from("linear"), period: None, background: Vec::new() };
    let spec = ReplaySpec {
        sources: vec![pingpong(folder)],
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

/// In each turn rank 1 takes one completion, computes, and posts one answer; posting the next receive is hidden behind
/// the way of the answer. So a turn is longer by exactly what these are.
#[test]
fn a_turn_with_a_slow_node_is_longer_by_what_is_slow_there() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::load("bxi-v2", &Default::default()).unwrap();
    let software = machine.node.host.software;
    let more = |time: SimTime, ns: u64| time + SimTime::from_ns(ns);
    for network in [NetworkKind::Packet, NetworkKind::Flow] {
        let alike = finish(folder.path(), "", network);
        let longer = |slow: &str| (finish(folder.path(), slow, network) - alike).as_ps() / TURNS;
        assert_eq!(longer(&format!("[group.slow.software]\npost = \"{} ps\"\n", more(software.post, 100).as_ps())), 100_000);
        assert_eq!(longer(&format!("[group.slow.software]\ncompletion = \"{} ps\"\n", more(software.completion, 30).as_ps())), 30_000);
        assert_eq!(longer("speed = 0.25\n"), 3 * WORK.as_ps(), "4 times the time");
        let both = format!("speed = 0.25\n[group.slow.software]\npost = \"{} ps\"\n", more(software.post, 150).as_ps());
        assert_eq!(longer(&both), 3 * WORK.as_ps() + 150_000);
        let shorter = alike - finish(folder.path(), "speed = 2\n", network);
        assert_eq!(shorter.as_ps(), TURNS * WORK.as_ps() / 2);
    }
}
