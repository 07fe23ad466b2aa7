//! Waiting at real descriptors: sockets and pipes whose other ends belong to other ranks
//! (docs/decisions/0013-sockets.md).
//!
//! The rank is parked meanwhile. The simulator looks at the descriptors, and says when they were ready.

use super::{Rank, Waited};
use crate::{stretches, threads, turns};
use narrows_channel::layout::{WATCHED, reason};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// What a thread waits for at one descriptor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its number.
    pub number: i32,
    /// Events of poll(2).
    pub events: u32,
    /// What is read there, see [`narrows_channel::layout::Written::key`]; 0: what anybody has written.
    pub key: u64,
}

/// Places in the list of the rank. Free again when it is dropped, which must be while the rank is held.
pub(crate) struct Places(Vec<usize>);

impl Rank {
    /// Puts `files` on the list of what the simulator looks at, until `until`. `None`: there is no room.
    pub(crate) fn watch(&mut self, files: &[File], until: u64) -> Option<Places> {
        let header = self.header();
        let free = (0..WATCHED).filter(|&place| header.files[place].file.load(Relaxed) == 0);
        let places: Vec<usize> = free.take(files.len()).collect();
        if places.len() < files.len() {
            return None;
        }
        for (&place, file) in places.iter().zip(files) {
            let watched = &header.files[place];
            watched.events.store(file.events, Relaxed);
            watched.key.store(file.key, Relaxed);
            watched.until.store(until, Relaxed);
            watched.ready.store(0, Relaxed);
            watched.file.store(file.number as u32 + 1, Release);
        }
        header.watching.fetch_add(places.len() as u32, AcqRel);
        Some(Places(places))
    }

    /// Takes them off it.
    pub(crate) fn unwatch(&mut self, places: Places) {
        let header = self.header();
        for &place in &places.0 {
            header.files[place].file.store(0, Release);
        }
        header.watching.fetch_sub(places.0.len() as u32, AcqRel);
    }

    /// A thread begins to wait at descriptors, at `clock`, or looks at them once: its clock now, and up to when it
    /// waits.
    pub(crate) fn begins_at_files(&mut self, patience: Option<u64>) -> u64 {
        self.account_compute(stretches::SLEEP);
        match patience {
            Some(0) => {
                let cost = self.in_a_long_wait(self.processor.poll_ps);
                self.advance(cost);
                self.clock
            }
            Some(ps) => self.clock.saturating_add(ps),
            None => u64::MAX,
        }
    }

    /// Waits until one of the descriptors is ready, or until `end`. The simulator has looked at them at least once.
    pub(crate) fn wait_at_files(&mut self, places: &Places, end: u64, looked: &mut bool) -> Waited<()> {
        let before = self.clock;
        let waited = self.waits_at_files(places, end, looked);
        // It was no computing.
        self.left_at += self.clock - before;
        self.mark_cpu();
        waited
    }

    fn waits_at_files(&mut self, places: &Places, end: u64, looked: &mut bool) -> Waited<()> {
        let header = self.header();
        loop {
            self.take_visible();
            let times = places.0.iter().map(|&place| header.files[place].ready.load(Acquire)).filter(|&time| time != 0);
            let ready = times.min().unwrap_or(u64::MAX);
            if ready <= self.clock {
                self.activity();
                return Waited::Done(());
            }
            if *looked && self.clock >= end {
                return Waited::Over;
            }
            if self.wanted() || turns::others_must_look() {
                return Waited::Wanted;
            }
            let least = threads::least();
            if least <= self.clock && end > self.clock {
                // What they do may still come before this.
                threads::rest();
                continue;
            }
            let first = end.min(ready).min(turns::earliest_end());
            let next = self.notices.front().map_or(u64::MAX, |&(time, _)| time);
            let deadline = threads::parks(first.min(least.max(self.clock)).min(next));
            self.park(deadline, reason::PAUSE);
            *looked = true;
            threads::unparked();
            let ready = places.0.iter().map(|&place| header.files[place].ready.load(Acquire)).filter(|&time| time != 0).min();
            let reached = if header.horizon.load(Relaxed) > deadline { deadline } else { u64::MAX };
            let next = self.notices.front().map_or(u64::MAX, |&(time, _)| time);
            let next = next.min(reached).min(ready.unwrap_or(u64::MAX));
            if next != u64::MAX {
                self.wait_until(next);
            }
            if first < end && self.clock >= first {
                turns::changed();
            }
        }
    }
}
