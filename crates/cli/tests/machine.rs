//! `narrows machine` as a person runs it.
#![allow(clippy::unwrap_used)] // a test's helpers are tests

use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_narrows")).arg("machine").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn list_names_the_presets() {
    let output = narrows(&["list"]);
    assert!(output.status.success());
    let names: Vec<&str> = text(&output.stdout).lines().step_by(2).filter_map(|line| line.split_whitespace().next()).collect();
    let expected: Vec<&str> = narrows_machine::PRESETS.iter().map(|preset| preset.name).collect();
    assert_eq!(names, expected);
    assert!(names.contains(&"bxi-v3") && names.contains(&"dragonfly-342"));
}

#[test]
fn show_prints_a_file_that_shows_the_same() {
    let first = narrows(&["show", "bxi-v2", "--nodes", "16", "--set", "nic.put_occupancy=150ns"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("\ncount = 16\n") && text(&first.stdout).contains("\nput_occupancy = \"150 ns\"\n"));
    let file = std::env::temp_dir().join(format!("narrows-show-{}.toml", std::process::id()));
    std::fs::write(&file, &first.stdout).unwrap();
    let second = narrows(&["show", file.to_str().unwrap()]);
    let check = narrows(&["check", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(text(&second.stdout), text(&first.stdout));
    assert!(check.status.success());
    assert!(text(&check.stdout).ends_with(": ok, 16 nodes of 64 cores, bxi-v2 NICs, fat-tree, links of 11.1 GB/s\n"));
}

#[test]
fn mistakes_go_to_standard_error() {
    for (command, code) in [("show", 2), ("check", 1)] {
        let output = narrows(&[command, "bxi-v2", "--set", "switch.ports=3"]);
        assert_eq!(output.status.code(), Some(code));
        assert!(output.stdout.is_empty());
        let start = "narrows: error: unknown key `ports` in [switch]\n --> --set:1:8\n";
        assert!(text(&output.stderr).starts_with(start), "{}", text(&output.stderr));
    }

    let output = narrows(&["check", "bxi-v4"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("narrows: error: no machine \"bxi-v4\""), "{}", text(&output.stderr));
}

#[test]
fn help_has_examples() {
    for command in ["list", "show", "check"] {
        let output = narrows(&[command, "--help"]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(&format!("  narrows machine {command}")), "{}", text(&output.stdout));
    }
}
