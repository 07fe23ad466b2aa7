//! The graph of hosts, switches and directed links, and how it is put together.

use crate::dragonfly::{Dragonfly, DragonflyError};
use crate::dragonfly_plus::DragonflyPlus;
use crate::failures::FailureError;
use crate::fat_tree::{FatTree, FatTreeError};
use crate::graph_file::GraphFileError;
use crate::guide::Guide;
use crate::hyperx::HyperX;
use crate::names::Names;
use crate::table::Table;
use crate::torus::{Torus, TorusError};
use narrows_units::{ByteRate, SimTime};
use std::collections::BTreeMap;
use std::ops::Range;

/// More hosts and switches than this are refused: an index of a vertex must stay below 2^22, where the total order of
/// events keeps it.
pub const MAX_VERTICES: u64 = 1 << 22;

/// A directed link, which is also the output port that feeds it. See the crate's page for the numbering.
pub type LinkId = u32;

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Vertex {
    /// A host, that is its NIC.
    Host(u32),
    /// A switch.
    Switch(u32),
}

impl std::fmt::Display for Vertex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Vertex::Host(host) => write!(f, "host {host}"),
            Vertex::Switch(switch) => write!(f, "switch {switch}"),
        }
    }
}

/// Which of the machine file's links this one is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkClass {
    /// Between a host and its switch.
    Host,
    /// Between two switches; where there are groups, within one.
    Switch,
    /// Between switches of different groups: dragonfly global links, the torus cables of ExaNeSt.
    Global,
}

impl LinkClass {
    /// All of them, in the order of [`LinkClass::speed`].
    pub const ALL: [LinkClass; 3] = [LinkClass::Host, LinkClass::Switch, LinkClass::Global];

    /// The [`Link::speed`] of links that have nothing of their own.
    pub const fn speed(self) -> u16 {
        self as u16
    }
}

/// Rate and latency of links. What is missing is that of their class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkSpeed {
    /// Their class.
    pub class: LinkClass,
    /// A rate of their own.
    pub rate: Option<ByteRate>,
    /// A latency of their own.
    pub latency: Option<SimTime>,
}

/// One direction of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where it starts.
    pub from: Vertex,
    /// Where it ends.
    pub to: Vertex,
    /// The port of `from`; a port number counts both directions of a cable.
    pub from_port: u16,
    /// The port of `to`.
    pub to_port: u16,
    /// What kind of link it is.
    pub class: LinkClass,
    /// Rate and latency: its place in [`Topology::speeds`].
    pub speed: u16,
    /// The other direction of the same cable.
    pub reverse: LinkId,
}

/// The rule behind a graph, which routing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// A fat tree (one switch is a tree of one level).
    FatTree(FatTree),
    /// A dragonfly.
    Dragonfly(Dragonfly),
    /// A dragonfly+ (Megafly).
    DragonflyPlus(DragonflyPlus),
    /// A torus, a mesh or the ExaNeSt hierarchy.
    Torus(Torus),
    /// A HyperX.
    HyperX(HyperX),
    /// No rule: a graph from a file, or one with failures.
    Table(Table),
}

impl Shape {
    /// Ports of the switches that it is made of: those of the largest, with every place for a host taken.
    pub fn radix(&self) -> u32 {
        match self {
            Shape::FatTree(tree) => tree.radix(),
            Shape::Dragonfly(dragonfly) => dragonfly.radix(),
            Shape::DragonflyPlus(plus) => plus.radix(),
            Shape::Torus(torus) => torus.radix(),
            Shape::HyperX(hyperx) => hyperx.radix(),
            Shape::Table(table) => table.radix(),
        }
    }
}

