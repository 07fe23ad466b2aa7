//! `<cluster>`: flat, `FAT_TREE`, `TORUS`, `DRAGONFLY`.

use super::super::builder::plain;
use super::super::hostlist::{range, shown};
use super::super::{Cables, ImportError};
use super::units::{bandwidth, latency};
use super::{HostEntry, Platform, Point};
use crate::fat_tree::FatTree;
use crate::graph::{LinkClass, LinkSpeed, MAX_VERTICES, Topology, Vertex};
use crate::torus::{Torus, TorusParameters};
use roxmltree::Node;

impl Platform {
    pub(super) fn cluster(&mut self, node: Node<'_, '_>) -> Result<(), ImportError> {
        let line = self.line(node);
        let id = self.attribute(node, "id")?;
        let [prefix, suffix] = ["prefix", "suffix"].map(|name| node.attribute(name).unwrap_or_default());
        let speed = LinkSpeed {
            class: LinkClass::Switch,
            rate: Some(bandwidth(line, self.attribute(node, "bw")?)?),
            latency: Some(latency(line, self.attribute(node, "lat")?)?),
        };
        let names = self.names(line, self.attribute(node, "radical")?, prefix, suffix)?;
        let topology = node.attribute("topology").unwrap_or("FLAT").to_ascii_uppercase();
        if topology == "FLAT" {
            let router = node.attribute("router_id").map_or_else(|| format!("{prefix}{id}_router{suffix}"), str::to_owned);
            let switch = self.builder.switch(line, &router)?;
            self.point(node, &router, Point::Switch(switch))?;
            if node.attribute("bb_bw").is_some() {
                self.builder
                    .notes
                    .push(format!("The backbone of cluster {} is one switch, which limits nothing.", super::super::builder::word(id)));
            }
            let link = LinkSpeed { class: LinkClass::Host, ..speed };
            self.hosts.extend(names.into_iter().map(|name| HostEntry { line, name, home: Some((switch, link)) }));
            return Ok(());
        }
        let parameters = self.attribute(node, "topo_parameters")?;
        let hosts = names.len() as u64;
        let fits = |expected: u64| match expected == hosts {
            true => Ok(()),
            false => Err(format!("topo_parameters=\"{}\" make {expected} hosts, radical {hosts}; expected as many", shown(parameters))),
        };
        let wrong = |message: String| ImportError::new(line, message);
        let (homes, cables) = match topology.as_str() {
            "FAT_TREE" => fat_tree(parameters, fits),
            "TORUS" => torus(parameters, fits),
            "DRAGONFLY" => dragonfly(parameters, fits),
            other => Err(format!("topology=\"{}\"; expected FLAT, FAT_TREE, TORUS or DRAGONFLY", shown(other))),
        }
        .map_err(wrong)?;
        let switches = homes.iter().copied().chain(cables.iter().flat_map(|cables| cables.between)).max().map_or(0, |last| last + 1);
        let numbers = (0..switches).map(|at| self.builder.switch(line, &format!("{id}.{at}"))).collect::<Result<Vec<_>, _>>()?;
        for Cables { between: [one, other], speed: LinkSpeed { class, .. }, count } in cables {
            self.builder.cables(line, numbers[one as usize], numbers[other as usize], count, LinkSpeed { class, ..speed })?;
        }
        // In SimGrid's tori the hosts are the switches.
        let latency = speed.latency.filter(|_| topology != "TORUS");
        let link = LinkSpeed { class: LinkClass::Host, latency, ..speed };
        for (name, home) in names.into_iter().zip(homes) {
            let switch = numbers[home as usize];
            if topology == "TORUS" {
                self.point(node, &name, Point::Switch(switch))?;
            }
            self.hosts.push(HostEntry { line, name, home: Some((switch, link)) });
        }
        Ok(())
    }

    /// `radical="0-9,20"`
    fn names(&self, line: usize, radical: &str, prefix: &str, suffix: &str) -> Result<Vec<String>, ImportError> {
        let mut names = Vec::new();
        for text in radical.split(',') {
            let (first, last, _) = range(text.trim()).map_err(|message| ImportError::new(line, format!("radical: {message}")))?;
            if self.hosts.len() as u64 + names.len() as u64 + (last - first) >= MAX_VERTICES || prefix.len() + suffix.len() > 200 {
                return Err(ImportError::new(line, format!("more than {MAX_VERTICES} hosts, or more than 200 characters of a name")));
            }
            names.extend((first..=last).map(|number| format!("{prefix}{number}{suffix}")));
        }
        Ok(names)
    }
}

/// The most levels, dimensions.
const LIST_MAX: usize = 16;

/// The switch of every host, and the cables between switches.
type Wiring = (Vec<u32>, Vec<Cables>);

fn numbers(text: &str, what: &str) -> Result<Vec<u32>, String> {
    let number = |word: &str| word.trim().parse::<u32>().ok().filter(|number| (1..=1 << 16).contains(number));
    let found = text.split(',').take(LIST_MAX + 1).map(number).collect::<Option<Vec<_>>>().filter(|found| found.len() <= LIST_MAX);
    found.ok_or_else(|| format!("topo_parameters: found `{}`; expected {what}", shown(text)))
}

