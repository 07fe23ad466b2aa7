//! Ways from tables: for graphs without a rule, and for those whose rule failures have broken.
//!
//! A table holds, for every switch and every group, the next link of a shortest way into the group, and for every
//! switch of the same group the next link within it. A graph without groups has one switch in each. Among equal ways
//! the numbers of switch and goal select.
//!
//! **Virtual channels.** As everywhere, a packet takes the next channel when the rank of links does not rise. Where a
//! topology has a rule its rungs are the ranks. Elsewhere switches are ordered by their distance from the best
//! connected one, links upwards come before links downwards, and a packet changes its channel where it turns up again
//! (up*/down*, Schroeder et al., Autonet, 1991, with a channel for each further turn). How many channels that takes is
//! counted over all ways.

use crate::graph::{LinkClass, LinkId, Topology, Vertex};
use crate::guide::{Guide, Policy, RUNG, Toward};
use crate::routing::RouteState;
use std::sync::Arc;

/// No way.
const NOWHERE: u16 = u16::MAX;
/// What a link between groups weighs against one within: beyond any detour within a group.
const GLOBAL_WEIGHT: u32 = 16;

/// Next links of all ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(Arc<NextLinks>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NextLinks {
    /// The switch of every host, and its output there.
    home: Vec<u32>,
    ejection: Vec<LinkId>,
    has_hosts: Vec<bool>,
    /// The first output of every switch.
    first: Vec<LinkId>,
    /// The switch at the end of every link.
    end: Vec<u32>,
    rank: Vec<u32>,
    groups: u32,
    group_of: Vec<u32>,
    /// A switch's number within its group.
    place: Vec<u32>,
    /// Switches of the largest group.
    size: u32,
    /// `switch * groups + group`: the port.
    outward: Vec<u16>,
    /// `switch * size + place`: the port.
    inward: Vec<u16>,
    radix: u32,
    diameter: u32,
    /// Channels of a way between hosts, from any switch to one with hosts, and from any switch to a way point.
    minimal_channels: u8,
    any_channels: u8,
    outward_channels: u8,
}

/// What two switches cannot reach each other for want of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutOff {
    /// From here ...
    pub from: u32,
    /// ... there is no way to here.
    pub to: u32,
}

impl Table {
    /// Tables for a graph. `failed`: links that no way may take. `rank`: of every link; none: up*/down*. `grouped`:
    /// with the groups of the graph. `fixed`: from a switch to another, by this port.
    ///
    /// # Errors
    /// [`CutOff`] when hosts cannot reach each other.
    pub(crate) fn new(
        topology: &Topology,
        failed: impl Fn(LinkId) -> bool,
        rank: Option<Vec<u32>>,
        grouped: bool,
        fixed: &[(u32, u32, u16)],
    ) -> Result<Table, CutOff> {
        let rank = rank.unwrap_or_else(|| up_down(topology));
        // A group that failures have torn apart is none; then every switch stands alone.
        if grouped
            && let Ok(table) = Table::with_groups(
                topology,
                &failed,
                rank.clone(),
                (0..topology.switches()).map(|s| topology.group(s)).collect(),
                grouped,
                fixed,
            )
        {
            return Ok(table);
        }
        Table::with_groups(topology, &failed, rank, (0..topology.switches()).collect(), grouped, fixed)
    }

