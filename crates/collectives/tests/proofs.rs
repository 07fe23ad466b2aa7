//! Every algorithm of every operation, on symbols, for many numbers of ranks, roots, segmentations.

#![allow(clippy::unwrap_used)]

use narrows_collectives::locality::{Locality, glf, llf};
use narrows_collectives::proof::{self, Moved};
use narrows_collectives::{Action, Algorithm, Children, Operation, Schedule};
use narrows_units::Bytes;

fn schedule(operation: Operation, algorithm: Algorithm, ranks: u32, root: u32, bytes: u64) -> Schedule {
    Schedule::new(operation, algorithm, ranks, root, Bytes(bytes)).unwrap()
}

fn prove(schedule: &Schedule) -> Moved {
    let what = format!("{} by {} of {} ranks, root {}", schedule.operation(), schedule.algorithm(), schedule.ranks(), schedule.root());
    proof::run(schedule).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn needs_places(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Glf | Algorithm::Llf)
}

#[test]
fn every_rank_ends_with_what_mpi_says() {
    let mut proved = 0;
    for operation in Operation::ALL {
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.does(operation) && !needs_places(*algorithm)) {
            for ranks in (1..=40u32).chain([63, 64, 65, 100, 128]) {
                if algorithm == Algorithm::RecursiveDoubling && operation == Operation::Allgather && !ranks.is_power_of_two() {
                    continue;
                }
                for root in [0, 1, ranks / 2, ranks - 1] {
                    if root < ranks && (root == 0 || operation.has_root()) {
                        prove(&schedule(operation, algorithm, ranks, root, 1000));
                        proved += 1;
                    }
                }
            }
        }
    }
    assert!(proved > 1500, "{proved} schedules");
}

const TREES: [Algorithm; 7] = [
    Algorithm::Linear,
    Algorithm::Chain,
    Algorithm::Binary,
    Algorithm::BinaryLevels,
    Algorithm::Binomial,
    Algorithm::BinomialDoubling,
    Algorithm::Knomial,
];

#[test]
fn segments_and_the_order_of_children_change_nothing() {
    for (operation, algorithms) in [
        (Operation::Broadcast, TREES.to_vec()),
        (Operation::Reduce, TREES.to_vec()),
        (Operation::Scatter, vec![Algorithm::Linear, Algorithm::Binomial]),
        (Operation::Gather, vec![Algorithm::Linear, Algorithm::Binomial]),
    ] {
        for algorithm in algorithms {
            for ranks in [1, 2, 3, 7, 8, 21] {
                for segment in [0, 1, 64, 999, 1000, 1001] {
                    for children in [Children::Together, Children::OneByOne, Children::OneAhead] {
                        let one = schedule(operation, algorithm, ranks, ranks / 3, 1000).segmented(Bytes(segment)).children(children);
                        let whole = schedule(operation, algorithm, ranks, ranks / 3, 1000);
                        assert_eq!(prove(&one).bytes, prove(&whole).bytes, "{operation} {algorithm} {ranks} {segment}");
                    }
                }
            }
        }
    }
}

/// Groups of m among n ranks: each rank sends 2 (m - 1) / m of the vector inside of its group, and 2 (k - 1) / k of one
/// m-th of it to others, k = n / m of them.
#[test]
fn groups_of_a_hierarchical_allreduce() {
    for (ranks, group) in [(12u64, 4u64), (12, 3), (12, 1), (12, 12), (16, 8), (64, 8), (6, 2), (9, 3)] {
        let bytes = 1000 * ranks;
        let one = schedule(Operation::Allreduce, Algorithm::Hierarchical, ranks as u32, 0, bytes).grouped(group as u32);
        let moved = prove(&one);
        let others = ranks / group;
        let each = 2 * (group - 1) * (bytes / group) + 2 * (others - 1) * (bytes / group / others);
        assert_eq!(moved.bytes, ranks * each, "{ranks} ranks in groups of {group}");
        assert_eq!(u64::from(moved.rounds), 2 * (group - 1) + 2 * (others - 1));
        let mut outside = 0;
        let mut actions = Vec::new();
        for rank in 0..ranks as u32 {
            for round in 0..one.rounds(rank) {
                one.round(rank, round, &mut actions);
                outside += actions
                    .iter()
                    .filter_map(|action| match *action {
                        Action::Send { to, piece } if u64::from(to) / group != u64::from(rank) / group => Some(one.bytes(piece).0),
                        _ => None,
                    })
                    .sum::<u64>();
            }
        }
        assert_eq!(outside, ranks * 2 * (others - 1) * (bytes / group / others));
    }
    // A group that does not divide the ranks: one ring of all.
    let ring = prove(&schedule(Operation::Allreduce, Algorithm::Ring, 10, 0, 1000));
    assert_eq!(prove(&schedule(Operation::Allreduce, Algorithm::Hierarchical, 10, 0, 1000).grouped(4)), ring);
}

