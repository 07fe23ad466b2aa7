//! caRVnet: RDMA from user memory to user memory, by descriptors of four stores and an engine in hardware.
//!
//! **Descriptors.** A process stores four words into a channel of its own, one store after the other, and the NIC has
//! the descriptor when the last one has crossed over to it (`node.pcie.latency`). A process with no free channel waits.
//! The engine takes descriptors in the order in which they come: each needs a context, which the hardware allots, and
//! leaves its channel then. A message with nothing to read is a transfer without payload.
//!
//! **Transfers** are rows of blocks. When a transfer has its context, its first read goes to memory
//! (`node.pcie.latency` and [`CarvnetConfig::first_read`]), and the engine begins a packet at a time; transfers take
//! turns packet by packet. A block begins when the one before has been read.
//!
//! **Targets** allot a context to each transfer, too, when its first block comes. Where there is none the target says
//! so, the source holds the transfer, and sends it once more when the target has a context for it: contexts go to
//! those that wait, in order, and what comes later from the same source waits behind them. A block is in memory
//! [`CarvnetConfig::write`] after its last byte; then the engine acknowledges it, and when all of them are there the
//! process hears of it [`CarvnetConfig::notify`] later. The source's context is free when all blocks have been
//! acknowledged.
//!
//! **IO-MMU.** At the first access to a page the IO-MMU walks the page table, one walk after the other. Which pages a
//! process uses is taken from lengths, so that results do not hang on where a program's memory lies: each transfer of a
//! process begins at the same page, and a page is new when no transfer before was that long. Sending and receiving have
//! pages of their own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narrows_keys::{Only, keys};
use narrows_units::{Bytes, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::config::NicConfig;
use crate::engine::{Below, Heard, LIBRARY};
use crate::error::Refusal;
use crate::kind::{Directory, Nic, Travels};
use crate::out::{Departure, Event, Out};
use crate::pipeline::Server;
use crate::portals::Header;
use narrows_matching::CommandError;
use narrows_portals::Process;

const OWN: Only = Only::with("nic.kind", &["carvnet"]);

keys! {
    /// What the stages take: `[nic.carvnet]`. Cycles are those of 100 MHz.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CarvnetConfig {
        // D1.4 8.2, Fig. 23.
        /// Stores that make a descriptor.
        pub stores: u32 = 4, in 1..=64, of OWN;
        // D1.4 8.2: one store per cycle.
        /// A core stores one word of a descriptor.
        pub store: SimTime = "10 ns", of OWN;
        // Our own choice: as ExaNeSt's packetizer.
        /// Descriptors of a process that wait in the NIC; its next one waits in the process.
        pub channels: u32 = 4, in 1..=1 << 16, of OWN;
        // Our own choice: a round trip of 0.7 us holds 18 packets at 25 M/s; a power of two above that with room.
        /// Transfers that a NIC sends at once; others wait.
        pub source_contexts: u32 = 64, in 1..=1 << 20, of OWN;
        // Our own choice: as many.
        /// Transfers that a NIC takes at once; others wait at their sources.
        pub target_contexts: u32 = 64, in 1..=1 << 20, of OWN;
        // D1.4 8.2: the first read is there ten cycles after the descriptor; three quarters of them are the way to
        // memory.
        /// From a context to its first read, in addition to `node.pcie.latency`.
        pub first_read: SimTime = "25 ns", of OWN;
        // D1.4 8.2: a packet in four cycles.
        /// The engine begins a block, one after the other.
        pub segment: SimTime = "40 ns", of OWN;
        // Our own choice: ExaNeSt's.
        /// A block of a transfer.
        pub block: Bytes = "16 KiB", in Bytes(4096).., of OWN;
        // Our own choice: as a packet.
        /// The engine acknowledges a block, one after the other.
        pub acknowledge: SimTime = "40 ns", of OWN;
        // Our own choice: twelve cycles, so that an RDMA takes less than 0.5 us (D1.4 8.2).
        /// From the last byte of a block to memory.
        pub write: SimTime = "120 ns", of OWN;
        // Our own choice: what is left of 72 cycles (D1.4 8.2).
        /// From memory to the process that waits.
        pub notify: SimTime = "72.5 ns", of OWN;
        // RISC-V's privileged architecture: Sv39.
        /// A page of the IO-MMU.
        pub page: Bytes = "4 KiB", in Bytes(4096).., of OWN;
        // Our own choice: three levels (Sv39), a read of ten cycles each.
        /// The IO-MMU walks the page table, at the first access to a page.
        pub walk: SimTime = "300 ns", of OWN;
    }
}

