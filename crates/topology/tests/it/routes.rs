//! Ways through dragonflies, tori and meshes: counts, closed forms, and what holds for every way.

use narrows_topology::analysis::{Pattern, bisection, channel_loads};
use narrows_topology::{
    Arrangement, Dragonfly, DragonflyPlus, DragonflyPlusParameters, FailedLink, FailureError, FatTree, HyperX, LinkClass, LinkSpeed, Route,
    RouteState, Routing, RoutingKind, RoutingOptions, Topology, TopologyError, Torus, TorusParameters, Vertex, graph_file,
};
use narrows_units::{ByteRate, SimTime};

fn dragonfly(p: u32, a: u32, h: u32, g: u32, arrangement: Arrangement) -> Topology {
    Dragonfly::new([p, a, h, g], arrangement, None).unwrap().build()
}

fn torus(lengths: &[u32], wrap: bool, board: u32, hosts_per_switch: u32, cables: u32) -> Topology {
    let lengths = lengths.to_vec();
    Torus::new(TorusParameters { lengths, wrap, board, hosts_per_switch, cables, hosts: None }).unwrap().build()
}

fn boards_in_full_meshes(lengths: &[u32], board: u32, cables: u32) -> Topology {
    let parameters = TorusParameters { lengths: lengths.to_vec(), wrap: true, board, hosts_per_switch: 1, cables, hosts: None };
    Torus::of_full_meshes(parameters).unwrap().build()
}

/// Groups, leaves, spines, hosts per leaf, global links per spine, cables.
fn megafly([groups, leaves, spines, hosts_per_leaf, global_links, cables]: [u32; 6], arrangement: Arrangement) -> Topology {
    let parameters = DragonflyPlusParameters { groups, leaves, spines, hosts_per_leaf, global_links, cables, arrangement, hosts: None };
    DragonflyPlus::new(parameters).unwrap().build()
}

const MEGAFLY_288: [u32; 6] = [9, 4, 4, 8, 8, 2];

const RING_WITH_A_TAIL: &str = "
hosts a 2
hosts b 1
hosts c 1
hosts e 2
link a b
link b c x2
link c d global
link d a
link d e
";

fn topologies() -> Vec<Topology> {
    let mut all = vec![
        FatTree::k_ary_n_tree(2, 3).unwrap().build(),
        FatTree::pgft(&[4, 3, 5], &[1, 2, 3], &[1, 2, 2]).unwrap().build(),
        FatTree::smallest_full_bisection(50, 8).unwrap().build(),
        torus(&[5], true, 1, 1, 1),
        torus(&[4, 4], true, 1, 2, 1),
        torus(&[2, 3, 5], true, 1, 1, 2),
        torus(&[6, 3], false, 1, 1, 1),
        torus(&[4, 4, 2], true, 4, 1, 1),
        torus(&[1, 2], false, 3, 2, 1),
        boards_in_full_meshes(&[4], 4, 1),
        boards_in_full_meshes(&[5, 3], 2, 2),
    ];
    for &arrangement in Arrangement::ALL {
        all.push(dragonfly(1, 2, 1, 3, arrangement));
        all.push(dragonfly(2, 4, 2, 9, arrangement));
        all.push(dragonfly(2, 4, 2, 4, arrangement)); // two links per pair of groups, two ports empty
        all.push(dragonfly(2, 3, 1, 2, arrangement));
    }
    for arrangement in [Arrangement::Consecutive, Arrangement::Absolute] {
        all.push(megafly([9, 4, 4, 2, 2, 1], arrangement)); // one link per pair: spines reach two groups each
        all.push(megafly([5, 2, 2, 3, 4, 2], arrangement)); // two links per pair, two cables
        all.push(megafly([3, 3, 2, 1, 3, 1], arrangement));
        all.push(megafly([1, 3, 2, 2, 1, 1], arrangement));
    }
    all.push(HyperX::new(&[4, 3, 2], 2, 1, None).unwrap().build());
    all.push(HyperX::new(&[5, 3], 1, 2, Some(13)).unwrap().build());
    all.push(HyperX::new(&[6], 3, 1, None).unwrap().build());
    all.push(graph_file::parse("ring with a tail", RING_WITH_A_TAIL, None).unwrap());
    all.push(dragonfly(2, 5, 1, 1, Arrangement::Consecutive));
    all.push(Dragonfly::new([3, 6, 3, 19], Arrangement::Consecutive, Some(100)).unwrap().build());
    all
}

