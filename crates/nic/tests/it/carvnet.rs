//! caRVnet's engine, below Portals in software: closed forms to the picosecond, what waits for contexts and channels,
//! and the same outcome as on a NIC that matches.

use crate::common::*;
use narrows_keys::Keys;
use narrows_nic::CarvnetConfig;
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, SimTime};

const BLOCK: u64 = 16 << 10;

/// So many processes on nodes of their own; all take puts and give gets, and have used their pages.
fn sim_of(nodes: u32, carvnet: Option<CarvnetConfig>) -> Sim {
    let nic = carvnet.map_or_else(|| config().into(), |carvnet| narrows_nic::AnyConfig::Carvnet(config(), carvnet));
    let mut sim = Sim::ready(nic, nodes, 1, 0);
    for process in 0..nodes {
        sim.append(process, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    }
    sim.run();
    sim
}

fn touched(nodes: u32, carvnet: CarvnetConfig) -> Sim {
    let mut sim = sim_of(nodes, Some(carvnet));
    for from in 0..nodes {
        sim.put(from, (from + 1) % nodes, 0, 200_000, AckRequest::None);
        sim.run();
    }
    sim.clock += SimTime::from_us(10);
    sim.world.seen.clear();
    sim
}

/// On the wire of the tests.
fn wire(payload: u64) -> SimTime {
    ByteRate(10_000_000_000).time_for(Bytes(payload))
}

/// The command, four stores of a cycle, and the engine's first packet.
fn started() -> SimTime {
    pcie(config().command_size.0) + ns(40) + ns(40)
}

/// From the first block on its way to the last byte at the target: a block begins when the one before has been read.
fn blocks(payload: u64) -> SimTime {
    let full = payload.saturating_sub(1) / BLOCK;
    (wire(BLOCK) + ns(40)) * full + wire(payload - full * BLOCK) + ns(400)
}

const NOTIFY: SimTime = SimTime(72_500);

#[test]
fn a_put_is_a_row_of_blocks() {
    for payload in [0, 1, 8, 4096, BLOCK, BLOCK + 1, 100_000] {
        let mut sim = touched(2, Keys::defaults());
        let begin = sim.clock;
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let read = if payload > 0 { pcie(64) + ns(25) } else { SimTime::ZERO };
        let written = started() + read + blocks(payload) + ns(120);
        assert_eq!(seen(&sim, 1, EventKind::Put), [begin + written + NOTIFY + pcie(config().event_size.0)], "{payload} B");
        // Memory is free when the last block has been acknowledged.
        let sent = if payload > 0 { written + ns(40) + ns(400) } else { pcie(config().command_size.0) };
        assert_eq!(seen(&sim, 0, EventKind::Send), [begin + sent + pcie(config().event_size.0)], "{payload} B");
    }
}

#[test]
fn the_first_access_to_a_page_is_a_walk() {
    let mut sim = sim_of(2, Some(Keys::defaults()));
    let mut begin = sim.clock;
    let mut took = |payload| {
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let end = *seen(&sim, 1, EventKind::Put).last().expect("it comes");
        let took = end - begin;
        begin = sim.clock;
        took
    };
    let (first, again) = (took(8), took(8));
    assert_eq!(first - again, ns(600), "one page at each end");
    assert_eq!(took(4096) - again, wire(4096) - wire(8), "the same page");
    let (longer, again) = (took(12_000), took(12_000));
    assert_eq!(longer - again, ns(1_200), "two more, at each end");
    assert_eq!(took(100), again - wire(12_000) + wire(100));
}

#[test]
fn a_get_comes_back_as_a_transfer_of_its_own() {
    for payload in [8, 40_000] {
        let mut sim = touched(2, Keys::defaults());
        let (begin, c) = (sim.clock, config());
        sim.world.memory[1][..8].copy_from_slice(b"fetched!");
        sim.get(0, 1, 0, local(1 << 19), payload);
        sim.run();
        let asked = started() + ns(400) + ns(120) + NOTIFY;
        // The target's library asks the engine without a descriptor of a process.
        let back = pcie(64) + ns(40) + ns(25) + blocks(payload) + ns(120) + NOTIFY;
        assert_eq!(seen(&sim, 0, EventKind::Reply), [begin + asked + back + pcie(c.event_size.0)], "{payload} B");
        assert_eq!(&sim.world.memory[0][1 << 19..][..8], b"fetched!");
    }
}

/// The times between messages of 8 B.
fn gaps(carvnet: CarvnetConfig, count: usize) -> Vec<SimTime> {
    let mut sim = touched(2, carvnet);
    (0..count).for_each(|_| sim.put(0, 1, 0, 8, AckRequest::None));
    sim.run();
    let times = seen(&sim, 1, EventKind::Put);
    assert_eq!(times.len(), count);
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// D1.4 8.2: 25 M packets/s of a core of 100 MHz, a packet in four cycles.
#[test]
fn a_core_sends_25_million_messages_a_second() {
    assert!(gaps(Keys::defaults(), 200).iter().all(|&gap| gap == ns(40)));
    assert!(gaps(CarvnetConfig { stores: 8, ..Keys::defaults() }, 50).iter().all(|&gap| gap == ns(80)), "the core's stores");
    assert!(gaps(CarvnetConfig { segment: ns(90), ..Keys::defaults() }, 50).iter().all(|&gap| gap == ns(90)), "the engine");
}

#[test]
fn a_transfer_waits_for_a_context_of_its_source() {
    // Until the one before has been acknowledged.
    let circle = ns(40) + ns(25) + ns(400) + wire(8) + ns(120) + ns(40) + ns(400);
    let one = CarvnetConfig { source_contexts: 1, ..Keys::defaults() };
    assert!(gaps(one, 20).iter().all(|&gap| gap == circle));
    let two = gaps(CarvnetConfig { source_contexts: 2, ..one }, 20);
    assert!(two.windows(2).all(|pair| pair[0] + pair[1] == circle), "{two:?}");
    // A core that stores slowly waits for a channel, and the stores for the context before.
    let slow = CarvnetConfig { store: ns(50), channels: 1, ..one };
    assert!(gaps(slow, 20).iter().skip(1).all(|&gap| gap == circle), "one waits in the channel");
    let slower = CarvnetConfig { store: ns(500), channels: 1, ..one };
    assert!(gaps(slower, 20).iter().all(|&gap| gap == ns(2_000)), "the core's stores");
}

/// Two sources, one context: the target takes one transfer after the other, and tells the second source when it has a
/// context for it.
#[test]
fn a_transfer_waits_for_a_context_of_its_target() {
    let payload = 100_000;
    let mut sim = touched(3, CarvnetConfig { target_contexts: 1, ..Keys::defaults() });
    let begin = sim.clock;
    sim.put(0, 2, 0, payload, AckRequest::None);
    sim.clock += ns(1);
    sim.put(1, 2, 0, payload, AckRequest::None);
    sim.run();
    let first = begin + started() + pcie(64) + ns(25) + blocks(payload) + ns(120);
    let second = first + ns(400) + ns(40) + ns(25) + blocks(payload) + ns(120);
    let seen = seen(&sim, 2, EventKind::Put);
    assert_eq!(seen, [first, second].map(|written| written + NOTIFY + pcie(config().event_size.0)));
}

/// Whatever waits for what: each message once, those of one process to another in the order of the calls.
#[test]
fn transfers_that_were_held_keep_their_order() {
    let lengths = [8, 50_000, 0, 100, 20_000, 32, 0, 33, 8, 180_000, 8, 8, 8, 40, 1];
    for (contexts, channels) in [(1, 1), (1, 4), (2, 2), (3, 64)] {
        let carvnet = CarvnetConfig { target_contexts: contexts, channels, ..Keys::defaults() };
        let mut sim = touched(4, carvnet);
        for (place, &length) in lengths.iter().enumerate() {
            for from in 0..3 {
                sim.put(from, 3, 0, length, if place % 2 == 0 { AckRequest::Full } else { AckRequest::None });
            }
        }
        sim.run();
        let mut orders = [vec![], vec![], vec![]];
        for (.., notice) in sim.world.seen.iter().filter(|(_, of, _)| of.0 == 3) {
            if let Notice::Event { event, .. } = notice
                && event.kind == EventKind::Put
            {
                orders[event.initiator.node().expect("a node").index()].push(event.mlength);
            }
        }
        for from in 0..3 {
            let mut sorted = orders[from as usize].clone();
            sorted.sort_unstable();
            let mut all = lengths.to_vec();
            all.sort_unstable();
            assert_eq!(sorted, all, "every message once, from {from}");
            assert_eq!(seen(&sim, from, EventKind::Ack).len(), lengths.len().div_ceil(2));
        }
        assert_eq!(sim.nics.in_flight(), 0);
        // In which order they have matched.
        let matched: Vec<(u32, u64)> = sim.world.requests().map(|(_, transfer)| (transfer.source, transfer.payload.0)).collect();
        assert!(!matched.is_empty());
    }
}

#[test]
fn programs_see_the_same_events_and_memory_as_on_a_nic_that_matches() {
    let outcome = |carvnet: Option<CarvnetConfig>| {
        let mut sim = sim_of(2, carvnet);
        sim.take(1);
        puts_and_a_get(sim)
    };
    let hardware = outcome(None);
    assert!(outcome(Some(Keys::defaults())) == hardware, "software and hardware disagree");
    let one = CarvnetConfig { source_contexts: 1, target_contexts: 1, channels: 1, block: Bytes(4096), ..Keys::defaults() };
    assert!(outcome(Some(one)) == hardware, "software and hardware disagree");
}
