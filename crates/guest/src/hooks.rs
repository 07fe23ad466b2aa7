//! What the preload library calls: marks of MPI calls, the simulated clock, the simulated host.

use crate::attach::{Session, attached, open_from_environment, session, try_session};
use crate::output;
use crate::own_queue;
use crate::rank::LONGEST_NAP_PER_RANK;
use narrows_mpicalls::{CALLS, Class};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The rank runs in simulated time: MPI_Init has returned, MPI_Finalize has not been called.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The last known simulated time, for threads that find the rank busy, ps.
static LAST_CLOCK: AtomicU64 = AtomicU64::new(0);

/// Times that the program has initialised MPI and not finalised it: a world, sessions.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// The last of them is being finalised, or was: simulated time is over.
static OVER: AtomicBool = AtomicBool::new(false);

/// What to do at the end of MPI_Init, see [`before_start`].
static BEFORE_START: OnceLock<extern "C" fn()> = OnceLock::new();

/// `prepare` is called at the end of MPI_Init, before simulated time begins: what happened until then was ordered by the
/// host, and what it has left behind must not reach the results. Only the first caller is heard.
pub fn before_start(prepare: extern "C" fn()) {
    let _ = BEFORE_START.set(prepare);
}

/// What a process exits with whose program calls what is not simulated. Our choice.
const REFUSED: i32 = 1;
/// How long the others leave the one alone that says so. Our choice: launchers take 10 ms to hear of it.
const SPEAKER_FIRST_MS: u32 = 2000;

struct Special {
    init: [Option<u32>; 3],
    finalize: [Option<u32>; 2],
    abort: Option<u32>,
    probe: [Option<u32>; 2],
    sync: Option<u32>,
    /// By index of the call: [`narrows_mpicalls::Call::agrees`].
    agrees: Vec<bool>,
    /// By index of the call: [`narrows_mpicalls::Call::is_one_sided`].
    one_sided: Vec<bool>,
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
            one_sided: CALLS.iter().map(narrows_mpicalls::Call::is_one_sided).collect(),
        }
    })
}

/// The program calls MPI function `id` (index into `narrows_mpicalls::CALLS`).
pub fn mpi_enter(id: u32, peer: i64, tag: i64) {
    own_queue::call_begins();
    let special = special();
    let Some(call) = CALLS.get(id as usize) else { return };
    if !attached() && !special.init.contains(&Some(id)) {
        return;
    }
    let Ok(mut rank) = session() else { return };
    rank.enter(id, call.class, peer, tag);
    rank.may_talk_to_itself(special.one_sided[id as usize]);
    if call.adds_processes() {
        refuse(rank, call.name, "a run has the ranks that it began with");
    } else if OVER.load(Ordering::Acquire) && special.init.contains(&Some(id)) {
        refuse(rank, call.name, "simulated time ends with the last MPI_Finalize or MPI_Session_finalize, and does not begin again");
    } else if special.finalize.contains(&Some(id)) {
        if OPEN.fetch_sub(1, Ordering::AcqRel) == 1 {
            OVER.store(true, Ordering::Release);
            ACTIVE.store(false, Ordering::Release);
        }
    } else if special.abort == Some(id) {
        rank.aborts(tag);
        output::wait_until_read();
    } else if special.probe.contains(&Some(id)) {
        rank.probes(peer);
    } else if special.agrees[id as usize] {
        rank.agrees(call.class != Class::Blocking);
    }
}

/// Ends the process, and so the run: the program calls what is not simulated.
fn refuse(mut rank: Session, name: &str, why: &str) -> ! {
    if rank.refuses() {
        // At once: another rank may be ended by the launcher at any time.
        let text = format!("narrows: {name} is not simulated: {why} (docs/limits.md)\n");
        // SAFETY: a valid buffer; what cannot be written is lost.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        output::wait_until_read();
    } else {
        // The launcher ends the others when the first one exits.
        output::nap(SPEAKER_FIRST_MS);
    }
    rank.exits(REFUSED);
    // SAFETY: ends the process; handlers of the MPI library would wait for others.
    unsafe { libc::_exit(REFUSED) }
}

