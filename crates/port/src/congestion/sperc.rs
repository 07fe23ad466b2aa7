//! The source of s-PERC ([`Sperc`]; Jose et al., SIGMETRICS 2019): as long as it has something
//! to send a control packet goes round, and it sends at the least of what links have granted there.

use super::{CongestionControl, Control, Pacer, Port};
use crate::NONE;
use crate::flow::Flow;
use narrows_fabric::control::{FlowRate, NO_LINK};
use narrows_fabric::port::{Label, PortEffects};
use narrows_fabric::{Carried, Shares, Sperc, Transfer};
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

/// A control packet, which says no more than where it goes.
fn passing(response: bool, fin: bool, virtual_network: u8) -> FlowRate {
    let none = ByteRate(0);
    FlowRate {
        response,
        init: false,
        fin,
        counts: false,
        odd: false,
        virtual_network,
        granted: none,
        granted_by: NO_LINK,
        explicit: none,
        explicit_by: NO_LINK,
    }
}

impl CongestionControl for Source {
    type Numbers = Sperc;
    type AtPort = ();

    fn new(_: &Sperc, line: ByteRate) -> Source {
        Source { pacer: Pacer::default(), line, rate: ByteRate(0), backlog: 0, running: false, asked: SimTime::ZERO }
    }

    fn allows(&self, now: SimTime, _: u32, _: u64) -> bool {
        self.rate.0 > 0 && self.pacer.allows(now)
    }

    fn made(&mut self, now: SimTime, wire: u32, _: &Sperc) -> Option<SimTime> {
        self.backlog = self.backlog.saturating_sub(u64::from(wire));
        Some(self.pacer.made(now, wire, self.rate))
    }

    fn offered<E: PortEffects>(_: &mut (), sperc: &Sperc, flow: Flow, message: &Transfer, port: &mut Port<'_, E>) {
        let (now, wire) = (port.now, port.common.wire(message));
        let (peer, virtual_network, Control::Sperc(source)) = port.source(flow) else { return };
        if source.offer(now, wire) {
            let request = passing(false, false, virtual_network).label(port.host, peer, port.common.network, sperc.packet);
            let carries = port.carried.insert(Carried::Shares(Shares::default()));
            port.send_at(now, &request, carries);
        }
    }

    /// A control packet goes back, or is back: the flow sends at the rate that was granted, and asks again.
    fn heard<E: PortEffects>(_: &mut (), sperc: &Sperc, label: &Label, carries: u32, port: &mut Port<'_, E>) -> Option<u32> {
        let FlowRate { response, fin, virtual_network, .. } = FlowRate::of(label);
        let Label { source: peer, target: host, virtual_network: control, .. } = *label;
        if carries == NONE {
            return None;
        }
        if fin {
            port.carried.remove(carries);
            return None;
        }
        if !response {
            port.send(&passing(true, false, virtual_network).label(host, peer, control, sperc.packet), carries);
            return Some(u32::from(control));
        }
        let Carried::Shares(shares) = port.carried[carries] else { return None };
        let (now, flow) = (port.now, port.flow_to(peer, virtual_network)?);
        let (_, _, Control::Sperc(source)) = port.source(flow) else { return None };
        let (next, again) = (source.granted(&shares), source.ask(now, sperc.round));
        port.pace(flow, next);
        let request = passing(false, again.is_none(), virtual_network).label(host, peer, control, sperc.packet);
        port.send_at(again.unwrap_or(now), &request, carries);
        Some(u32::from(virtual_network))
    }

    /// The control packet that goes round is the last one.
    fn given_up(&mut self, _: &mut (), _: Flow) {
        self.backlog = 0;
    }
}

impl Source {
    /// There is more to send; whether a control packet has to go.
    fn offer(&mut self, now: SimTime, wire: u64) -> bool {
        self.backlog = self.backlog.saturating_add(wire);
        let begins = !std::mem::replace(&mut self.running, true);
        if begins {
            (self.rate, self.asked) = (ByteRate(0), now);
        }
        begins
    }

    /// A control packet is back; when the next packet of a message may be made.
    fn granted(&mut self, shares: &Shares) -> SimTime {
        self.rate = ByteRate(shares.rate().0.clamp((self.line.0 / LEAST_RATE).max(1), self.line.0));
        self.pacer.change(self.rate)
    }

    /// When it goes again, once in a round; none if it is to tell links that the flow is over.
    fn ask(&mut self, now: SimTime, round: SimTime) -> Option<SimTime> {
        self.running = self.backlog > 0;
        self.asked = now.max(self.asked + round);
        self.running.then_some(self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;
    use narrows_units::Bytes;

    #[test]
    fn it_waits_for_its_first_rate_and_ends_when_nothing_is_left() {
        let (us, line) = (SimTime::from_us, ByteRate(1_024_000));
        let sperc = Sperc { margin: Fraction(50_000), round: us(10), packet: Bytes(64) };
        let mut source = Source::new(&sperc, line);
        assert!(source.offer(us(1), 1_000) && !source.offer(us(1), 1_000));
        assert!(!source.allows(us(1), 0, 0));
        let mut shares = Shares::default();
        source.granted(&shares);
        assert_eq!(source.rate, line, "no link limits it");
        let (place, fresh) = shares.of(7).unwrap();
        assert!(fresh);
        shares.link(place).granted = 500_000;
        source.granted(&shares);
        assert_eq!(source.made(us(5), 1_000, &sperc), Some(us(2_000)));
        assert_eq!(source.ask(us(5), us(10)), Some(us(11)), "once in a round");
        shares.link(place).granted = 10;
        source.granted(&shares);
        assert_eq!(source.rate, ByteRate(1_000));
        source.made(us(3_000), 1_000, &sperc);
        assert_eq!(source.ask(us(3_000), us(10)), None);
        assert!(source.offer(us(4_000), 1) && !source.allows(us(9_000_000), 0, 0), "and begins again");
    }
}
