//! Threads of the program wait for each other: what POSIX has for that.

use crate::baton::{self, FOR_EVER, Kind};
use crate::descriptors::keeping_errno;
use crate::line;
use crate::meet;
use crate::places::Rounds;
use crate::symbols::real;
use crate::{portals, state, symbols};
use libc::{
    EBUSY, c_int, c_uint, c_void, clockid_t, pthread_barrier_t, pthread_barrierattr_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t,
    pthread_t, sem_t, timespec,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

mod next {
    use super::*;
    unsafe extern "C" {
        pub fn narrows_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int;
        pub fn narrows_mutex_trylock(mutex: *mut pthread_mutex_t) -> c_int;
        pub fn narrows_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int;
        pub fn narrows_rdlock(lock: *mut pthread_rwlock_t) -> c_int;
        pub fn narrows_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int;
        pub fn narrows_wrlock(lock: *mut pthread_rwlock_t) -> c_int;
        pub fn narrows_trywrlock(lock: *mut pthread_rwlock_t) -> c_int;
        pub fn narrows_rwlock_unlock(lock: *mut pthread_rwlock_t) -> c_int;
    }
    real! {
        fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int;
        fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int;
        fn pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, deadline: *const timespec) -> c_int;
        fn pthread_clockjoin_np(thread: pthread_t, result: *mut *mut c_void, clock: clockid_t, deadline: *const timespec) -> c_int;
        #[version = c"GLIBC_2.3.2"]
        fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int;
        #[version = c"GLIBC_2.3.2"]
        fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int;
        #[version = c"GLIBC_2.3.2"]
        fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int;
        fn pthread_barrier_init(barrier: *mut pthread_barrier_t, attributes: *const pthread_barrierattr_t, count: c_uint) -> c_int;
        fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int;
        fn sem_wait(semaphore: *mut sem_t) -> c_int;
        fn sem_trywait(semaphore: *mut sem_t) -> c_int;
        fn sem_post(semaphore: *mut sem_t) -> c_int;
    }
}

/// Clocks of threads that have ended, until they are joined.
static ENDED: Mutex<BTreeMap<pthread_t, u64>> = Mutex::new(BTreeMap::new());

fn ended() -> MutexGuard<'static, BTreeMap<pthread_t, u64>> {
    state::awake(&ENDED)
}

/// The calling thread ends.
pub fn note_end() {
    meet::thread_ends();
    let clock = portals::thread_ends();
    // SAFETY: no arguments.
    ended().insert(unsafe { libc::pthread_self() }, clock);
}

/// A thread of that number begins: one that had it before was never joined.
pub fn note_begin() {
    // SAFETY: no arguments.
    ended().remove(&unsafe { libc::pthread_self() });
}

