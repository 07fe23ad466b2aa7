//! The source of Swift ([`Swift`]; Kumar et al., SIGCOMM 2020, algorithm 1): a window that keeps the time until
//! acknowledgements come at a target.

use super::{Acknowledged, Common, CongestionControl};
use narrows_fabric::Swift;
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Packets; below 1, one goes in several round trips.
    window: f64,
    last_decrease: SimTime,
    /// The last round trip.
    round_trip: SimTime,
    /// With a window below 1: when the next packet may be made.
    next: SimTime,
}

/// The first window (`_default_cwnd` of swift.cpp in github.com/Broadcom/csg-htsim).
const FIRST_WINDOW: f64 = 12.0;
/// Windows, and those between which the target depends on the window (section 3.5; swift.cpp).
const LEAST_WINDOW: f64 = 0.01;
const MOST_WINDOW: f64 = 32_768.0;
const SCALING: (f64, f64) = (0.1, 100.0);

impl CongestionControl for Source {
    type Numbers = Swift;
    type AtPort = ();

    fn new(_: &Swift, _: ByteRate) -> Source {
        Source { window: FIRST_WINDOW, last_decrease: SimTime::ZERO, round_trip: SimTime::ZERO, next: SimTime::ZERO }
    }

    fn allows(&self, now: SimTime, packets: u32, _: u64) -> bool {
        packets < (self.window as u32).max(1) && self.next <= now
    }

    fn made(&mut self, now: SimTime, _: u32, _: &Swift) -> Option<SimTime> {
        if self.window >= 1.0 {
            return None;
        }
        self.next = now + SimTime((self.round_trip.as_ps() as f64 / self.window) as u64);
        Some(self.next)
    }

    fn acknowledged(&mut self, now: SimTime, what: &Acknowledged<'_>, swift: &Swift, _: &Common) -> Option<SimTime> {
        self.follow(now, now - what.sent, what.packets, what.hops, swift);
        None
    }

    fn timed_out(&mut self, now: SimTime, _: u64, swift: &Swift, _: &Common) {
        if self.may_decrease(now) {
            self.decrease(now, 1.0 - swift.most_decrease.as_f64());
        }
    }
}

impl Source {
    /// The time that packets may take there and back over so many links each way (sections 3.4 and 3.5).
    fn target(&self, swift: &Swift, hops: u32) -> SimTime {
        let (least, most) = (1.0 / SCALING.0.sqrt(), 1.0 / SCALING.1.sqrt());
        let range = swift.flow_range.as_ps() as f64;
        let alpha = range / (least - most);
        let scaled = (alpha / self.window.sqrt() - alpha * most).clamp(0.0, range);
        swift.base_target + swift.per_hop * u64::from(hops) + SimTime(scaled as u64)
    }

    /// An acknowledgement of `packets`, of which the last one was sent `round_trip` ago.
    fn follow(&mut self, now: SimTime, round_trip: SimTime, packets: u32, hops: u32, swift: &Swift) {
        let target = self.target(swift, hops);
        let may_decrease = self.may_decrease(now);
        self.round_trip = round_trip;
        let increase = swift.additive_increase.as_f64() * f64::from(packets);
        if round_trip < target {
            self.window += if self.window >= 1.0 { increase / self.window } else { increase };
            self.window = self.window.min(MOST_WINDOW);
            if self.window >= 1.0 {
                self.next = SimTime::ZERO;
            }
        } else if may_decrease {
            let late = (round_trip - target).as_ps() as f64 / round_trip.as_ps().max(1) as f64;
            let beta = swift.beta.as_f64();
            self.decrease(now, (1.0 - beta * late).max(1.0 - swift.most_decrease.as_f64()));
        }
    }

    /// Once in a round trip.
    fn may_decrease(&self, now: SimTime) -> bool {
        now >= self.last_decrease + self.round_trip
    }

    fn decrease(&mut self, now: SimTime, factor: f64) {
        self.window = (self.window * factor).max(LEAST_WINDOW);
        self.last_decrease = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;

    const SWIFT: Swift = Swift {
        base_target: SimTime::from_us(20),
        per_hop: SimTime::from_us(1),
        flow_range: SimTime::from_us(100),
        additive_increase: Fraction(1_000_000),
        beta: Fraction(800_000),
        most_decrease: Fraction(500_000),
    };

    /// Algorithm 1: one packet more in a round trip of a window of acknowledgements; less by beta times what is above
    /// the target, once in a round trip.
    #[test]
    fn the_window_follows_algorithm_1() {
        let us = SimTime::from_us;
        let mut source = Source::new(&SWIFT, ByteRate(1));
        (0..12).for_each(|_| source.follow(us(10), us(10), 1, 0, &SWIFT));
        assert!((source.window - 13.0).abs() < 0.05, "{}", source.window);
        let before = source.window;
        let target = source.target(&SWIFT, 4);
        source.follow(us(100), target * 2, 1, 4, &SWIFT);
        assert!((source.window / before - 0.6).abs() < 1e-9, "1 - 0.8 / 2");
        source.follow(us(101), target * 2, 1, 4, &SWIFT);
        assert!((source.window / before - 0.6).abs() < 1e-9, "once in a round trip");
        source.follow(us(1000), us(100_000), 1, 4, &SWIFT);
        assert!((source.window / before - 0.3).abs() < 1e-9, "by half at most");
    }

    /// Sections 3.4 and 3.5: more links and smaller windows have more time.
    #[test]
    fn the_target_grows_with_links_and_with_flows() {
        let target = |window: f64, hops| Source { window, ..Source::new(&SWIFT, ByteRate(1)) }.target(&SWIFT, hops);
        assert_eq!(target(100.0, 0), SimTime::from_us(20));
        assert_eq!(target(1000.0, 3), SimTime::from_us(23));
        assert_eq!(target(0.1, 0), SimTime::from_us(120));
        assert_eq!(target(0.01, 0), SimTime::from_us(120));
        assert!(target(4.0, 0) > target(9.0, 0));
    }

    #[test]
    fn a_window_below_a_packet_paces_it() {
        let us = SimTime::from_us;
        let mut source = Source { window: 0.25, round_trip: us(10), ..Source::new(&SWIFT, ByteRate(1)) };
        assert!(source.allows(us(5), 0, 0) && !source.allows(us(5), 1, 0));
        assert_eq!(source.made(us(5), 1, &SWIFT), Some(us(45)));
        assert!(!source.allows(us(44), 0, 0) && source.allows(us(45), 0, 0));
    }
}
