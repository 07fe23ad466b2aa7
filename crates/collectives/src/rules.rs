//! Which algorithm for which operation, size and communicator.
//!
//! A table is text, one rule per line, tried from the top; `#` starts a comment:
//!
//! ```text
//! bcast <8: binomial
//! bcast *: binomial <12288, scatter-allgather
//! allgather odd total *: bruck <81920, ring
//! alltoall *: bruck <257, linear/32 <32769, pairwise
//! reduce *: chain/65536
//! ```
//!
//! * The operation; then `odd` if the rule is for numbers of ranks that are no power of two only; then `total` if its
//!   sizes are those of all ranks together (else as in [`Schedule::new`]); then the number of ranks, `<N` or `*`.
//! * Algorithms, each up to a size in bytes, the last one for all that is longer. Behind a `/`: the segments of a tree
//!   in bytes, the base of a k-nomial one, how many exchanges a linear all-to-all has open at once, or the ranks of a
//!   group (hierarchical). `blocking` before a tree: a rank serves one child after the other. `ahead` before that of a
//!   reduction: it posts the receive from the next one before it waits for that from the one before. `apart` before
//!   that of a gather: blocks are copied together and apart ([`Schedule::apart`]).
//! * A line `sends: delivered` alone: see [`Rules::sends_until_delivered`].

use crate::{Algorithm, Children, Operation, Schedule, ScheduleError};
use narrows_units::Bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Open MPI's decisions; see the head of the file.
pub const OPEN_MPI: &str = include_str!("../rules/openmpi.txt");
/// MPICH's; see the head of the file.
pub const MPICH: &str = include_str!("../rules/mpich.txt");
/// Those of MPICH 3; see the head of the file.
pub const MPICH_3: &str = include_str!("../rules/mpich3.txt");

/// How an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// What stands behind the `/`: segment, base, batch or group, 0 if nothing.
    pub parameter: u64,
    /// How trees serve their children.
    pub children: Children,
    /// See [`Schedule::apart`].
    pub apart: bool,
}

impl From<Algorithm> for Choice {
    fn from(algorithm: Algorithm) -> Choice {
        Choice { algorithm, parameter: 0, children: Children::default(), apart: false }
    }
}

impl Choice {
    /// The schedule.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    pub fn schedule(self, operation: Operation, ranks: u32, root: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
        let schedule = Schedule::new(operation, self.algorithm, ranks, root, bytes)?.children(self.children).apart(self.apart);
        let parameter = u32::try_from(self.parameter);
        Ok(if self.algorithm == Algorithm::Hierarchical {
            schedule.grouped(parameter.unwrap_or(0))
        } else if self.algorithm == Algorithm::Knomial && self.parameter > 0 {
            schedule.base(parameter.unwrap_or(u32::MAX))
        } else if operation == Operation::Alltoall {
            schedule.batched(parameter.unwrap_or(u32::MAX))
        } else {
            schedule.segmented(Bytes(self.parameter))
        })
    }
}

#[derive(Clone, Debug)]
struct Rule {
    odd: bool,
    total: bool,
    /// For fewer ranks than this.
    ranks: u32,
    choices: Vec<(Choice, u64)>,
}

