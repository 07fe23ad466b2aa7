//! How long messages are spread over rails. Both ends cut a message alike: by its length, and by the rail that its
//! sender has chosen.

use crate::config::{Distribution, MpcConfig, RailChoice, Rails};
use crate::core::Core;
use crate::wire;
use crate::{Protocol, Send};
use narrows_portals::{EntryId, ProcessId};
use narrows_units::Rail;
use std::collections::BTreeMap;

/// The pieces of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    length: u64,
    /// Bytes of a piece; the last one has what is left.
    size: u64,
    /// Each piece has a rail and an entry of its own; else all take that of `start`, and one entry.
    spread: bool,
    start: u8,
}

impl Cut {
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces_of(self.length)
    }

    /// Those that the first `wanted` bytes are in.
    pub(crate) fn pieces_of(&self, wanted: u64) -> u64 {
        wanted.div_ceil(self.size).max(1)
    }

    /// Each piece has an entry of its own.
    pub(crate) fn entry_each(&self) -> bool {
        self.spread
    }

    /// Where a piece begins, and its bytes, of the first `wanted` ones.
    pub(crate) fn piece(&self, piece: u64, wanted: u64) -> (u64, u64) {
        let offset = piece * self.size;
        (offset, (wanted - offset).min(self.size))
    }

    /// The rail of a piece.
    pub(crate) fn rail(&self, piece: u64, rails: &Rails) -> Rail {
        let piece = if self.spread { piece } else { 0 };
        let all = rails.all();
        all[((u64::from(self.start) + piece) % all.len() as u64) as usize]
    }

    /// The number of a piece in match bits, and what it has to add to its offset there.
    pub(crate) fn address(&self, piece: u64) -> (u64, u64) {
        if self.spread { (piece << wire::PIECE_SHIFT, 0) } else { (0, piece * self.size) }
    }
}

/// What a process knows of its rails.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// The next one.
    turn: u8,
    /// By rail, bytes of messages that are not cut, until they have been sent.
    loads: [u64; Rails::MAX],
    /// By request: the entries of its pieces.
    entries: BTreeMap<u32, Vec<EntryId>>,
}

impl Spread {
    /// See [`crate::Endpoint::renew`].
    pub(crate) fn forget_order(&mut self) {
        self.turn = 0;
    }

    fn choose(&mut self, choice: RailChoice, rails: usize) -> u8 {
        match choice {
            RailChoice::RoundRobin => {
                let turn = self.turn;
                self.turn = (turn + 1) % rails as u8;
                turn
            }
            RailChoice::LeastLoaded => {
                let loads = self.loads[..rails].iter().enumerate();
                loads.min_by_key(|&(_, load)| load).map_or(0, |(rail, _)| rail as u8)
            }
        }
    }

    /// A send for which [`Core::choose_rail`] was asked is over.
    pub(crate) fn ends(&mut self, cut: &Cut) {
        if !cut.spread {
            self.loads[usize::from(cut.start)] -= cut.length;
        }
    }

    pub(crate) fn keep_entries(&mut self, index: u32, entries: Vec<EntryId>) {
        self.entries.insert(index, entries);
    }

    /// The entries of a request but for the first `used` ones.
    pub(crate) fn take_entries(&mut self, index: u32, used: u64) -> Vec<EntryId> {
        let mut entries = self.entries.remove(&index).unwrap_or_default();
        entries.split_off(entries.len().min(used as usize))
    }
}

impl Core {
    /// The pieces of a message of `length` bytes from or to `peer`.
    pub(crate) fn cut(&self, peer: ProcessId, length: u64, start: u8) -> Cut {
        // Their numbers have to fit into match bits.
        let least = (length >> (wire::PIECE_BITS - 1)).max(1);
        let largest = self.config.max_portals_message.max(least);
        let rails = self.config.rails.all().len() as u64;
        let whole = Cut { length, size: largest, spread: false, start };
        let Protocol::Mpc(MpcConfig { minimum, distribution, .. }) = self.config.protocol else { return whole };
        if rails == 1 || length < minimum || peer.nid == self.local().nid {
            return whole;
        }
        let size = match distribution {
            Distribution::Fragments(size) => size.min(largest).max(least),
            // In turns, if they would be too long.
            Distribution::Even => length.div_ceil(rails * length.div_ceil(rails * largest).max(1)).max(1),
        };
        if length <= size { whole } else { Cut { size, spread: true, start: 0, ..whole } }
    }

    /// Which of the rails a message takes, or its first piece; [`Spread::ends`] follows.
    pub(crate) fn choose_rail(&mut self, send: &Send) -> u8 {
        let rails = self.config.rails.all().len();
        let whole = !self.cut(send.target, send.length, 0).spread;
        let start = match self.config.protocol {
            Protocol::Mpc(mpc) if whole && rails > 1 && send.target.nid != self.local().nid => self.rails.choose(mpc.choice, rails),
            _ => 0,
        };
        if whole {
            self.rails.loads[usize::from(start)] += send.length;
        }
        start
    }
}
