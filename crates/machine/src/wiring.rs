//! The rules of wiring, once each: name, keys, room and graph. Reading, checks, messages and the reference of the keys
//! go by this table; what routings a rule has follows from its graph (`narrows_topology::RoutingKind::of`).

use crate::model::Arrangement;
use TopologyKind::{Dragonfly, DragonflyPlus, ExaNest, FatTree, File, HyperX, KAryNTree, Mesh, Pgft, SingleSwitch, SpineLeaf, Torus};
use narrows_keys::{Key, Keys, Only, choice, keys};
use narrows_topology as graph;
use narrows_topology::{DragonflyPlusParameters, TopologyError, TorusParameters};

choice! {
    /// `topology.kind`
    pub enum TopologyKind {
        /// All nodes on one switch.
        SingleSwitch = "single-switch",
        /// k^n nodes, n levels of switches with k links down and k up.
        KAryNTree = "k-ary-n-tree",
        /// Parallel-port generalised fat tree: children, parents and parallel links per level, hosts first.
        Pgft = "pgft",
        /// The smallest full-bisection fat tree of these switches for `node.count` nodes.
        FatTree = "fat-tree",
        /// A dragonfly.
        Dragonfly = "dragonfly",
        /// A torus.
        Torus = "torus",
        /// Rows in place of rings.
        Mesh = "mesh",
        /// A torus of boards.
        ExaNest = "exanest",
        /// Two levels: every leaf cabled to every spine.
        SpineLeaf = "spine-leaf",
        /// A dragonfly+ (Megafly).
        DragonflyPlus = "dragonfly-plus",
        /// A HyperX.
        HyperX = "hyperx",
        /// A graph from a file.
        File = "file",
    }
}

choice! {
    /// `topology.boards`
    pub enum Boards {
        /// A ring along each dimension.
        Torus = "torus",
        /// Along each dimension every board is cabled to every other one.
        FullMesh = "full-mesh",
    }
}

keys! {
    /// `[topology]`: which rule, and its numbers. Those of other rules are whatever stands there.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Topology {
        /// The wiring. `fat-tree`: the smallest one of full bisection for `node.count`.
        pub kind: TopologyKind;
        /// Links down, and up, of a switch.
        pub k: u32, in 1..=1 << 15;
        /// Levels of switches.
        pub n: u32, in 1..=8;
        /// m: children of a switch, per level from the hosts up.
        pub children: Vec<u32>, in 1..=1 << 16;
        /// w: parents of each child, per level from the hosts up.
        pub parents: Vec<u32>, in 1..=1 << 16;
        /// p: cables between a child and each parent, per level.
        pub parallel: Vec<u32>, in 1..=1 << 16;
        /// Hosts per router.
        pub p: u32, in 1..=1 << 15;
        /// Routers per group.
        pub a: u32, in 1..=1 << 15;
        /// Global links per router (dragonfly-plus: per spine).
        pub h: u32, in 1..=1 << 15;
        /// Groups.
        pub g: u32, in 1..=1 << 20;
        /// The group that global port d of group i leads to: i + d + 1, i - d - 1, or d (d + 1 from i on).
        pub arrangement: Arrangement = "consecutive";
        /// Switches (exanest: boards) along each dimension.
        pub lengths: Vec<u32>, in 1..=1 << 16;
        /// Switches of a board, cabled to each other; the first one has its torus links.
        pub board: u32 = 4, in 1..=1 << 10;
        /// Boards along a dimension are a ring, or each is cabled to each.
        pub boards: Boards = "torus";
        /// Hosts of each switch (of each leaf).
        pub hosts_per_switch: u32 = 1, in 1..=1 << 15;
        /// Parallel cables between two switches; not between groups.
        pub cables: u32 = 1, in 1..=1 << 10;
        /// Leaf switches (dragonfly-plus: of a group).
        pub leaves: u32, in 1..=1 << 15;
        /// Spine switches (dragonfly-plus: of a group).
        pub spines: u32, in 1..=1 << 15;
        /// A graph file; its path from this machine file.
        pub path: String;
        /// What the graph file says.
        pub text: String => _;
    }
}

