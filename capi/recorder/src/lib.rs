//! Preloaded into every rank of a stock MPI program: writes down its communication.
//!
//! It takes the MPI functions that send, receive, wait or are collective under their C and Fortran names, calls the
//! real ones and writes a record of 40 bytes per call (`narrows-record`) into a file of its rank, which is mapped into
//! memory: what was written is there when the rank is killed. `NARROWS_RECORD` is the folder; without it every function
//! forwards untouched.
//!
//! * `symbols.rs`: the functions, from their names to their shapes.
//! * `calls.rs`: the shapes of calls, their arguments, and what is done around each.
//! * `recorder.rs`: what was called, as records.
//! * `collectives.rs`: the same of collectives, among neighbours and between groups too.
//! * `guarded.rs`: a lock, where one is needed.
//! * `mpi.rs`: the MPI library in this process: constants, handles, the real functions.
//! * `requests.rs`: requests that are under way.
//! * `output.rs`: the file.
//! * `arch.rs`, `arch/`: the counter of each processor.
//! * `clock.rs`: real time, CPU time, or that of the simulated machine.

// A test executable made from these sources would define MPI_Send and its relatives for itself: it is empty.
#[cfg(not(test))]
mod arch;
#[cfg(not(test))]
mod calls;
#[cfg(not(test))]
mod clock;
#[cfg(not(test))]
mod collectives;
#[cfg(not(test))]
mod guarded;
#[cfg(not(test))]
mod mpi;
#[cfg(not(test))]
mod output;
#[cfg(not(test))]
mod recorder;
#[cfg(not(test))]
mod requests;
#[cfg(not(test))]
mod symbols;
