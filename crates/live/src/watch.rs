//! Which of the processes of a run have ended, how, and in which order they began to.
//!
//! A launcher kills the other ranks within microseconds of the first death, so the order is not that in which anybody
//! looks. Each process has a file open that it closes when it begins to end (`narrows_guest::life`), and inotify(7)
//! tells of these in their order. That a process has ended, and how, tells its pidfd; a thread waits for that, because
//! on Linux before 6.15 the status can only be read until the launcher has taken it.

use narrows_channel::handover;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

#[derive(Debug, Default)]
struct Process {
    fd: Option<OwnedFd>,
    end: Option<End>,
    /// Its place among all that have begun to end.
    order: Option<u64>,
}

#[derive(Debug, Default)]
struct Processes {
    by_pid: BTreeMap<u32, Process>,
    next: u64,
}

/// All processes of a run that count as ranks, or as what the launcher takes for ranks.
#[derive(Debug)]
pub struct Watch {
    processes: Mutex<Processes>,
    epoll: Option<OwnedFd>,
    /// Tells of the files in the folder of the living.
    files: Option<OwnedFd>,
    ends: AtomicU64,
    stopped: AtomicBool,
}

fn owned(raw: RawFd) -> Option<OwnedFd> {
    // SAFETY: a descriptor that a system call has just made for us, unless it is negative.
    (raw >= 0).then(|| unsafe { OwnedFd::from_raw_fd(raw) })
}

impl Watch {
    /// `alive` is the folder in which each process has a file open that is named after it: `RANK-PID`. Without it, or
    /// where inotify(7) is used up, the order is that of the pidfds: right but for launchers that hear of a death
    /// before the kernel is done with it.
    pub fn new(alive: Option<&Path>) -> Watch {
        // SAFETY: plain system calls with a string that ends.
        unsafe {
            let files = alive.and_then(|alive| {
                let files = owned(libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC))?;
                let path = CString::new(alive.as_os_str().as_bytes()).ok()?;
                (libc::inotify_add_watch(files.as_raw_fd(), path.as_ptr(), libc::IN_OPEN | libc::IN_CLOSE) >= 0).then_some(files)
            });
            Watch {
                processes: Mutex::default(),
                epoll: owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)),
                files,
                ends: AtomicU64::new(0),
                stopped: AtomicBool::new(false),
            }
        }
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the death of `pid` is noticed.
    pub fn add(&self, pid: u32) {
        let mut processes = self.processes();
        if processes.by_pid.get(&pid).is_some_and(|process| process.fd.is_some() || process.end.is_some()) {
            return;
        }
        // SAFETY: a plain system call.
        let fd = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as RawFd);
        let Some(fd) = fd else {
            // It is gone already.
            let process = processes.by_pid.entry(pid).or_default();
            process.end = Some(End::Unknown);
            self.ends.fetch_add(1, Ordering::Release);
            return;
        };
        if let Some(epoll) = &self.epoll {
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32, u64: u64::from(pid) };
            // SAFETY: both descriptors are open, the record is valid.
            unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        }
        processes.by_pid.entry(pid).or_default().fd = Some(fd);
    }

    /// Looks for deaths until [`Watch::stop`], and rings `bell` at each, and every so often.
    pub fn serve(&self, bell: &AtomicU32, every: Duration) {
        while !self.stopped.load(Ordering::Acquire) {
            self.look(every);
            handover::ring(bell);
        }
    }

    /// [`Watch::serve`] ends.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Takes note of all deaths until now; waits for one at most so long.
    pub fn look(&self, patience: Duration) {
        const MOST: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let mut wait = patience.as_millis() as libc::c_int;
        loop {
            let Some(epoll) = &self.epoll else { return std::thread::sleep(patience) };
            // SAFETY: room for so many records.
            let found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), MOST as libc::c_int, wait) };
            let mut processes = self.processes();
            // A process closes its file before it is dead: what is read now has all that belongs to the deaths above.
            self.read_files(&mut processes);
            for event in &events[..usize::try_from(found).unwrap_or(0)] {
                let pid = event.u64 as u32;
                let next = processes.next;
                let Some(process) = processes.by_pid.get_mut(&pid) else { continue };
                let fd = process.fd.as_ref().map(AsRawFd::as_raw_fd);
                process.end = Some(zombie_status(pid).or_else(|| pidfd_status(fd?)).map_or(End::Unknown, decode));
                if process.order.is_none() {
                    process.order = Some(next);
                    processes.next += 1;
                }
                self.ends.fetch_add(1, Ordering::Release);
            }
            if found < MOST as libc::c_int {
                return;
            }
            wait = 0;
        }
    }

    fn read_files(&self, processes: &mut Processes) {
        let Some(files) = &self.files else { return };
        // Of records of inotify(7), each with a name of at most 255 bytes.
        let mut buffer = [0u64; 512];
        loop {
            // SAFETY: room for so many bytes.
            let got = unsafe { libc::read(files.as_raw_fd(), buffer.as_mut_ptr().cast(), size_of_val(&buffer)) };
            let Ok(got) = usize::try_from(got) else { return };
            if got == 0 {
                return;
            }
            // SAFETY: so many bytes were written there.
            let mut rest = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), got) };
            // struct inotify_event: wd, mask, cookie, len; then the name.
            while let Some((head, tail)) = rest.split_at_checked(16) {
                let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                let (mask, length) = (word(4), word(12) as usize);
                let Some((name, next)) = tail.split_at_checked(length) else { return };
                rest = next;
                let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
                let pid = std::str::from_utf8(name).ok().and_then(|name| name.split_once('-')?.1.parse().ok());
                let Some(pid) = pid else { continue };
                let order = processes.next;
                processes.next += 1;
                let process = processes.by_pid.entry(pid).or_default();
                // One that executes another program closes it, and opens it again.
                process.order = (mask & libc::IN_CLOSE != 0).then_some(process.order.unwrap_or(order));
            }
        }
    }

    /// How many have ended.
    pub fn ends(&self) -> u64 {
        self.ends.load(Ordering::Acquire)
    }

    /// How `pid` ended, or `None` while it lives.
    pub fn end(&self, pid: u32) -> Option<End> {
        self.processes().by_pid.get(&pid)?.end
    }

    /// The place of `pid` among all that have begun to end; `u64::MAX` if it has not.
    pub fn order(&self, pid: u32) -> u64 {
        self.processes().by_pid.get(&pid).and_then(|process| process.order).unwrap_or(u64::MAX)
    }

    /// Whether the order is that of the files.
    pub fn knows_order(&self) -> bool {
        self.files.is_some()
    }

    /// SIGKILL to `pid`, if it still lives.
    pub fn kill(&self, pid: u32) {
        if let Some(fd) = self.processes().by_pid.get(&pid).and_then(|process| process.fd.as_ref()) {
            // SAFETY: a plain system call on our descriptor.
            unsafe {
                libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), libc::SIGKILL, std::ptr::null::<libc::siginfo_t>(), 0);
            }
        }
    }
}

