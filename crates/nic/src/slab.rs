/// Things at places that are reused.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

const LIVE: &str = "a half of a message stays until its last event";

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, item: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.items[slot as usize] = Some(item);
            slot
        } else {
            self.items.push(Some(item));
            (self.items.len() - 1) as u32
        }
    }

    pub fn remove(&mut self, slot: u32) -> Option<T> {
        let item = self.items.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(item)
    }

    pub fn get(&self, slot: u32) -> Option<&T> {
        self.items.get(slot as usize)?.as_ref()
    }

    /// What is there.
    pub fn at(&self, slot: u32) -> &T {
        self.get(slot).expect(LIVE)
    }

    pub fn at_mut(&mut self, slot: u32) -> &mut T {
        self.get_mut(slot).expect(LIVE)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().flatten()
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.items.get_mut(slot as usize)?.as_mut()
    }
}
