//! What is refused, with one line that says what to do.

use crate::{from, lines, options};
use narrows_extrapolate::{MOST_RANKS, extrapolate};
use narrows_trace::generate::{Generated, Parameters, Pattern};
use narrows_trace::{Collective, CollectiveCall, Communicators, Dependency, Kind, Operation, Order, Program, Recorded};
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;

fn halo(ranks: u32) -> Box<dyn Program> {
    pattern(Pattern::Halo3d, ranks)
}

fn pattern(pattern: Pattern, ranks: u32) -> Box<dyn Program> {
    let parameters = Parameters { ranks, steps: 2, bytes: None, cells: None, compute: None };
    Box::new(Generated::new(pattern, parameters).unwrap())
}

/// Everybody sends to a rank that a hash gives: a permutation, so that all is received.
fn hashed(ranks: u32) -> Box<dyn Program> {
    let hash = |rank: u32| (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
    let mut others: Vec<u32> = (0..ranks).collect();
    others.sort_by_key(|rank| hash(*rank));
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        let to = others[rank as usize];
        let from = others.iter().position(|other| *other == rank).unwrap() as u32;
        program.push(rank, Operation::new(Kind::Receive { from: Some(from), bytes: Bytes(8), tag: Some(0) }), &[]);
        program.push(rank, Operation::new(Kind::Send { to, bytes: Bytes(8), tag: 0 }), &[Dependency::started(0)]);
    }
    Box::new(program)
}

#[test]
fn each_refusal_is_a_line_that_says_what_to_do() {
    let error = |recorded: &[u32], ranks| from(&halo, recorded, ranks).unwrap_err().to_string();
    assert!(error(&[8], 64).starts_with("1 recording of the program: expected at least two"), "{}", error(&[8], 64));
    assert_eq!(error(&[8, 16, 8], 64), "8.jsonl and 8.jsonl both have 8 ranks: leave one of them out");
    assert!(error(&[8, 64], 32).starts_with("--ranks 32: expected at least as many as the largest recording has, 64"));
    assert_eq!(error(&[8, 64], MOST_RANKS + 1), format!("--ranks {}: expected at most {MOST_RANKS}", MOST_RANKS + 1));
    let inside = error(&[8, 16], 512);
    assert!(inside.starts_with("512 ranks are 8x8x8, and no recording has a rank such as"), "{inside}");
    assert!(inside.contains("inside in the") && inside.ends_with("at least 3 ranks in each of these directions"), "{inside}");
    let graph = |ranks| -> Box<dyn Program> { Box::new(Recorded::new(ranks, Communicators::world(ranks), Order::Graph)) };
    assert!(from(&graph, &[2, 4], 8).unwrap_err().to_string().contains("narrows record -o NAME.jsonl"));
    assert!(!inside.contains('\n'));
}

#[test]
fn a_hash_of_the_rank_is_not_explained() {
    let error = from(&hashed, &[8, 16, 32, 64], 256).unwrap_err().to_string();
    let share: f64 = error.split(' ').next().unwrap().parse().unwrap();
    assert!(share > 80.0 && error.contains(" of the messages, 0.0 % of the calls"), "{error}");
    assert!(error.contains("more than --unexplained 5.0%") && !error.contains('\n'), "{error}");
}

#[test]
fn recordings_of_different_programs_are_not_explained() {
    let programs = [(Pattern::Halo3d, 8), (Pattern::LammpsLike, 16), (Pattern::LuleshLike, 64)];
    let programs = programs.map(|(name, ranks)| Ok((name.name().to_owned(), pattern(name, ranks))));
    let error = extrapolate(programs, options(512)).unwrap_err().to_string();
    assert!(error.contains("are they recordings of one program with one input?"), "{error}");
}

