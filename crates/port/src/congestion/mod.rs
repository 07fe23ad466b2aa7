//! Congestion controls: each is a file that implements [`CongestionControl`], and a line of the table `controls!`.
//!
//! A control has a source in each flow ([`Control`]). It says when the flow may send its next packet; packets that are
//! sent again, and acknowledgements, do not ask. Where it needs more, it keeps something at each port
//! ([`CongestionControl::AtPort`]), sends control packets, and has a clock ([`Port`]).

mod acc;
mod dcqcn;
mod dctcp;
mod hpcc;
mod nscc;
mod port;
mod sperc;
mod swift;
mod throttle;

pub(crate) use port::{ControlPackets, Port};

use crate::flow::Flow;
use narrows_fabric::control::network_of;
use narrows_fabric::port::{Label, PortEffects};
use narrows_fabric::{Congestion, NetworkConfig, Telemetry, Transfer};
use narrows_units::{ByteRate, Bytes, SimTime};

/// The source of a congestion control, in a flow.
pub(crate) trait CongestionControl: Sized {
    /// What the machine file says.
    type Numbers;
    /// What it keeps at a port, for all of its flows.
    type AtPort: std::fmt::Debug + Default;

    /// `line`: the rate of the host's link.
    fn new(numbers: &Self::Numbers, line: ByteRate) -> Self;

    /// A packet may be made now. So many packets, of so many bytes, have no acknowledgement.
    fn allows(&self, now: SimTime, packets: u32, bytes: u64) -> bool;

    /// A packet of `wire` bytes is made now; when the next one may be, if that is later.
    fn made(&mut self, now: SimTime, wire: u32, numbers: &Self::Numbers) -> Option<SimTime>;

    /// An acknowledgement; when the next packet may be made, if that is another time now.
    fn acknowledged(&mut self, _now: SimTime, _what: &Acknowledged<'_>, _numbers: &Self::Numbers, _common: &Common) -> Option<SimTime> {
        None
    }

    /// Packets are sent again; so many bytes have no acknowledgement.
    fn timed_out(&mut self, _now: SimTime, _bytes: u64, _numbers: &Self::Numbers, _common: &Common) {}

    // ---- at the port ----

    /// Of a host's port.
    fn at_port(_numbers: &Self::Numbers, _seed: u64, _host: u32) -> Self::AtPort {
        Self::AtPort::default()
    }

