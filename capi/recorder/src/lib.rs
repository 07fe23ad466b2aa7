//! Preloaded into every rank of a stock MPI program: writes down its communication.
//!
//! It takes the MPI functions that send, receive, wait or are collective under their C and Fortran names, calls the real ones and
//! writes a record of 40 bytes per call (`narrows-record`) into a file of its rank, which is mapped into memory: what was
//! written is there when the rank is killed. `NARROWS_RECORD` is the folder; without it every function forwards untouched.
//!
//! * `symbols.rs`: the functions, from their names to their shapes.
//! * `calls.rs`: around a call: what it does, in records.
//! * `guarded.rs`: a lock, where one is needed.
//! * `mpi.rs`: the MPI library in this process: constants, handles, the real functions.
//! * `requests.rs`: requests that are under way.
//! * `output.rs`: the file.
//! * `clock.rs`: real time, CPU time, or that of the simulated machine.

// A test executable made from these sources would define MPI_Send and its relatives for itself: it is empty.
#[cfg(not(test))]
mod calls;
#[cfg(not(test))]
mod clock;
#[cfg(not(test))]
mod guarded;
#[cfg(not(test))]
mod mpi;
#[cfg(not(test))]
mod output;
#[cfg(not(test))]
mod requests;
#[cfg(not(test))]
mod symbols;
