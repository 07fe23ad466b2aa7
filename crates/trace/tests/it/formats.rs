//! Every format against its description, and against itself: what is written reads back as the same program.

use narrows_trace::operation::{Collective, CollectiveCall, Event};
use narrows_trace::{
    Anonymous, Communicators, Dependency, Format, Kind, Operation, Order, Program, ReadOptions, Recorded, Scaled, TraceError, ideal,
};
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

type Operations = Vec<(Operation, Vec<Dependency>)>;

/// A file with this content, in a folder of its own.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file(name: &str, content: impl AsRef<[u8]>) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    File { _folder: folder, path }
}

fn operations(program: &mut dyn Program) -> Vec<Operations> {
    let mut after = Vec::new();
    let mut all = Vec::new();
    for rank in 0..program.ranks() {
        let mut list = Vec::new();
        while let Some(operation) = program.next(rank, &mut after).unwrap() {
            list.push((operation, after.clone()));
        }
        all.push(list);
    }
    all
}

fn read(content: &str) -> Vec<Operations> {
    let file = file("trace", content);
    operations(&mut narrows_trace::open(&file.path, ReadOptions::default()).unwrap().program)
}

fn mistakes(content: impl AsRef<[u8]>) -> Vec<String> {
    let file = file("trace", content);
    let mut found = Vec::new();
    let result = narrows_trace::read(&file.path, ReadOptions::default(), &mut |mistake| {
        found.push(mistake.to_string());
        Ok(())
    });
    found.extend(result.err().map(|error| error.to_string()));
    let prefix = file.path.display().to_string();
    found.iter().map(|text| text.strip_prefix(&prefix).unwrap().trim_start_matches(':').trim_start().to_owned()).collect()
}

fn send(to: u32, bytes: u64, tag: u32, delay_ns: u64) -> Operation {
    Operation { delay: SimTime::from_ns(delay_ns), ..Operation::new(Kind::Send { to, bytes: Bytes(bytes), tag }) }
}

fn receive(from: u32, bytes: u64, tag: u32) -> Operation {
    Operation::new(Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(tag) })
}

fn collective(operation: Collective, root: u32, send: u64, receive: u64, delay_ns: u64) -> Operation {
    let kind = Kind::Collective(CollectiveCall {
        operation,
        communicator: 0,
        root,
        send: Bytes(send),
        receive: Bytes(receive),
        element: Bytes(0),
    });
    Operation { delay: SimTime::from_ns(delay_ns), ..Operation::new(kind) }
}

const PING_PONG: &str = "\
VEF 2 2 1 1 2 TRUE
C0 0 1
0 0 1 4096 0 1000 -1
1 0 1 64 1 500 0
G0 0 6 0 0 0 1 200 1
G0 0 6 1 0 0 2 0 1
";

#[test]
fn vef_as_described() {
    let barrier = |delay| collective(Collective::Barrier, 0, 0, 0, delay);
    let expected = vec![
        vec![(send(1, 4096, 0, 1000), vec![]), (send(1, 64, 1, 500), vec![Dependency::done(0)]), (barrier(200), vec![Dependency::done(1)])],
        vec![(receive(0, 4096, 0), vec![]), (receive(0, 64, 1), vec![]), (barrier(0), vec![Dependency::done(1)])],
    ];
    assert_eq!(read(PING_PONG), expected);
}

#[test]
fn vef_variants_seen_in_the_wild() {
    let usual = read(PING_PONG);
    // A clock at the end of the header, a version in the first word.
    assert_eq!(read(&PING_PONG.replace("VEF 2 2 1 1 2 TRUE", "VEF3 2 2 1 1 2 TRUE 2500000000")), usual);
    // The bit that marks a message as dependency.
    assert_eq!(read(&PING_PONG.replace("64 1 500 0", "64 5 500 0").replace("0 0 2 0 1", "0 0 6 0 1")), usual);
    // A dependency on a record further down: the same operations, each behind what it waits for.
    let forward = "VEF 2 2 1 0 0 TRUE\nC0 0 1\n0 0 1 64 2 500 1\n1 1 0 4096 0 1000 -1\n";
    let expected = vec![
        vec![(receive(1, 4096, 1), vec![]), (send(1, 64, 0, 500), vec![Dependency::done(0)])],
        vec![(send(0, 4096, 1, 1000), vec![]), (receive(0, 64, 0), vec![])],
    ];
    assert_eq!(read(forward), expected);
}

