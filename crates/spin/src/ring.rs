//! Memory for packets: a ring of slots of 64 bytes.

use std::collections::VecDeque;

/// Bytes of a slot, and of a beat on PsPIN's 512-bit paths.
pub const SLOT: u64 = 64;

/// Hands out contiguous memory in the order of a ring. What is freed comes back when all that is older is free.
#[derive(Debug)]
pub struct Ring {
    bytes: u64,
    /// Where the next one begins.
    tail: u64,
    used: u64,
    /// Oldest first: bytes with what was left over at the end, and whether they are free.
    taken: VecDeque<(u64, bool)>,
    /// Numbers the oldest one.
    first: u64,
}

impl Ring {
    /// All of it is free.
    pub fn new(bytes: u64) -> Ring {
        Ring { bytes: bytes / SLOT * SLOT, tail: 0, used: 0, taken: VecDeque::new(), first: 0 }
    }

    /// Takes room: its number, and where it begins.
    pub fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let bytes = bytes.max(1).next_multiple_of(SLOT);
        let skipped = if self.tail + bytes > self.bytes { self.bytes - self.tail } else { 0 };
        if self.used + skipped + bytes > self.bytes {
            return None;
        }
        let place = if skipped > 0 { 0 } else { self.tail };
        self.tail = (place + bytes) % self.bytes;
        self.used += skipped + bytes;
        self.taken.push_back((skipped + bytes, false));
        Some((self.first + self.taken.len() as u64 - 1, place))
    }

    /// Gives it back.
    pub fn free(&mut self, number: u64) {
        self.taken[(number - self.first) as usize].1 = true;
        while let Some(&(bytes, true)) = self.taken.front() {
            self.taken.pop_front();
            self.used -= bytes;
            self.first += 1;
        }
        if self.taken.is_empty() {
            self.tail = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_passes_free_slots_only_and_nothing_overlaps() {
        let mut ring = Ring::new(256);
        let a = ring.take(100).unwrap();
        let b = ring.take(64).unwrap();
        assert_eq!((a.1, b.1), (0, 128));
        assert_eq!(ring.take(128), None, "64 bytes are left");
        ring.free(b.0);
        assert_eq!(ring.take(128), None, "the older one is not free");
        ring.free(a.0);
        assert_eq!(ring.take(256).map(|taken| taken.1), Some(0));
    }

    #[test]
    fn what_is_left_at_the_end_is_skipped() {
        let mut ring = Ring::new(256);
        let a = ring.take(128).unwrap();
        let b = ring.take(64).unwrap();
        ring.free(a.0);
        let c = ring.take(128).unwrap();
        assert_eq!(c.1, 0, "64 bytes at the end are too few");
        assert_eq!(ring.take(64), None);
        ring.free(b.0);
        ring.free(c.0);
        assert_eq!(ring.take(256).map(|taken| taken.1), Some(0));
    }
}
