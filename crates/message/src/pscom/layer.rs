//! The layer as the message layer sees it: a transport.

use super::wire::{self, Head, Owner};
use super::{Exposure, Fragments, Notify, Open, Outgoing, Pscom};
use crate::wire::{CARRIES_DATA, CLEAR_TO_SEND, PT_CONTROL, PT_RENDEZVOUS, PT_TAGGED};
use crate::{Capabilities, Queue, Transport};
use narrows_portals::{AckRequest, EntryId, EventKind, List, LocalBuffer, MatchEntry, RemoteTarget, ReplyCode, SearchOperation, md};
use narrows_units::Rail;

/// Entries of ours among those of the NIC.
const OURS: u64 = 1 << 62;

/// [`Pscom`] at its NIC, for as long as a call takes.
pub(crate) struct Layer<'a, T> {
    pub(crate) pscom: &'a mut Pscom,
    pub(crate) transport: &'a mut T,
}

fn queue_of(pt: u32) -> Queue {
    if pt == PT_TAGGED { Queue::Tagged } else { Queue::Untagged }
}

impl<T: Transport> Transport for Layer<'_, T> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { matches_alone: false, gets: false, longest: u64::MAX }
    }

    fn me_append(&mut self, _: Rail, pt: u32, list: List, me: MatchEntry) -> EntryId {
        debug_assert!(list == List::Priority, "software needs no overflow list");
        let Layer { pscom, transport } = self;
        pscom.next_entry += 1;
        let entry = EntryId(OURS | pscom.next_entry);
        match pt {
            PT_CONTROL => pscom.control_user_ptr = me.user_ptr,
            PT_RENDEZVOUS => {
                let connection = pscom.connection(*transport, me.match_id);
                let request = me.match_bits as u32;
                pscom.exposures.insert(request, Exposure { connection, me, entry: None, linked: false, sender: None });
                pscom.expose(*transport, request);
            }
            _ => {
                transport.handed_over();
                let (matching, events) = pscom.matching(queue_of(pt));
                matching.post(entry, me, events);
            }
        }
        entry
    }

    fn me_unlink(&mut self, entry: EntryId) -> Option<ReplyCode> {
        Some(match self.pscom.tagged.unlink(entry) {
            ReplyCode::Unknown => self.pscom.untagged.unlink(entry),
            code => code,
        })
    }

    fn me_search(&mut self, pt: u32, operation: SearchOperation, me: MatchEntry) {
        self.transport.handed_over();
        let waits = self.transport.searches_wait();
        let (matching, events) = self.pscom.matching(queue_of(pt));
        matching.search(operation, me, waits, events);
    }

    fn drop_unmatched(&mut self, pt: u32) {
        self.transport.drop_unmatched(pt);
    }

    fn put(&mut self, _: Rail, local: LocalBuffer, length: u64, copy_now: bool, ack: AckRequest, target: RemoteTarget, hdr_data: u64) {
        let Layer { pscom, transport } = self;
        let connection = pscom.connection(*transport, target.process);
        match target.pt {
            PT_CONTROL => {
                debug_assert_eq!(target.match_bits, CLEAR_TO_SEND, "rendezvous is by put");
                let (sender, receiver) = ((hdr_data >> 32) as u32, hdr_data as u32);
                match pscom.exposures.get_mut(&receiver).filter(|_| target.offset > 0) {
                    Some(exposure) => {
                        exposure.sender = Some(sender);
                        pscom.clear_to_send(*transport, receiver);
                    }
                    None => pscom.say(*transport, connection, Head::ClearToSend { sender, receiver, wanted: 0 }),
                }
            }
            PT_RENDEZVOUS => {
                let kind = if ack == AckRequest::Full { EventKind::Ack } else { EventKind::Send };
                let longest = pscom.connections[connection as usize].fragment;
                let fragments = Fragments {
                    connection,
                    left: length.div_ceil(longest),
                    receiver: target.match_bits as u32,
                    length,
                    kind,
                    user_ptr: local.user_ptr,
                };
                let user_ptr = Owner::Fragments(pscom.fragments.insert(fragments)).user_ptr();
                for offset in (0..length).step_by(longest as usize) {
                    let piece = LocalBuffer { address: local.address + offset, options: md::EVENT_SEND_DISABLE, user_ptr, ..local };
                    let target = RemoteTarget { offset, ..target };
                    transport.put(pscom.rail, piece, longest.min(length - offset), false, AckRequest::Full, target, 0);
                }
            }
            _ => {
                let (queue, bits) = (queue_of(target.pt), target.match_bits);
                let data = if bits & CARRIES_DATA != 0 { hdr_data as u32 } else { 0 };
                if wire::is_announced(bits) {
                    let number = (hdr_data >> 32) as u32;
                    pscom.say(*transport, connection, Head::First { queue, bits, data, number, length: target.offset });
                    return;
                }
                let notify = match ack {
                    AckRequest::Full => Notify::Delivered(local.user_ptr),
                    _ if local.options & md::EVENT_SEND_DISABLE == 0 && local.user_ptr != 0 => Notify::Copied(local.user_ptr),
                    _ => Notify::Nothing,
                };
                // The caller's buffer is free when this returns, whether there are send buffers or not.
                let kept = copy_now && length > 0 && !pscom.has_room(connection, length);
                let address = if kept { pscom.heap.allocate(length, *transport) } else { local.address };
                if kept {
                    transport.fill(local.address, address, length);
                }
                let user_ptr = if let Notify::Delivered(user_ptr) = notify { Some(user_ptr) } else { None };
                let open = (kept || user_ptr.is_some()).then(|| {
                    let left = length.div_ceil(pscom.connections[connection as usize].piece).max(1);
                    pscom.open.insert(Open { left, user_ptr, kept: kept.then_some(address) })
                });
                let head = Head::First { queue, bits, data, number: length as u32, length: 0 };
                pscom.enqueue(*transport, connection, Outgoing { head, address, length, sent: 0, notify, kept, open });
            }
        }
    }

    fn get(&mut self, _: Rail, _: LocalBuffer, _: u64, _: RemoteTarget) {
        unreachable!("rendezvous is by put: see the capabilities");
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
        self.pscom.heap.free(address);
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
