//! Tori and meshes: k-ary n-cubes with any length per dimension (Dally and Towles, "Principles and Practices of
//! Interconnection Networks", 2004, chapter 5), and the ExaNeSt hierarchy, a torus whose nodes are boards.
//!
//! Nodes are numbered with the first dimension running fastest. In a torus a dimension of 2 has one cable, not two. A
//! node is one switch, or a **board**: `b` switches, each cabled to each; the first one has the board's torus links.
//! ExaNeSt's QFDB is a board of four MPSoCs, of which the "network MPSoC" F1 has the torus router (fact sheet 5.1).
//! Host `n` is at switch `n / p`. The places along a dimension may also be a full mesh, each cabled to each (ACC's
//! testbed: RED-SEA D1.4 section 8.1).

use crate::adaptive::Productive;
use crate::divide::Divisor;
use crate::graph::{GraphBuilder, GraphError, LinkClass, LinkId, MAX_VERTICES, Shape, Topology};
use crate::guide::{Guide, PASSED, Policy, Toward};
use crate::routing::{RouteState, Step};
use std::fmt;

/// Why the numbers of a torus make none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TorusError {
    /// No dimensions, or more than are kept.
    #[error("{given} dimensions; expected 1 to {MAX_DIMENSIONS}")]
    Dimensions {
        /// What was given.
        given: usize,
    },
    /// A zero.
    #[error("{what} is 0; expected at least 1")]
    Zero {
        /// The number.
        what: &'static str,
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
    #[error("{vertices} hosts and switches; expected less than {MAX_VERTICES}")]
    TooLarge {
        /// Hosts and switches.
        vertices: u64,
    },
    /// The cabling failed: too many ports.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Most dimensions.
pub const MAX_DIMENSIONS: usize = 8;

/// What a torus is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorusParameters {
    /// Nodes along each dimension.
    pub lengths: Vec<u32>,
    /// Rings (a torus) or rows (a mesh).
    pub wrap: bool,
    /// Switches of a node; 1, or the MPSoCs of a board.
    pub board: u32,
    /// Hosts of each switch.
    pub hosts_per_switch: u32,
    /// Cables between neighbouring nodes.
    pub cables: u32,
    /// Only the first so many places are taken.
    pub hosts: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    length: u32,
    by_length: Divisor,
    /// It is a ring.
    ring: bool,
    /// Each place is cabled to each.
    full: bool,
    /// A ring in which a packet may follow a packet all around: it needs a dateline.
    dateline: bool,
}

impl Dimension {
    /// Those ahead of a place that are cabled to it, or those behind it.
    fn neighbours(&self, at: u32, ahead: bool) -> u32 {
        let row = if ahead { self.length - 1 - at } else { at };
        match self {
            Dimension { full: true, .. } => row,
            Dimension { ring: true, .. } => 1,
            _ => row.min(1),
        }
    }

    /// Of a full mesh: places between two.
    #[inline]
    fn between(&self, at: u32, there: u32) -> u32 {
        if there > at { there - at - 1 } else { at - there - 1 }
    }

    /// Which way is the shorter one between two places.
    #[inline]
    fn forth(&self, at: u32, there: u32) -> bool {
        if !self.ring {
            return there > at;
        }
        let ahead = if there > at { there - at } else { there + self.length - at };
        // Half around: those at even places go forth.
        2 * ahead < self.length || (2 * ahead == self.length && at.is_multiple_of(2))
    }
}

/// The numbers of a torus, checked, and dimension-order routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    parameters: TorusParameters,
    hosts: u32,
    dimensions: Vec<Dimension>,
    by_hosts: Divisor,
    by_board: Divisor,
    by_cables: Divisor,
    /// Per switch, the first output; and their end.
    first: Vec<LinkId>,
    /// Per node, dimension and direction (forth, back), the first of the cables.
    torus_links: Vec<LinkId>,
    /// Channels of one minimal way.
    channels: u8,
}

