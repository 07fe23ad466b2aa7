//! A program with its collectives spelt out in messages, for formats that have none (GOAL).

use crate::graph::Collectives;
use narrows_collectives::Action;
use narrows_trace::{
    Collective, CollectiveCall, CollectivePart, Communicators, Dependency, Event, Kind, Meetings, Operation, Order, Program, TraceError,
};
use narrows_units::SimTime;
use std::collections::VecDeque;

/// Tags of spelt-out collectives have this bit, and [`Communicators::collective_tag`] below it.
const TAG: u32 = Communicators::COLLECTIVE_TAGS;

/// The program. Keeps two numbers for each operation of the ranks that are under way.
pub struct Expanded<P> {
    program: P,
    collectives: Box<dyn Collectives>,
    communicators: Communicators,
    meetings: Meetings,
    ranks: Vec<State>,
}

#[derive(Default)]
struct State {
    /// New numbers of the start and the end of each operation.
    numbers: Vec<(u64, u64)>,
    ahead: VecDeque<(Operation, Vec<Dependency>)>,
    next: u64,
}

impl State {
    fn push(&mut self, operation: Operation, after: Vec<Dependency>) -> u64 {
        self.ahead.push_back((operation, after));
        self.next += 1;
        self.next - 1
    }
}

impl<P: Program> Expanded<P> {
    /// `program`, its collectives done as `collectives` says.
    pub fn new(program: P, collectives: Box<dyn Collectives>) -> Expanded<P> {
        let ranks = (0..program.ranks()).map(|_| State::default()).collect();
        let communicators = program.communicators().clone();
        Expanded { program, collectives, communicators, meetings: Meetings::default(), ranks }
    }

    fn spell_out(&mut self, rank: u32, call: &CollectiveCall, start: Operation, after: Vec<Dependency>) -> Result<(), TraceError> {
        let failed = |why: String| TraceError::Unsuitable(format!("rank {rank}: {}: {why}", call.operation.name()));
        let member = |position| self.communicators.member(call.communicator, position);
        let position = self.communicators.position(call.communicator, rank).ok_or_else(|| failed(String::from("not a member")))?;
        let size = self.communicators.size(call.communicator).unwrap_or(0);
        let part = CollectivePart { rank, operation: self.ranks[rank as usize].numbers.len() as u64, call: *call };
        let number = self.meetings.join(part, size).map_err(Box::new)?;
        let schedule = self.collectives.schedule(call, &self.communicators).map_err(|error| failed(error.to_string()))?;
        let tag = TAG | self.communicators.collective_tag(call.communicator, number);
        let nothing = Operation { cpu: start.cpu, ..Operation::new(Kind::Compute { duration: SimTime::ZERO }) };
        let state = &mut self.ranks[rank as usize];
        let first = state.push(Operation { delay: start.delay, ..nothing }, after);
        let (mut before, mut actions) = (first, Vec::new());
        for round in 0..schedule.rounds(position) {
            let (schedule, round) = schedule.part(position, round);
            schedule.round(position, round, &mut actions);
            let mut parts = Vec::new();
            for action in &actions {
                let kind = match *action {
                    Action::Send { to, piece } => member(to).map(|to| Kind::Send { to, bytes: schedule.bytes(piece), tag }),
                    Action::Receive { from, piece, .. } => {
                        // In the vector variants only the sender knows the length.
                        let vector = matches!(call.operation, Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv);
                        let bytes = if vector { call.send.max(call.receive) } else { schedule.bytes(piece) };
                        member(from).map(|from| Kind::Receive { from: Some(from), bytes, tag: Some(tag) })
                    }
                    Action::Local { .. } => continue,
                };
                let kind = kind.ok_or_else(|| failed(String::from("a partner that is no member")))?;
                let operation = Operation { cpu: start.cpu, nic: start.nic, ..Operation::new(kind) };
                parts.push(Dependency::done(state.push(operation, vec![Dependency::done(before)])));
            }
            if !parts.is_empty() {
                before = state.push(nothing, parts);
            }
        }
        state.numbers.push((first, before));
        Ok(())
    }
}

impl<P: Program> Program for Expanded<P> {
    fn ranks(&self) -> u32 {
        self.program.ranks()
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    /// Messages of a collective start side by side.
    fn order(&self) -> Order {
        Order::Graph
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        loop {
            let state = &mut self.ranks[rank as usize];
            if let Some((operation, dependencies)) = state.ahead.pop_front() {
                *after = dependencies;
                return Ok(Some(operation));
            }
            let Some(operation) = self.program.next(rank, after)? else {
                *state = State { next: state.next, ..State::default() };
                return Ok(None);
            };
            let renumber = |dependency: &Dependency| {
                let (start, end) = state.numbers[dependency.operation as usize];
                Dependency { operation: if dependency.event == Event::Done { end } else { start }, ..*dependency }
            };
            let dependencies: Vec<Dependency> = after.iter().map(renumber).collect();
            if let Kind::Collective(call) = operation.kind {
                self.spell_out(rank, &call, operation, dependencies)?;
            } else {
                let number = state.push(operation, dependencies);
                state.numbers.push((number, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::ByRules;
    use narrows_collectives::rules::Rules;
    use narrows_trace::generate::{Generated, Parameters, Pattern};
    use narrows_trace::ideal;

    /// A broadcast to n ranks takes n - 1 messages with a tree; computing on an ideal machine stays as it was.
    #[test]
    fn messages_in_place_of_collectives() {
        for ranks in [2u32, 5, 16] {
            let parameters = Parameters { ranks, steps: 4, bytes: Some(8), cells: None, compute: Some(SimTime::from_us(7)) };
            let rules = Rules::parse("bcast *: binomial\n").unwrap_or_else(|error| panic!("{error}"));
            let program = Generated::new(Pattern::Bcast, parameters).unwrap();
            let mut program = Expanded::new(program, Box::new(ByRules::new(rules, None)));
            let outcome = ideal::run(&mut program, &mut ideal::Nobody).unwrap();
            assert_eq!((outcome.messages, outcome.collectives, outcome.problems), (4 * u64::from(ranks - 1), 0, Vec::new()));
            assert!(outcome.finish.iter().all(|finish| *finish == SimTime::from_us(28)), "{:?}", outcome.finish);
        }
    }
}
