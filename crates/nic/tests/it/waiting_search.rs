//! Searches that wait for their message (`me::SEARCH_WAITS`), what a blocking probe does.

use crate::common::*;
use narrows_portals::*;
use narrows_units::SimTime;

/// Unexpected messages find room, and a search looks for `bits`.
fn sim(operation: SearchOperation, bits: u64) -> Sim {
    let mut sim = Sim::ready(config(), 2, 2, 0);
    let mut overflow = entry_with(0, 0, 1 << 19, me::MANAGE_LOCAL | me::EVENT_COMM_DISABLE);
    overflow.ignore_bits = u64::MAX;
    sim.overflow(2, overflow);
    sim.search(2, operation, MatchEntry { user_ptr: 7, ..entry_with(bits, 0, 0, me::USE_ONCE | me::SEARCH_WAITS) });
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim
}

#[test]
fn nothing_is_said_before_the_message_is_there_and_then_at_once() {
    for length in [0, 8, 100_000] {
        let mut sim = sim(SearchOperation::Only, 5);
        assert_eq!(sim.events(2), [], "no answer, and nothing under way: the rank can be found in a deadlock");
        sim.put(0, 2, 4, length, AckRequest::None);
        sim.run();
        assert_eq!(sim.events(2), [], "another message");

        // The same message to a process that has an entry for it: its event comes when that of the search does.
        sim.clock += SimTime::from_us(100);
        sim.append(3, entry(5, 0, 1 << 19));
        sim.run();
        sim.clock += SimTime::from_us(100);
        let begin = sim.clock;
        sim.put(0, 3, 5, length, AckRequest::None);
        sim.run();
        let (received, _, _) = sim.world.seen.pop().expect("the put");
        let received = received - begin;
        sim.clock += SimTime::from_us(100);
        let begin = sim.clock;
        sim.put(0, 2, 5, length, AckRequest::None);
        sim.run();
        let found = sim.world.seen.iter().find_map(|(at, process, notice)| match notice {
            Notice::Event { event, .. } if process.0 == 2 => Some((*at - begin, *event)),
            _ => None,
        });
        let (at, event) = found.expect("the search is answered");
        assert_eq!((event.kind, event.fail, event.user_ptr, event.rlength), (EventKind::Search, FailType::Ok, 7, length));
        assert_eq!(at, received, "{length} bytes");

        // It is still there for whoever receives it.
        sim.events(2);
        sim.append(2, entry_with(5, 0, 1 << 19, me::USE_ONCE | me::EVENT_UNLINK_DISABLE));
        assert_eq!(sim.kinds(2), [EventKind::PutOverflow]);
    }
}

#[test]
fn a_search_that_takes_leaves_nothing_for_others() {
    let mut sim = sim(SearchOperation::Delete, 5);
    for _ in 0..2 {
        sim.put(0, 2, 5, 8, AckRequest::None);
        sim.run();
    }
    assert_eq!(sim.events(2).iter().map(|event| (event.kind, event.user_ptr)).collect::<Vec<_>>()[..1], [(EventKind::PutOverflow, 7)]);
    // The second message has found no search: one is left.
    sim.search(2, SearchOperation::Delete, entry(5, 0, 0));
    sim.search(2, SearchOperation::Only, entry(5, 0, 0));
    sim.run();
    let fails: Vec<FailType> = sim.events(2).iter().map(|event| event.fail).collect();
    assert_eq!(fails, [FailType::Ok, FailType::NoMatch]);
    sim.check_idle();
}

#[test]
fn a_message_that_is_there_already_is_found_at_once() {
    let mut sim = sim(SearchOperation::Only, 5);
    sim.put(0, 2, 6, 8, AckRequest::None);
    sim.run();
    sim.search(2, SearchOperation::Only, entry_with(6, 0, 0, me::SEARCH_WAITS));
    assert_eq!(sim.kinds(2), [EventKind::Search]);
}
