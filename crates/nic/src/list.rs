//! Lists that keep their order, with cheap removal anywhere: entries and unexpected headers.
//!
//! A short [`MatchList`] is walked. A longer one is also hashed: entries that ignore the same bits
//! and have the same wildcards form a class, and within a class a message can only match entries
//! with one value of (bits, source). So a message looks once into each class (there are few: exact,
//! any source, any tag ...) and takes the candidate that stands first in the list. The NIC that is
//! modelled walks the list, so a find also says how many entries stand before its result.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use narrows_portals::{MatchEntry, NID_ANY, PID_ANY, ProcessId};

/// A list in the order of insertion. An item is known by its order number, which only grows;
/// removed items leave a gap that is closed from time to time, so that a removal costs a binary
/// search and a walk runs over adjacent memory.
#[derive(Debug)]
pub(crate) struct Ordered<T> {
    items: Vec<(u64, Option<T>)>,
    /// Index of the first live item, or of the end.
    first: usize,
    live: usize,
    next: u64,
    /// Grows when indices change.
    epoch: u64,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Ordered { items: Vec::new(), first: 0, live: 0, next: 0, epoch: 0 }
    }
}

/// Gaps that are left alone: closing them costs a copy of the list.
const GAPS_MIN: usize = 32;

impl<T> Ordered<T> {
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Appends; returns the order number.
    pub fn push(&mut self, item: T) -> u64 {
        let order = self.next;
        self.next += 1;
        self.live += 1;
        self.items.push((order, Some(item)));
        order
    }

    fn index(&self, order: u64) -> Option<usize> {
        self.items.binary_search_by_key(&order, |&(order, _)| order).ok()
    }

    fn get_mut(&mut self, order: u64) -> Option<&mut T> {
        let index = self.index(order)?;
        self.items[index].1.as_mut()
    }

    fn get(&self, order: u64) -> Option<&T> {
        self.items[self.index(order)?].1.as_ref()
    }

    /// Takes the item out.
    pub fn remove(&mut self, order: u64) -> Option<T> {
        let index = self.index(order)?;
        let item = self.items[index].1.take()?;
        self.live -= 1;
        if self.live == 0 {
            self.items.clear();
            self.first = 0;
            self.epoch += 1;
            return Some(item);
        }
        while self.items[self.first].1.is_none() {
            self.first += 1;
        }
        if self.items.len() - self.live > self.live + GAPS_MIN {
            self.items.retain(|(_, item)| item.is_some());
            self.first = 0;
            self.epoch += 1;
        }
        Some(item)
    }

    /// All items in order, with their order numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.iter_from(0)
    }

    /// The same from an order number on.
    pub fn iter_from(&self, order: u64) -> impl Iterator<Item = (u64, &T)> {
        let items = &self.items[self.first..];
        let begin = if order == 0 { 0 } else { items.partition_point(|&(of, _)| of < order) };
        items[begin..].iter().filter_map(|(order, item)| item.as_ref().map(|item| (*order, item)))
    }
}

/// Hashes words. For tables that are looked up and never walked, so that their order cannot reach
/// a result.
#[derive(Default, Clone, Copy)]
pub(crate) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

/// A table with that hash.
pub(crate) type WordMap<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

const END: u64 = u64::MAX;

/// What of an entry decides whether a message may use it, beside its room.
#[derive(Clone, Copy, Debug)]
struct Key {
    bits: u64,
    ignore: u64,
    source: ProcessId,
    /// Where the rest is.
    slot: u32,
    /// In the index: order numbers of the neighbours with the same hash key.
    before: u64,
    after: u64,
}

impl Key {
    fn accepts(&self, initiator: ProcessId, bits: u64) -> bool {
        MatchEntry { match_bits: self.bits, ignore_bits: self.ignore, match_id: self.source, ..MatchEntry::default() }
            .matches(initiator, bits)
    }
}

/// Entries that a message is compared with in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Class {
    ignore: u64,
    any_nid: bool,
    any_pid: bool,
}

