//! `narrows traffic`: from the command line to points of a load sweep.

mod output;
mod pictures;

use crate::failure::Failure;
use crate::form::Form;
use clap::Args;
use narrows_machine::{Machine, Overrides};
use narrows_output::{Meter, complain, create_folder, warn};
use narrows_results::Progress;
use narrows_traffic::{Class, Injection, Pattern, Point, Setup, Simulation, Sizes, TrafficError, Work, class, flows, loads};
use narrows_units::SimTime;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

Examples:
  narrows traffic uniform --nodes 64 --load 0.1:1.0:0.1 --warmup 20us --time 100us --out results/
  narrows traffic permutation --nodes 256 --set network.routing=adaptive --load 0.2,0.5,0.8 --threads 2
  narrows traffic incast:5 --nodes 16 --load 0.5 --size 64KiB --period 1us --out results/
  narrows traffic uniform --load 0.3 --class 'name=victim pattern=shift:8 sources=0-7 load=0.2 priority=1'
  narrows traffic all-to-all --nodes 64 --injection closed:4 --size web-search --time 10ms
  narrows traffic flows my-flows.csv --machine my.toml --out results/")]
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
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = ["packet", "flow", "loggp"])]
    network: Option<String>,
    /// Loads as fractions of the injection bandwidth: one, a list, or a sweep A:B:STEP [default: 0.5]
    #[arg(long, value_name = "A:B:STEP|LIST")]
    load: Option<String>,
    /// How messages follow each other: bernoulli, poisson, on-off:MESSAGES[,PEAK], closed:N [default: bernoulli]
    #[arg(long, value_name = "PROCESS")]
    injection: Option<String>,
    /// Message sizes: 4KiB, uniform:LOW,HIGH, web-search, data-mining, FILE.csv [default: a full packet]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// Another class of traffic besides, such as 'name=victim pattern=shift:8 load=0.2'; may be repeated
    #[arg(long, value_name = "KEY=VALUE ...")]
    class: Vec<String>,
    /// Simulated time before the measurement [default: until throughput and latency are steady]
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// Simulated time of the measurement [default: 100us; for flows, until the last is done]
    #[arg(long, value_name = "TIME")]
    time: Option<String>,
    /// Writes queues, links and hops into tables, a row for each such period
    #[arg(long, value_name = "TIME", requires = "out")]
    period: Option<String>,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads of the simulator: points of a sweep side by side, and several for a point when there are more threads than points
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Writes summary.json, the resolved machine, tables and pictures into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// What a sweep was, for its results.
struct Setting {
    machine: Machine,
    setup: Setup,
    pattern: String,
    threads: u32,
    /// Wall time of everything.
    wall: Duration,
    /// Topology, routing, network and sources of the first point.
    assembly: Duration,
    /// Wall time of the points.
    simulation: Duration,
    /// Ended by a signal.
    interrupted: bool,
}

/// Runs the sweep; the exit code.
pub fn run(args: TrafficArgs) -> Result<u8, Failure> {
    let args = &args;
    let start = Instant::now();
    let overrides: Overrides = args.overrides.clone().into();
    let sets = overrides.set.into_iter().chain(args.network.iter().map(|network| format!("network.kind={network}"))).collect();
    let machine = Machine::load(&args.machine, &Overrides { nodes: overrides.nodes, set: sets })?;
    machine.warnings().iter().for_each(|warning| warn!("{warning}"));
    let topology = machine.topology().map_err(|error| error.to_string())?;
    let (work, pattern) = work(args, topology.hosts()).map_err(|error| error.to_string())?;
    let time = |option: &str, text: &Option<String>| {
        text.as_ref().map(|text| text.parse::<SimTime>().map_err(|error| format!("--{option}: {error}"))).transpose()
    };
    let mut setup = Setup {
        warmup: time("warmup", &args.warmup)?,
        time: time("time", &args.time)?,
        period: time("period", &args.period)?,
        seed: args.seed,
        ..Setup::new(machine.network_config(args.seed), topology, work)
    };
    let points = match &args.load {
        Some(text) => loads(text).map_err(|error| error.to_string())?.into_iter().map(Some).collect(),
        None if setup.needs_load() => vec![Some(0.5)],
        None => vec![None],
    };
    let at_once = (args.threads as usize).min(points.len());
    setup.threads = (args.threads as usize / at_once).max(1);
    if let Some(out) = &args.out {
        create_folder(out)?;
    }
    // Mistakes in any point show before the first is run.
    let progress = Progress::start("assembling the network", &Arc::default());
    let first = Simulation::new(&setup, points[0]).map_err(|error| error.to_string())?;
    drop(progress);
    let assembly = start.elapsed();
    for load in points.iter().skip(1) {
        setup.check(*load).map_err(|error| error.to_string())?;
    }
    let stop = interruption()?;
    let simulation = Instant::now();
    let done = sweep(&setup, first, &points, at_once, &stop)?;
    let setting = Setting {
        pattern,
        threads: args.threads,
        wall: start.elapsed(),
        assembly,
        simulation: simulation.elapsed(),
        interrupted: stop.load(Ordering::Relaxed),
        machine,
        setup,
    };
    args.form.print(|| output::text(&setting, &done), || output::summary(&setting, &done), || output::points_table(&done))?;
    if let Some(out) = &args.out {
        output::save(out, &setting, &done)?;
    }
    if let Some(failure) = output::failure(&setting, &done).filter(|_| !setting.interrupted) {
        complain!("{failure}");
    }
    Ok(output::exit_code(&setting, &done))
}

