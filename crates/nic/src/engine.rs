//! Portals in software over a NIC that does not match: the same lists and the same two halves of a message as on
//! [`Portals`], but what they send is a message for the NIC [`Below`].

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_fabric::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use narrows_portals::{Command, Notice};
use narrows_units::{Bytes, PortId, SimTime};

use crate::accelerator::Block;
use crate::config::{NicConfig, Transmit};
use crate::error::Refusal;
use crate::kind::{Directory, Kinds, Nic, PortalsNic, Travels};
use crate::out::{Between, Departure, Event, Out};
use crate::portals::{About, Ends, Header, Portals};
use crate::statistics::Troubles;
use narrows_matching::CommandError;
use narrows_portals::Process;

/// Events of the NIC below have this bit.
const OF_NIC: u64 = 1 << 63;

/// A NIC below the library: how what one says is put to the other.
pub trait Below: Nic<Header: Travels> {
    /// What it costs.
    type Config;
    /// That at a port, for the processes that the directory has there.
    fn at(config: &Self::Config, directory: &Directory, port: PortId) -> Self;
    /// Payloads up to this are copied when a command is there: all, unless it reads memory later.
    fn copied(config: &Self::Config) -> Bytes {
        let _ = config;
        Bytes(1 << 50)
    }
    /// Of the others, those up to this are the NIC's as soon as it starts to read them.
    fn buffered(nic: &NicConfig) -> Bytes {
        nic.buffered_limit
    }
    /// A message to send.
    fn order(departure: Departure<Header>) -> Self::Command;
    /// To reduce a block with others, if it can.
    fn reduce(block: Block) -> Option<Self::Command> {
        let _ = block;
        None
    }
    /// What the NIC has said.
    fn heard(notice: Self::Notice) -> Heard;
    /// See [`crate::Nics::waiting_vectors`].
    fn waiting_vectors(&self) -> u64 {
        0
    }
    /// See [`crate::Nics::troubles`].
    fn troubles(&self) -> Troubles {
        Troubles::default()
    }
}

/// What the library hears.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of it are headers")]
pub enum Heard {
    /// The payload of this token has been read.
    Read(u32),
    /// ... and its memory is free.
    Done(u32),
    /// Both.
    Stored(u32),
    /// The beginning of a message is here, and its name.
    Begun((PortId, u32), Header),
    /// All of it.
    Ended((PortId, u32), Header),
    /// Both.
    Arrived(Header),
    /// The result of a block is in memory: whose, and its ticket.
    Reduced(Process, u32),
    /// The request of this token was for another protection domain: that of its process, and that of its target.
    Denied(u32, u16, u16),
}

/// Notices of a NIC below are for the library that all processes of a node share, which is none of them.
pub(crate) const LIBRARY: Process = Process(u32::MAX);

/// See the module's page.
#[derive(Debug)]
pub struct Engine<N: Nic> {
    portals: Portals,
    nic: N,
    /// Reused: what the NIC has said.
    notices: Vec<N::Notice>,
    /// Messages that have begun to come: what [`Portals`] calls them.
    begun: BTreeMap<(PortId, u32), u32>,
}

/// The library's constants: those of a NIC, but that payloads up to `copied` are copied when a command is there, and
/// that the only stages are those of commands, matching and events.
fn library(nic: &NicConfig, copied: Bytes, buffered: Bytes) -> NicConfig {
    NicConfig {
        buffered_limit: buffered,
        ack_size: Bytes(0),
        inline_limit: copied,
        pio_limit: copied,
        match_bits_size: Bytes(0),
        dma_latency: SimTime::ZERO,
        transmit: Transmit::InOrder,
        put_occupancy: SimTime::ZERO,
        get_occupancy: SimTime::ZERO,
        response_occupancy: SimTime::ZERO,
        ack_occupancy: SimTime::ZERO,
        atomic_occupancy: SimTime::ZERO,
        quick_ack: false,
        max_outstanding: u32::MAX,
        max_in_flight_to_node: 0,
        max_in_flight_to_process: 0,
        ..nic.clone()
    }
}

