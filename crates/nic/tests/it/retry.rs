//! Portal table entries with `pt::RETRY`: nothing is dropped, order is kept.

use crate::common::*;
use narrows_nic::{HeldMessage, NicConfig, Process};
use narrows_portals::EventKind::*;
use narrows_portals::*;
use narrows_units::SimTime;

fn sim() -> Sim {
    Sim::ready(config(), 3, 1, pt::RETRY)
}

#[test]
fn what_finds_nothing_is_held_and_delivered_after_an_append() {
    let mut sim = sim();
    sim.fill(0, 0, 3000, 5);
    sim.put(0, 2, 1, 3000, AckRequest::Full);
    sim.run();
    assert_eq!((sim.nics.held(), sim.nics.in_flight()), (1, 0));
    let held: Vec<HeldMessage> = sim.nics.held_messages().collect();
    assert_eq!(held, [HeldMessage { from: Process(0), to: Process(2), put: true, pt: PT, match_bits: 1, length: 3000 }]);
    assert_eq!(sim.kinds(0), [Send], "no ACK yet");
    let begin = sim.clock;
    sim.append(2, entry(1, 0, 4096));
    sim.run();
    let arrival = sim.world.seen.iter().find(|(_, p, _)| p.0 == 2).map(|(at, _, _)| *at - begin).expect("the put arrives");
    let config = sim.nics.config();
    let event = config.pcie_latency + config.pcie_rate.time_for(config.event_size);
    let expected = sim.nics.lookahead() + config.retry_interval + config.match_per_entry + event;
    assert_eq!(arrival, expected, "one round trip after the append, then as any put");
    sim.check(2, 0, 3000, 5);
    assert_eq!(sim.kinds(0), [Ack]);
    assert_eq!((sim.nics.held(), sim.nics.statistics().retries, sim.nics.statistics().drops), (0, 1, 0));
    sim.check_idle();
}

#[test]
fn everything_behind_a_held_message_waits_but_not_what_others_send() {
    let mut sim = sim();
    sim.append(2, entry(2, 0, 64));
    sim.put_from(0, 2, 1, local(0), 8, AckRequest::None, 100); // nothing for it
    sim.put_from(0, 2, 2, local(0), 8, AckRequest::None, 101); // would match
    sim.put_from(1, 2, 2, local(0), 8, AckRequest::None, 102); // another initiator
    sim.run();
    assert_eq!(sim.events(2).iter().map(|e| e.hdr_data).collect::<Vec<_>>(), [102]);
    assert_eq!(sim.nics.held(), 2);
    sim.append(2, entry(7, 0, 64));
    sim.run();
    assert_eq!(sim.nics.held(), 2, "an append that does not help");
    sim.append(2, entry(1, 0, 64));
    sim.run();
    assert_eq!(sim.events(2).iter().map(|e| e.hdr_data).collect::<Vec<_>>(), [100, 101], "in order");
    sim.check_idle();
}

#[test]
fn gets_are_held_too() {
    let mut sim = sim();
    sim.fill(2, 0, 500, 6);
    sim.get(0, 2, 1, local(1000), 500);
    sim.run();
    assert!(sim.events(0).is_empty());
    assert_eq!(sim.nics.held(), 1);
    sim.append(2, entry(1, 0, 500));
    assert_eq!(sim.kinds(0), [Reply]);
    sim.check(0, 1000, 500, 6);
    sim.check_idle();
}

#[test]
fn a_raised_limit_of_headers_ends_the_wait() {
    let mut sim = sim();
    let limits = |unexpected_headers| Command::SetLimits { interface: 0, limits: Limits { entries: 9, unexpected_headers, list_size: 9 } };
    sim.command(2, limits(0));
    sim.overflow(2, entry(1, 0, 64));
    sim.put(0, 2, 1, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.nics.held(), 1, "an entry, but no place for the header");
    sim.command(2, limits(1));
    sim.run();
    assert_eq!(sim.nics.held(), 0);
    assert_eq!(sim.kinds(0), [Send, Ack]);
}

