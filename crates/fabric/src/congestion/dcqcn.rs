//! DCQCN ([`Dcqcn`]). Links do nothing for it but mark ([`super::Ecn`]).

use super::{Numbers, check_period, refuse};
use crate::config::{ConfigError, NetworkConfig};
use narrows_keys::keys;
use narrows_topology::Topology;
use narrows_units::{Bytes, Fraction, SimTime};

keys! {
    /// DCQCN (Zhu et al., SIGCOMM 2015). Switches must mark: [`NetworkConfig::ecn`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Dcqcn {
        /// With `dcqcn`: a target tells of marks at most once in this time.
        pub interval: SimTime = "50 us";
        /// A congestion notification packet on the wire, with preamble and gap.
        pub packet: Bytes = "84 B", in Bytes(1)..;
        /// g: how fast alpha, half of which a cut takes, follows the marks.
        pub gain: Fraction = 0.003906, in ..=1_000_000;
        /// Without a notification for this time alpha goes down.
        pub alpha_timer: SimTime = "55 us", in SimTime::from_ns(100)..;
        /// T: the rate goes up after this time.
        pub increase_timer: SimTime = "55 us", in SimTime::from_ns(100)..;
        /// B: the rate also goes up after this many bytes.
        pub byte_counter: Bytes = "10 MB", in Bytes(1)..;
        /// R_AI: increase after fast recovery, as a part of the link's rate; 0.001 are 40 Mbit/s at 40 Gbit/s.
        pub additive_increase: Fraction = 0.001, in ..=1_000_000;
        /// Increase when both timer and counter are beyond fast recovery, as a part of the link's rate.
        pub hyper_increase: Fraction = 0.01, in ..=1_000_000;
    }
}

impl Numbers for Dcqcn {
    fn control_packet(&self) -> Option<Bytes> {
        Some(self.packet)
    }

    fn needs_marks(&self) -> bool {
        true
    }

    fn check(&self, network: &NetworkConfig, _: &Topology) -> Result<(), ConfigError> {
        network.fits_a_packet("dcqcn packet", self.packet)?;
        check_period("dcqcn alpha_timer", self.alpha_timer)?;
        check_period("dcqcn increase_timer", self.increase_timer)?;
        if self.byte_counter < network.packet() {
            return refuse("dcqcn byte_counter", self.byte_counter.to_string(), "at least a full packet");
        }
        Ok(())
    }
}
