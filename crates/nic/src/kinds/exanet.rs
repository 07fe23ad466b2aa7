//! ExaNeSt's network interface: a packetizer and a mailbox for short messages, an RDMA engine with firmware for others.
//!
//! **Short messages** are stores into a channel of the process' packetizer interface. The last one triggers: the cell
//! leaves when all of it has been read, and the channel is free again when the mailbox of the target has acknowledged
//! it. A process with no free channel waits, and what it sends after that waits behind. The mailbox copies the message
//! into memory, one after the other.
//!
//! **Transfers** are a row of blocks. The firmware, one processor per NIC, serves one thing after the other: the start
//! of a transfer, its next block when the engine has read the one before, and what there is to do when a block has been
//! acknowledged, of which nobody waits for the end. The
//! engine reads one block at a time, of the transfers that have one ready in turn; so the firmware's time between two
//! blocks is hidden when another transfer has data to send. A transfer is done when all of its blocks are acknowledged.
//!
//! **What goes wrong.** A mailbox that is full refuses a message (NACK), and the packetizer sends it again after a
//! while; so it does when it hears nothing in time, if it has a timer. Messages of an interface to a NIC are
//! numbered: the target takes them in order, refuses those that come too early and acknowledges once more those that
//! it has, so that each is there once, in order. A message or a transfer for a process of another protection domain
//! is denied: counted, nothing is written, and its source is told. Where the page of a block is missing (as often as is
//! asked for), the block is dropped and the source sends it again.
//!
//! Messages of one stream (a process to an entry of another one) arrive in the order of the calls: a short message
//! waits until the first block of a transfer before it has left, and a transfer until the short messages before it have
//! left; its first block is noticed when the mailbox has copied them. The two ways do not wait for each other
//! otherwise.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use narrows_units::{ByteRate, Bytes, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::accelerator::{Accelerator, Block, Effect, Vector};
use crate::engine::{Below, Heard, LIBRARY};
use crate::error::Refusal;
use crate::kind::{Directory, Nic, Travels};
use crate::out::{Departure, Event, Out};
use crate::pipeline::Server;
use crate::portals::Header;
use crate::statistics::Troubles;
use narrows_matching::CommandError;
use narrows_portals::Process;

/// What the stages take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExanetConfig {
    /// Longest payload of a message that goes through packetizer and mailbox.
    pub short_limit: Bytes,
    /// Bytes of such a message beside its payload.
    pub header_size: Bytes,
    /// Of each packetizer interface.
    pub channels: u32,
    /// From the last store to the cell on its way: the packetizer reads one message after the other, of whatever size.
    pub packetizer: SimTime,
    /// The mailbox copies one message after the other to memory, of whatever size.
    pub mailbox: SimTime,
    /// Longest block of a transfer, at least 4 KiB.
    pub block: Bytes,
    /// The firmware starts a transfer.
    pub rdma_start: SimTime,
    /// The firmware starts a further block.
    pub rdma_block: SimTime,
    /// The firmware is busy so long when a block has been acknowledged.
    pub rdma_done: SimTime,
    /// The allreduce accelerator's client starts a block.
    pub reduce_start: SimTime,
    /// Its server's engine takes a vector.
    pub reduce_rate: ByteRate,
    /// Messages in the mailbox of a process at most; 0: as many as come.
    pub mailbox_room: u32,
    /// From a refusal to the message's next try.
    pub resend: SimTime,
    /// From a cell on its way to the next one, if nothing is heard; zero: no timer, on networks that lose nothing.
    pub timeout: SimTime,
    /// Transfers at once; others wait.
    pub rdma_channels: u32,
    /// Of a million blocks so many find no page when they come first.
    pub page_faults: u32,
    /// Until the page is there.
    pub fault_time: SimTime,
    /// The protection domain of each process of the machine; those beyond the end are in domain 0.
    pub domains: Arc<[u16]>,
}

/// A message of an interface, as both ends name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Name {
    /// The packetizer interface.
    interface: u32,
    to: PortId,
    /// Its virtual network: only those of one are in order.
    lane: u8,
    sequence: u32,
}

