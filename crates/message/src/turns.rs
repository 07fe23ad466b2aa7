//! The order in which the messages of multi-receives are complete: that in which those of a source have matched.
//!
//! The data of an announced message come later than a short one behind it, which may go to another buffer. libfabric
//! promises nothing then (`fi_cq(3)`: only under `FI_ORDER_STRICT`), but its providers report messages of one sender in
//! order, and MPICH relies on it: it keeps an active message that comes before its turn, but only its header and
//! payload, not the request for an RDMA read behind them (`MPIDI_OFI_am_enqueue_unordered_msg` of MPICH 5.0). Puts with
//! a derived type and long accumulates were lost, or the target crashed (`tests/mpi/rma_random.c`).

use crate::Completion;
use crate::core::Core;
use crate::request::Message;
use narrows_portals::ProcessId;
use std::collections::{BTreeMap, VecDeque};

/// A message that is not complete, or is behind one that is not.
#[derive(Debug)]
struct Turn {
    number: u64,
    /// How it has ended.
    done: Option<Done>,
}

#[derive(Debug)]
enum Done {
    /// With the slot of the multi-receive that counts it.
    Complete(Completion, Option<u32>),
    /// Nobody waits for it.
    Gone,
}

/// Of all sources.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// By source, in the order in which they have matched.
    waiting: BTreeMap<ProcessId, VecDeque<Turn>>,
    last: u64,
}

impl Turns {
    /// Messages of `source` are not complete.
    pub(crate) fn are_waiting(&self, source: ProcessId) -> bool {
        self.waiting.contains_key(&source)
    }

    /// What comes from the same source from now on comes after `message`.
    pub(crate) fn take(&mut self, message: &mut Message) {
        self.last += 1;
        message.turn = self.last;
        self.waiting.entry(message.source).or_default().push_back(Turn { number: self.last, done: None });
    }

    fn end(&mut self, message: &Message, done: Done) {
        let turns = self.waiting.get_mut(&message.source);
        if let Some(turn) = turns.and_then(|turns| turns.iter_mut().find(|turn| turn.number == message.turn)) {
            turn.done = Some(done);
        }
    }

    /// The next one from `source` whose turn it is, if that has come to its end.
    fn next(&mut self, source: ProcessId) -> Option<Done> {
        let turns = self.waiting.get_mut(&source)?;
        turns.front()?.done.as_ref()?;
        let turn = turns.pop_front()?;
        if turns.is_empty() {
            self.waiting.remove(&source);
        }
        turn.done
    }
}

impl Core {
    /// `message` is complete; it may wait for its turn. `multi`: the slot of the multi-receive that counts it.
    #[inline]
    pub(crate) fn complete_in_turn(&mut self, message: &Message, completion: Completion, multi: Option<u32>) {
        if message.turn == 0 {
            self.tell(completion, multi);
            return;
        }
        self.turns.end(message, Done::Complete(completion, multi));
        self.tell_turns(message.source);
    }

    /// Nobody waits for `message` any more, which may come whenever it does.
    #[inline]
    pub(crate) fn leave_turn(&mut self, message: Message) -> Message {
        if message.turn != 0 {
            self.turns.end(&message, Done::Gone);
            self.tell_turns(message.source);
        }
        Message { turn: 0, ..message }
    }

    fn tell_turns(&mut self, source: ProcessId) {
        while let Some(done) = self.turns.next(source) {
            if let Done::Complete(completion, multi) = done {
                self.tell(completion, multi);
            }
        }
    }

    #[inline]
    fn tell(&mut self, completion: Completion, multi: Option<u32>) {
        self.completions.push_back(completion);
        if let Some(index) = multi {
            self.multi_told(index);
        }
    }
}
