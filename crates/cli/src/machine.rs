//! `narrows machine list | show NAME | check FILE | explain KEY`

use crate::failure::Failure;
use crate::form::{Form, keys_and_values};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use narrows_machine::{Diagnostic, Explanation, Machine, MachineError, NetworkKind, Node, Overrides, PRESETS};
use narrows_output::{exit, warn};
use narrows_results::{Column, Table};
use serde_json::json;
use std::path::PathBuf;

/// What `narrows machine` does.
#[derive(Debug, Subcommand)]
pub enum MachineCommand {
    /// List the machines that come with Narrows
    #[command(after_help = "Example:\n  narrows machine list")]
    List {
        #[command(flatten)]
        form: Form,
    },
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
        #[command(flatten)]
        form: Form,
    },
    /// Say what a key means, and where a machine has its value from
    #[command(after_help = "\
Examples:
  narrows machine explain network.buffer
  narrows machine explain link.host --machine my.toml
  narrows machine explain latency --machine exanest --csv

Docs: docs/machine-files.md has all keys.")]
    Explain {
        /// A key, a section, or a part of their names [default: all keys]
        #[arg(value_name = "KEY", default_value = "", hide_default_value = true)]
        key: String,
        /// A preset (narrows machine list) or a machine file
        #[arg(long, value_name = "NAME|FILE", default_value = "bxi-v2")]
        machine: String,
        #[command(flatten)]
        overrides: OverrideArguments,
        #[command(flatten)]
        form: Form,
    },
    /// Check a machine file: file, line and column of every mistake
    #[command(after_help = "\
Examples:
  narrows machine check my.toml
  narrows machine check my.toml --nodes 4096

Exit code 0: a run would take this machine. 1: it would not. 2: there is no such file.")]
    Check {
        /// A machine file (or a preset)
        #[arg(value_name = "FILE")]
        machine: String,
        #[command(flatten)]
        overrides: OverrideArguments,
        #[command(flatten)]
        form: Form,
    },
}

/// A network model by name.
pub fn network() -> impl TypedValueParser<Value = NetworkKind> {
    let by_name = |name: String| *NetworkKind::ALL.iter().find(|kind| kind.name() == name).expect("clap has just checked the name");
    PossibleValuesParser::new(NetworkKind::NAMES).map(by_name)
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
    /// What is wrong with a link, a switch or a NIC, such as 'link=leaf0:7 loss=1e-4 from=1ms to=2ms': a port of a
    /// switch, 3-17 or leaf3-spine1 for cables between two, node5 for that of a node; switches are leafN, spineN,
    /// coreN, routerN, as a graph file calls them, or numbers (see network.faults); may be repeated
    #[arg(long, value_name = "KEY=VALUE ...")]
    pub fault: Vec<String>,
}

/// Handlers on NICs, as `narrows run`, `record` and `replay` have them.
#[derive(Clone, Debug, Default, Args)]
pub struct HandlersArgument {
    /// A file of rules that say which messages go through which handlers on the NIC, instead of nic.spin.rules
    /// (docs/spin.md)
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    pub handlers: Option<PathBuf>,
}

impl HandlersArgument {
    /// The changes of a machine, and that of this option behind them.
    ///
    /// # Errors
    /// The file has no rules.
    pub fn and(&self, mut set: Vec<String>) -> Result<Vec<String>, MachineError> {
        set.extend(self.handlers.as_deref().map(narrows_machine::handlers_file).transpose()?);
        Ok(set)
    }
}

impl From<OverrideArguments> for Overrides {
    fn from(arguments: OverrideArguments) -> Overrides {
        Overrides::new(arguments.nodes, arguments.set, &arguments.fault)
    }
}

/// Runs `narrows machine ...`: results on standard output, complaints on standard error.
pub fn run(command: MachineCommand) -> Result<u8, Failure> {
    match command {
        MachineCommand::List { form } => list(form),
        MachineCommand::Show { machine, overrides, form } => {
            let machine = load(&machine, overrides)?;
            form.print(|| machine.to_toml(), || machine.to_json(), || keys_and_values(&machine.to_json()))?;
            Ok(exit::DONE)
        }
        MachineCommand::Check { machine, overrides, form } => check(&machine, overrides, form),
        MachineCommand::Explain { key, machine, overrides, form } => {
            let found = Machine::explain(&machine, &overrides.into(), &key)?;
            form.print(|| explained(&found), || explanations(&found).json(), || explanations(&found))?;
            Ok(exit::DONE)
        }
    }
}

/// Keys to read: the value and where it stands, what the key means, what it may be.
fn explained(found: &[Explanation]) -> String {
    let entry = |one: &Explanation| {
        let comment = one.comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
        let default = one.default.as_ref().map_or_else(String::new, |default| format!("; without it {default}"));
        format!("{} = {}\n  from {}{comment}\n  {}\n  {}{default}\n", one.key, one.value, one.from, one.meaning, one.values)
    };
    found.iter().map(entry).collect::<Vec<_>>().join("\n")
}