#[test]
fn vef_collectives_are_told_from_their_sizes() {
    let case = |code: u8, sizes: [(u64, u64); 3]| {
        let lines = sizes.iter().enumerate().map(|(task, (send, receive))| format!("G0 0 {code} {task} {send} {receive} 0 0 -1\n"));
        let text = format!("VEF 3 0 1 1 3 TRUE\nC0 0 1 2\n{}", lines.collect::<String>());
        let calls = read(&text).into_iter().map(|list| match list[0].0.kind {
            Kind::Collective(call) => (call.operation, call.root, call.send.0, call.receive.0),
            other => panic!("{other:?}"),
        });
        calls.collect::<Vec<_>>()
    };
    use Collective::*;
    assert_eq!(case(0, [(0, 8), (8, 0), (0, 8)]), [(Broadcast, 1, 0, 8), (Broadcast, 1, 8, 0), (Broadcast, 1, 0, 8)]);
    assert_eq!(case(1, [(8, 0), (8, 0), (0, 8)]), [(Reduce, 2, 8, 0), (Reduce, 2, 8, 0), (Reduce, 2, 8, 8)]);
    assert_eq!(case(2, [(8, 8); 3]), [(Allreduce, 0, 8, 8); 3]);
    assert_eq!(case(3, [(8, 24), (8, 0), (8, 0)]), [(Gather, 0, 8, 24), (Gather, 0, 8, 0), (Gather, 0, 8, 0)]);
    assert_eq!(case(3, [(1, 6), (2, 0), (3, 0)]), [(Gatherv, 0, 1, 6), (Gatherv, 0, 2, 0), (Gatherv, 0, 3, 0)]);
    assert_eq!(case(4, [(24, 0), (0, 8), (0, 8)]), [(Scatter, 0, 24, 8), (Scatter, 0, 0, 8), (Scatter, 0, 0, 8)]);
    assert_eq!(case(4, [(6, 1), (0, 2), (0, 3)]), [(Scatterv, 0, 6, 1), (Scatterv, 0, 0, 2), (Scatterv, 0, 0, 3)]);
    assert_eq!(case(5, [(8, 24); 3]), [(Allgather, 0, 8, 24); 3]);
    assert_eq!(case(5, [(1, 6), (2, 6), (3, 6)]), [(Allgatherv, 0, 1, 6), (Allgatherv, 0, 2, 6), (Allgatherv, 0, 3, 6)]);
    assert_eq!(case(6, [(0, 0); 3]), [(Barrier, 0, 0, 0); 3]);
    assert_eq!(case(7, [(8, 0); 3]), [(Alltoall, 0, 24, 24); 3]);
    assert_eq!(case(7, [(8, 1), (9, 1), (0, 1)]), [(Alltoallv, 0, 8, 0), (Alltoallv, 0, 9, 0), (Alltoallv, 0, 0, 0)]);
}

/// Task 0 is in a broadcast that waits for a message, and before that in a reduction, for which it computes longer than
/// the message takes.
#[test]
fn vef_collectives_of_a_communicator_start_in_their_order() {
    let text = "\
VEF 3 1 2 2 4 TRUE
C0 0 1 2
C1 0 1
0 2 0 64 0 0 -1
G0 1 1 0 0 8 0 1000 -1
G0 1 1 1 8 0 0 0 -1
G1 1 0 0 8 0 2 0 0
G1 1 0 1 0 8 3 0 G0
";
    let file = file("trace.vef", text);
    let outcome = ideal::run(&mut narrows_trace::open(&file.path, ReadOptions::default()).unwrap().program, &mut ideal::Nobody).unwrap();
    assert_eq!((outcome.problems, outcome.collectives), (Vec::new(), 2));
}