/// What the command line asks to send, and how reports call it.
fn work(args: &TrafficArgs, nodes: u32) -> Result<(Work, String), TrafficError> {
    let contradiction = |why: &str| Err(TrafficError::Contradiction(why.to_owned()));
    let read = |what: &str| match &args.file {
        None => Err(TrafficError::Contradiction(format!("{what} needs a file: narrows traffic {what} FILE"))),
        Some(path) => {
            let file = path.display().to_string();
            match narrows_output::read_to_string(path) {
                Ok(text) => Ok((file, text)),
                Err(error) => Err(TrafficError::Read { file, why: error.to_string() }),
            }
        }
    };
    let of_one_pattern = [("--injection", args.injection.is_some()), ("--size", args.size.is_some())];
    let given = of_one_pattern.iter().find(|(_, given)| *given).map(|(option, _)| *option);
    let mut classes = match args.pattern.as_str() {
        "flows" => {
            let (file, text) = read("flows")?;
            if let Some(option) = given {
                return contradiction(&format!("a list of flows has its own starts and sizes: leave out {option}"));
            }
            if !args.class.is_empty() || args.load.is_some() {
                return contradiction("a list of flows has its own starts and sizes: leave out --class and --load");
            }
            return Ok((Work::Flows(flows::parse(&file, &text, nodes)?), format!("flows {file}")));
        }
        "mix" => {
            let (file, text) = read("mix")?;
            if let Some(option) = given {
                return contradiction(&format!("the classes of a mix have their own: put {option} into {file}"));
            }
            class::parse_mix(&file, &text)?
        }
        text => {
            let pattern: Pattern = text.parse()?;
            if let Some(file) = &args.file {
                return contradiction(&format!("{}: only flows and mix read a file", file.display()));
            }
            let mut class = Class::new("", pattern);
            class.injection = args.injection.as_deref().unwrap_or("bernoulli").parse::<Injection>()?;
            class.sizes = args.size.as_deref().map(str::parse::<Sizes>).transpose()?;
            vec![class]
        }
    };
    for text in &args.class {
        classes.push(Class::parse(text)?);
    }
    let several = classes.len() > 1;
    for (index, class) in classes.iter_mut().enumerate() {
        if class.name.is_empty() {
            class.name = if several { format!("{}-{index}", class.pattern) } else { class.pattern.to_string() };
        }
    }
    let pattern = classes.iter().map(|class| class.pattern.to_string()).collect::<Vec<_>>().join(" + ");
    Ok((Work::Classes(classes), pattern))
}

/// Set by the first SIGINT or SIGTERM; the second one ends the program at once.
fn interruption() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| format!("cannot watch for signals: {error}"))?;
    }
    Ok(stop)
}

/// Runs the points, `at_once` side by side; those that were begun, in their order.
fn sweep(setup: &Setup, first: Simulation<'_>, loads: &[Option<f64>], at_once: usize, stop: &AtomicBool) -> Result<Vec<Point>, String> {
    // Two fifths of the measurement is what a warm-up takes at least; a given one is known.
    let nominal = setup.warmup.unwrap_or(setup.measured() * 2 / 5) + setup.measured();
    let meter = Arc::new(Meter::new(nominal.as_ps().saturating_mul(loads.len() as u64)));
    let counted = Arc::new(AtomicU64::new(0));
    let (start, seen) = (Instant::now(), Arc::clone(&counted));
    let rate = move || format!("{:.2} M events/s", seen.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64().max(1e-9) / 1e6);
    let what = if loads.len() == 1 { String::from("simulating") } else { format!("simulating {} loads", loads.len()) };
    let progress = Progress::with(what, &meter, rate);
    let next = AtomicUsize::new(0);
    let first = Mutex::new(Some(first));
    let done: Mutex<Vec<Option<Result<Point, TrafficError>>>> = Mutex::new(loads.iter().map(|_| None).collect());
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&load) = loads.get(index) else { return };
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let assembled = match index {
                0 => first.lock().unwrap_or_else(PoisonError::into_inner).take().map(Ok),
                _ => None,
            };
            let mut told = SimTime::ZERO;
            let point = assembled.unwrap_or_else(|| Simulation::new(setup, load)).map(|simulation| {
                simulation.run(&mut |now, events| {
                    // What goes beyond the nominal length does not count, or the bar would run ahead.
                    let (before, after) = (told.min(nominal), now.min(nominal));
                    told = now;
                    meter.add((after - before).as_ps());
                    counted.fetch_add(events, Ordering::Relaxed);
                    !stop.load(Ordering::Relaxed)
                })
            });
            meter.add(nominal.saturating_sub(told).as_ps());
            done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(point);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..at_once {
            scope.spawn(worker);
        }
        worker();
    });
    drop(progress);
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.into_iter().flatten().map(|point| point.map_err(|error| error.to_string())).collect()
}
