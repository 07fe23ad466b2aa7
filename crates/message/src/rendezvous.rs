//! Long messages: the sender announces them, the receiver fetches the data (get) or asks for them (put).

use crate::core::Core;
use crate::request::{Message, OpenSend, Request, Room, Stage, completion_events, data_flag};
use crate::wire::{self, Owner};
use crate::{Completes, Rendezvous, Send, Status, Stray, Transport};
use narrows_portals::{AckRequest, EntryId, Event, FailType, List, MatchEntry, ProcessId, RemoteTarget, me};

/// The data of a rendezvous on their way to the receiver.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) room: Room,
    pub(crate) message: Message,
    sender_request: u32,
    wants_word: bool,
    pub(crate) wanted: u64,
    arrived: u64,
    /// Gets without REPLY event, or puts without PUT event.
    left: u64,
    /// An entry that outlives its first put.
    entry: Option<EntryId>,
    fail: FailType,
}

impl Transfer {
    /// See [`Core::only_completes`]; the buffer of a multi-receive may have to be opened again.
    pub(crate) fn only_completes(&self) -> bool {
        !self.wants_word && self.entry.is_none() && self.room.multi.is_none()
    }
}

impl Core {
    /// Tells the receiver of a long message that there is one.
    pub(crate) fn announce(&mut self, transport: &mut impl Transport, send: Send) {
        let (index, generation) = self.requests.insert(Request::Send(OpenSend { send, stage: Stage::Announced, fail: FailType::Ok }));
        let mut flags = data_flag(send.data);
        if self.config.rendezvous == Rendezvous::Get {
            // A GET event says that the data have left. That they have arrived only the receiver
            // knows: whoever asks for that waits for its word, and the gets pass without events.
            let by_word = send.completes == Completes::Delivered;
            let mut options = me::OP_GET | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
            if by_word {
                flags |= wire::WANTS_WORD;
                options |= me::EVENT_COMM_DISABLE;
            }
            if send.length <= self.config.max_portals_message {
                options |= me::USE_ONCE;
            }
            let entry = transport.me_append(
                wire::PT_RENDEZVOUS,
                List::Priority,
                MatchEntry {
                    start: send.buffer,
                    length: send.length,
                    options,
                    match_id: send.target,
                    match_bits: u64::from(index),
                    ignore_bits: !wire::REQUEST_MASK,
                    user_ptr: Owner::Request(index, generation).user_ptr(),
                    ..MatchEntry::default()
                },
            );
            if let Some(Request::Send(open)) = self.requests.get_mut(index) {
                open.stage = Stage::Offered { entry, come: 0 };
            }
        }
        let (match_bits, offset) = wire::announcement(send.queue, send.tag, send.length);
        let target = RemoteTarget { process: send.target, pt: wire::pt_of(send.queue), match_bits: match_bits | flags, offset };
        let hdr_data = u64::from(index) << 32 | u64::from(send.data.unwrap_or(0));
        transport.put(self.silent_buffer(), 0, true, AckRequest::None, target, hdr_data);
    }

    /// The receiver has room for an announced message: fetches it, or asks for it.
    pub(crate) fn start_transfer(
        &mut self,
        transport: &mut impl Transport,
        room: Room,
        message: Message,
        sender_request: u32,
        wants_word: bool,
        slot: Option<u32>,
    ) {
        let wanted = message.full_length.min(room.length);
        let largest = self.config.max_portals_message;
        let pieces = wanted.div_ceil(largest).max(1);
        let by_get = self.config.rendezvous == Rendezvous::Get;
        let transfer = Request::Transfer(Transfer {
            room,
            message,
            sender_request,
            wants_word,
            wanted,
            arrived: 0,
            left: pieces,
            entry: None,
            fail: FailType::Ok,
        });
        let (index, generation) = match slot.and_then(|index| self.requests.get_mut(index).map(|request| (index, request))) {
            Some((index, request)) => {
                *request = transfer;
                (index, self.requests.generation(index))
            }
            None => self.requests.insert(transfer),
        };
        let user_ptr = Owner::Request(index, generation).user_ptr();
        if by_get {
            for piece in 0..pieces {
                let offset = piece * largest;
                let local = self.local_buffer(room.buffer + offset, 0, user_ptr);
                let target = RemoteTarget {
                    process: message.source,
                    pt: wire::PT_RENDEZVOUS,
                    match_bits: pieces << wire::PIECES_SHIFT | u64::from(sender_request),
                    offset,
                };
                transport.get(local, (wanted - offset).min(largest), target);
            }
            return;
        }
        if wanted > 0 {
            let mut options = me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
            if pieces == 1 {
                options |= me::USE_ONCE;
            }
            let entry = transport.me_append(
                wire::PT_RENDEZVOUS,
                List::Priority,
                MatchEntry {
                    start: room.buffer,
                    length: wanted,
                    options,
                    match_id: message.source,
                    match_bits: u64::from(index),
                    user_ptr,
                    ..MatchEntry::default()
                },
            );
            if pieces > 1
                && let Some(Request::Transfer(transfer)) = self.requests.get_mut(index)
            {
                transfer.entry = Some(entry);
            }
        }
        self.control_put(transport, message.source, wire::CLEAR_TO_SEND, u64::from(sender_request) << 32 | u64::from(index), wanted);
        if wanted == 0 {
            self.finish_transfer(transport, index);
        }
    }

