//! Models of switches and links against what is known of them: saturation of FIFO and virtual output queues, shares of
//! weighted arbitration, strict priority, age, store-and-forward by hand, and priority flow control with and without
//! enough headroom.

use crate::common::{assert_near, driver, message, round_numbers, run};
use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{
    Arbitration, Arrival, ConfigError, FlowControl, Forwarding, LinkConfig, NetworkConfig, NetworkKind, Notice, Observer, PacketArrival,
    PauseConfig, Queueing, Statistics, Transfer, TransferId,
};
use narrows_topology::{FatTree, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};

/// Every host has a message of one packet under way to a random other host, and starts the next one as soon as its
/// memory is read: as much as goes.
struct Saturated {
    streams: Vec<(u32, Stream)>,
    hosts: u32,
    next: u32,
    arrived: u64,
}

impl Observer for Saturated {}

impl Saturated {
    fn send(&mut self, host: u32, fabric: &mut Context<'_>) {
        let index = self.streams.binary_search_by_key(&host, |entry| entry.0).unwrap();
        let target = self.streams[index].1.below(u64::from(self.hosts) - 1) as u32;
        self.next += 1;
        fabric.start(message(self.next, host, target + u32::from(target >= host), 1000));
    }
}

impl Agent for Saturated {
    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, host: u32, _: u32, (): (), fabric: &mut Context<'_>) {
        self.send(host, fabric);
    }

    fn source_done(&mut self, host: u32, _: TransferId, fabric: &mut Context<'_>) {
        self.send(host, fabric);
    }

    fn tail(&mut self, _: &Arrival, _: &mut Context<'_>) {
        self.arrived += 1;
    }
}

/// The share of the links that uniform traffic fills when every host sends what it can, after a tenth of the time; and
/// what was counted.
fn saturation(config: &NetworkConfig, topology: Topology, packets: u64) -> (f64, Statistics) {
    let hosts = topology.hosts();
    let mut fabric = Fabric::new(config, topology, |of_region| Saturated {
        streams: of_region.iter().map(|&host| (host, stream(1, "saturated", u64::from(host)))).collect(),
        hosts,
        next: 0,
        arrived: 0,
    })
    .unwrap();
    (0..hosts).for_each(|host| fabric.timer(SimTime::ZERO, host, 0, ()));
    let arrived = |fabric: &mut Fabric<Saturated>, time: u64| {
        fabric.run_until(SimTime::from_ns(time * 104), 1);
        fabric.agents().map(|agent| agent.arrived).sum::<u64>()
    };
    let early = arrived(&mut fabric, packets / 10);
    let all = arrived(&mut fabric, packets);
    ((all - early) as f64 / (f64::from(hosts) * (packets - packets / 10) as f64), fabric.statistics())
}

#[test]
fn fifo_inputs_saturate_at_586_and_virtual_output_queues_near_1() {
    // Karol, Hluchyj, Morgan (IEEE Trans. Comm. 1987): 2 - sqrt(2) = 0.586 for many ports, 0.655 for 4, 0.618 for 8,
    // with all targets alike. Here no host sends to itself, and packets of one size drift apart in time, so that slots
    // are not aligned; both move a few per cent.
    for (ports, expected, tolerance) in [(8, 0.618, 0.08), (128, 0.586, 0.05)] {
        let switch = || FatTree::one_switch(ports).unwrap().build();
        let fifo = NetworkConfig { queueing: Queueing::Fifo, ..round_numbers(NetworkKind::Packet) };
        let (share, _) = saturation(&fifo, switch(), 2000);
        assert_near(&format!("{ports} ports, FIFO inputs"), share, expected, tolerance);
        // Buffers of 64 packets: with 16, now and then all in one are for busy outputs.
        let virtual_output = NetworkConfig { buffer_per_channel: Bytes(64 * 1040), ..round_numbers(NetworkKind::Packet) };
        let (share, _) = saturation(&virtual_output, switch(), 2000);
        assert_near(&format!("{ports} ports, virtual output queues"), share, 1.0, 0.03);
    }
}

/// Uniform traffic of messages of one packet that keeps the times at which the links to the targets carried each
/// source's packets.
struct Carried {
    saturated: Saturated,
    spans: Vec<Vec<(SimTime, SimTime)>>,
}

impl Observer for Carried {
    fn packet(&mut self, packet: &PacketArrival) {
        // 1,040 B at 10 GB/s.
        self.spans[packet.arrival.source as usize].push((packet.through - SimTime::from_ns(104), packet.through));
    }
}

