//! Networks from the files of other tools, as graph files.
//!
//! | format | what is read |
//! |---|---|
//! | [`ibnetdiscover`] | InfiniBand's `ibnetdiscover`: switches, adapters, cables with width and speed |
//! | [`slurm`] | Slurm's `topology.conf` for topology/tree |
//! | [`anynet`] | BookSim's anynet files: routers, nodes, latencies in cycles |
//! | [`simgrid`] | SimGrid's platforms: clusters, and zones whose routes are cables |
//!
//! Each reader gives a [`Network`], whose [`Network::graph`] is the text that [`crate::graph_file`] reads. Hosts and
//! switches have numbers in the order of the file.
//!
//! ```
//! use narrows_topology::import::{Options, import};
//!
//! let network = import(b"SwitchName=s0 Nodes=tux[0-1]\n", None, &Options::default()).unwrap();
//! assert_eq!(network.hosts.len(), 2);
//! assert!(network.graph("topology.conf").ends_with("switch s0\nhost tux0 s0\nhost tux1 s0\n"));
//! ```

pub mod anynet;
mod builder;
mod hostlist;
pub mod ibnetdiscover;
pub mod simgrid;
pub mod slurm;

use crate::graph::{LinkClass, LinkSpeed};
use narrows_units::{ByteRate, SimTime};
use std::fmt::Write as _;

/// The most bytes of a file: about what `ibnetdiscover` says of a million cables.
pub const FILE_MAX: usize = 256 << 20;
/// The most bytes of a line, but for XML: Slurm's longest host lists have 64 KiB.
const LINE_MAX: usize = 1 << 20;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// InfiniBand's `ibnetdiscover`.
    Ibnetdiscover,
    /// Slurm's `topology.conf`.
    Slurm,
    /// BookSim's anynet files.
    Anynet,
    /// SimGrid's platforms.
    SimGrid,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 4] = [Format::Ibnetdiscover, Format::Slurm, Format::Anynet, Format::SimGrid];
    /// Their names, in the same order.
    pub const NAMES: [&str; 4] = ["ibnetdiscover", "slurm", "anynet", "simgrid"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Format::NAMES[self as usize]
    }

    /// By the first line that only one of them can have.
    fn of(text: &str) -> Option<Format> {
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).take(1000).find_map(|line| {
            let word = line.split(|c: char| c.is_whitespace() || c == '=').next().unwrap_or_default();
            match word.to_ascii_lowercase().as_str() {
                _ if line.starts_with('<') => Some(Format::SimGrid),
                "switchname" | "blockname" | "blocksizes" => Some(Format::Slurm),
                "vendid" | "devid" | "switchguid" | "caguid" | "rtguid" | "switch" | "ca" | "rt" => Some(Format::Ibnetdiscover),
                "router" | "node" => Some(Format::Anynet),
                _ => None,
            }
        })
    }
}

/// What files do not say.
#[derive(Clone, Debug)]
pub struct Options {
    /// Of hosts with several InfiniBand adapters, the one with this name, such as `mlx5_1`; otherwise the first in the
    /// file.
    pub adapter: Option<String>,
    /// How long a cycle of BookSim is.
    pub cycle: SimTime,
}

impl Default for Options {
    fn default() -> Options {
        Options { adapter: None, cycle: SimTime::from_ns(1) }
    }
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ImportError {
    /// From 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub message: String,
}

impl ImportError {
    fn new(line: usize, message: impl Into<String>) -> ImportError {
        ImportError { line, message: message.into() }
    }
}

/// A host of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// A word.
    pub name: String,
    /// The number of its switch.
    pub switch: u32,
}

/// Parallel cables between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cables {
    /// Their ends, numbers of switches.
    pub between: [u32; 2],
    /// What the file says of them.
    pub speed: LinkSpeed,
    /// How many.
    pub count: u32,
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its format.
    pub format: Format,
    /// The names of switches.
    pub switches: Vec<String>,
    /// Hosts, each on one switch.
    pub hosts: Vec<Host>,
    /// Cables between switches.
    pub cables: Vec<Cables>,
    /// What most of the hosts' links have, as far as the file says it.
    pub host_link: LinkSpeed,
    /// What most of the cables between switches have, as far as the file says it.
    pub switch_link: LinkSpeed,
    /// What of the file is not in here, sentence by sentence.
    pub notes: Vec<String>,
}