/// While the process is a zombie, its status is the last field of /proc/PID/stat.
fn zombie_status(pid: u32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (fields.first() == Some(&"Z")).then(|| fields.get(49)?.parse().ok()).flatten()
}

/// After it was reaped, Linux 6.15 and later tell through PIDFD_GET_INFO.
fn pidfd_status(fd: RawFd) -> Option<i32> {
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
    let result = unsafe { libc::ioctl(fd, request as _, &raw mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

fn decode(status: i32) -> End {
    let status = ExitStatus::from_raw(status);
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (_, Some(signal)) => End::Signal(signal),
        _ => End::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn says_how_a_process_ended() {
        for (script, expected) in [("exit 7", End::Code(7)), ("kill -9 $$", End::Signal(9))] {
            let watch = Watch::new(None);
            // Not before it is watched.
            let mut child =
                Command::new("sh").args(["-c", &format!("read go; {script}")]).stdin(std::process::Stdio::piped()).spawn().unwrap();
            watch.add(child.id());
            assert_eq!(watch.end(child.id()), None);
            drop(child.stdin.take());
            while watch.ends() == 0 {
                watch.look(Duration::from_secs(1));
            }
            assert_eq!(watch.end(child.id()), Some(expected), "{script}");
            child.wait().unwrap();
        }
    }

    /// A hundred processes end one because of the other, and nobody looks before all are dead.
    #[test]
    fn the_order_is_that_of_the_files() {
        let folder = std::env::temp_dir().join(format!("narrows-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let watch = Watch::new(Some(&folder));
        let mut children: Vec<_> = (0..20)
            .map(|rank| {
                let script = format!("exec 99>{}/{rank}-$$; echo; read end", folder.display());
                let mut command = Command::new("bash");
                command.args(["-c", &script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
                let mut child = command.spawn().unwrap();
                let mut line = String::new();
                std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
                watch.add(child.id());
                child
            })
            .collect();
        let order: Vec<usize> = (0..20).map(|at| (at * 7) % 20).collect();
        for &at in &order {
            children[at].kill().unwrap();
            children[at].wait().unwrap();
        }
        watch.look(Duration::ZERO);
        assert_eq!(watch.ends(), 20);
        let places: Vec<u64> = order.iter().map(|&at| watch.order(children[at].id())).collect();
        assert!(places.is_sorted(), "{places:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
