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
//!   in bytes, how many exchanges a linear all-to-all has open at once, or the ranks of a group (hierarchical).

use crate::{Algorithm, Operation, Schedule, ScheduleError};
use narrows_units::Bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Open MPI's decisions; see the head of the file.
pub const OPEN_MPI: &str = include_str!("../rules/openmpi.txt");
/// MPICH's; see the head of the file.
pub const MPICH: &str = include_str!("../rules/mpich.txt");

/// How an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// What stands behind the `/`: segment, batch or group, 0 if nothing.
    pub parameter: u64,
}

impl Choice {
    /// The schedule.
    ///
    /// # Errors
    /// See [`ScheduleError`].
    pub fn schedule(self, operation: Operation, ranks: u32, root: u32, bytes: Bytes) -> Result<Schedule, ScheduleError> {
        let schedule = Schedule::new(operation, self.algorithm, ranks, root, bytes)?;
        Ok(if self.algorithm == Algorithm::Hierarchical {
            schedule.grouped(u32::try_from(self.parameter).unwrap_or(0))
        } else if operation == Operation::Alltoall {
            schedule.batched(u32::try_from(self.parameter).unwrap_or(u32::MAX))
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

    /// Reads a table.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Rules, RuleError> {
        let mut rules = Rules::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let (operation, rule) = parse_rule(line).map_err(|problem| RuleError { line: index + 1, problem })?;
                rules.rules.entry(operation).or_default().push(rule);
            }
        }
        Ok(rules)
    }

    /// How `operation` is done among `ranks`; `bytes` as in [`Schedule::new`]. Without a rule: the algorithm that comes
    /// first in [`Algorithm::ALL`].
    pub fn choose(&self, operation: Operation, ranks: u32, bytes: Bytes) -> Choice {
        self.choose_among(|_| true, operation, ranks, bytes)
    }

    /// The same, but for choices of `but`: as if they were not there.
    pub fn choose_but(&self, but: Algorithm, operation: Operation, ranks: u32, bytes: Bytes) -> Choice {
        self.choose_among(|algorithm| algorithm != but, operation, ranks, bytes)
    }

    fn choose_among(&self, wanted: impl Fn(Algorithm) -> bool, operation: Operation, ranks: u32, bytes: Bytes) -> Choice {
        let Bytes(bytes) = bytes;
        let rules = self.rules.get(&operation).map_or(&[][..], Vec::as_slice);
        let possible = |choice: &Choice| wanted(choice.algorithm) && choice.algorithm.check(operation, ranks).is_ok();
        for rule in rules.iter().filter(|rule| ranks < rule.ranks && !(rule.odd && ranks.is_power_of_two())) {
            let size = if rule.total { bytes.saturating_mul(u64::from(ranks)) } else { bytes };
            if let Some((choice, _)) = rule.choices.iter().find(|(_, below)| size < *below)
                && possible(choice)
            {
                // Both libraries cut a vector at elements, and do this with one that has fewer elements than there are
                // ranks.
                let short = operation == Operation::Allreduce
                    && matches!(choice.algorithm, Algorithm::Ring | Algorithm::Rabenseifner | Algorithm::Hierarchical)
                    && bytes < u64::from(ranks);
                return if short { Choice { algorithm: Algorithm::RecursiveDoubling, parameter: 0 } } else { *choice };
            }
        }
        // Recursive doubling of a number of ranks that is no power of two: both libraries take Bruck's algorithm then.
        let all = [Algorithm::Bruck].into_iter().filter(|_| operation == Operation::Allgather).chain(Algorithm::ALL);
        let algorithm = all.into_iter().find(|algorithm| algorithm.check(operation, ranks).is_ok()).unwrap_or(Algorithm::Linear);
        Choice { algorithm, parameter: 0 }
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
        let (name, parameter) = match algorithm.split_once('/') {
            Some((name, number)) => (name, number.parse().map_err(|_| wrong(algorithm, "a number behind /"))?),
            None => (algorithm, 0),
        };
        let algorithm: Algorithm = name.parse()?;
        if !algorithm.does(operation) {
            return Err(ScheduleError::Algorithm { operation, algorithm }.into());
        }
        choices.push((Choice { algorithm, parameter }, below));
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
        rules.choose(operation, ranks, Bytes(bytes)).algorithm.name()
    }

    #[test]
    fn the_tables_are_complete_and_choose_what_is_possible() {
        for table in [OPEN_MPI, MPICH] {
            let rules = Rules::parse(table).unwrap();
            for operation in Operation::ALL {
                assert!(rules.rules.contains_key(&operation), "{operation}");
                for ranks in (1..200).chain([256, 511, 512, 1000, 4096, 32_768]) {
                    for bytes in (0..30).map(|shift| 1 << shift).chain([0]) {
                        let choice = rules.choose(operation, ranks, Bytes(bytes));
                        assert!(choice.schedule(operation, ranks, 0, Bytes(bytes)).is_ok(), "{operation} {ranks} {bytes}");
                    }
                }
            }
        }
    }

    /// Values read off the sources by hand.
    #[test]
    fn chooses_as_the_libraries_do() {
        let open_mpi = Rules::parse(OPEN_MPI).unwrap();
        assert_eq!(name(&open_mpi, Operation::Allreduce, 16, 8), "recursive-doubling", "fewer elements than ranks");
        assert_eq!(name(&open_mpi, Operation::Allreduce, 16, 32), "ring");
        assert_eq!(name(&open_mpi, Operation::Allreduce, 16, 64), "recursive-doubling");
        assert_eq!(name(&open_mpi, Operation::Allreduce, 64, 1 << 20), "rabenseifner");
        assert_eq!(name(&open_mpi, Operation::Allgather, 6, 8), "bruck", "recursive doubling needs a power of two");
        let mpich = Rules::parse(MPICH).unwrap();
        assert_eq!(name(&mpich, Operation::Broadcast, 7, 1 << 20), "binomial");
        assert_eq!(name(&mpich, Operation::Broadcast, 16, 12_288), "scatter-allgather");
        assert_eq!(name(&mpich, Operation::Allgather, 16, 8), "recursive-doubling");
        assert_eq!(name(&mpich, Operation::Allgather, 12, 8), "bruck");
        assert_eq!(name(&mpich, Operation::Allgather, 12, 10_000), "ring");
        assert_eq!(mpich.choose(Operation::Alltoall, 64, Bytes(1000)), Choice { algorithm: Algorithm::Linear, parameter: 32 });
    }

    #[test]
    fn earlier_rules_come_first() {
        let rules = Rules::parse(&format!("bcast *: chain/4096 <100000, binary\n{MPICH}")).unwrap();
        assert_eq!(rules.choose(Operation::Broadcast, 64, Bytes(50_000)), Choice { algorithm: Algorithm::Chain, parameter: 4096 });
        assert_eq!(name(&rules, Operation::Scan, 64, 1), "recursive-doubling");
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
