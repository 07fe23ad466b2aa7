//! s-PERC ([`Sperc`]; Jose et al., SIGMETRICS 2019), at links: each has the sum of what it has granted to
//! flows that others limit, the number of those that it limits itself, and the highest of the former, and no state of a
//! flow: that is in the flow's control packets ([`Shares`]).

use super::{AtLinks, Links, Numbers, Start, check_part, check_period};
use crate::Carried;
use crate::config::{ConfigError, NetworkConfig};
use crate::control::FlowRate;
use crate::faults::Fault;
use crate::packet::state::Packet;
use crate::port::PacketKind;
use narrows_keys::keys;
use narrows_topology::{RoutingKind, Topology};
use narrows_units::{ByteRate, Bytes, Fraction, SimTime};
use serde::{Deserialize, Serialize};

keys! {
    /// s-PERC (Jose et al., SIGMETRICS 2019): exact max-min fair rates, in as many rounds as there are steps of
    /// filling. Its control packets must not be lost, and those of a flow go one way.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Sperc {
        /// With `s-perc`: the part of each link's rate that is not granted to any flow.
        pub margin: Fraction = 0.05, in ..=999_999;
        /// Each flow sends a control packet once in this time; at least the longest round trip.
        pub round: SimTime = "10 us", in SimTime::from_ns(100)..;
        /// A control packet on the wire.
        pub packet: Bytes = "64 B", in Bytes(1)..;
    }
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

impl Shares {
    /// It is one of ours, and not what another process has made up.
    pub(super) fn is_sound(&self) -> bool {
        u32::from(self.count) <= MOST_LINKS
    }
}

/// A link.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// C: its rate less the margin.
    capacity: u64,
    /// Granted to flows that others limit.
    sum: u64,
    /// N: flows that it limits itself.
    here: u64,
    /// The highest grant to a flow that others limit, of this round and the one before, and of this one alone.
    highest: u64,
    of_round: u64,
    round: u64,
}

impl Link {
    fn new(capacity: u64) -> Link {
        Link { capacity, sum: 0, here: 0, highest: 0, of_round: 0, round: 0 }
    }

    /// A control packet of a flow passes, the last one if it is `fin`; rounds are counted from time zero.
    fn pass(&mut self, link: u32, round: u64, shares: &mut Shares, fin: bool) {
        while self.round < round && (self.highest, self.of_round) != (0, 0) {
            (self.highest, self.of_round) = (self.of_round, 0);
            self.round += 1;
        }
        self.round = round;
        let Some((place, fresh)) = shares.of(link) else { return };
        let elsewhere = shares.elsewhere(place);
        let share = shares.link(place);
        // The flow is one of those that it limits, for now.
        // Copies of a packet, which a fault makes, count twice.
        if share.elsewhere {
            self.sum = self.sum.saturating_sub(share.granted);
        }
        if fresh || share.elsewhere {
            self.here += 1;
        }
        self.here = self.here.max(1);
        if fin {
            self.here -= 1;
            return;
        }
        share.bottleneck = self.capacity.saturating_sub(self.sum) / self.here;
        share.elsewhere = elsewhere < share.bottleneck;
        share.granted = elsewhere.min(share.bottleneck);
        if share.elsewhere {
            self.here -= 1;
            self.sum += share.granted;
            self.highest = self.highest.max(share.granted);
            self.of_round = self.of_round.max(share.granted);
        }
        share.ignored = share.bottleneck < self.highest;
    }
}

/// All of them.
#[derive(Debug)]
struct Granting {
    /// By output.
    links: Vec<Link>,
    /// How long a round is.
    round: u64,
    /// Virtual networks that have it, a bit each.
    networks: u32,
}

impl AtLinks for Granting {
    fn pass(&mut self, start: &Start, packet: &mut Packet, carried: &mut Carried) {
        if packet.kind() != PacketKind::Control {
            return;
        }
        let FlowRate { response, fin, virtual_network, .. } = FlowRate::of(&packet.label());
        if let Carried::Shares(shares) = carried
            && !response
            && self.networks >> virtual_network & 1 == 1
        {
            self.links[start.output as usize].pass(start.link, start.now / self.round, shares, fin);
        }
    }

    fn writes(&self) -> bool {
        true
    }
}

impl Numbers for Sperc {
    fn control_packet(&self) -> Option<Bytes> {
        Some(self.packet)
    }

    fn check(&self, network: &NetworkConfig, topology: &Topology) -> Result<(), ConfigError> {
        check_part("sperc margin", self.margin)?;
        check_period("sperc round", self.round)?;
        network.fits_a_packet("sperc packet", self.packet)?;
        let needs = |what| Err(ConfigError::PercNeeds { what });
        if network.faults.iter().any(Fault::harms) || network.missing_headroom(topology).is_some() {
            return needs("control packets that are never lost");
        }
        use RoutingKind::{DModK, DimensionOrder, Minimal, SModK, Table};
        if ![Minimal, DModK, SModK, DimensionOrder, Table].contains(&network.routing) {
            return needs("packets of a flow that all go the same way");
        }
        if topology.diameter() > MOST_LINKS {
            return needs("ways of at most 8 links");
        }
        Ok(())
    }

