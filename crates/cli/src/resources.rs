//! What the host may lack: memory, stack, open files, room for temporary files. Each ends in a line that names it.

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

/// Room that the launchers and the runtimes of the ranks want for their temporary files: Open MPI 4.1 stands still with
/// 12 MiB at 4 ranks.
const TEMPORARY_LEAST: u64 = 16 << 20;

/// Open files of a rank in the simulator, and in a launcher of an MPI.
pub const FILES_OF_A_RANK: libc::rlim_t = 2;
pub const FILES_OF_AN_MPI_RANK: libc::rlim_t = 4;

/// Whether so many ranks can have their open files: a launcher that lacks them stands still, or says something else.
/// Raises the limit as far as it takes, if it may.
///
/// # Errors
/// What is missing, in a line.
pub fn check_files(ranks: u32, of_a_rank: libc::rlim_t) -> Result<(), String> {
    // Measured with Open MPI 4.1: 44 for 4 ranks, 110 for 16 are enough, 36 and 80 are not.
    let files = 40 + of_a_rank * libc::rlim_t::from(ranks);
    let mut now = limit(libc::RLIMIT_NOFILE);
    if now.rlim_cur < files {
        if now.rlim_max < files {
            return Err(format!(
                "{ranks} ranks and their launcher take {files} open files, and the limit is {}: raise it (ulimit -n {files}), or use fewer ranks",
                now.rlim_max
            ));
        }
        now.rlim_cur = files;
        // SAFETY: a limit within the one that the host sets.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const now) };
    }
    Ok(())
}

/// Whether a live run has room for temporary files.
///
/// # Errors
/// What is missing, in a line.
pub fn check_temporary() -> Result<(), String> {
    let folder = std::env::temp_dir();
    match free(&folder) {
        Err(error) => Err(format!("temporary files go to {} ($TMPDIR): {error}", folder.display())),
        Ok(bytes) if bytes < TEMPORARY_LEAST => Err(format!(
            "temporary files go to {} ($TMPDIR), where {} are left; a launcher takes at least {}",
            folder.display(),
            narrows_units::show::size(bytes),
            narrows_units::show::size(TEMPORARY_LEAST)
        )),
        Ok(_) => Ok(()),
    }
}

/// Bytes that are left where a folder is.
fn free(folder: &std::path::Path) -> std::io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: all zeros is a value of this struct of numbers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a string with its end, and room for the answer.
    match unsafe { libc::statvfs(name.as_ptr(), &raw mut found) } {
        0 => Ok(found.f_bavail.saturating_mul(found.f_frsize)),
        _ => Err(std::io::Error::last_os_error()),
    }
}
