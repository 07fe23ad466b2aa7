//! As a [`Layer`]: what those above ask of it, and what the NIC says.

use super::{Bridge, Flying};
use crate::layer::Layer;
use crate::wire::{self, PT_CONTROL, PT_TAGGED, PT_UNTAGGED};
use crate::{Stray, Transport};
use narrows_portals::bridge::Envelope;
use narrows_portals::{AckRequest, EntryId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, md};
use narrows_units::Rail;

impl Bridge {
    /// A gateway says something: on the entry for control messages of whoever is above.
    fn is_ours(&self, event: &Event) -> bool {
        matches!(event.match_bits, wire::BRIDGED | wire::BRIDGED_DROPPED) && Some(event.user_ptr) == self.control
    }
}

impl Layer for Bridge {
    fn longest(&self, below: u64, to: ProcessId) -> u64 {
        if self.bridging.crosses(self.local, to) { self.bridging.fragment } else { below }
    }

    fn me_append(&mut self, below: &mut dyn Transport, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        if pt == PT_CONTROL {
            self.control = Some(me.user_ptr);
        }
        below.me_append(rail, pt, list, me)
    }

    fn put(
        &mut self,
        below: &mut dyn Transport,
        rail: Rail,
        local: LocalBuffer,
        length: u64,
        copy_now: bool,
        ack: AckRequest,
        target: RemoteTarget,
        hdr_data: u64,
    ) {
        if !self.bridging.crosses(self.local, target.process) {
            return below.put(rail, local, length, copy_now, ack, target, hdr_data);
        }
        // It may have to be sent again: what the caller wants back now is copied.
        let kept = copy_now && length > 0;
        let address = if kept { self.heap.allocate(length, below) } else { local.address };
        if kept {
            below.fill(local.address, address, length);
        }
        let tells = match ack {
            _ if local.user_ptr == 0 => None,
            AckRequest::Full => Some(EventKind::Ack),
            _ => (local.options & md::EVENT_SEND_DISABLE == 0).then_some(EventKind::Send),
        };
        let RemoteTarget { process, pt, match_bits, offset } = target;
        let in_order = self.ordered && (pt == PT_TAGGED || pt == PT_UNTAGGED);
        let initiator = self.local;
        let envelope =
            Envelope { initiator, target: process, pt, done_pt: PT_CONTROL, match_bits, hdr_data, offset, sequence: 0, order: 0 };
        let flying = Flying { gateway: 0, local: LocalBuffer { address, ..local }, length, envelope, tells, kept, in_order, sent: false };
        self.send(below, flying);
    }

    fn event(&mut self, below: &mut dyn Transport, event: &Event) -> Result<(), Stray> {
        if self.is_ours(event) {
            self.done(below, event);
        } else {
            self.events.push_back(*event);
        }
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn only_completes(&self, event: &Event) -> bool {
        let quiet = |flying: &Flying| event.match_bits == wire::BRIDGED && self.gates[flying.gateway].queue.is_empty();
        !self.is_ours(event) || self.told_of(event).is_none_or(quiet)
    }

    fn tells(&self, event: &Event) -> Option<Event> {
        if self.is_ours(event) { self.told_of(event)?.told(FailType::Ok) } else { Some(*event) }
    }

    fn gateway_gone(&mut self, below: &mut dyn Transport, gateway: usize) {
        self.gone(below, gateway);
    }
}
