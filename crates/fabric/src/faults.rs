//! Links that lose packets or break them.
//!
//! What a link loses has taken its time on the link, and its credits are back when the far end has seen that nothing
//! came: a link's latency after its tail would have been there. What it breaks goes on to the port that it is for.

use crate::config::NetworkConfig;
use narrows_engine::random::Stream;
use narrows_engine::stream;
use narrows_units::SimTime;

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
    /// A packet that is not lost is broken; the port that it is for finds out by its check sum.
    pub corrupt: Probability,
    /// Packets that start on the link from here on,
    pub from: SimTime,
    /// and before this time.
    pub to: SimTime,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strike {
    Lost,
    Corrupt,
}

/// The faults of the links of a region.
#[derive(Debug)]
pub(crate) struct Faults {
    /// By output.
    links: Vec<Option<Box<Link>>>,
}

#[derive(Debug)]
struct Link {
    faults: Vec<Fault>,
    draws: Stream,
}

impl Faults {
    /// Of these links; none where nothing is wrong.
    pub(crate) fn new(config: &NetworkConfig, links: &[u32]) -> Option<Faults> {
        let of = |&link: &u32| {
            let faults: Vec<Fault> = config.faults.iter().filter(|fault| fault.link.is_none_or(|of| of == link)).copied().collect();
            (!faults.is_empty()).then(|| Box::new(Link { faults, draws: stream(config.seed, "link fault", u64::from(link)) }))
        };
        let links: Vec<_> = links.iter().map(of).collect();
        links.iter().any(Option::is_some).then_some(Faults { links })
    }

    /// A packet starts on an output. Draws belong to the link, one or two for each of its packets and faults.
    pub(crate) fn strike(&mut self, output: u32, now: u64) -> Option<Strike> {
        let link = self.links[output as usize].as_mut()?;
        let now = SimTime(now);
        let mut strike = None;
        for fault in link.faults.iter().filter(|fault| fault.from <= now && now < fault.to) {
            if link.draws.next_u64() < fault.loss.0 {
                strike = Some(Strike::Lost);
            } else if link.draws.next_u64() < fault.corrupt.0 && strike.is_none() {
                strike = Some(Strike::Corrupt);
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
        };
        let config = NetworkConfig { faults: vec![fault], ..NetworkConfig::default() };
        assert!(Faults::new(&config, &[1, 2]).is_none(), "nothing is wrong with these");
        let mut faults = Faults::new(&config, &[1, 7]).unwrap();
        let strikes: Vec<_> = (0..102_000).map(|now| faults.strike(1, now)).collect();
        assert!(strikes[..1000].iter().chain(&strikes[101_000..]).all(Option::is_none));
        let count = |what| strikes.iter().filter(|&&strike| strike == Some(what)).count() as f64;
        // Four standard deviations.
        assert!((count(Strike::Lost) - 10_000.0).abs() < 4.0 * 95.0);
        assert!((count(Strike::Corrupt) - 45_000.0).abs() < 4.0 * 158.0, "of those that are not lost");
        assert!((0..100).all(|now| faults.strike(0, now + 2000).is_none()), "the other link");
    }
}
