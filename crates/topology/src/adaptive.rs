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

use crate::deadlock::{Dependencies, Flood, Hop};
use crate::graph::LinkId;
use crate::guide::Guide;
use crate::routing::{Route, RouteState, Step};

/// A topology with several minimal ways.
pub trait Productive: Guide {
    /// Every link from `switch` that leads nearer to `home`, another switch, with its channel, the lowest dimension
    /// first. `spread`: see [`Guide::toward`].
    fn productive(&self, switch: u32, home: u32, spread: u32, state: &RouteState, visit: impl FnMut(Step));

    /// [`RouteState::phase`] behind a link of `switch` toward `home`: 1 when the channel of the next link depends on
    /// that of this one.
    fn phase_behind(&self, switch: u32, home: u32) -> u8;

    /// By how much a packet's channel rises on `link` of `switch`, if the phase is 1 before and behind: what
    /// [`Productive::productive`] says, whatever the target and the channel.
    fn rise(&self, switch: u32, link: LinkId) -> u8;

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

    fn rest(&mut self) {}
}

/// For each target, all links that packets to it can be on; 64 targets at a time, a bit of a word each. What is found
/// for one at a time takes ten times as long. Targets are shared out among the cores.
impl<G: Productive + Sync> Dependencies for AdaptiveMinimal<G> {
    fn flood(&self, flood: &mut Flood<'_>) {
        let targets: Vec<u32> = (0..flood.switches()).filter(|&switch| self.guide.has_hosts(switch)).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = targets.len().div_ceil(cores).next_multiple_of(TARGETS);
        std::thread::scope(|scope| {
            let shares: Vec<_> = targets
                .chunks(share)
                .map(|share| {
                    let mut part = flood.anew();
                    let sources = &targets;
                    scope.spawn(move || {
                        let mut many = Many::new(&self.guide, part.switches(), part.links(), part.channels());
                        for targets in share.chunks(TARGETS) {
                            (0..self.guide.spreads()).for_each(|spread| many.flood(targets, spread, sources, &mut part));
                        }
                        part
                    })
                })
                .collect();
            for part in shares {
                flood.join(part.join().expect("a check of the guide's own answers"));
            }
        });
    }
}

/// Targets whose packets are followed together.
const TARGETS: usize = u64::BITS as usize;

/// A link that leads nearer to some of the targets.
struct Ahead {
    /// As taken by a packet that comes from its source, and the phase behind it.
    first: Hop,
    /// See [`Productive::rise`].
    rise: u8,
    /// The targets, a bit each.
    targets: u64,
}

impl Ahead {
    /// Where a packet goes on that is at `before`.
    fn behind(&self, before: Hop) -> Hop {
        let rises = before.phase == 1 && self.first.phase == 1;
        Hop { channel: if rises { before.channel + self.rise } else { self.first.channel }, ..self.first }
    }
}

/// The packets to many targets.
struct Many<'a, G> {
    guide: &'a G,
    channels: usize,
    /// Of each switch.
    ahead: Vec<Vec<Ahead>>,
    /// Targets whose packets can be on a link, in one channel and phase.
    on: Vec<u64>,
    /// Those of packets that can have come to a switch so, by any link.
    at: Vec<u64>,
    /// Those of `at` that have not gone on yet, and where there are any.
    new: Vec<u64>,
    work: Vec<(u32, Hop)>,
}

impl<'a, G: Productive> Many<'a, G> {
    /// 0 and 1, see [`Productive::phase_behind`].
    const PHASES: usize = 2;

