//! What is counted of a thread, where the thread itself can read it.

use crate::UNIT;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of a call of the kernel that there is not, by which a thread asks the plugin for its [`Count`]: with the
/// address of a [`crate::Core`], the stack pointer, and the address of a word for the answer.
pub const CALL: i64 = 0x6e61_7277;

/// Written by the plugin, but for `counts`; both run on the thread that is counted.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Count {
    /// 1: what the thread does is counted.
    pub counts: AtomicU64,
    /// Units of a cycle so far.
    pub settled: AtomicU64,
    /// ... and those of the core since then, with what it has waited for data.
    pub busy: AtomicU64,
    /// Units that the memory was busy since then.
    pub memory: AtomicU64,
    /// Instructions.
    pub instructions: AtomicU64,
}

impl Count {
    /// Units of a cycle so far. Core and memory work side by side.
    pub fn units(&self) -> u64 {
        self.settled.load(Relaxed) + self.busy.load(Relaxed).max(self.memory.load(Relaxed))
    }

    /// From now on core and memory no longer work side by side with what they did before.
    pub(crate) fn settle(&self) {
        self.settled.store(self.units(), Relaxed);
        self.busy.store(0, Relaxed);
        self.memory.store(0, Relaxed);
    }

    pub(crate) fn add(to: &AtomicU64, more: u64) {
        to.store(to.load(Relaxed) + more, Relaxed);
    }
}

/// Units of a cycle as time, ps.
pub(crate) fn ps(units: u64, clock_hz: u64) -> u64 {
    (u128::from(units) * 1_000_000_000_000 / (u128::from(clock_hz.max(1)) * u128::from(UNIT))) as u64
}
