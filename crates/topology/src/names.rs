//! What switches and their ports are called: by number, by level where a topology has levels (`leaf3`, `spine0`), or as
//! their graph file calls them.

use crate::failures::{FailedLink, FailureError};
use crate::graph::{LinkId, Topology, Vertex};

/// Names beside the numbers.
#[derive(Clone, Debug, Default)]
pub(crate) enum Names {
    /// None.
    #[default]
    Numbers,
    /// Names of levels, and the level of every switch; it is counted from 0 within its level. Levels above have no
    /// name.
    Levels(&'static [&'static str], Vec<u8>),
    /// One for each switch.
    Own(Vec<String>),
}

/// Of a name such as `leaf3`.
fn number_behind(prefix: &str, text: &str) -> Option<u32> {
    let digits = text.strip_prefix(prefix)?;
    if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse().ok() } else { None }
}

impl Names {
    fn number(&self, text: &str) -> Option<u32> {
        match self {
            Names::Numbers => None,
            Names::Own(names) => names.iter().position(|name| name == text).map(|place| place as u32),
            Names::Levels(names, level_of) => names.iter().enumerate().find_map(|(level, name)| {
                let index = number_behind(name, text)?;
                let mut own = level_of.iter().enumerate().filter(|&(_, &of)| usize::from(of) == level);
                own.nth(index as usize).map(|(switch, _)| switch as u32)
            }),
        }
    }

    /// Those that there are, each with a comma behind it.
    fn list(&self) -> String {
        match self {
            Names::Numbers => String::new(),
            Names::Own(names) if names.len() <= 6 => names.iter().map(|name| format!("{name}, ")).collect(),
            Names::Own(names) => format!("{}, ... {}, ", names[..3].join(", "), names[names.len() - 1]),
            Names::Levels(names, level_of) => {
                let count = |level| level_of.iter().filter(|&&of| usize::from(of) == level).count();
                let of_level = |(level, name): (usize, &&str)| match count(level) {
                    0 => String::new(),
                    1 => format!("{name}0, "),
                    switches => format!("{name}0 to {name}{}, ", switches - 1),
                };
                names.iter().enumerate().map(of_level).collect()
            }
        }
    }
}

impl Topology {
    /// The switch of a name: its number, with or without `switch` in front, or a name of its level or its graph file.
    ///
    /// # Errors
    /// [`FailureError::NoSwitch`], which says what there is.
    pub fn switch_named(&self, text: &str) -> Result<u32, FailureError> {
        let number = || number_behind("switch", text).or_else(|| number_behind("", text));
        let own = || number().filter(|&switch| switch < self.switches());
        // A graph file may call a switch `switch1`, but numbers are numbers.
        let named = number_behind("", text).is_none().then(|| self.names.number(text)).flatten();
        named.or_else(own).ok_or_else(|| FailureError::NoSwitch { switch: text.to_owned(), names: self.switch_names() })
    }

    /// The names of all switches in a few words: `leaf0 to leaf3, spine0 to spine3, or 0 to 7`.
    pub fn switch_names(&self) -> String {
        let last = self.switches() - 1;
        let numbers = if last == 0 { String::from("0") } else { format!("0 to {last}") };
        match self.names.list() {
            none if none.is_empty() => numbers,
            list => format!("{list}or {numbers}"),
        }
    }

    /// The cables of a name: `3-17` or `leaf3-spine1`, with the number of one of several: `3-17#0`.
    ///
    /// # Errors
    /// [`FailureError::Name`], [`FailureError::NoSwitch`].
    pub fn cables_named(&self, text: &str) -> Result<FailedLink, FailureError> {
        let no_name = || FailureError::Name { text: text.to_owned(), names: self.switch_names() };
        let (ends, cable) = match text.rsplit_once('#') {
            Some((ends, cable)) => (ends, Some(cable.trim().parse().map_err(|_| no_name())?)),
            None => (text, None),
        };
        // A name of a graph file may have a dash itself.
        let mut first_error = no_name();
        for (count, (dash, _)) in ends.match_indices('-').enumerate() {
            let switch = |text: &str| self.switch_named(text.trim());
            match (switch(&ends[..dash]), switch(&ends[dash + 1..])) {
                (Ok(one), Ok(other)) => return Ok(FailedLink { between: [one, other], cable }),
                (Err(error), _) | (_, Err(error)) if count == 0 => first_error = error,
                _ => {}
            }
        }
        Err(first_error)
    }

