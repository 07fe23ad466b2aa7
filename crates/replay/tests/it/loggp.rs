//! The LogGP replay against sums that are worked out by hand, and against what LogGOPSim says.

use narrows_collectives::rules::Rules;
use narrows_replay::Outcome;
use narrows_replay::collectives::ByRules;
use narrows_replay::graph::{Graph, NoCollectives};
use narrows_replay::loggp::{self, Parameters};
use narrows_trace::{Collective, CollectiveCall, Communicators, Kind, Operation, Order, Recorded, TraceError, goal};
use narrows_units::{Bytes, SimTime};
use std::path::Path;

fn run(mut graph: Graph, parameters: Parameters) -> Outcome {
    loggp::run(&mut graph, parameters, &mut |_| true)
}

fn goal(text: &str, parameters: Parameters) -> Outcome {
    let mut strict = |mistake| Err(TraceError::Malformed(mistake));
    let mut program = goal::read_text(Path::new("test.goal"), text.as_bytes(), &mut strict).unwrap();
    let mut graph = Graph::new();
    graph.add("test", &mut program, 1.0, &mut NoCollectives).unwrap();
    run(graph, parameters)
}

fn ns(outcome: &Outcome) -> Vec<u64> {
    assert_eq!(outcome.failure, None);
    outcome.rank_finish.iter().map(|time| time.as_ps() / 1000).collect()
}

/// One collective of all ranks.
fn collective(ranks: u32, rule: &str, operation: Collective, bytes: u64, parameters: Parameters) -> Outcome {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Graph);
    for rank in 0..ranks {
        let call = CollectiveCall { operation, communicator: 0, root: 0, send: Bytes(bytes), receive: Bytes(bytes), element: Bytes(0) };
        program.push(rank, Operation::new(Kind::Collective(call)), &[]);
    }
    let mut graph = Graph::new();
    graph.add("collective", &mut program, 1.0, &mut ByRules::new(Rules::parse(rule).unwrap(), None)).unwrap();
    run(graph, parameters)
}

/// L = 2500, o = 1500, g = 1000, G = 6: a message of s bytes takes 2 o + L + (s - 1) G = 5500 + 6 (s - 1).
#[test]
fn one_message() {
    let text = |bytes| format!("num_ranks 2\nrank 0 {{\nl1: send {bytes}b to 1 tag 0\n}}\nrank 1 {{\nl1: recv {bytes}b from 0 tag 0\n}}\n");
    assert_eq!(ns(&goal(&text(1), Parameters::default())), [1500, 5500]);
    assert_eq!(ns(&goal(&text(1001), Parameters::default())), [1500, 11_500]);
    // O = 10 ns per byte is more than G: 1500 + 1000 * 10 on both sides, the second one after L.
    let slow = Parameters { overhead_per_byte: SimTime::from_ns(10), ..Parameters::default() };
    assert_eq!(ns(&goal(&text(1001), slow)), [11_500, 15_500]);
}

/// The example in LogGOPSim's README: a binomial reduction of 1 KiB over 8 ranks, with its printed times.
#[test]
fn the_published_example_of_loggopsim() {
    let sends = [(4, 0), (5, 1), (6, 2), (7, 3), (2, 0), (3, 1), (1, 0)];
    let mut ranks = vec![Vec::new(); 8];
    for (from, to) in sends {
        ranks[from].push(format!("send 1024b to {to} tag 0"));
        ranks[to].push(format!("recv 1024b from {from} tag 0"));
    }
    let mut text = String::from("num_ranks 8\n");
    for (rank, operations) in ranks.iter().enumerate() {
        text += &format!("rank {rank} {{\n");
        for (index, operation) in operations.iter().enumerate() {
            text += &format!("l{index}: {operation}\n");
            if operation.starts_with("send") {
                (0..index).for_each(|earlier| text += &format!("l{index} requires l{earlier}\n"));
            }
        }
        text += "}\n";
    }
    let outcome = goal(&text, Parameters::default());
    assert_eq!(ns(&outcome), [34_914, 24_776, 13_138, 13_138, 1500, 1500, 1500, 1500]);
}

/// A rendezvous (s > S) ends for its sender when the receive is found: here when the receiver has computed for 50 us.
#[test]
fn rendezvous_waits_for_the_receiver() {
    let text = "num_ranks 2\nrank 0 {\na: send 100b to 1 tag 0\nb: calc 7\nb requires a\n}\n\
                rank 1 {\na: calc 50000\nb: recv 100b from 0 tag 0\nb requires a\n}\n";
    let eager = goal(text, Parameters::default());
    assert_eq!(ns(&eager), [1507, 50_000 + 1500 + 99 * 6]);
    let rendezvous = goal(text, Parameters { eager: Bytes(99), ..Parameters::default() });
    assert_eq!(ns(&rendezvous), [50_007, 50_000 + 1500 + 99 * 6]);
}

