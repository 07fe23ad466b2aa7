//! As a [`Layer`]: what the message layer asks of it, and what the NIC says.

use super::wire::{self, Head, Owner};
use super::{Exposure, Fragments, Notify, Open, Outgoing, Pscom};
use crate::layer::Layer;
use crate::wire::{CARRIES_DATA, CLEAR_TO_SEND, PT_CONTROL, PT_RENDEZVOUS, PT_TAGGED};
use crate::{Capabilities, Queue, Stray, Transport};
use narrows_portals::{
    AckRequest, EntryId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, ReplyCode, SearchOperation, md,
};
use narrows_units::Rail;

/// Entries of ours among those of the NIC.
const OURS: u64 = 1 << 62;

fn queue_of(pt: u32) -> Queue {
    if pt == PT_TAGGED { Queue::Tagged } else { Queue::Untagged }
}

impl Layer for Pscom {
    fn capabilities(&self, _: Capabilities) -> Capabilities {
        Capabilities { matches_alone: false, gets: false, longest: u64::MAX }
    }

    fn longest(&self, _: u64, _: ProcessId) -> u64 {
        u64::MAX
    }

    fn me_append(&mut self, below: &mut dyn Transport, _: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        debug_assert!(list == List::Priority, "software needs no overflow list");
        self.next_entry += 1;
        let entry = EntryId(OURS | self.next_entry);
        match pt {
            PT_CONTROL => self.control_user_ptr = me.user_ptr,
            PT_RENDEZVOUS => {
                let connection = self.connection(below, me.match_id);
                let request = me.match_bits as u32;
                self.exposures.insert(request, Exposure { connection, me, entry: None, linked: false, sender: None });
                self.expose(below, request);
            }
            _ => {
                below.handed_over();
                let (matching, events) = self.matching(queue_of(pt));
                matching.post(entry, me, events);
            }
        }
        entry
    }

    fn me_unlink(&mut self, _: &mut dyn Transport, entry: EntryId) -> Option<ReplyCode> {
        Some(match self.tagged.unlink(entry) {
            ReplyCode::Unknown => self.untagged.unlink(entry),
            code => code,
        })
    }

    fn me_search(&mut self, below: &mut dyn Transport, pt: u32, operation: SearchOperation, me: MatchEntry) {
        below.handed_over();
        let waits = below.searches_wait();
        let (matching, events) = self.matching(queue_of(pt));
        matching.search(operation, me, waits, events);
    }

    fn put(
        &mut self,
        below: &mut dyn Transport,
        _: Rail,
        local: LocalBuffer,
        length: u64,
        copy_now: bool,
        ack: AckRequest,
        target: RemoteTarget,
        hdr_data: u64,
    ) {
        let connection = self.connection(below, target.process);
        match target.pt {
            PT_CONTROL => {
                debug_assert_eq!(target.match_bits, CLEAR_TO_SEND, "rendezvous is by put");
                let (sender, receiver) = ((hdr_data >> 32) as u32, hdr_data as u32);
                match self.exposures.get_mut(&receiver).filter(|_| target.offset > 0) {
                    Some(exposure) => {
                        exposure.sender = Some(sender);
                        self.clear_to_send(below, receiver);
                    }
                    None => self.say(below, connection, Head::ClearToSend { sender, receiver, wanted: 0 }),
                }
            }
            PT_RENDEZVOUS => {
                let kind = if ack == AckRequest::Full { EventKind::Ack } else { EventKind::Send };
                let longest = self.connections[connection as usize].fragment;
                let fragments = Fragments {
                    connection,
                    left: length.div_ceil(longest),
                    receiver: target.match_bits as u32,
                    length,
                    kind,
                    user_ptr: local.user_ptr,
                };
                let user_ptr = Owner::Fragments(self.fragments.insert(fragments)).user_ptr();
                for offset in (0..length).step_by(longest as usize) {
                    let piece = LocalBuffer { address: local.address + offset, options: md::EVENT_SEND_DISABLE, user_ptr, ..local };
                    let target = RemoteTarget { offset, ..target };
                    below.put(self.rail, piece, longest.min(length - offset), false, AckRequest::Full, target, 0);
                }
            }
            _ => {
                let (queue, bits) = (queue_of(target.pt), target.match_bits);
                let data = if bits & CARRIES_DATA != 0 { hdr_data as u32 } else { 0 };
                if wire::is_announced(bits) {
                    let number = (hdr_data >> 32) as u32;
                    self.say(below, connection, Head::First { queue, bits, data, number, length: target.offset });
                    return;
                }
                let notify = match ack {
                    AckRequest::Full => Notify::Delivered(local.user_ptr),
                    _ if local.options & md::EVENT_SEND_DISABLE == 0 && local.user_ptr != 0 => Notify::Copied(local.user_ptr),
                    _ => Notify::Nothing,
                };
                // The caller's buffer is free when this returns, whether there are send buffers or not.
                let kept = copy_now && length > 0 && !self.has_room(connection, length);
                let address = if kept { self.heap.allocate(length, below) } else { local.address };
                if kept {
                    below.fill(local.address, address, length);
                }
                let user_ptr = if let Notify::Delivered(user_ptr) = notify { Some(user_ptr) } else { None };
                let open = (kept || user_ptr.is_some()).then(|| {
                    let left = length.div_ceil(self.connections[connection as usize].piece).max(1);
                    self.open.insert(Open { left, user_ptr, kept: kept.then_some(address) })
                });
                let head = Head::First { queue, bits, data, number: length as u32, length: 0 };
                self.enqueue(below, connection, Outgoing { head, address, length, sent: 0, notify, kept, open });
            }
        }
    }

