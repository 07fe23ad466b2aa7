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
//! Messages of one stream (a process to an entry of another one) arrive in the order of the calls: a short message
//! waits until the first block of a transfer before it has left. The two ways do not wait for each other otherwise.

use std::collections::{BTreeMap, VecDeque};

use narrows_units::{Bytes, PortId, SimTime};

use crate::error::Refusal;
use crate::kind::Nic;
use crate::mailbox::LIBRARY;
use crate::out::{Departure, Event, Out};
use crate::pipeline::Server;
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
}

/// Whose messages stay in order: initiator (pid), target (nid and pid), portal table entry.
pub type Stream = (u32, u32, u32, u32);

/// What the library asks for.
#[derive(Clone, Copy, Debug)]
pub enum Order<H> {
    /// To send a message.
    Message {
        /// With the library's token, and its header.
        departure: Departure<H>,
        /// A message of this stream takes a channel of the interface of its first number; others are sent by the NIC
        /// itself.
        stream: Option<Stream>,
    },
    /// To tell the NIC at the other end something, without a mailbox.
    Acknowledgement(Departure<H>),
}

/// What travels.
#[derive(Clone, Copy, Debug)]
pub enum Cell<H> {
    /// A message, from packetizer to mailbox.
    Short {
        /// Who acknowledges goes by this.
        from: PortId,
        /// The packetizer interface that waits for that.
        interface: Option<u32>,
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
        /// The library's.
        message: H,
    },
    /// What [`Order::Acknowledgement`] asked for.
    Acknowledgement(H),
    /// The mailbox has a message of this interface.
    Taken(u32),
    /// A block of this transfer is in memory.
    Written(u32),
}