impl Agent for Carried {
    type Event = ();
    type Letter = ();
    type Ports = narrows_port::HostPorts;

    fn timer(&mut self, host: u32, tag: u32, (): (), fabric: &mut Context<'_>) {
        self.saturated.timer(host, tag, (), fabric);
    }

    fn source_done(&mut self, host: u32, id: TransferId, fabric: &mut Context<'_>) {
        self.saturated.source_done(host, id, fabric);
    }
}

#[test]
fn a_crossbar_without_speedup_reads_an_input_once_at_a_time() {
    // With speed-up 1 the packets of a source, and so of an input of the only switch, go one after the other; without a
    // limit some go side by side.
    let overlaps = |speedup: u32, arbitration: Arbitration| {
        let config = NetworkConfig { speedup, arbitration, ..without_pcie_at_the_target() };
        let mut fabric = Fabric::new(&config, FatTree::one_switch(16).unwrap().build(), |hosts| Carried {
            saturated: Saturated {
                streams: hosts.iter().map(|&host| (host, stream(1, "saturated", u64::from(host)))).collect(),
                hosts: 16,
                next: 0,
                arrived: 0,
            },
            spans: vec![Vec::new(); 16],
        })
        .unwrap();
        (0..16).for_each(|host| fabric.timer(SimTime::ZERO, host, 0, ()));
        fabric.run_until(SimTime::from_us(100), 1);
        let agent = fabric.agents().next().unwrap();
        let mut count = 0;
        for spans in &mut agent.spans {
            assert!(spans.len() > 300, "{} packets of a source", spans.len());
            spans.sort_unstable();
            count += spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count();
        }
        count
    };
    assert_eq!(overlaps(1, Arbitration::RoundRobin), 0);
    assert!(overlaps(0, Arbitration::RoundRobin) > 100);
    // Those that are matched as a whole are of this kind.
    assert_eq!([Arbitration::Islip(1), Arbitration::Islip(4), Arbitration::Wavefront].map(|matched| overlaps(0, matched)), [0; 3]);
}

/// The links alone: what arrives is through when its tail is there.
fn without_pcie_at_the_target() -> NetworkConfig {
    NetworkConfig { pcie_rate: ByteRate(100_000_000_000_000), ..round_numbers(NetworkKind::Packet) }
}

#[test]
fn a_crossbar_of_speedup_2_is_no_limit() {
    // Dai and Prabhakar (INFOCOM 2000): with a speed-up of 2, any maximal matching carries all that comes. Outputs here
    // keep no packets of their own, but one that waits for an input gets it half a packet later.
    let config = |speedup| NetworkConfig { speedup, buffer_per_channel: Bytes(64 * 1040), ..round_numbers(NetworkKind::Packet) };
    let share = |speedup| saturation(&config(speedup), FatTree::one_switch(32).unwrap().build(), 2000).0;
    let [one, two, all] = [1, 2, 0].map(share);
    assert_near("speed-up 2", two, 1.0, 0.05);
    assert!(one < two && two <= all + 0.01, "{one} with 1, {two} with 2, {all} without a limit");
    // Above FIFO inputs (0.586), below all.
    assert!((0.7..0.99).contains(&one), "{one}");
}

/// McKeown 1999, section II.B: with all queues full iSLIP carries everything with a single iteration, since pointers
/// drift apart. Here packets come into buffers that are not endless, so more iterations carry a little more.
#[test]
fn matched_crossbars_carry_nearly_all() {
    let config = |arbitration| NetworkConfig { arbitration, buffer_per_channel: Bytes(64 * 1040), ..round_numbers(NetworkKind::Packet) };
    let share = |arbitration| saturation(&config(arbitration), FatTree::one_switch(16).unwrap().build(), 2000).0;
    let [one, four, wavefront] = [Arbitration::Islip(1), Arbitration::Islip(4), Arbitration::Wavefront].map(share);
    assert!(one > 0.9 && four > one - 0.01 && wavefront > 0.9, "{one} {four} {wavefront}");
    let refused = config(Arbitration::Islip(17)).check(&FatTree::one_switch(4).unwrap().build());
    assert!(matches!(refused, Err(ConfigError::Iterations { given: 17 })));
}

