//! The layer as the core sees it: a transport.

use super::{Bridge, Flying};
use crate::wire::{PT_CONTROL, PT_TAGGED, PT_UNTAGGED};
use crate::{Capabilities, Transport};
use narrows_portals::bridge::{Envelope, Forward};
use narrows_portals::{
    AckRequest, EntryId, EventKind, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, ReplyCode, SearchOperation, md,
};
use narrows_units::{Rail, SimTime};

/// [`Bridge`] at its NIC, for as long as a call takes.
pub(crate) struct Layer<'a, T> {
    pub(crate) bridge: &'a mut Bridge,
    pub(crate) transport: &'a mut T,
}

impl<T: Transport> Transport for Layer<'_, T> {
    fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    fn longest(&self, to: ProcessId) -> u64 {
        let Bridge { bridging, local, .. } = &*self.bridge;
        if bridging.crosses(*local, to) { bridging.fragment } else { self.transport.longest(to) }
    }

    fn me_append(&mut self, rail: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        self.transport.me_append(rail, pt, list, me)
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        self.transport.me_unlink(entry)
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        self.transport.me_search(pt, operation, me);
    }

    fn searches_wait(&self) -> bool {
        self.transport.searches_wait()
    }

    fn drop_unmatched(&mut self, pt: u32) {
        self.transport.drop_unmatched(pt);
    }

    fn put(&mut self, rail: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        let Layer { bridge, transport } = self;
        if !bridge.bridging.crosses(bridge.local, target.process) {
            return transport.put(rail, local, length, copy_now, ack, target, hdr_data);
        }
        // It may have to be sent again: what the caller wants back now is copied.
        let kept = copy_now && length > 0;
        let address = if kept { bridge.heap.allocate(length, *transport) } else { local.address };
        if kept {
            transport.fill(local.address, address, length);
        }
        let tells = match ack {
            _ if local.user_ptr == 0 => None,
            AckRequest::Full => Some(EventKind::Ack),
            _ => (local.options & md::EVENT_SEND_DISABLE == 0).then_some(EventKind::Send),
        };
        let RemoteTarget { process, pt, match_bits, offset } = target;
        let in_order = bridge.ordered && (pt == PT_TAGGED || pt == PT_UNTAGGED);
        let initiator = bridge.local;
        let envelope =
            Envelope { initiator, target: process, pt, done_pt: PT_CONTROL, match_bits, hdr_data, offset, sequence: 0, order: 0 };
        let flying = Flying { gateway: 0, local: LocalBuffer { address, ..local }, length, envelope, tells, kept, in_order, sent: false };
        bridge.send(*transport, flying);
    }

    fn get(&mut self, rail: Rail, local: LocalBuffer, length: u64, target: RemoteTarget) {
        self.transport.get(rail, local, length, target);
    }

    fn forward(&mut self, rail: Rail, forward: Forward) {
        self.transport.forward(rail, forward);
    }

    fn handed_over(&mut self) {
        self.transport.handed_over();
    }

    fn works(&mut self, time: SimTime) {
        self.transport.works(time);
    }

    fn by_firmware(&mut self, by_firmware: bool) {
        self.transport.by_firmware(by_firmware);
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) {
        self.transport.copy(from, to, length);
    }

    fn fill(&mut self, from: u64, to: u64, length: u64) {
        self.transport.fill(from, to, length);
    }

    fn allocate(&mut self, length: u64) -> u64 {
        self.transport.allocate(length)
    }

    fn forget(&mut self, address: u64) {
        self.transport.forget(address);
    }
}
