//! What the program has printed, on its way through the launcher.

/// Longest time for a launcher to read what it has been sent, ms.
const PATIENCE_MS: u32 = 1000;

/// Waits until the launcher has read what stands in the pipes behind stdout and stderr. hydra ends the job as soon as
/// it hears of an MPI_Abort, and what it has not read until then is lost (2 of 100 runs, natively too).
pub fn wait_until_read() {
    for _ in 0..PATIENCE_MS {
        if unread(libc::STDOUT_FILENO) == 0 && unread(libc::STDERR_FILENO) == 0 {
            return;
        }
        nap(1);
    }
}

/// Sleeps in real time.
pub fn nap(ms: u32) {
    let nap = libc::timespec { tv_sec: i64::from(ms / 1000), tv_nsec: i64::from(ms % 1000) * 1_000_000 };
    // SAFETY: a valid time; the system call itself, since nanosleep of this process lives in simulated time.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const nap, std::ptr::null_mut::<libc::timespec>()) };
}

/// Bytes that nobody has read yet from the pipe behind `file`; 0 for what is not a pipe.
fn unread(file: libc::c_int) -> libc::c_int {
    // SAFETY: plain system calls into records of ours.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        if libc::fstat(file, &raw mut data) != 0 || data.st_mode & libc::S_IFMT != libc::S_IFIFO {
            return 0;
        }
        let mut bytes = 0;
        if libc::ioctl(file, libc::FIONREAD, &raw mut bytes) == 0 { bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::unread;

    #[test]
    fn counts_what_nobody_has_read() {
        let mut ends = [0; 2];
        // SAFETY: two new descriptors, written to and read from while they are open.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::write(ends[1], b"last words".as_ptr().cast(), 10), 10);
            assert_eq!(unread(ends[1]), 10);
            let mut buffer = [0u8; 16];
            assert_eq!(libc::read(ends[0], buffer.as_mut_ptr().cast(), 16), 10);
            assert_eq!(unread(ends[1]), 0);
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
        let file = std::fs::File::open("/proc/self/stat").expect("Linux has it");
        assert_eq!(unread(std::os::fd::AsRawFd::as_raw_fd(&file)), 0);
    }
}
