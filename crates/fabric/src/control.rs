//! What the control packets of a congestion control say: they have no payload, so it stands where others have what
//! concerns their message.

use crate::port::{Label, PacketKind};
use crate::{TransferId, packet::state::Packet};
use narrows_units::{ByteRate, Bytes, SimTime};

/// A flow rate packet of [`Acc`](crate::Acc), on its way to the target and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRate {
    /// Comes back: what the links said.
    pub response: bool,
    /// The first one of a flow.
    pub init: bool,
    /// The last one.
    pub fin: bool,
    /// Links count it: it tells what the flow was granted.
    pub counts: bool,
    /// Parity of the period in which it was sent.
    pub odd: bool,
    /// The virtual network of the flow.
    pub virtual_network: u8,
    /// What the last response granted to the flow,
    pub granted: ByteRate,
    /// and the link that said so; [`NO_LINK`] for none.
    pub granted_by: u32,
    /// The explicit rate: the least share of the links so far,
    pub explicit: ByteRate,
    /// and the link that said so.
    pub explicit_by: u32,
}

/// None: a flow is limited by itself.
pub const NO_LINK: u32 = u32::MAX;

/// A rate in 31 bits, rounded down by less than 2^-24 of it: 25 bits, and by how much they are shifted.
fn encode(rate: ByteRate) -> u64 {
    let shift = (64 - 25u32).saturating_sub(rate.0.leading_zeros());
    u64::from(shift) << 25 | rate.0 >> shift
}

fn decode(code: u64) -> ByteRate {
    ByteRate((code & ((1 << 25) - 1)) << (code >> 25 & 63))
}

const RESPONSE: u16 = 1;
const INIT: u16 = 1 << 1;
const FIN: u16 = 1 << 2;
const COUNTS: u16 = 1 << 3;
const ODD: u16 = 1 << 4;
const NETWORK: u32 = 8;

/// The virtual network of the flow that a packet of kind [`PacketKind::Control`] is about.
pub fn network_of(label: &Label) -> u8 {
    (label.sequence >> NETWORK) as u8 & 15
}

impl FlowRate {
    /// A packet of `wire` bytes from `source` to `target` in a virtual network.
    pub fn label(&self, source: u32, target: u32, virtual_network: u8, wire: Bytes) -> Label {
        let flag = |set: bool, bit: u16| if set { bit } else { 0 };
        Label {
            id: TransferId(self.granted_by),
            source,
            target,
            virtual_network,
            message: Bytes(encode(self.granted)),
            started: SimTime(encode(self.explicit) << 32 | u64::from(self.explicit_by)),
            wire: wire.0 as u32,
            first: false,
            index: 0,
            written: true,
            kind: PacketKind::Control,
            sequence: flag(self.response, RESPONSE)
                | flag(self.init, INIT)
                | flag(self.fin, FIN)
                | flag(self.counts, COUNTS)
                | flag(self.odd, ODD)
                | u16::from(self.virtual_network) << NETWORK,
            marked: false,
        }
    }

    /// What a packet of kind [`PacketKind::Control`] says.
    pub fn of(label: &Label) -> FlowRate {
        let flag = |bit: u16| label.sequence & bit != 0;
        FlowRate {
            response: flag(RESPONSE),
            init: flag(INIT),
            fin: flag(FIN),
            counts: flag(COUNTS),
            odd: flag(ODD),
            virtual_network: network_of(label),
            granted: decode(label.message.0),
            granted_by: label.id.0,
            explicit: decode(label.started.as_ps() >> 32),
            explicit_by: label.started.as_ps() as u32,
        }
    }

    /// A link lowers the explicit rate of a packet on its way.
    pub(crate) fn lower(packet: &mut Packet, rate: ByteRate, link: u32) {
        packet.started = encode(rate) << 32 | u64::from(link);
    }
}

/// A congestion notification of [`Dcqcn`](crate::Dcqcn), from the target of a flow to its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// That of the flow.
    pub virtual_network: u8,
}

impl Notification {
    /// A packet of `wire` bytes from `source` to `target` in a virtual network.
    pub fn label(&self, source: u32, target: u32, virtual_network: u8, wire: Bytes) -> Label {
        Label {
            id: TransferId(0),
            source,
            target,
            virtual_network,
            message: Bytes(0),
            started: SimTime::ZERO,
            wire: wire.0 as u32,
            first: false,
            index: 0,
            written: true,
            kind: PacketKind::Control,
            sequence: u16::from(self.virtual_network) << NETWORK,
            marked: false,
        }
    }

    /// What a packet of kind [`PacketKind::Control`] says.
    pub fn of(label: &Label) -> Notification {
        Notification { virtual_network: network_of(label) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_25_bits_and_their_order() {
        let mut last = 0;
        for rate in (0..64).flat_map(|bits| [1u64 << bits, (1 << bits) + (1 << bits) / 3, (1u64 << bits) - 1 + (1 << bits)]) {
            let code = encode(ByteRate(rate));
            assert!(code >= last && code < 1 << 31, "{rate}");
            last = code;
            let back = decode(code).0;
            assert!(back <= rate && rate - back <= rate >> 24, "{rate} {back}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let packet = FlowRate {
            response: true,
            init: false,
            fin: true,
            counts: true,
            odd: false,
            virtual_network: 9,
            granted: ByteRate(1 << 24),
            granted_by: NO_LINK,
            explicit: ByteRate(12_345),
            explicit_by: 77,
        };
        let mut sent = Packet::new(&packet.label(1, 2, 15, Bytes(32)));
        assert_eq!(sent.kind(), PacketKind::Control);
        assert_eq!(FlowRate::of(&sent.label()), packet);
        FlowRate::lower(&mut sent, ByteRate(99), 5);
        assert_eq!(FlowRate::of(&sent.label()), FlowRate { explicit: ByteRate(99), explicit_by: 5, ..packet });
        sent.corrupt();
        assert_eq!(sent.kind(), PacketKind::Corrupt);
    }
}
