//! Many runs of one program, each with another legal timing, and what comes out of them.
//!
//! * [`explore`] decides which timings are tried, and puts outcomes together: the machine as it is, other eager limits,
//!   for each receive from anybody a run in which another message comes first (breadth first, once for what has the
//!   same matches), then random latencies, starts and speeds; at the end less and less of the timing of each class, as
//!   long as it shows the class.
//! * Who runs the program is the caller's affair: a function from a [`TimingSpec`] to what was [`Seen`].
//!
//! The timings of a round follow from the rounds before it, so that the report is the same on any number of jobs.
//!
//! ```
//! use narrows_study::explore::{ExploreSpec, Outcome, Seen, explore};
//!
//! // A program that waits for ever when sends do.
//! let run = |timing: &narrows_study::live::TimingSpec| {
//!     let stands = timing.eager_limit.is_some_and(|limit| limit.get() < 100);
//!     let ended = if stands { "deadlock" } else { "exit code 0" };
//!     Ok::<_, String>(Seen { outcome: Outcome { ended: ended.to_owned(), ..Outcome::default() }, ..Seen::default() })
//! };
//! let spec = ExploreSpec { runs: 10, jobs: 2, seed: 1, ranks: 4, tolerance: 0.0 };
//! let explored = explore(&spec, &run, &|_, _| {}).unwrap();
//! assert_eq!(explored.classes.len(), 2);
//! assert_eq!(explored.classes[1].timing.describe(), "eager limit 0 B");
//! ```

mod timeless;

pub use timeless::{TIME, timeless};

use crate::live::{TimingSpec, Waiting};
use narrows_engine::stream;
use narrows_live::Delay;
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct ExploreSpec {
    /// Runs at most.
    pub runs: usize,
    /// Runs side by side.
    pub jobs: usize,
    /// Of what is random.
    pub seed: u64,
    /// Ranks of the program.
    pub ranks: u32,
    /// Outcomes that differ only in real numbers, by no more than so much of them, are one.
    pub tolerance: f64,
}

impl ExploreSpec {
    fn alike(&self, one: &Outcome, other: &Outcome) -> bool {
        one == other || self.tolerance > 0.0 && one.apart(other).is_some_and(|apart| apart <= self.tolerance)
    }
}

/// How a run ended, as far as it should be the same in all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// "exit code 0", "deadlock", or what went wrong.
    pub ended: String,
    /// Lines of standard output, sorted: whose line comes first is the launcher's affair.
    pub output: Vec<String>,
    /// What does not fit in the MPI calls.
    pub findings: Vec<String>,
    /// What the user's own comparison said.
    pub compared: String,
}

impl Outcome {
    /// How far apart these are if they differ only in real numbers of their output, relative to the larger: sums in
    /// another order do. `None`: they differ in something else.
    pub fn apart(&self, other: &Outcome) -> Option<f64> {
        let same = self.ended == other.ended && self.findings == other.findings && self.compared == other.compared;
        if !same || self.output.len() != other.output.len() {
            return None;
        }
        let mut apart = 0.0f64;
        for (a, b) in self.output.iter().zip(&other.output) {
            let (mut a, mut b) = (words(a), words(b));
            loop {
                match (a.next(), b.next()) {
                    (None, None) => break,
                    (Some(a), Some(b)) if a == b => {}
                    (Some(a), Some(b)) => apart = apart.max(distance(real(a)?, real(b)?)),
                    _ => return None,
                }
            }
        }
        Some(apart)
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || ",;:=()[]{}".contains(c)).filter(|word| !word.is_empty())
}

/// A number that is no integer.
fn real(word: &str) -> Option<f64> {
    let looks = word.contains(['.', 'e', 'E']) && word.contains(|c: char| c.is_ascii_digit());
    word.parse().ok().filter(|number: &f64| looks && number.is_finite())
}

fn distance(a: f64, b: f64) -> f64 {
    let most = a.abs().max(b.abs());
    if most > 0.0 { (a - b).abs() / most } else { 0.0 }
}

/// A receive from anybody, who was first, and who could have been: ranks, and when their messages were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Who receives.
    pub rank: u32,
    /// The first.
    pub got: (u32, SimTime),
    /// The others.
    pub others: Vec<(u32, SimTime)>,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How it ended.
    pub outcome: Outcome,
    /// Receives that could have got another message.
    pub choices: Vec<Choice>,
    /// Runs with the same have the same matches.
    pub matching: String,
    /// How long it took.
    pub simulated: SimTime,
    /// Who waits for whom, in a deadlock.
    pub waits: Vec<Waiting>,
}

