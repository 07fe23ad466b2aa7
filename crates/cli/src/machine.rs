//! `narrows machine list | show NAME | check FILE`

use clap::{Args, Subcommand};
use narrows_machine::{Machine, MachineError, Overrides, PRESETS};
use std::io::{self, Write};
use std::process::ExitCode;

/// What `narrows machine` does.
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// List the machines that come with Narrows
    #[command(after_help = "Example:\n  narrows machine list")]
    List,
    /// Print a machine with every key resolved, as a machine file
    #[command(after_help = "\
Examples:
  narrows machine show bxi-v2
  narrows machine show bxi-v2 --nodes 128 > my.toml
  narrows machine show my.toml --set nic.put_occupancy=100ns --set 'link.host.bandwidth=25 Gbit/s'
  narrows machine show bxi-v2 --set topology.kind=k-ary-n-tree --set topology.k=8 --set topology.n=2")]
    Show {
        /// A preset (narrows machine list) or a machine file
        #[arg(value_name = "NAME|FILE")]
        machine: String,
        #[command(flatten)]
        overrides: OverrideArguments,
    },
    /// Check a machine file: file, line and column of every mistake
    #[command(after_help = "\
Examples:
  narrows machine check my.toml
  narrows machine check my.toml --nodes 4096

Exit code 0: a run would take this machine. 1: it would not.")]
    Check {
        /// A machine file (or a preset)
        #[arg(value_name = "FILE")]
        machine: String,
        #[command(flatten)]
        overrides: OverrideArguments,
    },
}

/// Options that change a machine file; `narrows run` has them too.
#[derive(Clone, Debug, Default, Args)]
pub struct OverrideArguments {
    /// Number of nodes (node.count)
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Another value for a key, such as nic.put_occupancy=100ns; may be repeated
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub set: Vec<String>,
}

impl From<OverrideArguments> for Overrides {
    fn from(arguments: OverrideArguments) -> Overrides {
        Overrides { nodes: arguments.nodes, set: arguments.set }
    }
}

/// Runs `narrows machine ...`: results on standard output, complaints on standard error.
pub fn run(command: MachineCommand) -> ExitCode {
    let text = match command {
        MachineCommand::List => list(),
        MachineCommand::Show { machine, overrides } => Machine::load(&machine, &overrides.into()).map(|machine| machine.to_toml()),
        MachineCommand::Check { machine, overrides } => {
            Machine::load(&machine, &overrides.into()).and_then(|resolved| resolved.check().map(|()| resolved)).map(|resolved| {
                resolved.warnings().iter().for_each(|warning| eprintln!("narrows: warning: {warning}"));
                format!("{machine}: ok, {}\n", summary(&resolved))
            })
        }
    };
    match text {
        Ok(text) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            // The reader has seen enough (narrows machine show | head).
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("narrows: cannot write: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints why there is no machine.
pub fn complain(error: &MachineError) {
    let text = error.to_string();
    match error {
        // Diagnostics start with "error:" and end with their own line.
        MachineError::Invalid(_) => eprint!("{text}"),
        _ => eprintln!("error: {text}"),
    }
}

fn list() -> Result<String, MachineError> {
    let width = PRESETS.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for preset in PRESETS {
        let machine = Machine::load(preset.name, &Overrides::default())?;
        text += &format!("{:width$}  {}\n{:width$}  {}\n", preset.name, machine.description, "", summary(&machine));
    }
    Ok(text)
}

/// "64 nodes of 64 cores, fat-tree, 11.1 GB/s links"
fn summary(machine: &Machine) -> String {
    format!(
        "{} nodes of {} cores, {} NICs, {}, links of {}",
        machine.node.count,
        machine.node.cores,
        machine.nic.kind.name(),
        machine.topology.kind().name(),
        machine.link.host.bandwidth
    )
}
