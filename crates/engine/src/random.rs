//! Named random streams: each user of randomness has a stream of its own, so that one more draw
//! in one place changes nothing elsewhere.

/// A small, fast generator (SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Stream(u64);

/// The stream `name`, number `index`, of the run's `seed`.
pub fn stream(seed: u64, name: &str, index: u64) -> Stream {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    for byte in name.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut result = Stream(state ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03));
    result.next_u64();
    result
}

impl Stream {
    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform integer below `bound` (`bound` > 0), by the multiply-shift of Lemire 2019.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffles `items` (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_apart() {
        let draw = |seed, name, index| stream(seed, name, index).next_u64();
        assert_eq!(draw(1, "routing", 0), draw(1, "routing", 0));
        assert_ne!(draw(1, "routing", 0), draw(1, "routing", 1));
        assert_ne!(draw(1, "routing", 0), draw(1, "placement", 0));
        assert_ne!(draw(1, "routing", 0), draw(2, "routing", 0));
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        stream(3, "test", 0).shuffle(&mut items);
        let mut sorted = items.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert_ne!(items, sorted);
    }
}
