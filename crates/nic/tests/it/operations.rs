//! Items 22 to 25, 29, 39 and 40 of docs/conformance.md: triggered operations, atomics, scatter-gather lists and memory
//! that is not there; and permissions (the part of item 3 that `items.rs` leaves).

use crate::common::*;
use narrows_nic::{CommandError, NicConfig, Process};
use narrows_portals::EventKind::{Ack, AtomicOverflow, AutoUnlink, FetchAtomic, Link, PtDisabled, Put, Reply, Send};
use narrows_portals::*;
use narrows_units::SimTime;

const OTHER: CtId = CtId(1);

fn sim() -> Sim {
    let mut sim = Sim::ready(config(), 2, 2, 0);
    for process in 0..4 {
        sim.command(process, Command::CtAlloc { ct: OTHER });
    }
    sim.run();
    for process in 0..4 {
        sim.take(process);
    }
    sim
}

fn trigger(trigger: CtId, threshold: u64, command: Command) -> Command {
    Command::Triggered { interface: 0, trigger, threshold, command: Box::new(command) }
}

fn put(sim: &Sim, to: u32, bits: u64, address: u64, length: u64) -> Command {
    let local = LocalBuffer { options: md::EVENT_SEND_DISABLE, ..local(address) };
    Command::Put { local, length, inline: None, ack: AckRequest::None, target: sim.target(to, bits), hdr_data: 0 }
}

fn increment(ct: CtId, success: u64) -> Command {
    Command::CtIncrement { ct, success, failure: 0 }
}

fn word(sim: &Sim, process: u32, at: usize) -> u64 {
    u64::from_le_bytes(sim.world.memory[process as usize][at..at + 8].try_into().expect("eight bytes"))
}

