//! What is wrong with a link, as `network.faults` and `--fault` say it: `link=3-17#0 loss=1e-4 corrupt=1e-6 from=1ms
//! to=2ms`.
//!
//! | word | what | without it |
//! |---|---|---|
//! | `link` | `3-17`: all cables between these switches; `3-17#0`: the first of them; `node5`: that of a node | all links |
//! | `loss` | the probability that a packet is lost | 0 |
//! | `corrupt` | the probability that a packet arrives broken, and is dropped there | 0 |
//! | `from`, `to` | when | always |
//!
//! A cable is two links, one in each direction; both have the fault.

use narrows_fabric::{Fault, Probability};
use narrows_topology::{FailedLink, FailureError, Topology};
use narrows_units::SimTime;

const WORDS: &str = "link, loss, corrupt, from, to";

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
    /// Neither loses nor breaks anything.
    #[error("fault \"{text}\" does nothing; expected loss or corrupt above 0")]
    Nothing {
        /// The fault.
        text: String,
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
    /// No links to name.
    #[error("{0}")]
    Topology(String),
}

/// A cable by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cable {
    Node(u32),
    Switches(FailedLink),
}

/// A fault as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultText {
    text: String,
    pub(crate) cable: Option<Cable>,
    loss: Probability,
    corrupt: Probability,
    from: SimTime,
    to: SimTime,
}

impl FaultText {
    pub(crate) fn parse(text: &str) -> Result<FaultText, FaultError> {
        let mut fault = FaultText {
            text: text.to_owned(),
            cable: None,
            loss: Probability::default(),
            corrupt: Probability::default(),
            from: SimTime::ZERO,
            to: SimTime::MAX,
        };
        let mut seen = Vec::new();
        for word in text.split_whitespace() {
            let no_word = || FaultError::Word { word: word.to_owned(), text: text.to_owned() };
            let (key, value) = word.split_once('=').ok_or_else(no_word)?;
            let wrong = |expected| FaultError::Value { key: key.to_owned(), value: value.to_owned(), text: text.to_owned(), expected };
            let probability = || value.parse().ok().and_then(Probability::new).ok_or_else(|| wrong("a probability from 0 to 1"));
            let time = || value.parse().map_err(|_| wrong("a time with its unit, such as 1ms"));
            match key {
                "link" => fault.cable = Some(any_cable(value).ok_or_else(|| wrong("two switches, such as 3-17 or 3-17#0, or node5"))?),
                "loss" => fault.loss = probability()?,
                "corrupt" => fault.corrupt = probability()?,
                "from" => fault.from = time()?,
                "to" => fault.to = time()?,
                _ => return Err(no_word()),
            }
            if seen.contains(&key) {
                return Err(FaultError::Twice { key: key.to_owned(), text: text.to_owned() });
            }
            seen.push(key);
        }
        if fault.loss == Probability::default() && fault.corrupt == Probability::default() {
            return Err(FaultError::Nothing { text: text.to_owned() });
        }
        if fault.from >= fault.to {
            return Err(FaultError::Span { text: text.to_owned() });
        }
        Ok(fault)
    }

    /// The links that have it, both directions of a cable; a single none for all of them.
    pub(crate) fn links(&self, topology: &Topology) -> Result<Vec<Option<u32>>, FaultError> {
        let text = || self.text.clone();
        let both = |link: u32| [Some(link), Some(topology.links()[link as usize].reverse)];
        match self.cable {
            None => Ok(vec![None]),
            Some(Cable::Node(node)) if node >= topology.hosts() => Err(FaultError::Node { text: text(), node, last: topology.hosts() - 1 }),
            Some(Cable::Node(node)) => Ok(both(topology.injection(node)).to_vec()),
            Some(Cable::Switches(named)) => {
                let cables = topology.cables(named).map_err(|why| FaultError::Cable { text: text(), why })?;
                Ok(cables.into_iter().flat_map(both).collect())
            }
        }
    }

    /// It, at a link.
    pub(crate) fn of(&self, link: Option<u32>) -> Fault {
        Fault { link, loss: self.loss, corrupt: self.corrupt, from: self.from, to: self.to }
    }
}

fn any_cable(text: &str) -> Option<Cable> {
    match text.strip_prefix("node") {
        Some(node) => Some(Cable::Node(node.parse().ok()?)),
        None => Some(Cable::Switches(cable(text).ok()?)),
    }
}

/// `"3-17"` or `"3-17#0"`.
pub(crate) fn cable(text: &str) -> Result<FailedLink, FailureError> {
    let parsed = || {
        let (ends, cable) = match text.split_once('#') {
            Some((ends, cable)) => (ends, Some(cable.trim().parse().ok()?)),
            None => (text, None),
        };
        let (one, other) = ends.split_once('-')?;
        Some(FailedLink { between: [one.trim().parse().ok()?, other.trim().parse().ok()?], cable })
    };
    parsed().ok_or_else(|| FailureError::Name { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_topology::{FatTree, Vertex};

    #[test]
    fn faults_say_what_they_are() {
        let fault = FaultText::parse("link=3-17#0 loss=1e-4 corrupt=0.5 from=1ms to=2.5ms").unwrap();
        assert_eq!(fault.cable, Some(Cable::Switches(FailedLink { between: [3, 17], cable: Some(0) })));
        let of = fault.of(Some(9));
        assert_eq!((of.link, of.from, of.to), (Some(9), SimTime::from_us(1000), SimTime::from_us(2500)));
        assert!((of.loss.value() - 1e-4).abs() < 1e-15 && of.corrupt.value() == 0.5);
        assert_eq!(FaultText::parse("loss=1").unwrap().cable, None);
        for (text, said) in [
            ("loss", "\"loss\" in fault \"loss\"; expected KEY=VALUE with a key of link, loss, corrupt, from, to"),
            ("duplicate=0.1", "\"duplicate=0.1\" in fault"),
            ("loss=1.5", "loss=1.5 in fault \"loss=1.5\"; expected a probability from 0 to 1"),
            ("loss=NaN", "expected a probability from 0 to 1"),
            ("link=leaf loss=0.1", "link=leaf in fault \"link=leaf loss=0.1\"; expected two switches, such as 3-17 or 3-17#0, or node5"),
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
        for (text, said) in [
            ("link=node4 loss=1", "fault \"link=node4 loss=1\": there is no node 4: they are 0 to 3"),
            ("link=0-1 loss=1", "fault \"link=0-1 loss=1\": there is no cable between switches 0 and 1 to fail: there are 0"),
            ("link=0-9 loss=1", "fault \"link=0-9 loss=1\": there is no switch 9 to fail: they are 0 to 2"),
            ("link=0-2#2 loss=1", "fault \"link=0-2#2 loss=1\": there is no cable #2 between switches 0 and 2 to fail: there are 2"),
        ] {
            assert_eq!(links(text), Err(said.to_owned()));
        }
    }
}