impl Torus {
    /// The torus, mesh or hierarchy of these numbers.
    ///
    /// # Errors
    /// See [`TorusError`].
    pub fn new(parameters: TorusParameters) -> Result<Torus, TorusError> {
        Torus::with(parameters, false)
    }

    /// The same with a full mesh along each dimension, whatever `wrap` says.
    ///
    /// # Errors
    /// See [`TorusError`].
    pub fn of_full_meshes(parameters: TorusParameters) -> Result<Torus, TorusError> {
        Torus::with(parameters, true)
    }

    fn with(parameters: TorusParameters, full: bool) -> Result<Torus, TorusError> {
        let TorusParameters { ref lengths, wrap, board, hosts_per_switch, cables, hosts } = parameters;
        if lengths.is_empty() || lengths.len() > MAX_DIMENSIONS {
            return Err(TorusError::Dimensions { given: lengths.len() });
        }
        for (what, number) in [
            ("a length", lengths.iter().copied().min().unwrap_or(0)),
            ("switches per board", board),
            ("hosts per switch", hosts_per_switch),
            ("cables", cables),
        ] {
            if number == 0 {
                return Err(TorusError::Zero { what });
            }
        }
        let nodes = lengths.iter().fold(1u64, |product, &length| product.saturating_mul(u64::from(length)));
        let switches = nodes.saturating_mul(u64::from(board));
        let places = switches.saturating_mul(u64::from(hosts_per_switch));
        let vertices = switches.saturating_add(places);
        if vertices >= MAX_VERTICES {
            return Err(TorusError::TooLarge { vertices });
        }
        let widest = |&length: &u32| u64::from(if full { length } else { 2 });
        if u64::from(cables) * lengths.iter().map(widest).sum::<u64>() + u64::from(board) + u64::from(hosts_per_switch)
            > u64::from(u16::MAX)
        {
            return Err(GraphError::TooManyPorts { switch: 0 }.into());
        }
        let asked = hosts.unwrap_or(places as u32);
        if asked == 0 || u64::from(asked) > places {
            return Err(TorusError::Hosts { asked, places });
        }
        let dimensions: Vec<Dimension> = lengths
            .iter()
            .map(|&length| {
                let ring = wrap && length > 2 && !full;
                Dimension { length, by_length: Divisor::new(length), ring, full, dateline: ring && length > 3 }
            })
            .collect();
        let channels = if dimensions.iter().any(|dimension| dimension.dateline) { 2 } else { 1 };
        let mut torus = Torus {
            hosts: asked,
            by_hosts: Divisor::new(hosts_per_switch),
            by_board: Divisor::new(board),
            by_cables: Divisor::new(cables),
            first: Vec::with_capacity(switches as usize + 1),
            torus_links: Vec::with_capacity(nodes as usize * 2 * dimensions.len()),
            channels,
            dimensions,
            parameters,
        };
        let mut next = asked;
        for switch in 0..switches as u32 {
            torus.first.push(next);
            next += board - 1;
            if switch.is_multiple_of(board) {
                let mut rest = switch / board;
                for dimension in &torus.dimensions {
                    let at = dimension.by_length.remainder(rest);
                    rest = dimension.by_length.quotient(rest);
                    for ahead in [true, false] {
                        torus.torus_links.push(next);
                        next += cables * dimension.neighbours(at, ahead);
                    }
                }
            }
            next += torus.hosts_of(switch);
        }
        torus.first.push(next);
        Ok(torus)
    }

    /// What it was made of.
    pub fn parameters(&self) -> &TorusParameters {
        &self.parameters
    }

