//! Portals in software over a NIC that does not match: the same lists and the same two halves of a message as on
//! [`Portals`], but what they send is a message for the NIC [`Below`].

use std::collections::BTreeMap;

use narrows_portals::{Command, Notice};
use narrows_units::{Bytes, PortId, SimTime};

use crate::accelerator::Block;
use crate::any::AnyHeader;
use crate::config::{NicConfig, Transmit};
use crate::error::Refusal;
use crate::exanet::{Cell, Exanet, ExanetNotice, Order, Stream, Streamed};
use crate::kind::Nic;
use crate::mailbox::{Envelope, LIBRARY, Mailbox, MailboxNotice};
use crate::out::{Between, Departure, Event, Out};
use crate::portals::{Header, Portals};
use crate::tcp::{Segment, Tcp, TcpNotice, TcpSend};
use narrows_matching::CommandError;
use narrows_portals::Process;

/// Events of the NIC below have this bit.
const OF_NIC: u64 = 1 << 63;

/// A NIC below the library: how what one says is put to the other.
pub trait Below: Nic {
    /// A message to send.
    fn order(departure: Departure<Header>) -> Self::Command;
    /// To reduce a block with others, if it can.
    fn reduce(block: Block) -> Option<Self::Command> {
        let _ = block;
        None
    }
    /// What the NIC has said.
    fn heard(notice: Self::Notice) -> Heard;
    /// Its header, as one of any.
    fn any(header: Self::Header) -> AnyHeader;
    /// Back again.
    fn own(header: &AnyHeader) -> Option<&Self::Header>;
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

impl Below for Mailbox<Header> {
    fn order(departure: Departure<Header>) -> Departure<Header> {
        departure
    }
    fn heard(notice: MailboxNotice<Header>) -> Heard {
        match notice {
            MailboxNotice::Stored(token) => Heard::Stored(token),
            MailboxNotice::Arrived(header) => Heard::Arrived(header),
        }
    }
    fn any(header: Envelope<Header>) -> AnyHeader {
        AnyHeader::Mailbox(header)
    }
    fn own(header: &AnyHeader) -> Option<&Envelope<Header>> {
        if let AnyHeader::Mailbox(header) = header { Some(header) } else { None }
    }
}

impl Below for Tcp<Header> {
    fn order(departure: Departure<Header>) -> TcpSend<Header> {
        TcpSend { departure, quiet: matches!(departure.header, Header::Received(_)) }
    }
    fn heard(notice: TcpNotice<Header>) -> Heard {
        match notice {
            TcpNotice::Copied(token) => Heard::Stored(token),
            TcpNotice::Arrived(header) => Heard::Arrived(header),
        }
    }
    fn any(header: Segment<Header>) -> AnyHeader {
        AnyHeader::Tcp(header)
    }
    fn own(header: &AnyHeader) -> Option<&Segment<Header>> {
        if let AnyHeader::Tcp(header) = header { Some(header) } else { None }
    }
}

impl Streamed for Header {
    fn stream(&self) -> Option<Stream> {
        Header::stream(self)
    }
}

impl Below for Exanet<Header> {
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
    fn any(header: Cell<Header>) -> AnyHeader {
        AnyHeader::Exanet(header)
    }
    fn own(header: &AnyHeader) -> Option<&Cell<Header>> {
        if let AnyHeader::Exanet(header) = header { Some(header) } else { None }
    }
}

/// What comes with a command above a mailbox: everything.
pub(crate) const EVERYTHING: Bytes = Bytes(1 << 50);

/// See the module's page.
#[derive(Debug)]
pub struct Software<N: Nic> {
    pub(crate) portals: Portals,
    nic: N,
    /// Reused: what the NIC has said.
    notices: Vec<N::Notice>,
    /// Messages that have begun to come: what [`Portals`] calls them.
    begun: BTreeMap<(PortId, u32), u32>,
}

/// The library's constants: those of a NIC, but that payloads up to `copied` are copied when a command is there, and
/// that the only stages are those of commands, matching and events.
pub(crate) fn library(nic: &NicConfig, copied: Bytes) -> NicConfig {
    NicConfig {
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

impl<N: Below, O: Out<Software<N>>> Between for Above<'_, N, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<N: Below, O: Out<Software<N>>> Out<Portals> for Above<'_, N, O> {
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

impl<N: Below, O: Out<Software<N>>> Between for Around<'_, N, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<N: Below, O: Out<Software<N>>> Out<N> for Around<'_, N, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.out.schedule(at, port, Event(event.0 | OF_NIC));
    }
    fn depart(&mut self, port: PortId, departure: Departure<N::Header>) {
        self.out.depart(port, departure.map(N::any));
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: N::Header) {
        self.out.shortcut(at, from, to, N::any(header));
    }
    fn notify(&mut self, _: PortId, _: Process, notice: N::Notice) {
        self.notices.push(notice);
    }
}

impl<N: Below> Software<N> {
    /// The NIC at a port, and the library that serves it.
    pub(crate) fn new(portals: Portals, nic: N) -> Software<N> {
        Software { portals, nic, notices: Vec::new(), begun: BTreeMap::new() }
    }

    /// The NIC.
    pub(crate) fn below(&self) -> &N {
        &self.nic
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

impl<N: Below> Nic for Software<N> {
    type Command = Command;
    type Notice = Notice;
    type Header = AnyHeader;

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

    fn head(&mut self, now: SimTime, header: &AnyHeader, out: &mut impl Out<Self>) -> u32 {
        let header = N::own(header).expect("the NICs of a rail are of one kind");
        self.nic(now, out, |nic, around| nic.head(now, header, around))
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &AnyHeader, out: &mut impl Out<Self>) {
        let header = N::own(header).expect("the NICs of a rail are of one kind");
        self.nic(now, out, |nic, around| nic.tail(now, arrival, header, around));
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.portals.take_refusals()
    }
}