/// Why numbers make no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Of a fat tree.
    #[error(transparent)]
    FatTree(#[from] FatTreeError),
    /// Of a dragonfly.
    #[error(transparent)]
    Dragonfly(#[from] DragonflyError),
    /// Of a torus, a mesh, the ExaNeSt hierarchy or a HyperX.
    #[error(transparent)]
    Torus(#[from] TorusError),
    /// Of a graph file.
    #[error(transparent)]
    File(#[from] GraphFileError),
    /// Of links and switches that are out of order.
    #[error(transparent)]
    Failure(#[from] FailureError),
}

/// What a topology is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Hosts.
    pub hosts: u32,
    /// Switches.
    pub switches: u32,
    /// Cables (two directed links each) between hosts and switches.
    pub host_cables: u32,
    /// Cables between switches.
    pub switch_cables: u32,
    /// Ports of the switch with the most cables on it.
    pub radix: u32,
    /// Links on the longest of the shortest ways between two hosts.
    pub diameter: u32,
}

/// Hosts, switches and links. Built by [`FatTree::build`] or, link by link, by [`GraphBuilder`].
#[derive(Clone, Debug)]
pub struct Topology {
    name: String,
    hosts: u32,
    links: Vec<Link>,
    /// Switch `s` owns links `first_output[s]..first_output[s + 1]`.
    first_output: Vec<LinkId>,
    /// The group of every switch.
    group_of: Vec<u32>,
    shape: Shape,
    /// Those of the classes first.
    speeds: Vec<LinkSpeed>,
    /// Links out of order; empty when all are well.
    failed: Vec<bool>,
    /// Of switches.
    pub(crate) names: Names,
}

impl Topology {
    /// The name that reports use, such as `PGFT(2; 24,10; 1,3; 1,2)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Number of switches.
    pub fn switches(&self) -> u32 {
        self.first_output.len() as u32 - 1
    }

    /// Every directed link, by its [`LinkId`].
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What [`Link::speed`] stands for: those of [`LinkClass::ALL`], then those of links with a rate or a latency of
    /// their own.
    pub fn speeds(&self) -> &[LinkSpeed] {
        &self.speeds
    }

    /// The link from `host` to its switch.
    pub fn injection(&self, host: u32) -> LinkId {
        debug_assert!(host < self.hosts);
        host
    }

    /// The link from its switch to `host`.
    pub fn ejection(&self, host: u32) -> LinkId {
        self.links[self.injection(host) as usize].reverse
    }

    /// The output ports of `switch`, in the order of their numbers. Its input port `i` is the reverse of output port
    /// `i`.
    pub fn outputs(&self, switch: u32) -> Range<LinkId> {
        self.first_output[switch as usize]..self.first_output[switch as usize + 1]
    }

    /// The rule that the graph was built by.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whether a link is out of order; no way takes it.
    #[inline]
    pub fn is_failed(&self, link: LinkId) -> bool {
        self.failed.get(link as usize).is_some_and(|&failed| failed)
    }

    /// Number of links between switches, counted per direction, that are out of order.
    pub fn failed_links(&self) -> u32 {
        self.failed.iter().filter(|&&failed| failed).count() as u32
    }

    pub(crate) fn set_failed(&mut self, failed: Vec<bool>) {
        self.failed = failed;
    }

    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// The switch of `host`.
    pub fn switch_of(&self, host: u32) -> u32 {
        match self.links[self.injection(host) as usize].to {
            Vertex::Switch(switch) => switch,
            Vertex::Host(_) => unreachable!("hosts are not cabled to each other"),
        }
    }

    /// The group of `switch`: of a dragonfly, a pod of a fat tree, a plane of a torus. Switches of different groups
    /// have the fewest links between them, and no routing looks at the loads of another group.
    #[inline]
    pub fn group(&self, switch: u32) -> u32 {
        self.group_of[switch as usize]
    }

    /// Number of groups.
    pub fn groups(&self) -> u32 {
        self.group_of.iter().max().map_or(0, |last| last + 1)
    }

    /// The speeds of the links between switches on the minimal way from `source` to `target`, in order; the two host
    /// links come on top. A host reaches itself without a link, and this is not asked.
    pub fn links_between(&self, source: u32, target: u32, visit: impl FnMut(u16)) {
        match &self.shape {
            Shape::FatTree(tree) => {
                let mut visit = visit;
                (0..tree.switch_links_between(source, target)).for_each(|_| visit(LinkClass::Switch.speed()));
            }
            Shape::Dragonfly(guide) => self.walk_minimal(guide, source, target, visit),
            Shape::DragonflyPlus(guide) => self.walk_minimal(guide, source, target, visit),
            Shape::Torus(guide) => self.walk_minimal(guide, source, target, visit),
            Shape::HyperX(guide) => self.walk_minimal(guide, source, target, visit),
            Shape::Table(guide) => self.walk_minimal(guide, source, target, visit),
        }
    }

    fn walk_minimal(&self, guide: &impl Guide, source: u32, target: u32, mut visit: impl FnMut(u16)) {
        let (mut at, home) = (guide.home(source), guide.home(target));
        while at != home {
            let link = &self.links[guide.toward(at, home, guide.spread(target)).link as usize];
            visit(link.speed);
            let Vertex::Switch(next) = link.to else { unreachable!("a way between switches") };
            at = next;
        }
    }

    /// How many those are.
    #[inline]
    pub fn switch_links_between(&self, source: u32, target: u32) -> u32 {
        match &self.shape {
            Shape::FatTree(tree) => tree.switch_links_between(source, target),
            Shape::Dragonfly(guide) => guide.hops(guide.home(source), guide.home(target), target),
            Shape::DragonflyPlus(guide) => guide.hops(guide.home(source), guide.home(target), target),
            Shape::Torus(guide) => guide.hops(guide.home(source), guide.home(target), target),
            Shape::HyperX(guide) => guide.hops(guide.home(source), guide.home(target), target),
            Shape::Table(guide) => guide.hops(guide.home(source), guide.home(target), guide.spread(target)),
        }
    }

    /// Links on the longest of the minimal ways between two hosts, host links included; 0 for a single host.
    pub fn diameter(&self) -> u32 {
        match &self.shape {
            Shape::FatTree(tree) => tree.diameter(),
            Shape::Dragonfly(guide) => self.longest_way(guide),
            Shape::DragonflyPlus(guide) => self.longest_way(guide),
            Shape::Torus(guide) => self.longest_way(guide),
            Shape::HyperX(guide) => self.longest_way(guide),
            Shape::Table(table) => table.diameter(),
        }
    }

    /// From the switches of the first group: the others look the same from there.
    fn longest_way(&self, guide: &impl Guide) -> u32 {
        if self.hosts <= 1 {
            return 0;
        }
        let sources = (0..self.switches()).filter(|&switch| self.group(switch) == 0 && guide.has_hosts(switch));
        let targets = || (0..self.hosts).map(|host| (host, guide.home(host)));
        2 + sources
            .map(|source| targets().map(|(host, home)| guide.hops(source, home, guide.spread(host))).max().unwrap_or(0))
            .max()
            .unwrap_or(0)
    }

    /// Number of parts of every kind.
    pub fn counts(&self) -> Counts {
        let host_links = self.links.iter().filter(|link| link.class == LinkClass::Host).count() as u32;
        Counts {
            hosts: self.hosts,
            switches: self.switches(),
            host_cables: host_links / 2,
            switch_cables: (self.links.len() as u32 - host_links) / 2,
            radix: (0..self.switches()).map(|switch| self.outputs(switch).len() as u32).max().unwrap_or(0),
            diameter: self.diameter(),
        }
    }
}

/// Why a graph cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A host without a link, or with several.
    #[error("host {host} has {links} links; every host needs exactly one")]
    HostLinks {
        /// The host.
        host: u32,
        /// Its links.
        links: u32,
    },
    /// A link names something that is not there.
    #[error("a link ends at {vertex}, but there are {hosts} hosts and {switches} switches")]
    NoSuchVertex {
        /// The end that is missing.
        vertex: Vertex,
        /// Hosts that exist.
        hosts: u32,
        /// Switches that exist.
        switches: u32,
    },
    /// Two hosts cabled to each other, or a link from a switch to itself.
    #[error("a link from {from} to {to} is not possible")]
    BadLink {
        /// One end.
        from: Vertex,
        /// The other end.
        to: Vertex,
    },
    /// More ports on a switch than a port number holds.
    #[error("switch {switch} has more than {} ports", u16::MAX)]
    TooManyPorts {
        /// The switch.
        switch: u32,
    },
    /// More than a number of them holds.
    #[error("links have more than {SPEEDS_MAX} different pairs of rate and latency")]
    TooManySpeeds,
}

#[derive(Clone, Copy, Debug)]
struct Cable {
    ends: [Vertex; 2],
    /// The ports at the ends, if they are not simply the next free ones.
    ports: Option<[u16; 2]>,
    class: LinkClass,
    speed: u16,
}

/// Most speeds of a graph, those of the classes among them.
const SPEEDS_MAX: usize = 1 << 16;

/// Collects cables; ports are numbered at each end in the order of the calls.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    hosts: u32,
    switches: u32,
    cables: Vec<Cable>,
    group_of: Vec<u32>,
    names: Names,
    speeds: Vec<LinkSpeed>,
    speed_of: BTreeMap<LinkSpeed, u16>,
}

impl GraphBuilder {
    /// A graph without cables; every switch is in group 0.
    pub fn new(hosts: u32, switches: u32) -> Self {
        let mut graph = GraphBuilder {
            hosts,
            switches,
            cables: Vec::new(),
            group_of: vec![0; switches as usize],
            names: Names::Numbers,
            speeds: Vec::new(),
            speed_of: BTreeMap::new(),
        };
        for class in LinkClass::ALL {
            graph.speed(LinkSpeed { class, rate: None, latency: None });
        }
        graph
    }

    /// The number of a speed; that of the class when there is no room for more, which [`GraphBuilder::build`] refuses.
    fn speed(&mut self, speed: LinkSpeed) -> u16 {
        let GraphBuilder { speeds, speed_of, .. } = self;
        *speed_of.entry(speed).or_insert_with(|| {
            speeds.push(speed);
            u16::try_from(speeds.len() - 1).unwrap_or(speed.class.speed())
        })
    }

    fn push(&mut self, ends: [Vertex; 2], ports: Option<[u16; 2]>, class: LinkClass) {
        self.cables.push(Cable { ends, ports, class, speed: class.speed() });
    }

    /// Adds a cable: one link in each direction. Its class is [`LinkClass::Host`] or [`LinkClass::Switch`].
    pub fn cable(&mut self, one: Vertex, other: Vertex) {
        let class = if matches!((one, other), (Vertex::Switch(_), Vertex::Switch(_))) { LinkClass::Switch } else { LinkClass::Host };
        self.push([one, other], None, class);
    }

    /// Adds a cable between two switches, with a speed.
    pub fn switch_cable(&mut self, one: u32, other: u32, speed: LinkSpeed) {
        let class = speed.class;
        let speed = self.speed(speed);
        self.cables.push(Cable { ends: [Vertex::Switch(one), Vertex::Switch(other)], ports: None, class, speed });
    }

    /// Adds a cable between given ports of two switches. Of one switch, either all ports are given or none.
    pub(crate) fn cable_at(&mut self, one: (u32, u32), other: (u32, u32), class: LinkClass) {
        let ports = Some([one.1 as u16, other.1 as u16]);
        self.push([Vertex::Switch(one.0), Vertex::Switch(other.0)], ports, class);
    }

    /// Adds the cable of a host to a given port of its switch.
    pub(crate) fn host_at(&mut self, host: u32, switch: (u32, u32)) {
        let ports = Some([0, switch.1 as u16]);
        self.push([Vertex::Host(host), Vertex::Switch(switch.0)], ports, LinkClass::Host);
    }

    /// Puts every switch into a group, numbered from 0 without a gap.
    pub fn groups(&mut self, group_of: impl Fn(u32) -> u32) {
        self.group_of = (0..self.switches).map(group_of).collect();
    }

    /// Names levels of switches; those of a level without a name have numbers alone.
    pub(crate) fn levels(&mut self, names: &'static [&'static str], level_of: impl Fn(u32) -> u8) {
        self.names = Names::Levels(names, (0..self.switches).map(level_of).collect());
    }

    /// Gives every switch a name of its own.
    pub(crate) fn names(&mut self, names: Vec<String>) {
        self.names = Names::Own(names);
    }

    /// The graph with its links numbered.
    ///
    /// # Errors
    /// See [`GraphError`].
    pub fn build(self, name: String, shape: Shape) -> Result<Topology, GraphError> {
        let GraphBuilder { hosts, switches, cables, group_of, names, speeds, .. } = self;
        if speeds.len() > SPEEDS_MAX {
            return Err(GraphError::TooManySpeeds);
        }
        let mut host_links = vec![0u32; hosts as usize];
        let mut ports = vec![0u32; switches as usize];
        for &Cable { ends: [from, to], .. } in &cables {
            match (from, to) {
                (Vertex::Host(_), Vertex::Host(_)) => return Err(GraphError::BadLink { from, to }),
                _ if from == to => return Err(GraphError::BadLink { from, to }),
                _ => {}
            }
            for vertex in [from, to] {
                let count = match vertex {
                    Vertex::Host(host) => host_links.get_mut(host as usize),
                    Vertex::Switch(switch) => ports.get_mut(switch as usize),
                };
                *count.ok_or(GraphError::NoSuchVertex { vertex, hosts, switches })? += 1;
            }
        }
        if let Some(host) = host_links.iter().position(|&links| links != 1) {
            return Err(GraphError::HostLinks { host: host as u32, links: host_links[host] });
        }
        if let Some(switch) = ports.iter().position(|&count| count > u32::from(u16::MAX)) {
            return Err(GraphError::TooManyPorts { switch: switch as u32 });
        }
        let mut first_output = Vec::with_capacity(ports.len() + 1);
        let mut next = hosts;
        for &count in &ports {
            first_output.push(next);
            next += count;
        }
        first_output.push(next);

        let nowhere = Link {
            from: Vertex::Host(0),
            to: Vertex::Host(0),
            from_port: 0,
            to_port: 0,
            class: LinkClass::Host,
            speed: 0,
            reverse: LinkId::MAX,
        };
        let mut links = vec![nowhere; next as usize];
        let mut used = vec![0u16; switches as usize];
        let mut port_of = |vertex: Vertex, given: Option<u16>| match vertex {
            Vertex::Host(host) => (host, 0),
            Vertex::Switch(switch) => {
                let port = given.unwrap_or(used[switch as usize]);
                used[switch as usize] += 1;
                (first_output[switch as usize] + u32::from(port), port)
            }
        };
        for Cable { ends: [one, other], ports, class, speed } in cables {
            let (forth, one_port) = port_of(one, ports.map(|ports| ports[0]));
            let (back, other_port) = port_of(other, ports.map(|ports| ports[1]));
            links[forth as usize] = Link { from: one, to: other, from_port: one_port, to_port: other_port, class, speed, reverse: back };
            links[back as usize] = Link { from: other, to: one, from_port: other_port, to_port: one_port, class, speed, reverse: forth };
        }
        assert!(links.iter().all(|link| link.reverse != LinkId::MAX), "the given ports of {name} leave no gap and meet none twice");
        Ok(Topology { name, hosts, links, first_output, group_of, shape, speeds, failed: Vec::new(), names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::FatTree(FatTree::one_switch(2).unwrap())
    }

    #[test]
    fn numbers_injection_links_first_and_pairs_directions() {
        let mut builder = GraphBuilder::new(2, 2);
        builder.cable(Vertex::Host(0), Vertex::Switch(0));
        builder.cable(Vertex::Host(1), Vertex::Switch(1));
        builder.cable(Vertex::Switch(0), Vertex::Switch(1));
        let graph = builder.build("two".into(), shape()).unwrap();
        assert_eq!(graph.outputs(0), 2..4);
        assert_eq!(graph.ejection(1), 4);
        for (id, link) in graph.links().iter().enumerate() {
            let back = graph.links()[link.reverse as usize];
            assert_eq!((back.reverse, back.from, back.to, back.from_port), (id as u32, link.to, link.from, link.to_port));
        }
        assert_eq!((graph.counts().host_cables, graph.counts().switch_cables), (2, 1));
    }

    #[test]
    fn refuses_what_is_no_network() {
        let built = |cables: &[(Vertex, Vertex)]| {
            let mut builder = GraphBuilder::new(2, 1);
            cables.iter().for_each(|&(one, other)| builder.cable(one, other));
            builder.build("x".into(), shape()).map(|_| ())
        };
        let (a, b, s) = (Vertex::Host(0), Vertex::Host(1), Vertex::Switch(0));
        assert_eq!(built(&[(a, s)]), Err(GraphError::HostLinks { host: 1, links: 0 }));
        assert_eq!(built(&[(a, b)]), Err(GraphError::BadLink { from: a, to: b }));
        assert_eq!(built(&[(s, s)]), Err(GraphError::BadLink { from: s, to: s }));
        let missing = Vertex::Switch(3);
        assert_eq!(built(&[(a, missing)]), Err(GraphError::NoSuchVertex { vertex: missing, hosts: 2, switches: 1 }));
        assert_eq!(built(&[(a, s), (b, s)]), Ok(()));
    }
}