    /// Two cables (or bundles) per dimension, fewer where it is short, the board, and the hosts.
    pub fn radix(&self) -> u32 {
        let TorusParameters { board, hosts_per_switch, cables, .. } = self.parameters;
        let most = |dimension: &Dimension| if dimension.full { dimension.length } else { dimension.length.min(3) } - 1;
        let neighbours = self.dimensions.iter().map(most);
        board - 1 + hosts_per_switch + cables * neighbours.sum::<u32>()
    }

    fn hosts_of(&self, switch: u32) -> u32 {
        let per_switch = self.parameters.hosts_per_switch;
        (switch + 1).saturating_mul(per_switch).min(self.hosts) - switch.saturating_mul(per_switch).min(self.hosts)
    }

    fn switches(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Nodes (boards).
    fn nodes(&self) -> u32 {
        self.switches() / self.parameters.board
    }

    /// Networks of channels for adaptive routing: one for each combination of directions in all dimensions but the
    /// first.
    fn direction_networks(&self) -> u8 {
        let dimensions = self.dimensions.iter().filter(|dimension| dimension.length > 1).count();
        1 << dimensions.saturating_sub(1)
    }

    /// The dimension to go along from node to node, whether forth, and whether the dateline is still ahead.
    #[inline]
    fn turn(&self, node: u32, target: u32) -> (usize, bool, bool) {
        let (mut node, mut target) = (node, target);
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let (at, there);
            (node, at) = dimension.by_length.divide(node);
            (target, there) = dimension.by_length.divide(target);
            if at != there {
                let forth = dimension.forth(at, there);
                return (index, forth, dimension.dateline && (there < at) == forth);
            }
        }
        unreachable!("a packet at its node goes along no dimension")
    }

    #[inline]
    fn toward_node(&self, switch: u32, node: u32, target: u32, spread: u32) -> Toward {
        let place = switch - node * self.parameters.board;
        if place > 0 {
            return Toward { link: self.first[switch as usize], rung: 0 };
        }
        let (dimension, forth, crosses) = self.turn(node, target);
        let first = self.first_cable(node, dimension, forth, target);
        let cable = if self.parameters.cables == 1 { 0 } else { self.by_cables.remainder(spread) };
        // Dally and Seitz 1987: the low channel until the dateline, the high one after it, or where there is none
        // ahead.
        Toward { link: first + cable, rung: u8::from(self.dimensions[dimension].dateline && !crosses) }
    }

    /// The first cable along a dimension, towards a node.
    #[inline]
    fn first_cable(&self, node: u32, index: usize, forth: bool, target: u32) -> LinkId {
        let first = self.torus_links[(node as usize * self.dimensions.len() + index) * 2 + usize::from(!forth)];
        let dimension = &self.dimensions[index];
        if !dimension.full {
            return first;
        }
        let place = |node: u32| {
            let rest = self.dimensions[..index].iter().fold(node, |rest, before| before.by_length.quotient(rest));
            dimension.by_length.remainder(rest)
        };
        first + dimension.between(place(node), place(target)) * self.parameters.cables
    }

    /// Links of the torus between two nodes.
    fn distance(&self, node: u32, target: u32) -> u32 {
        let (mut node, mut target, mut sum) = (node, target, 0);
        for dimension in &self.dimensions {
            let (at, there);
            (node, at) = dimension.by_length.divide(node);
            (target, there) = dimension.by_length.divide(target);
            let straight = at.abs_diff(there);
            sum += match dimension {
                Dimension { full: true, .. } => straight.min(1),
                Dimension { ring: true, length, .. } => straight.min(length - straight),
                _ => straight,
            };
        }
        sum
    }

