//! Closed forms: each latency is the sum of documented stages (see `NicConfig`).

use crate::common::*;
use narrows_fabric::Transfer;
use narrows_nic::{NicConfig, Transmit};
use narrows_portals::*;
use narrows_units::{ByteRate, SimTime};

/// The network of these tests: 400 ns and 10 GB/s.
const NETWORK_NS: u64 = 400;

struct Stages {
    config: NicConfig,
    wire: ByteRate,
}

impl Stages {
    fn pcie(&self, bytes: u64) -> SimTime {
        self.config.pcie_latency + self.config.pcie_rate.time_for(narrows_units::Bytes(bytes))
    }
    fn command(&self) -> SimTime {
        self.pcie(self.config.command_size.get())
    }
    fn event(&self) -> SimTime {
        self.pcie(self.config.event_size.get())
    }
    fn count(&self) -> SimTime {
        self.pcie(self.config.count_size.get())
    }
    fn network(&self, payload: u64) -> SimTime {
        ns(NETWORK_NS) + time_for(self.wire, payload)
    }
    fn matching(&self, visited: u64) -> SimTime {
        self.config.match_base + self.config.match_per_entry * visited
    }
    /// A message arrives and is matched: the header is matched while the payload follows.
    fn arrival(&self, payload: u64, visited: u64) -> SimTime {
        ns(NETWORK_NS) + self.matching(visited).max(time_for(self.wire, payload))
    }
    fn read(&self) -> SimTime {
        self.pcie(64) + self.config.dma_latency
    }
}

fn stages(sim: &Sim) -> Stages {
    Stages { config: sim.nics.config().clone(), wire: sim.world.rate }
}

fn sim() -> Sim {
    let mut sim = Sim::ready(config(), 2, 2, 0);
    sim.append(2, entry(0, 0, 1 << 19));
    sim.run();
    sim.clock += SimTime::from_us(10);
    sim
}

/// When `process` saw an event of `kind` after `begin`.
fn seen(sim: &Sim, process: u32, kind: EventKind, begin: SimTime) -> SimTime {
    let at = sim.world.seen.iter().rev().find_map(|(at, of, notice)| match notice {
        Notice::Event { event, .. } if of.0 == process && event.kind == kind => Some(*at),
        _ => None,
    });
    at.expect("the event comes") - begin
}

#[test]
fn an_idle_put_of_8_bytes_is_the_sum_of_the_documented_stages() {
    let mut sim = sim();
    let begin = sim.clock;
    sim.put(0, 2, 0, 8, AckRequest::Full);
    sim.run();
    let s = stages(&sim);
    let target = s.command() + s.arrival(8, 1) + s.event();
    // command, links, matching (longer than 8 bytes on the wire), event behind the payload;
    // each rounded up to a picosecond
    assert_eq!(seen(&sim, 2, EventKind::Put, begin), target);
    assert_eq!(target.as_ps(), 304_064 + 400_000 + 2_000 + 306_096);
    // SEND as soon as the NIC has the command; ACK when the data have gone to PCIe.
    assert_eq!(seen(&sim, 0, EventKind::Send, begin), s.command() + s.event());
    let ack = s.command() + s.arrival(8, 1) + s.network(32) + s.event();
    assert_eq!(seen(&sim, 0, EventKind::Ack, begin), ack);
}

/// Who looks at its memory finds the data when they have crossed PCIe, before the event; but an atomic behind them.
#[test]
fn data_are_in_memory_when_they_are_through_pcie() {
    let mut sim = sim();
    let begin = sim.clock;
    sim.fill(0, 0, 8, 3);
    sim.put(0, 2, 0, 8, AckRequest::None);
    let s = stages(&sim);
    let there = begin + s.command() + s.arrival(8, 1) + s.config.pcie_latency;
    sim.run_until(there - SimTime(1));
    assert_eq!(sim.world.memory[2][..8], [0; 8]);
    sim.run_until(there);
    sim.check(2, 0, 8, 3);
    assert!(!sim.world.seen.iter().any(|(_, of, notice)| of.0 == 2 && matches!(notice, Notice::Event { .. })));
    sim.check_idle();
}

