//! Dragonflies (Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008).
//!
//! `g` groups of `a` routers; a router has `p` hosts, a link to every other router of its group, and `h` global links.
//! Router `r` of group `i` is switch `i a + r`, and host `n` is at switch `n / p`. The global ports of a group are
//! counted through: port `d` is port `d mod h` of router `d / h`. With fewer than `a h + 1` groups every pair of groups
//! has `floor(a h / (g - 1))` links, and the ports that are then left over stay empty.

use crate::divide::Divisor;
use crate::graph::{GraphBuilder, GraphError, LinkClass, LinkId, MAX_VERTICES, Shape, Topology};
use crate::guide::{Guide, Policy, Toward};
use narrows_keys::choice;
use std::fmt;

choice! {
    /// Which group a global port leads to: port `d` of group `i`, with one link per pair of groups.
    #[derive(Default, Hash)]
    pub enum Arrangement {
        /// To group `(i + d + 1) mod g`, as fact sheet 2.2 and BookSim have it.
        #[default]
        Consecutive = "consecutive",
        /// Its mirror, to group `(i - d - 1) mod g` (Camarero, Vallejo, Beivide, "Topological Characterization of
        /// Hamming and Dragonfly Networks and Its Implications on Routing", 2014).
        Palmtree = "palmtree",
        /// To group `d` when `d < i`, else `d + 1` (Hastings et al., "Comparing Global Link Arrangements for Dragonfly
        /// Networks", 2015).
        Absolute = "absolute",
    }
}

impl Arrangement {
    /// The port of group `from` that leads to group `to`, among those of one round.
    #[inline]
    pub(crate) fn port(self, from: u32, to: u32, groups: u32) -> u32 {
        let ahead = |from: u32, to: u32| if to > from { to - from - 1 } else { to + groups - from - 1 };
        match self {
            Arrangement::Consecutive => ahead(from, to),
            Arrangement::Palmtree => ahead(to, from),
            Arrangement::Absolute => to - u32::from(to > from),
        }
    }
}

/// Why the numbers of a dragonfly make none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DragonflyError {
    /// A zero.
    #[error("{what} is 0; expected at least 1")]
    Zero {
        /// The number.
        what: &'static str,
    },
    /// Some groups would have no link to each other.
    #[error("{groups} groups need {} global links each, a group has {ports}; expected at most {} groups", groups - 1, ports + 1)]
    Groups {
        /// Groups asked for.
        groups: u32,
        /// Global ports of a group.
        ports: u64,
    },
    /// More hosts asked for than there are places.
    #[error("{asked} hosts do not fit; expected 1 to {places}")]
    Hosts {
        /// Hosts asked for.
        asked: u32,
        /// Hosts that fit.
        places: u64,
    },
    /// Too large for the indices.
    #[error("the dragonfly has {vertices} hosts and switches; expected less than {MAX_VERTICES}")]
    TooLarge {
        /// Hosts and switches.
        vertices: u64,
    },
    /// The cabling failed: too many ports.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// The numbers of a dragonfly, checked, and the rule of its minimal ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    hosts: u32,
    per_router: u32,
    routers: u32,
    global: u32,
    groups: u32,
    arrangement: Arrangement,
    /// Links between two groups.
    rounds: u32,
    /// The first output of every switch, and their end.
    first: Vec<LinkId>,
    by_per_router: Divisor,
    by_routers: Divisor,
    by_global: Divisor,
    by_rounds: Divisor,
}

