//! The ways of fat trees: D-mod-K, S-mod-K or the least loaded way up, and the one way down.

use crate::deadlock::{Dependencies, Flood, Hop};
use crate::fat_tree::FatTree;
use crate::graph::{LinkId, Topology, Vertex};
use crate::routing::{Route, RouteState, Step};
use crate::table::CutOff;

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

impl TreeSwitch {
    /// The link down to the host `below` places after the first one.
    #[inline]
    fn down(&self, below: u32, key: u32) -> LinkId {
        let child = below / self.child_span;
        if self.cables == 1 {
            self.first_link + child
        } else {
            // floor(floor(key / (w1 ... w(l-1))) mod (wl pl) / wl), with the two divisions taken as one.
            self.first_link + child * self.cables + key / self.divisor % self.cables
        }
    }
}

/// What the switches of a tree with failures reach, by the way down and by any way, up and then down: a bit per switch
/// and leaf.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Words per switch.
    words: usize,
    /// Hosts of a leaf.
    per_leaf: u32,
    down: Vec<u64>,
    any: Vec<u64>,
    /// The switch at the end of every link.
    end: Vec<u32>,
    failed: Vec<bool>,
}

impl Reach {
    /// # Errors
    /// Two leaves with hosts between which there is no way up and down.
    pub(crate) fn new(topology: &Topology, tree: &FatTree) -> Result<Reach, CutOff> {
        let (leaves, switches) = (tree.switches(1), topology.switches());
        let words = (leaves as usize).div_ceil(64);
        let end = topology.links().iter().map(|link| match link.to {
            Vertex::Switch(switch) => switch,
            Vertex::Host(_) => u32::MAX,
        });
        let mut reach = Reach {
            words,
            per_leaf: tree.children(1),
            down: vec![0; words * switches as usize],
            any: Vec::new(),
            end: end.collect(),
            failed: (0..topology.links().len() as LinkId).map(|link| topology.is_failed(link)).collect(),
        };
        for leaf in 0..leaves {
            reach.down[leaf as usize * words + leaf as usize / 64] |= 1 << (leaf % 64);
        }
        // Switches are numbered level by level: what is below is done before.
        let merge = |sets: &mut Vec<u64>, end: &[u32], failed: &[bool], switch: u32, below: bool| {
            for link in topology.outputs(switch) {
                let peer = end[link as usize];
                if peer != u32::MAX && (peer < switch) == below && !failed[link as usize] {
                    for word in 0..words {
                        let bits = sets[peer as usize * words + word];
                        sets[switch as usize * words + word] |= bits;
                    }
                }
            }
        };
        for switch in leaves..switches {
            merge(&mut reach.down, &reach.end, &reach.failed, switch, true);
        }
        reach.any = reach.down.clone();
        for switch in (0..switches).rev() {
            merge(&mut reach.any, &reach.end, &reach.failed, switch, false);
        }
        let used = tree.hosts().div_ceil(tree.children(1));
        for (from, to) in (0..used).flat_map(|from| (0..used).map(move |to| (from, to))) {
            if !reach.has(&reach.any, from, to) {
                return Err(CutOff { from, to });
            }
        }
        Ok(reach)
    }

    fn has(&self, set: &[u64], switch: u32, leaf: u32) -> bool {
        set[switch as usize * self.words + leaf as usize / 64] >> (leaf % 64) & 1 != 0
    }

    /// Whether a packet for a host may take a link, up or down.
    fn is_open(&self, link: LinkId, up: bool, target: u32) -> bool {
        let end = self.end[link as usize];
        let leaf = target / self.per_leaf;
        !self.failed[link as usize] && (end == u32::MAX || self.has(if up { &self.any } else { &self.down }, end, leaf))
    }

    /// Whether the way down from a switch leads to a host.
    fn is_below(&self, switch: u32, target: u32) -> bool {
        self.has(&self.down, switch, target / self.per_leaf)
    }
}