#[test]
fn a_put_of_0_bytes_writes_no_payload() {
    let mut sim = sim();
    let begin = sim.clock;
    sim.put(0, 2, 0, 0, AckRequest::None);
    sim.run();
    let s = stages(&sim);
    assert_eq!(seen(&sim, 2, EventKind::Put, begin), s.command() + s.arrival(0, 1) + s.event());
}

#[test]
fn the_event_of_a_put_of_0_bytes_does_not_pass_the_data_of_the_put_before_it() {
    let mut sim = Sim::ready(NicConfig { put_occupancy: SimTime::ZERO, ..config() }, 2, 1, 0);
    sim.append(1, entry(0, 0, 1 << 19));
    sim.run();
    sim.clock += SimTime::from_us(10);
    let begin = sim.clock;
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.put(0, 1, 0, 0, AckRequest::None);
    sim.run();
    // Matched while the first event takes PCIe, then one event after the other.
    let s = stages(&sim);
    let data = s.command() + s.arrival(8, 1);
    let second = s.event() + s.config.pcie_rate.time_for(s.config.event_size);
    assert_eq!(seen(&sim, 1, EventKind::Put, begin), data + second);
    let lengths: Vec<u64> = sim.events(1).iter().filter(|event| event.kind == EventKind::Put).map(|event| event.rlength).collect();
    assert_eq!(lengths, [8, 0]);
}

#[test]
fn bytes_behind_the_command_take_pcie_time() {
    let mut sim = sim();
    for length in [8u64, 9, 200, 408] {
        let begin = sim.clock;
        let target = sim.target(2, 0);
        let inline = Some(vec![1; length as usize].into_boxed_slice());
        sim.command(0, Command::Put { local: local(0), length, inline, ack: AckRequest::None, target, hdr_data: 0 });
        sim.run();
        let s = stages(&sim);
        let command = s.command() + time_for(s.config.pcie_rate, length - 8);
        let target = command + s.arrival(length, 1) + s.event();
        assert_eq!(seen(&sim, 2, EventKind::Put, begin), target, "{length} bytes");
        assert_eq!(seen(&sim, 0, EventKind::Send, begin), command + s.event(), "{length} bytes");
        sim.clock += SimTime::from_us(5);
    }
}

#[test]
fn a_longer_put_is_read_by_dma_first() {
    let mut sim = sim();
    for length in [9u64, 64, 65, 4096, 100_000] {
        let begin = sim.clock;
        sim.put(0, 2, 0, length, AckRequest::None);
        sim.run();
        let s = stages(&sim);
        let start = s.command() + s.read();
        let target = start + s.arrival(length, 1) + s.event();
        assert_eq!(seen(&sim, 2, EventKind::Put, begin), target, "{length} bytes");
        // Buffered: SEND when the payload is in the NIC; else when its last byte left the memory.
        let left = if length <= 64 { start } else { start + time_for(s.wire, length) };
        assert_eq!(seen(&sim, 0, EventKind::Send, begin), left + s.event(), "{length} bytes");
        assert!(sim.world.requests().last().is_some_and(|(_, t)| t.source_dma && t.target_dma && t.payload.get() == length));
        sim.clock += SimTime::from_us(5);
    }
}

#[test]
fn what_the_library_took_but_is_longer_than_pio_is_read_by_dma() {
    let mut sim = sim();
    let begin = sim.clock;
    let target = sim.target(2, 0);
    let inline = Some(vec![7; 409].into_boxed_slice());
    sim.command(0, Command::Put { local: local(0), length: 409, inline, ack: AckRequest::None, target, hdr_data: 0 });
    sim.run();
    let s = stages(&sim);
    let expected = s.command() + s.read() + s.arrival(409, 1) + s.event();
    assert_eq!(seen(&sim, 2, EventKind::Put, begin), expected);
    assert_eq!(sim.world.memory[2][..409], [7; 409]);
}