#[test]
fn counts_are_those_of_fact_sheet_2_1() {
    // (topology, hosts, switches, radix, cables between switches, diameter)
    let table = [
        (dragonfly(3, 6, 3, 19, Arrangement::Consecutive), (342, 114, 11, 19 * 15 + 171, 5)),
        (dragonfly(13, 26, 13, 339, Arrangement::Palmtree), (114_582, 8_814, 51, 339 * 325 + 57_291, 5)),
        (megafly(MEGAFLY_288, Arrangement::Consecutive), (288, 72, 16, 9 * 32 + 36 * 4, 5)),
        (HyperX::new(&[4, 4], 4, 1, None).unwrap().build(), (64, 16, 10, 48, 4)),
        (torus(&[8, 8, 8], true, 1, 1, 1), (512, 512, 7, 3 * 512, 14)),
        (torus(&[8, 8], false, 1, 1, 1), (64, 64, 5, 2 * 56, 16)),
        // ExaNeSt: 32 boards of 4; radix of the first switch: 3 board + 6 torus (Z has length 2: one cable) - 1 + 1
        // host.
        (torus(&[4, 4, 2], true, 4, 1, 1), (128, 128, 9, 32 * 6 + 32 + 32 + 16, 9)),
        // ACC's testbed: a link to each other board, so a way has one link between boards and one in each.
        (boards_in_full_meshes(&[4], 4, 1), (16, 16, 7, 4 * 6 + 6, 5)),
    ];
    for (topology, expected) in table {
        let counts = topology.counts();
        let found = (counts.hosts, counts.switches, counts.radix, counts.switch_cables, counts.diameter);
        assert_eq!(found, expected, "{}", topology.name());
        assert_eq!(counts.host_cables, counts.hosts);
        assert!(topology.shape().radix() >= counts.radix);
    }
}

/// A load that changes from call to call.
fn noise(seed: u64) -> impl FnMut(u32) -> u64 {
    let mut word = seed;
    move |link| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(link) | 1);
        word >> 60
    }
}

/// The links of a packet and its channels, checked to be a way.
fn travel(
    routing: &mut Routing,
    topology: &Topology,
    source: u32,
    target: u32,
    load: &mut impl FnMut(u32) -> u64,
    longest: u32,
) -> Vec<u32> {
    let mut state = RouteState::default();
    let mut way = vec![topology.injection(source)];
    while let Vertex::Switch(switch) = topology.links()[way[way.len() - 1] as usize].to {
        let step = routing.next(switch, way[way.len() - 1], target, &mut state, &mut *load);
        assert!(topology.outputs(switch).contains(&step.link), "{}: an output of the switch that was asked", topology.name());
        assert!(step.channel < routing.virtual_channels(), "{}: within the ladder", topology.name());
        state.channel = step.channel;
        way.push(step.link);
        assert!(way.len() as u32 <= longest, "{}: {source} to {target} goes on and on", topology.name());
    }
    assert_eq!(topology.links()[way[way.len() - 1] as usize].to, Vertex::Host(target), "{}: {source} to {target}", topology.name());
    way
}

#[test]
fn every_way_ends_at_its_target_within_its_ladder() {
    for topology in topologies() {
        for &kind in RoutingKind::of(topology.shape()) {
            let mut routing = Routing::new(kind, &topology, RoutingOptions { seed: 7, threshold: 0 }).unwrap();
            assert_eq!(topology.shape().virtual_channels(kind), Some(routing.virtual_channels()), "{kind}");
            let mut load = noise(1);
            let longest = 2 * topology.diameter() + 1;
            for source in 0..topology.hosts() {
                for target in (0..topology.hosts()).filter(|&target| target != source) {
                    let way = travel(&mut routing, &topology, source, target, &mut load, longest);
                    let minimal = topology.switch_links_between(source, target) + 2;
                    let mut classes = 2;
                    topology.links_between(source, target, |_| classes += 1);
                    assert_eq!(classes, minimal);
                    if matches!(kind, RoutingKind::Minimal | RoutingKind::DimensionOrder | RoutingKind::Adaptive) {
                        assert_eq!(way.len() as u32, minimal, "{} {kind}: {source} to {target}", topology.name());
                    }
                    assert!(way.len() as u32 >= minimal.min(2 + u32::from(minimal > 2)));
                }
            }
        }
    }
}

#[test]
fn no_cycle_closes_for_any_routing_on_any_topology() {
    for topology in topologies() {
        for &kind in RoutingKind::of(topology.shape()) {
            let routing = Routing::new(kind, &topology, RoutingOptions::default()).unwrap();
            routing.check_deadlock(&topology).unwrap_or_else(|error| panic!("{} {kind}: {error}", topology.name()));
        }
    }
}

