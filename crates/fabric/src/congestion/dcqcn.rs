//! DCQCN ([`Dcqcn`]). Links do nothing for it but mark ([`super::Ecn`]).

use super::{Fraction, Numbers, check_period, refuse};
use crate::config::{ConfigError, NetworkConfig};
use narrows_topology::Topology;
use narrows_units::{Bytes, SimTime};

/// DCQCN (Zhu et al., SIGCOMM 2015). Switches must mark: [`NetworkConfig::ecn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// N: a target tells of marks at most once in this time (section 3.1).
    pub interval: SimTime,
    /// A congestion notification packet on the wire.
    pub packet: Bytes,
    /// g: of alpha.
    pub gain: Fraction,
    /// K: alpha goes down after this time without a notification.
    pub alpha_timer: SimTime,
    /// T: the rate goes up after this time,
    pub increase_timer: SimTime,
    /// B: and after so many bytes.
    pub byte_counter: Bytes,
    /// R_AI: behind fast recovery the target rate goes up by this part of the host's link,
    pub additive_increase: Fraction,
    /// and by this one when both timer and counter are behind it.
    pub hyper_increase: Fraction,
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
