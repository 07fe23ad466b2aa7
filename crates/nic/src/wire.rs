//! What is under way between NICs, for networks that know a transfer by its number only.

use narrows_engine::Slab;
use narrows_fabric::{Notice, Transfer, TransferId};
use narrows_units::PortId;

use crate::kind::Nic;
use crate::out::{Departure, Out};

#[derive(Clone, Copy, Debug)]
struct Flight<H> {
    header: H,
    from: PortId,
    to: PortId,
    /// The sender's name for it.
    token: u32,
    /// The receiver's.
    arrival: u32,
    /// The source's NIC waits for the end of the reading.
    reading: bool,
    /// The network has not said [`Notice::SourceDone`].
    source: bool,
    /// The network has not said [`Notice::TailArrived`].
    open: bool,
}

/// All transfers under way, each with the header that travels with it.
#[derive(Debug)]
pub struct Wire<H> {
    flights: Slab<Flight<H>>,
}

impl<H> Default for Wire<H> {
    fn default() -> Self {
        Wire { flights: Slab::default() }
    }
}

/// Effects that come back as notices of a network.
pub trait Wired<K: Nic>: Out<K> {
    /// Where [`Out::depart`] keeps what is under way.
    fn wire(&mut self) -> &mut Wire<K::Header>;
}

impl<H: Copy> Wire<H> {
    /// What the NIC at `port` sends, as the network gets it.
    pub fn depart(&mut self, port: PortId, departure: Departure<H>) -> Transfer {
        let Departure { to, virtual_network, payload, source_dma, target_dma, token, header } = departure;
        let reading = source_dma && payload.0 > 0;
        let id = self.flights.insert(Flight { header, from: port, to, token, arrival: 0, reading, source: true, open: true });
        Transfer { id: TransferId(id), source: port.0, target: to.0, virtual_network, payload, source_dma, target_dma, route: 0 }
    }

    /// Tells the NICs what the network says. `nic` finds that at a port.
    pub fn notice<K: Nic<Header = H>, O: Wired<K>>(notice: Notice, out: &mut O, mut nic: impl FnMut(PortId, Step<'_, H>, &mut O) -> u32) {
        let (Notice::SourceDone(id) | Notice::HeadArrived(id) | Notice::TailArrived(id)) = notice;
        let Some(flight) = out.wire().flights.get_mut(id.0) else { return };
        match notice {
            Notice::SourceDone(_) => {
                flight.source = false;
                let Flight { from, token, open, .. } = *flight;
                let reading = std::mem::take(&mut flight.reading);
                if !open {
                    out.wire().flights.remove(id.0);
                }
                if reading {
                    nic(from, Step::SourceDone(token), out);
                }
            }
            Notice::HeadArrived(_) => {
                let Flight { to, header, .. } = *flight;
                let arrival = nic(to, Step::Head(&header), out);
                if let Some(flight) = out.wire().flights.get_mut(id.0) {
                    flight.arrival = arrival;
                }
            }
            Notice::TailArrived(_) => {
                flight.open = false;
                let Flight { from, token, to, header, arrival, source, .. } = *flight;
                let reading = std::mem::take(&mut flight.reading);
                if !source {
                    out.wire().flights.remove(id.0);
                }
                // What has arrived has been read.
                if reading {
                    nic(from, Step::SourceDone(token), out);
                }
                nic(to, Step::Tail(arrival, &header), out);
            }
        }
    }
}

/// What the network says to a NIC.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a, H> {
    /// See [`Nic::source_done`].
    SourceDone(u32),
    /// See [`Nic::head`].
    Head(&'a H),
    /// See [`Nic::tail`].
    Tail(u32, &'a H),
}
