//! A replay that several processes share: to the bit that of one process.

use narrows_collectives::rules::{MPICH, OPEN_MPI, Rules};
use narrows_collectives::{Algorithm, Operation as CollectiveOperation};
use narrows_fabric::parallel::Processes;
use narrows_machine::{Machine, Overrides};
use narrows_message::Rails;
use narrows_replay::collectives::{ByRules, Layout};
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::mapping;
use narrows_replay::port::Costs;
use narrows_replay::{Outcome, ReplayError};
use narrows_sim::Hardware;
use narrows_trace::{Collective, CollectiveCall, Communicators, Dependency, Event, Kind, Operation, Order, Program, Recorded};
use narrows_units::{Bytes, NodeId, ProcessorId, SimTime};
use proptest::prelude::*;

/// A machine of one network, and which collectives it uses.
struct Case {
    machine: Machine,
    rules: String,
    threads: usize,
}

impl Case {
    fn new(name: &str, nodes: Option<u32>, set: &[&str]) -> Case {
        let set = set.iter().map(|&set| set.to_owned()).collect();
        let machine = Machine::load(name, &Overrides { nodes, set }).unwrap();
        Case { machine, rules: String::from(OPEN_MPI), threads: 1 }
    }

    /// Ranks far apart, the next one in another group where that is possible.
    fn run(&self, programs: Vec<Recorded>, processes: Option<&Processes>) -> Result<Outcome, ReplayError> {
        let (machine, topology) = (&self.machine, self.machine.topology().unwrap());
        let (count, mut taken) = (machine.node.count, 0);
        let place = |program: &Recorded| -> Vec<ProcessorId> {
            let first = taken;
            taken += program.ranks();
            let host = |rank| ProcessorId::host(NodeId(rank * ((count * 2 / 5) | 1) % count));
            (first..taken).map(host).collect()
        };
        let nodes: Vec<Vec<ProcessorId>> = programs.iter().map(place).collect();
        let places = mapping::processes(&nodes);
        let parts = programs.into_iter().enumerate().zip(nodes.iter().zip(places)).map(|((index, program), (nodes, processes))| {
            let all: Vec<NodeId> = NodeId::first(machine.node.count).collect();
            let layout = mapping::layout((&topology, &all), nodes);
            let layout = Layout { accelerator: machine.accelerator_board(), ..layout };
            PlacedTrace {
                name: format!("trace{index}"),
                program: Box::new(program),
                collectives: Box::new(ByRules::new(Rules::parse(&self.rules).unwrap(), Some(layout))),
                scale: vec![1.0],
                processes,
                costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
            }
        });
        let (parts, network) = (parts.collect(), machine.network_config(1));
        let hardware = Hardware::new(&network, topology.clone(), machine.nic_config());
        let message = machine.message_config(Rails::default());
        let replay = match processes {
            Some(processes) => Replay::spread(hardware, parts, message, processes).unwrap(),
            None => Replay::new(hardware, parts, message).unwrap(),
        };
        replay.on_threads(self.threads).run(&mut |_| true)
    }

