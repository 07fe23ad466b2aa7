//! Any graph from a text file.
//!
//! One statement per line; `#` begins a comment. Names are any words without blanks.
//!
//! ```text
//! # Three switches in a row, two cables between the first two.
//! switch left                # optional: gives a number before the first mention
//! host a left                # host NAME SWITCH
//! hosts right 4              # hosts SWITCH COUNT: without names
//! link left middle x2        # link SWITCH SWITCH [xCABLES] [global] [bandwidth=RATE] [latency=TIME]
//! link middle right global   # with the rate and latency of [link.global]
//! link right left bandwidth=25Gbit/s latency=1us      # with its own
//! route left right middle    # optional: from left to right, go to middle first
//! ```
//!
//! Hosts are numbered in the order of the file, and so are switches by their first mention. Ways are shortest ones, but
//! for those that `route` gives.

use crate::graph::{GraphBuilder, GraphError, LinkClass, LinkSpeed, MAX_VERTICES, Shape, Topology, Vertex};
use crate::table::Table;
use narrows_units::{ByteRate, SimTime};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// As for the links of a machine file.
pub(crate) const RATES: RangeInclusive<ByteRate> = ByteRate(1_000_000)..=ByteRate(100_000_000_000_000);
pub(crate) const LATENCIES: RangeInclusive<SimTime> = SimTime::ZERO..=SimTime::from_us(1_000_000);

/// What is wrong with a graph file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct GraphFileError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what was expected.
    pub message: String,
}

/// A statement's words, each with its place.
#[derive(Clone)]
struct Words<'a> {
    line: usize,
    words: Vec<(usize, &'a str)>,
    /// The column behind the last word.
    end: usize,
}

impl<'a> Words<'a> {
    fn new(line: usize, text: &'a str) -> Words<'a> {
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let column = |word: &str| text[..word.as_ptr() as usize - text.as_ptr() as usize].chars().count() + 1;
        let words = text.split_whitespace().map(|word| (column(word), word)).collect();
        Words { line, words, end: text.trim_end().chars().count() + 1 }
    }

    fn error(&self, at: usize, message: impl Into<String>) -> GraphFileError {
        let column = self.words.get(at).map_or(self.end, |&(column, _)| column);
        GraphFileError { line: self.line, column, message: message.into() }
    }

    fn word(&self, at: usize, what: &str) -> Result<&'a str, GraphFileError> {
        self.words.get(at).map(|&(_, word)| word).ok_or_else(|| self.error(at, format!("expected {what}")))
    }

    fn end_at(&self, at: usize) -> Result<(), GraphFileError> {
        match self.words.get(at) {
            Some((_, word)) => Err(self.error(at, format!("unexpected `{word}`"))),
            None => Ok(()),
        }
    }
}

/// Switches by name.
#[derive(Default)]
struct Names<'a> {
    numbers: BTreeMap<&'a str, u32>,
    all: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.all.push(name);
        }
        number
    }
}

