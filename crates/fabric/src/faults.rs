//! Links that lose packets, break them, send them twice or late, or are slow.
//!
//! What a link loses has taken its time on the link, and its credits are back when the far end has seen that nothing
//! came: a link's latency after its tail would have been there. What it breaks goes on to the port that it is for,
//! which finds out by one of two check sums ([`Checks`]), or does not.

use crate::Fraction;
use crate::config::{Checks, NetworkConfig};
use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_units::SimTime;
use std::collections::BTreeSet;

/// A probability, in units of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probability(u64);

impl Probability {
    /// None outside 0 to 1.
    pub fn new(value: f64) -> Option<Probability> {
        // 1 becomes the largest of them: a 2^-64 less.
        (0.0..=1.0).contains(&value).then(|| Probability((value * 2f64.powi(64)) as u64))
    }

    /// Between 0 and 1.
    pub fn value(self) -> f64 {
        self.0 as f64 / 2f64.powi(64)
    }
}

/// What is wrong with a link, or all of them, for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// By its number in the topology; all links without.
    pub link: Option<u32>,
    /// A packet is lost.
    pub loss: Probability,
    /// More for each of its bytes on the wire.
    pub loss_per_byte: Probability,
    /// A packet that is not lost is broken; the port that it is for finds out by its check sum.
    pub corrupt: Probability,
    /// The payload of a packet is broken in front of the link, in the memory of the switch or NIC that sends it: the
    /// FCS that it gets there is right.
    pub silent: Probability,
    /// A packet that is not lost comes twice, if the buffer behind the link has room.
    pub duplicate: Probability,
    /// A packet that is not lost comes late, by the time `late`: others pass it.
    pub reorder: Probability,
    /// By how much.
    pub late: SimTime,
    /// The link has this part of its rate, a thousandth at least,
    pub rate: Fraction,
    /// and so many times its latency, 1 to 1000.
    pub latency: Fraction,
    /// Packets that start on the link from here on,
    pub from: SimTime,
    /// and before this time.
    pub to: SimTime,
    /// Links that lose everything: so long after `from`, packets that leave their ports go around them, and so long
    /// after `to` they take them again.
    pub reroute: Option<SimTime>,
    /// At `to` the port of this host sends again all that was not acknowledged.
    pub resets: Option<u32>,
}

const ONE: Fraction = Fraction(1_000_000);

impl Default for Fault {
    /// Nothing, always.
    fn default() -> Fault {
        Fault {
            link: None,
            loss: Probability::default(),
            loss_per_byte: Probability::default(),
            corrupt: Probability::default(),
            silent: Probability::default(),
            duplicate: Probability::default(),
            reorder: Probability::default(),
            late: SimTime::ZERO,
            rate: ONE,
            latency: ONE,
            from: SimTime::ZERO,
            to: SimTime::MAX,
            reroute: None,
            resets: None,
        }
    }
}

impl Fault {
    /// Something does not arrive as it was sent, so that somebody has to send it again or to put it in order.
    pub fn harms(&self) -> bool {
        let all = [self.loss, self.loss_per_byte, self.corrupt, self.silent, self.duplicate, self.reorder];
        all.iter().any(|probability| probability.0 > 0)
    }

    fn is_at(&self, link: u32, now: SimTime) -> bool {
        self.link.is_none_or(|of| of == link) && self.from <= now && now < self.to
    }
}

/// The link that may be to blame for what was lost at a time: of those of a way the one that loses most, the first of
/// equals.
pub(crate) fn worst(faults: &[Fault], way: &[u32], now: SimTime) -> Option<u32> {
    let harm = |link: u32| {
        let at = faults.iter().filter(|fault| fault.is_at(link, now));
        at.map(|fault| fault.loss.0.max(fault.corrupt.0).max(fault.silent.0)).max().unwrap_or(0)
    };
    let most = way.iter().map(|&link| harm(link)).max().filter(|&most| most > 0)?;
    way.iter().copied().find(|&link| harm(link) == most)
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Strike {
    pub lost: bool,
    /// It is broken, and who finds out.
    pub broken: Option<Finder>,
    /// It comes a second time.
    pub twice: bool,
    /// So much later than it would, in ps.
    pub late: u64,
    /// Packets of the link may pass each other.
    pub disorder: bool,
}

/// What says that a packet is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finder {
    Fcs,
    /// The CRC of the payload alone.
    Crc,
    Nobody,
}

