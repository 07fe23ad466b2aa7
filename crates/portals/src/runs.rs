//! MPI datatypes as blocks of bytes, the way in which a process tells them to its NIC
//! ([`ContextPart`](crate::ContextPart)).

/// Blocks of one length, each as far behind the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Where the first block lies, behind the beginning of its element, bytes.
    pub place: i64,
    /// Bytes of a block.
    pub bytes: u64,
    /// Blocks.
    pub count: u64,
    /// From a block to the next one, bytes.
    pub stride: i64,
}

impl Run {
    /// Words of a run.
    pub const WORDS: usize = 4;

    /// From its words.
    pub fn from_words(words: &[u64; Run::WORDS]) -> Run {
        let [place, bytes, count, stride] = *words;
        Run { place: place as i64, bytes, count, stride: stride as i64 }
    }
}

/// A type as words: its extent in bytes, then place, bytes, count and stride of each run.
pub fn words(runs: &[Run], extent: i64) -> Vec<u64> {
    let runs = runs.iter().flat_map(|run| [run.place as u64, run.bytes, run.count, run.stride as u64]);
    std::iter::once(extent as u64).chain(runs).collect()
}

/// Blocks of a type, place and bytes in the order of the message, as runs.
pub fn of(blocks: impl IntoIterator<Item = (i64, u64)>) -> Vec<Run> {
    let mut merged: Vec<(i64, u64)> = Vec::new();
    for (place, bytes) in blocks {
        match merged.last_mut() {
            Some((last, length)) if last.wrapping_add_unsigned(*length) == place => *length += bytes,
            _ => merged.push((place, bytes)),
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (place, bytes) in merged {
        match runs.last_mut() {
            Some(run) if run.bytes == bytes && run.count == 1 => (run.count, run.stride) = (2, place.wrapping_sub(run.place)),
            Some(run) if run.bytes == bytes && run.place.wrapping_add(run.count as i64 * run.stride) == place => run.count += 1,
            _ => runs.push(Run { place, bytes, count: 1, stride: 0 }),
        }
    }
    runs
}
