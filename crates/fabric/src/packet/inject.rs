//! Between the outputs of hosts and their ports.

use super::region::{Effects, Region};
use super::state::*;
use crate::Transfer;
use crate::flights::NONE;
use crate::port::{Landing, Next, Ports, Release};
use crate::seam::{Acknowledge, Verdict};
use narrows_units::SimTime;

impl<P: Ports> Region<P> {
    /// Sends a transfer from a host of this region.
    pub(crate) fn start(&mut self, now: u64, transfer: &Transfer, fx: &mut impl Effects) {
        if transfer.stays_within() {
            return self.start_within(now, transfer, fx);
        }
        if !self.board(now, transfer, fx) {
            self.send(now, transfer, false, fx);
        }
    }

    /// Both ports are in this region.
    #[inline(never)]
    fn start_within(&mut self, now: u64, transfer: &Transfer, fx: &mut impl Effects) {
        let [from, to] = [transfer.source, transfer.target].map(|host| self.layout.hosts[host as usize].1);
        self.ports.start_within(SimTime(now), [from, to], transfer, fx);
    }

    /// Hands a message to its port; `copied`: see [`super::copies`].
    pub(super) fn send(&mut self, now: u64, transfer: &Transfer, copied: bool, fx: &mut impl Effects) {
        let host = self.layout.hosts[transfer.source as usize].1;
        if self.is_taken(host) {
            self.stop_train(host, now, fx);
        }
        self.ports.start(SimTime(now), host, transfer, copied, fx);
        self.ask_port(host, u32::from(transfer.virtual_network), now, fx);
    }

    /// A port may have something new to send.
    #[inline(always)]
    pub(super) fn ask_port(&mut self, host: u32, virtual_network: u32, now: u64, fx: &mut impl Effects) {
        self.outputs[host as usize].occupied |= 1 << (virtual_network * self.channels);
        self.serve(host, now, fx);
    }

    /// A packet that was lost is back.
    pub(super) fn resend(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        let packet = self.packets[index];
        self.free_packet(index);
        let host = self.layout.hosts[packet.source as usize].1;
        self.ports.resend(SimTime(now), host, &packet);
        self.ask_port(host, packet.virtual_network(), now, fx);
    }

    /// What the port of `host` would send next in a virtual network.
    #[inline]
    pub(super) fn injection(&self, host: u32, virtual_network: u32, now: u64) -> Offer {
        match self.ports.next(SimTime(now), host, virtual_network) {
            Next::Packet(wire) => Offer::Port { wire },
            Next::At(time) => Offer::At(time.as_ps()),
        }
    }

    /// Takes the packet that [`Self::injection`] promised; none where [`Ports::take`] says so.
    #[inline(always)]
    pub(super) fn inject(&mut self, host: u32, virtual_network: u32, now: u64, fx: &mut impl Effects) -> Option<u32> {
        let packet = self.ports.take(SimTime(now), host, virtual_network, fx)?;
        self.least_wire = self.least_wire.min(packet.wire);
        if !self.ports.has_packets(host, virtual_network) {
            self.outputs[host as usize].occupied &= !(1 << (virtual_network * self.channels));
        }
        let index = self.packets.insert(packet);
        if let Some(cargo) = &mut self.cargo {
            cargo.carry(index, &self.ports.carried());
        }
        Some(index)
    }

    /// The head of a packet is, or will be, at its target at `head`; the rest of its way is known. `output`: with
    /// credits, that of its last link, if it is of this region.
    #[inline]
    pub(super) fn eject(&mut self, index: u32, output: u32, head: u64, now: u64, fx: &mut impl Effects) {
        let packet = self.packets[index];
        let host = self.layout.hosts[packet.target as usize].1;
        let landing = |link| Landing { link, packet: index, head: SimTime(head), tail: SimTime(packet.ready) };
        if let Some(cargo) = &self.cargo {
            self.ports.hear(&cargo.of(index));
        }
        if self.pauses.is_some() {
            let link = self.inputs[packet.input as usize].link;
            let Some(through) = self.ports.arrive(host, &landing(link), &packet, fx) else { return };
            self.leaves(packet.input, packet.lane(), through.as_ps(), packet.wire, now, fx);
        } else if output != NONE {
            let Output { link, latency, .. } = self.outputs[output as usize];
            let Some(through) = self.ports.arrive(host, &landing(link), &packet, fx) else { return };
            self.give_back(output, packet.lane(), through.as_ps() + latency, packet.wire, now, fx);
        } else {
            let link = self.inputs[packet.input as usize].link;
            return self.eject_from_afar(host, &packet, &landing(link), now, fx);
        }
        self.free_packet(index);
    }

    /// The credits are those of another region.
    #[inline(never)]
    fn eject_from_afar(&mut self, host: u32, packet: &Packet, landing: &Landing, now: u64, fx: &mut impl Effects) {
        if let Some(at) = self.ports.arrive(host, landing, packet, fx) {
            self.release_packet(Some(Release { packet: landing.packet, at }), now, fx);
        }
    }

    /// It is known when the buffer of a packet at its target is free. Where its credits go to another region they take
    /// the latency of the link from then on, and so come after the window.
    pub(super) fn release_packet(&mut self, release: Option<Release>, now: u64, fx: &mut impl Effects) {
        let Some(Release { packet: index, at }) = release else { return };
        let packet = self.packets[index];
        self.leave(packet.input, packet.lane(), at.as_ps(), packet.wire, now, fx);
        self.free_packet(index);
    }

    /// The host at a port sees packets.
    pub(crate) fn show(&mut self, port: u32, acknowledge: Acknowledge) {
        self.ports.show(port, acknowledge);
    }

    /// A host of this region does.
    pub(super) fn shows(&self, host: u32) -> bool {
        let (region, port) = self.layout.hosts[host as usize];
        region == self.number && self.ports.shows(port)
    }

    /// It is to see a packet.
    #[cold]
    pub(super) fn seen(&mut self, host: u32, number: u32, now: u64, fx: &mut impl Effects) {
        let release = self.ports.seen(SimTime(now), self.host(host), number, fx);
        self.release_packet(release, now, fx);
    }

    /// It says what becomes of a packet that it has seen.
    pub(crate) fn judged(&mut self, now: u64, host: u32, number: u32, verdict: Verdict, fx: &mut impl Effects) {
        let port = self.host(host);
        let release = self.ports.judged(SimTime(now), port, number, verdict, fx);
        self.release_packet(release, now, fx);
    }
}

/// The next packet of a lane.
pub(super) enum Offer {
    /// In the queue whose turn it is.
    Queued { wire: u32 },
    /// In the port.
    Port { wire: u32 },
    /// There is none before this time.
    At(u64),
}
