//! NEST (github.com/nest/nest-simulator, `nestkernel/event_delivery_manager.cpp`): neurons are updated for the shortest
//! delay of all synapses, then every process sends every other one the spikes of its neurons, in one `MPI_Alltoall`.
//!
//! The network is that of its `hpc_benchmark`, 11,250 neurons for each process, each with as many synapses.

use super::Script;
use crate::TraceError;
use crate::operation::Collective;
use narrows_units::SimTime;

/// Neurons of a process, and synapses of a neuron.
const NEURONS: u64 = 11_250;
/// Spikes of a neuron in a thousand seconds (hpc_benchmark: 7.6 per second).
const SPIKES_PER_1000_S: u64 = 7_600;
/// The shortest delay, us.
const DELAY_US: u64 = 1_500;
/// A spike in the buffer (`SpikeData`). A neuron has targets at every process, as long as there are fewer of these than
/// of its synapses.
const SPIKE: u64 = 8;
/// What a process takes for a spike at a synapse: our own choice, some accesses to memory.
const SYNAPSE_PS: u64 = 10_000;

/// Of all neurons of a process between two exchanges.
const SPIKES: u64 = NEURONS * SPIKES_PER_1000_S * DELAY_US / 1_000_000_000;

impl Script<'_> {
    pub(super) fn nest(&mut self) -> Result<(), TraceError> {
        self.compute(SimTime(SPIKES * NEURONS * SYNAPSE_PS));
        let all = self.bytes.unwrap_or(SPIKES * SPIKE).saturating_mul(u64::from(self.ranks()));
        self.call(Collective::Alltoall, all, all)
    }

    fn ranks(&self) -> u32 {
        self.dimensions.iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Pattern;
    use super::super::tests::count;
    use super::*;

    #[test]
    fn spikes_go_to_everybody() {
        // 11,250 neurons with 7.6 spikes per second each, in 1.5 ms.
        assert_eq!(SPIKES, 128);
        let (all, _) = count(Pattern::NestLike, 9, 5);
        assert_eq!((all.messages, all.calls), (0, 9 * 5));
    }
}
