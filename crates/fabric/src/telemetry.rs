//! What links write into packets on their way, and what comes back to the source: with HPCC telemetry, with s-PERC what
//! each link grants.

use narrows_units::{ByteRate, Bytes, SimTime};
use serde::{Deserialize, Serialize};

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

/// What a packet carries beside its label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Carried {
    /// Nothing.
    #[default]
    Nothing,
    /// HPCC: packets of messages and acknowledgements.
    Telemetry(Telemetry),
    /// s-PERC: control packets.
    Shares(Shares),
}

/// So many links of a way can grant.
pub const MOST_LINKS: u32 = 8;

/// What the links of its way have granted to a flow, in the order of the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Shares {
    count: u8,
    links: [Share; MOST_LINKS as usize],
}

/// What a link knows of a flow, which the control packets of the flow keep for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The link.
    pub link: u32,
    /// It counts the flow among those that other links limit (state E; else B).
    pub elsewhere: bool,
    /// Its bottleneck rate is not to be looked at by others (i).
    pub ignored: bool,
    /// Granted (a), bytes per second.
    pub granted: u64,
    /// The bottleneck rate that it has told (b), bytes per second.
    pub bottleneck: u64,
}

impl Default for Share {
    fn default() -> Self {
        Share { link: 0, elsewhere: false, ignored: false, granted: u64::MAX, bottleneck: u64::MAX }
    }
}

impl Shares {
    /// The share of a link, and whether the flow is new there; none on a way that is too long.
    pub fn of(&mut self, link: u32) -> Option<(usize, bool)> {
        if let Some(place) = self.links().iter().position(|share| share.link == link) {
            return Some((place, false));
        }
        let place = usize::from(self.count);
        *self.links.get_mut(place)? = Share { link, ..Share::default() };
        self.count += 1;
        Some((place, true))
    }

    /// All of them.
    pub fn links(&self) -> &[Share] {
        &self.links[..usize::from(self.count)]
    }

    /// One of them.
    pub fn link(&mut self, place: usize) -> &mut Share {
        &mut self.links[place]
    }

    /// The least bottleneck rate that others than this one have told, of those that are not ignored.
    pub fn elsewhere(&self, place: usize) -> u64 {
        let others = (0..).zip(self.links()).filter(|&(other, share)| other != place && !share.ignored);
        others.map(|(_, share)| share.bottleneck).min().unwrap_or(u64::MAX)
    }

    /// What the flow may have.
    pub fn rate(&self) -> ByteRate {
        ByteRate(self.links().iter().map(|share| share.granted).min().unwrap_or(u64::MAX))
    }
}

impl Carried {
    /// It is one of ours, and not what another process has made up.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            Carried::Nothing => true,
            Carried::Telemetry(telemetry) => usize::from(telemetry.count) <= MOST_HOPS,
            Carried::Shares(shares) => u32::from(shares.count) <= MOST_LINKS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts that another process has sent are looked at before they are believed.
    #[test]
    fn more_than_there_is_room_for_is_not_sound() {
        let telemetry = |count| Carried::Telemetry(Telemetry { count, ..Telemetry::default() });
        let shares = |count| Carried::Shares(Shares { count, ..Shares::default() });
        assert!(Carried::Nothing.is_sound() && telemetry(MOST_HOPS as u8).is_sound() && shares(MOST_LINKS as u8).is_sound());
        assert!(!telemetry(MOST_HOPS as u8 + 1).is_sound() && !shares(MOST_LINKS as u8 + 1).is_sound());
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
