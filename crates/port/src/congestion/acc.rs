//! The source of ACC ([`Acc`]): it tells the links of its way once a period what it was granted, and sends at the least
//! of the shares that come back. Pulses are those of the port's clock.

use super::{CongestionControl, Control, Pacer, Port};
use crate::NONE;
use crate::flow::Flow;
use narrows_fabric::control::{FlowRate, NO_LINK};
use narrows_fabric::port::{Label, PortEffects};
use narrows_fabric::{Acc, AccPolicy, Transfer};
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

/// What a port keeps.
#[derive(Debug, Default)]
pub(crate) struct AtPort {
    /// Flows that tell of themselves.
    telling: Vec<Flow>,
    /// How early the clock is.
    early: SimTime,
    /// It strikes.
    pulses: bool,
}

/// What the clock strikes: a pulse, the middle between two, or nothing but a packet to be sent.
const PULSE: u32 = 0;
const MIDDLE: u32 = 1;
const ASK: u32 = 2;

impl AtPort {
    /// The number of the period of the port's clock.
    fn period(&self, now: SimTime, acc: &Acc) -> u64 {
        (now + self.early).as_ps() / acc.period.as_ps()
    }

    /// The next pulse, and the middle before it if that is to come.
    fn schedule_pulse<E: PortEffects>(&self, acc: &Acc, port: &mut Port<'_, E>) {
        let next = acc.period * (self.period(port.now, acc) + 1) - self.early;
        port.strike(next, PULSE);
        let middle = next.saturating_sub(acc.period / 2);
        if acc.packets_per_period == 2 && middle > port.now {
            port.strike(middle, MIDDLE);
        }
    }
}

/// A control packet about a flow, if there is something to tell.
fn tell<E: PortEffects>(port: &mut Port<'_, E>, flow: Flow, acc: &Acc, what: impl FnOnce(&mut Source, u8) -> Option<FlowRate>) -> bool {
    let (peer, virtual_network, Control::Acc(source)) = port.source(flow) else { return false };
    let Some(rate) = what(source, virtual_network) else { return false };
    port.send(&rate.label(port.host, peer, port.common.network, acc.packet), NONE);
    true
}

impl CongestionControl for Source {
    type Numbers = Acc;
    type AtPort = AtPort;

    fn new(_: &Acc, line: ByteRate) -> Source {
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

    fn allows(&self, now: SimTime, _: u32, _: u64) -> bool {
        self.rate.0 > 0 && self.pacer.allows(now)
    }

    fn made(&mut self, now: SimTime, wire: u32, _: &Acc) -> Option<SimTime> {
        self.backlog = self.backlog.saturating_sub(u64::from(wire));
        self.made += u64::from(wire);
        Some(self.pacer.made(now, wire, self.rate))
    }

    fn at_port(acc: &Acc, seed: u64, host: u32) -> AtPort {
        AtPort { early: acc.clock_skew(seed, "acc clock of a host", host), ..AtPort::default() }
    }

    fn offered<E: PortEffects>(at: &mut AtPort, acc: &Acc, flow: Flow, message: &Transfer, port: &mut Port<'_, E>) {
        let wire = port.common.wire(message);
        let (_, _, Control::Acc(source)) = port.source(flow) else { return };
        if !source.offer(acc, wire) {
            return;
        }
        let period = at.period(port.now, acc);
        at.telling.push(flow);
        if acc.policy >= AccPolicy::FrpInit {
            tell(port, flow, acc, |source, virtual_network| Some(source.tell(period, acc, true, virtual_network)));
            port.strike(port.now, ASK);
        }
        if !std::mem::replace(&mut at.pulses, true) {
            at.schedule_pulse(acc, port);
        }
    }

    fn struck<E: PortEffects>(at: &mut AtPort, acc: &Acc, what: u32, port: &mut Port<'_, E>) {
        let period = at.period(port.now, acc);
        match what {
            PULSE => {
                at.telling.retain(|&flow| {
                    let goes_on = tell(port, flow, acc, |source, network| source.pulse(period, acc, network));
                    if !goes_on && acc.policy >= AccPolicy::FrpInit {
                        tell(port, flow, acc, |_, network| Some(Source::fin(period, network)));
                    }
                    goes_on
                });
                at.pulses = !at.telling.is_empty();
                if at.pulses {
                    at.schedule_pulse(acc, port);
                }
            }
            MIDDLE => {
                for &flow in &at.telling {
                    tell(port, flow, acc, |source, network| source.declare(period, acc, network));
                }
            }
            _ => {}
        }
    }

    /// A flow rate packet: a request goes back, a response says how fast its flow may send from now on.
    fn heard<E: PortEffects>(_: &mut AtPort, acc: &Acc, label: &Label, _: u32, port: &mut Port<'_, E>) -> Option<u32> {
        let rate = FlowRate::of(label);
        if rate.response {
            let flow = port.flow_to(label.source, rate.virtual_network)?;
            let (_, _, Control::Acc(source)) = port.source(flow) else { return None };
            let next = source.respond(acc, &rate);
            port.pace(flow, next);
            return Some(u32::from(rate.virtual_network));
        }
        // Of two packets in a period only the first one asks.
        if rate.fin || acc.packets_per_period == 2 && rate.counts && !rate.init {
            return None;
        }
        let response = FlowRate { response: true, ..rate };
        port.send(&response.label(label.target, label.source, label.virtual_network, acc.packet), NONE);
        Some(u32::from(label.virtual_network))
    }

    fn given_up(&mut self, at: &mut AtPort, flow: Flow) {
        at.telling.retain(|&of| of != flow);
        (self.active, self.backlog, self.made) = (false, 0, 0);
    }

    fn is_idle(at: &AtPort) -> bool {
        !at.pulses
    }
}

impl Source {
    /// There is more to send; whether the flow begins with it.
    fn offer(&mut self, acc: &Acc, wire: u64) -> bool {
        self.backlog = self.backlog.saturating_add(wire);
        if std::mem::replace(&mut self.active, true) {
            return false;
        }
        let Source { pacer, line, backlog, .. } = *self;
        let rate = if acc.policy >= AccPolicy::WaitForFeedback { ByteRate(0) } else { line };
        *self = Source { pacer, rate, active: true, fresh: true, backlog, ..Source::new(acc, line) };
        true
    }

