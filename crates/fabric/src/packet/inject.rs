//! What NICs send. Per node and virtual network, messages that come out of host memory take turns, packet by packet, in
//! reading over the node's PCIe, or go one behind the other ([`in_order`](crate::NetworkConfig::in_order)); up to
//! [`read_window`](crate::NetworkConfig::read_window) packets are read or being read, and one is sent when the first of
//! it was ([`pcie_packet`](crate::NetworkConfig::pcie_packet)). Messages that the NIC already has take turns among
//! themselves, and the two kinds alternate on the host link.

use super::region::{Effects, Region};
use super::state::*;
use crate::flights::NONE;
use crate::{Arrival, EventKind, Transfer};
use narrows_topology::RouteState;
use narrows_units::SimTime;

impl Region {
    /// Sends a transfer from a host of this region.
    pub(crate) fn start(&mut self, now: u64, transfer: &Transfer, fx: &mut impl Effects) {
        self.statistics.transfers += 1;
        self.statistics.bytes += transfer.payload.0;
        if transfer.source == transfer.target {
            let host = self.layout.hosts[transfer.source as usize].1;
            return self.start_intra_node(now, transfer, host, fx);
        }
        self.send(now, transfer, false, fx);
    }

    /// Hands a message to its NIC; `copied`: see [`super::copies`].
    pub(super) fn send(&mut self, now: u64, transfer: &Transfer, copied: bool, fx: &mut impl Effects) {
        let host = self.layout.hosts[transfer.source as usize].1;
        let payload = transfer.payload.0;
        let slot = self.sending.insert(Sending {
            left: payload,
            started: now,
            payload,
            id: transfer.id.0,
            target: transfer.target,
            next_in_ring: NONE,
            virtual_network: transfer.virtual_network,
            write: transfer.target_dma && payload > 0,
            fresh: true,
            copied,
        });
        let injector = (host * self.virtual_networks + u32::from(transfer.virtual_network)) as usize;
        if transfer.source_dma && payload > 0 {
            let mut ring = self.injectors[injector].reading;
            self.join(&mut ring, slot);
            self.injectors[injector].reading = ring;
            self.read(injector, host, now, fx);
        } else {
            let mut ring = self.injectors[injector].direct;
            self.join(&mut ring, slot);
            self.injectors[injector].direct = ring;
        }
        self.outputs[host as usize].occupied |= 1 << (u32::from(transfer.virtual_network) * self.channels);
        self.serve(host, now, fx);
    }

    /// Between ranks of one node: one server, first come, first served.
    fn start_intra_node<F: Effects>(&mut self, now: u64, transfer: &Transfer, host: u32, fx: &mut F) {
        self.statistics.intra_node += 1;
        let payload = transfer.payload.0;
        let free = &mut self.pcie[host as usize].intra_free;
        let begin = now.max(*free);
        let copied = begin + self.costs.intra_node_copy(payload);
        // No two begin at one time, so that their order is known.
        *free = copied.max(begin + 1);
        let Transfer { id, source, target, virtual_network, payload, .. } = *transfer;
        let arrival = Arrival { id, source, target, virtual_network, payload, started: SimTime(now) };
        let latency = self.costs.intra_node_latency().as_ps();
        if F::EARLY {
            return fx.delivered(&arrival, copied + latency);
        }
        let slot = self.receiving.insert(Receiving { arrival, packets_left: 0, through: 0 });
        if transfer.source_dma && payload.0 > 0 {
            fx.schedule(copied, EventKind::SourceDone, source, id.0);
        }
        if begin == copied {
            return fx.schedule(begin + latency, EventKind::HeadAndTail, source, slot);
        }
        fx.schedule(begin + latency, EventKind::Head, source, slot);
        fx.schedule(copied + latency, EventKind::Tail, source, slot);
    }

    /// Appends a message to a ring, which is named by its last member.
    fn join(&mut self, ring: &mut u32, slot: u32) {
        if *ring == NONE {
            self.sending[slot].next_in_ring = slot;
        } else {
            let last = *ring;
            self.sending[slot].next_in_ring = self.sending[last].next_in_ring;
            self.sending[last].next_in_ring = slot;
        }
        *ring = slot;
    }