/// Payload that arrived per virtual network when each sends without end from a host of its own to one target.
fn shares(config: &NetworkConfig, bytes: &[u64]) -> Vec<f64> {
    let tree = FatTree::one_switch(8).unwrap();
    let mut driver = driver(config, &tree);
    for (class, &bytes) in bytes.iter().enumerate() {
        for index in 0..4_000_000 / bytes {
            let id = class as u32 * 1_000_000 + index as u32;
            driver.start(Transfer { virtual_network: class as u8, ..message(id, class as u32 + 1, 0, bytes) });
        }
    }
    driver.run_until(SimTime::from_us(400));
    let mut arrived = vec![0.0; bytes.len()];
    for (_, notice) in driver.notices() {
        if let Notice::TailArrived(TransferId(id)) = notice {
            let class = (id / 1_000_000) as usize;
            arrived[class] += bytes[class] as f64;
        }
    }
    let sum: f64 = arrived.iter().sum();
    arrived.iter().map(|arrived| arrived / sum).collect()
}

#[test]
fn weighted_arbitration_shares_by_the_weights() {
    let config = |arbitration| NetworkConfig { arbitration, ..round_numbers(NetworkKind::Packet) };
    let check = |what: &str, shares: Vec<f64>, expected: &[f64]| {
        for (class, (share, expected)) in shares.iter().zip(expected).enumerate() {
            assert_near(&format!("{what}: class {class}"), *share, *expected, 0.02);
        }
    };
    let full = [1000; 4];
    check("round robin", shares(&config(Arbitration::RoundRobin), &full), &[0.25; 4]);
    check("packets 1:2:3:4", shares(&config(Arbitration::WeightedPackets(vec![1, 2, 3, 4])), &full), &[0.1, 0.2, 0.3, 0.4]);
    check("bytes 1:2:3:4", shares(&config(Arbitration::WeightedBytes(vec![1, 2, 3, 4])), &full), &[0.1, 0.2, 0.3, 0.4]);
    // Packets of 250 and 1000 bytes (290 and 1040 on the wire), equal weights: as many packets each, or as many bytes
    // each.
    let mixed = [250, 1000];
    check("packets of two sizes", shares(&config(Arbitration::WeightedPackets(vec![1, 1])), &mixed), &[0.2, 0.8]);
    let per_byte = [250.0 / 290.0, 1000.0 / 1040.0];
    let sum = per_byte[0] + per_byte[1];
    check("bytes of two sizes", shares(&config(Arbitration::WeightedBytes(vec![1, 1])), &mixed), &[per_byte[0] / sum, per_byte[1] / sum]);
    // Two classes idle: the others share by their own weights.
    check("a class alone", shares(&config(Arbitration::WeightedPackets(vec![1, 2, 3, 4])), &[1000, 1000]), &[1.0 / 3.0, 2.0 / 3.0]);
}

#[test]
fn strict_priority_goes_first_whatever_the_arbitration() {
    for arbitration in
        [Arbitration::RoundRobin, Arbitration::Age, Arbitration::WeightedPackets(vec![9]), Arbitration::WeightedBytes(vec![9])]
    {
        let config = NetworkConfig { arbitration: arbitration.clone(), strict_priority: 1 << 2, ..round_numbers(NetworkKind::Packet) };
        let shares = shares(&config, &[1000, 1000, 1000]);
        // The first packets of the others are on their way before those of class 2 are there.
        assert!(shares[2] > 0.99, "{arbitration:?}: class 2 has all that it wants, got {shares:?}");
    }
}

#[test]
fn by_age_what_left_its_nic_first_goes_first() {
    // While the link to host 0 is busy, packets come to the switch from hosts 3, 2 and 1, in this order of their
    // injection.
    let tree = FatTree::one_switch(8).unwrap();
    let order = |arbitration: Arbitration| {
        let config = NetworkConfig { arbitration, ..round_numbers(NetworkKind::Packet) };
        let mut driver = driver(&config, &tree);
        driver.start(Transfer { source_dma: false, ..message(0, 4, 0, 10_000) });
        let start = |driver: &mut narrows_port::Driver, at: u64, id: u32, source: u32, count: u64| {
            driver.run_until(SimTime::from_ns(at));
            driver.start(Transfer { source_dma: false, virtual_network: id as u8 % 4, ..message(id, source, 0, 1000 * count) });
        };
        start(&mut driver, 10, 3, 3, 2);
        start(&mut driver, 20, 2, 2, 2);
        start(&mut driver, 30, 1, 1, 2);
        driver.run();
        let tails = driver.notices().iter().filter_map(|(_, notice)| match notice {
            Notice::TailArrived(id) => Some(id.0),
            _ => None,
        });
        tails.collect::<Vec<_>>()
    };
    // All of them are older than the end of the long message. By turns, the long message's virtual network goes round
    // with the others.
    assert_eq!(order(Arbitration::Age), [3, 2, 1, 0]);
    assert_ne!(order(Arbitration::RoundRobin), [3, 2, 1, 0], "the test sees the difference");
}

