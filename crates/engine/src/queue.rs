use crate::calendar::CalendarQueue;
use narrows_units::SimTime;

const SEQUENCE_BITS: u32 = 40;

/// A priority queue of events with a total order: (time, source, sequence of that source).
///
/// The order depends on who schedules what and when, never on the insertion order across sources. See [`CalendarQueue`]
/// for how it is kept.
#[derive(Debug)]
pub struct EventQueue<E> {
    events: CalendarQueue<E>,
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
        EventQueue { events: CalendarQueue::new(), sequences: Vec::new(), now: SimTime::ZERO, processed: 0 }
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
        self.events.insert(at.as_ps(), u64::from(source) << SEQUENCE_BITS | sequence, event);
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<SimTime> {
        self.events.peek().map(|(at, _)| SimTime(at))
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
        self.events.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes the next event and moves the clock to it.
    #[inline]
    pub fn pop(&mut self) -> Option<(SimTime, E)> {
        let (at, key, event) = self.events.pop()?;
        self.now = SimTime(at);
        assert!(self.events.peek() != Some((at, key)), "two events in one place of the total order at {}", self.now);
        self.processed += 1;
        Some((self.now, event))
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

    /// Events of a burst: enough for the calendar; Miri takes milliseconds for each.
    const BURST: usize = if cfg!(miri) { 600 } else { 2_000 };

    proptest! {
        /// Against the standard library's heap: bursts of events near and far, popped in between, through every size.
        #[test]
        fn keeps_the_order_with_and_without_the_calendar(
            seed: u64, width in 0u32..45, bursts in prop::collection::vec((0..BURST, 0..BURST), 1..if cfg!(miri) { 4 } else { 12 })
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
