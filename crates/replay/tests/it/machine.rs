//! The replay through message layer, NICs and networks.

use narrows_collectives::rules::Rules;
use narrows_collectives::{Action, Algorithm, Operation as CollectiveOperation, Schedule, proof};
use narrows_fabric::{NetworkConfig, NetworkKind};
use narrows_machine::{Machine, Overrides};
use narrows_message::Rails;
use narrows_replay::Outcome;
use narrows_replay::collectives::ByRules;
use narrows_replay::graph::Graph;
use narrows_replay::loggp;
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::mapping::{self, Mapping};
use narrows_replay::port::Costs;
use narrows_sim::Hardware;
use narrows_topology::Topology;
use narrows_trace::{Collective, CollectiveCall, Communicators, Dependency, Event, Kind, Operation, Order, Program, Recorded};
use narrows_units::{Bytes, NodeId, ProcessorId, SimTime};

/// The processor of a node's host.
fn host(node: u32) -> ProcessorId {
    ProcessorId::host(NodeId(node))
}

/// Its nodes.
fn all(machine: &Machine) -> Vec<NodeId> {
    NodeId::first(machine.node.count).collect()
}

fn replay(network: &str, mapping: &str, rule: &str, programs: Vec<Recorded>) -> Outcome {
    let set = vec![format!("network.kind={network}"), String::from("node.cores=64")];
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(64), set }).unwrap();
    let topology = machine.topology().unwrap();
    let ranks: Vec<u32> = programs.iter().map(Program::ranks).collect();
    let nodes = mapping::processors(&mapping.parse::<Mapping>().unwrap(), &machine, (&topology, &all(&machine)), None, &ranks).unwrap();
    let processes = mapping::processes(&nodes);
    let parts = programs.into_iter().zip(&processes).map(|(program, processes)| PlacedTrace {
        name: String::from("test"),
        program: Box::new(program),
        collectives: Box::new(ByRules::new(Rules::parse(rule).unwrap(), None)),
        scale: vec![1.0],
        processes: processes.clone(),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    });
    let parts = parts.collect();
    run(&machine, topology, parts)
}

fn run(machine: &Machine, topology: Topology, parts: Vec<PlacedTrace>) -> Outcome {
    let network = machine.network_config(1);
    let hardware = Hardware::new(&network, topology, machine.nic_config());
    Replay::new(hardware, parts, machine.message_config(Rails::default())).unwrap().run(&mut |_| true).unwrap()
}

/// There and back `turns` times, each operation after the end of the one before.
fn pingpong(bytes: u64, turns: u64) -> Recorded {
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    for rank in 0..2 {
        for number in 0..2 * turns {
            let kind = if (number + u64::from(rank)).is_multiple_of(2) {
                Kind::Send { to: 1 - rank, bytes: Bytes(bytes), tag: 0 }
            } else {
                Kind::Receive { from: Some(1 - rank), bytes: Bytes(bytes), tag: Some(0) }
            };
            let after = if number > 0 { vec![Dependency::done(number - 1)] } else { Vec::new() };
            program.push(rank, Operation::new(kind), &after);
        }
    }
    program
}

/// A rendezvous of 1 MiB takes 99.3 us (see below). Its receiver computes for 200 us after it has posted the receive:
/// on the core the data wait for that, on an accelerator they do not.
#[test]
fn an_accelerator_computes_beside_the_core() {
    let finish = |cpu: u8, parts: u64| {
        let mut program = Recorded::new(2, Communicators::world(2), Order::Graph);
        program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(1 << 20), tag: 0 }), &[]);
        program.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(1 << 20), tag: Some(0) }), &[]);
        for _ in 0..parts {
            let kind = Kind::Compute { duration: SimTime::from_ns(200_000 / parts) };
            program.push(1, Operation { cpu, ..Operation::new(kind) }, &[Dependency::started(0)]);
        }
        let outcome = replay("flow", "linear", "", vec![program]);
        assert_eq!(outcome.failure, None);
        outcome.rank_finish.iter().map(|time| time.as_ns_f64() / 1000.0).collect::<Vec<_>>()
    };
    // Operations of one unit follow each other: four of 50 us are one of 200 us.
    for parts in [1, 4] {
        let beside = finish(1, parts);
        assert!((beside[0] - 99.3).abs() < 1.0 && (beside[1] - 200.0).abs() < 0.5, "{beside:?}");
    }
    let on_the_core = finish(0, 1);
    assert!(on_the_core[0] > 290.0 && on_the_core[1] > 290.0, "{on_the_core:?}");
}

fn collective(ranks: u32, times: u64, call: impl Fn(u32) -> CollectiveCall) -> Recorded {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        for number in 0..times {
            let after = if number > 0 { vec![Dependency::done(number - 1)] } else { Vec::new() };
            program.push(rank, Operation::new(Kind::Collective(call(rank))), &after);
        }
    }
    program
}

/// Two allreduces of a communicator that are under way at a time, as non-blocking ones of a recording: a rank begins
/// the second one early, and what it sends is not for the first one of others.
#[test]
fn collectives_under_way_at_a_time_do_not_mix() {
    let program = |early: u32, after: SimTime| {
        let mut program = Recorded::new(6, Communicators::world(6), Order::Sequential);
        let allreduce = |bytes: u64| {
            let (operation, bytes) = (Collective::Allreduce, Bytes(bytes));
            Operation::new(Kind::Collective(CollectiveCall {
                operation,
                communicator: 0,
                root: 0,
                send: bytes,
                receive: bytes,
                element: Bytes(8),
            }))
        };
        for rank in 0..6 {
            program.push(rank, allreduce(100_000), &[]);
            if rank == early {
                let beside = Operation { cpu: 1, ..Operation::new(Kind::Compute { duration: after }) };
                program.push(rank, beside, &[Dependency::started(0)]);
            }
            program.push(rank, allreduce(1000), &[Dependency::done(u64::from(rank == early))]);
        }
        program
    };
    for (early, us) in (0..6).flat_map(|early| [1, 5, 20].map(|us| (early, us))) {
        let program = || program(early, SimTime::from_us(us));
        for network in ["packet", "flow"] {
            assert_eq!(replay(network, "linear", "", vec![program()]).failure, None, "rank {early} after {us} us, {network}");
        }
        let mut graph = Graph::new();
        graph.add("test", &mut program(), 1.0, &mut ByRules::new(Rules::default(), None)).unwrap();
        let outcome = loggp::run(&mut graph, loggp::Parameters::default(), &mut |_| true);
        assert_eq!(outcome.failure, None, "rank {early} after {us} us, LogGP");
    }
}

