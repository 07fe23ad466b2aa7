//! Numbers for people: three digits or so, in the unit that fits. Never for files that are read again.

use crate::SimTime;

/// A size: `8 B`, `1.88 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [(f64, &str); 5] =
        [((1u64 << 50) as f64, "PiB"), ((1u64 << 40) as f64, "TiB"), ((1 << 30) as f64, "GiB"), ((1 << 20) as f64, "MiB"), (1024.0, "KiB")];
    in_unit(bytes as f64, &UNITS, "B")
}

/// A number of things, or of things in a second, without what they are: `12`, `12.3 k`, `4.56 M`.
pub fn count(value: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    in_unit(value, &UNITS, "")
}

/// The unit in which a time is a number of one to three digits before the point, and how many of it are a second.
pub fn time_unit(time: SimTime) -> (&'static str, f64) {
    match time.as_ps() {
        0..1_000_000 => ("ns", 1e9),
        1_000_000..1_000_000_000 => ("us", 1e6),
        1_000_000_000..1_000_000_000_000 => ("ms", 1e3),
        _ => ("s", 1.0),
    }
}

/// In the largest unit of which there is one, also after rounding to three digits.
fn in_unit(value: f64, units: &[(f64, &str)], plain: &str) -> String {
    let found = units.iter().find(|(unit, _)| value >= unit * 0.9995);
    let (value, unit) = found.map_or((value, plain), |(unit, name)| (value / unit, name));
    let text = match value.abs() {
        999.5.. => format!("{value:.0}"),
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if unit.is_empty() { text.to_owned() } else { format!("{text} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_in_the_unit_that_fits() {
        for (value, text) in [
            (0, "0 B"),
            (8, "8 B"),
            (1000, "1000 B"),
            (1024, "1 KiB"),
            (4120, "4.02 KiB"),
            (2_013_265_920, "1.88 GiB"),
            (1 << 48, "256 TiB"),
        ] {
            assert_eq!(size(value), text);
        }
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (3.0, "3"),
            (999.4, "999"),
            (999.6, "1 k"),
            (1234.0, "1.23 k"),
            (12_345.0, "12.3 k"),
            (600_000.0, "600 k"),
            (4.5e6, "4.5 M"),
        ] {
            assert_eq!(count(value), text);
        }
    }
}
