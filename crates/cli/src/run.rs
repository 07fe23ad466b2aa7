//! `narrows run`: from the command line to a report.

use crate::failure::Failure;
use crate::{picture, resources, summary};
use clap::Args;
use narrows_channel::{Mapping, Settings};
use narrows_launch as launch;
use narrows_live::endpoints::Ranks;
use narrows_live::{Launcher, Options, Report, World};
use narrows_machine::{Machine, NetworkKind, Overrides, Placement, Rendezvous};
use narrows_output::{Meter, OutputError, complain, create_folder, say, warn};
use narrows_portals::ProcessId;
use narrows_results::{Origin, Progress};
use narrows_units::{Bytes, SimTime};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of `narrows run`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows run -n 16 -- ./my_mpi_program arg1 arg2
  narrows run -n 64 --ppn 4 --machine my.toml --network packet --compute none --out results/ -- python3 app.py
  narrows run -n 128 --machine bxi-v2 --nodes 128 --set network.routing=adaptive -- ./app

The program is any MPI binary (Open MPI 4.1 or 5, MPICH 5), or a wrapper or script that starts one; the launcher of that
MPI starts it. A program that uses Portals 4 without MPI (see `narrows config`) is started by mpiexec.hydra, the launcher of --mpirun, or directly. Its output,
input and exit code are its own; what narrows says goes to standard error and to DIR/summary.json.")]
pub struct RunArgs {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub ranks: u32,
    /// A preset (see `narrows machine list`) or a machine file
    #[arg(long, default_value = "bxi-v2", value_name = "NAME|FILE")]
    pub machine: String,
    /// Number of nodes, instead of the machine's
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Changes one value of the machine, such as node.pcie.latency="250 ns"
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The launcher; by default the one that belongs to the program's MPI library
    #[arg(long, value_name = "PATH")]
    pub mpirun: Option<PathBuf>,
    /// What carries the messages of the MPI library: our libfabric provider, or components of an Open MPI that was
    /// built with Portals 4
    #[arg(long, default_value = "ofi", value_name = "ofi|mtl-portals4|btl-portals4", value_parser = parse_transport)]
    pub transport: launch::Transport<'static>,
    /// Ranks per node [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ppn: Option<u32>,
    /// Which node each rank runs on: linear, random:SEED, or a file with one node per line
    #[arg(long, default_value = "linear", value_name = "linear|random:SEED|FILE")]
    pub placement: String,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = ["packet", "flow", "loggp"])]
    pub network: Option<String>,
    /// Where computing time comes from: the CPU time of the program, scaled, or nothing
    #[arg(long, default_value = "measured", value_name = "measured[:FACTOR]|none", value_parser = parse_compute)]
    pub compute: Compute,
    /// Seed of every random choice of the models
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Writes summary.json, the resolved machine and a picture into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Ends the run after this many seconds of wall time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Starts the ranks without address space randomisation
    #[arg(long)]
    pub no_aslr: bool,
    /// Says more on standard error
    #[arg(short, long)]
    pub verbose: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
    /// Preloaded into the ranks behind our own library, and more of their environment: the recorder
    #[arg(skip)]
    pub recorder: Option<Recorder>,
}

/// The recorder library in the ranks.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// The library.
    pub library: PathBuf,
    /// Where it writes.
    pub folder: PathBuf,
}

/// The model of computing time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compute {
    /// Work is free.
    None,
    /// CPU time of the rank, times this.
    Measured(f64),
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compute::None => f.write_str("none"),
            Compute::Measured(factor) if *factor == 1.0 => f.write_str("measured"),
            Compute::Measured(factor) => write!(f, "measured:{factor}"),
        }
    }
}

/// What `--transport` names.
fn parse_transport(text: &str) -> Result<launch::Transport<'static>, String> {
    match text {
        "ofi" => Ok(launch::Transport::Ofi(launch::PROVIDER)),
        "mtl-portals4" => Ok(launch::Transport::MtlPortals4),
        "btl-portals4" => Ok(launch::Transport::BtlPortals4),
        _ => Err(String::from("ofi, mtl-portals4 or btl-portals4")),
    }
}

pub fn parse_compute(text: &str) -> Result<Compute, String> {
    match text.split_once(':') {
        None if text == "none" => Ok(Compute::None),
        None if text == "measured" => Ok(Compute::Measured(1.0)),
        Some(("measured", factor)) => match factor.parse::<f64>() {
            Ok(factor) if factor.is_finite() && (1e-6..=1e6).contains(&factor) => Ok(Compute::Measured(factor)),
            _ => Err(format!("the factor of measured:{factor} must be a number between 0.000001 and 1000000")),
        },
        _ => Err(String::from("expected measured, measured:FACTOR or none")),
    }
}

