//! What single ranks send and receive, and in which rounds, as the sources of the libraries have it.

#![allow(clippy::unwrap_used)]

use narrows_collectives::rules::{MPICH, OPEN_MPI, Rules};
use narrows_collectives::{Action, Algorithm, Children, Operation, Schedule};
use narrows_units::Bytes;

/// The rounds of a rank: `>3:8` sends 8 bytes to rank 3, `<3:8` receives as many. Rounds are parted by `|`, empty ones
/// left out; `+` before a round: its receives are posted while those of the round before are waited for.
fn rounds(schedule: &Schedule, rank: u32) -> String {
    let (mut list, mut actions) = (Vec::new(), Vec::new());
    for round in 0..schedule.rounds(rank) {
        let (part, round) = schedule.part(rank, round);
        part.round(rank, round, &mut actions);
        let words: Vec<String> = actions
            .iter()
            .filter_map(|action| match *action {
                Action::Send { to, piece } => Some(format!(">{to}:{}", part.bytes(piece).0)),
                Action::Receive { from, piece, .. } => Some(format!("<{from}:{}", part.bytes(piece).0)),
                Action::Local { .. } => None,
            })
            .collect();
        if !words.is_empty() {
            list.push(format!("{}{}", if part.posts_ahead(rank, round) { "+" } else { "" }, words.join(" ")));
        }
    }
    list.join(" | ")
}

fn schedule(operation: Operation, algorithm: Algorithm, ranks: u32, root: u32, bytes: u64) -> Schedule {
    Schedule::new(operation, algorithm, ranks, root, Bytes(bytes)).unwrap()
}

/// coll_base_topo.c: the trees of broadcasts, whose sends all start together.
#[test]
fn trees_of_open_mpi() {
    let of = |algorithm, ranks, rank| rounds(&schedule(Operation::Broadcast, algorithm, ranks, 0, 8), rank);
    assert_eq!(of(Algorithm::BinomialDoubling, 8, 0), ">1:8 >2:8 >4:8");
    assert_eq!(of(Algorithm::BinomialDoubling, 8, 1), "<0:8 | >3:8 >5:8");
    assert_eq!(of(Algorithm::BinomialDoubling, 8, 3), "<1:8 | >7:8");
    assert_eq!(of(Algorithm::BinaryLevels, 7, 1), "<0:8 | >3:8 >5:8");
    assert_eq!(of(Algorithm::BinaryLevels, 7, 2), "<0:8 | >4:8 >6:8");
    // The example in the source: 10 ranks, base 4.
    assert_eq!(of(Algorithm::Knomial, 10, 0), ">4:8 >8:8 >1:8 >2:8 >3:8");
    assert_eq!(of(Algorithm::Knomial, 10, 4), "<0:8 | >5:8 >6:8 >7:8");
    assert_eq!(of(Algorithm::Knomial, 10, 8), "<0:8 | >9:8");
    let linear = schedule(Operation::Broadcast, Algorithm::Linear, 4, 2, 8);
    assert_eq!(rounds(&linear, 2), ">0:8 >1:8 >3:8");
}

/// MPICH's binomial trees, and the blocking ones of coll/base.
#[test]
fn one_child_after_the_other() {
    let blocking = |operation, algorithm, root| schedule(operation, algorithm, 8, root, 8).children(Children::OneByOne);
    assert_eq!(rounds(&blocking(Operation::Broadcast, Algorithm::Binomial, 0), 0), ">4:8 | >2:8 | >1:8");
    assert_eq!(rounds(&blocking(Operation::Scatter, Algorithm::Binomial, 0), 4), "<0:32 | >6:16 | >5:8");
    assert_eq!(rounds(&blocking(Operation::Gather, Algorithm::Binomial, 0), 4), "<5:8 | <6:16 | >0:32");
    assert_eq!(rounds(&blocking(Operation::Reduce, Algorithm::Binomial, 1), 1), "<2:8 | <3:8 | <5:8");
    assert_eq!(rounds(&blocking(Operation::Gather, Algorithm::Linear, 1), 1), "<0:8 | <2:8 | <3:8 | <4:8 | <5:8 | <6:8 | <7:8");
    assert_eq!(rounds(&blocking(Operation::Reduce, Algorithm::Linear, 1), 1), "<7:8 | <6:8 | <5:8 | <4:8 | <3:8 | <2:8 | <0:8");
}

/// ompi_coll_base_reduce_generic, ompi_coll_base_allreduce_intra_ring.
#[test]
fn receives_posted_ahead() {
    let reduce = |algorithm| schedule(Operation::Reduce, algorithm, 8, 0, 8).children(Children::OneAhead);
    assert_eq!(rounds(&reduce(Algorithm::Binomial), 0), "<1:8 | +<2:8 | +<4:8");
    assert_eq!(rounds(&reduce(Algorithm::Binomial), 4), "<5:8 | +<6:8 | >0:8");
    assert_eq!(rounds(&reduce(Algorithm::BinaryLevels), 1), "<3:8 | +<5:8 | >0:8");
    let ring = |operation| rounds(&schedule(operation, Algorithm::Ring, 3, 0, 24), 0);
    assert_eq!(ring(Operation::Allreduce), ">1:8 <2:8 | +>1:8 <2:8 | >1:8 <2:8 | >1:8 <2:8");
    assert_eq!(ring(Operation::ReduceScatter), ">1:8 <2:8 | +>1:8 <2:8");
}

