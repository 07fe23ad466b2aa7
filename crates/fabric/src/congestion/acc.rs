//! ACC ([`Acc`]; RED-SEA D1.4 section 8.1), at links: a contention point in front of each, without any state of a flow.
//!
//! A contention point gives all flows that it limits the same share of its link's rate. Flows say once a period what
//! they were granted and by which link: those that this link limits are counted, of the others the rates are added up.
//! At the next pulse the new share is what the others leave, divided by the number of the former. It goes down at once
//! and up by a part of the way, without which it would swing in large networks (measured: docs/congestion.md).
//!
//! Pulses are no events: the point counts those that have passed when the next packet comes.

use super::{AtLinks, Links, Numbers, Start, check_part, check_period, refuse};
use crate::Carried;
use crate::config::{ConfigError, NetworkConfig};
use crate::control::FlowRate;
use crate::packet::state::Packet;
use crate::port::PacketKind;
use narrows_keys::{choice, keys};
use narrows_topology::Topology;
use narrows_units::{ByteRate, Bytes, Fraction, SimTime};

keys! {
    /// Accurate congestion control (RED-SEA D1.4 section 8.1): links grant their flows max-min fair rates, by flow rate
    /// packets (FRPs) that go to the target and back once a period. What the document does not say is our reading.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Acc {
        /// With `acc`: what sources and links do; each policy has what those before it have.
        pub policy: AccPolicy = "mind-the-gap";
        /// The part of each link's rate that is not granted to any flow.
        pub margin: Fraction = 0.05, in ..=999_999;
        /// Between two pulses of the fabric's clock, at which links find new shares.
        pub period: SimTime = "20 us", in SimTime::from_ns(100)..;
        /// Flow rate packets of a flow in a period; two make the loop half as long.
        pub packets_per_period: u32 = 1, in 1..=2;
        /// A share goes up by this part of the way in a period, and down at once.
        pub rise: Fraction = 0.5, in ..=1_000_000;
        /// A flow rate packet on the wire.
        pub packet: Bytes = "32 B", in Bytes(1)..;
        /// Each clock is early by up to this, at most a quarter of the period.
        pub skew: SimTime = "0 ns";
    }
}

impl Acc {
    /// How early one of the fabric's clocks is.
    pub fn clock_skew(&self, seed: u64, name: &str, index: u32) -> SimTime {
        SimTime(narrows_engine::stream(seed, name, u64::from(index)).below(self.skew.as_ps() + 1))
    }
}

choice! {
    /// The policies of ACC, in the order of D1.4: each has what those before it have.
    #[derive(PartialOrd, Ord)]
    pub enum AccPolicy {
        /// FRPs at the pulses alone.
        FrpOnly = "frp-only",
        /// A flow that begins or ends says so at once, and links make room for it within the period.
        FrpInit = "frp-init",
        /// A flow sends nothing before its first rate is there; it begins at full speed without.
        WaitForFeedback = "wait-for-feedback",
        /// A flow that was granted a link's share counts among its own, whichever link it was that granted it.
        MindTheGap = "mind-the-gap",
        /// After a rise that looks like a mistake a source goes up by steps that double.
        WaitToRise = "wait-to-rise",
    }
}

impl Numbers for Acc {
    fn control_packet(&self) -> Option<Bytes> {
        Some(self.packet)
    }

    fn check(&self, network: &NetworkConfig, _: &Topology) -> Result<(), ConfigError> {
        check_part("acc margin", self.margin)?;
        check_period("acc period", self.period)?;
        if !(1..=2).contains(&self.packets_per_period) {
            return refuse("acc packets_per_period", self.packets_per_period.to_string(), "1 or 2");
        }
        if self.rise.0 == 0 || self.rise.0 > 1_000_000 {
            return refuse("acc rise", self.rise.as_f64().to_string(), "above 0 and at most 1");
        }
        network.fits_a_packet("acc packet", self.packet)?;
        if self.skew * 4 > self.period {
            return refuse("acc skew", self.skew.to_string(), "at most a quarter of the period");
        }
        Ok(())
    }

    fn at_links(&self, of: &Links<'_>) -> Option<Box<dyn AtLinks>> {
        let point = |&link: &u32| {
            let rate = of.rate(link);
            let capacity = (rate - self.margin.of(rate)).max(1);
            Point {
                link,
                capacity,
                early: self.clock_skew(of.config.seed, "acc clock of a link", link).as_ps(),
                period: 0,
                share: capacity,
                last_share: capacity,
                said: [Said::default(); 2],
                here: 0,
                sum: 0,
            }
        };
        Some(Box::new(Contention { acc: *self, networks: of.networks, points: of.links.iter().map(point).collect() }))
    }
}

