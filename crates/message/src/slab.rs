//! Open requests: an arena with generations, so that an event can never reach a later tenant of
//! the same slot.

use crate::wire::GENERATION_MASK;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    sequence: u64,
    value: Option<T>,
}

/// An arena that reuses its slots.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    sequence: u64,
    limit: usize,
}

impl<T> Slab<T> {
    /// `limit`: how many values there may be before [`Slab::is_full`].
    pub(crate) fn new(limit: usize) -> Self {
        Slab { slots: Vec::new(), free: Vec::new(), sequence: 0, limit }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// No new request should be accepted. What already is under way may still take slots.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Index and generation of `value`'s new place.
    pub(crate) fn insert(&mut self, value: T) -> (u32, u32) {
        self.sequence += 1;
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.sequence = self.sequence;
            slot.value = Some(value);
            (index, slot.generation)
        } else {
            let index = u32::try_from(self.slots.len()).expect("the limit lies far below 2^32");
            self.slots.push(Slot { generation: 0, sequence: self.sequence, value: Some(value) });
            (index, 0)
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// The value if it still is the tenant of that generation.
    pub(crate) fn tenant(&self, index: u32, generation: u32) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        if slot.generation == generation { slot.value.as_ref() } else { None }
    }

    pub(crate) fn tenant_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation == generation { slot.value.as_mut() } else { None }
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.slots[index as usize].generation
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(index);
        Some(value)
    }

    /// The order in which slots were given back has no influence on where later values go.
    pub(crate) fn forget_order(&mut self) {
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Index, age (smaller is older) and value of all, in the order of their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| slot.value.as_ref().map(|value| (index as u32, slot.sequence, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_reused_under_another_generation() {
        let mut slab = Slab::new(2);
        let (first, old) = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        assert_eq!(slab.remove(first), None);
        let (second, new) = slab.insert('b');
        assert_eq!(first, second);
        assert_ne!(old, new);
        assert_eq!(slab.tenant_mut(first, old), None);
        assert_eq!(slab.tenant_mut(second, new), Some(&mut 'b'));
    }

    #[test]
    fn the_order_in_which_slots_came_back_can_be_forgotten() {
        let refill = |back: [u32; 3]| {
            let mut slab = Slab::new(4);
            for value in 0..3 {
                slab.insert(value);
            }
            for index in back {
                slab.remove(index);
            }
            slab.forget_order();
            [slab.insert(0).0, slab.insert(1).0, slab.insert(2).0]
        };
        assert_eq!(refill([0, 1, 2]), [0, 1, 2]);
        assert_eq!(refill([1, 0, 2]), [0, 1, 2]);
    }

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
