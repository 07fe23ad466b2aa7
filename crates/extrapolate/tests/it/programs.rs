//! Programs that are understood.

use crate::{from, must_be_the_program};
use narrows_collectives::rules::{OPEN_MPI, Rules};
use narrows_extrapolate::Growth;
use narrows_replay::Graph;
use narrows_replay::collectives::ByRules;
use narrows_replay::loggp;
use narrows_trace::generate::{Cells, Generated, Parameters, Pattern};
use narrows_trace::transformer::{Training, Transformer};
use narrows_trace::{Collective, CollectiveCall, Communicators, Dependency, Kind, Operation, Order, Program, Recorded};
use narrows_units::{Bytes, SimTime};

fn pattern(pattern: Pattern) -> impl Fn(u32) -> Box<dyn Program> {
    move |ranks| {
        let parameters =
            Parameters { ranks, steps: if pattern == Pattern::LammpsLike { 21 } else { 3 }, bytes: None, cells: None, compute: None };
        Box::new(Generated::new(pattern, parameters).unwrap())
    }
}

#[test]
fn generated_programs_come_back_to_the_last_operation() {
    let small: &[u32] = &[8, 16, 32, 64];
    let cubes: &[u32] = &[8, 27, 64];
    for (name, recorded, ranks) in [
        (Pattern::Halo3d, small, 512),
        (Pattern::LammpsLike, small, 512),
        (Pattern::MinimdLike, small, 512),
        (Pattern::HpcgLike, cubes, 216),
        (Pattern::MinifeLike, &[27, 36, 64], 512),
        (Pattern::LuleshLike, cubes, 512),
        (Pattern::AllreduceLoop, small, 500),
        (Pattern::Bcast, small, 512),
        (Pattern::NestLike, small, 512),
        (Pattern::Fft3d, cubes, 343),
        (Pattern::MatmulLike, &[4, 9, 16, 25], 256),
    ] {
        let found = must_be_the_program(name.name(), &pattern(name), recorded, ranks);
        assert_eq!(found.model.findings.unexplained, [0.0; 3], "{name:?}");
    }
}

/// Time and digest under LogGP.
fn replayed(program: &mut dyn Program) -> (SimTime, u64) {
    let mut graph = Graph::new();
    graph.add("it", program, 1.0, &mut ByRules::new(Rules::parse(OPEN_MPI).unwrap(), None)).unwrap();
    let outcome = loggp::run(&mut graph, loggp::Parameters::default(), &mut |_| true);
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    (outcome.finish, outcome.digest)
}

#[test]
fn a_recorded_number_of_ranks_gives_back_the_recording() {
    for (name, recorded) in [(Pattern::Halo3d, [8, 16, 64]), (Pattern::LuleshLike, [8, 27, 64]), (Pattern::MatmulLike, [4, 9, 25])] {
        for ranks in recorded {
            let found = from(&pattern(name), &recorded, ranks).unwrap();
            let known = replayed(&mut *pattern(name)(ranks));
            assert_eq!(replayed(&mut found.model.program()), known, "{name:?} {ranks}");
        }
    }
}

/// A program that is written call by call.
struct Script {
    program: Recorded,
    made: Vec<u64>,
}

impl Script {
    fn new(communicators: Communicators) -> Script {
        let ranks = communicators.size(0).unwrap();
        Script { program: Recorded::new(ranks, communicators, Order::Sequential), made: vec![0; ranks as usize] }
    }

    /// After the end of the operation before, if `waits`; else after its start.
    fn push(&mut self, rank: u32, kind: Kind, waits: bool) {
        let number = &mut self.made[rank as usize];
        let before = number.checked_sub(1).map(if waits { Dependency::done } else { Dependency::started });
        self.program.push(rank, Operation::new(kind), before.as_slice());
        *number += 1;
    }

    fn compute(&mut self, rank: u32, ns: u64) {
        self.push(rank, Kind::Compute { duration: SimTime::from_ns(ns) }, true);
    }

    fn exchange(&mut self, rank: u32, other: u32, bytes: u64) {
        self.push(rank, Kind::Receive { from: Some(other), bytes: Bytes(bytes), tag: Some(3) }, true);
        self.push(rank, Kind::Send { to: other, bytes: Bytes(bytes), tag: 3 }, false);
    }

