//! Memory for our libraries inside other people's processes: pages of its own from the kernel, never the process's
//! `malloc`.
//!
//! Those libraries are called in the middle of anything, with locks of other libraries taken: a program gives a mutex
//! back, and that is a moment to look how far its other threads are. If that allocated by `malloc`, it could come back
//! to those locks. Open MPI changes `munmap` so that libfabric hears of it, libfabric takes a lock of its own for that,
//! and a thread's first `malloc` makes an arena with `munmap`. Programs also get the addresses that they would get
//! without us.
//!
//! ```
//! #[global_allocator]
//! static HEAP: narrows_heap::Heap = narrows_heap::Heap;
//! assert_eq!(vec![1, 2, 3].len(), 3);
//! ```
//!
//! [`copy`] reads and writes memory that may not be there.

pub mod copy;

use dlmalloc::{Allocator, Dlmalloc};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The allocator; there is one heap in each library that has it.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

/// Only whoever has [`LOCK`] uses what is in it.
struct Locked<T>(UnsafeCell<T>);

// SAFETY: as it says.
unsafe impl<T> Sync for Locked<T> {}

static LOCK: Mutex<()> = Mutex::new(());
static ALL: Locked<Dlmalloc<Pages>> = Locked(UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)));
/// The lock, while a thread forks: the child would have a heap in which somebody else was at work.
static HELD: Locked<Option<MutexGuard<'static, ()>>> = Locked(UnsafeCell::new(None));
/// That thread, which may allocate meanwhile: other libraries have their own to do before a fork.
static FORKS: AtomicUsize = AtomicUsize::new(0);

fn own() -> usize {
    // SAFETY: no arguments. The same number in the child.
    unsafe { libc::pthread_self() as usize }
}

fn lock() -> MutexGuard<'static, ()> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<R>(work: impl FnOnce(&mut Dlmalloc<Pages>) -> R) -> R {
    let forks = FORKS.load(Acquire);
    let _lock = (forks == 0 || forks != own()).then(lock);
    // SAFETY: the lock is ours, here or since the fork began.
    work(unsafe { &mut *ALL.0.get() })
}

extern "C" fn before_fork() {
    let lock = lock();
    // SAFETY: the lock is ours.
    unsafe { *HELD.0.get() = Some(lock) };
    FORKS.store(own(), Release);
}

extern "C" fn after_fork() {
    FORKS.store(0, Release);
    // SAFETY: the lock is ours until this is dropped.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn begin() {
    // SAFETY: functions for that, in a library that is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

// SAFETY: dlmalloc's promises are those of this trait.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        with(|all| unsafe { all.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        with(|all| unsafe { all.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        with(|all| unsafe { all.free(at, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        with(|all| unsafe { all.realloc(at, layout.size(), layout.align(), size) })
    }
}

/// Memory from the kernel itself: others change the functions of the C library.
struct Pages;

/// What a system call gives that has failed.
const FAILED: i64 = -1;

// SAFETY: what it gives is readable and writable, and nobody else's.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (access, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        let at = unsafe { libc::syscall(libc::SYS_mmap, 0usize, size, access, how, -1i64, 0usize) };
        if at == FAILED { (null_mut(), 0, 0) } else { (at as *mut u8, size, 0) }
    }

    fn remap(&self, at: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        let how = if can_move { libc::MREMAP_MAYMOVE } else { 0 };
        // SAFETY: dlmalloc remaps what it has.
        let at = unsafe { libc::syscall(libc::SYS_mremap, at, old, new, how) };
        if at == FAILED { null_mut() } else { at as *mut u8 }
    }

    fn free_part(&self, at: *mut u8, old: usize, new: usize) -> bool {
        self.free(at.wrapping_add(new), old - new)
    }

    fn free(&self, at: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc gives back what it has.
        unsafe { libc::syscall(libc::SYS_munmap, at, size) != FAILED }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}
