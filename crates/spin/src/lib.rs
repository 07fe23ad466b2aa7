//! PsPIN: a NIC that computes on packets as they pass, cycle by cycle. Packets and time in, actions out.
//!
//! | module | what |
//! |---|---|
//! | `machine` | [`Machine`]: queues, clusters, commands; [`Out`], what it asks of its surroundings |
//! | `hpu` | RV32IMAC with the cycles of RI5CY, in the memory of one context; [`Fault`] |
//! | `decode` | instructions, decoded once |
//! | `program` | [`Program`]: handlers from an ELF file |
//! | `config` | [`SpinConfig`]: sizes, limits and rates, with presets |
//! | `ring` | memory for packets |
//! | `load` | [`Load`]: packets at a rate, and what became of them |
//! | `layout` | [`Layout`]: an MPI datatype, as blocks of bytes |
//! | `rule` | [`Rule`]: which messages go through which handlers |
//! | `port` | [`SpinPort`]: a machine at the port of a NIC |
//! | `report` | [`HandlerReport`]: what handlers have done |
//!
//! ```
//! use narrows_spin::{Action, Cost, Handlers, Load, SpinConfig};
//! use narrows_units::Bytes;
//!
//! let config = SpinConfig::preset("pspin-asic").expect("a preset");
//! let handlers = Handlers::Cost(Cost { fixed: 9, per_byte: 0, per_word: 0, header: 0, action: Action::Drop });
//! let alone = Load { packets: 1, ..Load::new(Bytes(64)) }.run(&config, &handlers, || true)?;
//! // To the request 5, then 27 to its feedback.
//! assert_eq!(alone.latency_ns(), 5.0 + 27.0);
//! # Ok::<(), narrows_spin::SpinError>(())
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod config;
mod decode;
mod hpu;
mod layout;
mod load;
mod machine;
mod port;
mod program;
mod report;
mod ring;
mod rule;

pub use config::SpinConfig;
pub use hpu::Fault;
pub use layout::{Layout, Piece};
pub use load::{Load, Outcome};
pub use machine::{Action, Command, CommandKind, Context, Cost, Failure, Handler, Handlers, Machine, Out, Packet, Ran, Refused, SpinError};
pub use port::{Answer, Arriving, Bus, Failed, Finished, HandlersConfig, Host, Posted, Sight, SpinPort, Wanted};
pub use program::{NAMES, Program, ProgramError, TEXT_MAX};
pub use report::{HandlerReport, SpinTotals};
pub use rule::{DERIVED, ReceiveCondition, Rule, RuleError, TAG_MASK};
