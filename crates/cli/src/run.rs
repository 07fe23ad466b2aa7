//! `narrows run`: a real program on a simulated machine.

use crate::failure::Failure;
use crate::job::JobArgs;
use crate::machine::HandlersArgument;
use crate::timeline::TimelineArgs;
use clap::Args;
use narrows_launch as launch;
use narrows_machine::{NetworkKind, Overrides};
use narrows_output::{Meter, complain, create_folder, exit, say, warn, write};
use narrows_results::Progress;
use narrows_study::live::{Check, Compute, Recorder, TimingSpec};
use narrows_study::{ComputeScale, MachineSpec, Observer, RunSpec};
use narrows_traffic::Class;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `narrows run`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows run -n 16 -- ./my_mpi_program arg1 arg2
  narrows run -n 64 --ppn 4 --machine my.toml --compute none --out results/ -- python3 app.py
  narrows run -n 128 --machine bxi-v2 --nodes 128 --set network.routing=adaptive -- ./app
  narrows run -n 16 --out results/ --json results.json -- ./app
  narrows run -- mpirun -n 16 ./app                          # the same as -n 16 -- ./app
  narrows run -n 2 -- ./ocean input : -n 6 ./air             # several programs: ranks 0, 1; 2 to 7
  narrows run -n 8 --machine thor-bf2 --on host -- ./a : -n 8 --on bf2 -- ./b  # hosts and DPUs
  narrows run -n 16 --compute sampled --out first/ -- ./app  # then --compute first/
  narrows run -n 16 --compute instructions:2.5e9 -- ./app    # on a host with counters
  narrows run -n 16 --timeline app.pftrace --timeline-from 2ms --timeline-to 3ms -- ./app
  narrows run -n 16 --set message.protocol=pscom -- ./app    # docs/protocols.md
  narrows run -n 4 --compute none --check=memory -- ./app     # docs/explore.md

The program is any MPI binary (Open MPI 4.1 or 5, MPICH 5, Intel MPI), or a wrapper or script that
starts one; the launcher of that MPI starts it. A program that uses Portals 4 without MPI (see
`narrows config`) is started by mpiexec.hydra, the launcher of --mpirun, or directly. Its output,
input and exit code are its own; what narrows says goes to standard error, and to the files of
--out and --json. Docs: docs/reference/run.md.")]
pub struct RunArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// A preset (see `narrows machine list`) or a machine file
    #[arg(long, default_value = "bxi-v2", value_name = "NAME|FILE", help_heading = "Machine")]
    pub machine: String,
    /// Number of nodes, instead of the machine's
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub nodes: Option<u32>,
    /// Changes one value of the machine, such as node.pcie.latency="250 ns"
    #[arg(long = "set", value_name = "KEY=VALUE", help_heading = "Machine")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub handlers: HandlersArgument,
    /// What is wrong with a link, a switch or a NIC, such as 'link=leaf0:7 loss=1e-4 from=1ms to=2ms': a port of a
    /// switch, 3-17 or leaf3-spine1 for cables between two, node5 for that of a node; switches are leafN, spineN,
    /// coreN, routerN, as a graph file calls them, or numbers (see network.faults); may be repeated
    #[arg(long, value_name = "KEY=VALUE ...", help_heading = "Machine")]
    pub fault: Vec<String>,
    /// The launcher; by default the one that belongs to the program's MPI library
    #[arg(long, value_name = "PATH", help_heading = "Program")]
    pub mpirun: Option<PathBuf>,
    /// What carries the messages of the MPI library: our libfabric provider, or components of an Open MPI that was
    /// built with Portals 4
    #[arg(long, default_value = "ofi", value_name = "ofi|mtl-portals4|btl-portals4", value_parser = parse_transport, help_heading = "Program")]
    pub transport: launch::Transport<'static>,
    /// Ranks per processor, of which most nodes have one [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536), help_heading = "Placement")]
    pub ppn: Option<u32>,
    /// Where each rank runs: linear, random:SEED, or a file with one node per line; on the hosts' processors, or those
    /// of names behind it, as in linear:host,NAME, in a file node000:NAME
    #[arg(long, default_value = "linear", value_name = "linear|random:SEED|FILE", help_heading = "Placement")]
    pub placement: String,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", value_parser = crate::machine::network(), help_heading = "Machine")]
    pub network: Option<NetworkKind>,
    #[command(flatten)]
    pub computing: ComputingArgs,
    /// Synthetic traffic beside the program, as a class of `narrows traffic`, such as 'pattern=incast:5 load=0.5'
    /// (docs/traffic.md); may be repeated
    #[arg(long, value_name = "KEY=VALUE ...", value_parser = Class::parse, help_heading = "Machine")]
    pub background: Vec<Class>,
    /// Seed of every random choice of the models
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Simulation")]
    pub seed: u64,
    /// Threads of the simulator for the switches of packet networks, of use where messages are long or ranks many. The
    /// results do not depend on them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Simulation")]
    pub threads: u32,
    /// Writes summary.json, the resolved machine, tables, pictures, a page with everything (report.html: time per MPI
    /// function and call site) and computing times for other runs (computing.json; not with --compute measured) into
    /// this folder
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Writes the numbers of summary.json as one JSON object into this file; standard output is the program's
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub timeline: TimelineArgs,
    /// Compares the MPI calls of all ranks and says what does not fit; `strict`: an error gives exit code 4; `memory`:
    /// loads and stores of the program too, with --compute none; `strict,memory`: both (docs/explore.md)
    #[arg(long, value_name = "on|strict|memory|off", num_args = 0..=1, require_equals = true, default_value = "off", default_missing_value = "on", help_heading = "Checks")]
    pub check: Check,
    /// Runs with another timing than the machine's: a file of `narrows explore` (docs/explore.md)
    #[arg(long, value_name = "FILE", help_heading = "Checks")]
    pub timing: Option<PathBuf>,
    /// Ends the run after this many seconds of wall time
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Simulation")]
    pub timeout: Option<u64>,
    /// TCP and UDP sockets of the ranks go over the simulated network; programs need no MPI library. `narrows run -n 1
    /// --sockets -- ./server : -n 2 ./client`
    #[arg(long, help_heading = "Program")]
    pub sockets: bool,
    /// Starts the ranks without address space randomisation
    #[arg(long, help_heading = "Program")]
    pub no_aslr: bool,
    /// Says more on standard error
    #[arg(short, long)]
    pub verbose: bool,
    /// Preloaded into the ranks behind our own library, and more of their environment: the recorder
    #[arg(skip)]
    pub recorder: Option<Recorder>,
}

