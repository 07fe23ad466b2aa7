//! The way from inputs to outputs, where it has a limit: an input with virtual output queues is read at a multiple of
//! the rate of its link, one packet after the other. Without a limit any number of outputs may read it at once.

use crate::config::{Arbitration, NetworkConfig, Queueing};

#[derive(Debug)]
pub(super) struct Crossbar {
    speedup: u64,
    /// By input: when what it sends has been read.
    free: Vec<u64>,
}

impl Crossbar {
    /// None without a limit.
    pub(super) fn new(config: &NetworkConfig, inputs: usize) -> Option<Crossbar> {
        let limited = config.speedup > 0 && config.queueing == Queueing::VirtualOutput;
        let matched = matches!(config.arbitration, Arbitration::Islip(_) | Arbitration::Wavefront);
        (limited || matched).then(|| Crossbar { speedup: u64::from(config.speedup.max(1)), free: vec![0; inputs] })
    }

    /// When the next packet of an input can go.
    #[inline]
    pub(super) fn free(&self, input: u32) -> u64 {
        self.free[input as usize]
    }

    /// A packet of an input goes, which takes `time` on the link there.
    #[inline]
    pub(super) fn read(&mut self, input: u32, now: u64, time: u64) {
        self.free[input as usize] = now + time.div_ceil(self.speedup);
    }
}