/// What travels.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Rdma<H> {
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
        /// The virtual network: only transfers of one are in order.
        lane: u8,
        /// Pages of the transfer up to the end of the block.
        pages: u32,
        /// The process (pid) in whose memory it goes.
        writes: u32,
        /// The library's.
        message: H,
    },
    /// What libraries say to each other, without a context.
    Said(H),
    /// A block of this transfer is in memory.
    Written(u32),
    /// There is no context for this transfer.
    Full(u32),
    /// Now there is.
    Free(u32),
}

impl Travels for Rdma<Header> {
    fn message(&self) -> Option<&Header> {
        match self {
            Rdma::Block { message, .. } | Rdma::Said(message) => Some(message),
            _ => None,
        }
    }
    fn is_first(&self) -> bool {
        !matches!(self, Rdma::Block { index: 1.., .. })
    }
    /// A NIC knows of a transfer when its first header is there.
    fn is_taken_whole(&self) -> bool {
        false
    }
    fn is_from(&self, port: PortId) -> bool {
        match *self {
            Rdma::Block { from, index, blocks, .. } => from == port && index < blocks,
            _ => true,
        }
    }
}

/// What the library asks for.
#[derive(Clone, Copy, Debug)]
pub enum CarvnetSend<H> {
    /// A transfer.
    Transfer {
        /// The message.
        departure: Departure<H>,
        /// The process (pid) whose channel the descriptor takes; what the NIC answers by itself takes none.
        process: Option<u32>,
        /// The processes whose memory is read and written.
        memory: (u32, u32),
    },
    /// Something for the library at the other end.
    Say(Departure<H>),
}

/// What the NIC says to the library.
#[derive(Clone, Copy, Debug)]
pub enum CarvnetNotice<H> {
    /// The payload of this token has been read.
    Read(u32),
    /// All of it has been acknowledged: its memory is free.
    Done(u32),
    /// The first block of a message comes; its name.
    Begun((PortId, u32), H),
    /// All of its blocks are in memory, and the process knows.
    Ended((PortId, u32), H),
    /// What was said.
    Said(H),
}

/// A virtual network of its own for what NICs say to each other: service, response.
const SERVICE_RESPONSE: u8 = 3;

const STORED: Event = Event(0);
const FIRST: Event = Event(1);
const NEXT: Event = Event(2);
const WRITTEN: Event = Event(3);
const ACKNOWLEDGED: Event = Event(4);
const NOTIFIED: Event = Event(5);

/// What a head says of a block to its tail.
const REFUSED: u32 = 0;
const TAKEN: u32 = 1;

/// The channels of a process.
#[derive(Debug, Default)]
struct Channels {
    /// Descriptors in them, on their way or waiting for a context.
    busy: u32,
    waiting: VecDeque<u32>,
    core: Server,
}

#[derive(Debug)]
struct Sending<H> {
    departure: Departure<H>,
    process: Option<u32>,
    memory: (u32, u32),
    /// Blocks: all, read, acknowledged.
    blocks: u32,
    read: u32,
    acknowledged: u32,
    /// A block is under way to the network.
    reading: bool,
    /// The target has no context.
    held: bool,
    /// A block that was to begin is none of this try.
    tries: u32,
    /// The library knows that all has been read.
    told: bool,
}