/// Whose messages stay in order: initiator (pid), target (nid and pid), portal table entry.
pub type Stream = (u32, u32, u32, u32);

/// A header of the library above.
pub trait Streamed: Copy {
    /// Its message takes a channel of the interface of the stream's first number; those of none are sent by the NIC
    /// itself.
    fn stream(&self) -> Option<Stream>;
}

/// What the library asks for.
#[derive(Clone, Debug)]
pub enum Order<H> {
    /// To send a message, with the library's token, and its header.
    Message(Departure<H>),
    /// To tell the NIC at the other end something, without a mailbox.
    Acknowledgement(Departure<H>),
    /// To reduce a block with others.
    Allreduce(Block),
}

/// What travels.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Cell<H> {
    /// A message, from packetizer to mailbox.
    Short {
        /// Who acknowledges goes by this.
        from: PortId,
        /// If a packetizer interface waits for that, its name there; and the mailbox.
        name: Option<(Name, u32)>,
        /// Protection domain.
        domain: u16,
        /// The library's.
        message: H,
    },
    /// A block of a transfer.
    Block {
        /// Where it comes from.
        from: PortId,
        /// The transfer's number there.
        transfer: u32,
        /// The block's in the transfer.
        index: u32,
        /// Of all.
        blocks: u32,
        /// Protection domain, if the target is to look at it, and the mailbox of the process there.
        domain: Option<(u16, u32)>,
        /// The library's.
        message: H,
    },
    /// What [`Order::Acknowledgement`] asked for.
    Acknowledgement(H),
    /// The mailbox has this message.
    Taken(Name),
    /// It has no room for it, or waits for an earlier one (NACK).
    Refused(Name),
    /// The message is for another protection domain; that of its target.
    Denied(Name, u16),
    /// A block of this transfer is in memory.
    Written(u32),
    /// Its page is missing: which block.
    Missing(u32, u32),
    /// The transfer is for another protection domain; that of its target.
    NotWritten(u32, u16),
    /// Of an allreduce.
    Vector(Vector),
}

impl Streamed for Header {
    fn stream(&self) -> Option<Stream> {
        Header::stream(self)
    }
}

impl Travels for Cell<Header> {
    fn message(&self) -> Option<&Header> {
        match self {
            Cell::Short { message, .. } | Cell::Block { message, .. } | Cell::Acknowledgement(message) => Some(message),
            _ => None,
        }
    }
    fn is_first(&self) -> bool {
        !matches!(self, Cell::Block { index: 1.., .. })
    }
    fn is_taken_whole(&self) -> bool {
        matches!(self, Cell::Short { message, .. } if message.stream().is_some())
    }
    fn is_from(&self, port: PortId) -> bool {
        match *self {
            Cell::Short { from, .. } => from == port,
            Cell::Block { from, index, blocks, .. } => from == port && index < blocks,
            Cell::Vector(vector) => vector.is_from(port),
            _ => true,
        }
    }
}

/// What the NIC says to the library.
#[derive(Clone, Copy, Debug)]
pub enum ExanetNotice<H> {
    /// The payload of this token has been read.
    Read(u32),
    /// All of it has been acknowledged: its memory is free.
    Done(u32),
    /// The first block of a message is here; its name among those from everywhere.
    Begun((PortId, u32), H),
    /// All of its blocks are in memory.
    Ended((PortId, u32), H),
    /// This message is there, and its payload with it.
    Arrived(H),
    /// The message or transfer of this token was for another protection domain: that of its process, and that of its
    /// target.
    Denied(u32, u16, u16),
    /// The result of a block is in the memory of the process; its ticket.
    Reduced(Process, u32),
}

/// A virtual network of its own for what NICs say to each other: service, response.
const SERVICE_RESPONSE: u8 = 3;

const CELL: Event = Event(0);
const COPIED: Event = Event(1);
const FIRMWARE: Event = Event(2);
const CLIENT: Event = Event(3);
const ENGINE: Event = Event(4);
const RESEND: Event = Event(5);
const TIMEOUT: Event = Event(6);

/// In place of the number of a transfer: a block of an allreduce is read.
const NO_TRANSFER: u32 = u32::MAX;

