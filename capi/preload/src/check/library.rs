//! What the MPI library says of handles: types, members of communicators, reduce operations.

use crate::symbols::{self, Real};
use narrows_facts::{OPERATIONS, kind};
use narrows_mpilib::Flavor;
use std::ffi::{CStr, c_int};
use std::ptr;

/// Longest name of a datatype with its zero byte: MPI_MAX_OBJECT_NAME is 128 in MPICH and the ABI of MPI 5.0, and 64 in
/// Open MPI (mpi.h).
const NAME: usize = 256;
/// Types within types that are looked at. Our own choice.
const DEEPEST: u32 = 16;

/// A datatype.
#[derive(Clone, Copy, Debug, Default)]
pub struct Type {
    /// Bytes of data.
    pub size: u64,
    /// Elements follow each other without gaps.
    pub dense: bool,
    /// One element is in one piece, which begins so far behind its address.
    pub piece: Option<i64>,
    /// As in `narrows_facts::Signature`.
    pub kind: u32,
}

/// Calls a function of MPI with up to five arguments, numbers or addresses; false if there is none or it fails.
fn call(real: &Real, a: [u64; 5]) -> bool {
    // SAFETY: integer arguments are passed in registers, one each; the function ignores those that it does not have.
    // The callers pass what it takes.
    unsafe {
        let function: Option<extern "C" fn(u64, u64, u64, u64, u64) -> c_int> = real.get();
        function.is_some_and(|function| function(a[0], a[1], a[2], a[3], a[4]) == 0)
    }
}

fn to<T>(value: &mut T) -> u64 {
    ptr::from_mut(value) as u64
}

macro_rules! reals {
    ($($name:ident $text:literal;)*) => { $(static $name: Real = Real::new($text);)* };
}
reals! {
    TYPE_SIZE c"PMPI_Type_size";
    TYPE_EXTENT c"PMPI_Type_get_extent";
    TYPE_TRUE_EXTENT c"PMPI_Type_get_true_extent";
    TYPE_NAME c"PMPI_Type_get_name";
    TYPE_ENVELOPE c"PMPI_Type_get_envelope";
    TYPE_CONTENTS c"PMPI_Type_get_contents";
    TYPE_FREE c"PMPI_Type_free";
    COMM_SIZE c"PMPI_Comm_size";
    COMM_RANK c"PMPI_Comm_rank";
    COMM_INTER c"PMPI_Comm_test_inter";
    COMM_GROUP c"PMPI_Comm_group";
    COMM_REMOTE_GROUP c"PMPI_Comm_remote_group";
    GROUP_SIZE c"PMPI_Group_size";
    GROUP_TRANSLATE c"PMPI_Group_translate_ranks";
    GROUP_FREE c"PMPI_Group_free";
    QUERY_THREAD c"PMPI_Query_thread";
    COMM_F2C c"PMPI_Comm_f2c";
    TYPE_F2C c"PMPI_Type_f2c";
    REQUEST_F2C c"PMPI_Request_f2c";
    OP_F2C c"PMPI_Op_f2c";
    WIN_F2C c"PMPI_Win_f2c";
}

/// Kinds of handles.
#[derive(Clone, Copy, Debug)]
pub enum Handle {
    Communicator,
    Datatype,
    Request,
    Operation,
    Window,
}

/// The handle of C for one of Fortran.
pub fn from_fortran(what: Handle, handle: i32) -> u64 {
    if symbols::flavor() == Flavor::Mpich {
        // They are the same numbers (mpi.h: MPI_Comm_f2c and its like are casts).
        return u64::from(handle as u32);
    }
    let real = match what {
        Handle::Communicator => &COMM_F2C,
        Handle::Datatype => &TYPE_F2C,
        Handle::Request => &REQUEST_F2C,
        Handle::Operation => &OP_F2C,
        Handle::Window => &WIN_F2C,
    };
    // SAFETY: the type of these functions, whose handles are addresses.
    unsafe { real.get::<extern "C" fn(c_int) -> u64>() }.map_or(0, |convert| convert(handle))
}

/// MPI_COMM_WORLD and MPI_COMM_SELF.
pub fn predefined() -> [u64; 2] {
    match symbols::flavor() {
        Flavor::OpenMpi => [c"ompi_mpi_comm_world", c"ompi_mpi_comm_self"].map(|name| symbols::variable(name) as u64),
        // mpi.h of MPICH 5.0.2, and its mpi_abi.h.
        Flavor::Mpich => [0x4400_0000, 0x4400_0001],
        Flavor::Standard => [0x101, 0x102],
    }
}