/// What a run was, for the summary.
pub struct Setting<'a> {
    /// The resolved machine.
    pub machine: &'a Machine,
    /// Name and version.
    pub mpi: String,
    /// Of computing time.
    pub compute: Compute,
    /// Node of each rank.
    pub placement: &'a [u32],
    /// Seed.
    pub seed: u64,
    /// Wall time of the whole run.
    pub wall: Duration,
    /// The program's command line.
    pub program: &'a [String],
}

/// Runs the program; the exit code is the program's, or that of what went wrong.
pub fn run(args: RunArgs) -> Result<u8, Failure> {
    whole(&args).map(byte)
}

/// An exit code as the system hands it on.
pub fn byte(code: i32) -> u8 {
    code.clamp(0, 255) as u8
}

/// The exit code, or why there is none.
pub fn whole(args: &RunArgs) -> Result<i32, Failure> {
    let start = Instant::now();
    let mut sets = args.set.clone();
    if let Some(network) = &args.network {
        sets.push(format!("network.kind={network}"));
    }
    let overrides = Overrides { nodes: args.nodes, set: sets };
    let machine = Machine::load(&args.machine, &overrides).map_err(|error| error.to_string())?;
    let placement_kind: Placement = args.placement.parse().map_err(|error| format!("--placement: {error}"))?;
    let placement = narrows_machine::placement(&placement_kind, &machine, args.ppn, args.ranks).map_err(|error| error.to_string())?;

    resources::check_temporary()?;
    resources::check_files(args.ranks, resources::FILES_OF_A_RANK)?;
    let (mpi, program) = launcher(args.mpirun.as_deref(), &args.program).map_err(|error| error.to_string())?;
    if mpi.kind != launch::Kind::Portals {
        resources::check_files(args.ranks, resources::FILES_OF_AN_MPI_RANK)?;
    }
    let over_portals = !matches!(args.transport, launch::Transport::Ofi(_));
    if over_portals && !matches!(mpi.kind, launch::Kind::OpenMpi4 | launch::Kind::OpenMpi5) {
        return Err(Failure::from(format!("--transport chooses among the components of Open MPI, and this is {mpi}; leave it away")));
    }
    let component = match args.transport {
        launch::Transport::Ofi(_) => None,
        launch::Transport::MtlPortals4 => Some("mtl_portals4"),
        launch::Transport::BtlPortals4 => Some("btl_portals4"),
    };
    if let Some(component) = component
        && launch::has_component(&program, &args.program[1..], component) == Some(false)
    {
        return Err(Failure::from(format!(
            "--transport: this {mpi} was built without Portals 4 and has no component {}; leave it away, or use an Open MPI that was \
             configured --with-portals4",
            component.replace('_', "/")
        )));
    }
    let libraries = libraries()?;
    if let Some(out) = &args.out {
        create_folder(out)?;
    }

    // Before any thread.
    let scratch = launch::Scratch::create().map_err(|error| error.to_string())?;
    let processes = processes(&placement);
    let alive = scratch.path().join("alive");
    std::fs::create_dir(&alive).map_err(|error| format!("{}: {error}", alive.display()))?;
    let (mapping, fd) = Mapping::create(args.ranks, settings(&machine, args.compute)).map_err(|error| error.to_string())?;
    let hosts: Vec<String> = placement.iter().map(|&node| machine.node.host_name.name(node)).collect();
    for (rank, ((&node, &id), host)) in placement.iter().zip(&processes).zip(&hosts).enumerate() {
        mapping.place(rank as u32, node, id, host).map_err(|error| error.to_string())?;
    }
    machine.warnings().iter().for_each(|warning| warn!("{warning}"));
    let topology = machine.topology().map_err(|error| error.to_string())?;
    let network = machine.network_config(args.seed);
    let setup = narrows_sim::Setup { network: &network, topology, nic: machine.nic_config(), places: &processes };
    let mut world = World::whole(setup, |_| Ranks::new(&mapping.header().settings, &processes)).map_err(|error| error.to_string())?;
    // All processes of a run belong to the user who runs it.
    // SAFETY: getuid has no preconditions and always succeeds.
    let user = unsafe { libc::getuid() };
    world.set_users(|_| user);

    let channel = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    let fitted = |library: &Path| launch::Preload::fitted(library, mpi.library.as_deref()).map_err(|error| error.to_string());
    let preload = fitted(&libraries.join("libnarrows-preload.so"))?;
    let recording = args.recorder.as_ref().map(|recorder| fitted(&recorder.library)).transpose()?;
    // What a copy needs is not beside it.
    let mut preloads = vec![preload.path().to_owned(), libraries.join("libportals.so")];
    // Behind ours: inside an MPI call the rank's clock is up to date.
    preloads.extend(recording.iter().map(|recorder| recorder.path().to_owned()));
    let mut environment = environment(&libraries, &preloads, channel, machine.node.cores);
    environment.extend(args.recorder.iter().map(|recorder| ("NARROWS_RECORD".to_owned(), recorder.folder.display().to_string())));
    environment.push(("NARROWS_ALIVE".to_owned(), alive.display().to_string()));
    // Whether the program uses Portals without MPI is seen when it calls PtlInit.
    environment.extend(portals_environment(&processes));
    environment.push(("LD_LIBRARY_PATH".to_owned(), library_path(&libraries)));
    let mut command = launch::command(args.transport, &mpi, &scratch, args.ranks, &program, &args.program[1..], &environment);
    if args.no_aslr {
        launch::without_aslr(&mut command);
    }
    if args.verbose {
        say!("{mpi}; starting {command:?}");
    }
    let meter = Arc::new(Meter::default());
    let options = Options {
        timeout: args.timeout.map(Duration::from_secs),
        hosts,
        mpi: mpi.to_string(),
        launcher: Launcher {
            notices_deaths: mpi.kind.notices_deaths(&mpi.launcher),
            notices_early_failures: mpi.kind.notices_early_failures(),
        },
        alive: Some(alive),
        progress: Arc::clone(&meter),
    };
    let now = Arc::clone(&meter);
    let progress = Progress::lines("running", &meter, move || format!("simulated {}", SimTime(now.done())));
    let report = narrows_live::run(&mapping, world, command, options);
    drop(progress);

    let setting = Setting {
        machine: &machine,
        mpi: mpi.to_string(),
        compute: args.compute,
        placement: &placement,
        seed: args.seed,
        wall: start.elapsed(),
        program: &args.program,
    };
    let code = conclude(&setting, &report);
    if let Some(out) = &args.out
        && let Err(error) = save(out, &setting, &report)
    {
        let failure = Failure::from(error);
        // What the program says about itself matters more.
        return if code == 0 {
            Err(failure)
        } else {
            complain!("{}", failure.message);
            Ok(code)
        };
    }
    Ok(code)
}

