//! MPI calls whose arguments or results change. In C and Fortran; the Fortran 2008 symbols take the same arguments by
//! address with an optional ierror (MPI 4.1, section 19.1).

use crate::symbols::{self, Real};
use crate::trampoline::{Mark, number};
use crate::{check, clock, pml, portals, state, windows};
use narrows_mpilib::{Constants, SplitBy};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// Whether this is one of the clock functions, which have no mark.
pub fn is_clock(name: &CStr) -> bool {
    let name = name.to_bytes();
    let public = name.strip_prefix(b"P").or_else(|| name.strip_prefix(b"p")).unwrap_or(name);
    [b"MPI_Wtime".as_slice(), b"MPI_Wtick", b"mpi_wtime_", b"mpi_wtick_", b"mpi_wtime_f08_", b"mpi_wtick_f08_"].contains(&public)
}

/// The number of a call.
pub fn id(name: &str) -> u32 {
    narrows_mpicalls::by_name(name).expect("the names below are in the table; build.rs exports them from it")
}

/// Constants of the MPI library that this function belongs to, or whose Fortran binding it is.
pub fn constants(function: usize) -> &'static Constants {
    symbols::learn(function);
    symbols::constants()
}

/// `$value` is told the address to which the call returns.
macro_rules! clocks {
    ($($name:ident $text:literal, $value:path;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name() -> f64 {
                unsafe extern "C" fn from(caller: usize) -> f64 {
                    static REAL: Real = Real::new($text);
                    $value(caller).unwrap_or_else(|| {
                        // SAFETY: the type of MPI_Wtime and MPI_Wtick.
                        let real: unsafe extern "C" fn() -> f64 = unsafe { REAL.call() };
                        // SAFETY: no arguments.
                        unsafe { real() }
                    })
                }
                crate::arch::caller_first!(from)
            }
        )*
    };
}

/// The simulated clock counts picoseconds.
fn tick(_: usize) -> Option<f64> {
    state::on().then_some(1e-12)
}

clocks! {
    MPI_Wtime c"MPI_Wtime", clock::mpi_wtime;
    PMPI_Wtime c"PMPI_Wtime", clock::mpi_wtime;
    mpi_wtime_ c"mpi_wtime_", clock::mpi_wtime;
    pmpi_wtime_ c"pmpi_wtime_", clock::mpi_wtime;
    mpi_wtime_f08_ c"mpi_wtime_f08_", clock::mpi_wtime;
    pmpi_wtime_f08_ c"pmpi_wtime_f08_", clock::mpi_wtime;
    MPI_Wtick c"MPI_Wtick", tick;
    PMPI_Wtick c"PMPI_Wtick", tick;
    mpi_wtick_ c"mpi_wtick_", tick;
    pmpi_wtick_ c"pmpi_wtick_", tick;
    mpi_wtick_f08_ c"mpi_wtick_f08_", tick;
    pmpi_wtick_f08_ c"pmpi_wtick_f08_", tick;
}

/// Whether this process takes part and may ask libportals.so.
pub fn in_run() -> bool {
    state::on() && !state::in_guard()
}

/// The name goes where the real call has put its own, so its buffer has MPI_MAX_PROCESSOR_NAME bytes: at least 128.
unsafe fn processor_name(real: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int, name: *mut c_char, length: *mut c_int) -> c_int {
    let _mark = Mark::begin(id("MPI_Get_processor_name"));
    // SAFETY: forwarded as it came; on success both are filled.
    unsafe {
        let code = real(name, length);
        if code == 0
            && in_run()
            && let Some((host, size)) = portals::host()
        {
            ptr::copy_nonoverlapping(host.as_ptr(), name.cast(), size + 1);
            *length = size as c_int;
        }
        code
    }
}

macro_rules! processor_name_c {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(name: *mut c_char, length: *mut c_int) -> c_int {
                static REAL: Real = Real::new($text);
                // SAFETY: the prototype in mpi.h; arguments as they came.
                unsafe { processor_name(REAL.call(), name, length) }
            }
        )*
    };
}
processor_name_c! { MPI_Get_processor_name c"MPI_Get_processor_name"; PMPI_Get_processor_name c"PMPI_Get_processor_name"; }

