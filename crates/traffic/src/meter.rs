//! What is counted and timed, per class.

use narrows_results::Histogram;
use serde::{Deserialize, Serialize};

/// Everything since the start of the run; differences give what happened in a stretch of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// Wire bytes generated.
    pub(crate) offered: u64,
    /// Wire bytes arrived.
    pub(crate) accepted: u64,
    pub(crate) generated: u64,
    pub(crate) done: u64,
    pub(crate) packets: u64,
    /// Sum of the latencies of these packets, in picoseconds.
    pub(crate) latency: u128,
}

impl Totals {
    pub(crate) fn since(&self, before: &Totals) -> Totals {
        Totals {
            offered: self.offered - before.offered,
            accepted: self.accepted - before.accepted,
            generated: self.generated - before.generated,
            done: self.done - before.done,
            packets: self.packets - before.packets,
            latency: self.latency - before.latency,
        }
    }

    pub(crate) fn add(&mut self, other: &Totals) {
        self.offered += other.offered;
        self.accepted += other.accepted;
        self.generated += other.generated;
        self.done += other.done;
        self.packets += other.packets;
        self.latency += other.latency;
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClassMeter {
    pub(crate) totals: Totals,
    /// Wire bytes generated and arrived within the window.
    pub(crate) offered: u64,
    pub(crate) accepted: u64,
    /// Of the messages generated within the window: their number and the sum of the squares of their wire bytes.
    pub(crate) messages: u64,
    pub(crate) squares: u128,
    /// Of packets injected, and messages generated, within the window; in picoseconds.
    pub(crate) latency: Histogram,
    pub(crate) fct: Histogram,
    /// Of these messages, in thousandths; empty where messages are alike.
    pub(crate) slow_down: Histogram,
    /// The least completion time since the start of the run.
    pub(crate) fastest: Least,
}

/// The least of some times, in picoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Least(u64);

impl Default for Least {
    fn default() -> Least {
        Least(u64::MAX)
    }
}

impl Least {
    #[inline]
    fn take(&mut self, time: u64) {
        self.0 = self.0.min(time);
    }

    /// `None`: there was none.
    pub(crate) fn time(self) -> Option<u64> {
        Some(self.0).filter(|&time| time < u64::MAX)
    }
}

impl ClassMeter {
    /// Takes in what was counted elsewhere.
    pub(crate) fn merge(&mut self, other: &ClassMeter) {
        self.totals.add(&other.totals);
        self.offered += other.offered;
        self.accepted += other.accepted;
        self.messages += other.messages;
        self.squares += other.squares;
        self.latency.merge(&other.latency);
        self.fct.merge(&other.fct);
        self.slow_down.merge(&other.slow_down);
        self.fastest.take(other.fastest.0);
    }

    /// Messages of the window that are not done; of merged meters only.
    pub(crate) fn open(&self) -> u64 {
        self.messages - self.fct.count()
    }
}

#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) classes: Vec<ClassMeter>,
    /// The window of measurement, in picoseconds; the end is not in it.
    from: u64,
    to: u64,
}

impl Meter {
    pub(crate) fn new(classes: usize) -> Meter {
        Meter { classes: vec![ClassMeter::default(); classes], from: u64::MAX, to: u64::MAX }
    }

    /// Measures from `from` up to `to`.
    pub(crate) fn open(&mut self, from: u64, to: u64) {
        (self.from, self.to) = (from, to);
    }

    #[inline]
    fn within(&self, at: u64) -> bool {
        self.from <= at && at < self.to
    }

    /// A message of `wire` bytes is generated.
    #[inline]
    pub(crate) fn generated(&mut self, class: usize, born: u64, wire: u64) {
        let within = self.within(born);
        let class = &mut self.classes[class];
        class.totals.offered += wire;
        class.totals.generated += 1;
        if within {
            class.offered += wire;
            class.messages += 1;
            class.squares += u128::from(wire) * u128::from(wire);
        }
    }

    /// A packet of `wire` bytes, injected then, is through now.
    #[inline]
    pub(crate) fn arrived(&mut self, class: usize, injected: u64, through: u64, wire: u64) {
        let (timed, counted) = (self.within(injected), self.within(through));
        let class = &mut self.classes[class];
        class.totals.accepted += wire;
        class.totals.packets += 1;
        class.totals.latency += u128::from(through - injected);
        if counted {
            class.accepted += wire;
        }
        if timed {
            class.latency.record(through - injected);
        }
    }

    /// A message, generated then, is done now. `alone`: how long it takes by itself, where that is asked for.
    #[inline]
    pub(crate) fn done(&mut self, class: usize, born: u64, now: u64, alone: Option<u64>) {
        let within = self.within(born);
        let class = &mut self.classes[class];
        class.totals.done += 1;
        class.fastest.take(now - born);
        if within {
            class.fct.record(now - born);
            if let Some(alone) = alone {
                let thousandths = u128::from(now - born) * 1000 / u128::from(alone.max(1));
                class.slow_down.record(u64::try_from(thousandths).unwrap_or(u64::MAX));
            }
        }
    }
}
