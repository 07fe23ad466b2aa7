//! What is wrong with a link, as `network.faults` and `--fault` say it: `link=leaf0:7 loss=1e-4 corrupt=1e-6
//! from=1ms to=2ms`. docs/faults.md has the words.
//!
//! A cable is two links, one in each direction; both have the fault.

use narrows_fabric::{Fault, Fraction, Probability};
use narrows_topology::{FailureError, Topology};
use narrows_units::{Rail, SimTime};

const REROUTE: &str = "it with a switch, or with loss=1 of a link between switches";
const WORDS: &str = "link, switch, nic, gateway, rail, loss, corrupt, silent, duplicate, reorder, by, rate, latency, reroute, from, to";

/// Why such a text is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// Not a word with a value.
    #[error("\"{word}\" in fault \"{text}\"; expected KEY=VALUE with a key of {WORDS}")]
    Word {
        /// The word.
        word: String,
        /// The fault.
        text: String,
    },
    /// A value that the key cannot have.
    #[error("{key}={value} in fault \"{text}\"; expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The fault.
        text: String,
        /// What would do.
        expected: &'static str,
    },
    /// A word that comes twice.
    #[error("{key} twice in fault \"{text}\"")]
    Twice {
        /// The key.
        key: String,
        /// The fault.
        text: String,
    },
    /// Nothing is wrong.
    #[error(
        "fault \"{text}\" does nothing; expected loss, corrupt, silent, duplicate or reorder above 0, rate below 1, latency above 1, a switch or a nic"
    )]
    Nothing {
        /// The fault.
        text: String,
    },
    /// Words that do not go together.
    #[error("{word} in fault \"{text}\"; expected {expected}")]
    Together {
        /// The word.
        word: &'static str,
        /// The fault.
        text: String,
        /// What would do.
        expected: &'static str,
    },
    /// It is over before it begins.
    #[error("fault \"{text}\" ends before it begins")]
    Span {
        /// The fault.
        text: String,
    },
    /// No such cable.
    #[error("fault \"{text}\": {why}")]
    Cable {
        /// The fault.
        text: String,
        /// What there is.
        why: FailureError,
    },
    /// No such node.
    #[error("fault \"{text}\": there is no node {node}: they are 0 to {last}")]
    Node {
        /// The fault.
        text: String,
        /// The node.
        node: u32,
        /// The last one that there is.
        last: u32,
    },
    /// No such gateway.
    #[error("fault \"{text}\": node {node} is no gateway of this machine; gateways are the nodes {there}")]
    Gateway {
        /// The fault.
        text: String,
        /// The node.
        node: u32,
        /// Those that there are.
        there: String,
    },
    /// No such rail.
    #[error("fault \"{text}\": there is no rail {rail}: they are 0 to {last}")]
    Rail {
        /// The fault.
        text: String,
        /// The rail.
        rail: u8,
        /// The last one that there is.
        last: u64,
    },
    /// No links to name.
    #[error("{0}")]
    Topology(String),
}

/// Cables by their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cable {
    Node(u32),
    /// Between two switches.
    Switches(String),
    /// At a port of a switch.
    Port(String),
    /// All of a switch.
    Of(String),
}

/// A fault as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultText {
    text: String,
    pub(crate) cable: Option<Cable>,
    /// On this one alone.
    rail: Option<Rail>,
    fault: Fault,
    /// The node of a gateway that dies, and when.
    pub(crate) dies: Option<(u32, SimTime)>,
}

