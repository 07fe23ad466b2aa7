//! ParaStation's pscom4portals: eager messages through queues of buffers for each connection, copied on both sides,
//! and long ones by put into memory that the receiver exposes (RPUT). Matching is in software.
//!
//! A layer between [`Core`](crate::core::Core) and the NIC: to the one it is a [`Transport`] that matches while the
//! process looks, of the other it asks for buffers to land in and for puts. What follows the plugin:
//!
//! * A message is cut into pieces of a buffer's length. A piece is copied into the next buffer of the connection's send
//!   queue and put; the buffer is free when the put is acknowledged. When the target had no buffer left, the put was
//!   dropped, and the piece is sent again at once.
//! * Pieces carry sequence numbers. Those that come too early wait; the others are copied out, and their buffer goes
//!   back into the list.
//! * A long message is announced by a piece. Its receiver exposes its buffer, waits until the NIC has linked it, and
//!   says so by a piece. The sender puts fragments; when all are acknowledged it says so by a piece. The receiver's NIC
//!   raises no event for them.
//!
//! Source: ParaStation's pscom, lib/pscom4portals (psptl.c, pscom_portals.c), as of 2026. Its connections are made over
//! TCP; here two messages on the control entry make one when the first piece is to be sent, which is our own choice.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | connections, pieces, rendezvous |
//! | `layer.rs` | as a [`Layer`](crate::layer::Layer): what the message layer asks of it, and what the NIC says |
//! | `matching.rs` | receives and unexpected messages |
//! | `wire.rs` | what pieces say |

mod layer;
mod matching;
mod wire;

use crate::heap::Heap;
use crate::wire::{PT_CONTROL, PT_RENDEZVOUS, PT_TAGGED};
use crate::{PscomConfig, Queue, Stray, Transport};
use matching::{Landing, Matching, Message};
use narrows_engine::Slab;
use narrows_portals::{
    AckRequest, EntryId, EqId, Event, EventKind, FailType, List, LocalBuffer, MatchEntry, ProcessId, RemoteTarget, md, me,
};
use narrows_units::Rail;
use std::collections::{BTreeMap, VecDeque};
use wire::{Head, Owner};

/// Buffers of the eager queues are in the first table entry.
const PT_EAGER: u32 = PT_TAGGED;

/// What the message layer is told when a send is over.
#[derive(Clone, Copy, Debug)]
enum Notify {
    Nothing,
    /// When all of it is in send buffers.
    Copied(u64),
    /// When all of it is at the target.
    Delivered(u64),
}

/// Something to send over the queue of a connection.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    head: Head,
    address: u64,
    length: u64,
    /// Bytes that are in send buffers.
    sent: u64,
    notify: Notify,
    /// The data are in memory of ours already, and their copy is paid: the program's buffer was free at once.
    kept: bool,
    /// Among [`Pscom::open`].
    open: Option<u32>,
}

/// A send that somebody waits for beyond its copies.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Pieces that are not acknowledged.
    left: u64,
    /// To be told.
    user_ptr: Option<u64>,
    /// To be given back.
    kept: Option<u64>,
}

/// A buffer of a send queue, and what is in it.
#[derive(Clone, Copy, Debug)]
struct SendBuffer {
    address: u64,
    busy: bool,
    /// Where its piece is: here, or where it was kept.
    piece: u64,
    length: u64,
    words: (u64, u64, u64),
    open: Option<u32>,
}

/// A buffer of a receive queue.
#[derive(Clone, Copy, Debug)]
struct ReceiveBuffer {
    address: u64,
    entry: EntryId,
    /// Another one has taken its place.
    retired: bool,
}

/// A message of which pieces are still to come.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    queue: Queue,
    message: Message,
    landing: Landing,
    received: u64,
}

#[derive(Debug)]
struct Connection {
    peer: ProcessId,
    /// It has posted its buffers.
    ready: bool,
    outbox: VecDeque<Outgoing>,
    send: Vec<SendBuffer>,
    /// Longest piece, and longest fragment.
    piece: u64,
    fragment: u64,
    next_send: usize,
    sent: u64,
    receive: Vec<ReceiveBuffer>,
    received: u64,
    /// Pieces that came before their turn.
    early: Vec<(u32, Event)>,
    arriving: Option<Arriving>,
    exposed: u32,
    /// Receivers' requests that wait until fewer are exposed.
    waiting: VecDeque<u32>,
}

