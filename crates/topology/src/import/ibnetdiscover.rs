//! InfiniBand's `ibnetdiscover`: records of switches, adapters and routers, each port with the port at the other end.
//!
//! ```text
//! Switch  36 "S-0002c903"   # "MF0;leaf1:SX6036/U1" enhanced port 0 lid 4 lmc 0
//! [1]     "S-0002c904"[17]                # "MF0;spine1:SX6036/U1" lid 2 4xFDR
//! [2]     "H-f4521403"[1](f4521404)       # "node01 HCA-1" lid 9 4xFDR
//! ```
//!
//! Source: the manual page ibnetdiscover(8) and rdma-core, `infiniband-diags/ibnetdiscover.c`. A cable stands in the
//! records of both of its ends, or of one. Data rates of a lane: IBTA specification; SDR, DDR and QDR without the
//! 8b/10b coding, FDR without 64b/66b, from EDR on as they are called.

use super::builder::{Builder, plain, word};
use super::hostlist::shown;
use super::{Format, ImportError, Network};
use crate::graph::{LinkClass, LinkSpeed, MAX_VERTICES};
use narrows_units::ByteRate;
use std::collections::{BTreeMap, BTreeSet};

/// Data rates of a lane, in bit/s.
const LANES: [(&str, u64); 9] = [
    ("SDR", 2_000_000_000),
    ("DDR", 4_000_000_000),
    ("QDR", 8_000_000_000),
    ("FDR10", 10_000_000_000),
    ("FDR", 13_636_363_636),
    ("EDR", 25_000_000_000),
    ("HDR", 50_000_000_000),
    ("NDR", 100_000_000_000),
    ("XDR", 200_000_000_000),
];

/// What firmware calls itself before the host has given a name.
const NAMELESS: [&str; 2] = ["localhost", "(none)"];

/// A node of the fabric: a switch, an adapter or a router.
#[derive(Default)]
struct Node {
    /// `S-...`, `H-...`, `R-...`
    guid: String,
    description: String,
    /// The line of its record.
    record: Option<usize>,
}

struct Cable {
    line: usize,
    ends: [(usize, u32); 2],
    rate: Option<ByteRate>,
}

#[derive(Default)]
struct Fabric {
    numbers: BTreeMap<String, usize>,
    nodes: Vec<Node>,
    cables: Vec<Cable>,
    /// The cable in each port.
    ports: BTreeMap<(usize, u32), usize>,
}

impl Fabric {
    fn node(&mut self, line: usize, guid: &str) -> Result<usize, ImportError> {
        if let Some(&number) = self.numbers.get(guid) {
            return Ok(number);
        }
        if !["S-", "H-", "R-"].iter().any(|kind| guid.starts_with(kind)) {
            let message = format!("found \"{}\"; expected \"S-...\" (switch), \"H-...\" (adapter) or \"R-...\" (router)", shown(guid));
            return Err(ImportError::new(line, message));
        }
        if self.nodes.len() as u64 >= MAX_VERTICES {
            return Err(ImportError::new(line, format!("more than {MAX_VERTICES} nodes")));
        }
        self.numbers.insert(guid.to_owned(), self.nodes.len());
        self.nodes.push(Node { guid: guid.to_owned(), ..Node::default() });
        Ok(self.nodes.len() - 1)
    }

    fn is_switch(&self, node: usize) -> bool {
        self.nodes[node].guid.starts_with('S')
    }

