//! The source of s-PERC ([`Sperc`](narrows_fabric::Sperc); Jose et al., SIGMETRICS 2019): as long as it has something
//! to send a control packet goes round, and it sends at the least of what links have granted there.

use super::Pacer;
use narrows_fabric::telemetry::Shares;
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pacer: Pacer,
    line: ByteRate,
    /// 0 until the first grants are there.
    rate: ByteRate,
    /// Bytes to be made packets of.
    backlog: u64,
    /// A control packet goes round; the last one was sent then.
    running: bool,
    asked: SimTime,
}

/// No rate is below this part of its link's (our choice), so that every flow goes on.
const LEAST_RATE: u64 = 1024;

impl Source {
    pub(crate) fn new(line: ByteRate) -> Source {
        Source { pacer: Pacer::default(), line, rate: ByteRate(0), backlog: 0, running: false, asked: SimTime::ZERO }
    }

    pub(crate) fn allows(&self, now: SimTime) -> bool {
        self.rate.0 > 0 && self.pacer.allows(now)
    }

    pub(crate) fn made(&mut self, now: SimTime, wire: u32) -> SimTime {
        self.backlog = self.backlog.saturating_sub(u64::from(wire));
        self.pacer.made(now, wire, self.rate)
    }

    /// There is more to send; whether a control packet has to go.
    pub(crate) fn offer(&mut self, now: SimTime, wire: u64) -> bool {
        self.backlog = self.backlog.saturating_add(wire);
        let begins = !std::mem::replace(&mut self.running, true);
        if begins {
            (self.rate, self.asked) = (ByteRate(0), now);
        }
        begins
    }

    /// A control packet is back; when the next packet of a message may be made.
    pub(crate) fn granted(&mut self, shares: &Shares) -> SimTime {
        self.rate = ByteRate(shares.rate().0.clamp((self.line.0 / LEAST_RATE).max(1), self.line.0));
        self.pacer.change(self.rate)
    }

    /// When it goes again, once in a round; none if it is to tell links that the flow is over.
    pub(crate) fn ask(&mut self, now: SimTime, round: SimTime) -> Option<SimTime> {
        self.running = self.backlog > 0;
        self.asked = now.max(self.asked + round);
        self.running.then_some(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_its_first_rate_and_ends_when_nothing_is_left() {
        let (us, line) = (SimTime::from_us, ByteRate(1_024_000));
        let mut source = Source::new(line);
        assert!(source.offer(us(1), 1_000) && !source.offer(us(1), 1_000));
        assert!(!source.allows(us(1)));
        let mut shares = Shares::default();
        source.granted(&shares);
        assert_eq!(source.rate, line, "no link limits it");
        let (place, fresh) = shares.of(7).unwrap();
        assert!(fresh);
        shares.link(place).granted = 500_000;
        source.granted(&shares);
        assert_eq!(source.made(us(5), 1_000), us(2_000));
        assert_eq!(source.ask(us(5), us(10)), Some(us(11)), "once in a round");
        shares.link(place).granted = 10;
        source.granted(&shares);
        assert_eq!(source.rate, ByteRate(1_000));
        source.made(us(3_000), 1_000);
        assert_eq!(source.ask(us(3_000), us(10)), None);
        assert!(source.offer(us(4_000), 1) && !source.allows(us(9_000_000)), "and begins again");
    }
}
