//! One thread on its core.

use crate::{Block, Caches, Core, Count, End, LEVELS, Pages, Predictor, cycles_of};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Core and memory work side by side within so many units: a thousand cycles. Our own choice: as long as a core with a
/// large window, and its prefetchers, look ahead.
const ABREAST: u64 = 1000 * crate::UNIT;
/// A block whose cycles are not known yet.
const UNKNOWN: u64 = u64::MAX;

/// A block, and what it takes.
#[derive(Debug)]
pub struct Known {
    block: Block,
    units: AtomicU64,
}

impl Known {
    /// A block that was not executed yet.
    pub fn new(block: Block) -> Known {
        Known { block, units: AtomicU64::new(UNKNOWN) }
    }

    fn units(&self, core: &Core) -> u64 {
        match self.units.load(Relaxed) {
            UNKNOWN => {
                let units = cycles_of(core, &self.block.instructions);
                self.units.store(units, Relaxed);
                units
            }
            units => units,
        }
    }
}

/// A thread that is counted.
#[derive(Debug)]
pub struct Running {
    core: Core,
    count: Count,
    caches: Option<Caches>,
    pages: Pages,
    predictor: Predictor,
    /// Of the last block: how it ends, what is behind it.
    last: (End, u64),
    /// Units that a miss takes more than a hit, by the level that has it: where none is in flight beside it, and else.
    alone: [u64; LEVELS + 1],
    beside: [u64; LEVELS + 1],
    line_units: u64,
}

impl Running {
    /// One on that core, with caches that are empty.
    pub fn new(core: Core) -> Running {
        let first = u64::from(core.levels[0].latency) * crate::UNIT;
        let mut alone = [0; LEVELS + 1];
        let there: Vec<_> = core.levels.iter().filter(|level| level.bytes != 0).collect();
        for (more, level) in alone.iter_mut().zip(&there) {
            *more = (u64::from(level.latency) * crate::UNIT).saturating_sub(first);
        }
        alone[LEVELS] = core.units(core.memory_ps).saturating_sub(first);
        Running {
            caches: core.has_caches().then(|| Caches::new(&core)),
            count: Count::default(),
            pages: Pages::default(),
            predictor: Predictor::default(),
            last: (End::Through, 0),
            beside: alone.map(|units| units / u64::from(core.misses.max(1))),
            alone,
            line_units: core.line_units(),
            core,
        }
    }

    /// What is counted.
    pub fn count(&self) -> &Count {
        &self.count
    }

    /// Its stack pointer, see [`Pages::stack_is`].
    pub fn stack_is(&mut self, at: u64) {
        self.pages.stack_is(at);
    }

    /// It executes a block.
    #[inline]
    pub fn executes(&mut self, known: &Known) {
        if self.count.counts.load(Relaxed) == 0 {
            self.last.0 = End::Through;
            return;
        }
        let block = &known.block;
        let mut units = known.units(&self.core);
        let (end, behind) = self.last;
        let taken = match end {
            End::Through => false,
            End::Jump => true,
            End::Conditional => {
                let taken = block.begin != behind;
                if !self.predictor.predicts(behind, taken) {
                    units += u64::from(self.core.mispredict);
                }
                taken
            }
        };
        if taken {
            units += u64::from(self.core.taken);
        }
        self.last = (block.end, block.behind);
        Count::add(&self.count.busy, units);
        Count::add(&self.count.instructions, block.instructions.len() as u64);
    }

    /// It reads or writes so many bytes. `chases`: see [`crate::chases`].
    #[inline]
    pub fn accesses(&mut self, address: u64, bytes: u64, written: bool, chases: bool) {
        let Some(caches) = &mut self.caches else { return };
        if self.count.counts.load(Relaxed) == 0 {
            return;
        }
        let place = self.pages.place(address);
        let (first, last) = (caches.line(place), caches.line(place + bytes.max(1) - 1));
        for line in first..=last {
            let access = caches.access(line, written);
            if access.level != 0 {
                // A store is out of the way when it has begun.
                let more = if chases && !written { &self.alone } else { &self.beside };
                Count::add(&self.count.busy, more[access.level]);
                Count::add(&self.count.memory, u64::from(access.lines) * self.line_units);
                if self.count.busy.load(Relaxed).max(self.count.memory.load(Relaxed)) > ABREAST {
                    self.count.settle();
                }
            }
        }
    }
}
