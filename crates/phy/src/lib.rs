//! 100GBASE-R to the bit (IEEE 802.3 clauses 81, 82, 91), as in 100GBASE-SR4: from Ethernet frames to four lanes of
//! 25.78125 Gb/s and back. It needs nothing of the simulator, has no clock, and takes its random bits from its caller.
//!
//! In the order of sending:
//!
//! * [`mac`] — frames: padding, FCS, gaps with the deficit idle count, flow control; to [`column`]s of 8 octets.
//! * [`coding`] — 64b/66b, scrambler.
//! * [`pcs`] — 20 lanes with [`marker`]s; [`pcs::Collector`] puts lanes with skew, in any order, side by side again.
//! * [`transcode`] — 256b/257b.
//! * [`reed_solomon`] — RS(528,514): errors and erasures.
//! * [`fec`] — markers and codewords on four lanes; finds them again.
//! * [`channel`] — bit errors.
//! * [`link`] — all of them: [`link::Sender`], [`link::Receiver`].
//! * [`stages`] — latency and overhead of each.
//! * [`loss`] — what is lost at a bit error rate; [`study`] — the same, sent and counted.
//!
//! ```
//! use narrows_phy::link::{Receiver, Sender};
//! use narrows_phy::mac::Received;
//! use narrows_phy::pcs::Distance;
//!
//! // Markers every 16 codewords rather than every 4096, so that the lanes are found soon.
//! let (mut sender, mut receiver) = (Sender::new(Distance::rows(64)), Receiver::new(Distance::rows(64), false));
//! let mut lanes = Default::default();
//! sender.idle(20 * 64 * 2, &mut lanes);
//! sender.send(b"to....from..\x88\xb5 hello", &mut lanes);
//! sender.idle(20 * 64, &mut lanes);
//! // Lane 0 arrives where lane 1 should, and 100 bits late.
//! receiver.wire(1).push(0, 50);
//! receiver.wire(1).push(0, 50);
//! for (number, wire) in [(0, 1), (1, 0), (2, 2), (3, 3)] {
//!     receiver.wire(wire).append(&lanes[number]);
//! }
//! let mut received = Vec::new();
//! receiver.receive(|frame| {
//!     if let Received::Frame(data) = frame {
//!         received.push(data.to_vec());
//!     }
//! });
//! assert!(received[0].starts_with(b"to....from..\x88\xb5 hello\0\0"));
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod align;
mod bits;
pub mod channel;
pub mod coding;
pub mod column;
mod crc;
pub mod fec;
pub mod link;
pub mod loss;
pub mod mac;
pub mod marker;
pub mod pcs;
pub mod reed_solomon;
pub mod stages;
pub mod study;
pub mod transcode;

pub use bits::Bits;
pub use crc::crc32;
