//! Which link comes next: one small type per way of routing, behind [`Route`], chosen by [`RoutingKind`].
//!
//! A decision is taken when the head of a packet is at a switch. It may look at the load of that switch's outputs and
//! keep state in the packet ([`RouteState`]), which Valiant, UGAL and the ladders of virtual channels need
//! (`guide.rs`). What a [`Routing`] itself remembers, turns and random streams, belongs to one switch each: copies of
//! it that serve different switches together do what one would do alone.

use crate::adaptive::{AdaptiveMinimal, Productive};
use crate::dragonfly::Dragonfly;
use crate::dragonfly_plus::DragonflyPlus;
use crate::fat_tree_routing::{FatTreeRouting, UpPort};
use crate::graph::{LinkId, Shape, Topology};
use crate::guide::{Detours, Guide, Policy};
use crate::hyperx::HyperX;
use crate::table::{AdaptiveTable, Table};
use crate::torus::Torus;
use narrows_keys::choice;
use serde::{Deserialize, Serialize};

choice! {
    /// The ways of routing that a machine file can name.
    #[derive(Hash, Default)]
    #[non_exhaustive]
    pub enum RoutingKind {
        /// The topology's own: D-mod-K in fat trees, dimension order in tori, the fewest links between groups in
        /// dragonflies.
        #[default]
        Minimal = "minimal",
        /// Fat trees: the target's number selects the way up (Zahavi 2010). All packets to one target take one way from
        /// one source.
        DModK = "d-mod-k",
        /// Fat trees: the source's number selects the way up.
        SModK = "s-mod-k",
        /// Fat trees: up by the least loaded output, ties round robin; down as D-mod-K. Tori, meshes and HyperX: the
        /// least loaded link that leads nearer. Graphs: the least loaded of equal ways.
        Adaptive = "adaptive",
        /// Tori and meshes: one dimension after the other, with a dateline in every ring.
        DimensionOrder = "dimension-order",
        /// Through a way point drawn for each packet (Valiant 1982).
        Valiant = "valiant",
        /// The lesser load of the minimal way and one through a way point, by the outputs of the source's switch.
        UgalLocal = "ugal-l",
        /// The same by the true loads in the source's group.
        UgalGlobal = "ugal-g",
        /// UGAL-L, decided again at each switch of the source's group.
        Progressive = "par",
        /// Ways from a table: the fewest links, made for the graph as it is; targets spread over equal ways.
        Table = "table",
    }
}

impl RoutingKind {
    /// Those that fit a topology.
    pub fn of(shape: &Shape) -> &'static [RoutingKind] {
        use RoutingKind::{Adaptive, DModK, DimensionOrder, Minimal, Progressive, SModK, Table, UgalGlobal, UgalLocal, Valiant};
        match shape {
            Shape::FatTree(_) => &[Minimal, DModK, SModK, Adaptive],
            Shape::Dragonfly(_) | Shape::DragonflyPlus(_) => &[Minimal, Valiant, UgalLocal, UgalGlobal, Progressive],
            Shape::Torus(_) | Shape::HyperX(_) => &[Minimal, DimensionOrder, Adaptive, Valiant, UgalLocal],
            Shape::Table(table) if table.is_grouped() => &[Minimal, Table, Valiant, UgalLocal, UgalGlobal, Progressive],
            Shape::Table(_) => &[Minimal, Table, Adaptive, Valiant, UgalLocal],
        }
    }
}