    fn with_groups(
        topology: &Topology,
        failed: &impl Fn(LinkId) -> bool,
        rank: Vec<u32>,
        group_of: Vec<u32>,
        grouped: bool,
        fixed: &[(u32, u32, u16)],
    ) -> Result<Table, CutOff> {
        let switches = topology.switches();
        let groups = group_of.iter().max().map_or(0, |last| last + 1);
        let mut sizes = vec![0u32; groups as usize];
        let place: Vec<u32> = group_of
            .iter()
            .map(|&group| {
                sizes[group as usize] += 1;
                sizes[group as usize] - 1
            })
            .collect();
        let size = sizes.iter().copied().max().unwrap_or(0);
        let end = topology.links().iter().map(|link| match link.to {
            Vertex::Switch(switch) => switch,
            Vertex::Host(_) => u32::MAX,
        });
        let home: Vec<u32> = (0..topology.hosts()).map(|host| topology.switch_of(host)).collect();
        let mut has_hosts = vec![false; switches as usize];
        home.iter().for_each(|&switch| has_hosts[switch as usize] = true);
        let mut ways = NextLinks {
            ejection: (0..topology.hosts()).map(|host| topology.ejection(host)).collect(),
            home,
            has_hosts,
            first: (0..switches).map(|switch| topology.outputs(switch).start).collect(),
            end: end.collect(),
            rank,
            groups,
            group_of,
            place,
            size,
            outward: vec![NOWHERE; switches as usize * groups as usize],
            inward: vec![NOWHERE; switches as usize * size as usize],
            radix: (0..switches).map(|switch| topology.outputs(switch).len() as u32).max().unwrap_or(0),
            diameter: 0,
            minimal_channels: 1,
            any_channels: 1,
            outward_channels: 1,
        };
        let weight = |link: LinkId| {
            if failed(link) || ways.end[link as usize] == u32::MAX {
                None
            } else if grouped && topology.links()[link as usize].class == LinkClass::Global {
                Some(GLOBAL_WEIGHT)
            } else {
                Some(1)
            }
        };
        let mut search = Search::new(topology);
        for group in 0..groups {
            let goals = (0..switches).filter(|&switch| ways.group_of[switch as usize] == group);
            search.run(goals, weight);
            for switch in (0..switches).filter(|&switch| ways.group_of[switch as usize] != group) {
                ways.outward[(switch * groups + group) as usize] = search.next(switch, group, weight);
            }
        }
        if size > 1 {
            let inside = |link: LinkId| {
                let from = match topology.links()[link as usize].from {
                    Vertex::Switch(switch) => switch,
                    Vertex::Host(_) => return None,
                };
                let to = ways.end[link as usize];
                weight(link).filter(|_| ways.group_of[from as usize] == ways.group_of[to as usize])
            };
            let mut inward = std::mem::take(&mut ways.inward);
            for place in 0..size {
                // The targets of all groups at once: no way leads from one to another.
                let goals = (0..switches).filter(|&switch| ways.place[switch as usize] == place);
                search.run(goals, inside);
                for switch in (0..switches).filter(|&switch| ways.place[switch as usize] != place) {
                    inward[(switch * size + place) as usize] = search.next(switch, place, inside);
                }
            }
            ways.inward = inward;
        }
        for &(from, to, port) in fixed {
            ways.outward[(from * groups + ways.group_of[to as usize]) as usize] = port;
        }
        ways.measure()?;
        Ok(Table(Arc::new(ways)))
    }

    /// It has groups of several switches.
    pub(crate) fn is_grouped(&self) -> bool {
        self.0.size > 1
    }

    pub(crate) fn radix(&self) -> u32 {
        self.0.radix
    }

    /// Links on the longest way between hosts, host links included.
    pub(crate) fn diameter(&self) -> u32 {
        self.0.diameter
    }
}

impl NextLinks {
    /// The next link, if there is one.
    #[inline]
    fn next(&self, switch: u32, target: u32) -> Option<LinkId> {
        let group = self.group_of[target as usize];
        let port = if self.group_of[switch as usize] == group {
            self.inward[(switch * self.size + self.place[target as usize]) as usize]
        } else {
            self.outward[(switch * self.groups + group) as usize]
        };
        (port != NOWHERE).then(|| self.first[switch as usize] + LinkId::from(port))
    }