/// See the module's page.
#[derive(Debug)]
pub struct Carvnet<H> {
    port: PortId,
    config: CarvnetConfig,
    /// By process.
    channels: BTreeMap<u32, Channels>,
    /// Descriptors that cores store, by when they are there, then by number.
    storing: BTreeSet<(SimTime, u32)>,
    /// Those that wait for a context, in order.
    queued: VecDeque<u32>,
    contexts: u32,
    transfers: BTreeMap<u32, Sending<H>>,
    next: u32,
    /// First blocks that begin, and further ones with their try, in order.
    firsts: VecDeque<u32>,
    last_first: SimTime,
    nexts: VecDeque<(u32, u32)>,
    /// Held, and their targets have contexts for them.
    resuming: VecDeque<u32>,
    segmenter: Server,
    acknowledger: Server,
    walker: Server,
    /// By process, and whether it receives: pages that it has used.
    known: BTreeMap<(u32, bool), u32>,
    /// Contexts of the target that are taken, or kept for those that were told so.
    taken: u32,
    /// Blocks that are missing.
    coming: BTreeMap<(PortId, u32), u32>,
    /// Transfers that wait for a context here, in order, and whether they were told that there is one.
    refused: VecDeque<(PortId, u8, u32, bool)>,
    /// Blocks on their way to memory, acknowledgements and notifications under way, in order.
    writing: VecDeque<((PortId, u32), H)>,
    answering: VecDeque<(PortId, u32)>,
    notifying: VecDeque<((PortId, u32), H)>,
}

impl<H: Copy> Carvnet<H> {
    /// That at a port.
    pub fn new(config: CarvnetConfig, port: PortId) -> Carvnet<H> {
        Carvnet {
            port,
            config,
            channels: BTreeMap::new(),
            storing: BTreeSet::new(),
            queued: VecDeque::new(),
            contexts: 0,
            transfers: BTreeMap::new(),
            next: 0,
            firsts: VecDeque::new(),
            last_first: SimTime::ZERO,
            nexts: VecDeque::new(),
            resuming: VecDeque::new(),
            segmenter: Server::default(),
            acknowledger: Server::default(),
            walker: Server::default(),
            known: BTreeMap::new(),
            taken: 0,
            coming: BTreeMap::new(),
            refused: VecDeque::new(),
            writing: VecDeque::new(),
            answering: VecDeque::new(),
            notifying: VecDeque::new(),
        }
    }

    /// Lets a process store descriptors, as far as it has channels.
    fn store(&mut self, now: SimTime, process: u32, out: &mut impl Out<Self>) {
        let CarvnetConfig { channels: most, store, stores, .. } = self.config;
        let channels = self.channels.entry(process).or_default();
        while channels.busy < most
            && let Some(number) = channels.waiting.pop_front()
        {
            channels.busy += 1;
            let at = channels.core.end(now, store * u64::from(stores));
            self.storing.insert((at, number));
            out.schedule(at, self.port, STORED);
        }
    }

    /// Allots contexts to descriptors, as far as there are any.
    fn allot(&mut self, now: SimTime, out: &mut impl Out<Self>) {
        while self.contexts < self.config.source_contexts
            && let Some(number) = self.queued.pop_front()
        {
            self.contexts += 1;
            let process = self.transfers.get(&number).and_then(|transfer| transfer.process);
            self.begin(now, number, out);
            if let Some(process) = process {
                if let Some(channels) = self.channels.get_mut(&process) {
                    channels.busy -= 1;
                }
                self.store(now, process, out);
            }
        }
    }

    /// Walks for the pages up to this one of a transfer that its process has not used, and when that is over.
    fn walk(&mut self, now: SimTime, process: u32, receives: bool, pages: u32) -> SimTime {
        let known = self.known.entry((process, receives)).or_default();
        let new = pages.saturating_sub(*known);
        *known += new;
        self.walker.end(now, self.config.walk * u64::from(new))
    }

