//! Links and switches that are out of order: which hosts that cuts off, and how the others still reach each other.
//!
//! A failed link keeps its number and its ports; no way takes it. Fat trees go on with their own routings, past the
//! failures; other topologies get a [`Table`], with the ranks of links, and so the virtual channels, that their rule
//! had.

use crate::fat_tree_routing::Reach;
use crate::graph::{LinkClass, LinkId, Shape, Topology, Vertex};
use crate::guide::Guide;
use crate::table::{CutOff, Table};

/// Cables between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedLink {
    /// The switches, in any order.
    pub between: [u32; 2],
    /// Which of several cables, in the order of the ports of the switch with the lower number; none: all.
    pub cable: Option<u32>,
}

/// Why failures make no machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailureError {
    /// No name of a link.
    #[error("{text:?} names no link; expected {}, with switches {names}", FailureError::LINK)]
    Name {
        /// What was given.
        text: String,
        /// The switches that there are.
        names: String,
    },
    /// No name of a port.
    #[error("{text:?} names no port of a switch; expected such as leaf0:7, with switches {names}")]
    PortName {
        /// What was given.
        text: String,
        /// The switches that there are.
        names: String,
    },
    /// There is no such switch.
    #[error("there is no switch {switch} to fail: they are {names}")]
    NoSwitch {
        /// What was asked for.
        switch: String,
        /// Those that there are.
        names: String,
    },
    /// There is no such port.
    #[error("there is no port {port} of switch {switch}: they are 0 to {}", ports.saturating_sub(1))]
    NoPort {
        /// The switch.
        switch: String,
        /// What was asked for.
        port: u32,
        /// Ports.
        ports: u32,
    },
    /// There is no such cable.
    #[error("there is no cable {}between switches {} and {} to fail: there are {cables}", cable.map_or(String::new(), |cable| format!("#{cable} ")), between[0], between[1])]
    NoLink {
        /// The switches.
        between: [u32; 2],
        /// The cable.
        cable: Option<u32>,
        /// Cables that there are.
        cables: u32,
    },
    /// Hosts of a failed switch.
    #[error(
        "switch {switch} has failed, which cuts off its hosts {first} to {last}; leave them out (node.count, --nodes), or let single links fail"
    )]
    Hosts {
        /// The switch.
        switch: u32,
        /// Its first host.
        first: u32,
        /// Its last host.
        last: u32,
    },
    /// Switches with hosts that no way joins any more.
    #[error("the failures cut off switch {} from switch {}, and so host {from_host} from host {to_host}", cut.from, cut.to)]
    CutOff {
        /// The switches.
        cut: CutOff,
        /// A host of the one.
        from_host: u32,
        /// A host of the other.
        to_host: u32,
    },
}

impl FailureError {
    /// What names cables between switches.
    pub const LINK: &str = "two switches and perhaps one of several cables, such as 3-17, leaf3-spine1 or 3-17#0";
}

impl Topology {
    fn check_switch(&self, switch: u32) -> Result<(), FailureError> {
        if switch < self.switches() {
            return Ok(());
        }
        Err(FailureError::NoSwitch { switch: switch.to_string(), names: self.switch_names() })
    }

    /// The cables of a name, each by its link from the switch with the lower number.
    ///
    /// # Errors
    /// [`FailureError::NoSwitch`], [`FailureError::NoLink`].
    pub fn cables(&self, FailedLink { between, cable }: FailedLink) -> Result<Vec<LinkId>, FailureError> {
        between.iter().try_for_each(|&switch| self.check_switch(switch))?;
        let (low, high) = (between[0].min(between[1]), between[0].max(between[1]));
        let ends_there = |link: &LinkId| self.links()[*link as usize].to == Vertex::Switch(high);
        let cables: Vec<LinkId> = self.outputs(low).filter(ends_there).collect();
        match cable {
            Some(index) if (index as usize) < cables.len() => Ok(vec![cables[index as usize]]),
            None if !cables.is_empty() => Ok(cables),
            _ => Err(FailureError::NoLink { between, cable, cables: cables.len() as u32 }),
        }
    }