impl Dragonfly {
    /// `p` hosts per router, `a` routers per group, `h` global links per router, `g` groups. `hosts`: the first so many
    /// places are taken.
    ///
    /// # Errors
    /// See [`DragonflyError`].
    pub fn new(
        [per_router, routers, global, groups]: [u32; 4],
        arrangement: Arrangement,
        hosts: Option<u32>,
    ) -> Result<Dragonfly, DragonflyError> {
        for (what, number) in [
            ("p (hosts per router)", per_router),
            ("a (routers per group)", routers),
            ("h (global links per router)", global),
            ("g (groups)", groups),
        ] {
            if number == 0 {
                return Err(DragonflyError::Zero { what });
            }
        }
        let ports = u64::from(routers) * u64::from(global);
        if u64::from(groups) - 1 > ports {
            return Err(DragonflyError::Groups { groups, ports });
        }
        let switches = u64::from(routers) * u64::from(groups);
        let places = switches.saturating_mul(u64::from(per_router));
        let vertices = switches.saturating_add(places);
        if vertices >= MAX_VERTICES {
            return Err(DragonflyError::TooLarge { vertices });
        }
        if u64::from(per_router) + u64::from(routers) - 1 + u64::from(global) > u64::from(u16::MAX) {
            return Err(GraphError::TooManyPorts { switch: 0 }.into());
        }
        let asked = hosts.unwrap_or(places as u32);
        if asked == 0 || u64::from(asked) > places {
            return Err(DragonflyError::Hosts { asked, places });
        }
        let rounds = if groups == 1 { 1 } else { ports as u32 / (groups - 1) };
        let mut dragonfly = Dragonfly {
            hosts: asked,
            per_router,
            routers,
            global,
            groups,
            arrangement,
            rounds,
            first: Vec::with_capacity(switches as usize + 1),
            by_per_router: Divisor::new(per_router),
            by_routers: Divisor::new(routers),
            by_global: Divisor::new(global),
            by_rounds: Divisor::new(rounds),
        };
        let mut next = asked;
        for switch in 0..switches as u32 {
            dragonfly.first.push(next);
            next += routers - 1 + dragonfly.globals_of(switch % routers) + dragonfly.hosts_of(switch);
        }
        dragonfly.first.push(next);
        Ok(dragonfly)
    }

    /// `p`, `a`, `h`, `g`.
    pub fn parameters(&self) -> [u32; 4] {
        [self.per_router, self.routers, self.global, self.groups]
    }

    /// Links between two groups.
    pub fn links_per_pair(&self) -> u32 {
        self.rounds
    }

    /// `p + a - 1 + h`.
    pub fn radix(&self) -> u32 {
        self.per_router + self.routers - 1 + self.global
    }

    /// Hosts of a switch.
    fn hosts_of(&self, switch: u32) -> u32 {
        (switch + 1).saturating_mul(self.per_router).min(self.hosts) - switch.saturating_mul(self.per_router).min(self.hosts)
    }

    /// Global links of a router that lead somewhere.
    fn globals_of(&self, router: u32) -> u32 {
        let used = self.rounds * (self.groups - 1);
        used.saturating_sub(router * self.global).min(self.global)
    }

    /// The router of group `from`, and its global port, of the link to group `to`.
    #[inline]
    fn gateway(&self, from: u32, to: u32, spread: u32) -> (u32, u32) {
        let round = if self.rounds == 1 { 0 } else { self.by_rounds.remainder(spread) };
        self.by_global.divide(self.arrangement.port(from, to, self.groups) + round * (self.groups - 1))
    }

    /// From router to router of a group. Links within a group come first, then global links, then hosts.
    #[inline]
    fn local(&self, switch: u32, from: u32, to: u32) -> Toward {
        Toward { link: self.first[switch as usize] + to - u32::from(to > from), rung: 0 }
    }

    /// Towards another group.
    #[inline]
    fn out(&self, switch: u32, router: u32, from: u32, to: u32, spread: u32) -> Toward {
        let (gateway, port) = self.gateway(from, to, spread);
        if gateway == router {
            Toward { link: self.first[switch as usize] + self.routers - 1 + port, rung: 1 }
        } else {
            self.local(switch, router, gateway)
        }
    }