type ProcessorNameFortran = unsafe extern "C" fn(*mut c_char, *mut c_int, *mut c_int, usize);

macro_rules! processor_name_fortran {
    ($($name:ident $text:literal;)*) => {
        $(
            /// Fortran strings have a hidden length and are filled with blanks.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(name: *mut c_char, length: *mut c_int, error: *mut c_int, size: usize) {
                static REAL: Real = Real::new($text);
                let _mark = Mark::begin(id("MPI_Get_processor_name"));
                // SAFETY: the Fortran interface of the call; the string has `size` bytes.
                unsafe {
                    REAL.call::<ProcessorNameFortran>()(name, length, error, size);
                    if in_run()
                        && error.as_ref().is_none_or(|error| *error == 0)
                        && let Some((host, host_length)) = portals::host()
                    {
                        ptr::write_bytes(name.cast::<u8>(), b' ', size);
                        let shown = host_length.min(size);
                        ptr::copy_nonoverlapping(host.as_ptr(), name.cast(), shown);
                        *length = shown as c_int;
                    }
                }
            }
        )*
    };
}
processor_name_fortran! {
    mpi_get_processor_name_ c"mpi_get_processor_name_";
    pmpi_get_processor_name_ c"pmpi_get_processor_name_";
    mpi_get_processor_name_f08_ c"mpi_get_processor_name_f08_";
    pmpi_get_processor_name_f08_ c"pmpi_get_processor_name_f08_";
}

/// MPI_UNDEFINED, the same in all three families.
const UNDEFINED: c_int = -32766;

/// What stands for nodes in info objects: hwloc's words, and those of Open MPI and MPICH. A simulated node has one
/// package and one NUMA domain, so they are the same.
const NODES: [&str; 12] =
    ["mpi_shared_memory", "machine", "node", "host", "board", "cu", "cluster", "package", "socket", "numa", "numanode", "l3cache"];
/// What stands for cores: each rank has its own.
const CORES: [&str; 9] = ["core", "hwthread", "pu", "l1cache", "l1dcache", "l1icache", "l1ucache", "l2cache", "l2ucache"];

/// How a rank takes part in MPI_Comm_split_type.
enum Split {
    /// With this colour.
    Color(c_int),
    /// As a member of the next smaller part of the machine.
    Next,
    /// As the library says: it knows no such part.
    Native,
}

/// A part of the machine by its name in an info object.
fn named(name: &[u8]) -> Option<SplitBy> {
    let name = name.strip_prefix(b"hwloc://").unwrap_or(name);
    let among = |names: &[&str]| names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name));
    if among(&NODES) { Some(SplitBy::Node) } else { among(&CORES).then_some(SplitBy::Core) }
}

/// How this rank takes part; the simulated machine says who is where. `info`: what it names under a key.
fn split(split_type: c_int, constants: &Constants, info: impl Fn(&CStr) -> Option<Option<SplitBy>>) -> Split {
    let by = constants.comm_types.iter().find(|known| known.0 == split_type).map(|known| known.1);
    let by = match by {
        _ if !in_run() => None,
        // It takes part in the same collective call as the others.
        _ if split_type == UNDEFINED => return Split::Color(UNDEFINED),
        Some(SplitBy::Unguided) => return Split::Next,
        Some(SplitBy::Guided) => info(c"mpi_hw_resource_type").flatten(),
        // MPICH's finer kinds of it.
        Some(SplitBy::Node) => info(c"shmem_topo").flatten().or(by),
        _ => by,
    };
    match by {
        Some(SplitBy::Node) => Split::Color(portals::node()),
        Some(SplitBy::Core) => Split::Color(portals::rank() as c_int),
        _ => Split::Native,
    }
}

/// Handles are pointers in Open MPI and the standard ABI and ints in MPICH; as a word they pass through unchanged.
pub type Handle = *mut c_void;
type SplitType = unsafe extern "C" fn(Handle, c_int, c_int, Handle, *mut Handle) -> c_int;
type SplitByColor = unsafe extern "C" fn(Handle, c_int, c_int, *mut Handle) -> c_int;

