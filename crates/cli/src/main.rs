//! `narrows`: MPI programs on a simulated machine.

mod analyse;
mod cite;
mod config;
mod explore;
mod extrapolate;
mod failure;
mod form;
mod generate;
mod import;
mod job;
mod machine;
#[cfg(feature = "mpi")]
mod mpi;
mod phy;
mod processes;
mod python;
mod record;
mod replay;
mod reproduce;
mod resources;
mod run;
mod shell;
mod spin;
mod timeline;
mod topology;
mod trace;
mod traffic;
mod watching;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use narrows_output::{exit, print};
use std::process::ExitCode;

/// Shows how an MPI program runs on a network that you do not have.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, max_term_width = WIDTH, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// Prints a BibTeX entry
    #[arg(long, exclusive = true)]
    cite: bool,
}

/// Of a line of help at most.
const WIDTH: usize = 100;

const EXAMPLES: &str = "Examples:
  narrows run -n 16 --machine bxi-v2 -- ./my_mpi_program
  narrows run -n 64 --ppn 4 --machine my.toml --compute none --out results/ -- python3 app.py
  narrows traffic uniform --nodes 64 --load 0.1:1.0:0.1 --out results/
  narrows reproduce all --quick
  narrows machine list
  narrows topology show megafly-288 --svg megafly.svg
  narrows generate halo3d --ranks 512 -o halo.vef
  narrows trace info halo.vef";

#[derive(Subcommand)]
enum Command {
    /// Run an MPI program on a simulated machine
    Run(run::RunArgs),
    /// Run an MPI program many times with other legal timings, and compare the outcomes
    Explore(explore::ExploreArgs),
    /// Replay traces of MPI programs on a simulated machine
    Replay(replay::ReplayArgs),
    /// Send synthetic traffic through a simulated machine
    Traffic(traffic::TrafficArgs),
    /// Send frames through a physical layer to the bit: losses, latency, overhead
    Phy(phy::PhyArgs),
    /// Run handlers on a NIC that computes: throughput, cycles, latency
    Spin(spin::SpinArgs),
    /// Simulate published figures and compare
    Reproduce(reproduce::ReproduceArgs),
    /// Look at machine files
    #[command(subcommand, after_help = "Example:\n  narrows machine show bxi-v2 --nodes 16")]
    Machine(machine::MachineCommand),
    /// Look at the network of a machine
    #[command(subcommand, after_help = "Example:\n  narrows topology show megafly-288")]
    Topology(topology::TopologyCommand),
    /// Look at traces, convert and change them
    #[command(subcommand, after_help = "Example:\n  narrows trace check halo.vef")]
    Trace(trace::TraceCommand),
    /// Record the communication of an MPI program as a trace
    Record(record::RecordArgs),
    /// Write a report about a trace
    Analyse(analyse::AnalyseArgs),
    /// Run a study at many points; what is finished is kept (Python package)
    Sweep(python::SweepArgs),
    /// Tell which keys of a machine a program, trace or pattern depends on (Python package)
    Sensitivity(python::SensitivityArgs),
    /// Fit constants of a machine to benchmarks of a real one (Python package)
    Calibrate(python::CalibrateArgs),
    /// Put two machines or two results side by side (Python package)
    Compare(python::CompareArgs),
    /// Compute closed forms of the time of kernels (Python package)
    #[command(subcommand, after_help = "Example:\n  narrows model iron-law fft-3d 1024 --peak 42T --memory 76.8GB/s --fast-memory 40MB")]
    Model(python::ModelCommand),
    /// Print the flags that compile and link Portals programs
    Config(config::ConfigArgs),
    /// Print what a shell needs to complete commands and options
    Completions(shell::CompletionsArgs),
    /// Write manual pages
    Man(shell::ManArgs),
    /// Make up a trace of a well-known pattern
    Generate(generate::GenerateArgs),
    /// Extrapolate a trace to more ranks from recordings with fewer ranks
    Extrapolate(extrapolate::ExtrapolateArgs),
}

/// Options of earlier versions, and what a user writes today.
const FORMER: [(&str, &str); 4] = [
    ("--compute-from", "expected --compute FILE"),
    ("--compute-like", "expected --compute-scale FILE"),
    ("--compute-out", "expected --out DIR, which keeps DIR/computing.json"),
    ("--offload", "expected --set 'collectives.rules=[\"allreduce *: exanet-accelerator <4097, recursive-doubling\"]', as in replays"),
];

/// Commands that start a program.
const STARTERS: [&str; 4] = ["run", "record", "explore", "sensitivity"];

/// The line to write in place of what other launchers take, or earlier versions took.
fn today(wrong: &clap::Error, words: &[String]) -> Option<String> {
    let own = words.iter().take_while(|word| *word != "--");
    let starts = words.get(1).is_some_and(|command| STARTERS.contains(&command.as_str()));
    if starts && own.clone().any(|word| word == "-np") {
        return Some(format!("-np: expected -n RANKS, such as narrows {} -n 4 -- ./app", words[1]));
    }
    let Some(ContextValue::String(argument)) = wrong.get(ContextKind::InvalidArg) else { return None };
    if starts && !argument.starts_with('-') && own.count() == words.len() {
        let program = words.iter().position(|word| word == argument)?;
        let (options, program) = words[1..].split_at(program - 1);
        return Some(format!("{argument}: expected -- in front of the program: narrows {} -- {}", options.join(" "), program.join(" ")));
    }
    FORMER.iter().find(|(former, _)| former == argument).map(|(former, today)| format!("{former}: {today}"))
}

#[global_allocator]
static ALLOCATOR: resources::Allocator = resources::Allocator;

fn main() -> ExitCode {
    resources::with_stack(command)
}

fn command() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // --help and --version.
        Err(wanted) if !wanted.use_stderr() => {
            return failure::end(print(&wanted.render().to_string()).map(|()| exit::DONE).map_err(Into::into));
        }
        // The program alone asks what there is.
        Err(help) if help.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && std::env::args_os().len() == 1 => {
            return failure::end(print(&help.render().to_string()).map(|()| exit::DONE).map_err(Into::into));
        }
        Err(wrong) => {
            let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            return failure::end(Err(today(&wrong, &words).unwrap_or_else(|| wrong.render().to_string()).into()));
        }
    };
    let Cli { command: Some(command), cite: false } = cli else {
        return failure::end(print(&cite::entry()).map(|()| exit::DONE).map_err(Into::into));
    };
    failure::end(match command {
        Command::Run(args) => run::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Traffic(args) => traffic::run(args),
        Command::Phy(args) => phy::run(args),
        Command::Spin(args) => spin::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Machine(command) => machine::run(command),
        Command::Topology(command) => topology::run(command),
        Command::Trace(command) => trace::run(command),
        Command::Record(args) => record::run(args),
        Command::Analyse(args) => analyse::run(args),
        Command::Sweep(_) | Command::Sensitivity(_) | Command::Calibrate(_) | Command::Compare(_) | Command::Model(_) => {
            python::hand_over()
        }
        Command::Completions(args) => shell::completions::<Cli>(args),
        Command::Man(args) => shell::man::<Cli>(args),
        Command::Config(args) => config::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Extrapolate(args) => extrapolate::run(args),
    })
}