    /// The link out of a port: `leaf0:7`, or `3:7`.
    ///
    /// # Errors
    /// [`FailureError::PortName`], [`FailureError::NoSwitch`], [`FailureError::NoPort`].
    pub fn port_named(&self, text: &str) -> Result<LinkId, FailureError> {
        let no_name = || FailureError::PortName { text: text.to_owned(), names: self.switch_names() };
        let (name, port) = text.rsplit_once(':').ok_or_else(no_name)?;
        let port: u32 = port.trim().parse().map_err(|_| no_name())?;
        let switch = self.switch_named(name.trim())?;
        let mut outputs = self.outputs(switch);
        let no_port = FailureError::NoPort { switch: name.trim().to_owned(), port, ports: outputs.len() as u32 };
        outputs.nth(port as usize).ok_or(no_port)
    }

    /// Whether a link is one of a host.
    pub fn is_of_host(&self, link: LinkId) -> bool {
        let link = &self.links()[link as usize];
        matches!(link.from, Vertex::Host(_)) || matches!(link.to, Vertex::Host(_))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arrangement, Dragonfly, DragonflyPlus, DragonflyPlusParameters, FatTree, Topology, Vertex, graph_file};

    fn switches(topology: &Topology, names: &[&str]) -> Vec<u32> {
        names.iter().map(|name| topology.switch_named(name).unwrap()).collect()
    }

    #[test]
    fn levels_of_a_tree_have_names() {
        let tree = FatTree::k_ary_n_tree(4, 2).unwrap().build();
        assert_eq!(switches(&tree, &["leaf0", "leaf3", "spine0", "spine3", "switch5", "5"]), [0, 3, 4, 7, 5, 5]);
        assert_eq!(tree.switch_names(), "leaf0 to leaf3, spine0 to spine3, or 0 to 7");
        // Ports to children come first: the node 1, and the second spine.
        let end = |port: &str| tree.links()[tree.port_named(port).unwrap() as usize].to;
        assert_eq!([end("leaf0:1"), end("leaf0:5"), end("4:3")], [Vertex::Host(1), Vertex::Switch(5), Vertex::Switch(3)]);
        assert_eq!(tree.cables_named("leaf3-spine1").unwrap().between, [3, 5]);
        assert_eq!(tree.cables_named("spine1-3#0").unwrap().cable, Some(0));
        for (said, text) in [
            (tree.port_named("leaf0:8").unwrap_err(), "there is no port 8 of switch leaf0: they are 0 to 7"),
            (
                tree.port_named("leaf4:0").unwrap_err(),
                "there is no switch leaf4 to fail: they are leaf0 to leaf3, spine0 to spine3, or 0 to 7",
            ),
            (
                tree.cables_named("3-core0").unwrap_err(),
                "there is no switch core0 to fail: they are leaf0 to leaf3, spine0 to spine3, or 0 to 7",
            ),
        ] {
            assert_eq!(said.to_string(), text);
        }
        let three = FatTree::k_ary_n_tree(2, 3).unwrap().build();
        assert_eq!(switches(&three, &["leaf3", "spine0", "core0", "core3"]), [3, 4, 8, 11]);
        let four = FatTree::k_ary_n_tree(2, 4).unwrap().build();
        assert_eq!(four.switch_names(), "leaf0 to leaf7, spine0 to spine7, core0 to core7, or 0 to 31");
    }

    #[test]
    fn groups_have_routers_or_leaves_and_spines() {
        let dragonfly = Dragonfly::new([2, 4, 2, 9], Arrangement::Consecutive, None).unwrap().build();
        assert_eq!(dragonfly.switch_names(), "router0 to router35, or 0 to 35");
        let parameters = DragonflyPlusParameters {
            groups: 3,
            leaves: 2,
            spines: 2,
            hosts_per_leaf: 2,
            global_links: 2,
            cables: 1,
            arrangement: Arrangement::Consecutive,
            hosts: None,
        };
        let plus = DragonflyPlus::new(parameters).unwrap().build();
        // Leaves and spines of a group take turns.
        assert_eq!(switches(&plus, &["leaf0", "leaf1", "spine0", "leaf2", "spine5"]), [0, 1, 2, 4, 11]);
        // A machine with failures has them too.
        let failed = dragonfly.with_failures(&[], &[]).unwrap();
        assert_eq!(failed.switch_named("router35"), Ok(35));
    }

    #[test]
    fn a_graph_file_has_its_own() {
        let graph = graph_file::parse("g", "hosts rack-1 2\nhosts rack-2 2\nlink rack-1 rack-2 x2\nlink rack-2 10\n", None).unwrap();
        assert_eq!(switches(&graph, &["rack-1", "rack-2", "1", "switch0"]), [0, 1, 1, 0]);
        assert_eq!(graph.cables_named("rack-2-rack-1#1").unwrap().between, [1, 0]);
        assert_eq!(graph.switch_names(), "rack-1, rack-2, 10, or 0 to 2");
        let said = graph.switch_named("10").unwrap_err().to_string();
        assert!(said.starts_with("there is no switch 10 to fail: they are rack-1"), "numbers are numbers: {said}");
    }
}
