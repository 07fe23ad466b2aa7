//! Where results and messages go, and what becomes of files that cannot be written.

use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn narrows(folder: &Path, arguments: &[&str]) -> Command {
    // Tests may run in the background, where shells have SIGINT ignored; a user's commands do not.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(env!("CARGO_BIN_EXE_narrows")).current_dir(folder).args(arguments);
    command
}

fn output(folder: &Path, arguments: &[&str]) -> Output {
    narrows(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Standard output of a command that succeeds.
fn good(folder: &Path, arguments: &[&str]) -> String {
    let output = output(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

fn generate(folder: &Path) {
    good(folder, &["generate", "halo3d", "--ranks", "8", "--steps", "2", "-o", "a.vef"]);
}

/// Commands that print a table, with what their CSV begins with.
const TABLES: [(&[&str], &str); 9] = [
    (&["machine", "list"], "name,description,nodes,"),
    (&["machine", "show", "bxi-v2"], "key,value\n"),
    (&["machine", "check", "bxi-v2"], "file,line,column,message,help\n"),
    (&["topology", "show", "bxi-v2"], "routing,virtual_channels,"),
    (&["trace", "info", "a.vef"], "key,value\n"),
    (&["trace", "check", "a.vef"], "line,message\n"),
    (&["replay", "a.vef"], "application,ranks,"),
    (&["traffic", "uniform", "--nodes", "16", "--load", "0.1,0.2", "--warmup", "5us", "--time", "5us"], "load,class,"),
    (&["analyse", "a.vef", "--report", "report"], "key,value\n"),
];

#[test]
fn tables_are_there_as_json_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path());
    for (command, head) in TABLES {
        let json: Value = serde_json::from_str(&good(folder.path(), &[command, &["--json"]].concat())).unwrap();
        assert!(json.is_object() || json.is_array(), "{command:?}");
        let csv = good(folder.path(), &[command, &["--csv"]].concat());
        assert!(csv.starts_with(head), "{command:?}: {csv}");
        assert!(!good(folder.path(), command).contains("narrows: "), "{command:?}: results have no prefix");
        let both = output(folder.path(), &[command, &["--csv", "--json"]].concat());
        assert_eq!(both.status.code(), Some(2));
        assert!(text(&both.stderr).starts_with("narrows: error: the argument '--"), "{}", text(&both.stderr));
    }
    let wrong = output(folder.path(), &["machine", "check", "bxi-v2", "--set", "switch.ports=3", "--json"]);
    let json: Value = serde_json::from_str(text(&wrong.stdout)).unwrap();
    assert_eq!((wrong.status.code(), &json["ok"], &json["mistakes"][0]["column"]), (Some(1), &false.into(), &8.into()));
    // What only the whole network shows has no place in the file.
    let sets = ["network.congestion=s-perc", "network.reliability.delivery=ordered", "network.virtual_channels=16"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let channels = output(folder.path(), &[&["machine", "check", "bxi-v2", "--nodes", "16", "--json"], &sets[..]].concat());
    let json: Value = serde_json::from_str(text(&channels.stdout)).unwrap();
    assert_eq!((channels.status.code(), &json["ok"]), (Some(1), &false.into()));
    assert!(json["network"].as_str().unwrap().contains("virtual networks times channels must be at most 64"), "{json}");
    assert!(text(&channels.stderr).starts_with("narrows: error: no network: 16 virtual channels"), "{}", text(&channels.stderr));
}

#[test]
fn nobody_listens_and_nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path());
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    // A pipe that nobody reads any more.
    let closed = || {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = child.stdin.take().unwrap();
        child.wait().unwrap();
        Stdio::from(pipe)
    };
    let wrong: [&[&str]; 5] = [
        &["trace", "info", "b.vef"],
        &["machine", "show", "bxi-v9"],
        &["replay"],
        &["traffic", "none"],
        &["run", "-n", "1", "--", "./none"],
    ];
    for arguments in TABLES.iter().map(|(command, _)| *command).chain(wrong) {
        let expected = output(folder.path(), arguments).status.code();
        for stream in [Stdio::from(full()), closed()] {
            let status = narrows(folder.path(), arguments).stdout(Stdio::null()).stderr(stream).status().unwrap();
            assert_eq!(status.code(), expected, "{arguments:?} without standard error");
        }
        let status = narrows(folder.path(), arguments).stdout(closed()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), expected, "{arguments:?} | true");
        let status = narrows(folder.path(), arguments).stdout(full()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), if expected == Some(0) { Some(3) } else { expected }, "{arguments:?} > /dev/full");
    }
}

