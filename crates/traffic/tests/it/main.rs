//! The integration tests, in one program: what a file tests stands at its head.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod closed_forms;
mod handlers;
mod processes;