/// Memory that is exposed to the sender of a long message.
#[derive(Clone, Copy, Debug)]
struct Exposure {
    connection: u32,
    me: MatchEntry,
    entry: Option<EntryId>,
    linked: bool,
    /// The sender's request, when the message layer has named it.
    sender: Option<u32>,
}

/// The fragments of a long message on their way.
#[derive(Clone, Copy, Debug)]
struct Fragments {
    connection: u32,
    left: u64,
    receiver: u32,
    length: u64,
    /// The message layer's event.
    kind: EventKind,
    user_ptr: u64,
}

/// The eager queues and open rendezvous of a process.
#[derive(Debug)]
pub(crate) struct Pscom {
    config: PscomConfig,
    /// Longest put.
    fragment: u64,
    rail: Rail,
    eq: EqId,
    connections: Vec<Connection>,
    by_peer: BTreeMap<ProcessId, u32>,
    tagged: Matching,
    untagged: Matching,
    next_entry: u64,
    heap: Heap,
    open: Slab<Open>,
    exposures: BTreeMap<u32, Exposure>,
    fragments: Slab<Fragments>,
    /// The entry of the NIC for connections.
    control: EntryId,
    /// What the message layer's control entry is known by.
    control_user_ptr: u64,
    /// For the message layer.
    events: VecDeque<Event>,
}

impl Pscom {
    pub(crate) fn new(config: PscomConfig, rail: Rail, longest: u64, eq: EqId, transport: &mut dyn Transport) -> Pscom {
        transport.drop_unmatched(PT_EAGER);
        let control = MatchEntry {
            options: me::OP_PUT | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
            ignore_bits: u64::MAX,
            user_ptr: Owner::Control.user_ptr(),
            ..MatchEntry::default()
        };
        Pscom {
            rail,
            fragment: config.fragment.min(longest),
            config,
            eq,
            connections: Vec::new(),
            by_peer: BTreeMap::new(),
            tagged: Matching::default(),
            untagged: Matching::default(),
            next_entry: 0,
            heap: Heap::default(),
            open: Slab::new(),
            exposures: BTreeMap::new(),
            fragments: Slab::new(),
            control: transport.me_append(rail, PT_CONTROL, List::Priority, control),
            control_user_ptr: 0,
            events: VecDeque::new(),
        }
    }

    fn matching(&mut self, queue: Queue) -> (&mut Matching, &mut VecDeque<Event>) {
        match queue {
            Queue::Tagged => (&mut self.tagged, &mut self.events),
            Queue::Untagged => (&mut self.untagged, &mut self.events),
        }
    }

    // ---- Connections ---------------------------------------------------------------------------------------------

    fn control_put(&self, transport: &mut dyn Transport, process: ProcessId, match_bits: u64) {
        let local = LocalBuffer { options: md::EVENT_SEND_DISABLE, eq: self.eq, ..LocalBuffer::default() };
        let target = RemoteTarget { process, pt: PT_CONTROL, match_bits, offset: 0 };
        transport.put(self.rail, local, 0, true, AckRequest::None, target, 0);
    }

    /// The connection to `peer`, which is made if there is none.
    fn connection(&mut self, transport: &mut dyn Transport, peer: ProcessId) -> u32 {
        if let Some(&connection) = self.by_peer.get(&peer) {
            return connection;
        }
        let connection = self.connect(transport, peer);
        self.control_put(transport, peer, wire::CONNECT);
        connection
    }

