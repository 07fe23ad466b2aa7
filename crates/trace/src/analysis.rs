//! What a trace says about a program without a network: who sends how much to whom, in which sizes, when.

use crate::TraceError;
use crate::ideal::{self, Observer, Start};
use crate::operation::{Collective, Kind, Program};
use narrows_units::{Bytes, SimTime};
use std::collections::{BTreeMap, HashMap};

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// How many.
    pub count: u64,
    /// Their payload.
    pub bytes: u64,
}

impl Volume {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// One rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankUse {
    /// Messages sent.
    pub sent: Volume,
    /// Messages sent to it.
    pub received: Volume,
    /// Parts in collectives, with the bytes sent into them.
    pub collectives: Volume,
    /// Ranks that it sends to, and ranks that send to it.
    pub destinations: u32,
    /// ... and from.
    pub sources: u32,
    /// Computing.
    pub computing: SimTime,
    /// When it is done on an ideal machine. The rest is waiting for others: not the network's fault.
    pub finish: SimTime,
}

/// One collective operation of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CollectiveKey {
    /// Which.
    pub operation: Collective,
    /// Members of its communicator.
    pub size: u32,
    /// Bytes of a member's buffer: what it sends, or gets where it only gets.
    pub bytes: u64,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Messages that start in it.
    pub messages: Volume,
    /// Parts in collectives that start in it.
    pub collectives: Volume,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Per rank.
    pub ranks: Vec<RankUse>,
    /// Messages by size. Beyond [`MAX_SIZES`] different sizes the others are rounded down to three binary digits.
    pub sizes: BTreeMap<u64, u64>,
    /// Messages by source and destination; `None` if there were more than [`MAX_PAIRS`].
    pub pairs: Option<BTreeMap<(u32, u32), Volume>>,
    /// Messages between groups of ranks, row by row (a row is a source).
    pub matrix: Matrix,
    /// Parts in collectives.
    pub collectives: BTreeMap<CollectiveKey, u64>,
    /// Operations over time.
    pub intervals: Vec<Interval>,
    /// Length of an interval.
    pub interval: SimTime,
    /// On the ideal machine.
    pub outcome: ideal::Outcome,
}

/// A matrix of messages. Many ranks share a cell when there are more than [`MAX_CELLS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Rows and columns.
    pub cells: u32,
    /// Ranks.
    pub ranks: u32,
    /// `cells` squared.
    pub volumes: Vec<Volume>,
}

/// Different sizes that are counted exactly.
pub const MAX_SIZES: usize = 1 << 14;
/// Different pairs that are counted: 16 M, 640 MB.
pub const MAX_PAIRS: usize = 1 << 24;
/// Rows and columns of the matrix.
pub const MAX_CELLS: u32 = 128;
/// Intervals.
const MAX_INTERVALS: usize = 256;

impl Matrix {
    fn cell(&self, rank: u32) -> usize {
        (u64::from(rank) * u64::from(self.cells) / u64::from(self.ranks)) as usize
    }
}

impl Analysis {
    /// Runs the program on the ideal machine and counts.
    ///
    /// # Errors
    /// The program cannot be read.
    pub fn new(program: &mut dyn Program) -> Result<Analysis, TraceError> {
        let ranks = program.ranks();
        let cells = ranks.min(MAX_CELLS);
        let sizes = (0..program.communicators().count()).map(|number| program.communicators().size(number).unwrap_or(0)).collect();
        let mut count = Count {
            sizes_of: sizes,
            ranks: vec![RankUse::default(); ranks as usize],
            sizes: BTreeMap::new(),
            pairs: Some(HashMap::new()),
            matrix: Matrix { cells, ranks, volumes: vec![Volume::default(); (cells * cells) as usize] },
            collectives: BTreeMap::new(),
            intervals: Vec::new(),
            interval: SimTime::from_us(1),
        };
        let outcome = ideal::run(program, &mut count)?;
        let Count { mut ranks, sizes, pairs, matrix, collectives, intervals, interval, .. } = count;
        for (rank, finish) in ranks.iter_mut().zip(&outcome.finish) {
            rank.finish = *finish;
        }
        let pairs: Option<BTreeMap<(u32, u32), Volume>> = pairs.map(|pairs| pairs.into_iter().collect());
        for (source, destination) in pairs.iter().flat_map(BTreeMap::keys) {
            ranks[*source as usize].destinations += 1;
            ranks[*destination as usize].sources += 1;
        }
        Ok(Analysis { ranks, sizes, pairs, matrix, collectives, intervals, interval, outcome })
    }

    /// All messages.
    pub fn messages(&self) -> Volume {
        self.ranks.iter().fold(Volume::default(), |sum, rank| Volume {
            count: sum.count + rank.sent.count,
            bytes: sum.bytes.saturating_add(rank.sent.bytes),
        })
    }
}

struct Count {
    /// Members of each communicator.
    sizes_of: Vec<u32>,
    ranks: Vec<RankUse>,
    sizes: BTreeMap<u64, u64>,
    pairs: Option<HashMap<(u32, u32), Volume>>,
    matrix: Matrix,
    collectives: BTreeMap<CollectiveKey, u64>,
    intervals: Vec<Interval>,
    interval: SimTime,
}