#[test]
fn adaptive_minimal_ways_follow_the_loads_within_their_channels() {
    // Linder and Harden 1991: 2^(n-1) networks of channels, and once more for every ring; HyperX: a channel for each
    // dimension.
    for (topology, channels) in [
        (torus(&[5], true, 1, 1, 1), 2),
        (torus(&[4, 4], true, 1, 1, 1), 6),
        (torus(&[8, 8, 8], true, 1, 1, 1), 16),
        (torus(&[8, 8], false, 1, 1, 1), 2),
        (torus(&[4, 4, 4], false, 1, 1, 1), 4),
        (torus(&[4, 4, 2], true, 4, 1, 1), 12),
        (boards_in_full_meshes(&[4], 4, 1), 1),
        (HyperX::new(&[4, 3, 2], 2, 1, None).unwrap().build(), 3),
        (HyperX::new(&[6], 3, 1, None).unwrap().build(), 1),
    ] {
        assert_eq!(topology.shape().virtual_channels(RoutingKind::Adaptive), Some(channels), "{}", topology.name());
    }
    for topology in [torus(&[6, 5], true, 1, 1, 1), torus(&[6, 5], false, 1, 1, 1), HyperX::new(&[6, 5], 1, 1, None).unwrap().build()] {
        let path = |kind, loaded: Option<u32>| {
            let mut routing = Routing::new(kind, &topology, RoutingOptions::default()).unwrap();
            // From (0, 0) to (2, 1).
            routing.path(&topology, 0, 8, RouteState::default(), |link| u64::from(Some(link) == loaded))
        };
        let ordered = path(RoutingKind::DimensionOrder, None);
        assert_eq!(path(RoutingKind::Adaptive, None), ordered, "{}: the lowest dimension first when all is quiet", topology.name());
        let around = path(RoutingKind::Adaptive, Some(ordered[1]));
        assert_eq!(around.len(), ordered.len());
        let second = topology.links()[around[1] as usize].to;
        assert_eq!(second, Vertex::Switch(6), "{}: the other dimension first when a packet waits for that one", topology.name());
    }
    let two = torus(&[40, 40, 40, 2], true, 1, 1, 1);
    assert_eq!(two.shape().virtual_channels(RoutingKind::Adaptive), Some(32), "more than a machine can have, and said so");
}

#[test]
fn idle_ugal_goes_minimally_and_valiant_through_a_third_group() {
    let topology = dragonfly(3, 6, 3, 19, Arrangement::Consecutive);
    let group = |link: u32| match topology.links()[link as usize].to {
        Vertex::Switch(switch) => topology.group(switch),
        Vertex::Host(host) => topology.group(topology.switch_of(host)),
    };
    for kind in [RoutingKind::UgalLocal, RoutingKind::UgalGlobal, RoutingKind::Progressive, RoutingKind::Valiant] {
        let mut routing = Routing::new(kind, &topology, RoutingOptions::default()).unwrap();
        let (mut longest, mut through) = (0, vec![0u32; 19]);
        for (source, target) in (0..342).flat_map(|source| (0..342).map(move |target| (source, target))) {
            if topology.switch_of(source) == topology.switch_of(target) {
                continue;
            }
            let way = travel(&mut routing, &topology, source, target, &mut |_| 0, 7);
            longest = longest.max(way.len());
            let mut groups: Vec<u32> = way.iter().map(|&link| group(link)).collect();
            groups.dedup();
            let (here, there) = (topology.group(topology.switch_of(source)), topology.group(topology.switch_of(target)));
            if kind == RoutingKind::Valiant && here == there {
                // A packet that passes its target on the way out stays there.
                assert!(groups.len() == 3 || groups.len() == 1);
            } else if kind == RoutingKind::Valiant {
                assert_eq!((groups.len(), groups[0], groups[2]), (3, here, there));
                assert!(groups[1] != here && groups[1] != there);
                through[groups[1] as usize] += 1;
            } else {
                assert!(groups.len() <= 2, "{kind}: minimal when idle");
            }
        }
        // l g l, and l g l g l, with the two host links.
        assert_eq!(longest, if kind == RoutingKind::Valiant { 7 } else { 5 });
        if kind == RoutingKind::Valiant {
            let (least, most) = (*through.iter().min().unwrap(), *through.iter().max().unwrap());
            assert!(f64::from(most) / f64::from(least) < 1.1, "every group about as often: {least} to {most}");
        }
    }
}

