//! What a congestion control may do at a port: see its flows, send control packets, and have a clock.

use super::{Common, Control};
use crate::flow::{Flow, Sender, key};
use narrows_engine::{Arena, WordMap};
use narrows_fabric::Carried;
use narrows_fabric::port::{Label, PortEffects, PortEvent};
use narrows_units::SimTime;
use std::collections::VecDeque;

/// The control packets of a port.
#[derive(Debug, Default)]
pub(crate) struct ControlPackets {
    /// They wait for the link, with the places of what they carry.
    waiting: VecDeque<(Label, u32)>,
    /// They come, or are to go, at a time. The port's own, so that their order is the same for any regions.
    coming: Arena<(Label, u32)>,
}

impl ControlPackets {
    /// The one that goes next.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Label> {
        self.waiting.front().map(|(label, _)| label)
    }

    /// It goes.
    pub(crate) fn take(&mut self) -> Option<(Label, u32)> {
        self.waiting.pop_front()
    }

    /// One comes; what the event is about that says so.
    pub(crate) fn arrive(&mut self, label: &Label, carries: u32) -> u32 {
        self.coming.insert((*label, carries))
    }

    /// Its time has come.
    pub(crate) fn arrived(&mut self, slot: u32) -> (Label, u32) {
        let arrived = self.coming[slot];
        self.coming.remove(slot);
        arrived
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.coming.is_empty()
    }

    pub(crate) fn forget_order(&mut self) {
        self.coming.forget_order();
    }
}

/// A port, as a congestion control sees it.
#[derive(Debug)]
pub(crate) struct Port<'a, E> {
    pub now: SimTime,
    pub host: u32,
    pub common: &'a Common,
    pub to: &'a WordMap<u64, Flow>,
    pub senders: &'a mut [Sender],
    pub packets: &'a mut ControlPackets,
    /// What packets carry.
    pub carried: &'a mut Arena<Carried>,
    pub effects: &'a mut E,
}

impl<E: PortEffects> Port<'_, E> {
    /// The flow to a peer in a virtual network.
    pub(crate) fn flow_to(&self, peer: u32, network: u8) -> Option<Flow> {
        self.to.get(&key(peer, network)).copied()
    }

    /// The peer of a flow, its virtual network and its source.
    pub(crate) fn source(&mut self, flow: Flow) -> (u32, u8, &mut Control) {
        let Sender { peer, virtual_network, control, .. } = &mut self.senders[flow as usize];
        (*peer, *virtual_network, control)
    }

    /// A control packet waits for the link from now on; the event that this is part of says that the link may send.
    pub(crate) fn send(&mut self, label: &Label, carries: u32) {
        self.packets.waiting.push_back((*label, carries));
    }

    /// A control packet goes at a time, by an event of its own.
    pub(crate) fn send_at(&mut self, at: SimTime, label: &Label, carries: u32) {
        let slot = self.packets.coming.insert((*label, carries));
        self.effects.schedule_port(at, PortEvent::Control, self.host, slot);
    }

    /// The flow's next packet may be made at this time.
    pub(crate) fn pace(&mut self, flow: Flow, next: SimTime) {
        if next > self.now {
            self.effects.schedule_port(next, PortEvent::Paced, self.host, flow);
        }
    }

    /// The clock strikes at a time, and control packets that wait go then.
    pub(crate) fn strike(&mut self, at: SimTime, what: u32) {
        self.effects.schedule_port(at, PortEvent::Pulse, self.host, what);
    }
}
