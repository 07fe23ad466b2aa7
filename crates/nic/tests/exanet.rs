//! ExaNeSt's network interface, below Portals in software: closed forms, order, and the same outcome as on a NIC that
//! matches.

mod common;

use common::*;
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

fn seen(sim: &Sim, process: u32, kind: EventKind) -> Vec<SimTime> {
    let of = |(at, of, notice): &(SimTime, narrows_nic::Process, Notice)| match notice {
        Notice::Event { event, .. } if of.0 == process && event.kind == kind => Some(*at),
        _ => None,
    };
    sim.world.seen.iter().filter_map(of).collect()
}

/// On the wire of the tests.
fn wire(payload: u64) -> SimTime {
    ByteRate(10_000_000_000).time_for(Bytes(payload))
}

fn pcie(size: Bytes) -> SimTime {
    config().pcie_latency + config().pcie_rate.time_for(size)
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
        let there = pcie(c.command_size) + ns(30) + ns(400) + wire(24 + payload) + ns(110);
        assert_eq!(seen(&sim, 1, EventKind::Put), [begin + there + c.match_base + c.match_per_entry + pcie(c.event_size)]);
        let sent = pcie(c.command_size) + pcie(c.event_size);
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
        let start = pcie(c.command_size) + pcie(Bytes(64)) + ns(2_500);
        let read = start + (wire(BLOCK) + ns(700)) * (blocks - 1) + wire(100);
        assert_eq!(seen(&sim, 1, EventKind::Put), [begin + read + ns(400) + pcie(c.event_size)], "{blocks} blocks");
        assert_eq!(seen(&sim, 0, EventKind::Send), [begin + read + ns(800) + pcie(c.event_size)]);
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
