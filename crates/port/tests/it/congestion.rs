//! Congestion controls: the rates of flows are those of closed forms, and with ACC max-min fair in any network.

use narrows_fabric::parallel::{Agent, Context, Fabric};
use narrows_fabric::{
    Acc, AccPolicy, Checks, ConfigError, Congestion, Dcqcn, Dctcp, Delivery, Ecn, Fraction, Hpcc, LinkConfig, NetworkConfig, NetworkKind,
    Nscc, Observer, PacketArrival, Reliability, Sperc, Swift, Transfer, TransferId,
};
use narrows_port::{Driver, HostPorts};
use narrows_topology::{FatTree, RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, SimTime};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const RATE: ByteRate = ByteRate(1_250_000_000);
const PERIOD: SimTime = SimTime::from_us(20);

fn tree() -> Topology {
    FatTree::k_ary_n_tree(4, 2).unwrap().build()
}

fn acc(policy: AccPolicy) -> Acc {
    Acc {
        policy,
        margin: Fraction(50_000),
        period: PERIOD,
        packets_per_period: 1,
        rise: Fraction(500_000),
        packet: Bytes(32),
        skew: SimTime::ZERO,
    }
}

/// 10 Gbit/s on every link, as ACC's testbed, and buffers in which nothing is held up for long.
fn config(congestion: Congestion) -> NetworkConfig {
    let link = LinkConfig { rate: RATE, latency: SimTime::from_ns(100) };
    NetworkConfig {
        host_link: link,
        switch_link: link,
        global_link: link,
        mtu: Bytes(256),
        header: Bytes(32),
        pcie_rate: ByteRate(100_000_000_000),
        buffer_per_channel: Bytes(64 << 10),
        reliability: Some(Reliability {
            window: 1 << 14,
            room: 0,
            timeout: SimTime::from_us(10_000),
            retries: 20,
            ack: Bytes(16),
            delivery: Delivery::Ordered,
            unordered: 0,
            flows: 0,
            checks: Checks::default(),
            congestion,
        }),
        ..NetworkConfig::default()
    }
}

/// Starts a message for each timer, and counts the bytes of each pair and period.
#[derive(Default)]
struct Meter {
    starts: Vec<Transfer>,
    bytes: BTreeMap<(u32, u32), BTreeMap<u64, u64>>,
    /// Of a packet on its way, by period: the sum of times, and packets.
    delays: BTreeMap<u64, (u64, u64)>,
}

impl Observer for Meter {
    fn packet(&mut self, packet: &PacketArrival) {
        let pair = (packet.arrival.source, packet.arrival.target);
        let period = packet.through.as_ps() / PERIOD.as_ps();
        *self.bytes.entry(pair).or_default().entry(period).or_default() += u64::from(packet.wire);
        let (sum, packets) = self.delays.entry(period).or_default();
        *sum += (packet.through - packet.injected).as_ps();
        *packets += 1;
    }
}

impl Agent for Meter {
    type Event = ();
    type Letter = ();
    type Ports = HostPorts;

    fn timer(&mut self, _: u32, order: u32, (): (), fabric: &mut Context<'_>) {
        fabric.start(self.starts[order as usize]);
    }
}

/// Messages: when they start, from where to where, and bytes. What arrives of each pair in each period of 20 us as a
/// part of the link's rate, and the digest.
type Flow = (u64, u32, u32, u64);
type Rates = BTreeMap<(u32, u32), Vec<f64>>;

fn run(config: &NetworkConfig, regions: Vec<u32>, threads: usize, flows: &[Flow], until: SimTime) -> (Rates, u64) {
    let (rates, _, digest) = run_with_delays(config, regions, threads, flows, until);
    (rates, digest)
}

/// With the mean time of packets in each period.
fn run_with_delays(
    config: &NetworkConfig,
    regions: Vec<u32>,
    threads: usize,
    flows: &[Flow],
    until: SimTime,
) -> (Rates, Vec<SimTime>, u64) {
    let starts: Vec<Transfer> = (0..)
        .zip(flows)
        .map(|(id, &(_, source, target, payload))| Transfer {
            id: TransferId(id),
            source,
            target,
            virtual_network: 0,
            payload: Bytes(payload),
            source_dma: true,
            target_dma: true,
            route: 0,
        })
        .collect();
    let meter = |_: &[u32]| Meter { starts: starts.clone(), ..Meter::default() };
    let mut fabric = Fabric::with_regions(config, tree(), regions, meter).unwrap();
    for (order, &(at, source, _, _)) in (0..).zip(flows) {
        fabric.timer(SimTime::from_us(at), source, order, ());
    }
    fabric.run_until(until, threads);
    fabric.audit().unwrap();
    let full = RATE.0 as f64 * PERIOD.as_ps() as f64 / 1e12;
    let periods = until.as_ps() / PERIOD.as_ps();
    let mut rates = Rates::new();
    let mut delays = vec![(0, 0); periods as usize + 1];
    for meter in fabric.agents() {
        for (&period, (sum, packets)) in &meter.delays {
            if let Some(of_period) = delays.get_mut(period as usize) {
                of_period.0 += sum;
                of_period.1 += packets;
            }
        }
        for (&pair, bytes) in &meter.bytes {
            let of = |period| bytes.get(&period).copied().unwrap_or(0) as f64 / full;
            rates.insert(pair, (0..periods).map(of).collect());
        }
    }
    let delays = delays.into_iter().map(|(sum, packets)| SimTime(sum / packets.max(1))).collect();
    (rates, delays, fabric.digest())
}

