//! The congestion control of a flow: when it may send its next packet.

use narrows_fabric::Congestion;
use narrows_units::{ByteRate, Bytes, SimTime};

/// What a flow knows of its rate. Packets that are sent again, and acknowledgements, do not ask.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// As fast as its window and the link let it.
    None,
    /// At a fixed rate at most: the time from which on the next packet may be made.
    Throttle { rate: ByteRate, next: SimTime },
}

impl Control {
    pub(crate) fn new(congestion: Congestion) -> Control {
        match congestion {
            Congestion::None => Control::None,
            Congestion::Throttle(rate) => Control::Throttle { rate, next: SimTime::ZERO },
        }
    }

    /// A packet may be made now.
    #[inline]
    pub(crate) fn allows(&self, now: SimTime) -> bool {
        match self {
            Control::None => true,
            Control::Throttle { next, .. } => *next <= now,
        }
    }

    /// A packet of `wire` bytes is made now; when the next one may be, if that is later.
    #[inline]
    pub(crate) fn made(&mut self, now: SimTime, wire: u32) -> Option<SimTime> {
        match self {
            Control::None => None,
            Control::Throttle { rate, next } => {
                *next = now + rate.time_for(Bytes(u64::from(wire)));
                Some(*next)
            }
        }
    }
}
