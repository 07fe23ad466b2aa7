//! `narrows topology import FILE -o NAME.graph`: a graph file, and a machine file, of another tool's file.

use crate::failure::Failure;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use narrows_machine::{HostPattern, Machine, Overrides, preset};
use narrows_output::{exit, is_standard, say, warn, write};
use narrows_topology::import::{FILE_MAX, Format, Network, Options, exact_rate, exact_time};
use narrows_topology::{LinkSpeed, RoutingKind, Topology, graph_file};
use narrows_units::SimTime;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What `narrows topology import` takes.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// The output of ibnetdiscover, Slurm's topology.conf, an anynet file of BookSim or a platform of SimGrid; - is
    /// standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The graph file to write; - is standard output
    #[arg(short, long, value_name = "NAME.graph")]
    output: PathBuf,
    /// Also write NAME.toml, a machine with this network: a preset or a machine file gives the rest of it
    #[arg(long, value_name = "NAME|FILE")]
    base: Option<String>,
    /// Whose file it is; without it, what the file looks like
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    format: Option<Format>,
    /// Of hosts with several InfiniBand adapters in this network, the one of this name, such as mlx5_1; without it, the
    /// first one
    #[arg(long, value_name = "NAME")]
    adapter: Option<String>,
    /// How long a cycle of BookSim is, for its latencies
    #[arg(long, value_name = "TIME", default_value = "1ns")]
    cycle: SimTime,
}

fn format() -> impl TypedValueParser<Value = Format> {
    let by_name = |name: String| *Format::ALL.iter().find(|format| format.name() == name).expect("clap has just checked the name");
    PossibleValuesParser::new(Format::NAMES).map(by_name)
}

/// Runs `narrows topology import`.
pub fn import(arguments: ImportArguments) -> Result<u8, Failure> {
    let ImportArguments { file, output, base, format, adapter, cycle } = arguments;
    let shown = if is_standard(&file) { "standard input".into() } else { file.display().to_string() };
    let machine_file = output.with_extension("toml");
    if base.is_some() && (is_standard(&output) || machine_file == output || machine_file == file) {
        let other = "--base writes a machine file beside the graph file";
        return Err(format!("-o {}: {other}; expected a name such as mine.graph", output.display()).into());
    }
    let bytes = read(&file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let network =
        narrows_topology::import::import(&bytes, format, &Options { adapter, cycle }).map_err(|error| format!("{shown}, {error}"))?;
    network.notes.iter().for_each(|note| warn!("{note}"));
    let graph = network.graph(&shown);
    // Told before anything is written: no file is left that is no network.
    let topology = graph_file::parse(&shown, &graph, None).map_err(|error| format!("{shown} makes no network: {error}"))?;
    let machine = base.map(|base| machine(&network, &topology, &base, &output)).transpose()?;
    write(&output, &graph)?;
    let counts =
        format!("{} hosts, {} switches, {} cables between switches", network.hosts.len(), network.switches.len(), network.cable_count());
    let Some(text) = machine else {
        say!("{}: {counts}", output.display());
        return Ok(exit::DONE);
    };
    write(&machine_file, &text)?;
    say!("{} and {}: {counts}", machine_file.display(), output.display());
    let machine = Machine::load(&machine_file.display().to_string(), &Overrides::default())?;
    machine.warnings().iter().for_each(|warning| warn!("{warning}"));
    Ok(exit::DONE)
}

/// The bytes of a file, of an endless one no more than can be read.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = FILE_MAX as u64 + 1;
    match is_standard(path) {
        true => io::stdin().take(most).read_to_end(&mut bytes)?,
        false => File::open(path)?.take(most).read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}

/// The machine file: the network of `graph`, all else of `base`.
fn machine(network: &Network, topology: &Topology, base: &str, graph: &Path) -> Result<String, Failure> {
    let of_base = Machine::load(base, &Overrides::default())?;
    if of_base.groups.len() > 1 || !of_base.fabrics.is_empty() {
        return Err(format!(
            "--base {base}: its nodes differ, or it has several networks; expected a machine with one kind of nodes and one network"
        )
        .into());
    }
    let base = match preset(base) {
        Some(_) => base.to_owned(),
        // The base of a file is looked for from its folder.
        None => std::fs::canonicalize(base).map_err(|error| format!("cannot read {base}: {error}"))?.display().to_string(),
    };
    let quoted = |text: &str| Value::from(text).to_string();
    let name = graph.file_stem().unwrap_or_default().to_string_lossy();
    let mut text = format!("[machine]\nname = {}\nbase = {}\n\n[node]\ncount = {}\n", quoted(&name), quoted(&base), network.hosts.len());
    if let Some(pattern) = host_pattern(network) {
        let _ = writeln!(text, "host_name = {}", quoted(&pattern.to_string()));
    }
    text += &link("host", &network.host_link);
    text += &link("switch", &network.switch_link);
    // Shortest ways, spread over equal ones, as subnet managers make them; `adaptive` takes the least loaded of them.
    text += "\n[network]\nrouting = \"table\"\n";
    let channels = u32::from(topology.shape().virtual_channels(RoutingKind::Table).unwrap_or(1));
    if of_base.network.virtual_channels < channels {
        let _ = writeln!(text, "virtual_channels = {channels}");
    }
    let radix = topology.shape().radix();
    if of_base.switch.radix < radix {
        let _ = write!(text, "\n[switch]\nradix = {radix}\n");
    }
    // Both files are in one folder.
    let file = graph.file_name().unwrap_or_default().to_string_lossy();
    let _ = write!(text, "\n[topology]\nkind = \"file\"\npath = {}\n", quoted(&file));
    Ok(text)
}

/// `[link.host]` and `[link.switch]`, as far as the file says something.
fn link(name: &str, speed: &LinkSpeed) -> String {
    let mut text = String::new();
    if speed.rate.is_some() || speed.latency.is_some() {
        let _ = writeln!(text, "\n[link.{name}]");
    }
    speed.rate.into_iter().for_each(|rate| text += &format!("bandwidth = \"{}\"\n", exact_rate(rate)));
    speed.latency.into_iter().for_each(|latency| text += &format!("latency = \"{}\"\n", exact_time(latency)));
    text
}

/// The pattern of the hosts' names, should they count from 0 in order.
fn host_pattern(network: &Network) -> Option<HostPattern> {
    let names = || network.hosts.iter().map(|host| host.name.as_str());
    let first = names().next()?;
    let end = first.rfind(|c: char| c.is_ascii_digit())? + 1;
    let begin = first[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + first[at..].chars().next().map_or(1, char::len_utf8));
    let digits = match end - begin {
        1 => String::new(),
        width => format!(":0{width}"),
    };
    let pattern: HostPattern = format!("{}{{{digits}}}{}", &first[..begin], &first[end..]).parse().ok()?;
    names().zip(0..).all(|(name, index)| pattern.name(index) == name).then_some(pattern)
}
