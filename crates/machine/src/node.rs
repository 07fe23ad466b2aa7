//! Nodes that are alike, their processors, and the buses between these.

use crate::core::CoreModel;
use crate::host::HostPattern;
use crate::model::Link;
use narrows_keys::{Field, Limits, Problem, Value, choice, keys, number};
use narrows_units::{ByteRate, Power, SimTime};

/// Most nodes: keeps ordering keys of hosts and switches within the engine's 22 bits.
pub(crate) const NODES_MAX: u32 = 1 << 20;

/// `[group.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// So many nodes, and what they are.
    pub node: Node,
}

/// What the processor of `[node]` is called.
pub const HOST: &str = "host";

choice! {
    /// How a processor beside the host's meets the network.
    pub enum Mode {
        /// Over the ports of its node, as the host does.
        Shared = "shared",
        /// Over its own port on each network of its node, at its own address. The host's traffic does not touch it.
        OffPath = "off-path",
        /// The same, and it stands in front of the host's ports: what the host sends and gets passes the bus between
        /// the two.
        OnPath = "on-path",
        /// Not at all: it is there, and no rank is on it.
        Host = "host",
    }
}

impl Mode {
    /// Ports and addresses of its own.
    pub fn has_ports(self) -> bool {
        matches!(self, Mode::OffPath | Mode::OnPath)
    }
}

/// `[processor.NAME]`: a processor beside the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auxiliary {
    /// Its name.
    pub name: String,
    /// What it is.
    pub processor: Processor,
    /// What it takes, whatever it does.
    pub idle: Power,
    /// The bus that it hangs on; empty: none.
    pub bus: String,
    /// Between two ranks on it.
    pub intra: Link,
    /// How it meets the network.
    pub mode: Mode,
    /// Between it and the NIC of its own ports, one way.
    pub pcie: SimTime,
}

/// `[bus.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Its name.
    pub name: String,
    /// The processor or the bus that it hangs on.
    pub on: String,
    /// From one end to the other.
    pub link: Link,
}

keys! {
    /// `[node]` and the node's part of `[power]`: nodes that are alike.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Node {
        /// Number of nodes; `--nodes` overrides it.
        pub count: u32, in 1..=NODES_MAX;
        /// A node with ranks, whatever it does (docs/power.md).
        pub power: Power = "0 W", at "power.node";
        /// The memory of a node with ranks, whatever it does.
        pub memory: Power = "0 W", at "power.memory";
        /// Processors of a node in addition to the host's, `[processor.NAME]` each.
        pub processors: Vec<String> = [];
        /// The networks that a node joins, of `machine.fabrics`; none: all of them.
        pub fabrics: Vec<String> = [];
        /// The networks between which a node passes messages on (docs/gateways.md); none: it is no gateway.
        pub gateway: Vec<String> = [];
        /// Host names: `{}` is the node index, `{:03}` with three digits.
        pub host_name: HostPattern = "node{:03}";
        /// The processor of the host.
        pub host: Processor => "";
    }
}

keys! {
    /// A processor: of the host in `[node]`, `[software]` and `[power]`, another one in `[processor.NAME]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Processor {
        /// Cores of the processor: the most ranks that it takes.
        pub cores: u32, in 1..=1 << 16;
        /// How many times as fast a core computes as the one on which computing time was measured.
        pub speed: Speed = 1;
        /// The core, for `--compute cycles`.
        pub core: CoreModel => "core";
        /// Costs of the MPI software on a core.
        pub software: Software => ".software";
        /// What it takes.
        pub power: ProcessorPower => ".power";
    }
}

keys! {
    /// `[power]`: a processor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ProcessorPower {
        /// More for a core while its rank computes.
        pub core: Power = "0 W";
        /// More for a core while its rank is in MPI, where libraries poll.
        pub waiting: Power = "0 W";
        /// More for an accelerator: while a rank of a replay computes beside its core.
        pub accelerator: Power = "0 W";
    }
}

keys! {
    /// `[software]`: what the MPI library and its transport cost a core.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Software {
        /// CPU time of an operation handed to the transport, from the MPI call on.
        pub post: SimTime;
        /// CPU time of a completion, up to the MPI request.
        pub completion: SimTime;
        /// CPU time of a look at the completion queue that finds nothing; no look is free, so that a loop of them comes
        /// to its end.
        pub poll: SimTime, in SimTime::from_ns(1)..;
        /// Copies inside a process.
        pub copy_bandwidth: ByteRate;
        /// Replay: CPU time of combining what came with what is there, in each step of a reduction (live programs do it
        /// themselves).
        pub reduce: SimTime = "0 ns";
        /// Replay: CPU time of combining each 1,024 bytes, in addition to `reduce`.
        pub reduce_per_kib: SimTime = "0 ns";
        /// CPU time of reading a clock (`MPI_Wtime`).
        pub clock_read: SimTime, in SimTime::from_ns(1)..;
    }
}

/// How many times as fast a core computes as the one on which computing time was measured. In millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(pub u64);

impl Speed {
    /// As fast.
    pub const ONE: Speed = Speed(1_000_000);

    /// As a number.
    pub fn factor(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Field for Speed {
    fn blank() -> Speed {
        Speed::ONE
    }
    fn expected(&self, _: Limits) -> String {
        "expected a number, such as 0.5".to_owned()
    }
    fn reference(&self, _: Limits) -> String {
        "number, above 0".to_owned()
    }
    fn set(&mut self, value: &Value, limits: Limits) -> Result<(), Problem> {
        let number = number(value, &self.expected(limits))?;
        if !(1e-3..=1e6).contains(&number) {
            return Err(Problem::new(format!("{number} is out of range"), "expected 0.001 to 1000000"));
        }
        *self = Speed((number * 1e6).round() as u64);
        Ok(())
    }
    fn get(&self) -> Value {
        match self.0.is_multiple_of(1_000_000) {
            true => Value::Integer(i64::try_from(self.0 / 1_000_000).ok()),
            false => Value::Decimal(self.factor().to_string()),
        }
    }
}
