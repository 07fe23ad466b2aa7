//! What the MPI library says of handles: types, members of communicators, reduce operations.

use crate::symbols::{self, Real};
use narrows_facts::{Object, kind};
use std::ffi::{CStr, CString, c_int};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Longest name of a datatype with its zero byte: MPI_MAX_OBJECT_NAME is 128 in MPICH and the ABI of MPI 5.0, and 64 in
/// Open MPI (mpi.h).
const NAME: usize = 256;
/// Types within types that are looked at. Our own choice.
const DEEPEST: u32 = 16;

/// A datatype.
#[derive(Clone, Debug, Default)]
pub struct Type {
    /// Bytes of data.
    pub size: u64,
    /// Elements follow each other without gaps.
    pub dense: bool,
    /// From one element to the next.
    pub extent: i64,
    /// Where the bytes of an element lie, if there are gaps and it is known.
    pub pieces: Option<Arc<[(i64, u64)]>>,
    /// As in `narrows_facts::Signature`.
    pub kind: u32,
}

/// Longest type whose bytes are looked for, with its gaps. Our own choice: beyond that it takes milliseconds.
const LONGEST_TYPE: u64 = 1 << 20;

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
    COMM_NAME c"PMPI_Comm_get_name";
    COMM_SIZE c"PMPI_Comm_size";
    COMM_RANK c"PMPI_Comm_rank";
    COMM_REMOTE_SIZE c"PMPI_Comm_remote_size";
    COMM_INTER c"PMPI_Comm_test_inter";
    COMM_GROUP c"PMPI_Comm_group";
    COMM_REMOTE_GROUP c"PMPI_Comm_remote_group";
    GROUP_SIZE c"PMPI_Group_size";
    GROUP_TRANSLATE c"PMPI_Group_translate_ranks";
    GROUP_FREE c"PMPI_Group_free";
    GROUP_OF_SESSION c"PMPI_Group_from_session_pset";
    SESSION_INFO c"PMPI_Session_get_info";
    INFO_GET c"PMPI_Info_get";
    INFO_FREE c"PMPI_Info_free";
    QUERY_THREAD c"PMPI_Query_thread";
    PACK c"PMPI_Pack";
    TOPO_TEST c"PMPI_Topo_test";
    CARTDIM c"PMPI_Cartdim_get";
    CART_SHIFT c"PMPI_Cart_shift";
    GRAPH_COUNT c"PMPI_Graph_neighbors_count";
    GRAPH_NEIGHBORS c"PMPI_Graph_neighbors";
    DIST_COUNT c"PMPI_Dist_graph_neighbors_count";
    DIST_NEIGHBORS c"PMPI_Dist_graph_neighbors";
    GROUP_F2C c"PMPI_Group_f2c";
    COMM_F2C c"PMPI_Comm_f2c";
    TYPE_F2C c"PMPI_Type_f2c";
    REQUEST_F2C c"PMPI_Request_f2c";
    OP_F2C c"PMPI_Op_f2c";
    WIN_F2C c"PMPI_Win_f2c";
    SESSION_F2C c"PMPI_Session_f2c";
    INFO_F2C c"PMPI_Info_f2c";
}

/// Kinds of handles.
#[derive(Clone, Copy, Debug)]
pub enum Handle {
    Communicator,
    Datatype,
    Request,
    Operation,
    Window,
    Group,
    Session,
    Info,
}

impl From<Object> for Handle {
    fn from(object: Object) -> Handle {
        match object {
            Object::Communicator => Handle::Communicator,
            Object::Datatype => Handle::Datatype,
            Object::Window => Handle::Window,
            Object::Request => Handle::Request,
            Object::Group => Handle::Group,
            Object::Operation => Handle::Operation,
            Object::Info => Handle::Info,
        }
    }
}

/// Whether a group has no members: MPI_GROUP_EMPTY, for one, which nobody frees.
pub fn is_empty(group: u64) -> bool {
    integer(&GROUP_SIZE, group) <= 0
}

