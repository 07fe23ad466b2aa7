//! The RS-FEC sublayer (clause 91): rows of blocks to codewords on four lanes, and back.

use crate::align::{Aligner, Marker};
use crate::bits::Bits;
use crate::coding::{Block, DATA, INVALID};
use crate::marker::{self, PCS_LANES};
use crate::pcs::{Distance, Row};
use crate::reed_solomon::{CODEWORD, MESSAGE, MESSAGE_BITS, SYMBOL_BITS, WORD_BITS, WORD_SYMBOLS, WORDS, correct, encode};
use crate::transcode;

/// FEC lanes.
pub const FEC_LANES: usize = 4;
/// Rows of a codeword.
pub const ROWS: usize = MESSAGE_BITS / transcode::BITS * transcode::BLOCKS / PCS_LANES;
/// Transcoded blocks of a codeword and of a row.
pub const TRANSCODED: usize = MESSAGE_BITS / transcode::BITS;
const TRANSCODED_ROW: usize = PCS_LANES / transcode::BLOCKS;
/// Symbols and bits of a codeword on one lane.
const LANE_SYMBOLS: usize = CODEWORD / FEC_LANES;
/// The bits of them.
pub const LANE_BITS: usize = LANE_SYMBOLS * SYMBOL_BITS;
/// Words of them.
const LANE_WORDS: usize = WORDS / FEC_LANES;
/// Markers that follow each other on a FEC lane.
const LANE_MARKERS: usize = PCS_LANES / FEC_LANES;
/// Bits of the markers on a FEC lane.
const MARKER_BITS: usize = 64 * LANE_MARKERS;
/// Behind the markers, alternately, so that there is no line in the spectrum (clause 91.5.2.6).
const PADS: [u64; 2] = [0b00101, 0b11010];

/// Every second symbol of a word, from the first one on, and from the second one on.
const FIRSTS: u64 = 0x3ff | 0x3ff << 20 | 0x3ff << 40;
const SECONDS: u64 = FIRSTS << SYMBOL_BITS;
/// Two symbols of a word.
const PAIRS: [u64; 3] = [0xf_ffff, 0xf_ffff << 20, 0xf_ffff << 40];

/// Four words of a codeword as a word of each lane: symbol i goes to lane i mod 4 (clause 91.5.2.8).
fn deal([w, x, y, z]: [u64; FEC_LANES]) -> [u64; FEC_LANES] {
    let [p, q, r] = PAIRS;
    // Pairs of symbols go to lanes 0 and 1, and to 2 and 3, in turn; here those for the first, third and fifth symbols
    // of the lanes, then those for the others.
    let lanes = |odd: u64, even: u64| [odd & FIRSTS | (even & FIRSTS) << SYMBOL_BITS, (odd & SECONDS) >> SYMBOL_BITS | even & SECONDS];
    let [a, b] = lanes(w & p | x & q | y & r, w >> 40 | (y & p | z & q) << 20);
    let [c, d] = lanes((w & q | x & r) >> 20 | (z & p) << 40, x & p | y & q | z & r);
    [a, b, c, d]
}

/// The inverse of [`deal`].
fn gather([a, b, c, d]: [u64; FEC_LANES]) -> [u64; FEC_LANES] {
    let [p, q, r] = PAIRS;
    let pairs =
        |first: u64, second: u64| (first & FIRSTS | (second & FIRSTS) << SYMBOL_BITS, (first & SECONDS) >> SYMBOL_BITS | second & SECONDS);
    let ((odd, even), (high_odd, high_even)) = (pairs(a, b), pairs(c, d));
    [
        odd & p | (high_odd & p) << 20 | (even & p) << 40,
        high_even & p | odd & q | (high_odd & q) << 20,
        (even & q) >> 20 | high_even & q | odd & r,
        (high_odd & r) >> 40 | (even & r) >> 20 | high_even & r,
    ]
}

