//! `narrows replay`: from traces to a report.

use clap::Args;
use narrows_collectives::rules::{MPICH, OPEN_MPI, Rules};
use narrows_replay::collectives::ByRules;
use narrows_replay::loggp::{self, Parameters};
use narrows_replay::report::Progress;
use narrows_replay::{Graph, Outcome, Times};
use narrows_trace::{ReadOptions, Trace};
use narrows_units::SimTime;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `narrows replay`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows replay halo.vef --machine bxi-v2 --nodes 256 --out results/
  narrows replay a.vef b.vef --mapping node --machine my.toml --network flow
  narrows replay dissemination.goal --network loggp --loggp L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535

Traces are VEF, GOAL (text or binary), JSON Lines or SimGrid's; see docs/replay.md.")]
pub struct ReplayArgs {
    /// Traces; several run at the same time
    #[arg(required = true, value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = ["packet", "flow", "loggp"])]
    network: Option<String>,
    /// With --network loggp: the parameters of LogGOPSim instead of a machine
    #[arg(long, value_name = "L=TIME,o=TIME,g=TIME,G=TIME/B,O=TIME/B,S=BYTES", value_parser = clap::value_parser!(Parameters))]
    loggp: Option<Parameters>,
    /// Computing time and delays of the trace, times this
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    compute_scale: f64,
    /// Which algorithms collectives use: Open MPI's or MPICH's decisions, or a file of rules
    #[arg(long, default_value = "openmpi", value_name = "openmpi|mpich|FILE")]
    collectives: String,
    /// Writes summary.json into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor.is_finite() && (0.0..=1e6).contains(&factor) => Ok(factor),
        _ => Err(String::from("expected a number from 0 to 1000000")),
    }
}

/// Runs it; 0, or 1 when the replay did not come to its end, or 2 when it could not start.
pub fn run(args: ReplayArgs) -> ExitCode {
    match whole(&args) {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("narrows: {message}");
            ExitCode::from(2)
        }
    }
}

/// What the summary says about the run besides the outcome.
struct Setting {
    wall: Duration,
    reading: Duration,
    running: Duration,
    about: Value,
}

fn whole(args: &ReplayArgs) -> Result<u8, String> {
    let start = Instant::now();
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|error| format!("--out {}: {error}", out.display()))?;
    }
    let rules = rules(&args.collectives)?;
    let parameters = match (&args.network, args.loggp) {
        (Some(network), Some(parameters)) if network == "loggp" => parameters,
        (_, Some(_)) => return Err(String::from("--loggp goes with --network loggp")),
        _ => return Err(String::from("give --network loggp and --loggp PARAMETERS")),
    };
    let mut graph = Graph::new();
    for path in &args.traces {
        let mut trace = open(path)?;
        let mut collectives = ByRules::new(rules.clone(), None);
        let added = graph.add(&name(path), &mut trace.program, args.compute_scale, &mut collectives);
        added.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let reading = start.elapsed();
    let outcome = loggp::run(&mut graph, parameters, &mut watch());
    let setting = Setting {
        wall: start.elapsed(),
        reading,
        running: start.elapsed() - reading,
        about: json!({
            "network": "loggp",
            "loggp": {
                "L_s": parameters.latency.as_s_f64(), "o_s": parameters.overhead.as_s_f64(), "g_s": parameters.gap.as_s_f64(),
                "G_s_per_byte": parameters.gap_per_byte.as_s_f64(), "O_s_per_byte": parameters.overhead_per_byte.as_s_f64(),
                "S_bytes": parameters.eager.get(),
            },
            "collectives": args.collectives,
            "compute_scale": args.compute_scale,
        }),
    };
    conclude(args, &outcome, &setting)
}

fn open(path: &Path) -> Result<Trace, String> {
    narrows_trace::open(path, ReadOptions::default()).map_err(|error| error.to_string())
}

fn name(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

fn rules(text: &str) -> Result<Rules, String> {
    let table = match text {
        "openmpi" => OPEN_MPI,
        "mpich" => MPICH,
        path => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("--collectives {path}: {error}"))?;
            return Rules::parse(&text).map_err(|error| format!("--collectives {path}: {error}"));
        }
    };
    Rules::parse(table).map_err(|error| format!("--collectives {text}: {error}"))
}

