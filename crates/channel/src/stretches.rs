//! What ranks compute between two calls, as the ranks keep it: `--compute sampled`.
//!
//! A table of a fixed size for each rank. It may be a file of its own that the simulator reads at the end of a run, or
//! has filled before (`--compute FILE`). Behind the tables the file has what the ranks tell each
//! other (`--compute pooled`).

use crate::MappingError;
use crate::map::{memory_file, seal};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The variable that names the file, if there is one.
pub const VARIABLE: &str = "NARROWS_STRETCHES";
/// What is kept of a kind of stretch.
pub const KEPT: usize = 28;
/// Kinds of stretches of a rank that are told apart; others are measured.
pub const KINDS: usize = 8192;
/// Bytes of the table of a rank, whole pages.
pub const BYTES: usize = KINDS * size_of::<Stretch>();
/// Places in which a kind may be, so that a table that is full costs little.
const PLACES: usize = 32;
/// Ranks whose medians are kept of a kind; of more, the last ones that came.
pub const TOLD: usize = 63;
/// Occurrences of a kind whose number is kept: ranks are seldom further apart.
const TAKEN: usize = 8;
/// Bits of a number, ps: 281 s.
const BITS: u32 = 48;
/// Bytes of what the ranks tell each other.
const POOL_BYTES: usize = KINDS * size_of::<Told>();

/// How a kind of stretch is known.
pub mod known {
    /// Not well enough: it takes what is measured.
    pub const NOT: u32 = 0;
    /// Its median is one.
    pub const ALIKE: u32 = 1;
    /// From a file: nothing is measured.
    pub const FIXED: u32 = 2;
}

/// One kind of stretch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Both ends; 0: the place is free.
    pub kind: u64,
    /// How many there were.
    pub seen: u32,
    /// See [`known`].
    pub known: u32,
    /// Its median, or what it takes, ps.
    pub median: u64,
    /// What all of them took, ps.
    pub took: u64,
    /// The last ones, ps.
    pub kept: [u64; KEPT],
}

/// The place of that kind, or one for it, in the table of a rank.
pub fn place(table: &mut [Stretch], kind: u64) -> Option<&mut Stretch> {
    let first = kind as usize % table.len();
    let mut places = (first..table.len()).chain(0..first).take(PLACES);
    let place = places.find(|&place| [0, kind].contains(&table[place].kind))?;
    table[place].kind = kind;
    Some(&mut table[place])
}

/// The medians that ranks have of one kind of stretch.
#[repr(C)]
#[derive(Debug)]
struct Told {
    /// As [`Stretch::kind`].
    kind: AtomicU64,
    /// ps, 0: none.
    medians: [AtomicU64; TOLD],
    /// What is taken for the last occurrences, ps, and above it the number of the occurrence (its last 16 bits); 0:
    /// none.
    taken: [AtomicU64; TAKEN],
}

/// What all ranks tell each other, in memory that they share.
#[derive(Debug)]
pub struct Pool(*mut Told);

// SAFETY: atomics only.
unsafe impl Send for Pool {}

impl Pool {
    /// That of a file of [`Tables::create`].
    ///
    /// # Errors
    /// It is not such a file.
    pub fn open(path: &Path) -> Result<Pool, MappingError> {
        let file = File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len() as usize;
        if bytes < POOL_BYTES || !(bytes - POOL_BYTES).is_multiple_of(BYTES) {
            return Err(MappingError::Foreign);
        }
        Ok(Pool(map(POOL_BYTES, libc::MAP_SHARED, file.as_raw_fd(), bytes - POOL_BYTES)?.cast()))
    }

