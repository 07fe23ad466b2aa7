//! Computing times of one run for the next one: `--compute-out`, `--compute-from`.

use super::host;
use crate::StudyError;
use narrows_channel::stretches::{Stretch, Tables, known, place};
use narrows_output::write;
use serde::{Deserialize, Serialize};
use std::path::Path;

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
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is none of `--compute-out`.
    pub fn load(path: &Path) -> Result<Computing, StudyError> {
        let text = std::fs::read_to_string(path).map_err(|error| StudyError::Read { path: path.to_owned(), error })?;
        let wrong = |why: &dyn std::fmt::Display| {
            StudyError::Host(format!("{}: {why}; `narrows run --compute-out` writes such files", path.display()))
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
    pub fn save(&self, path: &Path) -> Result<(), StudyError> {
        let text = serde_json::to_string(self).map_err(host)?;
        write(path, text + "\n").map_err(host)
    }

    /// The ranks that were measured.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
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
            assert!(error.contains(why) && error.contains("--compute-out"), "{text}: {error}");
        }
    }
}
