//! Timings as files: `narrows run --timing FILE`, which `narrows explore` writes.
//!
//! ```
//! use narrows_study::live::TimingSpec;
//!
//! let timing: TimingSpec = "seed = 3\nlatency = \"20 us\"\n[[delay]]\nfrom = 1\nto = 0\nby = \"1 ms\"".parse()?;
//! assert_eq!(timing.delays.len(), 1);
//! assert_eq!(timing.to_string().parse::<TimingSpec>()?, timing);
//! # Ok::<(), narrows_study::StudyError>(())
//! ```

use crate::StudyError;
use narrows_engine::stream;
use narrows_live::{Delay, Timing};
use narrows_machine::Machine;
use narrows_units::{Bytes, SimTime};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// How a run differs from what the machine says. All of it is legal MPI: no message overtakes another one of its pair.
#[derive(Clone, Debug, PartialEq)]
pub struct TimingSpec {
    /// Of all that is random here.
    pub seed: u64,
    /// Each message takes up to so much longer.
    pub latency: SimTime,
    /// Each rank begins up to so much later.
    pub start: SimTime,
    /// The MPI software of each rank takes up to so many times as long.
    pub slow: f64,
    /// Of all that is random, only what these ranks do.
    pub only: Option<Vec<u32>>,
    /// Longest eager message, instead of the machine's; 0: every send waits for its receive, but for empty ones.
    pub eager_limit: Option<Bytes>,
    /// Messages of single pairs that take longer.
    pub delays: Vec<Delay>,
}

impl Default for TimingSpec {
    fn default() -> TimingSpec {
        let none = SimTime::ZERO;
        TimingSpec { seed: 1, latency: none, start: none, slow: 1.0, only: None, eager_limit: None, delays: Vec::new() }
    }
}

/// Slowest software: our own choice.
const SLOWEST: f64 = 1000.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    latency: Option<String>,
    start: Option<String>,
    slow: Option<f64>,
    only: Option<Vec<u32>>,
    eager_limit: Option<String>,
    #[serde(default)]
    delay: Vec<DelayFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayFile {
    from: u32,
    to: u32,
    since: Option<String>,
    by: String,
}

fn time(key: &str, text: Option<&String>) -> Result<SimTime, StudyError> {
    text.map_or(Ok(SimTime::ZERO), |text| text.parse().map_err(|error| StudyError::Quantity(error).of(key)))
}

impl FromStr for TimingSpec {
    type Err = StudyError;

    fn from_str(text: &str) -> Result<TimingSpec, StudyError> {
        let file: File = toml::from_str(text)?;
        let delay = |delay: DelayFile| {
            Ok(Delay { from: delay.from, to: delay.to, since: time("since", delay.since.as_ref())?, by: time("by", Some(&delay.by))? })
        };
        let slow = file.slow.unwrap_or(1.0);
        if !(1.0..=SLOWEST).contains(&slow) {
            return Err(StudyError::Contradiction(format!("slow = {slow} must be between 1 and {SLOWEST}")));
        }
        Ok(TimingSpec {
            seed: file.seed.unwrap_or(1),
            latency: time("latency", file.latency.as_ref())?,
            start: time("start", file.start.as_ref())?,
            slow,
            only: file.only,
            eager_limit: file
                .eager_limit
                .map(|text| text.parse().map_err(|error| StudyError::Quantity(error).of("eager_limit")))
                .transpose()?,
            delays: file.delay.into_iter().map(delay).collect::<Result<_, StudyError>>()?,
        })
    }
}

/// As a file, to the picosecond.
impl fmt::Display for TimingSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = |time: SimTime| format!("\"{} ps\"", time.as_ps());
        writeln!(f, "# narrows run --timing FILE ...\nseed = {}", self.seed)?;
        if self.latency > SimTime::ZERO {
            writeln!(f, "latency = {}", ps(self.latency))?;
        }
        if self.start > SimTime::ZERO {
            writeln!(f, "start = {}", ps(self.start))?;
        }
        if self.slow > 1.0 {
            writeln!(f, "slow = {:?}", self.slow)?;
        }
        if let Some(only) = &self.only {
            writeln!(f, "only = {only:?}")?;
        }
        if let Some(limit) = self.eager_limit {
            writeln!(f, "eager_limit = \"{} B\"", limit.get())?;
        }
        for delay in &self.delays {
            writeln!(f, "[[delay]]\nfrom = {}\nto = {}\nsince = {}\nby = {}", delay.from, delay.to, ps(delay.since), ps(delay.by))?;
        }
        Ok(())
    }
}

