//! One of the kinds of NIC. A new kind is a variant of each of the three enums here.

use std::sync::Arc;

use narrows_portals::{Command, Notice};
use narrows_units::{PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::config::NicConfig;
use crate::error::{Denied, Refusal};
use crate::exanet::{Cell, Exanet, ExanetConfig, Troubles};
use crate::kind::{Directory, Nic};
use crate::mailbox::{Envelope, Mailbox, MailboxConfig};
use crate::out::{Between, Departure, Event, Out};
use crate::portals::{About, Header, Portals};
use crate::software::{self, Below, Software};
use crate::tcp::{Segment, Tcp, TcpConfig};
use narrows_matching::CommandError;
use narrows_portals::Process;

/// The constants of a NIC, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyConfig {
    /// It matches.
    Portals(NicConfig),
    /// It does not: Portals in software over a mailbox. Of the NIC's constants those of the library count: commands,
    /// events, matching, limits.
    Mailbox(NicConfig, MailboxConfig),
    /// ExaNeSt's, which does not either. Idem.
    Exanet(NicConfig, ExanetConfig),
    /// TCP over Ethernet, which does not either. Idem.
    Tcp(NicConfig, TcpConfig),
}

impl From<NicConfig> for AnyConfig {
    fn from(config: NicConfig) -> AnyConfig {
        AnyConfig::Portals(config)
    }
}

impl AnyConfig {
    /// What of it concerns Portals.
    pub fn portals(&self) -> &NicConfig {
        match self {
            AnyConfig::Portals(config) | AnyConfig::Mailbox(config, _) | AnyConfig::Exanet(config, _) | AnyConfig::Tcp(config, _) => config,
        }
    }
}

/// What travels with a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "a header of one NIC in a header of another one")]
pub enum AnyHeader {
    /// Between [`Portals`].
    Portals(Header),
    /// Between mailboxes.
    Mailbox(Envelope<Header>),
    /// Between ExaNeSt's.
    Exanet(Cell<Header>),
    /// Between ends of TCP.
    Tcp(Segment<Header>),
}

impl AnyHeader {
    /// It is a request that the NIC at the target knows of when all of it is there. What comes behind it from the same
    /// source, on the same virtual network, must wait for that, so that requests are matched in the order in which they
    /// were sent. (Nothing matches answers.)
    pub fn is_taken_whole(&self) -> bool {
        let message = match self {
            AnyHeader::Mailbox(envelope) => envelope.message(),
            AnyHeader::Tcp(segment) => segment.message(),
            AnyHeader::Exanet(Cell::Short { message, .. }) => message,
            AnyHeader::Portals(_) | AnyHeader::Exanet(_) => return false,
        };
        message.stream().is_some()
    }

    /// It is an answer for a NIC that matches, which looks at it when all of it is there.
    pub fn is_answer(&self) -> bool {
        matches!(self, AnyHeader::Portals(Header::Response(_) | Header::Received(_)))
    }

    /// What travels.
    pub fn about(&self) -> About {
        match self {
            AnyHeader::Portals(header) => header.about(),
            AnyHeader::Mailbox(envelope) => envelope.message().about(),
            // Of a transfer the first block speaks for all.
            AnyHeader::Exanet(Cell::Block { index: 1.., .. }) => About::Received,
            AnyHeader::Tcp(segment) if segment.is_first() => segment.message().about(),
            AnyHeader::Tcp(_) => About::Received,
            AnyHeader::Exanet(cell) => cell.message().map_or(About::Received, Header::about),
        }
    }
}

/// A NIC that processes use through Portals.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the NICs of a rail are of one kind")]
pub enum AnyNic {
    /// It matches.
    Portals(Portals),
    /// It does not.
    Mailbox(Box<Software<Mailbox<Header>>>),
    /// Idem.
    Exanet(Box<Software<Exanet<Header>>>),
    /// Idem.
    Tcp(Box<Software<Tcp<Header>>>),
}

/// Around a NIC of one kind: its headers are any.
struct Around<'a, O>(&'a mut O);

impl<O: Out<AnyNic>> Between for Around<'_, O> {
    type Outer = O;
    fn outer(&self) -> &O {
        self.0
    }
    fn outer_mut(&mut self) -> &mut O {
        self.0
    }
}

impl<O: Out<AnyNic>> Out<Portals> for Around<'_, O> {
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.0.schedule(at, port, event);
    }
    fn depart(&mut self, port: PortId, departure: Departure<Header>) {
        self.0.depart(port, departure.map(AnyHeader::Portals));
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: Header) {
        self.0.shortcut(at, from, to, AnyHeader::Portals(header));
    }
    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        self.0.notify(port, process, notice);
    }
}

impl<N: Below, O: Out<AnyNic>> Out<Software<N>> for Around<'_, O> {
    fn denied(&mut self, denied: Denied) {
        self.0.denied(denied);
    }
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.0.schedule(at, port, event);
    }
    fn depart(&mut self, port: PortId, departure: Departure<AnyHeader>) {
        self.0.depart(port, departure);
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: AnyHeader) {
        self.0.shortcut(at, from, to, header);
    }
    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        self.0.notify(port, process, notice);
    }
}

