//! The links of s-PERC ([`crate::Sperc`]; Jose et al., SIGMETRICS 2019): each has the sum of what it has granted to
//! flows that others limit, the number of those that it limits itself, and the highest of the former, and no state of a
//! flow: that is in the flow's control packets ([`Shares`]).

use crate::telemetry::Shares;

/// A link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
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
    pub(super) fn new(capacity: u64) -> Link {
        Link { capacity, sum: 0, here: 0, highest: 0, of_round: 0, round: 0 }
    }

    /// A control packet of a flow passes, the last one if it is `fin`; rounds are counted from time zero.
    pub(super) fn pass(&mut self, link: u32, round: u64, shares: &mut Shares, fin: bool) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
