//! Slurm's `topology.conf` for topology/tree: switches with the switches and nodes below them.
//!
//! Source: the manual page topology.conf(5) and the topology guide of Slurm. Keys are read in any case, `#` begins a
//! comment, `\` at the end of a line continues it. `LinkSpeed` is optional and not used, there as here.

use super::builder::{Builder, plain};
use super::hostlist::{expand, shown};
use super::{Format, ImportError, Network};
use crate::graph::LinkClass;
use std::collections::BTreeSet;

/// A `SwitchName=` line.
#[derive(Default)]
struct SwitchLine {
    line: usize,
    number: u32,
    switches: Option<String>,
    nodes: Option<String>,
}

/// The network of a file's text.
///
/// # Errors
/// [`ImportError`], with the line.
pub fn read(text: &str) -> Result<Network, ImportError> {
    let mut builder = Builder::default();
    let mut found: Vec<SwitchLine> = Vec::new();
    let mut speeds = false;
    let mut last_line = 1;
    for (line, text) in statements(text) {
        last_line = line;
        let mut entry = SwitchLine { line, ..SwitchLine::default() };
        let mut name = None;
        for (key, value) in assignments(line, &text)? {
            let place = match key.to_ascii_lowercase().as_str() {
                "switchname" => &mut name,
                "switches" => &mut entry.switches,
                "nodes" => &mut entry.nodes,
                "linkspeed" => {
                    speeds = true;
                    continue;
                }
                "blockname" | "blocksizes" => {
                    let why = "blocks (topology/block) do not say how switches are connected; expected SwitchName= lines (topology/tree)";
                    return Err(ImportError::new(line, format!("`{key}`: {why}")));
                }
                "include" => return Err(ImportError::new(line, "`Include`: expected the lines of that file in its place")),
                _ => {
                    let message = format!("unknown key `{}`; expected SwitchName, Switches, Nodes or LinkSpeed", shown(&key));
                    return Err(ImportError::new(line, message));
                }
            };
            if place.replace(value).is_some() {
                return Err(ImportError::new(line, format!("`{key}` twice in a line; expected it once")));
            }
        }
        let Some(name) = name else {
            return Err(ImportError::new(line, "expected SwitchName=NAME, then Switches= or Nodes="));
        };
        if builder.has_switch(&name).is_some() {
            return Err(ImportError::new(
                line,
                format!("a second line of switch `{}`; expected one with all that is below it", shown(&name)),
            ));
        }
        if entry.switches.is_none() && entry.nodes.is_none() {
            return Err(ImportError::new(line, format!("nothing below switch `{}`; expected Switches= or Nodes=", shown(&name))));
        }
        entry.number = builder.switch(line, &name)?;
        found.push(entry);
    }
    let mut seen = BTreeSet::new();
    for entry in &found {
        if let Some(nodes) = &entry.nodes {
            expand(entry.line, nodes, |node| builder.host(entry.line, node, entry.number, plain(LinkClass::Host)))?;
        }
        let Some(switches) = &entry.switches else { continue };
        let mut below = BTreeSet::new();
        expand(entry.line, switches, |name| {
            let Some(other) = builder.has_switch(name) else {
                return Err(ImportError::new(entry.line, format!("switch `{}` has no line of its own", shown(name))));
            };
            if !below.insert(other) {
                return Err(ImportError::new(entry.line, format!("switch `{}` twice; expected it once", shown(name))));
            }
            // Both ends may name each other.
            match seen.insert((entry.number.min(other), entry.number.max(other))) {
                true => builder.cables(entry.line, other, entry.number, 1, plain(LinkClass::Switch)),
                false => Ok(()),
            }
        })?;
    }
    if speeds {
        builder.notes.push("Not used, as in Slurm: LinkSpeed. The rate of links is that of the machine file.".to_owned());
    }
    if !seen.is_empty() {
        let advice = "\"link A B x6\" has six, \"link A B bandwidth=400Gbit/s\" another rate.";
        builder.notes.push(format!("Slurm does not tell cables, so there is one between two switches: {advice}"));
    }
    builder.finish(Format::Slurm, last_line)
}

/// The lines without comments, continued ones joined, each with the number of its first one.
fn statements(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (at, first) = lines.next()?;
        let mut whole = String::new();
        let mut next = Some(first);
        while let Some(line) = next {
            let line = line.split_once('#').map_or(line, |(before, _)| before).trim_end();
            let continued = line.strip_suffix('\\');
            whole.push_str(continued.unwrap_or(line));
            next = continued.and_then(|_| lines.next()).map(|(_, line)| line);
        }
        Some((at + 1, whole))
    })
    .filter(|(_, text)| !text.trim().is_empty())
}

/// `Key=value Key = "value"`
fn assignments(line: usize, text: &str) -> Result<Vec<(String, String)>, ImportError> {
    let mut rest = text.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let value = behind.trim_start().strip_prefix('=').map(str::trim_start);
        let Some(value) = value.filter(|_| !key.is_empty()) else {
            let lonely = if key.eq_ignore_ascii_case("include") { "`Include`: expected the lines of that file in its place" } else { "" };
            let message = format!("found `{}`; expected KEY=VALUE, such as SwitchName=s0 Nodes=tux[0-3]", shown(rest));
            return Err(ImportError::new(line, if lonely.is_empty() { message } else { lonely.to_owned() }));
        };
        let (value, behind) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(|| ImportError::new(line, "a quote is missing"))?,
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        found.push((key.to_owned(), value.to_owned()));
        rest = behind.trim_start();
    }
    Ok(found)
}
