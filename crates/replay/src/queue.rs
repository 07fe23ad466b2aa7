//! The event queue of the LogGP replay: a radix heap.
//!
//! The engine's queue orders by time, source and the source's sequence. The model of LogGOPSim orders by time and one
//! sequence over all ranks, and in regular patterns thousands of events have the same time, which no calendar can part.
//! A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster Algorithms for the Shortest Path Problem, JACM 1990) puts an
//! event into the bucket of the highest bit in which its time differs from now; it moves to lower buckets as time comes
//! nearer, in the order of insertion. Events of one time so are mostly in order when their time has come.

use narrows_units::SimTime;

/// An event: its time, its place among the events of that time, and what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<E> {
    pub at: u64,
    pub order: u64,
    pub event: E,
}

#[derive(Debug)]
pub(crate) struct Queue<E> {
    /// Bucket 0: events of now, in order, the next one at `next`. Bucket b: bit b - 1 is the highest that differs.
    buckets: Vec<Vec<Entry<E>>>,
    next: usize,
    now: u64,
    /// Bit b: bucket b has something.
    occupied: u64,
    far: u64,
}

impl<E: Copy> Queue<E> {
    pub fn new() -> Self {
        Queue { buckets: (0..65).map(|_| Vec::new()).collect(), next: 0, now: 0, occupied: 0, far: 0 }
    }

    #[inline]
    fn bucket(&self, at: u64) -> usize {
        64 - (at ^ self.now).leading_zeros() as usize
    }

    /// Events wait at their time in the order of `order`, which must be unique.
    #[inline]
    pub fn push(&mut self, at: SimTime, order: u64, event: E) {
        let at = at.as_ps();
        debug_assert!(at >= self.now, "an event in the past");
        let entry = Entry { at, order, event };
        let index = self.bucket(at);
        if index == 0 {
            self.push_now(entry);
        } else {
            if self.buckets[index].is_empty() {
                self.mark(index);
            }
            self.buckets[index].push(entry);
        }
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        if index < 64 { self.occupied |= 1 << index } else { self.far = 1 }
    }

    fn push_now(&mut self, entry: Entry<E>) {
        let bucket = &mut self.buckets[0];
        if bucket.last().is_none_or(|last| last.order < entry.order) {
            bucket.push(entry);
        } else {
            let place = self.next + bucket[self.next..].partition_point(|other| other.order < entry.order);
            bucket.insert(place, entry);
        }
    }

    /// The next event.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry<E>> {
        if self.next == self.buckets[0].len() && !self.advance() {
            return None;
        }
        let entry = self.buckets[0][self.next];
        self.next += 1;
        Some(entry)
    }

    /// What comes `ahead` events after the next one, if it is of the same time.
    #[inline]
    pub fn peek(&self, ahead: usize) -> Option<&E> {
        self.buckets[0].get(self.next + ahead).map(|entry| &entry.event)
    }

    /// Moves time to the next event.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        self.buckets[0].clear();
        self.next = 0;
        let index = if self.occupied != 0 {
            self.occupied.trailing_zeros() as usize
        } else if self.far != 0 {
            64
        } else {
            return false;
        };
        if index < 64 {
            self.occupied &= !(1 << index)
        } else {
            self.far = 0
        }
        let mut page = std::mem::take(&mut self.buckets[index]);
        self.now = page.iter().map(|entry| entry.at).min().unwrap_or(self.now);
        for &entry in &page {
            let index = self.bucket(entry.at);
            if index > 0 && self.buckets[index].is_empty() {
                self.mark(index);
            }
            self.buckets[index].push(entry);
        }
        page.clear();
        self.buckets[index] = page;
        let bucket = &mut self.buckets[0];
        if !bucket.is_sorted_by_key(|entry| entry.order) {
            bucket.sort_unstable_by_key(|entry| entry.order);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted list: events in the future and now, orders old and new.
        #[test]
        fn pops_by_time_and_order(steps in prop::collection::vec((0u64..3, 0u32..40, 0u64..4, any::<bool>()), 1..400)) {
            let mut queue = Queue::new();
            let mut expected: Vec<(u64, u64)> = Vec::new();
            let (mut now, mut fresh) = (0, 1_000);
            let mut spare: Vec<u64> = (0..400).collect();
            for (number, shift, pops, old) in steps {
                let at = now + (number << shift);
                let order = if old { spare.pop().unwrap() } else { fresh += 1; fresh };
                // An older order at the present time must not come before what is gone already: the model never does
                // that.
                let at = if old { at + 1 } else { at };
                queue.push(SimTime(at), order, ());
                expected.push((at, order));
                for _ in 0..pops {
                    expected.sort_unstable();
                    let popped = queue.pop().map(|entry| (entry.at, entry.order));
                    let first = (!expected.is_empty()).then(|| expected.remove(0));
                    prop_assert_eq!(popped, first);
                    now = first.map_or(now, |(at, _)| at);
                }
            }
            expected.sort_unstable();
            for first in expected {
                prop_assert_eq!(queue.pop().map(|entry| (entry.at, entry.order)), Some(first));
            }
            prop_assert!(queue.pop().is_none());
        }
    }
}
