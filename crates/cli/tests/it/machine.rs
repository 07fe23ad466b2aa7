//! `narrows machine` as a person runs it.

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

/// What a key means, and which file and line its value is from: of overrides, the file, its base, and defaults.
#[test]
fn explain_says_where_values_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, "[machine]\nname = \"mine\"\nbase = \"bxi-v3\"\n[network]\nmtu = \"2 KiB\" # measured\n").unwrap();
    let explain = |words: &[&str]| {
        let output = narrows(&[&["explain", "--machine", file.to_str().unwrap()], words].concat());
        (output.status.code(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let (code, said, told) = explain(&["network.mtu"]);
    let expected =
        format!("network.mtu = \"2 KiB\"\n  from {}, line 5: measured\n  Most payload of one packet\n  size, above 0\n", file.display());
    assert_eq!((code, said.as_str(), told.as_str()), (Some(0), expected.as_str(), ""));
    for (words, says) in [
        (&["network.buffer"][..], "  from preset bxi-v3, line "),
        (&["network.buffer"], ": [own] above rate x round trip"),
        (&["network.mtu", "--set", "network.mtu=1KiB"], "network.mtu = \"1 KiB\"\n  from --set\n"),
        (&["node.rails"], "node.rails = 1\n  from the default\n"),
        (&["node.rails"], "number, 1 to 16; without it 1\n"),
        (&["link.host"], "link.host.bandwidth = \"50 GB/s\"\n"),
        (&["put_occup"], "nic.put_occupancy = \"2.5 ns\"\n"),
    ] {
        let (code, said, told) = explain(words);
        assert!(code == Some(0) && said.contains(says), "{words:?}: {said}{told}");
    }
    let (_, all, _) = explain(&["--csv"]);
    let (_, shown, _) = explain(&["", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(all.lines().count(), shown.as_array().unwrap().len() + 1);
    for wrong in ["network.bufer", "bufer"] {
        let (code, said, told) = explain(&[wrong]);
        let expected = format!(
            "narrows: error: no key `{wrong}` in mine; did you mean \"network.buffer\"?; narrows machine explain without a key prints all\n"
        );
        assert_eq!((code, said.as_str(), told.as_str()), (Some(2), "", expected.as_str()));
    }
}

/// A machine file with a mistake, and everybody who reads it: check, run and replay say the same.
#[test]
fn check_accepts_what_replays_accept() {
    let folder = std::env::temp_dir().join(format!("narrows-machine-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    };
    let trace = write("a.goal", "num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n");
    let table = write("table.txt", "bcast *: binomial\nbcast *: ring\n");
    let base = "[machine]\nname = \"a\"\nbase = \"bxi-v2\"\n[node]\ncount = 4\n";
    let cases = [
        (format!("{base}[collectives]\ntable = \"nowhere.txt\"\n"), "cannot read the collectives table nowhere.txt"),
        (format!("{base}[collectives]\ntable = \"{table}\"\n"), "line 2: "),
        (format!("{base}[collectives]\nrules = [\"bcast *: binary\", \"bcast *: ring\"]\n"), "a.toml:7:29"),
        (format!("{base}[message]\nmax_portals_message = \"256 TiB\"\n"), "no network takes so long a message"),
        (format!("{base}[link.host]\nbandwidth = \"1 B/s\"\n"), "1 B/s is out of range"),
        (base.replace("\"a\"", "\"\""), "the name of the machine is empty"),
        (base.replace("\"a\"", "\"a\\u0007\""), "the name of the machine has control characters"),
        (format!("{base}[network]\nkind = \"packet\"\n"), ""),
    ];
    for (text_of_file, expected) in cases {
        let file = write("a.toml", &text_of_file);
        for arguments in [&["machine", "check", &file][..], &["replay", &trace, "--machine", &file]] {
            let output = Command::new(env!("CARGO_BIN_EXE_narrows")).args(arguments).output().unwrap();
            let message = text(&output.stderr);
            assert_eq!(output.status.success(), expected.is_empty(), "{arguments:?}: {text_of_file}{message}");
            assert!(message.contains(expected), "{arguments:?}: {message}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn help_has_examples() {
    for command in ["list", "show", "check"] {
        let output = narrows(&[command, "--help"]);
        assert!(output.status.success());
        assert!(text(&output.stdout).contains(&format!("  narrows machine {command}")), "{}", text(&output.stdout));
    }
}
