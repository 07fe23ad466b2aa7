//! `narrows generate`, `trace` and `analyse` as users call them.

use std::path::Path;
use std::process::{Command, Output};

fn narrows(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).current_dir(folder).args(arguments).output().unwrap()
}

fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = narrows(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn bad(folder: &Path, arguments: &[&str]) -> String {
    let output = narrows(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_trace_through_all_formats() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["generate", "fft3d", "--ranks", "27", "-o", "a.vef"]);
    let line = good(folder, &["trace", "check", "a.vef"]);
    assert_eq!(line, "a.vef: ok, vef, 27 ranks, 162 messages, 0 collectives, 300 us on an ideal machine\n");
    for (from, to) in [("a.vef", "b.goal"), ("b.goal", "c.bin"), ("c.bin", "d.jsonl"), ("d.jsonl", "e.vef")] {
        good(folder, &["trace", "convert", from, to]);
    }
    let line = good(folder, &["trace", "check", "e.vef"]);
    assert_eq!(line, "e.vef: ok, vef, 27 ranks, 162 messages, 0 collectives, 300 us on an ideal machine\n");
    good(folder, &["trace", "scale", "a.vef", "--compute", "2", "-o", "f.vef"]);
    assert!(good(folder, &["trace", "check", "f.vef"]).contains("600 us"));
    good(folder, &["trace", "anonymise", "a.vef", "--seed", "3", "-o", "g.vef"]);
    assert!(good(folder, &["trace", "info", "g.vef"]).contains("messages        162"));
}

#[test]
fn collectives_become_messages_for_goal() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["generate", "bcast", "--ranks", "16", "--steps", "2", "--bytes", "8B", "-o", "a.vef"]);
    assert!(bad(folder, &["trace", "convert", "a.vef", "a.goal"]).contains("narrows trace convert --expand openmpi"));
    good(folder, &["trace", "convert", "a.vef", "a.goal", "--expand", "openmpi"]);
    // A tree: one message per rank that is not the root.
    assert!(good(folder, &["trace", "check", "a.goal"]).contains("16 ranks, 30 messages, 0 collectives"));
}

/// A model of 4 layers on 2 x 2 x 2 ranks: 2 of its 4 micro-batches in each pipeline.
#[test]
fn a_training_from_its_size_to_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = ["--layers", "4", "--hidden", "256", "--sequence", "128", "--vocabulary", "1000", "--batch", "4"];
    let generate = [&["generate", "transformer", "--ranks", "8", "--tp", "2", "--pp", "2", "-o", "a.jsonl"][..], &model].concat();
    good(folder, &generate);
    // A message forward and one backward per micro-batch and rank. Collectives: two stages of 2 layers with 4
    // all-reduces and one more, for 2 micro-batches of two pairs; gradients of two stages by two ranks; embeddings of 4
    // pairs.
    let collectives = 2 * (2 * 4 + 1) * 2 * 2 + 4 + 4;
    let line = good(folder, &["trace", "check", "a.jsonl"]);
    assert!(line.starts_with(&format!("a.jsonl: ok, jsonl, 8 ranks, 16 messages, {collectives} collectives")), "{line}");
    let line = good(folder, &["replay", "a.jsonl", "--machine", "bxi-v2", "--nodes", "8"]);
    assert!(line.starts_with("a: 8 ranks, finished at"), "{line}");
    assert!(bad(folder, &["generate", "transformer", "--ranks", "6", "--tp", "4", "-o", "b.jsonl"]).contains("divide (4), found 6"));
    assert!(bad(folder, &["generate", "bcast", "--ranks", "6", "--tp", "4", "-o", "b.vef"]).contains("no transformer"));
}

/// Two ranks, each with an empty GlobalMetadata, computing for 5 us, and an all-reduce of 64 B after it.
#[test]
fn a_chakra_trace_by_one_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let message = |body: &[u8]| [&[body.len() as u8][..], body].concat();
    let attribute = |name: &str, value: u8| {
        let inner = [&[0x0a, name.len() as u8][..], name.as_bytes(), &[0x48, value]].concat();
        [&[0x52, inner.len() as u8][..], &inner].concat()
    };
    let compute = message(&[0x08, 1, 0x18, 4, 0x38, 5]);
    let allreduce = [&[0x08, 2, 0x18, 7, 0x2a, 1, 1][..], &attribute("comm_type", 0), &attribute("comm_size", 64)].concat();
    let content = [message(&[]), compute, message(&allreduce)].concat();
    std::fs::write(folder.join("x.0.et"), &content).unwrap();
    std::fs::write(folder.join("x.1.et"), &content).unwrap();
    let line = good(folder, &["trace", "check", "x.1.et"]);
    assert_eq!(line, "x.1.et: ok, chakra, 2 ranks, 0 messages, 1 collectives, 5 us on an ideal machine\n");
    good(folder, &["trace", "convert", "x.0.et", "y.jsonl"]);
    assert!(good(folder, &["replay", "x.0.et", "--machine", "bxi-v2", "--nodes", "2"]).starts_with("x.0: 2 ranks, finished at"));
    std::fs::write(folder.join("x.1.et"), &content[..content.len() - 1]).unwrap();
    assert!(bad(folder, &["trace", "check", "x.0.et"]).contains("x.1.et: byte 8: expected a message behind its length"));
}

