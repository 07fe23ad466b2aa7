//! The source of HPCC ([`Hpcc`]; Li et al., SIGCOMM 2019, algorithm 1): from what the switches of its way have written
//! into a packet it knows how much is on the way over the busiest link, and holds that at a part of what the link can
//! have in a round trip.
//!
//! * Of link `i`, with rate `B`, and queue and bytes sent as two packets have seen them:
//!   `u = min(queues) / (B T) + sent / time / B`.
//! * `U` is the average of the highest `u`, over a round trip `T`.
//! * The window is `Wc eta / U` and one additive increase; while `U < eta`, up to `maxStage` round trips in a row, `Wc`
//!   and one additive increase. It follows every acknowledgement, `Wc` once in a round trip.
//! * Packets go at the rate of the window over `T`.

use super::{Acknowledged, Common, CongestionControl, Pacer};
use narrows_fabric::{Hop, Hpcc, MOST_HOPS, TICK, Telemetry};
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pacer: Pacer,
    /// W, bytes.
    window: f64,
    /// Wc.
    reference: f64,
    /// U.
    in_flight: f64,
    /// Wc follows when a packet from this one on is acknowledged.
    next_update: u16,
    /// incStage.
    stage: u8,
    /// What the packet before had written into it: so many records, of this way.
    hops: u8,
    path: u16,
    seen: [Seen; MOST_HOPS],
}

/// Of a [`Hop`].
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    queue: u32,
    sent: u32,
    at: u32,
}

/// No rate below it: 100 Mbit/s (`MinRate` of rdma-hw.cc in github.com/alibaba-edu/High-Precision-Congestion-Control).
const LEAST_RATE: f64 = 12_500_000.0;

impl CongestionControl for Source {
    type Numbers = Hpcc;
    type AtPort = ();

    /// Begins at the rate of the link, with its window full (section 3.2).
    fn new(hpcc: &Hpcc, line: ByteRate) -> Source {
        let window = product(hpcc, line);
        Source {
            pacer: Pacer::default(),
            window,
            reference: window,
            // As in the paper's simulator (rdma-queue-pair.cc).
            in_flight: 1.0,
            next_update: 0,
            stage: 0,
            hops: 0,
            path: 0,
            seen: [Seen::default(); MOST_HOPS],
        }
    }

    /// One packet may always go, at the flow's rate.
    fn allows(&self, now: SimTime, _: u32, bytes: u64) -> bool {
        self.pacer.allows(now) && (bytes == 0 || (bytes as f64) < self.window)
    }

    fn made(&mut self, now: SimTime, wire: u32, hpcc: &Hpcc) -> Option<SimTime> {
        Some(self.pacer.made(now, wire, self.rate(hpcc)))
    }

    fn acknowledged(&mut self, _: SimTime, what: &Acknowledged<'_>, hpcc: &Hpcc, common: &Common) -> Option<SimTime> {
        self.follow(what.telemetry?, what.acknowledged, what.next, common.line, hpcc)
    }
}

impl Source {
    /// R.
    fn rate(&self, hpcc: &Hpcc) -> ByteRate {
        ByteRate((self.window / hpcc.round_trip.as_s_f64()).round() as u64)
    }

    /// An acknowledgement up to this packet, while that is the next one; when it may be made.
    fn follow(&mut self, telemetry: &Telemetry, acknowledged: u16, next: u16, line: ByteRate, hpcc: &Hpcc) -> Option<SimTime> {
        let hops = telemetry.hops();
        if hops.is_empty() {
            return None;
        }
        // The first one, or one that took another way.
        if (usize::from(self.hops), self.path) != (hops.len(), telemetry.path()) {
            self.see(telemetry);
            self.next_update = next;
            return None;
        }
        let (highest, time) = self.highest(hops, hpcc)?;
        let part = (time / hpcc.round_trip.as_ps() as f64).min(1.0);
        self.in_flight += part * (highest - self.in_flight);
        let eta = hpcc.utilization.as_f64();
        let cuts = self.in_flight >= eta || u32::from(self.stage) >= hpcc.max_stage;
        let scaled = if cuts { self.reference * eta / self.in_flight } else { self.reference };
        let most = product(hpcc, line);
        let least = (LEAST_RATE * hpcc.round_trip.as_s_f64()).min(most);
        self.window = (scaled + most * (1.0 - eta) / f64::from(hpcc.flows)).clamp(least, most);
        // Numbers begin again.
        if acknowledged != self.next_update && acknowledged.wrapping_sub(self.next_update) < 1 << 15 {
            self.stage = if cuts { 0 } else { self.stage + 1 };
            self.reference = self.window;
            self.next_update = next;
        }
        self.see(telemetry);
        Some(self.pacer.change(self.rate(hpcc)))
    }

