//! What the caches are told ahead of an event.

use super::region::Region;
use crate::EventKind;
use crate::flights::NONE;
use crate::port::Ports;
use narrows_engine::prefetch;
use narrows_topology::Route;

impl<P: Ports> Region<P> {
    /// Brings what an event will need into the cache, in three steps as the event comes nearer: each follows what the
    /// one before brought.
    #[inline]
    pub(crate) fn prefetch<const STEP: u32>(&self, kind: EventKind, place: u32, payload: u32) {
        match (STEP, kind) {
            (0, EventKind::Ready) => prefetch(&self.packets[payload]),
            (1, EventKind::Ready) => {
                if let Some(input) = self.inputs.get(self.packets[payload].input as usize) {
                    prefetch(input);
                }
            }
            (2, EventKind::Ready) => {
                let packet = &self.packets[payload];
                let Some(input) = self.inputs.get(packet.input as usize) else { return };
                if let Some(pauses) = &self.pauses {
                    pauses.prefetch(packet.input, packet.lane());
                } else if input.region == self.number {
                    prefetch(&self.lane_states[self.place(input.output, packet.lane())]);
                }
                if !packet.is_copied()
                    && let Some(step) = self.routing.fixed(input.switch, input.link, packet.target, &packet.route)
                {
                    let output = self.layout.output[step.link as usize];
                    prefetch(&self.outputs[output as usize]);
                    prefetch(&self.loads[output as usize]);
                    let lane = packet.virtual_network() * self.channels + u32::from(step.channel);
                    prefetch(&self.lane_states[self.place(output, lane)]);
                }
            }
            (0, EventKind::Wake) => {
                prefetch(&self.outputs[payload as usize]);
                prefetch(&self.loads[payload as usize]);
            }
            (1, EventKind::Wake) => {
                let lane = self.outputs[payload as usize].occupied.trailing_zeros() % self.lanes;
                prefetch(&self.lane_states[self.place(payload, lane)]);
            }
            (2, EventKind::Wake) => {
                let lane = self.outputs[payload as usize].occupied.trailing_zeros() % self.lanes;
                let last = self.lane_states[self.place(payload, lane)].ring;
                if last != NONE {
                    prefetch(&self.packets[self.queues[self.queues[last].next_in_ring].first]);
                }
            }
            // Most timers start a message.
            (1, EventKind::Timer) => {
                let host = self.host(place);
                prefetch(&self.outputs[host as usize]);
                prefetch(&self.loads[host as usize]);
                self.ports.prefetch(host);
                prefetch(&self.lane_states[host as usize]);
            }
            _ => {}
        }
    }
}
