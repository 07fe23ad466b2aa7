//! `narrows replay` as a program: what it writes, and how it refuses.

use std::path::PathBuf;
use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("narrows-replay-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const GOAL: &str = "num_ranks 2\nrank 0 {\na: send 8b to 1 tag 0\n}\nrank 1 {\na: recv 8b from 0 tag 0\n}\n";

#[test]
fn writes_the_summary_of_two_traces() {
    let folder = folder("two");
    let (a, b, out) = (folder.join("a.goal"), folder.join("b.goal"), folder.join("out"));
    std::fs::write(&a, GOAL).unwrap();
    std::fs::write(&b, GOAL.replace("8b", "9000b")).unwrap();
    for network in [&["--network", "packet", "--nodes", "4", "--mapping", "node"][..], &["--network", "loggp", "--loggp", "L=1us"]] {
        let mut arguments = vec!["replay", a.to_str().unwrap(), b.to_str().unwrap(), "--out", out.to_str().unwrap()];
        arguments.extend(network);
        let output = narrows(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
        assert_eq!((summary["messages"].as_u64(), summary["bytes"].as_u64()), (Some(2), Some(9008)));
        let applications = summary["applications"].as_array().unwrap();
        assert_eq!(applications.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
        for key in ["ranks", "finish_s", "messages", "bytes", "fct_ns", "digest"] {
            assert!(!applications[0][key].is_null(), "{key}");
        }
        for key in ["simulated_s", "wall_s", "messages_per_s", "peak_rss_bytes", "digest", "events"] {
            assert!(!summary[key].is_null(), "{key}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Looking at a replay over time writes what it saw and changes nothing.
#[test]
fn over_time() {
    let folder = folder("time");
    let (trace, out) = (folder.join("a.goal"), folder.join("out"));
    std::fs::write(&trace, GOAL.replace("8b", "100000b")).unwrap();
    for (network, files) in [
        ("packet", &["series.parquet", "queues.parquet", "links.parquet", "queues.svg", "stages.svg", "switches.svg"][..]),
        ("flow", &["series.parquet", "throughput.svg", "fct-over-time.svg"]),
    ] {
        let digest = |more: &[&str]| {
            let mut arguments =
                vec!["replay", trace.to_str().unwrap(), "--network", network, "--nodes", "4", "--out", out.to_str().unwrap()];
            arguments.extend(more);
            let output = narrows(&arguments);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
            summary["digest"].clone()
        };
        assert_eq!(digest(&[]), digest(&["--period", "1us"]));
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        for file in files.iter().chain(&["fct.parquet", "fct.svg"]) {
            assert!(out.join(file).exists(), "{network}: {file}");
            if let Some(picture) = file.strip_suffix(".svg").map(|_| std::fs::read_to_string(out.join(file)).unwrap()) {
                // But for the line that says where it comes from.
                let drawn = picture.split("<desc>").next().unwrap();
                assert!(page.contains(drawn) && !picture.contains("NaN"), "{network}: {file}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn case(name: &str) -> String {
    format!("{}/tests/cases/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The digest of a case on its machine.
fn digest_of(name: &str, out: &str, more: &[&str]) -> serde_json::Value {
    let (trace, machine) = (case(&format!("{name}.jsonl")), case(&format!("{name}.toml")));
    let output = narrows(&[&["replay", &trace, "--machine", &machine, "--ppn", "1", "--out", out], more].concat());
    assert!(output.status.success(), "{name} {more:?}: {}", String::from_utf8_lossy(&output.stderr));
    let summary = std::fs::read_to_string(format!("{out}/summary.json")).unwrap();
    serde_json::from_str::<serde_json::Value>(&summary).unwrap()["digest"].clone()
}

/// Switches that store packets, in regions: threads and looking at it change nothing.
#[test]
fn stored_packets_repeat_on_any_number_of_threads() {
    let folder = folder("stored");
    let digest = |more: &[&str]| digest_of("store_and_forward", folder.to_str().unwrap(), more);
    let first = digest(&[]);
    for more in [&["--period", "1us"][..], &["--threads", "1"], &["--threads", "2"], &["--threads", "4"], &["--threads", "4"]] {
        assert_eq!(digest(more), first, "{more:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Of two messages that leave at one picosecond the first one matches first.
#[test]
fn messages_of_one_picosecond_match_in_order() {
    let folder = folder("tie");
    for network in ["packet", "flow"] {
        digest_of("tie", folder.to_str().unwrap(), &["--network", network]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn says_what_to_do() {
    let folder = folder("refuse");
    let trace = folder.join("a.goal");
    std::fs::write(&trace, GOAL).unwrap();
    let path = trace.to_str().unwrap();
    let nodes = folder.join("nodes.txt");
    std::fs::write(&nodes, "0\n1\n2\n").unwrap();
    let nodes = nodes.to_str().unwrap();
    for (arguments, part) in [
        (vec!["replay", path, "--loggp", "L=1us"], "--loggp goes with --network loggp"),
        (vec!["replay", path, "--network", "loggp", "--loggp", "l=1us"], "the parameters are L, o, g, G, O and S"),
        (vec!["replay", path, "--collectives", "none.txt"], "cannot read the collectives table none.txt"),
        (vec!["replay", path, "--set", "collectives.rules=[\"bcast *: ring\"]"], "ring does no bcast"),
        (vec!["replay", path, "--compute-scale", "1@5-2"], "a range of nodes"),
        (vec!["replay", path, "--period", "1us"], "--out"),
        (vec!["replay", path, "--period", "0ns", "--out", "."], "a period takes time"),
        (vec!["replay", path, "--period", "1us", "--out", ".", "--network", "loggp", "--loggp", "L=1us"], "leave out one of the two"),
        (vec!["replay", path, "--machine", "bxi-v2", "--network", "loggp", "--loggp", "L=1us"], "--machine is about a machine"),
        (vec!["replay", path, "--mapping", "node", "--network", "loggp", "--loggp", "L=1us"], "--mapping is about a machine"),
        (vec!["replay", path, "--network", "loggp", "--loggp", ""], "expected NAME=VALUE"),
        (vec!["replay", path, "--network", "loggp", "--loggp", "L=1us,L=2us"], "L is given twice"),
        (vec!["replay", path, "--nodes", "4", "--compute-scale", "2@0-4"], "--compute-scale 2@0-4: the machine has the nodes 0 to 3"),
        (vec!["replay", path, "--nodes", "4", "--mapping", nodes], "nodes.txt:3: places rank 2, but the run has 2 ranks"),
        (vec!["replay", "missing.goal"], "missing.goal"),
    ] {
        let output = narrows(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What takes a line in place of a panic or a deadlock message.
#[test]
fn contradictions_and_endless_times_get_one_line() {
    let folder = folder("contradiction");
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let header = "{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}\n";
    let bcast = write(
        "bcast.jsonl",
        format!("{header}{{\"rank\":0,\"op\":\"bcast\",\"send\":8}}\n{{\"rank\":1,\"op\":\"bcast\",\"recv\":800000}}\n"),
    );
    let huge = write("huge.jsonl", format!("{header}{{\"rank\":0,\"op\":\"send\",\"to\":1,\"bytes\":9000000000000000,\"tag\":0}}\n"));
    let year = "{\"rank\":0,\"op\":\"compute\",\"ps\":15000000000000000000}\n";
    let long = write("long.jsonl", format!("{header}{year}{year}"));
    let sizes = "VEF 2 0 1 1 2 TRUE\nC0 0 1\nG0 0 2 0 8 8 0 0 -1\nG0 0 2 1 1000000 1000000 0 0 -1\n";
    let vef = write("sizes.vef", String::from(sizes));
    for (trace, parts) in [
        (&bcast, &["rank 0, operation 0, calls bcast of 8 B with root 0, but rank 1, operation 0, calls bcast of 800000 B"][..]),
        (&huge, &["huge.jsonl:2: ", "281474976710656"]),
        (&long, &["long.jsonl:3: ", "200 days"]),
        (&vef, &["sizes.vef:4: ", "allreduce of 8 B", "allreduce of 1000000 B"]),
    ] {
        for command in [
            &["replay", trace, "--nodes", "4"][..],
            &["replay", trace, "--network", "loggp", "--loggp", "L=1us"],
            &["trace", "check", trace],
        ] {
            let output = narrows(command);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(matches!(output.status.code(), Some(1 | 2)), "{command:?}: {error}");
            assert!(parts.iter().all(|part| error.contains(part)), "{command:?}: {error}");
            assert!(error.lines().count() <= 2 && !error.contains("panicked"), "{command:?}: {error}");
        }
    }
    // Twice as slow is too slow for what fits by itself.
    let half = write("half.jsonl", format!("{header}{year}"));
    for more in [&["--nodes", "4"][..], &["--network", "loggp", "--loggp", "L=1us"]] {
        let output = narrows(&[&["replay", &half, "--compute-scale", "2"], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains("rank 0, operation 0: the times add up to more than 200 days"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
