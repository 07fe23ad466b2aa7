//! Results whose value is known beforehand. Each assertion prints what was expected.

use narrows_fabric::{
    Acc, AccPolicy, Checks, Congestion, Delivery, Fraction, NetworkConfig, NetworkKind, Reliability, Transfer, TransferId,
};
use narrows_topology::{Arrangement, Dragonfly, FatTree, RoutingKind, Topology};
use narrows_traffic::{Class, Flow, Injection, Point, Setup, Simulation, Sizes, SlowDown, Times, Work};
use narrows_units::{Bytes, SimTime};

fn one_switch(hosts: u32) -> Topology {
    FatTree::one_switch(hosts).unwrap().build()
}

fn class(text: &str) -> Class {
    Class::parse(text).unwrap()
}

fn setup(topology: Topology, classes: &[&str], time_us: u64) -> Setup {
    let work = Work::Classes(classes.iter().map(|text| class(text)).collect());
    Setup {
        warmup: Some(SimTime::from_us(50)),
        time: Some(SimTime::from_us(time_us)),
        ..Setup::new(NetworkConfig::default(), topology, work)
    }
}

fn run(setup: &Setup, load: Option<f64>) -> Point {
    Simulation::new(setup, load).unwrap().run(&mut |_, _| true).unwrap()
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, expected {expected} within {} %", tolerance * 100.0);
}

/// Picoseconds of a full packet on the host link.
fn packet_time() -> f64 {
    let config = NetworkConfig::default();
    config.host_link.rate.time_for(config.packet()).as_ps() as f64
}

#[test]
fn all_that_is_offered_is_accepted_below_saturation() {
    for injection in ["bernoulli", "poisson", "on-off:8"] {
        for load in [0.1, 0.4, 0.7] {
            let text = format!("pattern=uniform injection={injection}");
            let point = run(&setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &[&text], 2000), Some(load));
            // 16 sources and 10,670 slots: one standard error is 0.9 % of a load of 0.1 for Bernoulli, and more for
            // bursts of 8.
            near(&format!("{injection}, offered"), point.offered, load, if injection == "on-off:8" { 0.12 } else { 0.035 });
            near(&format!("{injection}, accepted"), point.accepted, point.offered, 0.01);
            assert!(!point.saturated && point.unfinished() == 0, "{injection} at {load}");
        }
    }
}

#[test]
fn one_queue_waits_as_karol_says() {
    // Sources of Bernoulli slots to one output of a switch: (N - 1) / N x rho / (2 (1 - rho)) packet times (Karol,
    // Hluchyj and Morgan, IEEE Transactions on Communications 35, 1987, for slots that begin together; M/D/1 for many
    // sources). Ours begin at random phases.
    let (hosts, sources) = (33, 32.0);
    for rho in [0.3, 0.6, 0.8] {
        let point = run(&setup(one_switch(hosts), &["pattern=incast:32"], 20_000), Some(rho / sources));
        let fastest = alone(one_switch(hosts), 2048);
        let waited = Times::of(&point.fct()).unwrap().mean * 1e3 - fastest;
        let expected = (sources - 1.0) / sources * rho / (2.0 * (1.0 - rho)) * packet_time();
        near(&format!("wait at {rho}"), waited, expected, 0.06);
    }
}

/// Picoseconds of a message alone between nodes 1 and 0.
fn alone(topology: Topology, bytes: u64) -> f64 {
    let network = narrows_port::Driver::new(&NetworkConfig::default(), topology).unwrap();
    network.zero_load(&transfer(bytes)).tail.as_ps() as f64
}

fn transfer(bytes: u64) -> Transfer {
    Transfer {
        id: TransferId(0),
        source: 1,
        target: 0,
        virtual_network: 0,
        payload: Bytes(bytes),
        source_dma: false,
        target_dma: false,
        route: 0,
    }
}

#[test]
fn messages_of_a_quiet_network_take_what_they_take_alone() {
    let mut setup = setup(one_switch(4), &["pattern=shift:1"], 2000);
    setup.work = Work::Classes(vec![Class { sizes: Some(Sizes::Fixed(Bytes(10_000))), ..class("pattern=shift:1") }]);
    let point = run(&setup, Some(0.001));
    let expected = alone(one_switch(4), 10_000) / 1e3;
    let fct = Times::of(&point.fct()).unwrap();
    assert!((fct.p50 / expected - 1.0).abs() < 0.001, "{} ns, alone {expected} ns", fct.p50);
}

