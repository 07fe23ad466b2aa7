//! `narrows replay` as a program: what it writes, and how it refuses.

#![allow(clippy::unwrap_used)]

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
                assert!(page.contains(&picture) && !picture.contains("NaN"), "{network}: {file}");
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn says_what_to_do() {
    let folder = folder("refuse");
    let trace = folder.join("a.goal");
    std::fs::write(&trace, GOAL).unwrap();
    let path = trace.to_str().unwrap();
    for (arguments, part) in [
        (vec!["replay", path, "--loggp", "L=1us"], "--loggp goes with --network loggp"),
        (vec!["replay", path, "--network", "loggp", "--loggp", "l=1us"], "the parameters are L, o, g, G, O and S"),
        (vec!["replay", path, "--collectives", "none.txt"], "collectives none.txt"),
        (vec!["replay", path, "--set", "collectives.rules=[\"bcast *: ring\"]"], "ring does no bcast"),
        (vec!["replay", path, "--compute-scale", "1@5-2"], "a range of nodes"),
        (vec!["replay", path, "--period", "1us"], "--out"),
        (vec!["replay", path, "--period", "0ns", "--out", "."], "a period takes time"),
        (vec!["replay", path, "--period", "1us", "--out", ".", "--network", "loggp", "--loggp", "L=1us"], "leave out --loggp"),
        (vec!["replay", "missing.goal"], "missing.goal"),
    ] {
        let output = narrows(&arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
