//! The integration tests, in one program: what a file tests stands at its head.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod apenetx;
mod bridge;
mod carvnet;
mod chaos;
mod common;
mod errors;
mod exanet;
mod exanet_reference;
mod items;
mod mailbox;
mod operations;
mod reference;
mod retry;
mod tcp;
mod timing;
mod waiting_search;
