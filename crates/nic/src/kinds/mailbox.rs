//! A NIC that stores and forwards messages: no matching, no DMA. What a new kind of NIC starts from.

use std::collections::VecDeque;

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

/// What a mailbox costs. There is no such NIC: the values are whatever is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxConfig {
    /// The host writes a message into its mailbox, or reads one from it, at this rate.
    pub rate: ByteRate,
    /// Bytes of a message beside its payload.
    pub header_size: Bytes,
}

/// What travels with a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Envelope<H> {
    payload: Bytes,
    message: H,
}

impl Travels for Envelope<Header> {
    fn message(&self) -> Option<&Header> {
        Some(&self.message)
    }
}

/// What a mailbox says to the library that serves it.
#[derive(Clone, Copy, Debug)]
pub enum MailboxNotice<H> {
    /// The message of this token has been written: its memory is free.
    Stored(u32),
    /// This message is there, and its payload with it.
    Arrived(H),
}

const STORED: Event = Event(0);
const READ: Event = Event(1);

/// One box for what goes, one for what comes, and the host at both. A message is on the network when all of it has been
/// written, and with the host when all of it has come and been read. Requests of one source come in order
/// ([`crate::AnyHeader::is_taken_whole`]).
#[derive(Debug)]
pub struct Mailbox<H> {
    port: PortId,
    config: MailboxConfig,
    down: Server,
    up: Server,
    going: VecDeque<Departure<H>>,
    coming: VecDeque<H>,
}

impl<H: Copy> Mailbox<H> {
    /// That at a port.
    pub fn new(config: MailboxConfig, port: PortId) -> Mailbox<H> {
        Mailbox { port, config, down: Server::default(), up: Server::default(), going: VecDeque::new(), coming: VecDeque::new() }
    }

    fn time_for(&self, payload: Bytes) -> SimTime {
        self.config.rate.time_for(Bytes(self.config.header_size.0 + payload.0))
    }
}

impl<H: Copy> Nic for Mailbox<H> {
    /// A message to send.
    type Command = Departure<H>;
    type Notice = MailboxNotice<H>;
    type Header = Envelope<H>;

    fn lookahead(&self) -> SimTime {
        SimTime::ZERO
    }

    fn command(&mut self, now: SimTime, _: Process, message: Departure<H>, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        let busy = self.time_for(message.payload);
        self.going.push_back(message);
        out.schedule(self.down.end(now, busy), self.port, STORED);
        Ok(())
    }

    fn handle(&mut self, _: SimTime, event: Event, out: &mut impl Out<Self>) {
        if event == READ {
            if let Some(message) = self.coming.pop_front() {
                out.notify(self.port, LIBRARY, MailboxNotice::Arrived(message));
            }
        } else if let Some(stored) = self.going.pop_front() {
            let Departure { to, virtual_network, payload, token, header: message, .. } = stored;
            let header = Envelope { payload, message };
            out.depart(self.port, Departure { to, virtual_network, payload, source_dma: false, target_dma: false, token, header });
            if stored.source_dma {
                out.notify(self.port, LIBRARY, MailboxNotice::Stored(token));
            }
        }
    }

    fn source_done(&mut self, _: SimTime, _: u32, _: &mut impl Out<Self>) {}

    fn head(&mut self, _: SimTime, _: &Envelope<H>, _: &mut impl Out<Self>) -> u32 {
        0
    }

    fn tail(&mut self, now: SimTime, _: u32, header: &Envelope<H>, out: &mut impl Out<Self>) {
        let busy = self.time_for(header.payload);
        self.coming.push_back(header.message);
        out.schedule(self.up.end(now, busy), self.port, READ);
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        Vec::new()
    }
}

impl Below for Mailbox<Header> {
    type Config = MailboxConfig;

    fn at(config: &MailboxConfig, _: &Directory, port: PortId) -> Self {
        Mailbox::new(config.clone(), port)
    }
    fn order(departure: Departure<Header>) -> Departure<Header> {
        departure
    }
    fn heard(notice: MailboxNotice<Header>) -> Heard {
        match notice {
            MailboxNotice::Stored(token) => Heard::Stored(token),
            MailboxNotice::Arrived(header) => Heard::Arrived(header),
        }
    }
}