/// A flow's completion time is a multiple of that on an empty network: 1 where it is alone, 2 where two share a link.
#[test]
fn slow_downs_are_those_of_sharing() {
    let quiet = run(&setup(one_switch(4), &["pattern=shift:1 size=uniform:1KiB,64KiB"], 20_000), Some(0.001));
    let slow = SlowDown::of(&quiet.classes[0].slow_down).unwrap();
    assert!((slow.p50 - 1.0).abs() < 0.002, "{slow:?}");
    let flow = |source| Flow { start: SimTime::ZERO, source, target: 0, bytes: 8 << 20 };
    let shared = run(&Setup::new(NetworkConfig::default(), one_switch(4), Work::Flows(vec![flow(1), flow(2)])), None);
    let slow = SlowDown::of(&shared.classes[0].slow_down).unwrap();
    assert!((slow.p99 - 2.0).abs() < 0.02 && (slow.p50 - 2.0).abs() < 0.02, "{slow:?}");
    assert!(SlowDown::of(&run(&setup(one_switch(4), &["pattern=shift:1"], 100), Some(0.1)).classes[0].slow_down).is_none());
}

/// An incast of three through one uplink and of one beside it: the switch gives each input a half, ACC each flow a
/// quarter of what its margin leaves; Jain's index is (sum of x)^2 / (n times sum of x^2).
#[test]
fn rates_of_flows_and_their_fairness() {
    let with = |congestion| {
        let mut setup = setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &["pattern=incast:15"], 1000);
        setup.work = Work::Classes(vec![class("pattern=incast:15 sources=1,4,8,12 load=1")]);
        setup.period = Some(SimTime::from_us(50));
        setup.warmup = Some(SimTime::from_us(500));
        setup.network.reliability = Some(Reliability {
            window: 1024,
            room: 0,
            timeout: SimTime::from_us(10_000),
            retries: 7,
            ack: Bytes(84),
            delivery: Delivery::Ordered,
            unordered: 0,
            flows: 0,
            checks: Checks::default(),
            congestion,
        });
        run(&setup, None)
    };
    let host = NetworkConfig::default().host_link.rate.as_f64() * 50e-6;
    let rates = |point: &Point| -> Vec<f64> {
        let rows = &point.telemetry.as_ref().unwrap().flow_rows;
        let of = |source| {
            let of_window = rows.iter().filter(|row| row.source == source && row.target == 0 && (10..30).contains(&row.period));
            of_window.map(|row| row.bytes as f64).sum::<f64>() / 20.0 / host
        };
        [1, 4, 8, 12].map(of).to_vec()
    };
    let period = SimTime::from_us(50);
    let unfair = with(Congestion::None);
    let (one, others) = (rates(&unfair)[0], rates(&unfair)[1..].iter().sum::<f64>());
    near("beside the uplink", one, 0.5, 0.02);
    near("through it", others, 0.5, 0.02);
    near("Jain's index", unfair.fairness(period).unwrap(), 1.0 / (4.0 * (0.25 + 3.0 / 36.0)), 0.02);
    let acc = Acc {
        policy: AccPolicy::MindTheGap,
        margin: Fraction(50_000),
        period: SimTime::from_us(20),
        packets_per_period: 1,
        rise: Fraction(500_000),
        packet: Bytes(32),
        skew: SimTime::ZERO,
    };
    let fair = with(Congestion::Acc(acc));
    rates(&fair).iter().for_each(|&rate| near("with ACC", rate, 0.95 / 4.0, 0.01));
    near("Jain's index with ACC", fair.fairness(period).unwrap(), 1.0, 0.001);
}