fn whole() -> Vec<u32> {
    vec![0; tree().switches() as usize]
}

const LONG: u64 = 1 << 30;
/// Below the link of one incast source, and to others: the victim shares the way up with the source 4.
const VICTIM: Flow = (0, 5, 8, LONG);
const INCAST: [u32; 5] = [1, 2, 4, 8, 12];

fn incast(at: u64, bytes: u64) -> Vec<Flow> {
    INCAST.iter().map(|&source| (at, source, 0, bytes)).collect()
}

/// Between two periods.
fn mean(rates: &[f64], from: usize, to: usize) -> f64 {
    rates[from..to].iter().sum::<f64>() / (to - from) as f64
}

fn assert_near(what: &str, rate: f64, expected: f64, tolerance: f64) {
    assert!((rate / expected - 1.0).abs() < tolerance, "{what}: {rate:.4}, expected {expected:.4} within {tolerance}");
}

/// Of a link with margin m each of n sources gets (1 - m) / n, and a victim on the uplink of one of them what is left
/// of it, (1 - m)(n - 1) / n (facts 1.4). Published (RED-SEA D1.4 section 8.1): within 60 us, three periods, for those
/// that begin and those that end.
#[test]
fn an_incast_and_its_victim_get_their_max_min_shares_in_60_us() {
    for (policy, packets_per_period, margin) in
        [(AccPolicy::MindTheGap, 1, 0.05), (AccPolicy::MindTheGap, 2, 0.05), (AccPolicy::MindTheGap, 1, 0.1)]
    {
        let (margin, rise) = (Fraction((margin * 1e6) as u32), Fraction(1_000_000));
        let acc = Acc { packets_per_period, margin, rise, ..acc(policy) };
        let open = 1.0 - margin.as_f64();
        // 1.4 ms of it: it is over at about 1.6 ms.
        let flows: Vec<Flow> = [VICTIM].into_iter().chain(incast(210, 290_000)).collect();
        let (rates, _) = run(&config(Congestion::Acc(acc)), whole(), 1, &flows, SimTime::from_us(2000));
        let victim = &rates[&(5, 8)];
        assert_near("alone", mean(victim, 2, 10), open, 0.01);
        assert_near("the victim after 60 us", mean(victim, 14, 20), open * 0.8, 0.03);
        assert_near("the victim", mean(victim, 20, 60), open * 0.8, 0.01);
        for source in INCAST {
            let rate = &rates[&(source, 0)];
            // What it took of buffers before 60 us comes out of them as fast as the link can.
            assert_near("one of five after 60 us", mean(rate, 14, 20), 0.2, 0.1);
            assert_near("one of five", mean(rate, 40, 60), open * 0.2, 0.01);
        }
        // The last period in which the incast sends; then 60 us.
        let last = rates[&(4, 0)].iter().rposition(|&rate| rate > 0.0).unwrap();
        assert!(last < 85, "{last}");
        assert_near("the victim 60 us after them", mean(victim, last + 4, last + 10), open, 0.02);
    }
}

/// The default takes half of each rise: nine periods for the victim of an incast (facts 1.3), of which flows that are
/// told of at once save some.
#[test]
fn a_damped_rise_takes_nine_periods_and_saves_the_swing() {
    let flows: Vec<Flow> = [VICTIM].into_iter().chain(incast(210, LONG)).collect();
    let (rates, _) = run(&config(Congestion::Acc(acc(AccPolicy::MindTheGap))), whole(), 1, &flows, SimTime::from_us(1000));
    let victim = &rates[&(5, 8)];
    assert_near("the victim", mean(victim, 20, 50), 0.76, 0.01);
    assert!(victim[10..].iter().all(|&rate| rate < 0.95), "{victim:?}");
    // FRPs alone, at the pulses: the cut takes two loops, and buffers are full meanwhile.
    let (rates, _) = run(&config(Congestion::Acc(acc(AccPolicy::FrpOnly))), whole(), 1, &flows, SimTime::from_us(2000));
    assert_near("the victim", mean(&rates[&(5, 8)], 60, 100), 0.76, 0.01);
    assert!(mean(&rates[&(5, 8)], 10, 14) < mean(victim, 10, 14), "slower than with FRPs of flows that begin");
}