    /// The next packet of the first message of a ring, and whether it is its last; the message goes to the end of the
    /// ring, or stays if it `keeps_turn`, and leaves it with its last packet.
    fn take_turn(&mut self, ring: &mut u32, source: u32, keeps_turn: bool) -> (u32, bool) {
        let last = *ring;
        let slot = self.sending[last].next_in_ring;
        let message = &mut self.sending[slot];
        let payload = message.left.min(u64::from(self.costs.mtu));
        message.left -= payload;
        let first = std::mem::replace(&mut message.fresh, false);
        let mut packet = Packet {
            ready: 0,
            started: message.started,
            injected: 0,
            meta: Packet::meta(message.payload, message.virtual_network, first, message.write),
            id: message.id,
            source,
            target: message.target,
            wire: payload as u32 + self.costs.header,
            input: NONE,
            next: NONE,
            route: RouteState::default(),
        };
        if message.copied {
            packet.set_copied();
        }
        let is_last = message.left == 0;
        self.least_wire = self.least_wire.min(packet.wire);
        if is_last {
            let after = message.next_in_ring;
            if last == slot {
                *ring = NONE;
            } else {
                self.sending[last].next_in_ring = after;
            }
            self.sending.remove(slot);
        } else if !keeps_turn {
            *ring = slot;
        }
        self.statistics.packets += 1;
        (self.packets.insert(packet), is_last)
    }

    /// Reads packets over PCIe while the window has room.
    fn read<F: Effects>(&mut self, injector: usize, host: u32, now: u64, fx: &mut F) {
        while self.injectors[injector].window > 0 && self.injectors[injector].reading != NONE {
            let mut ring = self.injectors[injector].reading;
            let source = self.outputs[host as usize].link;
            let (index, last) = self.take_turn(&mut ring, source, self.in_order);
            let Packet { wire, id, .. } = self.packets[index];
            let free = &mut self.pcie[host as usize].read_free;
            let (begin, payload) = (now.max(*free), wire - self.costs.header);
            *free = begin + self.costs.pcie.time(payload);
            let done = *free;
            self.packets[index].ready = begin + self.costs.read_ahead(payload);
            if last && !F::EARLY {
                fx.schedule(done, EventKind::SourceDone, source, id);
            }
            self.injectors[injector].reading = ring;
            self.injectors[injector].window -= 1;
            self.append_read(injector, index);
        }
    }

    fn append_read(&mut self, injector: usize, index: u32) {
        let state = &mut self.injectors[injector];
        let last = std::mem::replace(&mut state.last_read, index);
        if state.first_read == NONE {
            state.first_read = index;
        } else {
            self.packets[last].next = index;
        }
    }

    /// A lost packet is sent again: the NIC has it.
    pub(super) fn resend(&mut self, index: u32, now: u64, fx: &mut impl Effects) {
        let packet = &mut self.packets[index];
        packet.ready = now;
        packet.next = NONE;
        let virtual_network = packet.virtual_network();
        let host = self.layout.hosts[packet.source as usize].1;
        let injector = (host * self.virtual_networks + virtual_network) as usize;
        self.injectors[injector].window -= 1;
        self.append_read(injector, index);
        self.outputs[host as usize].occupied |= 1 << (virtual_network * self.channels);
        self.serve(host, now, fx);
    }

    /// What the NIC `host` would send next in a virtual network.
    #[inline]
    pub(super) fn injection(&self, host: u32, virtual_network: u32, now: u64) -> Offer {
        let injector = &self.injectors[(host * self.virtual_networks + virtual_network) as usize];
        let mut ready = NEVER;
        if injector.first_read != NONE && (injector.direct == NONE || !injector.direct_turn) {
            let packet = &self.packets[injector.first_read];
            if packet.ready <= now {
                return Offer::Read { wire: packet.wire };
            }
            ready = packet.ready;
        }
        if injector.direct == NONE {
            return Offer::At(ready);
        }
        let slot = self.sending[injector.direct].next_in_ring;
        let payload = self.sending[slot].left.min(u64::from(self.costs.mtu));
        Offer::Direct { wire: payload as u32 + self.costs.header }
    }

    /// Takes the packet that [`Self::injection`] promised.
    #[inline(always)]
    pub(super) fn inject(&mut self, host: u32, virtual_network: u32, read: bool, now: u64, fx: &mut impl Effects) -> u32 {
        let at = (host * self.virtual_networks + virtual_network) as usize;
        let index;
        if read {
            let injector = &mut self.injectors[at];
            index = injector.first_read;
            injector.first_read = self.packets[index].next;
            injector.window += 1;
            injector.direct_turn = true;
            self.read(at, host, now, fx);
        } else {
            let mut ring = self.injectors[at].direct;
            let source = self.outputs[host as usize].link;
            index = self.take_turn(&mut ring, source, false).0;
            self.injectors[at].direct = ring;
            self.injectors[at].direct_turn = false;
        }
        let injector = &self.injectors[at];
        if injector.first_read == NONE && injector.direct == NONE {
            self.outputs[host as usize].occupied &= !(1 << (virtual_network * self.channels));
        }
        index
    }
}

/// The next packet of a lane.
pub(super) enum Offer {
    /// In the queue whose turn it is.
    Queued { wire: u32 },
    /// In the NIC, as far as the link needs it: read from memory.
    Read { wire: u32 },
    /// Of a message that the NIC already has.
    Direct { wire: u32 },
    /// There is none before this time.
    At(u64),
}
