//! One test for each item of the list of semantics that real clients rely on, by its number
//! (docs/conformance.md). Items 22 to 25, 29, 39 and 40 are in `operations.rs`; 37, 38 and 44 belong to the library.

use crate::common::*;
use narrows_nic::{CommandError, Process};
use narrows_portals::EventKind::*;
use narrows_portals::*;
use narrows_units::SimTime;

fn sim() -> Sim {
    Sim::ready(config(), 2, 2, 0)
}

#[test]
fn item_01_bits_ignore_bits_source_and_size_decide_and_the_first_in_list_order_wins() {
    let mut sim = sim();
    let other = sim.places[3];
    let mut wrong_source = entry(0x10, 0, 64);
    wrong_source.match_id = other;
    wrong_source.user_ptr = 1;
    let mut wrong_bits = entry(0x11, 0, 64);
    wrong_bits.user_ptr = 2;
    let mut too_small = entry_with(0x10, 0, 4, me::NO_TRUNCATE);
    too_small.user_ptr = 3;
    let mut by_ignore = entry(0x1f, 100, 64);
    by_ignore.ignore_bits = 0x0f;
    by_ignore.user_ptr = 4;
    let mut exact = entry(0x10, 200, 64);
    exact.user_ptr = 5;
    for me in [wrong_source, wrong_bits, too_small, by_ignore, exact] {
        sim.append(2, me);
    }
    sim.put(0, 2, 0x10, 8, AckRequest::None);
    sim.run();
    assert_eq!(sim.events(2).iter().map(|e| e.user_ptr).collect::<Vec<_>>(), [4], "the first that fits, in list order");
    sim.put(3, 2, 0x10, 8, AckRequest::None);
    sim.run();
    assert_eq!(sim.events(2)[0].user_ptr, 1, "the entry for this source");
    sim.put(0, 2, 0x10, 4, AckRequest::None);
    sim.run();
    assert_eq!(sim.events(2)[0].user_ptr, 3, "four bytes fit without truncation");
}

#[test]
fn item_01_nid_and_pid_have_wildcards_of_their_own() {
    let mut sim = sim();
    for (user_ptr, nid, pid) in [(1, 1, PID_ANY), (2, NID_ANY, 2)] {
        sim.append(2, MatchEntry { match_id: ProcessId { nid, pid }, user_ptr, ..entry(0, 0, 8) });
    }
    for from in [0, 1, 3] {
        sim.put(from, 2, 0, 1, AckRequest::None);
        sim.run();
    }
    assert_eq!(sim.events(2).iter().map(|e| e.user_ptr).collect::<Vec<_>>(), [1, 1, 2]);
}

#[test]
fn item_02_priority_then_overflow_then_drop() {
    let mut sim = sim();
    sim.overflow(2, MatchEntry { user_ptr: 1, ..entry(7, 0, 64) });
    sim.append(2, MatchEntry { user_ptr: 2, ..entry_with(7, 64, 64, me::USE_ONCE) });
    for _ in 0..2 {
        sim.put(0, 2, 7, 8, AckRequest::Full);
        sim.run();
    }
    let lists: Vec<_> = sim.events(2).iter().filter(|e| e.kind == Put).map(|e| (e.user_ptr, e.list)).collect();
    assert_eq!(lists, [(2, List::Priority), (1, List::Overflow)]);
    sim.events(0);
    sim.put(0, 2, 8, 8, AckRequest::Full);
    sim.run();
    let events = sim.events(0);
    assert_eq!(events.iter().map(|e| (e.kind, e.fail)).collect::<Vec<_>>(), [(Send, FailType::Ok), (Ack, FailType::Dropped)]);
    sim.get(0, 2, 8, local(0), 8);
    sim.run();
    assert_eq!(sim.events(0).iter().map(|e| (e.kind, e.fail)).collect::<Vec<_>>(), [(Reply, FailType::Dropped)]);
    assert_eq!(sim.nics.status(Process(2)).drop_count, 2);
    assert_eq!(sim.nics.statistics().drops, 2);
    assert!(sim.events(2).is_empty());
    sim.check_idle();
}

#[test]
fn item_03_a_wrong_operation_is_refused_on_the_entry_that_matched() {
    let mut sim = sim();
    sim.append(2, MatchEntry { options: me::OP_GET | me::USE_ONCE | me::EVENT_LINK_DISABLE, length: 64, ..Default::default() });
    sim.append(2, entry(0, 0, 64));
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::OpViolation, "the second entry is not tried");
    assert_eq!(sim.nics.status(Process(2)).operation_violations, 1);
    assert!(sim.events(2).is_empty());
    sim.get(0, 2, 0, local(0), 8);
    sim.run();
    assert_eq!(sim.events(0)[0].fail, FailType::Ok, "the entry stayed, and takes gets");
    assert_eq!(sim.events(2).iter().map(|e| e.kind).collect::<Vec<_>>(), [Get, AutoUnlink]);
}

