//! Which rank runs on which node.

use crate::model::Machine;
use narrows_engine::random;
use narrows_units::NodeId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// How ranks are spread over the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Node 0 first, as many ranks as go there, then node 1 ...
    Linear,
    /// The same over the nodes in an order drawn from this seed.
    Random(u64),
    /// One node index or host name per line, in rank order; `#` starts a comment.
    File(PathBuf),
}

/// `linear`, `random:SEED`, anything else is a file.
impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Placement, PlacementError> {
        match text.split_once(':') {
            None if text == "linear" => Ok(Placement::Linear),
            Some(("random", seed)) => seed.parse().map(Placement::Random).map_err(|_| PlacementError::Seed { seed: seed.to_owned() }),
            _ => Ok(Placement::File(PathBuf::from(text))),
        }
    }
}

/// Why ranks cannot be placed.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// `random:` and something else than a seed.
    #[error("random:{seed}: expected a whole number as the seed, as in random:1")]
    Seed {
        /// What stood there.
        seed: String,
    },
    /// No ranks.
    #[error("a run needs at least one rank")]
    NoRanks,
    /// `--ppn 0`.
    #[error("--ppn 0: a node takes at least one rank")]
    NoRanksPerNode,
    /// More ranks per node than cores.
    #[error("--ppn {ppn}: a node has {cores} cores; use --ppn {cores} or less, or raise node.cores in the machine file")]
    Cores {
        /// Ranks per node asked for.
        ppn: u32,
        /// Cores of a node.
        cores: u32,
    },
    /// More ranks than the whole machine has cores.
    #[error(
        "{ranks} ranks do not fit: {nodes} nodes of {cores} cores take {}; use --nodes {} or more, or -n {} or less",
        u64::from(*.nodes) * u64::from(*.cores), .ranks.div_ceil(*.cores), u64::from(*.nodes) * u64::from(*.cores)
    )]
    Machine {
        /// Ranks asked for.
        ranks: u32,
        /// Nodes of the machine.
        nodes: u32,
        /// Cores of a node.
        cores: u32,
    },
    /// More ranks than nodes x ppn.
    #[error(
        "{ranks} ranks do not fit: {nodes} nodes with {ppn} each take {}; use --ppn {} or more, or --nodes {} or more",
        u64::from(*.nodes) * u64::from(*.ppn), .ranks.div_ceil(*.nodes), .ranks.div_ceil(*.ppn)
    )]
    RanksPerNode {
        /// Ranks asked for.
        ranks: u32,
        /// Nodes of the machine.
        nodes: u32,
        /// Ranks per node asked for.
        ppn: u32,
    },
    /// More ranks than nodes that differ take.
    #[error(
        "{ranks} ranks do not fit: the {nodes} nodes{} take {room}; use -n {room} or less, or raise group.NAME.count in the machine file{}",
        .ppn.map_or_else(String::new, |ppn| format!(" with up to {ppn} each")),
        if .ppn.is_some() { ", or --ppn" } else { "" }
    )]
    Groups {
        /// Ranks asked for.
        ranks: u32,
        /// Nodes of the machine.
        nodes: u32,
        /// Ranks per node asked for.
        ppn: Option<u32>,
        /// Ranks that they take.
        room: u64,
    },
    /// The file cannot be read.
    #[error("cannot read the placement file {path}: {error} (--placement takes linear, random:SEED or a file)")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// A line of the file.
    #[error("{path}:{line}: {problem}")]
    Line {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// Too many lines.
    #[error("{path}:{line}: places rank {ranks}, but the run has {ranks} ranks (0 to {}): give one node per rank", ranks - 1)]
    Long {
        /// The file.
        path: String,
        /// The first line too many, from 1.
        line: usize,
        /// Ranks asked for.
        ranks: u32,
    },
    /// Too few lines.
    #[error("{path} places {lines} ranks, the run has {ranks}: give one node per rank")]
    Short {
        /// The file.
        path: String,
        /// Ranks that it places.
        lines: usize,
        /// Ranks asked for.
        ranks: u32,
    },
}

