//! Messages within nodes that have several processors: over the buses between them.
//!
//! A message takes all buses of its route at once, when the last of them is free, and goes as fast as the slowest: its
//! header is there after the sum of the latencies, its last byte a copy at that rate later. Each bus is free again when
//! it would have carried the message alone: behind a slow bus, others share a fast one.
//!
//! ```
//! use narrows_fabric::{IntraNodeConfig, NodeRoutes, within::Buses};
//! use narrows_units::{ByteRate, Bytes, SimTime};
//! let bus = |ns, gb: u64| IntraNodeConfig { latency: SimTime::from_ns(ns), rate: ByteRate(gb * 1_000_000_000) };
//! let routes = NodeRoutes { buses: vec![bus(100, 10), bus(200, 5)], routes: vec![vec![0, 1], vec![0]] };
//! let mut buses = Buses::new(&routes, 1);
//! let far = buses.pass(SimTime::ZERO, 0, 1, Bytes(5000));
//! assert_eq!((far.head(), far.tail()), (SimTime::from_ns(300), SimTime::from_ns(1300)));
//! // The first bus was busy for 500 ns.
//! let near = buses.pass(SimTime::ZERO, 0, 2, Bytes(0));
//! assert_eq!(near.tail(), SimTime::from_ns(600));
//! ```

use crate::NodeRoutes;
use narrows_units::{ByteRate, Bytes, SimTime};

/// The buses of nodes, each first come, first served.
#[derive(Debug, Default)]
pub struct Buses {
    routes: NodeRoutes,
    /// By node, then bus: when it is free.
    free: Vec<SimTime>,
}

/// When a message passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passes {
    /// It begins.
    pub begin: SimTime,
    /// Its source is read.
    pub copied: SimTime,
    /// From there to the target, and from the beginning to the header at the target.
    pub latency: SimTime,
}

impl Passes {
    /// Its header is at the target.
    pub fn head(&self) -> SimTime {
        self.begin + self.latency
    }

    /// All of it is there.
    pub fn tail(&self) -> SimTime {
        self.copied + self.latency
    }
}

impl Buses {
    /// Those of so many nodes, all free.
    pub fn new(routes: &NodeRoutes, nodes: usize) -> Buses {
        Buses { routes: routes.clone(), free: vec![SimTime::ZERO; nodes * routes.buses.len()] }
    }

    /// A message of a node on a route, from 1 on.
    ///
    /// # Panics
    /// There is no such route.
    pub fn pass(&mut self, now: SimTime, node: usize, route: u16, payload: Bytes) -> Passes {
        let Buses { routes: NodeRoutes { buses, routes }, free } = self;
        let route = &routes[usize::from(route) - 1];
        let free = &mut free[node * buses.len()..][..buses.len()];
        let of_route = || route.iter().map(|&bus| usize::from(bus));
        let begin = of_route().map(|bus| free[bus]).fold(now, SimTime::max);
        let rate = of_route().map(|bus| buses[bus].rate).min().unwrap_or(ByteRate(u64::MAX));
        let latency = of_route().fold(SimTime::ZERO, |sum, bus| sum + buses[bus].latency);
        for bus in of_route() {
            // No two begin at one time, so that their order is known.
            free[bus] = (begin + buses[bus].rate.time_for(payload)).max(begin + SimTime(1));
        }
        Passes { begin, copied: begin + rate.time_for(payload), latency }
    }
}