/// What flows have said in a period.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// Flows that this link limits.
    here: u64,
    /// Others: how many, their rates together, the highest of them.
    elsewhere: u64,
    sum: u64,
    most: u64,
}

/// A contention point.
#[derive(Clone, Debug)]
struct Point {
    link: u32,
    /// Rate of the link less the margin.
    capacity: u64,
    /// How early its clock is.
    early: u64,
    /// Pulses so far.
    period: u64,
    share: u64,
    /// That of the period before, which flows were granted that tell of it now.
    last_share: u64,
    /// By parity of the period: clocks differ.
    said: [Said; 2],
    /// Of the last period; flows that have begun since are counted.
    here: u64,
    sum: u64,
}

/// The contention points of a region.
#[derive(Debug)]
struct Contention {
    acc: Acc,
    /// Virtual networks that have it, a bit each.
    networks: u32,
    /// By output.
    points: Vec<Point>,
}

/// A share is at least this part of its link's rate (our choice), so that every flow goes on.
const LEAST_SHARE: u64 = 1024;
/// A grant is a share if it is less below it than this part (our choice: the rounding of rates in packets is smaller).
const TOLERANCE: u64 = 256;

impl Point {
    fn least(&self) -> u64 {
        (self.capacity / LEAST_SHARE).max(1)
    }

    fn clamp(&self, share: u64) -> u64 {
        share.clamp(self.least(), self.capacity)
    }

    /// A pulse.
    fn pulse(&mut self, acc: &Acc) {
        let Said { here, elsewhere, sum, most } = std::mem::take(&mut self.said[(self.period & 1) as usize]);
        let left = self.capacity.saturating_sub(sum);
        let share = match left.checked_div(here) {
            Some(share) => share,
            // All are limited elsewhere: the highest of them could have what is left.
            None if elsewhere > 0 => left.saturating_add(most),
            None => self.capacity,
        };
        let share = self.clamp(share);
        self.last_share = self.share;
        // The last bit of the way at once, so that it ends.
        let gap = share.saturating_sub(self.share);
        self.share = if share <= self.share || gap <= share >> 12 { share } else { self.share + acc.rise.of(gap).max(1) };
        (self.here, self.sum) = (here, sum);
        self.period += 1;
    }

    /// Goes through the pulses up to now.
    fn catch_up(&mut self, acc: &Acc, now: u64) {
        let period = (now + self.early) / acc.period.as_ps();
        // After two of them nothing is left of what flows have said.
        while self.period < period && (self.period + 2 >= period || self.said.iter().any(|said| said.here + said.elsewhere > 0)) {
            self.pulse(acc);
        }
        while self.period < period && (self.share, self.last_share) != (self.capacity, self.capacity) {
            self.pulse(acc);
        }
        self.period = period;
    }

    /// A packet passes: what it says is counted, and its explicit rate limited. The rate that it goes on with, if that
    /// is lower.
    fn pass(&mut self, acc: &Acc, now: u64, packet: &FlowRate) -> Option<ByteRate> {
        self.catch_up(acc, now);
        let inits = acc.policy >= AccPolicy::FrpInit;
        let odd = self.period & 1 == 1;
        // Of another period than this one: early from a clock that is ahead, or late.
        let late = packet.odd != odd && (now + self.early) % acc.period.as_ps() < acc.period.as_ps() / 2;
        if packet.fin {
            if inits {
                self.here = self.here.saturating_sub(1);
            }
        } else if packet.counts && !late {
            // Of two packets the one that is counted was granted the share of this period.
            let share = if acc.packets_per_period == 2 { self.share } else { self.last_share };
            let granted = packet.granted.0;
            let own = packet.init
                || packet.granted_by == self.link
                || acc.policy >= AccPolicy::MindTheGap && granted >= share - share / TOLERANCE;
            let said = &mut self.said[usize::from(packet.odd)];
            if own {
                said.here += 1;
            } else {
                said.elsewhere += 1;
                said.sum = said.sum.saturating_add(granted);
                said.most = said.most.max(granted);
            }
        }
        if packet.init && inits && !packet.fin {
            self.here += 1;
            self.share = self.share.min(self.clamp(self.capacity.saturating_sub(self.sum) / self.here));
        }
        (self.share < packet.explicit.0).then_some(ByteRate(self.share))
    }
}

