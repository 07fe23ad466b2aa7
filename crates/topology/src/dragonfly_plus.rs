//! Dragonfly+ (Shpiner et al., HiPINEB 2017), also called Megafly (Flajslik et al., ISC 2018): groups of leaf and spine
//! switches.
//!
//! A group has `l` leaves with `p` hosts each and `s` spines with `h` global links each; `c` cables join every leaf to
//! every spine of its group. Switches are numbered group by group, leaves first; host `n` is at leaf `n / p`, counted
//! through all groups. The global ports of a group are counted through as those of a dragonfly: port `d` is port `d mod
//! h` of spine `d / h`, and every pair of groups has `floor(s h / (g - 1))` links.

use crate::divide::Divisor;
use crate::dragonfly::{Arrangement, DragonflyError};
use crate::graph::{GraphBuilder, GraphError, LinkClass, LinkId, MAX_VERTICES, Shape, Topology};
use crate::guide::{Guide, Policy, Toward};
use std::fmt;

/// What a dragonfly+ is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DragonflyPlusParameters {
    /// `g`.
    pub groups: u32,
    /// `l`: leaves of a group.
    pub leaves: u32,
    /// `s`: spines of a group.
    pub spines: u32,
    /// `p`: hosts of a leaf.
    pub hosts_per_leaf: u32,
    /// `h`: global links of a spine.
    pub global_links: u32,
    /// `c`: cables between a leaf and a spine.
    pub cables: u32,
    /// Where global links go.
    pub arrangement: Arrangement,
    /// Only the first so many places are taken.
    pub hosts: Option<u32>,
}

/// The numbers of a dragonfly+, checked, and the rule of its minimal ways: up, to the other group, down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DragonflyPlus {
    parameters: DragonflyPlusParameters,
    hosts: u32,
    /// Links between two groups.
    rounds: u32,
    /// Switches of a group.
    size: u32,
    /// The first output of every switch, and their end.
    first: Vec<LinkId>,
    by_hosts: Divisor,
    by_leaves: Divisor,
    by_size: Divisor,
    by_global: Divisor,
    by_rounds: Divisor,
    by_spines: Divisor,
    by_cables: Divisor,
}

const UP: u8 = 0;
const ACROSS: u8 = 1;
const DOWN: u8 = 2;

impl DragonflyPlus {
    /// The dragonfly+ of these numbers.
    ///
    /// # Errors
    /// See [`DragonflyError`].
    pub fn new(parameters: DragonflyPlusParameters) -> Result<DragonflyPlus, DragonflyError> {
        let DragonflyPlusParameters { groups, leaves, spines, hosts_per_leaf, global_links, cables, hosts, .. } = parameters;
        for (what, number) in [
            ("the number of groups", groups),
            ("the number of leaves", leaves),
            ("the number of spines", spines),
            ("the number of hosts per leaf", hosts_per_leaf),
            ("the number of global links per spine", global_links),
            ("the number of cables between leaf and spine", cables),
        ] {
            if number == 0 {
                return Err(DragonflyError::Zero { what });
            }
        }
        let ports = u64::from(spines) * u64::from(global_links);
        if u64::from(groups) - 1 > ports {
            return Err(DragonflyError::Groups { groups, ports });
        }
        let size = u64::from(leaves) + u64::from(spines);
        let switches = size.saturating_mul(u64::from(groups));
        let places = u64::from(leaves).saturating_mul(u64::from(groups)).saturating_mul(u64::from(hosts_per_leaf));
        let vertices = switches.saturating_add(places);
        if vertices >= MAX_VERTICES {
            return Err(DragonflyError::TooLarge { vertices });
        }
        let leaf_ports = u64::from(hosts_per_leaf) + u64::from(spines) * u64::from(cables);
        let spine_ports = u64::from(global_links) + u64::from(leaves) * u64::from(cables);
        if leaf_ports.max(spine_ports) > u64::from(u16::MAX) {
            return Err(GraphError::TooManyPorts { switch: 0 }.into());
        }
        let asked = hosts.unwrap_or(places as u32);
        if asked == 0 || u64::from(asked) > places {
            return Err(DragonflyError::Hosts { asked, places });
        }
        let rounds = if groups == 1 { 1 } else { (ports / (u64::from(groups) - 1)) as u32 };
        let mut plus = DragonflyPlus {
            parameters,
            hosts: asked,
            rounds,
            size: size as u32,
            first: Vec::with_capacity(switches as usize + 1),
            by_hosts: Divisor::new(hosts_per_leaf),
            by_leaves: Divisor::new(leaves),
            by_size: Divisor::new(size as u32),
            by_global: Divisor::new(global_links),
            by_rounds: Divisor::new(rounds),
            by_spines: Divisor::new(spines),
            by_cables: Divisor::new(cables),
        };
        let mut next = asked;
        for switch in 0..switches as u32 {
            plus.first.push(next);
            let place = switch % plus.size;
            next +=
                if place < leaves { spines * cables + plus.hosts_of(switch) } else { leaves * cables + plus.globals_of(place - leaves) };
        }
        plus.first.push(next);
        Ok(plus)
    }

