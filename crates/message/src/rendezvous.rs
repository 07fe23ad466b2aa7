//! Long messages: the sender announces them, the receiver fetches the data (get) or asks for them (put).

use crate::core::Core;
use crate::rails::Cut;
use crate::request::{Message, OpenSend, Request, Room, Stage, completion_events, data_flag};
use crate::wire::{self, Owner};
use crate::{Completes, Protocol, Rendezvous, Send, Status, Stray, Transport};
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
        let start = self.choose_rail(&send);
        let cut = self.cut(send.target, send.length, start);
        self.register(transport, send.target, (send.buffer, send.length), &cut);
        let sent = if cut.entry_each() { &mut self.sent.spread } else { &mut self.sent.rendezvous };
        sent.one(send.length);
        let open = OpenSend { send, stage: Stage::Announced, fail: FailType::Ok, start: Some(start) };
        let (index, generation) = self.requests.insert(Request::Send(open));
        let mut flags = data_flag(send.data);
        if self.by_get(send.target) {
            // A GET event says that the data have left. That they have arrived only the receiver
            // knows: whoever asks for that waits for its word, and the gets pass without events.
            let by_word = send.completes == Completes::Delivered;
            let mut options = me::OP_GET | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
            if by_word {
                flags |= wire::WANTS_WORD;
                options |= me::EVENT_COMM_DISABLE;
            }
            let user_ptr = Owner::Request(index, generation).user_ptr();
            let entry = MatchEntry { start: send.buffer, options, match_id: send.target, user_ptr, ..MatchEntry::default() };
            let entry = self.expose(transport, index, &cut, send.length, entry);
            if let Some(Request::Send(open)) = self.requests.get_mut(index) {
                open.stage = Stage::Offered { entry, come: 0 };
            }
        }
        if self.by_word() && send.completes != Completes::Never {
            flags |= wire::WANTS_WORD;
        }
        let (match_bits, offset) = wire::announcement(send.queue, send.tag, send.length);
        let target = RemoteTarget { process: send.target, pt: wire::pt_of(send.queue), match_bits: match_bits | flags, offset };
        let hdr_data = wire::announced_by(index, start, send.data);
        transport.put(self.config.rails.first(), self.silent_buffer(), 0, true, AckRequest::None, target, hdr_data);
    }

    /// Makes the first `length` bytes of a buffer known to those who fetch or bring its pieces: the last entry of them.
    fn expose(&mut self, transport: &mut impl Transport, index: u32, cut: &Cut, length: u64, whole: MatchEntry) -> EntryId {
        let rails = &self.config.rails;
        let (match_bits, ignore_bits) = (u64::from(index), wire::PIECES_MASK);
        if !cut.entry_each() {
            let once = if cut.pieces_of(length, rails) == 1 { me::USE_ONCE } else { 0 };
            let entry = MatchEntry { length, match_bits, ignore_bits, options: whole.options | once, ..whole };
            return transport.me_append(cut.rail(0, rails), wire::PT_RENDEZVOUS, List::Priority, entry);
        }
        let entries = (0..cut.pieces_of(length, rails)).map(|piece| {
            let (offset, length) = cut.piece(piece, length, rails);
            let (number, _) = cut.address(piece);
            let (start, options) = (whole.start + offset, whole.options | me::USE_ONCE);
            let entry = MatchEntry { start, length, match_bits: match_bits | number, ignore_bits, options, ..whole };
            transport.me_append(cut.rail(piece, rails), wire::PT_RENDEZVOUS, List::Priority, entry)
        });
        let entries: Vec<EntryId> = entries.collect();
        let last = entries.last().copied().unwrap_or(EntryId(0));
        self.rails.keep_entries(index, entries);
        last
    }

    /// The data of a send have left, as far as the receiver wanted them.
    pub(crate) fn data_sent(&mut self, transport: &mut impl Transport, index: u32, open: &OpenSend, start: u8) {
        let cut = self.cut(open.send.target, open.send.length, start);
        self.rails.ends(&cut);
        self.registered_for(open.send.target, (open.send.buffer, open.send.length));
        let Stage::Offered { entry, come } = open.stage else { return };
        if cut.entry_each() {
            for entry in self.rails.take_entries(index, come) {
                self.unlink(transport, entry);
            }
        } else if cut.pieces(&self.config.rails) > 1 {
            self.unlink(transport, entry);
        }
    }

    /// Whether the receiver gets a long message; over gateways nobody does.
    fn by_get(&self, peer: ProcessId) -> bool {
        self.config.rendezvous == Rendezvous::Get && self.config.rails.across(self.local(), peer).is_none()
    }

    /// A long message is over when its receiver has said so.
    fn by_word(&self) -> bool {
        self.config.protocol == Protocol::Exanet
    }

    /// The receiver has room for an announced message: fetches it, or asks for it.
    pub(crate) fn start_transfer(
        &mut self,
        transport: &mut impl Transport,
        room: Room,
        message: Message,
        (sender_request, start): (u32, u8),
        wants_word: bool,
        slot: Option<u32>,
    ) {
        let wanted = message.full_length.min(room.length);
        let cut = self.cut(message.source, message.full_length, start);
        let pieces = cut.pieces_of(wanted, &self.config.rails);
        let by_get = self.by_get(message.source);
        self.register(transport, message.source, (room.buffer, wanted), &cut);
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
                let (offset, length) = cut.piece(piece, wanted, &self.config.rails);
                let (number, there) = cut.address(piece);
                let local = self.local_buffer(room.buffer + offset, 0, user_ptr);
                let match_bits = pieces << wire::PIECES_SHIFT | number | u64::from(sender_request);
                let target = RemoteTarget { process: message.source, pt: wire::PT_RENDEZVOUS, match_bits, offset: there };
                transport.get(cut.rail(piece, &self.config.rails), local, length, target);
            }
            return;
        }
        if wanted > 0 {
            let options = me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE;
            let entry = MatchEntry { start: room.buffer, options, match_id: message.source, user_ptr, ..MatchEntry::default() };
            // The answer names the buffer there, and the NIC is told nothing.
            transport.by_firmware(self.config.protocol == Protocol::Exanet);
            let entry = self.expose(transport, index, &cut, wanted, entry);
            transport.by_firmware(false);
            // All of the others will be used.
            self.rails.take_entries(index, 0);
            if pieces > 1
                && !cut.entry_each()
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
        self.registered_for(transfer.message.source, (transfer.room.buffer, transfer.wanted));
        // Who gets nothing has heard that already.
        if transfer.wants_word && !(self.by_word() && transfer.wanted == 0) {
            // Stored into the packetizer while the core looks for what comes: not on the receiver's critical path.
            transport.by_firmware(self.by_word());
            self.control_put(transport, transfer.message.source, wire::ARRIVED, u64::from(transfer.sender_request) << 32, transfer.wanted);
            transport.by_firmware(false);
        }
        let status = match transfer.fail {
            FailType::Ok => {
                debug_assert_eq!(transfer.arrived, transfer.wanted, "all bytes that were wanted are here");
                Status::Ok
            }
            fail => Status::Failed(fail),
        };
        self.complete_receive(&transfer.room, &transfer.message, transfer.arrived, status);
    }

    /// A word of the receiver of a message: it has arrived, or may come.
    pub(crate) fn control(&mut self, transport: &mut impl Transport, event: &Event) -> Result<(), Stray> {
        let index = (event.hdr_data >> 32) as u32;
        let stray = Stray(*event);
        let Some(Request::Send(open)) = self.requests.get_mut(index) else { return Err(stray) };
        let (sending, arrived) = (matches!(open.stage, Stage::Sending { .. }), event.match_bits == wire::ARRIVED);
        let by_word = self.config.protocol == Protocol::Exanet;
        if open.send.target != event.initiator || sending != (by_word && arrived) {
            return Err(stray);
        }
        if arrived {
            let (send, start) = (open.send, open.start.unwrap_or(0));
            let used = self.cut(send.target, send.length, start).pieces_of(event.remote_offset, &self.config.rails);
            if let Some(Request::Send(OpenSend { stage: Stage::Offered { come, .. }, .. })) = self.requests.get_mut(index) {
                *come = used;
            }
            self.finish_send(transport, index);
            return Ok(());
        }
        if event.remote_offset > open.send.length {
            return Err(stray);
        }
        let (receiver_request, wanted) = (event.hdr_data as u32, event.remote_offset);
        let (send, start) = (open.send, open.start.unwrap_or(0));
        let cut = self.cut(send.target, send.length, start);
        let pieces = if wanted == 0 { 0 } else { cut.pieces_of(wanted, &self.config.rails) };
        let Some(Request::Send(open)) = self.requests.get_mut(index) else { return Err(stray) };
        open.stage = Stage::Sending { left: pieces };
        if pieces == 0 || send.completes == Completes::Never {
            self.finish_send(transport, index);
        }
        // Events of the data, unless the receiver's word follows.
        let completes = if by_word { Completes::Never } else { send.completes };
        let (options, ack) = completion_events(completes, false);
        let user_ptr = match completes {
            Completes::Never => 0,
            _ if pieces == 0 => 0,
            _ => Owner::Request(index, self.requests.generation(index)).user_ptr(),
        };
        transport.by_firmware(self.config.protocol == Protocol::Exanet);
        for piece in 0..pieces {
            let (offset, length) = cut.piece(piece, wanted, &self.config.rails);
            let (number, there) = cut.address(piece);
            let local = self.local_buffer(send.buffer + offset, options, user_ptr);
            let match_bits = number | u64::from(receiver_request);
            let target = RemoteTarget { process: send.target, pt: wire::PT_RENDEZVOUS, match_bits, offset: there };
            transport.put(cut.rail(piece, &self.config.rails), local, length, false, ack, target, 0);
        }
        transport.by_firmware(false);
        Ok(())
    }

    fn control_put(&self, transport: &mut impl Transport, process: ProcessId, match_bits: u64, hdr_data: u64, offset: u64) {
        let target = RemoteTarget { process, pt: wire::PT_CONTROL, match_bits, offset };
        transport.put(self.config.rails.first(), self.silent_buffer(), 0, true, AckRequest::None, target, hdr_data);
    }
}
