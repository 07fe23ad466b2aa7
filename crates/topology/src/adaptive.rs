//! Adaptive routing along minimal ways of tori, meshes and HyperX: at each switch the least loaded of the links that
//! lead nearer to the target; of equal ones that of the lowest dimension.
//!
//! A packet waits for the output that it has chosen, and for no other, so there is no escape channel that it could turn
//! to (Duato 1993). Instead the channels are such that no cycle closes among them at all:
//!
//! * **HyperX**: one link in each dimension, and the channel is the number of links taken before, so it rises on every
//!   way: as many channels as dimensions.
//! * **Meshes** (Linder and Harden, "An adaptive and fault tolerant wormhole routing strategy for k-ary n-cubes", IEEE
//!   Transactions on Computers 40, 1991): a network of channels for each combination of directions in all dimensions
//!   but the first: 2^(n-1) of them. In each, packets go one way only along these dimensions, so nothing comes back to
//!   where it was.
//! * **Tori**: the same once more for each time that a packet can have gone around the end of a ring, n + 1 times
//!   2^(n-1) when all dimensions are rings. The link around the end has the next level's channel.

use crate::deadlock::{Dependencies, Flood, Place};
use crate::graph::LinkId;
use crate::guide::Guide;
use crate::routing::{Route, RouteState, Step};

/// A topology with several minimal ways.
pub trait Productive: Guide {
    /// Every link from `switch` that leads nearer to `home`, another switch, with its channel, the lowest dimension
    /// first. `spread`: see [`Guide::toward`].
    fn productive(&self, switch: u32, home: u32, spread: u32, state: &RouteState, visit: impl FnMut(Step));

    /// [`RouteState::phase`] behind a link of `switch` toward `home`.
    fn phase_behind(&self, switch: u32, home: u32) -> u8;

    /// Channels that this takes.
    fn adaptive_channels(&self) -> u8;
}

/// See the module's page.
#[derive(Clone, Debug)]
pub struct AdaptiveMinimal<G> {
    guide: G,
}

impl<G: Productive> AdaptiveMinimal<G> {
    pub(crate) fn new(guide: G) -> Self {
        AdaptiveMinimal { guide }
    }
}

impl<G: Productive> Route for AdaptiveMinimal<G> {
    fn virtual_channels(&self) -> u8 {
        self.guide.adaptive_channels()
    }

    #[inline]
    fn fixed(&self, switch: u32, _input: LinkId, target: u32, _state: &RouteState) -> Option<Step> {
        (switch == self.guide.home(target)).then(|| Step { link: self.guide.ejection(switch, target), channel: 0 })
    }

    #[inline]
    fn next(&mut self, switch: u32, _input: LinkId, target: u32, state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        let home = self.guide.home(target);
        if switch == home {
            return Step { link: self.guide.ejection(switch, target), channel: 0 };
        }
        let mut best: Option<(u64, Step)> = None;
        self.guide.productive(switch, home, target, state, |step| {
            let load = load(step.link);
            if best.is_none_or(|(least, _)| load < least) {
                best = Some((load, step));
            }
        });
        state.phase = self.guide.phase_behind(switch, home);
        best.expect("a packet away from its target has a link that leads nearer").1
    }
}

/// For each target, all links that packets to it can be on.
impl<G: Productive> Dependencies for AdaptiveMinimal<G> {
    fn flood(&self, flood: &mut Flood<'_>) {
        let sources: Vec<u32> = (0..flood.switches()).filter(|&switch| self.guide.has_hosts(switch)).collect();
        let mut nexts = Vec::new();
        for &target in &sources {
            for spread in 0..self.guide.spreads() {
                flood.begin();
                let ahead = |switch: u32, state: &RouteState, nexts: &mut Vec<Place>| {
                    nexts.clear();
                    if switch != target {
                        let phase = self.guide.phase_behind(switch, target);
                        self.guide
                            .productive(switch, target, spread, state, |Step { link, channel }| nexts.push(Place { link, channel, phase }));
                    }
                };
                for &source in &sources {
                    ahead(source, &RouteState::default(), &mut nexts);
                    nexts.iter().for_each(|&next| flood.start(next));
                }
                while let Some(place) = flood.pop() {
                    let state = RouteState { word: 0, channel: place.channel, phase: place.phase, carried: 0 };
                    ahead(flood.end(place.link), &state, &mut nexts);
                    nexts.iter().for_each(|&next| flood.go_on(place, next));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlock::Deadlock;
    use crate::torus::{Torus, TorusParameters};

    /// The channels of a torus with fewer of them: `of` gives the channel that is taken instead.
    fn verdict(lengths: &[u32], wrap: bool, channels: u8, of: impl Fn(u8) -> u8) -> Result<(), Deadlock> {
        let parameters = TorusParameters { lengths: lengths.to_vec(), wrap, board: 1, hosts_per_switch: 1, cables: 1, hosts: None };
        let guide = Torus::new(parameters).unwrap();
        let topology = guide.clone().build();
        let mut flood = Flood::new(&topology, channels);
        for target in 0..topology.switches() {
            // A packet keeps the channel that it would have in its phase.
            flood.begin();
            let nexts = |switch: u32, phase: u8| {
                let state = RouteState { word: 0, channel: phase.saturating_sub(1), phase: u8::from(phase > 0), carried: 0 };
                let mut nexts = Vec::new();
                guide.productive(switch, target, 0, &state, |Step { link, channel }| {
                    nexts.push(Place { link, channel: of(channel), phase: channel + 1 });
                });
                nexts
            };
            for source in (0..topology.switches()).filter(|&source| source != target) {
                nexts(source, 0).into_iter().for_each(|next| flood.start(next));
            }
            while let Some(place) = flood.pop() {
                let switch = flood.end(place.link);
                if switch != target {
                    nexts(switch, place.phase).into_iter().for_each(|next| flood.go_on(place, next));
                }
            }
        }
        flood.verdict()
    }

    #[test]
    fn fewer_channels_would_not_do() {
        assert_eq!(verdict(&[4, 4], false, 2, |channel| channel), Ok(()));
        assert_eq!(verdict(&[5, 4], true, 6, |channel| channel), Ok(()));
        assert!(matches!(verdict(&[4, 4], false, 1, |_| 0), Err(Deadlock::Cycle(_))), "a mesh without networks of directions");
        assert!(matches!(verdict(&[5, 4], true, 2, |channel| channel % 2), Err(Deadlock::Cycle(_))), "rings without levels");
        assert!(matches!(verdict(&[5, 4], true, 3, |channel| channel / 2), Err(Deadlock::Cycle(_))), "a torus without directions");
    }
}