#[test]
fn vef_mistakes_name_their_line_and_what_was_expected() {
    assert_eq!(mistakes(""), ["expected lines of a rank, an action and its arguments, found none"]);
    let cases = [
        ("VEF 2 2 1 1 2", "VEF 0 2 1 1 2", "1: expected at least one task, found 0"),
        ("TRUE", "FALSE", "1: expected TRUE (all point-to-point dependencies are those of the send), found 'FALSE'"),
        ("C0 0 1", "C0 0 0", "2: expected C0 to have all 2 tasks, each once, found 2 members"),
        ("0 0 1 4096", "7 0 1 4096", "3: expected message 0 (IDs count up from 0), found 7"),
        ("0 0 1 4096", "0 0 2 4096", "3: expected the destination task (a whole number up to 1), found '2'"),
        ("0 1000 -1", "0 -5 -1", "3: expected a time in ns (not negative), found '-5'"),
        ("0 1000 -1", "0 1000 3", "3: expected IDdep -1 for Dep 0, found '3'"),
        ("64 1 500 0", "64 1 500", "4: expected IDdep, but the line ends"),
        ("64 1 500 0", "64 2 500 0", "4: expected task 0 to depend on a message that it receives; task 1 receives message 0"),
        ("64 1 500 0", "64 1 500 9", "4: expected a dependency on a record of this file; message 9 is not in it"),
        ("64 1 500 0", "64 3 500 G0", "4: expected dependencies without a circle; collective G0 never gets its turn"),
        ("G0 0 6 1 0 0 2 0 1", "G0 0 2 1 0 0 2 0 1", "6: expected operation 6 on C0 as in the other lines of G0, found 2 on C0"),
        (
            "G0 0 6 1 0 0 2 0 1",
            "G0 0 6 0 0 0 1 0 1",
            "6: expected each task once in G0, and the collectives of C0 in the same order everywhere",
        ),
        ("G0 0 6 1 0 0 2 0 1\n", "", "5: expected a line of each of the 2 tasks of C0, found 1"),
        ("VEF 2 2 1", "VEF 2 3 1", "1: expected 3 messages as the header says, found 2"),
    ];
    for (from, to, expected) in cases {
        let text = PING_PONG.replacen(from, to, 1);
        let found = mistakes(&text);
        assert!(found.iter().any(|text| text == expected), "{text}\nexpected: {expected}\nfound: {found:#?}");
    }
    // All of them, not only the first.
    assert_eq!(mistakes(PING_PONG.replace("4096", "x").replace(" 64 ", " y ")).len(), 2);
}

const GOAL: &str = "\
// a comment
num_ranks 3

rank 0 { /* over
two lines */
l1: calc 1500 cpu 1
l2: send 100b to 1 tag 7 cpu 0 nic 1
l2 requires l1
send 8b to 2
}
rank 1 {
l2: calc 5
l1: recv 100b from 0 tag 7
l2 irequires l1
}
rank 2 {
a_1: recv 8b from -1 tag -1
}
";

#[test]
fn goal_as_described() {
    let compute = |ns, cpu| Operation { cpu, ..Operation::new(Kind::Compute { duration: SimTime::from_ns(ns) }) };
    let expected = vec![
        vec![
            (compute(1500, 1), vec![]),
            (Operation { nic: 1, ..send(1, 100, 7, 0) }, vec![Dependency::done(0)]),
            (send(2, 8, 0, 0), vec![]),
        ],
        // In an order in which everything stands behind what it waits for.
        vec![(receive(0, 100, 7), vec![]), (compute(5, 0), vec![Dependency { operation: 0, event: Event::Started }])],
        vec![(Operation::new(Kind::Receive { from: None, bytes: Bytes(8), tag: None }), vec![])],
    ];
    assert_eq!(read(GOAL), expected);
}

#[test]
fn goal_mistakes_name_their_line() {
    let cases = [
        ("num_ranks 3", "num_ranks x", "2: expected the number of ranks (a whole number up to 16777216), found 'x'"),
        ("100b to 1", "100b to 3", "7: expected a rank below 3, found 3"),
        ("100b to 1", "100b from 1", "7: expected to, found 'from'"),
        ("l2 requires l1", "l2 requires l9", "8: expected a label of rank 0, found 'l9'"),
        ("l2 requires l1", "l2: calc 1", "8: expected each label once, found a second 'l2'"),
        ("calc 5", "cals 5", "12: expected send, recv or calc, found 'cals'"),
        ("rank 2 {", "rank 1 {", "16: expected one schedule per rank, found a second one for rank 1"),
        ("a_1: recv 8b from -1 tag -1\n}", "a_1: recv 8b from -1 tag -1\n", "expected } behind the schedule of rank 2, but the file ends"),
    ];
    for (from, to, expected) in cases {
        let found = mistakes(GOAL.replacen(from, to, 1));
        assert!(found.iter().any(|text| text == expected), "{to}\nexpected: {expected}\nfound: {found:#?}");
    }
}

