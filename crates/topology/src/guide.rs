//! Minimal ways as a rule, and the ways that are made of them: Valiant, UGAL, PAR.
//!
//! A [`Guide`] knows the minimal way of one topology. [`Detours`] makes of it the routings that may go through a way
//! point, a group of a dragonfly or a switch of a torus: first the minimal way to the way point, then the minimal way
//! to the target.
//!
//! **Virtual channels.** Every link has a rung (0: within a group, 1: between groups; or the dimension). A packet keeps
//! its channel while the rungs rise, and takes the next channel on a link whose rung is not above that of the link
//! before. The pair (channel, rung) rises on every way, minimal or not, so no cycle of channels can close (Dally and
//! Seitz 1987; Günther 1981). For dragonflies this is the ladder of fact sheet 2.4. Tori, where a ring has no order,
//! have a dateline instead ([`Guide::channel`]).

use crate::graph::LinkId;
use crate::routing::{Route, RouteState, RoutingKind, RoutingOptions, Step};

/// The next link of a minimal way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Toward {
    pub link: LinkId,
    /// See the module's page; below 15.
    pub rung: u8,
}

/// Minimal ways of one topology.
pub trait Guide {
    /// The switch of a host.
    fn home(&self, host: u32) -> u32;

    /// Whether a switch has hosts.
    fn has_hosts(&self, _switch: u32) -> bool {
        true
    }

    /// The output of `switch`, its home, to `host`.
    fn ejection(&self, switch: u32, host: u32) -> LinkId;

    /// The spread of packets to a host, see [`Guide::toward`].
    #[inline]
    fn spread(&self, host: u32) -> u32 {
        host
    }

    /// The next link from `switch` to `target`, another switch. Among equal ways (parallel cables) `spread`, that of a
    /// host or one of `0..spreads()`, selects; the same for the whole way.
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward;

    /// Links from a switch to another, or itself, as [`Guide::toward`] goes.
    fn hops(&self, switch: u32, target: u32, spread: u32) -> u32;

    /// Different values of `spread` give at most so many different ways: those of `0..spreads()`.
    fn spreads(&self) -> u32 {
        1
    }

    /// Places that a detour can lead through.
    fn waypoints(&self) -> u32;

    /// The one that a switch belongs to.
    fn waypoint(&self, switch: u32) -> u32;

    /// Whether there is a way from a switch to a way point.
    fn can_pass(&self, _switch: u32, _waypoint: u32) -> bool {
        true
    }

    /// The next link from `switch` to a way point that it does not belong to. It is also the next link to any switch of
    /// that way point.
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward;

    /// Links from `switch` through `waypoint` to `target`.
    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32;

    /// The switch at the far end of `link` of `switch`, if it is in the same group.
    fn next_in_group(&self, switch: u32, link: LinkId) -> Option<u32>;

    /// The channel for the next link.
    #[inline]
    fn channel(&self, _input: LinkId, next: Toward, state: &RouteState) -> u8 {
        let before = state.phase & RUNG;
        state.channel + u8::from(before != 0 && next.rung < before)
    }

    /// The channel depends on the very link that a packet came over, not just on its rung.
    fn by_link(&self) -> bool {
        false
    }

    /// Channels that a routing needs.
    fn channels(&self, policy: Policy) -> u8;
}

/// When a packet leaves the minimal way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Minimal,
    Valiant,
    UgalLocal,
    UgalGlobal,
    Progressive,
}

impl Policy {
    /// `None` for the kinds that are no detours.
    pub(crate) fn of(kind: RoutingKind) -> Option<Policy> {
        match kind {
            RoutingKind::Minimal | RoutingKind::DimensionOrder | RoutingKind::Table => Some(Policy::Minimal),
            RoutingKind::Valiant => Some(Policy::Valiant),
            RoutingKind::UgalLocal => Some(Policy::UgalLocal),
            RoutingKind::UgalGlobal => Some(Policy::UgalGlobal),
            RoutingKind::Progressive => Some(Policy::Progressive),
            RoutingKind::DModK | RoutingKind::SModK | RoutingKind::Adaptive => None,
        }
    }
}

/// The rung of the last link, plus 1; 0 at the source.
pub(crate) const RUNG: u8 = 0x0f;
/// The packet is on its way to the way point in [`RouteState::word`].
pub(crate) const DETOUR: u8 = 0x10;
/// The way is decided for good.
pub(crate) const SETTLED: u8 = 0x20;
/// The packet has been at its way point.
pub(crate) const PASSED: u8 = 0x40;

/// Routing along minimal ways, directly or through a way point.
///
/// The way point of a packet is drawn, uniformly, from those that hold neither its source nor its target, by the stream
/// of its source's switch. UGAL (Singh 2005; Kim et al., ISCA 2008) compares at the source: the packet goes minimally
/// when `q_min H_min <= q_detour H_detour + threshold`, with the number of links `H` of each way and the load `q` of
/// its first output (UGAL-L) or the sum over its links up to the one that leaves the group (UGAL-G). PAR (Jiang, Kim,
/// Dally, ISCA 2009) compares again at each switch of the source's group while the packet still goes minimally.
#[derive(Clone, Debug)]
pub struct Detours<G> {
    pub(crate) guide: G,
    pub(crate) policy: Policy,
    threshold: u64,
    seed: u64,
    /// The random stream of every switch; none when nothing is drawn.
    streams: Vec<u64>,
}

