//! The MPI library in a process that one of our libraries was loaded into: its family, the values of its constants, its
//! functions.
//!
//! * [`Flavor`]: which ABI it has, and so what [`Constants`] are worth.
//! * [`find`]: the next definition of a function, wherever the program has loaded it.
//!
//! ```
//! use narrows_mpilib::Flavor;
//!
//! // What Debian's Open MPI 4.1 has, and MPICH 5.0 with its own ABI.
//! assert_eq!(Flavor::of(|name| name == c"ompi_mpi_comm_world"), Flavor::OpenMpi);
//! assert_eq!(Flavor::of(|name| name == c"MPI_Abi_get_version" || name == c"MPI_F_STATUS_IGNORE"), Flavor::Mpich);
//! assert_eq!(Flavor::Mpich.constants().any_source, -2);
//! ```

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

/// Families of MPI libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Open MPI 4 and 5: handles are addresses.
    OpenMpi,
    /// MPICH and its relatives: handles are numbers.
    Mpich,
    /// The ABI of MPI 5.0: handles are addresses, those of predefined objects small numbers.
    Standard,
}

/// Values from mpi.h of Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and its mpi_abi.h.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// MPI_ANY_SOURCE
    pub any_source: i32,
    /// MPI_ANY_TAG
    pub any_tag: i32,
    /// MPI_ROOT
    pub root: i32,
    /// MPI_IN_PLACE
    pub in_place: u64,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE
    pub ignore: u64,
    /// Bytes of an MPI_Status.
    pub status_size: usize,
    /// Where its MPI_SOURCE stands.
    pub source_at: usize,
    /// Where its MPI_TAG stands.
    pub tag_at: usize,
    /// MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
    pub topologies: [i32; 3],
    /// MPI_COMM_TYPE_SHARED
    pub comm_type_shared: i32,
    /// MPI_THREAD_MULTIPLE
    pub thread_multiple: i32,
    /// MPI_THREAD_SERIALIZED
    pub thread_serialized: i32,
    /// MPI_PROC_NULL
    pub proc_null: i32,
    /// MPI_WIN_CREATE_FLAVOR
    pub win_create_flavor: i32,
    /// MPI_WIN_FLAVOR_SHARED
    pub win_flavor_shared: i32,
    /// MPI_MODE_NOPRECEDE
    pub no_precede: i32,
    /// MPI_MODE_NOSUCCEED
    pub no_succeed: i32,
}

const OPEN_MPI: Constants = Constants {
    any_source: -1,
    any_tag: -1,
    root: -4,
    in_place: 1,
    ignore: 0,
    status_size: 24,
    source_at: 0,
    tag_at: 4,
    topologies: [1, 2, 3],
    comm_type_shared: 0,
    thread_multiple: 3,
    thread_serialized: 2,
    proc_null: -2,
    win_create_flavor: 10,
    win_flavor_shared: 4,
    no_precede: 2,
    no_succeed: 16,
};

const MPICH: Constants = Constants {
    any_source: -2,
    any_tag: -1,
    root: -3,
    in_place: u64::MAX,
    ignore: 1,
    status_size: 20,
    source_at: 8,
    tag_at: 12,
    topologies: [2, 1, 3],
    comm_type_shared: 1,
    thread_multiple: 3,
    thread_serialized: 2,
    proc_null: -1,
    win_create_flavor: 0x6600_0007,
    win_flavor_shared: 4,
    no_precede: 8192,
    no_succeed: 16384,
};

const STANDARD: Constants = Constants {
    any_source: -1,
    any_tag: -2,
    root: -4,
    in_place: 1,
    ignore: 0,
    status_size: 32,
    source_at: 0,
    tag_at: 4,
    topologies: [211, 212, 213],
    comm_type_shared: 221,
    thread_multiple: 4096,
    thread_serialized: 2048,
    proc_null: -3,
    win_create_flavor: 604,
    win_flavor_shared: 314,
    no_precede: 2048,
    no_succeed: 16384,
};

impl Flavor {
    /// The family of a library, or of a process, by the names that it `has`.
    pub fn of(has: impl Fn(&CStr) -> bool) -> Flavor {
        // The predefined communicator object is part of Open MPI's ABI (mpi.h, OMPI_PREDEFINED_GLOBAL); a library with
        // the ABI of MPI 5.0 has no Fortran status constants, MPICH's own has (nm -D of MPICH 5.0.2).
        if has(c"ompi_mpi_comm_world") {
            Flavor::OpenMpi
        } else if has(c"MPI_Abi_get_version") && !has(c"MPI_F_STATUS_IGNORE") {
            Flavor::Standard
        } else {
            Flavor::Mpich
        }
    }

    /// What its constants are worth.
    pub const fn constants(self) -> &'static Constants {
        match self {
            Flavor::OpenMpi => &OPEN_MPI,
            Flavor::Mpich => &MPICH,
            Flavor::Standard => &STANDARD,
        }
    }
}

/// `dlsym`.
pub type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// How the file names of MPI libraries begin.
pub const LIBRARIES: &[&[u8]] = &[b"libmpi", b"libpmpi"];

/// The next definition of a function or variable behind the library that calls this, 0 if there is none.
///
/// Programs that load their MPI library with `dlopen` in a scope of its own (mpi4py) have nothing behind us in the
/// global scope: then it is the definition of a loaded library whose file name begins as one of `families` says, in
/// load order.
pub fn find(name: &CStr, families: &[&[u8]], lookup: Lookup) -> usize {
    // SAFETY: a valid string. RTLD_NEXT looks behind the library that this crate is part of, so it never returns one of
    // our own functions.
    let next = unsafe { lookup(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next as usize;
    }
    if families.is_empty() {
        return 0;
    }
    // Names first, dlopen later: the callback runs under the lock of the dynamic linker.
    let mut libraries = Libraries { families, found: Vec::new() };
    // SAFETY: the callback gets the pointer to `libraries` and does not outlive this call.
    unsafe { libc::dl_iterate_phdr(Some(note_library), ptr::from_mut(&mut libraries).cast()) };
    for library in &libraries.found {
        // SAFETY: valid strings; NOLOAD returns a handle of a library that is there already, or null.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                continue;
            }
            let found = lookup(handle, name.as_ptr());
            libc::dlclose(handle);
            if !found.is_null() {
                return found as usize;
            }
        }
    }
    0
}

/// Loaded libraries whose file names begin in one of these ways.
struct Libraries<'a> {
    families: &'a [&'a [u8]],
    found: Vec<CString>,
}

unsafe extern "C" fn note_library(info: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
    // SAFETY: `find` passes its own record; the linker passes a valid record with a string or null.
    let (name, list) = unsafe { ((*info).dlpi_name, &mut *list.cast::<Libraries<'_>>()) };
    if !name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if list.families.iter().any(|family| file.starts_with(family)) {
            list.found.push(name.to_owned());
        }
    }
    0
}
