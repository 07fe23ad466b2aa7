//! Whatever the rings, windows and machines: a stream arrives, all of it, once and in order (an assertion of the
//! reading program), and everything is the same on any regions and threads.

use crate::common::*;
use narrows_ip::{Flow, FlowKind};
use narrows_machine::Receiver;
use narrows_units::{Bytes, SimTime};
use proptest::prelude::*;

const PRESETS: [(&str, &str); 6] = [
    ("bxi-v2", "packet"),
    ("bxi-v3", "packet"),
    ("exanest-mezz", "packet"),
    ("exanest-10gbe", "packet"),
    ("bxi-v2", "flow"),
    ("roce-400", "loggp"),
];

/// Its groups are regions.
const DRAGONFLY: [&str; 7] = [
    "topology.kind=dragonfly",
    "topology.p=2",
    "topology.a=2",
    "topology.h=2",
    "topology.g=4",
    "network.routing=minimal",
    "network.virtual_channels=4",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn streams_arrive_once_and_in_order(
        preset in 0usize..PRESETS.len(),
        (transmit_ring, receive_ring, cores) in (1u32..6, 1u32..6, 1u32..4),
        window in 500u64..20_000,
        acknowledge_every in 1u32..6,
        (tunnel, buffers, batch) in (any::<bool>(), 1u32..3, 1u64..10_000),
        receiver in 0usize..3,
        gateway in any::<bool>(),
        flows in prop::collection::vec((0u32..16, 0u32..16, 300u64..1400, 0u32..3), 1..8),
    ) {
        let (preset, kind) = PRESETS[preset];
        let mut set = vec![format!("network.kind={kind}")];
        if preset.starts_with("bxi") {
            set.extend(DRAGONFLY.map(String::from));
        }
        if gateway {
            set.extend(["ip.gateway.hosts=2", "ip.gateway.node=7", "ip.gateway.room=3"].map(String::from));
        }
        let mut machine = machine(preset, 16, &set);
        let ip = &mut machine.ip;
        (ip.transmit_ring, ip.receive_ring, ip.cores) = (transmit_ring, receive_ring, cores);
        (ip.window, ip.acknowledge_every) = (Bytes(window), acknowledge_every);
        (ip.tunnel.enabled, ip.tunnel.buffers, ip.tunnel.batch) = (tunnel, buffers, Bytes(batch));
        (ip.receiver, ip.resend) = (Receiver::ALL[receiver], SimTime::from_us(3000));
        let total = 30_000;
        let flows: Vec<Flow> = flows.into_iter().filter_map(|(from, to, bytes, kind)| {
            // Node 7 may be the gateway: those of it are behind it then.
            let at = |host: u32| if host == 7 && gateway { 16 } else { host };
            let flow = match kind {
                0 => pings(at(from), at(to), bytes),
                1 => datagrams(at(from), at(to), bytes, Some(20_000)),
                _ => stream(at(from), at(to), bytes, Some(total)),
            };
            (from != to).then_some(flow)
        }).collect();
        prop_assume!(!flows.is_empty());
        let report = on(&machine, flows.clone(), |_| {}).unwrap();
        prop_assert!(!report.partial, "no end: {:?}", report.flows.iter().map(|flow| flow.counts).collect::<Vec<_>>());
        for flow in &report.flows {
            let counts = flow.counts;
            match flow.flow.kind {
                FlowKind::Stream { bytes, .. } => {
                    prop_assert_eq!((counts.bytes, counts.received), (total, total.div_ceil(bytes.0)), "{:?}", flow);
                    prop_assert_eq!(counts.sent, counts.received + counts.retransmissions);
                }
                FlowKind::Ping { .. } => prop_assert!(counts.received + counts.drops() == 5, "{:?}", flow),
                FlowKind::Datagrams { bytes, .. } => prop_assert_eq!(counts.received + counts.drops(), 20_000 / bytes.0, "{:?}", flow),
            }
        }
        let whole = on(&machine, flows.clone(), |setup| setup.whole = true).unwrap();
        let threads = on(&machine, flows, |setup| setup.threads = 3).unwrap();
        prop_assert_eq!(report.digest, whole.digest, "one region");
        prop_assert_eq!(report.digest, threads.digest, "three threads");
        prop_assert_eq!((report.hosts, report.measured), (threads.hosts, threads.measured));
    }
}

/// Both have sent at one time, and wait equally long: each time a packet of the one that is not expected had the only
/// place of the ring when one of the other came that is.
#[test]
fn streams_that_go_back_in_step_end() {
    let mut machine = machine("bxi-v2", 16, &DRAGONFLY.map(String::from));
    let ip = &mut machine.ip;
    (ip.transmit_ring, ip.receive_ring, ip.cores) = (4, 1, 1);
    (ip.window, ip.acknowledge_every, ip.resend) = (Bytes(4546), 2, SimTime::from_us(3000));
    (ip.tunnel.enabled, ip.tunnel.buffers, ip.tunnel.batch) = (true, 2, Bytes(2066));
    ip.receiver = Receiver::ALL[0];
    let report = on(&machine, vec![stream(1, 2, 650, Some(30_000)), stream(12, 1, 737, Some(30_000))], |_| {}).unwrap();
    assert!(!report.partial);
    assert!(report.flows.iter().all(|flow| flow.counts.bytes == 30_000));
}

#[test]
fn a_lossy_network_changes_nothing_but_times() {
    let set = ["network.reliability.delivery=ordered", "network.faults=[\"loss=0.01\"]"].map(String::from);
    let report = on(&machine("bxi-v3", 4, &set), vec![stream(0, 3, 8000, Some(8_000_000))], |_| {}).unwrap();
    assert_eq!((report.flows[0].counts.bytes, report.flows[0].counts.retransmissions), (8_000_000, 0));
}

#[test]
fn what_cannot_be_is_one_clear_line() {
    let machine = machine("bxi-v2", 4, &[]);
    let error = |flow: Flow| on(&machine, vec![flow], |_| {}).unwrap_err().to_string();
    assert_eq!(error(pings(0, 0, 8)), "from 0 to 0: a host does not use the network to itself: take two");
    assert_eq!(error(pings(0, 4, 8)), "there is no host 4: the machine has the nodes 0 to 3, and no gateway (ip.gateway.hosts)");
    assert_eq!(
        error(stream(0, 1, 70_000, Some(70_000))),
        "from 0 to 1: packets of 70000 B: expected 1 to 65480 B, ip.mtu less ip.header (packets are not cut)"
    );
    assert_eq!(error(stream(0, 1, 8, None)), "from 0 to 1: the flow has no end: the run needs a time");
    let mut with_gateway = machine.clone();
    (with_gateway.ip.gateway.hosts, with_gateway.ip.gateway.node) = (2, 1);
    let error = |flow: Flow| on(&with_gateway, vec![flow], |_| {}).unwrap_err().to_string();
    assert_eq!(error(pings(0, 1, 8)), "from 0 to 1: node 1 is the gateway, which has no programs: take another one");
    assert_eq!(error(pings(4, 5, 8)), "from 4 to 5: both are behind the gateway: take a node of the network for one of them");
    assert_eq!(error(pings(0, 6, 8)), "there is no host 6: nodes are 0 to 3, hosts behind the gateway 4 to 5");
}
