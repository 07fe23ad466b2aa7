//! Trees that know where ranks are in a network of groups of routers (dragonfly): GLF and LLF, after the group-first
//! and router-first broadcasts of Xiang and Liu (TPDS 2016), compared by Dorier et al. (CLUSTER 2016).
//!
//! * **GLF**, group first: the root sends one copy to one rank of every other group, one after the other: to a rank on
//!   the router where the link from the root's group arrives. Then all groups at once: to one rank of every router, and
//!   from there to the others.
//! * **LLF**, router first: the root reaches one rank of every router of its group, from there all ranks of the router;
//!   then the ranks of a router share its global links among them and send one copy over each. Then as in GLF.
//!
//! Inside groups and routers the steps are binomial.

use crate::CustomTree;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the ranks of a communicator are.
pub struct Locality<'a> {
    /// Group of each rank.
    pub group: &'a [u32],
    /// Router of each rank, numbered over all groups.
    pub router: &'a [u32],
    /// Between two different groups: the router where their link leaves the first, and that where it arrives in the
    /// second.
    pub gateway: &'a dyn Fn(u32, u32) -> (u32, u32),
}

/// The ranks of a group, router by router.
type Routers = BTreeMap<u32, Vec<u32>>;

struct Builder<'a> {
    places: &'a Locality<'a>,
    groups: BTreeMap<u32, Routers>,
    edges: Vec<(u32, u32)>,
}

impl Builder<'_> {
    /// Edges of a binomial broadcast over `members`, the first of which has the data.
    fn binomial(&mut self, members: &[u32]) {
        let mut reach = members.len().next_power_of_two();
        while reach > 1 {
            reach /= 2;
            let pairs = (0..members.len()).step_by(2 * reach).filter(|from| from + reach < members.len());
            self.edges.extend(pairs.map(|from| (members[from], members[from + reach])));
        }
    }

    /// From `start` to all of its group: one rank of every router, then the others.
    fn inside(&mut self, start: u32) {
        let routers = self.groups[&self.places.group[start as usize]].clone();
        let home = self.places.router[start as usize];
        let mut heads = vec![start];
        heads.extend(routers.iter().filter(|(router, _)| **router != home).map(|(_, ranks)| ranks[0]));
        self.binomial(&heads);
        for head in heads {
            let mut members = vec![head];
            members.extend(routers[&self.places.router[head as usize]].iter().copied().filter(|&rank| rank != head));
            self.binomial(&members);
        }
    }

    /// A rank of `group` near to where the link from `from` arrives.
    fn proxy(&self, from: u32, group: u32) -> u32 {
        let routers = &self.groups[&group];
        let arrives = (self.places.gateway)(from, group).1;
        // A router without ranks of this communicator: any other one of the group.
        routers.get(&arrives).or_else(|| routers.values().next()).map_or(0, |ranks| ranks[0])
    }

    fn other_groups(&self, home: u32) -> Vec<u32> {
        // In the order of the numbers that follow, so that not all roots start with group 0.
        let (before, after): (Vec<u32>, Vec<u32>) =
            self.groups.keys().copied().filter(|&group| group != home).partition(|&group| group < home);
        after.into_iter().chain(before).collect()
    }
}

fn builder<'a>(places: &'a Locality<'a>) -> Builder<'a> {
    let mut groups: BTreeMap<u32, Routers> = BTreeMap::new();
    for (rank, (&group, &router)) in places.group.iter().zip(places.router).enumerate() {
        groups.entry(group).or_default().entry(router).or_default().push(rank as u32);
    }
    Builder { places, groups, edges: Vec::new() }
}

/// The tree of a group-first broadcast.
///
/// # Panics
/// When `root` is not among the ranks.
pub fn glf(places: &Locality<'_>, root: u32) -> Arc<CustomTree> {
    let mut builder = builder(places);
    let home = places.group[root as usize];
    for group in builder.other_groups(home) {
        let proxy = builder.proxy(home, group);
        builder.edges.push((root, proxy));
        builder.inside(proxy);
    }
    // The root serves its own group last: the others are farther away.
    builder.inside(root);
    Arc::new(CustomTree::new(places.group.len() as u32, root, &builder.edges))
}

/// The tree of a router-first broadcast.
///
/// # Panics
/// When `root` is not among the ranks.
pub fn llf(places: &Locality<'_>, root: u32) -> Arc<CustomTree> {
    let mut builder = builder(places);
    let home = places.group[root as usize];
    builder.inside(root);
    let mut links: BTreeMap<u32, u32> = BTreeMap::new();
    for group in builder.other_groups(home) {
        let leaves = (places.gateway)(home, group).0;
        let routers = &builder.groups[&home];
        let ranks = routers.get(&leaves).or_else(|| routers.values().next()).expect("the root is in its group");
        let link = links.entry(leaves).or_default();
        let sender = ranks[*link as usize % ranks.len()];
        *link += 1;
        let proxy = builder.proxy(home, group);
        builder.edges.push((sender, proxy));
        builder.inside(proxy);
    }
    Arc::new(CustomTree::new(places.group.len() as u32, root, &builder.edges))
}

/// The tree of a broadcast that the switches copy: the root, one rank of every other node, the other ranks of each
/// node. `nodes`: of each rank.
///
/// # Panics
/// When `root` is not among the ranks.
pub fn hardware(nodes: &[u32], root: u32) -> Arc<CustomTree> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::from([(nodes[root as usize], root)]);
    let (mut copied, mut local) = (Vec::new(), Vec::new());
    for (rank, &node) in (0..).zip(nodes).filter(|&(rank, _)| rank != root) {
        match first.get(&node) {
            Some(&leader) => local.push((leader, rank)),
            None => {
                first.insert(node, rank);
                copied.push((root, rank));
            }
        }
    }
    let count = copied.len() as u32;
    copied.append(&mut local);
    Arc::new(CustomTree::new(nodes.len() as u32, root, &copied).with_copied(count))
}