/// A packetizer interface.
#[derive(Debug)]
struct Interface<H> {
    /// Channels with messages that are not acknowledged.
    busy: u32,
    /// Those of them that were sent.
    sent: Vec<Sent<H>>,
    /// The next number, by target and virtual network.
    next: BTreeMap<(PortId, u8), u32>,
    waiting: VecDeque<(Departure<H>, Stream)>,
}

/// A message that may have to be sent again.
#[derive(Debug)]
struct Sent<H> {
    name: Name,
    mailbox: u32,
    tries: u32,
    departure: Departure<H>,
}

/// A message in the packetizer.
#[derive(Debug)]
struct Posted<H> {
    departure: Departure<H>,
    /// With its mailbox, and the number of this try.
    name: Option<(Name, u32, u32)>,
    /// Transfers whose first block must not pass it.
    followers: Vec<u32>,
}

/// A message between mailbox and memory.
#[derive(Debug)]
struct Coming<H> {
    message: H,
    from: PortId,
    mailbox: Option<u32>,
    /// Transfers that have begun behind it, by name, and whether all of them is here.
    followers: Vec<((PortId, u32), H, bool)>,
}

#[derive(Debug)]
struct Transfer<H> {
    departure: Departure<H>,
    stream: Option<Stream>,
    /// Blocks: all, read, acknowledged.
    blocks: u32,
    read: u32,
    acknowledged: u32,
    /// Blocks to be read once more; one of them is read.
    again: VecDeque<u32>,
    rereads: bool,
    /// Its first block has left.
    started: bool,
    /// Short messages that must not pass its first block.
    followers: Vec<(Departure<H>, Stream)>,
}

/// See the module's page.
#[derive(Debug)]
pub struct Exanet<H> {
    port: PortId,
    config: ExanetConfig,
    packetizer: Server,
    mailbox: Server,
    firmware: Server,
    interfaces: BTreeMap<u32, Interface<H>>,
    /// In the packetizer.
    posted: VecDeque<Posted<H>>,
    /// Refused, to be sent again.
    resending: VecDeque<Name>,
    /// Timers, and the tries that they belong to.
    timers: VecDeque<(Name, u32)>,
    /// Between mailbox and memory.
    coming: VecDeque<Coming<H>>,
    /// Of mailboxes with little room: messages in them.
    full: BTreeMap<u32, u32>,
    /// The number of the next message: by sender, its interface, virtual network.
    expected: BTreeMap<(PortId, u32, u8), u32>,
    /// Of processes that are not in domain 0.
    domains: BTreeMap<u32, u16>,
    troubles: Troubles,
    /// Transfers of which the firmware starts a block.
    starting: VecDeque<u32>,
    transfers: BTreeMap<u32, Transfer<H>>,
    next_transfer: u32,
    /// Transfers with a block to read.
    ready: VecDeque<u32>,
    /// The engine reads a block.
    reading: bool,
    /// Transfers that wait for a channel of the engine, and those that have one.
    queued: VecDeque<u32>,
    active: u32,
    /// Blocks that have come of transfers that are not complete.
    incoming: BTreeMap<(PortId, u32), u32>,
    /// When the missing pages of blocks will be there.
    missing: BTreeMap<(PortId, u32, u32), SimTime>,
    accelerator: Accelerator,
    /// Reused: what it wants done.
    effects: Vec<Effect>,
}

