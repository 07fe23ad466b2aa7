//! Open requests: an arena with generations, so that an event can never reach a later tenant of
//! the same slot.

use crate::wire::GENERATION_BITS;
use narrows_engine::Tenants;

/// An arena that reuses its slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    /// With their ages.
    slots: Tenants<(u64, T), GENERATION_BITS>,
    sequence: u64,
    limit: usize,
}

impl<T> Slab<T> {
    /// `limit`: how many values there may be before [`Slab::is_full`].
    pub(crate) fn new(limit: usize) -> Self {
        Slab { slots: Tenants::new(), sequence: 0, limit }
    }

    /// See [`narrows_engine::Arena::prefetch`].
    #[inline]
    pub(crate) fn prefetch(&self, step: u32) {
        self.slots.prefetch(step);
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// No new request should be accepted. What already is under way may still take slots.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Index and generation of `value`'s new place.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        self.sequence += 1;
        self.slots.insert((self.sequence, value))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.now_at(index).map(|(_, value)| value)
    }

    /// The value if it still is the tenant of that generation.
    #[inline]
    pub(crate) fn tenant(&self, index: u32, generation: u32) -> Option<&T> {
        self.slots.get(index, generation).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn tenant_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        self.slots.get_mut(index, generation).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slots.generation(index).expect("the slot of a request was given once")
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        self.slots.remove(index).map(|(_, value)| value)
    }

    /// The order in which slots were given back has no influence on where later values go.
    pub(crate) fn forget_order(&mut self) {
        self.slots.forget_order();
    }

    /// Index, age (smaller is older) and value of all, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64, &T)> {
        self.slots.entries().map(|(index, _, (age, value))| (index, *age, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_at_its_limit_and_ages_count_on() {
        let mut slab = Slab::new(2);
        let (first, _) = slab.insert('a');
        slab.insert('b');
        assert!(slab.is_full());
        slab.remove(first);
        assert!(!slab.is_full());
        slab.insert('c');
        let ages: Vec<(char, u64)> = slab.iter().map(|(_, age, value)| (*value, age)).collect();
        assert_eq!(ages, [('c', 3), ('b', 2)]);
    }
}
