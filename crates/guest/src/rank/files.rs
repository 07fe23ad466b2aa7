//! Waiting at real descriptors: sockets and pipes whose other ends belong to other ranks
//! (docs/decisions/0013-sockets.md).
//!
//! Who waits does not hold the rank: see [`crate::threads`]. While the rank is parked, the simulator looks at the
//! descriptors, and says when they were ready.

use super::Rank;
use crate::threads::{self, Thread};
use crate::{callers, stretches};
use narrows_channel::layout::{WATCHED, reason};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

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

/// Places in the list of the rank, until [`Rank::unwatch`].
#[derive(Default)]
pub(crate) struct Places(Vec<usize>);

impl Places {
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }
}

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
            watched.since.store(self.clock, Relaxed);
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

    /// A thread begins to wait at descriptors, or looks at them once: its clock up to when it waits.
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

    /// One that waits there parks the rank, until `until` ps at the latest. The simulator looks at all descriptors.
    pub(crate) fn parks_at_files(&mut self, thread: &Thread, until: u64) {
        if threads::waits_at_files(thread) {
            self.passes_outside(|rank| rank.park_for_all(until, reason::PAUSE));
            self.clock = self.clock.max(thread.clock());
        }
    }

    /// Simulated time passes for threads none of which waits in MPI: who of them lets it pass is the host's affair, so
    /// none of it is what the rank is told to have waited.
    pub(crate) fn passes_outside<R>(&mut self, passes: impl FnOnce(&mut Rank) -> R) -> R {
        let waited = self.header().wait_ps.load(Relaxed);
        let result = passes(self);
        self.header().wait_ps.store(waited, Relaxed);
        result
    }

    /// It waits there no longer; its clock was `since` ps when it began to. `found`: a descriptor is ready.
    pub(crate) fn ends_at_files(&mut self, thread: &Thread, places: Places, since: u64, found: bool) {
        self.unwatch(places);
        let waited = self.clock - since.min(self.clock);
        if thread.number() == 0 && !callers::many_call() {
            // It was no computing: MPI is called by this thread.
            self.left_at += waited;
        }
        if thread.number() == 0 && !callers::may_call() {
            self.header().wait_ps.fetch_add(waited, Relaxed);
        }
        if found {
            self.activity();
        }
    }
}