/// Around every threshold: what a command has room for, what PIO takes (of volatile descriptors, whose bytes the
/// library takes), and DMA for the rest. Without match bits there is room for 8 bytes more.
#[test]
fn volatile_or_not_a_put_is_the_sum_of_its_stages_on_both_kinds_of_interfaces() {
    for (pt, inside, pio) in [(PT, 8, 408), (PT_PER_INTERFACE + PT, 16, 416)] {
        let mut sim = sim();
        if pt != PT {
            sim.command(2, Command::PtAlloc { pt, options: 0, eq: EQ });
            sim.command(2, Command::MeAppend { entry: EntryId(1 << 20), pt, list: List::Priority, me: entry(0, 0, 1 << 19) });
        }
        for volatile in [false, true] {
            for length in [0, 1, inside - 1, inside, inside + 1, 64, 65, pio - 1, pio, pio + 1, 4096] {
                sim.run();
                sim.clock += SimTime::from_us(10);
                let begin = sim.clock;
                let inline = (volatile && length > 0).then(|| vec![1; length as usize].into_boxed_slice());
                let target = RemoteTarget { pt, ..sim.target(2, 0) };
                sim.command(0, Command::Put { local: local(0), length, inline, ack: AckRequest::Full, target, hdr_data: 0 });
                sim.run();
                let s = stages(&sim);
                let start = s.command()
                    + match () {
                        () if length <= inside => SimTime::ZERO,
                        () if volatile && length <= pio => time_for(s.config.pcie_rate, length - inside),
                        () => s.read(),
                    };
                let what = format!("{length} B on entry {pt}, volatile: {volatile}");
                let matched = start + s.arrival(length, 1);
                assert_eq!(seen(&sim, 2, EventKind::Put, begin), matched + s.event(), "{what}: PUT");
                assert_eq!(seen(&sim, 0, EventKind::Ack, begin), matched + s.network(32) + s.event(), "{what}: ACK");
            }
        }
    }
}

#[test]
fn a_get_is_request_read_response_write_reply() {
    let mut sim = sim();
    for length in [1u64, 8, 5000] {
        let begin = sim.clock;
        sim.get(0, 2, 0, local(1 << 19), length);
        sim.run();
        let s = stages(&sim);
        let response = s.command() + s.arrival(0, 1) + s.read();
        assert_eq!(seen(&sim, 2, EventKind::Get, begin), response + time_for(s.wire, length) + s.event(), "{length} bytes");
        let reply = response + s.network(length) + s.config.dma_latency + s.event();
        assert_eq!(seen(&sim, 0, EventKind::Reply, begin), reply, "{length} bytes");
        sim.clock += SimTime::from_us(5);
    }
    let begin = sim.clock;
    sim.get(0, 2, 0, local(0), 0);
    sim.run();
    let s = stages(&sim);
    let reply = s.command() + s.arrival(0, 1) + s.network(0) + s.event();
    assert_eq!(seen(&sim, 0, EventKind::Reply, begin), reply, "nothing to read, nothing to write");
}

#[test]
fn matching_time_grows_with_the_place_in_the_list() {
    let mut sim = Sim::ready(config(), 2, 1, 0);
    for bits in 0..100 {
        sim.append(1, entry(bits, 0, 64));
    }
    sim.run();
    let mut at = Vec::new();
    for bits in [0, 9, 99] {
        sim.clock += SimTime::from_us(10);
        let begin = sim.clock;
        sim.put(0, 1, bits, 8, AckRequest::None);
        sim.run();
        at.push(seen(&sim, 1, EventKind::Put, begin));
    }
    let per_entry = sim.nics.config().match_per_entry;
    assert_eq!([at[1] - at[0], at[2] - at[1]], [per_entry * 9, per_entry * 90]);
}