    fn call(&mut self, rank: u32, communicator: u32, operation: Collective, [send, receive]: [u64; 2]) {
        let (send, receive) = (Bytes(send), Bytes(receive));
        let call = CollectiveCall { operation, communicator, root: 0, send, receive, element: Bytes(0) };
        self.push(rank, Kind::Collective(call), true);
    }
}

/// A butterfly: log2 of the ranks rounds, each with the rank whose number differs in one bit.
fn butterfly(ranks: u32) -> Box<dyn Program> {
    let mut script = Script::new(Communicators::world(ranks));
    for rank in 0..ranks {
        for _ in 0..3 {
            script.compute(rank, 700);
            (0..ranks.ilog2()).for_each(|bit| script.exchange(rank, rank ^ 1 << bit, 4096));
        }
    }
    Box::new(script.program)
}

/// Bruck: in each round to the rank twice as far up as before.
fn dissemination(ranks: u32) -> Box<dyn Program> {
    let mut script = Script::new(Communicators::world(ranks));
    for rank in 0..ranks {
        for round in 0..ranks.ilog2() {
            let (to, from) = ((rank + (1 << round)) % ranks, (rank + ranks - (1 << round)) % ranks);
            script.push(rank, Kind::Receive { from: Some(from), bytes: Bytes(8), tag: Some(1) }, true);
            script.push(rank, Kind::Send { to, bytes: Bytes(8), tag: 1 }, false);
        }
    }
    Box::new(script.program)
}

/// Everybody asks rank 0, which answers one after the other.
fn master(ranks: u32) -> Box<dyn Program> {
    let mut script = Script::new(Communicators::world(ranks));
    for worker in 1..ranks {
        script.push(0, Kind::Receive { from: Some(worker), bytes: Bytes(64), tag: Some(0) }, true);
        script.push(0, Kind::Send { to: worker, bytes: Bytes(1 << 20), tag: 1 }, true);
        script.push(worker, Kind::Send { to: 0, bytes: Bytes(64), tag: 0 }, true);
        script.push(worker, Kind::Receive { from: Some(0), bytes: Bytes(1 << 20), tag: Some(1) }, true);
    }
    Box::new(script.program)
}

/// A plate of 4096 x 4096 cells on a grid that ends at its edges, as `MPI_Dims_create` and `MPI_Cart_create` make it.
fn plate(ranks: u32) -> Box<dyn Program> {
    let rows = (1..=ranks.isqrt()).rfind(|side| ranks.is_multiple_of(*side)).unwrap();
    let (columns, rows) = (rows, ranks / rows);
    let mut script = Script::new(Communicators::world(ranks));
    for rank in 0..ranks {
        let (x, y) = (rank % columns, rank / columns);
        let (wide, high) = (4096 / u64::from(columns), 4096 / u64::from(rows));
        for _ in 0..5 {
            for (is_there, other, cells) in [
                (x > 0, rank.wrapping_sub(1), high),
                (x + 1 < columns, rank + 1, high),
                (y > 0, rank.wrapping_sub(columns), wide),
                (y + 1 < rows, rank + columns, wide),
            ] {
                if is_there {
                    script.exchange(rank, other, 8 * cells);
                }
            }
            script.compute(rank, 2 * wide * high);
            script.call(rank, 0, Collective::Allreduce, [8, 8]);
        }
    }
    Box::new(script.program)
}

/// A transform in pencils: all-to-alls in the rows and columns of a grid.
fn pencils(ranks: u32) -> Box<dyn Program> {
    let columns = (1..=ranks.isqrt()).rfind(|side| ranks.is_multiple_of(*side)).unwrap();
    let rows = ranks / columns;
    let row = |rank: u32| (0..columns).map(move |x| rank / columns * columns + x).collect::<Vec<_>>();
    let column = |rank: u32| (0..rows).map(move |y| rank % columns + y * columns).collect::<Vec<_>>();
    let mut communicators = Communicators::world(ranks);
    let mut numbers = std::collections::BTreeMap::new();
    for rank in 0..ranks {
        for members in [row(rank), column(rank)] {
            numbers.entry(members.clone()).or_insert_with(|| communicators.add(members).unwrap());
        }
    }
    let mut script = Script::new(communicators);
    let part = (1u64 << 30) / u64::from(ranks);
    for rank in 0..ranks {
        for members in [row(rank), column(rank)] {
            script.compute(rank, part / 16);
            script.call(rank, numbers[&members], Collective::Alltoall, [part, part]);
        }
    }
    Box::new(script.program)
}