    /// What it was made of.
    pub fn parameters(&self) -> &DragonflyPlusParameters {
        &self.parameters
    }

    /// A switch's number in its group; leaves come first.
    pub(crate) fn place(&self, switch: u32) -> u32 {
        self.by_size.remainder(switch)
    }

    /// Links between two groups.
    pub fn links_per_pair(&self) -> u32 {
        self.rounds
    }

    /// Ports of the largest switch.
    pub fn radix(&self) -> u32 {
        let DragonflyPlusParameters { leaves, spines, hosts_per_leaf, global_links, cables, .. } = self.parameters;
        (hosts_per_leaf + spines * cables).max(global_links + leaves * cables)
    }

    /// Hosts of a leaf; none of a spine.
    fn hosts_of(&self, switch: u32) -> u32 {
        let (group, place) = (switch / self.size, switch % self.size);
        if place >= self.parameters.leaves {
            return 0;
        }
        let (leaf, each) = (group * self.parameters.leaves + place, self.parameters.hosts_per_leaf);
        (leaf + 1).saturating_mul(each).min(self.hosts) - leaf.saturating_mul(each).min(self.hosts)
    }

    /// Global links of a spine that lead somewhere.
    fn globals_of(&self, spine: u32) -> u32 {
        let (used, each) = (self.rounds * (self.parameters.groups - 1), self.parameters.global_links);
        used.saturating_sub(spine * each).min(each)
    }

    /// The spine of group `from`, and its global port, of a link to group `to`.
    #[inline]
    fn gateway(&self, from: u32, to: u32, round: u32) -> (u32, u32) {
        let groups = self.parameters.groups;
        self.by_global.divide(self.parameters.arrangement.port(from, to, groups) + round * (groups - 1))
    }

    #[inline]
    fn round(&self, spread: u32) -> u32 {
        if self.rounds == 1 { 0 } else { self.by_rounds.remainder(spread) }
    }

    /// The round of a link of this very spine to group `to`, if it has one.
    #[inline]
    fn own_round(&self, spine: u32, from: u32, to: u32) -> Option<u32> {
        let groups = self.parameters.groups;
        let port = self.parameters.arrangement.port(from, to, groups);
        let start = spine * self.parameters.global_links;
        let round = if start > port { (start - port).div_ceil(groups - 1) } else { 0 };
        (round < self.rounds && port + round * (groups - 1) < start + self.parameters.global_links).then_some(round)
    }

    #[inline]
    fn up(&self, leaf: u32, spine: u32, spread: u32) -> Toward {
        let cables = self.parameters.cables;
        let cable = if cables == 1 { 0 } else { self.by_cables.remainder(spread) };
        Toward { link: self.first[leaf as usize] + spine * cables + cable, rung: UP }
    }