/// MPI_COMM_NULL, MPI_WIN_NULL and zero, which is none.
pub fn is_null(handle: u64) -> bool {
    handle == 0
        || match symbols::flavor() {
            Flavor::OpenMpi => [c"ompi_mpi_comm_null", c"ompi_mpi_win_null"].iter().any(|name| symbols::variable(name) as u64 == handle),
            Flavor::Mpich => [0x0400_0000, 0x2000_0000].contains(&handle),
            Flavor::Standard => [0x100, 0x110].contains(&handle),
        }
}

/// Whether several threads may call MPI at once.
pub fn is_threaded() -> bool {
    let mut provided: c_int = 0;
    call(&QUERY_THREAD, [to(&mut provided), 0, 0, 0, 0]);
    provided >= symbols::constants().thread_multiple
}

fn integer(real: &Real, handle: u64) -> i32 {
    let mut value: c_int = 0;
    call(real, [handle, to(&mut value), 0, 0, 0]);
    value
}

/// Ranks of a communicator, and which of them this one is.
pub fn place_in(communicator: u64) -> (usize, usize) {
    (integer(&COMM_SIZE, communicator).max(0) as usize, integer(&COMM_RANK, communicator).max(0) as usize)
}

/// Whether it connects two groups.
pub fn is_inter(communicator: u64) -> bool {
    integer(&COMM_INTER, communicator) != 0
}

/// The members of a communicator as ranks of MPI_COMM_WORLD, and those of the other group.
pub fn members(communicator: u64) -> (Vec<u32>, Vec<u32>) {
    let own = group(&COMM_GROUP, communicator);
    let remote = if is_inter(communicator) { group(&COMM_REMOTE_GROUP, communicator) } else { Vec::new() };
    (own, remote)
}

fn group(which: &Real, communicator: u64) -> Vec<u32> {
    let (mut all, mut group) = (0u64, 0u64);
    call(&COMM_GROUP, [predefined()[0], to(&mut all), 0, 0, 0]);
    call(which, [communicator, to(&mut group), 0, 0, 0]);
    let size = integer(&GROUP_SIZE, group).max(0);
    let own: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![-1 as c_int; size as usize];
    call(&GROUP_TRANSLATE, [group, size as u64, own.as_ptr() as u64, all, ranks.as_mut_ptr() as u64]);
    call(&GROUP_FREE, [to(&mut group), 0, 0, 0, 0]);
    call(&GROUP_FREE, [to(&mut all), 0, 0, 0, 0]);
    ranks.into_iter().map(|rank| rank as u32).collect()
}

/// A datatype, looked up in the library.
pub fn look_up_type(handle: u64) -> Type {
    let size = integer(&TYPE_SIZE, handle).max(0) as u64;
    let (mut lower, mut extent, mut true_lower, mut true_extent) = (0i64, 0i64, 0i64, 0i64);
    let known = call(&TYPE_EXTENT, [handle, to(&mut lower), to(&mut extent), 0, 0])
        && call(&TYPE_TRUE_EXTENT, [handle, to(&mut true_lower), to(&mut true_extent), 0, 0]);
    let piece = (known && true_extent as u64 == size).then_some(true_lower);
    let dense = piece == Some(0) && lower == 0 && extent as u64 == size;
    Type { size, dense, piece, kind: kind_of(handle, size, 0) }
}