/// The PCS lane whose fixed octets stand in the marker of this one: the first and the last of each FEC lane are the
/// same on all four (clause 91.5.2.6).
fn stands_for(lane: usize) -> usize {
    match lane {
        0..4 => 0,
        16.. => 16,
        other => other,
    }
}

/// Sends codewords.
#[derive(Clone, Debug)]
pub struct Sender {
    message: Bits,
    rows: usize,
    pad: usize,
}

impl Default for Sender {
    fn default() -> Sender {
        Sender { message: Bits::new(), rows: 0, pad: 0 }
    }
}

impl Sender {
    /// One more row; the first one, and then one at the beginning of a codeword, is of markers.
    ///
    /// # Panics
    /// Markers come within a codeword.
    pub fn send(&mut self, row: &Row, lanes: &mut [Bits; FEC_LANES]) {
        if row.markers {
            assert_eq!(self.rows, 0, "markers begin a codeword");
            self.map_markers(&row.blocks);
        } else {
            for blocks in row.blocks.chunks_exact(transcode::BLOCKS) {
                transcode::encode(blocks.try_into().expect("chunks of 4"), &mut self.message);
            }
        }
        self.rows += 1;
        if self.rows == ROWS {
            self.rows = 0;
            self.codeword(lanes);
        }
    }

    /// 20 markers and 5 bits in the place of 5 transcoded blocks (clause 91.5.2.6).
    fn map_markers(&mut self, blocks: &[Block; PCS_LANES]) {
        let lanes: [Bits; FEC_LANES] = std::array::from_fn(|lane| {
            let mut bits = Bits::new();
            for number in (lane..PCS_LANES).step_by(FEC_LANES) {
                bits.push(marker::payload(stands_for(number), marker::bip(blocks[number].payload)), 64);
            }
            bits
        });
        for symbol in 0..MARKER_BITS / SYMBOL_BITS {
            for lane in &lanes {
                self.message.push(lane.peek(SYMBOL_BITS * symbol, SYMBOL_BITS as u32), SYMBOL_BITS as u32);
            }
        }
        self.message.push(PADS[self.pad], 5);
        self.pad ^= 1;
    }

    fn codeword(&mut self, lanes: &mut [Bits; FEC_LANES]) {
        let mut codeword = [0; WORDS];
        self.message.peek_all(WORD_BITS as u32, &mut codeword[..MESSAGE.div_ceil(WORD_SYMBOLS)]);
        self.message.skip(MESSAGE_BITS);
        encode(&mut codeword);
        let mut dealt = [[0; LANE_WORDS]; FEC_LANES];
        for (index, &words) in codeword.as_chunks().0.iter().enumerate() {
            let words = deal(words);
            (0..FEC_LANES).for_each(|number| dealt[number][index] = words[number]);
        }
        for (lane, words) in lanes.iter_mut().zip(&dealt) {
            lane.push_all(words, WORD_BITS as u32);
        }
    }
}

/// The five markers of a FEC lane. The first says that it is one, the next three which.
#[derive(Clone, Copy, Debug)]
enum FecMarker {}

/// Of 12 nibbles so many may be wrong (clause 91.5.3.1).
const NIBBLES: u32 = 3;

impl Marker for FecMarker {
    const BITS: usize = MARKER_BITS;
    // Figure 91-8.
    const LOST: u32 = 5;

    fn lane(bits: &Bits, at: usize) -> Option<usize> {
        if marker::wrong_nibbles(bits.peek(at, 64), 0) > NIBBLES {
            return None;
        }
        let wrong = |lane: usize| (1..4).map(move |n| marker::wrong_nibbles(bits.peek(at + 64 * n, 64), FEC_LANES * n + lane));
        (0..FEC_LANES).filter(|&lane| wrong(lane).all(|wrong| wrong <= NIBBLES)).min_by_key(|&lane| wrong(lane).sum::<u32>())
    }
}

/// By so many bits one FEC lane may come later than another: 180 ns at 25.78125 Gb/s (clause 91.5.3.1, table 80-7).
pub const SKEW_MAX: usize = 4640;

