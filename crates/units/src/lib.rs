//! Quantities and places of the simulated machine, as types.
//!
//! | type | holds | unit |
//! |---|---|---|
//! | [`SimTime`] | an instant or a duration of simulated time | picoseconds, `u64` (213 days) |
//! | [`Bytes`] | a size | bytes, `u64` |
//! | [`ByteRate`] | a bandwidth | bytes per second, `u64` |
//! | [`Power`] | what a part takes | microwatts, `u64` |
//! | [`NodeId`], [`ProcessorId`], [`PortId`], [`Rail`] | places of the machine | index from 0 |
//!
//! [`parse`] reads them from text with units (`"250 ns"`, `"9 KiB"`, `"100 Gbit/s"`); [`show`] writes sizes and counts
//! for people. What users give is added and multiplied by the checked operations, which say [`Excess`] where a
//! simulation holds no more.
//!
//! ```
//! use narrows_units::{ByteRate, Bytes, SimTime};
//! let link: ByteRate = "100 Gbit/s".parse().unwrap();
//! assert_eq!(link.time_for(Bytes(12_500)), SimTime::from_ns(1_000));
//! assert_eq!("9 KiB".parse::<Bytes>().unwrap(), Bytes(9 * 1024));
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod parse;
mod place;
pub mod show;

pub use place::{NodeId, PortId, ProcessorId, Rail};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Picoseconds in one nanosecond.
pub const PS_PER_NS: u64 = 1_000;
/// Picoseconds in one second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// A sum or a product of quantities that a user gave is beyond what a simulation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Of times.
    #[error("the times add up to more than 200 days, where simulated time ends")]
    Time,
    /// Of a message or of one rank's part in a collective.
    #[error("more than {} bytes, the most that a message or a rank's part in a collective may have", Bytes::MESSAGE_MAX.0)]
    Message,
    /// Of all messages together.
    #[error("the messages add up to more than 2^64 bytes")]
    Bytes,
}

/// An instant or a duration of simulated time, in integer picoseconds.
///
/// Additions saturate at [`SimTime::MAX`], which means "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SimTime(pub u64);

impl SimTime {
    /// The start of a run; also the empty duration.
    pub const ZERO: SimTime = SimTime(0);
    /// "Never".
    pub const MAX: SimTime = SimTime(u64::MAX);
    /// The last instant of a simulation: 200 days. What is left up to 2^64 ps (13 days) is room for what a model adds
    /// to "now".
    pub const END: SimTime = SimTime(200 * 86_400 * PS_PER_S);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> SimTime {
        SimTime(ns.saturating_mul(PS_PER_NS))
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> SimTime {
        SimTime(us.saturating_mul(1_000 * PS_PER_NS))
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds, for printing.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / PS_PER_NS as f64
    }

    /// Seconds, for printing.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// The sum, for times that a user gave.
    ///
    /// # Errors
    /// It lies beyond [`SimTime::END`].
    pub fn checked_add(self, other: SimTime) -> Result<SimTime, Excess> {
        self.0.checked_add(other.0).map(SimTime).filter(|sum| *sum <= SimTime::END).ok_or(Excess::Time)
    }

    /// The product, rounded, for times and factors that a user gave.
    ///
    /// # Errors
    /// It lies beyond [`SimTime::END`], or the factor is negative or no number.
    pub fn scaled(self, factor: f64) -> Result<SimTime, Excess> {
        let product = if factor == 1.0 { self } else { SimTime((self.0 as f64 * factor).round() as u64) };
        if product <= SimTime::END && factor >= 0.0 { Ok(product) } else { Err(Excess::Time) }
    }

    /// `self - earlier`, or zero when `earlier` is later.
    pub const fn saturating_sub(self, earlier: SimTime) -> SimTime {
        SimTime(self.0.saturating_sub(earlier.0))
    }
}

impl Add for SimTime {
    type Output = SimTime;
    fn add(self, other: SimTime) -> SimTime {
        SimTime(self.0.saturating_add(other.0))
    }
}

impl AddAssign for SimTime {
    fn add_assign(&mut self, other: SimTime) {
        *self = *self + other;
    }
}

impl Sub for SimTime {
    type Output = SimTime;
    fn sub(self, other: SimTime) -> SimTime {
        SimTime(self.0 - other.0)
    }
}

impl SubAssign for SimTime {
    fn sub_assign(&mut self, other: SimTime) {
        *self = *self - other;
    }
}

impl Mul<u64> for SimTime {
    type Output = SimTime;
    fn mul(self, times: u64) -> SimTime {
        SimTime(self.0.saturating_mul(times))
    }
}

impl Div<u64> for SimTime {
    type Output = SimTime;
    fn div(self, by: u64) -> SimTime {
        SimTime(self.0 / by)
    }
}

impl fmt::Debug for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints with the unit that keeps three to six significant digits: `1.2 us`.
impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0 as f64;
        if *self == SimTime::MAX {
            return f.write_str("never");
        }
        let (value, unit) = match self.0 {
            0..1_000 => (ps, "ps"),
            1_000..1_000_000 => (ps / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (ps / 1e9, "ms"),
            _ => (ps / 1e12, "s"),
        };
        let text = format!("{value:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text} {unit}")
    }
}

