//! Places in the program, as numbers that are the same in every run and every process: addresses are not.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Places that are remembered, a power of two: finding one takes the linker's lock.
const REMEMBERED: usize = 1024;

/// A place and its number. The first word is both together, so that a pair of which another thread has written one half
/// is no pair.
static KNOWN: [(AtomicU64, AtomicU64); REMEMBERED] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; REMEMBERED];

/// The number of the instruction at that address: of the name of its file, and where it is in there.
pub fn of(address: usize) -> u64 {
    let (both, number) = &KNOWN[(address >> 2 ^ address >> 12) % REMEMBERED];
    let known = number.load(Relaxed);
    if both.load(Relaxed) == address as u64 ^ known {
        return known;
    }
    let found = find(address);
    number.store(found, Relaxed);
    both.store(address as u64 ^ found, Relaxed);
    found
}

fn find(address: usize) -> u64 {
    // SAFETY: dladdr fills the record for any address in a loaded file; its name is valid as long as that is loaded.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const _, &mut info) == 0 || info.dli_fname.is_null() {
            // Code that was made while the program runs: the address is all there is.
            return address as u64;
        }
        let path = CStr::from_ptr(info.dli_fname).to_bytes();
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        // FNV-1a (Fowler, Noll and Vo), 64 bits.
        let name = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        name ^ (address - info.dli_fbase as usize) as u64
    }
}
