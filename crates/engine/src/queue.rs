use narrows_units::SimTime;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

const SEQUENCE_BITS: u32 = 40;
/// A heap alone up to this many events, the calendar above it. Both limits, and those below, by the bench `hold`.
const CALENDAR_FROM: usize = 1024;
/// Back to the heap alone below this.
const HEAP_BELOW: usize = 256;
/// Log2 of the events that a bucket has, were they spread evenly.
const WANTED_BITS: u32 = 4;
/// The width is changed when it is off by this power of two.
const TOLERATED_BITS: u32 = 2;

/// An event and its position in the total order: time above source (24 bits) above that source's sequence (40 bits). One number: parts that are
/// compared one by one, or put together to be compared, took up to 1.4 times as long.
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

/// The standard library's heap gives the greatest first: the earliest event is the greatest.
impl<E> Ord for Entry<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.order.cmp(&self.order)
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
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

/// A priority queue of events with a total order: (time, source, sequence of that source).
///
/// The order depends on who schedules what and when, never on the insertion order across sources.
///
/// A few events are kept in one heap (the standard library's: a 4-ary one with swaps took twice its time). With more, the heap holds what comes before a horizon, and a calendar what comes
/// after: a ring of unsorted buckets, each a short span of time, and a second heap for what is beyond the ring. When the first heap is empty
/// the next bucket takes its place. Both ways the heap at work fits the nearest cache, and the cost of an event does not grow
/// with their number. The width of the buckets follows the events; it changes no order.
#[derive(Debug)]
pub struct EventQueue<E> {
    /// What comes before the horizon. Not empty unless the whole queue is.
    near: BinaryHeap<Entry<E>>,
    calendar: Option<Calendar<E>>,
    sequences: Vec<u64>,
    now: SimTime,
    processed: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue::new()
    }
}

impl<E> EventQueue<E> {
    /// An empty queue at time zero.
    pub fn new() -> Self {
        EventQueue { near: BinaryHeap::new(), calendar: None, sequences: Vec::new(), now: SimTime::ZERO, processed: 0 }
    }

    /// Schedules `event` at `at` on behalf of `source` (below 2^24: a node, a switch, a rank).
    ///
    /// # Panics
    /// When `at` lies before the last popped event: a model that changes the past is a bug.
    #[inline]
    pub fn schedule(&mut self, at: SimTime, source: u32, event: E) {
        assert!(at >= self.now, "event scheduled at {at}, but the time is {}", self.now);
        debug_assert!(source < 1 << (64 - SEQUENCE_BITS));
        let index = source as usize;
        if index >= self.sequences.len() {
            self.sequences.resize(index + 1, 0);
        }
        let sequence = self.sequences[index];
        self.sequences[index] += 1;
        let key = (u64::from(source) << SEQUENCE_BITS) | sequence;
        let entry = Entry { order: u128::from(at.as_ps()) << 64 | u128::from(key), event };
        match &mut self.calendar {
            Some(calendar) if calendar.bucket_of(&entry) > calendar.current => {
                calendar.leads += u64::from(log2(entry.at() - self.now.as_ps()));
                calendar.inserted += 1;
                calendar.insert(entry);
            }
            _ => {
                self.near.push(entry);
                if self.calendar.is_none() && self.near.len() > CALENDAR_FROM {
                    self.open_calendar();
                }
            }
        }
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<SimTime> {
        self.near.peek().map(|entry| SimTime(entry.at()))
    }

    /// The time of the last popped event.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// Events popped so far.
    pub fn processed(&self) -> u64 {
        self.processed
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.near.len() + self.calendar.as_ref().map_or(0, Calendar::len)
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty()
    }

    /// Takes the next event and moves the clock to it.
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let Entry { order, event } = self.near.pop()?;
        if self.near.is_empty() && self.calendar.is_some() {
            self.turn_page();
        }
        if let Some(next) = self.near.peek() {
            assert!(next.order != order, "two events in one place of the total order at {}", SimTime((order >> 64) as u64));
        }
        self.now = SimTime((order >> 64) as u64);
        self.processed += 1;
        Some((self.now, event))
    }

    /// Brings the next bucket of the calendar to the heap.
    #[inline(never)]
    fn turn_page(&mut self) {
        let Some(calendar) = &mut self.calendar else { return };
        if calendar.len() < HEAP_BELOW {
            let mut all = std::mem::take(&mut self.near).into_vec();
            calendar.take_all(&mut all);
            self.near = all.into();
            self.calendar = None;
            return;
        }
        calendar.turn(&mut self.near);
        let events = self.near.len() + calendar.len();
        // Not before a rebuild costs little per event.
        if calendar.inserted >= (events as u64 / 2).max(1000) {
            let shift = calendar.better_shift(events);
            let crowded = events > calendar.buckets.len() << (WANTED_BITS + 2);
            if shift.abs_diff(calendar.shift) >= TOLERATED_BITS || crowded {
                self.rebuild(shift);
            }
        }
    }

    /// From the heap alone to the calendar.
    #[cold]
    fn open_calendar(&mut self) {
        let leads = self.near.iter().map(|entry| u64::from(log2(entry.at() - self.now.as_ps()))).sum();
        self.rebuild(suitable_shift(leads, self.near.len() as u64, self.near.len()));
    }