fn set_word(sim: &mut Sim, process: u32, at: usize, value: u64) {
    sim.world.memory[process as usize][at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn atomic(sim: &Sim, to: u32, operation: AtomicOperation, fetched: Option<LocalBuffer>, operand: u64) -> Atomic {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&operand.to_le_bytes());
    Atomic {
        local: local(0),
        fetched,
        length: 8,
        inline: None,
        ack: AckRequest::None,
        target: sim.target(to, 0),
        hdr_data: 9,
        operation,
        datatype: Datatype::Uint64,
        operand: bytes,
    }
}

fn value(sim: &mut Sim, process: u32, ct: CtId) -> Option<(u64, u64)> {
    sim.run();
    sim.take(process).into_iter().rev().find_map(|notice| match notice {
        Notice::Count { ct: of, success, failure, .. } if of == ct => Some((success, failure)),
        _ => None,
    })
}

#[test]
fn item_03_a_foreign_user_is_refused_on_the_entry_that_matched() {
    let mut sim = sim();
    sim.nics.set_users(|process| process.0);
    sim.append(2, MatchEntry { uid: 1, ..entry(0, 0, 64) });
    for (from, fail) in [(0, FailType::PermViolation), (1, FailType::Ok)] {
        sim.put(from, 2, 0, 8, AckRequest::Full);
        sim.run();
        assert_eq!(sim.events(from)[1].fail, fail);
    }
    assert_eq!(sim.nics.status(Process(2)).permission_violations, 1);
    assert_eq!(sim.kinds(2), [Put], "the violation is no event at the target");
}

#[test]
fn item_22_thresholds_fire_in_order_and_at_once_when_they_are_reached_already() {
    let mut sim = sim();
    sim.append(2, entry(0, 0, 64));
    sim.append(2, MatchEntry { user_ptr: 1, ..entry(1, 0, 64) });
    sim.append(2, MatchEntry { user_ptr: 2, ..entry(2, 0, 64) });
    sim.append(2, MatchEntry { user_ptr: 3, ..entry(3, 0, 64) });
    // Thresholds 3, 2, 2: the twos first, in the order of issue.
    for (bits, threshold) in [(3, 3), (1, 2), (2, 2)] {
        let command = put(&sim, 2, bits, 0, 8);
        sim.command(0, trigger(CT, threshold, command));
    }
    sim.command(0, increment(CT, 1));
    assert_eq!(sim.kinds(2), [], "one is too few");
    sim.command(0, Command::CtIncrement { ct: CT, success: 0, failure: 2 });
    sim.run();
    assert_eq!(sim.events(2).iter().map(|event| event.user_ptr).collect::<Vec<_>>(), [1, 2, 3], "failures count as well");
    let late = put(&sim, 2, 0, 0, 8);
    sim.command(0, trigger(CT, 3, late));
    assert_eq!(sim.kinds(2), [Put], "reached already: at once");
    sim.check_idle();
}

#[test]
fn item_22_a_chain_of_a_thousand_puts_runs_without_the_host() {
    let mut sim = sim();
    // Each process waits for its own arrivals and puts back: 0 to 2, 2 to 0, and so on.
    for process in [0, 2] {
        sim.append(process, MatchEntry { ct: CT, ..entry_with(0, 4096, 64, me::EVENT_CT_COMM | me::EVENT_COMM_DISABLE) });
    }
    for round in 1..=500 {
        for (process, to, threshold) in [(2, 0, round), (0, 2, round)] {
            let command = put(&sim, to, 0, 0, 8);
            sim.command(process, trigger(CT, threshold, command));
        }
    }
    sim.run();
    for process in [0, 2] {
        sim.take(process);
    }
    let (begin, commands) = (sim.clock, sim.nics.statistics().commands);
    sim.put_from(0, 2, 0, LocalBuffer { options: md::EVENT_SEND_DISABLE, ..local(0) }, 8, AckRequest::None, 0);
    sim.run();
    assert_eq!(sim.nics.statistics().commands, commands + 1, "the host gave one command");
    assert_eq!(sim.nics.statistics().triggered, 1_000);
    // 2 answers each arrival and 0 each answer: 500 + 1 arrive at 2 (the last answer of 0), 500 at 0.
    assert_eq!((value(&mut sim, 2, CT), value(&mut sim, 0, CT)), (Some((501, 0)), Some((500, 0))));
    let per_hop = (sim.clock - begin).as_ps() / 1_001;
    // Less than a hop through the host, which adds a command and a count over PCIe.
    let host = 2 * sim.nics.config().pcie_latency.as_ps();
    assert!(per_hop < 1_000_000 + host / 2, "{per_hop} ps per hop");
}

#[test]
fn item_23_the_buffer_is_read_when_the_operation_fires() {
    let mut sim = sim();
    sim.append(2, entry(0, 512, 64));
    set_word(&mut sim, 0, 0, 1);
    let command = put(&sim, 2, 0, 0, 8);
    sim.command(0, trigger(CT, 1, command));
    sim.run();
    set_word(&mut sim, 0, 0, 2);
    sim.command(0, increment(CT, 1));
    sim.run();
    assert_eq!(word(&sim, 2, 512), 2);
}

#[test]
fn item_23_slots_run_out_and_come_back() {
    let mut sim = Sim::ready(NicConfig { limits: NiLimits { max_triggered_ops: 2, ..NiLimits::BXI_V2 }, ..config() }, 2, 2, 0);
    for _ in 0..2 {
        sim.command(0, trigger(CT, 5, increment(CT, 1)));
    }
    assert_eq!(sim.try_command(0, trigger(CT, 5, increment(CT, 1))), Err(CommandError::NoTriggered(2)));
    let of = |interface| Command::Triggered { interface, trigger: CT, threshold: 5, command: Box::new(increment(CT, 1)) };
    sim.command(0, of(1));
    assert_eq!(sim.try_command(0, of(4)), Err(CommandError::InterfaceOutOfRange(4)));
    sim.run();
    sim.command(0, Command::CtCancel { ct: CT });
    sim.run();
    sim.command(0, trigger(CT, 5, increment(CT, 1)));
    let ticket = 7;
    sim.command(0, Command::Query { register: Register::TriggeredOperations, of: 0, ticket });
    sim.run();
    assert_eq!(sim.take(0).last(), Some(&Notice::Reply { ticket, code: ReplyCode::Ok, value: 1 }));
}

#[test]
fn item_24_chains_of_counts_settle_and_set_sets() {
    let mut sim = sim();
    // Own counter: 1 -> 2 -> 3 -> 4.
    for threshold in 1..4 {
        sim.command(0, trigger(CT, threshold, increment(CT, 1)));
    }
    sim.command(0, increment(CT, 1));
    assert_eq!(value(&mut sim, 0, CT), Some((4, 0)));
    // 1 then 7: 7, not 8.
    sim.command(0, trigger(CT, 5, Command::CtSet { ct: OTHER, success: 1, failure: 0 }));
    sim.command(0, trigger(CT, 6, Command::CtSet { ct: OTHER, success: 7, failure: 0 }));
    sim.command(0, increment(CT, 2));
    assert_eq!(value(&mut sim, 0, OTHER), Some((7, 0)));
}

#[test]
fn item_25_cancel_and_free_forget_without_side_effects() {
    let mut sim = sim();
    let command = put(&sim, 2, 0, 0, 8);
    for command in [increment(OTHER, 1), command] {
        sim.command(0, trigger(CT, 1, command));
    }
    let me = entry(0, 0, 8);
    sim.command(0, trigger(CT, 1, Command::MeAppend { entry: EntryId(99), pt: PT, list: List::Priority, me }));
    sim.command(0, Command::CtCancel { ct: CT });
    sim.command(0, increment(CT, 5));
    assert_eq!(value(&mut sim, 0, OTHER), None);
    assert_eq!(sim.nics.statistics().messages, 0);
    sim.command(0, trigger(CT, 5, increment(OTHER, 1)));
    assert_eq!(value(&mut sim, 0, OTHER), Some((1, 0)), "the counting event can be used again");
    sim.command(0, Command::MeAppend { entry: EntryId(99), pt: PT, list: List::Priority, me });
    sim.command(0, trigger(CT, 9, increment(OTHER, 1)));
    sim.command(0, Command::CtFree { ct: CT });
    sim.run();
    sim.command(0, Command::CtAlloc { ct: CT });
    sim.command(0, increment(CT, 20));
    assert_eq!(value(&mut sim, 0, OTHER), None, "what waited for the old one is gone");
}

#[test]
fn triggered_list_operations_append_and_unlink() {
    let mut sim = sim();
    let (entry_id, me) = (EntryId(50), MatchEntry { options: me::OP_PUT, length: 64, start: 100, ..Default::default() });
    sim.command(2, trigger(CT, 1, Command::MeAppend { entry: entry_id, pt: PT, list: List::Priority, me }));
    sim.command(2, trigger(CT, 2, Command::MeUnlink { entry: entry_id, ticket: NO_TICKET }));
    let outcome = |sim: &mut Sim| {
        sim.put(0, 2, 0, 8, AckRequest::Full);
        sim.run();
        sim.events(0)[1].fail
    };
    assert_eq!(outcome(&mut sim), FailType::Dropped);
    sim.command(2, increment(CT, 1));
    assert_eq!(sim.kinds(2), [Link]);
    assert_eq!(outcome(&mut sim), FailType::Ok);
    sim.command(2, increment(CT, 1));
    sim.run();
    assert_eq!(outcome(&mut sim), FailType::Dropped);
}

#[test]
fn item_29_two_descriptors_and_the_value_before() {
    let mut sim = sim();
    sim.append(2, entry(0, 512, 64));
    set_word(&mut sim, 2, 512, 40);
    set_word(&mut sim, 0, 0, 2);
    let fetched = LocalBuffer { user_ptr: 5, ct: CT, options: md::EVENT_CT_REPLY, ..local(64) };
    let command = atomic(&sim, 2, AtomicOperation::Sum, Some(fetched), 0);
    sim.command(0, Command::Atomic(Box::new(command)));
    sim.run();
    assert_eq!((word(&sim, 2, 512), word(&sim, 0, 64)), (42, 40), "new value there, old value here");
    let notices = sim.take(0);
    let events: Vec<_> = notices
        .iter()
        .filter_map(
            |notice| if let Notice::Event { event, .. } = notice { Some((event.kind, event.user_ptr, event.mlength)) } else { None },
        )
        .collect();
    assert_eq!(events, [(Send, 0xabc, 8), (Reply, 5, 8)], "SEND of the put's descriptor, REPLY of the get's");
    assert!(notices.iter().any(|notice| matches!(notice, Notice::Count { success: 1, .. })));
    let target = sim.events(2)[0];
    assert_eq!((target.kind, target.hdr_data, target.atomic), (FetchAtomic, 9, Some((AtomicOperation::Sum, Datatype::Uint64))));
    sim.check_idle();
}

#[test]
fn item_39_atomics_are_acknowledged_and_swaps_compare() {
    let mut sim = sim();
    sim.append(2, entry(0, 512, 64));
    set_word(&mut sim, 2, 512, 5);
    set_word(&mut sim, 0, 0, 9);
    let mut command = atomic(&sim, 2, AtomicOperation::Max, None, 0);
    command.ack = AckRequest::Full;
    sim.command(0, Command::Atomic(Box::new(command)));
    sim.run();
    assert_eq!(word(&sim, 2, 512), 9);
    assert_eq!(sim.events(0).iter().map(|event| event.kind).collect::<Vec<_>>(), [Send, Ack]);
    assert_eq!(sim.kinds(2), [EventKind::Atomic]);
    for (operation, operand, old, new) in [
        (AtomicOperation::CompareSwap, 8, 9, 9),
        (AtomicOperation::CompareSwap, 9, 9, 77),
        (AtomicOperation::CompareSwapLess, 3, 77, 77),
        (AtomicOperation::MaskedSwap, 0xf, 77, (77 & !0xf) | (77 & 0xf)),
    ] {
        set_word(&mut sim, 0, 0, 77);
        let command = atomic(&sim, 2, operation, Some(local(64)), operand);
        sim.command(0, Command::Atomic(Box::new(command)));
        sim.run();
        assert_eq!((word(&sim, 0, 64), word(&sim, 2, 512)), (old, new), "{operation:?} {operand}");
    }
    sim.check_idle();
}

#[test]
fn item_39_wrong_combinations_are_refused() {
    let mut sim = sim();
    let complex = |sim: &Sim| Atomic { datatype: Datatype::FloatComplex, ..atomic(sim, 2, AtomicOperation::Min, None, 0) };
    let half = |sim: &Sim| Atomic { length: 12, ..atomic(sim, 2, AtomicOperation::Sum, None, 0) };
    let two = |sim: &Sim| Atomic { length: 16, ..atomic(sim, 2, AtomicOperation::CompareSwap, Some(local(0)), 0) };
    for command in [complex(&sim), half(&sim), two(&sim)] {
        let (operation, datatype, length) = (command.operation, command.datatype, command.length);
        let expected = CommandError::Atomic { operation, datatype, length };
        assert_eq!(sim.try_command(0, Command::Atomic(Box::new(command))), Err(expected));
    }
}

#[test]
fn item_39_concurrent_increments_lose_nothing_and_a_fetched_value_is_seen_once() {
    let mut sim = sim();
    sim.append(3, entry(0, 512, 64));
    for process in 0..3 {
        set_word(&mut sim, process, 0, 1);
        for round in 0..100 {
            let fetched = local(1024 + 8 * round);
            let command = atomic(&sim, 3, AtomicOperation::Sum, Some(fetched), 0);
            sim.command(process, Command::Atomic(Box::new(command)));
        }
    }
    sim.run();
    assert_eq!(word(&sim, 3, 512), 300);
    let mut seen: Vec<u64> = (0..3)
        .flat_map(|process| (0..100).map(move |round| (process, round)))
        .map(|(process, round)| word(&sim, process, 1024 + 8 * round))
        .collect();
    for process in 0..3 {
        let own: Vec<u64> = (0..100).map(|round| word(&sim, process, 1024 + 8 * round)).collect();
        assert!(own.is_sorted(), "the atomics of one process are done in order");
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
}

#[test]
fn item_39_truncation_leaves_half_items_alone_and_overflow_entries_take_atomics() {
    let mut sim = sim();
    sim.overflow(2, entry(0, 512, 12));
    set_word(&mut sim, 0, 0, 3);
    set_word(&mut sim, 0, 8, 4);
    let command = Atomic { length: 16, ..atomic(&sim, 2, AtomicOperation::Sum, None, 0) };
    sim.command(0, Command::Atomic(Box::new(command)));
    sim.run();
    assert_eq!((word(&sim, 2, 512), word(&sim, 2, 520)), (3, 0));
    assert_eq!(sim.events(2)[0].mlength, 8);
    sim.append(2, entry_with(0, 0, 64, me::USE_ONCE));
    assert_eq!(sim.kinds(2), [AtomicOverflow, AutoUnlink]);
}

/// Writes a list of segments into a process's memory.
fn segments(sim: &mut Sim, process: u32, at: usize, list: &[(u64, u64)]) {
    for (index, (address, length)) in list.iter().enumerate() {
        set_word(sim, process, at + 16 * index, *address);
        set_word(sim, process, at + 16 * index + 8, *length);
    }
}

#[test]
fn item_40_scatter_gather_lists_are_split_differently_on_both_sides() {
    let mut sim = sim();
    sim.fill(0, 1000, 10, 3);
    sim.fill(0, 2000, 90, 4);
    segments(&mut sim, 0, 64, &[(1000, 10), (2000, 90)]);
    segments(&mut sim, 2, 64, &[(5000, 33), (6000, 0), (7000, 40), (8000, 100)]);
    let me = MatchEntry { segments: 4, options: me::OP_PUT | me::OP_GET | me::IOVEC | me::EVENT_LINK_DISABLE, ..entry(0, 64, 173) };
    sim.append(2, me);
    let list = LocalBuffer { offset: 5, segments: 2, options: md::IOVEC, ..local(64) };
    let target = RemoteTarget { offset: 3, ..sim.target(2, 0) };
    sim.command(0, Command::Put { local: list, length: 95, inline: None, ack: AckRequest::None, target, hdr_data: 0 });
    sim.run();
    let sent: Vec<u8> = [&sim.world.memory[0][1005..1010], &sim.world.memory[0][2000..2090]].concat();
    let memory = &sim.world.memory[2];
    let got = [&memory[5003..5033], &memory[7000..7040], &memory[8000..8025]].concat();
    assert_eq!(got, sent);
    sim.command(0, Command::Get { local: LocalBuffer { offset: 0, ..list }, length: 95, target });
    sim.run();
    let back: Vec<u8> = [&sim.world.memory[0][1000..1010], &sim.world.memory[0][2000..2085]].concat();
    assert_eq!(back, sent);
    sim.check_idle();
}

#[test]
fn item_40_memory_that_is_not_there_concerns_one_message_only() {
    let mut sim = sim();
    sim.append(2, MatchEntry { options: me::MAY_FAULT | me::OP_PUT | me::OP_GET | me::EVENT_LINK_DISABLE, ..entry(0, 0, 1 << 30) });
    let beyond = MEMORY as u64 + 5;
    let target = RemoteTarget { offset: beyond, ..sim.target(2, 0) };
    sim.command(0, Command::Put { local: local(0), length: 8, inline: None, ack: AckRequest::Full, target, hdr_data: 0 });
    sim.run();
    assert_eq!(sim.events(0).iter().map(|event| event.fail).collect::<Vec<_>>(), [FailType::Ok, FailType::Segv], "SEND, ACK");
    assert_eq!(sim.events(2).iter().map(|event| (event.kind, event.fail)).collect::<Vec<_>>(), [(Put, FailType::Segv)]);
    sim.command(0, Command::Get { local: local(0), length: 8, target });
    sim.run();
    assert_eq!(sim.events(0)[0].fail, FailType::Segv, "REPLY");
    let mut swap = atomic(&sim, 2, AtomicOperation::Swap, Some(local(64)), 0);
    swap.target = target;
    sim.command(0, Command::Atomic(Box::new(swap)));
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Segv, "REPLY");
    for length in [8, 5_000] {
        let gone = LocalBuffer { options: md::MAY_FAULT, ..local(beyond) };
        sim.put_from(0, 2, 0, gone, length, AckRequest::Full, 0);
        sim.run();
        assert!(sim.events(0).iter().all(|event| event.fail == FailType::Segv), "SEND and ACK of {length} bytes");
    }
    sim.take(2);
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert!(sim.events(0).iter().all(|event| event.fail == FailType::Ok), "the next one works");
    sim.check_idle();
}

#[test]
fn item_32_a_full_event_queue_ends_flow_controlled_traffic_in_time() {
    let mut sim = Sim::new(config(), 2, 2);
    for process in 0..4 {
        sim.command(process, Command::EqAlloc { eq: EQ, count: 16 });
        sim.command(process, Command::PtAlloc { pt: PT, options: pt::FLOWCTRL, eq: EQ });
    }
    sim.append(2, entry(0, 0, 64));
    for _ in 0..40 {
        sim.put(0, 2, 0, 8, AckRequest::None);
    }
    let kinds = sim.kinds(2);
    assert!(kinds.len() <= 16, "{} events in a queue of 16", kinds.len());
    assert_eq!((kinds.iter().filter(|kind| **kind == PtDisabled).count(), kinds.last()), (1, Some(&PtDisabled)));
    let puts = kinds.len() as u32 - 1;
    sim.command(2, Command::EqRelease { eq: EQ, count: puts + 1 });
    sim.command(2, Command::PtEnable { pt: PT });
    sim.run();
    sim.put(0, 2, 0, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put], "room again");
}

