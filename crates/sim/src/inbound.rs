//! Messages on their way to the hosts of a region: their headers, and the order in which they are taken.
//!
//! The end-to-end layer numbers the packets of a pair of nodes in a virtual network, and takes them in that order: a
//! message is noticed after the head of the one that was started before it, and after all of it if that is one packet.
//! (Behind the first packet of a longer one a NIC may send packets of other messages.) NICs that do not look at a
//! message before they have all of it take the next one behind that, as they would mix them up otherwise.

use narrows_engine::{Slab, WordMap};
use serde::{Deserialize, Serialize};

/// What travels with a message.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Label<H> {
    pub(crate) source: u32,
    /// Of the message, among those of its source.
    pub(crate) number: u32,
    pub(crate) target: u32,
    pub(crate) virtual_network: u8,
    /// The one behind it is noticed after all of it.
    pub(crate) whole: bool,
    pub(crate) header: H,
}

#[derive(Debug)]
struct Flight<H> {
    label: Box<Label<H>>,
    /// The receiver's name for it.
    arrival: u32,
    /// The next of the same pair, which must not be noticed before the first packet of this one.
    successor: Option<u32>,
    /// The one before it has not been noticed.
    waits: bool,
    head_arrived: bool,
    head_noticed: bool,
    tail_arrived: bool,
    /// Packets that its NIC has consumed; all of them.
    consumed: u64,
    is_consumed: bool,
}

/// What is to be told to the NIC of a message's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Head(u32),
    Tail(u32),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Inbound<H> {
    flights: Slab<Flight<H>>,
    /// By source and number.
    numbers: WordMap<u64, u32>,
    /// By pair: the newest message whose first packet has not been noticed.
    newest: WordMap<u64, u32>,
}

impl<H> Default for Inbound<H> {
    fn default() -> Self {
        Inbound { flights: Slab::default(), numbers: WordMap::default(), newest: WordMap::default() }
    }
}

/// A message, among those of all sources.
pub(crate) fn number(source: u32, number: u32) -> u64 {
    u64::from(source) << 32 | u64::from(number)
}

impl<H: Copy> Label<H> {
    /// Source, target and virtual network; hosts have numbers below 2^28.
    fn pair(&self) -> u64 {
        u64::from(self.source) << 36 | u64::from(self.target) << 8 | u64::from(self.virtual_network)
    }
}

impl<H: Copy> Inbound<H> {
    /// A message has been started. Those of one pair come in the order in which they were.
    pub(crate) fn open(&mut self, label: Box<Label<H>>) {
        let (name, pair) = (number(label.source, label.number), label.pair());
        let flight = Flight {
            label,
            arrival: 0,
            successor: None,
            waits: false,
            head_arrived: false,
            head_noticed: false,
            tail_arrived: false,
            consumed: 0,
            is_consumed: false,
        };
        let slot = self.flights.insert(flight);
        self.numbers.insert(name, slot);
        if let Some(before) = self.newest.insert(pair, slot) {
            self.flights.at_mut(before).successor = Some(slot);
            self.flights.at_mut(slot).waits = true;
        }
    }

    /// Messages under way.
    pub(crate) fn find(&self, source: u32, of_source: u32) -> Option<u32> {
        self.numbers.get(&number(source, of_source)).copied()
    }

    /// What travels with a message.
    pub(crate) fn label(&self, slot: u32) -> &Label<H> {
        &self.flights.at(slot).label
    }

    /// The receiver has named it.
    pub(crate) fn name(&mut self, slot: u32, arrival: u32) {
        self.flights.at_mut(slot).arrival = arrival;
    }

    /// The receiver's name for it.
    pub(crate) fn arrival(&self, slot: u32) -> u32 {
        self.flights.at(slot).arrival
    }

    /// Its NIC has consumed one of so many packets; whether that was the last one, all of them being consumed.
    pub(crate) fn consume(&mut self, slot: u32, packets: u64) -> bool {
        let flight = self.flights.at_mut(slot);
        flight.consumed += 1;
        flight.is_consumed = flight.consumed == packets;
        flight.is_consumed
    }

    /// It has consumed all of them.
    pub(crate) fn is_consumed(&self, slot: u32) -> bool {
        self.flights.at(slot).is_consumed
    }

