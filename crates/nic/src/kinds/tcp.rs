//! TCP over Ethernet: a NIC that does next to nothing, and the operating system's stack on a core at each end.
//!
//! A message is cut into segments, as the stack hands them to the NIC (generic segmentation offload) and gets them from
//! it (receive offload). At each end one core serves one thing after the other: a message takes it
//! [`TcpConfig::message`] (the system call; the wake-up of who waits), a segment [`TcpConfig::segment_time`], a byte
//! its copy at [`TcpConfig::rate`]. The NIC takes segments that the core is through with, one behind the other; a
//! segment is in the receiver's memory when the core there is through with it, the message when all of its segments
//! are. n bytes in k = n / S equal segments take message + c + (k - 1) max(c, w) + w' + c + message, with c =
//! segment_time + S / rate, and a segment's time w on the narrowest stage between the cores, w' all the way.

use std::collections::{BTreeMap, VecDeque};

use narrows_keys::{Only, keys};
use narrows_units::{ByteRate, Bytes, PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::engine::{Below, Heard, LIBRARY};
use crate::error::Refusal;
use crate::kind::{Directory, Nic, Travels};
use crate::out::{Departure, Event, Out};
use crate::pipeline::Server;
use crate::portals::Header;
use narrows_matching::CommandError;
use narrows_portals::Process;

const OWN: Only = Only::with("nic.kind", &["tcp"]);

keys! {
    /// What the stack costs at each end: `[nic.tcp]`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TcpConfig {
        // Our own choice: half a round trip of some 12 us, as TCP has on Ethernet of 10 to 25 Gb/s.
        /// At each end the core that runs the operating system's stack takes so long for a message: the system call,
        /// the wake-up.
        pub message: SimTime = "4500 ns", of OWN;
        // What Linux hands to a NIC at a time (GSO_MAX_SIZE).
        /// Messages are cut into segments, which the NIC cuts into packets.
        pub segment: Bytes = "64 KiB", in Bytes(1).., of OWN;
        // The split is our own choice; together some 42 Gb/s, what one core takes (Cai et al., "Understanding Host
        // Network Stack Overheads", SIGCOMM 2021; quoted from memory).
        /// The core at each end takes this time for a segment.
        pub segment_time: SimTime = "1 us", of OWN;
        /// The core at each end copies bytes at this rate.
        pub rate: ByteRate = "5.7 GB/s", of OWN;
    }
}

/// What travels with a segment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Segment<H> {
    /// The sending port, and its number for the message there.
    of: (PortId, u32),
    /// It is the first one.
    first: bool,
    /// Segments of the message.
    count: u64,
    payload: Bytes,
    message: H,
    /// The stack's own acknowledgement: nobody is woken.
    quiet: bool,
}