/// Splits by nodes, or a communicator of one node by cores. Of one rank nothing is left to be split.
///
/// # Safety
/// The arguments of MPI_Comm_split_type, whose counterpart by colour is `parted`.
unsafe fn split_next(parted: SplitByColor, comm: Handle, key: c_int, new: *mut Handle) -> c_int {
    static SIZE: Real = Real::new(c"PMPI_Comm_size");
    static FREE: Real = Real::new(c"PMPI_Comm_free");
    // SAFETY: the prototypes in mpi.h.
    unsafe {
        let size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int = SIZE.call();
        let free: unsafe extern "C" fn(*mut Handle) -> c_int = FREE.call();
        let code = parted(comm, portals::node(), key, new);
        if code != 0 {
            return code;
        }
        // An int in MPICH.
        let made = if symbols::abi().int_handles { *new.cast::<u32>() as usize as Handle } else { *new };
        let (mut all, mut here) = (0, 0);
        if size(comm, &mut all) != 0 || size(made, &mut here) != 0 || here < all {
            return 0;
        }
        free(new);
        parted(comm, if all > 1 { portals::rank() as c_int } else { UNDEFINED }, key, new)
    }
}

macro_rules! split_type_c {
    ($($name:ident $text:literal $split:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(comm: Handle, split_type: c_int, key: c_int, info: Handle, new: *mut Handle) -> c_int {
                static REAL: Real = Real::new($text);
                static SPLIT: Real = Real::new($split);
                let mark = Mark::begin(id("MPI_Comm_split_type"));
                mark.has_arguments(false, &[comm as u64, split_type as u64, key as u64, info as u64, new as u64]);
                // SAFETY: the prototypes in mpi.h; arguments as they came.
                unsafe {
                    let real: SplitType = REAL.call();
                    let constants = constants(real as usize);
                    let parted: SplitByColor = SPLIT.call();
                    match split(split_type, constants, |key| windows::info_value(info, key, named)) {
                        Split::Color(color) => parted(comm, color, key, new),
                        Split::Next => split_next(parted, comm, key, new),
                        Split::Native => real(comm, split_type, key, info, new),
                    }
                }
            }
        )*
    };
}
split_type_c! {
    MPI_Comm_split_type c"MPI_Comm_split_type" c"MPI_Comm_split";
    PMPI_Comm_split_type c"PMPI_Comm_split_type" c"PMPI_Comm_split";
}

type Fint = *mut c_int;
type SplitTypeFortran = unsafe extern "C" fn(Fint, Fint, Fint, Fint, Fint, Fint);
type SplitFortran = unsafe extern "C" fn(Fint, Fint, Fint, Fint, Fint);

/// As [`split_next`], for Fortran's handles.
///
/// # Safety
/// A communicator of Fortran, and the address of another one.
unsafe fn split_next_fortran(comm: c_int, key: c_int, new: Fint) -> c_int {
    static SPLIT: Real = Real::new(c"PMPI_Comm_split");
    static TO_FORTRAN: Real = Real::new(c"PMPI_Comm_c2f");
    let mut made: Handle = ptr::null_mut();
    // SAFETY: the prototypes in mpi.h; a handle that is an int fills the lower half of `made`.
    unsafe {
        let code = split_next(SPLIT.call(), check::c_communicator(comm), key, &raw mut made);
        if code == 0 {
            let to_fortran = || TO_FORTRAN.call::<unsafe extern "C" fn(Handle) -> c_int>()(made);
            *new = if symbols::abi().int_handles { made as usize as c_int } else { to_fortran() };
        }
        code
    }
}