/// The node of each rank. `ppn`: most ranks on one node; without it, one rank per node, or as few
/// more as all `ranks` need. No node takes more than it has cores. A placement file has one line per rank.
///
/// # Errors
/// See [`PlacementError`]; each says what to do.
pub fn placement(placement: &Placement, machine: &Machine, ppn: Option<u32>, ranks: u32) -> Result<Vec<NodeId>, PlacementError> {
    let nodes = machine.node.count;
    let there = nodes - machine.gateways().count() as u32;
    // Gateways have none, unless a file says so.
    let parts = || machine.parts().filter(|(_, node)| node.gateway.is_empty());
    let cores = parts().map(|(_, node)| node.cores).max().unwrap_or(0);
    if ranks == 0 {
        return Err(PlacementError::NoRanks);
    }
    match ppn {
        Some(0) => return Err(PlacementError::NoRanksPerNode),
        Some(ppn) if ppn > cores => return Err(PlacementError::Cores { ppn, cores }),
        _ => {}
    }
    let room = |ppn: u32| parts().map(|(_, node)| u64::from(node.count) * u64::from(node.cores.min(ppn))).sum::<u64>();
    let refused = |ppn: Option<u32>| match (machine.groups.is_empty(), ppn) {
        (true, None) => PlacementError::Machine { ranks, nodes, cores },
        (true, Some(ppn)) => PlacementError::RanksPerNode { ranks, nodes, ppn },
        (false, ppn) => PlacementError::Groups { ranks, nodes: there, ppn, room: room(ppn.unwrap_or(cores)) },
    };
    if u64::from(ranks) > room(cores) {
        return Err(refused(None));
    }
    let all = || NodeId::first(nodes).filter(|&node| machine.node(node).gateway.is_empty()).collect::<Vec<NodeId>>();
    match placement {
        Placement::Linear => fill(machine, &all(), ppn, ranks).ok_or_else(|| refused(ppn)),
        Placement::Random(seed) => {
            let mut order = all();
            random::stream(*seed, "placement", 0).shuffle(&mut order);
            fill(machine, &order, ppn, ranks).ok_or_else(|| refused(ppn))
        }
        Placement::File(path) => {
            let name = path.display().to_string();
            match narrows_output::read_to_string(path) {
                Ok(text) => by_list(machine, &name, &text, ppn.unwrap_or(cores), ranks),
                Err(error) => Err(PlacementError::Read { path: name, error }),
            }
        }
    }
}

/// Ranks on these nodes, one after the other, with up to `ppn` on each, and never more than it has cores; `None`: there
/// is no room for so many. Without `ppn`, the least number that is enough.
pub fn fill(machine: &Machine, nodes: &[NodeId], ppn: Option<u32>, ranks: u32) -> Option<Vec<NodeId>> {
    let cores: Vec<u32> = nodes.iter().map(|&node| machine.node(node).cores).collect();
    let mut alike: BTreeMap<u32, u64> = BTreeMap::new();
    cores.iter().for_each(|&cores| *alike.entry(cores).or_default() += 1);
    let most = *alike.last_key_value()?.0;
    let room = |each: u32| alike.iter().map(|(&cores, count)| u64::from(cores.min(each)) * count).sum::<u64>();
    let each = ppn.or_else(|| (1..=most).find(|&each| room(each) >= u64::from(ranks)))?;
    let places = nodes.iter().zip(cores).flat_map(|(&node, cores)| std::iter::repeat_n(node, cores.min(each) as usize));
    let placed: Vec<NodeId> = places.take(ranks as usize).collect();
    (placed.len() == ranks as usize).then_some(placed)
}

