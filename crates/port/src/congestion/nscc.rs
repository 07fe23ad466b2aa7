//! The source of NSCC ([`Nscc`]; Ultra Ethernet Specification 1.0, section 3.6.13, network signaled congestion
//! control): a window in bytes that follows what waits in the network (the time of an acknowledgement beyond that of
//! an empty network) and the marks of switches.
//!
//! | | no mark | mark |
//! |---|---|---|
//! | short delay | more, in proportion to what is missing to the target | nothing: another way will do |
//! | long delay | a little more | less, once in a round trip |
//!
//! Constants and their scaling are those of the public simulator of the specification's authors (`initNsccParams` in
//! uec.cpp of uet-htsim), whose reference is a link of 100 Gbit/s with a round trip of 12 us.

use super::{Acknowledged, Common, CongestionControl};
use narrows_fabric::Nscc;
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Bytes.
    window: f64,
    /// What it is to grow by, times itself.
    increase: f64,
    /// Of delays, in ps.
    average: f64,
    /// Bytes acknowledged since the window was adjusted last.
    received: u32,
    /// Bytes in a row that found the network empty.
    empty: u32,
    /// They were a window's worth: it grows fast.
    fast: bool,
    adjusted: SimTime,
    decreased: SimTime,
    /// Bytes acknowledged until then, after which quick adapt looks at them.
    achieved: u32,
    look: SimTime,
    /// Marked acknowledgements of so many bytes say nothing new.
    ignore: u32,
    /// The shortest round trip so far.
    round_trip: SimTime,
}

/// Of a link and its round trip.
struct Scale {
    /// Bytes on the way in a round trip.
    product: f64,
    /// a: that, over the reference's.
    a: f64,
    packet: f64,
    target: f64,
}

const REFERENCE: f64 = 12.5e9 * 12e-6;
/// gamma: how much of the excess a decrease takes, and what it leaves at least.
const DECREASE: f64 = 0.8;
const LEAST_LEFT: f64 = 0.5;
const AVERAGE: f64 = 0.0125;
/// Delays up to here are those of an empty network.
const EMPTY: SimTime = SimTime::from_us(1);
/// Quick adapt: beyond so many targets, if less than an eighth of the largest window came through.
const QUICK: f64 = 4.0;
const QUICK_PART: f64 = 8.0;
/// Packets after which the window is adjusted.
const ADJUST: f64 = 8.0;

impl Scale {
    fn of(nscc: &Nscc, line: ByteRate, packet: u32) -> Scale {
        let product = line.0 as f64 * nscc.round_trip.as_s_f64();
        Scale { product, a: product / REFERENCE, packet: f64::from(packet), target: nscc.target.as_ps() as f64 }
    }

    fn largest(&self) -> f64 {
        (1.5 * self.product).max(self.packet)
    }
}

impl CongestionControl for Source {
    type Numbers = Nscc;
    type AtPort = ();

    /// Begins with the largest window.
    fn new(nscc: &Nscc, line: ByteRate) -> Source {
        Source {
            window: Scale::of(nscc, line, 1).largest(),
            increase: 0.0,
            average: 0.0,
            received: 0,
            empty: 0,
            fast: false,
            adjusted: SimTime::ZERO,
            decreased: SimTime::ZERO,
            achieved: 0,
            look: SimTime::ZERO,
            ignore: 0,
            round_trip: nscc.round_trip,
        }
    }

    /// One packet may always go.
    fn allows(&self, _: SimTime, _: u32, bytes: u64) -> bool {
        bytes == 0 || (bytes as f64) < self.window
    }

    fn made(&mut self, _: SimTime, _: u32, _: &Nscc) -> Option<SimTime> {
        None
    }

    fn acknowledged(&mut self, now: SimTime, what: &Acknowledged<'_>, nscc: &Nscc, common: &Common) -> Option<SimTime> {
        self.follow(now, what, nscc, &Scale::of(nscc, common.line, common.packet));
        None
    }

