//! Broadcasts that switches copy: who waits for which, and what came before its receive.
//!
//! The receivers' buffers are always ready: what comes before its receive lies in one and is copied when the receive
//! comes, as an unexpected message is.

use narrows_engine::Arena;
use narrows_sim::MulticastTree;
use narrows_units::SimTime;
use std::collections::BTreeMap;

/// One of the messages of a root on a communicator: communicator, root among all ranks, number.
pub(crate) type Key = (u32, u32, u64);

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) key: Key,
    pub(crate) bytes: u64,
    /// When its root posted it.
    pub(crate) start: SimTime,
    /// The root's operation.
    pub(crate) context: u64,
    /// Ranks that have not received it, and the root while its buffer is in use.
    open: u32,
}

/// All messages under way, by their tokens.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    all: Arena<Message>,
    /// By trace, communicator and root.
    pub(crate) ways: BTreeMap<(usize, u32, u32), MulticastTree>,
}

impl Messages {
    pub(crate) fn start(&mut self, key: Key, bytes: u64, start: SimTime, context: u64, receivers: u32) -> u32 {
        self.all.insert(Message { key, bytes, start, context, open: receivers + 1 })
    }

    pub(crate) fn get(&self, token: u32) -> Message {
        self.all[token]
    }

    /// One of its ranks is through with it.
    pub(crate) fn settle(&mut self, token: u32) {
        let message = &mut self.all[token];
        message.open -= 1;
        if message.open == 0 {
            self.all.remove(token);
        }
    }
}

/// What a rank knows of broadcasts that switches copy.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Messages so far, sent or asked for, by communicator and root.
    counts: BTreeMap<(u32, u32), u64>,
    /// Receives without their message: the context of the operation, and since when.
    awaited: BTreeMap<Key, (u64, SimTime)>,
    /// Messages without their receive: the token.
    early: BTreeMap<Key, u32>,
}

impl Inbox {
    /// The next message of a root on a communicator.
    pub(crate) fn next(&mut self, communicator: u32, root: u32) -> Key {
        let count = self.counts.entry((communicator, root)).or_default();
        *count += 1;
        (communicator, root, *count)
    }

    /// The operation asks for a message; its token, if it is here.
    pub(crate) fn ask(&mut self, key: Key, context: u64, now: SimTime) -> Option<u32> {
        let early = self.early.remove(&key);
        if early.is_none() {
            self.awaited.insert(key, (context, now));
        }
        early
    }

    /// A message is here; the operation that asked for it, if one did, and whether it came before it was asked for: a
    /// rank's clock may be ahead.
    pub(crate) fn arrive(&mut self, key: Key, token: u32, at: SimTime) -> Option<(u64, bool)> {
        let asked = self.awaited.remove(&key);
        if asked.is_none() {
            self.early.insert(key, token);
        }
        asked.map(|(context, since)| (context, at < since))
    }
}
