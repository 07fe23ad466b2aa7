//! APEnetX's card, below Portals in software: the closed form of each set of options, to the picosecond, and the same
//! outcome as on a NIC that matches.

use crate::common::*;
use narrows_keys::Keys;
use narrows_nic::{ApenetxConfig, Call, Completion, Descriptor};
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, SimTime};

/// Processes 0 and 1 on nodes of their own; 1 takes puts and gives gets.
fn sim(options: Option<ApenetxConfig>) -> Sim {
    let nic = options.map_or_else(|| config().into(), |options| apenetx(config(), options));
    let mut sim = Sim::ready(nic, 2, 1, 0);
    sim.append(1, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim.take(1);
    sim
}

/// All sets of options.
fn all() -> impl Iterator<Item = ApenetxConfig> {
    let calls = [Call::Ioctl, Call::User];
    calls.into_iter().flat_map(|call| {
        [Descriptor::Fetched, Descriptor::Posted].into_iter().flat_map(move |descriptor| {
            [0, 32].into_iter().flat_map(move |inline| {
                [Completion::Kernel, Completion::Remapped, Completion::Direct].into_iter().map(move |completion| ApenetxConfig {
                    call,
                    descriptor,
                    inline_limit: Bytes(inline),
                    completion,
                    ..Keys::defaults()
                })
            })
        })
    })
}

/// From the command in the card, or the kernel, to the message that the library there knows of. `read`: the payload
/// comes out of memory, and the library has asked for it.
fn way(options: &ApenetxConfig, payload: u64, read: bool) -> SimTime {
    let latency = config().pcie_latency;
    let mut time = options.engine_time + ns(400) + ByteRate(10_000_000_000).time_for(Bytes(payload)) + options.engine_time;
    if options.call == Call::Ioctl {
        time += ns(1_000);
    }
    if options.descriptor == Descriptor::Fetched {
        time += latency * 2 + config().pcie_rate.time_for(Bytes(64));
    }
    let inline = payload <= options.inline_limit.0;
    if read {
        time += pcie(64);
    }
    if !inline {
        time += latency + options.engine_time + ns(50);
    }
    time + match options.completion {
        Completion::Kernel => ns(1_000),
        Completion::Remapped => ns(100),
        Completion::Direct => ns(50),
    }
}

#[test]
fn a_put_takes_the_time_of_its_options() {
    let c = config();
    let mut sums = Vec::new();
    for options in all() {
        for payload in [0, 8, 32, 33, 4096, 100_000] {
            let mut sim = sim(Some(options));
            let begin = sim.clock;
            sim.put(0, 1, 0, payload, AckRequest::Full);
            sim.run();
            let there = pcie(c.command_size.0) + way(&options, payload, payload > options.inline_limit.0);
            let matched = there + c.match_base + c.match_per_entry;
            assert_eq!(seen(&sim, 1, EventKind::Put), [begin + matched + pcie(c.event_size.0)], "{options:?}, {payload} B");
            // The acknowledgement is a message of the library, with nothing in it.
            assert_eq!(seen(&sim, 0, EventKind::Ack), [begin + matched + way(&options, 0, false) + pcie(c.event_size.0)]);
            if payload == 32 {
                sums.push(matched);
            }
        }
    }
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(sums.len(), 24, "each option has a time of its own");
}

#[test]
fn the_memory_of_a_payload_is_free_when_the_card_has_it() {
    let c = config();
    for (payload, copied) in [(32, true), (4096, false)] {
        let options = ApenetxConfig { inline_limit: Bytes(32), ..Keys::defaults() };
        let mut sim = sim(Some(options));
        let begin = sim.clock;
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let there = pcie(c.command_size.0);
        let fetched = ns(1_000) + c.pcie_latency * 2 + c.pcie_rate.time_for(Bytes(64)) + pcie(64) + c.pcie_latency + ns(40);
        let read = if copied { SimTime::ZERO } else { fetched + ByteRate(10_000_000_000).time_for(Bytes(payload)) };
        assert_eq!(seen(&sim, 0, EventKind::Send), [begin + there + read + pcie(c.event_size.0)], "{payload} B");
    }
}

#[test]
fn a_get_comes_back_with_a_descriptor_of_its_own() {
    let c = config();
    for options in all() {
        for payload in [8, 4096] {
            let mut sim = sim(Some(options));
            let begin = sim.clock;
            sim.world.memory[1][..8].copy_from_slice(b"fetched!");
            sim.get(0, 1, 0, local(1 << 19), payload);
            sim.run();
            let matched = pcie(c.command_size.0) + way(&options, 0, false) + c.match_base + c.match_per_entry;
            // The target's library reads its memory, whatever its length.
            let back = way(&options, payload, true);
            assert_eq!(seen(&sim, 0, EventKind::Reply), [begin + matched + back + pcie(c.event_size.0)], "{options:?}");
            assert_eq!(&sim.world.memory[0][1 << 19..][..8], b"fetched!");
        }
    }
}

/// One process makes a call after the other, and the kernel sees to one completion after the other; without the kernel
/// the card's engine is what messages wait for.
#[test]
fn the_kernel_is_what_holds_messages_back() {
    let gap = |options: ApenetxConfig| {
        let mut sim = sim(Some(options));
        (0..8).for_each(|_| sim.put(0, 1, 0, 8, AckRequest::None));
        sim.run();
        let times = seen(&sim, 1, EventKind::Put);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == times[1] - times[0]), "{times:?}");
        times[1] - times[0]
    };
    let short = ApenetxConfig { inline_limit: Bytes(32), ..Keys::defaults() };
    assert_eq!(gap(short), ns(1_000));
    assert_eq!(gap(ApenetxConfig { call: Call::User, ..short }), ns(1_000));
    assert_eq!(gap(ApenetxConfig { call: Call::User, completion: Completion::Direct, ..short }), ns(40));
    let long = ApenetxConfig { call: Call::User, completion: Completion::Direct, ..Keys::defaults() };
    assert_eq!(gap(long), ns(80), "the receiving engine writes twice");
}