#[test]
fn traces_go_through_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let piped = |command: &str| {
        let line = command.replace("narrows", env!("CARGO_BIN_EXE_narrows"));
        let output = Command::new("sh").current_dir(folder.path()).args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    for format in ["vef", "goal", "goal-binary", "jsonl"] {
        let line = format!("narrows generate fft3d --ranks 8 -o - --to {format} | narrows trace check -");
        assert!(piped(&line).ends_with("8 ranks, 24 messages, 0 collectives, 300 us on an ideal machine\n"), "{format}");
    }
    piped(
        "narrows generate fft3d --ranks 8 -o a.vef && mkfifo pipe && (cat a.vef > pipe & narrows trace convert pipe - --to vef | cmp - a.vef)",
    );
    assert!(piped("narrows replay - < a.vef").starts_with("standard input: 8 ranks, finished at "));
    assert!(piped("narrows machine show bxi-v2 --nodes 16 | narrows machine check -").starts_with("-: ok, 16 nodes"));
    assert!(piped("printf '0 1 send 1\\n1 0 recv\\n' >/dev/null; narrows topology show bxi-v2 --nodes 4 --dot -").starts_with("graph "));
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.vef", "pipe"]);
}

#[test]
fn a_result_that_cannot_be_kept_is_still_told() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path());
    fs::create_dir(folder.path().join("out")).unwrap();
    symlink("/dev/full", folder.path().join("out/summary.json")).unwrap();
    let replay: &[&str] = &["replay", "a.vef", "--out", "out"];
    let traffic: &[&str] = &["traffic", "uniform", "--nodes", "16", "--load", "0.1", "--warmup", "5us", "--time", "5us", "--out", "out"];
    for (command, told) in [(replay, "a: 8 ranks, finished at "), (traffic, "uniform on 16 nodes")] {
        let output = output(folder.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command:?}");
        assert!(text(&output.stdout).contains(told), "{command:?}: {}", text(&output.stdout));
        let message = text(&output.stderr);
        assert!(message.starts_with("narrows: error: out/summary.json: No space left on device"), "{message}");
        assert!(message.ends_with("; free some space, or write to another disk\n"), "{message}");
    }
    let timeline = output(folder.path(), &["replay", "a.vef", "--timeline", "/dev/full"]);
    assert_eq!(timeline.status.code(), Some(3), "{}", text(&timeline.stderr));
    assert!(text(&timeline.stdout).starts_with("a: 8 ranks, finished at "), "{}", text(&timeline.stdout));
    assert!(text(&timeline.stderr).starts_with("narrows: error: /dev/full: No space left on device"), "{}", text(&timeline.stderr));
    assert!(fs::symlink_metadata(folder.path().join("out/summary.json")).unwrap().is_symlink());
    let trace = output(folder.path(), &["generate", "halo3d", "--ranks", "8", "-o", "/dev/full", "--to", "jsonl"]);
    assert_eq!(trace.status.code(), Some(3), "{}", text(&trace.stderr));
}