    /// Walks all ways: that there is one between hosts, how long those are, and how often they take another channel.
    fn measure(&mut self) -> Result<(), CutOff> {
        let switches = self.first.len() as u32;
        let (mut longest, mut minimal, mut any, mut outward) = (0, 0, 0, 0);
        for source in 0..switches {
            let from_hosts = self.has_hosts[source as usize];
            for target in (0..switches).filter(|&target| self.has_hosts[target as usize]) {
                match self.walk(source, |at| at == target, |at| self.next(at, target)) {
                    Some((links, turns)) => {
                        any = any.max(turns);
                        if from_hosts {
                            longest = longest.max(links);
                            minimal = minimal.max(turns);
                        }
                    }
                    None if from_hosts => return Err(CutOff { from: source, to: target }),
                    // A switch that has failed, or that hangs on nothing.
                    None => {}
                }
            }
            for group in 0..self.groups {
                let port = |at: u32| self.outward[(at * self.groups + group) as usize];
                let next =
                    |at: u32| Some(port(at)).filter(|&port| port != NOWHERE).map(|port| self.first[at as usize] + LinkId::from(port));
                if let Some((_, turns)) = self.walk(source, |at| self.group_of[at as usize] == group, next) {
                    outward = outward.max(turns);
                }
            }
        }
        self.diameter = if self.home.len() > 1 { longest + 2 } else { 0 };
        (self.minimal_channels, self.any_channels, self.outward_channels) = (minimal + 1, any + 1, outward + 1);
        Ok(())
    }

    /// Links of a way and how often their rank does not rise; `None` when it leads nowhere, in a ring, or through more
    /// channels than there can be.
    fn walk(&self, source: u32, is_there: impl Fn(u32) -> bool, next: impl Fn(u32) -> Option<LinkId>) -> Option<(u32, u8)> {
        let (mut at, mut links, mut turns) = (source, 0u32, 0u8);
        let mut before: Option<LinkId> = None;
        while !is_there(at) {
            let link = next(at)?;
            turns += u8::from(before.is_some_and(|before| self.rank[link as usize] <= self.rank[before as usize]));
            links += 1;
            if links as usize > self.first.len() || turns > 60 {
                return None;
            }
            (at, before) = (self.end[link as usize], Some(link));
        }
        Some((links, turns))
    }
}

/// Ranks of links upwards, nearer to the best connected switch, before links downwards.
fn up_down(topology: &Topology) -> Vec<u32> {
    let switches = topology.switches();
    let root = (0..switches).rev().max_by_key(|&switch| topology.outputs(switch).len()).unwrap_or(0);
    let mut order = vec![u32::MAX; switches as usize];
    let mut queue = vec![root];
    let mut next = 0;
    if switches > 0 {
        order[root as usize] = 0;
    }
    while next < queue.len() {
        for link in topology.outputs(queue[next]) {
            if let Vertex::Switch(peer) = topology.links()[link as usize].to
                && order[peer as usize] == u32::MAX
            {
                order[peer as usize] = queue.len() as u32;
                queue.push(peer);
            }
        }
        next += 1;
    }
    let rank = |link: &crate::graph::Link| match (link.from, link.to) {
        (Vertex::Switch(from), Vertex::Switch(to)) => {
            let (from, to) = (order[from as usize].min(switches), order[to as usize].min(switches));
            if to < from { switches - to } else { switches + 1 + to }
        }
        _ => 0,
    };
    topology.links().iter().map(rank).collect()
}

/// Distances to a set of goals, by buckets of small whole weights (Dial 1969).
struct Search<'a> {
    topology: &'a Topology,
    distance: Vec<u32>,
    buckets: Vec<Vec<u32>>,
}

impl<'a> Search<'a> {
    fn new(topology: &'a Topology) -> Self {
        Search { topology, distance: Vec::new(), buckets: vec![Vec::new(); GLOBAL_WEIGHT as usize + 1] }
    }

    fn run(&mut self, goals: impl Iterator<Item = u32>, weight: impl Fn(LinkId) -> Option<u32>) {
        self.distance.clear();
        self.distance.resize(self.topology.switches() as usize, u32::MAX);
        let mut waiting = 0;
        for goal in goals {
            self.distance[goal as usize] = 0;
            self.buckets[0].push(goal);
            waiting += 1;
        }
        let turns = self.buckets.len() as u32;
        let mut at = 0;
        while waiting > 0 {
            while let Some(switch) = self.buckets[(at % turns) as usize].pop() {
                waiting -= 1;
                if self.distance[switch as usize] != at {
                    continue;
                }
                for out in self.topology.outputs(switch) {
                    // Towards the goal, so over the link back.
                    let link = &self.topology.links()[out as usize];
                    let Vertex::Switch(peer) = link.to else { continue };
                    let Some(weight) = weight(link.reverse) else { continue };
                    if at + weight < self.distance[peer as usize] {
                        self.distance[peer as usize] = at + weight;
                        self.buckets[((at + weight) % turns) as usize].push(peer);
                        waiting += 1;
                    }
                }
            }
            at += 1;
        }
    }

