//! Preloaded into every rank: marks around MPI calls, virtual time, and the simulated machine as the program sees it.
//!
//! Nothing here knows about the simulation. It is a layer between the program and the libraries that it was linked
//! with: it takes the symbols of the same name first (`LD_PRELOAD`), asks libportals.so (found beside this file) what
//! to say, and forwards. Without `NARROWS_CHANNEL` in the environment every function forwards untouched.
//!
//! * `trampoline.rs`: every `MPI_*`, `PMPI_*`, `mpi_*_`, `mpi_*_f08_` and `mpi_*_f08ts_` symbol. `build.rs` writes the
//!   list from `narrows-mpicalls`; one piece of assembly serves all.
//! * `arch.rs`, `arch/`: that assembly, for each processor.
//! * `symbols.rs`: the real function behind a symbol, wherever the MPI library was loaded.
//! * `special.rs`: the few MPI calls whose arguments or results change (`MPI_Wtime`, `MPI_Init_thread`, ...).
//! * `clock.rs`: reading clocks, `sleep.rs`: sleeping and waiting with a deadline.
//! * `machine.rs`: host name and number of cores.
//! * `threads.rs`: which threads belong to the MPI library; `main`, `fork` and `exit`.
//! * `meet.rs`: clocks of threads that wait for each other; `pthreads.rs`: by POSIX' means, `openmp.rs`: by those of
//!   OpenMP.
//! * `baton.rs`: waits of threads of which one runs at a time; `dispatch.rs`: those that libraries make by themselves.
//! * `descriptors.rs`: waiting at sockets and pipes for other ranks.
//! * `name.rs`: the program's name as the user wrote it.
//! * `net/`: sockets on the simulated network.
//! * `exec.rs`: our libraries stay where a script preloads its own.
//! * `files.rs`: a file that would only cost time, one that would stay behind, and non-blocking access.
//! * `handlers.rs`: receives that handlers on the NIC are to see.
//! * `launcher.rs`: barriers of programs without MPI.
//! * `windows.rs`: windows of memory that the ranks of a node share.
//! * `peers.rs`: the launcher's answer to who else is on this node.
//! * `place.rs`: places in the program that are the same in every run.
//! * `pml.rs`: blocking sends of Open MPI, if several threads may call it.
//! * `state.rs`: what this process and this thread are in.
//! * `check.rs`: what a check wants to know of calls, `check/`: types, places.
//! * `portals.rs`: the functions of libportals.so that are called.
//!
//! # Which time a caller gets
//!
//! | caller | time |
//! |---|---|
//! | thread of the MPI library (started inside an MPI call), code of the MPI library inside a call | real |
//! | constructors of libraries before the program begins | real |
//! | program before MPI_Init has returned | starts at 2026-01-01 00:00:00 UTC, each read takes 100 us; sleeping is real and moves it |
//! | program until MPI_Finalize | that, plus the thread's simulated clock |
//! | program afterwards | goes on from there, each read takes 1 us; sleeping is real and moves it |
//! | child of `fork` without `exec`; destructors in `exit` | goes on from there at real speed |
//!
//! # Limits
//!
//! * `rdtsc`, direct system calls and reads of `/proc` and `/sys` are not seen.
//! * Timers (`alarm`, `timer_create`, `timerfd_create`) run in real time, and so do time-outs of `poll` and `select`
//!   with descriptors that no other rank can be behind.
//! * Of the C library's own streams (`fgets`, `getaddrinfo`) no wait is seen.
//! * A thread made by C11's `thrd_create` has a clock from its first look at it on, and joining it is not seen. Nor are
//!   waits by a futex of the program's own (`std::atomic::wait`), spin locks, and loops that wait for memory.
//! * Code of the program that runs inside an MPI call (reduction functions, attribute callbacks) reads real time,
//!   except through MPI_Wtime.
//! * `longjmp` or an exception out of an MPI call ends its mark at the next MPI call of that thread.
//! * MPI_Win_get_attr says that a shared window was made by MPI_Win_allocate_shared in C only.
//! * MPI_Comm_split_type answers for the simulated machine, whose nodes have one package and one NUMA domain, and a
//!   core for each rank. Neighbourhoods of MPICH see the machine that really runs the program. All ranks must ask for
//!   the same type or MPI_UNDEFINED.
//! * `/proc/cpuinfo` describes the host that really runs the program. The simulated host name resolves to `localhost`,
//!   names of other simulated hosts do not.
//! * Partners in marks are ranks of the communicator of the call.
//! * Symbols are found by name: functions that the program has linked in statically are its own.

#[global_allocator]
static HEAP: narrows_heap::Heap = narrows_heap::Heap;

// A test executable made from these sources would define clock_gettime and its relatives for itself: it is empty.
#[cfg(not(test))]
mod affinity;
#[cfg(not(test))]
mod arch;
#[cfg(not(test))]
mod baton;
#[cfg(not(test))]
mod caller;
#[cfg(not(test))]
mod check;
#[cfg(not(test))]
mod clock;
#[cfg(not(test))]
mod descriptors;
#[cfg(all(not(test), target_arch = "x86_64"))]
mod dispatch;
/// qemu's user mode has none.
#[cfg(all(not(test), not(target_arch = "x86_64")))]
mod dispatch {
    pub fn prepare() {}
    pub fn begin() {}
}
#[cfg(not(test))]
mod exec;
#[cfg(not(test))]
mod files;
#[cfg(not(test))]
mod handlers;
#[cfg(not(test))]
mod launcher;
#[cfg(not(test))]
mod line;
#[cfg(not(test))]
mod machine;
#[cfg(not(test))]
mod meet;
#[cfg(not(test))]
mod name;
#[cfg(not(test))]
mod net;
#[cfg(not(test))]
mod offload;
#[cfg(not(test))]
mod openmp;
#[cfg(not(test))]
mod peers;
#[cfg(not(test))]
mod place;
#[cfg(not(test))]
mod places;
#[cfg(not(test))]
mod pml;
#[cfg(not(test))]
mod portals;
#[cfg(not(test))]
mod progress;
#[cfg(not(test))]
mod pthreads;
#[cfg(not(test))]
mod sleep;
#[cfg(not(test))]
mod special;
#[cfg(not(test))]
mod state;
#[cfg(not(test))]
mod symbols;
#[cfg(not(test))]
mod threads;
#[cfg(not(test))]
mod trampoline;
#[cfg(not(test))]
mod windows;
