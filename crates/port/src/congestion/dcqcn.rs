//! The source of DCQCN ([`Dcqcn`]; Zhu et al., SIGCOMM 2015, section 3.1): a notification of the target cuts the rate,
//! a timer and a counter of bytes raise it again.
//!
//! Timers are no events: those that have run out are made up for when a packet is made or a notification comes.

use super::{CongestionControl, Control, Pacer, Port};
use crate::NONE;
use crate::flow::key;
use narrows_engine::WordMap;
use narrows_fabric::Dcqcn;
use narrows_fabric::control::Notification;
use narrows_fabric::port::{Label, PortEffects};
use narrows_units::{ByteRate, SimTime};

/// A flow at its source (the reaction point).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pacer: Pacer,
    line: u64,
    rate: u64,
    target: u64,
    alpha: f64,
    /// When alpha was last brought up to date.
    alpha_at: SimTime,
    /// When the timer last struck, and bytes since the counter last did.
    timer_at: SimTime,
    bytes: u64,
    /// Times that they did since the last cut.
    timer: u32,
    counter: u32,
}

/// F: steps of fast recovery (SIGCOMM 2015, section 3.1).
const FAST_RECOVERY: u32 = 5;
/// No rate below it: 100 Mbit/s (`MinRate` of rdma-hw.cc in github.com/alibaba-edu/High-Precision-Congestion-Control).
const LEAST_RATE: u64 = 12_500_000;

/// What a port keeps.
#[derive(Debug, Default)]
pub(crate) struct AtPort {
    /// By peer and virtual network: no notification before it (the notification point).
    quiet_until: WordMap<u64, SimTime>,
}

impl CongestionControl for Source {
    type Numbers = Dcqcn;
    type AtPort = AtPort;

    fn new(_: &Dcqcn, line: ByteRate) -> Source {
        Source {
            pacer: Pacer::default(),
            line: line.0,
            rate: line.0,
            target: line.0,
            // Section 3.1: alpha is 1 at first.
            alpha: 1.0,
            alpha_at: SimTime::ZERO,
            timer_at: SimTime::ZERO,
            bytes: 0,
            timer: 0,
            counter: 0,
        }
    }

    fn allows(&self, now: SimTime, _: u32, _: u64) -> bool {
        self.pacer.allows(now)
    }

    fn made(&mut self, now: SimTime, wire: u32, dcqcn: &Dcqcn) -> Option<SimTime> {
        self.catch_up(now, dcqcn);
        self.bytes += u64::from(wire);
        while self.bytes >= dcqcn.byte_counter.0 {
            self.bytes -= dcqcn.byte_counter.0;
            self.counter = self.counter.saturating_add(1);
            self.raise(dcqcn);
        }
        Some(self.pacer.made(now, wire, ByteRate(self.rate)))
    }

    fn marked<E: PortEffects>(at: &mut AtPort, dcqcn: &Dcqcn, label: &Label, port: &mut Port<'_, E>) {
        let Label { source, target, virtual_network, .. } = *label;
        let quiet_until = at.quiet_until.entry(key(source, virtual_network)).or_default();
        if *quiet_until <= port.now {
            *quiet_until = port.now + dcqcn.interval;
            let notification = Notification { virtual_network }.label(target, source, port.common.network, dcqcn.packet);
            port.send_at(port.now, &notification, NONE);
        }
    }

    fn heard<E: PortEffects>(_: &mut AtPort, dcqcn: &Dcqcn, label: &Label, _: u32, port: &mut Port<'_, E>) -> Option<u32> {
        let Notification { virtual_network } = Notification::of(label);
        let (now, flow) = (port.now, port.flow_to(label.source, virtual_network)?);
        let (_, _, Control::Dcqcn(source)) = port.source(flow) else { return None };
        let next = source.notified(now, dcqcn);
        port.pace(flow, next);
        Some(u32::from(virtual_network))
    }

    fn forget(at: &mut AtPort) {
        at.quiet_until.clear();
    }
}

