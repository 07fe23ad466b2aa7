//! The MPI library in this process.

use narrows_mpilib::{ABIS, Abi, FILE_NAMES, KnownAbi};
use std::ffi::{CStr, c_int};
use std::ptr;

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

static ABI: KnownAbi = KnownAbi::unknown();

/// The ABI, found out once.
#[inline]
pub fn abi() -> &'static Abi {
    ABI.get().unwrap_or_else(learn)
}

#[cold]
fn learn() -> &'static Abi {
    let abi = Abi::of(ABIS, |name| variable(name) != 0);
    ABI.set(abi);
    abi
}

/// MPI_COMM_WORLD
pub fn world() -> u64 {
    abi().handles.comm_world.handle(variable)
}

/// MPI_COMM_NULL
pub fn null_communicator() -> u64 {
    abi().handles.comm_null.handle(variable)
}

/// A variable, 0 if there is none. Not behind this library but anywhere: programs may have a copy, which is then the
/// one that counts.
pub fn variable(name: &CStr) -> usize {
    // SAFETY: a valid string.
    match unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize {
        0 => find(name),
        found => found,
    }
}

/// A function of the libraries behind this one, 0 if there is none.
pub fn find(name: &CStr) -> usize {
    narrows_mpilib::find(name, FILE_NAMES, libc::dlsym)
}

/// Calls a function of MPI with up to four arguments, numbers or addresses. An error code if there is none of that
/// name.
///
/// # Safety
/// The arguments are what the function takes.
pub unsafe fn call(name: &CStr, arguments: [u64; 4]) -> u64 {
    match find(name) {
        0 => u64::MAX,
        address => {
            // SAFETY: integer arguments are passed in registers, one each; the function ignores those that it does not
            // have.
            let function = unsafe { std::mem::transmute::<usize, extern "C" fn(u64, u64, u64, u64) -> u64>(address) };
            function(arguments[0], arguments[1], arguments[2], arguments[3])
        }
    }
}

/// What the library says of itself.
pub fn library() -> String {
    // MPI_MAX_LIBRARY_VERSION_STRING is 8192 in MPICH and Intel MPI, the longest (mpi.h).
    let (mut text, mut length) = (vec![0u8; 8192], 0 as c_int);
    // SAFETY: room for the text, and the address of an int.
    let code = unsafe { call(c"PMPI_Get_library_version", [text.as_mut_ptr() as u64, ptr::from_mut(&mut length) as u64, 0, 0]) };
    if code as c_int != 0 {
        return String::new();
    }
    String::from_utf8_lossy(&text[..(length.max(0) as usize).min(text.len())]).into_owned()
}

/// An `int` that a function of MPI writes behind its first argument.
pub fn integer(name: &CStr, handle: u64) -> i32 {
    let mut value: c_int = 0;
    // SAFETY: handle and address of an int are what the callers' functions take (MPI_Comm_rank, MPI_Type_size, ...).
    unsafe { call(name, [handle, ptr::from_mut(&mut value) as u64, 0, 0]) };
    value
}

/// Whether the request of a status was cancelled.
pub fn was_cancelled(status: u64) -> bool {
    integer(c"PMPI_Test_cancelled", status) != 0
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
    provided >= abi().constants.thread_multiple
}

/// The neighbours of this rank on a communicator.
pub fn neighbours(communicator: u64) -> Neighbours {
    let [cartesian, graph, distributed] = abi().constants.topologies;
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
        // Seven arguments: communicator, room for the sources, the sources, their weights, and the same for the
        // destinations.
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

/// The members of a communicator as ranks of MPI_COMM_WORLD: those of this rank's group, and of the other one if there
/// are two.
pub fn members(communicator: u64) -> (Vec<u32>, Option<Vec<u32>>) {
    let own = members_of(c"PMPI_Comm_group", communicator);
    let remote = integer(c"PMPI_Comm_test_inter", communicator) != 0;
    (own, remote.then(|| members_of(c"PMPI_Comm_remote_group", communicator)))
}

fn members_of(which: &CStr, communicator: u64) -> Vec<u32> {
    let (mut all, mut group) = (0u64, 0u64);
    // SAFETY: a handle and the address of one; handles are not larger than an address.
    unsafe {
        call(c"PMPI_Comm_group", [world(), ptr::from_mut(&mut all) as u64, 0, 0]);
        call(which, [communicator, ptr::from_mut(&mut group) as u64, 0, 0]);
    }
    let size = integer(c"PMPI_Group_size", group).max(0);
    let own: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![-1 as c_int; size as usize];
    // SAFETY: MPI_Group_translate_ranks(group, n, ranks, group, result): five arguments, all integers or addresses.
    unsafe {
        let address = find(c"PMPI_Group_translate_ranks");
        if address != 0 {
            let translate = std::mem::transmute::<usize, extern "C" fn(u64, c_int, *const c_int, u64, *mut c_int) -> c_int>(address);
            translate(group, size, own.as_ptr(), all, ranks.as_mut_ptr());
        }
        call(c"PMPI_Group_free", [ptr::from_mut(&mut group) as u64, 0, 0, 0]);
        call(c"PMPI_Group_free", [ptr::from_mut(&mut all) as u64, 0, 0, 0]);
    }
    ranks.into_iter().map(|rank| rank.max(0) as u32).collect()
}
