use std::sync::atomic::{AtomicU64, Ordering};

/// How far a piece of work is: counted by who does it, looked at by another thread.
#[derive(Debug, Default)]
pub struct Meter {
    done: AtomicU64,
    total: AtomicU64,
}

impl Meter {
    /// Work of so many units; 0 when that is not known.
    pub fn new(total: u64) -> Meter {
        Meter { done: AtomicU64::new(0), total: AtomicU64::new(total) }
    }

    /// So many units more are done.
    pub fn add(&self, units: u64) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// So many units are done, of so many.
    pub fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Units that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Units in all; 0 when that is not known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}