/// Above the NIC: it takes what the library sends.
struct Above<'a, N, O> {
    now: SimTime,
    nic: &'a mut N,
    out: &'a mut O,
}

impl<N: Below, O: Out<Engine<N>>> Between for Above<'_, N, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<N: Below, O: Out<Engine<N>>> Out<Portals> for Above<'_, N, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.out.schedule(at, port, event);
    }
    fn depart(&mut self, _: PortId, departure: Departure<Header>) {
        let Above { now, nic, out } = self;
        let mut notices = Vec::new();
        let accepted = nic.command(*now, LIBRARY, N::order(departure), &mut Around { notices: &mut notices, out: *out });
        debug_assert!(accepted.is_ok() && notices.is_empty(), "a NIC below takes every message, and says something later");
    }
    fn shortcut(&mut self, _: SimTime, _: PortId, _: PortId, header: Header) {
        unreachable!("a library acknowledges through its NIC: {header:?}");
    }
    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        self.out.notify(port, process, notice);
    }
}

/// Around the NIC: its notices are the library's.
struct Around<'a, N: Nic, O> {
    notices: &'a mut Vec<N::Notice>,
    out: &'a mut O,
}

impl<N: Below, O: Out<Engine<N>>> Between for Around<'_, N, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<N: Below, O: Out<Engine<N>>> Out<N> for Around<'_, N, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.out.schedule(at, port, Event(event.0 | OF_NIC));
    }
    fn depart(&mut self, port: PortId, departure: Departure<N::Header>) {
        self.out.depart(port, departure);
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: N::Header) {
        self.out.shortcut(at, from, to, header);
    }
    fn notify(&mut self, _: PortId, _: Process, notice: N::Notice) {
        self.notices.push(notice);
    }
}

impl<N: Below> Engine<N> {
    /// Those at these ports of a machine.
    pub(crate) fn of(nic: &NicConfig, below: &N::Config, directory: &Arc<Directory>, ports: &[PortId]) -> impl Iterator<Item = Engine<N>> {
        let libraries = Portals::of(library(nic, N::copied(below), N::buffered(nic)), Arc::clone(directory), ports);
        let of = |(portals, &port)| Engine { portals, nic: N::at(below, directory, port), notices: Vec::new(), begun: BTreeMap::new() };
        libraries.into_iter().zip(ports).map(of)
    }

    /// The library does something.
    fn library<O: Out<Self>, R>(&mut self, now: SimTime, out: &mut O, act: impl FnOnce(&mut Portals, &mut Above<'_, N, O>) -> R) -> R {
        act(&mut self.portals, &mut Above { now, nic: &mut self.nic, out })
    }

    /// The NIC does something, and the library hears of it.
    fn nic<O: Out<Self>, R>(&mut self, now: SimTime, out: &mut O, act: impl FnOnce(&mut N, &mut Around<'_, N, O>) -> R) -> R {
        let mut notices = std::mem::take(&mut self.notices);
        let result = act(&mut self.nic, &mut Around { notices: &mut notices, out });
        for notice in notices.drain(..) {
            match N::heard(notice) {
                Heard::Read(token) => self.library(now, out, |portals, above| portals.payload_read(now, token, above)),
                Heard::Done(token) => self.library(now, out, |portals, above| portals.payload_done(now, token, above)),
                Heard::Stored(token) => self.library(now, out, |portals, above| portals.source_done(now, token, above)),
                Heard::Begun(name, header) => {
                    let arrival = self.library(now, out, |portals, above| portals.head(now, &header, above));
                    self.begun.insert(name, arrival);
                }
                Heard::Ended(name, header) => {
                    if let Some(arrival) = self.begun.remove(&name) {
                        self.library(now, out, |portals, above| portals.tail(now, arrival, &header, above));
                    }
                }
                Heard::Denied(token, own, found) => {
                    if let Some(denied) = self.library(now, out, |portals, above| portals.denied(now, token, (own, found), above)) {
                        out.denied(denied);
                    }
                }
                Heard::Reduced(process, ticket) => self.library(now, out, |portals, above| portals.answer(now, process, ticket, above)),
                Heard::Arrived(header) => self.library(now, out, |portals, above| {
                    let arrival = portals.head(now, &header, above);
                    portals.tail(now, arrival, &header, above);
                }),
            }
        }
        self.notices = notices;
        result
    }
}

impl<N: Below> Nic for Engine<N> {
    type Command = Command;
    type Notice = Notice;
    type Header = N::Header;
    const SEES: Option<Acknowledge> = N::SEES;

    fn lookahead(&self) -> SimTime {
        self.portals.lookahead()
    }

    fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let Command::Allreduce(allreduce) = command else {
            return self.library(now, out, |portals, above| portals.command(now, process, command, above));
        };
        let (at, block) = self.portals.allreduce(now, process, allreduce)?;
        let order = N::reduce(block).ok_or(CommandError::NoAccelerator)?;
        self.nic(at, out, |nic, around| nic.command(at, process, order, around))
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        if event.0 & OF_NIC == 0 {
            return self.library(now, out, |portals, above| portals.handle(now, event, above));
        }
        self.nic(now, out, |nic, around| nic.handle(now, Event(event.0 & !OF_NIC), around));
    }

    fn source_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Self>) {
        self.nic(now, out, |nic, around| nic.source_done(now, token, around));
    }

