//! Machine files: one TOML file describes hosts, PCIe, NICs, links, switches, topology, software
//! costs and message protocol. Parsed with diagnostics that point into the file, then resolved
//! once: a [`Machine`] has nothing optional in it.
//!
//! | module | what it does |
//! |---|---|
//! | `keys` | the table of every key, put together from the configurations that have them (`narrows_keys`) |
//! | `source` | TOML to values with places; the file, `--set` and `--nodes` as layers |
//! | `resolve` | layers to one [`Machine`], checked as a whole |
//! | `model` | [`Machine`] and its parts |
//! | `node` | of these, nodes, processors and buses |
//! | `wiring` | the rules of `[topology]`: names, keys, room, graphs |
//! | `write` | [`Machine::to_toml`], [`Machine::to_json`] |
//! | `presets` | the machines inside the binary (`machines/*.toml`) |
//! | `placement` | which rank runs on which processor |
//! | `collectives` | the rules of a replay's collectives |
//! | `buses` | routes between the processors of a node |
//! | `addresses` | processors with ports of their own |
//! | `gateways` | modules, and the gateways between them |
//! | `assemble` | configurations of the NIC, message, network and topology models |
//!
//! `docs/machine-files.md` is the reference of the keys.
//!
//! ```
//! use narrows_machine::{Machine, NodeId, Overrides, Placement, ProcessorId, placement};
//!
//! let overrides = Overrides { nodes: Some(16), set: vec!["nic.put_occupancy=150ns".to_owned()] };
//! let machine = Machine::load("bxi-v2", &overrides).unwrap();
//! assert_eq!(machine.node.count, 16);
//! assert_eq!(machine.nic_config().portals().put_occupancy, "150 ns".parse().unwrap());
//! assert_eq!(machine.topology().unwrap().hosts(), 16);
//! let placed = placement(&Placement::Linear(Vec::new()), &machine, Some(2), 4).unwrap();
//! assert_eq!(placed, [0, 0, 1, 1].map(|node| ProcessorId::host(NodeId(node))));
//!
//! let error = Machine::load("bxi-v1", &Overrides::default()).unwrap_err();
//! assert!(error.to_string().contains("did you mean \"bxi-v2\"?"));
//! ```

#![forbid(unsafe_code)]

mod addresses;
mod assemble;
mod buses;
mod collectives;
mod core;
mod explain;
mod fault;
mod gateways;
mod host;
mod ip;
mod keys;
mod model;
mod node;
mod placement;
mod presets;
pub mod reference;
mod resolve;
mod source;
mod spin;
mod wiring;
mod write;

pub use addresses::Addresses;
pub use collectives::{RulesError, collectives_table, table_of_library};
pub use core::{CoreModel, CoreName};
pub use explain::Explanation;
pub use fault::FaultError;
pub use host::{HostPattern, HostPatternError};
pub use ip::{Gateway, Ip, Receiver, Tunnel};
pub use model::{
    Arrangement, Distribution, Exanet, Fabric, Failed, GatewayChoice, Gateways, GlobalLink, Link, Links, Machine, Message, MessageProtocol,
    Mpc, Network, NetworkKind, NetworkPower, Nic, NicKind, Phy, Plane, Pscom, RailChoice, Rendezvous, RoutingKind, Storage, Switch,
    SwitchOr, System,
};
pub use narrows_keys::Diagnostic;
pub use narrows_units::{NodeId, ProcessorId};
pub use node::{Auxiliary, Bus, Group, HOST, Mode, Node, Processor, ProcessorPower, Software, Speed};
pub use placement::{Placement, PlacementError, fill, placement, placement_of};
pub use presets::{PRESETS, Preset, preset};
pub use spin::{Spin, handlers_file};
pub use wiring::{Topology, TopologyKind};

use std::fmt;
use std::path::Path;

/// What the command line changes in a machine file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--nodes N`: node.count.
    pub nodes: Option<u32>,
    /// `--set key.path=value`, each; the value may go without quotes. The last one of a key wins.
    pub set: Vec<String>,
}

