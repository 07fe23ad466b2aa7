//! MPI_Allreduce by the NICs, where the rules of the machine give it to `exanet-accelerator`.
//!
//! The mark around the call stays as it is; in place of the library's function it calls [`allreduce`], which hands on
//! what the accelerator does not take: other communicators than MPI_COMM_WORLD, other types than `int`, `float` and
//! `double`, other operations than sum, smallest and largest, vectors that are empty or longer than the rules say.

use crate::portals;
use crate::special::{Handle, id, in_run};
use crate::symbols::{self, Real, Symbol};
use libc::{c_int, c_void};
use narrows_mpilib as mpilib;
use std::sync::OnceLock;

/// Operation and type as Portals numbers them (`portals4.h`).
const MIN: u32 = 0;
const MAX: u32 = 1;
const SUM: u32 = 2;
const INT32: u32 = 4;
const FLOAT: u32 = 6;
const DOUBLE: u32 = 9;

/// Handles of the MPI library.
struct Handles {
    world: u64,
    /// With the number of the type, and its size.
    types: [(u64, u32, u64); 3],
    operations: [(u64, u32); 3],
    in_place: u64,
}

impl Handles {
    fn look_up() -> Handles {
        let abi = symbols::abi();
        let handles = &abi.handles;
        let [int, float, double] = [handles.int, handles.float, handles.double].map(|known| known.handle(symbols::variable));
        let [min, max, sum] = [mpilib::MIN, mpilib::MAX, mpilib::SUM].map(|at| handles.operations[at].handle(symbols::variable));
        Handles {
            world: handles.comm_world.handle(symbols::variable),
            types: [(int, INT32, 4), (float, FLOAT, 4), (double, DOUBLE, 8)],
            operations: [(min, MIN), (max, MAX), (sum, SUM)],
            in_place: abi.constants.in_place,
        }
    }
}

/// The longest vector of which the run asks for it, bytes; 0: none.
fn longest() -> u64 {
    static LONGEST: OnceLock<u64> = OnceLock::new();
    *LONGEST.get_or_init(|| std::env::var("NARROWS_OFFLOAD").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
}

/// The function of ours that is called in place of a library's.
pub fn instead(symbol: &Symbol) -> Option<usize> {
    static ALLREDUCE: OnceLock<u32> = OnceLock::new();
    if longest() == 0 || symbol.fortran || !in_run() || symbol.id() != *ALLREDUCE.get_or_init(|| id("MPI_Allreduce")) {
        return None;
    }
    // The library that the program calls is known by its function.
    symbols::learn(symbol.function());
    let function: Allreduce = allreduce;
    Some(function as usize)
}

type Allreduce = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle) -> c_int;

/// MPI_Allreduce.
///
/// # Safety
/// The contract of MPI_Allreduce.
unsafe extern "C" fn allreduce(
    send: *const c_void,
    receive: *mut c_void,
    count: c_int,
    kind: Handle,
    operation: Handle,
    comm: Handle,
) -> c_int {
    static REAL: Real = Real::new(c"PMPI_Allreduce");
    if offered(send, receive, count, kind, operation, comm) {
        return 0;
    }
    // SAFETY: the prototype in mpi.h; arguments as they came.
    unsafe { REAL.call::<Allreduce>()(send, receive, count, kind, operation, comm) }
}

/// Whether the accelerator has done it.
fn offered(send: *const c_void, receive: *mut c_void, count: c_int, kind: Handle, operation: Handle, comm: Handle) -> bool {
    static HANDLES: OnceLock<Handles> = OnceLock::new();
    let handles = HANDLES.get_or_init(Handles::look_up);
    let number = |handle: Handle| symbols::abi().handle_of(handle as u64);
    let Some(&(_, datatype, size)) = handles.types.iter().find(|known| known.0 == number(kind)) else { return false };
    let Some(&(_, operation)) = handles.operations.iter().find(|known| known.0 == number(operation)) else { return false };
    let bytes = count.max(0) as u64 * size;
    if number(comm) != handles.world || bytes == 0 || bytes > longest() || receive.is_null() || send.is_null() {
        return false;
    }
    let source = if send as u64 == handles.in_place { receive as u64 } else { send as u64 };
    portals::reduce(source, receive as u64, bytes, operation, datatype)
}
