//! 256b/257b transcoding of scrambled blocks (clauses 91.5.2.5 and 91.5.3.5).

use crate::bits::Bits;
use crate::coding::{Block, CONTROL, DATA, INVALID, UPPER_NIBBLE, keystream};

/// Bits of a transcoded block.
pub const BITS: usize = 257;
/// Blocks of 66 bits in it.
pub const BLOCKS: usize = 4;

/// The five lowest bits are scrambled by the ones from 8 to 12: they are the only ones that were not scrambled yet.
fn whiten(low: u64) -> u64 {
    low ^ low >> 8 & 0x1f
}

/// Appends four blocks as one.
pub fn encode(blocks: &[Block; BLOCKS], out: &mut Bits) {
    let valid = blocks.iter().all(|block| matches!(block.sync, DATA | CONTROL));
    let p = blocks.map(|block| block.payload);
    if valid && blocks.iter().all(|block| block.sync == DATA) {
        out.push(whiten(1 | p[0] << 1), 64);
        for pair in p.windows(2) {
            out.push(pair[0] >> 63 | pair[1] << 1, 64);
        }
        out.push(p[3] >> 63, 1);
        return;
    }
    // The first bit is 0, then a bit per block: whether it is data. All ones: a sync header was wrong.
    let (flags, first) = if valid {
        let flags = (0..BLOCKS).filter(|&j| blocks[j].sync == DATA).fold(0, |sum, j| sum | 1u64 << (j + 1));
        (flags, blocks.iter().position(|block| block.sync == CONTROL).unwrap_or(0))
    } else {
        (0b11110, 0)
    };
    // The upper half of the first control block's type is left out.
    let kept = p[first] & 0xf | p[first] >> 8 << 4;
    let head = if first == 0 { kept } else { p[0] };
    out.push(whiten(flags | head << 5), 5);
    for (j, &payload) in p.iter().enumerate() {
        if j == first { out.push(kept, 60) } else { out.push(payload, 64) }
    }
}

/// Four blocks from the bits at `at`. `before` is the payload of the block before, by which the missing half of a block
/// type was scrambled; it becomes that of the last one here.
pub fn decode(bits: &Bits, at: usize, before: &mut u64, blocks: &mut [Block; BLOCKS]) {
    let low = whiten(bits.peek(at, 64));
    if low & 1 == 1 {
        for (j, block) in blocks.iter_mut().enumerate() {
            (block.sync, block.payload) = (DATA, bits.peek(at + 1 + 64 * j, 64));
        }
        // Three of these bits are among the whitened ones.
        blocks[0].payload = blocks[0].payload & !0xf | low >> 1 & 0xf;
    } else {
        let flags = low >> 1 & 0xf;
        let first = (flags.trailing_ones() as usize) % BLOCKS;
        let mut place = at + 5;
        for j in 0..BLOCKS {
            let sync = match flags {
                0xf => INVALID,
                _ if flags >> j & 1 == 1 => DATA,
                _ => CONTROL,
            };
            let payload = if j == first {
                let kept = bits.peek(place, 60);
                let ahead = keystream(if j == 0 { *before } else { blocks[j - 1].payload });
                let lower = (kept ^ ahead) & 0xf;
                let upper = u64::from(UPPER_NIBBLE[lower as usize]) ^ ahead >> 4 & 0xf;
                place += 60;
                kept & 0xf | upper << 4 | kept >> 4 << 8
            } else {
                place += 64;
                bits.peek(place - 64, 64)
            };
            (blocks[j].sync, blocks[j].payload) = (sync, payload);
        }
    }
    *before = blocks[BLOCKS - 1].payload;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::Scrambler;
    use proptest::prelude::*;

    fn decoded(bits: &Bits, at: usize, before: &mut u64) -> [Block; BLOCKS] {
        let mut blocks = [Block { sync: INVALID, payload: 0 }; BLOCKS];
        decode(bits, at, before, &mut blocks);
        blocks
    }

    const KINDS: [u8; 15] = [0x1e, 0x2d, 0x33, 0x4b, 0x55, 0x66, 0x78, 0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];

    proptest! {
        #[test]
        fn blocks_come_back_with_the_half_that_was_left_out(plain in prop::collection::vec((any::<u64>(), 0usize..30), 4..80)) {
            let (mut scrambler, mut bits) = (Scrambler::default(), Bits::new());
            let blocks: Vec<Block> = plain.iter().map(|&(payload, kind)| match KINDS.get(kind) {
                Some(&kind) => Block { sync: CONTROL, payload: scrambler.scramble(payload & !0xff | u64::from(kind)) },
                None => Block { sync: DATA, payload: scrambler.scramble(payload) },
            }).collect();
            let groups: Vec<[Block; 4]> = blocks.chunks_exact(4).map(|group| group.try_into().unwrap()).collect();
            groups.iter().for_each(|group| encode(group, &mut bits));
            prop_assert_eq!(bits.len(), 257 * groups.len());
            let mut before = u64::MAX;
            for (index, group) in groups.iter().enumerate() {
                prop_assert_eq!(&decoded(&bits, 257 * index, &mut before), group);
            }
        }

        #[test]
        fn any_bits_are_blocks(words in prop::array::uniform5(any::<u64>()), mut before in any::<u64>()) {
            let mut bits = Bits::new();
            words.iter().for_each(|&word| bits.push(word, 64));
            decoded(&bits, 0, &mut before);
        }
    }

    #[test]
    fn bits_stand_where_clause_91_has_them() {
        let data = Block { sync: DATA, payload: 0 };
        let control = |payload| Block { sync: CONTROL, payload };
        let bits = |blocks: [Block; 4]| {
            let mut bits = Bits::new();
            encode(&blocks, &mut bits);
            bits
        };
        // All data.
        let all = bits([data; 4]);
        assert_eq!((all.peek(0, 64), all.peek(64, 64), all.peek(256, 1)), (1, 0, 0));
        // Control in the third: flags of the others, its low nibble behind two payloads, then the rest.
        let third = bits([data, data, control(0xabcd_ef01_2345_6789), data]);
        assert_eq!(third.peek(0, 5), 0b10110);
        assert_eq!(third.peek(5 + 128, 60), 0xabc_def0_1234_5679);
        // The first five bits are whitened by bits 8 to 12, which are bits 3 to 7 of what follows the flags.
        let first = bits([control(0xff00), data, data, data]);
        assert_eq!(first.peek(5, 60), 0xff0);
        assert_eq!(first.peek(0, 5), 0b11100 ^ (0xff0 >> 3 & 0x1f));
        // A wrong sync header is told on.
        let bad = bits([data, data, Block { sync: 0, payload: 5 }, data]);
        assert_eq!(bad.peek(0, 5), 0b11110);
        assert_eq!(decoded(&bad, 0, &mut 0).map(|block| block.sync), [INVALID; 4]);
    }
}
