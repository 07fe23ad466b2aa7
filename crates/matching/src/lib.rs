//! The semantics of Portals 4 without time: portal tables, lists, matching, unexpected headers, full and counting
//! events, triggered operations. A NIC that matches and a library that does it in software are built on it.
//!
//! | module | what |
//! |---|---|
//! | `interface` | [`Interface`], what a process has in its NIC: what arrives, in `entries` appends, searches and unlinks, in `held` what waits for room |
//! | `list` | [`MatchList`]: ordered lists with matching, walked or hashed |
//! | `counters` | [`Counters`]: counting events and the triggered operations that wait for them |
//! | `declared` | [`Declared`]: what a process has allocated, checked when a command is written |
//! | `error` | [`CommandError`] |

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod counters;
mod declared;
mod error;
mod interface;
mod list;

pub use counters::{By, Counters};
pub use declared::Declared;
pub use error::CommandError;
pub use interface::{Arrival, Interface, Landing, MAX_PT_INDEX, Operation, RequestKind, Sink, Status, reply};
pub use list::{MatchList, Ordered};

/// Longest put or get (`PTL_SIZE_MAX`, portals4.md section 1: 2^48 - 1).
pub const MAX_LENGTH: u64 = (1 << 48) - 1;