    fn timed_out(&mut self, now: SimTime, bytes: u64, nscc: &Nscc, common: &Common) {
        let scale = Scale::of(nscc, common.line, common.packet);
        self.quick_adapt(now, 0.0, true, bytes, &scale);
        self.bound(&scale);
    }
}

impl Source {
    fn follow(&mut self, now: SimTime, what: &Acknowledged<'_>, nscc: &Nscc, scale: &Scale) {
        let Acknowledged { sent, bytes, under_way, marked, .. } = *what;
        let round_trip = now - sent;
        self.round_trip = self.round_trip.min(round_trip);
        let delay = (round_trip - self.round_trip).as_ps() as f64;
        // A long delay without a mark is that of one way alone.
        let sample = if !marked && delay > scale.target { self.round_trip.as_ps() as f64 / 4.0 } else { delay };
        self.average += AVERAGE * (sample - self.average);
        self.received = self.received.saturating_add(bytes);
        self.achieved = self.achieved.saturating_add(bytes);
        let ignored = marked && self.ignore > 0;
        self.ignore = self.ignore.saturating_sub(bytes);
        if ignored || self.quick_adapt(now, delay, false, under_way, scale) {
            (self.increase, self.received) = (0.0, 0);
            return;
        }
        let target = scale.target;
        match (marked, delay >= target) {
            (false, true) => self.increase += 5.0 * scale.packet * scale.a * f64::from(bytes),
            (false, false) => self.grow(delay, bytes, scale),
            (true, true) => self.decrease(now, target),
            (true, false) => {}
        }
        self.bound(scale);
        let period = now - self.adjusted > nscc.round_trip;
        if period || f64::from(self.received) > ADJUST * scale.packet {
            self.window += self.increase / self.window;
            if period {
                self.window += 0.15 * scale.packet * scale.a;
                self.adjusted = now;
            }
            (self.increase, self.received) = (0.0, 0);
        }
        self.bound(scale);
    }

    /// Where delays are long beyond the target, the window is at once what came through in a round trip.
    fn quick_adapt(&mut self, now: SimTime, delay: f64, lost: bool, under_way: u64, scale: &Scale) -> bool {
        if now <= self.look {
            return false;
        }
        let first = self.look == SimTime::ZERO;
        let achieved = f64::from(std::mem::take(&mut self.achieved));
        self.look = now + self.round_trip + SimTime(scale.target as u64);
        if first || !(lost || delay > QUICK * scale.target) || achieved >= scale.largest() / QUICK_PART {
            return false;
        }
        self.window = achieved.max(scale.packet);
        self.ignore = u32::try_from(under_way).unwrap_or(u32::MAX);
        true
    }

    /// In proportion to what is missing to the target, and fast where the network is empty.
    fn grow(&mut self, delay: f64, bytes: u32, scale: &Scale) {
        if delay < EMPTY.as_ps() as f64 {
            self.empty = self.empty.saturating_add(bytes);
            if f64::from(self.empty) > self.window || self.fast {
                self.window += f64::from(bytes) * 0.25 * scale.a;
                self.fast = true;
                return;
            }
        } else {
            self.empty = 0;
        }
        self.fast = false;
        // alpha = 4 packets x a x b / target, with b = target / 12 us.
        let alpha = 4.0 * scale.packet * scale.a / 12e6;
        self.increase += alpha * f64::from(bytes) * (scale.target - delay);
    }

    fn decrease(&mut self, now: SimTime, target: f64) {
        (self.fast, self.empty) = (false, 0);
        if self.average > target && now - self.decreased > self.round_trip {
            self.window *= (1.0 - DECREASE * (self.average - target) / self.average).max(LEAST_LEFT);
            self.decreased = now;
        }
    }

