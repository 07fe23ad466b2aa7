//! Alignment markers of the 20 PCS lanes (clause 82.2.7, table 82-2).

use crate::coding::{Block, CONTROL};

/// PCS lanes.
pub const PCS_LANES: usize = 20;

/// From one marker of a lane to the next, in blocks of the lane, itself included.
pub const DISTANCE: usize = 16_384;

/// M0, M1, M2 of each lane, M0 in the lowest octet.
const MARKERS: [u32; PCS_LANES] = {
    let printed = [
        0xc16821, 0x9d718e, 0x594be8, 0x4d957b, 0xf50709, 0xdd14c2, 0x9a4a26, 0x7b4566, 0xa02476, 0x68c9fb, 0xfd6c99, 0xb99155, 0x5cb9b2,
        0x1af8bd, 0x83c7ca, 0x3536cd, 0xc4314c, 0xadd6b7, 0x5f662a, 0xc0f0e5,
    ];
    let (mut markers, mut lane) = ([0; PCS_LANES], 0);
    while lane < PCS_LANES {
        let octets: u32 = printed[lane];
        markers[lane] = octets >> 16 | octets & 0xff00 | (octets & 0xff) << 16;
        lane += 1;
    }
    markers
};

/// The bits of a marker that do not depend on what was sent.
pub const FIXED: u64 = 0x00ff_ffff_00ff_ffff;

/// The payload of a lane's marker: M0 M1 M2 BIP3 M4 M5 M6 BIP7; the second half is the first one inverted.
pub const fn payload(lane: usize, bip: u8) -> u64 {
    let half = MARKERS[lane] | (bip as u32) << 24;
    half as u64 | (!half as u64) << 32
}

/// The marker as a block.
pub fn block(lane: usize, bip: u8) -> Block {
    Block { sync: CONTROL, payload: payload(lane, bip) }
}

/// BIP3 of a marker's payload.
pub fn bip(payload: u64) -> u8 {
    (payload >> 24) as u8
}

/// The lane whose marker this is.
pub fn lane(payload: u64) -> Option<usize> {
    // Cheap, and nearly always no.
    if (payload ^ !payload >> 32) & 0xff_ffff != 0 {
        return None;
    }
    MARKERS.iter().position(|&marker| u64::from(marker) == payload & 0xff_ffff)
}

/// Nibbles of the 12 fixed ones in which `payload` differs from the marker of `lane`.
pub fn wrong_nibbles(payload: u64, lane: usize) -> u32 {
    let mut bits = (payload ^ self::payload(lane, 0)) & FIXED;
    bits |= bits >> 2;
    bits |= bits >> 1;
    (bits & 0x1111_1111_1111_1111).count_ones()
}

/// Even parity over the blocks of a lane since its last marker, that one included (table 82-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bip {
    payloads: u64,
    headers: u8,
}

impl Bip {
    /// One more block.
    #[inline]
    pub fn add(&mut self, block: Block) {
        self.payloads ^= block.payload;
        self.headers ^= block.sync;
    }

    /// Bit i covers bits i, i + 8 ... of the payload; the two bits of the sync header are in bits 3 and 4.
    pub fn value(self) -> u8 {
        let mut folded = self.payloads;
        for half in [32, 16, 8] {
            folded ^= folded >> half;
        }
        folded as u8 ^ (self.headers & 3) << 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_those_of_table_82_2() {
        assert_eq!(payload(0, 0xab).to_le_bytes(), [0xc1, 0x68, 0x21, 0xab, 0x3e, 0x97, 0xde, 0x54]);
        assert_eq!(payload(19, 0).to_le_bytes(), [0xc0, 0xf0, 0xe5, 0x00, 0x3f, 0x0f, 0x1a, 0xff]);
        for number in 0..PCS_LANES {
            assert_eq!(lane(payload(number, 77)), Some(number));
            assert_eq!(bip(payload(number, 77)), 77);
            assert_eq!(wrong_nibbles(payload(number, 77), number), 0);
            assert_eq!(payload(number, 0).count_ones(), 32, "balanced");
        }
        assert_eq!(lane(payload(3, 0) ^ 1), None);
        assert_eq!(wrong_nibbles(payload(3, 0) ^ 0x1001_0000_0000_000f, 3), 2, "a wrong BIP does not count");
    }

    #[test]
    fn parity_covers_the_bits_of_table_82_4() {
        // Bits of the block from 0, the sync header first, as the table has them: the rows of BIP 0, 3, 4 and 7.
        for (bit, in_bip) in [(2, 0), (10, 0), (58, 0), (0, 3), (5, 3), (61, 3), (1, 4), (6, 4), (62, 4), (9, 7), (65, 7)] {
            let whole = 1u128 << bit;
            let mut bip = Bip::default();
            bip.add(Block { sync: (whole & 3) as u8, payload: (whole >> 2) as u64 });
            assert_eq!(bip.value(), 1 << in_bip, "bit {bit}");
        }
    }
}