    fn at_links(&self, of: &Links<'_>) -> Option<Box<dyn AtLinks>> {
        let link = |&link: &u32| {
            let rate = of.rate(link);
            Link::new(rate - self.margin.of(rate))
        };
        let links = of.links.iter().map(link).collect();
        Some(Box::new(Granting { links, round: self.round.as_ps(), networks: of.networks }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts that another process has sent are looked at before they are believed.
    #[test]
    fn more_than_there_is_room_for_is_not_sound() {
        let shares = |count| Carried::Shares(Shares { count, ..Shares::default() });
        assert!(shares(MOST_LINKS as u8).is_sound() && !shares(MOST_LINKS as u8 + 1).is_sound());
    }

    /// Progressive filling: the link with the least share of what is left gives it to its flows, again and again.
    fn max_min(capacities: &[u64], flows: &[Vec<u32>]) -> Vec<f64> {
        let mut rates = vec![None; flows.len()];
        while rates.iter().any(Option::is_none) {
            let share = |link: usize| {
                let on = |flow: &&usize| flows[**flow].contains(&(link as u32));
                let all: Vec<usize> = (0..flows.len()).collect();
                let used: f64 = all.iter().filter(on).filter_map(|&flow| rates[flow]).sum();
                let open = all.iter().filter(on).filter(|&&flow| rates[flow].is_none()).count();
                (open > 0).then(|| (capacities[link] as f64 - used) / open as f64)
            };
            let shares = (0..capacities.len()).filter_map(|link| Some((share(link)?, link)));
            let (least, link) = shares.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap();
            for (rate, flow) in rates.iter_mut().zip(flows) {
                if rate.is_none() && flow.contains(&(link as u32)) {
                    *rate = Some(least);
                }
            }
        }
        rates.into_iter().flatten().collect()
    }

    fn settle(links: &mut [Link], flows: &[Vec<u32>], shares: &mut [Shares], rounds: std::ops::Range<u64>) {
        for round in rounds {
            for (flow, shares) in flows.iter().zip(&mut *shares) {
                flow.iter().for_each(|&link| links[link as usize].pass(link, round, shares, false));
            }
        }
    }

    proptest! {
        /// The theorem of the paper: whatever the ways, grants become those of max-min fairness; and again when half of
        /// the flows have gone.
        #[test]
        fn grants_become_max_min_fair(
            capacities in proptest::collection::vec(1_000_000_000u64..20_000_000_000, 1..12),
            ways in proptest::collection::vec(proptest::collection::btree_set(0u32..12, 1..5), 1..40),
        ) {
            let links = capacities.len() as u32;
            let way = |way: &std::collections::BTreeSet<u32>| {
                let set: std::collections::BTreeSet<u32> = way.iter().map(|link| link % links).collect();
                set.into_iter().collect::<Vec<u32>>()
            };
            let mut flows: Vec<Vec<u32>> = ways.iter().map(way).collect();
            let mut state: Vec<Link> = capacities.iter().map(|&capacity| Link::new(capacity)).collect();
            let mut shares = vec![Shares::default(); flows.len()];
            // Six rounds for each of the steps of filling, of which there are at most as many as links.
            settle(&mut state, &flows, &mut shares, 0..100);
            for (expected, shares) in max_min(&capacities, &flows).into_iter().zip(&shares) {
                prop_assert!((shares.rate().0 as f64 / expected - 1.0).abs() < 1e-6, "{} {expected}", shares.rate().0);
            }
            let gone = flows.len() / 2;
            for (flow, shares) in flows.drain(..gone).zip(shares.drain(..gone)) {
                let mut shares = shares;
                flow.iter().for_each(|&link| state[link as usize].pass(link, 100, &mut shares, true));
            }
            settle(&mut state, &flows, &mut shares, 100..200);
            for (expected, shares) in max_min(&capacities, &flows).into_iter().zip(&shares) {
                prop_assert!((shares.rate().0 as f64 / expected - 1.0).abs() < 1e-6, "{} {expected}", shares.rate().0);
            }
        }
    }

    /// Facts 1.4: an incast of five, and a victim on the link of one of them.
    #[test]
    fn a_victim_gets_what_an_incast_leaves() {
        let mut links = [Link::new(1_000), Link::new(1_000)];
        let flows: Vec<Vec<u32>> = [vec![0, 1], vec![1], vec![1], vec![1], vec![1], vec![0]].to_vec();
        let mut shares = vec![Shares::default(); 6];
        settle(&mut links, &flows, &mut shares, 0..12);
        assert_eq!(shares.iter().map(|shares| shares.rate().0).collect::<Vec<_>>(), [200, 200, 200, 200, 200, 800]);
    }
}
