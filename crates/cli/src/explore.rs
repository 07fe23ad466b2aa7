//! `narrows explore`: a program under many legal timings.

use crate::failure::Failure;
use crate::job::JobArgs;
use clap::Args;
use narrows_launch as launch;
use narrows_output::{Meter, create_folder, exit, print, write};
use narrows_results::{Origin, Progress};
use narrows_study::explore::{Choice, Class, ExploreSpec, Explored, Outcome, Seen, TIME, explore, timeless};
use narrows_study::live::{TimingSpec, Waiting, waits_picture};
use narrows_units::SimTime;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Arguments of `narrows explore`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows explore -n 4 -- ./app
  narrows explore -n 8 --runs 500 --jobs 4 --seed 7 --out timings/ -- ./app input.txt
  narrows explore -n 4 --compare 'md5sum out.dat' -- ./app
  narrows run --timing timings/class-2.toml -n 8 --compute none -- ./app input.txt  # repeats it

Runs: the machine as it is, with other eager limits, with another message first at each receive
from anybody, and with random latencies, late starts and slow ranks; messages of a pair never
overtake each other. Computing takes no time. What is compared: exit code, sorted lines of
standard output (without times, rates and dates), deadlock, what --check finds, what --compare
prints. Behind --runs, up to 24 runs for each of up to 8 classes look for the least timing that
shows it.

Exit code 0: one class of outcomes and no error in it. 1: several, or an error. Docs:
docs/explore.md.")]
pub struct ExploreArgs {
    #[command(flatten)]
    job: JobArgs,
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
    /// The shell command through which standard output goes before it is compared, such as "grep -v seconds". Without
    /// it times, rates and dates are left out; "cat" compares all
    #[arg(long, value_name = "COMMAND")]
    filter: Option<String>,
    /// Outputs that differ only in real numbers, by no more than this part of them, are the same: sums in another order
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part)]
    tolerance: f64,
    /// Where a timing for each class, explore.json and a page with all of it (report.html) go
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
    /// Runs are made by whoever reads them from standard output, one JSON object in a line, and answers on standard
    /// input: for Python
    #[arg(long, hide = true)]
    elsewhere: bool,
    /// What `job` says.
    #[arg(skip)]
    apps: Vec<launch::App>,
}

fn part(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|part| (0.0..1.0).contains(part)).ok_or_else(|| String::from("a number from 0 to 1, such as 1e-12"))
}

/// Lines of a program's output that are shown.
const SHOWN: usize = 5;

/// Runs it; the exit code.
pub fn run(args: ExploreArgs) -> Result<u8, Failure> {
    let args = ExploreArgs { apps: args.job.apps()?, ..args };
    create_folder(&args.out)?;
    let scratch = launch::Scratch::create().map_err(|error| error.to_string())?;
    let jobs = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize);
    let spec = ExploreSpec { runs: args.runs as usize, jobs, seed: args.seed, ranks: args.ranks(), tolerance: args.tolerance };
    let meter = Arc::new(Meter::new(spec.runs as u64));
    let classes = Arc::new(AtomicUsize::new(0));
    let shown = Arc::clone(&classes);
    let elsewhere = args.elsewhere.then(|| Elsewhere::start(&args));
    let progress = Progress::with("exploring", &meter, move || format!("{} classes of outcomes", shown.load(Relaxed)));
    let counter = AtomicUsize::new(0);
    let one = |timing: &TimingSpec| {
        if let Some(elsewhere) = &elsewhere {
            let (summary, output, compared) = elsewhere.run(timing)?;
            return Ok(seen(&summary, &args.filtered(output)?, compared));
        }
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
    // A whole line of its own behind those of runs.
    print(&if args.elsewhere { format!("{}\n", json!({ "report": report })) } else { report })?;
    let bad = explored.classes.iter().any(|class| is_bad(&class.outcome));
    Ok(if bad || explored.classes.len() > 1 { exit::NO } else { exit::DONE })
}

fn is_bad(outcome: &Outcome) -> bool {
    outcome.ended != GOOD || outcome.findings.iter().any(|finding| !finding.starts_with("leak") && !finding.starts_with("conflict"))
}

/// Runs that somebody else makes.
struct Elsewhere {
    /// By run; under the largest number if there will be no more.
    answers: Mutex<BTreeMap<usize, Value>>,
    came: Condvar,
    next: AtomicUsize,
    /// The command, but for the timing and the folder of results; the program; the comparison.
    what: Value,
}