impl AnyNic {
    /// The NICs at these ports of a machine.
    pub fn of(config: &AnyConfig, directory: Arc<Directory>, ports: &[PortId]) -> Vec<AnyNic> {
        match config {
            AnyConfig::Portals(config) => Portals::of(config.clone(), directory, ports).into_iter().map(AnyNic::Portals).collect(),
            AnyConfig::Mailbox(config, mailbox) => {
                let libraries = Portals::of(software::library(config, software::EVERYTHING), directory, ports).into_iter().zip(ports);
                libraries
                    .map(|(library, &port)| AnyNic::Mailbox(Box::new(Software::new(library, Mailbox::new(mailbox.clone(), port)))))
                    .collect()
            }
            AnyConfig::Exanet(config, exanet) => {
                let places = Arc::clone(&directory);
                let libraries = Portals::of(software::library(config, exanet.short_limit), directory, ports).into_iter().zip(ports);
                let of = |(library, &port): (Portals, &PortId)| {
                    let mut nic = Exanet::new(exanet.clone(), port);
                    for &(pid, Process(process)) in places.processes_of(places.of_port(port).0) {
                        if let Some(&domain) = exanet.domains.get(process as usize) {
                            nic.set_domain(pid, domain);
                        }
                    }
                    AnyNic::Exanet(Box::new(Software::new(library, nic)))
                };
                libraries.map(of).collect()
            }
            AnyConfig::Tcp(config, tcp) => {
                let libraries = Portals::of(software::library(config, software::EVERYTHING), directory, ports).into_iter().zip(ports);
                libraries.map(|(library, &port)| AnyNic::Tcp(Box::new(Software::new(library, Tcp::new(tcp.clone(), port))))).collect()
            }
        }
    }

    /// What of it concerns Portals: in the NIC, or in software.
    pub fn portals(&self) -> &Portals {
        match self {
            AnyNic::Portals(nic) => nic,
            AnyNic::Mailbox(nic) => &nic.portals,
            AnyNic::Exanet(nic) => &nic.portals,
            AnyNic::Tcp(nic) => &nic.portals,
        }
    }

    /// Vectors that its accelerator keeps until others come.
    pub fn waiting_vectors(&self) -> u64 {
        if let AnyNic::Exanet(nic) = self { nic.below().waiting_vectors() } else { 0 }
    }

    /// What went wrong, at one of ExaNeSt's.
    pub fn troubles(&self) -> Troubles {
        if let AnyNic::Exanet(nic) = self { nic.below().troubles() } else { Troubles::default() }
    }

    /// Idem.
    pub fn portals_mut(&mut self) -> &mut Portals {
        match self {
            AnyNic::Portals(nic) => nic,
            AnyNic::Mailbox(nic) => &mut nic.portals,
            AnyNic::Exanet(nic) => &mut nic.portals,
            AnyNic::Tcp(nic) => &mut nic.portals,
        }
    }
}

impl Nic for AnyNic {
    type Command = Command;
    type Notice = Notice;
    type Header = AnyHeader;

    fn lookahead(&self) -> SimTime {
        match self {
            AnyNic::Portals(nic) => nic.lookahead(),
            AnyNic::Mailbox(nic) => nic.lookahead(),
            AnyNic::Exanet(nic) => nic.lookahead(),
            AnyNic::Tcp(nic) => nic.lookahead(),
        }
    }

    fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        match self {
            AnyNic::Portals(nic) => nic.command(now, process, command, &mut Around(out)),
            AnyNic::Mailbox(nic) => nic.command(now, process, command, &mut Around(out)),
            AnyNic::Exanet(nic) => nic.command(now, process, command, &mut Around(out)),
            AnyNic::Tcp(nic) => nic.command(now, process, command, &mut Around(out)),
        }
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        match self {
            AnyNic::Portals(nic) => nic.handle(now, event, &mut Around(out)),
            AnyNic::Mailbox(nic) => nic.handle(now, event, &mut Around(out)),
            AnyNic::Exanet(nic) => nic.handle(now, event, &mut Around(out)),
            AnyNic::Tcp(nic) => nic.handle(now, event, &mut Around(out)),
        }
    }

    fn source_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Self>) {
        match self {
            AnyNic::Portals(nic) => nic.source_done(now, token, &mut Around(out)),
            AnyNic::Mailbox(nic) => nic.source_done(now, token, &mut Around(out)),
            AnyNic::Exanet(nic) => nic.source_done(now, token, &mut Around(out)),
            AnyNic::Tcp(nic) => nic.source_done(now, token, &mut Around(out)),
        }
    }

    fn head(&mut self, now: SimTime, header: &AnyHeader, out: &mut impl Out<Self>) -> u32 {
        match (self, header) {
            (AnyNic::Portals(nic), AnyHeader::Portals(header)) => nic.head(now, header, &mut Around(out)),
            (AnyNic::Mailbox(nic), header) => nic.head(now, header, &mut Around(out)),
            (AnyNic::Exanet(nic), header) => nic.head(now, header, &mut Around(out)),
            (AnyNic::Tcp(nic), header) => nic.head(now, header, &mut Around(out)),
            (AnyNic::Portals(_), _) => unreachable!("the NICs of a rail are of one kind"),
        }
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &AnyHeader, out: &mut impl Out<Self>) {
        match (self, header) {
            (AnyNic::Portals(nic), AnyHeader::Portals(header)) => nic.tail(now, arrival, header, &mut Around(out)),
            (AnyNic::Mailbox(nic), header) => nic.tail(now, arrival, header, &mut Around(out)),
            (AnyNic::Exanet(nic), header) => nic.tail(now, arrival, header, &mut Around(out)),
            (AnyNic::Tcp(nic), header) => nic.tail(now, arrival, header, &mut Around(out)),
            (AnyNic::Portals(_), _) => unreachable!("the NICs of a rail are of one kind"),
        }
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        match self {
            AnyNic::Portals(nic) => nic.take_refusals(),
            AnyNic::Mailbox(nic) => nic.take_refusals(),
            AnyNic::Exanet(nic) => nic.take_refusals(),
            AnyNic::Tcp(nic) => nic.take_refusals(),
        }
    }
}
