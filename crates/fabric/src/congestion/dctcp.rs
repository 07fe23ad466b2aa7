//! DCTCP ([`Dctcp`]). Links do nothing for it but mark ([`super::Ecn`]).

use super::Numbers;
use narrows_keys::keys;
use narrows_units::Fraction;

keys! {
    /// DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257). Switches must mark:
    /// [`NetworkConfig::ecn`](crate::NetworkConfig).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Dctcp {
        /// With `dctcp`: g, how fast alpha, half of which a cut takes, follows the part of the bytes that is marked.
        pub gain: Fraction = 0.0625, in ..=1_000_000;
    }
}

impl Numbers for Dctcp {
    fn needs_marks(&self) -> bool {
        true
    }
}