#[test]
fn ugal_looks_where_it_says() {
    let topology = dragonfly(3, 6, 3, 19, Arrangement::Consecutive);
    let mut minimal = Routing::new(RoutingKind::Minimal, &topology, RoutingOptions::default()).unwrap();
    // A pair whose way is host, local, global, local, host.
    let target = (0..342).find(|&target| topology.switch_links_between(0, target) == 3).unwrap();
    let way = minimal.path(&topology, 0, target, RouteState::default(), |_| 0);
    let (local, global) = (way[1], way[2]);
    let detours = |kind, threshold, loaded: u32, load: u64| {
        let mut routing = Routing::new(kind, &topology, RoutingOptions { seed: 1, threshold }).unwrap();
        let taken =
            |routing: &mut Routing| routing.path(&topology, 0, target, RouteState::default(), |link| u64::from(link == loaded) * load);
        (0..200).filter(|_| taken(&mut routing) != way).count()
    };
    // Five of every six way points lie behind another output.
    assert!(detours(RoutingKind::UgalLocal, 0, local, 10) > 100, "a queue at the source's output");
    assert_eq!(detours(RoutingKind::UgalLocal, 0, global, 10), 0, "the queue of the gateway cannot be seen");
    assert!(detours(RoutingKind::UgalGlobal, 0, global, 10) > 150, "... but by UGAL-G");
    assert!(detours(RoutingKind::Progressive, 0, global, 10) > 150, "... and by PAR when it gets there");
    assert_eq!(detours(RoutingKind::UgalLocal, 30, local, 10), 0, "3 links of 10 are not above the threshold");
    assert!(detours(RoutingKind::UgalLocal, 29, local, 10) > 100);
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 0.005 * expected.abs(), "{what}: expected {expected}, found {found}");
}

/// The limit, and the loads of links within and between groups.
fn limits(topology: &Topology, kind: RoutingKind, pattern: Pattern) -> [f64; 3] {
    let loads = channel_loads(topology, kind, pattern).unwrap();
    let [local, global] = [LinkClass::Switch, LinkClass::Global].map(|class| loads.most(topology, class));
    [loads.limit(topology, &[1.0; 3]).0, local, global]
}

#[test]
fn channel_loads_are_those_of_fact_sheet_2_5() {
    use RoutingKind::{Adaptive, DModK, Minimal, SModK, Valiant};
    let dragonfly_342 = dragonfly(3, 6, 3, 19, Arrangement::Consecutive);
    let [limit, local, global] = limits(&dragonfly_342, Minimal, Pattern::Uniform);
    near(limit, 1.0, "342, MIN, uniform");
    near(global, 0.950, "342, MIN, uniform: global links");
    near(local, 0.977, "342, MIN, uniform: local links");
    let loads = channel_loads(&dragonfly_342, Minimal, Pattern::Uniform).unwrap();
    near(loads.mean_links, 2.0 + 2.578, "342, MIN, uniform: links of a way");
    near(limits(&dragonfly_342, Minimal, Pattern::Adversarial(1))[0], 1.0 / 18.0, "342, MIN, ADV+1: 1/(a p)");
    let valiant = limits(&dragonfly_342, Valiant, Pattern::Adversarial(1));
    near(1.0 / valiant[2], 0.472, "342, VAL, ADV+1: global links");
    for (shift, expected) in [(1, 0.472), (2, 0.315), (3, 0.236), (6, 0.236), (9, 0.236)] {
        near(limits(&dragonfly_342, Valiant, Pattern::Adversarial(shift))[0], expected, &format!("342, VAL, ADV+{shift}"));
    }

    let megafly_288 = megafly(MEGAFLY_288, Arrangement::Consecutive);
    let [limit, up, global] = limits(&megafly_288, Minimal, Pattern::Uniform);
    near(limit, 1.0, "Megafly 288, MIN, uniform");
    near(1.0 / up, 1.025, "Megafly 288, MIN, uniform: links up");
    near(1.0 / global, 1.12, "Megafly 288, MIN, uniform: global links");
    near(limits(&megafly_288, Minimal, Pattern::Adversarial(1))[0], 0.125, "Megafly 288, MIN, ADV+1: 4/32");
    let single = megafly([9, 8, 4, 4, 2, 1], Arrangement::Consecutive);
    near(limits(&single, Minimal, Pattern::Uniform)[0], 0.28, "Megafly with single global links, MIN, uniform");
    near(limits(&single, Minimal, Pattern::Adversarial(1))[0], 1.0 / 32.0, "Megafly with single global links, MIN, ADV+1");

    for tree in [FatTree::k_ary_n_tree(8, 2), FatTree::k_ary_n_tree(4, 3), FatTree::pgft(&[8, 4, 4], &[1, 8, 2], &[1, 1, 2])] {
        let tree = tree.unwrap().build();
        for kind in [DModK, SModK, Adaptive] {
            for pattern in [Pattern::Uniform, Pattern::Adversarial(1)] {
                near(limits(&tree, kind, pattern)[0], 1.0, &format!("{}, {kind}, {pattern:?}", tree.name()));
            }
        }
    }

    // A ring of k: uniform traffic travels k/4 links, half of them each way: load k/8 (k even, less what goes to
    // oneself).
    let ring = torus(&[8], true, 1, 1, 1);
    near(limits(&ring, Minimal, Pattern::Uniform)[1], 8.0 / 7.0, "ring of 8, uniform");
}

