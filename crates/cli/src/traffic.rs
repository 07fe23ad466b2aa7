//! `narrows traffic`: from the command line to a sweep.

use crate::failure::Failure;
use crate::form::Form;
use crate::processes;
use crate::watching::Watching;
use clap::Args;
use narrows_fabric::parallel::Processes;
use narrows_machine::NetworkKind;
use narrows_output::{complain, create_folder};
use narrows_study::ip::{self, Pattern};
use narrows_study::traffic::Wording;
use narrows_study::{IpSpec, MachineSpec, StudyError, TrafficSpec};
use std::path::PathBuf;

/// Arguments of `narrows traffic`.
#[derive(Args)]
#[command(after_help = "\
Patterns:
  uniform                   to any other node          permutation    one drawn from the seed
  adversarial:K             to the K-th next group     tornado        half way round
  incast:N                  N nodes to node 0          shift:K        K nodes on
  hotspot:FRACTION,NODES    a part to few nodes        all-to-all     to all others in turn
  flows FILE.csv            start_ns,source,target,bytes per line
  mix FILE.toml             several classes of traffic, a [[class]] each
IP over the network (docs/ip.md):
  ping:BYTES,COUNT,INTERVAL echoes                     iperf:tcp      a stream
  iperf:udp,RATE            datagrams

Examples:
  narrows traffic uniform --nodes 64 --load 0.1:1.0:0.1 --warmup 20us --time 100us --out results/
  narrows traffic permutation --nodes 256 --set network.routing=adaptive --load 0.2,0.5,0.8
  narrows traffic incast:5 --nodes 16 --load 0.5 --size 64KiB --period 1us --out results/
  narrows traffic uniform --load 0.3 --class 'name=victim pattern=shift:8 sources=0-7 load=0.2'
  narrows traffic all-to-all --nodes 64 --injection closed:4 --size web-search --time 10ms
  narrows traffic flows my-flows.csv --machine my.toml --out results/
  narrows traffic ping:56 --machine exanest --from 1 --to 89
  narrows traffic iperf:tcp --from 0-3 --to 9 --flows 2 --time 10ms")]
pub struct TrafficArgs {
    /// Who sends to whom: see the list below
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The file of `flows` and `mix`
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// A preset (see `narrows machine list`) or a machine file
    #[arg(long, default_value = "bxi-v2", value_name = "NAME|FILE")]
    machine: String,
    #[command(flatten)]
    overrides: crate::machine::OverrideArguments,
    /// Which network of a machine that has several; without it the first one
    #[arg(long, value_name = "NAME")]
    fabric: Option<String>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = crate::machine::network())]
    network: Option<NetworkKind>,
    /// Loads as fractions of the injection bandwidth: one, a list, or a sweep A:B:STEP [default: 0.5]
    #[arg(long, value_name = "A:B:STEP|LIST")]
    load: Option<String>,
    /// How messages follow each other: bernoulli, poisson, on-off:MESSAGES[,PEAK], closed:N [default: bernoulli]
    #[arg(long, value_name = "PROCESS")]
    injection: Option<String>,
    /// Message sizes: 4KiB, uniform:LOW,HIGH, web-search, data-mining, hadoop, FILE.csv [default: a full packet]; of
    /// ping and iperf, the payload of a packet
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Another class of traffic besides, such as 'name=victim pattern=shift:8 load=0.2'; may be repeated
    #[arg(long, value_name = "KEY=VALUE ...")]
    class: Vec<String>,
    /// Of ping and iperf: who begins, a list of hosts [default: 0]
    #[arg(long, value_name = "HOSTS")]
    from: Option<String>,
    /// Of ping and iperf: with whom, one for each of --from, or one for all [default: the last host]
    #[arg(long, value_name = "HOSTS")]
    to: Option<String>,
    /// Of ping and iperf: flows of each pair [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    flows: Option<u32>,
    /// Simulated time before the measurement [default: until throughput and latency are steady]
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// Simulated time of the measurement [default: 100us, for iperf 20ms; for flows and ping, until the last is done]
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Writes queues, links and hops into tables, a row for each such period
    #[arg(long, value_name = "TIME", requires = "out")]
    period: Option<String>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads of the simulator: points of a sweep side by side, and several for a point when there are more threads
    /// than points
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Writes summary.json, the resolved machine, tables and pictures into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// Runs the sweep; the exit code.
pub fn run(args: TrafficArgs) -> Result<u8, Failure> {
    if Pattern::is_meant(&args.pattern) {
        processes::alone(&format!("narrows traffic {}", args.pattern))?;
        return run_ip(&args);
    }
    processes::together(|processes| run_classes(&args, processes))
}