macro_rules! split_type_fortran {
    ($($name:ident $text:literal $split:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(comm: Fint, split_type: Fint, key: Fint, info: Fint, new: Fint, error: Fint) {
                static REAL: Real = Real::new($text);
                static SPLIT: Real = Real::new($split);
                let mark = Mark::begin(id("MPI_Comm_split_type"));
                mark.has_arguments(true, &[comm as u64, split_type as u64, key as u64, info as u64, new as u64]);
                // SAFETY: the Fortran interface of the calls; arguments as they came.
                unsafe {
                    let real: SplitTypeFortran = REAL.call();
                    let value = |key: &CStr| windows::info_value(check::c_info(*info), key, named);
                    match split(*split_type, constants(real as usize), value) {
                        Split::Color(mut color) => SPLIT.call::<SplitFortran>()(comm, &mut color, key, new, error),
                        Split::Next => {
                            let code = split_next_fortran(*comm, *key, new);
                            // Fortran 2008 may leave it out.
                            if let Some(error) = error.as_mut() {
                                *error = code;
                            }
                        }
                        Split::Native => real(comm, split_type, key, info, new, error),
                    }
                }
            }
        )*
    };
}
split_type_fortran! {
    mpi_comm_split_type_ c"mpi_comm_split_type_" c"mpi_comm_split_";
    pmpi_comm_split_type_ c"pmpi_comm_split_type_" c"pmpi_comm_split_";
    mpi_comm_split_type_f08_ c"mpi_comm_split_type_f08_" c"mpi_comm_split_f08_";
    pmpi_comm_split_type_f08_ c"pmpi_comm_split_type_f08_" c"pmpi_comm_split_f08_";
}

type Iprobe = unsafe extern "C" fn(c_int, c_int, Handle, *mut c_int, *mut c_void) -> c_int;

macro_rules! iprobe {
    ($($name:ident $text:literal;)*) => {
        $(
            /// Until the library has looked everywhere: see `own_queue.rs` of narrows-guest. The Fortran functions call
            /// this one.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(source: c_int, tag: c_int, comm: Handle, flag: *mut c_int, status: *mut c_void) -> c_int {
                static REAL: Real = Real::new($text);
                // SAFETY: the prototype in mpi.h; arguments as they came.
                unsafe {
                    let real: Iprobe = REAL.call();
                    let constants = constants(real as usize);
                    let (peer, label) = (number(source, constants.any_source), number(tag, constants.any_tag));
                    let _mark = Mark::begin_with(id("MPI_Iprobe"), peer, label);
                    loop {
                        let code = real(source, tag, comm, flag, status);
                        if code != 0 || flag.is_null() || *flag != 0 || !portals::look_again() {
                            return code;
                        }
                    }
                }
            }
        )*
    };
}
iprobe! { MPI_Iprobe c"MPI_Iprobe"; PMPI_Iprobe c"PMPI_Iprobe"; }

/// The MPI library has given the program a level of threads: less is said if several threads cannot be served.
///
/// # Safety
/// `provided` is valid.
unsafe fn note_thread_level(required: c_int, provided: *mut c_int, constants: &Constants) {
    if !in_run() || required != constants.thread_multiple {
        return;
    }
    // SAFETY: as above.
    unsafe {
        if *provided == required && pml::take_over() {
            portals::threads_given();
        } else {
            *provided = (*provided).min(constants.thread_serialized);
            portals::threads_refused();
        }
    }
}

type InitThread = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, *mut c_int) -> c_int;

macro_rules! init_thread_c {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(argc: *mut c_void, argv: *mut c_void, required: c_int, provided: *mut c_int) -> c_int {
                static REAL: Real = Real::new($text);
                let _mark = Mark::begin(id("MPI_Init_thread"));
                // SAFETY: the prototype in mpi.h; arguments as they came.
                unsafe {
                    let real: InitThread = REAL.call();
                    let code = real(argc, argv, required, provided);
                    note_thread_level(required, provided, constants(real as usize));
                    code
                }
            }
        )*
    };
}
init_thread_c! { MPI_Init_thread c"MPI_Init_thread"; PMPI_Init_thread c"PMPI_Init_thread"; }

type InitThreadFortran = unsafe extern "C" fn(Fint, Fint, Fint);

macro_rules! init_thread_fortran {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(required: Fint, provided: Fint, error: Fint) {
                static REAL: Real = Real::new($text);
                let _mark = Mark::begin(id("MPI_Init_thread"));
                // SAFETY: the Fortran interface of the call.
                unsafe {
                    let real: InitThreadFortran = REAL.call();
                    real(required, provided, error);
                    note_thread_level(*required, provided, constants(real as usize));
                }
            }
        )*
    };
}
init_thread_fortran! {
    mpi_init_thread_ c"mpi_init_thread_";
    pmpi_init_thread_ c"pmpi_init_thread_";
    mpi_init_thread_f08_ c"mpi_init_thread_f08_";
    pmpi_init_thread_f08_ c"pmpi_init_thread_f08_";
}