#[test]
fn goal_binary_has_the_layout_of_txt2bin() {
    // One rank: a calc of 5 ns, then a send to itself that requires it. Written by hand from the layout.
    let mut bytes: Vec<u8> = Vec::new();
    bytes.extend(4223u64.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0, 0]);
    let begin = 4 + 2 + 16u64;
    let length = 8 + 4 + 2 * 39 + 4u64;
    bytes.extend(begin.to_le_bytes());
    bytes.extend((begin + length).to_le_bytes());
    bytes.extend([2u32, 1, 0].iter().flat_map(|value| value.to_le_bytes()));
    let node = |missing: u32, code: u8, peer: u32, size: u64, tag: u32, lists: [u32; 4]| {
        let mut node = missing.to_le_bytes().to_vec();
        node.push(code);
        node.extend(peer.to_le_bytes());
        node.extend(size.to_le_bytes());
        node.extend(tag.to_le_bytes());
        node.extend([0, 0]);
        node.extend(lists.iter().flat_map(|value| value.to_le_bytes()));
        node
    };
    bytes.extend(node(0, 3, 0, 5, 0, [1, 0, 0, 1]));
    bytes.extend(node(1, 1, 0, 64, 9, [0, 1, 0, 1]));
    bytes.extend(1u32.to_le_bytes());
    assert_eq!(bytes.len() as u64, 8 + begin + length);
    let file = file("trace.bin", &bytes);
    let mut trace = narrows_trace::open(&file.path, ReadOptions::default()).unwrap();
    assert_eq!(trace.format, Format::GoalBinary);
    let compute = Operation::new(Kind::Compute { duration: SimTime::from_ns(5) });
    assert_eq!(operations(&mut trace.program), [vec![(compute, vec![]), (send(0, 64, 9, 0), vec![Dependency::done(0)])]]);
    // And it is written like that.
    trace.program.rewind();
    narrows_trace::write(&file.path, Format::GoalBinary, &mut trace.program).unwrap();
    assert_eq!(std::fs::read(&file.path).unwrap(), bytes);
}

#[test]
fn simgrid_traces() {
    let text = "0 init\n1 init\n0 compute 1e9\n0 isend 1 3 1e6\n0 compute 5e8\n0 wait 0 1 3\n0 allreduce 4 0 0\n\
                1 irecv 0 3 1e6\n1 test 0 1 3\n1 wait 0 1 3\n1 allreduce 4 0 0\n0 finalize\n1 finalize\n";
    let compute = |ms: u64| Operation::new(Kind::Compute { duration: SimTime::from_us(ms * 1000) });
    let allreduce = collective(Collective::Allreduce, 0, 32, 32, 0);
    let expected = vec![
        vec![
            (compute(1000), vec![]),
            (send(1, 1_000_000, 3, 0), vec![Dependency::done(0)]),
            (compute(500), vec![Dependency::started(1)]),
            (allreduce, vec![Dependency::done(2), Dependency::done(1)]),
        ],
        vec![(receive(0, 1_000_000, 3), vec![]), (allreduce, vec![Dependency::started(0), Dependency::done(0)])],
    ];
    assert_eq!(read(text), expected);
    assert_eq!(mistakes("0 init\n0 sned 1 0 8\n"), ["2: expected an action of SimGrid's replay, found 'sned'"]);
    assert_eq!(mistakes("0 init\n0 send 1 0 8\n"), ["2: expected a number from 0 to 0, found '1'"]);
}

/// Ranks were `p0`, and messages had no tags.
#[test]
fn simgrid_traces_of_the_older_form_get_a_hint() {
    let cases = [
        ("p0 compute 1e9\np0 send p1 1e6\np1 recv p0 1e6\n", "1: ", "'p0'"),
        ("0 init\n1 init\np1 recv p0 1e6\n", "3: ", "'p1'"),
        ("0 init\n1 init\n0 send 1 1e6\n", "3: ", "a message without a tag"),
    ];
    for (text, line, there) in cases {
        let found = &mistakes(text)[0];
        let hint = format!("{there} is of an older form of these traces (`p0 send p1 1e6`), which this command rewrites: sed -E");
        assert!(found.starts_with(line) && found.contains(&hint), "{found}");
    }
    // A rank that is none gets no such hint.
    assert_eq!(mistakes("0 init\nq0 compute 1\n"), ["2: expected a rank (a whole number up to 0), found 'q0'"]);
}

