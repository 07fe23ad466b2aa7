//! A priority queue whose cost does not grow with its length.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A heap alone up to this many events, the calendar above it. Both limits, and those below, by the bench `hold`.
const CALENDAR_FROM: usize = 512;
/// Back to the heap alone below this.
const HEAP_BELOW: usize = 128;
/// Log2 of the events that a bucket has, were they spread evenly.
const WANTED_BITS: u32 = 6;
/// The width is changed when it is off by this power of two.
const TOLERATED_BITS: u32 = 2;

/// An event and its place in the total order: time above key. One number: parts that are compared one by one, or put
/// together to be compared, took up to 1.4 times as long.
#[derive(Debug)]
struct Entry<E> {
    order: u128,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    fn at(&self) -> u64 {
        (self.order >> 64) as u64
    }
}

impl<E> Ord for Entry<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Entry<E> {}

/// A priority queue of events by (time, key), both 64 bits; what their units are is up to the caller.
///
/// A few events are kept in one heap (the standard library's: a 4-ary one with swaps took twice its time). With more,
/// there is a calendar: a ring of unsorted buckets, each a short span of time, and a heap for what is beyond the ring.
/// The bucket whose turn it is gets sorted (into `page`) and read off; what is inserted into its span while it is read
/// goes to the heap `near`, which is mostly empty: both fit the nearest cache, and the cost of an event does not grow
/// with their number. The width of the buckets follows the events, of those that turn up at the next bucket and, where
/// the bucket being read is so wide that this never comes, of those in the heap; it changes no order.
#[derive(Debug)]
pub struct CalendarQueue<E> {
    /// The bucket being read, latest first.
    page: Vec<Entry<E>>,
    /// What else comes before the horizon. One of the two is not empty, unless the whole queue is.
    near: BinaryHeap<Reverse<Entry<E>>>,
    /// With more events in that heap the calendar is opened, or the width of its buckets looked at.
    most_near: usize,
    calendar: Option<Calendar<E>>,
    /// The time of the last popped event.
    now: u64,
}

impl<E> Default for CalendarQueue<E> {
    fn default() -> Self {
        CalendarQueue::new()
    }
}

impl<E> CalendarQueue<E> {
    /// Nothing waits.
    pub fn new() -> Self {
        CalendarQueue { page: Vec::new(), near: BinaryHeap::new(), most_near: CALENDAR_FROM, calendar: None, now: 0 }
    }

    /// Adds an event. Its time must not lie before that of the last popped one.
    #[inline]
    pub fn insert(&mut self, at: u64, key: u64, event: E) {
        debug_assert!(at >= self.now);
        let entry = Entry { order: u128::from(at) << 64 | u128::from(key), event };
        match &mut self.calendar {
            Some(calendar) if at >> calendar.shift > calendar.current => {
                calendar.leads += u64::from(log2(at - self.now));
                calendar.inserted += 1;
                calendar.insert(entry);
            }
            _ => {
                self.near.push(Reverse(entry));
                if self.near.len() > self.most_near {
                    self.part_near();
                }
            }
        }
    }

    /// Time and key of the next event.
    #[inline]
    pub fn peek(&self) -> Option<(u64, u64)> {
        let order = match (self.page.last(), self.near.peek()) {
            (Some(page), Some(Reverse(near))) => page.order.min(near.order),
            (Some(entry), None) | (None, Some(Reverse(entry))) => entry.order,
            (None, None) => return None,
        };
        Some(((order >> 64) as u64, order as u64))
    }

