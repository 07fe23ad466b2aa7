//! HyperX (Ahn et al., "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC 2009): switches
//! on a grid, and in every dimension each is cabled to each. Flattened butterflies and full meshes are special cases.
//!
//! Switches are numbered with the first dimension running fastest; host `n` is at switch `n / p`.

use crate::adaptive::Productive;
use crate::divide::Divisor;
use crate::graph::{GraphBuilder, GraphError, LinkClass, LinkId, MAX_VERTICES, Shape, Topology};
use crate::guide::{Guide, Policy, Toward};
use crate::routing::{RouteState, Step};
use crate::torus::{MAX_DIMENSIONS, TorusError};
use std::fmt;

/// The numbers of a HyperX, checked, and dimension-order routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperX {
    lengths: Vec<u32>,
    by_length: Vec<Divisor>,
    per_switch: u32,
    cables: u32,
    hosts: u32,
    switches: u32,
    /// Ports between switches.
    ports: u32,
    by_hosts: Divisor,
    by_cables: Divisor,
}

impl HyperX {
    /// Switches along each dimension, hosts of each switch, cables between two switches of a line. `hosts`: the first
    /// so many places are taken.
    ///
    /// # Errors
    /// See [`TorusError`].
    pub fn new(lengths: &[u32], per_switch: u32, cables: u32, hosts: Option<u32>) -> Result<HyperX, TorusError> {
        if lengths.is_empty() || lengths.len() > MAX_DIMENSIONS {
            return Err(TorusError::Dimensions { given: lengths.len() });
        }
        let least = lengths.iter().copied().min().unwrap_or(0);
        for (what, number) in [("a length", least), ("hosts per switch", per_switch), ("cables", cables)] {
            if number == 0 {
                return Err(TorusError::Zero { what });
            }
        }
        let switches = lengths.iter().fold(1u64, |product, &length| product.saturating_mul(u64::from(length)));
        let places = switches.saturating_mul(u64::from(per_switch));
        let vertices = switches.saturating_add(places);
        if vertices >= MAX_VERTICES {
            return Err(TorusError::TooLarge { vertices });
        }
        let ports = lengths.iter().map(|&length| u64::from(length - 1) * u64::from(cables)).sum::<u64>();
        if ports + u64::from(per_switch) > u64::from(u16::MAX) {
            return Err(GraphError::TooManyPorts { switch: 0 }.into());
        }
        let asked = hosts.unwrap_or(places as u32);
        if asked == 0 || u64::from(asked) > places {
            return Err(TorusError::Hosts { asked, places });
        }
        Ok(HyperX {
            lengths: lengths.to_vec(),
            by_length: lengths.iter().map(|&length| Divisor::new(length)).collect(),
            per_switch,
            cables,
            hosts: asked,
            switches: switches as u32,
            ports: ports as u32,
            by_hosts: Divisor::new(per_switch),
            by_cables: Divisor::new(cables),
        })
    }

    /// Switches along each dimension.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// Ports of a full switch.
    pub fn radix(&self) -> u32 {
        self.ports + self.per_switch
    }

    /// Hosts before a switch; those of switches before it.
    fn hosts_before(&self, switch: u32) -> u32 {
        switch.saturating_mul(self.per_switch).min(self.hosts)
    }

    /// All switches have the same ports but for hosts.
    #[inline]
    fn first(&self, switch: u32) -> LinkId {
        self.hosts + switch * self.ports + self.hosts_before(switch)
    }

    /// The graph.
    pub fn build(self) -> Topology {
        let mut graph = GraphBuilder::new(self.hosts, self.switches);
        let plane = self.switches / self.lengths[self.lengths.len() - 1];
        graph.groups(|switch| switch / plane);
        for switch in 0..self.switches {
            let (mut stride, mut offset) = (1, 0);
            for &length in &self.lengths {
                let at = switch / stride % length;
                for peer in at + 1..length {
                    for cable in 0..self.cables {
                        let one = (switch, offset + (peer - 1) * self.cables + cable);
                        let other = (switch + (peer - at) * stride, offset + at * self.cables + cable);
                        graph.cable_at(one, other, LinkClass::Switch);
                    }
                }
                stride *= length;
                offset += (length - 1) * self.cables;
            }
            for (index, host) in (self.hosts_before(switch)..self.hosts_before(switch + 1)).enumerate() {
                graph.host_at(host, (switch, self.ports + index as u32));
            }
        }
        graph.build(self.to_string(), Shape::HyperX(self)).expect("a checked HyperX has valid cables")
    }
}