#[test]
fn item_04_truncation_reports_both_lengths_on_both_sides() {
    let mut sim = sim();
    sim.fill(0, 0, 100, 1);
    sim.append(2, entry(0, 1000, 60));
    sim.put(0, 2, 0, 100, AckRequest::Full);
    sim.run();
    let put = sim.events(2)[0];
    assert_eq!((put.rlength, put.mlength, put.start), (100, 60, 1000));
    let ack = sim.events(0)[1];
    assert_eq!((ack.kind, ack.rlength, ack.mlength), (Ack, 100, 60));
    sim.check(2, 1000, 60, 1);
    assert_eq!(sim.world.memory[2][1060], 0, "nothing behind the entry is touched");

    let mut target = sim.target(2, 0);
    target.offset = 50;
    sim.command(0, Command::Get { local: local(5000), length: 100, target });
    sim.run();
    let get = sim.events(2)[0];
    assert_eq!((get.kind, get.rlength, get.mlength, get.start, get.remote_offset), (Get, 100, 10, 1050, 50));
    let reply = sim.events(0)[0];
    assert_eq!((reply.kind, reply.mlength, reply.rlength), (Reply, 10, 100));
    assert_eq!(sim.world.memory[0][5000..5010], sim.world.memory[2][1050..1060]);
    target.offset = 1 << 40; // far behind the end: nothing is moved, as a full operation
    sim.command(0, Command::Put { local: local(0), length: 0, inline: None, ack: AckRequest::None, target, hdr_data: 5 });
    sim.run();
    let put = sim.events(2)[0];
    assert_eq!((put.mlength, put.remote_offset, put.hdr_data), (0, 1 << 40, 5));
}

#[test]
fn item_05_overflow_delivery_posts_put_and_leaves_a_header() {
    let mut sim = sim();
    sim.fill(0, 0, 32, 3);
    sim.overflow(2, MatchEntry { user_ptr: 9, ..entry_with(0, 2000, 256, me::MANAGE_LOCAL) });
    sim.put_from(0, 2, 0, local(0), 32, AckRequest::Full, 77);
    sim.run();
    let put = sim.events(2)[0];
    assert_eq!((put.kind, put.list, put.user_ptr, put.start, put.hdr_data), (Put, List::Overflow, 9, 2000, 77));
    sim.check(2, 2000, 32, 3);
    assert_eq!(sim.nics.statistics().unexpected, 1);
    sim.search(2, SearchOperation::Only, entry(0, 0, 0));
    assert_eq!(sim.kinds(2), [Search]);
}

#[test]
fn item_06_append_reports_the_oldest_header_that_fits() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE).with_any_bits());
    for (bits, data) in [(1, 100), (2, 200), (2, 300)] {
        sim.fill(0, 0, 16, data);
        sim.put_from(0, 2, bits, local(0), 16, AckRequest::None, data);
        sim.run();
    }
    assert!(sim.events(2).is_empty(), "COMM_DISABLE");
    for (expected, start) in [(200, 2016), (300, 2032)] {
        sim.append(2, MatchEntry { user_ptr: 5, ..entry_with(2, 9000, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE) });
        sim.run();
        let events = sim.events(2);
        assert_eq!(events.len(), 1);
        let event = events[0];
        assert_eq!((event.kind, event.user_ptr, event.hdr_data, event.match_bits), (PutOverflow, 5, expected, 2));
        assert_eq!((event.start, event.mlength, event.initiator, event.list), (start, 16, sim.places[0], List::Overflow));
        sim.check(2, event.start, 16, expected);
    }
}

#[test]
fn item_07_use_once_append_that_finds_a_header_is_never_linked() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    sim.put(0, 2, 0, 8, AckRequest::None);
    sim.run();
    let me = MatchEntry { options: me::OP_PUT | me::USE_ONCE, length: 64, ..Default::default() };
    let id = sim.append(2, me);
    assert_eq!(sim.kinds(2), [PutOverflow, AutoUnlink], "no LINK");
    assert_eq!(sim.unlink(2, id), ReplyCode::Unknown);
    sim.take(2);
    sim.append(2, MatchEntry { options: me.options | me::EVENT_UNLINK_DISABLE, ..me });
    assert_eq!(sim.kinds(2), [Link], "the header is gone");
    sim.put(0, 2, 0, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put]);
}

#[test]
fn item_07_persistent_append_consumes_all_matching_headers_then_links() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE).with_any_bits());
    for bits in [1, 2, 1] {
        sim.put(0, 2, bits, 8, AckRequest::None);
        sim.run();
    }
    sim.append(2, MatchEntry { match_bits: 1, options: me::OP_PUT, length: 64, ..Default::default() });
    assert_eq!(sim.kinds(2), [PutOverflow, PutOverflow, Link]);
    sim.put(0, 2, 1, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put], "linked");
    sim.search(2, SearchOperation::Delete, entry(2, 0, 0));
    assert_eq!(sim.kinds(2), [PutOverflow], "the other header stayed");
}