    /// A message is to be sent by this flow.
    fn offered<E: PortEffects>(_: &mut Self::AtPort, _: &Self::Numbers, _flow: Flow, _: &Transfer, _: &mut Port<'_, E>) {}

    /// A packet comes that a switch has marked.
    fn marked<E: PortEffects>(_: &mut Self::AtPort, _: &Self::Numbers, _: &Label, _: &mut Port<'_, E>) {}

    /// A control packet has come; what it carries is at that place. The result: the virtual network that may have
    /// something to send by it.
    fn heard<E: PortEffects>(_: &mut Self::AtPort, _: &Self::Numbers, _: &Label, _carries: u32, _: &mut Port<'_, E>) -> Option<u32> {
        None
    }

    /// The port's clock strikes, as was scheduled ([`Port::strike`]).
    fn struck<E: PortEffects>(_: &mut Self::AtPort, _: &Self::Numbers, _what: u32, _: &mut Port<'_, E>) {}

    /// This flow was given up.
    fn given_up(&mut self, _: &mut Self::AtPort, _flow: Flow) {}

    /// Nothing will happen at the port without a message.
    fn is_idle(_: &Self::AtPort) -> bool {
        true
    }

    /// All flows are forgotten.
    fn forget(_: &mut Self::AtPort) {}
}

/// The table: variants of [`Congestion`], and the files that do what they say.
macro_rules! controls {
    ($($control:ident: $file:ident,)+) => {
        /// What a flow knows of its rate.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Control {
            /// As fast as its window and the link let it.
            None,
            $($control($file::Source),)+
        }

        impl Control {
            pub(crate) fn new(congestion: &Congestion, line: ByteRate) -> Control {
                match congestion {
                    Congestion::None => Control::None,
                    $(Congestion::$control(numbers) => Control::$control(CongestionControl::new(numbers, line)),)+
                }
            }

            /// See [`CongestionControl::allows`].
            #[inline]
            pub(crate) fn allows(&self, now: SimTime, packets: u32, bytes: u64) -> bool {
                match self {
                    Control::None => true,
                    $(Control::$control(source) => source.allows(now, packets, bytes),)+
                }
            }

            /// See [`CongestionControl::made`].
            #[inline]
            pub(crate) fn made(&mut self, now: SimTime, wire: u32, congestion: &Congestion) -> Option<SimTime> {
                match (self, congestion) {
                    $((Control::$control(source), Congestion::$control(numbers)) => source.made(now, wire, numbers),)+
                    _ => None,
                }
            }

            /// See [`CongestionControl::acknowledged`].
            #[inline]
            pub(crate) fn acknowledged(&mut self, now: SimTime, what: &Acknowledged<'_>, network: u8, common: &Common) -> Option<SimTime> {
                match (self, common.congestion(network)) {
                    $((Control::$control(source), Congestion::$control(numbers)) => source.acknowledged(now, what, numbers, common),)+
                    _ => None,
                }
            }

            /// See [`CongestionControl::timed_out`].
            pub(crate) fn timed_out(&mut self, now: SimTime, bytes: u64, network: u8, common: &Common) {
                match (self, common.congestion(network)) {
                    $((Control::$control(source), Congestion::$control(numbers)) => source.timed_out(now, bytes, numbers, common),)+
                    _ => {}
                }
            }
        }

        /// What a port keeps for its flows, of each control.
        #[derive(Debug, Default)]
        pub(crate) struct PortControls {
            $($file: <$file::Source as CongestionControl>::AtPort,)+
        }

        impl PortControls {
            pub(crate) fn new(common: &Common, seed: u64, host: u32) -> PortControls {
                let mut controls = PortControls::default();
                $(if let Some(numbers) = common.controls.iter().find_map(|congestion| match congestion {
                    Congestion::$control(numbers) => Some(numbers),
                    _ => None,
                }) {
                    controls.$file = $file::Source::at_port(numbers, seed, host);
                })+
                controls
            }

            /// See [`CongestionControl::offered`].
            pub(crate) fn offered<E: PortEffects>(&mut self, flow: Flow, message: &Transfer, port: &mut Port<'_, E>) {
                match port.common.congestion(message.virtual_network) {
                    Congestion::None => {}
                    $(Congestion::$control(numbers) => $file::Source::offered(&mut self.$file, numbers, flow, message, port),)+
                }
            }

            /// See [`CongestionControl::marked`].
            pub(crate) fn marked<E: PortEffects>(&mut self, label: &Label, port: &mut Port<'_, E>) {
                match port.common.congestion(label.virtual_network) {
                    Congestion::None => {}
                    $(Congestion::$control(numbers) => $file::Source::marked(&mut self.$file, numbers, label, port),)+
                }
            }

            /// See [`CongestionControl::heard`].
            pub(crate) fn heard<E: PortEffects>(&mut self, label: &Label, carries: u32, port: &mut Port<'_, E>) -> Option<u32> {
                match port.common.congestion(network_of(label)) {
                    Congestion::None => None,
                    $(Congestion::$control(numbers) => $file::Source::heard(&mut self.$file, numbers, label, carries, port),)+
                }
            }

            /// See [`CongestionControl::struck`]. Each control that the port has hears the clock.
            pub(crate) fn struck<E: PortEffects>(&mut self, what: u32, port: &mut Port<'_, E>) {
                let common = port.common;
                $(if let Some(numbers) = common.controls.iter().find_map(|congestion| match congestion {
                    Congestion::$control(numbers) => Some(numbers),
                    _ => None,
                }) {
                    $file::Source::struck(&mut self.$file, numbers, what, port);
                })+
            }

            /// See [`CongestionControl::given_up`].
            pub(crate) fn given_up(&mut self, control: &mut Control, flow: Flow) {
                match control {
                    Control::None => {}
                    $(Control::$control(source) => source.given_up(&mut self.$file, flow),)+
                }
            }

            pub(crate) fn are_idle(&self) -> bool {
                $(<$file::Source as CongestionControl>::is_idle(&self.$file))&&+
            }

            pub(crate) fn forget(&mut self) {
                $(<$file::Source as CongestionControl>::forget(&mut self.$file);)+
            }
        }
    };
}

controls! {
    Throttle: throttle,
    Acc: acc,
    Dcqcn: dcqcn,
    Dctcp: dctcp,
    Swift: swift,
    Nscc: nscc,
    Hpcc: hpcc,
    Sperc: sperc,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged<'a> {
    /// When the last of its packets was sent.
    pub sent: SimTime,
    pub packets: u32,
    pub bytes: u32,
    /// Links that it came over.
    pub hops: u32,
    /// A switch has marked one of them.
    pub marked: bool,
    /// Bytes without an acknowledgement still.
    pub under_way: u64,
    /// What switches wrote into it, behind the last packet that it is for, and the number of the next one.
    pub telemetry: Option<&'a Telemetry>,
    pub acknowledged: u16,
    pub next: u16,
}

/// What is the same for all flows.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// By virtual network.
    controls: Box<[Congestion]>,
    /// That of control packets.
    pub network: u8,
    /// The rate of the host's link.
    pub line: ByteRate,
    /// A full packet.
    pub packet: u32,
    mtu: Bytes,
    header: Bytes,
}

impl Common {
    pub(crate) fn new(network: &NetworkConfig) -> Common {
        Common {
            controls: network.congestions().collect(),
            network: network.virtual_networks,
            line: network.host_link.rate,
            packet: network.packet().0 as u32,
            mtu: network.mtu,
            header: network.header,
        }
    }

    /// That of the flows in a virtual network.
    #[inline]
    pub(crate) fn congestion(&self, network: u8) -> &Congestion {
        &self.controls[usize::from(network)]
    }

    /// The bytes of a message on the wire.
    fn wire(&self, message: &Transfer) -> u64 {
        let Bytes(payload) = message.payload;
        payload.saturating_add(payload.div_ceil(self.mtu.0).max(1).saturating_mul(self.header.0))
    }
}

/// Packets at a rate that changes.
#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    /// From when on the time of the last packet counts, and its bytes.
    base: SimTime,
    wire: u32,
    next: SimTime,
}

impl Pacer {
    fn allows(&self, now: SimTime) -> bool {
        self.next <= now
    }

    /// A packet is made; when the next one may be. One that had to wait for others at the link, for no longer than its
    /// own time, does not move those behind it.
    fn made(&mut self, now: SimTime, wire: u32, rate: ByteRate) -> SimTime {
        let time = rate.time_for(Bytes(u64::from(wire)));
        self.base = if self.next + time >= now { self.next } else { now };
        self.wire = wire;
        self.next = self.base + time;
        self.next
    }

    /// The rate is another one from now on; when the next packet may be made.
    fn change(&mut self, rate: ByteRate) -> SimTime {
        self.next = self.base + rate.time_for(Bytes(u64::from(self.wire)));
        self.next
    }
}