#[test]
fn an_idle_atomic_is_the_sum_of_the_documented_stages() {
    let mut sim = sim();
    sim.append(2, entry(0, 512, 64));
    sim.run();
    sim.clock += SimTime::from_us(10);
    let (begin, config, wire) = (sim.clock, sim.nics.config().clone(), sim.world.rate);
    let mut command = atomic(&sim, 2, AtomicOperation::Sum, Some(local(64)), 0);
    command.inline = Some(Box::new([1; 8]));
    sim.command(0, Command::Atomic(Box::new(command)));
    sim.run();
    let pcie = |bytes: u64| config.pcie_latency + time_for(config.pcie_rate, bytes);
    let combined = pcie(64) + ns(400) + config.match_per_entry.max(time_for(wire, 8)) + pcie(64) + config.dma_latency * 2;
    let seen = |process: u32, kind: EventKind| {
        let found = sim.world.seen.iter().find_map(|(at, of, notice)| match notice {
            Notice::Event { event, .. } if of.0 == process && event.kind == kind => Some(*at),
            _ => None,
        });
        found.expect("the event comes") - begin
    };
    // command, network, matching, read of the old value, write of the new one, event
    assert_eq!(seen(2, FetchAtomic), combined + pcie(96));
    // response over the network, its write, event
    assert_eq!(seen(0, Reply), combined + ns(400) + time_for(wire, 8) + config.dma_latency + pcie(96));
}

