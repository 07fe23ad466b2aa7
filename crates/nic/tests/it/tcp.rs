//! TCP over Ethernet, below Portals in software: closed forms, and the same outcome as on a NIC that matches.

use crate::common::*;
use narrows_portals::*;
use narrows_units::{ByteRate, Bytes, SimTime};

const MESSAGE: SimTime = SimTime::from_us(2);

/// Processes 0 and 1 on nodes of their own; 1 takes puts and gives gets.
fn sim(software: bool) -> Sim {
    let mut sim = Sim::ready(if software { tcp(config(), 4096) } else { config().into() }, 2, 1, 0);
    sim.append(1, MatchEntry { options: me::OP_PUT | me::OP_GET, ..entry(0, 0, 1 << 19) });
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim.take(1);
    sim
}

fn first(sim: &Sim, process: u32, kind: EventKind) -> SimTime {
    *seen(sim, process, kind).first().expect("the event comes")
}

/// A segment at a core.
fn core(payload: u64) -> SimTime {
    ns(300) + ByteRate(5_000_000_000).time_for(Bytes(payload))
}

/// A segment over the network: 400 ns and 10 GB/s.
fn wire(payload: u64) -> SimTime {
    ns(400) + ByteRate(10_000_000_000).time_for(Bytes(payload))
}

#[test]
fn segments_pass_both_cores_one_behind_the_other() {
    // The cores are slower than the network: while a core is at a segment the one before is on its way.
    for segments in [1, 2, 20] {
        let mut sim = sim(true);
        let (begin, c) = (sim.clock, sim.nics.config().clone());
        let pcie = |size: Bytes| c.pcie_latency + c.pcie_rate.time_for(size);
        sim.put(0, 1, 0, segments * 4096, AckRequest::Full);
        sim.run();
        let sent = pcie(c.command_size) + MESSAGE + core(4096) * segments;
        let matched = sent + wire(4096) + core(4096) + MESSAGE + c.match_base + c.match_per_entry;
        assert_eq!(first(&sim, 1, EventKind::Put) - begin, matched + pcie(c.event_size));
        // What was asked for is a message of the library.
        let answer = MESSAGE + core(0) + wire(0) + core(0) + MESSAGE;
        assert_eq!(first(&sim, 0, EventKind::Ack) - begin, matched + answer + pcie(c.event_size));
    }
}

#[test]
fn a_short_message_takes_the_time_of_its_bytes() {
    for payload in [0, 1, 100, 4095] {
        let mut sim = sim(true);
        let (begin, c) = (sim.clock, sim.nics.config().clone());
        let pcie = |size: Bytes| c.pcie_latency + c.pcie_rate.time_for(size);
        sim.put(0, 1, 0, payload, AckRequest::None);
        sim.run();
        let way = MESSAGE + core(payload) + wire(payload) + core(payload) + MESSAGE;
        let matched = pcie(c.command_size) + way + c.match_base + c.match_per_entry;
        assert_eq!(first(&sim, 1, EventKind::Put) - begin, matched + pcie(c.event_size));
    }
}

#[test]
fn programs_see_the_same_events_and_memory_as_on_a_nic_that_matches() {
    let outcome = |software| puts_and_a_get(sim(software));
    assert!(outcome(true) == outcome(false), "software and hardware disagree");
}
