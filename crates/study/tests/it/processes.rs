//! A replay that several processes share: to the bit that of one process.

use narrows_fabric::parallel::Processes;
use narrows_study::replay::{Source, Target};
use narrows_study::{MachineSpec, ReplayOutcome, ReplaySpec, Silent, StudyError};
use narrows_trace::generate::{Parameters, Pattern};
use narrows_traffic::Class;
use serde_json::Value;
use std::path::Path;

fn pattern(pattern: Pattern, ranks: u32, bytes: Option<u64>) -> Source {
    Source::Pattern(pattern, Parameters { ranks, steps: 2, bytes, cells: None, compute: None })
}

fn spec(machine: &str, nodes: Option<u32>, set: &[&str], sources: Vec<Source>) -> ReplaySpec {
    let mut machine = MachineSpec::named(machine);
    machine.overrides.nodes = nodes;
    machine.overrides.set = set.iter().map(|text| (*text).to_owned()).collect();
    let target = Target::Machine { machine, ppn: None, mapping: String::from("random:3"), period: None, background: Vec::new() };
    ReplaySpec { sources, target, scales: Vec::new(), seed: 1, collectives: None, threads: 1, timeline: None, processes: None }
}

/// What each of so many processes makes of a replay. One that has an error ends all, as on the command line.
fn each(spec: &ReplaySpec, count: u32) -> Vec<Result<ReplayOutcome, StudyError>> {
    std::thread::scope(|scope| {
        let one = |processes: Processes| {
            let spec = ReplaySpec { processes: Some(processes.clone()), ..spec.clone() };
            scope.spawn(move || {
                let done = spec.run(&Silent);
                done.inspect_err(|error| processes.fail(2, &error.to_string()))
            })
        };
        let threads: Vec<_> = Processes::of_threads(count).into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// What came out: everything of the summary but how long it took, where, and how many events it was. How often an
/// output that waits for credits looks for them depends on which region's news it hears first, also with threads.
fn came_out(outcome: &ReplayOutcome) -> Value {
    let mut summary = outcome.summary();
    let of_this_run = ["wall_s", "reading_s", "replay_s", "messages_per_s", "events", "windows", "processes"];
    for key in of_this_run.iter().chain(&["peak_rss_bytes", "peak_rss_bytes_of_processes"]) {
        assert!(summary.as_object_mut().unwrap().remove(*key).is_some(), "{key}");
    }
    summary
}

fn makes_no_difference(name: &str, spec: &ReplaySpec, counts: &[u32]) {
    let alone = spec.run(&Silent).unwrap();
    assert!(alone.replay.messages() > 0, "{name}");
    for &count in counts {
        let together = each(spec, count);
        let together: Vec<ReplayOutcome> = together.into_iter().map(|one| one.unwrap_or_else(|error| panic!("{name}: {error}"))).collect();
        assert_eq!(together[0].processes.len(), count as usize);
        pretty(&came_out(&together[0]), &came_out(&alone), &format!("{name}, {count} processes"));
        assert!(together.iter().all(|one| one.replay.failure == alone.replay.failure && one.exit_code() == alone.exit_code()), "{name}");
    }
}

/// What is different, not all of it.
fn pretty(one: &Value, other: &Value, name: &str) {
    for (key, value) in one.as_object().unwrap() {
        assert_eq!(value, &other[key], "{name}: {key}");
    }
    assert_eq!(one, other, "{name}");
}

/// Every kind of trace, with its collectives, eager messages and rendezvous.
#[test]
fn traces_of_every_kind() {
    for (kind, ranks, bytes) in [
        (Pattern::Halo3d, 60, None),
        (Pattern::Fft3d, 64, Some(100_000)),
        (Pattern::AllreduceLoop, 70, Some(40_000)),
        (Pattern::Bcast, 50, Some(300_000)),
        (Pattern::LammpsLike, 48, None),
        (Pattern::NestLike, 40, None),
        (Pattern::HpcgLike, 64, None),
        (Pattern::LuleshLike, 64, None),
    ] {
        makes_no_difference(kind.name(), &spec("dragonfly-342", None, &[], vec![pattern(kind, ranks, bytes)]), &[2, 3]);
    }
}

/// Matching NICs, ExaNeSt's with their accelerators, TCP, gateways with each protocol; torus, trees, dragonflies.
#[test]
fn nics_and_networks_of_every_kind() {
    let traces = || vec![pattern(Pattern::Halo3d, 36, Some(30_000)), pattern(Pattern::AllreduceLoop, 24, None)];
    for (machine, nodes, set) in [
        ("bxi-v2", Some(144), &[][..]),
        ("bxi-v2", Some(144), &["message.protocol=pscom"]),
        ("bxi-v2", Some(144), &["node.rails=2", "message.protocol=mpc", "message.mpc.minimum=16 KiB"]),
        ("bxi-v3", Some(144), &[]),
        ("bxi-v3", Some(144), &["network.kind=loggp"]),
        ("dragonfly-342", None, &["network.kind=loggp"]),
        ("bxi-v3-reliable", Some(144), &[]),
        ("exanest", None, &[]),
        ("fattree-256", None, &["network.routing=adaptive"]),
        ("megafly-288", None, &[]),
        ("ib-ndr", Some(1100), &[]),
        ("roce-400", Some(1100), &[]),
        ("slingshot-11", None, &[]),
        ("deep-msa", None, &[]),
        ("bxi-ib-gateway", None, &[]),
        ("bxi-ib-gateway", None, &["message.protocol=pscom"]),
        ("bxi-ib-gateway", None, &["message.protocol=mpc"]),
    ] {
        makes_no_difference(&format!("{machine} {set:?}"), &spec(machine, nodes, set, traces()), &[2]);
    }
}

/// Traffic beside the ranks never ends; links lose packets, and one fails.
#[test]
fn what_is_beside_the_ranks() {
    let traces = vec![pattern(Pattern::Halo3d, 48, Some(20_000))];
    let faults = [r#"network.faults=["loss=0.001"]"#];
    for (name, set) in [("background", &[][..]), ("losses", &faults)] {
        let mut spec = spec("bxi-v3-reliable", Some(144), set, traces.clone());
        if let Target::Machine { background, .. } = &mut spec.target {
            background.push(Class::parse("pattern=uniform load=0.3").unwrap());
        }
        makes_no_difference(name, &spec, &[2, 3]);
    }
}

fn file(folder: &Path, text: &str) -> Source {
    let path = folder.join("trace.goal");
    std::fs::write(&path, text).unwrap();
    Source::File(path)
}

/// An error in one process is that of all, with one line; a deadlock is an outcome, the same in all.
#[test]
fn ends_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let receive = |rank: u32, from: u32| format!("rank {rank} {{\nl1: recv 8b from {from} tag 0\n}}\n");
    // Ranks 0 and 1 are in different processes.
    let far = |text: &str| ReplaySpec { ..spec("bxi-v2", Some(144), &[], vec![file(folder.path(), text)]) };
    let stuck = far(&format!("num_ranks 2\n{}{}", receive(0, 1), receive(1, 0)));
    let alone = stuck.run(&Silent).unwrap();
    let together = each(&stuck, 2);
    for one in &together {
        let one = one.as_ref().unwrap();
        assert_eq!(one.replay.failure, alone.replay.failure);
        assert_eq!(one.exit_code(), alone.exit_code());
    }
    assert!(alone.replay.failure.unwrap().starts_with("deadlock: nothing can happen any more, 2 ranks"));
    let wrong = far(&format!("num_ranks 2\nrank 0 {{\nl1: send 9b to 1 tag 0\n}}\n{}", receive(1, 0)));
    let alone = wrong.run(&Silent).unwrap_err().to_string();
    let mut told: Vec<String> = each(&wrong, 2).into_iter().map(|one| one.unwrap_err().to_string()).collect();
    told.sort_by_key(String::len);
    assert_eq!(told[0], alone);
    assert!(told[1].ends_with(&alone) && told[1].starts_with("process "), "{}", told[1]);
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let traces = || vec![pattern(Pattern::Halo3d, 48, None)];
    let refused = |spec: &ReplaySpec| each(spec, 2).remove(0).unwrap_err().to_string();
    let line = refused(&spec("dragonfly-342", None, &["network.kind=flow"], traces()));
    assert!(line.starts_with("2 processes, but this network falls into 1 part that can run apart"), "{line}");
    let mut looked = spec("dragonfly-342", None, &[], traces());
    if let Target::Machine { period, .. } = &mut looked.target {
        *period = Some(narrows_units::SimTime::from_us(1));
    }
    assert_eq!(refused(&looked), "--period looks at a machine in one process: start it without mpirun");
    let loggp = ReplaySpec { target: Target::LogGp(Default::default()), ..spec("dragonfly-342", None, &[], traces()) };
    assert!(refused(&loggp).starts_with("a replay with --loggp has no machine that several processes could share"));
    let standard = ReplaySpec { sources: vec![Source::File("-".into())], ..spec("dragonfly-342", None, &[], traces()) };
    assert!(refused(&standard).starts_with("standard input is that of the first process alone"));
}
