//! `narrows record`: an MPI program with the recorder library in its ranks, natively or on a simulated machine.

use crate::run::{self, Compute, Recorder, RunArgs};
use crate::trace;
use clap::Args;
use narrows_launch as launch;
use narrows_trace::Format;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `narrows record`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows record -n 64 -o lammps.vef -- lmp -in in.melt
  narrows record -n 16 --machine bxi-v2 --compute none -o halo.jsonl -- ./halo2d

The program is any MPI binary (Open MPI 4.1 or 5, MPICH 5), unmodified; its own launcher starts it. Its output and exit code
are its own. With --machine it runs on the simulated machine, and the times are those of that machine.")]
pub struct RecordArgs {
    /// Number of ranks
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ranks: u32,
    /// The new trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the trace [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl", value_parser = format)]
    format: Option<Format>,
    /// Which time is computing: real time, or CPU time where ranks share cores (at some 200 ns more per call)
    /// [default: cpu if there are more ranks than cores]
    #[arg(long, value_name = "real|cpu", value_parser = ["real", "cpu"], conflicts_with = "machine")]
    clock: Option<String>,
    /// The launcher; by default the one that belongs to the program's MPI library
    #[arg(long, value_name = "PATH")]
    mpirun: Option<PathBuf>,
    /// Runs on a simulated machine: a preset (see `narrows machine list`) or a machine file
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Number of nodes, instead of the machine's
    #[arg(long, value_name = "N", requires = "machine")]
    nodes: Option<u32>,
    /// Changes one value of the machine
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "machine")]
    set: Vec<String>,
    /// Ranks per node [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", requires = "machine", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ppn: Option<u32>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", requires = "machine", value_parser = ["packet", "flow", "loggp"])]
    network: Option<String>,
    /// Where computing time comes from on the simulated machine
    #[arg(long, default_value = "measured", value_name = "measured[:FACTOR]|none", value_parser = run::parse_compute)]
    compute: Compute,
    /// Says more on standard error
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

fn format(text: &str) -> Result<Format, String> {
    Format::by_name(text).ok_or_else(|| format!("expected {}", Format::ALL.map(Format::name).join(", ")))
}

/// Runs the program and merges what its ranks have written; the exit code is the program's, or that of what went wrong.
pub fn run(args: RecordArgs) -> ExitCode {
    match whole(args) {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(message) => {
            match message.strip_prefix("error: ") {
                Some(diagnostic) => eprint!("narrows: error: {diagnostic}"),
                None => eprintln!("narrows: {message}"),
            }
            ExitCode::from(2)
        }
    }
}

fn whole(args: RecordArgs) -> Result<i32, String> {
    if args.format.or_else(|| Format::by_extension(&args.output)).is_none() {
        return Err(format!("{}: expected a name that ends in .vef, .goal, .bin or .jsonl, or --to FORMAT", args.output.display()));
    }
    let library = run::libraries()?.join("libnarrows-recorder.so");
    if !library.exists() {
        return Err(format!("{} is not there: run `make build`", library.display()));
    }
    // Beside the result: there is room for it.
    let parent = args.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(|error| format!("{}: {error}", parent.display()))?;
    let folder =
        tempfile::Builder::new().prefix(".records-").tempdir_in(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let recorder = Recorder { library, folder: folder.path().to_owned() };
    let (output, format) = (args.output.clone(), args.format);
    let code = match args.machine {
        Some(_) => run::whole(&simulated(args, recorder))?,
        None => native(&args, &recorder)?,
    };
    if code != 0 {
        if !folder.path().join("rank.0").exists() {
            return Ok(code);
        }
        let kept = folder.keep();
        let mut place = output.into_os_string();
        place.push(".records");
        let place = PathBuf::from(place);
        // An older one of that name is not ours to remove.
        let place = if std::fs::rename(&kept, &place).is_ok() { place } else { kept };
        eprintln!(
            "narrows: the program ended with code {code}; what its ranks have recorded is in {}: narrows trace merge {0} -o FILE.jsonl",
            place.display()
        );
        return Ok(code);
    }
    if !folder.path().join("rank.0").exists() {
        return Err(String::from("the program ended without calling MPI_Init: nothing was recorded"));
    }
    trace::merge(folder.path(), &output, format).map_err(|error| error.to_string())?;
    Ok(0)
}

/// Under the plain launcher.
fn native(args: &RecordArgs, recorder: &Recorder) -> Result<i32, String> {
    let (mpi, program) = crate::run::launcher(args.mpirun.as_deref(), &args.program).map_err(|error| error.to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let shared = args.ranks as usize > cores;
    let clock = args.clock.clone().unwrap_or_else(|| String::from(if shared { "cpu" } else { "real" }));
    let library = launch::Preload::fitted(&recorder.library, mpi.library.as_deref()).map_err(|error| error.to_string())?;
    let preload = run::preload_list(&[library.path().to_owned()]);
    let environment = [("LD_PRELOAD", preload), ("NARROWS_RECORD", recorder.folder.display().to_string()), ("NARROWS_RECORD_CLOCK", clock)];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let mut command = launch::plain(&mpi, args.ranks, &program, &args.program[1..], &environment);
    if args.verbose {
        eprintln!("narrows: {mpi}; starting {command:?}");
    }
    let status = command.status().map_err(|error| format!("{}: {error}", mpi.launcher.display()))?;
    Ok(status.code().unwrap_or(1))
}

/// As `narrows run` would.
fn simulated(args: RecordArgs, recorder: Recorder) -> RunArgs {
    RunArgs {
        no_aslr: false,
        ranks: args.ranks,
        machine: args.machine.unwrap_or_default(),
        nodes: args.nodes,
        set: args.set,
        mpirun: args.mpirun,
        transport: launch::Transport::Ofi(launch::PROVIDER),
        ppn: args.ppn,
        placement: String::from("linear"),
        network: args.network,
        compute: args.compute,
        seed: 1,
        out: None,
        timeout: None,
        verbose: args.verbose,
        program: args.program,
        recorder: Some(recorder),
    }
}