/// Runs that ended alike.
#[derive(Clone, Debug)]
pub struct Class {
    /// How.
    pub outcome: Outcome,
    /// How many.
    pub count: usize,
    /// The least different timing among theirs.
    pub timing: TimingSpec,
    /// The run in which it was found, from 0.
    pub run: usize,
    /// Who waits for whom with that timing.
    pub waits: Vec<Waiting>,
}

/// What all runs showed.
#[derive(Clone, Debug)]
pub struct Explored {
    /// How many there were.
    pub runs: usize,
    /// More that looked for the least timing of each class.
    pub shrinking: usize,
    /// Different matches of receives from anybody.
    pub matchings: usize,
    /// In the order in which they were found: the first is that of the machine as it is.
    pub classes: Vec<Class>,
}

/// Other eager limits than the machine's: none, that of small messages, all. Our own choice.
const EAGER_LIMITS: [u64; 3] = [0, 256, 65_536];
/// Random latencies and starts, in turn. Our own choice: from the cost of a call to that of a lost time slice.
const SIZES: [SimTime; 4] = [SimTime::from_us(1), SimTime::from_us(10), SimTime::from_us(100), SimTime::from_us(1000)];
/// Random speeds of software: our own choice.
const SLOW: f64 = 4.0;

/// Runs that look for the least timing of a class. Our own choice.
const SHRINKING: usize = 24;
/// Classes for which it is looked for. Our own choice.
const SHRUNK: usize = 8;

/// Runs a program with many timings.
type Runner<'a, E> = &'a (dyn Fn(&TimingSpec) -> Result<Seen, E> + Sync);

struct Search<'a, E> {
    spec: &'a ExploreSpec,
    run: Runner<'a, E>,
    progress: &'a (dyn Fn(usize, usize) + Sync),
    explored: Explored,
    tried: BTreeSet<String>,
    matchings: BTreeSet<String>,
}

/// Tries timings. `progress` is told how many runs are done and how many classes are known.
///
/// # Errors
/// A run could not be made: what `run` says of it.
pub fn explore<E: Send>(spec: &ExploreSpec, run: Runner<'_, E>, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Explored, E> {
    let explored = Explored { runs: 0, shrinking: 0, matchings: 0, classes: Vec::new() };
    let mut search = Search { spec, run, progress, explored, tried: BTreeSet::new(), matchings: BTreeSet::new() };
    let machine = TimingSpec { seed: spec.seed, ..TimingSpec::default() };
    // The machine as it is, for itself: what differs from it is different.
    let mut frontier = search.round(vec![machine.clone()])?;
    let by = frontier.first().map_or(SimTime::ZERO, |(_, seen)| SimTime(seen.simulated.as_ps().saturating_mul(2))) + SIZES[1];
    let limits = EAGER_LIMITS.map(|limit| TimingSpec { eager_limit: Some(Bytes(limit)), ..machine.clone() });
    frontier.extend(search.round(limits.to_vec())?);
    // Half of the runs, so that something is left for what no receive from anybody shows.
    let directed = spec.runs.div_ceil(2);
    while !frontier.is_empty() && search.explored.runs < directed {
        let children: Vec<TimingSpec> = frontier.iter().flat_map(|(timing, seen)| others_first(timing, seen, by)).collect();
        let room = directed - search.explored.runs;
        frontier = search.round_of(children, room)?;
    }
    let left = spec.runs.saturating_sub(search.explored.runs);
    search.round((0..left as u64).map(|index| random(spec.seed, index, spec.ranks)).collect())?;
    search.shrink()?;
    search.explored.matchings = search.matchings.len();
    Ok(search.explored)
}

/// For each receive from anybody and each other message that it could have got: the messages of the others come later.
fn others_first(timing: &TimingSpec, seen: &Seen, by: SimTime) -> Vec<TimingSpec> {
    let mut children = Vec::new();
    for choice in &seen.choices {
        for &(first, _) in &choice.others {
            let late = std::iter::once(&choice.got).chain(&choice.others).filter(|(from, _)| *from != first);
            let delays = late.map(|&(from, since)| Delay { from, to: choice.rank, since, by });
            children.push(TimingSpec { delays: timing.delays.iter().copied().chain(delays).collect(), ..timing.clone() });
        }
    }
    children
}

