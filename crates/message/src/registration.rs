//! What it costs to make the buffers of long messages known to the NICs, and which of them are known: MPC's cache of
//! registered buffers (src/MPC_Lowcomm/src/lcp/core/lcp_mem.c), first in, first out, but for those in use.

use crate::core::Core;
use crate::rails::Cut;
use crate::{Protocol, Transport};
use narrows_portals::ProcessId;
use narrows_units::SimTime;
use std::collections::VecDeque;

/// What a registration costs a core, and how much stays registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Of a buffer, at each NIC that carries a part of it.
    pub cost: SimTime,
    /// ... and of each 1,024 bytes of it.
    pub per_kib: SimTime,
    /// Registered bytes stay below it, as far as those in use let them.
    pub cache: u64,
}

impl Registration {
    /// Buffers that stay registered: MPC's default of `maxmmuentries`.
    pub const BUFFERS: usize = 1024;

    /// Nothing has to be registered.
    pub const NONE: Registration = Registration { cost: SimTime::ZERO, per_kib: SimTime::ZERO, cache: 0 };

    /// It costs something.
    pub fn costs(&self) -> bool {
        self.cost > SimTime::ZERO || self.per_kib > SimTime::ZERO
    }

    fn time(&self, length: u64) -> SimTime {
        let bytes = (u128::from(length) * u128::from(self.per_kib.0)).div_ceil(1024);
        SimTime(self.cost.0.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)))
    }
}

/// The registered buffers of a process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    buffers: VecDeque<Registrant>,
    bytes: u64,
}

#[derive(Debug)]
struct Registrant {
    start: u64,
    length: u64,
    users: u32,
}

impl Registered {
    /// Takes a buffer into use: true if it has to be registered for that.
    fn take(&mut self, start: u64, length: u64, cache: u64) -> bool {
        if let Some(known) = self.find(start, length) {
            known.users += 1;
            return false;
        }
        while self.buffers.len() >= Registration::BUFFERS || self.bytes.saturating_add(length) >= cache {
            let Some(oldest) = self.buffers.iter().position(|buffer| buffer.users == 0) else { break };
            self.bytes -= self.buffers.remove(oldest).map_or(0, |buffer| buffer.length);
        }
        self.buffers.push_back(Registrant { start, length, users: 1 });
        self.bytes += length;
        true
    }

    /// A use is over.
    fn give_back(&mut self, start: u64, length: u64) {
        if let Some(known) = self.find(start, length) {
            known.users -= 1;
        }
    }

    fn find(&mut self, start: u64, length: u64) -> Option<&mut Registrant> {
        self.buffers.iter_mut().find(|buffer| buffer.start == start && buffer.length == length)
    }

    /// See [`crate::Endpoint::renew`].
    pub(crate) fn forget_order(&mut self) {
        self.buffers.retain(|buffer| buffer.users > 0);
        self.bytes = self.buffers.iter().map(|buffer| buffer.length).sum();
    }
}

impl Core {
    fn registers(&self, peer: ProcessId) -> Option<Registration> {
        let Protocol::Mpc(mpc) = self.config.protocol else { return None };
        (mpc.registration.costs() && peer.nid != self.local().nid).then_some(mpc.registration)
    }

    /// The buffer of a long message from or to `peer` is about to be used by the NICs.
    pub(crate) fn register(&mut self, transport: &mut impl Transport, peer: ProcessId, (start, length): (u64, u64), cut: &Cut) {
        let Some(registration) = self.registers(peer) else { return };
        if self.registered.take(start, length, registration.cache) {
            let rails = cut.rails();
            transport.works(SimTime(registration.time(length).0.saturating_mul(rails)));
        }
    }

    /// They have used it.
    pub(crate) fn registered_for(&mut self, peer: ProcessId, (start, length): (u64, u64)) {
        if self.registers(peer).is_some() {
            self.registered.give_back(start, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// As in a ping-pong: one buffer to send from, one to receive into.
    fn registrations(length: u64, cache: u64) -> usize {
        let mut registered = Registered::default();
        let turns = (0..10).flat_map(|_| [0, 1 << 40]);
        turns
            .filter(|&start| {
                let anew = registered.take(start, length, cache);
                registered.give_back(start, length);
                anew
            })
            .count()
    }

    #[test]
    fn two_buffers_stay_as_long_as_both_are_below_the_limit() {
        assert_eq!(registrations(GIB, 4 * GIB), 2);
        assert_eq!(registrations(2 * GIB - 1, 4 * GIB), 2);
        assert_eq!(registrations(2 * GIB, 4 * GIB), 20);
        assert_eq!(registrations(4 * GIB, 4 * GIB), 20);
        assert_eq!(registrations(1, 0), 20);
    }

    #[test]
    fn what_is_in_use_stays_and_the_oldest_of_the_others_goes() {
        let mut registered = Registered::default();
        assert!(registered.take(0, 4, 10));
        assert!(registered.take(100, 4, 10));
        registered.give_back(100, 4);
        assert!(registered.take(200, 4, 10), "in the place of 100");
        assert!(!registered.take(0, 4, 10));
        registered.give_back(200, 4);
        assert!(registered.take(100, 4, 10));
        assert!(!registered.take(0, 4, 10), "still in use");
        registered.forget_order();
        assert_eq!((registered.buffers.len(), registered.bytes), (2, 8));
    }

    #[test]
    fn another_length_is_another_buffer() {
        let mut registered = Registered::default();
        assert!(registered.take(0, 4, 100));
        assert!(registered.take(0, 3, 100));
    }

    #[test]
    fn there_are_never_more_buffers_than_fit() {
        let mut registered = Registered::default();
        for start in 0..3 * Registration::BUFFERS as u64 {
            registered.take(start, 1, GIB);
            registered.give_back(start, 1);
            assert!(registered.buffers.len() <= Registration::BUFFERS);
        }
    }

    #[test]
    fn the_time_is_linear_in_bytes() {
        let registration = Registration { cost: SimTime(16_000_000), per_kib: SimTime(61_440), cache: 0 };
        assert_eq!(registration.time(0), SimTime(16_000_000));
        assert_eq!(registration.time(GIB), SimTime(16_000_000 + 61_440 * (GIB / 1024)));
    }
}
