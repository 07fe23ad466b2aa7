//! The MPI library in this process.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

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
    pub any_source: i32,
    pub any_tag: i32,
    pub in_place: u64,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE
    pub ignore: u64,
    /// MPI_Status: bytes, and where source and tag stand.
    pub status_size: usize,
    pub source_at: usize,
    pub tag_at: usize,
}

/// MPI_UNDEFINED, the same everywhere.
pub const UNDEFINED: i32 = -32766;

static FLAVOR: AtomicU8 = AtomicU8::new(0);

impl Flavor {
    /// The family, found out once.
    #[inline]
    pub fn get() -> Flavor {
        match FLAVOR.load(Relaxed) {
            1 => Flavor::OpenMpi,
            2 => Flavor::Mpich,
            3 => Flavor::Standard,
            _ => Flavor::learn(),
        }
    }

    #[cold]
    fn learn() -> Flavor {
        // The predefined communicator object belongs to Open MPI's ABI; a library with the standard ABI has no Fortran
        // status constants, MPICH's own has.
        let flavor = if variable(c"ompi_mpi_comm_world") != 0 {
            Flavor::OpenMpi
        } else if find(c"MPI_Abi_get_version") != 0 && variable(c"MPI_F_STATUS_IGNORE") == 0 {
            Flavor::Standard
        } else {
            Flavor::Mpich
        };
        FLAVOR.store(flavor as u8 + 1, Relaxed);
        flavor
    }

    pub fn constants(self) -> &'static Constants {
        const OPEN_MPI: Constants =
            Constants { any_source: -1, any_tag: -1, in_place: 1, ignore: 0, status_size: 24, source_at: 0, tag_at: 4 };
        const MPICH: Constants =
            Constants { any_source: -2, any_tag: -1, in_place: u64::MAX, ignore: 1, status_size: 20, source_at: 8, tag_at: 12 };
        const STANDARD: Constants =
            Constants { any_source: -1, any_tag: -2, in_place: 1, ignore: 0, status_size: 32, source_at: 0, tag_at: 4 };
        match self {
            Flavor::OpenMpi => &OPEN_MPI,
            Flavor::Mpich => &MPICH,
            Flavor::Standard => &STANDARD,
        }
    }

    /// MPI_COMM_WORLD
    pub fn world(self) -> u64 {
        match self {
            Flavor::OpenMpi => variable(c"ompi_mpi_comm_world") as u64,
            Flavor::Mpich => 0x4400_0000,
            Flavor::Standard => 0x101,
        }
    }
}

/// A variable, 0 if there is none. Not behind this library but anywhere: programs may have a copy, which is then the one that
/// counts.
pub fn variable(name: &CStr) -> usize {
    // SAFETY: a valid string.
    match unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize {
        0 => find(name),
        found => found,
    }
}

/// A function of the libraries behind this one, 0 if there is none.
///
/// Programs that load their MPI library with `dlopen` in a scope of its own (mpi4py) have nothing behind us in the global scope:
/// then it is that of a loaded MPI library, in load order.
pub fn find(name: &CStr) -> usize {
    // SAFETY: a valid string. RTLD_NEXT looks behind this library, so it never returns one of our own functions.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next as usize;
    }
    // Names first, dlopen later: the callback runs under the lock of the dynamic linker.
    let mut libraries: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the pointer to `libraries` and does not outlive this call.
    unsafe { libc::dl_iterate_phdr(Some(note_library), ptr::from_mut(&mut libraries).cast()) };
    for library in &libraries {
        // SAFETY: valid strings; NOLOAD returns a handle of a library that is there already, or null.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if !handle.is_null() {
                let found = libc::dlsym(handle, name.as_ptr());
                libc::dlclose(handle);
                if !found.is_null() {
                    return found as usize;
                }
            }
        }
    }
    0
}

unsafe extern "C" fn note_library(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
    // SAFETY: `find` passes its own vector; the linker passes a valid record with a string or null.
    let (name, list) = unsafe { ((*info).dlpi_name, &mut *list.cast::<Vec<CString>>()) };
    if !name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) };
        let file = name.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if file.starts_with(b"libmpi") || file.starts_with(b"libpmpi") {
            list.push(name.to_owned());
        }
    }
    0
}

/// Calls a function of MPI with up to four arguments, numbers or addresses. An error code if there is none of that name.
///
/// # Safety
/// The arguments are what the function takes.
pub unsafe fn call(name: &CStr, arguments: [u64; 4]) -> u64 {
    match find(name) {
        0 => u64::MAX,
        address => {
            // SAFETY: integer arguments are passed in registers, one each; the function ignores those that it does not have.
            let function = unsafe { std::mem::transmute::<usize, extern "C" fn(u64, u64, u64, u64) -> u64>(address) };
            function(arguments[0], arguments[1], arguments[2], arguments[3])
        }
    }
}

/// An `int` that a function of MPI writes behind its first argument.
pub fn integer(name: &CStr, handle: u64) -> i32 {
    let mut value: c_int = 0;
    // SAFETY: handle and address of an int are what the callers' functions take (MPI_Comm_rank, MPI_Type_size, ...).
    unsafe { call(name, [handle, ptr::from_mut(&mut value) as u64, 0, 0]) };
    value
}

/// The members of a communicator as ranks of MPI_COMM_WORLD, and whether it is an intercommunicator: then those of the other
/// side.
pub fn members(communicator: u64) -> (Vec<u32>, bool) {
    let remote = integer(c"PMPI_Comm_test_inter", communicator) != 0;
    let (mut world, mut group) = (0u64, 0u64);
    let other = if remote { c"PMPI_Comm_remote_group" } else { c"PMPI_Comm_group" };
    // SAFETY: a handle and the address of one; handles are not larger than an address.
    unsafe {
        call(c"PMPI_Comm_group", [Flavor::get().world(), ptr::from_mut(&mut world) as u64, 0, 0]);
        call(other, [communicator, ptr::from_mut(&mut group) as u64, 0, 0]);
    }
    let size = integer(c"PMPI_Group_size", group).max(0);
    let own: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![-1 as c_int; size as usize];
    // SAFETY: MPI_Group_translate_ranks(group, n, ranks, group, result): five arguments, all integers or addresses.
    unsafe {
        let address = find(c"PMPI_Group_translate_ranks");
        if address != 0 {
            let translate = std::mem::transmute::<usize, extern "C" fn(u64, c_int, *const c_int, u64, *mut c_int) -> c_int>(address);
            translate(group, size, own.as_ptr(), world, ranks.as_mut_ptr());
        }
        call(c"PMPI_Group_free", [ptr::from_mut(&mut group) as u64, 0, 0, 0]);
        call(c"PMPI_Group_free", [ptr::from_mut(&mut world) as u64, 0, 0, 0]);
    }
    (ranks.into_iter().map(|rank| rank.max(0) as u32).collect(), remote)
}
