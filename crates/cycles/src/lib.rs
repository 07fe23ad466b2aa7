//! How many cycles a stretch of code takes on a core: instructions by class, dependencies between them, branches,
//! caches, memory. Pure state machines: instructions and addresses in, cycles out.
//!
//! | module | what |
//! |---|---|
//! | `core` | [`Core`]: the numbers of a core, in cycles; [`Class`] |
//! | `cores` | [`preset`]: named cores, each number with its source |
//! | `instruction` | [`Instruction`]: what the model knows of one |
//! | `decode` | from bytes of ARM64, RV64GC and x86-64 to it (feature `decode`) |
//! | `schedule` | [`cycles_of`]: a block of instructions that is repeated; [`chases`]: loads that wait for themselves |
//! | `branches` | [`Predictor`] |
//! | `caches` | [`Caches`]: levels of a core, and [`Pages`]: where in memory its pages are |
//! | `counter` | [`Count`]: what is counted, shared with the process that is simulated |
//! | `machine` | [`Running`]: all of that for one thread |
//!
//! ```
//! use narrows_cycles::{Class, Instruction, UNIT, cycles_of, preset};
//!
//! let core = preset("cortex-a53").expect("a preset");
//! let add = |to: u32| Instruction::of(Class::Integer).reads(8).writes(to);
//! // Two additions a cycle.
//! let block: Vec<Instruction> = (0..6).map(add).collect();
//! assert_eq!(cycles_of(&core, &block), 3 * UNIT);
//! ```

#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod branches;
mod caches;
mod core;
mod cores;
mod counter;
#[cfg(feature = "decode")]
pub mod decode;
mod instruction;
mod machine;
mod schedule;

pub use branches::Predictor;
pub use caches::{Access, Caches, Pages};
pub use core::{Class, Core, Cost, LEVELS, Level, UNIT};
pub use cores::{NAMES, preset};
pub use counter::{CALL, Count};
pub use instruction::{Block, End, Instruction};
pub use machine::{Known, Running};
pub use schedule::{chases, cycles_of};
