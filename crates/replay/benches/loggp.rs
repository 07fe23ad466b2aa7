//! Messages per second of the LogGP replay: a dissemination barrier, the pattern that LogGOPSim's authors measure with.
//!
//! `cargo bench -p narrows-replay --bench loggp [RANKS]`

#![allow(clippy::print_stdout)] // people read it

use narrows_replay::graph::{Graph, NoCollectives};
use narrows_replay::loggp::{self, Parameters};
use narrows_trace::{Communicators, Dependency, Kind, Operation, Order, Program, TraceError};
use narrows_units::Bytes;
use std::time::Instant;

/// In round k every rank sends to the one 2^k further on and receives from the one 2^k before; a round starts when its
/// predecessor ended.
struct Dissemination {
    ranks: u32,
    next: Vec<u32>,
    communicators: Communicators,
}

impl Program for Dissemination {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn communicators(&self) -> &Communicators {
        &self.communicators
    }

    fn order(&self) -> Order {
        Order::Graph
    }

    fn next(&mut self, rank: u32, after: &mut Vec<Dependency>) -> Result<Option<Operation>, TraceError> {
        after.clear();
        let number = self.next[rank as usize];
        self.next[rank as usize] += 1;
        let hop = 1 << (number / 2);
        if hop >= self.ranks {
            return Ok(None);
        }
        if number >= 2 {
            // Both of the round before.
            let round = u64::from(number / 2 * 2);
            after.extend([Dependency::done(round - 2), Dependency::done(round - 1)]);
        }
        let kind = match number % 2 {
            0 => Kind::Send { to: (rank + hop) % self.ranks, bytes: Bytes(1), tag: hop },
            _ => Kind::Receive { from: Some((rank + self.ranks - hop) % self.ranks), bytes: Bytes(1), tag: Some(hop) },
        };
        Ok(Some(Operation::new(kind)))
    }
}

/// CPU time of this thread: the machine may be busy with other things.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e9
}

fn main() {
    let ranks = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(65_536);
    let mut program = Dissemination { ranks, next: vec![0; ranks as usize], communicators: Communicators::world(ranks) };
    let mut graph = Graph::new();
    let start = Instant::now();
    graph.add("dissemination", &mut program, 1.0, &mut NoCollectives).expect("the program is complete");
    let read = start.elapsed().as_secs_f64();
    let operations = graph.operations();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let outcome = loggp::run(&mut graph, Parameters::default(), &mut |_| true);
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    assert_eq!(outcome.failure, None);
    let messages = outcome.messages();
    println!(
        "{ranks} ranks, {operations} operations read in {read:.3} s; {messages} messages, {} events in {seconds:.3} s, {cpu:.3} s of CPU: {:.2} M messages/s of CPU time; \
         simulated {}, digest {:016x}",
        outcome.events,
        messages as f64 / cpu / 1e6,
        outcome.finish,
        outcome.digest
    );
}
