//! Fat trees: one switch, k-ary n-trees, XGFT and PGFT.
//!
//! `PGFT(n; m1..mn; w1..wn; p1..pn)` (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on
//! real life fat trees", 2010; the notation of fact sheet 2.1): a vertex of level `l` has `m_l` children and `w_(l+1)`
//! parents, and `p_l` parallel cables join it to each child. Level 0 are the hosts. An XGFT (Öhring et al., IPPS 1995)
//! is a PGFT with every `p` = 1.
//!
//! A vertex of level `l` has one digit per level: digit `i` counts to `w_i` for `i <= l` and to `m_i` above. A child
//! and a parent are joined when all digits but the parent's level agree. Switches are numbered level by level, lowest
//! first, and within a level with the `w` digits running fastest, so that the switches of a pod are neighbours.

use crate::graph::{GraphBuilder, GraphError, MAX_VERTICES, Shape, Topology, Vertex};
use std::fmt;

/// Why the numbers of a fat tree make none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatTreeError {
    /// No hosts at all.
    #[error("a topology needs at least one host")]
    NoHosts,
    /// No levels, or lists of different lengths.
    #[error("a tree of n levels needs n children, parents and cables; got {children}, {parents} and {cables}")]
    Levels {
        /// Entries in the list of children.
        children: usize,
        /// Entries in the list of parents.
        parents: usize,
        /// Entries in the list of cables.
        cables: usize,
    },
    /// A zero in one of the lists.
    #[error("level {level} has {children} children, {parents} parents and {cables} cables; each must be at least 1")]
    Zero {
        /// The level, counted from 1.
        level: usize,
        /// Its children.
        children: u32,
        /// Its parents.
        parents: u32,
        /// Its cables.
        cables: u32,
    },
    /// A host with more than one link.
    #[error("w1 = {parents} and p1 = {cables} give a host {} links; a NIC has one, so both must be 1", parents * cables)]
    HostLinks {
        /// `w1`.
        parents: u32,
        /// `p1`.
        cables: u32,
    },
    /// More hosts asked for than the tree has places.
    #[error("{asked} hosts do not fit: this tree has {places} places")]
    TooManyHosts {
        /// Hosts asked for.
        asked: u64,
        /// Hosts that fit.
        places: u64,
    },
    /// Too large for the indices.
    #[error("the tree has {vertices} hosts and switches; at most {MAX_VERTICES} are possible")]
    TooLarge {
        /// Hosts and switches.
        vertices: u64,
    },
    /// Half of the ports go up, so their number must be even.
    #[error("switches with {radix} ports cannot make a full-bisection tree; the number must be even and at least 2")]
    Radix {
        /// Ports per switch.
        radix: u32,
    },
    /// The cabling failed, for instance with more ports than a switch can have.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The numbers of a fat tree. They are checked when it is made, so [`FatTree::build`] cannot fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    hosts: u32,
    children: Vec<u32>,
    parents: Vec<u32>,
    cables: Vec<u32>,
}

fn product(factors: &[u32]) -> u64 {
    factors.iter().fold(1u64, |product, &factor| product.saturating_mul(u64::from(factor)))
}

/// The largest divisor of `number` that is at most `limit` (at least 1).
fn largest_divisor(number: u32, limit: u32) -> u32 {
    (1..=limit.min(number)).rev().find(|divisor| number.is_multiple_of(*divisor)).unwrap_or(1)
}

impl FatTree {
    /// `PGFT(n; children; parents; cables)` with every place taken.
    ///
    /// # Errors
    /// See [`FatTreeError`].
    pub fn pgft(children: &[u32], parents: &[u32], cables: &[u32]) -> Result<FatTree, FatTreeError> {
        let levels = children.len();
        if levels == 0 || parents.len() != levels || cables.len() != levels {
            return Err(FatTreeError::Levels { children: levels, parents: parents.len(), cables: cables.len() });
        }
        for level in 0..levels {
            let (children, parents, cables) = (children[level], parents[level], cables[level]);
            if children == 0 || parents == 0 || cables == 0 {
                return Err(FatTreeError::Zero { level: level + 1, children, parents, cables });
            }
        }
        if parents[0] != 1 || cables[0] != 1 {
            return Err(FatTreeError::HostLinks { parents: parents[0], cables: cables[0] });
        }
        let mut vertices = product(children);
        for level in 1..=levels {
            vertices = vertices.saturating_add(product(&parents[..level]).saturating_mul(product(&children[level..])));
        }
        if vertices >= MAX_VERTICES {
            return Err(FatTreeError::TooLarge { vertices });
        }
        for level in 0..levels {
            let up = if level + 1 < levels { u64::from(parents[level + 1]) * u64::from(cables[level + 1]) } else { 0 };
            if u64::from(children[level]) * u64::from(cables[level]) + up > u64::from(u16::MAX) {
                return Err(FatTreeError::Graph(GraphError::TooManyPorts { switch: 0 }));
            }
        }
        let hosts = product(children) as u32;
        Ok(FatTree { hosts, children: children.to_vec(), parents: parents.to_vec(), cables: cables.to_vec() })
    }