    /// A port line of `here`.
    fn port(&mut self, line: usize, here: usize, text: &str) -> Result<(), ImportError> {
        let wrong = || {
            let message = format!("found `{}`; expected a port such as [1] \"S-0002c904\"[17] # \"spine1\" lid 2 4xEDR", shown(text));
            ImportError::new(line, message)
        };
        // [1][ext 2](guid) "S-..."[17][ext 3](guid) # ...
        let (port, rest) = bracket(text).ok_or_else(wrong)?;
        let (_, rest) = rest.split_once('"').ok_or_else(wrong)?;
        let (guid, rest) = rest.split_once('"').ok_or_else(wrong)?;
        let (other_port, rest) = bracket(rest).ok_or_else(wrong)?;
        let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
        let other = self.node(line, guid)?;
        if self.nodes[other].description.is_empty()
            && let Some((_, described)) = comment.split_once('"')
        {
            self.nodes[other].description = described.rsplit_once('"').map_or(described, |(name, _)| name).to_owned();
        }
        let rate = rate(line, comment.rsplit_once('"').map_or(comment, |(_, behind)| behind))?;
        let ends = [(here, port), (other, other_port)];
        let known = ends.map(|end| self.ports.get(&end).copied());
        match known {
            [None, None] => {
                self.ports.extend(ends.map(|end| (end, self.cables.len())));
                self.cables.push(Cable { line, ends, rate });
            }
            [Some(at), Some(same)] if at == same => {
                // The slower end decides, should they disagree.
                let cable = &mut self.cables[at];
                cable.rate = cable.rate.into_iter().chain(rate).min();
            }
            _ => {
                let (at, (node, port)) = if let Some(at) = known[0] { (at, ends[0]) } else { (known[1].unwrap_or(0), ends[1]) };
                let guid = &self.nodes[node].guid;
                let message =
                    format!("port {port} of \"{guid}\" has another cable in line {}; expected one per port", self.cables[at].line);
                return Err(ImportError::new(line, message));
            }
        }
        Ok(())
    }
}

/// The network of a file's text. `adapter`: of hosts with several, the one of this name.
///
/// # Errors
/// [`ImportError`], with the line.
pub fn read(text: &str, adapter: Option<&str>) -> Result<Network, ImportError> {
    let mut fabric = Fabric::default();
    let mut here = None;
    let mut last_line = 1;
    for (index, text) in text.lines().enumerate() {
        let (line, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        last_line = line;
        let first = text.split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
        match first {
            "Switch" | "Ca" | "Rt" => {
                let named = text.split_once('"').and_then(|(_, rest)| rest.split_once('"'));
                let Some((guid, rest)) = named else {
                    let message = format!("found `{}`; expected a record such as {first} 36 \"S-0002c903\" # \"leaf1\"", shown(text));
                    return Err(ImportError::new(line, message));
                };
                let node = fabric.node(line, guid)?;
                if let Some((name, _)) = rest.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')) {
                    fabric.nodes[node].description = name.to_owned();
                }
                fabric.nodes[node].record.get_or_insert(line);
                here = Some(node);
            }
            _ if text.starts_with('[') => {
                let node = here.ok_or_else(|| ImportError::new(line, "a port before the first Switch, Ca or Rt"))?;
                fabric.port(line, node, text)?;
            }
            // Lines about the node that follows, headings of `-g`, and what the tool writes to standard error.
            "vendid" | "devid" | "sysimgguid" | "switchguid" | "caguid" | "rtguid" | "Chassis" | "Non-Chassis" | "ibwarn:" => {}
            _ => {
                let message =
                    format!("found `{}`; expected Switch, Ca, Rt or a port, as ibnetdiscover prints them without -p or -l", shown(text));
                return Err(ImportError::new(line, message));
            }
        }
    }
    build(&fabric, adapter, last_line)
}