#[test]
fn butterflies_dissemination_and_masters() {
    must_be_the_program("butterfly", &butterfly, &[4, 8, 16, 32], 256);
    must_be_the_program("dissemination", &dissemination, &[4, 8, 16, 32], 256);
    must_be_the_program("master", &master, &[4, 8, 16], 128);
}

#[test]
fn a_shared_plate_shrinks_on_each_rank() {
    let found = must_be_the_program("plate", &plate, &[8, 16, 32, 64], 256);
    assert_eq!(found.model.findings.growth, Some(Growth::Strong));
    assert_eq!(found.model.findings.classes, 9);
    let check = found.check.unwrap();
    assert_eq!((check.ranks, check.messages), (64, 0.0));
    assert!(check.bytes.abs() < 1e-3 && check.computing.abs() < 1e-3, "{check:?}");
}

#[test]
fn rows_and_columns_stay_communicators() {
    must_be_the_program("pencils", &pencils, &[8, 16, 32, 64], 512);
}

#[test]
fn tensor_parallel_groups_keep_their_size() {
    let training = |ranks: u32| -> Box<dyn Program> {
        let batch = 4 * u64::from(ranks);
        let model = Transformer { ranks, steps: 1, tensor: 4, layers: 4, hidden: 512, batch, ..Transformer::default() };
        Box::new(Training::new(model).unwrap())
    };
    must_be_the_program("transformer", &training, &[8, 16, 32], 128);
}

/// What cannot be exact: sizes that are rounded, as those of halo2d on plates that its grid does not divide.
#[test]
fn uneven_parts_are_within_a_hundredth() {
    let make = |ranks: u32| -> Box<dyn Program> {
        let cells = Cells([96, 96, 4096 / ranks]);
        let parameters = Parameters { ranks, steps: 3, bytes: None, cells: Some(cells), compute: None };
        Box::new(Generated::new(Pattern::MinifeLike, parameters).unwrap())
    };
    let found = from(&make, &[27, 36, 48, 64], 128).unwrap();
    let mut known = make(128);
    let (mut messages, mut bytes, mut after) = (0u64, 0u64, Vec::new());
    for rank in 0..128 {
        while let Some(operation) = known.next(rank, &mut after).unwrap() {
            if let Kind::Send { bytes: Bytes(size), .. } = operation.kind {
                (messages, bytes) = (messages + 1, bytes + size);
            }
        }
    }
    assert_eq!(found.totals.messages, messages);
    let wrong = found.totals.bytes as f64 / bytes as f64 - 1.0;
    assert!(wrong.abs() < 0.01, "{wrong}");
    let (time, _) = replayed(&mut found.model.program());
    let (known, _) = replayed(&mut *make(128));
    let wrong = time.as_s_f64() / known.as_s_f64() - 1.0;
    assert!(wrong.abs() < 0.05, "{wrong}");
}

/// Ranks of a torus that send once to a neighbour on both sides, as LAMMPS does when atoms move.
#[test]
fn small_programs_that_do_something_else_are_not_used() {
    let make = |ranks: u32| -> Box<dyn Program> {
        let mut script = Script::new(Communicators::world(ranks));
        for rank in 0..ranks {
            let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            for (to, from) in if ranks > 2 { vec![(up, down), (down, up)] } else { vec![(up, down)] } {
                script.push(rank, Kind::Receive { from: Some(from), bytes: Bytes(8), tag: Some(1) }, true);
                script.push(rank, Kind::Send { to, bytes: Bytes(8), tag: 1 }, false);
            }
        }
        Box::new(script.program)
    };
    let found = must_be_the_program("both sides", &make, &[2, 3, 4, 6], 64);
    assert_eq!(found.aside, ["2.jsonl"]);
    assert!(must_be_the_program("both sides", &make, &[3, 4, 6], 64).aside.is_empty());
}