/// D-mod-K, S-mod-K or adaptive way up, deterministic way down.
///
/// D-mod-K for a PGFT (Zahavi 2010): a switch of level `l` sends to the parent port
/// `floor(target / (w1 ... wl)) mod (w_(l+1) p_(l+1))`. On the way down the child is given, and among parallel cables
/// the same formula, taken at the child, selects. S-mod-K has the source's number in place of the target's.
#[derive(Clone, Debug)]
pub struct FatTreeRouting {
    switches: Vec<TreeSwitch>,
    up: UpPort,
    /// When there are failures.
    reach: Option<Box<Reach>>,
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
        let reach = (topology.failed_links() > 0)
            .then(|| Box::new(Reach::new(topology, tree).expect("failures that cut off hosts are refused when they are set")));
        FatTreeRouting { switches, up, reach }
    }

    /// Adaptive packets for one target leave the switches of a pod (those of one level above the same hosts) by any
    /// link up, and come back into a pod by any link down: one bundle per pod and direction.
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
    fn fixed(&self, switch: u32, _: LinkId, target: u32, _: &RouteState) -> Option<Step> {
        if self.reach.is_some() || self.up == UpPort::OfSource {
            return None;
        }
        let at = &self.switches[switch as usize];
        let below = target.wrapping_sub(at.first_host);
        if below < at.span {
            return Some(Step { link: at.down(below, target), channel: 0 });
        }
        (self.up == UpPort::OfTarget).then(|| Step { link: at.first_up + target / at.divisor % at.ups, channel: 0 })
    }

    #[inline]
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        if self.reach.is_some() {
            return self.next_past_failures(switch, input, target, state, load);
        }
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
            at.down(below, key)
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

    fn rest(&mut self) {
        self.switches.iter_mut().for_each(|at| at.turn = 0);
    }
}

impl FatTreeRouting {
    /// As [`Route::next`]: the usual port or, when that leads nowhere, the next one that does not.
    #[cold]
    fn next_past_failures(
        &mut self,
        switch: u32,
        input: LinkId,
        target: u32,
        state: &mut RouteState,
        mut load: impl FnMut(LinkId) -> u64,
    ) -> Step {
        if self.up == UpPort::OfSource && state.phase == 0 {
            (state.word, state.phase) = (input, 1);
        }
        let key = if self.up == UpPort::OfSource { state.word } else { target };
        let (ports, usual, up) = self.ports(switch, target, key);
        let at = &mut self.switches[switch as usize];
        let reach = self.reach.as_deref().expect("there are failures");
        let count = ports.end - ports.start;
        let usual = if up && self.up == UpPort::LeastLoaded { at.turn } else { usual };
        let in_turn = (0..count).map(|step| ports.start + (usual + step) % count);
        let mut open = in_turn.filter(|&link| reach.is_open(link, up, target));
        let link = if up && self.up == UpPort::LeastLoaded {
            let link = open.min_by_key(|&link| load(link));
            at.turn = link.map_or(0, |link| (link - ports.start + 1) % count);
            link
        } else {
            open.next()
        };
        Step { link: link.expect("failures that cut off hosts are refused when they are set"), channel: 0 }
    }

    /// The ports that lead to a target, up or down, and the usual one of them.
    fn ports(&self, switch: u32, target: u32, key: u32) -> (std::ops::Range<LinkId>, u32, bool) {
        let at = &self.switches[switch as usize];
        let below = target.wrapping_sub(at.first_host);
        let is_below = below < at.span && self.reach.as_deref().is_none_or(|reach| reach.is_below(switch, target));
        if is_below {
            let first = at.first_link + below / at.child_span * at.cables;
            (first..first + at.cables, key / at.divisor % at.cables, false)
        } else {
            (at.first_up..at.first_up + at.ups, if at.ups == 0 { 0 } else { key / at.divisor % at.ups }, true)
        }
    }

    /// The outputs that a packet may take at a switch that is not its target's leaf. Adaptive packets may take any
    /// cable down, as the targets below select among them.
    pub(crate) fn choices(&self, switch: u32, target: u32, key: u32) -> impl Iterator<Item = LinkId> + '_ {
        let (ports, usual, up) = self.ports(switch, target, key);
        let all = self.up == UpPort::LeastLoaded;
        let count = ports.end - ports.start;
        let open = (0..count)
            .map(move |step| ports.start + (usual + step) % count)
            .filter(move |&link| self.reach.as_deref().is_none_or(|reach| reach.is_open(link, up, target)));
        open.take(if all { usize::MAX } else { 1 })
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
            let place = |link| Hop { link, channel: 0, phase: 0 };
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
