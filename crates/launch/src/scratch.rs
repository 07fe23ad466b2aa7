//! A folder for the files of a launcher, which goes when the run goes, however that ends.

use crate::LaunchError;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A private folder below the temporary one. Removed when dropped; if this process is killed before, by a child of it
/// that waits for nothing else: it reads from a pipe whose other end only this process and the launcher have.
///
/// Make it before any thread is started: that child is a fork.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    alive: OwnedFd,
    #[cfg(test)]
    keeper: libc::pid_t,
}

impl Scratch {
    /// Makes the folder and starts its keeper.
    ///
    /// # Errors
    /// [`LaunchError::Io`] with the folder that cannot be made.
    pub fn create() -> Result<Scratch, LaunchError> {
        // Short: launchers have sockets in it, whose paths must not have more than 107 bytes.
        let template = std::env::temp_dir().join("narrows-XXXXXX");
        let fails = |path: &Path| LaunchError::Io { path: path.to_owned(), error: io::Error::last_os_error() };
        let name = CString::new(template.as_os_str().as_bytes())
            .map_err(|error| LaunchError::Io { path: template.clone(), error: error.into() })?;
        let mut name = name.into_bytes_with_nul();
        // SAFETY: a string of our own, which is changed in place.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(fails(&template));
        }
        name.pop();
        let folder = PathBuf::from(std::ffi::OsString::from_vec(name));
        let mut ends: [RawFd; 2] = [0; 2];
        // SAFETY: room for two descriptors, which are ours from then on.
        let (read, alive) = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                let error = fails(&folder);
                let _ = fs::remove_dir(&folder);
                return Err(error);
            }
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        // SAFETY: there are no other threads by contract, so the child may do anything.
        match unsafe { libc::fork() } {
            -1 => {
                let error = fails(&folder);
                let _ = fs::remove_dir(&folder);
                Err(error)
            }
            0 => {
                drop(alive);
                keep(&read, &folder)
            }
            _keeper => Ok(Scratch {
                folder,
                alive,
                #[cfg(test)]
                keeper: _keeper,
            }),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The folder lives as long as the process that `command` starts, too.
    pub(crate) fn held_by(&self, command: &mut Command) {
        let alive = self.alive.as_raw_fd();
        // SAFETY: one system call between fork and exec. The descriptor is open as long as `self`; without it the
        // folder goes earlier.
        unsafe {
            command.pre_exec(move || {
                libc::fcntl(alive, libc::F_SETFD, 0);
                Ok(())
            });
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody is left who could want it: the keeper, which then finds nothing, is not waited for.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Closes every descriptor but `kept`.
fn close_all_but(kept: RawFd) {
    let close = |first: RawFd, last: RawFd| {
        if first > last {
            return;
        }
        // SAFETY: plain system calls, in a process that uses no other descriptor any more.
        unsafe {
            // By its number, which older C libraries have no name for; kernels before 5.9 do not know it.
            if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                let open = libc::sysconf(libc::_SC_OPEN_MAX).clamp(0, 1 << 16) as RawFd;
                for descriptor in first..=last.min(open) {
                    libc::close(descriptor);
                }
            }
        }
    };
    close(0, kept - 1);
    close(kept + 1, RawFd::MAX);
}

/// What the keeper does.
fn keep(alive: &OwnedFd, folder: &Path) -> ! {
    // SAFETY: plain system calls; the buffer is valid. Interruptions of a terminal are for the others, and the streams
    // of the run must be closed when it is over.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // The streams of the run, and the ends of other folders' pipes: their keepers wait for them.
        close_all_but(alive.as_raw_fd());
        // Held open, so that one can see that the folder is in use.
        let _held = fs::File::open(folder);
        let mut byte = 0u8;
        while libc::read(alive.as_raw_fd(), (&raw mut byte).cast(), 1) == -1 && *libc::__errno_location() == libc::EINTR {}
    }
    let _ = fs::remove_dir_all(folder);
    // SAFETY: ends this process without the handlers of the one it was forked from.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn goes_with_its_owner_or_with_the_last_who_holds_it() {
        let scratch = Scratch::create().unwrap();
        let folder = scratch.path().to_owned();
        fs::create_dir(folder.join("a")).unwrap();
        fs::write(folder.join("a/file"), "text").unwrap();
        drop(scratch);
        assert!(!folder.exists());

        let scratch = Scratch::create().unwrap();
        let folder = scratch.path().to_owned();
        fs::write(folder.join("file"), "text").unwrap();
        let mut command = Command::new("cat");
        scratch.held_by(&mut command);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // As if this process had been killed: its end of the pipe closes and nothing is removed.
        let mut scratch = std::mem::ManuallyDrop::new(scratch);
        // SAFETY: `scratch` is not used any more, and never dropped.
        unsafe { std::ptr::drop_in_place(&raw mut scratch.alive) };
        assert!(folder.join("file").exists(), "the child still holds it");
        drop(child.stdin.take());
        child.wait().unwrap();
        // SAFETY: a child of ours that was not waited for.
        assert_eq!(unsafe { libc::waitpid(scratch.keeper, std::ptr::null_mut(), 0) }, scratch.keeper);
        assert!(!folder.exists());
    }

    #[test]
    fn a_keeper_waits_for_its_own_folder_only() {
        // The keeper of the second is forked while this process holds the pipe of the first.
        let first = Scratch::create().unwrap();
        let second = Scratch::create().unwrap();
        let keeper = first.keeper;
        drop(first);
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // SAFETY: a child of ours that was not waited for.
        while unsafe { libc::waitpid(keeper, std::ptr::null_mut(), libc::WNOHANG) } == 0 {
            assert!(std::time::Instant::now() < ends, "the first keeper waits for the second one");
            std::thread::yield_now();
        }
        assert!(second.path().exists());
    }
}
