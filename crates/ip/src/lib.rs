//! IP over the networks of [`narrows_sim`]: an Ethernet device for each node, as software above its NIC, with a program
//! at each end of a flow (docs/ip.md).
//!
//! * [`Flow`] — pings, streams, datagrams from host to host; [`Setup`] and [`run`] — a network with hosts;
//!   [`Report`] — what came out.
//! * [`device`] — the device of a node as a state machine: rings, the kernel's cores, the tunnel; `core` — one of its
//!   cores; `host` — a host with programs above it; `flow` — the two ends of a flow.
//! * [`Pattern`] — flows as users write them.
//! * `gateway` — the way to hosts on an Ethernet.
//! * `nodes` — the hosts of a region, as processes above their NICs.
//!
//! ```
//! use narrows_ip::{Flow, FlowKind, Setup};
//! use narrows_machine::{Machine, Overrides};
//! use narrows_sim::Hardware;
//! use narrows_units::{Bytes, SimTime};
//!
//! let machine = Machine::load("bxi-v2", &Overrides { nodes: Some(4), set: vec![] }).unwrap();
//! let config = machine.network_config(1);
//! let kind = FlowKind::Ping { bytes: Bytes(56), count: 10, interval: SimTime::from_us(1000) };
//! let setup = Setup {
//!     hardware: Hardware::new(&config, machine.topology().unwrap(), machine.nic_config()),
//!     ip: machine.ip,
//!     flows: vec![Flow { from: 0, to: 3, kind }],
//!     seed: 1,
//!     warmup: SimTime::ZERO,
//!     time: None,
//!     threads: 1,
//!     whole: false,
//! };
//! let report = narrows_ip::run(setup, &mut |_| true).unwrap();
//! assert_eq!(report.flows[0].counts.received, 10);
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod core;
pub mod device;
mod error;
mod flow;
mod gateway;
mod host;
mod nodes;
pub mod pattern;
mod simulation;

pub use self::core::Wake;
pub use error::IpError;
pub use flow::{Counts, Flow, FlowKind};
pub use host::CpuTimes;
pub use pattern::{Pattern, PatternError};
pub use simulation::{EPOCH, FlowReport, HostReport, Report, Setup, run};
