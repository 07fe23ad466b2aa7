//! Copies into and out of the memory of a process, this one too, in which every address is checked by the kernel.
//!
//! process_vm_readv(2) and process_vm_writev(2), which are made for it. qemu's user mode has neither of them up to
//! version 7.2: there it is the file `/proc/PID/mem` (proc(5)), with the same rights. A program under qemu sees its
//! memory at the addresses that it has in qemu's process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The system calls are not there.
static MISSING: AtomicBool = AtomicBool::new(false);

/// Reads pieces of the memory of process `pid` one after another into `bytes`, which has room for all; how many bytes.
///
/// # Errors
/// Those of the system calls: EFAULT where nothing is, EPERM, ESRCH.
pub fn read(pid: i32, pieces: &[libc::iovec], bytes: &mut [u8]) -> io::Result<usize> {
    if !MISSING.load(Relaxed) {
        let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the local buffer is as long as said; the kernel checks the other addresses.
        let done = unsafe { libc::process_vm_readv(pid, &raw const into, 1, pieces.as_ptr(), pieces.len() as libc::c_ulong, 0) };
        if let Some(result) = answered(done) {
            return result;
        }
    }
    let file = Memory::open(pid, libc::O_RDONLY)?;
    let mut at = 0;
    for piece in pieces {
        let room = piece.iov_len.min(bytes.len() - at);
        let place = bytes[at..].as_mut_ptr();
        // SAFETY: as above.
        let done = unsafe { libc::syscall(libc::SYS_pread64, file.0, place, room, piece.iov_base) };
        match usize::try_from(done) {
            Ok(done) => at += done,
            Err(_) if at > 0 => break,
            Err(_) => return Err(unreadable()),
        }
        if (done as usize) < room {
            break;
        }
    }
    Ok(at)
}

/// Writes `length` bytes of this process at `source` into the memory of process `pid`; how many of them, at least one.
///
/// # Errors
/// As [`read`], of either process.
pub fn write(pid: i32, source: u64, destination: u64, length: usize) -> io::Result<usize> {
    if !MISSING.load(Relaxed) {
        let mine = libc::iovec { iov_base: source as *mut libc::c_void, iov_len: length };
        let theirs = libc::iovec { iov_base: destination as *mut libc::c_void, iov_len: length };
        // SAFETY: the kernel checks all addresses, those of this process too.
        let done = unsafe { libc::process_vm_writev(pid, &raw const mine, 1, &raw const theirs, 1, 0) };
        if let Some(result) = answered(done) {
            return result;
        }
    }
    let file = Memory::open(pid, libc::O_WRONLY)?;
    // SAFETY: as above.
    match unsafe { libc::syscall(libc::SYS_pwrite64, file.0, source, length, destination) } {
        done @ 1.. => Ok(done as usize),
        _ => Err(unreadable()),
    }
}

/// What a system call has done; `None` if it is not there.
fn answered(done: isize) -> Option<io::Result<usize>> {
    match done {
        1.. => Some(Ok(done as usize)),
        0 => Some(Err(io::Error::from_raw_os_error(libc::EFAULT))),
        _ => {
            let error = io::Error::last_os_error();
            let missing = error.raw_os_error() == Some(libc::ENOSYS);
            MISSING.store(missing, Relaxed);
            (!missing).then_some(Err(error))
        }
    }
}

/// The file says EIO for a place where nothing is.
fn unreadable() -> io::Error {
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EIO) => io::Error::from_raw_os_error(libc::EFAULT),
        error => error,
    }
}

/// The memory of a process as a file. By system calls: programs have functions of those names of their own.
struct Memory(libc::c_long);

impl Memory {
    fn open(pid: i32, access: i32) -> io::Result<Memory> {
        let path = format!("/proc/{pid}/mem\0");
        // SAFETY: a string with its end.
        match unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), access | libc::O_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            file => Ok(Memory(file)),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is ours.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> libc::iovec {
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
    }

    /// Both ways do the same. In one test, because the choice is the process's.
    #[test]
    fn both_ways_copy_and_say_what_is_not_there() {
        let pid = std::process::id() as i32;
        for missing in [false, true] {
            MISSING.store(missing, Relaxed);
            let mut into = [0u8; 8];
            assert_eq!(read(pid, &[piece(b"abc"), piece(b"defgh")], &mut into).unwrap(), 8);
            assert_eq!(&into, b"abcdefgh");
            let mut target = [0u8; 4];
            assert_eq!(write(pid, b"wxyz".as_ptr() as u64, target.as_mut_ptr() as u64, 4).unwrap(), 4);
            assert_eq!(std::hint::black_box(&target), b"wxyz");
            let nowhere = libc::iovec { iov_base: 8 as *mut libc::c_void, iov_len: 8 };
            assert_eq!(read(pid, &[nowhere], &mut into).unwrap_err().raw_os_error(), Some(libc::EFAULT));
            assert_eq!(write(pid, b"w".as_ptr() as u64, 8, 1).unwrap_err().raw_os_error(), Some(libc::EFAULT));
            assert_eq!(write(pid, 8, target.as_mut_ptr() as u64, 1).unwrap_err().raw_os_error(), Some(libc::EFAULT));
            assert_eq!(MISSING.load(Relaxed), missing);
        }
        MISSING.store(false, Relaxed);
    }
}