#[test]
fn an_incast_is_shared_evenly() {
    // Five classes of one source each, so that each is seen: a fifth for everybody.
    let texts: Vec<String> = (1..=5).map(|source| format!("name=s{source} pattern=incast:5 sources={source} load=1")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let point = run(&setup(one_switch(6), &texts, 1000), None);
    for class in &point.classes {
        near(&class.name, class.accepted, 0.2, 0.01);
        assert!(class.saturated);
    }
    for n in [2, 5, 9] {
        let point = run(&setup(one_switch(10), &[&format!("pattern=incast:{n}")], 1000), Some(1.0));
        near(&format!("incast of {n}"), point.accepted, 1.0 / f64::from(n), 0.01);
        assert!(point.saturated);
    }
    // Too few messages to tell a growing backlog from chance within the window, but they never end.
    let few = run(&setup(one_switch(6), &["pattern=incast:5 size=64KiB"], 100), Some(0.5));
    assert!(few.saturated && few.unfinished() > 10, "{} of {} not done", few.unfinished(), few.fct().count());
}

#[test]
fn shifts_go_through_a_fat_tree_at_full_rate() {
    // D-mod-K on a k-ary n-tree has no conflict for any shift (Zahavi 2010; fact sheet 2.5: 1.0).
    for by in [1, 4, 7] {
        let point = run(&setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &[&format!("pattern=shift:{by}")], 500), Some(1.0));
        near(&format!("shift by {by}"), point.accepted, 1.0, 0.005);
        assert!(!point.saturated, "all is accepted");
        // The window has sharp ends: 53.3 packet times of it are filled as well, whether its begin is given or found.
        // (16 whole numbers of packets: 0.2 % of chance.)
        for warmup in [Some(SimTime::from_us(50)), None] {
            let short = Setup { warmup, ..setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &[&format!("pattern=shift:{by}")], 10) };
            near("ten microseconds", run(&short, Some(1.0)).accepted, 1.0, 0.008);
        }
    }
}

#[test]
fn an_adversarial_pattern_gets_the_share_of_its_links() {
    // A tree whose leaves have 8 hosts and 2 links up: the whole of each leaf's traffic leaves it, so 2 / 8.
    let tree = || FatTree::pgft(&[8, 4], &[1, 2], &[1, 1]).unwrap().build();
    let point = run(&setup(tree(), &["pattern=adversarial:1"], 1000), Some(0.6));
    near("2 links for 8 hosts", point.accepted, 0.25, 0.02);
    assert!(point.saturated);
    let point = run(&setup(tree(), &["pattern=adversarial:1"], 1000), Some(0.2));
    assert!(!point.saturated);
}

#[test]
fn detours_of_the_dragonfly_of_342_nodes_carry_what_its_channels_allow() {
    // Fact sheet 2.5, loads of channels with infinite buffers: minimal ways to the next group 1 / 18; by Valiant 0.236
    // to the third next, where the links within groups are the limit.
    let point = |pattern: &str, routing, load: f64| {
        let topology = Dragonfly::new([3, 6, 3, 19], Arrangement::Consecutive, None).unwrap().build();
        let network = NetworkConfig {
            routing,
            virtual_channels: 4,
            virtual_networks: 1,
            buffer_per_channel: Bytes(64 << 10),
            ..NetworkConfig::default()
        };
        let pattern = format!("pattern={pattern}");
        run(&Setup { network, ..setup(topology, &[&pattern], 50) }, Some(load))
    };
    use RoutingKind::{Minimal, UgalGlobal, UgalLocal, Valiant};
    let kinds = [Minimal, Valiant, UgalLocal, UgalGlobal];
    for (pattern, of_minimal, of_valiant) in
        [("uniform", None, None), ("adversarial:1", Some(1.0 / 18.0), None), ("adversarial:3", None, Some(0.236))]
    {
        let [minimal, valiant, local, global] = kinds.map(|kind| point(pattern, kind, 1.0).accepted);
        if let Some(limit) = of_minimal {
            near(&format!("{pattern}, minimal"), minimal, limit, 0.02);
        }
        if let Some(limit) = of_valiant {
            // Far above it those send more than their share whose ways avoid the fullest links; so look just below and
            // just above.
            let (below, above) = (point(pattern, Valiant, 0.93 * limit), point(pattern, Valiant, 1.15 * limit));
            assert!(!below.saturated, "{pattern}, valiant: {} of {} below the limit", below.accepted, below.offered);
            near(&format!("{pattern}, valiant, below the limit"), below.accepted, below.offered, 0.01);
            assert!(above.saturated, "{pattern}, valiant: {} of {} above the limit", above.accepted, above.offered);
        }
        // As facts have it, within noise: finite buffers, and decisions by what is seen from afar.
        let better = minimal.max(valiant);
        assert!(local > 0.9 * better && global > 0.95 * local, "{pattern}: {minimal}, {valiant}; UGAL-L {local}, UGAL-G {global}");
    }
}

