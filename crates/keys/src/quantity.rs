//! Quantities to text, exactly: what is written reads back as the same integer.

use narrows_units::{ByteRate, Bytes, Power, SimTime};

/// `value` in the largest of `units` that it reaches, as an exact decimal.
fn decimal(value: u64, units: &[(u64, &str)]) -> String {
    let (size, unit) = units.iter().copied().find(|&(size, _)| value >= size).unwrap_or(units[units.len() - 1]);
    let (whole, rest) = (value / size, value % size);
    if rest == 0 {
        return format!("{whole} {unit}");
    }
    // Sizes are powers of ten, so the fraction has as many digits as the size has zeros.
    let digits = size.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{} {unit}", fraction.trim_end_matches('0'))
}

/// `"1.2 us"`
pub fn time(value: SimTime) -> String {
    if value == SimTime::ZERO {
        return "0 ns".to_owned();
    }
    decimal(value.0, &[(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns"), (1, "ps")])
}

/// `"9 KiB"`
pub fn size(value: Bytes) -> String {
    value.to_string()
}

/// `"11.1 GB/s"`
pub fn rate(value: ByteRate) -> String {
    decimal(value.0, &[(1_000_000_000_000, "TB/s"), (1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "kB/s"), (1, "B/s")])
}

/// `"16.2 W"`
pub fn power(value: Power) -> String {
    if value == Power(0) {
        return "0 W".to_owned();
    }
    decimal(value.0, &[(1_000_000_000, "kW"), (1_000_000, "W"), (1_000, "mW"), (1, "uW")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{POWER_MAX, RATE_MAX, SIZE_MAX, TIME_MAX};
    use proptest::prelude::*;

    #[test]
    fn reads_as_people_write() {
        assert_eq!(time(SimTime(200_000)), "200 ns");
        assert_eq!(time(SimTime(1_234_567)), "1.234567 us");
        assert_eq!(time(SimTime(1)), "1 ps");
        assert_eq!(rate(ByteRate(15_750_000_000)), "15.75 GB/s");
        assert_eq!(rate(ByteRate(999)), "999 B/s");
        assert_eq!(power(Power(16_200_000)), "16.2 W");
    }

    proptest! {
        #[test]
        fn comes_back_exactly(t in 0..=TIME_MAX.0, b in 0..=SIZE_MAX.0, r in 1..=RATE_MAX.0, w in 0..=POWER_MAX.0) {
            prop_assert_eq!(time(SimTime(t)).parse(), Ok(SimTime(t)));
            prop_assert_eq!(size(Bytes(b)).parse(), Ok(Bytes(b)));
            prop_assert_eq!(rate(ByteRate(r)).parse(), Ok(ByteRate(r)));
            prop_assert_eq!(power(Power(w)).parse(), Ok(Power(w)));
        }
    }
}
