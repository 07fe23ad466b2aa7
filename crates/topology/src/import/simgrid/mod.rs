//! SimGrid's platforms (XML): clusters, and zones whose routes are cables.
//!
//! Source: SimGrid's manual, "XML reference" and "Platform examples". A route is a cable between its two ends, with the
//! least bandwidth and the sum of the latencies of its links. That is so where every link belongs to one pair of ends;
//! other platforms do not say what joins their links, and are refused. All cables carry their bandwidth in both
//! directions at once, whatever their sharing policy.

mod cluster;
mod routes;
mod units;

use super::builder::Builder;
use super::hostlist::shown;
use super::{Format, ImportError, Network};
use crate::graph::{LinkClass, LinkSpeed};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;
use units::{bandwidth, latency};

/// The most elements, attributes and texts.
const NODES_MAX: u32 = 1 << 23;
/// The most zones within each other.
const DEPTH_MAX: usize = 64;
/// Elements that say nothing of the network.
const OTHER: [&str; 14] = [
    "prop",
    "config",
    "random",
    "trace",
    "trace_connect",
    "trace:connect",
    "storage",
    "storage_type",
    "mstorage",
    "mount",
    "disk",
    "model_prop",
    "process",
    "actor",
];

#[derive(Clone, Copy)]
struct SimLink {
    speed: LinkSpeed,
    /// `FATPIPE`: who crosses it shares nothing.
    shared: bool,
}

/// What a route begins or ends at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Host(usize),
    Switch(u32),
}

struct HostEntry {
    line: usize,
    name: String,
    /// Its switch and the link to that; hosts outside of clusters find theirs among the routes.
    home: Option<(u32, LinkSpeed)>,
}

struct Route {
    line: usize,
    ends: [String; 2],
    links: Vec<String>,
}

struct Platform {
    /// Where lines begin.
    lines: Vec<usize>,
    builder: Builder,
    hosts: Vec<HostEntry>,
    points: BTreeMap<String, Point>,
    links: BTreeMap<String, SimLink>,
    routes: Vec<Route>,
}

/// The network of a file's text.
///
/// # Errors
/// [`ImportError`], with the line.
pub fn read(text: &str) -> Result<Network, ImportError> {
    let lines: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    // An entity may stand for any number of others; platforms have none.
    if let Some(at) = text.find("<!ENTITY") {
        return Err(ImportError::new(lines.partition_point(|&begin| begin <= at), "an entity of XML; expected a platform without"));
    }
    let options = ParsingOptions { allow_dtd: true, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| ImportError::new(error.pos().row as usize, format!("not XML: {error}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "platform" {
        let message = format!("found <{}>; expected <platform>", shown(root.tag_name().name()));
        return Err(ImportError::new(lines.partition_point(|&begin| begin <= root.range().start), message));
    }
    let last_line = lines.len();
    let mut platform = Platform {
        lines,
        builder: Builder::default(),
        hosts: Vec::new(),
        points: BTreeMap::new(),
        links: BTreeMap::new(),
        routes: Vec::new(),
    };
    platform.zone(root, 0)?;
    let edges = platform.edges()?;
    platform.join(edges)?;
    platform.builder.finish(Format::SimGrid, last_line)
}

impl Platform {
    fn line(&self, node: Node<'_, '_>) -> usize {
        self.lines.partition_point(|&begin| begin <= node.range().start)
    }

    fn error(&self, node: Node<'_, '_>, message: impl Into<String>) -> ImportError {
        ImportError::new(self.line(node), message)
    }

    fn attribute<'a>(&self, node: Node<'a, '_>, name: &str) -> Result<&'a str, ImportError> {
        let tag = node.tag_name().name();
        node.attribute(name).ok_or_else(|| self.error(node, format!("<{tag}> without {name}; expected {name}=\"...\"")))
    }

    fn zone(&mut self, zone: Node<'_, '_>, depth: usize) -> Result<(), ImportError> {
        if depth > DEPTH_MAX {
            return Err(self.error(zone, format!("more than {DEPTH_MAX} zones within each other")));
        }
        for node in zone.children().filter(Node::is_element) {
            match node.tag_name().name() {
                "zone" | "AS" => {
                    let routing = node.attribute("routing").unwrap_or_default();
                    if ["vivaldi", "wifi"].iter().any(|kind| routing.eq_ignore_ascii_case(kind)) {
                        let message = format!("routing=\"{routing}\" has no cables; expected Full, Floyd, Dijkstra or clusters");
                        return Err(self.error(node, message));
                    }
                    self.zone(node, depth + 1)?;
                }
                "host" => {
                    let name = self.attribute(node, "id")?.to_owned();
                    let point = Point::Host(self.hosts.len());
                    self.point(node, &name, point)?;
                    self.hosts.push(HostEntry { line: self.line(node), name, home: None });
                }
                "router" => {
                    let name = self.attribute(node, "id")?;
                    let number = self.builder.switch(self.line(node), name)?;
                    self.point(node, name, Point::Switch(number))?;
                }
                "link" => {
                    let speed = LinkSpeed {
                        class: LinkClass::Switch,
                        rate: Some(bandwidth(self.line(node), self.attribute(node, "bandwidth")?)?),
                        latency: Some(
                            node.attribute("latency").map_or(Ok(narrows_units::SimTime::ZERO), |text| latency(self.line(node), text))?,
                        ),
                    };
                    let shared = !node.attribute("sharing_policy").is_some_and(|policy| policy.eq_ignore_ascii_case("FATPIPE"));
                    let name = self.attribute(node, "id")?;
                    if self.links.insert(name.to_owned(), SimLink { speed, shared }).is_some() {
                        return Err(self.error(node, format!("there is a link `{}` already; expected another id", shown(name))));
                    }
                }
                "route" => self.route(node, ["src", "dst"])?,
                "zoneRoute" | "ASroute" => self.route(node, ["gw_src", "gw_dst"])?,
                "cluster" => self.cluster(node)?,
                name if OTHER.contains(&name) => {}
                name => {
                    let known = "expected zone, host, router, link, route, zoneRoute or cluster";
                    return Err(self.error(node, format!("<{}> is not a part of a graph; {known}", shown(name))));
                }
            }
        }
        Ok(())
    }

    fn point(&mut self, node: Node<'_, '_>, name: &str, point: Point) -> Result<(), ImportError> {
        match self.points.insert(name.to_owned(), point) {
            None => Ok(()),
            Some(_) => Err(self.error(node, format!("there is a host or router `{}` already; expected another id", shown(name)))),
        }
    }

    fn route(&mut self, node: Node<'_, '_>, ends: [&str; 2]) -> Result<(), ImportError> {
        let mut links = Vec::new();
        for child in node.children().filter(|child| child.is_element() && matches!(child.tag_name().name(), "link_ctn" | "link:ctn")) {
            links.push(self.attribute(child, "id")?.to_owned());
        }
        if links.is_empty() {
            return Err(self.error(node, "a route without links; expected <link_ctn id=\"...\"/> in it"));
        }
        let ends = [self.attribute(node, ends[0])?.to_owned(), self.attribute(node, ends[1])?.to_owned()];
        self.routes.push(Route { line: self.line(node), ends, links });
        Ok(())
    }
}
