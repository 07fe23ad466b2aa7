//! Quantities as SimGrid writes them: `125MBps`, `10Gbps`, `50us`; numbers alone are bytes per second and seconds.

use super::super::ImportError;
use super::super::hostlist::shown;
use narrows_units::{ByteRate, PS_PER_S, SimTime};

/// Prefixes of bit and byte rates.
const PREFIXES: [(&str, f64); 10] = [
    ("", 1.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
    ("K", 1e3),
];
const TIMES: [(&str, f64); 8] =
    [("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("", 1.0), ("m", 60.0), ("h", 3600.0)];

pub(super) fn bandwidth(line: usize, text: &str) -> Result<ByteRate, ImportError> {
    let example = "125MBps or 1Gbps";
    let (number, unit) = split(line, text, example)?;
    let (prefix, size) = match (unit.strip_suffix("Bps"), unit.strip_suffix("bps")) {
        (Some(prefix), _) => (prefix, 1.0),
        (_, Some(prefix)) => (prefix, 0.125),
        _ if unit.is_empty() => ("", 1.0),
        _ => return Err(wrong(line, text, example)),
    };
    let scale = PREFIXES.iter().find(|(name, _)| *name == prefix).ok_or_else(|| wrong(line, text, example))?.1;
    Ok(ByteRate((number * scale * size).round() as u64))
}

pub(super) fn latency(line: usize, text: &str) -> Result<SimTime, ImportError> {
    let example = "50us or 0.001";
    let (number, unit) = split(line, text, example)?;
    let scale = TIMES.iter().find(|(name, _)| *name == unit).ok_or_else(|| wrong(line, text, example))?.1;
    Ok(SimTime((number * scale * PS_PER_S as f64).round() as u64))
}

fn wrong(line: usize, text: &str, example: &str) -> ImportError {
    ImportError::new(line, format!("found \"{}\"; expected a quantity such as {example}", shown(text)))
}

fn split<'a>(line: usize, text: &'a str, example: &str) -> Result<(f64, &'a str), ImportError> {
    let text = text.trim();
    let exponent = |at: usize| text[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    let inside = |at: usize, c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+') || (matches!(c, 'e' | 'E') && exponent(at));
    let end = text.char_indices().find(|&(at, c)| !inside(at, c)).map_or(text.len(), |(at, _)| at);
    match text[..end].parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((number, text[end..].trim())),
        _ => Err(wrong(line, text, example)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_prefixes_and_units() {
        let rates = ["125MBps", "1Gbps", "125e6", "1 MiBps", "8kbps"].map(|text| bandwidth(1, text).unwrap().0);
        assert_eq!(rates, [125_000_000, 125_000_000, 125_000_000, 1 << 20, 1_000]);
        let times = ["50us", "0.001", "1.5ms", "1e-6s", "7ps"].map(|text| latency(1, text).unwrap().as_ps());
        assert_eq!(times, [50_000_000, 1_000_000_000, 1_500_000_000, 1_000_000, 7]);
        let expected = "line 3: found \"5 parsec\"; expected a quantity such as 50us or 0.001";
        assert_eq!(latency(3, "5 parsec").unwrap_err().to_string(), expected);
        for text in ["", "-1Bps", "1e999Bps", "1Gb/s", "1Gbps,2Gbps", "eBps"] {
            assert!(bandwidth(1, text).is_err(), "{text}");
        }
    }
}
