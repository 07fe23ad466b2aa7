//! Windows of memory that the ranks of one simulated node share: MPI_Win_allocate_shared.
//!
//! An MPI library makes such a window of the node that really runs the program, which is the same for all ranks, and
//! its one-sided operations would be copies between processes. So the memory is ours, a file in memory without a name
//! that all ranks of the communicator map, and the window is one that the library creates over it: loads and stores go
//! to the memory as on a real node, while the library's puts, gets, atomics and synchronisation take the NICs and the
//! path inside the node, as in any other window.
//!
//! Making one costs two gathers of a few bytes more than MPI_Win_create, about as much as the exchange of sizes and
//! names that MPI libraries make themselves. A communicator with ranks of several simulated nodes gets an error:
//! MPI_ERR_RMA_SHARED, or what the library says.

use crate::special::{Handle, constants, id, in_run};
use crate::symbols::{self, Real};
use crate::trampoline::Mark;
use crate::{portals, state};
use libc::{c_int, c_void};
use narrows_output::say;
use std::ffi::{CStr, CString};
use std::io::Error;
use std::mem::size_of;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// MPI_Aint.
type Aint = isize;

/// What a rank says of itself.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Part {
    /// Bytes of its segment.
    size: i64,
    /// Its displacement unit.
    unit: i64,
    /// Its simulated node.
    node: i64,
    /// Its process and the descriptor of the file there; only those of the first rank count, as does the next.
    process: i64,
    file: i64,
    /// Segments need not be adjacent (info key `alloc_shared_noncontig`).
    apart: i64,
}

/// A segment as this rank sees it.
#[derive(Clone, Copy)]
struct Segment {
    address: usize,
    size: Aint,
    unit: Aint,
}

struct Window {
    handle: u64,
    memory: usize,
    length: usize,
    segments: Vec<Segment>,
}

static WINDOWS: Mutex<Vec<Window>> = Mutex::new(Vec::new());

fn windows() -> MutexGuard<'static, Vec<Window>> {
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where segments begin that need not be adjacent: a cache line, so that neighbours do not disturb each other.
const LINE: usize = 64;

/// Where the segments begin, and the bytes of all. `None` for sizes that no window has.
fn layout(parts: &[Part]) -> Option<(Vec<usize>, usize)> {
    let align = if parts.first().is_some_and(|part| part.apart != 0) { LINE } else { 1 };
    let mut end = 0usize;
    let mut starts = Vec::with_capacity(parts.len());
    for part in parts {
        starts.push(end);
        let size = usize::try_from(part.size).ok().filter(|_| part.unit > 0)?;
        end = end.checked_add(size)?.checked_next_multiple_of(align)?;
    }
    (end <= isize::MAX as usize).then_some((starts, end))
}

/// The handle that a call has written.
///
/// # Safety
/// `place` points to a handle of the MPI library.
unsafe fn handle_at(place: *const c_void) -> u64 {
    // SAFETY: as above.
    unsafe { symbols::abi().handle_at(place as u64) }
}

fn handle_of(argument: Handle) -> u64 {
    symbols::abi().handle_of(argument as u64)
}

fn byte() -> Handle {
    symbols::abi().handles.byte.handle(symbols::variable) as Handle
}

mod mpi {
    use super::*;

    macro_rules! mpi {
        ($($name:ident $text:literal ($($argument:ident: $type:ty),*);)*) => {
            $(
                pub(super) unsafe fn $name($($argument: $type),*) -> c_int {
                    static REAL: Real = Real::new($text);
                    // SAFETY: the prototype in mpi.h; the caller keeps its contract.
                    unsafe { REAL.call::<unsafe extern "C" fn($($type),*) -> c_int>()($($argument),*) }
                }
            )*
        };
    }
    mpi! {
        comm_test_inter c"PMPI_Comm_test_inter" (comm: Handle, inter: *mut c_int);
        comm_size c"PMPI_Comm_size" (comm: Handle, size: *mut c_int);
        comm_rank c"PMPI_Comm_rank" (comm: Handle, rank: *mut c_int);
        allgather c"PMPI_Allgather" (
            mine: *const c_void, count: c_int, kind: Handle, all: *mut c_void, each: c_int, kinds: Handle, comm: Handle
        );
        comm_call_errhandler c"PMPI_Comm_call_errhandler" (comm: Handle, code: c_int);
        info_get c"PMPI_Info_get" (info: Handle, key: *const libc::c_char, room: c_int, value: *mut libc::c_char, there: *mut c_int);
        win_create c"PMPI_Win_create" (base: *mut c_void, size: Aint, unit: c_int, info: Handle, comm: Handle, win: *mut c_void);
        win_create_c c"PMPI_Win_create_c" (base: *mut c_void, size: Aint, unit: Aint, info: Handle, comm: Handle, win: *mut c_void);
    }

