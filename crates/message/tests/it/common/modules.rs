// Two modules of a node each, with one to three gateways between them.

use narrows_message::{Bridging, GatewayChoice, GatewayPlace, Module, RailConfig};
use narrows_portals::bridge::GATEWAY_PID;
use narrows_portals::{NodeId, ProcessId};
use narrows_units::{Rail, SimTime};
use proptest::prelude::*;
use std::ops::Range;

/// With fragments of so many bytes.
pub fn modules(fragment: Range<u64>) -> impl Strategy<Value = Bridging> {
    let choice = prop_oneof![Just(GatewayChoice::Static), Just(GatewayChoice::LeastLoaded)];
    (1..4u32, fragment, 1..4u32, choice).prop_map(|(gateways, fragment, buffers, choice)| bridging(gateways, fragment, buffers, choice))
}

/// Each module has two rails; gateways are on the first one.
pub fn bridging(gateways: u32, fragment: u64, buffers: u32, choice: GatewayChoice) -> Bridging {
    let homes = vec![Rail(0), Rail(1)];
    let module = |home: Rail| Module {
        name: home.0.to_string(),
        rails: [home.0, home.0 + 2].map(|rail| RailConfig { rail: Rail(rail), rate: 1, minimum: 0 }).to_vec(),
    };
    let place = |number| GatewayPlace {
        process: ProcessId::on(NodeId(2 + number), GATEWAY_PID),
        name: format!("gateway{number}"),
        rails: homes.clone(),
    };
    Bridging {
        modules: homes.iter().map(|&home| module(home)).collect(),
        gateways: (0..gateways).map(place).collect(),
        homes,
        fragment,
        buffers,
        choice,
        cost: SimTime(1),
        per_kib: SimTime(1),
        deaths: Vec::new(),
        detection: SimTime::ZERO,
    }
}
