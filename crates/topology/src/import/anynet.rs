//! BookSim's anynet files: `router 0 node 0 node 1 router 1 15`, from 0 to the nodes 0 and 1 and, with a latency of 15
//! cycles, to router 1.
//!
//! Source: `src/networks/anynet.cpp` of BookSim2. A link between routers leads both ways, whichever line has it; a
//! latency left out is one cycle; nodes count from 0 without gaps, and keep their numbers here.

use super::builder::{Builder, plain};
use super::hostlist::shown;
use super::{Format, ImportError, Network};
use crate::graph::{LinkClass, LinkSpeed, MAX_VERTICES};
use narrows_units::SimTime;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Router(u32),
    Node(u32),
}

/// What a line of the file gives for a link.
#[derive(Clone, Copy)]
struct Given {
    line: usize,
    /// In cycles.
    latency: Option<u64>,
}

/// The network of a file's text, whose cycles are so long.
///
/// # Errors
/// [`ImportError`], with the line.
pub fn read(text: &str, cycle: SimTime) -> Result<Network, ImportError> {
    let mut routers: BTreeSet<u32> = BTreeSet::new();
    let mut nodes: BTreeMap<u32, (u32, Given)> = BTreeMap::new();
    let mut links: BTreeMap<(u32, u32), Given> = BTreeMap::new();
    let mut last_line = 1;
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let mut words = text.split_once('#').map_or(text, |(before, _)| before).split_whitespace().peekable();
        let Some(head) = words.next() else { continue };
        last_line = line;
        let head = end(line, head, words.next())?;
        while let Some(word) = words.next() {
            let body = end(line, word, words.next())?;
            let latency = words.next_if(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
            let latency = latency.map(|word| number(line, word, "a latency in cycles")).transpose()?.map(u64::from);
            let given = Given { line, latency };
            match (head, body) {
                (End::Router(one), End::Router(other)) if one == other => {
                    return Err(ImportError::new(line, format!("a link from router {one} to itself; expected another router")));
                }
                (End::Router(one), End::Router(other)) => {
                    let known = links.entry((one.min(other), one.max(other))).or_insert(given);
                    known.latency = known.latency.max(latency);
                    routers.extend([one, other]);
                }
                (End::Router(router), End::Node(node)) | (End::Node(node), End::Router(router)) => {
                    let (home, first) = *nodes.entry(node).or_insert((router, given));
                    if home != router {
                        let message = format!("node {node} on router {router}, and on router {home} in line {}", first.line);
                        return Err(ImportError::new(line, format!("{message}; expected each node on one router")));
                    }
                    routers.insert(router);
                }
                (End::Node(_), End::Node(_)) => {
                    return Err(ImportError::new(line, "a link from node to node; expected a router at one end"));
                }
            }
        }
        if let End::Router(router) = head {
            routers.insert(router);
        }
        if (routers.len() + nodes.len()) as u64 >= MAX_VERTICES || links.len() as u64 > MAX_VERTICES {
            return Err(ImportError::new(line, format!("more than {MAX_VERTICES} routers, nodes or links")));
        }
    }
    if let Some((missing, _)) = (0u32..).zip(nodes.keys()).find(|(expected, node)| expected != *node) {
        return Err(ImportError::new(last_line, format!("there is no node {missing}; expected nodes from 0 without gaps")));
    }
    // Where no link says a latency, those of the machine file hold.
    let any = links.values().chain(nodes.values().map(|(_, given)| given)).any(|given| given.latency.is_some());
    let speed = |class, given: Given| -> Result<LinkSpeed, ImportError> {
        let latency =
            match any {
                true => Some(SimTime(given.latency.unwrap_or(1).checked_mul(cycle.as_ps()).ok_or_else(|| {
                    ImportError::new(given.line, format!("a latency of {} cycles is too long", given.latency.unwrap_or(1)))
                })?)),
                false => None,
            };
        Ok(LinkSpeed { latency, ..plain(class) })
    };
    let mut builder = Builder::default();
    for router in &routers {
        builder.switch(last_line, &format!("router{router}"))?;
    }
    let place = |builder: &mut Builder, router: u32, line| builder.switch(line, &format!("router{router}"));
    for (node, (router, given)) in &nodes {
        let home = place(&mut builder, *router, given.line)?;
        builder.host(given.line, &format!("node{node}"), home, speed(LinkClass::Host, *given)?)?;
    }
    for ((one, other), given) in &links {
        let ends = [place(&mut builder, *one, given.line)?, place(&mut builder, *other, given.line)?];
        builder.cables(given.line, ends[0], ends[1], 1, speed(LinkClass::Switch, *given)?)?;
    }
    if any {
        builder.notes.push(format!("A cycle is {} here; --cycle gives another time.", super::exact_time(cycle)));
    }
    builder.finish(Format::Anynet, last_line)
}

fn end(line: usize, word: &str, number_word: Option<&str>) -> Result<End, ImportError> {
    let make = match word {
        "router" => End::Router,
        "node" => End::Node,
        _ => return Err(ImportError::new(line, format!("found `{}`; expected `router` or `node` and a number", shown(word)))),
    };
    let Some(text) = number_word else {
        return Err(ImportError::new(line, format!("a number is missing behind `{word}`")));
    };
    Ok(make(number(line, text, "a number")?))
}

fn number(line: usize, text: &str, what: &str) -> Result<u32, ImportError> {
    match text.parse::<u32>() {
        Ok(number) if u64::from(number) < MAX_VERTICES => Ok(number),
        _ => Err(ImportError::new(line, format!("found `{}`; expected {what} below {MAX_VERTICES}", shown(text)))),
    }
}