/// Without it, the buffers of the incast hold the victim up.
#[test]
fn without_it_the_victim_gets_what_the_incast_leaves() {
    let flows: Vec<Flow> = [VICTIM].into_iter().chain(incast(210, LONG)).collect();
    let (rates, _) = run(&config(Congestion::None), whole(), 1, &flows, SimTime::from_us(1000));
    assert!(mean(&rates[&(5, 8)], 30, 50) < 0.4, "{:?}", rates[&(5, 8)]);
}

/// What the flow network, which knows all links and flows, says of flows that never end: max-min fair, as parts of a
/// link's rate.
fn oracle(flows: &[Flow], open: f64) -> Vec<f64> {
    let link = LinkConfig { rate: ByteRate((RATE.0 as f64 * open) as u64), latency: SimTime::from_ns(100) };
    let kind = NetworkKind::Flow;
    let config =
        NetworkConfig { kind, host_link: link, switch_link: link, global_link: link, reliability: None, ..config(Congestion::None) };
    let mut network = Driver::new(&config, tree()).unwrap();
    for (id, &(_, source, target, payload)) in (0..).zip(flows) {
        network.start(Transfer {
            id: TransferId(id),
            source,
            target,
            virtual_network: 0,
            payload: Bytes(payload),
            source_dma: true,
            target_dma: true,
            route: 0,
        });
    }
    network.run_until(SimTime::from_us(100));
    // Of payload; on the wire they have headers.
    let wire = 288.0 / 256.0 / RATE.0 as f64;
    network.flow_rates().into_iter().map(|(_, rate)| rate as f64 * wire).collect()
}

fn dcqcn() -> NetworkConfig {
    let dcqcn = Dcqcn {
        interval: SimTime::from_us(50),
        packet: Bytes(84),
        gain: Fraction(3906),
        alpha_timer: SimTime::from_us(55),
        increase_timer: SimTime::from_us(55),
        byte_counter: Bytes(10_000_000),
        additive_increase: Fraction(4_000),
        hyper_increase: Fraction(40_000),
    };
    let ecn = Some(Ecn { min: Bytes(5_000), max: Bytes(200_000), probability: Fraction(10_000) });
    NetworkConfig { ecn, mtu: Bytes(1000), buffer_per_channel: Bytes(1 << 20), ..config(Congestion::Dcqcn(dcqcn)) }
}

/// Zhu et al., CoNEXT 2016, theorem 1: there is one fixed point, at which all flows have the same rate and the queue is
/// between the thresholds. Flows that begin one after the other come to it (SIGCOMM 2015, figure 10 has it with two).
#[test]
fn dcqcn_shares_a_link_with_a_queue_between_its_thresholds() {
    let flows: Vec<Flow> = [1, 2, 4, 8].iter().enumerate().map(|(at, &source)| (at as u64 * 1000, source, 0, LONG)).collect();
    let (rates, delays, _) = run_with_delays(&dcqcn(), whole(), 1, &flows, SimTime::from_us(60_000));
    let shares: Vec<f64> = rates.values().map(|rates| mean(rates, 1500, 3000)).collect();
    let all: f64 = shares.iter().sum();
    assert!(all > 0.95 && all <= 1.0, "the link is used: {all}");
    assert!(all * all / (4.0 * shares.iter().map(|share| share * share).sum::<f64>()) > 0.98, "Jain's index of {shares:?}");
    // 5 to 200 KB at 1.25 GB/s are 4 to 160 us; without a queue a packet takes below 5 us.
    let late: Vec<SimTime> = delays[1500..3000].to_vec();
    let mean = SimTime(late.iter().map(|delay| delay.as_ps()).sum::<u64>() / late.len() as u64);
    assert!((SimTime::from_us(4)..SimTime::from_us(160)).contains(&mean), "{mean}");
    // Without it, what credits allow waits: the buffers of the inputs.
    let NetworkConfig { reliability, .. } = config(Congestion::None);
    let (_, delays, _) = run_with_delays(&NetworkConfig { reliability, ..dcqcn() }, whole(), 1, &flows, SimTime::from_us(60_000));
    assert!(delays[2000] > mean * 4, "{} {mean}", delays[2000]);
}

/// Senders that all begin at once are cut to a few hundredths of the link. With R_AI a thousandth of it, as the paper's
/// 40 Mbit/s are of 40 Gbit/s, each gains 18 thousandths of a link of 400 Gbit/s in a millisecond of timers of 55 us,
/// so that 7 have all of it after 8 ms.
#[test]
fn dcqcn_uses_fast_links_too() {
    let rate = 50_000_000_000;
    for sources in [7, 12] {
        let link = LinkConfig { rate: ByteRate(rate), latency: SimTime::from_ns(100) };
        let mut config = NetworkConfig { host_link: link, switch_link: link, mtu: Bytes(4096), ..dcqcn() };
        let Some(Reliability { congestion: Congestion::Dcqcn(of_paper), .. }) = &mut config.reliability else { panic!("the helper's own") };
        (of_paper.additive_increase, of_paper.hyper_increase) = (Fraction(1_000), Fraction(10_000));
        let flows: Vec<Flow> = (1..=sources).map(|source| (0, source, 0, LONG)).collect();
        let (rates, _) = run(&config, whole(), 1, &flows, SimTime::from_us(12_000));
        // As parts of `RATE`.
        let used: f64 = rates.values().map(|rates| mean(rates, 400, 600)).sum::<f64>() * RATE.0 as f64 / rate as f64;
        assert!(used > 0.9 && used <= 1.0, "{sources} senders: {used}");
    }
}