#[test]
fn the_large_dragonfly_keeps_its_limits() {
    let topology = dragonfly(13, 26, 13, 339, Arrangement::Consecutive);
    near(limits(&topology, RoutingKind::Minimal, Pattern::Adversarial(1))[0], 1.0 / (26.0 * 13.0), "114,582, MIN, ADV+1");
}

#[test]
fn bisections_are_the_textbooks() {
    for (topology, expected) in [
        (FatTree::k_ary_n_tree(8, 2).unwrap().build(), 32),
        (FatTree::pgft(&[8, 4, 4], &[1, 8, 2], &[1, 1, 2]).unwrap().build(), 64),
        (torus(&[4, 4, 8], true, 1, 1, 1), 2 * 16),
        (torus(&[4, 8], false, 1, 1, 1), 4),
        (HyperX::new(&[4, 4], 4, 1, None).unwrap().build(), 4 * 4),
        (dragonfly(2, 4, 2, 8, Arrangement::Consecutive), 4 * 4), // a link between any two of eight groups
    ] {
        let cut = bisection(&topology);
        assert_eq!(cut.local + cut.global, expected, "{}", topology.name());
        assert_eq!(cut.speeds, [0, cut.local, cut.global], "{}", topology.name());
    }
}

/// Every way avoids what has failed, ends, and no cycle closes.
fn check_failed(topology: &Topology) {
    for &kind in RoutingKind::of(topology.shape()) {
        let mut routing = Routing::new(kind, topology, RoutingOptions { seed: 3, threshold: 0 }).unwrap();
        let mut load = noise(5);
        for (source, target) in (0..topology.hosts()).flat_map(|source| (0..topology.hosts()).map(move |target| (source, target))) {
            if source != target {
                let way = travel(&mut routing, topology, source, target, &mut load, 8 * topology.diameter() + 8);
                assert!(way.iter().all(|&link| !topology.is_failed(link)), "{} {kind}: {source} to {target}", topology.name());
            }
        }
        routing.check_deadlock(topology).unwrap_or_else(|error| panic!("{} {kind}: {error}", topology.name()));
    }
}

#[test]
fn ways_lead_around_failures_or_the_error_names_what_is_cut_off() {
    let mut word = 11u64;
    let mut draw = |below: usize| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 33) as usize % below
    };
    let (mut connected, mut cut_off) = (0, 0);
    for topology in topologies().into_iter().filter(|topology| topology.hosts() <= 130) {
        let cables: Vec<(u32, u32)> = topology
            .links()
            .iter()
            .filter_map(|link| match (link.from, link.to) {
                (Vertex::Switch(from), Vertex::Switch(to)) if from < to => Some((from, to)),
                _ => None,
            })
            .collect();
        if cables.is_empty() {
            continue;
        }
        for count in [1, 1, 2, 4] {
            let links: Vec<FailedLink> =
                (0..count).map(|_| cables[draw(cables.len())]).map(|(from, to)| FailedLink { between: [to, from], cable: None }).collect();
            match topology.clone().with_failures(&links, &[]) {
                Ok(failed) => {
                    connected += 1;
                    assert!(failed.failed_links() >= 2);
                    check_failed(&failed);
                }
                Err(error @ FailureError::CutOff { .. }) => {
                    cut_off += 1;
                    assert!(error.to_string().contains("cut off switch"), "{error}");
                }
                Err(error) => panic!("{}: {error}", topology.name()),
            }
        }
    }
    assert!(connected > 60 && cut_off > 5, "{connected} connected, {cut_off} cut off: both cases are met");
}

