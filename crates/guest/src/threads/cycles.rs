//! `--compute cycles`: cycles of the simulated core in the place of CPU time.
//!
//! A plugin of qemu counts them (`capi/cycles`), in memory of qemu's that a thread reads like its own. It counts only
//! what the program does between two calls.

use super::{Thread, current};
use crate::attach;
use narrows_cycles::{CALL, Core, Count};
use std::sync::atomic::Ordering::Relaxed;

/// The simulated core, if cycles are counted.
fn core() -> Option<&'static Core> {
    attach::shared().map(|(_, rank)| &rank.processor.core).filter(|core| core.clock_hz != 0)
}

/// Whether they are.
pub(crate) fn counts_cycles() -> bool {
    core().is_some()
}

/// Where the cycles of the calling thread are counted from now on; null: they are not.
pub(super) fn open() -> *mut Count {
    let Some(core) = core() else { return std::ptr::null_mut() };
    let mut answer = 0_u64;
    // SAFETY: a constant string. The kernel has no call of this number. The plugin reads the core, and writes the
    // answer; errno of the program stays as it is.
    unsafe {
        let errno = *libc::__errno_location();
        // The GNU C library's: where the stack of the first thread begins, above which its variables lie.
        let stack = libc::dlsym(libc::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()).cast::<u64>();
        let stack = if stack.is_null() { std::ptr::from_ref(&answer) as u64 } else { *stack };
        libc::syscall(CALL as libc::c_long, core, stack, &raw mut answer);
        *libc::__errno_location() = errno;
    }
    if answer == 0
        && let Some((file, _)) = attach::shared()
    {
        // It does not run under qemu: another program has started it.
        file.uncounted.fetch_add(1, Relaxed);
    }
    answer as *mut Count
}

impl Thread {
    fn count(&self) -> Option<&Count> {
        // SAFETY: null, or the plugin's, which is there until the process ends.
        unsafe { self.cycles.load(Relaxed).as_ref() }
    }

    /// What it does from now on counts, or does not.
    pub(super) fn counts(&self, yes: bool) {
        if let Some(count) = self.count() {
            count.counts.store(yes.into(), Relaxed);
        }
    }

    /// Time of its cycles since this was last asked, ps. `None`: they are not counted.
    pub(super) fn used_cycles_ps(&self) -> Option<u64> {
        let (core, count) = (core()?, self.count()?);
        // Of the sum: what is rounded off is not lost.
        let ps = core.ps(count.units());
        Some(ps.saturating_sub(self.counted.swap(ps, Relaxed)))
    }
}

/// Bytes of a page, and the longest allocation that the GNU C library takes from its heap at first (mallopt(3)).
const PAGE: usize = 4096;
const LONGEST: usize = 120 << 10;

/// What the program allocates from now on lies behind all that was allocated so far, and from the begin of a page on.
/// What the MPI library has left free has other places in each run: strings in it, such as numbers of processes, have
/// another length.
pub(crate) fn settle_heap() {
    if !counts_cycles() {
        return;
    }
    // SAFETY: no arguments; nothing of what is allocated is used.
    unsafe {
        let end = libc::sbrk(0) as usize;
        let halves = std::iter::successors(Some(LONGEST), |size| (*size > 2048).then_some(size / 2));
        // Each size of short ones has a list of its own.
        for size in halves.chain((24..=1032).rev().step_by(16)) {
            while (1..end).contains(&(libc::malloc(size) as usize)) {}
        }
        // An allocation has a word before it, and takes multiples of 16 bytes.
        let next = libc::malloc(24) as usize + 32;
        let rest = 2 * PAGE - next % PAGE;
        libc::malloc(rest - 8);
    }
}

/// The calling thread enters a call: it is at its own computing again when it is marked.
pub(crate) fn stop() {
    if let Some(thread) = current() {
        thread.counts(false);
    }
}
