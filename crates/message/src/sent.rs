//! What a process has sent, by the way that it took.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Messages, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub messages: u64,
    /// All of them together.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn one(&mut self, bytes: u64) {
        *self += Count { messages: 1, bytes };
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// Messages that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Eager.
    pub eager: Count,
    /// By rendezvous, on one rail.
    pub rendezvous: Count,
    /// By rendezvous, in pieces over several rails.
    pub spread: Count,
}

impl AddAssign for Sent {
    fn add_assign(&mut self, other: Sent) {
        self.eager += other.eager;
        self.rendezvous += other.rendezvous;
        self.spread += other.spread;
    }
}
