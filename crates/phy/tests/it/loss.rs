//! What is lost at a bit error rate: sent and counted beside the closed form, over three decades of loss.

use narrows_engine::stream;
use narrows_phy::fec::ROWS;
use narrows_phy::loss::{self, BLOCKS};
use narrows_phy::marker::DISTANCE;
use narrows_phy::pcs::Distance;
use narrows_phy::study::{Outcome, Trial, TrialError};

/// Standard deviations. Whatever the distribution is, one sample of 36 may be farther off (Chebyshev); near a normal
/// distribution one of 10^9. The seed is fixed: a sample is always the same.
const DEVIATIONS: f64 = 6.0;

fn run(ber: f64, frames: u64, frame_bytes: usize) -> Outcome {
    let mut random = stream(1, "loss", 0);
    Trial { ber, frames, frame_bytes, distance: Distance::rows(64) }.run(|| random.next_u64(), |_| true).unwrap()
}

/// Codewords are lost independently, so their number has a binomial distribution.
fn codewords_agree(ber: f64, outcome: &Outcome) {
    let (codewords, p) = (outcome.counters.codewords as f64, loss::codeword(ber));
    let deviation = (codewords * p * (1.0 - p)).sqrt();
    let lost = outcome.counters.lost as f64;
    assert!((lost - codewords * p).abs() <= DEVIATIONS * deviation, "{ber}: {lost} codewords lost, {} +- {deviation}", codewords * p);
}

/// Frames are not independent: a codeword takes with it all that reach into it, w at most. The variance of a function
/// of independent codewords is at most the sum over them of p (1 - p) w^2 (Efron and Stein).
///
/// The mean is that of the closed form, with two exceptions that bound it from above and below. Above: an error in the
/// last 58 bits of a lost codeword spreads into the block behind it, as if the frame had one block more. Below: a lost
/// codeword with markers, one of 16 here, has no wrong sync header in its first 5 transcoded blocks, which are the
/// markers, nor in the next one, so that 4 blocks of 80 may be right.
fn frames_agree(ber: f64, bytes: usize, distance: usize, outcome: &Outcome) {
    let (codewords, p) = (outcome.counters.codewords as f64, loss::codeword(ber));
    let (frames, blocks) = (outcome.frames as f64, loss::blocks_of_frame(bytes));
    let most = ((BLOCKS + 2) / blocks + 2) as f64;
    let deviation = most * (codewords * p * (1.0 - p)).sqrt();
    let marked = ROWS as f64 / distance as f64;
    let below = frames * (loss::any_of_blocks(ber, blocks + 2) - marked * 4.0 / 80.0 * p);
    let above = frames * loss::any_of_blocks(ber, blocks + 3);
    let lost = outcome.lost as f64;
    let range = below - DEVIATIONS * deviation..=above + DEVIATIONS * deviation;
    assert!(range.contains(&lost), "{ber}, {bytes} bytes: {lost} frames lost, {range:?}");
    assert_eq!(outcome.wrong, 0);
}

#[test]
fn losses_follow_the_closed_form_over_three_decades() {
    let (mut least, mut most) = (1.0f64, 0.0f64);
    for (ber, frames, bytes) in [
        (1e-3, 20_000, 64),
        (1e-3, 4_000, 1518),
        (7e-4, 4_000, 1518),
        (5e-4, 8_000, 1518),
        (4e-4, 16_000, 1000),
        (3e-4, 16_000, 1518),
        (2.5e-4, 40_000, 1518),
    ] {
        let outcome = run(ber, frames, bytes);
        assert!(outcome.aligned);
        codewords_agree(ber, &outcome);
        frames_agree(ber, bytes, 64, &outcome);
        assert!(outcome.counters.lost > 0, "{ber}: nothing was lost, nothing was compared");
        let p = loss::codeword(ber);
        (least, most) = (least.min(p), most.max(p));
    }
    assert!(most / least > 1e3, "{least} to {most}");
}

#[test]
fn rates_that_are_corrected_lose_nothing() {
    for ber in [0.0, 1e-6, 1e-5] {
        let outcome = run(ber, 2000, 1518);
        assert_eq!((outcome.frames, outcome.lost, outcome.wrong, outcome.counters.lost), (2000, 0, 0, 0));
    }
}

#[test]
fn without_markers_nothing_arrives() {
    let outcome = run(0.5, 100, 1518);
    assert_eq!((outcome.aligned, outcome.lost), (false, 100));
    assert!((loss::frame(0.5, 1518) - 1.0).abs() < 1e-12);
}

#[test]
fn the_same_seed_gives_the_same_losses() {
    assert_eq!(run(1e-3, 500, 300), run(1e-3, 500, 300));
}

#[test]
fn values_that_cannot_be_are_refused() {
    let trial = Trial { ber: 1e-3, frames: 1, frame_bytes: 64, distance: Distance::rows(DISTANCE) };
    let refused = |trial: Trial| trial.run(|| 0, |_| true).unwrap_err();
    assert_eq!(refused(Trial { ber: 1.5, ..trial }), TrialError::Ber(1.5));
    assert_eq!(refused(Trial { ber: -0.1, ..trial }), TrialError::Ber(-0.1));
    assert!(matches!(refused(Trial { ber: f64::NAN, ..trial }), TrialError::Ber(_)));
    assert_eq!(refused(Trial { frames: 0, ..trial }), TrialError::NoFrames);
    assert_eq!(refused(Trial { frame_bytes: 63, ..trial }), TrialError::FrameBytes(63));
    assert_eq!(refused(Trial { frame_bytes: 20_000, ..trial }).to_string(), "frames of 20000 bytes: expected 64 to 16384");
}
