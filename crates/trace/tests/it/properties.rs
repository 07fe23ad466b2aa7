//! Random programs survive every format; random bytes hurt no reader.

use narrows_trace::operation::{Collective, CollectiveCall};
use narrows_trace::{Communicators, Dependency, Format, Kind, Operation, Order, Program, ReadOptions, Recorded, Spool, ideal};
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;

/// One step of all ranks, so that the program is complete.
#[derive(Clone, Debug)]
enum Step {
    Compute(u32, u64),
    /// From, to, bytes, tag, and whether the sender waits.
    Message(u32, u32, u64, u32, bool),
    Collective(u8, u32, u64),
}

fn step(ranks: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..ranks, 0..5_000_000u64).prop_map(|(rank, ns)| Step::Compute(rank, ns * 1000)),
        (0..ranks, 0..ranks, 0..1u64 << 30, 0..5u32, any::<bool>())
            .prop_map(|(a, b, bytes, tag, wait)| Step::Message(a, b, bytes, tag, wait)),
        (0..12u8, 0..ranks, 1..1u64 << 20).prop_map(|(which, root, bytes)| Step::Collective(which, root, bytes)),
    ]
}

/// Each operation waits for the one before, a receive and a send to itself for what came before both.
fn program(ranks: u32, steps: &[Step]) -> Recorded {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    let mut counts = vec![0u64; ranks as usize];
    let mut push = |rank: u32, kind: Kind, started: bool| {
        let count = &mut counts[rank as usize];
        let before = count.checked_sub(1);
        let after: Vec<_> =
            before.map(|before| if started { Dependency::started(before) } else { Dependency::done(before) }).into_iter().collect();
        program.push(rank, Operation::new(kind), &after);
        *count += 1;
    };
    let n = u64::from(ranks);
    for step in steps {
        match *step {
            Step::Compute(rank, ps) => push(rank, Kind::Compute { duration: SimTime(ps) }, false),
            Step::Message(from, to, bytes, tag, wait) => {
                push(from, Kind::Send { to, bytes: Bytes(bytes), tag }, false);
                push(to, Kind::Receive { from: Some(from), bytes: Bytes(bytes), tag: Some(tag) }, !wait && from == to);
            }
            Step::Collective(which, root, x) => {
                // The first twelve are the ones that VEF can say, as far as they have equal parts.
                let operation = [
                    Collective::Barrier,
                    Collective::Broadcast,
                    Collective::Reduce,
                    Collective::Allreduce,
                    Collective::Gather,
                    Collective::Scatter,
                    Collective::Allgather,
                    Collective::Alltoall,
                ][usize::from(which) % 8];
                let root = if operation.has_root() { root } else { 0 };
                for rank in 0..ranks {
                    let at_root = rank == root;
                    let (send, receive) = match operation {
                        Collective::Barrier => (0, 0),
                        Collective::Broadcast if at_root => (x, 0),
                        Collective::Broadcast => (0, x),
                        Collective::Reduce => (x, if at_root { x } else { 0 }),
                        Collective::Gather => (x, if at_root { n * x } else { 0 }),
                        Collective::Scatter => (if at_root { n * x } else { 0 }, x),
                        Collective::Allgather => (x, n * x),
                        Collective::Alltoall => (n * x, n * x),
                        _ => (x, x),
                    };
                    push(
                        rank,
                        Kind::Collective(CollectiveCall {
                            operation,
                            communicator: 0,
                            root,
                            send: Bytes(send),
                            receive: Bytes(receive),
                            element: Bytes(0),
                        }),
                        false,
                    );
                }
            }
        }
    }
    program
}

fn operations(program: &mut dyn Program) -> Vec<Vec<(Operation, Vec<Dependency>)>> {
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

fn through(program: &mut dyn Program, format: Format) -> narrows_trace::Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    narrows_trace::write(&path, format, program).unwrap();
    narrows_trace::open(&path, ReadOptions { format: Some(format), ..ReadOptions::default() }).unwrap()
}

