//! Real processes: starting the launcher, noticing deaths, leaving nothing behind.

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

/// A handle that tells whether a process still lives, safe against reuse of its number.
#[derive(Debug)]
pub struct Watched {
    pid: u32,
    fd: Option<OwnedFd>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The system does not say.
    Unknown,
}

impl Watched {
    /// Starts to watch `pid`.
    pub fn new(pid: u32) -> Self {
        // SAFETY: a plain system call; the descriptor is new and ours.
        let fd = unsafe {
            let raw = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
            (raw >= 0).then(|| OwnedFd::from_raw_fd(raw))
        };
        Watched { pid, fd }
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How many threads it has; 0 when that cannot be seen.
    pub fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, Iterator::count)
    }

    /// Whether one of its threads is running, or would be if it had a core.
    pub fn computes(&self) -> bool {
        !spin::running_threads(self.pid).is_empty()
    }

    /// How it ended, or `None` while it lives.
    pub fn ended(&self) -> Option<End> {
        let Some(fd) = &self.fd else { return Some(End::Unknown) };
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&mut poll, 1, 0) } <= 0 {
            return None;
        }
        Some(self.zombie_status().or_else(|| self.pidfd_status()).map_or(End::Unknown, decode))
    }

    /// While the process is a zombie, its status is the last field of /proc/PID/stat.
    fn zombie_status(&self) -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        (fields.first() == Some(&"Z")).then(|| fields.get(49)?.parse().ok()).flatten()
    }

    /// After it was reaped, Linux 6.15 and later tell through PIDFD_GET_INFO.
    fn pidfd_status(&self) -> Option<i32> {
        const PIDFD_INFO_EXIT: u64 = 1 << 3;
        #[repr(C)]
        #[derive(Default)]
        struct PidfdInfo {
            mask: u64,
            cgroup_id: u64,
            /// pid, tgid, ppid, then real, effective, saved and file-system user and group.
            ids: [u32; 11],
            exit_code: i32,
        }
        let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
        // _IOWR(0xFF, 11, struct pidfd_info)
        let request = (3u64 << 30) | ((size_of::<PidfdInfo>() as u64) << 16) | (0xff << 8) | 11;
        // SAFETY: `info` has the size that the request names.
        let result = unsafe { libc::ioctl(self.fd.as_ref()?.as_raw_fd(), request as _, &raw mut info) };
        (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
    }

    /// SIGKILL, if it still lives.
    pub fn kill(&self) {
        if let Some(fd) = &self.fd {
            // SAFETY: a plain system call on our descriptor.
            unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), libc::SIGKILL, std::ptr::null::<libc::siginfo_t>(), 0);
            }
        }
    }
}

fn decode(status: i32) -> End {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (_, Some(signal)) => End::Signal(signal),
        _ => End::Unknown,
    }
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

/// Ends the launcher and everything below it: first politely, after `patience` with SIGKILL.
/// Returns the launcher's exit code.
pub fn clean_up(child: &mut Child, patience: Duration) -> i32 {
    // SAFETY: the child was not waited for, so its number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let end = Instant::now() + patience;
    let mut code = None;
    while Instant::now() < end {
        if let Ok(Some(status)) = child.try_wait() {
            code = Some(shell_code(status));
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if code.is_none() {
        let _ = child.kill();
        code = child.wait().ok().map(shell_code);
    }
    kill_descendants();
    code.unwrap_or(1)
}

/// Takes the names of MPICH's start-up segments away (`/dev/shm/mpich_shm_*`) once the ranks have mapped them, so that
/// they cannot stay behind, whoever is killed. Each rank has a segment of its own; nobody opens it again.
pub fn unname_shared_memory(ranks: impl Iterator<Item = u32>) {
    let prefix = "/dev/shm/mpich_shm_";
    let any = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    if !any.into_iter().any(|entry| entry.path().to_string_lossy().starts_with(prefix)) {
        return;
    }
    for pid in ranks {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for path in maps.lines().filter_map(|line| line.find(prefix).map(|at| &line[at..])) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Bytes that are left in /dev/shm and its size, if less is left than the segment of a rank of MPICH has by default (1 MiB): a process
/// that writes to its memory there and finds no room is killed by SIGBUS.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_a_process_ended() {
        for (script, expected) in [("exit 7", End::Code(7)), ("kill -9 $$", End::Signal(9))] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("there is a shell");
            let watched = Watched::new(child.id());
            let end = loop {
                if let Some(end) = watched.ended() {
                    break end;
                }
                std::thread::yield_now();
            };
            assert_eq!(end, expected, "{script}");
            child.wait().expect("it was not waited for yet");
        }
    }
}