impl<H> Cell<H> {
    /// The library's header; none in what NICs say to each other.
    pub fn message(&self) -> Option<&H> {
        match self {
            Cell::Short { message, .. } | Cell::Block { message, .. } | Cell::Acknowledgement(message) => Some(message),
            Cell::Taken(_) | Cell::Written(_) => None,
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
}

/// A virtual network of its own for what NICs say to each other: service, response.
const SERVICE_RESPONSE: u8 = 3;

const CELL: Event = Event(0);
const COPIED: Event = Event(1);
const FIRMWARE: Event = Event(2);

/// A packetizer interface.
#[derive(Debug)]
struct Interface<H> {
    /// Channels with messages that are not acknowledged.
    busy: u32,
    waiting: VecDeque<(Departure<H>, Stream)>,
}

#[derive(Debug)]
struct Transfer<H> {
    departure: Departure<H>,
    stream: Option<Stream>,
    /// Blocks: all, read, acknowledged.
    blocks: u32,
    read: u32,
    acknowledged: u32,
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
    posted: VecDeque<(Departure<H>, Option<Stream>)>,
    /// Between mailbox and memory.
    coming: VecDeque<H>,
    /// Transfers of which the firmware starts a block.
    starting: VecDeque<u32>,
    transfers: BTreeMap<u32, Transfer<H>>,
    next_transfer: u32,
    /// Transfers with a block to read.
    ready: VecDeque<u32>,
    /// The engine reads a block.
    reading: bool,
    /// Blocks that have come of transfers that are not complete.
    incoming: BTreeMap<(PortId, u32), u32>,
}

impl<H: Copy> Exanet<H> {
    /// That at a port.
    pub fn new(config: ExanetConfig, port: PortId) -> Exanet<H> {
        Exanet {
            port,
            config,
            packetizer: Server::default(),
            mailbox: Server::default(),
            firmware: Server::default(),
            interfaces: BTreeMap::new(),
            posted: VecDeque::new(),
            coming: VecDeque::new(),
            starting: VecDeque::new(),
            transfers: BTreeMap::new(),
            next_transfer: 0,
            ready: VecDeque::new(),
            reading: false,
            incoming: BTreeMap::new(),
        }
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
            if short && interface.busy >= self.config.channels {
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
        self.posted.push_back((departure, stream));
        out.schedule(self.packetizer.end(now, self.config.packetizer), self.port, CELL);
    }

    /// A transfer is in the queue of the firmware.
    fn begin(&mut self, now: SimTime, departure: Departure<H>, stream: Option<Stream>, out: &mut impl Out<Self>) {
        let number = self.next_transfer;
        self.next_transfer = number.wrapping_add(1);
        let blocks = u32::try_from(departure.payload.0.div_ceil(self.config.block.0)).expect("blocks of 4 KiB and messages of 2^40 B");
        let transfer = Transfer { departure, stream, blocks, read: 0, acknowledged: 0, started: false, followers: Vec::new() };
        self.transfers.insert(number, transfer);
        self.start(now, number, self.config.rdma_start, out);
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
        let Some(number) = self.ready.pop_front() else { return };
        let Some(transfer) = self.transfers.get_mut(&number) else { return };
        self.reading = true;
        transfer.started = true;
        let Transfer { departure, read: index, blocks, .. } = *transfer;
        let followers = std::mem::take(&mut transfer.followers);
        let before = u64::from(index) * self.config.block.0;
        let payload = Bytes((departure.payload.0 - before).min(self.config.block.0));
        let header = Cell::Block { from: self.port, transfer: number, index, blocks, message: departure.header };
        out.depart(self.port, Departure { payload, source_dma: true, target_dma: true, token: number, ..departure.map(|_| header) });
        for (departure, stream) in followers {
            self.post(now, departure, Some(stream), out);
        }
    }

    /// Something for the NIC at another port.
    fn tell(&self, to: PortId, header: Cell<H>, out: &mut impl Out<Self>) {
        let (payload, virtual_network, token) = (Bytes(0), SERVICE_RESPONSE, u32::MAX);
        out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
    }
}

impl<H: Copy> Nic for Exanet<H> {
    type Command = Order<H>;
    type Notice = ExanetNotice<H>;
    type Header = Cell<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, order: Order<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        match order {
            Order::Acknowledgement(departure) => out.depart(self.port, departure.map(Cell::Acknowledgement)),
            Order::Message { departure, stream: Some(stream) } => {
                let interface = self.interfaces.entry(stream.0);
                let interface = interface.or_insert_with(|| Interface { busy: 0, waiting: VecDeque::new() });
                interface.waiting.push_back((departure, stream));
                self.serve(now, stream.0, out);
            }
            Order::Message { departure, stream: None } if self.is_short(&departure) => self.post(now, departure, None, out),
            Order::Message { departure, stream: None } => self.begin(now, departure, None, out),
        }
        Ok(())
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        match event {
            CELL => {
                let Some((departure, stream)) = self.posted.pop_front() else { return };
                let Departure { to, virtual_network, payload, token, header: message, source_dma, .. } = departure;
                let header = Cell::Short { from: self.port, interface: stream.map(|stream| stream.0), message };
                let payload = Bytes(self.config.header_size.0 + payload.0);
                out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
                if source_dma {
                    out.notify(self.port, LIBRARY, ExanetNotice::Read(token));
                    out.notify(self.port, LIBRARY, ExanetNotice::Done(token));
                }
            }
            COPIED => {
                if let Some(message) = self.coming.pop_front() {
                    out.notify(self.port, LIBRARY, ExanetNotice::Arrived(message));
                }
            }
            _ => {
                self.ready.extend(self.starting.pop_front());
                self.read(now, out);
            }
        }
    }

    fn source_done(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        self.reading = false;
        if let Some(transfer) = self.transfers.get_mut(&number) {
            transfer.read += 1;
            if transfer.read < transfer.blocks {
                self.start(now, number, self.config.rdma_block, out);
            } else if transfer.departure.source_dma {
                out.notify(self.port, LIBRARY, ExanetNotice::Read(transfer.departure.token));
            }
        }
        self.read(now, out);
    }

    fn head(&mut self, _: SimTime, cell: &Cell<H>, out: &mut impl Out<Self>) -> u32 {
        if let Cell::Block { from, transfer, index: 0, message, .. } = *cell {
            out.notify(self.port, LIBRARY, ExanetNotice::Begun((from, transfer), message));
        }
        0
    }

    fn tail(&mut self, now: SimTime, _: u32, cell: &Cell<H>, out: &mut impl Out<Self>) {
        match *cell {
            Cell::Short { from, interface, message } => {
                self.coming.push_back(message);
                out.schedule(self.mailbox.end(now, self.config.mailbox), self.port, COPIED);
                if let Some(interface) = interface {
                    self.tell(from, Cell::Taken(interface), out);
                }
            }
            Cell::Block { from, transfer, blocks, message, .. } => {
                let name = (from, transfer);
                self.tell(from, Cell::Written(transfer), out);
                let come = self.incoming.entry(name).or_insert(0);
                *come += 1;
                if *come == blocks {
                    self.incoming.remove(&name);
                    out.notify(self.port, LIBRARY, ExanetNotice::Ended(name, message));
                }
            }
            Cell::Acknowledgement(message) => out.notify(self.port, LIBRARY, ExanetNotice::Arrived(message)),
            Cell::Taken(number) => {
                if let Some(interface) = self.interfaces.get_mut(&number) {
                    interface.busy = interface.busy.saturating_sub(1);
                    self.serve(now, number, out);
                }
            }
            Cell::Written(number) => {
                self.firmware.begin(now, self.config.rdma_done);
                let Some(transfer) = self.transfers.get_mut(&number) else { return };
                transfer.acknowledged += 1;
                if transfer.acknowledged == transfer.blocks {
                    let Departure { token, source_dma, .. } = transfer.departure;
                    self.transfers.remove(&number);
                    if source_dma {
                        out.notify(self.port, LIBRARY, ExanetNotice::Done(token));
                    }
                }
            }
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}
