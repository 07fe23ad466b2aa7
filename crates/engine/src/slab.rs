//! Things at places that are reused.

/// Things by small numbers, which are given again after they are free.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

const LIVE: &str = "who has the number of a place has not given it back";

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds `item`: its number.
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.items[slot as usize] = Some(item);
            slot
        } else {
            self.items.push(Some(item));
            (self.items.len() - 1) as u32
        }
    }

    /// Takes what is there; the number can be given again.
    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let item = self.items.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(item)
    }

    /// What is there, if something is.
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.items.get(slot as usize)?.as_ref()
    }

    /// What is there.
    ///
    /// # Panics
    /// When there is nothing.
    pub fn at(&self, slot: u32) -> &T {
        self.get(slot).expect(LIVE)
    }

    /// What is there.
    ///
    /// # Panics
    /// When there is nothing.
    pub fn at_mut(&mut self, slot: u32) -> &mut T {
        self.get_mut(slot).expect(LIVE)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }

    /// What is there, if something is.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.items.get_mut(slot as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map: true inserts, false removes the place with the lowest number from `number` on.
        #[test]
        fn holds_what_was_put_in_and_not_taken_out(steps in prop::collection::vec((any::<bool>(), 0u32..20), 0..100)) {
            let mut slab = Slab::default();
            let mut expected = BTreeMap::new();
            let mut most = 0;
            for (time, (insert, number)) in steps.into_iter().enumerate() {
                if insert {
                    let place = slab.insert(time);
                    prop_assert_eq!(expected.insert(place, time), None, "a place that was free");
                } else {
                    let place = expected.range(number..).next().map_or(number, |(place, _)| *place);
                    prop_assert_eq!(slab.remove(place), expected.remove(&place));
                    prop_assert_eq!(slab.get_mut(place), None);
                }
                most = most.max(expected.len());
                prop_assert!(expected.keys().all(|place| (*place as usize) < most), "free places are given again first");
            }
            prop_assert!(slab.iter().eq(expected.values()));
            prop_assert!(expected.iter().all(|(place, item)| slab.at(*place) == item));
        }
    }
}