/// The kind of a type's elements, 0 if there are several, or it matches everything.
fn kind_of(handle: u64, size: u64, depth: u32) -> u32 {
    let mut numbers = [0 as c_int; 4];
    let [integers, addresses, types, combiner] = &mut numbers;
    if depth > DEEPEST || !call(&TYPE_ENVELOPE, [handle, to(integers), to(addresses), to(types), to(combiner)]) {
        return 0;
    }
    let [integers, addresses, types, _] = numbers.map(|number| number.max(0) as usize);
    if types == 0 {
        // A predefined one has nothing in it; those of MPI_Type_create_f90_real and its like have their precision.
        return if integers == 0 { kind_by_name(handle, size) } else { 0 };
    }
    let (mut a, mut b, mut c) = (vec![0 as c_int; integers], vec![0i64; addresses], vec![0u64; types]);
    let mpich = symbols::flavor() == Flavor::Mpich;
    // Seven arguments: the last one goes over the stack.
    // SAFETY: the prototype in mpi.h, with room for as much as the envelope says; handles are no longer than 8 bytes.
    unsafe {
        type Contents = extern "C" fn(u64, c_int, c_int, c_int, *mut c_int, *mut i64, *mut u64) -> c_int;
        let Some(contents) = TYPE_CONTENTS.get::<Contents>() else { return 0 };
        if contents(handle, integers as c_int, addresses as c_int, types as c_int, a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()) != 0 {
            return 0;
        }
    }
    if mpich {
        // Ints, one behind the other.
        c = (0..types).map(|index| c[index / 2] >> (index % 2 * 32) & 0xffff_ffff).collect();
    }
    let (mut found, mut several) = (None, false);
    for &(mut child) in &c {
        let size = integer(&TYPE_SIZE, child).max(0) as u64;
        if size > 0 {
            let kind = kind_of(child, size, depth + 1);
            several |= kind == 0 || found.is_some_and(|found| found != kind);
            found = Some(kind);
        }
        // What is not predefined is another reference, which must be freed (MPI 4.1, section 5.1.13).
        if is_derived(child) {
            call(&TYPE_FREE, [to(&mut child), 0, 0, 0, 0]);
        }
    }
    if several { 0 } else { found.unwrap_or(0) }
}

fn is_derived(handle: u64) -> bool {
    let mut numbers = [0 as c_int; 4];
    let [integers, addresses, types, combiner] = &mut numbers;
    call(&TYPE_ENVELOPE, [handle, to(integers), to(addresses), to(types), to(combiner)]) && numbers[2] > 0
}

fn kind_by_name(handle: u64, size: u64) -> u32 {
    let (mut name, mut length) = ([0u8; NAME], 0 as c_int);
    call(&TYPE_NAME, [handle, name.as_mut_ptr() as u64, to(&mut length), 0, 0]);
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_bytes();
    let Some(name) = name.strip_prefix(b"MPI_") else { return 0 };
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let number = if name == b"BYTE" || name == b"PACKED" || name.starts_with(b"2") || name.ends_with(b"_INT") && !has(b"UNSIGNED") {
        // Anything, or a pair; MPI_LONG_LONG_INT is an integer and no pair.
        return if name == b"LONG_LONG_INT" { kind::of(kind::INTEGER, 8) } else { 0 };
    } else if has(b"COMPLEX") {
        kind::COMPLEX
    } else if has(b"REAL") || has(b"DOUBLE") || has(b"FLOAT") {
        kind::REAL
    } else {
        kind::INTEGER
    };
    kind::of(number, size as u32 & 0xffff)
}

/// A reduce operation's place in [`OPERATIONS`].
pub fn operation(handle: u64) -> u32 {
    let place = match symbols::flavor() {
        Flavor::OpenMpi => OPERATIONS.iter().skip(2).position(|name| {
            let symbol = format!("ompi_mpi_op_{}\0", name.trim_start_matches("MPI_").to_lowercase());
            CStr::from_bytes_until_nul(symbol.as_bytes()).is_ok_and(|symbol| symbols::variable(symbol) as u64 == handle)
        }),
        // mpi.h of MPICH 5.0.2: numbered as in the list.
        Flavor::Mpich => (0x5800_0001..=0x5800_000e).contains(&handle).then(|| (handle & 0xff) as usize - 1),
        // mpi_abi.h of MPICH 5.0.2.
        Flavor::Standard => {
            const NUMBERS: [u64; 14] = [0x23, 0x22, 0x21, 0x24, 0x30, 0x28, 0x31, 0x29, 0x32, 0x2a, 0x38, 0x39, 0x3c, 0x3d];
            NUMBERS.iter().position(|&number| number == handle)
        }
    };
    place.map_or(1, |place| place as u32 + 2)
}

/// Whether a Fortran program says by this address that it wants no status, or that its buffer is in place.
pub fn fortran_constant(address: u64, names: &[&CStr], variables: &[&CStr]) -> bool {
    let direct = names.iter().map(|name| symbols::variable(name));
    // MPICH: variables with the addresses.
    let behind = variables.iter().map(|name| match symbols::variable(name) {
        0 => 0,
        // SAFETY: a variable that holds an address.
        place => unsafe { *(place as *const usize) },
    });
    direct.chain(behind).any(|known| known != 0 && known as u64 == address)
}
