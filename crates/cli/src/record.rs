//! `narrows record`: an MPI program with the recorder library in its ranks, natively or on a simulated machine.

use crate::failure::Failure;
use crate::job::JobArgs;
use crate::machine::HandlersArgument;
use crate::run::{self, ComputingArgs, RunArgs};
use crate::timeline::TimelineArgs;
use crate::trace;
use clap::Args;
use narrows_launch as launch;
use narrows_machine::NetworkKind;
use narrows_output::{exit, is_standard, say};
use narrows_study::live::{self, Check, Recorder};
use narrows_trace::Format;
use std::path::{Path, PathBuf};

/// Arguments of `narrows record`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows record -n 64 -o lammps.vef -- lmp -in in.melt
  narrows record -n 16 --machine bxi-v2 --compute none -o halo.jsonl -- ./halo2d

The program is any MPI binary (Open MPI 4.1 or 5, MPICH 5, Intel MPI), unmodified; its own
launcher starts it. Its output and exit code are its own. With --machine it runs on the simulated
machine, and the times are those of that machine.")]
pub struct RecordArgs {
    #[command(flatten)]
    job: JobArgs,
    /// The new trace; - is standard output, where the program writes too
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Format of the trace [default: as its name says: .vef .goal .bin .jsonl]
    #[arg(long = "to", value_name = "vef|goal|goal-binary|jsonl")]
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
    /// A file of rules that say which messages go through which handlers on the NIC (docs/spin.md)
    #[arg(long, value_name = "FILE", requires = "machine")]
    handlers: Option<PathBuf>,
    /// Ranks per node [default: 1, or as many as are needed]
    #[arg(long, value_name = "N", requires = "machine", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    ppn: Option<u32>,
    /// Network model [default: the machine's]
    #[arg(long, value_name = "packet|flow|loggp", requires = "machine", value_parser = crate::machine::network())]
    network: Option<NetworkKind>,
    #[command(flatten)]
    computing: ComputingArgs,
    /// Says more on standard error
    #[arg(short, long)]
    verbose: bool,
}