impl Elsewhere {
    fn start(args: &ExploreArgs) -> Arc<Elsewhere> {
        let mut command = vec![String::from("run")];
        command.extend(args.options());
        command.extend([String::from("--check"), format!("--timeout={}", args.timeout)]);
        let what = json!({ "command": command, "program": args.program(), "compare": args.compare });
        let own = Arc::new(Elsewhere { answers: Mutex::default(), came: Condvar::new(), next: AtomicUsize::new(0), what });
        let reader = Arc::clone(&own);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(answer) = line.map_err(|_| ()).and_then(|line| serde_json::from_str::<Value>(&line).map_err(|_| ())) else { break };
                reader.put(answer["run"].as_u64().unwrap_or(0) as usize, answer);
            }
            reader.put(usize::MAX, Value::Null);
        });
        own
    }

    fn put(&self, run: usize, answer: Value) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(run, answer);
        self.came.notify_all();
    }

    /// Summary, standard output and comparison of a run.
    fn run(&self, timing: &TimingSpec) -> Result<(Value, String, String), Failure> {
        let run = self.next.fetch_add(1, Relaxed);
        let mut asked = self.what.clone();
        (asked["run"], asked["timing"]) = (json!(run), json!(timing.to_string()));
        {
            // One line at a time.
            let _answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            print(&format!("{asked}\n")).map_err(|error| error.to_string())?;
        }
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = loop {
            if let Some(answer) = answers.remove(&run) {
                break answer;
            }
            if answers.contains_key(&usize::MAX) {
                return Err(Failure::from(String::from("standard input has ended: nobody makes the runs")));
            }
            answers = self.came.wait(answers).unwrap_or_else(PoisonError::into_inner);
        };
        let text = |name: &str| answer[name].as_str().unwrap_or_default();
        let summary = serde_json::from_str::<Value>(text("summary")).map_err(|_| format!("a run could not be made:\n{}", text("error")))?;
        Ok((summary, text("output").to_owned(), text("compared").to_owned()))
    }
}

/// A run without fault.
const GOOD: &str = "exit code 0";

impl ExploreArgs {
    /// Options of `narrows run` that say the same.
    fn options(&self) -> Vec<String> {
        let mut options = vec![format!("-n{}", self.apps[0].ranks), String::from("--machine"), self.machine.clone()];
        options.extend(self.set.iter().flat_map(|set| [String::from("--set"), set.clone()]));
        // Those of the other programs stand in front of them.
        let on = Some(&self.apps[0].on).filter(|on| !on.is_empty());
        options.extend(on.into_iter().flat_map(|on| [String::from("--on"), on.clone()]));
        options.extend(self.ppn.iter().flat_map(|ppn| [String::from("--ppn"), ppn.to_string()]));
        options.extend(self.mpirun.iter().flat_map(|path| [String::from("--mpirun"), path.display().to_string()]));
        options.extend(["--compute", "none"].map(String::from));
        options
    }

    /// Of all programs.
    fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    /// The programs, to be found from another folder.
    fn program(&self) -> Vec<String> {
        let found = |app: &launch::App| match std::fs::canonicalize(&app.program) {
            Ok(path) if app.program.contains('/') => launch::App { program: path.display().to_string(), ..app.clone() },
            _ => app.clone(),
        };
        launch::words(&self.apps.iter().map(found).collect::<Vec<_>>())
    }

    /// Standard output as it is compared.
    fn filtered(&self, output: String) -> Result<String, Failure> {
        let Some(filter) = &self.filter else {
            return Ok(output.lines().map(|line| timeless(line).0 + "\n").collect());
        };
        let told = |error: std::io::Error| Failure::from(format!("--filter: {error}"));
        let mut shell = Command::new("/bin/sh").arg("-c").arg(filter).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(told)?;
        let mut input = shell.stdin.take();
        std::thread::scope(|scope| {
            // A filter that reads no further is none of our business.
            scope.spawn(move || input.take().map(|mut input| input.write_all(output.as_bytes())));
            let done = shell.wait_with_output().map_err(told)?;
            Ok(String::from_utf8_lossy(&done.stdout).into_owned())
        })
    }