/// A table of rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: BTreeMap<Operation, Vec<Rule>>,
    sends_until_delivered: bool,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RuleError {
    /// From 1.
    pub line: usize,
    /// What, and what was expected.
    pub problem: RuleProblem,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleProblem {
    /// A piece of it is not there.
    #[error("expected {0}")]
    Missing(&'static str),
    /// A word of it is something else.
    #[error("{word:?}: expected {expected}")]
    Word {
        /// As it stands there.
        word: String,
        /// What would be right.
        expected: Cow<'static, str>,
    },
    /// No such operation or algorithm, or one that does not do the other.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

impl Rules {
    /// One of them may choose `algorithm`.
    pub fn use_algorithm(&self, algorithm: Algorithm) -> bool {
        self.rules.values().flatten().flat_map(|rule| &rule.choices).any(|(choice, _)| choice.algorithm == algorithm)
    }

    /// The longest of such an operation that the rules give to `algorithm`, if they give it all shorter ones, too.
    pub fn longest(&self, algorithm: Algorithm, operation: Operation, ranks: u32) -> Option<Bytes> {
        let rules = self.rules.get(&operation)?.iter();
        let last = |rule: &Rule, below: u64| below.saturating_sub(1) / if rule.total { u64::from(ranks.max(1)) } else { 1 };
        let mut sizes: Vec<u64> = rules.flat_map(|rule| rule.choices.iter().map(|&(_, below)| last(rule, below))).collect();
        sizes.sort_unstable();
        let chosen = |bytes: &u64| self.choose(operation, ranks, Bytes(*bytes), Bytes(0)).algorithm == algorithm;
        sizes.into_iter().take_while(chosen).last().map(Bytes)
    }

    /// A long send, of any kind, is over when its data are in the memory of the receiver; else when its buffer is free.
    pub fn sends_until_delivered(&self) -> bool {
        self.sends_until_delivered
    }

    /// Reads a table.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Rules, RuleError> {
        let mut rules = Rules::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line == "sends: delivered" {
                rules.sends_until_delivered = true;
            } else if !line.is_empty() {
                let (operation, rule) = parse_rule(line).map_err(|problem| RuleError { line: index + 1, problem })?;
                rules.rules.entry(operation).or_default().push(rule);
            }
        }
        Ok(rules)
    }

    /// How `operation` is done among `ranks`; `bytes` as in [`Schedule::new`], with elements of `element` bytes (0: not
    /// known). Without a rule: Bruck's algorithm for an allgather, recursive doubling for an allreduce and a barrier,
    /// else what comes first in [`Algorithm::ALL`].
    pub fn choose(&self, operation: Operation, ranks: u32, bytes: Bytes, element: Bytes) -> Choice {
        self.choose_among(|_| true, operation, ranks, bytes, element)
    }

    /// The same, but for choices of `but`: as if they were not there.
    pub fn choose_but(&self, but: Algorithm, operation: Operation, ranks: u32, bytes: Bytes, element: Bytes) -> Choice {
        self.choose_among(|algorithm| algorithm != but, operation, ranks, bytes, element)
    }

    /// The schedule of what has been chosen. A reduce-scatter by a reduction to rank 0 is that reduction as the rules
    /// have it, and then the scatter.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    pub fn schedule(
        &self,
        choice: Choice,
        operation: Operation,
        (ranks, root): (u32, u32),
        bytes: Bytes,
        element: Bytes,
    ) -> Result<Schedule, ScheduleError> {
        let stage = |operation, bytes| {
            let choice = self.choose(operation, ranks, bytes, element);
            Ok::<_, ScheduleError>(choice.schedule(operation, ranks, 0, bytes)?.elements(element))
        };
        // An empty schedule of the operation would have nothing to say of one rank alone.
        let (whole, scatter) = match (operation, choice.algorithm) {
            _ if ranks == 1 => return choice.schedule(operation, ranks, root, bytes),
            (Operation::ReduceScatterBlock, Algorithm::ReduceThenRoot) => {
                let whole = bytes.checked_mul(u64::from(ranks)).map_err(|excess| ScheduleError::Size { ranks, bytes: bytes.0, excess })?;
                (whole, stage(Operation::Scatter, bytes)?)
            }
            // Its scatter is MPI_Scatterv, of parts that may differ.
            (Operation::ReduceScatter, Algorithm::ReduceThenRoot) => {
                let linear = Choice { children: choice.children, ..Choice::from(Algorithm::Linear) };
                (bytes, linear.schedule(Operation::Scatter, ranks, 0, Bytes(0))?.total(bytes).elements(element))
            }
            (Operation::Allreduce, Algorithm::Linear) => {
                let reduce = choice.schedule(Operation::Reduce, ranks, 0, bytes)?;
                return Ok(reduce.then(Schedule::new(Operation::Broadcast, Algorithm::Linear, ranks, 0, bytes)?));
            }
            _ => return Ok(choice.schedule(operation, ranks, root, bytes)?.elements(element)),
        };
        Ok(stage(Operation::Reduce, whole)?.then(scatter))
    }

    fn choose_among(&self, wanted: impl Fn(Algorithm) -> bool, operation: Operation, ranks: u32, bytes: Bytes, element: Bytes) -> Choice {
        let Bytes(bytes) = bytes;
        let rules = self.rules.get(&operation).map_or(&[][..], Vec::as_slice);
        let mut needs_power = false;
        for rule in rules.iter().filter(|rule| ranks < rule.ranks && !(rule.odd && ranks.is_power_of_two())) {
            let size = if rule.total { bytes.saturating_mul(u64::from(ranks)) } else { bytes };
            let chosen = rule.choices.iter().find(|(_, below)| size < *below);
            // Where an algorithm needs a power of two, only a rule for other numbers says what is done without.
            if let Some((choice, _)) = chosen.filter(|(choice, _)| wanted(choice.algorithm) && (rule.odd || !needs_power)) {
                if choice.algorithm.check(operation, ranks).is_ok() {
                    return short_of_elements(*choice, operation, ranks, bytes / element.0.max(1)).unwrap_or(*choice);
                }
                needs_power = true;
            }
        }
        // Recursive doubling of a number of ranks that is no power of two: both libraries take Bruck's algorithm then.
        let usual = match operation {
            Operation::Allgather => Some(Algorithm::Bruck),
            Operation::Allreduce | Operation::Barrier => Some(Algorithm::RecursiveDoubling),
            _ => None,
        };
        let algorithm = usual.into_iter().chain(Algorithm::ALL).find(|algorithm| algorithm.check(operation, ranks).is_ok());
        let algorithm = algorithm.unwrap_or(Algorithm::Linear);
        Choice::from(algorithm)
    }
}