impl Guide for HyperX {
    #[inline]
    fn home(&self, host: u32) -> u32 {
        self.by_hosts.quotient(host)
    }

    fn has_hosts(&self, switch: u32) -> bool {
        self.hosts_before(switch) < self.hosts_before(switch + 1)
    }

    #[inline]
    fn ejection(&self, switch: u32, host: u32) -> LinkId {
        self.first(switch) + self.ports + self.by_hosts.remainder(host)
    }

    #[inline]
    fn toward(&self, switch: u32, target: u32, spread: u32) -> Toward {
        let (mut rest, mut target_rest, mut offset) = (switch, target, 0);
        for (dimension, by_length) in self.by_length.iter().enumerate() {
            let (at, there);
            (rest, at) = by_length.divide(rest);
            (target_rest, there) = by_length.divide(target_rest);
            if at != there {
                let cable = if self.cables == 1 { 0 } else { self.by_cables.remainder(spread) };
                let peer = there - u32::from(there > at);
                return Toward { link: self.first(switch) + offset + peer * self.cables + cable, rung: dimension as u8 };
            }
            offset += (self.lengths[dimension] - 1) * self.cables;
        }
        unreachable!("a packet at its switch goes along no dimension")
    }

    fn hops(&self, switch: u32, target: u32, _spread: u32) -> u32 {
        let (mut rest, mut target_rest, mut sum) = (switch, target, 0);
        for by_length in &self.by_length {
            let (at, there);
            (rest, at) = by_length.divide(rest);
            (target_rest, there) = by_length.divide(target_rest);
            sum += u32::from(at != there);
        }
        sum
    }

    fn spreads(&self) -> u32 {
        self.cables
    }

    fn waypoints(&self) -> u32 {
        self.switches
    }

    #[inline]
    fn waypoint(&self, switch: u32) -> u32 {
        switch
    }

    #[inline]
    fn toward_waypoint(&self, switch: u32, waypoint: u32, spread: u32) -> Toward {
        self.toward(switch, waypoint, spread)
    }

    fn hops_through(&self, switch: u32, waypoint: u32, target: u32, spread: u32) -> u32 {
        self.hops(switch, waypoint, spread) + self.hops(waypoint, target, spread)
    }

    fn next_in_group(&self, _switch: u32, _link: LinkId) -> Option<u32> {
        None
    }

    /// Dimensions rise; the way from a way point on begins anew.
    fn channels(&self, policy: Policy) -> u8 {
        if policy == Policy::Minimal { 1 } else { 2 }
    }
}

impl Productive for HyperX {
    fn productive(&self, switch: u32, home: u32, spread: u32, state: &RouteState, mut visit: impl FnMut(Step)) {
        let (mut rest, mut home_rest, mut offset) = (switch, home, 0);
        let cable = if self.cables == 1 { 0 } else { self.by_cables.remainder(spread) };
        let channel = if state.phase == 0 { 0 } else { state.channel + 1 };
        for (by_length, length) in self.by_length.iter().zip(&self.lengths) {
            let (at, there);
            (rest, at) = by_length.divide(rest);
            (home_rest, there) = by_length.divide(home_rest);
            if at != there {
                let peer = there - u32::from(there > at);
                visit(Step { link: self.first(switch) + offset + peer * self.cables + cable, channel });
            }
            offset += (length - 1) * self.cables;
        }
    }

    fn phase_behind(&self, _switch: u32, _home: u32) -> u8 {
        1
    }

    fn rise(&self, _switch: u32, _link: LinkId) -> u8 {
        1
    }

    fn adaptive_channels(&self) -> u8 {
        self.lengths.iter().filter(|&&length| length > 1).count().max(1) as u8
    }
}

/// `HyperX 4x4, 4 hosts per switch`
impl fmt::Display for HyperX {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> = self.lengths.iter().map(u32::to_string).collect();
        write!(f, "HyperX {}, {} hosts per switch", lengths.join("x"), self.per_switch)?;
        if self.cables > 1 {
            write!(f, ", {} cables", self.cables)?;
        }
        if u64::from(self.hosts) < u64::from(self.switches) * u64::from(self.per_switch) {
            write!(f, ", for {} hosts", self.hosts)?;
        }
        Ok(())
    }
}
