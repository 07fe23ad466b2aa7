//! Lists that keep their order, with cheap removal anywhere: entries and unexpected headers.
//!
//! A [`MatchList`] is walked while its messages find their entries near its head. When they do not, it
//! is also hashed: entries that ignore the same bits and have the same wildcards form a class, and
//! within a class a message can only match entries with one value of (bits, source). So a message looks
//! once into each class (there are few: exact, any source, any tag ...) and takes the candidate that
//! stands first in the list. The NIC that is modelled walks the list, so a find also says how many
//! entries stand before its result.

use narrows_engine::{WordMap, prefetch_all};
use narrows_portals::{MatchEntry, NID_ANY, PID_ANY, ProcessId};

/// A list in the order of insertion. An item is known by its order number, which only grows;
/// removed items leave a gap that is closed from time to time, so that a removal costs a binary
/// search and a walk runs over adjacent memory.
#[derive(Debug)]
pub struct Ordered<T> {
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
    /// Nothing is in it.
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

/// No slot.
const END: u32 = u32::MAX;

/// What of an entry decides whether a message may use it, beside its room.
#[derive(Clone, Copy, Debug)]
struct Key {
    bits: u64,
    ignore: u64,
    source: ProcessId,
    /// Where the rest is.
    slot: u32,
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

/// The slots of the first and the last entry with one hash key, in list order.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
}

/// The slots of an entry's neighbours in its chain, or [`END`].
#[derive(Clone, Copy, Default, Debug)]
struct Link {
    order: u64,
    before: u32,
    after: u32,
}

#[derive(Default, Debug)]
struct Index {
    /// With their numbers of live entries.
    classes: Vec<(Class, u32)>,
    chains: WordMap<HashKey, Chain>,
    /// By slot.
    links: Vec<Link>,
    ranks: Ranks,
    /// Of the list, when `ranks` was right.
    epoch: u64,
}

impl Index {
    /// Adds the last entry of the list; false: it has too many classes.
    fn add(&mut self, order: u64, key: &Key) -> bool {
        let class = Class::of(key);
        let number = match self.classes.iter().position(|&(other, _)| other == class) {
            Some(number) => number,
            None => {
                // A class without entries has no chains: its number can go to another.
                let place = self.classes.iter().position(|&(_, live)| live == 0).unwrap_or(self.classes.len());
                if place == CLASSES_MAX {
                    return false;
                }
                if place == self.classes.len() {
                    self.classes.push((class, 0));
                }
                self.classes[place].0 = class;
                place
            }
        };
        self.classes[number].1 += 1;
        let slot = key.slot;
        let chain = self.chains.entry(class.hash_key(number, key.source, key.bits)).or_insert(Chain { first: slot, last: END });
        let before = std::mem::replace(&mut chain.last, slot);
        if slot as usize >= self.links.len() {
            self.links.resize(slot as usize + 1, Link::default());
        }
        self.links[slot as usize] = Link { order, before, after: END };
        if let Some(before) = self.links.get_mut(before as usize) {
            before.after = slot;
        }
        true
    }

    fn remove(&mut self, key: &Key) {
        let class = Class::of(key);
        let Some(number) = self.classes.iter().position(|&(other, _)| other == class) else { return };
        self.classes[number].1 -= 1;
        let hash_key = class.hash_key(number, key.source, key.bits);
        let Link { before, after, .. } = self.links[key.slot as usize];
        if before == END && after == END {
            self.chains.remove(&hash_key);
            return;
        }
        if before == END || after == END {
            let Some(chain) = self.chains.get_mut(&hash_key) else { return };
            if before == END {
                chain.first = after;
            } else {
                chain.last = before;
            }
        }
        if let Some(before) = self.links.get_mut(before as usize) {
            before.after = after;
        }
        if let Some(after) = self.links.get_mut(after as usize) {
            after.before = before;
        }
    }

    /// Order number and slot of what [`MatchList::find`] looks for.
    fn find(&self, initiator: ProcessId, bits: u64, mut fits: impl FnMut(u32) -> bool) -> Option<(u64, u32)> {
        let mut best: Option<(u64, u32)> = None;
        for (number, (class, live)) in self.classes.iter().enumerate() {
            if *live == 0 {
                continue;
            }
            let Some(chain) = self.chains.get(&class.hash_key(number, initiator, bits)) else { continue };
            let mut slot = chain.first;
            while let Some(link) = self.links.get(slot as usize)
                && best.is_none_or(|(found, _)| link.order < found)
            {
                if fits(slot) {
                    best = Some((link.order, slot));
                    break;
                }
                slot = link.after;
            }
        }
        best
    }

    /// Counts what is alive anew.
    fn rank(&mut self, keys: &Ordered<Key>) {
        self.epoch = keys.epoch;
        self.ranks.tree.clear();
        for place in 0..keys.items.len() {
            self.ranks.push();
            if keys.items[place].1.is_none() {
                self.ranks.remove(place);
            }
        }
    }
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
pub struct MatchList {
    keys: Ordered<Key>,
    /// There when it pays.
    index: Option<Box<Index>>,
    /// What the other way of searching would have saved lately, in entries walked over.
    regret: u64,
    /// The list has too many classes; not tried again until it is empty.
    scattered: bool,
    even: u64,
    patience: u64,
}

/// A walk over so many entries costs as much as the index does for a find, a removal and an append (measured).
const EVEN: u64 = 100;
/// To make the index costs as much per entry as a walk over so many (measured).
const PATIENCE: u64 = 64;
/// More classes than that: walking is better.
const CLASSES_MAX: usize = 16;

impl Default for MatchList {
    fn default() -> Self {
        MatchList { keys: Ordered::default(), index: None, regret: 0, scattered: false, even: EVEN, patience: PATIENCE }
    }
}

impl MatchList {
    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// It is about to be walked: see [`narrows_engine::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.keys.items.get(self.keys.first).into_iter().for_each(prefetch_all);
    }

