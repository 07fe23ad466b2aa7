//! Quantities of the simulated machine, as types.
//!
//! | type | holds | unit |
//! |---|---|---|
//! | [`SimTime`] | an instant or a duration of simulated time | picoseconds, `u64` (213 days) |
//! | [`Bytes`] | a size | bytes, `u64` |
//! | [`ByteRate`] | a bandwidth | bytes per second, `u64` |
//!
//! [`parse`] reads them from text with units (`"250 ns"`, `"9 KiB"`, `"100 Gbit/s"`).
//!
//! ```
//! use narrows_units::{ByteRate, Bytes, SimTime};
//! let link: ByteRate = "100 Gbit/s".parse().unwrap();
//! assert_eq!(link.time_for(Bytes(12_500)), SimTime::from_ns(1_000));
//! assert_eq!("9 KiB".parse::<Bytes>().unwrap(), Bytes(9 * 1024));
//! ```

pub mod parse;

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Picoseconds in one nanosecond.
pub const PS_PER_NS: u64 = 1_000;
/// Picoseconds in one second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// An instant or a duration of simulated time, in integer picoseconds.
///
/// Additions saturate at [`SimTime::MAX`], which means "never".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(pub u64);

impl SimTime {
    /// The start of a run; also the empty duration.
    pub const ZERO: SimTime = SimTime(0);
    /// "Never".
    pub const MAX: SimTime = SimTime(u64::MAX);

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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    fn display_reads_as_people_write() {
        assert_eq!(SimTime::from_ns(1_200).to_string(), "1.2 us");
        assert_eq!(Bytes(9 * 1024).to_string(), "9 KiB");
        assert_eq!(ByteRate(11_100_000_000).to_string(), "11.1 GB/s");
    }
}