#[test]
fn dcqcn_needs_marks() {
    let config = NetworkConfig { ecn: None, ..dcqcn() };
    assert_eq!(config.check(&tree()).unwrap_err(), ConfigError::MarksMissing { control: "dcqcn" });
}

/// Packets of 1032 B, and marks above a queue of 60 of them.
fn dctcp() -> NetworkConfig {
    let threshold = Bytes(60 * 1032);
    let ecn = Some(Ecn { min: threshold, max: threshold, probability: Fraction(1_000_000) });
    let congestion = Congestion::Dctcp(Dctcp { gain: Fraction(62_500) });
    NetworkConfig { ecn, mtu: Bytes(1000), buffer_per_channel: Bytes(1 << 20), ..config(congestion) }
}

/// Alizadeh et al., SIGCOMM 2010, section 3.3: of N flows with windows W = (C T + K) / N when marks begin, alpha^2 (1 -
/// alpha / 4) = (2 W + 1) / (W + 1)^2, and the queue swings between K + N packets and N (W + 1) alpha / 2 fewer. That
/// is where switches mark what arrives. Ours mark what leaves, so that a mark comes back without the time of the queue:
/// the queue stays at K, and swings by less.
#[test]
fn dctcp_keeps_its_queue_at_the_threshold() {
    for sources in [&[4, 8][..], &[4, 8, 12]] {
        let flows: Vec<Flow> = sources.iter().map(|&source| (0, source, 0, LONG)).collect();
        let (rates, delays, _) = run_with_delays(&dctcp(), whole(), 1, &flows, SimTime::from_us(40_000));
        let count = sources.len() as f64;
        let shares: Vec<f64> = rates.values().map(|rates| mean(rates, 500, 2000)).collect();
        assert_near("the link", shares.iter().sum(), 1.0, 0.005);
        shares.iter().for_each(|&share| assert_near("a flow", share, 1.0 / count, 0.05));
        let packet = RATE.time_for(Bytes(1032)).as_ps() as f64;
        // Of an empty network: the way of a packet, and that of an acknowledgement.
        let alone = Driver::new(&NetworkConfig { reliability: None, ..dctcp() }, tree()).unwrap();
        let way = |bytes: u64| {
            let (payload, dma) = (Bytes(bytes), bytes > 0);
            let message = Transfer {
                id: TransferId(0),
                source: 4,
                target: 0,
                virtual_network: 0,
                payload,
                source_dma: dma,
                target_dma: dma,
                route: 0,
            };
            alone.zero_load(&message).tail.as_ps() as f64 / packet
        };
        let window = (way(1000) + way(0) + 60.0) / count;
        let wanted = (2.0 * window + 1.0) / (window + 1.0).powi(2);
        let mut alpha = wanted.sqrt();
        (0..20).for_each(|_| alpha = (wanted / (1.0 - alpha / 4.0)).sqrt());
        let swing = count * (window + 1.0) * alpha / 2.0;
        let queue: Vec<f64> = delays[500..2000].iter().map(|delay| delay.as_ps() as f64 / packet - way(1000)).collect();
        assert_near("the queue", queue.iter().sum::<f64>() / queue.len() as f64, 60.0, 0.05);
        let (least, most) = (queue.iter().copied().fold(f64::INFINITY, f64::min), queue.iter().copied().fold(0.0, f64::max));
        assert!(most - least < swing && most < 60.0 + 2.0 * count, "{least} to {most}, at most {swing}");
    }
}

#[test]
fn dctcp_needs_marks() {
    let config = NetworkConfig { ecn: None, ..dctcp() };
    assert_eq!(config.check(&tree()).unwrap_err(), ConfigError::MarksMissing { control: "dctcp" });
}

fn swift(base_target: SimTime) -> NetworkConfig {
    let swift = Swift {
        base_target,
        per_hop: SimTime::ZERO,
        flow_range: SimTime::ZERO,
        additive_increase: Fraction(1_000_000),
        beta: Fraction(800_000),
        most_decrease: Fraction(500_000),
    };
    NetworkConfig { buffer_per_channel: Bytes(1 << 20), ..config(Congestion::Swift(swift)) }
}

