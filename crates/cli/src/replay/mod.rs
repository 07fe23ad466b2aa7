//! `narrows replay`: from traces to a report.

mod over_time;

use crate::failure::Failure;
use crate::form::Form;
use clap::Args;
use narrows_fabric::Network;
use narrows_machine::{Machine, Overrides};
use narrows_nic::Nics;
use narrows_output::{Meter, create_folder, exit, say, warn, write};
use narrows_replay::collectives::ByRules;
use narrows_replay::loggp::{self, Parameters};
use narrows_replay::machine::{Part, Replay};
use narrows_replay::mapping::{self, Mapping};
use narrows_replay::port::{Costs, Mailbox};
use narrows_replay::report::{Application, Progress};
use narrows_replay::watch::Watch;
use narrows_replay::{Graph, Outcome, Times};
use narrows_results::{Column, Progress as ShownProgress, Table, peak_memory};
use narrows_sim::World;
use narrows_topology::Topology;
use narrows_trace::{Program, ReadOptions, Trace};
use narrows_units::{SimTime, show};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arguments of `narrows replay`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows replay halo.vef --machine bxi-v2 --nodes 256 --out results/
  narrows replay a.vef b.vef --mapping node --machine my.toml --network flow
  narrows replay dissemination.goal --network loggp --loggp L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535

Traces are VEF, GOAL (text or binary), JSON Lines or SimGrid's; see docs/replay.md.")]
pub struct ReplayArgs {
    /// Traces; several run at the same time; - is standard input
    #[arg(required = true, value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// A preset (see `narrows machine list`) or a machine file [default: bxi-v2]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Number of nodes, instead of the machine's
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Changes one value of the machine, such as node.pcie.latency="250 ns"
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ranks per node [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ppn: Option<u32>,
    /// Which nodes each trace runs on: consecutive ones, those of every other switch, every other one, random, or a file with one node
    /// per line
    /// [default: linear]
    #[arg(long, value_name = "linear|switch|node|random:SEED|FILE")]
    mapping: Option<String>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = ["packet", "flow", "loggp"])]
    network: Option<String>,
    /// With --network loggp: the parameters of LogGOPSim instead of a machine
    #[arg(long, value_name = "L=TIME,o=TIME,g=TIME,G=TIME/B,O=TIME/B,S=BYTES", value_parser = clap::value_parser!(Parameters))]
    loggp: Option<Parameters>,
    /// Computing time and delays of the trace, times this; FACTOR@FIRST-LAST for the ranks on these nodes, the last one that fits counts
    #[arg(long, value_name = "FACTOR[@NODES]", value_parser = scale)]
    compute_scale: Vec<Scale>,
    /// Seed of every random choice of the models
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Which algorithms collectives use: Open MPI's or MPICH's decisions, or a file of rules [default: the machine's]
    #[arg(long, value_name = "openmpi|mpich|FILE")]
    collectives: Option<String>,
    /// Writes summary.json, the resolved machine, tables, pictures and a page into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Shows applications, queues and links over time, in periods of this length
    #[arg(long, value_name = "TIME", requires = "out")]
    period: Option<SimTime>,
    #[command(flatten)]
    form: Form,
}

/// A factor for the computing time on some nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    factor: f64,
    first: u32,
    last: u32,
}

fn scale(text: &str) -> Result<Scale, String> {
    let (factor, nodes) = text.split_once('@').map_or((text, None), |(factor, nodes)| (factor, Some(nodes)));
    let factor = match factor.parse::<f64>() {
        Ok(factor) if factor.is_finite() && (0.0..=1e6).contains(&factor) => factor,
        _ => return Err(format!("\"{factor}\": expected a number from 0 to 1000000")),
    };
    let Some(nodes) = nodes else { return Ok(Scale { factor, first: 0, last: u32::MAX }) };
    let (first, last) = nodes.split_once('-').unwrap_or((nodes, nodes));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Scale { factor, first, last }),
        _ => Err(format!("\"{nodes}\": expected a node or a range of nodes, as in 0.5@0-31")),
    }
}

/// The factor on a node.
fn scale_on(scales: &[Scale], node: u32) -> f64 {
    scales.iter().rev().find(|scale| (scale.first..=scale.last).contains(&node)).map_or(1.0, |scale| scale.factor)
}

