//! Where a real thread waits for the baton.

use narrows_channel::handover::Word;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const WAITS: u32 = 0;
const HAS: u32 = 1;

/// One thread's place. Whoever finds out who is next, under the lock of the machine, gives that one the baton here.
pub struct Seat<W = AtomicU32> {
    word: W,
}

impl<W: Word> Seat<W> {
    /// A place at `word`, which holds 0.
    pub const fn new(word: W) -> Seat<W> {
        Seat { word }
    }

    /// The thread of this place has the baton from now on.
    pub fn give(&self) {
        self.word.put(HAS);
        self.word.wake();
    }

    /// It no longer has: by itself before it lets another one have it, or by who takes it away.
    pub fn give_up(&self) {
        self.word.put(WAITS);
    }

    /// Whether it has.
    pub fn has(&self) -> bool {
        self.word.get() == HAS
    }

    /// Sleeps until it has, or for `longest`: whether it has.
    pub fn wait(&self, longest: Option<Duration>) -> bool {
        while !self.has() {
            if self.word.wait(WAITS, longest) {
                return self.has();
            }
        }
        true
    }
}