    /// One of this process alone.
    ///
    /// # Errors
    /// The system does not give so much.
    pub fn private() -> Result<Pool, MappingError> {
        Ok(Pool(map(POOL_BYTES, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?.cast()))
    }

    /// A rank's median of a kind is `ps` now.
    pub fn tell(&self, kind: u64, rank: u32, ps: u64) {
        if let Some(told) = self.place(kind) {
            told.medians[rank as usize % TOLD].store(ps.max(1), Relaxed);
        }
    }

    /// The median of those, if there are two and more.
    pub fn median(&self, kind: u64) -> Option<u64> {
        let mut medians = [0; TOLD];
        let mut count = 0;
        for told in &self.place(kind)?.medians {
            medians[count] = told.load(Relaxed);
            count += usize::from(medians[count] != 0);
        }
        let medians = &mut medians[..count];
        medians.sort_unstable();
        // Of an even number the mean of both in the middle, so that no rank is always the one that is right.
        (count >= 2).then(|| medians[(count - 1) / 2].midpoint(medians[count / 2]))
    }

    /// What all ranks take for that occurrence of a kind: `ps` of the first one that asks. `None`: others are far
    /// ahead, or there is no room.
    pub fn first(&self, kind: u64, occurrence: u32, ps: impl FnOnce() -> u64) -> Option<u64> {
        let taken = &self.place(kind)?.taken[occurrence as usize % TAKEN];
        let mine = |word: u64| (word != 0 && (word >> BITS) as u16 == occurrence as u16).then_some(word & ((1 << BITS) - 1));
        let before = taken.load(Relaxed);
        if let Some(ps) = mine(before) {
            return Some(ps);
        }
        if before != 0 && (occurrence as u16).wrapping_sub((before >> BITS) as u16) > u16::MAX / 2 {
            return None;
        }
        let ps = Some(ps()).filter(|ps| (1..1 << BITS).contains(ps))?;
        let word = u64::from(occurrence as u16) << BITS | ps;
        // Another one may have been faster.
        taken.compare_exchange(before, word, Relaxed, Relaxed).map_or_else(mine, |_| Some(ps))
    }

    fn place(&self, kind: u64) -> Option<&Told> {
        // SAFETY: the mapping is as long as this; zeros, and any other bytes, are such records.
        let all = unsafe { std::slice::from_raw_parts(self.0, KINDS) };
        let first = kind as usize % KINDS;
        let mut places = all[first..].iter().chain(all).take(PLACES);
        places.find(|place| [0, kind].contains(&place.kind.compare_exchange(0, kind, Relaxed, Relaxed).unwrap_or_else(|is| is)))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no reference outlives this.
        unsafe { libc::munmap(self.0.cast(), POOL_BYTES) };
    }
}

/// A fresh mapping.
fn map(bytes: usize, flags: i32, fd: RawFd, at: usize) -> Result<*mut libc::c_void, MappingError> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the address is the kernel's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, at as libc::off_t) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error().into()) } else { Ok(base) }
}

/// Tables in memory.
#[derive(Debug)]
pub struct Tables {
    base: *mut Stretch,
    ranks: usize,
}

// SAFETY: whoever has it has the memory; other processes write plain numbers.
unsafe impl Send for Tables {}