/// Swift keeps the time until an acknowledgement at its target (SIGCOMM 2020, section 3.1 and figure 11): with the link
/// full, packets wait for what the target leaves above the time of an empty network.
#[test]
fn swift_keeps_delays_at_its_target() {
    for target in [SimTime::from_us(20), SimTime::from_us(50)] {
        // They meet at one switch, each at an input of its own: inputs take turns.
        let flows: Vec<Flow> = [4, 8, 12].iter().map(|&source| (0, source, 0, LONG)).collect();
        let (rates, delays, _) = run_with_delays(&swift(target), whole(), 1, &flows, SimTime::from_us(20_000));
        let shares: Vec<f64> = rates.values().map(|rates| mean(rates, 500, 1000)).collect();
        assert_near("the link", shares.iter().sum(), 1.0, 0.01);
        assert!(shares.iter().all(|share| (share * 3.0 - 1.0).abs() < 0.1), "{shares:?}");
        let mean = delays[500..1000].iter().map(|delay| delay.as_ps()).sum::<u64>() as f64 / 500.0;
        // Less the way of the acknowledgement, below a microsecond.
        assert_near("delay", mean, target.as_ps() as f64, 0.1);
    }
}

/// 15 to 1 with a target that leaves less than a packet for each: windows below 1, and the link still full.
#[test]
fn swift_paces_windows_below_a_packet() {
    let flows: Vec<Flow> = (1..16).map(|source| (0, source, 0, LONG)).collect();
    let (rates, delays, _) = run_with_delays(&swift(SimTime::from_us(3)), whole(), 1, &flows, SimTime::from_us(20_000));
    let all: f64 = rates.values().map(|rates| mean(rates, 500, 1000)).sum();
    let mean = SimTime(delays[500..1000].iter().map(|delay| delay.as_ps()).sum::<u64>() / 500);
    // Fifteen packets are 3.5 us on the link.
    assert!(all > 0.9 && mean < SimTime::from_us(6), "{all} {mean}");
}

fn nscc(delivery: Delivery) -> NetworkConfig {
    let nscc = Nscc { round_trip: SimTime::from_us(6), target: SimTime::from_us(6) };
    // The specification's thresholds: 0.2 and 0.8 of what is on the way in a round trip of 6 us, 7.5 KB.
    let ecn = Some(Ecn { min: Bytes(1_500), max: Bytes(6_000), probability: Fraction(1_000_000) });
    let mut config = NetworkConfig { ecn, mtu: Bytes(512), buffer_per_channel: Bytes(1 << 20), ..config(Congestion::Nscc(nscc)) };
    config.reliability.as_mut().unwrap().delivery = delivery;
    config
}

/// Flows on one link fill it, get the same, and keep what waits near the target: marks of the link and a delay above
/// it make windows smaller, no marks or a shorter one larger (section 3.6.13).
#[test]
fn nscc_shares_a_link_and_keeps_its_queue_short() {
    for delivery in [Delivery::Ordered, Delivery::Unordered] {
        let flows: Vec<Flow> = [4, 8, 12].iter().map(|&source| (0, source, 0, LONG)).collect();
        let (rates, delays, _) = run_with_delays(&nscc(delivery), whole(), 1, &flows, SimTime::from_us(20_000));
        let shares: Vec<f64> = rates.values().map(|rates| mean(rates, 500, 1000)).collect();
        let all: f64 = shares.iter().sum();
        assert!(all > 0.97 && all < 1.001, "the link is used: {all}");
        assert!(all * all / (3.0 * shares.iter().map(|share| share * share).sum::<f64>()) > 0.98, "Jain's index of {shares:?}");
        let mean = SimTime(delays[500..1000].iter().map(|delay| delay.as_ps()).sum::<u64>() / 500);
        // The way, and up to twice the target.
        assert!((SimTime::from_us(2)..SimTime::from_us(18)).contains(&mean), "{mean}");
    }
}

/// Packets of one flow take all ways up a tree, so that three flows of one leaf fill a link each. The ways of their
/// targets are one.
#[test]
fn sprayed_packets_use_all_ways() {
    let flows: Vec<Flow> = [(4, 0), (5, 8), (6, 12)].iter().map(|&(source, target)| (0, source, target, LONG)).collect();
    let shares = |routing| -> Vec<f64> {
        let config = NetworkConfig { routing, ..nscc(Delivery::Unordered) };
        let (rates, _, _) = run_with_delays(&config, whole(), 1, &flows, SimTime::from_us(10_000));
        rates.values().map(|rates| mean(rates, 250, 500)).collect()
    };
    let (sprayed, fixed) = (shares(RoutingKind::Adaptive), shares(RoutingKind::DModK));
    assert!(sprayed.iter().all(|&share| share > 0.9), "{sprayed:?}");
    assert_near("one link", fixed.iter().sum(), 1.0, 0.05);
}

fn hpcc(delivery: Delivery) -> NetworkConfig {
    let hpcc = Hpcc { round_trip: SimTime::from_us(6), utilization: Fraction(950_000), max_stage: 5, flows: 10 };
    let mut config = NetworkConfig { telemetry: true, buffer_per_channel: Bytes(1 << 20), ..config(Congestion::Hpcc(hpcc)) };
    config.reliability.as_mut().unwrap().delivery = delivery;
    config
}

