//! Swift ([`Swift`]). Links do nothing for it.

use super::{Fraction, Numbers};
use narrows_units::SimTime;

/// Swift (Kumar et al., SIGCOMM 2020), of delays from port to port alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swift {
    /// The time from sending a packet to its acknowledgement that is no sign of congestion,
    pub base_target: SimTime,
    /// more for each link of the way,
    pub per_hop: SimTime,
    /// and up to this for small windows.
    pub flow_range: SimTime,
    /// Packets in a round trip, by which the window grows.
    pub additive_increase: Fraction,
    /// How much of the excess of the delay the window loses,
    pub beta: Fraction,
    /// and most of it at once.
    pub most_decrease: Fraction,
}

impl Numbers for Swift {}