impl<H: Streamed> Exanet<H> {
    /// That at a port.
    pub fn new(config: ExanetConfig, port: PortId) -> Exanet<H> {
        let accelerator = Accelerator::new(port, config.reduce_start, config.reduce_rate);
        Exanet {
            accelerator,
            effects: Vec::new(),
            port,
            config,
            packetizer: Server::default(),
            mailbox: Server::default(),
            firmware: Server::default(),
            interfaces: BTreeMap::new(),
            posted: VecDeque::new(),
            resending: VecDeque::new(),
            timers: VecDeque::new(),
            coming: VecDeque::new(),
            full: BTreeMap::new(),
            expected: BTreeMap::new(),
            domains: BTreeMap::new(),
            troubles: Troubles::default(),
            starting: VecDeque::new(),
            transfers: BTreeMap::new(),
            next_transfer: 0,
            ready: VecDeque::new(),
            reading: false,
            queued: VecDeque::new(),
            active: 0,
            incoming: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    /// A process of this node is in a protection domain: it sends for it, and takes nothing else. All are in domain 0
    /// until then.
    pub fn set_domain(&mut self, pid: u32, domain: u16) {
        self.domains.insert(pid, domain);
    }

    /// What went wrong here.
    pub fn troubles(&self) -> Troubles {
        self.troubles
    }

    /// Vectors of allreduces that wait here for others.
    pub fn waiting_vectors(&self) -> u64 {
        self.accelerator.waiting()
    }

    fn domain(&self, pid: u32) -> u16 {
        self.domains.get(&pid).copied().unwrap_or(0)
    }

    fn is_short(&self, departure: &Departure<H>) -> bool {
        departure.payload <= self.config.short_limit
    }

    /// Sends messages of a process that wait for a channel, as far as there are any.
    fn serve(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        while let Some(interface) = self.interfaces.get_mut(&number)
            && let Some(&(departure, stream)) = interface.waiting.front()
        {
            let short = departure.payload <= self.config.short_limit;
            // Where messages are refused or lost, a transfer could pass one that must be sent again.
            let loses = self.config.mailbox_room > 0 || self.config.timeout > SimTime::ZERO;
            if short && interface.busy >= self.config.channels || !short && loses && interface.busy > 0 {
                return;
            }
            interface.waiting.pop_front();
            if !short {
                self.begin(now, departure, Some(stream), out);
                continue;
            }
            interface.busy += 1;
            match self.transfers.values_mut().rev().find(|transfer| !transfer.started && transfer.stream == Some(stream)) {
                Some(transfer) => transfer.followers.push((departure, stream)),
                None => self.post(now, departure, Some(stream), out),
            }
        }
    }

    /// A message is in the packetizer.
    fn post(&mut self, now: SimTime, departure: Departure<H>, stream: Option<Stream>, out: &mut impl Out<Self>) {
        let name = stream.and_then(|(interface, _, mailbox, _)| {
            let (to, lane) = (departure.to, departure.virtual_network);
            let of = self.interfaces.get_mut(&interface)?;
            let next = of.next.entry((to, lane)).or_default();
            let name = Name { interface, to, lane, sequence: *next };
            *next = next.wrapping_add(1);
            of.sent.push(Sent { name, mailbox, tries: 0, departure });
            Some((name, mailbox, 0))
        });
        self.transmit(now, Posted { departure, name, followers: Vec::new() }, out);
    }

    fn transmit(&mut self, now: SimTime, posted: Posted<H>, out: &mut impl Out<Self>) {
        self.posted.push_back(posted);
        out.schedule(self.packetizer.end(now, self.config.packetizer), self.port, CELL);
    }

    fn sent(&mut self, name: Name) -> Option<&mut Sent<H>> {
        self.interfaces.get_mut(&name.interface)?.sent.iter_mut().find(|sent| sent.name == name)
    }

    /// Sends a message once more, if it is still the try that was to be waited for.
    fn repeat(&mut self, now: SimTime, name: Name, after: Option<u32>, out: &mut impl Out<Self>) {
        let Some(sent) = self.sent(name) else { return };
        if after.is_some_and(|tries| tries != sent.tries) {
            return;
        }
        sent.tries += 1;
        let again = Posted { departure: sent.departure, name: Some((name, sent.mailbox, sent.tries)), followers: Vec::new() };
        self.troubles.timeouts += u64::from(after.is_some());
        self.transmit(now, again, out);
    }

    /// A message of this name is over: it has been taken, or never will be.
    fn settle(&mut self, now: SimTime, name: Name, out: &mut impl Out<Self>) -> Option<Departure<H>> {
        let interface = self.interfaces.get_mut(&name.interface)?;
        let place = interface.sent.iter().position(|sent| sent.name == name)?;
        let Sent { departure, .. } = interface.sent.swap_remove(place);
        interface.busy = interface.busy.saturating_sub(1);
        self.serve(now, name.interface, out);
        Some(departure)
    }

    /// What the mailbox answers to a message that is here, and whether it takes it.
    fn judge(&mut self, from: PortId, name: Name, mailbox: u32, domain: u16) -> (Cell<H>, bool) {
        let expected = self.expected.entry((from, name.interface, name.lane)).or_default();
        let ahead = name.sequence.wrapping_sub(*expected);
        let found = self.domains.get(&mailbox).copied().unwrap_or(0);
        let denied = found != domain;
        if ahead > u32::MAX / 2 {
            self.troubles.duplicates += 1;
            return (if denied { Cell::Denied(name, found) } else { Cell::Taken(name) }, false);
        }
        let room = self.config.mailbox_room;
        if ahead > 0 || room > 0 && self.full.get(&mailbox).is_some_and(|inside| *inside >= room) {
            self.troubles.refused += 1;
            return (Cell::Refused(name), false);
        }
        *expected = expected.wrapping_add(1);
        if denied {
            self.troubles.denied += 1;
            return (Cell::Denied(name, found), false);
        }
        if room > 0 {
            *self.full.entry(mailbox).or_default() += 1;
        }
        (Cell::Taken(name), true)
    }

    /// The page of a block is missing. Each finds it missing once, and as long as it is.
    fn page_is_missing(&mut self, now: SimTime, block: (PortId, u32, u32)) -> bool {
        if self.config.page_faults == 0 {
            return false;
        }
        match self.missing.get(&block) {
            Some(ready) if now < *ready => {}
            Some(_) => return self.missing.remove(&block).is_none(),
            None => {
                let (PortId(from), transfer, index) = block;
                let words = [self.port.0, from, transfer, index].into_iter().fold(0, |hash, word| mix(hash ^ u64::from(word)));
                if words % 1_000_000 >= u64::from(self.config.page_faults) {
                    return false;
                }
                self.missing.insert(block, now + self.config.fault_time);
            }
        }
        self.troubles.page_faults += 1;
        true
    }

    /// A transfer is in the queue of the firmware.
    fn begin(&mut self, now: SimTime, departure: Departure<H>, stream: Option<Stream>, out: &mut impl Out<Self>) {
        let number = self.next_transfer;
        self.next_transfer = (number + 1) % NO_TRANSFER;
        let blocks = u32::try_from(departure.payload.0.div_ceil(self.config.block.0)).expect("blocks of 4 KiB and messages of 2^40 B");
        let (again, followers) = (VecDeque::new(), Vec::new());
        let transfer = Transfer { departure, stream, blocks, read: 0, acknowledged: 0, again, rereads: false, started: false, followers };
        self.transfers.insert(number, transfer);
        if self.active < self.config.rdma_channels {
            self.active += 1;
            self.start(now, number, self.config.rdma_start, out);
        } else {
            self.queued.push_back(number);
        }
    }

    /// A transfer is over: its channel is the next one's.
    fn end(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) -> Option<Transfer<H>> {
        let transfer = self.transfers.remove(&number)?;
        match self.queued.pop_front() {
            Some(next) => self.start(now, next, self.config.rdma_start, out),
            None => self.active -= 1,
        }
        Some(transfer)
    }

    /// The firmware starts a block.
    fn start(&mut self, now: SimTime, transfer: u32, busy: SimTime, out: &mut impl Out<Self>) {
        self.starting.push_back(transfer);
        out.schedule(self.firmware.end(now, busy), self.port, FIRMWARE);
    }

    /// The engine takes the next block, unless it has one.
    fn read(&mut self, now: SimTime, out: &mut impl Out<Self>) {
        if self.reading {
            return;
        }
        let (number, transfer) = loop {
            let Some(number) = self.ready.pop_front() else { return };
            let Some(transfer) = self.transfers.get_mut(&number) else { return };
            let (first, stream) = (!transfer.started, transfer.stream);
            let is_before = |before: &&mut Posted<H>| first && stream.is_some() && before.departure.header.stream() == stream;
            match self.posted.iter_mut().rev().find(is_before) {
                Some(before) => before.followers.push(number),
                None => break (number, transfer),
            }
        };
        self.reading = true;
        transfer.started = true;
        let Transfer { departure, stream, blocks, .. } = *transfer;
        let again = transfer.again.pop_front();
        transfer.rereads = again.is_some();
        let index = again.unwrap_or(transfer.read);
        let followers = std::mem::take(&mut transfer.followers);
        let before = u64::from(index) * self.config.block.0;
        let payload = Bytes((departure.payload.0 - before).min(self.config.block.0));
        let domain = stream.map(|(pid, _, mailbox, _)| (self.domain(pid), mailbox));
        let header = Cell::Block { from: self.port, transfer: number, index, blocks, domain, message: departure.header };
        out.depart(self.port, Departure { payload, source_dma: true, target_dma: true, token: number, ..departure.map(|_| header) });
        for (departure, stream) in followers {
            self.post(now, departure, Some(stream), out);
        }
    }

    /// Does what the accelerator wants.
    fn accelerate<O: Out<Self>, R>(&mut self, out: &mut O, act: impl FnOnce(&mut Accelerator, &mut O, &mut Vec<Effect>) -> R) -> R {
        let mut effects = std::mem::take(&mut self.effects);
        let result = act(&mut self.accelerator, out, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { to, vector } => out.depart(
                    self.port,
                    Departure {
                        to,
                        virtual_network: 0,
                        payload: vector.length(),
                        source_dma: vector.is_read(),
                        target_dma: vector.is_written(),
                        token: NO_TRANSFER,
                        header: Cell::Vector(vector),
                    },
                ),
                Effect::Tell { process, ticket } => out.notify(self.port, LIBRARY, ExanetNotice::Reduced(process, ticket)),
            }
        }
        self.effects = effects;
        result
    }

    /// Something for the NIC at another port.
    fn tell(&self, to: PortId, header: Cell<H>, out: &mut impl Out<Self>) {
        let (payload, virtual_network, token) = (Bytes(0), SERVICE_RESPONSE, u32::MAX);
        out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
    }
}

impl<H: Streamed> Nic for Exanet<H> {
    type Command = Order<H>;
    type Notice = ExanetNotice<H>;
    type Header = Cell<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, order: Order<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        match order {
            Order::Acknowledgement(departure) => out.depart(self.port, departure.map(Cell::Acknowledgement)),
            Order::Allreduce(block) => out.schedule(self.accelerator.command(now, block), self.port, CLIENT),
            Order::Message(departure) => match departure.header.stream() {
                Some(stream) => {
                    let interface = self.interfaces.entry(stream.0);
                    let interface = interface.or_insert_with(|| Interface {
                        busy: 0,
                        sent: Vec::new(),
                        next: BTreeMap::new(),
                        waiting: VecDeque::new(),
                    });
                    interface.waiting.push_back((departure, stream));
                    self.serve(now, stream.0, out);
                }
                None if self.is_short(&departure) => self.post(now, departure, None, out),
                None => self.begin(now, departure, None, out),
            },
        }
        Ok(())
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        match event {
            CELL => {
                let Some(Posted { departure, name, followers }) = self.posted.pop_front() else { return };
                let Departure { to, virtual_network, payload, token, header: message, source_dma, .. } = departure;
                let domain = name.map_or(0, |(name, ..)| self.domain(name.interface));
                let header = Cell::Short { from: self.port, name: name.map(|(name, mailbox, _)| (name, mailbox)), domain, message };
                let payload = Bytes(self.config.header_size.0 + payload.0);
                out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
                let first = name.is_none_or(|(_, _, tries)| tries == 0);
                if source_dma && first {
                    out.notify(self.port, LIBRARY, ExanetNotice::Read(token));
                    out.notify(self.port, LIBRARY, ExanetNotice::Done(token));
                }
                if let Some((name, _, tries)) = name
                    && self.config.timeout > SimTime::ZERO
                {
                    self.timers.push_back((name, tries));
                    out.schedule(now + self.config.timeout, self.port, TIMEOUT);
                }
                if !followers.is_empty() {
                    // They have waited longest.
                    followers.into_iter().rev().for_each(|transfer| self.ready.push_front(transfer));
                    self.read(now, out);
                }
            }
            COPIED => {
                if let Some(Coming { message, mailbox, followers, .. }) = self.coming.pop_front() {
                    if let Some(inside) = mailbox.and_then(|mailbox| self.full.get_mut(&mailbox)) {
                        *inside = inside.saturating_sub(1);
                    }
                    out.notify(self.port, LIBRARY, ExanetNotice::Arrived(message));
                    for (name, message, ended) in followers {
                        out.notify(self.port, LIBRARY, ExanetNotice::Begun(name, message));
                        if ended {
                            out.notify(self.port, LIBRARY, ExanetNotice::Ended(name, message));
                        }
                    }
                }
            }
            RESEND => {
                if let Some(name) = self.resending.pop_front() {
                    self.repeat(now, name, None, out);
                }
            }
            TIMEOUT => {
                if let Some((name, tries)) = self.timers.pop_front() {
                    self.repeat(now, name, Some(tries), out);
                }
            }
            CLIENT => self.accelerate(out, |accelerator, out, effects| accelerator.begin(out, effects)),
            ENGINE => self.accelerate(out, |accelerator, out, effects| accelerator.take(out, effects)),
            _ => {
                self.ready.extend(self.starting.pop_front());
                self.read(now, out);
            }
        }
    }