    /// What each of so many processes makes of it. One that has an error ends all.
    fn each(&self, programs: &[Recorded], count: u32) -> Vec<Result<Outcome, ReplayError>> {
        std::thread::scope(|scope| {
            let one = |processes: Processes| {
                scope.spawn(move || {
                    let done = self.run(programs.to_vec(), Some(&processes));
                    done.inspect_err(|error| processes.fail(2, &error.to_string()))
                })
            };
            let threads: Vec<_> = Processes::of_threads(count).into_iter().map(one).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

/// All of it but events and windows: how often an output that waits for credits looks for them depends on which
/// region's news it hears first.
fn shown(outcome: &Outcome) -> String {
    let mut totals = outcome.totals.unwrap();
    totals.events = 0;
    let Outcome { applications, rank_finish, rank_computing, rank_beside, rails, sent, passed, digest, failure, .. } = outcome;
    format!(
        "{applications:?} {rank_finish:?} {rank_computing:?} {rank_beside:?} {totals:?} {rails:?} {sent:?} {passed:?} {digest} {failure:?}"
    )
}

fn makes_no_difference(case: &Case, programs: &[Recorded], count: u32) {
    let alone = case.run(programs.to_vec(), None).unwrap();
    let together = case.each(programs, count);
    assert!(shown(together[0].as_ref().unwrap()) == shown(&alone), "{:#?}\ninstead of\n{alone:#?}", together[0]);
    assert!(together.iter().all(|one| one.as_ref().unwrap().failure == alone.failure));
}

const CALLS: [(CollectiveOperation, Collective); 10] = [
    (CollectiveOperation::Broadcast, Collective::Broadcast),
    (CollectiveOperation::Reduce, Collective::Reduce),
    (CollectiveOperation::Allreduce, Collective::Allreduce),
    (CollectiveOperation::Gather, Collective::Gather),
    (CollectiveOperation::Scatter, Collective::Scatter),
    (CollectiveOperation::Allgather, Collective::Allgather),
    (CollectiveOperation::Barrier, Collective::Barrier),
    (CollectiveOperation::Alltoall, Collective::Alltoall),
    (CollectiveOperation::ReduceScatter, Collective::ReduceScatterBlock),
    (CollectiveOperation::Scan, Collective::Scan),
];

/// What every rank does at random: messages of all sizes, computing, delays, collectives of all and of some. All sends
/// come before the receives that they belong to, so that it ends.
fn random_program(ranks: u32, seed: u64) -> Recorded {
    let mut random = narrows_engine::stream(seed, "program", 0);
    let mut communicators = Communicators::world(ranks);
    let (even, odd) = ((0..ranks).step_by(2).collect(), (1..ranks).step_by(2).rev().collect());
    communicators.add(even);
    communicators.add(odd);
    let circles = communicators.clone();
    let mut program = Recorded::new(ranks, communicators, Order::Sequential);
    let mut numbers = vec![0u64; ranks as usize];
    let mut push = |rank: u32, kind: Kind, delay: u64| {
        let number = &mut numbers[rank as usize];
        let after = if *number > 0 { vec![Dependency { operation: *number - 1, event: Event::Started }] } else { Vec::new() };
        program.push(rank, Operation { delay: SimTime(delay), ..Operation::new(kind) }, &after);
        *number += 1;
    };
    for round in 0..4 {
        for rank in 0..ranks {
            push(rank, Kind::Compute { duration: SimTime(random.below(3_000_000)) }, random.below(2) * 400_000);
            for number in 0..random.below(4) as u32 {
                let to = random.below(u64::from(ranks)) as u32;
                let bytes = [0, 8, 100, 5_000, 40_000, 300_000][random.below(6) as usize];
                let tag = (round * 4 + number) % 2;
                push(rank, Kind::Send { to, bytes: Bytes(bytes), tag }, 0);
                push(to, Kind::Receive { from: Some(rank), bytes: Bytes(bytes), tag: Some(tag) }, 0);
            }
        }
        let (_, operation) = CALLS[random.below(10) as usize];
        let communicator = random.below(u64::from(circles.count())) as u32;
        let bytes = if operation == Collective::Barrier { 0 } else { [8, 3_000, 60_000][random.below(3) as usize] };
        let send = if operation == Collective::Alltoall { bytes * u64::from(circles.size(communicator).unwrap()) } else { bytes };
        let call = CollectiveCall { operation, communicator, root: 0, send: Bytes(send), receive: Bytes(bytes), element: Bytes(0) };
        circles.members(communicator).for_each(|rank| push(rank, Kind::Collective(call), 0));
    }
    program
}

/// Machines that fall into parts, with NICs that match and others that do not.
const MACHINES: [(&str, Option<u32>, &[&str]); 9] = [
    ("bxi-v2", Some(144), &[]),
    ("bxi-v2", Some(144), &["nic.kind=mailbox"]),
    ("bxi-v2", Some(144), &["nic.kind=tcp"]),
    ("bxi-v2", Some(144), &["message.protocol=pscom"]),
    ("bxi-v3-reliable", Some(144), &[r#"network.faults=["loss=0.001"]"#]),
    ("dragonfly-342", None, &["network.routing=par"]),
    ("fattree-256", None, &["network.routing=adaptive"]),
    ("exanest", None, &[]),
    ("roce-400", Some(1100), &[]),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn processes_make_no_difference(
        machine in 0..MACHINES.len(), ranks in 2u32..40, other in 1u32..12, seed in 0u64..10_000, processes in 1u32..5, threads in 1usize..3,
        mpich: bool,
    ) {
        let (name, nodes, set) = MACHINES[machine];
        let rules = String::from(if mpich { MPICH } else { OPEN_MPI });
        let case = Case { rules, threads, ..Case::new(name, nodes, set) };
        let processes = processes.min(case.machine.topology().unwrap().groups());
        makes_no_difference(&case, &[random_program(ranks, seed), random_program(other, seed + 1)], processes);
    }
}

fn collective(ranks: u32, call: impl Fn(u32) -> CollectiveCall) -> Recorded {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        program.push(rank, Operation::new(Kind::Collective(call(rank))), &[]);
        program.push(rank, Operation::new(Kind::Collective(call(rank))), &[Dependency::done(0)]);
    }
    program
}

#[test]
fn collectives_by_every_algorithm() {
    let (ranks, bytes) = (19, 20_000);
    for (operation, call) in CALLS {
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.does(operation)) {
            let send = if call == Collective::Alltoall { bytes * u64::from(ranks) } else { bytes };
            let call =
                CollectiveCall { operation: call, communicator: 0, root: 0, send: Bytes(send), receive: Bytes(bytes), element: Bytes(0) };
            let (mut case, processes) = match algorithm {
                // Switches copy in one process.
                Algorithm::Hardware => continue,
                Algorithm::ExanetAccelerator => (Case::new("exanest", None, &[]), 2),
                _ => (Case::new("dragonfly-342", None, &[]), 3),
            };
            case.rules = format!("{operation} *: {algorithm}\n{OPEN_MPI}");
            makes_no_difference(&case, &[collective(ranks, |_| call)], processes);
        }
    }
}

/// With two processes: the one that has the error says it as a single process does, the other one repeats it.
fn refused(programs: &[Recorded]) -> String {
    let case = Case::new("bxi-v2", Some(144), &[]);
    let alone = case.run(programs.to_vec(), None).unwrap_err().to_string();
    let mut told: Vec<String> = case.each(programs, 2).into_iter().map(|one| one.unwrap_err().to_string()).collect();
    told.sort_by_key(String::len);
    assert!(told[1] == format!("process 0: {}", told[0]) || told[1] == format!("process 1: {}", told[0]), "{told:?}");
    assert_eq!(told[0], alone);
    alone
}

/// Members of a collective that say different things find out wherever they are.
#[test]
fn contradictions_between_processes_are_found() {
    let call = |rank: u32| CollectiveCall {
        operation: Collective::Allreduce,
        communicator: 0,
        root: 0,
        send: Bytes(8 + u64::from(rank)),
        receive: Bytes(8),
        element: Bytes(0),
    };
    let line = refused(&[collective(2, call)]);
    let expected =
        "rank 0, operation 0, calls allreduce of 8 B, but rank 1, operation 0, calls allreduce of 9 B on the same communicator (0)";
    assert_eq!(line, format!("{expected} at this point"));
    assert!(refused(&[random_program(4, 3), collective(2, call)]).starts_with("trace1: rank 0, operation 0, calls"));
}

#[test]
fn errors_of_one_are_those_of_all() {
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(9), tag: 7 }), &[]);
    program.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(8), tag: None }), &[]);
    assert!(refused(&[program.clone()]).starts_with("rank 1, operation 0: a message of 9 B"));
    program.push(0, Operation::new(Kind::Send { to: 2, bytes: Bytes(9), tag: 7 }), &[]);
    assert!(refused(&[program]).starts_with("rank 0, operation 1: the other rank is 2"));
}

