//! The congestion control of a flow: when it may send its next packet. Packets that are sent again, and
//! acknowledgements, do not ask.

pub(crate) mod acc;
mod dcqcn;
pub(crate) mod hpcc;
mod nscc;
pub(crate) mod sperc;
mod swift;

use narrows_fabric::Congestion;
use narrows_fabric::telemetry::Telemetry;
use narrows_units::{ByteRate, Bytes, SimTime};

/// What a flow knows of its rate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// As fast as its window and the link let it.
    None,
    /// At a fixed rate at most: the time from which on the next packet may be made.
    Throttle { rate: ByteRate, next: SimTime },
    /// At the rate that links grant.
    Acc(acc::Source),
    /// Slower when the target sees marks.
    Dcqcn(dcqcn::Source),
    /// With a window that keeps delays at a target.
    Swift(swift::Source),
    /// With a window that follows delays and marks.
    Nscc(nscc::Source),
    /// With a window that follows what switches write into packets.
    Hpcc(hpcc::Source),
    /// At the max-min fair rate.
    Sperc(sperc::Source),
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged<'a> {
    /// When the last of its packets was sent; none while that waits to be sent again.
    pub sent: Option<SimTime>,
    pub packets: u32,
    pub bytes: u32,
    /// Links that it came over.
    pub hops: u32,
    /// A switch has marked one of them.
    pub marked: bool,
    /// Without an acknowledgement still.
    pub under_way: u64,
    /// What switches wrote into it, behind the last packet that it is for, and the number of the next one.
    pub telemetry: Option<&'a Telemetry>,
    pub acknowledged: u16,
    pub next: u16,
}

/// What is the same for all flows.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// By virtual network.
    pub controls: Box<[Congestion]>,
    /// The rate of the host's link.
    pub line: ByteRate,
    /// A full one.
    pub packet: u32,
}

impl Control {
    /// `line`: the rate of the host's link.
    pub(crate) fn new(congestion: Congestion, line: ByteRate) -> Control {
        match congestion {
            Congestion::None => Control::None,
            Congestion::Throttle(rate) => Control::Throttle { rate, next: SimTime::ZERO },
            Congestion::Acc(_) => Control::Acc(acc::Source::new(line)),
            Congestion::Dcqcn(_) => Control::Dcqcn(dcqcn::Source::new(line)),
            Congestion::Swift(_) => Control::Swift(swift::Source::new()),
            Congestion::Nscc(nscc) => Control::Nscc(nscc::Source::new(&nscc, line)),
            Congestion::Hpcc(hpcc) => Control::Hpcc(hpcc::Source::new(&hpcc, line)),
            Congestion::Sperc(_) => Control::Sperc(sperc::Source::new(line)),
        }
    }

    /// A packet may be made now. `under_way`: those without an acknowledgement, and `bytes` what they are together.
    #[inline]
    pub(crate) fn allows(&self, now: SimTime, under_way: u32, bytes: impl FnOnce() -> u64) -> bool {
        match self {
            Control::None => true,
            Control::Throttle { next, .. } => *next <= now,
            Control::Acc(source) => source.allows(now),
            Control::Dcqcn(source) => source.allows(now),
            Control::Swift(source) => source.allows(now, under_way),
            Control::Nscc(source) => source.allows(bytes()),
            Control::Hpcc(source) => source.allows(now, bytes()),
            Control::Sperc(source) => source.allows(now),
        }
    }

    /// A packet of `wire` bytes is made now; when the next one may be, if that is later.
    #[inline]
    pub(crate) fn made(&mut self, now: SimTime, wire: u32, congestion: &Congestion) -> Option<SimTime> {
        match self {
            Control::None | Control::Nscc(_) => None,
            Control::Throttle { rate, next } => {
                *next = now + rate.time_for(Bytes(u64::from(wire)));
                Some(*next)
            }
            Control::Acc(source) => Some(source.made(now, wire)),
            Control::Sperc(source) => Some(source.made(now, wire)),
            Control::Dcqcn(source) => match congestion {
                Congestion::Dcqcn(dcqcn) => Some(source.made(now, wire, dcqcn)),
                _ => None,
            },
            Control::Swift(source) => source.made(now),
            Control::Hpcc(source) => match congestion {
                Congestion::Hpcc(hpcc) => Some(source.made(now, wire, hpcc)),
                _ => None,
            },
        }
    }

    /// The target has seen marks; when the next packet may be made.
    pub(crate) fn notified(&mut self, now: SimTime, congestion: &Congestion) -> Option<SimTime> {
        match (self, congestion) {
            (Control::Dcqcn(source), Congestion::Dcqcn(dcqcn)) => Some(source.notified(now, dcqcn)),
            _ => None,
        }
    }

    /// An acknowledgement; when the next packet may be made, if that is another time now.
    #[inline]
    pub(crate) fn acknowledged(
        &mut self,
        now: SimTime,
        what: &Acknowledged<'_>,
        congestion: &Congestion,
        common: &Common,
    ) -> Option<SimTime> {
        let Acknowledged { sent, packets, bytes, hops, marked, under_way, telemetry, acknowledged, next } = *what;
        let sent = sent?;
        match (self, congestion) {
            (Control::Swift(source), Congestion::Swift(swift)) => source.acknowledged(now, now - sent, packets, hops, swift),
            (Control::Nscc(source), Congestion::Nscc(nscc)) => {
                source.acknowledged(now, now - sent, bytes, under_way, marked, common.packet, common.line, nscc);
            }
            (Control::Hpcc(source), Congestion::Hpcc(hpcc)) => {
                let news = hpcc::News { telemetry: telemetry?, acknowledged, next };
                return source.acknowledged(&news, common.line, hpcc);
            }
            _ => {}
        }
        None
    }

    /// Packets are sent again.
    pub(crate) fn timed_out(&mut self, now: SimTime, under_way: u64, congestion: &Congestion, common: &Common) {
        match (self, congestion) {
            (Control::Swift(source), Congestion::Swift(swift)) => source.timed_out(now, swift),
            (Control::Nscc(source), Congestion::Nscc(nscc)) => source.timed_out(now, under_way, common.packet, common.line, nscc),
            _ => {}
        }
    }
}

/// Packets at a rate that changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    /// From when on the time of the last packet counts, and its bytes.
    base: SimTime,
    wire: u32,
    next: SimTime,
}

impl Pacer {
    pub(crate) fn allows(&self, now: SimTime) -> bool {
        self.next <= now
    }

    /// A packet is made; when the next one may be. One that had to wait for others at the link, for no longer than its
    /// own time, does not move those behind it.
    pub(crate) fn made(&mut self, now: SimTime, wire: u32, rate: ByteRate) -> SimTime {
        let time = rate.time_for(Bytes(u64::from(wire)));
        self.base = if self.next + time >= now { self.next } else { now };
        self.wire = wire;
        self.next = self.base + time;
        self.next
    }

    /// The rate is another one from now on; when the next packet may be made.
    pub(crate) fn change(&mut self, rate: ByteRate) -> SimTime {
        self.next = self.base + rate.time_for(Bytes(u64::from(self.wire)));
        self.next
    }
}