/// The simulator walks a list only while walks are short: `list.rs`. A thousand entries are hashed after 72 finds of
/// the last.
#[test]
fn matching_time_does_not_know_how_the_simulator_finds_the_entry() {
    let mut sim = Sim::ready(config(), 2, 1, 0);
    for bits in 0..1000 {
        sim.append(1, entry(bits, 0, 64));
    }
    sim.run();
    let expected = {
        let s = stages(&sim);
        s.command() + s.arrival(0, 1000) + s.event()
    };
    for number in 0..200 {
        sim.clock += SimTime::from_us(10);
        let begin = sim.clock;
        sim.put(0, 1, 999, 0, AckRequest::None);
        sim.run();
        assert_eq!(seen(&sim, 1, EventKind::Put, begin), expected, "put {number}");
    }
}

#[test]
fn counting_events_are_cheaper_than_full_events() {
    let mut sim = Sim::ready(config(), 2, 1, 0);
    sim.append(1, MatchEntry { ct: CT, ..entry_with(0, 0, 64, me::EVENT_CT_COMM | me::EVENT_COMM_DISABLE) });
    sim.run();
    let begin = sim.clock + SimTime::from_us(1);
    sim.clock = begin;
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.run();
    let s = stages(&sim);
    let at = sim.world.seen.iter().rev().find(|(_, process, _)| process.0 == 1).map(|(at, _, _)| *at - begin);
    assert_eq!(at, Some(s.command() + s.arrival(8, 1) + s.count()));
}

#[test]
fn occupancy_limits_the_message_rate_of_a_node_and_not_the_latency() {
    let mut sim = sim();
    let begin = sim.clock;
    let messages = 100;
    for i in 0..messages {
        sim.put(i % 2, 2, 0, 8, AckRequest::None); // two processes, one NIC
    }
    sim.run();
    let starts: Vec<SimTime> = sim.world.requests().filter(|(at, _)| *at >= begin).map(|(at, _)| *at).collect();
    assert_eq!(starts.len(), messages as usize);
    assert_eq!(starts[0] - begin, sim.nics.lookahead(), "the first finds an idle pipeline");
    let gaps: Vec<SimTime> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|&gap| gap == sim.nics.config().put_occupancy), "{gaps:?}");
}

#[test]
fn responses_have_a_pipeline_of_their_own() {
    let mut sim = Sim::ready(NicConfig { put_occupancy: ns(200), ..config() }, 3, 1, 0);
    for process in 0..3 {
        sim.append(process, entry(0, 0, 64));
    }
    sim.run();
    sim.world.transfers.clear();
    for _ in 0..50 {
        sim.put(0, 1, 0, 8, AckRequest::None);
    }
    sim.get(2, 0, 0, local(0), 8);
    sim.run();
    let response = sim.world.transfers.iter().position(|(_, t)| t.virtual_network == 1).expect("the get is answered");
    assert!(response < 20, "the response does not wait for 50 puts: it was transfer {response}");
}

/// A get has the pipeline until the second put is in the NIC, and puts take none of its time: the first one, which has
/// waited for the pipeline, is before the second one, whose command is there at the same time.
#[test]
fn a_put_does_not_pass_one_that_the_pipeline_takes_at_the_same_time() {
    let command = stages(&sim()).command() - config().pcie_latency;
    let mut sim = Sim::ready(NicConfig { put_occupancy: SimTime::ZERO, get_occupancy: command * 2, ..config() }, 2, 1, 0);
    sim.append(1, entry(0, 0, 4096));
    sim.run();
    sim.world.transfers.clear();
    sim.get(0, 1, 0, local(0), 4);
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.put(0, 1, 0, 16, AckRequest::None);
    sim.run();
    let puts: Vec<u64> = sim.world.requests().map(|(_, transfer)| transfer.payload.0).collect();
    assert_eq!(puts, [0, 8, 16]);
    sim.check_idle();
}

