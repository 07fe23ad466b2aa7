//! The recorder under the plain launchers of the installed MPI libraries: all must give the same program.
//!
//! Which MPI libraries: Debian's in /usr, and the wheels in `target/mpis`; or the prefixes in `NARROWS_TEST_MPIS`,
//! separated by colons. One that is not there is left out with a line; if there is none at all, the test fails.

#![allow(clippy::print_stderr, clippy::unwrap_used)]

use narrows_trace::operation::{Collective, CollectiveCall};
use narrows_trace::{Kind, Program, Recording, ideal, merge};
use narrows_units::Bytes;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Mpi {
    bin: PathBuf,
    mpich: bool,
}

fn deps() -> PathBuf {
    env::current_exe().expect("a test has a path").parent().expect("in a folder").to_owned()
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
        found.push(Mpi { mpich: String::from_utf8_lossy(&output.stdout).contains("HYDRA"), bin });
    }
    assert!(!found.is_empty(), "no MPI library to test with");
    found
}

impl Mpi {
    /// Compiles a program, runs it with the recorder, merges. `None` if there is no such compiler.
    fn record(&self, compiler: &str, source: &str, ranks: u32) -> Option<(Output, Recording)> {
        let compiler = self.bin.join(compiler);
        if !compiler.exists() {
            eprintln!("left out: {}", compiler.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
        let made = Command::new(&compiler).arg("-O1").arg(source).arg("-o").arg(&program).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let library = deps().join("libnarrows_recorder.so");
        let mut command = Command::new("timeout");
        command.arg("120").arg(self.bin.join("mpirun"));
        let variables = [("LD_PRELOAD", library.as_os_str()), ("NARROWS_RECORD", folder.path().as_os_str())];
        if self.mpich {
            for (name, value) in variables {
                command.arg("-genv").arg(name).arg(value);
            }
        } else {
            command.args(["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]);
            for (name, value) in variables {
                command.arg("-x").arg(format!("{name}={}", value.display()));
            }
        }
        let output = command.arg("-n").arg(ranks.to_string()).arg(&program).output().unwrap();
        let recording = merge(folder.path()).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&output.stderr)));
        Some((output, recording))
    }
}

/// What a rank does apart from computing.
fn communication(recording: &mut Recording, rank: u32) -> Vec<Kind> {
    let mut after = Vec::new();
    let mut list = Vec::new();
    while let Some(operation) = recording.program.next(rank, &mut after).unwrap() {
        match operation.kind {
            Kind::Compute { .. } => {}
            Kind::Collective(call) => list.push(Kind::Collective(CollectiveCall { element: Bytes(0), ..call })),
            kind => list.push(kind),
        }
    }
    list
}

fn call(operation: Collective, communicator: u32, root: u32, send: u64, receive: u64) -> Kind {
    Kind::Collective(CollectiveCall { operation, communicator, root, send: Bytes(send), receive: Bytes(receive), element: Bytes(0) })
}

fn send(to: u32, bytes: u64, tag: u32) -> Kind {
    Kind::Send { to, bytes: Bytes(bytes), tag }
}

fn receive(from: u32, bytes: u64, tag: u32) -> Kind {
    Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(tag) }
}

/// What a rank does so that its library can give a new communicator its number; `split`: out of so many ranks.
fn agreement(mpi: &Mpi, made: u32, is_first: bool, is_first_of_new: bool, split: Option<u64>) -> Vec<Kind> {
    use Collective::*;
    let bcast = |communicator, is_first| call(Broadcast, communicator, 0, if is_first { 4 } else { 0 }, if is_first { 0 } else { 4 });
    let mut list: Vec<Kind> = split.map(|n| call(Allgather, 0, 0, 8, 8 * n)).into_iter().collect();
    if mpi.mpich {
        list.extend([call(Allreduce, 0, 0, 260, 260), bcast(made, is_first_of_new)]);
    } else {
        list.extend([[call(Reduce, 0, 0, 4, if is_first { 4 } else { 0 }), bcast(0, is_first)]; 3].as_flattened());
    }
    list
}

fn is_agreement(kind: &Kind) -> bool {
    use Collective::*;
    let sizes = [(Allgather, 8), (Reduce, 4), (Broadcast, 4), (Broadcast, 0), (Allreduce, 260)];
    matches!(kind, Kind::Collective(call) if sizes.contains(&(call.operation, call.send.0)) && call.receive.0 <= 260)
}