fn explanations(found: &[Explanation]) -> Table {
    let text = |value: fn(&Explanation) -> &str| Column::Text(found.iter().map(|one| value(one).to_owned()).collect());
    Table::new(vec![
        ("key", text(|one| &one.key)),
        ("value", text(|one| &one.value)),
        ("from", text(|one| &one.from)),
        ("comment", text(|one| one.comment.as_deref().unwrap_or_default())),
        ("meaning", text(|one| &one.meaning)),
        ("values", text(|one| &one.values)),
        ("default", text(|one| one.default.as_deref().unwrap_or_default())),
    ])
}

fn load(machine: &str, overrides: OverrideArguments) -> Result<Machine, MachineError> {
    let found = Machine::load(machine, &overrides.into())?;
    found.warnings().iter().for_each(|warning| warn!("{warning}"));
    Ok(found)
}

fn list(form: Form) -> Result<u8, Failure> {
    let machines = PRESETS.iter().map(|preset| Machine::load(preset.name, &Overrides::default())).collect::<Result<Vec<_>, _>>()?;
    let text = || {
        let width = PRESETS.iter().map(|preset| preset.name.len()).max().unwrap_or(0);
        let entry = |machine: &Machine| format!("{:width$}  {}\n{:width$}  {}\n", machine.name, machine.description, "", summary(machine));
        machines.iter().map(entry).collect()
    };
    let column = |value: &dyn Fn(&Machine) -> String| Column::Text(machines.iter().map(value).collect());
    let table = || {
        Table::new(vec![
            ("name", column(&|machine| machine.name.clone())),
            ("description", column(&|machine| machine.description.clone())),
            ("nodes", Column::Integer(machines.iter().map(|machine| i64::from(machine.node.count)).collect())),
            ("cores", Column::Integer(machines.iter().map(|machine| i64::from(machine.node.host.cores)).collect())),
            ("nic", column(&|machine| machine.nic.kind.name().to_owned())),
            ("topology", column(&|machine| machine.topology.kind.name().to_owned())),
            ("host_link", column(&|machine| machine.link.host.bandwidth.to_string())),
        ])
    };
    form.print(text, || table().json(), table)?;
    Ok(exit::DONE)
}

/// Whether a run would take the machine. What is wrong is told on standard error; as JSON or CSV, on standard output
/// too.
fn check(name: &str, overrides: OverrideArguments, form: Form) -> Result<u8, Failure> {
    let result = load(name, overrides).and_then(|machine| machine.check().map(|()| machine));
    let mistakes: &[Diagnostic] = match &result {
        Ok(_) => &[],
        Err(MachineError::Invalid(diagnostics)) => &diagnostics.0,
        // It has no place in the file.
        Err(MachineError::Network(_)) => &[],
        Err(error) => return Err(Failure::from(error.to_string())),
    };
    let text = |value: fn(&Diagnostic) -> &str| Column::Text(mistakes.iter().map(|mistake| value(mistake).to_owned()).collect());
    let table = || {
        Table::new(vec![
            ("file", text(|mistake| &mistake.file)),
            ("line", Column::Integer(mistakes.iter().map(|mistake| mistake.line as i64).collect())),
            ("column", Column::Integer(mistakes.iter().map(|mistake| mistake.column as i64).collect())),
            ("message", text(|mistake| &mistake.message)),
            ("help", text(|mistake| &mistake.help)),
        ])
    };
    let network = result.as_ref().err().filter(|error| matches!(error, MachineError::Network(_))).map(ToString::to_string);
    let words = || result.as_ref().map_or_else(|_| String::new(), |machine| format!("{name}: ok, {}\n", summary(machine)));
    form.print(words, || json!({ "machine": name, "ok": result.is_ok(), "mistakes": table().json(), "network": network }), table)?;
    match &result {
        Ok(_) => Ok(exit::DONE),
        Err(error) => Err(Failure { code: exit::NO, message: error.to_string() }),
    }
}

/// "64 nodes of 64 cores", with what is beside the hosts': "and 8 of bf2".
fn of_nodes(machine: &Machine, node: &Node) -> String {
    let beside = machine.processors(node).skip(1).map(|(name, processor)| format!(" and {} of {name}", processor.cores));
    format!("{} nodes of {} cores{}", node.count, node.host.cores, beside.collect::<String>())
}

/// "64 nodes of 64 cores, bxi-v2 NICs, fat-tree, links of 11.1 GB/s"; a part for each network, with its planes.
fn summary(machine: &Machine) -> String {
    let nodes: Vec<String> = machine.parts().map(|(_, node)| of_nodes(machine, node)).collect();
    let network = |machine: &Machine| {
        format!("{} NICs, {}, links of {}", machine.nic.kind.name(), machine.topology.kind.name(), machine.link.host.bandwidth)
    };
    let networks = match machine.fabrics.as_slice() {
        [] => network(machine),
        fabrics => {
            let named = fabrics.iter().map(|fabric| format!("{}: {}", fabric.name, network(&fabric.machine)));
            named.collect::<Vec<_>>().join("; ")
        }
    };
    let each = if machine.fabrics.len() > 1 { " each" } else { "" };
    let planes = if machine.rails > 1 { format!(", {} planes{each}", machine.rails) } else { String::new() };
    format!("{}, {networks}{planes}", nodes.join(" and "))
}
