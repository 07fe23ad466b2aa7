//! The kinds of NIC that there are. A new one is a file here and a line in the table [`kinds!`].

mod apenetx;
mod carvnet;
mod exanet;
mod mailbox;
mod tcp;

use std::sync::Arc;

use narrows_fabric::seam::{Acknowledge, PacketIn, PacketOut, Passage, Verdict};
use narrows_matching::CommandError;
use narrows_portals::{Command, Notice, Process};
use narrows_units::{PortId, SimTime};
use serde::{Deserialize, Serialize};

use crate::config::NicConfig;
use crate::engine::{Below, Engine};
use crate::error::{Denied, Refusal};
use crate::kind::{Directory, Kinds, Nic, PortalsNic, Travels};
use crate::out::{Between, Departure, Event, Out};
use crate::portals::{About, Ends, Header, Portals};
use crate::statistics::Troubles;
use narrows_spin::HandlersConfig;

pub use apenetx::{Apacket, Apenetx, ApenetxCard, ApenetxConfig, ApenetxNotice, ApenetxSend, Call, Completion, Descriptor};
pub use carvnet::{Carvnet, CarvnetConfig, CarvnetNotice, CarvnetSend, Rdma};
pub use exanet::{Cell, Exanet, ExanetConfig, ExanetNotice, Name, Order, Stream, Streamed};
pub use mailbox::{Envelope, Mailbox, MailboxConfig, MailboxNotice};
pub use tcp::{Segment, Tcp, TcpConfig, TcpNotice, TcpSend};

/// A header of one kind in [`AnyHeader`].
trait Carried: Sized {
    /// As one of any.
    fn any(self) -> AnyHeader;
    /// Back again; none of another kind.
    fn own(header: &AnyHeader) -> Option<&Self>;
}

/// The header of a NIC's own kind.
fn own<H: Carried>(header: &AnyHeader) -> &H {
    H::own(header).expect("the NICs of a rail are of one kind")
}