/// The faults of the links of a region.
#[derive(Debug)]
pub(crate) struct Faults {
    checks: Checks,
    header: u32,
    /// By output.
    links: Vec<Option<Box<Link>>>,
    /// Those of all regions.
    all: Vec<Fault>,
}

impl Strike {
    /// One error is enough.
    fn found(&mut self, by: Finder) {
        self.broken = match (self.broken, by) {
            (None | Some(Finder::Nobody), by) => Some(by),
            (_, Finder::Fcs) => Some(Finder::Fcs),
            (before, _) => before,
        };
    }
}

#[derive(Debug)]
struct Link {
    faults: Vec<Fault>,
    draws: Stream,
    /// Where in a packet an error is, and what finds it.
    finds: Stream,
    /// Packets may pass each other, so that no two heads may come at one time:
    disorder: bool,
    /// those of the packets on the link.
    heads: BTreeSet<u64>,
}

/// A check sum of so many bits, at most 32, does not see an error.
fn misses(draws: &mut Stream, bits: u32) -> bool {
    draws.next_u64() >> 32 < 1 << 32 >> bits
}

impl Faults {
    /// Of these links; none where nothing is wrong.
    pub(crate) fn new(config: &NetworkConfig, links: &[u32]) -> Option<Faults> {
        let of = |&link: &u32| {
            let faults: Vec<Fault> = config.faults.iter().filter(|fault| fault.link.is_none_or(|of| of == link)).copied().collect();
            let disorder = faults.iter().any(|fault| fault.reorder.0 > 0 || fault.latency != ONE);
            let draws = || stream(config.seed, "link fault", u64::from(link));
            let finds = || stream(config.seed, "link check", u64::from(link));
            (!faults.is_empty()).then(|| Box::new(Link { faults, draws: draws(), finds: finds(), disorder, heads: BTreeSet::new() }))
        };
        let checks = config.reliability.map_or(Checks::default(), |reliability| reliability.checks);
        let (header, all) = (config.header.0 as u32, config.faults.clone());
        (!config.faults.is_empty()).then(|| Faults { checks, header, links: links.iter().map(of).collect(), all })
    }

    pub(crate) fn all(&self) -> &[Fault] {
        &self.all
    }

    /// By how much longer than `time` a packet takes on an output, and the latency there, in ps.
    pub(crate) fn slowed(&self, output: u32, now: u64, time: u64, latency: u64) -> (u64, u64) {
        let Some(link) = &self.links[output as usize] else { return (0, latency) };
        let now = SimTime(now);
        let mut slowed = (time, latency);
        for fault in link.faults.iter().filter(|fault| fault.from <= now && now < fault.to) {
            if fault.rate != ONE {
                let slower = (u128::from(slowed.0) * u128::from(ONE.0)).div_ceil(u128::from(fault.rate.0.max(1)));
                slowed.0 = u64::try_from(slower).unwrap_or(u64::MAX >> 4);
            }
            if fault.latency != ONE {
                slowed.1 = fault.latency.of(slowed.1);
            }
        }
        (slowed.0 - time, slowed.1)
    }

    /// When the head of a packet comes over a link whose packets may pass each other: `head`, or the next picosecond at
    /// which no other one does.
    pub(crate) fn lone(&mut self, output: u32, now: u64, head: u64) -> u64 {
        let Some(link) = self.links[output as usize].as_mut() else { return head };
        link.heads = link.heads.split_off(&now);
        let mut head = head;
        while !link.heads.insert(head) {
            head += 1;
        }
        head
    }