impl FaultText {
    pub(crate) fn parse(text: &str) -> Result<FaultText, FaultError> {
        let (mut fault, mut cable) = (Fault { late: SimTime::from_us(1), ..Fault::default() }, None);
        let (mut rail, mut gateway, mut seen) = (None, None, Vec::new());
        for word in text.split_whitespace() {
            let no_word = || FaultError::Word { word: word.to_owned(), text: text.to_owned() };
            let (key, value) = word.split_once('=').ok_or_else(no_word)?;
            let wrong = |expected| FaultError::Value { key: key.to_owned(), value: value.to_owned(), text: text.to_owned(), expected };
            let probability = || value.parse().ok().and_then(Probability::new).ok_or_else(|| wrong("a probability from 0 to 1"));
            let time = || value.parse().map_err(|_| wrong("a time with its unit, such as 1ms"));
            let factor = |least: f64, most: f64, expected| match value.parse::<f64>() {
                Ok(factor) if (least..=most).contains(&factor) => Ok(Fraction((factor * 1e6).round() as u32)),
                _ => Err(wrong(expected)),
            };
            match key {
                "link" => {
                    cable = Some(
                        any_cable(value).ok_or_else(|| wrong("two switches, such as 3-17 or 3-17#0, a port, such as leaf0:7, or node5"))?,
                    )
                }
                "switch" => cable = Some(Cable::Of(value.to_owned())),
                "nic" => {
                    let node = value.parse().map_err(|_| wrong("the number of a node"))?;
                    (cable, fault.resets) = (Some(Cable::Node(node)), Some(node));
                }
                "gateway" => gateway = Some(value.parse().map_err(|_| wrong("the number of a node"))?),
                "rail" => rail = Some(Rail(value.parse().map_err(|_| wrong("the number of a rail"))?)),
                "loss" => fault.loss = probability()?,
                "corrupt" => fault.corrupt = probability()?,
                "silent" => fault.silent = probability()?,
                "duplicate" => fault.duplicate = probability()?,
                "reorder" => fault.reorder = probability()?,
                "by" => fault.late = time()?,
                "rate" => fault.rate = factor(0.001, 1.0, "a part of the link's rate, from 0.001 to 1")?,
                "latency" => fault.latency = factor(1.0, 1000.0, "a factor of the link's latency, from 1 to 1000")?,
                "reroute" => fault.reroute = Some(time()?),
                "from" => fault.from = time()?,
                "to" => fault.to = time()?,
                _ => return Err(no_word()),
            }
            if seen.contains(&key) {
                return Err(FaultError::Twice { key: key.to_owned(), text: text.to_owned() });
            }
            seen.push(key);
        }
        let together = |word, expected| Err(FaultError::Together { word, text: text.to_owned(), expected });
        let dies = gateway.map(|node| (node, fault.from));
        if dies.is_some() {
            return match seen.iter().find(|key| !["gateway", "from"].contains(key)) {
                Some(_) => together("more than from", "gateway and from alone"),
                None => Ok(FaultText { text: text.to_owned(), cable, rail, fault, dies }),
            };
        }
        if seen.iter().filter(|key| ["link", "switch", "nic"].contains(key)).count() > 1 {
            return together("two places", "one of link, switch and nic");
        }
        let dead = seen.contains(&"switch") || seen.contains(&"nic");
        if dead && !seen.contains(&"loss") {
            fault.loss = Probability::new(1.0).unwrap_or_default();
        }
        if seen.contains(&"nic") && !seen.contains(&"to") {
            return together("nic without to", "the time at which the NIC is back");
        }
        if seen.contains(&"by") && fault.reorder == Probability::default() {
            return together("by without reorder", "the probability that a packet comes late, such as reorder=1e-3");
        }
        if fault.reroute.is_some() && (fault.loss.value() < 1.0 || matches!(cable, None | Some(Cable::Node(_)))) {
            return together("reroute", REROUTE);
        }
        if !fault.harms() && fault.rate == Fault::default().rate && fault.latency == Fault::default().latency {
            return Err(FaultError::Nothing { text: text.to_owned() });
        }
        if fault.from >= fault.to {
            return Err(FaultError::Span { text: text.to_owned() });
        }
        Ok(FaultText { text: text.to_owned(), cable, rail, fault, dies: None })
    }

    /// It is on this rail, if only one is meant.
    pub(crate) fn is_on(&self, rail: Option<Rail>) -> bool {
        self.rail.is_none_or(|own| rail.is_none_or(|rail| rail == own))
    }

    /// Of so many rails it names one.
    pub(crate) fn check_rail(&self, rails: u64) -> Result<(), FaultError> {
        match self.rail {
            Some(Rail(rail)) if u64::from(rail) >= rails => Err(FaultError::Rail { text: self.text.clone(), rail, last: rails - 1 }),
            _ => Ok(()),
        }
    }

    /// The links that have it, both directions of a cable; a single none for all of them.
    pub(crate) fn links(&self, topology: &Topology) -> Result<Vec<Option<u32>>, FaultError> {
        let text = || self.text.clone();
        let both = |link: u32| [Some(link), Some(topology.links()[link as usize].reverse)];
        let failure = |why| FaultError::Cable { text: text(), why };
        match &self.cable {
            None => Ok(vec![None]),
            Some(Cable::Node(node)) if *node >= topology.hosts() => {
                Err(FaultError::Node { text: text(), node: *node, last: topology.hosts() - 1 })
            }
            Some(Cable::Node(node)) => Ok(both(topology.injection(*node)).to_vec()),
            Some(Cable::Switches(name)) => {
                let cables = topology.cables_named(name).and_then(|named| topology.cables(named)).map_err(failure)?;
                Ok(cables.into_iter().flat_map(both).collect())
            }
            Some(Cable::Port(name)) => {
                let link = topology.port_named(name).map_err(failure)?;
                if self.fault.reroute.is_some() && topology.is_of_host(link) {
                    return Err(FaultError::Together { word: "reroute", text: text(), expected: REROUTE });
                }
                Ok(both(link).to_vec())
            }
            Some(Cable::Of(switch)) => {
                let switch = topology.switch_named(switch).map_err(failure)?;
                if self.fault.reroute.is_some() {
                    topology.check_hosts(switch).map_err(failure)?;
                }
                Ok(topology.outputs(switch).flat_map(both).collect())
            }
        }
    }