#[test]
fn switches_fail_too() {
    let tree = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    // Spines 5 to 7 fail: everything goes over spine 4.
    let failed = tree.clone().with_failures(&[], &[5, 6, 7]).unwrap();
    check_failed(&failed);
    let loads = channel_loads(&failed, RoutingKind::DModK, Pattern::Adversarial(1)).unwrap();
    near(loads.limit(&failed, &[1.0; 3]).0, 0.25, "4-ary 2-tree with one spine of four");
    let error = tree.clone().with_failures(&[], &[4, 5, 6, 7]).unwrap_err();
    assert_eq!(error.to_string(), "the failures cut off switch 0 from switch 1, and so host 0 from host 4");
    let error = tree.clone().with_failures(&[], &[1]).unwrap_err();
    let expected = "switch 1 has failed, which cuts off its hosts 4 to 7; leave them out (node.count, --nodes), or let single links fail";
    assert_eq!(error.to_string(), expected);
    let error = tree.clone().with_failures(&[], &[8]).unwrap_err();
    assert_eq!(error.to_string(), "there is no switch 8 to fail: they are leaf0 to leaf3, spine0 to spine3, or 0 to 7");
    let error = tree.with_failures(&[FailedLink { between: [0, 4], cable: Some(1) }], &[]).unwrap_err();
    assert_eq!(error.to_string(), "there is no cable #1 between switches 0 and 4 to fail: there are 1");
    // A spine of a Megafly.
    check_failed(&megafly([5, 2, 2, 3, 4, 2], Arrangement::Consecutive).with_failures(&[], &[2]).unwrap());
}

#[test]
fn a_failed_cable_leaves_its_neighbours() {
    let tree = FatTree::pgft(&[4, 3], &[1, 2], &[1, 2]).unwrap().build();
    let failed = tree.with_failures(&[FailedLink { between: [3, 0], cable: Some(1) }], &[]).unwrap();
    assert_eq!(failed.failed_links(), 2);
    check_failed(&failed);
}

#[test]
fn dragonflies_with_failures_keep_their_routings_and_a_short_ladder() {
    let topology = dragonfly(3, 6, 3, 19, Arrangement::Consecutive);
    // A link within group 0 and the link between groups 0 and 1.
    let failed = topology.with_failures(&[FailedLink { between: [0, 1], cable: None }, FailedLink { between: [0, 11], cable: None }], &[]);
    let failed = failed.unwrap();
    assert_eq!(failed.shape().virtual_channels(RoutingKind::Minimal), Some(4), "g g l l from group 1 to switch 1");
    assert!(failed.shape().virtual_channels(RoutingKind::UgalGlobal).is_some());
    assert_eq!(failed.diameter(), 6);
}

#[test]
fn graph_files_are_read_or_refused_with_the_place() {
    let ring = graph_file::parse("ring", RING_WITH_A_TAIL, None).unwrap();
    assert_eq!((ring.hosts(), ring.switches(), ring.counts().switch_cables, ring.diameter()), (6, 5, 6, 5));
    let fixed = format!("{RING_WITH_A_TAIL}route a b d\nroute d b c # the long way\n");
    let fixed = graph_file::parse("ring", &fixed, None).unwrap();
    assert_eq!((ring.switch_links_between(0, 2), fixed.switch_links_between(0, 2)), (1, 3));
    for (text, expected) in [
        ("", "line 1, column 1: no hosts; expected lines like `host NAME SWITCH` or `hosts SWITCH COUNT`"),
        ("host a\n", "line 1, column 7: expected the switch of the host"),
        ("host a s\nhost a t\n", "line 2, column 6: there is a host `a` already, in line 1; a host has one link"),
        ("hosts s 0\n", "line 1, column 9: found `0`; expected the number of hosts, 1 to 65536"),
        ("  links s t\n", "line 1, column 3: unknown statement `links`; expected switch, host, hosts, link or route"),
        ("link s s\n", "line 1, column 8: a link from a switch to itself; expected another switch"),
        (
            "link s t x0\n",
            "line 1, column 10: unexpected `x0`; expected x1 to x1024, `global`, bandwidth=RATE or latency=TIME, without blanks",
        ),
        (
            "link s t bandwidth=5GB\n",
            "line 1, column 10: unknown unit \"GB\" in \"5GB\"; expected one of a size and /s, such as GB/s, MiB/s, Gbit/s",
        ),
        ("link s t x2 bandwidth=1kB/s\n", "line 1, column 13: found `1kB/s`; expected 1 MB/s to 100000 GB/s"),
        ("link s t latency=\n", "line 1, column 10: expected a number and a unit, such as \"250 ns\"; found \"\""),
        ("link s t latency=2s\n", "line 1, column 10: found `2s`; expected 0 ps to 1 s"),
        ("hosts s 1\nhosts t 1\n", "line 2, column 1: no way from switch `s` to switch `t`: a link is missing"),
        ("hosts s 1\nlink s t\nroute s u t\n", "line 3, column 9: no switch `u` so far"),
        ("hosts s 1\nhosts t 1\nlink s t\nlink t u\nroute s t u\n", "line 5, column 11: `u` is no neighbour of `s`"),
        (
            "hosts s 1\nhosts t 1\nlink s t\nlink s u\nlink u t\nroute s t u\nroute u t s\n",
            "line 7, column 1: no way from switch `s` to switch `t`: a link is missing, or routes that lead around in a ring",
        ),
    ] {
        assert_eq!(graph_file::parse("x", text, None).unwrap_err().to_string(), expected);
    }
    let error = TopologyError::from(graph_file::parse("x", "hosts s 4", Some(5)).unwrap_err());
    assert_eq!(error.to_string(), "line 1, column 1: 5 hosts asked for (node.count, --nodes); the file has 4");
}

