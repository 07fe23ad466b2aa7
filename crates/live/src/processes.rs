//! Real processes: starting the launcher, leaving nothing behind.

use crate::spin;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn on_signal(signal: libc::c_int) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are noted (see [`signal`]) instead of ending the
/// process, and orphaned descendants become children of this process.
pub fn prepare() {
    // SAFETY: the handler only stores to an atomic; all pointers are valid for the calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        libc::sigemptyset(&mut action.sa_mask);
        for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaction(number, &action, std::ptr::null_mut());
        }
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// The signal that asked this process to end.
pub fn signal() -> Option<i32> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// Starts the launcher in a process group of its own, so that a Ctrl-C reaches us first; it dies
/// with us even if we are killed by SIGKILL.
///
/// # Errors
/// As [`Command::spawn`].
pub fn launch(mut command: Command) -> io::Result<Child> {
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
    command.spawn()
}

/// A descriptor of another process, as one of ours.
///
/// # Errors
/// As pidfd_open(2) and pidfd_getfd(2).
pub fn descriptor(pid: u32, file: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; what comes back is a descriptor that nobody else knows.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        let process = OwnedFd::from_raw_fd(process as i32);
        let found = libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), file, 0);
        if found < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(found as i32)) }
    }
}

/// Runs a command to its end and returns its exit code, as a shell shows it. A signal that asks this process to end
/// ends the command first, with all that it has started: what it leaves behind can still be kept.
///
/// # Errors
/// It cannot be started.
pub fn attend(command: Command) -> io::Result<i32> {
    prepare();
    let mut child = launch(command)?;
    // SAFETY: a plain system call; the child has not been waited for.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) } as i32;
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(shell_code(status));
        }
        if let Some(signal) = signal() {
            break Err(signal);
        }
        let mut ended = libc::pollfd { fd: handle, events: libc::POLLIN, revents: 0 };
        // The time is for a signal that came just before. SAFETY: one entry, and a kernel without these handles is one
        // that ignores the entry.
        unsafe { libc::poll(&raw mut ended, 1, 100) };
    };
    if handle >= 0 {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(handle) };
    }
    Ok(end.unwrap_or_else(|signal| {
        // A terminal has told the launcher too, and a signal to us alone has not.
        end_launcher(&mut child, Duration::from_millis(1500));
        kill_descendants();
        128 + signal
    }))
}

/// How many threads a process has; 0 when that cannot be seen.
pub fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Whether one of its threads is running, or would be if it had a core.
pub fn computes(pid: u32) -> bool {
    !spin::running_threads(pid).is_empty()
}

/// The exit code a shell would show.
pub fn shell_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The usual name of a signal.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV, segmentation fault",
        libc::SIGABRT => "SIGABRT, abort",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGBUS => "SIGBUS, bus error",
        libc::SIGFPE => "SIGFPE, arithmetic error",
        libc::SIGILL => "SIGILL, illegal instruction",
        libc::SIGINT => "SIGINT",
        libc::SIGPIPE => "SIGPIPE",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// All living descendants of this process.
pub fn descendants() -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        let mut fields = rest.split_whitespace();
        let (state, parent) = (fields.next(), fields.next().and_then(|field| field.parse::<u32>().ok()));
        if let (Some(state), Some(parent)) = (state, parent)
            && state != "Z"
        {
            parents.push((pid, parent));
        }
    }
    let mut found = BTreeSet::from([std::process::id()]);
    loop {
        let before = found.len();
        found.extend(parents.iter().filter(|(_, parent)| found.contains(parent)).map(|&(pid, _)| pid).collect::<Vec<_>>());
        if found.len() == before {
            break;
        }
    }
    found.remove(&std::process::id());
    found
}

/// Ends the launcher: first politely, after `patience` with SIGKILL. Returns its exit code.
pub fn end_launcher(child: &mut Child, patience: Duration) -> i32 {
    if let Ok(Some(status)) = child.try_wait() {
        return shell_code(status);
    }
    // SAFETY: the child was not waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let end = Instant::now() + patience;
    while Instant::now() < end {
        if let Ok(Some(status)) = child.try_wait() {
            return shell_code(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait().map_or(1, shell_code)
}

/// Bytes that are left in /dev/shm and its size, if less is left than the segment of a rank of MPICH has by default (1
/// MiB): a process that writes to its memory there and finds no room is killed by SIGBUS.
pub fn shared_memory_full() -> Option<(u64, u64)> {
    // SAFETY: a constant path; the record is filled when the result is 0.
    let data = unsafe {
        let mut data: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(c"/dev/shm".as_ptr(), &raw mut data) != 0 {
            return None;
        }
        data
    };
    let (left, whole) = (data.f_bavail.saturating_mul(data.f_frsize), data.f_blocks.saturating_mul(data.f_frsize));
    (left < 1 << 20).then_some((left, whole))
}

/// SIGKILL to everything below this process, and reaps it.
pub fn kill_descendants() {
    for _ in 0..50 {
        let left = descendants();
        for &pid in &left {
            // SAFETY: a plain system call.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        // SAFETY: reaps whatever became our child; a null status is allowed.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
        if left.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