fn by_list(machine: &Machine, path: &str, text: &str, most: u32, ranks: u32) -> Result<Vec<NodeId>, PlacementError> {
    let mut taken = vec![0; machine.node.count as usize];
    let mut result = Vec::with_capacity(ranks as usize);
    for (at, line) in text.lines().enumerate() {
        let wrong = |problem: String| PlacementError::Line { path: path.to_owned(), line: at + 1, problem };
        let host = line.split_once('#').map_or(line, |(host, _)| host).trim();
        if host.is_empty() {
            continue;
        }
        if result.len() == ranks as usize {
            return Err(PlacementError::Long { path: path.to_owned(), line: at + 1, ranks });
        }
        let Some(node) = machine.node_called(host) else {
            let (first, last) = (machine.host_name(NodeId(0)), machine.host_name(NodeId(machine.node.count - 1)));
            return Err(wrong(format!(
                "no node {host:?}; expected an index from 0 to {}, or a name from {first} to {last}",
                machine.node.count - 1
            )));
        };
        taken[node.index()] += 1;
        let most = most.min(machine.node(node).cores);
        if taken[node.index()] > most {
            return Err(wrong(format!("rank {} is one too many for node {node}, which takes {most}", result.len())));
        }
        result.push(node);
    }
    if result.len() < ranks as usize {
        return Err(PlacementError::Short { path: path.to_owned(), lines: result.len(), ranks });
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overrides;

    /// 4 nodes of 2 cores.
    fn machine() -> Machine {
        let set = vec!["node.cores=2".to_owned()];
        Machine::load("example-cluster", &Overrides { nodes: Some(4), set }).unwrap()
    }

    fn indices(nodes: Vec<NodeId>) -> Vec<u32> {
        nodes.into_iter().map(|node| node.0).collect()
    }

    fn refusal(ppn: Option<u32>, ranks: u32) -> String {
        placement(&Placement::Linear, &machine(), ppn, ranks).unwrap_err().to_string()
    }

    #[test]
    fn linear_fills_node_after_node() {
        let machine = machine();
        let linear = |ppn, ranks| indices(placement(&Placement::Linear, &machine, ppn, ranks).unwrap());
        assert_eq!(linear(None, 3), [0, 1, 2], "one rank per node");
        assert_eq!(linear(Some(2), 3), [0, 0, 1], "two ranks per node");
        assert_eq!(linear(None, 5), [0, 0, 1, 1, 2], "5 ranks on 4 nodes need two per node");
    }

    #[test]
    fn random_uses_each_node_once_and_depends_on_the_seed_alone() {
        let machine = machine();
        let place = |seed| indices(placement(&Placement::Random(seed), &machine, Some(2), 8).unwrap());
        for seed in 0..20 {
            let placed = place(seed);
            assert!(placed.chunks(2).all(|pair| pair[0] == pair[1]), "ranks of one node are neighbours: {placed:?}");
            let mut nodes: Vec<u32> = placed.iter().copied().step_by(2).collect();
            nodes.sort_unstable();
            assert_eq!(nodes, [0, 1, 2, 3]);
            assert_eq!(placed, place(seed));
        }
        assert!((1..20).any(|seed| place(seed) != place(0)));
    }

    #[test]
    fn refusals_say_what_to_do() {
        assert_eq!(refusal(None, 9), "9 ranks do not fit: 4 nodes of 2 cores take 8; use --nodes 5 or more, or -n 8 or less");
        assert_eq!(refusal(Some(1), 5), "5 ranks do not fit: 4 nodes with 1 each take 4; use --ppn 2 or more, or --nodes 5 or more");
        assert_eq!(refusal(Some(3), 5), "--ppn 3: a node has 2 cores; use --ppn 2 or less, or raise node.cores in the machine file");
        assert_eq!(refusal(Some(0), 5), "--ppn 0: a node takes at least one rank");
        assert_eq!(refusal(None, 0), "a run needs at least one rank");
    }

    #[test]
    fn lists_hold_indices_and_names() {
        let machine = machine();
        let list = |text, ranks| by_list(&machine, "hosts", text, 2, ranks).map(indices).map_err(|error| error.to_string());
        assert_eq!(list("3\nnode001 # second\n\n# none\n3\n# end\n", 3), Ok(vec![3, 1, 3]));
        let long = "hosts:6: places rank 3, but the run has 3 ranks (0 to 2): give one node per rank";
        assert_eq!(list("3\nnode001 # second\n\n# none\n3\n0\n", 3), Err(long.to_owned()));
        assert_eq!(list("3\n3\n3\n", 3), Err("hosts:3: rank 2 is one too many for node 3, which takes 2".to_owned()));
        assert_eq!(list("0\n", 2), Err("hosts places 1 ranks, the run has 2: give one node per rank".to_owned()));
        let unknown = "hosts:1: no node \"node009\"; expected an index from 0 to 3, or a name from node000 to node003";
        assert_eq!(list("node009\n", 1), Err(unknown.to_owned()));
    }

    /// Nodes 0 and 1 have 4 cores, nodes 2 to 4 one.
    #[test]
    fn no_node_takes_more_than_its_cores() {
        let text = "[machine]\nname = \"mixed\"\nbase = \"example-cluster\"\ngroups = [\"big\", \"small\"]\n\
                    [group.big]\ncount = 2\ncores = 4\n[group.small]\ncount = 3\ncores = 1\nhost_name = \"s{}\"\n";
        let machine = Machine::parse("mixed.toml", text, &Overrides::default()).unwrap();
        let place = |kind: Placement, ppn, ranks| placement(&kind, &machine, ppn, ranks).map(indices).map_err(|error| error.to_string());
        let linear = |ppn, ranks| place(Placement::Linear, ppn, ranks);
        assert_eq!(linear(None, 5), Ok(vec![0, 1, 2, 3, 4]), "one on each");
        assert_eq!(linear(None, 6), Ok(vec![0, 0, 1, 1, 2, 3]), "two on each that takes two");
        assert_eq!(linear(None, 11), Ok(vec![0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4]), "on every core");
        assert_eq!(linear(Some(4), 9), Ok(vec![0, 0, 0, 0, 1, 1, 1, 1, 2]));
        let random = place(Placement::Random(3), Some(2), 7).unwrap();
        assert!((0..5).all(|node| random.iter().filter(|&&other| other == node).count() == if node < 2 { 2 } else { 1 }), "{random:?}");
        let error = "12 ranks do not fit: the 5 nodes take 11; use -n 11 or less, or raise group.NAME.count in the machine file";
        assert_eq!(linear(None, 12), Err(error.to_owned()));
        let error = "8 ranks do not fit: the 5 nodes with up to 2 each take 7; use -n 7 or less, or raise group.NAME.count in the \
                     machine file, or --ppn";
        assert_eq!(linear(Some(2), 8), Err(error.to_owned()));
        let list = |text, ranks| by_list(&machine, "hosts", text, 4, ranks).map(indices).map_err(|error| error.to_string());
        assert_eq!(list("s4\nnode001\n2\n", 3), Ok(vec![4, 1, 2]));
        assert_eq!(list("s4\ns4\n", 2), Err("hosts:2: rank 1 is one too many for node 4, which takes 1".to_owned()));
        assert!(list("s1\n", 1).is_err(), "node 1 has another name");
    }

    #[test]
    fn reads_the_option() {
        let read = |text: &str| text.parse::<Placement>().map_err(|error| error.to_string());
        assert_eq!(read("linear"), Ok(Placement::Linear));
        assert_eq!(read("random:7"), Ok(Placement::Random(7)));
        assert_eq!(read("hosts.txt"), Ok(Placement::File("hosts.txt".into())));
        assert_eq!(read("random:x"), Err("random:x: expected a whole number as the seed, as in random:1".to_owned()));
    }
}