    /// It, at a link.
    pub(crate) fn of(&self, link: Option<u32>) -> Fault {
        // Its port sends again, once.
        let resets = self.fault.resets.filter(|&host| link == Some(host));
        Fault { link, resets, ..self.fault }
    }
}

/// None for what can be no name of a cable.
fn any_cable(text: &str) -> Option<Cable> {
    let number = text.strip_prefix("node").and_then(|node| node.parse().ok());
    match number {
        Some(node) => Some(Cable::Node(node)),
        None if text.contains(':') => Some(Cable::Port(text.to_owned())),
        None if text.contains('-') => Some(Cable::Switches(text.to_owned())),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_topology::{FatTree, Vertex};

    #[test]
    fn faults_say_what_they_are() {
        let fault = FaultText::parse("link=3-17#0 loss=1e-4 corrupt=0.5 from=1ms to=2.5ms").unwrap();
        assert_eq!(fault.cable, Some(Cable::Switches("3-17#0".to_owned())));
        let of = fault.of(Some(9));
        assert_eq!((of.link, of.from, of.to), (Some(9), SimTime::from_us(1000), SimTime::from_us(2500)));
        assert!((of.loss.value() - 1e-4).abs() < 1e-15 && of.corrupt.value() == 0.5);
        assert_eq!(FaultText::parse("loss=1").unwrap().cable, None);
        assert!((FaultText::parse("silent=1e-3").unwrap().of(None).silent.value() - 1e-3).abs() < 1e-15);
        let dead = FaultText::parse("switch=3 reroute=20us from=1us").unwrap().of(None);
        assert_eq!((dead.loss.value(), dead.reroute, dead.resets), (1.0, Some(SimTime::from_us(20)), None));
        let of_rail = FaultText::parse("loss=1 rail=2").unwrap();
        assert_eq!([None, Some(Rail(2)), Some(Rail(1))].map(|rail| of_rail.is_on(rail)), [true, true, false]);
        assert_eq!(of_rail.check_rail(3), Ok(()));
        assert_eq!(of_rail.check_rail(2).unwrap_err().to_string(), "fault \"loss=1 rail=2\": there is no rail 2: they are 0 to 1");
        let reset = FaultText::parse("nic=3 from=1us to=2us").unwrap().of(Some(3));
        assert_eq!((reset.loss.value(), reset.resets), (1.0, Some(3)));
        let slow = FaultText::parse("rate=0.25 latency=3 reorder=0.1 by=4us").unwrap().of(None);
        assert_eq!((slow.rate, slow.latency, slow.late), (Fraction(250_000), Fraction(3_000_000), SimTime::from_us(4)));
        for (text, said) in [
            ("loss", "\"loss\" in fault \"loss\"; expected KEY=VALUE with a key of link, switch, nic, gateway, rail, loss, "),
            ("lose=0.1", "\"lose=0.1\" in fault"),
            ("loss=1 rail=first", "rail=first in fault \"loss=1 rail=first\"; expected the number of a rail"),
            ("duplicate=2", "duplicate=2 in fault \"duplicate=2\"; expected a probability from 0 to 1"),
            ("rate=0", "rate=0 in fault \"rate=0\"; expected a part of the link's rate, from 0.001 to 1"),
            ("rate=1 latency=1", "does nothing; expected loss, corrupt, silent, duplicate or reorder above 0"),
            ("latency=0.5", "expected a factor of the link's latency, from 1 to 1000"),
            ("latency=NaN", "expected a factor of the link's latency"),
            ("loss=0.1 by=1us", "by without reorder in fault \"loss=0.1 by=1us\"; expected the probability that a packet comes late"),
            ("switch=1 nic=2", "two places in fault \"switch=1 nic=2\"; expected one of link, switch and nic"),
            ("gateway=x", "gateway=x in fault \"gateway=x\"; expected the number of a node"),
            ("gateway=2 loss=1", "more than from in fault \"gateway=2 loss=1\"; expected gateway and from alone"),
            ("nic=2", "nic without to in fault \"nic=2\"; expected the time at which the NIC is back"),
            (
                "link=0-1 loss=0.5 reroute=1us",
                "reroute in fault \"link=0-1 loss=0.5 reroute=1us\"; expected it with a switch, or with loss=1",
            ),
            ("link=node1 loss=1 reroute=1us", "expected it with a switch, or with loss=1 of a link between switches"),
            ("loss=1.5", "loss=1.5 in fault \"loss=1.5\"; expected a probability from 0 to 1"),
            ("loss=NaN", "expected a probability from 0 to 1"),
            (
                "link=leaf loss=0.1",
                "link=leaf in fault \"link=leaf loss=0.1\"; expected two switches, such as 3-17 or 3-17#0, a port, such as \
             leaf0:7, or node5",
            ),
            ("loss=0.1 from=3", "from=3 in fault \"loss=0.1 from=3\"; expected a time with its unit, such as 1ms"),
            ("loss=0.1 loss=0.2", "loss twice in fault"),
            ("link=node1", "does nothing"),
            ("", "does nothing"),
            ("loss=0.1 from=2ms to=2ms", "ends before it begins"),
        ] {
            let error = FaultText::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn cables_have_two_links() {
        let topology = FatTree::pgft(&[2, 2], &[1, 1], &[1, 2]).unwrap().build();
        let links = |text: &str| FaultText::parse(text).unwrap().links(&topology).map_err(|error| error.to_string());
        assert_eq!(links("loss=1"), Ok(vec![None]));
        let of_node = links("loss=1 link=node3").unwrap();
        assert_eq!(of_node[0], Some(topology.injection(3)));
        assert_eq!(topology.links()[of_node[1].unwrap() as usize].to, Vertex::Host(3));
        let (one, all) = (links("loss=1 link=0-2#1").unwrap(), links("loss=1 link=2-0").unwrap());
        assert_eq!((one.len(), all.len()), (2, 4));
        assert!(one.iter().all(|link| all.contains(link)), "named from either end");
        let named = |text: &str| links(&format!("loss=1 link={text}")).unwrap();
        assert_eq!(named("leaf0-spine0#1"), one, "by its level");
        assert_eq!((named("leaf0:3"), named("0:3"), named("switch0:3")), (one.clone(), one.clone(), one), "by its port");
        assert_eq!(named("leaf1:1"), [of_node[1], of_node[0]]);
        assert_eq!(links("switch=leaf0"), links("switch=0"));
        // Two hosts, and two cables to the switch above.
        assert_eq!(links("switch=0").unwrap().len(), 8);
        for (text, said) in [
            ("switch=9", "fault \"switch=9\": there is no switch 9 to fail: they are leaf0 to leaf1, spine0, or 0 to 2"),
            ("switch=x", "fault \"switch=x\": there is no switch x to fail: they are leaf0 to leaf1, spine0, or 0 to 2"),
            ("link=leaf0:4 loss=1", "fault \"link=leaf0:4 loss=1\": there is no port 4 of switch leaf0: they are 0 to 3"),
            (
                "link=leaf2:0 loss=1",
                "fault \"link=leaf2:0 loss=1\": there is no switch leaf2 to fail: they are leaf0 to leaf1, spine0, or 0 to 2",
            ),
            (
                "link=leaf0:x loss=1",
                "fault \"link=leaf0:x loss=1\": \"leaf0:x\" names no port of a switch; expected such as leaf0:7, with switches leaf0 to leaf1, spine0, or \
                 0 to 2",
            ),
            (
                "link=0:1 loss=1 reroute=1us",
                "reroute in fault \"link=0:1 loss=1 reroute=1us\"; expected it with a switch, or with loss=1 of a link between switches",
            ),
            (
                "switch=0 reroute=1us",
                "fault \"switch=0 reroute=1us\": switch 0 has failed, which cuts off its hosts 0 to 1; leave them out (node.count, \
                 --nodes), or let single links fail",
            ),
            ("link=node4 loss=1", "fault \"link=node4 loss=1\": there is no node 4: they are 0 to 3"),
            ("link=0-1 loss=1", "fault \"link=0-1 loss=1\": there is no cable between switches 0 and 1 to fail: there are 0"),
            ("link=0-9 loss=1", "fault \"link=0-9 loss=1\": there is no switch 9 to fail: they are leaf0 to leaf1, spine0, or 0 to 2"),
            ("link=0-2#2 loss=1", "fault \"link=0-2#2 loss=1\": there is no cable #2 between switches 0 and 2 to fail: there are 2"),
        ] {
            assert_eq!(links(text), Err(said.to_owned()));
        }
    }
}
