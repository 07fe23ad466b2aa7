//! Counts, wiring and routing of fat trees against closed forms and breadth-first search.

use narrows_topology::{FatTree, FatTreeError, RouteState, Routing, RoutingKind, RoutingOptions, Topology, Vertex};
use std::collections::VecDeque;

fn way(kind: RoutingKind, topology: &Topology, source: u32, target: u32) -> Vec<u32> {
    let mut routing = Routing::new(kind, topology, RoutingOptions::default()).unwrap();
    routing.path(topology, source, target, RouteState::default(), |_| 0)
}

fn trees() -> Vec<FatTree> {
    vec![
        FatTree::one_switch(1).unwrap(),
        FatTree::one_switch(5).unwrap(),
        FatTree::k_ary_n_tree(2, 1).unwrap(),
        FatTree::k_ary_n_tree(2, 3).unwrap(),
        FatTree::k_ary_n_tree(4, 2).unwrap(),
        FatTree::k_ary_n_tree(3, 3).unwrap(),
        FatTree::xgft(&[16, 8], &[1, 16]).unwrap(),
        FatTree::pgft(&[24, 10], &[1, 3], &[1, 2]).unwrap(),
        FatTree::pgft(&[4, 3, 5], &[1, 2, 3], &[1, 2, 2]).unwrap(),
        FatTree::smallest_full_bisection(64, 48).unwrap(),
        FatTree::smallest_full_bisection(50, 8).unwrap(),
        FatTree::smallest_full_bisection(100, 8).unwrap(),
    ]
}

/// Links from `from` to every host, by breadth-first search over the graph alone.
fn distances(topology: &Topology, from: u32) -> Vec<u32> {
    let index = |vertex| match vertex {
        Vertex::Host(host) => host as usize,
        Vertex::Switch(switch) => (topology.hosts() + switch) as usize,
    };
    let mut distance = vec![u32::MAX; (topology.hosts() + topology.switches()) as usize];
    distance[from as usize] = 0;
    let mut queue = VecDeque::from([Vertex::Host(from)]);
    while let Some(vertex) = queue.pop_front() {
        for link in topology.links().iter().filter(|link| link.from == vertex) {
            if distance[index(link.to)] == u32::MAX {
                distance[index(link.to)] = distance[index(vertex)] + 1;
                queue.push_back(link.to);
            }
        }
    }
    distance.truncate(topology.hosts() as usize);
    distance
}

#[test]
fn counts_are_those_of_the_literature() {
    // (tree, hosts, switches, radix, cables between switches, diameter); fact sheet 2.1.
    let table = [
        ("8-ary 2-tree", FatTree::k_ary_n_tree(8, 2), (64, 16, 16, 64, 4)),
        ("16-ary 2-tree", FatTree::k_ary_n_tree(16, 2), (256, 32, 32, 256, 4)),
        ("4-ary 4-tree", FatTree::k_ary_n_tree(4, 4), (256, 256, 8, 768, 8)),
        ("128-node tree", FatTree::xgft(&[16, 8], &[1, 16]), (128, 24, 32, 128, 4)),
        ("16K tree", FatTree::pgft(&[32, 32, 16], &[1, 32, 8], &[1, 1, 4]), (16_384, 1_280, 64, 32_768, 6)),
        ("vix", FatTree::pgft(&[24, 10], &[1, 3], &[1, 2]), (240, 13, 30, 60, 4)),
        ("48 hosts, radix 48", FatTree::smallest_full_bisection(48, 48), (48, 1, 48, 0, 2)),
        ("64 hosts, radix 48: 3 leaves, 2 spines of 3 x 12 cables", FatTree::smallest_full_bisection(64, 48), (64, 5, 48, 72, 4)),
        ("1152 hosts, radix 48: 48 leaves, 24 spines", FatTree::smallest_full_bisection(1152, 48), (1152, 72, 48, 1152, 4)),
    ];
    for (name, tree, expected) in table {
        let counts = tree.unwrap().build().counts();
        assert_eq!((counts.hosts, counts.switches, counts.radix, counts.switch_cables, counts.diameter), expected, "{name}");
        assert_eq!(counts.host_cables, counts.hosts, "{name}");
    }
}

