//! `narrows`: MPI programs on a simulated machine.

mod machine;
mod picture;
mod replay;
mod run;
mod summary;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Shows how an MPI program runs on a network that you do not have.
#[derive(Parser)]
#[command(version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  narrows run -n 16 --machine bxi-v2 -- ./my_mpi_program
  narrows run -n 64 --ppn 4 --machine my.toml --network flow --compute none --out results/ -- python3 app.py
  narrows machine list";

#[derive(Subcommand)]
enum Command {
    /// Run an MPI program on a simulated machine
    Run(run::RunArgs),
    /// Replay traces of MPI programs on a simulated machine
    Replay(replay::ReplayArgs),
    /// Look at machine files
    #[command(subcommand)]
    Machine(machine::MachineCommand),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Machine(command) => machine::run(command),
    }
}