    fn get(&mut self, _: &mut dyn Transport, _: Rail, _: LocalBuffer, _: u64, _: RemoteTarget) {
        unreachable!("rendezvous is by put: see the capabilities");
    }

    fn forget(&mut self, _: &mut dyn Transport, address: u64) {
        self.heap.free(address);
    }

    fn event(&mut self, below: &mut dyn Transport, event: &Event) -> Result<(), Stray> {
        match Owner::of(event.user_ptr) {
            // The failure of something that nobody waits for.
            None if event.user_ptr == 0 => Ok(()),
            None => Err(Stray(*event)),
            Some(Owner::Receive(connection, buffer)) => self.landed(below, connection, buffer, event),
            Some(Owner::Send(connection, buffer)) => self.acknowledged(below, connection, buffer, event),
            Some(Owner::Control) => {
                self.control(below, event);
                Ok(())
            }
            Some(Owner::Exposed(request)) => {
                if let Some(exposure) = self.exposures.get_mut(&request) {
                    exposure.linked = true;
                }
                self.clear_to_send(below, request);
                Ok(())
            }
            Some(Owner::Fragments(number)) => self.fragment(below, number, event),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// An acknowledgement after which nothing is sent.
    fn only_completes(&self, event: &Event) -> bool {
        match Owner::of(event.user_ptr) {
            Some(Owner::Send(connection, buffer)) => self.connections.get(connection as usize).is_some_and(|connection| {
                let quiet = connection.send.get(buffer as usize).is_some_and(|buffer| buffer.open.is_none());
                event.fail == FailType::Ok && quiet && connection.outbox.is_empty()
            }),
            _ => false,
        }
    }

    fn tells(&self, _: &Event) -> Option<Event> {
        None
    }

    /// Which buffers are where in the lists depends on what has come so far: new ones take their places.
    fn renew(&mut self, below: &mut dyn Transport) {
        let order: Vec<u32> = self.by_peer.values().copied().collect();
        for &connection in &order {
            for buffer in &mut self.connections[connection as usize].receive {
                if !std::mem::replace(&mut buffer.retired, true) {
                    below.me_unlink(buffer.entry);
                }
            }
        }
        for &connection in &order {
            self.post_buffers(below, connection);
        }
    }

    /// Takes all entries out of their lists.
    fn close(&mut self, below: &mut dyn Transport) {
        below.me_unlink(self.control);
        for connection in &self.connections {
            for buffer in connection.receive.iter().filter(|buffer| !buffer.retired) {
                below.me_unlink(buffer.entry);
            }
        }
    }
}

impl Pscom {
    /// Send buffers for all of a message are free now.
    fn has_room(&self, connection: u32, length: u64) -> bool {
        let connection = &self.connections[connection as usize];
        let pieces = length.div_ceil(connection.piece) as usize;
        let ring = connection.send.len();
        connection.ready
            && connection.outbox.is_empty()
            && pieces <= ring
            && (0..pieces).all(|ahead| !connection.send[(connection.next_send + ahead) % ring].busy)
    }
}