    fn connect(&mut self, transport: &mut dyn Transport, peer: ProcessId) -> u32 {
        let number = self.connections.len() as u32;
        let PscomConfig { buffer, send_buffers, .. } = self.config;
        let memory = transport.allocate(buffer * u64::from(send_buffers));
        let send = (0..u64::from(send_buffers)).map(|index| SendBuffer {
            address: memory + index * buffer,
            busy: false,
            piece: 0,
            length: 0,
            words: (0, 0, 0),
            open: None,
        });
        self.connections.push(Connection {
            peer,
            ready: false,
            outbox: VecDeque::new(),
            send: send.collect(),
            piece: buffer.min(transport.longest(peer)),
            fragment: self.fragment.min(transport.longest(peer)),
            next_send: 0,
            sent: 0,
            receive: Vec::new(),
            received: 0,
            early: Vec::new(),
            arriving: None,
            exposed: 0,
            waiting: VecDeque::new(),
        });
        self.by_peer.insert(peer, number);
        self.post_buffers(transport, number);
        number
    }

    /// A receive queue of new buffers.
    fn post_buffers(&mut self, transport: &mut dyn Transport, number: u32) {
        let PscomConfig { buffer, receive_buffers, .. } = self.config;
        let memory = transport.allocate(buffer * u64::from(receive_buffers));
        let connection = &mut self.connections[number as usize];
        for index in 0..u64::from(receive_buffers) {
            let place = connection.receive.len() as u32;
            let address = memory + index * buffer;
            let entry = post(transport, self.rail, buffer, connection.peer, Owner::Receive(number, place), address);
            connection.receive.push(ReceiveBuffer { address, entry, retired: false });
        }
    }

    /// A message about connections.
    fn control(&mut self, transport: &mut dyn Transport, event: &Event) {
        let peer = event.initiator;
        let known = self.by_peer.get(&peer).copied();
        let connection = known.unwrap_or_else(|| self.connect(transport, peer));
        // Who wants a connection has posted its buffers. If this side wants one too, that one will hear of it.
        if event.match_bits == wire::CONNECT && known.is_none() {
            self.control_put(transport, peer, wire::ACCEPT);
        }
        self.connections[connection as usize].ready = true;
        self.pump(transport, connection);
    }

    // ---- Sending -------------------------------------------------------------------------------------------------

    fn enqueue(&mut self, transport: &mut dyn Transport, connection: u32, outgoing: Outgoing) {
        self.connections[connection as usize].outbox.push_back(outgoing);
        self.pump(transport, connection);
    }

    /// A piece without data.
    fn say(&mut self, transport: &mut dyn Transport, connection: u32, head: Head) {
        let outgoing = Outgoing { head, address: 0, length: 0, sent: 0, notify: Notify::Nothing, kept: false, open: None };
        self.enqueue(transport, connection, outgoing);
    }

    /// Fills the send buffers that are free, in turn.
    fn pump(&mut self, transport: &mut dyn Transport, number: u32) {
        let connection = &mut self.connections[number as usize];
        while connection.ready
            && let Some(outgoing) = connection.outbox.front_mut()
            && !connection.send[connection.next_send].busy
        {
            let place = connection.next_send;
            connection.next_send = (place + 1) % connection.send.len();
            let buffer = &mut connection.send[place];
            let length = connection.piece.min(outgoing.length - outgoing.sent);
            let from = outgoing.address + outgoing.sent;
            if length > 0 && !outgoing.kept {
                transport.fill(from, buffer.address, length);
            }
            let head = if outgoing.sent == 0 { outgoing.head } else { Head::More };
            *buffer = SendBuffer {
                address: buffer.address,
                busy: true,
                piece: if outgoing.kept { from } else { buffer.address },
                length,
                words: head.words(connection.sent),
                open: outgoing.open,
            };
            connection.sent += 1;
            outgoing.sent += length;
            put_piece(transport, (self.rail, self.eq), connection.peer, buffer, Owner::Send(number, place as u32));
            if outgoing.sent == outgoing.length {
                if let Notify::Copied(user_ptr) = outgoing.notify {
                    self.events.push_back(Event { user_ptr, mlength: outgoing.length, ..Event::blank(EventKind::Send) });
                }
                connection.outbox.pop_front();
            }
        }
    }