impl Shape {
    /// The virtual channels that a routing needs here; `None` where it does not fit.
    pub fn virtual_channels(&self, kind: RoutingKind) -> Option<u8> {
        if !RoutingKind::of(self).contains(&kind) {
            return None;
        }
        match self {
            // Up, then down: free of cycles (fact sheet 2.4).
            Shape::FatTree(_) => Some(1),
            Shape::Dragonfly(guide) => Policy::of(kind).map(|policy| guide.channels(policy)),
            Shape::DragonflyPlus(guide) => Policy::of(kind).map(|policy| guide.channels(policy)),
            Shape::Torus(guide) if kind == RoutingKind::Adaptive => Some(guide.adaptive_channels()),
            Shape::HyperX(guide) if kind == RoutingKind::Adaptive => Some(guide.adaptive_channels()),
            Shape::Table(table) if kind == RoutingKind::Adaptive => Some(AdaptiveTable::channels(table)),
            Shape::Torus(guide) => Policy::of(kind).map(|policy| guide.channels(policy)),
            Shape::HyperX(guide) => Policy::of(kind).map(|policy| guide.channels(policy)),
            Shape::Table(guide) => Policy::of(kind).map(|policy| guide.channels(policy)),
        }
    }
}

/// What a routing is given beside its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoutingOptions {
    /// For what it draws.
    pub seed: u64,
    /// UGAL: how much the minimal way is favoured, in the unit of the loads (times the links of a way).
    pub threshold: u64,
}

/// Why a routing does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// This topology needs another routing.
    #[error("routing \"{routing}\" does not fit {topology}; expected one of {expected}")]
    DoesNotFit {
        /// What was asked for.
        routing: RoutingKind,
        /// On what.
        topology: String,
        /// What would do.
        expected: String,
    },
}

/// What a packet carries for its routing. [`RouteState::default`] at the source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct RouteState {
    /// Free for the routing: a way point, a source.
    pub word: u32,
    /// The virtual channel (within its virtual network) that the packet is on.
    pub channel: u8,
    /// Free for the routing: how far it is.
    pub phase: u8,
    /// Not the routing's: two bytes that the network may use, so that a packet stays one cache line.
    pub carried: u16,
}

/// The next link of a packet and the virtual channel on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// An output of the switch that was asked about.
    pub link: LinkId,
    /// Within the packet's virtual network; the caller keeps it in [`RouteState::channel`].
    pub channel: u8,
}

/// A way of routing.
pub trait Route {
    /// Virtual channels per virtual network that keep it free of deadlock.
    fn virtual_channels(&self) -> u8;

    /// What [`Route::next`] will say if neither loads nor draws have a say in it; `None` where they may. For looking
    /// ahead.
    fn fixed(&self, switch: u32, input: LinkId, target: u32, state: &RouteState) -> Option<Step>;

    /// Where a packet for `target` goes that came into `switch` on `input`. `load` gives the backlog of an output, in
    /// any one unit; it is asked for outputs of `switch`, and under UGAL-G for those of other switches of the same
    /// [`Topology::group`].
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, load: impl FnMut(LinkId) -> u64) -> Step;

    /// Forgets whose turn it is, and draws anew.
    fn rest(&mut self);
}

/// Every way of routing, dispatched without a pointer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Routing {
    /// D-mod-K, S-mod-K and adaptive up.
    FatTree(FatTreeRouting),
    /// Minimal, Valiant, UGAL, PAR in a dragonfly.
    Dragonfly(Detours<Dragonfly>),
    /// The same in a dragonfly+.
    DragonflyPlus(Detours<DragonflyPlus>),
    /// Dimension order, Valiant, UGAL in a torus.
    Torus(Detours<Torus>),
    /// The same in a HyperX.
    HyperX(Detours<HyperX>),
    /// The least loaded of the minimal ways of a torus.
    AdaptiveTorus(AdaptiveMinimal<Torus>),
    /// Of a HyperX.
    AdaptiveHyperX(AdaptiveMinimal<HyperX>),
    /// Shortest ways from a table, and detours.
    Table(Detours<Table>),
    /// The least loaded of equal ways from a table.
    AdaptiveTable(AdaptiveTable),
}