/// What the libraries do with a vector of fewer elements than there are parts: they cut it between elements.
fn short_of_elements(choice: Choice, operation: Operation, ranks: u32, elements: u64) -> Option<Choice> {
    let power = 1 << ranks.ilog2();
    let blocking = |algorithm| Choice { children: Children::OneByOne, ..Choice::from(algorithm) };
    match (operation, choice.algorithm) {
        (Operation::Allreduce, Algorithm::Ring | Algorithm::Hierarchical) if elements < u64::from(ranks) => {
            Some(Algorithm::RecursiveDoubling.into())
        }
        // MPICH's rules count<pow2, and Open MPI's ompi_coll_base_*_redscat_*.
        (Operation::Allreduce, Algorithm::Rabenseifner) if elements < power => Some(Algorithm::RecursiveDoubling.into()),
        (Operation::Reduce, Algorithm::Rabenseifner) if elements < power => Some(blocking(Algorithm::Binomial)),
        (Operation::Allreduce | Operation::Reduce, Algorithm::RabenseifnerHalves) if elements < power => Some(blocking(Algorithm::Linear)),
        _ => None,
    }
}

fn wrong(word: &str, expected: impl Into<Cow<'static, str>>) -> RuleProblem {
    RuleProblem::Word { word: word.to_owned(), expected: expected.into() }
}

fn parse_rule(line: &str) -> Result<(Operation, Rule), RuleProblem> {
    let (head, choices) =
        line.split_once(':').ok_or(RuleProblem::Missing("OPERATION RANKS: ALGORITHM ..., as in \"bcast *: binomial\""))?;
    let mut words = head.split_whitespace();
    let operation: Operation = words.next().unwrap_or_default().parse()?;
    let mut rule = Rule { odd: false, total: false, ranks: 0, choices: parse_choices(operation, choices)? };
    for word in words {
        match word {
            "odd" => rule.odd = true,
            "total" => rule.total = true,
            "*" => rule.ranks = u32::MAX,
            _ => {
                let number = word.strip_prefix('<').and_then(|number| number.parse().ok());
                rule.ranks = number.ok_or_else(|| wrong(word, "odd, total, *, or a number of ranks as in <64"))?;
            }
        }
    }
    if rule.ranks == 0 {
        return Err(RuleProblem::Missing("the number of ranks before the colon: * or, for example, <64"));
    }
    Ok((operation, rule))
}