/// What a library answers takes the kernel of its own process, as what the process sends does: a process that answers
/// everybody is not ahead of its own acknowledgements.
#[test]
fn acknowledgements_take_the_calls_of_their_process() {
    let short = ApenetxConfig { inline_limit: Bytes(32), completion: Completion::Direct, ..Keys::defaults() };
    let mut sim = Sim::ready(apenetx(config(), short), 2, 2, 0);
    for process in 0..4 {
        sim.append(process, MatchEntry { options: me::OP_PUT, ..entry(0, 0, 1 << 19) });
    }
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim.world.seen.clear();
    // Processes 2 and 3 of the other node acknowledge four messages each, side by side.
    for to in [2, 3] {
        (0..4).for_each(|_| sim.put(to - 2, to, 0, 8, AckRequest::Full));
    }
    sim.run();
    for process in [0, 1] {
        let times = seen(&sim, process, EventKind::Ack);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == ns(1_000)), "process {process}: {times:?}");
    }
}

/// What the end-to-end layer says comes from card to card: a message that comes just behind it does not wait for the
/// kernel.
#[test]
fn an_end_to_end_acknowledgement_takes_no_kernel() {
    let c = config();
    let options = Keys::defaults();
    let mut sim = sim(Some(options));
    sim.append(0, MatchEntry { options: me::OP_PUT, ..entry(0, 0, 1 << 19) });
    sim.run();
    let begin = sim.clock;
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.clock += ns(600);
    sim.put(1, 0, 0, 8, AckRequest::None);
    sim.run();
    let time = pcie(c.command_size.0) + way(&options, 8, true) + c.match_base + c.match_per_entry + pcie(c.event_size.0);
    assert_eq!(seen(&sim, 1, EventKind::Put), [begin + time]);
    assert_eq!(seen(&sim, 0, EventKind::Put), [begin + ns(600) + time]);
}

#[test]
fn programs_see_the_same_events_and_memory_as_on_a_nic_that_matches() {
    let outcome = |options: Option<ApenetxConfig>| puts_and_a_get(sim(options));
    let hardware = outcome(None);
    for options in all() {
        assert!(outcome(Some(options)) == hardware, "software and hardware disagree: {options:?}");
    }
}
