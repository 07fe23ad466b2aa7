//! Programs of which every number of ranks is known: what is extrapolated must be the program itself.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod programs;
mod refusals;

use narrows_extrapolate::{ExtrapolateError, Extrapolation, Options, extrapolate};
use narrows_trace::{Dependency, Kind, Operation, Program};
use narrows_units::Bytes;

/// A function from a number of ranks to a program.
type Make<'a> = &'a dyn Fn(u32) -> Box<dyn Program>;

/// Five in a hundred may be left out.
fn options(ranks: u32) -> Options {
    Options { ranks, unexplained: 0.05, growth: None }
}

/// The program at so many ranks, from what it does at others.
fn from(make: Make<'_>, recorded: &[u32], ranks: u32) -> Result<Extrapolation, ExtrapolateError> {
    extrapolate(recorded.iter().map(|&ranks| Ok((format!("{ranks}.jsonl"), make(ranks)))), options(ranks))
}

type Line = (Operation, Vec<Dependency>);

fn lines(program: &mut dyn Program, rank: u32) -> Vec<Line> {
    let mut after = Vec::new();
    std::iter::from_fn(|| program.next(rank, &mut after).unwrap().map(|operation| (operation, after.clone()))).collect()
}

/// Every operation of every rank is what the program does, and everything it waits for.
fn must_be_the_program(name: &str, make: Make<'_>, recorded: &[u32], ranks: u32) -> Extrapolation {
    let found = from(make, recorded, ranks).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (mut program, mut known) = (found.model.program(), make(ranks));
    assert!(program.communicators() == known.communicators(), "{name}: communicators");
    for rank in 0..ranks {
        let (found, known) = (lines(&mut program, rank), lines(&mut *known, rank));
        if let Some(index) = (0..found.len().max(known.len())).find(|&index| !alike(found.get(index), known.get(index))) {
            panic!("{name} at {ranks} ranks, rank {rank}, operation {index}: {:?} for {:?}", found.get(index), known.get(index));
        }
    }
    found
}

/// But for a byte: shares that are no whole numbers are rounded down in one program and up in another.
fn alike(found: Option<&Line>, known: Option<&Line>) -> bool {
    let (Some((found, waits)), Some((known, others))) = (found, known) else { return false };
    let near = |one: Bytes, other: Bytes| one.0.abs_diff(other.0) <= 1;
    let same = match (found.kind, known.kind) {
        (Kind::Send { to, bytes, tag }, Kind::Send { bytes: size, .. }) => {
            near(bytes, size) && known.kind == Kind::Send { to, bytes: size, tag }
        }
        (Kind::Receive { from, bytes, tag }, Kind::Receive { bytes: size, .. }) => {
            near(bytes, size) && known.kind == Kind::Receive { from, bytes: size, tag }
        }
        (one, other) => one == other,
    };
    same && waits == others
}
