//! GOAL schedules of LogGOPSim: per rank a graph of send, recv and calc, as text and in the binary form of its
//! `txt2bin`.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//! l1: calc 5000
//! l2: send 100b to 1 tag 7 cpu 0 nic 0
//! l2 requires l1
//! }
//! rank 1 {
//! l1: recv 100b from 0 tag 7
//! }
//! ```
//!
//! `a requires b`: a starts after the end of b; `a irequires b`: after its start. `from -1` and `tag -1` match any;
//! `//` and `/* */` are comments; times are whole numbers, nanoseconds by convention. A rank is held in memory as a
//! whole while it is read or written, because a line may depend on any other of its rank.
//!
//! The binary form (little-endian): u64 4223; from here on offsets count: u32 ranks, u8 highest CPU, u8 highest NIC,
//! then per rank u64 begin and u64 end of its part. A part: u32 nodes, u32 roots (nodes without dependencies), u32 per
//! root, 39 bytes per node (u32 dependencies, u8 kind: 1 send, 2 recv, 3 calc, u32 peer, u64 bytes or time, u32 tag, u8
//! CPU, u8 NIC, u32 and u32: how many wait for its end and where their list begins, u32 and u32: the same for its
//! start), then u32 per entry of these lists.

mod binary;
mod node;
mod text;

pub use binary::{MAGIC, read as read_binary, write as write_binary};
pub use text::{read as read_text, write as write_text};

/// "Any" as a source or tag.
const ANY: u32 = u32::MAX;