    /// `spread` selects the spine by its remainder, so the cable by its quotient.
    #[inline]
    fn down(&self, spine: u32, leaf: u32, spread: u32) -> Toward {
        let cables = self.parameters.cables;
        let cable = if cables == 1 { 0 } else { self.by_cables.remainder(self.by_spines.quotient(spread)) };
        Toward { link: self.first[spine as usize] + leaf * cables + cable, rung: DOWN }
    }

    /// Towards another group. A spine without a link to it goes down to a leaf, which goes up to one that has.
    #[inline]
    fn out(&self, switch: u32, place: u32, from: u32, to: u32, spread: u32) -> Toward {
        let leaves = self.parameters.leaves;
        if place < leaves {
            let spine = self.gateway(from, to, self.round(spread)).0;
            return self.up(switch, spine, if self.parameters.cables == 1 { 0 } else { self.by_rounds.quotient(spread) });
        }
        match self.own_round(place - leaves, from, to) {
            Some(round) => {
                let port = self.gateway(from, to, round).1;
                Toward { link: self.first[switch as usize] + leaves * self.parameters.cables + port, rung: ACROSS }
            }
            None => self.down(switch, self.by_leaves.remainder(spread), spread),
        }
    }

    /// Where a packet lands in group `to` when `switch` of group `from` sends it there, and links up to it.
    fn landing(&self, place: u32, from: u32, to: u32, spread: u32) -> (u32, u32) {
        let leaves = self.parameters.leaves;
        let (round, links) = if place < leaves {
            (self.round(spread), 2)
        } else {
            match self.own_round(place - leaves, from, to) {
                Some(round) => (round, 1),
                None => (self.round(spread), 3),
            }
        };
        (to * self.size + leaves + self.gateway(to, from, round).0, links)
    }

    /// The graph.
    pub fn build(self) -> Topology {
        let DragonflyPlusParameters { groups, leaves, spines, hosts_per_leaf, cables, .. } = self.parameters;
        let mut graph = GraphBuilder::new(self.hosts, groups * self.size);
        graph.groups(|switch| switch / self.size);
        graph.levels(&["leaf", "spine"], |switch| u8::from(switch % self.size >= leaves));
        for group in 0..groups {
            let start = group * self.size;
            for leaf in 0..leaves {
                for (spine, cable) in (0..spines).flat_map(|spine| (0..cables).map(move |cable| (spine, cable))) {
                    let one = (start + leaf, spine * cables + cable);
                    graph.cable_at(one, (start + leaves + spine, leaf * cables + cable), LinkClass::Switch);
                }
                for index in 0..self.hosts_of(start + leaf) {
                    graph.host_at((group * leaves + leaf) * hosts_per_leaf + index, (start + leaf, spines * cables + index));
                }
            }
            for (other, round) in (group + 1..groups).flat_map(|other| (0..self.rounds).map(move |round| (other, round))) {
                let (there, there_port) = self.gateway(group, other, round);
                let (back, back_port) = self.gateway(other, group, round);
                let end = |group: u32, spine: u32, port: u32| (group * self.size + leaves + spine, leaves * cables + port);
                graph.cable_at(end(group, there, there_port), end(other, back, back_port), LinkClass::Global);
            }
        }
        graph.build(self.to_string(), Shape::DragonflyPlus(self)).expect("a checked dragonfly+ has valid cables")
    }
}

fn least_common_multiple(one: u32, other: u32) -> u32 {
    let (mut low, mut high) = (one, other);
    while low != 0 {
        (low, high) = (high % low, low);
    }
    one / high * other
}

impl Guide for DragonflyPlus {
    #[inline]
    fn home(&self, host: u32) -> u32 {
        let (group, leaf) = self.by_leaves.divide(self.by_hosts.quotient(host));
        group * self.size + leaf
    }