fn parse_choices(operation: Operation, text: &str) -> Result<Vec<(Choice, u64)>, RuleProblem> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let mut choices = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let (algorithm, below) = match part.split_once('<') {
            Some((algorithm, below)) => {
                let below = below.trim();
                (algorithm.trim(), below.parse().map_err(|_| wrong(below, "a number of bytes behind <"))?)
            }
            None if index + 1 == parts.len() => (*part, u64::MAX),
            None => return Err(wrong(part, format!("a size, as in {part} <1024: only the last algorithm has none"))),
        };
        let (mut algorithm, mut children, mut apart) = (algorithm, Children::Together, false);
        while let Some((word, rest)) = algorithm.split_once(' ') {
            match word {
                "blocking" => children = Children::OneByOne,
                "ahead" => children = Children::OneAhead,
                "apart" => apart = true,
                _ => break,
            }
            algorithm = rest.trim_start();
        }
        let (name, parameter) = match algorithm.split_once('/') {
            Some((name, number)) => (name, number.parse().map_err(|_| wrong(algorithm, "a number behind /"))?),
            None => (algorithm, 0),
        };
        let algorithm: Algorithm = name.parse()?;
        if !algorithm.does(operation) {
            return Err(ScheduleError::Algorithm { operation, algorithm }.into());
        }
        choices.push((Choice { algorithm, parameter, children, apart }, below));
    }
    if choices.last().is_none_or(|(_, below)| *below != u64::MAX) {
        return Err(RuleProblem::Missing("a last algorithm without a size, for all longer messages"));
    }
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(rules: &Rules, operation: Operation, ranks: u32, bytes: u64) -> &'static str {
        rules.choose(operation, ranks, Bytes(bytes), Bytes(0)).algorithm.name()
    }

    #[test]
    fn the_tables_are_complete_and_choose_what_is_possible() {
        for table in [OPEN_MPI, MPICH, MPICH_3] {
            let rules = Rules::parse(table).unwrap();
            for operation in Operation::ALL {
                assert!(rules.rules.contains_key(&operation), "{operation}");
                for ranks in (1..200).chain([256, 511, 512, 1000, 4096, 32_768]) {
                    for bytes in (0..30).map(|shift| 1 << shift).chain([0]) {
                        let choice = rules.choose(operation, ranks, Bytes(bytes), Bytes(0));
                        let schedule = rules.schedule(choice, operation, (ranks, 0), Bytes(bytes), Bytes(0));
                        assert!(schedule.is_ok(), "{operation} {ranks} {bytes}");
                    }
                }
            }
        }
    }

    /// Values read off the sources by hand: operation, ranks, bytes, bytes of an element.
    #[test]
    fn chooses_as_the_libraries_do() {
        use Operation::*;
        let open_mpi = Rules::parse(OPEN_MPI).unwrap();
        let mpich = Rules::parse(MPICH).unwrap();
        for (rules, operation, ranks, bytes, element, algorithm) in [
            (&open_mpi, Allreduce, 16, 8, 0, "recursive-doubling"),
            (&open_mpi, Allreduce, 16, 32, 1, "ring"),
            // 8 elements on 16 ranks are too few for a ring.
            (&open_mpi, Allreduce, 16, 32, 4, "recursive-doubling"),
            (&open_mpi, Allreduce, 16, 64, 0, "recursive-doubling"),
            (&open_mpi, Allreduce, 64, 1 << 20, 8, "rabenseifner-halves"),
            // 20 doubles on 64 ranks: linear there; on 40 ranks 32 are enough.
            (&open_mpi, Allreduce, 40, 160, 8, "linear"),
            (&open_mpi, Allreduce, 40, 256, 8, "rabenseifner-halves"),
            (&open_mpi, Allgather, 6, 8, 0, "bruck"),
            (&open_mpi, Allgather, 40, 2000, 0, "neighbour-exchange"),
            (&open_mpi, Scatter, 16, 16_384, 0, "linear"),
            (&open_mpi, ReduceScatter, 40, 4096, 8, "butterfly"),
            (&open_mpi, ReduceScatterBlock, 10, 600_000, 8, "reduce-then-root"),
            (&mpich, Broadcast, 7, 1 << 20, 0, "binomial"),
            (&mpich, Broadcast, 16, 12_288, 0, "binomial"),
            (&mpich, Broadcast, 16, 12_289, 0, "scatter-doubling"),
            (&mpich, Broadcast, 12, 12_289, 0, "scatter-allgather"),
            (&mpich, Broadcast, 16, 524_289, 0, "scatter-allgather"),
            (&mpich, Allreduce, 4, 8, 8, "recursive-doubling"),
            (&mpich, Allreduce, 4, 40, 8, "rabenseifner"),
            (&mpich, Allreduce, 8, 40, 8, "recursive-doubling"),
            (&mpich, Reduce, 8, 2049, 1, "rabenseifner"),
            (&mpich, Allgather, 16, 8, 0, "recursive-doubling"),
            (&mpich, Allgather, 12, 8, 0, "bruck"),
            (&mpich, Allgather, 12, 10_000, 0, "ring"),
        ] {
            let choice = rules.choose(operation, ranks, Bytes(bytes), Bytes(element));
            assert_eq!(choice.algorithm.name(), algorithm, "{operation} of {bytes} B, elements of {element} B, on {ranks} ranks");
        }
        let linear = Choice { parameter: 32, ..Algorithm::Linear.into() };
        assert_eq!(mpich.choose(Alltoall, 64, Bytes(1000), Bytes(0)), linear);
        assert_eq!(open_mpi.choose(Scatter, 15, Bytes(1 << 20), Bytes(0)).children, Children::OneByOne);
        assert_eq!(open_mpi.choose(Reduce, 40, Bytes(8), Bytes(8)).children, Children::OneAhead);
    }

    #[test]
    fn earlier_rules_come_first() {
        let rules = Rules::parse(&format!("bcast *: chain/4096 <100000, binary\n{MPICH}")).unwrap();
        let chain = Choice { parameter: 4096, ..Algorithm::Chain.into() };
        assert_eq!(rules.choose(Operation::Broadcast, 64, Bytes(50_000), Bytes(0)), chain);
        assert_eq!(name(&rules, Operation::Scan, 64, 1), "recursive-doubling");
    }

    #[test]
    fn the_longest_of_an_algorithm_is_below_the_first_of_another() {
        let longest = |rules: &str| {
            let rules = Rules::parse(&format!("{rules}\n{MPICH}")).unwrap();
            rules.longest(Algorithm::ExanetAccelerator, Operation::Allreduce, 16)
        };
        assert_eq!(longest("allreduce *: exanet-accelerator <4097, recursive-doubling"), Some(Bytes(4096)));
        assert_eq!(longest("allreduce *: exanet-accelerator"), Some(Bytes(u64::MAX - 1)));
        assert_eq!(longest("allreduce total *: exanet-accelerator <4097, ring"), Some(Bytes(256)));
        assert_eq!(longest("allreduce *: ring <8, exanet-accelerator"), None);
        assert_eq!(longest("bcast *: binary"), None);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("bcast", "line 1: expected OPERATION"),
            ("# x\nbcst *: binomial", "line 2: unknown operation"),
            ("bcast 8: binomial", "line 1: \"8\": expected odd, total"),
            ("bcast: binomial", "line 1: expected the number of ranks"),
            ("bcast *: binomial, chain", "line 1: \"binomial\": expected a size"),
            ("bcast *: binomial <8", "line 1: expected a last algorithm"),
            ("bcast *: chain/x", "line 1: \"chain/x\": expected a number"),
            ("bcast *: ring", "line 1: ring does no bcast"),
        ] {
            let error = Rules::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }
}
