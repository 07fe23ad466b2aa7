//! Ways through dragonflies, tori and meshes: counts, closed forms, and what holds for every way.

#![allow(clippy::unwrap_used, reason = "a test stops where its input is wrong")]

use narrows_topology::{
    Arrangement, Dragonfly, FatTree, Route, RouteState, Routing, RoutingKind, RoutingOptions, Topology, Torus, TorusParameters, Vertex,
};

fn dragonfly(p: u32, a: u32, h: u32, g: u32, arrangement: Arrangement) -> Topology {
    Dragonfly::new([p, a, h, g], arrangement, None).unwrap().build()
}

fn torus(lengths: &[u32], wrap: bool, board: u32, hosts_per_switch: u32, cables: u32) -> Topology {
    let lengths = lengths.to_vec();
    Torus::new(TorusParameters { lengths, wrap, board, hosts_per_switch, cables, hosts: None }).unwrap().build()
}

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
    ];
    for arrangement in Arrangement::ALL {
        all.push(dragonfly(1, 2, 1, 3, arrangement));
        all.push(dragonfly(2, 4, 2, 9, arrangement));
        all.push(dragonfly(2, 4, 2, 4, arrangement)); // two links per pair of groups, two ports empty
        all.push(dragonfly(2, 3, 1, 2, arrangement));
    }
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
        (torus(&[8, 8, 8], true, 1, 1, 1), (512, 512, 7, 3 * 512, 14)),
        (torus(&[8, 8], false, 1, 1, 1), (64, 64, 5, 2 * 56, 16)),
        // ExaNeSt: 32 boards of 4; radix of the first switch: 3 board + 6 torus (Z has length 2: one cable) - 1 + 1 host.
        (torus(&[4, 4, 2], true, 4, 1, 1), (128, 128, 9, 32 * 6 + 32 + 32 + 16, 9)),
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
                    if matches!(kind, RoutingKind::Minimal | RoutingKind::DimensionOrder) {
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
