//! The channel-dependency graph (Dally and Seitz, "Deadlock-Free Message Routing in Multiprocessor Interconnection
//! Networks", 1987): a routing is free of deadlock when no cycle closes among the virtual channels that its packets
//! hold and wait for.
//!
//! Every dependency that the routing could make is found, not a sample: from all switches to every target, over every
//! way point, whatever the loads. A packet on (link, channel) goes on in the same way whoever sent it, so for each
//! target a pair is followed once.

use crate::graph::{Link, LinkId, Topology, Vertex};
use crate::guide::{Detours, Guide, PASSED, Policy, RUNG};
use crate::routing::{Route, RouteState, Routing};
use std::fmt;

/// More switches than this are not checked when a machine is put together: up to here it takes some seconds. The rules
/// of the routings hold for any number.
pub const MAX_CHECKED_SWITCHES: u32 = 10_000;

/// What makes a deadlock possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deadlock {
    /// Packets on these links (from, to, channel) could wait for each other in a ring.
    Cycle(Vec<(Vertex, Vertex, u8)>),
    /// A packet takes a channel beyond those that the routing says it needs.
    Channel {
        /// The channel.
        channel: u8,
        /// How many it says.
        needed: u8,
    },
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Deadlock::Cycle(links) => {
                write!(f, "packets can wait for each other in a ring of {} links:", links.len())?;
                for (from, to, channel) in links.iter().take(8) {
                    write!(f, " {from} to {to} on channel {channel};")?;
                }
                Ok(())
            }
            Deadlock::Channel { channel, needed } => write!(f, "a packet takes channel {channel} of {needed}"),
        }
    }
}

impl std::error::Error for Deadlock {}

/// A packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub link: LinkId,
    pub channel: u8,
    pub phase: u8,
}

/// Follows packets through the network and collects the dependencies.
pub(crate) struct Flood<'a> {
    topology: &'a Topology,
    channels: u8,
    /// The switch at the end of each link.
    end: Vec<u32>,
    /// The number of each link at its end: that of the link back. What comes into a switch is side by side then, and
    /// the largest networks are followed at the speed of the caches.
    arrival: Vec<LinkId>,
    /// Words of each pair's set of pairs that it waits for: bit `port * channels + channel` of the next switch.
    words: usize,
    /// By `arrival * channels + channel`, as `met`.
    edges: Vec<u64>,
    /// The round in which a pair was last met.
    met: Vec<u32>,
    round: u32,
    work: Vec<Hop>,
    beyond: Option<u8>,
}

impl<'a> Flood<'a> {
    pub(crate) fn new(topology: &'a Topology, channels: u8) -> Flood<'a> {
        let ports = (0..topology.switches()).map(|switch| topology.outputs(switch).len()).max().unwrap_or(0);
        let words = (ports * usize::from(channels)).div_ceil(64);
        let pairs = topology.links().len() * usize::from(channels);
        let end = |link: &Link| match link.to {
            Vertex::Switch(switch) => switch,
            Vertex::Host(_) => u32::MAX,
        };
        Flood {
            topology,
            channels,
            end: topology.links().iter().map(end).collect(),
            arrival: topology.links().iter().map(|link| link.reverse).collect(),
            words,
            edges: vec![0; pairs * words],
            met: vec![0; pairs],
            round: 0,
            work: Vec::new(),
            beyond: None,
        }
    }

    /// For the same network, with nothing found.
    pub(crate) fn anew(&self) -> Flood<'a> {
        Flood::new(self.topology, self.channels)
    }

    fn pair(&self, place: Hop) -> usize {
        self.arrival[place.link as usize] as usize * usize::from(self.channels) + usize::from(place.channel)
    }

    pub(crate) fn switches(&self) -> u32 {
        self.topology.switches()
    }

    /// Forgets where packets were, not what they waited for.
    pub(crate) fn begin(&mut self) {
        self.round += 1;
    }

    /// What waits for what.
    #[cfg(test)]
    pub(crate) fn edges(&self) -> &[u64] {
        &self.edges
    }

    pub(crate) fn links(&self) -> usize {
        self.end.len()
    }

    pub(crate) fn channels(&self) -> u8 {
        self.channels
    }