#[test]
fn mistakes_are_listed_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.vef"), "VEF 2 2 1 0 0 TRUE\nC0 0 1\n0 0 1 4x 0 0 -1\n1 0 7 8 0 0 -1\n").unwrap();
    let text = bad(folder, &["trace", "check", "a.vef"]);
    assert!(text.contains("a.vef:3: expected bytes") && text.contains("a.vef:4: expected the destination task"), "{text}");
    assert!(text.ends_with("a.vef: 2 mistakes\n"), "{text}");
    assert!(bad(folder, &["generate", "fft3d", "--ranks", "10", "-o", "b.vef"]).contains("such as 8 or 27"));
    assert!(bad(folder, &["generate", "lulesh-like", "--ranks", "10", "-o", "b.vef"]).contains("such as 8 or 27"));
    assert!(bad(folder, &["generate", "halo3d", "--ranks", "10", "--cells", "8", "-o", "b.vef"]).contains("no cells to choose"));
    assert!(bad(folder, &["generate", "halo3d", "--ranks", "10", "-o", "b.txt"]).contains("--to FORMAT"));
}

#[test]
fn a_report_in_one_page_with_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    good(folder, &["generate", "lammps-like", "--ranks", "8", "--steps", "3", "-o", "a.vef"]);
    good(folder, &["analyse", "a.vef", "--report", "out"]);
    let page = std::fs::read_to_string(folder.join("out/report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 6);
    // The name of SVG is no place.
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"), "no other resources");
    let version = env!("CARGO_PKG_VERSION");
    assert!(page.contains(&format!("<p class=\"origin\">narrows {version}, 2")), "{page}");
    assert!(page.contains("<pre class=\"command\">narrows analyse a.vef --report out</pre>"), "{page}");
    let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("out/summary.json")).unwrap()).unwrap();
    // 8 ranks, 3 steps, 6 swaps there and 6 back.
    assert_eq!(summary["messages"], 8 * 3 * 12);
    for table in ["ranks", "pairs", "sizes", "collectives", "intervals"] {
        let bytes = std::fs::read(folder.join(format!("out/{table}.parquet"))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
}

#[test]
fn more_ranks_than_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for ranks in ["8", "27", "64", "216"] {
        good(folder, &["generate", "lulesh-like", "--ranks", ranks, "--steps", "2", "-o", &format!("a{ranks}.jsonl")]);
    }
    let recordings = ["a8.jsonl", "a27.jsonl", "a64.jsonl"];
    let extrapolate = |more: &[&'static str]| [&["extrapolate"][..], &recordings, more].concat();
    let said = good(folder, &extrapolate(&["--ranks", "216", "-o", "b.jsonl"]));
    for part in [
        "ranks           216: a grid in 3 directions, shortest side first, 6x6x6\n",
        "kinds of ranks  27,",
        "scaling         weak; computing: constant\n",
        "unexplained     messages 0.00 %, calls 0.00 %, bytes 0.00 %\n",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("a216.jsonl") == bytes("b.jsonl"));
    let json: serde_json::Value = serde_json::from_str(&good(folder, &extrapolate(&["-n", "216", "-o", "c.jsonl", "--json"]))).unwrap();
    assert_eq!((&json["kinds_of_ranks"], &json["unexplained"]["messages"]), (&27.into(), &0.0.into()));
    assert!(bytes("b.jsonl") == bytes("c.jsonl"));
    // The same without a file.
    let machine = ["--machine", "bxi-v2", "--nodes", "216", "--network", "flow", "--json"];
    let digest = |traces: &[&str]| {
        let said = good(folder, &[&["replay"][..], traces, &machine].concat());
        serde_json::from_str::<serde_json::Value>(&said).unwrap()["digest"].clone()
    };
    assert_eq!(digest(&["b.jsonl"]), digest(&[&recordings[..], &["--extrapolate", "216"]].concat()));
    // One line each, and no file.
    let cut = bytes("a27.jsonl");
    std::fs::write(folder.join("cut.jsonl"), &cut[..cut.len() / 2]).unwrap();
    for (arguments, says) in [
        (extrapolate(&["--ranks", "32", "-o", "d.jsonl"]), "--ranks 32: expected at least as many as the largest recording has, 64"),
        (extrapolate(&["--ranks", "0", "-o", "d.jsonl"]), "0 is not in 1.."),
        (extrapolate(&["--ranks", "216", "-o", "d.txt"]), "d.txt: expected a name that ends in .vef, .goal, .bin or .jsonl"),
        (extrapolate(&["--ranks", "216", "-o", "d.jsonl", "--unexplained", "200%"]), "expected a share such as 5% or 0.05"),
        (extrapolate(&["--ranks", "216", "-o", "d.jsonl", "--scaling", "none"]), "expected weak or strong"),
        (vec!["extrapolate", "a8.jsonl", "--ranks", "64", "-o", "d.jsonl"], "1 recording of the program: expected at least two"),
        (vec!["extrapolate", "a8.jsonl", "cut.jsonl", "-n", "64", "-o", "d.jsonl"], "cut.jsonl:"),
        (vec!["extrapolate", "a8.jsonl", "a8.jsonl", "-n", "64", "-o", "d.jsonl"], "both have 8 ranks: leave one of them out"),
        (vec!["replay", "a8.jsonl", "--extrapolate", "64"], "1 recording of the program: expected at least two"),
    ] {
        let error = bad(folder, &arguments);
        assert!(error.contains(says), "{says} in {error}");
        assert!(!folder.join("d.jsonl").exists() && !folder.join("d.txt").exists(), "{arguments:?}");
    }
}