/// What the example `pingpong` prints on two ranks of bxi-v2 in a live run (Open MPI 4.1, compute none): half a round
/// trip in ns.
#[test]
fn point_to_point_takes_as_long_as_live() {
    for network in ["flow", "packet"] {
        for (bytes, live) in [(0, 1503), (8, 1504), (64, 1517), (512, 2195), (4096, 2876), (8192, 3657), (16_384, 5606), (1 << 20, 99_323)]
        {
            let outcome = replay(network, "linear", "", vec![pingpong(bytes, 10)]);
            assert_eq!(outcome.failure, None);
            let half = outcome.finish.as_ns_f64() / 20.0;
            assert!((half - f64::from(live)).abs() < 2.0, "{network}, {bytes} B: {half} ns, live {live} ns");
            assert_eq!((outcome.messages(), outcome.bytes()), (20, 20 * bytes));
        }
    }
}

/// What the examples `allreduce` and `alltoall` print on 16 ranks, live as above, in ns; Open MPI's rules.
#[test]
fn collectives_take_as_long_as_live() {
    let open_mpi = narrows_collectives::rules::OPEN_MPI;
    for (operation, bytes, live) in [
        (Collective::Allreduce, 8, 6822),
        (Collective::Allreduce, 16, 48_325),
        (Collective::Allreduce, 32, 48_325),
        (Collective::Allreduce, 1024, 9978),
        (Collective::Allreduce, 65_536, 40_083),
        (Collective::Alltoall, 1, 10_354),
        (Collective::Alltoall, 16, 6939),
        (Collective::Alltoall, 64, 9591),
        (Collective::Alltoall, 4096, 16_498),
        (Collective::Alltoall, 65_536, 105_128),
    ] {
        let buffer = if operation == Collective::Alltoall { 16 * bytes } else { bytes };
        let call = CollectiveCall { operation, communicator: 0, root: 0, send: Bytes(buffer), receive: Bytes(buffer), element: Bytes(0) };
        let outcome = replay("flow", "linear", open_mpi, vec![collective(16, 20, |_| call)]);
        let each = outcome.finish.as_ns_f64() / 20.0;
        let off = (each / f64::from(live) - 1.0).abs();
        assert!(off < 0.002, "{} of {bytes} B: {each} ns, live {live} ns", operation.name());
    }
}

/// All algorithms go through to the end on every network, with the messages and bytes of their proofs.
/// Messages and bytes that all ranks send in the schedule of these rules.
fn sends_of(rules: &Rules, operation: CollectiveOperation, ranks: u32, bytes: Bytes) -> (u64, u64) {
    let choice = rules.choose(operation, ranks, bytes, Bytes(0));
    let schedule = rules.schedule(choice, operation, (ranks, 0), bytes, Bytes(0)).unwrap();
    let (mut messages, mut sum, mut actions) = (0, 0, Vec::new());
    for rank in 0..ranks {
        for round in 0..schedule.rounds(rank) {
            let (part, round) = schedule.part(rank, round);
            part.round(rank, round, &mut actions);
            for action in &actions {
                if let Action::Send { piece, .. } = *action {
                    (messages, sum) = (messages + 1, sum + part.bytes(piece).0);
                }
            }
        }
    }
    (messages, sum)
}

#[test]
fn every_algorithm_moves_what_its_schedule_says() {
    use CollectiveOperation::{ReduceScatter, ReduceScatterBlock};
    let calls = [
        (CollectiveOperation::Broadcast, Collective::Broadcast),
        (CollectiveOperation::Reduce, Collective::Reduce),
        (CollectiveOperation::Allreduce, Collective::Allreduce),
        (CollectiveOperation::Gather, Collective::Gather),
        (CollectiveOperation::Scatter, Collective::Scatter),
        (CollectiveOperation::Allgather, Collective::Allgather),
        (CollectiveOperation::Barrier, Collective::Barrier),
        (CollectiveOperation::Alltoall, Collective::Alltoall),
        (ReduceScatter, Collective::ReduceScatter),
        (ReduceScatterBlock, Collective::ReduceScatterBlock),
        (CollectiveOperation::Scan, Collective::Scan),
    ];
    let (ranks, bytes) = (11, 20_000);
    for (operation, call) in calls {
        for algorithm in Algorithm::ALL {
            let Ok(schedule) = Schedule::new(operation, algorithm, ranks, 0, Bytes(if call == Collective::Barrier { 0 } else { bytes }))
            else {
                continue;
            };
            if matches!(algorithm, Algorithm::Glf | Algorithm::Llf) {
                continue;
            }
            let proved = proof::run(&schedule).unwrap();
            let rule = format!("{operation} *: {algorithm}");
            // Two operations one after the other, each as the rules have it.
            let is_two = algorithm == Algorithm::ReduceThenRoot && matches!(operation, ReduceScatter | ReduceScatterBlock);
            let expected = match is_two {
                true => sends_of(&Rules::parse(&rule).unwrap(), operation, ranks, Bytes(bytes)),
                false => (proved.messages, proved.bytes),
            };
            let of_all = matches!(call, Collective::Alltoall | Collective::ReduceScatterBlock);
            let send = if of_all { bytes * u64::from(ranks) } else { bytes };
            let call =
                CollectiveCall { operation: call, communicator: 0, root: 0, send: Bytes(send), receive: Bytes(bytes), element: Bytes(0) };
            for network in ["packet", "flow", "loggp"] {
                let outcome = replay(network, "linear", &rule, vec![collective(ranks, 1, |_| call)]);
                assert_eq!(outcome.failure, None, "{rule} on {network}");
                assert_eq!((outcome.messages(), outcome.bytes()), expected, "{rule} on {network}");
            }
        }
    }
}