    fn new(guide: &'a G, switches: u32, links: usize, channels: u8) -> Many<'a, G> {
        let channels = usize::from(channels);
        let words = |count: usize| vec![0; count * channels * Self::PHASES];
        let ahead = (0..switches).map(|_| Vec::new()).collect();
        Many { guide, channels, ahead, on: words(links), at: words(switches as usize), new: words(switches as usize), work: Vec::new() }
    }

    fn word(&self, of: u32, place: Hop) -> usize {
        (of as usize * self.channels + usize::from(place.channel)) * Self::PHASES + usize::from(place.phase)
    }

    fn flood(&mut self, targets: &[u32], spread: u32, sources: &[u32], flood: &mut Flood<'_>) {
        self.look_ahead(targets, spread, flood.switches());
        self.on.fill(0);
        self.at.fill(0);
        let lists = std::mem::take(&mut self.ahead);
        for &source in sources {
            lists[source as usize].iter().for_each(|ahead| self.arrive(ahead.first, ahead.targets, flood));
        }
        while let Some((switch, place)) = self.work.pop() {
            let word = self.word(switch, place);
            let new = std::mem::take(&mut self.new[word]);
            for ahead in lists[switch as usize].iter().filter(|ahead| ahead.targets & new != 0) {
                self.arrive(ahead.behind(place), ahead.targets & new, flood);
            }
        }
        for link in 0..flood.links() as u32 {
            for channel in 0..self.channels as u8 {
                for phase in 0..Self::PHASES as u8 {
                    let before = Hop { link, channel, phase };
                    let on = self.on[self.word(link, before)];
                    if on == 0 {
                        continue;
                    }
                    for ahead in lists[flood.end(link) as usize].iter().filter(|ahead| ahead.targets & on != 0) {
                        flood.wait(before, ahead.behind(before));
                    }
                }
            }
        }
        self.ahead = lists;
    }

    /// All links that lead nearer to one of the targets.
    fn look_ahead(&mut self, targets: &[u32], spread: u32, switches: u32) {
        for (switch, list) in (0..switches).zip(&mut self.ahead) {
            list.clear();
            for (bit, &target) in targets.iter().enumerate().filter(|&(_, &target)| target != switch) {
                let phase = self.guide.phase_behind(switch, target);
                self.guide.productive(switch, target, spread, &RouteState::default(), |Step { link, channel }| {
                    let first = Hop { link, channel, phase };
                    match list.iter_mut().find(|ahead| ahead.first == first) {
                        Some(ahead) => ahead.targets |= 1 << bit,
                        None => list.push(Ahead { first, rise: self.guide.rise(switch, link), targets: 1 << bit }),
                    }
                });
            }
        }
    }

    /// Packets to these targets can be there.
    fn arrive(&mut self, place: Hop, targets: u64, flood: &mut Flood<'_>) {
        if usize::from(place.channel) >= self.channels {
            return flood.goes_beyond(place.channel);
        }
        let on = self.word(place.link, place);
        self.on[on] |= targets;
        let switch = flood.end(place.link);
        let at = self.word(switch, place);
        let new = targets & !self.at[at];
        if new != 0 {
            self.at[at] |= new;
            if self.new[at] == 0 {
                self.work.push((switch, place));
            }
            self.new[at] |= new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadlock::Deadlock;
    use crate::graph::Topology;
    use crate::hyperx::HyperX;
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
                    nexts.push(Hop { link, channel: of(channel), phase: channel + 1 });
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

    /// The dependencies of one target at a time.
    fn one_by_one<G: Productive>(guide: &G, flood: &mut Flood<'_>) {
        let switches: Vec<u32> = (0..flood.switches()).filter(|&switch| guide.has_hosts(switch)).collect();
        for &target in &switches {
            for spread in 0..guide.spreads() {
                // Each channel and phase is followed, so a link is met once for each phase.
                let mut met = std::collections::BTreeSet::new();
                let mut work = Vec::new();
                let ahead = |switch: u32, state: &RouteState| {
                    let mut nexts = Vec::new();
                    if switch != target {
                        let phase = guide.phase_behind(switch, target);
                        guide.productive(switch, target, spread, state, |Step { link, channel }| nexts.push(Hop { link, channel, phase }));
                    }
                    nexts
                };
                for &source in &switches {
                    work.extend(ahead(source, &RouteState::default()));
                }
                while let Some(place) = work.pop() {
                    if met.insert((place.link, place.channel, place.phase)) {
                        let state = RouteState { word: 0, channel: place.channel, phase: place.phase, carried: 0 };
                        for next in ahead(flood.end(place.link), &state) {
                            flood.wait(place, next);
                            work.push(next);
                        }
                    }
                }
            }
        }
    }

    fn agrees<G: Productive + Sync>(guide: G, topology: &Topology) {
        let channels = guide.adaptive_channels();
        let mut slow = Flood::new(topology, channels);
        one_by_one(&guide, &mut slow);
        let mut fast = Flood::new(topology, channels);
        AdaptiveMinimal::new(guide).flood(&mut fast);
        assert!(slow.edges().iter().any(|&word| word != 0));
        assert!(slow.edges() == fast.edges(), "{}", topology.name());
        assert_eq!(fast.verdict(), Ok(()), "{}", topology.name());
    }

    #[test]
    fn many_targets_at_a_time_have_the_dependencies_of_each() {
        let tori: [(&[u32], bool, u32, u32); 8] = [
            (&[5, 4], true, 1, 1),
            (&[9, 8], true, 1, 1),
            (&[9, 9], false, 1, 1),
            (&[4, 3, 3], true, 1, 2),
            (&[2, 2, 5], true, 1, 1),
            (&[3, 4], true, 4, 1),
            (&[4, 2, 2], true, 3, 2),
            (&[3, 3, 2, 2], false, 1, 1),
        ];
        for (lengths, wrap, board, cables) in tori {
            let parameters = TorusParameters { lengths: lengths.to_vec(), wrap, board, hosts_per_switch: 1, cables, hosts: None };
            let guide = Torus::new(parameters.clone()).unwrap();
            agrees(guide.clone(), &guide.build());
            let guide = Torus::of_full_meshes(parameters).unwrap();
            agrees(guide.clone(), &guide.build());
        }
        for (lengths, cables) in [(&[4, 3][..], 1), (&[9, 8], 1), (&[3, 2, 4], 2)] {
            let guide = HyperX::new(lengths, 2, cables, None).unwrap();
            agrees(guide.clone(), &guide.build());
        }
    }
}
