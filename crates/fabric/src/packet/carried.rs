//! What packets carry beside their labels ([`Carried`]), where links write into them. It is kept beside the packets.

use super::region::{Effects, Note, Region};
use super::state::Packet;
use crate::Carried;
use crate::congestion::Start;
use crate::flights::NONE;
use crate::port::Ports;
use std::collections::BTreeMap;

/// What the packets of a region carry.
#[derive(Debug, Default)]
pub(super) struct Cargo {
    /// By place of a packet.
    carried: Vec<Carried>,
    /// Packets of other regions on their way here that may carry something: by [`Packet::ready`], which differs
    /// between those of a link, and input.
    landed: BTreeMap<(u64, u32), u32>,
}

impl Cargo {
    /// What a packet carries.
    pub(super) fn of(&self, index: u32) -> Carried {
        self.carried.get(index as usize).copied().unwrap_or_default()
    }

    /// A packet carries this from now on.
    pub(super) fn carry(&mut self, index: u32, carried: &Carried) {
        let place = index as usize;
        if self.carried.len() <= place {
            self.carried.resize(place + 1, Carried::Nothing);
        }
        self.carried[place] = *carried;
    }

    /// A packet comes from another region; what it carries comes behind it.
    pub(super) fn land(&mut self, packet: &Packet, index: u32) {
        self.carry(index, &Carried::Nothing);
        self.landed.insert((packet.ready, packet.input), index);
    }

    /// What such a packet carries. Those that were there before `now` carry nothing.
    pub(super) fn follow(&mut self, input: u32, ready: u64, carried: &Carried, now: u64) {
        if let Some(index) = self.landed.remove(&(ready, input)) {
            self.carry(index, carried);
        }
        while let Some(first) = self.landed.first_entry().filter(|first| first.key().0 < now) {
            first.remove();
        }
    }
}

impl<P: Ports> Region<P> {
    /// A packet starts on a link: congestion controls do what they do there.
    pub(super) fn control(&mut self, index: u32, output: u32, now: u64) {
        let Region { controls, cargo, packets, loads, outputs, costs, .. } = self;
        let at = &outputs[output as usize];
        let (backlog, rate) = (loads[output as usize].backlog, costs.link(at.speed).rate);
        let start = Start { output, link: at.link, of_host: at.host != NONE, rate, backlog, now };
        let (packet, mut nothing) = (&mut packets[index], Carried::Nothing);
        let carried = cargo.as_mut().map_or(&mut nothing, |cargo| &mut cargo.carried[index as usize]);
        for control in controls {
            control.pass(&start, packet, carried);
        }
    }

    /// A packet goes to another region: so does what it carries.
    pub(super) fn send_carried(&self, region: u32, head: u64, input: u32, ready: u64, index: u32, fx: &mut impl Effects) {
        let Some(cargo) = &self.cargo else { return };
        let carried = cargo.of(index);
        if carried != Carried::Nothing {
            fx.note(region, Note::Carried { input, at: head, ready, carried: Box::new(carried) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Telemetry;
    use crate::control::Notification;
    use narrows_engine::Arena;
    use narrows_units::Bytes;

    /// Most packets of s-PERC carry nothing: those that have come are forgotten.
    #[test]
    fn packets_of_other_regions_are_known_until_they_are_there() {
        let mut cargo = Cargo::default();
        let label = Notification { virtual_network: 0 }.label(0, 1, 0, Bytes(64));
        let mut packets = Arena::default();
        let carried = Carried::Telemetry(Telemetry::default());
        for turn in 0..1_000u64 {
            let packet = Packet { ready: 100 * turn, input: 3, ..Packet::new(&label) };
            let index = packets.insert(packet);
            cargo.land(&packet, index);
            assert!(cargo.landed.len() <= 10);
            if turn % 10 == 9 {
                cargo.follow(3, 100 * turn, &carried, 100 * turn - 50);
                assert_eq!((cargo.of(index), cargo.of(index - 1)), (carried, Carried::Nothing));
                assert!(cargo.landed.is_empty());
            }
        }
    }
}
