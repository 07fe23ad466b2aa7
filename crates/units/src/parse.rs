//! Quantities from text: a number, then a unit.
//!
//! Times: `ps ns us ms s`. Sizes: `B kB MB GB TB` (powers of 1,000) and `KiB MiB GiB TiB`
//! (powers of 1,024). Rates: any size unit, or `bit kbit Mbit Gbit Tbit`, followed by `/s`. Power: `uW mW W kW`.

use crate::{ByteRate, Bytes, PS_PER_S, Power, SimTime};
use std::str::FromStr;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number in front of the unit.
    #[error("expected a number and a unit, such as \"{example}\"; found \"{text}\"")]
    NoNumber {
        /// What was read.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The unit is missing or unknown.
    #[error("unknown unit \"{unit}\" in \"{text}\"; expected one of {expected}")]
    Unit {
        /// What was read.
        text: String,
        /// Its unit.
        unit: String,
        /// The units that fit.
        expected: &'static str,
    },
    /// Negative, not finite, or more than the type holds.
    #[error("\"{text}\" is out of range")]
    Range {
        /// What was read.
        text: String,
    },
}

fn split<'a>(text: &'a str, example: &'static str) -> Result<(f64, &'a str), QuantityError> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|&(at, c)| {
            let exponent = (c == 'e' || c == 'E') && text[at + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-');
            !(c.is_ascii_digit() || c == '.' || c == '_' || c == '-' || c == '+' || exponent)
        })
        .map_or(text.len(), |(at, _)| at);
    let number = text[..end].replace('_', "");
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok((value, text[end..].trim())),
        Ok(_) => Err(QuantityError::Range { text: text.to_owned() }),
        Err(_) => Err(QuantityError::NoNumber { text: text.to_owned(), example }),
    }
}

fn scaled(text: &str, value: f64, scale: f64) -> Result<u64, QuantityError> {
    let result = (value * scale).round();
    if result >= u64::MAX as f64 {
        return Err(QuantityError::Range { text: text.to_owned() });
    }
    Ok(result as u64)
}

fn size_scale(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

impl FromStr for SimTime {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<SimTime, QuantityError> {
        let (value, unit) = split(text, "250 ns")?;
        let scale = match unit {
            "ps" => 1.0,
            "ns" => 1e3,
            "us" | "µs" => 1e6,
            "ms" => 1e9,
            "s" => PS_PER_S as f64,
            _ => {
                return Err(QuantityError::Unit { text: text.to_owned(), unit: unit.to_owned(), expected: "ps, ns, us, ms, s" });
            }
        };
        Ok(SimTime(scaled(text, value, scale)?))
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Bytes, QuantityError> {
        let (value, unit) = split(text, "9 KiB")?;
        let scale = size_scale(unit).ok_or_else(|| QuantityError::Unit {
            text: text.to_owned(),
            unit: unit.to_owned(),
            expected: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
        })?;
        Ok(Bytes(scaled(text, value, scale)?))
    }
}

impl FromStr for ByteRate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<ByteRate, QuantityError> {
        let (value, unit) = split(text, "100 Gbit/s")?;
        let error =
            || QuantityError::Unit { text: text.to_owned(), unit: unit.to_owned(), expected: "a size and /s, such as GB/s, MiB/s, Gbit/s" };
        let size = unit.strip_suffix("/s").ok_or_else(error)?;
        let scale = match size {
            "bit" => 1.0 / 8.0,
            "kbit" => 1e3 / 8.0,
            "Mbit" => 1e6 / 8.0,
            "Gbit" | "Gb" => 1e9 / 8.0,
            "Tbit" => 1e12 / 8.0,
            _ => size_scale(size).ok_or_else(error)?,
        };
        Ok(ByteRate(scaled(text, value, scale)?))
    }
}

impl FromStr for Power {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Power, QuantityError> {
        let (value, unit) = split(text, "16.2 W")?;
        let scale = match unit {
            "uW" | "µW" => 1.0,
            "mW" => 1e3,
            "W" => 1e6,
            "kW" => 1e9,
            _ => {
                return Err(QuantityError::Unit { text: text.to_owned(), unit: unit.to_owned(), expected: "uW, mW, W, kW" });
            }
        };
        Ok(Power(scaled(text, value, scale)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_unit() {
        assert_eq!("0.25us".parse(), Ok(SimTime::from_ns(250)));
        assert_eq!("1e3 ns".parse(), Ok(SimTime::from_us(1)));
        assert_eq!("64 MiB".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("11.1 GB/s".parse(), Ok(ByteRate(11_100_000_000)));
        assert_eq!("25 Gbit/s".parse(), Ok(ByteRate(3_125_000_000)));
        assert_eq!("16.2 W".parse(), Ok(Power(16_200_000)));
        assert_eq!("0.25 mW".parse(), Ok(Power(250)));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(matches!("ns".parse::<SimTime>(), Err(QuantityError::NoNumber { .. })));
        assert!(matches!("3 ns".parse::<Bytes>(), Err(QuantityError::Unit { .. })));
        assert!(matches!("-3 ns".parse::<SimTime>(), Err(QuantityError::Range { .. })));
        assert!(matches!("1e99 s".parse::<SimTime>(), Err(QuantityError::Range { .. })));
        assert!(matches!("3 GB".parse::<ByteRate>(), Err(QuantityError::Unit { .. })));
        assert!(matches!("3 J".parse::<Power>(), Err(QuantityError::Unit { .. })));
        assert!(matches!("e".parse::<ByteRate>(), Err(QuantityError::NoNumber { .. })));
    }
}