    /// A piece has arrived, or was dropped.
    fn acknowledged(&mut self, transport: &mut dyn Transport, number: u32, place: u32, event: &Event) -> Result<(), Stray> {
        let connection = self.connections.get_mut(number as usize).ok_or(Stray(*event))?;
        let buffer = connection.send.get_mut(place as usize).filter(|buffer| buffer.busy).ok_or(Stray(*event))?;
        if event.fail != FailType::Ok {
            put_piece(transport, (self.rail, self.eq), connection.peer, buffer, Owner::Send(number, place));
            return Ok(());
        }
        buffer.busy = false;
        if let Some(open) = buffer.open.take() {
            let waits = self.open.at_mut(open);
            waits.left -= 1;
            if waits.left == 0 {
                let Open { user_ptr, kept, .. } = *waits;
                self.open.remove(open);
                if let Some(user_ptr) = user_ptr {
                    self.events.push_back(Event { user_ptr, ..Event::blank(EventKind::Ack) });
                }
                if let Some(address) = kept {
                    self.heap.free(address);
                }
            }
        }
        self.pump(transport, number);
        Ok(())
    }

    // ---- Receiving -----------------------------------------------------------------------------------------------

    /// A piece has landed: its turn, or not yet.
    fn landed(&mut self, transport: &mut dyn Transport, number: u32, place: u32, event: &Event) -> Result<(), Stray> {
        let connection = self.connections.get_mut(number as usize).ok_or(Stray(*event))?;
        connection.early.push((place, *event));
        loop {
            let connection = &mut self.connections[number as usize];
            let turn = connection.received % wire::SEQUENCES;
            let Some(next) = connection.early.iter().position(|(_, event)| wire::sequence(event.hdr_data) == turn) else { return Ok(()) };
            let (place, event) = connection.early.swap_remove(next);
            connection.received += 1;
            self.piece(transport, number, place, &event)?;
            let ReceiveBuffer { address, retired, .. } = self.connections[number as usize].receive[place as usize];
            if !retired {
                let peer = self.connections[number as usize].peer;
                let entry = post(transport, self.rail, self.config.buffer, peer, Owner::Receive(number, place), address);
                self.connections[number as usize].receive[place as usize].entry = entry;
            }
        }
    }

    /// Does what a piece says.
    fn piece(&mut self, transport: &mut dyn Transport, number: u32, place: u32, event: &Event) -> Result<(), Stray> {
        let address = self.connections[number as usize].receive[place as usize].address;
        match Head::of(event).ok_or(Stray(*event))? {
            Head::First { queue, bits, data, number: request, length } => {
                let announced = wire::is_announced(bits);
                let message = Message {
                    source: event.initiator,
                    bits,
                    hdr_data: if announced { u64::from(request) << 32 } else { 0 } | u64::from(data),
                    length: if announced { 0 } else { u64::from(request) },
                    remote_offset: length,
                };
                let Pscom { tagged, untagged, heap, events, connections, .. } = self;
                let matching = if queue == Queue::Tagged { tagged } else { untagged };
                let landing = matching.begin(message, |length| heap.allocate(length, transport), events);
                connections[number as usize].arriving = Some(Arriving { queue, message, landing, received: 0 });
                self.arrive(transport, number, address, event.mlength);
            }
            Head::More => {
                if self.connections[number as usize].arriving.is_none() {
                    return Err(Stray(*event));
                }
                self.arrive(transport, number, address, event.mlength);
            }
            Head::ClearToSend { sender, receiver, wanted } => self.events.push_back(Event {
                user_ptr: self.control_user_ptr,
                initiator: event.initiator,
                match_bits: crate::wire::CLEAR_TO_SEND,
                hdr_data: u64::from(sender) << 32 | u64::from(receiver),
                remote_offset: wanted,
                ..Event::blank(EventKind::Put)
            }),
            Head::Finished { receiver } => {
                let exposure = self.exposures.remove(&receiver).ok_or(Stray(*event))?;
                if let Some(entry) = exposure.entry {
                    transport.me_unlink(entry);
                }
                let MatchEntry { user_ptr, length, start, .. } = exposure.me;
                let done =
                    Event { user_ptr, initiator: event.initiator, start, mlength: length, rlength: length, ..Event::blank(EventKind::Put) };
                self.events.push_back(done);
                let connection = &mut self.connections[exposure.connection as usize];
                connection.exposed -= 1;
                if let Some(next) = connection.waiting.pop_front() {
                    self.expose(transport, next);
                }
            }
        }
        Ok(())
    }

