//! The source of ACC ([`Acc`]): it tells the links of its way once a period what it was granted, and sends at the least
//! of the shares that come back.

use super::Pacer;
use narrows_fabric::control::{FlowRate, NO_LINK};
use narrows_fabric::{Acc, AccPolicy};
use narrows_units::{ByteRate, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pacer: Pacer,
    line: ByteRate,
    /// At which it sends; 0 while it waits for its first one.
    rate: ByteRate,
    /// What the last response said, and which link.
    granted: ByteRate,
    granted_by: u32,
    /// The next step of a rise that looks like a mistake.
    step: u64,
    /// The last response was a cut.
    cut: bool,
    /// It has something to send, or had in this period.
    active: bool,
    /// No packet told of it yet.
    fresh: bool,
    /// The period in which it began to tell of itself.
    began: u64,
    /// Bytes to be made packets of.
    backlog: u64,
    /// Bytes that were, since the last pulse.
    made: u64,
}

/// The first step of a rise that looks like a mistake, as a part of the line rate (our choice).
const FIRST_STEP: u64 = 16;

impl Source {
    pub(crate) fn new(line: ByteRate) -> Source {
        Source {
            pacer: Pacer::default(),
            line,
            rate: line,
            granted: line,
            granted_by: NO_LINK,
            step: line.0 / FIRST_STEP,
            cut: false,
            active: false,
            fresh: false,
            began: 0,
            backlog: 0,
            made: 0,
        }
    }

    pub(crate) fn allows(&self, now: SimTime) -> bool {
        self.rate.0 > 0 && self.pacer.allows(now)
    }

    pub(crate) fn made(&mut self, now: SimTime, wire: u32) -> SimTime {
        self.backlog = self.backlog.saturating_sub(u64::from(wire));
        self.made += u64::from(wire);
        self.pacer.made(now, wire, self.rate)
    }

    /// There is more to send; whether the flow begins with it.
    pub(crate) fn offer(&mut self, acc: &Acc, wire: u64) -> bool {
        self.backlog = self.backlog.saturating_add(wire);
        if std::mem::replace(&mut self.active, true) {
            return false;
        }
        let Source { pacer, line, backlog, .. } = *self;
        let rate = if acc.policy >= AccPolicy::WaitForFeedback { ByteRate(0) } else { line };
        *self = Source { pacer, rate, active: true, fresh: true, backlog, ..Source::new(line) };
        true
    }

    /// A packet to ask the links with, and to tell them what the flow uses of its grant if it `counts`.
    pub(crate) fn tell(&mut self, period: u64, acc: &Acc, counts: bool, virtual_network: u8) -> FlowRate {
        let init = std::mem::take(&mut self.fresh);
        if init {
            self.began = period;
        }
        // A flow without anything that waits is limited by itself.
        let used = if self.backlog > 0 || init { self.granted } else { self.demand(acc) };
        let own = used < self.granted;
        FlowRate {
            response: false,
            init,
            fin: false,
            counts: counts || init,
            odd: period & 1 == 1,
            virtual_network,
            granted: used.min(self.granted),
            granted_by: if own { NO_LINK } else { self.granted_by },
            explicit: self.line,
            explicit_by: NO_LINK,
        }
    }

