//! The integration tests, in one program: what a file tests stands at its head.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod common;
mod contention;
mod multicast;
mod own_links;
mod properties;
mod regions;
mod switches;
mod topologies;
mod trains;
mod zero_load;