    /// A packet to ask the links with, and to tell them what the flow uses of its grant if it `counts`.
    fn tell(&mut self, period: u64, acc: &Acc, counts: bool, virtual_network: u8) -> FlowRate {
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
    fn pulse(&mut self, period: u64, acc: &Acc, virtual_network: u8) -> Option<FlowRate> {
        if self.backlog == 0 && self.made == 0 {
            self.active = false;
            return None;
        }
        let tells = self.tell(period, acc, acc.packets_per_period == 1, virtual_network);
        self.made = 0;
        Some(tells)
    }

    /// The middle of a period: with two packets, what the flow was granted in it.
    fn declare(&mut self, period: u64, acc: &Acc, virtual_network: u8) -> Option<FlowRate> {
        // The packet that it began with was counted.
        (self.active && !self.fresh && self.began != period).then(|| self.tell(period, acc, true, virtual_network))
    }

    /// A response; when the next packet may be made.
    fn respond(&mut self, acc: &Acc, response: &FlowRate) -> SimTime {
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
    fn fin(period: u64, virtual_network: u8) -> FlowRate {
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
            let mut source = Source::new(&acc, ByteRate(1_600));
            assert!(source.offer(&acc, 100) && !source.offer(&acc, 100));
            assert_eq!(source.allows(SimTime::ZERO, 0, 0), allowed);
            assert!(source.tell(0, &acc, true, 0).init && !source.tell(0, &acc, true, 0).init);
            source.respond(&acc, &response(800, 3));
            assert!(source.allows(SimTime::ZERO, 0, 0));
            assert_eq!(source.rate, ByteRate(800), "the first one is believed");
        }
    }

    #[test]
    fn wait_to_rise_goes_up_by_steps_that_double() {
        let rates = |policy| -> Vec<u64> {
            let acc = acc(policy);
            let mut source = Source::new(&acc, ByteRate(1_600));
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
        let mut source = Source::new(&acc, ByteRate(1_000_000_000));
        source.offer(&acc, 2_000);
        source.tell(0, &acc, true, 0);
        source.respond(&acc, &response(500_000_000, 3));
        source.made(SimTime::ZERO, 1_000, &acc);
        let told = source.pulse(1, &acc, 0).unwrap();
        assert_eq!((told.granted, told.granted_by), (ByteRate(500_000_000), 3), "something waits");
        source.made(SimTime::ZERO, 1_000, &acc);
        let told = source.pulse(2, &acc, 0).unwrap();
        assert_eq!((told.granted, told.granted_by), (ByteRate(50_000_000), NO_LINK), "1000 B in 20 us");
        assert_eq!(source.pulse(3, &acc, 0), None);
        assert!(source.offer(&acc, 1), "and begins again");
    }
}