#[test]
fn nothing_happens_before_the_lookahead() {
    let mut sim = sim();
    let begin = sim.clock;
    let entry_id = sim.append(0, MatchEntry { options: me::OP_PUT, ..Default::default() });
    sim.put(0, 2, 0, 8, AckRequest::None);
    sim.command(0, Command::MeUnlink { entry: entry_id, ticket: 9 });
    sim.command(0, Command::CtIncrement { ct: CT, success: 1, failure: 0 });
    assert_eq!(sim.world.queue.next_time(), Some(begin + sim.nics.lookahead()));
    assert!(sim.nics.lookahead() >= sim.nics.config().pcie_latency);
    let before = sim.world.seen.len();
    sim.run();
    let s = stages(&sim);
    assert_eq!(sim.world.seen[before].0, begin + s.command() + s.event(), "LINK: a round trip over PCIe");
}

#[test]
fn requests_beyond_the_end_to_end_window_wait() {
    let limit = 4;
    let mut sim = Sim::ready(NicConfig { max_outstanding: limit, put_occupancy: SimTime::ZERO, ..config() }, 2, 1, 0);
    sim.append(1, entry(0, 0, 64));
    sim.run();
    sim.world.transfers.clear();
    for _ in 0..10 {
        sim.put(0, 1, 0, 8, AckRequest::None);
    }
    let mut most = 0;
    while sim.step() {
        let now = sim.world.queue.now();
        let under_way = sim.world.requests().filter(|(at, _)| *at + ns(NETWORK_NS) > now).count();
        most = most.max(under_way);
    }
    assert_eq!(most as u32, limit);
    assert_eq!(sim.kinds(1).len(), 10, "all arrive in the end");
    sim.check_idle();
}

/// A window of one message: the next one starts when the acknowledgement of the last is back, which has the size and
/// the way of a packet.
#[test]
fn the_end_to_end_acknowledgement_takes_its_way() {
    let mut sim = Sim::ready(NicConfig { max_outstanding: 1, put_occupancy: SimTime::ZERO, ..config() }, 2, 1, 0);
    sim.world.latency = ns(2_000);
    sim.append(1, entry(0, 0, 64));
    sim.run();
    let (wire, ack) = (sim.world.rate, sim.nics.config().ack_size.get());
    let answers: [(AckRequest, u64); 2] = [
        // Network, 8 bytes behind the header, network, the 32 bytes.
        (AckRequest::None, 2 * ns(2_000).as_ps() + time_for(wire, 8).as_ps() + time_for(wire, ack).as_ps()),
        // The ACK of Portals is the acknowledgement, and leaves when the put has matched.
        (AckRequest::Full, {
            let landed = sim.nics.config().match_per_entry.max(time_for(wire, 8));
            2 * ns(2_000).as_ps() + landed.as_ps() + time_for(wire, ack).as_ps()
        }),
    ];
    for (ack, expected) in answers {
        sim.world.transfers.clear();
        for _ in 0..4 {
            sim.put(0, 1, 0, 8, ack);
        }
        sim.run();
        let starts: Vec<SimTime> = sim.world.requests().map(|(at, _)| *at).collect();
        assert_eq!(starts.len(), 4);
        let gaps: Vec<u64> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_ps()).collect();
        assert_eq!(gaps, [expected; 3], "{ack:?}");
    }
    sim.check_idle();
}

/// Gets, too: their window was without limit as long as a request's arrival freed its place.
#[test]
fn a_get_keeps_its_place_in_the_window_until_its_data_are_back() {
    let mut sim = Sim::ready(NicConfig { max_outstanding: 2, ..config() }, 2, 1, 0);
    sim.append(1, entry(0, 0, 4096));
    sim.run();
    sim.world.transfers.clear();
    for number in 0..6 {
        sim.get(0, 1, 0, local(number * 4096), 4096);
    }
    let mut most = 0;
    while sim.step() {
        let count = |vn: u8| sim.world.transfers.iter().filter(|(_, t)| t.virtual_network == vn).count();
        most = most.max(count(0) - count(1));
    }
    assert_eq!(most, 2);
    sim.check_idle();
}

