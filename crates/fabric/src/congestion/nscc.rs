//! NSCC ([`Nscc`]). Links do nothing for it but mark ([`super::Ecn`]).

use super::{Numbers, check_round_trip};
use crate::config::{ConfigError, NetworkConfig};
use narrows_keys::keys;
use narrows_topology::Topology;
use narrows_units::SimTime;

keys! {
    /// NSCC (Ultra Ethernet Specification 1.0, section 3.6.13). Switches must mark: [`NetworkConfig::ecn`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Nscc {
        /// With `nscc`: from a packet to its acknowledgement through an empty network, at most.
        pub round_trip: SimTime = "5 us", in SimTime::from_ns(10)..;
        /// Delay above `round_trip` that is no sign of congestion.
        pub target: SimTime = "3.75 us", in SimTime::from_ns(10)..;
    }
}

impl Numbers for Nscc {
    fn needs_marks(&self) -> bool {
        true
    }

    fn check(&self, _: &NetworkConfig, _: &Topology) -> Result<(), ConfigError> {
        check_round_trip("nscc round_trip", self.round_trip)?;
        check_round_trip("nscc target", self.target)
    }
}
