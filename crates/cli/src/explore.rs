//! `narrows explore`: a program under many legal timings.

use crate::failure::Failure;
use clap::Args;
use narrows_launch as launch;
use narrows_output::{Meter, create_folder, exit, print, write};
use narrows_results::Progress;
use narrows_study::explore::{Choice, Class, ExploreSpec, Explored, Outcome, Seen, explore};
use narrows_study::live::TimingSpec;
use narrows_units::SimTime;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Arguments of `narrows explore`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows explore -n 4 -- ./app
  narrows explore -n 8 --runs 500 --jobs 4 --seed 7 --out timings/ -- ./app input.txt
  narrows explore -n 4 --compare 'md5sum out.dat' -- ./app
  narrows run --timing timings/class-2.toml -n 8 --compute none -- ./app input.txt     # repeats what was found

Runs: the machine as it is, with other eager limits, with another message first at each receive from anybody, and with random latencies,
late starts and slow ranks; messages of a pair never overtake each other. Computing takes no time. What is compared: exit code, sorted
lines of standard output, deadlock, what --check finds, what --compare prints.

Exit code 0: one class of outcomes and no error in it. 1: several, or an error. Docs: docs/explore.md.")]
pub struct ExploreArgs {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: u32,
    /// Runs
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Runs side by side [default: cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    jobs: Option<u32>,
    /// Seed of all that is random
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// Run by the shell behind each run, in a folder of that run, in which the program ran too: what it prints is part
    /// of the outcome
    #[arg(long, value_name = "COMMAND")]
    compare: Option<String>,
    /// Where a timing for each class and explore.json go
    #[arg(long, value_name = "DIR", default_value = "narrows-explore")]
    out: PathBuf,
    /// A preset (see `narrows machine list`) or a machine file
    #[arg(long, default_value = "bxi-v2", value_name = "NAME|FILE")]
    machine: String,
    /// Changes one value of the machine
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ranks per node
    #[arg(long, value_name = "N")]
    ppn: Option<u32>,
    /// The launcher; by default the one that belongs to the program's MPI library
    #[arg(long, value_name = "PATH")]
    mpirun: Option<PathBuf>,
    /// Ends a run after this many seconds of wall time
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Prints JSON instead of text
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Lines of a program's output that are shown.
const SHOWN: usize = 5;

/// Runs it; the exit code.
pub fn run(args: ExploreArgs) -> Result<u8, Failure> {
    create_folder(&args.out)?;
    let scratch = launch::Scratch::create().map_err(|error| error.to_string())?;
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize);
    let spec = ExploreSpec { runs: args.runs as usize, jobs, seed: args.seed };
    let meter = Arc::new(Meter::new(spec.runs as u64));
    let classes = Arc::new(AtomicUsize::new(0));
    let shown = Arc::clone(&classes);
    let progress = Progress::with("exploring", &meter, move || format!("{} classes of outcomes", shown.load(Relaxed)));
    let counter = AtomicUsize::new(0);
    let one = |timing: &TimingSpec| {
        let folder = scratch.path().join(format!("run-{}", counter.fetch_add(1, Relaxed)));
        let seen = args.one(timing, &folder);
        let _ = std::fs::remove_dir_all(&folder);
        seen
    };
    let explored = explore(&spec, &one, &|done, known| {
        meter.set(done as u64, spec.runs as u64);
        classes.store(known, Relaxed);
    })?;
    drop(progress);
    let report = args.report(&explored)?;
    print(&report)?;
    let bad = explored.classes.iter().any(|class| is_bad(&class.outcome));
    Ok(if bad || explored.classes.len() > 1 { exit::NO } else { exit::DONE })
}

fn is_bad(outcome: &Outcome) -> bool {
    outcome.ended != GOOD || outcome.findings.iter().any(|finding| !finding.starts_with("leak"))
}

/// A run without fault.
const GOOD: &str = "exit code 0";

impl ExploreArgs {
    /// Options of `narrows run` that say the same.
    fn options(&self) -> Vec<String> {
        let mut options = vec![format!("-n{}", self.ranks), String::from("--machine"), self.machine.clone()];
        options.extend(self.set.iter().flat_map(|set| [String::from("--set"), set.clone()]));
        options.extend(self.ppn.iter().flat_map(|ppn| [String::from("--ppn"), ppn.to_string()]));
        options.extend(self.mpirun.iter().flat_map(|path| [String::from("--mpirun"), path.display().to_string()]));
        options.extend(["--compute", "none"].map(String::from));
        options
    }

    /// The program, to be found from another folder.
    fn program(&self) -> Vec<String> {
        let mut program = self.program.clone();
        if program[0].contains('/')
            && let Ok(path) = std::fs::canonicalize(&program[0])
        {
            program[0] = path.display().to_string();
        }
        program
    }