    /// A calendar with buckets of `2^shift` picoseconds.
    #[cold]
    fn rebuild(&mut self, shift: u32) {
        let mut all = std::mem::take(&mut self.near).into_vec();
        if let Some(calendar) = &mut self.calendar {
            calendar.take_all(&mut all);
        }
        let first = all.iter().map(|entry| entry.at()).min().unwrap_or(0);
        let mut calendar = Calendar::new(shift, first >> shift, all.len());
        for entry in all {
            if calendar.bucket_of(&entry) == calendar.current {
                self.near.push(entry);
            } else {
                calendar.insert(entry);
            }
        }
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
    far: BinaryHeap<Entry<E>>,
    /// Since the last look at the width: events inserted, and the sum of log2 of how far ahead they were.
    inserted: u64,
    leads: u64,
}

/// The number of bits of a lead.
#[inline]
fn log2(lead: u64) -> u32 {
    u64::BITS - lead.leading_zeros()
}

/// The width for `events` that wait, `inserted` with these `leads`. The geometric mean: a few timeouts far ahead do not matter, nor
/// do many events of one instant, which no width can part.
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
            self.far.push(entry);
        }
    }

    /// Moves on to the next bucket with events, whose events go to the empty heap `near`.
    fn turn(&mut self, near: &mut BinaryHeap<Entry<E>>) {
        let mut page = std::mem::take(near).into_vec();
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
            std::mem::swap(&mut page, &mut self.buckets[index]);
            self.count -= page.len();
        } else if let Some(first) = self.far.peek() {
            self.current = self.bucket_of(first);
        }
        // What was beyond the ring may be within it now.
        while let Some(first) = self.far.peek() {
            let bucket = self.bucket_of(first);
            if bucket - self.current >= self.buckets.len() as u64 {
                break;
            }
            if let Some(entry) = self.far.pop() {
                if bucket == self.current { page.push(entry) } else { self.insert(entry) }
            }
        }
        *near = page.into();
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
        to.extend(self.far.drain());
        self.occupied.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pops_in_order_of_time_source_and_sequence(inputs in prop::collection::vec((0u64..50, 0u32..5), 0..300)) {
            let mut queue = EventQueue::new();
            let mut expected = Vec::new();
            let mut sequences = [0u64; 5];
            for &(at, source) in &inputs {
                queue.schedule(SimTime(at), source, (at, source, sequences[source as usize]));
                expected.push((at, source, sequences[source as usize]));
                sequences[source as usize] += 1;
            }
            expected.sort_unstable();
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
            prop_assert_eq!(popped, expected);
        }
    }

    proptest! {
        /// Against the standard library's heap: bursts of events near and far, popped in between, through every size.
        #[test]
        fn keeps_the_order_with_and_without_the_calendar(
            seed: u64, width in 0u32..45, bursts in prop::collection::vec((0usize..2_000, 0usize..2_000), 1..12)
        ) {
            let mut random = crate::stream(seed, "test", 0);
            let mut queue = EventQueue::new();
            let mut expected = std::collections::BinaryHeap::new();
            let mut sequences = [0u64; 7];
            let check = |queue: &mut EventQueue<(u64, usize, u64)>, expected: &mut std::collections::BinaryHeap<_>| {
                let next = expected.pop().map(|std::cmp::Reverse(event)| event);
                assert_eq!(queue.next_time(), next.map(|(at, _, _)| SimTime(at)));
                assert_eq!(queue.pop().map(|(_, event)| event), next);
            };
            for (pushes, pops) in bursts {
                for _ in 0..pushes {
                    // Most within the width, some a thousand times as far.
                    let span = if random.below(20) == 0 { 1000 << width } else { 1 << width };
                    let (at, source) = (queue.now().as_ps() + random.below(span), random.below(7) as usize);
                    let event = (at, source, sequences[source]);
                    sequences[source] += 1;
                    queue.schedule(SimTime(at), source as u32, event);
                    expected.push(std::cmp::Reverse(event));
                }
                for _ in 0..pops {
                    check(&mut queue, &mut expected);
                }
                prop_assert_eq!(queue.len(), expected.len());
                prop_assert_eq!(queue.is_empty(), expected.is_empty());
            }
            while !queue.is_empty() {
                check(&mut queue, &mut expected);
            }
            prop_assert!(expected.is_empty());
        }
    }

    #[test]
    fn events_that_never_come_wait_behind_all_others() {
        let mut queue = EventQueue::new();
        for at in 0..1000 {
            queue.schedule(SimTime::MAX, 1, u64::MAX);
            queue.schedule(SimTime(at), 0, at);
        }
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(popped[..1000], (0..1000).collect::<Vec<_>>());
        assert_eq!(popped[1000..], [u64::MAX; 1000]);
    }

    #[test]
    #[should_panic(expected = "but the time is")]
    fn refuses_the_past() {
        let mut queue = EventQueue::new();
        queue.schedule(SimTime(5), 0, ());
        queue.pop();
        queue.schedule(SimTime(4), 0, ());
    }
}