#[test]
fn a_closed_loop_has_a_round_trip_per_message() {
    let setup = setup(one_switch(4), &["pattern=shift:1 injection=closed:1 size=2KiB"], 1000);
    let point = run(&setup, None);
    let network = narrows_port::Driver::new(&NetworkConfig::default(), one_switch(4)).unwrap();
    let round = network.zero_load(&transfer(2048)).tail + network.zero_load(&Transfer { source: 0, target: 1, ..transfer(0) }).head;
    near("accepted", point.accepted, packet_time() / round.as_ps() as f64, 0.005);
    assert!(!point.saturated && point.load.is_none());
}

#[test]
fn means_of_table_sizes_reach_the_link() {
    // The rate of messages follows from the mean of the sizes; were that wrong, so would be the load.
    let mut setup = setup(one_switch(16), &["pattern=uniform size=uniform:1B,9000B"], 4000);
    let point = run(&setup, Some(0.5));
    near("uniform sizes", point.offered, 0.5, 0.02);
    setup.work = Work::Classes(vec![Class { sizes: Some("web-search".parse().unwrap()), ..class("pattern=uniform") }]);
    setup.time = Some(SimTime::from_us(400_000));
    let point = run(&setup, Some(0.3));
    // 400 ms of 16 links at 0.3: 12,800 messages of a coefficient of variation of 2: a standard error of 1.8 %.
    near("web search", point.offered, 0.3, 0.055);
    near("web search, accepted", point.accepted, point.offered, 0.05);
}

#[test]
fn queues_and_links_obey_little_and_the_load() {
    let rho = 0.6;
    let mut setup = setup(one_switch(33), &["pattern=incast:32"], 20_000);
    setup.period = Some(SimTime::from_us(20_050));
    let point = run(&setup, Some(rho / 32.0));
    let telemetry = point.telemetry.as_ref().unwrap();
    let ejection = setup.topology.ejection(0);
    let used: Vec<_> = telemetry.link_rows.iter().filter(|row| row.link == ejection && row.period == 0).collect();
    near("utilisation of the target's link", f64::from(used[0].utilisation), rho, 0.02);
    let queue: Vec<_> = telemetry.queue_rows.iter().filter(|row| row.link == ejection && row.period == 0).collect();
    // Little: packets that wait = arrivals x wait; Karol's wait as above.
    let expected = rho * 31.0 / 32.0 * rho / (2.0 * (1.0 - rho));
    near("packets that wait", f64::from(queue[0].mean_packets), expected, 0.06);
    assert_eq!(telemetry.hops.iter().enumerate().filter(|(_, count)| **count > 0).map(|(links, _)| links).collect::<Vec<_>>(), [2]);
    assert_eq!(telemetry.misrouted.iter().sum::<u64>(), 0);
}

/// Fraction of the time for which a link was busy, over all periods up to `end`.
fn utilisation(setup: &Setup, point: &Point, link: u32, end: SimTime) -> f64 {
    let period = setup.period.unwrap();
    let rows = point.telemetry.as_ref().unwrap().link_rows.iter().filter(|row| row.link == link);
    rows.map(|row| f64::from(row.utilisation)).sum::<f64>() * period.as_ps() as f64 / end.as_ps() as f64
}

