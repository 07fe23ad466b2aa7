//! HPCC ([`Hpcc`]), at links: switches write into packets of messages what they know of the next link ([`Telemetry`]),
//! and acknowledgements bring it back to the source.

use super::{AtLinks, Links, Numbers, Start, check_part, check_round_trip, refuse};
use crate::Carried;
use crate::config::{ConfigError, NetworkConfig};
use crate::packet::state::Packet;
use crate::port::PacketKind;
use narrows_keys::keys;
use narrows_topology::Topology;
use narrows_units::{ByteRate, Bytes, Fraction, SimTime};
use serde::{Deserialize, Serialize};

keys! {
    /// HPCC (Li et al., SIGCOMM 2019). Switches must write into packets: [`NetworkConfig::telemetry`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Hpcc {
        /// With `hpcc`: T, from a packet to its acknowledgement through an empty network, at most.
        pub round_trip: SimTime = "5 us", in SimTime::from_ns(10)..;
        /// eta: the part of a link that is used.
        pub utilization: Fraction = 0.95, in ..=999_999;
        /// Number of round trips with additive increases alone.
        pub max_stage: u32 = 5, in 0..=255;
        /// N: maximum number of flows on a link; all together their additive increases take what `utilization` leaves.
        pub flows: u32 = 16, in 1..=1 << 20;
    }
}

/// So many switches write into a packet; those behind them leave it as it is (the remaining hop count of INT).
pub const MOST_HOPS: usize = 8;

/// The records of a packet, in the order of its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Telemetry {
    count: u8,
    path: u16,
    hops: [Hop; MOST_HOPS],
}

/// What a switch writes when a packet starts on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hop {
    /// Bytes that wait for the link.
    pub queue: u32,
    /// Bytes that have started on it so far; begins again after 2^32.
    pub sent: u32,
    /// When, in [`TICK`]s; begins again after 2^32.
    pub at: u32,
    /// That of the link.
    pub rate: ByteRate,
}

/// The unit of [`Hop::at`], about a nanosecond: 2^10 ps.
pub const TICK: SimTime = SimTime(1 << 10);

impl Default for Hop {
    fn default() -> Self {
        Hop { queue: 0, sent: 0, at: 0, rate: ByteRate(0) }
    }
}

impl Hop {
    /// So much waits, so much has started, now.
    pub fn new(queue: Bytes, sent: u64, now: SimTime, rate: ByteRate) -> Hop {
        let queue = u32::try_from(queue.0).unwrap_or(u32::MAX);
        Hop { queue, sent: sent as u32, at: (now.as_ps() / TICK.as_ps()) as u32, rate }
    }
}

impl Telemetry {
    /// A switch writes, about a link.
    pub fn push(&mut self, link: u32, hop: Hop) {
        if let Some(place) = self.hops.get_mut(usize::from(self.count)) {
            *place = hop;
            self.count += 1;
            // Its order counts, too.
            self.path = self.path.rotate_left(5) ^ (link ^ link >> 16) as u16;
        }
    }

    /// Two packets with the same have taken the same way (HPCC's path ID).
    pub fn path(&self) -> u16 {
        self.path
    }

    /// What was written.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }
}

impl Telemetry {
    /// It is one of ours, and not what another process has made up.
    pub(super) fn is_sound(&self) -> bool {
        usize::from(self.count) <= MOST_HOPS
    }
}

/// By output, bytes that have started on the link.
#[derive(Debug)]
struct Sent(Vec<u64>);

impl AtLinks for Sent {
    fn pass(&mut self, start: &Start, packet: &mut Packet, carried: &mut Carried) {
        let sent = &mut self.0[start.output as usize];
        *sent += u64::from(packet.wire);
        if !start.of_host && packet.kind() == PacketKind::Data {
            let mut telemetry = if let Carried::Telemetry(telemetry) = carried { *telemetry } else { Telemetry::default() };
            telemetry.push(start.link, Hop::new(start.queue(), *sent, SimTime(start.now), start.rate));
            *carried = Carried::Telemetry(telemetry);
        }
    }

    fn writes(&self) -> bool {
        true
    }
}

impl Numbers for Hpcc {
    fn needs_telemetry(&self) -> bool {
        true
    }

    fn check(&self, _: &NetworkConfig, _: &Topology) -> Result<(), ConfigError> {
        check_round_trip("hpcc round_trip", self.round_trip)?;
        check_part("hpcc utilization", self.utilization)?;
        if self.max_stage > 255 {
            return refuse("hpcc max_stage", self.max_stage.to_string(), "at most 255");
        }
        if self.flows == 0 {
            return refuse("hpcc flows", self.flows.to_string(), "at least 1");
        }
        Ok(())
    }

    fn at_links(&self, of: &Links<'_>) -> Option<Box<dyn AtLinks>> {
        Some(Box::new(Sent(vec![0; of.links.len()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts that another process has sent are looked at before they are believed.
    #[test]
    fn more_than_there_is_room_for_is_not_sound() {
        let telemetry = |count| Carried::Telemetry(Telemetry { count, ..Telemetry::default() });
        assert!(Carried::Nothing.is_sound() && telemetry(MOST_HOPS as u8).is_sound());
        assert!(!telemetry(MOST_HOPS as u8 + 1).is_sound());
    }

    #[test]
    fn eight_switches_write_and_the_way_has_a_name() {
        let hop = |at| Hop::new(Bytes(1 << 40), 1 << 32 | 7, SimTime(at), ByteRate(9));
        let way = |links: &[u32]| {
            let mut telemetry = Telemetry::default();
            links.iter().for_each(|&link| telemetry.push(link, hop(u64::from(link) << 10)));
            telemetry
        };
        let two = way(&[3, 70_000]);
        let hops: Vec<_> = two.hops().iter().map(|hop| (hop.queue, hop.sent, hop.at)).collect();
        assert_eq!(hops, [(u32::MAX, 7, 3), (u32::MAX, 7, 70_000)]);
        assert_ne!(two.path(), way(&[70_000, 3]).path());
        let long = way(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!((long.hops().len(), long.path()), (MOST_HOPS, way(&[1, 2, 3, 4, 5, 6, 7, 8]).path()));
    }
}