/// Lost codewords in a row with which a receiver looks for its lanes anew (figure 91-9).
pub const LOST_IN_A_ROW: u32 = 3;

/// What a receiver has seen since its lanes were found the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Codewords.
    pub codewords: u64,
    /// Those beyond correction.
    pub lost: u64,
    /// Symbols that were corrected, per FEC lane.
    pub corrected: [u64; FEC_LANES],
    /// How often three codewords in a row were lost.
    pub three_lost: u64,
    /// How often the lanes were found.
    pub alignments: u64,
}

/// Receives codewords.
#[derive(Clone, Debug)]
pub struct Receiver {
    aligner: Aligner<FecMarker, FEC_LANES>,
    /// Codewords from one with markers to the next.
    period: usize,
    /// Codewords since the markers.
    since: usize,
    /// Goes on with its lanes whatever is lost.
    steadfast: bool,
    lost_in_a_row: u32,
    before: u64,
    /// Of the last codeword.
    message: Bits,
    /// What it has seen.
    pub counters: Counters,
}

impl Receiver {
    /// Nothing has come yet. After three lost codewords in a row it looks for its lanes anew, as figure 91-9 has it; a
    /// `steadfast` one keeps them.
    pub fn new(distance: Distance, steadfast: bool) -> Receiver {
        let period = distance.get() / ROWS;
        Receiver {
            aligner: Aligner::new(LANE_BITS * period, SKEW_MAX),
            period,
            since: 0,
            steadfast,
            lost_in_a_row: 0,
            before: 0,
            message: Bits::new(),
            counters: Counters::default(),
        }
    }

    /// Where what arrives on a lane of the wire goes to.
    pub fn wire(&mut self, lane: usize) -> &mut Bits {
        self.aligner.wire(lane)
    }

    /// The lane of the wire that carries each FEC lane, while all are side by side.
    pub fn order(&self) -> Option<[usize; FEC_LANES]> {
        self.aligner.order()
    }

    /// All rows that have come, from a row of markers on.
    pub fn receive(&mut self, mut out: impl FnMut(&Row)) {
        loop {
            if self.aligner.search() {
                (self.since, self.lost_in_a_row) = (0, 0);
                self.counters.alignments += 1;
            }
            if self.aligner.ready().is_none_or(|ready| ready < LANE_BITS) {
                return;
            }
            let markers = self.since == 0;
            let good = self.codeword(markers, &mut out);
            self.since = (self.since + 1) % self.period;
            self.aligner.take(LANE_BITS, markers);
            self.lost_in_a_row = if good { 0 } else { self.lost_in_a_row + 1 };
            if self.lost_in_a_row == LOST_IN_A_ROW {
                self.lost_in_a_row = 0;
                self.counters.three_lost += 1;
                if !self.steadfast {
                    self.aligner.restart();
                }
            }
        }
    }

    /// The next codeword; whether it could be corrected.
    fn codeword(&mut self, markers: bool, out: &mut impl FnMut(&Row)) -> bool {
        let mut codeword = [0; WORDS];
        let mut dealt = [[0; LANE_WORDS]; FEC_LANES];
        for (number, words) in dealt.iter_mut().enumerate() {
            self.aligner.lane(number).peek_all(WORD_BITS as u32, words);
        }
        for (index, words) in codeword.as_chunks_mut().0.iter_mut().enumerate() {
            *words = gather([dealt[0][index], dealt[1][index], dealt[2][index], dealt[3][index]]);
        }
        self.counters.codewords += 1;
        let good = match correct(&mut codeword) {
            Ok(corrected) => {
                corrected.places().iter().for_each(|place| self.counters.corrected[place % FEC_LANES] += 1);
                true
            }
            Err(_) => {
                self.counters.lost += 1;
                false
            }
        };
        self.message.skip(WORD_BITS * WORDS);
        let message = &mut self.message;
        message.push_all(&codeword, WORD_BITS as u32);
        let mut row = Row { blocks: [Block { sync: DATA, payload: 0 }; PCS_LANES], markers };
        if markers {
            row.blocks = unmap_markers(message);
            out(&row);
            row.markers = false;
        }
        for index in usize::from(markers) * TRANSCODED_ROW..TRANSCODED {
            let blocks = &mut row.blocks.as_chunks_mut().0[index % TRANSCODED_ROW];
            transcode::decode(message, transcode::BITS * index, &mut self.before, blocks);
            if !good {
                // So often that no frame has room between (clause 91.5.3.3).
                if index % 2 == 0 {
                    blocks[0].sync = INVALID;
                }
                if index + 1 == TRANSCODED {
                    blocks[transcode::BLOCKS - 1].sync = INVALID;
                }
            }
            if index % TRANSCODED_ROW == TRANSCODED_ROW - 1 {
                out(&row);
            }
        }
        good
    }
}