#[test]
fn a_link_of_its_own_is_used_at_its_own_rate() {
    // Two nodes on either side send to the other side at 0.1 of their links: 0.2 of those, 0.8 of one with a quarter of
    // their rate.
    let graph = "hosts a 2\nlink a b bandwidth=2.775GB/s\nhosts b 2\n";
    let topology = || narrows_topology::graph_file::parse("two", graph, None).unwrap();
    for (kind, size, tolerance) in [(NetworkKind::Packet, "2KiB", 0.02), (NetworkKind::Flow, "16KiB", 0.04)] {
        let mut setup = setup(topology(), &[&format!("pattern=shift:2 size={size}")], 20_000);
        setup.network.kind = kind;
        setup.network.routing = narrows_topology::RoutingKind::Table;
        setup.period = Some(SimTime::from_us(1000));
        let point = run(&setup, Some(0.1));
        let between = setup.topology.links().iter().position(|link| link.speed == 3).unwrap() as u32;
        let end = SimTime::from_us(20_000);
        let periods = point.series.iter().map(|row| row.period + 1).max().unwrap();
        let used = |link| utilisation(&setup, &point, link, end) * 20.0 / f64::from(periods);
        near(&format!("{kind:?}: the slow link"), used(between), 0.8, tolerance);
        near(&format!("{kind:?}: a node's link"), used(0), 0.1, 2.0 * tolerance);
    }
}

#[test]
fn flows_use_what_they_carry() {
    // Two flows of 1 MiB into one link of 11.1 GB/s: all of it until both are through, half of each sender's; then two
    // small messages.
    let flow = |start_us, source, target, bytes| Flow { start: SimTime::from_us(start_us), source, target, bytes };
    let flows = vec![flow(0, 1, 0, 1 << 20), flow(0, 2, 0, 1 << 20), flow(400, 3, 0, 4096), flow(700, 3, 0, 8)];
    let wire = |bytes: u64| bytes + bytes.div_ceil(2048) * 32;
    let network = NetworkConfig { kind: NetworkKind::Flow, ..NetworkConfig::default() };
    let plain = run(&Setup::new(network.clone(), one_switch(4), Work::Flows(flows.clone())), None);
    let setup = Setup { period: Some(SimTime::from_us(50)), ..Setup::new(network, one_switch(4), Work::Flows(flows)) };
    let point = run(&setup, None);
    assert_eq!((plain.digest, plain.events), (point.digest, point.events), "looking changes nothing");
    let all = SimTime::from_us(650);
    let busy = |link| utilisation(&setup, &point, link, all);
    let share = |bytes: u64| bytes as f64 / (11.1e9 * 650e-6);
    near("the target's link", busy(setup.topology.ejection(0)), share(2 * wire(1 << 20) + wire(4096)), 1e-4);
    near("a sender's link", busy(1), share(wire(1 << 20)), 1e-4);
    near("those of the small messages", busy(3), share(wire(4096) + wire(8)), 1e-4);
    let first = point.telemetry.as_ref().unwrap().link_rows.iter().find(|row| row.link == setup.topology.ejection(0)).unwrap();
    assert!(first.utilisation > 0.999 && first.utilisation <= 1.0 && first.packets == 2, "{first:?}");
    assert!(point.telemetry.as_ref().unwrap().queue_rows.is_empty(), "flows do not queue");
}

#[test]
fn threads_and_regions_change_nothing() {
    let classes = ["name=a pattern=uniform load=0.5 size=uniform:1B,9kB", "name=b pattern=shift:5 injection=closed:2 priority=1"];
    let mut setup = setup(FatTree::k_ary_n_tree(4, 3).unwrap().build(), &classes, 60);
    setup.period = Some(SimTime::from_us(7));
    let one = run(&setup, None);
    for threads in [2, 16] {
        setup.threads = threads;
        let many = run(&setup, None);
        assert_eq!((one.digest, one.accepted, &one.series), (many.digest, many.accepted, &many.series), "{threads} threads");
        let (first, second) = (one.telemetry.as_ref().unwrap(), many.telemetry.as_ref().unwrap());
        assert_eq!((&first.queue_rows, &first.link_rows), (&second.queue_rows, &second.link_rows));
        for (class, other) in one.classes.iter().zip(&many.classes) {
            assert_eq!((Times::of(&class.fct), Times::of(&class.latency)), (Times::of(&other.fct), Times::of(&other.latency)));
        }
    }
}

