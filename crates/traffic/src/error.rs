use crate::pattern::PATTERNS;
use narrows_fabric::ConfigError;
use narrows_fabric::parallel::ProcessError;
use narrows_units::SimTime;

/// Why there is no traffic. One line each, which says what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// No pattern has this name, or its numbers are wrong.
    #[error("pattern \"{text}\": expected {expected}{}", did_you_mean(.text))]
    PatternText {
        /// What was read.
        text: String,
        /// What would be right.
        expected: &'static str,
    },
    /// A pattern that the machine has no room for.
    #[error("pattern {pattern}: {why}")]
    Misfit {
        /// The pattern.
        pattern: String,
        /// What does not fit, and what would.
        why: String,
    },
    /// Not a distribution of sizes.
    #[error("message size \"{text}\": {why}")]
    SizeText {
        /// What was read.
        text: String,
        /// Why.
        why: String,
    },
    /// Not an injection process.
    #[error("injection \"{text}\": expected {expected}")]
    InjectionText {
        /// What was read.
        text: String,
        /// What would be right.
        expected: &'static str,
    },
    /// No node and no range of nodes.
    #[error("\"{part}\" in \"{text}\": expected a node, a range or every STEP-th of it, such as 3, 0-15 or 0-62/2")]
    NodeText {
        /// What was read.
        part: String,
        /// The list that it stands in.
        text: String,
    },
    /// A list of nodes with one of them twice.
    #[error("\"{text}\" has a node twice")]
    NodeTwice {
        /// The list.
        text: String,
    },
    /// A load that is no fraction of a bandwidth.
    #[error("load {load}: a load is a fraction of the injection bandwidth, above 0 and at most 1")]
    Load {
        /// The load.
        load: f64,
    },
    /// A load whose messages nobody will live to see.
    #[error("load {load:e}: expected at least {least:e}")]
    TooLittle {
        /// The load.
        load: f64,
        /// Smallest.
        least: f64,
    },
    /// Bursts cannot make this load.
    #[error("load {load}: bursts at a peak of {peak} make a load of at most {peak}")]
    LoadAbovePeak {
        /// The load.
        load: f64,
        /// Within a burst.
        peak: f64,
    },
    /// Not a list of loads.
    #[error("--load {text}: {why}")]
    LoadText {
        /// What was read.
        text: String,
        /// Why.
        why: String,
    },
    /// Several classes ask for more than the link of a node.
    #[error("classes {classes} together offer {load:.3} of the injection bandwidth of node {node}; at most 1")]
    Overload {
        /// A node where it happens.
        node: u32,
        /// Their sum there.
        load: f64,
        /// Who.
        classes: String,
    },
    /// A mistake in a class of traffic.
    #[error("class {class}: {why}")]
    Class {
        /// Its name or number.
        class: String,
        /// Why.
        why: String,
    },
    /// A mistake in a file.
    #[error("{file}:{line}: {why}")]
    File {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Why.
        why: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {file}: {why}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// Nothing to measure in.
    #[error("--time {time}: the time of measurement must be above 0 and at most {limit}")]
    Time {
        /// What was given.
        time: SimTime,
        /// Longest.
        limit: SimTime,
    },
    /// Options that contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// The network cannot be made.
    #[error(transparent)]
    Network(#[from] ConfigError),
    /// The processes that share a point cannot go on together.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

/// The known pattern nearest to a misspelt one.
fn did_you_mean(text: &str) -> String {
    let name = text.split(':').next().unwrap_or_default();
    let known = PATTERNS.split(", ").map(|known| known.split([':', ' ']).next().unwrap_or_default());
    let nearest = known.map(|known| (distance(name, known), known)).min();
    match nearest {
        Some((1..=2, known)) => format!("; did you mean {known}?"),
        _ => String::new(),
    }
}

/// Levenshtein's.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, &mate) in other.iter().enumerate() {
            let substituted = diagonal + usize::from(letter != mate);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