    /// The graph.
    pub fn build(self) -> Topology {
        let TorusParameters { board, cables, hosts_per_switch, .. } = self.parameters;
        let switches = self.switches();
        let mut graph = GraphBuilder::new(self.hosts, switches);
        let plane = self.nodes() / self.dimensions.last().expect("at least one dimension").length;
        graph.groups(|switch| switch / board / plane);
        let class = if board > 1 { LinkClass::Global } else { LinkClass::Switch };
        for switch in 0..switches {
            let (node, place) = self.by_board.divide(switch);
            for peer in place + 1..board {
                graph.cable_at((switch, peer - 1), (node * board + peer, place), LinkClass::Switch);
            }
            let first = self.first[switch as usize];
            let mut port = board - 1;
            if place == 0 {
                let mut stride = 1;
                for (index, dimension) in self.dimensions.iter().enumerate() {
                    let links = (node as usize * self.dimensions.len() + index) * 2;
                    let at = node / stride % dimension.length;
                    for next in 0..dimension.neighbours(at, true) {
                        let there = (at + 1 + next) % dimension.length;
                        let peer = node - at * stride + there * stride;
                        let behind = if dimension.full { dimension.between(there, at) * cables } else { 0 };
                        let back = self.torus_links[(peer as usize * self.dimensions.len() + index) * 2 + 1] + behind
                            - self.first[(peer * board) as usize];
                        for cable in 0..cables {
                            let one = (switch, self.torus_links[links] - first + next * cables + cable);
                            graph.cable_at(one, (peer * board, back + cable), class);
                        }
                    }
                    port += cables * (dimension.neighbours(at, true) + dimension.neighbours(at, false));
                    stride *= dimension.length;
                }
            }
            for index in 0..self.hosts_of(switch) {
                graph.host_at(switch * hosts_per_switch + index, (switch, port + index));
            }
        }
        graph.build(self.to_string(), Shape::Torus(self)).expect("a checked torus has valid cables")
    }
}

impl Guide for Torus {
    #[inline]
    fn home(&self, host: u32) -> u32 {
        self.by_hosts.quotient(host)
    }

    fn has_hosts(&self, switch: u32) -> bool {
        self.hosts_of(switch) > 0
    }

