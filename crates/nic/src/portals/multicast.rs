//! What a message that switches copy costs at a NIC. It has no header to match: the receivers' buffers are known to
//! their NICs, and data go there directly (as with Quadrics' hardware broadcast into a global address: Petrini et al.,
//! IEEE Micro 22(1), 2002). All stages are those of a put.

use super::Portals;
use narrows_units::SimTime;

impl Portals {
    /// A process wrote the command at `written`: when the NIC has it.
    pub fn multicast_command(&mut self, written: SimTime) -> SimTime {
        self.engine.statistics.commands += 1;
        self.engine.stages.command(written, SimTime::ZERO, &self.common.config, &self.common.durations)
    }

    /// The NIC has the command: when the message starts on the network. Its payload is read over PCIe, unless it came
    /// with the command.
    pub fn multicast_start(&mut self, now: SimTime, length: u64) -> SimTime {
        let config = &self.common.config;
        let engine = &mut self.engine;
        engine.statistics.messages += 1;
        engine.statistics.bytes_sent += length;
        let begin = engine.stages.transmit[0].begin(now, config.put_occupancy);
        if length > config.inline_limit.get() {
            begin + engine.stages.read(now, config, &self.common.durations).saturating_sub(now)
        } else {
            begin
        }
    }

    /// All of `length` bytes are on their way into memory.
    pub fn multicast_landed(&mut self, length: u64) {
        self.engine.statistics.bytes_received += length;
    }

    /// The NIC writes an event: when the process sees it.
    pub fn multicast_event(&mut self, now: SimTime) -> SimTime {
        self.engine.statistics.events += 1;
        self.engine.stages.write(now, self.common.durations.event, &self.common.config)
    }
}