impl TimingSpec {
    /// In a few words.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(limit) = self.eager_limit {
            parts.push(format!("eager limit {limit}"));
        }
        if self.latency > SimTime::ZERO {
            parts.push(format!("messages up to {} later", self.latency));
        }
        if self.start > SimTime::ZERO {
            parts.push(format!("ranks begin up to {} later", self.start));
        }
        if self.slow > 1.0 {
            parts.push(format!("MPI software up to {} times as slow", self.slow));
        }
        if let (Some(only), true) = (&self.only, self.randoms() > 0) {
            parts.push(format!("of ranks {only:?} only"));
        }
        for delay in &self.delays {
            parts.push(format!("messages from {} to {} since {} come {} later", delay.from, delay.to, delay.since, delay.by));
        }
        if parts.is_empty() { String::from("as the machine is") } else { parts.join("; ") }
    }

    /// How much it is, for the least of several: kinds of changes, single delays, sizes.
    pub fn weight(&self) -> (usize, usize, u64) {
        let kinds = 2 * self.randoms() + usize::from(self.eager_limit.is_some()) + usize::from(!self.delays.is_empty());
        (kinds, self.delays.len(), self.latency.as_ps().saturating_add(self.start.as_ps()))
    }

    /// How many things are random.
    pub fn randoms(&self) -> usize {
        [self.latency > SimTime::ZERO, self.start > SimTime::ZERO, self.slow > 1.0].into_iter().filter(|on| *on).count()
    }

    /// All ranks that it names are among `ranks`.
    pub(super) fn fits(&self, ranks: u32) -> Result<(), StudyError> {
        let named = self.delays.iter().flat_map(|delay| [delay.from, delay.to]).chain(self.only.iter().flatten().copied());
        match named.max().filter(|&rank| rank >= ranks) {
            None => Ok(()),
            Some(rank) => Err(StudyError::Contradiction(format!("--timing: it names rank {rank}, and the ranks are 0 to {}", ranks - 1))),
        }
    }

    /// What the simulator does with messages.
    pub(super) fn of_messages(&self) -> Timing {
        Timing { seed: self.seed, latency: self.latency, only: self.only.clone(), delays: self.delays.clone() }
    }

    /// How late a rank begins, and how many times as long its software takes, in thousandths.
    pub(super) fn of_rank(&self, rank: u32) -> (u64, u64) {
        if self.only.as_ref().is_some_and(|only| !only.contains(&rank)) {
            return (0, 1000);
        }
        let mut stream = stream(self.seed, "timing: ranks", rank.into());
        let late = stream.below(self.start.as_ps() + 1);
        let slow = 1000 + stream.below((self.slow * 1000.0) as u64 - 999);
        (late, slow)
    }

    /// Changes of the machine.
    pub(super) fn change(&self, machine: &mut Machine) {
        if let Some(limit) = self.eager_limit {
            let message = &mut machine.message;
            let limit = limit.min(message.max_portals_message);
            message.eager_limit = limit;
            // What is injected is copied, and over at once.
            message.inject_limit = message.inject_limit.min(limit);
            message.overflow_block = message.overflow_block.max(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_ranks_of_the_run() {
        for text in ["only = [0, 99]", "[[delay]]\nfrom = 99\nto = 0\nby = \"1 us\"", "[[delay]]\nfrom = 0\nto = 99\nby = \"1 us\""] {
            let timing: TimingSpec = text.parse().unwrap();
            assert_eq!(timing.fits(2).unwrap_err().to_string(), "--timing: it names rank 99, and the ranks are 0 to 1");
            timing.fits(100).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let delays = vec![Delay { from: 1, to: 2, since: SimTime(77), by: SimTime::from_us(3) }];
        let timing = TimingSpec {
            seed: 9,
            latency: SimTime(123_456_789),
            start: SimTime::from_us(10),
            slow: 2.5,
            only: Some(vec![0, 3]),
            eager_limit: Some(Bytes(0)),
            delays,
        };
        assert_eq!(timing.to_string().parse::<TimingSpec>().unwrap(), timing);
        assert_eq!("".parse::<TimingSpec>().unwrap(), TimingSpec::default());
        assert!("latncy = \"1 us\"".parse::<TimingSpec>().unwrap_err().to_string().contains("latncy"));
        assert!("slow = 0.5".parse::<TimingSpec>().is_err());
        assert!("latency = \"3\"".parse::<TimingSpec>().unwrap_err().to_string().contains("latency"));
    }
}