/// What a rule is.
struct Rule {
    kind: TopologyKind,
    /// Those in `[topology]` that it has, beside those of all.
    keys: &'static [&'static str],
    /// How to speak of it, and what gives it more room.
    words: [&'static str; 2],
    /// The most nodes that it connects, with switches of so many ports: factors.
    room: fn(&Topology, u64) -> Vec<u64>,
    /// With so many nodes, of switches with so many ports, before anything fails.
    graph: fn(&Topology, u32, u32) -> Result<graph::Topology, TopologyError>,
}

const TREE: &str = "this tree";
const ANY: &str = "this topology";
const GRID: &str = "raise topology.lengths or topology.hosts_per_switch";
const LEAVES: &str = "raise topology.leaves or topology.hosts_per_switch";

/// In the order of [`TopologyKind::ALL`].
const RULES: [Rule; 12] = [
    Rule {
        kind: SingleSwitch,
        keys: &[],
        words: ["one switch", "raise switch.radix, or set topology.kind = \"fat-tree\""],
        room: |_, radix| vec![radix],
        graph: |_, nodes, _| Ok(graph::FatTree::one_switch(nodes)?.build()),
    },
    Rule {
        kind: KAryNTree,
        keys: &["k", "n"],
        words: [TREE, "raise topology.k or topology.n"],
        room: |t, _| vec![t.k.into(); t.n as usize],
        graph: |t, nodes, _| Ok(graph::FatTree::k_ary_n_tree(t.k, t.n)?.with_hosts(nodes)?.build()),
    },
    Rule {
        kind: Pgft,
        keys: &["children", "parents", "parallel"],
        words: [TREE, "raise topology.children"],
        room: |t, _| wide(&t.children, []),
        graph: |t, nodes, _| Ok(graph::FatTree::pgft(&t.children, &t.parents, &t.parallel)?.with_hosts(nodes)?.build()),
    },
    Rule {
        kind: FatTree,
        keys: &[],
        words: ["a three-level fat tree of these switches", "raise switch.radix, or give the tree as topology.kind = \"pgft\""],
        // Full bisection: half of the ports down, and all of them at the top.
        room: |_, radix| if radix < 4 { vec![radix] } else { vec![radix / 2, radix / 2, radix] },
        graph: |_, nodes, radix| Ok(graph::FatTree::smallest_full_bisection(nodes, radix)?.build()),
    },
    Rule {
        kind: Dragonfly,
        keys: &["p", "a", "h", "g", "arrangement"],
        words: ["this dragonfly", "raise topology.p, topology.a or topology.g"],
        room: |t, _| vec![t.p.into(), t.a.into(), t.g.into()],
        graph: |t, nodes, _| Ok(graph::Dragonfly::new([t.p, t.a, t.h, t.g], t.arrangement, Some(nodes))?.build()),
    },
    Rule {
        kind: Torus,
        keys: &["lengths", "hosts_per_switch", "cables"],
        words: [ANY, GRID],
        room: |t, _| wide(&t.lengths, [t.hosts_per_switch]),
        graph: torus,
    },
    Rule {
        kind: Mesh,
        keys: &["lengths", "hosts_per_switch", "cables"],
        words: [ANY, GRID],
        room: |t, _| wide(&t.lengths, [t.hosts_per_switch]),
        graph: torus,
    },
    Rule {
        kind: ExaNest,
        keys: &["lengths", "board", "boards", "hosts_per_switch", "cables"],
        words: [ANY, GRID],
        room: |t, _| wide(&t.lengths, [t.board, t.hosts_per_switch]),
        graph: torus,
    },
    Rule {
        kind: SpineLeaf,
        keys: &["leaves", "spines", "hosts_per_switch", "cables"],
        words: [ANY, LEAVES],
        room: |t, _| vec![t.leaves.into(), t.hosts_per_switch.into()],
        graph: |t, nodes, _| {
            let tree = graph::FatTree::pgft(&[t.hosts_per_switch, t.leaves], &[1, t.spines], &[1, t.cables])?;
            Ok(tree.with_hosts(nodes)?.build())
        },
    },
    Rule {
        kind: DragonflyPlus,
        keys: &["g", "leaves", "spines", "hosts_per_switch", "h", "cables", "arrangement"],
        words: [ANY, LEAVES],
        room: |t, _| vec![t.g.into(), t.leaves.into(), t.hosts_per_switch.into()],
        graph: |t, nodes, _| {
            let plus = DragonflyPlusParameters {
                groups: t.g,
                leaves: t.leaves,
                spines: t.spines,
                hosts_per_leaf: t.hosts_per_switch,
                global_links: t.h,
                cables: t.cables,
                arrangement: t.arrangement,
                hosts: Some(nodes),
            };
            Ok(graph::DragonflyPlus::new(plus)?.build())
        },
    },
    Rule {
        kind: HyperX,
        keys: &["lengths", "hosts_per_switch", "cables"],
        words: [ANY, GRID],
        room: |t, _| wide(&t.lengths, [t.hosts_per_switch]),
        graph: |t, nodes, _| Ok(graph::HyperX::new(&t.lengths, t.hosts_per_switch, t.cables, Some(nodes))?.build()),
    },
    // The file itself says how many nodes it has.
    Rule {
        kind: File,
        keys: &["path"],
        words: [ANY, "give its file more of them"],
        room: |_, _| vec![u64::MAX],
        graph: |t, nodes, _| Ok(graph::graph_file::parse(&t.path, &t.text, Some(nodes))?),
    },
];