/// The program calls MPI_Finalize, and [`mpi_enter`] has been told: waits for the other ranks. True when the MPI library should
/// look at what has come, and then ask again.
pub fn at_door() -> bool {
    try_session().is_some_and(|mut rank| rank.at_door())
}

/// Whether MPI function `id` is the last MPI_Finalize or its like.
pub fn finalizes(id: u32) -> bool {
    attached() && OVER.load(Ordering::Acquire) && special().finalize.contains(&Some(id))
}

/// It returns.
pub fn mpi_leave(id: u32) {
    if !attached() {
        return;
    }
    let special = special();
    let init = special.init.contains(&Some(id)) && OPEN.fetch_add(1, Ordering::AcqRel) == 0;
    if init && let Some(prepare) = BEFORE_START.get() {
        prepare();
    }
    let Ok(mut rank) = session() else { return };
    if init {
        own_queue::find();
        rank.start_together();
        ACTIVE.store(true, Ordering::Release);
    } else if finalizes(id) {
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
    unsafe { libc::atexit(program_ends) };
}

/// Its NIC serves the others until all ranks have come here.
extern "C" fn program_ends() {
    let _ = std::panic::catch_unwind(|| {
        if let Some(mut rank) = try_session() {
            ACTIVE.store(false, Ordering::Release);
            while rank.at_door() {}
            rank.finalized();
        }
    });
}

/// A barrier of all ranks of a program without MPI over their launcher begins.
pub fn barrier() {
    if active()
        && let Some(rank) = try_session()
        && rank.portals_program()
    {
        meet(rank);
    }
}

fn meet(mut rank: Session) {
    rank.barrier();
    LAST_CLOCK.store(rank.elapsed_ps(), Ordering::Relaxed);
}

/// The MPI library makes a group of so many ranks over their launcher, in a call of the program.
pub fn group(processes: usize) {
    if processes > 1
        && active()
        && let Some(rank) = try_session()
    {
        if processes == rank.ranks() as usize {
            meet(rank);
        } else {
            let name = format!("a group of {processes} of the {} ranks that Open MPI makes over its launcher", rank.ranks());
            refuse(rank, &name, "MPI_Comm_create_from_group works with a group of all; MPI_Comm_create and MPI_Comm_split with any");
        }
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

/// The process says that it will exit with `status`.
pub fn exits(status: i32) {
    if let Some(mut rank) = try_session() {
        rank.exits(status);
    }
}

/// Who this process would be, read without becoming it: helpers that a rank starts (a shell, a
/// wrapper) inherit its environment and must not take its place.
struct Identity {
    host: Vec<u8>,
    cores: u32,
    node: u32,
    rank: u32,
    ranks: u32,
}

fn identity() -> Option<&'static Identity> {
    static IDENTITY: OnceLock<Option<Identity>> = OnceLock::new();
    IDENTITY
        .get_or_init(|| {
            let (mapping, rank) = open_from_environment().ok()?;
            let region = mapping.region(rank).ok()?;
            let header = region.header();
            Some(Identity {
                host: header.host[..(header.host_length as usize).min(header.host.len())].to_vec(),
                cores: region.file().settings.cores,
                node: header.node,
                rank,
                ranks: region.file().ranks,
            })
        })
        .as_ref()
}

/// Name of the simulated host; empty when this process belongs to no rank.
pub fn host() -> &'static [u8] {
    identity().map_or(&[], |identity| &identity.host)
}

/// Cores of the simulated node; zero when this process belongs to no rank.
pub fn cores() -> u32 {
    identity().map_or(0, |identity| identity.cores)
}

/// The longest sleep between two looks of a rank that waits outside the simulated network; zero when this process belongs to no rank.
pub fn longest_nap() -> Duration {
    identity().map_or(Duration::ZERO, |identity| LONGEST_NAP_PER_RANK * identity.ranks)
}

/// Index of the simulated node.
pub fn node() -> u32 {
    identity().map_or(0, |identity| identity.node)
}

/// Global rank.
pub fn rank() -> u32 {
    identity().map_or(0, |identity| identity.rank)
}
