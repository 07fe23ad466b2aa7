use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

/// Values with their percentiles to three digits; mean and maximum are exact. Its memory grows with the logarithm of
/// the largest value.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Encoded", into = "Encoded")]
pub struct Histogram {
    buckets: Hdr<u64>,
    sum: u128,
    max: u64,
}

/// A histogram for other processes: its buckets, with a value and a count each, and what is exact.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Encoded {
    buckets: Vec<(u64, u64)>,
    sum: u128,
    max: u64,
}

impl From<Histogram> for Encoded {
    fn from(histogram: Histogram) -> Encoded {
        Encoded { buckets: histogram.buckets().collect(), sum: histogram.sum, max: histogram.max }
    }
}

impl TryFrom<Encoded> for Histogram {
    type Error = &'static str;

    fn try_from(Encoded { buckets, sum, max }: Encoded) -> Result<Histogram, &'static str> {
        let mut histogram = Histogram { sum, max, ..Histogram::new() };
        let mut count = 0u64;
        for (value, times) in buckets {
            count = count.checked_add(times).ok_or("more values than a histogram counts")?;
            histogram.buckets.record_n(value, times).map_err(|_| "a value beyond those of a histogram")?;
        }
        Ok(histogram)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// Nothing recorded.
    pub fn new() -> Histogram {
        Histogram { buckets: Hdr::new(3).expect("three digits are allowed"), sum: 0, max: 0 }
    }

    /// Records a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.buckets.record(value).expect("the histogram grows with its values");
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Takes in what another one recorded.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("the histogram grows with its values");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Values recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// Their mean, `None` when there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The least value that `percent` of all do not exceed, to three digits.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.buckets.value_at_quantile(percent / 100.0).min(self.max))
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max)
    }

    /// Every bucket with something in it: its largest value and its count, in rising order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_values(values in prop::collection::vec(0u64..1 << 50, 1..300), percent in 0.0f64..100.0) {
            let (mut whole, mut one, mut other) = (Histogram::new(), Histogram::new(), Histogram::new());
            for (index, &value) in values.iter().enumerate() {
                whole.record(value);
                if index % 3 == 0 { one.record(value) } else { other.record(value) }
            }
            one.merge(&other);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
            let exact = sorted[rank - 1];
            let again = Histogram::try_from(Encoded::from(whole.clone())).unwrap();
            for histogram in [&whole, &one, &again] {
                let found = histogram.percentile(percent).unwrap();
                prop_assert!(found.abs_diff(exact) <= exact / 1000 + 1, "{} for {}", found, exact);
                prop_assert_eq!(histogram.max(), sorted.last().copied());
                prop_assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), values.len() as u64);
                let mean = values.iter().map(|&value| u128::from(value)).sum::<u128>() as f64 / values.len() as f64;
                prop_assert_eq!(histogram.mean(), Some(mean));
            }
        }
    }

    #[test]
    fn nothing_has_no_percentiles() {
        let empty = Histogram::new();
        assert!(Histogram::try_from(Encoded { buckets: vec![(1, u64::MAX), (2, 1)], sum: 0, max: 0 }).is_err());
        assert_eq!((empty.mean(), empty.percentile(50.0), empty.max()), (None, None, None));
    }
}
