//! `libnarrows-launcher.so`, for mpirun of Open MPI: what version 4.1 says of a job has the same length in every run,
//! and a process that is about to become a rank does not list its files by /proc.
//!
//! MPI_Intercomm_create exchanges names of processes: the number of the job in decimal digits, which mpirun makes of
//! the number of its own process and the name of the host, and that name itself. The same program sent nine bytes or
//! ten for each rank, and others on another host. So `getpid` says something else to the one function that asks for
//! this, `orte_proc_info` (Open MPI 4.1, orte/util/proc_info.c), and `gethostname` says the same everywhere.

mod files;

use libc::{c_char, c_int, c_void, pid_t, size_t};
use std::arch::naked_asm;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// What mpirun takes for the name of its host: one that it has as another name of it in any case.
const HOST: &CStr = c"localhost";

/// The function of Open MPI 4.1 that asks what to name its job after.
const NAMES_THE_JOB: &CStr = c"orte_proc_info";

// The caller's address, as one argument more. In a naked function because the linker exports no symbol of a
// `global_asm`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
extern "C" fn getpid() -> pid_t {
    naked_asm!("mov rdi, [rsp]", "jmp {}", sym process_number)
}

/// The process number, or for the one who makes the job's number of it, one that makes one of ten digits.
extern "C" fn process_number(caller: *const c_void) -> pid_t {
    // SAFETY: no arguments.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as pid_t;
    if names_the_job(caller) { ten_digits(pid as u32) as pid_t } else { pid }
}

/// The name of the host, which is [`HOST`] for Open MPI 4.1.
///
/// # Safety
/// As the function of the C library: `name` is valid for writing `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn gethostname(name: *mut c_char, size: size_t) -> c_int {
    let mut found = MaybeUninit::<libc::utsname>::uninit();
    // SAFETY: as above; what `uname` fills is a string.
    unsafe {
        let source = if !libc::dlsym(libc::RTLD_DEFAULT, NAMES_THE_JOB.as_ptr()).is_null() {
            HOST
        } else if libc::uname(found.as_mut_ptr()) == 0 {
            CStr::from_ptr((&raw const (*found.as_ptr()).nodename).cast())
        } else {
            return -1;
        };
        let source = source.to_bytes_with_nul();
        // As the C library has it: what there is room for, and an error if that is not all.
        name.cast::<u8>().copy_from_nonoverlapping(source.as_ptr(), source.len().min(size));
        if source.len() > size {
            *libc::__errno_location() = libc::ENAMETOOLONG;
            return -1;
        }
    }
    0
}

/// Whether `caller` is in [`NAMES_THE_JOB`].
fn names_the_job(caller: *const c_void) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `found` is valid for writing, and filled if the answer is not 0.
    let name = unsafe { if libc::dladdr(caller, found.as_mut_ptr()) == 0 { std::ptr::null() } else { found.assume_init().dli_sname } };
    // SAFETY: the name of a symbol, in memory of the library that has it.
    !name.is_null() && unsafe { CStr::from_ptr(name) } == NAMES_THE_JOB
}

/// `pid`, or the same with another bit 15: bit 31 of the job's number is set then, which makes it ten digits long.
fn ten_digits(pid: u32) -> u32 {
    if family(pid, HOST.to_bytes()) & 0x8000 != 0 { pid } else { pid ^ 0x8000 }
}

/// The upper half of the job's number: orte_plm_base_set_hnp_name (orte/mca/plm/base/plm_base_jobid.c).
fn family(pid: u32, host: &[u8]) -> u16 {
    // OPAL_HASH_STR (opal/util/hash_string.h): the one-at-a-time hash of Jenkins.
    let mut hash = 0u32;
    for &byte in host {
        // As a `char`.
        hash = hash.wrapping_add(byte as i8 as u32);
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash = hash.wrapping_add(hash << 15);
    hash ^= pid;
    (hash >> 16) as u16 ^ hash as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_is_that_of_open_mpi() {
        // Seen: job 2048917505 of mpirun 4.1.4 with process number 5854 on host "vm", and three more.
        for (pid, job) in [(5854, 2_048_917_505u32), (5728, 2_057_175_041), (5746, 2_055_995_393), (5762, 2_054_946_817)] {
            assert_eq!(u32::from(family(pid, b"vm")) << 16 | 1, job);
        }
    }

    #[test]
    fn all_numbers_have_ten_digits() {
        for pid in (1..1 << 22).step_by(977) {
            let job = u32::from(family(ten_digits(pid), HOST.to_bytes())) << 16 | 1;
            assert_eq!(job.to_string().len(), 10);
        }
    }
}
