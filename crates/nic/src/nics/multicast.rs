//! What a message that switches copy costs at NICs. It has no header to match: the receivers' buffers are known to their NICs, and data go there directly
//! (as with Quadrics' hardware broadcast into a global address: Petrini et al., IEEE Micro 22(1), 2002). All stages are those of a put.

use super::Nics;
use crate::out::Process;
use narrows_units::SimTime;

impl Nics {
    /// The node of a process.
    ///
    /// # Panics
    /// When there is no such process.
    pub fn node_of(&self, process: Process) -> u32 {
        self.processes[process.0 as usize].nid - 1
    }

    /// `process` wrote the command at `written`: when its NIC has it.
    pub fn multicast_command(&mut self, written: SimTime, process: Process) -> SimTime {
        let node = self.node_of(process) as usize;
        self.nodes[node].statistics.commands += 1;
        self.nodes[node].stages.command(written, SimTime::ZERO, &self.config, &self.durations)
    }

    /// The NIC of `process` has the command: when the message starts on the network. Its payload is read over PCIe, unless it came with the command.
    pub fn multicast_start(&mut self, now: SimTime, process: Process, length: u64) -> SimTime {
        let node = &mut self.nodes[self.processes[process.0 as usize].nid as usize - 1];
        node.statistics.messages += 1;
        node.statistics.bytes_sent += length;
        let begin = node.stages.transmit[0].begin(now, self.config.put_occupancy);
        if length > self.config.inline_limit.get() {
            begin + node.stages.read(now, &self.config, &self.durations).saturating_sub(now)
        } else {
            begin
        }
    }

    /// All of `length` bytes are in the NIC of `process`: when they are in its memory.
    pub fn multicast_landed(&mut self, now: SimTime, process: Process, length: u64) -> SimTime {
        let node = self.node_of(process) as usize;
        self.nodes[node].statistics.bytes_received += length;
        if length > 0 { now + self.config.dma_latency } else { now }
    }

    /// The NIC of `process` writes an event: when the process sees it.
    pub fn multicast_event(&mut self, now: SimTime, process: Process) -> SimTime {
        let node = self.node_of(process) as usize;
        self.nodes[node].statistics.events += 1;
        self.nodes[node].stages.write(now, self.durations.event, &self.config)
    }
}