    /// Copies the bytes of a piece to where its message goes.
    fn arrive(&mut self, transport: &mut dyn Transport, number: u32, from: u64, length: u64) {
        let Some(arriving) = &mut self.connections[number as usize].arriving else { return };
        let (to, room) = match arriving.landing {
            Landing::Receive { start, room, .. } => (start, room),
            Landing::Unexpected { address, .. } => (address, arriving.message.length),
        };
        let fits = length.min(room.saturating_sub(arriving.received));
        if fits > 0 {
            transport.copy(from, to + arriving.received, fits);
        }
        arriving.received += length;
        let Arriving { queue, message, landing, received } = *arriving;
        if received == message.length {
            self.connections[number as usize].arriving = None;
            let (matching, events) = self.matching(queue);
            matching.end(&message, landing, events);
        }
    }

    // ---- Rendezvous ----------------------------------------------------------------------------------------------

    /// Appends the entry of a receiver's request, if no more than allowed are exposed.
    fn expose(&mut self, transport: &mut dyn Transport, request: u32) {
        let Some(exposure) = self.exposures.get_mut(&request) else { return };
        let connection = &mut self.connections[exposure.connection as usize];
        if connection.exposed >= self.config.rendezvous_requests {
            connection.waiting.push_back(request);
            return;
        }
        connection.exposed += 1;
        let entry = MatchEntry {
            options: me::OP_PUT | me::EVENT_COMM_DISABLE | me::EVENT_UNLINK_DISABLE,
            user_ptr: Owner::Exposed(request).user_ptr(),
            ..exposure.me
        };
        exposure.entry = Some(transport.me_append(self.rail, PT_RENDEZVOUS, List::Priority, entry));
    }

    /// Tells the sender, when the memory is linked and the sender's request is known.
    fn clear_to_send(&mut self, transport: &mut dyn Transport, request: u32) {
        let Some(Exposure { connection, me, linked: true, sender: Some(sender), .. }) = self.exposures.get(&request).copied() else {
            return;
        };
        self.say(transport, connection, Head::ClearToSend { sender, receiver: request, wanted: me.length });
    }

    /// A fragment is there.
    fn fragment(&mut self, transport: &mut dyn Transport, number: u32, event: &Event) -> Result<(), Stray> {
        let fragments = self.fragments.get_mut(number).ok_or(Stray(*event))?;
        fragments.left -= 1;
        if fragments.left > 0 && event.fail == FailType::Ok {
            return Ok(());
        }
        let Fragments { connection, receiver, length, kind, user_ptr, .. } = *fragments;
        self.fragments.remove(number);
        if user_ptr != 0 {
            self.events.push_back(Event { fail: event.fail, user_ptr, mlength: length, ..Event::blank(kind) });
        }
        if event.fail == FailType::Ok {
            self.say(transport, connection, Head::Finished { receiver });
        }
        Ok(())
    }
}

/// Appends a buffer of a receive queue.
fn post(transport: &mut dyn Transport, rail: Rail, length: u64, peer: ProcessId, owner: Owner, address: u64) -> EntryId {
    let me = MatchEntry {
        start: address,
        length,
        options: me::OP_PUT | me::USE_ONCE | me::EVENT_LINK_DISABLE | me::EVENT_UNLINK_DISABLE,
        match_id: peer,
        ignore_bits: u64::MAX,
        user_ptr: owner.user_ptr(),
        ..MatchEntry::default()
    };
    transport.me_append(rail, PT_EAGER, List::Priority, me)
}

/// Puts what is in a send buffer.
fn put_piece(transport: &mut dyn Transport, (rail, eq): (Rail, EqId), process: ProcessId, buffer: &SendBuffer, owner: Owner) {
    let (match_bits, hdr_data, offset) = buffer.words;
    let local =
        LocalBuffer { address: buffer.piece, options: md::EVENT_SEND_DISABLE, eq, user_ptr: owner.user_ptr(), ..LocalBuffer::default() };
    let target = RemoteTarget { process, pt: PT_EAGER, match_bits, offset };
    transport.put(rail, local, buffer.length, false, AckRequest::Full, target, hdr_data);
}