#[test]
fn batches_of_a_linear_alltoall() {
    for ranks in 1..20 {
        for batch in [0, 1, 2, 5, 32] {
            let moved = prove(&schedule(Operation::Alltoall, Algorithm::Linear, ranks, 0, 8).batched(batch));
            assert_eq!(moved.messages, u64::from(ranks * (ranks - 1)));
            // A rank's exchange with itself counts.
            let rounds = if batch == 0 { 1 } else { ranks.div_ceil(batch) };
            assert_eq!(moved.rounds, if ranks == 1 { 1 } else { rounds });
        }
    }
}

/// Canonical dragonfly, all link offsets absolute: group i, offset d leads to group i + d + 1 and leaves at router d /
/// h.
fn dragonfly(ranks_per_router: u32, routers: u32, links: u32) -> (Vec<u32>, Vec<u32>) {
    let groups = routers * links + 1;
    let ranks = groups * routers * ranks_per_router;
    let group = (0..ranks).map(|rank| rank / (routers * ranks_per_router)).collect();
    let router = (0..ranks).map(|rank| rank / ranks_per_router).collect();
    (group, router)
}

/// The routers at both ends of the link between two of the 19 groups of 6 routers with 3 links each.
fn gateway(from: u32, to: u32) -> (u32, u32) {
    let leaves = |from: u32, to: u32| from * 6 + ((to + 19 - from) % 19 - 1) / 3;
    (leaves(from, to), leaves(to, from))
}

#[test]
fn topology_aware_broadcasts_reach_everybody_in_the_steps_of_their_definition() {
    // 342 nodes: p = 3, a = 6, h = 3, 19 groups.
    let (group, router) = dragonfly(3, 6, 3);
    let places = Locality { group: &group, router: &router, gateway: &gateway };
    let ranks = group.len() as u32;
    assert_eq!(ranks, 342);
    for root in [0, 1, 17, 200, 341] {
        let glf = schedule(Operation::Broadcast, Algorithm::Glf, ranks, root, 1 << 20).over(glf(&places, root)).unwrap();
        let llf = schedule(Operation::Broadcast, Algorithm::Llf, ranks, root, 1 << 20).over(llf(&places, root)).unwrap();
        for one in [glf.clone().children(Children::OneByOne), llf.clone().children(Children::OneByOne), glf, llf] {
            assert_eq!(prove(&one).messages, 341);
        }
        for algorithm in [Algorithm::Glf, Algorithm::Llf] {
            // One send at a time, one unit of time each: the published sums are 23 and 11 (fluid simulation without
            // contention).
            let tree = if algorithm == Algorithm::Glf {
                narrows_collectives::locality::glf(&places, root)
            } else {
                narrows_collectives::locality::llf(&places, root)
            };
            let mut ready = vec![0; ranks as usize];
            let mut order = vec![root];
            while let Some(rank) = order.pop() {
                for (turn, &child) in tree.children(rank).iter().enumerate() {
                    ready[child as usize] = ready[rank as usize] + turn + 1;
                    order.push(child);
                }
            }
            let steps = ready.into_iter().max().unwrap();
            assert_eq!(steps, if algorithm == Algorithm::Glf { 23 } else { 11 }, "{algorithm} from {root}");
        }
    }
    // A communicator of some ranks only.
    let some: Vec<usize> = (0..342).filter(|rank| rank % 7 != 0 && rank % 5 != 0).collect();
    let (group, router): (Vec<u32>, Vec<u32>) = some.iter().map(|&rank| (group[rank], router[rank])).unzip();
    let places = Locality { group: &group, router: &router, gateway: &gateway };
    let ranks = group.len() as u32;
    for root in [0, 5, ranks - 1] {
        prove(&schedule(Operation::Broadcast, Algorithm::Glf, ranks, root, 8).over(glf(&places, root)).unwrap());
        prove(&schedule(Operation::Broadcast, Algorithm::Llf, ranks, root, 8).over(llf(&places, root)).unwrap());
    }
}

