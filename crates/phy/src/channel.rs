//! What happens on the way: bits turn over.

use crate::bits::Bits;

/// Errors of one lane, each bit by itself.
#[derive(Clone, Debug)]
pub struct Errors {
    /// ln(1 - rate).
    right: f64,
    /// Right bits until the next wrong one.
    gap: u64,
}

impl Errors {
    /// A bit is wrong with probability `rate`. `random` gives 64 uniform bits.
    pub fn new(rate: f64, random: &mut impl FnMut() -> u64) -> Errors {
        let mut errors = Errors { right: (-rate).ln_1p(), gap: 0 };
        errors.draw(random);
        errors
    }

    /// The number of right bits in front of a wrong one has a geometric distribution.
    fn draw(&mut self, random: &mut impl FnMut() -> u64) {
        // Above 0, at most 1.
        let uniform = ((random() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.gap = (uniform.ln() / self.right) as u64;
    }

    /// Turns bits over from place `from` on; calls must cover a lane without a hole.
    pub fn inject(&mut self, bits: &mut Bits, from: usize, random: &mut impl FnMut() -> u64) {
        let mut place = from as u64;
        let end = bits.len() as u64;
        while self.gap < end - place {
            place += self.gap;
            bits.flip(place as usize);
            place += 1;
            self.draw(random);
        }
        self.gap -= end - place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_engine::stream;

    #[test]
    fn bits_are_wrong_at_the_rate() {
        for (rate, bits) in [(0.0, 100_000u64), (1e-3, 6_400_000), (0.3, 640_000), (1.0, 6400)] {
            let mut random = stream(1, "errors", 0);
            let mut random = || random.next_u64();
            let (mut errors, mut lane) = (Errors::new(rate, &mut random), Bits::new());
            // In pieces of any size.
            let mut sent = 0;
            while sent < bits {
                let count = 1 + sent % 64;
                let from = lane.len();
                lane.push(0, count as u32);
                errors.inject(&mut lane, from, &mut random);
                sent += count;
            }
            let wrong: u32 = (0..lane.len()).map(|at| lane.peek(at, 1) as u32).sum();
            // Five standard deviations of a binomial distribution; the seed is fixed.
            let (mean, deviation) = (rate * sent as f64, (sent as f64 * rate * (1.0 - rate)).sqrt());
            assert!((f64::from(wrong) - mean).abs() <= 5.0 * deviation, "{wrong} wrong bits, {mean} +- {deviation}");
        }
    }
}