/// The topology that a file's text describes, named `name`. `hosts`: only the first so many.
///
/// # Errors
/// [`GraphFileError`], with the place.
pub fn parse(name: &str, text: &str, hosts: Option<u32>) -> Result<Topology, GraphFileError> {
    let mut switches = Names::default();
    let mut host_names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut homes: Vec<u32> = Vec::new();
    let mut links: Vec<(u32, u32, u32, LinkSpeed)> = Vec::new();
    let mut routes: Vec<(Words<'_>, [u32; 3])> = Vec::new();
    let mut last_line = 1;
    for (index, text) in text.lines().enumerate() {
        let words = Words::new(index + 1, text);
        last_line = index + 1;
        let Some(&(_, statement)) = words.words.first() else { continue };
        match statement {
            "switch" => {
                switches.number(words.word(1, "the name of a switch")?);
                words.end_at(2)?;
            }
            "host" => {
                let name = words.word(1, "the name of a host")?;
                let home = switches.number(words.word(2, "the switch of the host")?);
                if let Some(line) = host_names.insert(name, words.line) {
                    return Err(words.error(1, format!("there is a host `{name}` already, in line {line}; a host has one link")));
                }
                homes.push(home);
                words.end_at(3)?;
            }
            "hosts" => {
                let home = switches.number(words.word(1, "the switch of the hosts")?);
                let count = number(&words, 2, "the number of hosts", 1 << 16)?;
                homes.extend(std::iter::repeat_n(home, count as usize));
                words.end_at(3)?;
            }
            "link" => {
                let one = switches.number(words.word(1, "a switch")?);
                let other = switches.number(words.word(2, "the switch at the other end")?);
                if one == other {
                    return Err(words.error(2, "a link from a switch to itself; expected another switch"));
                }
                let mut cables = 1;
                let mut speed = LinkSpeed { class: LinkClass::Switch, rate: None, latency: None };
                for at in 3..words.words.len() {
                    let word = words.words[at].1;
                    if word == "global" {
                        speed.class = LinkClass::Global;
                    } else if let Some(text) = word.strip_prefix("bandwidth=") {
                        speed.rate = Some(quantity(&words, at, text, RATES)?);
                    } else if let Some(text) = word.strip_prefix("latency=") {
                        speed.latency = Some(quantity(&words, at, text, LATENCIES)?);
                    } else {
                        match word.strip_prefix('x').and_then(|count| count.parse::<u32>().ok()) {
                            Some(count) if (1..=1 << 10).contains(&count) => cables = count,
                            _ => {
                                let expected = "x1 to x1024, `global`, bandwidth=RATE or latency=TIME, without blanks";
                                return Err(words.error(at, format!("unexpected `{word}`; expected {expected}")));
                            }
                        }
                    }
                }
                links.push((one, other, cables, speed));
            }
            "route" => {
                let mut ends = [0; 3];
                for (at, what) in
                    ["the switch where a packet is", "the switch where it goes", "the neighbour that it goes to"].iter().enumerate()
                {
                    let name = words.word(at + 1, what)?;
                    ends[at] = *switches.numbers.get(name).ok_or_else(|| words.error(at + 1, format!("no switch `{name}` so far")))?;
                }
                words.end_at(4)?;
                if ends[0] == ends[1] {
                    return Err(words.error(2, "a route from a switch to itself; expected another switch"));
                }
                routes.push((words.clone(), ends));
            }
            other => {
                return Err(words.error(0, format!("unknown statement `{other}`; expected switch, host, hosts, link or route")));
            }
        }
        if switches.all.len() as u64 + homes.len() as u64 >= MAX_VERTICES || links.len() as u64 > MAX_VERTICES {
            return Err(words.error(0, format!("more than {MAX_VERTICES} hosts, switches or links")));
        }
    }
    let whole = |message: String| GraphFileError { line: last_line, column: 1, message };
    if homes.is_empty() {
        return Err(whole("no hosts; expected lines like `host NAME SWITCH` or `hosts SWITCH COUNT`".to_owned()));
    }
    let places = homes.len();
    if let Some(asked) = hosts {
        if asked == 0 || asked as usize > places {
            return Err(whole(format!("{asked} hosts asked for (node.count, --nodes); the file has {places}")));
        }
        homes.truncate(asked as usize);
    }
    let mut graph = GraphBuilder::new(homes.len() as u32, switches.all.len() as u32);
    graph.groups(|switch| switch);
    graph.names(switches.all.iter().map(|&name| name.to_owned()).collect());
    for (host, &home) in homes.iter().enumerate() {
        graph.cable(Vertex::Host(host as u32), Vertex::Switch(home));
    }
    for &(one, other, cables, speed) in &links {
        (0..cables).for_each(|_| graph.switch_cable(one, other, speed));
    }
    let mut topology = graph.build(name.to_owned(), Shape::Table(Table::default())).map_err(|error| match error {
        GraphError::TooManyPorts { switch } => {
            whole(format!("switch `{}` has more than {} links", switches.all[switch as usize], u16::MAX))
        }
        other => whole(other.to_string()),
    })?;
    let mut fixed = Vec::new();
    for (words, [from, to, next]) in &routes {
        let port = topology.outputs(*from).position(|link| topology.links()[link as usize].to == Vertex::Switch(*next));
        let Some(port) = port else {
            let (from, next) = (switches.all[*from as usize], switches.all[*next as usize]);
            return Err(words.error(3, format!("`{next}` is no neighbour of `{from}`")));
        };
        fixed.push((*from, *to, port as u16));
    }
    let table = Table::new(&topology, |_| false, None, false, &fixed).map_err(|cut| {
        let (from, to) = (switches.all[cut.from as usize], switches.all[cut.to as usize]);
        let why = if fixed.is_empty() { "" } else { ", or routes that lead around in a ring" };
        whole(format!("no way from switch `{from}` to switch `{to}`: a link is missing{why}"))
    })?;
    topology.set_shape(Shape::Table(table));
    Ok(topology)
}

fn number(words: &Words<'_>, at: usize, what: &str, most: u32) -> Result<u32, GraphFileError> {
    let word = words.word(at, what)?;
    match word.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(words.error(at, format!("found `{word}`; expected {what}, 1 to {most}"))),
    }
}

/// The quantity of word `at`, which ends in `text`.
fn quantity<T>(words: &Words<'_>, at: usize, text: &str, range: RangeInclusive<T>) -> Result<T, GraphFileError>
where
    T: FromStr<Err: Display> + PartialOrd + Display,
{
    let value: T = text.parse().map_err(|error: T::Err| words.error(at, error.to_string()))?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(words.error(at, format!("found `{text}`; expected {} to {}", range.start(), range.end())))
}
