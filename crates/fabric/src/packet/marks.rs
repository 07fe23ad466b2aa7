//! Marks of congestion ([`Ecn`]; RFC 3168, with the probability of random early detection): a packet of a message that
//! leaves a switch is marked by what waits behind it for the same output.

use super::region::Region;
use super::state::Packet;
use crate::Ecn;
use crate::config::NetworkConfig;
use crate::flights::NONE;
use crate::port::{PacketKind, Ports};
use narrows_engine::random::Stream;
use narrows_engine::stream;

/// The marks of a region.
#[derive(Debug)]
pub(super) struct Marks {
    ecn: Ecn,
    seed: u64,
    /// By output.
    draws: Vec<Stream>,
}

impl Ecn {
    /// The probability of a mark with so many bytes in the queue, in millionths.
    fn millionths(&self, queue: u64) -> u64 {
        let Ecn { min, max, probability } = *self;
        if queue <= min.0 {
            0
        } else if queue > max.0 {
            1_000_000
        } else {
            probability.of((queue - min.0).saturating_mul(1_000_000)) / (max.0 - min.0).max(1)
        }
    }
}

impl Marks {
    /// Of these links, where switches mark.
    pub(super) fn new(config: &NetworkConfig, links: &[u32]) -> Option<Marks> {
        let marks = |ecn| {
            let mut marks = Marks { ecn, seed: config.seed, draws: Vec::new() };
            marks.rest(links);
            marks
        };
        config.ecn.map(marks)
    }

    /// Draws anew.
    pub(super) fn rest(&mut self, links: &[u32]) {
        self.draws = links.iter().map(|&link| stream(self.seed, "marks", u64::from(link))).collect();
    }
}

impl<P: Ports> Region<P> {
    /// A packet starts on a link.
    pub(super) fn mark(&mut self, index: u32, output: u32) {
        let Region { marks: Some(marks), packets, loads, outputs, costs, .. } = self else { return };
        let packet: &mut Packet = &mut packets[index];
        let at = &outputs[output as usize];
        if at.host != NONE || packet.kind() != PacketKind::Data {
            return;
        }
        let rate = costs.link(at.speed).rate.0;
        let queue = (u128::from(loads[output as usize].backlog) * u128::from(rate) / 1_000_000_000_000) as u64;
        let millionths = marks.ecn.millionths(queue);
        if millionths > 0 && marks.draws[output as usize].below(1_000_000) < millionths {
            packet.mark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fraction;
    use narrows_units::Bytes;

    #[test]
    fn the_probability_rises_between_the_thresholds() {
        let ecn = Ecn { min: Bytes(5_000), max: Bytes(200_000), probability: Fraction(10_000) };
        assert_eq!([0, 5_000, 102_500, 200_000, 200_001].map(|queue| ecn.millionths(queue)), [0, 0, 5_000, 10_000, 1_000_000]);
        let step = Ecn { min: Bytes(5_000), max: Bytes(5_000), ..ecn };
        assert_eq!([5_000, 5_001].map(|queue| step.millionths(queue)), [0, 1_000_000]);
    }
}
