//! Modules, and the gateways between them.

use crate::fault::FaultText;
use crate::model::{Gateways, Machine, MessageProtocol};
use crate::node::Node;
use crate::placement::PlacementError;
use crate::{FaultError, NodeId};
use narrows_message::{Bridging, GatewayPlace, Module};
use narrows_portals::ProcessId;
use narrows_portals::bridge::GATEWAY_PID;
use narrows_units::{Rail, SimTime};
use std::collections::BTreeSet;

impl Machine {
    /// The gateways, and what each is.
    pub fn gateways(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let gateways = self.parts().filter(|(_, node)| !node.gateway.is_empty());
        gateways.flat_map(|(first, node)| (first.0..first.0 + node.count).map(move |id| (NodeId(id), node)))
    }

    /// The first rail of a network.
    fn rail_of(&self, fabric: &str) -> Option<Rail> {
        let place = self.fabrics.iter().position(|own| own.name == fabric)?;
        Some(Rail(place as u8 * self.rails as u8))
    }

    /// The network of a rail.
    fn fabric_of(&self, rail: Rail) -> String {
        self.fabrics.get(rail.index() / self.rails.max(1) as usize).map_or_else(String::new, |fabric| fabric.name.clone())
    }

    /// How ranks on these nodes, which have no network in common, reach each other.
    ///
    /// # Errors
    /// There is no gateway, or no protocol, between two of them.
    pub(crate) fn bridging(&self, nodes: &[NodeId]) -> Result<Bridging, PlacementError> {
        let planes = self.planes();
        let home =
            |node: NodeId| planes.iter().find(|plane| plane.nodes.binary_search(&node).is_ok()).map_or(Rail::FIRST, |plane| plane.rail);
        let homes: Vec<Rail> = NodeId::first(self.node.count).map(home).collect();
        let place = |(node, of): (NodeId, &Node)| GatewayPlace {
            process: ProcessId::on(node, GATEWAY_PID),
            name: self.host_name(node),
            rails: of.gateway.iter().filter_map(|fabric| self.rail_of(fabric)).collect(),
        };
        let Gateways { fragment, buffers, choice, cost, per_kib, detection } = self.message.gateway;
        let gateways: Vec<GatewayPlace> = self.gateways().map(place).collect();
        let deaths = self.gateway_deaths()?;
        let number = |node: NodeId| gateways.iter().position(|gateway| gateway.process.node() == Some(node));
        let deaths = deaths.into_iter().filter_map(|(node, at)| Some((number(node)?, at))).collect();
        let modules: BTreeSet<Rail> = nodes.iter().map(|node| homes[node.index()]).collect();
        let module = |home: Rail| {
            let of: Vec<NodeId> = nodes.iter().filter(|node| homes[node.index()] == home).copied().collect();
            let rails = self.common_rails(&of)?.into_iter().map(|rail| self.rail_config(rail)).collect();
            Ok(Module { name: self.fabric_of(home), rails })
        };
        let modules = modules.into_iter().map(module).collect::<Result<_, PlacementError>>()?;
        let bridging = Bridging { modules, homes, gateways, fragment: fragment.get(), buffers, choice, cost, per_kib, deaths, detection };
        if let Some((one, other)) = bridging.cut(|_| true) {
            let of = |rail: Rail| {
                nodes.iter().find(|node| bridging.homes[node.index()] == rail).map_or_else(String::new, |&node| self.host_name(node))
            };
            let on = |rail: Rail| (of(rail), self.fabric_of(rail));
            return Err(PlacementError::NoGateway { one: on(one), other: on(other) });
        }
        if self.message.protocol == MessageProtocol::Exanet {
            return Err(PlacementError::Firmware);
        }
        Ok(bridging)
    }

    /// Gateways that die, and when.
    ///
    /// # Errors
    /// It is no gateway.
    pub fn gateway_deaths(&self) -> Result<Vec<(NodeId, SimTime)>, FaultError> {
        let mut deaths = Vec::new();
        for text in &self.network.faults {
            let Some((node, at)) = FaultText::parse(text)?.dies else { continue };
            let all: Vec<NodeId> = self.gateways().map(|(node, _)| node).collect();
            if !all.contains(&NodeId(node)) {
                let there = all.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ");
                return Err(FaultError::Gateway { text: text.clone(), node, there: if there.is_empty() { "none".into() } else { there } });
            }
            deaths.push((NodeId(node), at));
        }
        Ok(deaths)
    }
}
