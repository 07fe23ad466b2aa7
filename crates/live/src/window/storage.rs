//! Files of MPI-IO: one server for all ranks, which takes their accesses in the order of simulated time. What a rank
//! does to a file, and to its locks, it does when the access is through, and no other rank runs then: so the host's
//! file system sees them in that order, too.

use super::Run;
use narrows_channel::layout::{LATEST_PS, reason};
use narrows_units::{ByteRate, Bytes, SimTime};
use std::sync::atomic::Ordering::Relaxed;

/// The file system: latency of an access, and a rate that all ranks share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    latency: SimTime,
    rate: ByteRate,
    /// When all bytes of earlier accesses are through.
    free: SimTime,
}

impl Storage {
    pub(super) fn new(latency_ps: u64, rate: u64) -> Storage {
        Storage { latency: SimTime(latency_ps), rate: ByteRate(rate), free: SimTime::ZERO }
    }

    /// When an access of `bytes` that begins at `now` is through, at most [`LATEST_PS`].
    fn access(&mut self, now: SimTime, bytes: Bytes) -> SimTime {
        let latest = SimTime(LATEST_PS);
        self.free = (now.max(self.free) + self.rate.time_for(bytes).min(latest)).min(latest);
        (self.free + self.latency).min(latest)
    }
}

/// The access to a file that a rank waits for.
pub(super) enum Access {
    /// It takes until then, ps.
    Until(u64),
    /// It is through.
    Through,
}

impl Run<'_> {
    /// What `rank`, whose deadline `time` is, waits for, if that is a file.
    pub(super) fn access_of(&mut self, rank: u32, time: u64) -> Option<Access> {
        if self.ranks[rank as usize].reason != reason::STORAGE {
            return None;
        }
        let Some(bytes) = self.header(rank).accessed.swap(0, Relaxed).checked_sub(1) else { return Some(Access::Through) };
        let end = self.storage.access(SimTime(time), Bytes(bytes)).as_ps();
        self.header(rank).clock.store(end, Relaxed);
        self.ranks[rank as usize].deadline = end;
        Some(Access::Until(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_share_the_rate_and_not_the_latency() {
        let mut storage = Storage::new(SimTime::from_us(100).as_ps(), 1_000_000_000);
        let megabyte = Bytes(1_000_000);
        let ends = [0, 0, 500].map(|us| storage.access(SimTime::from_us(us), megabyte));
        assert_eq!(ends, [1_100, 2_100, 3_100].map(SimTime::from_us));
        assert_eq!(storage.access(SimTime::from_us(5_000), Bytes(0)), SimTime::from_us(5_100), "no bytes");
        assert_eq!(storage.access(SimTime::from_us(5_000), Bytes(u64::MAX)), SimTime(LATEST_PS), "no access is too long");
    }
}