/// Where U does not change, W = W eta / U + W_AI. Of n flows with windows of the same size, W = U B T / n, on a link
/// without a queue: U = eta + n W_AI / (B T) = eta + (1 - eta) n / N (Li et al., SIGCOMM 2019, section 3.3: up to N
/// flows have no queue).
#[test]
fn hpcc_fills_a_link_up_to_its_target_without_a_queue() {
    for (delivery, sources) in [(Delivery::Ordered, 1u32), (Delivery::Ordered, 3), (Delivery::Unordered, 3)] {
        // Below one switch, so that one link is the busiest. They begin one after the other.
        let flows: Vec<Flow> = (1..=sources).map(|source| (u64::from(source) * 500, source, 0, LONG)).collect();
        let (rates, delays, _) = run_with_delays(&hpcc(delivery), whole(), 1, &flows, SimTime::from_us(20_000));
        let shares: Vec<f64> = rates.values().map(|rates| mean(rates, 500, 1000)).collect();
        let expected = 0.95 + 0.05 * f64::from(sources) / 10.0;
        assert_near("the link", shares.iter().sum(), expected, 0.01);
        for share in shares {
            assert_near("a flow", share, expected / f64::from(sources), 0.02);
        }
        let mean = SimTime(delays[500..1000].iter().map(|delay| delay.as_ps()).sum::<u64>() / 500);
        // Two links with 0.23 us on the wire and 0.1 us each, a switch, PCIe, and others' packets.
        assert!(mean < SimTime::from_ns(1_500), "{mean}");
    }
}

/// Eight flows that begin at once: after a round trip the queue of their first windows is cut, and later there is none.
#[test]
fn hpcc_cuts_the_queue_of_an_incast_in_some_round_trips() {
    let flows: Vec<Flow> = (4..12).map(|source| (0, source, 0, LONG)).collect();
    let (rates, delays, _) = run_with_delays(&hpcc(Delivery::Ordered), whole(), 1, &flows, SimTime::from_us(10_000));
    let (_, without, _) = run_with_delays(&config(Congestion::None), whole(), 1, &flows, SimTime::from_us(1_000));
    let (first, later) = (delays[1], delays[250]);
    assert!(later * 4 < first && later < SimTime::from_us(4), "{first}, later {later}");
    assert!(without[40] > later * 10, "{} {later}", without[40]);
    let all: f64 = rates.values().map(|rates| mean(rates, 250, 500)).sum();
    assert!(all > 0.9 && all <= 1.0, "{all}");
}

#[test]
fn hpcc_needs_telemetry() {
    let config = NetworkConfig { telemetry: false, ..hpcc(Delivery::Ordered) };
    assert_eq!(config.check(&tree()).unwrap_err(), ConfigError::TelemetryMissing { control: "hpcc" });
}

fn sperc(margin: f64, round: u64) -> NetworkConfig {
    let sperc = Sperc { margin: Fraction((margin * 1e6) as u32), round: SimTime::from_us(round), packet: Bytes(16) };
    config(Congestion::Sperc(sperc))
}

/// The shares of facts 1.4, again: exact, some rounds after the incast has begun, and after it has ended.
#[test]
fn s_perc_gives_an_incast_and_its_victim_their_shares() {
    let flows: Vec<Flow> = [VICTIM].into_iter().chain(incast(210, 290_000)).collect();
    let (rates, _) = run(&sperc(0.05, 10), whole(), 1, &flows, SimTime::from_us(2000));
    let victim = &rates[&(5, 8)];
    assert_near("alone", mean(victim, 2, 10), 0.95, 0.003);
    assert_near("the victim after 50 us", mean(victim, 13, 60), 0.76, 0.003);
    for source in INCAST {
        // What the first round let into buffers comes out of them as fast as the link can.
        assert_near("one of five", mean(&rates[&(source, 0)], 40, 60), 0.19, 0.005);
    }
    let last = rates[&(4, 0)].iter().rposition(|&rate| rate > 0.0).unwrap();
    assert_near("the victim 40 us after them", mean(victim, last + 3, last + 10), 0.95, 0.005);
}

/// A flow that is given up leaves nothing behind: its control packets end, and the next message begins anew.
#[test]
fn a_flow_that_is_given_up_asks_for_nothing_more() {
    let Some(Reliability { congestion: granted, .. }) = sperc(0.05, 10).reliability else { panic!("the helper's own") };
    for congestion in [granted, Congestion::Acc(acc(AccPolicy::FrpInit)), Congestion::Acc(acc(AccPolicy::WaitForFeedback))] {
        let mut config = config(congestion);
        // Shorter than the way there and back, and no second try.
        let reliability = config.reliability.as_mut().unwrap();
        (reliability.timeout, reliability.retries) = (SimTime::from_us(1), 0);
        let mut network = Driver::new(&config, tree()).unwrap();
        let message = |id: u32| Transfer {
            id: TransferId(id),
            source: 0,
            target: 5,
            virtual_network: 0,
            payload: Bytes(LONG),
            source_dma: true,
            target_dma: true,
            route: 0,
        };
        network.start(message(0));
        network.run_until(SimTime::from_us(1_000));
        assert_eq!(network.undelivered().len(), 1);
        assert!(!network.step(), "{congestion:?}: something goes on after {}", network.now());
        // Control packets and more than one packet of it go, though nobody keeps them.
        let before = network.statistics();
        network.start(Transfer { payload: Bytes(100_000), ..message(1) });
        network.run_until(SimTime::from_us(2_000));
        let after = network.statistics();
        assert!(after.control_packets > before.control_packets && after.packets >= before.packets + 391, "{congestion:?}: {after:?}");
        assert!(!network.step(), "{congestion:?}: something goes on after {}", network.now());
    }
}