    /// The slots of all entries, in list order.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().map(|(_, key)| key.slot)
    }

    /// Appends the entry in `slot`, which no other entry of the list has; returns its order number.
    pub fn push(&mut self, slot: u32, me: &MatchEntry) -> u64 {
        let key = Key { bits: me.match_bits, ignore: me.ignore_bits, source: me.match_id, slot };
        let order = self.keys.push(key);
        if let Some(index) = self.index.as_deref_mut() {
            index.ranks.push();
            if !index.add(order, &key) {
                self.index = None;
                self.scattered = true;
            }
        }
        order
    }

    /// Removes an entry by its order number.
    pub fn remove(&mut self, order: u64) {
        let place = if self.index.is_some() { self.keys.index(order) } else { None };
        let Some(key) = self.keys.remove(order) else { return };
        if self.keys.is_empty() {
            self.index = None;
            self.regret = 0;
            self.scattered = false;
        }
        let (Some(index), Some(place)) = (self.index.as_deref_mut(), place) else { return };
        index.remove(&key);
        if index.epoch == self.keys.epoch {
            index.ranks.remove(place);
        } else {
            index.rank(&self.keys);
        }
    }

    /// The slot of the first entry in list order that a message of `initiator` with `bits`
    /// matches and `fits`, and how many entries the NIC visits to find it (all, when there is
    /// none).
    pub fn find(&mut self, initiator: ProcessId, bits: u64, fits: impl FnMut(u32) -> bool) -> (Option<u32>, u64) {
        let (found, visited) = match self.index.as_deref() {
            None => self.walk(initiator, bits, fits),
            Some(index) => match index.find(initiator, bits, fits) {
                None => (None, self.keys.live as u64),
                Some((order, slot)) => (Some(slot), self.keys.index(order).map_or(0, |place| index.ranks.up_to(place))),
            },
        };
        self.weigh(visited);
        (found, visited)
    }

    fn walk(&self, initiator: ProcessId, bits: u64, mut fits: impl FnMut(u32) -> bool) -> (Option<u32>, u64) {
        let mut visited = 0;
        let mut keys = self.keys.iter().inspect(|_| visited += 1);
        let found = keys.find(|(_, key)| key.accepts(initiator, bits) && fits(key.slot));
        (found.map(|(_, key)| key.slot), visited)
    }

    /// Changes between walking and the index when that would have paid for the change: each is at most twice as dear as
    /// the better one.
    fn weigh(&mut self, visited: u64) {
        let (longer, shorter) = (visited.saturating_sub(self.even), self.even.saturating_sub(visited));
        let (worse, better) = if self.index.is_none() { (longer, shorter) } else { (shorter, longer) };
        self.regret = self.regret.saturating_add(worse).saturating_sub(better);
        if self.regret <= self.patience.saturating_mul(self.keys.live as u64) {
            return;
        }
        self.regret = 0;
        if self.index.take().is_none() && !self.scattered {
            self.build();
        }
    }

    fn build(&mut self) {
        let mut index = Box::<Index>::default();
        for (order, key) in self.keys.iter() {
            if !index.add(order, key) {
                self.scattered = true;
                return;
            }
        }
        index.rank(&self.keys);
        self.index = Some(index);
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

    /// `even` and `patience` decide when the list is hashed.
    fn check(steps: Vec<Step>, even: u64, patience: u64) {
        let mut list = MatchList { even, patience, ..MatchList::default() };
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
            check(steps.clone(), u64::MAX, u64::MAX);
            check(steps.clone(), 0, 0);
            check(steps, 8, 2); // to and fro
        }

        #[test]
        fn a_list_of_many_classes_is_walked(steps in prop::collection::vec(step(30), 0..200)) {
            check(steps, 0, 0);
        }
    }

    const HERE: ProcessId = ProcessId { nid: 1, pid: 1 };

    #[test]
    fn a_list_is_hashed_when_walks_are_long_and_no_longer_when_they_are_short() {
        let mut list = MatchList::default();
        let entry = |bits: u64| MatchEntry { match_bits: bits, ..MatchEntry::default() };
        let mut orders: Vec<u64> = (0..1000).map(|bits| list.push(bits as u32, &entry(bits))).collect();
        // 900 entries more than EVEN each: more than PATIENCE times 1,000 after 72 of them.
        for _ in 0..71 {
            assert_eq!(list.find(HERE, 999, |_| true), (Some(999), 1000));
        }
        assert!(list.index.is_none());
        list.find(HERE, 999, |_| true);
        assert!(list.index.is_some());
        assert_eq!(list.find(HERE, 700, |_| true), (Some(700), 701));
        for _ in 0..700 {
            assert_eq!(list.find(HERE, 0, |_| true), (Some(0), 1));
        }
        assert!(list.index.is_none());
        orders.drain(..).for_each(|order| list.remove(order));
        assert!(list.is_empty());
    }

    #[test]
    fn a_list_of_too_many_classes_is_never_hashed() {
        let mut list = MatchList { even: 0, patience: 0, ..MatchList::default() };
        let mut orders: Vec<u64> = Vec::new();
        for bits in 0..100 {
            let me = MatchEntry { match_bits: 1 << 40, ignore_bits: bits, ..MatchEntry::default() };
            orders.push(list.push(bits as u32, &me));
            assert_eq!(list.find(HERE, 0, |_| true), (None, bits + 1));
        }
        assert!(list.index.is_none() && list.scattered);
        orders.drain(..).for_each(|order| list.remove(order));
        assert!(!list.scattered);
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