#[test]
fn every_mpi_gives_the_same_program() {
    for mpi in mpis() {
        let (output, mut recording) = mpi.record("mpicc", "mix.c", 4).expect("mpicc belongs to an MPI");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", mpi.bin.display());
        assert_eq!(recording.unfinished, Vec::<u32>::new());
        let row = recording.program.communicators();
        assert_eq!((row.count(), row.members(1).collect::<Vec<_>>(), row.members(2).collect::<Vec<_>>()), (3, vec![2, 0], vec![3, 1]));
        let outcome = ideal::run(&mut recording.program, &mut ideal::Nobody).unwrap();
        assert_eq!(
            (outcome.messages, outcome.collectives, outcome.problems),
            (27, if mpi.mpich { 14 } else { 17 }, Vec::new()),
            "{}",
            mpi.bin.display()
        );
        recording.program.rewind();
        let mut list = communication(&mut recording, 1);
        let split = agreement(&mpi, 2, false, false, Some(4));
        assert_eq!(list[..split.len()], split, "{}", mpi.bin.display());
        list.drain(..split.len());
        // Tags of other communicators are mixed with their number; both sides agree on it.
        let Kind::Receive { tag: Some(tag), .. } = list[2] else { panic!("{list:?}") };
        use Collective::*;
        let expected = [
            send(0, 8, 1),
            call(Barrier, 0, 0, 0, 0),
            receive(3, 512, tag),
            send(3, 32, tag),
            receive(0, 8, 5),
            send(2, 8, 5),
            receive(0, 64, 9),
            send(2, 64, 9),
            receive(0, 64, 9),
            send(2, 64, 9),
            receive(0, 64, 9),
            send(2, 64, 9),
            call(Allreduce, 2, 0, 24, 24),
            call(Broadcast, 2, 1, 20, 0),
            call(Gatherv, 0, 1, 16, 80),
            call(Alltoall, 0, 0, 64, 64),
            call(Alltoallv, 0, 0, 32, 32),
            // Between receives that were cancelled.
            receive(0, 4, 79),
            send(2, 4, 79),
            call(Broadcast, 0, 1, 56, 0),
            call(Barrier, 0, 0, 0, 0),
        ];
        assert_eq!(list, expected, "{}", mpi.bin.display());
        // Receives from anybody have the sender that they got.
        let sources: Vec<_> = communication(&mut recording, 0)
            .iter()
            .filter(|kind| !is_agreement(kind))
            .take(3)
            .map(|kind| match kind {
                Kind::Receive { from: Some(from), tag: Some(tag), .. } => (*from, *tag),
                other => panic!("{other:?}"),
            })
            .collect();
        let mut sorted = sources.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [(1, 1), (2, 2), (3, 3)]);
    }
}

/// Collectives among neighbours become their messages; with MPI 4 persistent collectives and MPI_Isendrecv.
#[test]
fn neighbours_and_persistent_collectives() {
    let mut newer = 0;
    for mpi in mpis() {
        let (output, mut recording) = mpi.record("mpicc", "neighbours.c", 4).expect("mpicc belongs to an MPI");
        assert!(output.status.success(), "{}: {}", mpi.bin.display(), String::from_utf8_lossy(&output.stderr));
        let outcome = ideal::run(&mut recording.program, &mut ideal::Nobody).unwrap();
        recording.program.rewind();
        assert_eq!(outcome.problems, Vec::<String>::new(), "{}", mpi.bin.display());
        let mut list = communication(&mut recording, 0);
        list.retain(|kind| !is_agreement(kind));
        // The end of a row has one neighbour; the square four places, two at each of two ranks; then one before and one
        // behind.
        let parts = |kinds: &[Kind]| -> Vec<(char, u32, u64)> {
            let part = |kind: &Kind| match *kind {
                Kind::Receive { from: Some(from), bytes, tag: Some(_) } => ('r', from, bytes.0),
                Kind::Send { to, bytes, .. } => ('s', to, bytes.0),
                Kind::Collective(call) => ('c', call.root, call.send.0),
                ref other => panic!("{other:?}"),
            };
            kinds.iter().map(part).collect()
        };
        let expected = [
            &[('r', 1, 24), ('s', 1, 24)][..],
            &[('r', 2, 8), ('r', 2, 16), ('r', 1, 24), ('r', 1, 32), ('s', 2, 16), ('s', 2, 8), ('s', 1, 32), ('s', 1, 24)],
            &[('r', 3, 20), ('s', 1, 20)],
            &[('s', 1, 24), ('r', 3, 24)],
        ]
        .concat();
        assert_eq!(parts(&list[..expected.len()]), expected, "{}", mpi.bin.display());
        let rest = parts(&list[expected.len()..]);
        if !rest.is_empty() {
            newer += 1;
            let start = [('c', 0, 72), ('r', 3, 16), ('s', 1, 16)];
            let parts = [('r', 3, 96), ('s', 1, 4), ('r', 3, 4), ('s', 1, 96)];
            let expected = [&[('r', 3, 28), ('s', 1, 28)][..], &start, &start, &parts, &parts].concat();
            assert_eq!(rest, expected, "{}", mpi.bin.display());
        }
        let made = if mpi.mpich { 3 * 2 } else { 3 * 6 };
        assert_eq!((outcome.messages, outcome.collectives - made), if rest.is_empty() { (6 + 24, 0) } else { (6 + 24 + 12 + 16, 2) });
    }
    eprintln!("with MPI 4: {newer}");
}