#[test]
fn store_and_forward_takes_a_packet_time_more_per_switch() {
    let stored = |kind| NetworkConfig { forwarding: Forwarding::StoreAndForward, ..round_numbers(kind) };
    // PCIe 25 ns for half of the packet, three links of 104 ns with two switches of 100 ns, latencies 200 + 150 + 200
    // ns, PCIe 25 ns.
    let tree = FatTree::k_ary_n_tree(4, 2).unwrap();
    let near = run(&stored(NetworkKind::Packet), &tree, &[message(0, 0, 1, 1000)])[0];
    assert_eq!(near[2], SimTime::from_ns(25 + (104 + 200 + 100) + (104 + 200) + 25));
    let far = run(&stored(NetworkKind::Packet), &tree, &[message(0, 0, 15, 1000)])[0];
    assert_eq!(far[2], SimTime::from_ns(25 + (104 + 200 + 100) + 2 * (104 + 150 + 100) + (104 + 200) + 25));
    assert_eq!(far[1], far[2] - SimTime::from_ns(25 + 100), "the header is in 100 ns before the tail, which takes 25 ns of PCIe");
    // The closed form, which all three networks share, for many packets and links of two rates.
    for rate in [5, 10, 25] {
        for kind in crate::common::KINDS {
            let link = LinkConfig { rate: ByteRate(rate * 1_000_000_000), latency: SimTime::from_ns(150) };
            let config = NetworkConfig { switch_link: link, ..stored(kind) };
            for payload in [0, 1, 999, 1001, 12_345] {
                for target in [1, 15] {
                    let put = message(0, 0, target, payload);
                    let expected = driver(&config, &tree).zero_load(&put);
                    if kind == NetworkKind::Packet || payload <= 1000 {
                        let times = run(&config, &tree, &[put])[0];
                        assert_eq!(times[1..], [expected.head, expected.tail], "{kind:?}, {rate} GB/s, {payload} B to {target}");
                    }
                }
            }
        }
    }
}

/// Priority flow control, thresholds and buffer in packets. These links need 7 packets of headroom.
fn paused(xoff: u64, buffer: u64) -> NetworkConfig {
    NetworkConfig {
        buffer_per_channel: Bytes(buffer * 1040),
        flow_control: FlowControl::Pause(PauseConfig {
            xoff: Bytes(xoff * 1040),
            resend_after: SimTime::from_us(5),
            ..PauseConfig::default()
        }),
        ..round_numbers(NetworkKind::Packet)
    }
}

#[test]
fn the_headroom_is_what_the_fact_sheet_says() {
    // Host links: there and back 400 ns, switch 100 ns, a packet in the way 104 ns, the frame 8.4 ns: 612.4 ns of 10 B,
    // and a packet that was begun.
    let config = paused(4, 32);
    let FlowControl::Pause(pause) = config.flow_control else { unreachable!() };
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    assert_eq!(config.headroom(&pause, &topology), Bytes(6124 + 1040));
    assert_eq!(config.missing_headroom(&topology), None);
    assert_eq!(paused(30, 32).missing_headroom(&topology), Some(Bytes(30 * 1040 + 7164 - 32 * 1040)));
    assert_eq!(round_numbers(NetworkKind::Packet).missing_headroom(&topology), None, "credits need none");
    // The thresholds that come of themselves: the buffer less the headroom, and two packets below.
    let derived = PauseConfig { xoff: Bytes(0), ..pause };
    assert_eq!(config.pause_thresholds(&derived, &topology), (Bytes(32 * 1040 - 7164), Bytes(30 * 1040 - 7164)));
}

