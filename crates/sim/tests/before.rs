//! What is before simulated time takes as long as it does, not as long as the timers of flows.

use narrows_fabric::{Checks, Congestion, Delivery, NetworkConfig, NetworkKind, Reliability};
use narrows_nic::NicConfig;
use narrows_portals::{AckRequest, Command, EntryId, EqId, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{Bytes, NodeId, Rail, SimTime};

const EQ: EqId = EqId(0);
const TIMEOUT: SimTime = SimTime::from_us(20_000);

/// How many notices came.
struct Told(u32);

impl Processes for Told {
    type Letter = ();

    fn notify(&mut self, _: SimTime, _: u32, _: Notice) {
        self.0 += 1;
    }
}

#[test]
fn timers_of_what_was_acknowledged_take_no_time() {
    let places = [0, 1].map(|node| ProcessId::on(NodeId(node), 1));
    let topology = FatTree::one_switch(2).expect("two nodes fit").build();
    let reliability = Some(Reliability {
        window: 16,
        room: 0,
        timeout: TIMEOUT,
        retries: 2,
        ack: Bytes(32),
        delivery: Delivery::Ordered,
        unordered: 0,
        flows: 0,
        checks: Checks::default(),
        congestion: Congestion::None,
    });
    let network = NetworkConfig { kind: NetworkKind::Packet, reliability, ..NetworkConfig::default() };
    let setup = Setup { hardware: Hardware::new(&network, topology, NicConfig::bxi_v2()), places: &places };
    let mut world = World::led(setup, 2, |_| Told(0)).expect("the default network");
    let entry = MatchEntry { length: 1 << 20, options: me::OP_PUT, ignore_bits: u64::MAX, ..MatchEntry::default() };
    for command in [
        Command::EqAlloc { eq: EQ, count: 1 << 10 },
        Command::PtAlloc { pt: 0, options: 0, eq: EQ },
        Command::MeAppend { entry: EntryId(0), pt: 0, list: List::Priority, me: entry },
    ] {
        world.submit(1, Rail::FIRST, SimTime::ZERO, command);
    }
    let target = RemoteTarget { process: places[1], pt: 0, match_bits: 0, offset: 0 };
    for round in 1..=3 {
        let put = Command::Put { local: LocalBuffer::default(), length: 5000, inline: None, ack: AckRequest::None, target, hdr_data: 0 };
        world.submit(0, Rail::FIRST, world.now(), put);
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