/// What is not explained and allowed is left out: nobody waits for it.
#[test]
fn what_may_be_left_out_is_left_out() {
    let mixed = |ranks: u32| -> Box<dyn Program> {
        let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
        let (mut ring, mut strange) = (ring(ranks), hashed(ranks));
        for rank in 0..ranks {
            let operations = lines(&mut *ring, rank).into_iter().chain(lines(&mut *strange, rank));
            for ((operation, _), number) in operations.zip(0u64..) {
                let before = number.checked_sub(1).map(Dependency::started);
                program.push(rank, operation, before.as_slice());
            }
        }
        Box::new(program)
    };
    let found = from(&mixed, &[8, 16, 32], 128).unwrap();
    assert_eq!((found.totals.messages, found.totals.operations), (128 * 40, 128 * 82));
    let [messages, calls, bytes] = found.model.findings.unexplained;
    assert!((messages - 1.0 / 41.0).abs() < 1e-9 && calls == 0.0 && bytes > 0.0, "{messages} {bytes}");
}

fn ring(ranks: u32) -> Box<dyn Program> {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        for _ in 0..40 {
            let from = Some((rank + ranks - 1) % ranks);
            program.push(rank, Operation::new(Kind::Receive { from, bytes: Bytes(800), tag: Some(7) }), &[]);
            program.push(rank, Operation::new(Kind::Send { to: (rank + 1) % ranks, bytes: Bytes(800), tag: 7 }), &[]);
        }
    }
    Box::new(program)
}

/// A rank's operations, as they come.
fn any_kind() -> impl Strategy<Value = (u8, u32, u32, u64, Vec<u8>)> {
    (0u8..4, any::<u32>(), 0u32..3, 0u64..1 << 40, prop::collection::vec(any::<u8>(), 0..3))
}

fn any_program() -> impl Strategy<Value = Recorded> {
    let ranks = 1u32..9;
    (ranks, prop::collection::vec(prop::collection::vec(any_kind(), 0..12), 9), any::<u64>()).prop_map(|(ranks, lists, members)| {
        let mut communicators = Communicators::world(ranks);
        let some: Vec<u32> = (0..ranks).filter(|rank| members >> rank & 1 == 1).collect();
        let number = communicators.add(some.clone());
        let mut program = Recorded::new(ranks, communicators, Order::Sequential);
        for (rank, list) in (0..ranks).zip(lists) {
            for (index, (what, other, tag, size, back)) in list.into_iter().enumerate() {
                let kind = match what {
                    0 => Kind::Compute { duration: SimTime(size) },
                    1 => Kind::Send { to: other % ranks, bytes: Bytes(size), tag },
                    2 => Kind::Receive { from: (tag > 0).then_some(other % ranks), bytes: Bytes(size), tag: (tag > 1).then_some(tag) },
                    _ => {
                        let operation = Collective::ALL[other as usize % 16];
                        let communicator = number.filter(|_| some.contains(&rank)).unwrap_or(0);
                        let (send, receive) = (Bytes(size), Bytes(size / 2));
                        Kind::Collective(CollectiveCall { operation, communicator, root: 0, send, receive, element: Bytes(8) })
                    }
                };
                let index = index as u64;
                let mut after: Vec<Dependency> = index.checked_sub(1).map(Dependency::done).into_iter().collect();
                let earlier = back.into_iter().map(u64::from).filter(|back| (1..=index).contains(back));
                after.extend(earlier.map(|back| Dependency::started(index - back)));
                program.push(rank, Operation::new(kind), &after);
            }
        }
        program
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Whatever the recordings say, there is an answer or an error.
    #[test]
    fn nothing_panics(programs in prop::collection::vec(any_program(), 0..4), ranks in 0u32..70, unexplained in 0.0f64..1.0) {
        let programs = programs.into_iter().map(|program| Ok((String::from("it"), program)));
        if let Ok(found) = extrapolate(programs, narrows_extrapolate::Options { ranks, unexplained, growth: None }) {
            let mut program = found.model.program();
            (0..ranks).for_each(|rank| drop(lines(&mut program, rank)));
        }
    }
}
