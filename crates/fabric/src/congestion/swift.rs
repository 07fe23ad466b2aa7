//! Swift ([`Swift`]). Links do nothing for it.

use super::Numbers;
use narrows_keys::keys;
use narrows_units::{Fraction, SimTime};

keys! {
    /// Swift (Kumar et al., SIGCOMM 2020), of delays from port to port alone.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Swift {
        /// With `swift`: the time until an acknowledgement that is no sign of congestion.
        pub base_target: SimTime = "5 us";
        /// With `swift`: added to `base_target` for each link of the path.
        pub per_hop: SimTime = "300 ns";
        /// With `swift`: at most this is added for windows of a few packets.
        pub flow_range: SimTime = "25 us";
        /// Packets by which the window grows in a round trip.
        pub additive_increase: Fraction = 1, in ..=1_000_000;
        /// How much of the excess of the delay the window loses.
        pub beta: Fraction = 0.8, in ..=1_000_000;
        /// The most that it loses at once.
        pub most_decrease: Fraction = 0.5, in ..=1_000_000;
    }
}

impl Numbers for Swift {}
