//! APEnetX: a PCIe card of descriptors, whose way from the program to the card and back can be cut short in steps.
//!
//! **Sending.** A library fills a descriptor. It asks the kernel to pass it on (`ioctl`), or passes it on itself. A
//! doorbell tells the card to fetch it over PCIe, or the library writes it into the card with one posted write (the
//! first write to the card, of either kind, is that of every command: `node.pcie.latency` and `nic.command_size`). A
//! payload of at most [`ApenetxConfig::inline_limit`] is in the descriptor, the card fetches another one over PCIe: the
//! library's request is there after one `node.pcie.latency`, the first bytes after one more. The card's engine takes
//! one descriptor after the other, in order.
//!
//! **Receiving.** The card's engine writes the payload into memory, and a completion entry behind it; a short payload
//! is in the entry. The program hears of it through the kernel, from a queue that is mapped into its memory, or at an
//! address of its own that the sender names. The entry's write over PCIe is the one that every event is.
//!
//! The sum, without network: command + \[ioctl\] + \[doorbell: 2 latency + 64 B / bandwidth\] + \[not inline: 2
//! latency + 64 B / bandwidth\] + engine, network, engine + \[not inline: engine + poll\] + completion + matching +
//! event. `crates/nic/tests/it/apenetx.rs` has it, for all of the options.

use std::collections::{BTreeMap, VecDeque};

use narrows_keys::{Only, choice, keys};
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

const OWN: Only = Only::with("nic.kind", &["apenetx"]);

choice! {
    /// Who passes a descriptor on.
    #[derive(Default)]
    pub enum Call {
        /// The kernel, which the library asks.
        #[default]
        Ioctl = "ioctl",
        /// The library itself: the card's memory is mapped into its own.
        User = "user",
    }
}

choice! {
    /// How a descriptor comes to the card.
    #[derive(Default)]
    pub enum Descriptor {
        /// The card fetches it when its doorbell is rung.
        #[default]
        Fetched = "fetched",
        /// It is written into the card's memory (AVX-512: 64 B at a time).
        Posted = "posted",
    }
}

choice! {
    /// How a program hears of a message.
    #[derive(Default)]
    pub enum Completion {
        /// The kernel reads the queue of completions.
        #[default]
        Kernel = "kernel",
        /// The queue is mapped into the program's memory.
        Remapped = "remapped",
        /// At an address that the sender was told.
        Direct = "direct",
    }
}

keys! {
    /// What the steps are and what they take: `[nic.apenetx]`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ApenetxConfig {
        /// The kernel passes descriptors on (`ioctl`), or the library does (`user`).
        pub call: Call = "ioctl", of OWN;
        // Facts 6.1: a reasonable constant.
        /// What the kernel takes to pass a descriptor on; one after the other of a process.
        pub ioctl_time: SimTime = "1 us", of OWN;
        /// The card fetches descriptors over PCIe, or they are posted into its memory.
        pub descriptor: Descriptor = "fetched", of OWN;
        /// Longest payload inside a descriptor and a completion entry, at most 32 B.
        pub inline_limit: Bytes = "0 B", of OWN;
        /// Who tells the program that a message is there.
        pub completion: Completion = "kernel", of OWN;
        // Our own choice: as an ioctl.
        /// The kernel's time for a completion; one after the other of a node.
        pub kernel_time: SimTime = "1 us", of OWN;
        // Our own choice: a miss of the cache, and the look whose entry it is.
        /// The library's time to find a completion in a queue of its own.
        pub remapped_time: SimTime = "100 ns", of OWN;
        // Our own choice: a miss of the cache.
        /// The library's time to find a completion at an address of its own.
        pub direct_time: SimTime = "50 ns", of OWN;
        // Our own choice: one more miss of the cache.
        /// One more look, for a payload that is not in the completion entry.
        pub poll_time: SimTime = "50 ns", of OWN;
        // Our own choice: ten cycles of 250 MHz, the clock of the card's PCIe core.
        /// Each of the card's two engines is busy so long with a descriptor, a payload or a completion entry.
        pub engine_time: SimTime = "40 ns", of OWN;
    }
}

