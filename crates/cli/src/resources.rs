//! What the host may lack: memory, stack. Each ends in a line that names it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::process::ExitCode;

/// The system's allocator; where it has nothing left the program says so and ends with code 2, in place of an abort.
///
/// There is nobody to give the failure to: what asks for memory here cannot go on without. Ranks of a live run end as
/// they do when the simulator is killed.
pub struct Allocator;

// SAFETY: every call goes to the system's allocator as it is; a result that is null never comes back.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the system's conditions, here and below.
        there(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        there(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above.
        there(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: see above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[inline]
fn there(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() { out_of_memory(size) } else { block }
}

/// Without an allocation: the line is put together on the stack.
#[cold]
fn out_of_memory(size: usize) -> ! {
    let mut line = [0u8; 256];
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "narrows: error: out of memory: {} MiB more cannot be had, by the host or its limits (ulimit -v); fewer ranks or nodes take less",
        size.div_ceil(1 << 20)
    );
    let left = rest.len();
    let text = &line[..line.len() - left];
    // SAFETY: a buffer of this length; the process ends with it.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(2)
    }
}

/// A stack below this is replaced.
const STACK_LEAST: libc::rlim_t = 2 << 20;
/// By one of this size: what Linux gives without a limit of the user's.
const STACK: usize = 8 << 20;

/// Runs `main`, on a stack of its own if `ulimit -s` leaves too small a one.
///
/// The first thread then waits for the second and does nothing else, so a fork in `main` finds no lock held.
pub fn with_stack(main: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    if limit(libc::RLIMIT_STACK).rlim_cur >= STACK_LEAST {
        return main();
    }
    std::thread::scope(|scope| match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, main) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::from(101)),
        Err(error) => {
            let _ =
                writeln!(std::io::stderr(), "narrows: error: no room for a stack of {} MiB: {error} (ulimit -s, ulimit -v)", STACK >> 20);
            ExitCode::from(2)
        }
    })
}

fn limit(of: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the answer; a question that is not understood leaves "no limit".
    unsafe { libc::getrlimit(of, &raw mut limit) };
    limit
}