/// Two applications that share no link: each ends as if it were alone, and the digest of each is the same.
#[test]
fn applications_without_common_links_do_not_disturb_each_other() {
    let alone = replay("packet", "linear", "", vec![pingpong(100_000, 5)]);
    let both = replay("packet", "node", "", vec![pingpong(100_000, 5), pingpong(3000, 50)]);
    assert_eq!(both.applications[0].finish, alone.applications[0].finish);
    assert_eq!(both.applications[0].messages, 10);
    assert_eq!(both.applications[1].messages, 100);
    assert_ne!(both.applications[0].finish, both.applications[1].finish);
    let again = replay("packet", "node", "", vec![pingpong(100_000, 5), pingpong(3000, 50)]);
    assert_eq!(both.digest, again.digest);
}

/// Two applications on the boards of one ExaNeSt, whose ranks have these protection domains.
fn in_domains(domains: &str, programs: Vec<Recorded>) -> Outcome {
    let set = vec![format!("nic.exanet.domains={domains}")];
    let machine = Machine::load("exanest-mezz", &Overrides { nodes: None, set }).unwrap();
    let topology = machine.topology().unwrap();
    let ranks: Vec<u32> = programs.iter().map(Program::ranks).collect();
    let nodes = mapping::processors(&Mapping::Node, &machine, (&topology, &all(&machine)), None, &ranks).unwrap();
    let parts = programs.into_iter().zip(mapping::processes(&nodes)).map(|(program, processes)| PlacedTrace {
        name: String::from("test"),
        program: Box::new(program),
        collectives: Box::new(ByRules::new(Rules::parse("").unwrap(), None)),
        scale: vec![1.0],
        processes,
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    });
    let parts = parts.collect();
    run(&machine, topology, parts)
}

/// Each application is in a domain of its own: nothing changes. Where its ranks are in two, the run ends with a line.
#[test]
fn protection_domains_separate_applications() {
    let programs = || vec![pingpong(8, 20), pingpong(100_000, 5)];
    let (none, own) = (in_domains("[]", programs()), in_domains("[4, 4, 7, 7]", programs()));
    assert_eq!((own.failure.clone(), own.digest, own.finish), (None, none.digest, none.finish));
    assert_eq!(own.totals.unwrap().refused_accesses, 0);
    let mixed = in_domains("[4, 4, 7, 4]", programs());
    assert_eq!(mixed.totals.unwrap().refused_accesses, 1);
    let line = mixed.failure.unwrap();
    assert!(
        line.starts_with("node 3 has refused an access of rank 2, which is in protection domain 7, to address 0x")
            && line.ends_with("of its process 0, which is in domain 4; see nic.exanet.domains"),
        "{line}"
    );
}

/// A message that comes before its receive waits in the overflow blocks and is copied: 4,096 B at 10 GB/s are 409.6 ns
/// more.
#[test]
fn unexpected_messages_are_copied() {
    let program = |early: bool| {
        let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
        program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(4096), tag: 5 }), &[]);
        let receive = Operation::new(Kind::Receive { from: None, bytes: Bytes(4096), tag: None });
        let compute = Operation::new(Kind::Compute { duration: SimTime::from_us(50) });
        if early {
            program.push(1, receive, &[]);
            program.push(1, compute, &[Dependency::started(0)]);
            program.push(1, Operation::new(Kind::Compute { duration: SimTime::ZERO }), &[Dependency::done(0), Dependency::done(1)]);
        } else {
            program.push(1, compute, &[]);
            program.push(1, receive, &[Dependency::done(0)]);
        }
        program
    };
    let expected = replay("flow", "linear", "", vec![program(true)]).finish;
    let unexpected = replay("flow", "linear", "", vec![program(false)]).finish;
    // Both post (202 ns) and complete (286 ns); the late receive also asks its NIC and waits for the answer.
    assert_eq!(expected, SimTime::from_ns(50_000 + 202 + 286));
    let more = (unexpected - expected).as_ns_f64();
    assert!((409.6 + 600.0..409.6 + 1000.0).contains(&more), "{more} ns");
}

/// A broadcast that switches copy, to `ranks` ranks on as many nodes or fewer; rank 1 comes `late`.
fn copied(network: &str, ranks: u32, ppn: u32, bytes: u64, late: SimTime, rule: &str) -> Outcome {
    let set = vec![format!("network.kind={network}"), String::from("node.cores=64")];
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(64), set }).unwrap();
    let topology = machine.topology().unwrap();
    let nodes =
        mapping::processors(&"linear".parse::<Mapping>().unwrap(), &machine, (&topology, &all(&machine)), Some(ppn), &[ranks]).unwrap();
    let processes = mapping::processes(&nodes).concat();
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        let call = |root: u32| {
            let (send, receive) = if rank == root { (bytes, 0) } else { (0, bytes) };
            CollectiveCall {
                operation: Collective::Broadcast,
                communicator: 0,
                root,
                send: Bytes(send),
                receive: Bytes(receive),
                element: Bytes(0),
            }
        };
        program.push(rank, Operation::new(Kind::Compute { duration: if rank == 1 { late } else { SimTime::ZERO } }), &[]);
        for (number, root) in [(1, 0), (2, 0), (3, ranks - 1)] {
            program.push(rank, Operation::new(Kind::Collective(call(root))), &[Dependency::done(number - 1)]);
        }
    }
    let collectives = Box::new(ByRules::new(Rules::parse(rule).unwrap(), Some(mapping::layout((&topology, &all(&machine)), &nodes[0]))));
    let part = PlacedTrace {
        name: String::from("test"),
        program: Box::new(program),
        collectives,
        scale: vec![1.0],
        processes: processes.clone(),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    run(&machine, topology, vec![part])
}