    /// A packet takes this channel, which it may not.
    pub(crate) fn goes_beyond(&mut self, channel: u8) {
        self.beyond = Some(channel);
    }

    /// The switch at the end of a link.
    #[inline]
    pub(crate) fn end(&self, link: LinkId) -> u32 {
        self.end[link as usize]
    }

    /// A packet takes its first link between switches.
    pub(crate) fn start(&mut self, place: Hop) {
        if place.channel >= self.channels {
            self.beyond = Some(place.channel);
            return;
        }
        let pair = self.pair(place);
        if self.met[pair] != self.round {
            self.met[pair] = self.round;
            self.work.push(place);
        }
    }

    /// A packet that is on one link waits for the next.
    pub(crate) fn go_on(&mut self, before: Hop, next: Hop) {
        self.wait(before, next);
        self.start(next);
    }

    /// The dependency alone.
    #[inline]
    pub(crate) fn wait(&mut self, before: Hop, next: Hop) {
        let port = (next.link - self.topology.outputs(self.end(before.link)).start) as usize;
        let bit = port * usize::from(self.channels) + usize::from(next.channel);
        let pair = self.pair(before);
        if next.channel < self.channels {
            self.edges[pair * self.words + bit / 64] |= 1 << (bit % 64);
        }
    }

    /// The dependencies of packets at one switch that wait for the same links.
    fn all_wait(&mut self, bunch: &[Hop], nexts: impl Iterator<Item = Hop>) {
        let first = self.topology.outputs(self.end(bunch[0].link)).start;
        let mut bits = vec![0u64; self.words];
        for next in nexts {
            if next.channel >= self.channels {
                self.beyond = Some(next.channel);
                return;
            }
            let bit = (next.link - first) as usize * usize::from(self.channels) + usize::from(next.channel);
            bits[bit / 64] |= 1 << (bit % 64);
        }
        for &place in bunch {
            let pair = self.pair(place);
            let edges = &mut self.edges[pair * self.words..(pair + 1) * self.words];
            edges.iter_mut().zip(&bits).for_each(|(edges, bits)| *edges |= bits);
        }
    }

    /// What another one has found of the same network, too.
    pub(crate) fn join(&mut self, other: Flood<'_>) {
        self.edges.iter_mut().zip(&other.edges).for_each(|(edges, others)| *edges |= others);
        self.beyond = self.beyond.or(other.beyond);
    }

    /// A packet whose next link is still to be found.
    pub(crate) fn pop(&mut self) -> Option<Hop> {
        self.work.pop()
    }

    /// Takes away pairs that wait for nothing until none is left, or only rings and what waits for them.
    pub(crate) fn verdict(self) -> Result<(), Deadlock> {
        if let Some(channel) = self.beyond {
            return Err(Deadlock::Channel { channel, needed: self.channels });
        }
        let pairs = self.met.len();
        let channels = usize::from(self.channels);
        let arrival = &self.arrival;
        let next_of = |pair: usize| {
            // By their number at their end, links belong to the switch that they come into.
            let first = match self.topology.links()[pair / channels].from {
                Vertex::Switch(switch) => self.topology.outputs(switch).start as usize,
                Vertex::Host(_) => 0,
            };
            let words = &self.edges[pair * self.words..(pair + 1) * self.words];
            words.iter().enumerate().flat_map(move |(index, &word)| {
                let mut rest = word;
                std::iter::from_fn(move || {
                    (rest != 0).then(|| {
                        let bit = rest.trailing_zeros() as usize;
                        rest &= rest - 1;
                        let bit = index * 64 + bit;
                        arrival[first + bit / channels] as usize * channels + bit % channels
                    })
                })
            })
        };
        let mut waiting_for_it = vec![0u32; pairs];
        for pair in 0..pairs {
            next_of(pair).for_each(|next| waiting_for_it[next] += 1);
        }
        let mut free: Vec<usize> = (0..pairs).filter(|&pair| waiting_for_it[pair] == 0).collect();
        let mut done = 0;
        while let Some(pair) = free.pop() {
            done += 1;
            for next in next_of(pair) {
                waiting_for_it[next] -= 1;
                if waiting_for_it[next] == 0 {
                    free.push(next);
                }
            }
        }
        if done == pairs {
            return Ok(());
        }
        // Everything left is in a ring or after one; backwards along what is left, a pair comes again.
        let left = |pair: &usize| waiting_for_it[*pair] > 0;
        let mut before = vec![usize::MAX; pairs];
        for pair in (0..pairs).filter(left) {
            next_of(pair).filter(left).for_each(|next| before[next] = pair);
        }
        let mut at = (0..pairs).find(left).expect("something is left");
        let mut seen = vec![false; pairs];
        while !std::mem::replace(&mut seen[at], true) {
            at = before[at];
        }
        let mut ring = vec![at];
        while before[ring[ring.len() - 1]] != at {
            ring.push(before[ring[ring.len() - 1]]);
        }
        let place = |pair: &usize| {
            let link = &self.topology.links()[arrival[pair / channels] as usize];
            (link.from, link.to, (pair % channels) as u8)
        };
        Err(Deadlock::Cycle(ring.iter().rev().map(place).collect()))
    }
}