    /// What it has made since the last pulse, as a rate.
    fn demand(&self, acc: &Acc) -> ByteRate {
        let rate = u128::from(self.made) * u128::from(SimTime::from_us(1_000_000).as_ps()) / u128::from(acc.period.as_ps());
        ByteRate(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// A pulse: what to tell, or nothing for a flow that has ended.
    pub(crate) fn pulse(&mut self, period: u64, acc: &Acc, virtual_network: u8) -> Option<FlowRate> {
        if self.backlog == 0 && self.made == 0 {
            self.active = false;
            return None;
        }
        let tells = self.tell(period, acc, acc.packets_per_period == 1, virtual_network);
        self.made = 0;
        Some(tells)
    }

    /// The middle of a period: with two packets, what the flow was granted in it.
    pub(crate) fn declare(&mut self, period: u64, acc: &Acc, virtual_network: u8) -> Option<FlowRate> {
        // The packet that it began with was counted.
        (self.active && !self.fresh && self.began != period).then(|| self.tell(period, acc, true, virtual_network))
    }

    /// A response; when the next packet may be made.
    pub(crate) fn respond(&mut self, acc: &Acc, response: &FlowRate) -> SimTime {
        let FlowRate { explicit, explicit_by, .. } = *response;
        let waited = self.rate.0 == 0;
        if waited || explicit <= self.rate {
            self.cut = explicit < self.rate;
            self.rate = explicit;
            self.step = self.line.0 / FIRST_STEP;
        } else {
            let suspicious = u128::from(explicit.0) * 4 > u128::from(self.granted.0) * 5 || explicit_by != self.granted_by || self.cut;
            if acc.policy >= AccPolicy::WaitToRise && suspicious {
                self.rate = explicit.min(ByteRate(self.rate.0.saturating_add(self.step)));
                self.step = self.step.saturating_mul(2).min(self.line.0);
            } else {
                self.rate = explicit;
            }
            self.cut = false;
        }
        (self.granted, self.granted_by) = (explicit, explicit_by);
        self.pacer.change(self.rate)
    }

    /// The last packet of a flow.
    pub(crate) fn fin(period: u64, virtual_network: u8) -> FlowRate {
        FlowRate {
            response: false,
            init: false,
            fin: true,
            counts: false,
            odd: period & 1 == 1,
            virtual_network,
            granted: ByteRate(0),
            granted_by: NO_LINK,
            explicit: ByteRate(0),
            explicit_by: NO_LINK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;
    use narrows_units::Bytes;

    fn acc(policy: AccPolicy) -> Acc {
        Acc {
            policy,
            margin: Fraction(50_000),
            period: SimTime::from_us(20),
            packets_per_period: 1,
            rise: Fraction(500_000),
            packet: Bytes(32),
            skew: SimTime::ZERO,
        }
    }

    fn response(explicit: u64, explicit_by: u32) -> FlowRate {
        FlowRate { response: true, explicit: ByteRate(explicit), explicit_by, ..Source::fin(0, 0) }
    }

    #[test]
    fn the_policies_say_how_a_flow_begins() {
        for (policy, allowed) in [(AccPolicy::FrpInit, true), (AccPolicy::WaitForFeedback, false)] {
            let acc = acc(policy);
            let mut source = Source::new(ByteRate(1_600));
            assert!(source.offer(&acc, 100) && !source.offer(&acc, 100));
            assert_eq!(source.allows(SimTime::ZERO), allowed);
            assert!(source.tell(0, &acc, true, 0).init && !source.tell(0, &acc, true, 0).init);
            source.respond(&acc, &response(800, 3));
            assert!(source.allows(SimTime::ZERO));
            assert_eq!(source.rate, ByteRate(800), "the first one is believed");
        }
    }

    #[test]
    fn wait_to_rise_goes_up_by_steps_that_double() {
        let rates = |policy| -> Vec<u64> {
            let acc = acc(policy);
            let mut source = Source::new(ByteRate(1_600));
            source.offer(&acc, 100);
            let after = |(explicit, by)| {
                source.respond(&acc, &response(explicit, by));
                source.rate.0
            };
            [(200, 1), (900, 2), (1_200, 2), (1_300, 2), (1_300, 2), (700, 2)].into_iter().map(after).collect()
        };
        assert_eq!(rates(AccPolicy::MindTheGap), [200, 900, 1_200, 1_300, 1_300, 700]);
        // 100 for another link; 200 for more than a quarter; then nothing is suspicious.
        assert_eq!(rates(AccPolicy::WaitToRise), [200, 300, 500, 1_300, 1_300, 700]);
    }

    #[test]
    fn a_flow_that_needs_less_says_so_and_one_that_needs_nothing_ends() {
        let acc = acc(AccPolicy::FrpInit);
        let mut source = Source::new(ByteRate(1_000_000_000));
        source.offer(&acc, 2_000);
        source.tell(0, &acc, true, 0);
        source.respond(&acc, &response(500_000_000, 3));
        source.made(SimTime::ZERO, 1_000);
        let told = source.pulse(1, &acc, 0).unwrap();
        assert_eq!((told.granted, told.granted_by), (ByteRate(500_000_000), 3), "something waits");
        source.made(SimTime::ZERO, 1_000);
        let told = source.pulse(2, &acc, 0).unwrap();
        assert_eq!((told.granted, told.granted_by), (ByteRate(50_000_000), NO_LINK), "1000 B in 20 us");
        assert_eq!(source.pulse(3, &acc, 0), None);
        assert!(source.offer(&acc, 1), "and begins again");
    }
}
