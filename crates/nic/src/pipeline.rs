//! Timings: what is busy, until when. No semantics in here.

use narrows_units::SimTime;

use crate::config::{NicConfig, PcieDetail, READ_REQUEST};

/// Durations that the hot path needs, computed once.
#[derive(Debug)]
pub(crate) struct Durations {
    pub command: SimTime,
    pub event: SimTime,
    pub count: SimTime,
    pub read_request: SimTime,
}

impl Durations {
    pub fn new(config: &NicConfig) -> Durations {
        let time = |size| match config.pcie_detail {
            PcieDetail::Full => config.pcie_rate.time_for(size),
            PcieDetail::Latency => SimTime::ZERO,
        };
        Durations {
            command: time(config.command_size),
            event: time(config.event_size),
            count: time(config.count_size),
            read_request: time(READ_REQUEST),
        }
    }
}

/// Something that serves one after the other, in the order of the calls.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Server {
    free: SimTime,
}

impl Server {
    /// Takes `busy` of the server's time from `now` on, or from when it is free; returns when
    /// that begins.
    pub fn begin(&mut self, now: SimTime, busy: SimTime) -> SimTime {
        let begin = now.max(self.free);
        self.free = begin + busy;
        begin
    }

    /// The same; returns when it ends.
    pub fn end(&mut self, now: SimTime, busy: SimTime) -> SimTime {
        self.begin(now, busy);
        self.free
    }
}

/// What one NIC has that takes time, beside the DMA bandwidth and the links, which belong to the
/// fabric.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Stages {
    /// PCIe, host to NIC: commands.
    pub down: Server,
    /// PCIe, NIC to host: events, counts, answers, read requests.
    pub up: Server,
    /// Transmit pipelines: requests, responses.
    pub transmit: [Server; 2],
    /// The matching unit.
    pub matching: Server,
    /// What starts triggered operations.
    pub triggered: Server,
    /// The atomic unit.
    pub atomics: Server,
}

impl Stages {
    /// A command of `extra` bytes' time more than its own size, written at `now`: when the NIC
    /// has it.
    pub fn command(&mut self, now: SimTime, extra: SimTime, config: &NicConfig, durations: &Durations) -> SimTime {
        self.down.end(now, durations.command + extra) + config.pcie_latency
    }

    /// A write to the host that takes `busy` on PCIe: when the host sees it.
    pub fn write(&mut self, now: SimTime, busy: SimTime, config: &NicConfig) -> SimTime {
        self.up.end(now, busy) + config.pcie_latency
    }

    /// A DMA read that the NIC begins at `now`: when its first packet comes.
    pub fn read(&mut self, now: SimTime, config: &NicConfig, durations: &Durations) -> SimTime {
        self.up.end(now, durations.read_request) + config.pcie_latency + config.dma_latency
    }

    /// An atomic whose data are there at `now`: when the new value is in memory. The unit is a pipeline: it
    /// begins one operation after the other, each of which reads the old value over PCIe and writes the new one.
    pub fn atomic(&mut self, now: SimTime, config: &NicConfig, durations: &Durations) -> SimTime {
        let begin = self.atomics.begin(now, config.atomic_occupancy);
        begin + durations.read_request + config.pcie_latency + config.dma_latency + config.dma_latency
    }

    /// Matching of one message, append or search that visits `visited` elements: when its result
    /// is known.
    pub fn matched(&mut self, now: SimTime, visited: u64, config: &NicConfig) -> SimTime {
        self.matching.end(now, config.match_base + config.match_per_entry * visited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_serves_in_order_and_idles_when_nothing_comes() {
        let ns = SimTime::from_ns;
        let mut server = Server::default();
        assert_eq!(server.begin(ns(10), ns(5)), ns(10), "idle: at once");
        assert_eq!(server.begin(ns(11), ns(5)), ns(15), "busy until 15");
        assert_eq!(server.end(ns(100), ns(5)), ns(105), "idle again");
    }
}