    /// The graph.
    pub fn build(self) -> Topology {
        let switches = self.routers * self.groups;
        let mut graph = GraphBuilder::new(self.hosts, switches);
        graph.groups(|switch| switch / self.routers);
        graph.levels(&["router"], |_| 0);
        for switch in 0..switches {
            let globals = self.globals_of(switch % self.routers);
            for index in 0..self.hosts_of(switch) {
                graph.host_at(switch * self.per_router + index, (switch, self.routers - 1 + globals + index));
            }
        }
        for group in 0..self.groups {
            let start = group * self.routers;
            for one in 0..self.routers {
                for other in one + 1..self.routers {
                    graph.cable_at((start + one, other - 1), (start + other, one), LinkClass::Switch);
                }
            }
            for other in group + 1..self.groups {
                for round in 0..self.rounds {
                    let (there, there_port) = self.gateway(group, other, round);
                    let (back, back_port) = self.gateway(other, group, round);
                    let one = (start + there, self.routers - 1 + there_port);
                    graph.cable_at(one, (other * self.routers + back, self.routers - 1 + back_port), LinkClass::Global);
                }
            }
        }
        graph.build(self.to_string(), Shape::Dragonfly(self)).expect("a checked dragonfly has valid cables")
    }
}

impl Guide for Dragonfly {
    #[inline]
    fn home(&self, host: u32) -> u32 {
        self.by_per_router.quotient(host)
    }

    fn has_hosts(&self, switch: u32) -> bool {
        self.hosts_of(switch) > 0
    }

    #[inline]
    fn ejection(&self, switch: u32, host: u32) -> LinkId {
        self.first[switch as usize + 1] - self.hosts_of(switch) + host - switch * self.per_router
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward {
        let (from, router) = self.by_routers.divide(switch);
        let (to, there) = self.by_routers.divide(target);
        if from == to { self.local(switch, router, there) } else { self.out(switch, router, from, to, spread) }
    }

    fn hops(&self, switch: u32, target: u32, spread: u32) -> u32 {
        let (from, router) = self.by_routers.divide(switch);
        let (to, there) = self.by_routers.divide(target);
        if from == to {
            return u32::from(router != there);
        }
        u32::from(self.gateway(from, to, spread).0 != router) + 1 + u32::from(self.gateway(to, from, spread).0 != there)
    }

    fn spreads(&self) -> u32 {
        self.rounds
    }

    fn waypoints(&self) -> u32 {
        self.groups
    }

    #[inline]
    fn waypoint(&self, switch: u32) -> u32 {
        self.by_routers.quotient(switch)
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward {
        let (from, router) = self.by_routers.divide(switch);
        self.out(switch, router, from, waypoint, spread)
    }

    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32 {
        let (from, router) = self.by_routers.divide(switch);
        let landing = waypoint * self.routers + self.gateway(waypoint, from, spread).0;
        u32::from(self.gateway(from, waypoint, spread).0 != router) + 1 + self.hops(landing, target, spread)
    }

    fn next_in_group(&self, switch: u32, link: LinkId) -> Option<u32> {
        let (_, router) = self.by_routers.divide(switch);
        let port = link - self.first[switch as usize];
        (port < self.routers - 1).then(|| switch - router + port + u32::from(port >= router))
    }

    /// Fact sheet 2.4: each way between groups after the first needs a channel more, and so does the second link within
    /// the source's group that PAR may take.
    fn channels(&self, policy: Policy) -> u8 {
        match policy {
            Policy::Minimal => 2,
            Policy::Valiant | Policy::UgalLocal | Policy::UgalGlobal => 3,
            Policy::Progressive => 4,
        }
    }
}

/// `dragonfly p3 a6 h3 g19`
impl fmt::Display for Dragonfly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dragonfly { per_router, routers, global, groups, .. } = self;
        write!(f, "dragonfly p{per_router} a{routers} h{global} g{groups}")?;
        match self.arrangement {
            Arrangement::Consecutive => {}
            Arrangement::Palmtree => write!(f, " palmtree")?,
            Arrangement::Absolute => write!(f, " absolute")?,
        }
        if self.hosts < per_router * routers * groups {
            write!(f, " for {} hosts", self.hosts)?;
        }
        Ok(())
    }
}