/// The MPI whose launcher starts `command`, and the program as that launcher is given it.
pub fn launcher(mpirun: Option<&Path>, command: &[String]) -> Result<(launch::Mpi, String), launch::LaunchError> {
    let (program, arguments) = (&command[0], &command[1..]);
    let Some(mpirun) = mpirun else {
        return Ok((launch::inspect(program, arguments)?, launch::locate(program)?));
    };
    let mpi = launch::inspect_launcher(mpirun)?;
    launch::check_launcher(&mpi, program, arguments)?;
    // What the launcher finds in its own way it may find.
    Ok((mpi, launch::locate(program).unwrap_or_else(|_| program.clone())))
}

/// What every rank finds in its environment.
fn environment(libraries: &Path, preloads: &[PathBuf], channel: String, cores: u32) -> Vec<(String, String)> {
    let variables = [
        ("LD_PRELOAD", preload_list(preloads)),
        ("NARROWS_CHANNEL", channel),
        ("FI_PROVIDER_PATH", libraries.display().to_string()),
        // The simulated node. Without it the hwloc of every rank explores this computer, PCI and displays included:
        // half of the CPU time that Open MPI 4.1 needs to start.
        ("HWLOC_SYNTHETIC", format!("core:{cores} pu:1")),
        // Threads of OpenMP that have nothing to do sleep at once, whatever the user's policy: spinning ones would take
        // the cores of those that compute, and on the simulated machine it costs nobody time
        // (docs/decisions/0007-threads.md).
        ("OMP_WAIT_POLICY", "passive".to_owned()),
        ("GOMP_SPINCOUNT", "0".to_owned()),
        ("KMP_BLOCKTIME", "0".to_owned()),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Libraries of ours in front of a preload of the user's own.
pub fn preload_list(ours: &[PathBuf]) -> String {
    let ours = ours.iter().map(|path| path.display().to_string());
    let others = std::env::var("LD_PRELOAD").ok().filter(|others| !others.is_empty());
    ours.chain(others).collect::<Vec<_>>().join(":")
}

/// What ranks of a program without MPI find beside that: how many there are, and where (`nid:pid`, by rank).
fn portals_environment(processes: &[ProcessId]) -> [(String, String); 2] {
    let map: Vec<String> = processes.iter().map(|process| format!("{}:{}", process.nid, process.pid)).collect();
    [("NARROWS_RANKS".to_owned(), processes.len().to_string()), ("NARROWS_MAP".to_owned(), map.join(","))]
}

/// Where ranks that need libportals.so find it, before all other folders.
fn library_path(libraries: &Path) -> String {
    match std::env::var("LD_LIBRARY_PATH") {
        Ok(others) if !others.is_empty() => format!("{}:{others}", libraries.display()),
        _ => libraries.display().to_string(),
    }
}

fn save(out: &Path, setting: &Setting<'_>, report: &Report) -> Result<(), OutputError> {
    let write = |name: &str, text: String| narrows_output::write(&out.join(name), text);
    write("summary.json", summary::json(setting, report))?;
    write("machine.toml", setting.machine.to_toml())?;
    let origin = Origin::here(Some(&setting.machine.name), Some(setting.seed));
    write("ranks.svg", origin.sign(&picture::ranks(report)))
}

/// Says how it went; the exit code.
fn conclude(setting: &Setting<'_>, report: &Report) -> i32 {
    if let Some(failure) = &report.failure {
        say!("{}", failure.message);
        return failure.exit_code;
    }
    if !report.started {
        if report.exit_code == 0 {
            say!("the program ended without calling MPI_Init (or PtlInit): nothing was simulated");
        } else {
            say!(
                "{} ended with code {} before all ranks had left MPI_Init; its messages are above, `-v` shows the command; if it \
                 could not open the libfabric provider `narrows`, FI_LOG_LEVEL=warn makes libfabric say why",
                setting.mpi,
                report.exit_code
            );
        }
        return report.exit_code;
    }
    for line in summary::lines(setting, report) {
        say!("{line}");
    }
    report.exit_code
}

/// Processes of one node are numbered in the order of their ranks.
fn processes(placement: &[u32]) -> Vec<ProcessId> {
    let mut next = std::collections::BTreeMap::new();
    placement
        .iter()
        .map(|&node| {
            let pid = next.entry(node).or_insert(0u32);
            *pid += 1;
            ProcessId { nid: node + 1, pid: *pid }
        })
        .collect()
}

fn settings(machine: &Machine, compute: Compute) -> Settings {
    let message = &machine.message;
    Settings {
        post_ps: machine.software.post.as_ps(),
        completion_ps: machine.software.completion.as_ps(),
        poll_ps: machine.software.poll.as_ps(),
        copy_ps_per_kib: machine.software.copy_bandwidth.time_for(Bytes(1024)).as_ps(),
        clock_read_ps: machine.software.clock_read.as_ps(),
        launcher_barrier_ps: machine.software.launcher_barrier.as_ps(),
        compute_ppm: match compute {
            Compute::None => 0,
            Compute::Measured(factor) => (factor * 1e6).round().max(1.0) as u64,
        },
        eager_limit: message.eager_limit.get(),
        inject_limit: message.inject_limit.get(),
        overflow_block: message.overflow_block.get(),
        overflow_blocks: message.overflow_blocks,
        max_portals_message: message.max_portals_message.get(),
        rendezvous_put: u32::from(message.rendezvous == Rendezvous::Put),
        pio_limit: machine.nic.pio_limit.get() as u32,
        limits: machine.nic.limits,
        cores: machine.node.cores,
    }
}

/// The folder with our three libraries, under the names that their users look for.
/// The folder of the libraries that enter the ranks.
pub fn libraries() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|error| format!("the program's own folder is unknown: {error}"))?;
    let folder = exe.parent().unwrap_or(Path::new("."));
    // `make build` makes this folder; the second place is an installation.
    for candidate in [folder.join("lib"), folder.join("../lib/narrows")] {
        let complete = ["libnarrows-fi.so", "libportals.so", "libnarrows-preload.so"].iter().all(|name| candidate.join(name).exists());
        if complete {
            return candidate.canonicalize().map_err(|error| format!("{}: {error}", candidate.display()));
        }
    }
    Err(format!(
        "the libraries libnarrows-fi.so, libportals.so and libnarrows-preload.so are not in {}: run `make build`",
        folder.join("lib").display()
    ))
}

impl Setting<'_> {
    /// The network model by name.
    pub fn network(&self) -> NetworkKind {
        self.machine.network.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compute_models_are_read_and_refused() {
        assert_eq!(parse_compute("none"), Ok(Compute::None));
        assert_eq!(parse_compute("measured"), Ok(Compute::Measured(1.0)));
        assert_eq!(parse_compute("measured:0.5"), Ok(Compute::Measured(0.5)));
        for wrong in ["", "measured:", "measured:-1", "measured:nan", "free", "none:1"] {
            assert!(parse_compute(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn processes_of_a_node_are_numbered_from_one() {
        let ids: Vec<(u32, u32)> = processes(&[0, 0, 1, 0]).into_iter().map(|id| (id.nid, id.pid)).collect();
        assert_eq!(ids, [(1, 1), (1, 2), (2, 1), (1, 3)]);
    }
}