#[test]
fn a_triggered_put_starts_trigger_time_after_its_count_and_reads_its_data() {
    let mut sim = sim();
    sim.append(2, entry(0, 512, 64));
    let command = put(&sim, 2, 0, 0, 8);
    sim.command(0, trigger(CT, 1, command));
    sim.run();
    sim.clock += SimTime::from_us(10);
    let (begin, config, wire) = (sim.clock, sim.nics.config().clone(), sim.world.rate);
    sim.take(2);
    sim.command(0, increment(CT, 1));
    sim.run();
    let pcie = |bytes: u64| config.pcie_latency + time_for(config.pcie_rate, bytes);
    // The count's update is on its way up when the read request follows.
    let read = pcie(64) + config.dma_latency;
    let sum = pcie(64) + config.trigger_time + read + ns(400) + config.match_per_entry.max(time_for(wire, 8)) + pcie(96);
    assert_eq!(sim.world.seen.iter().find(|(_, of, _)| of.0 == 2).map(|(at, ..)| *at - begin), Some(sum));
}

#[test]
fn a_quick_ack_loads_nothing_and_takes_no_time() {
    let run = |quick_ack| {
        let mut sim = Sim::ready(NicConfig { quick_ack, ..config() }, 2, 2, 0);
        sim.append(2, entry(0, 0, 64));
        sim.run();
        sim.clock += SimTime::from_us(10);
        let begin = sim.clock;
        sim.put(0, 2, 0, 8, AckRequest::Full);
        sim.run();
        let ack = sim.world.seen.iter().find_map(|(at, of, notice)| match notice {
            Notice::Event { event, .. } if of.0 == 0 && event.kind == Ack => Some(*at - begin),
            _ => None,
        });
        (ack.unwrap(), sim.world.transfers.len())
    };
    let ((slow, two), (quick, one)) = (run(false), run(true));
    assert_eq!((two, one), (2, 1));
    let network = ns(400) + time_for(narrows_units::ByteRate(10_000_000_000), 32);
    assert_eq!(slow - quick, network, "the way of the ACK, its 32 bytes on the wire too");
}