    /// One run in a process of its own.
    fn one(&self, timing: &TimingSpec, folder: &Path) -> Result<Seen, Failure> {
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
            let told = String::from_utf8_lossy(&result.stderr);
            return Err(Failure::from(format!("a run could not be made:\n{}", told.trim_end())));
        };
        let compared = match &self.compare {
            None => String::new(),
            Some(compare) => {
                let said = Command::new("/bin/sh").arg("-c").arg(compare).current_dir(&work).stdin(Stdio::null()).output();
                let said = said.map_err(|error| format!("--compare: the shell cannot be started: {error}"))?;
                format!("{}{}", String::from_utf8_lossy(&said.stdout), said.status)
            }
        };
        Ok(seen(&summary, &self.filtered(String::from_utf8_lossy(&result.stdout).into_owned())?, compared))
    }

    /// Timings and what they showed, as files; the report.
    fn report(&self, explored: &Explored) -> Result<String, Failure> {
        let mut classes = Vec::new();
        let mut pictures = Vec::new();
        let origin = Origin::here(Some(&self.machine), Some(self.seed));
        let mut text = format!(
            "{} runs{} of {} on {} ranks: {}, {} ways in which receives from anybody were matched (seed {})\n",
            explored.runs,
            if explored.shrinking > 0 { format!(" and {} for the least timings", explored.shrinking) } else { String::new() },
            launch::words(&self.apps).join(" "),
            self.ranks(),
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
            let repeat = format!(
                "narrows run --check --timing {} {} -- {}",
                file.display(),
                words(self.options()),
                words(launch::words(&self.apps))
            );
            let picture = self.out.join(format!("class-{number}.svg"));
            let title = format!("Who waits for whom: {}", class.timing.describe());
            let drawn = (!class.waits.is_empty()).then(|| waits_picture(&title, &class.waits));
            if let Some(drawn) = &drawn {
                write(&picture, origin.sign(drawn))?;
            }
            pictures.push(drawn);
            let picture = (!class.waits.is_empty()).then(|| picture.display().to_string());
            // Beside the first class.
            let apart = (number > 1).then(|| explored.classes[0].outcome.apart(&class.outcome)).flatten();
            text += &lines(number, class, &repeat, picture.as_deref(), apart);
            let waits = class.waits.iter();
            let waits: Vec<Value> =
                waits.map(|wait| json!({ "rank": wait.rank, "call": wait.call, "whom": wait.whom, "any": wait.any })).collect();
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
                "waits": waits,
                "picture": picture,
                "apart": apart,
            }));
        }
        let times = explored.classes.iter().flat_map(|class| &class.outcome.output).any(|line| line.contains(TIME));
        if self.filter.is_none() && times {
            text += &format!("\n{TIME}: times, rates and dates of the output are not compared; --filter cat compares all of it\n");
        }
        let whole = json!({
            "narrows": env!("CARGO_PKG_VERSION"),
            "program": launch::words(&self.apps),
            "ranks": self.ranks(),
            "runs": explored.runs,
            "shrinking": explored.shrinking,
            "seed": self.seed,
            "matchings": explored.matchings,
            "classes": classes,
        });
        write(&self.out.join("report.html"), narrows_study::report::explored(&whole, &pictures, &origin))?;
        let whole = format!("{whole:#}\n");
        write(&self.out.join("explore.json"), &whole)?;
        Ok(if self.json { whole } else { text })
    }
}

fn lines(number: usize, class: &Class, repeat: &str, picture: Option<&str>, apart: Option<f64>) -> String {
    let outcome = &class.outcome;
    let mut text = format!("\nclass {number}: {} runs, {}\n", class.count, outcome.ended);
    let said: Vec<&String> = outcome.output.iter().filter(|line| !line.trim().is_empty()).collect();
    for line in said.iter().take(SHOWN) {
        text += &format!("  | {line}\n");
    }
    if said.len() > SHOWN {
        text += &format!("  | ... {} lines more\n", said.len() - SHOWN);
    }
    for wait in class.waits.iter().take(SHOWN) {
        text += &format!("  rank {}: {}\n", wait.rank, wait.call);
    }
    if class.waits.len() > SHOWN {
        text += &format!("  ... {} ranks more\n", class.waits.len() - SHOWN);
    }
    for finding in &outcome.findings {
        text += &format!("  found: {finding}\n");
    }
    for line in outcome.compared.lines().take(SHOWN) {
        text += &format!("  compared: {line}\n");
    }
    if let Some(apart) = apart {
        text += &format!("  as class 1 but for real numbers of its output, which are up to {apart:.1e} apart (--tolerance)\n");
    }
    if let Some(picture) = picture {
        text += &format!("  who waits for whom: {picture}\n");
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
    let wait = |wait: &Value| Waiting {
        rank: wait["rank"].as_u64().unwrap_or(0) as u32,
        call: text(&wait["call"]),
        whom: list(&wait["whom"]).iter().map(|rank| rank.as_u64().unwrap_or(0) as u32).collect(),
        any: wait["any"] == true,
    };
    Seen {
        waits: list(&summary["waits"]).iter().map(wait).collect(),
        outcome: Outcome { ended, output, findings, compared },
        choices: list(&summary["choices"]).iter().map(choice).collect(),
        matching: text(&summary["matching"]),
        simulated: SimTime((summary["simulated_s"].as_f64().unwrap_or(0.0) * 1e12) as u64),
    }
}