/// Collectives between groups become messages and collectives of each group: by the definition of each, what the groups
/// send each other.
#[test]
fn between_groups() {
    for mpi in mpis() {
        let (output, mut recording) = mpi.record("mpicc", "groups.c", 5).expect("mpicc belongs to an MPI");
        let name = mpi.bin.display();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let outcome = ideal::run(&mut recording.program, &mut ideal::Nobody).unwrap();
        assert_eq!(outcome.problems, Vec::<String>::new(), "{name}");
        // Each rank has put 10 doubles and fetched 3.
        assert_eq!((recording.one_sided, recording.one_sided_bytes), (10, 5 * 13 * 8), "{name}");
        recording.program.rewind();
        let mut moved = [0; 2];
        for rank in 0..5 {
            for kind in communication(&mut recording, rank) {
                match kind {
                    // Not those of the two duplicates.
                    Kind::Send { to, bytes, .. } if (rank < 2) != (to < 2) => moved[usize::from(rank < 2)] += bytes.0,
                    Kind::Send { to, .. } => assert_eq!((rank, to), (0, 1)),
                    _ => {}
                }
            }
        }
        // In doubles. All-to-all-v and -w: the sum of i + j over 2 x 3, each.
        let matrix = 2 * (3 + 2 * (1 + 2));
        let exchanged = 6 + 6 + 6 + 8;
        let back = 4 + 3 * 2 + (1 + 2 + 3) + 3 * 4 + 2 * (1 + 2 + 3) + 3 * 2 * 2 + matrix + exchanged;
        let there = 3 + 3 * 5 + (1 + 2 + 3) + 2 * 3 + 3 * (1 + 2) + 3 * 2 * 2 + matrix + exchanged + 7;
        // And the int of the barrier.
        assert_eq!(moved, [back * 8 + 4, there * 8 + 4], "{name}");
        recording.program.rewind();
        // The root of the first group, and the leader of the second.
        let list = communication(&mut recording, 1);
        let part = |kind: &Kind| match *kind {
            Kind::Receive { from: Some(from), bytes, tag: Some(_) } => ("receive", from, bytes.0),
            Kind::Send { to, bytes, .. } => ("send", to, bytes.0),
            Kind::Collective(call) => (call.operation.name(), call.communicator, call.send.0),
            ref other => panic!("{other:?}"),
        };
        let begin: Vec<_> = list.iter().filter(|kind| !is_agreement(kind)).map(part).take(12).collect();
        let expected = [
            ("receive", 0, 16),
            ("receive", 0, 8),
            ("send", 2, 24),
            ("receive", 2, 32),
            ("receive", 2, 48),
            ("receive", 2, 8),
            ("receive", 3, 16),
            ("receive", 4, 24),
            ("send", 2, 120),
            ("send", 2, 8),
            ("send", 3, 16),
            ("send", 4, 24),
        ];
        assert_eq!(begin, expected, "{name}");
        let begin: Vec<_> = communication(&mut recording, 2).iter().filter(|kind| !is_agreement(kind)).map(part).take(12).collect();
        let expected = [
            ("receive", 1, 24),
            ("bcast", 6, 24),
            ("reduce", 6, 32),
            ("send", 1, 32),
            ("gather", 6, 16),
            ("send", 1, 48),
            ("send", 1, 8),
            ("receive", 1, 120),
            ("scatter", 6, 120),
            ("receive", 1, 8),
            ("receive", 0, 4),
            ("send", 0, 4),
        ];
        assert_eq!(begin, expected, "{name}");
    }
}

#[test]
fn fortran_programs() {
    let mut tested = 0;
    for mpi in mpis() {
        let Some((output, mut recording)) = mpi.record("mpif90", "fortran.f90", 3) else { continue };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected =
            [receive(0, 512, 3), send(2, 32, 3), call(Collective::Allreduce, 0, 0, 24, 24), call(Collective::Broadcast, 0, 2, 0, 20)];
        assert_eq!(communication(&mut recording, 1), expected, "{}", mpi.bin.display());
        tested += 1;
    }
    assert!(tested > 0, "no MPI has mpif90");
}

/// What was written before the end is readable.
#[test]
fn a_killed_rank() {
    for mpi in mpis() {
        let (output, mut recording) = mpi.record("mpicc", "killed.c", 2).expect("mpicc belongs to an MPI");
        assert!(!output.status.success());
        assert_eq!(recording.unfinished, [0, 1]);
        let list = communication(&mut recording, 1);
        assert_eq!(list.len(), 1400, "{}", mpi.bin.display());
        assert_eq!(list[1398..], [receive(0, 4, 0), send(0, 4, 0)]);
    }
}
