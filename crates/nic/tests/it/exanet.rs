//! ExaNeSt's network interface, below Portals in software: closed forms, order, and the same outcome as on a NIC that
//! matches.

use crate::common::*;
use narrows_nic::AnyConfig;
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, SimTime};

const BLOCK: u64 = 16 << 10;

/// Processes 0 and 1 on nodes of their own; 1 takes puts and gives gets.
fn sim() -> Sim {
    let mut sim = Sim::ready(exanet(config(), BLOCK), 2, 1, 0);
    sim.append(1, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim.take(1);
    sim
}

/// On the wire of the tests.
fn wire(payload: u64) -> SimTime {
    ByteRate(10_000_000_000).time_for(Bytes(payload))
}

/// Stores, packetizer (30 ns), network (400 ns, 24 B of header), mailbox (110 ns), matching, event.
#[test]
fn a_short_message_goes_through_packetizer_and_mailbox() {
    let c = config();
    for payload in [0, 8, 32] {
        let mut sim = sim();
        let begin = sim.clock;
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let there = pcie(c.command_size.0) + ns(30) + ns(400) + wire(24 + payload) + ns(110);
        assert_eq!(seen(&sim, 1, EventKind::Put), [begin + there + c.match_base + c.match_per_entry + pcie(c.event_size.0)]);
        let sent = pcie(c.command_size.0) + pcie(c.event_size.0);
        assert_eq!(seen(&sim, 0, EventKind::Send), [begin + sent], "its bytes were stored with the command");
    }
}

/// The firmware starts the transfer (2.5 us) and each further block when the one before has been read (0.7 us); the
/// sender's memory is free when the last block has been acknowledged.
#[test]
fn a_long_message_is_a_row_of_blocks() {
    let c = config();
    for blocks in [1, 2, 7] {
        let mut sim = sim();
        let (begin, payload) = (sim.clock, (blocks - 1) * BLOCK + 100);
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let start = pcie(c.command_size.0) + pcie(64) + ns(2_500);
        let read = start + (wire(BLOCK) + ns(700)) * (blocks - 1) + wire(100);
        assert_eq!(seen(&sim, 1, EventKind::Put), [begin + read + ns(400) + pcie(c.event_size.0)], "{blocks} blocks");
        assert_eq!(seen(&sim, 0, EventKind::Send), [begin + read + ns(800) + pcie(c.event_size.0)]);
    }
}

/// While the firmware starts the next block of one transfer (0.7 us), the engine reads one of the other (16.4 us): 40
/// blocks follow each other without a pause, but where the second transfer starts.
#[test]
fn two_transfers_hide_the_time_of_the_firmware() {
    let end = |count: u64| {
        let mut sim = sim();
        sim.world.rate = ByteRate(1_000_000_000);
        let begin = sim.clock;
        (0..count).for_each(|_| sim.put(0, 1, 0, 20 * BLOCK, AckRequest::None));
        sim.run();
        *seen(&sim, 1, EventKind::Put).last().expect("they come") - begin
    };
    let block = ByteRate(1_000_000_000).time_for(Bytes(BLOCK));
    let before_and_behind = end(1) - block * 20 - ns(700) * 19;
    assert_eq!(end(2) - before_and_behind, block * 40);
}

#[test]
fn a_process_has_four_messages_on_their_way() {
    let mut sim = sim();
    (0..6).for_each(|_| sim.put(0, 1, 0, 8, AckRequest::None));
    sim.run();
    let left: Vec<SimTime> = sim.world.requests().map(|(at, _)| *at).collect();
    assert!(left[..4].windows(2).all(|pair| pair[1] - pair[0] == ns(30)), "the packetizer reads one after the other: {left:?}");
    // Over the network and back, and through the packetizer.
    assert_eq!(left[4] - left[0], ns(400) + wire(32) + ns(400) + ns(30));
    assert_eq!(seen(&sim, 1, EventKind::Put).len(), 6);
}

#[test]
fn messages_to_one_entry_arrive_in_the_order_of_the_calls() {
    let mut sim = sim();
    let lengths = [8, 50_000, 0, 100, 20_000, 32, 32, 33, 8, 8, 8, 8, 8, 40, 1];
    lengths.iter().for_each(|&length| sim.put(0, 1, 0, length, AckRequest::Full));
    sim.run();
    let headers: Vec<u64> = sim
        .world
        .seen
        .iter()
        .filter_map(|(_, of, notice)| match notice {
            Notice::Event { event, .. } if of.0 == 1 && event.kind == EventKind::Put => Some(event.mlength),
            _ => None,
        })
        .collect();
    let mut sorted = (headers, lengths.to_vec());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1, "every message once");
    assert_eq!(seen(&sim, 0, EventKind::Ack).len(), lengths.len());
}

