//! The ways of fat trees: D-mod-K, S-mod-K or the least loaded way up, and the one way down.

use crate::deadlock::{Dependencies, Flood, Place};
use crate::fat_tree::FatTree;
use crate::graph::{LinkId, Topology};
use crate::routing::{Route, RouteState, Step};

/// How a switch chooses among its parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpPort {
    OfTarget,
    OfSource,
    LeastLoaded,
}

/// What a switch of a fat tree must know; one cache line.
#[derive(Clone, Copy, Debug)]
struct TreeSwitch {
    /// Its first output port.
    first_link: LinkId,
    /// Its first port to a parent, and how many there are (`w_(l+1) p_(l+1)`).
    first_up: LinkId,
    ups: u32,
    /// The hosts below: `first_host .. first_host + span`.
    first_host: u32,
    span: u32,
    /// Hosts below each child.
    child_span: u32,
    /// Cables to each child.
    cables: u32,
    /// The divisor of D-mod-K: the product of the parents up to this level.
    divisor: u32,
    /// Where the search for the least loaded parent begins.
    turn: u32,
}

/// D-mod-K, S-mod-K or adaptive way up, deterministic way down.
///
/// D-mod-K for a PGFT (Zahavi 2010): a switch of level `l` sends to the parent port
/// `floor(target / (w1 ... wl)) mod (w_(l+1) p_(l+1))`. On the way down the child is given, and among parallel cables the same
/// formula, taken at the child, selects. S-mod-K has the source's number in place of the target's.
#[derive(Clone, Debug)]
pub struct FatTreeRouting {
    switches: Vec<TreeSwitch>,
    up: UpPort,
}

impl FatTreeRouting {
    pub(crate) fn new(topology: &Topology, tree: &FatTree, up: UpPort) -> Self {
        let mut switches = Vec::with_capacity(topology.switches() as usize);
        for level in 1..=tree.levels() {
            let (width, span) = (tree.width(level), tree.span(level));
            let ups = tree.parents(level + 1) * tree.cables(level + 1);
            for index in 0..tree.switches(level) {
                let ports = topology.outputs(tree.first_switch(level) + index);
                switches.push(TreeSwitch {
                    first_link: ports.start,
                    first_up: ports.end - ups,
                    ups,
                    first_host: index / width * span,
                    span,
                    child_span: span / tree.children(level),
                    cables: tree.cables(level),
                    divisor: width,
                    turn: 0,
                });
            }
        }
        FatTreeRouting { switches, up }
    }

    /// Adaptive packets for one target leave the switches of a pod (those of one level above the same hosts) by any link up, and come
    /// back into a pod by any link down: one bundle per pod and direction.
    pub(crate) fn bundles(&self, topology: &Topology) -> Vec<LinkId> {
        let mut bundles: Vec<LinkId> = (0..topology.links().len() as LinkId).collect();
        if self.up != UpPort::LeastLoaded {
            return bundles;
        }
        let mut first_of_pod = 0;
        for (index, at) in self.switches.iter().enumerate() {
            let first = &self.switches[first_of_pod];
            if (first.first_host, first.span) != (at.first_host, at.span) {
                first_of_pod = index;
            }
            let first_up = self.switches[first_of_pod].first_up;
            for up in at.first_up..at.first_up + at.ups {
                bundles[up as usize] = first_up;
                bundles[topology.links()[up as usize].reverse as usize] = topology.links()[first_up as usize].reverse;
            }
        }
        bundles
    }
}

impl Route for FatTreeRouting {
    fn virtual_channels(&self) -> u8 {
        1
    }

    #[inline]
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        let at = &mut self.switches[switch as usize];
        let key = if self.up != UpPort::OfSource {
            target
        } else {
            if state.phase == 0 {
                // At the source's leaf: an injection link has the number of its host.
                (state.word, state.phase) = (input, 1);
            }
            state.word
        };
        let below = target.wrapping_sub(at.first_host);
        let link = if below < at.span {
            let child = below / at.child_span;
            if at.cables == 1 {
                at.first_link + child
            } else {
                // floor(floor(key / (w1 ... w(l-1))) mod (wl pl) / wl), with the two divisions taken as one.
                at.first_link + child * at.cables + key / at.divisor % at.cables
            }
        } else if self.up != UpPort::LeastLoaded {
            at.first_up + key / at.divisor % at.ups
        } else {
            let mut best = at.turn;
            let mut least = load(at.first_up + best);
            for step in 1..at.ups {
                if least == 0 {
                    break;
                }
                let candidate = if at.turn + step < at.ups { at.turn + step } else { at.turn + step - at.ups };
                let backlog = load(at.first_up + candidate);
                if backlog < least {
                    (best, least) = (candidate, backlog);
                }
            }
            at.turn = if best + 1 < at.ups { best + 1 } else { 0 };
            at.first_up + best
        };
        Step { link, channel: 0 }
    }
}

impl FatTreeRouting {
    /// The outputs that a packet may take at a switch that is not its target's leaf's.
    fn choices(&self, switch: u32, target: u32, key: u32) -> std::ops::Range<LinkId> {
        let at = &self.switches[switch as usize];
        let below = target.wrapping_sub(at.first_host);
        let one = |link| link..link + 1;
        if below < at.span && self.up == UpPort::LeastLoaded {
            // The targets below the child select among its cables.
            let first = at.first_link + below / at.child_span * at.cables;
            first..first + at.cables
        } else if below < at.span {
            one(at.first_link + below / at.child_span * at.cables + key / at.divisor % at.cables)
        } else if self.up == UpPort::LeastLoaded {
            at.first_up..at.first_up + at.ups
        } else {
            one(at.first_up + key / at.divisor % at.ups)
        }
    }
}

impl Dependencies for FatTreeRouting {
    fn flood(&self, flood: &mut Flood<'_>) {
        let leaves: Vec<u32> = (0..self.switches.len() as u32).filter(|&switch| self.switches[switch as usize].child_span == 1).collect();
        let hosts = |leaf: u32| {
            let at = &self.switches[leaf as usize];
            at.first_host..at.first_host + at.span
        };
        let mut follow = |sources: &[u32], target_leaf: u32, target: u32, key: u32| {
            flood.begin();
            let place = |link| Place { link, channel: 0, phase: 0 };
            for &source in sources.iter().filter(|&&source| source != target_leaf) {
                self.choices(source, target, key).for_each(|link| flood.start(place(link)));
            }
            while let Some(before) = flood.pop() {
                let switch = flood.end(before.link);
                if switch != target_leaf {
                    self.choices(switch, target, key).for_each(|link| flood.go_on(before, place(link)));
                }
            }
        };
        for &leaf in &leaves {
            match self.up {
                UpPort::OfTarget => hosts(leaf).for_each(|target| follow(&leaves, leaf, target, target)),
                UpPort::LeastLoaded => follow(&leaves, leaf, hosts(leaf).start, 0),
                UpPort::OfSource => {
                    for &source in &leaves {
                        hosts(source).for_each(|key| follow(&[source], leaf, hosts(leaf).start, key));
                    }
                }
            }
        }
    }
}