/// Any text could be a list of SimGrid's files: the first line that names none says what was expected.
#[test]
fn text_that_is_no_trace_is_refused_at_its_line() {
    let [found] = &mistakes("# nothing here\nroot:x:0:0\n")[..] else { panic!("one mistake") };
    assert!(found.starts_with("2: expected VEF, GOAL, JSON Lines, or SimGrid's lines"), "{found}");
    assert!(found.ends_with("there is no file 'root:x:0:0'"), "{found}");
}

#[test]
fn json_mistakes_name_their_line() {
    let good = "{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}\n{\"rank\":0,\"op\":\"send\",\"to\":1,\"bytes\":8,\"tag\":7}\n\
                {\"rank\":1,\"op\":\"recv\",\"bytes\":8}\n";
    assert_eq!(read(good)[0], [(send(1, 8, 7, 0), vec![])]);
    let cases = [
        ("\"to\":1,", "", "2: expected \"to\" with 'send'"),
        ("\"to\":1", "\"to\":2", "2: expected a destination below 2, found 2"),
        ("\"to\":1", "\"to\":1,\"ps\":4", "2: expected no other keys with 'send', found '{\"rank\":0,\"op\":\"send\",\"ps\":4}'"),
        ("\"tag\":7", "\"tog\":7", "2: column 44: unknown field `tog`"),
        (
            "\"bytes\":8}",
            "\"bytes\":8,\"after\":[3]}",
            "3: expected dependencies on earlier operations of rank 1 (this is number 0), found 3",
        ),
    ];
    for (from, to, expected) in cases {
        let found = mistakes(good.replacen(from, to, 1));
        assert!(found.iter().any(|text| text.starts_with(expected)), "{to}\nexpected: {expected}\nfound: {found:#?}");
    }
}

/// Everything that a sequential program may have.
fn sample() -> Recorded {
    let mut communicators = Communicators::world(4);
    let odd = communicators.add(vec![3, 1]).unwrap();
    let mut program = Recorded::new(4, communicators, Order::Sequential);
    for rank in 0..4u32 {
        let (next, before) = ((rank + 1) % 4, (rank + 3) % 4);
        program.push(rank, Operation::new(Kind::Compute { duration: SimTime::from_ns(1000 + u64::from(rank)) }), &[]);
        program.push(rank, receive(before, 512, 5), &[Dependency::done(0)]);
        program.push(rank, send(next, 512, 5, 0), &[Dependency::started(1)]);
        program.push(rank, collective(Collective::Allreduce, 0, 8, 8, 0), &[Dependency::done(1), Dependency::done(2)]);
        if rank % 2 == 1 {
            let call = CollectiveCall {
                operation: Collective::Broadcast,
                communicator: odd,
                root: 1,
                send: Bytes(0),
                receive: Bytes(64),
                element: Bytes(0),
            };
            let call = if rank == 1 { CollectiveCall { send: Bytes(64), receive: Bytes(0), ..call } } else { call };
            program.push(rank, Operation::new(Kind::Collective(call)), &[Dependency::done(3)]);
        }
    }
    program
}

fn written(program: &mut dyn Program, format: Format) -> (File, Vec<Operations>) {
    let file = file("trace", "");
    narrows_trace::write(&file.path, format, program).unwrap();
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let list = operations(&mut narrows_trace::open(&file.path, options).unwrap().program);
    (file, list)
}

#[test]
fn json_lines_keep_everything() {
    let (file, list) = written(&mut sample(), Format::JsonLines);
    assert_eq!(list, operations(&mut sample()));
    let trace = narrows_trace::open(&file.path, ReadOptions::default()).unwrap();
    assert_eq!((trace.format, trace.program.order()), (Format::JsonLines, Order::Sequential));
    assert_eq!(trace.program.communicators().members(1).collect::<Vec<_>>(), [3, 1]);
}

