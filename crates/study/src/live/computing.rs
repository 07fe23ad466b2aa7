//! Computing times of one run for the next one: what `--out DIR` keeps, and `--compute DIR` takes.

use crate::StudyError;
use narrows_channel::stretches::{Stretch, Tables, known, place};
use narrows_output::{OutputError, write};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What the ranks of a program compute between the calls that they make, on the computer where that was measured.
///
/// As a file: JSON, `{"narrows_computing": 1, "ranks": [[[KIND, SEEN, TIME], ...], ...]}`. KIND is a number for the two
/// calls around the computing (hexadecimal), SEEN says how often it came, TIME is what it took on average, s of CPU
/// time: with `--compute sampled` most of that are medians.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Computing {
    narrows_computing: u32,
    ranks: Vec<Vec<(String, u32, f64)>>,
}

/// Version of the file.
const VERSION: u32 = 1;

impl Computing {
    /// Of the file in the folder of a run.
    pub const NAME: &str = "computing.json";

    /// Reads a file, or that of a folder.
    ///
    /// # Errors
    /// It cannot be read, or is none that a run has kept.
    pub fn load(path: &Path) -> Result<Computing, StudyError> {
        let path = &if path.is_dir() { path.join(Computing::NAME) } else { path.to_owned() };
        let text = std::fs::read_to_string(path).map_err(|error| StudyError::Read { path: path.to_owned(), error })?;
        let wrong = |why: &dyn std::fmt::Display| {
            StudyError::Host(format!("{}: {why}; `narrows run --compute sampled --out DIR` writes such files", path.display()))
        };
        let read: Computing = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if read.narrows_computing != VERSION {
            return Err(wrong(&format!("has version {}, not {VERSION}", read.narrows_computing)));
        }
        let all = || read.ranks.iter().flatten();
        if let Some(kind) = all().map(|(kind, _, _)| kind).find(|kind| u64::from_str_radix(kind, 16).is_err()) {
            return Err(wrong(&format!("{kind:?} is not the number of a stretch")));
        }
        if let Some((_, _, time)) = all().find(|(_, _, time)| !(0.0..=1e6).contains(time)) {
            return Err(wrong(&format!("a time of {time} s")));
        }
        Ok(read)
    }

    /// Writes a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), OutputError> {
        write(path, format!("{}\n", json!(self)))
    }

    /// The ranks that were measured.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// What a rank has computed on average, s of CPU time.
    pub fn mean_s(&self) -> f64 {
        let all: f64 = self.ranks.iter().flatten().map(|(_, seen, time)| f64::from(*seen) * time).sum();
        all / self.ranks.len().max(1) as f64
    }

    /// For ranks that know it; `factors`: simulated time to CPU time, of each.
    pub(super) fn fill(&self, tables: &mut Tables, factors: &[f64]) {
        for (rank, (kinds, factor)) in self.ranks.iter().zip(factors).enumerate() {
            let table = tables.of(rank);
            for (kind, seen, time) in kinds {
                let number = |text: &str| u64::from_str_radix(text, 16).ok().filter(|&number| number != 0);
                let Some(stretch) = number(kind).and_then(|kind| place(table, kind)) else { continue };
                (stretch.seen, stretch.known) = (*seen, known::FIXED);
                stretch.median = (time * factor * 1e12).round() as u64;
            }
        }
    }

    /// What the ranks know.
    pub(super) fn read(tables: &mut Tables, factors: &[f64]) -> Computing {
        let of = |stretch: &Stretch, factor: f64| {
            let ps = match stretch.known {
                known::FIXED => stretch.median as f64,
                _ => stretch.took as f64 / f64::from(stretch.seen.max(1)),
            };
            (format!("{:016x}", stretch.kind), stretch.seen, ps / factor / 1e12)
        };
        let ranks = factors.iter().enumerate().map(|(rank, &factor)| {
            let used = tables.of(rank).iter().filter(|stretch| stretch.kind != 0);
            let mut kinds: Vec<_> = used.map(|stretch| of(stretch, factor)).collect();
            kinds.sort_by(|a, b| a.0.cmp(&b.0));
            kinds
        });
        Computing { narrows_computing: VERSION, ranks: ranks.collect() }
    }
}

/// What computing takes where ranks do not share caches and cores: a run of one rank beside one of many.
#[derive(Clone, Debug)]
pub struct Alone {
    /// What the one took, s of CPU time.
    pub alone_s: f64,
    /// What each of the others took on average.
    pub together_s: f64,
    /// By what their times are scaled.
    pub factor: f64,
    /// The file of the one.
    pub path: PathBuf,
}

/// A rank that is alone takes this part of the time at least, and at most: else it has done something else. Ranks that
/// share memory were seen to take several times as long as one alone, and a busy host may measure that one too long.
/// Our own choice.
const LIKELY: std::ops::RangeInclusive<f64> = 0.05..=1.5;