/// Less of a timing, step by step, while `shows` says that it still shows the same. Kinds of changes first, then
/// halves, quarters and so on of what is left (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
/// Input", IEEE TSE 28(2), 2002), then less time.
fn least<E>(timing: &TimingSpec, ranks: u32, shows: &mut dyn FnMut(&TimingSpec) -> Result<bool, E>) -> Result<TimingSpec, E> {
    let mut least = timing.clone();
    let without: [fn(&mut TimingSpec); 5] = [
        |timing| timing.latency = SimTime::ZERO,
        |timing| timing.start = SimTime::ZERO,
        |timing| timing.slow = 1.0,
        |timing| timing.eager_limit = None,
        |timing| timing.delays.clear(),
    ];
    for change in without {
        let mut less = least.clone();
        change(&mut less);
        if less != least && shows(&less)? {
            least = less;
        }
    }
    let set = |delays: Vec<Delay>, timing: &TimingSpec| TimingSpec { delays, ..timing.clone() };
    let delays = fewest(least.delays.clone(), &mut |delays| shows(&set(delays.to_vec(), &least)))?;
    least = set(delays, &least);
    if least.randoms() > 0 {
        let set = |only: Vec<u32>, timing: &TimingSpec| TimingSpec { only: Some(only), ..timing.clone() };
        let all: Vec<u32> = (0..ranks).collect();
        let only = fewest(least.only.clone().unwrap_or_else(|| all.clone()), &mut |only| shows(&set(only.to_vec(), &least)))?;
        if only != all {
            least = set(only, &least);
        }
    } else {
        least.only = None;
    }
    for change in [
        |timing: &mut TimingSpec| timing.latency = SimTime(timing.latency.as_ps() / 10),
        |timing: &mut TimingSpec| {
            timing.start = SimTime(timing.start.as_ps() / 10);
        },
    ] {
        loop {
            let mut less = least.clone();
            change(&mut less);
            if less.latency < SIZES[0] && less.start < SIZES[0] || less.weight() >= least.weight() || !shows(&less)? {
                break;
            }
            least = less;
        }
    }
    Ok(least)
}

/// A part of a list from which nothing can be left out.
fn fewest<T: Clone, E>(mut all: Vec<T>, shows: &mut dyn FnMut(&[T]) -> Result<bool, E>) -> Result<Vec<T>, E> {
    let mut parts = 2;
    while all.len() > 1 {
        let size = all.len().div_ceil(parts);
        let mut fewer = None;
        for skip in 0..all.len().div_ceil(size) {
            let rest: Vec<T> = all.iter().enumerate().filter(|(at, _)| at / size != skip).map(|(_, one)| one.clone()).collect();
            if shows(&rest)? {
                fewer = Some(rest);
                break;
            }
        }
        match fewer {
            Some(rest) => (all, parts) = (rest, parts.saturating_sub(1).max(2)),
            None if size == 1 => break,
            None => parts *= 2,
        }
    }
    Ok(all)
}

/// The random timing of this number.
fn random(seed: u64, index: u64, ranks: u32) -> TimingSpec {
    let mut stream = stream(seed, "explore", index);
    let mut size = || SIZES[stream.below(SIZES.len() as u64) as usize];
    let mut timing = TimingSpec { latency: size(), ..TimingSpec::default() };
    let start = size();
    if index % 3 == 1 {
        timing.start = start;
    }
    if index % 3 == 2 {
        timing.slow = SLOW;
    }
    if index % 4 == 3 {
        timing.eager_limit = Some(Bytes(EAGER_LIMITS[stream.below(EAGER_LIMITS.len() as u64) as usize]));
    }
    if index % 5 == 4 {
        // One slow rank, or node, or the links that it sends by.
        timing.only = Some(vec![stream.below(ranks.max(1).into()) as u32]);
    }
    // A file holds numbers of 63 bits.
    timing.seed = stream.next_u64() >> 33;
    timing
}

