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
    /// MPI_CART, MPI_GRAPH, MPI_DIST_GRAPH
    pub topologies: [i32; 3],
    /// MPI_THREAD_MULTIPLE
    pub thread_multiple: i32,
}

/// A rank's neighbours on a communicator with a topology, MPI_PROC_NULL and all, in the order of the buffers.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    pub sources: Vec<i32>,
    pub destinations: Vec<i32>,
    /// What goes to the lower neighbour in a dimension comes in as from the upper one.
    pub cartesian: bool,
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
        const OPEN_MPI: Constants = Constants {
            any_source: -1,
            any_tag: -1,
            in_place: 1,
            ignore: 0,
            status_size: 24,
            source_at: 0,
            tag_at: 4,
            topologies: [1, 2, 3],
            thread_multiple: 3,
        };
        const MPICH: Constants = Constants {
            any_source: -2,
            any_tag: -1,
            in_place: u64::MAX,
            ignore: 1,
            status_size: 20,
            source_at: 8,
            tag_at: 12,
            topologies: [2, 1, 3],
            thread_multiple: 3,
        };
        const STANDARD: Constants = Constants {
            any_source: -1,
            any_tag: -2,
            in_place: 1,
            ignore: 0,
            status_size: 32,
            source_at: 0,
            tag_at: 4,
            topologies: [211, 212, 213],
            thread_multiple: 4096,
        };
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

/// Calls a function of MPI with six arguments, numbers or addresses.
///
/// # Safety
/// The arguments are what the function takes.
unsafe fn call_six(name: &CStr, a: [u64; 6]) {
    let address = find(name);
    if address != 0 {
        // SAFETY: as in `call`.
        let function = unsafe { std::mem::transmute::<usize, extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64>(address) };
        function(a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}

/// Whether several threads may call MPI at once.
pub fn is_threaded() -> bool {
    let mut provided: c_int = 0;
    // SAFETY: the address of an int.
    unsafe { call(c"PMPI_Query_thread", [ptr::from_mut(&mut provided) as u64, 0, 0, 0]) };
    provided >= Flavor::get().constants().thread_multiple
}

/// The neighbours of this rank on a communicator.
pub fn neighbours(communicator: u64) -> Neighbours {
    let [cartesian, graph, distributed] = Flavor::get().constants().topologies;
    let kind = integer(c"PMPI_Topo_test", communicator);
    let address = |numbers: &mut Vec<c_int>| numbers.as_mut_ptr() as u64;
    let room = |count: c_int| vec![0 as c_int; count.max(0) as usize + 1];
    if kind == cartesian {
        let mut found = Neighbours { cartesian: true, ..Neighbours::default() };
        for dimension in 0..integer(c"PMPI_Cartdim_get", communicator) {
            let mut pair = [0 as c_int; 2];
            let [low, high] = [0, 1].map(|index: usize| ptr::from_mut(&mut pair[index]) as u64);
            // SAFETY: communicator, two ints, the addresses of two ints.
            unsafe { call_six(c"PMPI_Cart_shift", [communicator, dimension as u64, 1, low, high, 0]) };
            found.sources.extend(pair);
        }
        found.destinations = found.sources.clone();
        return found;
    }
    if kind == graph {
        let rank = integer(c"PMPI_Comm_rank", communicator) as u64;
        let mut count: c_int = 0;
        // SAFETY: communicator, an int, the address of an int.
        unsafe { call(c"PMPI_Graph_neighbors_count", [communicator, rank, ptr::from_mut(&mut count) as u64, 0]) };
        let mut all = room(count);
        // SAFETY: communicator, two ints, room for as many.
        unsafe { call(c"PMPI_Graph_neighbors", [communicator, rank, count as u64, address(&mut all)]) };
        all.truncate(count.max(0) as usize);
        return Neighbours { sources: all.clone(), destinations: all, cartesian: false };
    }
    if kind == distributed {
        let mut counts = [0 as c_int; 3];
        let [inward, outward, weighted] = [0, 1, 2].map(|index: usize| ptr::from_mut(&mut counts[index]) as u64);
        // SAFETY: communicator and the addresses of three ints.
        unsafe { call(c"PMPI_Dist_graph_neighbors_count", [communicator, inward, outward, weighted]) };
        let (mut sources, mut destinations) = (room(counts[0]), room(counts[1]));
        let (mut weights, mut more) = (room(counts[0]), room(counts[1]));
        // Seven arguments: communicator, room for the sources, the sources, their weights, and the same for the destinations.
        let name = find(c"PMPI_Dist_graph_neighbors");
        if name != 0 {
            // SAFETY: what the function takes; all arrays are as long as the counts say.
            unsafe {
                let function = std::mem::transmute::<usize, extern "C" fn(u64, c_int, u64, u64, c_int, u64, u64) -> c_int>(name);
                function(
                    communicator,
                    counts[0],
                    address(&mut sources),
                    address(&mut weights),
                    counts[1],
                    address(&mut destinations),
                    address(&mut more),
                );
            }
        }
        sources.truncate(counts[0].max(0) as usize);
        destinations.truncate(counts[1].max(0) as usize);
        return Neighbours { sources, destinations, cartesian: false };
    }
    Neighbours::default()
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