    #[inline]
    fn ejection(&self, switch: u32, host: u32) -> LinkId {
        self.first[switch as usize + 1] - self.hosts_of(switch) + host - switch * self.parameters.hosts_per_switch
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward {
        let (node, place) = self.by_board.divide(switch);
        let (to, there) = self.by_board.divide(target);
        if node == to {
            return Toward { link: self.first[switch as usize] + there - u32::from(there > place), rung: 0 };
        }
        self.toward_node(switch, node, to, spread)
    }

    fn hops(&self, switch: u32, target: u32, _spread: u32) -> u32 {
        let (node, place) = self.by_board.divide(switch);
        let (to, there) = self.by_board.divide(target);
        if node == to {
            return u32::from(place != there);
        }
        u32::from(place != 0) + self.distance(node, to) + u32::from(there != 0)
    }

    fn spreads(&self) -> u32 {
        self.parameters.cables
    }

    fn waypoints(&self) -> u32 {
        self.nodes()
    }

    #[inline]
    fn waypoint(&self, switch: u32) -> u32 {
        self.by_board.quotient(switch)
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward {
        self.toward_node(switch, self.by_board.quotient(switch), waypoint, spread)
    }

    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32 {
        let (node, place) = self.by_board.divide(switch);
        u32::from(place != 0) + self.distance(node, waypoint) + self.hops(waypoint * self.parameters.board, target, spread)
    }

    fn next_in_group(&self, _switch: u32, _link: LinkId) -> Option<u32> {
        None
    }

    /// Low and high within each dimension, and another pair after the way point.
    #[inline]
    fn channel(&self, _input: LinkId, next: Toward, state: &RouteState) -> u8 {
        next.rung + if state.phase & PASSED == 0 { 0 } else { self.channels }
    }

    fn channels(&self, policy: Policy) -> u8 {
        self.channels * if policy == Policy::Minimal { 1 } else { 2 }
    }
}

impl Productive for Torus {
    fn productive(&self, switch: u32, home: u32, spread: u32, state: &RouteState, mut visit: impl FnMut(Step)) {
        let (node, place) = self.by_board.divide(switch);
        let (to, there) = self.by_board.divide(home);
        if node == to || place > 0 {
            // Links of a board: the first or the last one of a way.
            let peer = if node == to { there } else { 0 };
            return visit(Step { link: self.first[switch as usize] + peer - u32::from(peer > place), channel: 0 });
        }
        // By dimension with a way to go: its number, the link, and whether that goes around the end of a ring.
        let mut ways = [(0, 0, false); MAX_DIMENSIONS];
        let (mut count, mut directions, mut bit) = (0, 0u8, 0u32);
        let (mut rest, mut home_rest) = (node, to);
        let cable = if self.parameters.cables == 1 { 0 } else { self.by_cables.remainder(spread) };
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let (at, there);
            (rest, at) = dimension.by_length.divide(rest);
            (home_rest, there) = dimension.by_length.divide(home_rest);
            if at != there {
                let forth = dimension.forth(at, there);
                let link = self.first_cable(node, index, forth, to) + cable;
                let around = dimension.ring && if forth { at + 1 == dimension.length } else { at == 0 };
                ways[count] = (index, link, around);
                count += 1;
                // The first dimension goes both ways in each network.
                directions |= u8::from(!forth && bit > 0) << bit.saturating_sub(1);
            }
            bit += u32::from(dimension.length > 1);
        }
        let networks = self.direction_networks();
        let (network, level) = if state.phase == 0 { (directions, 0) } else { (state.channel % networks, state.channel / networks) };
        for &(_, link, around) in &ways[..count] {
            visit(Step { link, channel: network + networks * (level + u8::from(around)) });
        }
    }

    /// 1 on the torus.
    fn phase_behind(&self, switch: u32, home: u32) -> u8 {
        let (node, place) = self.by_board.divide(switch);
        u8::from(place == 0 && node != self.by_board.quotient(home))
    }

    /// One level around the end of a ring.
    fn rise(&self, switch: u32, link: LinkId) -> u8 {
        let (node, place) = self.by_board.divide(switch);
        let mut rest = node;
        for (index, dimension) in self.dimensions.iter().enumerate() {
            let at;
            (rest, at) = dimension.by_length.divide(rest);
            if place > 0 || !dimension.ring {
                continue;
            }
            let around = if at + 1 == dimension.length { Some(true) } else { (at == 0).then_some(false) };
            let first = |forth| self.first_cable(node, index, forth, node);
            if around.is_some_and(|forth| (first(forth)..first(forth) + self.parameters.cables).contains(&link)) {
                return self.direction_networks();
            }
        }
        0
    }

    fn adaptive_channels(&self) -> u8 {
        let rings = self.dimensions.iter().filter(|dimension| dimension.ring).count() as u8;
        self.direction_networks().saturating_mul(rings + 1)
    }
}

/// `torus 4x4x2`, `mesh 8x8, 2 hosts per switch`, `torus 4x4x2 of boards of 4`
impl fmt::Display for Torus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TorusParameters { lengths, wrap, board, hosts_per_switch, cables, .. } = &self.parameters;
        let lengths: Vec<String> = lengths.iter().map(u32::to_string).collect();
        let full = self.dimensions.iter().any(|dimension| dimension.full);
        let kind = if full {
            "full mesh"
        } else if *wrap {
            "torus"
        } else {
            "mesh"
        };
        write!(f, "{kind} {}", lengths.join("x"))?;
        if *board > 1 {
            write!(f, " of boards of {board}")?;
        }
        if *hosts_per_switch > 1 {
            write!(f, ", {hosts_per_switch} hosts per switch")?;
        }
        if *cables > 1 {
            write!(f, ", {cables} cables")?;
        }
        if u64::from(self.hosts) < u64::from(self.switches()) * u64::from(*hosts_per_switch) {
            write!(f, " for {} hosts", self.hosts)?;
        }
        Ok(())
    }
}
