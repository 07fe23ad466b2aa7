//! `narrows replay`: from traces to a report.

use crate::failure::Failure;
use crate::form::Form;
use crate::machine::HandlersArgument;
use crate::processes;
use crate::timeline::TimelineArgs;
use crate::watching::Watching;
use clap::Args;
use narrows_fabric::parallel::Processes;
use narrows_machine::{NetworkKind, Overrides};
use narrows_output::{create_folder, say};
use narrows_replay::loggp::Parameters;
use narrows_study::replay::{Recordings, Source, Target};
use narrows_study::{MachineSpec, ReplaySpec, Scale};
use narrows_traffic::Class;
use narrows_units::SimTime;
use std::path::PathBuf;

/// Arguments of `narrows replay`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows replay halo.vef --machine bxi-v2 --nodes 256 --out results/
  narrows replay a.vef b.vef --mapping node --machine my.toml --network flow
  narrows replay halo.vef --timeline halo.pftrace --timeline-to 200us
  narrows replay training.0.et --machine bxi-v3 --nodes 64
  narrows replay a8.jsonl a27.jsonl a64.jsonl --extrapolate 4096 --machine bxi-v3 --nodes 4096
  narrows replay a.goal --network loggp --loggp L=2500ns,o=1500ns,g=1000ns,G=6ns/B,S=65535

Traces are VEF, GOAL (text or binary), JSON Lines, SimGrid's or Chakra's (the file of any rank
stands for all); see docs/replay.md.")]
pub struct ReplayArgs {
    /// Traces; several run at the same time; - is standard input
    #[arg(required = true, value_name = "FILE")]
    traces: Vec<PathBuf>,
    /// The traces are recordings of one program at several numbers of ranks: replays it at so many, as `narrows
    /// extrapolate` would write it
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    extrapolate: Option<u32>,
    /// A preset (see `narrows machine list`) or a machine file [default: bxi-v2]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Number of nodes, instead of the machine's
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Changes one value of the machine, such as node.pcie.latency="250 ns"
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    handlers: HandlersArgument,
    /// What is wrong with a link, a switch or a NIC, such as 'link=leaf0:7 loss=1e-4 from=1ms to=2ms': a port of a
    /// switch, 3-17 or leaf3-spine1 for cables between two, node5 for that of a node; switches are leafN, spineN,
    /// coreN, routerN, as a graph file calls them, or numbers (see network.faults); may be repeated
    #[arg(long, value_name = "KEY=VALUE ...")]
    fault: Vec<String>,
    /// Ranks per processor, of which most nodes have one [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ppn: Option<u32>,
    /// Where each trace runs: on consecutive nodes, those of every other switch, every other one, on the first, second
    /// ... processor of all nodes, at random, or a file with one node per line; linear:host,NAME and random:SEED:NAME
    /// take processors of these names
    /// [default: linear]
    #[arg(long, value_name = "linear|switch|node|processor|random:SEED|FILE")]
    mapping: Option<String>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = crate::machine::network())]
    network: Option<NetworkKind>,
    /// With --network loggp: the parameters of LogGOPSim instead of a machine
    #[arg(long, value_name = "L=TIME,o=TIME,g=TIME,G=TIME/B,O=TIME/B,S=BYTES", value_parser = clap::value_parser!(Parameters))]
    loggp: Option<Parameters>,
    /// Computing time and delays of the trace, times this; FACTOR@FIRST-LAST for the ranks on these nodes, the last one
    /// that fits counts
    #[arg(long, value_name = "FACTOR[@NODES]", value_parser = clap::value_parser!(Scale))]
    compute_scale: Vec<Scale>,
    /// Synthetic traffic beside the traces, as a class of `narrows traffic`, such as 'pattern=incast:5 load=0.5'
    /// (docs/traffic.md); may be repeated
    #[arg(long, value_name = "KEY=VALUE ...", value_parser = Class::parse)]
    background: Vec<Class>,
    /// Seed of every random choice of the models
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads of the simulator, of use on packet and LogGP networks: one for each of its parts at most. The results do
    /// not depend on them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Which algorithms collectives use: Open MPI's or MPICH's decisions, or a file of rules [default: the machine's]
    #[arg(long, value_name = "openmpi|mpich|mpich3|FILE")]
    collectives: Option<String>,
    /// Writes summary.json, the resolved machine, tables, pictures and a page into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Shows applications, queues and links over time, in periods of this length
    #[arg(long, value_name = "TIME", requires = "out")]
    period: Option<SimTime>,
    #[command(flatten)]
    timeline: TimelineArgs,
    #[command(flatten)]
    form: Form,
}