/// A control for each class: messages one after the other, at a tenth of the link, as fast as it is, at what ACC
/// leaves of it, and as fast again where DCQCN sees no marks.
#[test]
fn each_virtual_network_may_have_its_own_control() {
    let Congestion::Dcqcn(numbers) = dcqcn().reliability.unwrap().congestion else { panic!("the helper's own") };
    let others = [(1, Congestion::None), (2, Congestion::Acc(acc(AccPolicy::WaitForFeedback))), (3, Congestion::Dcqcn(numbers))];
    let config =
        NetworkConfig { congestion_of: BTreeMap::from(others), ecn: dcqcn().ecn, ..config(Congestion::Throttle(ByteRate(RATE.0 / 10))) };
    let mut network = Driver::new(&config, tree()).unwrap();
    let mut time = |virtual_network: u8| {
        let begin = network.now();
        let (id, payload) = (TransferId(u32::from(virtual_network)), Bytes(256_000));
        network.start(Transfer { id, source: 0, target: 5, virtual_network, payload, source_dma: true, target_dma: true, route: 0 });
        network.run();
        // Timers go on for longer.
        let end = network.notices().last().unwrap().0;
        (end - begin).as_s_f64()
    };
    let wire = 288_000.0 / RATE.0 as f64;
    assert_near("in the class", time(0), wire * 10.0, 0.02);
    assert_near("without", time(1), wire, 0.02);
    assert_near("with ACC", time(2), wire / 0.95, 0.02);
    assert_near("with DCQCN", time(3), wire, 0.02);
}

