//! Finding the simulator, once per process.

use crate::life;
use crate::rank::Rank;
use crate::shared::{self, Shared};
use crate::threads;
use crate::turns::{self, Caller};
use narrows_channel::layout::Header;
use narrows_channel::{MappingError, RankHeader};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// Why a process is not a rank of a simulated machine.
#[derive(Debug)]
pub enum AttachError {
    /// `NARROWS_CHANNEL` is not set.
    NoChannel,
    /// The launcher says no rank (`OMPI_COMM_WORLD_RANK`, `PMI_RANK`, `PMIX_RANK`).
    NoRank,
    /// The channel cannot be used.
    Mapping(MappingError),
    /// Another process is this rank already.
    Taken(u32),
    /// A child of a rank, made by fork, is no rank.
    Forked,
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttachError::NoChannel => f.write_str("no simulator: start the program with `narrows run -n N -- PROGRAM`"),
            AttachError::NoRank => f.write_str("the launcher gave this process no rank (OMPI_COMM_WORLD_RANK or PMI_RANK)"),
            AttachError::Mapping(error) => error.fmt(f),
            AttachError::Taken(pid) => write!(f, "process {pid} already is this rank"),
            AttachError::Forked => f.write_str("a child process of a rank cannot use the rank's network"),
        }
    }
}

impl std::error::Error for AttachError {}

static RANK: OnceLock<Mutex<Rank>> = OnceLock::new();
/// Nobody, this process, or the parent of this process: asking the kernel for the process number
/// would cost a system call in every poll.
static OWNER: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = 0;
const SELF: u32 = 1;
const PARENT: u32 = 2;

/// Runs in the child of a fork.
extern "C" fn after_fork() {
    if OWNER.load(Ordering::Relaxed) == SELF {
        OWNER.store(PARENT, Ordering::Relaxed);
        threads::forked();
    }
}

/// Serialises attaching.
static ATTACH: Mutex<()> = Mutex::new(());

/// The rank of this process, locked. Not re-entrant: drop it before calling anything that may
/// come back here.
pub struct Session {
    rank: MutexGuard<'static, Rank>,
    /// The last of its fields to go.
    _wakes: WakesCallers,
}

/// Where one thread runs at a time: who waits for the rank is on the list.
struct WakesCallers;

impl Drop for WakesCallers {
    fn drop(&mut self) {
        if turns::some_call() {
            threads::wake(place_of_rank(), usize::MAX);
        }
    }
}

impl Session {
    fn new(mut rank: MutexGuard<'static, Rank>) -> Session {
        rank.take_region();
        rank.take_clock();
        rank.look_for_resumption();
        Session { rank, _wakes: WakesCallers }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.rank.leave_clock();
        self.rank.leave_region();
    }
}

impl Deref for Session {
    type Target = Rank;
    fn deref(&self) -> &Rank {
        &self.rank
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Rank {
        &mut self.rank
    }
}

/// This process is attached (and is not a child of one that is).
pub fn attached() -> bool {
    OWNER.load(Ordering::Acquire) == SELF
}

/// This process is the rank that the environment names.
static MINE: AtomicBool = AtomicBool::new(false);

/// The shared file and this rank's part of it, once attached.
pub(crate) fn shared() -> Option<(&'static Header, &'static RankHeader)> {
    mine().map(|shared| (shared.file, shared.rank))
}

fn mine() -> Option<&'static Shared> {
    shared::opened().filter(|_| MINE.load(Ordering::Acquire))
}

/// Cores of the processor that are this rank's: all ranks on it have the same share.
pub(crate) fn cores_of_rank() -> u64 {
    static CORES: OnceLock<u64> = OnceLock::new();
    let Some(Shared { mapping, file, rank, .. }) = mine() else { return u64::MAX };
    *CORES.get_or_init(|| {
        let color = rank.memory_color();
        let beside = |number: u32| mapping.region(number).is_ok_and(|region| region.header().memory_color() == color);
        let here = (0..file.ranks).filter(|&number| beside(number)).count() as u64;
        (u64::from(rank.processor.cores) / here.max(1)).max(1)
    })
}

/// Ends what any thread of this process waits for, see [`Rank::resume`]. For threads that do not hold the rank, and
/// cannot while another one waits.
pub fn interrupt() {
    if attached() {
        shared::interrupt();
    }
}

/// Who waits at that address waits until nobody holds the rank.
pub(crate) fn has_lock_at(address: usize) -> bool {
    threads::is_within(address, &RANK)
}

/// The rank of this process, if it is attached and nobody holds it. Never waits.
pub(crate) fn try_session() -> Option<Session> {
    if !attached() {
        return None;
    }
    RANK.get()?.try_lock().ok().map(Session::new)
}

/// Locks the rank of this process; the first call attaches it to the simulator.
///
/// # Errors
/// [`AttachError`] when there is no simulator, or this process has no place in it.
pub fn session() -> Result<Session, AttachError> {
    let owner = OWNER.load(Ordering::Acquire);
    if owner == PARENT {
        return Err(AttachError::Forked);
    }
    if owner == NOBODY {
        let _guard = ATTACH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if RANK.get().is_none() {
            let rank = attach()?;
            if RANK.set(Mutex::new(rank)).is_ok() {
                // SAFETY: the handler touches atomics and closes a file.
                unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
                OWNER.store(SELF, Ordering::Release);
            }
        }
    }
    let rank = RANK.get().ok_or(AttachError::NoChannel)?;
    // The lock is not a fair one: a thread that polls would have it again before one that waits for it has woken.
    turns::let_callers_in();
    loop {
        let seen = threads::wakes();
        match rank.try_lock() {
            Ok(rank) => return Ok(Session::new(rank)),
            Err(TryLockError::Poisoned(rank)) => return Ok(Session::new(rank.into_inner())),
            Err(TryLockError::WouldBlock) => {
                let _caller = Caller::new();
                if threads::take_turns() {
                    threads::block(Some(place_of_rank()), None, Some(seen));
                    continue;
                }
                let rank = threads::uncounted(|| rank.lock().unwrap_or_else(PoisonError::into_inner));
                return Ok(Session::new(rank));
            }
        }
    }
}

/// Where threads wait for the rank, if one of them runs at a time.
fn place_of_rank() -> usize {
    &raw const RANK as usize
}

fn attach() -> Result<Rank, AttachError> {
    let shared = shared::shared()?;
    let taken = shared.rank.pid.load(Ordering::Acquire);
    if taken != 0 {
        return Err(AttachError::Taken(taken));
    }
    life::becomes_rank(shared);
    MINE.store(true, Ordering::Release);
    Rank::new(shared.mapping, shared.number).map_err(AttachError::Mapping)
}
