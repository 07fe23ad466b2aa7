//! Which rank runs on which processor of which node.

use crate::fault::FaultError;
use crate::model::Machine;
use crate::node::{HOST, Mode, Node, Processor};
use narrows_engine::random;
use narrows_units::{NodeId, ProcessorId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// How ranks are spread over the nodes. Where names of processors are asked for, none: those of the hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Node 0 first, as many ranks as go there, then node 1 ...; of a node, the processors of these names in this
    /// order.
    Linear(Vec<String>),
    /// The same over the nodes in an order drawn from this seed.
    Random(u64, Vec<String>),
    /// One node index or host name per line, in rank order, with `:NAME` behind it if it is another processor than the
    /// host's; `#` starts a comment. Or a hostfile or rankfile of an MPI, see [`Entry::read`].
    File(PathBuf),
}

/// `linear`, `random:SEED`, with `:NAME,NAME` behind them for other processors than the hosts'; anything else is a
/// file.
impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Placement, PlacementError> {
        let names = |text: Option<&str>| text.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        match (kind, rest) {
            ("linear", on) => Ok(Placement::Linear(names(on))),
            ("random", Some(rest)) => {
                let (seed, on) = rest.split_once(':').map_or((rest, None), |(seed, on)| (seed, Some(on)));
                let number = seed.parse().map_err(|_| PlacementError::Seed { seed: seed.to_owned() })?;
                Ok(Placement::Random(number, names(on)))
            }
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
    /// A processor that the machine does not have.
    #[error(
        "no processor \"{name}\" ({known}); [processor.NAME] in the machine file makes one, and node.processors says which nodes have it"
    )]
    Processor {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Processors in both places.
    #[error("--on {on}: --placement {placement} says already which processors ranks are on; leave out one of the two")]
    Twice {
        /// Of the program.
        on: String,
        /// As it was given.
        placement: &'static str,
    },
    /// Programs that would take each other's cores.
    #[error("programs on {0} and on {1}: they share processors, so give both the same --on, or processors of their own")]
    Shared(String, String),
    /// A protection domain for each rank, and too few of them.
    #[error("rank {domains} has no protection domain: nic.exanet.domains has {domains}, for {ranks} ranks; expected one for each")]
    Domains {
        /// Domains of the machine.
        domains: usize,
        /// Ranks of the run.
        ranks: usize,
    },
    /// Ranks on nodes that have no network in common.
    #[error(
        "no network has all nodes with ranks: {} is on {}, {} on {}; ranks go where --placement or --ppn says, and node.fabrics or \
         group.NAME.fabrics say which networks a node joins; group.NAME.gateway makes nodes pass messages on",
        .one.0, .one.1, .other.0, .other.1
    )]
    NoNetwork {
        /// A host, and the names of its networks.
        one: (String, String),
        /// Another one.
        other: (String, String),
    },
    /// Ranks on two networks that no gateway joins.
    #[error(
        "no network has all nodes with ranks, and no gateway joins {1} and {3}: {0} is on {1}, {2} on {3}; \
         give a group of nodes on both gateway = [\"{1}\", \"{3}\"], or ranks other nodes (--placement, --ppn)",
        .one.0, .one.1, .other.0, .other.1
    )]
    NoGateway {
        /// A host, and its network.
        one: (String, String),
        /// Another one.
        other: (String, String),
    },
    /// A protocol of firmware, and ranks behind a gateway.
    #[error(
        "message.protocol = \"exanet\" is answered by the firmware of the sender's NIC, which a gateway does not reach: \
         set \"openmpi\", \"mpc\" or \"pscom\", or keep ranks on one network"
    )]
    Firmware,
    /// A gateway that is to die, and is none.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A processor that is not used.
    #[error("no rank may be on \"{0}\": processor.{0}.mode is \"host\"; another mode uses it")]
    Unused(String),
    /// More ranks per processor than cores.
    #[error("--ppn {ppn}: none of the processors {names} has more than {cores} cores; use --ppn {cores} or less")]
    ProcessorCores {
        /// Ranks per processor asked for.
        ppn: u32,
        /// Most cores of one of them.
        cores: u32,
        /// The processors.
        names: String,
    },
    /// More ranks than the processors asked for have cores.
    #[error(
        "{ranks} ranks do not fit: the processors {names}{} take {room}; use -n {room} or less, or other processors (--placement){}",
        .ppn.map_or_else(String::new, |ppn| format!(" with up to {ppn} each")),
        if .ppn.is_some() { ", or a larger --ppn" } else { "" }
    )]
    Processors {
        /// Ranks asked for.
        ranks: u32,
        /// The processors.
        names: String,
        /// Ranks per processor asked for.
        ppn: Option<u32>,
        /// Ranks that they take.
        room: u64,
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

/// The processor of each rank. `ppn`: most ranks on one processor; without it, one rank per processor, or as few more
/// as all `ranks` need. No processor takes more than it has cores. A placement file has one line per rank.
///
/// # Errors
/// See [`PlacementError`]; each says what to do.
pub fn placement(placement: &Placement, machine: &Machine, ppn: Option<u32>, ranks: u32) -> Result<Vec<ProcessorId>, PlacementError> {
    let nodes = machine.node.count;
    let there = nodes - machine.gateways().count() as u32;
    // Gateways have none, unless a file says so.
    let parts = || machine.parts().filter(|(_, node)| node.gateway.is_empty());
    let names = match placement {
        Placement::Linear(names) | Placement::Random(_, names) if !names.is_empty() => names.clone(),
        Placement::Linear(_) | Placement::Random(..) => vec![HOST.to_owned()],
        Placement::File(_) => {
            let auxiliaries = machine.auxiliaries.iter().map(|auxiliary| auxiliary.name.clone());
            std::iter::once(HOST.to_owned()).chain(auxiliaries).collect()
        }
    };
    let chosen = |node: &Node| on(machine, node, &names).map(|(_, processor)| processor.cores).collect::<Vec<u32>>();
    if let Some(name) = names.iter().find(|name| *name != HOST && machine.auxiliary(name).is_none()) {
        let known = machine.auxiliaries.iter().map(|auxiliary| auxiliary.name.as_str());
        let known = std::iter::once(HOST).chain(known).collect::<Vec<_>>().join(", ");
        return Err(PlacementError::Processor { name: name.clone(), known });
    }
    let unused = |name: &&String| machine.auxiliary(name).is_some_and(|auxiliary| auxiliary.mode == Mode::Host);
    if let (Some(name), false) = (names.iter().find(unused), matches!(placement, Placement::File(_))) {
        return Err(PlacementError::Unused(name.clone()));
    }
    let cores = parts().flat_map(|(_, node)| chosen(node)).max().unwrap_or(0);
    if ranks == 0 {
        return Err(PlacementError::NoRanks);
    }
    let hosts = names == [HOST];
    match ppn {
        Some(0) => return Err(PlacementError::NoRanksPerNode),
        Some(ppn) if ppn > cores && hosts => return Err(PlacementError::Cores { ppn, cores }),
        Some(ppn) if ppn > cores => return Err(PlacementError::ProcessorCores { ppn, cores, names: names.join(", ") }),
        _ => {}
    }
    let room = |ppn: u32| -> u64 {
        let of_node = |node: &Node| chosen(node).into_iter().map(|cores| u64::from(cores.min(ppn))).sum::<u64>();
        parts().map(|(_, node)| u64::from(node.count) * of_node(node)).sum()
    };
    let refused = |ppn: Option<u32>| match (machine.groups.is_empty(), ppn) {
        _ if !hosts => PlacementError::Processors { ranks, names: names.join(", "), ppn, room: room(ppn.unwrap_or(cores)) },
        (true, None) => PlacementError::Machine { ranks, nodes, cores },
        (true, Some(ppn)) => PlacementError::RanksPerNode { ranks, nodes, ppn },
        (false, ppn) => PlacementError::Groups { ranks, nodes: there, ppn, room: room(ppn.unwrap_or(cores)) },
    };
    if u64::from(ranks) > room(cores) {
        return Err(refused(None));
    }
    let all = || NodeId::first(nodes).filter(|&node| machine.node(node).gateway.is_empty()).collect::<Vec<NodeId>>();
    let of_nodes = |nodes: &[NodeId]| {
        let of_node = |&id: &NodeId| on(machine, machine.node(id), &names).map(move |(number, _)| ProcessorId { node: id, number });
        fill(machine, &nodes.iter().flat_map(of_node).collect::<Vec<_>>(), ppn, ranks).ok_or_else(|| refused(ppn))
    };
    match placement {
        Placement::Linear(_) => of_nodes(&all()),
        Placement::Random(seed, _) => {
            let mut order = all();
            random::stream(*seed, "placement", 0).shuffle(&mut order);
            of_nodes(&order)
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

/// The same for several programs of so many ranks, each on processors of these names, with commas between (empty: as
/// `placement` says). Programs on the same ones are placed as one, one after the other.
///
/// # Errors
/// See [`PlacementError`].
pub fn placement_of(
    placement: &Placement,
    machine: &Machine,
    ppn: Option<u32>,
    programs: &[(&str, u32)],
) -> Result<Vec<ProcessorId>, PlacementError> {
    let all = programs.iter().map(|&(_, ranks)| ranks).sum();
    let Some((on, _)) = programs.iter().find(|(on, _)| !on.is_empty()) else {
        return self::placement(placement, machine, ppn, all);
    };
    let twice = |placement| PlacementError::Twice { on: (*on).to_owned(), placement };
    match placement {
        Placement::File(_) => return Err(twice("FILE")),
        Placement::Linear(names) | Placement::Random(_, names) if !names.is_empty() => {
            return Err(twice("linear:NAME or random:SEED:NAME"));
        }
        Placement::Linear(_) | Placement::Random(..) => {}
    }
    let mut of_names: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    let names = |on: &str| if on.is_empty() { vec![HOST.to_owned()] } else { on.split(',').map(str::to_owned).collect::<Vec<_>>() };
    programs.iter().for_each(|&(on, ranks)| *of_names.entry(names(on)).or_default() += ranks);
    let lists: Vec<&Vec<String>> = of_names.keys().collect();
    for (at, one) in lists.iter().enumerate() {
        if let Some(other) = lists[..at].iter().find(|other| one.iter().any(|name| other.contains(name))) {
            return Err(PlacementError::Shared(other.join(","), one.join(",")));
        }
    }
    let mut places = BTreeMap::new();
    for (names, ranks) in of_names {
        let placement = match placement {
            Placement::Random(seed, _) => Placement::Random(*seed, names.clone()),
            _ => Placement::Linear(names.clone()),
        };
        places.insert(names, self::placement(&placement, machine, ppn, ranks)?.into_iter());
    }
    let mut of_program = |&(on, ranks): &(&str, u32)| places.get_mut(&names(on)).map(|rest| rest.take(ranks as usize).collect::<Vec<_>>());
    Ok(programs.iter().filter_map(&mut of_program).flatten().collect())
}

/// The processors of these names that a node has, in the order of the names: their numbers, and what they are.
fn on<'a>(machine: &'a Machine, node: &'a Node, names: &'a [String]) -> impl Iterator<Item = (u8, &'a Processor)> {
    let called = move |name: &String| (0u8..).zip(machine.processors(node)).find(|(_, (known, _))| known == name);
    names.iter().filter_map(called).map(|(number, (_, processor))| (number, processor))
}

/// Ranks on these processors, one after the other, with up to `ppn` on each, and never more than it has cores; `None`:
/// there is no room for so many. Without `ppn`, the least number that is enough.
pub fn fill(machine: &Machine, processors: &[ProcessorId], ppn: Option<u32>, ranks: u32) -> Option<Vec<ProcessorId>> {
    let cores: Vec<u32> = processors.iter().map(|&id| machine.processor(id).1.cores).collect();
    let mut alike: BTreeMap<u32, u64> = BTreeMap::new();
    cores.iter().for_each(|&cores| *alike.entry(cores).or_default() += 1);
    let most = *alike.last_key_value()?.0;
    let room = |each: u32| alike.iter().map(|(&cores, count)| u64::from(cores.min(each)) * count).sum::<u64>();
    let each = ppn.or_else(|| (1..=most).find(|&each| room(each) >= u64::from(ranks)))?;
    let places = processors.iter().zip(cores).flat_map(|(&id, cores)| std::iter::repeat_n(id, cores.min(each) as usize));
    let placed: Vec<ProcessorId> = places.take(ranks as usize).collect();
    (placed.len() == ranks as usize).then_some(placed)
}

/// A line of a placement file.
struct Entry<'a> {
    /// Of rankfiles.
    rank: Option<u32>,
    host: &'a str,
    processor: &'a str,
    /// Of hostfiles: how many ranks may be there.
    slots: Option<u32>,
}

impl Entry<'_> {
    /// `NODE` or `NODE:PROCESSOR`, one rank; `NODE slots=4 max_slots=8` as in Open MPI's hostfiles, `NODE:4` as in
    /// those of MPICH's Hydra; `rank 3=NODE slot=0-1` as in Open MPI's rankfiles, whose cores are not looked at.
    /// Slurm's SLURM_HOSTFILE has a name per rank.
    fn read(place: &str) -> Result<Entry<'_>, String> {
        let number =
            |text: &str, what: &str| text.trim().parse::<u32>().map_err(|_| format!("found {text:?}; expected {what}, a whole number"));
        let mut words = place.split_whitespace();
        let first = words.next().unwrap_or_default();
        if first.eq_ignore_ascii_case("rank") {
            let (rank, rest) = place[first.len()..].split_once('=').ok_or("expected \"rank NUMBER=NODE slot=CORES\"")?;
            let host = rest.split_whitespace().next().ok_or("expected a node behind \"=\"")?;
            return Ok(Entry { rank: Some(number(rank, "a rank")?), host, processor: HOST, slots: None });
        }
        let (host, behind) = first.split_once(':').unwrap_or((first, HOST));
        let counted = !behind.is_empty() && behind.bytes().all(|b| b.is_ascii_digit());
        let mut slots = if counted { Some(number(behind, "how many ranks")?) } else { None };
        for word in words {
            match word.split_once('=') {
                Some(("slots", count)) => slots = Some(number(count, "how many slots")?),
                Some(("max_slots" | "max-slots", _)) => {}
                _ => return Err(format!("found {word:?} behind the node; expected nothing, or slots=NUMBER")),
            }
        }
        Ok(Entry { rank: None, host, processor: if counted { HOST } else { behind }, slots })
    }
}