/// What differs by kind: three enums of the same variants, and `each`, which does the same with whichever there is.
macro_rules! kinds {
    ($d:tt $($(#[$doc:meta])* $kind:ident,)*) => {
        /// The constants of a NIC, by its kind. Where it does not match, those of the NIC count that the library has:
        /// commands, events, matching, limits.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum AnyConfig {
            /// It matches.
            Portals(NicConfig),
            /// The same, with handlers that see packets.
            Handlers(NicConfig, Arc<HandlersConfig>),
            $($(#[$doc])* $kind(NicConfig, <$kind<Header> as Below>::Config),)*
        }

        /// What travels with a message.
        #[derive(Clone, Copy, Debug, Serialize, Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "a header of one NIC in a header of another one")]
        pub enum AnyHeader {
            /// Between [`Portals`].
            Portals(Header),
            $($(#[$doc])* $kind(<$kind<Header> as Nic>::Header),)*
        }

        /// A NIC that processes use through Portals.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "the NICs of a rail are of one kind")]
        pub enum AnyNic {
            /// It matches.
            Portals(Portals),
            $($(#[$doc])* $kind(Box<Engine<$kind<Header>>>),)*
        }

        impl Carried for Header {
            fn any(self) -> AnyHeader {
                AnyHeader::Portals(self)
            }
            fn own(header: &AnyHeader) -> Option<&Header> {
                if let AnyHeader::Portals(header) = header { Some(header) } else { None }
            }
        }

        $(impl Carried for <$kind<Header> as Nic>::Header {
            fn any(self) -> AnyHeader {
                AnyHeader::$kind(self)
            }
            fn own(header: &AnyHeader) -> Option<&Self> {
                if let AnyHeader::$kind(header) = header { Some(header) } else { None }
            }
        })*

        impl AnyConfig {
            /// What of it concerns Portals.
            pub fn portals(&self) -> &NicConfig {
                match self {
                    AnyConfig::Portals(config) | AnyConfig::Handlers(config, _) $(| AnyConfig::$kind(config, _))* => config,
                }
            }

            /// See [`Nic::SEES`].
            fn sees(&self) -> Option<Acknowledge> {
                match self {
                    AnyConfig::Portals(_) => None,
                    AnyConfig::Handlers(..) => Portals::SEES,
                    $(AnyConfig::$kind(..) => <$kind<Header> as Nic>::SEES,)*
                }
            }
        }

        impl AnyNic {
            const SOME_SEE: bool = Portals::SEES.is_some() $(|| <$kind<Header> as Nic>::SEES.is_some())*;

            /// The NICs at these ports of a machine.
            pub fn of(config: &AnyConfig, directory: &Arc<Directory>, ports: &[PortId]) -> Vec<AnyNic> {
                match config {
                    AnyConfig::Portals(config) => {
                        Portals::of(config.clone(), Arc::clone(directory), ports).into_iter().map(AnyNic::Portals).collect()
                    }
                    AnyConfig::Handlers(config, handlers) => {
                        let plain = Portals::of(config.clone(), Arc::clone(directory), ports).into_iter();
                        plain.map(|nic| AnyNic::Portals(nic.with_handlers(handlers))).collect()
                    }
                    $(AnyConfig::$kind(config, below) => {
                        Engine::of(config, below, directory, ports).map(|nic| AnyNic::$kind(Box::new(nic))).collect()
                    })*
                }
            }

            /// The header is one of its kind.
            pub(crate) fn carries(&self, header: &AnyHeader) -> bool {
                matches!(
                    (self, header),
                    (AnyNic::Portals(_), AnyHeader::Portals(_)) $(| (AnyNic::$kind(_), AnyHeader::$kind(_)))*
                )
            }
        }

        macro_rules! each {
            ($d any:ident($d it:expr), $d one:ident => $d act:expr) => {
                match $d it {
                    $d any::Portals($d one) => $d act,
                    $($d any::$kind($d one) => $d act,)*
                }
            };
        }
    };
}

kinds! { $
    /// A mailbox, which stores and forwards.
    Mailbox,
    /// ExaNeSt's.
    Exanet,
    /// TCP over Ethernet.
    Tcp,
    /// APEnetX.
    Apenetx,
    /// caRVnet.
    Carvnet,
}

impl From<NicConfig> for AnyConfig {
    fn from(config: NicConfig) -> AnyConfig {
        AnyConfig::Portals(config)
    }
}

impl AnyHeader {
    /// It is a request that the NIC at the target knows of when all of it is there. What comes behind it from the same
    /// source, on the same virtual network, must wait for that, so that requests are matched in the order in which they
    /// were sent. (Nothing matches answers.)
    pub fn is_taken_whole(&self) -> bool {
        each!(AnyHeader(self), header => header.is_taken_whole())
    }

    /// It is an answer for a NIC that matches, which looks at it when all of it is there.
    pub fn is_answer(&self) -> bool {
        matches!(self, AnyHeader::Portals(Header::Response(_) | Header::Received(_)))
    }

    /// What travels. Of a message in parts the first one speaks for all.
    pub fn about(&self) -> About {
        let message = each!(AnyHeader(self), header => if header.is_first() { header.message() } else { None });
        message.map_or(About::Received, Header::about)
    }

    /// The NIC at `to` can get it from that at `from`: all that it names is there.
    pub(crate) fn is_for(&self, from: PortId, to: PortId, directory: &Directory) -> bool {
        each!(AnyHeader(self), header => header.is_from(from) && header.message().is_none_or(|message| message.is_for(to, directory)))
    }
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

impl<N: Nic<Notice = Notice, Header: Carried>, O: Out<AnyNic>> Out<N> for Around<'_, O> {
    fn denied(&mut self, denied: Denied) {
        self.0.denied(denied);
    }
    fn schedule(&mut self, at: SimTime, port: PortId, event: Event) {
        self.0.schedule(at, port, event);
    }
    fn depart(&mut self, port: PortId, departure: Departure<N::Header>) {
        self.0.depart(port, departure.map(N::Header::any));
    }
    fn shortcut(&mut self, at: SimTime, from: PortId, to: PortId, header: N::Header) {
        self.0.shortcut(at, from, to, header.any());
    }
    fn notify(&mut self, port: PortId, process: Process, notice: Notice) {
        self.0.notify(port, process, notice);
    }
}

impl PortalsNic for AnyNic {
    fn portals(&self) -> &Portals {
        each!(AnyNic(self), nic => nic.portals())
    }

    fn portals_mut(&mut self) -> &mut Portals {
        each!(AnyNic(self), nic => nic.portals_mut())
    }

    #[inline]
    fn matches(&self) -> bool {
        matches!(self, AnyNic::Portals(_))
    }

    fn waiting_vectors(&self) -> u64 {
        each!(AnyNic(self), nic => nic.waiting_vectors())
    }

    fn troubles(&self) -> Troubles {
        each!(AnyNic(self), nic => nic.troubles())
    }
}

impl Kinds for AnyNic {
    type Config = AnyConfig;
    const PACKETS: bool = AnyNic::SOME_SEE;

    fn of(config: &AnyConfig, directory: &Arc<Directory>, ports: &[PortId]) -> Vec<AnyNic> {
        AnyNic::of(config, directory, ports)
    }
    fn constants(config: &AnyConfig) -> &NicConfig {
        config.portals()
    }
    fn sees(config: &AnyConfig) -> Option<Acknowledge> {
        config.sees()
    }
    fn takes(&self, from: PortId, to: PortId, header: &AnyHeader, directory: &Directory) -> bool {
        self.carries(header) && header.is_for(from, to, directory)
    }
    fn is_taken_whole(header: &AnyHeader) -> bool {
        header.is_taken_whole()
    }
    fn is_answer(header: &AnyHeader) -> bool {
        header.is_answer()
    }
    fn ends(header: &AnyHeader) -> Option<Ends> {
        each!(AnyHeader(header), header => header.message()).map(Header::ends)
    }
    fn about(header: &AnyHeader) -> About {
        header.about()
    }
}

impl Nic for AnyNic {
    type Command = Command;
    type Notice = Notice;
    type Header = AnyHeader;

    fn lookahead(&self) -> SimTime {
        each!(AnyNic(self), nic => nic.lookahead())
    }

    fn command(&mut self, now: SimTime, process: Process, command: Command, out: &mut impl Out<Self>) -> Result<(), CommandError> {
        each!(AnyNic(self), nic => nic.command(now, process, command, &mut Around(out)))
    }

    fn handle(&mut self, now: SimTime, event: Event, out: &mut impl Out<Self>) {
        each!(AnyNic(self), nic => nic.handle(now, event, &mut Around(out)));
    }

    fn source_done(&mut self, now: SimTime, token: u32, out: &mut impl Out<Self>) {
        each!(AnyNic(self), nic => nic.source_done(now, token, &mut Around(out)));
    }

    fn head(&mut self, now: SimTime, header: &AnyHeader, out: &mut impl Out<Self>) -> u32 {
        each!(AnyNic(self), nic => nic.head(now, own(header), &mut Around(out)))
    }

    fn tail(&mut self, now: SimTime, arrival: u32, header: &AnyHeader, out: &mut impl Out<Self>) {
        each!(AnyNic(self), nic => nic.tail(now, arrival, own(header), &mut Around(out)));
    }

    fn take_refusals(&mut self) -> Vec<Refusal> {
        each!(AnyNic(self), nic => nic.take_refusals())
    }

    fn packet_in(&mut self, now: SimTime, packet: &PacketIn, header: &AnyHeader, out: &mut impl Out<Self>) -> Verdict {
        each!(AnyNic(self), nic => nic.packet_in(now, packet, own(header), &mut Around(out)))
    }

    fn packet_out(&mut self, now: SimTime, packet: &PacketOut) -> Passage {
        each!(AnyNic(self), nic => nic.packet_out(now, packet))
    }
}
