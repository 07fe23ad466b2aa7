//! Messages of one rank to another one with one tag match in the order in which they were sent: on every kind of NIC
//! and network, with every protocol.

use narrows_machine::{Machine, Overrides};
use narrows_message::Rails;
use narrows_replay::collectives::ByRules;
use narrows_replay::machine::{PlacedTrace, Replay};
use narrows_replay::port::Costs;
use narrows_replay::{Outcome, ReplayError, mapping};
use narrows_sim::Hardware;
use narrows_trace::{Communicators, Dependency, Kind, Operation, Order, Recorded};
use narrows_units::{Bytes, NodeId, ProcessorId, SimTime};
use proptest::prelude::*;

/// Rank i on node i / `ppn`.
fn run(name: &str, set: &[&str], ranks: u32, ppn: u32, program: &Recorded) -> Result<Outcome, ReplayError> {
    let set = set.iter().map(|&set| set.to_owned()).collect();
    let machine = Machine::load(name, &Overrides { nodes: None, set }).unwrap();
    let nodes = vec![(0..ranks).map(|rank| ProcessorId::host(NodeId(rank / ppn))).collect()];
    let part = PlacedTrace {
        name: String::from("order"),
        program: Box::new(program.clone()),
        collectives: Box::new(ByRules::new(narrows_collectives::rules::Rules::default(), None)),
        scale: vec![1.0],
        processes: mapping::processes(&nodes).concat(),
        costs: vec![Costs::of(&machine.node.host.software, machine.nic.portals())],
    };
    let network = machine.network_config(1);
    let hardware = Hardware::new(&network, machine.topology().unwrap(), machine.nic_config());
    Replay::new(hardware, vec![part], machine.message_config(Rails::default())).unwrap().run(&mut |_| true)
}

/// The first of them sends all without waiting, the other one has received room for exactly these. Sizes differ: when
/// two are exchanged, one does not fit.
fn all_at_once(sizes: &[u64]) -> Recorded {
    all_at_once_of(2, 1, sizes)
}

/// The same from rank 0 to rank `to` of so many.
fn all_at_once_of(ranks: u32, to: u32, sizes: &[u64]) -> Recorded {
    let mut program = Recorded::new(ranks, Communicators::world(ranks), Order::Graph);
    for &bytes in sizes {
        program.push(0, Operation::new(Kind::Send { to, bytes: Bytes(bytes), tag: 0 }), &[]);
        program.push(to, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(bytes), tag: Some(0) }), &[]);
    }
    program
}

/// TCP whose cores are not what holds messages back.
const QUICK_TCP: [&str; 4] = ["nic.kind=tcp", "nic.tcp.message=10 ns", "nic.tcp.segment_time=10 ns", "nic.tcp.rate=100 GB/s"];

/// A NIC that looks at a message when all of it is there must not take a short one first that came while a long one
/// did.
#[test]
fn a_short_message_waits_for_the_long_one_before_it() {
    for network in ["flow", "packet"] {
        let network = format!("network.kind={network}");
        for nic in [&["nic.kind=mailbox"][..], &QUICK_TCP] {
            // Eager all, and one that is announced.
            for sizes in [[60_000, 8, 16], [60_000, 100_000, 16]] {
                let set = [&[network.as_str(), "message.eager_limit=64 KiB"], nic].concat();
                let outcome = run("bxi-v2", &set, 2, 1, &all_at_once(&sizes));
                assert_eq!(outcome.unwrap().failure, None, "{network}, {nic:?}, {sizes:?}");
            }
        }
    }
}

/// ExaNeSt's has two ways: what takes the slower one must not be passed by what takes the other.
#[test]
fn a_transfer_waits_for_the_short_message_before_it() {
    for slow in ["nic.exanet.mailbox=50 us", "nic.exanet.packetizer=50 us"] {
        for protocol in ["message.protocol=openmpi", "message.protocol=exanet"] {
            let outcome = run("exanest", &[slow, protocol, "message.eager_limit=8 KiB"], 2, 1, &all_at_once(&[1, 500, 2, 600, 30, 7000]));
            assert_eq!(outcome.unwrap().failure, None, "{slow}, {protocol}");
        }
    }
}

