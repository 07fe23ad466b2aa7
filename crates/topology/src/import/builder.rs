//! What readers put a network together with: names that graph files can hold, bounds, parallel cables.

use super::{Cables, Format, Host, ImportError, Network};
use crate::graph::{LinkClass, LinkSpeed, MAX_VERTICES};
use crate::graph_file::{LATENCIES, RATES};
use narrows_units::{ByteRate, SimTime};
use std::collections::BTreeMap;

/// The most characters of a name.
const NAME_MAX: usize = 255;

/// A link of a class, of which nothing is known.
pub(super) fn plain(class: LinkClass) -> LinkSpeed {
    LinkSpeed { class, rate: None, latency: None }
}

/// A name as a word of a graph file: without blanks and `#`.
pub(super) fn word(text: &str) -> String {
    let word: String =
        text.trim().chars().map(|c| if c.is_whitespace() || c.is_control() || c == '#' { '_' } else { c }).take(NAME_MAX).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

#[derive(Default)]
pub(super) struct Builder {
    switch_numbers: BTreeMap<String, u32>,
    switches: Vec<String>,
    host_lines: BTreeMap<String, usize>,
    hosts: Vec<Host>,
    host_links: Vec<LinkSpeed>,
    /// Where in `cables` the same ones are.
    parallel: BTreeMap<([u32; 2], LinkSpeed), usize>,
    cables: Vec<Cables>,
    pub(super) notes: Vec<String>,
}

impl Builder {
    /// The number of a switch, a new one if there is none with this name.
    pub(super) fn switch(&mut self, line: usize, name: &str) -> Result<u32, ImportError> {
        if let Some(&number) = self.switch_numbers.get(name) {
            return Ok(number);
        }
        self.room(line)?;
        // A number alone is always the number of a switch.
        let word = if name.bytes().all(|b| b.is_ascii_digit()) { format!("s{name}") } else { word(name) };
        let number = self.switches.len() as u32;
        self.switch_numbers.insert(name.to_owned(), number);
        self.switches.push(word);
        Ok(number)
    }

    /// Whether there is such a switch.
    pub(super) fn has_switch(&self, name: &str) -> Option<u32> {
        self.switch_numbers.get(name).copied()
    }

    pub(super) fn host(&mut self, line: usize, name: &str, switch: u32, link: LinkSpeed) -> Result<(), ImportError> {
        self.room(line)?;
        check(line, &link)?;
        let name = word(name);
        if let Some(first) = self.host_lines.insert(name.clone(), line) {
            return Err(ImportError::new(line, format!("there is a host `{name}` already, in line {first}; expected each host once")));
        }
        self.hosts.push(Host { name, switch });
        self.host_links.push(link);
        Ok(())
    }

    /// `count` cables between two switches.
    pub(super) fn cables(&mut self, line: usize, one: u32, other: u32, count: u32, speed: LinkSpeed) -> Result<(), ImportError> {
        if one == other {
            let name = &self.switches[one as usize];
            return Err(ImportError::new(line, format!("a link from `{name}` to itself; expected another switch")));
        }
        check(line, &speed)?;
        let between = [one.min(other), one.max(other)];
        let next = self.cables.len();
        let at = *self.parallel.entry((between, speed)).or_insert(next);
        if at == next {
            if next as u64 >= MAX_VERTICES {
                return Err(ImportError::new(line, format!("more than {MAX_VERTICES} links")));
            }
            self.cables.push(Cables { between: [one, other], speed, count: 0 });
        }
        let cables = &mut self.cables[at];
        cables.count = cables.count.saturating_add(count);
        if cables.count > 1 << 10 {
            return Err(ImportError::new(line, "more than 1024 parallel cables"));
        }
        Ok(())
    }

    /// Hosts and switches so far.
    fn room(&self, line: usize) -> Result<(), ImportError> {
        match self.switches.len() as u64 + self.hosts.len() as u64 + 1 >= MAX_VERTICES {
            true => Err(ImportError::new(line, format!("more than {MAX_VERTICES} hosts and switches"))),
            false => Ok(()),
        }
    }

    /// The network, whose hosts reach each other.
    pub(super) fn finish(mut self, format: Format, last_line: usize) -> Result<Network, ImportError> {
        let whole = |message: String| Err(ImportError::new(last_line.max(1), message));
        let Some(first) = self.hosts.first() else {
            return whole("the file has no hosts; expected at least one".to_owned());
        };
        // Two switches of different names may have become one word.
        let mut words = BTreeMap::new();
        for (at, name) in self.switches.iter_mut().enumerate() {
            if words.insert(name.clone(), at).is_some() {
                *name = format!("{name}.{at}");
                words.insert(name.clone(), at);
            }
        }
        let component = components(self.switches.len(), &self.cables);
        let home = component[first.switch as usize];
        if let Some(host) = self.hosts.iter().find(|host| component[host.switch as usize] != home) {
            let [one, other] = [first, host].map(|host| &self.switches[host.switch as usize]);
            return whole(format!("no way from switch `{one}` to switch `{other}`: expected a link, or switches, between them"));
        }
        let left_out: Vec<&str> =
            self.switches.iter().zip(&component).filter(|(_, at)| **at != home).map(|(name, _)| name.as_str()).collect();
        if !left_out.is_empty() {
            let more = if left_out.len() > 3 { ", ..." } else { "" };
            let names = left_out.iter().take(3).copied().collect::<Vec<_>>().join(", ");
            self.notes.push(format!("Left out: {} switches that no host reaches ({names}{more}).", left_out.len()));
            self.keep(|switch| component[switch as usize] == home);
        }
        let host_link = usual(LinkClass::Host, self.host_links.iter().map(|link| (*link, 1)));
        let other = self.host_links.iter().filter(|link| **link != host_link).count();
        if other > 0 {
            let differ = "have other links than most; a graph file has one speed for all links of hosts.";
            self.notes.push(format!("{other} hosts {differ}"));
        }
        let switch_link = usual(LinkClass::Switch, self.cables.iter().map(|cables| (cables.speed, u64::from(cables.count))));
        let Builder { switches, hosts, cables, notes, .. } = self;
        Ok(Network { format, switches, hosts, cables, host_link, switch_link, notes })
    }

    /// Takes out other switches, which have no hosts and no cables to those that stay.
    fn keep(&mut self, stays: impl Fn(u32) -> bool) {
        let mut number = vec![0; self.switches.len()];
        let mut next = 0;
        for (switch, number) in number.iter_mut().enumerate() {
            *number = next;
            next += u32::from(stays(switch as u32));
        }
        let mut at = 0;
        self.switches.retain(|_| {
            at += 1;
            stays(at - 1)
        });
        self.cables.retain(|cables| stays(cables.between[0]));
        self.cables.iter_mut().for_each(|cables| cables.between = cables.between.map(|switch| number[switch as usize]));
        self.hosts.iter_mut().for_each(|host| host.switch = number[host.switch as usize]);
    }
}

fn check(line: usize, speed: &LinkSpeed) -> Result<(), ImportError> {
    if let Some(rate) = speed.rate.filter(|rate| !RATES.contains(rate)) {
        return Err(ImportError::new(line, format!("a rate of {rate}; expected {} to {}", RATES.start(), RATES.end())));
    }
    if let Some(latency) = speed.latency.filter(|latency| !LATENCIES.contains(latency)) {
        return Err(ImportError::new(line, format!("a latency of {latency}; expected {} to {}", LATENCIES.start(), LATENCIES.end())));
    }
    Ok(())
}

/// The most frequent rate and the most frequent latency; of equal ones the greatest.
fn usual(class: LinkClass, links: impl Iterator<Item = (LinkSpeed, u64)>) -> LinkSpeed {
    let (mut rates, mut latencies) = (BTreeMap::<ByteRate, u64>::new(), BTreeMap::<SimTime, u64>::new());
    for (link, count) in links {
        link.rate.into_iter().for_each(|rate| *rates.entry(rate).or_default() += count);
        link.latency.into_iter().for_each(|latency| *latencies.entry(latency).or_default() += count);
    }
    LinkSpeed { class, rate: most(&rates), latency: most(&latencies) }
}

fn most<T: Copy + Ord>(counts: &BTreeMap<T, u64>) -> Option<T> {
    counts.iter().max_by_key(|(value, count)| (**count, **value)).map(|(value, _)| *value)
}

/// Which switches have ways to each other: the same number.
fn components(switches: usize, cables: &[Cables]) -> Vec<usize> {
    let mut parent: Vec<usize> = (0..switches).collect();
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    for cables in cables {
        let [one, other] = cables.between.map(|switch| root(&mut parent, switch as usize));
        parent[one.max(other)] = one.min(other);
    }
    (0..switches).map(|switch| root(&mut parent, switch)).collect()
}