fn build(fabric: &Fabric, adapter: Option<&str>, last_line: usize) -> Result<Network, ImportError> {
    let mut builder = Builder::default();
    let names = switch_names(&fabric.nodes);
    let mut in_order: Vec<usize> = (0..names.len()).filter(|&node| fabric.is_switch(node)).collect();
    in_order.sort_by_key(|&node| fabric.nodes[node].record.unwrap_or(usize::MAX));
    let mut switches = BTreeMap::new();
    for node in in_order {
        switches.insert(node, builder.switch(last_line, &names[node])?);
    }
    // Of each host the port that it has here: its adapter's name, its node and port.
    let mut homes: BTreeMap<String, BTreeSet<(String, u32)>> = BTreeMap::new();
    let (mut further, mut routers, mut aggregation) = (0, 0, 0);
    for cable in &fabric.cables {
        let line = cable.line;
        let speed = |class| LinkSpeed { rate: cable.rate, ..plain(class) };
        let (switch, (node, port)) = match cable.ends.map(|(node, _)| switches.get(&node).copied()) {
            [Some(one), Some(other)] => {
                // Some switches have cables to themselves, to test them.
                if one != other {
                    builder.cables(line, one, other, 1, speed(LinkClass::Switch))?;
                }
                continue;
            }
            [Some(switch), None] => (switch, cable.ends[1]),
            [None, Some(switch)] => (switch, cable.ends[0]),
            [None, None] => {
                return Err(ImportError::new(line, "a cable from adapter to adapter; expected a switch at one end"));
            }
        };
        let node = &fabric.nodes[node];
        if node.guid.starts_with('R') {
            routers += 1;
            continue;
        }
        // SHARP's nodes stand in the switches themselves.
        if node.description.contains("Aggregation Node") {
            aggregation += 1;
            continue;
        }
        let (mut host, hca) = host_name(node);
        if adapter.is_some_and(|name| name != hca) {
            further += 1;
            continue;
        }
        let ports = homes.entry(host.clone()).or_default();
        if ports.contains(&(hca.clone(), port)) {
            // Two computers with one name.
            host = format!("{host}.{}", node.guid);
        } else if !ports.is_empty() {
            ports.insert((hca, port));
            further += 1;
            continue;
        }
        homes.entry(host.clone()).or_default().insert((hca, port));
        builder.host(line, &host, switch, speed(LinkClass::Host))?;
    }
    let mut left_out = |count: u32, what: &str| {
        if count > 0 {
            builder.notes.push(format!("Left out: {count} {what}."));
        }
    };
    left_out(further, "further ports of hosts: a host has one in a graph file, --adapter chooses which");
    left_out(routers, "ports of routers");
    left_out(aggregation, "aggregation nodes");
    if let (Some(adapter), true) = (adapter, homes.is_empty()) {
        return Err(ImportError::new(
            last_line,
            format!("no host has an adapter called `{}`; expected one such as mlx5_0", shown(adapter)),
        ));
    }
    builder.finish(Format::Ibnetdiscover, last_line)
}

/// The name of a host and that of its adapter: `node01 HCA-1`, `node01 mlx5_0`. Where nobody gave a name, the GUID.
fn host_name(node: &Node) -> (String, String) {
    let mut words = node.description.split_whitespace();
    match (words.next(), words.next()) {
        (Some(host), Some(hca)) if (hca.starts_with("HCA") || hca.contains('_')) && !NAMELESS.contains(&host) => {
            (word(host), hca.to_owned())
        }
        (Some(host), None) if !NAMELESS.contains(&host) => (word(host), String::new()),
        _ => (node.guid.clone(), String::new()),
    }
}

/// The shortest of name, whole description and GUID that no other switch has: `leaf1` of `MF0;leaf1:SX6036/U1`.
fn switch_names(nodes: &[Node]) -> Vec<String> {
    let short = |node: &Node| {
        let text = node.description.as_str();
        let text = text.split_once(';').filter(|(kind, _)| kind.starts_with("MF")).map_or(text, |(_, name)| name);
        word(text.split_once(':').map_or(text, |(name, _)| name))
    };
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.guid.starts_with('S')) {
        BTreeSet::from([short(node), word(&node.description)]).into_iter().for_each(|name| *count.entry(name).or_default() += 1);
    }
    let unique = |name: &String| count.get(name) == Some(&1) && name.starts_with(|c: char| c.is_alphabetic());
    nodes.iter().map(|node| [short(node), word(&node.description)].into_iter().find(unique).unwrap_or_else(|| node.guid.clone())).collect()
}

/// `[17]rest`
fn bracket(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((number.trim().parse().ok()?, rest))
}

/// `4xEDR` among the words of `text`.
fn rate(line: usize, text: &str) -> Result<Option<ByteRate>, ImportError> {
    for word in text.split_whitespace() {
        let Some((Ok(width), speed)) = word.split_once('x').map(|(width, speed)| (width.parse::<u64>(), speed)) else { continue };
        if !speed.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue;
        }
        let lane = LANES.iter().find(|(name, _)| *name == speed).filter(|_| (1..=12).contains(&width));
        let Some((_, bits)) = lane else {
            let names = LANES.map(|(name, _)| name).join(", ");
            return Err(ImportError::new(
                line,
                format!("found `{}`; expected a width and a speed, such as 4xEDR, of {names}", shown(word)),
            ));
        };
        return Ok(Some(ByteRate(width * bits / 8)));
    }
    Ok(None)
}