/// What stands still stands still everywhere, and is told by all in the same words.
#[test]
fn outcomes_without_an_end_are_the_same() {
    let case = Case::new("bxi-v2", Some(144), &[]);
    let mut stuck = Recorded::new(30, Communicators::world(30), Order::Sequential);
    (0..30).for_each(|rank| stuck.push(rank, Operation::new(Kind::Receive { from: None, bytes: Bytes(8), tag: Some(3) }), &[]));
    makes_no_difference(&case, std::slice::from_ref(&stuck), 2);
    let alone = case.run(vec![stuck], None).unwrap();
    assert!(alone.failure.unwrap().ends_with("... and 20 more"));
    // 104 days each, one after the other: rank 1 waits for rank 0.
    let long = Kind::Compute { duration: SimTime::from_us(9_000_000_000_000) };
    let mut late = Recorded::new(2, Communicators::world(2), Order::Sequential);
    late.push(0, Operation::new(long), &[]);
    late.push(
        0,
        Operation { delay: SimTime::from_us(9_000_000_000_000), ..Operation::new(Kind::Send { to: 1, bytes: Bytes(8), tag: 0 }) },
        &[Dependency::done(0)],
    );
    late.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(8), tag: Some(0) }), &[]);
    let alone = case.run(vec![late.clone()], None);
    match alone {
        Ok(outcome) => {
            assert!(outcome.failure.unwrap().contains("200 days"));
            makes_no_difference(&case, &[late], 2);
        }
        Err(_) => assert!(refused(&[late]).contains("200 days")),
    }
}

