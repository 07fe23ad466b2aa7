//! Division by a number that is known when a machine is put together.

/// `n / d` and `n % d` with a multiplication in place of the division (Lemire, Kaser, Kurz, "Faster remainder by direct
/// computation", 2019): exact for every 32-bit `n` and `d`, because 64 bits of `1 / d` are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    /// `ceil(2^64 / d)`; 0 for `d` = 1, where 2^64 does not fit.
    inverse: u64,
    divisor: u32,
}

impl Divisor {
    /// # Panics
    /// For 0.
    pub(crate) fn new(divisor: u32) -> Divisor {
        assert!(divisor > 0, "nothing is divided by 0");
        Divisor { inverse: (u64::MAX / u64::from(divisor)).wrapping_add(1), divisor }
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn divide(self, number: u32) -> (u32, u32) {
        if self.inverse == 0 {
            return (number, 0);
        }
        let quotient = ((u128::from(self.inverse) * u128::from(number)) >> 64) as u32;
        (quotient, number - quotient * self.divisor)
    }

    #[inline]
    pub(crate) fn quotient(self, number: u32) -> u32 {
        self.divide(number).0
    }

    #[inline]
    pub(crate) fn remainder(self, number: u32) -> u32 {
        self.divide(number).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn divides_as_the_processor_does(number: u32, divisor in 1u32..) {
            prop_assert_eq!(Divisor::new(divisor).divide(number), (number / divisor, number % divisor));
            let near = (number / divisor).wrapping_mul(divisor);
            for number in [near, near.wrapping_sub(1), u32::MAX] {
                prop_assert_eq!(Divisor::new(divisor).divide(number), (number / divisor, number % divisor));
            }
        }
    }
}