/// Host, switch, switch (8 cables, one of them at a quarter of the rate), host: what crosses, and what limits.
#[test]
fn links_of_their_own_count_with_their_rates() {
    let text = "hosts a 8\nhosts b 8\nlink a b x7\nlink a b bandwidth=25Gbit/s latency=2us\nlink b a global bandwidth=25Gbit/s\n";
    let topology = graph_file::parse("own", text, None).unwrap();
    let own: Vec<LinkSpeed> = topology.speeds()[3..].to_vec();
    let speed = |class, latency| LinkSpeed { class, rate: Some(ByteRate(3_125_000_000)), latency };
    assert_eq!(own, [speed(LinkClass::Switch, Some(SimTime::from_us(2))), speed(LinkClass::Global, None)]);
    for link in topology.links() {
        let back = topology.links()[link.reverse as usize];
        assert_eq!((link.speed, link.class), (back.speed, topology.speeds()[usize::from(link.speed)].class));
    }
    let cut = bisection(&topology);
    assert_eq!((cut.local, cut.global, cut.speeds.as_slice()), (8, 1, [0, 7, 0, 1, 1].as_slice()));
    // The nodes of a to b over a cable each, whatever its rate.
    let loads = channel_loads(&topology, RoutingKind::Table, Pattern::Adversarial(1)).unwrap();
    let taken: Vec<u16> =
        topology.outputs(0).filter(|&link| loads.loads[link as usize] > 0.0).map(|link| topology.links()[link as usize].speed).collect();
    assert_eq!(taken.iter().filter(|&&speed| speed == 3).count(), 1, "the slow cable is one of them: {taken:?}");
    let mut rates = [1.0; 5];
    near(loads.limit(&topology, &rates).0, 1.0, "eight nodes on eight cables");
    rates[3] = 0.25;
    near(loads.limit(&topology, &rates).0, 0.25, "a node on a cable of a quarter of the rate");
    let without = topology.clone().with_failures(&[FailedLink { between: [0, 1], cable: Some(7) }], &[]).unwrap();
    assert_eq!(bisection(&without).speeds, [0, 7, 0, 0, 1], "the eighth cable is out of order");
}