fn product(numbers: &[u32]) -> u64 {
    numbers.iter().map(|&number| u64::from(number)).fold(1, u64::saturating_mul)
}

/// `levels;children;parents;cables`, hosts first.
fn fat_tree(parameters: &str, fits: impl Fn(u64) -> Result<(), String>) -> Result<Wiring, String> {
    let expected = "LEVELS;CHILDREN,...;PARENTS,...;CABLES,...";
    let parts = parameters.split(';').map(|part| numbers(part, expected)).collect::<Result<Vec<_>, _>>()?;
    let [levels, children, parents, cables] = parts.as_slice() else {
        return Err(format!("topo_parameters=\"{}\"; expected {expected}", shown(parameters)));
    };
    let levels = levels[0] as usize;
    if [children, parents, cables].iter().any(|part| part.len() != levels) {
        return Err(format!("topo_parameters=\"{}\"; expected {levels} numbers in each part, as there are levels", shown(parameters)));
    }
    if parents[0] != 1 || cables[0] != 1 {
        return Err(format!("topo_parameters=\"{}\": hosts with several cables; expected one of each host", shown(parameters)));
    }
    fits(product(children))?;
    let tree = FatTree::pgft(children, parents, cables).map_err(|error| error.to_string())?;
    let up = |level| u64::from(tree.switches(level)) * u64::from(tree.parents(level + 1)) * u64::from(tree.cables(level + 1));
    links_fit((1..levels).map(up).sum())?;
    Ok(wiring(&tree.build()))
}

/// `X,Y,Z`
fn torus(parameters: &str, fits: impl Fn(u64) -> Result<(), String>) -> Result<Wiring, String> {
    let lengths = numbers(parameters, "the lengths of the dimensions, such as 4,4,2")?;
    fits(product(&lengths))?;
    let parameters = TorusParameters { lengths, wrap: true, board: 1, hosts_per_switch: 1, cables: 1, hosts: None };
    Ok(wiring(&Torus::new(parameters).map_err(|error| error.to_string())?.build()))
}

/// `GROUPS,BLUE;CHASSIS,BLACK;ROUTERS,GREEN;NODES`: the routers of a chassis are a full mesh of green links; those of
/// one number in all chassis of a group, of black ones; router j of group i has blue ones to router i of group j. Each
/// connection has as many cables as the second number says.
fn dragonfly(parameters: &str, fits: impl Fn(u64) -> Result<(), String>) -> Result<Wiring, String> {
    let expected = "GROUPS,LINKS;CHASSIS,LINKS;ROUTERS,LINKS;NODES";
    let parts = parameters.split(';').map(|part| numbers(part, expected)).collect::<Result<Vec<_>, _>>()?;
    let parts: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
    let &[&[groups, blue], &[chassis, black], &[routers, green], &[nodes]] = parts.as_slice() else {
        return Err(format!("topo_parameters=\"{}\"; expected {expected}", shown(parameters)));
    };
    fits(product(&[groups, chassis, routers, nodes]))?;
    let group = chassis * routers;
    if groups > group {
        return Err(format!("topo_parameters: {groups} groups of {group} routers; expected at least as many routers in a group"));
    }
    let pairs = u64::from(groups) * u64::from(group) * (u64::from(routers) + u64::from(chassis)) / 2;
    links_fit(pairs + u64::from(groups) * u64::from(groups) / 2)?;
    let mut cables = Vec::new();
    let mut join = |one: u32, other: u32, count: u32, class| {
        cables.push(Cables { between: [one, other], speed: plain(class), count });
    };
    for (base, chassis_at) in (0..groups).flat_map(|at| (0..chassis).map(move |chassis_at| (at * group, chassis_at))) {
        for router in 0..routers {
            let here = base + chassis_at * routers + router;
            (router + 1..routers).for_each(|other| join(here, base + chassis_at * routers + other, green, LinkClass::Switch));
            (chassis_at + 1..chassis).for_each(|other| join(here, base + other * routers + router, black, LinkClass::Switch));
        }
    }
    for one in 0..groups {
        (one + 1..groups).for_each(|other| join(one * group + other, other * group + one, blue, LinkClass::Global));
    }
    Ok(((0..groups * group * nodes).map(|host| host / nodes).collect(), cables))
}

/// Before they are listed.
fn links_fit(links: u64) -> Result<(), String> {
    if links > MAX_VERTICES { Err(format!("{links} links; expected at most {MAX_VERTICES}")) } else { Ok(()) }
}

fn wiring(topology: &Topology) -> Wiring {
    let homes = (0..topology.hosts()).map(|host| topology.switch_of(host)).collect();
    let cables = topology.links().iter().enumerate().filter_map(|(at, link)| match (link.from, link.to) {
        (Vertex::Switch(one), Vertex::Switch(other)) if (at as u32) < link.reverse => {
            Some(Cables { between: [one, other], speed: plain(link.class), count: 1 })
        }
        _ => None,
    });
    (homes, cables.collect())
}
