//! What is before simulated time takes as long as it does, not as long as the timers of flows.

use narrows_fabric::{Checks, Congestion, Delivery, NetworkConfig, NetworkKind, Reliability};
use narrows_nic::NicConfig;
use narrows_portals::{AckRequest, Command, EntryId, EqId, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{Bytes, NodeId, Rail, SimTime};

const EQ: EqId = EqId(0);
const TIMEOUT: SimTime = SimTime::from_us(20_000);
const NODES: u32 = 4;

/// How many notices came.
struct Told(u32);

impl Processes for Told {
    type Letter = ();

    fn notify(&mut self, _: SimTime, _: u32, _: Notice) {
        self.0 += 1;
    }
}

/// A fat tree of one switch with a process on each node, which has an entry for puts.
fn world(nodes: u32, places: &[ProcessId], kind: NetworkKind, timeout: Option<SimTime>) -> World<Told> {
    let topology = FatTree::one_switch(nodes).expect("they fit").build();
    let reliability = timeout.map(|timeout| Reliability {
        window: 16,
        room: 0,
        timeout,
        retries: 2,
        ack: Bytes(32),
        delivery: Delivery::Ordered,
        unordered: 0,
        flows: 0,
        checks: Checks::default(),
        congestion: Congestion::None,
    });
    let network = NetworkConfig { kind, reliability, ..NetworkConfig::default() };
    let setup = Setup { hardware: Hardware::new(&network, topology, NicConfig::bxi_v2()), places };
    let mut world = World::led(setup, 1, |_| Told(0)).expect("the default network");
    let entry = MatchEntry { length: 1 << 20, options: me::OP_PUT, ignore_bits: u64::MAX, ..MatchEntry::default() };
    for rank in 0..nodes {
        for command in [
            Command::EqAlloc { eq: EQ, count: 1 << 10 },
            Command::PtAlloc { pt: 0, options: 0, eq: EQ },
            Command::MeAppend { entry: EntryId(0), pt: 0, list: List::Priority, me: entry },
        ] {
            world.submit(rank, Rail::FIRST, SimTime::ZERO, command);
        }
    }
    world
}

fn places(nodes: u32) -> Vec<ProcessId> {
    (0..nodes).map(|node| ProcessId::on(NodeId(node), 1)).collect()
}

fn put(process: ProcessId, length: u64) -> Command {
    let target = RemoteTarget { process, pt: 0, match_bits: 0, offset: 0 };
    Command::Put { local: LocalBuffer::default(), length, inline: None, ack: AckRequest::None, target, hdr_data: 0 }
}

#[test]
fn timers_of_what_was_acknowledged_take_no_time() {
    let places = places(2);
    let mut world = world(2, &places, NetworkKind::Packet, Some(TIMEOUT));
    for round in 1..=3 {
        world.submit(0, Rail::FIRST, world.now(), put(places[1], 5000));
        let before = world.processes().0;
        world.drain();
        assert!(world.processes().0 > before, "round {round}");
        assert!(world.now() < SimTime::from_us(100), "round {round}: {}", world.now());
    }
    // The timer is there, finds nothing, and is not set again.
    while world.next_led(SimTime::MAX).is_some() {
        world.step();
    }
    assert!(world.now() >= TIMEOUT && world.now() < TIMEOUT + TIMEOUT, "{}", world.now());
    assert_eq!(world.error(), None);
}

/// All to all before simulated time, in an order of its own for each of `orders`, then all to all again: digest and
/// events of the latter.
fn after(kind: NetworkKind, timeout: Option<SimTime>, order: [u32; NODES as usize]) -> (u64, u64) {
    const EPOCH: SimTime = SimTime::from_us(1_000_000);
    let places = places(NODES);
    let mut world = world(NODES, &places, kind, timeout);
    for to in order {
        for from in order.into_iter().filter(|&from| from != to) {
            world.submit(from, Rail::FIRST, world.now(), put(places[to as usize], 5000 * u64::from(1 + order[from as usize])));
        }
        if order[0] < 2 {
            world.drain();
        }
    }
    world.drain();
    while world.next_led(EPOCH).is_some() {
        world.step();
    }
    world.start_recording(EPOCH);
    for from in 0..NODES {
        for to in (0..NODES).filter(|&to| to != from) {
            for length in [8, 8, 100_000, 100_000] {
                world.submit(from, Rail::FIRST, EPOCH, put(places[to as usize], length));
            }
        }
    }
    world.drain();
    assert_eq!(world.error(), None);
    (world.digest(), world.recorded().events)
}

#[test]
fn the_order_of_what_was_before_decides_nothing() {
    for (kind, timeout) in [
        (NetworkKind::Packet, Some(SimTime::from_us(200))),
        (NetworkKind::Packet, None),
        (NetworkKind::Flow, None),
        (NetworkKind::LogGp, None),
    ] {
        let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]];
        let results = orders.map(|order| after(kind, timeout, order));
        assert_eq!(results, [results[0]; 4], "{kind:?} {timeout:?}");
    }
}