    fn source_done(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        if number == NO_TRANSFER {
            return;
        }
        self.reading = false;
        if let Some(transfer) = self.transfers.get_mut(&number) {
            let rereads = std::mem::take(&mut transfer.rereads);
            transfer.read += u32::from(!rereads);
            if rereads {
                // Its next block is under way already, if there is one.
            } else if transfer.read < transfer.blocks {
                self.start(now, number, self.config.rdma_block, out);
            } else if transfer.departure.source_dma {
                out.notify(self.port, LIBRARY, ExanetNotice::Read(transfer.departure.token));
            }
        }
        self.read(now, out);
    }

    fn head(&mut self, _: SimTime, cell: &Cell<H>, out: &mut impl Out<Self>) -> u32 {
        if let Cell::Block { from, transfer, index: 0, domain, message, .. } = *cell
            && !self.missing.contains_key(&(from, transfer, 0))
            && domain.is_none_or(|(domain, mailbox)| domain == self.domain(mailbox))
        {
            let stream = message.stream();
            let is_before = |before: &&mut Coming<H>| stream.is_some() && before.from == from && before.message.stream() == stream;
            match self.coming.iter_mut().rev().find(is_before) {
                Some(before) => before.followers.push(((from, transfer), message, false)),
                None => out.notify(self.port, LIBRARY, ExanetNotice::Begun((from, transfer), message)),
            }
        }
        0
    }

