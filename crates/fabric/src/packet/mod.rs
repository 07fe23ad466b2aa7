//! The packet network: switches, virtual channels, finite buffers with credits or pauses.
//!
//! **A lane** is one virtual channel of one virtual network on one link. Its credits are the free bytes of the input
//! buffer at the far end. A packet starts only with credits for all of it (virtual cut-through), holds its link for its
//! time on the wire, and its head is at the next switch after the latency of the link. There it is routed after the
//! switch latency (store-and-forward: when all of it is there) and queues, within the lane of its output, behind the
//! packets of the same input (virtual output queues: a buffer has no head of line; [`front`] has the other kind). An
//! idle output chooses among the lanes that have packets and credits ([`arbiter`]), and within a lane takes the inputs
//! in turn.
//!
//! **Credits** go back when the tail of the packet has left the buffer, and take the latency of the link. At the target
//! NIC that is when the packet is through the PCIe, so a slow PCIe holds up the network. Nothing is ever lost. In place
//! of credits there can be pause frames ([`pause`]), and then things can be lost.
//!
//! One event per link and packet when the output is idle, two when it is not: a credit's return is a time stamp in a
//! list that is read when credits are short, and an event only when somebody waits for it. The link to the target makes
//! no event at all for the packets in the middle of a message (one with pauses).
//!
//! **Crossbars** whose inputs send one packet at a time can be matched as a whole ([`matching`]).
//!
//! **Congestion.** Where [`crate::Ecn`] says so switches mark packets ([`marks`]). What else congestion controls do at
//! links is in [`crate::congestion`]; what they write into packets is kept beside these ([`carried`]).
//!
//! **Multicast.** Switches copy packets along a tree ([`copies`]).
//!
//! **Trains.** Long messages alone on their way take a few events each, not some for each packet ([`train`]).
//!
//! **Regions.** The network is cut into regions ([`layout`]), which share nothing but what they send each other;
//! [`crate::parallel`] runs them side by side.

mod ahead;
mod arbiter;
mod carried;
mod copies;
mod crossbar;
mod front;
mod inject;
pub(crate) mod layout;
mod marks;
mod matching;
mod pause;
pub(crate) mod region;
mod returns;
pub(crate) mod state;
pub(crate) mod train;

pub use region::AuditError;
