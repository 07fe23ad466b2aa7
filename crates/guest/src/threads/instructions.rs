//! `--compute instructions`: instructions in the place of CPU time.
//!
//! Each thread counts its own. The mark of a thread (`Thread::mark`) stays CPU time, which the simulator knows as well;
//! beside it stands what had been counted then.

use crate::attach;
use narrows_channel::Header;
use narrows_channel::counter::{self, Event, LEARNT_NS};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The shared file, if instructions are counted.
pub(crate) fn counted_in() -> Option<&'static Header> {
    attach::shared().map(|(file, _)| file).filter(|file| file.settings.counter != 0)
}

/// A counter of the calling thread; -1: there is none.
pub(super) fn open() -> RawFd {
    let Some(file) = counted_in() else { return -1 };
    let opened = Event::of(file.settings.counter).and_then(|event| counter::open(event).ok());
    opened.unwrap_or_else(|| {
        file.uncounted.fetch_add(1, Relaxed);
        -1
    })
}

/// What so many instructions take, ns, during which the thread has used `cpu` ns.
pub(super) fn ns(file: &Header, instructions: u64, cpu: u64) -> u64 {
    match file.instructions_per_s.load(Relaxed) {
        0 => cpu,
        rate => (u128::from(instructions) * 1_000_000_000 / u128::from(rate)) as u64,
    }
}

/// A thread has computed that.
pub(super) fn learn(file: &Header, instructions: u64, cpu: u64) {
    let add = |to: &AtomicU64, more: u64| to.fetch_add(more, Relaxed) + more;
    let (all, all_ns) = (add(&file.instructions, instructions), add(&file.instructions_ns, cpu));
    if all_ns >= LEARNT_NS && file.instructions_per_s.load(Relaxed) == 0 {
        // Whoever is first: one rate for all ranks.
        let _ = file.instructions_per_s.compare_exchange(0, rate(all, all_ns), Relaxed, Relaxed);
    }
}

/// Instructions per second, with four digits, so that what is shown of it is all of it.
fn rate(instructions: u64, ns: u64) -> u64 {
    let rate = u128::from(instructions) * 1_000_000_000 / u128::from(ns.max(1));
    let unit = 10_u128.pow((rate.max(1).ilog10()).saturating_sub(3));
    u64::try_from((rate + unit / 2) / unit * unit).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_channel::{Mapping, Settings};

    #[test]
    fn a_rate_has_four_digits() {
        assert_eq!(rate(27_134_567, 10_000_000), 2_713_000_000);
        assert_eq!(rate(27_135_567, 10_000_000), 2_714_000_000);
        assert_eq!(rate(999_960, 1_000_000), 1_000_000_000);
        assert_eq!((rate(123, 1_000_000_000), rate(0, 0)), (123, 1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn the_rate_is_that_of_the_first_computing_of_all_ranks() {
        let (mapping, _fd) = Mapping::create(2, Settings::default()).expect("memory");
        let file = mapping.header();
        learn(file, 30_000_000, LEARNT_NS / 2);
        assert_eq!(ns(file, 7, 5000), 5000, "CPU time until the rate is known");
        learn(file, 10_000_000, LEARNT_NS / 2);
        assert_eq!(ns(file, 8_000_000, 5000), 4_000_000, "40,000,000 in 20 ms");
        learn(file, 1, 1_000_000_000);
        assert_eq!(ns(file, 8_000_000, 5000), 4_000_000, "it stays");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd_create and no shared mappings of files")]
    fn a_rate_that_was_given_stays() {
        let (mapping, _fd) = Mapping::create(1, Settings::default()).expect("memory");
        let file = mapping.header();
        file.instructions_per_s.store(2_500_000_000, Relaxed);
        learn(file, 1, 10 * LEARNT_NS);
        assert_eq!(ns(file, 5_000_000, 77), 2_000_000);
    }
}
