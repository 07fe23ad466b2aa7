//! What an observer is told of the flow network: which share of each link flows take, and where messages begin.

use crate::Observer;
use narrows_topology::LinkId;
use narrows_units::SimTime;

/// An observer, with the links behind each resource.
pub(super) struct Eye {
    observer: Box<dyn Observer + Send>,
    /// The links of bundle `b` are `links[first[b]..first[b + 1]]`.
    first: Vec<u32>,
    links: Vec<LinkId>,
    /// Messages take the links of a bundle in turn.
    turn: usize,
}

impl std::fmt::Debug for Eye {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eye").finish_non_exhaustive()
    }
}

impl Eye {
    /// `bundles`: by link.
    pub(super) fn new(observer: Box<dyn Observer + Send>, bundles: &[u32]) -> Eye {
        let mut links: Vec<LinkId> = (0..bundles.len() as u32).collect();
        links.sort_by_key(|&link| bundles[link as usize]);
        let first = (0..=bundles.len() as u32).map(|bundle| links.partition_point(|&link| bundles[link as usize] < bundle) as u32);
        Eye { observer, first: first.collect(), links, turn: 0 }
    }

    fn members(&self, bundle: u32) -> std::ops::Range<usize> {
        self.first[bundle as usize] as usize..self.first[bundle as usize + 1] as usize
    }

    /// Flows take `used` of the `capacity` of a bundle from `at` on.
    pub(super) fn taken(&mut self, bundle: u32, used: u64, capacity: u64, at: SimTime) {
        let share = ((u128::from(used) << 32) / u128::from(capacity.max(1))) as u64;
        for place in self.members(bundle) {
            self.observer.flows(self.links[place], share, at);
        }
    }

    /// A message of `wire` bytes begins, which has a link of a bundle to itself for `duration`.
    pub(super) fn begins(&mut self, bundle: u32, wire: u64, at: SimTime, duration: impl FnOnce(LinkId) -> SimTime) {
        let members = self.members(bundle);
        let link = self.links[members.start + self.turn % members.len()];
        self.turn += 1;
        self.observer.sent(link, 0, u32::try_from(wire).unwrap_or(u32::MAX), at, duration(link));
    }
}