/// Waits until the process has a file that is not finished yet.
fn writes(child: &mut Child, folder: &Path) {
    let files = format!("/proc/{}/fd", child.id());
    let begun = || {
        let links = fs::read_dir(&files).ok()?.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        Some(links.filter(|link| link.starts_with(folder)).count() > 0)
    };
    while !begun().unwrap_or(false) {
        assert!(child.try_wait().unwrap().is_none(), "over before it was interrupted");
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    // Many seconds of work.
    let mut child = narrows(&place, &["generate", "halo3d", "--ranks", "32768", "--steps", "1000", "-o", "a.jsonl"]).spawn().unwrap();
    writes(&mut child, &place);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(2));
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn an_interrupted_replay_does_not_say_that_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    good(folder.path(), &["generate", "halo3d", "--ranks", "64", "--steps", "1000", "-o", "a.goal"]);
    for options in [&["--nodes", "64"][..], &["--network", "loggp", "--loggp", "L=1us"]] {
        let printed = folder.path().join("printed");
        let mut child = narrows(folder.path(), &[&["replay", "a.goal"], options].concat())
            .stdout(File::create(&printed).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From the moment on in which it has handlers of its own it ends in an orderly way: bit 1 is SIGINT.
        let handles = || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim().to_owned();
            u64::from_str_radix(&caught, 16).unwrap() & 2 != 0
        };
        while !handles() {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(1));
        let text = fs::read_to_string(&printed).unwrap();
        assert!(text.starts_with("a: 64 ranks, stopped at ") && text.contains(" 64 ranks not finished, "), "{text}");
    }
}

#[test]
fn former_options_are_told_the_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (former, value, today) in [
        ("--compute-from", "times.json", "--compute-from: expected --compute FILE\n"),
        ("--compute-like", "one.json", "--compute-like: expected --compute-scale FILE\n"),
        ("--compute-out", "times.json", "--compute-out: expected --out DIR, which keeps DIR/computing.json\n"),
        ("--offload", "allreduce", "--offload: expected --set 'collectives.rules=[\"allreduce *: exanet-accelerator <4097,"),
        ("--compute", "pooled:0.5", "expected pooled, with --compute-scale 0.5"),
        (
            "--compute",
            "some",
            "some: expected measured, sampled, pooled, instructions[:RATE], cycles, none, or the file or folder of an earlier run",
        ),
        ("--compute-scale", "one.json", "\"one.json\": expected a number from 0 to 1000000, or a file that a run of one rank has kept"),
    ] {
        let wrong = output(folder.path(), &["run", "-n", "2", former, value, "--", "./app"]);
        assert_eq!(wrong.status.code(), Some(2), "{former}");
        assert!(text(&wrong.stderr).starts_with("narrows: error: ") && text(&wrong.stderr).contains(today), "{}", text(&wrong.stderr));
    }
}

/// What users of other launchers write first.
#[test]
fn a_word_out_of_place_gets_the_line_to_write() {
    let folder = tempfile::tempdir().unwrap();
    for (words, says) in [
        (&["run", "-n", "2", "./app", "-x", "1"][..], "./app: expected -- in front of the program: narrows run -n 2 -- ./app -x 1\n"),
        (&["record", "./app"], "./app: expected -- in front of the program: narrows record -- ./app\n"),
        (&["run", "-np", "4", "./app"], "-np: expected -n RANKS, such as narrows run -n 4 -- ./app\n"),
        (&["traffic", "uniform", "other", "third"], "unexpected argument 'third' found"),
    ] {
        let wrong = output(folder.path(), words);
        assert_eq!(wrong.status.code(), Some(2), "{words:?}");
        assert!(text(&wrong.stderr).starts_with(&format!("narrows: error: {says}")), "{}", text(&wrong.stderr));
    }
    let alone = output(folder.path(), &[]);
    assert!(alone.status.success() && alone.stderr.is_empty() && text(&alone.stdout).contains("Usage: narrows [OPTIONS] [COMMAND]"));
    let cite = output(folder.path(), &["--cite"]);
    assert!(cite.status.success() && text(&cite.stdout).starts_with("@software{narrows,"));
}