    /// The values of all ranks.
    ///
    /// # Safety
    /// A communicator of `ranks` ranks, all of which do this; `T` is plain data.
    pub(super) unsafe fn gather<T: Copy + Default>(mine: &T, ranks: usize, comm: Handle) -> Result<Vec<T>, c_int> {
        let mut all = vec![T::default(); ranks];
        let bytes = size_of::<T>() as c_int;
        // SAFETY: both buffers are as large as said.
        match unsafe { allgather(ptr::from_ref(mine).cast(), bytes, byte(), all.as_mut_ptr().cast(), bytes, byte(), comm) } {
            0 => Ok(all),
            code => Err(code),
        }
    }
}

/// Whether the info object asks for segments that need not be adjacent.
unsafe fn may_be_apart(info: Handle) -> bool {
    // SAFETY: the caller's info object.
    unsafe { info_is(info, c"alloc_shared_noncontig", c"true") }
}

/// Whether the info object has this key with this value.
///
/// # Safety
/// A handle of an info object.
unsafe fn info_is(info: Handle, key: &CStr, expected: &CStr) -> bool {
    // SAFETY: the caller's info object.
    unsafe { info_value(info, key, |value| value == expected.to_bytes()) == Some(true) }
}

/// What `read` finds in the value of a key, if the info object has it.
///
/// # Safety
/// A handle of an info object.
pub unsafe fn info_value<T>(info: Handle, key: &CStr, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
    if handle_of(info) == symbols::abi().handles.info_null.handle(symbols::variable) {
        return None;
    }
    let (mut value, mut there) = ([0u8; 64], 0);
    // SAFETY: the caller's info object; the value has one byte more than said, for the zero.
    let code = unsafe { mpi::info_get(info, key.as_ptr(), value.len() as c_int - 1, value.as_mut_ptr().cast(), &mut there) };
    let value = CStr::from_bytes_until_nul(&value).ok().filter(|_| code == 0 && there != 0)?;
    Some(read(value.to_bytes()))
}

/// A descriptor that is closed when it is dropped.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: the descriptor is ours.
            unsafe { libc::close(self.0) };
        }
    }
}

/// The first rank's file. It has no name, so that nothing of it stays behind however the ranks end.
fn own_file() -> File {
    // SAFETY: a constant string.
    File(unsafe { libc::memfd_create(c"narrows-window".as_ptr(), libc::MFD_CLOEXEC) })
}

/// Maps `length` bytes of the file of `first`.
fn map(file: &File, first: &Part, length: usize) -> Result<usize, Error> {
    let opened;
    let file = if file.0 >= 0 {
        file
    } else {
        if first.file < 0 {
            return Err(Error::from_raw_os_error(libc::EMFILE));
        }
        let path = CString::new(format!("/proc/{}/fd/{}", first.process, first.file)).expect("numbers have no zero byte");
        // SAFETY: a valid string.
        opened = File(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) });
        if opened.0 < 0 {
            return Err(Error::last_os_error());
        }
        &opened
    };
    // SAFETY: a new mapping at an address of the kernel's choice. All ranks give the file the same length.
    unsafe {
        if libc::ftruncate(file.0, length as libc::off_t) != 0 {
            return Err(Error::last_os_error());
        }
        match libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.0, 0) {
            libc::MAP_FAILED => Err(Error::last_os_error()),
            memory => Ok(memory as usize),
        }
    }
}

fn unmap(memory: usize, length: usize) {
    // SAFETY: what `map` returned; nobody may use a window's memory when it is freed.
    unsafe { libc::munmap(memory as *mut c_void, length) };
}

