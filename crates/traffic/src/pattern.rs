//! Who sends to whom.

use crate::TrafficError;
use narrows_engine::{random::Stream, stream};
use narrows_topology::{Shape, Topology};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A pattern as the command line writes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Every message to a node drawn from all others.
    Uniform,
    /// `adversarial:K`: every node of group `i` to nodes drawn from group `i + K`, groups as [`Topology::group`] has
    /// them: in a fat tree the nodes below one switch of the level below the top, in a torus planes, in a graph file
    /// switches.
    Adversarial {
        /// Groups ahead.
        groups: u32,
    },
    /// `incast:N` or `incast:N,TARGET`: N nodes, spread evenly over the others, to one (node 0).
    Incast {
        /// Senders.
        sources: u32,
        /// Receiver, as a position among the pattern's nodes.
        target: u32,
    },
    /// A permutation without fixed points, drawn from the seed.
    Permutation,
    /// Node `i` of `n` to `i + ceil(n / 2) - 1`, in each dimension of a torus (Dally and Towles, Principles and
    /// Practices of Interconnection Networks, table 3.1); in a dragonfly over its groups.
    Tornado,
    /// `shift:K`: node `i` to `i + K`.
    Shift {
        /// Nodes ahead.
        by: u32,
    },
    /// `hotspot:FRACTION,NODES`: that fraction of the messages to one of NODES nodes, which are spread evenly; the
    /// others uniform.
    Hotspot {
        /// Of the messages.
        fraction: f64,
        /// Hot ones.
        nodes: u32,
    },
    /// Every node to all others in turn, beginning with the next one.
    AllToAll,
    /// `flows:FILE`: what a file lists, see [`crate::flows`].
    Flows {
        /// The file.
        file: String,
    },
}

/// What can stand for a pattern, for messages.
pub const PATTERNS: &str =
    "uniform, adversarial:K, incast:N, permutation, tornado, shift:K, hotspot:FRACTION,NODES, all-to-all, flows FILE.csv, mix FILE.toml";