#[test]
fn the_graph_file_of_the_documentation_is_one() {
    let document = include_str!("../../../../docs/topologies.md");
    let text = document.split("```graph\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let topology = graph_file::parse("documentation", text, None).unwrap();
    let counts = topology.counts();
    assert_eq!((counts.hosts, counts.switches, counts.switch_cables, counts.diameter), (5, 3, 4, 4));
}

proptest::proptest! {
    #[test]
    fn no_graph_file_panics(text in "(switch|host|hosts|link|route|#|[ab]|[0-9]|x2|global|bandwidth=|latency=|GB/s|ns| |\n){0,60}") {
        let _ = graph_file::parse("x", &text, None);
    }

    /// Any graph: the ways end, within the channels that are said to do, without a cycle.
    #[test]
    fn any_graph_is_routed(links in proptest::collection::vec((0u32..9, 0u32..9, 1u32..3), 1..25)) {
        let mut text = String::new();
        for (from, to, cables) in links.iter().filter(|(from, to, _)| from != to) {
            text += &format!("link s{from} s{to} x{cables}\n");
        }
        for switch in 0..9 {
            text += &format!("hosts s{switch} 1\n");
        }
        if let Ok(topology) = graph_file::parse("any", &text, None) {
            check_failed(&topology);
        }
    }
}

/// A spine-leaf tree of parallel cables as a graph, its hosts in turn over the leaves or leaf by leaf.
fn tree_as_a_graph(in_turn: bool) -> Topology {
    let mut text = String::new();
    for host in 0..96 {
        text += &format!("host n{host} leaf{}\n", if in_turn { host % 4 } else { host / 24 });
    }
    for (leaf, spine) in (0..4).flat_map(|leaf| [(leaf, 0), (leaf, 1)]) {
        text += &match (leaf, spine) {
            (1, 1) => "link leaf1 spine1 bandwidth=16Gbit/s\nlink leaf1 spine1 x5\n".to_owned(),
            _ => format!("link leaf{leaf} spine{spine} x6\n"),
        };
    }
    graph_file::parse("tree", &text, None).unwrap()
}

fn load_max(topology: &Topology, kind: RoutingKind) -> f64 {
    channel_loads(topology, kind, Pattern::Uniform).unwrap().loads.into_iter().fold(0.0, f64::max)
}

#[test]
fn a_graph_spreads_over_parallel_cables_as_the_tree_that_it_is() {
    let tree = FatTree::pgft(&[24, 4], &[1, 2], &[1, 6]).unwrap().build();
    for in_turn in [false, true] {
        let graph = tree_as_a_graph(in_turn);
        assert_eq!(load_max(&graph, RoutingKind::Table), load_max(&tree, RoutingKind::DModK));
        assert_eq!(graph.shape().virtual_channels(RoutingKind::Table), Some(1));
        assert_eq!(graph.shape().virtual_channels(RoutingKind::Adaptive), Some(1));
    }
}

/// Three levels: what a spine passes on is spread again, and not by what selected the spine.
#[test]
fn a_graph_spreads_at_every_level() {
    let (mut text, mut tree) = (String::new(), 0.0);
    for leaf in 0..16 {
        text += &format!("hosts leaf{leaf} 4\n");
    }
    for (pod, spine) in (0..4).flat_map(|pod| (0..4).map(move |spine| (pod, spine))) {
        (0..4).for_each(|leaf| text += &format!("link leaf{} spine{}\n", pod * 4 + leaf, pod * 4 + spine));
        (0..4).for_each(|core| text += &format!("link spine{} core{}\n", pod * 4 + spine, spine * 4 + core));
    }
    let graph = graph_file::parse("three levels", &text, None).unwrap();
    tree += load_max(&FatTree::k_ary_n_tree(4, 3).unwrap().build(), RoutingKind::DModK);
    let found = load_max(&graph, RoutingKind::Table);
    assert!(found <= tree * 1.05, "{found} against {tree}");
    assert_eq!(graph.shape().virtual_channels(RoutingKind::Table), Some(1));
}

#[test]
fn adaptive_ways_of_a_graph_take_the_idle_cable_and_the_usual_one_of_equals() {
    let graph = tree_as_a_graph(false);
    let options = RoutingOptions::default();
    let mut adaptive = Routing::new(RoutingKind::Adaptive, &graph, options).unwrap();
    let mut table = Routing::new(RoutingKind::Table, &graph, options).unwrap();
    let usual = table.path(&graph, 0, 30, RouteState::default(), |_| 0);
    assert_eq!(adaptive.path(&graph, 0, 30, RouteState::default(), |_| 7), usual);
    let other = adaptive.path(&graph, 0, 30, RouteState::default(), |link| u64::from(usual.contains(&link)));
    assert_eq!(other.len(), usual.len());
    assert!(other[1] != usual[1] && other[2] != usual[2], "{other:?} beside {usual:?}");
}

#[test]
fn a_route_takes_all_cables_to_its_neighbour() {
    let text = "hosts a 4\nhosts b 4\nlink a b x4\nlink a c x2\nlink c b x2\nroute a b c\n";
    let graph = graph_file::parse("route", text, None).unwrap();
    let mut routing = Routing::new(RoutingKind::Table, &graph, RoutingOptions::default()).unwrap();
    let first: std::collections::BTreeSet<u32> = (4..8)
        .map(|target| routing.path(&graph, 0, target, RouteState::default(), |_| 0))
        .inspect(|way| assert_eq!(way.len(), 4))
        .map(|way| way[1])
        .collect();
    assert_eq!(first.len(), 2);
}