impl Overrides {
    /// `faults`: of `--fault`, in place of those of the file.
    pub fn new(nodes: Option<u32>, mut set: Vec<String>, faults: &[String]) -> Overrides {
        if !faults.is_empty() {
            let texts: Vec<String> = faults.iter().map(|text| write::quote(text)).collect();
            set.push(format!("network.faults=[{}]", texts.join(", ")));
        }
        Overrides { nodes, set }
    }
}

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Neither a preset nor a file.
    #[error("no machine \"{name}\": it is neither a preset nor a file{}\npresets: {known}", did_you_mean(.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The preset that it resembles.
        nearest: Option<&'static str>,
        /// All presets.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read the machine file {path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The file of `--handlers` cannot be read, or has no rules.
    #[error("{path}: {error}")]
    Rules {
        /// The file.
        path: String,
        /// Why, and what would be right.
        error: String,
    },
    /// The parts do not make a network.
    #[error("no network: {0}")]
    Network(String),
    /// Complaints about the file's text or about overrides.
    #[error("{0}")]
    Invalid(Diagnostics),
    /// A key that the machine does not have.
    #[error("no key `{key}` in {machine}{}; narrows machine explain without a key prints all", did_you_mean(&.nearest.as_deref()))]
    NoKey {
        /// What was asked for.
        key: String,
        /// The machine.
        machine: String,
        /// The key that it resembles.
        nearest: Option<String>,
    },
}

/// The paths of all keys, in the order of the reference.
pub fn key_paths() -> impl Iterator<Item = &'static str> {
    keys::paths()
}

fn did_you_mean(nearest: &Option<&str>) -> String {
    nearest.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"))
}

/// More complaints than this are counted, not printed.
const PRINTED_MAX: usize = 20;

/// All complaints about one machine file, in its order, as compilers print them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.0.iter().take(PRINTED_MAX).enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        match self.0.len().saturating_sub(PRINTED_MAX) {
            0 => Ok(()),
            more => writeln!(f, "\n... and {more} more"),
        }
    }
}

impl Machine {
    /// The machine of a preset's name, or of a file's path.
    pub fn load(name_or_path: &str, overrides: &Overrides) -> Result<Machine, MachineError> {
        let (name, text) = text_of(name_or_path)?;
        Machine::parse(&name, &text, overrides)
    }

    /// What a run finds out only when it puts the network together: its routing, and whether that can deadlock. For
    /// `narrows machine check`; a run does the same on its way.
    ///
    /// # Errors
    /// [`MachineError::Network`].
    pub fn check(&self) -> Result<(), MachineError> {
        if !self.fabrics.is_empty() {
            return self.fabrics.iter().try_for_each(|fabric| fabric.machine.check());
        }
        let topology = self.topology().map_err(|error| MachineError::Network(error.to_string()))?;
        self.network_config(0).check(&topology).map(|_| ()).map_err(|error| MachineError::Network(error.to_string()))
    }

    /// The machine of a file's text; `name` stands for the file in messages.
    pub fn parse(name: &str, text: &str, overrides: &Overrides) -> Result<Machine, MachineError> {
        resolve::resolve(name, text, overrides).map_err(|errors| MachineError::Invalid(Diagnostics(errors)))
    }
}

/// The text of a preset or a file, and what it is called in messages.
fn text_of(name_or_path: &str) -> Result<(String, String), MachineError> {
    if let Some(preset) = preset(name_or_path) {
        return Ok((format!("preset {}", preset.name), preset.text.to_owned()));
    }
    let path = Path::new(name_or_path);
    if !path.exists()
        && !narrows_output::is_standard(path)
        && !name_or_path.contains('/')
        && path.extension().is_none_or(|extension| extension != "toml")
    {
        return Err(MachineError::Unknown {
            name: name_or_path.to_owned(),
            nearest: narrows_keys::nearest(name_or_path, PRESETS.iter().map(|preset| preset.name)),
            known: PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", "),
        });
    }
    match narrows_output::read_to_string(path) {
        Ok(text) => Ok((name_or_path.to_owned(), text)),
        Err(error) => Err(MachineError::Read { path: name_or_path.to_owned(), error }),
    }
}
