//! Routes as cables, and where that puts hosts.

use super::super::ImportError;
use super::super::builder::plain;
use super::super::hostlist::shown;
use super::{HostEntry, Platform, Point, Route, SimLink};
use crate::graph::{LinkClass, LinkSpeed};
use narrows_units::SimTime;
use std::collections::{BTreeMap, BTreeSet};

/// A route as a cable.
pub(super) struct Edge {
    line: usize,
    ends: [Point; 2],
    speed: LinkSpeed,
}

impl Platform {
    /// The routes as cables: those of one link, then those of several that no others share.
    pub(super) fn edges(&self) -> Result<Vec<Edge>, ImportError> {
        let mut edges: Vec<Edge> = Vec::new();
        let mut joined: BTreeSet<[Point; 2]> = BTreeSet::new();
        // The ends of each link, and the line that says it.
        let mut owners: BTreeMap<&str, ([Point; 2], usize)> = BTreeMap::new();
        let (single, several): (Vec<&Route>, Vec<&Route>) = self.routes.iter().partition(|route| route.links.len() == 1);
        for route in single.into_iter().chain(several) {
            let line = route.line;
            let mut ends = [self.end(line, &route.ends[0])?, self.end(line, &route.ends[1])?];
            // What a host sends to itself.
            if ends[0] == ends[1] {
                continue;
            }
            let links = route.links.iter().map(|name| self.link(line, name)).collect::<Result<Vec<_>, _>>()?;
            if links.len() > 1 && leads(ends, links.iter().map(|(name, _)| owners.get(name).map(|(ends, _)| *ends))) {
                continue;
            }
            ends.sort_unstable();
            for (name, _) in links.iter().filter(|(_, link)| link.shared) {
                let (owner, first) = *owners.entry(*name).or_insert((ends, line));
                if owner != ends {
                    let message = format!("link `{}` is a part of this route and of the one in line {first}, between others", shown(name));
                    let advice = "expected routers where links meet and a route of one link for each cable, or a <cluster>";
                    return Err(ImportError::new(line, format!("{message}: a graph needs to know what joins them; {advice}")));
                }
            }
            if joined.insert(ends) {
                let rate = links.iter().filter_map(|(_, link)| link.speed.rate).min();
                let latency = links.iter().filter_map(|(_, link)| link.speed.latency).fold(SimTime::ZERO, |sum, next| sum + next);
                edges.push(Edge { line, ends, speed: LinkSpeed { class: LinkClass::Switch, rate, latency: Some(latency) } });
            }
        }
        Ok(edges)
    }

    fn end(&self, line: usize, name: &str) -> Result<Point, ImportError> {
        let known = "expected the id of one, or the router of a flat cluster";
        self.points.get(name).copied().ok_or_else(|| ImportError::new(line, format!("no host or router `{}`; {known}", shown(name))))
    }

    fn link<'a>(&'a self, line: usize, name: &'a str) -> Result<(&'a str, SimLink), ImportError> {
        let whole = name.strip_suffix("_UP").or_else(|| name.strip_suffix("_DOWN"));
        let found = [Some(name), whole].into_iter().flatten().find_map(|name| Some((name, *self.links.get(name)?)));
        found.ok_or_else(|| ImportError::new(line, format!("no link `{}`; expected the id of one", shown(name))))
    }

    /// Gives hosts their switches, and switches their cables. A host with one cable, to a router, is at that; any other
    /// has a switch of its own.
    pub(super) fn join(&mut self, edges: Vec<Edge>) -> Result<(), ImportError> {
        let mut cables_of: Vec<Vec<usize>> = vec![Vec::new(); self.hosts.len()];
        for (at, edge) in edges.iter().enumerate() {
            for end in edge.ends {
                if let Point::Host(host) = end {
                    cables_of[host].push(at);
                }
            }
        }
        let mut taken = BTreeSet::new();
        let mut own = 0;
        for (host, cables) in cables_of.iter().enumerate() {
            let HostEntry { line, name, home } = &self.hosts[host];
            if home.is_some() {
                continue;
            }
            let at_router =
                |edge: &Edge| edge.ends.iter().find_map(|end| if let Point::Switch(switch) = end { Some(*switch) } else { None });
            let found = match cables.as_slice() {
                [] => return Err(ImportError::new(*line, format!("host `{}` is on no route; expected one to a router", shown(name)))),
                [only] => at_router(&edges[*only]).map(|switch| (*only, switch)),
                _ => None,
            };
            let home = match found {
                Some((edge, switch)) => {
                    taken.insert(edge);
                    (switch, LinkSpeed { class: LinkClass::Host, ..edges[edge].speed })
                }
                None => {
                    own += 1;
                    let rate = cables.iter().filter_map(|&at| edges[at].speed.rate).max();
                    (self.builder.switch(*line, &format!("{name}.switch"))?, LinkSpeed { rate, ..plain(LinkClass::Host) })
                }
            };
            self.hosts[host].home = Some(home);
        }
        if own > 0 {
            self.builder.notes.push(format!("{own} hosts have several cables, or one to a host: each is at a switch of its own."));
        }
        for (_, edge) in edges.iter().enumerate().filter(|(at, _)| !taken.contains(at)) {
            let [one, other] = edge.ends.map(|end| match end {
                Point::Switch(switch) => switch,
                Point::Host(host) => self.hosts[host].home.map_or(0, |(switch, _)| switch),
            });
            self.builder.cables(edge.line, one, other, 1, edge.speed)?;
        }
        for HostEntry { line, name, home } in &self.hosts {
            let (switch, link) = home.expect("those of clusters have one, the others got it above");
            self.builder.host(*line, name, switch, link)?;
        }
        Ok(())
    }
}

/// Whether cables lead from the first end to the second.
fn leads([from, to]: [Point; 2], cables: impl Iterator<Item = Option<[Point; 2]>>) -> bool {
    let mut at = from;
    for cable in cables {
        match cable {
            Some([one, other]) if one == at => at = other,
            Some([one, other]) if other == at => at = one,
            _ => return false,
        }
    }
    at == to
}
