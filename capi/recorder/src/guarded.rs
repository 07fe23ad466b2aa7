//! A value that one thread at a time may use: with a lock when MPI lets several threads in at once, without one when
//! the program promised to call it from one at a time. A lock costs 10 ns of the 100 that a call may.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the module's page.
pub struct Guarded<T> {
    shared: AtomicBool,
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives the value to one thread at a time: by the lock, or because MPI calls follow each other, which
// makes them happen one before the other.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub const fn new(value: T) -> Guarded<T> {
        Guarded { shared: AtomicBool::new(true), taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Whether several threads use it at once; before any of them does.
    pub fn set_shared(&self, shared: bool) {
        self.shared.store(shared, Relaxed);
    }

    /// Does something with the value; not from within itself.
    #[inline]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> R {
        let shared = self.shared.load(Relaxed);
        while shared && self.taken.swap(true, Acquire) {
            spin_loop();
        }
        // SAFETY: nobody else has it.
        let result = what(unsafe { &mut *self.value.get() });
        if shared {
            self.taken.store(false, Release);
        }
        result
    }
}
