//! Who calls: the program, or the MPI library behind its back, as the hooks do that it has in the allocator of the
//! program.

use crate::symbols::Real;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Files of MPI libraries, and of what is below them.
const LIBRARIES: [&[u8]; 10] =
    [b"libmpi", b"libopen-", b"libpmix", b"libprrte", b"libfabric", b"libportals", b"libuc", b"libevent", b"libhwloc", b"mca_"];

/// `struct dl_find_object` of <dlfcn.h>.
#[repr(C)]
struct Found {
    flags: u64,
    start: *const c_void,
    end: *const c_void,
    map: *const LinkMap,
    frames: *const c_void,
    reserved: [u64; 7],
}

/// The beginning of `struct link_map` of <link.h>.
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
}

type Find = unsafe extern "C" fn(*const c_void, *mut Found) -> c_int;

/// `_dl_find_object` takes no lock, so that it can be called from within an allocator. Since glibc 2.35.
static FIND: OnceLock<Option<Find>> = OnceLock::new();

/// Looks it up, which takes locks of the linker.
pub fn prepare() {
    static REAL: Real = Real::new(c"_dl_find_object");
    // SAFETY: that is its type.
    FIND.get_or_init(|| unsafe { REAL.get() });
}

thread_local! {
    /// The address that the calling thread asked for last, and the answer: locks are taken in loops.
    static LAST: Cell<(usize, bool)> = const { Cell::new((0, false)) };
}

/// Whether the code at this address is of the MPI library. False if nobody can say.
pub fn is_library(address: usize) -> bool {
    let (last, answer) = LAST.get();
    if last == address {
        return answer;
    }
    let answer = find_library(address);
    LAST.set((address, answer));
    answer
}

fn find_library(address: usize) -> bool {
    let Some(Some(find)) = FIND.get() else { return false };
    let mut found = Found {
        flags: 0,
        start: std::ptr::null(),
        end: std::ptr::null(),
        map: std::ptr::null(),
        frames: std::ptr::null(),
        reserved: [0; 7],
    };
    // SAFETY: it fills the record, or says that it has not; the code that calls is not unloaded meanwhile.
    let path = unsafe {
        if find(address as *const c_void, &raw mut found) != 0 || found.map.is_null() || (*found.map).name.is_null() {
            return false;
        }
        CStr::from_ptr((*found.map).name).to_bytes()
    };
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    LIBRARIES.iter().any(|library| name.starts_with(library))
}
