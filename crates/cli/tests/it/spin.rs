//! `narrows spin` as a person runs it.

use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("spin").args(arguments).output().unwrap()
}

#[test]
fn json_has_the_numbers_of_each_length() {
    let output = narrows(&["--handler", "empty", "--hpus", "8", "--bytes", "64,256", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["hpus"], 8);
    let point = &summary["points"][0];
    assert_eq!(point["gbps"].as_f64().map(f64::round), Some(256.0), "published: 256 Gbit/s");
    // 4 + s/64 to the request, 26 + s/64 to the feedback.
    assert_eq!((point["latency_ns"].as_f64(), point["cycles"].as_f64()), (Some(32.0), Some(9.0)));
    assert_eq!(summary["points"][1]["gbps"].as_f64().map(f64::round), Some(512.0));
}

#[test]
fn a_packet_is_alone_however_long_its_handler_takes() {
    let output = narrows(&["--cost", "1000000,0,0,drop", "--hpus", "1", "--bytes", "64", "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // 4 + s/64 to the request; 26 + s/64 to the feedback with a handler of 9 cycles.
    assert_eq!(summary["points"][0]["latency_ns"].as_f64(), Some(5.0 + 27.0 + 1_000_000.0 - 9.0));
}

#[test]
fn wrong_options_say_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("handlers.elf");
    std::fs::write(&file, "nothing").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, hint) in [
        (&["--handler", "none"] as &[_], "an ELF file, or one of empty"),
        (&["--handler", file], "riscv64-unknown-elf-gcc"),
        (&["--cost", "1,2,3,fly"], "pass, drop, send-back, fold, copy-to-host"),
        (&["--cost", "0,1000000000,0,drop"], "a handler may run for 1000000"),
        (&["--preset", "bxi"], "pspin-asic or fpspin"),
        (&["--hpus", "9"], "1 to 8, or a multiple of that"),
        (&["--bytes", "64,0"], "0 is not in 1.."),
        (&["--bytes", "4096"], "packets of 4 KiB do not fit"),
    ] {
        let output = narrows(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(hint), "{arguments:?}: {error}");
    }
}
