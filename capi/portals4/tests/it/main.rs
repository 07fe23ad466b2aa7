//! The integration tests, in one program: what a file tests stands at its head.

mod header;
mod interface;
