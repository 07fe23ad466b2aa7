//! Durations without keeping each: count, sum and maximum exactly, quantiles to 1 part in 128.

use narrows_units::SimTime;
use serde::{Deserialize, Serialize};

/// Buckets per power of two.
const FINE_BITS: u32 = 7;

/// A distribution of durations. Quantiles are the upper ends of buckets: at most 1/128 too high.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    counts: Vec<u64>,
    count: u64,
    sum_ps: u128,
    max: SimTime,
}

impl Default for Times {
    fn default() -> Self {
        Times { counts: vec![0; ((65 - FINE_BITS as usize) << FINE_BITS) + 1], count: 0, sum_ps: 0, max: SimTime::ZERO }
    }
}

fn bucket(ps: u64) -> usize {
    let shift = (64 - FINE_BITS - 1).saturating_sub(ps.leading_zeros());
    ((shift as usize) << FINE_BITS) + (ps >> shift) as usize
}

/// The largest duration in a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket >> FINE_BITS).saturating_sub(1) as u32;
    let fine = bucket as u64 - (u64::from(shift) << FINE_BITS);
    (u128::from(fine + 1) << shift).min(u128::from(u64::MAX) + 1).wrapping_sub(1) as u64
}

impl Times {
    /// Adds one.
    #[inline]
    pub fn add(&mut self, time: SimTime) {
        self.counts[bucket(time.as_ps())] += 1;
        self.count += 1;
        self.sum_ps += u128::from(time.as_ps());
        self.max = self.max.max(time);
    }

    /// Adds those of another one.
    pub fn merge(&mut self, other: &Times) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.max = self.max.max(other.max);
    }

    /// Every bucket with something in it: its longest duration and its count, in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (SimTime, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| (SimTime(upper(index)).min(self.max), count))
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, rounded down to a picosecond; zero of none.
    pub fn mean(&self) -> SimTime {
        SimTime((self.sum_ps / u128::from(self.count.max(1))) as u64)
    }

    /// The longest.
    pub fn max(&self) -> SimTime {
        self.max
    }

    /// The duration that a part of them, 0 to 1, does not exceed.
    pub fn quantile(&self, part: f64) -> SimTime {
        let rank = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return SimTime(upper(index)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for shift in 0..64 {
            for ps in [1u64 << shift, (1 << shift) + 1, (1u64 << shift).wrapping_mul(2).wrapping_sub(1)] {
                let index = bucket(ps);
                assert!(upper(index) >= ps && (index == 0 || upper(index - 1) < ps), "{ps}");
                assert!((upper(index) - ps) as f64 <= ps as f64 / 128.0 + 1.0, "{ps}: {}", upper(index));
            }
        }
    }

    #[test]
    fn quantiles_of_a_thousand() {
        let mut times = Times::default();
        (1..=1000).for_each(|ns| times.add(SimTime::from_ns(ns)));
        assert_eq!((times.count(), times.mean(), times.max()), (1000, SimTime(500_500), SimTime::from_ns(1000)));
        for (part, ns) in [(0.5, 500.0), (0.99, 990.0)] {
            let found = times.quantile(part).as_ns_f64();
            assert!(found >= ns && found <= ns * 1.008, "{part}: {found}");
        }
    }
}