    /// A packet starts on an output, `data` if it has payload. Draws belong to the link, one or two for each of its
    /// packets and faults, and one more for each of the rarer kinds of faults that it has.
    pub(crate) fn strike(&mut self, output: u32, wire: u32, data: bool, now: u64) -> Strike {
        let mut strike = Strike::default();
        let payload = if data { wire.saturating_sub(self.header) } else { 0 };
        let checks = self.checks;
        let Some(link) = self.links[output as usize].as_mut() else { return strike };
        strike.disorder = link.disorder;
        let now = SimTime(now);
        let Link { faults, draws, finds, .. } = &mut **link;
        for fault in faults.iter().filter(|fault| fault.from <= now && now < fault.to) {
            if draws.next_u64() < fault.loss.0.saturating_add(fault.loss_per_byte.0.saturating_mul(u64::from(wire))) {
                strike.lost = true;
            } else if draws.next_u64() < fault.corrupt.0 {
                // Somewhere in the packet.
                let in_payload = finds.below(u64::from(wire.max(1))) < u64::from(payload);
                let found = if !misses(finds, checks.fcs) {
                    Finder::Fcs
                } else if in_payload && !misses(finds, checks.crc) {
                    Finder::Crc
                } else {
                    Finder::Nobody
                };
                strike.found(found);
            }
            if fault.silent.0 > 0 && payload > 0 && draws.next_u64() < fault.silent.0 {
                let found = if misses(finds, checks.crc) { Finder::Nobody } else { Finder::Crc };
                strike.found(found);
            }
            if fault.duplicate.0 > 0 && draws.next_u64() < fault.duplicate.0 {
                strike.twice = true;
            }
            if fault.reorder.0 > 0 && draws.next_u64() < fault.reorder.0 {
                strike.late = strike.late.saturating_add(fault.late.as_ps());
            }
        }
        strike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probability_is_between_0_and_1() {
        assert_eq!(Probability::new(-1e-9), None);
        assert_eq!(Probability::new(1.0 + 1e-9), None);
        assert_eq!(Probability::new(f64::NAN), None);
        assert_eq!(Probability::new(0.25).unwrap().value(), 0.25);
        assert_eq!(Probability::new(1.0).unwrap().value(), 1.0);
    }

    #[test]
    fn a_link_loses_as_many_as_it_says_while_it_says_so() {
        let fault = Fault {
            link: Some(7),
            loss: Probability::new(0.1).unwrap(),
            corrupt: Probability::new(0.5).unwrap(),
            from: SimTime(1000),
            to: SimTime(101_000),
            ..Fault::default()
        };
        let config = NetworkConfig { faults: vec![fault], ..NetworkConfig::default() };
        assert!(Faults::new(&NetworkConfig::default(), &[1, 2]).is_none(), "nothing is wrong");
        let mut faults = Faults::new(&config, &[1, 7]).unwrap();
        let strikes: Vec<_> = (0..102_000).map(|now| faults.strike(1, 100, true, now)).collect();
        let fine = |strike: &Strike| *strike == Strike::default();
        assert!(strikes[..1000].iter().chain(&strikes[101_000..]).all(fine));
        let count = |what: fn(&Strike) -> bool| strikes.iter().filter(|strike| what(strike)).count() as f64;
        // Four standard deviations.
        assert!((count(|strike| strike.lost) - 10_000.0).abs() < 4.0 * 95.0);
        assert!((count(|strike| strike.broken == Some(Finder::Fcs)) - 45_000.0).abs() < 4.0 * 158.0, "of those that are not lost");
        assert!((0..100).all(|now| fine(&faults.strike(0, 100, true, now + 2000))), "the other link");
    }

    #[test]
    fn a_link_repeats_delays_and_slows_as_it_says() {
        let fault = Fault {
            duplicate: Probability::new(0.2).unwrap(),
            reorder: Probability::new(0.3).unwrap(),
            late: SimTime(77),
            rate: Fraction(250_000),
            latency: Fraction(3_000_000),
            ..Fault::default()
        };
        assert!(fault.harms() && !Fault { duplicate: Probability::default(), reorder: Probability::default(), ..fault }.harms());
        let config = NetworkConfig { faults: vec![fault], ..NetworkConfig::default() };
        let mut faults = Faults::new(&config, &[5]).unwrap();
        assert_eq!(faults.slowed(0, 10, 1000, 200), (3000, 600));
        assert_eq!([50, 50, 51].map(|head| faults.lone(0, 10, head)), [50, 51, 52]);
        let strikes: Vec<_> = (0..100_000).map(|now| faults.strike(0, 100, true, now)).collect();
        let twice = strikes.iter().filter(|strike| strike.twice).count() as f64;
        let late = strikes.iter().filter(|strike| strike.late == 77).count() as f64;
        // Four standard deviations.
        assert!((twice - 20_000.0).abs() < 4.0 * 127.0 && (late - 30_000.0).abs() < 4.0 * 145.0, "{twice} {late}");
    }

    #[test]
    fn the_link_that_loses_most_is_to_blame() {
        let fault = |link, loss: f64| Fault { link: Some(link), loss: Probability::new(loss).unwrap(), ..Fault::default() };
        let faults = [fault(3, 0.1), fault(4, 1.0), fault(5, 1.0), Fault { to: SimTime(10), ..fault(2, 1.0) }];
        assert_eq!(worst(&faults, &[2, 3, 4, 5], SimTime(20)), Some(4));
        assert_eq!(worst(&faults, &[2, 3], SimTime(5)), Some(2));
        assert_eq!(worst(&faults, &[7], SimTime(5)), None);
    }
}