    fn tail(&mut self, now: SimTime, _: u32, cell: &Cell<H>, out: &mut impl Out<Self>) {
        match *cell {
            Cell::Short { from, name, domain, message } => {
                if let Some((name, mailbox)) = name {
                    let (answer, taken) = self.judge(from, name, mailbox, domain);
                    if !taken {
                        return self.tell(from, answer, out);
                    }
                }
                let mailbox = name.map(|(_, mailbox)| mailbox);
                self.coming.push_back(Coming { message, from, mailbox, followers: Vec::new() });
                out.schedule(self.mailbox.end(now, self.config.mailbox), self.port, COPIED);
                if let Some((name, _)) = name {
                    self.tell(from, Cell::Taken(name), out);
                }
            }
            Cell::Block { from, transfer, index, blocks, domain, message } => {
                let name = (from, transfer);
                if let Some((domain, mailbox)) = domain
                    && domain != self.domain(mailbox)
                {
                    self.troubles.denied += u64::from(index == 0);
                    return self.tell(from, Cell::NotWritten(transfer, self.domain(mailbox)), out);
                }
                if self.page_is_missing(now, (from, transfer, index)) {
                    return self.tell(from, Cell::Missing(transfer, index), out);
                }
                self.tell(from, Cell::Written(transfer), out);
                let come = self.incoming.entry(name).or_insert(0);
                *come += 1;
                if *come == blocks {
                    self.incoming.remove(&name);
                    let mut late = self.coming.iter_mut().flat_map(|before| &mut before.followers);
                    match late.find(|(late, ..)| *late == name) {
                        Some((.., ended)) => *ended = true,
                        None => out.notify(self.port, LIBRARY, ExanetNotice::Ended(name, message)),
                    }
                }
            }
            Cell::Acknowledgement(message) => out.notify(self.port, LIBRARY, ExanetNotice::Arrived(message)),
            Cell::Vector(vector) => {
                if let Some(at) = self.accelerate(out, |accelerator, out, effects| accelerator.arrive(now, vector, out, effects)) {
                    out.schedule(at, self.port, ENGINE);
                }
            }
            Cell::Taken(name) => drop(self.settle(now, name, out)),
            Cell::Refused(name) => {
                if self.sent(name).is_some() {
                    self.resending.push_back(name);
                    out.schedule(now + self.config.resend, self.port, RESEND);
                }
            }
            Cell::Denied(name, found) => {
                if let Some(departure) = self.settle(now, name, out) {
                    out.notify(self.port, LIBRARY, ExanetNotice::Denied(departure.token, self.domain(name.interface), found));
                }
            }
            Cell::Written(number) => {
                self.firmware.begin(now, self.config.rdma_done);
                let Some(transfer) = self.transfers.get_mut(&number) else { return };
                transfer.acknowledged += 1;
                if transfer.acknowledged == transfer.blocks
                    && let Some(Transfer { departure: Departure { token, source_dma: true, .. }, .. }) = self.end(now, number, out)
                {
                    out.notify(self.port, LIBRARY, ExanetNotice::Done(token));
                }
            }
            Cell::Missing(number, index) => {
                if let Some(transfer) = self.transfers.get_mut(&number) {
                    transfer.again.push_back(index);
                    self.start(now, number, self.config.rdma_block, out);
                }
            }
            Cell::NotWritten(number, found) => {
                let Some(transfer) = self.transfers.get_mut(&number) else { return };
                transfer.acknowledged += 1;
                if transfer.acknowledged == transfer.blocks
                    && let Some(Transfer { departure: Departure { token, source_dma, .. }, stream, .. }) = self.end(now, number, out)
                {
                    if source_dma {
                        out.notify(self.port, LIBRARY, ExanetNotice::Done(token));
                    }
                    let own = stream.map_or(0, |(pid, ..)| self.domain(pid));
                    out.notify(self.port, LIBRARY, ExanetNotice::Denied(token, own, found));
                }
            }
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

impl Below for Exanet<Header> {
    type Config = ExanetConfig;

    fn at(config: &ExanetConfig, directory: &Directory, port: PortId) -> Self {
        let mut nic = Exanet::new(config.clone(), port);
        for &(pid, Process(process)) in directory.processes_of(directory.of_port(port).0) {
            if let Some(&domain) = config.domains.get(process as usize) {
                nic.set_domain(pid, domain);
            }
        }
        nic
    }
    fn copied(config: &ExanetConfig) -> Bytes {
        config.short_limit
    }
    fn order(departure: Departure<Header>) -> Order<Header> {
        match departure.header {
            Header::Received(_) => Order::Acknowledgement(departure),
            _ => Order::Message(departure),
        }
    }
    fn heard(notice: ExanetNotice<Header>) -> Heard {
        match notice {
            ExanetNotice::Read(token) => Heard::Read(token),
            ExanetNotice::Done(token) => Heard::Done(token),
            ExanetNotice::Begun(name, header) => Heard::Begun(name, header),
            ExanetNotice::Ended(name, header) => Heard::Ended(name, header),
            ExanetNotice::Arrived(header) => Heard::Arrived(header),
            ExanetNotice::Denied(token, own, found) => Heard::Denied(token, own, found),
            ExanetNotice::Reduced(process, ticket) => Heard::Reduced(process, ticket),
        }
    }
    fn reduce(block: Block) -> Option<Order<Header>> {
        Some(Order::Allreduce(block))
    }
    fn waiting_vectors(&self) -> u64 {
        self.waiting_vectors()
    }
    fn troubles(&self) -> Troubles {
        self.troubles()
    }
}

/// splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
