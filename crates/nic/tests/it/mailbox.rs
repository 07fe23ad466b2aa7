//! A NIC that stores and forwards, below Portals in software: closed forms, and the same outcome as on a NIC that
//! matches.

use crate::common::*;
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, SimTime};

/// Processes 0 and 1 on nodes of their own; 1 takes puts and gives gets.
fn sim(software: bool) -> Sim {
    let mut sim = Sim::ready(if software { mailbox(config()) } else { config().into() }, 2, 1, 0);
    sim.append(1, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim.take(1);
    sim
}

fn first(sim: &Sim, process: u32, kind: EventKind) -> SimTime {
    *seen(sim, process, kind).first().expect("the event comes")
}

/// Written into the mailbox, over the network (400 ns and 10 GB/s), read from the other one.
fn way(payload: u64) -> SimTime {
    let host = ByteRate(5_000_000_000).time_for(Bytes(100 + payload));
    host + ns(400) + ByteRate(10_000_000_000).time_for(Bytes(payload)) + host
}

#[test]
fn a_put_is_stored_forwarded_and_matched_when_all_of_it_is_there() {
    for payload in [8, 4096, 100_000] {
        let mut sim = sim(true);
        let (begin, c) = (sim.clock, sim.nics.config().clone());
        sim.put(0, 1, 0, payload, AckRequest::Full);
        sim.run();
        let pcie = |size: Bytes| c.pcie_latency + c.pcie_rate.time_for(size);
        let matched = pcie(c.command_size) + way(payload) + c.match_base + c.match_per_entry;
        assert_eq!(first(&sim, 1, EventKind::Put) - begin, matched + pcie(c.event_size));
        // Copied when the command is there; the acknowledgement is a message without payload.
        assert_eq!(first(&sim, 0, EventKind::Send) - begin, pcie(c.command_size) + pcie(c.event_size));
        assert_eq!(first(&sim, 0, EventKind::Ack) - begin, matched + way(0) + pcie(c.event_size));
    }
}

#[test]
fn a_get_comes_back_through_the_mailboxes() {
    let payload = 4096;
    let mut sim = sim(true);
    let (begin, c) = (sim.clock, sim.nics.config().clone());
    sim.world.memory[1][..8].copy_from_slice(b"fetched!");
    sim.get(0, 1, 0, local(1 << 19), payload);
    sim.run();
    let pcie = |size: u64| c.pcie_latency + c.pcie_rate.time_for(Bytes(size));
    // The target's library reads its memory over PCIe, as it is told to by nobody's command.
    let read = pcie(64);
    let there = pcie(c.command_size.get()) + way(0) + c.match_base + c.match_per_entry + read;
    assert_eq!(first(&sim, 0, EventKind::Reply) - begin, there + way(payload) + pcie(c.event_size.get()));
    assert_eq!(&sim.world.memory[0][1 << 19..][..8], b"fetched!");
}

#[test]
fn messages_of_a_node_go_one_behind_the_other() {
    let mut sim = sim(true);
    let payload = 50_000;
    for _ in 0..4 {
        sim.put(0, 1, 0, payload, AckRequest::None);
    }
    sim.run();
    let times: Vec<SimTime> = sim.world.requests().map(|(at, _)| *at).collect();
    let stored = ByteRate(5_000_000_000).time_for(Bytes(100 + payload));
    assert_eq!(times.len(), 4);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] == stored), "{times:?}");
}

#[test]
fn programs_see_the_same_events_and_memory_as_on_a_nic_that_matches() {
    let outcome = |software| {
        let mut sim = sim(software);
        sim.command(0, Command::CtSet { ct: CT, success: 0, failure: 0 });
        for (bits, length) in [(0, 8), (0, 70_000), (0, 0), (9, 300)] {
            sim.world.memory[0][..length as usize].fill(length as u8);
            sim.put(0, 1, bits, length, AckRequest::Full);
            sim.run();
        }
        let fetched = LocalBuffer { address: 1 << 18, ..local(0) };
        let target = sim.target(1, 0);
        sim.command(
            0,
            Command::Atomic(Box::new(Atomic {
                local: local(0),
                fetched: Some(fetched),
                length: 8,
                inline: None,
                ack: AckRequest::None,
                target,
                hdr_data: 0,
                operation: AtomicOperation::Sum,
                datatype: Datatype::Uint64,
                operand: [0; 32],
            })),
        );
        sim.run();
        sim.get(0, 1, 0, local(1 << 19), 1000);
        sim.run();
        let events: Vec<String> = [0, 1].map(|process| format!("{:?}", sim.events(process))).into();
        (events, sim.world.memory)
    };
    assert!(outcome(true) == outcome(false), "software and hardware disagree");
}
