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
