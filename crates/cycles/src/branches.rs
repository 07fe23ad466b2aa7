//! Which way a branch goes.

/// Counters of each table, and branches that the history has. Our own choice: as many as small cores have.
const ENTRIES: usize = 4096;
const HISTORY: u32 = 12;

/// A predictor of two tables of two-bit counters, by the branch alone and with the last branches, and a third one that
/// chooses between them (S. McFarling, "Combining branch predictors", 1993).
#[derive(Clone, Debug)]
pub struct Predictor {
    alone: Counters,
    with_history: Counters,
    /// Above the middle: the history is better.
    choice: Counters,
    history: usize,
}

#[derive(Clone, Debug)]
struct Counters(Box<[u8]>);

impl Counters {
    fn new(first: u8) -> Counters {
        Counters(vec![first; ENTRIES].into())
    }

    fn is_up(&self, at: usize) -> bool {
        self.0[at % ENTRIES] >= 2
    }

    fn counts(&mut self, at: usize, up: bool) {
        let counter = &mut self.0[at % ENTRIES];
        *counter = if up { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
    }
}

impl Default for Predictor {
    fn default() -> Predictor {
        // Weakly taken: most branches close loops.
        Predictor { alone: Counters::new(2), with_history: Counters::new(2), choice: Counters::new(1), history: 0 }
    }
}

impl Predictor {
    /// The branch at that address was `taken` or not: whether that was predicted.
    #[inline]
    pub fn predicts(&mut self, address: u64, taken: bool) -> bool {
        let branch = (address >> 1) as usize;
        let way = branch ^ self.history;
        let (alone, with_history) = (self.alone.is_up(branch) == taken, self.with_history.is_up(way) == taken);
        let right = if self.choice.is_up(branch) { with_history } else { alone };
        if alone != with_history {
            self.choice.counts(branch, with_history);
        }
        self.alone.counts(branch, taken);
        self.with_history.counts(way, taken);
        self.history = (self.history << 1 | usize::from(taken)) & ((1 << HISTORY) - 1);
        right
    }
}
