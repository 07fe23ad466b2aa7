//! Which link comes next: one small type per way of routing, behind [`Route`], chosen by [`RoutingKind`].
//!
//! A decision is taken when the head of a packet is at a switch. It may look at the load of that switch's outputs and keep state
//! in the packet ([`RouteState`]), which is what Valiant, UGAL and virtual-channel ladders need; fat trees need neither a ladder
//! (up, then down, is free of cycles: fact sheet 2.4) nor state.

use crate::fat_tree::FatTree;
use crate::graph::{LinkId, Shape, Topology};

/// The ways of routing that a machine file can name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum RoutingKind {
    /// Fat trees: the target's number selects the way up (Zahavi 2010). All packets to one target take one way from one source.
    #[default]
    DModK,
    /// Fat trees: up by the least loaded output, ties round robin; down as D-mod-K.
    Adaptive,
}

/// Why a routing does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// This topology needs another routing.
    #[error("routing {routing:?} does not fit {topology}; expected one of {expected}")]
    DoesNotFit {
        /// What was asked for.
        routing: RoutingKind,
        /// On what.
        topology: String,
        /// What would do.
        expected: &'static str,
    },
}

/// What a packet carries for its routing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteState {
    /// Free for the routing, such as the intermediate group of a Valiant way. Zero at the source.
    pub word: u32,
    /// The virtual channel (within its virtual network) that the packet is on.
    pub channel: u8,
}

/// The next link of a packet and the virtual channel on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// An output of the switch that was asked about.
    pub link: LinkId,
    /// Within the packet's virtual network.
    pub channel: u8,
}

/// A way of routing.
pub trait Route {
    /// Virtual channels per virtual network that keep it free of deadlock.
    fn virtual_channels(&self) -> u8;

    /// Where a packet for `target` goes that came into `switch` on `input`. `load` gives the backlog of an output, in any one unit.
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, load: impl FnMut(LinkId) -> u64) -> Step;
}

/// Every way of routing, dispatched without a pointer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Routing {
    /// D-mod-K and adaptive up.
    FatTree(FatTreeRouting),
}

impl Routing {
    /// The routing `kind` for `topology`.
    ///
    /// # Errors
    /// [`RoutingError::DoesNotFit`].
    pub fn new(kind: RoutingKind, topology: &Topology) -> Result<Routing, RoutingError> {
        match (kind, topology.shape()) {
            (RoutingKind::DModK, Shape::FatTree(tree)) => Ok(Routing::FatTree(FatTreeRouting::new(topology, tree, false))),
            (RoutingKind::Adaptive, Shape::FatTree(tree)) => Ok(Routing::FatTree(FatTreeRouting::new(topology, tree, true))),
        }
    }

    /// The links from `source` to `target`, host links included, as a packet would take them if `load` did not change on the way.
    /// Empty when both are the same host.
    pub fn path(
        &mut self,
        topology: &Topology,
        source: u32,
        target: u32,
        mut state: RouteState,
        mut load: impl FnMut(LinkId) -> u64,
    ) -> Vec<LinkId> {
        let mut path = Vec::new();
        self.walk(topology, source, target, &mut state, &mut load, |link| path.push(link));
        path
    }

    /// For every link, the first of those among which this routing spreads the packets of one message; its own number when packets of
    /// one message follow each other. A model without packets takes such a bundle as one link of their summed rate.
    pub fn bundles(&self, topology: &Topology) -> Vec<LinkId> {
        match self {
            Routing::FatTree(routing) => routing.bundles(topology),
        }
    }

    /// As [`Routing::path`], link by link and without an allocation.
    pub fn walk(
        &mut self,
        topology: &Topology,
        source: u32,
        target: u32,
        state: &mut RouteState,
        mut load: impl FnMut(LinkId) -> u64,
        mut visit: impl FnMut(LinkId),
    ) {
        if source == target {
            return;
        }
        let mut link = topology.injection(source);
        visit(link);
        while let crate::Vertex::Switch(switch) = topology.links()[link as usize].to {
            link = self.next(switch, link, target, state, &mut load).link;
            visit(link);
        }
    }
}

impl Route for Routing {
    fn virtual_channels(&self) -> u8 {
        match self {
            Routing::FatTree(routing) => routing.virtual_channels(),
        }
    }

    #[inline]
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, load: impl FnMut(LinkId) -> u64) -> Step {
        match self {
            Routing::FatTree(routing) => routing.next(switch, input, target, state, load),
        }
    }
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

/// D-mod-K or adaptive way up, deterministic way down.
///
/// D-mod-K for a PGFT (Zahavi 2010): a switch of level `l` sends to the parent port
/// `floor(target / (w1 ... wl)) mod (w_(l+1) p_(l+1))`. On the way down the child is given, and among parallel cables the same
/// formula, taken at the child, selects.
#[derive(Clone, Debug)]
pub struct FatTreeRouting {
    switches: Vec<TreeSwitch>,
    adaptive: bool,
}

impl FatTreeRouting {
    fn new(topology: &Topology, tree: &FatTree, adaptive: bool) -> Self {
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
        FatTreeRouting { switches, adaptive }
    }

    /// Adaptive packets for one target leave the switches of a pod (those of one level above the same hosts) by any link up, and come
    /// back into a pod by any link down: one bundle per pod and direction.
    fn bundles(&self, topology: &Topology) -> Vec<LinkId> {
        let mut bundles: Vec<LinkId> = (0..topology.links().len() as LinkId).collect();
        if !self.adaptive {
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
    fn next(&mut self, switch: u32, _input: LinkId, target: u32, _state: &mut RouteState, mut load: impl FnMut(LinkId) -> u64) -> Step {
        let at = &mut self.switches[switch as usize];
        let below = target.wrapping_sub(at.first_host);
        let link = if below < at.span {
            let child = below / at.child_span;
            if at.cables == 1 {
                at.first_link + child
            } else {
                // floor(floor(target / (w1 ... w(l-1))) mod (wl pl) / wl), with the two divisions taken as one.
                at.first_link + child * at.cables + target / at.divisor % at.cables
            }
        } else if !self.adaptive {
            at.first_up + target / at.divisor % at.ups
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