#[test]
fn item_08_no_message_slips_between_search_and_link() {
    // A put arrives within 20 ns before and after an append: it is found by the search or by the
    // link, once.
    let mut ways = [0, 0];
    for early in 0..40 {
        let mut sim = sim();
        sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
        sim.run();
        let begin = sim.clock;
        sim.put(0, 2, 0, 8, AckRequest::None);
        sim.run_until(begin + ns(380 + early));
        sim.append(2, entry_with(0, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
        let kinds = sim.kinds(2);
        assert!(kinds == [Put] || kinds == [PutOverflow], "{kinds:?} when the append comes {early} ns later");
        ways[usize::from(kinds == [Put])] += 1;
        sim.check_idle();
    }
    assert!(ways[0] > 5 && ways[1] > 5, "both ways were taken: {ways:?}");
}

#[test]
fn item_08_a_header_whose_data_are_under_way_is_reported_when_they_are_there() {
    let mut sim = sim();
    sim.world.rate = narrows_units::ByteRate(1_000_000_000); // 100 us for the payload
    sim.fill(0, 0, 100_000, 4);
    sim.overflow(2, entry_with(0, 200_000, 200_000, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    sim.run();
    let begin = sim.clock;
    sim.put(0, 2, 0, 100_000, AckRequest::None);
    sim.run_until(begin + SimTime::from_us(20));
    sim.search(2, SearchOperation::Only, entry(0, 0, 0));
    sim.append(2, entry_with(0, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
    sim.append(2, entry_with(0, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
    sim.run_until(begin + SimTime::from_us(90));
    assert!(sim.events(2).is_empty(), "the data are not there");
    sim.run();
    assert_eq!(sim.events(2).iter().map(|e| e.kind).collect::<Vec<_>>(), [Search, PutOverflow], "the second append found nothing");
    sim.check(2, 200_000, 100_000, 4);
    assert_eq!(sim.nics.status(Process(2)).drop_count, 0);
}

#[test]
fn item_09_link_says_that_the_entry_can_match() {
    let mut sim = sim();
    sim.run();
    let begin = sim.clock;
    sim.append(2, MatchEntry { user_ptr: 31, options: me::OP_PUT, length: 8, ..Default::default() });
    sim.run();
    let (at, _, notice) = sim.world.seen[0];
    let Notice::Event { event, .. } = notice else { panic!("{notice:?}") };
    assert_eq!((event.kind, event.pt, event.user_ptr, event.fail), (Link, PT, 31, FailType::Ok));
    assert!(at - begin >= ns(600), "a command and an event over PCIe, not {}", at - begin);
    sim.take(2);
    sim.append(2, MatchEntry { options: me::OP_PUT | me::EVENT_LINK_DISABLE, length: 8, ..Default::default() });
    assert!(sim.kinds(2).is_empty());
}

#[test]
fn item_10_auto_unlink_of_use_once_and_below_min_free_but_not_of_explicit_unlink() {
    let mut sim = sim();
    let id = sim.append(2, entry_with(1, 0, 64, me::USE_ONCE));
    sim.put(0, 2, 1, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put, AutoUnlink]);
    assert_eq!(sim.unlink(2, id), ReplyCode::Unknown, "the handle is dead");

    sim.take(2);
    sim.append(2, MatchEntry { min_free: 40, ..entry_with(2, 0, 100, me::MANAGE_LOCAL) });
    for expected in [&[Put][..], &[Put, AutoUnlink]] {
        sim.put(0, 2, 2, 32, AckRequest::None); // 68 left, then 36
        assert_eq!(sim.kinds(2), expected);
    }
    sim.put(0, 2, 2, 8, AckRequest::None);
    assert!(sim.kinds(2).is_empty(), "unlinked");

    let id = sim.append(2, entry(3, 0, 64));
    assert_eq!(sim.unlink(2, id), ReplyCode::Ok);
    assert!(sim.kinds(2).is_empty(), "no AUTO_UNLINK");
}

#[test]
fn item_10_auto_unlink_waits_for_every_operation_on_the_entry() {
    let mut sim = sim();
    sim.world.rate = narrows_units::ByteRate(1_000_000_000);
    sim.append(2, MatchEntry { min_free: 64, ..entry_with(0, 0, 100_070, me::MANAGE_LOCAL) });
    sim.run();
    sim.put(0, 2, 0, 100_000, AckRequest::None); // 100 us
    sim.run_until(sim.clock + SimTime::from_us(10));
    sim.put(3, 2, 0, 8, AckRequest::None); // takes the entry below min_free, and is done first
    sim.run_until(sim.clock + SimTime::from_us(10));
    assert_eq!(sim.events(2).iter().map(|e| (e.kind, e.mlength)).collect::<Vec<_>>(), [(Put, 8)]);
    assert_eq!(sim.kinds(2), [Put, AutoUnlink], "the memory is the process's own only now");
}

#[test]
fn item_11_auto_free_comes_after_the_last_header_is_consumed() {
    let mut sim = sim();
    sim.overflow(2, MatchEntry { min_free: 64, user_ptr: 3, ..entry_with(0, 2000, 100, me::MANAGE_LOCAL) });
    sim.put(0, 2, 0, 20, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put]);
    sim.put(0, 2, 0, 20, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put, AutoUnlink]);
    let once = entry_with(0, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE);
    sim.append(2, once);
    assert_eq!(sim.kinds(2), [PutOverflow]);
    sim.append(2, once);
    sim.run();
    let events = sim.events(2);
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [PutOverflow, AutoFree]);
    assert_eq!(events[1].user_ptr, 3);
    // A priority entry never has one.
    sim.append(2, entry_with(9, 0, 64, me::USE_ONCE));
    sim.put(0, 2, 9, 1, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put, AutoUnlink]);
}

#[test]
fn item_12_manage_local_packs_and_ignores_the_remote_offset() {
    let mut sim = sim();
    sim.append(2, entry_with(0, 3000, 100, me::MANAGE_LOCAL));
    let mut target = sim.target(2, 0);
    target.offset = 7;
    let mut places = Vec::new();
    for (seed, length) in [(1, 30), (2, 50), (3, 40)] {
        sim.fill(0, 0, length, seed);
        sim.command(0, Command::Put { local: local(0), length, inline: None, ack: AckRequest::Full, target, hdr_data: 0 });
        sim.run();
        let event = sim.events(2)[0];
        let ack = sim.events(0)[1];
        assert_eq!((ack.remote_offset, ack.mlength), (event.remote_offset, event.mlength));
        sim.check(2, event.start, event.mlength, seed);
        places.push((event.start, event.remote_offset, event.mlength));
    }
    assert_eq!(places, [(3000, 0, 30), (3030, 30, 50), (3080, 80, 20)], "the last is cut to what is left");
    sim.get(0, 2, 0, local(0), 10);
    sim.run();
    let get = sim.events(2)[0];
    assert_eq!((get.kind, get.remote_offset, get.mlength), (Get, 100, 0), "gets share the offset");
}

#[test]
fn item_13_min_free_zero_never_unlinks_and_local_inc_uh_rlength_advances() {
    let mut sim = sim();
    sim.append(2, entry_with(0, 0, 10, me::MANAGE_LOCAL));
    for _ in 0..3 {
        sim.put(0, 2, 0, 8, AckRequest::None);
        assert_eq!(sim.kinds(2), [Put]);
    }
    // min_free without MANAGE_LOCAL means nothing.
    sim.append(2, MatchEntry { min_free: 1 << 30, ..entry(1, 0, 10) });
    for _ in 0..2 {
        sim.put(0, 2, 1, 8, AckRequest::None);
        assert_eq!(sim.kinds(2), [Put]);
    }
    // 4.3: the offset of a new entry advances by the headers that it takes.
    sim.overflow(2, entry_with(2, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    for _ in 0..3 {
        sim.put(0, 2, 2, 8, AckRequest::None);
        sim.run();
    }
    let counted = MatchEntry { min_free: 8, ..entry_with(2, 5000, 64, me::MANAGE_LOCAL | me::LOCAL_INC_UH_RLENGTH) };
    sim.append(2, MatchEntry { length: 20, ..counted });
    assert_eq!(sim.kinds(2), [PutOverflow, PutOverflow, AutoUnlink], "20 - 16 bytes are below min_free; the third header stays");
    sim.append(2, counted);
    assert_eq!(sim.kinds(2), [PutOverflow]);
    sim.put(0, 2, 2, 8, AckRequest::None);
    sim.run();
    assert_eq!(sim.events(2)[0].start, 5008);
}

#[test]
fn item_14_unexpected_hdr_disable_leaves_no_header() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 0, 0, me::UNEXPECTED_HDR_DISABLE));
    sim.put(0, 2, 0, 100, AckRequest::Full);
    sim.run();
    let ack = sim.events(0)[1];
    assert_eq!((ack.kind, ack.fail, ack.mlength, ack.list), (Ack, FailType::Ok, 0, List::Overflow));
    sim.events(2);
    sim.search(2, SearchOperation::Only, entry(0, 0, 0));
    sim.run();
    assert_eq!(sim.events(2)[0].fail, FailType::NoMatch);
    assert_eq!(sim.nics.statistics().unexpected, 0);
}

#[test]
fn item_15_search_only_gives_one_event_for_use_once_and_consumes_nothing() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    for data in [11, 12] {
        sim.put_from(0, 2, 0, local(0), 16, AckRequest::None, data);
        sim.run();
    }
    for _ in 0..3 {
        sim.search(2, SearchOperation::Only, MatchEntry { user_ptr: 6, options: me::USE_ONCE, ..Default::default() });
        sim.run();
        let events = sim.events(2);
        assert_eq!(events.len(), 1);
        let found = events[0];
        assert_eq!((found.kind, found.fail, found.hdr_data, found.user_ptr), (Search, FailType::Ok, 11, 6));
        assert_eq!((found.start, found.mlength, found.initiator), (2000, 16, sim.places[0]));
    }
    // 4.3: one that is persistent looks at all.
    sim.search(2, SearchOperation::Only, MatchEntry { user_ptr: 7, ..Default::default() });
    sim.run();
    assert_eq!(sim.events(2).iter().map(|event| (event.kind, event.hdr_data)).collect::<Vec<_>>(), [(Search, 11), (Search, 12)]);
    sim.search(2, SearchOperation::Only, entry(99, 0, 0));
    sim.run();
    let missed = sim.events(2);
    assert_eq!((missed.len(), missed[0].kind, missed[0].fail), (1, Search, FailType::NoMatch));
    assert_eq!(sim.nics.status(Process(2)), Default::default());
}

#[test]
fn item_16_search_delete_removes_one_or_all_and_counts() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 2000, 256, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    for _ in 0..4 {
        sim.put(0, 2, 0, 16, AckRequest::None);
        sim.run();
    }
    let counting = MatchEntry { ct: CT, ..entry_with(0, 0, 0, me::EVENT_CT_OVERFLOW) };
    let once = MatchEntry { options: counting.options | me::USE_ONCE, ..counting };
    sim.search(2, SearchOperation::Delete, once);
    assert_eq!(sim.count(2), (1, 0), "use-once: one success, no failure");
    sim.search(2, SearchOperation::Delete, entry_with(0, 0, 0, me::USE_ONCE));
    assert_eq!(sim.kinds(2), [PutOverflow], "use-once: no AUTO_UNLINK of a search");
    sim.search(2, SearchOperation::Delete, counting);
    sim.run();
    let notices = sim.take(2);
    let events = notices.iter().filter(|n| matches!(n, Notice::Event { event, .. } if event.kind == PutOverflow)).count();
    assert_eq!(events, 2, "persistent: all that is left");
    assert_eq!(
        notices.last(),
        Some(&Notice::Count { ct: CT, success: 3, failure: 1, commands: 2 }),
        "and one failure at the end of the list"
    );
    sim.search(2, SearchOperation::Delete, once);
    sim.run();
    let notices = sim.take(2);
    assert!(matches!(notices[0], Notice::Event { event, .. } if event.kind == Search && event.fail == FailType::NoMatch));
    assert_eq!(notices[1], Notice::Count { ct: CT, success: 3, failure: 2, commands: 2 });
}