    /// Pages up to the end of the next block of a transfer.
    fn pages(&self, transfer: &Sending<H>) -> u32 {
        let end = (u64::from(transfer.read) + 1).saturating_mul(self.config.block.0).min(transfer.departure.payload.0);
        u32::try_from(end.div_ceil(self.config.page.0)).unwrap_or(u32::MAX)
    }

    /// Bytes of the next block of a transfer.
    fn bytes(&self, transfer: &Sending<H>) -> u64 {
        (transfer.departure.payload.0 - u64::from(transfer.read) * self.config.block.0).min(self.config.block.0)
    }

    /// A transfer has its context: its first block begins.
    fn begin(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        let Some(transfer) = self.transfers.get(&number) else { return };
        let (bytes, pages, reads) = (self.bytes(transfer), self.pages(transfer), transfer.memory.0);
        let ready = self.walk(now, reads, false, pages);
        let mut at = self.segmenter.end(ready, self.config.segment);
        if bytes > 0 {
            at += self.config.first_read;
        }
        self.firsts.push_back(number);
        // One without payload does not pass others.
        self.last_first = at.max(self.last_first);
        out.schedule(self.last_first, self.port, FIRST);
    }

    /// A block goes to the network.
    fn depart(&mut self, number: u32, out: &mut impl Out<Self>) {
        let Some(transfer) = self.transfers.get(&number) else { return };
        let (bytes, pages) = (self.bytes(transfer), self.pages(transfer));
        let Sending { departure, memory: (_, writes), blocks, read: index, .. } = *transfer;
        let reads = bytes > 0;
        let lane = departure.virtual_network;
        let (from, message) = (self.port, departure.header);
        let header = Rdma::Block { from, transfer: number, index, blocks, lane, pages, writes, message };
        let payload = Bytes(bytes);
        if let Some(transfer) = self.transfers.get_mut(&number) {
            transfer.reading = reads;
            transfer.read += u32::from(!reads);
        }
        out.depart(self.port, Departure { payload, source_dma: reads, target_dma: reads, token: number, ..departure.map(|_| header) });
    }

    /// A transfer is over when all has been read and acknowledged.
    fn settle(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        let Some(transfer) = self.transfers.get_mut(&number) else { return };
        let Departure { token, source_dma, .. } = transfer.departure;
        let read = transfer.read == transfer.blocks && !transfer.reading;
        if read && source_dma && !std::mem::replace(&mut transfer.told, true) {
            out.notify(self.port, LIBRARY, CarvnetNotice::Read(token));
        }
        if !read || transfer.acknowledged < transfer.blocks {
            return;
        }
        self.transfers.remove(&number);
        if source_dma {
            out.notify(self.port, LIBRARY, CarvnetNotice::Done(token));
        }
        self.contexts -= 1;
        self.allot(now, out);
    }

    /// Something for the NIC at another port.
    fn tell(&self, to: PortId, header: Rdma<H>, out: &mut impl Out<Self>) {
        let (payload, virtual_network, token) = (Bytes(0), SERVICE_RESPONSE, u32::MAX);
        out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
    }

    /// Whether a transfer whose first block has come gets a context; those that waited longer come first.
    fn accept(&mut self, from: PortId, lane: u8, transfer: u32) -> bool {
        if let Some(place) = self.refused.iter().position(|&(of, _, waits, told)| (of, waits, told) == (from, transfer, true)) {
            // One is kept for it.
            self.refused.remove(place);
            return true;
        }
        let behind = self.refused.iter().any(|&(of, on, ..)| (of, on) == (from, lane));
        if behind || self.taken >= self.config.target_contexts {
            self.refused.push_back((from, lane, transfer, false));
            return false;
        }
        self.taken += 1;
        true
    }

