//! What links write into packets on their way ([`Carried`]): with HPCC switches tell packets of messages what waits and
//! what was sent, with s-PERC each link grants a share to the flow of a control packet. It is kept beside the packets.

use super::perc;
use super::region::{Effects, Note, Region};
use super::state::Packet;
use crate::config::{Congestion, NetworkConfig};
use crate::control::FlowRate;
use crate::flights::NONE;
use crate::port::{Kind, Ports};
use crate::telemetry::{Carried, Hop, Telemetry};
use crate::timing::Costs;
use narrows_topology::Topology;
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeMap;

/// The meters of a region.
#[derive(Debug)]
pub(super) struct Meters {
    /// By output, bytes that have started on the link: with HPCC.
    sent: Option<Vec<u64>>,
    /// With s-PERC.
    perc: Option<Perc>,
    /// By place of a packet.
    carried: Vec<Carried>,
    /// Packets of other regions on their way here that may carry something: by [`Packet::ready`], which differs
    /// between those of a link, and input.
    landed: BTreeMap<(u64, u32), u32>,
}

/// s-PERC's links.
#[derive(Debug)]
struct Perc {
    /// By output, what it grants.
    links: Vec<perc::Link>,
    /// How long a round is.
    round: u64,
    /// Virtual networks that have it, a bit each.
    networks: u32,
}

impl Meters {
    /// Of these links, if somebody reads them.
    pub(super) fn new(config: &NetworkConfig, costs: &Costs, topology: &Topology, links: &[u32]) -> Option<Meters> {
        let hpcc = config.controlled(|congestion| matches!(congestion, Congestion::Hpcc(_)).then_some(()));
        let sperc = config.controlled(|congestion| match congestion {
            Congestion::Sperc(sperc) => Some(sperc),
            _ => None,
        });
        if hpcc.is_none() && sperc.is_none() {
            return None;
        }
        let perc = sperc.map(|(networks, sperc)| {
            let capacity = |&link: &u32| {
                let rate = costs.link(topology.links()[link as usize].speed).rate.0;
                perc::Link::new(rate - sperc.margin.of(rate))
            };
            Perc { links: links.iter().map(capacity).collect(), round: sperc.round.as_ps(), networks }
        });
        let sent = hpcc.map(|_| vec![0; links.len()]);
        Some(Meters { sent, perc, carried: Vec::new(), landed: BTreeMap::new() })
    }

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
    /// A packet starts on a link.
    pub(super) fn meter(&mut self, index: u32, output: u32, now: u64) {
        let Region { meters: Some(meters), packets, loads, outputs, costs, .. } = self else { return };
        let Meters { sent, perc, carried, .. } = &mut **meters;
        let packet = &packets[index];
        let at = &outputs[output as usize];
        if let Some(sent) = sent {
            let sent = &mut sent[output as usize];
            *sent += u64::from(packet.wire);
            if at.host == NONE && packet.kind() == Kind::Data {
                let rate = costs.link(at.speed).rate;
                let queue = (u128::from(loads[output as usize].backlog) * u128::from(rate.0) / 1_000_000_000_000) as u64;
                let carried = &mut carried[index as usize];
                let mut telemetry = if let Carried::Telemetry(telemetry) = carried { *telemetry } else { Telemetry::default() };
                telemetry.push(at.link, Hop::new(Bytes(queue), *sent, SimTime(now), rate));
                *carried = Carried::Telemetry(telemetry);
            }
        }
        if let Some(Perc { links, round, networks }) = perc
            && packet.kind() == Kind::Control
        {
            let FlowRate { response, fin, virtual_network, .. } = FlowRate::of(&packet.label());
            if let Carried::Shares(shares) = &mut carried[index as usize]
                && !response
                && *networks >> virtual_network & 1 == 1
            {
                links[output as usize].pass(at.link, now / *round, shares, fin);
            }
        }
    }

    /// A packet goes to another region: so does what it carries.
    pub(super) fn send_carried(&self, region: u32, head: u64, input: u32, ready: u64, index: u32, fx: &mut impl Effects) {
        let Some(meters) = &self.meters else { return };
        let carried = meters.of(index);
        if carried != Carried::Nothing {
            fx.note(region, Note::Carried { input, at: head, ready, carried: Box::new(carried) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Notification;
    use narrows_engine::Arena;

    /// Most packets of s-PERC carry nothing: those that have come are forgotten.
    #[test]
    fn packets_of_other_regions_are_known_until_they_are_there() {
        let mut meters = Meters { sent: None, perc: None, carried: Vec::new(), landed: BTreeMap::new() };
        let label = Notification { virtual_network: 0 }.label(0, 1, 0, Bytes(64));
        let mut packets = Arena::default();
        let carried = Carried::Telemetry(Telemetry::default());
        for turn in 0..1_000u64 {
            let packet = Packet { ready: 100 * turn, input: 3, ..Packet::new(&label) };
            let index = packets.insert(packet);
            meters.land(&packet, index);
            assert!(meters.landed.len() <= 10);
            if turn % 10 == 9 {
                meters.follow(3, 100 * turn, &carried, 100 * turn - 50);
                assert_eq!((meters.of(index), meters.of(index - 1)), (carried, Carried::Nothing));
                assert!(meters.landed.is_empty());
            }
        }
    }
}