/// Broadcast of s bytes over a binomial tree, o >= g: a rank sends to its children every max(o, g + (s-1) G); each has
/// it o + L + o + (s-1) G after the start of its send. The time is the longest of these sums over the tree.
#[test]
fn binomial_broadcast_is_the_textbook_sum() {
    fn latest(number: u32, ranks: u32, ready: u64, bytes: u64) -> u64 {
        let below = if number == 0 { ranks.next_power_of_two() } else { number & number.wrapping_neg() };
        let (mut hop, mut send, mut last) = (below / 2, ready, ready);
        while hop > 0 {
            if number + hop < ranks {
                last = last.max(latest(number + hop, ranks, send + 1500 + 2500 + 1500 + (bytes - 1) * 6, bytes));
                send += 1500.max(1000 + (bytes - 1) * 6);
            }
            hop /= 2;
        }
        last
    }
    for ranks in [2, 3, 8, 13, 64, 100] {
        for bytes in [1, 84, 85, 1000] {
            let outcome = collective(ranks, "bcast *: binomial", Collective::Broadcast, bytes, Parameters::default());
            let found = ns(&outcome).into_iter().max().unwrap();
            assert_eq!(found, latest(0, ranks, 0, bytes), "{ranks} ranks, {bytes} bytes");
            assert_eq!(outcome.messages(), u64::from(ranks) - 1);
        }
    }
}

/// A ring of p ranks: p - 1 steps of 2 o + L + (s - 1) G for an allgather of s bytes, twice that for an allreduce of p
/// s bytes.
#[test]
fn rings_are_the_textbook_sums() {
    for ranks in [2, 5, 16, 33] {
        for bytes in [1, 100, 5000] {
            let step = 5500 + (bytes - 1) * 6;
            let steps = u64::from(ranks) - 1;
            let outcome = collective(ranks, "allgather *: ring", Collective::Allgather, bytes, Parameters::default());
            assert_eq!(ns(&outcome), vec![steps * step; ranks as usize], "allgather of {ranks}, {bytes} bytes");
            let vector = bytes * u64::from(ranks);
            let outcome = collective(ranks, "allreduce *: ring", Collective::Allreduce, vector, Parameters::default());
            assert_eq!(ns(&outcome), vec![2 * steps * step; ranks as usize], "allreduce of {ranks}, {vector} bytes");
        }
    }
}

/// Every operation of a dissemination barrier: log2 p rounds of 2 o + L.
#[test]
fn dissemination_takes_a_round_for_every_bit() {
    for (ranks, rounds) in [(2, 1), (4, 2), (5, 3), (64, 6), (1000, 10)] {
        let outcome = collective(
            ranks,
            "barrier *: dissemination",
            Collective::Barrier,
            0,
            Parameters { gap_per_byte: SimTime::ZERO, ..Parameters::default() },
        );
        assert_eq!(ns(&outcome), vec![rounds * 5500; ranks as usize], "{ranks} ranks");
    }
}

/// Ten sends are ready at once; CPU and NIC take them in their order. Each holds the CPU for o and the NIC for g.
#[test]
fn waiting_operations_keep_their_order() {
    let mut text = String::from("num_ranks 2\nrank 0 {\n");
    (0..10).for_each(|index| text += &format!("l{index}: send 1b to 1 tag {index}\n"));
    text += "}\nrank 1 {\n";
    (0..10).for_each(|index| text += &format!("l{index}: recv 1b from 0 tag {index}\n"));
    text += "}\n";
    let wide = Parameters { gap: SimTime::from_ns(2000), ..Parameters::default() };
    // The last send starts after nine gaps; it is received 5500 later.
    assert_eq!(ns(&goal(&text, wide)), [9 * 2000 + 1500, 9 * 2000 + 5500]);
    assert_eq!(ns(&goal(&text, Parameters::default())), [10 * 1500, 9 * 1500 + 5500]);
}

#[test]
fn a_deadlock_says_who_waits_for_whom() {
    let outcome = goal("num_ranks 2\nrank 0 {\nl1: recv 1b from 1 tag 3\n}\nrank 1 {\nl1: calc 5\n}\n", Parameters::default());
    let failure = outcome.failure.unwrap();
    assert!(failure.contains("deadlock") && failure.contains("rank 0 waits for a message from rank 1, tag 3"), "{failure}");
}

#[test]
fn the_same_program_has_the_same_digest_and_another_one_another() {
    let of = |bytes: u64| collective(37, "alltoall *: bruck", Collective::Alltoall, bytes * 37, Parameters::default()).digest;
    assert_eq!(of(10), of(10));
    assert_ne!(of(10), of(11));
}

#[test]
fn delays_scale_and_applications_end_on_their_own() {
    let mut graph = Graph::new();
    for (name, delay) in [("short", 10), ("long", 70)] {
        let mut program = Recorded::new(1, Communicators::world(1), Order::Graph);
        let mut operation = Operation::new(Kind::Compute { duration: SimTime::from_us(delay) });
        operation.delay = SimTime::from_us(3);
        program.push(0, operation, &[]);
        graph.add(name, &mut program, 0.5, &mut NoCollectives).unwrap();
    }
    let outcome = run(graph, Parameters::default());
    let ends: Vec<(&str, SimTime)> = outcome.applications.iter().map(|one| (one.name.as_str(), one.finish)).collect();
    assert_eq!(ends, [("short", SimTime::from_ns(6500)), ("long", SimTime::from_ns(36_500))]);
}