fn wide<const N: usize>(lengths: &[u32], each: [u32; N]) -> Vec<u64> {
    lengths.iter().copied().chain(each).map(u64::from).collect()
}

fn torus(t: &Topology, nodes: u32, _: u32) -> Result<graph::Topology, TopologyError> {
    let torus = TorusParameters {
        lengths: t.lengths.clone(),
        wrap: t.kind != Mesh,
        board: if t.kind == ExaNest { t.board } else { 1 },
        hosts_per_switch: t.hosts_per_switch,
        cables: t.cables,
        hosts: Some(nodes),
    };
    let full = t.kind == ExaNest && t.boards == Boards::FullMesh;
    Ok(if full { graph::Torus::of_full_meshes(torus)? } else { graph::Torus::new(torus)? }.build())
}

/// Which machines have a key of `[topology]`: those with a rule that has it.
pub(crate) fn owned(mut key: Key<'_>) -> Key<'_> {
    let owners: Vec<&str> = RULES.iter().filter(|rule| rule.keys.contains(&key.name())).map(|rule| rule.kind.name()).collect();
    key.only = (!owners.is_empty()).then_some(Only { selector: "topology.kind", values: owners.into() });
    key
}

impl Topology {
    /// This rule, without numbers.
    pub fn new(kind: TopologyKind) -> Topology {
        Topology { kind, ..Keys::blank() }
    }

    fn rule(&self) -> &'static Rule {
        &RULES[self.kind as usize]
    }

    /// How to speak of it, and what gives it more room.
    pub(crate) fn words(&self) -> [&'static str; 2] {
        self.rule().words
    }

    /// The most nodes that it connects, with switches of `radix` ports.
    pub fn capacity(&self, radix: u32) -> u64 {
        (self.rule().room)(self, radix.into()).into_iter().fold(1, u64::saturating_mul)
    }

    /// The graph with so many nodes, before anything fails.
    ///
    /// # Errors
    /// The numbers make none.
    pub(crate) fn build(&self, nodes: u32, radix: u32) -> Result<graph::Topology, TopologyError> {
        (self.rule().graph)(self, nodes, radix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_where_their_kinds_do() {
        assert_eq!(RULES.each_ref().map(|rule| rule.kind), TopologyKind::ALL);
    }

    /// `docs/topologies.md` has a row per rule, with its keys.
    #[test]
    fn the_documentation_has_every_rule_with_its_keys() {
        let page = include_str!("../../../docs/topologies.md");
        for rule in &RULES {
            let name = format!("`{}`", rule.kind.name());
            let row = page.lines().find(|line| line.split('|').nth(1).is_some_and(|kinds| kinds.contains(&name)));
            let row = row.unwrap_or_else(|| panic!("docs/topologies.md: no row for {name}"));
            let keys: Vec<String> = rule.keys.iter().map(|key| format!("`{key}`")).collect();
            assert_eq!(row.split('|').nth(2).map(str::trim), Some(keys.join(", ").as_str()), "docs/topologies.md: {name}");
        }
    }
}
