//! The life of a process, as far as the simulator must know of it: that it has begun, that it is about to end and how,
//! in which order.
//!
//! Launchers kill all other ranks as soon as they hear of the first that has failed, so who was first cannot be seen
//! from who is dead. It is seen from the order in which the processes close a file, each its own (`NARROWS_ALIVE` is
//! their folder, which the simulator watches by inotify(7)). A process closes it before it asks its launcher to end the
//! job; of one that dies, the kernel does. What tells a launcher of a death is closed later: Linux closes the files of
//! a dying process from the highest number down, so ours has a high one. (With hydra, which kills when a rank's PMI
//! socket closes, that order was kept in 4,000 of 4,000 deaths; with a low number in 778 of 1,000.)

use crate::shared::{Shared, shared};
use narrows_channel::layout::{mode, reason, state};
use narrows_channel::{futex, handover};
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// The file that says that this process lives; -1: there is none.
static ALIVE: AtomicI32 = AtomicI32::new(-1);
/// The socket to its launcher, which MPICH's hydra names in the environment; -1: none.
static LAUNCHER: AtomicI32 = AtomicI32::new(-1);
/// Its number is at least one of these, if the process may have so many files: higher than those by which launchers
/// notice a death.
const HIGH: [libc::c_int; 3] = [900, 200, 100];
/// How often a process that waits for the simulator looks whether that still lives.
const LIFE_CHECK: Duration = Duration::from_secs(1);

/// This process begins. The first one that is started for a rank is what the launcher takes for the rank. Returns when
/// the simulator watches it.
pub fn born() {
    let Ok(shared) = shared() else { return };
    let (rank, own) = (shared.rank, std::process::id());
    if rank.pid.load(Acquire) == own {
        return replaced(shared);
    }
    match rank.root.compare_exchange(0, own, AcqRel, Acquire) {
        // It was there before, as another program.
        Err(root) if root == own => live(shared),
        Err(_) => {}
        Ok(_) => {
            live(shared);
            await_watch(shared);
        }
    }
}

/// The program that was a rank in this process is gone: another one has taken its place.
fn replaced(shared: &Shared) {
    live(shared);
    let rank = shared.rank;
    // Nothing was missing: what a program without MPI does after its last PtlFini is its own affair.
    if rank.mode.load(Relaxed) == mode::PORTALS && rank.initialised.load(Relaxed) == 0 {
        rank.finalized.store(1, Release);
    }
    rank.replaced.store(1, Release);
    if [state::RUNNING, state::APART].contains(&rank.state.load(Acquire)) {
        rank.deadline.store(u64::MAX, Relaxed);
        rank.reason.store(reason::FINALIZE, Relaxed);
        handover::give(&rank.state, &shared.file.running, &shared.file.bell, state::PARKED);
    } else {
        shared.ring();
    }
}

/// This process is the rank from now on. Returns when the simulator watches it.
pub(crate) fn becomes_rank(shared: &Shared) {
    let own = std::process::id();
    let root = shared.rank.root.compare_exchange(0, own, AcqRel, Acquire).unwrap_or_else(|root| root);
    if root != own || ALIVE.load(Relaxed) < 0 {
        live(shared);
    }
    shared.rank.pid.store(own, Release);
    if root != own || shared.rank.watched.load(Acquire) != own {
        await_watch(shared);
    }
}

/// Waits until the simulator notices the death of this process, unless it is gone itself.
fn await_watch(shared: &Shared) {
    shared.ring();
    loop {
        let watched = shared.rank.watched.load(Acquire);
        if watched == std::process::id() {
            return;
        }
        // SAFETY: signal 0 only asks whether the process exists.
        if futex::wait(&shared.rank.watched, watched, Some(LIFE_CHECK)) && unsafe { libc::kill(shared.file.simulator as i32, 0) } != 0 {
            return;
        }
    }
}

/// Opens the file that says that this process lives.
fn live(shared: &Shared) {
    let Some(folder) = std::env::var_os("NARROWS_ALIVE") else { return };
    let mut path = folder.into_vec();
    path.extend(format!("/{}-{}", shared.number, std::process::id()).bytes());
    let Ok(path) = CString::new(path) else { return };
    // SAFETY: plain system calls with a string that ends; errno of the program stays as it is.
    unsafe {
        let errno = *libc::__errno_location();
        let low = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CREAT | libc::O_CLOEXEC, 0o600);
        if low >= 0 {
            let high = HIGH.iter().map(|&least| libc::fcntl(low, libc::F_DUPFD_CLOEXEC, least)).find(|&file| file >= 0);
            if high.is_some() {
                libc::close(low);
            }
            ALIVE.store(high.unwrap_or(low), Release);
            let launcher = std::env::var("PMI_FD").ok().and_then(|file| file.parse().ok());
            LAUNCHER.store(launcher.unwrap_or(-1), Release);
            libc::pthread_atfork(None, None, Some(forked));
        }
        *libc::__errno_location() = errno;
    }
}

/// In the child of a fork, which must not seem to be its parent.
extern "C" fn forked() {
    close();
}

/// Closes the file, once.
fn close() {
    let file = ALIVE.swap(-1, AcqRel);
    if file >= 0 {
        // SAFETY: a number that `live` has got and nobody else uses.
        unsafe { libc::close(file) };
    }
}

/// The program is about to close these descriptors. If the one above, or the socket to its launcher, is among them it
/// closes all that it finds: the simulator may have to say so, because the launcher may kill the process for that. The
/// MPI library closes the socket itself, in a call.
pub fn closes(first: u32, last: u32) {
    let closes = |file: &AtomicI32| u32::try_from(file.load(Acquire)).is_ok_and(|file| (first..=last).contains(&file));
    if let Ok(shared) = shared()
        && (closes(&ALIVE) || closes(&LAUNCHER) && shared.rank.call.load(Acquire) == 0)
        // A child of vfork has its memory, and closes files of its own.
        && shared.rank.pid.load(Acquire) == std::process::id()
    {
        shared.rank.closes_all.store(1, Release);
    }
}

/// The rank is about to end the job with `code`, by MPI_Abort or by asking its launcher. Only the first one counts.
pub fn ends_job(code: i32) {
    let Ok(shared) = shared() else { return };
    if shared.rank.pid.load(Acquire) == std::process::id()
        && shared.rank.abort_code.compare_exchange(0, (code as u32).wrapping_add(1), AcqRel, Acquire).is_ok()
    {
        close();
        shared.ring();
        crate::output::wait_until_read();
    }
}

/// The process says that it will exit with `status`.
pub fn exits(status: i32) {
    let Ok(shared) = shared() else { return };
    let (own, said) = (std::process::id(), (status as u32 & 0xff) + 1);
    if shared.rank.pid.load(Acquire) == own {
        shared.rank.exit_status.store(said, Release);
    } else if shared.rank.root.load(Acquire) == own {
        shared.rank.root_status.store(said, Release);
    } else {
        return;
    }
    close();
}

/// The program asked for MPI_THREAD_MULTIPLE and was given less.
pub fn threads_refused() {
    if let Ok(shared) = shared() {
        shared.rank.threads_refused.store(1, Relaxed);
    }
}
