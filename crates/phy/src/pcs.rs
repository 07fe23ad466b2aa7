//! The PCS lanes (clause 82.2.6 to 82.2.8, 82.2.12 to 82.2.14): blocks to 20 lanes in turn, a marker on each every
//! 16,384 blocks, and back.

use crate::align::{Aligner, Marker};
use crate::bits::Bits;
use crate::coding::{Block, CONTROL, DATA};
use crate::marker::{self, Bip, PCS_LANES};

/// A block of each lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// In the order of the lanes.
    pub blocks: [Block; PCS_LANES],
    /// They are the markers.
    pub markers: bool,
}

/// How many rows lie from one row of markers to the next: [`marker::DISTANCE`], or fewer, a multiple of 4, where a
/// simulation is to find its lanes sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distance(usize);

impl Distance {
    /// That of the standard.
    pub const STANDARD: Distance = Distance(marker::DISTANCE);

    /// So many rows.
    ///
    /// # Panics
    /// Fewer than 8, or not whole codewords of 4 rows.
    pub fn rows(rows: usize) -> Distance {
        assert!(rows >= 8 && rows.is_multiple_of(4), "{rows} rows are not two codewords or more");
        Distance(rows)
    }

    /// Rows.
    pub fn get(self) -> usize {
        self.0
    }
}

/// Deals blocks to the lanes.
#[derive(Clone, Debug)]
pub struct Distributor {
    distance: Distance,
    row: Row,
    /// Blocks in the row.
    filled: usize,
    /// Rows since the last markers, these included.
    rows: usize,
    parity: [Bip; PCS_LANES],
}

impl Distributor {
    /// Begins with markers.
    pub fn new(distance: Distance) -> Distributor {
        let row = Row { blocks: [Block { sync: DATA, payload: 0 }; PCS_LANES], markers: false };
        Distributor { distance, row, filled: 0, rows: distance.0, parity: [Bip::default(); PCS_LANES] }
    }

    /// Blocks that are in no row yet.
    pub fn waiting(&self) -> usize {
        self.filled
    }

    /// One more scrambled block; gives the rows that are complete.
    pub fn push(&mut self, block: Block, mut out: impl FnMut(&Row)) {
        if self.rows == self.distance.0 && self.filled == 0 {
            let markers = mark(&mut self.parity);
            self.rows = 1;
            out(&markers);
        }
        self.row.blocks[self.filled] = block;
        self.parity[self.filled].add(block);
        self.filled += 1;
        if self.filled == PCS_LANES {
            (self.filled, self.rows) = (0, self.rows + 1);
            out(&self.row);
        }
    }
}

/// The markers for the parities so far, which begin anew with them.
fn mark(parity: &mut [Bip; PCS_LANES]) -> Row {
    let blocks = std::array::from_fn(|lane| {
        let block = marker::block(lane, parity[lane].value());
        parity[lane] = Bip::default();
        parity[lane].add(block);
        block
    });
    Row { blocks, markers: true }
}

/// Writes a row onto the lanes.
pub fn send(row: &Row, lanes: &mut [Bits; PCS_LANES]) {
    for (lane, block) in lanes.iter_mut().zip(&row.blocks) {
        lane.push(block.sync.into(), 2);
        lane.push(block.payload, 64);
    }
}

/// Bits of a block on its lane.
const BLOCK: usize = 66;

/// A marker on a PCS lane. Where one begins a block begins: the search for sync headers (figure 82-12) finds no other
/// place, only sooner.
#[derive(Clone, Copy, Debug)]
enum PcsMarker {}

impl Marker for PcsMarker {
    const BITS: usize = BLOCK;
    // Figure 82-13.
    const LOST: u32 = 4;

    fn lane(bits: &Bits, at: usize) -> Option<usize> {
        if bits.peek(at, 2) != u64::from(CONTROL) {
            return None;
        }
        let payload = bits.peek(at + 2, 64);
        marker::lane(payload).filter(|&lane| marker::wrong_nibbles(payload, lane) == 0)
    }
}

/// By so many bits one PCS lane may come later than another: 180 ns at 5.15625 Gb/s (clause 82.2.13, table 82-7).
pub const SKEW_MAX: usize = 928;

/// Finds the lanes and puts them side by side.
#[derive(Clone, Debug)]
pub struct Collector {
    aligner: Aligner<PcsMarker, PCS_LANES>,
    distance: Distance,
    /// Rows since the markers.
    rows: usize,
    parity: [Bip; PCS_LANES],
    /// Whether the parities are those of a whole distance.
    whole: bool,
    /// Markers whose parity was not that of the blocks, per lane.
    pub bip_errors: [u64; PCS_LANES],
}

impl Collector {
    /// Nothing has come yet.
    pub fn new(distance: Distance) -> Collector {
        let aligner = Aligner::new(BLOCK * distance.0, SKEW_MAX);
        Collector { aligner, distance, rows: 0, parity: [Bip::default(); PCS_LANES], whole: false, bip_errors: [0; PCS_LANES] }
    }

    /// Where what arrives on a lane of the wire goes to.
    pub fn wire(&mut self, lane: usize) -> &mut Bits {
        self.aligner.wire(lane)
    }

    /// The lane of the wire that carries each PCS lane, while all are side by side.
    pub fn order(&self) -> Option<[usize; PCS_LANES]> {
        self.aligner.order()
    }