/// Requests of three processes of a node to two nodes of three processes each, all at once: how many are on the way to
/// one of the nodes, at most.
fn most_in_flight(limits: NicConfig, get: bool) -> usize {
    let mut sim = Sim::ready(NicConfig { put_occupancy: SimTime::ZERO, get_occupancy: SimTime::ZERO, ..limits }, 3, 3, 0);
    for process in 3..9 {
        sim.append(process, entry(0, 0, 4096));
    }
    sim.run();
    sim.world.transfers.clear();
    for number in 0..8u64 {
        for (from, to) in (0..3).flat_map(|from| (3..9).map(move |to| (from, to))) {
            match get {
                true => sim.get(from, to, 0, local(number * 64), 64),
                false => sim.put_from(from, to, 0, local(0), 8, AckRequest::Full, number),
            }
        }
    }
    let mut most = 0;
    while sim.step() {
        let count = |vn: u8, near: fn(&Transfer) -> u32| {
            sim.world.transfers.iter().filter(|(_, t)| t.virtual_network == vn && near(t) == 1).count()
        };
        most = most.max(count(0, |t| t.target) - count(1, |t| t.source));
    }
    for target in 3..9 {
        let kind = if get { EventKind::Get } else { EventKind::Put };
        let events = sim.events(target);
        assert_eq!(events.iter().filter(|event| event.kind == kind).count(), 24, "all arrive in the end");
        // Of one process in the order in which they were issued.
        for pid in 1..4 {
            let of_one = events.iter().filter(|event| event.kind == EventKind::Put && event.initiator.pid == pid);
            assert!(of_one.map(|event| event.hdr_data).is_sorted());
        }
    }
    sim.check_idle();
    most
}

#[test]
fn requests_to_one_node_or_process_are_limited_until_they_are_answered() {
    for get in [false, true] {
        let node = most_in_flight(config(), get);
        assert!(node > 20, "without limits many are on the way: {node}");
        let node = most_in_flight(NicConfig { max_in_flight_to_node: 2, ..config() }, get);
        assert_eq!(node, 2, "two to a node, get: {get}");
        let node = most_in_flight(NicConfig { max_in_flight_to_process: 1, ..config() }, get);
        assert_eq!(node, 9, "one from each of three processes to each of three, get: {get}");
        let both = NicConfig { max_in_flight_to_node: 4, max_in_flight_to_process: 1, max_outstanding: 6, ..config() };
        assert!(most_in_flight(both, get) <= 4);
    }
}

/// S4BXI's NIC: the next message's turn comes when all of a payload was read.
#[test]
fn one_by_one_a_message_keeps_the_pipeline_until_it_was_read() {
    for (transmit, length) in [(Transmit::InOrder, 8), (Transmit::OneByOne, 8), (Transmit::InOrder, 5000), (Transmit::OneByOne, 5000)] {
        let mut sim = Sim::ready(NicConfig { transmit, ..config() }, 2, 1, 0);
        sim.append(1, entry(0, 0, 1 << 19));
        sim.run();
        sim.world.transfers.clear();
        for _ in 0..5 {
            sim.put_from(0, 1, 0, LocalBuffer { options: md::EVENT_SEND_DISABLE, ..local(0) }, length, AckRequest::None, 0);
        }
        sim.run();
        let starts: Vec<SimTime> = sim.world.requests().map(|(at, _)| *at).collect();
        let s = stages(&sim);
        // The network of these tests reads at its own rate.
        let held = match (transmit, length) {
            (Transmit::OneByOne, 5000) => s.read() + time_for(s.wire, length),
            _ => s.config.put_occupancy.max(time_for(s.config.pcie_rate, 64)),
        };
        assert_eq!(starts.len(), 5);
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == held), "{transmit:?}, {length} B: {held} apart, not {starts:?}");
        sim.check_idle();
    }
}

