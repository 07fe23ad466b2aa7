//! `libnarrows-launcher.so`, for mpirun of Open MPI: the number of every job of version 4.1 has ten digits, and a
//! process that is about to become a rank does not list its files by /proc.
//!
//! Ranks send that number in decimal digits (MPI_Intercomm_create exchanges names of processes), and mpirun makes it of
//! the number of its own process and the name of the host: the same program sent nine bytes or ten. So `getpid` says
//! something else to the one function that asks for this: `orte_proc_info` (Open MPI 4.1, orte/util/proc_info.c).

mod files;

use libc::{c_char, c_void, pid_t};
use std::ffi::CStr;
use std::mem::MaybeUninit;

// The caller's address, as an argument.
core::arch::global_asm!(".globl getpid", ".type getpid, @function", "getpid: mov (%rsp), %rdi", "jmp narrows_getpid", options(att_syntax));

/// The process number, or for the one who makes the job's number of it, one that makes one of ten digits.
#[unsafe(no_mangle)]
extern "C" fn narrows_getpid(caller: *const c_void) -> pid_t {
    // SAFETY: no arguments.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) } as pid_t;
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `found` is valid for writing, and filled if the answer is not 0.
    let name = unsafe { if libc::dladdr(caller, found.as_mut_ptr()) == 0 { std::ptr::null() } else { found.assume_init().dli_sname } };
    // SAFETY: the name of a symbol, in memory of the library that has it.
    if name.is_null() || unsafe { CStr::from_ptr(name) } != c"orte_proc_info" {
        return pid;
    }
    ten_digits(pid as u32, &host()) as pid_t
}

/// The name of this host, without its domain.
fn host() -> Vec<u8> {
    let mut name = [0u8; 256];
    // SAFETY: so many bytes are valid for writing.
    unsafe { libc::gethostname(name.as_mut_ptr().cast::<c_char>(), name.len() - 1) };
    name.into_iter().take_while(|&byte| byte != 0 && byte != b'.').collect()
}

/// `pid`, or the same with another bit 15: bit 31 of the job's number is set then, which makes it ten digits long.
fn ten_digits(pid: u32, host: &[u8]) -> u32 {
    if family(pid, host) & 0x8000 != 0 { pid } else { pid ^ 0x8000 }
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
            for host in [&b"vm"[..], b"n", b"node-with-a-long-name", b""] {
                let job = u32::from(family(ten_digits(pid, host), host)) << 16 | 1;
                assert_eq!(job.to_string().len(), 10);
            }
        }
    }
}