fn join(thread: pthread_t, join: impl FnOnce() -> c_int) -> c_int {
    if !meet::threads() {
        let code = join();
        if code == 0 {
            baton::note_joined(thread);
        }
        return code;
    }
    portals::thread_waits();
    let code = join();
    portals::thread_goes_on(if code == 0 { ended().remove(&thread).unwrap_or(0) } else { 0 });
    if code == EBUSY {
        meet::may_spin(thread as usize);
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    baton::join(thread, FOR_EVER);
    // SAFETY: forwarded as it came.
    join(thread, || unsafe { next::pthread_join(thread, result) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    if !baton::join(thread, 0) {
        meet::may_spin(thread as usize);
        return EBUSY;
    }
    if baton::here() {
        // It has ended, and the kernel may not have said so.
        // SAFETY: forwarded as it came.
        return join(thread, || unsafe { next::pthread_join(thread, result) });
    }
    // SAFETY: forwarded as it came.
    join(thread, || unsafe { next::pthread_tryjoin_np(thread, result) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, deadline: *const timespec) -> c_int {
    // SAFETY: forwarded as it came.
    join(thread, || unsafe { next::pthread_timedjoin_np(thread, result, deadline) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_clockjoin_np(
    thread: pthread_t,
    result: *mut *mut c_void,
    clock: clockid_t,
    deadline: *const timespec,
) -> c_int {
    // SAFETY: forwarded as it came.
    join(thread, || unsafe { next::pthread_clockjoin_np(thread, result, clock, deadline) })
}

/// Whether the caller is the MPI library, in a call in which it shares its locks with other threads of the program.
fn in_library() -> bool {
    portals::multiple() && state::in_mpi() && !state::in_guard() && !state::waits_outside() && !state::left()
}

fn count_lock(code: c_int) -> c_int {
    if code == 0 {
        state::thread(|thread| thread.locks.set(thread.locks.get() + 1));
    }
    code
}

/// Whether that was the last one.
fn count_unlock() -> bool {
    state::thread(|thread| {
        let left = thread.locks.get().saturating_sub(1);
        thread.locks.set(left);
        left == 0
    })
}

/// A lock of the library may be kept by a thread that waits. One that is taken by a thread of the library's own is soon
/// free.
unsafe fn lock_in_library(mutex: *mut pthread_mutex_t) -> c_int {
    loop {
        let seen = portals::thread_wakes_so_far();
        // SAFETY: as it came.
        let code = unsafe { next::narrows_mutex_trylock(mutex) };
        if code != EBUSY {
            return count_lock(code);
        }
        if portals::waits_for_lock() {
            continue;
        }
        if Kind::Mutex.here_or_in_library(mutex as usize) {
            portals::thread_blocks(mutex as usize, FOR_EVER, seen);
        } else {
            // SAFETY: as it came.
            return count_lock(unsafe { next::narrows_mutex_lock(mutex) });
        }
    }
}

/// A function that locks, with one argument: `$from` is told the address of its caller too.
macro_rules! with_caller {
    ($($name:ident $from:ident;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(lock: *mut c_void) -> c_int {
                crate::arch::caller_second!($from)
            }
        )*
    };
}

with_caller! {
    pthread_mutex_lock mutex_lock;
    pthread_mutex_trylock mutex_trylock;
    pthread_rwlock_rdlock rdlock;
    pthread_rwlock_wrlock wrlock;
}

unsafe extern "C" fn mutex_lock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: forwarded as it came. A lock that was free is taken at once.
    unsafe {
        if in_library() {
            return lock_in_library(mutex);
        }
        if Kind::Mutex.here_or_in_library(mutex as usize) {
            return take_mutex(mutex);
        }
        if !meet::threads() {
            return next::narrows_mutex_lock(mutex);
        }
        let place = mutex as usize;
        if !line::is_there(place) || is_owner(mutex) {
            match next::narrows_mutex_trylock(mutex) {
                EBUSY => {}
                code => return locked(place, code, caller),
            }
        }
        meet::takes(place, true, caller);
        meet::wait(&[place], || line::stand(place, || next::narrows_mutex_lock(mutex)))
    }
}

/// Where one thread runs at a time.
unsafe fn take_mutex(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: forwarded as it came.
    let (tries, waits) = (|| unsafe { next::narrows_mutex_trylock(mutex) }, || unsafe { next::narrows_mutex_lock(mutex) });
    // SAFETY: the same. The owner of one that can be taken again has it at once, and of others an error.
    if unsafe { is_owner(mutex) } { waits() } else { baton::take(mutex as usize, FOR_EVER, tries, waits) }
}

/// At a condition, where one thread runs at a time.
pub unsafe fn wait_at(cond: usize, mutex: usize, until: u64) -> c_int {
    let lock = mutex as *mut pthread_mutex_t;
    // SAFETY: the mutex of a condition that the program waits at.
    baton::wait_at(cond, mutex, until, || unsafe { next::narrows_mutex_unlock(lock) }, || unsafe { mutex_lock(lock, 0) })
}

/// The `caller` has tried to take the lock at `place`, with that result.
fn locked(place: usize, code: c_int, caller: usize) -> c_int {
    if code == 0 {
        meet::takes(place, false, caller);
    }
    code
}

/// Whether the calling thread has the lock already, and takes it once more.
unsafe fn is_owner(mutex: *mut pthread_mutex_t) -> bool {
    /// Of `__data.__owner`: <bits/struct_mutex.h> of the GNU C library.
    const OWNER: usize = 8;
    // SAFETY: a mutex of the program's; only whether the word is the own number matters, and only the own thread writes
    // or clears that.
    unsafe { mutex.byte_add(OWNER).cast::<libc::pid_t>().read_volatile() == libc::gettid() }
}

/// Unlocks a mutex and locks it again, as a wait at a condition that is over at once. The code of the first that fails.
pub fn give_and_take(mutex: usize) -> c_int {
    let mutex = mutex as *mut pthread_mutex_t;
    // SAFETY: the mutex of a condition that the program waits at.
    unsafe {
        match pthread_mutex_unlock(mutex) {
            0 => mutex_lock(mutex, 0),
            code => code,
        }
    }
}

unsafe extern "C" fn mutex_trylock(mutex: *mut pthread_mutex_t, caller: usize) -> c_int {
    // SAFETY: forwarded as it came.
    let code = unsafe { next::narrows_mutex_trylock(mutex) };
    if in_library() {
        return count_lock(code);
    }
    if code == EBUSY {
        meet::may_spin(mutex as usize);
    }
    if meet::threads() && code == EBUSY {
        meet::takes(mutex as usize, true, caller);
    } else if meet::threads() {
        locked(mutex as usize, code, caller);
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int {
    meet::release(mutex as usize);
    // SAFETY: forwarded as it came.
    let code = unsafe { next::narrows_mutex_unlock(mutex) };
    baton::wakes(mutex as usize, 1);
    if in_library() {
        let last = count_unlock();
        if symbols::abi().own_locks {
            portals::gives_lock();
        } else if last {
            portals::without_locks();
        }
    }
    meet::may_spin(mutex as usize);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_signal(cond: *mut pthread_cond_t) -> c_int {
    meet::release(cond as usize);
    if baton::wakes(cond as usize, 1) != 0 {
        return 0;
    }
    // SAFETY: forwarded as it came.
    let code = unsafe { next::pthread_cond_signal(cond) };
    if portals::multiple() {
        portals::signals(cond as usize);
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_broadcast(cond: *mut pthread_cond_t) -> c_int {
    meet::release(cond as usize);
    baton::wakes(cond as usize, usize::MAX);
    // SAFETY: forwarded as it came.
    let code = unsafe { next::pthread_cond_broadcast(cond) };
    if portals::multiple() {
        portals::signals(cond as usize);
    }
    code
}

/// Functions that wait if trying to do the same says `busy`.
macro_rules! locks {
    ($($name:ident($lock:ident: $type:ty), $real:ident, $try:ident;)*) => {
        $(
            unsafe extern "C" fn $name($lock: *mut $type, caller: usize) -> c_int {
                // SAFETY: forwarded as it came. A lock that was free is taken at once.
                unsafe {
                    if Kind::Lock.here($lock as usize) {
                        return baton::take($lock as usize, FOR_EVER, || next::$try($lock), || next::$real($lock));
                    }
                    if !meet::threads() {
                        return next::$real($lock);
                    }
                    match next::$try($lock) {
                        EBUSY => {
                            meet::takes($lock as usize, true, caller);
                            meet::wait(&[$lock as usize], || next::$real($lock))
                        }
                        code => code,
                    }
                }
            }
        )*
    };
}

locks! {
    rdlock(lock: pthread_rwlock_t), narrows_rdlock, narrows_tryrdlock;
    wrlock(lock: pthread_rwlock_t), narrows_wrlock, narrows_trywrlock;
}

/// Functions that let others go on.
macro_rules! releases {
    ($($name:ident($place:ident: $type:ty), $real:ident, $most:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($place: *mut $type) -> c_int {
                meet::release($place as usize);
                // SAFETY: forwarded as it came.
                let code = unsafe { next::$real($place) };
                baton::wakes($place as usize, $most);
                meet::may_spin($place as usize);
                code
            }
        )*
    };
}

releases! {
    pthread_rwlock_unlock(lock: pthread_rwlock_t), narrows_rwlock_unlock, usize::MAX;
    sem_post(semaphore: sem_t), sem_post, 1;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    if in_library() && portals::expects_signal(cond as usize) {
        // SAFETY: forwarded as it came. Who waits for a signal may return without one: pthread_cond_wait(3).
        return unsafe {
            next::narrows_mutex_unlock(mutex);
            let keeps = !count_unlock();
            portals::gives_lock();
            portals::waits_for_signal(keeps);
            lock_in_library(mutex)
        };
    }
    if Kind::Condition.here(cond as usize) {
        // SAFETY: forwarded as it came.
        return unsafe { wait_at(cond as usize, mutex as usize, FOR_EVER) };
    }
    if !meet::threads() {
        // SAFETY: forwarded as it came.
        return unsafe { next::pthread_cond_wait(cond, mutex) };
    }
    meet::release(mutex as usize);
    // It has the mutex again when its last owner has given it back.
    // SAFETY: forwarded as it came.
    meet::wait_for_release(&[cond as usize, mutex as usize], || unsafe { next::pthread_cond_wait(cond, mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: forwarded as it came; errno is this thread's.
    unsafe {
        if Kind::Semaphore.here(semaphore as usize) {
            let tries = || keeping_errno(|| if next::sem_trywait(semaphore) == 0 { 0 } else { EBUSY });
            return baton::take(semaphore as usize, FOR_EVER, tries, || next::sem_wait(semaphore));
        }
        if !meet::threads() {
            return next::sem_wait(semaphore);
        }
        let errno = *libc::__errno_location();
        if next::sem_trywait(semaphore) == 0 {
            return 0;
        }
        *libc::__errno_location() = errno;
        meet::wait_for_release(&[semaphore as usize], || next::sem_wait(semaphore))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_trywait(semaphore: *mut sem_t) -> c_int {
    // SAFETY: forwarded as it came.
    let code = unsafe { next::sem_trywait(semaphore) };
    if code != 0 {
        keeping_errno(|| meet::may_spin(semaphore as usize));
    }
    code
}

struct Barrier {
    count: u64,
    arrived: u64,
    rounds: Rounds,
}

/// By address. What is known of one stays when it is destroyed: threads that have just left it may not have looked yet.
static BARRIERS: Mutex<BTreeMap<usize, Barrier>> = Mutex::new(BTreeMap::new());

fn barriers() -> MutexGuard<'static, BTreeMap<usize, Barrier>> {
    state::awake(&BARRIERS)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut pthread_barrier_t,
    attributes: *const pthread_barrierattr_t,
    count: c_uint,
) -> c_int {
    // SAFETY: forwarded as it came.
    let code = unsafe { next::pthread_barrier_init(barrier, attributes, count) };
    if code == 0 && state::on() && state::in_program() {
        baton::note_barrier(barrier as usize, u64::from(count));
        barriers().insert(barrier as usize, Barrier { count: u64::from(count), arrived: 0, rounds: Rounds::default() });
    }
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    if meet::has_threads()
        && baton::possible()
        && let Some(last) = baton::meets(barrier as usize)
    {
        return if last { libc::PTHREAD_BARRIER_SERIAL_THREAD } else { 0 };
    }
    if !meet::threads() {
        // SAFETY: forwarded as it came.
        return unsafe { next::pthread_barrier_wait(barrier) };
    }
    let clock = portals::thread_clock();
    let round = barriers().get_mut(&(barrier as usize)).map(|known| {
        let round = known.arrived / known.count;
        known.arrived += 1;
        known.rounds.come(round, clock);
        round
    });
    portals::thread_waits();
    // SAFETY: forwarded as it came.
    let code = unsafe { next::pthread_barrier_wait(barrier) };
    let latest = round.and_then(|round| barriers().get(&(barrier as usize)).map(|known| known.rounds.latest(round)));
    portals::thread_goes_on(latest.unwrap_or(0));
    code
}
