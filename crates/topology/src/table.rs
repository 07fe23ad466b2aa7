//! Ways from tables: for graphs without a rule, and for those whose rule failures have broken.
//!
//! A table holds, for every switch and every group, the next link of a shortest way into the group, and for every
//! switch of the same group the next link within it. A graph without groups has one switch in each.
//!
//! **Equal ways.** Without groups the hosts of a switch spread over equal ways and parallel cables, as InfiniBand's
//! subnet managers let them: goal by goal and host by host, every switch takes the output with the fewest ways on it so
//! far (the balanced counters of OpenSM's min-hop), a way counting once for each host that sends over it (Hoefler,
//! Schneider, Lumsdaine, "Optimized Routing for Large-Scale InfiniBand Networks", Hot Interconnects 2009). Rates have
//! no say in it. With groups the numbers of switch and goal select.
//!
//! **Virtual channels.** As everywhere, a packet takes the next channel when the rank of links does not rise. Where a
//! topology has a rule its rungs are the ranks. Elsewhere switches are ordered by their distance from the best
//! connected one, links upwards come before links downwards, and a packet changes its channel where it turns up again
//! (up*/down*, Schroeder et al., Autonet, 1991, with a channel for each further turn). How many channels that takes is
//! counted over all ways.

use crate::deadlock::{Dependencies, Flood, Hop};
use crate::graph::{LinkClass, LinkId, Topology, Vertex};
use crate::guide::{Guide, Policy, RUNG, Toward};
use crate::routing::{Route, RouteState, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No way.
const NOWHERE: u16 = u16::MAX;
/// What a link between groups weighs against one within: beyond any detour within a group.
const GLOBAL_WEIGHT: u32 = 16;
/// Entries of a table at most: in larger networks several hosts of a switch share their ways.
const ENTRIES_MAX: usize = 1 << 25;

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
    /// Ways of a switch's hosts that may differ.
    spreads: u32,
    /// Which of them a host has.
    spread_of: Vec<u32>,
    /// `(switch * groups + group) * spreads + spread`: the port.
    outward: Vec<u16>,
    /// `switch * groups + group`: which of `lists` holds the ports of all equal ways; empty with groups.
    equal: Vec<u32>,
    lists: Vec<Vec<u16>>,
    /// `switch * size + place`: the port.
    inward: Vec<u16>,
    radix: u32,
    diameter: u32,
    /// Channels of a way between hosts, from any switch to one with hosts, and from any switch to a way point.
    minimal_channels: u8,
    any_channels: u8,
    outward_channels: u8,
    /// Over whatever equal ways.
    adaptive_channels: u8,
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
        // A host's place among those of its switch.
        let mut count = vec![0u32; switches as usize];
        let places: Vec<u32> = home
            .iter()
            .map(|&switch| {
                count[switch as usize] += 1;
                count[switch as usize] - 1
            })
            .collect();
        let entries = switches as usize * groups as usize;
        let spreads =
            if size > 1 { 1 } else { count.iter().copied().max().unwrap_or(1).clamp(1, (ENTRIES_MAX / entries.max(1)).max(1) as u32) };
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
            spreads,
            spread_of: places.iter().map(|place| place % spreads).collect(),
            outward: vec![NOWHERE; entries * spreads as usize],
            equal: Vec::new(),
            lists: Vec::new(),
            inward: vec![NOWHERE; switches as usize * size as usize],
            radix: (0..switches).map(|switch| topology.outputs(switch).len() as u32).max().unwrap_or(0),
            diameter: 0,
            minimal_channels: 1,
            any_channels: 1,
            outward_channels: 1,
            adaptive_channels: 1,
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
        if size > 1 {
            for group in 0..groups {
                let goals = (0..switches).filter(|&switch| ways.group_of[switch as usize] == group);
                search.run(goals, weight);
                for switch in (0..switches).filter(|&switch| ways.group_of[switch as usize] != group) {
                    ways.outward[(switch * groups + group) as usize] = search.next(switch, group, weight);
                }
            }
        } else {
            let mut spreading = Spreading::new(&ways, &count, fixed);
            for goal in 0..switches {
                search.run(std::iter::once(goal), weight);
                spreading.goal(goal, &search, weight);
            }
            let Spreading { outward, equal, lists, turns_max, .. } = spreading;
            (ways.outward, ways.equal, ways.adaptive_channels) = (outward, equal, turns_max + 1);
            ways.lists = vec![Vec::new(); lists.len()];
            lists.into_iter().for_each(|(ports, number)| ways.lists[number as usize] = ports);
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
    fn next(&self, switch: u32, target: u32, spread: u32) -> Option<LinkId> {
        let group = self.group_of[target as usize];
        if self.group_of[switch as usize] != group {
            return self.outward(switch, group, spread);
        }
        self.link(switch, self.inward[(switch * self.size + self.place[target as usize]) as usize])
    }

    /// The next link into a group.
    #[inline]
    fn outward(&self, switch: u32, group: u32, spread: u32) -> Option<LinkId> {
        debug_assert!(spread < self.spreads);
        let goal = switch as usize * self.groups as usize + group as usize;
        self.link(switch, self.outward[goal * self.spreads as usize + spread as usize])
    }

    #[inline]
    fn link(&self, switch: u32, port: u16) -> Option<LinkId> {
        (port != NOWHERE).then(|| self.first[switch as usize] + LinkId::from(port))
    }

    /// The next links of all equal ways to another switch, where there are no groups.
    fn equal(&self, switch: u32, target: u32) -> impl Iterator<Item = LinkId> {
        let list = &self.lists[self.equal[switch as usize * self.groups as usize + target as usize] as usize];
        list.iter().map(move |&port| self.first[switch as usize] + LinkId::from(port))
    }

    /// Walks all ways: that there is one between hosts, how long those are, and how often they take another channel.
    fn measure(&mut self) -> Result<(), CutOff> {
        let switches = self.first.len() as u32;
        let (mut longest, mut minimal, mut any, mut outward) = (0, 0, 0, 0);
        for source in 0..switches {
            let from_hosts = self.has_hosts[source as usize];
            for spread in 0..self.spreads {
                for target in (0..switches).filter(|&target| self.has_hosts[target as usize]) {
                    match self.walk(source, |at| at == target, |at| self.next(at, target, spread)) {
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
                    let is_there = |at: u32| self.group_of[at as usize] == group;
                    if let Some((_, turns)) = self.walk(source, is_there, |at| self.outward(at, group, spread)) {
                        outward = outward.max(turns);
                    }
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

/// Spreads the ways to the hosts of each switch over equal ones.
struct Spreading<'a> {
    ways: &'a NextLinks,
    /// Hosts of every switch.
    hosts: &'a [u32],
    fixed: &'a [(u32, u32, u16)],
    /// Ways on every link so far.
    load: Vec<u64>,
    /// Of every link, how often a way to the goal takes another channel behind it, over whatever equal ways.
    turns: Vec<u8>,
    /// The ports of equal ways to the goal, of every switch.
    ports: Vec<Vec<u16>>,
    outward: Vec<u16>,
    equal: Vec<u32>,
    /// Lists of ports, with their numbers.
    lists: BTreeMap<Vec<u16>, u32>,
    turns_max: u8,
}

impl<'a> Spreading<'a> {
    fn new(ways: &'a NextLinks, hosts: &'a [u32], fixed: &'a [(u32, u32, u16)]) -> Self {
        let (switches, links) = (ways.first.len(), ways.end.len());
        Spreading {
            ways,
            hosts,
            fixed,
            load: vec![0; links],
            turns: vec![0; links],
            ports: vec![Vec::new(); switches],
            outward: ways.outward.clone(),
            equal: vec![0; switches * switches],
            lists: BTreeMap::new(),
            turns_max: 0,
        }
    }

    /// All ways to one switch. `search` has found the distances.
    fn goal(&mut self, goal: u32, search: &Search<'_>, weight: impl Fn(LinkId) -> Option<u32>) {
        let ways = self.ways;
        let is_away = |&switch: &u32| switch != goal && search.distance[switch as usize] != u32::MAX;
        let mut nearest_first: Vec<u32> = (0..ways.groups).filter(is_away).collect();
        nearest_first.sort_by_key(|&switch| search.distance[switch as usize]);
        self.ports.iter_mut().for_each(Vec::clear);
        for &switch in &nearest_first {
            self.find_equal(switch, goal, search, &weight);
        }
        let count = self.hosts[goal as usize];
        let mut flow = vec![0u64; self.hosts.len()];
        for spread in 0..ways.spreads {
            // A goal with fewer hosts repeats their ways; one without is a way point, where nothing ends.
            let counts = spread < count;
            flow.iter_mut().zip(self.hosts).for_each(|(flow, &hosts)| *flow = u64::from(hosts));
            for &switch in nearest_first.iter().rev() {
                let entry = (switch as usize * ways.groups as usize + goal as usize) * ways.spreads as usize;
                if !counts && spread > 0 {
                    self.outward[entry + spread as usize] = self.outward[entry + (spread % count.max(1)) as usize];
                    continue;
                }
                let first = ways.first[switch as usize];
                let ports = &self.ports[switch as usize];
                let port = match self.fixed.iter().find(|&&(from, to, _)| (from, to) == (switch, goal)) {
                    Some(&(.., port)) => self.least_loaded(first, &self.cables(switch, port, &weight)),
                    None if counts => self.least_loaded(first, ports),
                    None => ports[((goal + switch) % ports.len() as u32) as usize],
                };
                self.outward[entry + spread as usize] = port;
                if counts {
                    let link = (first + LinkId::from(port)) as usize;
                    let flow_here = flow[switch as usize];
                    self.load[link] += flow_here;
                    flow[ways.end[link] as usize] += flow_here;
                }
            }
        }
    }

    /// The ports of equal ways from a switch, those that take the fewest channels.
    fn find_equal(&mut self, switch: u32, goal: u32, search: &Search<'_>, weight: &impl Fn(LinkId) -> Option<u32>) {
        let ways = self.ways;
        let first = ways.first[switch as usize];
        let links = search.short(switch, weight);
        for &link in &links {
            let end = ways.end[link as usize];
            let behind = self.ports[end as usize].iter().map(|&port| {
                let next = (ways.first[end as usize] + LinkId::from(port)) as usize;
                self.turns[next] + u8::from(ways.rank[next] <= ways.rank[link as usize])
            });
            self.turns[link as usize] = behind.max().unwrap_or(0).min(60);
        }
        let fewest = links.iter().map(|&link| self.turns[link as usize]).min().unwrap_or(0);
        let ports: Vec<u16> =
            links.iter().filter(|&&link| self.turns[link as usize] == fewest).map(|&link| (link - first) as u16).collect();
        self.turns_max = self.turns_max.max(fewest);
        let next = self.lists.len() as u32;
        self.equal[switch as usize * ways.groups as usize + goal as usize] = *self.lists.entry(ports.clone()).or_insert(next);
        self.ports[switch as usize] = ports;
    }

    /// The ports to the switch where `port` leads.
    fn cables(&self, switch: u32, port: u16, weight: &impl Fn(LinkId) -> Option<u32>) -> Vec<u16> {
        let first = self.ways.first[switch as usize];
        let end = |port: u16| self.ways.end[(first + LinkId::from(port)) as usize];
        let all = self.ways.first.get(switch as usize + 1).map_or(self.ways.end.len() as LinkId, |&next| next) - first;
        (0..all as u16).filter(|&other| end(other) == end(port) && weight(first + LinkId::from(other)).is_some()).collect()
    }

    fn least_loaded(&self, first: LinkId, ports: &[u16]) -> u16 {
        let load = |port: u16| self.load[(first + LinkId::from(port)) as usize];
        ports.iter().copied().min_by_key(|&port| load(port)).unwrap_or(NOWHERE)
    }
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

    /// The first links of all shortest ways from `switch`.
    fn short(&self, switch: u32, weight: impl Fn(LinkId) -> Option<u32>) -> Vec<LinkId> {
        let here = self.distance[switch as usize];
        let is_short = |&link: &LinkId| match (self.topology.links()[link as usize].to, weight(link)) {
            (Vertex::Switch(peer), Some(weight)) => self.distance[peer as usize].saturating_add(weight) == here,
            _ => false,
        };
        self.topology.outputs(switch).filter(is_short).collect()
    }

    /// The port of a shortest way from `switch`; of several, the one that `goal` and the switch select.
    fn next(&self, switch: u32, goal: u32, weight: impl Fn(LinkId) -> Option<u32>) -> u16 {
        if self.distance[switch as usize] == u32::MAX {
            return NOWHERE;
        }
        let choices = self.short(switch, weight);
        let turn = (goal + switch).checked_rem(choices.len() as u32);
        turn.map_or(NOWHERE, |turn| (choices[turn as usize] - self.topology.outputs(switch).start) as u16)
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
    fn spread(&self, host: u32) -> u32 {
        self.0.spread_of[host as usize]
    }

    fn spreads(&self) -> u32 {
        self.0.spreads
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward {
        Toward { link: self.0.next(switch, target, spread).expect("the table was walked: hosts reach each other"), rung: 0 }
    }

    fn hops(&self, switch: u32, target: u32, spread: u32) -> u32 {
        let (mut at, mut links) = (switch, 0);
        while at != target {
            at = self.0.end[self.toward(at, target, spread).link as usize];
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
        self.0.outward(switch, waypoint, 0).is_some()
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward {
        Toward { link: self.0.outward(switch, waypoint, spread).expect("the routing asks whether it can pass"), rung: 0 }
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

/// The least loaded of all equal ways, from switch to switch; of equally loaded ones that of the table.
#[derive(Clone, Debug)]
pub struct AdaptiveTable {
    table: Table,
}

impl AdaptiveTable {
    /// For a table without groups.
    pub(crate) fn new(table: Table) -> Self {
        AdaptiveTable { table }
    }

    /// Channels that this takes.
    pub(crate) fn channels(table: &Table) -> u8 {
        table.0.adaptive_channels
    }
}

impl Route for AdaptiveTable {
    fn virtual_channels(&self) -> u8 {
        AdaptiveTable::channels(&self.table)
    }

    #[inline]
    fn fixed(&self, switch: u32, _input: LinkId, target: u32, _state: &RouteState) -> Option<Step> {
        (switch == self.table.home(target)).then(|| Step { link: self.table.ejection(switch, target), channel: 0 })
    }

    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        let home = self.table.home(target);
        if switch == home {
            return Step { link: self.table.ejection(switch, target), channel: 0 };
        }
        let usual = self.table.toward(switch, home, self.table.spread(target)).link;
        let link = self.table.0.equal(switch, home).min_by_key(|&link| (load(link), link != usual)).unwrap_or(usual);
        let channel = self.table.channel(input, Toward { link, rung: 0 }, state);
        state.phase = 1;
        Step { link, channel }
    }

    fn rest(&mut self) {}
}

impl Dependencies for AdaptiveTable {
    fn flood(&self, flood: &mut Flood<'_>) {
        let table = &self.table;
        let homes: Vec<u32> = (0..flood.switches()).filter(|&switch| table.has_hosts(switch)).collect();
        for &target in &homes {
            flood.begin();
            for &source in homes.iter().filter(|&&source| source != target) {
                table.0.equal(source, target).for_each(|link| flood.start(Hop { link, channel: 0, phase: 1 }));
            }
            while let Some(before) = flood.pop() {
                let switch = flood.end(before.link);
                if switch == target {
                    continue;
                }
                let state = RouteState { channel: before.channel, phase: before.phase, ..RouteState::default() };
                for link in table.0.equal(switch, target) {
                    let channel = table.channel(before.link, Toward { link, rung: 0 }, &state);
                    flood.go_on(before, Hop { link, channel, phase: 1 });
                }
            }
        }
    }
}
