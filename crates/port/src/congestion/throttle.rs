//! A fixed rate at most, which the machine file says.

use super::CongestionControl;
use narrows_units::{ByteRate, Bytes, SimTime};

/// A flow at its source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// When the next packet may be made.
    next: SimTime,
}

impl CongestionControl for Source {
    type Numbers = ByteRate;
    type AtPort = ();

    fn new(_: &ByteRate, _: ByteRate) -> Source {
        Source { next: SimTime::ZERO }
    }

    fn allows(&self, now: SimTime, _: u32, _: u64) -> bool {
        self.next <= now
    }

    fn made(&mut self, now: SimTime, wire: u32, rate: &ByteRate) -> Option<SimTime> {
        self.next = now + rate.time_for(Bytes(u64::from(wire)));
        Some(self.next)
    }
}