#[test]
fn item_17_suppression_stops_events_but_no_counting() {
    let mut sim = sim();
    let count = me::EVENT_CT_COMM | me::EVENT_CT_OVERFLOW;
    for options in [me::EVENT_COMM_DISABLE, me::EVENT_SUCCESS_DISABLE] {
        let id = sim.append(2, MatchEntry { ct: CT, ..entry_with(1, 0, 64, options | count) });
        sim.put(0, 2, 1, 8, AckRequest::None);
        sim.run();
        let notices = sim.take(2);
        assert!(matches!(notices[..], [Notice::Count { .. }]), "{notices:?}");
        assert_eq!(sim.unlink(2, id), ReplyCode::Ok);
        sim.take(2);
    }
    sim.append(2, entry_with(2, 0, 64, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
    sim.put(0, 2, 2, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put]);
    sim.overflow(2, entry_with(3, 0, 64, me::EVENT_COMM_DISABLE | me::EVENT_UNLINK_DISABLE | me::USE_ONCE));
    sim.put(0, 2, 3, 8, AckRequest::None);
    assert!(sim.kinds(2).is_empty());
    sim.append(2, MatchEntry { ct: CT, ..entry_with(3, 0, 64, me::EVENT_OVER_DISABLE | count) });
    sim.run();
    let notices = sim.take(2);
    assert_eq!(notices, [Notice::Count { ct: CT, success: 3, failure: 0, commands: 0 }], "no overflow event, no AUTO_FREE");
}

#[test]
fn item_18_md_options_drop_send_and_successes_but_no_failures() {
    let mut sim = sim();
    sim.append(2, entry(1, 0, 64));
    for (options, bits, expected) in [
        (md::EVENT_SEND_DISABLE, 1, &[(Ack, FailType::Ok)][..]),
        (md::EVENT_SUCCESS_DISABLE, 1, &[]),
        (md::EVENT_SUCCESS_DISABLE, 2, &[(Ack, FailType::Dropped)]),
        (md::EVENT_SEND_DISABLE, 2, &[(Ack, FailType::Dropped)]),
        (0, 1, &[(Send, FailType::Ok), (Ack, FailType::Ok)]),
    ] {
        sim.put_from(0, 2, bits, LocalBuffer { options, ..local(0) }, 8, AckRequest::Full, 0);
        sim.run();
        let events: Vec<_> = sim.events(0).iter().map(|e| (e.kind, e.fail)).collect();
        assert_eq!(events, expected, "options {options:#x}, bits {bits}");
    }
    for (bits, expected) in [(1, &[][..]), (2, &[(Reply, FailType::Dropped)])] {
        sim.get(0, 2, bits, LocalBuffer { options: md::EVENT_SUCCESS_DISABLE, ..local(0) }, 8);
        sim.run();
        let events: Vec<_> = sim.events(0).iter().map(|e| (e.kind, e.fail)).collect();
        assert_eq!(events, expected);
    }
}

#[test]
fn item_19_counting_events_and_bytes() {
    let mut sim = sim();
    sim.append(2, MatchEntry { ct: CT, ..entry_with(1, 0, 50, me::EVENT_CT_COMM | me::EVENT_CT_BYTES) });
    let buffer = |options| LocalBuffer { options, ct: CT, eq: NO_EQ, ..local(0) };
    sim.put_from(0, 2, 1, buffer(md::EVENT_CT_SEND), 80, AckRequest::None, 0);
    assert_eq!(sim.count(0), (1, 0));
    assert_eq!(sim.count(2), (50, 0), "mlength at the target");
    sim.put_from(0, 2, 1, buffer(md::EVENT_CT_ACK | md::EVENT_CT_BYTES), 80, AckRequest::Counting, 0);
    assert_eq!(sim.count(0), (51, 0), "mlength in the ACK");
    sim.put_from(0, 2, 1, buffer(md::EVENT_CT_SEND | md::EVENT_CT_BYTES), 80, AckRequest::None, 0);
    assert_eq!(sim.count(0), (131, 0), "what was sent");
    sim.get(0, 2, 1, buffer(md::EVENT_CT_REPLY | md::EVENT_CT_BYTES), 80);
    assert_eq!(sim.count(0), (181, 0), "mlength in the reply");
    sim.put_from(0, 2, 2, buffer(md::EVENT_CT_ACK | md::EVENT_CT_BYTES), 80, AckRequest::Counting, 0);
    assert_eq!(sim.count(0), (181, 1), "a failure adds one");
}

#[test]
fn item_20_a_failure_reaches_the_count() {
    let mut sim = sim();
    let buffer = LocalBuffer { options: md::EVENT_CT_REPLY, ct: CT, eq: NO_EQ, ..local(0) };
    sim.get(0, 2, 5, buffer, 8);
    assert_eq!(sim.count(0), (0, 1));
}

#[test]
fn item_21_set_replaces_and_increment_adds() {
    let mut sim = sim();
    sim.command(0, Command::CtIncrement { ct: CT, success: 3, failure: 0 });
    sim.command(0, Command::CtIncrement { ct: CT, success: 0, failure: 2 });
    assert_eq!(sim.count(0), (3, 2));
    sim.command(0, Command::CtSet { ct: CT, success: 1, failure: 0 });
    sim.command(0, Command::CtSet { ct: CT, success: 7, failure: 0 });
    assert_eq!(sim.count(0), (7, 0));
    sim.command(0, Command::CtIncrement { ct: CT, success: u64::MAX, failure: 0 });
    assert_eq!(sim.count(0), (6, 0), "wraps as unsigned numbers do");
}

#[test]
fn item_26_ack_kinds() {
    let mut sim = sim();
    sim.append(2, entry(1, 0, 64));
    sim.append(2, entry_with(2, 0, 64, me::ACK_DISABLE));
    let buffer = LocalBuffer { options: md::EVENT_CT_ACK | md::EVENT_SEND_DISABLE, ct: CT, ..local(0) };
    for (bits, ack, events, counts) in [
        (1, AckRequest::None, 0, 0),
        (1, AckRequest::Full, 1, 1),
        (1, AckRequest::Counting, 0, 1),
        (1, AckRequest::OperationCompleted, 0, 1),
        (2, AckRequest::Full, 0, 0),
        (2, AckRequest::Counting, 0, 0),
    ] {
        sim.put_from(0, 2, bits, buffer, 8, ack, 0);
        sim.run();
        let notices = sim.take(0);
        let full = notices.iter().filter(|n| matches!(n, Notice::Event { event, .. } if event.kind == Ack)).count();
        let counted = notices.iter().filter(|n| matches!(n, Notice::Count { .. })).count();
        assert_eq!((full, counted), (events, counts), "{ack:?} on entry {bits}");
    }
    assert_eq!(sim.nics.statistics().acks, 3);
    sim.check_idle();
}

#[test]
fn item_27_ack_tells_length_offset_list_and_user_ptr() {
    let mut sim = sim();
    sim.overflow(2, entry_with(0, 0, 100, me::MANAGE_LOCAL));
    for offset in [0, 30] {
        sim.put_from(0, 2, 0, LocalBuffer { user_ptr: 77, ..local(0) }, 30, AckRequest::Full, 0);
        sim.run();
        let ack = sim.events(0)[1];
        assert_eq!((ack.kind, ack.mlength, ack.remote_offset), (Ack, 30, offset));
        assert_eq!((ack.list, ack.user_ptr, ack.fail), (List::Overflow, 77, FailType::Ok));
    }
}

#[test]
fn item_28_send_comes_before_ack_for_every_size() {
    let mut sim = sim();
    sim.append(2, entry(0, 0, 500_000));
    for length in [0, 1, 8, 9, 64, 65, 408, 409, 4096, 300_000] {
        sim.put(0, 2, 0, length, AckRequest::Full);
        assert_eq!(sim.kinds(0), [Send, Ack], "{length} bytes");
    }
}

#[test]
fn item_30_messages_of_a_pair_match_in_issue_order() {
    let mut sim = sim();
    sim.append(2, entry(0, 0, 500_000));
    let lengths = [100_000, 0, 8, 500, 65, 8, 5000, 1];
    for (i, &length) in lengths.iter().enumerate() {
        sim.put_from(0, 2, 0, local(0), length, AckRequest::None, i as u64);
    }
    // A get behind puts matches behind them: it is the only one that finds the use-once entry.
    sim.run();
    let data: Vec<u64> = sim.events(2).iter().filter(|e| e.kind == Put).map(|e| e.hdr_data).collect();
    let mut sorted = data.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..lengths.len() as u64).collect::<Vec<_>>());
    // Matching order, seen through use-once entries in a row.
    let mut sim = Sim::ready(config(), 2, 2, 0);
    for i in 0..lengths.len() as u64 + 1 {
        sim.append(2, MatchEntry { user_ptr: i, ..entry_with(0, 0, 500_000, me::USE_ONCE | me::EVENT_UNLINK_DISABLE) });
    }
    for (i, &length) in lengths.iter().enumerate() {
        sim.put_from(0, 2, 0, local(0), length, AckRequest::None, i as u64);
    }
    sim.get(0, 2, 0, local(0), 10);
    sim.run();
    let events = sim.events(2);
    assert_eq!(events.len(), lengths.len() + 1);
    for event in events {
        let issued = if event.kind == Get { lengths.len() as u64 } else { event.hdr_data };
        assert_eq!(event.user_ptr, issued, "message {issued} matched in its turn");
    }
}

