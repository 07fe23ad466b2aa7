//! Completions and manual pages have every command; lines of help fit into 100 columns.

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
        let parts = [".TH narrows", "SYNOPSIS", ".SH EXAMPLES", ".SH \"EXIT STATUS\"", ".SH EXIT STATUS"];
        assert!(parts[..3].iter().all(|part| page.contains(part)) && parts[3..].iter().any(|part| page.contains(part)), "{name}: {page}");
    }
    let run = std::fs::read_to_string(folder.path().join("narrows-run.1")).unwrap();
    assert!(run.contains("narrows run \\-n 16 \\-\\- ./my_mpi_program arg1 arg2\n") && run.contains(".TP\n127\n"), "{run}");
    let inner = std::fs::read_to_string(folder.path().join("narrows-trace-convert.1")).unwrap();
    assert!(inner.contains("expand"), "{inner}");
}

/// A command and all below it.
fn help_of(words: &[&str], all: &mut Vec<(String, String)>) {
    let text = String::from_utf8(narrows(&[words, &["--help"]].concat()).stdout).unwrap();
    let list = text.split("Commands:\n").nth(1).and_then(|list| list.split("\n\n").next()).unwrap_or_default().to_owned();
    all.push((words.join(" "), text));
    let names =
        list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        help_of(&[words, &[name]].concat(), all);
    }
}

#[test]
fn lines_of_help_fit_into_100_columns_and_each_command_has_an_example() {
    let mut all = Vec::new();
    help_of(&[], &mut all);
    assert!(all.len() > 30, "{}", all.len());
    for (command, text) in all {
        // Usage is one line, whatever it has.
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100 && !line.starts_with("Usage:")).collect();
        assert!(wide.is_empty(), "{command}: {wide:?}");
        assert!(text.contains("Example"), "{command}: {text}");
        // An example that is broken into two lines cannot be copied.
        let examples = text.split("Example").nth(1).unwrap().lines().skip(1).take_while(|line| line.starts_with("  "));
        let broken: Vec<&str> = examples.filter(|line| line.starts_with("  narrows") && line.ends_with(" \\")).collect();
        assert!(broken.is_empty(), "{command}: {broken:?}");
    }
}

#[test]
fn options_of_run_stand_in_groups() {
    let text = String::from_utf8(narrows(&["run", "--help"]).stdout).unwrap();
    let groups = ["Program:", "Machine:", "Placement:", "Computing times:", "Simulation:", "Results:", "Checks:"];
    assert!(groups.iter().all(|group| text.contains(&format!("\n{group}\n"))), "{text}");
    let options = text.split("\nOptions:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(options.contains("--verbose") && !options.contains("--machine"), "{options}");
}
