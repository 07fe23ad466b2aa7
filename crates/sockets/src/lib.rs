//! TCP/IP of a node as a state machine: sockets of its processes above its Ethernet device. Calls, packets and time in,
//! effects out ([`Node`]). The protocols are those of smoltcp, the device is that of [`narrows_ip::device`].
//!
//! * `node` — calls and their costs; `socket` — a socket as POSIX has it, over one or more of smoltcp; `stack` —
//!   smoltcp with one frame in and many out.

#![forbid(unsafe_code)]

mod node;
mod socket;
mod stack;

pub use node::{Effect, Event, Frame, Memory, Node};
pub use socket::Ready;