/// caRVnet's transfers take turns packet by packet: a short one to somebody else goes between the packets of a long
/// one. A card of descriptors sends one behind the other.
#[test]
fn a_short_transfer_goes_between_the_packets_of_a_long_one() {
    let (long, short) = (1 << 20, 64);
    let mut program = Recorded::new(3, Communicators::world(3), Order::Graph);
    for (to, bytes) in [(1, long), (2, short)] {
        // The long one is under way.
        let duration = SimTime::from_us(if to == 2 { 20 } else { 0 });
        program.push(0, Operation::new(Kind::Compute { duration }), &[]);
        let computed = Dependency::done(2 * (u64::from(to) - 1));
        program.push(0, Operation::new(Kind::Send { to, bytes: Bytes(bytes), tag: 0 }), &[computed]);
        program.push(to, Operation::new(Kind::Receive { from: Some(0), bytes: Bytes(bytes), tag: Some(0) }), &[]);
    }
    let ends = |nic: &str| {
        let free = ["software.post=0 ns", "software.completion=0 ns", "nic.carvnet.walk=0 ns", "link.host.bandwidth=12.8 GB/s"];
        let kept = if nic == "carvnet" { &free[..] } else { &free[..2] };
        let kind = format!("nic.kind={nic}");
        let set = [&[kind.as_str(), "network.kind=packet", "message.eager_limit=1 MiB"], kept].concat();
        let outcome = run("bxi-v2", &set, 3, 1, &program).unwrap();
        assert_eq!(outcome.failure, None, "{nic}");
        outcome.rank_finish
    };
    let (carvnet, card) = (ends("carvnet"), ends("apenetx"));
    assert!(carvnet[2] < SimTime::from_us(25), "between its packets: {carvnet:?}");
    assert!(carvnet[1] > SimTime::from_us(80), "{carvnet:?}");
    assert!(card[2] > SimTime::from_us(80), "behind all of it: {card:?}");
}

