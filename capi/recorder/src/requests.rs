//! Requests under way, by handle.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A handle that no object has.
pub const NO_HANDLE: u64 = u64::MAX;

/// 2^64 by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies (Knuth, TAOCP 3, 6.4): handles are addresses or small numbers, and nobody chooses them to collide.
#[derive(Default)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(MULTIPLIER);
        // The table takes the upper bits for its tags and the lower ones for the place.
        self.0 = product ^ product >> 32;
    }
}

/// A table by handle.
pub type Table<V> = HashMap<u64, V, BuildHasherDefault<Multiply>>;

/// A send or receive that a handle stands for.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// A receive.
    pub receive: bool,
    /// Size of the buffer.
    pub bytes: u64,
    /// The other rank.
    pub peer: i32,
    /// Tag.
    pub tag: i32,
    /// Number of the communicator.
    pub communicator: u16,
}

/// A part of a call that becomes more than one operation.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A message with a known peer.
    Message(Template),
    /// A collective, as in the record of a call, and bytes of one element where vectors are combined.
    Collective(narrows_record::Record, u64),
}

/// What a persistent handle starts.
#[derive(Clone, Debug)]
pub enum Persistent {
    /// A message.
    Message(Template),
    /// A message in parts; how many there are, and how many of those of a send that has begun may not go yet.
    Partitioned { template: Template, parts: i32, left: i32 },
    /// A collective.
    Steps(Vec<Step>),
}

/// One that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Its number, the first of them.
    pub number: u32,
    /// Numbers that it stands for: two for a send with its receive.
    pub count: u32,
    /// A receive from anybody or with any tag, or one that the program has tried to cancel: the status is wanted.
    pub wild: bool,
    /// The program has tried to cancel it.
    pub cancelled: bool,
}

/// Places for requests that are found without a table.
const PLACES: usize = 256;

/// Requests that are under way. Mostly there are few of them: each has a place of its own, and what finds its place
/// taken goes into a table. Half of what a table alone costs.
#[derive(Debug)]
pub struct Requests {
    places: Box<[(u64, Open); PLACES]>,
    others: Table<Open>,
}

impl Default for Requests {
    fn default() -> Self {
        let nobody = (NO_HANDLE, Open { number: 0, count: 0, wild: false, cancelled: false });
        Requests { places: Box::new([nobody; PLACES]), others: Table::default() }
    }
}

impl Requests {
    fn place(handle: u64) -> usize {
        (handle.wrapping_mul(MULTIPLIER) >> 56) as usize % PLACES
    }

    /// The request with a handle.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<&Open> {
        let place = &self.places[Self::place(handle)];
        if place.0 == handle { Some(&place.1) } else { self.others.get(&handle) }
    }

    /// The request with a handle.
    pub fn get_mut(&mut self, handle: u64) -> Option<&mut Open> {
        let place = &mut self.places[Self::place(handle)];
        if place.0 == handle { Some(&mut place.1) } else { self.others.get_mut(&handle) }
    }

    /// A new one; what had the handle before.
    #[inline]
    pub fn insert(&mut self, handle: u64, open: Open) -> Option<Open> {
        let before = self.remove(handle);
        let place = &mut self.places[Self::place(handle)];
        if place.0 == NO_HANDLE {
            *place = (handle, open);
        } else {
            self.others.insert(handle, open);
        }
        before
    }

    /// It is over.
    #[inline]
    pub fn remove(&mut self, handle: u64) -> Option<Open> {
        let place = &mut self.places[Self::place(handle)];
        if place.0 == handle {
            place.0 = NO_HANDLE;
            return Some(place.1);
        }
        if self.others.is_empty() { None } else { self.others.remove(&handle) }
    }
}
