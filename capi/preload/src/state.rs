//! What this process and this thread are in.

use narrows_mpicalls::{CALLS, Class};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// One thread.
pub struct Thread {
    /// Stack address of the outermost marked MPI call, 0 outside.
    pub outer: Cell<usize>,
    /// Index in `narrows_mpicalls::CALLS` of that call.
    pub call: Cell<u32>,
    /// Calls into libportals.so under way.
    guard: Cell<u32>,
    /// Started by the MPI library for itself.
    pub runtime: Cell<bool>,
    /// Has called MPI_Init.
    pub rank: Cell<bool>,
    /// Locks that the MPI library has inside its call, if several threads may be in one.
    pub locks: Cell<u32>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread { outer: Cell::new(0), call: Cell::new(0), guard: Cell::new(0), runtime: Cell::new(false), rank: Cell::new(false), locks: Cell::new(0) }
    };
}

/// The calling thread. Constant initialisation and no destructor: this is a plain access to static thread-local memory.
pub fn thread<T>(read: impl FnOnce(&Thread) -> T) -> T {
    THREAD.with(read)
}

/// Runs a function of libportals.so; clocks that it reads are real, and errno is as before.
pub fn guarded<T>(call: impl FnOnce() -> T) -> T {
    thread(|thread| thread.guard.set(thread.guard.get() + 1));
    // SAFETY: errno of this thread.
    let errno = unsafe { *libc::__errno_location() };
    let result = call();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    thread(|thread| thread.guard.set(thread.guard.get() - 1));
    result
}

/// 0: not looked up yet, 1: forwarding only, 2: part of a run.
static MODE: AtomicU8 = AtomicU8::new(0);
static STARTED: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicBool = AtomicBool::new(false);
/// The process in which MPI_Init has returned, 0 before.
static RANK: AtomicI32 = AtomicI32::new(0);

/// Whether this process is part of a run. Constructors of other libraries may ask before ours has run.
pub fn on() -> bool {
    match MODE.load(Relaxed) {
        0 => {
            // SAFETY: a constant name; nobody changes this variable.
            let set = unsafe { !libc::getenv(c"NARROWS_CHANNEL".as_ptr()).is_null() };
            MODE.store(1 + u8::from(set), Relaxed);
            set
        }
        mode => mode == 2,
    }
}

/// Called when the constructors of all libraries have run.
pub fn now_started() {
    STARTED.store(true, Relaxed);
}

/// Called when MPI_Init has returned.
pub fn now_initialised() {
    // SAFETY: no arguments.
    RANK.store(unsafe { libc::getpid() }, Relaxed);
}

/// Whether MPI_Init has returned.
pub fn initialised() -> bool {
    RANK.load(Relaxed) != 0
}

/// Whether this is the process in which MPI_Init has returned, and not a child that has its memory: not even one of
/// `vfork`.
pub fn is_rank() -> bool {
    // SAFETY: no arguments.
    RANK.load(Relaxed) == unsafe { libc::getpid() }
}

/// Whether this process has left the simulation: a child of `fork`, which looks like the rank while the rank goes on
/// elsewhere, or a process that is ending.
pub fn left() -> bool {
    LEFT.load(Relaxed)
}

/// Called when that happens.
pub fn now_left() {
    LEFT.store(true, Relaxed);
}

/// Whether the caller is the program itself: not the MPI library inside a call or in a thread of its own, nor
/// libportals.so, nor the constructor of a library before the program begins.
pub fn in_program() -> bool {
    on() && STARTED.load(Relaxed) && thread(|thread| thread.outer.get() == 0 && thread.guard.get() == 0 && !thread.runtime.get())
}

/// Whether the caller is inside an MPI call of a process that is part of a run.
pub fn in_mpi() -> bool {
    on() && thread(|thread| thread.outer.get() != 0)
}

/// Whether the caller is inside an MPI call that waits for things outside the simulated network, such as MPI_Init.
pub fn waits_outside() -> bool {
    in_mpi() && CALLS[thread(|thread| thread.call.get()) as usize].class == Class::Outside
}

/// Whether libportals.so is running in this thread.
pub fn in_guard() -> bool {
    thread(|thread| thread.guard.get() != 0)
}

/// Whether threads that the caller starts belong to the MPI library.
pub fn starts_runtime_threads() -> bool {
    on() && thread(|thread| thread.outer.get() != 0 || thread.guard.get() != 0 || thread.runtime.get())
}

/// Takes a lock that others have for a moment, without falling asleep: a thread that has just been woken, or that ends,
/// must not seem to wait for something else.
pub fn awake<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            // SAFETY: no arguments. Not the function, which is ours.
            Err(TryLockError::WouldBlock) => unsafe { libc::syscall(libc::SYS_sched_yield) },
        };
    }
}