#[test]
fn switches_copy_for_every_rank_on_every_network() {
    for network in ["packet", "flow", "loggp"] {
        for (ranks, ppn) in [(2, 1), (23, 4), (6, 6)] {
            for bytes in [0u64, 1, 10_000] {
                for rule in ["bcast *: hardware", "bcast *: hardware/4096"] {
                    let pieces = if rule.ends_with("4096") { bytes.div_ceil(4096).max(1) } else { 1 };
                    let outcome = copied(network, ranks, ppn, bytes, SimTime::ZERO, rule);
                    assert_eq!(outcome.failure, None, "{rule} {network} {ranks} {bytes}");
                    let copies = 3 * u64::from(ranks - 1);
                    assert_eq!(
                        (outcome.messages(), outcome.bytes()),
                        (copies * pieces, copies * bytes),
                        "{rule} {network} {ranks} {bytes}"
                    );
                }
            }
        }
    }
}

/// 100,000 B at 10 GB/s are 10 us for each of two broadcasts; the third comes when rank 1 is there.
#[test]
fn a_broadcast_before_its_receive_is_copied() {
    let late = SimTime::from_us(200);
    for network in ["packet", "flow"] {
        let outcome = copied(network, 4, 1, 100_000, late, "bcast *: hardware");
        assert_eq!(outcome.failure, None);
        let copy = (outcome.rank_finish[1] - late).as_ns_f64();
        // Two of rank 0 and one of rank 3, each copied and completed.
        assert_eq!(copy, 3.0 * (10_000.0 + 286.0), "{network}");
        assert!(outcome.rank_finish[0] < SimTime::from_us(60) && outcome.rank_finish[3] < SimTime::from_us(60), "nobody waits for rank 1");
    }
}

/// Two nodes of one switch send 100 messages of 10,000 B each to a third, and another pair talks elsewhere: what is
/// seen in all periods adds up to the whole.
#[test]
fn periods_add_up() {
    let incast = || {
        let mut program = Recorded::new(3, Communicators::world(3), Order::Graph);
        for rank in 0..2 {
            (0..100).for_each(|_| program.push(rank, Operation::new(Kind::Send { to: 2, bytes: Bytes(10_000), tag: 0 }), &[]));
            (0..100)
                .for_each(|_| program.push(2, Operation::new(Kind::Receive { from: Some(rank), bytes: Bytes(10_000), tag: Some(0) }), &[]));
        }
        program
    };
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(64), set: Vec::new() }).unwrap();
    let nodes = vec![[0, 1, 2].map(host).to_vec(), [40, 41].map(host).to_vec()];
    let processes = mapping::processes(&nodes);
    let whole = |kind: NetworkKind, period: Option<SimTime>| {
        let topology = machine.topology().unwrap();
        let config = NetworkConfig { kind, ..machine.network_config(1) };
        let parts = [incast(), pingpong(3000, 20)].into_iter().zip(&processes).map(|(program, processes)| PlacedTrace {
            name: String::from("test"),
            program: Box::new(program),
            collectives: Box::new(ByRules::new(Rules::parse("").unwrap(), None)),
            scale: vec![1.0],
            processes: processes.clone(),
            costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
        });
        let hardware = Hardware::new(&config, topology, machine.nic_config());
        let replay = match period {
            Some(period) => Replay::watched(hardware, parts.collect(), machine.message_config(Rails::default()), period),
            None => Replay::new(hardware, parts.collect(), machine.message_config(Rails::default())),
        };
        replay.unwrap().run(&mut |_| true).unwrap()
    };
    let plain = whole(NetworkKind::Packet, None);
    for period in [SimTime::from_ns(700), SimTime::from_us(10), SimTime::from_us(100_000)] {
        let outcome = whole(NetworkKind::Packet, Some(period));
        assert_eq!(outcome.digest, plain.digest, "looking changes nothing");
        let seen = outcome.seen.unwrap();
        for (application, intervals) in outcome.applications.iter().zip(&seen.applications) {
            assert_eq!(intervals.iter().map(|one| one.messages).sum::<u64>(), application.messages);
            assert_eq!(intervals.iter().map(|one| one.bytes).sum::<u64>(), application.bytes);
            assert_eq!(intervals.iter().map(|one| one.fct_max).max(), Some(application.fct.max()));
        }
        // Payload with headers, announcements and answers of rendezvous.
        let wire = |application: usize| seen.applications[application].iter().map(|one| one.wire_bytes).sum::<u64>();
        assert!((2_000_000..2_200_000).contains(&wire(0)) && (120_000..140_000).contains(&wire(1)), "{} {}", wire(0), wire(1));
        let telemetry = seen.telemetry.unwrap();
        assert_eq!(telemetry.link_rows.iter().map(|row| u64::from(row.packets)).sum::<u64>(), outcome.totals.unwrap().packet_hops);
        // The queues of all links are those of all applications.
        let length = period.as_s_f64();
        let by_link: f64 = telemetry.queue_rows.iter().map(|row| f64::from(row.mean_packets) * length).sum();
        let by_application: f64 = seen.applications.iter().flatten().map(|one| one.queued * length).sum();
        assert!((by_link / by_application - 1.0).abs() < 1e-3, "{by_link} {by_application}");
        // Both senders are as fast as the target: on average one of two packets waits. The ping-pong never does.
        assert_eq!(seen.applications[1].iter().map(|one| one.queued).sum::<f64>(), 0.0);
        assert!(by_application > 50e-6, "{by_application} packet seconds");
    }
    // Flows: no packets and no queues, but links.
    let period = SimTime::from_us(10);
    let (plain, outcome) = (whole(NetworkKind::Flow, None), whole(NetworkKind::Flow, Some(period)));
    assert_eq!(outcome.digest, plain.digest, "looking changes nothing");
    let seen = outcome.seen.unwrap();
    let telemetry = seen.telemetry.unwrap();
    assert!(!seen.packets && telemetry.queue_rows.is_empty());
    let ejection = machine.topology().unwrap().ejection(2);
    let busy: f64 = telemetry.link_rows.iter().filter(|row| row.link == ejection).map(|row| f64::from(row.utilisation)).sum();
    let bytes = busy * period.as_s_f64() * machine.link.host.bandwidth.0 as f64;
    assert!((2_000_000.0..2_200_000.0).contains(&bytes), "two senders of 100 messages of 10,000 B: {bytes} B");
    // LogGP has no links.
    assert!(whole(NetworkKind::LogGp, Some(period)).seen.unwrap().telemetry.is_none());
}

