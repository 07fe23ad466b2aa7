//! What the preload library calls: marks of MPI calls, the simulated clock, the simulated host.

use crate::attach::{attached, session, try_session};
use crate::life;
use crate::rank::LONGEST_NAP_PER_RANK;
use crate::shared::{Shared, shared};
use narrows_channel::RankHeader;
use narrows_channel::layout::mode;
use narrows_mpicalls::{CALLS, Class};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The rank runs in simulated time: MPI_Init has returned, MPI_Finalize has not been called.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The last known simulated time, for threads that find the rank busy, ps.
static LAST_CLOCK: AtomicU64 = AtomicU64::new(0);

/// What to do at the end of MPI_Init, see [`before_start`].
static BEFORE_START: OnceLock<extern "C" fn()> = OnceLock::new();

/// `prepare` is called at the end of MPI_Init, before simulated time begins: what happened until then was ordered by the
/// host, and what it has left behind must not reach the results. Only the first caller is heard.
pub fn before_start(prepare: extern "C" fn()) {
    let _ = BEFORE_START.set(prepare);
}

struct Special {
    init: [Option<u32>; 3],
    finalize: [Option<u32>; 2],
    abort: Option<u32>,
    probe: [Option<u32>; 2],
    sync: Option<u32>,
    /// By index of the call: [`narrows_mpicalls::Call::agrees`].
    agrees: Vec<bool>,
}

fn special() -> &'static Special {
    static SPECIAL: OnceLock<Special> = OnceLock::new();
    SPECIAL.get_or_init(|| {
        let id = |name: &str| narrows_mpicalls::by_name(name);
        Special {
            init: [id("MPI_Init"), id("MPI_Init_thread"), id("MPI_Session_init")],
            finalize: [id("MPI_Finalize"), id("MPI_Session_finalize")],
            abort: id("MPI_Abort"),
            probe: [id("MPI_Probe"), id("MPI_Mprobe")],
            sync: id("MPI_Win_sync"),
            agrees: CALLS.iter().map(narrows_mpicalls::Call::agrees).collect(),
        }
    })
}

/// The program calls MPI function `id` (index into `narrows_mpicalls::CALLS`).
pub fn mpi_enter(id: u32, peer: i64, tag: i64) {
    let special = special();
    let Some(call) = CALLS.get(id as usize) else { return };
    if !attached() && !special.init.contains(&Some(id)) {
        return;
    }
    let Ok(mut rank) = session() else { return };
    rank.enter(id, call.class, peer, tag);
    if special.init.contains(&Some(id)) {
        rank.first_is(mode::MPI);
    } else if special.finalize.contains(&Some(id)) {
        ACTIVE.store(false, Ordering::Release);
    } else if special.abort == Some(id) {
        drop(rank);
        life::ends_job(tag as i32);
    } else if special.probe.contains(&Some(id)) {
        rank.probes(peer);
    } else if special.agrees[id as usize] {
        rank.agrees(call.class != Class::Blocking);
    }
}

/// The program calls MPI_Finalize, and [`mpi_enter`] has been told: waits for the other ranks. True when the MPI library should
/// look at what has come, and then ask again.
pub fn at_door() -> bool {
    try_session().is_some_and(|mut rank| rank.at_door())
}

/// Whether MPI function `id` is MPI_Finalize or its like.
pub fn finalizes(id: u32) -> bool {
    attached() && special().finalize.contains(&Some(id))
}

/// It returns.
pub fn mpi_leave(id: u32) {
    if !attached() {
        return;
    }
    let special = special();
    let init = special.init.contains(&Some(id));
    if init && let Some(prepare) = BEFORE_START.get() {
        prepare();
    }
    let Ok(mut rank) = session() else { return };
    if init {
        rank.start_together();
        ACTIVE.store(true, Ordering::Release);
    } else if special.finalize.contains(&Some(id)) {
        rank.finalized();
    } else if special.sync == Some(id) {
        rank.looks_at_memory();
    }
    rank.leave();
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
}