/// Entries that take one put each are used in the order of the calls, however long the messages are.
#[test]
fn they_match_in_that_order() {
    let mut sim = Sim::ready(exanet(config(), BLOCK), 2, 1, 0);
    let lengths = [40_000u64, 8, 100, 0, 70_000, 32, 5, 33, 1];
    for place in 0..lengths.len() as u64 {
        let options = me::OP_PUT | me::USE_ONCE | me::EVENT_UNLINK_DISABLE | me::EVENT_LINK_DISABLE;
        sim.append(1, MatchEntry { options, user_ptr: place, ..entry(0, 0, 1 << 19) });
    }
    sim.run();
    sim.take(1);
    lengths.iter().for_each(|&length| sim.put(0, 1, 0, length, AckRequest::None));
    sim.run();
    let mut places: Vec<(u64, u64)> = sim.events(1).iter().map(|event| (event.user_ptr, event.mlength)).collect();
    places.sort_unstable();
    assert_eq!(places.iter().map(|place| place.1).collect::<Vec<_>>(), lengths);
}

#[test]
fn programs_see_the_same_memory_as_on_a_nic_that_matches() {
    let outcome = |kind: narrows_nic::AnyConfig| {
        let mut sim = Sim::ready(kind, 2, 1, 0);
        sim.append(1, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
        sim.run();
        for length in [8u64, 70_000, 0, 300] {
            sim.world.memory[0][..length as usize].fill(length as u8);
            sim.put(0, 1, 0, length, AckRequest::Full);
            sim.run();
        }
        sim.get(0, 1, 0, local(1 << 19), 1000);
        sim.run();
        sim.get(0, 1, 0, local(1 << 18), 60_000);
        sim.run();
        assert_eq!(sim.world.payloads.len(), 0, "nothing is left behind");
        sim.world.memory
    };
    assert!(outcome(exanet(config(), BLOCK)) == outcome(config().into()), "software and hardware disagree");
}

/// Two boards of four: every node gives `values` (little-endian) and gets the combination of all.
fn allreduce(bytes: u32, operation: AtomicOperation, datatype: Datatype, value: impl Fn(u32) -> Vec<u8>) -> Sim {
    let mut sim = Sim::new(exanet(config(), BLOCK), 8, 1);
    let nodes: Vec<u32> = (0..8).collect();
    for process in 0..8 {
        sim.world.memory[process as usize][..bytes as usize].copy_from_slice(&value(process));
        let plan = offload::plan(&nodes, 4, process).expect("two whole boards");
        let (source, target) = (Place::at(0), Place::at(4096));
        let (group, sequence, ticket) = (3, 9, 100 + process);
        let allreduce = offload::Allreduce { group, sequence, source, target, length: bytes, operation, datatype, plan, ticket };
        sim.command(process, Command::Allreduce(Box::new(allreduce)));
    }
    sim
}

/// Of 256 B. Command, start (2 us), the vector on its way to the server, four times through the engine, over to the
/// other server, through its engine, to the clients, the answer.
#[test]
fn an_allreduce_is_the_sum_of_its_stages() {
    let c = config();
    let ints = |process: u32| (0..64).flat_map(|index| (process as i32 * 1000 - index).to_le_bytes()).collect::<Vec<u8>>();
    let mut sim = allreduce(256, AtomicOperation::Sum, Datatype::Int32, ints);
    sim.run();
    let engine = ByteRate(1_200_000_000).time_for(Bytes(256));
    let hop = ns(400) + wire(256);
    let there = pcie(c.command_size.0) + ns(2_000) + hop + engine * 4 + hop + engine + hop;
    for process in 0..8 {
        let answers: Vec<SimTime> = sim.world.seen.iter().filter(|(_, of, _)| of.0 == process).map(|(at, ..)| *at).collect();
        assert_eq!(answers, [there + pcie(c.count_size.0)], "process {process}");
        assert!(matches!(sim.take(process)[..], [Notice::Reply { ticket, code: ReplyCode::Ok, .. }] if ticket == 100 + process));
        let sum: Vec<u8> = (0..64).flat_map(|index| (28_000_i32 - 8 * index).to_le_bytes()).collect();
        assert_eq!(sim.world.memory[process as usize][4096..4352], sum[..]);
    }
    sim.check_idle();
    assert_eq!(sim.nics.waiting_vectors(), 0);
}

#[test]
fn it_has_all_operations_and_types_that_it_offers() {
    let doubles = |process: u32| (0..3).flat_map(|index| (f64::from(process) / 4.0 - f64::from(index)).to_le_bytes()).collect::<Vec<u8>>();
    let floats = |process: u32| (0..3).flat_map(|index| (process as f32 * 0.5 + index as f32).to_le_bytes()).collect::<Vec<u8>>();
    for (operation, double, float) in [
        (AtomicOperation::Sum, [7.0, -1.0, -9.0], [14.0, 22.0, 30.0]),
        (AtomicOperation::Min, [0.0, -1.0, -2.0], [0.0, 1.0, 2.0]),
        (AtomicOperation::Max, [1.75, 0.75, -0.25], [3.5, 4.5, 5.5]),
    ] {
        let mut sim = allreduce(24, operation, Datatype::Double, doubles);
        sim.run();
        let expected: Vec<u8> = double.iter().flat_map(|value: &f64| value.to_le_bytes()).collect();
        assert!(sim.world.memory.iter().all(|memory| memory[4096..4120] == expected[..]), "{operation:?}");
        let mut sim = allreduce(12, operation, Datatype::Float, floats);
        sim.run();
        let expected: Vec<u8> = float.iter().flat_map(|value: &f32| value.to_le_bytes()).collect();
        assert!(sim.world.memory.iter().all(|memory| memory[4096..4108] == expected[..]), "{operation:?}");
    }
}

#[test]
fn what_it_does_not_offer_is_refused_by_name() {
    let plan = offload::plan(&[0, 1, 2, 3], 4, 1).expect("a whole board");
    let good = offload::Allreduce {
        group: 0,
        sequence: 0,
        source: Place::at(0),
        target: Place::at(0),
        length: 8,
        operation: AtomicOperation::Sum,
        datatype: Datatype::Int32,
        plan: plan.clone(),
        ticket: 1,
    };
    let refused = |kind: narrows_nic::AnyConfig, change: &dyn Fn(&mut offload::Allreduce)| {
        let mut sim = Sim::new(kind, 4, 1);
        let mut allreduce = good.clone();
        change(&mut allreduce);
        sim.try_command(1, Command::Allreduce(Box::new(allreduce))).map_err(|error| error.to_string())
    };
    let exanet = || exanet(config(), BLOCK);
    assert_eq!(refused(exanet(), &|_| {}), Ok(()));
    let offers = "sum, min or max of int, float or double, 256 B at most";
    for (change, message) in [
        (
            &(|a: &mut offload::Allreduce| a.length = 257) as &dyn Fn(&mut offload::Allreduce),
            format!("the accelerator does no Sum on 257 bytes of Int32: {offers}"),
        ),
        (&|a| a.length = 0, format!("the accelerator does no Sum on 0 bytes of Int32: {offers}")),
        (&|a| a.operation = AtomicOperation::Product, format!("the accelerator does no Product on 8 bytes of Int32: {offers}")),
        (&|a| a.datatype = Datatype::Int64, format!("the accelerator does no Sum on 8 bytes of Int64: {offers}")),
        (&|a| a.plan.clients[2] = 1 << 22, String::from("an allreduce with node 4194304, which this machine does not have")),
        (&|a| a.plan.clients.clear(), String::from("an allreduce with node 4294967295, which this machine does not have")),
    ] {
        assert_eq!(refused(exanet(), change), Err(message));
    }
    let none = Err(String::from("this NIC has no allreduce accelerator"));
    assert_eq!(refused(config().into(), &|_| {}), none);
    assert_eq!(refused(mailbox(config()), &|_| {}), none);
}

/// Processes 0 and 1 are in domains 3 and 8: each access of one to the other has an event that says so, nothing is
/// written, and nothing is left behind. Process 2, of domain 3, takes what 0 sends.
#[test]
fn another_protection_domain_is_refused() {
    let AnyConfig::Exanet(library, mut nic) = exanet(config(), BLOCK) else { unreachable!("that is its kind") };
    nic.domains = [3, 8, 3].into();
    let mut sim = Sim::ready(AnyConfig::Exanet(library, nic), 3, 1, 0);
    for to in [1, 2] {
        sim.append(to, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    }
    sim.run();
    let before = sim.world.memory.clone();
    let failed = |sim: &Sim, kind: EventKind| {
        let of = |(_, of, notice): &(SimTime, narrows_nic::Process, Notice)| match notice {
            Notice::Event { event, .. } => {
                (of.0 == 0 && event.kind == kind && event.fail == FailType::PermViolation).then_some(event.mlength)
            }
            _ => None,
        };
        sim.world.seen.iter().filter_map(of).collect::<Vec<_>>()
    };
    let lengths = [0, 8, 32, 33, BLOCK, 3 * BLOCK + 1];
    for (number, length) in (1..).zip(lengths) {
        sim.put(0, 1, 0, length, AckRequest::Full);
        sim.run();
        assert_eq!(failed(&sim, EventKind::Ack), vec![0; number], "{length} B");
        assert_eq!(seen(&sim, 0, EventKind::Send).len(), number, "the memory of {length} B is free");
    }
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.get(0, 1, 0, local(1 << 19), 1000);
    sim.run();
    assert_eq!(failed(&sim, EventKind::Reply), [0]);
    assert!(sim.world.memory == before, "nothing is written");
    assert_eq!(seen(&sim, 1, EventKind::Put), []);
    let count = lengths.len() as u64 + 2;
    assert_eq!((sim.nics.troubles().denied, sim.world.denied.len() as u64), (count, count));
    let last = sim.world.denied.last().unwrap();
    assert_eq!(
        last.to_string(),
        "node 1 has refused an access of rank 0, which is in protection domain 3, to address 0x0 of portal table entry 4 of its process \
         0, which is in domain 8; see nic.exanet.domains"
    );

    sim.world.memory[0][..100].fill(9);
    sim.put(0, 2, 0, 100, AckRequest::Full);
    sim.run();
    assert_eq!(sim.world.memory[2][..100], [9; 100]);
    assert_eq!((sim.nics.troubles().denied, sim.nics.in_flight(), sim.world.payloads.len()), (count, 0, 0), "nothing is left behind");
}