impl Tables {
    /// Memory of this process alone, for one rank. Pages that are not used take none.
    ///
    /// # Errors
    /// The system does not give so much.
    pub fn private() -> Result<Tables, MappingError> {
        Tables::map(1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    }

    /// A file without a name for so many ranks.
    ///
    /// # Errors
    /// The system does not give so much.
    pub fn create(ranks: u32) -> Result<(Tables, OwnedFd), MappingError> {
        let fd = memory_file(c"narrows-stretches")?;
        let bytes = ranks as usize * BYTES + POOL_BYTES;
        File::from(fd.try_clone()?).set_len(bytes as u64).map_err(|error| MappingError::Create { bytes, error })?;
        seal(&fd)?;
        Ok((Tables::map(ranks as usize, libc::MAP_SHARED, fd.as_raw_fd(), 0)?, fd))
    }

    /// The table of a rank in that file.
    ///
    /// # Errors
    /// It is not such a file.
    pub fn open(path: &Path, rank: u32) -> Result<Tables, MappingError> {
        let file = File::options().read(true).write(true).open(path)?;
        let at = rank as usize * BYTES;
        if file.metadata()?.len() < (at + BYTES + POOL_BYTES) as u64 {
            return Err(MappingError::Foreign);
        }
        Tables::map(1, libc::MAP_SHARED, file.as_raw_fd(), at)
    }

    fn map(ranks: usize, flags: i32, fd: RawFd, at: usize) -> Result<Tables, MappingError> {
        Ok(Tables { base: map(ranks * BYTES, flags, fd, at)?.cast(), ranks })
    }

    /// That of a rank.
    ///
    /// # Panics
    /// There are not so many.
    pub fn of(&mut self, rank: usize) -> &mut [Stretch] {
        assert!(rank < self.ranks, "rank {rank} of {}", self.ranks);
        // SAFETY: inside the mapping, which is as long as this; zeros, and any other bytes, are such records. A rank
        // that is still alive when the simulator reads spoils numbers of its own only.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(rank * KINDS), KINDS) }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no reference outlives this.
        unsafe { libc::munmap(self.base.cast(), self.ranks * BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn a_rank_and_the_simulator_have_the_same_table() {
        let (mut all, fd) = Tables::create(3).unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mut mine = Tables::open(Path::new(&path), 2).unwrap();
        place(mine.of(0), 77).unwrap().median = 5;
        assert_eq!(place(all.of(2), 77).unwrap().median, 5);
        assert_eq!(place(all.of(1), 77).unwrap().median, 0);
        assert!(Tables::open(Path::new(&path), 3).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes, for so many kinds")]
    fn a_table_that_is_full_refuses() {
        let mut table = Tables::private().unwrap();
        let table = table.of(0);
        let taken = (1..=2 * KINDS as u64).filter(|&kind| place(table, kind).is_some()).count();
        assert_eq!(taken, KINDS);
        assert!(place(table, 5).is_some(), "known before");
    }

    #[test]
    fn tables_are_whole_pages() {
        assert_eq!((BYTES % 4096, POOL_BYTES % 4096), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn ranks_tell_each_other_their_medians_behind_their_tables() {
        let (_, fd) = Tables::create(3).unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let pools = [0, 1, 2].map(|_| Pool::open(Path::new(&path)).unwrap());
        pools[0].tell(77, 0, 10);
        assert_eq!(pools[1].median(77), None, "one is none");
        pools[1].tell(77, 1, 20);
        assert_eq!(pools[2].median(77), Some(15));
        pools[2].tell(77, 2, 60);
        pools[2].tell(78, 2, 5);
        assert_eq!(pools[0].median(77), Some(20));
        pools[2].tell(77, 2, 0);
        assert_eq!(pools[0].median(77), Some(10));
        assert!(Tables::open(Path::new(&path), 2).is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes, for so large a table")]
    fn all_take_what_the_first_one_says() {
        let pool = Pool::private().unwrap();
        assert_eq!(pool.first(77, 1, || 10), Some(10));
        assert_eq!(pool.first(77, 1, || 20), Some(10));
        assert_eq!(pool.first(78, 1, || 20), Some(20), "another kind");
        assert_eq!(pool.first(77, 2, || 30), Some(30), "the next one");
        assert_eq!(pool.first(77, 1, || 40), Some(10), "it is still known");
        assert_eq!(pool.first(77, 1 + TAKEN as u32, || 50), Some(50));
        assert_eq!(pool.first(77, 1, || 60), None, "others are too far ahead");
        let late = 1_000_000 * TAKEN as u32 + 1;
        let all = (1..late).step_by(TAKEN).all(|occurrence| pool.first(79, occurrence, || 7) == Some(7));
        assert!(all, "their numbers have 16 bits");
        assert_eq!((pool.first(80, 1, || 0), pool.first(80, 1, || 1 << BITS)), (None, None), "no numbers for it");
        assert_eq!(pool.first(80, 1, || 3), Some(3));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes, for so many kinds")]
    fn a_pool_that_is_full_refuses() {
        let pool = Pool::private().unwrap();
        let room = |kind: u64| {
            (0..2).for_each(|rank| pool.tell(kind, rank, kind));
            pool.median(kind).inspect(|&median| assert_eq!(median, kind)).is_some()
        };
        assert_eq!((1..=2 * KINDS as u64).filter(|&kind| room(kind)).count(), KINDS);
    }
}