/// The same, and what PCIe takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApenetxCard {
    /// `[nic.apenetx]`.
    pub config: ApenetxConfig,
    /// PCIe, one way.
    pub latency: SimTime,
    /// A descriptor of 64 B over PCIe, beside that.
    pub descriptor_time: SimTime,
}

impl ApenetxCard {
    /// Of a card behind this bus.
    pub fn new(config: ApenetxConfig, bus: &NicConfig) -> ApenetxCard {
        ApenetxCard { config, latency: bus.pcie_latency, descriptor_time: bus.pcie_rate.time_for(DESCRIPTOR) }
    }
}

impl ApenetxConfig {
    /// The most that [`ApenetxConfig::inline_limit`] may be: four reserved words of 64 bits (facts 6.1).
    pub const INLINE_MOST: Bytes = Bytes(32);
}

/// An AVX-512 store (facts 6.1).
const DESCRIPTOR: Bytes = Bytes(64);

/// What travels with a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Apacket<H> {
    /// In the completion entry.
    inline: bool,
    /// Between cards: no program hears of it.
    quiet: bool,
    message: H,
}

impl Travels for Apacket<Header> {
    fn message(&self) -> Option<&Header> {
        Some(&self.message)
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct ApenetxSend<H> {
    /// The message.
    pub departure: Departure<H>,
    /// The process (pid) whose library sends it, or answers.
    pub process: u32,
    /// It is nothing but the end-to-end acknowledgement, which cards see to by themselves.
    pub quiet: bool,
}

/// What the card says to the library.
#[derive(Clone, Copy, Debug)]
pub enum ApenetxNotice<H> {
    /// The payload of this token has been read: its memory is free.
    Read(u32),
    /// This message is there, and its payload with it.
    Arrived(H),
}

/// In place of the token of a payload that the library has copied: nobody waits for it.
const NOBODY: u32 = u32::MAX;

const PASSED: Event = Event(0);
const SENT: Event = Event(1);
const ARRIVED: Event = Event(2);

/// See the module's page.
#[derive(Debug)]
pub struct Apenetx<H> {
    port: PortId,
    card: ApenetxCard,
    /// By process: the kernel, on its core.
    calls: BTreeMap<u32, Server>,
    /// What the kernel is at, by when it is through, then by the order of the calls.
    passing: BTreeMap<(SimTime, u64), Departure<H>>,
    calls_made: u64,
    /// Host to card, and back.
    sender: Server,
    receiver: Server,
    kernel: Server,
    /// Descriptors on their way through the card, in order; when the last one is through.
    going: VecDeque<Departure<H>>,
    last_goes: SimTime,
    /// Messages that the program does not know of yet, in order; when it knows of the last one.
    coming: VecDeque<H>,
    last_comes: SimTime,
}

impl<H: Copy> Apenetx<H> {
    /// That at a port.
    pub fn new(card: ApenetxCard, port: PortId) -> Apenetx<H> {
        Apenetx {
            port,
            card,
            calls: BTreeMap::new(),
            passing: BTreeMap::new(),
            calls_made: 0,
            sender: Server::default(),
            receiver: Server::default(),
            kernel: Server::default(),
            going: VecDeque::new(),
            last_goes: SimTime::ZERO,
            coming: VecDeque::new(),
            last_comes: SimTime::ZERO,
        }
    }

    fn is_inline(&self, payload: Bytes) -> bool {
        payload <= self.card.config.inline_limit
    }

    /// The card knows of a descriptor.
    fn send(&mut self, now: SimTime, departure: Departure<H>, out: &mut impl Out<Self>) {
        let ApenetxCard { ref config, latency, descriptor_time } = self.card;
        let mut at = now;
        if config.descriptor == Descriptor::Fetched {
            at = at + latency + latency + descriptor_time;
        }
        if !self.is_inline(departure.payload) {
            // The way back of the fetch whose request the library has made.
            at += latency;
        }
        // One goes behind the other, however it came.
        self.last_goes = self.sender.end(at.max(self.last_goes), config.engine_time);
        self.going.push_back(departure);
        out.schedule(self.last_goes, self.port, SENT);
    }

    /// A descriptor is through the card's engine.
    fn leave(&mut self, departure: Departure<H>, out: &mut impl Out<Self>) {
        let Departure { payload, token, source_dma, .. } = departure;
        let inline = self.is_inline(payload);
        let header = Apacket { inline, quiet: false, message: departure.header };
        let reads = !inline && payload.0 > 0;
        let token = if source_dma { token } else { NOBODY };
        out.depart(self.port, Departure { source_dma: reads, target_dma: reads, token, ..departure.map(|_| header) });
        if source_dma && !reads {
            out.notify(self.port, LIBRARY, ApenetxNotice::Read(token));
        }
    }
}

impl<H: Copy> Nic for Apenetx<H> {
    type Command = ApenetxSend<H>;
    type Notice = ApenetxNotice<H>;
    type Header = Apacket<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, send: ApenetxSend<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let ApenetxSend { departure, process, quiet } = send;
        if quiet {
            out.depart(self.port, departure.map(|message| Apacket { inline: true, quiet, message }));
            return Ok(());
        }
        if self.card.config.call == Call::User {
            self.send(now, departure, out);
            return Ok(());
        }
        let at = self.calls.entry(process).or_default().end(now, self.card.config.ioctl_time);
        self.calls_made += 1;
        self.passing.insert((at, self.calls_made), departure);
        out.schedule(at, self.port, PASSED);
        Ok(())
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        match event {
            PASSED => {
                if let Some((_, departure)) = self.passing.pop_first() {
                    self.send(now, departure, out);
                }
            }
            SENT => {
                if let Some(departure) = self.going.pop_front() {
                    self.leave(departure, out);
                }
            }
            _ => {
                if let Some(message) = self.coming.pop_front() {
                    out.notify(self.port, LIBRARY, ApenetxNotice::Arrived(message));
                }
            }
        }
    }

    /// The card has fetched a payload.
    fn source_done(&mut self, _: SimTime, token: u32, out: &mut impl Out<Self>) {
        if token != NOBODY {
            out.notify(self.port, LIBRARY, ApenetxNotice::Read(token));
        }
    }

    fn head(&mut self, _: SimTime, _: &Apacket<H>, _: &mut impl Out<Self>) -> u32 {
        0
    }

    fn tail(&mut self, now: SimTime, _: u32, packet: &Apacket<H>, out: &mut impl Out<Self>) {
        if packet.quiet {
            return out.notify(self.port, LIBRARY, ApenetxNotice::Arrived(packet.message));
        }
        let config = self.card.config;
        let mut at = self.receiver.end(now, if packet.inline { config.engine_time } else { config.engine_time * 2 });
        if !packet.inline {
            at += config.poll_time;
        }
        at = match config.completion {
            Completion::Kernel => self.kernel.end(at.max(self.last_comes), config.kernel_time),
            Completion::Remapped => at + config.remapped_time,
            Completion::Direct => at + config.direct_time,
        };
        // Programs look at one after the other.
        self.last_comes = at.max(self.last_comes);
        self.coming.push_back(packet.message);
        out.schedule(self.last_comes, self.port, ARRIVED);
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

impl Below for Apenetx<Header> {
    type Config = ApenetxCard;

    fn at(card: &ApenetxCard, _: &Directory, port: PortId) -> Self {
        Apenetx::new(card.clone(), port)
    }
    fn copied(card: &ApenetxCard) -> Bytes {
        card.config.inline_limit
    }
    fn buffered(_: &NicConfig) -> Bytes {
        Bytes(0)
    }
    fn order(departure: Departure<Header>) -> ApenetxSend<Header> {
        let quiet = matches!(departure.header, Header::Received(_));
        ApenetxSend { departure, process: departure.header.ends().0.pid, quiet }
    }
    fn heard(notice: ApenetxNotice<Header>) -> Heard {
        match notice {
            ApenetxNotice::Read(token) => Heard::Stored(token),
            ApenetxNotice::Arrived(header) => Heard::Arrived(header),
        }
    }
}