impl Class {
    fn of(key: &Key) -> Class {
        Class { ignore: key.ignore, any_nid: key.source.nid == NID_ANY, any_pid: key.source.pid == PID_ANY }
    }

    /// What all entries of the class that match these have in common.
    fn hash_key(&self, number: usize, source: ProcessId, bits: u64) -> HashKey {
        HashKey {
            class: number as u32,
            bits: bits & !self.ignore,
            nid: if self.any_nid { NID_ANY } else { source.nid },
            pid: if self.any_pid { PID_ANY } else { source.pid },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct HashKey {
    class: u32,
    bits: u64,
    nid: u32,
    pid: u32,
}

/// The entries with one hash key, in list order.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u64,
    first_slot: u32,
    last: u64,
}

#[derive(Default, Debug)]
struct Index {
    /// With their numbers of live entries.
    classes: Vec<(Class, u32)>,
    chains: WordMap<HashKey, Chain>,
    ranks: Ranks,
    /// Of the list, when `ranks` was right.
    epoch: u64,
}

/// How many live items stand before each place: a Fenwick tree.
#[derive(Default, Debug)]
struct Ranks {
    tree: Vec<u32>,
}

impl Ranks {
    /// One more place, with a live item.
    fn push(&mut self) {
        let place = self.tree.len() + 1;
        let mut sum = 1;
        let mut child = place - 1;
        let end = place & (place - 1);
        while child > end {
            sum += self.tree[child - 1];
            child &= child - 1;
        }
        self.tree.push(sum);
    }

    /// The item at `index` is gone.
    fn remove(&mut self, index: usize) {
        let mut place = index + 1;
        while place <= self.tree.len() {
            self.tree[place - 1] -= 1;
            place += place & place.wrapping_neg();
        }
    }

    /// Live items up to and with `index`.
    fn up_to(&self, index: usize) -> u64 {
        let (mut place, mut sum) = (index + 1, 0);
        while place > 0 {
            sum += u64::from(self.tree[place - 1]);
            place &= place - 1;
        }
        sum
    }
}

/// The entries of one list of a portal table entry.
#[derive(Debug)]
pub(crate) struct MatchList {
    keys: Ordered<Key>,
    /// Made when the list is long.
    index: Option<Box<Index>>,
    /// Entries that a list has before it is hashed.
    long: usize,
    /// The list has too many classes; not tried again until it is empty.
    scattered: bool,
}

/// A walk over so many entries costs as much as a look into the index (measured).
const LONG: usize = 32;
/// More classes than that: walking is better.
const CLASSES_MAX: usize = 16;

impl Default for MatchList {
    fn default() -> Self {
        MatchList { keys: Ordered::default(), index: None, long: LONG, scattered: false }
    }
}

impl MatchList {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The slots of all entries, in list order.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().map(|(_, key)| key.slot)
    }

    /// Appends the entry in `slot`; returns its order number.
    pub fn push(&mut self, slot: u32, me: &MatchEntry) -> u64 {
        let key = Key { bits: me.match_bits, ignore: me.ignore_bits, source: me.match_id, slot, before: END, after: END };
        let order = self.keys.push(key);
        if self.index.is_some() {
            self.add(order);
        } else if self.keys.live > self.long && !self.scattered {
            self.index = Some(Box::default());
            let orders: Vec<u64> = self.keys.iter().map(|(order, _)| order).collect();
            for order in orders {
                self.add(order);
            }
            self.rank();
        }
        order
    }

    /// Adds an entry of the list to the index.
    fn add(&mut self, order: u64) {
        let (Some(index), Some(key)) = (self.index.as_deref_mut(), self.keys.get(order)) else { return };
        let class = Class::of(key);
        let number = match index.classes.iter().position(|&(other, _)| other == class) {
            Some(number) => number,
            None => {
                // A class without entries has no chains: its number can go to another.
                let place = index.classes.iter().position(|&(_, live)| live == 0).unwrap_or(index.classes.len());
                if place == CLASSES_MAX {
                    self.index = None;
                    self.scattered = true;
                    return;
                }
                if place == index.classes.len() {
                    index.classes.push((class, 0));
                }
                index.classes[place].0 = class;
                place
            }
        };
        index.classes[number].1 += 1;
        let slot = key.slot;
        let chain =
            index.chains.entry(class.hash_key(number, key.source, key.bits)).or_insert(Chain { first: order, first_slot: slot, last: END });
        let before = std::mem::replace(&mut chain.last, order);
        if before != END {
            if let Some(other) = self.keys.get_mut(before) {
                other.after = order;
            }
            if let Some(key) = self.keys.get_mut(order) {
                key.before = before;
            }
        }
        if index.epoch == self.keys.epoch {
            index.ranks.push();
        }
    }

    /// Counts anew.
    fn rank(&mut self) {
        let Some(index) = self.index.as_deref_mut() else { return };
        index.epoch = self.keys.epoch;
        index.ranks.tree.clear();
        for place in 0..self.keys.items.len() {
            index.ranks.push();
            if self.keys.items[place].1.is_none() {
                index.ranks.remove(place);
            }
        }
    }

    /// Removes an entry by its order number.
    pub fn remove(&mut self, order: u64) {
        let place = self.keys.index(order);
        let Some(key) = self.keys.remove(order) else { return };
        if let (Some(index), Some(place)) = (self.index.as_deref_mut(), place) {
            index.ranks.remove(place);
        }
        if self.keys.is_empty() {
            self.index = None;
            self.scattered = false;
            return;
        }
        let Some(index) = self.index.as_deref_mut() else { return };
        let class = Class::of(&key);
        if let Some(number) = index.classes.iter().position(|&(other, _)| other == class) {
            index.classes[number].1 -= 1;
            let hash_key = class.hash_key(number, key.source, key.bits);
            if key.before == END && key.after == END {
                index.chains.remove(&hash_key);
            } else if let Some(chain) = index.chains.get_mut(&hash_key) {
                if key.before == END {
                    chain.first = key.after;
                    chain.first_slot = self.keys.get(key.after).map_or(0, |next| next.slot);
                }
                if key.after == END {
                    chain.last = key.before;
                }
            }
        }
        if let Some(before) = self.keys.get_mut(key.before) {
            before.after = key.after;
        }
        if let Some(after) = self.keys.get_mut(key.after) {
            after.before = key.before;
        }
        if self.index.as_deref().is_some_and(|index| index.epoch != self.keys.epoch) {
            self.rank();
        }
    }

    /// The slot of the first entry in list order that a message of `initiator` with `bits`
    /// matches and `fits`, and how many entries the NIC visits to find it (all, when there is
    /// none).
    pub fn find(&self, initiator: ProcessId, bits: u64, mut fits: impl FnMut(u32) -> bool) -> (Option<u32>, u64) {
        let Some(index) = self.index.as_deref() else { return self.walk(initiator, bits, fits) };
        let mut best: Option<(u64, u32)> = None;
        for (number, (class, live)) in index.classes.iter().enumerate() {
            if *live == 0 {
                continue;
            }
            let Some(chain) = index.chains.get(&class.hash_key(number, initiator, bits)) else { continue };
            let (mut order, mut slot) = (chain.first, chain.first_slot);
            while best.is_none_or(|(found, _)| order < found) {
                if fits(slot) {
                    best = Some((order, slot));
                    break;
                }
                let next = self.keys.get(order).map_or(END, |key| key.after);
                let Some(key) = self.keys.get(next) else { break };
                (order, slot) = (next, key.slot);
            }
        }
        match best {
            None => (None, self.keys.live as u64),
            Some((order, slot)) => (Some(slot), self.keys.index(order).map_or(0, |place| index.ranks.up_to(place))),
        }
    }

    fn walk(&self, initiator: ProcessId, bits: u64, mut fits: impl FnMut(u32) -> bool) -> (Option<u32>, u64) {
        let mut visited = 0;
        for (_, key) in self.keys.iter() {
            visited += 1;
            if key.accepts(initiator, bits) && fits(key.slot) {
                return (Some(key.slot), visited);
            }
        }
        (None, visited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(MatchEntry),
        /// The n-th live entry.
        Remove(usize),
        /// Initiator, bits, and a mask of slots that do not fit.
        Find(ProcessId, u64, u32),
    }

    fn step(ignores: u64) -> impl Strategy<Value = Step> {
        let entry = (0u64..4, 0..ignores, 0u32..3, 0u32..3).prop_map(|(match_bits, ignore_bits, nid, pid)| MatchEntry {
            match_bits,
            ignore_bits: ignore_bits * ignore_bits, // 0, 1, 4, 9 ...
            match_id: ProcessId { nid, pid },
            ..MatchEntry::default()
        });
        prop_oneof![
            5 => entry.prop_map(Step::Push),
            3 => any::<usize>().prop_map(Step::Remove),
            4 => (1u32..3, 1u32..3, 0u64..4, any::<u32>()).prop_map(|(nid, pid, bits, mask)| Step::Find(ProcessId { nid, pid }, bits, mask)),
        ]
    }

    fn check(steps: Vec<Step>, long: usize) {
        let mut list = MatchList { long, ..MatchList::default() };
        let mut plain: Vec<(u64, u32, MatchEntry)> = Vec::new();
        let mut slots = 0;
        for step in steps {
            match step {
                Step::Push(me) => {
                    let order = list.push(slots, &me);
                    plain.push((order, slots, me));
                    slots += 1;
                }
                Step::Remove(which) if !plain.is_empty() => {
                    let (order, ..) = plain.remove(which % plain.len());
                    list.remove(order);
                }
                Step::Remove(_) => {}
                Step::Find(initiator, bits, mask) => {
                    let fits = |slot: u32| mask & (1 << (slot % 32)) == 0;
                    let place = plain.iter().position(|(_, slot, me)| me.matches(initiator, bits) && fits(*slot));
                    let expected = match place {
                        Some(place) => (Some(plain[place].1), place as u64 + 1),
                        None => (None, plain.len() as u64),
                    };
                    assert_eq!(list.find(initiator, bits, fits), expected);
                }
            }
        }
        assert_eq!(list.is_empty(), plain.is_empty());
    }

    proptest! {
        #[test]
        fn a_walked_list_and_a_hashed_list_find_what_a_plain_list_finds(steps in prop::collection::vec(step(3), 0..400)) {
            check(steps.clone(), usize::MAX);
            check(steps.clone(), 0);
            check(steps, 10);
        }

        #[test]
        fn a_list_of_many_classes_is_walked(steps in prop::collection::vec(step(30), 0..200)) {
            check(steps, 0);
        }
    }

    #[test]
    fn a_long_list_is_hashed_and_a_scattered_one_is_not() {
        let mut list = MatchList::default();
        let mut orders = Vec::new();
        for bits in 0..100 {
            orders.push(list.push(bits as u32, &MatchEntry { match_bits: bits, ..MatchEntry::default() }));
        }
        assert!(list.index.is_some());
        assert_eq!(list.find(ProcessId { nid: 1, pid: 1 }, 70, |_| true), (Some(70), 71));
        for order in orders {
            list.remove(order);
        }
        assert!(list.is_empty() && list.index.is_none());
        for ignore_bits in 0..100 {
            list.push(0, &MatchEntry { ignore_bits, ..MatchEntry::default() });
        }
        assert!(list.index.is_none() && list.scattered);
    }

    #[test]
    fn gaps_are_closed() {
        let mut list = Ordered::default();
        let mut orders: std::collections::VecDeque<u64> = (0..1_000).map(|i| list.push(i)).collect();
        for i in 1_000..100_000 {
            list.remove(orders.pop_front().unwrap());
            orders.push_back(list.push(i));
        }
        assert!(list.items.len() < 3_000, "{} places for 1,000 items", list.items.len());
        assert!(list.iter().map(|(order, _)| order).eq(orders));
    }
}
