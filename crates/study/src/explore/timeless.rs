//! Output without the times that a program prints: they are another in each run.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// What stands in the place of a time, a rate or a date.
pub const TIME: &str = "<time>";

/// A number as programs print it.
const NUMBER: &str = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?";

/// A day with its date, a date, a time of day.
static DATES: LazyLock<Regex> = LazyLock::new(|| {
    let day = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? ";
    let month = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*";
    let text = format!(
        r"(?:{day})?(?:{month} +\d{{1,2}}|\d{{1,2}} {month})(?:,? \d{{4}})?|\b\d{{4}}-\d\d-\d\d(?:T\d\d:\d\d:\d\d)?|\b\d{{1,2}}:\d\d:\d\d(?:\.\d+)?(?: ?[A-Z]{{3,4}}(?: \d{{4}})?)?"
    );
    Regex::new(&text).expect("a valid pattern")
});

/// A number with a unit of time, or of something in a time: `1.5 ms`, `3 seconds`, `12.5 MB/s`, `3.1 GFLOPS`.
static UNITS: LazyLock<Regex> = LazyLock::new(|| {
    let unit = r"(?:(?:n|u|µ|m|micro|milli|nano)?(?:s|sec|secs|second|seconds)|minutes?|mins?|hours?|hrs?)";
    let rate = r"(?:\w{1,12}/(?:s|sec|second|day|hour)|[KMGTP]?(?:flops?|FLOPS?|Flops?)(?:/s)?)";
    let text = format!(r"({NUMBER})(\s*[\[(]?)({rate}|{unit})\b([\])]?)");
    Regex::new(&text).expect("a valid pattern")
});

/// The first number behind a word for a time: `Elapsed time = 1.25`, `Loop time of 0.01 on 4 procs`.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let word = r"(?i:\b(?:elapsed|wall[ -]?(?:clock)?|cpu|loop|run|total|solve|setup|grind|execution|communication|walltime|runtime)[ _]*times?\b|\btime (?:taken|used|spent|in \w+)\b|\b(?:elapsed|took|walltime|runtime|wtime)\b)";
    let text = format!(r"({word}[^0-9+.\n-]{{0,24}}?)({NUMBER})");
    Regex::new(&text).expect("a valid pattern")
});

/// A line without its times, rates and dates, and how many there were.
pub fn timeless(line: &str) -> (String, usize) {
    let mut found = 0;
    let mut put = |text: String| {
        found += 1;
        text
    };
    let line = DATES.replace_all(line, |_: &Captures<'_>| put(TIME.to_owned()));
    let line = UNITS.replace_all(&line, |parts: &Captures<'_>| put(format!("{TIME}{}{}{}", &parts[2], &parts[3], &parts[4])));
    let line = NAMED.replace_all(&line, |parts: &Captures<'_>| put(format!("{}{TIME}", &parts[1])));
    (line.into_owned(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rates_and_dates_go_and_results_stay() {
        for (line, expected) in [
            // As Narrows' own halo2d, LAMMPS, HPCC, NPB, LULESH and OSU print them.
            ("64 x 64 cells on 2 x 2 ranks: 1.250 ms, 12.50 us per step", "64 x 64 cells on 2 x 2 ranks: <time> ms, <time> us per step"),
            ("Loop time of 0.00312 on 4 procs for 100 steps", "Loop time of <time> on 4 procs for 100 steps"),
            ("Performance: 1.384e6 tau/day, 3204.1 timesteps/s", "Performance: <time> tau/day, <time> timesteps/s"),
            (" Time in seconds = 0.52", " Time in seconds = <time>"),
            ("Elapsed time         =       0.03 (s)", "Elapsed time         =       <time> (s)"),
            ("Total time: 12", "Total time: <time>"),
            ("Grind time (us/z/c)  =  0.75 (per dom)", "Grind time (us/z/c)  =  <time> (per dom)"),
            ("FOM = 1330.5 (z/s)", "FOM = <time> (z/s)"),
            ("HPL: 3.5 Gflops", "HPL: <time> Gflops"),
            ("began Sat Nov 28 17:15:59 UTC 2026", "began <time> <time>"),
            ("2026-11-28T17:15:59 done", "<time> done"),
            // Results, sizes and counts are none.
            ("step   10  residual 0.123456", "step   10  residual 0.123456"),
            ("time step 5, t = 0.25, energy 1.5", "time step 5, t = 0.25, energy 1.5"),
            ("4 sums, 8 MB of matrix", "4 sums, 8 MB of matrix"),
            ("ratio 1:2:3", "ratio 1:2:3"),
            ("3 sets in 5 spheres", "3 sets in 5 spheres"),
        ] {
            let (found, count) = timeless(line);
            assert_eq!(found, expected);
            assert_eq!(count, expected.matches(TIME).count(), "{line}");
        }
    }
}