/// A Portals program runs in simulated time from now on, until it exits.
pub(crate) fn program_started() {
    ACTIVE.store(true, Ordering::Release);
    // SAFETY: the handler never unwinds.
    unsafe { on_exit(at_exit, std::ptr::null_mut()) };
}

unsafe extern "C" {
    /// As `atexit`, but the handler learns the status: on_exit(3).
    fn on_exit(handler: extern "C" fn(libc::c_int, *mut libc::c_void), argument: *mut libc::c_void) -> libc::c_int;
}

extern "C" fn at_exit(status: libc::c_int, _: *mut libc::c_void) {
    let _ = std::panic::catch_unwind(|| program_ends(status));
}

/// The process ends, by exit(3) or without its handlers: if it is a Portals program, its NIC serves the others until all ranks have come
/// here. One that has failed does not wait for them.
pub fn program_ends(status: i32) {
    if status & 0xff == 0
        && active()
        && let Ok(shared) = shared()
        && shared.rank.mode.load(Ordering::Relaxed) == mode::PORTALS
        && shared.rank.pid.load(Ordering::Relaxed) == std::process::id()
        && let Some(mut rank) = try_session()
    {
        ACTIVE.store(false, Ordering::Release);
        while rank.at_door() {}
        rank.finalized();
    }
}

/// A barrier of all ranks over their launcher begins.
pub fn barrier() {
    if active()
        && let Some(mut rank) = try_session()
    {
        rank.barrier();
        LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
    }
}

/// The rank runs in simulated time, and this process is the rank.
pub fn active() -> bool {
    ACTIVE.load(Ordering::Acquire) && attached()
}

/// Simulated time since the return of MPI_Init, ps; the reading itself costs a little.
pub fn clock() -> u64 {
    match try_session() {
        Some(mut rank) => {
            let now = rank.read_clock();
            LAST_CLOCK.store(now, Ordering::Relaxed);
            now
        }
        None => LAST_CLOCK.load(Ordering::Relaxed),
    }
}

/// The rank's clock as it is, for a recorder inside an MPI call: reading takes no simulated time.
pub fn instant() -> u64 {
    match try_session() {
        Some(rank) => rank.elapsed_ps(),
        None => LAST_CLOCK.load(Ordering::Relaxed),
    }
}

/// The program sleeps. False when another thread has the rank.
pub fn sleep(ps: u64) -> bool {
    try_session().map(|mut rank| rank.pause(ps)).is_some()
}

/// Other ranks of the node look into memory of this one from now on, or no longer do.
pub fn shares_memory(shares: bool) {
    if let Some(mut rank) = try_session() {
        rank.shares_memory(shares);
    }
}

/// The rank that this process belongs to, whether it is that or not: helpers that a rank starts (a shell, a wrapper) see the same host.
fn belongs_to() -> Option<(&'static Shared, &'static RankHeader)> {
    shared().ok().map(|shared| (shared, shared.rank))
}

/// Name of the simulated host; empty when this process belongs to no rank.
pub fn host() -> &'static [u8] {
    belongs_to().map_or(&[], |(_, rank)| &rank.host[..(rank.host_length as usize).min(rank.host.len())])
}

/// Cores of the simulated node; zero when this process belongs to no rank.
pub fn cores() -> u32 {
    belongs_to().map_or(0, |(shared, _)| shared.file.settings.cores)
}

/// The longest sleep between two looks of a rank that waits outside the simulated network; zero when this process belongs to no rank.
pub fn longest_nap() -> Duration {
    belongs_to().map_or(Duration::ZERO, |(shared, _)| LONGEST_NAP_PER_RANK * shared.file.ranks)
}

/// Index of the simulated node.
pub fn node() -> u32 {
    belongs_to().map_or(0, |(_, rank)| rank.node)
}

/// Global rank.
pub fn rank() -> u32 {
    belongs_to().map_or(0, |(shared, _)| shared.number)
}
