//! A host that lacks something: each case ends with a line that names it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// `narrows ARGUMENTS` under a limit of the shell's.
fn narrows(limit: &str, arguments: &str) -> Output {
    let script = format!("{limit} && exec {} {arguments}", env!("CARGO_BIN_EXE_narrows"));
    Command::new("bash").args(["-c", &script]).output().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("narrows-resources-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[track_caller]
fn refused(limit: &str, arguments: &str, part: &str) {
    let output = narrows(limit, arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{limit}: {arguments}: {error}");
    assert!(error.contains(part) && error.lines().count() == 1, "{limit}: {arguments}: {error}");
}

#[test]
fn memory() {
    let folder = folder("memory");
    let trace = folder.join("a.goal");
    std::fs::write(&trace, "num_ranks 16777216\n").unwrap();
    refused("ulimit -v 600000", &format!("trace check {}", trace.display()), "out of memory");
    refused("ulimit -v 600000", &format!("generate halo3d --ranks 16777216 -o {}/b.vef", folder.display()), "out of memory");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_small_stack_does() {
    for size in [64, 256, 8192] {
        let output = narrows(&format!("ulimit -s {size}"), "traffic uniform --nodes 8 --load 0.1 --time 10us");
        assert!(output.status.success(), "{size} KiB: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn open_files() {
    refused("ulimit -n 20", "run -n 4 -- /bin/true", "4 ranks and their launcher take 48 open files, and the limit is 20");
}

#[test]
fn temporary_files() {
    let folder = folder("temporary");
    let trace = folder.join("a.goal");
    std::fs::write(&trace, "num_ranks 1\nrank 0 {\ncalc 1\n}\n").unwrap();
    let limit = "export TMPDIR=/nowhere/at-all";
    refused(limit, &format!("replay {}", trace.display()), "temporary files go to /nowhere/at-all ($TMPDIR): No such file");
    refused(limit, "run -n 4 -- /bin/true", "temporary files go to /nowhere/at-all ($TMPDIR): No such file");
    std::fs::remove_dir_all(&folder).unwrap();
}