impl Network {
    /// Cables between switches, each of parallel ones counted.
    pub fn cable_count(&self) -> u64 {
        self.cables.iter().map(|cables| u64::from(cables.count)).sum()
    }

    /// The graph file; `source` is the name of the file that was read.
    pub fn graph(&self, source: &str) -> String {
        let source: String = source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut text = format!("# From {source} ({}), by `narrows topology import`.\n", self.format.name());
        let _ = writeln!(
            text,
            "# {} hosts, {} switches, {} cables between switches.",
            self.hosts.len(),
            self.switches.len(),
            self.cable_count()
        );
        if self.host_link.rate.is_some() || self.host_link.latency.is_some() {
            let _ = writeln!(text, "# Links of hosts, for [link.host]:{}", speed_words(&self.host_link));
        }
        self.notes.iter().for_each(|note| text += &format!("# {note}\n"));
        self.switches.iter().for_each(|name| text += &format!("switch {name}\n"));
        for host in &self.hosts {
            let _ = writeln!(text, "host {} {}", host.name, self.switches[host.switch as usize]);
        }
        for cables in &self.cables {
            let [one, other] = cables.between.map(|switch| &self.switches[switch as usize]);
            let _ = write!(text, "link {one} {other}");
            if cables.count > 1 {
                let _ = write!(text, " x{}", cables.count);
            }
            if cables.speed.class == LinkClass::Global {
                text += " global";
            }
            let _ = writeln!(text, "{}", speed_words(&cables.speed));
        }
        text
    }
}

/// ` bandwidth=100Gbit/s latency=1us`, as far as it is known.
fn speed_words(speed: &LinkSpeed) -> String {
    let rate = speed.rate.map_or_else(String::new, |rate| format!(" bandwidth={}", exact_rate(rate)));
    let latency = speed.latency.map_or_else(String::new, |latency| format!(" latency={}", exact_time(latency)));
    rate + &latency
}

/// A rate without blanks that reads back as the same.
pub fn exact_rate(rate: ByteRate) -> String {
    let bits = u128::from(rate.0) * 8;
    match bits {
        _ if bits % 1_000_000_000 == 0 => format!("{}Gbit/s", bits / 1_000_000_000),
        _ if bits % 1_000_000 == 0 => format!("{}Mbit/s", bits / 1_000_000),
        _ => format!("{}B/s", rate.0),
    }
}

/// A time without blanks that reads back as the same.
pub fn exact_time(time: SimTime) -> String {
    match time.as_ps() {
        ps if ps % 1_000_000 == 0 => format!("{}us", ps / 1_000_000),
        ps if ps % 1_000 == 0 => format!("{}ns", ps / 1_000),
        ps => format!("{ps}ps"),
    }
}

/// The network of a file. `format`: otherwise it is recognised.
///
/// # Errors
/// [`ImportError`]: the line, what is wrong there, and what would be right.
pub fn import(bytes: &[u8], format: Option<Format>, options: &Options) -> Result<Network, ImportError> {
    if bytes.len() > FILE_MAX {
        return Err(ImportError::new(1, format!("the file has {} bytes; expected at most {FILE_MAX}", bytes.len())));
    }
    // Names of InfiniBand nodes are whatever their owners wrote.
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    let format = format.or_else(|| Format::of(text)).ok_or_else(|| {
        let files = "the output of ibnetdiscover, Slurm's topology.conf, an anynet file of BookSim, or a platform of SimGrid";
        ImportError::new(1, format!("no known format; expected {files}"))
    })?;
    if format != Format::SimGrid
        && let Some(at) = text.lines().position(|line| line.len() > LINE_MAX)
    {
        return Err(ImportError::new(at + 1, format!("the line has more than {LINE_MAX} bytes; no line of such a file is as long")));
    }
    let mut network = match format {
        Format::Ibnetdiscover => ibnetdiscover::read(text, options.adapter.as_deref()),
        Format::Slurm => slurm::read(text),
        Format::Anynet => anynet::read(text, options.cycle),
        Format::SimGrid => simgrid::read(text),
    }?;
    network.format = format;
    Ok(network)
}