    /// All rows that have come, from a row of markers on.
    pub fn collect(&mut self, mut out: impl FnMut(&Row)) {
        loop {
            if self.aligner.search() {
                (self.rows, self.whole) = (0, false);
            }
            let Some(ready) = self.aligner.ready().filter(|&ready| ready >= BLOCK) else { return };
            for row in 0..ready / BLOCK {
                let at = BLOCK * row;
                let blocks: [Block; PCS_LANES] = std::array::from_fn(|number| {
                    let lane = self.aligner.lane(number);
                    Block { sync: lane.peek(at, 2) as u8, payload: lane.peek(at + 2, 64) }
                });
                let markers = self.rows == 0;
                if markers {
                    // The next look at the markers is where they are the first that is there.
                    if row > 0 {
                        self.aligner.take(at, false);
                        break;
                    }
                    self.check(&blocks);
                }
                self.parity.iter_mut().zip(&blocks).for_each(|(parity, &block)| parity.add(block));
                out(&Row { blocks, markers });
                self.rows = (self.rows + 1) % self.distance.0;
                if markers {
                    self.aligner.take(BLOCK, true);
                    break;
                }
                if row + 1 == ready / BLOCK {
                    self.aligner.take(at + BLOCK, false);
                }
            }
        }
    }

    fn check(&mut self, blocks: &[Block; PCS_LANES]) {
        for (number, block) in blocks.iter().enumerate() {
            if self.whole && marker::bip(block.payload) != self.parity[number].value() {
                self.bip_errors[number] += 1;
            }
            self.parity[number] = Bip::default();
        }
        self.whole = true;
    }
}

/// Gives the markers of received rows the parities of the blocks in front of them, as a device that sends them on does.
#[derive(Clone, Debug, Default)]
pub struct Remarker {
    parity: [Bip; PCS_LANES],
}

impl Remarker {
    /// The row to send on.
    pub fn remark(&mut self, row: &Row) -> Row {
        if row.markers {
            return mark(&mut self.parity);
        }
        self.parity.iter_mut().zip(&row.blocks).for_each(|(parity, &block)| parity.add(block));
        row.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_engine::stream;

    /// Rows of random blocks, and what the lanes carry.
    fn lanes(distance: Distance, blocks: usize, seed: u64) -> (Vec<Row>, [Bits; PCS_LANES]) {
        let (mut random, mut distributor, mut rows) = (stream(seed, "blocks", 0), Distributor::new(distance), Vec::new());
        let mut lanes: [Bits; PCS_LANES] = std::array::from_fn(|_| Bits::new());
        for _ in 0..blocks {
            let word = random.next_u64();
            let sync = if word & 3 == 0 { CONTROL } else { DATA };
            distributor.push(Block { sync, payload: random.next_u64() }, |row| {
                send(row, &mut lanes);
                rows.push(row.clone());
            });
        }
        (rows, lanes)
    }

    #[test]
    fn lanes_in_all_rotations_and_with_any_skew_come_back() {
        let (distance, mut random) = (Distance::rows(64), stream(1, "skew", 0));
        for rotation in 0..PCS_LANES {
            let (rows, lanes) = lanes(distance, 20 * 64 * 5, rotation as u64);
            let (mut collector, mut received) = (Collector::new(distance), Vec::new());
            let skews: [u64; PCS_LANES] = std::array::from_fn(|lane| match (lane + rotation) % PCS_LANES {
                0 => 0,
                1 => SKEW_MAX as u64,
                _ => random.below(SKEW_MAX as u64 + 1),
            });
            for (number, lane) in lanes.iter().enumerate() {
                let wire = collector.wire((number + rotation) % PCS_LANES);
                (0..skews[number]).for_each(|_| wire.push(random.next_u64(), 1));
                wire.append(lane);
            }
            collector.collect(|row| received.push(row.clone()));
            let order: [usize; PCS_LANES] = std::array::from_fn(|number| (number + rotation) % PCS_LANES);
            assert_eq!(collector.order(), Some(order));
            assert!(received.len() >= 3 * 64, "{} rows, rotation {rotation}, skews {skews:?}", received.len());
            let first = if received[..] == rows[rows.len() - received.len()..] { rows.len() - received.len() } else { 64 };
            assert!(received[..] == rows[first..first + received.len()], "rotation {rotation}, skews {skews:?}");
            assert_eq!(collector.bip_errors, [0; PCS_LANES]);
        }
    }

    #[test]
    fn a_flipped_bit_shows_in_the_parity_of_its_lane() {
        let distance = Distance::rows(64);
        let (_, lanes) = lanes(distance, 20 * 64 * 6, 3);
        let mut collector = Collector::new(distance);
        for (number, lane) in lanes.iter().enumerate() {
            collector.wire(number).append(lane);
        }
        collector.wire(7).flip(66 * (3 * 64 + 20) + 33);
        collector.collect(|_| {});
        assert_eq!(collector.bip_errors, std::array::from_fn(|lane| u64::from(lane == 7)));
    }

    #[test]
    fn lanes_that_are_too_far_apart_are_not_joined() {
        let distance = Distance::rows(64);
        let (_, lanes) = lanes(distance, 20 * 64 * 5, 3);
        let mut collector = Collector::new(distance);
        for (number, lane) in lanes.iter().enumerate() {
            (0..if number == 4 { SKEW_MAX + 1 } else { 0 }).for_each(|_| collector.wire(number).push(0, 1));
            collector.wire(number).append(lane);
        }
        collector.collect(|_| panic!("no row can be complete"));
        assert_eq!(collector.order(), None);
    }
}
