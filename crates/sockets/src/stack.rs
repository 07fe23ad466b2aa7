//! smoltcp, with one frame in and many out. Its time is in microseconds: a time is rounded down when it is told, and
//! up when it asks to be told.

use narrows_units::SimTime;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::net::Ipv4Addr;

const PS_PER_US: u64 = 1_000_000;

/// Where frames lie between smoltcp and the device of the node.
pub(crate) struct Wire {
    mtu: usize,
    arriving: Option<Vec<u8>>,
    leaving: Vec<Vec<u8>>,
    /// Frames that may leave.
    room: usize,
}

pub(crate) struct Arriving(Vec<u8>);
pub(crate) struct Leaving<'a>(&'a mut Vec<Vec<u8>>);

impl phy::RxToken for Arriving {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut bytes = vec![0; length];
        let result = fill(&mut bytes);
        self.0.push(bytes);
        result
    }
}

impl phy::Device for Wire {
    type RxToken<'a> = Arriving;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Arriving, Leaving<'_>)> {
        let frame = self.arriving.take()?;
        Some((Arriving(frame), Leaving(&mut self.leaving)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        (self.leaving.len() < self.room).then_some(Leaving(&mut self.leaving))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // Nobody changes bytes on the way.
        capabilities.checksum = ChecksumCapabilities::ignored();
        capabilities
    }
}

/// See the module's page.
pub(crate) struct Stack {
    interface: Interface,
    pub(crate) sockets: SocketSet<'static>,
    wire: Wire,
}

fn instant(now: SimTime) -> Instant {
    Instant::from_micros((now.as_ps() / PS_PER_US) as i64)
}

impl Stack {
    pub(crate) fn new(address: Ipv4Addr, mtu: usize, seed: u64) -> Stack {
        let mut wire = Wire { mtu, arriving: None, leaving: Vec::new(), room: 0 };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for address in [IpCidr::new(address.into(), 8), IpCidr::new(Ipv4Addr::LOCALHOST.into(), 8)] {
                let pushed = addresses.push(address);
                debug_assert!(pushed.is_ok(), "smoltcp has room for two addresses");
            }
        });
        Stack { interface, sockets: SocketSet::new(Vec::new()), wire }
    }

    pub(crate) fn context(&mut self) -> &mut smoltcp::iface::Context {
        self.interface.context()
    }

    /// A frame arrives. What is answered at once is among those that leave.
    pub(crate) fn arrive(&mut self, now: SimTime, frame: Vec<u8>) {
        self.wire.arriving = Some(frame);
        self.interface.poll_ingress_single(instant(now), &mut self.wire, &mut self.sockets);
    }

    /// What sockets want to send now, up to so many frames.
    pub(crate) fn leave(&mut self, now: SimTime, room: usize) -> Vec<Vec<u8>> {
        // Answers are there already, whatever room there is.
        self.wire.room = self.wire.leaving.len() + room;
        loop {
            let before = self.wire.leaving.len();
            self.interface.poll_egress(instant(now), &mut self.wire, &mut self.sockets);
            if self.wire.leaving.len() == before {
                return std::mem::take(&mut self.wire.leaving);
            }
        }
    }

    /// When it wants to be asked again, after `now`. What waits for room says nothing.
    pub(crate) fn next(&mut self, now: SimTime) -> Option<SimTime> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        let at = SimTime((at.total_micros().max(0) as u64).saturating_mul(PS_PER_US));
        (at > now).then_some(at)
    }
}