fn case() -> impl Strategy<Value = (u32, Vec<Step>)> {
    (1..6u32).prop_flat_map(|ranks| (Just(ranks), prop::collection::vec(step(ranks), 0..60)))
}

/// Communication per rank, in order, with its times on the ideal machine.
#[derive(Default)]
struct Log(Vec<(u64, u32, String)>);

impl ideal::Observer for Log {
    fn start(&mut self, start: &ideal::Start<'_>) -> Result<(), narrows_trace::TraceError> {
        let text = match start.operation.kind {
            Kind::Send { to, bytes: Bytes(bytes), .. } => format!("{to} {bytes}"),
            Kind::Collective(call) => format!("{call:?}"),
            _ => return Ok(()),
        };
        self.0.push((start.time.0, start.rank, text));
        Ok(())
    }
}

fn log(program: &mut dyn Program) -> (Vec<(u64, u32, String)>, Vec<String>) {
    let mut log = Log::default();
    let outcome = ideal::run(program, &mut log).unwrap();
    log.0.sort();
    (log.0, outcome.problems)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_spool_gives_back_what_it_got((ranks, steps) in case()) {
        let expected = operations(&mut program(ranks, &steps));
        let mut spool = Spool::new(ranks).unwrap();
        for (rank, list) in expected.iter().enumerate() {
            for (operation, after) in list {
                spool.push(rank as u32, operation, after).unwrap();
            }
        }
        let mut stored = spool.finish(Communicators::world(ranks), Order::Sequential).unwrap();
        prop_assert_eq!(&operations(&mut stored), &expected);
        stored.rewind();
        prop_assert_eq!(operations(&mut stored), expected);
    }

    #[test]
    fn json_lines_are_lossless((ranks, steps) in case()) {
        let mut read = through(&mut program(ranks, &steps), Format::JsonLines);
        prop_assert_eq!(operations(&mut read.program), operations(&mut program(ranks, &steps)));
    }

    /// Messages, collectives and their times on the ideal machine are the same after a way through VEF.
    #[test]
    fn vef_keeps_communication_and_times((ranks, steps) in case()) {
        let (expected, problems) = log(&mut program(ranks, &steps));
        prop_assert_eq!(problems, Vec::<String>::new());
        let mut read = through(&mut program(ranks, &steps), Format::Vef);
        prop_assert_eq!(log(&mut read.program), (expected, Vec::new()));
    }

    #[test]
    fn goal_is_lossless_without_collectives((ranks, steps) in case()) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Collective(..))).collect();
        for format in [Format::Goal, Format::GoalBinary] {
            let mut read = through(&mut program(ranks, &steps), format);
            prop_assert_eq!(operations(&mut read.program), operations(&mut program(ranks, &steps)));
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read(format in prop::sample::select(&Format::ALL[..]), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(if format == Format::Chakra { "trace.0.et" } else { "trace" });
        std::fs::write(&path, bytes).unwrap();
        let _ = narrows_trace::read(&path, ReadOptions { format: Some(format), ..ReadOptions::default() }, &mut |_| Ok(()));
    }

    /// Nearly right files: bytes of a good one exchanged. What is still read runs on the ideal machine.
    #[test]
    fn damaged_files_are_refused_or_read(
        (ranks, steps) in case(),
        format in prop::sample::select(&[Format::Vef, Format::Goal, Format::GoalBinary, Format::JsonLines][..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let steps: Vec<Step> = match format {
            Format::Goal | Format::GoalBinary => steps.into_iter().filter(|step| !matches!(step, Step::Collective(..))).collect(),
            _ => steps,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        narrows_trace::write(&path, format, &mut program(ranks, &steps)).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            // Digits are what makes a line right that says something else.
            bytes[place] = if format == Format::GoalBinary { byte } else { b"0123456789 G-\n{}"[usize::from(byte) % 16] };
        }
        std::fs::write(&path, bytes).unwrap();
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        if let Ok(mut trace) = narrows_trace::read(&path, options, &mut |_| Ok(())) {
            let _ = ideal::run(&mut trace.program, &mut ideal::Nobody);
        }
    }
}