/// Does the same for every way of routing.
macro_rules! each {
    ($routing:expr, $inner:ident => $do:expr) => {
        match $routing {
            Routing::FatTree($inner) => $do,
            Routing::Dragonfly($inner) => $do,
            Routing::DragonflyPlus($inner) => $do,
            Routing::Torus($inner) => $do,
            Routing::HyperX($inner) => $do,
            Routing::AdaptiveTorus($inner) => $do,
            Routing::AdaptiveHyperX($inner) => $do,
            Routing::Table($inner) => $do,
            Routing::AdaptiveTable($inner) => $do,
        }
    };
}

impl Routing {
    /// The routing `kind` for `topology`.
    ///
    /// # Errors
    /// [`RoutingError::DoesNotFit`].
    pub fn new(kind: RoutingKind, topology: &Topology, options: RoutingOptions) -> Result<Routing, RoutingError> {
        let fitting = RoutingKind::of(topology.shape());
        let refused = || RoutingError::DoesNotFit {
            routing: kind,
            topology: topology.name().to_owned(),
            expected: fitting.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", "),
        };
        if !fitting.contains(&kind) {
            return Err(refused());
        }
        fn detours<G: Guide + Clone>(guide: &G, policy: Policy, topology: &Topology, options: RoutingOptions) -> Detours<G> {
            Detours::new(guide.clone(), policy, topology.switches(), options)
        }
        let policy = Policy::of(kind).ok_or_else(refused);
        Ok(match topology.shape() {
            Shape::FatTree(tree) => {
                let up = match kind {
                    RoutingKind::SModK => UpPort::OfSource,
                    RoutingKind::Adaptive => UpPort::LeastLoaded,
                    _ => UpPort::OfTarget,
                };
                Routing::FatTree(FatTreeRouting::new(topology, tree, up))
            }
            Shape::Dragonfly(guide) => Routing::Dragonfly(detours(guide, policy?, topology, options)),
            Shape::DragonflyPlus(guide) => Routing::DragonflyPlus(detours(guide, policy?, topology, options)),
            Shape::Torus(guide) if kind == RoutingKind::Adaptive => Routing::AdaptiveTorus(AdaptiveMinimal::new(guide.clone())),
            Shape::HyperX(guide) if kind == RoutingKind::Adaptive => Routing::AdaptiveHyperX(AdaptiveMinimal::new(guide.clone())),
            Shape::Table(table) if kind == RoutingKind::Adaptive => Routing::AdaptiveTable(AdaptiveTable::new(table.clone())),
            Shape::Torus(guide) => Routing::Torus(detours(guide, policy?, topology, options)),
            Shape::HyperX(guide) => Routing::HyperX(detours(guide, policy?, topology, options)),
            Shape::Table(guide) => Routing::Table(detours(guide, policy?, topology, options)),
        })
    }

    /// The links from `source` to `target`, host links included, as a packet would take them if `load` did not change
    /// on the way. Empty when both are the same host.
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

    /// For every link, the first of those among which this routing spreads the packets of one message; its own number
    /// when packets of one message follow each other. A model without packets takes such a bundle as one link of their
    /// summed rate.
    pub fn bundles(&self, topology: &Topology) -> Vec<LinkId> {
        match self {
            Routing::FatTree(routing) => routing.bundles(topology),
            _ => (0..topology.links().len() as LinkId).collect(),
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
            let step = self.next(switch, link, target, state, &mut load);
            state.channel = step.channel;
            link = step.link;
            visit(link);
        }
    }
}

impl Route for Routing {
    fn virtual_channels(&self) -> u8 {
        each!(self, routing => routing.virtual_channels())
    }

    #[inline]
    fn fixed(&self, switch: u32, input: LinkId, target: u32, state: &RouteState) -> Option<Step> {
        each!(self, routing => routing.fixed(switch, input, target, state))
    }

    #[inline]
    fn next(&mut self, switch: u32, input: LinkId, target: u32, state: &mut RouteState, load: impl FnMut(LinkId) -> u64) -> Step {
        each!(self, routing => routing.next(switch, input, target, state, load))
    }

    fn rest(&mut self) {
        each!(self, routing => routing.rest());
    }
}
