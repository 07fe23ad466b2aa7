//! The integration tests, in one program: what a file tests stands at its head.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod gateways;
mod ip;
mod keys;
mod machine;
mod output;
mod phy;
mod python;
mod replay;
mod reproduce;
mod resources;
mod shell;
mod spin;
mod topology;
mod trace;
mod traffic;