fn by_list(machine: &Machine, path: &str, text: &str, most: u32, ranks: u32) -> Result<Vec<ProcessorId>, PlacementError> {
    let mut taken: BTreeMap<ProcessorId, u32> = BTreeMap::new();
    let mut result: Vec<Option<ProcessorId>> = vec![None; ranks as usize];
    let (mut next, mut roomy) = (0, false);
    for (at, line) in text.lines().enumerate() {
        let wrong = |problem: String| PlacementError::Line { path: path.to_owned(), line: at + 1, problem };
        let place = line.split_once('#').map_or(line, |(place, _)| place).trim();
        if place.is_empty() {
            continue;
        }
        let Entry { rank, host, processor: name, slots } = Entry::read(place).map_err(wrong)?;
        // Hostfiles and rankfiles are of clusters and may have room for more ranks.
        roomy |= rank.is_some() || slots.is_some();
        let Some(node) = machine.node_called(host) else {
            let (first, last) = (machine.host_name(NodeId(0)), machine.host_name(NodeId(machine.node.count - 1)));
            return Err(wrong(format!(
                "no node {host:?}; expected an index from 0 to {}, or a name from {first} to {last}",
                machine.node.count - 1
            )));
        };
        let mut processors = (0u8..).zip(machine.processors(machine.node(node)));
        let Some((number, (_, processor))) = processors.find(|(_, (known, _))| *known == name) else {
            let known: Vec<&str> = machine.processors(machine.node(node)).map(|(name, _)| name).collect();
            return Err(wrong(format!("node {node} has no processor {name:?}; expected {}", known.join(" or "))));
        };
        let id = ProcessorId { node, number };
        let most = most.min(processor.cores);
        for _ in 0..slots.unwrap_or(1) {
            let rank = rank.unwrap_or(next);
            let Some(of_rank) = result.get_mut(rank as usize) else {
                if roomy {
                    break;
                }
                return Err(PlacementError::Long { path: path.to_owned(), line: at + 1, ranks });
            };
            if of_rank.replace(id).is_some() {
                return Err(wrong(format!("rank {rank} has a node already; expected each rank once")));
            }
            next += 1;
            let taken = taken.entry(id).or_default();
            *taken += 1;
            if *taken > most {
                let what = if number == 0 { String::new() } else { format!("{name} of ") };
                return Err(wrong(format!("rank {rank} is one too many for {what}node {node}, which takes {most}")));
            }
        }
    }
    let lines = result.iter().flatten().count();
    let placed: Option<Vec<ProcessorId>> = result.into_iter().collect();
    placed.ok_or_else(|| PlacementError::Short { path: path.to_owned(), lines, ranks })
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

    fn indices(placed: Vec<ProcessorId>) -> Vec<u32> {
        placed.into_iter().map(|id| id.node.0).collect()
    }

    fn refusal(ppn: Option<u32>, ranks: u32) -> String {
        placement(&Placement::Linear(Vec::new()), &machine(), ppn, ranks).unwrap_err().to_string()
    }

    #[test]
    fn linear_fills_node_after_node() {
        let machine = machine();
        let linear = |ppn, ranks| indices(placement(&Placement::Linear(Vec::new()), &machine, ppn, ranks).unwrap());
        assert_eq!(linear(None, 3), [0, 1, 2], "one rank per node");
        assert_eq!(linear(Some(2), 3), [0, 0, 1], "two ranks per node");
        assert_eq!(linear(None, 5), [0, 0, 1, 1, 2], "5 ranks on 4 nodes need two per node");
    }

    #[test]
    fn random_uses_each_node_once_and_depends_on_the_seed_alone() {
        let machine = machine();
        let place = |seed| indices(placement(&Placement::Random(seed, Vec::new()), &machine, Some(2), 8).unwrap());
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
        let linear = |ppn, ranks| place(Placement::Linear(Vec::new()), ppn, ranks);
        assert_eq!(linear(None, 5), Ok(vec![0, 1, 2, 3, 4]), "one on each");
        assert_eq!(linear(None, 6), Ok(vec![0, 0, 1, 1, 2, 3]), "two on each that takes two");
        assert_eq!(linear(None, 11), Ok(vec![0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 4]), "on every core");
        assert_eq!(linear(Some(4), 9), Ok(vec![0, 0, 0, 0, 1, 1, 1, 1, 2]));
        let random = place(Placement::Random(3, Vec::new()), Some(2), 7).unwrap();
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

    /// 3 nodes of 2 cores; node 2 alone has a further processor of 4.
    #[test]
    fn ranks_are_on_processors() {
        let text = "[machine]\nname = \"dpus\"\nbase = \"example-cluster\"\ngroups = [\"plain\", \"smart\"]\n[node]\ncores = 2\n\
                    [group.plain]\ncount = 2\n[group.smart]\ncount = 1\nprocessors = [\"dpu\"]\n[processor.dpu]\ncores = 4\n";
        let machine = Machine::parse("dpus.toml", text, &Overrides::default()).unwrap();
        let place = |kind: &str, ppn, ranks| {
            let placed = placement(&kind.parse().unwrap(), &machine, ppn, ranks).map_err(|error| error.to_string())?;
            let names = placed.into_iter().map(|id| format!("{}:{}", id.node, machine.processor(id).0));
            Ok::<_, String>(names.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(place("linear", None, 4), Ok(String::from("0:host 0:host 1:host 1:host")));
        assert_eq!(place("linear:dpu", None, 3), Ok(String::from("2:dpu 2:dpu 2:dpu")));
        assert_eq!(place("linear:host,dpu", Some(1), 4), Ok(String::from("0:host 1:host 2:host 2:dpu")));
        assert_eq!(place("linear:dpu,host", Some(3), 9), Ok(String::from("0:host 0:host 1:host 1:host 2:dpu 2:dpu 2:dpu 2:host 2:host")));
        let random = place("random:5:dpu,host", Some(1), 4).unwrap();
        assert!(random.contains("2:dpu 2:host"), "processors of a node are neighbours: {random}");
        let refused = |kind, ppn, ranks| place(kind, ppn, ranks).unwrap_err();
        let error = "5 ranks do not fit: the processors dpu take 4; use -n 4 or less, or other processors (--placement)";
        assert_eq!(refused("linear:dpu", None, 5), error);
        let on = |kind: &str, programs: &[(&str, u32)]| {
            let placed = placement_of(&kind.parse().unwrap(), &machine, None, programs).map_err(|error| error.to_string())?;
            let names = placed.into_iter().map(|id| format!("{}:{}", id.node, machine.processor(id).0));
            Ok::<_, String>(names.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(on("linear", &[("host", 2), ("dpu", 2), ("", 1)]), Ok(String::from("0:host 1:host 2:dpu 2:dpu 2:host")));
        assert_eq!(on("linear:dpu", &[("", 1), ("", 1)]), Ok(String::from("2:dpu 2:dpu")));
        assert_eq!(
            on("linear:dpu", &[("dpu", 1)]).unwrap_err(),
            "--on dpu: --placement linear:NAME or random:SEED:NAME says already which processors ranks are on; leave out one of the two"
        );
        assert_eq!(
            on("linear", &[("", 1), ("dpu,host", 1)]).unwrap_err(),
            "programs on dpu,host and on host: they share processors, so give both the same --on, or processors of their own"
        );
        assert!(on("linear", &[("gpu", 1)]).unwrap_err().starts_with("no processor \"gpu\" (host, dpu)"));
        assert!(
            on("linear", &[("dpu", 3), ("host", 1), ("dpu", 2)]).unwrap_err().starts_with("5 ranks do not fit: the processors dpu take 4")
        );
        let file = text.replace("cores = 4", "cores = 4\nmode = \"host\"");
        let unused = Machine::parse("x.toml", &file, &Overrides::default()).unwrap();
        let error = placement(&"linear:dpu".parse().unwrap(), &unused, None, 1).unwrap_err().to_string();
        assert_eq!(error, "no rank may be on \"dpu\": processor.dpu.mode is \"host\"; another mode uses it");
        assert_eq!(refused("linear:dpu", Some(5), 1), "--ppn 5: none of the processors dpu has more than 4 cores; use --ppn 4 or less");
        assert!(refused("linear:gpu", None, 1).starts_with("no processor \"gpu\" (host, dpu); [processor.NAME]"));
        let list = |text, ranks| by_list(&machine, "hosts", text, 4, ranks).map_err(|error| error.to_string());
        let id = |node, number| ProcessorId { node: NodeId(node), number };
        assert_eq!(list("2:dpu\nnode002\n2:host\nnode002:dpu\n", 4), Ok(vec![id(2, 1), id(2, 0), id(2, 0), id(2, 1)]));
        assert_eq!(list("0:dpu\n", 1), Err(String::from("hosts:1: node 0 has no processor \"dpu\"; expected host")));
        let full = "hosts:5: rank 4 is one too many for dpu of node 2, which takes 4";
        assert_eq!(list("2:dpu\n2:dpu\n2:dpu\n2:dpu\n2:dpu\n", 5), Err(String::from(full)));
    }

    /// As Open MPI, MPICH and Slurm write them, on nodes of 2 cores.
    #[test]
    fn hostfiles_and_rankfiles_are_read_as_they_are() {
        let machine = machine();
        let list = |text, ranks| by_list(&machine, "hosts", text, 2, ranks).map(indices).map_err(|error| error.to_string());
        assert_eq!(list("# mine\nnode001 slots=2\nnode000 slots=1 max_slots=2\nnode003 slots=2\n", 4), Ok(vec![1, 1, 0, 3]));
        assert_eq!(list("node002:2\nnode001:1\nnode000:2\n", 3), Ok(vec![2, 2, 1]));
        assert_eq!(list("rank 1=node003 slot=0-1\nrank 0=node002 slot=1:0\nrank 2=node001 slot=0\n", 2), Ok(vec![2, 3]));
        assert_eq!(list("node000\nnode000\nnode003\n", 3), Ok(vec![0, 0, 3]), "SLURM_HOSTFILE");
        for (text, expected) in [
            ("node001 slots=2\n", "hosts places 2 ranks, the run has 3: give one node per rank"),
            ("node001 slots=3\n", "hosts:1: rank 2 is one too many for node 1, which takes 2"),
            ("node001 slots=x\n", "hosts:1: found \"x\"; expected how many slots, a whole number"),
            ("node001 2\n", "hosts:1: found \"2\" behind the node; expected nothing, or slots=NUMBER"),
            ("rank 0 node001\n", "hosts:1: expected \"rank NUMBER=NODE slot=CORES\""),
            ("rank 0=\n", "hosts:1: expected a node behind \"=\""),
            ("rank 0=node001\nrank 0=node002\n", "hosts:2: rank 0 has a node already; expected each rank once"),
        ] {
            assert_eq!(list(text, 3), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn reads_the_option() {
        let read = |text: &str| text.parse::<Placement>().map_err(|error| error.to_string());
        assert_eq!(read("linear"), Ok(Placement::Linear(Vec::new())));
        assert_eq!(read("random:7"), Ok(Placement::Random(7, Vec::new())));
        assert_eq!(read("linear:dpu,host"), Ok(Placement::Linear(vec![String::from("dpu"), String::from("host")])));
        assert_eq!(read("random:7:dpu"), Ok(Placement::Random(7, vec![String::from("dpu")])));
        assert_eq!(read("hosts.txt"), Ok(Placement::File("hosts.txt".into())));
        assert_eq!(read("random:x"), Err("random:x: expected a whole number as the seed, as in random:1".to_owned()));
    }
}