/// Any process can end a replay; all end at one time, with the same words.
#[test]
fn a_signal_to_one_ends_all() {
    let case = Case::new("bxi-v2", Some(144), &[]);
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    for number in 0..200_000 {
        let after: &[Dependency] = if number > 0 { &[Dependency::done(number - 1)] } else { &[] };
        for rank in 0..2 {
            let first = (number + u64::from(rank)).is_multiple_of(2);
            let send = Kind::Send { to: 1 - rank, bytes: Bytes(8), tag: 0 };
            let receive = Kind::Receive { from: Some(1 - rank), bytes: Bytes(8), tag: Some(0) };
            program.push(rank, Operation::new(if first { send } else { receive }), after);
        }
    }
    let topology = case.machine.topology().unwrap();
    let ended: Vec<Outcome> = std::thread::scope(|scope| {
        let one = |processes: Processes| {
            let (case, topology, program) = (&case, topology.clone(), program.clone());
            scope.spawn(move || {
                let network = case.machine.network_config(1);
                let hardware = Hardware::new(&network, topology, case.machine.nic_config());
                let part = PlacedTrace {
                    name: String::from("pingpong"),
                    program: Box::new(program),
                    collectives: Box::new(ByRules::new(Rules::default(), None)),
                    scale: vec![1.0],
                    processes: mapping::processes(&[[0, 100].map(|node| ProcessorId::host(NodeId(node))).to_vec()]).concat(),
                    costs: vec![Costs::of(&case.machine.node.host.software, case.machine.nic.portals())],
                };
                let replay = Replay::spread(hardware, vec![part], case.machine.message_config(Rails::default()), &processes).unwrap();
                replay.run(&mut |progress| processes.process() != 1 || progress.now < SimTime::from_us(50)).unwrap()
            })
        };
        let threads: Vec<_> = Processes::of_threads(2).into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ended[0].failure.as_ref().unwrap().starts_with("interrupted at simulated time "), "{:?}", ended[0].failure);
    assert_eq!(ended[0].failure, ended[1].failure);
}