impl AtLinks for Contention {
    fn pass(&mut self, start: &Start, packet: &mut Packet, _: &mut Carried) {
        if packet.kind() != PacketKind::Control {
            return;
        }
        let rate = FlowRate::of(&packet.label());
        if rate.response || self.networks >> rate.virtual_network & 1 == 0 {
            return;
        }
        let point = &mut self.points[start.output as usize];
        if let Some(share) = point.pass(&self.acc, start.now, &rate) {
            FlowRate::lower(packet, share, point.link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::NO_LINK;

    const ACC: Acc = Acc {
        policy: AccPolicy::MindTheGap,
        margin: Fraction(50_000),
        period: SimTime::from_us(20),
        packets_per_period: 1,
        rise: Fraction(500_000),
        packet: Bytes(32),
        skew: SimTime::ZERO,
    };

    fn point() -> Point {
        let (capacity, said) = (1_000_000, [Said::default(); 2]);
        Point { link: 7, capacity, early: 0, period: 0, share: capacity, last_share: capacity, said, here: 0, sum: 0 }
    }

    fn packet(period: u64, granted: u64, granted_by: u32) -> FlowRate {
        FlowRate {
            response: false,
            init: false,
            fin: false,
            counts: true,
            odd: period & 1 == 1,
            virtual_network: 0,
            granted: ByteRate(granted),
            granted_by,
            explicit: ByteRate(2_000_000),
            explicit_by: NO_LINK,
        }
    }

    /// n flows that nothing else limits get an n-th each, and what one with a limit elsewhere leaves is
    /// shared by the others.
    #[test]
    fn the_share_is_what_others_leave() {
        let period = ACC.period.as_ps();
        let mut point = point();
        for _ in 0..5 {
            assert_eq!(point.pass(&ACC, 10, &packet(0, 1_000_000, 7)), Some(ByteRate(1_000_000)));
        }
        assert_eq!(point.pass(&ACC, period, &packet(1, 200_000, 7)), Some(ByteRate(200_000)), "down at once");
        point.pass(&ACC, period, &packet(1, 200_000, 7));
        point.pass(&ACC, period, &packet(1, 100_000, 3));
        // (1,000,000 - 100,000) / 2 is 450,000: half of the way.
        assert_eq!(point.pass(&ACC, 2 * period, &packet(2, 200_000, 7)), Some(ByteRate(325_000)));
        // All that are here are limited elsewhere: the highest of them could go up by what is left.
        let mut point = self::point();
        point.pass(&ACC, 10, &packet(0, 100_000, 3));
        point.pass(&ACC, 10, &packet(0, 300_000, 4));
        point.catch_up(&ACC, period);
        assert_eq!(point.share, 900_000);
    }

    #[test]
    fn a_flow_that_begins_is_counted_at_once_and_one_that_ends_no_more() {
        let period = ACC.period.as_ps();
        let mut point = point();
        point.pass(&ACC, 10, &packet(0, 1_000_000, 7));
        let init = FlowRate { init: true, ..packet(1, 2_000_000, NO_LINK) };
        assert_eq!(point.pass(&ACC, period + 10, &init), Some(ByteRate(500_000)));
        assert_eq!(point.pass(&ACC, period + 20, &init), Some(ByteRate(333_333)));
        let fin = FlowRate { fin: true, ..packet(1, 333_333, 7) };
        point.pass(&ACC, period + 30, &fin);
        assert_eq!(point.here, 2);
        let only = Acc { policy: AccPolicy::FrpOnly, ..ACC };
        let mut point = self::point();
        assert_eq!(point.pass(&only, 10, &init), Some(ByteRate(1_000_000)), "not before the pulse");
    }

    /// Misclassified without: a flow that two links grant the same is one of both.
    #[test]
    fn mind_the_gap_counts_by_the_grant() {
        let period = ACC.period.as_ps();
        for (policy, share) in [(AccPolicy::WaitForFeedback, 1_000_000), (AccPolicy::MindTheGap, 500_000)] {
            let acc = Acc { policy, ..ACC };
            let mut point = point();
            point.pass(&acc, 10, &packet(0, 1_000_000, 3));
            point.pass(&acc, 10, &packet(0, 1_000_000, 4));
            point.catch_up(&acc, period);
            // Without it both are elsewhere, and the highest of them may go on as before.
            assert_eq!(point.share, share, "{policy:?}");
        }
    }

    /// A long time without a packet is not gone through pulse by pulse, and leaves the whole link.
    #[test]
    fn time_without_flows_is_skipped() {
        let mut point = point();
        (0..5).for_each(|_| _ = point.pass(&ACC, 10, &packet(0, 1_000_000, 7)));
        point.catch_up(&ACC, u64::MAX / 2);
        assert_eq!((point.share, point.last_share), (1_000_000, 1_000_000));
        assert_eq!(point.period, u64::MAX / 2 / ACC.period.as_ps());
    }
}
