//! Whether the members of a communicator say the same of a collective.

use crate::operation::CollectiveCall;
use narrows_engine::WordMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One member's part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectivePart {
    /// Of the program.
    pub rank: u32,
    /// Number among the operations of the rank, from 0.
    pub operation: u64,
    /// What it says.
    pub call: CollectiveCall,
}

/// Two members whose calls belong together say different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Contradiction {
    /// The first member that came.
    pub first: CollectivePart,
    /// Another one.
    pub second: CollectivePart,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contradiction { first, second } = self;
        write!(
            f,
            "rank {}, operation {}, calls {}, but rank {}, operation {}, calls {} on the same communicator ({}) at this point",
            first.rank, first.operation, first.call, second.rank, second.operation, second.call, first.call.communicator
        )
    }
}

impl Contradiction {
    /// Between two parts of one collective, if there is one.
    pub fn between(first: CollectivePart, second: CollectivePart) -> Option<Contradiction> {
        let said = |call: &CollectiveCall| (call.operation, call.root, call.common_size(), call.element);
        (said(&first.call) != said(&second.call)).then_some(Contradiction { first, second })
    }
}

/// The collectives of a program that not all members have joined. The n-th ones of the members of a communicator belong
/// together.
#[derive(Clone, Debug, Default)]
pub struct Meetings {
    /// By communicator and number: the first part, and how many there are.
    open: WordMap<(u32, u64), (CollectivePart, u32)>,
    /// By communicator and rank.
    counts: WordMap<(u32, u32), u64>,
}

impl Meetings {
    /// A member of a communicator of `size` joins its next collective. The number of that on the communicator, from 1.
    ///
    /// # Errors
    /// It says something else than those before.
    pub fn join(&mut self, part: CollectivePart, size: u32) -> Result<u64, Contradiction> {
        let communicator = part.call.communicator;
        let count = self.counts.entry((communicator, part.rank)).or_default();
        *count += 1;
        let number = *count;
        let key = (communicator, number);
        let (first, joined) = self.open.entry(key).or_insert((part, 0));
        *joined += 1;
        let contradiction = Contradiction::between(*first, part);
        if *joined >= size {
            self.open.remove(&key);
        }
        contradiction.map_or(Ok(number), Err)
    }
}
