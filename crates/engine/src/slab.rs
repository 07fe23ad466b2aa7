//! Things at places that are reused, in three layers: [`Arena`] for records in a hot loop, [`Slab`] for things that are
//! dropped when they go, [`Tenants`] for those who may ask with the number of one that has gone.

use crate::prefetch::{prefetch, prefetch_all};
use std::ops::{Index, IndexMut};

/// Records by small numbers, which are given again after they are free. It does not know which places are taken: who
/// has a number has the record, and gives it back once.
#[derive(Clone, Debug)]
pub struct Arena<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena::new()
    }
}

impl<T> Arena<T> {
    /// Without any.
    pub const fn new() -> Self {
        Arena { items: Vec::new(), free: Vec::new() }
    }

    /// Adds `item`: its number.
    #[inline]
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.items[place as usize] = item;
            return place;
        }
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// The number can be given again. The record stays until then.
    #[inline]
    pub fn remove(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Something is about to be added, or what was added last to be looked at: see [`prefetch`], in steps from 0 on.
    #[inline]
    pub fn prefetch(&self, step: u32) {
        match (step, self.free.last()) {
            (0, Some(place)) => prefetch(place),
            (1, Some(&place)) => self.items.get(place as usize).into_iter().for_each(prefetch_all),
            (1, None) => self.items.last().into_iter().for_each(prefetch_all),
            _ => {}
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The order in which numbers were given back has no influence on which is given next: the lowest.
    pub fn forget_order(&mut self) {
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// What is or was at each place.
    pub fn places(&self) -> &[T] {
        &self.items
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;
    #[inline]
    fn index(&self, place: u32) -> &T {
        &self.items[place as usize]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize]
    }
}

/// Things by small numbers, which are given again after they are free.
#[derive(Clone, Debug)]
pub struct Slab<T>(Arena<Option<T>>);

const LIVE: &str = "who has the number of a place has not given it back";

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T> Slab<T> {
    /// Without any.
    pub const fn new() -> Self {
        Slab(Arena::new())
    }

    /// Adds `item`: its number.
    pub fn insert(&mut self, item: T) -> u32 {
        self.0.insert(Some(item))
    }

    /// See [`Arena::prefetch`].
    #[inline]
    pub fn prefetch(&self, step: u32) {
        self.0.prefetch(step);
    }

    /// Takes what is there; the number can be given again.
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let item = self.0.items.get_mut(place as usize)?.take()?;
        self.0.remove(place);
        Some(item)
    }

    /// What is there, if something is.
    pub fn get(&self, place: u32) -> Option<&T> {
        self.0.items.get(place as usize)?.as_ref()
    }

    /// What is there, if something is.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.0.items.get_mut(place as usize)?.as_mut()
    }

    /// What is there.
    ///
    /// # Panics
    /// When there is nothing.
    pub fn at(&self, place: u32) -> &T {
        self.get(place).expect(LIVE)
    }

    /// What is there.
    ///
    /// # Panics
    /// When there is nothing.
    pub fn at_mut(&mut self, place: u32) -> &mut T {
        self.get_mut(place).expect(LIVE)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// See [`Arena::forget_order`].
    pub fn forget_order(&mut self) {
        self.0.forget_order();
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.items.iter().flatten()
    }

    /// All with their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.0.items).filter_map(|(place, item)| item.as_ref().map(|item| (place, item)))
    }
}

/// Things at places that count their tenants, so that nobody reaches a later one with the number of one that has gone.
/// A count has `BITS` bits, and begins anew behind them.
#[derive(Clone, Debug)]
pub struct Tenants<T, const BITS: u32>(Arena<Tenant<T>>);

#[derive(Clone, Debug)]
struct Tenant<T> {
    /// Those before.
    generation: u32,
    item: Option<T>,
}

impl<T, const BITS: u32> Default for Tenants<T, BITS> {
    fn default() -> Self {
        Tenants::new()
    }
}

impl<T, const BITS: u32> Tenants<T, BITS> {
    /// Without any.
    pub const fn new() -> Self {
        Tenants(Arena::new())
    }

    /// Adds `item`: its place, and the count there.
    #[inline]
    pub fn insert(&mut self, item: T) -> (u32, u32) {
        // The count stays with the place, so this is not the insert of the arena.
        if let Some(place) = self.0.free.pop() {
            let tenant = &mut self.0[place];
            tenant.item = Some(item);
            return (place, tenant.generation);
        }
        (self.0.insert(Tenant { generation: 0, item: Some(item) }), 0)
    }

    /// See [`Arena::prefetch`].
    #[inline]
    pub fn prefetch(&self, step: u32) {
        self.0.prefetch(step);
    }

    /// How many tenants the place has had before this one.
    #[inline]
    pub fn generation(&self, place: u32) -> Option<u32> {
        self.0.items.get(place as usize).map(|tenant| tenant.generation)
    }

    /// What is there, if it is the tenant of that count.
    #[inline]
    pub fn get(&self, place: u32, generation: u32) -> Option<&T> {
        let tenant = self.0.items.get(place as usize)?;
        if tenant.generation == generation { tenant.item.as_ref() } else { None }
    }

    /// What is there, if it is the tenant of that count.
    #[inline]
    pub fn get_mut(&mut self, place: u32, generation: u32) -> Option<&mut T> {
        let tenant = self.0.items.get_mut(place as usize)?;
        if tenant.generation == generation { tenant.item.as_mut() } else { None }
    }

    /// What is there, whichever tenant it is.
    #[inline]
    pub fn now_at(&mut self, place: u32) -> Option<&mut T> {
        self.0.items.get_mut(place as usize)?.item.as_mut()
    }

    /// Takes what is there, whichever tenant it is.
    #[inline]
    pub fn remove(&mut self, place: u32) -> Option<T> {
        let tenant = self.0.items.get_mut(place as usize)?;
        let item = tenant.item.take()?;
        tenant.generation = (tenant.generation + 1) & (u32::MAX >> (32 - BITS));
        self.0.remove(place);
        Some(item)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All: place, count and what is there.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        let places = (0..).zip(&self.0.items);
        places.filter_map(|(place, tenant)| tenant.item.as_ref().map(|item| (place, tenant.generation, item)))
    }

    /// See [`Arena::forget_order`].
    pub fn forget_order(&mut self) {
        self.0.forget_order();
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

    #[test]
    fn a_place_is_given_again_under_another_count() {
        let mut tenants: Tenants<char, 1> = Tenants::new();
        let (first, old) = tenants.insert('a');
        assert_eq!((tenants.remove(first), tenants.remove(first)), (Some('a'), None));
        let (second, new) = tenants.insert('b');
        assert_eq!((first, old, new), (second, 0, 1));
        assert_eq!(tenants.get(first, old), None);
        assert_eq!(tenants.get_mut(first, old), None);
        assert_eq!(tenants.get(second, new), Some(&'b'));
        assert_eq!(tenants.now_at(second), Some(&mut 'b'));
        assert_eq!(tenants.entries().collect::<Vec<_>>(), [(second, new, &'b')]);
        // One bit: the third tenant counts as the first again.
        tenants.remove(second);
        assert_eq!(tenants.insert('c'), (first, 0));
        assert_eq!((tenants.len(), tenants.remove(9)), (1, None));
    }

    #[test]
    fn the_order_in_which_places_came_back_can_be_forgotten() {
        let refill = |back: [u32; 3]| {
            let mut tenants: Tenants<u32, 8> = Tenants::new();
            (0..3).for_each(|value| _ = tenants.insert(value));
            back.iter().for_each(|place| _ = tenants.remove(*place));
            tenants.forget_order();
            [0, 1, 2].map(|value| tenants.insert(value).0)
        };
        assert_eq!([refill([0, 1, 2]), refill([1, 0, 2])], [[0, 1, 2]; 2]);
    }

    #[test]
    fn an_arena_keeps_records_until_their_places_are_given_again() {
        let mut arena = Arena::new();
        let places = ['a', 'b', 'c'].map(|record| arena.insert(record));
        arena.remove(places[1]);
        assert_eq!((places, arena.len(), arena.places()), ([0, 1, 2], 2, ['a', 'b', 'c'].as_slice()));
        arena[0] = 'A';
        assert_eq!((arena.insert('d'), arena[0], arena[1], arena.is_empty()), (1, 'A', 'd', false));
    }
}
