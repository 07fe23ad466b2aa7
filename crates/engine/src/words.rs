//! Tables whose keys are numbers.

// With a hash of their own, and nobody walks them.
#![allow(clippy::disallowed_types)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes words. For tables that are looked up and never walked, so that their order cannot reach
/// a result.
#[derive(Default, Clone, Copy)]
pub struct WordHasher(u64);

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
pub type WordMap<K, V> = HashMap<K, V, BuildHasherDefault<WordHasher>>;

/// A table of small values by words, for what every message looks up: key and value lie side by side, so that an
/// operation touches one line of the cache, and an insertion takes half the instructions of that of a [`WordMap`].
/// Nobody walks it.
#[derive(Clone, Debug)]
pub struct WordTable<V> {
    /// A power of two of them, at most half of which are taken; or none.
    places: Vec<(u64, V)>,
    taken: usize,
    /// Of the hash, to have the number of a place.
    shift: u32,
    /// What the key [`FREE`] has.
    last: Option<V>,
}

/// The key of a free place.
const FREE: u64 = u64::MAX;
/// Places that a table begins with.
const FIRST_PLACES: usize = 8;

impl<V> Default for WordTable<V> {
    fn default() -> Self {
        WordTable { places: Vec::new(), taken: 0, shift: 0, last: None }
    }
}

impl<V: Copy + Default> WordTable<V> {
    /// Where a key would be if nothing were in its way.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The place of a key, or the free one where it would be.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.home(key);
        while self.places[place].0 != key && self.places[place].0 != FREE {
            place = (place + 1) & mask;
        }
        place
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<V> {
        if key == FREE || self.places.is_empty() {
            return if key == FREE { self.last } else { None };
        }
        let (found, value) = self.places[self.find(key)];
        (found == key).then_some(value)
    }

    /// A key gets a value; the one that it had.
    #[inline]
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        if key == FREE {
            return self.last.replace(value);
        }
        if 2 * (self.taken + 1) > self.places.len() {
            self.grow();
        }
        let place = self.find(key);
        let before = std::mem::replace(&mut self.places[place], (key, value));
        if before.0 == key {
            return Some(before.1);
        }
        self.taken += 1;
        None
    }

    /// A key has no value any more; the one that it had.
    #[inline]
    pub fn remove(&mut self, key: u64) -> Option<V> {
        if key == FREE || self.places.is_empty() {
            return if key == FREE { self.last.take() } else { None };
        }
        let mut hole = self.find(key);
        let (found, value) = self.places[hole];
        if found == FREE {
            return None;
        }
        self.taken -= 1;
        // Those behind it that are not at home move up, so that none is behind a free place on its way.
        let mask = self.places.len() - 1;
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let (other, _) = self.places[place];
            if other == FREE {
                break;
            }
            if place.wrapping_sub(self.home(other)) & mask >= place.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[place];
                hole = place;
            }
        }
        self.places[hole].0 = FREE;
        Some(value)
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.places.len()).max(FIRST_PLACES);
        let before = std::mem::replace(&mut self.places, vec![(FREE, V::default()); size]);
        self.shift = u64::BITS - size.ilog2();
        for (key, value) in before {
            if key != FREE {
                let place = self.find(key);
                self.places[place] = (key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 16 } else { 256 }))]

        /// Against a map: few keys that are near each other, the greatest word among them, so that many share a home.
        #[test]
        fn a_table_is_a_map(steps in prop::collection::vec((0u8..3, 0u64..40, 0u32..9), 0..if cfg!(miri) { 40 } else { 400 })) {
            let (mut table, mut map) = (WordTable::default(), BTreeMap::new());
            for (step, number, value) in steps {
                let key = if number == 0 { u64::MAX } else { number << 60 | number };
                match step {
                    0 => prop_assert_eq!(table.insert(key, value), map.insert(key, value)),
                    1 => prop_assert_eq!(table.remove(key), map.remove(&key)),
                    _ => {}
                }
                prop_assert_eq!(table.get(key), map.get(&key).copied());
            }
            for number in 0u64..40 {
                let key = if number == 0 { u64::MAX } else { number << 60 | number };
                prop_assert_eq!(table.get(key), map.get(&key).copied());
            }
        }
    }
}