#[test]
fn a_header_slot_that_comes_free_ends_the_wait() {
    let mut sim = Sim::ready(NicConfig { limits: NiLimits { max_unexpected_headers: 2, ..NiLimits::BXI_V2 }, ..config() }, 2, 1, pt::RETRY);
    sim.overflow(1, entry_with(0, 0, 1000, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    for data in 0..5 {
        sim.put_from(0, 1, 0, local(0), 8, AckRequest::None, data);
    }
    sim.run();
    assert_eq!(sim.nics.held(), 3);
    let mut data = Vec::new();
    for round in 0..5 {
        sim.search(1, SearchOperation::Delete, entry_with(0, 0, 0, me::USE_ONCE));
        sim.run();
        data.extend(sim.events(1).iter().filter(|e| e.kind == PutOverflow).map(|e| e.hdr_data));
        assert_eq!(sim.nics.held(), 2u64.saturating_sub(round));
    }
    assert_eq!(data, [0, 1, 2, 3, 4]);
    sim.check_idle();
}

#[test]
fn a_message_that_is_still_arriving_can_be_held_and_taken() {
    let mut sim = sim();
    sim.world.rate = narrows_units::ByteRate(1_000_000_000);
    sim.fill(0, 0, 100_000, 2);
    sim.put(0, 2, 1, 100_000, AckRequest::Full); // 100 us
    sim.run_until(sim.clock + SimTime::from_us(10));
    assert_eq!(sim.nics.held(), 1);
    sim.append(2, entry(1, 0, 100_000));
    sim.run_until(sim.clock + SimTime::from_us(10));
    assert_eq!((sim.nics.held(), sim.nics.in_flight()), (0, 2), "both halves: the end-to-end layer waits for all of it");
    assert_eq!(sim.kinds(2), [Put]);
    sim.check(2, 0, 100_000, 2);
    sim.check_idle();
}

#[test]
fn held_messages_do_not_fill_the_end_to_end_window() {
    let mut sim = Sim::ready(NicConfig { max_outstanding: 2, ..config() }, 3, 1, pt::RETRY);
    for _ in 0..10 {
        sim.put(0, 2, 1, 8, AckRequest::None);
    }
    sim.append(1, entry(0, 0, 64));
    sim.put(0, 1, 0, 8, AckRequest::None);
    assert_eq!(sim.kinds(1), [Put], "another target is not blocked");
    assert_eq!(sim.nics.held(), 10);
}

#[test]
fn disable_and_free_refuse_what_is_held() {
    for (command, fail) in [
        (Command::PtDisable { pt: PT, ticket: NO_TICKET }, FailType::PtDisabled),
        (Command::PtFree { pt: PT, ticket: NO_TICKET }, FailType::Dropped),
    ] {
        let mut sim = sim();
        sim.put(0, 2, 1, 100, AckRequest::Full);
        sim.get(1, 2, 1, local(0), 100);
        sim.run();
        assert_eq!(sim.nics.held(), 2);
        sim.command(2, command);
        sim.run();
        assert_eq!(sim.events(0).iter().map(|e| (e.kind, e.fail)).collect::<Vec<_>>(), [(Send, FailType::Ok), (Ack, fail)]);
        assert_eq!(sim.events(1).iter().map(|e| (e.kind, e.fail)).collect::<Vec<_>>(), [(Reply, fail)]);
        assert_eq!(sim.nics.held(), 0);
        sim.check_idle();
    }
}

#[test]
fn ten_thousand_unexpected_messages_arrive_in_order_through_small_blocks() {
    let mut sim =
        Sim::ready(NicConfig { limits: NiLimits { max_unexpected_headers: 100, ..NiLimits::BXI_V2 }, ..config() }, 2, 1, pt::RETRY);
    let block = MatchEntry { min_free: 64, ..entry_with(0, 0, 64 * 64, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE) };
    sim.overflow(1, block);
    for data in 0..10_000 {
        sim.put_from(0, 1, 0, local(0), 8, AckRequest::None, data);
    }
    sim.run();
    let mut data = Vec::new();
    while data.len() < 10_000 {
        sim.append(1, entry_with(0, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
        sim.run();
        for event in sim.events(1) {
            match event.kind {
                PutOverflow | Put => data.push(event.hdr_data),
                AutoUnlink => {
                    sim.overflow(1, block);
                }
                _ => {}
            }
        }
        sim.run();
    }
    assert!(data.iter().copied().eq(0..10_000));
    sim.check_idle();
}
