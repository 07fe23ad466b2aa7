//! Credits on their way back: bytes that will be free at known times.

use crate::flights::NONE;
use narrows_engine::Arena;

/// So many are kept in the cache line of the lane itself; full packets on a short link need no more.
const NEAR: usize = 3;

/// Bytes that will be free at known times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returns {
    /// Of those kept here, in no order; without bytes, the place is free.
    at: [u64; NEAR],
    bytes: [u32; NEAR],
    /// The list of the others, by time.
    first: u32,
    last: u32,
}

impl Default for Returns {
    fn default() -> Self {
        Returns { at: [0; NEAR], bytes: [0; NEAR], first: NONE, last: NONE }
    }
}

/// The lists of a region.
#[derive(Debug, Default)]
pub(crate) struct ReturnLists(Arena<Return>);

#[derive(Clone, Copy, Debug)]
struct Return {
    at: u64,
    bytes: u32,
    next: u32,
}

/// When enough is back.
pub(crate) enum Enough {
    At(u64),
    Unknown,
}

impl ReturnLists {
    /// `bytes`, above 0, will be free at `at`.
    #[inline]
    pub(crate) fn add(&mut self, returns: &mut Returns, at: u64, bytes: u32) {
        if let Some(place) = returns.bytes.iter().position(|&bytes| bytes == 0) {
            (returns.at[place], returns.bytes[place]) = (at, bytes);
            return;
        }
        // Mostly the latest so far; outputs of different rates, and PCIe, make exceptions.
        let index = self.0.insert(Return { at, bytes, next: NONE });
        if returns.first == NONE {
            (returns.first, returns.last) = (index, index);
        } else if self.0[returns.last].at <= at {
            self.0[returns.last].next = index;
            returns.last = index;
        } else {
            self.add_before_last(returns, index, at);
        }
    }

    #[cold]
    fn add_before_last(&mut self, returns: &mut Returns, index: u32, at: u64) {
        if self.0[returns.first].at > at {
            self.0[index].next = returns.first;
            returns.first = index;
            return;
        }
        let mut before = returns.first;
        loop {
            let next = self.0[before].next;
            if self.0[next].at > at {
                self.0[index].next = next;
                self.0[before].next = index;
                return;
            }
            before = next;
        }
    }

    /// Takes out what is back by `now`; the bytes.
    #[inline]
    pub(crate) fn collect(&mut self, returns: &mut Returns, now: u64) -> u64 {
        let mut sum = 0;
        for (at, bytes) in returns.at.iter().zip(&mut returns.bytes) {
            if *at <= now {
                sum += u64::from(std::mem::take(bytes));
            }
        }
        while returns.first != NONE {
            let Return { at, bytes, next } = self.0[returns.first];
            if at > now {
                break;
            }
            sum += u64::from(bytes);
            self.0.remove(returns.first);
            returns.first = next;
        }
        sum
    }

    /// When `wanted` more bytes are back.
    pub(crate) fn when(&self, returns: &Returns, wanted: u64) -> Enough {
        let mut near: [(u64, u32); NEAR] = std::array::from_fn(|place| (returns.at[place], returns.bytes[place]));
        near.sort_unstable();
        let mut near = near.into_iter().filter(|&(_, bytes)| bytes > 0).peekable();
        let (mut sum, mut far) = (0, returns.first);
        loop {
            let of_far = (far != NONE).then(|| &self.0[far]);
            let (at, bytes) = match (near.peek(), of_far) {
                (Some(&(at, bytes)), far) if far.is_none_or(|far| at <= far.at) => {
                    near.next();
                    (at, bytes)
                }
                (_, Some(back)) => {
                    far = back.next;
                    (back.at, back.bytes)
                }
                (_, None) => return Enough::Unknown,
            };
            sum += u64::from(bytes);
            if sum >= wanted {
                return Enough::At(at);
            }
        }
    }

    /// All of them, by time.
    pub(crate) fn list(&self, returns: &Returns) -> std::collections::VecDeque<(u64, u32)> {
        let near = (0..NEAR).map(|place| (returns.at[place], returns.bytes[place])).filter(|&(_, bytes)| bytes > 0);
        let mut all: Vec<(u64, u32)> = near.collect();
        let mut next = returns.first;
        while next != NONE {
            let Return { at, bytes, next: after } = self.0[next];
            all.push((at, bytes));
            next = after;
        }
        all.sort_unstable();
        all.into()
    }

    /// All bytes.
    pub(crate) fn total(&self, returns: &Returns) -> u64 {
        let mut sum = returns.bytes.iter().map(|&bytes| u64::from(bytes)).sum();
        let mut next = returns.first;
        while next != NONE {
            sum += u64::from(self.0[next].bytes);
            next = self.0[next].next;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a plain list that is searched as a whole.
        #[test]
        fn are_a_list(steps in proptest::collection::vec((0u64..60, 1u32..9, 0u64..20, 1u64..40), 1..60)) {
            let (mut lists, mut returns, mut plain, mut now) = (ReturnLists::default(), Returns::default(), Vec::new(), 0);
            for (ahead, bytes, passes, wanted) in steps {
                lists.add(&mut returns, now + ahead, bytes);
                plain.push((now + ahead, bytes));
                plain.sort_unstable();
                now += passes;
                let due: u64 = plain.iter().filter(|entry| entry.0 <= now).map(|entry| u64::from(entry.1)).sum();
                prop_assert_eq!(lists.collect(&mut returns, now), due);
                plain.retain(|entry| entry.0 > now);
                prop_assert_eq!(lists.list(&returns), plain.clone());
                prop_assert_eq!(lists.total(&returns), plain.iter().map(|entry| u64::from(entry.1)).sum::<u64>());
                let mut sum = 0;
                let enough = plain.iter().find(|entry| { sum += u64::from(entry.1); sum >= wanted }).map(|entry| entry.0);
                let got = match lists.when(&returns, wanted) { Enough::At(at) => Some(at), Enough::Unknown => None };
                prop_assert_eq!(got, enough);
            }
        }
    }
}