    /// A context of the target is free.
    fn free(&mut self, out: &mut impl Out<Self>) {
        self.taken -= 1;
        while self.taken < self.config.target_contexts
            && let Some((from, _, transfer, told)) = self.refused.iter_mut().find(|(.., told)| !told)
        {
            self.taken += 1;
            *told = true;
            let (from, transfer) = (*from, *transfer);
            self.tell(from, Rdma::Free(transfer), out);
        }
    }

    /// A block is in memory.
    fn written(&mut self, now: SimTime, name: (PortId, u32), message: H, out: &mut impl Out<Self>) {
        self.answering.push_back(name);
        out.schedule(self.acknowledger.end(now, self.config.acknowledge), self.port, ACKNOWLEDGED);
        let Some(missing) = self.coming.get_mut(&name) else { return };
        *missing -= 1;
        if *missing == 0 {
            self.coming.remove(&name);
            self.notifying.push_back((name, message));
            out.schedule(now + self.config.notify, self.port, NOTIFIED);
            self.free(out);
        }
    }

    /// Transfers begin once more, of those whose targets have contexts for them now: when the block that was under way
    /// has been read, and none before another one for the same port.
    fn resume(&mut self, now: SimTime, out: &mut impl Out<Self>) {
        let mut waiting: Vec<(PortId, u8)> = Vec::new();
        let mut begun = Vec::new();
        self.resuming.retain(|&number| {
            let Some(transfer) = self.transfers.get_mut(&number) else { return false };
            let way = (transfer.departure.to, transfer.departure.virtual_network);
            if transfer.reading || waiting.contains(&way) {
                waiting.push(way);
                return true;
            }
            (transfer.held, transfer.read) = (false, 0);
            begun.push(number);
            false
        });
        begun.into_iter().for_each(|number| self.begin(now, number, out));
    }
}