#[test]
fn item_31_the_event_comes_after_the_data() {
    let mut sim = sim();
    sim.append(2, MatchEntry { ct: CT, ..entry_with(0, 1000, 5000, me::EVENT_CT_COMM) });
    sim.run();
    for length in [1, 64, 5000] {
        sim.take(2);
        sim.fill(0, 0, length, length);
        sim.put(0, 2, 0, length, AckRequest::None);
        while sim.world.seen.iter().all(|(_, process, _)| process.0 != 2) {
            assert!(sim.step());
        }
        sim.check(2, 1000, length, length);
        sim.run();
    }
}

#[test]
fn item_32_flow_control_disables_and_says_so_once() {
    let mut sim = Sim::ready(config(), 2, 2, pt::FLOWCTRL);
    sim.append(2, entry(1, 0, 64));
    for (bits, expected) in [(1, FailType::Ok), (2, FailType::PtDisabled), (1, FailType::PtDisabled), (2, FailType::PtDisabled)] {
        sim.put(0, 2, bits, 8, AckRequest::Full);
        sim.run();
        assert_eq!(sim.events(0)[1].fail, expected);
    }
    let events = sim.events(2);
    assert_eq!(events.iter().map(|e| e.kind).collect::<Vec<_>>(), [Put, PtDisabled]);
    assert_eq!(events[1].pt, PT);
    sim.command(2, Command::PtEnable { pt: PT });
    sim.put(0, 2, 1, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Ok, "works again");
    let error = sim.try_command(2, Command::PtAlloc { pt: 9, options: pt::FLOWCTRL, eq: NO_EQ });
    assert_eq!(error, Err(CommandError::EqNeeded(9)));
}

