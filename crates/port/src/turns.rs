//! Whose turn it is in a ring of messages of which many may not send: those of a flow that is shut are passed over all
//! at once.
//!
//! Each message of the ring has a place on a circle of 2^64 places, in the order of the ring, so that the next message
//! of a flow from any other one is found by a search among its own. Noted only where looks would be long.

use crate::NONE;
use crate::flow::Flow;
use std::collections::BTreeMap;

/// The messages of a ring, by flow and place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    by_flow: BTreeMap<Flow, BTreeMap<u64, u32>>,
}

/// Between neighbours on the circle, as far as there is room: what joins between them later has places left.
const APART: u64 = 1 << 32;

/// A place between two neighbours, if there is one. Both are the same where there is only one message.
pub(crate) fn between(before: u64, after: u64) -> Option<u64> {
    let room = after.wrapping_sub(before).wrapping_sub(1);
    // The nearer to the one before, the more can come in order.
    (room > 0).then(|| before.wrapping_add((room / 16).clamp(1, APART)))
}

impl Turns {
    /// How many flows have messages in the ring; those that need none count as one.
    pub(crate) fn flows(&self) -> usize {
        self.by_flow.len()
    }

    pub(crate) fn insert(&mut self, flow: Flow, place: u64, message: u32) {
        self.by_flow.entry(flow).or_default().insert(place, message);
    }

    pub(crate) fn remove(&mut self, flow: Flow, place: u64) {
        let Some(messages) = self.by_flow.get_mut(&flow) else { return };
        messages.remove(&place);
        if messages.is_empty() {
            self.by_flow.remove(&flow);
        }
    }

    /// The first message from this place on, all around, whose flow is open.
    pub(crate) fn first(&self, from: u64, is_open: impl Fn(Flow) -> bool) -> Option<u32> {
        let open = self.by_flow.iter().filter(|&(&flow, _)| flow == NONE || is_open(flow));
        let next = open.filter_map(|(_, messages)| messages.range(from..).next().or_else(|| messages.iter().next()));
        next.min_by_key(|&(place, _)| place.wrapping_sub(from)).map(|(_, &message)| message)
    }
}