    /// One run in a process of its own.
    fn one(&self, timing: &TimingSpec, folder: &Path) -> Result<Seen, String> {
        let told = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(told)?;
        let (file, out) = (folder.join("timing.toml"), folder.join("out"));
        write(&file, timing.to_string()).map_err(|error| error.to_string())?;
        let own = std::env::current_exe().map_err(|error| format!("the program's own path is unknown: {error}"))?;
        let mut command = Command::new(own);
        command.arg("run").args(self.options()).arg("--check").arg("--timing").arg(&file).arg("--out").arg(&out);
        command.arg("--timeout").arg(self.timeout.to_string()).arg("--").args(self.program());
        let work = folder.join("work");
        if self.compare.is_some() {
            std::fs::create_dir_all(&work).map_err(told)?;
            command.current_dir(&work);
        }
        let result = command.stdin(Stdio::null()).output().map_err(|error| format!("narrows run cannot be started: {error}"))?;
        let summary = std::fs::read_to_string(out.join("summary.json")).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let Some(summary) = summary.filter(|_| result.status.code() != Some(exit::REFUSED.into())) else {
            return Err(format!("a run could not be made:\n{}", String::from_utf8_lossy(&result.stderr).trim_end()));
        };
        let compared = match &self.compare {
            None => String::new(),
            Some(compare) => {
                let said = Command::new("/bin/sh").arg("-c").arg(compare).current_dir(&work).stdin(Stdio::null()).output();
                let said = said.map_err(|error| format!("--compare: the shell cannot be started: {error}"))?;
                format!("{}{}", String::from_utf8_lossy(&said.stdout), said.status)
            }
        };
        Ok(seen(&summary, &String::from_utf8_lossy(&result.stdout), compared))
    }

    /// Timings and what they showed, as files; the report.
    fn report(&self, explored: &Explored) -> Result<String, Failure> {
        let mut classes = Vec::new();
        let mut text = format!(
            "{} runs of {} on {} ranks: {}, {} ways in which receives from anybody were matched (seed {})\n",
            explored.runs,
            self.program.join(" "),
            self.ranks,
            if explored.classes.len() == 1 {
                String::from("one class of outcomes")
            } else {
                format!("{} classes of outcomes", explored.classes.len())
            },
            explored.matchings,
            self.seed
        );
        for (number, class) in (1..).zip(&explored.classes) {
            let file = self.out.join(format!("class-{number}.toml"));
            write(&file, class.timing.to_string())?;
            let quoted = |word: &String| {
                if word.contains([' ', '"', '\'', '$', '*']) { format!("'{}'", word.replace('\'', "'\\''")) } else { word.clone() }
            };
            let words = |words: Vec<String>| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
            let repeat =
                format!("narrows run --check --timing {} {} -- {}", file.display(), words(self.options()), words(self.program.clone()));
            text += &lines(number, class, &repeat);
            classes.push(json!({
                "runs": class.count,
                "ended": class.outcome.ended,
                "output": class.outcome.output,
                "findings": class.outcome.findings,
                "compared": class.outcome.compared,
                "timing": class.timing.describe(),
                "file": file.display().to_string(),
                "run": class.run,
                "repeat": repeat,
            }));
        }
        let whole = json!({
            "narrows": env!("CARGO_PKG_VERSION"),
            "program": self.program,
            "ranks": self.ranks,
            "runs": explored.runs,
            "seed": self.seed,
            "matchings": explored.matchings,
            "classes": classes,
        });
        let whole = format!("{whole:#}\n");
        write(&self.out.join("explore.json"), &whole)?;
        Ok(if self.json { whole } else { text })
    }
}

fn lines(number: usize, class: &Class, repeat: &str) -> String {
    let outcome = &class.outcome;
    let mut text = format!("\nclass {number}: {} runs, {}\n", class.count, outcome.ended);
    for line in outcome.output.iter().take(SHOWN) {
        text += &format!("  | {line}\n");
    }
    if outcome.output.len() > SHOWN {
        text += &format!("  | ... {} lines more\n", outcome.output.len() - SHOWN);
    }
    for finding in &outcome.findings {
        text += &format!("  found: {finding}\n");
    }
    for line in outcome.compared.lines().take(SHOWN) {
        text += &format!("  compared: {line}\n");
    }
    text + &format!("  least timing: {}\n  repeat: {repeat}\n", class.timing.describe())
}

/// What a run's summary says.
fn seen(summary: &Value, output: &str, compared: String) -> Seen {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let failure = summary["failure"].as_str().and_then(|text| text.lines().next());
    let ended = match failure {
        Some(line) if line.starts_with("deadlock") => String::from("deadlock"),
        // When is another matter than what.
        Some(line) => line.split(", at simulated time").next().unwrap_or(line).to_owned(),
        None => format!("exit code {}", summary["exit_code"]),
    };
    // What is lost of the output of processes that are killed is the host's affair.
    let mut output: Vec<String> = if failure.is_some() { Vec::new() } else { output.lines().map(str::to_owned).collect() };
    output.sort();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    // So is what ranks have told that are killed in the middle of a call.
    let killed = failure.is_some() && ended != "deadlock";
    let finding = |finding: &Value| {
        let calls: Vec<String> = list(&finding["calls"]).iter().map(text).collect();
        format!("{}: {}", text(&finding["kind"]), calls.join(" and "))
    };
    let findings = if killed { Vec::new() } else { list(&summary["findings"]).iter().map(finding).collect() };
    let end = |value: &Value| (value["rank"].as_u64().unwrap_or(0) as u32, SimTime(value["sent_ps"].as_u64().unwrap_or(0)));
    let choice = |choice: &Value| Choice {
        rank: choice["rank"].as_u64().unwrap_or(0) as u32,
        got: end(&choice["got"]),
        others: list(&choice["others"]).iter().map(end).collect(),
    };
    Seen {
        outcome: Outcome { ended, output, findings, compared },
        choices: list(&summary["choices"]).iter().map(choice).collect(),
        matching: text(&summary["matching"]),
        simulated: SimTime((summary["simulated_s"].as_f64().unwrap_or(0.0) * 1e12) as u64),
    }
}