/// One message for all nodes, one more for each further rank of a node.
#[test]
fn copied_broadcasts_reach_everybody() {
    for (ranks, ppn) in [(1, 1), (2, 1), (9, 1), (9, 2), (10, 4), (5, 5)] {
        let nodes: Vec<u32> = (0..ranks).map(|rank| (rank * 7 % ranks) / ppn).collect();
        for root in [0, ranks / 2, ranks - 1] {
            let tree = narrows_collectives::locality::hardware(&nodes, root);
            let one = schedule(Operation::Broadcast, Algorithm::Hardware, ranks, root, 1000).over(tree).unwrap();
            let mut others: Vec<u32> = one.copied().iter().map(|&rank| nodes[rank as usize]).collect();
            others.sort_unstable();
            let expected: Vec<u32> = (0..ranks.div_ceil(ppn)).filter(|&node| node != nodes[root as usize]).collect();
            assert_eq!(others, expected, "every other node once");
            assert!(one.copied().is_sorted());
            for schedule in [one.clone().segmented(Bytes(300)), one] {
                assert_eq!(prove(&schedule).bytes, 1000 * u64::from(ranks - 1));
            }
        }
    }
}

/// Messages and bytes of Thakur, Rabenseifner, Gropp (2005) for 16 ranks and a vector of n = 1600 bytes (blocks: 100).
#[test]
fn messages_and_bytes_are_those_of_the_textbook() {
    let (p, n) = (16u64, 1600u64);
    let moved = |operation, algorithm, bytes| prove(&schedule(operation, algorithm, 16, 0, bytes));
    let check = |operation, algorithm, bytes, messages: u64, all_bytes: u64, rounds: u32| {
        let found = moved(operation, algorithm, bytes);
        assert_eq!(found, Moved { messages, bytes: all_bytes, rounds }, "{operation} by {algorithm}");
    };
    check(Operation::Broadcast, Algorithm::Binomial, n, p - 1, (p - 1) * n, 2);
    // The root's four sends are blocking ones.
    check(Operation::Broadcast, Algorithm::ScatterAllgather, n, p - 1 + p * (p - 1), 4 * 8 * n / p + (p - 1) * n, 4 + 15);
    check(Operation::Allreduce, Algorithm::RecursiveDoubling, n, p * 4, p * 4 * n, 4);
    check(Operation::Allreduce, Algorithm::Ring, n, 2 * p * (p - 1), 2 * (p - 1) * n, 30);
    check(Operation::Allreduce, Algorithm::Rabenseifner, n, 2 * p * 4, 2 * (p - 1) * n, 8);
    check(Operation::Allgather, Algorithm::Ring, n / p, p * (p - 1), (p - 1) * n, 15);
    check(Operation::Allgather, Algorithm::Bruck, n / p, p * 4, (p - 1) * n, 4);
    check(Operation::Allgather, Algorithm::RecursiveDoubling, n / p, p * 4, (p - 1) * n, 4);
    check(Operation::Alltoall, Algorithm::Pairwise, n / p, p * (p - 1), (p - 1) * n, 15);
    check(Operation::Alltoall, Algorithm::Bruck, n / p, p * 4, p * 4 * n / 2, 5);
    check(Operation::ReduceScatter, Algorithm::RecursiveHalving, n, p * 4, (p - 1) * n, 4);
    check(Operation::ReduceScatter, Algorithm::Pairwise, n, p * (p - 1), (p - 1) * n, 15);
    check(Operation::Barrier, Algorithm::Dissemination, 0, p * 4, 0, 4);
    check(Operation::Scan, Algorithm::Linear, n, p - 1, (p - 1) * n, 2);
}

#[test]
fn wrong_requests_are_refused_with_what_would_do() {
    let error = Schedule::new(Operation::Scan, Algorithm::Ring, 4, 0, Bytes(1)).unwrap_err().to_string();
    assert_eq!(error, "ring does no scan; what does: linear, recursive-doubling");
    let error = Schedule::new(Operation::Reduce, Algorithm::Binomial, 4, 4, Bytes(1)).unwrap_err().to_string();
    assert_eq!(error, "the root is rank 4, but there are 4 ranks");
    assert!(Schedule::new(Operation::Allgather, Algorithm::RecursiveDoubling, 6, 0, Bytes(1)).is_err());
    assert!("bcst".parse::<Operation>().unwrap_err().to_string().contains("known: bcast, reduce"));
}