/// Runs it; the exit code.
pub fn run(args: ReplayArgs) -> Result<u8, Failure> {
    processes::together(|processes| replay(&args, processes))
}

fn replay(args: &ReplayArgs, processes: Option<&Processes>) -> Result<u8, Failure> {
    let speaks = processes.is_none_or(Processes::is_first);
    let spec = ReplaySpec { processes: processes.cloned(), ..spec(args)? };
    if let Some(out) = args.out.as_ref().filter(|_| speaks) {
        create_folder(out)?;
    }
    let outcome = spec.run(&Watching::start()?.shows(speaks))?;
    if !speaks {
        return Ok(outcome.exit_code());
    }
    args.form.print(|| outcome.text(), || outcome.summary(), || outcome.applications_table())?;
    if let Some(failure) = &outcome.replay.failure {
        say!("{failure}");
    }
    if let Some(out) = &args.out {
        outcome.save(out)?;
    }
    if let Some(error) = outcome.unwritten() {
        return Err(Failure::from(error));
    }
    Ok(outcome.exit_code())
}

/// What the options ask for.
fn spec(args: &ReplayArgs) -> Result<ReplaySpec, Failure> {
    Ok(ReplaySpec {
        sources: sources(args),
        target: target(args)?,
        scales: args.compute_scale.clone(),
        seed: args.seed,
        threads: args.threads as usize,
        collectives: args.collectives.clone(),
        timeline: args.timeline.spec(),
        processes: None,
    })
}

fn sources(args: &ReplayArgs) -> Vec<Source> {
    match args.extrapolate {
        None => args.traces.iter().cloned().map(Source::File).collect(),
        Some(ranks) => {
            let (files, unexplained) = (args.traces.clone(), Recordings::UNEXPLAINED);
            vec![Source::Extrapolated(Recordings { files, ranks, unexplained, growth: None })]
        }
    }
}

fn target(args: &ReplayArgs) -> Result<Target, Failure> {
    let Some(parameters) = args.loggp else {
        let name = args.machine.clone().unwrap_or_else(|| String::from("bxi-v2"));
        let overrides = Overrides::new(args.nodes, args.handlers.and(args.set.clone())?, &args.fault);
        return Ok(Target::Machine {
            machine: MachineSpec { name, overrides, network: args.network },
            ppn: args.ppn,
            mapping: args.mapping.clone().unwrap_or_else(|| String::from("linear")),
            period: args.period,
            background: args.background.clone(),
        });
    };
    if args.network != Some(NetworkKind::LogGp) {
        return Err(Failure::from(String::from("--loggp goes with --network loggp")));
    }
    let of_machine = [
        ("--machine", args.machine.is_some()),
        ("--nodes", args.nodes.is_some()),
        ("--set", !args.set.is_empty()),
        ("--handlers", args.handlers.handlers.is_some()),
        ("--fault", !args.fault.is_empty()),
        ("--ppn", args.ppn.is_some()),
        ("--mapping", args.mapping.is_some()),
        ("--period", args.period.is_some()),
        ("--background", !args.background.is_empty()),
    ];
    if let Some((option, _)) = of_machine.into_iter().find(|(_, given)| *given) {
        let message = format!("{option} is about a machine, and --loggp takes the place of one: leave out one of the two");
        return Err(Failure::from(message));
    }
    Ok(Target::LogGp(parameters))
}