/// What the summary says about the run besides the outcome.
struct Setting {
    wall: Duration,
    reading: Duration,
    running: Duration,
    about: Value,
}

/// Runs it; the exit code.
pub fn run(args: ReplayArgs) -> Result<u8, Failure> {
    let args = &args;
    let start = Instant::now();
    if let Some(out) = &args.out {
        create_folder(out)?;
    }
    match (&args.network, args.loggp) {
        (Some(network), Some(parameters)) if network == "loggp" => alone(args, parameters, start),
        (_, Some(_)) => Err(Failure::from(String::from("--loggp goes with --network loggp"))),
        _ if args.period == Some(SimTime::ZERO) => Err(Failure::from(String::from("--period 0: a period takes time"))),
        _ => on_machine(args, start),
    }
}

/// The LogGP replay.
fn alone(args: &ReplayArgs, parameters: Parameters, start: Instant) -> Result<u8, Failure> {
    let of_machine = [
        ("--machine", args.machine.is_some()),
        ("--nodes", args.nodes.is_some()),
        ("--set", !args.set.is_empty()),
        ("--ppn", args.ppn.is_some()),
        ("--mapping", args.mapping.is_some()),
        ("--period", args.period.is_some()),
    ];
    if let Some((option, _)) = of_machine.into_iter().find(|(_, given)| *given) {
        let message = format!("{option} is about a machine, and --loggp takes the place of one: leave out one of the two");
        return Err(Failure::from(message));
    }
    let table = args.collectives.as_deref().unwrap_or("openmpi");
    let rules = narrows_machine::collectives_table(table).map_err(|error| error.to_string())?;
    if let Some(scale) = args.compute_scale.iter().find(|scale| scale.last != u32::MAX) {
        return Err(Failure::from(format!("--compute-scale {}@{}-{}: --loggp has no nodes", scale.factor, scale.first, scale.last)));
    }
    let mut graph = Graph::new();
    for path in &args.traces {
        let mut trace = open(path)?;
        let mut collectives = ByRules::new(rules.clone(), None);
        let added = graph.add(&name(path), &mut trace.program, scale_on(&args.compute_scale, 0), &mut collectives);
        added.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let reading = start.elapsed();
    let (shown, mut count) = watch();
    let outcome = loggp::run(&mut graph, parameters, &mut count);
    drop(shown);
    let about = json!({
        "network": "loggp",
        "collectives": table,
        "loggp": {
            "L_s": parameters.latency.as_s_f64(), "o_s": parameters.overhead.as_s_f64(), "g_s": parameters.gap.as_s_f64(),
            "G_s_per_byte": parameters.gap_per_byte.as_s_f64(), "O_s_per_byte": parameters.overhead_per_byte.as_s_f64(),
            "S_bytes": parameters.eager.get(),
        },
    });
    let setting = Setting { wall: start.elapsed(), reading, running: start.elapsed() - reading, about };
    conclude(args, &outcome, &setting, None)
}

/// The replay through message layer, NICs and network.
fn on_machine(args: &ReplayArgs, start: Instant) -> Result<u8, Failure> {
    let mut set = args.set.clone();
    if let Some(network) = &args.network {
        set.push(format!("network.kind={network}"));
    }
    let machine = args.machine.as_deref().unwrap_or("bxi-v2");
    let machine = Machine::load(machine, &Overrides { nodes: args.nodes, set }).map_err(|error| error.to_string())?;
    let nodes = machine.node.count;
    if let Some(scale) = args.compute_scale.iter().find(|scale| scale.last != u32::MAX && scale.last >= nodes) {
        let Scale { factor, first, last } = scale;
        let message = format!("--compute-scale {factor}@{first}-{last}: the machine has the nodes 0 to {}", nodes - 1);
        return Err(Failure::from(message));
    }
    machine.warnings().iter().for_each(|warning| warn!("{warning}"));
    let table = args.collectives.as_deref().unwrap_or(&machine.collectives.table);
    let rules = machine.collective_rules(args.collectives.as_deref()).map_err(|error| error.to_string())?;
    let mapping_text = args.mapping.as_deref().unwrap_or("linear");
    let mapping: Mapping = mapping_text.parse().map_err(|error| format!("--mapping: {error}"))?;
    let topology = machine.topology().map_err(|error| error.to_string())?;
    let programs: Vec<(String, Trace)> = args.traces.iter().map(|path| Ok((name(path), open(path)?))).collect::<Result<_, String>>()?;
    let ranks: Vec<u32> = programs.iter().map(|(_, trace)| trace.program.ranks()).collect();
    let nodes = mapping::nodes(&mapping, &machine, &topology, args.ppn, &ranks)?;
    let processes = mapping::processes(&nodes);
    let parts = programs.into_iter().zip(&nodes).zip(&processes).map(|(((name, trace), nodes), processes)| Part {
        name,
        program: Box::new(trace.program),
        collectives: Box::new(ByRules::new(rules.clone(), Some(mapping::layout(&topology, nodes)))),
        scale: nodes.iter().map(|&node| scale_on(&args.compute_scale, node)).collect(),
        processes: processes.clone(),
    });
    let parts: Vec<Part> = parts.collect();
    let config = machine.network_config(args.seed);
    let seen = args.period.map(|period| (period, Arc::new(topology.clone())));
    let mut network = Network::new(&config, topology).map_err(|error| error.to_string())?;
    let lanes = u32::from(config.virtual_networks) * u32::from(config.virtual_channels);
    let observer = seen.as_ref().map(|(period, topology)| Watch::new(&mut network, Arc::clone(topology), lanes, &nodes, *period));
    let nics = Nics::new(machine.nic_config(), machine.node.count, &processes.concat());
    let costs = Costs {
        post: machine.software.post,
        completion: machine.software.completion,
        copy: machine.software.copy_bandwidth,
        pio_limit: machine.nic.pio_limit.get(),
    };
    let replay = Replay::new(World::new(network, nics, Mailbox::default()), parts, machine.message_config(), costs);
    let replay = match observer {
        Some(observer) => replay.watched(observer),
        None => replay,
    };
    let reading = start.elapsed();
    let (shown, mut count) = watch();
    let outcome = replay.run(&mut count).map_err(|error| error.to_string())?;
    drop(shown);
    let about = json!({
        "network": machine.network.kind.name(),
        "nodes": machine.node.count,
        "collectives": table,
        "mapping": mapping_text,
        "seed": args.seed,
        "machine": machine.to_json(),
    });
    let setting = Setting { wall: start.elapsed(), reading, running: start.elapsed() - reading, about };
    conclude(args, &outcome, &setting, Some((&machine, seen.as_ref().map(|(_, topology)| &**topology))))
}

fn open(path: &Path) -> Result<Trace, String> {
    crate::trace::open(path, ReadOptions::default()).map_err(|error| error.to_string())
}

fn name(path: &Path) -> String {
    if narrows_output::is_standard(path) {
        return String::from("standard input");
    }
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// Counts for who shows the progress; says no after Ctrl-C.
fn watch() -> (ShownProgress, impl FnMut(Progress) -> bool) {
    narrows_live::processes::prepare();
    let (meter, now) = (Arc::new(Meter::default()), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&now);
    let shown = ShownProgress::with("replaying", &meter, move || format!("simulated {}", SimTime(seen.load(Ordering::Relaxed))));
    let count = move |progress: Progress| {
        meter.set(progress.done, progress.known);
        now.store(progress.now.as_ps(), Ordering::Relaxed);
        narrows_live::processes::signal().is_none()
    };
    (shown, count)
}

/// Says how it went and saves; the exit code.
fn conclude(
    args: &ReplayArgs,
    outcome: &Outcome,
    setting: &Setting,
    machine: Option<(&Machine, Option<&Topology>)>,
) -> Result<u8, Failure> {
    let summary = summary(args, outcome, setting);
    args.form.print(|| text(outcome, setting), || summary.clone(), || table(outcome))?;
    if let Some(failure) = &outcome.failure {
        say!("{failure}");
    }
    if let Some(out) = &args.out {
        if let Some((machine, _)) = machine {
            write(&out.join("machine.toml"), machine.to_toml())?;
        }
        write(&out.join("summary.json"), format!("{summary:#}\n"))?;
        over_time::save(out, outcome, machine.and_then(|(_, topology)| topology))?;
    }
    Ok(if outcome.failure.is_some() { exit::NO } else { exit::DONE })
}

/// When an application ended, if it did.
fn end(application: &Application) -> String {
    match application.unfinished {
        0 => format!("finished at {}", application.finish),
        unfinished => format!("stopped at {}, {unfinished} ranks not finished", application.finish),
    }
}

/// The lines on standard output.
fn text(outcome: &Outcome, setting: &Setting) -> String {
    let mut text = String::new();
    for application in &outcome.applications {
        let Application { name, ranks, messages, bytes, fct, .. } = application;
        let (end, bytes, fct) = (end(application), show::size(*bytes), fct.mean());
        text += &format!("{name}: {ranks} ranks, {end}, {messages} messages, {bytes}, mean completion time {fct}\n");
    }
    let rate = outcome.messages() as f64 / setting.running.as_secs_f64().max(1e-9);
    text += &format!(
        "simulated time {}, digest {:016x}; read in {:.2} s, replayed in {:.2} s ({} messages/s)\n",
        outcome.finish,
        outcome.digest,
        setting.reading.as_secs_f64(),
        setting.running.as_secs_f64(),
        show::count(rate)
    );
    text
}

/// A row per application.
fn table(outcome: &Outcome) -> Table {
    let integer = |value: &dyn Fn(&Application) -> u64| Column::Integer(outcome.applications.iter().map(|a| value(a) as i64).collect());
    let number = |value: &dyn Fn(&Application) -> f64| Column::Number(outcome.applications.iter().map(|a| Some(value(a))).collect());
    Table::new(vec![
        ("application", Column::Text(outcome.applications.iter().map(|application| application.name.clone()).collect())),
        ("ranks", integer(&|application| u64::from(application.ranks))),
        ("unfinished_ranks", integer(&|application| u64::from(application.unfinished))),
        ("finish_s", number(&|application| application.finish.as_s_f64())),
        ("messages", integer(&|application| application.messages)),
        ("bytes", integer(&|application| application.bytes)),
        ("fct_mean_ns", number(&|application| application.fct.mean().as_ns_f64())),
        ("fct_p50_ns", number(&|application| application.fct.quantile(0.5).as_ns_f64())),
        ("fct_p99_ns", number(&|application| application.fct.quantile(0.99).as_ns_f64())),
        ("fct_max_ns", number(&|application| application.fct.max().as_ns_f64())),
    ])
}

fn summary(args: &ReplayArgs, outcome: &Outcome, setting: &Setting) -> Value {
    let ns = |time: SimTime| time.as_ns_f64();
    let fct = |times: &Times| json!({ "mean": ns(times.mean()), "p50": ns(times.quantile(0.5)), "p99": ns(times.quantile(0.99)), "max": ns(times.max()) });
    let applications = outcome.applications.iter().map(|application| {
        json!({
            "name": application.name,
            "ranks": application.ranks,
            "finish_s": application.finish.as_s_f64(),
            "unfinished_ranks": application.unfinished,
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
        "peak_rss_bytes": peak_memory(),
        "digest": format!("{:016x}", outcome.digest),
        "failure": outcome.failure,
        "compute_scale": args.compute_scale.iter().map(|scale| scale.factor).collect::<Vec<_>>(),
        "exit_code": i32::from(outcome.failure.is_some()),
        "applications": applications,
        "rank_finish_s": outcome.rank_finish.iter().map(|time| time.as_s_f64()).collect::<Vec<_>>(),
    });
    if let (Some(summary), Some(totals)) = (summary.as_object_mut(), outcome.totals) {
        summary.insert("nic_messages".into(), json!(totals.messages));
        summary.insert("packets".into(), json!(totals.packets));
        summary.insert("packet_hops".into(), json!(totals.packet_hops));
        summary.insert("retries".into(), json!(totals.retries));
    }
    if let (Some(summary), Value::Object(about)) = (summary.as_object_mut(), &setting.about) {
        summary.extend(about.clone());
    }
    summary
}
