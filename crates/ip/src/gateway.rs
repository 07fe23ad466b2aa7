//! A gateway: packets of the network go to an Ethernet with hosts, and back. It stores a packet and forwards it, one
//! after the other in each direction.

use crate::flow::{Counts, Packet};
use crate::host::{Host, Plan};
use narrows_units::{Bytes, SimTime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a frame on an Ethernet beside the IP packet: preamble 8, header 14, FCS 4, gap 12 (IEEE 802.3, clauses 3
/// and 4).
const ETHERNET: u64 = 38;

/// What a gateway wants to be told at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A packet has left it for the Ethernet.
    Left,
    /// A packet is at a host.
    Arrived(Packet),
    /// A host has sent a packet.
    Read(u32),
    /// A packet of a host is at the gateway.
    Entered(Packet),
    /// The gateway gives it to the network.
    Forwarded(Packet),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Gateway {
    plan: Arc<Plan>,
    /// Those behind it.
    pub(crate) hosts: Vec<Host>,
    /// When it has forwarded, and when its link is free; to the Ethernet, and from there.
    ready: [SimTime; 2],
    free: [SimTime; 2],
    /// Packets in it.
    waiting: [u32; 2],
    pub(crate) counts: BTreeMap<u32, Counts>,
}

/// To the Ethernet, and from there.
const OUT: usize = 0;
const IN: usize = 1;

impl Gateway {
    pub(crate) fn new(plan: &Arc<Plan>, hosts: Vec<Host>) -> Gateway {
        let none = [SimTime::ZERO; 2];
        Gateway { plan: Arc::clone(plan), hosts, ready: none, free: none, waiting: [0; 2], counts: BTreeMap::new() }
    }

    /// There is room for one more.
    fn admits(&mut self, way: usize, packet: &Packet) -> bool {
        if self.waiting[way] >= self.plan.ip.gateway.room {
            self.counts.entry(packet.flow).or_default().gateway_drops += 1;
            return false;
        }
        self.waiting[way] += 1;
        true
    }

    fn forward(&mut self, now: SimTime, way: usize) -> SimTime {
        self.ready[way] = self.ready[way].max(now) + self.plan.ip.gateway.packet;
        self.ready[way]
    }

    fn over_link(&mut self, now: SimTime, way: usize, packet: &Packet) -> SimTime {
        let bytes = Bytes(packet.payload + self.plan.ip.header.0 + ETHERNET);
        self.free[way] = self.free[way].max(now) + self.plan.ip.gateway.bandwidth.time_for(bytes);
        self.free[way]
    }

    /// Packets have come from the network.
    pub(crate) fn arrive(&mut self, now: SimTime, packets: Vec<Packet>, mut at: impl FnMut(SimTime, Event)) {
        for packet in packets {
            if self.admits(OUT, &packet) {
                let ready = self.forward(now, OUT);
                let left = self.over_link(ready, OUT, &packet);
                at(left, Event::Left);
                at(left + self.plan.ip.gateway.latency, Event::Arrived(packet));
            }
        }
    }

    /// A host behind it sends.
    pub(crate) fn send(&mut self, now: SimTime, host: u32, packets: Vec<Packet>, mut at: impl FnMut(SimTime, Event)) {
        for packet in packets {
            let left = self.over_link(now, IN, &packet);
            at(left, Event::Read(host));
            at(left + self.plan.ip.gateway.latency, Event::Entered(packet));
        }
    }

    /// A packet has left it for the Ethernet.
    pub(crate) fn left(&mut self) {
        self.waiting[OUT] -= 1;
    }

    /// A packet of a host: when it is forwarded, if there is room.
    pub(crate) fn entered(&mut self, now: SimTime, packet: &Packet) -> Option<SimTime> {
        self.admits(IN, packet).then(|| self.forward(now, IN))
    }

    /// The NIC has read so many packets.
    pub(crate) fn read(&mut self, packets: u32) {
        self.waiting[IN] -= packets;
    }
}