    /// Takes the next event: time, key and event.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, u64, E)> {
        let from_page = match (self.page.last(), self.near.peek()) {
            (Some(page), Some(Reverse(near))) => page.order < near.order,
            (page, _) => page.is_some(),
        };
        let entry = if from_page { self.page.pop()? } else { self.near.pop()?.0 };
        self.now = entry.at();
        if self.page.is_empty() && self.near.is_empty() && self.calendar.is_some() {
            self.turn_page();
        }
        Some((entry.at(), entry.order as u64, entry.event))
    }

    /// The event that comes `distance` events after the next one, with its key, if nothing new comes before it and it
    /// is in the bucket being read: a hint for [`prefetch`](crate::prefetch).
    #[inline]
    pub fn ahead(&self, distance: usize) -> Option<(u64, &E)> {
        let index = self.page.len().wrapping_sub(distance + 1);
        self.page.get(index).map(|entry| (entry.order as u64, &entry.event))
    }

    /// Key and event of those before `end` that are not in the calendar, in no order: a hint, too.
    pub fn near(&self, end: u64) -> impl Iterator<Item = (u64, &E)> {
        let near = self.near.iter().map(|entry| &entry.0).chain(&self.page);
        near.filter(move |entry| entry.at() < end).map(|entry| (entry.order as u64, &entry.event))
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.page.len() + self.near.len() + self.calendar.as_ref().map_or(0, Calendar::len)
    }

    /// Nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.page.is_empty() && self.near.is_empty()
    }

    /// Opens the next bucket of the calendar.
    #[inline(never)]
    fn turn_page(&mut self) {
        let Some(calendar) = &mut self.calendar else { return };
        self.most_near = CALENDAR_FROM;
        if calendar.len() < HEAP_BELOW {
            let mut all = Vec::with_capacity(calendar.len());
            calendar.take_all(&mut all);
            self.near = all.into_iter().map(Reverse).collect();
            self.calendar = None;
            return;
        }
        calendar.turn(&mut self.page);
        self.page.sort_unstable_by(|one, other| other.cmp(one));
        let events = self.page.len() + calendar.len();
        // Not before a rebuild costs little per event.
        if calendar.inserted >= (events as u64 / 2).max(1000) {
            let shift = calendar.better_shift(events);
            let crowded = events > calendar.buckets.len() << (WANTED_BITS + 2);
            if shift.abs_diff(calendar.shift) >= TOLERATED_BITS || crowded {
                self.rebuild(shift);
            }
        }
    }

    /// From the heap alone to the calendar, or to one with narrower buckets. A simulation that was prepared with events
    /// far ahead would stay in its first bucket, and so with a heap, otherwise.
    #[cold]
    fn part_near(&mut self) {
        let leads = self.near.iter().map(|entry| u64::from(log2(entry.0.at() - self.now))).sum();
        let shift = suitable_shift(leads, self.near.len() as u64, self.near.len());
        // What wider buckets are good for is seen where the next one is opened.
        if self.calendar.as_ref().is_none_or(|calendar| shift + TOLERATED_BITS <= calendar.shift) {
            self.rebuild(shift);
            self.most_near = CALENDAR_FROM;
        } else {
            self.most_near = 2 * self.near.len();
        }
    }

    /// A calendar with buckets of `2^shift` units of time.
    #[cold]
    fn rebuild(&mut self, shift: u32) {
        let mut all: Vec<Entry<E>> = self.near.drain().map(|entry| entry.0).collect();
        all.append(&mut self.page);
        if let Some(calendar) = &mut self.calendar {
            calendar.take_all(&mut all);
        }
        let first = all.iter().map(|entry| entry.at()).min().unwrap_or(0);
        let mut calendar = Calendar::new(shift, first >> shift, all.len());
        for entry in all {
            if calendar.bucket_of(&entry) == calendar.current {
                self.page.push(entry);
            } else {
                calendar.insert(entry);
            }
        }
        self.page.sort_unstable_by(|one, other| other.cmp(one));
        self.calendar = Some(calendar);
    }
}

/// Events after the bucket `current`. Buckets are numbered by their time, `time >> shift`.
#[derive(Debug)]
struct Calendar<E> {
    shift: u32,
    current: u64,
    /// Those after `current`, as many as there are; bucket `b` at `b % buckets.len()`, a power of two.
    buckets: Vec<Vec<Entry<E>>>,
    /// A bit for each bucket with events.
    occupied: Vec<u64>,
    /// Events in the buckets.
    count: usize,
    /// A heap of what comes after the last bucket.
    far: BinaryHeap<Reverse<Entry<E>>>,
    /// Since the last look at the width: events inserted, and the sum of log2 of how far ahead they were.
    inserted: u64,
    leads: u64,
}

/// The number of bits of a lead.
#[inline]
fn log2(lead: u64) -> u32 {
    u64::BITS - lead.leading_zeros()
}