#[test]
fn with_enough_headroom_nothing_is_lost_and_with_too_little_it_is_counted() {
    let tree = FatTree::k_ary_n_tree(4, 2).unwrap();
    let incast: Vec<Transfer> = (0..12).map(|index| message(index, index + 4, 0, 200_000)).collect();
    let outcome = |config: &NetworkConfig| {
        let mut driver = driver(config, &tree);
        incast.iter().for_each(|&transfer| driver.start(transfer));
        driver.run();
        assert_eq!(driver.in_flight(), 0, "everything arrives in the end");
        // The last notice; frames and wake-ups that are out of date come later.
        (driver.statistics(), driver.notices().last().unwrap().0)
    };
    // Exactly the headroom that is needed above the threshold. Going on at 10 packets leaves more than the 612 ns, 6
    // packets, until new ones come.
    let config = paused(12, 12);
    let FlowControl::Pause(pause) = config.flow_control else { unreachable!() };
    let enough = NetworkConfig { buffer_per_channel: Bytes(12 * 1040 + config.headroom(&pause, &tree.clone().build()).0), ..config };
    assert_eq!(enough.missing_headroom(&tree.clone().build()), None);
    let (statistics, time) = outcome(&enough);
    assert!(statistics.pauses > 100, "the incast is held up by pauses, got {}", statistics.pauses);
    assert_eq!(statistics.lost_packets, 0);
    // 12 x 200 packets through one link of 104 ns each.
    assert_near("incast under pauses, us", time.as_ns_f64() / 1e3, 12.0 * 200.0 * 0.104, 0.02);
    let (statistics, _) = outcome(&paused(7, 8));
    assert!(paused(7, 8).missing_headroom(&tree.clone().build()).is_some());
    assert!(statistics.lost_packets > 0, "too little headroom loses packets");
}

#[test]
fn uniform_load_under_pauses_loses_nothing() {
    let config = NetworkConfig { flow_control: FlowControl::Pause(PauseConfig::default()), ..paused(4, 32) };
    let (share, statistics) = saturation(&config, FatTree::k_ary_n_tree(4, 2).unwrap().build(), 1000);
    assert!(statistics.pauses > 0 && statistics.lost_packets == 0, "{statistics:?}");
    assert!(share > 0.4, "D-mod-K under uniform traffic, got {share}");
}

#[test]
fn a_pause_ends_by_itself_and_is_repeated_until_the_buffer_has_drained() {
    // Quanta for 1.024 us; the target's PCIe takes 100 ns per byte ... of 1000: the buffer drains one packet per 10 us,
    // so one pause does not do.
    let mut config = paused(2, 40);
    config.pcie_rate = ByteRate(100_000_000);
    let FlowControl::Pause(pause) = &mut config.flow_control else { unreachable!() };
    pause.quanta = 20;
    let put = Transfer { source_dma: false, ..message(0, 0, 1, 60_000) };
    let mut driver = driver(&config, &FatTree::one_switch(2).unwrap());
    driver.start(put);
    driver.run();
    assert_eq!((driver.in_flight(), driver.live_packets()), (0, 0));
    let statistics = driver.statistics();
    assert_eq!(statistics.lost_packets, 0, "the repeated pauses hold");
    // Most of 600 us paused, a frame per 512 ns.
    assert!(statistics.pauses > 500, "got {} frames", statistics.pauses);
}

#[test]
fn thresholds_that_contradict_each_other_are_refused() {
    let refused = |change: &dyn Fn(&mut PauseConfig), buffer: u64| {
        let mut config = paused(4, buffer);
        let FlowControl::Pause(pause) = &mut config.flow_control else { unreachable!() };
        change(pause);
        config.check(&FatTree::one_switch(2).unwrap().build()).map(|_| ()).unwrap_err()
    };
    let fixed = |packets: u64| Bytes(packets * 1040);
    assert!(matches!(refused(&|pause| pause.xoff = fixed(33), 32), ConfigError::Pause { .. }), "beyond the buffer");
    assert!(matches!(refused(&|pause| pause.xon = fixed(5), 32), ConfigError::Pause { .. }), "goes on above where it stops");
    assert!(matches!(refused(&|pause| pause.xoff = Bytes(0), 9), ConfigError::Headroom { .. }), "all headroom");
    for change in [
        (&|pause: &mut PauseConfig| pause.quanta = 0) as &dyn Fn(&mut PauseConfig),
        &|pause| pause.quanta = 65536,
        &|pause| pause.frame = Bytes(0),
        &|pause| pause.resend_after = SimTime::ZERO,
    ] {
        assert!(matches!(refused(change, 32), ConfigError::PauseValue { .. }));
    }
    let weights = NetworkConfig { arbitration: Arbitration::WeightedPackets(vec![1, 0]), ..round_numbers(NetworkKind::Packet) };
    assert_eq!(weights.check(&FatTree::one_switch(2).unwrap().build()).unwrap_err(), ConfigError::Weight { class: 1 });
}
