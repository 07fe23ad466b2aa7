//! Trees along which switches copy a message.
//!
//! A tree has the minimal way from its source to each of its targets, and one copy of a packet on each of its links. In
//! fat trees the source chooses the way up (S-mod-K), so that there is one. Its channels are those of minimal routing,
//! so that copies wait for buffers in the same order as other packets.

use narrows_topology::{RouteState, Routing, RoutingKind, RoutingOptions, Shape, Topology, Vertex};

/// A link of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) link: u32,
    /// The virtual channel within the virtual network.
    pub(crate) channel: u8,
    /// The place in the tree at its end; at a host, the host.
    pub(crate) next: u32,
}

/// The ways from one host to others, as far as they are common: the links of a multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    source: u32,
    targets: Vec<u32>,
    /// Of each place, the first of its branches; place 0 is the source's switch.
    first: Vec<u32>,
    branches: Vec<Branch>,
}

/// Why there is no such tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Lost copies cannot be sent again to a part of the tree.
    #[error(
        "hardware multicast needs credits: with flow_control = \"pause\" a copy could be lost; choose another algorithm or flow_control = \"credits\""
    )]
    Pause,
    /// Trees take the channels of minimal routing.
    #[error(
        "minimal routing needs {needed} virtual channels for hardware multicast here, but there are {given}; set network.virtual_channels"
    )]
    Channels {
        /// What a tree needs.
        needed: u8,
        /// What there are.
        given: u8,
    },
    /// The same for links that lose packets.
    #[error("hardware multicast needs links that lose nothing; choose another algorithm, or no fault")]
    Faults,
    /// Its hosts have the same numbers in their network and in the machine.
    #[error("hardware multicast takes the first network of a machine; choose another algorithm")]
    Network,
    /// A tree is walked as a whole.
    #[error("hardware multicast needs the network in one region")]
    Regions,
}

impl Tree {
    /// The tree from `source` to `targets`, which are in rising order, without the source. Takes time and memory in
    /// proportion to the links of all ways.
    ///
    /// # Panics
    /// When a host does not exist, or the targets are not as said.
    pub fn new(topology: &Topology, source: u32, targets: &[u32]) -> Tree {
        assert!(
            targets.windows(2).all(|pair| pair[0] < pair[1]) && !targets.contains(&source),
            "targets in rising order, without the source"
        );
        let mut routing = minimal(topology);
        // Before the dateline of a ring, packets that will cross it take the low channel and the others the high one.
        // Of both together the copy for all takes the low one: those who leave the ring earlier have a part of the way
        // of those who cross.
        let rings = matches!(topology.shape(), Shape::Torus(_));
        let mut places: Vec<Vec<Branch>> = vec![Vec::new()];
        for &target in targets {
            let mut state = RouteState::default();
            let (mut place, mut link) = (0u32, topology.injection(source));
            while let Vertex::Switch(switch) = topology.links()[link as usize].to {
                let step = narrows_topology::Route::next(&mut routing, switch, link, target, &mut state, |_| 0);
                state.channel = step.channel;
                link = step.link;
                let same = |branch: &&mut Branch| branch.link == step.link && (rings || branch.channel == step.channel);
                let known = places[place as usize].iter_mut().find(same);
                place = match (known, topology.links()[link as usize].to) {
                    (Some(branch), _) => {
                        branch.channel = branch.channel.min(step.channel);
                        branch.next
                    }
                    (None, end) => {
                        let next = if let Vertex::Host(host) = end { host } else { places.len() as u32 };
                        places[place as usize].push(Branch { link, channel: step.channel, next });
                        if let Vertex::Switch(_) = end {
                            places.push(Vec::new());
                        }
                        next
                    }
                };
            }
        }
        let mut first = vec![0];
        let mut branches = Vec::new();
        for place in places {
            branches.extend(place);
            first.push(branches.len() as u32);
        }
        Tree { source, targets: targets.to_vec(), first, branches }
    }

    /// Where it begins.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Where it ends, in rising order.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Its links, the source's host link among them.
    pub fn links(&self, topology: &Topology) -> impl Iterator<Item = u32> {
        std::iter::once(topology.injection(self.source)).chain(self.branches.iter().map(|branch| branch.link))
    }

    /// How many [`Tree::links`] there are.
    pub fn len(&self) -> u64 {
        self.branches.len() as u64 + 1
    }

    /// Whether it leads nowhere.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    #[inline]
    pub(crate) fn branches(&self, place: u32) -> &[Branch] {
        &self.branches[self.first[place as usize] as usize..self.first[place as usize + 1] as usize]
    }
}

fn minimal(topology: &Topology) -> Routing {
    let kind = if let Shape::FatTree(_) = topology.shape() { RoutingKind::SModK } else { RoutingKind::Minimal };
    Routing::new(kind, topology, RoutingOptions::default()).expect("every topology has this routing")
}

/// Whether a network of so many virtual channels has room for trees.
pub(crate) fn check(topology: &Topology, given: u8) -> Result<(), TreeError> {
    let needed = narrows_topology::Route::virtual_channels(&minimal(topology));
    if given < needed { Err(TreeError::Channels { needed, given }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_topology::FatTree;

    #[test]
    fn a_tree_has_one_way_up_and_every_link_once() {
        // 4-ary 3-tree: from host 0 to all others: 1 injection, 2 up, 4 pods less its own 3 down from the top, 3 x 4 +
        // 3 below them, 63 to hosts.
        let topology = FatTree::k_ary_n_tree(4, 3).unwrap().build();
        let targets: Vec<u32> = (1..64).collect();
        let tree = Tree::new(&topology, 0, &targets);
        assert_eq!(tree.len(), 1 + 2 + 3 + 15 + 63);
        let mut links: Vec<u32> = tree.links(&topology).collect();
        links.sort_unstable();
        links.dedup();
        assert_eq!(links.len() as u64, tree.len(), "no link twice");
    }
}
