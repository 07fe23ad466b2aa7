//! The source of DCTCP ([`Dctcp`]; Alizadeh et al., SIGCOMM 2010; RFC 8257, section 3.3): TCP's window, which marks cut
//! in proportion to the part of the bytes that they were on.
//!
//! * Once in a window `alpha = (1 - g) alpha + g F`, with F the part of its bytes that was marked.
//! * A mark cuts the window to `1 - alpha / 2` of itself, once in a window.
//! * It grows as TCP's does (RFC 5681): by what is acknowledged until it was cut, then by one packet in a window.

use super::{Acknowledged, Common, CongestionControl};
use narrows_fabric::Dctcp;
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Packets.
    window: f64,
    /// Below it, the window grows by what is acknowledged (slow start).
    threshold: f64,
    alpha: f64,
    /// Acknowledged since alpha was brought up to date, bytes, and those of them that were marked.
    bytes: u32,
    marked: u32,
    /// Alpha follows when a packet from this one on is acknowledged.
    next_update: u16,
    /// A mark cuts; else it does again when a packet from this one on is acknowledged.
    may_cut: bool,
    next_cut: u16,
}

/// The first window (RFC 6928), and the least one (`dctcp_ssthresh` of tcp_dctcp.c in Linux).
const FIRST_WINDOW: f64 = 10.0;
const LEAST_WINDOW: f64 = 2.0;
/// More packets than that have no numbers.
const MOST_WINDOW: f64 = 32_768.0;

/// The packets up to `acknowledged` reach `number`; numbers begin again.
fn reach(acknowledged: u16, number: u16) -> bool {
    acknowledged != number && acknowledged.wrapping_sub(number) < 1 << 15
}

impl CongestionControl for Source {
    type Numbers = Dctcp;
    type AtPort = ();

    fn new(_: &Dctcp, _: ByteRate) -> Source {
        // RFC 8257: alpha is 1 at first.
        Source {
            window: FIRST_WINDOW,
            threshold: f64::INFINITY,
            alpha: 1.0,
            bytes: 0,
            marked: 0,
            next_update: 0,
            may_cut: true,
            next_cut: 0,
        }
    }

    fn allows(&self, _: SimTime, packets: u32, _: u64) -> bool {
        packets < self.window as u32
    }

    fn made(&mut self, _: SimTime, _: u32, _: &Dctcp) -> Option<SimTime> {
        None
    }

    fn acknowledged(&mut self, _: SimTime, what: &Acknowledged<'_>, dctcp: &Dctcp, _: &Common) -> Option<SimTime> {
        self.follow(what, dctcp);
        None
    }

    fn timed_out(&mut self, _: SimTime, _: u64, _: &Dctcp, _: &Common) {
        self.lost();
    }
}

impl Source {
    /// RFC 5681, section 3.1.
    fn lost(&mut self) {
        self.threshold = (self.window / 2.0).max(LEAST_WINDOW);
        self.window = 1.0;
    }

    fn follow(&mut self, what: &Acknowledged<'_>, dctcp: &Dctcp) {
        let Acknowledged { packets, bytes, marked, acknowledged, next, .. } = *what;
        self.bytes = self.bytes.saturating_add(bytes);
        self.marked = self.marked.saturating_add(if marked { bytes } else { 0 });
        if reach(acknowledged, self.next_update) {
            let gain = dctcp.gain.as_f64();
            self.alpha = (1.0 - gain) * self.alpha + gain * f64::from(self.marked) / f64::from(self.bytes.max(1));
            (self.bytes, self.marked, self.next_update) = (0, 0, next);
        }
        self.may_cut |= reach(acknowledged, self.next_cut);
        if marked && self.may_cut {
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(LEAST_WINDOW);
            (self.threshold, self.may_cut, self.next_cut) = (self.window, false, next);
        } else if !marked {
            // RFC 3168, section 6.1.2: not by an acknowledgement with a mark.
            let packets = f64::from(packets);
            let growth = if self.window < self.threshold { packets } else { packets / self.window };
            self.window = (self.window + growth).min(MOST_WINDOW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;

    /// Acknowledges one window after the other, packet by packet; all packets of a window of more than `most` are
    /// marked. Alpha and the window, as each window begins.
    fn windows(source: &mut Source, dctcp: &Dctcp, most: f64, count: usize) -> Vec<(f64, f64)> {
        let (mut first, mut seen) = (0u16, Vec::new());
        for _ in 0..count {
            seen.push((source.alpha, source.window));
            let (packets, marked) = (source.window as u16, source.window > most);
            let next = first.wrapping_add(packets);
            for packet in 1..=packets {
                let acknowledged = first.wrapping_add(packet);
                let sent = SimTime::ZERO;
                let what = Acknowledged { sent, packets: 1, bytes: 9, hops: 0, marked, under_way: 0, telemetry: None, acknowledged, next };
                source.follow(&what, dctcp);
            }
            first = next;
        }
        seen
    }

    /// Section 3.3 of the paper: with marks from W* packets on, alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* + 1)^2, and
    /// the window swings between (W* + 1) (1 - alpha / 2) and W* + 1. Its alpha is a mean over packets and ours one
    /// over windows, which differ by the fourth part of alpha.
    #[test]
    fn the_window_is_the_sawtooth_of_the_paper() {
        for most in [100.0f64, 400.0] {
            let dctcp = Dctcp { gain: Fraction(2_000) };
            let mut source = Source::new(&dctcp, ByteRate(1));
            windows(&mut source, &dctcp, most, 20_000);
            let seen = windows(&mut source, &dctcp, most, 2_000);
            let alpha = seen.iter().map(|&(alpha, _)| alpha).sum::<f64>() / 2_000.0;
            let of_paper = |alpha: f64| alpha * alpha * (1.0 - alpha / 4.0) * (most + 1.0).powi(2) / (2.0 * most + 1.0);
            assert!((of_paper(alpha) - 1.0).abs() < 0.2, "{most}: {alpha}, {}", of_paper(alpha));
            let low = seen.iter().map(|&(_, window)| window).fold(f64::INFINITY, f64::min);
            let high = seen.iter().map(|&(_, window)| window).fold(0.0, f64::max);
            assert!((most..most + 2.0).contains(&high), "{most}: {high}");
            assert!((low - high * (1.0 - alpha / 2.0)).abs() < 2.0, "{most}: {low} to {high}, alpha {alpha}");
        }
    }

    #[test]
    fn it_begins_as_tcp_does_and_a_loss_halves_it() {
        let dctcp = Dctcp { gain: Fraction(62_500) };
        let mut source = Source::new(&dctcp, ByteRate(1));
        assert!(source.allows(SimTime::ZERO, 9, 0) && !source.allows(SimTime::ZERO, 10, 0));
        let seen: Vec<f64> = windows(&mut source, &dctcp, f64::INFINITY, 4).into_iter().map(|(_, window)| window).collect();
        assert_eq!(seen, [10.0, 20.0, 40.0, 80.0]);
        // Four times 1 - g, and the first acknowledgement of all.
        assert!((source.alpha - 0.9375f64.powi(4)).abs() < 1e-12, "{}", source.alpha);
        source.lost();
        assert_eq!((source.window, source.threshold), (1.0, 80.0));
    }
}