#[test]
fn telemetry_and_looking_change_nothing() {
    let mut setup = setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &["pattern=uniform"], 100);
    let plain = run(&setup, Some(0.7));
    setup.period = Some(SimTime::from_us(3));
    let watched = run(&setup, Some(0.7));
    assert_eq!((plain.digest, plain.events, plain.accepted), (watched.digest, watched.events, watched.accepted));
    setup.seed = 2;
    assert_ne!(run(&setup, Some(0.7)).digest, plain.digest);
    // The series is the same count in pieces.
    let mean = watched.series.iter().filter(|row| row.period >= 17).map(|row| row.accepted).sum::<f64>()
        / watched.series.iter().filter(|row| row.period >= 17).count() as f64;
    near("mean of the series", mean, watched.accepted, 0.03);
}

#[test]
fn flows_of_a_file_finish_when_the_closed_form_says() {
    let flow = |start_us, source, target, bytes| Flow { start: SimTime::from_us(start_us), source, target, bytes };
    let flows = vec![flow(0, 1, 0, 10_000), flow(100, 2, 0, 1 << 20), flow(100, 3, 0, 1 << 20)];
    let setup = Setup::new(NetworkConfig::default(), one_switch(4), Work::Flows(flows));
    let point = run(&setup, None);
    let times: Vec<f64> = point.flows.iter().map(|flow| flow.fct.unwrap().as_ps() as f64).collect();
    assert_eq!(times[0], alone(one_switch(4), 10_000), "the first flow is alone");
    // Two of 512 packets into one link: both end when 1,024 packets are through, one of them a packet earlier.
    let both = 1024.0 * packet_time() + alone(one_switch(4), 2048) - packet_time();
    near("the later one", times[1].max(times[2]), both, 0.001);
    near("the earlier one", times[1].min(times[2]), both, 0.003);
    assert!(!point.partial && point.unfinished() == 0);
}

#[test]
fn the_three_networks_accept_the_same() {
    for kind in [NetworkKind::Packet, NetworkKind::Flow, NetworkKind::LogGp] {
        let mut setup = setup(one_switch(8), &["pattern=permutation size=64KiB"], 5000);
        setup.network.kind = kind;
        let point = run(&setup, Some(0.6));
        near(&format!("{kind:?}"), point.accepted, 0.6, 0.03);
        assert!(!point.saturated, "{kind:?}");
    }
}

#[test]
fn adaptive_routing_spreads_a_permutation() {
    // A random permutation has conflicts under D-mod-K; with adaptive ways up only the ways down are left to chance.
    let mut setup = setup(FatTree::k_ary_n_tree(8, 2).unwrap().build(), &["pattern=permutation"], 300);
    let fixed = run(&setup, Some(1.0));
    setup.network.routing = RoutingKind::Adaptive;
    let adaptive = run(&setup, Some(1.0));
    assert!(fixed.saturated && fixed.accepted < 0.85, "{}", fixed.accepted);
    assert!(adaptive.accepted > fixed.accepted + 0.1, "{} and {}", adaptive.accepted, fixed.accepted);
}

#[test]
fn classes_send_in_their_time_and_keep_apart() {
    let classes = [
        "name=early pattern=shift:1 sources=0-3 load=0.5 end=100us",
        "name=late pattern=shift:1 sources=0-3 load=0.5 start=100us priority=1",
        "name=others pattern=shift:2 nodes=8-15 load=0.25",
    ];
    let mut setup = setup(one_switch(16), &classes, 200);
    setup.warmup = Some(SimTime::ZERO);
    setup.period = Some(SimTime::from_us(100));
    let point = run(&setup, None);
    for (class, expected) in point.classes.iter().zip([0.5, 0.5, 0.25]) {
        // As fractions of the time in which each is to send.
        near(&class.name, class.offered, expected, 0.12);
        assert!(!class.saturated);
    }
    let of = |class: u32, period: u32| {
        point.series.iter().find(|row| row.class == class && row.period == period).map(|row| row.offered).unwrap()
    };
    assert_eq!((of(1, 0), of(0, 1)), (0.0, 0.0), "late is not early");
    assert!(of(0, 0) > 0.4 && of(1, 1) > 0.4);
}

