//! Completions and manual pages have every command.

use std::process::{Command, Output};

fn narrows(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Those that --help lists.
fn commands() -> Vec<String> {
    let help = String::from_utf8(narrows(&["--help"]).stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_is_completed_and_has_a_page() {
    let commands = commands();
    assert!(commands.len() > 12 && commands.iter().any(|name| name == "replay"), "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(narrows(&["completions", shell]).stdout).unwrap();
        assert!(commands.iter().all(|name| script.contains(name.as_str())) && script.contains("compute-scale"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    narrows(&["man", folder.path().to_str().unwrap()]);
    for name in &commands {
        let page = std::fs::read_to_string(folder.path().join(format!("narrows-{name}.1"))).unwrap();
        assert!(page.contains(".TH narrows") && page.contains("SYNOPSIS"), "{name}: {page}");
    }
    let inner = std::fs::read_to_string(folder.path().join("narrows-trace-convert.1")).unwrap();
    assert!(inner.contains("expand"), "{inner}");
}
