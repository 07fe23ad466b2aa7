//! Temporary files with a name, which must not stay when the process ends.
//!
//! Mostly there are none: a nameless file gets its name when it is complete. Only where the file system has no nameless
//! files (NFS, old overlays), and between the two system calls that replace a file, a temporary name is there. A signal
//! that would end the process removes it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::{io, mem};

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Names to remove. More at a time than places are not removed by signals.
static NAMES: [AtomicPtr<libc::c_char>; 8] = [const { AtomicPtr::new(ptr::null_mut()) }; 8];
/// How many there are.
static COUNT: Mutex<usize> = Mutex::new(0);
/// Keeps the names of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that goes away with this value.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    slot: Option<usize>,
    kept: bool,
}

impl Pending {
    /// A new name beside `place`, for a file that the caller makes.
    pub fn beside(place: &Path) -> io::Result<Pending> {
        let mut name = std::ffi::OsString::from(".");
        name.push(place.file_name().unwrap_or_default());
        name.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let path = place.with_file_name(name);
        let text = CString::new(path.as_os_str().as_bytes())?.into_raw();
        let claim =
            |slot: &AtomicPtr<libc::c_char>| slot.compare_exchange(ptr::null_mut(), text, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = NAMES.iter().position(claim);
        if slot.is_none() {
            // SAFETY: from `into_raw` above, and in no slot.
            drop(unsafe { CString::from_raw(text) });
        }
        let mut count = COUNT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *count += 1;
        if *count == 1 {
            exchange_handlers(libc::SIG_DFL, remove_and_end as *const () as usize);
        }
        Ok(Pending { path, slot, kept: false })
    }

    /// The name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file becomes `place`.
    pub fn rename(mut self, place: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, place)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(slot) = self.slot {
            let text = NAMES[slot].swap(ptr::null_mut(), Ordering::AcqRel);
            // A handler that reads it now ends the process: it would rather have the memory. A few bytes per name are
            // lost instead.
            let _ = text;
        }
        let mut count = COUNT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            exchange_handlers(remove_and_end as *const () as usize, libc::SIG_DFL);
        }
    }
}

/// Signals that `from` handles are handled by `to`. Who has handlers of their own ends in an orderly way, which drops
/// the names.
fn exchange_handlers(from: usize, to: usize) {
    for signal in SIGNALS {
        // SAFETY: valid pointers; the handler uses async-signal-safe functions only.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            if libc::sigaction(signal, ptr::null(), &mut action) == 0 && action.sa_sigaction == from {
                action.sa_sigaction = to;
                // The second time it ends the process.
                action.sa_flags = if to == libc::SIG_DFL { 0 } else { libc::SA_RESETHAND };
                libc::sigaction(signal, &action, ptr::null_mut());
            }
        }
    }
}

extern "C" fn remove_and_end(signal: libc::c_int) {
    for name in &NAMES {
        let name = name.load(Ordering::Acquire);
        if !name.is_null() {
            // SAFETY: a string that is never freed; unlink and raise are async-signal-safe.
            unsafe { libc::unlink(name) };
        }
    }
    // SAFETY: as above. The signal is blocked until this handler returns, and then does what it does by default.
    unsafe { libc::raise(signal) };
}