/// Makes the window; the MPI library's code, or `None` when the library itself must answer.
///
/// # Safety
/// Arguments as of MPI_Win_allocate_shared.
unsafe fn allocate(
    size: Aint,
    unit: Aint,
    info: Handle,
    comm: Handle,
    base: *mut *mut c_void,
    win: *mut c_void,
    long: bool,
) -> Option<c_int> {
    let (mut inter, mut ranks, mut me) = (0, 0, 0);
    // SAFETY: the caller's communicator and three ints.
    unsafe {
        for code in [mpi::comm_test_inter(comm, &mut inter), mpi::comm_size(comm, &mut ranks), mpi::comm_rank(comm, &mut me)] {
            if code != 0 {
                return Some(code);
            }
        }
    }
    if inter != 0 {
        return None;
    }
    let (ranks, me) = (ranks as usize, me as usize);
    let file = if me == 0 { own_file() } else { File(-1) };
    let mine = Part {
        size: size as i64,
        unit: unit as i64,
        node: i64::from(portals::node()),
        process: i64::from(std::process::id()),
        file: i64::from(file.0),
        // SAFETY: the caller's info object.
        apart: i64::from(unsafe { may_be_apart(info) }),
    };
    // SAFETY: all ranks of the communicator are in this call.
    let parts = match unsafe { mpi::gather(&mine, ranks, comm) } {
        Ok(parts) => parts,
        Err(code) => return Some(code),
    };
    if parts.iter().any(|part| part.node != mine.node) {
        return symbols::abi().refuses_shared_window.inspect(|&error| {
            // SAFETY: the caller's communicator. Its result says whether the handler was called.
            unsafe { mpi::comm_call_errhandler(comm, error) };
        });
    }
    let (starts, bytes) = layout(&parts)?;
    let length = bytes.max(1);
    let mapped = map(&file, &parts[0], length);
    let error = mapped.as_ref().err().map_or(0, |error| i64::from(error.raw_os_error().unwrap_or(libc::EIO)));
    // Nobody goes on before all have the memory: then the file may be closed, and an error is everybody's.
    // SAFETY: as above.
    let errors = unsafe { mpi::gather(&error, ranks, comm) };
    let memory = match (mapped, errors) {
        (Ok(memory), Ok(errors)) if errors.iter().all(|error| *error == 0) => memory,
        (mapped, errors) => {
            match mapped {
                Ok(memory) => unmap(memory, length),
                Err(error) => say!(
                    "a shared window of {bytes} bytes cannot be made: {error}; it needs memory of this computer, and /proc of the \
                     other ranks"
                ),
            }
            return errors.err();
        }
    };
    let segments: Vec<Segment> = starts
        .iter()
        .zip(&parts)
        .map(|(start, part)| Segment { address: memory + start, size: part.size as Aint, unit: part.unit as Aint })
        .collect();
    let own = segments[me].address as *mut c_void;
    // SAFETY: the memory is as large as said, and stays until the window is freed.
    unsafe {
        let code = match c_int::try_from(unit) {
            Ok(unit) if !long => mpi::win_create(own, size, unit, info, comm, win),
            _ => mpi::win_create_c(own, size, unit, info, comm, win),
        };
        if code != 0 {
            unmap(memory, length);
            return Some(code);
        }
        *base = own;
        windows().push(Window { handle: handle_at(win), memory, length, segments });
    }
    tell();
    Some(0)
}

/// Tells the simulator whether others look into this rank's memory.
fn tell() {
    let shares = windows().iter().any(|window| window.segments.len() > 1);
    portals::shares_memory(shares);
}

macro_rules! allocate_shared {
    ($($name:ident $text:literal $unit:ty, $call:literal, $long:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(size: Aint, unit: $unit, info: Handle, comm: Handle, base: *mut *mut c_void, win: *mut c_void) -> c_int {
                static REAL: Real = Real::new($text);
                type AllocateShared = unsafe extern "C" fn(Aint, $unit, Handle, Handle, *mut *mut c_void, *mut c_void) -> c_int;
                let mark = Mark::begin(id($call));
                mark.has_arguments(false, &[size as u64, unit as u64, info as u64, comm as u64, base as u64, win as u64]);
                // SAFETY: the prototype in mpi.h; arguments as they came.
                unsafe {
                    let real: AllocateShared = REAL.call();
                    constants(real as usize);
                    let made = if in_run() { allocate(size, unit as Aint, info, comm, base, win, $long) } else { None };
                    made.unwrap_or_else(|| real(size, unit, info, comm, base, win))
                }
            }
        )*
    };
}
allocate_shared! {
    MPI_Win_allocate_shared c"MPI_Win_allocate_shared" c_int, "MPI_Win_allocate_shared", false;
    PMPI_Win_allocate_shared c"PMPI_Win_allocate_shared" c_int, "MPI_Win_allocate_shared", false;
    MPI_Win_allocate_shared_c c"MPI_Win_allocate_shared_c" Aint, "MPI_Win_allocate_shared_c", true;
    PMPI_Win_allocate_shared_c c"PMPI_Win_allocate_shared_c" Aint, "MPI_Win_allocate_shared_c", true;
}