#[test]
fn a_deadlock_is_found() {
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, Operation::new(Kind::Receive { from: Some(1), bytes: Bytes(8), tag: Some(0) }), &[]);
    let failure = replay("flow", "linear", "", vec![program]).failure.unwrap();
    assert!(failure.contains("deadlock") && failure.contains("test rank 0: operation 0 does not end: a receive"), "{failure}");
}

/// Broadcasts of 1 MB on the dragonfly of 342 nodes, with a barrier after each (RED-SEA D1.4, section 12.2): LLF in
/// less than half the time of the binary tree (at least 2.3 times as fast), GLF between the two, hardware multicast in
/// at most a fifth.
#[test]
fn topology_aware_broadcasts_keep_their_published_order() {
    let machine = Machine::load("dragonfly-342", &Overrides { nodes: None, set: vec![String::from("network.kind=flow")] }).unwrap();
    let times = ["binary", "glf", "llf", "hardware"].map(|algorithm| {
        let topology = machine.topology().unwrap();
        let nodes: Vec<ProcessorId> = (0..342).map(host).collect();
        let layout = mapping::layout((&topology, &all(&machine)), &nodes);
        assert!(layout.groups.is_some(), "a dragonfly has groups");
        let rules = Rules::parse(&format!("bcast *: {algorithm}\nbarrier *: dissemination")).unwrap();
        let mut program = Recorded::new(342, Communicators::world(342), Order::Sequential);
        for rank in 0..342 {
            for number in 0..6 {
                let after = if number > 0 { vec![Dependency::done(number - 1)] } else { Vec::new() };
                let (send, receive) = if rank == 0 { (1_000_000, 0) } else { (0, 1_000_000) };
                let broadcast = CollectiveCall {
                    operation: Collective::Broadcast,
                    communicator: 0,
                    root: 0,
                    send: Bytes(send),
                    receive: Bytes(receive),
                    element: Bytes(0),
                };
                let barrier = CollectiveCall {
                    operation: Collective::Barrier,
                    communicator: 0,
                    root: 0,
                    send: Bytes(0),
                    receive: Bytes(0),
                    element: Bytes(0),
                };
                let call = if number % 2 == 0 { broadcast } else { barrier };
                program.push(rank, Operation::new(Kind::Collective(call)), &after);
            }
        }
        let processes = mapping::processes(&[nodes]).concat();
        let collectives = Box::new(ByRules::new(rules, Some(layout)));
        let part = PlacedTrace {
            name: algorithm.to_owned(),
            program: Box::new(program),
            collectives,
            scale: vec![1.0],
            processes,
            costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
        };
        let outcome = run(&machine, topology, vec![part]);
        assert_eq!(outcome.failure, None);
        outcome.finish.as_s_f64() / 3.0 * 1e3
    });
    let [binary, glf, llf, hardware] = times;
    println!("per broadcast: binary {binary:.3} ms, GLF {glf:.3} ms, LLF {llf:.3} ms, hardware {hardware:.3} ms");
    assert!(hardware < llf && llf < glf && glf < binary, "expected LLF < GLF < binary: {llf} {glf} {binary} ms");
    assert!(binary / llf >= 2.3, "expected LLF at least 2.3 times as fast as the binary tree, found {}", binary / llf);
    assert!(binary / hardware >= 5.0, "expected hardware at least 5 times as fast as the binary tree, found {}", binary / hardware);
}

fn refused(programs: Vec<Recorded>) -> String {
    // The longest messages go in 256 pieces.
    let set = ["network.kind=flow", "message.max_portals_message=1TiB"].map(String::from).to_vec();
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(4), set }).unwrap();
    let nodes: Vec<Vec<ProcessorId>> = programs.iter().map(|program| (0..program.ranks()).map(host).collect()).collect();
    let processes = mapping::processes(&nodes);
    let parts = programs.into_iter().zip(&processes).enumerate().map(|(index, (program, processes))| PlacedTrace {
        name: format!("trace{index}"),
        program: Box::new(program),
        collectives: Box::new(ByRules::new(Rules::default(), None)),
        scale: vec![1.0],
        processes: processes.clone(),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    });
    let network = machine.network_config(1);
    let hardware = Hardware::new(&network, machine.topology().unwrap(), machine.nic_config());
    match Replay::new(hardware, parts.collect(), machine.message_config(Rails::default())).unwrap().run(&mut |_| true) {
        Ok(outcome) => outcome.failure.unwrap(),
        Err(error) => error.to_string(),
    }
}