fn run_classes(args: &TrafficArgs, processes: Option<&Processes>) -> Result<u8, Failure> {
    let speaks = processes.is_none_or(Processes::is_first);
    let of_ip = [("--from", args.from.is_some()), ("--to", args.to.is_some()), ("--flows", args.flows.is_some())];
    if let Some((option, _)) = of_ip.iter().find(|(_, given)| *given) {
        let why = format!("{option} belongs to ping and iperf, not to {}; classes have nodes and sources", args.pattern);
        return Err(StudyError::Contradiction(why).into());
    }
    let spec = TrafficSpec { processes: processes.cloned(), ..spec(args)? };
    if let Some(out) = args.out.as_ref().filter(|_| speaks) {
        create_folder(out)?;
    }
    let outcome = spec.run(&Watching::start()?.shows(speaks))?;
    if !speaks {
        return Ok(outcome.exit_code());
    }
    args.form.print(|| outcome.text(), || outcome.summary(), || outcome.points_table())?;
    if let Some(out) = &args.out {
        outcome.save(out)?;
    }
    if let Some(failure) = outcome.failure().filter(|_| !outcome.interrupted) {
        complain!("{failure}");
    }
    Ok(outcome.exit_code())
}

/// IP over the network.
fn run_ip(args: &TrafficArgs) -> Result<u8, Failure> {
    let not_of_ip = [
        ("a file", args.file.is_some()),
        ("--load", args.load.is_some()),
        ("--injection", args.injection.is_some()),
        ("--class", !args.class.is_empty()),
        ("--period", args.period.is_some()),
    ];
    if let Some((option, _)) = not_of_ip.iter().find(|(_, given)| *given) {
        return Err(StudyError::Contradiction(format!("{} has no place for {option}: leave it out", args.pattern)).into());
    }
    let words = ip::Wording {
        pattern: args.pattern.clone(),
        size: args.size.clone(),
        from: args.from.clone(),
        to: args.to.clone(),
        flows: args.flows,
        warmup: args.warmup.clone(),
        time: args.time.clone(),
    };
    let spec =
        IpSpec { fabric: args.fabric.clone(), seed: args.seed, threads: args.threads as usize, ..IpSpec::worded(machine(args), &words)? };
    if let Some(out) = &args.out {
        create_folder(out)?;
    }
    let outcome = spec.run(&Watching::start()?)?;
    args.form.print(|| outcome.text(), || outcome.summary(), || outcome.table())?;
    if let Some(out) = &args.out {
        outcome.save(out)?;
    }
    if let Some(failure) = outcome.failure().filter(|_| !outcome.report.partial) {
        complain!("{failure}");
    }
    Ok(outcome.exit_code())
}

fn machine(args: &TrafficArgs) -> MachineSpec {
    MachineSpec { name: args.machine.clone(), overrides: args.overrides.clone().into(), network: args.network }
}

/// What the options ask for.
fn spec(args: &TrafficArgs) -> Result<TrafficSpec, Failure> {
    let words = Wording {
        pattern: args.pattern.clone(),
        file: args.file.clone(),
        load: args.load.clone(),
        injection: args.injection.clone(),
        size: args.size.clone(),
        classes: args.class.clone(),
        warmup: args.warmup.clone(),
        time: args.time.clone(),
        period: args.period.clone(),
    };
    Ok(TrafficSpec {
        fabric: args.fabric.clone(),
        seed: args.seed,
        threads: args.threads as usize,
        ..TrafficSpec::worded(machine(args), &words)?
    })
}