/// What changes a program leaves it; VEF has no place for it.
#[test]
fn the_library_that_recorded_a_program_goes_with_it() {
    let header = r#"{"narrows_trace":1,"ranks":1,"mpi":"MPICH Version: 5.0.2"}"#;
    let first = file("a.jsonl", format!("{header}\n{}\n", r#"{"rank":0,"op":"compute","ps":5}"#));
    let program = narrows_trace::open(&first.path, ReadOptions::default()).unwrap().program;
    assert_eq!(program.mpi(), Some("MPICH Version: 5.0.2"));
    let mut changed = Anonymous::new(Scaled::new(program, 1.0, 1.0), 7);
    let (again, _) = written(&mut changed, Format::JsonLines);
    let mut again = narrows_trace::open(&again.path, ReadOptions::default()).unwrap().program;
    assert_eq!(again.mpi(), Some("MPICH Version: 5.0.2"));
    let (vef, _) = written(&mut again, Format::Vef);
    assert_eq!(narrows_trace::open(&vef.path, ReadOptions::default()).unwrap().program.mpi(), None);
}

/// Reductions have it, and nothing else.
#[test]
fn json_lines_have_the_size_of_an_element() {
    let mut program = Recorded::new(1, Communicators::world(1), Order::Sequential);
    let Kind::Collective(call) = collective(Collective::Allreduce, 0, 24, 24, 0).kind else { unreachable!("a collective") };
    program.push(0, Operation::new(Kind::Collective(CollectiveCall { element: Bytes(8), ..call })), &[]);
    let (file, list) = written(&mut program.clone(), Format::JsonLines);
    assert_eq!(list, operations(&mut program));
    assert!(std::fs::read_to_string(&file.path).unwrap().contains(r#""op":"allreduce","send":24,"recv":24,"element":8}"#));
    let header = r#"{"narrows_trace":1,"ranks":1}"#;
    let found = mistakes(format!("{header}\n{}\n", r#"{"rank":0,"op":"allgather","send":8,"recv":8,"element":8}"#));
    assert!(found.iter().any(|text| text.contains("no other keys with 'allgather'")), "{found:?}");
}

#[test]
fn vef_keeps_messages_collectives_and_the_last_dependency() {
    let (file, _) = written(&mut sample(), Format::Vef);
    let text = std::fs::read_to_string(&file.path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(words, ["VEF", "4", "4", "2", "2", "6", "TRUE"]);
    assert_eq!(lines[1..4], ["C0 0 1 2 3", "C1 3 1", "0 0 1 512 0 1000 -1"]);
    // Rank 0 gets rank 3's message (3) at 1,003 ns, after its own was sent.
    assert!(lines.contains(&"G0 0 2 0 8 8 2 0 3"), "{text}");
    // The root of C1 is rank 1, position 1.
    assert!(lines.contains(&"G1 1 0 1 64 0 3 0 G0") && lines.contains(&"G1 1 0 3 0 64 3 0 G0"), "{text}");
    // What is read is written as it was, but for the order of records of the same time.
    let mut program = narrows_trace::open(&file.path, ReadOptions::default()).unwrap().program;
    let (again, _) = written(&mut program, Format::Vef);
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&std::fs::read_to_string(&again.path).unwrap()), sorted(&text));
}

#[test]
fn what_vef_has_not_is_said() {
    let mut program = Recorded::new(3, Communicators::world(3), Order::Sequential);
    for rank in 0..3 {
        program.push(rank, collective(Collective::ReduceScatterBlock, 0, 24, 8, 0), &[]);
        program.push(rank, collective(Collective::Scan, 0, 8, 8, 0), &[Dependency::done(0)]);
    }
    let file = file("trace", "");
    let notes = narrows_trace::write(&file.path, Format::Vef, &mut program).unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let list = operations(&mut narrows_trace::open(&file.path, ReadOptions::default()).unwrap().program);
    let expected = [
        (collective(Collective::Reduce, 0, 24, 24, 0), vec![]),
        (collective(Collective::Scatter, 0, 24, 8, 0), vec![Dependency::done(0)]),
        (collective(Collective::Allreduce, 0, 8, 8, 0), vec![Dependency::done(1)]),
    ];
    assert_eq!(list[0], expected);
}

#[test]
fn goal_keeps_its_graphs_in_both_forms() {
    let file = file("trace.goal", GOAL);
    let mut program = narrows_trace::open(&file.path, ReadOptions::default()).unwrap().program;
    let expected = operations(&mut program);
    for format in [Format::Goal, Format::GoalBinary] {
        program.rewind();
        assert_eq!(written(&mut program, format).1, expected, "{format}");
    }
    // VEF's delays become operations; collectives are refused.
    assert!(matches!(narrows_trace::write(&file.path, Format::Goal, &mut sample()), Err(TraceError::Unsuitable(_))));
}

#[test]
fn other_sizes_and_times() {
    let mut program = Scaled::new(sample(), 2.5, 3.0);
    let list = operations(&mut program);
    assert_eq!(list[1][0].0.kind, Kind::Compute { duration: SimTime(2_502_500) });
    assert_eq!(list[1][2].0, send(2, 1536, 5, 0));
    assert_eq!(list[1][3].0, collective(Collective::Allreduce, 0, 24, 24, 0));
}

#[test]
fn other_names_same_program() {
    let outcome = |program: &mut dyn Program| {
        let outcome = ideal::run(program, &mut ideal::Nobody).unwrap();
        let mut finish = outcome.finish;
        finish.sort_unstable();
        (finish, outcome.messages, outcome.collectives, outcome.problems)
    };
    let expected = outcome(&mut sample());
    assert_eq!(expected.3, Vec::<String>::new());
    assert_eq!(expected.1, 4);
    let mut different = false;
    for seed in 0..20 {
        assert_eq!(outcome(&mut Anonymous::new(sample(), seed)), expected, "seed {seed}");
        different |= operations(&mut Anonymous::new(sample(), seed)) != operations(&mut sample());
    }
    assert!(different);
}

#[test]
fn what_does_not_fit_together_is_listed() {
    let mut program = Recorded::new(3, Communicators::world(3), Order::Sequential);
    program.push(0, receive(1, 8, 1), &[]);
    program.push(1, send(2, 16, 1, 0), &[]);
    program.push(2, receive(1, 8, 1), &[]);
    program.push(2, collective(Collective::Barrier, 0, 0, 0, 0), &[Dependency::done(0)]);
    let outcome = ideal::run(&mut program, &mut ideal::Nobody).unwrap();
    assert_eq!(
        outcome.problems,
        [
            "rank 2, operation 0: a message of 16 B for a buffer of 8 B",
            "rank 0, operation 0: waits for a message from rank 1, tag 1, that is never sent",
            "rank 2, operation 1: waits in a collective (barrier) on communicator 0 that not all members join",
        ]
    );
}

#[test]
fn files_that_are_not_there() {
    let error = narrows_trace::open(Path::new("/nonexistent/a.vef"), ReadOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "/nonexistent/a.vef: No such file or directory (os error 2)");
}

/// 9,000,000 s are 104 days: one is possible, two in one rank are not.
#[test]
fn times_that_add_up_to_more_than_a_simulation_holds_have_their_place() {
    let days = "the times add up to more than 200 days";
    let long = 9_000_000_000_000_000u64;
    let vef = format!("VEF 2 2 1 0 0 TRUE\nC0 0 1\n0 0 1 8 0 {long} -1\n1 0 1 8 1 {long} 0\n");
    let json = format!(
        "{{\"narrows_trace\":1,\"ranks\":1,\"order\":\"sequential\"}}\n\
         {{\"rank\":0,\"op\":\"compute\",\"ps\":{long}000}}\n{{\"rank\":0,\"op\":\"compute\",\"ps\":1,\"delay_ps\":{long}000}}\n"
    );
    let goal = format!("num_ranks 1\nrank 0 {{\ncalc {long}\ncalc {long}\n}}\n");
    let simgrid = "0 init\n0 compute 9e15\n0 barrier\n0 sleep 9e6\n0 finalize\n";
    let places = [(vef, "4"), (json, "3"), (goal, "4"), (simgrid.to_owned(), "4")];
    for (text, line) in places {
        let found = mistakes(&text);
        assert!(found[0].starts_with(&format!("{line}: ")) && found[0].contains(days), "{found:?}");
    }
}

/// Each rank for itself is within the limit, one after the other they are not.
#[test]
fn times_of_ranks_that_wait_for_each_other_add_up_too() {
    let mut program = Recorded::new(3, Communicators::world(3), Order::Sequential);
    for rank in 0..3 {
        let mut number = 0;
        if rank > 0 {
            program.push(rank, receive(rank - 1, 8, 0), &[]);
            number += 1;
        }
        let compute = Operation::new(Kind::Compute { duration: SimTime::from_us(9_000_000_000_000) });
        let after: Vec<Dependency> = (0..number).map(Dependency::done).collect();
        program.push(rank, compute, &after);
        program.push(rank, send((rank + 1) % 3, 8, 0, 0), &[Dependency::done(number)]);
    }
    let error = ideal::run(&mut program, &mut ideal::Nobody).unwrap_err();
    assert_eq!(error.to_string(), "rank 1, operation 1: the times add up to more than 200 days, where simulated time ends");
}

/// One cap on sizes in every reader, and in what is written.
#[test]
fn sizes_have_one_limit_in_every_format() {
    let most = 1u64 << 48;
    for (bytes, fits) in [(most, true), (most + 1, false), (9_000_000_000_000_000, false), (u64::MAX, false)] {
        let texts = [
            format!("VEF 2 1 1 0 0 TRUE\nC0 0 1\n0 0 1 {bytes} 0 0 -1\n"),
            format!(
                "{{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}}\n{{\"rank\":0,\"op\":\"send\",\"to\":1,\"tag\":0,\"bytes\":{bytes}}}\n"
            ),
            format!("num_ranks 2\nrank 0 {{\nsend {bytes}b to 1\n}}\nrank 1 {{\nrecv {bytes}b from 0\n}}\n"),
            format!("0 send 1 0 {bytes}\n1 barrier\n"),
        ];
        for text in texts {
            let found = mistakes(&text);
            assert_eq!(found.is_empty(), fits, "{bytes}: {found:?}");
            assert!(found.iter().all(|line| line.contains("281474976710656")), "{found:?}");
        }
        let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
        program.push(0, send(1, bytes, 0, 0), &[]);
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::JsonLines, Format::Goal, Format::GoalBinary] {
            assert_eq!(narrows_trace::write(&folder.path().join("out"), format, &mut program.clone()).is_ok(), fits, "{format}");
        }
    }
    // Products: a rank's part in an all-to-all of many, in VEF and in SimGrid's lines.
    let vef = format!("VEF 2 0 1 1 2 TRUE\nC0 0 1\nG0 0 7 0 {most} 0 0 0 -1\nG0 0 7 1 {most} 0 0 0 -1\n");
    assert!(mistakes(&vef)[0].starts_with("3: expected at most") || mistakes(&vef)[0].starts_with("3: more than"), "{:?}", mistakes(&vef));
    assert!(mistakes(format!("0 alltoall {most} {most}\n1 alltoall {most} {most}\n"))[0].starts_with("1: "));
}

/// What ranks say of one collective: told at the line where it is known, with both ranks, the operation and both
/// values.
#[test]
fn contradictions_in_a_collective_name_both_ranks_and_both_values() {
    let vef = "VEF 2 0 1 1 2 TRUE\nC0 0 1\nG0 0 2 0 8 8 0 0 -1\nG0 0 2 1 1000000 1000000 0 0 -1\n";
    assert_eq!(
        mistakes(vef),
        ["4: G0: rank 0, operation 0, calls allreduce of 8 B, but rank 1, operation 0, calls allreduce of 1000000 B \
          on the same communicator (0) at this point"]
    );
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, collective(Collective::Broadcast, 0, 8, 0, 0), &[]);
    program.push(1, collective(Collective::Broadcast, 0, 0, 800_000, 0), &[]);
    assert_eq!(
        ideal::run(&mut program, &mut ideal::Nobody).unwrap().problems,
        ["rank 0, operation 0, calls bcast of 8 B with root 0, but rank 1, operation 0, calls bcast of 800000 B with root 0 \
          on the same communicator (0) at this point"]
    );
}

/// A file that ends too early, or too late.
#[test]
fn a_file_that_was_cut_or_has_more_behind_its_end_is_refused() {
    let (file, _) = written(&mut sample(), Format::JsonLines);
    let text = std::fs::read_to_string(&file.path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for kept in 1..lines.len() {
        let found = mistakes(lines[..kept].join("\n"));
        assert!(found.last().unwrap().ends_with("the file ends: it was cut"), "{kept} lines: {found:?}");
    }
    let found = mistakes(format!("{text}{}\n", lines[1]));
    assert!(!found.is_empty(), "an operation behind the end");
    // A script's file without a count may be cut behind its first line only.
    let bare = "{\"narrows_trace\":1,\"ranks\":2,\"order\":\"sequential\"}\n";
    assert_eq!(mistakes(bare), ["expected operations behind the first line, but the file ends"]);
    let mut binary = {
        let mut program = Recorded::new(1, Communicators::world(1), Order::Graph);
        program.push(0, Operation::new(Kind::Compute { duration: SimTime::from_us(1) }), &[]);
        std::fs::read(&written(&mut program, Format::GoalBinary).0.path).unwrap()
    };
    let length = binary.len();
    binary.extend([0; 5]);
    assert_eq!(
        mistakes(binary),
        [format!("byte {length}: expected the end of the file behind the parts of all ranks, found 5 more bytes")]
    );
}
