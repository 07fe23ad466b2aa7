//! Flows as users write them.

use crate::flow::FlowKind;
use narrows_units::{ByteRate, Bytes, SimTime};
use std::fmt;
use std::str::FromStr;

/// `ping:BYTES,COUNT,INTERVAL` or `iperf:tcp`, `iperf:udp,RATE`; what is left out has its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Echo requests and their answers.
    Ping {
        /// Payload of each: 56 B, as ping has it.
        bytes: Bytes,
        /// How many: 1000.
        count: u32,
        /// From one to the next on average: 10 ms.
        interval: SimTime,
    },
    /// A stream.
    Tcp,
    /// Datagrams.
    Udp {
        /// Payload in a second; none: as fast as they are sent.
        rate: Option<ByteRate>,
    },
}

/// Most pings of a flow.
const COUNT_MAX: u32 = 10_000_000;

/// What is no such pattern.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("pattern \"{text}\": {why}")]
pub struct PatternError {
    text: String,
    why: String,
}

impl Pattern {
    /// A text that is meant to be one of them, be it right or wrong.
    pub fn is_meant(text: &str) -> bool {
        matches!(text.split(':').next(), Some("ping" | "iperf"))
    }

    /// Each flow of it, with packets of this payload: without, of a stream and of datagrams `full`, the longest.
    pub fn kind(self, size: Option<Bytes>, full: Bytes) -> FlowKind {
        match self {
            Pattern::Ping { bytes, count, interval } => FlowKind::Ping { bytes: size.unwrap_or(bytes), count, interval },
            Pattern::Tcp => FlowKind::Stream { bytes: size.unwrap_or(full), limit: None },
            Pattern::Udp { rate } => FlowKind::Datagrams { bytes: size.unwrap_or(full), rate, limit: None },
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        let wrong = |why: String| PatternError { text: text.to_owned(), why };
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let mut parts = rest.into_iter().flat_map(|rest| rest.split(','));
        let pattern = match name {
            "ping" => {
                let expected = "expected ping:BYTES,COUNT,INTERVAL, such as ping:56,1000,10ms";
                let bytes = match parts.next() {
                    // As ping has it: without a unit.
                    Some(bytes) => {
                        bytes.parse().map(Bytes).or_else(|_| bytes.parse::<Bytes>()).map_err(|_| wrong(String::from(expected)))?
                    }
                    None => Bytes(56),
                };
                let count = parts.next().map_or(Ok(1000), str::parse).ok().filter(|count| (1..=COUNT_MAX).contains(count));
                let count = count.ok_or_else(|| wrong(format!("{expected}, at most {COUNT_MAX} of them")))?;
                let interval = parts.next().map_or(Ok(SimTime::from_us(10_000)), |text| text.parse::<SimTime>());
                let interval = interval.ok().filter(|&interval| interval > SimTime::ZERO);
                let interval = interval.ok_or_else(|| wrong(format!("{expected}, an interval above 0")))?;
                Pattern::Ping { bytes, count, interval }
            }
            "iperf" => match parts.next().unwrap_or("tcp") {
                "tcp" => Pattern::Tcp,
                "udp" => {
                    let rate = parts.next().map(str::parse::<ByteRate>).transpose();
                    let rate = rate.map_err(|error| wrong(format!("{error}; expected iperf:udp,RATE, such as iperf:udp,1Gbit/s")))?;
                    if rate == Some(ByteRate(0)) {
                        return Err(wrong(String::from("expected a rate above 0")));
                    }
                    Pattern::Udp { rate }
                }
                _ => return Err(wrong(String::from("expected iperf:tcp, iperf:udp or iperf:udp,RATE"))),
            },
            _ => return Err(wrong(String::from("expected ping or iperf"))),
        };
        match parts.next() {
            Some(more) => Err(wrong(format!("there is no place for \"{more}\""))),
            None => Ok(pattern),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Ping { bytes, count, interval } => write!(f, "ping:{},{count},{interval}", bytes.0),
            Pattern::Tcp => write!(f, "iperf:tcp"),
            Pattern::Udp { rate: None } => write!(f, "iperf:udp"),
            Pattern::Udp { rate: Some(rate) } => write!(f, "iperf:udp,{rate}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_default() {
        let ping = |text: &str| text.parse::<Pattern>().unwrap();
        assert_eq!(ping("ping"), ping("ping:56,1000,10ms"));
        assert_eq!(ping("ping:1KiB,5"), ping("ping:1024,5,10ms"));
        assert_eq!(ping("iperf"), Pattern::Tcp);
        assert_eq!(ping("iperf:udp,1Gbit/s"), Pattern::Udp { rate: Some(ByteRate(125_000_000)) });
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        for (text, why) in [
            ("ping:x", "pattern \"ping:x\": expected ping:BYTES,COUNT,INTERVAL, such as ping:56,1000,10ms"),
            ("ping:56,0", "pattern \"ping:56,0\": expected ping:BYTES,COUNT,INTERVAL, such as ping:56,1000,10ms, at most 10000000 of them"),
            (
                "ping:56,1,0s",
                "pattern \"ping:56,1,0s\": expected ping:BYTES,COUNT,INTERVAL, such as ping:56,1000,10ms, an interval above 0",
            ),
            ("ping:56,1,1ms,2", "pattern \"ping:56,1,1ms,2\": there is no place for \"2\""),
            ("iperf:sctp", "pattern \"iperf:sctp\": expected iperf:tcp, iperf:udp or iperf:udp,RATE"),
            ("iperf:tcp,1Gbit/s", "pattern \"iperf:tcp,1Gbit/s\": there is no place for \"1Gbit/s\""),
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap_err().to_string(), why);
        }
    }
}
