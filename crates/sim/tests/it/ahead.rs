//! A NIC that takes commands ahead of their time does what it does when each comes at its time, with fewer events.

use narrows_fabric::{LinkConfig, NetworkConfig};
use narrows_nic::NicConfig;
use narrows_portals::{AckRequest, Command, EntryId, EqId, List, LocalBuffer, MatchEntry, Notice, ProcessId, RemoteTarget, me};
use narrows_sim::{Hardware, Processes, Setup, World};
use narrows_topology::FatTree;
use narrows_units::{ByteRate, NodeId, Rail, SimTime};
use proptest::prelude::*;

const NODES: u32 = 3;
const EQ: EqId = EqId(0);
const PT: u32 = 4;

/// Writes down what it is told.
struct Ranks {
    in_order: bool,
    told: Vec<(SimTime, u32, Notice)>,
}

impl Processes for Ranks {
    type Letter = ();

    fn in_order(&self) -> bool {
        self.in_order
    }

    fn notify(&mut self, now: SimTime, rank: u32, notice: Notice) {
        self.told.push((now, rank, notice));
    }
}

/// What a rank does, so long after what it did before.
#[derive(Clone, Copy, Debug)]
struct Put {
    from: u32,
    to: u32,
    length: u64,
    after: SimTime,
    acknowledged: bool,
}

fn puts() -> impl Strategy<Value = Vec<Put>> {
    // Some together, some within the latency of PCIe, some when all is over.
    let after = prop_oneof![Just(0), 0..5_000u64, 0..2_000_000u64].prop_map(SimTime);
    let put = (0..NODES, 1..NODES, prop_oneof![Just(0), 1..64u64, 1..20_000u64], after, any::<bool>())
        .prop_map(|(from, step, length, after, acknowledged)| Put { from, to: (from + step) % NODES, length, after, acknowledged });
    prop::collection::vec(put, 1..60)
}

/// All times are multiples of 8 ns, and few: whatever can happen at one instant does.
fn puts_on_a_grid() -> impl Strategy<Value = Vec<Put>> {
    let after = (0..30u64).prop_map(|steps| SimTime::from_ns(8 * steps));
    let put = (0..NODES, 1..NODES, 0..5u64, after, any::<bool>()).prop_map(|(from, step, length, after, acknowledged)| Put {
        from,
        to: (from + step) % NODES,
        length: 8 * length,
        after,
        acknowledged,
    });
    prop::collection::vec(put, 1..60)
}

/// The same for the machine: a byte takes 1 ns everywhere.
fn on_a_grid() -> (NetworkConfig, NicConfig) {
    let (rate, time) = (ByteRate(1_000_000_000), SimTime::from_ns(40));
    let link = LinkConfig { rate, latency: time };
    let network = NetworkConfig {
        host_link: link,
        switch_link: link,
        pcie_rate: rate,
        switch_latency: SimTime::from_ns(8),
        ..NetworkConfig::default()
    };
    let step = SimTime::from_ns(8);
    let nic = NicConfig {
        pcie_latency: time,
        pcie_rate: rate,
        data_bandwidth: rate,
        dma_latency: time,
        put_occupancy: step,
        ack_occupancy: step,
        match_per_entry: step,
        ..NicConfig::bxi_v2()
    };
    (network, nic)
}

/// Everything that the ranks are told, and how many events that takes.
fn run(puts: &[Put], ranks_per_node: u32, in_order: bool) -> (Vec<(SimTime, u32, Notice)>, u64) {
    run_on((NetworkConfig::default(), NicConfig::bxi_v2()), puts, ranks_per_node, in_order)
}

fn run_on(
    (network, nic): (NetworkConfig, NicConfig),
    puts: &[Put],
    ranks_per_node: u32,
    in_order: bool,
) -> (Vec<(SimTime, u32, Notice)>, u64) {
    let place = |rank: u32| ProcessId::on(NodeId(rank / ranks_per_node), 1 + rank % ranks_per_node);
    let places: Vec<ProcessId> = (0..NODES * ranks_per_node).map(place).collect();
    let topology = FatTree::one_switch(NODES).expect("three nodes fit").build();
    let setup = Setup { hardware: Hardware::new(&network, topology, nic), places: &places };
    let mut world = World::whole(setup, |_| Ranks { in_order, told: Vec::new() }).expect("the default network");
    for rank in 0..NODES {
        let rank = rank * ranks_per_node;
        let entry = MatchEntry { length: 1 << 20, options: me::OP_PUT, ignore_bits: u64::MAX, ..MatchEntry::default() };
        for command in [
            Command::EqAlloc { eq: EQ, count: 1 << 10 },
            Command::PtAlloc { pt: PT, options: 0, eq: EQ },
            Command::MeAppend { entry: EntryId(0), pt: PT, list: List::Priority, me: entry },
        ] {
            world.submit(rank, Rail::FIRST, SimTime::ZERO, command);
        }
        world.drain();
    }
    world.start_recording(SimTime::from_us(100));
    let mut clocks = [SimTime::from_us(100); NODES as usize];
    for (hdr_data, &Put { from, to, length, after, acknowledged }) in (0..).zip(puts) {
        let clock = &mut clocks[from as usize];
        *clock += after;
        let target = RemoteTarget { process: place(to * ranks_per_node), pt: PT, match_bits: 0, offset: 0 };
        let ack = if acknowledged { AckRequest::Full } else { AckRequest::None };
        let local = LocalBuffer { eq: EQ, ..LocalBuffer::default() };
        let put = Command::Put { local, length, inline: None, ack, target, hdr_data };
        world.submit(from * ranks_per_node, Rail::FIRST, *clock, put);
    }
    world.drain();
    assert_eq!(world.error(), None);
    let events = world.recorded().events;
    (std::mem::take(&mut world.processes().told), events)
}

proptest! {
    #[test]
    fn commands_ahead_of_their_time_change_nothing(puts in puts()) {
        let (each, events) = run(&puts, 1, false);
        let (ahead, fewer) = run(&puts, 1, true);
        prop_assert!(each.len() >= 2 * puts.len(), "SEND and PUT of each");
        prop_assert_eq!(ahead, each);
        prop_assert_eq!(fewer + puts.len() as u64, events);
    }

    #[test]
    fn nor_do_they_where_events_meet_at_one_instant(puts in puts_on_a_grid()) {
        let (each, events) = run_on(on_a_grid(), &puts, 1, false);
        let (ahead, fewer) = run_on(on_a_grid(), &puts, 1, true);
        prop_assert_eq!(ahead, each);
        prop_assert_eq!(fewer + puts.len() as u64, events);
    }

    /// Where two processes share a NIC their commands may cross, and come at their times.
    #[test]
    fn those_of_processes_that_share_a_nic_are_not_taken_ahead(puts in puts()) {
        prop_assert_eq!(run(&puts, 2, true), run(&puts, 2, false));
    }
}
