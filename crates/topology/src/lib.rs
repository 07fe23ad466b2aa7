//! What the network looks like and which way a packet goes through it.
//!
//! * [`Topology`] is a graph: hosts, switches, directed links ([`graph`]).
//! * [`FatTree`] builds one switch, k-ary n-trees and the general PGFT ([`fat_tree`]), [`Dragonfly`] dragonflies
//!   ([`dragonfly`]), [`DragonflyPlus`] dragonfly+ or Megafly ([`dragonfly_plus`]), [`Torus`] tori, meshes and the
//!   ExaNeSt hierarchy ([`torus`]), [`HyperX`] ([`hyperx`]); [`graph_file`] reads any graph, and [`import`]
//!   makes one of other tools' files. [`failures`] takes links and switches out.
//! * [`Routing`] says, switch by switch, which link a packet takes next ([`routing`]): in fat trees
//!   `fat_tree_routing.rs`, elsewhere the minimal ways of the topology, by its rule or from a [`table`], detours
//!   through way points (`guide.rs`), and the least loaded of several minimal ways (`adaptive.rs`). [`deadlock`] checks
//!   it, and [`analysis`] says what the two can carry.
//!
//! Links `0..hosts` are the injection links of the hosts, in order; the output ports of switch `s`
//! follow as one block, [`Topology::outputs`]. An output port and its link are the same number, so
//! a model of the network can keep its state in plain arrays. Rates and latencies are the machine file's: a
//! [`LinkClass`] tells which of its links each one is. Only links of a graph file can have their own
//! ([`Topology::speeds`]).
//!
//! ```
//! use narrows_topology::{FatTree, RouteState, Routing, RoutingKind, RoutingOptions};
//!
//! let tree = FatTree::k_ary_n_tree(8, 2).unwrap().build();
//! assert_eq!((tree.hosts(), tree.switches(), tree.diameter()), (64, 16, 4));
//!
//! let mut routing = Routing::new(RoutingKind::DModK, &tree, RoutingOptions::default()).unwrap();
//! let path = routing.path(&tree, 0, 63, RouteState::default(), |_| 0);
//! assert_eq!(path.len(), 4, "up, up, down, down");
//! ```

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_types, clippy::disallowed_methods)]

mod adaptive;
pub mod analysis;
pub mod deadlock;
mod divide;
pub mod dragonfly;
pub mod dragonfly_plus;
pub mod failures;
pub mod fat_tree;
mod fat_tree_routing;
pub mod graph;
pub mod graph_file;
mod guide;
pub mod hyperx;
pub mod import;
mod names;
pub mod routing;
pub mod table;
pub mod torus;

pub use adaptive::AdaptiveMinimal;
pub use deadlock::Deadlock;
pub use dragonfly::{Arrangement, Dragonfly, DragonflyError};
pub use dragonfly_plus::{DragonflyPlus, DragonflyPlusParameters};
pub use failures::{FailedLink, FailureError};
pub use fat_tree::{FatTree, FatTreeError};
pub use fat_tree_routing::FatTreeRouting;
pub use graph::{Counts, GraphBuilder, GraphError, Link, LinkClass, LinkId, LinkSpeed, Shape, Topology, TopologyError, Vertex};
pub use graph_file::GraphFileError;
pub use guide::Detours;
pub use hyperx::HyperX;
pub use routing::{Route, RouteState, Routing, RoutingError, RoutingKind, RoutingOptions, Step};
pub use table::{AdaptiveTable, CutOff, Table};
pub use torus::{Torus, TorusError, TorusParameters};