    fn head(&mut self, now: SimTime, header: &N::Header, out: &mut impl Out<Self>) -> u32 {
        self.nic(now, out, |nic, around| nic.head(now, header, around))
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &N::Header, out: &mut impl Out<Self>) {
        self.nic(now, out, |nic, around| nic.tail(now, arrival, header, around));
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.portals.take_refusals()
    }

    fn packet_in(&mut self, now: SimTime, packet: &PacketIn, header: &N::Header, out: &mut impl Out<Self>) -> Verdict {
        self.nic(now, out, |nic, around| nic.packet_in(now, packet, header, around))
    }

    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        self.nic.packet_out(now, packet)
    }
}

/// A machine all of whose NICs are of this kind.
impl<N> Kinds for Engine<N>
where
    N: Below<Config: Clone + Send + std::fmt::Debug, Header: std::fmt::Debug + Send, Notice: std::fmt::Debug + Send>
        + Send
        + std::fmt::Debug
        + 'static,
{
    type Config = (NicConfig, N::Config);
    const PACKETS: bool = N::SEES.is_some();

    fn of((nic, below): &Self::Config, directory: &Arc<Directory>, ports: &[PortId]) -> Vec<Self> {
        Engine::of(nic, below, directory, ports).collect()
    }
    fn constants((nic, _): &Self::Config) -> &NicConfig {
        nic
    }
    fn sees(_: &Self::Config) -> Option<Acknowledge> {
        N::SEES
    }
    fn takes(&self, from: PortId, to: PortId, header: &N::Header, directory: &Directory) -> bool {
        header.is_from(from) && header.message().is_none_or(|message| message.is_for(to, directory))
    }
    fn is_taken_whole(header: &N::Header) -> bool {
        Travels::is_taken_whole(header)
    }
    fn is_answer(_: &N::Header) -> bool {
        false
    }
    fn ends(header: &N::Header) -> Option<Ends> {
        header.message().map(Header::ends)
    }
    fn about(header: &N::Header) -> About {
        let message = if header.is_first() { header.message() } else { None };
        message.map_or(About::Received, Header::about)
    }
}

impl<N: Below> PortalsNic for Engine<N> {
    fn portals(&self) -> &Portals {
        &self.portals
    }
    fn portals_mut(&mut self) -> &mut Portals {
        &mut self.portals
    }
    fn waiting_vectors(&self) -> u64 {
        self.nic.waiting_vectors()
    }
    fn troubles(&self) -> Troubles {
        self.nic.troubles()
    }
}