/// A routing whose every dependency can be told.
pub(crate) trait Dependencies {
    /// Lets every packet that could be go its ways.
    fn flood(&self, flood: &mut Flood<'_>);
}

/// Where a way leads on.
enum Aim {
    Waypoint(u32),
    /// A switch of the way point that the packet is at.
    Target(u32),
}

impl<G: Guide> Detours<G> {
    /// The next place of a packet at `switch` that came from `before`; `None` when it is there.
    fn onward(&self, switch: u32, before: Option<Hop>, aim: &Aim, spread: u32) -> Option<Hop> {
        let next = match *aim {
            Aim::Target(target) if switch == target => return None,
            Aim::Waypoint(waypoint) if self.guide.waypoint(switch) == waypoint || !self.guide.can_pass(switch, waypoint) => return None,
            Aim::Target(target) => self.guide.toward(switch, target, spread),
            Aim::Waypoint(waypoint) => self.guide.toward_waypoint(switch, waypoint, spread),
        };
        let at = before.unwrap_or(Hop { link: 0, channel: 0, phase: 0 });
        let state = RouteState { word: 0, channel: at.channel, phase: at.phase, carried: 0 };
        let channel = self.guide.channel(at.link, next, &state);
        Some(Hop { link: next.link, channel, phase: at.phase & !RUNG | (next.rung + 1) })
    }

    /// Follows the packets that were started until they are where they aim at; `arrive` is told on which links.
    fn follow(&self, flood: &mut Flood<'_>, aim: &Aim, spread: u32, mut arrive: impl FnMut(Hop)) {
        while let Some(place) = flood.pop() {
            match self.onward(flood.end(place.link), Some(place), aim, spread) {
                Some(next) => flood.go_on(place, next),
                None => arrive(place),
            }
        }
    }

    /// Lets packets that are on links, in the order of the switches where they end, go on.
    fn resume(&self, flood: &mut Flood<'_>, places: &[Hop], aim: &Aim, spread: u32) {
        let mut last: Option<(u32, u8, u8, Option<Hop>)> = None;
        for &place in places {
            let switch = flood.end(place.link);
            let next = match last {
                Some((at, channel, phase, next))
                    if (at, channel, phase) == (switch, place.channel, place.phase) && !self.guide.by_link() =>
                {
                    next
                }
                _ => {
                    let next = self.onward(switch, Some(place), aim, spread);
                    next.into_iter().for_each(|next| flood.start(next));
                    last = Some((switch, place.channel, place.phase, next));
                    next
                }
            };
            if let Some(next) = next {
                flood.wait(place, next);
            }
        }
    }

