//! How the bytes of a message lie in the memory of its receiver: an MPI datatype, as blocks of bytes.

use narrows_portals::runs::Run;

/// Elements of one type, one after the other: each has the same runs, in the order of the message's bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    runs: Vec<Run>,
    /// Bytes of an element that stand in front of each run.
    starts: Vec<u64>,
    /// Bytes of an element in a message.
    size: u64,
    /// From an element to the next one in memory, bytes.
    extent: u64,
    /// Lowest place of an element, and bytes from there to the end of its highest block.
    low: i64,
    span: u64,
}

/// Bytes of a message that lie in one piece in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Place behind the lowest one of the layout.
    pub place: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of its run in front of it.
    pub inside: u64,
}

/// Longest stretch of memory that a message may span, bytes, and most runs of an element: our own choice, so that a
/// message cannot exhaust the simulator's memory.
const SPAN_MAX: u64 = 64 << 20;
const RUNS_MAX: usize = 1 << 16;

impl Layout {
    /// Words of a layout at most.
    pub const WORDS_MAX: usize = 1 + Run::WORDS * RUNS_MAX;

    /// Of a type. None, if it means nothing, goes down from element to element, or is longer than what handlers are
    /// given.
    pub fn new(runs: Vec<Run>, extent: i64) -> Option<Layout> {
        let extent = u64::try_from(extent).ok().filter(|_| !runs.is_empty() && runs.len() <= RUNS_MAX)?;
        let (mut starts, mut size) = (Vec::with_capacity(runs.len()), 0u64);
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for run in &runs {
            if run.bytes == 0 || run.count == 0 || run.bytes > SPAN_MAX || run.count > SPAN_MAX {
                return None;
            }
            starts.push(size);
            size = size.checked_add(run.bytes * run.count).filter(|size| *size <= SPAN_MAX)?;
            let end = run.place.checked_add((run.count as i64 - 1).checked_mul(run.stride)?)?;
            for place in [run.place, end] {
                low = low.min(place);
                high = high.max(place.checked_add(run.bytes as i64)?);
            }
        }
        let span = high.checked_sub(low)? as u64;
        (span <= SPAN_MAX).then_some(Layout { runs, starts, size, extent, low, span })
    }

    /// From the words of a command, see [`narrows_portals::runs::words`].
    pub fn from_words(words: &[u64]) -> Option<Layout> {
        let (extent, runs) = words.split_first()?;
        let (runs, rest) = runs.as_chunks::<{ Run::WORDS }>();
        if rest.is_empty() { Layout::new(runs.iter().map(Run::from_words).collect(), *extent as i64) } else { None }
    }

    /// What a message of so many bytes spans in memory, from the lowest place on. None: more than handlers are given.
    pub fn span(&self, length: u64) -> Option<u64> {
        let last = length.div_ceil(self.size).saturating_sub(1);
        last.checked_mul(self.extent)?.checked_add(self.span).filter(|span| *span <= SPAN_MAX)
    }

    /// Bytes of the table that a handler reads: none for one run, which is a loop.
    pub fn table(&self) -> u64 {
        if self.runs.len() == 1 { 0 } else { 32 * self.runs.len() as u64 }
    }

    /// Runs of an element.
    pub fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    /// Where the byte `from` of a message lies, and up to `most` bytes of it.
    pub fn piece(&self, from: u64, most: u64) -> Piece {
        let (element, within) = (from / self.size, from % self.size);
        let at = self.starts.partition_point(|start| *start <= within) - 1;
        let run = self.runs[at];
        let inside = within - self.starts[at];
        let (block, skipped) = (inside / run.bytes, inside % run.bytes);
        let place = (run.place + block as i64 * run.stride - self.low) as u64 + skipped;
        Piece { place: element.saturating_mul(self.extent).saturating_add(place), bytes: (run.bytes - skipped).min(most), inside }
    }