/// A size in bytes.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The longest message, and the most that a rank has in one collective: 256 TiB, far beyond any memory and small
    /// enough for sums.
    pub const MESSAGE_MAX: Bytes = Bytes(1 << 48);

    /// The product, for a message that consists of `parts` of this size.
    ///
    /// # Errors
    /// It is more than [`Bytes::MESSAGE_MAX`].
    pub fn checked_mul(self, parts: u64) -> Result<Bytes, Excess> {
        self.0.checked_mul(parts).map(Bytes).filter(|product| *product <= Bytes::MESSAGE_MAX).ok_or(Excess::Message)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (size, unit) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A bandwidth in bytes per second. Never zero in a resolved machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ByteRate(pub u64);

impl ByteRate {
    /// The time that `bytes` need at this rate, rounded up to a picosecond;
    /// [`SimTime::MAX`] at rate zero.
    #[inline]
    pub const fn time_for(self, bytes: Bytes) -> SimTime {
        if self.0 == 0 {
            return SimTime::MAX;
        }
        // Up to 18.4 MB the product fits 64 bits: no 128-bit division on the hot path.
        if bytes.0 < u64::MAX / PS_PER_S {
            return SimTime((bytes.0 * PS_PER_S).div_ceil(self.0));
        }
        let ps = (bytes.0 as u128 * PS_PER_S as u128).div_ceil(self.0 as u128);
        if ps > u64::MAX as u128 { SimTime::MAX } else { SimTime(ps as u64) }
    }

    /// Bytes per second, for printing and for the flow model's solver.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl fmt::Debug for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "kB/s")];
        for (size, unit) in UNITS {
            if self.0 >= size {
                let text = format!("{:.6}", self.0 as f64 / size as f64);
                return write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'));
            }
        }
        write!(f, "{} B/s", self.0)
    }
}

/// Power, in microwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Power(pub u64);

impl Power {
    /// Energy over a time, in microwatts times picoseconds: 10^-18 J.
    pub const fn over(self, time: SimTime) -> u128 {
        self.0 as u128 * time.0 as u128
    }
}

/// A part of one, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fraction(pub u32);

impl Fraction {
    /// From 0 to 1.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// That part of something.
    #[inline]
    pub fn of(self, value: u64) -> u64 {
        (u128::from(value) * u128::from(self.0) / 1_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_for_agrees_with_the_wide_division_around_the_switch() {
        let rate = ByteRate(11_100_000_000);
        for bytes in [0, 1, 63, 64, 4096, u64::MAX / PS_PER_S - 1, u64::MAX / PS_PER_S, 1 << 40] {
            let wide = (bytes as u128 * PS_PER_S as u128).div_ceil(rate.0 as u128);
            assert_eq!(rate.time_for(Bytes(bytes)).0 as u128, wide, "{bytes} B");
        }
    }

    #[test]
    fn sums_and_products_of_what_users_give_are_checked() {
        let day = SimTime(86_400 * PS_PER_S);
        assert_eq!((day * 199).checked_add(day), Ok(SimTime::END));
        assert_eq!((day * 199).checked_add(day + SimTime(1)), Err(Excess::Time));
        assert_eq!(SimTime::END.checked_add(SimTime::MAX), Err(Excess::Time));
        assert_eq!(day.scaled(200.0), Ok(SimTime::END));
        for factor in [201.0, f64::INFINITY, -1.0, f64::NAN] {
            assert_eq!(day.scaled(factor), Err(Excess::Time), "{factor}");
        }
        assert_eq!(Bytes(1 << 24).checked_mul(1 << 24), Ok(Bytes::MESSAGE_MAX));
        for (bytes, parts) in [((1 << 24) + 1, 1 << 24), (u64::MAX, 2)] {
            assert_eq!(Bytes(bytes).checked_mul(parts), Err(Excess::Message), "{bytes} x {parts}");
        }
    }

    #[test]
    fn display_reads_as_people_write() {
        assert_eq!(SimTime::from_ns(1_200).to_string(), "1.2 us");
        assert_eq!(Bytes(9 * 1024).to_string(), "9 KiB");
        assert_eq!(ByteRate(11_100_000_000).to_string(), "11.1 GB/s");
    }
}