/// Gets are answered one by one, too, and acknowledgements in between.
#[test]
fn one_by_one_everything_arrives() {
    let mut sim = Sim::ready(NicConfig { transmit: Transmit::OneByOne, ..config() }, 2, 2, 0);
    for process in 0..4 {
        sim.append(process, entry(0, 0, 1 << 19));
    }
    sim.run();
    for round in 0..20 {
        for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 0)] {
            sim.put(from, to, 0, 100 * round, AckRequest::Full);
            sim.get(from, to, 0, local(1 << 18), 50 * round);
        }
    }
    sim.run();
    let replies: usize = (0..4).map(|process| sim.events(process).iter().filter(|event| event.kind == EventKind::Reply).count()).sum();
    assert_eq!(replies, 80);
    sim.check_idle();
}

#[test]
fn a_short_put_does_not_overtake_a_long_one_to_the_same_process_but_may_to_another() {
    let mut sim = Sim::ready(NicConfig { put_occupancy: ns(10), ..config() }, 3, 1, 0);
    for process in [1, 2] {
        sim.append(process, entry(0, 0, 4096));
    }
    sim.run();
    sim.world.transfers.clear();
    sim.put(0, 1, 0, 4096, AckRequest::None);
    sim.put(0, 1, 0, 8, AckRequest::None);
    sim.put(0, 2, 0, 8, AckRequest::None);
    sim.run();
    let order: Vec<(u32, u64)> = sim.world.requests().map(|(_, t)| (t.target, t.payload.get())).collect();
    assert_eq!(order, [(2, 8), (1, 4096), (1, 8)]);
}

#[test]
fn a_network_that_says_source_done_last_changes_no_result() {
    let mut sim = sim();
    sim.world.late_source = true;
    sim.fill(0, 0, 5000, 1);
    for _ in 0..3 {
        sim.put(0, 2, 0, 5000, AckRequest::Full);
        sim.put(0, 2, 0, 8, AckRequest::None);
        sim.get(1, 2, 0, local(1 << 19), 5000);
    }
    sim.run();
    sim.check(2, 0, 5000, 1);
    assert_eq!(sim.world.memory[2][..5000], sim.world.memory[1][1 << 19..(1 << 19) + 5000]);
    assert_eq!(sim.events(0).iter().filter(|e| e.kind == EventKind::Ack).count(), 3);
    sim.check_idle();
}

/// An atomic needs 200 ns more than a put to be in memory.
#[test]
fn short_writes_of_one_process_to_another_keep_their_order_where_that_is_promised() {
    let last = |waw: u64, length: u64| {
        let mut sim = Sim::ready(
            NicConfig { limits: NiLimits { max_waw_ordered_size: narrows_units::Bytes(waw), ..NiLimits::BXI_V2 }, ..config() },
            2,
            1,
            0,
        );
        sim.append(1, entry(0, 4096, 64));
        sim.run();
        sim.fill(0, 0, 64, 1);
        let (first, second) = (sim.world.memory[0][..8].to_vec(), sim.world.memory[0][8..16].to_vec());
        let target = sim.target(1, 0);
        let atomic = Atomic {
            local: local(0),
            fetched: None,
            length,
            inline: None,
            ack: AckRequest::None,
            target,
            hdr_data: 0,
            operation: AtomicOperation::BitOr,
            datatype: Datatype::Uint64,
            operand: [0; 32],
        };
        sim.command(0, Command::Atomic(Box::new(atomic)));
        sim.put_from(0, 1, 0, local(8), length, AckRequest::None, 0);
        sim.run();
        let or: Vec<u8> = first.iter().zip(&second).map(|(a, b)| a | b).collect();
        let there = &sim.world.memory[1][4096..4104];
        assert!(there == second || there == or);
        there == second
    };
    assert!(last(8, 8), "the put comes last");
    assert!(!last(0, 8), "not promised: the atomic comes last");
    assert!(!last(8, 16), "too long");
}