impl Source {
    /// The target has seen marks; when the next packet may be made.
    fn notified(&mut self, now: SimTime, dcqcn: &Dcqcn) -> SimTime {
        self.catch_up(now, dcqcn);
        let gain = dcqcn.gain.as_f64();
        // Equation (1).
        self.target = self.rate;
        self.rate = ((self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64).max(LEAST_RATE.min(self.line));
        self.alpha = (1.0 - gain) * self.alpha + gain;
        (self.alpha_at, self.timer_at) = (now, now);
        (self.bytes, self.timer, self.counter) = (0, 0, 0);
        self.pacer.change(ByteRate(self.rate))
    }

    /// Makes up for the timers that have run out.
    fn catch_up(&mut self, now: SimTime, dcqcn: &Dcqcn) {
        let gain = dcqcn.gain.as_f64();
        // Equation (2).
        while self.alpha_at + dcqcn.alpha_timer <= now && self.alpha > 1e-12 {
            self.alpha *= 1.0 - gain;
            self.alpha_at += dcqcn.alpha_timer;
        }
        while self.timer_at + dcqcn.increase_timer <= now && self.rate < self.line {
            self.timer_at += dcqcn.increase_timer;
            self.timer = self.timer.saturating_add(1);
            self.raise(dcqcn);
        }
    }

    /// A step up: equations (3) and (4).
    fn raise(&mut self, dcqcn: &Dcqcn) {
        let faster = if self.timer.max(self.counter) <= FAST_RECOVERY {
            0
        } else if self.timer.min(self.counter) > FAST_RECOVERY {
            dcqcn.hyper_increase.of(self.line)
        } else {
            dcqcn.additive_increase.of(self.line)
        };
        self.target = self.target.saturating_add(faster).min(self.line);
        // Rounded up, so that it ends.
        self.rate = (self.rate + self.target).div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_fabric::Fraction;
    use narrows_units::Bytes;

    const DCQCN: Dcqcn = Dcqcn {
        interval: SimTime::from_us(50),
        packet: Bytes(84),
        gain: Fraction(3906),
        alpha_timer: SimTime::from_us(55),
        increase_timer: SimTime::from_us(55),
        byte_counter: Bytes(10_000_000),
        additive_increase: Fraction(1_000),
        hyper_increase: Fraction(10_000),
    };
    const LINE: u64 = 5_000_000_000;

    /// The equations of section 3.1, step by step: a cut by half of alpha, five steps that halve the way back, then the
    /// target goes up too.
    #[test]
    fn a_cut_and_its_recovery_follow_the_equations() {
        let us = SimTime::from_us;
        let mut source = Source::new(&DCQCN, ByteRate(LINE));
        source.notified(SimTime::ZERO, &DCQCN);
        assert_eq!((source.rate, source.target), (LINE / 2, LINE), "alpha was 1");
        source.notified(us(50), &DCQCN);
        assert_eq!((source.rate, source.target), (LINE / 4, LINE / 2));
        for step in 1..=5u64 {
            source.catch_up(us(50 + 55 * step), &DCQCN);
            let gap = (LINE / 4) >> step;
            assert_eq!((source.rate, source.target), (LINE / 2 - gap, LINE / 2), "fast recovery, step {step}");
        }
        source.catch_up(us(50 + 55 * 6), &DCQCN);
        assert_eq!(source.target, LINE / 2 + 5_000_000, "additive increase");
        let alpha = (0..6).fold(1.0, |alpha, _| alpha * (1.0 - 0.003906));
        assert!((source.alpha - alpha).abs() < 1e-12);
        // The counter alone is additive, both are hyper.
        source.counter = FAST_RECOVERY;
        source.bytes = 9_999_000;
        source.made(us(50 + 55 * 6), 1_000, &DCQCN);
        assert_eq!(source.target, LINE / 2 + 55_000_000);
    }

    #[test]
    fn rates_stay_between_the_least_and_the_line() {
        let mut source = Source::new(&DCQCN, ByteRate(LINE));
        for at in 0..100 {
            source.notified(SimTime(at), &DCQCN);
        }
        assert_eq!(source.rate, LEAST_RATE);
        source.catch_up(SimTime::from_us(10_000_000), &DCQCN);
        assert_eq!((source.rate, source.target), (LINE, LINE));
    }
}
