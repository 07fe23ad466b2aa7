//! To which cores of the simulated node the program's threads are bound. That has no effect, but programs read it back.

use crate::machine::cores;
use crate::state;
use crate::symbols::real;
use libc::{c_int, cpu_set_t, pid_t, pthread_attr_t, pthread_t, size_t};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

mod next {
    use super::*;
    real! {
        fn sched_getaffinity(pid: pid_t, size: size_t, set: *mut cpu_set_t) -> c_int;
        fn sched_setaffinity(pid: pid_t, size: size_t, set: *const cpu_set_t) -> c_int;
        fn pthread_getaffinity_np(thread: pthread_t, size: size_t, set: *mut cpu_set_t) -> c_int;
        fn pthread_setaffinity_np(thread: pthread_t, size: size_t, set: *const cpu_set_t) -> c_int;
        fn pthread_attr_init(attributes: *mut pthread_attr_t) -> c_int;
        fn pthread_attr_destroy(attributes: *mut pthread_attr_t) -> c_int;
        fn pthread_attr_getaffinity_np(attributes: *const pthread_attr_t, size: size_t, set: *mut cpu_set_t) -> c_int;
        fn pthread_attr_setaffinity_np(attributes: *mut pthread_attr_t, size: size_t, set: *const cpu_set_t) -> c_int;
    }
}

/// Bits in a mask of the size that programs use (`CPU_SETSIZE`, sched.h); wider sets are not remembered beyond it.
const MASK_WORDS: usize = 1024 / 64;

/// Cores of the node.
pub type Mask = [u64; MASK_WORDS];

/// What threads are bound to, by their numbers of POSIX; those that are not here may run anywhere.
static THREADS: Mutex<BTreeMap<pthread_t, Mask>> = Mutex::new(BTreeMap::new());
/// What attributes of threads to be made say, by address.
static ATTRIBUTES: Mutex<BTreeMap<usize, Mask>> = Mutex::new(BTreeMap::new());

fn locked<T>(table: &'static Mutex<T>) -> MutexGuard<'static, T> {
    state::awake(table)
}

fn own() -> pthread_t {
    // SAFETY: no arguments.
    unsafe { libc::pthread_self() }
}

fn of_thread(thread: pthread_t) -> Option<Mask> {
    locked(&THREADS).get(&thread).copied()
}

fn bind(thread: pthread_t, mask: Option<Mask>) {
    let mut threads = locked(&THREADS);
    match mask {
        Some(mask) => threads.insert(thread, mask),
        None => threads.remove(&thread),
    };
}

/// None of the node's cores: nothing can run there.
pub fn is_empty(mask: Mask) -> bool {
    mask.iter().all(|word| *word == 0)
}

/// What a thread that is made with `attributes` is bound to: what they say, else what its maker is.
pub fn of_new(attributes: *const pthread_attr_t) -> Option<Mask> {
    let said = locked(&ATTRIBUTES).get(&(attributes as usize)).copied();
    said.or_else(|| of_thread(own()))
}

/// It was made. It may have begun, and have bound itself to something else.
pub fn made(thread: pthread_t, mask: Mask) {
    locked(&THREADS).entry(thread).or_insert(mask);
}

/// The calling thread begins.
pub fn begins(mask: Option<Mask>) {
    bind(own(), mask);
}

/// It ends.
pub fn ends() {
    bind(own(), None);
}

/// Whether a process or thread id means the calling thread.
fn is_self(pid: pid_t) -> bool {
    // SAFETY: no arguments.
    pid == 0 || pid == unsafe { libc::getpid() } || i64::from(pid) == unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Fills the set as the kernel would on the simulated node; an errno value otherwise.
unsafe fn get(cores: usize, bound: Option<Mask>, size: size_t, set: *mut cpu_set_t) -> c_int {
    // The kernel refuses sets that cannot hold all cores: sched_getaffinity(2).
    if size * 8 < cores || set.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's set has `size` bytes.
    unsafe {
        ptr::write_bytes(set.cast::<u8>(), 0, size);
        for core in 0..cores {
            if bound.is_none_or(|mask| mask.get(core / 64).is_some_and(|word| word >> (core % 64) & 1 == 1)) {
                *set.cast::<u8>().add(core / 8) |= 1 << (core % 8);
            }
        }
    }
    0
}

/// What of the set are cores of the node.
unsafe fn mask_of(cores: usize, size: size_t, set: *const cpu_set_t) -> Mask {
    let mut mask = [0; MASK_WORDS];
    for core in 0..cores.min(size * 8).min(MASK_WORDS * 64) {
        // SAFETY: the caller's set has `size` bytes.
        if !set.is_null() && unsafe { *set.cast::<u8>().add(core / 8) } >> (core % 8) & 1 == 1 {
            mask[core / 64] |= 1 << (core % 64);
        }
    }
    mask
}

/// Notes the set for a thread; EINVAL if it has none of the node's cores, as the kernel would.
unsafe fn set(cores: usize, thread: pthread_t, size: size_t, set: *const cpu_set_t) -> c_int {
    // SAFETY: the caller's set has `size` bytes.
    let mask = unsafe { mask_of(cores, size, set) };
    if is_empty(mask) {
        return libc::EINVAL;
    }
    bind(thread, Some(mask));
    0
}

fn with_errno(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = error };
    -1
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(pid: pid_t, size: size_t, found: *mut cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match cores().filter(|_| is_self(pid)) {
            Some(cores) => with_errno(get(cores, of_thread(own()), size, found)),
            None => next::sched_getaffinity(pid, size, found),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_setaffinity(pid: pid_t, size: size_t, wanted: *const cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match cores().filter(|_| is_self(pid)) {
            Some(cores) => with_errno(set(cores, own(), size, wanted)),
            None => next::sched_setaffinity(pid, size, wanted),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getaffinity_np(thread: pthread_t, size: size_t, found: *mut cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match cores() {
            Some(cores) => get(cores, of_thread(thread), size, found),
            None => next::pthread_getaffinity_np(thread, size, found),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setaffinity_np(thread: pthread_t, size: size_t, wanted: *const cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        match cores() {
            Some(cores) => set(cores, thread, size, wanted),
            None => next::pthread_setaffinity_np(thread, size, wanted),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_init(attributes: *mut pthread_attr_t) -> c_int {
    locked(&ATTRIBUTES).remove(&(attributes as usize));
    // SAFETY: the caller's contract.
    unsafe { next::pthread_attr_init(attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_destroy(attributes: *mut pthread_attr_t) -> c_int {
    locked(&ATTRIBUTES).remove(&(attributes as usize));
    // SAFETY: the caller's contract.
    unsafe { next::pthread_attr_destroy(attributes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getaffinity_np(attributes: *const pthread_attr_t, size: size_t, found: *mut cpu_set_t) -> c_int {
    let said = locked(&ATTRIBUTES).get(&(attributes as usize)).copied();
    // SAFETY: the caller's contract.
    unsafe {
        match cores() {
            Some(cores) if said.is_some() => get(cores, said, size, found),
            _ => next::pthread_attr_getaffinity_np(attributes, size, found),
        }
    }
}

/// The host's kernel would refuse a thread on a core that it has not.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_setaffinity_np(attributes: *mut pthread_attr_t, size: size_t, wanted: *const cpu_set_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(cores) = cores() else { return next::pthread_attr_setaffinity_np(attributes, size, wanted) };
        let mut all = locked(&ATTRIBUTES);
        if wanted.is_null() || size == 0 {
            all.remove(&(attributes as usize));
        } else {
            all.insert(attributes as usize, mask_of(cores, size, wanted));
        }
    }
    0
}