    /// Pieces of the bytes of a message, with their places in it.
    pub fn pieces(&self, from: u64, bytes: u64) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let (mut at, end) = (from, from + bytes);
        std::iter::from_fn(move || {
            let piece = (at < end).then(|| self.piece(at, end - at))?;
            at += piece.bytes;
            Some((at - piece.bytes, piece))
        })
    }

    /// The message of so many bytes that lies in memory so: what a library packs.
    pub fn gather(&self, memory: &[u8], length: u64) -> Vec<u8> {
        let mut message = vec![0; length as usize];
        for (at, piece) in self.pieces(0, length) {
            let from = &memory[piece.place as usize..][..piece.bytes as usize];
            message[at as usize..][..piece.bytes as usize].copy_from_slice(from);
        }
        message
    }

    /// Puts bytes of a message to where they lie in memory.
    pub fn scatter(&self, from: u64, bytes: &[u8], memory: &mut [u8]) {
        for (at, piece) in self.pieces(from, bytes.len() as u64) {
            let part = &bytes[(at - from) as usize..][..piece.bytes as usize];
            memory[piece.place as usize..][..part.len()].copy_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_portals::runs;
    use proptest::prelude::*;

    #[test]
    fn a_vector_is_one_run() {
        let runs = runs::of((0..5).map(|block| (block * 32, 8)));
        assert_eq!(runs, [Run { place: 0, bytes: 8, count: 5, stride: 32 }]);
        let layout = Layout::new(runs, 160).unwrap();
        assert_eq!((layout.span(3 * 40), layout.table()), (Some(2 * 160 + 4 * 32 + 8), 0));
        assert_eq!(layout.piece(8 * 6 + 3, 100), Piece { place: 160 + 32 + 3, bytes: 5, inside: 8 + 3 });
    }

    #[test]
    fn what_is_too_wide_or_means_nothing_is_refused() {
        let run = Run { place: 0, bytes: 8, count: 2, stride: 32 };
        assert_eq!(Layout::new(vec![run], 1 << 25).unwrap().span(64), None);
        assert!(Layout::new(vec![run], -64).is_none());
        assert!(Layout::new(vec![Run { bytes: 0, ..run }], 64).is_none());
        assert!(Layout::new(vec![Run { stride: i64::MAX, count: 3, ..run }], 64).is_none());
        assert!(Layout::new(Vec::new(), 64).is_none());
        assert!(Layout::from_words(&[64, 1, 0, 8]).is_none());
    }

    proptest! {
        #[test]
        fn what_is_scattered_is_gathered(
            gaps in prop::collection::vec((0i64..9, 1u64..20), 1..12), up: bool, more in 0i64..9, count in 1u64..5, cut in 1usize..40,
        ) {
            let mut place = 0;
            let mut blocks: Vec<(i64, u64)> = gaps.iter().map(|&(gap, bytes)| {
                place += gap;
                let block = (place, bytes);
                place += bytes as i64;
                block
            }).collect();
            if !up {
                blocks.reverse();
            }
            let layout = Layout::new(runs::of(blocks), place + more).unwrap();
            let length = gaps.iter().map(|gap| gap.1).sum::<u64>() * count;
            let message: Vec<u8> = (0..length).map(|byte| byte as u8 | 1).collect();
            let mut memory = vec![0; layout.span(length).unwrap() as usize];
            for (part, bytes) in message.chunks(cut).enumerate() {
                layout.scatter((part * cut) as u64, bytes, &mut memory);
            }
            prop_assert_eq!(memory.iter().filter(|byte| **byte != 0).count() as u64, length, "no two bytes have one place");
            prop_assert_eq!(layout.gather(&memory, length), message);
        }

        #[test]
        fn no_words_are_too_strange(words in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..100], 0..14), from: u64, most in 1u64..1 << 20) {
            if let Some(layout) = Layout::from_words(&words) {
                let piece = layout.piece(from, most);
                prop_assert!(piece.bytes > 0 && piece.bytes <= most);
                let end = layout.span(from.saturating_add(piece.bytes));
                prop_assert!(end.is_none_or(|end| piece.place + piece.bytes <= end));
            }
        }
    }
}