impl Travels for Segment<Header> {
    fn message(&self) -> Option<&Header> {
        Some(&self.message)
    }
    fn is_first(&self) -> bool {
        self.first
    }
    fn is_from(&self, _: PortId) -> bool {
        self.count > 0
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct TcpSend<H> {
    /// The message.
    pub departure: Departure<H>,
    /// It is nothing but an acknowledgement, which the stack sends and takes by itself.
    pub quiet: bool,
}

/// What the stack says to the library above it.
#[derive(Clone, Copy, Debug)]
pub enum TcpNotice<H> {
    /// The message of this token has been copied: its memory is free.
    Copied(u32),
    /// This message is there, and its payload with it.
    Arrived(H),
}

/// Segments that the NIC reads at a time: while one goes the next one is there.
const RING: usize = 2;

const SENT: Event = Event(0);
const RECEIVED: Event = Event(1);

/// See the module's page.
#[derive(Debug)]
pub struct Tcp<H> {
    port: PortId,
    config: TcpConfig,
    sender: Server,
    receiver: Server,
    /// What the cores are at, in order; a segment that goes with the token of a message whose last one it is.
    going: VecDeque<(Departure<Segment<H>>, Option<u32>)>,
    /// Segments that wait for the NIC, and how many it reads.
    ready: VecDeque<Departure<Segment<H>>>,
    read: usize,
    coming: VecDeque<Segment<H>>,
    /// By sender: segments that are missing.
    missing: BTreeMap<(PortId, u32), u64>,
    next: u32,
}

impl<H: Copy> Tcp<H> {
    /// That at a port.
    pub fn new(config: TcpConfig, port: PortId) -> Tcp<H> {
        let (sender, receiver) = (Server::default(), Server::default());
        let (going, ready, coming) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Tcp { port, config, sender, receiver, going, ready, read: 0, coming, missing: BTreeMap::new(), next: 0 }
    }

    /// The NIC takes what is ready, in order.
    fn pump(&mut self, out: &mut impl Out<Self>) {
        while self.read < RING
            && let Some(departure) = self.ready.pop_front()
        {
            self.read += usize::from(departure.source_dma);
            out.depart(self.port, departure);
        }
    }

    fn time_for(&self, payload: Bytes) -> SimTime {
        self.config.segment_time + self.config.rate.time_for(payload)
    }
}

impl<H: Copy> Nic for Tcp<H> {
    type Command = TcpSend<H>;
    type Notice = TcpNotice<H>;
    type Header = Segment<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, send: TcpSend<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let TcpSend { departure, quiet } = send;
        let Departure { to, virtual_network, payload: Bytes(all), token, header: message, source_dma, .. } = departure;
        self.next = self.next.wrapping_add(1);
        let count = all.div_ceil(self.config.segment.0).max(1);
        for at in 0..count {
            let payload = Bytes((all - at * self.config.segment.0).min(self.config.segment.0));
            let (first, last) = (at == 0, at + 1 == count);
            let header = Segment { of: (self.port, self.next), first, count, payload, message, quiet };
            let busy = self.time_for(payload) + if first && !quiet { self.config.message } else { SimTime::ZERO };
            let target_dma = payload.0 > 0;
            let departure = Departure { to, virtual_network, payload, source_dma: target_dma, target_dma, token: 0, header };
            self.going.push_back((departure, (last && source_dma).then_some(token)));
            out.schedule(self.sender.end(now, busy), self.port, SENT);
        }
        Ok(())
    }

    fn handle(&mut self, _: SimTime, event: Event, out: &mut impl Out<Self>) {
        if event == RECEIVED {
            let Some(segment) = self.coming.pop_front() else { return };
            let missing = self.missing.entry(segment.of).or_insert(segment.count);
            *missing -= 1;
            if *missing == 0 {
                self.missing.remove(&segment.of);
                out.notify(self.port, LIBRARY, TcpNotice::Arrived(segment.message));
            }
        } else if let Some((departure, copied)) = self.going.pop_front() {
            self.ready.push_back(departure);
            self.pump(out);
            if let Some(token) = copied {
                out.notify(self.port, LIBRARY, TcpNotice::Copied(token));
            }
        }
    }

    /// The NIC has read a segment out of the stack's memory.
    fn source_done(&mut self, _: SimTime, _: u32, out: &mut impl Out<Self>) {
        self.read -= 1;
        self.pump(out);
    }

    fn head(&mut self, _: SimTime, _: &Segment<H>, _: &mut impl Out<Self>) -> u32 {
        0
    }

    fn tail(&mut self, now: SimTime, _: u32, segment: &Segment<H>, out: &mut impl Out<Self>) {
        // Who waits is woken by the last segment that comes; of those under way to the core it is the last one, too.
        let before = self.coming.iter().filter(|other| other.of == segment.of).count() as u64;
        let last = self.missing.get(&segment.of).copied().unwrap_or(segment.count) == before + 1;
        let busy = self.time_for(segment.payload) + if last && !segment.quiet { self.config.message } else { SimTime::ZERO };
        self.coming.push_back(*segment);
        out.schedule(self.receiver.end(now, busy), self.port, RECEIVED);
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

impl Below for Tcp<Header> {
    type Config = TcpConfig;

    fn at(config: &TcpConfig, _: &Directory, port: PortId) -> Self {
        Tcp::new(*config, port)
    }
    fn order(departure: Departure<Header>) -> TcpSend<Header> {
        TcpSend { departure, quiet: matches!(departure.header, Header::Received(_)) }
    }
    fn heard(notice: TcpNotice<Header>) -> Heard {
        match notice {
            TcpNotice::Copied(token) => Heard::Stored(token),
            TcpNotice::Arrived(header) => Heard::Arrived(header),
        }
    }
}