/// Shows progress once a second on a terminal, every ten seconds elsewhere; says no after Ctrl-C.
fn watch() -> impl FnMut(Progress) -> bool {
    narrows_live::processes::prepare();
    let terminal = std::io::stderr().is_terminal();
    let interval = Duration::from_secs(if terminal { 1 } else { 10 });
    let (start, mut last) = (Instant::now(), Instant::now());
    move |progress: Progress| {
        if last.elapsed() >= interval {
            last = Instant::now();
            let part = 100.0 * progress.done as f64 / progress.known.max(1) as f64;
            let seconds = start.elapsed().as_secs();
            let line = format!("narrows: {part:.0} % of {} operations, simulated {}, {seconds} s", progress.known, progress.now);
            if terminal { eprint!("\r{line}\x1b[K") } else { eprintln!("{line}") }
        }
        narrows_live::processes::signal().is_none()
    }
}

/// Saves and says how it went; the exit code.
fn conclude(args: &ReplayArgs, outcome: &Outcome, setting: &Setting) -> Result<u8, String> {
    let summary = summary(args, outcome, setting);
    if let Some(out) = &args.out {
        let path = out.join("summary.json");
        let text = serde_json::to_string_pretty(&summary).expect("numbers and strings always serialise");
        std::fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for application in &outcome.applications {
        eprintln!(
            "narrows: {}: {} ranks, finished at {}, {} messages, {} bytes, mean completion time {}",
            application.name,
            application.ranks,
            application.finish,
            application.messages,
            application.bytes,
            application.fct.mean()
        );
    }
    let rate = outcome.messages() as f64 / setting.running.as_secs_f64().max(1e-9);
    eprintln!(
        "narrows: simulated time {}, digest {:016x}; read in {:.2} s, replayed in {:.2} s ({:.2} M messages/s)",
        outcome.finish,
        outcome.digest,
        setting.reading.as_secs_f64(),
        setting.running.as_secs_f64(),
        rate / 1e6
    );
    match &outcome.failure {
        Some(failure) => {
            eprintln!("narrows: {failure}");
            Ok(1)
        }
        None => Ok(0),
    }
}

fn summary(args: &ReplayArgs, outcome: &Outcome, setting: &Setting) -> Value {
    let ns = |time: SimTime| time.as_ns_f64();
    let fct = |times: &Times| json!({ "mean": ns(times.mean()), "p50": ns(times.quantile(0.5)), "p99": ns(times.quantile(0.99)), "max": ns(times.max()) });
    let applications = outcome.applications.iter().map(|application| {
        json!({
            "name": application.name,
            "ranks": application.ranks,
            "finish_s": application.finish.as_s_f64(),
            "messages": application.messages,
            "bytes": application.bytes,
            "fct_ns": fct(&application.fct),
            "digest": format!("{:016x}", application.digest),
        })
    });
    let applications: Vec<Value> = applications.collect();
    let running = setting.running.as_secs_f64();
    let mut summary = json!({
        "narrows": env!("CARGO_PKG_VERSION"),
        "traces": args.traces.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "simulated_s": outcome.finish.as_s_f64(),
        "wall_s": setting.wall.as_secs_f64(),
        "reading_s": setting.reading.as_secs_f64(),
        "replay_s": running,
        "ranks": outcome.rank_finish.len(),
        "messages": outcome.messages(),
        "messages_per_s": outcome.messages() as f64 / running.max(1e-9),
        "bytes": outcome.bytes(),
        "events": outcome.events,
        "peak_rss_bytes": peak_rss_bytes(),
        "digest": format!("{:016x}", outcome.digest),
        "failure": outcome.failure,
        "exit_code": i32::from(outcome.failure.is_some()),
        "applications": applications,
        "rank_finish_s": outcome.rank_finish.iter().map(|time| time.as_s_f64()).collect::<Vec<_>>(),
    });
    if let (Some(summary), Value::Object(about)) = (summary.as_object_mut(), &setting.about) {
        summary.extend(about.clone());
    }
    summary
}

/// The most memory that this process has had.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