    fn bound(&mut self, scale: &Scale) {
        self.window = self.window.clamp(scale.packet.min(scale.largest()), scale.largest());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference: a = 1.
    const LINE: ByteRate = ByteRate(12_500_000_000);
    const NSCC: Nscc = Nscc { round_trip: SimTime::from_us(12), target: SimTime::from_us(9) };
    const PACKET: u32 = 4_000;

    fn acknowledged(source: &mut Source, at: u64, delay: u64, bytes: u32, marked: bool) {
        let now = SimTime::from_us(at);
        let sent = now - SimTime::from_us(12 + delay);
        let what = Acknowledged { sent, packets: 1, bytes, hops: 0, marked, under_way: 50_000, telemetry: None, acknowledged: 0, next: 0 };
        source.follow(now, &what, &NSCC, &Scale::of(&NSCC, LINE, PACKET));
    }

    /// The window at 100 KB, adjusted at 100 us.
    fn source() -> Source {
        let us = SimTime::from_us;
        Source { window: 100_000.0, adjusted: us(100), decreased: us(1), look: us(1_000), ..Source::new(&NSCC, LINE) }
    }

    #[test]
    fn it_begins_with_one_and_a_half_products() {
        let source = Source::new(&NSCC, LINE);
        assert_eq!(source.window, 225_000.0);
        assert!(source.allows(SimTime::ZERO, 0, 224_999) && !source.allows(SimTime::ZERO, 0, 225_000));
        assert!(Source { window: 1.0, ..source }.allows(SimTime::ZERO, 0, 0));
    }

    /// The four cases: what the window has when the adjustment is due.
    #[test]
    fn the_window_follows_the_quadrants() {
        let after = |delay, marked| {
            let mut source = source();
            // More than eight packets at once are adjusted at once.
            acknowledged(&mut source, 101, delay, 32_001, marked);
            source.window
        };
        // 5 packets x a x bytes / window.
        let fair = 100_000.0 + 5.0 * 4_000.0 * 32_001.0 / 100_000.0;
        assert!((after(10, false) - fair).abs() < 1e-6);
        // 4 packets x bytes x (9 us - 6 us) / 12 us / window.
        let proportional = 100_000.0 + 4.0 * 4_000.0 * 32_001.0 * 3.0 / 12.0 / 100_000.0;
        assert!((after(6, false) - proportional).abs() < 1e-6);
        assert_eq!(after(6, true), 100_000.0, "another way will do");
        assert_eq!(after(10, true), 100_000.0, "the average is below the target still");
        // And eta after a round trip.
        let mut source = source();
        acknowledged(&mut source, 113, 6, 0, true);
        assert!((source.window - 100_600.0).abs() < 1e-6, "{}", source.window);
    }

    #[test]
    fn a_decrease_takes_its_part_of_the_excess_once_in_a_round_trip() {
        let mut source = Source { average: 20e6, ..source() };
        acknowledged(&mut source, 101, 20, 1, true);
        assert!((source.window - 100_000.0 * (1.0 - 0.8 * 11.0 / 20.0)).abs() < 1e-6);
        let before = source.window;
        acknowledged(&mut source, 102, 20, 1, true);
        assert_eq!(source.window, before);
        let mut source = Source { average: 1e12, ..self::source() };
        acknowledged(&mut source, 101, 20, 1, true);
        assert_eq!(source.window, 50_000.0, "by half at most");
    }

    #[test]
    fn an_empty_network_makes_it_grow_by_a_quarter_of_what_comes_through() {
        let mut source = source();
        acknowledged(&mut source, 101, 0, 100_001, false);
        assert!((source.window - (100_000.0 + 0.25 * 100_001.0)).abs() < 1e-6);
    }

    #[test]
    fn quick_adapt_takes_what_came_through() {
        let mut source = Source { look: SimTime::from_us(50), achieved: 10_000, ..source() };
        acknowledged(&mut source, 101, 40, 2_000, true);
        assert_eq!((source.window, source.ignore), (12_000.0, 50_000));
        // What was under way then says nothing new.
        acknowledged(&mut source, 130, 40, 2_000, true);
        assert_eq!((source.window, source.ignore), (12_000.0, 48_000));
    }
}