impl Count {
    /// The interval of a time; they become longer when there would be too many.
    fn at(&mut self, time: SimTime) -> &mut Interval {
        let mut index = (time.0 / self.interval.0) as usize;
        while index >= MAX_INTERVALS {
            let sum = |a: Volume, b: Volume| Volume { count: a.count + b.count, bytes: a.bytes.saturating_add(b.bytes) };
            let join = |pair: &[Interval]| {
                let second = pair.get(1).copied().unwrap_or_default();
                Interval { messages: sum(pair[0].messages, second.messages), collectives: sum(pair[0].collectives, second.collectives) }
            };
            self.intervals = self.intervals.chunks(2).map(join).collect();
            self.interval = self.interval * 2;
            index = (time.0 / self.interval.0) as usize;
        }
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    fn size(&mut self, bytes: u64) {
        let known = self.sizes.len() < MAX_SIZES || self.sizes.contains_key(&bytes);
        let keep = bytes.checked_ilog2().map_or(0, |bits| bits.saturating_sub(2));
        *self.sizes.entry(if known { bytes } else { bytes >> keep << keep }).or_default() += 1;
    }
}

impl Observer for Count {
    fn start(&mut self, start: &Start<'_>) -> Result<(), TraceError> {
        let rank = start.rank as usize;
        self.ranks[rank].computing += start.operation.delay;
        match start.operation.kind {
            Kind::Compute { duration } => self.ranks[rank].computing += duration,
            Kind::Send { to, bytes: Bytes(bytes), .. } => {
                self.ranks[rank].sent.add(bytes);
                self.size(bytes);
                self.at(start.time).messages.add(bytes);
                if let Some(receiver) = self.ranks.get_mut(to as usize) {
                    receiver.received.add(bytes);
                    let place = self.matrix.cell(start.rank) * self.matrix.cells as usize + self.matrix.cell(to);
                    self.matrix.volumes[place].add(bytes);
                    if let Some(pairs) = &mut self.pairs {
                        pairs.entry((start.rank, to)).or_default().add(bytes);
                        if pairs.len() > MAX_PAIRS {
                            self.pairs = None;
                        }
                    }
                }
            }
            Kind::Collective(call) => {
                self.ranks[rank].collectives.add(call.send.0);
                self.at(start.time).collectives.add(call.send.0);
                let size = self.sizes_of.get(call.communicator as usize).copied().unwrap_or(0);
                // Totals of many parts are told apart from the parts: what a member that is not the root has.
                let bytes = match call.operation {
                    Collective::Scatter => call.receive.0,
                    Collective::Broadcast | Collective::Scatterv => call.send.max(call.receive).0,
                    _ => call.send.0,
                };
                *self.collectives.entry(CollectiveKey { operation: call.operation, size, bytes }).or_default() += 1;
            }
            Kind::Receive { .. } => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Generated, Parameters, Pattern};

    fn analysis(pattern: Pattern, ranks: u32) -> Analysis {
        let parameters = Parameters { ranks, steps: 5, bytes: None, cells: None, compute: Some(SimTime::from_us(100)) };
        Analysis::new(&mut Generated::new(pattern, parameters).unwrap()).unwrap()
    }

    /// 4 x 4 x 4 ranks: 6 neighbours of 64 KiB, five times.
    #[test]
    fn a_halo_has_closed_forms() {
        let analysis = analysis(Pattern::Halo3d, 64);
        let part = Volume { count: 30, bytes: 30 << 16 };
        let expected = RankUse {
            sent: part,
            received: part,
            collectives: Volume::default(),
            destinations: 6,
            sources: 6,
            computing: SimTime::from_us(500),
            finish: SimTime::from_us(500),
        };
        assert!(analysis.ranks.iter().all(|rank| *rank == expected), "{:?}", analysis.ranks[0]);
        assert_eq!(analysis.sizes, BTreeMap::from([(1 << 16, 64 * 30)]));
        assert_eq!(analysis.pairs.as_ref().unwrap().len(), 64 * 6);
        assert!(analysis.pairs.as_ref().unwrap().values().all(|pair| *pair == Volume { count: 5, bytes: 5 << 16 }));
        assert_eq!(analysis.messages(), Volume { count: 64 * 30, bytes: (64 * 30) << 16 });
        // Each step at once, at 0, 100, ... 400 us.
        let busy: Vec<u64> = analysis.intervals.iter().map(|interval| interval.messages.count).filter(|count| *count > 0).collect();
        assert_eq!(busy, [64 * 6; 5]);
    }

    #[test]
    fn many_ranks_share_cells() {
        let analysis = analysis(Pattern::Halo3d, 1000);
        assert_eq!(analysis.matrix.cells, MAX_CELLS);
        assert_eq!(analysis.matrix.volumes.iter().map(|cell| cell.count).sum::<u64>(), 1000 * 30);
    }

    #[test]
    fn collectives_by_size() {
        let analysis = analysis(Pattern::AllreduceLoop, 16);
        let key = CollectiveKey { operation: Collective::Allreduce, size: 16, bytes: 8 };
        assert_eq!(analysis.collectives, BTreeMap::from([(key, 80)]));
    }
}