/// Where computing times come from, and how they are scaled.
#[derive(Args, Clone)]
pub struct ComputingArgs {
    /// Where computing times come from: CPU time, its running median between the same two MPI calls, the median of
    /// those of all ranks, instructions (RATE per second, such as instructions:2.5e9; else the rate at the start of the
    /// run; needs hardware counters), cycles of the simulated core (under qemu: docs/how-to/other-processors.md),
    /// nothing, or what an earlier run has kept, computing.json in the folder of its --out: two runs differ by the
    /// machine only (docs/models.md)
    #[arg(long, default_value = "measured", value_name = "measured|sampled|pooled|instructions[:RATE]|cycles|none|FILE", value_parser = clap::value_parser!(Compute), help_heading = "Computing times")]
    pub compute: Compute,
    /// Computing times, times this; FACTOR@FIRST-LAST for the ranks on these nodes, the last one that fits counts. With
    /// --compute FILE also what a run of one rank with the work of one of these has kept: ranks that share caches and
    /// cores here, and not there, take longer here. Such as `-n 8 --compute all/ --compute-scale one/`
    #[arg(long, value_name = "FACTOR[@NODES]|FILE", value_parser = clap::value_parser!(ComputeScale), help_heading = "Computing times")]
    pub compute_scale: Vec<ComputeScale>,
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

/// Who watches a run: lines, for the terminal is the program's, which also hears the signals.
struct Lines;

impl Observer for Lines {
    fn part(&self, what: String, meter: &Arc<Meter>, detail: Box<dyn Fn() -> String + Send>) -> Box<dyn Any> {
        Box::new(Progress::lines(what, meter, detail))
    }

    fn warning(&self, text: &str) {
        warn!("{text}");
    }

    fn goes_on(&self) -> bool {
        true
    }
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
    if let Some(out) = &args.out {
        create_folder(out)?;
    }
    if args.json.as_deref().is_some_and(narrows_output::is_standard) {
        let why = "--json -: standard output is the program's; expected a file, such as --json results.json or --json /dev/stderr";
        return Err(Failure::from(String::from(why)));
    }
    let says = |line: &str| {
        if args.verbose {
            say!("{line}");
        }
    };
    let outcome = spec(args)?.run(&Lines, &says)?;
    outcome.lines().iter().for_each(|line| say!("{line}"));
    outcome.more().iter().for_each(|line| says(line));
    let results = args.out.as_ref().map(|out| outcome.save(out));
    let json = args.json.as_ref().map(|path| write(path, format!("{}\n", outcome.summary())));
    let unwritten = [
        outcome.unwritten().map(Failure::from),
        results.and_then(Result::err).map(Failure::from),
        json.and_then(Result::err).map(Failure::from),
    ];
    let unwritten: Vec<Failure> = unwritten.into_iter().flatten().collect();
    unwritten.iter().for_each(|failure| complain!("{}", failure.message));
    // What the program says about itself matters more.
    match outcome.exit_code() {
        0 if !unwritten.is_empty() => Ok(i32::from(exit::UNWRITTEN)),
        code => Ok(code),
    }
}

/// What the options ask for.
fn spec(args: &RunArgs) -> Result<RunSpec, Failure> {
    Ok(RunSpec {
        apps: args.job.apps()?,
        machine: MachineSpec {
            name: args.machine.clone(),
            overrides: Overrides::new(args.nodes, args.handlers.and(args.set.clone())?, &args.fault),
            network: args.network,
        },
        mpirun: args.mpirun.clone(),
        transport: args.transport,
        ppn: args.ppn,
        placement: args.placement.clone(),
        compute: args.computing.compute.clone(),
        compute_scale: args.computing.compute_scale.clone(),
        keep_computing: args.out.is_some(),
        functions: args.out.is_some(),
        seed: args.seed,
        timeout: args.timeout.map(Duration::from_secs),
        no_aslr: args.no_aslr,
        recorder: args.recorder.clone(),
        timeline: args.timeline.spec(),
        check: args.check,
        timing: args.timing.as_deref().map(timing).transpose()?,
        background: args.background.clone(),
        threads: args.threads as usize,
        sockets: args.sockets,
    })
}

/// A timing of a file.
fn timing(path: &Path) -> Result<TimingSpec, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse().map_err(|error| Failure::from(format!("{}: {error}", path.display())))
}