impl FromStr for Pattern {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Pattern, TrafficError> {
        let (name, arguments) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let wrong = |expected: &'static str| TrafficError::PatternText { text: text.to_owned(), expected };
        let number = |text: &str, expected| text.trim().parse::<u32>().map_err(|_| wrong(expected));
        let plain = |pattern, expected| if arguments.is_none() { Ok(pattern) } else { Err(wrong(expected)) };
        match name {
            "uniform" => plain(Pattern::Uniform, "uniform without a number"),
            "permutation" => plain(Pattern::Permutation, "permutation without a number (--seed draws another one)"),
            "tornado" => plain(Pattern::Tornado, "tornado without a number"),
            "all-to-all" => plain(Pattern::AllToAll, "all-to-all without a number"),
            "adversarial" => {
                let expected = "adversarial:K with K groups ahead, such as adversarial:1";
                Ok(Pattern::Adversarial { groups: number(arguments.unwrap_or("1"), expected)? })
            }
            "shift" => {
                let expected = "shift:K with K nodes ahead, such as shift:8";
                Ok(Pattern::Shift { by: number(arguments.ok_or_else(|| wrong(expected))?, expected)? })
            }
            "incast" => {
                let expected = "incast:N with N senders, such as incast:5, or incast:N,TARGET";
                let arguments = arguments.ok_or_else(|| wrong(expected))?;
                let (sources, target) = arguments.split_once(',').unwrap_or((arguments, "0"));
                Ok(Pattern::Incast { sources: number(sources, expected)?, target: number(target, expected)? })
            }
            "hotspot" => {
                let expected = "hotspot:FRACTION,NODES with a fraction above 0 and at most 1, such as hotspot:0.1,4";
                let (fraction, nodes) = arguments.and_then(|text| text.split_once(',')).ok_or_else(|| wrong(expected))?;
                let fraction = fraction.trim().parse::<f64>().ok().filter(|value| *value > 0.0 && *value <= 1.0);
                Ok(Pattern::Hotspot { fraction: fraction.ok_or_else(|| wrong(expected))?, nodes: number(nodes, expected)? })
            }
            "flows" => match arguments {
                Some(file) if !file.is_empty() => Ok(Pattern::Flows { file: file.to_owned() }),
                _ => Err(wrong("flows FILE.csv")),
            },
            _ => Err(wrong(PATTERNS)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::Adversarial { groups } => write!(f, "adversarial:{groups}"),
            Pattern::Incast { sources, target: 0 } => write!(f, "incast:{sources}"),
            Pattern::Incast { sources, target } => write!(f, "incast:{sources},{target}"),
            Pattern::Permutation => f.write_str("permutation"),
            Pattern::Tornado => f.write_str("tornado"),
            Pattern::Shift { by } => write!(f, "shift:{by}"),
            Pattern::Hotspot { fraction, nodes } => write!(f, "hotspot:{fraction},{nodes}"),
            Pattern::AllToAll => f.write_str("all-to-all"),
            Pattern::Flows { file } => write!(f, "flows:{file}"),
        }
    }
}

/// A pattern on given nodes. Sources and targets are positions in the list of nodes until the end.
#[derive(Clone, Debug)]
pub struct Targets {
    nodes: Arc<[u32]>,
    /// Every node is at its own position.
    all: bool,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Uniform,
    /// Positions by group; the first place of each group in it, and the end; the group of each position; groups ahead.
    Groups {
        members: Vec<u32>,
        starts: Vec<u32>,
        group_of: Vec<u32>,
        ahead: u32,
    },
    Fixed(u32),
    Table(Vec<u32>),
    /// A message goes to a hot node when 64 random bits are at most this.
    Hotspot {
        threshold: u64,
        hot: Vec<u32>,
    },
    InTurn,
}

impl Targets {
    /// Lays `pattern` over `nodes` (node indices, each once); also the positions of those that send.
    ///
    /// # Errors
    /// When the pattern does not fit the number of nodes or the topology.
    pub fn new(pattern: &Pattern, nodes: Arc<[u32]>, topology: &Topology, seed: u64) -> Result<(Targets, Vec<u32>), TrafficError> {
        let count = nodes.len() as u32;
        let misfit = |why: String| TrafficError::Misfit { pattern: pattern.to_string(), why };
        let all = || (0..count).collect::<Vec<u32>>();
        if count < 2 {
            return Err(misfit(format!("it needs at least 2 nodes, and has {count}")));
        }
        let (rule, senders) = match *pattern {
            Pattern::Uniform => (Rule::Uniform, all()),
            Pattern::AllToAll => (Rule::InTurn, all()),
            Pattern::Permutation => (Rule::Table(derangement(count, seed)), all()),
            Pattern::Tornado => {
                if count < 3 {
                    return Err(misfit(String::from("with 2 nodes each would send to itself; it needs at least 3")));
                }
                let digits = if count == topology.hosts() { digits(topology) } else { vec![(1, count)] };
                let table: Vec<u32> = all().into_iter().map(|node| tornado(node, &digits)).collect();
                if table.iter().enumerate().any(|(node, &target)| target == node as u32 || target >= count) {
                    let lengths: Vec<String> = digits.iter().map(|(_, length)| length.to_string()).collect();
                    return Err(misfit(format!(
                        "half way round {} places comes back to the node itself or meets a place without one; it needs a longer and full ring",
                        lengths.join(" x ")
                    )));
                }
                (Rule::Table(table), all())
            }
            Pattern::Shift { by } => {
                if by % count == 0 {
                    return Err(misfit(format!("of {count} nodes each would send to itself; K from 1 to {}", count - 1)));
                }
                (Rule::Table(all().into_iter().map(|node| (node + by % count) % count).collect()), all())
            }
            Pattern::Incast { sources, target } => {
                if target >= count {
                    return Err(misfit(format!("there is no node {target}; the last one is {}", count - 1)));
                }
                if sources == 0 || sources >= count {
                    return Err(misfit(format!("{count} nodes allow 1 to {} senders", count - 1)));
                }
                (Rule::Fixed(target), spread(sources, count - 1).into_iter().map(|other| (target + 1 + other) % count).collect())
            }
            Pattern::Hotspot { fraction, nodes: hot } => {
                if hot == 0 || hot > count {
                    return Err(misfit(format!("{count} nodes allow 1 to {count} hot ones")));
                }
                (Rule::Hotspot { threshold: (fraction * u64::MAX as f64) as u64, hot: spread(hot, count) }, all())
            }
            Pattern::Adversarial { groups: ahead } => {
                let group = |position: u32| topology.group(topology.switch_of(nodes[position as usize]));
                let mut members: Vec<u32> = (0..count).collect();
                members.sort_by_key(|&position| group(position));
                let (mut starts, mut group_of) = (Vec::new(), vec![0; count as usize]);
                for (place, &position) in members.iter().enumerate() {
                    if place == 0 || group(position) != group(members[place - 1]) {
                        starts.push(place as u32);
                    }
                    group_of[position as usize] = starts.len() as u32 - 1;
                }
                let groups = starts.len() as u32;
                starts.push(count);
                if groups < 2 {
                    return Err(misfit(String::from("all nodes are in one group; it needs two groups")));
                }
                if ahead % groups == 0 {
                    let sizes = || starts.windows(2).map(|ends| ends[1] - ends[0]);
                    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
                    let sizes = if least == most { most.to_string() } else { format!("{least} to {most}") };
                    return Err(misfit(format!("there are {groups} groups of {sizes} nodes; K from 1 to {}", groups - 1)));
                }
                (Rule::Groups { members, starts, group_of, ahead: ahead % groups }, all())
            }
            Pattern::Flows { .. } => return Err(misfit(String::from("a list of flows has no load, no sizes and no sources of its own"))),
        };
        let all = nodes.iter().enumerate().all(|(position, &node)| position as u32 == node);
        Ok((Targets { nodes, all, rule }, senders))
    }

