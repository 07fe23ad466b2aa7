//! Who takes part in a collective.

use std::collections::HashMap;

/// The communicators of a program. Number 0 has all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicators {
    world: u32,
    /// From number 1 on.
    others: Vec<Vec<u32>>,
    /// For those that are no simple range: position of a rank.
    positions: Vec<HashMap<u32, u32>>,
}

impl Communicators {
    /// Only the communicator of all ranks.
    pub fn world(ranks: u32) -> Communicators {
        Communicators { world: ranks, others: Vec::new(), positions: Vec::new() }
    }

    /// Adds one; its number. `members` are ranks of the program in the order of the communicator, or `None` if one of
    /// them appears twice or is not a rank of the program, or there is none.
    pub fn add(&mut self, members: Vec<u32>) -> Option<u32> {
        let positions: HashMap<u32, u32> = members.iter().enumerate().map(|(position, &rank)| (rank, position as u32)).collect();
        if members.is_empty() || positions.len() < members.len() || members.iter().any(|&rank| rank >= self.world) {
            return None;
        }
        self.others.push(members);
        self.positions.push(positions);
        Some(self.others.len() as u32)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        1 + self.others.len() as u32
    }

    /// The tag of the messages of a collective, below [`Communicators::COLLECTIVE_TAGS`]: none of those that can be
    /// under way at a time has the same, as non-blocking collectives of MPI libraries have not.
    pub fn collective_tag(&self, communicator: u32, number: u64) -> u32 {
        let tag = number.wrapping_mul(u64::from(self.count())).wrapping_add(u64::from(communicator));
        (tag % u64::from(Self::COLLECTIVE_TAGS)) as u32
    }

    /// Tags of collectives.
    pub const COLLECTIVE_TAGS: u32 = 1 << 30;

    /// Number of members, or `None` if there is no such communicator.
    pub fn size(&self, communicator: u32) -> Option<u32> {
        match communicator {
            0 => Some(self.world),
            other => self.others.get(other as usize - 1).map(|members| members.len() as u32),
        }
    }

    /// Rank of the program at a position of the communicator.
    pub fn member(&self, communicator: u32, position: u32) -> Option<u32> {
        match communicator {
            0 => (position < self.world).then_some(position),
            other => self.others.get(other as usize - 1)?.get(position as usize).copied(),
        }
    }

    /// Position of a rank of the program in the communicator, if it is a member.
    pub fn position(&self, communicator: u32, rank: u32) -> Option<u32> {
        match communicator {
            0 => (rank < self.world).then_some(rank),
            other => self.positions.get(other as usize - 1)?.get(&rank).copied(),
        }
    }

    /// All members in order.
    pub fn members(&self, communicator: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.size(communicator).unwrap_or(0)).filter_map(move |position| self.member(communicator, position))
    }
}
