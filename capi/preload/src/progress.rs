//! Progress of the MPI library outside its calls.
//!
//! A rank that has reached MPI_Finalize waits there for the others, who may still need its answers: the request of a
//! receive may have been freed, and the data of a long message come only when the receiver's library asks for them.

use crate::symbols;
use std::ffi::c_int;
use std::sync::OnceLock;

/// Libraries have engines of their own that do one step in each pass.
const PASSES: u32 = 8;
/// From the mpi.h of MPICH 5.0.2.
const MPIX_STREAM_NULL: c_int = 0x3c00_0000;

enum Engine {
    /// `void opal_progress(void)`, Open MPI 4 and 5.
    OpenMpi(unsafe extern "C" fn()),
    /// `int PMPIX_Stream_progress(MPIX_Stream)`, MPICH 4.1 and later.
    Mpich(unsafe extern "C" fn(c_int) -> c_int),
    /// A library without either: what it does in MPI_Finalize must do.
    None,
}

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let (open_mpi, mpich) = (symbols::find(c"opal_progress"), symbols::find(c"PMPIX_Stream_progress"));
        // SAFETY: the types of these functions, see above.
        unsafe {
            match (open_mpi, mpich) {
                (0, 0) => Engine::None,
                (0, mpich) => Engine::Mpich(std::mem::transmute::<usize, unsafe extern "C" fn(c_int) -> c_int>(mpich)),
                (open_mpi, _) => Engine::OpenMpi(std::mem::transmute::<usize, unsafe extern "C" fn()>(open_mpi)),
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
                Engine::None => return,
            }
        }
    }
}