    fn has_hosts(&self, switch: u32) -> bool {
        self.hosts_of(switch) > 0
    }

    #[inline]
    fn ejection(&self, switch: u32, host: u32) -> LinkId {
        let each = self.parameters.hosts_per_leaf;
        let index = self.by_hosts.remainder(host);
        debug_assert!(index < each);
        self.first[switch as usize] + self.parameters.spines * self.parameters.cables + index
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward {
        let (from, place) = self.by_size.divide(switch);
        let (to, there) = self.by_size.divide(target);
        if from != to {
            return self.out(switch, place, from, to, spread);
        }
        let leaves = self.parameters.leaves;
        match (place < leaves, there < leaves) {
            (true, true) => {
                let (further, spine) = self.by_spines.divide(spread);
                self.up(switch, spine, further)
            }
            (true, false) => self.up(switch, there - leaves, spread),
            (false, true) => self.down(switch, there, spread),
            (false, false) => self.down(switch, self.by_leaves.remainder(spread), spread),
        }
    }

    fn hops(&self, switch: u32, target: u32, spread: u32) -> u32 {
        let (from, place) = self.by_size.divide(switch);
        let (to, there) = self.by_size.divide(target);
        if switch == target {
            return 0;
        }
        if from == to {
            return if (place < self.parameters.leaves) == (there < self.parameters.leaves) { 2 } else { 1 };
        }
        let (landing, links) = self.landing(place, from, to, spread);
        links + self.hops(landing, target, spread)
    }

    /// The spine, the round and the cable that `spread` selects.
    fn spreads(&self) -> u32 {
        let DragonflyPlusParameters { leaves, spines, cables, .. } = self.parameters;
        least_common_multiple(least_common_multiple(spines * cables, self.rounds * cables), leaves)
    }

    fn waypoints(&self) -> u32 {
        self.parameters.groups
    }

    #[inline]
    fn waypoint(&self, switch: u32) -> u32 {
        self.by_size.quotient(switch)
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward {
        let (from, place) = self.by_size.divide(switch);
        self.out(switch, place, from, waypoint, spread)
    }

    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32 {
        let (from, place) = self.by_size.divide(switch);
        let (landing, links) = self.landing(place, from, waypoint, spread);
        links + self.hops(landing, target, spread)
    }

    fn next_in_group(&self, switch: u32, link: LinkId) -> Option<u32> {
        let (group, place) = self.by_size.divide(switch);
        let DragonflyPlusParameters { leaves, spines, .. } = self.parameters;
        let peer = self.by_cables.quotient(link - self.first[switch as usize]);
        if place < leaves {
            (peer < spines).then(|| group * self.size + leaves + peer)
        } else {
            (peer < leaves).then(|| group * self.size + peer)
        }
    }

    /// Up, across and down rise; another way across, or up again, takes another channel. PAR may turn at a spine that
    /// has no link to the way point.
    fn channels(&self, policy: Policy) -> u8 {
        match policy {
            Policy::Minimal => 1,
            Policy::Valiant | Policy::UgalLocal | Policy::UgalGlobal => 2,
            Policy::Progressive => 3,
        }
    }
}

/// `dragonfly+ 9 groups of 4 leaves x 8 hosts, 4 spines x 8 links`
impl fmt::Display for DragonflyPlus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DragonflyPlusParameters { groups, leaves, spines, hosts_per_leaf, global_links, cables, .. } = self.parameters;
        write!(f, "dragonfly+ {groups} groups of {leaves} leaves x {hosts_per_leaf} hosts, {spines} spines x {global_links} links")?;
        if cables > 1 {
            write!(f, ", {cables} cables")?;
        }
        if self.hosts < groups * leaves * hosts_per_leaf {
            write!(f, ", for {} hosts", self.hosts)?;
        }
        Ok(())
    }
}