    /// The node at a position.
    pub fn node(&self, position: u32) -> u32 {
        // Nobody looks up a node among a hundred thousand that are simply all.
        if self.all { position } else { self.nodes[position as usize] }
    }

    /// The node that the next message of the sender at `position` goes to. `turn` is the sender's own counter.
    #[inline]
    pub fn next(&self, position: u32, turn: &mut u32, random: &mut Stream) -> u32 {
        let count = self.nodes.len() as u32;
        let uniform = |random: &mut Stream| (position + 1 + random.below(u64::from(count - 1)) as u32) % count;
        let target = match &self.rule {
            Rule::Uniform => uniform(random),
            Rule::Fixed(target) => *target,
            Rule::Table(table) => table[position as usize],
            Rule::InTurn => {
                let target = (position + 1 + *turn) % count;
                *turn = (*turn + 1) % (count - 1);
                target
            }
            Rule::Groups { members, starts, group_of, ahead } => {
                let group = (group_of[position as usize] + ahead) as usize % (starts.len() - 1);
                let (first, end) = (starts[group], starts[group + 1]);
                members[first as usize + random.below(u64::from(end - first)) as usize]
            }
            Rule::Hotspot { threshold, hot } => {
                let target = if random.next_u64() <= *threshold { hot[random.below(hot.len() as u64) as usize] } else { position };
                // A hot node that would draw itself sends to any other.
                if target == position { uniform(random) } else { target }
            }
        };
        self.node(target)
    }
}

/// `some` positions of `all`, evenly spread.
fn spread(some: u32, all: u32) -> Vec<u32> {
    (0..some).map(|index| (u64::from(index) * u64::from(all) / u64::from(some)) as u32).collect()
}

/// A permutation without fixed points: a shuffle whose fixed points are exchanged in a circle with each other, a single
/// one with its neighbour.
fn derangement(count: u32, seed: u64) -> Vec<u32> {
    let mut targets: Vec<u32> = (0..count).collect();
    stream(seed, "permutation", 0).shuffle(&mut targets);
    let fixed: Vec<usize> = (0..count as usize).filter(|&node| targets[node] == node as u32).collect();
    match fixed[..] {
        [] => {}
        [only] => targets.swap(only, (only + 1) % count as usize),
        _ => {
            for pair in fixed.windows(2) {
                targets.swap(pair[0], pair[1]);
            }
        }
    }
    targets
}

/// The digits of a node's number that a tornado turns: how many nodes a step is, and the length of the ring.
fn digits(topology: &Topology) -> Vec<(u32, u32)> {
    match topology.shape() {
        Shape::Torus(torus) => {
            let parameters = torus.parameters();
            let mut step = parameters.board * parameters.hosts_per_switch;
            let mut next = |&length: &u32| {
                let digit = (step, length);
                step *= length;
                digit
            };
            parameters.lengths.iter().map(&mut next).collect()
        }
        Shape::Dragonfly(dragonfly) => {
            let [per_router, routers, _, groups] = dragonfly.parameters();
            vec![(per_router * routers, groups)]
        }
        _ => vec![(1, topology.hosts())],
    }
}

fn tornado(node: u32, digits: &[(u32, u32)]) -> u32 {
    digits.iter().fold(node, |node, &(step, length)| {
        let digit = node / step % length;
        node - digit * step + (digit + length.div_ceil(2) - 1) % length * step
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_topology::{Arrangement, Dragonfly, FatTree, Torus, TorusParameters};
    use proptest::prelude::*;

    fn tree() -> Topology {
        FatTree::k_ary_n_tree(4, 2).unwrap().build()
    }

    fn laid(text: &str, nodes: u32) -> Result<(Targets, Vec<u32>), TrafficError> {
        Targets::new(&text.parse()?, (0..nodes).collect(), &tree(), 1)
    }

    #[test]
    fn patterns_print_as_they_are_written() {
        for text in
            ["uniform", "adversarial:2", "incast:5", "incast:5,3", "permutation", "tornado", "shift:8", "hotspot:0.1,4", "all-to-all"]
        {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn each_mistake_says_what_would_be_right() {
        let cases = [
            ("unifrom", "expected uniform, adversarial:K"),
            ("uniform:3", "expected uniform without a number"),
            ("shift", "expected shift:K with K nodes ahead"),
            ("shift:x", "expected shift:K with K nodes ahead"),
            ("incast", "expected incast:N with N senders"),
            ("hotspot:2,4", "a fraction above 0 and at most 1"),
            ("hotspot:0.1", "expected hotspot:FRACTION,NODES"),
            ("adversarial:4", "there are 4 groups of 4 nodes; K from 1 to 3"),
            ("adversarial:0", "K from 1 to 3"),
            ("incast:16", "16 nodes allow 1 to 15 senders"),
            ("incast:0", "16 nodes allow 1 to 15 senders"),
            ("incast:3,16", "there is no node 16; the last one is 15"),
            ("shift:32", "each would send to itself; K from 1 to 15"),
            ("hotspot:0.5,17", "16 nodes allow 1 to 16 hot ones"),
        ];
        for (text, expected) in cases {
            let message = laid(text, 16).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains('\n'), "{message}");
        }
        assert!(laid("uniform", 1).unwrap_err().to_string().contains("at least 2 nodes"));
        assert!(laid("tornado", 2).unwrap_err().to_string().contains("at least 3"));
        assert!(laid("adversarial:1", 4).unwrap_err().to_string().contains("it needs two groups"));
    }

    #[test]
    fn groups_and_rings_are_those_of_the_topology() {
        let dragonfly = Dragonfly::new([3, 6, 3, 19], Arrangement::Consecutive, None).unwrap().build();
        let one = |text: &str, topology: &Topology, position| {
            let (targets, _) = Targets::new(&text.parse().unwrap(), (0..topology.hosts()).collect(), topology, 1).unwrap();
            targets.next(position, &mut 0, &mut stream(7, "test", 0))
        };
        assert_eq!(one("adversarial:1", &dragonfly, 20) / 18, 2, "node 20 is in group 1 of 18 nodes");
        assert_eq!(one("tornado", &dragonfly, 20), 20 + 9 * 18, "ceil(19 / 2) - 1 groups on");
        let parameters = TorusParameters { lengths: vec![5, 4], wrap: true, board: 1, hosts_per_switch: 2, cables: 1, hosts: None };
        let torus = Torus::new(parameters).unwrap().build();
        // Node (4, 1), its second host: x + 2 of 5, y + 1 of 4.
        assert_eq!(one("tornado", &torus, (5 + 4) * 2 + 1), (2 * 5 + 1) * 2 + 1);
        // Planes of the torus: the nodes with the same last coordinate.
        assert_eq!(one("adversarial:1", &torus, 12) / 10, 2, "node 12 is in plane 1 of 10 nodes");
        // In a graph file every switch is a group, in whatever order its hosts come.
        let text = "host a one\nhost b two\nhost c one\nlink one two\n";
        let graph = narrows_topology::graph_file::parse("two", text, None).unwrap();
        assert_eq!([0, 2].map(|host| one("adversarial:1", &graph, host)), [1, 1]);
    }

    fn targets_of(text: &str, position: u32, draws: usize) -> Vec<u32> {
        let (targets, _) = laid(text, 16).unwrap();
        let (mut turn, mut random) = (0, stream(7, "test", u64::from(position)));
        (0..draws).map(|_| targets.next(position, &mut turn, &mut random)).collect()
    }

    #[test]
    fn targets_are_those_of_the_definitions() {
        assert_eq!(targets_of("shift:5", 14, 1), [3]);
        assert_eq!(targets_of("tornado", 10, 1), [1], "10 + 16 / 2 - 1 modulo 16");
        assert_eq!(targets_of("all-to-all", 14, 17), [15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 0]);
        assert!(targets_of("adversarial:3", 5, 200).iter().all(|target| target / 4 == 0), "group 1 + 3 of 4 groups");
        let hot = targets_of("hotspot:0.25,2", 5, 4000).iter().filter(|&&target| target == 0 || target == 8).count();
        // A quarter, and 2 of 15 of the rest: 0.35.
        assert!((1330..1470).contains(&hot), "{hot} of 4000");
        let (_, senders) = laid("incast:5", 16).unwrap();
        assert_eq!(senders, [1, 4, 7, 10, 13]);
    }

    proptest! {
        #[test]
        fn nobody_sends_to_itself_and_permutations_reach_everybody(
            pattern in prop::sample::select(vec!["uniform", "permutation", "tornado", "shift:1", "hotspot:0.5,3", "all-to-all", "adversarial:1"]),
            seed: u64
        ) {
            let (targets, senders) = Targets::new(&pattern.parse().unwrap(), (0..16).collect(), &tree(), seed).unwrap();
            let mut reached = vec![0; 16];
            for &sender in &senders {
                let mut random = stream(seed, "test", u64::from(sender));
                let target = targets.next(sender, &mut 0, &mut random);
                prop_assert!(target < 16 && target != sender);
                reached[target as usize] += 1;
            }
            if ["permutation", "tornado", "shift:1", "all-to-all"].contains(&pattern) {
                prop_assert_eq!(reached, vec![1; 16]);
            }
        }

        #[test]
        fn permutations_of_any_size_have_no_fixed_point(count in 2u32..40, seed: u64) {
            let mut targets = derangement(count, seed);
            prop_assert!(targets.iter().enumerate().all(|(node, &target)| node as u32 != target));
            targets.sort_unstable();
            prop_assert_eq!(targets, (0..count).collect::<Vec<_>>());
        }
    }
}
