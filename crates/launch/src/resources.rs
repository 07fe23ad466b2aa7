//! What the host may lack for so many processes: open files, room for temporary files. Each is told in a line that
//! names it.

use crate::LaunchError;

fn limit(of: libc::__rlimit_resource_t) -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the answer; a question that is not understood leaves "no limit".
    unsafe { libc::getrlimit(of, &raw mut limit) };
    limit
}

/// Room that the launchers and the runtimes of the ranks want for their temporary files: Open MPI 4.1 stands still with
/// 12 MiB at 4 ranks.
const TEMPORARY_LEAST: u64 = 16 << 20;

/// Open files of a rank in the simulator; with a launcher there may be more (`narrows_mpilib::Library::open_files`).
pub const FILES_OF_A_RANK: u64 = 2;

/// Whether so many ranks can have their open files: a launcher that lacks them stands still, or says something else.
/// Raises the limit as far as it takes, if it may.
///
/// # Errors
/// What is missing, in a line.
pub fn check_files(ranks: u32, of_a_rank: u64) -> Result<(), LaunchError> {
    // Measured with Open MPI 4.1: 44 for 4 ranks, 110 for 16 are enough, 36 and 80 are not.
    let files = 40 + of_a_rank * u64::from(ranks);
    let mut now = limit(libc::RLIMIT_NOFILE);
    if now.rlim_cur < files {
        if now.rlim_max < files {
            return Err(LaunchError::OpenFiles { ranks, files, limit: now.rlim_max });
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
pub fn check_temporary() -> Result<(), LaunchError> {
    let folder = std::env::temp_dir();
    match free(&folder) {
        Err(error) => Err(LaunchError::Temporary { folder, error }),
        Ok(bytes) if bytes < TEMPORARY_LEAST => {
            let [left, least] = [bytes, TEMPORARY_LEAST].map(narrows_units::show::size);
            Err(LaunchError::TemporaryRoom { folder, left, least })
        }
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