    /// The highest u, and the time, in ps, that it is from; none if this packet was on a link before the one before.
    fn highest(&self, hops: &[Hop], hpcc: &Hpcc) -> Option<(f64, f64)> {
        let (mut highest, mut time) = (0.0, 0.0);
        for (seen, hop) in self.seen.iter().zip(hops) {
            let ticks = hop.at.wrapping_sub(seen.at);
            if ticks == 0 || ticks > u32::MAX / 2 {
                return None;
            }
            let rate = hop.rate.0 as f64;
            let span = SimTime(u64::from(ticks) * TICK.as_ps());
            let queue = f64::from(hop.queue.min(seen.queue)) / (rate * hpcc.round_trip.as_s_f64());
            let u = queue + f64::from(hop.sent.wrapping_sub(seen.sent)) / span.as_s_f64() / rate;
            if u > highest {
                (highest, time) = (u, span.as_ps() as f64);
            }
        }
        Some((highest, time))
    }

    fn see(&mut self, telemetry: &Telemetry) {
        let hops = telemetry.hops();
        (self.hops, self.path) = (hops.len() as u8, telemetry.path());
        for (seen, hop) in self.seen.iter_mut().zip(hops) {
            *seen = Seen { queue: hop.queue, sent: hop.sent, at: hop.at };
        }
    }
}