#[test]
fn item_32_exhausted_unexpected_headers_disable_with_flow_control_and_drop_without() {
    for (options, fail) in [(pt::FLOWCTRL, FailType::PtDisabled), (0, FailType::Dropped)] {
        let mut sim = Sim::ready(
            narrows_nic::NicConfig { limits: NiLimits { max_unexpected_headers: 2, ..NiLimits::BXI_V2 }, ..config() },
            2,
            2,
            options,
        );
        sim.overflow(2, entry_with(0, 0, 1000, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
        for expected in [FailType::Ok, FailType::Ok, fail] {
            sim.put(0, 2, 0, 8, AckRequest::Full);
            sim.run();
            assert_eq!(sim.events(0)[1].fail, expected);
        }
        let kinds = sim.kinds(2);
        assert_eq!(kinds, if options == 0 { vec![] } else { vec![PtDisabled] });
        // A header slot that is free again takes the next message.
        sim.search(2, SearchOperation::Delete, entry_with(0, 0, 0, me::USE_ONCE));
        sim.command(2, Command::PtEnable { pt: PT });
        sim.put(0, 2, 0, 8, AckRequest::Full);
        sim.run();
        assert_eq!(sim.events(0)[1].fail, FailType::Ok);
    }
}

#[test]
fn item_33_pt_disabled_waits_for_messages_in_progress_and_lists_survive() {
    let mut sim = Sim::ready(config(), 3, 1, pt::FLOWCTRL);
    sim.world.rate = narrows_units::ByteRate(1_000_000_000);
    sim.append(2, entry(1, 0, 200_000));
    sim.overflow(2, entry_with(3, 0, 1000, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE));
    sim.put(1, 2, 3, 8, AckRequest::None);
    sim.run();
    sim.put(0, 2, 1, 100_000, AckRequest::None); // 100 us under way
    sim.run_until(sim.clock + SimTime::from_us(10));
    sim.put(1, 2, 2, 8, AckRequest::Full); // matches nothing
    sim.run_until(sim.clock + SimTime::from_us(10));
    assert_eq!(sim.events(1).iter().filter(|e| e.kind == Ack).map(|e| e.fail).collect::<Vec<_>>(), [FailType::PtDisabled]);
    assert!(sim.events(2).is_empty(), "one message is in progress");
    assert_eq!(sim.kinds(2), [Put, PtDisabled]);
    sim.command(2, Command::PtEnable { pt: PT });
    sim.search(2, SearchOperation::Delete, entry_with(3, 0, 0, me::USE_ONCE));
    assert_eq!(sim.kinds(2), [PutOverflow], "the unexpected list survived");
    sim.put(1, 2, 1, 8, AckRequest::None);
    assert_eq!(sim.kinds(2), [Put], "and so did the entries");
}

#[test]
fn item_34_explicit_disable_posts_no_event_and_alloc_disabled_starts_that_way() {
    let mut sim = Sim::ready(config(), 2, 2, pt::ALLOC_DISABLED);
    sim.append(2, entry(0, 0, 64));
    let try_put = |sim: &mut Sim| {
        sim.put(0, 2, 0, 8, AckRequest::Full);
        sim.run();
        sim.events(0)[1].fail
    };
    assert_eq!(try_put(&mut sim), FailType::PtDisabled);
    sim.command(2, Command::PtEnable { pt: PT });
    assert_eq!(try_put(&mut sim), FailType::Ok);
    sim.command(2, Command::PtDisable { pt: PT, ticket: NO_TICKET });
    assert_eq!(try_put(&mut sim), FailType::PtDisabled);
    assert_eq!(sim.kinds(2), [Put], "no PT_DISABLED event");
}

#[test]
fn item_35_hints_refuse_nothing_and_an_index_is_used_once() {
    let mut sim = Sim::ready(config(), 2, 2, pt::ONLY_USE_ONCE | pt::ONLY_TRUNCATE);
    let id = sim.append(2, entry_with(0, 0, 64, me::NO_TRUNCATE));
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Ok);
    let again = Command::PtAlloc { pt: PT, options: 0, eq: EQ };
    assert_eq!(sim.try_command(2, again.clone()), Err(CommandError::PtInUse(PT)));
    let free = |sim: &mut Sim, ticket| {
        sim.command(2, Command::PtFree { pt: PT, ticket });
        sim.run();
        sim.take(2).into_iter().find_map(|notice| if let Notice::Reply { code, .. } = notice { Some(code) } else { None })
    };
    assert_eq!(free(&mut sim, 100), Some(ReplyCode::InUse), "in use while an entry is linked");
    assert_eq!(sim.unlink(2, id), ReplyCode::Ok);
    sim.take(2);
    assert_eq!(free(&mut sim, 101), Some(ReplyCode::Ok));
    sim.command(2, again);
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Dropped, "a new, empty table entry");
    sim.append(2, entry(0, 0, 64));
    assert_eq!(free(&mut sim, NO_TICKET), None, "the network interface is closed: entries go too, and nobody is told");
    sim.command(2, Command::PtAlloc { pt: PT, options: 0, eq: EQ });
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Dropped);
}