/// The segment of a rank; of MPI_PROC_NULL: the first that is not empty. `None`: not a window of ours, or no such rank.
fn segment(win: Handle, rank: c_int) -> Option<Segment> {
    let windows = windows();
    let window = windows.iter().find(|window| window.handle == handle_of(win))?;
    if rank == symbols::constants().proc_null {
        return window.segments.iter().find(|segment| segment.size > 0).or(window.segments.first()).copied();
    }
    window.segments.get(usize::try_from(rank).ok()?).copied()
}

macro_rules! shared_query {
    ($($name:ident $text:literal $unit:ty, $call:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(win: Handle, rank: c_int, size: *mut Aint, unit: *mut $unit, base: *mut *mut c_void) -> c_int {
                static REAL: Real = Real::new($text);
                let _mark = Mark::begin(id($call));
                // SAFETY: the prototype in mpi.h; the caller's results are filled.
                unsafe {
                    match segment(win, rank) {
                        Some(segment) => {
                            (*size, *unit, *base) = (segment.size, segment.unit as $unit, segment.address as *mut c_void);
                            0
                        }
                        None => REAL.call::<unsafe extern "C" fn(Handle, c_int, *mut Aint, *mut $unit, *mut *mut c_void) -> c_int>()(
                            win, rank, size, unit, base,
                        ),
                    }
                }
            }
        )*
    };
}
shared_query! {
    MPI_Win_shared_query c"MPI_Win_shared_query" c_int, "MPI_Win_shared_query";
    PMPI_Win_shared_query c"PMPI_Win_shared_query" c_int, "MPI_Win_shared_query";
    MPI_Win_shared_query_c c"MPI_Win_shared_query_c" Aint, "MPI_Win_shared_query_c";
    PMPI_Win_shared_query_c c"PMPI_Win_shared_query_c" Aint, "MPI_Win_shared_query_c";
}

macro_rules! free {
    ($($name:ident $text:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(win: *mut c_void) -> c_int {
                static REAL: Real = Real::new($text);
                let mark = Mark::begin(id("MPI_Win_free"));
                mark.has_arguments(false, &[win as u64]);
                // SAFETY: the prototype in mpi.h; `win` points to a handle.
                unsafe {
                    let real: unsafe extern "C" fn(*mut c_void) -> c_int = REAL.call();
                    let handle = if win.is_null() || !state::on() { 0 } else { handle_at(win) };
                    // Before the library may give the handle to another window.
                    let ours = {
                        let mut windows = windows();
                        windows.iter().position(|window| window.handle == handle).map(|at| windows.swap_remove(at))
                    };
                    let code = real(win);
                    match ours {
                        Some(window) if code == 0 => unmap(window.memory, window.length),
                        Some(window) => windows().push(window),
                        None => return code,
                    }
                    tell();
                    code
                }
            }
        )*
    };
}
free! { MPI_Win_free c"MPI_Win_free"; PMPI_Win_free c"PMPI_Win_free"; }

macro_rules! get_attr {
    ($($name:ident $text:literal;)*) => {
        $(
            /// The library has created the window, but its flavor is MPI_WIN_FLAVOR_SHARED.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name(win: Handle, key: c_int, value: *mut c_void, there: *mut c_int) -> c_int {
                static REAL: Real = Real::new($text);
                let _mark = Mark::begin(id("MPI_Win_get_attr"));
                // SAFETY: the prototype in mpi.h. The value is a pointer to an int that stays.
                unsafe {
                    let code = REAL.call::<unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut c_int) -> c_int>()(win, key, value, there);
                    let constants = symbols::constants();
                    if code == 0 && *there != 0 && key == constants.win_create_flavor && segment(win, 0).is_some() {
                        *value.cast::<*const c_int>() = &raw const constants.win_flavor_shared;
                    }
                    code
                }
            }
        )*
    };
}
get_attr! { MPI_Win_get_attr c"MPI_Win_get_attr"; PMPI_Win_get_attr c"PMPI_Win_get_attr"; }