/// ompi_coll_base_gather_intra_linear_sync, without a first segment.
#[test]
fn a_gather_that_asks() {
    let gather = schedule(Operation::Gather, Algorithm::LinearSync, 4, 1, 100);
    assert_eq!(rounds(&gather, 1), "<0:100 >0:0 | <2:100 >2:0 | <3:100 >3:0 | <0:0 <2:0 <3:0");
    assert_eq!(rounds(&gather, 3), "<1:0 | >1:100 | >1:0");
}

/// ompi_coll_base_barrier_intra_recursivedoubling: the last message is a synchronous one.
#[test]
fn barriers_of_open_mpi() {
    let barrier = schedule(Operation::Barrier, Algorithm::RecursiveDoubling, 6, 0, 0);
    assert_eq!(rounds(&barrier, 5), "<1:0 >1:0 | >1:0");
    assert_eq!(rounds(&barrier, 1), "<5:0 | <0:0 >0:0 | <3:0 >3:0 | <5:0 >5:0");
    assert_eq!(rounds(&barrier, 2), "<3:0 >3:0 | <0:0 >0:0");
    let linear = schedule(Operation::Barrier, Algorithm::Linear, 4, 0, 0);
    assert_eq!((rounds(&linear, 0), rounds(&linear, 2)), (String::from("<1:0 <2:0 <3:0 | >1:0 >2:0 >3:0"), String::from(">0:0 | <0:0")));
}

/// 11 elements of 4 bytes on 6 ranks: windows of 5 and 6, then of 2 and 3 (Open MPI), or parts of 3, 3, 3 and 2
/// (MPICH).
#[test]
fn vectors_in_halves() {
    let of = |operation, algorithm| schedule(operation, algorithm, 6, 0, 44).elements(Bytes(4));
    let halves = of(Operation::Allreduce, Algorithm::RabenseifnerHalves);
    assert_eq!(rounds(&halves, 0), "<1:20 >1:24 | <1:24 | <2:20 >2:24 | <4:8 >4:12 | <4:12 >4:8 | <2:24 >2:20 | >1:44");
    assert_eq!(rounds(&halves, 1), "<0:24 >0:20 | >0:24 | <0:44");
    let mpich = of(Operation::Allreduce, Algorithm::Rabenseifner);
    assert_eq!(rounds(&mpich, 1), "<0:44 | <3:24 >3:20 | <4:12 >4:12 | <4:12 >4:12 | <3:20 >3:24 | >0:44");
    // Its reduce keeps the even ranks; root 1 takes the place of rank 0 for the gather.
    let reduce = schedule(Operation::Reduce, Algorithm::Rabenseifner, 6, 1, 44).elements(Bytes(4));
    assert_eq!(rounds(&reduce, 1), ">0:44 | <0:12 | <4:12 | <2:20");
    assert_eq!(rounds(&reduce, 0), "<1:44 | <2:24 >2:20 | <4:12 >4:12 | >1:12");
    assert_eq!(rounds(&reduce, 2), "<3:44 | <0:20 >0:24 | <5:12 >5:8 | <5:8 | >1:20");
}

/// ompi_coll_base_reduce_scatter_intra_butterfly and its like for equal blocks.
#[test]
fn butterflies() {
    let four = schedule(Operation::ReduceScatter, Algorithm::Butterfly, 4, 0, 32);
    assert_eq!(rounds(&four, 1), "<0:16 >0:16 | <3:8 >3:8 | <2:8 >2:8");
    assert_eq!(rounds(&four, 3), "<2:16 >2:16 | <1:8 >1:8");
    let blocks = schedule(Operation::ReduceScatterBlock, Algorithm::Butterfly, 4, 0, 8);
    assert_eq!(rounds(&blocks, 1), "<0:16 >0:16 | <3:8 >3:8");
    // Rank 1 takes part for 0, and has the blocks of both.
    let six = schedule(Operation::ReduceScatterBlock, Algorithm::Butterfly, 6, 0, 8);
    assert_eq!(rounds(&six, 0), ">1:48 | <1:8");
    assert_eq!(rounds(&six, 1), "<0:48 | <3:32 >3:16 | <4:16 >4:16 | >0:8");
}