/// The handle of C for one of Fortran.
pub fn from_fortran(what: Handle, handle: i32) -> u64 {
    if symbols::abi().int_handles {
        // mpi.h of MPICH: MPI_Comm_f2c and its like are casts.
        return u64::from(handle as u32);
    }
    let real = match what {
        Handle::Communicator => &COMM_F2C,
        Handle::Datatype => &TYPE_F2C,
        Handle::Request => &REQUEST_F2C,
        Handle::Operation => &OP_F2C,
        Handle::Window => &WIN_F2C,
        Handle::Group => &GROUP_F2C,
        Handle::Session => &SESSION_F2C,
        Handle::Info => &INFO_F2C,
    };
    // SAFETY: the type of these functions, whose handles are addresses.
    unsafe { real.get::<extern "C" fn(c_int) -> u64>() }.map_or(0, |convert| convert(handle))
}

/// MPI_COMM_WORLD and MPI_COMM_SELF.
pub fn predefined() -> [u64; 2] {
    let handles = &symbols::abi().handles;
    [handles.comm_world, handles.comm_self].map(|known| known.handle(symbols::variable))
}

/// MPI_COMM_NULL, MPI_WIN_NULL and zero, which is none.
pub fn is_null(handle: u64) -> bool {
    let handles = &symbols::abi().handles;
    handle == 0 || [handles.comm_null, handles.win_null].iter().any(|known| known.handle(symbols::variable) == handle)
}

/// The group of all ranks for a program that has sessions only, and no MPI_COMM_WORLD; 0: there is one.
static EVERYBODY: AtomicU64 = AtomicU64::new(0);

/// The program has this session and no MPI_COMM_WORLD. What threads may call MPI; `None`: the library does not say who
/// everybody is.
pub fn session(session: u64) -> Option<Level> {
    let mut group = 0u64;
    let mut everybody = true;
    everybody &= call(&GROUP_OF_SESSION, [session, c"mpi://WORLD".as_ptr() as u64, to(&mut group), 0, 0]);
    if !everybody {
        return None;
    }
    EVERYBODY.store(group, Relaxed);
    // MPI 4.1, section 11.3.1: the level that was provided is in the session's info.
    let (mut info, mut flag) = (0u64, 0 as c_int);
    let mut value = [0u8; 64];
    let told = call(&SESSION_INFO, [session, to(&mut info), 0, 0, 0])
        && call(&INFO_GET, [info, c"thread_level".as_ptr() as u64, value.len() as u64 - 1, value.as_mut_ptr() as u64, to(&mut flag)]);
    call(&INFO_FREE, [to(&mut info), 0, 0, 0, 0]);
    let value = CStr::from_bytes_until_nul(&value).unwrap_or_default().to_bytes();
    Some(match value {
        b"MPI_THREAD_SINGLE" | b"MPI_THREAD_FUNNELED" if told => Level::Funneled,
        b"MPI_THREAD_SERIALIZED" if told => Level::Serialized,
        _ => Level::Multiple,
    })
}

/// The last session is going to end.
pub fn session_ends() {
    let mut group = EVERYBODY.swap(0, Relaxed);
    if group != 0 {
        call(&GROUP_FREE, [to(&mut group), 0, 0, 0, 0]);
    }
}

/// What threads may call MPI.
pub fn level() -> Level {
    let mut provided: c_int = 0;
    call(&QUERY_THREAD, [to(&mut provided), 0, 0, 0, 0]);
    match provided {
        level if level >= symbols::constants().thread_multiple => Level::Multiple,
        level if level >= symbols::constants().thread_serialized => Level::Serialized,
        _ => Level::Funneled,
    }
}

/// Levels of thread support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// MPI_THREAD_SINGLE and MPI_THREAD_FUNNELED: only the thread that has initialised MPI.
    Funneled,
    /// One at a time.
    Serialized,
    /// All of them.
    Multiple,
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