    /// Where packets that go minimally can be while they are in the group of their source, and PAR may still change its
    /// mind.
    fn within_source_group(&self, flood: &Flood<'_>, sources: &[u32]) -> Vec<Hop> {
        let mut places = Vec::new();
        let mut known = vec![false; flood.met.len()];
        let targets = sources.iter().map(|&target| (self.guide.waypoint(target), Aim::Target(target)));
        let aims = targets.chain((0..self.guide.waypoints()).map(|waypoint| (waypoint, Aim::Waypoint(waypoint))));
        for (there, aim) in aims {
            for &source in sources {
                // To a target within the group, to a way point outside.
                if (self.guide.waypoint(source) == there) != matches!(aim, Aim::Target(_)) {
                    continue;
                }
                for spread in 0..self.guide.spreads() {
                    let (mut at, mut before) = (source, None);
                    while let Some(place) = self.onward(at, before, &aim, spread) {
                        let Some(peer) = self.guide.next_in_group(at, place.link) else { break };
                        let pair = flood.pair(place);
                        if !std::mem::replace(&mut known[pair], true) {
                            places.push(place);
                        }
                        (at, before) = (peer, Some(place));
                    }
                }
            }
        }
        places
    }

    /// Sends packets, from their sources and from where they are already, to every way point; where they arrive.
    fn to_waypoints(&self, flood: &mut Flood<'_>, sources: &[u32], midway: &[Hop]) -> Vec<Hop> {
        let mut arrivals = Vec::new();
        let mut known = vec![false; flood.met.len()];
        // Packets at one switch, on one channel and rung, wait for the same links, whichever links they are on: found
        // once for all way points.
        let is_same = |one: &Hop, other: &Hop| {
            let key = |place: &Hop| (flood.end(place.link), place.channel, place.phase);
            key(one) == key(other) && !self.guide.by_link()
        };
        let bunches: Vec<&[Hop]> = midway.chunk_by(is_same).collect();
        let first_of_bunch: Vec<Hop> = bunches.iter().map(|bunch| bunch[0]).collect();
        for bunch in bunches {
            let switch = flood.end(bunch[0].link);
            let aims = (0..self.guide.waypoints()).flat_map(|waypoint| (0..self.guide.spreads()).map(move |spread| (waypoint, spread)));
            let nexts = aims.filter_map(|(waypoint, spread)| self.onward(switch, Some(bunch[0]), &Aim::Waypoint(waypoint), spread));
            flood.all_wait(bunch, nexts);
        }
        for waypoint in 0..self.guide.waypoints() {
            for spread in 0..self.guide.spreads() {
                let aim = Aim::Waypoint(waypoint);
                flood.begin();
                for &source in sources {
                    if let Some(first) = self.onward(source, None, &aim, spread) {
                        flood.start(first);
                    }
                }
                for &place in &first_of_bunch {
                    if let Some(next) = self.onward(flood.end(place.link), Some(place), &aim, spread) {
                        flood.start(next);
                    }
                }
                let channels = usize::from(flood.channels);
                self.follow(flood, &aim, spread, |place| {
                    let pair = place.link as usize * channels + usize::from(place.channel);
                    if !std::mem::replace(&mut known[pair], true) {
                        arrivals.push(place);
                    }
                });
            }
        }
        in_order(flood, &mut arrivals);
        arrivals
    }
}

/// Sorts by the switch at the end, and there by channel and phase.
fn in_order(flood: &Flood<'_>, places: &mut [Hop]) {
    places.sort_unstable_by_key(|place| (flood.end(place.link), place.channel, place.phase, flood.arrival[place.link as usize]));
}

/// A minimal way to another way point is the way to that one and then on within it, so the two parts are followed one
/// by one: for the dragonfly of 8,814 switches 3 million steps in place of 80 million, and of 1,000 million with
/// detours.
impl<G: Guide> Dependencies for Detours<G> {
    fn flood(&self, flood: &mut Flood<'_>) {
        let switches = flood.topology.switches();
        let sources: Vec<u32> = (0..switches).filter(|&switch| self.guide.has_hosts(switch)).collect();
        let mut members = vec![Vec::new(); self.guide.waypoints() as usize];
        (0..switches).for_each(|switch| members[self.guide.waypoint(switch) as usize].push(switch));
        let direct = self.to_waypoints(flood, &sources, &[]);
        let mut arrivals = direct.clone();
        if self.policy != Policy::Minimal {
            let mut midway = Vec::new();
            if self.policy == Policy::Progressive {
                midway = self.within_source_group(flood, &sources);
            }
            in_order(flood, &mut midway);
            let mut landings = direct;
            if !midway.is_empty() {
                landings.extend(self.to_waypoints(flood, &[], &midway));
            }
            landings.iter_mut().for_each(|place| place.phase |= PASSED);
            in_order(flood, &mut landings);
            arrivals.extend(self.to_waypoints(flood, &[], &landings));
            arrivals.extend(landings);
        }
        in_order(flood, &mut arrivals);
        let mut by_waypoint = vec![Vec::new(); members.len()];
        for place in arrivals {
            by_waypoint[self.guide.waypoint(flood.end(place.link)) as usize].push(place);
        }
        for (members, arrivals) in members.iter().zip(&by_waypoint) {
            for &target in members.iter().filter(|&&target| self.guide.has_hosts(target)) {
                for spread in 0..self.guide.spreads() {
                    let aim = Aim::Target(target);
                    flood.begin();
                    for &source in members.iter().filter(|&&source| self.guide.has_hosts(source)) {
                        if let Some(first) = self.onward(source, None, &aim, spread) {
                            flood.start(first);
                        }
                    }
                    self.resume(flood, arrivals, &aim, spread);
                    self.follow(flood, &aim, spread, |_| {});
                }
            }
        }
    }
}

impl Routing {
    /// Checks the channel-dependency graph.
    ///
    /// # Errors
    /// [`Deadlock`], with a cycle if there is one.
    pub fn check_deadlock(&self, topology: &Topology) -> Result<(), Deadlock> {
        let mut flood = Flood::new(topology, self.virtual_channels());
        match self {
            Routing::FatTree(routing) => routing.flood(&mut flood),
            Routing::Dragonfly(routing) => routing.flood(&mut flood),
            Routing::DragonflyPlus(routing) => routing.flood(&mut flood),
            Routing::Torus(routing) => routing.flood(&mut flood),
            Routing::HyperX(routing) => routing.flood(&mut flood),
            Routing::AdaptiveTorus(routing) => routing.flood(&mut flood),
            Routing::AdaptiveHyperX(routing) => routing.flood(&mut flood),
            Routing::Table(routing) => routing.flood(&mut flood),
            Routing::AdaptiveTable(routing) => routing.flood(&mut flood),
        }
        flood.verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torus::{Torus, TorusParameters};

    /// Dimension order without its dateline.
    fn on_one_channel(guide: &Torus, topology: &Topology, channels: u8) -> Result<(), Deadlock> {
        let mut flood = Flood::new(topology, channels);
        for target in 0..topology.switches() {
            flood.begin();
            let next = |switch: u32| Hop { link: guide.toward(switch, target, 0).link, channel: 0, phase: 0 };
            (0..topology.switches()).filter(|&switch| switch != target).for_each(|switch| flood.start(next(switch)));
            while let Some(place) = flood.pop() {
                let switch = flood.end(place.link);
                if switch != target {
                    flood.go_on(place, next(switch));
                }
            }
        }
        flood.verdict()
    }

    #[test]
    fn finds_the_ring_that_a_dateline_cuts() {
        for (wrap, ring) in [(true, Some(5)), (false, None)] {
            let parameters = TorusParameters { lengths: vec![5, 3], wrap, board: 1, hosts_per_switch: 1, cables: 1, hosts: None };
            let guide = Torus::new(parameters).unwrap();
            let topology = guide.clone().build();
            match (on_one_channel(&guide, &topology, 1), ring) {
                (Ok(()), None) => {}
                (Err(Deadlock::Cycle(links)), Some(length)) => {
                    assert_eq!(links.len(), length);
                    assert!(links.iter().zip(links.iter().cycle().skip(1)).all(|(before, after)| before.1 == after.0), "a ring: {links:?}");
                }
                (found, _) => panic!("wrap {wrap}: {found:?}"),
            }
        }
    }

    #[test]
    fn notices_a_channel_too_many() {
        let parameters = TorusParameters { lengths: vec![5], wrap: true, board: 1, hosts_per_switch: 1, cables: 1, hosts: None };
        let topology = Torus::new(parameters).unwrap().build();
        let mut flood = Flood::new(&topology, 2);
        flood.start(Hop { link: 5, channel: 2, phase: 0 });
        assert_eq!(flood.verdict(), Err(Deadlock::Channel { channel: 2, needed: 2 }));
    }
}