/// The same, as the LogGP replay says it.
fn refused_by_loggp(program: &mut Recorded) -> String {
    let mut graph = Graph::new();
    match graph.add("trace", program, 1.0, &mut ByRules::new(Rules::default(), None)) {
        Ok(()) => loggp::run(&mut graph, loggp::Parameters::default(), &mut |_| true).failure.unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn ranks_that_contradict_each_other_in_a_collective_are_named() {
    let call = |operation, root, send, receive| CollectiveCall {
        operation,
        communicator: 0,
        root,
        send: Bytes(send),
        receive: Bytes(receive),
        element: Bytes(0),
    };
    let cases = [
        (Collective::Allreduce, [0, 0], [(8, 8), (1_000_000, 1_000_000)], "allreduce of 8 B", "allreduce of 1000000 B"),
        (Collective::Broadcast, [0, 0], [(8, 0), (0, 800_000)], "bcast of 8 B with root 0", "bcast of 800000 B with root 0"),
        (Collective::Broadcast, [0, 1], [(8, 0), (8, 0)], "bcast of 8 B with root 0", "bcast of 8 B with root 1"),
        (Collective::Allgather, [0, 0], [(8, 16), (16, 32)], "allgather of 8 B", "allgather of 16 B"),
    ];
    for (operation, roots, sizes, one, other) in cases {
        let mut program = collective(2, 1, |rank| {
            let (send, receive) = sizes[rank as usize];
            call(operation, roots[rank as usize], send, receive)
        });
        let expected =
            format!("rank 0, operation 0, calls {one}, but rank 1, operation 0, calls {other} on the same communicator (0) at this point");
        assert_eq!(refused(vec![program.clone()]), expected);
        assert_eq!(refused(vec![pingpong(8, 1), program.clone()]), format!("trace1: {expected}"));
        assert_eq!(refused_by_loggp(&mut program), expected);
    }
}

#[test]
fn times_beyond_the_end_of_simulated_time_are_refused() {
    // 104 days each, one after the other: rank 1 waits for rank 0.
    let long = Kind::Compute { duration: SimTime::from_us(9_000_000_000_000) };
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, Operation::new(long), &[]);
    program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(8), tag: 0 }), &[Dependency::done(0)]);
    program.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(8), tag: Some(0) }), &[]);
    program.push(1, Operation::new(long), &[Dependency::done(0)]);
    let what = "the times add up to more than 200 days, where simulated time ends";
    assert_eq!(refused(vec![program.clone()]), format!("rank 1, operation 1: {what}"));
    assert_eq!(refused_by_loggp(&mut program), format!("rank 1: {what}"));
    // Delays, on a slow core.
    let mut program = pingpong(8, 1);
    let delay = SimTime::from_us(9_000_000_000_000);
    program.push(0, Operation { delay, ..Operation::new(long) }, &[]);
    assert!(refused(vec![program]).ends_with(what));
    // 2^48 bytes at 11 GB/s are seven hours; eight hundred times that is too much.
    let failure = refused(vec![pingpong(1 << 48, 400)]);
    assert!(failure.contains("200 days"), "{failure}");
}

#[test]
fn a_message_longer_than_its_receive_is_refused() {
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, Operation::new(Kind::Send { to: 1, bytes: Bytes(100_000), tag: 7 }), &[]);
    program.push(1, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(99_999), tag: None }), &[]);
    let expected = "rank 1, operation 0: a message of 100000 B for a receive of up to 99999 B from rank 0, any tag";
    assert_eq!(refused(vec![program.clone()]), expected);
    assert_eq!(refused_by_loggp(&mut program), "rank 1: a message of 100000 B from rank 0 for a receive of 99999 B");
}

#[test]
fn a_deadlock_is_told_in_words() {
    let mut program = Recorded::new(2, Communicators::world(2), Order::Sequential);
    program.push(0, Operation::new(Kind::Receive { from: None, bytes: Bytes(8), tag: Some(3) }), &[]);
    let call =
        CollectiveCall { operation: Collective::Broadcast, communicator: 0, root: 0, send: Bytes(0), receive: Bytes(8), element: Bytes(0) };
    program.push(1, Operation::new(Kind::Collective(call)), &[]);
    let expected = "deadlock: nothing can happen any more, 2 ranks have not ended\n  \
        trace0 rank 0: operation 0 does not end: a receive of up to 8 B from any rank, tag 3\n  \
        trace0 rank 1: operation 0 does not end: bcast of 8 B with root 0 on communicator 0";
    assert_eq!(refused(vec![program]), expected);
}

/// What every rank does at random: messages of all sizes to random ranks, computing, collectives. All sends come before
/// the receives that they belong to, so that it ends.
fn random_program(ranks: u32, seed: u64) -> Recorded {
    let mut random = narrows_engine::stream(seed, "program", 0);
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    let mut numbers = vec![0u64; ranks as usize];
    let mut push = |rank: u32, kind: Kind| {
        let number = &mut numbers[rank as usize];
        let after = if *number > 0 { vec![Dependency { operation: *number - 1, event: Event::Started }] } else { Vec::new() };
        program.push(rank, Operation::new(kind), &after);
        *number += 1;
    };
    for round in 0..6 {
        for rank in 0..ranks {
            push(rank, Kind::Compute { duration: SimTime(random.below(3_000_000)) });
            for _ in 0..random.below(5) {
                let to = random.below(u64::from(ranks)) as u32;
                let bytes = [0, 8, 100, 5_000, 40_000, 300_000][random.below(6) as usize];
                push(rank, Kind::Send { to, bytes: Bytes(bytes), tag: round });
                push(to, Kind::Receive { from: Some(rank), bytes: Bytes(bytes), tag: Some(round) });
            }
        }
        for rank in 0..ranks {
            let call = CollectiveCall {
                operation: Collective::Allreduce,
                communicator: 0,
                root: 0,
                send: Bytes(2000),
                receive: Bytes(2000),
                element: Bytes(0),
            };
            push(rank, Kind::Collective(call));
        }
    }
    program
}

