//! Progress of the MPI library outside its calls.
//!
//! A rank that has reached MPI_Finalize waits there for the others, who may still need its answers: the request of a
//! receive may have been freed, and the data of a long message come only when the receiver's library asks for them.

use crate::symbols;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::OnceLock;

/// Libraries have engines of their own that do one step in each pass.
const PASSES: u32 = 8;
/// From the mpi.h of MPICH 5.0.2.
const MPIX_STREAM_NULL: c_int = 0x3c00_0000;

/// A request that ends when the program says so, and what looks whether it has: progress without a message (MPI 2.0).
struct Generalized {
    start: Start,
    test: Test,
    complete: Complete,
}

type Start = unsafe extern "C" fn(Query, Free, Cancel, *mut c_void, *mut c_int) -> c_int;
type Test = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_void) -> c_int;
type Complete = unsafe extern "C" fn(c_int) -> c_int;

type Query = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Free = extern "C" fn(*mut c_void) -> c_int;
type Cancel = extern "C" fn(*mut c_void, c_int) -> c_int;

extern "C" fn query(_extra: *mut c_void, _status: *mut c_void) -> c_int {
    0
}

extern "C" fn free(_extra: *mut c_void) -> c_int {
    0
}

extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

impl Generalized {
    /// Of a library whose handles are ints.
    fn find() -> Option<Generalized> {
        let [start, test, complete] = [c"PMPI_Grequest_start", c"PMPI_Test", c"PMPI_Grequest_complete"].map(symbols::find);
        if !symbols::abi().int_handles || [start, test, complete].contains(&0) {
            return None;
        }
        // SAFETY: the prototypes of mpi.h, with handles as numbers.
        unsafe {
            Some(Generalized {
                start: transmute::<usize, Start>(start),
                test: transmute::<usize, Test>(test),
                complete: transmute::<usize, Complete>(complete),
            })
        }
    }

    /// # Safety
    /// Between MPI_Init and MPI_Finalize.
    unsafe fn progress(&self) {
        let (mut request, mut done) = (0, 0);
        let nobody = ptr::without_provenance_mut(symbols::constants().ignore as usize);
        // SAFETY: the functions of the library, as MPI wants them to be called; none of ours needs what it gets.
        unsafe {
            if (self.start)(query, free, cancel, ptr::null_mut(), &raw mut request) != 0 {
                return;
            }
            for _ in 0..PASSES {
                (self.test)(&raw mut request, &raw mut done, nobody);
            }
            (self.complete)(request);
            (self.test)(&raw mut request, &raw mut done, nobody);
        }
    }
}

enum Engine {
    /// `void opal_progress(void)`, Open MPI 4 and 5.
    OpenMpi(unsafe extern "C" fn()),
    /// `int PMPIX_Stream_progress(MPIX_Stream)`, MPICH 4.1 and later.
    Mpich(unsafe extern "C" fn(c_int) -> c_int),
    /// A relative of MPICH without that: Intel MPI 2021.
    Generalized(Generalized),
    /// A library without any: what it does in MPI_Finalize must do.
    None,
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let (open_mpi, mpich) = (symbols::find(c"opal_progress"), symbols::find(c"PMPIX_Stream_progress"));
        // SAFETY: the types of these functions, see above.
        unsafe {
            match (open_mpi, mpich) {
                (0, 0) => Generalized::find().map_or(Engine::None, Engine::Generalized),
                (0, mpich) => Engine::Mpich(transmute::<usize, unsafe extern "C" fn(c_int) -> c_int>(mpich)),
                (open_mpi, _) => Engine::OpenMpi(transmute::<usize, unsafe extern "C" fn()>(open_mpi)),
            }
        }
    })
}

/// Lets the MPI library look at what has come. Between MPI_Init and MPI_Finalize only.
pub fn run() {
    for _ in 0..PASSES {
        // SAFETY: both may be called by any thread while the library is initialised.
        unsafe {
            match engine() {
                Engine::OpenMpi(progress) => progress(),
                Engine::Mpich(progress) => {
                    progress(MPIX_STREAM_NULL);
                }
                Engine::Generalized(requests) => return requests.progress(),
                Engine::None => return,
            }
        }
    }
}