/// The width for `events` that wait, `inserted` with these `leads`. The geometric mean: a few timeouts far ahead do not
/// matter, nor do many events of one instant, which no width can part.
fn suitable_shift(leads: u64, inserted: u64, events: usize) -> u32 {
    let span = (leads / inserted.max(1)) as u32 + 1;
    (span + WANTED_BITS).saturating_sub(events.max(1).ilog2()).min(63)
}

impl<E> Calendar<E> {
    fn new(shift: u32, current: u64, events: usize) -> Self {
        // Four times what the events fill at the wanted density, so that few go beyond the ring.
        let size = ((4 * events) >> WANTED_BITS).next_power_of_two().max(256);
        Calendar {
            shift,
            current,
            buckets: (0..size).map(|_| Vec::new()).collect(),
            occupied: vec![0; size / 64],
            count: 0,
            far: BinaryHeap::new(),
            inserted: 0,
            leads: 0,
        }
    }

    fn len(&self) -> usize {
        self.count + self.far.len()
    }

    #[inline]
    fn bucket_of(&self, entry: &Entry<E>) -> u64 {
        entry.at() >> self.shift
    }

    #[inline]
    fn insert(&mut self, entry: Entry<E>) {
        let bucket = self.bucket_of(&entry);
        if bucket - self.current < self.buckets.len() as u64 {
            let index = bucket as usize & (self.buckets.len() - 1);
            self.buckets[index].push(entry);
            self.occupied[index / 64] |= 1 << (index % 64);
            self.count += 1;
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Moves on to the next bucket with events, which go to the empty `page`.
    fn turn(&mut self, page: &mut Vec<Entry<E>>) {
        debug_assert!(page.is_empty());
        if self.count > 0 {
            let mask = self.buckets.len() - 1;
            let start = (self.current as usize + 1) & mask;
            let mut word = start / 64;
            let mut bits = self.occupied[word] & (u64::MAX << (start % 64));
            while bits == 0 {
                word = (word + 1) % self.occupied.len();
                bits = self.occupied[word];
            }
            let index = word * 64 + bits.trailing_zeros() as usize;
            self.current += 1 + (index.wrapping_sub(start) & mask) as u64;
            self.occupied[word] &= !(1 << (index % 64));
            std::mem::swap(page, &mut self.buckets[index]);
            self.count -= page.len();
        } else if let Some(Reverse(first)) = self.far.peek() {
            self.current = self.bucket_of(first);
        }
        // What was beyond the ring may be within it now.
        while let Some(Reverse(first)) = self.far.peek() {
            let bucket = self.bucket_of(first);
            if bucket - self.current >= self.buckets.len() as u64 {
                break;
            }
            if let Some(Reverse(entry)) = self.far.pop() {
                if bucket == self.current { page.push(entry) } else { self.insert(entry) }
            }
        }
    }

    /// The width that suits what was inserted since the last look.
    fn better_shift(&mut self, events: usize) -> u32 {
        let shift = suitable_shift(self.leads, self.inserted, events);
        (self.leads, self.inserted) = (0, 0);
        shift
    }

    fn take_all(&mut self, to: &mut Vec<Entry<E>>) {
        for bucket in &mut self.buckets {
            to.append(bucket);
        }
        to.extend(self.far.drain().map(|entry| entry.0));
        self.occupied.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulation that begins a second from now: its first events are far ahead, those that they lead to are near.
    #[test]
    fn buckets_get_narrower_where_the_first_events_were_far_ahead() {
        const EVENTS: u64 = if cfg!(miri) { 600 } else { 5_000 };
        let mut queue = CalendarQueue::new();
        (0..EVENTS).for_each(|key| queue.insert(1 << 40, key, ()));
        const TURNS: u64 = if cfg!(miri) { 3 } else { 4 };
        for turn in 0..TURNS * EVENTS {
            let (at, key, ()) = queue.pop().expect("as many events as in the beginning");
            queue.insert(at + 1_000 + key % 500_000, key, ());
            if turn > 2 * EVENTS {
                assert!(queue.near.len() <= CALENDAR_FROM, "{} of {} events are in the heap", queue.near.len(), queue.len());
            }
        }
        assert_eq!(queue.len(), EVENTS as usize);
    }
}