/// The outcome is the same in one region and in many, on one thread and on several, on topologies whose groups talk
/// over links and routes of every kind: also where packets overtake each other, and where the acknowledgement takes no
/// part in the network.
#[test]
fn regions_and_threads_change_nothing() {
    let (par, adaptive, quick) = (["network.routing=par"], ["network.routing=adaptive"], ["nic.quick_ack=true"]);
    let pscom = [PSCOM];
    for (name, nodes, set) in [
        ("dragonfly-342", None, &[][..]),
        ("dragonfly-342", None, &par),
        ("dragonfly-342", None, &pscom),
        ("fattree-256", None, &adaptive),
        ("bxi-v2", Some(96), &quick),
    ] {
        let set = set.iter().map(|&set| set.to_owned()).collect();
        let machine = Machine::load(name, &Overrides { nodes, set }).unwrap();
        let (config, ranks) = (machine.network_config(1), 90);
        let outcome = |threads: Option<usize>| {
            let nodes = (0..ranks).map(|rank| host(rank * 37 % machine.node.count)).collect();
            let processes = mapping::processes(&[nodes]).concat();
            let collectives = Box::new(ByRules::new(Rules::parse("").unwrap(), None));
            let program = Box::new(random_program(ranks, 7));
            let parts = vec![PlacedTrace {
                name: name.to_owned(),
                program,
                collectives,
                scale: vec![1.0],
                processes,
                costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
            }];
            let hardware = Hardware::new(&config, machine.topology().unwrap(), machine.nic_config());
            let replay = match threads {
                None => Replay::watched(hardware, parts, machine.message_config(Rails::default()), SimTime::from_us(50)).unwrap(),
                Some(threads) => Replay::new(hardware, parts, machine.message_config(Rails::default())).unwrap().on_threads(threads),
            };
            // What takes no time needs one region.
            assert_eq!(replay.regions() > 1, threads.is_some() && !machine.nic.portals().quick_ack, "{name} is cut");
            let outcome = replay.run(&mut |_| true).unwrap();
            assert_eq!(outcome.failure, None);
            let totals = outcome.totals.unwrap();
            let messages = (totals.messages, totals.bytes, totals.packets, totals.packet_hops, totals.retries);
            (outcome.digest, outcome.rank_finish, messages, outcome.applications[0].fct.max())
        };
        let whole = outcome(None);
        for threads in [1, 2, 3] {
            assert_eq!(outcome(Some(threads)), whole, "{name} on {threads} threads");
        }
    }
}

/// Half a round trip of `bytes` in ns, when the two ranks have talked before, on bxi-v2 with these keys changed.
fn half_trip(bytes: u64, changes: &[&str]) -> f64 {
    let mut set = vec![String::from("network.kind=flow")];
    set.extend(changes.iter().map(|&change| String::from(change)));
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(64), set }).unwrap();
    let finish = |turns: u64| {
        let topology = machine.topology().unwrap();
        let nodes = mapping::processors(&"linear".parse::<Mapping>().unwrap(), &machine, (&topology, &all(&machine)), None, &[2]).unwrap();
        let part = PlacedTrace {
            name: String::from("test"),
            program: Box::new(pingpong(bytes, turns)),
            collectives: Box::new(ByRules::new(Rules::parse("").unwrap(), None)),
            scale: vec![1.0],
            processes: mapping::processes(&nodes).remove(0),
            costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
        };
        let outcome = run(&machine, topology, vec![part]);
        assert_eq!(outcome.failure, None, "{bytes} B, {changes:?}");
        outcome.finish.as_ns_f64()
    };
    (finish(20) - finish(10)) / 20.0
}

const PSCOM: &str = "message.protocol=pscom";

/// An eager message of pscom: as an eager one that the NIC matches, but that it is copied on both sides, and that its
/// buffer goes back into the list before the receive is complete.
#[test]
fn an_eager_message_of_pscom_takes_two_copies_and_a_command_more() {
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(64), set: Vec::new() }).unwrap();
    for bytes in [2048, 4096, 8192] {
        let copy = machine.node.host.software.copy_bandwidth.time_for(narrows_units::Bytes(bytes)).as_ns_f64();
        let expected = half_trip(bytes, &["message.inject_limit=64B"]) + 2.0 * copy + machine.node.host.software.post.as_ns_f64();
        let got = half_trip(bytes, &["message.inject_limit=64B", PSCOM]);
        assert!((got - expected).abs() < 3.0, "{bytes} B: {got} ns, expected {expected} ns");
    }
}

/// A long message of pscom: as rendezvous by put, and behind it the acknowledgement and the word that all is there,
/// which take a time of their own, whatever the length.
#[test]
fn a_long_message_of_pscom_takes_the_same_time_longer_whatever_its_length() {
    let by_put = ["message.rendezvous=put"];
    let more = |bytes| half_trip(bytes, &[PSCOM]) - half_trip(bytes, &by_put);
    let (short, long) = (more(65_536), more(16 << 20));
    assert!((short - long).abs() < 3.0, "{short} ns and {long} ns");
    // The memory is linked, then the word of the sender: more than one message without data, less than three.
    let empty = half_trip(0, &[PSCOM]);
    assert!((empty..3.0 * empty).contains(&short), "{short} ns, an empty message {empty} ns");
}