    /// Its tail has been noticed.
    pub(crate) fn close(&mut self, slot: u32) -> Option<Box<Label<H>>> {
        let label = self.flights.remove(slot)?.label;
        self.numbers.remove(&number(label.source, label.number));
        Some(label)
    }

    /// A head has arrived: `steps` gets what is noticed now.
    pub(crate) fn head(&mut self, slot: u32, steps: &mut Vec<Step>) {
        let flight = self.flights.at_mut(slot);
        // It may have come by another rail, or is told again with the tail.
        if std::mem::replace(&mut flight.head_arrived, true) {
            return;
        }
        if !flight.waits {
            self.notice(slot, steps);
        }
    }

    /// It is the turn of `slot`, whose head has arrived, and then of those behind it.
    fn notice(&mut self, mut slot: u32, steps: &mut Vec<Step>) {
        loop {
            let flight = self.flights.at_mut(slot);
            flight.head_noticed = true;
            let (tail_arrived, whole) = (flight.tail_arrived, flight.label.whole);
            steps.push(Step::Head(slot));
            if tail_arrived {
                steps.push(Step::Tail(slot));
            }
            if !tail_arrived && whole {
                return;
            }
            match self.release(slot) {
                Some(next) => slot = next,
                None => return,
            }
        }
    }

    /// What is behind a message may be noticed: its successor, if its head has arrived.
    fn release(&mut self, slot: u32) -> Option<u32> {
        let flight = self.flights.at(slot);
        match flight.successor {
            None => {
                self.newest.remove(&flight.label.pair());
                None
            }
            Some(successor) => {
                let next = self.flights.at_mut(successor);
                next.waits = false;
                next.head_arrived.then_some(successor)
            }
        }
    }

    /// A tail has arrived: `steps` gets what is noticed now.
    pub(crate) fn tail(&mut self, slot: u32, steps: &mut Vec<Step>) {
        let flight = self.flights.at_mut(slot);
        flight.tail_arrived = true;
        if !flight.head_noticed {
            return;
        }
        let whole = flight.label.whole;
        steps.push(Step::Tail(slot));
        if whole && let Some(next) = self.release(slot) {
            self.notice(next, steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Whatever overtakes what on the network: heads of a pair are noticed in the order of the starts, after all of
        /// the one before if that is taken whole, tails after heads, and all of it in the end.
        #[test]
        fn messages_of_a_pair_keep_their_order(
            messages in prop::collection::vec((0u32..2, 0u32..2, 0u8..2, any::<bool>()), 1..40),
            order in any::<u64>(),
        ) {
            let mut inbound: Inbound<()> = Inbound::default();
            let slots: Vec<u32> = (0u32..)
                .zip(&messages)
                .map(|(number, &(source, target, virtual_network, whole))| {
                    inbound.open(Box::new(Label { source, number, target, virtual_network, whole, header: () }));
                    inbound.find(source, number).unwrap()
                })
                .collect();
            // What may arrive next: of each message its head, then its tail.
            let mut next: Vec<(usize, bool)> = (0..slots.len()).map(|message| (message, true)).collect();
            let mut random = narrows_engine::stream(order, "inbound", 0);
            let mut steps = Vec::new();
            while !next.is_empty() {
                let at = random.below(next.len() as u64) as usize;
                let (message, head) = next[at];
                if head {
                    inbound.head(slots[message], &mut steps);
                    next[at].1 = false;
                } else {
                    inbound.tail(slots[message], &mut steps);
                    next.swap_remove(at);
                }
            }
            prop_assert_eq!(steps.len(), 2 * messages.len());
            let mut last: BTreeMap<(u32, u32, u8), usize> = BTreeMap::new();
            let mut tails = vec![false; messages.len()];
            for step in steps {
                let (Step::Head(slot) | Step::Tail(slot)) = step;
                let message = slots.iter().position(|&other| other == slot).unwrap();
                let (source, target, virtual_network, _) = messages[message];
                if matches!(step, Step::Tail(_)) {
                    tails[message] = true;
                } else if let Some(before) = last.insert((source, target, virtual_network), message) {
                    prop_assert!(before < message, "head of {} after that of {}", message, before);
                    prop_assert!(tails[before] || !messages[before].3, "head of {} before the tail of {}", message, before);
                }
            }
        }
    }
}