/// Machines, and whether their network can only be the one of packets.
const MACHINES: [(&str, bool, &[&str]); 26] = [
    ("bxi-v2", false, &[]),
    ("bxi-v2", false, &["nic.transmit=interleaved", "message.rendezvous=put"]),
    ("bxi-v2", false, &["nic.kind=ib-hca"]),
    ("bxi-v2", false, &["nic.kind=mailbox"]),
    ("bxi-v2", false, &["nic.kind=mailbox", "message.rendezvous=put"]),
    ("bxi-v2", false, &["nic.kind=mailbox", "message.protocol=pscom"]),
    ("bxi-v2", false, &["nic.kind=mailbox", "message.protocol=mpc"]),
    ("bxi-v2", false, &QUICK_TCP),
    ("bxi-v2", false, &["nic.kind=tcp", "message.protocol=pscom"]),
    ("bxi-v2", false, &["message.protocol=pscom"]),
    ("bxi-v3", false, &["message.protocol=mpc"]),
    ("bxi-v3", false, &["nic.kind=mailbox"]),
    ("bxi-v3-reliable", true, &["nic.kind=mailbox", r#"network.faults=["loss=0.001"]"#]),
    ("bxi-v3-reliable", true, &[r#"network.faults=["loss=0.001"]"#]),
    ("dragonfly-342", true, &["network.routing=par", "nic.kind=mailbox"]),
    ("exanest", false, &["message.eager_limit=8 KiB", "nic.exanet.mailbox=3 us"]),
    ("exanest", false, &["message.protocol=openmpi", "nic.exanet.short_limit=2 KiB", "nic.exanet.mailbox_room=2"]),
    ("exanest-10gbe", false, &[]),
    ("bxi-v2", false, &["nic.kind=apenetx", "nic.apenetx.inline_limit=32 B"]),
    ("apenetx", false, &["nic.apenetx.completion=kernel", "message.protocol=pscom"]),
    ("apenetx-bxi", false, &["nic.apenetx.call=ioctl", "message.rendezvous=put"]),
    ("bxi-v2", false, &["nic.kind=carvnet"]),
    ("bxi-v2", false, &["nic.kind=carvnet", "nic.carvnet.target_contexts=1", "nic.carvnet.block=4 KiB"]),
    ("carvnet-exanest", false, &["nic.carvnet.target_contexts=2", "nic.carvnet.source_contexts=2", "nic.carvnet.channels=1"]),
    ("bxi-v3-reliable", true, &["nic.kind=carvnet", "nic.carvnet.target_contexts=1", r#"network.faults=["loss=0.001"]"#]),
    ("dragonfly-342", true, &["network.routing=par", "nic.kind=carvnet", "nic.carvnet.target_contexts=1", "message.protocol=mpc"]),
];

/// Of messages between ranks: sizes, none twice, and computing before.
type Pairs = Vec<(u32, u32, Vec<(u64, u64)>)>;

fn pairs() -> impl Strategy<Value = Pairs> {
    let bytes = prop_oneof![0u64..100, 100u64..9_000, 9_000u64..70_000, 70_000u64..400_000];
    let gap = prop_oneof![4 => Just(0u64), 1 => 0u64..8_000];
    let message = (bytes, gap);
    let messages = prop::collection::vec(message, 2..12).prop_map(|mut messages| {
        // None twice: the order stays.
        let mut seen = std::collections::BTreeSet::new();
        messages.retain(|&(bytes, _)| seen.insert(bytes));
        messages
    });
    prop::collection::vec((0u32..6, 1u32..6, messages), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn messages_match_in_the_order_in_which_they_were_sent(
        machine in 0..MACHINES.len(), flow: bool, long_eager: bool, ppn in 1u32..3, late in prop_oneof![Just(0u64), 0u64..100_000], pairs in pairs(),
    ) {
        const RANKS: u32 = 6;
        let (name, packets_only, set) = MACHINES[machine];
        let network = if flow && !packets_only { "network.kind=flow" } else { "network.kind=packet" };
        let eager: &[&str] = if long_eager && !set.iter().any(|set| set.contains("eager") || set.contains("pscom")) {
            &["message.eager_limit=64 KiB"]
        } else {
            &[]
        };
        let set = [&[network], eager, set].concat();
        let mut program = Recorded::new(RANKS, Communicators::world(RANKS), Order::Graph);
        let mut counts = [0; RANKS as usize];
        // Where receives come late, messages are unexpected.
        for rank in 0..RANKS {
            let duration = SimTime::from_ns(if rank % 2 == 0 { late } else { 0 });
            program.push(rank, Operation::new(Kind::Compute { duration }), &[]);
            counts[rank as usize] += 1;
        }
        for (tag, (from, distance, messages)) in (0u32..).zip(&pairs) {
            let to = (from + distance) % RANKS;
            let mut after = 0;
            for &(bytes, gap) in messages {
                if gap > 0 {
                    let compute = Operation::new(Kind::Compute { duration: SimTime::from_ns(gap) });
                    program.push(*from, compute, &[Dependency::done(after)]);
                    after = counts[*from as usize];
                    counts[*from as usize] += 1;
                }
                program.push(*from, Operation::new(Kind::Send { to, bytes: Bytes(bytes), tag }), &[Dependency::done(after)]);
                program.push(to, Operation::new(Kind::Receive { from: Some(*from), bytes: Bytes(bytes), tag: Some(tag) }), &[Dependency::done(0)]);
                counts[*from as usize] += 1;
                counts[to as usize] += 1;
            }
        }
        let outcome = run(name, &set, RANKS, ppn, &program);
        prop_assert!(outcome.as_ref().is_ok_and(|outcome| outcome.failure.is_none()), "{} {:?}: {:?}", name, set, outcome.err());
    }
}

/// A machine on which much happens at one picosecond: PCIe takes no time but its latency, and all times are multiples
/// of 100 ns, some of them zero.
fn all_multiples(times: &[u64; 10]) -> Vec<String> {
    let keys = [
        "software.post",
        "node.pcie.latency",
        "nic.dma_latency",
        "nic.put_occupancy",
        "nic.get_occupancy",
        "nic.response_occupancy",
        "nic.ack_occupancy",
        "nic.match_base",
        "nic.match_per_entry",
        "switch.latency",
    ];
    let least = |key: &str| u64::from(key == "node.pcie.latency");
    let mut set: Vec<String> = keys.iter().zip(times).map(|(key, &times)| format!("{key}={} ns", 100 * times.max(least(key)))).collect();
    set.push(String::from("nic.pcie.detail=latency"));
    set
}

/// A rank sends a short message, which is read by DMA, and one that is announced by nothing but a header, which starts
/// at the picosecond at which the read one does.
#[test]
fn a_header_waits_for_the_read_message_that_starts_at_the_same_time() {
    let machine = ["message.eager_limit=512 B", "message.inject_limit=0 B", "network.mtu=64 B"];
    for network in ["network.kind=packet", "network.kind=flow"] {
        // Put and get take 100 ns of the pipeline, so does the software; PCIe and DMA 100 ns each.
        let times = all_multiples(&[1, 1, 1, 1, 1, 1, 1, 0, 0, 1]);
        let set: Vec<&str> = machine.into_iter().chain([network]).chain(times.iter().map(String::as_str)).collect();
        let outcome = run("ib-qdr", &set, 4, 1, &all_at_once_of(4, 2, &[100, 4097]));
        assert_eq!(outcome.unwrap().failure, None, "{network}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The same with any such times: the order hangs on no tie.
    #[test]
    fn ties_change_no_order(
        times in prop::array::uniform10(0u64..4), name in prop::sample::select(vec!["ib-qdr", "bxi-v2"]), flow: bool, put: bool, ppn in 1u32..3,
        sizes in prop::collection::vec(prop_oneof![Just(0u64), 1u64..64, 64u64..512, 512u64..9_000], 2..8)
    ) {
        let sizes: Vec<u64> = (0..).zip(&sizes).map(|(place, size)| size * 8 + place).collect();
        let mut set = vec!["message.eager_limit=4 KiB", "message.inject_limit=0 B", "network.mtu=64 B"];
        set.push(if flow { "network.kind=flow" } else { "network.kind=packet" });
        set.push(if put { "message.rendezvous=put" } else { "message.rendezvous=get" });
        let times = all_multiples(&times);
        set.extend(times.iter().map(String::as_str));
        let outcome = run(name, &set, 4, ppn, &all_at_once_of(4, 2, &sizes));
        prop_assert!(outcome.as_ref().is_ok_and(|outcome| outcome.failure.is_none()), "{} {:?} {:?}: {:?}", name, set, sizes, outcome.err());
    }
}