impl<H: Copy> Nic for Carvnet<H> {
    type Command = CarvnetSend<H>;
    type Notice = CarvnetNotice<H>;
    type Header = Rdma<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, send: CarvnetSend<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let (departure, process, memory) = match send {
            CarvnetSend::Say(departure) => {
                out.depart(self.port, departure.map(Rdma::Said));
                return Ok(());
            }
            CarvnetSend::Transfer { departure, process, memory } => (departure, process, memory),
        };
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let blocks = departure.payload.0.div_ceil(self.config.block.0).max(1);
        let blocks = u32::try_from(blocks).expect("blocks of 4 KiB and messages of 2^40 B");
        let (reading, held, told) = (false, false, false);
        let (read, acknowledged, tries) = (0, 0, 0);
        let transfer = Sending { departure, process, memory, blocks, read, acknowledged, reading, held, tries, told };
        self.transfers.insert(number, transfer);
        match process {
            Some(process) => {
                self.channels.entry(process).or_default().waiting.push_back(number);
                self.store(now, process, out);
            }
            None => {
                self.queued.push_back(number);
                self.allot(now, out);
            }
        }
        Ok(())
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        match event {
            STORED => {
                if let Some((_, number)) = self.storing.pop_first() {
                    self.queued.push_back(number);
                    self.allot(now, out);
                }
            }
            FIRST => {
                if let Some(number) = self.firsts.pop_front() {
                    self.depart(number, out);
                    self.settle(now, number, out);
                }
            }
            NEXT => {
                if let Some((number, tries)) = self.nexts.pop_front()
                    && self.transfers.get(&number).is_some_and(|transfer| transfer.tries == tries)
                {
                    self.depart(number, out);
                }
            }
            WRITTEN => {
                if let Some((name, message)) = self.writing.pop_front() {
                    self.written(now, name, message, out);
                }
            }
            ACKNOWLEDGED => {
                if let Some((from, transfer)) = self.answering.pop_front() {
                    self.tell(from, Rdma::Written(transfer), out);
                }
            }
            _ => {
                if let Some((name, message)) = self.notifying.pop_front() {
                    out.notify(self.port, LIBRARY, CarvnetNotice::Ended(name, message));
                }
            }
        }
    }

    fn source_done(&mut self, now: SimTime, number: u32, out: &mut impl Out<Self>) {
        let Some(transfer) = self.transfers.get_mut(&number) else { return };
        transfer.reading = false;
        transfer.read += 1;
        if transfer.held {
            return self.resume(now, out);
        }
        if transfer.read == transfer.blocks {
            return self.settle(now, number, out);
        }
        let transfer = &self.transfers[&number];
        let (pages, reads, tries) = (self.pages(transfer), transfer.memory.0, transfer.tries);
        let ready = self.walk(now, reads, false, pages);
        self.nexts.push_back((number, tries));
        out.schedule(self.segmenter.end(ready, self.config.segment), self.port, NEXT);
    }

    fn head(&mut self, _: SimTime, rdma: &Rdma<H>, out: &mut impl Out<Self>) -> u32 {
        let Rdma::Block { from, transfer, index, blocks, lane, message, .. } = *rdma else { return REFUSED };
        let name = (from, transfer);
        if index > 0 {
            return if self.coming.contains_key(&name) { TAKEN } else { REFUSED };
        }
        if !self.accept(from, lane, transfer) {
            self.tell(from, Rdma::Full(transfer), out);
            return REFUSED;
        }
        self.coming.insert(name, blocks);
        out.notify(self.port, LIBRARY, CarvnetNotice::Begun(name, message));
        TAKEN
    }

    fn tail(&mut self, now: SimTime, arrival: u32, rdma: &Rdma<H>, out: &mut impl Out<Self>) {
        match *rdma {
            Rdma::Block { from, transfer, pages, writes, message, .. } => {
                if arrival == TAKEN {
                    let at = self.walk(now, writes, true, pages) + self.config.write;
                    self.writing.push_back(((from, transfer), message));
                    out.schedule(at, self.port, WRITTEN);
                }
            }
            Rdma::Said(message) => out.notify(self.port, LIBRARY, CarvnetNotice::Said(message)),
            Rdma::Written(number) => {
                if let Some(transfer) = self.transfers.get_mut(&number) {
                    transfer.acknowledged += 1;
                    self.settle(now, number, out);
                }
            }
            Rdma::Full(number) => {
                if let Some(transfer) = self.transfers.get_mut(&number) {
                    transfer.held = true;
                    transfer.tries = transfer.tries.wrapping_add(1);
                }
            }
            Rdma::Free(number) => {
                if self.transfers.get(&number).is_some_and(|transfer| transfer.held) {
                    self.resuming.push_back(number);
                    self.resume(now, out);
                }
            }
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

impl Below for Carvnet<Header> {
    type Config = CarvnetConfig;

    fn at(config: &CarvnetConfig, _: &Directory, port: PortId) -> Self {
        Carvnet::new(*config, port)
    }
    /// Nothing: the engine reads memory.
    fn copied(_: &CarvnetConfig) -> Bytes {
        Bytes(0)
    }
    fn buffered(_: &NicConfig) -> Bytes {
        Bytes(0)
    }
    fn order(departure: Departure<Header>) -> CarvnetSend<Header> {
        match departure.header {
            Header::Received(_) => CarvnetSend::Say(departure),
            header => {
                let (from, to) = header.ends();
                let process = header.stream().map(|(pid, ..)| pid);
                CarvnetSend::Transfer { departure, process, memory: (from.pid, to.pid) }
            }
        }
    }
    fn heard(notice: CarvnetNotice<Header>) -> Heard {
        match notice {
            CarvnetNotice::Read(token) => Heard::Read(token),
            CarvnetNotice::Done(token) => Heard::Done(token),
            CarvnetNotice::Begun(name, header) => Heard::Begun(name, header),
            CarvnetNotice::Ended(name, header) => Heard::Ended(name, header),
            CarvnetNotice::Said(header) => Heard::Arrived(header),
        }
    }
}
