//! Caches of a core, and where its pages are in memory.

use crate::{Core, LEVELS};
use std::collections::BTreeMap;

/// Bytes of a page, as a power of two.
const PAGE: u32 = 12;
/// Pages that are found at once, without a look at all of them. Our own choice.
const NEAR: usize = 1024;

/// Where pages are in memory: one behind the other, in the order in which they are first used. So a cache sees the same
/// addresses wherever the host puts a program's memory.
#[derive(Clone, Debug)]
pub struct Pages {
    all: BTreeMap<u64, u64>,
    near: Box<[(u64, u64)]>,
    /// The stack: from there on, to there, and by how much it lies lower than it would.
    stack: (u64, u64, u64),
}

impl Default for Pages {
    fn default() -> Pages {
        Pages { all: BTreeMap::new(), near: vec![(u64::MAX, 0); NEAR].into(), stack: (0, 0, 0) }
    }
}

impl Pages {
    /// The stack pointer is `at` now. Above it lie names and variables of the process, which have another length in
    /// each run: what is on the stack counts from there.
    pub fn stack_is(&mut self, at: u64) {
        const BELOW: u64 = 8 << 20;
        const ABOVE: u64 = 1 << 20;
        self.stack = (at.saturating_sub(BELOW), at.saturating_add(ABOVE), at % (1 << PAGE));
    }

    /// The place in memory of an address.
    pub fn place(&mut self, address: u64) -> u64 {
        let (begin, end, lower) = self.stack;
        let address = if (begin..end).contains(&address) { address.wrapping_sub(lower) } else { address };
        let page = address >> PAGE;
        let near = &mut self.near[page as usize % NEAR];
        if near.0 != page {
            let next = self.all.len() as u64;
            *near = (page, *self.all.entry(page).or_insert(next));
        }
        near.1 << PAGE | address & ((1 << PAGE) - 1)
    }
}

/// Lines of a level: by set, the one that was used last comes first.
#[derive(Clone, Debug)]
struct Lines {
    /// Twice the number of a line, and 1 if it was written; `EMPTY`: none.
    lines: Box<[u64]>,
    ways: usize,
    sets: u64,
}

const EMPTY: u64 = u64::MAX;

impl Lines {
    fn new(bytes: u64, ways: u32, line: u32) -> Lines {
        let ways = ways.max(1);
        let sets = (bytes / (u64::from(ways) * u64::from(line.max(1)))).max(1);
        Lines { lines: vec![EMPTY; (sets * u64::from(ways)) as usize].into(), ways: ways as usize, sets }
    }

    fn set(&mut self, line: u64) -> &mut [u64] {
        let set = if self.sets.is_power_of_two() { line & (self.sets - 1) } else { line % self.sets };
        let first = set as usize * self.ways;
        &mut self.lines[first..first + self.ways]
    }

    /// Whether it has the line, which is then the last one used, and is `written` or not.
    fn has(&mut self, line: u64, written: bool) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|&there| there >> 1 == line) else { return false };
        let there = set[at] | u64::from(written);
        set.copy_within(..at, 1);
        set[0] = there;
        true
    }

    /// Takes a line in the place of the one that was used longest ago: that one, if it was written.
    fn take(&mut self, line: u64, written: bool) -> Option<u64> {
        let set = self.set(line);
        let last = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        set[0] = line << 1 | u64::from(written);
        (last != EMPTY && last & 1 == 1).then_some(last >> 1)
    }
}

/// What an access came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The level that had it, the first one is 0; [`LEVELS`]: memory.
    pub level: usize,
    /// Lines that went to or from memory.
    pub lines: u32,
}

/// The caches of a core: write-back, with the line that was used longest ago going first; a line that comes is put into
/// all levels.
#[derive(Clone, Debug)]
pub struct Caches {
    levels: Vec<Lines>,
    shift: u32,
    last: u64,
    last_written: bool,
}

impl Caches {
    /// Those of a core, empty. Levels without a size are left out.
    pub fn new(core: &Core) -> Caches {
        let there = core.levels.iter().filter(|level| level.bytes != 0);
        let levels = there.map(|level| Lines::new(level.bytes, level.ways, core.line)).collect();
        Caches { levels, shift: core.line.max(1).ilog2(), last: u64::MAX, last_written: false }
    }

    /// The line of an address.
    pub fn line(&self, address: u64) -> u64 {
        address >> self.shift
    }

    /// An access to a line.
    #[inline]
    pub fn access(&mut self, line: u64, written: bool) -> Access {
        if line == self.last && (!written || self.last_written) {
            return Access::default();
        }
        (self.last, self.last_written) = (line, written);
        if self.levels.first_mut().is_some_and(|first| first.has(line, written)) {
            return Access::default();
        }
        self.miss(line, written)
    }

    fn miss(&mut self, line: u64, written: bool) -> Access {
        let levels = &mut self.levels;
        let found = (1..levels.len()).find(|&level| levels[level].has(line, false));
        let mut access = Access { level: found.unwrap_or(LEVELS), lines: u32::from(found.is_none()) };
        for level in (0..found.unwrap_or(levels.len())).rev() {
            let mut out = levels[level].take(line, written && level == 0);
            // What was written goes outwards until a level has it.
            let mut outer = level + 1;
            while let Some(victim) = out.take() {
                match levels.get_mut(outer) {
                    Some(lines) => out = if lines.has(victim, true) { None } else { lines.take(victim, true) },
                    None => access.lines += 1,
                }
                outer += 1;
            }
        }
        access
    }
}