/// ompi_coll_base_reduce_scatter_block_intra_recursivedoubling on 3 ranks: rank 2 has no partner for the first step,
/// and rank 1 none for the second; rank 0 hands on.
#[test]
fn doubling_without_a_power_of_two() {
    let three = schedule(Operation::ReduceScatterBlock, Algorithm::RecursiveDoubling, 3, 0, 8);
    assert_eq!(rounds(&three, 0), "<1:16 >1:16 | <2:16 >2:8 | >1:16");
    assert_eq!(rounds(&three, 1), "<0:16 >0:16 | <0:16");
    assert_eq!(rounds(&three, 2), "<0:8 >0:16");
}

/// ompi_coll_base_allgather_intra_neighborexchange.
#[test]
fn neighbours_exchange() {
    let six = schedule(Operation::Allgather, Algorithm::NeighbourExchange, 6, 0, 8);
    assert_eq!(rounds(&six, 2), "<3:8 >3:8 | <1:16 >1:16 | <3:16 >3:16");
    assert_eq!(rounds(&six, 3), "<2:8 >2:8 | <4:16 >4:16 | <2:16 >2:16");
}

/// Receives from the ranks that follow, sends to those before; MPICH starts 32 at once, the own one among them.
#[test]
fn linear_alltoalls() {
    let linear = schedule(Operation::Alltoall, Algorithm::Linear, 4, 0, 8);
    assert_eq!(rounds(&linear, 1), "<2:8 <3:8 <0:8 >0:8 >3:8 >2:8");
    assert_eq!(rounds(&linear.batched(2), 1), "<2:8 >0:8 | <3:8 <0:8 >3:8 >2:8");
    let pairs = schedule(Operation::Alltoall, Algorithm::PairwiseExclusiveOr, 4, 0, 8);
    assert_eq!(rounds(&pairs, 1), "<0:8 >0:8 | <3:8 >3:8 | <2:8 >2:8");
}

/// MPII_Scatter_for_bcast: parts of 13 bytes, the last one shorter; numbers count from the root.
#[test]
fn broadcasts_in_parts() {
    let doubling = schedule(Operation::Broadcast, Algorithm::ScatterDoubling, 4, 1, 50);
    assert_eq!(rounds(&doubling, 1), ">3:24 | >2:13 | <2:13 >2:13 | <3:24 >3:26");
    assert_eq!(rounds(&doubling, 3), "<1:24 | >0:11 | <0:11 >0:13 | <1:26 >1:24");
    let ring = schedule(Operation::Broadcast, Algorithm::ScatterAllgather, 3, 0, 9);
    assert_eq!(rounds(&ring, 2), "<0:3 | <1:3 >0:3 | <1:3 >0:3");
    // A rank without any bytes is not sent to.
    let short = schedule(Operation::Broadcast, Algorithm::ScatterAllgather, 4, 0, 3);
    assert_eq!(rounds(&short, 0), ">2:1 | >1:1 | <3:0 >1:1 | <3:1 >1:0 | <3:1 >1:1");
}

/// What a reduction of few elements becomes, and reduce-scatters by a reduction: ompi_coll_base_*_redscat_*,
/// ompi_coll_base_reduce_scatter_intra_nonoverlapping, ompi_coll_base_reduce_scatter_block_basic_linear.
#[test]
fn what_stands_for_another_algorithm() {
    let (open_mpi, mpich) = (Rules::parse(OPEN_MPI).unwrap(), Rules::parse(MPICH).unwrap());
    let by = |rules: &Rules, operation, ranks, bytes, element| {
        let choice = rules.choose(operation, ranks, Bytes(bytes), Bytes(element));
        rules.schedule(choice, operation, (ranks, 0), Bytes(bytes), Bytes(element)).unwrap()
    };
    // 2 doubles on 3 ranks: Rabenseifner needs 2.
    assert_eq!(rounds(&by(&mpich, Operation::Allreduce, 3, 16, 8), 1), "<0:16 | <2:8 >2:8 | <2:8 >2:8 | >0:16");
    // 16 doubles on 40 ranks are linear, there and back.
    let linear = by(&open_mpi, Operation::Allreduce, 40, 128, 8);
    assert_eq!((linear.rounds(0), rounds(&linear, 5)), (40, String::from(">0:128 | <0:128")));
    // 1 int on 5 ranks: a binary reduction, then the only part that has anything.
    let few = by(&open_mpi, Operation::ReduceScatter, 5, 4, 4);
    assert_eq!((rounds(&few, 0), rounds(&few, 1)), (String::from("<1:4 | +<2:4"), String::from("<3:4 | >0:4")));
    // 1 MiB for each of 4 ranks: blocking linear ones.
    let blocks = by(&open_mpi, Operation::ReduceScatterBlock, 4, 1 << 20, 8);
    let (whole, part) = (4 << 20, 1 << 20);
    assert_eq!(rounds(&blocks, 0), format!("<3:{whole} | <2:{whole} | <1:{whole} | >1:{part} | >2:{part} | >3:{part}"));
    assert!(mpich.sends_until_delivered() && !open_mpi.sends_until_delivered());
}
