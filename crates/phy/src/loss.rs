//! What is lost at a bit error rate: the closed form, for bits that turn over one by one.

use crate::mac::PREAMBLE;
use crate::reed_solomon::{CODEWORD, CORRECTABLE, MESSAGE_BITS, SYMBOL_BITS};
use crate::transcode;

/// Blocks of 66 bits in a codeword.
pub const BLOCKS: usize = MESSAGE_BITS / transcode::BITS * transcode::BLOCKS;

/// The probability that a symbol is wrong.
pub fn symbol_error(ber: f64) -> f64 {
    -(SYMBOL_BITS as f64 * (-ber).ln_1p()).exp_m1()
}

/// The probability that a codeword has more wrong symbols than are corrected: the sum over k > 7 of C(528, k) p^k
/// (1 - p)^(528 - k).
pub fn codeword(ber: f64) -> f64 {
    let wrong = symbol_error(ber);
    if wrong <= 0.0 || wrong >= 1.0 {
        return wrong.clamp(0.0, 1.0);
    }
    let (n, mut choices, mut sum) = (CODEWORD as f64, 0.0, 0.0);
    for k in 0..=CODEWORD {
        if k > CORRECTABLE {
            sum += (choices + k as f64 * wrong.ln() + (n - k as f64) * (-wrong).ln_1p()).exp();
        }
        // ln C(n, k + 1) = ln C(n, k) + ln((n - k) / (k + 1)).
        choices += (n - k as f64).ln() - (k as f64 + 1.0).ln();
    }
    sum.min(1.0)
}

/// Blocks of a frame of so many bytes, from the one with its start to the one with its end.
pub fn blocks_of_frame(bytes: usize) -> usize {
    (PREAMBLE + bytes) / 8 + 1
}

/// The probability that one of the codewords that `blocks` blocks lie in is lost, wherever in a codeword they begin.
pub fn any_of_blocks(ber: f64, blocks: usize) -> f64 {
    let (lost, others) = (codeword(ber), blocks.saturating_sub(1));
    // They lie in 1 + others / 80 codewords, or in one more.
    let (whole, part) = (1 + others / BLOCKS, (others % BLOCKS) as f64 / BLOCKS as f64);
    let of = |codewords: usize| -(codewords as f64 * (-lost).ln_1p()).exp_m1();
    (1.0 - part) * of(whole) + part * of(whole + 1)
}

/// The probability that a frame of so many bytes is lost. A lost codeword has wrong sync headers wherever a frame could
/// lie in it (clause 91.5.3.3), so every frame that reaches into one is lost; and so is one that begins behind its last
/// block or ends in front of its first, because both are errors (figure 82-17): two blocks more.
pub fn frame(ber: f64, bytes: usize) -> f64 {
    any_of_blocks(ber, blocks_of_frame(bytes) + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit error rate and the sum in decimal arithmetic of 60 digits.
    const EXPECTED: [(f64, f64); 6] = [
        (1e-6, 1.413797735882482e-23),
        (1e-5, 1.3557689282604284e-15),
        (1e-4, 8.926910513935766e-8),
        (3e-4, 2.3340455082767736e-4),
        (1e-3, 1.6047230622327851e-1),
        (1e-2, 9.999999999999967e-1),
    ];

    #[test]
    fn a_codeword_is_lost_as_the_binomial_distribution_says() {
        for (ber, expected) in EXPECTED {
            let lost = codeword(ber);
            assert!((lost / expected - 1.0).abs() < 1e-9, "{ber}: {lost:e}, {expected:e}");
        }
        assert_eq!((codeword(0.0), codeword(1.0)), (0.0, 1.0));
    }

    #[test]
    fn a_frame_lies_in_as_many_codewords_as_it_is_long() {
        assert_eq!(BLOCKS, 80);
        assert_eq!(blocks_of_frame(64), 10);
        assert_eq!(blocks_of_frame(1518), 191);
        let lost = codeword(1e-3);
        // One block lies in one codeword, 81 in two, 41 in one and a half on average.
        assert_eq!(any_of_blocks(1e-3, 1), lost);
        assert!((any_of_blocks(1e-3, 81) - (1.0 - (1.0 - lost).powi(2))).abs() < 1e-12);
        assert!((any_of_blocks(1e-3, 41) - (lost + any_of_blocks(1e-3, 81)) / 2.0).abs() < 1e-12);
    }
}