/// The markers with the octets of each lane again; the parities are those of the sender's PCS.
fn unmap_markers(message: &Bits) -> [Block; PCS_LANES] {
    std::array::from_fn(|number| {
        let (lane, place) = (number % FEC_LANES, number / FEC_LANES);
        // BIP3, bits 24 to 31 of the marker, over two symbols or more.
        let bip = (24..32).fold(0, |sum, bit| {
            let bit_of_lane = 64 * place + bit;
            let at = SYMBOL_BITS * (FEC_LANES * (bit_of_lane / SYMBOL_BITS) + lane) + bit_of_lane % SYMBOL_BITS;
            sum | (message.peek(at, 1) as u8) << (bit - 24)
        });
        marker::block(number, bip)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn symbols_go_to_the_lanes_in_turn(words in prop::array::uniform4(0u64..1 << WORD_BITS)) {
            let lanes = deal(words);
            let at = |words: &[u64; FEC_LANES], word: usize, slot: usize| words[word] >> (SYMBOL_BITS * slot) & 0x3ff;
            for place in 0..FEC_LANES * WORD_SYMBOLS {
                let symbol = at(&words, place / WORD_SYMBOLS, place % WORD_SYMBOLS);
                prop_assert_eq!(at(&lanes, place % FEC_LANES, place / FEC_LANES), symbol);
            }
            prop_assert_eq!(gather(lanes), words);
        }
    }

    #[test]
    fn a_codeword_is_four_rows() {
        assert_eq!((ROWS, TRANSCODED, TRANSCODED_ROW, LANE_BITS, MARKER_BITS), (4, 20, 5, 1320, 320));
        assert_eq!(Distance::STANDARD.get() / ROWS, 4096);
    }

    #[test]
    fn markers_begin_and_end_alike_on_all_lanes() {
        let blocks: [Block; PCS_LANES] = std::array::from_fn(|lane| marker::block(lane, lane as u8 * 11));
        let (mut sender, mut lanes) = (Sender::default(), std::array::from_fn(|_| Bits::new()));
        let data = Row { blocks: [Block { sync: DATA, payload: 0 }; PCS_LANES], markers: false };
        sender.send(&Row { blocks, markers: true }, &mut lanes);
        (0..3).for_each(|_| sender.send(&data, &mut lanes));
        for (number, lane) in lanes.iter().enumerate() {
            assert_eq!(lane.len(), LANE_BITS);
            let fixed = |n: usize| lane.peek(64 * n, 64) & marker::FIXED;
            assert_eq!(fixed(0), marker::payload(0, 0) & marker::FIXED);
            for n in 1..4 {
                assert_eq!(fixed(n), marker::payload(4 * n + number, 0) & marker::FIXED);
            }
            assert_eq!(fixed(4), marker::payload(16, 0) & marker::FIXED);
            assert_eq!(FecMarker::lane(lane, 0), Some(number));
            for n in 0..5 {
                assert_eq!(marker::bip(lane.peek(64 * n, 64)), (4 * n + number) as u8 * 11);
            }
        }
        // 5 pad bits are the lower half of the symbol behind 128 symbols: symbol 32 of lane 0.
        assert_eq!(lanes[0].peek(320, 5), PADS[0]);
    }
}