impl<E: Send> Search<'_, E> {
    /// The first so many of these timings that were not tried.
    fn round_of(&mut self, timings: Vec<TimingSpec>, room: usize) -> Result<Vec<(TimingSpec, Seen)>, E> {
        let mut new: Vec<TimingSpec> = timings.into_iter().filter(|timing| self.tried.insert(timing.to_string())).collect();
        new.truncate(room);
        self.round(new)
    }

    /// Runs with these timings, as many as may be; those with matches that were not seen before.
    fn round(&mut self, mut timings: Vec<TimingSpec>) -> Result<Vec<(TimingSpec, Seen)>, E> {
        timings.truncate(self.spec.runs.saturating_sub(self.explored.runs));
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(self.explored.runs);
        let results: Vec<Mutex<Option<Result<Seen, E>>>> = timings.iter().map(|_| Mutex::new(None)).collect();
        let classes = self.explored.classes.len();
        let (run, progress) = (self.run, self.progress);
        std::thread::scope(|scope| {
            for _ in 0..self.spec.jobs.clamp(1, timings.len().max(1)) {
                scope.spawn(|| {
                    while let Some((timing, result)) = {
                        let index = next.fetch_add(1, Relaxed);
                        timings.get(index).zip(results.get(index))
                    } {
                        let seen = run(timing);
                        if seen.is_err() {
                            next.store(timings.len(), Relaxed);
                        }
                        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
                        progress(done.fetch_add(1, Relaxed) + 1, classes);
                    }
                });
            }
        });
        let mut fresh = Vec::new();
        let results = results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        for (timing, seen) in timings.into_iter().zip(results) {
            let Some(seen) = seen.transpose()? else { continue };
            self.note(&timing, &seen);
            if self.matchings.insert(seen.matching.clone()) {
                fresh.push((timing, seen));
            }
        }
        Ok(fresh)
    }

    /// The least timing of each class but the first, which is the machine as it is.
    fn shrink(&mut self) -> Result<(), E> {
        let (run, spec) = (self.run, self.spec);
        let classes: Vec<&Class> = self.explored.classes.iter().skip(1).take(SHRUNK).collect();
        let one = |class: &Class| {
            let mut tried: Vec<(TimingSpec, Seen)> = Vec::new();
            let timing = least(&class.timing, spec.ranks, &mut |timing| -> Result<bool, E> {
                if let Some((_, seen)) = tried.iter().find(|(known, _)| known == timing) {
                    return Ok(spec.alike(&class.outcome, &seen.outcome));
                }
                if tried.len() >= SHRINKING {
                    return Ok(false);
                }
                let seen = run(timing)?;
                let same = spec.alike(&class.outcome, &seen.outcome);
                tried.push((timing.clone(), seen));
                Ok(same)
            })?;
            let waits = tried.iter().find(|(known, _)| *known == timing).map(|(_, seen)| seen.waits.clone());
            Ok::<_, E>((timing, waits, tried.len()))
        };
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<_>>> = classes.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..self.spec.jobs.clamp(1, classes.len().max(1)) {
                scope.spawn(|| {
                    while let Some((class, result)) = {
                        let index = next.fetch_add(1, Relaxed);
                        classes.get(index).zip(results.get(index))
                    } {
                        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(one(class));
                    }
                });
            }
        });
        for (class, result) in self.explored.classes.iter_mut().skip(1).zip(results) {
            let Some(result) = result.into_inner().unwrap_or_else(PoisonError::into_inner) else { continue };
            let (timing, waits, runs) = result?;
            class.timing = timing;
            class.waits = waits.unwrap_or_else(|| class.waits.clone());
            self.explored.shrinking += runs;
        }
        Ok(())
    }

    fn note(&mut self, timing: &TimingSpec, seen: &Seen) {
        let run = self.explored.runs;
        self.explored.runs += 1;
        match self.explored.classes.iter_mut().find(|class| self.spec.alike(&class.outcome, &seen.outcome)) {
            Some(class) => {
                class.count += 1;
                if timing.weight() < class.timing.weight() {
                    (class.timing, class.run, class.waits) = (timing.clone(), run, seen.waits.clone());
                }
            }
            None => {
                let (outcome, waits) = (seen.outcome.clone(), seen.waits.clone());
                self.explored.classes.push(Class { outcome, count: 1, timing: timing.clone(), run, waits });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three ranks send to rank 0, which takes the first: delays decide who that is.
    fn race(timing: &TimingSpec) -> Result<Seen, String> {
        let arrival = |from: u32| {
            let late = timing.delays.iter().filter(|delay| delay.from == from).map(|delay| delay.by.as_ps()).sum::<u64>();
            (u64::from(from) + late, from)
        };
        let mut order: Vec<(u64, u32)> = (1..4).map(arrival).collect();
        order.sort_unstable();
        let sent = |&(_, from): &(u64, u32)| (from, SimTime(u64::from(from)));
        let choice = Choice { rank: 0, got: sent(&order[0]), others: order[1..].iter().map(sent).collect() };
        Ok(Seen {
            outcome: Outcome { ended: "exit code 0".to_owned(), output: vec![format!("first {}", order[0].1)], ..Outcome::default() },
            choices: vec![choice],
            matching: format!("{order:?}"),
            simulated: SimTime(100),
            waits: Vec::new(),
        })
    }

    #[test]
    fn every_message_comes_first_once() {
        let explored = explore(&ExploreSpec { runs: 20, jobs: 1, seed: 1, ranks: 4, tolerance: 0.0 }, &race, &|_, _| {}).unwrap();
        assert_eq!(explored.runs, 20);
        let first: Vec<&str> = explored.classes.iter().map(|class| class.outcome.output[0].as_str()).collect();
        assert_eq!(first, ["first 1", "first 2", "first 3"]);
        // 3 is first when 1 and 2 are late, by one step.
        assert_eq!(explored.classes[2].timing.delays.len(), 2);
    }

    #[test]
    fn the_report_does_not_depend_on_the_number_of_jobs() {
        let report =
            |jobs| format!("{:?}", explore(&ExploreSpec { runs: 30, jobs, seed: 5, ranks: 4, tolerance: 0.0 }, &race, &|_, _| {}).unwrap());
        assert_eq!(report(1), report(7));
    }

    #[test]
    fn sums_in_another_order_are_known() {
        let of = |lines: &[&str]| Outcome { output: lines.iter().map(|line| (*line).to_owned()).collect(), ..Outcome::default() };
        let apart = |a: &str, b: &str| of(&[a]).apart(&of(&[b]));
        assert_eq!(apart("sum=1.5 of 3", "sum=1.5 of 3"), Some(0.0));
        assert!(apart("sum=1.0000000001 of 3", "sum=1.0 of 3").is_some_and(|apart| (apart - 1e-10).abs() < 1e-15));
        assert_eq!(apart("sum=1.5 of 3", "sum=1.5 of 4"), None);
        assert_eq!(apart("first", "second"), None);
        assert_eq!(of(&["a"]).apart(&of(&["a", "b"])), None);
        let run = |timing: &TimingSpec| {
            let sum = if timing.eager_limit.is_some() { "0.30000000000000004" } else { "0.3" };
            Ok::<_, String>(Seen { outcome: of(&[sum]), ..Seen::default() })
        };
        let classes = |tolerance| {
            let spec = ExploreSpec { runs: 6, jobs: 1, seed: 1, ranks: 2, tolerance };
            explore(&spec, &run, &|_, _| {}).unwrap().classes.len()
        };
        assert_eq!((classes(0.0), classes(1e-12)), (2, 1));
    }

    #[test]
    fn the_least_timing_has_nothing_that_could_be_left_out() {
        let delay = |from| Delay { from, to: 0, since: SimTime::ZERO, by: SimTime::from_us(1) };
        let timing = TimingSpec {
            latency: SimTime::from_us(1000),
            start: SimTime::from_us(10),
            slow: 2.0,
            eager_limit: Some(Bytes(0)),
            delays: (1..9).map(delay).collect(),
            ..TimingSpec::default()
        };
        let mut runs = 0;
        // Two delays, an eager limit and more than 5 us of rank 3's messages are what it takes.
        let mut shows = |timing: &TimingSpec| {
            runs += 1;
            let from = |rank| timing.delays.iter().any(|delay| delay.from == rank);
            let only = timing.only.as_ref().is_none_or(|only| only.contains(&3));
            Ok::<_, String>(from(2) && from(7) && timing.eager_limit.is_some() && only && timing.latency > SimTime::from_us(5))
        };
        let least = least(&timing, 16, &mut shows).unwrap();
        let expected = TimingSpec {
            latency: SimTime::from_us(10),
            only: Some(vec![3]),
            eager_limit: Some(Bytes(0)),
            delays: vec![delay(2), delay(7)],
            ..TimingSpec::default()
        };
        assert_eq!(least, expected);
        assert!(runs < 60, "{runs}");
    }

    #[test]
    fn a_run_that_cannot_be_made_ends_it() {
        let refuses = |_: &TimingSpec| Err(String::from("no such program"));
        let refused = explore(&ExploreSpec { runs: 30, jobs: 2, seed: 5, ranks: 4, tolerance: 0.0 }, &refuses, &|_, _| {});
        assert_eq!(refused.unwrap_err(), "no such program");
    }

    #[test]
    fn random_timings_fit_into_files() {
        for index in 0..100 {
            let timing = random(7, index, 16);
            assert_eq!(timing.to_string().parse::<TimingSpec>().unwrap(), timing);
        }
    }
}