/// Ranks of the other group of a communicator, and this rank in its own.
pub fn others_of(communicator: u64) -> (usize, usize) {
    (integer(&COMM_REMOTE_SIZE, communicator).max(0) as usize, integer(&COMM_RANK, communicator).max(0) as usize)
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
    let mut group = 0u64;
    call(which, [communicator, to(&mut group), 0, 0, 0]);
    let ranks = ranks(group);
    call(&GROUP_FREE, [to(&mut group), 0, 0, 0, 0]);
    ranks
}

/// The members of a group as ranks of MPI_COMM_WORLD.
pub fn ranks(group: u64) -> Vec<u32> {
    let everybody = EVERYBODY.load(Relaxed);
    let mut all = everybody;
    if everybody == 0 {
        call(&COMM_GROUP, [predefined()[0], to(&mut all), 0, 0, 0]);
    }
    let size = integer(&GROUP_SIZE, group).max(0);
    let own: Vec<c_int> = (0..size).collect();
    let mut ranks = vec![-1 as c_int; size as usize];
    call(&GROUP_TRANSLATE, [group, size as u64, own.as_ptr() as u64, all, ranks.as_mut_ptr() as u64]);
    if everybody == 0 {
        call(&GROUP_FREE, [to(&mut all), 0, 0, 0, 0]);
    }
    ranks.into_iter().map(|rank| rank as u32).collect()
}

/// The neighbours of this rank: from whom it gets, and to whom it gives, in the order of neighbourhood collectives (MPI
/// 4.1, section 8.6).
pub fn neighbours(communicator: u64) -> Option<(Vec<i32>, Vec<i32>)> {
    let constants = symbols::constants();
    let topology = integer(&TOPO_TEST, communicator);
    let [cart, graph, distributed] = constants.topologies;
    if topology == cart {
        let mut all = Vec::new();
        for dimension in 0..integer(&CARTDIM, communicator).max(0) {
            let (mut before, mut behind) = (constants.proc_null, constants.proc_null);
            call(&CART_SHIFT, [communicator, dimension as u64, 1, to(&mut before), to(&mut behind)]);
            all.extend([before, behind]);
        }
        return Some((all.clone(), all));
    }
    if topology == graph {
        let rank = place_in(communicator).1 as u64;
        let mut count: c_int = 0;
        call(&GRAPH_COUNT, [communicator, rank, to(&mut count), 0, 0]);
        let mut all = vec![constants.proc_null; count.max(0) as usize];
        call(&GRAPH_NEIGHBORS, [communicator, rank, count as u64, all.as_mut_ptr() as u64, 0]);
        return Some((all.clone(), all));
    }
    if topology != distributed {
        return None;
    }
    let (mut sources, mut targets, mut weighted): (c_int, c_int, c_int) = (0, 0, 0);
    call(&DIST_COUNT, [communicator, to(&mut sources), to(&mut targets), to(&mut weighted), 0]);
    let (sources, targets) = (sources.max(0) as usize, targets.max(0) as usize);
    let (mut from, mut with) = (vec![constants.proc_null; sources], vec![0 as c_int; sources]);
    let (mut into, mut weights) = (vec![constants.proc_null; targets], vec![0 as c_int; targets]);
    // Seven arguments: the last one goes over the stack.
    // SAFETY: the prototype in mpi.h, with room for as many as there are; handles are no longer than 8 bytes.
    unsafe {
        type Neighbors = extern "C" fn(u64, c_int, *mut c_int, *mut c_int, c_int, *mut c_int, *mut c_int) -> c_int;
        let neighbors = DIST_NEIGHBORS.get::<Neighbors>()?;
        let (from, with) = (from.as_mut_ptr(), with.as_mut_ptr());
        if neighbors(communicator, sources as c_int, from, with, targets as c_int, into.as_mut_ptr(), weights.as_mut_ptr()) != 0 {
            return None;
        }
    }
    Some((from, into))
}