#[test]
fn a_steady_network_ends_its_warm_up_and_a_saturated_one_does_not_hang() {
    let mut setup = setup(FatTree::k_ary_n_tree(4, 2).unwrap().build(), &["pattern=uniform"], 200);
    setup.warmup = None;
    let point = run(&setup, Some(0.4));
    assert!(point.steady && point.warmup >= SimTime::from_us(80) && point.warmup <= SimTime::from_us(600), "{}", point.warmup);
    setup.work = Work::Classes(vec![class("pattern=incast:8")]);
    let point = run(&setup, Some(1.0));
    assert!(point.saturated && point.warmup <= SimTime::from_us(600), "{}", point.warmup);
}

/// A network that was empty when the measurement began fills: that is no saturation. Long windows know, short ones say
/// that they do not.
#[test]
fn filling_is_not_saturation() {
    let tree = || FatTree::k_ary_n_tree(16, 2).unwrap().build();
    for (time, short, steady) in [(2, true, false), (20, false, false), (400, false, true)] {
        let mut setup = setup(tree(), &["pattern=uniform"], time);
        setup.warmup = Some(SimTime::ZERO);
        let point = run(&setup, Some(0.4));
        assert_eq!((point.saturated, point.too_short.is_some(), point.steady), (false, short, steady), "{time} us");
        assert!(point.too_short.is_none_or(|least| least > SimTime::from_us(time)), "{time} us");
    }
    // What the links cannot carry is saturated from any start, as soon as the window can tell.
    for (warmup, time) in [(0, 20), (0, 200), (100, 200)] {
        let mut setup = setup(tree(), &["pattern=incast:8"], time);
        setup.warmup = Some(SimTime::from_us(warmup));
        let point = run(&setup, Some(0.5));
        assert!(point.saturated && point.too_short.is_none(), "{warmup} us, {time} us");
    }
}

#[test]
fn a_point_that_is_ended_says_so() {
    let setup = setup(FatTree::k_ary_n_tree(8, 2).unwrap().build(), &["pattern=uniform"], 1000);
    let enough = SimTime::from_us(500);
    let point = Simulation::new(&setup, Some(0.8)).unwrap().run(&mut |now, _| now < enough).unwrap();
    assert!(point.partial && point.simulated >= enough && point.simulated < SimTime::from_us(1050));
    near("what was accepted until then", point.accepted, 0.8, 0.05);
}

#[test]
fn contradictions_are_refused_with_what_would_be_right() {
    let refused = |setup: &Setup, load, expected: &str| {
        let message = Simulation::new(setup, load).err().unwrap().to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{message}");
    };
    let of = |classes: &[&str]| setup(one_switch(8), classes, 100);
    refused(&of(&["pattern=uniform"]), None, "needs a load: --load");
    refused(&of(&["pattern=uniform"]), Some(1.5), "above 0 and at most 1");
    refused(&of(&["pattern=uniform load=0.5"]), Some(0.5), "leave out --load");
    refused(&of(&["pattern=uniform injection=closed:2"]), Some(0.5), "leave out --load");
    refused(&of(&["pattern=uniform injection=on-off:4,0.3"]), Some(0.5), "at most 0.3");
    refused(&of(&["pattern=uniform sources=9"]), Some(0.5), "no node 9; the machine has the nodes 0 to 7");
    refused(&of(&["pattern=incast:2 sources=0"]), Some(0.5), "none of the sources sends in pattern incast:2");
    refused(
        &of(&["name=a pattern=uniform load=0.7", "name=b pattern=shift:1 load=0.4 sources=3"]),
        None,
        "classes a and b together offer 1.100 of the injection bandwidth of node 3; at most 1",
    );
    refused(&Setup { time: Some(SimTime::ZERO), ..of(&["pattern=uniform"]) }, Some(0.5), "must be above 0");
    let flows = Work::Flows(vec![Flow { start: SimTime::ZERO, source: 0, target: 1, bytes: 1 }]);
    refused(&Setup { work: flows, ..of(&[]) }, Some(0.5), "leave out --load");
    refused(&of(&["pattern=uniform"; 17]), Some(0.01), "17 classes of traffic; at most 15");
    assert!(matches!(class("pattern=uniform").injection, Injection::Bernoulli));
}
