//! What a file says of a model: each configuration has its keys, their units, limits, defaults and meaning beside its
//! numbers. Models depend on this crate; `narrows_machine` composes their keys, reads files and reports.
//!
//! | module | what it does |
//! |---|---|
//! | `key` | [`Key`], [`Keys`], and [`keys!`], which declares a configuration with its keys |
//! | `field` | [`Field`]: what a type takes, in words; quantities, lists, [`choice!`] |
//! | `value` | [`Value`]: what a file gives |
//! | `quantity` | quantities to text, exactly |
//! | `diagnostic` | [`Diagnostic`]: what is wrong, where in a text, and what was expected |

#![forbid(unsafe_code)]

mod diagnostic;
mod field;
mod key;
pub mod quantity;
mod value;

pub use diagnostic::{Diagnostic, nearest};
pub use field::{Choice, Field, Limits, OrWord, Problem, Quantity, number, quoted};
pub use field::{POWER_MAX, RATE_MAX, RATE_MIN, SIZE_MAX, TIME_MAX};
pub use key::{Key, Keys, Only, below};
pub use value::Value;