    /// The port of a shortest way from `switch`; of several, the one that `goal` and the switch select.
    fn next(&self, switch: u32, goal: u32, weight: impl Fn(LinkId) -> Option<u32>) -> u16 {
        let here = self.distance[switch as usize];
        if here == u32::MAX {
            return NOWHERE;
        }
        let ports = self.topology.outputs(switch);
        let is_short = |&link: &LinkId| match (self.topology.links()[link as usize].to, weight(link)) {
            (Vertex::Switch(peer), Some(weight)) => self.distance[peer as usize].saturating_add(weight) == here,
            _ => false,
        };
        let choices = ports.clone().filter(is_short).count() as u32;
        if choices == 0 {
            return NOWHERE;
        }
        let turn = (goal + switch) % choices;
        ports.clone().filter(is_short).nth(turn as usize).map_or(NOWHERE, |link| (link - ports.start) as u16)
    }
}

impl Guide for Table {
    #[inline]
    fn home(&self, host: u32) -> u32 {
        self.0.home[host as usize]
    }

    fn has_hosts(&self, switch: u32) -> bool {
        self.0.has_hosts[switch as usize]
    }

    #[inline]
    fn ejection(&self, _switch: u32, host: u32) -> LinkId {
        self.0.ejection[host as usize]
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, _spread: u32) -> Toward {
        Toward { link: self.0.next(switch, target).expect("the table was walked: hosts reach each other"), rung: 0 }
    }

    fn hops(&self, switch: u32, target: u32, _spread: u32) -> u32 {
        let (mut at, mut links) = (switch, 0);
        while at != target {
            at = self.0.end[self.toward(at, target, 0).link as usize];
            links += 1;
        }
        links
    }

    fn waypoints(&self) -> u32 {
        self.0.groups
    }

    #[inline]
    fn waypoint(&self, switch: u32) -> u32 {
        self.0.group_of[switch as usize]
    }

    fn can_pass(&self, switch: u32, waypoint: u32) -> bool {
        self.0.outward[(switch * self.0.groups + waypoint) as usize] != NOWHERE
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, _spread: u32) -> Toward {
        let port = self.0.outward[(switch * self.0.groups + waypoint) as usize];
        debug_assert_ne!(port, NOWHERE);
        Toward { link: self.0.first[switch as usize] + LinkId::from(port), rung: 0 }
    }

    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32 {
        let (mut at, mut links) = (switch, 0);
        while self.waypoint(at) != waypoint {
            at = self.0.end[self.toward_waypoint(at, waypoint, spread).link as usize];
            links += 1;
        }
        links + self.hops(at, target, spread)
    }

    fn next_in_group(&self, switch: u32, link: LinkId) -> Option<u32> {
        let end = self.0.end[link as usize];
        (end != u32::MAX && self.waypoint(switch) == self.waypoint(end)).then_some(end)
    }

    #[inline]
    fn channel(&self, input: LinkId, next: Toward, state: &RouteState) -> u8 {
        let turns = state.phase & RUNG != 0 && self.0.rank[next.link as usize] <= self.0.rank[input as usize];
        state.channel + u8::from(turns)
    }

    fn by_link(&self) -> bool {
        true
    }

    /// Bounds: each part of a way begins on a channel of its own at worst.
    fn channels(&self, policy: Policy) -> u8 {
        let NextLinks { minimal_channels, any_channels, outward_channels, .. } = *self.0;
        match policy {
            Policy::Minimal => minimal_channels,
            Policy::Valiant | Policy::UgalLocal | Policy::UgalGlobal => outward_channels + any_channels,
            // The part within the source's group is of a way out, or to another switch of it.
            Policy::Progressive => outward_channels.max(minimal_channels) + outward_channels + any_channels,
        }
    }
}
