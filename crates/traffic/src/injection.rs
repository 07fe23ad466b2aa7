//! When a source sends.

use crate::TrafficError;
use narrows_engine::random::Stream;
use std::fmt;
use std::str::FromStr;

/// A message in a minute or more: its gaps are beyond any measurement. Much smaller loads are no probabilities in
/// floating point any more.
pub const LEAST_LOAD: f64 = 1e-9;

/// How the messages of a source follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Injection {
    /// Open loop: a message with the probability of the load in each slot, which is as long as a mean message takes on
    /// the host link.
    Bernoulli,
    /// Open loop: independent, with exponential gaps.
    Poisson,
    /// `on-off:MESSAGES` or `on-off:MESSAGES,PEAK`: bursts of a geometrically distributed number of messages with that
    /// mean, which follow each other at the fraction PEAK (1) of the injection bandwidth, and exponential pauses that
    /// make the load.
    OnOff {
        /// Mean messages of a burst.
        messages: f64,
        /// Load within a burst.
        peak: f64,
    },
    /// `closed:N`: every source has N messages on their way. The next one starts when the acknowledgement of an old one
    /// could be back.
    Closed {
        /// Messages on their way.
        messages: u32,
    },
}

/// A fraction in [0, 1) from 53 random bits.
#[inline]
fn unit(random: &mut Stream) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponential with mean 1. `libm`'s logarithm: the host's own may differ in the last bit from one C library to the
/// next.
#[inline]
fn exponential(random: &mut Stream) -> f64 {
    -libm::log(1.0 - unit(random))
}

/// Geometric on 1, 2, ... with success probability `p`.
#[inline]
fn geometric(p: f64, random: &mut Stream) -> f64 {
    if p >= 1.0 {
        return 1.0;
    }
    1.0 + libm::floor(libm::log(1.0 - unit(random)) / libm::log(1.0 - p))
}

impl Injection {
    /// Picoseconds until the first message of an open-loop source. `slot`: what a mean message takes on the host link,
    /// in picoseconds.
    pub fn first(&self, slot: f64, load: f64, random: &mut Stream) -> u64 {
        let gap = match *self {
            // Each source has slots of its own, which do not begin with those of the others.
            Injection::Bernoulli => unit(random) + geometric(load, random) - 1.0,
            Injection::Poisson => exponential(random) / load,
            Injection::OnOff { messages, peak } => {
                // In the middle of a pause or of a burst, as often as time is spent there.
                let (burst, pause) = (messages / peak, messages * (1.0 / load - 1.0 / peak));
                if unit(random) * (burst + pause) < burst { unit(random) / peak } else { exponential(random) * pause }
            }
            Injection::Closed { .. } => unit(random),
        };
        (gap * slot) as u64
    }

    /// Picoseconds from one message of an open-loop source to the next.
    #[inline]
    pub fn gap(&self, slot: f64, load: f64, random: &mut Stream) -> u64 {
        let gap = match *self {
            Injection::Bernoulli => geometric(load, random),
            Injection::Poisson => exponential(random) / load,
            Injection::OnOff { messages, peak } => {
                let pause = messages * (1.0 / load - 1.0 / peak);
                let over = unit(random) * messages < 1.0;
                1.0 / peak + if over { exponential(random) * pause } else { 0.0 }
            }
            Injection::Closed { .. } => 0.0,
        };
        // Two messages of one source at one time would be followed by any number of others.
        ((gap * slot) as u64).max(1)
    }

    /// Checks a load against it.
    ///
    /// # Errors
    /// A load that is no fraction, or above the peak of bursts.
    pub fn check(&self, load: f64) -> Result<(), TrafficError> {
        if !(load > 0.0 && load <= 1.0) {
            return Err(TrafficError::Load { load });
        }
        if load < LEAST_LOAD {
            return Err(TrafficError::TooLittle { load, least: LEAST_LOAD });
        }
        match *self {
            Injection::OnOff { peak, .. } if load > peak => Err(TrafficError::LoadAbovePeak { load, peak }),
            _ => Ok(()),
        }
    }
}