impl Alone {
    /// The times of `path`, of one rank, beside `together`, which are those of the file `from`.
    ///
    /// # Errors
    /// The file cannot be read, is none that a run has kept, or has other work.
    pub(super) fn of(together: &Computing, from: &Path, path: &Path) -> Result<Alone, StudyError> {
        let alone = Computing::load(path)?;
        let wrong = |why: String| StudyError::Host(format!("--compute-scale: {why}"));
        let how = "`narrows run -n 1 --compute sampled --out DIR` writes the right one";
        if alone.ranks() != 1 {
            return Err(wrong(format!("{} has the times of {} ranks, not of one; {how}", path.display(), alone.ranks())));
        }
        let (alone_s, together_s) = (alone.mean_s(), together.mean_s());
        for (path, time) in [(path, alone_s), (from, together_s)] {
            if time == 0.0 {
                return Err(wrong(format!("{} has no computing at all; {how}", path.display())));
            }
        }
        // As the ranks get it, in millionths.
        let factor = (alone_s / together_s * 1e6).round() / 1e6;
        if !LIKELY.contains(&factor) {
            return Err(wrong(format!(
                "the rank of {} has computed {factor:.3} times as long as those of {} on average: it must have the work of one of them (the \
                 same size per rank); {how}",
                path.display(),
                from.display()
            )));
        }
        Ok(Alone { alone_s, together_s, factor, path: path.to_owned() })
    }

    /// It in a line for people.
    pub(super) fn line(&self) -> String {
        let Alone { alone_s, together_s, factor, .. } = self;
        format!("computing: times {factor:.6}: a rank alone computed {alone_s:.6} s, one of many {together_s:.6} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_were_for_cores_of_another_speed() {
        let known = Computing { narrows_computing: VERSION, ranks: vec![vec![(format!("{:016x}", 7), 3, 2e-3)], vec![]] };
        let (mut tables, _fd) = Tables::create(2).unwrap();
        known.fill(&mut tables, &[0.5, 1.0]);
        assert_eq!(place(tables.of(0), 7).unwrap().median, 1_000_000_000);
        assert_eq!(Computing::read(&mut tables, &[0.5, 1.0]), known);
    }

    /// Files of so many ranks, each with what its kinds took: how often, s.
    fn files(all: [&[&[(u32, f64)]]; 2]) -> (tempfile::TempDir, [PathBuf; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one.json", "all.json"].map(|name| folder.path().join(name));
        for (ranks, path) in all.into_iter().zip(&paths) {
            let kinds = |rank: &&[(u32, f64)]| (1..).zip(*rank).map(|(kind, &(seen, s))| (format!("{kind:016x}"), seen, s)).collect();
            let computing = Computing { narrows_computing: VERSION, ranks: ranks.iter().map(kinds).collect() };
            computing.save(path).unwrap();
        }
        (folder, paths)
    }

    #[test]
    fn one_rank_says_what_those_would_take_that_share_nothing() {
        // 10 * 3 ms + 2 * 5 ms = 40 ms alone; 60 ms and 40 ms, 50 ms on average together.
        let (_folder, [one, all]) = files([&[&[(10, 3e-3), (2, 5e-3)]], &[&[(10, 5e-3), (2, 5e-3)], &[(4, 1e-2)]]]);
        let together = Computing::load(&all).unwrap();
        let alone = Alone::of(&together, &all, &one).unwrap();
        assert!((alone.alone_s - 0.040).abs() < 1e-12 && (alone.together_s - 0.050).abs() < 1e-12, "{alone:?}");
        assert_eq!(alone.factor, 0.8);
        assert_eq!(alone.line(), "computing: times 0.800000: a rank alone computed 0.040000 s, one of many 0.050000 s");
        let (mut tables, _fd) = Tables::create(2).unwrap();
        together.fill(&mut tables, &[alone.factor, alone.factor / 2.0]);
        assert_eq!(place(tables.of(0), 1).unwrap().median, 4_000_000_000, "5 ms");
        assert_eq!(place(tables.of(1), 1).unwrap().median, 4_000_000_000, "10 ms, on a core twice as fast");
    }

    #[test]
    fn files_of_other_work_are_refused() {
        let refused = |one: &[&[(u32, f64)]], all: &[&[(u32, f64)]]| {
            let (_folder, [one, all]) = files([one, all]);
            Alone::of(&Computing::load(&all).unwrap(), &all, &one).unwrap_err().to_string()
        };
        let each: &[(u32, f64)] = &[(1, 1e-3)];
        let eight = &[each; 8][..];
        for (why, error) in [
            ("has the times of 8 ranks, not of one", refused(eight, eight)),
            ("has computed 8.000 times as long", refused(&[&[(8, 1e-3)]], eight)),
            ("has computed 0.010 times as long", refused(&[&[(1, 1e-5)]], eight)),
            ("one.json has no computing at all", refused(&[&[]], eight)),
            ("all.json has no computing at all", refused(&[&[(1, 1e-3)]], &[&[], &[]])),
        ] {
            assert!(error.contains(why) && error.contains("-n 1 --compute sampled --out DIR") && !error.contains('\n'), "{why}: {error}");
        }
    }

    #[test]
    fn what_was_taken_is_kept_on_average() {
        let (mut tables, _fd) = Tables::create(1).unwrap();
        let stretch = place(tables.of(0), 9).unwrap();
        (stretch.seen, stretch.took, stretch.median) = (4, 10_000_000, 2_000_000);
        assert_eq!(Computing::read(&mut tables, &[1.0]).ranks, [[(format!("{:016x}", 9), 4, 2.5e-6)]]);
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.json");
        for (text, why) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (r#"{"narrows_computing": 2, "ranks": []}"#, "version 2"),
            (r#"{"narrows_computing": 1, "ranks": [[["x", 1, 1]]]}"#, "not the number of a stretch"),
            (r#"{"narrows_computing": 1, "ranks": [[["a", 1, -1]]]}"#, "a time of -1 s"),
            (r#"{"narrows_computing": 1, "ranks": [[["a", 1, 1e999]]]}"#, "number out of range"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Computing::load(&path).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("--out DIR"), "{text}: {error}");
        }
    }
}