#[test]
fn item_36_unlink_waits_for_operations_and_is_refused_while_a_header_uses_the_entry() {
    let mut sim = sim();
    sim.world.rate = narrows_units::ByteRate(1_000_000_000);
    let id = sim.append(2, entry(1, 0, 200_000));
    sim.run();
    sim.put(0, 2, 1, 100_000, AckRequest::None);
    sim.run_until(sim.clock + SimTime::from_us(10));
    let asked = sim.clock;
    assert_eq!(sim.unlink(2, id), ReplyCode::Ok, "when the message that was arriving is there");
    assert!(sim.clock > asked + SimTime::from_us(80));
    assert_eq!(sim.kinds(2), [Put], "no AUTO_UNLINK");
    assert_eq!(sim.unlink(2, id), ReplyCode::Unknown);

    // Nothing matches it meanwhile.
    let id = sim.append(2, entry(1, 0, 200_000));
    sim.put(0, 2, 1, 100_000, AckRequest::Full);
    sim.run_until(sim.clock + SimTime::from_us(10));
    sim.command(2, Command::MeUnlink { entry: id, ticket: NO_TICKET });
    sim.run_until(sim.clock + SimTime::from_us(1));
    sim.put(0, 2, 1, 8, AckRequest::Full);
    assert_eq!(sim.unlink(2, id), ReplyCode::InUse, "it is unlinked already");
    sim.run();
    let fails: Vec<_> = sim.events(0).into_iter().filter(|event| event.kind == Ack).map(|event| event.fail).collect();
    assert_eq!(fails, [FailType::Dropped, FailType::Ok]);

    // An entry that the NIC has unlinked for an operation is gone, which AUTO_UNLINK says.
    let id = sim.append(2, entry_with(1, 0, 200_000, me::USE_ONCE));
    sim.run();
    sim.put(0, 2, 1, 100_000, AckRequest::None);
    sim.run_until(sim.clock + SimTime::from_us(10));
    assert_eq!(sim.unlink(2, id), ReplyCode::InUse, "while the message arrives");

    let id = sim.overflow(2, entry_with(2, 0, 1000, me::MANAGE_LOCAL));
    sim.put(0, 2, 2, 8, AckRequest::None);
    sim.run();
    assert_eq!(sim.unlink(2, id), ReplyCode::InUse, "a header points to it");
    sim.search(2, SearchOperation::Delete, entry(2, 0, 0));
    sim.run();
    assert_eq!(sim.unlink(2, id), ReplyCode::Ok);
    assert_eq!(sim.unlink(2, EntryId(u64::MAX)), ReplyCode::Unknown);
}

