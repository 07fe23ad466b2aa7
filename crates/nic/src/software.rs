//! Portals in software over a NIC that does not match: the same lists and the same two halves of a message as on
//! [`Portals`], but what they send is a message in a [`Mailbox`].

use narrows_portals::{Command, Notice};
use narrows_units::{Bytes, PortId, SimTime};

use crate::any::AnyHeader;
use crate::config::{NicConfig, Transmit};
use crate::error::Refusal;
use crate::kind::Nic;
use crate::mailbox::{Envelope, LIBRARY, Mailbox, MailboxConfig, MailboxNotice};
use crate::out::{Between, Departure, Event, Out};
use crate::portals::{Header, Portals};
use narrows_matching::CommandError;
use narrows_portals::Process;

/// Events of the mailbox have this bit.
const OF_MAILBOX: u64 = 1 << 63;

/// What comes with a command, as far as a library is concerned: everything.
const EVERYTHING: Bytes = Bytes(1 << 50);

/// See the module's page.
#[derive(Debug)]
pub struct Software {
    pub(crate) portals: Portals,
    mailbox: Mailbox<Header>,
    /// Reused: what the mailbox has said.
    notices: Vec<MailboxNotice<Header>>,
}

/// The library's constants: those of a NIC, but that payloads are copied when a command is there, and that the only
/// stages are those of commands, matching and events.
pub(crate) fn library(nic: &NicConfig) -> NicConfig {
    NicConfig {
        ack_size: Bytes(0),
        inline_limit: EVERYTHING,
        pio_limit: EVERYTHING,
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

/// Below the library: the mailbox takes what it sends.
struct Above<'a, O> {
    now: SimTime,
    mailbox: &'a mut Mailbox<Header>,
    out: &'a mut O,
}

impl<O: Out<Software>> Between for Above<'_, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<O: Out<Software>> Out<Portals> for Above<'_, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.out.schedule(at, port, event);
    }
    fn depart(&mut self, _: PortId, departure: Departure<Header>) {
        let Above { now, mailbox, out } = self;
        let accepted = mailbox.command(*now, LIBRARY, departure, &mut Below { notices: &mut Vec::new(), out: *out });
        debug_assert!(accepted.is_ok(), "a mailbox takes every message");
    }
    fn shortcut(&mut self, _: SimTime, _: PortId, _: PortId, header: Header) {
        unreachable!("a library acknowledges through its mailbox: {header:?}");
    }
    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        self.out.notify(port, process, notice);
    }
}

/// Around the mailbox: its notices are the library's.
struct Below<'a, O> {
    notices: &'a mut Vec<MailboxNotice<Header>>,
    out: &'a mut O,
}

impl<O: Out<Software>> Between for Below<'_, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.out
    }
    fn outer_mut(&mut self) -> &mut O {
        self.out
    }
}

impl<O: Out<Software>> Out<Mailbox<Header>> for Below<'_, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.out.schedule(at, port, Event(event.0 | OF_MAILBOX));
    }
    fn depart(&mut self, port: PortId, departure: Departure<Envelope<Header>>) {
        self.out.depart(port, departure.map(AnyHeader::Mailbox));
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: Envelope<Header>) {
        self.out.shortcut(at, from, to, AnyHeader::Mailbox(header));
    }
    fn notify(&mut self, _: PortId, _: Process, notice: MailboxNotice<Header>) {
        self.notices.push(notice);
    }
}

impl Software {
    /// The mailbox at a port, and the library that serves it.
    pub(crate) fn new(portals: Portals, mailbox: MailboxConfig, port: PortId) -> Software {
        Software { portals, mailbox: Mailbox::new(mailbox, port), notices: Vec::new() }
    }

    /// The library does something.
    fn library<O: Out<Software>, R>(&mut self, now: SimTime, out: &mut O, act: impl FnOnce(&mut Portals, &mut Above<'_, O>) -> R) -> R {
        act(&mut self.portals, &mut Above { now, mailbox: &mut self.mailbox, out })
    }
}

impl Nic for Software {
    type Command = Command;
    type Notice = Notice;
    type Header = AnyHeader;

    fn lookahead(&self) -> SimTime {
        self.portals.lookahead()
    }

    fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        self.library(now, out, |portals, above| portals.command(now, process, command, above))
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        if event.0 & OF_MAILBOX == 0 {
            return self.library(now, out, |portals, above| portals.handle(now, event, above));
        }
        let mut notices = std::mem::take(&mut self.notices);
        self.mailbox.handle(now, Event(event.0 & !OF_MAILBOX), &mut Below { notices: &mut notices, out });
        for notice in notices.drain(..) {
            self.library(now, out, |portals, above| match notice {
                MailboxNotice::Stored(token) => portals.source_done(now, token, above),
                MailboxNotice::Arrived(header) => {
                    let arrival = portals.head(now, &header, above);
                    portals.tail(now, arrival, &header, above);
                }
            });
        }
        self.notices = notices;
    }

    fn source_done(&mut self, _: SimTime, _: u32, _: &mut impl Out<Self>) {}

    fn head(&mut self, now: SimTime, header: &AnyHeader, out: &mut impl Out<Self>) -> u32 {
        match header {
            AnyHeader::Mailbox(envelope) => self.mailbox.head(now, envelope, &mut Below { notices: &mut Vec::new(), out }),
            AnyHeader::Portals(_) => unreachable!("the NICs of a rail are of one kind"),
        }
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &AnyHeader, out: &mut impl Out<Self>) {
        match header {
            AnyHeader::Mailbox(envelope) => self.mailbox.tail(now, arrival, envelope, &mut Below { notices: &mut Vec::new(), out }),
            AnyHeader::Portals(_) => unreachable!("the NICs of a rail are of one kind"),
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        self.portals.take_refusals()
    }
}