/// The sweep of OSU's latency beside the protocol of Open MPI: two copies make small and middle sizes slower, long ones
/// are as fast.
#[test]
fn pscom_is_slower_at_small_sizes_and_equal_at_large_ones() {
    for bytes in [0, 8, 512, 2048, 8192, 16_384, 39_999] {
        let (pscom, openmpi) = (half_trip(bytes, &[PSCOM]), half_trip(bytes, &[]));
        assert!(pscom > openmpi, "{bytes} B: pscom {pscom} ns, openmpi {openmpi} ns");
    }
    for bytes in [4 << 20, 32 << 20] {
        let (pscom, openmpi) = (half_trip(bytes, &[PSCOM]), half_trip(bytes, &[]));
        assert!((pscom / openmpi - 1.0).abs() < 0.01, "{bytes} B: pscom {pscom} ns, openmpi {openmpi} ns");
    }
}

/// Of 256 B and more on ExaNeSt, by rule: the accelerator does them, on any number of threads alike.
fn accelerated(ranks: u32, bytes: u64, rule: &str, threads: usize, chained: bool) -> (Outcome, Option<String>) {
    let machine = Machine::load("exanest", &Overrides { nodes: None, set: Vec::new() }).unwrap();
    let topology = machine.topology().unwrap();
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Sequential);
    for rank in 0..ranks {
        for number in 0..5 {
            let call = CollectiveCall {
                operation: Collective::Allreduce,
                communicator: 0,
                root: 0,
                send: Bytes(bytes),
                receive: Bytes(bytes),
                element: Bytes(0),
            };
            let after = if chained && number > 0 { vec![Dependency::done(number - 1)] } else { Vec::new() };
            program.push(rank, Operation::new(Kind::Collective(call)), &after);
        }
    }
    let nodes = mapping::processors(&"linear".parse::<Mapping>().unwrap(), &machine, (&topology, &all(&machine)), None, &[ranks]).unwrap();
    let layout = mapping::layout((&topology, &all(&machine)), &nodes[0]);
    let layout = narrows_replay::collectives::Layout { accelerator: machine.accelerator_board(), ..layout };
    let table = format!("{rule}\n{}", narrows_collectives::rules::MPICH);
    let collectives = ByRules::new(Rules::parse(&table).unwrap(), Some(layout));
    let limit = collectives.not_offloaded(program.communicators());
    let part = PlacedTrace {
        name: String::from("allreduces"),
        program: Box::new(program),
        collectives: Box::new(collectives),
        scale: vec![1.0],
        processes: mapping::processes(&nodes).concat(),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    let network = machine.network_config(1);
    let hardware = Hardware::new(&network, topology, machine.nic_config());
    let replay = Replay::new(hardware, vec![part], machine.message_config(Rails::default())).unwrap().on_threads(threads);
    (replay.run(&mut |_| true).unwrap(), limit)
}

#[test]
fn accelerators_reduce_without_messages() {
    let rule = "allreduce *: exanet-accelerator";
    for (ranks, bytes) in [(4, 256), (12, 700), (16, 1024), (128, 4096), (128, 1)] {
        let (one, limit) = accelerated(ranks, bytes, rule, 1, bytes > 700);
        assert_eq!((one.failure.clone(), limit, one.applications[0].messages), (None, None, 0), "{ranks} ranks, {bytes} B");
        let (four, _) = accelerated(ranks, bytes, rule, 4, bytes > 700);
        assert_eq!((one.digest, one.finish), (four.digest, four.finish), "{ranks} ranks, {bytes} B");
    }
    // Blocks follow each other: 1024 B take about four times 256 B, but for the call.
    let time = |bytes| accelerated(16, bytes, rule, 1, true).0.finish.as_ns_f64() / 5.0;
    let (one, four) = (time(256), time(1024));
    assert!((4.0 * one - four - 3.0 * 411.5).abs() < 200.0, "{one} and {four} ns");
}

#[test]
fn what_accelerators_do_not_take_is_done_by_messages() {
    let rule = "allreduce *: exanet-accelerator";
    for (ranks, limit) in [
        (6, "communicator 0: board 1 has ranks on 2 of its 4 nodes; the accelerator takes whole boards"),
        (256, "communicator 0: node 0 has several ranks; the accelerator takes one per node"),
    ] {
        let (outcome, why) = accelerated(ranks, 256, rule, 1, true);
        let (messages, none) = accelerated(ranks, 256, "", 1, true);
        assert_eq!((why.as_deref(), none), (Some(limit), None));
        assert_eq!((outcome.digest, outcome.finish), (messages.digest, messages.finish), "{ranks} ranks");
    }
}

/// The NIC has no entries for the pieces of pscom: they are sent again for ever.
#[test]
fn a_refused_command_ends_a_replay() {
    let set = ["message.protocol=pscom", "nic.limits.max_entries=16"].map(String::from).to_vec();
    let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(8), set }).unwrap();
    let nodes: Vec<ProcessorId> = (0..2).map(host).collect();
    let part = PlacedTrace {
        name: String::from("test"),
        program: Box::new(pingpong(8, 4)),
        collectives: Box::new(ByRules::new(Rules::parse("").unwrap(), None)),
        scale: vec![1.0],
        processes: mapping::processes(&[nodes]).remove(0),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    let network = machine.network_config(1);
    let hardware = Hardware::new(&network, machine.topology().unwrap(), machine.nic_config());
    let replay = Replay::new(hardware, vec![part], machine.message_config(Rails::default())).unwrap();
    let failure = replay.run(&mut |progress| progress.now < SimTime::from_us(100_000)).unwrap().failure.unwrap();
    assert!(failure.starts_with("rank 0: the NIC refused a command: "), "{failure}");
}