#[test]
fn item_41_zero_length_operations_are_full_operations() {
    let mut sim = sim();
    sim.append(2, MatchEntry { ct: CT, ..entry_with(0, 0, 0, me::USE_ONCE | me::EVENT_CT_COMM) });
    sim.append(2, MatchEntry { ct: CT, ..entry_with(0, 0, 0, me::EVENT_CT_COMM) });
    sim.put_from(0, 2, 0, local(0), 0, AckRequest::Full, 5);
    assert_eq!(sim.kinds(0), [Send, Ack]);
    sim.get(0, 2, 0, local(0), 0);
    assert_eq!(sim.kinds(0), [Reply]);
    sim.run();
    let notices = sim.take(2);
    assert_eq!(notices.last(), Some(&Notice::Count { ct: CT, success: 2, failure: 0, commands: 0 }));
    let kinds: Vec<_> = notices.iter().filter_map(|n| if let Notice::Event { event, .. } = n { Some(event.kind) } else { None }).collect();
    assert_eq!(kinds, [Put, AutoUnlink, Get]);
}

#[test]
fn item_42_an_event_for_a_freed_queue_is_counted_as_lost() {
    let mut sim = sim();
    sim.append(2, entry(0, 0, 64));
    sim.command(2, Command::EqFree { eq: EQ });
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::Ok);
    assert!(sim.events(2).is_empty());
    assert_eq!(sim.nics.statistics().lost_events, 1);
}

#[test]
fn item_43_self_sends_behave_as_others() {
    let mut sim = sim();
    sim.fill(0, 0, 5000, 8);
    sim.append(0, entry(0, 10_000, 5000));
    for length in [0, 8, 5000] {
        sim.put(0, 0, 0, length, AckRequest::Full);
        let kinds = sim.kinds(0);
        assert_eq!(kinds.len(), 3);
        assert!(kinds.contains(&Put) && kinds.contains(&Send) && kinds.contains(&Ack));
        sim.check(0, 10_000, length, 8);
    }
    sim.get(0, 0, 0, local(20_000), 5000);
    assert_eq!(sim.kinds(0), [Get, Reply]);
    sim.check(0, 20_000, 5000, 8);
    sim.command(0, Command::PtDisable { pt: PT, ticket: NO_TICKET });
    sim.put(0, 0, 0, 8, AckRequest::Full);
    sim.run();
    assert_eq!(sim.events(0)[1].fail, FailType::PtDisabled);
}

trait AnyBits {
    fn with_any_bits(self) -> Self;
}

impl AnyBits for MatchEntry {
    fn with_any_bits(mut self) -> Self {
        self.ignore_bits = u64::MAX;
        self
    }
}