/// Where the bytes of one element lie, in the order in which they are sent: the library packs buffers that say of each
/// byte where it is. `None` if it is too long, or cannot be said.
fn layout(handle: u64, size: u64, lower: i64, extent: u64) -> Option<Vec<(i64, u64)>> {
    if size == 0 || size > extent || extent > LONGEST_TYPE {
        return None;
    }
    let mut places = vec![0u64; size as usize];
    for byte in 0..3 {
        let buffer: Vec<u8> = (0..extent).map(|place| (place >> (8 * byte)) as u8).collect();
        let mut packed = vec![0u8; size as usize];
        let mut position: c_int = 0;
        let start = (buffer.as_ptr() as u64).wrapping_add_signed(-lower);
        // SAFETY: the prototype in mpi.h; the type has its bytes within the buffer, and there is room for all of them.
        let code = unsafe {
            type Pack = extern "C" fn(u64, c_int, u64, *mut u8, c_int, *mut c_int, u64) -> c_int;
            PACK.get::<Pack>()?(start, 1, handle, packed.as_mut_ptr(), size as c_int, &raw mut position, predefined()[1])
        };
        if code != 0 || position as u64 != size {
            return None;
        }
        places.iter_mut().zip(packed).for_each(|(place, part)| *place |= u64::from(part) << (8 * byte));
    }
    Some(places.chunk_by(|a, b| a + 1 == *b).map(|piece| (lower + piece[0] as i64, piece.len() as u64)).collect())
}

/// A datatype, looked up in the library.
pub fn look_up_type(handle: u64) -> Type {
    let size = integer(&TYPE_SIZE, handle).max(0) as u64;
    let (mut lower, mut extent, mut true_lower, mut true_extent) = (0i64, 0i64, 0i64, 0i64);
    let known = call(&TYPE_EXTENT, [handle, to(&mut lower), to(&mut extent), 0, 0])
        && call(&TYPE_TRUE_EXTENT, [handle, to(&mut true_lower), to(&mut true_extent), 0, 0]);
    let dense = known && true_extent as u64 == size && true_lower == 0 && lower == 0 && extent as u64 == size;
    let whole = known && !dense;
    let pieces = if whole { layout(handle, size, true_lower, true_extent.max(0) as u64) } else { None };
    Type { size, dense, extent, pieces: pieces.map(Arc::from), kind: kind_of(handle, size, 0) }
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
    // Seven arguments: the last one goes over the stack.
    // SAFETY: the prototype in mpi.h, with room for as much as the envelope says; handles are no longer than 8 bytes.
    unsafe {
        type Contents = extern "C" fn(u64, c_int, c_int, c_int, *mut c_int, *mut i64, *mut u64) -> c_int;
        let Some(contents) = TYPE_CONTENTS.get::<Contents>() else { return 0 };
        if contents(handle, integers as c_int, addresses as c_int, types as c_int, a.as_mut_ptr(), b.as_mut_ptr(), c.as_mut_ptr()) != 0 {
            return 0;
        }
    }
    let abi = symbols::abi();
    // SAFETY: as many handles, one behind the other, as the library has written.
    let children = (0..types).map(|index| unsafe { abi.handle_at(abi.handle_place(c.as_ptr() as u64, index)) });
    let (mut found, mut several) = (None, false);
    for mut child in children {
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

/// The name of a datatype.
pub fn name_of_type(handle: u64) -> CString {
    name(&TYPE_NAME, handle)
}

/// The name of a communicator.
pub fn name_of_communicator(handle: u64) -> CString {
    name(&COMM_NAME, handle)
}

fn name(real: &Real, handle: u64) -> CString {
    let (mut name, mut length) = ([0u8; NAME], 0 as c_int);
    call(real, [handle, name.as_mut_ptr() as u64, to(&mut length), 0, 0]);
    CStr::from_bytes_until_nul(&name).unwrap_or_default().to_owned()
}

fn kind_by_name(handle: u64, size: u64) -> u32 {
    let name = name_of_type(handle);
    let name = name.to_bytes();
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

/// A reduce operation's place in [`narrows_facts::OPERATIONS`], whose first two are not predefined.
pub fn operation(handle: u64) -> u32 {
    let mut known = symbols::abi().handles.operations.iter();
    known.position(|operation| operation.handle(symbols::variable) == handle).map_or(1, |place| place as u32 + 2)
}