#[test]
fn the_same_control_has_the_same_numbers_everywhere() {
    let slow = Congestion::Acc(Acc { period: PERIOD * 2, ..acc(AccPolicy::FrpInit) });
    let with = |network: u8| NetworkConfig {
        congestion_of: BTreeMap::from([(network, slow)]),
        ..config(Congestion::Acc(acc(AccPolicy::FrpInit)))
    };
    for (network, expected) in [(1, "the same numbers in all virtual networks"), (9, "one that is there")] {
        let text = with(network).check(&tree()).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn s_perc_says_what_it_needs() {
    let refused = |config: NetworkConfig| match config.check(&tree()).unwrap_err() {
        ConfigError::PercNeeds { what } => what,
        other => panic!("{other}"),
    };
    let loss = narrows_fabric::Fault { loss: narrows_fabric::Probability::new(1e-6).unwrap(), ..Default::default() };
    assert_eq!(refused(NetworkConfig { faults: vec![loss], ..sperc(0.05, 10) }), "control packets that are never lost");
    let spread = NetworkConfig { routing: RoutingKind::Adaptive, ..sperc(0.05, 10) };
    assert_eq!(refused(spread), "packets of a flow that all go the same way");
    let long = narrows_topology::FatTree::k_ary_n_tree(2, 5).unwrap().build();
    assert_eq!(sperc(0.05, 10).check(&long).unwrap_err(), ConfigError::PercNeeds { what: "ways of at most 8 links" });
}

/// Whether some flow does not get what the oracle gives it, within 3 %, with so many FRPs a period.
fn is_wrong(policy: AccPolicy, packets_per_period: u32, seed: u64, skew: SimTime, flows: &[Flow]) -> bool {
    let acc = Acc { margin: Fraction(100_000), skew, packets_per_period, ..acc(policy) };
    let mut config = NetworkConfig { seed, ..config(Congestion::Acc(acc)) };
    config.reliability.as_mut().unwrap().ack = Bytes(1);
    let (rates, _) = run(&config, whole(), 1, flows, SimTime::from_us(1600));
    let far = |(&(_, source, target, _), expected): (&Flow, f64)| (mean(&rates[&(source, target)], 60, 80) / expected - 1.0).abs() > 0.03;
    flows.iter().zip(oracle(flows, 0.9)).any(far)
}

/// A link that looks only at who has granted a rate may count one of its flows among those that others limit, and give
/// too much away: here two links limit a flow to the same share. Rates may stay wrong (RED-SEA D1.4 section 8.1).
#[test]
fn mind_the_gap_is_for_flows_that_two_links_limit() {
    let flows: Vec<Flow> = [(2, 14), (3, 6), (8, 6), (8, 14), (10, 6)].map(|(from, to)| (0, from, to, LONG)).into();
    let wrong = |policy| (0..20).filter(|&seed| is_wrong(policy, 1, seed, SimTime::from_ns(100 * seed), &flows)).count();
    assert!(wrong(AccPolicy::FrpInit) > 0);
    assert_eq!(wrong(AccPolicy::MindTheGap), 0);
    // A second FRP a period makes it rarer, no more.
    let mut flows: Vec<Flow> =
        [(0, 2), (0, 3), (0, 10), (1, 3), (7, 2), (7, 12), (9, 6), (9, 8)].map(|(from, to)| (0, from, to, LONG)).into();
    flows.extend([(9, 12), (9, 14), (11, 10), (13, 3), (13, 12), (14, 10), (15, 10)].map(|(from, to)| (0, from, to, LONG)));
    let wrong = |policy| is_wrong(policy, 2, 11_777_459_189_211_204_348, SimTime::from_ns(1356), &flows);
    assert!(wrong(AccPolicy::FrpInit) && !wrong(AccPolicy::MindTheGap));
}

/// It is rare: with one FRP a period 4 of 400 sets of random flows, with two fewer, and none of 600 with mind-the-gap.
#[test]
fn without_mind_the_gap_rates_are_nearly_always_max_min_fair() {
    let is_wrong = |packets_per_period, seed: u64| {
        let mut random = narrows_engine::stream(seed, "flows", 0);
        let pairs: BTreeSet<(u32, u32)> = (0..random.below(28) + 4).map(|_| (random.below(16) as u32, random.below(16) as u32)).collect();
        let flows: Vec<Flow> = pairs.into_iter().filter(|(from, to)| from != to).map(|(from, to)| (0, from, to, LONG)).collect();
        is_wrong(AccPolicy::FrpInit, packets_per_period, seed, SimTime::from_ns(random.below(2_000)), &flows)
    };
    for packets_per_period in [1, 2] {
        assert!((0..60).filter(|&seed| is_wrong(packets_per_period, seed)).count() <= 2, "{packets_per_period} FRPs a period");
    }
}

/// Flows between the pairs get what the oracle gives them, within so much of it, and everything is the same however the
/// network is cut and on two threads.
fn finds_the_oracles_rates(config: &NetworkConfig, pairs: BTreeSet<(u32, u32)>, within: f64) -> Result<(), TestCaseError> {
    let flows: Vec<Flow> = pairs.into_iter().filter(|(from, to)| from != to).map(|(from, to)| (0, from, to, LONG)).collect();
    let until = SimTime::from_us(1600);
    let (rates, digest) = run(config, whole(), 1, &flows, until);
    for (&(_, source, target, _), expected) in flows.iter().zip(oracle(&flows, 0.9)) {
        let rate = mean(&rates[&(source, target)], 60, 80);
        prop_assert!((rate / expected - 1.0).abs() < within, "{source} to {target}: {rate:.4}, expected {expected:.4}");
    }
    let switches = tree().switches();
    let cut = (0..switches).map(|switch| switch % 3).collect();
    prop_assert_eq!(run(config, cut, 2, &flows, until), (rates.clone(), digest));
    prop_assert_eq!(run(config, (0..switches).collect(), 1, &flows, until), (rates, digest));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    /// As below, and nearer, with s-PERC: the rates of flows are those that links have granted.
    #[test]
    fn s_perc_finds_the_rates_of_the_oracle(
        pairs in proptest::collection::btree_set((0u32..16, 0u32..16), 4..32),
        (round, seed) in (5u64..25, any::<u64>()),
    ) {
        let mut config = NetworkConfig { seed, ..sperc(0.1, round) };
        config.reliability.as_mut().unwrap().ack = Bytes(1);
        finds_the_oracles_rates(&config, pairs, 0.01)?;
    }

    /// Any flows get what an oracle gives them, and everything is the same however the network is cut and on two
    /// threads.
    #[test]
    fn rates_become_max_min_fair(
        pairs in proptest::collection::btree_set((0u32..16, 0u32..16), 4..32),
        packets_per_period in 1u32..=2,
        policy in prop_oneof![Just(AccPolicy::FrpInit), Just(AccPolicy::MindTheGap), Just(AccPolicy::WaitToRise)],
        (skew, seed) in (0u64..2_000, any::<u64>()),
    ) {
        // Acknowledgements take some of the links, too.
        let acc = Acc { packets_per_period, margin: Fraction(100_000), skew: SimTime::from_ns(skew), ..acc(policy) };
        let mut config = NetworkConfig { seed, ..config(Congestion::Acc(acc)) };
        config.reliability.as_mut().unwrap().ack = Bytes(1);
        // See `without_mind_the_gap_rates_are_nearly_always_max_min_fair`.
        let within = if policy == AccPolicy::FrpInit { f64::INFINITY } else { 0.03 };
        finds_the_oracles_rates(&config, pairs, within)?;
    }
}