    /// The same with failures.
    ///
    /// # Errors
    /// See [`FailureError`].
    pub fn with_failures(self, links: &[FailedLink], switches: &[u32]) -> Result<Topology, FailureError> {
        if links.is_empty() && switches.is_empty() {
            return Ok(self);
        }
        let mut failed = Vec::new();
        for &named in links {
            failed.extend(self.cables(named)?);
        }
        for &switch in switches {
            self.check_switch(switch)?;
            failed.extend(self.outputs(switch));
            self.check_hosts(switch)?;
        }
        self.without_links(&failed)
    }

    /// A switch may fail: it has no hosts.
    ///
    /// # Errors
    /// [`FailureError::Hosts`].
    pub fn check_hosts(&self, switch: u32) -> Result<(), FailureError> {
        let hosts: Vec<u32> = (0..self.hosts()).filter(|&host| self.switch_of(host) == switch).collect();
        match (hosts.first(), hosts.last()) {
            (Some(&first), Some(&last)) => Err(FailureError::Hosts { switch, first, last }),
            _ => Ok(()),
        }
    }

    /// The name of the cable of a link, as faults have it: `node5`, `3-17`, or `3-17#1` for one of several.
    pub fn cable_name(&self, link: LinkId) -> String {
        match (self.links()[link as usize].from, self.links()[link as usize].to) {
            (Vertex::Host(host), _) | (_, Vertex::Host(host)) => format!("node{host}"),
            (Vertex::Switch(from), Vertex::Switch(to)) => {
                let cables = self.cables(FailedLink { between: [from, to], cable: None }).unwrap_or_default();
                let reverse = self.links()[link as usize].reverse;
                match cables.iter().position(|&cable| cable == link || cable == reverse) {
                    Some(place) if cables.len() > 1 => format!("{from}-{to}#{place}"),
                    _ => format!("{from}-{to}"),
                }
            }
        }
    }

    /// The same without some links, in both directions.
    ///
    /// # Errors
    /// [`FailureError::CutOff`].
    pub fn without_links(mut self, links: &[LinkId]) -> Result<Topology, FailureError> {
        if links.is_empty() {
            return Ok(self);
        }
        let mut failed = vec![false; self.links().len()];
        for &link in links {
            failed[link as usize] = true;
            failed[self.links()[link as usize].reverse as usize] = true;
        }
        let named = |topology: &Topology, cut: CutOff| {
            let host_of = |switch| (0..topology.hosts()).find(|&host| topology.switch_of(host) == switch).unwrap_or(0);
            FailureError::CutOff { cut, from_host: host_of(cut.from), to_host: host_of(cut.to) }
        };
        self.set_failed(failed);
        let is_failed = |link: LinkId| self.is_failed(link);
        let by_class = |classes: &dyn Fn(&crate::graph::Link) -> u32| Some(self.links().iter().map(classes).collect::<Vec<u32>>());
        let table = match self.shape() {
            Shape::FatTree(tree) => {
                Reach::new(&self, tree).map_err(|cut| named(&self, cut))?;
                return Ok(self);
            }
            Shape::Dragonfly(_) => Table::new(&self, is_failed, by_class(&|link| u32::from(link.class == LinkClass::Global)), true, &[]),
            Shape::DragonflyPlus(plus) => {
                let leaves = plus.parameters().leaves;
                let rank = |link: &crate::graph::Link| match (link.from, link.class) {
                    (_, LinkClass::Global) => 1,
                    (Vertex::Switch(from), _) if plus.place(from) < leaves => 0,
                    _ => 2,
                };
                Table::new(&self, is_failed, by_class(&rank), true, &[])
            }
            Shape::HyperX(guide) => {
                let rank = |link: &crate::graph::Link| match (link.from, link.to) {
                    (Vertex::Switch(from), Vertex::Switch(to)) => u32::from(guide.toward(from, to, 0).rung),
                    _ => 0,
                };
                Table::new(&self, is_failed, by_class(&rank), false, &[])
            }
            Shape::Torus(_) | Shape::Table(_) => Table::new(&self, is_failed, None, false, &[]),
        };
        let table = table.map_err(|cut| named(&self, cut))?;
        self.set_shape(Shape::Table(table));
        Ok(self)
    }
}
