//! The extrapolated program, made operation by operation: nothing of it is kept.

use crate::error::ExtrapolateError;
use crate::grid::GridRank;
use crate::model::{Act, Model, Step};
use crate::tokens::{self, Family};
use narrows_trace::{Communicators, Dependency, Event, Kind, Limited, Operation, Order, Program, Totals, TraceError};
use narrows_units::SimTime;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A program at a number of ranks that nobody ran.
#[derive(Debug)]
pub struct Extrapolated {
    model: Arc<Model>,
    communicators: Communicators,
    numbers: BTreeMap<(Family, u32), u32>,
    ranks: Vec<Cursor>,
}

/// Where a rank is in its text.
#[derive(Clone, Debug, Default)]
struct Cursor {
    at: u32,
    operation: u64,
    /// Of the loops that it is in: the round, and how many there are.
    loops: Vec<(u32, u32)>,
}

impl Extrapolated {
    pub(crate) fn new(model: Arc<Model>) -> Extrapolated {
        let (communicators, numbers) = tokens::communicators(model.grid, &model.families);
        let ranks = vec![Cursor::default(); model.grid.ranks() as usize];
        Extrapolated { model, communicators, numbers, ranks }
    }

    fn operation(&self, place: &GridRank, act: &Act, round: u32) -> Operation {
        let partner = act.partner.and_then(|partner| partner.of(place, round));
        let communicator = match act.family {
            Some(family) if family != tokens::WORLD => {
                self.numbers.get(&(family, tokens::first_member(place.grid, family.directions, place.rank))).copied()
            }
            _ => Some(0),
        };
        match (act.is_left_out || act.partner.is_some() && partner.is_none(), communicator) {
            (false, Some(communicator)) => act.word.operation(partner, communicator, act.values),
            // Its place stays, for those that wait for it.
            _ => Operation::new(Kind::Compute { duration: SimTime::ZERO }),
        }
    }
}

impl Program for Extrapolated {
    fn ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        Order::Sequential
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        after.clear();
        let model = Arc::clone(&self.model);
        let place = model.grid.place(rank);
        let text = &model.texts[model.classes[&model.scheme.class(&place)]];
        let cursor = &mut self.ranks[rank as usize];
        loop {
            match text.get(cursor.at as usize) {
                None => {
                    cursor.loops = Vec::new();
                    return Ok(None);
                }
                Some(Step::Begin(rounds, end)) => match u32::try_from(rounds.of(&place)) {
                    Ok(rounds) if rounds > 0 => {
                        cursor.loops.push((0, rounds));
                        cursor.at += 1;
                    }
                    _ => cursor.at = *end,
                },
                Some(Step::End(begin)) => {
                    cursor.at += 1;
                    if let Some((round, rounds)) = cursor.loops.last_mut() {
                        *round += 1;
                        if round < rounds {
                            cursor.at = begin + 1;
                        } else {
                            cursor.loops.pop();
                        }
                    }
                }
                Some(Step::Act(number)) => {
                    let act = &model.acts[*number as usize];
                    waits(act, &place, cursor.operation, after);
                    cursor.at += 1;
                    cursor.operation += 1;
                    let round = cursor.loops.last().map_or(0, |(round, _)| *round);
                    return Ok(Some(self.operation(&place, act, round)));
                }
            }
        }
    }
}

/// What an operation waits for: of what the model says, that which there is, and the operation before.
fn waits(act: &Act, place: &GridRank, number: u64, after: &mut Vec<Dependency>) {
    for (event, back, count) in &act.waits {
        let (back, count) = (back.of(place), count.of(place));
        for index in 0..count {
            let Some(back) = u64::try_from(back - index).ok().filter(|back| (1..=number).contains(back)) else { break };
            after.push(Dependency { operation: number - back, event: *event });
        }
    }
    if number > 0 && !after.iter().any(|dependency| dependency.operation == number - 1) {
        after.push(Dependency { operation: number - 1, event: Event::Started });
    }
}

/// Our own choice: counting so many takes minutes, and no disk holds their trace.
const MOST_MADE: u64 = 10_000_000_000;

/// Takes the whole program: its sums. What is sent from one rank to another with a tag must be what is received.
pub(crate) fn check_meetings(program: &mut Extrapolated) -> Result<Totals, ExtrapolateError> {
    let mut program = Limited::new(program);
    let mut totals = Totals::default();
    // A message adds what its receive takes away; sums of mixed words are equal for equal sets.
    let (mut open, mut from_anybody) = (0u64, false);
    let mut count = 0i64;
    let mut after = Vec::new();
    for rank in 0..program.ranks() {
        while let Some(operation) = program.next(rank, &mut after)? {
            totals.add(&operation);
            if totals.operations > MOST_MADE {
                return Err(ExtrapolateError::DoesNotMeet(format!("{} ranks would do more than {MOST_MADE} operations", program.ranks())));
            }
            match operation.kind {
                Kind::Send { to, tag, .. } => {
                    open = open.wrapping_add(mixed(rank, to, tag));
                    count += 1;
                }
                Kind::Receive { from, tag, .. } => {
                    from_anybody |= from.is_none() || tag.is_none();
                    open = open.wrapping_sub(mixed(from.unwrap_or(0), rank, tag.unwrap_or(0)));
                    count -= 1;
                }
                _ => {}
            }
        }
    }
    let ranks = program.ranks();
    if count != 0 {
        return Err(ExtrapolateError::DoesNotMeet(format!("{ranks} ranks would send {count:+} messages more than they receive")));
    }
    if open != 0 && !from_anybody {
        return Err(ExtrapolateError::DoesNotMeet(format!("of {ranks} ranks some would wait for messages that others do not send")));
    }
    Ok(totals)
}

/// SplitMix64's finaliser, over all three.
fn mixed(from: u32, to: u32, tag: u32) -> u64 {
    let mut word = (u64::from(from) << 32 | u64::from(to)) ^ u64::from(tag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        word = (word ^ word >> shift).wrapping_mul(factor);
    }
    word ^ word >> 31
}
