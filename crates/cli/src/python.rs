//! `narrows sweep`, `sensitivity`, `calibrate`, `compare` and `model`: the Python package does the work, and this
//! program hands over to it.
//!
//! The process becomes that of the interpreter: Ctrl-C, streams and exit codes are those of the package
//! (python/narrows/__main__.py), and there is one implementation of each. What stands here is for `--help`, which needs
//! no Python, and for messages about wrong options.

use crate::failure::Failure;
use clap::Args;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Arguments of `narrows sweep`.
#[derive(Args)]
#[command(after_help = "Example:
  narrows sweep study.toml -o results/

study.toml:
  study = \"traffic\"                # or replay, run
  arguments = [\"uniform\"]          # the pattern, the traces, the program
  machine = \"bxi-v2\"
  options = { warmup = \"10us\", time = \"50us\" }
  repeats = 3
  [grid]
  load = [0.2, 0.5, 0.8]
  \"network.routing\" = [\"d-mod-k\", \"adaptive\"]

Ctrl-C, or kill -9: finished points stay, the same command goes on with the others. Docs:
docs/python.md.")]
pub struct SweepArgs {
    /// What to run at which points
    #[arg(value_name = "STUDY.toml")]
    file: PathBuf,
    /// The folder that keeps finished points and the table [default: the study's, or its name]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Runs points that have failed once more
    #[arg(long)]
    retry: bool,
    /// The scheduler of dask.distributed whose workers run the points [default: the cores of this computer]
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<String>,
    /// Columns to print beside what differs between the points
    #[arg(long, value_name = "NAME,...")]
    columns: Option<String>,
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `narrows sensitivity`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows sensitivity -n 16 --machine bxi-v2 -- ./app
  narrows sensitivity --replay app.jsonl --keys nic,link.host
  narrows sensitivity --traffic uniform --load 0.6 --nodes 16

Times get 10 % shorter, rates 10 % higher, all else 10 % larger, one key at a time. A program runs
once; its trace is replayed, with the same computing times. Docs: docs/how-to/sensitivity.md.")]
pub struct SensitivityArgs {
    /// A trace in place of a program; several run at the same time
    #[arg(long, value_name = "TRACE")]
    replay: Vec<PathBuf>,
    /// A pattern of traffic in place of a program
    #[arg(long, value_name = "PATTERN")]
    traffic: Option<String>,
    /// Of traffic: a fraction of the injection bandwidth [default: 0.5]
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,
    /// Ranks of the program
    #[arg(short = 'n', long, value_name = "N")]
    ranks: Option<u32>,
    /// The simulated machine [default: bxi-v2]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Nodes of the machine [default: its own number]
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Changes a key of the machine
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Ranks per processor [default: 1, or as many as are needed]
    #[arg(long, value_name = "N")]
    ppn: Option<u32>,
    /// Computing times of the program, as of narrows run [default: measured]
    #[arg(long, value_name = "HOW")]
    compute: Option<String>,
    /// Changes these keys, or those of these sections [default: all that the machine uses]
    #[arg(long, value_name = "KEY,...")]
    keys: Option<String>,
    /// How much a key is changed [default: 10]
    #[arg(long, value_name = "PERCENT")]
    step: Option<String>,
    /// The folder that keeps what is finished [default: narrows-sensitivity]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<std::ffi::OsString>,
}

/// Arguments of `narrows calibrate`.
#[derive(Args)]
#[command(after_help = "Example:
  narrows calibrate --base bxi-v2 -o mine.toml osu_latency.txt osu_bw.txt

Docs: docs/python.md.")]
pub struct CalibrateArgs {
    /// Outputs of osu_latency, osu_bw, IMB-MPI1 (PingPong) or examples/pingpong.c
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The machine whose other constants are kept [default: bxi-v2]
    #[arg(long, value_name = "NAME|FILE")]
    base: Option<String>,
    /// Writes the machine file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Fits this key, and no other that is not named
    #[arg(long, value_name = "KEY")]
    constant: Vec<String>,
    /// Keeps these keys at the base's value, or at the given one
    #[arg(long, value_name = "KEY[=VALUE],...")]
    fix: Vec<String>,
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `narrows compare`.
#[derive(Args)]
#[command(after_help = "Examples:
  narrows compare bxi-v2 bxi-v3
  narrows compare out-a/ out-b/ --html compared.html

Docs: docs/python.md.")]
pub struct CompareArgs {
    /// A machine, or a folder that --out has written
    #[arg(value_name = "A")]
    first: PathBuf,
    /// Another one of the same kind
    #[arg(value_name = "B")]
    second: PathBuf,
    /// Shows what is equal too
    #[arg(long)]
    all: bool,
    /// Writes the table as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
}

/// `narrows model ...`.
#[derive(clap::Subcommand)]
pub enum ModelCommand {
    /// Tell what binds a kernel as nodes get more and smaller: computing, memory or the network
    IronLaw(IronLawArgs),
}

/// Arguments of `narrows model iron-law`.
#[derive(Args)]
#[command(after_help = "Example:
  narrows model iron-law matmul-2d 16384 --peak 42T --memory 76.8GB/s --fast-memory 40MB

All numbers of nodes have the same peak together. Docs: docs/iron-law.md.")]
pub struct IronLawArgs {
    /// matmul-2d, matmul-3d, fft-3d, stencil or cg
    kernel: String,
    /// Rows of the matrices, points of an edge of the grid
    #[arg(value_name = "N")]
    size: u64,
    /// Numbers of nodes [default: 1,4,16,64,256,1024,4096]
    #[arg(long, value_name = "P,...")]
    nodes: Option<String>,
    /// Operations per second of all nodes together
    #[arg(long, value_name = "RATE")]
    peak: String,
    /// Bandwidth of a node's memory
    #[arg(long, value_name = "RATE")]
    memory: String,
    /// What a node's cache holds
    #[arg(long, value_name = "SIZE")]
    fast_memory: String,
    /// What a node's NIC sends [default: the machine's link or PCIe, whichever is slower]
    #[arg(long, value_name = "RATE")]
    network: Option<String>,
    /// The machine of the NIC [default: bxi-v2]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Draws both penalties into a picture (.png, .svg)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
}

/// Where an interpreter may be: beside this program, as pip installs it, or where the shell finds one.
fn interpreters() -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("python3")));
    let on_path = ["python3", "python"].map(PathBuf::from);
    beside.filter(|path| path.is_file()).into_iter().chain(on_path).collect()
}

/// Becomes `python3 -m narrows` with the arguments of this process; returns only if that is not possible.
pub fn hand_over() -> Result<u8, Failure> {
    let mut arguments = std::env::args_os().skip(1);
    for interpreter in interpreters() {
        // -P: a folder of the name narrows in the working directory is not the package.
        let probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('narrows') is None)";
        let found = Command::new(&interpreter).args(["-P", "-c", probe]).stdin(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_ok_and(|status| status.success()) {
            let error = Command::new(&interpreter).args(["-P", "-m", "narrows"]).args(arguments).exec();
            return Err(Failure::from(format!("{}: {error}", interpreter.display())));
        }
    }
    Err(Failure::from(format!(
        "narrows {} is done by the Python package, which is not installed here: pip install '.[all]' in the sources of Narrows, in a \
         virtual environment (docs/python.md)",
        arguments.next().unwrap_or_default().to_string_lossy()
    )))
}