impl<G: Guide> Detours<G> {
    pub(crate) fn new(guide: G, policy: Policy, switches: u32, options: RoutingOptions) -> Self {
        let streams = if policy == Policy::Minimal { 0 } else { switches as usize };
        let mut detours = Detours { guide, policy, threshold: options.threshold, seed: options.seed, streams: vec![0; streams] };
        detours.rest();
        detours
    }

    /// A way point other than the two, if there is one.
    fn draw(&mut self, switch: u32, here: u32, there: u32) -> Option<u32> {
        let (low, high) = (here.min(there), here.max(there));
        let choices = self.guide.waypoints() - if low == high { 1 } else { 2 };
        if choices == 0 {
            return None;
        }
        let stream = &mut self.streams[switch as usize];
        *stream = stream.wrapping_add(GOLDEN);
        let mut drawn = (((mix(*stream) >> 32) * u64::from(choices)) >> 32) as u32;
        if drawn >= low {
            drawn += 1;
        }
        if low != high && drawn >= high {
            drawn += 1;
        }
        Some(drawn)
    }

    /// The load of a way whose first link is given: that link, and under UGAL-G those after it in the same group.
    fn pressure(&self, switch: u32, first: LinkId, next: impl Fn(u32) -> Option<LinkId>, load: &mut impl FnMut(LinkId) -> u64) -> u64 {
        let mut sum = load(first);
        if self.policy == Policy::UgalGlobal {
            let (mut at, mut link) = (switch, first);
            while let Some(peer) = self.guide.next_in_group(at, link) {
                let Some(further) = next(peer) else { break };
                (at, link) = (peer, further);
                sum += load(link);
            }
        }
        sum
    }

    /// Whether the packet leaves the minimal way here, and for which way point.
    #[inline(never)]
    fn decide(&mut self, switch: u32, home: u32, spread: u32, load: &mut impl FnMut(LinkId) -> u64) -> Option<u32> {
        let (here, there) = (self.guide.waypoint(switch), self.guide.waypoint(home));
        let waypoint = self.draw(switch, here, there)?;
        if !self.guide.can_pass(switch, waypoint) {
            return None;
        }
        if self.policy == Policy::Valiant {
            return Some(waypoint);
        }
        let guide = &self.guide;
        let direct = guide.toward(switch, home, spread).link;
        let detour = guide.toward_waypoint(switch, waypoint, spread).link;
        if direct == detour && self.policy != Policy::UgalGlobal {
            return None;
        }
        let along = |peer| (peer != home).then(|| guide.toward(peer, home, spread).link);
        let around = |peer| (guide.waypoint(peer) != waypoint).then(|| guide.toward_waypoint(peer, waypoint, spread).link);
        let minimal = self.pressure(switch, direct, along, load) * u64::from(guide.hops(switch, home, spread));
        if minimal == 0 {
            return None;
        }
        let other = self.pressure(switch, detour, around, load) * u64::from(guide.hops_through(switch, waypoint, home, spread));
        (minimal > other.saturating_add(self.threshold)).then_some(waypoint)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl<G: Guide> Route for Detours<G> {
    fn virtual_channels(&self) -> u8 {
        self.guide.channels(self.policy)
    }

    #[inline]
    fn fixed(&self, switch: u32, input: LinkId, target: u32, state: &RouteState) -> Option<Step> {
        let home = self.guide.home(target);
        if switch == home {
            return Some(Step { link: self.guide.ejection(switch, target), channel: 0 });
        }
        if self.policy != Policy::Minimal && state.phase & (DETOUR | SETTLED) != SETTLED {
            return None;
        }
        let next = self.guide.toward(switch, home, self.guide.spread(target));
        Some(Step { link: next.link, channel: self.guide.channel(input, next, state) })
    }

    #[inline]
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        let home = self.guide.home(target);
        if switch == home {
            return Step { link: self.guide.ejection(switch, target), channel: 0 };
        }
        let spread = self.guide.spread(target);
        if self.policy != Policy::Minimal {
            if state.phase & (DETOUR | SETTLED) == 0 {
                match self.decide(switch, home, spread, &mut load) {
                    Some(waypoint) => {
                        state.word = waypoint;
                        state.phase |= DETOUR | SETTLED;
                    }
                    None if self.policy != Policy::Progressive => state.phase |= SETTLED,
                    None => {}
                }
            }
            if state.phase & DETOUR != 0 && self.guide.waypoint(switch) == state.word {
                state.phase = state.phase & !DETOUR | PASSED;
            }
        }
        let next = if state.phase & DETOUR == 0 {
            self.guide.toward(switch, home, spread)
        } else {
            self.guide.toward_waypoint(switch, state.word, spread)
        };
        let channel = self.guide.channel(input, next, state);
        if self.policy == Policy::Progressive && self.guide.next_in_group(switch, next.link).is_none() {
            state.phase |= SETTLED;
        }
        state.phase = state.phase & !RUNG | (next.rung + 1);
        Step { link: next.link, channel }
    }

    fn rest(&mut self) {
        for (switch, stream) in (0u64..).zip(&mut self.streams) {
            *stream = mix(self.seed ^ mix(switch + 1));
        }
    }
}