impl FromStr for Injection {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Injection, TrafficError> {
        let wrong = |expected: &'static str| TrafficError::InjectionText { text: text.to_owned(), expected };
        let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
        match (name, arguments) {
            ("bernoulli", "") => Ok(Injection::Bernoulli),
            ("poisson", "") => Ok(Injection::Poisson),
            ("on-off", _) => {
                let expected = "on-off:MESSAGES or on-off:MESSAGES,PEAK: at least 1 message per burst, a peak above 0 and at most 1, such as on-off:8,0.5";
                let (messages, peak) = arguments.split_once(',').unwrap_or((arguments, "1"));
                let number = |text: &str, low: f64, high: f64| {
                    text.trim().parse::<f64>().ok().filter(|value| (low..=high).contains(value)).ok_or_else(|| wrong(expected))
                };
                Ok(Injection::OnOff { messages: number(messages, 1.0, 1e9)?, peak: number(peak, 1e-9, 1.0)? })
            }
            ("closed", _) => match arguments.parse::<u32>() {
                Ok(messages @ 1..=1_000_000) => Ok(Injection::Closed { messages }),
                _ => Err(wrong("closed:N with N messages on their way per source, such as closed:4")),
            },
            _ => Err(wrong("bernoulli, poisson, on-off:MESSAGES[,PEAK] or closed:N")),
        }
    }
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Injection::Bernoulli => f.write_str("bernoulli"),
            Injection::Poisson => f.write_str("poisson"),
            Injection::OnOff { messages, peak: 1.0 } => write!(f, "on-off:{messages}"),
            Injection::OnOff { messages, peak } => write!(f, "on-off:{messages},{peak}"),
            Injection::Closed { messages } => write!(f, "closed:{messages}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_engine::stream;

    /// Mean and variance of the number of messages in windows of `slots` slots.
    fn counts(injection: Injection, load: f64, slots: f64) -> (f64, f64) {
        let (slot, windows) = (1e6, 20_000);
        let mut random = stream(1, "test", 0);
        let mut next = injection.first(slot, load, &mut random);
        let mut counts = vec![0u32; windows];
        loop {
            let window = (next as f64 / slot / slots) as usize;
            let Some(count) = counts.get_mut(window) else { break };
            *count += 1;
            next += injection.gap(slot, load, &mut random);
        }
        let mean = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / windows as f64;
        let variance = counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>() / windows as f64;
        (mean, variance)
    }

    #[test]
    fn open_loops_offer_their_load_with_the_variance_of_their_process() {
        for load in [0.05, 0.3, 0.8] {
            let mean = 100.0 * load;
            let (bernoulli, variance) = counts(Injection::Bernoulli, load, 100.0);
            assert!((bernoulli / mean - 1.0).abs() < 0.01, "{bernoulli}, expected {mean}");
            assert!((variance / (mean * (1.0 - load)) - 1.0).abs() < 0.05, "binomial: n p (1 - p), not {variance}");
            let (poisson, variance) = counts(Injection::Poisson, load, 100.0);
            assert!((poisson / mean - 1.0).abs() < 0.01, "{poisson}, expected {mean}");
            assert!((variance / mean - 1.0).abs() < 0.05, "Poisson: the mean, not {variance}");
            let (bursts, variance) = counts(Injection::OnOff { messages: 8.0, peak: 1.0 }, load, 100.0);
            assert!((bursts / mean - 1.0).abs() < 0.02, "{bursts}, expected {mean}");
            // A renewal process: the variance tends to mean x (squared coefficient of variation of the gap). A gap is a
            // slot, and with probability 1/8 an exponential pause besides, of mean 8 (1 / load - 1).
            let pause = 8.0 * (1.0 / load - 1.0);
            let gap_variance = 2.0 / 8.0 * pause * pause - (pause / 8.0).powi(2);
            let expected = mean * gap_variance * load * load;
            assert!((0.75..1.1).contains(&(variance / expected)), "load {load}: {variance}, tends to {expected}");
        }
    }

    #[test]
    fn full_load_has_no_gaps() {
        for injection in [Injection::Bernoulli, Injection::OnOff { messages: 3.0, peak: 1.0 }] {
            let mut random = stream(1, "test", 0);
            assert!((0..1000).all(|_| injection.gap(1e6, 1.0, &mut random) == 1_000_000), "{injection}");
        }
    }

    #[test]
    fn texts_are_read_and_refused() {
        for text in ["bernoulli", "poisson", "on-off:8", "on-off:8,0.5", "closed:4"] {
            assert_eq!(text.parse::<Injection>().unwrap().to_string(), text);
        }
        for text in ["", "poisson:3", "on-off", "on-off:0.5", "on-off:8,1.5", "closed:0", "closed", "on-off:nan"] {
            assert!(text.parse::<Injection>().unwrap_err().to_string().contains("expected"), "{text}");
        }
        assert!(Injection::Poisson.check(1.2).unwrap_err().to_string().contains("above 0 and at most 1"));
        assert!(Injection::Poisson.check(f64::NAN).is_err());
        let bursts = Injection::OnOff { messages: 8.0, peak: 0.5 };
        assert!(bursts.check(0.8).unwrap_err().to_string().contains("at most 0.5"));
    }
}
