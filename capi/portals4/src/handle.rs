//! Handles: what kind of thing, of which network interface, and a number that is never reused while
//! a stale handle could still be about.
//!
//! | bits | holds |
//! |---|---|
//! | 56..64 | [`HandleKind`], never zero, so that no handle is `PTL_INVALID_HANDLE` |
//! | 48..56 | index of the network interface |
//! | 0..48 | entries: a sequence number; everything else: generation (24 bits) and slot (24 bits) |

use std::ffi::c_int;

use narrows_engine::Tenants;
use narrows_portals::{CtId, EqId};

use crate::abi::Handle;

/// What a handle stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum HandleKind {
    /// A network interface.
    Interface = 1,
    /// An event queue.
    Eq = 2,
    /// A counting event.
    Ct = 3,
    /// A memory descriptor.
    Md = 4,
    /// A list entry.
    Entry = 5,
}

const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const SLOT_BITS: u32 = 24;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

/// A handle of these parts.
pub fn pack(kind: HandleKind, interface: usize, number: u64) -> Handle {
    ((kind as u64) << 56 | (interface as u64) << NUMBER_BITS | (number & NUMBER_MASK)) as Handle
}

/// The parts of any handle, valid or not.
pub fn unpack(handle: Handle) -> Option<(HandleKind, usize, u64)> {
    let bits = handle as u64;
    let kind = match bits >> 56 {
        1 => HandleKind::Interface,
        2 => HandleKind::Eq,
        3 => HandleKind::Ct,
        4 => HandleKind::Md,
        5 => HandleKind::Entry,
        _ => return None,
    };
    Some((kind, (bits >> NUMBER_BITS & 0xff) as usize, bits & NUMBER_MASK))
}

/// Values by slot; a slot is used again, its generation tells old handles from new ones.
#[derive(Debug)]
pub struct Slots<T>(Tenants<T, SLOT_BITS>);

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots::new()
    }
}

impl<T> Slots<T> {
    /// None yet.
    pub const fn new() -> Slots<T> {
        Slots(Tenants::new())
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there are `most` values that `which` accepts.
    pub fn full(&self, most: c_int, which: impl Fn(&T) -> bool) -> bool {
        let most = usize::try_from(most).unwrap_or(0);
        self.count() >= most && self.0.entries().filter(|(.., value)| which(value)).count() >= most
    }

    /// Keeps a value; returns the number for its handle.
    pub fn insert(&mut self, value: T) -> u64 {
        let (slot, generation) = self.0.insert(value);
        number(slot, generation)
    }

    /// The value of a number.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.0.get(slot(number), generation(number))
    }

    /// The value of a number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.0.get_mut(slot(number), generation(number))
    }

    /// Gives a value back.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        self.0.remove(slot(number))
    }

    /// The numbers of all values that `which` accepts, in the order of their slots.
    pub fn numbers(&self, which: impl Fn(&T) -> bool) -> Vec<u64> {
        self.0.entries().filter(|(.., value)| which(value)).map(|(slot, generation, _)| number(slot, generation)).collect()
    }
}

/// The number of a slot and its generation.
fn number(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << SLOT_BITS | u64::from(slot)
}

/// The slot in a number.
fn slot(number: u64) -> u32 {
    (number & SLOT_MASK) as u32
}

/// How many values had the slot before.
fn generation(number: u64) -> u32 {
    (number >> SLOT_BITS) as u32
}

/// The event queue of a number, as the NIC knows it.
pub fn eq_id(number: u64) -> EqId {
    EqId::at(slot(number), generation(number))
}

/// The counting event of a number, as the NIC knows it.
pub fn ct_id(number: u64) -> CtId {
    CtId::at(slot(number), generation(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_nothing_else_is_a_handle() {
        let handle = pack(HandleKind::Md, 3, 0x1234_5678_9abc);
        assert_eq!(unpack(handle), Some((HandleKind::Md, 3, 0x1234_5678_9abc)));
        assert_eq!(unpack(0), None);
        assert_eq!(unpack(usize::MAX), None);
    }

    #[test]
    fn a_stale_number_finds_nothing() {
        let mut slots = Slots::new();
        let first = slots.insert("first");
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second");
        assert_eq!(slot(first), slot(second), "the slot is used again");
        assert_eq!(eq_id(first).slot(), eq_id(second).slot());
        assert_ne!((eq_id(first), ct_id(first)), (eq_id(second), ct_id(second)));
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get(second), Some(&"second"));
        assert_eq!(slots.count(), 1);
    }
}