    /// `XGFT(n; children; parents)`: single cables.
    ///
    /// # Errors
    /// See [`FatTreeError`].
    pub fn xgft(children: &[u32], parents: &[u32]) -> Result<FatTree, FatTreeError> {
        FatTree::pgft(children, parents, &vec![1; children.len()])
    }

    /// A k-ary n-tree (Petrini and Vanneschi, 1997): `k^n` hosts, `n` levels of `k^(n-1)` switches; those of the top
    /// use half of their ports.
    ///
    /// # Errors
    /// See [`FatTreeError`].
    pub fn k_ary_n_tree(k: u32, n: u32) -> Result<FatTree, FatTreeError> {
        let mut parents = vec![k; n as usize];
        if let Some(first) = parents.first_mut() {
            *first = 1;
        }
        FatTree::xgft(&vec![k; n as usize], &parents)
    }

    /// `hosts` hosts on one switch.
    ///
    /// # Errors
    /// [`FatTreeError::NoHosts`], and more hosts than a switch can have ports.
    pub fn one_switch(hosts: u32) -> Result<FatTree, FatTreeError> {
        if hosts == 0 {
            return Err(FatTreeError::NoHosts);
        }
        FatTree::xgft(&[hosts], &[1])
    }

    /// The smallest full-bisection tree of switches with `radix` ports: one switch for up to `radix` hosts, then two
    /// levels (up to `radix^2 / 2`), then three (up to `radix^3 / 4`). Leaf switches are filled in order, half of their
    /// ports go to hosts; parallel cables keep the upper levels small.
    ///
    /// # Errors
    /// No hosts, more than fit, an odd or zero radix.
    pub fn smallest_full_bisection(hosts: u32, radix: u32) -> Result<FatTree, FatTreeError> {
        if hosts == 0 {
            return Err(FatTreeError::NoHosts);
        }
        if radix < 2 || !radix.is_multiple_of(2) {
            return Err(FatTreeError::Radix { radix });
        }
        if hosts <= radix {
            return FatTree::one_switch(hosts);
        }
        let half = radix / 2;
        let leaves = hosts.div_ceil(half);
        let tree = if leaves <= radix {
            let cables = largest_divisor(half, radix / leaves);
            FatTree::pgft(&[half, leaves], &[1, half / cables], &[1, cables])?
        } else {
            let pods = leaves.div_ceil(half);
            if pods > radix {
                let places = u64::from(half) * u64::from(half) * u64::from(radix);
                return Err(FatTreeError::TooManyHosts { asked: u64::from(hosts), places });
            }
            let leaves_per_pod = leaves.div_ceil(pods);
            let leaf_cables = largest_divisor(half, half / leaves_per_pod);
            let up = leaves_per_pod * leaf_cables;
            let pod_cables = largest_divisor(up, radix / pods);
            FatTree::pgft(&[half, leaves_per_pod, pods], &[1, half / leaf_cables, up / pod_cables], &[1, leaf_cables, pod_cables])?
        };
        tree.with_hosts(hosts)
    }

    /// The same switches with only the first `hosts` places taken.
    ///
    /// # Errors
    /// [`FatTreeError::NoHosts`] and [`FatTreeError::TooManyHosts`].
    pub fn with_hosts(self, hosts: u32) -> Result<FatTree, FatTreeError> {
        let places = product(&self.children);
        match hosts {
            0 => Err(FatTreeError::NoHosts),
            _ if u64::from(hosts) > places => Err(FatTreeError::TooManyHosts { asked: u64::from(hosts), places }),
            _ => Ok(FatTree { hosts, ..self }),
        }
    }

    /// Number of levels of switches, `n`.
    pub fn levels(&self) -> usize {
        self.children.len()
    }

    /// Hosts that are there; at most the product of the children.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// `m_level`, level counted from 1.
    pub fn children(&self, level: usize) -> u32 {
        self.children[level - 1]
    }

    /// `w_level`: parents of a vertex of level `level - 1`. Zero above the top.
    pub fn parents(&self, level: usize) -> u32 {
        self.parents.get(level - 1).copied().unwrap_or(0)
    }