#[test]
fn smallest_trees_keep_full_bisection_and_the_radix() {
    for radix in [2, 4, 8, 36, 48] {
        for hosts in (1..=radix * radix * radix / 4).step_by(97.min(radix as usize * 3)) {
            let tree = FatTree::smallest_full_bisection(hosts, radix).unwrap();
            assert_eq!(tree.hosts(), hosts);
            assert!(tree.span(tree.levels()) >= hosts);
            for level in 1..=tree.levels() {
                let down = tree.children(level) * tree.cables(level);
                let up = tree.parents(level + 1) * tree.cables(level + 1);
                assert!(down + up <= radix, "{tree}: level {level} has {down} + {up} ports, radix {radix}");
                assert!(level == tree.levels() || up >= down, "{tree}: level {level} has {down} ports down and {up} up");
            }
        }
    }
    assert_eq!(FatTree::smallest_full_bisection(27_648, 48).unwrap().levels(), 3);
    let error = FatTree::smallest_full_bisection(27_649, 48);
    assert_eq!(error, Err(FatTreeError::TooManyHosts { asked: 27_649, places: 27_648 }));
}

#[test]
fn every_way_is_a_shortest_one() {
    for tree in trees() {
        let name = tree.to_string();
        let topology = tree.build();
        let mut longest = 0;
        for &kind in RoutingKind::of(topology.shape()) {
            let mut routing = Routing::new(kind, &topology, RoutingOptions::default()).unwrap();
            let mut count = 0u64;
            for source in 0..topology.hosts() {
                let distance = distances(&topology, source);
                for target in (0..topology.hosts()).filter(|&target| target != source) {
                    // A load that changes from call to call, so that the adaptive way up wanders.
                    let path = routing.path(&topology, source, target, RouteState::default(), |_| {
                        count += 1;
                        count % 3
                    });
                    assert_eq!(path.len() as u32, distance[target as usize], "{name}: {source} to {target}");
                    assert_eq!(path.len() as u32, topology.switch_links_between(source, target) + 2);
                    let links = topology.links();
                    assert!(path.windows(2).all(|pair| links[pair[0] as usize].to == links[pair[1] as usize].from));
                    assert_eq!(links[path[path.len() - 1] as usize].to, Vertex::Host(target));
                    longest = longest.max(path.len() as u32);
                }
            }
        }
        assert_eq!(topology.diameter(), longest, "{name}");
    }
}

#[test]
fn shifts_on_full_bisection_trees_put_one_flow_on_each_link() {
    let trees = [
        FatTree::k_ary_n_tree(4, 2).unwrap(),
        FatTree::k_ary_n_tree(3, 3).unwrap(),
        FatTree::pgft(&[8, 4], &[1, 4], &[1, 2]).unwrap(),
        FatTree::pgft(&[4, 4, 4], &[1, 4, 2], &[1, 1, 2]).unwrap(),
    ];
    for tree in trees {
        let name = tree.to_string();
        let topology = tree.build();
        for (kind, shift) in
            [RoutingKind::DModK, RoutingKind::SModK].into_iter().flat_map(|kind| (1..topology.hosts()).map(move |s| (kind, s)))
        {
            let mut flows = vec![0; topology.links().len()];
            for source in 0..topology.hosts() {
                for link in way(kind, &topology, source, (source + shift) % topology.hosts()) {
                    flows[link as usize] += 1;
                }
            }
            let most = flows.iter().max().copied();
            assert_eq!(most, Some(1), "{name}, {kind}, shift by {shift}: expected at most one flow per link (non-blocking)");
        }
    }
}