    /// A piece is here.
    pub(crate) fn transfer_event(&mut self, transport: &mut impl Transport, index: u32, event: &Event) {
        let Some(Request::Transfer(transfer)) = self.requests.get_mut(index) else { return };
        if event.fail != FailType::Ok {
            transfer.fail = event.fail;
        }
        transfer.arrived += event.mlength;
        transfer.left -= 1;
        if transfer.left == 0 {
            self.finish_transfer(transport, index);
        }
    }

    fn finish_transfer(&mut self, transport: &mut impl Transport, index: u32) {
        let Some(Request::Transfer(transfer)) = self.requests.remove(index) else { return };
        if let Some(entry) = transfer.entry {
            self.unlink(transport, entry);
        }
        if transfer.wants_word {
            self.control_put(transport, transfer.message.source, wire::ARRIVED, u64::from(transfer.sender_request) << 32, 0);
        }
        let status = match transfer.fail {
            FailType::Ok => {
                debug_assert_eq!(transfer.arrived, transfer.wanted, "all bytes that were wanted are here");
                Status::Ok
            }
            fail => Status::Failed(fail),
        };
        self.complete_receive(&transfer.room, &transfer.message, transfer.arrived, status);
        if let Some(multi) = transfer.room.multi {
            self.multi_fetched(multi);
        }
    }

    /// A word of the receiver of a message: it has arrived, or may come.
    pub(crate) fn control(&mut self, transport: &mut impl Transport, event: &Event) -> Result<(), Stray> {
        let index = (event.hdr_data >> 32) as u32;
        let stray = Stray(*event);
        let Some(Request::Send(open)) = self.requests.get_mut(index) else { return Err(stray) };
        if open.send.target != event.initiator || matches!(open.stage, Stage::Sending { .. }) {
            return Err(stray);
        }
        if event.match_bits == wire::ARRIVED {
            self.finish_send(transport, index);
            return Ok(());
        }
        if event.remote_offset > open.send.length {
            return Err(stray);
        }
        let (receiver_request, wanted) = (event.hdr_data as u32, event.remote_offset);
        let send = open.send;
        let largest = self.config.max_portals_message;
        let pieces = wanted.div_ceil(largest);
        open.stage = Stage::Sending { left: pieces };
        if pieces == 0 || send.completes == Completes::Never {
            self.finish_send(transport, index);
        }
        let (options, ack) = completion_events(send.completes, false);
        let user_ptr = match send.completes {
            Completes::Never => 0,
            _ if pieces == 0 => 0,
            _ => Owner::Request(index, self.requests.generation(index)).user_ptr(),
        };
        for piece in 0..pieces {
            let offset = piece * largest;
            let local = self.local_buffer(send.buffer + offset, options, user_ptr);
            let target = RemoteTarget { process: send.target, pt: wire::PT_RENDEZVOUS, match_bits: u64::from(receiver_request), offset };
            transport.put(local, (wanted - offset).min(largest), false, ack, target, 0);
        }
        Ok(())
    }

    fn control_put(&self, transport: &mut impl Transport, process: ProcessId, match_bits: u64, hdr_data: u64, offset: u64) {
        let target = RemoteTarget { process, pt: wire::PT_CONTROL, match_bits, offset };
        transport.put(self.silent_buffer(), 0, true, AckRequest::None, target, hdr_data);
    }
}