/// What a link has on the way in a round trip, bytes: the largest window.
fn product(hpcc: &Hpcc, line: ByteRate) -> f64 {
    line.0 as f64 * hpcc.round_trip.as_ps() as f64 / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;
    use narrows_units::Bytes;

    /// 12.5 KB in a round trip of 10 us; additive increases of 12.5 KB x 5 % / 10 = 62.5 B.
    const LINE: ByteRate = ByteRate(1_250_000_000);
    const HPCC: Hpcc = Hpcc { round_trip: SimTime::from_us(10), utilization: Fraction(950_000), max_stage: 2, flows: 10 };

    /// Of switches on the way: bytes that wait, bytes sent so far; at this time.
    fn telemetry(at: SimTime, hops: &[(u64, u64)]) -> Telemetry {
        let mut telemetry = Telemetry::default();
        (0..).zip(hops).for_each(|(link, &(queue, sent))| telemetry.push(link, Hop::new(Bytes(queue), sent, at, LINE)));
        telemetry
    }

    /// A source with this U whose first packet has seen this, at 0.
    fn source(in_flight: f64, hops: &[(u64, u64)]) -> Source {
        let mut source = Source { in_flight, ..Source::new(&HPCC, LINE) };
        assert_eq!(source.window, 12_500.0);
        let first = telemetry(SimTime::ZERO, hops);
        assert_eq!(source.follow(&first, 1, 5, LINE, &HPCC), None, "nothing to compare with");
        source
    }

    fn acknowledge(source: &mut Source, at: SimTime, acknowledged: u16, hops: &[(u64, u64)]) {
        let telemetry = telemetry(at, hops);
        source.follow(&telemetry, acknowledged, acknowledged + 4, LINE, &HPCC);
    }

    /// 4882 ticks of 1.024 ns.
    const HALF: SimTime = SimTime(4882 << 10);

    /// The busiest link counts, with the shorter of its two queues, and as much of it as was seen of a round trip.
    #[test]
    fn the_bytes_in_flight_are_those_of_the_busiest_link() {
        let mut source = source(1.0, &[(0, 0), (500, 0)]);
        let time = HALF.as_s_f64();
        acknowledge(&mut source, HALF, 2, &[(9_000, 3_000), (800, 6_000)]);
        let u = 500.0 / 12_500.0 + 6_000.0 / time / 1.25e9;
        let expected = 1.0 + time / 10e-6 * (u - 1.0);
        assert!((source.in_flight - expected).abs() < 1e-12, "{} {expected}", source.in_flight);
        // A long time without a packet: the last one alone.
        acknowledge(&mut source, HALF + SimTime(50_000 << 10), 3, &[(0, 3_000), (0, 6_000 + 12_800)]);
        let expected = 12_800.0 / SimTime(50_000 << 10).as_s_f64() / 1.25e9;
        assert!((source.in_flight - expected).abs() < 1e-12, "{} {expected}", source.in_flight);
    }

    /// Every acknowledgement moves the window from the same reference; one of a packet of the next round trip moves
    /// that.
    #[test]
    fn the_window_is_cut_to_the_target_once_in_a_round_trip() {
        let mut source = source(1.9, &[(11_250, 0)]);
        for acknowledged in [2, 5, 6] {
            assert_eq!(source.reference, 12_500.0, "packet 5 is the first of the next round trip");
            let now = HALF * u64::from(acknowledged);
            acknowledge(&mut source, now, acknowledged, &[(11_250, (1.25e9 * now.as_s_f64()) as u64)]);
            // 0.9 of a round trip waits, and the link is busy.
            assert!((source.in_flight - 1.9).abs() < 1e-3, "{}", source.in_flight);
            assert!((source.window - (12_500.0 * 0.95 / source.in_flight + 62.5)).abs() < 1e-9);
        }
        assert_eq!((source.reference, source.next_update), (source.window, 10));
    }

    /// Additive increases for two round trips, then as far as the target allows.
    #[test]
    fn below_the_target_it_grows_by_stages() {
        let mut source = source(0.5, &[(0, 0), (500, 0)]);
        (source.window, source.reference) = (5_000.0, 5_000.0);
        let (mut sent, mut windows) = (0, Vec::new());
        for turn in 1..=4u64 {
            // Half of the link, all the time.
            let now = SimTime(turn * (10_000 << 10));
            sent += (1.25e9 * SimTime(10_000 << 10).as_s_f64() / 2.0) as u64;
            acknowledge(&mut source, now, 5 * turn as u16 + 1, &[(0, sent), (0, 0)]);
            windows.push(source.window);
        }
        let third = 5_125.0 * 0.95 / source.in_flight + 62.5;
        for (window, expected) in windows.iter().zip([5_062.5, 5_125.0, third, third + 62.5]) {
            assert!((window - expected).abs() < 0.1, "{windows:?}, expected {expected}");
        }
    }

    /// W = W eta / U + W_AI has one fixed point, (1 - eta) / N / (1 - eta / U) of B T, whatever the window was. It
    /// hangs on the last part of U: who sees four thousandths more than others, as next to the target of a parking lot,
    /// has a quarter less.
    #[test]
    fn the_fixed_point_hangs_on_small_differences() {
        let hpcc = Hpcc { flows: 16, ..HPCC };
        let share = |u: f64, window: f64| {
            let mut source = Source { window, reference: window, ..source(u, &[(0, 0)]) };
            let (step, mut sent) = (SimTime(10_000 << 10), 0.0);
            for turn in 1..=2_000u64 {
                sent += u * LINE.0 as f64 * step.as_s_f64();
                // Behind the number at which Wc follows.
                let acknowledged = source.next_update.wrapping_add(1);
                source.follow(&telemetry(step * turn, &[(0, sent as u64)]), acknowledged, acknowledged, LINE, &hpcc);
            }
            source.window / 12_500.0
        };
        for (u, expected) in [(0.9618, 0.2547), (0.9654, 0.1959)] {
            assert!((0.05 / 16.0 / (1.0 - 0.95 / u) / expected - 1.0f64).abs() < 1e-3);
            for window in [500.0, 12_500.0] {
                assert!((share(u, window) / expected - 1.0).abs() < 0.01, "{u} from {window}: {}", share(u, window));
            }
        }
    }

    #[test]
    fn another_way_and_an_old_packet_say_nothing() {
        let mut source = source(1.0, &[(0, 0), (500, 0)]);
        let before = source.in_flight;
        acknowledge(&mut source, HALF, 6, &[(0, 0), (0, 0), (0, 0)]);
        assert_eq!((source.in_flight, source.hops), (before, 3));
        acknowledge(&mut source, SimTime::ZERO, 7, &[(0, 0), (0, 0), (0, 0)]);
        assert_eq!(source.in_flight, before);
    }

    #[test]
    fn it_is_paced_at_its_window_over_a_round_trip() {
        let mut source = Source::new(&HPCC, LINE);
        assert!(source.allows(SimTime::ZERO, 0, 12_499) && !source.allows(SimTime::ZERO, 0, 12_500));
        source.window = 1_250.0;
        assert_eq!(source.made(SimTime::ZERO, 1_000, &HPCC), Some(SimTime::from_us(8)));
        assert!(!source.allows(SimTime::from_us(7), 0, 0) && source.allows(SimTime::from_us(8), 0, 0));
    }
}