#[test]
fn adaptive_takes_the_least_loaded_parent_and_turns_on_ties() {
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let mut routing = Routing::new(RoutingKind::Adaptive, &topology, RoutingOptions::default()).unwrap();
    let up = topology.outputs(0).start + 4;
    let mut first = |load: &dyn Fn(u32) -> u64| routing.path(&topology, 0, 15, RouteState::default(), load)[1] - up;
    assert_eq!((first(&|_| 0), first(&|_| 0), first(&|_| 0)), (0, 1, 2), "idle parents in turn");
    assert_eq!(first(&|link| u64::from(link != up + 1)), 1, "the only idle parent");
    assert_eq!(first(&|link| u64::from(10 - (link - up))), 3, "the least loaded one");
}

#[test]
fn bundles_are_the_links_that_adaptive_packets_choose_among() {
    for tree in trees() {
        let name = tree.to_string();
        let topology = tree.build();
        let fixed = Routing::new(RoutingKind::DModK, &topology, RoutingOptions::default()).unwrap().bundles(&topology);
        assert!(fixed.iter().enumerate().all(|(link, &bundle)| link as u32 == bundle), "{name}: D-mod-K does not spread");
        let mut routing = Routing::new(RoutingKind::Adaptive, &topology, RoutingOptions::default()).unwrap();
        let bundles = routing.bundles(&topology);
        assert!(bundles.iter().all(|&bundle| bundles[bundle as usize] == bundle), "{name}: a bundle is named by one of its links");
        for (source, target) in (0..topology.hosts()).zip((0..topology.hosts()).rev()) {
            // Loads that change send each packet another way; every way passes the same bundles.
            let mut turn = 0u64;
            let mut ways = (0..20).map(|_| {
                let load = |link: u32| {
                    turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(link));
                    turn >> 33
                };
                let path = routing.path(&topology, source, target, RouteState::default(), load);
                path.iter().map(|&link| bundles[link as usize]).collect::<Vec<_>>()
            });
            let first = ways.next().unwrap();
            assert!(ways.all(|way| way == first), "{name}: {source} to {target}");
        }
    }
    // 4-ary 2-tree: 16 host cables, both ways, and one bundle of four up and one down for each of four leaves.
    let topology = FatTree::k_ary_n_tree(4, 2).unwrap().build();
    let mut bundles = Routing::new(RoutingKind::Adaptive, &topology, RoutingOptions::default()).unwrap().bundles(&topology);
    bundles.sort_unstable();
    bundles.dedup();
    assert_eq!(bundles.len(), 32 + 8);
}

#[test]
fn refuses_numbers_that_make_no_tree() {
    assert_eq!(FatTree::one_switch(0), Err(FatTreeError::NoHosts));
    assert_eq!(FatTree::xgft(&[2, 2], &[1]), Err(FatTreeError::Levels { children: 2, parents: 1, cables: 2 }));
    assert_eq!(FatTree::k_ary_n_tree(4, 0), Err(FatTreeError::Levels { children: 0, parents: 0, cables: 0 }));
    assert_eq!(FatTree::xgft(&[2, 0], &[1, 2]), Err(FatTreeError::Zero { level: 2, children: 0, parents: 2, cables: 1 }));
    assert_eq!(FatTree::xgft(&[2, 2], &[2, 2]), Err(FatTreeError::HostLinks { parents: 2, cables: 1 }));
    assert_eq!(FatTree::smallest_full_bisection(9, 5), Err(FatTreeError::Radix { radix: 5 }));
    assert_eq!(FatTree::one_switch(4).unwrap().with_hosts(5), Err(FatTreeError::TooManyHosts { asked: 5, places: 4 }));
    assert!(matches!(FatTree::k_ary_n_tree(48, 4), Err(FatTreeError::TooLarge { .. })));
    assert!(matches!(FatTree::k_ary_n_tree(u32::MAX, 9), Err(FatTreeError::TooLarge { .. })));
}