/// Runs the program and merges what its ranks have written; the exit code is the program's, or that of what went wrong.
pub fn run(args: RecordArgs) -> Result<u8, Failure> {
    if args.format.or_else(|| Format::by_extension(&args.output)).is_none() {
        let name = trace::shown(&args.output, "standard output");
        return Err(Failure::from(format!("{name}: expected a name that ends in .vef, .goal, .bin or .jsonl, or --to FORMAT")));
    }
    let library = live::libraries()?.join("libnarrows-recorder.so");
    if !library.exists() {
        return Err(Failure::from(format!("{} is not there: run `make build`", library.display())));
    }
    let parent = place_of_records(&args.output)?;
    let folder =
        tempfile::Builder::new().prefix(".records-").tempdir_in(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let recorder = Recorder { library, folder: folder.path().to_owned() };
    let (output, format) = (args.output.clone(), args.format);
    let code = match args.machine {
        Some(_) => run::whole(&simulated(args, recorder))?,
        None => native(&args, &recorder)?,
    };
    let recorded = narrows_trace::recorded(folder.path())?;
    if code != 0 {
        if recorded > 0 {
            let place = keep(folder, &output);
            say!(
                "the program ended with code {code}; what its ranks have recorded is in {place}: narrows trace merge {place} -o FILE.jsonl"
            );
        }
        return Ok(run::byte(code));
    }
    let begun = || std::fs::read_dir(folder.path()).is_ok_and(|mut files| files.next().is_some());
    if recorded == 0 && begun() {
        let message = format!("{}: no rank found room for its recording; free some space, or write to another disk", parent.display());
        return Err(Failure { code: exit::UNWRITTEN, message });
    }
    if recorded == 0 {
        return Err(Failure::from(String::from("the program ended without calling MPI_Init: nothing was recorded")));
    }
    match trace::merge(folder.path(), &output, format) {
        Ok(ended_early) => Ok(if ended_early > 0 { exit::UNWRITTEN } else { exit::DONE }),
        Err(failure) => {
            let place = keep(folder, &output);
            let message = format!(
                "{}; what the ranks have recorded is kept in {place}: narrows trace merge {place} -o FILE.jsonl",
                failure.message.trim_end()
            );
            Err(Failure { code: exit::UNWRITTEN, message })
        }
    }
}

/// The folder in which ranks write: that of the result, which has room for it; of what is no ordinary file, that of
/// temporary files.
fn place_of_records(output: &Path) -> Result<PathBuf, Failure> {
    let special = is_standard(output) || std::fs::metadata(output).is_ok_and(|there| !there.is_file());
    let parent = match special {
        true => std::env::temp_dir(),
        false => output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned(),
    };
    parent.canonicalize().map_err(|error| Failure::from(format!("{}: {error}; make the folder first", parent.display())))
}

/// Leaves the files of the ranks where the user finds them; the place as a word for a shell.
fn keep(folder: tempfile::TempDir, output: &Path) -> String {
    let kept = folder.keep();
    let mut place = match is_standard(output) {
        true => kept.with_file_name("narrows").into_os_string(),
        false => output.to_owned().into_os_string(),
    };
    place.push(".records");
    let place = PathBuf::from(place);
    // An older one of that name is not ours to remove.
    if std::fs::rename(&kept, &place).is_ok() { place } else { kept }.display().to_string()
}

/// Under the plain launcher.
fn native(args: &RecordArgs, recorder: &Recorder) -> Result<i32, Failure> {
    let (mpi, apps) = live::launcher(args.mpirun.as_deref(), false, &args.job.apps()?).map_err(|error| error.to_string())?;
    if let Some(app) = apps.iter().find(|app| !app.on.is_empty()) {
        let message = format!("--on {}: the plain launcher knows no processors; --machine gives a machine that has them", app.on);
        return Err(Failure::from(message));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let shared = apps.iter().map(|app| app.ranks as usize).sum::<usize>() > cores;
    let clock = args.clock.clone().unwrap_or_else(|| String::from(if shared { "cpu" } else { "real" }));
    let own = match (&mpi.foreign, recorder.library.file_name()) {
        (Some(_), Some(name)) => live::libraries_of(&mpi, &live::libraries()?)?.join(name),
        _ => recorder.library.clone(),
    };
    let library = launch::Preload::fitted(&own, mpi.file.as_deref()).map_err(|error| error.to_string())?;
    let preload = live::preload_list(&[library.path().to_owned()]);
    let environment = [("LD_PRELOAD", preload), ("NARROWS_RECORD", recorder.folder.display().to_string()), ("NARROWS_RECORD_CLOCK", clock)];
    let environment = environment.map(|(name, value)| (name.to_owned(), value));
    let command = launch::plain(&mpi, &apps, &environment);
    if args.verbose {
        say!("{mpi}; starting {command:?}");
    }
    narrows_live::processes::attend(command).map_err(|error| Failure::from(format!("{}: {error}", mpi.launcher.display())))
}

/// As `narrows run` would.
fn simulated(args: RecordArgs, recorder: Recorder) -> RunArgs {
    RunArgs {
        no_aslr: false,
        json: None,
        sockets: false,
        job: args.job,
        machine: args.machine.unwrap_or_default(),
        nodes: args.nodes,
        set: args.set,
        handlers: HandlersArgument { handlers: args.handlers },
        fault: Vec::new(),
        mpirun: args.mpirun,
        transport: launch::Transport::Ofi(launch::PROVIDER),
        ppn: args.ppn,
        placement: String::from("linear"),
        network: args.network,
        computing: args.computing,
        threads: 1,
        seed: 1,
        out: None,
        timeout: None,
        verbose: args.verbose,
        timeline: TimelineArgs::default(),
        check: Check::Off,
        timing: None,
        background: Vec::new(),
        recorder: Some(recorder),
    }
}