    /// `p_level`: cables between a vertex of `level` and each child. Zero above the top.
    pub fn cables(&self, level: usize) -> u32 {
        self.cables.get(level - 1).copied().unwrap_or(0)
    }

    /// Ports of the largest switch.
    pub fn radix(&self) -> u32 {
        let ports = |level| self.children(level) * self.cables(level) + self.parents(level + 1) * self.cables(level + 1);
        (1..=self.levels()).map(ports).max().unwrap_or(0)
    }

    /// Places for hosts below a switch of `level`: the product of the children up to it.
    pub fn span(&self, level: usize) -> u32 {
        product(&self.children[..level]) as u32
    }

    /// Switches of `level` that stand above the same hosts: the product of the parents up to it.
    pub fn width(&self, level: usize) -> u32 {
        product(&self.parents[..level]) as u32
    }

    /// Switches of `level`.
    pub fn switches(&self, level: usize) -> u32 {
        (product(&self.parents[..level]) * product(&self.children[level..])) as u32
    }

    /// The index of the first switch of `level`.
    pub fn first_switch(&self, level: usize) -> u32 {
        (1..level).map(|lower| self.switches(lower)).sum()
    }

    /// The level of a switch, counted from 1, and its index in it.
    pub fn level_of(&self, switch: u32) -> (usize, u32) {
        let (mut level, mut index) = (1, switch);
        while index >= self.switches(level) {
            index -= self.switches(level);
            level += 1;
        }
        (level, index)
    }

    /// The child of the top that a switch is under; those of the top are dealt out in equal shares.
    fn pod_of(&self, switch: u32) -> u32 {
        let top = self.levels();
        let pods = self.children(top);
        let (level, index) = self.level_of(switch);
        if level == top {
            (u64::from(index) * u64::from(pods) / u64::from(self.switches(top))) as u32
        } else {
            index / self.width(level) / (self.switches(level) / self.width(level) / pods)
        }
    }

    /// The lowest level whose switches stand above both hosts.
    #[inline]
    fn common_level(&self, source: u32, target: u32) -> u32 {
        let (mut source, mut target, mut level) = (source, target, 0);
        for &children in &self.children {
            level += 1;
            source /= children;
            target /= children;
            if source == target {
                break;
            }
        }
        level
    }

    /// Links between switches on every shortest way: `2 (l - 1)` when the nearest common switch is of level `l`.
    #[inline]
    pub fn switch_links_between(&self, source: u32, target: u32) -> u32 {
        2 * (self.common_level(source, target) - 1)
    }

    /// Links on the longest of the shortest ways between two hosts; 0 for a single host.
    pub fn diameter(&self) -> u32 {
        if self.hosts <= 1 { 0 } else { 2 * self.common_level(0, self.hosts - 1) }
    }

    /// The graph. At every switch the ports to its children come first (child by child, cable by cable), then those to
    /// its parents (cable by cable, parent by parent: the order that D-mod-K counts in).
    pub fn build(self) -> Topology {
        let switches = (1..=self.levels()).map(|level| self.switches(level)).sum();
        let mut graph = GraphBuilder::new(self.hosts, switches);
        graph.groups(|switch| self.pod_of(switch));
        graph.levels(&["leaf", "spine", "core"], |switch| (self.level_of(switch).0 - 1).min(3) as u8);
        for host in 0..self.hosts {
            graph.cable(Vertex::Host(host), Vertex::Switch(host / self.children[0]));
        }
        for level in 1..self.levels() {
            let width = self.width(level);
            for index in 0..self.switches(level) {
                let (of_pod, pod) = (index % width, index / width);
                for _cable in 0..self.cables(level + 1) {
                    for digit in 0..self.parents(level + 1) {
                        let parent = of_pod + width * digit + self.width(level + 1) * (pod / self.children(level + 1));
                        graph
                            .cable(Vertex::Switch(self.first_switch(level) + index), Vertex::Switch(self.first_switch(level + 1) + parent));
                    }
                }
            }
        }
        graph.build(self.to_string(), Shape::FatTree(self)).expect("a checked fat tree has valid cables")
    }
}

/// `PGFT(2; 24,10; 1,3; 1,2)`; with places left free, `... for 200 hosts`.
impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let (children, parents, cables) = (list(&self.children), list(&self.parents), list(&self.cables));
        if self.cables.iter().all(|&cables| cables == 1) {
            write!(f, "XGFT({}; {children}; {parents})", self.levels())?;
        } else {
            write!(f, "PGFT({}; {children}; {parents}; {cables})", self.levels())?;
        }
        if u64::from(self.hosts) < product(&self.children) {
            write!(f, " for {} hosts", self.hosts)?;
        }
        Ok(())
    }
}
