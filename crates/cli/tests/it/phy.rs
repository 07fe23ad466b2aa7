//! `narrows phy` as a person runs it.

use serde_json::Value;
use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("phy").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What was said, but for how far the work is, of which one hears on a slow host.
fn said(output: &Output) -> Vec<&str> {
    text(&output.stderr).lines().filter(|line| !line.contains(" left") && !line.contains(" so far")).collect()
}

fn summary(arguments: &[&str]) -> Value {
    let output = narrows(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn losses_stand_beside_the_formula() {
    let run = || summary(&["100gbase-sr4", "--ber", "1e-3", "--frames", "5000"]);
    let found = run();
    let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{key}: {found}"));
    // 12,000 codewords and 16 % of them: 2 % are five standard deviations and more.
    for loss in ["codeword_loss", "frame_loss"] {
        let (simulated, formula) = (number(loss), number(&format!("{loss}_formula")));
        assert!((simulated - formula).abs() < 0.02, "{loss}: {simulated}, {formula}");
    }
    assert_eq!((number("frames"), number("frames_wrong")), (5000.0, 0.0));
    assert!(number("three_codewords_lost") > 0.0, "a receiver by the standard would not go on");
    let stages = found["stages"].as_array().unwrap();
    let sum: f64 = stages.iter().map(|stage| stage["latency_ns"].as_f64().unwrap()).sum();
    assert!((sum - number("latency_ns")).abs() < 1e-9);
    for stage in stages {
        let parts: f64 = stage["parts"].as_array().unwrap().iter().map(|part| part["ns"].as_f64().unwrap()).sum();
        assert!((parts - stage["latency_ns"].as_f64().unwrap()).abs() < 1e-9, "{stage}");
    }
    assert_eq!(found, run(), "the same seed, the same losses");
}

#[test]
fn text_and_csv_have_the_stages() {
    let output = narrows(&["100gbase-sr4", "--frames", "20"]);
    let report = text(&output.stdout);
    assert!(output.status.success());
    assert_eq!(said(&output), [""; 0], "the report is on standard output");
    assert!(report.starts_with("100gbase-sr4: 20 frames of 1518 bytes"), "{report}");
    assert!(report.contains("RS(528,514) decoder") && report.contains("103.125 Gb/s"), "{report}");
    let output = narrows(&["100gbase-sr4", "--frames", "20", "--csv"]);
    assert!(text(&output.stdout).starts_with("stage,side,latency_ns,overhead,parts,source\nMAC,sender,0.64,"));
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    for (arguments, expected) in [
        (&["100gbase-sr4", "--ber", "1.5"][..], "a bit error rate of 1.5: expected a probability, 0 to 1"),
        (&["100gbase-sr4", "--ber", "-0.1"], "a bit error rate of -0.1: expected a probability, 0 to 1"),
        (&["100gbase-sr4", "--ber", "nan"], "a bit error rate of NaN: expected a probability, 0 to 1"),
        (&["100gbase-sr4", "--frames", "0"], "0 frames: expected 1 at least"),
        (&["100gbase-sr4", "--frame-bytes", "40"], "frames of 40 bytes: expected 64 to 16384"),
        (&["100gbase-lr9"], "phy \"100gbase-lr9\": expected 100gbase-sr4"),
    ] {
        let output = narrows(arguments);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.starts_with("narrows: error: ") && complaint.contains(expected), "{arguments:?}: {complaint}");
        assert_eq!((complaint.lines().count(), output.stdout.len()), (1, 0), "{complaint}");
    }
}
